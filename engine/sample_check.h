/* What is asked of a batch before it is used: its labels and tokens are places in tables. */
#ifndef DT_ENGINE_SAMPLE_CHECK_H
#define DT_ENGINE_SAMPLE_CHECK_H

#include "engine/base/error.h"
#include "engine/label.h"

/* Each of @n labels, @each of a sample, is a class or DT_LABEL_NONE. @sample0: the first sample's
 * place in the step's batch. DT_E_DATA names the first that is neither. */
dt_status dt_check_labels(const int32_t *label, int64_t n, int64_t each, int64_t classes,
    int64_t sample0, dt_err *err) DT_NODISCARD;

/* Likewise, of labels that are values: each is finite, and a probability from 0 to 1, or it does
 * not count. */
dt_status dt_check_values(dt_label_kind kind, const int32_t *label, int64_t n, int64_t each,
    int64_t sample0, dt_err *err) DT_NODISCARD;
bool dt_is_value(dt_label_kind kind, float v); /* or NaN, which does not count */

/* Each of @n tokens is a whole number from 0 to one less than @vocabulary; likewise. */
dt_status dt_check_tokens(const float *x, int64_t n, int64_t each, int64_t vocabulary,
    int64_t sample0, dt_err *err) DT_NODISCARD;

#endif
