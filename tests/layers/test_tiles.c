/* What comes in tiles: softmax and its loss, the embedding of a part of a vocabulary. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/alloc.h"
#include "engine/checkpoint/safetensors.h"
#include "engine/dtype.h"
#include "layers/sequence/embedding.h"
#include "layers/plain.h"
#include "layers/loss/softmax_tile.h"
#include "tests/fixture/check.h"
#include "tests/fixture/layer_check.h"

enum { MOST_ROWS = 40, MOST_CLASSES = 1200, MOST_TILES = 24 };

/* Scores of n samples, whole, and what is made of them. */
typedef struct scores {
    int64_t n, classes;
    dt_dtype dtype;
    float smooth;
    const float *x;
    const int32_t *label;
    float *dx;
    dt_metrics metrics;
} scores;

static void *bytes_of(int64_t n, dt_dtype t)
{
    void *v = calloc((size_t)n, dt_dtype_bytes(t));
    assert_non_null(v);
    return v;
}

/* Columns [first, first + n) as a device has them, and back. */
static void *columns(const scores *s, int64_t first, int64_t n)
{
    void *v = bytes_of(s->n * n, s->dtype);
    for (int64_t r = 0; r < s->n; r++)
        for (int64_t c = 0; c < n; c++) {
            const float x = s->x[r * s->classes + first + c];
            if (s->dtype == DT_BF16)
                ((dt_bf16 *)v)[r * n + c] = dt_bf16_from_float(x);
            else
                ((float *)v)[r * n + c] = x;
        }
    return v;
}

static void put_back(const scores *s, const void *v, int64_t first, int64_t n)
{
    for (int64_t r = 0; r < s->n; r++)
        for (int64_t c = 0; c < n; c++)
            s->dx[r * s->classes + first + c] =
                s->dtype == DT_BF16 ? dt_bf16_to_float(((const dt_bf16 *)v)[r * n + c])
                                    : ((const float *)v)[r * n + c];
}

static void run_node(const scores *s, const dt_graph *g, int32_t node, dt_form_kind form,
    void *const port[DT_PORTS], dt_status want)
{
    dt_err err = {0};
    const dt_call c = {.node = &g->node[node],
        .graph = g,
        .form = form,
        .dtype = s->dtype,
        .n = s->n,
        .home_n = s->n,
        .needs_dx = true};
    dt_facts f = {0};
    dt_args a = {.n = s->n,
        .step_labels = s->n * dt_graph_labels(g),
        .hyper = {.label_smoothing = s->smooth}};
    const dt_kernels *k = g->node[node].desc->cpu;
    if (k->facts != NULL)
        assert_ok(k->facts(&c, &f, &err), &err);
    memcpy(a.port, port, sizeof a.port);
    a.port[DT_WORK] = malloc(f.work_bytes + 1);
    assert_int_equal(k->run(&c, NULL, &a, &err), want);
    free(a.port[DT_WORK]);
}

/* cross_entropy of all scores at once. */
static void whole(scores *s)
{
    dt_err err = {0};
    dt_graph *g;
    const int32_t in = DT_GRAPH_INPUT;
    int32_t id;
    assert_ok(
        dt_graph_create(&g, "whole", (dt_shape){1, 1, 1, s->classes}, s->classes, &err), &err);
    assert_ok(dt_graph_add(g, &dt_layer_cross_entropy, "loss", NULL, &in, 1, &id, &err), &err);
    void *port[DT_PORTS] = {[DT_X] = columns(s, 0, s->classes),
        [DT_S] = bytes_of(s->n * s->classes, DT_F32),
        [DT_DX] = bytes_of(s->n * s->classes, s->dtype),
        [DT_METRICS] = &s->metrics};
    int32_t *labels = malloc((size_t)s->n * sizeof *labels);
    memcpy(labels, s->label, (size_t)s->n * sizeof *labels);
    port[DT_LABELS] = labels;
    run_node(s, g, id, DT_FORWARD, port, DT_OK);
    run_node(s, g, id, DT_BACKWARD, port, DT_OK);
    put_back(s, port[DT_DX], 0, s->classes);
    free(port[DT_X]);
    free(port[DT_S]);
    free(port[DT_DX]);
    free(labels);
    dt_graph_destroy(g);
}

/* Layers of a tile: one without tiles before, one with, and the loss. */
static dt_graph *tile_graph(int64_t classes, int64_t first, int64_t n)
{
    dt_err err = {0};
    dt_graph *g;
    const dt_softmax_tile none = {0}, o = {first};
    int32_t in[2] = {DT_GRAPH_INPUT, DT_GRAPH_INPUT}, id;
    assert_ok(dt_graph_create(&g, "tile", (dt_shape){1, 1, 1, n}, classes, &err), &err);
    assert_ok(dt_graph_add(g, &dt_layer_softmax_tile, "a", &none, in, 1, &in[1], &err), &err);
    assert_ok(dt_graph_add(g, &dt_layer_softmax_tile, "b", &o, in, 2, &id, &err), &err);
    assert_ok(
        dt_graph_add(g, &dt_layer_tiled_cross_entropy, "loss", NULL, &id, 1, &id, &err), &err);
    return g;
}

/* The same in tiles of these sizes. */
static void tiled(scores *s, const int64_t *size, int tiles)
{
    dt_graph *g[MOST_TILES];
    void *x[MOST_TILES], *y[MOST_TILES], *dy[MOST_TILES];
    int64_t first[MOST_TILES], at = 0;
    int32_t *labels = malloc((size_t)s->n * sizeof *labels);
    memcpy(labels, s->label, (size_t)s->n * sizeof *labels);
    for (int i = 0; i < tiles; i++) {
        first[i] = at;
        g[i] = tile_graph(s->classes, at, size[i]);
        x[i] = columns(s, at, size[i]);
        y[i] = bytes_of(s->n * DTI_TILE_STATE, DT_F32);
        dy[i] = bytes_of(s->n * DTI_TILE_STATE, DT_F32);
        void *port[DT_PORTS] = {[DT_X] = x[i], [DT_Y] = y[i], [DT_LABELS] = labels};
        if (i > 0)
            port[DT_X + 1] = y[i - 1];
        run_node(s, g[i], i > 0, DT_FORWARD, port, DT_OK);
        at += size[i];
    }
    assert_int_equal(at, s->classes);
    void *end[DT_PORTS] = {[DT_X] = y[tiles - 1],
        [DT_DX] = dy[tiles - 1],
        [DT_LABELS] = labels,
        [DT_METRICS] = &s->metrics};
    run_node(s, g[0], 2, DT_FORWARD, end, DT_OK);
    run_node(s, g[0], 2, DT_BACKWARD, end, DT_OK);
    for (int i = tiles; i-- > 0;) {
        /* gradients over scores, as plans may have them */
        void *port[DT_PORTS] = {
            [DT_X] = x[i], [DT_Y] = y[i], [DT_DY] = dy[i], [DT_DX] = x[i], [DT_LABELS] = labels};
        if (i > 0) {
            port[DT_X + 1] = y[i - 1];
            port[DT_DX + 1] = dy[i - 1];
        }
        run_node(s, g[i], i > 0, DT_BACKWARD, port, DT_OK);
        put_back(s, x[i], first[i], size[i]);
        free(x[i]);
        free(y[i]);
        free(dy[i]);
        dt_graph_destroy(g[i]);
    }
    free(labels);
}

/* Some cut of so many classes; the last tile takes the rest. */
static int cut(int64_t classes, uint32_t key, int64_t size[MOST_TILES])
{
    float *v = dt_random_values(MOST_TILES, key);
    int n = 0;
    for (int64_t left = classes; left > 0; left -= size[n++]) {
        const int64_t some = 1 + (int64_t)(fabsf(v[n]) * (float)classes / 4);
        size[n] = n + 1 == MOST_TILES || some > left ? left : some;
    }
    free(v);
    return n;
}

static void compare(scores *s, uint32_t key, double allow)
{
    int64_t size[MOST_TILES];
    const int tiles = cut(s->classes, key, size);
    const size_t n = (size_t)(s->n * s->classes);
    float *want = calloc(n, sizeof *want);
    s->dx = want;
    whole(s);
    const dt_metrics w = s->metrics;
    s->metrics = (dt_metrics){.loss_sum = 77, .count = 7, .top1 = 7, .top5 = 7, .nonfinite = 7};
    s->dx = calloc(n, sizeof *s->dx);
    tiled(s, size, tiles);
    if (!(dt_relative_error(s->dx, want, n) <= allow))
        fail_msg("%d tiles of %lld classes: gradients are %g apart", tiles, (long long)s->classes,
            dt_relative_error(s->dx, want, n));
    assert_true(fabs(s->metrics.loss_sum - w.loss_sum) <= 2e-7 * fabs(w.loss_sum));
    assert_int_equal(s->metrics.count, w.count);
    assert_int_equal(s->metrics.top1, w.top1);
    assert_int_equal(s->metrics.top5, w.top5);
    assert_int_equal(s->metrics.nonfinite, w.nonfinite);
    free(s->dx);
    free(want);
}

/* Equal scores, too, as bf16 makes many. */
static void tiles_give_the_loss_of_the_whole(void **state)
{
    (void)state;
    static const int64_t classes[] = {2, 3, 7, 16, 33, 250, MOST_CLASSES};
    int32_t label[MOST_ROWS];
    for (uint32_t i = 0; i < 2 * DT_COUNT(classes); i++)
        for (int t = 0; t < DT_DTYPES; t++) {
            scores s = {.n = 1 + (int64_t)i * 3 % MOST_ROWS,
                .classes = classes[i / 2],
                .dtype = (dt_dtype)t,
                .smooth = i % 2 == 0 ? 0.0f : 0.1f};
            float *x = dt_random_values((size_t)(s.n * s.classes), 10 + i);
            for (int64_t k = 0; k < s.n * s.classes; k++)
                x[k] *= 8;
            for (int64_t r = 0; r < s.n; r++)
                label[r] = (int32_t)((r * 31 + 5) % s.classes);
            s.x = x;
            s.label = label;
            compare(&s, 100 + i, t == DT_BF16 ? 4e-3 : 1e-6);
            free(x);
        }
}

/* Scores far apart, so that the greatest changes by much from tile to tile. */
static void scores_may_be_far_apart(void **state)
{
    (void)state;
    const float x[] = {-300, 88, 3000, 2999, -3000, 3000, 2998, 0, 1, 2, -1e30f, 3, 1e30f, 4, 5, 6};
    const int32_t label[] = {5, 4};
    scores s = {.n = 2, .classes = 8, .x = x, .label = label};
    compare(&s, 7, 1e-6);
}

static void no_ranking_with_a_nan(void **state)
{
    (void)state;
    float x[3 * 9];
    const int32_t label[] = {3, 4, 1};
    for (int i = 0; i < 27; i++)
        x[i] = (float)(i % 5);
    x[9 + 7] = NAN;
    int64_t size[] = {4, 4, 1};
    float dx[27];
    scores s = {.n = 3, .classes = 9, .x = x, .label = label, .dx = dx};
    tiled(&s, size, 3);
    assert_int_equal(s.metrics.nonfinite, 1);
    assert_true(isnan(s.metrics.loss_sum));
    assert_int_equal(s.metrics.top1, 1);
    assert_int_equal(s.metrics.top5, 2); /* both rows that have a ranking */
}

static void a_label_that_is_no_class_is_refused(void **state)
{
    (void)state;
    float state_of[DTI_TILE_STATE] = {0};
    int32_t label = 12;
    dt_metrics m;
    dt_graph *g = tile_graph(12, 0, 12);
    scores s = {.n = 1};
    void *port[DT_PORTS] = {[DT_X] = state_of, [DT_LABELS] = &label, [DT_METRICS] = &m};
    run_node(&s, g, 2, DT_FORWARD, port, DT_E_DATA);
    dt_graph_destroy(g);
}

static float *load(const dt_st_file *f, const char *name, size_t count)
{
    dt_err err = {0};
    const dt_st_entry *e = dt_st_find(f, name);
    float *v = malloc(count * sizeof *v);
    assert_non_null(v);
    assert_non_null(e);
    assert_int_equal(e->bytes, count * sizeof *v);
    assert_ok(dt_st_read(f, e, 0, v, e->bytes, &err), &err);
    return v;
}

/* reference/make wrote it. */
static void tiles_agree_with_pytorch(void **state)
{
    (void)state;
    enum { N = 6, C = 35 };
    static const int64_t sizes[][5] = {{35}, {7, 7, 7, 7, 7}, {1, 30, 4}, {20, 15}};
    static const int tiles[] = {1, 5, 3, 2};
    dt_err err = {0};
    dt_st_file *f;
    assert_ok(dt_st_open(&f,
                  dt_source_path("tests/layers/reference/tiled_cross_entropy.safetensors"), &err),
        &err);
    float *x = load(f, "x", N * C), *want = load(f, "dx", N * C), *loss = load(f, "y", 1);
    float *dy = load(f, "dy", 1), dx[N * C];
    int32_t label[N];
    for (int i = 0; i < N; i++)
        label[i] = i * 11 % C; /* as there */
    for (int i = 0; i < N * C; i++)
        want[i] /= *dy; /* the engine's loss starts backward with 1 */
    for (size_t i = 0; i < DT_COUNT(sizes); i++) {
        scores s = {.n = N, .classes = C, .smooth = 0.1f, .x = x, .label = label, .dx = dx};
        tiled(&s, sizes[i], tiles[i]);
        assert_true(fabs(s.metrics.loss_sum / N - (double)*loss) <= 1e-6 * (double)*loss);
        assert_true(dt_relative_error(dx, want, N * C) <= 1e-5);
    }
    free(x);
    free(want);
    free(loss);
    free(dy);
    dt_st_close(f);
}

/* ---- embedding ---- */

/* Of 11 tokens in tiles of 4, 4 and 3. */
static void tiles_of_a_vocabulary_sum_up_to_the_whole(void **state)
{
    (void)state;
    enum { N = 3, H = 9, V = 11, C = 19 };
    static const char *const opts[] = {"vocab=11 out=19", "vocab=11 out=19 rows=4",
        "vocab=11 out=19 first=4 rows=4", "vocab=11 out=19 first=8"};
    static const int64_t first[] = {0, 0, 4, 8}, rows[] = {V, 4, 4, 3};
    float *weight = dt_random_values(V * C, 1), *dy = dt_random_values((size_t)N * H * C, 2);
    float ids[N * H], sum[N * H * C] = {0}, dweight[V * C];
    for (int t = 0; t < DT_DTYPES; t++) {
        dt_layer_run r[4];
        memset(sum, 0, sizeof sum);
        for (int i = 0; i < N * H; i++)
            ids[i] = (float)(i * 7 % V);
        for (int i = 0; i < 4; i++) {
            void *o = dt_layer_options(&dt_layer_embedding, opts[i]);
            r[i] = (dt_layer_run){.desc = &dt_layer_embedding,
                .opts = o,
                .n = N,
                .n_x = 1,
                .x = {{1, H, 1, 1}},
                .dtype = (dt_dtype)t,
                .in = {ids},
                .param = {weight + first[i] * C},
                .dy = dy};
            dt_layer_check(&r[i]);
            assert_true(r[i].added);
            dt_free(o);
            for (int k = 0; i > 0 && k < N * H * C; k++)
                sum[k] += r[i].got_y[k];
            if (i > 0)
                memcpy(dweight + first[i] * C, r[i].got_dparam[0],
                    (size_t)(rows[i] * C) * sizeof *dweight);
        }
        assert_memory_equal(sum, r[0].got_y, sizeof sum);
        assert_memory_equal(dweight, r[0].got_dparam[0], sizeof dweight);
        for (int i = 0; i < 4; i++)
            dt_layer_check_free(&r[i]);
    }
    free(weight);
    free(dy);
}

/* ---- what cannot be ---- */

static void refused(
    const dt_layer_desc *d, const char *opts, int n_x, const dt_shape *x, const char *word)
{
    dt_err err = {0};
    dt_layer_info info;
    void *o = d->opts_bytes > 0 ? dt_layer_options(d, opts) : NULL;
    assert_int_equal(d->infer(o, x, n_x, &info, &err), DT_E_CONFIG);
    if (strstr(err.text, word) == NULL)
        fail_msg("%s: '%s' is not in: %s", d->name, word, err.text);
    dt_free(o);
}

static void shapes_that_do_not_fit_are_refused(void **state)
{
    (void)state;
    const dt_shape map = {1, 4, 4, 3}, scores_of = {1, 4, 1, 3}, fewer = {1, 3, 1, DTI_TILE_STATE},
                   ids = {1, 4, 1, 1};
    refused(&dt_layer_softmax_tile, "", 1, &map, "cross_entropy");
    refused(&dt_layer_softmax_tile, "", 2, (const dt_shape[]){scores_of, scores_of}, "before");
    refused(&dt_layer_softmax_tile, "", 2, (const dt_shape[]){scores_of, fewer}, "positions");
    refused(&dt_layer_tiled_cross_entropy, "", 1, &scores_of, "softmax_tile");
    refused(&dt_layer_embedding, "vocab=5 out=2 first=5", 1, &ids, "first");
    refused(&dt_layer_embedding, "vocab=5 out=2 first=2 rows=4", 1, &ids, "rows");
}

/* Its own gap, its own overlap, and what else may read a state. */
static dt_status graph_of(int64_t second, bool relu, dt_err *err)
{
    dt_graph *g;
    const dt_softmax_tile none = {0}, o = {second};
    int32_t in[2] = {DT_GRAPH_INPUT, DT_GRAPH_INPUT}, id;
    assert_ok(dt_graph_create(&g, "net", (dt_shape){1, 4, 1, 8}, 16, err), err);
    assert_ok(dt_graph_add(g, &dt_layer_softmax_tile, "a", &none, in, 1, &in[1], err), err);
    if (relu)
        assert_ok(dt_graph_add(g, &dt_layer_relu, "r", NULL, &in[1], 1, &in[1], err), err);
    assert_ok(dt_graph_add(g, &dt_layer_softmax_tile, "b", &o, in, 2, &id, err), err);
    assert_ok(dt_graph_add(g, &dt_layer_tiled_cross_entropy, "loss", NULL, &id, 1, &id, err), err);
    const dt_status st = dt_graph_check(g, err);
    dt_graph_destroy(g);
    return st;
}

static void tiles_must_follow_each_other(void **state)
{
    (void)state;
    static const int64_t wrong[] = {0, 4, 7, 9, 16};
    dt_err err = {0};
    assert_ok(graph_of(8, false, &err), &err);
    for (size_t i = 0; i < DT_COUNT(wrong); i++) {
        dt_err_clear(&err);
        assert_int_equal(graph_of(wrong[i], false, &err), DT_E_CONFIG);
        assert_non_null(strstr(err.text, "set first = 8"));
    }
    dt_err_clear(&err);
    assert_int_equal(graph_of(8, true, &err), DT_E_CONFIG);
    assert_non_null(strstr(err.text, "softmax_tile goes to softmax_tile"));
}

DT_TEST_GROUP(tiles)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tiles_give_the_loss_of_the_whole),
        cmocka_unit_test(scores_may_be_far_apart),
        cmocka_unit_test(no_ranking_with_a_nan),
        cmocka_unit_test(a_label_that_is_no_class_is_refused),
        cmocka_unit_test(tiles_agree_with_pytorch),
        cmocka_unit_test(tiles_of_a_vocabulary_sum_up_to_the_whole),
        cmocka_unit_test(shapes_that_do_not_fit_are_refused),
        cmocka_unit_test(tiles_must_follow_each_other),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
