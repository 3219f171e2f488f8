/* What the plans of a set come to together: peaks, the bits that they change, what they add to a
 * step; and what a run by them needs. */
#include <inttypes.h>
#include <stdio.h>

#include "engine/base/io.h"
#include "engine/runner/runner.h"
#include "memory/codec.h"
#include "memory/least_room.h"
#include "memory/plan_text/plan_text.h"
#include "session/human.h"
#include "session/plan_set/plan_set_internal.h"

static bool is_lossy(int32_t number)
{
    const dt_codec *codec = dt_codec_numbered(number);
    return codec != NULL && !codec->exact;
}

/* Whether all that a plan packs comes back as it was. */
static bool packs_exactly(const dt_plan *p)
{
    for (size_t i = 0; i < p->n_op; i++)
        if (is_lossy(p->op[i].codec))
            return false;
    for (size_t i = 0; i < p->n_row; i++)
        if (is_lossy(p->row[i].codec))
            return false;
    return true;
}

uint64_t dt_plan_set_peak(const dt_plan_set *p)
{
    const dt_plan *largest = dti_plan_set_largest(p);
    return largest != NULL ? largest->peak : 0;
}

uint64_t dt_plan_set_tier_peak(const dt_plan_set *p, dt_tier tier)
{
    uint64_t peak = 0;
    for (size_t i = 0; i < p->n; i++) {
        const dt_plan *x = p->planned[i]->plan;
        const uint64_t bytes = x->tier_peak[tier];
        peak = bytes > peak ? bytes : peak;
    }
    return peak;
}

const dt_plan *dti_plan_set_largest(const dt_plan_set *p)
{
    const dt_plan *largest = NULL;
    for (size_t i = 0; i < p->n; i++)
        if (largest == NULL || p->planned[i]->plan->peak > largest->peak)
            largest = p->planned[i]->plan;
    return largest;
}

dt_floor dti_plan_set_floor(const dt_plan_set *p)
{
    dt_floor f = {0};
    for (size_t i = 0; i < p->n; i++) {
        int32_t number;
        const dt_program *q = p->planned[i]->program;
        const uint64_t bytes = q != NULL ? dt_least_room(q, &number) : 0;
        if (bytes <= f.bytes)
            continue;
        f.bytes = bytes;
        f.samples = p->planned[i]->n;
        snprintf(f.op, sizeof f.op, "%s", q->op[number].name);
    }
    return f;
}

bool dt_floor_tell(const dt_floor *f, uint64_t budget, dt_err *err)
{
    char size[DT_HUMAN_EXACT];
    const bool below = budget < f->bytes;
    if (below)
        (void)DT_FAIL(err, DT_E_BUDGET,
            "  no plan of %" PRId64
            " sample%s at once takes less than %s: '%s' reads and writes that much",
            f->samples, f->samples == 1 ? "" : "s", dt_human_exact(size, f->bytes), f->op);
    return below;
}

dt_status dt_plan_set_print(const void *set, FILE *f, dt_err *err)
{
    const dt_plan_set *p = set;
    (void)err;
    for (size_t i = 0; i < p->n; i++)
        dt_plan_print(p->planned[i]->plan, f);
    return DT_OK;
}

/* What plans hold decides: a policy's word for it stands while there are none. */
bool dt_plan_set_exact(const dt_plan_set *p)
{
    const dt_plans *given = p->asked.given;
    bool all = given != NULL || p->n > 0 || dti_asked_exactly(p);
    for (size_t i = 0; given != NULL && i < given->n; i++)
        all = all && packs_exactly(given->plan[i]);
    for (size_t i = 0; given == NULL && i < p->n; i++)
        all = all && packs_exactly(p->planned[i]->plan);
    return all && !dt_map_delays(p->map);
}

/* A step is the first micro-batch, all others, and the update. */
int64_t dti_plan_set_times(const dt_plan_set *p, const dt_planned *x)
{
    const int64_t micro = p->asked.micro_batch;
    if (x->kind == DT_PROGRAM_UPDATE)
        return 1;
    if (x->n != micro || x->kind == DT_PROGRAM_EVAL || x->dense)
        return 0;
    return x->kind == DT_PROGRAM_FIRST ? 1 : p->asked.batch / micro - 1;
}

dt_score dt_plan_set_score(const dt_plan_set *p)
{
    dt_score sum = {0};
    for (size_t i = 0; i < p->n; i++) {
        const dt_planned *x = p->planned[i];
        const int64_t times = dti_plan_set_times(p, x);
        if (times == 0 || x->program == NULL)
            continue;
        const dt_score one = dt_score_plan(x->program, x->plan);
        dt_score_add(&sum, &one, times);
    }
    return sum;
}

/* The first layer whose channels have one value in @n samples; NULL: there is none. */
static const dt_node *single_value(const dt_graph *g, int64_t n)
{
    for (size_t i = 0; i < g->n_node; i++) {
        const dt_shape x = dt_graph_shape(g, g->node[i].in[0]);
        if (g->node[i].desc->batch_statistics && !g->node[i].frozen && n * x.h * x.w == 1)
            return &g->node[i];
    }
    return NULL;
}

dt_status dti_plan_set_check_statistics(const dt_plan_set *p, dt_err *err)
{
    for (size_t i = 0; i < p->n; i++) {
        const dt_planned *x = p->planned[i];
        const bool trains = x->kind == DT_PROGRAM_FIRST || x->kind == DT_PROGRAM_AGAIN;
        const dt_node *bad = trains ? single_value(p->session->graph, x->n) : NULL;
        if (bad == NULL)
            continue;
        const char *key = p->asked.micro_batch < p->asked.batch ? "micro_batch" : "batch";
        char asked[DT_ASKED];
        dt_session_asked(asked, p->session, "train", key);
        if (x->n == p->asked.micro_batch)
            return DT_FAIL(err, DT_E_CONFIG,
                "%s: '%s' would normalise a single value, as its pictures are 1x1; %s must be at "
                "least 2",
                asked, bad->name, key);
        return DT_FAIL(err, DT_E_CONFIG,
            "%s: 1 sample is left at the end of an epoch, of which '%s' would normalise a single "
            "value, as its pictures are 1x1; set train.drop_last = on, or another train.batch",
            asked, bad->name);
    }
    return DT_OK;
}

/* ---- what a run needs ---- */

uint64_t dti_batches_held(const dt_session *s)
{
    return 2 * ((uint64_t)s->opts.data.ahead + 1) + 1;
}

static uint64_t batches(const dt_plan_set *p)
{
    const dt_session *s = p->session;
    const uint64_t sample = sizeof(float) * (uint64_t)dt_shape_sample(&s->graph->input) +
                            sizeof(int32_t) * (uint64_t)dt_graph_labels(s->graph);
    const uint64_t pinned = /* blocks from which a card fetches */
        s->context.device != DT_CPU ? 2 * sample * (uint64_t)p->asked.micro_batch : 0;
    return sample * (uint64_t)p->asked.batch * dti_batches_held(s) + pinned;
}

/* On their way between where they live and PyTorch's layout, and to the disk; and where steps are
 * planned anew, all that lives on, while plans are tried. */
static uint64_t weights(const dt_plan_set *p)
{
    const dt_session *s = p->session;
    const dt_runner_opts o = {.graph = s->graph,
        .map = p->map,
        .context = &s->context,
        .arena_bytes = dt_plan_set_peak(p)};
    const uint64_t passage = dt_passage_outside(&o);
    const uint64_t aside = dt_policies_replan(p->policies) > 0 ? p->map->bytes : 0;
    return (passage > aside ? passage : aside) + DT_WRITER_BYTES;
}

dt_need dt_plan_set_need(const dt_plan_set *p)
{
    dt_need n = {.device = dt_plan_set_peak(p), .batches = batches(p), .weights = weights(p)};
    for (int tier = 0; tier < DT_TIERS; tier++)
        n.tier[tier] = dt_plan_set_tier_peak(p, (dt_tier)tier);
    return n;
}

static uint64_t or_any(uint64_t budget)
{
    return budget > 0 ? budget : UINT64_MAX;
}

dt_available dt_plan_set_available(const dt_plan_set *p)
{
    const dt_budgets *b = &p->asked.budgets;
    dt_available a = {.device = or_any(b->device),
        .memory = UINT64_MAX,
        .apart = p->session->context.device != DT_CPU};
    for (int tier = 0; tier < DT_TIERS; tier++)
        a.tier[tier] = or_any(b->tier[tier]);
    return a;
}

/* What counts against the machine's memory: the disk does not. */
static bool memory_fits(const dt_need *n, const dt_available *a)
{
    const uint64_t parts[] = {
        a->apart ? 0 : n->device, n->tier[DT_TIER_HOST], n->batches, n->weights};
    uint64_t rest = a->memory;
    for (size_t i = 0; i < DT_COUNT(parts) && a->memory != UINT64_MAX; i++) {
        if (parts[i] > rest)
            return false;
        rest -= parts[i];
    }
    return true;
}

bool dt_need_fits(const dt_need *n, const dt_available *a)
{
    for (int tier = 0; tier < DT_TIERS; tier++)
        if (n->tier[tier] > a->tier[tier])
            return false;
    return n->device <= a->device && memory_fits(n, a);
}

uint64_t dti_need_room(const dt_need *n, const dt_available *a)
{
    const uint64_t beside[] = {n->tier[DT_TIER_HOST], n->batches, n->weights};
    uint64_t rest = a->memory;
    for (size_t i = 0; i < DT_COUNT(beside) && a->memory != UINT64_MAX; i++)
        rest = rest > beside[i] ? rest - beside[i] : 0;
    return a->apart || rest > a->device ? a->device : rest;
}
