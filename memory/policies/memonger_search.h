/* Memonger's plan and search (dmlc/mxnet-memonger, memonger.py, 2016), in numbers alone. */
#ifndef DT_MEMORY_POLICIES_MEMONGER_SEARCH_H
#define DT_MEMORY_POLICIES_MEMONGER_SEARCH_H

#include "engine/base/error.h"

enum { DTI_STAGE_NONE = -1, DTI_STAGE_ALONE = 0 };

/* Bytes of what is kept, and of the largest stretch up to one that is. */
typedef struct dti_memonger_sums {
    uint64_t kept, largest;
} dti_memonger_sums;

/* Walk over n values: one that is of a stage is kept as soon as more than @threshold bytes were
 * made since the last, itself included. @stage: DTI_STAGE_NONE: it is none's and never kept;
 * DTI_STAGE_ALONE; else a number, and those of one number between which none is of another stage
 * share the fate of the first, as whose end the bytes since are counted. */
dti_memonger_sums dti_memonger_plan(
    const uint64_t *bytes, const int32_t *stage, size_t n, uint64_t threshold, bool *keep);

/* The threshold in MiB whose plan comes to the fewest bytes, the first of several: three rounds,
 * each from floor(sqrt(kept largest / 2)) MiB of the one before, the first from 0; then six, evenly
 * from the least largest stretch seen to sqrt(2) times the last guess. @try_it: what plans come to
 * at a threshold, and their sums. */
typedef struct dti_memonger_found {
    uint64_t mib, cost;
    int tried;
} dti_memonger_found;
typedef dt_status dti_memonger_try(
    void *ctx, uint64_t mib, uint64_t *cost, dti_memonger_sums *s, dt_err *err);
dt_status dti_memonger_search(
    dti_memonger_try *try_it, void *ctx, dti_memonger_found *out, dt_err *err) DT_NODISCARD;

#endif
