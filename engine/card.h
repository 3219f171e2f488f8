/* Cards by name: what has to be known of one so that plans can be made for it where it is not. From
 * NVIDIA's data sheets and the CUDA programming guide's table of compute capabilities; the memory
 * is what CUDA calls total, rounded down. */
#ifndef DT_ENGINE_CARD_H
#define DT_ENGINE_CARD_H

#include "engine/base/compiler.h"

/**
 * struct dt_card - a kind of card.
 * @name @title:  as in the configuration; as NVIDIA calls it
 * @major @minor: its compute capability
 * @processors:   streaming multiprocessors
 * @mib @l2_mib:  memory and second-level cache
 * @mhz @memory_mhz: highest clocks
 */
typedef struct dt_card {
    const char *name, *title;
    int major, minor, processors;
    int64_t mib, l2_mib;
    int mhz, memory_mhz;
} dt_card;

/* What all cards of a compute capability share, each for one multiprocessor.
 * @shared: most bytes of shared memory a block may ask for */
typedef struct dt_card_limits {
    int major, minor, threads, blocks, shared;
} dt_card_limits;

const dt_card *dt_card_find(const char *name); /* NULL when there is none */
/* In the order in which they are listed; NULL-terminated. */
const char *const *dt_card_names(void);

const dt_card_limits *dt_card_limits_of(const dt_card *c);

static inline uint64_t dt_card_bytes(const dt_card *c)
{
    return (uint64_t)c->mib << 20;
}

#endif
