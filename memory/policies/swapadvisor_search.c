/* Crossing, mutation and repair of individuals, and the genetic algorithm. */
#include "memory/policies/swapadvisor_search.h"

#include <math.h>
#include <string.h>

#include "engine/base/alloc.h"
#include "engine/base/philox.h"

dt_status dti_genes_init(dti_genes *g, const dti_swap_problem *p, dt_err *err)
{
    *g = (dti_genes){.order = dt_alloc(p->n_op, sizeof *g->order),
        .class = dt_alloc(p->n_size, sizeof *g->class),
        .count = dt_alloc(p->n_size, sizeof *g->count)};
    return g->order != NULL && g->class != NULL && g->count != NULL ? DT_OK
                                                                    : dti_swap_no_memory(err);
}

void dti_genes_deinit(dti_genes *g)
{
    dt_free(g->order);
    dt_free(g->class);
    dt_free(g->count);
    *g = (dti_genes){0};
}

static void copy_genes(dti_genes *to, const dti_genes *from, const dti_swap_problem *p)
{
    memcpy(to->order, from->order, p->n_op * sizeof *to->order);
    memcpy(to->class, from->class, p->n_size * sizeof *to->class);
    memcpy(to->count, from->count, p->n_size * sizeof *to->count);
    to->seconds = from->seconds;
    to->bytes = from->bytes;
    to->over = from->over;
}

/* ---- pools ---- */

void dti_classes_repair(int32_t *class, size_t n)
{
    for (size_t i = 1; i < n; i++)
        class[i] = class[i] > class[i - 1] ? class[i] : class[i - 1];
    for (size_t i = n; i-- > 1;)
        class[i - 1] = class[i - 1] > class[i] - 1 ? class[i - 1] : class[i] - 1;
    for (size_t i = n; i-- > 0;)
        class[i] -= class[0];
}

static bool is_last_of_class(const dti_swap_problem *p, const int32_t *class, size_t i)
{
    return i + 1 == p->n_size || class[i + 1] != class[i];
}

static uint64_t pool_bytes(const dti_swap_problem *p, const int32_t *class, const int32_t *count)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < p->n_size; i++)
        if (is_last_of_class(p, class, i))
            sum += (uint64_t)count[class[i]] * p->size[i];
    return sum;
}

/* One round of taking objects away; whether any went. */
static bool shrink(const dti_swap_problem *p, const int32_t *class, int32_t *count, uint64_t over)
{
    const uint64_t share = over / (uint64_t)(class[p->n_size - 1] + 1);
    bool any = false;
    for (size_t i = 0; i < p->n_size && pool_bytes(p, class, count) > p->limit; i++) {
        if (!is_last_of_class(p, class, i) || count[class[i]] <= 1)
            continue;
        const uint64_t fewer = share / p->size[i] > 1 ? share / p->size[i] : 1;
        const uint64_t most = (uint64_t)count[class[i]] - 1;
        count[class[i]] -= (int32_t)(fewer < most ? fewer : most);
        any = true;
    }
    return any;
}

void dti_counts_from_sizes(
    const dti_swap_problem *p, const int32_t *class, const int32_t *by_size, int32_t *count)
{
    int64_t sum = 0;
    int32_t n = 0;
    for (size_t i = 0; i < p->n_size; i++) {
        sum += by_size[i];
        n++;
        if (!is_last_of_class(p, class, i))
            continue;
        count[class[i]] = sum / n > 1 ? (int32_t)(sum / n) : 1;
        sum = n = 0;
    }
    for (uint64_t bytes = pool_bytes(p, class, count); bytes > p->limit;
         bytes = pool_bytes(p, class, count))
        if (!shrink(p, class, count, bytes - p->limit))
            return; /* one object a class is more than the limit: what is planned tells */
}

/* ---- orders ---- */

void dti_orders_cross(
    const int32_t *head, const int32_t *tail, size_t cut, size_t n, bool *seen, int32_t *to)
{
    size_t k = 0;
    memset(seen, 0, n * sizeof *seen);
    for (; k < cut; k++) {
        to[k] = head[k];
        seen[head[k]] = true;
    }
    for (size_t i = 0; i < n; i++)
        if (!seen[tail[i]])
            to[k++] = tail[i];
}

/* ---- the search ---- */

enum { ROUND = 4 }; /* generations */

/* @p: the caller's, at a limit that rounds move. @all: the population and behind it its children,
 * of whom n are there. @waits: by op, ops before it that have not run. Others are room. */
typedef struct search {
    dti_swap_problem *p;
    const dti_swap_opts *o;
    dti_swap_plan plan;
    dti_genes *all, best;
    size_t n, n_all;
    uint64_t samples, counter;
    int32_t *waits, *ready, *place, *by_size;
    double *weight;
    bool *seen;
} search;

static uint32_t draw(search *s)
{
    const dt_u32x4 ctr = {{(uint32_t)s->counter, (uint32_t)(s->counter >> 32), 0, 0}};
    s->counter++;
    return dt_philox(ctr, (uint32_t)s->o->seed, (uint32_t)(s->o->seed >> 32)).v[0];
}

static size_t below(search *s, size_t n)
{
    return (size_t)(((uint64_t)draw(s) * n) >> 32);
}

static double unit(search *s) /* (0, 1) */
{
    return ((double)draw(s) + 0.5) * 0x1p-32;
}

/* About the middle 0 and the deviation 1: of twelve even ones. */
static double gaussian(search *s)
{
    double sum = -6;
    for (int i = 0; i < 12; i++)
        sum += unit(s);
    return sum;
}

static bool is_better(const dti_genes *a, const dti_genes *b)
{
    return a->over != b->over ? a->over < b->over : a->seconds < b->seconds;
}

/* Bytes beyond the limit make an individual slower, so that those come through that are nearly
 * within it. */
static double fitness(const dti_swap_problem *p, const dti_genes *g)
{
    return g->seconds * (1 + 4 * (double)g->over / (double)(p->limit > 0 ? p->limit : 1));
}

static dt_status judge(search *s, dti_genes *g, dt_err *err)
{
    if (s->o->tries != NULL)
        s->o->tries(s->o->listener);
    DT_CHECK(dti_swap_plan_make(&s->plan, s->p, g, err));
    if (s->samples == 0 || is_better(g, &s->best))
        copy_genes(&s->best, g, s->p);
    s->samples++;
    return DT_OK;
}

/* A list scheduler: the ready op that came first, or, now and then, any. */
static void mutate_order(search *s, int32_t *order)
{
    const dti_swap_problem *p = s->p;
    size_t n = 0;
    memset(s->waits, 0, p->n_op * sizeof *s->waits);
    for (size_t k = 0; k < p->n_op; k++)
        s->place[order[k]] = (int32_t)k;
    for (int32_t a = 0; a < p->after_at[p->n_op]; a++)
        s->waits[p->after[a]]++;
    for (size_t op = 0; op < p->n_op; op++)
        if (s->waits[op] == 0)
            s->ready[n++] = (int32_t)op;
    for (size_t k = 0; k < p->n_op; k++) {
        size_t take = 0;
        if (unit(s) < s->o->mutation)
            take = below(s, n);
        else
            for (size_t i = 1; i < n; i++)
                take = s->place[s->ready[i]] < s->place[s->ready[take]] ? i : take;
        const int32_t op = s->ready[take];
        s->ready[take] = s->ready[--n];
        order[k] = op;
        for (int32_t a = p->after_at[op]; a < p->after_at[op + 1]; a++)
            if (--s->waits[p->after[a]] == 0)
                s->ready[n++] = p->after[a];
    }
}

static void mutate_pool(search *s, dti_genes *g)
{
    const dti_swap_problem *p = s->p;
    int32_t *by_size = s->by_size;
    for (size_t i = 0; i < p->n_size; i++)
        by_size[i] = g->count[g->class[i]];
    for (size_t i = 1; i < p->n_size; i++) {
        if (unit(s) >= s->o->mutation)
            continue;
        const int32_t by = g->class[i] == g->class[i - 1] ? 1 : -1;
        for (size_t k = i; k < p->n_size; k++)
            g->class[k] += by;
    }
    for (size_t i = 0; i < p->n_size; i++)
        if (unit(s) < s->o->mutation) {
            const double moved = by_size[i] + gaussian(s) * (1 + by_size[i] / 4.0);
            by_size[i] = moved < 1                     ? 1
                         : moved > (double)p->n_tensor ? (int32_t)p->n_tensor
                                                       : (int32_t)moved;
        }
    dti_counts_from_sizes(p, g->class, by_size, g->count);
}

static void mutate(search *s, dti_genes *g)
{
    if (!s->p->fixed)
        mutate_order(s, g->order);
    if (!s->p->common)
        mutate_pool(s, g);
}

/* The pool of @head up to the cut, that of @tail behind it. */
static void cross_pools(
    search *s, const dti_genes *head, const dti_genes *tail, size_t cut, dti_genes *to)
{
    for (size_t i = 0; i < s->p->n_size; i++) {
        const dti_genes *from = i < cut ? head : tail;
        to->class[i] = from->class[i];
        s->by_size[i] = from->count[from->class[i]];
    }
    dti_classes_repair(to->class, s->p->n_size);
    dti_counts_from_sizes(s->p, to->class, s->by_size, to->count);
}

/* Two orders times two pools. */
static dt_status add_children(search *s, const dti_genes *a, const dti_genes *b, dt_err *err)
{
    const dti_swap_problem *p = s->p;
    const size_t cut = below(s, p->n_op), pool_cut = below(s, p->n_size);
    for (int k = 0; k < 4 && s->samples < s->o->samples; k++) {
        dti_genes *to = &s->all[s->n++];
        dti_orders_cross((k & 1) != 0 ? a->order : b->order, (k & 1) != 0 ? b->order : a->order,
            cut, p->n_op, s->seen, to->order);
        cross_pools(s, (k & 2) != 0 ? a : b, (k & 2) != 0 ? b : a, pool_cut, to);
        mutate(s, to);
        DT_CHECK(judge(s, to, err));
    }
    return DT_OK;
}

static void swap_genes(dti_genes *a, dti_genes *b)
{
    const dti_genes was = *a;
    *a = *b;
    *b = was;
}

/* One of those from @from on, by their weights. */
static size_t drawn(search *s, size_t from)
{
    double sum = 0;
    for (size_t i = from; i < s->n; i++)
        sum += s->weight[i];
    double left = unit(s) * sum;
    for (size_t i = from; i + 1 < s->n; i++) {
        left -= s->weight[i];
        if (left < 0)
            return i;
    }
    return s->n - 1;
}

/* As many as the population has come through: the best, and others by how near they are to it. */
static void survive(search *s)
{
    size_t best = 0;
    for (size_t i = 1; i < s->n; i++)
        best = fitness(s->p, &s->all[i]) < fitness(s->p, &s->all[best]) ? i : best;
    const double least = fitness(s->p, &s->all[best]);
    swap_genes(&s->all[0], &s->all[best]);
    for (size_t i = 0; i < s->n; i++)
        s->weight[i] = least > 0 ? exp((least - fitness(s->p, &s->all[i])) / least) : 1;
    const size_t keep = (size_t)s->o->population;
    for (size_t k = 1; k < keep && k < s->n; k++) {
        const size_t i = drawn(s, k);
        const double weight = s->weight[i];
        swap_genes(&s->all[k], &s->all[i]);
        s->weight[i] = s->weight[k];
        s->weight[k] = weight;
    }
    s->n = s->n < keep ? s->n : keep;
}

/* As many objects of each class as are wanted at once, as far as there is room. */
static dt_status fill_pool(search *s, dti_genes *g, dt_err *err)
{
    const dti_swap_problem *p = s->p;
    memset(g->count, 0, p->n_size * sizeof *g->count);
    for (size_t t = 0; t < p->n_tensor; t++)
        g->count[g->class[p->size_of[t]]]++;
    DT_CHECK(dti_swap_plan_make(&s->plan, p, g, err));
    for (size_t i = 0; i < p->n_size; i++)
        s->by_size[i] = s->plan.made[g->class[i]];
    dti_counts_from_sizes(p, g->class, s->by_size, g->count);
    return judge(s, g, err);
}

/* The program's own order and a class a size; and mutants of it. */
static dt_status begin(search *s, dt_err *err)
{
    const dti_swap_problem *p = s->p;
    for (size_t k = 0; k < p->n_op; k++)
        s->all[0].order[k] = (int32_t)k;
    for (size_t i = 0; i < p->n_size; i++)
        s->all[0].class[i] = (int32_t)i;
    DT_CHECK(fill_pool(s, &s->all[0], err));
    for (s->n = 1; s->n < (size_t)s->o->population && s->samples < s->o->samples; s->n++) {
        copy_genes(&s->all[s->n], &s->all[s->n / 2], p);
        mutate(s, &s->all[s->n]);
        DT_CHECK(judge(s, &s->all[s->n], err));
    }
    return DT_OK;
}

/* ---- rounds ---- */

/* What was the best, with a pool as large as there is room for now, joins those alive. All are
 * planned anew, which draws nothing. */
static dt_status move_limit(search *s, uint64_t limit, dt_err *err)
{
    s->p->limit = limit;
    DT_CHECK(dti_swap_plan_make(&s->plan, s->p, &s->best, err));
    for (size_t i = 0; i < s->n; i++) {
        DT_CHECK(dti_swap_plan_make(&s->plan, s->p, &s->all[i], err));
        if (is_better(&s->all[i], &s->best))
            copy_genes(&s->best, &s->all[i], s->p);
    }
    if (s->p->common || s->samples == s->o->samples)
        return DT_OK;
    dti_genes *more = &s->all[s->n++];
    copy_genes(more, &s->best, s->p);
    return fill_pool(s, more, err);
}

static dt_status end_round(search *s, dt_err *err)
{
    uint64_t limit = s->p->limit;
    if (s->o->round == NULL)
        return DT_OK;
    DT_CHECK(s->o->round(s->o->self, &s->best, &limit, err));
    return limit != s->p->limit ? move_limit(s, limit, err) : DT_OK;
}

static dt_status init(search *s, dt_err *err)
{
    const dti_swap_problem *p = s->p;
    s->n_all = 5 * (size_t)s->o->population + 4;
    s->all = dt_alloc(s->n_all, sizeof *s->all);
    s->waits = dt_alloc(p->n_op, sizeof *s->waits);
    s->ready = dt_alloc(p->n_op, sizeof *s->ready);
    s->place = dt_alloc(p->n_op, sizeof *s->place);
    s->by_size = dt_alloc(p->n_size, sizeof *s->by_size);
    s->weight = dt_alloc(s->n_all, sizeof *s->weight);
    s->seen = dt_alloc(p->n_op, sizeof *s->seen);
    if (s->all == NULL || s->waits == NULL || s->ready == NULL || s->place == NULL ||
        s->by_size == NULL || s->weight == NULL || s->seen == NULL)
        return dti_swap_no_memory(err);
    for (size_t i = 0; i < s->n_all; i++)
        DT_CHECK(dti_genes_init(&s->all[i], p, err));
    DT_CHECK(dti_genes_init(&s->best, p, err));
    return dti_swap_plan_init(&s->plan, p, err);
}

static void deinit(search *s)
{
    for (size_t i = 0; s->all != NULL && i < s->n_all; i++)
        dti_genes_deinit(&s->all[i]);
    dti_genes_deinit(&s->best);
    dti_swap_plan_deinit(&s->plan);
    dt_free(s->all);
    dt_free(s->waits);
    dt_free(s->ready);
    dt_free(s->place);
    dt_free(s->by_size);
    dt_free(s->weight);
    dt_free(s->seen);
}

/* A generation or a population that the samples cut short ends no round: with more of them it would
 * have been another. */
static dt_status evolve(search *s, dt_err *err)
{
    DT_CHECK(begin(s, err));
    if (s->n == (size_t)s->o->population)
        DT_CHECK(end_round(s, err));
    for (int generation = 1; s->samples < s->o->samples; generation++) {
        const size_t parents = s->n, whole = parents + parents / 2 * 4;
        for (size_t k = 0; k < parents / 2; k++)
            DT_CHECK(add_children(s, &s->all[below(s, parents)], &s->all[below(s, parents)], err));
        const bool ends = s->n == whole && generation % ROUND == 0;
        survive(s);
        if (ends)
            DT_CHECK(end_round(s, err));
    }
    return DT_OK;
}

dt_status dti_swap_search(
    const dti_swap_problem *p, const dti_swap_opts *o, dti_genes *best, dt_err *err)
{
    dti_swap_problem own = *p;
    search s = {.p = &own, .o = o};
    dt_status st = init(&s, err);
    if (st == DT_OK)
        st = evolve(&s, err);
    if (st == DT_OK)
        copy_genes(best, &s.best, p);
    deinit(&s);
    return st;
}
