/* Texts that name marks in a picture in SVG, where no text lies over another or over a mark. */
#ifndef DT_TOOLS_LABELS_H
#define DT_TOOLS_LABELS_H

#include <stddef.h>
#include <stdio.h>

/* A part of the picture, from its left upper corner. */
typedef struct dti_area {
    double x, y, w, h;
} dti_area;

/**
 * struct dti_labels - texts of a picture, placed one after the other.
 * @frame: within which they are
 * @taken: what no text may cover, owned by the caller, with room for one more a text: first
 * @n_marks that a line from a mark to its text may cross, then what none may
 * @spare: the first that a text may cover if there is no room otherwise
 */
typedef struct dti_labels {
    FILE *f;
    dti_area frame;
    dti_area *taken;
    size_t n_taken, n_marks, spare;
} dti_labels;

/* A mark around a point, as far as @half to each side. */
typedef struct dti_mark {
    double x, y, half;
} dti_mark;

/* No text may touch it. */
void dti_take_mark(dti_labels *l, const dti_mark *m);

/* Write @text of 13 pixels, class "s", beside a mark, on whichever side there is room; else farther
 * off, at the end of a line of class "l"; where there is none at all it is left out. */
void dti_label(dti_labels *l, const dti_mark *m, const char *text);

#endif
