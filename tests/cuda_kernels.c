#include "tests/cuda_kernels.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/alloc.h"
#include "layers/registry.h"
#include "tests/check.h"
#include "tests/layer_check.h"

/* exact: the arithmetic is one operation a result, or a sum in one order, so bits are the
 * processor's in fp32; in bf16 as well unless rounded is set, where the processor rounds sums that
 * are not done yet. */
static const struct row {
    const char *layer, *opts;
    int n_x;
    int64_t n;
    dt_shape x;
    int alt;
    bool eval, exact, rounded;
} rows[] = {
    {"relu", "", 1, 3, {1, 5, 7, 3}, .exact = true},
    {"relu", "", 1, 3, {1, 5, 7, 3}, .alt = 1, .exact = true},
    {"relu", "", 1, 3, {1, 9, 8, 16}, .exact = true},
    {"relu", "", 1, 3, {1, 9, 8, 16}, .alt = 1, .exact = true},
    {"add", "", 2, 3, {1, 5, 7, 3}, .exact = true},
    {"add", "", 8, 2, {1, 4, 4, 8}, .exact = true},
    {"add_relu", "", 3, 3, {1, 5, 7, 3}, .alt = 1, .exact = true},
    {"add_relu", "", 2, 3, {1, 5, 7, 8}, .exact = true},
    {"batchnorm", "", 1, 3, {1, 5, 7, 3}, .exact = false},
    {"batchnorm", "momentum=0.3", 1, 2, {1, 9, 8, 72}, .exact = false},
    {"batchnorm", "", 1, 1, {1, 13, 9, 300}, .exact = false},
    {"batchnorm", "", 1, 3, {1, 5, 7, 8}, .eval = true},
    {"batchnorm_relu", "", 1, 3, {1, 5, 7, 3}, .exact = false},
    {"batchnorm_relu", "eps=0.01", 1, 2, {1, 19, 18, 40}, .exact = false},
    {"batchnorm_relu", "", 1, 3, {1, 5, 7, 3}, .eval = true},
    {"maxpool", "kernel=2", 1, 3, {1, 8, 6, 16}, .exact = true},
    {"maxpool", "kernel=3 stride=2 pad=1", 1, 2, {1, 9, 8, 19}, .exact = true, .rounded = true},
    {"maxpool", "kernel=3 stride=2 pad=1", 1, 2, {1, 9, 8, 19}, .alt = 1, .exact = true,
        .rounded = true},
    {"maxpool", "kernel=3 stride=1", 1, 2, {1, 7, 5, 8}, .alt = 1, .exact = true, .rounded = true},
    {"maxpool", "kernel=3 stride=2 ceil=on", 1, 2, {1, 8, 8, 10}, .alt = 1, .exact = true,
        .rounded = true},
    {"maxpool", "kernel=5 stride=3 pad=2", 1, 2, {1, 9, 8, 11}, .alt = 1, .exact = true,
        .rounded = true},
    {"avgpool", "kernel=2", 1, 3, {1, 8, 6, 16}, .exact = true},
    {"avgpool", "kernel=3 stride=2 pad=1", 1, 2, {1, 9, 8, 11}, .exact = true, .rounded = true},
    {"avgpool", "kernel=3 stride=2 pad=1 ceil=on include_pad=off", 1, 2, {1, 8, 8, 5},
        .exact = true, .rounded = true},
    {"global_avgpool", "", 1, 3, {1, 9, 7, 19}, .exact = true},
    {"global_avgpool", "", 1, 3, {1, 2, 3, 32}, .exact = true},
    {"adaptive_avgpool", "out=4", 1, 3, {1, 9, 14, 13}, .exact = true},
    {"adaptive_avgpool", "out=7", 1, 2, {1, 3, 5, 8}, .exact = true},
    {"dropout", "rate=0.3", 1, 3, {1, 5, 7, 3}, .exact = true},
    {"dropout", "", 1, 3, {1, 5, 4, 16}, .exact = true},
    {"dropout", "rate=1", 1, 2, {1, 2, 2, 4}, .exact = true},
    {"dropout", "", 1, 3, {1, 5, 7, 3}, .eval = true, .exact = true},
    {"gelu", "", 1, 3, {1, 5, 7, 3}, .exact = true},
    {"gelu", "approximate=tanh", 1, 3, {1, 5, 7, 8}, .exact = true},
    {"sigmoid", "", 1, 3, {1, 5, 7, 3}, .exact = true},
    {"tanh", "", 1, 3, {1, 5, 7, 3}, .exact = true},
    {"shortcut", "out=9 stride=2", 1, 3, {1, 9, 8, 5}, .exact = true},
    {"shortcut", "out=32 stride=2", 1, 2, {1, 6, 8, 16}, .exact = true},
    {"concat", "", 3, 3, {1, 3, 5, 7}, .exact = true},
    {"concat", "", 2, 3, {1, 3, 5, 16}, .exact = true},
    {"upsample", "factor=3", 1, 2, {1, 3, 5, 7}, .exact = true},
    {"upsample", "", 1, 2, {1, 4, 3, 16}, .exact = true},
    {"lrn", "alpha=0.5", 1, 2, {1, 1, 3, 1}, .exact = false},
    {"lrn", "size=4 alpha=2 beta=0.6 k=2", 1, 3, {1, 1, 2, 64}, .exact = false},
    {"lrn", "size=63 alpha=3", 1, 3, {1, 1, 1, 600}, .exact = false},
    {"layernorm", "", 1, 3, {1, 5, 1, 19}, .exact = false},
    {"layernorm", "eps=0.001", 1, 2, {1, 5, 1, 768}, .exact = false},
    {"embedding", "vocab=11 out=19", 1, 3, {1, 5, 1, 1}, .exact = true},
    {"embedding", "vocab=3 out=32", 1, 2, {1, 9, 1, 1}, .exact = true},
    {"position", "", 1, 3, {1, 5, 1, 19}, .exact = true},
    {"position", "", 1, 3, {1, 5, 2, 32}, .exact = true},
    {"cross_entropy", "", 1, 7, {1, 1, 1, 10}, .exact = false},
    {"cross_entropy", "", 1, 3, {1, 5, 1, 700}, .exact = false},
    {"cross_entropy", "", 1, 2, {1, 3, 4, 2}, .exact = false},
    {"cross_entropy", "", 1, 3, {1, 5, 1, 70}, .eval = true},
};

size_t dt_cuda_cases(void)
{
    return DT_COUNT(rows);
}

const char *dt_cuda_case_name(size_t i)
{
    static char text[128];
    snprintf(text, sizeof text, "%s %s, case %zu", rows[i].layer, rows[i].opts, i);
    return text;
}

/* A case, run one way. */
typedef struct outcome {
    dt_layer_run run;
    dt_layer_desc desc;
    void *opts;
    dt_layer_info info;
    float *in[DT_MAX_IN], *dy, *param[DT_MAX_PARAM];
    int32_t *labels;
    size_t x_count, y_count;
} outcome;

/* The kernels that are looked at; the table that layer_check knows leads to them. */
static struct looked_at {
    const dt_kernels *k;
    const dt_cuda_bench *on;
} at;

static dt_status bench_facts(const dt_call *c, dt_facts *f, dt_err *err)
{
    return at.k->facts != NULL ? at.k->facts(c, f, err) : DT_OK;
}

/* Of the first sample's place, the micro-batch is said to have a part. */
static dt_status bench_run(const dt_call *c, void *state, const dt_args *a, dt_err *err)
{
    (void)state;
    dt_args b = *a;
    const dt_now now = {a->sample0 / 2, a->step, a->step_samples, a->hyper};
    b.sample0 = a->sample0 - now.sample0;
    b.step = -1;
    b.step_samples = -1;
    memset(&b.hyper, 0xFF, sizeof b.hyper);
    b.now = &now;
    return at.on->run(at.k, c, &b, err);
}

static const dt_kernels bench_kernels = {.facts = bench_facts, .run = bench_run};

static void make_values(outcome *o, const struct row *row)
{
    const bool ids = o->desc.reads_ids;
    dt_layer_run *r = &o->run;
    o->x_count = (size_t)(row->n * dt_shape_sample(&row->x));
    o->y_count = (size_t)(row->n * dt_shape_sample(&o->info.y));
    for (int i = 0; i < row->n_x; i++) {
        r->in[i] = o->in[i] = dt_random_values(o->x_count, (uint32_t)i);
        for (size_t k = 0; k < o->x_count && ids; k++)
            o->in[i][k] = floorf((o->in[i][k] + 1) / 2 * (float)o->info.param[0].d[0]);
    }
    r->dy = o->dy = dt_random_values(o->y_count, 100);
    for (int i = 0; i < o->info.n_param; i++) {
        const size_t n = (size_t)dt_param_count(&o->info.param[i]);
        r->param[i] = o->param[i] = dt_random_values(n, 200 + (uint32_t)i);
        for (size_t k = 0; k < n && i == 3; k++)
            o->param[i][k] = 0.5f + fabsf(o->param[i][k]); /* a variance */
    }
    o->labels = malloc(o->x_count * sizeof *o->labels);
    assert_non_null(o->labels);
    for (size_t k = 0; k < o->x_count; k++)
        o->labels[k] = (int32_t)((k * 7 + 3) % (size_t)row->x.c);
    r->labels = o->labels;
}

/* @on: NULL: the processor. */
static void run_row(const struct row *row, const dt_cuda_bench *on, dt_dtype t, int how, outcome *o)
{
    const dt_layer_desc *d = dt_layer_find(row->layer);
    dt_err err = {0};
    assert_non_null(d);
    *o = (outcome){.desc = *d, .opts = d->opts_bytes > 0 ? dt_layer_options(d, row->opts) : NULL};
    o->run = (dt_layer_run){.desc = &o->desc,
        .opts = o->opts,
        .n = row->n,
        .n_x = row->n_x,
        .alt = row->alt,
        .eval = row->eval,
        .dtype = t,
        .in_place = (how & DT_CUDA_IN_PLACE) != 0,
        .piece = (how & DT_CUDA_IN_PIECES) != 0 ? 2 : 0};
    for (int i = 0; i < row->n_x; i++)
        o->run.x[i] = row->x;
    assert_ok(d->infer(o->opts, o->run.x, row->n_x, &o->info, &err), &err);
    make_values(o, row);
    if (on != NULL) {
        at = (struct looked_at){.k = on->find(row->layer), .on = on};
        if (at.k == NULL)
            fail_msg("layer %s has no kernels", row->layer);
        o->desc.cpu = &bench_kernels;
    }
    dt_layer_check(&o->run);
}

static void drop(outcome *o)
{
    dt_layer_check_free(&o->run);
    for (int i = 0; i < DT_MAX_IN; i++)
        free(o->in[i]);
    for (int i = 0; i < DT_MAX_PARAM; i++)
        free(o->param[i]);
    free(o->dy);
    free(o->labels);
    dt_free(o->opts);
}

/* @allow: 0: the same bits. */
static void assert_near(const struct row *row, const char *what, const float *got,
    const float *want, size_t n, double allow)
{
    const double apart = n > 0 ? dt_relative_error(got, want, n) : 0;
    bool zeros = true;
    for (size_t i = 0; i < n; i++)
        zeros = zeros && got[i] == 0 && want[i] == 0;
    if (allow > 0 ? !(apart <= allow) && !zeros : memcmp(got, want, n * sizeof *got) != 0)
        fail_msg("%s %s, %td: %s is off by %g", row->layer, row->opts, row - rows, what, apart);
}

static void assert_metrics(const dt_metrics *got, const dt_metrics *want, double allow)
{
    assert_int_equal(got->count, want->count);
    assert_int_equal(got->top1, want->top1);
    assert_int_equal(got->top5, want->top5);
    assert_int_equal(got->nonfinite, want->nonfinite);
    assert_true(fabs(got->loss_sum - want->loss_sum) <= allow * fabs(want->loss_sum));
}

static void assert_outcome(
    const struct row *row, const outcome *got, const outcome *want, double allow_y, double allow)
{
    const bool dy = !row->eval, loss = want->desc.loss, ids = want->desc.reads_ids;
    if (!loss)
        assert_near(row, "y", got->run.got_y, want->run.got_y, want->y_count, allow_y);
    for (int i = 0; i < row->n_x && dy && !ids; i++)
        assert_near(row, "dx", got->run.got_dx[i], want->run.got_dx[i], want->x_count, allow);
    for (int i = 0; i < want->info.n_param; i++) {
        const size_t n = (size_t)dt_param_count(&want->info.param[i]);
        const bool buffer = want->info.param[i].buffer;
        if (dy && !buffer)
            assert_near(row, want->info.param[i].name, got->run.got_dparam[i],
                want->run.got_dparam[i], n, allow);
        if (dy && buffer)
            assert_near(row, want->info.param[i].name, got->run.got_pending[i],
                want->run.got_pending[i], n, allow);
    }
    assert_metrics(&got->run.metrics, &want->run.metrics, allow_y > 0 ? 1e-6 : 0);
}

void dt_cuda_case_compare(size_t i, const dt_cuda_bench *on, dt_dtype t)
{
    const struct row *row = &rows[i];
    const double allow = t == DT_BF16 ? 8e-3 : 3e-6;
    const bool y = row->exact && on->bits, dx = y && (t == DT_F32 || !row->rounded);
    outcome want, got;
    run_row(row, NULL, t, 0, &want);
    run_row(row, on, t, 0, &got);
    assert_outcome(row, &got, &want, y ? 0 : allow, dx ? 0 : allow);
    drop(&want);
    drop(&got);
}

void dt_cuda_case_repeat(
    size_t i, const dt_cuda_bench *on, dt_dtype t, int how, void (*between)(void))
{
    outcome first, again;
    run_row(&rows[i], on, t, 0, &first);
    if (between != NULL)
        between();
    run_row(&rows[i], on, t, how, &again);
    assert_outcome(&rows[i], &again, &first, 0, 0);
    drop(&first);
    drop(&again);
}

/* An op on parameters, on one side. Ports of @set get values, those of squares are positive. */
static void run_op(const char *name, const dt_cuda_bench *on, const dt_call *c, const dt_hyper *h,
    const dt_port *set, int n_set, float **port)
{
    const dt_layer_desc *d = dt_layer_find(name);
    const dt_now now = {0, 6, 1, *h};
    dt_err err = {0};
    dt_args a = {.n = 1, .step = 6, .hyper = *h, .now = &now};
    assert_non_null(d);
    for (int p = 0; p < n_set; p++) {
        port[p] = dt_random_values((size_t)c->count, (uint32_t)p);
        for (int64_t i = 0; i < c->count && set[p] == DT_M + 1; i++)
            port[p][i] = fabsf(port[p][i]);
        for (int64_t i = 0; i < c->count && c->dtype == DT_BF16; i++)
            ((dt_bf16 *)(void *)port[p])[i] = dt_bf16_from_float(port[p][i]);
        a.port[set[p]] = port[p];
    }
    if (on != NULL) {
        memset(&a.hyper, 0xFF, sizeof a.hyper);
        a.step = -1;
    }
    for (int step = 0; step < 2; step++)
        if (on == NULL)
            assert_ok(d->cpu->run(c, NULL, &a, &err), &err);
        else
            assert_ok(on->run(on->find(name), c, &a, &err), &err);
}

static void compare_op(const char *name, const dt_cuda_bench *on, const dt_call *c,
    const dt_hyper *h, const dt_port *set, int n_set)
{
    float *want[DT_PORTS], *got[DT_PORTS];
    const size_t n = (size_t)c->count;
    run_op(name, NULL, c, h, set, n_set, want);
    run_op(name, on, c, h, set, n_set, got);
    for (int p = 0; p < n_set; p++) {
        if (on->bits || c->dtype == DT_BF16)
            assert_memory_equal(got[p], want[p], n * sizeof(float));
        else if (!(dt_relative_error(got[p], want[p], n) <= 1e-6))
            fail_msg("%s: port %d differs", name, (int)set[p]);
        free(want[p]);
        free(got[p]);
    }
}

void dt_cuda_ops_compare(const dt_cuda_bench *on)
{
    const dt_port moved[] = {DT_P, DT_DP, DT_M, DT_M + 1}, summed[] = {DT_X, DT_X + 1, DT_Y};
    const dt_port committed[] = {DT_P, DT_Q};
    const dt_hyper h = {.lr = 0.1f,
        .momentum = 0.9f,
        .weight_decay = 0.01f,
        .beta1 = 0.9,
        .beta2 = 0.999,
        .eps = 1e-8f,
        .clip = 0.25f};
    for (int way = 0; way < 32; way++) {
        const dt_call c = {
            .form = DT_UPDATE, .count = way & 16 ? 1003 : 24, .vector = (way & 8) != 0};
        dt_hyper g = h;
        g.clipped = way & 1;
        g.nesterov = way & 2;
        g.no_decay = way & 4;
        compare_op("sgd", on, &c, &g, moved, 2);
        compare_op("sgd", on, &c, &g, moved, 3);
        compare_op("adam", on, &c, &g, moved, 4);
        compare_op("adamw", on, &c, &g, moved, 4);
        compare_op("commit", on, &c, &g, committed, 2);
    }
    for (int t = 0; t < DT_DTYPES; t++) {
        const dt_call c = {.form = DT_FORWARD, .count = 1003, .dtype = (dt_dtype)t};
        compare_op("sum", on, &c, &h, summed, 3);
    }
}

/* More tensors than a launch holds, of sizes around those at which chunks end; some are vectors,
 * some do not begin at 16 bytes, some have no element. */
enum { TENSORS = 173, CHUNK = 8192 };
static const int64_t update_sizes[] = {1, 9, 0, 64, 7, CHUNK, 1003, 8, CHUNK + 1, 33, 255, 3, 2053};

/* How a set of updates is run. */
enum { ON_PROCESSOR, TOGETHER, ONE_BY_ONE };

typedef struct updates {
    const char *name;
    dt_hyper h;
    const dt_port *port;
    int n_port;
    dt_call call[TENSORS];
    const dt_call *calls[TENSORS];
    float *value[3][TENSORS][4]; /* by how they were got */
} updates;

static void make_updates(updates *u)
{
    for (int i = 0; i < TENSORS; i++) {
        const int64_t n = i == TENSORS - 1 ? 0 : update_sizes[i % (int)DT_COUNT(update_sizes)];
        u->call[i] = (dt_call){.form = DT_UPDATE, .count = n, .vector = i % 3 == 1};
        u->calls[i] = &u->call[i];
        for (int how = 0; how < 3; how++)
            for (int p = 0; p < u->n_port; p++) {
                float *v = dt_random_values((size_t)n + 2, (uint32_t)(10 * i + p));
                for (int64_t k = 0; k < n + 2 && u->port[p] == DT_M + 1; k++)
                    v[k] = fabsf(v[k]);
                u->value[how][i][p] = v;
            }
    }
}

/* Two steps. */
static void run_updates(const updates *u, const dt_cuda_bench *on, int how)
{
    static dt_args a[TENSORS];
    const dt_layer_desc *d = dt_layer_find(u->name);
    dt_err err = {0};
    for (int64_t step = 4; step < 6; step++) {
        const dt_now now = {0, step, 1, u->h};
        for (int i = 0; i < TENSORS; i++) {
            a[i] = (dt_args){.n = 1, .step = step, .hyper = u->h, .now = &now};
            for (int p = 0; p < u->n_port; p++)
                a[i].port[u->port[p]] = u->value[how][i][p] + (i % 5 == 2);
            if (how == ON_PROCESSOR)
                assert_ok(d->cpu->run(&u->call[i], NULL, &a[i], &err), &err);
            memset(&a[i].hyper, 0xFF, sizeof a[i].hyper);
            a[i].step = -1;
            if (how == ONE_BY_ONE)
                assert_ok(on->run(on->find(u->name), &u->call[i], &a[i], &err), &err);
        }
        if (how == TOGETHER)
            assert_ok(on->run_many(on->find(u->name), u->calls, a, TENSORS, &err), &err);
    }
}

static void assert_updates(const updates *u, bool bits)
{
    for (int i = 0; i < TENSORS; i++)
        for (int p = 0; p < u->n_port; p++) {
            const size_t n = (size_t)u->call[i].count + 2; /* with what lies beside them */
            float *const want = u->value[ON_PROCESSOR][i][p], *const got = u->value[TOGETHER][i][p];
            if (memcmp(got, u->value[ONE_BY_ONE][i][p], n * sizeof *got) != 0 ||
                (bits ? memcmp(got, want, n * sizeof *got) != 0
                      : !(dt_relative_error(got, want, n) <= 1e-6)))
                fail_msg("%s: tensor %d, port %d differs", u->name, i, (int)u->port[p]);
        }
}

static void compare_updates(
    const char *name, const dt_cuda_bench *on, const dt_hyper *h, const dt_port *port, int n_port)
{
    static updates u;
    u = (updates){.name = name, .h = *h, .port = port, .n_port = n_port};
    make_updates(&u);
    for (int how = 0; how < 3; how++)
        run_updates(&u, on, how);
    assert_updates(&u, on->bits);
    for (int how = 0; how < 3; how++)
        for (int i = 0; i < TENSORS; i++)
            for (int p = 0; p < n_port; p++)
                free(u.value[how][i][p]);
}

void dt_cuda_updates_compare(const dt_cuda_bench *on)
{
    static const dt_port moved[] = {DT_P, DT_DP, DT_M, DT_M + 1}, committed[] = {DT_P, DT_Q};
    dt_hyper h = {.lr = 0.1f,
        .momentum = 0.9f,
        .weight_decay = 0.01f,
        .beta1 = 0.9,
        .beta2 = 0.999,
        .eps = 1e-8f,
        .clip = 0.25f};
    compare_updates("commit", on, &h, committed, 2);
    compare_updates("sgd", on, &h, moved, 2);
    h.clipped = h.no_decay = h.nesterov = true;
    compare_updates("sgd", on, &h, moved, 3);
    compare_updates("adam", on, &h, moved, 4);
    compare_updates("adamw", on, &h, moved, 4);
}

size_t dt_cuda_port_bytes(const dt_kernels *k, const dt_call *c, const dt_args *a, int port)
{
    const size_t value = dt_dtype_bytes(c->dtype), n = (size_t)a->n;
    if (c->node == NULL)
        return (size_t)c->count * value;
    const dt_layer_info *info = &c->node->info;
    if (port < DT_P) {
        const dt_shape x = dt_graph_shape(c->graph, c->node->in[port % DT_MAX_IN]);
        const bool ids = c->node->desc->reads_ids && port < DT_DX;
        return n * (size_t)dt_shape_sample(&x) * (ids ? sizeof(float) : value);
    }
    if (port < DT_D)
        return (size_t)dt_param_count(&info->param[(port - DT_P) % DT_MAX_PARAM]) * sizeof(float);
    if (port >= DT_S && port < DT_S + DT_MAX_STASH)
        return info->stash[port - DT_S].fixed_bytes + n * info->stash[port - DT_S].sample_bytes;
    if (port == DT_Y || port == DT_DY)
        return n * (size_t)dt_shape_sample(&info->y) * value;
    if (port == DT_LABELS) {
        const dt_shape x = dt_graph_shape(c->graph, c->node->in[0]);
        return n * (c->node->desc->loss ? (size_t)(x.h * x.w) : 1) * sizeof(int32_t);
    }
    if (port == DT_METRICS) {
        const dt_shape x = dt_graph_shape(c->graph, c->node->in[0]);
        return sizeof(dt_metrics) + (size_t)dt_counted_classes(x) * sizeof(dt_class_count);
    }
    dt_facts f = {0};
    if (port == DT_WORK && k->facts != NULL)
        assert_int_equal(k->facts(c, &f, NULL), DT_OK);
    return f.work_bytes;
}
