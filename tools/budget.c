/* The refusal of a run that does not fit: what it needs, what holds the most, and what would fit.
 * Nothing has been allocated for the run when this is said. */
#include <inttypes.h>
#include <stdio.h>

#include "engine/alloc.h"
#include "memory/profile.h"
#include "tools/human.h"
#include "tools/session.h"

/* What a run may change to fit. */
typedef struct variant {
    int64_t batch, micro;
    const char *policy;
} variant;

static variant as_configured(const dt_session *s)
{
    return (variant){s->opts.train.batch, s->opts.train.micro_batch, s->opts.memory.policy};
}

static bool evaluates(const dt_session *s)
{
    for (size_t i = 0; i < s->n_planned; i++)
        if (s->planned[i].kind == DT_PROGRAM_EVAL)
            return true;
    return false;
}

/* Peak of a run like this one but for the variant, from plans alone. */
static dt_status peak_of(const dt_session *s, const variant *v, uint64_t *peak, dt_err *err)
{
    dt_session other = *s;
    other.map = NULL;
    other.planned = NULL;
    other.n_planned = other.cap_planned = 0;
    other.opts.train.batch = v->batch;
    other.opts.train.micro_batch = v->micro;
    other.opts.memory.policy = v->policy;
    dt_status st = dt_policies_open(&other.policies, v->policy, s->config, err);
    if (st == DT_OK)
        st = dt_session_plan_run(&other, evaluates(s), 0, 0, err);
    *peak = dt_session_peak(&other);
    dt_session_forget(&other);
    dt_policies_close(&other.policies);
    return st;
}

/* The largest batch, taken at once, below the configured micro-batch whose plans fit, by bisection;
 * 0: not even 1. */
static dt_status largest_batch(const dt_session *s, int64_t *batch, uint64_t *peak, dt_err *err)
{
    variant v = as_configured(s);
    int64_t fits = 0, fails = v.micro;
    while (fails - fits > 1) {
        uint64_t p;
        v.batch = v.micro = fits + (fails - fits) / 2;
        DT_CHECK(peak_of(s, &v, &p, err));
        if (p <= s->opts.memory.device_budget) {
            fits = v.micro;
            *peak = p;
        } else {
            fails = v.micro;
        }
    }
    *batch = fits;
    return DT_OK;
}

/* The largest micro-batch up to @most, which divides the batch, whose plans fit; 0: none. */
static dt_status largest_micro(
    const dt_session *s, int64_t most, int64_t *micro, uint64_t *peak, dt_err *err)
{
    variant v = as_configured(s);
    *micro = 0;
    for (v.micro = most; v.micro > 0 && *micro == 0; v.micro--) {
        if (v.batch % v.micro != 0)
            continue;
        DT_CHECK(peak_of(s, &v, peak, err));
        *micro = *peak <= s->opts.memory.device_budget ? v.micro : 0;
    }
    return DT_OK;
}

/* The policy that needs the least, by itself, at the configured batch. */
static dt_status least_policy(const dt_session *s, const char **name, uint64_t *peak, dt_err *err)
{
    size_t n;
    const dt_policy *const *all = dt_policy_all(&n);
    variant v = as_configured(s);
    for (size_t i = 0; i < n; i++) {
        uint64_t p;
        v.policy = all[i]->name;
        DT_CHECK(peak_of(s, &v, &p, err));
        if (i > 0 && p >= *peak)
            continue;
        *peak = p;
        *name = all[i]->name;
    }
    return DT_OK;
}

static const dt_plan *largest_plan(const dt_session *s)
{
    const dt_plan *p = NULL;
    for (size_t i = 0; i < s->n_planned; i++)
        if (p == NULL || s->planned[i].plan->peak > p->peak)
            p = s->planned[i].plan;
    return p;
}

/* "layer1.0.conv1.y 98.0 MiB, ..." */
static dt_status largest_tensors(const dt_plan *p, char *text, size_t bytes, dt_err *err)
{
    dt_usage u;
    const dt_status st = dt_plan_usage(p, &u, err);
    size_t at = 0;
    text[0] = '\0';
    for (size_t i = 0; st == DT_OK && i < u.n_live && i < 6 && at < bytes; i++) {
        const dt_plan_tensor *t = &p->tensor[u.live[i]];
        char size[DT_HUMAN_BYTES];
        const int n = snprintf(text + at, bytes - at, "%s%s %s", i > 0 ? ", " : "", t->name,
            dt_human_bytes(size, t->bytes));
        at += n > 0 ? (size_t)n : 0;
    }
    dt_usage_deinit(&u);
    return st;
}

static dt_status suggest_batch(const dt_session *s, const dt_plan *p, dt_err *err)
{
    char need[DT_HUMAN_BYTES];
    int64_t batch = 0, micro = 0;
    uint64_t peak = 0;
    DT_CHECK(largest_batch(s, &batch, &peak, err));
    if (batch == 0) {
        (void)DT_FAIL(err, DT_E_BUDGET,
            "  not even one sample fits: the parameters alone, with gradients and optimizer state, "
            "take %" PRIu64 " bytes",
            p->persistent);
        return DT_OK;
    }
    (void)DT_FAIL(err, DT_E_BUDGET,
        "  fits if: [train] batch = %" PRId64 ", which needs %s; %" PRId64 " does not", batch,
        dt_human_bytes(need, peak), batch + 1);
    DT_CHECK(largest_micro(s, batch, &micro, &peak, err));
    if (micro > 0)
        (void)DT_FAIL(err, DT_E_BUDGET,
            "  fits if: [train] micro_batch = %" PRId64 ", of the same batch, which needs %s",
            micro, dt_human_bytes(need, peak));
    return DT_OK;
}

static dt_status suggest_policy(const dt_session *s, dt_err *err)
{
    char need[DT_HUMAN_BYTES];
    const char *name = NULL;
    uint64_t peak = 0;
    DT_CHECK(least_policy(s, &name, &peak, err));
    if (peak <= s->opts.memory.device_budget)
        (void)DT_FAIL(err, DT_E_BUDGET, "  fits if: [memory] policy = %s, which needs %s", name,
            dt_human_bytes(need, peak));
    else
        (void)DT_FAIL(err, DT_E_BUDGET,
            "  at this batch no policy fits; %s needs the least, %s (%" PRIu64 " bytes)", name,
            dt_human_bytes(need, peak), peak);
    return DT_OK;
}

dt_status dt_session_check_budget(dt_session *s, dt_err *err)
{
    const uint64_t budget = s->opts.memory.device_budget, peak = dt_session_peak(s);
    if (budget == 0 || peak <= budget)
        return DT_OK;
    const char *file = NULL;
    int line = 0;
    dt_config_get(s->config, "memory", "device_budget", &file, &line);
    const dt_plan *p = largest_plan(s);
    char at[512], largest[1024], need[DT_HUMAN_BYTES], have[DT_HUMAN_BYTES];
    DT_CHECK(largest_tensors(p, largest, sizeof largest, err));
    (void)DT_FAIL(err, DT_E_BUDGET,
        "does not fit: the device needs %s (%" PRIu64 " bytes), memory.device_budget is %s (%s)",
        dt_human_bytes(need, peak), peak, dt_human_bytes(have, budget),
        dt_config_place(at, sizeof at, file, line));
    (void)DT_FAIL(err, DT_E_BUDGET, "  largest at the peak of '%s': %s", p->program, largest);
    DT_CHECK(suggest_batch(s, p, err));
    DT_CHECK(suggest_policy(s, err));
    return DT_E_BUDGET;
}
