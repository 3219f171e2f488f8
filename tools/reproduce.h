/* What `dnntrain reproduce` shows. */
#ifndef DT_TOOLS_REPRODUCE_H
#define DT_TOOLS_REPRODUCE_H

#include "session/reproduce.h"

typedef enum dti_verdict { DTI_WITHIN, DTI_BETTER, DTI_OFF } dti_verdict;

enum { DTI_NOTE_BYTES = 1100 };

/**
 * struct dti_reproduced - a row, made again.
 * @ours:  NaN: the plan does not fit
 * @ratio: @ours to what was published
 * @note:  the row's, its blanks filled in
 */
typedef struct dti_reproduced {
    const dt_published_row *of;
    const dt_published_paper *paper;
    double ours, ratio;
    dti_verdict verdict;
    char note[DTI_NOTE_BYTES];
} dti_reproduced;

/* For a terminal: @all[@i] as soon as it is made, and what all come to. */
void dti_reproduce_row(const dti_reproduced *all, size_t i);
void dti_reproduce_summary(const dti_reproduced *all, size_t n);
/* docs/reproduced.md */
void dti_reproduce_markdown(const dti_reproduced *all, size_t n);
dt_status dti_reproduce_json(const dti_reproduced *all, size_t n, dt_err *err) DT_NODISCARD;

#endif
