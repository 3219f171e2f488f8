/* The contract of plan text: no half-built result, no failure without a message, no block left
 * behind; what was parsed survives print, parse and print unchanged and differs from itself in
 * nothing, also in what the verifier says; the verifier and the short form take whatever the parser
 * lets through. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/alloc.h"
#include "memory/plan_text/plan_text.h"
#include "memory/verify/verify.h"
#include "tests/fuzz/fuzz.h"

static char *print(const dt_plan *p, void (*how)(const dt_plan *p, FILE *f), size_t *n)
{
    char *text = NULL;
    FILE *f = open_memstream(&text, n);
    DT_ASSERT(f != NULL);
    how(p, f);
    DT_ASSERT(fclose(f) == 0);
    return text;
}

static void check_again(const dt_plan *p)
{
    dt_err err = {0};
    dt_plan *q = NULL;
    size_t n, m, k;
    char *once = print(p, dt_plan_print, &n);
    DT_ASSERT(dti_plan_parse(&q, "printed.plan", once, n, &err) == DT_OK);
    char *twice = print(q, dt_plan_print, &m);
    DT_ASSERT(n == m && memcmp(once, twice, n) == 0);
    char *differs = NULL;
    FILE *f = open_memstream(&differs, &k);
    DT_ASSERT(f != NULL);
    DT_ASSERT(!dt_plan_diff(p, q, f));
    DT_ASSERT(fclose(f) == 0 && k == 0);
    dt_err first = {0}, second = {0};
    DT_ASSERT(dt_verify(p, &first) == dt_verify(q, &second));
    DT_ASSERT(strcmp(first.text, second.text) == 0);
    free(differs);
    free(once);
    free(twice);
    dt_plan_destroy(q);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const long before = dti_alloc_live();
    dt_err err = {0};
    dt_plan *p = NULL;
    const dt_status st = dti_plan_parse(&p, "fuzz.plan", (const char *)data, size, &err);
    DT_ASSERT((st == DT_OK) == (p != NULL));
    DT_ASSERT((st == DT_OK) == (err.n == 0));
    DT_ASSERT(st == DT_OK || st == DT_E_DATA);
    if (p != NULL) {
        dt_err why = {0};
        size_t n;
        check_again(p);
        free(print(p, dt_plan_print_short, &n));
        const dt_status sound = dt_verify(p, &why);
        DT_ASSERT((sound == DT_OK) == (why.n == 0));
    }
    dt_plan_destroy(p);
    DT_ASSERT(dti_alloc_live() == before);
    return 0;
}
