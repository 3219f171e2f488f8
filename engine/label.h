/* What a label says beside its class. */
#ifndef DT_ENGINE_LABEL_H
#define DT_ENGINE_LABEL_H

/* Of what does not count: it has neither loss nor gradient, and is no hit and no miss. */
enum { DT_LABEL_NONE = -1 };

#endif
