/* Small arithmetic, numbers that stand in texts, and what of a text may be shown. */
#include "tests/fixture/check.h"

#include <string.h>

#include "engine/base/numbers.h"
#include "engine/base/text.h"

/* @left: what stands behind the digits; NULL: the number is beyond 64 bits */
static const struct {
    const char *text;
    uint64_t value;
    const char *left;
} texts[] = {{"0", 0, ""}, {"007", 7, ""}, {"18446744073709551615", UINT64_MAX, ""},
    {"18446744073709551616", 0, NULL}, {"18446744073709551620", 0, NULL},
    {"99999999999999999999x", 0, NULL}, {"", 0, ""}, {"x", 0, "x"}, {"-1", 0, "-1"},
    {" 1", 0, " 1"}, {"12,34", 12, ",34"}, {"12:", 12, ":"}, {"12/", 12, "/"}};

static void digits_are_read_as_far_as_they_go(void **state)
{
    (void)state;
    for (size_t i = 0; i < DT_COUNT(texts); i++) {
        const char *at = texts[i].text, *const end = at + strlen(at);
        uint64_t value = 0;
        const bool fits = dt_scan_u64(&at, end, &value);
        assert_int_equal(fits, texts[i].left != NULL);
        if (!fits)
            continue;
        assert_int_equal(value, texts[i].value);
        assert_string_equal(at, texts[i].left);
    }
}

static void digits_end_with_the_text(void **state)
{
    (void)state;
    const char text[] = "1234", *at = text;
    uint64_t value;
    assert_true(dt_scan_u64(&at, text + 2, &value));
    assert_int_equal(value, 12);
    assert_ptr_equal(at, text + 2);
}

static void a_divisor_is_common_and_the_greatest(void **state)
{
    (void)state;
    assert_int_equal(dt_gcd(12, 18), 6);
    assert_int_equal(dt_gcd(18, 12), 6);
    assert_int_equal(dt_gcd(7, 9), 1);
    assert_int_equal(dt_gcd(0, 5), 5);
    assert_int_equal(dt_gcd(5, 0), 5);
    assert_int_equal(dt_gcd(0, 0), 0);
}

static void what_is_rounded_up_too_far_is_told(void **state)
{
    (void)state;
    uint64_t up;
    assert_int_equal(dt_align_up(0, 64), 0);
    assert_int_equal(dt_align_up(1, 64), 64);
    assert_int_equal(dt_align_up(64, 64), 64);
    assert_int_equal(dt_align_up(65, 1), 65);
    assert_true(dt_round_up(UINT64_MAX - 63, 64, &up));
    assert_int_equal(up, UINT64_MAX - 63);
    assert_false(dt_round_up(UINT64_MAX - 62, 64, &up));
    assert_true(dt_round_up(UINT64_MAX, 1, &up));
    assert_int_equal(up, UINT64_MAX);
}

#define T(f) cmocka_unit_test(f)
static void nothing_stays_that_a_terminal_would_obey(void **state)
{
    (void)state;
    static const struct {
        const char *text, *shown;
    } line[] = {{"", ""}, {"plain", "plain"},
        {"na\xC3\xAFve \xE2\x86\x92", "na\xC3\xAFve \xE2\x86\x92"}, {"\x1B[2J", "?[2J"},
        {"a\nspeed", "a?speed"},
        {"\xC2\x9B"
         "1m",
            "??1m"},
        {"cut \xE2\x86", "cut ??"}, {"\x7F", "?"}};
    for (size_t i = 0; i < DT_COUNT(line); i++) {
        char text[32];
        snprintf(text, sizeof text, "%s", line[i].text);
        dt_text_clean(text);
        assert_string_equal(text, line[i].shown);
    }
}

DT_TEST_GROUP(numbers)
{
    const struct CMUnitTest tests[] = {T(digits_are_read_as_far_as_they_go),
        T(digits_end_with_the_text), T(nothing_stays_that_a_terminal_would_obey),
        T(a_divisor_is_common_and_the_greatest), T(what_is_rounded_up_too_far_is_told)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
