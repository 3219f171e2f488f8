/* The part of a plan's picture that goes by seconds. */
#include <math.h>

#include "tools/plan_map.h"

enum { HEAD = 30, LANE = 12, GAP = 6, FOOT = 26, TICKS = 5 };

static bool shown(const dt_plan *p, const dt_timeline *t, size_t row, int stream)
{
    const dt_row *r = &p->row[row];
    if (r->stream != stream || !(t->end[row] > t->begin[row]))
        return false;
    return r->kind != DT_ROW_PLACE && r->kind != DT_ROW_RELEASE;
}

static bool has_lane(const dt_plan *p, const dt_timeline *t, int stream)
{
    bool any = false;
    for (size_t i = 0; i < p->n_row && !any; i++)
        any = shown(p, t, i, stream) && p->row[i].kind != DT_ROW_WAIT;
    return any;
}

double dti_plan_map_time_height(const dt_plan *p, const dt_timeline *t)
{
    double tall = HEAD + FOOT;
    for (int s = 0; s < p->n_stream; s++)
        tall += has_lane(p, t, s) ? LANE + GAP : 0;
    return tall;
}

static void put_text(FILE *f, const char *text)
{
    for (; *text != '\0'; text++)
        if (*text == '<' || *text == '&')
            fputs(*text == '<' ? "&lt;" : "&amp;", f);
        else
            putc(*text, f);
}

/* Rows that last longer hide none that are shorter: they follow each other. */
static void one_lane(const dt_plan *p, const dt_timeline *t, int stream, FILE *f, double y,
    double left, double scale)
{
    for (size_t i = 0; i < p->n_row; i++) {
        const dt_row *r = &p->row[i];
        const bool wait = r->kind == DT_ROW_WAIT;
        if (!shown(p, t, i, stream))
            continue;
        fprintf(f, "<rect%s fill=\"%s\" x=\"%.2f\" y=\"%.1f\" width=\"%.2f\" height=\"%d\"><title>",
            !wait                         ? " class=\"i\""
            : stream == DT_COMPUTE_STREAM ? " class=\"w\""
                                          : " class=\"w\" fill-opacity=\".25\"",
            wait ? "#e00000" : dti_plan_map_color(p, r), left + t->begin[i] * scale, y,
            fmax(0.15, (t->end[i] - t->begin[i]) * scale), LANE);
        if (wait)
            fputs("waits", f);
        else
            put_text(f, r->op >= 0 ? p->op[r->op].name : p->tensor[r->tensor].name);
        fprintf(
            f, ", %.6f s from %.6f s on</title></rect>\n", t->end[i] - t->begin[i], t->begin[i]);
    }
}

static void seconds(const dt_timeline *t, FILE *f, double y, double left, double right)
{
    const bool milli = t->seconds < 1;
    for (int i = 0; i <= TICKS; i++) {
        const double at = t->seconds * i / TICKS;
        fprintf(f,
            "<text style=\"text-anchor:%s\" x=\"%.1f\" y=\"%.1f\">%.4g %s</text>\n"
            "<path class=\"l\" d=\"M%.1f %.1fv-5\"/>\n",
            i == 0       ? "start"
            : i == TICKS ? "end"
                         : "middle",
            left + (right - left) * i / TICKS, y, milli ? 1e3 * at : at, milli ? "ms" : "s",
            left + (right - left) * i / TICKS, y - 11);
    }
}

void dti_plan_map_time(
    const dt_plan *p, const dt_timeline *t, FILE *f, double y, double left, double right)
{
    const double scale = t->seconds > 0 ? (right - left) / t->seconds : 0;
    fprintf(f,
        "<text x=\"%.0f\" y=\"%.1f\">in time, as predicted: %.6f s, of which the ops wait %.6f "
        "s</text><rect fill=\"#e00000\" x=\"%.0f\" y=\"%.1f\" width=\"10\" height=\"10\"/><text "
        "class=\"r\" x=\"%.0f\" y=\"%.1f\">waits</text>\n",
        left, y + HEAD - 12, t->seconds, t->stalled, right - 10, y + HEAD - 21, right - 14,
        y + HEAD - 12);
    y += HEAD;
    for (int s = 0; s < p->n_stream; s++) {
        if (!has_lane(p, t, s))
            continue;
        fprintf(f, "<text class=\"r\" x=\"%.0f\" y=\"%.1f\">", left - GAP, y + LANE - 2);
        dti_plan_map_lane_name(p, s, f);
        fprintf(f, "</text>\n");
        one_lane(p, t, s, f, y, left, scale);
        y += LANE + GAP;
    }
    seconds(t, f, y + FOOT - 14, left, right);
}
