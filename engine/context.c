/* A session's context, and how a call finds its kernels in it. */
#include "engine/context.h"

#include <string.h>

dt_status dt_context_open(
    dt_context *c, dt_device_kind device, const dt_card *card, bool tf32, dt_err *err)
{
    *c = (dt_context){.device = device, .card = card, .tf32 = tf32};
    DT_CHECK(dti_device_load(device, err));
    const dt_device_module *m = dti_device_module(device);
    return m != NULL ? m->open(&c->libraries, card, err) : DT_OK;
}

void dt_context_close(dt_context *c)
{
    if (c->libraries != NULL)
        dti_device_module(c->device)->close(c->libraries);
    *c = (dt_context){0};
}

const dt_kernels *dti_kernels_of(const dt_layer_desc *desc, const dt_context *c)
{
    const dt_device_kind device = dt_context_device(c);
    if (device == DT_CPU)
        return desc->cpu;
    const dt_device_module *m = dti_device_module(device);
    return m != NULL ? m->kernels(desc->name) : NULL;
}

static dt_status kernels_for(
    const dt_call *c, const dt_layer_desc *desc, const dt_kernels **k, dt_err *err)
{
    *k = dti_kernels_of(desc, c->context);
    return *k != NULL ? DT_OK
                      : DT_FAIL(err, DT_E_DEVICE, "layer '%s' has no %s kernels", desc->name,
                            dt_device_name(dt_context_device(c->context)));
}

dt_status dti_call_facts(const dt_call *c, const dt_layer_desc *desc, dt_facts *f, dt_err *err)
{
    const dt_kernels *k;
    memset(f, 0, sizeof *f);
    DT_CHECK(kernels_for(c, desc, &k, err));
    return k->facts != NULL ? k->facts(c, f, err) : DT_OK;
}

dt_status dti_call_algorithms(
    const dt_call *c, const dt_layer_desc *desc, dt_algorithms *a, dt_err *err)
{
    const dt_kernels *k;
    a->n = 0;
    DT_CHECK(kernels_for(c, desc, &k, err));
    return k->algorithms != NULL ? k->algorithms(c, a, err) : DT_OK;
}

dt_status dti_call_choice(
    const dt_call *c, const dt_layer_desc *desc, dt_choice *choice, dt_err *err)
{
    const dt_kernels *k;
    choice->taken = NULL;
    choice->n = 0;
    DT_CHECK(kernels_for(c, desc, &k, err));
    return k->impls != NULL ? dti_impl_choose(k->impls, c, choice, err) : DT_OK;
}
