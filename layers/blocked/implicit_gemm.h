/* The gradient of a convolution's weight as one product of matrices for every tap: of the pixels of
 * x that the tap reads, transposed, and dy. The matrix of those pixels (im2col's) is made a panel
 * at a time and never as a whole (implicit GEMM: Chetlur et al. 2014, arXiv 1410.0759, section 3).
 * For processors with AVX2 or AVX-512. The bits do not depend on the number of threads. */
#ifndef DT_LAYERS_BLOCKED_IMPLICIT_GEMM_H
#define DT_LAYERS_BLOCKED_IMPLICIT_GEMM_H

#include "engine/implementations.h"
#include "layers/blocked/weight_gradient.h"

/* Whether this machine can, and the shape is one of those for which it is the faster way. */
bool dti_implicit_gemm_accepts(const dti_weight_gradient *g, dt_why *why);

/* Bytes of scratch, for the team of this moment. */
size_t dti_implicit_gemm_work(const dti_weight_gradient *g);

/* dw (fp32, [kernel][kernel][c][out]) from x and dy (fp32, or bf16) is written, or added to by
 * whole sums. */
void dti_implicit_gemm_run(
    const dti_weight_gradient *g, const void *x, const void *dy, float *dw, bool add, void *work);

#endif
