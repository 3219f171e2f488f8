/* Decodes ahead: a thread of its own fills a ring of batches from a source, in an order fixed by
 * seed and epoch (a counter-based permutation, so any epoch can be sought in O(1)). What comes out
 * depends on nothing else: not on how far ahead it decodes, nor on how many threads share the
 * samples of a batch.
 *
 * With on_error = skip a bad sample (DT_E_DATA) is left out and the next one in order takes its
 * place; when an epoch has run out, its own first samples fill the end, which in evaluation (once)
 * do not count again: their labels are DT_LABEL_NONE. So every epoch has the same number of batches
 * of the same sizes, for which plans were made, and begins at the same sample, fresh or resumed. A
 * sample known as bad is not tried again. Errors of the machine (memory, I/O) are never skipped. */
#ifndef DT_DATA_LOADER_H
#define DT_DATA_LOADER_H

#include "data/source.h"
#include "engine/feed.h"

typedef struct dt_loader_opts {
    int64_t batch;
    bool shuffle;             /* a new permutation each epoch; not for a source of fixed order */
    bool drop_last;           /* leave out a last partial batch */
    bool once;                /* no sample of an epoch counts twice */
    int ahead;                /* batches decoded ahead, at least 1 */
    int threads;              /* that decode; 0 is 1 */
    bool rests;               /* decode nothing before the first seek */
    bool own_labels;          /* a sample's labels are its own values, for an autoencoder ... */
    bool by_channel;          /* ... which gives a vector: channel by channel ... */
    dt_label_kind label_kind; /* ... and whose loss takes such */
    uint64_t seed;
} dt_loader_opts;

typedef struct dt_loader dt_loader;

/* Borrows the source and starts to decode epoch 0. The feed is valid until destroy, and is for one
 * thread. feed->samples counts those of an epoch that are delivered: all, or with drop_last the
 * full batches. After the last batch of an epoch next goes on with the next epoch. An error of next
 * stays until seek. DT_E_CONFIG for options out of range, DT_E_DATA for a source without a sample
 * (or, with drop_last, without a full batch). A feed that rests, after its rest or from the start
 * (rests), begins with a seek. */
dt_status dt_loader_create(
    dt_loader **out, const dt_source *source, const dt_loader_opts *o, dt_err *err) DT_NODISCARD;
void dt_loader_destroy(dt_loader *l); /* NULL is fine */
dt_feed *dt_loader_feed(dt_loader *l);

/* Why the @i-th different bad sample was left out, in the order they were met, one line each; NULL
 * when there are no more. The text lives as long as the loader. Bad samples are met ahead of the
 * batches handed out. */
const char *dt_loader_skipped(dt_loader *l, size_t i);

/* Whether next fails, until seek; of NULL: no. */
bool dt_loader_failed(dt_loader *l);

#endif
