/* Linear and integer programs: built a column and a row at a time, solved by CBC where the build
 * has it. Nothing is printed, limits are counted, never in seconds: the same program gives the same
 * answer. */
#ifndef DT_MEMORY_REMAT_SOLVER_H
#define DT_MEMORY_REMAT_SOLVER_H

#include "memory/remat/remat.h"

/**
 * struct dti_lp - minimise the sum of cost times value over columns, rows within bounds.
 * @lower @upper @cost @whole: by column; whole: its value is an integer
 * @row_lower @row_upper @start: by row; its entries are [start, start of the next)
 * @column @factor: by entry
 */
typedef struct dti_lp {
    size_t n_col, n_row, n_entry;
    double *lower, *upper, *cost, *row_lower, *row_upper, *factor;
    bool *whole;
    int *start, *column;
    size_t room_col[4], room_row[3], room_entry[2];
} dti_lp;

/* A zeroed one is empty. Release with dti_lp_deinit. DT_E_NOMEM; DT_E_CONFIG beyond 2^31 entries.
 */
dt_status dti_lp_col(dti_lp *p, double lower, double upper, double cost, bool whole, int *out,
    dt_err *err) DT_NODISCARD;
dt_status dti_lp_row(dti_lp *p, double lower, double upper, dt_err *err) DT_NODISCARD;
/* One more entry of the last row; each column once a row. */
dt_status dti_lp_entry(dti_lp *p, int column, double factor, dt_err *err) DT_NODISCARD;
void dti_lp_deinit(dti_lp *p);

/**
 * struct dti_lp_answer - what was found.
 * @found:  @value has a solution, of @cost
 * @proved: nothing costs less; or, with nothing found, there is nothing
 */
typedef struct dti_lp_answer {
    bool found, proved;
    double cost;
} dti_lp_answer;

/* The integer program within so many nodes, in which a solution that costs less by no more than
 * @gap is not looked for; or, @nodes 0, its relaxation, in which all may be fractions. @value: room
 * for each column. DT_E_CONFIG without a solver. */
dt_status dti_lp_solve(const dti_lp *p, int nodes, double gap, double *value, dti_lp_answer *out,
    dt_err *err) DT_NODISCARD;

/* For a program's handler of SIGABRT, of signals that the thread has raised itself: if it solves a
 * program here, that is given up, as one that ran out of nodes, and this does not return.
 * Distributions build CBC with assertions, which bounds that cross by rounding fail
 * (ClpNonLinearCost, below its diving heuristics). This library handles no signals itself. */
void dt_solver_escape(void);

#endif
