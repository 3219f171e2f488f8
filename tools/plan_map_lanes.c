/* The lower part of a plan's picture: where in the network the ops are, what they are, and what is
 * copied meanwhile. */
#include "tools/plan_map_lanes.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/alloc.h"
#include "session/human.h"
#include "tools/xml.h"

enum { LEAST_COPY = 2, LEAST_STAGE = 6, APART = 3, STAGES = 30, DEEPEST = 4 };
#define NARROWEST 2.0 /* of a copy that is waited for at once */

/* ---- stages ---- */

/* The network's layers go by names such as "layer1.0.conv1": so many of their parts are a stage.
 * The last part of an op's name is what it does. */
static size_t stage_length(const char *op, int depth)
{
    const char *last = strrchr(op, '.');
    const char *at = op;
    for (int i = 0; i < depth && last != NULL; i++) {
        const char *dot = strchr(at, '.');
        if (dot == NULL || dot >= last)
            return (size_t)(last - op);
        at = dot + 1;
    }
    return at > op ? (size_t)(at - 1 - op) : strlen(op);
}

typedef struct stage {
    const char *name;
    size_t length;
    int64_t from, to;
} stage;

/* The next run of ops of one stage, from op @from (row *row) on. */
static stage next_stage(const dti_map *m, int depth, size_t *row, int64_t from)
{
    stage s = {.name = NULL, .from = from, .to = from};
    for (; *row < m->p->n_row; (*row)++) {
        if (m->p->row[*row].kind != DT_ROW_COMPUTE)
            continue;
        const char *op = m->p->op[m->p->row[*row].op].name;
        const size_t n = stage_length(op, depth);
        if (s.name != NULL && (n != s.length || strncmp(op, s.name, n) != 0))
            return s;
        s.name = op;
        s.length = n;
        s.to++;
    }
    return s;
}

/* Whether @n bytes of a name stand apart from the next stage's. */
static bool has_room(const dti_map *m, const stage *s, const char *name, size_t n)
{
    return dti_map_across(m, (double)s->to) - dti_map_across(m, (double)s->from) >=
           dti_map_wide(name, n) + APART;
}

/* How the network is told in stages: by so many parts of names; @spans: neighbours are drawn as
 * one, as most have no room for a name. */
typedef struct staging {
    int depth;
    bool spans;
} staging;

/* The fewest parts of names that tell parts of the network apart: several stages, none of them most
 * of it. Where one is, as "features" of VGG, spans of what it has in it. */
static staging staging_of(const dti_map *m)
{
    staging best = {.depth = 1};
    int64_t least = INT64_MAX;
    for (int depth = 1; depth <= DEEPEST; depth++) {
        int64_t largest = 0, n = 0, told = 0, at = 0;
        size_t row = 0;
        while (at < m->turn) {
            const stage s = next_stage(m, depth, &row, at);
            largest = s.to - s.from > largest ? s.to - s.from : largest;
            at = s.to;
            n++;
            told += has_room(m, &s, s.name, s.length);
        }
        if (n > STAGES && depth > 1)
            break;
        if (largest < least)
            best = (staging){depth, 2 * told < n};
        least = largest < least ? largest : least;
        if (n >= 4 && largest <= 6 * m->turn / 10)
            break;
    }
    if (m->turn > 0 && least > 6 * m->turn / 10)
        best = (staging){best.depth + 1, true};
    return best;
}

/* Where the last part of a stage's name begins. */
static size_t last_part(const stage *s)
{
    size_t n = s->length;
    while (n > 0 && s->name[n - 1] != '.')
        n--;
    return n;
}

/* Whether the second goes on where the first is: in the same pass and the same part. */
static bool goes_on(const dti_map *m, const stage *a, const stage *b)
{
    const size_t n = last_part(a);
    return b->name != NULL && b->from != m->turn && last_part(b) == n &&
           strncmp(a->name, b->name, n) == 0 &&
           (a->length != b->length || strncmp(a->name, b->name, a->length) != 0);
}

/* An arrow, as backward goes from the last one to the first. */
#define TO "\xe2\x86\x92"

/* The next stage, or a span of them that has room for its name, "features.0" TO "4"; where it has
 * not, at the end of them, the name of what it is part of. */
static stage next_named(
    const dti_map *m, staging by, size_t *row, int64_t from, char name[DT_TENSOR_NAME_BYTES])
{
    stage s = next_stage(m, by.depth, row, from);
    snprintf(name, DT_TENSOR_NAME_BYTES, "%.*s", (int)s.length, s.name != NULL ? s.name : "");
    while (by.spans && s.name != NULL && !has_room(m, &s, name, strlen(name))) {
        size_t ahead = *row;
        const stage next = next_stage(m, by.depth, &ahead, s.to);
        if (!goes_on(m, &s, &next) || has_room(m, &next, next.name, next.length))
            break;
        const size_t last = last_part(&next);
        snprintf(name, DT_TENSOR_NAME_BYTES, "%.*s" TO "%.*s", (int)s.length, s.name,
            (int)(next.length - last), next.name + last);
        s.to = next.to;
        *row = ahead;
    }
    if (by.spans && s.name != NULL && last_part(&s) > 0 && !has_room(m, &s, name, strlen(name)))
        snprintf(name, DT_TENSOR_NAME_BYTES, "%.*s", (int)last_part(&s) - 1, s.name);
    return s;
}

static void stages(const dti_map *m, double y)
{
    const staging by = staging_of(m);
    size_t row = 0;
    for (int64_t at = 0; at < m->ops;) {
        char name[DT_TENSOR_NAME_BYTES];
        const stage s = next_named(m, by, &row, at, name);
        if (s.name == NULL)
            break;
        const double x = dti_map_across(m, (double)s.from), end = dti_map_across(m, (double)s.to);
        const bool room = has_room(m, &s, name, strlen(name));
        if (m->page || end - x >= LEAST_STAGE)
            fprintf(
                m->f, "<g data-x=\"%.1f\"><path class=\"line\" d=\"M%.1f %.1fv5\"/></g>", x, x, y);
        if (m->page || room) {
            fprintf(m->f,
                "<g data-x=\"%.1f\"><text class=\"middle%s\" data-room=\"%.1f\" x=\"%.1f\" "
                "y=\"%.1f\">",
                (x + end) / 2, room ? "" : " tight", end - x, (x + end) / 2, y + 11);
            dti_xml_text(m->f, name);
            fputs("</text></g>", m->f);
        }
        at = s.to;
    }
    putc('\n', m->f);
}

/* Where backward begins. */
static void turn(const dti_map *m, double y, double bottom)
{
    const double x = dti_map_across(m, (double)m->turn);
    if (m->turn == 0 || m->turn == m->ops)
        return;
    fprintf(m->f,
        "<g data-x=\"%.1f\"><path class=\"line dash\" d=\"M%.1f %.1fV%.1f\"/>\n"
        "<text class=\"end quiet\" x=\"%.1f\" y=\"%.1f\">forward</text>\n"
        "<text class=\"quiet\" x=\"%.1f\" y=\"%.1f\">backward</text></g>\n",
        x, x, m->top, bottom, x - DTI_MAP_GAP, y + 11, x + DTI_MAP_GAP, y + 11);
}

/* ---- lanes ---- */

static bool is_in(const dti_map *m, size_t row, int stream)
{
    const dt_row *r = &m->p->row[row];
    return (r->kind == DT_ROW_COMPUTE || dti_map_is_copy(r)) && r->stream == stream;
}

static bool has_lane(const dti_map *m, int stream)
{
    bool any = false;
    for (size_t i = 0; i < m->p->n_row && !any; i++)
        any = is_in(m, i, stream);
    return any;
}

static void label(const dti_map *m, int stream, double y, double tall)
{
    fprintf(
        m->f, "<text class=\"end\" x=\"%d\" y=\"%.1f\">", DTI_MAP_LEFT - DTI_MAP_GAP, y + tall - 2);
    dti_map_lane_name(m->p, stream, m->f);
    fprintf(m->f, "</text>\n");
}

/* A group a kind of op. */
static void ops_lane(const dti_map *m, int stream, double y)
{
    dti_map_lane(m->f, m->page, y, DTI_MAP_LANE);
    for (int kind = 0; kind < DT_OP_KINDS; kind++) {
        int64_t now = 0;
        fprintf(m->f, "<g class=\"%s\" data-of=\"op\">\n", dt_op_kind_name((dt_op_kind)kind));
        for (size_t i = 0; i < m->p->n_row; i++) {
            const dt_row *r = &m->p->row[i];
            const double x = dti_map_across(m, (double)now);
            if (r->kind != DT_ROW_COMPUTE)
                continue;
            now++;
            if (r->stream != stream || m->p->op[r->op].kind != kind ||
                !dti_map_begin_in_lane(
                    m->f, m->page, x, y, dti_map_across(m, (double)now) - x, r->op, ""))
                continue;
            dti_xml_text(m->f, m->p->op[r->op].name);
            fprintf(m->f, ", %s", dt_op_kind_name((dt_op_kind)kind));
            dti_map_end(m->f);
        }
        fputs("</g>\n", m->f);
    }
    dti_map_lane_end(m->f);
}

static int larger_first(const void *va, const void *vb)
{
    const dti_map_mark *a = va, *b = vb;
    if (a->bytes != b->bytes)
        return a->bytes > b->bytes ? -1 : 1;
    return (a->row > b->row) - (a->row < b->row);
}

/* As tall as it has bytes, beside the largest copy of the plan. */
static void copy(const dti_map *m, const dti_map_mark *k, double y)
{
    const dt_row *r = &m->p->row[k->row];
    const dt_plan_tensor *t = &m->p->tensor[r->tensor];
    char bytes[DT_HUMAN_BYTES];
    const double x = dti_map_across(m, (double)k->now);
    const double wide = dti_map_across(m, (double)k->until) - x;
    const double share = m->largest > 0 ? (double)r->bytes / (double)m->largest : 0;
    const double tall = share * DTI_MAP_COPIES < LEAST_COPY ? LEAST_COPY : share * DTI_MAP_COPIES;
    if (!dti_map_begin(m->f, m->page, dt_role_name((dt_role)t->role), x, y + DTI_MAP_COPIES - tall,
            wide < NARROWEST ? NARROWEST : wide, tall, r->tensor))
        return;
    dti_xml_text(m->f, t->name);
    fprintf(m->f, ", %s", dt_human_bytes(bytes, r->bytes));
    dti_map_end(m->f);
}

/* The smaller ones stand before the larger ones that are under way with them. */
static void copies_lane(const dti_map *m, int stream, double y)
{
    int64_t now = m->ops;
    size_t n = 0;
    for (int32_t e = 0; e < m->p->n_event; e++)
        m->waited[e] = m->ops;
    for (size_t i = m->p->n_row; i-- > 0;) {
        const dt_row *r = &m->p->row[i];
        now -= r->kind == DT_ROW_COMPUTE;
        if (r->kind == DT_ROW_WAIT)
            m->waited[r->event] = now;
        if (is_in(m, i, stream))
            m->mark[n++] =
                (dti_map_mark){i, now, r->event >= 0 ? m->waited[r->event] : now, r->bytes};
    }
    qsort(m->mark, n, sizeof *m->mark, larger_first);
    dti_map_lane(m->f, false, y, DTI_MAP_COPIES);
    fputs("<g class=\"copies\" data-of=\"tensor\">\n", m->f);
    for (size_t i = 0; i < n; i++)
        copy(m, &m->mark[i], y);
    fputs("</g>\n", m->f);
    dti_map_lane_end(m->f);
}

static double lane_tall(const dti_map *m, int stream)
{
    return dti_map_of_ops(m->p, stream) ? DTI_MAP_LANE : DTI_MAP_COPIES;
}

double dti_map_lanes_tall(const dti_map *m)
{
    double tall = 2 * DTI_MAP_LINE;
    for (int s = 0; s < m->p->n_stream; s++)
        if (has_lane(m, s))
            tall += lane_tall(m, s) + DTI_MAP_GAP;
    return tall;
}

/* What the height of a copy means. */
static void largest(const dti_map *m, double y)
{
    char bytes[DT_HUMAN_BYTES];
    if (m->largest > 0)
        fprintf(m->f,
            "<text class=\"end quiet\" x=\"%d\" y=\"%.1f\">copies: the tallest is %s</text>\n",
            DTI_MAP_WIDTH - DTI_MAP_RIGHT, y + 11, dt_human_bytes(bytes, m->largest));
}

void dti_map_lanes(const dti_map *m, double y)
{
    stages(m, y - DTI_MAP_GAP);
    y += DTI_MAP_LINE - DTI_MAP_GAP;
    for (int s = 0; s < m->p->n_stream; s++) {
        const double tall = lane_tall(m, s);
        if (!has_lane(m, s))
            continue;
        label(m, s, y, tall);
        if (dti_map_of_ops(m->p, s))
            ops_lane(m, s, y);
        else
            copies_lane(m, s, y);
        y += tall + DTI_MAP_GAP;
    }
    turn(m, y - DTI_MAP_GAP, y + 4);
    largest(m, y - DTI_MAP_GAP);
}
