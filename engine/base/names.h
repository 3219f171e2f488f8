/* A table that finds an element of an array by its name, where there are too many to look at each.
 */
#ifndef DT_ENGINE_BASE_NAMES_H
#define DT_ENGINE_BASE_NAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <dnntrain/error.h>

/* By hash of a name, the index + 1; 0: free. @slots is a power of two, of which half are free, or 0
 * while there is none: zeroed memory is an empty table. */
typedef struct dt_names {
    size_t slots;
    uint32_t *slot;
} dt_names;

/**
 * struct dt_named - where the names of an array are; it may move, and grows at its end.
 * @at:     the array
 * @each:   bytes of an element
 * @from:   where its name begins in it
 * @refers: a pointer to the name is there, and not the name itself
 */
typedef struct dt_named {
    const void *at;
    size_t each, from;
    bool refers;
} dt_named;

/* Index + 1 of the first element of that name; 0: there is none. */
size_t dt_names_find(const dt_names *x, dt_named of, const char *name);

/* Room for one more than the @n there are; false when memory is out. */
bool dt_names_grow(dt_names *x, dt_named of, size_t n) DT_NODISCARD;
/* Element @i, for which there is room, from now on; unless one before it has its name. */
void dt_names_add(dt_names *x, dt_named of, size_t i);
/* All @n at once, into an empty table; false when memory is out. */
bool dt_names_fill(dt_names *x, dt_named of, size_t n) DT_NODISCARD;

void dt_names_deinit(dt_names *x);

#endif
