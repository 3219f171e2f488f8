/* Tiers by number and by name. */
#include "engine/tier.h"

#include <string.h>

static const char *const names[] = {"input", "host", "disk"};
_Static_assert(DT_COUNT(names) == DT_TIERS, "a name a tier");

const char *dt_tier_name(int tier)
{
    return names[tier];
}

int dt_tier_find(const char *name)
{
    for (int i = 0; i < DT_TIERS; i++)
        if (strcmp(names[i], name) == 0)
            return i;
    return -1;
}

const char *dt_place_name(int place)
{
    return place == DT_AT_DEVICE ? "device" : dt_tier_name(place);
}

int dt_place_find(const char *name)
{
    for (int i = 0; i < DT_TIERS; i++)
        if (strcmp(dt_place_name(i), name) == 0)
            return i;
    return -1;
}
