/* The contract of the reader of auto's fronts, which lie in a folder of the user's: plans that can
 * be made again or none, no block left behind, and what is written of them is read as the same. The
 * first byte says of how many values they are to be. */
#include <math.h>
#include <string.h>

#include "engine/base/alloc.h"
#include "memory/policies/auto_front.h"
#include "tests/fuzz/fuzz.h"

static char *read_text(const char *text, size_t values, size_t *n)
{
    dti_front *f = dti_front_parse(text, values);
    if (f == NULL)
        return NULL;
    DT_ASSERT(f->n > 0 && f->n_value == values);
    for (size_t i = 0; i < f->n; i++) {
        DT_ASSERT(isfinite(f->plan[i].cost.seconds) && f->plan[i].cost.seconds > 0);
        for (size_t k = 0; f->plan[i].fate != NULL && k < values; k++)
            DT_ASSERT(f->plan[i].fate[k] <= 2);
    }
    char *again = dti_front_text(f, n);
    dti_front_destroy(f);
    return again;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const long before = dti_alloc_live();
    size_t n = 0, m = 0;
    char *text = size > 0 ? dt_alloc(size, 1) : NULL;
    if (text == NULL)
        return 0;
    memcpy(text, data + 1, size - 1);
    text[size - 1] = '\0';
    char *first = read_text(text, data[0], &n), *second = NULL;
    if (first != NULL) {
        char *whole = dt_alloc(n + 1, 1); /* it is no string by itself */
        memcpy(whole, first, n);
        whole[n] = '\0';
        second = read_text(whole, data[0], &m);
        DT_ASSERT(second != NULL && n == m && memcmp(first, second, n) == 0);
        dt_free(whole);
    }
    dt_free(first);
    dt_free(second);
    dt_free(text);
    DT_ASSERT(dti_alloc_live() == before);
    return 0;
}
