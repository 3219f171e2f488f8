/* Devices by name, and how an op finds its kernels. */
#ifndef DT_ENGINE_DEVICE_H
#define DT_ENGINE_DEVICE_H

#include "engine/kernels.h"

typedef enum dt_device_kind { DT_CPU, DT_CUDA } dt_device_kind;

const char *dt_device_name(dt_device_kind k);

/* The kernels of a layer on a device; NULL when it has none. */
const dt_kernels *dt_kernels_of(const dt_layer_desc *desc, dt_device_kind device);

/* Facts of a call, defaults filled in. DT_E_DEVICE when the layer does not exist on the device. */
dt_status dt_call_facts(const dt_call *c, const dt_layer_desc *desc, dt_device_kind device,
    dt_facts *f, dt_err *err) DT_NODISCARD;

#endif
