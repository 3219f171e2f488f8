/* What losses on the processor ask of labels. */
#ifndef DT_LAYERS_CPU_LABELS_H
#define DT_LAYERS_CPU_LABELS_H

#include <inttypes.h>

#include "engine/kernels.h"
#include "engine/label.h"

/* Each is a class, or does not count. @positions: labels of a sample. DT_E_DATA. */
static inline dt_status dti_check_labels(
    const dt_args *a, int64_t positions, int64_t classes, dt_err *err)
{
    const int32_t *label = a->port[DT_LABELS];
    for (int64_t i = 0; i < a->n * positions; i++)
        if ((label[i] < 0 || label[i] >= classes) && label[i] != DT_LABEL_NONE)
            return DT_FAIL(err, DT_E_DATA,
                "sample %" PRId64 " of the step has label %" PRId32
                ", but the network has classes 0 to %" PRId64,
                a->sample0 + i / positions, label[i], classes - 1);
    return DT_OK;
}

#endif
