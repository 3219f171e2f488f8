/* Training in bf16: values and their gradients are bf16, all else fp32, and the network learns as
 * it does in fp32. And how train.precision is resolved on a processor. */
#include <dnntrain.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/alloc.h"
#include "engine/base/cpu.h"
#include "engine/checkpoint/safetensors.h"
#include "engine/graph_fuse.h"
#include "layers/sequence/embedding.h"
#include "layers/weighted/fc.h"
#include "layers/onednn/onednn.h"
#include "layers/plain.h"
#include "memory/codec.h"
#include "tests/fixture/planned.h"
#include "tests/fixture/run_cli.h"
#include "tests/fixture/trainee.h"
#include "tests/fixture/workspace.h"

#define WEIGHTS "weights.safetensors"
#define GRADIENTS "gradients.safetensors"

enum { STEPS = 8 };

static void note_loss(void *self, const dt_step_report *r)
{
    ((double *)self)[r->step - 1] = r->loss;
}

/* All steps see the same samples. Leaves the first step's gradients and the last one's weights. */
static void train(const char *precision, int steps, double *loss)
{
    char ini[2048];
    dt_run *run = NULL;
    dt_err err = {0};
    const dt_run_observer o = {.self = loss, .step = note_loss};
    snprintf(ini, sizeof ini,
        "[model]\nname = resnet18\nwidth = 8\nclasses = 10\nimage = 32\n"
        "[data]\nsource = synthetic\nsamples = 8\n[train]\nbatch = 8\nmicro_batch = 4\n"
        "steps = %d\nlr = 0.005\nprecision = %s\ndump_gradients = %s\n"
        "[device]\nkind = cpu\nthreads = 1\n[run]\ndir = %s\noverwrite = on\n",
        steps, precision, in_workspace(GRADIENTS), in_workspace("precision"));
    assert_ok(dt_run_open_text(&run, "precision", ini, strlen(ini), NULL, 0, &err), &err);
    assert_ok(dt_run_begin(run, &o, &err), &err);
    assert_ok(dt_run_train(run, 0, &err), &err);
    assert_ok(dt_run_save_weights(run, in_workspace(WEIGHTS), &err), &err);
    dt_run_close(run);
}

static void a_network_learns_as_in_fp32(void **state)
{
    (void)state;
    double fp32[STEPS], bf16[STEPS];
    bool equal = true;
    train("fp32", STEPS, fp32);
    train("bf16", STEPS, bf16);
    assert_true(fp32[STEPS - 1] < 0.9 * fp32[0]);
    for (int i = 0; i < STEPS; i++) {
        if (!(fabs(bf16[i] - fp32[i]) <= 0.05 * fp32[i]))
            fail_msg("step %d: loss %g in bf16, %g in fp32", i, bf16[i], fp32[i]);
        equal = equal && fp32[i] == bf16[i];
    }
    assert_false(equal); /* it was another type indeed */
}

static void have_the_digits_of_fp32(const char *file)
{
    dt_st_file *f;
    dt_err err = {0};
    size_t all = 0, finer = 0;
    assert_ok(dt_st_open(&f, file, &err), &err);
    for (size_t i = 0; i < dti_st_count(f); i++) {
        const dt_st_entry *e = dti_st_at(f, i);
        if (e->type != DT_ST_F32)
            continue;
        float *v = dt_alloc(e->bytes, 1);
        assert_non_null(v);
        assert_ok(dt_st_read(f, e, 0, v, e->bytes, &err), &err);
        for (size_t k = 0; k < e->bytes / sizeof *v; k++) {
            finer += v[k] != dt_bf16_to_float(dt_bf16_from_float(v[k]));
            all += v[k] != 0; /* kernels on a picture of one pixel have idle taps */
        }
        dt_free(v);
    }
    dt_st_close(f);
    assert_true(all > 1000 && finer > all * 9 / 10);
}

/* Updates are far smaller than what bf16 tells apart from a weight. */
static void weights_keep_the_digits_of_fp32(void **state)
{
    (void)state;
    double loss;
    train("bf16", 1, &loss);
    have_the_digits_of_fp32(in_workspace(WEIGHTS));
    have_the_digits_of_fp32(in_workspace(GRADIENTS));
}

static dt_graph *resnet(dt_dtype t)
{
    dt_graph *g = dt_trainee_resnet(), *f;
    dt_err err = {0};
    g->dtype = t;
    assert_ok(dt_graph_fuse(&f, g, &err), &err);
    dt_graph_destroy(g);
    return f;
}

static const dt_tensor *tensor(const dt_program *p, const char *name)
{
    for (size_t i = 0; i < p->n_tensor; i++)
        if (strcmp(p->tensor[i].name, name) == 0)
            return &p->tensor[i];
    fail_msg("no tensor '%s'", name);
    return NULL;
}

static void only_values_and_their_gradients_are_narrower(void **state)
{
    (void)state;
    dt_lowered wide = dt_program_of(resnet(DT_F32), DT_PROGRAM_FIRST, 4),
               narrow = dt_program_of(resnet(DT_BF16), DT_PROGRAM_FIRST, 4);
    size_t halved = 0, derived = 0;
    for (size_t i = 0; i < narrow.program->n_tensor; i++) {
        const dt_tensor *b = &narrow.program->tensor[i];
        const bool value = b->role == DT_ROLE_INPUT || b->role == DT_ROLE_ACTIVATIONS ||
                           b->role == DT_ROLE_ACTIVATION_GRADIENTS;
        derived += b->role == DT_ROLE_DERIVED;
        if (b->role == DT_ROLE_DERIVED || b->role == DT_ROLE_WORKSPACE || b->home != DT_NONE)
            continue;
        const dt_tensor *f = tensor(wide.program, b->name);
        const bool half = value && strcmp(b->name, "labels") != 0;
        assert_int_equal(b->bytes, half ? f->bytes / 2 : f->bytes);
        halved += half;
    }
    assert_true(halved > 50 && derived > 0);
    assert_true(tensor(narrow.program, "x")->bytes == 4 * 32 * 32 * 3 * sizeof(dt_bf16));
    dt_lowered_close(&wide);
    dt_lowered_close(&narrow);
}

static dt_graph *tokens(bool as_values_too)
{
    const dt_embedding e = {.vocab = 1000, .out = 8, .sigma = 1};
    const dt_fc fc = {.out = 8};
    const int32_t in = DT_GRAPH_INPUT;
    dt_graph *g;
    dt_err err = {0};
    int32_t a, b, id;
    assert_ok(dt_graph_create(&g, "tokens", (dt_shape){1, 1, 1, 1}, 8, &err), &err);
    assert_ok(dt_graph_add(g, &dt_layer_embedding, "e", &e, &in, 1, &a, &err), &err);
    if (as_values_too) {
        assert_ok(dt_graph_add(g, &dt_layer_fc, "fc", &fc, &in, 1, &b, &err), &err);
        const int32_t both[] = {a, b};
        assert_ok(dt_graph_add(g, &dt_layer_add, "sum", NULL, both, 2, &a, &err), &err);
    }
    assert_ok(dt_graph_add(g, &dt_layer_cross_entropy, "loss", NULL, &a, 1, &id, &err), &err);
    return g;
}

static void tokens_stay_whole_numbers(void **state)
{
    (void)state;
    dt_graph *g = tokens(false);
    dt_err err = {0};
    g->dtype = DT_BF16;
    assert_ok(dt_graph_check(g, &err), &err);
    assert_int_equal(dti_graph_input_dtype(g), DT_F32);
    dt_lowered m = dt_program_of(g, DT_PROGRAM_FIRST, 4);
    assert_int_equal(tensor(m.program, "x")->bytes, 4 * sizeof(float));
    assert_int_equal(tensor(m.program, "e.y")->bytes, 4 * 8 * sizeof(dt_bf16));
    dt_lowered_close(&m);
}

static void an_input_of_tokens_and_of_values_is_refused_in_bf16(void **state)
{
    (void)state;
    dt_graph *g = tokens(true);
    dt_err err = {0};
    assert_ok(dt_graph_check(g, &err), &err);
    g->dtype = DT_BF16;
    assert_fails(dt_graph_check(g, &err), DT_E_CONFIG, &err,
        "'e' (embedding) reads the input as tokens, which do not fit into bf16, but 'fc' (fc) as "
        "values; set train.precision = fp32");
    dt_graph_destroy(g);
}

static dti_gap first_gap(const dt_program *p, const char *name)
{
    dti_gap g;
    const int32_t t = (int32_t)(tensor(p, name) - p->tensor);
    for (int32_t i = 0; dti_gap_next(p, t, &i, &g);)
        if (g.crosses_loss)
            return g;
    fail_msg("'%s' has no gap", name);
    return g;
}

/* Exact codecs look at words; lossy ones at fp32 values, and leave others as they are. */
static void codecs_pack_pairs_of_values_or_nothing(void **state)
{
    (void)state;
    dt_lowered m = dt_program_of(resnet(DT_BF16), DT_PROGRAM_FIRST, 4);
    dt_program *p = m.program;
    const dti_offload_opt o = {.release_after = DT_NONE,
        .fetch_before = DT_NONE,
        .codec = dti_codec_find("fp16"),
        .density = 1};
    dt_err err = {0};
    int32_t packed;
    dti_gap g = first_gap(p, "bn1.y");
    assert_ok(dti_encode(p, &g, dti_codec_find("fp16"), 1, &packed, &err), &err);
    assert_int_equal(packed, DT_NONE);
    assert_ok(dti_encode(p, &g, dti_codec_find("zvc"), 0.5, &packed, &err), &err);
    assert_int_not_equal(packed, DT_NONE);
    const size_t words = tensor(p, "bn1.y")->bytes / sizeof(uint32_t);
    assert_int_equal(p->tensor[packed].bytes, dt_packed_bytes(dti_codec_find("zvc"), words, 0.5));
    g = first_gap(p, "layer1.0.bn1.y");
    assert_ok(dti_offload(p, &g, &o, &err), &err);
    for (size_t i = 0; i < p->n_order; i++)
        if (p->op[p->order[i]].kind == DT_OP_OUT)
            assert_null(p->op[p->order[i]].codec);
    dt_lowered_close(&m);
}

/* ---- from outside ---- */

static void no_avx512(void)
{
    setenv("ONEDNN_MAX_CPU_ISA", "AVX2", 1);
}

static void no_bf16(void)
{
    setenv("ONEDNN_MAX_CPU_ISA", "AVX512_CORE", 1);
}

static void prints(const char *words, const char *want)
{
    ran r = cli_run(words, cli_file("p.ini", "[model]\nname = lenet5\n[train]\nbatch = 8\n"));
    assert_code(&r, 0);
    assert_has(r.out, want);
    cli_done(&r);
}

static void auto_is_bf16_where_the_processor_multiplies_it(void **state)
{
    NEED_BINARY();
    prints("plan FILE --json --set train.precision=auto",
        dt_onednn_bf16() ? "\"precision\":\t\"bf16\"" : "\"precision\":\t\"fp32\"");
    cli.child = no_bf16;
    prints("plan FILE --json --set train.precision=auto", "\"precision\":\t\"fp32\"");
    cli.child = no_avx512;
    prints("plan FILE --json --set train.precision=auto", "\"precision\":\t\"fp32\"");
    cli.child = NULL;
}

/* A run in bf16. */
static void says_its_precision(void)
{
    char words[512];
    snprintf(words, sizeof words,
        "FILE --set train.precision=bf16 --set train.steps=2 --set data.samples=32 --set "
        "run.overwrite=on --set run.dir=%s",
        dt_temp_path("bf16"));
    ran r = cli_run(words, cli_file("p.ini", "[model]\nname = lenet5\n[train]\nbatch = 8\n"));
    assert_code(&r, 0);
    assert_has(r.err, ", bf16\n");
    cli_done(&r);
    char *summary = cli_text(dt_temp_path("bf16/summary.json"));
    assert_has(summary, "\"bf16\"");
    dt_free(summary);
}

/* Below AVX-512 the library has no bf16. */
static void bf16_is_taken_as_asked_everywhere(void **state)
{
    NEED_BINARY();
    static void (*const lesser[])(void) = {NULL, no_bf16, no_avx512};
    for (size_t i = 0; i < DT_COUNT(lesser); i++) {
        cli.child = lesser[i];
        prints("plan FILE --json --set train.precision=bf16", "\"precision\":\t\"bf16\"");
        says_its_precision();
    }
    cli.child = NULL;
    prints("plan FILE --json", "\"precision\":\t\"fp32\"");
}

DT_TEST_GROUP(precision)
{
    dt_cpu_setup(1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_network_learns_as_in_fp32),
        cmocka_unit_test(weights_keep_the_digits_of_fp32),
        cmocka_unit_test(only_values_and_their_gradients_are_narrower),
        cmocka_unit_test(tokens_stay_whole_numbers),
        cmocka_unit_test(an_input_of_tokens_and_of_values_is_refused_in_bf16),
        cmocka_unit_test(codecs_pack_pairs_of_values_or_nothing),
        cmocka_unit_test(auto_is_bf16_where_the_processor_multiplies_it),
        cmocka_unit_test(bf16_is_taken_as_asked_everywhere),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
