#include "engine/device.h"

#include <string.h>

const char *dt_device_name(dt_device_kind k)
{
    return k == DT_CPU ? "cpu" : "cuda";
}

const dt_kernels *dt_kernels_of(const dt_layer_desc *desc, dt_device_kind device)
{
    return device == DT_CPU ? desc->cpu : desc->cuda;
}

dt_status dt_call_facts(
    const dt_call *c, const dt_layer_desc *desc, dt_device_kind device, dt_facts *f, dt_err *err)
{
    memset(f, 0, sizeof *f);
    const dt_kernels *k = dt_kernels_of(desc, device);
    if (k == NULL)
        return DT_FAIL(
            err, DT_E_DEVICE, "layer '%s' has no %s kernels", desc->name, dt_device_name(device));
    return k->facts != NULL ? k->facts(c, f, err) : DT_OK;
}
