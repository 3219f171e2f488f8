/* Lines over steps, as SVG. */
#include <math.h>
#include <string.h>

#include "tools/axis.h"
#include "tools/page.h"

enum { WIDTH = 1000, LEFT = 62, RIGHT = 14, TOP = 26, BOTTOM = 22, PLOT = WIDTH - LEFT - RIGHT };

typedef struct range {
    double least, most;
} range;

static void widen(range *r, double v)
{
    r->least = fmin(r->least, v);
    r->most = fmax(r->most, v);
}

/* Of numbers beyond these an axis could not be told: their differences are no numbers. */
static const double most_drawn = 1e300;

static bool is_point(const dti_chart_line *l, size_t i)
{
    return isfinite(l->x[i]) && fabs(l->y[i]) <= most_drawn;
}

/* Between two numbers of an axis: a chart that is low has room for few. */
enum { PARTS = 4, PARTS_OF_LOW = 2, LOW = 100 };

static double step_of(const range *r, int parts)
{
    return dti_axis_step(r->most - r->least, parts);
}

/* Of the lines, or of the dots, of which none takes more than twice the room of the lines: one
 * evaluation that is far off would leave a curve flat. */
static void widen_by(const dti_chart *c, bool dots, range *x, range *y)
{
    const double room = y->most - y->least, limit = room > 0 ? y->most + 2 * room : HUGE_VAL;
    for (size_t k = 0; k < c->n; k++)
        for (size_t i = 0; i < c->line[k].n; i++)
            if (c->line[k].dots == dots && is_point(&c->line[k], i)) {
                widen(x, c->line[k].x[i]);
                widen(y, dots ? fmin(c->line[k].y[i], limit) : c->line[k].y[i]);
            }
}

/* False: there is no point. */
static bool find(const dti_chart *c, range *x, range *y)
{
    *x = *y = (range){HUGE_VAL, -HUGE_VAL};
    widen_by(c, false, x, y);
    widen_by(c, true, x, y);
    if (!(y->most >= y->least))
        return false;
    widen(x, c->from);
    widen(x, c->to);
    if (c->zero)
        widen(y, 0);
    const double margin = fmax((y->most - y->least) * 0.06, fmax(fabs(y->most) * 1e-3, 1e-12));
    y->most += margin;
    y->least -= c->zero ? 0 : margin;
    x->most += x->most > x->least ? 0 : 1;
    return true;
}

static double across(const range *x, double v)
{
    return LEFT + PLOT * (v - x->least) / (x->most - x->least);
}

static double up(const dti_chart *c, const range *y, double v)
{
    return TOP + c->tall * (1 - (v - y->least) / (y->most - y->least));
}

static void axes(const dti_chart *c, const range *x, const range *y, FILE *f)
{
    const double dy = step_of(y, c->tall < LOW ? PARTS_OF_LOW : PARTS);
    const double dx = fmax(1, step_of(x, PARTS));
    for (double v = ceil(y->least / dy) * dy; v <= y->most; v += dy)
        fprintf(f,
            "<path class=\"grid\" d=\"M%d %.1fH%d\"/><text class=\"end\" x=\"%d\" "
            "y=\"%.1f\">%g</text>\n",
            LEFT, up(c, y, v), LEFT + PLOT, LEFT - 7, up(c, y, v) + 4, fabs(v) < dy / 2 ? 0 : v);
    for (double v = ceil(x->least / dx) * dx; v <= x->most; v += dx)
        fprintf(f, "<text class=\"middle\" x=\"%.1f\" y=\"%.1f\">%g</text>\n", across(x, v),
            TOP + c->tall + 16, v);
}

/* One above all of it stands at the edge, with its number. */
static void dot(
    const dti_chart *c, const dti_chart_line *l, size_t i, const range *x, const range *y, FILE *f)
{
    const double at = across(x, l->x[i]);
    fprintf(f, "<circle class=\"dot %s\" r=\"3.5\" cx=\"%.1f\" cy=\"%.1f\"/>", l->class, at,
        up(c, y, fmin(l->y[i], y->most)));
    if (l->y[i] > y->most)
        fprintf(f, "<text class=\"%s\" x=\"%.1f\" y=\"%d\">%.4g</text>",
            at > LEFT + PLOT / 2 ? "end" : "", at > LEFT + PLOT / 2 ? at - 7 : at + 7, TOP + 4,
            l->y[i]);
}

static void draw(
    const dti_chart *c, const dti_chart_line *l, const range *x, const range *y, FILE *f)
{
    bool begun = false;
    if (!l->dots)
        fprintf(f, "<path class=\"curve %s\" d=\"", l->class);
    for (size_t i = 0; i < l->n; i++) {
        if (!is_point(l, i)) {
            begun = false;
            continue;
        }
        if (l->dots)
            dot(c, l, i, x, y, f);
        else
            fprintf(f, "%c%.1f %.1f", begun ? 'L' : 'M', across(x, l->x[i]), up(c, y, l->y[i]));
        begun = true;
    }
    fputs(l->dots ? "\n" : "\"/>\n", f);
}

/* What is drawn how, and over what. Letters are of the size that they have in a narrow window. */
#define LETTER 9.5
static void legend(const dti_chart *c, FILE *f)
{
    double x = LEFT;
    fprintf(f, "<text class=\"caption\" x=\"%.0f\" y=\"14\">%s</text>\n", x, c->title);
    fprintf(f, "<text class=\"end\" x=\"%d\" y=\"14\">across: steps</text>\n", LEFT + PLOT);
    x += 24 + LETTER * (double)strlen(c->title);
    for (size_t k = 0; k < c->n && c->n > 1; k++) {
        fprintf(f,
            c->line[k].dots ? "<circle class=\"dot %s\" r=\"3.5\" cx=\"%.0f\" cy=\"10\"/>"
                            : "<path class=\"curve %s\" d=\"M%.0f 10h14\"/>",
            c->line[k].class, c->line[k].dots ? x + 7 : x);
        fprintf(f, "<text x=\"%.0f\" y=\"14\">%s</text>\n", x + 19, c->line[k].name);
        x += 38 + LETTER * (double)strlen(c->line[k].name);
    }
}

void dti_page_chart(const dti_page *p, const dti_chart *c)
{
    range x, y;
    if (!find(c, &x, &y))
        return;
    fprintf(p->f,
        "<div class=\"wide\"><svg xmlns=\"http://www.w3.org/2000/svg\" class=\"chart\" id=\"%s\" "
        "viewBox=\"0 0 %d %.0f\" data-least=\"%.9g\" data-most=\"%.9g\">\n",
        c->id, WIDTH, TOP + c->tall + BOTTOM, x.least, x.most);
    axes(c, &x, &y, p->f);
    for (size_t k = 0; k < c->n; k++)
        draw(c, &c->line[k], &x, &y, p->f);
    legend(c, p->f);
    fprintf(p->f, "<path class=\"cross\" d=\"M0 %dV%.0f\" visibility=\"hidden\"/></svg></div>\n",
        TOP, TOP + c->tall);
}
