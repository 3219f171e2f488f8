/* Kernels that are compiled for several instruction sets: each that this machine has gives the bits
 * of the one that needs none, whatever the numbers and however many the channels. */
#include "tests/fixture/check.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/cpu.h"
#include "engine/base/philox.h"
#include "layers/cpu/batchnorm_rows.h"
#include "layers/cpu/lanes.h"
#include "layers/cpu/maxpool_rows.h"

enum { ROWS = 7, CHANNELS = 61, VALUES = ROWS * CHANNELS, MOST = VALUES * 4 };

static const int widths[] = {1, 3, 4, 8, 15, 16, 17, 40, 61};

/* Random values and, among them, what kernels may not confuse: zeros of both signs, ties, NaN and
 * numbers beyond the range. */
static void fill(void *to, dt_dtype t, uint32_t key)
{
    static const float odd[] = {0.0f, -0.0f, 1.0f, -1.0f, NAN, INFINITY, -INFINITY, 3.3e38f,
        1.00390625f, 1.01171875f, 1.00390637f, 2e-38f};
    for (uint64_t i = 0; i < VALUES; i++) {
        const uint32_t u = dt_random(key, DT_RANDOM_DATA, 0, 0, i).v[0];
        const float f = u % 5 == 0 ? odd[u / 5 % DT_COUNT(odd)] : 4 * dt_unit(u) - 2;
        dti_store(to, (int64_t)i, t, f);
    }
}

static void same(const void *got, const void *want, size_t bytes, const char *what, int lanes)
{
    if (memcmp(got, want, bytes) != 0)
        fail_msg("%s: instruction set %d gives other bits", what, lanes);
}

typedef struct results {
    unsigned char y[MOST], dx[MOST];
    float sum[CHANNELS], total[CHANNELS], squares[CHANNELS], dbias[CHANNELS], products[CHANNELS];
} results;

static void normalise_all(const dti_batchnorm_rows *on, int n, dt_dtype t, results *r)
{
    float f[5][VALUES];
    unsigned char x[MOST], dy[MOST];
    for (uint32_t k = 0; k < 5; k++)
        fill(f[k], DT_F32, k);
    fill(x, t, 10);
    fill(dy, t, 11);
    memset(r, 0, sizeof *r);
    const dti_norm p = {f[0], f[1], f[2], f[3], f[4]};
    on->add_rows(x, ROWS, CHANNELS, n, r->sum);
    on->add_distances(x, ROWS, CHANNELS, n, f[0], r->total, r->squares);
    on->normalise(x, r->y, ROWS, CHANNELS, n, &p);
    on->add_products(x, dy, ROWS, CHANNELS, n, &p, r->dbias, r->products);
    on->differentiate(x, dy, r->dx, ROWS, CHANNELS, n, &p);
}

/* Which of two NaN a sum is, is the processor's choice. */
static void forget_nan(results *r, dt_dtype t)
{
    for (int64_t i = 0; i < VALUES; i++) {
        if (isnan(dti_load(r->y, i, t)))
            dti_store(r->y, i, t, 0);
        if (isnan(dti_load(r->dx, i, t)))
            dti_store(r->dx, i, t, 0);
    }
    for (float *f = r->sum; f < r->products + CHANNELS; f++)
        if (isnan(*f))
            *f = 0;
}

static void batch_normalisation_is_the_same_on_all(void **state)
{
    (void)state;
    results want, got;
    for (int lanes = DTI_LANES_PLAIN + 1; lanes <= dti_lane_set(); lanes++)
        for (int t = 0; t < DT_DTYPES; t++)
            for (int relu = 0; relu < 2; relu++)
                for (size_t i = 0; i < DT_COUNT(widths); i++) {
                    normalise_all(
                        dti_batchnorm_rows_of(0, relu, (dt_dtype)t), widths[i], (dt_dtype)t, &want);
                    normalise_all(dti_batchnorm_rows_of(lanes, relu, (dt_dtype)t), widths[i],
                        (dt_dtype)t, &got);
                    forget_nan(&want, (dt_dtype)t);
                    forget_nan(&got, (dt_dtype)t);
                    same(&got, &want, sizeof got, "batchnorm", lanes);
                }
}

typedef struct pooled {
    unsigned char y[CHANNELS * 4], dx[CHANNELS * 4];
    dt_bf16 at[CHANNELS], again[CHANNELS];
} pooled;

/* A window of three rows by two pixels; and a pixel that two windows reach. */
static void pool_all(const dti_maxpool_rows *on, int n, dt_dtype t, pooled *r)
{
    unsigned char x[MOST];
    fill(x, t, 20);
    memset(r, 0, sizeof *r);
    const dti_window w = {x, 2 * CHANNELS, CHANNELS, 3, 2, 1, 3};
    on->find_max(&w, n, r->y, r->at);
    on->find_again(&w, n, r->y, r->again);
    dt_bf16 at[2][CHANNELS];
    for (int c = 0; c < CHANNELS; c++) {
        at[0][c] = dt_bf16_from_float((float)(c % 3 + 4));
        at[1][c] = dt_bf16_from_float((float)(c % 2 + 3));
    }
    const dti_reach g = {at[0], 0, CHANNELS, x, 0, CHANNELS, 1, 2, 5, 0, 2};
    on->gather(&g, n, r->dx);
}

static void max_pool_is_the_same_on_all(void **state)
{
    (void)state;
    pooled want, got;
    for (int lanes = DTI_LANES_PLAIN + 1; lanes <= dti_lane_set(); lanes++)
        for (int t = 0; t < DT_DTYPES; t++)
            for (size_t i = 0; i < DT_COUNT(widths); i++) {
                pool_all(dti_maxpool_rows_of(0, (dt_dtype)t), widths[i], (dt_dtype)t, &want);
                pool_all(dti_maxpool_rows_of(lanes, (dt_dtype)t), widths[i], (dt_dtype)t, &got);
                same(&got, &want, sizeof got, "maxpool", lanes);
            }
}

static void the_maximum_is_found_where_it_was(void **state)
{
    (void)state;
    pooled r;
    for (int lanes = DTI_LANES_PLAIN; lanes <= dti_lane_set(); lanes++)
        for (int t = 0; t < DT_DTYPES; t++) {
            pool_all(dti_maxpool_rows_of(lanes, (dt_dtype)t), CHANNELS, (dt_dtype)t, &r);
            same(r.again, r.at, sizeof r.at, "the maximum again", lanes);
        }
}

DT_TEST_GROUP(lanes)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(batch_normalisation_is_the_same_on_all),
        cmocka_unit_test(max_pool_is_the_same_on_all),
        cmocka_unit_test(the_maximum_is_found_where_it_was),
    };
    dt_cpu_setup(1); /* denormals are flushed, as in training */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
