/* Every codec on every length: what comes back, and what it may lose. */
#include <math.h>
#include <omp.h>

#include "engine/base/cpu.h"
#include "tests/fixture/codec_check.h"

/* --- round trips --- */

static void every_short_length(const dt_codec *c)
{
    enum { MOST = 1100 };
    uint32_t x[MOST];
    for (size_t n = 0; n <= MOST; n++) {
        const double density = (double)(n % 6) / 5.0;
        codec_fill(x, n, density, (uint32_t)n);
        codec_round_trip(c, x, n, codec_density(x, n));
    }
}

static void short_tensors_of_every_length_come_back(void **state)
{
    (void)state;
    codec_for_each(every_short_length);
}

static void lengths_around_chunks(const dt_codec *c)
{
    static const size_t borders[] = {
        CODEC_CHUNK, 2 * CODEC_CHUNK, 3 * CODEC_CHUNK, CODEC_FLOAT_CHUNK, 2 * CODEC_FLOAT_CHUNK};
    static uint32_t x[3 * CODEC_CHUNK + 257];
    for (size_t b = 0; b < DT_COUNT(borders); b++)
        for (size_t k = 0; k < 5; k++) {
            static const size_t off[] = {0, 1, 31, 255, 257};
            codec_fill(x, borders[b] + off[k], (double)k / 4.0, (uint32_t)(b * 8 + k));
            codec_round_trip(c, x, borders[b] + off[k], codec_density(x, borders[b] + off[k]));
            codec_fill(x, borders[b] - off[k], (double)(4 - k) / 4.0, (uint32_t)(b * 8 + k));
            codec_round_trip(c, x, borders[b] - off[k], codec_density(x, borders[b] - off[k]));
        }
}

static void tensors_that_end_beside_a_chunk_come_back(void **state)
{
    (void)state;
    codec_for_each(lengths_around_chunks);
}

static void edges_alone(const dt_codec *c)
{
    uint32_t x[64 + CODEC_EDGES];
    for (size_t at = 0; at < 64; at++) { /* each edge at each place of a word and of a vector */
        memset(x, 0, sizeof x);
        memcpy(x + at, codec_edges, sizeof codec_edges);
        codec_round_trip(c, x, DT_COUNT(x), codec_density(x, DT_COUNT(x)));
    }
}

static void edge_values_come_back(void **state)
{
    (void)state;
    codec_for_each(edges_alone);
}

static void exact_codecs_are_the_lossless_ones(void **state)
{
    (void)state;
    size_t n;
    const dt_codec *const *all = dt_codec_all(&n);
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(
            all[i]->exact, codec_format(all[i]) == NULL && codec_group_bits(all[i]) == 0);
        assert_ptr_equal(dti_codec_find(all[i]->name), all[i]);
    }
    assert_null(dti_codec_find("zip"));
}

/* --- capacity --- */

static void capacity_of_hostile_densities(const dt_codec *c)
{
    const double odd[] = {-0.5, 1.5, (double)NAN, (double)INFINITY, -(double)INFINITY};
    for (size_t i = 0; i < DT_COUNT(odd); i++)
        assert_int_equal(c->capacity(1000, odd[i]), c->capacity(1000, 1.0));
    assert_true(c->capacity(1000, 0.0) <= c->capacity(1000, 1.0));
    assert_true(c->capacity(SIZE_MAX, 1.0) == SIZE_MAX);
    assert_true(c->capacity(SIZE_MAX / 4, 0.0) == SIZE_MAX);
    assert_int_equal(c->capacity(0, 1.0), 0);
}

static void capacities_are_bounded_by_the_dense_one(void **state)
{
    (void)state;
    codec_for_each(capacity_of_hostile_densities);
}

/* Of dense values that do not fit: says so, says how much is needed, and writes nothing past. */
static void short_capacity(const dt_codec *c)
{
    enum { COUNT = 2 * CODEC_CHUNK + 77 };
    static uint32_t x[COUNT];
    codec_fill(x, COUNT, 0.6, 5);
    const size_t most = c->capacity(COUNT, 1.0);
    uint8_t *whole = codec_guarded(most);
    size_t need = 0;
    assert_true(c->encode(x, COUNT, whole + CODEC_GUARD, most, &need));
    const size_t tries[] = {0, 1, 16, 100, need / 3, need / 2, need - 4, need - 1};
    for (size_t i = 0; i < DT_COUNT(tries); i++) {
        uint8_t *p = codec_guarded(tries[i]);
        size_t used = 0;
        assert_false(c->encode(x, COUNT, p + CODEC_GUARD, tries[i], &used));
        assert_int_equal(used, need);
        codec_assert_guards(p, tries[i]);
        dt_free(p);
    }
    uint8_t *p = codec_guarded(need);
    size_t used = 0;
    assert_true(c->encode(x, COUNT, p + CODEC_GUARD, need, &used));
    assert_int_equal(used, need);
    assert_memory_equal(p, whole, CODEC_GUARD + need);
    codec_assert_guards(p, need);
    dt_free(p);
    dt_free(whole);
}

static void what_does_not_fit_is_reported_and_not_written(void **state)
{
    (void)state;
    codec_for_each(short_capacity);
}

/* --- the same bytes from anyone --- */

static void same_with_more_threads(const dt_codec *c)
{
    enum { COUNT = 5 * CODEC_CHUNK + 99 };
    static uint32_t x[COUNT], back[COUNT];
    codec_fill(x, COUNT, 0.4, 13);
    const size_t capacity = c->capacity(COUNT, 1.0);
    uint8_t *one = dt_alloc(capacity, 1), *other = dt_alloc(capacity, 1);
    size_t used = 0, used_other = 0;
    assert_true(one != NULL && other != NULL);
    omp_set_num_threads(1);
    assert_true(c->encode(x, COUNT, one, capacity, &used));
    for (int threads = 2; threads <= 3; threads++) {
        omp_set_num_threads(threads);
        memset(other, 0xEE, capacity);
        assert_true(c->encode(x, COUNT, other, capacity, &used_other));
        assert_int_equal(used, used_other);
        assert_memory_equal(one, other, used);
        memset(back, 0xEE, sizeof back);
        assert_int_equal(c->decode(one, used, back, COUNT, NULL), DT_OK);
        assert_true(!c->exact || memcmp(x, back, sizeof x) == 0);
    }
    dt_free(other);
    dt_free(one);
}

static void bytes_do_not_depend_on_the_number_of_threads(void **state)
{
    (void)state;
    codec_for_each(same_with_more_threads);
}

/* Every loop of one instruction set against the plain one, in blocks of exactly the bytes. */
static void same_loops(const dti_lanes *l, const uint32_t *from, size_t n)
{
    const dti_lanes *p = &dt_lanes_plain;
    uint32_t *x = codec_words(from, n);
    const size_t masks = 4 * ((n + 31) / 32);
    uint8_t *m0 = dt_alloc(masks, 1), *m1 = codec_guarded(masks);
    assert_non_null(m0);
    const size_t total = p->scan((uint8_t *)x, n, m0);
    assert_int_equal(l->scan((uint8_t *)x, n, m1 + CODEC_GUARD), total);
    assert_memory_equal(m0, m1 + CODEC_GUARD, masks);
    codec_assert_guards(m1, masks);
    assert_int_equal(l->count(m0, masks / 4), total);
    uint8_t *v0 = dt_alloc(total, 4), *v1 = codec_guarded(4 * total), *back = codec_guarded(4 * n);
    assert_non_null(v0);
    p->pack((uint8_t *)x, m0, n, v0, total);
    l->pack((uint8_t *)x, m0, n, v1 + CODEC_GUARD, total);
    assert_memory_equal(v0, v1 + CODEC_GUARD, 4 * total);
    codec_assert_guards(v1, 4 * total);
    l->unpack(v0, total, m0, n, back + CODEC_GUARD);
    assert_memory_equal(back + CODEC_GUARD, x, 4 * n);
    codec_assert_guards(back, 4 * n);
    if (n <= 256) {
        uint8_t c0[256], *c1 = codec_guarded(total);
        p->columns(m0, n, c0, total);
        l->columns(m0, n, c1 + CODEC_GUARD, total);
        assert_memory_equal(c0, c1 + CODEC_GUARD, total);
        codec_assert_guards(c1, total);
        dt_free(c1);
    }
    for (size_t k = 0; k < DTI_SMALLS; k++) {
        const size_t bytes =
            4 * ((n + (size_t)codec_formats[k].per_word - 1) / (size_t)codec_formats[k].per_word);
        uint8_t *s0 = dt_alloc(bytes, 1), *s1 = codec_guarded(bytes), *w0 = dt_alloc(n, 4);
        assert_true(s0 != NULL && w0 != NULL);
        p->narrow[k]((uint8_t *)x, n, s0);
        l->narrow[k]((uint8_t *)x, n, s1 + CODEC_GUARD);
        assert_memory_equal(s0, s1 + CODEC_GUARD, bytes);
        codec_assert_guards(s1, bytes);
        p->widen[k](s0, n, w0);
        l->widen[k](s0, n, back + CODEC_GUARD);
        assert_memory_equal(w0, back + CODEC_GUARD, 4 * n);
        codec_assert_guards(back, 4 * n);
        dt_free(w0);
        dt_free(s1);
        dt_free(s0);
    }
    dt_free(back);
    dt_free(v1);
    dt_free(v0);
    dt_free(m1);
    dt_free(m0);
    dt_free(x);
}

static void every_instruction_set_gives_the_same_bytes(void **state)
{
    (void)state;
    enum { MOST = 1100 };
    uint32_t x[MOST];
    const dti_lanes *all[DTI_LANES_MOST];
    const size_t n_all = dti_lanes_all(all);
    assert_ptr_equal(all[0], &dt_lanes_plain);
    for (size_t i = 0; i < n_all; i++)
        for (size_t n = 0; n <= MOST; n += n < 300 ? 1 : 37) {
            codec_fill(x, n, (double)(n % 5) / 4.0, (uint32_t)n + 3000);
            same_loops(all[i], x, n);
        }
    if (n_all == 1)
        print_message("this processor has only the plain loops\n");
}

static void buffers_need_no_alignment(void **state)
{
    (void)state;
    enum { COUNT = 1 << 14 };
    size_t n, used;
    const dt_codec *const *all = dt_codec_all(&n);
    static uint32_t x[COUNT];
    static uint8_t off[4 * COUNT + 4], packed[8 * COUNT], other[8 * COUNT], back[4 * COUNT + 4];
    codec_fill(x, COUNT, 0.5, 21);
    memcpy(off + 1, x, sizeof x);
    for (size_t i = 0; i < n; i++) {
        size_t used_other;
        assert_true(all[i]->encode(x, COUNT, packed, 8 * COUNT, &used));
        assert_true(all[i]->encode(off + 1, COUNT, other + 3, 8 * COUNT - 3, &used_other));
        assert_int_equal(used, used_other);
        assert_memory_equal(packed, other + 3, used);
        assert_int_equal(all[i]->decode(other + 3, used, back + 1, COUNT, NULL), DT_OK);
        assert_true(!all[i]->exact || memcmp(back + 1, x, sizeof x) == 0);
    }
}

static void numbers_in_plans_give_their_codecs_back(void **state)
{
    (void)state;
    size_t n;
    const dt_codec *const *all = dt_codec_all(&n);
    for (size_t i = 0; i < n; i++)
        assert_ptr_equal(dt_codec_numbered(dti_codec_number(all[i])), all[i]);
    assert_int_equal(dti_codec_number(NULL), 0);
    assert_null(dt_codec_numbered(0));
    assert_null(dt_codec_numbered(-1));
    assert_null(dt_codec_numbered((int32_t)n + 1));
}

/* Training has the processor take denormals for zeros. */
static void flushing_of_denormals_changes_nothing(void **state)
{
    (void)state;
    (void)dt_cpu_setup(2);
    codec_for_each(edges_alone);
}

DT_TEST_GROUP(codecs)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(short_tensors_of_every_length_come_back),
        cmocka_unit_test(tensors_that_end_beside_a_chunk_come_back),
        cmocka_unit_test(edge_values_come_back),
        cmocka_unit_test(exact_codecs_are_the_lossless_ones),
        cmocka_unit_test(capacities_are_bounded_by_the_dense_one),
        cmocka_unit_test(what_does_not_fit_is_reported_and_not_written),
        cmocka_unit_test(bytes_do_not_depend_on_the_number_of_threads),
        cmocka_unit_test(every_instruction_set_gives_the_same_bytes),
        cmocka_unit_test(buffers_need_no_alignment),
        cmocka_unit_test(numbers_in_plans_give_their_codecs_back),
        cmocka_unit_test(flushing_of_denormals_changes_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
