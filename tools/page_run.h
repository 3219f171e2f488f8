/* report.html, the page that a run leaves: what it learned, what its plan takes, and where. */
#ifndef DT_TOOLS_PAGE_RUN_H
#define DT_TOOLS_PAGE_RUN_H

#include "session/run.h"
#include "tools/page.h"

/* The pictures that were looked at, with what they are and what the network takes them for. */
void dti_page_samples(const dti_page *p, const dt_run *r, const dt_sample *v, size_t n);

/* Write it into the run directory of a run that has ended as @st says, unless train.report is off;
 * *written: whether it is there. @why: of a run that failed. @trace: the file that DT_TRACE names,
 * or NULL. DT_E_IO, DT_E_NOMEM. */
dt_status dti_page_run(dt_run *r, dt_status st, const char *why, const char *trace, bool *written,
    dt_err *err) DT_NODISCARD;

#endif
