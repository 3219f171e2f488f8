/* Convolutions of bf16 where its products are no faster than those of fp32 (layers/blocked/bf16.h),
 * or the library has none: the library's of fp32, over some samples at a time, whose values are
 * widened into scratch before and rounded behind. Weights are not rounded, and sums are those of
 * fp32. The gradient of a weight is that of the first samples, to which those of the others are
 * added in order. */
#ifndef DT_LAYERS_CPU_WIDENED_H
#define DT_LAYERS_CPU_WIDENED_H

#include "engine/kernels.h"
#include "layers/onednn/onednn.h"

/**
 * struct dti_widened - a call as the library is asked for it.
 * @problem @call: of one piece, in fp32; or as they were
 * @pieces: 0: nothing is widened
 */
typedef struct dti_widened {
    dt_dnnl_problem problem;
    dt_call call;
    int64_t pieces;
} dti_widened;

dti_widened dti_widened_of(const dt_dnnl_problem *p, const dt_call *c);

/**
 * struct dti_widened_places - what a piece takes of the scratch.
 * @work: bytes of the library's
 * @x @y: values of a piece; @weight @bias: of gradients, where there is more than one piece
 */
typedef struct dti_widened_places {
    size_t work;
    int64_t pieces, x, y, weight, bias;
} dti_widened_places;

/* Of an op that computes; @work and @weight_bytes: what the library says of a piece. */
dti_widened_places dti_widened_places_of(const dti_widened *w, size_t work, size_t weight_bytes);
size_t dti_widened_work(const dti_widened_places *at);

/* Runs @piece, the library's, for all pieces. Bytes as of dt_dnnl_run, x and y of bf16. */
typedef dt_status dti_widened_piece(void *self, const dt_dnnl_bytes *bytes, dt_err *err);
dt_status dti_widened_run(const dti_widened_places *at, dt_form_kind form,
    const dt_dnnl_bytes *bytes, dti_widened_piece *piece, void *self, dt_err *err) DT_NODISCARD;

#endif
