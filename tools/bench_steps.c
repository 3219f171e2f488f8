/* The steps: what each takes is written down between them. */
#include "tools/bench_parts.h"

#include <malloc.h>
#include <string.h>
#include <sys/resource.h>

#include "engine/base/alloc.h"

/* Plans were added in the session's order, so the runner's numbers are the session's. What other
 * threads copy takes none of the step's time but where it waits for them. */
static void ran(void *self, const dt_trace_row *r)
{
    dti_bench *b = self;
    const dti_op_cost copy = {
        DTI_COPIES, dt_machine_floor(&b->machine, DT_F32, 0, 2 * (double)r->bytes)};
    const dti_op_cost *c = r->op >= 0 ? &b->cost[r->plan][r->op] : &copy;
    dti_cell *to = &b->now[c->row];
    if (r->worker != 0)
        return;
    to->seconds += r->end - r->begin;
    to->floor += c->floor;
    to->ops++;
}

static int64_t page_faults(void)
{
    struct rusage u;
    return getrusage(RUSAGE_SELF, &u) == 0 ? (int64_t)u.ru_minflt + (int64_t)u.ru_majflt : 0;
}

/* Bytes that all of the process, libraries included, has from malloc. */
static int64_t heap_bytes(void)
{
#ifdef __GLIBC__
    const struct mallinfo2 m = mallinfo2();
    return (int64_t)(m.uordblks + m.hblkhd);
#else
    return 0;
#endif
}

static dt_status after_step(void *self, const dt_step_report *r, dt_err *err)
{
    dti_bench *b = self;
    (void)err;
    const int64_t step = b->done++ - DT_BENCH_WARM, faulted = page_faults();
    const double stalled = dt_runner_get_stats(b->rig.runner).stall_seconds;
    b->now[DTI_WAITS].seconds = stalled - b->stalled;
    if (step >= 0) {
        b->seconds[step] = r->step_seconds;
        b->faults[step] = faulted - b->faulted;
        memcpy(b->cell + step * b->n_row, b->now, (size_t)b->n_row * sizeof *b->cell);
    }
    if (step == -1) {
        b->allocated = dt_alloc_calls();
        b->heap = heap_bytes();
    }
    memset(b->now, 0, sizeof b->now);
    b->stalled = stalled;
    b->faulted = page_faults();
    return DT_OK;
}

static dt_status make_room(dti_bench *b, dt_err *err)
{
    const size_t steps = (size_t)b->steps;
    b->cell = dt_alloc(steps * (size_t)b->n_row, sizeof *b->cell);
    b->seconds = dt_alloc(steps, sizeof *b->seconds);
    b->faults = dt_alloc(steps, sizeof *b->faults);
    b->order = dt_alloc(steps, sizeof *b->order);
    if (b->cell == NULL || b->seconds == NULL || b->faults == NULL || b->order == NULL)
        return DT_FAIL(err, DT_E_NOMEM, "no memory for %zu steps", steps);
    /* written here, so that the steps are not given these pages */
    memset(b->cell, 0xFF, steps * (size_t)b->n_row * sizeof *b->cell);
    memset(b->seconds, 0xFF, steps * sizeof *b->seconds);
    memset(b->faults, 0xFF, steps * sizeof *b->faults);
    return DT_OK;
}

dt_status dti_bench_run_steps(dti_bench *b, dt_err *err)
{
    DT_CHECK(make_room(b, err));
    const dt_observer o = {.self = b, .step = after_step};
    dt_train_opts opts = b->s->opts.train;
    opts.lr = 1e-12; /* nothing is to be learned from noise, and nothing to diverge */
    opts.schedule = DT_SCHEDULE_CONSTANT;
    opts.warmup_steps = opts.warmup_epochs = 0;
    const dt_train_job j = {.runner = b->rig.runner,
        .map = b->s->plans->map,
        .opts = &opts,
        .ready = b->rig.ready,
        .n_ready = b->rig.n,
        .feed = &b->feed,
        .steps = b->steps + DT_BENCH_WARM,
        .steps_per_epoch = 2 * DT_BENCH_MOST,
        .observer = &o};
    const dt_trace trace = {b, ran};
    DT_CHECK(dt_runner_set_trace(b->rig.runner, &trace, err));
    const dt_status st = dt_train(&j, err);
    DT_CHECK(dt_runner_set_trace(b->rig.runner, NULL, err));
    b->heap = heap_bytes() - b->heap;
    b->allocated = dt_alloc_calls() - b->allocated;
    return st;
}
