/* The CUDA driver, call by call, on a card; what can be said without one comes first. The driver's
 * module is loaded everywhere it was built, so that a symbol it misses is found here. */
#include <math.h>
#include <string.h>

#include "engine/base/alloc.h"
#include "engine/context.h"
#include "layers/registry.h"
#include "memory/codec_op.h"
#include "tests/fixture/codec_check.h"
#include "tests/fixture/gpu_check.h"

enum { QUEUES = 3, MIB = 1 << 20 };

/* ---- without a card ---- */

static const dt_context on_card = {.device = DT_CUDA};

static void the_module_loads_and_has_a_kernel_for_every_layer(void **state)
{
    (void)state;
    dt_err err = {0};
    size_t n;
    if (!dt_device_built(DT_CUDA))
        skip();
    assert_ok(dti_device_load(DT_CUDA, &err), &err);
    const dt_layer_desc *const *all = dt_layer_all(&n);
    for (size_t i = 0; i < n; i++)
        if (!all[i]->identity && dti_kernels_of(all[i], &on_card) == NULL)
            fail_msg("layer '%s' has no cuda kernels", all[i]->name);
    static const char *const ops[] = {
        "sum", "commit", "sgd", "adam", "adamw", "lion", "sgd8", "adam8", "adamw8", "lion8"};
    for (size_t i = 0; i < DT_COUNT(ops); i++)
        if (dti_kernels_of(dt_layer_find(ops[i]), &on_card) == NULL)
            fail_msg("op '%s' has no cuda kernels", ops[i]);
    assert_non_null(dti_kernels_of(&dt_codec_op, &on_card));
}

static void every_codec_but_lz4_packs_on_the_device(void **state)
{
    (void)state;
    dt_err err = {0};
    size_t n;
    if (!dt_device_built(DT_CUDA))
        skip();
    assert_ok(dti_device_load(DT_CUDA, &err), &err);
    const dt_codec *const *all = dt_codec_all(&n);
    for (size_t i = 0; i < n; i++) {
        const bool there = dti_codec_is_on(all[i]->name, DT_CUDA);
        if (dt_device_driver(DT_CUDA)->can_pack(all[i]) != there)
            fail_msg("codec '%s' has %s cuda kernels", all[i]->name, there ? "no" : "now");
    }
    const dt_codec unknown = {.name = "unknown"};
    assert_false(dt_device_driver(DT_CUDA)->can_pack(&unknown));
}

static void without_a_card_opening_says_what_to_do(void **state)
{
    (void)state;
    dt_err err = {0};
    void *self = &err;
    if (!dt_device_built(DT_CUDA))
        skip();
    assert_ok(dti_device_load(DT_CUDA, &err), &err);
    if (dt_device_answers(DT_CUDA, NULL))
        skip();
    assert_fails(dt_device_driver(DT_CUDA)->open(QUEUES, &self, &err), DT_E_DEVICE, &err,
        "device.kind = cpu");
    assert_null(self);
}

/* ---- on a card ---- */

typedef struct fixture {
    const dt_driver *d;
    void *self;
    unsigned char *base; /* of the device, ROOM bytes */
    unsigned char *host; /* pinned, as many */
    dt_err err;
} fixture;

enum { ROOM = 64 * MIB };

static fixture *open_card(void)
{
    fixture *f = dt_alloc(1, sizeof *f);
    void *base, *host;
    assert_non_null(f);
    f->d = dt_device_driver(DT_CUDA);
    assert_ok(f->d->open(QUEUES, &f->self, &f->err), &f->err);
    assert_ok(f->d->events(f->self, 8, &f->err), &f->err);
    assert_ok(f->d->reserve(f->self, ROOM, &base, &f->err), &f->err);
    assert_ok(f->d->pin(f->self, ROOM, &host, &f->err), &f->err);
    f->base = base;
    f->host = host;
    memset(f->host, 0, ROOM);
    return f;
}

static void close_card(fixture *f)
{
    f->d->unpin(f->self, f->host);
    f->d->release(f->self, f->base);
    f->d->close(f->self);
    dt_free(f);
}

#define CALL(f, what, ...) assert_ok((f)->d->what((f)->self, __VA_ARGS__, &(f)->err), &(f)->err)
#define FINISH(f) assert_ok((f)->d->finish((f)->self, &(f)->err), &(f)->err)

static void facts_name_the_card_and_its_memory(void **state)
{
    NEED_GPU();
    fixture *f = open_card();
    dt_driver_facts facts;
    CALL(f, facts, &facts);
    assert_true(facts.bytes > ROOM && facts.free < facts.bytes);
    assert_non_null(strstr(facts.about, "compute capability"));
    assert_non_null(strstr(facts.about, "cuDNN"));
    close_card(f);
}

static void bytes_go_there_and_back(void **state)
{
    NEED_GPU();
    fixture *f = open_card();
    unsigned char *pageable = dt_alloc(3 * MIB + 5, 1);
    assert_non_null(pageable);
    for (size_t i = 0; i < 3 * MIB + 5; i++)
        pageable[i] = (unsigned char)(i * 7 % 251);
    CALL(f, copy, 0, f->base + 256, pageable, 3 * MIB + 5);
    CALL(f, copy, 0, f->host, f->base + 256, 3 * MIB + 5);
    CALL(f, finish_queue, 0);
    assert_memory_equal(f->host, pageable, 3 * MIB + 5);
    CALL(f, fill, 1, f->base, 0xA5, 1000);
    CALL(f, copy, 1, f->host, f->base, 1001);
    CALL(f, finish_queue, 1);
    assert_int_equal(f->host[999], 0xA5);
    assert_int_equal(f->host[1000], pageable[1000 - 256]);
    CALL(f, copy, 0, f->host, f->base, 0);
    dt_free(pageable);
    close_card(f);
}

static void memory_of_ours_can_be_reached(void **state)
{
    NEED_GPU();
    fixture *f = open_card();
    unsigned char *ours = dt_alloc(2 * MIB, 1);
    assert_non_null(ours);
    memset(ours, 3, 2 * MIB);
    CALL(f, reach, ours, 2 * MIB);
    CALL(f, reach, ours, 2 * MIB); /* again */
    bool yes = false;
    CALL(f, holds, ours, 2 * MIB, 3, &yes); /* by a kernel */
    assert_true(yes);
    f->d->unpin(f->self, f->host);
    f->d->release(f->self, f->base);
    f->d->close(f->self); /* before the memory goes */
    dt_free(ours);
    dt_free(f);
}

static void a_reservation_beyond_the_card_is_refused(void **state)
{
    NEED_GPU();
    fixture *f = open_card();
    void *base = f;
    assert_fails(f->d->reserve(f->self, UINT64_C(1) << 50, &base, &f->err), DT_E_NOMEM, &f->err,
        "nvidia-smi");
    assert_null(base);
    CALL(f, fill, 0, f->base, 1, 16); /* and the device goes on */
    FINISH(f);
    close_card(f);
}

/* Queue 1 makes something slowly; queue 2 copies it out when it is there, queue 0 after that. */
static void chain(fixture *f, unsigned char value)
{
    unsigned char *const a = f->base, *const b = f->base + ROOM / 2;
    for (int i = 0; i < 20; i++)
        CALL(f, fill, 1, a, i, ROOM / 2);
    CALL(f, fill, 1, a, value, ROOM / 2);
    CALL(f, signal, 1, 4);
    CALL(f, wait, 2, 4);
    CALL(f, copy, 2, b, a, ROOM / 2);
    CALL(f, signal, 2, 5);
    CALL(f, wait, 0, 5);
    CALL(f, copy, 0, f->host, b, ROOM / 2);
}

static void queues_wait_for_events(void **state)
{
    NEED_GPU();
    fixture *f = open_card();
    for (unsigned char v = 50; v < 60; v++) {
        chain(f, v);
        CALL(f, finish_queue, 0);
        assert_int_equal(f->host[0], v);
        assert_memory_equal(f->host, f->host + 1, ROOM / 2 - 1);
    }
    CALL(f, fill, 2, f->base, 1, ROOM);
    CALL(f, signal, 2, 0);
    CALL(f, finish_event, 0);
    bool yes = false;
    CALL(f, holds, f->base, ROOM, 1, &yes);
    assert_true(yes);
    close_card(f);
}

static void after_a_join_everybody_waits_for_all(void **state)
{
    NEED_GPU();
    fixture *f = open_card();
    for (int i = 0; i < 20; i++)
        CALL(f, fill, 2, f->base, i, ROOM);
    assert_ok(f->d->join(f->self, &f->err), &f->err);
    CALL(f, copy, 1, f->host, f->base, ROOM);
    CALL(f, finish_queue, 1);
    assert_int_equal(f->host[0], 19);
    assert_memory_equal(f->host, f->host + 1, ROOM - 1);
    close_card(f);
}

static void what_was_kept_is_done_again(void **state)
{
    NEED_GPU();
    fixture *f = open_card();
    void *kept = NULL;
    assert_ok(f->d->record(f->self, &f->err), &f->err);
    chain(f, 77);
    assert_ok(f->d->recorded(f->self, &kept, &f->err), &f->err);
    FINISH(f);
    assert_int_equal(f->host[0], 0); /* nothing was done */
    for (int i = 0; i < 3; i++) {
        memset(f->host, 0, ROOM / 2);
        CALL(f, fill, 0, f->base, 1, ROOM); /* the kept begins after this */
        CALL(f, replay, kept);
        CALL(f, copy, 0, f->host + ROOM / 2, f->host, 8); /* and ends before */
        CALL(f, finish_queue, 0);
        assert_int_equal(f->host[0], 77);
        assert_memory_equal(f->host, f->host + 1, ROOM / 2 - 1);
        assert_int_equal(f->host[ROOM / 2], 77);
    }
    f->d->forget(f->self, kept);
    close_card(f);
}

/* Begin and end anywhere between words of 16 bytes. */
static void one_other_byte_is_found(void **state)
{
    NEED_GPU();
    fixture *f = open_card();
    CALL(f, fill, 0, f->base, 0x5A, MIB);
    for (uint64_t from = 0; from < 40; from += 3)
        for (uint64_t bytes = 1; bytes < 200; bytes += 13) {
            bool yes = false;
            CALL(f, holds, f->base + from, bytes, 0x5A, &yes);
            assert_true(yes);
            for (uint64_t at = 0; at<bytes; at += bytes> 30 ? 29 : 1) {
                CALL(f, fill, 0, f->base + from + at, 0x5B, 1);
                CALL(f, holds, f->base + from, bytes, 0x5A, &yes);
                assert_false(yes);
                CALL(f, fill, 0, f->base + from + at, 0x5A, 1);
            }
            CALL(f, fill, 0, f->base + from + bytes, 0x5B, 1); /* behind it does not count */
            CALL(f, holds, f->base + from, bytes, 0x5A, &yes);
            assert_true(yes);
            CALL(f, fill, 0, f->base + from + bytes, 0x5A, 1);
        }
    close_card(f);
}

/* Of many tensors at once, which begin anywhere. */
static void squares_are_summed_to_the_same_bits(void **state)
{
    NEED_GPU();
    fixture *f = open_card();
    static const int64_t counts[] = {1, 255, 257, 1025, 100000, 0, 5000001};
    enum { MOST = 5000001 };
    float *x = (float *)(void *)f->host;
    const float *there = (const float *)(const void *)f->base;
    dt_floats of[DTI_SQUARES];
    double first[DTI_SQUARES], again[DTI_SQUARES];
    for (int64_t i = 0; i < MOST + DTI_SQUARES; i++)
        x[i] = (float)(i % 1000) * 0.001f - 0.3f;
    CALL(f, copy, 0, f->base, x, (MOST + DTI_SQUARES) * sizeof *x);
    for (size_t k = 0; k < DTI_SQUARES; k++)
        of[k] = (dt_floats){there + k, counts[k % DT_COUNT(counts)]};
    CALL(f, squares, of, DTI_SQUARES, first);
    CALL(f, squares, of, DTI_SQUARES, again);
    assert_memory_equal(first, again, sizeof first);
    for (size_t k = 0; k < DTI_SQUARES; k++) {
        long double want = 0; /* one after the other, doubles would be off by 4e-12 themselves */
        for (int64_t i = 0; i < of[k].count; i++)
            want += (long double)x[(int64_t)k + i] * (long double)x[(int64_t)k + i];
        assert_true(fabsl((long double)first[k] - want) <= 1e-12L * want);
    }
    x[0] = NAN;
    CALL(f, copy, 0, f->base + 4000, x, sizeof *x);
    of[1] = (dt_floats){there, 5000};
    CALL(f, squares, of, 2, first);
    assert_true(isnan(first[1]) && isfinite(first[0]));
    close_card(f);
}

/* ---- codecs ---- */

typedef struct packing {
    fixture *f;
    const dt_codec *codec;
    uint32_t *x;
    size_t n, bytes;
    unsigned char *packed; /* device or host */
    int *overflow;
} packing;

static void pack(packing *p)
{
    fixture *f = p->f;
    *p->overflow = 0;
    CALL(f, copy, 0, f->base, p->x, 4 * p->n);
    CALL(f, pack, 0, p->codec, f->base, p->n, p->packed, p->bytes, p->overflow);
    CALL(f, unpack, 0, p->codec, p->packed, p->bytes, f->base + ROOM / 2, p->n);
    FINISH(f);
}

static void check_packing(packing *p)
{
    fixture *f = p->f;
    unsigned char *mine = dt_alloc(p->bytes, 1), *theirs = dt_alloc(p->bytes, 1);
    uint32_t *back = dt_alloc(p->n, 4), *there = dt_alloc(p->n, 4);
    const bool fits = dt_pack(p->codec, p->x, p->n, mine, p->bytes);
    pack(p);
    assert_int_equal(*p->overflow, !fits);
    CALL(f, copy, 0, theirs, p->packed, p->bytes);
    CALL(f, copy, 0, there, f->base + ROOM / 2, 4 * p->n);
    FINISH(f);
    const size_t used = dti_packed_used(mine, p->bytes);
    assert_int_equal(used, dti_packed_used(theirs, p->bytes));
    assert_memory_equal(mine, theirs, used);
    assert_ok(dt_unpack(p->codec, mine, p->bytes, back, p->n, &f->err), &f->err);
    assert_memory_equal(back, there, 4 * p->n);
    dt_free(mine);
    dt_free(theirs);
    dt_free(back);
    dt_free(there);
}

static void packed_bytes_are_those_of_the_processor(void **state)
{
    NEED_GPU();
    fixture *f = open_card();
    static const size_t sizes[] = {1, 33, 257, CODEC_CHUNK - 1, 20 * CODEC_CHUNK + 4001};
    static const double densities[] = {0, 0.3, 1};
    size_t n_codec;
    const dt_codec *const *all = dt_codec_all(&n_codec);
    packing p = {.f = f, .overflow = (int *)(void *)(f->host + ROOM - 64)};
    for (size_t c = 0; c < n_codec; c++)
        for (size_t s = 0; s < DT_COUNT(sizes) && f->d->can_pack(all[c]); s++)
            for (size_t d = 0; d < DT_COUNT(densities); d++) {
                p.codec = all[c];
                p.n = sizes[s];
                p.x = dt_alloc(p.n, 4);
                codec_fill(p.x, p.n, densities[d], 5);
                p.bytes = dt_packed_bytes(p.codec, p.n, codec_density(p.x, p.n));
                p.packed = f->base + ROOM / 4;
                check_packing(&p);
                p.packed = f->host + ROOM / 4; /* across the link */
                check_packing(&p);
                p.bytes = p.bytes > 12 ? p.bytes - 4 : p.bytes; /* one word short */
                check_packing(&p);
                dt_free(p.x);
            }
    close_card(f);
}

static void damaged_bytes_are_told_when_they_are_waited_for(void **state)
{
    NEED_GPU();
    fixture *f = open_card();
    const dt_codec *zvc = dti_codec_find("zvc");
    uint32_t x[1000];
    codec_fill(x, 1000, 0.5, 9);
    packing p = {f, zvc, x, 1000, dt_packed_bytes(zvc, 1000, 1), f->host,
        (int *)(void *)(f->host + ROOM - 64)};
    pack(&p);
    f->host[8] ^= 1;
    CALL(f, unpack, 0, zvc, f->host, p.bytes, f->base, 1000);
    assert_fails(f->d->finish(f->self, &f->err), DT_E_DATA, &f->err, "packed bytes");
    FINISH(f); /* once */
    close_card(f);
}

DT_TEST_GROUP(cuda)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_module_loads_and_has_a_kernel_for_every_layer),
        cmocka_unit_test(every_codec_but_lz4_packs_on_the_device),
        cmocka_unit_test(without_a_card_opening_says_what_to_do),
        cmocka_unit_test(facts_name_the_card_and_its_memory),
        cmocka_unit_test(bytes_go_there_and_back),
        cmocka_unit_test(memory_of_ours_can_be_reached),
        cmocka_unit_test(a_reservation_beyond_the_card_is_refused),
        cmocka_unit_test(queues_wait_for_events),
        cmocka_unit_test(after_a_join_everybody_waits_for_all),
        cmocka_unit_test(what_was_kept_is_done_again),
        cmocka_unit_test(one_other_byte_is_found),
        cmocka_unit_test(squares_are_summed_to_the_same_bits),
        cmocka_unit_test(packed_bytes_are_those_of_the_processor),
        cmocka_unit_test(damaged_bytes_are_told_when_they_are_waited_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
