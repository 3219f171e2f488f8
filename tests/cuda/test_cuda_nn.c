/* conv, linear and fc of the CUDA device without a card: their sources and kernels run on the
 * processor, NVIDIA's libraries are replaced by definitions, and results are compared with the
 * processor's own. Which of cuDNN's engines is taken is checked with made-up tables. */
#include "tests/fixture/cuda_host.h"

#include <stdlib.h>

#include "engine/base/alloc.h"
#include "layers/weighted/conv.h"
#include "layers/weighted/conv_transpose.h"
#include "layers/cublas/cublas_cuda.h"
#include "layers/weighted/fc.h"
#include "layers/weighted/linear.h"
#include "tests/fixture/check.h"
#include "tests/fixture/layer_check.h"

#pragma GCC diagnostic ignored "-Wunused-function" /* of what all kernels share */
#include "layers/cuda/conv_cuda.c"
#include "layers/cuda/conv_direct.cu"
#include "layers/cudnn/cudnn_choose_cuda.c"
#include "layers/cuda/fc_cuda.c"
#include "layers/cuda/linear_cuda.c"
#define PIECE_BYTES (256 << 10)
#include "layers/cuda/pieces_cuda.c"
#include "layers/cuda/weighted_cuda.cu"

/* --- the libraries --- */

enum { SCRATCH = 100, SCRATCH_LEAST = 10 };

static dti_cuda_libraries none; /* their handles are not looked at */
static const dt_context context = {.device = DT_CUDA, .libraries = &none};

struct dti_cudnn_op {
    dti_cudnn_problem p;
    size_t scratch;
};

static size_t scratch_within(const dti_cudnn_problem *p, size_t limit)
{
    return p->many == 0 || limit >= SCRATCH ? SCRATCH : SCRATCH_LEAST;
}

/* Has two engines for all but grouped convolutions. */
dt_status dti_cudnn_ask(
    dti_cudnn *lib, const dti_cudnn_problem *p, size_t limit, dti_cudnn_facts *f, dt_err *err)
{
    (void)lib, (void)err;
    assert_true((limit == DT_LIMIT_ANY) == (p->many == 0));
    *f = (dti_cudnn_facts){.work_bytes = scratch_within(p, limit), .direct = p->groups > 1};
    snprintf(f->impl, sizeof f->impl, "made up %zu", f->work_bytes);
    return DT_OK;
}

dt_status dti_cudnn_algorithms(
    dti_cudnn *lib, const dti_cudnn_problem *p, dt_algorithms *w, dt_err *err)
{
    (void)lib, (void)err;
    assert_int_equal(p->many, 1);
    w->n = 0;
    dt_algorithms_add(w, "made up 100", SCRATCH);
    dt_algorithms_add(w, "made up 10", SCRATCH_LEAST);
    return DT_OK;
}

dt_status dti_cudnn_create(
    dti_cudnn *lib, dti_cudnn_op **out, const dti_cudnn_problem *p, size_t limit, dt_err *err)
{
    (void)lib, (void)err;
    *out = dt_alloc(1, sizeof **out);
    assert_non_null(*out);
    **out = (dti_cudnn_op){*p, scratch_within(p, limit)};
    return DT_OK;
}

void dti_cudnn_destroy(dti_cudnn_op *op)
{
    dt_free(op);
}

dt_status dti_cudnn_run(
    const dti_cudnn_op *op, void *queue, const dti_cudnn_bytes *bytes, dt_err *err)
{
    memset(bytes->work, 0x55, op->scratch);
    return dti_conv_direct(&op->p, queue, bytes, err);
}

struct dti_cublas_op {
    dti_cublas_problem p;
};

dt_status dti_cublas_ask(
    dti_cublas *lib, const dti_cublas_problem *p, dti_cublas_facts *f, dt_err *err)
{
    (void)lib, (void)p, (void)err;
    *f = (dti_cublas_facts){.work_bytes = SCRATCH, .impl = "made up"};
    return DT_OK;
}

dt_status dti_cublas_create(
    dti_cublas *lib, dti_cublas_op **out, const dti_cublas_problem *p, dt_err *err)
{
    (void)lib, (void)err;
    *out = dt_alloc(1, sizeof **out);
    assert_non_null(*out);
    (*out)->p = *p;
    return DT_OK;
}

void dti_cublas_destroy(dti_cublas_op *op)
{
    dt_free(op);
}

/* to[i][k] = the sum over j of a[i][j] b[j][k], where strides say how a and b lie. */
typedef struct matrix {
    const void *p;
    int64_t row, column;
} matrix;

static float sum_of(const matrix *a, const matrix *b, int64_t i, int64_t k, int64_t n, dt_dtype t)
{
    double sum = 0;
    for (int64_t j = 0; j < n; j++)
        sum += (double)dti_load(a->p, i * a->row + j * a->column, t) *
               (double)dti_load(b->p, j * b->row + k * b->column, t);
    return (float)sum;
}

dt_status dti_cublas_run(dti_cublas_op *op, void *queue, const dti_cublas_bytes *b, dt_err *err)
{
    const dti_cublas_problem *p = &op->p;
    const dt_dtype t = p->bf16 ? DT_BF16 : DT_F32;
    const int64_t in = p->in, out = p->out, pitch = p->pitch > 0 ? p->pitch : out;
    const dt_dtype sums = p->sums ? DT_F32 : t;
    const matrix x = {b->x, in, 1}, dy = {b->y, pitch, 1}, dyt = {b->y, 1, pitch};
    const matrix w = {b->weight, in, 1}, wt = {b->weight, 1, in};
    (void)queue, (void)err;
    memset(b->work, 0x55, SCRATCH);
    for (int64_t r = 0; r < p->rows && p->direction == DTI_CUBLAS_FORWARD; r++)
        for (int64_t k = 0; k < out; k++)
            dti_store(b->y, r * pitch + k, t,
                sum_of(&x, &wt, r, k, in, t) + (p->bias ? ((const float *)b->bias)[k] : 0));
    for (int64_t r = 0; r < p->rows && p->direction == DTI_CUBLAS_DATA; r++)
        for (int64_t k = 0; k < in; k++)
            dti_store(b->x, r * in + k, sums,
                sum_of(&dy, &w, r, k, out, t) + (b->add ? dti_load(b->x, r * in + k, sums) : 0));
    for (int64_t o = 0; o < out && p->direction == DTI_CUBLAS_WEIGHTS; o++)
        for (int64_t k = 0; k < in; k++)
            ((float *)b->weight)[o * in + k] = sum_of(&dyt, &x, o, k, p->rows, t);
    return DT_OK;
}

/* --- layers --- */

static const struct layer_case {
    const dt_layer_desc *desc;
    const dt_kernels *kernels;
    const char *opts;
    int64_t n;
    dt_shape x;
    dt_dtype dtype;
} cases[] = {
    {&dt_layer_conv, &dt_conv_cuda, "out=1 kernel=1", 1, {1, 1, 1, 1}, DT_F32},
    {&dt_layer_conv, &dt_conv_cuda, "out=4 kernel=3 stride=2 pad=1", 2, {1, 7, 5, 3}, DT_F32},
    {&dt_layer_conv, &dt_conv_cuda, "out=6 kernel=3 groups=3 pad=1", 2, {1, 4, 5, 6}, DT_F32},
    {&dt_layer_conv, &dt_conv_cuda, "out=8 kernel=3 groups=4 stride=2 bias=off", 2, {1, 6, 5, 4},
        DT_F32},
    {&dt_layer_conv, &dt_conv_cuda, "out=2 kernel=3 dilation=2 pad=2", 1, {1, 6, 5, 3}, DT_F32},
    {&dt_layer_conv, &dt_conv_cuda, "out=4 kernel=1x5 stride=2x1 pad=0x2", 2, {1, 7, 6, 3}, DT_F32},
    {&dt_layer_conv, &dt_conv_cuda, "out=6 kernel=3x1 stride=1x2 pad=1x0 groups=2", 2, {1, 5, 6, 4},
        DT_F32},
    {&dt_layer_conv, &dt_conv_cuda, "out=17 kernel=5 pad=2", 3, {1, 29, 23, 5}, DT_F32},
    {&dt_layer_conv, &dt_conv_cuda, "out=16 kernel=3 stride=2 pad=1", 2, {1, 7, 5, 8}, DT_BF16},
    {&dt_layer_conv, &dt_conv_cuda, "out=8 kernel=3 groups=4", 2, {1, 6, 5, 8}, DT_BF16},
    {&dt_layer_conv_transpose, &dt_conv_transpose_cuda, "out=4 kernel=3 stride=2 pad=1 more=1", 2,
        {1, 4, 5, 6}, DT_F32},
    {&dt_layer_conv_transpose, &dt_conv_transpose_cuda, "out=6 kernel=4x2 stride=2x1 groups=2", 2,
        {1, 4, 5, 6}, DT_F32},
    {&dt_layer_conv_transpose, &dt_conv_transpose_cuda, "out=8 kernel=4 stride=2 pad=1", 2,
        {1, 4, 5, 8}, DT_BF16},
    {&dt_layer_linear, &dt_linear_cuda, "out=7", 3, {1, 5, 1, 11}, DT_F32},
    {&dt_layer_linear, &dt_linear_cuda, "out=16 in_out=on", 2, {1, 300, 1, 8}, DT_F32},
    {&dt_layer_linear, &dt_linear_cuda, "out=16 bias=off", 2, {1, 6, 1, 8}, DT_BF16},
    {&dt_layer_linear, &dt_linear_cuda, "out=9 in_out=on", 2, {1, 6, 1, 8}, DT_BF16},
    {&dt_layer_linear, &dt_linear_cuda, "out=131", 2, {1, 300, 1, 8}, DT_BF16}, /* one piece */
    {&dt_layer_linear, &dt_linear_cuda, "out=259", 2, {1, 300, 1, 8}, DT_BF16}, /* two */
    {&dt_layer_fc, &dt_fc_cuda, "out=10", 3, {1, 4, 3, 5}, DT_F32},
    {&dt_layer_fc, &dt_fc_cuda, "out=8 bias=off", 600, {1, 1, 1, 16}, DT_F32},
    {&dt_layer_fc, &dt_fc_cuda, "out=10", 3, {1, 4, 3, 5}, DT_BF16},
};

static void run(const struct layer_case *c, const dt_layer_desc *desc, float *const values[4],
    void *opts, size_t limit, dt_layer_run *r)
{
    *r = (dt_layer_run){.context = &context,
        .desc = desc,
        .opts = opts,
        .n = c->n,
        .n_x = 1,
        .x = {c->x},
        .dtype = c->dtype,
        .workspace_limit = limit,
        .in = {values[0]},
        .param = {values[1], values[2]},
        .dy = values[3]};
    dt_layer_check(r);
}

static void assert_same(const float *got, const float *want, int64_t n, double most)
{
    assert_true(dt_relative_error(got, want, (size_t)n) < most);
}

static void is_the_processors(void **state)
{
    const struct layer_case *c = *state;
    const double most = c->dtype == DT_BF16 ? 2e-2 : 1e-5;
    dt_layer_desc desc = *c->desc;
    void *opts = dt_layer_options(&desc, c->opts);
    dt_layer_info info = {0};
    dt_err err = {0};
    assert_ok(desc.infer(opts, &c->x, 1, &info, &err), &err);
    const int64_t x = c->n * dt_shape_sample(&c->x), y = c->n * dt_shape_sample(&info.y);
    float *values[4] = {dt_random_values((size_t)x, 1),
        dt_random_values((size_t)dt_param_count(&info.param[0]), 2),
        dt_random_values((size_t)info.y.c, 3), dt_random_values((size_t)y, 4)};
    dt_layer_run want, got;
    run(c, &desc, values, opts, DT_LIMIT_ANY, &want);
    for (int turn = 0; turn < 2; turn++) {
        desc.cpu = c->kernels;
        dt_host_backwards = turn == 1;
        run(c, &desc, values, opts, turn == 1 ? DT_LIMIT_LEAST : DT_LIMIT_ANY, &got);
        assert_same(got.got_y, want.got_y, y, most);
        assert_same(got.got_dx[0], want.got_dx[0], x, most);
        for (int i = 0; i < info.n_param; i++)
            assert_same(
                got.got_dparam[i], want.got_dparam[i], dt_param_count(&info.param[i]), most);
        dt_layer_check_free(&got);
    }
    dt_layer_check_free(&want);
    dt_free(opts);
    for (int i = 0; i < 4; i++)
        free(values[i]);
}

/* --- engines --- */

/* Scratch shares the limit with the copy of the weight in bf16, and takes turns with the sums of
 * the bias. */
static void the_limit_decides_between_engines(void **state)
{
    (void)state;
    enum { OUT = 16, C = 8, WEIGHT = OUT * 9 * C };
    const dt_conv o = {OUT, 3, 1, 1, 1, 1, false}, sums = {OUT, 3, 1, 1, 1, 1, true};
    for (int i = 0; i < 4 * DT_DIRECTIONS; i++) {
        const dt_form_kind form = dti_direction_form(i / 4);
        const bool bf16 = i % 2 == 1, bias = i / 2 % 2 == 1;
        const int32_t in = DT_GRAPH_INPUT;
        dt_graph *g;
        dt_facts f;
        dt_algorithms w;
        int32_t id;
        dt_err err = {0};
        assert_ok(dt_graph_create(&g, "g", (dt_shape){1, 9, 9, C}, 10, &err), &err);
        assert_ok(dt_graph_add(g, &dt_layer_conv, "c", bias ? &sums : &o, &in, 1, &id, &err), &err);
        dt_call c = {.context = &context,
            .node = &g->node[id],
            .graph = g,
            .form = form,
            .dtype = bf16 ? DT_BF16 : DT_F32,
            .n = 1,
            .home_n = 1,
            .needs_dx = true};
        const bool adds = bias && form == DT_BACKWARD;
        const size_t copy = bf16 && form != DT_BACKWARD ? sizeof(dt_bf16) * WEIGHT : 0;
        assert_ok(dt_conv_cuda.algorithms(&c, &w, &err), &err);
        assert_int_equal(w.n, 2);
        const size_t sum = adds ? dti_cuda_columns_work(81, OUT) : 0;
        assert_int_equal(w.algorithm[0].bytes, SCRATCH + copy);
        assert_int_equal(w.algorithm[1].bytes, (sum > SCRATCH_LEAST ? sum : SCRATCH_LEAST) + copy);
        for (int k = 0; k < w.n; k++)
            for (size_t less = 0; less < 2; less++) {
                const int want = less > 0 && k + 1 < w.n ? k + 1 : k;
                c.workspace_limit = w.algorithm[k].bytes - less;
                assert_ok(dt_conv_cuda.facts(&c, &f, &err), &err);
                assert_int_equal(dt_facts_bytes(&f), w.algorithm[want].bytes);
                assert_string_equal(f.impl, w.algorithm[want].impl);
                assert_int_equal(f.derived_bytes, copy);
            }
        dt_graph_destroy(g);
    }
}

static const dti_cudnn_rules fp32 = {.work_bytes = 1000}, bf16 = {.bf16 = true, .work_bytes = 1000};

/* Goes through the table as the library's proposals are gone through; the algorithms' places in it.
 */
static int ways_of(const dti_cudnn_candidate *table, int n, const dti_cudnn_rules *r, int *at)
{
    int found = 0;
    for (int i = 0; i < n; i++)
        if (dti_cudnn_is_algorithm(&table[i], found > 0 ? &table[at[found - 1]] : NULL, r))
            at[found++] = i;
    return found;
}

static void ways_are_allowed_and_ever_smaller(void **state)
{
    (void)state;
    int at[7];
    const dti_cudnn_candidate table[] = {
        {.engine = 1, .notes = DTI_CUDNN_NONDETERMINISTIC, .tried = true, .ready = true},
        {.engine = 2, .tried = true, .ready = false},
        {.engine = 3, .tried = true, .ready = true, .work_bytes = 1001},
        {.engine = 4, .tried = true, .ready = true, .work_bytes = 1000},
        {.engine = 5, .tried = true, .ready = true, .work_bytes = 1000},
        {.engine = 6, .ready = true},
        {.engine = 7, .tried = true, .ready = true},
    };
    assert_int_equal(ways_of(table, 7, &bf16, at), 2);
    assert_int_equal(at[0], 3);
    assert_int_equal(at[1], 6);
    assert_int_equal(ways_of(table, 3, &bf16, at), 0);
}

static void tensor_cores_are_for_bf16_and_tf32(void **state)
{
    (void)state;
    const dti_cudnn_candidate c = {.notes = DTI_CUDNN_TENSOR_CORE, .tried = true, .ready = true};
    const dti_cudnn_rules rounding = {.tf32 = true, .work_bytes = 1000};
    assert_false(dti_cudnn_is_algorithm(&c, NULL, &fp32));
    assert_true(dti_cudnn_is_algorithm(&c, NULL, &rounding));
    assert_true(dti_cudnn_is_algorithm(&c, NULL, &bf16));
}

static void engines_that_lose_digits_are_left_out(void **state)
{
    (void)state;
    const unsigned notes[] = {DTI_CUDNN_DOWN_CONVERT, DTI_CUDNN_REDUCED_SUMS, DTI_CUDNN_WINOGRAD_4,
        DTI_CUDNN_WINOGRAD_6, DTI_CUDNN_WINOGRAD_13};
    for (size_t i = 0; i < DT_COUNT(notes); i++) {
        const dti_cudnn_candidate c = {.notes = notes[i], .tried = true, .ready = true};
        assert_non_null(dti_cudnn_refusal(&c, &bf16));
        assert_false(dti_cudnn_is_algorithm(&c, NULL, &bf16));
    }
}

static void engines_without_notes_are_left_out(void **state)
{
    (void)state;
    const dti_cudnn_candidate c = {.engine = -1, .tried = true, .ready = true};
    assert_false(dti_cudnn_is_algorithm(&c, NULL, &bf16));
}

static void engines_made_at_run_time_come_last(void **state)
{
    (void)state;
    const dti_cudnn_candidate c = {
        .behaviours = DTI_CUDNN_RUNTIME_COMPILED, .tried = true, .ready = true};
    const dti_cudnn_rules late = {.bf16 = true, .compiled = true, .work_bytes = 1000};
    assert_false(dti_cudnn_is_algorithm(&c, NULL, &bf16));
    assert_true(dti_cudnn_is_algorithm(&c, NULL, &late));
}

/* As a library that has no product with a bias leaves it, for odd rows of outputs. */
static void a_bias_is_added_to_rows_that_lie_apart(void **state)
{
    (void)state;
    enum { ROWS = 3, MOST = 24 };
    static const int columns[] = {16, 13}, pitch[] = {MOST, 16};
    float bias[MOST], y[ROWS * MOST];
    for (int k = 0; k < MOST; k++)
        bias[k] = (float)k + 1;
    for (int way = 0; way < 4; way++) {
        const int n = columns[way % 2], apart = pitch[way / 2];
        dt_err err = {0};
        for (int k = 0; k < ROWS * MOST; k++)
            y[k] = (float)(100 * k);
        assert_ok(dti_cuda_add_bias(NULL, DT_F32, y, bias, ROWS, n, apart, &err), &err);
        for (int k = 0; k < ROWS * MOST; k++) {
            const bool in = k / apart < ROWS && k % apart < n;
            assert_true(y[k] == (float)(100 * k) + (in ? bias[k % apart] : 0));
        }
    }
}

DT_TEST_GROUP(cuda_nn)
{
    enum { OTHERS = 7 };
    static struct layer_case copies[DT_COUNT(cases)];
    struct CMUnitTest tests[OTHERS + DT_COUNT(cases)] = {
        cmocka_unit_test(the_limit_decides_between_engines),
        cmocka_unit_test(a_bias_is_added_to_rows_that_lie_apart),
        cmocka_unit_test(ways_are_allowed_and_ever_smaller),
        cmocka_unit_test(tensor_cores_are_for_bf16_and_tf32),
        cmocka_unit_test(engines_that_lose_digits_are_left_out),
        cmocka_unit_test(engines_without_notes_are_left_out),
        cmocka_unit_test(engines_made_at_run_time_come_last)};
    for (size_t i = 0; i < DT_COUNT(cases); i++) {
        copies[i] = cases[i];
        tests[OTHERS + i] =
            (struct CMUnitTest){copies[i].opts, is_the_processors, NULL, NULL, &copies[i]};
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
