/* The bad samples of a source: which they are and why. */
#ifndef DT_DATA_SKIPS_H
#define DT_DATA_SKIPS_H

#include "engine/base/error.h"

typedef struct dt_skips {
    uint8_t *bad; /* a bit a sample; NULL when nothing is skipped */
    int64_t most; /* different samples that may be bad */
    char **texts; /* [n] in the order they were met */
    size_t n, cap;
} dt_skips;

dt_status dti_skips_init(dt_skips *s, int64_t samples, int64_t most, dt_err *err) DT_NODISCARD;
void dti_skips_free(dt_skips *s);

bool dti_skips_has(const dt_skips *s, int64_t sample);

/* DT_E_DATA when there are more than may be. */
dt_status dti_skips_allowed(const dt_skips *s, dt_err *err) DT_NODISCARD;

/* Remember one, if it is new; DT_E_DATA when that is one too many. */
dt_status dti_skips_add(dt_skips *s, int64_t sample, const dt_err *why, dt_err *err) DT_NODISCARD;

#endif
