/* The machine's own limits: operations and bytes a second, measured. */
#include "session/machine.h"

#include <math.h>

#include "engine/base/alloc.h"
#include "engine/base/clock.h"
#include "engine/base/copy.h"
#include "engine/base/cpu.h"
#include "engine/base/team.h"
#include "layers/blocked/bf16.h"
#include "layers/onednn/onednn.h"

enum { SAMPLES = 8, ALIGNMENT = 64 };
static const double seconds_each = 0.25;
static const size_t copied = (size_t)128 << 20;

/* Layers that a matrix product fills well: what they reach is what the processor gives. */
static const dt_dnnl_problem shapes[] = {
    {.groups = 1,
        .c = 256,
        .h = 28,
        .w = 28,
        .out = 256,
        .p = 28,
        .q = 28,
        .kernel = 3,
        .stride = 1,
        .pad = 1,
        .dilation = 1},
    {.groups = 1,
        .c = 512,
        .h = 28,
        .w = 28,
        .out = 512,
        .p = 28,
        .q = 28,
        .kernel = 1,
        .stride = 1,
        .dilation = 1},
};

/* Memory for a kernel, 64-byte aligned; *block is what to free. Small values that are not zero. */
static void *aligned(void **block, size_t bytes)
{
    unsigned char *p = *block = dt_alloc(bytes + ALIGNMENT, 1);
    if (p == NULL)
        return NULL;
    p += (ALIGNMENT - (uintptr_t)p % ALIGNMENT) % ALIGNMENT;
    for (size_t i = 0; i < bytes; i++)
        p[i] = i % 2 == 0 ? 0 : 0x3C; /* about 0.0078, in fp32 and in bf16 */
    return p;
}

static dt_status best_run(dt_dnnl_op *op, const dt_dnnl_bytes *b, double *best, dt_err *err)
{
    const double began = dt_seconds();
    *best = 1e300;
    do {
        const double from = dt_seconds();
        DT_CHECK(dt_dnnl_run(op, b, err));
        const double took = dt_seconds() - from;
        *best = took < *best ? took : *best;
    } while (dt_seconds() - began < seconds_each);
    return DT_OK;
}

static dt_status convolve(const dt_dnnl_problem *p, double *flops, dt_err *err)
{
    const dt_dnnl_layout way = {.kind = DT_DNNL_FORWARD, .n = SAMPLES};
    const size_t value = dt_dtype_bytes(p->bf16 ? DT_BF16 : DT_F32);
    const double work =
        2.0 * (double)(SAMPLES * p->out * p->c * p->kernel * p->kernel * p->p * p->q);
    dt_dnnl_facts f;
    dt_dnnl_op *op = NULL;
    void *block[4] = {NULL};
    double seconds = 1;
    DT_CHECK(dt_dnnl_ask(p, way, &f, err));
    const dt_dnnl_bytes b = {
        .x = aligned(&block[0], (size_t)(SAMPLES * p->h * p->w * p->c) * value),
        .y = aligned(&block[1], (size_t)(SAMPLES * p->p * p->q * p->out) * value),
        .weight = aligned(&block[2], f.weight_bytes),
        .work = aligned(&block[3], f.work_bytes + 1)};
    dt_status st = DT_OK;
    if (b.x == NULL || b.y == NULL || b.weight == NULL || b.work == NULL)
        st = DT_FAIL(err, DT_E_NOMEM, "no memory to measure the machine");
    if (st == DT_OK)
        st = dt_dnnl_create(&op, p, way, err);
    if (st == DT_OK)
        st = best_run(op, &b, &seconds, err);
    dt_dnnl_destroy(op);
    for (size_t i = 0; i < DT_COUNT(block); i++)
        dt_free(block[i]);
    *flops = work / seconds;
    return st;
}

static dt_status peak(dt_machine *m, dt_dtype t, dt_err *err)
{
    for (size_t i = 0; i < DT_COUNT(shapes); i++) {
        dt_dnnl_problem p = shapes[i];
        double flops;
        p.bf16 = t == DT_BF16;
        DT_CHECK(convolve(&p, &flops, err));
        m->flops[t] = flops > m->flops[t] ? flops : m->flops[t];
    }
    return DT_OK;
}

static dt_status bandwidth(dt_machine *m, dt_err *err)
{
    void *block[2] = {NULL};
    void *from = aligned(&block[0], copied), *to = aligned(&block[1], copied);
    double best = 1e300;
    const double began = dt_seconds();
    if (from == NULL || to == NULL) {
        dt_free(block[0]);
        dt_free(block[1]);
        return DT_FAIL(err, DT_E_NOMEM, "no memory to measure the machine");
    }
    do {
        const double start = dt_seconds();
        dt_cpu_copy(to, from, copied);
        const double took = dt_seconds() - start;
        best = took < best ? took : best;
    } while (dt_seconds() - began < seconds_each);
    m->bytes = 2 * (double)copied / best;
    dt_free(block[0]);
    dt_free(block[1]);
    return DT_OK;
}

typedef enum meeting { NOBODY, ONE_WAITS, BOTH, GIVEN_UP } meeting;

/* Two threads hand a number to and fro, in turns, in two lines of the cache. */
typedef struct talk {
    _Alignas(2 * ALIGNMENT) int said[2][ALIGNMENT / sizeof(int)];
    int met; /* a meeting */
    double best;
} talk;

static bool goes_on(talk *t, int from, int to)
{
    return __atomic_compare_exchange_n(
        &t->met, &from, to, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
}

/* Whether the other one comes, soon. Who comes when the first has given up, and be it the same
 * thread with the other task, has nobody to talk to. */
static bool meet(talk *t)
{
    const double until = dt_seconds() + seconds_each;
    if (!goes_on(t, NOBODY, ONE_WAITS))
        return goes_on(t, ONE_WAITS, BOTH);
    while (__atomic_load_n(&t->met, __ATOMIC_ACQUIRE) == ONE_WAITS)
        if (dt_seconds() > until && goes_on(t, ONE_WAITS, GIVEN_UP))
            return false;
    return true;
}

/* Whether the other one says this turn in time: where others want the processors too, each turn may
 * wait for them. */
static bool hear(const int *said, int turn, double until)
{
    enum { LOOKS = 1024 }; /* between two at the clock, which takes longer than an answer */
    for (int i = 1; __atomic_load_n(said, __ATOMIC_ACQUIRE) < turn; i++)
        if (i % LOOKS == 0 && dt_seconds() > until)
            return false;
    return true;
}

static void say_and_hear(const void *job, int64_t i)
{
    enum { TIMES = 40, TURNS = 1000 };
    talk *t = *(talk *const *)job;
    if (!meet(t))
        return;
    const double until = dt_seconds() + seconds_each;
    for (int k = 0; k < TIMES; k++) {
        const double from = dt_seconds();
        for (int turn = k * TURNS + 1; turn <= (k + 1) * TURNS; turn++) {
            if (i == 0)
                __atomic_store_n(&t->said[0][0], turn, __ATOMIC_RELEASE);
            if (!hear(&t->said[1 - i][0], turn, until))
                return;
            if (i == 1)
                __atomic_store_n(&t->said[1][0], turn, __ATOMIC_RELEASE);
        }
        const double took = (dt_seconds() - from) / TURNS;
        if (i == 0 && took < t->best)
            t->best = took;
    }
}

/* By the first two of the team; 0 where there is one thread, or the second does not come, or both
 * would take turns on one processor. */
static double answer(void)
{
    talk t = {.best = HUGE_VAL}, *at = &t;
    if (dt_cpu_threads() < 2 || dt_cpu_processors() < 2)
        return 0;
    dt_team_run(2, say_and_hear, &at);
    return t.best < HUGE_VAL ? t.best : 0;
}

dt_status dti_machine_measure(dt_machine *m, dt_dtype also, dt_err *err)
{
    *m = (dt_machine){0};
    DT_CHECK(peak(m, DT_F32, err));
    if (also == DT_BF16 && !dt_bf16_pays()) /* its products are those of fp32 */
        m->flops[also] = m->flops[DT_F32];
    else if (also != DT_F32)
        DT_CHECK(peak(m, also, err));
    m->answer = answer();
    return bandwidth(m, err);
}

double dti_machine_floor(const dt_machine *m, dt_dtype t, double flops, double bytes)
{
    const double compute = m->flops[t] > 0 ? flops / m->flops[t] : 0;
    const double memory = bytes / m->bytes;
    return compute > memory ? compute : memory;
}
