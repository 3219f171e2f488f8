/* Where the training loop gets its batches: a table, so that the loop knows no data source. */
#ifndef DT_ENGINE_FEED_H
#define DT_ENGINE_FEED_H

#include "engine/base/error.h"

/* One batch of decoded samples. Borrowed from the feed until the next call of next. */
typedef struct dt_batch {
    const float *x;        /* [n, h, w, c] */
    const int32_t *labels; /* [n, those of a sample], as engine/label.h says */
    int64_t n;
    uint64_t id; /* no other batch of this process has it, but parts of this one do; 0: none */
} dt_batch;

typedef struct dt_feed {
    void *self;
    /* The step's batch, whole; the last of an epoch may be smaller. Blocks until it is decoded. */
    dt_status (*next)(void *self, dt_batch *out, dt_err *err);
    /* The batch that next is going to hand out, if it is decoded already, else x is NULL; the one
     * handed out last stays. Never blocks, and changes nothing. May be NULL. */
    dt_batch (*peek)(void *self);
    /* Go to the first batch of an epoch; evaluation rewinds to 0 before each pass. */
    dt_status (*seek)(void *self, int64_t epoch, dt_err *err);
    /* Go on where a run stopped: to a batch of an epoch, counted from 0, which begins at place @at
     * of the epoch's order, as the feed's own at said then. May be NULL where all runs begin. */
    dt_status (*seek_to)(void *self, int64_t epoch, int64_t batch, int64_t at, dt_err *err);
    /* No batch is wanted until seek or seek_to: all are dropped, the one handed out last included,
     * with the memory that they take. May be NULL. */
    void (*rest)(void *self);
    int64_t samples;     /* of an epoch */
    int64_t batch;       /* of a full step */
    int64_t skipped;     /* bad samples left out so far, on_error = skip */
    int64_t at;          /* place in its epoch's order where the next batch begins */
    double wait_seconds; /* time next has blocked so far */
} dt_feed;

#endif
