/* A session's plans made ready to be run: arena, tiers, runner. */
#include "session/rig.h"

#include <stdio.h>

#include "engine/base/alloc.h"
#include "engine/base/cpu.h"
#include "engine/checkpoint/weights.h"
#include "memory/tier.h"
#include "session/budget.h"
#include "session/human.h"
#include "session/plan_set.h"
#include "layers/registry.h"
#include "memory/codec_op.h"

/* What keeps the slots of a place. */
static const dt_tier_desc *tier(const dt_session *s, dt_tier place)
{
    const dt_tier_desc *named = dt_tier_desc_find(s->opts.memory.tier);
    return named != NULL && named->place == place ? named : dt_tier_standard(place);
}

/* Of a runner of all plans the session has. Borrows from the session. */
static dt_runner_opts runner_opts(const dt_session *s)
{
    return (dt_runner_opts){.graph = s->graph,
        .map = s->plans->map,
        .context = &s->context,
        .find_op = dt_layer_find,
        .codecs = &dt_codecs,
        .replay = true,
        .arena_bytes = dt_plan_set_peak(s->plans),
        .tier = {[DT_TIER_HOST] = tier(s, DT_TIER_HOST), [DT_TIER_DISK] = tier(s, DT_TIER_DISK)},
        .tier_bytes = {[DT_TIER_HOST] = dt_plan_set_tier_peak(s->plans, DT_TIER_HOST),
            [DT_TIER_DISK] = dt_plan_set_tier_peak(s->plans, DT_TIER_DISK)},
        .disk_path = dt_session_disk_path(s),
        .checksum = s->opts.memory.checksum,
        .copy_threads = s->opts.memory.copy_threads,
        .seed = (uint64_t)s->opts.train.seed,
        .threads = s->threads};
}

const char *dti_rig_threads_note(char to[DTI_RIG_NOTE], const dt_session *s)
{
    const int n = dt_cpu_processors();
    to[0] = '\0';
    if (s->threads > n)
        snprintf(to, DTI_RIG_NOTE,
            "%d threads share %d processor%s, and wait for each other: device.threads = %d is "
            "faster",
            s->threads, n, n == 1 ? "" : "s", n);
    return to;
}

void dti_rig_tell_threads(const dt_session *s)
{
    char note[DTI_RIG_NOTE];
    if (s->notice != NULL && dti_rig_threads_note(note, s)[0] != '\0')
        s->notice(note);
}

dt_status dti_rig_reserve(dt_rig *g, const dt_session *s, dt_err *err)
{
    const dt_runner_opts o = runner_opts(s);
    char need[DT_HUMAN_BYTES];
    const dt_status st = dt_runner_create(&g->runner, &o, err);
    if (st == DT_E_NOMEM)
        (void)DT_FAIL(err, st,
            "the plans need %s, which this machine does not give; lower train.batch or "
            "train.micro_batch, or set memory.device_budget to what there is, to be told what fits",
            dt_human_bytes(need, o.arena_bytes + o.tier_bytes[DT_TIER_HOST]));
    return st;
}

const char *dti_session_fresh(const dt_session *s)
{
    const bool others = s->of_run != NULL && dt_config_typed(s->config, "model", "weights") &&
                        !dt_config_typed(s->config, "model", "fresh");
    return others ? NULL : s->opts.model.fresh;
}

const char *dti_session_fresh_learned(const dt_session *s)
{
    return dt_config_typed(s->config, "model", "fresh") ? s->opts.model.fresh : NULL;
}

static dt_status put_values(const dt_rig *g, const dt_session *s, const char *fresh, dt_err *err)
{
    const char *weights = s->opts.model.weights;
    char asked[DT_ASKED];
    if (weights == NULL || fresh != NULL)
        DT_CHECK(dt_runner_init(g->runner, err));
    else
        DT_CHECK(dt_runner_clear(g->runner, err));
    if (weights != NULL)
        DT_TRY(err, dt_weights_load(g->runner, s->graph, s->plans->map, weights, fresh, err), "%s",
            dt_session_asked(asked, s, "model", "weights"));
    return DT_OK;
}

dt_status dti_rig_first_values(const dt_rig *g, const dt_session *s, dt_err *err)
{
    return put_values(g, s, dti_session_fresh(s), err);
}

static dt_status open_plans(dt_rig *g, const dt_session *s, dt_err *err)
{
    *g = (dt_rig){0};
    DT_CHECK(dti_rig_reserve(g, s, err));
    g->ready = dt_alloc(s->plans->n, sizeof *g->ready);
    if (g->ready == NULL)
        return DT_FAIL(err, DT_E_NOMEM, "no memory to prepare the plans");
    for (; g->n < s->plans->n; g->n++) {
        const dt_planned *p = s->plans->planned[g->n];
        dt_ready *to = &g->ready[g->n];
        *to = (dt_ready){.kind = p->kind, .n = p->n, .dense = p->dense};
        DT_CHECK(dt_runner_add(g->runner, p->plan, &to->id, err));
    }
    return DT_OK;
}

dt_status dti_rig_open(dt_rig *g, const dt_session *s, dt_err *err)
{
    DT_CHECK(open_plans(g, s, err));
    return dti_rig_first_values(g, s, err);
}

dt_status dti_rig_open_learned(dt_rig *g, const dt_session *s, dt_err *err)
{
    DT_CHECK(open_plans(g, s, err));
    return put_values(g, s, dti_session_fresh_learned(s), err);
}

void dti_rig_close(dt_rig *g)
{
    dt_runner_destroy(g->runner);
    dt_free(g->ready);
    *g = (dt_rig){0};
}
