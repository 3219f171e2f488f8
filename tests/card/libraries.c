/* Convolutions and products where NVIDIA's libraries would do them, from their definitions. Both
 * want scratch, which they fill. */
#include <cuda_runtime_api.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/alloc.h"
#include "engine/dtype.h"
#include "layers/cuda/conv_direct.h"
#include "layers/cublas/cublas_cuda.h"
#include "layers/cudnn/cudnn_cuda.h"
#include "layers/value.h"
#include "tests/card/card.h"

enum { FAST = 4096, LEAST = 256, PRODUCT = 1000 };

/* ---- convolutions: two ways, and none for groups ---- */

struct dt_cudnn_op {
    dt_cudnn_problem p;
    size_t work;
};

static size_t work_within(const dt_cudnn_problem *p, size_t limit)
{
    if (p->groups > 1)
        return 0;
    return p->many != 0 && limit < FAST ? LEAST : FAST;
}

static void tell(size_t work, char *impl)
{
    snprintf(impl, DT_IMPL_BYTES, "model's way with %zu", work);
}

dt_status dti_cudnn_ask(const dt_cudnn_problem *p, size_t limit, dt_cudnn_facts *f, dt_err *err)
{
    (void)err;
    *f = (dt_cudnn_facts){.work_bytes = work_within(p, limit), .direct = p->groups > 1};
    tell(f->work_bytes, f->impl);
    return DT_OK;
}

dt_status dti_cudnn_algorithms(const dt_cudnn_problem *p, dt_algorithms *w, dt_err *err)
{
    char impl[DT_IMPL_BYTES];
    (void)err;
    w->n = 0;
    for (size_t work = FAST; p->groups == 1 && work >= LEAST; work /= FAST / LEAST) {
        tell(work, impl);
        dt_algorithms_add(w, impl, work);
    }
    return DT_OK;
}

dt_status dti_cudnn_create(dt_cudnn_op **out, const dt_cudnn_problem *p, size_t limit, dt_err *err)
{
    *out = dt_alloc(1, sizeof **out);
    if (*out == NULL)
        return DT_FAIL(err, DT_E_NOMEM, "no memory to prepare a convolution");
    **out = (dt_cudnn_op){*p, work_within(p, limit)};
    return DT_OK;
}

void dti_cudnn_destroy(dt_cudnn_op *op)
{
    dt_free(op);
}

dt_status dti_cudnn_run(
    const dt_cudnn_op *op, void *queue, const dt_cudnn_bytes *bytes, dt_err *err)
{
    if (cudaMemsetAsync(bytes->work, 0xFF, op->work, queue) != cudaSuccess)
        return DT_FAIL(err, DT_E_DEVICE, "a convolution's scratch");
    return dti_conv_direct(&op->p, queue, bytes, err);
}

/* ---- products ---- */

struct dt_cublas_op {
    dt_cublas_problem p;
};

dt_status dti_cublas_ask(const dt_cublas_problem *p, dt_cublas_facts *f, dt_err *err)
{
    (void)p, (void)err;
    *f = (dt_cublas_facts){.work_bytes = PRODUCT, .impl = "model's product"};
    return DT_OK;
}

dt_status dti_cublas_create(dt_cublas_op **out, const dt_cublas_problem *p, dt_err *err)
{
    *out = dt_alloc(1, sizeof **out);
    if (*out == NULL)
        return DT_FAIL(err, DT_E_NOMEM, "no memory to prepare a product");
    (*out)->p = *p;
    return DT_OK;
}

void dti_cublas_destroy(dt_cublas_op *op)
{
    dt_free(op);
}

typedef struct product {
    dt_cublas_problem p;
    dt_cublas_bytes b;
} product;

static void forward(const dt_cublas_problem *p, const dt_cublas_bytes *b, dt_dtype t)
{
    for (int64_t r = 0; r < p->rows; r++)
        for (int64_t o = 0; o < p->out; o++) {
            float sum = p->bias ? ((const float *)b->bias)[o] : 0;
            for (int64_t i = 0; i < p->in; i++)
                sum += dti_load(b->x, r * p->in + i, t) * dti_load(b->weight, o * p->in + i, t);
            dti_store(b->y, r * p->out + o, t, sum);
        }
}

static void data(const dt_cublas_problem *p, const dt_cublas_bytes *b, dt_dtype t)
{
    for (int64_t r = 0; r < p->rows; r++)
        for (int64_t i = 0; i < p->in; i++) {
            float sum = 0;
            for (int64_t o = 0; o < p->out; o++)
                sum += dti_load(b->y, r * p->out + o, t) * dti_load(b->weight, o * p->in + i, t);
            dti_store(b->x, r * p->in + i, t, sum);
        }
}

static void weights(const dt_cublas_problem *p, const dt_cublas_bytes *b, dt_dtype t)
{
    for (int64_t o = 0; o < p->out; o++)
        for (int64_t i = 0; i < p->in; i++) {
            float sum = 0;
            for (int64_t r = 0; r < p->rows; r++)
                sum += dti_load(b->y, r * p->out + o, t) * dti_load(b->x, r * p->in + i, t);
            dti_store(b->weight, o * p->in + i, DT_F32, sum);
        }
}

static void multiply(const void *given)
{
    const product *m = given;
    const dt_dtype t = m->p.bf16 != 0 ? DT_BF16 : DT_F32;
    memset(m->b.work, 0xFF, PRODUCT);
    if (m->p.way == DT_CUBLAS_FORWARD)
        forward(&m->p, &m->b, t);
    else if (m->p.way == DT_CUBLAS_DATA)
        data(&m->p, &m->b, t);
    else
        weights(&m->p, &m->b, t);
}

dt_status dti_cublas_run(dt_cublas_op *op, void *queue, const dt_cublas_bytes *bytes, dt_err *err)
{
    const product m = {op->p, *bytes};
    card_lock();
    card_check_given("a product", &m, sizeof m);
    if (card_told(card_put(queue, multiply, &m, sizeof m)) != cudaSuccess)
        return DT_FAIL(err, DT_E_DEVICE, "a product was refused");
    return DT_OK;
}
