/* A fully connected layer of bf16 whose weight of fp32 is large and whose samples are few: memory
 * is what it waits for. So the weight is read as it lives, [out][in], and rounded on the way; a
 * copy of it in bf16 would be written once and read once. A task has some columns of the results,
 * packs the weight's part of a few words at a time, and multiplies all samples by that. */
#ifndef DT_LAYERS_BLOCKED_FEW_ROWS_H
#define DT_LAYERS_BLOCKED_FEW_ROWS_H

#include "engine/implementations.h"

/* x: [rows][in], y: [rows][out], both bf16 */
typedef struct dti_few_rows {
    int64_t rows, in, out;
} dti_few_rows;

/* By AVX512_BF16, of a large weight; the rule does not look at @rows. */
bool dti_few_rows_accepts(const dti_few_rows *s, dt_why *why);

/* Bytes of scratch, for the team of this moment. */
size_t dti_few_rows_work(void);

/* y from x; bias: fp32 or NULL. dx from dy. A row's bits do not depend on the others, nor on the
 * team. */
void dti_few_rows_forward(const dti_few_rows *s, const void *x, const float *weight,
    const float *bias, void *y, void *work);
void dti_few_rows_data(
    const dti_few_rows *s, const void *dy, const float *weight, void *dx, void *work);

/* The gradients of the weight, and of the bias where it is not NULL. @add: bit 0: the weight's is
 * added to what is there, bit 1: the bias's is; each value is whole before */
void dti_few_rows_gradient(const dti_few_rows *s, const void *x, const void *dy, float *dweight,
    float *dbias, unsigned add, void *work);

#endif
