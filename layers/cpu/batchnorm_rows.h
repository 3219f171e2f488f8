/* Batch normalisation's arithmetic on rows of channels, for each type of values, and with or
 * without a ReLU behind it. A block is @rows rows, @channels apart, of which @n channels are worked
 * on. Backward finds the sign of the ReLU's input from x, by the very arithmetic of forward. */
#ifndef DT_LAYERS_CPU_BATCHNORM_ROWS_H
#define DT_LAYERS_CPU_BATCHNORM_ROWS_H

#include "engine/dtype.h"

enum { DTI_TILE = 512 }; /* channels worked on at a time: n is at most this */

/* Of n channels: y = (x - mean) * scale + bias. */
typedef struct dti_norm {
    const float *mean, *scale, *bias;
    const float *shift, *slope; /* dx = scale * (dy - shift - (x - mean) * slope) */
} dti_norm;

/**
 * struct dti_batchnorm_rows - what can be done to a block, by one instruction set; the bits are the
 * same by all of them, and however many rows, in fours, a block has.
 * @add_rows: add all rows to sum
 * @add_distances: and what rows are apart from middle, to sum and, squared, to squares
 * @normalise: y may be x
 * @add_products: add to sum all of dy, to products dy times the distance of x from the mean
 * @differentiate: dx may be dy
 */
typedef struct dti_batchnorm_rows {
    void (*add_rows)(const void *x, int64_t rows, int64_t channels, int n, float *sum);
    void (*add_distances)(const void *x, int64_t rows, int64_t channels, int n, const float *middle,
        float *sum, float *squares);
    void (*normalise)(
        const void *x, void *y, int64_t rows, int64_t channels, int n, const dti_norm *p);
    void (*add_products)(const void *x, const void *dy, int64_t rows, int64_t channels, int n,
        const dti_norm *p, float *sum, float *products);
    void (*differentiate)(const void *x, const void *dy, void *dx, int64_t rows, int64_t channels,
        int n, const dti_norm *p);
} dti_batchnorm_rows;

/* By instruction set (of dti_lane_set() and below), by whether a ReLU follows, and by type. */
const dti_batchnorm_rows *dti_batchnorm_rows_of(int lanes, bool relu, dt_dtype t);

#endif
