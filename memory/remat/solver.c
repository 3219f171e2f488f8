/* Linear programs, and what is said where nothing solves them. */
#include "memory/remat/solver.h"

#include <limits.h>
#include <string.h>

#include "engine/base/alloc.h"

static dt_status no_memory(dt_err *err)
{
    return DT_FAIL(err, DT_E_NOMEM, "no memory for an integer program");
}

static bool grow(double **what, size_t *room, size_t n)
{
    return dt_grow(what, room, n, sizeof **what);
}

dt_status dti_lp_col(
    dti_lp *p, double lower, double upper, double cost, bool whole, int *out, dt_err *err)
{
    const size_t n = p->n_col;
    const bool ok = n < INT_MAX && grow(&p->lower, &p->room_col[0], n) &&
                    grow(&p->upper, &p->room_col[1], n) && grow(&p->cost, &p->room_col[2], n) &&
                    dt_grow(&p->whole, &p->room_col[3], n, sizeof *p->whole);
    if (!ok)
        return no_memory(err);
    p->lower[n] = lower;
    p->upper[n] = upper;
    p->cost[n] = cost;
    p->whole[n] = whole;
    p->n_col++;
    *out = (int)n;
    return DT_OK;
}

dt_status dti_lp_row(dti_lp *p, double lower, double upper, dt_err *err)
{
    const size_t n = p->n_row;
    const bool ok = n < INT_MAX - 1 && grow(&p->row_lower, &p->room_row[0], n) &&
                    grow(&p->row_upper, &p->room_row[1], n) &&
                    dt_grow(&p->start, &p->room_row[2], n + 1, sizeof *p->start);
    if (!ok)
        return no_memory(err);
    p->row_lower[n] = lower;
    p->row_upper[n] = upper;
    p->start[n] = (int)p->n_entry;
    p->start[n + 1] = (int)p->n_entry;
    p->n_row++;
    return DT_OK;
}

dt_status dti_lp_entry(dti_lp *p, int column, double factor, dt_err *err)
{
    if (p->n_entry >= INT_MAX)
        return DT_FAIL(err, DT_E_CONFIG, "an integer program of more than 2^31 entries");
    if (!grow(&p->factor, &p->room_entry[0], p->n_entry) ||
        !dt_grow(&p->column, &p->room_entry[1], p->n_entry, sizeof *p->column))
        return no_memory(err);
    p->factor[p->n_entry] = factor;
    p->column[p->n_entry++] = column;
    p->start[p->n_row] = (int)p->n_entry;
    return DT_OK;
}

void dti_lp_deinit(dti_lp *p)
{
    dt_free(p->lower);
    dt_free(p->upper);
    dt_free(p->cost);
    dt_free(p->whole);
    dt_free(p->row_lower);
    dt_free(p->row_upper);
    dt_free(p->start);
    dt_free(p->column);
    dt_free(p->factor);
    *p = (dti_lp){0};
}

#ifndef DT_CBC /* else solver_cbc.c has them */

const char *dt_solver_name(void)
{
    return NULL;
}

void dt_solver_escape(void) {}

dt_status dti_solver_check(dt_err *err)
{
    return DT_FAIL(err, DT_E_CONFIG,
        "this build has no solver of integer programs: install CBC (Debian: coinor-libcbc-dev) and "
        "then cmake -B build && cmake --build build");
}

dt_status dti_lp_solve(
    const dti_lp *p, int nodes, double gap, double *value, dti_lp_answer *out, dt_err *err)
{
    (void)p;
    (void)nodes;
    (void)gap;
    (void)value;
    *out = (dti_lp_answer){0};
    return dti_solver_check(err);
}

#endif
