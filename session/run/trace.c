/* What a run executed, a line a row, into a file of comma-separated values. Lines are collected and
 * written between runs of plans; what cannot be written ends the trace and not the run. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/base/alloc.h"
#include "engine/base/io.h"
#include "engine/base/numbers_text.h"
#include "session/may_write.h"
#include "session/run/run_internal.h"

enum { BUFFER = 1 << 16, LINE = 512 };

struct dti_run_trace {
    dt_run *r;
    dt_trace trace;
    char *path;
    int fd; /* -1: it has failed */
    off_t at;
    size_t n;
    int64_t step; /* the latest that was trained */
    char buffer[BUFFER];
};

static void flush(dti_run_trace *t)
{
    dt_err err; /* large, and empty but for a failure */
    if (t->fd < 0)
        return;
    dt_err_clear(&err);
    if (dt_write_at(t->fd, t->path, t->buffer, t->n, t->at, &err) != DT_OK) {
        dti_run_tell(t->r, "trace", "%.*s; the run goes on without a trace",
            (int)strcspn(err.text, "\n"), err.text);
        (void)dt_close(t->fd);
        t->fd = -1;
    }
    t->at += (off_t)t->n;
    t->n = 0;
}

static const char *kind_of(const dt_trace_row *row)
{
    if (row->kind == DT_ROW_COMPUTE)
        return "compute";
    if (row->tier == DT_TIER_INPUT)
        return "fetch";
    return row->kind == DT_ROW_COPY_OUT ? "copy_out" : "copy_in";
}

static const char *stream_of(const dti_run_trace *t, const dt_trace_row *row)
{
    const dt_plan *p = t->r->s->plans->planned[row->plan]->plan;
    return dt_stream_name(&p->stream[p->row[row->row].stream]);
}

/* Steps are counted from 1, as in metrics.jsonl; evaluation belongs to the one before it. */
static void ran(void *self, const dt_trace_row *row)
{
    dti_run_trace *t = self;
    const dt_ready *plan = &t->r->rig.ready[row->plan];
    if (plan->kind != DT_PROGRAM_EVAL)
        t->step = row->step + 1;
    if (t->fd < 0)
        return;
    if (t->n > BUFFER - LINE)
        flush(t);
    const int n = dt_snprintf(t->buffer + t->n, LINE,
        "%" PRId64 ",%s%s,%" PRId64 ",%" PRId32 ",%s,%s,%s,%" PRIu64 ",%.9f,%.9f\n", t->step,
        dt_program_kind_name(plan->kind), plan->dense ? "_dense" : "", plan->n, row->row,
        stream_of(t, row), row->name, kind_of(row), row->bytes, row->begin, row->end);
    t->n += n < LINE ? (size_t)n : 0; /* names have less than half of it */
}

dt_status dt_run_trace(dt_run *r, const char *path, dt_err *err)
{
    if (path == NULL || path[0] == '\0')
        return DT_OK;
    DT_CHECK(dt_may_write(r->s, path, err));
    dti_run_trace *t = dt_alloc(1, sizeof *t);
    if (t == NULL)
        return DT_FAIL(err, DT_E_NOMEM, "no memory for a trace");
    dti_run_trace_close(r);
    r->trace = t; /* closed with the run */
    *t = (dti_run_trace){.r = r, .trace = {t, ran}, .path = dt_strdup(path), .fd = -1};
    if (t->path == NULL)
        return DT_FAIL(err, DT_E_NOMEM, "no memory for a trace");
    t->fd =
        dt_open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0666); /* as it is, until the run begins */
    if (t->fd < 0)
        return DT_FAIL(err, DT_E_IO, "create the trace '%s': %s", path, strerror(errno));
    t->n = (size_t)snprintf(
        t->buffer, LINE, "step,program,samples,row,stream,name,kind,bytes,begin,end\n");
    return DT_OK;
}

dt_status dti_run_trace_begin(dt_run *r, dt_err *err)
{
    const dti_run_trace *t = r->trace;
    struct stat st;
    if (t == NULL)
        return DT_OK;
    if (fstat(t->fd, &st) == 0 && S_ISREG(st.st_mode) && ftruncate(t->fd, 0) != 0)
        return DT_FAIL(err, DT_E_IO, "cut the trace '%s': %s", t->path, strerror(errno));
    return dt_runner_set_trace(r->rig.runner, &t->trace, err);
}

void dti_run_trace_flush(dt_run *r)
{
    if (r->trace != NULL)
        flush(r->trace);
}

void dti_run_trace_close(dt_run *r)
{
    dti_run_trace *t = r->trace;
    if (t == NULL)
        return;
    if (t->fd >= 0)
        (void)dt_close(t->fd);
    dt_free(t->path);
    dt_free(t);
    r->trace = NULL;
}
