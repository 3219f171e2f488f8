/* The functions of layers/elementwise/rough_curves.h against the C library in double precision, at
 * every number of bf16. */
#include "tests/fixture/check.h"

#include <math.h>

#include "engine/dtype.h"
#include "layers/elementwise/rough_curves.h"

static double below(double x)
{
    return 0.5 * erfc(-x / sqrt(2));
}

static double density(double x)
{
    return exp(-0.5 * x * x) / sqrt(8 * atan(1));
}

static double logistic(double x)
{
    return 1 / (1 + exp(-x));
}

static double gelu(double x)
{
    return x * below(x);
}

static double gelu_slope(double x)
{
    return below(x) + x * density(x);
}

/* 2u of the approximation by tanh(u), and its derivative. */
static double twice_u(double x)
{
    return sqrt(2 / acos(-1)) * 2 * (x + 0.044715 * x * x * x);
}

static double gelu_tanh(double x)
{
    return x * logistic(twice_u(x));
}

static double gelu_tanh_slope(double x)
{
    const double s = logistic(twice_u(x)), u = sqrt(2 / acos(-1)) * 2 * (1 + 0.134145 * x * x);
    return s * (1 - s) == 0 ? s : s + x * u * s * (1 - s);
}

static double silu(double x)
{
    return x * logistic(x);
}

static double silu_slope(double x)
{
    const double s = logistic(x);
    return s * (1 - s) == 0 ? s : s + x * s * (1 - s);
}

static const struct curve {
    const char *name;
    dti_curve f;
    double (*value)(double x), (*slope)(double x);
} curves[] = {{"gelu", DTI_GELU, gelu, gelu_slope},
    {"gelu by tanh", DTI_GELU_TANH, gelu_tanh, gelu_tanh_slope},
    {"silu", DTI_SILU, silu, silu_slope}};

static float of_bits(uint32_t bits)
{
    return dti_float(bits << 16);
}

/* Fails on NaN as well. */
static void assert_near(const char *name, double x, double got, double want, double most)
{
    if (!(fabs(got - want) <= most))
        fail_msg("%s of %a is %.9g, not %.9g", name, x, got, want);
}

static void values_are_near(void **state)
{
    (void)state;
    for (size_t i = 0; i < DT_COUNT(curves); i++)
        for (uint32_t bits = 0; bits < 0x10000; bits++) {
            const float x = of_bits(bits);
            if (!isfinite(x))
                continue;
            const double want = curves[i].value((double)x),
                         got = (double)dti_rough_value(curves[i].f, x);
            assert_near(curves[i].name, (double)x, got, want, 2e-4 * fabs(want) + 1e-35);
        }
}

static void slopes_are_near(void **state)
{
    (void)state;
    for (size_t i = 0; i < DT_COUNT(curves); i++)
        for (uint32_t bits = 0; bits < 0x10000; bits++) {
            const float x = of_bits(bits);
            if (!isfinite(x))
                continue;
            const double want = curves[i].slope((double)x),
                         got = (double)dti_rough_slope(curves[i].f, x);
            assert_near(curves[i].name, (double)x, got, want, 2e-4);
        }
}

/* Rounded, a value is that of the curve or the one beside it, and seldom the latter. */
static void few_round_otherwise(void **state)
{
    (void)state;
    for (size_t i = 0; i < DT_COUNT(curves); i++) {
        int all = 0, other = 0;
        for (uint32_t bits = 0; bits < 0x10000; bits++) {
            const float x = of_bits(bits), want = (float)curves[i].value((double)x);
            if (!isfinite(x) || !(fabsf(want) > 1e-30f))
                continue;
            const int a = dt_bf16_from_float(dti_rough_value(curves[i].f, x));
            const int b = dt_bf16_from_float(want);
            all++;
            other += a != b;
            assert_true(a - b <= 1 && b - a <= 1);
        }
        assert_true(all > 20000 && other * 20 < all);
    }
}

static void limits_are_exact(void **state)
{
    (void)state;
    for (size_t i = 0; i < DT_COUNT(curves); i++) {
        const dti_curve f = curves[i].f;
        assert_true(isnan(dti_rough_value(f, NAN)) && isnan(dti_rough_slope(f, NAN)));
        assert_true(dti_rough_value(f, INFINITY) == INFINITY);
        assert_true(fabsf(dti_rough_value(f, -INFINITY)) < 0x1p-126f);
        assert_true(dti_rough_slope(f, INFINITY) == 1);
        assert_true(fabsf(dti_rough_slope(f, -INFINITY)) < 1e-35f);
        assert_true(dti_rough_value(f, 0) == 0 && dti_rough_value(f, -0.0f) == 0);
    }
}

DT_TEST_GROUP(rough_curves)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_are_near),
        cmocka_unit_test(slopes_are_near),
        cmocka_unit_test(few_round_otherwise),
        cmocka_unit_test(limits_are_exact),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
