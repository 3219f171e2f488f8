/* Decodes ahead: a thread of its own fills a ring of batches from a source, in an order fixed by seed and
 * epoch (a counter-based permutation, so any epoch can be sought in O(1)). */
#ifndef DT_DATA_LOADER_H
#define DT_DATA_LOADER_H

#include "data/source.h"
#include "engine/feed.h"

typedef struct dt_loader_opts {
    int64_t batch;
    bool shuffle;   /* a new permutation each epoch */
    bool drop_last; /* leave out a last partial batch */
    int ahead;      /* batches decoded ahead, at least 1 */
    uint64_t seed;
} dt_loader_opts;

typedef struct dt_loader dt_loader;

/* Borrows the source. The feed is valid until destroy. */
dt_status dt_loader_create(
    dt_loader **out, const dt_source *source, const dt_loader_opts *o, dt_err *err) DT_NODISCARD;
void dt_loader_destroy(dt_loader *l);
dt_feed *dt_loader_feed(dt_loader *l);

#endif
