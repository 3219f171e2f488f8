/* Checkmate: Jain et al., Checkmate: Breaking the Memory Wall with Optimal Tensor
 * Rematerialization, MLSys 2020. What runs again, and when, is an integer program over stages and
 * ops, solved by CBC (memory/remat/checkmate.c); on small graphs by a branch and bound of our own
 * over sets of values, where that ends soon (memory/remat/exact.c).
 *
 * Ours differs in this. The program's memory is a model of the plan's, so what is aimed at is moved
 * by how far real plans are off, and the fastest plan that fits is taken; without a budget, the one
 * of the lowest peak. The search is limited in nodes, and never in seconds: a node takes the longer
 * the more columns the program has, so there are the fewer of them. And where that proves nothing,
 * a network has too many ops for the program, or the build has no solver, the same problem is
 * searched (memory/remat/anneal.c), in place of the paper's rounding of the relaxation. To see what
 * would fit, where there are many to try, all but the smallest networks are. Of a large network the
 * search begins with the best of Rotor's sequences, so on a chain it is not behind Rotor. */

#include "engine/base/numbers_text.h"
#include "memory/policies/remat_pass.h"
#include "memory/remat/aim.h"

typedef struct options {
    int64_t nodes, ops;
    uint64_t budget;
} options;

#define AT(f) offsetof(options, f)
/* clang-format off */
static const dt_opt opts[] = {
    {"nodes",  DT_OPT_I64,   AT(nodes),  "0",    0, 1 << 30, NULL, NULL, "most nodes of each search, of which there are up to twelve, and as many again where nothing fits the budget; the best found is taken. 0: 20,000 divided by the program's columns, and what is not proved optimal is annealed as well"},
    {"ops",    DT_OPT_I64,   AT(ops),    "40",   0, DTI_REMAT_MOST_CHECKMATE, NULL, NULL, "most ops of a network for which the integer program is solved; larger ones are searched by annealing"},
    {"budget", DT_OPT_BYTES, AT(budget), "0",    0, 0,       NULL, NULL, "most device memory to use; the fastest plan within it is taken; 0: memory.device_budget. Without a budget the lowest peak that it finds"},
    {NULL,     DT_OPT_I64,   0,          NULL,   0, 0,       NULL, NULL, NULL},
};
/* clang-format on */

enum { ROUNDS = 6, MOVES_AN_OP = 2000, STAGES = 64 };

/* How an answer was found. */
typedef enum found_by { PROVED, OPTIMUM, BRANCHED, ANNEALED, CHAIN } found_by;
static const char *const reasons[] = {
    [PROVED] = "checkmate: so the optimum in the order of the ops has it",
    [OPTIMUM] = "checkmate: so the optimum of the integer program has it",
    [BRANCHED] =
        "checkmate: the best of the integer program within its nodes, not proved the least",
    [ANNEALED] = "checkmate: so annealing of the same problem has it, not proved the least",
    [CHAIN] = "checkmate: so Rotor's best chain has it, of which the search found nothing better",
};

/* What was proved to be the best for an aim is so for all aims down to what it takes. */
typedef struct answer {
    uint64_t least, most;
    dt_remat_sequence runs;
} answer;

/* @by: of the sequence made last; @best_by: of the best; @none: proved to fit nothing, as all aims
 * below are; 0: none was */
typedef struct search {
    dti_problem x;
    bool hasty;
    const options *o;
    found_by by, best_by;
    uint64_t none;
    size_t n_answer;
    answer answers[4 * ROUNDS];
} search;

static dt_status copy_runs(dt_remat_sequence *to, const dt_remat_sequence *from, dt_err *err)
{
    to->n = 0;
    for (size_t i = 0; i < from->n; i++)
        DT_CHECK(dti_remat_push(to, from->op[i], err));
    return DT_OK;
}

/* From the best sequence so far. */
static dt_status anneal(
    const search *s, uint64_t aim, dt_remat_sequence *runs, dt_remat_taken *taken, dt_err *err)
{
    const dt_remat_graph *g = &s->x.r.graph;
    const dti_remat_search how = {.budget = aim,
        .seed = 1,
        .moves = (uint64_t)MOVES_AN_OP * g->n_op,
        .once = s->x.r.once,
        .in_order = true};
    DT_CHECK(copy_runs(runs, &s->x.best, err));
    return dti_remat_anneal(g, &how, runs, taken, err);
}

static uint64_t nodes_of(const search *s)
{
    return s->o->nodes > 0 ? (uint64_t)s->o->nodes : dti_remat_checkmate_nodes(&s->x.r.graph);
}

/* What was found, or another sequence where that fits and costs less. */
static dt_status take_better(
    search *s, uint64_t aim, dt_remat_sequence *runs, dt_remat_sequence *other, dt_err *err)
{
    dt_remat_taken a = {UINT64_MAX, UINT64_MAX}, b;
    DT_CHECK(anneal(s, aim, other, &b, err));
    if (runs->n > 0)
        DT_CHECK(dti_remat_measure(&s->x.r.graph, runs, &a, err));
    if (runs->n > 0 && !(b.peak <= aim && b.cost < a.cost))
        return DT_OK;
    s->by = ANNEALED;
    const dt_remat_sequence was = *runs;
    *runs = *other;
    *other = was;
    return DT_OK;
}

static const answer *known(const search *s, uint64_t aim)
{
    for (size_t i = 0; i < s->n_answer; i++)
        if (s->answers[i].least <= aim && aim <= s->answers[i].most)
            return &s->answers[i];
    return NULL;
}

static dt_status keep(search *s, uint64_t aim, const dt_remat_sequence *runs, dt_err *err)
{
    dt_remat_taken taken;
    if (s->n_answer == DT_COUNT(s->answers))
        return DT_OK;
    DT_CHECK(dti_remat_measure(&s->x.r.graph, runs, &taken, err));
    answer *a = &s->answers[s->n_answer++];
    *a = (answer){.least = taken.peak, .most = aim};
    return copy_runs(&a->runs, runs, err);
}

/* By the integer program; what that does not prove within its nodes is searched as well. */
static dt_status branch(search *s, uint64_t aim, dt_remat_sequence *runs, dt_err *err)
{
    bool proved = false;
    char count[DT_HUMAN_BYTES];
    dt_err why = {0};
    dt_remat_sequence other = {0};
    const answer *before = known(s, aim);
    s->by = OPTIMUM;
    if (before != NULL)
        return copy_runs(runs, &before->runs, err);
    if (aim <= s->none)
        return DT_FAIL(err, DT_E_BUDGET, "nothing fits %s bytes", dt_human_count(count, s->none));
    dt_status st =
        dti_remat_checkmate(&s->x.r.graph, aim, nodes_of(s), s->x.r.once, runs, &proved, &why);
    if (st != DT_OK && st != DT_E_BUDGET)
        return dt_err_append(err, st, why.text);
    s->by = proved ? OPTIMUM : BRANCHED;
    if (proved && st == DT_OK)
        return keep(s, aim, runs, err);
    s->none = proved ? aim : s->none;
    if (proved || s->o->nodes > 0)
        return st == DT_OK ? st : dt_err_append(err, st, why.text);
    if (st != DT_OK)
        runs->n = 0;
    st = take_better(s, aim, runs, &other, err);
    dti_remat_sequence_deinit(&other);
    return st;
}

static bool branches(const search *s)
{
    return s->x.r.graph.n_op <= s->o->ops && !s->hasty && dt_solver_name() != NULL;
}

/* By branch and bound over sets of values, where it ends soon. */
static dt_status solve_small(
    search *s, uint64_t aim, dt_remat_sequence *runs, bool *proved, dt_err *err)
{
    const size_t states = s->hasty ? DTI_REMAT_USUAL_STATES / 10 : DTI_REMAT_USUAL_STATES;
    *proved = false;
    if (s->x.r.graph.n_op > DTI_REMAT_MOST_EXACT)
        return DT_FAIL(err, DT_E_BUDGET, "too many ops");
    return dti_remat_exact(&s->x.r.graph, aim, states, s->x.r.once, runs, proved, err);
}

/* DT_E_BUDGET: nothing keeps to the aim. */
static dt_status solve(search *s, uint64_t aim, dt_remat_sequence *runs, dt_err *err)
{
    dt_remat_taken taken;
    dt_err why = {0};
    bool proved;
    const dt_status st = solve_small(s, aim, runs, &proved, &why);
    s->by = PROVED;
    if (proved || st != DT_E_BUDGET)
        return st == DT_OK ? DT_OK : dt_err_append(err, st, why.text);
    if (branches(s))
        return branch(s, aim, runs, err);
    s->by = ANNEALED;
    return anneal(s, aim, runs, &taken, err);
}

static dt_status try_at(void *ctx, uint64_t aim, uint64_t *peak, dt_err *err)
{
    search *s = ctx;
    dt_remat_sequence runs = {0};
    dt_err why = {0};
    dt_status st = solve(s, aim, &runs, &why);
    *peak = UINT64_MAX;
    if (st != DT_OK && st != DT_E_BUDGET)
        st = dt_err_append(err, st, why.text);
    if (st == DT_OK)
        st = dti_problem_try(&s->x, &runs, peak, err);
    if (st == DT_OK && runs.op == NULL) /* it is the best now */
        s->best_by = s->by;
    st = st == DT_E_BUDGET ? DT_OK : st;
    dti_remat_sequence_deinit(&runs);
    return st;
}

/* From Rotor's sequences on, or from nothing where all is branched through. */
static dt_status find_from(search *s, bool spaced, dt_err *err)
{
    bool points = true;
    const uint64_t whole = s->x.cost.device, least = dt_remat_least_peak(&s->x.r.graph);
    if (!branches(s))
        DT_CHECK(dti_problem_try_chain(&s->x, DTI_CHAIN_AUTO, STAGES, spaced, &points, err));
    const int64_t first = (int64_t)s->x.budget - s->x.offset;
    const dti_aim aim = {.budget = s->x.budget,
        .least = least,
        .most = whole,
        .first = first > (int64_t)least ? (uint64_t)first : least,
        .rounds = ROUNDS};
    return dti_aim_search(&aim, try_at, s, err);
}

/* Annealing comes to other sequences from other first ones: where those from few miss the budget,
 * and without one, from many as well. */
static dt_status find(search *s, dt_err *err)
{
    if (s->x.cost.device <= s->x.budget)
        return DT_OK;
    DT_CHECK(find_from(s, false, err));
    return s->x.cost.device > s->x.budget && !branches(s) && !s->hasty ? find_from(s, true, err)
                                                                       : DT_OK;
}

/* The problem anew, and its best within the budget; 0: the lowest peak. */
static dt_status find_within(
    search *s, dt_program *p, const dt_pass_env *env, uint64_t budget, dt_err *err)
{
    dti_problem_close(&s->x);
    s->best_by = CHAIN;
    DT_CHECK(dti_problem_open(&s->x, p, env, err));
    s->x.budget = budget;
    return find(s, err);
}

/* Where the budget is missed, the lowest peak that is found without one, so that a refusal names
 * the same bytes under every budget. Who only tries is content with less. */
static dt_status checkmate(dt_program *p, const dt_pass_env *env, dt_err *err)
{
    const options *o = env->opts;
    const uint64_t budget = dti_pass_budget(env, o->budget);
    search s = {.o = o, .hasty = env->hasty};
    if (p->loss == DT_NONE)
        return DT_OK;
    dt_status st = find_within(&s, p, env, budget, err);
    if (st == DT_OK && budget > 0 && s.x.cost.device > budget && !s.hasty)
        st = find_within(&s, p, env, 0, err);
    if (st == DT_OK)
        st = dti_problem_take(&s.x, reasons[s.best_by], err);
    dti_problem_close(&s.x);
    for (size_t i = 0; i < s.n_answer; i++)
        dti_remat_sequence_deinit(&s.answers[i].runs);
    return st;
}

const dt_policy dt_policy_checkmate = {
    .name = "checkmate",
    .summary =
        "what to run again by an integer program, or a search where it is large (Checkmate 2020)",
    .exact = true,
    .by_budget = true,
    .searches = true,
    .leaves = DT_LEAVES_COPIES,
    .opts = opts,
    .opts_bytes = sizeof(options),
    .pass = checkmate,
};
