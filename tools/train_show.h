/* What `dnntrain CONFIG` shows of a run, on stderr. */
#ifndef DT_TOOLS_TRAIN_SHOW_H
#define DT_TOOLS_TRAIN_SHOW_H

#include "session/run.h"
#include "tools/progress.h"

/* @note: lines told before the facts are shown, and the progress begins; NULL: none
 * @reported: report.html is written */
typedef struct dti_train_show {
    dti_progress *progress;
    char *note;
    bool reported;
} dti_train_show;

/* An observer that shows a run; stop is not set. */
dt_run_observer dti_train_show_observer(dti_train_show *s);

/* The last block of a run that went as @st says; nothing when none of it was shown. */
void dti_train_show_end(dti_train_show *s, const dt_run *r, dt_status st);
void dti_train_show_deinit(dti_train_show *s);

#endif
