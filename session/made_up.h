/* One made-up batch, on which steps are trained again and again to be timed: no data is read. */
#ifndef DT_SESSION_MADE_UP_H
#define DT_SESSION_MADE_UP_H

#include "session/session.h"

enum { DTI_MADE_UP_STEPS = 20000 }; /* what the feed has batches for */

typedef struct dti_made_up {
    dt_feed feed;
    float *x;
    int32_t *labels;
} dti_made_up;

/* Stays where it is; release it with dti_made_up_deinit even after a failure. DT_E_NOMEM. */
dt_status dti_made_up_init(dti_made_up *m, const dt_session *s, dt_err *err) DT_NODISCARD;
void dti_made_up_deinit(dti_made_up *m);

/* How steps on it are trained: nothing is to be learned from noise, and nothing to diverge. */
dt_train_opts dti_made_up_opts(const dt_session *s);

#endif
