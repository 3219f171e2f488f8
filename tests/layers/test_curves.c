/* The functions of layers/elementwise/curves.h against the C library in double precision, over
 * floats of all magnitudes. */
#include "tests/fixture/check.h"

#include <math.h>

#include "layers/elementwise/curves.h"

typedef struct curve {
    const char *name;
    float (*ours)(float x);
    double (*theirs)(double x);
    float least, most; /* of x */
    double ulps;
    bool flushes; /* what is no normal number may be 0 */
} curve;

static float ours_exp(float x)
{
    return dti_curve_exp(x);
}

static float ours_sigmoid(float x)
{
    return dti_curve_sigmoid(x);
}

static double theirs_sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}

static float ours_tanh(float x)
{
    return dti_curve_tanh(x);
}

static float ours_below(float x)
{
    return dti_curve_normal(x).below;
}

static double theirs_below(double x)
{
    return 0.5 * erfc(-x / sqrt(2));
}

static float ours_density(float x)
{
    return dti_curve_normal(x).density;
}

static double theirs_density(double x)
{
    return exp(-0.5 * x * x) / sqrt(8 * atan(1));
}

static float ours_power(float x)
{
    return dti_curve_pow(x, -0.75f);
}

static double theirs_power(double x)
{
    return pow(x, -0.75);
}

static float ours_inverse(float x)
{
    return dti_curve_pow(x, -1.0f);
}

static double theirs_inverse(double x)
{
    return 1 / x;
}

static float ours_steep(float x)
{
    return dti_curve_pow(x, 8.0f);
}

static double theirs_steep(double x)
{
    return pow(x, 8);
}

static const curve curves[] = {
    {"exp", ours_exp, exp, -INFINITY, INFINITY, 2, false},
    {"sigmoid", ours_sigmoid, theirs_sigmoid, -INFINITY, INFINITY, 3, true},
    {"tanh", ours_tanh, tanh, -INFINITY, INFINITY, 2, false},
    {"share of the normal distribution", ours_below, theirs_below, -INFINITY, INFINITY, 8, true},
    {"its density", ours_density, theirs_density, -INFINITY, INFINITY, 3, true},
    {"x^-0.75", ours_power, theirs_power, 0x1p-126f, INFINITY, 4, false},
    {"x^-1", ours_inverse, theirs_inverse, 0x1p-126f, INFINITY, 4, false},
    {"x^8", ours_steep, theirs_steep, 0x1p-16f, INFINITY, 16, false},
};

/* Of the last place of a float with this value; at least that of the smallest normal one, so that
 * flushing denormal numbers to zero would be seen, but not their last bit. */
static double last_place(double value)
{
    const double a = fabs(value) > 0x1p-126 ? fabs(value) : 0x1p-126;
    return ldexp(1, ilogb(a) - 23);
}

static double distance(float got, double want)
{
    if (isnan(got) || isnan(want))
        return isnan(got) && isnan(want) ? 0 : HUGE_VAL;
    if (isinf((float)want) || isinf(got)) /* the largest float may be just passed or just not */
        return (got > 0) == (want > 0) && fabs((double)got) > 0x1.fffff0p127 &&
                       fabs(want) > 0x1.fffff0p127
                   ? 0
                   : HUGE_VAL;
    return fabs((double)got - want) / last_place(want);
}

static void check(const curve *c, float x)
{
    if (!(x >= c->least && x <= c->most) && !isnan(x))
        return;
    const double want = c->theirs((double)x);
    if (c->flushes && fabs(want) < 0x1p-126 && c->ours(x) == 0)
        return;
    const double off = distance(c->ours(x), want);
    if (!(off <= c->ulps))
        fail_msg("%s of %a is %a, not %a: %g units off", c->name, (double)x, (double)c->ours(x),
            want, off);
}

/* A prime step through all bit patterns: every exponent and sign comes often. */
static void curves_are_a_few_units_in_the_last_place_off(void **state)
{
    (void)state;
    for (size_t i = 0; i < DT_COUNT(curves); i++)
        for (uint64_t bits = 0; bits <= UINT32_MAX; bits += 4093)
            check(&curves[i], dti_float((uint32_t)bits));
}

static void curves_are_right_around_zero_one_and_the_ends(void **state)
{
    (void)state;
    static const float odd[] = {0.0f, 0x1p-149f, 0x1p-126f, 1e-20f, 0.5f, 0.55f, 1.0f,
        0x1.6a09e6p-1f, 0x1.6a09e6p0f, 14.2f, 15.0f, 16.0f, 87.3f, 88.7f, 88.8f, 89.0f, 103.9f,
        104.1f, 1e10f, 0x1.fffffep127f, INFINITY, NAN};
    for (size_t i = 0; i < DT_COUNT(curves); i++)
        for (size_t k = 0; k < DT_COUNT(odd); k++) {
            const float x = odd[k];
            check(&curves[i], x);
            check(&curves[i], -x);
            check(&curves[i], nextafterf(x, INFINITY));
            check(&curves[i], nextafterf(x, -INFINITY));
        }
}

static void limits_are_exact(void **state)
{
    (void)state;
    assert_true(dti_curve_exp(-INFINITY) == 0 && isinf(dti_curve_exp(INFINITY)));
    assert_true(dti_curve_exp(0) == 1 && dti_curve_exp(-0.0f) == 1);
    assert_true(dti_curve_sigmoid(-INFINITY) == 0 && dti_curve_sigmoid(INFINITY) == 1);
    assert_true(dti_curve_sigmoid(0) == 0.5f);
    assert_true(dti_curve_tanh(-INFINITY) == -1 && dti_curve_tanh(INFINITY) == 1);
    assert_true(dti_curve_tanh(-0.0f) == 0 && signbit(dti_curve_tanh(-0.0f)));
    assert_true(dti_curve_normal(-INFINITY).below == 0 && dti_curve_normal(INFINITY).below == 1);
    assert_true(dti_curve_normal(INFINITY).density == 0);
    assert_true(dti_curve_pow(1, -0.75f) == 1 && dti_curve_pow(16, -0.75f) == 0.125f);
    assert_true(dti_curve_pow(INFINITY, -0.75f) == 0 && isnan(dti_curve_pow(NAN, -0.75f)));
}

DT_TEST_GROUP(curves)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(curves_are_a_few_units_in_the_last_place_off),
        cmocka_unit_test(curves_are_right_around_zero_one_and_the_ends),
        cmocka_unit_test(limits_are_exact),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
