/* A plan as a picture: across, the ops in their order; upwards, addresses. */
#include "tools/plan_map.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/alloc.h"
#include "session/human.h"

enum { WIDTH = 1000, LEFT = 84, RIGHT = 16, TOP = 74, HEIGHT = 400, LANE = 12, GAP = 6 };
static const double mib = 1 << 20;
#define NARROWEST 2.0 /* of a copy that is waited for at once */

/* By role and by kind of op; told apart by eyes that do not see all colours (after Okabe and Ito).
 */
static const char *const role_color[DT_ROLE_COUNT] = {[DT_ROLE_INPUT] = "#f0e442",
    [DT_ROLE_WEIGHTS] = "#0072b2",
    [DT_ROLE_GRADIENTS] = "#d55e00",
    [DT_ROLE_OPTIMIZER] = "#6a5d8f",
    [DT_ROLE_BUFFERS] = "#333333",
    [DT_ROLE_ACTIVATIONS] = "#56b4e9",
    [DT_ROLE_ACTIVATION_GRADIENTS] = "#e69f00",
    [DT_ROLE_STASH] = "#009e73",
    [DT_ROLE_DERIVED] = "#9ad0f0",
    [DT_ROLE_WORKSPACE] = "#a0a0a0"};
static const char *const kind_color[DT_OP_KINDS] = {[DT_OP_FORWARD] = "#56b4e9",
    [DT_OP_BACKWARD] = "#e69f00",
    [DT_OP_RECOMPUTE] = "#009e73",
    [DT_OP_REORDER] = "#a0a0a0",
    [DT_OP_UPDATE] = "#d55e00",
    [DT_OP_FETCH] = "#f0e442",
    [DT_OP_OUT] = "#a0a0a0",
    [DT_OP_IN] = "#a0a0a0",
    [DT_OP_ENCODE] = "#cc79a7",
    [DT_OP_DECODE] = "#8f4d74"};

/* @n: ops; @turn: the first of backward, @n without one; @since @off: by tensor, at which op and
 * where it was placed, -1: it is not */
typedef struct picture {
    const dt_plan *p;
    FILE *f;
    int64_t n, turn, *since;
    uint64_t *off;
    struct mark *mark; /* room for all rows */
} picture;

static bool is_copy(const dt_row *r)
{
    return r->kind == DT_ROW_COPY_OUT || r->kind == DT_ROW_COPY_IN;
}

static bool is_op(const dt_row *r)
{
    return r->kind == DT_ROW_COMPUTE;
}

static void put_text(const picture *m, const char *text)
{
    for (; *text != '\0'; text++)
        if (*text == '<')
            fputs("&lt;", m->f);
        else if (*text == '&')
            fputs("&amp;", m->f);
        else
            putc(*text, m->f);
}

static double across(const picture *m, int64_t op)
{
    return LEFT + (double)(WIDTH - LEFT - RIGHT) * (double)op / (double)m->n;
}

static double up(const picture *m, uint64_t address)
{
    return TOP + HEIGHT * (1 - (double)address / (double)m->p->peak);
}

/* Begins a rectangle that says its name when pointed at; its text follows, then end_box. */
static void begin_box(
    const picture *m, const char *color, const char *class, double x, double y, double w, double h)
{
    fprintf(m->f,
        "<rect%s fill=\"%s\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\"><title>", class,
        color, x, y, w < 0.2 ? 0.2 : w, h < 0.2 ? 0.2 : h);
}

static void end_box(const picture *m)
{
    fputs("</title></rect>\n", m->f);
}

/* ---- addresses ---- */

static void bytes_box(const picture *m, int role, const char *class, uint64_t off, uint64_t bytes,
    int64_t from, int64_t to)
{
    const double y = up(m, off + bytes), x = across(m, from);
    begin_box(m, role_color[role], class, x, y, across(m, to) - x, up(m, off) - y);
}

static void persistent(const picture *m)
{
    for (size_t i = 0; i < m->p->n_tensor; i++) {
        const dt_plan_tensor *t = &m->p->tensor[i];
        char role[DT_HUMAN_BYTES];
        if (!dt_plan_resident(t))
            continue;
        bytes_box(m, t->role, "", t->home, t->bytes, 0, m->n);
        put_text(m, t->name);
        fprintf(
            m->f, ", %s, %.2f MiB", dt_human_role(role, (dt_role)t->role), (double)t->bytes / mib);
        end_box(m);
    }
}

static void leave(picture *m, int32_t tensor, int64_t now)
{
    const dt_plan_tensor *t = &m->p->tensor[tensor];
    char role[DT_HUMAN_BYTES];
    if (m->since[tensor] < 0)
        return;
    bytes_box(m, t->role, " class=\"t\"", m->off[tensor], t->bytes, m->since[tensor], now);
    put_text(m, t->name);
    fprintf(m->f, ", %s, %.2f MiB", dt_human_role(role, (dt_role)t->role), (double)t->bytes / mib);
    end_box(m);
    m->since[tensor] = -1;
}

/* A tensor that takes another's bytes ends its box. */
static void transients(picture *m)
{
    const dt_plan *p = m->p;
    int64_t now = 0;
    for (size_t i = 0; i < p->n_row; i++) {
        const dt_row *r = &p->row[i];
        now += is_op(r);
        if (r->kind == DT_ROW_PLACE) {
            if (r->over >= 0)
                leave(m, r->over, now);
            m->since[r->tensor] = now;
            m->off[r->tensor] = r->off;
        } else if (r->kind == DT_ROW_RELEASE) {
            leave(m, r->tensor, now);
        }
    }
    for (size_t i = 0; i < p->n_tensor; i++)
        leave(m, (int32_t)i, m->n);
}

/* ---- lanes ---- */

/* The ops done when a copy is waited for at last; it may be done sooner. */
static int64_t copied(const picture *m, size_t row, int64_t now)
{
    const int32_t event = m->p->row[row].event;
    for (size_t i = row + 1; i < m->p->n_row && event >= 0; i++) {
        now += is_op(&m->p->row[i]);
        if (m->p->row[i].kind == DT_ROW_WAIT && m->p->row[i].event == event)
            return now;
    }
    return now;
}

static double lane_top(int lane)
{
    return TOP + HEIGHT + 2 * GAP + lane * (LANE + GAP);
}

/* A row of a lane, and the ops before it. */
typedef struct mark {
    size_t row;
    int64_t now;
    uint64_t bytes;
} mark;

static int smaller_first(const void *va, const void *vb)
{
    const mark *a = va, *b = vb;
    if (a->bytes != b->bytes)
        return a->bytes < b->bytes ? -1 : 1;
    return (a->row > b->row) - (a->row < b->row);
}

static void one_mark(const picture *m, const mark *k, int lane)
{
    const dt_plan *p = m->p;
    const dt_row *r = &p->row[k->row];
    const bool copy = is_copy(r);
    const double x = across(m, k->now);
    const double wide = across(m, copy ? copied(m, k->row, k->now) : k->now + 1) - x;
    begin_box(m, dti_plan_map_color(p, r), copy ? " class=\"c\"" : "", x, lane_top(lane),
        wide < NARROWEST ? NARROWEST : wide, LANE);
    put_text(m, copy ? p->tensor[r->tensor].name : p->op[r->op].name);
    if (copy)
        fprintf(m->f, ", %.2f MiB", (double)r->bytes / mib);
    else
        fprintf(m->f, ", %s", dt_op_kind_name((dt_op_kind)p->op[r->op].kind));
    end_box(m);
}

const char *dti_plan_map_color(const dt_plan *p, const dt_row *r)
{
    return is_copy(r) ? role_color[p->tensor[r->tensor].role] : kind_color[p->op[r->op].kind];
}

void dti_plan_map_lane_name(const dt_plan *p, int stream, FILE *f)
{
    const dt_stream *s = &p->stream[stream];
    if (s->kind == DT_STREAM_COMPUTE)
        fprintf(f, "ops");
    else
        fprintf(f, "%s %s", s->kind == DT_STREAM_OUT ? "to" : "from", dt_tier_name(s->tier));
}

/* The largest copies come last, so that a small one which waits as long does not hide them. */
static void one_lane(const picture *m, int stream, int lane)
{
    const dt_plan *p = m->p;
    int64_t now = 0;
    size_t n = 0;
    fprintf(m->f, "<text class=\"r\" x=\"%d\" y=\"%.1f\">", LEFT - GAP, lane_top(lane) + LANE - 2);
    dti_plan_map_lane_name(p, stream, m->f);
    fprintf(m->f, "</text>\n");
    for (size_t i = 0; i < p->n_row; i++) {
        const dt_row *r = &p->row[i];
        if ((is_op(r) || is_copy(r)) && r->stream == stream)
            m->mark[n++] = (mark){i, now, is_copy(r) ? r->bytes : 0};
        now += is_op(r);
    }
    qsort(m->mark, n, sizeof *m->mark, smaller_first);
    for (size_t i = 0; i < n; i++)
        one_mark(m, &m->mark[i], lane);
}

/* The ops, then each stream that copies anything; returns how many lanes. */
static int lanes(const picture *m, bool draw)
{
    int n = 0;
    for (int s = 0; s < m->p->n_stream; s++) {
        size_t used = 0;
        for (size_t i = 0; i < m->p->n_row && used == 0; i++)
            used = (is_op(&m->p->row[i]) || is_copy(&m->p->row[i])) && m->p->row[i].stream == s;
        if (used == 0)
            continue;
        if (draw)
            one_lane(m, s, n);
        n++;
    }
    return n;
}

/* ---- around them ---- */

static double entry(const picture *m, double x, double y, const char *color, const char *name)
{
    fprintf(m->f, "<rect fill=\"%s\" x=\"%.0f\" y=\"%.0f\" width=\"10\" height=\"10\"/>", color, x,
        y - 9);
    fprintf(m->f, "<text x=\"%.0f\" y=\"%.0f\">%s</text>\n", x + 14, y, name);
    return x + 26 + 6.2 * (double)strlen(name);
}

static void legend(const picture *m, double below)
{
    bool role[DT_ROLE_COUNT] = {0}, kind[DT_OP_KINDS] = {0};
    char name[DT_HUMAN_BYTES];
    double x = LEFT;
    for (size_t i = 0; i < m->p->n_tensor; i++)
        role[m->p->tensor[i].role] = true;
    for (int i = 0; i < DT_ROLE_COUNT; i++)
        if (role[i])
            x = entry(m, x, 48, role_color[i], dt_human_role(name, (dt_role)i));
    x = LEFT;
    for (size_t i = 0; i < m->p->n_op; i++)
        kind[m->p->op[i].kind] = true;
    for (int i = 0; i < DT_OP_KINDS; i++)
        if (kind[i])
            x = entry(m, x, below, kind_color[i], dt_op_kind_name((dt_op_kind)i));
    for (size_t i = 0; i < m->p->n_row; i++)
        if (is_copy(&m->p->row[i])) {
            fprintf(m->f, "<text x=\"%.0f\" y=\"%.0f\">copies: in the colours on top</text>\n", x,
                below);
            break;
        }
}

static void axis(const picture *m)
{
    const uint64_t at[] = {0, m->p->persistent, m->p->peak};
    for (size_t i = 0; i < DT_COUNT(at); i++)
        if (i != 1 || (up(m, 0) - up(m, at[1]) > 12 && up(m, at[1]) - TOP > 12))
            fprintf(m->f,
                "<text class=\"r\" x=\"%d\" y=\"%.1f\">%.1f MiB</text>\n"
                "<path class=\"l\" d=\"M%d %.1fH%d\"/>\n",
                LEFT - GAP, up(m, at[i]) + 4, (double)at[i] / mib, LEFT - 4, up(m, at[i]),
                WIDTH - RIGHT);
}

/* Where backward begins. */
static void turn(const picture *m, double below)
{
    const double x = across(m, m->turn);
    if (m->turn == 0 || m->turn == m->n)
        return;
    fprintf(m->f,
        "<path class=\"l\" stroke-dasharray=\"3 3\" d=\"M%.1f %dV%.1f\"/>\n"
        "<text class=\"r\" x=\"%.1f\" y=\"%d\">forward</text>\n"
        "<text x=\"%.1f\" y=\"%d\">backward</text>\n",
        x, TOP, below, x - GAP, TOP - GAP, x + GAP, TOP - GAP);
}

static void draw(picture *m, const dt_timeline *t)
{
    const dt_plan *p = m->p;
    const double below = lane_top(lanes(m, false)) + 2 * GAP;
    const double tall = below + GAP + (t != NULL ? dti_plan_map_time_height(p, t) : 0);
    fprintf(m->f,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %.0f\" "
        "font-family=\"system-ui, sans-serif\" font-size=\"11\">\n"
        "<style>text{fill:#222}.r{text-anchor:end}.b{fill:#fff}.l{stroke:#888;stroke-width:.5}"
        ".t,.c{stroke:#fff;stroke-width:.25}.c{stroke-width:.5}"
        "@media(prefers-color-scheme:dark){text{fill:#ddd}.b{fill:#111}.t,.c{stroke:#111}}</"
        "style>\n<rect class=\"b\" width=\"%d\" height=\"%.0f\"/>\n",
        WIDTH, tall, WIDTH, tall);
    fprintf(m->f, "<text x=\"%d\" y=\"24\" font-size=\"15\">", LEFT);
    put_text(m, p->net);
    fprintf(m->f, ", batch %" PRId64 ", ", p->batch);
    put_text(m, p->policy);
    fprintf(m->f, ": %.1f MiB, of which %.1f stay</text>\n", (double)p->peak / mib,
        (double)p->persistent / mib);
    axis(m);
    persistent(m);
    transients(m);
    lanes(m, true);
    turn(m, below - 2 * GAP);
    legend(m, below);
    if (t != NULL)
        dti_plan_map_time(p, t, m->f, below + GAP, LEFT, WIDTH - RIGHT);
    fputs("</svg>\n", m->f);
}

dt_status dti_plan_map(const dt_plan *p, const dt_timeline *t, FILE *f, dt_err *err)
{
    picture m = {.p = p,
        .f = f,
        .since = dt_alloc(p->n_tensor + 1, sizeof *m.since),
        .off = dt_alloc(p->n_tensor + 1, sizeof *m.off),
        .mark = dt_alloc(p->n_row + 1, sizeof *m.mark)};
    dt_status st = DT_OK;
    if (m.since == NULL || m.off == NULL || m.mark == NULL)
        st = DT_FAIL(err, DT_E_NOMEM, "no memory to draw the plan");
    for (size_t i = 0; st == DT_OK && i < p->n_tensor; i++)
        m.since[i] = -1;
    for (size_t i = 0; i < p->n_row; i++) {
        if (is_op(&p->row[i]) && m.turn == m.n)
            m.turn += p->op[p->row[i].op].kind != DT_OP_BACKWARD;
        m.n += is_op(&p->row[i]);
    }
    if (m.n == 0)
        m.n = 1;
    if (st == DT_OK)
        draw(&m, t);
    dt_free(m.since);
    dt_free(m.off);
    dt_free(m.mark);
    return st;
}
