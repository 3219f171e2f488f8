/* In place of onednn.c in a program that was built without the library: no layer that needs it runs
 * on the processor, and asking says so. */
#include "layers/onednn/onednn.h"

static dt_status absent(dt_err *err)
{
    return DT_FAIL(err, DT_E_DEVICE,
        "this program was built without oneDNN (DT_CPU=OFF), which the processor needs for "
        "convolutions and matrix products; set device.kind = cuda");
}

dt_status dt_dnnl_ask(
    const dt_dnnl_problem *p, dt_dnnl_layout layout, dt_dnnl_facts *f, dt_err *err)
{
    (void)p, (void)layout, (void)f;
    return absent(err);
}

dt_status dti_dnnl_ask_reorder(
    const dt_dnnl_problem *p, dt_dnnl_layout from, dt_dnnl_layout to, dt_dnnl_facts *f, dt_err *err)
{
    (void)p, (void)from, (void)to, (void)f;
    return absent(err);
}

dt_status dt_dnnl_create(
    dt_dnnl_op **out, const dt_dnnl_problem *p, dt_dnnl_layout layout, dt_err *err)
{
    (void)p, (void)layout;
    *out = NULL;
    return absent(err);
}

dt_status dti_dnnl_create_reorder(
    dt_dnnl_op **out, const dt_dnnl_problem *p, dt_dnnl_layout from, dt_dnnl_layout to, dt_err *err)
{
    (void)p, (void)from, (void)to;
    *out = NULL;
    return absent(err);
}

dt_status dti_dnnl_create_reorder_rows(dt_dnnl_op **out, const dt_dnnl_problem *p,
    dt_dnnl_layout from, dt_dnnl_layout to, int64_t first, int64_t n, dt_err *err)
{
    (void)p, (void)from, (void)to, (void)first, (void)n;
    *out = NULL;
    return absent(err);
}

dt_status dti_dnnl_create_add_rows(dt_dnnl_op **out, const dt_dnnl_problem *rows,
    dt_dnnl_layout from, const dt_dnnl_problem *p, dt_dnnl_layout to, int64_t first, dt_err *err)
{
    (void)rows, (void)from, (void)p, (void)to, (void)first;
    *out = NULL;
    return absent(err);
}

int64_t dti_dnnl_rows(void)
{
    return 1;
}

void dt_dnnl_destroy(dt_dnnl_op *op)
{
    (void)op;
}

dt_status dti_dnnl_bind(dt_dnnl_op *op, const dt_dnnl_bytes *bytes, dt_err *err)
{
    (void)op, (void)bytes;
    return absent(err);
}

dt_status dt_dnnl_run(dt_dnnl_op *op, const dt_dnnl_bytes *bytes, dt_err *err)
{
    (void)op, (void)bytes;
    return absent(err);
}

bool dti_onednn_avx512(void)
{
    return false;
}

bool dt_onednn_bf16(void)
{
    return false;
}

const char *dt_onednn_isa(void)
{
    return "none";
}

dt_status dt_onednn_limit(dt_isa isa, dt_err *err)
{
    (void)isa, (void)err;
    return DT_OK;
}

const char *dt_onednn_version(void)
{
    return "no oneDNN";
}
