/* The tiers that can be reserved. One file each in memory/tiers/; memory/tiers/tiers.def holds a
 * line a tier. */
#ifndef DT_MEMORY_TIER_H
#define DT_MEMORY_TIER_H

#include "engine/tier.h"

const dt_tier_desc *const *dt_tier_all(size_t *n);
const dt_tier_desc *dt_tier_desc_find(const char *name); /* NULL if unknown */
/* What memory.tier may be: auto, and each of them; NULL-terminated, for dt_unknown. */
const char *const *dt_tier_choices(void);
/* What keeps the slots of a place unless the configuration names another. */
const dt_tier_desc *dt_tier_standard(dt_tier place);

#endif
