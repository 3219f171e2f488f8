/* CBC and CLP from the COIN-OR project (Forrest and others) solve linear programs. They are loaded
 * when the first is to be solved, by the name that a program linked to CBC would ask for (DT_CBC):
 * with what they bring along, loading them takes longer than most plans, and one of those libraries
 * slows down every printf. */
#include "memory/remat/solver.h"

#include <Cbc_C_Interface.h>
#include <Clp_C_Interface.h>
#include <dlfcn.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <string.h>

#include "engine/base/alloc.h"

#ifndef DT_CBC /* compiled by itself, to be looked at */
#define DT_CBC ""
#endif

/* --- the libraries --- */

/* What is called of them, under the names that their headers declare. */
/* clang-format off */
#define CBC_FUNCTIONS(X) \
    X(Cbc_newModel) X(Cbc_deleteModel) X(Cbc_setLogLevel) X(Cbc_loadProblem) \
    X(Cbc_setInteger) X(Cbc_setMaximumNodes) X(Cbc_setAllowableGap) \
    X(Cbc_setAllowableFractionGap) X(Cbc_solve) X(Cbc_bestSolution) X(Cbc_isProvenOptimal) \
    X(Cbc_isProvenInfeasible) X(Cbc_getObjValue) X(Clp_newModel) X(Clp_deleteModel) \
    X(Clp_setLogLevel) X(Clp_loadProblem) X(Clp_initialSolveWithOptions) X(Clp_status) \
    X(Clp_objectiveValue) X(Clp_primalColumnSolution) X(ClpSolve_new) X(ClpSolve_delete) \
    X(ClpSolve_setSpecialOption)
/* clang-format on */

#define CBC_MEMBER(name) __typeof__(name) *name;
typedef struct cbc_functions {
    CBC_FUNCTIONS(CBC_MEMBER)
} cbc_functions;

static pthread_once_t once = PTHREAD_ONCE_INIT;
static cbc_functions functions;
static const cbc_functions *loaded;

/* CBC keeps what it reads its commands from, and CLP the model that a signal would stop, in
 * variables of the process (coin-or/Cbc, issue 332). */
static pthread_mutex_t solving = PTHREAD_MUTEX_INITIALIZER;

/* --- assertions --- */

/* Where a thread that solves a program goes on if it is given up. What its model took is lost. */
static _Thread_local sigjmp_buf *escape;

void dt_solver_escape(void)
{
    if (escape != NULL)
        siglongjmp(*escape, 1);
}

/* --- loading --- */

static void load(void)
{
    void *library = dlopen(DT_CBC, RTLD_NOW | RTLD_LOCAL);
    bool all = library != NULL;
#define FIND(name)                                                                                 \
    {                                                                                              \
        void *at = all ? dlsym(library, #name) : NULL;                                             \
        all = at != NULL;                                                                          \
        memcpy(&functions.name, &at, sizeof at);                                                   \
    }
    CBC_FUNCTIONS(FIND)
#undef FIND
    loaded = all ? &functions : NULL;
}

/* NULL where they cannot be loaded. From any thread. */
static const cbc_functions *cbc_load(void)
{
    (void)pthread_once(&once, load);
    return loaded;
}

const char *dt_solver_name(void)
{
    return cbc_load() != NULL ? "CBC" : NULL;
}

dt_status dti_solver_check(dt_err *err)
{
    return cbc_load() != NULL ? DT_OK
                              : DT_FAIL(err, DT_E_CONFIG,
                                    "CBC, which solves integer programs, cannot be loaded: install "
                                    "what has " DT_CBC " (Debian: coinor-libcbc3)");
}

/* --- programs --- */

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
        return DT_FAIL(err, DT_E_NOMEM, "no memory for an integer program");
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

enum { INTERRUPTS = 2, NOT_CAUGHT = 1 }; /* of ClpSolve's special options */

static void relax(
    const cbc_functions *cbc, const dti_lp *p, const columns *c, double *value, dti_lp_answer *out)
{
    Clp_Simplex *m = cbc->Clp_newModel();
    Clp_Solve *how = cbc->ClpSolve_new();
    cbc->ClpSolve_setSpecialOption(how, INTERRUPTS, NOT_CAUGHT, 0);
    cbc->Clp_setLogLevel(m, 0);
    cbc->Clp_loadProblem(m, (int)p->n_col, (int)p->n_row, c->start, c->row, c->factor, p->lower,
        p->upper, p->cost, p->row_lower, p->row_upper);
    (void)cbc->Clp_initialSolveWithOptions(m, how);
    out->found = cbc->Clp_status(m) == 0;
    out->proved = out->found || cbc->Clp_status(m) == 1;
    if (out->found) {
        out->cost = cbc->Clp_objectiveValue(m);
        memcpy(value, cbc->Clp_primalColumnSolution(m), p->n_col * sizeof *value);
    }
    cbc->ClpSolve_delete(how);
    cbc->Clp_deleteModel(m);
}

static void branch(const cbc_functions *cbc, const dti_lp *p, const columns *c, int nodes,
    double gap, double *value, dti_lp_answer *out)
{
    Cbc_Model *m = cbc->Cbc_newModel();
    cbc->Cbc_setLogLevel(m, 0);
    cbc->Cbc_loadProblem(m, (int)p->n_col, (int)p->n_row, c->start, c->row, c->factor, p->lower,
        p->upper, p->cost, p->row_lower, p->row_upper);
    for (size_t k = 0; k < p->n_col; k++)
        if (p->whole[k])
            cbc->Cbc_setInteger(m, (int)k);
    cbc->Cbc_setMaximumNodes(m, nodes);
    cbc->Cbc_setAllowableGap(m, gap);
    cbc->Cbc_setAllowableFractionGap(m, 0);
    (void)cbc->Cbc_solve(m);
    const double *best = cbc->Cbc_bestSolution(m);
    out->found = best != NULL;
    out->proved =
        cbc->Cbc_isProvenOptimal(m) != 0 || (!out->found && cbc->Cbc_isProvenInfeasible(m) != 0);
    if (out->found) {
        out->cost = cbc->Cbc_getObjValue(m);
        memcpy(value, best, p->n_col * sizeof *value);
    }
    cbc->Cbc_deleteModel(m);
}

/* Nothing is found, and nothing proved, where it is given up. While CBC branches, SIGINT is for it:
 * that is put back whatever becomes of the program. */
static void solve(
    const dti_lp *p, const columns *c, int nodes, double gap, double *value, dti_lp_answer *out)
{
    const cbc_functions *cbc = cbc_load();
    struct sigaction interrupt;
    sigjmp_buf here;
    pthread_mutex_lock(&solving);
    (void)sigaction(SIGINT, NULL, &interrupt);
    if (sigsetjmp(here, 1) != 0) {
        *out = (dti_lp_answer){0};
    } else {
        escape = &here;
        if (nodes == 0)
            relax(cbc, p, c, value, out);
        else
            branch(cbc, p, c, nodes, gap, value, out);
    }
    escape = NULL;
    if (nodes > 0)
        (void)sigaction(SIGINT, &interrupt, NULL);
    pthread_mutex_unlock(&solving);
}

dt_status dti_lp_solve(
    const dti_lp *p, int nodes, double gap, double *value, dti_lp_answer *out, dt_err *err)
{
    columns c = {0};
    *out = (dti_lp_answer){0};
    DT_CHECK(dti_solver_check(err));
    const dt_status st = columns_init(&c, p, err);
    if (st == DT_OK)
        solve(p, &c, nodes, gap, value, out);
    columns_deinit(&c);
    return st;
}
