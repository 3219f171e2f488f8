/* Batch normalisation's arithmetic on rows of channels, for each type of values, and with or
 * without a ReLU behind it. A block is @rows rows, @channels apart, of which @n channels are worked
 * on. Backward finds the sign of the ReLU's input from x, by the very arithmetic of forward. */
#ifndef DT_LAYERS_BATCHNORM_ROWS_H
#define DT_LAYERS_BATCHNORM_ROWS_H

#include "engine/dtype.h"

enum { DTI_TILE = 512 }; /* channels worked on at a time: n is at most this */

/* Of n channels: y = (x - mean) * scale + bias. */
typedef struct dti_norm {
    const float *mean, *scale, *bias;
} dti_norm;

/**
 * struct dti_batchnorm_rows - what can be done to a block.
 * @join:  add a block to the mean and the sum of squared distances from it of the @before rows
 * above; rows is at most 64
 * @normalise: y may be x
 * @sum:   add to dbias the sums of dy, to dweight those of dy times the distance of x from the mean
 * @differentiate: dx = scale * (dy - shift - (x - mean) * slope); dx may be dy
 */
typedef struct dti_batchnorm_rows {
    void (*join)(const void *x, int64_t rows, int64_t channels, int n, int64_t before, double *mean,
        double *m2);
    void (*normalise)(
        const void *x, void *y, int64_t rows, int64_t channels, int n, const dti_norm *p);
    void (*sum)(const void *x, const void *dy, int64_t rows, int64_t channels, int n,
        const dti_norm *p, double *dbias, double *dweight);
    void (*differentiate)(const void *x, const void *dy, void *dx, int64_t rows, int64_t channels,
        int n, const dti_norm *p, const float *shift, const float *slope);
} dti_batchnorm_rows;

/* By whether a ReLU follows, and by type. */
extern const dti_batchnorm_rows dti_batchnorm_rows_of[2][DT_DTYPES];

#endif
