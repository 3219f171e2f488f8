/* Peak against time as a picture: to the right bytes, upwards seconds. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/alloc.h"
#include "engine/base/numbers.h"
#include "session/human.h"
#include "tools/axis.h"
#include "tools/compare.h"
#include "tools/labels.h"
#include "tools/vary.h"
#include "tools/xml.h"

enum { WIDTH = 1000, LEFT = 76, RIGHT = 232, TOP = 72, HEIGHT = 520, BOTTOM = 60 };
enum { PLOT = WIDTH - LEFT - RIGHT, CURVE = 64, KEY_LINE = 18 };
/* An axis of MANY plans ends at twice what nine tenths are within, where others are far beyond. */
enum { EDGE = 9, TENTHS = 9, TIMES = 2, MANY = 10 };
static const double far = 1.5;
enum { SHAPES = 12, HOLES = 4, MOST_VARIANTS = 24, NAME_BYTES = DT_POLICY_LIST + 256 };
/* Panels, two beside each other: a column's width, what of it is left of the plot and right of it,
 * a row's height, and what of it is above the plot and below. */
enum { COLUMNS = 2, CELL = WIDTH / COLUMNS, CELL_LEFT = 62, CELL_RIGHT = 14 };
enum { ROW = 410, ROW_TOP = 30, ROW_BOTTOM = 56, PANEL_NAME = 54, ALL = -1 };
enum { NETWORK_NAME = 48 }; /* letters in the title */
static const double mib = 1 << 20;

/* Told apart by eyes that do not see all colours (after Okabe and Ito). */
static const char *const color[] = {
    "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#8f4d74"};

/* @plot: where marks are; @panel: the variant that is shown, or ALL; @unit: so many seconds are 1
 * on the axis; @size: so many bytes are; @slowest: what a plan takes at the most, where that is
 * beyond the axis and such marks stand at its end, else 0 */
typedef struct picture {
    const dt_compare *c;
    dt_compare_shared all;
    FILE *f;
    dti_area plot;
    int panel;
    double least_bytes, most_bytes, least, most, unit, size, slowest;
    const char *unit_name, *size_name;
    dti_labels names;
} picture;

static double right(const picture *m)
{
    return m->plot.x + m->plot.w;
}

static double below(const picture *m)
{
    return m->plot.y + m->plot.h;
}

static bool shown(const picture *m, const dt_compare_row *r)
{
    return r->refused == NULL && !r->missed && (m->panel == ALL || r->variant == (size_t)m->panel);
}

static double across(const picture *m, double bytes)
{
    return m->plot.x + m->plot.w * (bytes - m->least_bytes) / (m->most_bytes - m->least_bytes);
}

/* By their logarithm: plans take from a little longer than their ops to many times as long. */
static double up(const picture *m, double seconds)
{
    return m->plot.y + m->plot.h * (1 - log(seconds / m->least) / log(m->most / m->least));
}

/* Of a step, or of a sample where steps have not as many. */
static double each(const picture *m, const dt_compare_row *r, double seconds)
{
    return m->all.batch ? seconds : seconds / (double)r->session->opts.train.batch;
}

static double height(const picture *m, const dt_compare_row *r)
{
    const double y = up(m, each(m, r, r->time.seconds));
    return m->slowest > 0 ? fmax(y, m->plot.y + EDGE) : y;
}

/* Of ops alone the least that any exact plan takes: not always keep_all's, as a backward that reads
 * a mask in place of values may be faster. */
static double ops_alone(const picture *m)
{
    double least = HUGE_VAL;
    for (size_t i = 0; i < m->c->n; i++) {
        const dt_compare_row *r = &m->c->row[i];
        if (shown(m, r) && r->exact)
            least = fmin(least, each(m, r, r->time.compute));
    }
    return least;
}

/* What any variant takes at least when only so many bytes stay on the device. */
static double links_alone(const picture *m, double bytes)
{
    double least = HUGE_VAL;
    for (size_t v = 0; v < m->c->variants.n; v++) {
        const dt_compare_row *kept = &m->c->row[m->c->under[v].kept];
        if (!shown(m, kept))
            continue;
        const double away = fmax(0, (double)kept->bound - bytes);
        least =
            fmin(least, each(m, kept, dt_predict_moving(kept->session, kept->time.compute, away)));
    }
    return least;
}

/* ---- axes ---- */

/* A policy that is many times slower than many others would leave them no room. One of the front is
 * always on the axis: it is what the picture is for. @some: scratch */
static double axis_end(picture *m, double *some, double high)
{
    size_t n = 0;
    double end = 0;
    for (size_t i = 0; i < m->c->n; i++) {
        const dt_compare_row *r = &m->c->row[i];
        if (!shown(m, r))
            continue;
        some[n++] = each(m, r, r->time.seconds);
        end = r->best ? fmax(end, some[n - 1]) : end;
    }
    qsort(some, n, sizeof *some, dt_order_f64);
    end = n >= MANY ? fmax(end, TIMES * some[(n - 1) * TENTHS / 10]) : high;
    m->slowest = high > far * end ? high : 0;
    return m->slowest > 0 ? end : high;
}

/* What lies between them is drawn, and a margin. @some: scratch, a number a row */
static void find_ranges(picture *m, double *some)
{
    double low = ops_alone(m), high = 0;
    double least = HUGE_VAL, most = 0;
    for (size_t i = 0; i < m->c->n; i++) {
        const dt_compare_row *r = &m->c->row[i];
        if (!shown(m, r))
            continue;
        low = fmin(low, each(m, r, r->time.seconds));
        high = fmax(high, each(m, r, r->time.seconds));
        least = fmin(least, (double)r->need.device);
        most = fmax(most, (double)r->need.device);
    }
    const double wide = fmax(most - least, 0.1 * most + 1);
    high = axis_end(m, some, fmax(high, 1e-9));
    low = fmin(fmax(low, 1e-6 * high), high / 1.2);
    const double tall = pow(high / low, 0.07);
    m->least_bytes = fmax(0, least - 0.05 * wide);
    m->most_bytes = most + 0.05 * wide;
    m->least = low / tall;
    m->most = high * tall;
    m->size = m->most_bytes >= 2048 * mib ? 1024 * mib : m->most_bytes >= 2 * mib ? mib : 1024;
    m->size_name = m->size > mib ? "GiB" : m->size < mib ? "KiB" : "MiB";
    m->unit = m->most >= 1 ? 1 : m->most >= 1e-3 ? 1e-3 : 1e-6;
    m->unit_name = m->most >= 1 ? "seconds" : m->most >= 1e-3 ? "milliseconds" : "microseconds";
}

static void one_line(const picture *m, double y)
{
    if (y * m->unit >= m->least && y * m->unit <= m->most)
        fprintf(m->f,
            "<path class=\"g\" d=\"M%g %.1fH%g\"/><text class=\"r\" x=\"%g\" "
            "y=\"%.1f\">%g</text>\n",
            m->plot.x, up(m, y * m->unit), right(m), m->plot.x - 8, up(m, y * m->unit) + 4, y);
}

/* Some seven of them: evenly spread numbers where the longest is not much longer than the
 * shortest. */
static void lines(const picture *m)
{
    static const double some[] = {1, 2, 5}, many[] = {1, 1.5, 2, 3, 4, 5, 7};
    const double ratio = m->most / m->least, dy = dti_axis_step((m->most - m->least) / m->unit, 5);
    const double *of = ratio > 30 ? some : many;
    const size_t n = ratio > 30 ? DT_COUNT(some) : DT_COUNT(many);
    if (ratio < 2.5)
        for (double y = ceil(m->least / m->unit / dy) * dy; y * m->unit <= m->most; y += dy)
            one_line(m, y);
    else
        for (double ten = 1e-6; ten * m->unit <= m->most; ten *= 10)
            for (size_t i = 0; i < n; i++)
                one_line(m, of[i] * ten);
}

/* What stands at the top edge where marks beyond the axis do; no name lies over it. */
enum { TOP_LINE = 64 };

static double say_top(const picture *m, char to[TOP_LINE])
{
    char most[DT_HUMAN_BYTES];
    const double units = m->slowest / m->unit;
    if (units < 99.5)
        snprintf(to, TOP_LINE, "at the top: longer, up to %.2g %s", units, m->unit_name);
    else
        snprintf(to, TOP_LINE, "at the top: longer, up to %s", dt_human_seconds(most, m->slowest));
    return m->plot.y + 3 * EDGE + 6;
}

static void axes(const picture *m)
{
    char top[TOP_LINE];
    const double dx = dti_axis_step((m->most_bytes - m->least_bytes) / m->size, 5);
    for (double x = ceil(m->least_bytes / m->size / dx) * dx; x * m->size <= m->most_bytes; x += dx)
        fprintf(m->f,
            "<path class=\"g\" d=\"M%.1f %gV%.0f\"/><text class=\"m\" x=\"%.1f\" "
            "y=\"%.0f\">%g</text>\n",
            across(m, x * m->size), m->plot.y, below(m), across(m, x * m->size), below(m) + 18, x);
    lines(m);
    if (m->slowest > 0)
        fprintf(m->f, "<text class=\"r q s\" x=\"%g\" y=\"%g\">%s</text>\n", right(m) - 6,
            say_top(m, top), top);
    fprintf(m->f,
        "<text class=\"m\" x=\"%g\" y=\"%.0f\">peak of the device, %s</text>\n"
        "<text class=\"m\" transform=\"translate(%g %g) rotate(-90)\">a %s, %s</text>\n",
        m->plot.x + m->plot.w / 2, below(m) + 42 - (m->panel != ALL ? 4 : 0), m->size_name,
        m->plot.x - (m->panel != ALL ? 44 : 56), m->plot.y + m->plot.h / 2,
        m->all.batch ? "step" : "sample", m->unit_name);
}

/* ---- bounds ---- */

/* Ops may take so little beside plans that it is below the axis. */
static bool shows_ops(const picture *m)
{
    return ops_alone(m) >= m->least && ops_alone(m) <= m->most;
}

static void ops_line(const picture *m)
{
    const double floor_y = up(m, ops_alone(m));
    fprintf(m->f,
        "<rect class=\"n\" x=\"%g\" y=\"%.1f\" width=\"%g\" height=\"%.1f\"/>\n"
        "<path class=\"d\" d=\"M%g %.1fH%g\"/>\n"
        "<text class=\"q\" x=\"%g\" y=\"%.1f\">ops alone</text>\n",
        m->plot.x, floor_y, m->plot.w, below(m) - floor_y, m->plot.x, floor_y, right(m),
        m->plot.x + 6, floor_y + 14);
}

static void bounds(const picture *m)
{
    char number[24];
    snprintf(number, sizeof number, "%d", m->panel);
    if (shows_ops(m))
        ops_line(m);
    fprintf(
        m->f, "<path class=\"d\" clip-path=\"url(#plot%s)\" d=\"", m->panel == ALL ? "" : number);
    for (int i = 0; i <= CURVE; i++) {
        const double bytes = m->least_bytes + (m->most_bytes - m->least_bytes) * i / CURVE;
        const double y = fmin(up(m, links_alone(m, bytes)), below(m) + EDGE);
        fprintf(m->f, "%c%.1f %.1f", i > 0 ? 'L' : 'M', across(m, bytes), y);
    }
    fprintf(m->f, "\"/>\n");
}

/* ---- what no plan is ahead of ---- */

static int smaller_first(const void *va, const void *vb)
{
    const dt_compare_row *a = *(const dt_compare_row *const *)va;
    const dt_compare_row *b = *(const dt_compare_row *const *)vb;
    return (a->need.device > b->need.device) - (a->need.device < b->need.device);
}

static bool groups(const picture *m)
{
    return m->panel == ALL && m->c->variants.n_group > 1;
}

/* The plans of a group that are marked, from the smallest. */
static size_t front_of(const picture *m, size_t group, const dt_compare_row **all)
{
    size_t n = 0;
    for (size_t i = 0; i < m->c->n; i++)
        if (m->c->row[i].best && shown(m, &m->c->row[i]) &&
            (m->panel != ALL || dt_compare_variant(m->c, &m->c->row[i])->group == group))
            all[n++] = &m->c->row[i];
    qsort(all, n, sizeof(dt_compare_row *), smaller_first);
    return n;
}

/* Where the step behind the i-th of them ends. */
static double step_end(const picture *m, const dt_compare_row **all, size_t n, size_t i)
{
    return i + 1 < n ? across(m, (double)all[i + 1]->need.device) : right(m);
}

/* A staircase: with so many bytes the fastest plan that fits. */
static void stairs(const picture *m, const dt_compare_row **all, size_t n)
{
    fprintf(m->f, "d=\"M%.1f %g", across(m, (double)all[0]->need.device), m->plot.y);
    for (size_t i = 0; i < n; i++)
        fprintf(m->f, "V%.1fH%.1f", height(m, all[i]), step_end(m, all, n, i));
}

/* Those of several groups are told apart by dashes and, at their end, by letters. */
static void group_stairs(const picture *m, size_t group, const dt_compare_row **all, size_t n)
{
    static const char *const dash[] = {"none", "9 4", "3 3", "12 3 2 3", "1 3"};
    fprintf(m->f, "<path class=\"p u\" stroke-dasharray=\"%s\" ", dash[group % DT_COUNT(dash)]);
    stairs(m, all, n);
    fprintf(m->f, "\"/>\n");
}

/* The letter of a group, as near to the end of its stairs as others leave room, of which @used
 * holds the heights. Where that is far off there is none. */
static void letter(const picture *m, size_t group, double y, double *used, size_t *n_used)
{
    enum { ROOM = 11, TRIES = 5 };
    char text[DTI_COMPARE_BITS];
    for (int i = 0; i < TRIES; i++) {
        const double at = y + (i % 2 == 0 ? -1 : 1) * ROOM * ((i + 1) / 2);
        bool free = true;
        for (size_t k = 0; k < *n_used; k++)
            free = free && fabs(used[k] - at) >= ROOM - 0.5;
        if (!free)
            continue;
        used[(*n_used)++] = at;
        fprintf(m->f, "<text x=\"%g\" y=\"%.1f\">%s</text>\n", right(m) + 4, at + 4,
            dti_compare_letter(group, text));
        return;
    }
}

static void best_of_groups(const picture *m, const dt_compare_row **all, double *used)
{
    size_t n_used = 0;
    for (size_t g = 0; g < m->c->variants.n_group; g++) {
        const size_t n = front_of(m, g, all);
        if (n == 0)
            continue;
        group_stairs(m, g, all, n);
        letter(m, g, height(m, all[n - 1]), used, &n_used);
    }
}

static void best(const picture *m, const dt_compare_row **all)
{
    const size_t n = front_of(m, 0, all);
    if (n == 0)
        return;
    fprintf(m->f, "<path class=\"f\" ");
    stairs(m, all, n);
    fprintf(m->f, "V%gZ\"/>\n<path class=\"p\" ", m->plot.y);
    stairs(m, all, n);
    fprintf(m->f, "\"/>\n");
}

/* ---- plans ---- */

static bool is_auto(const char *list)
{
    return strcmp(list, "auto") == 0;
}

/* A series: the plans of one list for one variant. Colours tell lists apart, and shapes variants.
 * Lists of one colour are told apart by holes, where there is one variant by shapes, and variants
 * of one shape by darker edges: that is enough for 28 lists and 24 variants. */
typedef struct series {
    size_t list, variant;
} series;

static bool several(const picture *m)
{
    return m->panel == ALL && m->c->variants.n > 1;
}

/* Of a variant, which it is of those that could be planned. */
static size_t nth(const picture *m, size_t variant)
{
    size_t n = 0;
    for (size_t v = 0; v < variant; v++)
        n += m->c->variants.variant[v].session != NULL;
    return n;
}

static const char *color_of(series s)
{
    return color[s.list % DT_COUNT(color)];
}

static size_t shape_of(const picture *m, series s)
{
    if (several(m))
        return nth(m, s.variant) % SHAPES;
    return is_auto(m->c->lists.list[s.list]) ? 3 : s.list / DT_COUNT(color) % SHAPES;
}

static size_t hole_of(const picture *m, series s)
{
    const bool one = !several(m) || is_auto(m->c->lists.list[s.list]);
    return one ? 0 : s.list / DT_COUNT(color) % HOLES;
}

static bool is_edged(const picture *m, series s)
{
    return several(m) && nth(m, s.variant) / SHAPES % 2 == 1;
}

/* Hollow where results change, paler where an exact plan is ahead. */
static void paint(const picture *m, series s, bool exact, bool best)
{
    const char *c = color_of(s), *pale = best ? "" : " fill-opacity=\".65\"";
    const char *edge = is_edged(m, s) ? " k" : "";
    if (is_auto(m->c->lists.list[s.list]))
        fprintf(m->f, " class=\"a%s\"", edge);
    else if (exact)
        fprintf(m->f, " class=\"o%s\" fill=\"%s\"%s", edge, c, pale);
    else
        fprintf(m->f, " class=\"h%s\" stroke=\"%s\"", edge, c);
}

/* A circle, then other shapes; a hole in the middle is round, or a slit. Larger on the front,
 * @best. What it says when pointed at follows, and then mark_end. */
static void mark(const picture *m, series s, bool exact, bool best, double x, double y)
{
    static const char *const shape[SHAPES] = {"m-5 0a5 5 0 1 0 10 0a5 5 0 1 0 -10 0z",
        "m-4.5 -4.5h9v9h-9z", "m0 -6l5.5 9.5h-11z", "m0 -6l6 6l-6 6l-6 -6z", "m0 6l5.5 -9.5h-11z",
        "m-2 -6h4v4h4v4h-4v4h-4v-4h-4v-4h4z", "m6 0l-9.5 5.5v-11z", "m-6 0l9.5 5.5v-11z",
        "m3 -6l3 3l-3 3l3 3l-3 3l-3 -3l-3 3l-3 -3l3 -3l-3 -3l3 -3l3 3z",
        "m0 -6.5l1.8 4.1l4.4 .4l-3.3 2.9l.9 4.4l-3.8 -2.3l-3.8 2.3l.9 -4.4l-3.3 -2.9l4.4 -.4z",
        "m-6 3a6 6 0 0 1 12 0z", "m-6 -3a6 6 0 0 0 12 0z"};
    static const char *const hole[HOLES] = {"", "M-1.7 0a1.7 1.7 0 1 0 3.4 0a1.7 1.7 0 1 0 -3.4 0z",
        "M-.9 -2.6h1.8v5.2h-1.8z", "M-2.6 -.9h5.2v1.8h-5.2z"};
    const size_t h = hole_of(m, s);
    fprintf(m->f, "<path transform=\"translate(%.1f %.1f)%s\" d=\"M0 0%s%s\"%s", x, y,
        best ? " scale(1.35)" : "", shape[shape_of(m, s)], hole[h],
        h > 0 ? " fill-rule=\"evenodd\"" : "");
    paint(m, s, exact, best);
    fprintf(m->f, "><title>");
}

static void mark_end(const picture *m)
{
    fprintf(m->f, "</title></path>\n");
}

static series series_of(const dt_compare_row *r)
{
    return (series){r->list, r->variant};
}

static bool is_of(const dt_compare_row *r, series s)
{
    return r->refused == NULL && !r->missed && r->list == s.list && r->variant == s.variant;
}

/* In the unit that most networks have; of a small one in another, as digits would be lost. */
static const char *mebibytes(char to[DT_HUMAN_BYTES], uint64_t bytes, int places)
{
    if ((double)bytes < mib)
        return dt_human_bytes(to, bytes);
    snprintf(to, DT_HUMAN_BYTES, "%.*f MiB", places, (double)bytes / mib);
    return to;
}

static void point(const picture *m, const dt_compare_row *r)
{
    char variant[512], size[DT_HUMAN_BYTES], step[DT_HUMAN_BYTES], rate[DT_HUMAN_BYTES];
    mark(m, series_of(r), r->exact, r->best, across(m, (double)r->need.device), height(m, r));
    fprintf(m->f, "%s", r->policy);
    if (several(m)) {
        fputs(", ", m->f);
        dti_xml_text(m->f,
            dt_variant_text(&m->c->vary, dt_compare_variant(m->c, r), variant, sizeof variant));
    }
    if (r->budget > 0)
        fprintf(m->f, ", planned by %s", mebibytes(size, r->budget, 1));
    fprintf(m->f, ": %s, %s s, %s samples a second%s%s", mebibytes(size, r->need.device, 2),
        dt_human_step(step, r->time.seconds), dt_human_rate(rate, r->time.rate),
        r->exact ? "" : "; changes results", r->can ? "" : "; cannot be run");
    mark_end(m);
}

/* The plans of a series, each once; @all: NULL, or where they are put. */
static size_t plans_of(const picture *m, series s, const dt_compare_row **all)
{
    size_t n = 0;
    for (size_t i = 0; i < m->c->n; i++) {
        if (!is_of(&m->c->row[i], s) || !dt_compare_is_new(&m->c->row[i]))
            continue;
        if (all != NULL)
            all[n] = &m->c->row[i];
        n++;
    }
    return n;
}

/* Those of the front, @best, lie over the others. */
static void points(const picture *m, bool best)
{
    for (size_t i = 0; i < m->c->n; i++) {
        const dt_compare_row *r = &m->c->row[i];
        if (dt_compare_is_new(r) && r->best == best && shown(m, r))
            point(m, r);
    }
}

/* Plans of one series under several budgets hang together: by dots, as none is between them. */
static void thread(const picture *m, series s, const dt_compare_row **all)
{
    const size_t n = plans_of(m, s, all);
    qsort(all, n, sizeof(dt_compare_row *), smaller_first);
    if (n < 2)
        return;
    if (is_auto(m->c->lists.list[s.list]))
        fprintf(m->f, "<path class=\"x\" d=\"");
    else
        fprintf(m->f, "<path class=\"t\" stroke=\"%s\" d=\"", color_of(s));
    for (size_t i = 0; i < n; i++)
        fprintf(m->f, "%c%.1f %.1f", i > 0 ? 'L' : 'M', across(m, (double)all[i]->need.device),
            height(m, all[i]));
    fprintf(m->f, "\"/>\n");
}

/* ---- names ---- */

/* How far a plan's mark is from those of other series. */
static double alone(const picture *m, const dt_compare_row *r)
{
    double least = HUGE_VAL;
    for (size_t i = 0; i < m->c->n; i++) {
        const dt_compare_row *o = &m->c->row[i];
        if (shown(m, o) && !is_of(o, series_of(r)))
            least = fmin(
                least, hypot(across(m, (double)o->need.device) - across(m, (double)r->need.device),
                           height(m, o) - height(m, r)));
    }
    return least;
}

/* Of a series the plan by which it is named: one that none is ahead of, if there is one, and of
 * those the one that stands most by itself. */
static const dt_compare_row *named_by(const picture *m, series s)
{
    const dt_compare_row *chosen = NULL;
    for (size_t i = 0; i < m->c->n; i++) {
        const dt_compare_row *r = &m->c->row[i];
        if (!is_of(r, s))
            continue;
        const bool ahead = chosen != NULL && chosen->best;
        if (chosen == NULL || (r->best && !ahead) ||
            (r->best == ahead && alone(m, r) > alone(m, chosen)))
            chosen = r;
    }
    return chosen;
}

/* Where its mark is, which is larger on the front. */
static dti_mark mark_of(const picture *m, const dt_compare_row *r)
{
    return (dti_mark){across(m, (double)r->need.device), height(m, r), r->best ? 8 : 6};
}

static void take_marks(picture *m)
{
    for (size_t i = 0; i < m->c->n; i++) {
        if (!shown(m, &m->c->row[i]))
            continue;
        const dti_mark at = mark_of(m, &m->c->row[i]);
        dti_take_mark(&m->names, &at);
    }
}

/* So many lines run through the plot that names are better beside them. */
static void take_stairs(picture *m, size_t group, const dt_compare_row **all)
{
    const size_t n = front_of(m, group, all);
    double from = m->plot.y;
    for (size_t i = 0; i < n; i++) {
        const double x = across(m, (double)all[i]->need.device), y = height(m, all[i]);
        m->names.taken[m->names.n_taken++] = (dti_area){x - 1, from, 2, y - from};
        m->names.taken[m->names.n_taken++] = (dti_area){x, y - 1, step_end(m, all, n, i) - x, 2};
        from = y;
    }
}

static void take_top(picture *m)
{
    static const double letter = 7.5; /* at most, in the mean */
    char top[TOP_LINE];
    if (m->slowest <= 0)
        return;
    const double y = say_top(m, top), w = letter * (double)strlen(top);
    m->names.taken[m->names.n_taken++] = (dti_area){right(m) - 6 - w, y - 13, w, 18};
}

/* Each series once, those that have a plan on the front before others; where there is no room at
 * all, the column on the right must do. */
static void names(picture *m, const dt_compare_row **all)
{
    char text[NAME_BYTES], values[256];
    for (size_t g = 0; g < (m->panel == ALL ? m->c->variants.n_group : 1); g++)
        take_stairs(m, g, all);
    m->names.spare = m->names.n_taken;
    take_marks(m);
    m->names.n_marks = m->names.n_taken;
    if (shows_ops(m))
        m->names.taken[m->names.n_taken++] =
            (dti_area){m->plot.x, up(m, ops_alone(m)), 90, 20}; /* "ops alone" */
    take_top(m);
    const int turns = m->panel == ALL ? 2 : 1; /* in a panel there is no room for others */
    for (int turn = 0; turn < turns; turn++)
        for (size_t p = 0; p < m->c->variants.n_pair; p++) {
            const dt_variant_list *pair = &m->c->variants.pair[p];
            const dt_compare_row *r = named_by(m, (series){pair->list, pair->variant});
            if (r == NULL || !shown(m, r) || r->best != (turn == 0))
                continue;
            dti_vary_short(&m->c->vary, dt_compare_variant(m->c, r), values, sizeof values);
            snprintf(text, sizeof text, "%s%s%s", r->policy,
                several(m) && values[0] != '\0' ? " " : "", several(m) ? values : "");
            const dti_mark at = mark_of(m, r);
            dti_label(&m->names, &at, text);
        }
}

/* ---- what lists, variants and lines are ---- */

/* Times of different machines are no choice between plans, so none stands beside the other. */
static bool by_machine(const dt_compare *c)
{
    const char *key = c->vary.n == 1 ? c->vary.key[0].name : "";
    return c->variants.n > 1 &&
           (strcmp(key, "memory.simulate") == 0 || strcmp(key, "device.card") == 0 ||
               strncmp(key, "card.", strlen("card.")) == 0);
}

/* Where its next line goes; behind the lowest, at @bottom, comes another column @next to the right.
 * @room: letters of a line */
typedef struct cursor {
    double x, y, step, top, bottom, next;
    size_t room;
} cursor;

/* A mark's middle is so far left of its text. */
enum { KEY_MARK = 14, KEY_TEXT = NAME_BYTES, KEY_PARTS = 3 };

/* How many letters have room on @wide pixels behind a mark: one takes less than 7.5 in the mean. */
static size_t letters_on(double wide)
{
    return (size_t)((wide - KEY_MARK) / 7.5);
}

/* How much of a text stands on a line: up to a bracket, a comma or a blank where there is one, and
 * no part of a letter. */
static size_t line_of(const char *text, size_t room)
{
    const char *bracket = strstr(text, " (");
    size_t n = strlen(text);
    if (n <= room)
        return n;
    if (bracket != NULL && bracket < text + room)
        return (size_t)(bracket - text) + 1;
    for (n = room; n > 0; n--)
        if (text[n - 1] == ',' || text[n - 1] == ' ')
            return n;
    for (n = room; n > 1 && ((unsigned char)text[n] & 0xc0) == 0x80; n--)
        ;
    return n;
}

/* So many lines a text takes; what is longer ends in an ellipsis. */
static size_t lines_of(const char *text, size_t room)
{
    size_t n = 0;
    for (; *text != '\0' && n < KEY_PARTS; n++)
        text += line_of(text, room);
    return n;
}

static void write_line(const picture *m, cursor *at, const char *text)
{
    const size_t n = lines_of(text, at->room);
    for (size_t i = 0; i < n; i++) {
        char part[KEY_TEXT];
        const size_t bytes = line_of(text, at->room);
        snprintf(part, sizeof part, "%.*s", i + 1 < n ? (int)bytes : (int)sizeof part, text);
        fprintf(m->f, "<text x=\"%.1f\" y=\"%.1f\">", at->x + KEY_MARK, at->y);
        dti_xml_cut(m->f, part, at->room);
        fputs("</text>\n", m->f);
        at->y += at->step;
        text += bytes;
    }
    if (at->y > at->bottom) {
        at->x += at->next;
        at->y = at->top;
    }
}

static bool changes(const picture *m, size_t list)
{
    bool yes = false;
    for (size_t i = 0; i < m->c->n; i++)
        yes = yes ||
              (m->c->row[i].refused == NULL && m->c->row[i].list == list && !m->c->row[i].exact);
    return yes;
}

static bool is_refused(const picture *m, size_t list)
{
    bool yes = true;
    for (size_t i = 0; i < m->c->n; i++)
        yes = yes && (m->c->row[i].refused != NULL || m->c->row[i].list != list);
    return yes;
}

static const char *list_text(const picture *m, size_t l, char to[KEY_TEXT])
{
    snprintf(to, KEY_TEXT, "%s%s", m->c->lists.list[l],
        is_refused(m, l) ? " (refused)"
        : changes(m, l)  ? " (changes results)"
                         : "");
    return to;
}

static void list_lines(const picture *m, cursor *at)
{
    char text[KEY_TEXT];
    for (size_t l = 0; l < m->c->lists.n; l++) {
        mark(m, (series){l, 0}, !changes(m, l), true, at->x, at->y - 4);
        dti_xml_text(m->f, m->c->lists.list[l]);
        mark_end(m);
        write_line(m, at, list_text(m, l, text));
    }
}

static size_t all_list_lines(const picture *m, size_t room)
{
    char text[KEY_TEXT];
    size_t n = 0;
    for (size_t l = 0; l < m->c->lists.n; l++)
        n += lines_of(list_text(m, l, text), room);
    return n;
}

static const char *variant_text(const picture *m, size_t v, char to[KEY_TEXT])
{
    const dt_variant *x = &m->c->variants.variant[v];
    char letter[DTI_COMPARE_BITS];
    dti_vary_short(&m->c->vary, x, to, KEY_TEXT);
    if (to[0] == '\0')
        snprintf(to, KEY_TEXT, "(as configured)");
    const size_t n = strlen(to);
    if (groups(m) && n < KEY_TEXT)
        snprintf(to + n, KEY_TEXT - n, ", bits %s", dti_compare_letter(x->group, letter));
    return to;
}

/* The shape of a variant, in grey. */
static void variant_line(const picture *m, size_t v, cursor *at)
{
    const dt_variant *x = &m->c->variants.variant[v];
    char text[KEY_TEXT];
    fputs("<g class=\"v\">", m->f);
    mark(m, (series){0, v}, true, true, at->x, at->y - 4);
    dti_xml_text(m->f, dt_variant_text(&m->c->vary, x, text, sizeof text));
    mark_end(m);
    fputs("</g>", m->f);
    write_line(m, at, variant_text(m, v, text));
}

/* As many as can be read; the others are told when their marks are pointed at. */
static void variant_lines(const picture *m, cursor *at)
{
    char text[64];
    size_t n = 0;
    at->y += 6;
    for (size_t v = 0; v < m->c->variants.n; v++)
        if (m->c->variants.variant[v].session != NULL && n++ < MOST_VARIANTS)
            variant_line(m, v, at);
    snprintf(text, sizeof text, "and %zu more", n - MOST_VARIANTS);
    if (n > MOST_VARIANTS)
        write_line(m, at, text);
}

/* Those, and a line for how many more there are. */
static size_t all_variant_lines(const picture *m, size_t room)
{
    char text[KEY_TEXT];
    size_t n = 2, shown_now = 0;
    for (size_t v = 0; v < m->c->variants.n; v++)
        if (m->c->variants.variant[v].session != NULL && shown_now++ < MOST_VARIANTS)
            n += lines_of(variant_text(m, v, text), room);
    return n;
}

/* Whether plans of a policy hang together by budgets: those of auto, or of another. */
static bool any_thread(const picture *m, bool of_auto)
{
    bool any = false;
    for (size_t p = 0; p < m->c->variants.n_pair && !any; p++) {
        const series s = {m->c->variants.pair[p].list, m->c->variants.pair[p].variant};
        any = is_auto(m->c->lists.list[s.list]) == of_auto && plans_of(m, s, NULL) > 1;
    }
    return any;
}

static double line_line(const picture *m, double x, double y, const char *how, const char *text)
{
    fprintf(m->f, "<path %s d=\"M%.1f %.1fh16\"/><text x=\"%.1f\" y=\"%.1f\">%s</text>\n", how,
        x - 8, y - 4, x + 14, y, text);
    return y + KEY_LINE;
}

/* In panels auto has a line of its own. */
static bool auto_line(const picture *m)
{
    return by_machine(m->c) && any_thread(m, true);
}

static bool dots_line(const picture *m)
{
    return any_thread(m, false) || (!by_machine(m->c) && any_thread(m, true));
}

/* What lines are, of those that are drawn. */
static void line_lines(const picture *m, double x, double y)
{
    const char *dots = by_machine(m->c) ? "class=\"t\" stroke=\"#888\"" : "class=\"x\"";
    y = line_line(
        m, x, y, "class=\"p\"", groups(m) ? "best of the same bits" : "no exact plan is ahead");
    if (dots_line(m))
        y = line_line(m, x, y, dots, "one policy, by budgets");
    if (auto_line(m))
        y = line_line(m, x, y, "class=\"x\"", "auto, by budgets");
    y = line_line(m, x, y, "class=\"d\"", "ops alone; links, if what");
    fprintf(m->f, "<text x=\"%.1f\" y=\"%.1f\">is not there was moved</text>\n", x + 14, y - 2);
}

/* How tall that is. */
static double lines_tall(const picture *m)
{
    return 4 + KEY_LINE * (3 + dots_line(m) + auto_line(m));
}

enum { COLUMN = LEFT + PLOT + 26, STEP = 19, LEAST_STEP = 15 };

static double column_lines(const picture *m)
{
    const size_t room = letters_on(WIDTH - COLUMN);
    return (double)(all_list_lines(m, room) + (several(m) ? all_variant_lines(m, room) : 0));
}

/* As the plot, or what lines want that can be read. */
static double column_tall(const picture *m)
{
    return fmax(HEIGHT, column_lines(m) * LEAST_STEP + lines_tall(m));
}

/* Every list with its mark, and every variant with its shape; many stand closer together. Below is
 * what lines say, of which the last is no lower than the axis and its name, or the picture ends
 * below it. */
static void column(const picture *m)
{
    cursor at = {.x = COLUMN,
        .y = TOP + 10,
        .room = letters_on(WIDTH - COLUMN),
        .step = fmin(STEP, (column_tall(m) - lines_tall(m)) / column_lines(m)),
        .bottom = HUGE_VAL};
    list_lines(m, &at);
    if (several(m))
        variant_lines(m, &at);
    line_lines(m, at.x, at.y + 10);
}

/* ---- all of it ---- */

/* Outside of which no curve is drawn. */
static void clip(const picture *m)
{
    char number[24] = "";
    if (m->panel != ALL)
        snprintf(number, sizeof number, "%d", m->panel);
    fprintf(m->f,
        "<clipPath id=\"plot%s\"><rect x=\"%g\" y=\"%g\" width=\"%g\" height=\"%g\"/></clipPath>\n",
        number, m->plot.x, m->plot.y, m->plot.w, m->plot.h);
}

/* @m->plot: of a picture of one plot; in one of panels there is none yet. */
static void head(const picture *m, double tall)
{
    const dt_session *s = m->c->session;
    fprintf(m->f,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %.0f\" "
        "font-family=\"system-ui, sans-serif\" font-size=\"13\">\n"
        "<style>text{fill:#222}.r{text-anchor:end}.m{text-anchor:middle}.b{fill:#fff}"
        ".g{stroke:#888;stroke-opacity:.2}.q{fill:#666}.s{paint-order:stroke;stroke:#fff;"
        "stroke-width:3}.n{fill:#888;fill-opacity:.12}.d{fill:none;stroke:#666;"
        "stroke-dasharray:5 4}.f{fill:#56b4e9;fill-opacity:.10}.p{fill:none;stroke:#0072b2;"
        "stroke-width:2.5}.t{fill:none;stroke-width:1.5;stroke-dasharray:.1 4;stroke-linecap:round}"
        ".l{stroke:#888;stroke-width:.75}.o{stroke:#fff;stroke-width:1}.h{fill:#fff;stroke-width:2}"
        ".a{fill:#111;stroke:#fff;stroke-width:1}.x{fill:none;stroke:#111;stroke-width:"
        "1.5;stroke-dasharray:.1 4;stroke-linecap:round}"
        "@media(prefers-color-scheme:dark){text{fill:#ddd}.q{fill:#999}.b,.h{fill:#111}.s,.o{"
        "stroke:#111}.a{fill:#eee;stroke:#111}.x{stroke:#eee}}</style>\n",
        WIDTH, tall);
    if (m->plot.w > 0)
        clip(m);
    fprintf(m->f, "<rect class=\"b\" width=\"%d\" height=\"%.0f\"/>\n", WIDTH, tall);
    fprintf(m->f, "<text x=\"%d\" y=\"30\" font-size=\"18\">", LEFT);
    dti_xml_cut(m->f, m->all.network ? s->graph->name : "networks", NETWORK_NAME);
    if (m->all.batch)
        fprintf(m->f, ", batch %" PRId64, s->opts.train.batch);
    fprintf(m->f, ": memory against time</text>\n<text class=\"q\" x=\"%d\" y=\"52\">", LEFT);
    if (by_machine(m->c))
        fprintf(m->f, "%sa panel for each machine, with times of its own",
            m->all.simulated ? "simulated: " : "");
    else if (!m->all.costs)
        fputs("times are each variant's own", m->f);
    else if (dt_costs_known(&s->costs)) {
        fprintf(m->f, "%s: ", dt_costs_said(&s->costs));
        dti_xml_cut(m->f, s->costs.name, 80);
    } else {
        fputs("nothing was measured: only the order of times counts", m->f);
    }
    fputs("</text>\n", m->f);
}

/* Axes, bounds, lines, marks and names, in m->plot. @all and @used: room for rows. */
static void draw(picture *m, const dt_compare_row **all, double *used)
{
    m->names.frame = m->plot;
    m->names.n_taken = 0;
    find_ranges(m, used);
    if (m->panel != ALL)
        clip(m);
    axes(m);
    bounds(m);
    if (several(m))
        fputs("<style>.u{stroke-width:1.5}.v path{fill:#777}.o.k{stroke:#111}.h.k{fill:#bbb}"
              ".a.k{stroke:#e69f00}@media(prefers-color-scheme:dark){.o.k{stroke:#eee}.h.k{"
              "fill:#555}}</style>\n",
            m->f);
    if (groups(m))
        best_of_groups(m, all, used);
    else
        best(m, all);
    for (size_t p = 0; p < m->c->variants.n_pair; p++) {
        const dt_variant_list *pair = &m->c->variants.pair[p];
        if (m->panel == ALL || pair->variant == (size_t)m->panel)
            thread(m, (series){pair->list, pair->variant}, all);
    }
    points(m, false);
    points(m, true);
    names(m, all);
}

static void one_plot(picture *m, const dt_compare_row **all, double *used)
{
    m->plot = (dti_area){LEFT, TOP, PLOT, HEIGHT};
    head(m, TOP + column_tall(m) + BOTTOM);
    draw(m, all, used);
    column(m);
}

/* ---- a panel for each machine ---- */

/* The left upper corner of the i-th cell. */
static dti_area cell(size_t i)
{
    const size_t row = i / COLUMNS, at = i % COLUMNS;
    return (dti_area){(double)at * CELL, TOP + (double)row * ROW, CELL, ROW};
}

/* All lists, in as many columns as they want, and below what lines say. */
enum { KEY_TOP = 20, KEY_GAP = 8, KEY_STEP = 17 };

static double key_wide(double columns)
{
    return (CELL - 22) / columns;
}

/* So many lines a column may go lower, as its last name takes several. */
static double key_slack(const picture *m, double columns)
{
    const size_t lines = all_list_lines(m, letters_on(key_wide(columns)));
    return columns > 1 && lines > m->c->lists.n ? KEY_PARTS - 1 : 0;
}

/* In narrower columns names take more lines. */
static double key_lines_on(const picture *m, double columns)
{
    const size_t lines = all_list_lines(m, letters_on(key_wide(columns)));
    return ceil((double)lines / columns) + key_slack(m, columns);
}

static double key_columns(const picture *m)
{
    enum { MOST_COLUMNS = 4 };
    const double room = ROW - KEY_TOP - KEY_GAP - lines_tall(m);
    double columns = 1;
    while (columns < MOST_COLUMNS && key_lines_on(m, columns) * KEY_STEP > room)
        columns++;
    return columns;
}

static double key_lines(const picture *m)
{
    return key_lines_on(m, key_columns(m));
}

static double key_tall(const picture *m)
{
    return KEY_TOP + key_lines(m) * KEY_STEP + KEY_GAP + lines_tall(m);
}

static void key_of_panels(const picture *m, dti_area in)
{
    const double lines = key_lines(m) * KEY_STEP;
    cursor at = {.x = in.x + 22,
        .y = in.y + KEY_TOP,
        .step = KEY_STEP,
        .next = key_wide(key_columns(m)),
        .room = letters_on(key_wide(key_columns(m)))};
    at.top = at.y;
    at.bottom = at.top + lines - (1 + key_slack(m, key_columns(m))) * KEY_STEP + 1;
    list_lines(m, &at);
    line_lines(m, in.x + 22, at.top + lines + KEY_GAP);
}

/* Behind the last of @n panels is the key, or in a row of its own, which is as tall as it wants. */
static double panels_tall(const picture *m, size_t n)
{
    const double rows = (double)(n / COLUMNS);
    return TOP + rows * ROW + (n % COLUMNS > 0 ? ROW : key_tall(m));
}

static void panels(picture *m, const dt_compare_row **all, double *used)
{
    size_t n = 0;
    for (size_t v = 0; v < m->c->variants.n; v++)
        n += m->c->row[m->c->under[v].kept].refused == NULL;
    head(m, panels_tall(m, n));
    /* what auto comes to is what others are held against */
    fputs("<style>.x{stroke-dasharray:none;stroke-width:2;stroke-opacity:.55}</style>\n", m->f);
    n = 0;
    for (size_t v = 0; v < m->c->variants.n; v++) {
        const dt_session *s = m->c->variants.variant[v].session;
        if (m->c->row[m->c->under[v].kept].refused != NULL)
            continue;
        const dti_area in = cell(n++);
        m->panel = (int)v;
        m->plot = (dti_area){in.x + CELL_LEFT, in.y + ROW_TOP, CELL - CELL_LEFT - CELL_RIGHT,
            ROW - ROW_TOP - ROW_BOTTOM};
        fprintf(m->f, "<g class=\"panel\">\n<text x=\"%g\" y=\"%g\" font-weight=\"600\">",
            m->plot.x, m->plot.y - 10);
        dti_xml_cut(m->f, s->costs.name, PANEL_NAME);
        fputs("</text>\n", m->f);
        draw(m, all, used);
        fputs("</g>\n", m->f);
    }
    key_of_panels(m, cell(n));
}

dt_status dti_compare_svg(const void *compare, FILE *f, dt_err *err)
{
    const dt_compare *c = compare;
    picture m = {.c = c, .all = dt_compare_share(c), .f = f, .panel = ALL, .names = {.f = f}};
    m.names.taken = dt_alloc(3 * c->n + c->variants.n_pair + 3, sizeof *m.names.taken);
    const dt_compare_row **all = dt_alloc(c->n + 1, sizeof *all);
    double *used = dt_alloc(c->n + c->variants.n_group, sizeof *used);
    const bool room = m.names.taken != NULL && all != NULL && used != NULL;
    if (room) {
        if (by_machine(c))
            panels(&m, all, used);
        else
            one_plot(&m, all, used);
        fputs("</svg>\n", f);
    }
    dt_free(m.names.taken);
    dt_free(used);
    dt_free(all);
    return room ? DT_OK : DT_FAIL(err, DT_E_NOMEM, "no memory to draw");
}
