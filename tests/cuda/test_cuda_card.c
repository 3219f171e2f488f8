/* conv, conv_transpose, linear, fc and attention on a card, against the processor's results.
 * Skipped where the program was built without the CUDA device, or none answers. The checks of
 * layer_check hold for the card too: bytes of ports are brought there, the op is run, and all ports
 * are brought back. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/alloc.h"
#include "engine/card.h"
#include "engine/context.h"
#include "engine/device.h"
#include "layers/sequence/attention.h"
#include "layers/weighted/conv.h"
#include "layers/weighted/conv_transpose.h"
#include "layers/weighted/fc.h"
#include "layers/weighted/linear.h"
#include "tests/fixture/check.h"
#include "tests/fixture/layer_check.h"

enum { ROOM = 512 << 20, ALIGN = 64 };

/* The card, and memory of its own and of the host, of which a port has the same part. */
static struct {
    const dt_driver *driver;
    void *self;
    unsigned char *there, *here;
    dt_context context;
    const dt_kernels *kernels; /* of the layer in hand */
} card;

static size_t port_bytes(const dt_call *c, int port)
{
    const dt_layer_info *info = &c->node->info;
    const size_t n = (size_t)c->n, value = dt_dtype_bytes(c->dtype);
    const dt_shape x = dt_graph_shape(c->graph, c->node->in[0]);
    if (port < DT_P)
        return n * (size_t)dt_shape_sample(&x) * value;
    if (port >= DT_P && port < DT_D)
        return (size_t)dt_param_count(&info->param[(port - DT_P) % DT_MAX_PARAM]) * sizeof(float);
    if (port >= DT_D && port < DT_S)
        return (size_t)dt_param_count(&info->param[0]) * value;
    if (port >= DT_S && port < DT_M)
        return info->stash[port - DT_S].fixed_bytes + n * info->stash[port - DT_S].sample_bytes;
    if (port == DT_Y || port == DT_DY)
        return n * (size_t)dt_shape_sample(&info->y) * value;
    dt_facts f = {0};
    dt_err err = {0};
    assert_int_equal(port, DT_WORK);
    if (card.kernels->facts != NULL)
        assert_ok(card.kernels->facts(c, &f, &err), &err);
    return f.work_bytes;
}

struct job {
    const dt_call *call;
    void *state;
    dt_args args;
};

static dt_status launch(void *arg, void *queue, dt_err *err)
{
    struct job *j = arg;
    j->args.queue = queue;
    return card.kernels->run(j->call, j->state, &j->args, err);
}

static size_t place(const dt_call *c, const dt_args *a, size_t at[DT_PORTS])
{
    size_t end = 0;
    for (int p = 0; p < DT_PORTS; p++) {
        at[p] = end;
        if (a->port[p] != NULL)
            end += (port_bytes(c, p) + ALIGN - 1) / ALIGN * ALIGN;
    }
    assert_true(end <= ROOM);
    return end;
}

static dt_status run_on_card(const dt_call *c, void *state, const dt_args *a, dt_err *err)
{
    struct job j = {c, state, *a};
    size_t at[DT_PORTS];
    const size_t all = place(c, a, at);
    for (int p = 0; p < DT_PORTS; p++)
        if (a->port[p] != NULL) {
            memcpy(card.here + at[p], a->port[p], port_bytes(c, p));
            j.args.port[p] = card.there + at[p];
        }
    DT_CHECK(card.driver->copy(card.self, 0, card.there, card.here, all, err));
    DT_CHECK(card.driver->launch(card.self, launch, &j, err));
    DT_CHECK(card.driver->copy(card.self, 0, card.here, card.there, all, err));
    DT_CHECK(card.driver->finish(card.self, err));
    for (int p = 0; p < DT_PORTS; p++)
        if (a->port[p] != NULL)
            memcpy(a->port[p], card.here + at[p], port_bytes(c, p));
    return DT_OK;
}

static const struct card_case {
    const dt_layer_desc *desc;
    const char *opts;
    int64_t n;
    dt_shape x;
    dt_dtype dtype;
} cases[] = {
    {&dt_layer_conv, "out=1 kernel=1", 1, {1, 1, 1, 1}, DT_F32},
    {&dt_layer_conv, "out=4 kernel=3 stride=2 pad=1", 2, {1, 7, 5, 3}, DT_F32},
    {&dt_layer_conv, "out=6 kernel=3 groups=3 pad=1 bias=off", 1, {1, 4, 5, 6}, DT_F32},
    {&dt_layer_conv, "out=32 kernel=3 groups=32 pad=1", 2, {1, 14, 14, 32}, DT_F32},
    {&dt_layer_conv, "out=2 kernel=3 dilation=2 pad=2", 1, {1, 6, 5, 3}, DT_F32},
    {&dt_layer_conv, "out=64 kernel=7 stride=2 pad=3 bias=off", 2, {1, 64, 64, 3}, DT_F32},
    {&dt_layer_conv, "out=64 kernel=3 pad=1", 4, {1, 28, 28, 64}, DT_F32},
    {&dt_layer_conv, "out=128 kernel=1 stride=2 bias=off", 4, {1, 28, 28, 64}, DT_F32},
    {&dt_layer_conv, "out=64 kernel=7 stride=2 pad=3 bias=off", 2, {1, 64, 64, 3}, DT_BF16},
    {&dt_layer_conv, "out=64 kernel=3 pad=1", 4, {1, 28, 28, 64}, DT_BF16},
    {&dt_layer_conv, "out=256 kernel=1 bias=off", 4, {1, 14, 14, 64}, DT_BF16},
    {&dt_layer_conv, "out=32 kernel=3 groups=32 pad=1", 2, {1, 14, 14, 32}, DT_BF16},
    {&dt_layer_conv, "out=5 kernel=3", 3, {1, 9, 7, 3}, DT_BF16},
    {&dt_layer_linear, "out=7", 3, {1, 5, 1, 11}, DT_F32},
    {&dt_layer_linear, "out=768 in_out=on", 2, {1, 256, 1, 256}, DT_F32},
    {&dt_layer_linear, "out=768 in_out=on", 2, {1, 256, 1, 256}, DT_BF16},
    {&dt_layer_linear, "out=7", 3, {1, 5, 1, 11}, DT_BF16},
    {&dt_layer_linear, "out=3001", 1, {1, 128, 1, 64}, DT_BF16},
    {&dt_layer_conv_transpose, "out=4 kernel=3 stride=2 pad=1", 2, {1, 7, 5, 3}, DT_F32},
    {&dt_layer_conv_transpose, "out=6 kernel=4 stride=2 pad=1 more=1 groups=3", 2, {1, 6, 5, 9},
        DT_F32},
    {&dt_layer_conv_transpose, "out=32 kernel=4 stride=2 pad=1 bias=off", 4, {1, 14, 14, 64},
        DT_BF16},
    {&dt_layer_fc, "out=10", 3, {1, 4, 3, 5}, DT_F32},
    {&dt_layer_fc, "out=1000", 64, {1, 1, 1, 2048}, DT_F32},
    {&dt_layer_fc, "out=1000", 64, {1, 1, 1, 2048}, DT_BF16},
    {&dt_layer_attention, "heads=1 causal=on", 1, {1, 1, 1, 9}, DT_F32},
    {&dt_layer_attention, "heads=2 causal=off", 2, {1, 130, 1, 96}, DT_F32},
    {&dt_layer_attention, "heads=3 causal=on", 2, {1, 300, 1, 576}, DT_F32},
    {&dt_layer_attention, "heads=1 causal=on", 1, {1, 100, 1, 384}, DT_F32},
    {&dt_layer_attention, "heads=1 causal=on", 1, {1, 100, 1, 768}, DT_F32},
    {&dt_layer_attention, "heads=3 causal=on kind=naive", 2, {1, 150, 1, 576}, DT_F32},
    {&dt_layer_attention, "heads=3 causal=on", 2, {1, 300, 1, 576}, DT_BF16},
    {&dt_layer_attention, "heads=2 causal=off", 1, {1, 100, 1, 90}, DT_BF16},
    {&dt_layer_attention, "heads=1 causal=on", 1, {1, 100, 1, 768}, DT_BF16},
    {&dt_layer_attention, "heads=3 causal=off kind=naive", 1, {1, 150, 1, 576}, DT_BF16},
};

static void run(const struct card_case *c, const dt_layer_desc *desc, float *const values[4],
    void *opts, dt_layer_run *r)
{
    *r = (dt_layer_run){.context = &card.context,
        .desc = desc,
        .opts = opts,
        .n = c->n,
        .n_x = 1,
        .x = {c->x},
        .dtype = c->dtype,
        .in = {values[0]},
        .param = {values[1], values[2]},
        .dy = values[3]};
    dt_layer_check(r);
}

static void assert_same(
    const char *what, const float *got, const float *want, int64_t n, double most)
{
    const double error = dt_relative_error(got, want, (size_t)n);
    if (!(error < most))
        fail_msg("%s: %g of it is wrong, %g at most is allowed", what, error, most);
}

static void compare(const dt_layer_run *got, const dt_layer_run *want, dt_dtype dtype)
{
    const double most = dtype == DT_BF16 ? 2e-2 : 1e-5;
    const dt_layer_info *info = &want->info;
    assert_same("y", got->got_y, want->got_y, want->n * dt_shape_sample(&info->y), most);
    assert_same(
        "dx", got->got_dx[0], want->got_dx[0], want->n * dt_shape_sample(&want->x[0]), most);
    for (int i = 0; i < info->n_param; i++)
        assert_same(info->param[i].name, got->got_dparam[i], want->got_dparam[i],
            dt_param_count(&info->param[i]), most);
}

/* Of a block of the card that answers: what cards of its compute capability have; of others that of
 * the smallest. */
static int shared_here(void)
{
    dt_driver_facts f;
    dt_err err = {0};
    int least = INT32_MAX;
    assert_ok(dt_device_facts(DT_CUDA, &f, &err), &err);
    for (const char *const *name = dt_card_names(); *name != NULL; name++) {
        const dt_card *c = dt_card_find(*name);
        const int shared = dt_card_limits_of(c)->shared;
        char capability[32];
        snprintf(capability, sizeof capability, "capability %d.%d,", c->major, c->minor);
        if (strstr(f.about, capability) != NULL)
            return shared;
        least = shared < least ? shared : least;
    }
    return least;
}

/* Bytes that a block of attention's backward asks for, by what its wide kernels take; 0: no more
 * than every card has. */
static int shared_wanted(const struct card_case *c, const void *opts)
{
    if (c->desc != &dt_layer_attention)
        return 0;
    const int64_t channels = c->x.c / 3 / ((const dt_attention *)opts)->heads;
    if (channels > 128)
        return c->dtype == DT_BF16 ? 102400 : 203776;
    return channels > 64 && c->dtype == DT_F32 ? 105472 : 0;
}

static void the_card_agrees(void **state)
{
    const struct card_case *c = *state;
    dt_layer_desc desc = *c->desc;
    dt_layer_info info = {0};
    dt_err err = {0};
    if (card.driver == NULL)
        skip();
    void *opts = dt_layer_options(&desc, c->opts);
    if (shared_wanted(c, opts) > shared_here()) {
        dt_free(opts);
        skip();
    }
    assert_ok(desc.infer(opts, &c->x, 1, &info, &err), &err);
    const int64_t weights = info.n_param > 0 ? dt_param_count(&info.param[0]) : 0;
    float *values[4] = {dt_random_values((size_t)(c->n * dt_shape_sample(&c->x)), 1),
        dt_random_values((size_t)weights, 2), dt_random_values((size_t)info.y.c, 3),
        dt_random_values((size_t)(c->n * dt_shape_sample(&info.y)), 4)};
    dt_layer_run want, got;
    run(c, &desc, values, opts, &want);
    card.kernels = dti_kernels_of(c->desc, &card.context);
    assert_non_null(card.kernels);
    dt_kernels through = *card.kernels;
    through.run = run_on_card;
    desc.cpu = &through;
    run(c, &desc, values, opts, &got);
    compare(&got, &want, c->dtype);
    dt_layer_check_free(&got);
    dt_layer_check_free(&want);
    dt_free(opts);
    for (int i = 0; i < 4; i++)
        free(values[i]);
}

/* Plans can be made where there is no card: facts then ask no library. */
static void without_a_card_no_library_is_asked(void **state)
{
    const dt_layer_desc *const descs[] = {&dt_layer_conv, &dt_layer_linear};
    const char *const opts[] = {"out=4 kernel=3 bias=off", "out=4"};
    (void)state;
    if (!dt_device_built(DT_CUDA) || card.driver != NULL)
        skip();
    for (size_t i = 0; i < DT_COUNT(descs); i++) {
        dt_graph *g;
        dt_err err = {0};
        dt_facts f;
        int32_t node, in = DT_GRAPH_INPUT;
        void *o = dt_layer_options(descs[i], opts[i]);
        assert_ok(dt_graph_create(&g, "one", (dt_shape){1, 8, 8, 3}, 10, &err), &err);
        assert_ok(dt_graph_add(g, descs[i], "a", o, &in, 1, &node, &err), &err);
        dt_call c = {.context = &card.context,
            .node = &g->node[node],
            .graph = g,
            .form = DT_FORWARD,
            .n = 2,
            .home_n = 2};
        assert_ok(dti_call_facts(&c, descs[i], &f, &err), &err);
        assert_non_null(strstr(f.impl, "no card"));
        assert_int_equal(f.work_bytes + f.derived_bytes, 0);
        c.dtype = DT_BF16; /* whose weight is a copy */
        assert_ok(dti_call_facts(&c, descs[i], &f, &err), &err);
        assert_int_equal(f.derived_bytes, 2 * dt_param_count(&c.node->info.param[0]));
        dt_graph_destroy(g);
        dt_free(o);
    }
}

/* What is slow otherwise, and hard to see. */
static void ordinary_convolutions_have_an_engine(void **state)
{
    const dt_form_kind forms[] = {DT_FORWARD, DT_BACKWARD, DT_BACKWARD2};
    const dt_conv opts = {
        .out = 64, .kernel = 3, .stride = 1, .pad = 1, .dilation = 1, .groups = 1};
    const int32_t in = DT_GRAPH_INPUT;
    dt_graph *g;
    dt_err err = {0};
    dt_facts f;
    int32_t node;
    (void)state;
    if (card.driver == NULL)
        skip();
    assert_ok(dt_graph_create(&g, "one", (dt_shape){1, 28, 28, 64}, 10, &err), &err);
    assert_ok(dt_graph_add(g, &dt_layer_conv, "a", &opts, &in, 1, &node, &err), &err);
    for (int i = 0; i < 6; i++) {
        const dt_call c = {.context = &card.context,
            .node = &g->node[node],
            .graph = g,
            .form = forms[i % 3],
            .dtype = i < 3 ? DT_F32 : DT_BF16,
            .n = 32,
            .home_n = 32};
        assert_ok(dti_call_facts(&c, &dt_layer_conv, &f, &err), &err);
        print_message("%s, form %d: %s, %zu bytes\n", dt_dtype_name(c.dtype), (int)c.form, f.impl,
            f.work_bytes);
        assert_non_null(strstr(f.impl, "engine"));
    }
    dt_graph_destroy(g);
}

static void a_head_that_is_too_wide_is_refused(void **state)
{
    const dt_attention opts = {.heads = 1};
    const int32_t in = DT_GRAPH_INPUT;
    dt_graph *g;
    dt_err err = {0};
    dt_facts f;
    int32_t node;
    (void)state;
    if (!dt_device_built(DT_CUDA))
        skip();
    assert_ok(dt_graph_create(&g, "one", (dt_shape){1, 4, 1, 3 * 257}, 10, &err), &err);
    assert_ok(dt_graph_add(g, &dt_layer_attention, "a", &opts, &in, 1, &node, &err), &err);
    const dt_call c = {
        .context = &card.context, .node = &g->node[node], .graph = g, .n = 2, .home_n = 2};
    assert_fails(
        dti_call_facts(&c, &dt_layer_attention, &f, &err), DT_E_CONFIG, &err, "set heads higher");
    dt_graph_destroy(g);
}

/* Without a card every test of one is skipped. */
static int start(void **state)
{
    dt_err err = {0};
    void *there, *here;
    (void)state;
    if (!dt_device_built(DT_CUDA))
        return 0;
    assert_ok(dt_context_open(&card.context, DT_CUDA, NULL, false, &err), &err);
    if (!dt_device_answers(DT_CUDA, NULL))
        return 0;
    card.driver = dt_device_driver(DT_CUDA);
    assert_ok(card.driver->open(1, &card.self, &err), &err);
    assert_ok(card.driver->reserve(card.self, ROOM, &there, &err), &err);
    assert_ok(card.driver->pin(card.self, ROOM, &here, &err), &err);
    card.there = there;
    card.here = here;
    return 0;
}

static int stop(void **state)
{
    (void)state;
    dt_context_close(&card.context);
    if (card.driver == NULL)
        return 0;
    card.driver->release(card.self, card.there);
    card.driver->unpin(card.self, card.here);
    card.driver->close(card.self);
    return 0;
}

DT_TEST_GROUP(cuda_card)
{
    static struct card_case copies[DT_COUNT(cases)];
    enum { OTHERS = 3 };
    struct CMUnitTest tests[OTHERS + DT_COUNT(cases)] = {
        cmocka_unit_test(without_a_card_no_library_is_asked),
        cmocka_unit_test(ordinary_convolutions_have_an_engine),
        cmocka_unit_test(a_head_that_is_too_wide_is_refused)};
    for (size_t i = 0; i < DT_COUNT(cases); i++) {
        copies[i] = cases[i];
        tests[OTHERS + i] =
            (struct CMUnitTest){copies[i].opts, the_card_agrees, NULL, NULL, &copies[i]};
    }
    return cmocka_run_group_tests(tests, start, stop);
}
