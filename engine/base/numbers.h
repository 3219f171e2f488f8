/* Small arithmetic that many files need. */
#ifndef DT_ENGINE_BASE_NUMBERS_H
#define DT_ENGINE_BASE_NUMBERS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

static inline uint64_t dt_max_u64(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static inline int64_t dt_min_i64(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* One comparison, where fmin and fmax are calls of the C library; if one is no number, @b. */
static inline double dt_min_f64(double a, double b)
{
    return a < b ? a : b;
}

static inline double dt_max_f64(double a, double b)
{
    return a > b ? a : b;
}

/* The greatest common divisor (Euclid); of 0 and a number, the number. */
static inline uint64_t dt_gcd(uint64_t a, uint64_t b)
{
    while (b != 0) {
        const uint64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/* @x rounded up to a multiple of @align, a power of two. What overflows begins again at 0. */
static inline uint64_t dt_align_up(uint64_t x, uint64_t align)
{
    return (x + (align - 1)) & ~(align - 1);
}

/* The same, but false when it overflows. */
static inline bool dt_round_up(uint64_t x, uint64_t align, uint64_t *out)
{
    *out = dt_align_up(x, align);
    return x <= UINT64_MAX - (align - 1);
}

/* For qsort and bsearch of doubles, ascending. */
static inline int dt_order_f64(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The middle one of @n numbers, 1 or more, or the mean of the two there; sorts them. */
static inline double dt_median(double *v, size_t n)
{
    qsort(v, n, sizeof *v, dt_order_f64);
    return (v[(n - 1) / 2] + v[n / 2]) / 2;
}

#endif
