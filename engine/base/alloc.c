/* Host memory, counted and made to fail at the n-th call by tests. */
#include "engine/base/alloc.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

static atomic_long countdown; /* 0: never fail */
static atomic_long live, calls;

static bool must_fail(void)
{
    atomic_fetch_add_explicit(&calls, 1, memory_order_relaxed);
    if (atomic_load_explicit(&countdown, memory_order_relaxed) == 0)
        return false;
    return atomic_fetch_sub(&countdown, 1) == 1;
}

void *dt_alloc(size_t n, size_t each)
{
    size_t bytes;
    if (!dt_mul_bytes(n, each, &bytes) || must_fail())
        return NULL;
    void *p = calloc(1, bytes > 0 ? bytes : 1);
    if (p != NULL)
        atomic_fetch_add(&live, 1);
    return p;
}

void *dt_realloc(void *old, size_t n, size_t each)
{
    size_t bytes;
    if (!dt_mul_bytes(n, each, &bytes) || must_fail())
        return NULL;
    void *p = realloc(old, bytes > 0 ? bytes : 1);
    if (p != NULL && old == NULL)
        atomic_fetch_add(&live, 1);
    return p;
}

char *dt_strdup(const char *s)
{
    const size_t n = strlen(s) + 1;
    char *p = dt_alloc(n, 1);
    if (p != NULL)
        memcpy(p, s, n);
    return p;
}

void dt_free(void *p)
{
    if (p != NULL)
        atomic_fetch_sub(&live, 1);
    free(p);
}

bool dt_grow(void **p, size_t *cap, size_t n, size_t each)
{
    if (n < *cap)
        return true;
    const size_t want = *cap < 8 ? 8 : *cap + *cap / 2;
    void *q = dt_realloc(*p, want, each);
    if (q == NULL)
        return false;
    *p = q;
    *cap = want;
    return true;
}

void dti_alloc_fail_at(long k)
{
    atomic_store(&countdown, k);
}

long dti_alloc_live(void)
{
    return atomic_load(&live);
}

long dt_alloc_calls(void)
{
    return atomic_load(&calls);
}
