/* Inside the plan parser: the names of a section, found by name once the section is over. */
#ifndef DT_MEMORY_PLAN_TEXT_PLAN_DICT_H
#define DT_MEMORY_PLAN_TEXT_PLAN_DICT_H

#include "memory/plan_text/plan_line.h"
#include "memory/plan_text/plan_scan.h"

/**
 * struct dti_dict - the names of a table.
 * @what:   of its records, for messages
 * @names:  the first name; the next ones follow every @each bytes
 * @sorted: NULL until the section is over
 */
typedef struct dti_dict {
    const char *what, *names;
    size_t each, n, cap;
    struct dti_mark {
        size_t line;
        bool numbered; /* declared with #INDEX */
    } * mark;
    dti_entry *sorted;
} dti_dict;

/* The next record's name, with its escapes undone. */
dt_status dti_dict_declare(
    dti_dict *d, const dti_scan *s, dti_word w, char name[DT_TENSOR_NAME_BYTES]) DT_NODISCARD;
/* The section is over. Refuses a name that stands for two records. */
dt_status dti_dict_close(
    dti_dict *d, const dti_scan *s, const char *names, size_t each) DT_NODISCARD;
dt_status dti_dict_find(const dti_dict *d, const dti_scan *s, dti_word w, int32_t *id) DT_NODISCARD;
void dti_dict_deinit(dti_dict *d);

#endif
