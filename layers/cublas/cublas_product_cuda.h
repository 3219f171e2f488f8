/* A product as cuBLASLt's descriptors, and the choice of its algorithm: the inside of
 * cublas_cuda.c. */
#ifndef DT_LAYERS_CUBLAS_CUBLAS_PRODUCT_CUDA_H
#define DT_LAYERS_CUBLAS_CUBLAS_PRODUCT_CUDA_H

#include <cublasLt.h>

#include "layers/cublas/cublas_cuda.h"

/* What the library is told, and the first call that failed: after that all others do nothing. To
 * the library matrices are column-major, so that ours are the transposed ones: y' = weight x',
 * dx' = weight' dy', dweight' = x' dy. */
typedef struct dti_product {
    cublasLtMatmulDesc_t op;
    cublasLtMatrixLayout_t a, b, d;
    cublasStatus_t status;
    const char *call;
} dti_product;

bool dti_product_adds_bias(const dt_cublas_problem *p);
/* @fused: the library is to add the bias itself, if there is one to add. */
void dti_product_describe(dti_product *m, const dt_cublas_problem *p, bool fused);
void dti_product_set(
    dti_product *m, cublasLtMatmulDescAttributes_t name, const void *value, size_t bytes);
/* The algorithm that the library thinks best, of those with sums in one order. */
void dti_product_choose(
    dti_product *m, cublasLtHandle_t handle, cublasLtMatmulHeuristicResult_t *best);
void dti_product_drop(dti_product *m);

#endif
