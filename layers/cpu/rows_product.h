/* What linear and fc share on the processor in fp32: rows of values times a weight that is read as
 * it lives, [out][in]. */
#ifndef DT_LAYERS_CPU_ROWS_PRODUCT_H
#define DT_LAYERS_CPU_ROWS_PRODUCT_H

#include "engine/kernels.h"

/* x: [rows][in], y: [rows][out] */
typedef struct dti_rows_product {
    int64_t rows, in, out;
    bool bias;
} dti_rows_product;

void dti_rows_product_facts(const dti_rows_product *s, const dt_call *c, dt_facts *f);

/* Any form but those that make copies of a weight, of which it has none. A row's bits do not depend
 * on the others, nor on the team. */
void dti_rows_product_run(const dti_rows_product *s, const dt_call *c, const dt_args *a);

#endif
