/* The contract of the reader of a checkpoint's manifest: no half-built result, no failure without a
 * message, no block left behind, and of an accepted one every number is in range and every text
 * there. */
#include <string.h>

#include "engine/base/alloc.h"
#include "engine/checkpoint/checkpoint_parts.h"
#include "tests/fuzz/fuzz.h"

static void check_file(const dti_file *f)
{
    DT_ASSERT(f->bytes <= UINT64_C(1) << 53);
    DT_ASSERT(strlen(f->sha) == DT_SHA256_TEXT - 1);
}

static void check(const dti_manifest *m)
{
    DT_ASSERT(m->step >= 0 && m->epoch >= 0);
    check_file(&m->model);
    check_file(&m->state);
    DT_ASSERT(m->n_fact <= DT_CHECKPOINT_FACTS);
    for (size_t i = 0; i < m->n_fact; i++)
        DT_ASSERT(m->fact[i].key != NULL && m->fact[i].value != NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const long before = dt_alloc_live();
    dt_err err = {0};
    dti_manifest m;
    const dt_status st = dti_manifest_parse(&m, "fuzz.json", (const char *)data, size, &err);
    DT_ASSERT((st == DT_OK) == (m.json != NULL));
    DT_ASSERT((st == DT_OK) == (err.n == 0));
    DT_ASSERT(st == DT_OK || st == DT_E_DATA);
    if (st == DT_OK)
        check(&m);
    dti_manifest_deinit(&m);
    DT_ASSERT(dt_alloc_live() == before);
    return 0;
}
