/* Devices by name, and what there is of them on this machine.
 *
 * The CUDA device is a module of its own, libdnntrain_cuda.so beside the program, because NVIDIA's
 * libraries are large: it is loaded when something asks for the device, and needs no card for that.
 */
#ifndef DT_ENGINE_DEVICE_H
#define DT_ENGINE_DEVICE_H

#include "engine/base/alloc.h"
#include "engine/card.h"
#include "engine/driver.h"
#include "engine/kernels.h"

typedef enum dt_device_kind { DT_CPU, DT_CUDA } dt_device_kind;

const char *dt_device_name(dt_device_kind k);

/**
 * struct dt_device_module - what a device's module exports, under the name dt_device_module_cuda.
 * @version: of the program that it was built with, by whose structs it goes; the first member, so
 * that a module of any other version is known by it
 * @count_in: dt_alloc_count_in of the module's own copy of the engine, which keeps nothing else:
 * called once, before all others
 * @answers: as dt_device_answers
 * @kernels: of a layer or an op by name; NULL when it has none
 * @open @close: a context's libraries (engine/context.h), for a card by name or, NULL, the one that
 * answers
 */
typedef struct dt_device_module {
    const char *version;
    const dt_driver *driver;
    void (*count_in)(dti_alloc_counts *of);
    bool (*answers)(dt_err *why);
    const dt_kernels *(*kernels)(const char *layer);
    dt_status (*open)(void **libraries, const dt_card *card, dt_err *err);
    void (*close)(void *libraries);
} dt_device_module;

/* Whether the program was built for the device. */
bool dt_device_built(dt_device_kind k);

/* Load what the device needs, once, for the life of the process; from then on its layers have
 * kernels. From any thread. DT_E_CONFIG when the program was built without it, DT_E_DEVICE when its
 * module cannot be loaded. */
dt_status dti_device_load(dt_device_kind k, dt_err *err) DT_NODISCARD;

/* Loaded and there: a card answers. If not, @why says what is in the way and what to do. */
bool dt_device_answers(dt_device_kind k, dt_err *why);

/* The same at the least cost, for a choice: loads nothing where there cannot be a card. */
bool dt_device_likely(dt_device_kind k);

/* The processor has none; NULL as well: not loaded. */
const dt_device_module *dti_device_module(dt_device_kind k);

/* What the runner drives it by; NULL: not loaded. */
const dt_driver *dt_device_driver(dt_device_kind k);

/* Its memory and its name. DT_E_DEVICE when it does not answer. */
dt_status dt_device_facts(dt_device_kind k, dt_driver_facts *f, dt_err *err) DT_NODISCARD;

#endif
