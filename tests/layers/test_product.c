/* Products of matrices against their definitions. */
#include "tests/fixture/check.h"

#include <math.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/isa.h"
#include "engine/base/philox.h"
#include "layers/blocked/product.h"
#include "layers/blocked/tile.h"

/* Smaller than a vector, a little beside the sizes of blocks, and several blocks of each. */
static const struct sizes {
    int64_t m, n, k;
} cases[] = {{1, 1, 1}, {3, 5, 7}, {16, 64, 128}, {17, 65, 129}, {130, 1, 257}, {1, 200, 40},
    {401, 211, 140}, {404, 208, 96}, {20, 800, 300}};

static float *numbers(int64_t n, uint32_t key)
{
    float *p = test_calloc((size_t)n, sizeof *p);
    for (int64_t i = 0; i < n; i++)
        p[i] = dt_unit(dt_random(key, DT_RANDOM_TEST, 0, 0, (uint64_t)i).v[0]) - 0.5f;
    return p;
}

/* A matrix of rows by columns, as it lies or turned. */
static dti_matrix matrix(const float *p, int64_t rows, int64_t columns, bool turned)
{
    return turned ? (dti_matrix){p, 1, rows, DT_F32} : (dti_matrix){p, columns, 1, DT_F32};
}

static void multiply(dti_product_opts *p)
{
    p->work = test_malloc(dti_product_bytes(p->m, p->n));
    dti_product_run(p);
    test_free(p->work);
}

/* How far c is from its definition, as a share of the sum of magnitudes. */
static double farthest(const dti_product_opts *p)
{
    double worst = 0;
    const float *const a = p->a.p, *const b = p->b.p, *const c = p->c;
    for (int64_t i = 0; i < p->m; i++)
        for (int64_t j = 0; j < p->n; j++) {
            double sum = p->bias == NULL ? 0 : (double)p->bias[j], all = 1e-30 + fabs(sum);
            for (int64_t t = 0; t < p->k; t++) {
                const double x = (double)a[i * p->a.row + t * p->a.step] *
                                 (double)b[t * p->b.row + j * p->b.step];
                sum += x;
                all += fabs(x);
            }
            const double far = fabs(sum - (double)c[i * p->c_row + j]) / all;
            worst = isnan(worst) || far <= worst ? worst : far; /* a NaN stays */
        }
    return worst;
}

static void a_product_is_its_definition(void **state)
{
    (void)state;
    for (size_t s = 0; s < 4 * DT_COUNT(cases); s++) {
        const struct sizes z = cases[s / 4];
        float *a = numbers(z.m * z.k, 1), *b = numbers(z.k * z.n, 2), *bias = numbers(z.n, 3);
        float *c = test_calloc((size_t)(z.m * z.n), sizeof *c);
        dti_product_opts p = {z.m, z.n, z.k, matrix(a, z.m, z.k, s & 1), matrix(b, z.k, z.n, s & 2),
            .bias = s & 2 ? bias : NULL, .c = c, .c_row = z.n};
        multiply(&p);
        assert_true(farthest(&p) <= 1e-6);
        test_free(a);
        test_free(b);
        test_free(bias);
        test_free(c);
    }
}

static void sums_of_rows_are_sums(void **state)
{
    (void)state;
    for (size_t s = 0; s < DT_COUNT(cases); s++) {
        const struct sizes z = cases[s];
        float *a = numbers(z.m * z.k, 1), *b = numbers(z.k * z.n, 2);
        float *c = test_calloc((size_t)(z.m * z.n), sizeof *c);
        float *sums = test_calloc((size_t)z.m, sizeof *sums);
        dti_product_opts p = {z.m, z.n, z.k, matrix(a, z.m, z.k, true), matrix(b, z.k, z.n, false),
            .sums = sums, .c = c, .c_row = z.n};
        multiply(&p);
        for (int64_t i = 0; i < z.m; i++) {
            double sum = 0;
            for (int64_t t = 0; t < z.k; t++)
                sum += (double)a[t * z.m + i];
            assert_true(fabs(sum - (double)sums[i]) <= 1e-6 * (double)z.k);
        }
        assert_true(farthest(&p) <= 1e-6);
        test_free(a);
        test_free(b);
        test_free(c);
        test_free(sums);
    }
}

/* Rows [first, first + n) computed alone, on so many threads, have the bits of the whole. */
static void a_row_does_not_depend_on_its_neighbours_or_the_team(void **state)
{
    (void)state;
    enum { M = 401, N = 211, K = 140, FIRST = 77, ROWS = 9 };
    float *a = numbers(M * K, 1), *b = numbers(K * N, 2);
    float *whole = test_calloc(M * N, sizeof *whole), *part = test_calloc(ROWS * N, sizeof *part);
    dti_product_opts p = {
        M, N, K, matrix(a, M, K, false), matrix(b, K, N, true), .c = whole, .c_row = N};
    multiply(&p);
    const int threads = omp_get_max_threads();
    omp_set_num_threads(threads == 1 ? 3 : 1);
    p.m = ROWS;
    p.a.p = a + FIRST * K;
    p.c = part;
    multiply(&p);
    omp_set_num_threads(threads);
    assert_memory_equal(part, whole + FIRST * N, ROWS * N * sizeof *part);
    test_free(a);
    test_free(b);
    test_free(whole);
    test_free(part);
}

static dt_bf16 *halves(const float *v, int64_t n)
{
    dt_bf16 *to = test_calloc((size_t)n, sizeof *to);
    for (int64_t i = 0; i < n; i++)
        to[i] = dt_bf16_from_float(v[i]);
    return to;
}

/* Factors and results of bf16 give the bits of the same numbers in fp32, rounded once at the end.
 */
static void values_of_bf16_are_widened_and_rounded(void **state)
{
    (void)state;
    for (size_t s = 0; s < 16 * DT_COUNT(cases); s++) {
        const struct sizes z = cases[s / 16];
        const bool turned = s & 1, half_b = s & 2, half_c = s & 4, biased = s & 8;
        float *wide[2] = {numbers(z.m * z.k, 1), numbers(z.k * z.n, 2)}, *bias = numbers(z.n, 3);
        dt_bf16 *a = halves(wide[0], z.m * z.k), *b = halves(wide[1], z.k * z.n);
        for (int64_t i = 0; i < z.m * z.k; i++)
            wide[0][i] = dt_bf16_to_float(a[i]);
        for (int64_t i = 0; i < z.k * z.n; i++)
            wide[1][i] = dt_bf16_to_float(b[i]);
        float *want = test_calloc((size_t)(z.m * z.n), sizeof *want);
        float *got = test_calloc((size_t)(z.m * z.n), sizeof *got);
        float *sums[2] = {
            test_calloc((size_t)z.m, sizeof **sums), test_calloc((size_t)z.m, sizeof **sums)};
        dti_product_opts p = {z.m, z.n, z.k, matrix(wide[0], z.m, z.k, turned),
            matrix(wide[1], z.k, z.n, !half_b), .bias = biased ? bias : NULL,
            .sums = turned ? sums[0] : NULL, .c = want, .c_row = z.n};
        multiply(&p);
        p.a.p = a;
        p.a.type = DT_BF16;
        p.b.p = half_b ? (void *)b : wide[1];
        p.b.type = half_b ? DT_BF16 : DT_F32;
        p.sums = turned ? sums[1] : NULL;
        p.c = got;
        p.c_type = half_c ? DT_BF16 : DT_F32;
        multiply(&p);
        for (int64_t i = 0; i < z.m * z.n; i++)
            if (half_c)
                assert_int_equal(((dt_bf16 *)(void *)got)[i], dt_bf16_from_float(want[i]));
            else
                assert_memory_equal(got + i, want + i, sizeof *got);
        assert_memory_equal(sums[0], sums[1], (size_t)z.m * sizeof **sums);
        void *const all[] = {wide[0], wide[1], bias, a, b, want, got, sums[0], sums[1]};
        for (size_t i = 0; i < DT_COUNT(all); i++)
            test_free(all[i]);
    }
}

/* The k rows of n values, @row apart, as n rows of k. */
static dt_bf16 *columns_of(const dt_bf16 *rows, struct sizes z, int64_t row)
{
    dt_bf16 *columns = test_calloc((size_t)(z.n * z.k), sizeof *columns);
    for (int64_t k = 0; k < z.k; k++)
        for (int64_t j = 0; j < z.n; j++)
            columns[j * z.k + k] = rows[k * row + j];
    return columns;
}

/* The tile's b packed, which is all that it then has of it. */
static uint32_t *words_of(dti_tile *t)
{
    uint32_t *words =
        aligned_alloc(64, (size_t)dti_tile_packed_words(t->depth, t->n) * sizeof *words);
    assert_non_null(words);
    dti_tile_pack(t, words);
    t->b = NULL;
    t->b_bf16 = NULL;
    t->b_packed = words;
    return words;
}

/* Factors from -1 to 1 in steps of 1/8 are themselves in bf16, and so sums of a few hundred
 * products are exact in whatever order: nothing may be off, nor anything beside the matrix be
 * touched. What rounds its factors takes either of them in bf16 as well, b also transposed or
 * packed before. */
static void a_tile_is_its_definition(void **state)
{
    (void)state;
    enum { GAP = 16 };
    static const struct sizes tiles[] = {
        {1, 16, 1}, {64, 64, 64}, {33, 48, 31}, {64, 80, 65}, {65, 16, 130}, {17, 208, 96}};
    dti_tile_fn *const fns[] = {dti_tile_best(), dti_tile_bf16()};
    for (size_t s = 0; s < 128 * DT_COUNT(tiles); s++) {
        const struct sizes z = tiles[s / 128];
        const int64_t row = z.n + GAP;
        const bool turned = s & 1, add = s & 2, rounds = s & 4, half_a = s & 8, half_b = s & 16;
        const bool packed = s & 32, b_turned = s & 64;
        if (fns[rounds] == NULL || (!rounds && (half_a || half_b || packed)) ||
            (turned && half_a) || (b_turned && !half_b))
            continue; /* no AVX512_BF16 here, or nothing that it takes */
        float *a = numbers(z.m * z.k, 1), *b = numbers(z.k * row, 2);
        float *c = test_calloc((size_t)(z.m * row), sizeof *c);
        for (int64_t i = 0; i < z.m * z.k; i++)
            a[i] = rintf(16 * a[i]) / 8;
        for (int64_t i = 0; i < z.k * row; i++)
            b[i] = rintf(16 * b[i]) / 8;
        for (int64_t i = 0; i < z.m * row; i++)
            c[i] = 3;
        dt_bf16 *a_bf16 = half_a ? halves(a, z.m * z.k) : NULL;
        dt_bf16 *b_bf16 = half_b ? halves(b, z.k * row - GAP) : NULL;
        if (b_turned) {
            dt_bf16 *rows = b_bf16;
            b_bf16 = columns_of(rows, z, row);
            test_free(rows);
        }
        dti_tile tile = {.a = half_a ? NULL : a,
            .row = turned ? 1 : z.k,
            .step = turned ? z.m : 1,
            .b = half_b ? NULL : b,
            .a_bf16 = a_bf16,
            .b_bf16 = b_bf16,
            .b_row = b_turned ? z.k : row,
            .b_transposed = b_turned,
            .c = c,
            .c_row = row,
            .m = z.m,
            .n = z.n,
            .depth = z.k,
            .add = add};
        uint32_t *words = packed ? words_of(&tile) : NULL;
        fns[rounds](&tile);
        for (int64_t i = 0; i < z.m * row; i++) {
            double want = i % row < z.n && !add ? 0 : 3;
            for (int64_t t = 0; t < z.k && i % row < z.n; t++)
                want += (double)a[turned ? t * z.m + i / row : i / row * z.k + t] *
                        (double)b[t * row + i % row];
            assert_true((double)c[i] == want);
        }
        free(words);
        test_free(a_bf16);
        test_free(b_bf16);
        test_free(a);
        test_free(b);
        test_free(c);
    }
}

static void limit(const char *isa)
{
    dt_isa was;
    dt_err err = {0};
    assert_ok(dt_isa_limit(isa, &was, &err), &err);
}

/* Those that fuse multiplication and addition do so in one order, whatever their vectors are. */
static void lesser_processors_multiply_as_well(void **state)
{
    static const char *const isa[] = {"plain", "avx2", "amx"};
    enum { M = 401, N = 211, K = 140 };
    float *a = numbers(M * K, 1), *b = numbers(K * N, 2), *c[DT_COUNT(isa)];
    for (size_t i = 0; i < DT_COUNT(isa); i++) {
        limit(isa[i]);
        a_product_is_its_definition(state);
        sums_of_rows_are_sums(state);
        a_row_does_not_depend_on_its_neighbours_or_the_team(state);
        a_tile_is_its_definition(state);
        values_of_bf16_are_widened_and_rounded(state);
        c[i] = test_calloc(M * N, sizeof *c[i]);
        dti_product_opts p = {
            M, N, K, matrix(a, M, K, true), matrix(b, K, N, false), .c = c[i], .c_row = N};
        multiply(&p);
    }
    assert_memory_equal(c[1], c[2], M * N * sizeof *c[1]);
    for (size_t i = 0; i < DT_COUNT(isa); i++)
        test_free(c[i]);
    test_free(a);
    test_free(b);
}

DT_TEST_GROUP(product)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_product_is_its_definition),
        cmocka_unit_test(sums_of_rows_are_sums),
        cmocka_unit_test(a_row_does_not_depend_on_its_neighbours_or_the_team),
        cmocka_unit_test(a_tile_is_its_definition),
        cmocka_unit_test(values_of_bf16_are_widened_and_rounded),
        cmocka_unit_test(lesser_processors_multiply_as_well),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
