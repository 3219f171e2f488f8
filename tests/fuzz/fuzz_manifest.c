/* The contract of the reader of a checkpoint's manifest: no half-built result, no failure without a
 * message, no block left behind, and of an accepted one every number is in range and every text
 * there; written and read again it is the same. */
#include <string.h>

#include "engine/base/alloc.h"
#include "engine/checkpoint/checkpoint_internal.h"
#include "tests/fuzz/fuzz.h"

/* A larger one may be too large when all in it that need be is escaped. */
enum { MOST_AGAIN = DTI_MANIFEST_BYTES / 8 };

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

static bool same_file(const dti_file *a, const dti_file *b)
{
    return a->bytes == b->bytes && strcmp(a->sha, b->sha) == 0;
}

static void check_again(const dti_manifest *m)
{
    char *text;
    size_t n;
    dt_err err = {0};
    dti_manifest k;
    DT_ASSERT(dti_manifest_text(&text, &n, "again.json", m, m->fact, m->n_fact, &err) == DT_OK);
    DT_ASSERT(dti_manifest_parse(&k, "again.json", text, n, &err) == DT_OK);
    DT_ASSERT(k.step == m->step && k.epoch == m->epoch && k.n_fact == m->n_fact);
    DT_ASSERT(same_file(&k.model, &m->model) && same_file(&k.state, &m->state));
    for (size_t i = 0; i < k.n_fact; i++) {
        DT_ASSERT(strcmp(k.fact[i].key, m->fact[i].key) == 0);
        DT_ASSERT(strcmp(k.fact[i].value, m->fact[i].value) == 0);
    }
    dti_manifest_deinit(&k);
    dt_free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const long before = dti_alloc_live();
    dt_err err = {0};
    dti_manifest m;
    const dt_status st = dti_manifest_parse(&m, "fuzz.json", (const char *)data, size, &err);
    DT_ASSERT((st == DT_OK) == (m.json != NULL));
    DT_ASSERT((st == DT_OK) == (err.n == 0));
    DT_ASSERT(st == DT_OK || st == DT_E_DATA);
    if (st == DT_OK) {
        check(&m);
        if (size <= MOST_AGAIN)
            check_again(&m);
    }
    dti_manifest_deinit(&m);
    DT_ASSERT(dti_alloc_live() == before);
    return 0;
}
