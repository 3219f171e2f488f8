/* Rows of values times a weight, each pass as a product of matrices. */
#include "layers/cpu/rows_product.h"

#include "layers/blocked/bf16.h"
#include "layers/blocked/product.h"

bool dti_rows_product_accepts(dt_dtype type, dt_why *why)
{
    return type == DT_F32 || !dt_bf16_pays() ||
           dt_refuse(why, "bf16, for which the processor has fast instructions");
}

/* What a form computes, but for where its operands lie. */
static dti_product_opts product_of(const dti_rows_product *s, dt_form_kind form)
{
    const int64_t in = s->in, out = s->out;
    const dt_dtype t = s->type;
    if (form == DT_BACKWARD)
        return (dti_product_opts){
            out, in, s->rows, .a = {NULL, 1, out, t}, .b = {NULL, in, 1, t}, .c_type = DT_F32};
    if (form == DT_BACKWARD2)
        return (dti_product_opts){
            s->rows, in, out, .a = {NULL, out, 1, t}, .b = {NULL, in, 1, DT_F32}, .c_type = t};
    return (dti_product_opts){
        s->rows, out, in, .a = {NULL, in, 1, t}, .b = {NULL, 1, in, DT_F32}, .c_type = t};
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
