/* For loader*.c only: what the thread that decodes and the one that trains share. */
#ifndef DT_DATA_LOADER_PARTS_H
#define DT_DATA_LOADER_PARTS_H

#include <pthread.h>
#include <stdatomic.h>

#include "data/loader.h"
#include "data/shuffle.h"
#include "data/skips.h"
#include "data/team.h"

/* One batch of the ring. */
typedef struct dti_loader_slot {
    float *x;
    int32_t *labels;
    int64_t n, skipped; /* samples; bad ones left out on the way to them */
    int64_t end;        /* place in the epoch's order after them; 0 after the last batch */
    uint64_t id;
} dti_loader_slot;

/* The next batch to decode. */
typedef struct dti_loader_cursor {
    int64_t epoch, batch; /* batch within the epoch */
    int64_t at;           /* position in the epoch's order; goes on past its end after skips */
    dt_shuffle order;
} dti_loader_cursor;

typedef struct dti_loader_piece {
    int64_t sample;
    dt_status st;
} dti_loader_piece;

struct dt_loader {
    dt_feed feed;
    const dt_source *source;
    dt_loader_opts o;
    int64_t count, per_epoch; /* samples of the source; batches of an epoch */
    size_t sample, label;     /* floats and labels of one */
    dti_loader_slot *ring;    /* [slots], pointing into x and labels */
    float *x;
    int32_t *labels;
    int slots;

    /* the decoding thread's own */
    dti_loader_cursor cur;
    dt_team *team;
    dti_loader_piece *pieces; /* [batch] */
    dti_loader_slot *making;
    int64_t have; /* good samples in it */

    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t filled, freed;
    atomic_bool in_vain; /* the batch being made will not be wanted */

    /* under the mutex */
    bool stop, sought, failed; /* failed: err holds, nothing is decoded until seek */
    dti_loader_cursor goal;    /* of the seek: epoch, batch and place */
    int first, ready;          /* next slot to hand out; how many are decoded */
    bool lent;                 /* the slot before first is the caller's */
    dt_err err;
    dt_skips skips;

    /* the feed's thread's own */
    dti_loader_cursor sought_at; /* last sought */
    int64_t taken;               /* batches handed out since */
};

/* The decoding thread. */
void *dti_loader_decode(void *loader);

/* Set l->feed, once the sizes are known. */
void dti_loader_set_feed(dt_loader *l);

#endif
