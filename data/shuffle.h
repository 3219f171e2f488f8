/* A permutation of [0, count) by counter: where a sample goes is computed, not stored, so that any
 * position of any epoch is known in O(1) and a resumed run sees the order of a fresh one. */
#ifndef DT_DATA_SHUFFLE_H
#define DT_DATA_SHUFFLE_H

#include "engine/base/compiler.h"

typedef struct dti_shuffle {
    uint64_t seed;
    int64_t epoch, count;
    unsigned half; /* bits of each half of a Feistel block */
} dti_shuffle;

/* @count at least 1 and at most 2^62; @epoch counts from 0. */
dti_shuffle dti_shuffle_make(uint64_t seed, int64_t epoch, int64_t count);

/* The sample at position @at of [0, count); each sample has one position. */
int64_t dti_shuffle_at(const dti_shuffle *s, int64_t at);

#endif
