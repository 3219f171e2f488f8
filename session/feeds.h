/* The data a run reads: sources opened as the configuration says, each with a loader that decodes
 * ahead. */
#ifndef DT_SESSION_FEEDS_H
#define DT_SESSION_FEEDS_H

#include "data/loader.h"
#include "session/session.h"

enum { DT_FEED_WARNINGS = 16 };

typedef struct dt_feeds {
    dt_source *train, *eval; /* eval NULL: nothing to evaluate on */
    dt_loader *train_loader, *eval_loader;
    int64_t steps_per_epoch, steps; /* of the whole run */
    bool whole_epochs;              /* the run ends with its last epoch, not by train.steps */
    int64_t last, eval_last;        /* samples of the last partial batches; 0: there is none */
    char note[512],
        eval_note[512]; /* what was found, one line each; the second "" without evaluation */
    char warning[DT_FEED_WARNINGS][256]; /* what of the data does not go with the network, and
                                            which keys count for nothing */
    size_t n_warning;
} dt_feeds;

/* What the network takes, alone. */
dt_source_opts dti_feeds_of_network(const dt_session *s);
/* Whether the data to train on is there, in batches of its own: any other batch would be refused.
 */
bool dti_feeds_of_batches(const dt_session *s);
/* Threads of each loader: one, but all that the session has beside a card, where the processor has
 * nothing else to do and one cannot keep up. */
int dti_decoders(const dt_session *s);
/* Open what [data] names. Evaluation takes data.eval_path, or the split the source keeps apart.
 * Release with dt_feeds_close even after a failure. */
dt_status dt_feeds_open(dt_feeds *f, const dt_session *s, dt_err *err) DT_NODISCARD;
/* The data to evaluate on, alone: the train members stay NULL. DT_E_CONFIG when there is none. */
dt_status dti_feeds_open_eval(dt_feeds *f, const dt_session *s, dt_err *err) DT_NODISCARD;
/* For pictures that are named one by one: how they are read, and, with @classes and where the
 * training data is there to be asked, what classes are called (@f->train; else NULL). @f is zero,
 * or of the same session;
 * @o borrows from that. DT_E_CONFIG where data.source is another than images, and data.mean and
 * data.std do not say how a picture becomes what the network takes. */
dt_status dti_feeds_open_pictures(
    dt_feeds *f, dt_source_opts *o, const dt_session *s, bool classes, dt_err *err) DT_NODISCARD;
void dt_feeds_close(dt_feeds *f);

#endif
