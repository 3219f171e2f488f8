/* The norm of all gradients, by which they are clipped. */
#include <math.h>
#include <omp.h>

#include "engine/driver.h"
#include "tests/fixture/check.h"
#include "tests/fixture/trainee.h"

static dt_trainee trained(void)
{
    dt_trainee t = dt_trainee_open(dt_trainee_resnet(), &(dt_trainee_opts){0});
    dt_err err = {0};
    assert_ok(dt_trainee_run(&t, DT_PROGRAM_FIRST, &err), &err);
    return t;
}

static void the_norm_is_that_of_all_gradients_together(void **state)
{
    (void)state;
    dt_trainee t = trained();
    double want = 0;
    int n = 0;
    for (size_t i = 0; i < t.map->n; i++) {
        const dt_home *h = &t.map->home[i];
        n += h->port == DT_DP;
        const float *v = dt_runner_home(t.runner, (int32_t)i);
        for (size_t k = 0; h->port == DT_DP && k < h->bytes / sizeof *v; k++)
            want += (double)v[k] * (double)v[k];
    }
    int32_t bad;
    double got;
    dt_err err = {0};
    assert_true(n > DTI_SQUARES); /* or those that are asked about later would not be looked at */
    assert_ok(dti_runner_norm(t.runner, DT_DP, &got, &bad, &err), &err);
    assert_true(want > 0 && fabs(got - sqrt(want)) < 1e-12 * got);
    assert_int_equal(bad, -1);
    dt_trainee_close(&t);
}

static void any_number_of_threads_gives_the_same_norm(void **state)
{
    (void)state;
    dt_trainee t = trained();
    const int usual = omp_get_max_threads();
    int32_t bad;
    double want, got;
    dt_err err = {0};
    assert_ok(dti_runner_norm(t.runner, DT_DP, &want, &bad, &err), &err);
    for (int threads = 1; threads <= 5; threads++) {
        omp_set_num_threads(threads);
        assert_ok(dti_runner_norm(t.runner, DT_DP, &got, &bad, &err), &err);
        assert_true(got == want);
    }
    omp_set_num_threads(usual);
    dt_trainee_close(&t);
}

static void the_first_gradient_that_is_not_finite_is_named(void **state)
{
    (void)state;
    dt_trainee t = trained();
    int32_t bad, first = -1;
    for (int32_t i = (int32_t)t.map->n - 1; i >= 0; i--)
        if (t.map->home[i].port == DT_DP && i % 3 == 1 && i > (int32_t)t.map->n * 2 / 3) {
            float *v = dt_runner_home(t.runner, i);
            v[t.map->home[i].bytes / sizeof *v - 1] = i % 2 == 0 ? NAN : -INFINITY;
            first = i;
        }
    double norm;
    dt_err err = {0};
    assert_true(first >= 0);
    assert_ok(dti_runner_norm(t.runner, DT_DP, &norm, &bad, &err), &err);
    assert_true(!isfinite(norm));
    assert_int_equal(bad, first);
    assert_ok(dti_runner_nonfinite(t.runner, DT_DP, &bad, &err), &err);
    assert_int_equal(bad, first);
    dt_trainee_close(&t);
}

DT_TEST_GROUP(gradient_norm)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_norm_is_that_of_all_gradients_together),
        cmocka_unit_test(any_number_of_threads_gives_the_same_norm),
        cmocka_unit_test(the_first_gradient_that_is_not_finite_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
