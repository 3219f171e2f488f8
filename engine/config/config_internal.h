/* What the files of the configuration share; nobody else includes this. config.c reads a text into
 * a dt_config and answers questions about it, config_bind.c fills structs from it, config_dump.c
 * writes it. */
#ifndef DT_ENGINE_CONFIG_CONFIG_INTERNAL_H
#define DT_ENGINE_CONFIG_CONFIG_INTERNAL_H

#include "engine/base/names.h"
#include "engine/config/config.h"

typedef struct entry {
    const char *key, *value;
    const char *path; /* the value as a path, once resolved */
    const char *set;  /* the flag that gave it; NULL: the file */
    int line;
    bool known, passing;
    bool told; /* that nothing knows it, where what it was meant for is missing */
} entry;

typedef struct section {
    const char *text, *kind, *name, *set;
    int line;
    bool known, free_keys;
    size_t n, cap;
    entry *key;
    dt_names by_key;
} section;

/* Tables that fill structs from a section; one that several fill has several, in a list that
 * begins with the first. */
typedef struct binding {
    const char *section;
    const dt_opt *rows;
    bool first;
    uint32_t next; /* index + 1; 0: it is the last */
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
    dt_names by_section;
};

#define DTI_SET "--set"
#define DTI_VARY "--vary"

dt_status dti_no_memory(const dt_config *c, dt_err *err) DT_NODISCARD;

/* Takes s over; NULL when s is, or when memory is out. */
char *dti_own(dt_config *c, char *s) DT_NODISCARD;

section *dti_find_section(const dt_config *c, const char *text);
entry *dti_find_entry(const section *s, const char *key); /* s may be NULL */
dt_named dti_bound_names(const dt_config *c);
/* The first table of a section, and the one behind @b; NULL: none. */
const binding *dti_first_bound(const dt_config *c, const char *text);
const binding *dti_next_bound(const dt_config *c, const binding *b);

/* Of @mistakes that a text has, told behind the first @before bytes: all of a few, as of a
 * configuration with slips in it; the first of many, as of a file that is something else. */
void dti_config_cut_mistakes(size_t before, size_t mistakes, bool sections, dt_err *err);

bool dti_blank(char c);
size_t dti_control_at(const char *s, size_t n); /* first control character other than a tab, or n */

#endif
