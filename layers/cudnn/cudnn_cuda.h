/* Convolutions by cuDNN's graph interface. All that computes by cuDNN is in this folder, and
 * its types are in none of the headers that others include: this one, cudnn_choose.h and
 * cudnn_problem.h. Besides, engine/cuda/cuda_driver.c asks which version it is.
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
#include "layers/cudnn/cudnn_choose.h"
#include "layers/cudnn/cudnn_problem.h"

/* @direct: no engine of the library's; dti_conv_direct() is to be called instead */
typedef struct dti_cudnn_facts {
    size_t work_bytes;
    bool direct;
    char impl[DT_IMPL_BYTES];
} dti_cudnn_facts;

/* The library as one session has it: a handle, the card that it is asked about, and its answers.
 * @card: need not be here; NULL: the one that answers. The handle is made when a question first
 * needs it. DT_E_NOMEM. */
typedef struct dti_cudnn dti_cudnn;
dt_status dti_cudnn_open(dti_cudnn **out, const dt_card *card, dt_err *err) DT_NODISCARD;
void dti_cudnn_close(dti_cudnn *lib); /* after its ops; NULL is allowed */

/* Facts of the fastest algorithm whose scratch is within @limit bytes (DT_LIMIT_ANY: of the
 * fastest), or of the one with the least. Answers are kept; thread-safe. Where no device answers
 * and no card is named, no library is asked: no scratch, and impl says so. DT_E_DEVICE when the
 * library fails. */
dt_status dti_cudnn_ask(dti_cudnn *lib, const dti_cudnn_problem *p, size_t limit,
    dti_cudnn_facts *f, dt_err *err) DT_NODISCARD;

/* All algorithms, with their scratch; none where no device answers or no engine is allowed. */
dt_status dti_cudnn_algorithms(
    dti_cudnn *lib, const dti_cudnn_problem *p, dt_algorithms *w, dt_err *err) DT_NODISCARD;

typedef struct dti_cudnn_op dti_cudnn_op;

/* The algorithm that dti_cudnn_ask gives facts of. DT_E_DEVICE where no device answers, DT_E_CONFIG
 * where the library is asked about a card by name. */
dt_status dti_cudnn_create(dti_cudnn *lib, dti_cudnn_op **out, const dti_cudnn_problem *p,
    size_t limit, dt_err *err) DT_NODISCARD;
void dti_cudnn_destroy(dti_cudnn_op *op);

/* Bytes for one execution: x or dx, y or dy, the weight or its gradient, facts' scratch. */
typedef struct dti_cudnn_bytes {
    void *x, *y, *weight, *work;
} dti_cudnn_bytes;

/* Puts it on @queue (a cudaStream_t), without waiting; ops of one dti_cudnn by one thread at a
 * time.
 */
dt_status dti_cudnn_run(
    const dti_cudnn_op *op, void *queue, const dti_cudnn_bytes *bytes, dt_err *err) DT_NODISCARD;

#endif
