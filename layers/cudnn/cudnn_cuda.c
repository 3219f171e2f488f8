/* Convolutions by cuDNN: answers that are kept, ops, and running them. */
#include "layers/cudnn/cudnn_cuda.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/alloc.h"
#include "engine/base/mix.h"
#include "engine/cuda/cuda.h"
#include "layers/cudnn/cudnn_plan_cuda.h"
#include "layers/cuda/weighted_cuda.h"

enum { MEMO = 8192, ALIGN = 64 };

/* An answered question. */
typedef struct memo_entry {
    dti_cudnn_problem p;
    dti_cudnn_plan *plan; /* NULL: free */
} memo_entry;

_Static_assert(sizeof(dti_cudnn_problem) == 16 * 8, "a key has no padding");

/* @started: it was tried to make the handle or the properties, with @status
 * @target: neither: no device answers
 * @memo:   open addressing, forgotten as a whole when it fills up. Ops keep the plans they use
 * @lock:   of all of it, and of plans' users */
struct dti_cudnn {
    const dt_card *card;
    bool started;
    cudnnStatus_t status;
    dti_cudnn_target target;
    pthread_mutex_t lock;
    size_t memo_used;
    memo_entry memo[MEMO];
};

dt_status dti_cudnn_open(dti_cudnn **out, const dt_card *card, dt_err *err)
{
    dti_cudnn *lib = *out = dt_alloc(1, sizeof *lib);
    if (lib == NULL)
        return DT_FAIL(err, DT_E_NOMEM, "no memory for what cuDNN answers");
    lib->card = card;
    pthread_mutex_init(&lib->lock, NULL);
    return DT_OK;
}

static void memo_forget(dti_cudnn *lib)
{
    for (size_t i = 0; i < MEMO; i++) {
        dti_cudnn_release(lib->memo[i].plan);
        lib->memo[i].plan = NULL;
    }
    lib->memo_used = 0;
}

void dti_cudnn_close(dti_cudnn *lib)
{
    if (lib == NULL)
        return;
    memo_forget(lib);
    if (lib->target.properties != NULL)
        cudnnBackendDestroyDescriptor(lib->target.properties);
    if (lib->target.handle != NULL)
        (void)cudnnDestroy(lib->target.handle);
    pthread_mutex_destroy(&lib->lock);
    dt_free(lib);
}

/* Whom to ask, from the first question on: the card by name, else the one that answers. */
static dt_status start(dti_cudnn *lib, dt_err *err)
{
    if (lib->card != NULL)
        return lib->target.properties != NULL
                   ? DT_OK
                   : dti_cudnn_describe(&lib->target.properties, lib->card, err);
    if (!lib->started && dt_cuda_answers(NULL) && dt_cuda_enter(NULL) == DT_OK)
        lib->status = cudnnCreate(&lib->target.handle);
    lib->started = true;
    return lib->status == CUDNN_STATUS_SUCCESS ? DT_OK
                                               : dti_cudnn_failed(lib->status, "cudnnCreate", err);
}

/* The entry of this problem, or the free one where it belongs. */
static memo_entry *memo_find(dti_cudnn *lib, const dti_cudnn_problem *p)
{
    for (size_t i = dt_mix_place(p, sizeof *p, MEMO);; i++) {
        memo_entry *e = &lib->memo[i % MEMO];
        if (e->plan == NULL || memcmp(&e->p, p, sizeof *p) == 0)
            return e;
    }
}

/* The caller holds the lock. */
static dt_status find_locked(
    dti_cudnn *lib, const dti_cudnn_problem *p, dti_cudnn_plan **out, dt_err *err)
{
    DT_CHECK(start(lib, err));
    if (lib->target.handle == NULL && lib->target.properties == NULL)
        return DT_OK;
    memo_entry *e = memo_find(lib, p);
    if (e->plan == NULL) {
        if (lib->memo_used >= MEMO * 3 / 4)
            memo_forget(lib);
        e = memo_find(lib, p);
        DT_TRY(err, dti_cudnn_find(&e->plan, &lib->target, p, err),
            "convolution %" PRId64 "x%" PRId64 "x%" PRId64 " -> %" PRId64 ", kernel %s, %" PRId64
            " samples",
            p->h, p->w, p->c, p->out, dt_sides_print(p->kernel).s, p->n);
        e->p = *p;
        lib->memo_used++;
    }
    *out = e->plan;
    return DT_OK;
}

/* The plan of a shape, with one more user; NULL where no device answers and none is described. */
static dt_status hold(dti_cudnn *lib, const dti_cudnn_problem *p, dti_cudnn_plan **out, dt_err *err)
{
    *out = NULL;
    pthread_mutex_lock(&lib->lock);
    const dt_status st = find_locked(lib, p, out, err);
    if (*out != NULL)
        (*out)->users++;
    pthread_mutex_unlock(&lib->lock);
    return st;
}

static void let_go(dti_cudnn *lib, dti_cudnn_plan *plan)
{
    pthread_mutex_lock(&lib->lock);
    dti_cudnn_release(plan);
    pthread_mutex_unlock(&lib->lock);
}

/* Whether the gradient of the weight comes out in bf16 and has yet to be made fp32. */
static bool gives_bf16(const dti_cudnn_problem *p)
{
    return p->bf16 != 0 && p->direction == DTI_CUDNN_WEIGHTS;
}

static size_t bf16_bytes(const dti_cudnn_problem *p)
{
    return (size_t)dti_cudnn_weights(p) * sizeof(dt_bf16);
}

static const dti_cudnn_candidate *engine_of(const dti_cudnn_plan *plan, int algorithm)
{
    return &plan->table[plan->algorithm[algorithm].at];
}

/* Where the gradient in bf16 lies: behind the engine's scratch. */
static size_t bf16_at(const dti_cudnn_plan *plan, int algorithm)
{
    return (engine_of(plan, algorithm)->work_bytes + ALIGN - 1) / ALIGN * ALIGN;
}

static size_t work_of(const dti_cudnn_plan *plan, const dti_cudnn_problem *p, int algorithm)
{
    return dti_cuda_aligned_bytes(gives_bf16(p) ? bf16_at(plan, algorithm) + bf16_bytes(p)
                                                : engine_of(plan, algorithm)->work_bytes);
}

/* The fastest within the limit, else the one with the least scratch. */
static int algorithm_within(const dti_cudnn_plan *plan, const dti_cudnn_problem *p, size_t limit)
{
    int i = 0;
    while (limit != DT_LIMIT_ANY && i + 1 < plan->n_algorithm && work_of(plan, p, i) > limit)
        i++;
    return i;
}

static void describe_algorithm(
    const dti_cudnn_plan *plan, const dti_cudnn_problem *p, int algorithm, dti_cudnn_facts *f)
{
    const dti_cudnn_candidate *c = engine_of(plan, algorithm);
    f->work_bytes = work_of(plan, p, algorithm);
    snprintf(f->impl, sizeof f->impl, "cudnn engine %" PRId64 " settings %08" PRIx32 "%s",
        c->engine, (uint32_t)(c->knobs ^ c->knobs >> 32), gives_bf16(p) ? " bf16" : "");
}

dt_status dti_cudnn_ask(
    dti_cudnn *lib, const dti_cudnn_problem *p, size_t limit, dti_cudnn_facts *f, dt_err *err)
{
    dti_cudnn_plan *plan;
    *f = (dti_cudnn_facts){0};
    DT_CHECK(hold(lib, p, &plan, err));
    if (plan == NULL) {
        snprintf(f->impl, sizeof f->impl, "cudnn, not asked: no card");
        return DT_OK;
    }
    f->direct = plan->n_algorithm == 0;
    if (f->direct)
        snprintf(f->impl, sizeof f->impl, "direct, as cudnn has none (%d)", (int)plan->status);
    else
        describe_algorithm(plan, p, algorithm_within(plan, p, limit), f);
    let_go(lib, plan);
    return DT_OK;
}

dt_status dti_cudnn_algorithms(
    dti_cudnn *lib, const dti_cudnn_problem *p, dt_algorithms *w, dt_err *err)
{
    dti_cudnn_plan *plan;
    w->n = 0;
    DT_CHECK(hold(lib, p, &plan, err));
    for (int i = 0; plan != NULL && i < plan->n_algorithm; i++) {
        dti_cudnn_facts f;
        describe_algorithm(plan, p, i, &f);
        dt_algorithms_add(w, f.impl, f.work_bytes);
    }
    if (plan != NULL)
        let_go(lib, plan);
    return DT_OK;
}

struct dti_cudnn_op {
    dti_cudnn *lib;
    dti_cudnn_problem p;
    dti_cudnn_plan *plan;
    int algorithm;
};

dt_status dti_cudnn_create(
    dti_cudnn *lib, dti_cudnn_op **out, const dti_cudnn_problem *p, size_t limit, dt_err *err)
{
    *out = NULL;
    if (lib->card != NULL)
        return DT_FAIL(err, DT_E_CONFIG,
            "what is planned for a card by name (%s) is not run here: leave out device.card",
            lib->card->name);
    dti_cudnn_op *op = dt_alloc(1, sizeof *op);
    if (op == NULL)
        return DT_FAIL(err, DT_E_NOMEM, "no memory to prepare a convolution");
    op->lib = lib;
    op->p = *p;
    dt_status st = hold(lib, p, &op->plan, err);
    if (st == DT_OK && op->plan == NULL)
        st = dt_cuda_absent(err);
    if (st != DT_OK) {
        dti_cudnn_destroy(op);
        return st;
    }
    op->algorithm = algorithm_within(op->plan, p, limit);
    *out = op;
    return DT_OK;
}

void dti_cudnn_destroy(dti_cudnn_op *op)
{
    if (op == NULL)
        return;
    let_go(op->lib, op->plan);
    dt_free(op);
}

/* Where the library reads or leaves the weight. */
static void *weight_of(const dti_cudnn_op *op, const dti_cudnn_bytes *bytes)
{
    return gives_bf16(&op->p) ? dti_cuda_scratch(bytes->work) + bf16_at(op->plan, op->algorithm)
                              : bytes->weight;
}

/* The library's bookkeeping of one execution: a few hundred bytes of the host's memory, given back
 * before we return. */
static void execute(dti_cudnn_bag *b, const dti_cudnn_op *op, const dti_cudnn_bytes *bytes)
{
    const int64_t ids[3] = {DTI_CUDNN_X, DTI_CUDNN_W, DTI_CUDNN_Y};
    void *const at[3] = {bytes->x, weight_of(op, bytes), bytes->y};
    void *const work = dti_cuda_scratch(bytes->work);
    const cudnnBackendDescriptor_t pack = dti_cudnn_add(b, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
    dti_cudnn_set(b, pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, 3, ids);
    dti_cudnn_set(b, pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, 3, at);
    dti_cudnn_set(b, pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &work);
    dti_cudnn_finish(b, pack);
    if (b->status == CUDNN_STATUS_SUCCESS) {
        b->call = "cudnnBackendExecute";
        b->status = cudnnBackendExecute(
            op->lib->target.handle, op->plan->algorithm[op->algorithm].plan, pack);
    }
}

dt_status dti_cudnn_run(
    const dti_cudnn_op *op, void *queue, const dti_cudnn_bytes *bytes, dt_err *err)
{
    dti_cudnn_bag b = {0};
    DT_ASSERT(op->algorithm < op->plan->n_algorithm);
    cudnnStatus_t s = cudnnSetStream(op->lib->target.handle, queue);
    if (s != CUDNN_STATUS_SUCCESS)
        return dti_cudnn_failed(s, "cudnnSetStream", err);
    execute(&b, op, bytes);
    s = b.status;
    dti_cudnn_drop(&b);
    if (s != CUDNN_STATUS_SUCCESS)
        return dti_cudnn_failed(s, b.call, err);
    if (!gives_bf16(&op->p))
        return DT_OK;
    const int64_t count = (int64_t)(bf16_bytes(&op->p) / sizeof(dt_bf16));
    return dti_cuda_to_fp32(queue, bytes->weight, weight_of(op, bytes), count, err);
}
