/* The network of LSTMs and additive attention: it learns, and takes as much less as the efficient
 * attention keeps less. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <dnntrain.h>

#include "layers/sequence/attention.h"
#include "tests/fixture/check.h"
#include "tests/fixture/planned.h"
#include "tests/fixture/workspace.h"

enum { CYCLE = 34, CYCLES = 24, VOCAB = 12, STEPS = 150 };

static dt_graph *build(const dt_model_opts *o)
{
    dt_graph *g;
    dt_err err = {0};
    assert_ok(dt_model_build(dt_model_find("lstm_attention"), o, &g, &err), &err);
    return g;
}

/* A character tells what comes next together with the one before it. */
static void put_sequences(const char *file)
{
    char text[CYCLES * CYCLE + 1];
    for (int s = 0; s < CYCLES; s++) {
        int before = s % VOCAB, now = (3 * s + 1) % VOCAB;
        for (int t = 0; t < CYCLE; t++) {
            const int next = (before + now) % VOCAB;
            text[s * CYCLE + t] = (char)('a' + now);
            before = now;
            now = next;
        }
    }
    text[CYCLES * CYCLE] = '\0';
    put_text(file, text);
}

static void note_loss(void *self, const dt_step_report *r)
{
    ((double *)self)[r->step - 1] = r->loss;
}

static void it_learns_what_follows_two_characters(void **state)
{
    (void)state;
    static const char ini[] =
        "[model]\nname = lstm_attention\nlayers = 2\nwidth = 64\nvocab = 12\ncontext = 32\n"
        "dropout = 0.1\n[data]\nsource = text\n[train]\nbatch = 8\n"
        "steps = 150\noptimizer = adamw\nlr = 5e-3\nbeta2 = 0.99\nprecision = fp32\n"
        "[device]\nkind = cpu\n[run]\noverwrite = on\n";
    static const char *const kinds[] = {"model.attention=efficient", "model.attention=naive"};
    put_sequences("sequences.txt");
    for (size_t i = 0; i < DT_COUNT(kinds); i++) {
        double loss[STEPS] = {0};
        char dir[512], path[512];
        snprintf(dir, sizeof dir, "run.dir=%s", in_workspace("lstm"));
        snprintf(path, sizeof path, "data.path=%s", in_workspace("sequences.txt"));
        const char *const set[] = {kinds[i], dir, path};
        const dt_run_observer o = {.self = loss, .step = note_loss};
        dt_run *run = NULL;
        dt_err err = {0};
        assert_ok(dt_run_open_text(&run, "lstm", ini, strlen(ini), set, DT_COUNT(set), &err), &err);
        assert_ok(dt_run_begin(run, &o, &err), &err);
        assert_ok(dt_run_train(run, 0, &err), &err);
        dt_run_close(run);
        assert_true(fabs(loss[0] - log(VOCAB)) < 0.5);
        assert_true(loss[STEPS - 1] < loss[0] / 3);
    }
}

/* The scores of a large vocabulary are the peak; what attention keeps for backward lies beside
 * them: a tanh for each query, key and hidden value. */
static void efficient_attention_takes_as_much_less_as_it_keeps(void **state)
{
    (void)state;
    enum { LONG = 48, WIDE = 40, MANY = 3 };
    uint64_t peak[2];
    for (int kind = 0; kind < 2; kind++) {
        const dt_model_opts o = {
            .width = WIDE, .layers = 1, .vocab = 20000, .context = LONG, .attention = kind};
        dt_lowered m = dt_program_of(build(&o), DT_PROGRAM_FIRST, MANY);
        m.plan = dt_planned_by(m.program, "keep_all", "greedy");
        assert_int_equal(m.plan->peak, m.plan->bound);
        peak[kind] = m.plan->peak;
        dt_lowered_close(&m);
    }
    assert_int_equal(peak[DTI_ATTENTION_NAIVE] - peak[DTI_ATTENTION_EFFICIENT],
        MANY * LONG * LONG * WIDE * sizeof(float));
}

static void it_has_no_heads(void **state)
{
    (void)state;
    const dt_model_opts o = {.heads = 2};
    dt_graph *g;
    dt_err err = {0};
    assert_fails(dt_model_build(dt_model_find("lstm_attention"), &o, &g, &err), DT_E_CONFIG, &err,
        "lstm_attention has no heads");
}

DT_TEST_GROUP(lstm_attention)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_learns_what_follows_two_characters),
        cmocka_unit_test(efficient_attention_takes_as_much_less_as_it_keeps),
        cmocka_unit_test(it_has_no_heads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
