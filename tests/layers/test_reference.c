/* Every layer against PyTorch's double-precision numbers, for every alternative of its backward, in
 * fp32 and in bf16: those beside this file (reference/make wrote them), and those of the optional
 * folder of reference data. */
#include <stdlib.h>
#include <string.h>

#include "engine/base/alloc.h"
#include "engine/checkpoint/safetensors.h"
#include "layers/weighted/conv_transpose.h"
#include "layers/pool/maxpool.h"
#include "layers/registry.h"
#include "tests/fixture/check.h"
#include "tests/fixture/json_read.h"
#include "tests/fixture/layer_check.h"

/* Of ||got - want|| / ||want||: in fp32 promised by the folder's README; bf16 has 8 bits. */
static const double tolerances[DT_DTYPES] = {[DT_F32] = 1e-5, [DT_BF16] = 2e-2};

/* The cases this engine has layers for, and how many tensors each must at least compare. */
static const struct reference {
    const char *name;
    int least;
} references[] = {
    {"avgpool_2x2", 2},
    {"avgpool_3x3_s2_p1_exclude", 2},
    {"avgpool_3x3_s2_p1_include", 2},
    {"batchnorm_train", 6},
    {"conv_11x11_stride4", 3},
    {"conv_1x1", 3},
    {"conv_1x1_stride2", 3},
    {"conv_3x3_depthwise", 3},
    {"conv_3x3_dilated", 4},
    {"conv_3x3_grouped", 3},
    {"conv_3x3_pad1", 3},
    {"conv_3x3_stride2", 3},
    {"conv_5x5_odd", 3},
    {"conv_7x7_stride2_rgb", 3},
    {"fc_small", 4},
    {"fc_wide", 4},
    {"gelu_erf", 2},
    {"gelu_tanh", 2},
    {"global_avgpool", 2},
    {"lrn", 2},
    {"maxpool_2x2", 2},
    {"maxpool_3x3_s1", 2},
    {"maxpool_3x3_s2_ceil", 2},
    {"maxpool_3x3_s2_p1", 2},
    {"relu", 2},
    {"sigmoid", 2},
    {"softmax_cross_entropy", 2},
    {"tanh", 2},
};

/* Those in the tree. */
static const struct reference here[] = {
    {"adaptive_avgpool", 2},
    {"add_relu", 3},
    {"add_three", 4},
    {"additive_attention", 6},
    {"additive_attention_causal", 6},
    {"additive_attention_naive", 6},
    {"avgpool_3x1", 2},
    {"bce", 2},
    {"concat_many", 17},
    {"conv_1x7", 4},
    {"conv_3x2_strided", 4},
    {"conv_7x1_bare", 3},
    {"groupnorm", 4},
    {"groupnorm_one", 4},
    {"hardsigmoid", 2},
    {"hardswish", 2},
    {"leaky_relu", 2},
    {"l1", 2},
    {"conv_transpose_2x2", 4},
    {"conv_transpose_4x3_grouped", 3},
    {"conv_transpose_more", 4},
    {"lstm", 6},
    {"lstm_bare", 4},
    {"lstm_long", 6},
    {"max_unpool", 3},
    {"maxpool_1x7", 2},
    {"maxpool_3x2_strided", 2},
    {"maxpool_even", 2},
    {"maxpool_index", 1},
    {"maxpool_index_wide", 1},
    {"maxpool_overlapping", 2},
    {"maxpool_padded", 2},
    {"maxpool_up", 2},
    {"mean_channels", 2},
    {"mean_height", 2},
    {"mean_space", 2},
    {"mean_width", 2},
    {"mse", 2},
    {"mul_by_pixel", 3},
    {"mul_same", 3},
    {"permute_chw", 2},
    {"permute_cwh", 2},
    {"permute_hcw", 2},
    {"permute_wch", 2},
    {"permute_whc", 2},
    {"relu6", 2},
    {"rmsnorm", 3},
    {"silu", 2},
    {"smooth_l1", 2},
    {"softmax_tile", 2},
    {"softmax_tile_later", 3},
    {"upsample", 2},
    {"zero_pad", 2},
};

/* Layers of the files that are one layer here, with an option. */
static const struct variant {
    const char *theirs, *ours, *opts;
} variants[] = {
    {"gelu_erf", "gelu", "approximate=none"},
    {"gelu_tanh", "gelu", "approximate=tanh"},
};

struct typed {
    const struct reference *of;
    dt_dtype dtype;
    bool here;
};

/* @ties: of its inputs some differ by less than bf16 tells apart, of which max-pool takes the first
 * and not the larger. Where its gradient goes in bf16 is shown by the cases in the tree, which have
 * no such inputs. */
typedef struct loaded {
    const dt_st_file *file;
    const char *name;
    bool ties;
    const dt_layer_desc *desc;
    void *opts;
    dt_dtype dtype;
    int compared;
    const cJSON *meta; /* texts by key */
} loaded;

/* NULL: the file does not tell it. */
static const char *told(const loaded *l, const char *key)
{
    return cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(l->meta, key));
}

static float *load(const dt_st_file *f, const char *name, size_t *count)
{
    const dt_st_entry *e = dt_st_find(f, name);
    dt_err err = {0};
    if (e == NULL)
        return NULL;
    assert_int_equal(e->type, DT_ST_F32);
    float *v = malloc(e->bytes + 1);
    assert_non_null(v);
    assert_ok(dt_st_read(f, e, 0, v, e->bytes, &err), &err);
    *count = e->bytes / sizeof(float);
    return v;
}

static float *load_for(const loaded *l, const char *prefix, const char *name)
{
    char full[64];
    size_t n;
    snprintf(full, sizeof full, "%s%s", prefix, name);
    return load(l->file, full, &n);
}

static void compare(loaded *l, const char *tensor, const float *got, float scale)
{
    size_t n;
    float *want = load(l->file, tensor, &n);
    if (want == NULL)
        return;
    l->compared++;
    if (l->ties && l->dtype == DT_BF16 && strcmp(tensor, "dx") == 0) {
        free(want);
        return;
    }
    for (size_t i = 0; i < n; i++)
        want[i] /= scale;
    const double off = got == NULL ? 1 : dt_relative_error(got, want, n);
    if (!(off < tolerances[l->dtype]))
        fail_msg("%s: %s is off by %g, relative", l->name, tensor, off);
    free(want);
}

/* A list such as [0.5, 1.25] in the metadata. */
static void compare_list(loaded *l, const char *key, const float *got, size_t n)
{
    const char *text = told(l, key);
    float want[64];
    if (text == NULL)
        return;
    assert_true(*text == '[' && n <= DT_COUNT(want));
    for (size_t i = 0; i < n; i++) {
        char *end;
        want[i] = strtof(text + 1, &end);
        assert_true(end > text + 1);
        text = end;
    }
    assert_true(dt_relative_error(got, want, n) < tolerances[l->dtype]);
    l->compared++;
}

static dt_shape shape_of(const loaded *l, const char *name, int64_t *n)
{
    const dt_st_entry *e = dt_st_find(l->file, name);
    assert_non_null(e);
    assert_true(e->rank == 2 || e->rank == 4);
    *n = e->d[0];
    return e->rank == 2 ? (dt_shape){1, 1, 1, e->d[1]} : (dt_shape){1, e->d[2], e->d[3], e->d[1]};
}

/* The layer's input i is called x, or x0, x1 ... where there are several. False: it has no more. */
static bool name_input(const loaded *l, const char *prefix, int i, char name[16])
{
    snprintf(name, 16, "%sx%d", prefix, i);
    if (i == 0 && dt_st_find(l->file, name) == NULL)
        snprintf(name, 16, "%sx", prefix);
    return dt_st_find(l->file, name) != NULL;
}

/* Of the second dimension of a transposed convolution's weight, a group has so many. */
static long long out_of(const loaded *l, const dt_st_entry *w)
{
    const char *groups = told(l, "groups");
    if (l->desc != &dt_layer_conv_transpose)
        return (long long)w->d[0];
    return (long long)w->d[1] * (groups != NULL ? atoi(groups) : 1);
}

/* Options from the metadata; out and bias from the tensors there are. */
static void read_options(loaded *l)
{
    const dt_st_entry *w = dt_st_find(l->file, "weight");
    l->opts = dt_alloc(1, l->desc->opts_bytes);
    assert_non_null(l->opts);
    if (l->desc->opts == NULL)
        return;
    dt_opt_defaults(l->desc->opts, l->opts);
    for (const dt_opt *row = l->desc->opts; row->key != NULL; row++) {
        char out[32];
        const char *text = told(l, row->key);
        if (strcmp(row->key, "out") == 0 && w != NULL) {
            snprintf(out, sizeof out, "%lld", out_of(l, w));
            text = out;
        } else if (strcmp(row->key, "bias") == 0 && text == NULL)
            text = dt_st_find(l->file, "bias") != NULL ? "on" : "off";
        dt_err err = {0};
        if (text != NULL)
            assert_ok(dt_opt_read(row, text, l->opts, &err), &err);
    }
}

static void find_layer(loaded *l, const char *name)
{
    l->desc = dt_layer_find(name);
    for (size_t i = 0; i < DT_COUNT(variants) && l->desc == NULL; i++)
        if (strcmp(variants[i].theirs, name) == 0) {
            l->desc = dt_layer_find(variants[i].ours);
            l->opts = dt_layer_options(l->desc, variants[i].opts);
            return;
        }
    assert_non_null(l->desc);
    read_options(l);
}

/* Of the shape of an input of @n samples. */
static int32_t *load_values(const loaded *l, int64_t n, const dt_shape *x)
{
    const size_t all = (size_t)(n * dt_shape_sample(x));
    float *plain = load_for(l, "", "labels"), *v = malloc(all * sizeof *v);
    int32_t *labels = malloc(all * sizeof *labels);
    assert_true(plain != NULL && v != NULL && labels != NULL);
    dt_to_nhwc(plain, v, n, x);
    for (size_t i = 0; i < all; i++)
        labels[i] = dt_label_of_value(v[i]);
    free(plain);
    free(v);
    return labels;
}

static int32_t *load_labels(const loaded *l, int64_t n, const dt_shape *x)
{
    const dt_st_entry *e = dt_st_find(l->file, "labels");
    dt_err err = {0};
    if (e == NULL)
        return NULL;
    if (l->desc->labels != DT_LABEL_CLASS)
        return load_values(l, n, x);
    assert_int_equal(e->type, DT_ST_I64);
    int64_t wide[64];
    assert_true(n <= 64 && e->bytes == (uint64_t)n * sizeof *wide);
    assert_ok(dt_st_read(l->file, e, 0, wide, e->bytes, &err), &err);
    int32_t *labels = malloc((size_t)n * sizeof *labels);
    assert_non_null(labels);
    for (int64_t i = 0; i < n; i++)
        labels[i] = (int32_t)wide[i];
    return labels;
}

/* A buffer that the file does not hold starts as PyTorch starts it. */
static float *initial(const dt_param_info *p)
{
    const size_t n = (size_t)dt_param_count(p);
    float *v = malloc(n * sizeof *v);
    assert_non_null(v);
    for (size_t i = 0; i < n; i++)
        v[i] = p->init == DT_INIT_ONE ? 1.0f : 0.0f;
    return v;
}

static void compare_all(loaded *l, const dt_layer_run *r)
{
    char name[64];
    float loss = (float)(r->metrics.loss_sum / (double)r->metrics.count),
          *dy = load_for(l, "", "dy");
    compare(l, "y", l->desc->loss ? &loss : r->got_y, 1);
    /* The engine's loss starts backward with 1; the file's starts with dy. */
    for (int i = 0; i < r->n_x && name_input(l, "d", i, name); i++)
        compare(l, name, r->got_dx[i], l->desc->loss ? *dy : 1);
    for (int i = 0; i < r->info.n_param; i++) {
        const dt_param_info *p = &r->info.param[i];
        snprintf(name, sizeof name, "d%s", p->name);
        if (!p->buffer)
            compare(l, name, r->got_dparam[i], 1);
        snprintf(name, sizeof name, "%s_after", p->name);
        if (p->buffer)
            compare_list(l, name, r->got_pending[i], (size_t)dt_param_count(p));
    }
    free(dy);
}

/* What infer says about parameters is needed to load them. */
static void load_params(const loaded *l, dt_layer_run *r, float *params[DT_MAX_PARAM])
{
    dt_layer_info info = {0};
    dt_err err = {0};
    assert_ok(l->desc->infer(l->opts, r->x, r->n_x, &info, &err), &err);
    for (int i = 0; i < info.n_param; i++) {
        params[i] = load_for(l, "", info.param[i].name);
        if (params[i] == NULL)
            params[i] = initial(&info.param[i]);
        r->param[i] = params[i];
    }
}

static void run_case(loaded *l, int alt, bool in_place)
{
    dt_layer_run r = {.desc = l->desc,
        .opts = l->opts,
        .alt = alt,
        .in_place = in_place,
        .dtype = l->dtype,
        .forward_only = l->desc->form[DT_BACKWARD].suffix == NULL && !l->desc->shares_dy};
    float *params[DT_MAX_PARAM] = {0}, *x[DT_MAX_IN] = {0}, *dy = load_for(l, "", "dy");
    for (char name[16]; r.n_x < l->desc->max_in && name_input(l, "", r.n_x, name); r.n_x++) {
        r.x[r.n_x] = shape_of(l, name, &r.n);
        r.in[r.n_x] = x[r.n_x] = load_for(l, "", name);
    }
    int32_t *labels = load_labels(l, r.n, &r.x[0]);
    load_params(l, &r, params);
    r.dy = l->desc->loss ? NULL : dy;
    r.labels = labels;
    l->compared = 0;
    dt_layer_check(&r);
    compare_all(l, &r);
    dt_layer_check_free(&r);
    for (int i = 0; i < DT_MAX_PARAM; i++)
        free(params[i]);
    for (int i = 0; i < DT_MAX_IN; i++)
        free(x[i]);
    free(labels);
    free(dy);
}

static void agrees_with_pytorch(void **state)
{
    const struct typed *t = *state;
    const struct reference *c = t->of;
    char below[128];
    snprintf(below, sizeof below, "%s/%s.safetensors",
        t->here ? "tests/layers/reference" : "reference/layers", c->name);
    const char *path = t->here ? dt_source_path(below) : dt_shared(below);
    if (path == NULL)
        skip();
    dt_st_file *f;
    dt_err err = {0};
    assert_ok(dt_st_open(&f, path, &err), &err);
    cJSON *header = json_header(path);
    loaded l = {
        .file = f, .name = c->name, .dtype = t->dtype, .meta = json_object(header, "__metadata__")};
    assert_non_null(told(&l, "layer"));
    find_layer(&l, told(&l, "layer"));
    l.ties = !t->here && l.desc == &dt_layer_maxpool;
    for (int alt = 0; alt < (l.desc->n_alt > 0 ? l.desc->n_alt : 1); alt++)
        for (int in_place = 0; in_place < 2; in_place++) {
            run_case(&l, alt, in_place);
            assert_true(l.compared >= c->least);
        }
    dt_free(l.opts);
    cJSON_Delete(header);
    dt_st_close(f);
}

enum { HERE = DT_COUNT(here), CASES = (HERE + DT_COUNT(references)) * DT_DTYPES };

DT_TEST_GROUP(reference)
{
    static struct typed cases[CASES];
    static char names[CASES][64];
    struct CMUnitTest tests[CASES];
    for (size_t i = 0; i < CASES; i++) {
        const size_t k = i / DT_DTYPES;
        cases[i] = (struct typed){
            k < HERE ? &here[k] : &references[k - HERE], (dt_dtype)(i % DT_DTYPES), k < HERE};
        snprintf(
            names[i], sizeof names[i], "%s, %s", cases[i].of->name, dt_dtype_name(cases[i].dtype));
        tests[i] = (struct CMUnitTest){names[i], agrees_with_pytorch, NULL, NULL, &cases[i]};
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
