/* Extents of bytes against a table with a row for each byte. */
#include "tests/fixture/check.h"

#include <string.h>

#include "memory/lower/extents.h"

enum { BYTES = 4096, ROUNDS = 6000 };

/* The same numbers in every run. */
static uint32_t draw(uint32_t *state, uint32_t of)
{
    *state = *state * 1664525u + 1013904223u;
    return (*state >> 8) % of;
}

static dti_extent random_extent(uint32_t *state, uint32_t longest, int32_t now)
{
    const uint64_t from = draw(state, BYTES), n = draw(state, longest + 1);
    dti_extent x = {from, from + n < BYTES ? from + n : BYTES, {{0}}};
    x.last.done[draw(state, DT_MAX_STREAMS)] = now;
    return x;
}

/* What used any of the bytes [from, to). */
static dti_clock used(const dti_clock *byte, uint64_t from, uint64_t to)
{
    dti_clock all = {{0}};
    for (uint64_t b = from; b < to; b++)
        dti_clock_join(&all, &byte[b]);
    return all;
}

/* Short ones fill many blocks, long ones empty them. */
static void are_what_a_table_of_bytes_says(void **state)
{
    (void)state;
    for (uint32_t longest = 1; longest <= BYTES; longest *= 8) {
        static dti_clock byte[BYTES + 1];
        dti_extents r = {0};
        uint32_t seed = longest;
        size_t most = 0;
        memset(byte, 0, sizeof byte);
        for (int32_t now = 1; now <= ROUNDS; now++) {
            const dti_extent x = random_extent(&seed, longest, now);
            const dti_extent asked = random_extent(&seed, BYTES, 0);
            dti_clock got = {{0}}, want = used(byte, x.from, x.to);
            assert_true(dti_extents_add(&r, x));
            dti_clock_join(&want, &x.last);
            for (uint64_t b = x.from; b < x.to; b++)
                byte[b] = want;
            most = r.n > most ? r.n : most;
            want = used(byte, asked.from, asked.to + 1);
            dti_extents_over(&r, asked.from, asked.to + 1, &got);
            assert_memory_equal(&got, &want, sizeof want);
        }
        assert_true(longest > 8 || most > 8); /* blocks */
        dti_extents_close(&r);
    }
}

DT_TEST_GROUP(extents)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(are_what_a_table_of_bytes_says),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
