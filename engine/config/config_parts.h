/* What the files of the configuration share; nobody else includes this. config_read.c makes a
 * dt_config, config.c answers questions about it, config_bind.c fills structs from it,
 * config_dump.c writes it. */
#ifndef DT_ENGINE_CONFIG_CONFIG_PARTS_H
#define DT_ENGINE_CONFIG_CONFIG_PARTS_H

#include "engine/config/config.h"

typedef struct entry {
    const char *key, *value;
    const char *path; /* the value as a path, once resolved */
    int line;
    bool set, known, passing;
} entry;

typedef struct section {
    const char *text, *kind, *name;
    int line;
    bool set, known, free_keys;
    size_t n, cap;
    entry *key;
    size_t slots;   /* of slot: a power of two, or 0 while there is no entry */
    uint32_t *slot; /* by hash of the key: index of the entry + 1; 0: free */
} section;

typedef struct binding {
    const char *section;
    const dt_opt *rows;
} binding;

struct dt_config {
    char *file, *folder; /* folder: absolute, ends in /; NULL: parsed from memory */
    const char *shown;   /* the file in messages: the end of a long path */
    char *text;          /* the file, cut into words in place */
    size_t n, cap;
    section *at;       /* in file order */
    uint32_t *by_text; /* their indices, sorted */
    char **owned;      /* other strings */
    size_t n_owned, owned_cap;
    binding *bound;
    size_t n_bound, bound_cap;
};

#define DTI_SET "--set"

dt_status dti_no_memory(const dt_config *c, dt_err *err);

/* Takes s over; NULL when s is, or when memory is out. */
char *dti_own(dt_config *c, char *s) DT_NODISCARD;

/* A new section, of tidied text that lives as long as c; NULL: no memory. dti_sort comes before the
 * next search. */
section *dti_add_section(dt_config *c, const char *text, int line, bool set) DT_NODISCARD;
entry *dti_add_entry(
    section *s, const char *key, const char *value, int line, bool set) DT_NODISCARD;
dt_status dti_sort(dt_config *c, dt_err *err) DT_NODISCARD;
section *dti_find_section(const dt_config *c, const char *text);
entry *dti_find_entry(const section *s, const char *key); /* s may be NULL */

/* "conv  c1" becomes "conv c1", in place. False when it is not one word or two. */
bool dti_tidy_section(char *text) DT_NODISCARD;
bool dti_blank(char c);
char *dti_skip_blanks(char *s);
void dti_cut_blanks(char *s);                   /* those at the end */
size_t dti_control_at(const char *s, size_t n); /* first control character other than a tab, or n */

#endif
