/* Convolutions and products where NVIDIA's libraries would do them, from their definitions. Both
 * want scratch, which they fill. What is of a context shows: a card's convolutions want scratch by
 * its multiprocessors, products in TF32 round their factors, and a handle serves the thread that
 * first runs something by it and no other. */
#include <cuda_runtime_api.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/alloc.h"
#include "engine/dtype.h"
#include "layers/cuda/conv_direct.h"
#include "layers/cublas/cublas_cuda.h"
#include "layers/cudnn/cudnn_cuda.h"
#include "layers/value.h"
#include "tests/card/card.h"

/* @OPERAND: what the library is promised, see prefer_all() in layers/cublas/cublas_cuda.c */
enum { FAST = 4096, LEAST = 256, PRODUCT = 1000, ALIGN = 64, OPERAND = 16 };

/* ---- convolutions: two ways, and none for groups ---- */

struct dti_cudnn {
    const dt_card *card;
    bool used;
    pthread_t by;
};

dt_status dti_cudnn_open(dti_cudnn **out, const dt_card *card, dt_err *err)
{
    *out = dt_alloc(1, sizeof **out);
    if (*out == NULL)
        return DT_FAIL(err, DT_E_NOMEM, "no memory for a handle");
    (*out)->card = card;
    return DT_OK;
}

void dti_cudnn_close(dti_cudnn *lib)
{
    dt_free(lib);
}

struct dti_cudnn_op {
    dti_cudnn *lib;
    dti_cudnn_problem p;
    size_t work;
};

static size_t work_of(const dti_cudnn *lib, size_t work)
{
    return work + (lib->card != NULL ? (size_t)lib->card->processors * ALIGN : 0);
}

static size_t work_within(const dti_cudnn *lib, const dti_cudnn_problem *p, size_t limit)
{
    if (p->groups > 1)
        return 0;
    const bool least = p->many != 0 && limit != DT_LIMIT_ANY && limit < work_of(lib, FAST);
    return work_of(lib, least ? LEAST : FAST);
}

static void tell(const dti_cudnn_problem *p, size_t work, char *impl)
{
    snprintf(impl, DT_IMPL_BYTES, "model's way with %zu%s", work, p->tf32 ? " in tf32" : "");
}

dt_status dti_cudnn_ask(
    dti_cudnn *lib, const dti_cudnn_problem *p, size_t limit, dti_cudnn_facts *f, dt_err *err)
{
    (void)err;
    *f = (dti_cudnn_facts){.work_bytes = work_within(lib, p, limit), .direct = p->groups > 1};
    tell(p, f->work_bytes, f->impl);
    return DT_OK;
}

dt_status dti_cudnn_algorithms(
    dti_cudnn *lib, const dti_cudnn_problem *p, dt_algorithms *w, dt_err *err)
{
    static const size_t all[] = {FAST, LEAST};
    char impl[DT_IMPL_BYTES];
    (void)err;
    w->n = 0;
    for (size_t i = 0; p->groups == 1 && i < DT_COUNT(all); i++) {
        tell(p, work_of(lib, all[i]), impl);
        dt_algorithms_add(w, impl, work_of(lib, all[i]));
    }
    return DT_OK;
}

dt_status dti_cudnn_create(
    dti_cudnn *lib, dti_cudnn_op **out, const dti_cudnn_problem *p, size_t limit, dt_err *err)
{
    *out = dt_alloc(1, sizeof **out);
    if (*out == NULL)
        return DT_FAIL(err, DT_E_NOMEM, "no memory to prepare a convolution");
    **out = (dti_cudnn_op){lib, *p, work_within(lib, p, limit)};
    return DT_OK;
}

void dti_cudnn_destroy(dti_cudnn_op *op)
{
    dt_free(op);
}

dt_status dti_cudnn_run(
    const dti_cudnn_op *op, void *queue, const dti_cudnn_bytes *bytes, dt_err *err)
{
    card_lock();
    if (op->lib->used && !pthread_equal(op->lib->by, pthread_self()))
        card_refuse("a handle of cuDNN's in two threads");
    op->lib->used = true;
    op->lib->by = pthread_self();
    (void)card_told(cudaSuccess);
    if (cudaMemsetAsync(bytes->work, 0xFF, op->work, queue) != cudaSuccess)
        return DT_FAIL(err, DT_E_DEVICE, "a convolution's scratch");
    return dti_conv_direct(&op->p, queue, bytes, err);
}

/* ---- products ---- */

struct dti_cublas {
    int nothing;
};

dt_status dti_cublas_open(dti_cublas **out, const dt_card *card, dt_err *err)
{
    (void)card;
    *out = dt_alloc(1, sizeof **out);
    return *out != NULL ? DT_OK : DT_FAIL(err, DT_E_NOMEM, "no memory for a handle");
}

void dti_cublas_close(dti_cublas *lib)
{
    dt_free(lib);
}

struct dti_cublas_op {
    dti_cublas_problem p;
};

dt_status dti_cublas_ask(
    dti_cublas *lib, const dti_cublas_problem *p, dti_cublas_facts *f, dt_err *err)
{
    (void)lib, (void)err;
    *f = (dti_cublas_facts){.work_bytes = PRODUCT};
    snprintf(f->impl, sizeof f->impl, "model's product%s", p->tf32 ? " in tf32" : "");
    return DT_OK;
}

dt_status dti_cublas_create(
    dti_cublas *lib, dti_cublas_op **out, const dti_cublas_problem *p, dt_err *err)
{
    (void)lib;
    *out = dt_alloc(1, sizeof **out);
    if (*out == NULL)
        return DT_FAIL(err, DT_E_NOMEM, "no memory to prepare a product");
    (*out)->p = *p;
    return DT_OK;
}

void dti_cublas_destroy(dti_cublas_op *op)
{
    dt_free(op);
}

typedef struct product {
    dti_cublas_problem p;
    dti_cublas_bytes b;
} product;

/* With ten bits in TF32, cut where a card rounds to the nearest: other bits are all that counts. */
static float factor(const dti_cublas_problem *p, const void *from, int64_t i, dt_dtype t)
{
    float v = dti_load(from, i, t);
    uint32_t bits;
    if (p->tf32 == 0)
        return v;
    memcpy(&bits, &v, sizeof bits);
    bits &= UINT32_C(0xFFFFE000);
    memcpy(&v, &bits, sizeof v);
    return v;
}

static int64_t pitch_of(const dti_cublas_problem *p)
{
    return p->pitch > 0 ? p->pitch : p->out;
}

static void forward(const dti_cublas_problem *p, const dti_cublas_bytes *b, dt_dtype t)
{
    for (int64_t r = 0; r < p->rows; r++)
        for (int64_t o = 0; o < p->out; o++) {
            float sum = p->bias ? ((const float *)b->bias)[o] : 0;
            for (int64_t i = 0; i < p->in; i++)
                sum += factor(p, b->x, r * p->in + i, t) * factor(p, b->weight, o * p->in + i, t);
            dti_store(b->y, r * pitch_of(p) + o, t, sum);
        }
}

static void data(const dti_cublas_problem *p, const dti_cublas_bytes *b, dt_dtype t)
{
    const dt_dtype to = p->sums ? DT_F32 : t;
    for (int64_t r = 0; r < p->rows; r++)
        for (int64_t i = 0; i < p->in; i++) {
            float sum = b->add ? dti_load(b->x, r * p->in + i, to) : 0;
            for (int64_t o = 0; o < p->out; o++)
                sum += factor(p, b->y, r * pitch_of(p) + o, t) *
                       factor(p, b->weight, o * p->in + i, t);
            dti_store(b->x, r * p->in + i, to, sum);
        }
}

static void weights(const dti_cublas_problem *p, const dti_cublas_bytes *b, dt_dtype t)
{
    for (int64_t o = 0; o < p->out; o++)
        for (int64_t i = 0; i < p->in; i++) {
            float sum = 0;
            for (int64_t r = 0; r < p->rows; r++)
                sum += factor(p, b->y, r * pitch_of(p) + o, t) * factor(p, b->x, r * p->in + i, t);
            dti_store(b->weight, o * p->in + i, DT_F32, sum);
        }
}

static void multiply(const void *given)
{
    const product *m = given;
    const dt_dtype t = m->p.bf16 != 0 ? DT_BF16 : DT_F32;
    memset(m->b.work, 0xFF, PRODUCT);
    if (m->p.direction == DTI_CUBLAS_FORWARD)
        forward(&m->p, &m->b, t);
    else if (m->p.direction == DTI_CUBLAS_DATA)
        data(&m->p, &m->b, t);
    else
        weights(&m->p, &m->b, t);
}

dt_status dti_cublas_run(dti_cublas_op *op, void *queue, const dti_cublas_bytes *bytes, dt_err *err)
{
    const product m = {op->p, *bytes};
    if (((uintptr_t)bytes->x | (uintptr_t)bytes->y | (uintptr_t)bytes->weight) % OPERAND != 0)
        return DT_FAIL(err, DT_E_DEVICE, "a product of what does not begin at %d bytes", OPERAND);
    card_lock();
    card_check_given("a product", &m, sizeof m);
    if (card_told(card_put(queue, multiply, &m, sizeof m)) != cudaSuccess)
        return DT_FAIL(err, DT_E_DEVICE, "a product was refused");
    return DT_OK;
}
