/* Stays on the device: which accesses of a tensor share one, and how much earlier than its first
 * op each begins and later than its last it ends, by bytes. */
#include "memory/lower/stays.h"

#include <stdlib.h>

#include "engine/base/alloc.h"

/* Whether the tensor's home is a tier. */
static bool lives_away(const dt_program *p, int32_t tensor)
{
    const int32_t home = p->tensor[tensor].home;
    return home != DT_NONE && p->map->home[home].tier != DT_AT_DEVICE;
}

static bool is_of_tier(const dt_program *p, int32_t tensor, dt_tier tier)
{
    return p->map->home[p->tensor[tensor].home].tier == tier;
}

/* Whether all ops between two places are of the layer of the op at the first: those that bring a
 * weight into another layout, the parts of a split op, the two halves of backward. */
static bool of_one_layer(const dt_program *p, int32_t from, int32_t to)
{
    const int32_t node = p->op[p->order[from]].node;
    for (int32_t pos = from + 1; pos <= to; pos++)
        if (node == DT_NONE || p->op[p->order[pos]].node != node)
            return to == from + 1;
    return true;
}

static void stays_of(dti_stays *to, const dt_program *p, int32_t tensor)
{
    int32_t n;
    const dt_access *a = dt_accesses(p, tensor, &n);
    dti_stay *s = NULL;
    for (int32_t i = 0; i < n; i++) {
        const int32_t pos = dt_pos(p, a[i].op);
        if (p->op[a[i].op].on_host && is_of_tier(p, tensor, DT_TIER_HOST))
            continue; /* the op goes to it */
        if (s == NULL || !of_one_layer(p, s->last, pos)) {
            s = &to->stay[to->n++];
            *s = (dti_stay){.tensor = tensor,
                .from = pos,
                .use = pos,
                .home = -1,
                .fetch = (a[i].mode & DT_READ) != 0};
        }
        s->last = pos;
        if (a[i].mode != DT_READ)
            s->home = pos;
    }
}

static int by_first_use(const void *va, const void *vb)
{
    const dti_stay *a = *(dti_stay *const *)va, *b = *(dti_stay *const *)vb;
    return a->use != b->use ? (a->use > b->use) - (a->use < b->use) : a->tensor - b->tensor;
}

static int by_last_use(const void *va, const void *vb)
{
    const dti_stay *a = *(dti_stay *const *)va, *b = *(dti_stay *const *)vb;
    return a->last != b->last ? (a->last > b->last) - (a->last < b->last) : a->tensor - b->tensor;
}

/* Of stays that are fetched, in the order of their first uses: each begins right behind the first
 * use of an earlier one, the earliest such that those under way together are at most @ahead. */
static void read_ahead(const dt_program *p, dti_stay *const *s, size_t n, uint64_t ahead)
{
    uint64_t bytes = 0;
    for (size_t i = 0, first = 0; i < n; i++) {
        bytes += p->tensor[s[i]->tensor].bytes;
        for (; bytes > ahead && first <= i; first++)
            bytes -= p->tensor[s[first]->tensor].bytes;
        const int32_t behind = first == 0 ? 0 : s[first - 1]->use + 1;
        s[i]->from = behind < s[i]->use ? behind : s[i]->use;
    }
}

/* Of stays that send home, in the order of their last uses: each ends with a later one, the latest
 * such that those under way together are at most @ahead. */
static void write_behind(const dt_program *p, dti_stay *const *s, size_t n, uint64_t ahead)
{
    uint64_t bytes = 0;
    for (size_t i = 0, end = 0; i < n; i++) {
        for (; end < n && bytes + p->tensor[s[end]->tensor].bytes <= ahead; end++)
            bytes += p->tensor[s[end]->tensor].bytes;
        if (end <= i) {
            end = i + 1; /* larger than all that may be under way */
            continue;
        }
        s[i]->last = s[end - 1]->last;
        bytes -= p->tensor[s[i]->tensor].bytes;
    }
}

/* Two stays of a tensor do not meet. @last: by stay, where the last use was. */
static void part(dti_stays *s, const int32_t *last)
{
    for (size_t i = 0; i + 1 < s->n; i++) {
        dti_stay *a = &s->stay[i], *b = &s->stay[i + 1];
        if (a->tensor != b->tensor)
            continue;
        b->from = b->from > last[i] ? b->from : last[i] + 1;
        a->last = a->last < b->from ? a->last : b->from - 1;
    }
}

/* A tier's stays, by bytes that may be under way each way. */
static void widen(dti_stays *s, const dt_program *p, int tier, uint64_t ahead, dti_stay **list)
{
    size_t n = 0;
    for (size_t i = 0; i < s->n; i++)
        if (s->stay[i].fetch && is_of_tier(p, s->stay[i].tensor, (dt_tier)tier))
            list[n++] = &s->stay[i];
    qsort(list, n, sizeof *list, by_first_use);
    read_ahead(p, list, n, ahead);
    n = 0;
    for (size_t i = 0; i < s->n; i++)
        if (s->stay[i].home >= 0 && is_of_tier(p, s->stay[i].tensor, (dt_tier)tier))
            list[n++] = &s->stay[i];
    qsort(list, n, sizeof *list, by_last_use);
    write_behind(p, list, n, ahead);
}

static void widen_all(
    dti_stays *s, const dt_program *p, const uint64_t *ahead, dti_stay **list, int32_t *last)
{
    for (size_t i = 0; i < s->n; i++)
        last[i] = s->stay[i].last;
    for (int tier = DT_TIER_HOST; tier < DT_TIERS; tier++)
        if (ahead[tier] > 0)
            widen(s, p, tier, ahead[tier], list);
    part(s, last);
}

dt_status dti_stays_find(dti_stays *to, const dt_program *p, const uint64_t *ahead, dt_err *err)
{
    size_t most = 0;
    *to = (dti_stays){0};
    for (size_t t = 0; t < p->n_tensor; t++) {
        int32_t n;
        (void)dt_accesses(p, (int32_t)t, &n);
        most += lives_away(p, (int32_t)t) ? (size_t)n : 0;
    }
    if (most == 0)
        return DT_OK;
    to->stay = dt_alloc(most, sizeof *to->stay);
    dti_stay **list = dt_alloc(most, sizeof(dti_stay *));
    int32_t *last = dt_alloc(most, sizeof *last);
    const bool ok = to->stay != NULL && list != NULL && last != NULL;
    for (size_t t = 0; ok && t < p->n_tensor; t++)
        if (lives_away(p, (int32_t)t))
            stays_of(to, p, (int32_t)t);
    if (ok)
        widen_all(to, p, ahead, list, last);
    dt_free(list);
    dt_free(last);
    return ok ? DT_OK : DT_FAIL(err, DT_E_NOMEM, "no memory for lowering");
}

void dti_stays_deinit(dti_stays *s)
{
    dt_free(s->stay);
    *s = (dti_stays){0};
}
