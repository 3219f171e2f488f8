/* Layers over sequences: against PyTorch's double-precision numbers, and against each other. */
#include <math.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/alloc.h"
#include "engine/checkpoint/safetensors.h"
#include "layers/sequence/attention.h"
#include "layers/sequence/embedding.h"
#include "layers/norm/layernorm.h"
#include "layers/weighted/linear.h"
#include "layers/plain.h"
#include "tests/fixture/check.h"
#include "tests/fixture/layer_check.h"

#define TOLERANCE 1e-5 /* of ||got - want|| / ||want||, promised by the folder's README */

/* --- reference --- */

static dt_st_file *open_reference(const char *name)
{
    char below[128];
    snprintf(below, sizeof below, "reference/layers/%s.safetensors", name);
    const char *path = dt_shared(below);
    if (path == NULL)
        skip();
    dt_st_file *f;
    dt_err err = {0};
    assert_ok(dt_st_open(&f, path, &err), &err);
    return f;
}

static void *read_entry(const dt_st_file *f, const char *name, dt_st_type type, size_t *bytes)
{
    const dt_st_entry *e = dt_st_find(f, name);
    dt_err err = {0};
    assert_non_null(e);
    assert_int_equal(e->type, type);
    void *v = malloc(e->bytes);
    assert_non_null(v);
    assert_ok(dt_st_read(f, e, 0, v, e->bytes, &err), &err);
    *bytes = e->bytes;
    return v;
}

static float *load(const dt_st_file *f, const char *name)
{
    size_t bytes;
    return read_entry(f, name, DT_ST_F32, &bytes);
}

static void assert_near(const char *what, const float *got, const float *want, size_t n)
{
    const double off = dt_relative_error(got, want, n);
    if (!(off < TOLERANCE))
        fail_msg("%s is off by %g, relative", what, off);
}

/* What layer_check takes and gives is NCHW; sequences are [n, t, c], as NHWC has them. */
static float *to_check(const float *v, int64_t n, dt_shape s)
{
    float *out = malloc((size_t)(n * dt_shape_sample(&s)) * sizeof *out);
    assert_non_null(out);
    dt_to_nchw(v, out, n, &s);
    return out;
}

static float *from_check(const float *v, int64_t n, dt_shape s)
{
    float *out = malloc((size_t)(n * dt_shape_sample(&s)) * sizeof *out);
    assert_non_null(out);
    dt_to_nhwc(v, out, n, &s);
    return out;
}

enum { N = 2, HEADS = 3, T = 37, D = 16, C = HEADS * D };

/* [n, heads, t, d] of the file to channels [at, at + c) of [n, t, row]. */
static void pack_heads(const float *from, float *to, int64_t row, int64_t at)
{
    for (int64_t n = 0; n < N; n++)
        for (int64_t h = 0; h < HEADS; h++)
            for (int64_t t = 0; t < T; t++)
                memcpy(to + (n * T + t) * row + at + h * D, from + ((n * HEADS + h) * T + t) * D,
                    D * sizeof *to);
}

static float *packed(const dt_st_file *f, const char *const *names, int parts)
{
    float *all = calloc((size_t)(N * T * C * parts), sizeof *all);
    assert_non_null(all);
    for (int i = 0; i < parts; i++) {
        float *one = load(f, names[i]);
        pack_heads(one, all, C * parts, C * i);
        free(one);
    }
    return all;
}

static void check_attention(const char *name, bool causal, int kind, int64_t piece)
{
    dt_st_file *f = open_reference(name);
    const dt_shape xs = {1, T, 1, 3 * C}, ys = {1, T, 1, C};
    float *x = packed(f, (const char *[]){"q", "k", "v"}, 3),
          *y = packed(f, (const char *[]){"y"}, 1);
    float *dx = packed(f, (const char *[]){"dq", "dk", "dv"}, 3);
    float *dy = packed(f, (const char *[]){"dy"}, 1);
    float *in = to_check(x, N, xs), *out = to_check(dy, N, ys);
    const dt_attention o = {.heads = HEADS, .causal = causal, .kind = kind};
    dt_layer_run r = {.desc = &dt_layer_attention,
        .opts = &o,
        .n = N,
        .piece = piece,
        .n_x = 1,
        .x = {xs},
        .in = {in},
        .dy = out};
    dt_layer_check(&r);
    float *got_y = from_check(r.got_y, N, ys), *got_dx = from_check(r.got_dx[0], N, xs);
    assert_near("y", got_y, y, N * T * C);
    assert_near("dx", got_dx, dx, N * T * C * 3);
    dt_layer_check_free(&r);
    float *const all[] = {x, y, dx, dy, in, out, got_y, got_dx};
    for (size_t i = 0; i < DT_COUNT(all); i++)
        free(all[i]);
    dt_st_close(f);
}

static void attention_agrees_with_pytorch(void **state)
{
    (void)state;
    for (int kind = 0; kind < 2; kind++)
        for (int64_t piece = 0; piece < 2; piece++) {
            check_attention("attention_full", false, kind, piece);
            check_attention("attention_causal", true, kind, piece);
        }
}

static void embedding_agrees_with_pytorch(void **state)
{
    (void)state;
    dt_st_file *f = open_reference("embedding");
    size_t bytes;
    int64_t *wide = read_entry(f, "ids", DT_ST_I64, &bytes);
    float ids[27], *weight = load(f, "weight"), *want = load(f, "y");
    float *dy = load(f, "dy"), *dweight = load(f, "dweight");
    assert_int_equal(bytes, sizeof ids * 2);
    for (size_t i = 0; i < DT_COUNT(ids); i++)
        ids[i] = (float)wide[i];
    const dt_shape ys = {1, 9, 1, 12};
    float *out = to_check(dy, 3, ys);
    const dt_embedding o = {.vocab = 17, .out = 12};
    dt_layer_run r = {.desc = &dt_layer_embedding,
        .opts = &o,
        .n = 3,
        .n_x = 1,
        .x = {{1, 9, 1, 1}},
        .in = {ids},
        .param = {weight},
        .dy = out};
    dt_layer_check(&r);
    float *got = from_check(r.got_y, 3, ys);
    assert_near("y", got, want, 3 * 9 * 12);
    assert_near("dweight", r.got_dparam[0], dweight, 17 * 12);
    dt_layer_check_free(&r);
    float *const all[] = {weight, want, dy, dweight, out, got};
    for (size_t i = 0; i < DT_COUNT(all); i++)
        free(all[i]);
    free(wide);
    dt_st_close(f);
}

static void layernorm_agrees_with_pytorch(void **state)
{
    (void)state;
    dt_st_file *f = open_reference("layernorm");
    const dt_shape s = {1, 7, 1, 33};
    const size_t n = 4 * 7 * 33;
    float *x = load(f, "x"), *weight = load(f, "weight"), *bias = load(f, "bias");
    float *y = load(f, "y"), *dy = load(f, "dy"), *dx = load(f, "dx");
    float *dweight = load(f, "dweight"), *dbias = load(f, "dbias");
    float *in = to_check(x, 4, s), *out = to_check(dy, 4, s);
    const dt_layernorm o = {.eps = 1e-5};
    for (int in_place = 0; in_place < 2; in_place++) {
        dt_layer_run r = {.desc = &dt_layer_layernorm,
            .opts = &o,
            .n = 4,
            .n_x = 1,
            .in_place = in_place == 1,
            .x = {s},
            .in = {in},
            .param = {weight, bias},
            .dy = out};
        dt_layer_check(&r);
        float *got_y = from_check(r.got_y, 4, s), *got_dx = from_check(r.got_dx[0], 4, s);
        assert_near("y", got_y, y, n);
        assert_near("dx", got_dx, dx, n);
        assert_near("dweight", r.got_dparam[0], dweight, 33);
        assert_near("dbias", r.got_dparam[1], dbias, 33);
        free(got_y);
        free(got_dx);
        dt_layer_check_free(&r);
    }
    float *const all[] = {x, weight, bias, y, dy, dx, dweight, dbias, in, out};
    for (size_t i = 0; i < DT_COUNT(all); i++)
        free(all[i]);
    dt_st_close(f);
}

/* --- attention --- */

typedef struct outcome {
    size_t y, dx; /* values */
    dt_layer_run r;
} outcome;

static outcome attend(int64_t t, int64_t c, const dt_attention *o, const float *x, const float *dy)
{
    const dt_shape s = {1, t, 1, 3 * c};
    outcome a = {.y = (size_t)(2 * t * c), .dx = (size_t)(6 * t * c)};
    a.r = (dt_layer_run){
        .desc = &dt_layer_attention, .opts = o, .n = 2, .n_x = 1, .x = {s}, .in = {x}, .dy = dy};
    dt_layer_check(&a.r);
    return a;
}

/* Lengths and widths around those of a tile and of a vector. */
static void both_kinds_agree(void **state)
{
    (void)state;
    static const struct {
        int64_t t, heads, d;
    } cases[] = {{1, 1, 1}, {2, 2, 3}, {63, 1, 8}, {64, 3, 4}, {65, 2, 33}, {130, 1, 20}};
    for (size_t i = 0; i < DT_COUNT(cases); i++)
        for (int causal = 0; causal < 2; causal++) {
            const int64_t t = cases[i].t, c = cases[i].heads * cases[i].d;
            const dt_attention kind[2] = {{cases[i].heads, causal == 1, DTI_ATTENTION_EFFICIENT},
                {cases[i].heads, causal == 1, DTI_ATTENTION_NAIVE}};
            float *x = dt_random_values((size_t)(6 * t * c), 1);
            float *dy = dt_random_values((size_t)(2 * t * c), 2);
            outcome a = attend(t, c, &kind[0], x, dy), b = attend(t, c, &kind[1], x, dy);
            assert_near("y", a.r.got_y, b.r.got_y, a.y);
            if (t > 1) /* of one position only v has a gradient, and naive finds that exactly */
                assert_near("dx", a.r.got_dx[0], b.r.got_dx[0], a.dx);
            dt_layer_check_free(&a.r);
            dt_layer_check_free(&b.r);
            free(x);
            free(dy);
        }
}

/* The sums of a causal row must not depend on what comes after it, to the bit. */
static void a_causal_position_ignores_those_after_it(void **state)
{
    (void)state;
    enum { LONG = 100, CUT = 70, W = 12 };
    for (int kind = 0; kind < 2; kind++) {
        const dt_attention o = {.heads = 2, .causal = true, .kind = kind};
        float *x = dt_random_values(6 * LONG * W, 3), *dy = dt_random_values(2 * LONG * W, 4);
        outcome a = attend(LONG, W, &o, x, dy);
        for (int64_t n = 0; n < 2 * 3 * W; n++)
            for (int64_t t = CUT; t < LONG; t++)
                x[n * LONG + t] += 5; /* NCHW: n runs over samples and channels */
        outcome b = attend(LONG, W, &o, x, dy);
        for (int64_t n = 0; n < 2 * W; n++) {
            assert_memory_equal(a.r.got_y + n * LONG, b.r.got_y + n * LONG, CUT * sizeof(float));
            assert_true(memcmp(a.r.got_y + n * LONG + CUT, b.r.got_y + n * LONG + CUT,
                            (LONG - CUT) * sizeof(float)) != 0);
        }
        dt_layer_check_free(&a.r);
        dt_layer_check_free(&b.r);
        free(x);
        free(dy);
    }
}

static void large_scores_do_not_overflow(void **state)
{
    (void)state;
    enum { LONG = 80, W = 8 };
    for (int kind = 0; kind < 2; kind++) {
        const dt_attention o = {.heads = 1, .causal = false, .kind = kind};
        float *x = dt_random_values(6 * LONG * W, 5), *dy = dt_random_values(2 * LONG * W, 6);
        for (size_t i = 0; i < 6 * LONG * W; i++)
            x[i] *= 100; /* scores of +-1e4 */
        outcome a = attend(LONG, W, &o, x, dy);
        for (size_t i = 0; i < a.y; i++)
            assert_true(isfinite(a.r.got_y[i]) && fabsf(a.r.got_y[i]) <= 100);
        for (size_t i = 0; i < a.dx; i++)
            assert_true(isfinite(a.r.got_dx[0][i]));
        dt_layer_check_free(&a.r);
        free(x);
        free(dy);
    }
}

/* Also of more threads than there are heads, which share the scratch of a few. */
static void attention_gives_the_same_bits_on_any_team(void **state)
{
    (void)state;
    enum { LONG = 150, W = 24 };
    const int had = omp_get_max_threads();
    for (int way = 0; way < 4; way++) {
        const dt_attention o = {.heads = 3, .causal = true, .kind = way % 2};
        float *x = dt_random_values(6 * LONG * W, 7), *dy = dt_random_values(2 * LONG * W, 8);
        omp_set_num_threads(1);
        outcome a = attend(LONG, W, &o, x, dy);
        omp_set_num_threads(way < 2 ? 3 : 16);
        outcome b = attend(LONG, W, &o, x, dy);
        assert_memory_equal(a.r.got_y, b.r.got_y, a.y * sizeof(float));
        assert_memory_equal(a.r.got_dx[0], b.r.got_dx[0], a.dx * sizeof(float));
        dt_layer_check_free(&a.r);
        dt_layer_check_free(&b.r);
        free(x);
        free(dy);
    }
    omp_set_num_threads(had);
}

static dt_layer_info attention_info(int64_t t, int kind)
{
    const dt_attention o = {.heads = 4, .causal = true, .kind = kind};
    const dt_shape x = {1, t, 1, 3 * 64};
    dt_layer_info info;
    dt_err err = {0};
    assert_ok(dt_layer_attention.infer(&o, &x, 1, &info, &err), &err);
    return info;
}

/* Twice the length: twice the stash, and at most twice the scratch. */
static void efficient_attention_grows_with_the_length_alone(void **state)
{
    (void)state;
    size_t work[2][2];
    for (int long_ = 0; long_ < 2; long_++) {
        const int64_t t = long_ ? 2048 : 1024;
        const dt_attention o = {.heads = 4, .causal = true, .kind = DTI_ATTENTION_EFFICIENT};
        dt_graph *g;
        dt_err err = {0};
        int32_t in = DT_GRAPH_INPUT, id;
        assert_ok(dt_graph_create(&g, "long", (dt_shape){1, t, 1, 192}, 10, &err), &err);
        assert_ok(dt_graph_add(g, &dt_layer_attention, "a", &o, &in, 1, &id, &err), &err);
        for (int back = 0; back < 2; back++) {
            const dt_call c = {.node = &g->node[id],
                .graph = g,
                .n = 1,
                .home_n = 1,
                .form = back ? DT_BACKWARD : DT_FORWARD};
            dt_facts f = {0};
            assert_ok(dt_layer_attention.cpu->facts(&c, &f, &err), &err);
            work[long_][back] = f.work_bytes;
        }
        assert_int_equal(attention_info(t, DTI_ATTENTION_EFFICIENT).stash[0].sample_bytes,
            (size_t)(4 * t) * sizeof(float));
        assert_int_equal(attention_info(t, DTI_ATTENTION_NAIVE).stash[0].sample_bytes,
            (size_t)(4 * t * t) * sizeof(float));
        dt_graph_destroy(g);
    }
    for (int back = 0; back < 2; back++)
        assert_true(work[1][back] <= 2 * work[0][back]);
}

static void attention_refuses_what_it_cannot_split(void **state)
{
    (void)state;
    const struct {
        dt_shape x;
        dt_attention o;
        const char *says;
    } bad[] = {
        {{1, 8, 1, 10}, {1, false, 0}, "multiple of 3"},
        {{1, 8, 1, 12}, {3, false, 0}, "heads = 3 does not divide 4"},
        {{1, 1 << 26, 1, 3}, {1, false, DTI_ATTENTION_NAIVE}, "kind = efficient"},
    };
    for (size_t i = 0; i < DT_COUNT(bad); i++) {
        dt_layer_info info;
        dt_err err = {0};
        assert_int_equal(
            dt_layer_attention.infer(&bad[i].o, &bad[i].x, 1, &info, &err), DT_E_CONFIG);
        assert_non_null(strstr(err.text, bad[i].says));
    }
}

/* --- bf16 --- */

/* A layer's forward and backward in one type of values, by hand. */
typedef struct typed {
    dt_call c;
    dt_dtype type;
    void *port[DT_PORTS];
} typed;

static void *narrowed(dt_dtype type, const float *v, size_t n)
{
    dt_bf16 *b = malloc(n * sizeof(float));
    assert_non_null(b);
    if (type == DT_F32)
        memcpy(b, v, n * sizeof *v);
    for (size_t i = 0; type == DT_BF16 && i < n; i++)
        b[i] = dt_bf16_from_float(v[i]);
    return b;
}

static void widen(const typed *t, int port, float *to, size_t n)
{
    const dt_bf16 *b = t->port[port];
    if (t->type == DT_F32)
        memcpy(to, t->port[port], n * sizeof *to);
    for (size_t i = 0; t->type == DT_BF16 && i < n; i++)
        to[i] = dt_bf16_to_float(b[i]);
}

static void run_typed(typed *t, dt_form_kind form)
{
    dt_facts f = {0};
    dt_err err = {0};
    const dt_kernels *k = t->c.node->desc->cpu;
    t->c.form = form;
    if (k->facts != NULL)
        assert_ok(k->facts(&t->c, &f, &err), &err);
    dt_args a = {.n = t->c.n, .step_labels = t->c.n * dt_graph_labels(t->c.graph)};
    memcpy(a.port, t->port, sizeof a.port);
    a.port[DT_WORK] = malloc(f.work_bytes + 1);
    assert_non_null(a.port[DT_WORK]);
    void *op = NULL;
    if (k->create != NULL)
        assert_ok(k->create(&t->c, &op, &err), &err);
    assert_ok(k->run(&t->c, op, &a, &err), &err);
    if (k->destroy != NULL)
        k->destroy(op);
    free(a.port[DT_WORK]);
}

enum { ROOM = 1 << 16 };

/* y, dx and the first parameter's gradient of a layer in one type; returns how many y there are. */
static size_t outcome_in(dt_dtype type, const dt_layer_desc *desc, const void *opts, dt_shape x,
    float *y, float *dx, float *dparam)
{
    dt_graph *g;
    dt_err err = {0};
    int32_t in = DT_GRAPH_INPUT, id;
    assert_ok(dt_graph_create(&g, "typed", x, 10, &err), &err);
    assert_ok(dt_graph_add(g, desc, "layer", opts, &in, 1, &id, &err), &err);
    const dt_node *nd = &g->node[id];
    const size_t n_x = (size_t)(2 * dt_shape_sample(&x));
    const size_t n_y = (size_t)(2 * dt_shape_sample(&nd->info.y));
    typed t = {.type = type,
        .c = {.node = nd, .graph = g, .dtype = type, .n = 2, .home_n = 2, .needs_dx = true}};
    float *vx = dt_random_values(n_x, 20), *vy = dt_random_values(n_y, 21);
    float *w = dt_random_values(ROOM, 22);
    for (size_t i = 0; i < n_x && desc == &dt_layer_embedding; i++)
        vx[i] = (float)(i % 5);
    t.port[DT_X] = narrowed(desc == &dt_layer_embedding ? DT_F32 : type, vx, n_x);
    t.port[DT_DY] = narrowed(type, vy, n_y);
    t.port[DT_Y] = calloc(n_y, sizeof(float));
    t.port[DT_DX] = calloc(n_x, sizeof(float));
    for (int i = 0; i < 2; i++) {
        t.port[DT_P + i] = narrowed(DT_F32, w, ROOM);
        t.port[DT_DP + i] = calloc(ROOM, sizeof(float));
        t.port[DT_S + i] = calloc(ROOM, sizeof(float));
        assert_true(t.port[DT_DP + i] != NULL && t.port[DT_S + i] != NULL);
    }
    assert_true(t.port[DT_Y] != NULL && t.port[DT_DX] != NULL);
    run_typed(&t, DT_FORWARD);
    run_typed(&t, DT_BACKWARD);
    widen(&t, DT_Y, y, n_y);
    widen(&t, DT_DX, dx, n_x);
    memcpy(dparam, t.port[DT_DP], ROOM * sizeof(float));
    for (int p = 0; p < DT_PORTS; p++)
        free(t.port[p]);
    free(vx);
    free(vy);
    free(w);
    dt_graph_destroy(g);
    return n_y;
}

static void layers_in_bf16_stay_near_those_in_fp32(void **state)
{
    (void)state;
    const dt_attention attention[2] = {
        {3, true, DTI_ATTENTION_EFFICIENT}, {2, false, DTI_ATTENTION_NAIVE}};
    const dt_layernorm norm = {1e-5};
    const dt_position position = {1};
    const dt_embedding embedding = {.vocab = 5, .out = 70};
    const struct {
        const dt_layer_desc *desc;
        const void *opts;
        dt_shape x;
        bool dx, dparam;
    } cases[] = {
        {&dt_layer_attention, &attention[0], {1, 70, 1, 3 * 18}, true, false},
        {&dt_layer_attention, &attention[1], {1, 70, 1, 3 * 18}, true, false},
        {&dt_layer_layernorm, &norm, {1, 9, 1, 600}, true, true},
        {&dt_layer_position, &position, {1, 9, 1, 70}, false, true},
        {&dt_layer_embedding, &embedding, {1, 40, 1, 1}, false, true},
    };
    static float y[2][ROOM], dx[2][ROOM], dp[2][ROOM];
    for (size_t i = 0; i < DT_COUNT(cases); i++) {
        const size_t n_x = (size_t)(2 * dt_shape_sample(&cases[i].x));
        size_t n_y = 0;
        for (int k = 0; k < 2; k++)
            n_y = outcome_in(k == 0 ? DT_F32 : DT_BF16, cases[i].desc, cases[i].opts, cases[i].x,
                y[k], dx[k], dp[k]);
        assert_true(dt_relative_error(y[1], y[0], n_y) < 2e-2);
        assert_true(memcmp(y[1], y[0], n_y * sizeof(float)) != 0);
        if (cases[i].dx)
            assert_true(dt_relative_error(dx[1], dx[0], n_x) < 2e-2);
        if (cases[i].dparam)
            assert_true(dt_relative_error(dp[1], dp[0], 100) < 2e-2);
    }
}

/* --- the others --- */

static dt_status embed(const float *ids, dt_err *err)
{
    const dt_embedding o = {.vocab = 5, .out = 3};
    dt_graph *g;
    int32_t in = DT_GRAPH_INPUT, id;
    float weight[15] = {0}, y[6], x[2];
    assert_ok(dt_graph_create(&g, "e", (dt_shape){1, 2, 1, 1}, 10, err), err);
    assert_ok(dt_graph_add(g, &dt_layer_embedding, "wte", &o, &in, 1, &id, err), err);
    const dt_call c = {.node = &g->node[id], .graph = g, .n = 1, .home_n = 1};
    dt_args a = {.n = 1, .sample0 = 7};
    memcpy(x, ids, sizeof x);
    a.port[DT_X] = x;
    a.port[DT_P] = weight;
    a.port[DT_Y] = y;
    const dt_status st = dt_layer_embedding.cpu->run(&c, NULL, &a, err);
    dt_graph_destroy(g);
    return st;
}

static void embedding_refuses_what_is_no_token(void **state)
{
    (void)state;
    static const float bad[] = {5, -1, 1.5f, NAN, INFINITY, 1e30f};
    dt_err fine = {0};
    assert_ok(embed((const float[]){0, 4}, &fine), &fine);
    for (size_t i = 0; i < DT_COUNT(bad); i++) {
        dt_err err = {0};
        assert_int_equal(embed((const float[]){0, bad[i]}, &err), DT_E_DATA);
        assert_non_null(strstr(err.text, "sample 7 of the step"));
        assert_non_null(strstr(err.text, "position 1"));
    }
}

/* A weight written the other way round makes the same layer, and its gradient comes back so. */
static void linear_takes_weights_either_way_round(void **state)
{
    (void)state;
    enum { IN = 7, OUT = 5, LONG = 6 };
    const dt_shape s = {1, LONG, 1, IN};
    float *x = dt_random_values(2 * LONG * IN, 9), *dy = dt_random_values(2 * LONG * OUT, 10);
    float *w = dt_random_values(IN * OUT, 11), *b = dt_random_values(OUT, 12), turned[IN * OUT];
    for (size_t i = 0; i < IN; i++)
        for (size_t k = 0; k < OUT; k++)
            turned[i * OUT + k] = w[k * IN + i];
    const dt_linear opts[2] = {
        {.out = OUT, .bias = true}, {.out = OUT, .bias = true, .in_out = true}};
    dt_layer_run r[2];
    for (int k = 0; k < 2; k++) {
        r[k] = (dt_layer_run){.desc = &dt_layer_linear,
            .opts = &opts[k],
            .n = 2,
            .n_x = 1,
            .x = {s},
            .in = {x},
            .param = {k == 0 ? w : turned, b},
            .dy = dy};
        dt_layer_check(&r[k]);
    }
    assert_int_equal(r[1].info.param[0].d[0], IN);
    assert_memory_equal(r[0].got_y, r[1].got_y, 2 * LONG * OUT * sizeof(float));
    assert_memory_equal(r[0].got_dx[0], r[1].got_dx[0], 2 * LONG * IN * sizeof(float));
    for (size_t i = 0; i < IN; i++)
        for (size_t k = 0; k < OUT; k++)
            assert_true(r[1].got_dparam[0][i * OUT + k] == r[0].got_dparam[0][k * IN + i]);
    dt_layer_check_free(&r[0]);
    dt_layer_check_free(&r[1]);
    free(x);
    free(dy);
    free(w);
    free(b);
}

/* A sequence with a label at each position is a batch of as many samples. */
static void cross_entropy_of_a_sequence_is_that_of_its_positions(void **state)
{
    (void)state;
    enum { LONG = 6, CLASSES = 9 };
    const dt_shape s = {1, LONG, 1, CLASSES}, flat = {1, 1, 1, CLASSES};
    float *x = dt_random_values(2 * LONG * CLASSES, 13), *in = to_check(x, 2, s);
    int32_t labels[2 * LONG];
    for (size_t i = 0; i < DT_COUNT(labels); i++)
        labels[i] = (int32_t)(i * 5 % CLASSES);
    dt_layer_run a = {
        .desc = &dt_layer_cross_entropy, .n = 2, .n_x = 1, .x = {s}, .in = {in}, .labels = labels};
    dt_layer_run b = {.desc = &dt_layer_cross_entropy,
        .n = 2 * LONG,
        .n_x = 1,
        .x = {flat},
        .in = {x},
        .labels = labels};
    dt_layer_check(&a);
    dt_layer_check(&b);
    assert_int_equal(a.metrics.count, 2 * LONG);
    assert_memory_equal(&a.metrics, &b.metrics, sizeof a.metrics);
    float *dx = from_check(a.got_dx[0], 2, s);
    assert_memory_equal(dx, b.got_dx[0], 2 * LONG * CLASSES * sizeof(float));
    dt_layer_check_free(&a);
    dt_layer_check_free(&b);
    free(dx);
    free(in);
    free(x);
}

static void position_adds_one_vector_for_each_place(void **state)
{
    (void)state;
    const float x[] = {1, 2, 3, 4, 5, 6, 7, 8}, weight[] = {10, 20, 30, 40};
    const float want[] = {11, 32, 23, 44, 15, 36, 27, 48}; /* NCHW, two channels, two places */
    const float dy[] = {1, 2, 3, 4, 50, 60, 70, 80}, dweight[] = {51, 73, 62, 84};
    dt_layer_run r = {.desc = &dt_layer_position,
        .opts = &(dt_position){1},
        .n = 2,
        .n_x = 1,
        .x = {{1, 2, 1, 2}},
        .in = {x},
        .param = {weight},
        .dy = dy};
    dt_layer_check(&r);
    assert_memory_equal(r.got_y, want, sizeof want);
    assert_memory_equal(r.got_dx[0], dy, sizeof dy);
    assert_memory_equal(r.got_dparam[0], dweight, sizeof dweight);
    dt_layer_check_free(&r);
}

DT_TEST_GROUP(sequence)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(attention_agrees_with_pytorch),
        cmocka_unit_test(embedding_agrees_with_pytorch),
        cmocka_unit_test(layernorm_agrees_with_pytorch),
        cmocka_unit_test(both_kinds_agree),
        cmocka_unit_test(a_causal_position_ignores_those_after_it),
        cmocka_unit_test(large_scores_do_not_overflow),
        cmocka_unit_test(attention_gives_the_same_bits_on_any_team),
        cmocka_unit_test(efficient_attention_grows_with_the_length_alone),
        cmocka_unit_test(attention_refuses_what_it_cannot_split),
        cmocka_unit_test(layers_in_bf16_stay_near_those_in_fp32),
        cmocka_unit_test(embedding_refuses_what_is_no_token),
        cmocka_unit_test(linear_takes_weights_either_way_round),
        cmocka_unit_test(cross_entropy_of_a_sequence_is_that_of_its_positions),
        cmocka_unit_test(position_adds_one_vector_for_each_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
