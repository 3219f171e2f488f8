/* Texts beside what they name. */
#include "tools/labels.h"

#include <math.h>
#include <string.h>

#include "engine/base/compiler.h"
#include "tools/xml.h"

/* What is as near to a text as HALO is covered, as its letters have a border. */
enum { TALL = 15, APART = 4, HALO = 2 };
#define LETTER 7.5 /* how wide a letter is at 13 pixels, at most, but for a few */

static bool meet(const dti_area *a, const dti_area *b)
{
    return a->x < b->x + b->w && b->x < a->x + a->w && a->y < b->y + b->h && b->y < a->y + a->h;
}

static bool is_free(const dti_labels *l, const dti_area *a, bool dense)
{
    const dti_area *in = &l->frame;
    bool clear =
        a->x > in->x && a->x + a->w < in->x + in->w && a->y > in->y && a->y + a->h < in->y + in->h;
    for (size_t i = dense ? l->spare : 0; i < l->n_taken && clear; i++)
        clear = !meet(a, &l->taken[i]);
    return clear;
}

/* Whether a line from a mark to its name runs through another name. */
static bool crosses(const dti_labels *l, double x, double y, double to_x, double to_y)
{
    enum { STEPS = 24 };
    for (int i = 1; i < STEPS; i++) {
        const dti_area at = {x + (to_x - x) * i / STEPS, y + (to_y - y) * i / STEPS, 1, 1};
        for (size_t k = l->n_marks; k < l->n_taken; k++)
            if (meet(&at, &l->taken[k]))
                return true;
    }
    return false;
}

/* Which point of a text stands where it is to be, however wide its letters are. */
typedef enum anchor { AT_START, AT_MIDDLE, AT_END } anchor;

static void write_name(dti_labels *l, const dti_area *at, anchor a, const char *text)
{
    static const char *const words[] = {"", " text-anchor=\"middle\"", " text-anchor=\"end\""};
    fprintf(l->f, "<text class=\"s\" x=\"%.1f\" y=\"%.1f\"%s>", at->x + at->w * (double)(int)a / 2,
        at->y + TALL - 4, words[a]);
    dti_xml_text(l->f, text);
    fputs("</text>\n", l->f);
    l->taken[l->n_taken++] = (dti_area){at->x - APART, at->y, at->w + 2 * APART, at->h};
}

/* Beside a mark, on whichever side there is room. */
static bool name_beside(dti_labels *l, const dti_mark *m, double w, const char *text, bool dense)
{
    const double x = m->x, y = m->y, corner = m->half + HALO, side = corner + 1;
    const struct {
        dti_area at;
        anchor a;
    } all[] = {{{x + side, y - 8, w, TALL}, AT_START}, {{x - side - w, y - 8, w, TALL}, AT_END},
        {{x - w / 2, y - side - TALL, w, TALL}, AT_MIDDLE},
        {{x - w / 2, y + side, w, TALL}, AT_MIDDLE},
        {{x + corner, y - corner - TALL, w, TALL}, AT_START},
        {{x - corner - w, y - corner - TALL, w, TALL}, AT_END},
        {{x + corner, y + corner, w, TALL}, AT_START},
        {{x - corner - w, y + corner, w, TALL}, AT_END}};
    for (size_t i = 0; i < DT_COUNT(all); i++)
        if (is_free(l, &all[i].at, dense)) {
            write_name(l, &all[i].at, all[i].a, text);
            return true;
        }
    return false;
}

/* Farther off, at the end of a line; the nearest free place, to the right before the left. */
static bool name_away(dti_labels *l, const dti_mark *m, double w, const char *text, bool dense)
{
    enum { NEAR = 28, FAR = 220, STEP = 12, ANGLES = 24 };
    const double x = m->x, y = m->y;
    for (double r = NEAR; r <= FAR; r += STEP)
        for (int k = 0; k < ANGLES; k++) {
            const double turn = 2 * acos(-1) / ANGLES * (k % 2 == 0 ? k / 2 : -(k + 1) / 2);
            const double to_x = x + r * cos(turn), to_y = y - r * sin(turn);
            const dti_area at = {to_x >= x ? to_x + 3 : to_x - 3 - w, to_y - TALL / 2.0, w, TALL};
            if (!is_free(l, &at, dense) || crosses(l, x, y, to_x, to_y))
                continue;
            fprintf(l->f, "<path class=\"l\" d=\"M%.1f %.1fL%.1f %.1f\"/>", x, y, to_x, to_y);
            write_name(l, &at, to_x >= x ? AT_START : AT_END, text);
            return true;
        }
    return false;
}

void dti_take_mark(dti_labels *l, const dti_mark *m)
{
    const double half = m->half + HALO;
    l->taken[l->n_taken++] = (dti_area){m->x - half, m->y - half, 2 * half, 2 * half};
}

void dti_label(dti_labels *l, const dti_mark *m, const char *text)
{
    const double w = LETTER * (double)strlen(text);
    for (int dense = 0; dense < 2; dense++)
        if (name_beside(l, m, w, text, dense == 1) || name_away(l, m, w, text, dense == 1))
            return;
}
