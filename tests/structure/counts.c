/* What a group of tests returns, which ctest takes for passed, failed or skipped. */
#include "tests/fixture/check.h"

static void skips(void **state)
{
    (void)state;
    skip();
}

static void fails(void **state)
{
    (void)state;
    fail();
}

static void passes(void **state)
{
    (void)state;
}

int main(void)
{
    const struct CMUnitTest all[] = {cmocka_unit_test(skips), cmocka_unit_test(skips)};
    const struct CMUnitTest one[] = {cmocka_unit_test(skips), cmocka_unit_test(passes)};
    struct CMUnitTest many[256]; /* as many as exit codes have no room for */
    for (size_t i = 0; i < 256; i++)
        many[i] = (struct CMUnitTest)cmocka_unit_test(fails);
    const int got[] = {cmocka_run_group_tests(all, NULL, NULL),
        cmocka_run_group_tests(one, NULL, NULL), cmocka_run_group_tests(many, NULL, NULL),
        dt_run_tests("many", many, DT_ALL_SKIPPED, NULL, NULL)};
    static const int want[] = {DT_ALL_SKIPPED, 0, 1, 1};
    int bad = 0;
    for (int i = 0; i < 4; i++)
        if (got[i] != want[i]) {
            printf("group %d gave %d, expected %d\n", i, got[i], want[i]);
            bad = 1;
        }
    return bad;
}
