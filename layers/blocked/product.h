/* Products of large matrices on all processors, in fp32; of bf16 they are widened as they are
 * copied. */
#ifndef DT_LAYERS_BLOCKED_PRODUCT_H
#define DT_LAYERS_BLOCKED_PRODUCT_H

#include "engine/dtype.h"

/* Element i, j is p[i * row + j * step]; row or step is 1. @type: of the elements */
typedef struct dti_matrix {
    const void *p;
    int64_t row, step;
    dt_dtype type;
} dti_matrix;

/**
 * struct dti_product_opts - c[i][j] = bias[j] + sum over t of a[i][t] b[t][j].
 * @a @b: m rows of k, k rows of n; a b of bf16 has step 1
 * @bias: n values, or NULL
 * @sums: NULL, or where the sum of every row of a goes; then a.row is 1
 * @add: bit 0: c is added to what is there, bit 1: so are the sums; both by whole sums, rounded
 * once before. Then there is no bias
 * @c:    rows of n, c_row apart, of c_type; one of bf16 is rounded once, and not added to
 * @work: scratch
 *
 * A sum runs over t in an order that depends on k alone, so a row of c has the same bits whatever
 * rows are computed with it, on any number of threads.
 */
typedef struct dti_product_opts {
    int64_t m, n, k;
    dti_matrix a, b;
    const float *bias;
    unsigned add;
    float *sums;
    void *c;
    int64_t c_row;
    dt_dtype c_type;
    float *work;
} dti_product_opts;

void dti_product_run(const dti_product_opts *p);

/* Bytes of scratch for the team of this moment. */
size_t dti_product_bytes(int64_t m, int64_t n);

#endif
