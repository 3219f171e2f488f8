/* What losses on the processor ask of labels. */
#ifndef DT_LAYERS_CPU_LABELS_H
#define DT_LAYERS_CPU_LABELS_H

#include "engine/kernels.h"
#include "engine/label.h"
#include "engine/sample_check.h"

/* Each is a class, or does not count. @positions: labels of a sample. DT_E_DATA. */
static inline dt_status DT_NODISCARD dti_check_labels(
    const dt_args *a, int64_t positions, int64_t classes, dt_err *err)
{
    return dt_check_labels(
        a->port[DT_LABELS], a->n * positions, positions, classes, a->sample0, err);
}

#endif
