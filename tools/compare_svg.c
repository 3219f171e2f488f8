/* Peak against time as a picture: to the right bytes, upwards seconds. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/alloc.h"
#include "tools/axis.h"
#include "tools/compare.h"

enum { WIDTH = 1000, LEFT = 76, RIGHT = 232, TOP = 72, HEIGHT = 520, BOTTOM = 60 };
enum { PLOT = WIDTH - LEFT - RIGHT, CURVE = 64, LINE = 15, LEGEND = 76 };
static const double mib = 1 << 20;
#define LETTER 7.5 /* how wide a letter is at 13 pixels, at most, but for a few */

/* Told apart by eyes that do not see all colours (after Okabe and Ito). */
static const char *const color[] = {
    "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#8f4d74"};

/* A part of the picture that a name takes. */
typedef struct area {
    double x, y, w, h;
} area;

/* @unit: so many seconds are 1 on the axis; @size: so many bytes are
 * @taken: what nothing else may cover, first marks of plans, of which there are @n_marks */
typedef struct picture {
    const dt_compare *c;
    FILE *f;
    double least_bytes, most_bytes, least, most, unit, size;
    const char *unit_name, *size_name;
    area *taken;
    size_t n_taken, n_marks;
} picture;

static double across(const picture *m, double bytes)
{
    return LEFT + PLOT * (bytes - m->least_bytes) / (m->most_bytes - m->least_bytes);
}

/* By their logarithm: plans take from a little longer than their ops to many times as long. */
static double up(const picture *m, double seconds)
{
    return TOP + HEIGHT * (1 - log(seconds / m->least) / log(m->most / m->least));
}

/* ---- axes ---- */

/* What lies between them is drawn, and a margin. */
static void find_ranges(picture *m)
{
    double low = m->c->row[m->c->kept].time.compute, high = 0;
    double least = HUGE_VAL, most = 0;
    for (size_t i = 0; i < m->c->n; i++) {
        const dt_compare_row *r = &m->c->row[i];
        low = fmin(low, r->time.seconds);
        high = fmax(high, r->time.seconds);
        least = fmin(least, (double)r->need.device);
        most = fmax(most, (double)r->need.device);
    }
    const double wide = fmax(most - least, 0.1 * most + 1);
    high = fmax(high, 1e-9);
    low = fmin(fmax(low, 1e-6 * high), high / 1.2);
    const double tall = pow(high / low, 0.07);
    m->least_bytes = fmax(0, least - 0.05 * wide);
    m->most_bytes = most + 0.05 * wide;
    m->least = low / tall;
    m->most = high * tall;
    m->size = m->most_bytes >= 2048 * mib ? 1024 * mib : mib;
    m->size_name = m->size > mib ? "GiB" : "MiB";
    m->unit = m->most >= 1 ? 1 : m->most >= 1e-3 ? 1e-3 : 1e-6;
    m->unit_name = m->most >= 1 ? "seconds" : m->most >= 1e-3 ? "milliseconds" : "microseconds";
}

static void one_line(const picture *m, double y)
{
    if (y * m->unit >= m->least && y * m->unit <= m->most)
        fprintf(m->f,
            "<path class=\"g\" d=\"M%d %.1fH%d\"/><text class=\"r\" x=\"%d\" "
            "y=\"%.1f\">%g</text>\n",
            LEFT, up(m, y * m->unit), LEFT + PLOT, LEFT - 8, up(m, y * m->unit) + 4, y);
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

static void axes(const picture *m)
{
    const double below = TOP + HEIGHT;
    const double dx = dti_axis_step((m->most_bytes - m->least_bytes) / m->size, 5);
    for (double x = ceil(m->least_bytes / m->size / dx) * dx; x * m->size <= m->most_bytes; x += dx)
        fprintf(m->f,
            "<path class=\"g\" d=\"M%.1f %dV%.0f\"/><text class=\"m\" x=\"%.1f\" "
            "y=\"%.0f\">%g</text>\n",
            across(m, x * m->size), TOP, below, across(m, x * m->size), below + 18, x);
    lines(m);
    fprintf(m->f,
        "<text class=\"m\" x=\"%d\" y=\"%.0f\">peak of the device, %s</text>\n"
        "<text class=\"m\" transform=\"translate(20 %d) rotate(-90)\">a step, %s</text>\n",
        LEFT + PLOT / 2, below + 42, m->size_name, TOP + HEIGHT / 2, m->unit_name);
}

/* ---- bounds ---- */

static void bounds(const picture *m)
{
    const dt_compare_row *kept = &m->c->row[m->c->kept];
    const double floor_y = up(m, kept->time.compute);
    fprintf(m->f,
        "<rect class=\"n\" x=\"%d\" y=\"%.1f\" width=\"%d\" height=\"%.1f\"/>\n"
        "<path class=\"d\" d=\"M%d %.1fH%d\"/>\n"
        "<text class=\"q\" x=\"%d\" y=\"%.1f\">ops alone</text>\n",
        LEFT, floor_y, PLOT, TOP + HEIGHT - floor_y, LEFT, floor_y, LEFT + PLOT, LEFT + 6,
        floor_y + 14);
    fprintf(m->f, "<path class=\"d\" clip-path=\"url(#plot)\" d=\"");
    for (int i = 0; i <= CURVE; i++) {
        const double bytes = m->least_bytes + (m->most_bytes - m->least_bytes) * i / CURVE;
        const double away = fmax(0, (double)kept->bound - bytes);
        fprintf(m->f, "%c%.1f %.1f", i > 0 ? 'L' : 'M', across(m, bytes),
            up(m, dt_predict_moving(m->c->session, kept->time.compute, away)));
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

/* A staircase: with so many bytes the fastest plan that fits. */
static void best(const picture *m, const dt_compare_row **all)
{
    const double right = LEFT + PLOT;
    size_t n = 0;
    for (size_t i = 0; i < m->c->n; i++)
        if (m->c->row[i].best)
            all[n++] = &m->c->row[i];
    qsort(all, n, sizeof(dt_compare_row *), smaller_first);
    for (int fill = 1; fill >= 0 && n > 0; fill--) {
        fprintf(m->f, "<path class=\"%s\" d=\"M%.1f %d", fill ? "f" : "p",
            across(m, (double)all[0]->need.device), TOP);
        for (size_t i = 0; i < n; i++)
            fprintf(m->f, "V%.1fH%.1f", up(m, all[i]->time.seconds),
                i + 1 < n ? across(m, (double)all[i + 1]->need.device) : right);
        fprintf(m->f, fill ? "V%dZ\"/>\n" : "\"/>\n", TOP);
    }
}

/* ---- plans ---- */

static bool is_auto(const char *list)
{
    return strcmp(list, "auto") == 0;
}

/* Hollow where results change, paler where an exact plan is ahead. */
static void paint(const picture *m, size_t list, bool exact, bool best)
{
    const char *c = color[list % DT_COUNT(color)], *pale = best ? "" : " fill-opacity=\".65\"";
    if (is_auto(m->c->lists.list[list]))
        fprintf(m->f, " class=\"a\"");
    else if (exact)
        fprintf(m->f, " class=\"o\" fill=\"%s\"%s", c, pale);
    else
        fprintf(m->f, " class=\"h\" stroke=\"%s\"", c);
}

/* A circle, then other shapes; it says @text when pointed at. Larger on the front, @best. */
static void mark(
    const picture *m, size_t list, bool exact, bool best, double x, double y, const char *text)
{
    static const char *const shape[] = {"m-5 0a5 5 0 1 0 10 0a5 5 0 1 0 -10 0z",
        "m-4.5 -4.5h9v9h-9z", "m0 -6l5.5 9.5h-11z", "m0 -6l6 6l-6 6l-6 -6z", "m0 6l5.5 -9.5h-11z",
        "m-2 -6h4v4h4v4h-4v4h-4v-4h-4v-4h4z"};
    const size_t k = is_auto(m->c->lists.list[list]) ? 3 : list / DT_COUNT(color) % DT_COUNT(shape);
    fprintf(m->f, "<path transform=\"translate(%.1f %.1f)%s\" d=\"M0 0%s\"", x, y,
        best ? " scale(1.35)" : "", shape[k]);
    paint(m, list, exact, best);
    fprintf(m->f, "><title>%s</title></path>\n", text);
}

static size_t list_of(const picture *m, const dt_compare_row *r)
{
    for (size_t l = 0; l < m->c->lists.n; l++)
        if (m->c->lists.list[l] == r->policy)
            return l;
    return 0;
}

static void point(const picture *m, const dt_compare_row *r)
{
    char text[DT_POLICY_LIST + 160], by[48] = "";
    if (r->budget > 0)
        snprintf(by, sizeof by, ", planned by %.1f MiB", (double)r->budget / mib);
    snprintf(text, sizeof text, "%s%s: %.2f MiB, %.6f s, %.1f samples a second%s%s", r->policy, by,
        (double)r->need.device / mib, r->time.seconds, r->time.rate,
        r->exact ? "" : "; changes results", r->can ? "" : "; cannot be run");
    mark(m, list_of(m, r), r->exact, r->best, across(m, (double)r->need.device),
        up(m, r->time.seconds), text);
}

/* Plans of one list under several budgets hang together: by dots, as none is between them. */
static void thread(const picture *m, size_t list, const dt_compare_row **all)
{
    size_t n = 0;
    for (size_t i = 0; i < m->c->n; i++)
        if (m->c->row[i].policy == m->c->lists.list[list] && !m->c->row[i].again)
            all[n++] = &m->c->row[i];
    qsort(all, n, sizeof(dt_compare_row *), smaller_first);
    if (n < 2)
        return;
    if (is_auto(m->c->lists.list[list]))
        fprintf(m->f, "<path class=\"x\" d=\"");
    else
        fprintf(m->f, "<path class=\"t\" stroke=\"%s\" d=\"", color[list % DT_COUNT(color)]);
    for (size_t i = 0; i < n; i++)
        fprintf(m->f, "%c%.1f %.1f", i > 0 ? 'L' : 'M', across(m, (double)all[i]->need.device),
            up(m, all[i]->time.seconds));
    fprintf(m->f, "\"/>\n");
}

/* ---- names ---- */

static bool meet(const area *a, const area *b)
{
    return a->x < b->x + b->w && b->x < a->x + a->w && a->y < b->y + b->h && b->y < a->y + a->h;
}

static bool is_free(const picture *m, const area *a)
{
    bool clear =
        a->x > LEFT && a->x + a->w < LEFT + PLOT && a->y > TOP && a->y + a->h < TOP + HEIGHT;
    for (size_t i = 0; i < m->n_taken && clear; i++)
        clear = !meet(a, &m->taken[i]);
    return clear;
}

/* Whether a line from a mark to its name runs through another name. */
static bool crosses(const picture *m, double x, double y, double to_x, double to_y)
{
    enum { STEPS = 24 };
    for (int i = 1; i < STEPS; i++) {
        const area at = {x + (to_x - x) * i / STEPS, y + (to_y - y) * i / STEPS, 1, 1};
        for (size_t k = m->n_marks; k < m->n_taken; k++)
            if (meet(&at, &m->taken[k]))
                return true;
    }
    return false;
}

static void write_name(picture *m, const area *at, const char *text)
{
    fprintf(
        m->f, "<text class=\"s\" x=\"%.1f\" y=\"%.1f\">%s</text>\n", at->x, at->y + LINE - 4, text);
    m->taken[m->n_taken++] = *at;
}

/* Beside a mark, on whichever side there is room. */
static bool name_beside(picture *m, double x, double y, double w, const char *text)
{
    const area at[] = {{x + 9, y - 8, w, LINE}, {x - 9 - w, y - 8, w, LINE},
        {x - w / 2, y - 9 - LINE, w, LINE}, {x - w / 2, y + 9, w, LINE},
        {x + 7, y - 6 - LINE, w, LINE}, {x - 7 - w, y - 6 - LINE, w, LINE}, {x + 7, y + 5, w, LINE},
        {x - 7 - w, y + 5, w, LINE}};
    for (size_t i = 0; i < DT_COUNT(at); i++)
        if (is_free(m, &at[i])) {
            write_name(m, &at[i], text);
            return true;
        }
    return false;
}

/* Farther off, at the end of a line; the nearest free place, to the right before the left. */
static bool name_away(picture *m, double x, double y, double w, const char *text)
{
    enum { NEAR = 28, FAR = 220, STEP = 12, ANGLES = 24 };
    for (double r = NEAR; r <= FAR; r += STEP)
        for (int k = 0; k < ANGLES; k++) {
            const double turn = 2 * acos(-1) / ANGLES * (k % 2 == 0 ? k / 2 : -(k + 1) / 2);
            const double to_x = x + r * cos(turn), to_y = y - r * sin(turn);
            const area at = {to_x >= x ? to_x + 3 : to_x - 3 - w, to_y - LINE / 2.0, w, LINE};
            if (!is_free(m, &at) || crosses(m, x, y, to_x, to_y))
                continue;
            fprintf(m->f, "<path class=\"l\" d=\"M%.1f %.1fL%.1f %.1f\"/>", x, y, to_x, to_y);
            write_name(m, &at, text);
            return true;
        }
    return false;
}

/* How far a plan's mark is from those of other lists. */
static double alone(const picture *m, const dt_compare_row *r)
{
    double least = HUGE_VAL;
    for (size_t i = 0; i < m->c->n; i++) {
        const dt_compare_row *o = &m->c->row[i];
        if (o->policy != r->policy)
            least = fmin(
                least, hypot(across(m, (double)o->need.device) - across(m, (double)r->need.device),
                           up(m, o->time.seconds) - up(m, r->time.seconds)));
    }
    return least;
}

/* Of a list the plan by which it is named: one that none is ahead of, if there is one, and of those
 * the one that stands most by itself. */
static const dt_compare_row *named_by(const picture *m, size_t list)
{
    const dt_compare_row *chosen = NULL;
    for (size_t i = 0; i < m->c->n; i++) {
        const dt_compare_row *r = &m->c->row[i];
        if (r->policy == m->c->lists.list[list] &&
            (chosen == NULL || (r->best && !chosen->best) ||
                (r->best == chosen->best && alone(m, r) > alone(m, chosen))))
            chosen = r;
    }
    return chosen;
}

/* Each list once, those that have a plan on the front before others; where there is no room at
 * all, the column on the right must do. */
static void names(picture *m)
{
    for (size_t i = 0; i < m->c->n; i++) {
        const dt_compare_row *r = &m->c->row[i];
        const double x = across(m, (double)r->need.device), y = up(m, r->time.seconds);
        m->taken[m->n_taken++] = (area){x - 6, y - 6, 12, 12};
    }
    m->n_marks = m->n_taken;
    m->taken[m->n_taken++] =
        (area){LEFT, up(m, m->c->row[m->c->kept].time.compute), 90, 20}; /* "ops alone" */
    for (int turn = 0; turn < 2; turn++)
        for (size_t l = 0; l < m->c->lists.n; l++) {
            const dt_compare_row *r = named_by(m, l);
            if (r == NULL || r->best != (turn == 0))
                continue;
            const double x = across(m, (double)r->need.device), y = up(m, r->time.seconds);
            const double w = LETTER * (double)strlen(r->policy);
            if (!name_beside(m, x, y, w, r->policy))
                name_away(m, x, y, w, r->policy);
        }
}

/* Every list with its mark; many stand closer together. Below are LEGEND of lines and what they
 * say, of which the last is no lower than the axis and its name. */
static void column(const picture *m)
{
    const double x = LEFT + PLOT + 26,
                 step = fmin(19, (double)(HEIGHT - LEGEND) / (double)m->c->lists.n);
    double y = TOP + 10;
    for (size_t l = 0; l < m->c->lists.n; l++, y += step) {
        const dt_compare_row *r = &m->c->row[m->c->of[l][0]];
        mark(m, l, r->exact, true, x, y - 4, m->c->lists.list[l]);
        fprintf(m->f, "<text x=\"%.1f\" y=\"%.1f\">%.34s%s</text>\n", x + 14, y,
            m->c->lists.list[l], r->exact ? "" : " (changes results)");
    }
    y += 10;
    fprintf(m->f,
        "<path class=\"p\" d=\"M%.1f %.1fh16\"/><text x=\"%.1f\" y=\"%.1f\">no exact plan is "
        "ahead</text>\n"
        "<path class=\"x\" d=\"M%.1f %.1fh16\"/><text x=\"%.1f\" y=\"%.1f\">one policy, by "
        "budgets</text>\n"
        "<path class=\"d\" d=\"M%.1f %.1fh16\"/><text x=\"%.1f\" y=\"%.1f\">ops alone; links, "
        "if what</text>\n<text x=\"%.1f\" y=\"%.1f\">is not there was moved</text>\n",
        x - 8, y - 4, x + 14, y, x - 8, y + 14, x + 14, y + 18, x - 8, y + 32, x + 14, y + 36,
        x + 14, y + 52);
}

/* ---- all of it ---- */

static void head(const picture *m)
{
    const dt_session *s = m->c->session;
    const double tall = TOP + HEIGHT + BOTTOM;
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
        "stroke:#111}.a{fill:#eee;stroke:#111}.x{stroke:#eee}}</style>\n"
        "<clipPath id=\"plot\"><rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\"/></clipPath>\n"
        "<rect class=\"b\" width=\"%d\" height=\"%.0f\"/>\n",
        WIDTH, tall, LEFT, TOP, PLOT, HEIGHT, WIDTH, tall);
    fprintf(m->f,
        "<text x=\"%d\" y=\"30\" font-size=\"18\">%s, batch %" PRId64
        ": memory against time</text>\n",
        LEFT, s->graph->name, s->opts.train.batch);
    if (m->c->row[m->c->kept].time.known)
        fprintf(m->f, "<text class=\"q\" x=\"%d\" y=\"52\">%s: %.80s</text>\n", LEFT,
            s->costs.simulated ? "simulated" : "predicted", s->costs.name);
    else
        fprintf(m->f,
            "<text class=\"q\" x=\"%d\" y=\"52\">nothing was measured: only the order of times "
            "counts</text>\n",
            LEFT);
}

dt_status dti_compare_svg(const void *compare, FILE *f, dt_err *err)
{
    const dt_compare *c = compare;
    picture m = {.c = c, .f = f, .taken = dt_alloc(c->n + c->lists.n + 2, sizeof *m.taken)};
    const dt_compare_row **all = dt_alloc(c->n + 1, sizeof *all);
    const bool room = m.taken != NULL && all != NULL;
    if (room) {
        find_ranges(&m);
        head(&m);
        axes(&m);
        bounds(&m);
        best(&m, all);
        for (size_t l = 0; l < c->lists.n; l++)
            thread(&m, l, all);
        for (size_t i = 0; i < c->n; i++)
            if (!c->row[i].again)
                point(&m, &c->row[i]);
        names(&m);
        column(&m);
        fputs("</svg>\n", f);
    }
    dt_free(m.taken);
    dt_free(all);
    return room ? DT_OK : DT_FAIL(err, DT_E_NOMEM, "no memory to draw");
}
