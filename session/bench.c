/* How long a step takes, where the time goes, and how far from the machine's own limits that is.
 * One made-up batch is trained on again and again, so no data is read. */
#include "session/bench.h"

#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "engine/base/alloc.h"
#include "session/budget.h"
#include "session/made_up.h"
#include "session/rig.h"
#include "session/run_plans.h"

/* The first two rows. */
enum { COPIES, WAITS };

/* What an op adds to its row. */
typedef struct op_cost {
    int row;
    double floor;
} op_cost;

/* A row of a step. */
typedef struct cell {
    double seconds, floor;
    int64_t ops;
} cell;

typedef struct bench {
    dt_session *s;
    dt_rig rig;
    dt_machine machine;
    op_cost **cost; /* [plan][row of its op table] */
    dt_bench_row row[DT_BENCH_ROWS];
    int n_row;
    cell now[DT_BENCH_ROWS]; /* of the step under way */
    cell *cell;              /* [step][n_row] */
    double *seconds;         /* [step] */
    int64_t *faults;         /* [step] */
    int *order;              /* steps by time */
    int64_t steps, done;     /* that count; done, warm ones included */
    double stalled;
    int64_t faulted, allocated, heap;
    dti_made_up batch;
} bench;

/* ---- what ops cost at least on this machine, and in which row they count ---- */

static const char *pass_of(dt_op_kind k)
{
    switch (k) {
    case DT_OP_FORWARD:
        return "forward";
    case DT_OP_BACKWARD:
        return "backward";
    case DT_OP_RECOMPUTE:
        return "recompute";
    case DT_OP_REORDER:
        return "reorder";
    case DT_OP_UPDATE:
        return "update";
    case DT_OP_ENCODE:
    case DT_OP_DECODE:
        return "codec";
    case DT_OP_FETCH:
    case DT_OP_OUT:
    case DT_OP_IN:
    case DT_OP_KINDS:
        break;
    }
    return "copy";
}

static dt_status find_row(bench *b, const char *kind, const char *pass, int *row, dt_err *err)
{
    for (*row = 0; *row < b->n_row; (*row)++)
        if (strcmp(b->row[*row].kind, kind) == 0 && strcmp(b->row[*row].pass, pass) == 0)
            return DT_OK;
    if (b->n_row == DT_BENCH_ROWS)
        return DT_FAIL(err, DT_E_INTERNAL, "more than %d kinds of ops", DT_BENCH_ROWS);
    b->row[b->n_row++] = (dt_bench_row){.kind = kind, .pass = pass};
    return DT_OK;
}

/* Bytes read and written; scratch stays in the caches, if all is well. */
static double bytes_of(const dt_plan *p, const dt_plan_op *op)
{
    double bytes = 0;
    for (int32_t i = op->first; i < op->first + op->n; i++) {
        const dt_plan_arg *a = &p->arg[i];
        if (p->tensor[a->tensor].role != DT_ROLE_WORKSPACE)
            bytes += (double)(a->to - a->from) * (a->mode == DT_UPDATES ? 2 : 1);
    }
    return bytes;
}

static dt_status cost_of(bench *b, const dt_planned *q, op_cost *to, dt_err *err)
{
    const dt_program *p = q->program;
    size_t at = 0;
    for (size_t i = 0; i < p->n_order; i++) {
        const dt_op *op = &p->op[p->order[i]];
        if (op->desc == NULL)
            continue;
        const dt_plan_op *row = &q->plan->op[at];
        const char *kind = op->codec != NULL ? op->codec->name : op->desc->name;
        DT_CHECK(find_row(b, kind, pass_of(op->kind), &to[at].row, err));
        to[at].floor = dti_machine_floor(
            &b->machine, dt_op_call(p, op).dtype, row->flops, bytes_of(q->plan, row));
        at++;
    }
    return DT_OK;
}

/* Fill cost, and row with what there is to be measured; the machine is measured before. */
static dt_status find_costs(bench *b, dt_err *err)
{
    int row;
    DT_CHECK(find_row(b, "batch, host, disk", "copy", &row, err));
    DT_CHECK(find_row(b, "waiting for copies", "copy", &row, err));
    b->cost = dt_alloc(b->s->plans->n, sizeof(op_cost *));
    if (b->cost == NULL)
        return DT_FAIL(err, DT_E_NOMEM, "no memory for a table of ops");
    for (size_t i = 0; i < b->s->plans->n; i++) {
        const dt_planned *q = b->s->plans->planned[i];
        b->cost[i] = dt_alloc(q->plan->n_op, sizeof(op_cost));
        if (b->cost[i] == NULL)
            return DT_FAIL(err, DT_E_NOMEM, "no memory for a table of ops");
        DT_CHECK(cost_of(b, q, b->cost[i], err));
    }
    return DT_OK;
}

/* ---- the steps: what each takes is written down between them ---- */

/* Plans were added in the session's order, so the runner's numbers are the session's. What other
 * threads copy takes none of the step's time but where it waits for them. */
static void ran(void *self, const dt_trace_row *r)
{
    bench *b = self;
    const op_cost copy = {COPIES, dti_machine_floor(&b->machine, DT_F32, 0, 2 * (double)r->bytes)};
    const op_cost *c = r->op >= 0 ? &b->cost[r->plan][r->op] : &copy;
    cell *to = &b->now[c->row];
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
    bench *b = self;
    (void)err;
    const int64_t step = b->done++ - DT_BENCH_WARM, faulted = page_faults();
    const double stalled = dt_runner_get_stats(b->rig.runner).stall_seconds;
    b->now[WAITS].seconds = stalled - b->stalled;
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

static dt_status make_room(bench *b, dt_err *err)
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

/* Train, and fill cell, seconds and faults; rig, cost and feed are there. */
static dt_status run_steps(bench *b, dt_err *err)
{
    DT_CHECK(make_room(b, err));
    const dt_observer o = {.self = b, .step = after_step};
    const dt_train_opts opts = dti_made_up_opts(b->s);
    const dt_train_job j = {.runner = b->rig.runner,
        .map = b->s->plans->map,
        .opts = &opts,
        .micro_batch = b->s->micro_batch,
        .ready = b->rig.ready,
        .n_ready = b->rig.n,
        .feed = &b->batch.feed,
        .steps = b->steps + DT_BENCH_WARM,
        .steps_per_epoch = DTI_MADE_UP_STEPS,
        .observer = &o};
    const dt_trace trace = {b, ran};
    DT_CHECK(dt_runner_set_trace(b->rig.runner, &trace, err));
    const dt_status st = dt_train(&j, err);
    DT_CHECK(dt_runner_set_trace(b->rig.runner, NULL, err));
    b->heap = heap_bytes() - b->heap;
    b->allocated = dt_alloc_calls() - b->allocated;
    return st;
}

/* ---- from the steps to one table: medians and means ---- */

/* An insertion sort: there are few steps, and they come in no order. */
static void sort_steps(bench *b)
{
    for (int i = 0; i < (int)b->steps; i++) {
        int at = i;
        for (; at > 0 && b->seconds[b->order[at - 1]] > b->seconds[i]; at--)
            b->order[at] = b->order[at - 1];
        b->order[at] = i;
    }
}

static int by_time(const void *a, const void *b)
{
    const dt_bench_row *x = a, *y = b;
    return x->seconds < y->seconds ? 1 : x->seconds > y->seconds ? -1 : 0;
}

static int by_count(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return x < y ? -1 : x > y;
}

/* Means over the middle half of the steps: so parts add up to a step, and odd ones do not count. */
static void sum_rows(bench *b, dt_bench_result *r)
{
    const int64_t from = b->steps / 4, to = b->steps - from;
    const double n = (double)(to - from);
    for (int64_t i = from; i < to; i++) {
        r->step += b->seconds[b->order[i]] / n;
        for (int k = 0; k < b->n_row; k++) {
            const cell *c = &b->cell[b->order[i] * b->n_row + k];
            b->row[k].seconds += c->seconds / n;
            b->row[k].floor += c->floor / n;
            b->row[k].ops += (double)c->ops / n;
        }
    }
    qsort(b->row, (size_t)b->n_row, sizeof *b->row, by_time);
    r->rest = r->step;
    for (int k = 0; k < b->n_row && b->row[k].seconds > 0; k++) {
        r->n_row++;
        r->rest -= b->row[k].seconds;
        r->floor += b->row[k].floor;
    }
}

static void sum_steps(bench *b, dt_bench_result *r)
{
    const int64_t mid = b->steps / 2, last = b->steps - 1;
    *r = (dt_bench_result){.session = b->s, .machine = b->machine, .steps = b->steps};
    sort_steps(b);
    r->least = b->seconds[b->order[0]];
    r->most = b->seconds[b->order[last]];
    r->median = (b->seconds[b->order[mid]] + b->seconds[b->order[last - mid]]) / 2;
    sum_rows(b, r);
    memcpy(r->row, b->row, sizeof r->row);
    qsort(b->faults, (size_t)b->steps, sizeof *b->faults, by_count);
    r->faults = b->faults[mid];
    r->faults_most = b->faults[last];
    r->allocations = b->allocated;
    r->grown = b->heap;
}

static dt_status measure(bench *b, dt_err *err)
{
    dt_session *s = b->s;
    DT_CHECK(dt_session_plan_run(s, false, 0, 0, err));
    DT_CHECK(dti_plan_set_check_statistics(s->plans, err));
    DT_CHECK(dti_session_check_run(s, false, err));
    dti_rig_tell_threads(s);
    DT_CHECK(dti_machine_measure(&b->machine, s->graph->dtype, err));
    DT_CHECK(find_costs(b, err));
    DT_CHECK(dti_made_up_init(&b->batch, b->s, err));
    DT_CHECK(dti_rig_open(&b->rig, s, err));
    return run_steps(b, err);
}

static void deinit(bench *b)
{
    for (size_t i = 0; b->cost != NULL && i < b->s->plans->n; i++)
        dt_free(b->cost[i]);
    dt_free(b->cost);
    dt_free(b->cell);
    dt_free(b->seconds);
    dt_free(b->faults);
    dt_free(b->order);
    dti_made_up_deinit(&b->batch);
    dti_rig_close(&b->rig);
}

dt_status dt_bench(dt_session *s, int64_t steps, dt_bench_result *out, dt_err *err)
{
    bench *b = dt_alloc(1, sizeof *b);
    if (b == NULL)
        return DT_FAIL(err, DT_E_NOMEM, "no memory to measure");
    b->s = s;
    b->steps = steps;
    const dt_status st = measure(b, err);
    if (st == DT_OK)
        sum_steps(b, out);
    deinit(b);
    dt_free(b);
    return st;
}
