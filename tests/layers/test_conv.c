/* What conv and fc get from oneDNN: which implementation, which layouts, how much memory. */
#include <stdlib.h>
#include <string.h>

#include "engine/base/alloc.h"
#include "layers/weighted/conv.h"
#include "layers/weighted/fc.h"
#include "layers/plain.h"
#include "tests/fixture/check.h"
#include "layers/onednn/onednn.h"
#include "tests/fixture/layer_check.h"
#include "tests/fixture/sanitizer.h"

/* Convolutions of the networks that come with the engine: input height, channels, options. */
static const struct known {
    int64_t hw, c;
    dt_conv o;
} known[] = {
    /* ResNet-50 */
    {224, 3, {64, 7, 2, 3, 1, 1, false}},
    {56, 64, {64, 1, 1, 0, 1, 1, false}},
    {56, 64, {64, 3, 1, 1, 1, 1, false}},
    {56, 64, {256, 1, 1, 0, 1, 1, false}},
    {56, 256, {64, 1, 1, 0, 1, 1, false}},
    {56, 256, {128, 1, 1, 0, 1, 1, false}},
    {56, 128, {128, 3, 2, 1, 1, 1, false}},
    {28, 128, {512, 1, 1, 0, 1, 1, false}},
    {56, 256, {512, 1, 2, 0, 1, 1, false}},
    {28, 512, {128, 1, 1, 0, 1, 1, false}},
    {28, 128, {128, 3, 1, 1, 1, 1, false}},
    {28, 512, {256, 1, 1, 0, 1, 1, false}},
    {28, 256, {256, 3, 2, 1, 1, 1, false}},
    {14, 256, {1024, 1, 1, 0, 1, 1, false}},
    {28, 512, {1024, 1, 2, 0, 1, 1, false}},
    {14, 1024, {256, 1, 1, 0, 1, 1, false}},
    {14, 256, {256, 3, 1, 1, 1, 1, false}},
    {14, 1024, {512, 1, 1, 0, 1, 1, false}},
    {14, 512, {512, 3, 2, 1, 1, 1, false}},
    {7, 512, {2048, 1, 1, 0, 1, 1, false}},
    {14, 1024, {2048, 1, 2, 0, 1, 1, false}},
    {7, 2048, {512, 1, 1, 0, 1, 1, false}},
    {7, 512, {512, 3, 1, 1, 1, 1, false}},
    /* VGG-16 */
    {224, 3, {64, 3, 1, 1, 1, 1, true}},
    {224, 64, {64, 3, 1, 1, 1, 1, true}},
    {112, 64, {128, 3, 1, 1, 1, 1, true}},
    {112, 128, {128, 3, 1, 1, 1, 1, true}},
    {56, 128, {256, 3, 1, 1, 1, 1, true}},
    {56, 256, {256, 3, 1, 1, 1, 1, true}},
    {28, 256, {512, 3, 1, 1, 1, 1, true}},
    {28, 512, {512, 3, 1, 1, 1, 1, true}},
    {14, 512, {512, 3, 1, 1, 1, 1, true}},
    /* AlexNet, in one column and in two */
    {224, 3, {64, 11, 4, 2, 1, 1, true}},
    {27, 64, {192, 5, 1, 2, 1, 1, true}},
    {13, 192, {384, 3, 1, 1, 1, 1, true}},
    {13, 384, {256, 3, 1, 1, 1, 1, true}},
    {13, 256, {256, 3, 1, 1, 1, 1, true}},
    {227, 3, {96, 11, 4, 0, 1, 1, true}},
    {27, 96, {256, 5, 1, 2, 1, 2, true}},
    {13, 256, {384, 3, 1, 1, 1, 1, true}},
    {13, 384, {384, 3, 1, 1, 1, 2, true}},
    {13, 384, {256, 3, 1, 1, 1, 2, true}},
    /* LeNet */
    {28, 1, {6, 5, 1, 2, 1, 1, true}},
    {14, 6, {16, 5, 1, 0, 1, 1, true}},
    {28, 1, {20, 5, 1, 0, 1, 1, true}},
    {12, 20, {50, 5, 1, 0, 1, 1, true}},
    /* ResNet-20 on CIFAR */
    {32, 3, {16, 3, 1, 1, 1, 1, false}},
    {32, 16, {16, 3, 1, 1, 1, 1, false}},
    {32, 16, {32, 3, 2, 1, 1, 1, false}},
    {16, 32, {32, 3, 1, 1, 1, 1, false}},
    {16, 32, {64, 3, 2, 1, 1, 1, false}},
    {8, 64, {64, 3, 1, 1, 1, 1, false}},
    {32, 16, {32, 1, 2, 0, 1, 1, false}},
    {16, 32, {64, 1, 2, 0, 1, 1, false}},
};

static const int64_t known_fc[][2] = {{2048, 1000}, {25088, 4096}, {9216, 4096}, {4096, 4096},
    {4096, 1000}, {800, 500}, {400, 120}, {120, 84}, {84, 10}, {64, 10}};

/* A graph of one layer, and a call for it. */
typedef struct one {
    dt_graph *g;
    dt_call call;
} one;

static one make_one(const dt_layer_desc *desc, const void *opts, dt_shape x, int64_t n)
{
    one o = {0};
    dt_err err = {0};
    const int32_t in = DT_GRAPH_INPUT;
    int32_t id;
    assert_ok(dt_graph_create(&o.g, "one", x, 10, &err), &err);
    assert_ok(dt_graph_add(o.g, desc, "layer", opts, &in, 1, &id, &err), &err);
    o.call = (dt_call){.node = &o.g->node[id], .graph = o.g, .n = n, .home_n = n, .needs_dx = true};
    return o;
}

static dt_facts facts_of(one *o, dt_form_kind form)
{
    dt_facts f;
    dt_err err = {0};
    o->call.form = form;
    assert_ok(o->call.node->desc->cpu->facts(&o->call, &f, &err), &err);
    return f;
}

static const dt_form_kind computing[] = {DT_FORWARD, DT_BACKWARD, DT_BACKWARD2};

static void refuse_slow(one *o, const char *what)
{
    for (size_t k = 0; k < DT_COUNT(computing) * DT_DTYPES; k++) {
        const size_t i = k / DT_DTYPES;
        o->call.dtype = (dt_dtype)(k % DT_DTYPES);
        const dt_facts f = facts_of(o, computing[i]);
        if (f.impl[0] == '\0' || strstr(f.impl, "ref") != NULL || strstr(f.impl, ":gemm") != NULL ||
            strncmp(f.impl, "gemm", 4) == 0)
            fail_msg("%s, form %d, %lld samples, %s: '%s'", what, (int)computing[i],
                (long long)o->call.n, dt_dtype_name(o->call.dtype), f.impl);
    }
}

static void no_convolution_falls_back_to_reference_or_gemm(void **state)
{
    (void)state;
    if (!dti_onednn_avx512())
        skip();
    for (size_t i = 0; i < DT_COUNT(known); i++)
        for (int64_t n = 8; n <= 16; n += 8) {
            const struct known *k = &known[i];
            char what[64];
            snprintf(what, sizeof what, "conv %zu of the table", i);
            one o = make_one(&dt_layer_conv, &k->o, (dt_shape){1, k->hw, k->hw, k->c}, n);
            refuse_slow(&o, what);
            dt_graph_destroy(o.g);
        }
}

static void no_fc_falls_back_to_reference_or_gemm(void **state)
{
    (void)state;
    if (!dti_onednn_avx512())
        skip();
    for (size_t i = 0; i < DT_COUNT(known_fc); i++)
        for (int64_t n = 8; n <= 16; n += 8) {
            const dt_fc opts = {known_fc[i][1], true};
            char what[64];
            snprintf(what, sizeof what, "fc %zu of the table", i);
            one o = make_one(&dt_layer_fc, &opts, (dt_shape){1, 1, 1, known_fc[i][0]}, n);
            refuse_slow(&o, what);
            dt_graph_destroy(o.g);
        }
}

/* Allocations while `watching`, seen by standing in for the C library's functions. */
#if !DT_OWN_HEAP && defined(__GLIBC__)
#define CAN_WATCH 1
static volatile bool watching;
static volatile size_t seen_bytes;
void *__libc_malloc(size_t n);
void *__libc_calloc(size_t n, size_t each);
void *__libc_memalign(size_t align, size_t n);

void *malloc(size_t n)
{
    seen_bytes += watching ? n : 0;
    return __libc_malloc(n);
}

void *calloc(size_t n, size_t each)
{
    seen_bytes += watching ? n * each : 0;
    return __libc_calloc(n, each);
}

void *aligned_alloc(size_t align, size_t n)
{
    seen_bytes += watching ? n : 0;
    return __libc_memalign(align, n);
}

int posix_memalign(void **p, size_t align, size_t n)
{
    seen_bytes += watching ? n : 0;
    *p = __libc_memalign(align, n);
    return *p != NULL ? 0 : 12;
}
#else
#define CAN_WATCH 0
#endif

#if CAN_WATCH
enum { BOOKKEEPING = 2048 }; /* bytes the library takes and gives back in every call */

/* Bytes allocated by the second execution of a form; the first one may still prepare threads. */
static size_t run_twice(one *o, dt_form_kind form)
{
    const dt_facts f = facts_of(o, form);
    const size_t weights = (size_t)dt_param_count(&o->call.node->info.param[0]) * 20 + (1 << 20);
    const dt_shape x = dt_graph_shape(o->g, DT_GRAPH_INPUT), y = o->call.node->info.y;
    const size_t values = (size_t)o->call.n * (size_t)(dt_shape_sample(&x) > dt_shape_sample(&y)
                                                           ? dt_shape_sample(&x)
                                                           : dt_shape_sample(&y));
    dt_args a = {.n = o->call.n};
    dt_err err = {0};
    void *state;
    assert_ok(o->call.node->desc->cpu->create(&o->call, &state, &err), &err);
    for (int p = 0; p < DT_PORTS; p++) {
        const bool weight = p >= DT_P && p < DT_M;
        a.port[p] = dt_alloc(p == DT_WORK ? f.work_bytes : weight ? weights : values * 4, 1);
        assert_non_null(a.port[p]);
    }
    assert_ok(o->call.node->desc->cpu->run(&o->call, state, &a, &err), &err);
    seen_bytes = 0;
    watching = true;
    const dt_status st = o->call.node->desc->cpu->run(&o->call, state, &a, &err);
    watching = false;
    assert_ok(st, &err);
    o->call.node->desc->cpu->destroy(state);
    for (int p = 0; p < DT_PORTS; p++)
        dt_free(a.port[p]);
    return seen_bytes;
}
#endif

#if CAN_WATCH
/* Whether kernels have the form: a gradient of ours is in no other order, and a product reads the
 * weight as it lives. */
static bool exists(one *o, dt_form_kind form)
{
    const dt_facts b = facts_of(o, DT_BACKWARD);
    if (form == DT_RESTORE)
        return strcmp(b.impl, "amx") != 0 && strcmp(b.impl, "implicit_gemm") != 0;
    const dt_form_kind serves = form == DT_DERIVE_B ? DT_BACKWARD2 : DT_FORWARD;
    const bool derives = form == DT_DERIVE_F || form == DT_DERIVE_B;
    return !derives || strcmp(facts_of(o, serves).impl, "product") != 0;
}
#endif

static void running_allocates_only_bookkeeping(void **state)
{
    (void)state;
#if CAN_WATCH
    if (!dti_onednn_avx512())
        skip();
    const dt_form_kind forms[] = {
        DT_FORWARD, DT_BACKWARD, DT_BACKWARD2, DT_DERIVE_F, DT_DERIVE_B, DT_RESTORE};
    const dt_conv conv[] = {{20, 5, 1, 2, 1, 1, true}, {64, 1, 2, 0, 1, 1, false},
        {64, 1, 1, 0, 1, 1, false}, {32, 3, 2, 1, 1, 1, true}, {32, 3, 1, 1, 1, 32, true}};
    const dt_fc fc = {500, true};
    size_t all = 0;
    for (size_t i = 0; i <= DT_COUNT(conv); i++) {
        one o = i < DT_COUNT(conv)
                    ? make_one(&dt_layer_conv, &conv[i], (dt_shape){1, 14, 14, 32}, 4)
                    : make_one(&dt_layer_fc, &fc, (dt_shape){1, 6, 6, 64}, 8);
        for (size_t k = 0; k < DT_COUNT(forms) * DT_DTYPES; k++) {
            o.call.dtype = (dt_dtype)(k % DT_DTYPES);
            const dt_form_kind form = forms[k / DT_DTYPES];
            if (!exists(&o, form))
                continue;
            const size_t bytes = run_twice(&o, form);
            if (bytes > BOOKKEEPING)
                fail_msg("layer %zu, form %d, %s: allocated %zu bytes", i, (int)form,
                    dt_dtype_name(o.call.dtype), bytes);
            all += bytes;
        }
        dt_graph_destroy(o.g);
    }
    assert_true(all > 0); /* the watch works */
#else
    skip();
#endif
}

/* A batch unlike the training micro-batch, such as the last of an epoch. */
static void another_batch_gives_the_same_gradients_in_the_home_layout(void **state)
{
    (void)state;
    const char *const text[] = {
        "out=33 kernel=1 stride=2", "out=20 kernel=5 pad=2", "out=64 kernel=3"};
    for (size_t i = 0; i < DT_COUNT(text); i++) {
        dt_layer_run a = {.desc = &dt_layer_conv, .n = 3, .n_x = 1, .x = {{1, 9, 8, 20}}}, b;
        float *x = dt_random_values(3 * 9 * 8 * 20, 1), *w = dt_random_values(64 * 20 * 25, 2);
        float *dy = dt_random_values(3 * 9 * 8 * 64, 3);
        void *opts = dt_layer_options(a.desc, text[i]);
        a.opts = opts;
        a.in[0] = x;
        a.param[0] = w;
        a.dy = dy;
        b = a;
        b.home_n = 64;
        dt_layer_check(&a);
        dt_layer_check(&b);
        const size_t count = (size_t)dt_param_count(&a.info.param[0]);
        assert_memory_equal(a.got_dparam[0], b.got_dparam[0], count * sizeof(float));
        assert_memory_equal(
            a.got_y, b.got_y, (size_t)(3 * dt_shape_sample(&a.info.y)) * sizeof(float));
        dt_layer_check_free(&a);
        dt_layer_check_free(&b);
        dt_free(opts);
        free(x);
        free(w);
        free(dy);
    }
}

/* Whatever layout a batch's gradient has, restoring it loses nothing. */
static void restoring_brings_a_gradient_home(void **state)
{
    (void)state;
    const dt_conv opts = {33, 3, 1, 0, 1, 1, true};
    one o = make_one(&dt_layer_conv, &opts, (dt_shape){1, 8, 8, 20}, 4);
    const dt_kernels *k = dt_layer_conv.cpu;
    size_t bytes;
    dt_err err = {0};
    void *op;
    assert_ok(k->param_bytes(&o.call, 0, &bytes, &err), &err);
    float *w = dt_random_values(33 * 20 * 9, 1);
    dt_args a = {.n = 4, .port[DT_S] = dt_alloc(bytes, 1), .port[DT_DP] = dt_alloc(bytes, 1)};
    float back[33 * 20 * 9];
    assert_true(a.port[DT_S] != NULL && a.port[DT_DP] != NULL);
    assert_ok(k->param_put(&o.call, 0, (dt_rows){.n = 33}, w, a.port[DT_S], &err), &err);
    o.call.form = DT_RESTORE;
    o.call.home_n = 100;
    assert_ok(k->create(&o.call, &op, &err), &err);
    assert_ok(k->run(&o.call, op, &a, &err), &err);
    assert_ok(k->param_get(&o.call, 0, (dt_rows){.n = 33}, a.port[DT_DP], back, &err), &err);
    assert_memory_equal(back, w, sizeof back);
    k->destroy(op);
    free(w);
    dt_free(a.port[DT_S]);
    dt_free(a.port[DT_DP]);
    dt_graph_destroy(o.g);
}

static void evaluation_has_the_facts_of_forward(void **state)
{
    (void)state;
    const dt_conv opts = {33, 3, 1, 0, 1, 1, true};
    one o = make_one(&dt_layer_conv, &opts, (dt_shape){1, 8, 8, 20}, 4);
    const dt_facts eval = facts_of(&o, DT_EVAL), forward = facts_of(&o, DT_FORWARD);
    assert_int_equal(eval.derived_bytes, forward.derived_bytes);
    assert_int_equal(eval.work_bytes, forward.work_bytes);
    assert_string_equal(eval.impl, forward.impl);
    dt_graph_destroy(o.g);
}

static void weights_of_fc_serve_every_direction_as_they_live(void **state)
{
    (void)state;
    if (!dti_onednn_avx512())
        skip();
    for (size_t i = 0; i < DT_COUNT(known_fc); i++) {
        const dt_fc opts = {known_fc[i][1], true};
        one o = make_one(&dt_layer_fc, &opts, (dt_shape){1, 1, 1, known_fc[i][0]}, 16);
        assert_int_equal(facts_of(&o, DT_FORWARD).derived_bytes, 0);
        assert_int_equal(facts_of(&o, DT_BACKWARD).gradient_bytes, 0);
        assert_int_equal(facts_of(&o, DT_BACKWARD2).derived_bytes, 0);
        dt_graph_destroy(o.g);
    }
}

static void pieces_of_a_batch_give_the_bits_of_the_whole(void **state)
{
    (void)state;
    const char *const text[] = {"out=64 kernel=1", "out=32 kernel=3 pad=1", "out=20 kernel=5",
        "out=64 kernel=1 stride=2", "out=16 kernel=3 stride=2 pad=1", "out=16 kernel=3 groups=16"};
    const dt_shape x = {1, 13, 14, 16};
    float *in = dt_random_values((size_t)(7 * dt_shape_sample(&x)), 1);
    float *w = dt_random_values(64 * 16 * 25, 2), *dy = dt_random_values(7 * 64 * 13 * 14, 3);
    for (size_t k = 0; k < DT_COUNT(text) * DT_DTYPES; k++) {
        void *opts = dt_layer_options(&dt_layer_conv, text[k / DT_DTYPES]);
        dt_layer_run a = {.desc = &dt_layer_conv, .opts = opts, .n = 7, .n_x = 1, .x = {x}};
        a.dtype = (dt_dtype)(k % DT_DTYPES);
        a.in[0] = in;
        a.param[0] = w;
        a.dy = dy;
        dt_layer_run b = a;
        b.piece = 3;
        dt_layer_check(&a);
        dt_layer_check(&b);
        const size_t n_y = (size_t)(7 * dt_shape_sample(&a.info.y));
        assert_memory_equal(a.got_y, b.got_y, n_y * sizeof(float));
        assert_memory_equal(
            a.got_dx[0], b.got_dx[0], (size_t)(7 * dt_shape_sample(&x)) * sizeof(float));
        dt_layer_check_free(&a);
        dt_layer_check_free(&b);
        dt_free(opts);
    }
    free(in);
    free(w);
    free(dy);
}

static void fc_behind_flatten_knows_the_image(void **state)
{
    (void)state;
    const dt_fc opts = {7, true};
    const dt_shape x = {1, 3, 4, 5};
    const int32_t input = DT_GRAPH_INPUT;
    int32_t flat, id;
    size_t bytes;
    dt_err err = {0};
    one direct = make_one(&dt_layer_fc, &opts, x, 2),
        behind = make_one(&dt_layer_flatten, NULL, x, 2);
    assert_ok(
        dt_graph_add(behind.g, &dt_layer_flatten, "again", NULL, &input, 1, &flat, &err), &err);
    assert_ok(dt_graph_add(behind.g, &dt_layer_fc, "fc", &opts, &flat, 1, &id, &err), &err);
    behind.call.node = &behind.g->node[id];
    const dt_kernels *k = dt_layer_fc.cpu;
    assert_ok(k->param_bytes(&direct.call, 0, &bytes, &err), &err);
    float *w = dt_random_values(7 * 60, 1), *a = dt_alloc(bytes, 1), *b = dt_alloc(bytes, 1);
    float back[7 * 60], own[7 * 60]; /* what is put may be changed on the way */
    assert_true(a != NULL && b != NULL);
    memcpy(own, w, sizeof own);
    assert_ok(k->param_put(&direct.call, 0, (dt_rows){.n = 7}, own, a, &err), &err);
    memcpy(own, w, sizeof own);
    assert_ok(k->param_put(&behind.call, 0, (dt_rows){.n = 7}, own, b, &err), &err);
    assert_memory_equal(a, b, bytes);
    assert_ok(k->param_get(&behind.call, 0, (dt_rows){.n = 7}, b, back, &err), &err);
    assert_memory_equal(back, w, sizeof back);
    free(w);
    dt_free(a);
    dt_free(b);
    dt_graph_destroy(direct.g);
    dt_graph_destroy(behind.g);
}

static void errors_name_the_layer_and_its_shapes(void **state)
{
    (void)state;
    const dt_conv groups = {8, 3, 1, 1, 1, 3, true}, large = {8, 9, 1, 1, 1, 1, true},
                  zero = {8, 0, 1, 0, 1, 1, true};
    const dt_conv *const bad[] = {&groups, &large, &zero};
    const char *const text[] = {"groups = 3 must divide the 4 input channels",
        "a kernel reaching over 9 pixels does not fit into 8x7", "kernel 0"};
    for (size_t i = 0; i < DT_COUNT(bad); i++) {
        dt_graph *g;
        dt_err err = {0};
        const int32_t in = DT_GRAPH_INPUT;
        int32_t id;
        assert_ok(dt_graph_create(&g, "bad", (dt_shape){1, 6, 5, 4}, 10, &err), &err);
        const dt_status st = dt_graph_add(g, &dt_layer_conv, "c1", bad[i], &in, 1, &id, &err);
        assert_fails(st, DT_E_CONFIG, &err, text[i]);
        assert_non_null(strstr(err.text, "layer 'c1' (conv), whose inputs are the input (6x5x4)"));
        dt_graph_destroy(g);
    }
}

DT_TEST_GROUP(conv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_convolution_falls_back_to_reference_or_gemm),
        cmocka_unit_test(no_fc_falls_back_to_reference_or_gemm),
        cmocka_unit_test(running_allocates_only_bookkeeping),
        cmocka_unit_test(another_batch_gives_the_same_gradients_in_the_home_layout),
        cmocka_unit_test(restoring_brings_a_gradient_home),
        cmocka_unit_test(evaluation_has_the_facts_of_forward),
        cmocka_unit_test(weights_of_fc_serve_every_direction_as_they_live),
        cmocka_unit_test(pieces_of_a_batch_give_the_bits_of_the_whole),
        cmocka_unit_test(fc_behind_flatten_knows_the_image),
        cmocka_unit_test(errors_name_the_layer_and_its_shapes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
