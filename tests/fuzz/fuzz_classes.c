/* The contract of the reader of a run's names of classes: no half-built result, no failure without
 * a message, no block left behind, and accepted names are printable and written again the same; and
 * of the vocabulary that such names may be. The first byte is how many classes there are. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "data/class_names.h"
#include "data/text.h"
#include "engine/base/alloc.h"
#include "engine/base/text.h"
#include "tests/fuzz/fuzz.h"

typedef struct named {
    dt_source base;
    const dt_class_names *names;
} named;

static const char *name_of(const dt_source *s, int32_t label)
{
    return dt_class_names_of(((const named *)s)->names, label);
}

static void check(const dt_class_names *names, const char *text, size_t n)
{
    const dt_source_desc desc = {.name = "fuzz", .class_name = name_of};
    const named s = {{.desc = &desc}, names};
    char *again = NULL;
    size_t bytes;
    FILE *f = open_memstream(&again, &bytes);
    DT_ASSERT(f != NULL);
    dt_class_names_print(&s.base, names->n, f);
    fclose(f);
    DT_ASSERT(bytes == n && memcmp(again, text, n) == 0);
    free(again);
}

/* As names of a text's tokens they are refused, or are the bytes' own. */
static void check_vocabulary(const dt_class_names *names)
{
    dt_err err = {0};
    dt_vocabulary v;
    char is[DTI_BYTE_NAME];
    const dt_status st = dt_vocabulary_named(&v, names->name, names->n, &err);
    DT_ASSERT((st == DT_OK) == (err.n == 0));
    DT_ASSERT(st == DT_OK || st == DT_E_DATA);
    for (int i = 0; st == DT_OK && i < v.n; i++) {
        dti_byte_name(is, v.byte[i]);
        DT_ASSERT(strcmp(is, names->name[i]) == 0 && v.token[v.byte[i]] == i);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const long before = dti_alloc_live();
    dt_err err = {0};
    dt_class_names names;
    if (size == 0)
        return 0;
    const char *text = (const char *)data + 1;
    const dt_status st =
        dti_class_names_parse(&names, "fuzz.txt", text, size - 1, data[0] + 1, &err);
    DT_ASSERT((st == DT_OK) == (names.n == data[0] + 1));
    DT_ASSERT((st == DT_OK) == (err.n == 0));
    DT_ASSERT(st == DT_OK || st == DT_E_DATA);
    if (st == DT_OK)
        check(&names, text, size - 1);
    if (st == DT_OK)
        check_vocabulary(&names);
    dt_class_names_deinit(&names);
    DT_ASSERT(dti_alloc_live() == before);
    return 0;
}
