/* What there is by name: models, codecs, tiers, pools, accounts, devices, cards, sources. */
#ifndef DT_TOOLS_LIST_H
#define DT_TOOLS_LIST_H

#include "engine/base/compiler.h"

/* Print on stdout the list that is called so ("models"), or all that have the name, each with what
 * it is and how it is asked for ("p100", "resnet50"); false when there is none. */
bool dti_list_says(const char *name);

#endif
