/* What `dnntrain reproduce` shows. */
#ifndef DT_TOOLS_REPRODUCE_H
#define DT_TOOLS_REPRODUCE_H

#include "session/reproduce.h"

typedef enum dti_verdict { DTI_WITHIN, DTI_BETTER, DTI_OFF } dti_verdict;

/**
 * struct dti_reproduced - a row, made again.
 * @ours:  NaN: the plan does not fit
 * @ratio: @ours to what was published
 */
typedef struct dti_reproduced {
    const dt_published_row *of;
    const dt_published_paper *paper;
    double ours, ratio;
    dti_verdict verdict;
} dti_reproduced;

/**
 * struct dti_reproduce_form - how rows are printed as they are made.
 * @head: before the first; may be NULL
 * @row:  @all[@i]
 */
typedef struct dti_reproduce_form {
    void (*head)(void);
    void (*row)(const dti_reproduced *all, size_t i);
    void (*summary)(const dti_reproduced *r, size_t n);
} dti_reproduce_form;

extern const dti_reproduce_form dti_reproduce_text;     /* for a terminal */
extern const dti_reproduce_form dti_reproduce_markdown; /* docs/reproduced.md */

dt_status dti_reproduce_json(const dti_reproduced *r, size_t n, dt_err *err) DT_NODISCARD;

#endif
