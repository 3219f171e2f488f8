/* The files of the MNIST family, apart from the source so that they can be fed from memory. */
#ifndef DT_DATA_IDX_H
#define DT_DATA_IDX_H

#include "engine/base/error.h"

/* Pictures of one channel and their labels, owned. */
typedef struct dti_idx {
    uint8_t *pixels; /* [n][h][w] */
    uint8_t *labels; /* [n] */
    int64_t n, h, w;
} dti_idx;

/* Bytes of a file and its name, fit for a message. */
typedef struct dti_idx_file {
    const char *name;
    const uint8_t *bytes;
    size_t n;
} dti_idx_file;

/* Read both files, plain or gzip: magic numbers, sizes (nothing is allocated that the file cannot
 * hold), checksums, counts, labels below @classes. DT_E_DATA names file, expected and found. Free
 * with dti_idx_free, also after an error. */
dt_status dti_idx_parse(dti_idx *out, const dti_idx_file *images, const dti_idx_file *labels,
    int64_t classes, dt_err *err) DT_NODISCARD;
void dti_idx_free(dti_idx *x);

#endif
