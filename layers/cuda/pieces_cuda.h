/* Products of rows whose outputs do not begin at 16 bytes in every row, as those of a vocabulary of
 * 50257 do not. cuBLASLt's fast kernels want that they do, and the others take five times as long.
 * Outputs are taken piece by piece, and a piece lies in scratch, in rows that begin so. Every other
 * product is run as it is. */
#ifndef DT_LAYERS_CUDA_PIECES_CUDA_H
#define DT_LAYERS_CUDA_PIECES_CUDA_H

#include "layers/cublas/cublas_cuda.h"

typedef struct dti_pieces dti_pieces;

/* Like dti_cublas_ask, _create, _destroy and _run, with the same errors. */
dt_status dti_pieces_ask(
    dti_cublas *lib, const dti_cublas_problem *p, dti_cublas_facts *f, dt_err *err) DT_NODISCARD;
dt_status dti_pieces_create(
    dti_cublas *lib, dti_pieces **out, const dti_cublas_problem *p, dt_err *err) DT_NODISCARD;
void dti_pieces_destroy(dti_pieces *s);
dt_status dti_pieces_run(
    dti_pieces *s, void *queue, const dti_cublas_bytes *bytes, dt_err *err) DT_NODISCARD;

#endif
