/* Kernels on bf16 values: all arithmetic is in single precision, so on the same inputs they give
 * what the fp32 kernels give, rounded, and the very same statistics, masks, indices and gradients
 * of parameters. */
#include <stdlib.h>
#include <string.h>

#include "engine/dtype.h"
#include "layers/norm/batchnorm.h"
#include "layers/elementwise/dropout.h"
#include "layers/pool/maxpool.h"
#include "layers/plain.h"
#include "layers/shape/shortcut.h"
#include "tests/fixture/check.h"
#include "tests/fixture/layer_check.h"

static const struct row {
    const dt_layer_desc *desc;
    dt_shape x;
    int64_t n;
    int n_x;
    dt_maxpool maxpool; /* windows that do not overlap: then no gradients are added up */
} rows[] = {
    {&dt_layer_add, {1, 5, 7, 3}, 3, 2, {0}},
    {&dt_layer_add, {1, 41, 40, 33}, 2, 3, {0}},
    {&dt_layer_add_relu, {1, 5, 7, 3}, 3, 2, {0}},
    {&dt_layer_add_relu, {1, 41, 40, 33}, 2, 3, {0}},
    {&dt_layer_batchnorm, {1, 5, 7, 3}, 3, 1, {0}},
    {&dt_layer_batchnorm, {1, 28, 28, 130}, 4, 1, {0}},
    {&dt_layer_batchnorm_relu, {1, 5, 7, 3}, 3, 1, {0}},
    {&dt_layer_batchnorm_relu, {1, 28, 28, 130}, 4, 1, {0}},
    {&dt_layer_dropout, {1, 5, 7, 3}, 3, 1, {0}},
    {&dt_layer_dropout, {1, 41, 40, 33}, 2, 1, {0}},
    {&dt_layer_global_avgpool, {1, 5, 7, 3}, 3, 1, {0}},
    {&dt_layer_global_avgpool, {1, 28, 28, 130}, 4, 1, {0}},
    {&dt_layer_maxpool, {1, 9, 8, 67}, 3, 1, {.kernel = 2}},
    {&dt_layer_maxpool, {1, 10, 11, 64}, 3, 1, {.kernel = 5}},
    {&dt_layer_relu, {1, 5, 7, 3}, 3, 1, {0}},
    {&dt_layer_relu, {1, 41, 40, 33}, 2, 1, {0}},
    {&dt_layer_shortcut, {1, 9, 8, 5}, 3, 1, {0}},
};

enum { MOST = 1 << 19, PARAMS = 1 << 10, SMALL = 1 << 18 };

/* Bytes of every port, of one type. */
typedef struct side {
    dt_dtype t;
    void *port[DT_PORTS];
} side;

static bool is_value(int port)
{
    return port < DT_P || port == DT_Y || port == DT_DY;
}

static void open_side(side *s, dt_dtype t)
{
    s->t = t;
    for (int p = 0; p < DT_PORTS; p++) {
        const size_t bytes = is_value(p)             ? MOST * dt_dtype_bytes(t)
                             : p >= DT_P && p < DT_D ? PARAMS * sizeof(float)
                                                     : SMALL;
        s->port[p] = calloc(1, bytes);
        assert_non_null(s->port[p]);
    }
}

static void close_side(side *s)
{
    for (int p = 0; p < DT_PORTS; p++)
        free(s->port[p]);
}

static float value_of(const side *s, int port, size_t i)
{
    return s->t == DT_BF16 ? dt_bf16_to_float(((const dt_bf16 *)s->port[port])[i])
                           : ((const float *)s->port[port])[i];
}

/* The same bf16 values on both sides. */
static void put(side sides[2], int port, uint32_t key)
{
    float *v = dt_random_values(MOST, key);
    for (size_t i = 0; i < MOST; i++) {
        const dt_bf16 b = dt_bf16_from_float(v[i]);
        ((float *)sides[DT_F32].port[port])[i] = dt_bf16_to_float(b);
        ((dt_bf16 *)sides[DT_BF16].port[port])[i] = b;
    }
    free(v);
}

static void put_params(side sides[2])
{
    for (int i = 0; i < DT_MAX_PARAM; i++) {
        float *v = dt_random_values(PARAMS, 50 + (uint32_t)i);
        for (int k = 0; k < PARAMS; k++)
            v[k] += 1.5f;
        for (int k = 0; k < 2; k++)
            memcpy(sides[k].port[DT_P + i], v, PARAMS * sizeof *v);
        free(v);
    }
}

static void run(const dt_node *nd, const dt_graph *g, const struct row *row, dt_form_kind form,
    int alt, side *s)
{
    dt_args a = {.n = row->n, .step_labels = row->n * dt_graph_labels(g)};
    const dt_call c = {.node = nd,
        .graph = g,
        .form = form,
        .alt = alt,
        .dtype = s->t,
        .n = row->n,
        .home_n = row->n,
        .needs_dx = true};
    dt_facts f = {0};
    dt_err err = {0};
    for (int p = 0; p < DT_PORTS; p++)
        a.port[p] = s->port[p];
    const dt_ports saved = alt < row->desc->n_alt ? row->desc->alt[alt].reads : 0;
    for (int i = 0; i < DT_MAX_STASH; i++)
        if (!(saved & DT_BIT(DT_S + i)))
            a.port[DT_S + i] = NULL;
    if (row->desc->cpu->facts != NULL)
        assert_ok(row->desc->cpu->facts(&c, &f, &err), &err);
    assert_true(f.work_bytes <= SMALL);
    assert_ok(row->desc->cpu->run(&c, NULL, &a, &err), &err);
}

static void values_are_rounded(const side sides[2], int port, size_t n, const char *layer)
{
    bool any = false;
    for (size_t i = 0; i < n; i++) {
        const float want = dt_bf16_to_float(dt_bf16_from_float(value_of(&sides[0], port, i)));
        const float got = value_of(&sides[1], port, i);
        if (memcmp(&want, &got, sizeof got) != 0)
            fail_msg("%s: element %zu of port %d is %g, not %g", layer, i, port, (double)got,
                (double)want);
        any = any || got != 0;
    }
    assert_true(any);
}

static void compare(const dt_node *nd, const struct row *row, bool backward, const side sides[2])
{
    const char *layer = row->desc->name;
    const size_t n = (size_t)row->n, x = n * (size_t)dt_shape_sample(&row->x);
    values_are_rounded(sides, DT_Y, n * (size_t)dt_shape_sample(&nd->info.y), layer);
    if (backward)
        values_are_rounded(sides, DT_DX, x, layer);
    for (int p = 0; p < DT_PORTS; p++)
        if (!is_value(p) && p != DT_WORK && p < DT_LABELS &&
            memcmp(sides[0].port[p], sides[1].port[p],
                p >= DT_P && p < DT_D ? PARAMS * sizeof(float) : SMALL) != 0)
            fail_msg("%s: bits of port %d differ between the types", layer, p);
}

static void run_row(const struct row *row, int alt)
{
    const bool backward = row->desc->form[DT_BACKWARD].suffix != NULL;
    assert_true(row->n * dt_shape_sample(&row->x) <= MOST);
    int32_t in[DT_MAX_IN], id;
    side sides[2];
    dt_graph *g;
    dt_err err = {0};
    for (int i = 0; i < DT_MAX_IN; i++)
        in[i] = DT_GRAPH_INPUT;
    assert_ok(dt_graph_create(&g, "g", row->x, 10, &err), &err);
    static const dt_shortcut wider = {.out = 8, .stride = 2};
    const void *opts = row->desc == &dt_layer_maxpool    ? (const void *)&row->maxpool
                       : row->desc == &dt_layer_shortcut ? &wider
                                                         : NULL;
    assert_ok(dt_graph_add(g, row->desc, "layer", opts, in, row->n_x, &id, &err), &err);
    open_side(&sides[0], DT_F32);
    open_side(&sides[1], DT_BF16);
    for (int i = 0; i < row->n_x; i++)
        put(sides, DT_X + i, (uint32_t)i);
    put(sides, DT_DY, 30);
    put_params(sides);
    run(&g->node[id], g, row, DT_FORWARD, alt, &sides[0]);
    run(&g->node[id], g, row, DT_FORWARD, alt, &sides[1]);
    for (int k = 0; k < 2 && backward; k++)
        run(&g->node[id], g, row, DT_BACKWARD, alt, &sides[k]);
    compare(&g->node[id], row, backward, sides);
    close_side(&sides[0]);
    close_side(&sides[1]);
    dt_graph_destroy(g);
}

static void bf16_is_fp32_rounded(void **state)
{
    (void)state;
    for (size_t i = 0; i < DT_COUNT(rows); i++)
        for (int alt = 0; alt == 0 || alt < rows[i].desc->n_alt; alt++)
            run_row(&rows[i], alt);
}

/* Where gradients meet in a pixel, a kernel may round every sum to bf16, or the last only. */
static void overlapping_windows_stay_near(void **state)
{
    (void)state;
    const struct row row = {
        &dt_layer_maxpool, {1, 13, 12, 9}, 2, 1, {.kernel = 3, .stride = 2, .pad = 1}};
    const int32_t in = DT_GRAPH_INPUT;
    const size_t n = 2 * 13 * 12 * 9;
    int32_t id;
    side sides[2];
    dt_graph *g;
    dt_err err = {0};
    assert_ok(dt_graph_create(&g, "g", row.x, 10, &err), &err);
    assert_ok(dt_graph_add(g, row.desc, "layer", &row.maxpool, &in, 1, &id, &err), &err);
    open_side(&sides[0], DT_F32);
    open_side(&sides[1], DT_BF16);
    put(sides, DT_X, 1);
    put(sides, DT_DY, 2);
    for (int k = 0; k < 2; k++) {
        run(&g->node[id], g, &row, DT_FORWARD, 1, &sides[k]);
        run(&g->node[id], g, &row, DT_BACKWARD, 1, &sides[k]);
    }
    float *got = malloc(n * sizeof *got);
    assert_non_null(got);
    for (size_t i = 0; i < n; i++)
        got[i] = value_of(&sides[1], DT_DX, i);
    assert_true(dt_relative_error(got, sides[0].port[DT_DX], n) < 0x1p-8);
    free(got);
    close_side(&sides[0]);
    close_side(&sides[1]);
    dt_graph_destroy(g);
}

DT_TEST_GROUP(bf16_layers)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bf16_is_fp32_rounded),
        cmocka_unit_test(overlapping_windows_stay_near),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
