/* Help on one thing by its name: a section of the configuration, a key, a policy, a kind of layer.
 */
#ifndef DT_TOOLS_HELP_TOPIC_H
#define DT_TOOLS_HELP_TOPIC_H

#include "engine/base/compiler.h"

/* Print it on stdout; false when nothing is called so. "train", "train.batch", "batch",
 * "policy.gist.dpr", "chen_sqrt", "conv". */
bool dti_help_topic(const char *word);

/* Print on stdout the keys that may have this value: "adam", "bf16". False: none has, or a layer
 * is meant. */
bool dti_help_value(const char *word);

/* Whether a section, or a key in one, has exactly this name. */
bool dti_help_named(const char *word);

/* The nearest that there is help on, written to @to; NULL: none. */
const char *dti_help_nearest(const char *word, char *to, size_t bytes);

#endif
