/* Convolutions by cuDNN's graph interface. Everything that depends on cuDNN is in cudnn_cuda.c and
 * cudnn_plan_cuda.c; its types do not appear here.
 *
 * Values are NHWC, the weight [out][height][width][c / groups]. In bf16 x, y, their gradients and
 * the weight are bf16, sums and the gradient of the weight are fp32. Which engines are the
 * algorithms of a shape is decided when it is first asked about and holds for the life of a
 * session's context: by their notes, the library's expectation of their speed, and their scratch,
 * never by free memory or a clock, so that every plan computes the same bits. Where the library has
 * none that is allowed, one of conv_direct.h does. */
#ifndef DT_LAYERS_CUDNN_CUDNN_CUDA_H
#define DT_LAYERS_CUDNN_CUDNN_CUDA_H

#include "engine/base/error.h"
#include "engine/algorithms.h"
#include "engine/card.h"
#include "engine/shape.h"
#include "layers/cudnn/cudnn_choose.h"

typedef enum dt_cudnn_direction {
    DT_CUDNN_FORWARD, /* x, weight -> y */
    DT_CUDNN_DATA,    /* dy, weight -> dx */
    DT_CUDNN_WEIGHTS  /* x, dy -> dweight */
} dt_cudnn_direction;

/* Bytes of scratch that an engine may want in any case. Beyond them as many as everything it reads
 * and writes takes in fp32: what bringing all of it into another layout takes. */
enum { DT_CUDNN_WORK = 256 << 20 };

/* One direction of a layer. Eight-byte members only, so that a problem can be compared as bytes.
 * @tf32: 1: fp32 may be rounded to TF32
 * @many: 1: all algorithms are prepared, which takes longer; 0: the fastest alone, whatever the
 * limit
 * @p @q: output height and width
 * @kernel @stride @pad: sides (engine/shape.h)
 * @dilation: 1 is a dense kernel */
typedef struct dt_cudnn_problem {
    int64_t direction, n, bf16, tf32, many, groups, c, h, w, out, p, q, kernel, stride, pad,
        dilation;
} dt_cudnn_problem;

/* Values of the weight. */
static inline int64_t dti_cudnn_weights(const dt_cudnn_problem *p)
{
    return p->out * (p->c / p->groups) * dt_sides_h(p->kernel) * dt_sides_w(p->kernel);
}

/* @direct: no engine of the library's; dti_conv_direct() is to be called instead */
typedef struct dt_cudnn_facts {
    size_t work_bytes;
    bool direct;
    char impl[DT_IMPL_BYTES];
} dt_cudnn_facts;

/* The library as one session has it: a handle, the card that it is asked about, and its answers.
 * @card: need not be here; NULL: the one that answers. The handle is made when a question first
 * needs it. DT_E_NOMEM. */
typedef struct dt_cudnn dt_cudnn;
dt_status dti_cudnn_open(dt_cudnn **out, const dt_card *card, dt_err *err) DT_NODISCARD;
void dti_cudnn_close(dt_cudnn *lib); /* after its ops; NULL is allowed */

/* Facts of the fastest algorithm whose scratch is within @limit bytes (DT_LIMIT_ANY: of the
 * fastest), or of the one with the least. Answers are kept; thread-safe. Where no device answers
 * and no card is named, no library is asked: no scratch, and impl says so. DT_E_DEVICE when the
 * library fails. */
dt_status dti_cudnn_ask(dt_cudnn *lib, const dt_cudnn_problem *p, size_t limit, dt_cudnn_facts *f,
    dt_err *err) DT_NODISCARD;

/* All algorithms, with their scratch; none where no device answers or no engine is allowed. */
dt_status dti_cudnn_algorithms(
    dt_cudnn *lib, const dt_cudnn_problem *p, dt_algorithms *w, dt_err *err) DT_NODISCARD;

typedef struct dt_cudnn_op dt_cudnn_op;

/* The algorithm that dti_cudnn_ask gives facts of. DT_E_DEVICE where no device answers, DT_E_CONFIG
 * where the library is asked about a card by name. */
dt_status dti_cudnn_create(dt_cudnn *lib, dt_cudnn_op **out, const dt_cudnn_problem *p,
    size_t limit, dt_err *err) DT_NODISCARD;
void dti_cudnn_destroy(dt_cudnn_op *op);

/* Bytes for one execution: x or dx, y or dy, the weight or its gradient, facts' scratch. */
typedef struct dt_cudnn_bytes {
    void *x, *y, *weight, *work;
} dt_cudnn_bytes;

/* Puts it on @queue (a cudaStream_t), without waiting; ops of one dt_cudnn by one thread at a time.
 */
dt_status dti_cudnn_run(
    const dt_cudnn_op *op, void *queue, const dt_cudnn_bytes *bytes, dt_err *err) DT_NODISCARD;

#endif
