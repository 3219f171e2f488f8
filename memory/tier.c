/* The registry of tiers. */
#include "memory/tier.h"

#include <string.h>

#define DT_TIER(n) extern const dt_tier_desc dt_tier_##n;
#include "memory/tiers/tiers.def"
#undef DT_TIER

#define DT_TIER(n) #n,
static const char *const choices[] = {"auto",
#include "memory/tiers/tiers.def"
    NULL};
#undef DT_TIER

static const dt_tier_desc *const all_tiers[] = {
#define DT_TIER(n) &dt_tier_##n,
#include "memory/tiers/tiers.def"
#undef DT_TIER
};

const dt_tier_desc *const *dt_tier_all(size_t *n)
{
    *n = DT_COUNT(all_tiers);
    return all_tiers;
}

const dt_tier_desc *dt_tier_desc_find(const char *name)
{
    for (size_t i = 0; i < DT_COUNT(all_tiers); i++)
        if (strcmp(all_tiers[i]->name, name) == 0)
            return all_tiers[i];
    return NULL;
}

const char *const *dt_tier_choices(void)
{
    return choices;
}

const dt_tier_desc *dt_tier_standard(dt_tier place)
{
    return dt_tier_desc_find(dt_tier_name((int)place));
}
