/* Open addressing by FNV-1a. */
#include "engine/base/names.h"

#include <string.h>

#include "engine/base/alloc.h"
#include "engine/base/mix.h"

enum { LEAST = 16 };

static const char *name_of(dt_named of, size_t i)
{
    const char *name = (const char *)of.at + i * of.each + of.from;
    if (of.refers)
        memcpy(&name, (const void *)name, sizeof name);
    return name;
}

/* Where that name is, or the free slot where it would be. */
static uint32_t *slot_of(const dt_names *x, dt_named of, const char *name)
{
    const uint64_t h = dt_fnv_add(DT_FNV, name, strlen(name));
    for (size_t i = (size_t)(h ^ h >> 32);; i++) {
        uint32_t *slot = &x->slot[i & (x->slots - 1)];
        if (*slot == 0 || strcmp(name_of(of, *slot - 1), name) == 0)
            return slot;
    }
}

size_t dt_names_find(const dt_names *x, dt_named of, const char *name)
{
    return x->slots > 0 ? *slot_of(x, of, name) : 0;
}

void dt_names_add(dt_names *x, dt_named of, size_t i)
{
    uint32_t *slot = slot_of(x, of, name_of(of, i));
    if (*slot == 0)
        *slot = (uint32_t)i + 1;
}

bool dt_names_fill(dt_names *x, dt_named of, size_t n)
{
    dt_names made = {.slots = LEAST};
    while (made.slots < 2 * (n + 1))
        made.slots *= 2;
    made.slot = dt_alloc(made.slots, sizeof *made.slot);
    if (made.slot == NULL)
        return false;
    for (size_t i = 0; i < n; i++)
        dt_names_add(&made, of, i);
    dt_free(x->slot);
    *x = made;
    return true;
}

bool dt_names_grow(dt_names *x, dt_named of, size_t n)
{
    return 2 * (n + 1) <= x->slots || dt_names_fill(x, of, n);
}

void dt_names_deinit(dt_names *x)
{
    dt_free(x->slot);
    *x = (dt_names){0};
}
