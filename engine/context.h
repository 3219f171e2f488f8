/* What one session computes with: which device, for which card, how products are rounded, and the
 * device's libraries. The session fills it in before anything is planned, and it does not change
 * until it is closed; planning and the runner borrow it and hand it to kernels with every call
 * (dt_call.context), so sessions of different settings know nothing of each other. */
#ifndef DT_ENGINE_CONTEXT_H
#define DT_ENGINE_CONTEXT_H

#include "engine/device.h"
#include "engine/implementations.h"

/**
 * struct dt_context - one session's. A pointer of NULL stands for the processor as it is.
 * @device:    kernels are this device's
 * @card:      plans are for this one, which need not be here, and its kernels cannot be made; NULL:
 * for the one that answers
 * @tf32:      products of fp32 may round their factors to the ten bits of TF32; means nothing to
 * the processor
 * @limits:    where it is read how much memory the process may have; NULL: of the system
 * @libraries: the device's own, with their handles and what they have answered; NULL: it has none
 */
struct dt_context {
    dt_device_kind device;
    const dt_card *card;
    bool tf32;
    const struct dti_limit_ops *limits;
    void *libraries;
};

/* Load the device, if it has to be, and prepare its libraries, which open when they are first
 * asked. @c can be closed even on failure. DT_E_CONFIG and DT_E_DEVICE as dti_device_load. */
dt_status dt_context_open(
    dt_context *c, dt_device_kind device, const dt_card *card, bool tf32, dt_err *err) DT_NODISCARD;
/* When nothing that was planned or prepared in it is used any more; a zeroed one is fine. */
void dt_context_close(dt_context *c);

static inline dt_device_kind dt_context_device(const dt_context *c)
{
    return c != NULL ? c->device : DT_CPU;
}

/* The kernels of a layer; NULL when its device has none. */
const dt_kernels *dti_kernels_of(const dt_layer_desc *desc, const dt_context *c);

/* Facts of a call, defaults filled in. DT_E_DEVICE when the layer does not exist on the device. */
dt_status dti_call_facts(
    const dt_call *c, const dt_layer_desc *desc, dt_facts *f, dt_err *err) DT_NODISCARD;
/* The algorithms that can compute it; none when there is no choice. The same failures. */
dt_status dti_call_algorithms(
    const dt_call *c, const dt_layer_desc *desc, dt_algorithms *a, dt_err *err) DT_NODISCARD;
/* Which of its implementations computes it, and why those before that one do not. */
dt_status dti_call_choice(
    const dt_call *c, const dt_layer_desc *desc, dt_choice *choice, dt_err *err) DT_NODISCARD;

#endif
