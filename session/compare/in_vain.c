/* Which lists of policies are of no use: those that save nothing, and those that are no better than
 * one of their policies alone. */
#include <stdio.h>
#include <string.h>

#include "session/compare.h"
#include "session/human.h"

/* ---- what saves nothing ---- */

static bool saves_nothing(const dt_compare *c, const dt_compare_row *r)
{
    const uint64_t kept = dt_compare_kept(c, r)->need.device;
    bool asked = false;
    for (size_t i = 0; i < c->n; i++) {
        const dt_compare_row *o = &c->row[i];
        if (o->list != r->list || o->variant != r->variant)
            continue;
        if (o->refused != NULL || o->need.device < kept)
            return false;
        asked = asked || o->budget == 0 || o->budget < kept;
    }
    return asked;
}

/* ---- what is no better than a part of it ---- */

/* The same bits or better, in no more bytes and seconds. */
static bool is_no_worse(const dt_compare_row *part, const dt_compare_row *r)
{
    return part->refused == NULL && part->exact >= r->exact && part->can >= r->can &&
           part->need.device <= r->need.device && part->time.seconds <= r->time.seconds;
}

static bool is_less(const dt_compare_row *part, const dt_compare_row *r)
{
    return part->exact > r->exact || part->can > r->can || part->need.device < r->need.device ||
           part->time.seconds < r->time.seconds;
}

/* How the plans of a pair, rows of one list for one variant, stand to a row. */
static dt_compare_standing stand(
    const dt_compare *c, const dt_variant_list *part, const dt_compare_row *r)
{
    dt_compare_standing best = DT_COMPARE_BEHIND;
    for (size_t i = 0; i < c->n && best != DT_COMPARE_AHEAD; i++) {
        const dt_compare_row *o = &c->row[i];
        if (o->list == part->list && o->variant == part->variant && is_no_worse(o, r))
            best = is_less(o, r) ? DT_COMPARE_AHEAD : DT_COMPARE_ALIKE;
    }
    return best;
}

/* The same of all plans of a list: ahead of one of them, and behind none. */
static dt_compare_standing stand_to_all(
    const dt_compare *c, const dt_variant_list *part, const dt_compare_row *of)
{
    dt_compare_standing all = DT_COMPARE_ALIKE;
    for (size_t i = 0; i < c->n; i++) {
        const dt_compare_row *r = &c->row[i];
        if (r->list != of->list || r->variant != of->variant)
            continue;
        const dt_compare_standing one = stand(c, part, r);
        if (r->refused != NULL || one == DT_COMPARE_BEHIND)
            return DT_COMPARE_BEHIND;
        all = one == DT_COMPARE_AHEAD ? one : all;
    }
    return all;
}

/* The first of its policies that is ahead of the list, else the first that is alike. */
static void find_alone(const dt_compare *c, dt_compare_row *r)
{
    for (size_t l = 1; l < c->lists.n && r->alone_stands != DT_COMPARE_AHEAD; l++) {
        const char *name = c->lists.list[l];
        if (l == r->list || !dt_policy_list_names(r->policy, name))
            continue;
        const dt_variant_list part = {l, dti_variants_for(&c->variants, r->variant, l)};
        const dt_compare_standing at = stand_to_all(c, &part, r);
        if (at <= r->alone_stands)
            continue;
        r->alone = name;
        r->alone_stands = at;
    }
}

void dti_compare_mark_in_vain(dt_compare *c)
{
    for (size_t i = 0; i < c->n; i++) {
        dt_compare_row *r = &c->row[i];
        if (r->list == 0 || r->refused != NULL)
            continue;
        r->in_vain = saves_nothing(c, r);
        if (!r->in_vain)
            find_alone(c, r);
    }
}

/* ---- the line that says so ---- */

static void tell_nothing(const dt_compare *c, const dt_compare_row *r, char *to, size_t bytes)
{
    char kept[DT_HUMAN_BYTES];
    if (r->too_small[0] != '\0')
        snprintf(to, bytes, "saves nothing here: %s", r->too_small);
    else
        snprintf(to, bytes, "saves nothing here: no plan of it takes less than keep_all's %s",
            dt_human_bytes(kept, dt_compare_kept(c, r)->need.device));
}

static void tell_alone(const dt_compare_row *r, char *to, size_t bytes)
{
    if (r->alone_stands == DT_COMPARE_ALIKE)
        snprintf(to, bytes, "is no better here than %s alone, which takes as much memory and time",
            r->alone);
    else
        snprintf(to, bytes,
            "is worse here than %s alone, which takes no more memory and time, and less of one",
            r->alone);
}

const char *dt_compare_in_vain(
    const dt_compare *c, const dt_compare_row *r, char to[DT_COMPARE_IN_VAIN])
{
    char variant[400], what[DT_COMPARE_IN_VAIN - DT_POLICY_LIST - sizeof variant];
    to[0] = '\0';
    if (!r->in_vain && r->alone_stands == DT_COMPARE_BEHIND)
        return to;
    dt_variant_text(&c->vary, dt_compare_variant(c, r), variant, sizeof variant);
    if (r->in_vain)
        tell_nothing(c, r, what, sizeof what);
    else
        tell_alone(r, what, sizeof what);
    snprintf(to, DT_COMPARE_IN_VAIN, "%s%s%s%s %s", r->policy, variant[0] != '\0' ? " (" : "",
        variant, variant[0] != '\0' ? ")" : "", what);
    return to;
}
