/* What progress says of a run in one line. */
#ifndef DT_TOOLS_PROGRESS_LINE_H
#define DT_TOOLS_PROGRESS_LINE_H

#include "engine/base/compiler.h"

enum { DTI_LINE = 1024 };

/* A redrawn or plain line: what it says. */
typedef struct dti_line {
    int64_t at, of, epoch,
        epochs; /* step in the epoch, or in the run; epoch from 1, epochs 0: none */
    double loss, lr, rate, wait, left; /* wait in [0, 1]; left in seconds */
    const char *unit; /* of the rate, a second: "img", "tok" of text, "row" of a table */
    bool smoothed;
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

#endif
