/* Weights out of a padded layout, value by value. The library's own reorder (2.6.3) leaves values
 * out where an inner product has more than 6,144 inputs and 65 to 176 outputs, and nobody knows for
 * what others; read by onednn.c alone. */
#ifndef DT_LAYERS_ONEDNN_UNPAD_H
#define DT_LAYERS_ONEDNN_UNPAD_H

#include "engine/base/error.h"
#include "layers/onednn/version.h"

typedef struct dti_unpad dti_unpad;

/* Whether only the first one of two layouts of a weight has padding, and both are of fp32; the
 * second one may be some rows of a weight. */
bool dti_unpad_can(dti_read_desc from, dti_read_desc to);
/* @adds: to what is there. DT_E_NOMEM. */
dt_status dti_unpad_create(
    dti_unpad **out, dti_read_desc from, dti_read_desc to, bool adds, dt_err *err) DT_NODISCARD;
void dti_unpad_run(const dti_unpad *u, const float *from, float *to);
void dti_unpad_destroy(dti_unpad *u);

#endif
