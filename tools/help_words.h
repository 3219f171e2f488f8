/* Help on words: the glossary, and what is worth a note besides. */
#ifndef DT_TOOLS_HELP_WORDS_H
#define DT_TOOLS_HELP_WORDS_H

#include "engine/base/compiler.h"

/* Print what a word means on stdout, "gap", "activations", "units"; false when it is not among
 * them. @more: an empty line first, as something was printed of the same name. */
bool dti_help_word(const char *word, bool more);

/* The same of what papers call so: "rematerialization". */
bool dti_help_papers_word(const char *word);

/* All of the glossary on stdout: on a terminal as wide as that, else as docs/design.md has it. */
void dti_help_glossary(void);

#endif
