/* The CUDA device's kernels on a card, beside the processor's: the cases of
 * tests/fixture/cuda_kernels.h. Skipped where there is no card, or the program was built without
 * the device. */
#include "tests/fixture/cuda_kernels.h"

#include <stdlib.h>
#include <string.h>

#include "engine/context.h"
#include "layers/registry.h"
#include "tests/fixture/check.h"

enum { ROOM = 64 << 20, ALIGN = 256, GUARD_BYTE = 0xA5, MOST_TRIPS = 256 };

/* Memory of the device and pinned memory of the host, of which each run takes what it needs. */
static struct card {
    const dt_driver *d;
    void *self, *there, *here;
} card;

static int open_card(void **state)
{
    dt_err err = {0};
    (void)state;
    if (!dt_device_built(DT_CUDA))
        return 0;
    assert_ok(dti_device_load(DT_CUDA, &err), &err);
    if (!dt_device_answers(DT_CUDA, &err))
        return 0;
    card.d = dt_device_driver(DT_CUDA);
    assert_non_null(card.d);
    assert_ok(card.d->open(1, &card.self, &err), &err);
    assert_ok(card.d->reserve(card.self, ROOM, &card.there, &err), &err);
    assert_ok(card.d->pin(card.self, ROOM, &card.here, &err), &err);
    return 0;
}

static int close_card(void **state)
{
    (void)state;
    if (card.self == NULL)
        return 0;
    card.d->unpin(card.self, card.here);
    card.d->release(card.self, card.there);
    card.d->close(card.self);
    return 0;
}

static void need_card(void)
{
    if (card.self == NULL)
        skip();
}

static const dt_context on_card = {.device = DT_CUDA};

static const dt_kernels *find(const char *name)
{
    const dt_layer_desc *desc = dt_layer_find(name);
    return desc != NULL ? dti_kernels_of(desc, &on_card) : NULL;
}

/* One execution: where the bytes of each port lie in a block that goes to the card and back. @all:
 * bytes of the block so far; what differs from step to step is at its beginning. */
typedef struct trip {
    const dt_kernels *k;
    const dt_call *c;
    dt_args a; /* with addresses of the device */
    size_t at[DT_PORTS], bytes[DT_PORTS], all;
} trip;

/* Ports that share bytes do so there; bytes lie as far behind a multiple of 64 as here. */
static void lay_out(trip *t, const dt_args *host)
{
    for (int p = 0; p < DT_PORTS; p++) {
        const void *bytes = host->port[p];
        int same = -1;
        if (bytes == NULL)
            continue;
        t->bytes[p] = dt_cuda_port_bytes(t->k, t->c, host, p);
        for (int q = 0; q < p; q++)
            same = host->port[q] == bytes ? q : same;
        t->at[p] = same >= 0 ? t->at[same] : t->all + (uintptr_t)bytes % 64;
        if (same < 0)
            t->all += (t->bytes[p] + 3 * ALIGN) / ALIGN * ALIGN;
        t->a.port[p] = (char *)card.there + t->at[p];
    }
    assert_true(t->all <= ROOM);
}

/* Executions that are one launch, if they are several. */
typedef struct trips {
    trip *trip;
    int n;
} trips;

static dt_status launch(void *arg, void *queue, dt_err *err)
{
    static const dt_call *c[MOST_TRIPS];
    static dt_args a[MOST_TRIPS];
    const trips *all = arg;
    for (int i = 0; i < all->n; i++) {
        c[i] = all->trip[i].c;
        a[i] = all->trip[i].a;
        a[i].queue = queue;
    }
    const dt_kernels *k = all->trip[0].k;
    return all->n == 1 ? k->run(c[0], NULL, a, err) : k->run_many(c, a, all->n, err);
}

static void to_image(const trip *t, const dt_args *host, unsigned char *image)
{
    for (int p = 0; p < DT_PORTS; p++)
        if (host->port[p] != NULL)
            memcpy(image + t->at[p], host->port[p], t->bytes[p]);
}

static void from_image(const trip *t, const dt_args *host, const unsigned char *image)
{
    for (int p = 0; p < DT_PORTS; p++)
        if (host->port[p] != NULL)
            memcpy(host->port[p], image + t->at[p], t->bytes[p]);
}

/* What lies between the ports must come back as it was. */
static void check_rest(const trips *all, unsigned char *image)
{
    const trip *last = &all->trip[all->n - 1];
    memset(image, GUARD_BYTE, sizeof(dt_now));
    for (int i = 0; i < all->n; i++)
        for (int p = 0; p < DT_PORTS; p++)
            if (all->trip[i].a.port[p] != NULL)
                memset(image + all->trip[i].at[p], GUARD_BYTE, all->trip[i].bytes[p]);
    for (size_t i = 0; i < last->all; i++)
        if (image[i] != GUARD_BYTE)
            fail_msg("%s wrote outside its ports",
                last->c->node == NULL ? "an op" : last->c->node->desc->name);
}

static dt_status run_trips(const trips *all, const dt_args *host, dt_err *err)
{
    unsigned char *image = card.here;
    const size_t bytes = all->trip[all->n - 1].all;
    trips t = *all;
    memset(image, GUARD_BYTE, bytes);
    memcpy(image, host->now, sizeof *host->now);
    for (int i = 0; i < t.n; i++)
        to_image(&t.trip[i], &host[i], image);
    DT_CHECK(card.d->copy(card.self, 0, card.there, image, bytes, err));
    DT_CHECK(card.d->launch(card.self, launch, &t, err));
    DT_CHECK(card.d->copy(card.self, 0, image, card.there, bytes, err));
    DT_CHECK(card.d->finish(card.self, err));
    for (int i = 0; i < t.n; i++)
        from_image(&t.trip[i], &host[i], image);
    check_rest(&t, image);
    return DT_OK;
}

static dt_status run_many(
    const dt_kernels *k, const dt_call *const *c, const dt_args *a, int n, dt_err *err)
{
    static trip each[MOST_TRIPS];
    size_t all = 2 * ALIGN;
    assert_true(n <= MOST_TRIPS);
    for (int i = 0; i < n; i++) {
        each[i] = (trip){.k = k, .c = c[i], .a = a[i], .all = all};
        memset(each[i].a.port, 0, sizeof each[i].a.port);
        each[i].a.now = card.there;
        lay_out(&each[i], &a[i]);
        all = each[i].all;
    }
    return run_trips(&(trips){each, n}, a, err);
}

static dt_status run(const dt_kernels *k, const dt_call *c, const dt_args *a, dt_err *err)
{
    return run_many(k, &c, a, 1, err);
}

static const dt_cuda_bench device = {find, run, run_many, false};

static void kernels_give_the_processors_results(void **state)
{
    (void)state;
    need_card();
    for (size_t i = 0; i < dt_cuda_cases(); i++)
        for (int t = 0; t < DT_DTYPES; t++)
            dt_cuda_case_compare(i, &device, (dt_dtype)t);
}

static void ops_on_parameters_give_the_processors_bits(void **state)
{
    (void)state;
    need_card();
    dt_cuda_ops_compare(&device);
}

static void many_updates_in_few_launches_give_the_processors_bits(void **state)
{
    (void)state;
    need_card();
    dt_cuda_updates_compare(&device);
}

static void updates_of_moments_in_8_bits_give_the_processors_bits(void **state)
{
    (void)state;
    need_card();
    dt_cuda_packed_compare(&device);
}

static void repeated_in_place_or_in_pieces_the_bits_are_the_same(void **state)
{
    (void)state;
    need_card();
    for (size_t i = 0; i < dt_cuda_cases(); i++)
        for (int t = 0; t < DT_DTYPES; t++)
            for (int how = 0; how <= DT_CUDA_IN_PIECES; how++)
                dt_cuda_case_repeat(i, &device, (dt_dtype)t, how, NULL);
}

DT_TEST_GROUP(cuda_layers)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kernels_give_the_processors_results),
        cmocka_unit_test(ops_on_parameters_give_the_processors_bits),
        cmocka_unit_test(many_updates_in_few_launches_give_the_processors_bits),
        cmocka_unit_test(updates_of_moments_in_8_bits_give_the_processors_bits),
        cmocka_unit_test(repeated_in_place_or_in_pieces_the_bits_are_the_same),
    };
    return cmocka_run_group_tests(tests, open_card, close_card);
}
