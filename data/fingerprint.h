/* What tells a data set from another of as many samples, so that a run does not go on with other
 * data by mistake. */
#ifndef DT_DATA_FINGERPRINT_H
#define DT_DATA_FINGERPRINT_H

#include "data/source.h"

enum { DT_FINGERPRINT = 128 };

/* Of samples spread over all of it the mean and, where labels are classes, their sum: "MEAN:SUM"
 * each, "bad" for one that cannot be read; of made-up data "". DT_E_NOMEM. */
dt_status dt_source_fingerprint(
    char to[DT_FINGERPRINT], const dt_source *s, dt_err *err) DT_NODISCARD;

/* Whether two are of the same samples: pictures are scaled in fp32, on another processor with other
 * rounding. */
bool dt_fingerprints_agree(const char *a, const char *b);

#endif
