/* What docs/policies.md and docs/references.bib say of a policy, for `dnntrain help POLICY`: both
 * files are inside the program as they are. */
#ifndef DT_TOOLS_HELP_POLICY_H
#define DT_TOOLS_HELP_POLICY_H

extern const char dti_policies_page[], dti_references[];

/* Print the idea of a policy on stdout, the first paragraph on it, and the papers that it is from.
 * Nothing where the files do not know @name, as of a policy from outside. */
void dti_help_idea(const char *name);
void dti_help_papers(const char *name);

#endif
