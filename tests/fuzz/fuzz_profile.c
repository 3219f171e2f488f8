/* The contract of the reader of profiles: costs that can be reckoned with or a message, no block
 * left behind, and what is written of them is read as the same. */
#include <math.h>
#include <string.h>

#include "engine/base/alloc.h"
#include "memory/time/cost_file.h"
#include "tests/fuzz/fuzz.h"

static dt_status read_text(const char *text, size_t bytes, char **again, size_t *n, dt_err *err)
{
    dt_costs c;
    dt_densities d = {0};
    dt_origin o;
    dt_status st = dti_profile_parse(&c, &d, &o, text, bytes, "profile", err);
    for (size_t i = 0; st == DT_OK && i < c.n_entry; i++)
        DT_ASSERT(isfinite(c.entry[i].seconds) && c.entry[i].seconds > 0);
    if (st == DT_OK)
        st = dt_profile_text(again, n, &c, &d, &o, err);
    dt_costs_deinit(&c);
    dt_densities_close(&d);
    return st;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const long before = dti_alloc_live();
    dt_err err = {0};
    char *first = NULL, *second = NULL;
    size_t n = 0, m = 0;
    const dt_status st = read_text((const char *)data, size, &first, &n, &err);
    DT_ASSERT((st == DT_OK) == (err.n == 0));
    DT_ASSERT(st == DT_OK || st == DT_E_DATA);
    if (st == DT_OK) {
        DT_ASSERT(read_text(first, n, &second, &m, &err) == DT_OK);
        DT_ASSERT(n == m && memcmp(first, second, n) == 0);
    }
    dt_free(first);
    dt_free(second);
    DT_ASSERT(dti_alloc_live() == before);
    return 0;
}
