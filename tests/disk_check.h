/* What the tests of the disk tier share: the ways it can move bytes, and bytes to move. */
#ifndef DT_TESTS_DISK_CHECK_H
#define DT_TESTS_DISK_CHECK_H

#include "engine/base/io.h"
#include "memory/tier.h"
#include "memory/tiers/disk.h"

/* Buffered: as on a file system without O_DIRECT. */
typedef struct disk_way {
    const char *name;
    dt_disk_way way;
    bool buffered;
} disk_way;
enum { DISK_WAYS = 5 };
extern const disk_way disk_ways[DISK_WAYS];

/* The calls of a way: dt_io_system, but for O_DIRECT. */
dt_io_ops disk_way_calls(const disk_way *w);
/* The kernel may refuse io_uring; then the test says so and skips. */
bool disk_way_works(const disk_way *w);

const dt_tier_desc *disk_tier(void);

void disk_fill(char *p, size_t n, unsigned seed);
bool disk_filled(const char *p, size_t n, unsigned seed);

#endif
