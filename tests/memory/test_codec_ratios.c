/* How small codecs make values of a given density. */
#include <math.h>

#include "engine/base/io.h"
#include "tests/fixture/codec_check.h"

/* Notes a.md section 0.5, "Lossless codec ratios for FP32 at density d": each line of the table.
 * Its column "CSR, 4-byte index" is left out, because no codec here has indices of four bytes: one
 * byte is always shorter. */
static const struct line {
    double d, zvc, csr, csr_fp16, csr_fp8;
} ratios[] = {
    {0.05, 12.31, 16.00, 26.67, 40.00},
    {0.10, 7.62, 8.00, 13.33, 20.00},
    {0.20, 4.32, 4.00, 6.67, 10.00},
    {0.30, 3.02, 2.67, 4.44, 6.67},
    {0.40, 2.32, 2.00, 3.33, 5.00},
    {0.50, 1.88, 1.60, 2.67, 4.00},
    {0.60, 1.58, 1.33, 2.22, 3.33},
    {0.80, 1.20, 1.00, 1.67, 2.50},
    {1.00, 0.97, 0.80, 1.33, 2.00},
};

/* Densities between the table's lines. */
static const double left_out[] = {0.01, 0.15, 0.25, 0.35, 0.45, 0.55, 0.70, 0.75, 0.90, 0.95};

enum { RATIO_COUNT = 1 << 20 };

/* Exactly the share d of the values is not zero, spread evenly. Row ends, 4 bytes a row, and the
 * tables of chunks are not in the notes' formula: they are taken off. */
static void assert_ratio(const char *name, double d, double want)
{
    const dt_codec *c = dti_codec_find(name);
    const size_t capacity = c->capacity(RATIO_COUNT, d);
    uint32_t *x = dt_alloc(RATIO_COUNT, 4);
    uint8_t *packed = dt_alloc(capacity, 1);
    size_t used = 0;
    assert_true(x != NULL && packed != NULL);
    double sum = 0;
    for (size_t i = 0; i < RATIO_COUNT; i++) {
        const double before = floor(sum);
        sum = d * (double)(i + 1) + 1e-9;
        x[i] = floor(sum) > before ? 0x3F800000u + (uint32_t)i : 0;
    }
    assert_true(c->encode(x, RATIO_COUNT, packed, capacity, &used));
    const size_t chunks = RATIO_COUNT / CODEC_CHUNK;
    const size_t tables = 8 * chunks + (strcmp(name, "zvc") == 0 ? 0 : RATIO_COUNT / 64);
    const size_t bytes = c->sparse ? used - tables : used;
    const size_t filling = 8 * chunks; /* a chunk's last words may be partial */
    const double most = 4.0 * RATIO_COUNT / (double)(bytes - filling);
    const double got = 4.0 * RATIO_COUNT / (double)bytes;
    if (!(got <= want + 0.005 && most >= want - 0.005))
        fail_msg("a.md 0.5, table of codec ratios, line d = %.2f: %s gives %.4f, not %.2f", d, name,
            got, want);
    dt_free(packed);
    dt_free(x);
}

static void ratios_are_those_of_the_notes(void **state)
{
    (void)state;
    for (size_t i = 0; i < DT_COUNT(ratios); i++) {
        assert_ratio("zvc", ratios[i].d, ratios[i].zvc);
        assert_ratio("csr", ratios[i].d, ratios[i].csr);
        assert_ratio("csr_fp16", ratios[i].d, ratios[i].csr_fp16);
        assert_ratio("csr_fp8", ratios[i].d, ratios[i].csr_fp8);
    }
    for (size_t i = 0; i < DT_COUNT(left_out); i++) {
        const double d = left_out[i], v[] = {4, 2, 4.0 / 3, 1}; /* bytes of a value */
        static const char *const csr[] = {"csr", "csr_fp16", "csr_fp10", "csr_fp8"};
        assert_ratio("zvc", d, 1 / (d + 1.0 / 32));
        for (size_t k = 0; k < DT_COUNT(csr); k++)
            assert_ratio(csr[k], d, 4 / (d * (1 + v[k])));
    }
    for (size_t i = 0; i < DT_COUNT(ratios); i++) /* a column the table lacks */
        assert_ratio("csr_fp10", ratios[i].d, 4 / (ratios[i].d * (1 + 4.0 / 3)));
    assert_ratio("zvc", 0.125, 6.40); /* the line under the table: they tie */
    assert_ratio("csr", 0.125, 6.40);
    assert_ratio("csr_fp10", 0.5, 4 / (0.5 * (1 + 4.0 / 3))); /* section 5a, v = 4/3 */
    assert_ratio("zvc", 0.38, 2.43);                          /* section 6d, test 5: 62 % zeros */
    assert_ratio("fp16", 1.0, 2.0); /* section 5a: 2 / 3 / 4, whatever the density */
    assert_ratio("fp10", 1.0, 3.0);
    assert_ratio("fp8", 0.5, 4.0);
}

/* The same lines as the notes' file has them now, so that neither side changes alone. */
static void the_table_is_the_notes_table(void **state)
{
    (void)state;
    const char *path = dt_shared("systems/a.md");
    if (path == NULL)
        skip();
    char *text;
    size_t n;
    dt_err err = {0};
    assert_ok(dt_read_file(&text, &n, path, 1 << 24, DT_E_DATA, &err), &err);
    const char *at = strstr(text, "| d | ZVC 1/(d+1/32) | CSR, 1-byte index 4/(5d) |");
    assert_non_null(at);
    at = strchr(strchr(at, '\n') + 1, '\n'); /* past the rule */
    for (size_t i = 0; i < DT_COUNT(ratios); i++) {
        double d, zvc, csr, wide, half, eighth;
        assert_non_null(at);
        assert_int_equal(sscanf(at + 1, "| %lf | %lf | %lf | %lf | %lf | %lf |", &d, &zvc, &csr,
                             &wide, &half, &eighth),
            6);
        assert_true(d == ratios[i].d && zvc == ratios[i].zvc && csr == ratios[i].csr);
        assert_true(half == ratios[i].csr_fp16 && eighth == ratios[i].csr_fp8);
        at = strchr(at + 1, '\n');
    }
    assert_true(at != NULL && at[1] != '|');
    dt_free(text);
}

/* Section 6d, test 1: 4 bytes to 132 for a window of 32 values. */
static void a_window_of_zvc_takes_a_word_and_its_values(void **state)
{
    (void)state;
    const dt_codec *c = dti_codec_find("zvc");
    uint32_t x[32] = {0};
    uint8_t packed[160];
    for (size_t k = 0; k <= 32; k++) {
        size_t used = 0;
        assert_true(c->encode(x, 32, packed, sizeof packed, &used));
        assert_int_equal(used, 8 + 4 + 4 * k);
        if (k < 32)
            x[(k * 7 + 3) % 32] = 0x80000000u; /* -0.0 is a value */
    }
}

DT_TEST_GROUP(codec_ratios)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ratios_are_those_of_the_notes),
        cmocka_unit_test(the_table_is_the_notes_table),
        cmocka_unit_test(a_window_of_zvc_takes_a_word_and_its_values),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
