/* Memory of tables and buffers: what is given, and what goes back to the system. */
#define _DEFAULT_SOURCE /* mincore */

#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "engine/base/alloc.h"
#include "tests/fixture/check.h"
#include "tests/fixture/sanitizer.h"

enum { LARGE = 3 << 20, SMALL = 4000, BLOCKS = 10000 };

static size_t page(void)
{
    return (size_t)sysconf(_SC_PAGESIZE);
}

/* Bytes of the whole pages within that are in memory, and in *all how many there are. */
static size_t in_memory(const void *p, size_t n, size_t *all)
{
    static unsigned char is[LARGE / 4096 + 2];
    const uintptr_t at = (uintptr_t)p, from = (at + page() - 1) / page() * page();
    const size_t pages = (at + n - from) / page();
    size_t sum = 0;
    assert_true(pages <= sizeof is);
    assert_int_equal(mincore((unsigned char *)(uintptr_t)p + (from - at), pages * page(), is), 0);
    for (size_t i = 0; i < pages; i++)
        sum += is[i] & 1u;
    *all = pages * page();
    return sum * page();
}

/* Of this process. */
static size_t resident(void)
{
    FILE *f = fopen("/proc/self/statm", "r");
    unsigned long all, here;
    assert_non_null(f);
    assert_int_equal(fscanf(f, "%lu %lu", &all, &here), 2);
    fclose(f);
    return here * page();
}

static void assert_all(const unsigned char *p, size_t n, unsigned char is)
{
    for (size_t i = 0; i < n; i++)
        if (p[i] != is)
            fail_msg("byte %zu of %zu is %d, not %d", i, n, p[i], is);
}

/* Also where others have been before: the second is taken from what the first has left. */
static void a_block_is_of_zeros(void **state)
{
    (void)state;
    static const size_t bytes[] = {1, SMALL, (1 << 20) - 1, 1 << 20, (1 << 20) + 1, LARGE - 77};
    for (int again = 0; again < 3; again++)
        for (size_t i = 0; i < DT_COUNT(bytes); i++) {
            unsigned char *p = dt_alloc(bytes[i], 1);
            assert_non_null(p);
            assert_all(p, bytes[i], 0);
            memset(p, 0xA5, bytes[i]);
            dt_free(p);
        }
}

static void a_large_block_takes_no_page_before_it_is_touched(void **state)
{
    (void)state;
    size_t all;
    for (int again = 0; again < 3; again++) {
        unsigned char *p = dt_alloc(LARGE, 1);
        assert_non_null(p);
        assert_true(in_memory(p, LARGE, &all) <= page());
        memset(p, 1, LARGE);
        assert_int_equal(in_memory(p, LARGE, &all), all);
        dt_free(p);
    }
}

static void what_is_forgotten_is_zeros_on_whole_pages(void **state)
{
    (void)state;
    enum { EDGE = 100 };
    size_t all;
    unsigned char *p = dt_alloc(LARGE, 1);
    assert_non_null(p);
    memset(p, 7, LARGE);
    dt_alloc_forget(p + EDGE, LARGE - 2 * EDGE);
    assert_all(p, EDGE, 7);
    assert_all(p + LARGE - EDGE, EDGE, 7);
    assert_int_equal(in_memory(p + EDGE, LARGE - 2 * EDGE, &all), 0);
    assert_true(all >= LARGE - 4 * page());
    const uintptr_t at = (uintptr_t)p + EDGE, from = (at + page() - 1) / page() * page();
    assert_all(p + EDGE + (from - at), all, 0);
    memset(p, 7, LARGE);
    dt_alloc_forget(p + 1, EDGE); /* no whole page */
    dt_alloc_forget(p, 0);
    assert_all(p, LARGE, 7);
    dt_free(p);
}

static void what_many_small_blocks_took_goes_back(void **state)
{
    (void)state;
    static void *block[BLOCKS];
    if (DT_OWN_HEAP)
        skip();
    for (size_t i = 0; i < BLOCKS; i++) {
        block[i] = dt_alloc(SMALL, 1);
        assert_non_null(block[i]);
        memset(block[i], 1, SMALL);
    }
    const size_t before = resident();
    for (size_t i = 0; i + 1 < BLOCKS; i++) /* the last one holds the heap's end */
        dt_free(block[i]);
    dt_alloc_trim();
    const size_t now = resident();
    dt_free(block[BLOCKS - 1]);
    assert_true(now + (size_t)SMALL * BLOCKS / 10 * 9 < before);
}

static void what_is_held_stays_until_it_is_given_back(void **state)
{
    (void)state;
    if (DT_OWN_HEAP)
        skip();
    const size_t n = (size_t)24 << 20, before = resident();
    dt_alloc_hold();
    char *block = dt_alloc(n, 1), *behind = dt_alloc(SMALL, 1);
    assert_true(block != NULL && behind != NULL);
    memset(block, 1, n);
    dt_free(behind);
    dt_free(block);
    assert_true(resident() > before + n / 10 * 9);
    dt_alloc_trim();
    assert_true(resident() < before + n / 10);
}

DT_TEST_GROUP(alloc)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_block_is_of_zeros),
        cmocka_unit_test(a_large_block_takes_no_page_before_it_is_touched),
        cmocka_unit_test(what_is_forgotten_is_zeros_on_whole_pages),
        cmocka_unit_test(what_many_small_blocks_took_goes_back),
        cmocka_unit_test(what_is_held_stays_until_it_is_given_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
