/* The CUDA kernels of codecs, run on the processor, thread after thread: the bytes are those of the
 * processor's own codecs, either side reads what the other wrote, and no bytes make them reach
 * outside their buffers. */
#include "tests/fixture/cuda_host.h"

#include "memory/codecs/csr_cuda.cu"
#include "memory/codecs/quantize_cuda.cu"
#include "memory/codecs/rle_cuda.cu"
#include "memory/codecs/small_cuda.cu"
#include "memory/codecs/zvc_cuda.cu"
#include "tests/fixture/codec_check.h"

static const struct row {
    const char *name;
    const dt_cuda_codec *kernels;
} rows[] = {
    {"zvc", &dt_cuda_codec_zvc},
    {"csr", &dt_cuda_codec_csr},
    {"rle", &dt_cuda_codec_rle},
    {"csr_fp16", &dt_cuda_codec_csr_fp16},
    {"csr_fp10", &dt_cuda_codec_csr_fp10},
    {"csr_fp8", &dt_cuda_codec_csr_fp8},
    {"fp16", &dt_cuda_codec_fp16},
    {"fp10", &dt_cuda_codec_fp10},
    {"fp8", &dt_cuda_codec_fp8},
    {"int8", &dt_cuda_codec_int8},
    {"int4", &dt_cuda_codec_int4},
    {"int2", &dt_cuda_codec_int2},
    {"int1", &dt_cuda_codec_int1},
};

/* Around a chunk, a word and a row. */
static const size_t sizes[] = {0, 1, 31, 33, 255, 257, 700, CODEC_CHUNK - 1, CODEC_CHUNK + 45};

/* Packed bytes of one side, in a guarded block of exactly so many. */
typedef struct side {
    uint8_t *block, *bytes;
    size_t room;
    int overflow;
} side;

static side empty(size_t room)
{
    uint8_t *const block = codec_guarded(room);
    return (side){block, block + CODEC_GUARD, room, 0};
}

static side by_processor(const dt_codec *c, const uint32_t *x, size_t n, size_t room)
{
    side s = empty(room);
    s.overflow = !dt_pack(c, x, n, s.bytes, room);
    return s;
}

static side by_kernels(const dt_cuda_codec *k, const uint32_t *x, size_t n, size_t room)
{
    dt_err err = {0};
    side s = empty(room);
    assert_ok(k->encode(x, n, s.bytes, room, &s.overflow, NULL, &err), &err);
    codec_assert_guards(s.block, room);
    return s;
}

static void drop(side *s)
{
    dt_free(s->block);
}

/* What the kernels make of packed bytes; false when they call them damaged. */
static bool unpack(const dt_cuda_codec *k, const side *s, uint32_t *to, size_t n)
{
    dt_err err = {0};
    int damaged = 0;
    uint8_t *const room = codec_guarded(4 * n);
    assert_ok(k->decode(s->bytes, s->room, room + CODEC_GUARD, n, &damaged, NULL, &err), &err);
    codec_assert_guards(room, 4 * n);
    memcpy(to, room + CODEC_GUARD, 4 * n);
    dt_free(room);
    return damaged == 0;
}

static void check_same(const struct row *r, size_t n, double density, size_t short_of)
{
    const dt_codec *c = dti_codec_find(r->name);
    uint32_t *x = dt_alloc(n + 1, 4), *there = dt_alloc(n + 1, 4), *back = dt_alloc(n + 1, 4);
    dt_err err = {0};
    codec_fill(x, n, density, 7);
    const size_t most = dt_packed_bytes(c, n, codec_density(x, n));
    const size_t room = most - (short_of < most - 8 ? short_of : most - 8);
    side mine = by_processor(c, x, n, room), theirs = by_kernels(r->kernels, x, n, room);
    assert_int_equal(mine.overflow, theirs.overflow);
    const size_t used = dti_packed_used(mine.bytes, room);
    assert_int_equal(used, dti_packed_used(theirs.bytes, room));
    assert_memory_equal(mine.bytes, theirs.bytes, used);
    assert_ok(dt_unpack(c, theirs.bytes, room, back, n, &err), &err);
    assert_true(unpack(r->kernels, &mine, there, n));
    assert_memory_equal(back, there, 4 * n);
    drop(&mine);
    drop(&theirs);
    dt_free(x);
    dt_free(there);
    dt_free(back);
}

static void bytes_are_those_of_the_processor(void **state)
{
    (void)state;
    for (size_t i = 0; i < DT_COUNT(rows); i++)
        for (size_t s = 0; s < DT_COUNT(sizes); s++) {
            dt_host_backwards = s % 2 == 1;
            check_same(&rows[i], sizes[s], 0.4, 0);
        }
}

static void bytes_are_the_same_at_any_density(void **state)
{
    (void)state;
    static const double densities[] = {0, 0.01, 1};
    for (size_t i = 0; i < DT_COUNT(rows); i++)
        for (size_t d = 0; d < DT_COUNT(densities); d++) {
            dt_host_backwards = d % 2 == 1;
            check_same(&rows[i], CODEC_CHUNK + 300, densities[d], 0);
        }
}

static void too_little_room_is_told_and_unpacks_to_zeros(void **state)
{
    (void)state;
    static const size_t missing[] = {4, 400, SIZE_MAX};
    dt_host_backwards = false;
    for (size_t i = 0; i < DT_COUNT(rows); i++)
        for (size_t m = 0; m < DT_COUNT(missing); m++)
            check_same(&rows[i], 900, 0.5, missing[m]);
}

/* Flip one byte after the other. */
static void damage_is_told_and_stays_inside(void **state)
{
    (void)state;
    enum { N = 600 };
    uint32_t x[N], to[N];
    codec_fill(x, N, 0.5, 3);
    dt_host_backwards = false;
    for (size_t i = 0; i < DT_COUNT(rows); i++) {
        const dt_codec *c = dti_codec_find(rows[i].name);
        side s = by_processor(c, x, N, dt_packed_bytes(c, N, codec_density(x, N)));
        size_t told = 0;
        for (size_t at = 0; at < s.room && at < 120; at++)
            for (unsigned bit = 0; bit < 8; bit += 7) {
                dt_err err = {0};
                s.bytes[at] = (uint8_t)(s.bytes[at] ^ 1u << bit);
                const bool good = dt_unpack(c, s.bytes, s.room, to, N, &err) == DT_OK;
                assert_int_equal(unpack(rows[i].kernels, &s, to, N), good);
                told += !good;
                s.bytes[at] = (uint8_t)(s.bytes[at] ^ 1u << bit);
            }
        assert_true(told >= 16); /* the header alone */
        drop(&s);
    }
}

/* Of several samples, somewhere in a step: a device reads where from its own memory. */
static void check_samples(const struct row *r, size_t row, int64_t samples, double density)
{
    const dt_codec *c = dti_codec_find(r->name);
    const size_t n = row * (size_t)samples;
    uint32_t *x = dt_alloc(n, 4), *there = dt_alloc(n, 4), *back = dt_alloc(n, 4);
    const dt_now now = {.sample0 = 40, .step = 9};
    const dt_rounding here = {.seed = 5, .step = 9, .value = 3, .samples = samples, .sample0 = 42};
    dt_rounding theirs = {.seed = 5, .value = 3, .samples = samples, .sample0 = 2, .now = &now};
    dt_err err = {0};
    codec_fill(x, n, density, (uint32_t)row);
    for (size_t e = 0; e < n; e++) /* edges in some groups alone, as one spoils its group */
        x[e] = e / 256 % 3 == 0 ? x[e] : codec_bits(dt_unit(x[e]) - 0.25f);
    const size_t room = dt_packed_samples(c, n, samples, 1);
    side mine = empty(room), other = empty(room);
    assert_true(dt_pack_samples(c, x, n, &here, mine.bytes, room));
    assert_ok(
        r->kernels->encode_samples(x, n, &theirs, other.bytes, room, &other.overflow, NULL, &err),
        &err);
    assert_int_equal(other.overflow, 0);
    codec_assert_guards(other.block, room);
    assert_memory_equal(mine.bytes, other.bytes, room);
    assert_ok(dt_unpack(c, other.bytes, room, back, n, &err), &err);
    assert_true(unpack(r->kernels, &mine, there, n));
    assert_memory_equal(back, there, 4 * n);
    drop(&mine);
    drop(&other);
    dt_free(x);
    dt_free(there);
    dt_free(back);
}

static void what_is_drawn_is_what_the_processor_draws(void **state)
{
    (void)state;
    static const size_t rows_of[] = {1, 10, 255, 256, 257, 1000, 3072};
    size_t drawing = 0;
    for (size_t i = 0; i < DT_COUNT(rows); i++) {
        const bool draws = dti_codec_find(rows[i].name)->drawn.encode != NULL;
        assert_int_equal(rows[i].kernels->encode_samples != NULL, draws);
        drawing += draws;
        for (size_t s = 0; s < DT_COUNT(rows_of) && draws; s++) {
            dt_host_backwards = s % 2 == 1;
            check_samples(&rows[i], rows_of[s], 3, s % 3 == 0 ? 1 : 0.4);
        }
    }
    assert_int_equal(drawing, 4);
}

DT_TEST_GROUP(cuda_codecs)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_are_those_of_the_processor),
        cmocka_unit_test(bytes_are_the_same_at_any_density),
        cmocka_unit_test(too_little_room_is_told_and_unpacks_to_zeros),
        cmocka_unit_test(damage_is_told_and_stays_inside),
        cmocka_unit_test(what_is_drawn_is_what_the_processor_draws),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
