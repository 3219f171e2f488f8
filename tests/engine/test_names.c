/* The table of names, held against a search through all of them. */
#include "tests/fixture/check.h"

#include <string.h>

#include "engine/base/alloc.h"
#include "engine/base/mix.h"
#include "engine/base/names.h"

enum { MOST = 500 };

typedef struct thing {
    int number;
    char name[8];
    const char *other;
} thing;

static thing all[MOST];

static dt_named own(void)
{
    return (dt_named){all, sizeof *all, offsetof(thing, name), .refers = false};
}

static dt_named others(void)
{
    return (dt_named){all, sizeof *all, offsetof(thing, other), .refers = true};
}

static size_t first_of(const char *name, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(all[i].name, name) == 0)
            return i + 1;
    return 0;
}

static void assert_found(const dt_names *x, dt_named of, size_t n)
{
    char name[8];
    for (unsigned k = 0; k < MOST; k++) {
        snprintf(name, sizeof name, "n%u", k);
        assert_int_equal(dt_names_find(x, of, name), first_of(name, n));
    }
    assert_int_equal(dt_names_find(x, of, ""), 0);
}

/* About a third of the names come again. */
static void put_names(void)
{
    uint64_t draw = dt_test_seed();
    for (size_t i = 0; i < MOST; i++) {
        snprintf(all[i].name, sizeof all[i].name, "n%u", (unsigned)(dt_mix_next(&draw) % MOST));
        all[i].other = all[i].name;
    }
}

static void the_first_of_a_name_is_found(void **state)
{
    (void)state;
    dt_names grown = {0}, filled = {0};
    put_names();
    assert_int_equal(dt_names_find(&grown, own(), "n0"), 0);
    for (size_t i = 0; i < MOST; i++) {
        assert_true(dt_names_grow(&grown, own(), i));
        dt_names_add(&grown, own(), i);
        if (i % 50 == 0)
            assert_found(&grown, own(), i + 1);
    }
    assert_found(&grown, own(), MOST);
    assert_true(dt_names_fill(&filled, others(), MOST));
    assert_found(&filled, others(), MOST);
    dt_names_deinit(&grown);
    dt_names_deinit(&filled);
    assert_int_equal(filled.slots, 0);
}

static void of_none_nothing_is_found(void **state)
{
    (void)state;
    dt_names x = {0};
    assert_true(dt_names_fill(&x, (dt_named){NULL, sizeof *all, 0, .refers = false}, 0));
    assert_int_equal(dt_names_find(&x, own(), "n1"), 0);
    dt_names_deinit(&x);
}

DT_TEST_GROUP(names)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_of_a_name_is_found),
        cmocka_unit_test(of_none_nothing_is_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
