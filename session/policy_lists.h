/* Lists of policies as commands take them: "chen_sqrt;chen_cheap,vdnn_conv", the policies of a list
 * acting together. */
#ifndef DT_SESSION_POLICY_LISTS_H
#define DT_SESSION_POLICY_LISTS_H

#include "memory/policy.h"

enum { DT_POLICY_LISTS = 128 }; /* with the policies of a list that stand before it */

/* @list: as a configuration says it, without blanks; the first is keep_all, and none stands twice
 * @all:  "all" was among them
 * @unasked: by list, it came by "all" alone, and nobody named it */
typedef struct dt_policy_lists {
    size_t n;
    bool all, unasked[DT_POLICY_LISTS];
    char *list[DT_POLICY_LISTS];
} dt_policy_lists;

/* None, those that neither search nor write to a disk unasked, or all. */
typedef enum dt_list_parts { DT_PARTS_NONE, DT_PARTS_QUICK, DT_PARTS_ALL } dt_list_parts;

/* Read lists between semicolons; "all" stands for every policy that neither searches nor writes to
 * a disk unasked. @parts: which policies of a list of several stand before it by themselves as
 * well.
 * DT_E_CONFIG names what is unknown, with the nearest name; or says that nothing stands between two
 * semicolons, that there are too many, or what is wrong with an option that @c gives. Release with
 * dt_policy_lists_close, even after a failure. */
dt_status dt_policy_lists_open(dt_policy_lists *out, const char *text, dt_list_parts parts,
    dt_config *c, dt_err *err) DT_NODISCARD;
void dt_policy_lists_close(dt_policy_lists *p);

/* Whether a policy stands in a list of several. */
bool dt_policy_list_names(const char *list, const char *policy);

#endif
