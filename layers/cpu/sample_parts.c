/* How many parts, where their bytes lie, and the adding up of gradients. */
#include "layers/cpu/sample_parts.h"

#include "engine/base/alloc.h"
#include "engine/base/cpu.h"
#include "engine/base/numbers.h"
#include "engine/shape.h"
#include "layers/cpu/tasks.h"

/* Beyond so many weights an op takes long enough for the library to share it out better: it reads a
 * weight once for all samples. */
enum { LINE = 64, MOST_WEIGHTS = 20 << 10 };
/* Parts a thread: fewer, and the last one is waited for too long; more, and each is small. */
enum { LEAST = 4, MOST = 16 };

static int64_t weights(const dt_dnnl_problem *p)
{
    return p->c / p->groups * p->out * dt_sides_h(p->kernel) * dt_sides_w(p->kernel);
}

static int64_t parts_of(const dt_dnnl_problem *p, dt_dnnl_kind kind, int64_t n)
{
    const int64_t threads = dt_cpu_threads();
    if (threads == 1 || p->fc != 0 || kind >= DT_DNNL_PLAIN || weights(p) > MOST_WEIGHTS)
        return 1;
    for (int64_t parts = LEAST * threads; parts <= MOST * threads && parts <= n; parts++)
        if (n % parts == 0)
            return parts;
    return 1;
}

dt_dnnl_layout dti_sample_parts_layout(const dt_dnnl_problem *p, dt_dnnl_kind kind, int64_t n)
{
    const int64_t parts = parts_of(p, kind, n);
    return (dt_dnnl_layout){.kind = kind, .n = n / parts, .alone = parts > 1};
}

/* Bytes of scratch: @work of a thread; @weight and @bias of a part's gradients. */
typedef struct places {
    size_t work, weight, bias, all;
} places;

static places places_of(
    const dt_dnnl_problem *p, dt_dnnl_kind kind, int64_t parts, const dt_dnnl_facts *f)
{
    places at = {.work = dt_align_up(f->work_bytes, LINE)};
    if (kind == DT_DNNL_WEIGHTS) {
        at.weight = dt_align_up(f->weight_bytes, LINE);
        at.bias = p->bias != 0 ? dt_align_up((size_t)p->out * sizeof(float), LINE) : 0;
    }
    at.all = (size_t)dt_cpu_threads() * at.work + (size_t)(parts - 1) * (at.weight + at.bias);
    return at;
}

size_t dti_sample_parts_work(
    const dt_dnnl_problem *p, dt_dnnl_kind kind, int64_t n, const dt_dnnl_facts *part)
{
    const int64_t parts = parts_of(p, kind, n);
    return parts > 1 ? places_of(p, kind, parts, part).all : part->work_bytes;
}

struct dti_sample_parts {
    dt_dnnl_kind kind;
    int64_t parts;
    size_t x, y;         /* bytes of a part's */
    size_t weight, bias; /* bytes of all of the gradients */
    places at;
    int members;
    dt_dnnl_op **op; /* of each part */
};

void dti_sample_parts_destroy(dti_sample_parts *s)
{
    if (s == NULL)
        return;
    for (int64_t i = 0; s->op != NULL && i < s->parts; i++)
        dt_dnnl_destroy(s->op[i]);
    dt_free(s->op);
    dt_free(s);
}

static dt_status create_ops(
    dti_sample_parts *s, const dt_dnnl_problem *p, dt_dnnl_layout part, dt_err *err)
{
    s->op = dt_alloc((size_t)s->parts, sizeof *s->op);
    if (s->op == NULL)
        return DT_FAIL(err, DT_E_NOMEM, "no memory to prepare an op");
    for (int64_t i = 0; i < s->parts; i++)
        DT_CHECK(dt_dnnl_create(&s->op[i], p, part, err));
    return DT_OK;
}

dt_status dti_sample_parts_create(
    dti_sample_parts **out, const dt_dnnl_problem *p, dt_dnnl_kind kind, int64_t n, dt_err *err)
{
    const dt_dnnl_layout part = dti_sample_parts_layout(p, kind, n);
    const size_t value = p->bf16 != 0 ? 2 : 4;
    dt_dnnl_facts f;
    *out = NULL;
    if (!part.alone)
        return DT_OK;
    DT_CHECK(dt_dnnl_ask(p, part, &f, err));
    dti_sample_parts *s = dt_alloc(1, sizeof *s);
    if (s == NULL)
        return DT_FAIL(err, DT_E_NOMEM, "no memory to prepare an op");
    s->kind = kind;
    s->parts = n / part.n;
    s->x = (size_t)(part.n * p->h * p->w * p->c) * value;
    s->y = (size_t)(part.n * p->p * p->q * p->out) * value;
    s->weight = f.weight_bytes;
    s->bias = p->bias != 0 ? (size_t)p->out * sizeof(float) : 0;
    s->at = places_of(p, kind, s->parts, &f);
    s->members = dt_cpu_threads();
    const dt_status st = create_ops(s, p, part, err);
    if (st != DT_OK) {
        dti_sample_parts_destroy(s);
        return st;
    }
    *out = s;
    return DT_OK;
}

typedef struct job {
    dti_sample_parts *s;
    const dt_dnnl_bytes *bytes;
    char *gradients; /* behind the threads' scratch: those of parts 1 and up */
    dt_status status;
} job;

/* Where no scratch is wanted there is none. */
static char *behind(void *work, size_t bytes)
{
    return work != NULL ? (char *)work + bytes : NULL;
}

static dt_dnnl_bytes bytes_of(const job *j, int64_t i)
{
    const dti_sample_parts *s = j->s;
    dt_dnnl_bytes b = *j->bytes;
    b.x = (char *)b.x + (size_t)i * s->x;
    b.y = (char *)b.y + (size_t)i * s->y;
    b.work = behind(b.work, (size_t)dt_team_member() * s->at.work);
    if (s->kind == DT_DNNL_WEIGHTS && i > 0) {
        char *at = j->gradients + (size_t)(i - 1) * (s->at.weight + s->at.bias);
        b.weight = at;
        b.bias = at + s->at.weight;
    }
    return b;
}

static void run_part(const void *of, int64_t i)
{
    job *j = (job *)(uintptr_t)of;
    const dt_dnnl_bytes b = bytes_of(j, i);
    const dt_status st = dt_dnnl_run(j->s->op[i], &b, NULL);
    if (st != DT_OK)
        __atomic_store_n(&j->status, st, __ATOMIC_RELAXED);
}

static void add_up(const job *j, float *to, size_t from, int64_t begin, int64_t end)
{
    const dti_sample_parts *s = j->s;
    for (int64_t part = 1; part < s->parts; part++) {
        const float *more =
            (const float *)(const void *)(j->gradients + from +
                                          (size_t)(part - 1) * (s->at.weight + s->at.bias));
#pragma omp simd
        for (int64_t i = begin; i < end; i++)
            to[i] += more[i];
    }
}

static void add_weight(const void *of, int64_t i)
{
    const job *j = of;
    const dti_span span = dti_span_of((int64_t)(j->s->weight / sizeof(float)), DTI_GRAIN, i);
    add_up(j, j->bytes->weight, 0, span.begin, span.end);
}

dt_status dti_sample_parts_run(dti_sample_parts *s, const dt_dnnl_bytes *bytes, dt_err *err)
{
    DT_ASSERT(dt_cpu_threads() <= s->members);
    job j = {.s = s, .bytes = bytes};
    j.gradients = behind(bytes->work, (size_t)s->members * s->at.work);
    for (int64_t i = 0; i < s->parts; i++) {
        const dt_dnnl_bytes b = bytes_of(&j, i);
        DT_CHECK(dti_dnnl_bind(s->op[i], &b, err));
    }
    dti_run_tasks(s->parts, run_part, &j);
    if (j.status != DT_OK)
        return DT_FAIL(err, j.status, "a part of a convolution failed");
    if (s->kind != DT_DNNL_WEIGHTS)
        return DT_OK;
    dti_run_tasks(dti_ceil_div((int64_t)(s->weight / sizeof(float)), DTI_GRAIN), add_weight, &j);
    if (s->bias != 0)
        add_up(&j, bytes->bias, s->at.weight, 0, (int64_t)(s->bias / sizeof(float)));
    return DT_OK;
}
