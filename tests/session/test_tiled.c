/* Networks in tiles: they begin as the whole does, and train as it does but for the order of sums;
 * what that saves in plans; and what cannot be cut. */
#include "tests/fixture/run_cli.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/alloc.h"
#include "engine/checkpoint/safetensors.h"
#include "session/open.h"
#include "session/run_plans.h"
#include "session/session.h"
#include "tests/fixture/json_read.h"
#include "tests/fixture/workspace.h"

static void run_quietly(const char *words)
{
    ran r = cli_run(words, NULL);
    assert_code(&r, 0);
    cli_done(&r);
}

/* Of few different characters, as vocabularies are small here. */
static void put_corpus(void)
{
    char text[2001];
    for (int i = 0; i < 2000; i++)
        text[i] = (char)('a' + (i * i / 3 + i / 7) % 18);
    text[2000] = '\0';
    put_text("corpus.txt", text);
}

#define TEXT "[data]\nsource = text\npath = corpus.txt\n"

/* ---- the same network ---- */

static dt_st_file *weights_of(const char *run)
{
    char below[128];
    dt_st_file *f = NULL;
    dt_err err = {0};
    snprintf(below, sizeof below, "%s/checkpoints/model.safetensors", run);
    assert_ok(dt_st_open(&f, in_workspace(below), &err), &err);
    return f;
}

static float *read_all(const dt_st_file *f, const dt_st_entry *e)
{
    dt_err err = {0};
    float *v = malloc(e->bytes);
    assert_non_null(v);
    assert_ok(dt_st_read(f, e, 0, v, e->bytes, &err), &err);
    return v;
}

/* "wte.weight" of tile 3 is "wte.3.weight"; NULL: there are no more. */
static const dt_st_entry *tile_of(const dt_st_file *f, const char *name, int tile)
{
    char to[256];
    const char *dot = strrchr(name, '.');
    snprintf(to, sizeof to, "%.*s.%d%s", (int)(dot - name), name, tile, dot);
    return dt_st_find(f, to);
}

/* Tiles side by side, along the dimension in which they are smaller. */
static float *joined(const dt_st_file *f, const dt_st_entry *whole)
{
    float *all = malloc(whole->bytes);
    const size_t rows = (size_t)whole->d[0], columns = whole->bytes / sizeof *all / rows;
    size_t at = 0;
    const dt_st_entry *e;
    assert_non_null(all);
    for (int t = 0; (e = tile_of(f, whole->name, t)) != NULL; t++) {
        float *v = read_all(f, e);
        const size_t n = e->bytes / sizeof *v, high = (size_t)e->d[0], wide = n / high;
        assert_int_equal(e->rank, whole->rank);
        for (size_t i = 0; i < n; i++)
            all[high < rows ? at * columns + i : i / wide * columns + at + i % wide] = v[i];
        at += high < rows ? high : wide;
        free(v);
    }
    const dt_st_entry *first = tile_of(f, whole->name, 0);
    assert_true(first != NULL && at == ((size_t)first->d[0] < rows ? rows : columns));
    return all;
}

/* Of the error of n values beside their size; values that are 0 but for rounding count as less. */
static double error_of(const float *got, const float *want, size_t n)
{
    double off = 0, size = 1e-6;
    for (size_t i = 0; i < n; i++) {
        off += ((double)got[i] - (double)want[i]) * ((double)got[i] - (double)want[i]);
        size += (double)want[i] * (double)want[i];
    }
    return sqrt(off / size);
}

/* The largest error of a tensor. *cut: how many are in tiles. */
static double apart(const char *whole, const char *tiled, int *cut)
{
    dt_st_file *a = weights_of(whole), *b = weights_of(tiled);
    double worst = 0;
    *cut = 0;
    for (size_t i = 0; i < dti_st_count(a); i++) {
        const dt_st_entry *e = dti_st_at(a, i), *same = dt_st_find(b, e->name);
        float *want = read_all(a, e), *got = same != NULL ? read_all(b, same) : joined(b, e);
        const double off = error_of(got, want, e->bytes / sizeof *want);
        *cut += same == NULL;
        assert_true(isfinite(off));
        worst = off > worst ? off : worst;
        free(want);
        free(got);
    }
    dt_st_close(a);
    dt_st_close(b);
    return worst;
}

/* @cut: tensors that are in tiles. @most: that four steps are apart; 0: 1e-4. A value near zero
 * that goes through a ReLU in one and not in the other makes some 5e-3, the more seldom the less is
 * rounded. */
static const struct network {
    const char *name, *ini, *data, *tiles;
    int cut;
    double most;
} networks[] = {
    {"gpt2", "layers = 2\nwidth = 32\nheads = 4\nvocab = 60\ncontext = 24\ndropout = 0.1\n", TEXT,
        "--set model.tiles=4 --set model.head_tiles=5", 1 + 2 * 8, 0},
    {"bert_base", "layers = 1\nwidth = 24\nheads = 2\nvocab = 30\ncontext = 16\n", TEXT,
        "--set model.tiles=3 --set model.head_tiles=6", 1 + 2 * 7, 0},
    {"lstm_attention", "layers = 1\nwidth = 12\nvocab = 22\ncontext = 9\n", TEXT,
        "--set model.tiles=2 --set model.head_tiles=11", 1 + 2, 0},
    {"vgg11", "width = 4\nclasses = 10\nimage = 224\n",
        "[data]\nsamples = 64\n[memory]\nalgorithms = small\n", "--set model.tiles=2", 6, 1e-2},
    {"mlp", "classes = 10\nimage = 8\n", "[data]\nsamples = 64\n", "--set model.tiles=2", 6, 0},
};

/* A step so small that it is none, and some that are. Dropout drops the same values. */
static void tiles_train_as_the_whole_does(void **state)
{
    (void)state;
    NEED_BINARY();
    static const char *const steps[] = {
        "--set train.lr=1e-12 --set train.steps=1", "--set train.lr=0.02 --set train.steps=4"};
    for (size_t i = 0; i < DT_COUNT(networks); i++)
        for (size_t k = 0; k < DT_COUNT(steps); k++) {
            if (!dt_picked(i + k, 4, 4, 1))
                continue;
            char ini[1024], words[512];
            int cut;
            snprintf(ini, sizeof ini,
                "[model]\nname = %s\n%s%s[train]\nbatch = 4\nseed = 5\n"
                "precision = fp32\neval_every = 0\n[run]\noverwrite = on\n",
                networks[i].name, networks[i].ini, networks[i].data);
            put_corpus();
            put_text("tiled.ini", ini);
            snprintf(words, sizeof words, "tiled.ini --set run.dir=whole %s", steps[k]);
            run_quietly(words);
            snprintf(words, sizeof words, "tiled.ini --set run.dir=tiles %s %s", steps[k],
                networks[i].tiles);
            run_quietly(words);
            const double off = apart("whole", "tiles", &cut);
            const double most = k == 0 ? 1e-6 : networks[i].most > 0 ? networks[i].most : 1e-4;
            if (!(off <= most) || cut != networks[i].cut)
                fail_msg("%s, %s: %g apart, %d tensors cut", networks[i].name, steps[k], off, cut);
        }
}

/* The tiles of a file that has the whole, and a file that has the tiles. */
static void tiles_begin_with_the_weights_of_a_whole(void **state)
{
    (void)state;
    NEED_BINARY();
    int cut;
    put_corpus();
    put_text("tiled.ini",
        "[model]\nname = gpt2\nlayers = 1\nwidth = 16\nheads = 2\nvocab = 20\ncontext = 8\n" TEXT
        "[train]\nbatch = 2\nsteps = 1\nlr = 1e-12\nseed = 5\n"
        "precision = fp32\neval_every = 0\n[run]\noverwrite = on\n");
    run_quietly("tiled.ini --set run.dir=whole --set train.seed=77");
    run_quietly("tiled.ini --set run.dir=tiles --set model.tiles=4 --set model.head_tiles=5 "
                "--set model.weights=whole/checkpoints/model.safetensors");
    assert_true(apart("whole", "tiles", &cut) <= 1e-6);
    run_quietly("tiled.ini --set run.dir=again --set model.tiles=4 --set model.head_tiles=5 "
                "--set model.weights=tiles/checkpoints/model.safetensors");
    assert_true(apart("whole", "again", &cut) <= 1e-6);
    ran r = cli_run("tiled.ini --set run.dir=no --set model.head_tiles=4 "
                    "--set model.weights=tiles/checkpoints/model.safetensors",
        NULL);
    assert_code(&r, 3);
    assert_non_null(strstr(r.err, "wte.0.weight: file [4, 16], network [5, 16]"));
    cli_done(&r);
}

static void text_is_written_from_tiles(void **state)
{
    (void)state;
    NEED_BINARY();
    put_corpus();
    put_text("tiled.ini",
        "[model]\nname = gpt2\nlayers = 1\nwidth = 16\nheads = 2\nvocab = 32\ncontext = 8\n" TEXT
        "[train]\nbatch = 2\nsteps = 2\nlr = 1e-3\n"
        "precision = fp32\neval_every = 0\n[run]\noverwrite = on\n");
    run_quietly("tiled.ini --set run.dir=whole");
    ran a = cli_run("eval tiled.ini --set model.weights=whole/checkpoints/model.safetensors "
                    "--generate 40 --temperature 0",
        NULL);
    ran b = cli_run("eval tiled.ini --set model.weights=whole/checkpoints/model.safetensors "
                    "--generate 40 --temperature 0 --set model.head_tiles=8 --set model.tiles=2",
        NULL);
    assert_code(&a, 0);
    assert_code(&b, 0);
    assert_string_equal(a.out, b.out);
    cli_done(&a);
    cli_done(&b);
}

/* ---- what is planned ---- */

static uint64_t peak_of(const char *ini)
{
    dt_session *s = NULL;
    dt_err err = {0};
    const dt_planned *p = NULL;
    uint64_t most = 0;
    assert_ok(dt_session_open(&s, cli_file("tiled.ini", ini), NULL, 0, &err), &err);
    for (int k = DT_PROGRAM_FIRST; k <= DT_PROGRAM_UPDATE;
         k += DT_PROGRAM_UPDATE - DT_PROGRAM_FIRST) {
        assert_ok(dti_session_plan(s, (dt_program_kind)k, 1, &p, &err), &err);
        most = p->plan->peak > most ? p->plan->peak : most;
    }
    dt_session_close(s);
    return most;
}

#define XL                                                                                         \
    "[model]\nname = gpt2\nlayers = 48\nheads = 25\nwidth = 1600\ncontext = 1024\nvocab = 50257\n" \
    "%s[train]\nbatch = 1\noptimizer = adamw\n"                                                    \
    "lr = 1e-5\nprecision = fp32\n[memory]\npolicy = zero_infinity,chen_budget\n"                  \
    "tier = disk\n"

/* Every part of a head comes and goes by itself: neither embedding, nor its gradient, nor the
 * scores of a sequence stand whole on the device. */
static void gpt2_xl_takes_half_a_gibibyte_in_tiles(void **state)
{
    (void)state;
    enum { EMBEDDING = 50257 * 1600 * 4, SCORES = 1024 * 50257 * 4 };
    char ini[1024];
    snprintf(ini, sizeof ini, XL, "");
    const uint64_t whole = peak_of(ini);
    snprintf(ini, sizeof ini, XL, "head_tiles = 29\n");
    const uint64_t tiles = peak_of(ini);
    print_message(
        "%.1f MiB, in tiles %.1f MiB\n", (double)whole / (1 << 20), (double)tiles / (1 << 20));
    assert_true(whole >= (uint64_t)EMBEDDING + SCORES);
    assert_true(tiles <= (uint64_t)512 << 20);
}

/* ---- what cannot be ---- */

static void tiles_that_do_not_divide_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *ini, *says;
    } bad[] = {
        {"name = gpt2\nhead_tiles = 7\n",
            "head_tiles = 7 does not divide the 50257 outputs of 'wte'; 1 or 29 would"},
        {"name = gpt2\ntiles = 5\n",
            "tiles = 5 does not divide the 2304 outputs of 'h.0.attn.c_attn'; 4 or 6 would"},
        {"name = vgg16\ntiles = 3\nclasses = 10\n", "does not divide the 4096 outputs"},
        {"name = resnet50\nhead_tiles = 2\n", "has no vocabulary to cut"},
        {"name = squeezenet1_0\ntiles = 2\n", "has no linear layers to cut"},
        {"name = gpt2\ntiles = 17\n", "must be 0..16"},
        {"name = gpt2\nhead_tiles = 1025\n", "must be 0..1024"},
        {"image = 8\nclasses = 4\ntiles = 2\n[fc f]\nout = 4\n", "is for models with a name"},
        {"image = 8\nclasses = 4\n[fc f]\nout = 4\ntiles = 3\n",
            "does not divide the 4 outputs of 'f'; 2 or 4 would"},
        {"image = 8\nclasses = 4\n[conv c]\nout = 4\nkernel = 1\ntiles = 2\n[fc f]\nout = 4\n",
            "tiles are of linear layers"},
        {"context = 8\n[embedding e]\nvocab = 4\nout = 6\n[linear h]\nout = 4\nbias = off\nshares "
         "= e\ntiles = 2\n",
            "not cut"},
        {"image = 8\nclasses = 4\n[fc f]\nout = 4\n[softmax_tile s]\n[relu r]\n",
            "softmax_tile goes to"},
        {"image = 8\nclasses = 4\n[fc f]\nout = 4\n[softmax_tile s]\nfirst = 1\n", "set first = 0"},
    };
    for (size_t i = 0; i < DT_COUNT(bad); i++) {
        char ini[1024];
        dt_session *s = NULL;
        dt_err err = {0};
        snprintf(ini, sizeof ini, "[model]\n%s", bad[i].ini);
        assert_fails(dt_session_open(&s, cli_file("tiled.ini", ini), NULL, 0, &err), DT_E_CONFIG,
            &err, bad[i].says);
        dt_session_close(s);
    }
}

/* In a file: a layer in tiles, and by hand a head that shares a vocabulary in two. */
static void a_file_may_write_tiles(void **state)
{
    (void)state;
    NEED_BINARY();
    put_corpus();
    put_text("tiled.ini",
        "[model]\ncontext = 8\n" TEXT "[train]\nbatch = 4\nsteps = 2\nlr = 0.01\n"
        "eval_every = 0\n[embedding e0]\ninput = image\nvocab = 20\nout = 8\nrows = 7\n"
        "[embedding e1]\ninput = image\nvocab = 20\nout = 8\nfirst = 7\n[add e]\ninput = e0, e1\n"
        "[linear l]\nout = 8\ntiles = 2\n[linear h0]\nout = 7\nbias = off\nshares = e0\n"
        "[softmax_tile s0]\n[linear h1]\ninput = l\nout = 13\nbias = off\nshares = e1\n"
        "[softmax_tile s1]\ninput = h1, s0\nfirst = 7\n");
    run_quietly("tiled.ini --set run.dir=file");
    dt_st_file *f = weights_of("file");
    assert_int_equal(dti_st_count(f), 2 + 2 * 2);
    assert_non_null(dt_st_find(f, "l.1.bias"));
    dt_st_close(f);
}

/* More layers than a byte counts, each of which adds to the one gradient that there is. */
static void three_hundred_layers_share_a_parameter(void **state)
{
    (void)state;
    enum { LAYERS = 300, LINE = 96 };
    NEED_BINARY();
    put_corpus();
    static char text[512 + LAYERS * LINE];
    size_t n = (size_t)snprintf(text, sizeof text,
        "[model]\ncontext = 4\nclasses = 20\n" TEXT "[train]\nbatch = 2\nsteps = 2\nlr = 0.01\n"
        "eval_every = 0\nfinite = off\n[embedding e]\nvocab = 20\nout = 20\n");
    for (int i = 0; i < LAYERS; i++)
        n += (size_t)snprintf(text + n, sizeof text - n,
            "[linear l%d]\nout = 20\nbias = off\nshares = e\n[layernorm n%d]\n", i, i);
    put_text("shared.ini", text);
    run_quietly("shared.ini --set run.dir=step");
    run_quietly("shared.ini --set train.update=early --set run.dir=early");
    dt_st_file *a = weights_of("step"), *b = weights_of("early");
    const dt_st_entry *x = dt_st_find(a, "e.weight"), *y = dt_st_find(b, "e.weight");
    assert_true(x != NULL && y != NULL && x->bytes == y->bytes);
    float *one = read_all(a, x), *other = read_all(b, y);
    assert_memory_equal(one, other, x->bytes);
    free(one);
    free(other);
    dt_st_close(a);
    dt_st_close(b);
}

#define T(f) cmocka_unit_test(f)

DT_TEST_GROUP(tiled)
{
    const struct CMUnitTest tests[] = {
        T(tiles_train_as_the_whole_does),
        T(tiles_begin_with_the_weights_of_a_whole),
        T(text_is_written_from_tiles),
        T(gpt2_xl_takes_half_a_gibibyte_in_tiles),
        T(tiles_that_do_not_divide_are_refused),
        T(a_file_may_write_tiles),
        T(three_hundred_layers_share_a_parameter),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
