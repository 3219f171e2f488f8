/* Weights in files: what is saved comes back bit for bit, and a file that is not exactly the
 * network's weights is refused with what differs, before anything has changed. */
#include "tests/fixture/check.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "engine/base/alloc.h"
#include "engine/base/io.h"
#include "engine/checkpoint/safetensors.h"
#include "engine/checkpoint/weights.h"
#include "layers/weighted/fc.h"
#include "models/model.h"
#include "tests/fixture/json_read.h"
#include "tests/fixture/planned.h"
#include "tests/fixture/state.h"

static dt_graph *build(const char *model, int64_t classes, int64_t width)
{
    dt_err err = {0};
    dt_graph *g = NULL;
    const dt_model_opts o = {.classes = classes, .width = width, .dropout = -1};
    assert_ok(dt_model_build(dt_model_find(model), &o, &g, &err), &err);
    return g;
}

/* A small one; what @o says of depth and tiles. */
static dt_graph *gpt(dt_model_opts o)
{
    dt_err err = {0};
    dt_graph *g = NULL;
    o.layers = o.layers > 0 ? o.layers : 1;
    o.width = 16;
    o.heads = 2;
    o.vocab = 20;
    o.context = 8;
    assert_ok(dt_model_build(dt_model_find("gpt2"), &o, &g, &err), &err);
    return g;
}

/* Without plans. */
static dt_stage open_net(const char *model, int64_t home_n, uint64_t seed)
{
    return dt_stage_open(build(model, 10, 16), &(dt_stage_opts){.batch = home_n, .seed = seed});
}

static void save(const dt_stage *t, const char *path)
{
    dt_err err = {0};
    assert_ok(dt_weights_save(t->runner, t->graph, t->map, path, &err), &err);
}

static dt_status load(const dt_stage *t, const char *path, dt_err *err)
{
    return dt_weights_load(t->runner, t->graph, t->map, path, NULL, err);
}

static void assert_same_file(const char *a, const char *b)
{
    char *text[2];
    size_t n[2];
    dt_err err = {0};
    assert_ok(dt_read_file(&text[0], &n[0], a, 64 << 20, DT_E_DATA, &err), &err);
    assert_ok(dt_read_file(&text[1], &n[1], b, 64 << 20, DT_E_DATA, &err), &err);
    assert_int_equal(n[0], n[1]);
    assert_memory_equal(text[0], text[1], n[0]);
    dt_free(text[0]);
    dt_free(text[1]);
}

/* ---- files with one thing changed ---- */

typedef struct tensor {
    dt_st_out out;
    char name[DT_ST_NAME_BYTES];
    unsigned char *bytes;
} tensor;

typedef struct file {
    size_t n;
    tensor t[512];
} file;

static file *read_tensors(const char *path)
{
    dt_err err = {0};
    dt_st_file *f = NULL;
    assert_ok(dt_st_open(&f, path, &err), &err);
    file *r = calloc(1, sizeof *r);
    assert_non_null(r);
    for (r->n = 0; r->n < dti_st_count(f); r->n++) {
        const dt_st_entry *e = dti_st_at(f, r->n);
        tensor *t = &r->t[r->n];
        snprintf(t->name, sizeof t->name, "%s", e->name);
        t->out = (dt_st_out){.type = e->type, .rank = e->rank};
        memcpy(t->out.d, e->d, sizeof e->d);
        t->bytes = calloc(e->bytes + 8, 1);
        assert_non_null(t->bytes);
        assert_ok(dt_st_read(f, e, 0, t->bytes, e->bytes, &err), &err);
    }
    dt_st_close(f);
    return r;
}

static tensor *tensor_of(file *f, const char *name)
{
    for (size_t i = 0; i < f->n; i++)
        if (strcmp(f->t[i].name, name) == 0)
            return &f->t[i];
    fail_msg("no tensor '%s'", name);
    return NULL;
}

static void drop(file *f, const char *name)
{
    tensor *t = tensor_of(f, name);
    free(t->bytes);
    *t = f->t[--f->n];
    f->t[f->n].bytes = NULL;
}

static void append(file *f, const char *name, dt_st_type type, int rank, int64_t d0)
{
    tensor *t = &f->t[f->n++];
    snprintf(t->name, sizeof t->name, "%s", name);
    t->out = (dt_st_out){.type = type, .rank = rank, .d = {d0}};
    t->bytes = calloc((size_t)(d0 > 0 ? d0 : 1), 8);
    assert_non_null(t->bytes);
}

static dt_status tensor_bytes(
    void *arg, size_t i, size_t at, const void **bytes, size_t *n, dt_err *err)
{
    (void)n, (void)err;
    *bytes = (const char *)((const file *)arg)->t[i].bytes + at;
    return DT_OK;
}

/* Write it and forget it. */
static void write_tensors(file *f, const char *path)
{
    dt_err err = {0};
    dt_st_out out[512];
    for (size_t i = 0; i < f->n; i++) {
        out[i] = f->t[i].out;
        out[i].name = f->t[i].name;
    }
    assert_ok(dt_st_write(path, out, f->n, NULL, 0, tensor_bytes, f, NULL, &err), &err);
    for (size_t i = 0; i < f->n; i++)
        free(f->t[i].bytes);
    free(f);
}

/* A network, the file of its weights, and a place for a changed copy. */
typedef struct fix {
    dt_stage t;
    const char *good, *bad;
    file *f;
} fix;

static fix begin(const char *model)
{
    fix x = {.t = open_net(model, 2, 1),
        .good = dt_temp_path("good.safetensors"),
        .bad = dt_temp_path("bad.safetensors")};
    save(&x.t, x.good);
    x.f = read_tensors(x.good);
    return x;
}

/* The changed copy is refused with these texts, and the runner is as it was. */
static void refused(fix *x, const char *const *says, size_t n)
{
    dt_err err = {0};
    write_tensors(x->f, x->bad);
    const dt_status st = load(&x->t, x->bad, &err);
    for (size_t i = 0; i < n; i++)
        assert_fails(st, DT_E_DATA, &err, says[i]);
    dt_err again = {0};
    assert_int_equal(dt_weights_check(x->t.graph, x->bad, NULL, &again), DT_E_DATA);
    assert_string_equal(again.text, err.text);
    const char *after = dt_temp_path("after.safetensors");
    save(&x->t, after);
    assert_same_file(x->good, after);
    dt_stage_close(&x->t);
}
#define REFUSED(x, ...)                                                                            \
    refused(x, (const char *const[]){__VA_ARGS__}, DT_COUNT(((const char *const[]){__VA_ARGS__})))

/* ---- saving and loading ---- */

static void saved_weights_come_back(const char *model)
{
    const char *a = dt_temp_path("a.safetensors"), *b = dt_temp_path("b.safetensors");
    dt_err err = {0};
    dt_stage from = open_net(model, 2, 1), to = open_net(model, 2, 2);
    save(&from, a);
    save(&to, b);
    assert_ok(load(&to, a, &err), &err);
    save(&to, b);
    assert_same_file(a, b);
    dt_stage_close(&from);
    dt_stage_close(&to);
}

static void parameters_come_back(void **state)
{
    (void)state;
    saved_weights_come_back("lenet5");
    saved_weights_come_back("mlp");
}

static void running_statistics_come_back(void **state)
{
    (void)state;
    saved_weights_come_back("resnet20");
}

static void other_seeds_give_other_files(void **state)
{
    (void)state;
    float v[2][6 * 25];
    for (int i = 0; i < 2; i++) {
        dt_stage t = open_net("lenet5", 2, (uint64_t)i + 1);
        dt_err err = {0};
        assert_ok(dt_values_get(t.runner, 0, v[i], &err), &err);
        dt_stage_close(&t);
    }
    assert_true(memcmp(v[0], v[1], sizeof v[0]) != 0);
}

/* The layout in the arena follows the micro-batch; the file does not. */
static void bytes_depend_on_nothing_but_the_weights(void **state)
{
    (void)state;
    const char *a = dt_temp_path("a.safetensors"), *b = dt_temp_path("b.safetensors");
    dt_stage one = open_net("resnet20", 1, 7), many = open_net("resnet20", 32, 7);
    save(&one, a);
    save(&many, b);
    assert_same_file(a, b);
    dt_stage_close(&one);
    dt_stage_close(&many);
}

static void names_and_shapes_are_pytorchs(void **state)
{
    (void)state;
    const char *path = dt_temp_path("names.safetensors");
    dt_stage t = open_net("resnet20", 2, 1);
    save(&t, path);
    dt_err err = {0};
    dt_st_file *f = NULL;
    assert_ok(dt_st_open(&f, path, &err), &err);
    cJSON *header = json_header(path);
    assert_string_equal(json_text(json_object(header, "__metadata__"), "format"), "pt");
    cJSON_Delete(header);
    assert_string_equal(dti_st_at(f, 0)->name, "conv1.weight");
    const dt_st_entry *e = dt_st_find(f, "conv1.weight");
    assert_int_equal(e->rank, 4);
    const int64_t oihw[] = {e->d[0], 3, 3, 3};
    assert_memory_equal(e->d, oihw, sizeof oihw);
    assert_non_null(dt_st_find(f, "bn1.running_var"));
    assert_null(dt_st_find(f, "bn1.num_batches_tracked"));
    for (size_t i = 0; i < dti_st_count(f); i++)
        assert_int_equal(dti_st_at(f, i)->type, DT_ST_F32);
    dt_st_close(f);
    dt_stage_close(&t);
}

/* Every weight has its own value, so that a swapped or forgotten one shows. */
static void every_value_finds_its_place(void **state)
{
    (void)state;
    fix x = begin("resnet20");
    dt_err err = {0};
    float next = 1;
    for (size_t i = 0; i < x.f->n; i++) {
        int64_t count = 1;
        for (int k = 0; k < x.f->t[i].out.rank; k++)
            count *= x.f->t[i].out.d[k];
        for (int64_t k = 0; k < count; k++, next++)
            memcpy(x.f->t[i].bytes + k * 4, &next, 4);
    }
    write_tensors(x.f, x.bad);
    assert_ok(load(&x.t, x.bad, &err), &err);
    save(&x.t, x.good);
    file *back = read_tensors(x.good);
    const tensor *t = tensor_of(back, "bn1.bias");
    float first;
    memcpy(&first, t->bytes, 4);
    const tensor *conv = tensor_of(back, "conv1.weight");
    assert_true(first == (float)(conv->out.d[0] * 27 + t->out.d[0] + 1));
    write_tensors(back, dt_temp_path("back.safetensors"));
    dt_stage_close(&x.t);
}

static void counts_of_batches_are_ignored(void **state)
{
    (void)state;
    fix x = begin("resnet20");
    dt_err err = {0};
    append(x.f, "bn1.num_batches_tracked", DT_ST_I64, 0, 0);
    append(x.f, "layer1.0.bn1.num_batches_tracked", DT_ST_I64, 0, 0);
    write_tensors(x.f, x.bad);
    assert_ok(load(&x.t, x.bad, &err), &err);
    dt_stage_close(&x.t);
}

static void the_order_in_the_file_does_not_matter(void **state)
{
    (void)state;
    fix x = begin("lenet5");
    dt_err err = {0};
    const tensor first = x.f->t[0];
    x.f->t[0] = x.f->t[x.f->n - 1];
    x.f->t[x.f->n - 1] = first;
    write_tensors(x.f, x.bad);
    assert_ok(load(&x.t, x.bad, &err), &err);
    save(&x.t, x.bad);
    assert_same_file(x.good, x.bad);
    dt_stage_close(&x.t);
}

/* ---- what is refused ---- */

static void a_missing_weight_is_named(void **state)
{
    (void)state;
    fix x = begin("lenet5");
    drop(x.f, "fc2.bias");
    REFUSED(&x, "bad.safetensors", "'lenet5' (10 tensors): 1 missing", "  missing  fc2.bias [");
}

static void a_weight_nobody_knows_is_named(void **state)
{
    (void)state;
    fix x = begin("lenet5");
    append(x.f, "fc9.weight", DT_ST_F32, 1, 4);
    append(x.f, "num_batches_tracked", DT_ST_I64, 0, 0);
    REFUSED(&x, ": 2 that the network does not have", "  unknown  fc9.weight [4]",
        "  unknown  num_batches_tracked []");
}

static void other_shapes_are_shown_side_by_side(void **state)
{
    (void)state;
    fix x = begin("lenet5");
    tensor *t = tensor_of(x.f, "conv1.weight");
    t->out.d[2] = t->out.d[2] * t->out.d[3];
    t->out.rank = 3;
    t = tensor_of(x.f, "fc1.weight");
    const int64_t in = t->out.d[1];
    t->out.d[1] = t->out.d[0];
    t->out.d[0] = in;
    REFUSED(&x, ": 2 of another shape",
        "  shape    conv1.weight: file [2, 1, 25], network [2, 1, 5",
        "  shape    fc1.weight: file [100, 30], network [30, 100]", "model.width");
}

static void another_number_of_classes_is_recognised(void **state)
{
    (void)state;
    fix x = begin("mlp");
    dt_graph *other = build("mlp", 7, 16);
    dt_err err = {0};
    assert_fails(dt_weights_check(other, x.good, NULL, &err), DT_E_DATA, &err,
        "the file is for 10 classes, the network has 7: set model.classes = 10");
    assert_null(strstr(err.text, "model.width"));
    dt_graph_destroy(other);
    write_tensors(x.f, x.bad);
    dt_stage_close(&x.t);
}

static void a_prefix_of_all_names_is_recognised(void **state)
{
    (void)state;
    fix x = begin("lenet5");
    for (size_t i = 0; i < x.f->n; i++) {
        char name[64];
        snprintf(name, sizeof name, "%.63s", x.f->t[i].name);
        snprintf(x.f->t[i].name, sizeof x.f->t[i].name, "module.%s", name);
    }
    REFUSED(&x, "10 missing from the file, 10 that the network does not have",
        "have a prefix ('module.conv1.weight' for 'conv1.weight')");
}

static void another_model_is_recognised(void **state)
{
    (void)state;
    fix x = begin("lenet5");
    for (size_t i = 0; i < x.f->n; i++)
        snprintf(x.f->t[i].name, sizeof x.f->t[i].name, "t%zu", i);
    REFUSED(&x, "not one name is the network's: is the file for another model than 'lenet5'?");
}

/* Of other depth, or in other tiles: what to set, and not what else may differ. */
static void other_layers_and_tiles_are_recognised(void **state)
{
    (void)state;
    static const struct {
        dt_model_opts file, network;
        const char *says, *also, *not ;
    } all[] = {
        {{.layers = 2}, {.layers = 1},
            "the file has 2 of 'h.N.ln_1.weight', the network 1: set model.layers = 2", "",
            "write the file without"},
        {{.layers = 1}, {.layers = 3}, "of 'h.N.ln_1.weight', the network 3: set model.layers = 1",
            "", "save all of"},
        {{.tiles = 4}, {.tiles = 1},
            "'h.0.attn.c_attn' in 4 tiles, the network whole: set model.tiles = 4",
            "[linear h.0.attn.c_attn] tiles = 4", "save all of"},
        {{.tiles = 4}, {.tiles = 2}, "in 4 tiles, the network in 2: set model.tiles = 4", "",
            "model.width"},
        {{.tiles = 2}, {.tiles = 4}, "in 2 tiles, the network in 4: set model.tiles = 2", "",
            "model.width"},
        {{.head_tiles = 10}, {.head_tiles = 5, .tiles = 2},
            "'wte' in 10 tiles, the network in 5: set model.head_tiles = 10", "", "[embedding"},
        {{.head_tiles = 5, .tiles = 2}, {.head_tiles = 1}, "set model.head_tiles = 5",
            "set model.tiles = 2", "save all of"},
    };
    for (size_t i = 0; i < DT_COUNT(all); i++) {
        const char *path = dt_temp_path("other.safetensors");
        dt_stage t = dt_stage_open(gpt(all[i].file), &(dt_stage_opts){.batch = 2, .seed = 1});
        dt_graph *g = gpt(all[i].network);
        dt_err err = {0};
        save(&t, path);
        const dt_status st = dt_weights_check(g, path, NULL, &err);
        assert_fails(st, DT_E_DATA, &err, all[i].says);
        assert_fails(st, DT_E_DATA, &err, all[i].also);
        assert_null(strstr(err.text, all[i].not ));
        dt_graph_destroy(g);
        dt_stage_close(&t);
    }
}

/* One that is missing is no other depth: the file has more of its layer. */
static void a_missing_weight_of_the_last_layer_is_no_other_depth(void **state)
{
    (void)state;
    const char *path = dt_temp_path("one.safetensors");
    dt_stage t =
        dt_stage_open(gpt((dt_model_opts){.layers = 2}), &(dt_stage_opts){.batch = 2, .seed = 1});
    dt_err err = {0};
    save(&t, path);
    file *f = read_tensors(path);
    drop(f, "h.1.ln_1.weight");
    write_tensors(f, path);
    assert_fails(dt_weights_check(t.graph, path, NULL, &err), DT_E_DATA, &err, "save all of");
    assert_null(strstr(err.text, "set model.layers"));
    dt_stage_close(&t);
}

static void long_tables_are_cut(void **state)
{
    (void)state;
    fix x = begin("lenet5");
    for (int i = 0; i < 100; i++) {
        char name[DT_ST_NAME_BYTES];
        snprintf(name, sizeof name, "%03d%0300d", i, 0);
        append(x.f, name, DT_ST_F32, 1, 1);
    }
    REFUSED(&x, ": 100 that", "  unknown  019000", "... [1]", "  and 80 more that the network");
}

static void cut_tables_show_their_first_lines_only(void **state)
{
    (void)state;
    fix x = begin("lenet5");
    for (int i = 0; i < 30; i++) {
        char name[32];
        snprintf(name, sizeof name, "x%02d", i);
        append(x.f, name, DT_ST_F32, 1, 1);
    }
    write_tensors(x.f, x.bad);
    dt_err err = {0};
    assert_fails(load(&x.t, x.bad, &err), DT_E_DATA, &err, "  unknown  x19 [1]");
    assert_null(strstr(err.text, "x20"));
    dt_stage_close(&x.t);
}

static void other_types_are_named(void **state)
{
    (void)state;
    static const dt_st_type types[] = {DT_ST_F16, DT_ST_BF16, DT_ST_F64, DT_ST_I32};
    static const char *const says[] = {
        "  type     fc3.bias: F16, must be F32", "BF16", "F64", "I32"};
    for (size_t i = 0; i < DT_COUNT(types); i++) {
        fix x = begin("lenet5");
        tensor *t = tensor_of(x.f, "fc3.bias");
        t->out.type = types[i];
        t->bytes = realloc(t->bytes, (size_t)t->out.d[0] * 8);
        assert_non_null(t->bytes);
        REFUSED(&x, says[i], "1 of another type", "v.float()");
    }
}

static void values_that_are_not_finite_are_named(void **state)
{
    (void)state;
    static const float bad[] = {NAN, INFINITY, -INFINITY};
    static const char *const says[] = {"nan; ", "is inf; ", "is -inf; "};
    for (size_t i = 0; i < DT_COUNT(bad); i++) {
        fix x = begin("lenet5");
        memcpy(tensor_of(x.f, "conv1.weight")->bytes + (1 * 25 + 3 * 5 + 2) * 4, &bad[i], 4);
        REFUSED(&x, "conv1.weight[1, 0, 3, 2] is ", says[i]);
    }
}

/* Values are looked at a piece at a time: the last of a tensor of several pieces. */
static void values_are_checked_to_the_last(void **state)
{
    (void)state;
    const dt_stage_opts o = {.batch = 2};
    dt_stage t = dt_stage_open(build("mlp", 10, 64), &o);
    dt_err err = {0};
    const char *path = dt_temp_path("wide.safetensors");
    save(&t, path);
    file *f = read_tensors(path);
    tensor *most = &f->t[0];
    const int64_t count = most->out.d[0] * most->out.d[1];
    assert_true(count > 1 << 16 && count % (1 << 16) != 0);
    memset(most->bytes + (count - 1) * 4, 0xFF, 4);
    char says[128];
    snprintf(says, sizeof says, "[%lld, %lld] is ", (long long)most->out.d[0] - 1,
        (long long)most->out.d[1] - 1);
    write_tensors(f, path);
    assert_fails(load(&t, path, &err), DT_E_DATA, &err, says);
    dt_stage_close(&t);
}

static void a_file_that_is_not_there_is_bad_data(void **state)
{
    (void)state;
    dt_stage t = open_net("lenet5", 2, 1);
    dt_err err = {0};
    assert_fails(load(&t, dt_temp_path("none.safetensors"), &err), DT_E_DATA, &err, "none.safe");
    dt_stage_close(&t);
}

/* ---- gradients ---- */

static void gradients_stand_under_the_parameters_names(void **state)
{
    (void)state;
    dt_stage t = open_net("resnet20", 2, 1);
    dt_err err = {0};
    const int32_t node = dt_graph_find(t.graph, "layer1.0.conv2");
    const dt_param_info *p = &t.graph->node[node].info.param[0];
    const size_t n = (size_t)dt_param_count(p);
    float *want = calloc(n, 4);
    assert_non_null(want);
    for (size_t i = 0; i < n; i++)
        want[i] = (float)i - 0.5f;
    assert_ok(dt_values_put(t.runner, dti_map_find(t.map, node, 0, DT_DP), want, &err), &err);
    const char *path = dt_temp_path("gradients.safetensors");
    assert_ok(dt_gradients_save(t.runner, t.graph, t.map, path, &err), &err);
    file *f = read_tensors(path);
    assert_memory_equal(tensor_of(f, "layer1.0.conv2.weight")->bytes, want, n * 4);
    int64_t values = 0;
    for (size_t i = 0; i < f->n; i++) {
        int64_t count = 1;
        for (int k = 0; k < f->t[i].out.rank; k++)
            count *= f->t[i].out.d[k];
        values += count;
        assert_null(strstr(f->t[i].name, "running"));
    }
    assert_int_equal(values, dt_graph_parameters(t.graph));
    write_tensors(f, path);
    free(want);
    dt_stage_close(&t);
}

/* ---- faults ---- */

static void every_allocation_may_fail(void **state)
{
    (void)state;
    dt_stage t = open_net("lenet5", 2, 1);
    const char *path = dt_temp_path("alloc.safetensors"), *other = dt_temp_path("other.st");
    save(&t, path);
    save(&t, other);
    const long live = dti_alloc_live();
    for (long k = 1;; k++) {
        dt_err err = {0};
        dti_alloc_fail_at(k);
        dt_status st = load(&t, path, &err);
        if (st == DT_OK)
            st = dt_weights_save(t.runner, t.graph, t.map, other, &err);
        dti_alloc_fail_at(0);
        assert_int_equal(dti_alloc_live(), live);
        assert_same_file(path, other);
        if (st == DT_OK) {
            assert_true(k > 10);
            break;
        }
        assert_int_equal(st, DT_E_NOMEM);
    }
    dt_stage_close(&t);
}

static ssize_t full_disk(int fd, const void *from, size_t n, off_t at)
{
    (void)fd, (void)from, (void)n, (void)at;
    errno = ENOSPC;
    return -1;
}

static void a_full_disk_keeps_the_old_file(void **state)
{
    (void)state;
    dt_stage a = open_net("lenet5", 2, 1), b = open_net("lenet5", 2, 2);
    const char *path = dt_temp_path("full.safetensors"), *copy = dt_temp_path("copy.safetensors");
    save(&a, path);
    save(&a, copy);
    dt_io_ops ops = dt_io_system;
    ops.pwrite = full_disk;
    dt_io = &ops;
    dt_err err = {0};
    const dt_status st = dt_weights_save(b.runner, b.graph, b.map, path, &err);
    dt_io = &dt_io_system;
    assert_fails(st, DT_E_IO, &err, "No space left");
    assert_same_file(path, copy);
    dt_stage_close(&a);
    dt_stage_close(&b);
}

/* A wrong count is refused before the runner is asked. */
static void refused_by_name(const dt_graph *g, const char *name, const char *says)
{
    dt_err err = {0};
    assert_fails(dt_weight_read(NULL, g, NULL, name, NULL, 3, &err), DT_E_CONFIG, &err, says);
}

/* Thousands of layers: who looks at all before each one takes a minute. */
static void weights_of_deep_networks_are_found_by_name(void **state)
{
    enum { LAYERS = 4096 };
    const dt_fc fc = {2, true};
    dt_graph *g;
    dt_err err = {0};
    char name[DT_NAME_BYTES];
    (void)state;
    assert_ok(dt_graph_create(&g, "deep", (dt_shape){1, 1, 1, 2}, 2, &err), &err);
    for (int32_t i = 0, in = DT_GRAPH_INPUT; i < LAYERS; i++) {
        snprintf(name, sizeof name, "a.fc%d", (int)i);
        assert_ok(dt_graph_add(g, &dt_layer_fc, name, &fc, &in, 1, &in, &err), &err);
    }
    const clock_t began = clock();
    dt_weight_place w;
    size_t n = 0;
    for (; dt_weight_at(g, n, &w); n++)
        refused_by_name(g, w.name, n % 2 == 0 ? ".weight' has 4 values" : ".bias' has 2 values");
    assert_int_equal(n, 2 * LAYERS);
    assert_true((double)(clock() - began) / CLOCKS_PER_SEC < 10);
    static const char *const none[] = {"", ".", "bias", ".bias", "a.fc0", "a.fc0.", "a.fc0.bia",
        "a.fc0.bias.", "a.bias", "fc0.bias", "a.fc4096.bias"};
    for (size_t i = 0; i < DT_COUNT(none); i++)
        refused_by_name(g, none[i], "has no weight");
    char longer[2 * DT_NAME_BYTES + 8] = {0};
    memset(longer, 'a', sizeof longer - 1);
    memcpy(longer + DT_NAME_BYTES, ".bias", 5);
    refused_by_name(g, longer, "it has 8192,");
    dt_graph_destroy(g);
}

static void classes_are_others_where_all_that_tells_them_apart_is_anew(void **state)
{
    (void)state;
    static const struct {
        const char *fresh;
        bool anew;
    } all[] = {{NULL, false}, {"fc3.bias", false}, {"fc3.weight", false}, {"fc2.*", false},
        {"fc3.bias, fc3.weight", true}, {"fc3.*", true}, {"*", true}};
    dt_graph *g = build("mlp", 10, 16);
    for (size_t i = 0; i < DT_COUNT(all); i++)
        assert_int_equal(dt_weights_name_anew(g, all[i].fresh), all[i].anew);
    dt_graph_destroy(g);
}

DT_TEST_GROUP(weights)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parameters_come_back),
        cmocka_unit_test(running_statistics_come_back),
        cmocka_unit_test(other_seeds_give_other_files),
        cmocka_unit_test(bytes_depend_on_nothing_but_the_weights),
        cmocka_unit_test(names_and_shapes_are_pytorchs),
        cmocka_unit_test(every_value_finds_its_place),
        cmocka_unit_test(counts_of_batches_are_ignored),
        cmocka_unit_test(the_order_in_the_file_does_not_matter),
        cmocka_unit_test(a_missing_weight_is_named),
        cmocka_unit_test(a_weight_nobody_knows_is_named),
        cmocka_unit_test(other_shapes_are_shown_side_by_side),
        cmocka_unit_test(another_number_of_classes_is_recognised),
        cmocka_unit_test(a_prefix_of_all_names_is_recognised),
        cmocka_unit_test(another_model_is_recognised),
        cmocka_unit_test(other_layers_and_tiles_are_recognised),
        cmocka_unit_test(a_missing_weight_of_the_last_layer_is_no_other_depth),
        cmocka_unit_test(long_tables_are_cut),
        cmocka_unit_test(cut_tables_show_their_first_lines_only),
        cmocka_unit_test(other_types_are_named),
        cmocka_unit_test(values_that_are_not_finite_are_named),
        cmocka_unit_test(values_are_checked_to_the_last),
        cmocka_unit_test(a_file_that_is_not_there_is_bad_data),
        cmocka_unit_test(gradients_stand_under_the_parameters_names),
        cmocka_unit_test(weights_of_deep_networks_are_found_by_name),
        cmocka_unit_test(every_allocation_may_fail),
        cmocka_unit_test(a_full_disk_keeps_the_old_file),
        cmocka_unit_test(classes_are_others_where_all_that_tells_them_apart_is_anew),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
