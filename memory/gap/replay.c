/* An op whose operands do not fit evicts until they do; those of its own stay. */
#include "memory/gap/replay.h"

typedef bool goes_before(const dti_gap *a, const dti_gap *b);

static bool is_older(const dti_gap *a, const dti_gap *b)
{
    return a->from_pos < b->from_pos;
}

static bool is_farther(const dti_gap *a, const dti_gap *b)
{
    return a->to_pos > b->to_pos;
}

/* Of what lies idle at a place, the one that goes before the others. */
static dti_idle *victim(const dti_planner *x, int32_t pos, goes_before *first)
{
    dti_idle *found = NULL;
    for (size_t n = 0; n < x->n_gap; n++) {
        dti_idle *i = &x->gaps.idle[n];
        if (i->fate == DTI_KEEP && i->refused != pos && i->gap.from_pos < pos &&
            pos < i->gap.to_pos && (found == NULL || first(&i->gap, &found->gap)))
            found = i;
    }
    return found;
}

static dt_status replay(dti_planner *x, goes_before *first, const char *why, dt_err *err)
{
    for (int32_t k = 0; k < (int32_t)x->gaps.n_place; k++) {
        dti_idle *i;
        while (x->gaps.left[k] > x->gaps.limit && (i = victim(x, k, first)) != NULL) {
            i->at = k;
            DT_CHECK(dti_planner_offload(x, i, err, "%s of what fills the cache", why));
            if (i->fate == DTI_KEEP) /* no room on the host */
                i->refused = k;
        }
    }
    return DT_OK;
}

dt_status dti_replay_oldest(dti_planner *x, const void *opts, dt_err *err)
{
    (void)opts;
    return replay(x, is_older, "least recently used", err);
}

dt_status dti_replay_farthest(dti_planner *x, const void *opts, dt_err *err)
{
    (void)opts;
    return replay(x, is_farther, "used again last", err);
}
