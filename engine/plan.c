/* What every plan has: names of rows, its streams, and its end. */
#include "engine/plan.h"

#include <string.h>

#include "engine/base/alloc.h"
#include "engine/tier.h"

static const char *const row_names[] = {
    [DT_ROW_PLACE] = "PLACE",
    [DT_ROW_RELEASE] = "RELEASE",
    [DT_ROW_COMPUTE] = "COMPUTE",
    [DT_ROW_COPY_OUT] = "COPY_OUT",
    [DT_ROW_COPY_IN] = "COPY_IN",
    [DT_ROW_WAIT] = "WAIT",
};
_Static_assert(DT_COUNT(row_names) == DT_ROW_KINDS, "a name a kind");

const char *dt_row_name(int kind)
{
    return row_names[kind];
}

void dt_plan_destroy(dt_plan *p)
{
    if (p == NULL)
        return;
    dt_free(p->refused);
    dt_free(p->node);
    dt_free(p->text);
    dt_free(p->tensor);
    dt_free(p->op);
    dt_free(p->arg);
    dt_free(p->row);
    dt_free(p->line);
    dt_free(p->reason);
    dt_free(p);
}

static const dt_stream usual[DT_USUAL_STREAMS] = {
    [DT_USUAL_COMPUTE] = {DT_STREAM_COMPUTE, 0, 'c'},
    [DT_USUAL_OUT] = {DT_STREAM_OUT, DT_TIER_HOST, 'o'},
    [DT_USUAL_IN] = {DT_STREAM_IN, DT_TIER_HOST, 'i'},
    [DT_USUAL_WRITE] = {DT_STREAM_OUT, DT_TIER_DISK, 'w'},
    [DT_USUAL_READ] = {DT_STREAM_IN, DT_TIER_DISK, 'r'},
    [DT_USUAL_HOST] = {DT_STREAM_COMPUTE, DT_TIER_HOST, 'h'},
};
_Static_assert((int)DT_USUAL_STREAMS <= (int)DT_MAX_STREAMS, "they fit");
_Static_assert((int)DT_USUAL_COMPUTE == (int)DT_MAIN_STREAM, "what computes is the first");
_Static_assert(DT_USUAL_HOST + 1 == DT_USUAL_STREAMS, "the last one can be left out");

int dt_usual_streams(dt_stream to[DT_MAX_STREAMS], bool host)
{
    memcpy(to, usual, sizeof usual);
    return host ? DT_USUAL_STREAMS : DT_USUAL_HOST;
}

int dt_usual_stream_of(const dt_stream *s)
{
    for (int i = 0; i < DT_USUAL_STREAMS; i++)
        if (usual[i].kind == s->kind && usual[i].tier == s->tier)
            return i;
    return -1;
}

const char *dt_stream_name(const dt_stream *s)
{
    const bool disk = s->tier == DT_TIER_DISK;
    if (s->kind == DT_STREAM_COMPUTE)
        return s->tier == DT_TIER_HOST ? "host" : "compute";
    return s->kind == DT_STREAM_OUT ? (disk ? "write" : "out") : (disk ? "read" : "in");
}

int dt_plan_stream(const dt_plan *p, dt_stream_kind kind, int tier)
{
    for (int s = 0; s < p->n_stream; s++)
        if (p->stream[s].kind == kind && p->stream[s].tier == tier)
            return s;
    return -1;
}

int dt_plan_kind(const dt_plan *p)
{
    for (int k = 0; k < DT_PROGRAM_KINDS; k++)
        if (strcmp(p->program, dt_program_kind_name((dt_program_kind)k)) == 0)
            return k;
    return -1;
}

/* By fields: between them lie bytes that nobody writes. */
static bool same_row(const dt_row *a, const dt_row *b)
{
    return a->kind == b->kind && a->stream == b->stream && a->tier == b->tier && a->op == b->op &&
           a->tensor == b->tensor && a->over == b->over && a->event == b->event &&
           a->reason == b->reason && a->codec == b->codec && a->off == b->off &&
           a->slot == b->slot && a->bytes == b->bytes && a->stored == b->stored;
}

bool dt_plan_same_rows(const dt_plan *a, const dt_plan *b)
{
    bool same = a->n_row == b->n_row;
    for (size_t i = 0; same && i < a->n_row; i++)
        same = same_row(&a->row[i], &b->row[i]);
    return same;
}
