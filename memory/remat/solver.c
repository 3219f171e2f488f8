/* Linear programs, and CBC and CLP from the COIN-OR project, which solve them. */
#include "memory/remat/solver.h"

#include <limits.h>
#include <string.h>

#include "engine/base/alloc.h"

#ifdef DT_HAVE_CBC
#include <Cbc_C_Interface.h>
#include <Clp_C_Interface.h>
#endif

static dt_status no_memory(dt_err *err)
{
    return DT_FAIL(err, DT_E_NOMEM, "no memory for an integer program");
}

static bool grow(double **what, size_t *room, size_t n)
{
    void *grown = *what;
    const bool ok = dt_grow(&grown, room, n, sizeof **what);
    *what = grown;
    return ok;
}

dt_status dti_lp_col(
    dti_lp *p, double lower, double upper, double cost, bool whole, int *out, dt_err *err)
{
    const size_t n = p->n_col;
    void *grown = p->whole;
    const bool ok = n < INT_MAX && grow(&p->lower, &p->room_col[0], n) &&
                    grow(&p->upper, &p->room_col[1], n) && grow(&p->cost, &p->room_col[2], n) &&
                    dt_grow(&grown, &p->room_col[3], n, sizeof *p->whole);
    p->whole = grown;
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
    void *grown = p->start;
    const bool ok = n < INT_MAX - 1 && grow(&p->row_lower, &p->room_row[0], n) &&
                    grow(&p->row_upper, &p->room_row[1], n) &&
                    dt_grow(&grown, &p->room_row[2], n + 1, sizeof *p->start);
    p->start = grown;
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
    void *grown = p->column;
    if (p->n_entry >= INT_MAX)
        return DT_FAIL(err, DT_E_CONFIG, "an integer program of more than 2^31 entries");
    const bool ok = grow(&p->factor, &p->room_entry[0], p->n_entry) &&
                    dt_grow(&grown, &p->room_entry[1], p->n_entry, sizeof *p->column);
    p->column = grown;
    if (!ok)
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

#ifdef DT_HAVE_CBC

const char *dt_solver_name(void)
{
    return "CBC";
}

/* The same by columns, as the solvers want it. */
typedef struct columns {
    CoinBigIndex *start;
    int *row;
    double *factor;
} columns;

static dt_status columns_init(columns *c, const dti_lp *p, dt_err *err)
{
    c->start = dt_alloc(p->n_col + 2, sizeof *c->start);
    c->row = dt_alloc(p->n_entry + 1, sizeof *c->row);
    c->factor = dt_alloc(p->n_entry + 1, sizeof *c->factor);
    if (c->start == NULL || c->row == NULL || c->factor == NULL)
        return no_memory(err);
    for (size_t e = 0; e < p->n_entry; e++)
        c->start[p->column[e] + 2]++;
    for (size_t k = 2; k < p->n_col + 2; k++)
        c->start[k] += c->start[k - 1];
    for (size_t r = 0; r < p->n_row; r++)
        for (int e = p->start[r]; e < p->start[r + 1]; e++) {
            const CoinBigIndex at = c->start[p->column[e] + 1]++;
            c->row[at] = (int)r;
            c->factor[at] = p->factor[e];
        }
    return DT_OK;
}

static void columns_deinit(columns *c)
{
    dt_free(c->start);
    dt_free(c->row);
    dt_free(c->factor);
}

static void relax(const dti_lp *p, const columns *c, double *value, dti_lp_answer *out)
{
    Clp_Simplex *m = Clp_newModel();
    Clp_setLogLevel(m, 0);
    Clp_loadProblem(m, (int)p->n_col, (int)p->n_row, c->start, c->row, c->factor, p->lower,
        p->upper, p->cost, p->row_lower, p->row_upper);
    (void)Clp_initialSolve(m);
    out->found = Clp_status(m) == 0;
    out->proved = out->found || Clp_status(m) == 1;
    if (out->found) {
        out->cost = Clp_objectiveValue(m);
        memcpy(value, Clp_primalColumnSolution(m), p->n_col * sizeof *value);
    }
    Clp_deleteModel(m);
}

static void branch(
    const dti_lp *p, const columns *c, int nodes, double gap, double *value, dti_lp_answer *out)
{
    Cbc_Model *m = Cbc_newModel();
    Cbc_setLogLevel(m, 0);
    Cbc_loadProblem(m, (int)p->n_col, (int)p->n_row, c->start, c->row, c->factor, p->lower,
        p->upper, p->cost, p->row_lower, p->row_upper);
    for (size_t k = 0; k < p->n_col; k++)
        if (p->whole[k])
            Cbc_setInteger(m, (int)k);
    Cbc_setMaximumNodes(m, nodes);
    Cbc_setAllowableGap(m, gap);
    Cbc_setAllowableFractionGap(m, 0);
    (void)Cbc_solve(m);
    const double *best = Cbc_bestSolution(m);
    out->found = best != NULL;
    out->proved = Cbc_isProvenOptimal(m) != 0 || (!out->found && Cbc_isProvenInfeasible(m) != 0);
    if (out->found) {
        out->cost = Cbc_getObjValue(m);
        memcpy(value, best, p->n_col * sizeof *value);
    }
    Cbc_deleteModel(m);
}

dt_status dti_lp_solve(
    const dti_lp *p, int nodes, double gap, double *value, dti_lp_answer *out, dt_err *err)
{
    columns c = {0};
    *out = (dti_lp_answer){0};
    const dt_status st = columns_init(&c, p, err);
    if (st == DT_OK && nodes == 0)
        relax(p, &c, value, out);
    else if (st == DT_OK)
        branch(p, &c, nodes, gap, value, out);
    columns_deinit(&c);
    return st;
}

#else

const char *dt_solver_name(void)
{
    return NULL;
}

dt_status dti_lp_solve(
    const dti_lp *p, int nodes, double gap, double *value, dti_lp_answer *out, dt_err *err)
{
    (void)p;
    (void)nodes;
    (void)gap;
    (void)value;
    *out = (dti_lp_answer){0};
    return DT_FAIL(err, DT_E_CONFIG,
        "this build has no solver of integer programs: install CBC (Debian: coinor-libcbc-dev) and "
        "then cmake -B build && cmake --build build");
}

#endif
