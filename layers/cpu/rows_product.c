/* Rows of values times a weight, each pass as a product of matrices. */
#include "layers/cpu/rows_product.h"

#include "layers/blocked/product.h"

/* What a form computes, but for where its operands lie. */
static dti_product_opts product_of(const dti_rows_product *s, dt_form_kind form)
{
    const int64_t in = s->in, out = s->out;
    if (form == DT_BACKWARD)
        return (dti_product_opts){
            out, in, s->rows, .a = {.row = 1, .step = out}, .b = {NULL, in, 1}};
    if (form == DT_BACKWARD2)
        return (dti_product_opts){
            s->rows, in, out, .a = {.row = out, .step = 1}, .b = {NULL, in, 1}};
    return (dti_product_opts){s->rows, out, in, .a = {.row = in, .step = 1}, .b = {NULL, 1, in}};
}

void dti_rows_product_facts(const dti_rows_product *s, const dt_call *c, dt_facts *f)
{
    const dti_product_opts p = product_of(s, c->form);
    *f = (dt_facts){.work_bytes = dti_product_bytes(p.m, p.n), .adds = true, .impl = "product"};
}

void dti_rows_product_run(const dti_rows_product *s, const dt_call *c, const dt_args *a)
{
    dti_product_opts p = product_of(s, c->form);
    p.work = a->port[DT_WORK];
    p.c_row = p.n;
    if (c->form == DT_BACKWARD) {
        p.a.p = a->port[DT_DY];
        p.b.p = a->port[DT_X];
        p.c = a->port[DT_DP];
        p.sums = s->bias ? a->port[DT_DP + 1] : NULL;
        p.add = c->add;
    } else if (c->form == DT_BACKWARD2) {
        p.a.p = a->port[DT_DY];
        p.b.p = a->port[DT_D + 1];
        p.c = a->port[DT_DX];
    } else {
        p.a.p = a->port[DT_X];
        p.b.p = a->port[DT_D];
        p.bias = s->bias ? a->port[DT_P + 1] : NULL;
        p.c = a->port[DT_Y];
    }
    dti_product_run(&p);
}
