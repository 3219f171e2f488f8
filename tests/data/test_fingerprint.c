/* What tells one data set from another. */
#include <math.h>

#include "data/fingerprint.h"
#include "engine/base/alloc.h"
#include "tests/fixture/check.h"
#include "tests/fixture/comma_locale.h"

/* Ten samples of three values; the label of sample i is i + a half of @moved. */
static float moved;
static int64_t bad;

static int64_t ten(const dt_source *s)
{
    (void)s;
    return 10;
}

static dt_status give(
    const dt_source *s, int64_t i, uint64_t key, float *x, int32_t *label, dt_err *err)
{
    (void)key;
    if (i == bad)
        return DT_FAIL(err, DT_E_DATA, "bad");
    for (int k = 0; k < 3; k++)
        x[k] = (float)(i * 3 + k) + moved;
    label[0] = (int32_t)i + (isfinite(moved) ? (int32_t)(moved / 2) : 0);
    if (s->opts.labels > 1)
        label[1] = DT_LABEL_NONE;
    return DT_OK;
}

static const dt_source_desc desc = {.name = "ten", .count = ten, .read = give};
static const dt_source_desc made = {.name = "made", .count = ten, .read = give, .made_up = true};

static const char *fingerprint_of(const dt_source_desc *d, int64_t labels, dt_label_kind kind)
{
    static char text[2][DT_FINGERPRINT];
    static int turn;
    const dt_source s = {
        .desc = d, .opts = {.shape = {1, 1, 1, 3}, .labels = labels, .label_kind = kind}};
    dt_err err = {0};
    turn = !turn;
    assert_ok(dt_source_fingerprint(text[turn], &s, &err), &err);
    return text[turn];
}

static void it_is_the_mean_and_the_labels_of_samples_from_first_to_last(void **state)
{
    (void)state;
    moved = 0;
    bad = -1;
    assert_string_equal(fingerprint_of(&desc, 0, DT_LABEL_CLASS), "1:0 10:3 19:6 28:9");
    assert_string_equal(fingerprint_of(&desc, 2, DT_LABEL_CLASS), "1:4294967295 10:2 19:5 28:8");
    assert_string_equal(fingerprint_of(&desc, 1, DT_LABEL_VALUE), "1:0 10:0 19:0 28:0");
    assert_string_equal(fingerprint_of(&made, 1, DT_LABEL_CLASS), "");
    bad = 3;
    assert_string_equal(fingerprint_of(&desc, 1, DT_LABEL_CLASS), "1:0 bad 19:6 28:9");
    bad = -1;
    moved = NAN;
    assert_string_equal(fingerprint_of(&desc, 1, DT_LABEL_VALUE), "nan:0 nan:0 nan:0 nan:0");
    moved = 0;
}

static void rounding_is_no_other_data(void **state)
{
    (void)state;
    static const struct {
        const char *a, *b;
        bool same;
    } cases[] = {
        {"", "", true},
        {"1:0 2:1", "1:0 2:1", true},
        {"1:0 2.00001:1", "1.00001:0 2:1", true},
        {"-0.5:0", "-0.50001:0", true},
        {"1000:0", "1000.01:0", true},
        {"1000:0", "1001:0", false},
        {"0.5:0", "0.501:0", false},
        {"0.5:0", "-0.5:0", false},
        {"1:0 2:1", "1:0 2:2", false},
        {"1:0 2:1", "1:0", false},
        {"1:0", "", false},
        {"1:0 bad", "1:0 bad", true},
        {"1:0 bad", "1:0 0:0", false},
        {"nan:0", "nan:0", true},
        {"nan:0", "0:0", false},
        {"0:0", "nan:0", false},
        {"inf:0", "inf:0", true},
        {"inf:0", "1:0", false},
        {"1:0", "inf:0", false},
        {"inf:0", "-inf:0", false},
        {"x", "y", false},
    };
    for (size_t i = 0; i < DT_COUNT(cases); i++)
        if (dt_fingerprints_agree(cases[i].a, cases[i].b) != cases[i].same)
            fail_msg("'%s' and '%s'", cases[i].a, cases[i].b);
}

static void a_host_programs_locale_is_not_seen(void **state)
{
    (void)state;
    moved = 0.5F;
    bad = -1;
    comma_locale();
    const char *text = fingerprint_of(&desc, 1, DT_LABEL_CLASS);
    const bool same = dt_fingerprints_agree("1.5:0 10.5:3", "1.50001:0 10.5:3");
    c_locale();
    moved = 0;
    assert_string_equal(text, "1.5:0 10.5:3 19.5:6 28.5:9");
    assert_true(same);
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    const dt_source s = {.desc = &desc, .opts = {.shape = {1, 1, 1, 3}}};
    char text[DT_FINGERPRINT];
    for (long n = 1; n <= 3; n++) {
        dt_err err = {0};
        dti_alloc_fail_at(n);
        const dt_status st = dt_source_fingerprint(text, &s, &err);
        dti_alloc_fail_at(0);
        assert_int_equal(st, n < 3 ? DT_E_NOMEM : DT_OK);
    }
}

DT_TEST_GROUP(fingerprint)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_is_the_mean_and_the_labels_of_samples_from_first_to_last),
        cmocka_unit_test(rounding_is_no_other_data),
        cmocka_unit_test(a_host_programs_locale_is_not_seen),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
