/* Algorithm 2 of Capuchin: choosing a value changes what making others costs. */
#include "memory/gap/recomputes.h"

#include <math.h>
#include <string.h>

#include "engine/base/alloc.h"
#include "memory/pass.h"

enum { WORD = 64 };

dt_status dti_recomputes_open(dti_recomputes *a, size_t n, dt_err *err)
{
    *a = (dti_recomputes){.n = n, .words = (n + WORD - 1) / WORD};
    a->item = dt_alloc(n + 1, sizeof *a->item);
    a->source = dt_alloc(n + 1, a->words * sizeof *a->source);
    a->user = dt_alloc(n + 1, a->words * sizeof *a->user);
    if (a->item == NULL || a->source == NULL || a->user == NULL)
        return dti_pass_no_memory(err);
    return DT_OK;
}

void dti_recomputes_close(dti_recomputes *a)
{
    dt_free(a->item);
    dt_free(a->source);
    dt_free(a->user);
    *a = (dti_recomputes){0};
}

static uint64_t bit(size_t item)
{
    return UINT64_C(1) << item % WORD;
}

void dti_recomputes_source(dti_recomputes *a, size_t item, size_t from)
{
    a->source[item * a->words + from / WORD] |= bit(from);
    a->user[from * a->words + item / WORD] |= bit(item);
}

bool dti_recomputes_from(const dti_recomputes *a, size_t item, size_t from)
{
    return (a->source[item * a->words + from / WORD] & bit(from)) != 0;
}

double dti_recomputes_score(const dti_recomputes *a, size_t item)
{
    const dti_recomputes_item *i = &a->item[item];
    return isfinite(i->seconds) ? (double)i->bytes / (i->seconds + i->extra) : 0;
}

/* The first of a row from *at on, which moves behind it; rows have few, and are walked by words. */
static bool next_of(const dti_recomputes *a, const uint64_t *row, size_t *at, size_t *item)
{
    for (size_t w = *at / WORD; w < a->words; w++) {
        uint64_t left = row[w];
        if (w == *at / WORD)
            left &= UINT64_MAX << *at % WORD;
        if (left == 0)
            continue;
        *item = w * WORD + (size_t)__builtin_ctzll(left);
        *at = *item + 1;
        return true;
    }
    return false;
}

/* src - t + t.src, of all that are made from t */
static void go_through(dti_recomputes *a, size_t t)
{
    uint64_t *users = &a->user[t * a->words];
    const uint64_t *sources = &a->source[t * a->words];
    size_t at = 0, x;
    while (next_of(a, users, &at, &x)) {
        uint64_t *row = &a->source[x * a->words];
        row[t / WORD] &= ~bit(t);
        for (size_t w = 0; w < a->words; w++)
            row[w] |= sources[w];
    }
    at = 0;
    while (next_of(a, sources, &at, &x))
        for (size_t w = 0; w < a->words; w++)
            a->user[x * a->words + w] |= users[w];
    memset(users, 0, a->words * sizeof *users);
}

/* What the chosen ones that are made from it would take longer. */
static double extra_of(const dti_recomputes *a, size_t c)
{
    double sum = 0;
    size_t at = 0, x;
    while (next_of(a, &a->user[c * a->words], &at, &x))
        if (a->item[x].chosen)
            sum += a->item[c].seconds;
    return sum;
}

void dti_recomputes_choose(dti_recomputes *a, size_t t)
{
    const uint64_t *users = &a->user[t * a->words];
    int times = 1; /* how often it will be made */
    size_t at = 0, x;
    while (next_of(a, users, &at, &x))
        if (a->item[x].chosen) {
            times++;
        } else {
            a->item[x].seconds += a->item[t].seconds;
            a->item[x].extra = extra_of(a, x);
        }
    a->item[t].chosen = true;
    go_through(a, t);
    at = 0;
    while (next_of(a, &a->source[t * a->words], &at, &x))
        if (!a->item[x].chosen)
            a->item[x].extra = times * a->item[x].seconds;
}
