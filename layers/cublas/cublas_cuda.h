/* Inner products of rows by cuBLASLt. All that computes by that library is in cublas_cuda.c;
 * besides, engine/cuda/cuda_driver.c asks which version it is.
 *
 * x {rows, in}, weight [out, in], y {rows, out}, all plain. In bf16 x, y, their gradients and the
 * weight are bf16; sums, the gradient of the weight and the bias are fp32. The algorithm is chosen
 * when a shape is first asked about, among those whose sums have one order, and holds for the life
 * of a session's context. */
#ifndef DT_LAYERS_CUBLAS_CUBLAS_CUDA_H
#define DT_LAYERS_CUBLAS_CUBLAS_CUDA_H

#include "engine/base/error.h"
#include "engine/card.h"

typedef enum dti_cublas_direction {
    DTI_CUBLAS_FORWARD, /* x, weight, bias -> y */
    DTI_CUBLAS_DATA,    /* dy, weight -> dx */
    DTI_CUBLAS_WEIGHTS  /* x, dy -> dweight */
} dti_cublas_direction;

enum { DTI_CUBLAS_WORK = 32 << 20 }; /* most bytes of scratch an algorithm may want */

/* Eight-byte members only, so that a problem can be compared as bytes.
 * @bias:  forward adds one; other directions ignore it
 * @tf32:  1: fp32 may be rounded to TF32
 * @pitch: values from a row of y or dy to the next; 0: @out
 * @sums:  1: dx is fp32 whatever the type, and a run may add to it */
typedef struct dti_cublas_problem {
    int64_t direction, rows, in, out, bias, bf16, tf32, pitch, sums;
} dti_cublas_problem;

typedef struct dti_cublas_facts {
    size_t work_bytes;
    char impl[48];
} dti_cublas_facts;

/* The library as one session has it: a handle and what it has answered.
 * @card: plans are for it, and it need not be here; NULL: for the one that answers. The handle is
 * made when a question first needs it. DT_E_NOMEM. */
typedef struct dti_cublas dti_cublas;
dt_status dti_cublas_open(dti_cublas **out, const dt_card *card, dt_err *err) DT_NODISCARD;
void dti_cublas_close(dti_cublas *lib); /* after its ops; NULL is allowed */

/* Answers are kept; thread-safe. Where no device answers, no library is asked: no scratch, and impl
 * says so. For a card that is not here the library has no answer: the most scratch that it may
 * want. DT_E_DEVICE when the library fails. */
dt_status dti_cublas_ask(
    dti_cublas *lib, const dti_cublas_problem *p, dti_cublas_facts *f, dt_err *err) DT_NODISCARD;

typedef struct dti_cublas_op dti_cublas_op;

/* DT_E_DEVICE where no device answers, DT_E_CONFIG where plans are for a card by name. */
dt_status dti_cublas_create(
    dti_cublas *lib, dti_cublas_op **out, const dti_cublas_problem *p, dt_err *err) DT_NODISCARD;
void dti_cublas_destroy(dti_cublas_op *op);

/* Bytes for one execution: x or dx, y or dy, the weight or its gradient, the bias (fp32, forward
 * only), facts' scratch.
 * @add: what comes out is added to what lies there, in fp32 */
typedef struct dti_cublas_bytes {
    void *x, *y, *weight, *bias, *work;
    bool add;
} dti_cublas_bytes;

/* Puts it on @queue (a cudaStream_t), without waiting; one op by one thread at a time. */
dt_status dti_cublas_run(
    dti_cublas_op *op, void *queue, const dti_cublas_bytes *bytes, dt_err *err) DT_NODISCARD;

#endif
