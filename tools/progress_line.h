/* What progress says of a run in one line, and its losses as a curve. */
#ifndef DT_TOOLS_PROGRESS_LINE_H
#define DT_TOOLS_PROGRESS_LINE_H

#include "engine/base/compiler.h"

enum { DTI_BINS = 64, DTI_LINE = 1024 };

/* A redrawn or plain line: what it says. */
typedef struct dti_line {
    int64_t at, of, epoch,
        epochs; /* step in the epoch, or in the run; epoch from 1, epochs 0: none */
    double loss, lr, rate, wait, left; /* wait in [0, 1]; left in seconds */
    bool smoothed, tokens;             /* the rate is that of tokens, not of images */
} dti_line;

/* The columns that values of a run have taken so far, so that no part of its line comes and goes as
 * they grow and shrink; zero-initialised. */
typedef struct dti_line_widths {
    int epoch, at, loss, lr, rate, data, left;
} dti_line_widths;

/* As much of it as fits @width columns at all of @w, most important first. Returns the length. */
size_t dti_line_fit(dti_line_widths *w, const dti_line *l, int width, char to[DTI_LINE]);
/* All of it, for logs. */
size_t dti_line_plain(const dti_line *l, char to[DTI_LINE]);

/* A mean in which each loss counts 0.9 of the next one; zero-initialised. What is no number changes
 * nothing. Returns the mean so far, or @loss while there is none. */
typedef struct dti_smoothed {
    double sum, weight;
} dti_smoothed;
double dti_smooth(dti_smoothed *s, double loss);

/* Mean losses of a whole run in few numbers: when all bins are full, pairs become one. */
typedef struct dti_loss_curve {
    double sum[DTI_BINS];
    int64_t count[DTI_BINS], width; /* steps a bin */
    int bins;
} dti_loss_curve;

void dti_loss_curve_add(dti_loss_curve *c, double loss);

/* The curve as blocks of eight heights, at most @width of them; nothing for fewer than two. Bytes
 * written, without the NUL. */
size_t dti_loss_curve_draw(const dti_loss_curve *c, char *to, size_t room, int width);

#endif
