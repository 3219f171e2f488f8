/* Thousands of damaged checkpoint manifests and safetensors files, made from the fuzzers' seeds by
 * chance but always the same: each is taken or refused with a message, and nothing is left behind.
 * What a reader read out of bounds shows under the sanitizers. */
#include "tests/fixture/check.h"

#include <dirent.h>
#include <string.h>

#include "engine/base/alloc.h"
#include "engine/checkpoint/checkpoint_internal.h"
#include "engine/base/io.h"
#include "engine/base/philox.h"
#include "engine/checkpoint/safetensors.h"

enum { MOST_SEED = 1 << 16, TIMES = 150 };

typedef dt_status (*reader)(const char *bytes, size_t n, dt_err *err);

static dt_status read_manifest(const char *bytes, size_t n, dt_err *err)
{
    dti_manifest m;
    const dt_status st = dti_manifest_parse(&m, "mutation", bytes, n, err);
    assert_true((st == DT_OK) == (m.json != NULL));
    for (size_t i = 0; i < m.n_fact; i++)
        assert_true(strlen(m.fact[i].key) + strlen(m.fact[i].value) < n);
    dti_manifest_deinit(&m);
    return st;
}

static dt_status read_safetensors(const char *bytes, size_t n, dt_err *err)
{
    dt_st_file *f = NULL;
    const dt_status st = dti_st_parse(&f, "mutation", bytes, n, err);
    assert_true((st == DT_OK) == (f != NULL));
    for (size_t i = 0; f != NULL && i < dti_st_count(f); i++) {
        const dt_st_entry *e = dti_st_at(f, i);
        assert_true(e->begin + e->bytes <= n && dt_st_find(f, e->name) == e);
    }
    dt_st_close(f);
    return st;
}

/* Change a few places of p[0..n): a bit, a byte, a digit, a piece moved, or the end cut off. */
static size_t mutate(char *p, size_t n, uint32_t key)
{
    static const char likely[] = "\0\"{}[],:0919-.e\\\x7f\xff";
    const dt_u32x4 how = dt_random(1, DT_RANDOM_INIT, 0, key, 0);
    for (uint32_t i = 0; i <= how.v[0] % 4 && n > 1; i++) {
        const dt_u32x4 r = dt_random(1, DT_RANDOM_INIT, 1, key, i);
        const size_t at = r.v[1] % n;
        switch (r.v[0] % 5) {
        case 0:
            p[at] = (char)(p[at] ^ 1 << r.v[2] % 8);
            break;
        case 1:
            p[at] = (char)r.v[2];
            break;
        case 2:
            p[at] = likely[r.v[2] % (sizeof likely - 1)];
            break;
        case 3: {
            const size_t from = r.v[2] % n, most = n - (from > at ? from : at);
            memmove(p + at, p + from, most < 24 ? most : 24);
            break;
        }
        default:
            n = r.v[3] % 4 == 0 ? at : n;
            break;
        }
    }
    return n;
}

/* A block of exactly n bytes each time, so that the sanitizer sees a read behind it. */
static dt_status try_one(reader read, const char *seed, size_t n, uint32_t key)
{
    const long live = dti_alloc_live();
    dt_err err = {0};
    char *whole = dt_alloc(n, 1);
    assert_non_null(whole);
    memcpy(whole, seed, n);
    const size_t left = mutate(whole, n, key);
    char *exact = dt_alloc(left, 1);
    assert_non_null(exact);
    memcpy(exact, whole, left);
    dt_free(whole);
    const dt_status st = read(exact, left, &err);
    dt_free(exact);
    if (st != DT_OK && st != DT_E_DATA)
        fail_msg("mutation %u: '%s': %s", (unsigned)key, dt_status_name(st), err.text);
    assert_true((st == DT_OK) == (err.n == 0));
    assert_int_equal(dti_alloc_live(), live);
    return st;
}

/* All small seeds of a folder; counts what was refused. */
static int try_folder(reader read, const char *folder, int *refused)
{
    char path[4096];
    int tried = 0;
    const char *all = dt_source_path(folder);
    DIR *d = opendir(all);
    assert_non_null(d);
    *refused = 0;
    for (const struct dirent *e; (e = readdir(d)) != NULL;) {
        char *seed;
        size_t n;
        dt_err err = {0};
        if (e->d_name[0] == '.')
            continue;
        snprintf(path, sizeof path, "%s/%s", dt_source_path(folder), e->d_name);
        if (dt_read_file(&seed, &n, path, MOST_SEED, DT_E_DATA, &err) != DT_OK)
            continue;
        for (uint32_t k = 0; k < TIMES; k++, tried++)
            *refused += try_one(read, seed, n, k) != DT_OK;
        dt_free(seed);
    }
    closedir(d);
    return tried;
}

static void damaged_manifests_are_taken_or_refused(void **state)
{
    (void)state;
    int refused;
    const int tried = try_folder(read_manifest, "tests/fuzz/corpus/manifest", &refused);
    assert_true(tried > 1000 && refused > tried / 2 && refused < tried);
}

static void damaged_safetensors_are_taken_or_refused(void **state)
{
    (void)state;
    int refused;
    const int tried = try_folder(read_safetensors, "tests/fuzz/corpus/safetensors", &refused);
    assert_true(tried > 2000 && refused > tried / 2 && refused < tried);
}

DT_TEST_GROUP(mutations)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(damaged_manifests_are_taken_or_refused),
        cmocka_unit_test(damaged_safetensors_are_taken_or_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
