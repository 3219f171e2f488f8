/* What the files that call oneDNN share. Used by layers/onednn*.c alone. */
#ifndef DT_LAYERS_ONEDNN_ONEDNN_PARTS_H
#define DT_LAYERS_ONEDNN_ONEDNN_PARTS_H

#include <oneapi/dnnl/dnnl.h>

#include "layers/onednn/onednn.h"

/* The library's error in our words. */
dt_status dti_dnnl_failed(dnnl_status_t s, const char *call, dt_err *err);

/* Return with a note when a call of the library fails. Only where nothing is held. */
#define DT_ONEDNN_TRY(err, call)                                                                   \
    do {                                                                                           \
        const dnnl_status_t dt_dnnl_ = (call);                                                     \
        if (dt_dnnl_ != dnnl_success)                                                              \
            return dti_dnnl_failed(dt_dnnl_, #call, err);                                          \
    } while (0)

/* One engine and attribute (scratch memory is ours) for the life of the process; there once
 * dti_dnnl_ready has returned DT_OK. */
typedef struct dti_dnnl_library {
    dnnl_engine_t engine;
    dnnl_primitive_attr_t attr;
} dti_dnnl_library;
extern dti_dnnl_library dti_dnnl;
dt_status dti_dnnl_ready(dt_err *err);

/* The memories of a direction: a gradient has the description of what it is the gradient of. */
typedef struct dti_dnnl_memories {
    dnnl_memory_desc_t x, y, weight, bias;
} dti_dnnl_memories;
dt_status dti_dnnl_descs(
    const dt_dnnl_problem *p, dt_dnnl_layout way, dti_dnnl_memories *d, dt_err *err);

/* The weight in PyTorch's layout, or as the library likes it; and in the layouts of DT_DNNL_PANELS
 * and DT_DNNL_TAPS. */
dt_status dti_dnnl_weight(
    const dt_dnnl_problem *p, bool plain, bool bf16, dnnl_memory_desc_t *d, dt_err *err);
dt_status dti_dnnl_panels(const dt_dnnl_problem *p, dnnl_memory_desc_t *d, dt_err *err);
dt_status dti_dnnl_taps(const dt_dnnl_problem *p, dnnl_memory_desc_t *d, dt_err *err);

/* A direction's primitive, which the caller destroys; whether it is a product of matrices; which of
 * its memories is the weight. */
dt_status dti_dnnl_pd(
    const dt_dnnl_problem *p, dt_dnnl_layout way, dnnl_primitive_desc_t *pd, dt_err *err);
bool dti_dnnl_by_product(const dt_dnnl_problem *p, dt_dnnl_way way);
const dnnl_memory_desc_t *dti_dnnl_weight_of(const_dnnl_primitive_desc_t pd, dt_dnnl_way way);

/* onednn_ask.c: a weight's layout; and a reorder from md[0] to md[1], which the caller destroys. */
dt_status dti_dnnl_layout(
    const dt_dnnl_problem *p, dt_dnnl_layout layout, dnnl_memory_desc_t *d, dt_err *err);
dt_status dti_dnnl_reorder_pd(const dt_dnnl_problem *p, dt_dnnl_layout from, dt_dnnl_layout to,
    dnnl_memory_desc_t md[2], dnnl_primitive_desc_t *pd, dt_err *err);

#endif
