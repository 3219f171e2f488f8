/* What the files of the configuration share; nobody else includes this. config.c reads a text into
 * a dt_config and answers questions about it, config_bind.c fills structs from it, config_dump.c
 * writes it. */
#ifndef DT_ENGINE_CONFIG_CONFIG_INTERNAL_H
#define DT_ENGINE_CONFIG_CONFIG_INTERNAL_H

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

section *dti_find_section(const dt_config *c, const char *text);
entry *dti_find_entry(const section *s, const char *key); /* s may be NULL */

/* Of @mistakes that a text has, told behind the first @before bytes: all of a few, as of a
 * configuration with slips in it; the first of many, as of a file that is something else. */
void dti_config_cut_mistakes(size_t before, size_t mistakes, bool sections, dt_err *err);

bool dti_blank(char c);
size_t dti_control_at(const char *s, size_t n); /* first control character other than a tab, or n */

#endif
