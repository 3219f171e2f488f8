/* What linear and fc share on the processor where products are made in fp32: rows of values times a
 * weight that is read as it lives, [out][in]. */
#ifndef DT_LAYERS_CPU_ROWS_PRODUCT_H
#define DT_LAYERS_CPU_ROWS_PRODUCT_H

#include "engine/implementations.h"

/* x: [rows][in], y: [rows][out], both of that type */
typedef struct dti_rows_product {
    int64_t rows, in, out;
    bool bias;
    dt_dtype type;
} dti_rows_product;

/* Values of fp32, or of a bf16 whose products are no faster. */
bool dti_rows_product_accepts(dt_dtype type, dt_why *why);

void dti_rows_product_facts(const dti_rows_product *s, const dt_call *c, dt_facts *f);

/* Any form but those that make copies of a weight, of which it has none. A row's bits do not depend
 * on the others, nor on the team. */
void dti_rows_product_run(const dti_rows_product *s, const dt_call *c, const dt_args *a);

/* Of a dt_impl, product_facts and product_run; @rows_of tells what a call of @n samples multiplies.
 */
#define DTI_ROWS_PRODUCT(rows_of)                                                                  \
    static dt_status product_facts(const dt_call *c, dt_facts *f, dt_err *err)                     \
    {                                                                                              \
        (void)err;                                                                                 \
        const dti_rows_product s = rows_of(c, c->n);                                               \
        dti_rows_product_facts(&s, c, f);                                                          \
        return DT_OK;                                                                              \
    }                                                                                              \
    static dt_status product_run(const dt_call *c, void *state, const dt_args *a, dt_err *err)     \
    {                                                                                              \
        (void)state, (void)err;                                                                    \
        const dti_rows_product s = rows_of(c, a->n);                                               \
        dti_rows_product_run(&s, c, a);                                                            \
        return DT_OK;                                                                              \
    }                                                                                              \
    _Static_assert(1, "a semicolon follows")

#endif
