/* The contract of the configuration parser: no half-built result, no failure without a message, no
 * block left behind; and what was bound survives dump and parse, of which the dump is the same. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/alloc.h"
#include "engine/config/run_options.h"
#include "tests/fuzz/fuzz.h"

static char *dump(const dt_config *c)
{
    char *text = NULL;
    size_t n;
    FILE *f = open_memstream(&text, &n);
    DT_ASSERT(f != NULL);
    dt_config_dump(c, f);
    fclose(f);
    return text;
}

/* Cuts where a value comes from off a line. */
static void cut_note(char *line)
{
    static const char *const from[] = {" ; default", " ; fuzz.ini:", " ; dump.ini:"};
    for (size_t i = 0; i < DT_COUNT(from); i++)
        for (char *at = strstr(line, from[i]); at != NULL; at = strstr(at + 1, from[i])) {
            const char *rest = at + strlen(from[i]);
            if (rest[strspn(rest, "0123456789")] == '\0')
                *at = '\0';
        }
}

/* The same lines but for where values come from. */
static bool same_lines(char *a, char *b)
{
    char *at_a = NULL, *at_b = NULL;
    a = strtok_r(a, "\n", &at_a);
    b = strtok_r(b, "\n", &at_b);
    while (a != NULL && b != NULL) {
        cut_note(a);
        cut_note(b);
        if (strcmp(a, b) != 0)
            return false;
        a = strtok_r(NULL, "\n", &at_a);
        b = strtok_r(NULL, "\n", &at_b);
    }
    return a == NULL && b == NULL;
}

static dt_status parse_config(
    dt_config **out, const char *name, const char *text, size_t bytes, dt_err *err)
{
    const dt_status st = dt_config_parse_further(out, name, text, bytes, err);
    if (st != DT_OK) {
        dt_config_destroy(*out);
        *out = NULL;
    }
    return st;
}

/* A dump is a configuration of its own, of the same values. */
static void check_same(char *text, const dt_run_options *want)
{
    dt_config *c = NULL;
    dt_run_options o;
    dt_err err = {0};
    DT_ASSERT(parse_config(&c, "dump.ini", text, strlen(text), &err) == DT_OK);
    DT_ASSERT(dt_run_options_bind(c, &o, &err) == DT_OK);
    DT_ASSERT(dt_config_check_known(c, &err) == DT_OK);
    DT_ASSERT(o.train.batch == want->train.batch && o.train.seed == want->train.seed);
    DT_ASSERT(memcmp(&o.train.lr, &want->train.lr, sizeof o.train.lr) == 0);
    DT_ASSERT(o.memory.device_budget == want->memory.device_budget);
    DT_ASSERT((o.data.path == NULL) == (want->data.path == NULL));
    DT_ASSERT(o.data.path == NULL || strcmp(o.data.path, want->data.path) == 0);
    DT_ASSERT(strcmp(o.memory.policy, want->memory.policy) == 0);
    char *again = dump(c);
    DT_ASSERT(same_lines(text, again));
    free(again);
    dt_config_destroy(c);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const long before = dti_alloc_live();
    dt_err err = {0};
    dt_config *c = NULL;
    const dt_status st = parse_config(&c, "fuzz.ini", (const char *)data, size, &err);
    DT_ASSERT((st == DT_OK) == (c != NULL));
    DT_ASSERT((st == DT_OK) == (err.n == 0));
    DT_ASSERT(st == DT_OK || st == DT_E_CONFIG);
    if (c != NULL) {
        dt_run_options o;
        dt_err why = {0};
        const dt_status bound = dt_run_options_bind(c, &o, &why);
        DT_ASSERT((bound == DT_OK) == (why.n == 0));
        const dt_status known = dt_config_check_known(c, &why);
        DT_ASSERT((bound == DT_OK && known == DT_OK) == (why.n == 0));
        if (bound == DT_OK) {
            char *text = dump(c);
            check_same(text, &o);
            free(text);
        }
    }
    dt_config_destroy(c);
    DT_ASSERT(dti_alloc_live() == before);
    return 0;
}
