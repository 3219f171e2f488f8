/* The part of a plan's picture that goes by seconds: as predicted or simulated and, where it was
 * traced, as it was measured, on one scale. */
#include "tools/plan_map_time.h"

#include <math.h>

#include "session/human.h"
#include "tools/axis.h"
#include "tools/plan_map_box.h"
#include "tools/xml.h"

enum { HEAD = 30, FOOT = 26, TICKS = 5, KEY = 90 }; /* KEY: of one, with what it says */
enum { LEFT = DTI_MAP_LEFT, RIGHT = DTI_MAP_WIDTH - DTI_MAP_RIGHT, WIDE = RIGHT - LEFT };

/* A timeline that is being drawn. @scale: pixels a second */
typedef struct lanes {
    const dt_plan *p;
    const dt_timeline *t;
    FILE *f;
    bool page;
    double scale;
} lanes;

static bool shown(const lanes *l, size_t row, int stream)
{
    const dt_row *r = &l->p->row[row];
    if (r->stream != stream || !(l->t->end[row] > l->t->begin[row]))
        return false;
    return r->kind != DT_ROW_PLACE && r->kind != DT_ROW_RELEASE;
}

static bool has_lane(const lanes *l, int stream)
{
    bool any = false;
    for (size_t i = 0; i < l->p->n_row && !any; i++)
        any = shown(l, i, stream) && l->p->row[i].kind != DT_ROW_WAIT;
    return any;
}

static double lanes_tall(const lanes *l)
{
    double tall = HEAD;
    for (int s = 0; s < l->p->n_stream && l->t != NULL; s++)
        tall += has_lane(l, s) ? DTI_MAP_LANE + DTI_MAP_GAP : 0;
    return l->t != NULL ? tall : 0;
}

/* A rectangle from @begin on, as wide as is seen; what it is follows, but in a page, whose script
 * knows that, and is told the seconds. False: nothing is to follow. */
static bool begin_row(const lanes *l, double begin, double seconds, double y, int32_t i)
{
    char more[80];
    snprintf(more, sizeof more, " data-from=\"%.9g\" data-took=\"%.9g\"", begin, seconds);
    return dti_map_begin_in_lane(
        l->f, l->page, LEFT + begin * l->scale, y, fmax(0.15, seconds * l->scale), i, more);
}

static void end_row(const lanes *l, double begin, double seconds)
{
    char step[DT_HUMAN_BYTES], from[DT_HUMAN_BYTES];
    fprintf(l->f, ", %s s from %s s on</title></rect>\n", dt_human_step(step, seconds),
        dt_human_step(from, begin));
}

/* Ops of a kind, or copies of tensors of a role. */
static void rows_of(const lanes *l, int stream, int which, double y)
{
    const bool ops = dti_map_of_ops(l->p, stream);
    fprintf(l->f, "<g class=\"%s\" data-of=\"%s\">\n",
        ops ? dt_op_kind_name((dt_op_kind)which) : dt_role_name((dt_role)which),
        ops ? "op" : "tensor");
    for (size_t i = 0; i < l->p->n_row; i++) {
        const dt_row *r = &l->p->row[i];
        const double begin = l->t->begin[i], seconds = l->t->end[i] - begin;
        if (!shown(l, i, stream) || r->kind == DT_ROW_WAIT ||
            (ops ? l->p->op[r->op].kind : l->p->tensor[r->tensor].role) != which ||
            !begin_row(l, begin, seconds, y, ops ? r->op : r->tensor))
            continue;
        dti_xml_text(l->f, ops ? l->p->op[r->op].name : l->p->tensor[r->tensor].name);
        end_row(l, begin, seconds);
    }
    fputs("</g>\n", l->f);
}

static void one_wait(const lanes *l, double begin, double end, double y)
{
    if (end > begin && begin_row(l, begin, end - begin, y, -1)) {
        fputs("waits", l->f);
        end_row(l, begin, end - begin);
    }
}

static bool any_wait(const lanes *l, bool ops)
{
    bool any = false;
    for (size_t i = 0; i < l->p->n_row && l->t != NULL && !any; i++)
        any = l->p->row[i].kind == DT_ROW_WAIT &&
              dti_map_of_ops(l->p, l->p->row[i].stream) == ops && shown(l, i, l->p->row[i].stream);
    return any;
}

/* Waits that follow each other are one. */
static void waits(const lanes *l, int stream, double y)
{
    double begin = 0, end = 0;
    fprintf(l->f, "<g class=\"%s\" data-of=\"wait\">\n",
        dti_map_of_ops(l->p, stream) ? "waits" : "waits apart");
    for (size_t i = 0; i < l->p->n_row; i++) {
        if (!shown(l, i, stream) || l->p->row[i].kind != DT_ROW_WAIT)
            continue;
        if (l->t->begin[i] > end) {
            one_wait(l, begin, end, y);
            begin = l->t->begin[i];
        }
        end = fmax(end, l->t->end[i]);
    }
    one_wait(l, begin, end, y);
    fputs("</g>\n", l->f);
}

static void one_lane(const lanes *l, int stream, double y)
{
    const int kinds = dti_map_of_ops(l->p, stream) ? (int)DT_OP_KINDS : (int)DT_ROLE_COUNT;
    fprintf(
        l->f, "<text class=\"end\" x=\"%d\" y=\"%.1f\">", LEFT - DTI_MAP_GAP, y + DTI_MAP_LANE - 2);
    dti_map_lane_name(l->p, stream, l->f);
    fputs("</text>\n", l->f);
    dti_map_lane(l->f, l->page, y, DTI_MAP_LANE);
    waits(l, stream, y);
    for (int kind = 0; kind < kinds; kind++)
        rows_of(l, stream, kind, y);
    dti_map_lane_end(l->f);
}

static void ticks(const lanes *l, double seconds, double y)
{
    const double unit = seconds < 1 ? 1e-3 : 1, step = dti_axis_step(seconds / unit, TICKS);
    fputs("<g class=\"seconds\">\n", l->f);
    for (int i = 0; i * step * unit <= seconds; i++) {
        const double x = LEFT + WIDE * (i * step * unit / seconds);
        const char *side = i == 0                 ? ""
                           : x > LEFT + WIDE - 30 ? " class=\"end\""
                                                  : " class=\"middle\"";
        fprintf(l->f,
            "<text%s x=\"%.1f\" y=\"%.1f\">%.6g %s</text>\n"
            "<path class=\"line\" d=\"M%.1f %.1fv-5\"/>\n",
            side, x, y, i * step, unit < 1 ? "ms" : "s", x, y - 11);
    }
    fputs("</g>\n", l->f);
}

/* With what stands above it; where it ends. */
static double one_timeline(const lanes *l, const char *what, double y)
{
    char step[DT_HUMAN_BYTES];
    fprintf(l->f, "<text x=\"%d\" y=\"%.1f\">'%s' in time, as %s: %s s", LEFT, y + HEAD - 12,
        l->p->program, what, dt_human_step(step, l->t->seconds));
    if (l->t->stalled > 0)
        fprintf(l->f, ", of which the ops wait %s s", dt_human_step(step, l->t->stalled));
    fprintf(l->f, "</text>\n<g data-seconds=\"%s\">\n", what);
    y += HEAD;
    for (int s = 0; s < l->p->n_stream; s++)
        if (has_lane(l, s)) {
            one_lane(l, s, y);
            y += DTI_MAP_LANE + DTI_MAP_GAP;
        }
    fputs("</g>\n", l->f);
    return y;
}

static lanes lanes_of(const dti_plan_picture *v, const dt_timeline *t, FILE *f, bool page)
{
    double most = v->time != NULL ? v->time->seconds : 0;
    most = v->measured != NULL ? fmax(most, v->measured->seconds) : most;
    return (lanes){v->plan, t, f, page, most > 0 ? WIDE / most : 0};
}

double dti_map_time_tall(const dti_plan_picture *v)
{
    const lanes predicted = lanes_of(v, v->time, NULL, false);
    const lanes measured = lanes_of(v, v->measured, NULL, false);
    const double tall = lanes_tall(&predicted) + lanes_tall(&measured);
    return tall > 0 ? tall + FOOT : 0;
}

bool dti_map_waits(const dti_plan_picture *v, bool ops)
{
    const lanes predicted = lanes_of(v, v->time, NULL, false);
    const lanes measured = lanes_of(v, v->measured, NULL, false);
    return any_wait(&predicted, ops) || any_wait(&measured, ops);
}

/* What a colour says, with its right end at @x. */
static void key(FILE *f, const char *class, const char *text, int x, double y)
{
    fprintf(f,
        "<rect class=\"%s\" x=\"%d\" y=\"%.1f\" width=\"10\" height=\"10\"/><text class=\"end\" "
        "x=\"%d\" y=\"%.1f\">%s</text>\n",
        class, x - 10, y - 21, x - 14, y - 12, text);
}

void dti_map_time(const dti_plan_picture *v, bool page, FILE *f, double y)
{
    const lanes predicted = lanes_of(v, v->time, f, page);
    const lanes measured = lanes_of(v, v->measured, f, page);
    if (!page && dti_map_waits(v, true))
        key(f, "waits", "ops wait", RIGHT, y + HEAD);
    if (!page && dti_map_waits(v, false))
        key(f, "waits apart", "a copy waits", RIGHT - KEY, y + HEAD);
    if (v->time != NULL)
        y = one_timeline(&predicted, dt_costs_said(v->costs), y);
    if (v->measured != NULL)
        y = one_timeline(&measured, "measured", y);
    if (predicted.scale > 0)
        ticks(&predicted, WIDE / predicted.scale, y + FOOT - 14);
}
