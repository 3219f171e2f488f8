/* Peak against time as a picture: to the right bytes, upwards seconds. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/alloc.h"
#include "tools/compare.h"

enum { WIDTH = 1000, LEFT = 76, RIGHT = 236, TOP = 64, HEIGHT = 460, BOTTOM = 56 };
enum { PLOT = WIDTH - LEFT - RIGHT, CURVE = 64, LETTER = 6, LINE = 13, LEGEND = 32 };
static const double mib = 1 << 20;

/* Told apart by eyes that do not see all colours (after Okabe and Ito). */
static const char *const color[] = {
    "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#8f4d74"};

/* A part of the picture that a name takes. */
typedef struct area {
    double x, y, w, h;
} area;

/* @unit: so many seconds are 1 on the axis */
typedef struct picture {
    const dt_compare *c;
    FILE *f;
    double least_bytes, most_bytes, least, most, unit;
    const char *unit_name;
    area *taken;
    size_t n_taken;
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

/* 1, 2 or 5 times a power of ten, of which some five make the range. */
static double tick(double range)
{
    const double raw = range / 5, ten = pow(10, floor(log10(raw)));
    return raw < 1.5 * ten ? ten : raw < 3.5 * ten ? 2 * ten : raw < 7.5 * ten ? 5 * ten : 10 * ten;
}

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
    const double ratio = m->most / m->least, dy = tick((m->most - m->least) / m->unit);
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
    const double dx = tick((m->most_bytes - m->least_bytes) / mib);
    for (double x = ceil(m->least_bytes / mib / dx) * dx; x * mib <= m->most_bytes; x += dx)
        fprintf(m->f,
            "<path class=\"g\" d=\"M%.1f %dV%.0f\"/><text class=\"m\" x=\"%.1f\" "
            "y=\"%.0f\">%g</text>\n",
            across(m, x * mib), TOP, below, across(m, x * mib), below + 16, x);
    lines(m);
    fprintf(m->f,
        "<text class=\"m\" x=\"%d\" y=\"%.0f\">peak of the device, MiB</text>\n"
        "<text class=\"m\" transform=\"translate(18 %d) rotate(-90)\">a step, %s</text>\n",
        LEFT + PLOT / 2, below + 38, TOP + HEIGHT / 2, m->unit_name);
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

/* Hollow where results change. */
static void paint(const picture *m, size_t list, bool exact)
{
    const char *c = color[list % DT_COUNT(color)];
    if (is_auto(m->c->lists.list[list]))
        fprintf(m->f, " class=\"a\"");
    else if (exact)
        fprintf(m->f, " class=\"o\" fill=\"%s\"", c);
    else
        fprintf(m->f, " class=\"h\" stroke=\"%s\"", c);
}

/* A circle, then other shapes; it says @text when pointed at. */
static void mark(const picture *m, size_t list, bool exact, double x, double y, const char *text)
{
    static const char *const shape[] = {"m-5 0a5 5 0 1 0 10 0a5 5 0 1 0 -10 0z",
        "m-4.5 -4.5h9v9h-9z", "m0 -6l5.5 9.5h-11z", "m0 -6l6 6l-6 6l-6 -6z", "m0 6l5.5 -9.5h-11z",
        "m-2 -6h4v4h4v4h-4v4h-4v-4h-4v-4h4z"};
    const size_t k = is_auto(m->c->lists.list[list]) ? 3 : list / DT_COUNT(color) % DT_COUNT(shape);
    fprintf(m->f, "<path d=\"M%.1f %.1f%s\"", x, y, shape[k]);
    paint(m, list, exact);
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
    mark(m, list_of(m, r), r->exact, across(m, (double)r->need.device), up(m, r->time.seconds),
        text);
}

/* Plans of one list under several budgets hang together. */
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
        fprintf(m->f, "<path fill=\"none\" stroke-opacity=\".5\" stroke=\"%s\" d=\"",
            color[list % DT_COUNT(color)]);
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

/* Beside its mark, on whichever side there is room; else the column on the right must do. */
static void name(picture *m, const dt_compare_row *r)
{
    const double x = across(m, (double)r->need.device), y = up(m, r->time.seconds);
    const double w = LETTER * (double)strlen(r->policy);
    const area at[] = {{x + 8, y - 8, w, LINE}, {x - 8 - w, y - 8, w, LINE},
        {x - w / 2, y - 9 - LINE, w, LINE}, {x - w / 2, y + 8, w, LINE},
        {x + 7, y - 6 - LINE, w, LINE}, {x - 7 - w, y - 6 - LINE, w, LINE}, {x + 7, y + 5, w, LINE},
        {x - 7 - w, y + 5, w, LINE}};
    for (size_t i = 0; i < DT_COUNT(at); i++)
        if (is_free(m, &at[i])) {
            fprintf(m->f, "<text class=\"s\" x=\"%.1f\" y=\"%.1f\">%s</text>\n", at[i].x,
                at[i].y + LINE - 3, r->policy);
            m->taken[m->n_taken++] = at[i];
            return;
        }
}

/* Of each list the first of its plans, those that none is ahead of before others. */
static void names(picture *m)
{
    for (size_t i = 0; i < m->c->n; i++) {
        const dt_compare_row *r = &m->c->row[i];
        const double x = across(m, (double)r->need.device), y = up(m, r->time.seconds);
        m->taken[m->n_taken++] = (area){x - 6, y - 6, 12, 12};
    }
    m->taken[m->n_taken++] =
        (area){LEFT, up(m, m->c->row[m->c->kept].time.compute), 80, 18}; /* "ops alone" */
    for (int good = 1; good >= 0; good--)
        for (size_t l = 0; l < m->c->lists.n; l++) {
            const dt_compare_row *chosen = NULL;
            bool any = false;
            for (size_t i = 0; i < m->c->n; i++)
                if (m->c->row[i].policy == m->c->lists.list[l]) {
                    any = any || m->c->row[i].best;
                    if (chosen == NULL || (m->c->row[i].best && !chosen->best))
                        chosen = &m->c->row[i];
                }
            if (chosen != NULL && any == (good == 1))
                name(m, chosen);
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
        mark(m, l, r->exact, x, y - 4, m->c->lists.list[l]);
        fprintf(m->f, "<text x=\"%.1f\" y=\"%.1f\">%.34s%s</text>\n", x + 12, y,
            m->c->lists.list[l], r->exact ? "" : " (changes results)");
    }
    y += 10;
    fprintf(m->f,
        "<path class=\"p\" d=\"M%.1f %.1fh16\"/><text x=\"%.1f\" y=\"%.1f\">no exact plan is "
        "ahead</text>\n"
        "<path class=\"d\" d=\"M%.1f %.1fh16\"/><text x=\"%.1f\" y=\"%.1f\">ops alone; links, "
        "if what is</text>\n<text x=\"%.1f\" y=\"%.1f\">not there was moved</text>\n",
        x - 8, y - 4, x + 12, y, x - 8, y + 15, x + 12, y + 19, x + 12, y + 33);
}

/* ---- all of it ---- */

static void head(const picture *m)
{
    const dt_session *s = m->c->session;
    const double tall = TOP + HEIGHT + BOTTOM;
    fprintf(m->f,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %.0f\" "
        "font-family=\"system-ui, sans-serif\" font-size=\"11\">\n"
        "<style>text{fill:#222}.r{text-anchor:end}.m{text-anchor:middle}.b{fill:#fff}"
        ".g{stroke:#888;stroke-opacity:.25}.q{fill:#777}.s{paint-order:stroke;stroke:#fff;"
        "stroke-width:3}.n{fill:#888;fill-opacity:.12}.d{fill:none;stroke:#777;"
        "stroke-dasharray:5 4}.f{fill:#56b4e9;fill-opacity:.10}.p{fill:none;stroke:#56b4e9;"
        "stroke-width:2}.o{stroke:#fff;stroke-width:1}.h{fill:#fff;stroke-width:2}"
        ".a{fill:#111;stroke:#fff;stroke-width:1}.x{fill:none;stroke:#111;stroke-opacity:.6}"
        "@media(prefers-color-scheme:dark){text{fill:#ddd}.q{fill:#999}.b,.h{fill:#111}.s,.o{"
        "stroke:#111}.a{fill:#eee;stroke:#111}.x{stroke:#eee}}</style>\n"
        "<clipPath id=\"plot\"><rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\"/></clipPath>\n"
        "<rect class=\"b\" width=\"%d\" height=\"%.0f\"/>\n",
        WIDTH, tall, LEFT, TOP, PLOT, HEIGHT, WIDTH, tall);
    fprintf(m->f,
        "<text x=\"%d\" y=\"26\" font-size=\"15\">%s, batch %" PRId64
        ": memory against time</text>\n",
        LEFT, s->graph->name, s->opts.train.batch);
    if (m->c->row[m->c->kept].time.known)
        fprintf(m->f, "<text class=\"q\" x=\"%d\" y=\"44\">%s: %.80s</text>\n", LEFT,
            s->costs.simulated ? "simulated" : "predicted", s->costs.name);
    else
        fprintf(m->f,
            "<text class=\"q\" x=\"%d\" y=\"44\">nothing was measured: only the order of times "
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
