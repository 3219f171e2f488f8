/* Learning rates by layer (train.rates): what they multiply, under every optimizer and wherever the
 * update is made, and what is refused. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/alloc.h"
#include "engine/base/io.h"
#include "engine/checkpoint/safetensors.h"
#include "tests/fixture/run_cli.h"
#include "tests/fixture/workspace.h"

/* The weight of head.f is large enough for moments in 8 bits. */
#define NETWORK                                                                                    \
    "[model]\nimage = 8\nclasses = 3\n[conv base.c]\nout = 8\nkernel = 3\npad = 1\n"               \
    "[batchnorm base.n]\n[relu base.r]\n[fc head.f]\nout = 12\n[relu head.r]\n[fc head.g]\n"       \
    "out = 3\n"
#define TRAIN                                                                                      \
    "[data]\nsamples = 32\n[device]\nthreads = 1\n[run]\noverwrite = on\n[train]\nbatch = 8\n"     \
    "lr = 0.01\nmomentum = 0\nweight_decay = 0.01\nseed = 3\n"
#define MODEL "model.safetensors"

static void run_well(const char *dir, const char *sets)
{
    char words[1024];
    put_text("c.ini", NETWORK TRAIN);
    snprintf(words, sizeof words, "c.ini --set run.dir=%s %s", dir, sets);
    ran r = cli_run(words, NULL);
    assert_code(&r, 0);
    cli_done(&r);
}

static char *left_by(const char *dir, size_t *n)
{
    char path[128], *text;
    dt_err err = {0};
    snprintf(path, sizeof path, "%s/checkpoints/" MODEL, dir);
    assert_ok(dt_read_file(&text, n, in_workspace(path), 1 << 24, DT_E_DATA, &err), &err);
    return text;
}

static bool same_weights(const char *a, const char *b)
{
    size_t n, m;
    char *x = left_by(a, &n), *y = left_by(b, &m);
    const bool same = n == m && memcmp(x, y, n) == 0;
    dt_free(x);
    dt_free(y);
    return same;
}

/* A tensor that a run has left. */
static float *weights(const char *dir, const char *name, size_t *n)
{
    char path[128];
    dt_st_file *f;
    dt_err err = {0};
    snprintf(path, sizeof path, "%s/checkpoints/" MODEL, dir);
    assert_ok(dt_st_open(&f, in_workspace(path), &err), &err);
    const dt_st_entry *e = dt_st_find(f, name);
    if (e == NULL)
        fail_msg("no tensor %s", name);
    float *v = malloc(e->bytes);
    assert_non_null(v);
    assert_ok(dt_st_read(f, e, 0, v, e->bytes, &err), &err);
    *n = e->bytes / sizeof(float);
    dt_st_close(f);
    return v;
}

/* How far a tensor went from the first weights: the length of the way. */
static double way(const char *dir, const char *name)
{
    size_t n, m;
    float *from = weights("start", name, &n), *to = weights(dir, name, &m);
    double sum = 0;
    assert_int_equal(n, m);
    for (size_t i = 0; i < n; i++)
        sum += ((double)to[i] - (double)from[i]) * ((double)to[i] - (double)from[i]);
    free(from);
    free(to);
    return sqrt(sum);
}

#define START "--set model.weights=start/checkpoints/" MODEL " --set train.steps=1 "

/* One step from the same weights: whose rate is multiplied goes so much further, all else as far.
 */
static void a_layer_goes_as_much_further_as_its_rate_says(void **state)
{
    NEED_BINARY();
    static const char *const ways[] = {"", "--set train.momentum=0.9 --set train.nesterov=on",
        "--set train.optimizer=adam", "--set train.optimizer=adamw", "--set train.optimizer=lion",
        "--set train.optimizer=adamw --set train.states=8bit",
        "--set train.optimizer=sgd --set train.momentum=0.9 --set train.states=8bit"};
    run_well("start", "--set train.steps=1 --set train.lr=1e-9");
    for (size_t i = 0; i < DT_COUNT(ways); i++) {
        char sets[512];
        snprintf(sets, sizeof sets, START "%s", ways[i]);
        run_well("all", sets);
        snprintf(sets, sizeof sets, START "%s --set train.rates=head.*:0.5,head.g:4", ways[i]);
        run_well("some", sets);
        static const struct {
            const char *name;
            double times;
        } want[] = {{"base.c.weight", 1}, {"base.n.bias", 1}, {"head.f.weight", 0.5},
            {"head.f.bias", 0.5}, {"head.g.weight", 4}};
        for (size_t k = 0; k < DT_COUNT(want); k++) {
            const double times = way("some", want[k].name) / way("all", want[k].name);
            if (!(fabs(times - want[k].times) < 1e-3 * want[k].times))
                fail_msg("%s: %s went %g times as far", ways[i], want[k].name, times);
        }
    }
}

static void a_rate_of_1_changes_no_bit(void **state)
{
    NEED_BINARY();
    run_well("all", "--set train.steps=3 --set train.optimizer=adamw");
    run_well("some", "--set train.steps=3 --set train.optimizer=adamw --set train.rates=*:1");
    assert_true(same_weights("all", "some"));
    run_well("some", "--set train.steps=3 --set train.optimizer=adamw --set train.rates=*:2");
    assert_false(same_weights("all", "some"));
}

static void the_bits_are_the_same_wherever_updates_are_made(void **state)
{
    NEED_BINARY();
#define RATES "--set train.steps=4 --set train.rates=base.*:0.1,head.g:3 "
    static const char *const how[] = {"--set memory.policy=zero_offload",
        "--set memory.policy=zero_infinity,chen_sqrt --set memory.disk_path=.",
        "--set train.update=early --set train.finite=off", "--set memory.policy=vdnn_all"};
    static const char *const ways[] = {"--set train.optimizer=adamw ", "--set train.momentum=0.9 ",
        "--set train.optimizer=lion --set train.states=8bit "};
    char sets[512];
    for (size_t w = 0; w < DT_COUNT(ways); w++) {
        snprintf(sets, sizeof sets, RATES "%s", ways[w]);
        run_well("kept", sets);
        for (size_t i = 0; i < DT_COUNT(how); i++) {
            snprintf(sets, sizeof sets, RATES "%s%s", ways[w], how[i]);
            run_well("away", sets);
            if (!same_weights("kept", "away"))
                fail_msg("%s: other bits", sets);
        }
    }
}

static void refused(const char *sets, const char *says)
{
    char words[512];
    put_text("c.ini", NETWORK TRAIN);
    snprintf(words, sizeof words, "c.ini --set train.steps=2 --set run.dir=out %s", sets);
    ran r = cli_run(words, NULL);
    assert_code(&r, DT_E_CONFIG);
    assert_has(r.err, says);
    cli_done(&r);
}

static void what_has_no_meaning_is_refused(void **state)
{
    NEED_BINARY();
    refused("--set train.rates=head.h:2", "'head.h' matches no layer, did you mean 'head.");
    refused(
        "--set train.rates=tail.*:2", "'tail.*' matches no layer; the 6 layers are 'base.c' to");
    refused("--set train.rates=head.r:2", "'head.r' matches no layer that has parameters");
    refused("--set train.rates=head.f", "'head.f': write a layer, a colon and what its rate is");
    refused(
        "--set train.rates=base.*:2 --set train.freeze=base.*", "layer 'base.n' stays as it is");
    refused("--set train.rates=head.f:0", "train.freeze keeps layers as they are");
    refused("--set train.rates=head.f:-1", "from 1e-6 to 1e6");
    refused("--set train.rates=head.f:nan", "from 1e-6 to 1e6");
    refused("--set train.rates=head.f:x", "--set: [train] rates");
    refused("--set train.lr_mult=head.f:2", "did you mean 'rates'?");
}

/* GPT-2's output layer has the weight of its embedding. */
static void a_weight_of_two_layers_has_one_rate(void **state)
{
    NEED_BINARY();
    put_text("g.ini", "[model]\nname = gpt2\nlayers = 1\nheads = 2\nwidth = 16\ncontext = 8\n"
                      "vocab = 32\n[train]\nbatch = 2\n");
    ran r = cli_run("plan g.ini --set train.rates=lm_head:2", NULL);
    assert_code(&r, DT_E_CONFIG);
    assert_has(r.err, "layer 'lm_head' has the weight of 'wte'; name that");
    cli_done(&r);
    r = cli_run("plan g.ini --set train.rates=wte:2", NULL);
    assert_code(&r, 0);
    cli_done(&r);
}

static void a_run_goes_on_with_its_own_rates_alone(void **state)
{
    NEED_BINARY();
    run_well("whole", "--set train.steps=4 --set train.rates=head.*:2");
    run_well("part", "--set train.steps=4 --set train.rates=head.*:2 --set checkpoint.every=2 "
                     "--set checkpoint.keep_last=0");
    run_well("part", "--set train.steps=4 --set train.rates=head.*:2 "
                     "--resume part/checkpoints/step-00000002");
    assert_true(same_weights("whole", "part"));
    ran r = cli_run("c.ini --set run.dir=part --set train.steps=4 --set train.rates=head.*:3 "
                    "--resume part/checkpoints/step-00000002",
        NULL);
    assert_code(&r, DT_E_CONFIG);
    assert_has(r.err, "train.rates");
    cli_done(&r);
}

DT_TEST_GROUP(rates)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_layer_goes_as_much_further_as_its_rate_says),
        cmocka_unit_test(a_rate_of_1_changes_no_bit),
        cmocka_unit_test(the_bits_are_the_same_wherever_updates_are_made),
        cmocka_unit_test(what_has_no_meaning_is_refused),
        cmocka_unit_test(a_weight_of_two_layers_has_one_rate),
        cmocka_unit_test(a_run_goes_on_with_its_own_rates_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
