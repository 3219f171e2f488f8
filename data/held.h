/* Of one source two: a share of its samples that is held out to evaluate on, and the rest to learn
 * from. Which are held out depends on nothing but how many there are. */
#ifndef DT_DATA_HELD_H
#define DT_DATA_HELD_H

#include "data/source.h"

/* Have *@s be its own held-out part (@held) or the rest, each in the order of the whole; a source
 * of fixed order loses its last batches (opts.batch). @share: in (0, 1), of which each part gets a
 * sample at least. The part owns the whole and has its name and options; a source that is opened by
 * its desc is such a part, too, while this one is open. *@s is closed, and NULL, after an error:
 * DT_E_CONFIG where there are too few, DT_E_NOMEM. */
dt_status dt_source_hold(dt_source **s, double share, bool held, dt_err *err) DT_NODISCARD;

#endif
