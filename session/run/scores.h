/* The scores that a network gives, gathered while an evaluation runs: of all classes, whether its
 * output layer is whole or comes in tiles. */
#ifndef DT_SESSION_RUN_SCORES_H
#define DT_SESSION_RUN_SCORES_H

#include "engine/program/program.h"
#include "engine/runner/runner.h"

typedef struct dti_score_tile {
    const char *tensor; /* of the program, which must outlive this */
    dt_dtype type;
    int64_t first, n; /* classes */
} dti_score_tile;

/* @row @n_row: the positions that are wanted, of all samples. Set seen to 0 before a run; all is
 * there behind it if all tiles were seen. */
typedef struct dti_scores {
    size_t n, seen;
    dti_score_tile *tile;
    int64_t row, n_row, classes;
    float *score; /* [n_row, classes], owned */
} dti_scores;

/* Of a program of evaluation. @n_row: positions wanted at a time. */
dt_status dti_scores_init(
    dti_scores *s, const dt_program *p, int64_t n_row, dt_err *err) DT_NODISCARD;
void dti_scores_deinit(dti_scores *s);

/* To be called with what each op wrote (dt_probe). */
void dti_scores_look(dti_scores *s, const dt_plan_tensor *t, const void *bytes);

/* DT_E_INTERNAL unless all were seen. */
dt_status dti_scores_check(const dti_scores *s, dt_err *err) DT_NODISCARD;

#endif
