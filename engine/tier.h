/* Where moved bytes wait: a tier. The host tier is memory; the disk tier a file. A tier is one
 * reservation made before step 0, cut into slots by the plan. */
#ifndef DT_ENGINE_TIER_H
#define DT_ENGINE_TIER_H

#include "engine/base/error.h"

/* The input tier is the decoded batch: its slots hold what fetches bring, and nothing is reserved
 * for it. Nothing lives there, so that where a home is named its number says: on the device. */
typedef enum dt_tier {
    DT_TIER_INPUT,
    DT_AT_DEVICE = DT_TIER_INPUT,
    DT_TIER_HOST,
    DT_TIER_DISK,
    DT_TIERS
} dt_tier;

const char *dt_tier_name(int tier);
int dt_tier_find(const char *name); /* -1 if unknown */

/* Where a tensor lives: on the device or in a tier, but not the input's. */
const char *dt_place_name(int place);
int dt_place_find(const char *name); /* -1 if unknown */

/* Parts of a slot that are read and written by themselves begin at multiples of this. */
enum { DT_PART_UNIT = 1 << 20 };

/* Slots of a tier begin at multiples of this, as unbuffered files want it. */
static inline uint64_t dt_tier_align(dt_tier tier)
{
    return tier == DT_TIER_DISK ? 4096 : 64;
}

/**
 * struct dt_tier_opts - a reservation.
 * @bytes:    of all slots
 * @path:     disk: the folder of the file
 * @checksum: keep a checksum of every slot written, and compare when it is read
 */
typedef struct dt_tier_opts {
    uint64_t bytes;
    const char *path;
    bool checksum;
} dt_tier_opts;

/**
 * struct dt_tier_desc - a tier.
 * @name @summary: as in the INI file and in `dnntrain list tiers`
 * @place:   DT_TIER_HOST or DT_TIER_DISK: the tier of a plan whose slots it can keep, and so the
 * budget that they count against. That of the place's own name keeps them unless memory.tier names
 * another
 * @reserve: make room. DT_E_NOMEM, DT_E_CONFIG without a path, or DT_E_IO with the path, what is
 * needed, what is free and the remedy. *note becomes a line for the user when something is not as
 * good as it could be (buffered because the file system has no O_DIRECT), else NULL; it lives as
 * long as the state
 * @release: give all back; NULL is fine
 * @staging: bytes of memory that the state takes on top: buffers, checksums
 * @map:     the bytes, where the processor reaches them, so that the caller copies by itself;
 *           NULL otherwise, and then write and read are there
 * @write @read: a whole slot, or a part of it that begins at a multiple of DT_PART_UNIT within it
 *           and ends at one or with the slot; they return when it is done. One thread writes and
 * one reads, of different slots, at the same time. Whatever the system transfers short is finished.
 *           DT_E_IO with path, offset and the system's text, or DT_E_IO when a checksum differs
 */
typedef struct dt_tier_desc {
    const char *name, *summary;
    dt_tier place;
    dt_status (*reserve)(const dt_tier_opts *o, void **state, const char **note, dt_err *err);
    void (*release)(void *state);
    size_t (*staging)(void *state);
    void *(*map)(void *state);
    dt_status (*write)(void *state, uint64_t slot, const void *from, uint64_t bytes, dt_err *err);
    dt_status (*read)(void *state, uint64_t slot, void *to, uint64_t bytes, dt_err *err);
} dt_tier_desc;

#endif
