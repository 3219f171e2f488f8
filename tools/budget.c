/* The refusal of a run that does not fit: what it needs, what holds the most, and the largest batch
 * that would fit. Nothing has been allocated for the run when this is said. */
#include <inttypes.h>
#include <stdio.h>

#include "engine/alloc.h"
#include "memory/profile.h"
#include "tools/human.h"
#include "tools/session.h"

/* Peak of a run like this one at another batch, from plans alone. */
static dt_status peak_at(const dt_session *s, int64_t batch, uint64_t *peak, dt_err *err)
{
    dt_session other = *s;
    other.map = NULL;
    other.planned = NULL;
    other.n_planned = other.cap_planned = 0;
    other.opts.train.batch = other.opts.train.micro_batch = batch;
    const dt_status st = dt_session_plan_run(&other, true, 0, 0, err);
    *peak = dt_session_peak(&other);
    dt_session_forget(&other);
    return st;
}

/* The largest batch below the configured one whose plans fit, by bisection; 0: not even 1. */
static dt_status largest_batch(
    const dt_session *s, uint64_t budget, int64_t *batch, uint64_t *peak, dt_err *err)
{
    int64_t fits = 0, fails = s->opts.train.micro_batch;
    while (fails - fits > 1) {
        const int64_t mid = fits + (fails - fits) / 2;
        uint64_t p;
        DT_CHECK(peak_at(s, mid, &p, err));
        if (p <= budget) {
            fits = mid;
            *peak = p;
        } else {
            fails = mid;
        }
    }
    *batch = fits;
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

dt_status dt_session_check_budget(dt_session *s, dt_err *err)
{
    const uint64_t budget = s->opts.memory.device_budget, peak = dt_session_peak(s);
    if (budget == 0 || peak <= budget)
        return DT_OK;
    const char *file = NULL;
    int line = 0;
    dt_config_get(s->config, "memory", "device_budget", &file, &line);
    const dt_plan *p = largest_plan(s);
    char at[512], largest[1024], need[DT_HUMAN_BYTES], have[DT_HUMAN_BYTES], fit[DT_HUMAN_BYTES];
    int64_t batch = 0;
    uint64_t fits = 0;
    DT_CHECK(largest_tensors(p, largest, sizeof largest, err));
    DT_CHECK(largest_batch(s, budget, &batch, &fits, err));
    (void)DT_FAIL(err, DT_E_BUDGET,
        "does not fit: the device needs %s (%" PRIu64 " bytes), memory.device_budget is %s (%s)",
        dt_human_bytes(need, peak), peak, dt_human_bytes(have, budget),
        dt_config_place(at, sizeof at, file, line));
    (void)DT_FAIL(err, DT_E_BUDGET, "  largest at the peak of '%s': %s", p->program, largest);
    if (batch == 0)
        return DT_FAIL(err, DT_E_BUDGET,
            "  not even one sample fits: the parameters alone, with "
            "gradients and optimizer state, take %" PRIu64 " bytes",
            p->persistent);
    return DT_FAIL(err, DT_E_BUDGET,
        "  fits if: [train] batch = %" PRId64 " (or micro_batch), which needs %s", batch,
        dt_human_bytes(fit, fits));
}
