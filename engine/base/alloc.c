/* Host memory, counted and made to fail at the n-th call by tests. */
#define _DEFAULT_SOURCE /* madvise */

#include "engine/base/alloc.h"

#include <malloc.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { LARGE = 1 << 20 };

/* @countdown: 0: never fail */
struct dti_alloc_counts {
    atomic_long countdown, live, calls;
    atomic_size_t bytes, most;
};
static dti_alloc_counts own, *counts = &own;

static bool must_fail(void)
{
    atomic_fetch_add_explicit(&counts->calls, 1, memory_order_relaxed);
    if (atomic_load_explicit(&counts->countdown, memory_order_relaxed) == 0)
        return false;
    return atomic_fetch_sub(&counts->countdown, 1) == 1;
}

/* What the system has made of it, so that nothing is kept beside a block. */
static void count(void *p)
{
    const size_t n = malloc_usable_size(p), now = atomic_fetch_add(&counts->bytes, n) + n;
    size_t high = atomic_load(&counts->most);
    while (now > high && !atomic_compare_exchange_weak(&counts->most, &high, now))
        ;
}

static void discount(void *p)
{
    atomic_fetch_sub(&counts->bytes, malloc_usable_size(p));
}

/* The whole pages within come again as zeros when they are next touched; *from and *to: the bytes
 * that they are, none if the system does not take them. */
static void drop_pages(unsigned char *p, size_t n, size_t *from, size_t *to)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE), off = (uintptr_t)p % page;
    *from = (page - off) % page;
    *to = *from < n ? *from + (n - *from) / page * page : *from;
    if (*from >= *to || madvise(p + *from, *to - *from, MADV_DONTNEED) != 0)
        *from = *to = 0;
}

/* Whether freed pages are kept, which is said before there are threads that plan. */
static atomic_bool held;

/* calloc clears a large block by hand where it has been in use before, and so takes all of its
 * pages; of buffers, often little is ever touched. Where pages are held, for tables that are
 * written from end to end, to clear one takes a fraction of what the system takes to bring it anew.
 */
static void *zeroed(size_t n)
{
    if (n < LARGE || atomic_load_explicit(&held, memory_order_relaxed))
        return calloc(1, n);
    unsigned char *p = malloc(n);
    size_t from, to;
    if (p == NULL)
        return NULL;
    drop_pages(p, n, &from, &to);
    memset(p, 0, from);
    memset(p + to, 0, n - to);
    return p;
}

void *dt_alloc(size_t n, size_t each)
{
    size_t all;
    if (!dt_mul_bytes(n, each, &all) || must_fail())
        return NULL;
    void *p = zeroed(all > 0 ? all : 1);
    if (p == NULL)
        return NULL;
    atomic_fetch_add(&counts->live, 1);
    count(p);
    return p;
}

void *dt_realloc(void *old, size_t n, size_t each)
{
    size_t all;
    if (!dt_mul_bytes(n, each, &all) || must_fail())
        return NULL;
    const size_t before = malloc_usable_size(old);
    void *p = realloc(old, all > 0 ? all : 1);
    if (p == NULL)
        return NULL;
    if (old == NULL)
        atomic_fetch_add(&counts->live, 1);
    atomic_fetch_sub(&counts->bytes, before);
    count(p);
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
        atomic_fetch_sub(&counts->live, 1);
    discount(p);
    free(p);
}

/* Of glibc: blocks up to @block come from its heaps, which keep up to @heap freed at their ends. */
static void keep_up_to(int block, int heap)
{
#ifdef __GLIBC__
    (void)mallopt(M_MMAP_THRESHOLD, block);
    (void)mallopt(M_TRIM_THRESHOLD, heap);
#else
    (void)block, (void)heap;
#endif
}

void dt_alloc_hold(void)
{
    keep_up_to(32 << 20, 256 << 20);
    atomic_store(&held, true);
}

void dt_alloc_trim(void)
{
    if (atomic_exchange(&held, false))
        keep_up_to(4 << 20, 8 << 20);
#ifdef __GLIBC__
    (void)malloc_trim(0);
#endif
}

void dt_alloc_forget(void *p, size_t n)
{
    size_t from, to;
    drop_pages(p, n, &from, &to);
}

/* By half of what there is at a time, so that n elements put one by one are copied 2 n times at
 * most, however many there come to be; false if it overflows. */
static bool grown_cap(size_t cap, size_t n, size_t *want)
{
    for (*want = cap < 8 ? 8 : cap + cap / 2; *want <= n; *want += *want / 2)
        if (*want > SIZE_MAX - *want / 2)
            return false;
    return true;
}

/* A T * is no void *, so it is copied out and in: stored through a void ** it would be undefined.
 */
bool dt_grow(void *array, size_t *cap, size_t n, size_t each)
{
    void *p;
    size_t want;
    if (n < *cap)
        return true;
    memcpy(&p, array, sizeof p);
    if (!grown_cap(*cap, n, &want) || (p = dt_realloc(p, want, each)) == NULL)
        return false;
    memcpy(array, &p, sizeof p);
    *cap = want;
    return true;
}

dti_alloc_counts *dti_alloc_counted(void)
{
    return counts;
}

void dt_alloc_count_in(dti_alloc_counts *of)
{
    counts = of;
}

long dti_alloc_fail_at(long k)
{
    return atomic_exchange(&counts->countdown, k);
}

long dti_alloc_live(void)
{
    return atomic_load(&counts->live);
}

long dt_alloc_calls(void)
{
    return atomic_load(&counts->calls);
}

size_t dti_alloc_bytes(void)
{
    return atomic_load(&counts->bytes);
}

size_t dti_alloc_most(void)
{
    return atomic_exchange(&counts->most, atomic_load(&counts->bytes));
}
