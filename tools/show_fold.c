/* A long network is mostly the same block again and again: find those. */
#include <string.h>

#include "tools/show.h"

enum { LONGEST = 64 }; /* layers of a block */

/* Names of equal layers of two blocks differ in their numbers. */
static bool same_name(const char *a, const char *b)
{
    for (;; a++, b++) {
        a += strspn(a, "0123456789");
        b += strspn(b, "0123456789");
        if (*a != *b || *a == '\0')
            return *a == *b;
    }
}

static bool same(const dt_show_row *a, const dt_show_row *b)
{
    return strcmp(a->kind, b->kind) == 0 && same_name(a->name, b->name) && a->y.h == b->y.h &&
           a->y.w == b->y.w && a->y.c == b->y.c && a->parameters == b->parameters &&
           !(a->forward < b->forward) && !(a->forward > b->forward) &&
           a->activation == b->activation && a->stash == b->stash;
}

/* How often the @period rows from @first stand there in a row. */
static size_t times(const dt_show_row *row, size_t n, size_t first, size_t period)
{
    size_t i = first + period;
    while (i < n && same(&row[i], &row[i - period]))
        i++;
    return (i - first) / period;
}

static size_t saved(const dt_show_part *p)
{
    return (p->times - 1) * p->period;
}

/* The block that begins here and leaves out most rows; the shortest of several. */
static dt_show_part block_at(const dt_show_row *row, size_t n, size_t first)
{
    dt_show_part best = {first, 1, 1};
    for (size_t period = 2; period <= LONGEST && first + 2 * period <= n; period++) {
        const dt_show_part p = {first, period, times(row, n, first, period)};
        if (saved(&p) > saved(&best))
            best = p;
    }
    return best;
}

/* Characters that the names of a block's first and last layer begin with: those of one module have
 * more of them than the end of one and the beginning of the next. */
static size_t kinship(const dt_show_row *row, const dt_show_part *p)
{
    const char *a = row[p->first].name, *b = row[p->first + p->period - 1].name;
    size_t n = 0;
    while (a[n] != '\0' && a[n] == b[n])
        n++;
    return n;
}

/* A row at a time where a block that begins soon leaves out more, or as much in whole modules. */
static dt_show_part part_at(const dt_show_row *row, size_t n, size_t first)
{
    const dt_show_part here = block_at(row, n, first);
    for (size_t i = first + 1; i < first + here.period && i < n; i++) {
        const dt_show_part later = block_at(row, n, i);
        if (saved(&later) > saved(&here) ||
            (saved(&later) == saved(&here) && kinship(row, &later) > kinship(row, &here)))
            return (dt_show_part){first, 1, 1};
    }
    return here;
}

size_t dt_show_fold(const dt_show_row *row, size_t n, dt_show_part *part)
{
    size_t n_part = 0;
    for (size_t i = 0; i < n; i += part[n_part].period * part[n_part].times, n_part++)
        part[n_part] = part_at(row, n, i);
    return n_part;
}
