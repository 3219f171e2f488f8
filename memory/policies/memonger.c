/* Memonger (Chen et al., Training Deep Nets with Sublinear Memory Cost, arXiv:1604.06174, as its
 * authors released it for MXNet: dmlc/mxnet-memonger). Its user marks layers as stages; forward is
 * walked, and whenever more than a threshold of bytes was made since the last value that is kept,
 * the next value of a stage is. Layers of one stage, with none of another between them, are kept or
 * dropped together. The threshold is the one of nine whose plan takes the fewest bytes
 * (memonger_search.h).
 *
 * It is not chen_budget, which is the paper's: there split points are found, and so is a plan
 * within a budget. Here the user says where, bytes are all that counts, and thresholds are whole
 * MiB.
 *
 * Ours differs: stages are globs over the names of layers, where the authors set an attribute. They
 * bind the graph and read its bytes from a dump; here a plan is made and placed. The plan that
 * keeps everything is tried as well, so that nothing is dropped in vain. Where a stage's value is
 * not all that crosses from before it to what follows, the rest is kept too. */
#include "engine/base/alloc.h"
#include "memory/policies/chen.h"
#include "memory/policies/globs.h"
#include "memory/policies/memonger_search.h"
#include "memory/policy.h"

typedef struct options {
    const char *stages;
    int64_t threshold;
    bool grouped;
} options;

#define AT(f) offsetof(options, f)
/* clang-format off */
static const dt_opt opts[] = {
    {"stages",    DT_OPT_STR,  AT(stages),    "*",   0,  0,   NULL, NULL, "layers whose outputs may be kept: globs over their names, separated by commas"},
    {"grouped",   DT_OPT_BOOL, AT(grouped),   "off", 0,  0,   NULL, NULL, "outputs of layers that match the same glob, with none of another between them, are kept or dropped together"},
    {"threshold", DT_OPT_I64,  AT(threshold), "-1",  -1, 1e9, NULL, NULL, "MiB of values made since the last kept one after which the next is kept; -1: of nine tried, the one that takes the fewest bytes"},
    {NULL,        DT_OPT_I64,  0,             NULL,  0,  0,   NULL, NULL, NULL},
};
/* clang-format on */

typedef struct memonger {
    dt_program *p;
    const dt_pass_env *env;
    const options *o;
    uint64_t least; /* bytes that a plan so far takes */
} memonger;

/* By value of @c: its stage. */
static void find_stages(const memonger *m, const dti_chen *c, int32_t *stage)
{
    for (size_t i = 0; i < c->n; i++) {
        const dti_chen_value *v = &c->value[i];
        const dt_node *layer = &m->p->graph->node[m->p->op[v->op].node];
        const int32_t k = v->split ? dti_globs_match(m->o->stages, layer) : 0;
        stage[i] = k == 0 ? DTI_STAGE_NONE : m->o->grouped ? k : DTI_STAGE_ALONE;
    }
}

static dt_status rewrite(
    const memonger *m, dt_program *q, uint64_t mib, dti_memonger_sums *s, dt_err *err)
{
    dti_chen c;
    dt_status st = dti_chen_open(&c, q, err);
    if (st == DT_OK)
        (void)dti_chen_cut(&c, DTI_CHEN_LINEAR);
    uint64_t *bytes = dt_alloc(c.n + 1, sizeof *bytes);
    int32_t *stage = dt_alloc(c.n + 1, sizeof *stage);
    bool *keep = dt_alloc(c.n + 1, sizeof *keep);
    if (st == DT_OK && (bytes == NULL || stage == NULL || keep == NULL))
        st = dti_pass_no_memory(err);
    if (st == DT_OK) {
        find_stages(m, &c, stage);
        for (size_t i = 0; i < c.n; i++)
            bytes[i] = q->tensor[c.value[i].tensor].bytes;
        *s = dti_memonger_plan(bytes, stage, c.n, mib << 20, keep);
        st = dti_chen_keep(&c, keep, err);
    }
    if (st == DT_OK)
        st = dti_chen_rewrite(&c, err);
    dt_free(bytes);
    dt_free(stage);
    dt_free(keep);
    dti_chen_close(&c);
    return st;
}

/* What a plan of the program takes. One whose lower bound is no less than what another takes is not
 * placed: that is told. */
static dt_status find_cost(memonger *m, dt_program *p, uint64_t *cost, dt_err *err)
{
    DT_CHECK(dti_pass_peak_within(m->env, p, m->least - 1, cost, err));
    m->least = *cost < m->least ? *cost : m->least;
    return DT_OK;
}

static dt_status try_it(void *ctx, uint64_t mib, uint64_t *cost, dti_memonger_sums *s, dt_err *err)
{
    memonger *m = ctx;
    dt_program *q = NULL;
    dt_status st = dt_program_copy(&q, m->p, err);
    if (st == DT_OK)
        st = rewrite(m, q, mib, s, err);
    if (st == DT_OK)
        st = find_cost(m, q, cost, err);
    dt_program_destroy(q);
    return st;
}

static dt_status pass(dt_program *p, const dt_pass_env *env, dt_err *err)
{
    memonger m = {.p = p, .env = env, .o = env->opts, .least = UINT64_MAX};
    dti_memonger_sums s;
    dti_memonger_found found;
    uint64_t kept;
    if (p->loss == DT_NONE)
        return DT_OK;
    DT_CHECK(dti_globs_check(m.o->stages, p->graph, "memonger", "stages", err));
    if (m.o->threshold >= 0)
        return rewrite(&m, p, (uint64_t)m.o->threshold, &s, err);
    DT_CHECK(dti_memonger_search(try_it, &m, &found, err));
    m.least++; /* at as much, all is kept */
    DT_CHECK(find_cost(&m, p, &kept, err));
    return found.cost < kept ? rewrite(&m, p, found.mib, &s, err) : DT_OK;
}

const dt_policy dt_policy_memonger = {
    .name = "memonger",
    .summary =
        "keep values of stages that the user names, so often that a step takes the least (2016)",
    .exact = true,
    .opts = opts,
    .opts_bytes = sizeof(options),
    .pass = pass,
};
