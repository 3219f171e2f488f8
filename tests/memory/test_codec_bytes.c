/* Packed bytes that were changed or cut never lead a decoder outside its buffers. */
#include "tests/fixture/codec_check.h"

static void changed_bytes(const dt_codec *c)
{
    enum { COUNT = CODEC_CHUNK + 300 };
    static uint32_t x[COUNT];
    codec_fill(x, COUNT, 0.02, 9);
    const size_t capacity = c->capacity(COUNT, 1.0);
    uint8_t *packed = codec_guarded(capacity);
    size_t used = 0;
    assert_true(c->encode(x, COUNT, packed + CODEC_GUARD, capacity, &used));
    for (size_t i = 0; i < 160; i++) {
        uint8_t *hurt = dt_alloc(used, 1), *back = codec_guarded(4 * COUNT);
        assert_non_null(hurt);
        memcpy(hurt, packed + CODEC_GUARD, used);
        const size_t at = i < 60 ? i % used : codec_draw(3, i) % used;
        hurt[at] = (uint8_t)codec_draw(4, i);
        dt_err err = {0};
        const dt_status st = c->decode(hurt, used, back + CODEC_GUARD, COUNT, &err);
        assert_true(st == DT_OK ? err.n == 0 : st == DT_E_DATA && err.n == 1);
        codec_assert_guards(back, 4 * COUNT);
        dt_free(back);
        dt_free(hurt);
    }
    dt_free(packed);
}

static void changed_bytes_never_lead_outside(void **state)
{
    (void)state;
    codec_for_each(changed_bytes);
}

static void cut_bytes(const dt_codec *c)
{
    enum { COUNT = CODEC_CHUNK + 300 };
    static uint32_t x[COUNT], back[COUNT];
    codec_fill(x, COUNT, 0.5, 9);
    const size_t capacity = c->capacity(COUNT, 1.0) + 4;
    uint8_t *packed = dt_alloc(capacity, 1);
    size_t used = 0;
    assert_non_null(packed);
    assert_true(c->encode(x, COUNT, packed, capacity, &used));
    const size_t tries[] = {0, 1, 8, 15, 16, 17, used / 2, used - 4, used - 1, used + 1, used + 4};
    for (size_t i = 0; i < DT_COUNT(tries); i++) {
        dt_err err = {0};
        uint8_t *cut = dt_alloc(tries[i], 1);
        assert_non_null(cut);
        memcpy(cut, packed, tries[i]);
        assert_fails(c->decode(cut, tries[i], back, COUNT, &err), DT_E_DATA, &err, "are not 16684");
        dt_free(cut);
    }
    dt_free(packed);
}

static void bytes_of_another_length_are_refused(void **state)
{
    (void)state;
    codec_for_each(cut_bytes);
}

/* A table whose ends run backwards, masks that claim more than there is, a row past its end. */
static void lies_about_places_are_refused(void **state)
{
    (void)state;
    enum { COUNT = 2 * CODEC_CHUNK + 40, BYTES = 1 << 18 };
    static const struct lie {
        const char *codec;
        size_t at;
        uint8_t flip;
    } lies[] = {
        {"zvc", 0, 0x01},
        {"zvc", 7, 0x80},
        {"zvc", 8, 0x10},
        {"zvc", 16, 0x01},
        {"zvc", 24, 0x01},                            /* a mask bit */
        {"zvc", 24 + 4 * (COUNT / 32 + 1) - 1, 0x80}, /* one past the last element */
        {"csr", 0, 0x01},
        {"csr", 7, 0x80},
        {"csr", 16, 0x01},
        {"csr", 24, 0x80}, /* the end of a row */
        {"csr", 24 + 3, 0x80},
        {"csr", 24 + 4 * 128, 0x01}, /* the last row's */
        {"rle", 0, 0x01},
        {"rle", 7, 0x80},
        {"rle", 24, 0x01}, /* how many runs */
        {"rle", 24 + 11, 0x80},
        {"rle", 36, 0x01}, /* zeros of a run */
        {"rle", 37, 0x01}, /* its values */
        {"csr_fp8", 0, 0x02},
        {"csr_fp10", 24 + 2, 0x01},
        {"csr_fp16", 16, 0x80},
    };
    static uint32_t x[COUNT], back[COUNT];
    static uint8_t packed[BYTES];
    codec_fill(x, COUNT, 0.3, 11);
    for (size_t i = 0; i < DT_COUNT(lies); i++) {
        const dt_codec *c = dti_codec_find(lies[i].codec);
        size_t used = 0;
        dt_err err = {0};
        assert_non_null(c);
        assert_true(c->encode(x, COUNT, packed, BYTES, &used));
        packed[lies[i].at] ^= lies[i].flip;
        if (c->decode(packed, used, back, COUNT, &err) != DT_E_DATA)
            fail_msg("%s takes a change of byte %zu", c->name, lies[i].at);
    }
}

static void a_column_past_the_last_row_is_refused(void **state)
{
    (void)state;
    const dt_codec *c = dti_codec_find("csr");
    const uint32_t x[3] = {0, 7, 0};
    uint32_t back[3];
    uint8_t packed[64];
    size_t used = 0;
    dt_err err = {0};
    assert_true(c->encode(x, 3, packed, sizeof packed, &used));
    assert_int_equal(used, 8 + 4 + 4 + 4); /* chunk, row, value, column and filling */
    assert_int_equal(packed[16], 1);
    packed[16] = 2;
    assert_ok(c->decode(packed, used, back, 3, &err), &err);
    assert_int_equal(back[2], 7);
    packed[16] = 3;
    assert_fails(c->decode(packed, used, back, 3, &err), DT_E_DATA, &err, "sparse rows");
}

static void a_row_with_more_values_than_columns_is_refused(void **state)
{
    (void)state;
    const uint8_t packed[] = {5, 0, 0, 0, 0, 0, 0, 0, 4, 0, 0,
        0, /* five words; the row ends at 4 */
        1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 4, 0, 0, 0, 0, 1, 2, 2};
    uint32_t back[4];
    dt_err err = {0};
    const dt_codec *c = dti_codec_find("csr");
    assert_fails(c->decode(packed, sizeof packed, back, 3, &err), DT_E_DATA, &err, "sparse rows");
    err = (dt_err){0};
    assert_ok(c->decode(packed, sizeof packed, back, 4, &err), &err);
}

static void a_bit_past_the_last_value_is_refused(void **state)
{
    (void)state;
    const dt_codec *c = dti_codec_find("zvc");
    const uint32_t x[3] = {1, 2, 3};
    uint32_t *back = codec_words(x, 3);
    uint8_t packed[64];
    size_t used = 0;
    dt_err err = {0};
    assert_true(c->encode(x, 3, packed, sizeof packed, &used));
    packed[8] = 0x0B; /* as many bits, one of them for a fourth value */
    assert_fails(c->decode(packed, used, back, 3, &err), DT_E_DATA, &err, "by zvc");
    dt_free(back);
}

/* Two zeros and a value, a zero and two: by hand. A run that is longer than the tensor, or claims
 * another number of values, or is not all of it. */
static void runs_that_do_not_fit_are_refused(void **state)
{
    (void)state;
    static const uint8_t lies[][4] = {
        {2, 1, 1, 3}, {2, 2, 0, 2}, {1, 1, 1, 2}, {3, 1, 0, 3}, {2, 1, 2, 1}, {6, 0, 0, 0}};
    const dt_codec *c = dti_codec_find("rle");
    const uint32_t x[6] = {0, 0, 7, 0, 8, 9};
    static const uint8_t want[] = {4, 0, 0, 0, 0, 0, 0, 0, /* words: two runs, three values */
        2, 0, 0, 0, 2, 1, 1, 2, 7, 0, 0, 0, 8, 0, 0, 0, 9, 0, 0, 0};
    uint32_t *back = codec_words(x, 6);
    uint8_t packed[64];
    size_t used = 0;
    dt_err err = {0};
    assert_true(c->encode(x, 6, packed, sizeof packed, &used));
    assert_int_equal(used, sizeof want);
    assert_memory_equal(packed, want, sizeof want);
    for (size_t i = 0; i < DT_COUNT(lies); i++) {
        memcpy(packed + 12, lies[i], 4);
        err = (dt_err){0};
        assert_fails(c->decode(packed, used, back, 6, &err), DT_E_DATA, &err, "by rle");
    }
    dt_free(back);
}

/* The first of two chunks claims as many values as its mask, and there are none. */
static void a_chunk_past_the_end_is_not_read(void **state)
{
    (void)state;
    static const char *const names[] = {"zvc", "csr"};
    static uint32_t back[2 * CODEC_CHUNK];
    for (size_t i = 0; i < DT_COUNT(names); i++) {
        const size_t masks = CODEC_CHUNK / 8, rows = 4 * CODEC_CHUNK / 256;
        const size_t used = 16 + 2 * (i == 0 ? masks : rows);
        uint8_t *packed = dt_alloc(used, 1);
        dt_err err = {0};
        assert_non_null(packed);
        const uint64_t words = CODEC_CHUNK + (i == 0 ? 0 : CODEC_CHUNK / 4);
        memcpy(packed, &words, 8);
        if (i == 0)
            memset(packed + 16, 0xFF, masks);
        for (uint32_t r = 0; i == 1 && r < CODEC_CHUNK / 256; r++) {
            const uint32_t end = 256 * (r + 1);
            memcpy(packed + 16 + 4 * r, &end, 4);
        }
        assert_fails(dti_codec_find(names[i])->decode(packed, used, back, 2 * CODEC_CHUNK, &err),
            DT_E_DATA, &err, "changed or cut");
        dt_free(packed);
    }
}

DT_TEST_GROUP(codec_bytes)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(changed_bytes_never_lead_outside),
        cmocka_unit_test(bytes_of_another_length_are_refused),
        cmocka_unit_test(lies_about_places_are_refused),
        cmocka_unit_test(a_column_past_the_last_row_is_refused),
        cmocka_unit_test(a_row_with_more_values_than_columns_is_refused),
        cmocka_unit_test(a_bit_past_the_last_value_is_refused),
        cmocka_unit_test(runs_that_do_not_fit_are_refused),
        cmocka_unit_test(a_chunk_past_the_end_is_not_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
