/* A Feistel network over the next even power of two is a bijection whatever its round function;
 * walking its cycles until they come back below count makes it one of [0, count) (Black and
 * Rogaway, CT-RSA 2002). */
#include "data/shuffle.h"

#include "engine/base/philox.h"

enum { ROUNDS = 8 };

dti_shuffle dti_shuffle_make(uint64_t seed, int64_t epoch, int64_t count)
{
    unsigned half = 1;
    while ((UINT64_C(1) << (2 * half)) < (uint64_t)count)
        half++;
    return (dti_shuffle){.seed = seed, .epoch = epoch, .count = count, .half = half};
}

static uint64_t encipher(const dti_shuffle *s, uint64_t v)
{
    const uint64_t mask = (UINT64_C(1) << s->half) - 1;
    uint64_t left = v >> s->half, right = v & mask;
    for (uint32_t round = 0; round < ROUNDS; round++) {
        const dt_u32x4 r = dt_random(s->seed, DT_RANDOM_SHUFFLE, round, (uint64_t)s->epoch, right);
        const uint64_t next = (left ^ r.v[0]) & mask;
        left = right;
        right = next;
    }
    return left << s->half | right;
}

/* The domain is less than four times count, so the walk is short. */
int64_t dti_shuffle_at(const dti_shuffle *s, int64_t at)
{
    uint64_t v = (uint64_t)at;
    do
        v = encipher(s, v);
    while (v >= (uint64_t)s->count);
    return (int64_t)v;
}
