/* Placements by a hash of pool and intervals; kept are the peak and, behind it, the offsets. */
#include "memory/pools/pool_memo.h"

#include <string.h>

#include "engine/base/alloc.h"

/* All that a pool reads. */
static void key_of(
    const dt_pool_desc *pool, const dt_interval *v, size_t n, char key[DT_SHA256_TEXT])
{
    dt_sha256 sum;
    dt_sha256_init(&sum);
    dt_sha256_add_text(&sum, pool->name);
    for (size_t i = 0; i < n; i++) {
        const uint64_t of[] = {(uint64_t)v[i].lower, (uint64_t)v[i].upper, v[i].bytes, v[i].align};
        dt_sha256_add(&sum, of, sizeof of);
    }
    dt_sha256_text(&sum, key);
}

static void keep(dt_memo *m, const char *key, const dt_interval *v, size_t n, uint64_t peak)
{
    uint64_t *value = dt_alloc(n + 1, sizeof *value);
    if (value == NULL)
        return;
    value[0] = peak;
    for (size_t i = 0; i < n; i++)
        value[i + 1] = v[i].off;
    dti_memo_put(m, key, value, (n + 1) * sizeof *value);
    dt_free(value);
}

dt_status dti_pool_memo_place(
    dt_memo *m, const dt_pool_desc *pool, dt_interval *v, size_t n, uint64_t *peak, dt_err *err)
{
    char key[DT_SHA256_TEXT];
    if (m == NULL)
        return pool->place(v, n, peak, err);
    key_of(pool, v, n, key);
    const uint64_t *known = dti_memo_find(m, key, (n + 1) * sizeof *known);
    if (known == NULL) {
        DT_CHECK(pool->place(v, n, peak, err));
        keep(m, key, v, n, *peak);
        return DT_OK;
    }
    *peak = known[0];
    for (size_t i = 0; i < n; i++)
        v[i].off = known[i + 1];
    return DT_OK;
}
