/* The steps of std::sort in the GNU C++ library (bits/stl_algo.h), as far as they decide where
 * equals end: ranges of more than 16 are parted about the median of their second, middle and last
 * element, then all is sorted by insertion, which keeps the order of equals. Where parting goes
 * deeper than twice the logarithm theirs sorts a heap; ours sorts that range by insertion at the
 * end, which networks of layers do not come to. */
#include "memory/accounts/gnu_sort.h"

#include <stdbool.h>

enum { SHORT_RANGE = 16 };

static bool before(const dt_interval *a, const dt_interval *b)
{
    return a->bytes > b->bytes;
}

static void swap(dt_interval *a, dt_interval *b)
{
    const dt_interval t = *a;
    *a = *b;
    *b = t;
}

static dt_interval *median(dt_interval *a, dt_interval *b, dt_interval *c)
{
    if (before(a, b))
        return before(b, c) ? b : before(a, c) ? c : a;
    return before(a, c) ? a : before(b, c) ? c : b;
}

/* The first of the part whose elements are not before the pivot, which goes to the front. */
static dt_interval *part(dt_interval *begin, dt_interval *end)
{
    swap(begin, median(begin + 1, begin + (end - begin) / 2, end - 1));
    dt_interval *left = begin + 1, *right = end;
    for (;;) {
        while (before(left, begin))
            left++;
        do
            right--;
        while (before(begin, right));
        if (left >= right)
            return left;
        swap(left++, right);
    }
}

static void part_all(dt_interval *begin, dt_interval *end, int depth)
{
    while (end - begin > SHORT_RANGE && depth-- > 0) {
        dt_interval *cut = part(begin, end);
        part_all(cut, end, depth);
        end = cut;
    }
}

static void insert_all(dt_interval *v, size_t n)
{
    for (size_t i = 1; i < n; i++) {
        const dt_interval x = v[i];
        size_t at = i;
        for (; at > 0 && before(&x, &v[at - 1]); at--)
            v[at] = v[at - 1];
        v[at] = x;
    }
}

void dti_gnu_sort_largest_first(dt_interval *v, size_t n)
{
    int depth = 0;
    for (size_t k = n; k > 1; k /= 2)
        depth += 2;
    part_all(v, v + n, depth);
    insert_all(v, n);
}
