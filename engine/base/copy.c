/* Copies in pieces, a task each. */
#include "engine/base/copy.h"

#include <string.h>

#include "engine/base/team.h"

enum { COPY_CHUNK = 1 << 20, ROUND_CHUNK = 1 << 18 };

typedef struct copy_job {
    void *to;
    const void *from;
    size_t n; /* bytes, or values */
} copy_job;

static void copy_chunk(const void *job, int64_t i)
{
    const copy_job *j = job;
    const size_t at = (size_t)i * COPY_CHUNK, left = j->n - at;
    memcpy((char *)j->to + at, (const char *)j->from + at, left < COPY_CHUNK ? left : COPY_CHUNK);
}

void dt_cpu_copy(void *to, const void *from, size_t bytes)
{
    const copy_job j = {to, from, bytes};
    dt_team_run((int64_t)((bytes + COPY_CHUNK - 1) / COPY_CHUNK), copy_chunk, &j);
}

static void round_chunk(const void *job, int64_t i)
{
    const copy_job *j = job;
    const size_t begin = (size_t)i * ROUND_CHUNK, left = j->n - begin;
    dt_bf16 *to = (dt_bf16 *)j->to + begin;
    const float *from = (const float *)j->from + begin;
    const size_t n = left < ROUND_CHUNK ? left : ROUND_CHUNK;
#pragma omp simd
    for (size_t k = 0; k < n; k++)
        to[k] = dt_bf16_from_float(from[k]);
}

void dti_cpu_to_bf16(dt_bf16 *to, const float *from, int64_t count)
{
    const copy_job j = {to, from, (size_t)count};
    dt_team_run((count + ROUND_CHUNK - 1) / ROUND_CHUNK, round_chunk, &j);
}
