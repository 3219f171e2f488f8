/* Fails on purpose; CTest is told to expect it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void one_is_two(void **state)
{
    (void)state;
    assert_int_equal(1, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(one_is_two)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
