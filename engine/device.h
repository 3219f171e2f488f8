/* Devices by name, what there is of them on this machine, and how an op finds its kernels.
 *
 * The CUDA device is a module of its own, libdnntrain_cuda.so beside the program, because NVIDIA's
 * libraries are large: it is loaded when something asks for the device, and needs no card for that.
 */
#ifndef DT_ENGINE_DEVICE_H
#define DT_ENGINE_DEVICE_H

#include "engine/card.h"
#include "engine/driver.h"
#include "engine/implementations.h"

typedef enum dt_device_kind { DT_CPU, DT_CUDA } dt_device_kind;

const char *dt_device_name(dt_device_kind k);

/**
 * struct dt_device_module - what a device's module exports, under the name dt_device_module_cuda.
 * @answers: as dt_device_answers
 * @kernels: of a layer or an op by name; NULL when it has none
 * @allow_tf32: see dt_device_allow_tf32
 * @plan_for: see dt_device_plan_for
 */
typedef struct dt_device_module {
    const dt_driver *driver;
    bool (*answers)(dt_err *why);
    const dt_kernels *(*kernels)(const char *layer);
    void (*allow_tf32)(bool yes);
    void (*plan_for)(const dt_card *card);
} dt_device_module;

/* Whether the program was built for the device. */
bool dt_device_built(dt_device_kind k);

/* Load what the device needs, once; from then on its layers have kernels. DT_E_CONFIG when the
 * program was built without it, DT_E_DEVICE when its module cannot be loaded. */
dt_status dt_device_load(dt_device_kind k, dt_err *err) DT_NODISCARD;

/* Loaded and there: a card answers. If not, @why says what is in the way and what to do. */
bool dt_device_answers(dt_device_kind k, dt_err *why);

/* The same at the least cost, for a choice: loads nothing where there cannot be a card. */
bool dt_device_likely(dt_device_kind k);

/* What the runner drives it by; NULL: not loaded. */
const dt_driver *dti_device_driver(dt_device_kind k);

/* Whether products of fp32 may round their factors to TF32, in kernels asked about and made from
 * now on; false at first. Means nothing to the CPU. */
void dt_device_allow_tf32(dt_device_kind k, bool yes);

/* Kernels asked about from now on are those of this card, which need not be here, and cannot be
 * made; NULL, as at first: of the card that answers. Means nothing to the CPU. */
void dt_device_plan_for(dt_device_kind k, const dt_card *card);

/* Its memory and its name. DT_E_DEVICE when it does not answer. */
dt_status dt_device_facts(dt_device_kind k, dt_driver_facts *f, dt_err *err) DT_NODISCARD;

/* The kernels of a layer on a device; NULL when it has none. */
const dt_kernels *dti_kernels_of(const dt_layer_desc *desc, dt_device_kind device);

/* Facts of a call, defaults filled in. DT_E_DEVICE when the layer does not exist on the device. */
dt_status dti_call_facts(const dt_call *c, const dt_layer_desc *desc, dt_device_kind device,
    dt_facts *f, dt_err *err) DT_NODISCARD;
/* The algorithms that can compute it; none when there is no choice. The same failures. */
dt_status dti_call_algorithms(const dt_call *c, const dt_layer_desc *desc, dt_device_kind device,
    dt_algorithms *a, dt_err *err) DT_NODISCARD;
/* Which of its implementations computes it, and why those before that one do not. */
dt_status dti_call_choice(const dt_call *c, const dt_layer_desc *desc, dt_device_kind device,
    dt_choice *choice, dt_err *err) DT_NODISCARD;

#endif
