/* include/dnntrain.h within a process: runs one after the other, in steps, resumed, with layers and
 * policies from outside, and what they leave behind. */
#include <dnntrain.h>
#include <dnntrain/layer.h>
#include <dnntrain/policy.h>
#include <dnntrain/source.h>

#include <errno.h>
#include <math.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "data/source.h"
#include "engine/base/alloc.h"
#include "engine/base/io.h"
#include "engine/checkpoint/safetensors.h"
#include "session/run/run_internal.h" /* to write what no run writes */
#include "tests/fixture/bad_disk.h"
#include "tests/fixture/json_read.h"
#include "tests/fixture/leaks.h"
#include "tests/fixture/run_cli.h"
#include "tests/fixture/workspace.h"

static const char net[] =
    "[model]\nimage = 8\nclasses = 4\n[data]\nsource = synthetic\nsamples = 32\n"
    "[train]\nbatch = 8\nepochs = 2\nlr = 0.05\nprecision = fp32\n"
    "[device]\nkind = cpu\nthreads = 1\n"
    "[conv c1]\nout = 8\nkernel = 3\npad = 1\n[%s r1]\n[conv c2]\nout = 8\n"
    "kernel = 3\npad = 1\n[relu r2]\n[fc f1]\nout = 4\n";

static dt_status open_net(
    dt_run **run, const char *layer, const char *dir, const char *more, dt_err *err)
{
    char text[1024], set[512];
    snprintf(text, sizeof text, net, layer);
    snprintf(set, sizeof set, "run.dir=%s", in_workspace(dir));
    const char *sets[] = {set, more};
    return dt_run_open_text(run, "net", text, strlen(text), sets, more != NULL ? 2 : 1, err);
}

/* The whole run, @pace steps at a time; 0: in one call. */
static void train(const char *layer, const char *dir, const char *more, int64_t pace)
{
    dt_run *run = NULL;
    dt_err err = {0};
    dt_status st = DT_OK;
    assert_ok(open_net(&run, layer, dir, more, &err), &err);
    assert_ok(dt_run_begin(run, NULL, &err), &err);
    assert_int_equal(dt_run_steps(run), 8);
    do
        st = dt_run_train(run, pace > 0 ? dt_run_step(run) + pace : 0, &err);
    while (st == DT_OK && dt_run_step(run) < dt_run_steps(run));
    assert_ok(dt_run_end(run, st, &err), &err);
    assert_int_equal(dt_run_step(run), 8);
    dt_run_close(run);
}

static void steps_one_by_one_give_what_all_at_once_give(void **state)
{
    (void)state;
    train("relu", "once", NULL, 0);
    train("relu", "one", NULL, 1);
    train("relu", "three", NULL, 3);
    assert_same_weights("once", "one");
    assert_same_weights("once", "three");
}

/* Of the second run: descriptors and blocks are as before it, and signals as they were set. */
static void a_run_leaves_nothing(void **state)
{
    (void)state;
    train("relu", "warm", NULL, 0);
    struct sigaction before, after;
    sigaction(SIGINT, NULL, &before);
    const int files = open_files();
    const long blocks = dti_alloc_live();
    train("relu", "again", NULL, 0);
    sigaction(SIGINT, NULL, &after);
    assert_int_equal(open_files(), files);
    assert_int_equal(dti_alloc_live(), blocks);
    assert_true(before.sa_handler == after.sa_handler);
    assert_same_weights("warm", "again");
}

/* By the card that is simulated, as the program predicts; without one an order, which it says. */
static void a_step_is_predicted_of_plans(void **state)
{
    (void)state;
    static const char *const sets[] = {"memory.simulate=p100", "memory.policy=keep_all"};
    for (size_t i = 0; i < 2; i++) {
        dt_run *run = NULL;
        dt_err err = {0};
        dt_forecast t;
        assert_ok(open_net(&run, "relu", "foreseen", sets[i], &err), &err);
        assert_fails(dt_run_predict(run, &t, &err), DT_E_CONFIG, &err, "make them first");
        dt_err_clear(&err);
        assert_ok(dt_run_plan(run, &err), &err);
        assert_ok(dt_run_predict(run, &t, &err), &err);
        assert_int_equal(t.known, i == 0);
        assert_true(t.seconds > 0 && t.waits >= 0 && t.waits < t.seconds);
        assert_true(t.rate > 0 && fabs(t.rate * t.seconds - 8) < 1e-6); /* samples of a batch */
        dt_run_close(run);
    }
}

static void a_run_is_asked_and_then_trained(void **state)
{
    (void)state;
    dt_run *run = NULL;
    dt_err err = {0};
    assert_ok(open_net(&run, "relu", "asked", "memory.policy=vdnn_all", &err), &err);
    assert_int_equal(dt_run_plans(run), 0);
    assert_int_equal(dt_run_memory(run).device, 0);
    assert_null(dt_run_folder(run));
    assert_ok(dt_run_plan(run, &err), &err);
    const dt_memory m = dt_run_memory(run);
    uint64_t sum = 0, bytes, out = 0;
    const char *name;
    for (int i = 0; dt_run_role(run, i, &name, &bytes); i++)
        sum += bytes;
    assert_true(m.exact && m.device > 0 && m.host > 0);
    assert_int_equal(sum, m.device);
    assert_int_equal(dt_run_plans(run), 3); /* first, update, eval */
    const dt_plan_facts f = dt_run_plan_facts(run, 0);
    assert_string_equal(f.program, "first");
    assert_int_equal(f.samples, 8);
    for (size_t i = 0; i < f.rows; i++) {
        const dt_plan_row w = dt_run_plan_row(run, 0, i);
        out += strcmp(w.kind, "COPY_OUT") == 0 ? w.bytes : 0;
    }
    assert_int_equal(out, m.out);
    assert_null(dt_run_plan_facts(run, 3).program); /* what is not there is nothing */
    assert_null(dt_run_plan_row(run, 3, 0).kind);
    assert_null(dt_run_plan_row(run, 0, f.rows).kind);
    assert_false(dt_run_role(run, 0, NULL, &bytes) || dt_run_role(run, 0, &name, NULL));
    assert_false(dt_run_weight(run, 0, NULL));
    assert_fails(dt_run_train(run, 0, &err), DT_E_CONFIG, &err, "between its begin and its end");
    dt_err_clear(&err);
    assert_fails(dt_run_save_weights(run, "w", &err), DT_E_CONFIG, &err, "has not begun");
    dt_err_clear(&err);
    assert_fails(dt_run_save_weights(run, "", &err), DT_E_CONFIG, &err, "is empty");
    dt_err_clear(&err);
    assert_ok(dt_run_begin(run, NULL, &err), &err);
    assert_int_equal(dt_run_memory(run).device, m.device);
    assert_fails(dt_run_train(run, -5, &err), DT_E_CONFIG, &err, "until step -5");
    dt_err_clear(&err);
    assert_ok(dt_run_end(run, dt_run_train(run, 0, &err), &err), &err);
    assert_fails(dt_run_end(run, DT_OK, &err), DT_E_CONFIG, &err, "ends once");
    dt_run_close(run);
    train("relu", "kept", NULL, 0);
    assert_same_weights("asked", "kept");
}

static void a_budget_that_does_not_hold_is_told_and_answered(void **state)
{
    (void)state;
    dt_run *run = NULL;
    dt_err err = {0};
    assert_ok(open_net(&run, "relu", "budget", "memory.device_budget=4KiB", &err), &err);
    assert_int_equal(dt_run_plan(run, &err), DT_E_BUDGET);
    const dt_memory m = dt_run_memory(run);
    assert_true(m.device > m.device_budget);
    assert_int_equal(m.device_budget, 4096);
    dt_run_close(run);
    assert_false(is_there("budget"));
}

/* Counts lines and steps; asks for an end after @most steps. */
typedef struct watch {
    int steps, ready, most, resumed;
} watch;

static void on_line(void *self, const char *label, const char *text)
{
    watch *w = self;
    (void)text;
    w->resumed += strcmp(label, "resume") == 0;
}

static dt_status on_ready(void *self, const dt_run *r, dt_err *err)
{
    watch *w = self;
    (void)err;
    assert_non_null(dt_run_folder(r));
    w->ready++;
    return DT_OK;
}

static void on_step(void *self, const dt_step_report *r)
{
    watch *w = self;
    assert_true(isfinite(r->loss));
    w->steps++;
}

static bool on_stop(void *self)
{
    const watch *w = self;
    return w->most > 0 && w->steps >= w->most;
}

static void a_run_is_stopped_and_goes_on(void **state)
{
    (void)state;
    dt_run *run = NULL;
    dt_err err = {0};
    watch w = {.most = 3};
    const dt_run_observer o = {&w, on_line, on_ready, on_step, NULL, on_stop};
    train("relu", "straight", NULL, 0);
    assert_ok(open_net(&run, "relu", "stopped", NULL, &err), &err);
    assert_ok(dt_run_begin(run, &o, &err), &err);
    const dt_status st = dt_run_train(run, 0, &err);
    assert_int_equal(st, DT_E_STOPPED);
    assert_int_equal(dt_run_end(run, st, &err), DT_E_STOPPED);
    assert_int_equal(dt_run_step(run), 3);
    dt_run_close(run);
    dt_err_clear(&err);
    w = (watch){0};
    assert_ok(open_net(&run, "relu", "stopped", "checkpoint.resume=auto", &err), &err);
    assert_ok(dt_run_begin(run, &o, &err), &err);
    assert_int_equal(dt_run_step(run), 3);
    assert_ok(dt_run_end(run, dt_run_train(run, 0, &err), &err), &err);
    dt_run_close(run);
    assert_int_equal(w.ready, 1);
    assert_int_equal(w.steps, 5);
    assert_int_equal(w.resumed, 1);
    assert_same_weights("straight", "stopped");
}

/* A checkpoint of step 3, so many samples from where its batches end. */
static void save_elsewhere(const char *dir, int64_t further, int64_t skipped)
{
    dt_run *run = NULL;
    dt_err err = {0};
    assert_ok(open_net(&run, "relu", dir, NULL, &err), &err);
    assert_ok(dt_run_begin(run, NULL, &err), &err);
    assert_ok(dt_run_train(run, 3, &err), &err);
    run->point.at += further;
    run->began_skipped = skipped;
    assert_ok(dt_run_save(run, &err), &err);
    dt_run_close(run);
}

/* Training would go on with other samples. */
static void a_checkpoint_that_is_not_where_its_steps_lead_is_refused(void **state)
{
    (void)state;
    static const struct {
        const char *dir;
        int64_t further, skipped;
        bool fine;
    } cases[] = {{"there", 0, 0, true}, {"behind", 1, 0, false}, {"skipped", 2, 2, true},
        {"more", 2, 1, false}, {"before", -1, 1, false}};
    for (size_t i = 0; i < DT_COUNT(cases); i++) {
        dt_run *run = NULL;
        dt_err err = {0};
        save_elsewhere(cases[i].dir, cases[i].further, cases[i].skipped);
        assert_ok(open_net(&run, "relu", cases[i].dir, "checkpoint.resume=auto", &err), &err);
        const dt_status st = dt_run_begin(run, NULL, &err);
        if (cases[i].fine)
            assert_ok(st, &err);
        else
            assert_fails(st, DT_E_DATA, &err, "step-00000003': the epoch goes on at its sample ");
        dt_run_close(run);
    }
}

/* Asks for weights before they are there. */
static dt_status ask_early(void *self, const dt_run *r, dt_err *err)
{
    float bias[4];
    dt_err own = {0};
    (void)r, (void)err;
    assert_fails(dt_run_read_weight(*(dt_run **)self, "f1.bias", bias, 4, &own), DT_E_CONFIG, &own,
        "has no weights yet: it is beginning");
    return DT_OK;
}

static void a_run_that_begins_has_no_weights_yet(void **state)
{
    (void)state;
    dt_run *run = NULL;
    float bias[4];
    dt_err err = {0};
    const dt_run_observer o = {.self = &run, .ready = ask_early};
    assert_ok(open_net(&run, "relu", "early", NULL, &err), &err);
    assert_ok(dt_run_begin(run, &o, &err), &err);
    assert_ok(dt_run_read_weight(run, "f1.bias", bias, 4, &err), &err);
    dt_run_close(run);
}

static bool at_once(void *self)
{
    (void)self;
    return true;
}

/* Its weights may not be there yet. */
static void a_run_that_did_not_begin_can_only_be_closed(void **state)
{
    (void)state;
    dt_run *run = NULL;
    dt_err err = {0};
    dt_eval_report report;
    const dt_run_observer o = {.stop = at_once};
    assert_ok(open_net(&run, "relu", "never", NULL, &err), &err);
    assert_fails(dt_run_begin(run, &o, &err), DT_E_STOPPED, &err,
        "stopped before the run began: nothing is written");
    assert_int_not_equal(access(in_workspace("never"), F_OK), 0);
    dt_err_clear(&err);
    assert_fails(dt_run_save_weights(run, dt_temp_path("never.st"), &err), DT_E_CONFIG, &err,
        "can only be closed");
    dt_err_clear(&err);
    assert_fails(
        dt_run_evaluate(run, NULL, &report, &err), DT_E_CONFIG, &err, "can only be closed");
    dt_run_close(run);
}

/* ---- weights and scores in memory ---- */

/* Of a run that has trained: each weight that the file has, to the bit, and no other. */
static void assert_weights_are_the_files(dt_run *run, const char *path)
{
    dt_err err = {0};
    dt_st_file *f = NULL;
    dt_weight w;
    size_t n = 0;
    assert_ok(dt_st_open(&f, path, &err), &err);
    for (; dt_run_weight(run, n, &w); n++) {
        const dt_st_entry *e = dt_st_find(f, w.name);
        const size_t bytes = (size_t)w.count * sizeof(float);
        assert_non_null(e);
        assert_int_equal(e->rank, w.rank);
        assert_memory_equal(e->d, w.d, (size_t)w.rank * sizeof w.d[0]);
        float *read = dt_alloc(2 * (size_t)w.count, sizeof *read), *filed = read + w.count;
        assert_ok(dt_run_read_weight(run, w.name, read, (size_t)w.count, &err), &err);
        assert_ok(dt_st_read(f, e, 0, filed, bytes, &err), &err);
        assert_memory_equal(read, filed, bytes);
        assert_int_equal(w.trained, strstr(w.name, "running_") == NULL);
        dt_free(read);
    }
    assert_int_equal(n, dti_st_count(f));
    dt_st_close(f);
}

static void weights_are_read_as_they_are_saved(void **state)
{
    (void)state;
    static const char *const layers[] = {"relu", "batchnorm"};
    const char *path = dt_temp_path("read.safetensors");
    float some[4];
    for (size_t i = 0; i < DT_COUNT(layers); i++) {
        dt_run *run = NULL;
        dt_err err = {0};
        dt_weight w;
        assert_ok(open_net(&run, layers[i], layers[i], "memory.policy=vdnn_all", &err), &err);
        assert_true(dt_run_weight(run, 0, &w));
        assert_string_equal(w.name, "c1.weight");
        assert_fails(
            dt_run_read_weight(run, w.name, some, 4, &err), DT_E_CONFIG, &err, "has not begun");
        dt_err_clear(&err);
        assert_ok(dt_run_begin(run, NULL, &err), &err);
        assert_ok(dt_run_train(run, 3, &err), &err);
        assert_fails(dt_run_save_weights(run, NULL, &err), DT_E_CONFIG, &err, "weights is NULL");
        dt_err_clear(&err);
        assert_ok(dt_run_evaluate(run, NULL, NULL, &err), &err);
        assert_ok(dt_run_save_weights(run, path, &err), &err);
        assert_weights_are_the_files(run, path);
        assert_fails(dt_run_read_weight(run, "c1.wight", some, 4, &err), DT_E_CONFIG, &err,
            "has no weight 'c1.wight'");
        dt_err_clear(&err);
        assert_fails(dt_run_read_weight(run, "f1.bias", some, 3, &err), DT_E_CONFIG, &err,
            "'f1.bias' has 4 values, not 3");
        dt_err_clear(&err);
        assert_ok(dt_run_read_weight(run, "f1.bias", some, 4, &err), &err);
        assert_ok(dt_run_end(run, dt_run_train(run, 0, &err), &err), &err);
        dt_run_close(run);
    }
}

/* All weights of @from, under their names, to @to. */
static void copy_weights(dt_run *to, dt_run *from)
{
    dt_weight w;
    dt_err err = {0};
    for (size_t i = 0; dt_run_weight(from, i, &w); i++) {
        float *v = dt_alloc((size_t)w.count, sizeof *v);
        assert_ok(dt_run_read_weight(from, w.name, v, (size_t)w.count, &err), &err);
        assert_ok(dt_run_write_weight(to, w.name, v, (size_t)w.count, &err), &err);
        dt_free(v);
    }
}

static void assert_same_file(const char *a, const char *b)
{
    size_t n[2];
    char *text[2];
    dt_err err = {0};
    assert_ok(dt_read_file(&text[0], &n[0], a, 1 << 20, DT_E_IO, &err), &err);
    assert_ok(dt_read_file(&text[1], &n[1], b, 1 << 20, DT_E_IO, &err), &err);
    assert_int_equal(n[0], n[1]);
    assert_memory_equal(text[0], text[1], n[0]);
    dt_free(text[0]);
    dt_free(text[1]);
}

/* Wherever weights live, and in whichever layout. */
static void weights_that_are_written_are_those_of_the_network(void **state)
{
    (void)state;
    static const char *const homes[] = {
        "memory.policy=keep_all", "memory.policy=zero_offload", "memory.policy=zero_infinity"};
    const char *a = dt_temp_path("from.safetensors"), *b = dt_temp_path("to.safetensors");
    dt_run *from = NULL, *to = NULL;
    dt_err err = {0};
    assert_ok(open_net(&from, "batchnorm", "from", NULL, &err), &err);
    assert_ok(dt_run_begin(from, NULL, &err), &err);
    assert_ok(dt_run_train(from, 3, &err), &err);
    assert_ok(dt_run_save_weights(from, a, &err), &err);
    for (size_t i = 0; i < DT_COUNT(homes); i++) {
        assert_ok(
            open_net(&to, "batchnorm", homes[i] + strlen("memory.policy="), homes[i], &err), &err);
        assert_ok(dt_run_begin(to, NULL, &err), &err);
        assert_ok(dt_run_train(to, 1, &err), &err);
        copy_weights(to, from);
        assert_ok(dt_run_save_weights(to, b, &err), &err);
        assert_same_file(a, b);
        assert_ok(dt_run_end(to, dt_run_train(to, 0, &err), &err), &err);
        dt_run_close(to);
    }
    dt_run_close(from);
}

/* To evaluate, a run that gave scores alone reads its weights anew. */
static void weights_that_are_written_are_not_dropped(void **state)
{
    (void)state;
    static float x[8 * 8 * 3], y[4];
    const float v[4] = {0, 1, 2, 3};
    float now[4];
    dt_run *run = NULL;
    dt_err err = {0};
    assert_ok(open_net(&run, "relu", "dropped", NULL, &err), &err);
    assert_ok(dt_run_scores(run, x, 1, y, 4, &err), &err);
    assert_ok(dt_run_write_weight(run, "f1.bias", v, 4, &err), &err);
    assert_fails(dt_run_evaluate(run, NULL, NULL, &err), DT_E_CONFIG, &err, "evaluate first");
    assert_ok(dt_run_read_weight(run, "f1.bias", now, 4, &err), &err);
    assert_memory_equal(now, v, sizeof v);
    dt_run_close(run);
}

static void what_is_no_weight_is_not_written(void **state)
{
    (void)state;
    float v[4] = {0, 1, 2, 3}, stands[4], after[4];
    dt_run *run = NULL;
    dt_err err = {0};
    assert_ok(open_net(&run, "relu", "unwritten", NULL, &err), &err);
    assert_fails(
        dt_run_write_weight(run, "f1.bias", v, 4, &err), DT_E_CONFIG, &err, "has not begun");
    assert_ok(dt_run_begin(run, NULL, &err), &err);
    assert_ok(dt_run_read_weight(run, "f1.bias", stands, 4, &err), &err);
    dt_err_clear(&err);
    assert_fails(dt_run_write_weight(run, "f1.bais", v, 4, &err), DT_E_CONFIG, &err,
        "has no weight 'f1.bais'");
    dt_err_clear(&err);
    assert_fails(dt_run_write_weight(run, "f1.bias", v, 3, &err), DT_E_CONFIG, &err,
        "'f1.bias' has 4 values, not 3");
    dt_err_clear(&err);
    assert_fails(dt_run_write_weight(run, "f1.bias", NULL, 4, &err), DT_E_CONFIG, &err, "is NULL");
    v[2] = NAN;
    dt_err_clear(&err);
    assert_fails(dt_run_write_weight(run, "f1.bias", v, 4, &err), DT_E_DATA, &err,
        "f1.bias[2] is nan; weights must be finite");
    assert_ok(dt_run_read_weight(run, "f1.bias", after, 4, &err), &err);
    assert_memory_equal(after, stands, sizeof stands);
    dt_run_close(run);
}

static void assert_bias(const char *file, const float want[4])
{
    dt_st_file *f = NULL;
    dt_err err = {0};
    float got[4];
    assert_ok(dt_st_open(&f, in_workspace(file), &err), &err);
    assert_ok(dt_st_read(f, dt_st_find(f, "f1.bias"), 0, got, sizeof got, &err), &err);
    assert_memory_equal(got, want, sizeof got);
    dt_st_close(f);
}

/* Of a step that has a checkpoint already: both files of the end have what was written since. */
static void weights_that_are_written_are_saved(void **state)
{
    (void)state;
    const float v[4] = {0.5f, -1, 2, 3};
    float got[4];
    dt_run *run = NULL;
    dt_err err = {0};
    assert_ok(open_net(&run, "relu", "rewritten", NULL, &err), &err);
    assert_ok(dt_run_begin(run, NULL, &err), &err);
    assert_ok(dt_run_train(run, 3, &err), &err);
    assert_ok(dt_run_save(run, &err), &err);
    assert_ok(dt_run_write_weight(run, "f1.bias", v, 4, &err), &err);
    assert_ok(dt_run_end(run, DT_OK, &err), &err);
    dt_run_close(run);
    assert_bias("rewritten/checkpoints/model.safetensors", v);
    assert_ok(open_net(&run, "relu", "rewritten", "checkpoint.resume=auto", &err), &err);
    assert_ok(dt_run_begin(run, NULL, &err), &err);
    assert_int_equal(dt_run_step(run), 3);
    assert_ok(dt_run_read_weight(run, "f1.bias", got, 4, &err), &err);
    assert_memory_equal(got, v, sizeof v);
    dt_run_close(run);
}

/* A step of a run whose weights live on a disk that is so. */
static dt_run *step_on_disk(bad_disk how)
{
    dt_run *run = NULL;
    dt_err err = {0};
    disk_goes_bad(how);
    assert_ok(open_net(&run, "relu", "untaken", "memory.policy=zero_infinity", &err), &err);
    assert_ok(dt_run_begin(run, NULL, &err), &err);
    assert_ok(dt_run_train(run, 1, &err), &err);
    return run;
}

/* Nor is it saved. */
static void a_weight_that_a_disk_did_not_take_is_not_trained_on(void **state)
{
    (void)state;
    static float v[8 * 8 * 8 * 4];
    dt_err err = {0};
    dt_run_close(step_on_disk((bad_disk){.at = 1}));
    const long before = disk_so_far().written;
    remove_all("untaken");
    dt_run *run = step_on_disk((bad_disk){.write = DISK_FAILS, .error = EIO, .at = before + 1});
    assert_fails(dt_run_write_weight(run, "f1.weight", v, DT_COUNT(v), &err), DT_E_IO, &err,
        "write f1.weight, whose home is the disk");
    dt_err_clear(&err);
    assert_fails(dt_run_train(run, 0, &err), DT_E_CONFIG, &err, "no weights are whole");
    dt_err_clear(&err);
    assert_fails(dt_run_end(run, DT_OK, &err), DT_E_IO, &err, "nothing is saved");
    assert_false(is_there("untaken/checkpoints/model.safetensors"));
    dt_run_close(run);
    disk_is_well(NULL);
}

enum { HELD = 256, CLASSES = 4, PICTURE = 8 * 8 * 3 };

/* The mean loss and the share of hits that scores come to. */
static void weigh(const float *score, const int32_t *label, double *loss, double *top1)
{
    *loss = *top1 = 0;
    for (int i = 0; i < HELD; i++, score += CLASSES) {
        double sum = 0;
        int best = 0;
        for (int k = 0; k < CLASSES; k++) {
            sum += exp((double)score[k]);
            best = score[k] > score[best] ? k : best;
        }
        *loss += (log(sum) - (double)score[label[i]]) / HELD;
        *top1 += (best == label[i]) / (double)HELD;
    }
}

static void scores_are_what_an_evaluation_counts(void **state)
{
    (void)state;
    static float x[HELD * PICTURE], all[HELD * CLASSES], few[5 * CLASSES], anew[HELD * CLASSES];
    static int32_t label[HELD];
    const dt_source_opts o = {.shape = {1, 8, 8, 3},
        .classes = CLASSES,
        .labels = 1,
        .seed = 1,
        .samples = 32,
        .eval = true};
    dt_err err = {0};
    dt_source *held = NULL;
    dt_run *run = NULL;
    dt_eval_report report;
    double loss, top1;
    char set[600];
    assert_ok(dt_source_synthetic.open(&dt_source_synthetic, &held, &o, &err), &err);
    assert_int_equal(dt_source_synthetic.count(held), HELD);
    for (int i = 0; i < HELD; i++)
        assert_ok(dt_source_synthetic.read(held, i, 0, x + i * PICTURE, &label[i], &err), &err);
    dt_source_synthetic.close(held);
    assert_ok(open_net(&run, "relu", "scores", NULL, &err), &err);
    assert_ok(dt_run_begin(run, NULL, &err), &err);
    assert_ok(dt_run_train(run, 5, &err), &err);
    assert_ok(dt_run_scores(run, x, HELD, all, HELD * CLASSES, &err), &err);
    assert_ok(dt_run_evaluate(run, NULL, &report, &err), &err);
    weigh(all, label, &loss, &top1);
    assert_true(fabs(loss - report.loss) < 1e-5 * loss);
    assert_true(fabs(top1 - report.top1) < 1e-9);
    assert_ok(dt_run_scores(run, x + 3 * PICTURE, 5, few, 5 * CLASSES, &err),
        &err); /* less than a batch */
    assert_memory_equal(few, all + 3 * CLASSES, sizeof few);
    assert_fails(dt_run_scores(run, x, -1, all, 4, &err), DT_E_CONFIG, &err, "-1 samples");
    dt_err_clear(&err);
    assert_fails(dt_run_scores(run, x, 5, few, 19, &err), DT_E_CONFIG, &err,
        "5 samples of 1 label and 4 classes have other than 19 scores");
    dt_err_clear(&err);
    assert_ok(dt_run_end(run, dt_run_train(run, 0, &err), &err), &err); /* it goes on unchanged */
    assert_ok(dt_run_scores(run, x, HELD, all, HELD * CLASSES, &err), &err);
    dt_run_close(run);
    train("relu", "no_scores", NULL, 0);
    assert_same_weights("scores", "no_scores");
    snprintf(
        set, sizeof set, "model.weights=%s", in_workspace("scores/checkpoints/model.safetensors"));
    assert_ok(open_net(&run, "relu", "never", set, &err), &err);
    assert_ok(dt_run_scores(run, x, HELD, anew, HELD * CLASSES, &err), &err);
    assert_memory_equal(anew, all, sizeof all);
    assert_ok(dt_run_evaluate(run, NULL, &report, &err), &err); /* behind scores as before them */
    weigh(all, label, &loss, &top1);
    assert_true(fabs(loss - report.loss) < 1e-5 * loss);
    assert_ok(dt_run_scores(run, x, HELD, anew, HELD * CLASSES, &err), &err);
    assert_memory_equal(anew, all, sizeof all);
    assert_false(is_there("never"));
    dt_run_close(run);
}

/* What is asked of @r, which is no run: NULL, or one that could not be opened. */
static void assert_no_run(dt_run *r, const char *says)
{
    dt_eval_report report;
    dt_forecast seconds;
    const dt_generate_opts text = {.count = 1};
    const char *role;
    uint64_t bytes;
    dt_err err = {0};
    float value = 0;
    dt_weight weight;
    enum { CALLS = 13 };
    for (int i = 0; i < CALLS; i++) {
        const dt_status st = i == 0    ? dt_run_plan(r, &err)
                             : i == 1  ? dt_run_take_plans(r, "plans", &err)
                             : i == 2  ? dt_run_predict(r, &seconds, &err)
                             : i == 3  ? dt_run_begin(r, NULL, &err)
                             : i == 4  ? dt_run_train(r, 0, &err)
                             : i == 5  ? dt_run_save(r, &err)
                             : i == 6  ? dt_run_save_weights(r, "weights", &err)
                             : i == 7  ? dt_run_evaluate(r, NULL, &report, &err)
                             : i == 8  ? dt_run_generate(r, &text, &err)
                             : i == 9  ? dt_run_scores(r, &value, 0, &value, 0, &err)
                             : i == 10 ? dt_run_read_weight(r, "c1.weight", &value, 1, &err)
                             : i == 11 ? dt_run_write_weight(r, "c1.weight", &value, 1, &err)
                                       : dt_run_end(r, DT_OK, &err);
        assert_fails(st, DT_E_CONFIG, &err, says);
        dt_err_clear(&err);
    }
    assert_int_equal(dt_run_memory(r).device, 0);
    assert_int_equal(dt_run_plans(r), 0);
    assert_false(dt_run_role(r, 0, &role, &bytes));
    assert_false(dt_run_weight(r, 0, &weight));
    assert_null(dt_run_plan_facts(r, 0).program);
    assert_null(dt_run_plan_row(r, 0, 0).kind);
    assert_int_equal(dt_run_step(r) + dt_run_steps(r), 0);
    assert_null(dt_run_folder(r));
    dt_run_close(r);
}

static void what_is_no_run_is_refused(void **state)
{
    (void)state;
    dt_run *run = NULL;
    dt_err err = {0};
    static const char text[] = "[model]\nname = lenet5\n", wrong[] = "[model]\nname = lenet6\n";
    assert_no_run(NULL, "open one first");
    assert_int_equal(
        dt_run_open_text(&run, "net", wrong, strlen(wrong), NULL, 0, &err), DT_E_CONFIG);
    assert_no_run(run, "its dt_run_open has failed");
    const char *const nothing[] = {NULL};
    const struct {
        const char *name, *text;
        const char *const *set;
        size_t n_set;
        const char *says;
    } cases[] = {{NULL, text, NULL, 0, "name of the configuration is NULL"},
        {"net", NULL, NULL, 0, "text of the configuration is NULL"},
        {"net", text, nothing, 1, "assignment 1 of 1 is NULL"},
        {"net", text, NULL, 2, "assignment 1 of 2 is NULL"}};
    for (size_t i = 0; i < DT_COUNT(cases); i++) {
        dt_err_clear(&err);
        assert_fails(dt_run_open_text(&run, cases[i].name, cases[i].text, strlen(text),
                         cases[i].set, cases[i].n_set, &err),
            DT_E_CONFIG, &err, cases[i].says);
        assert_no_run(run, "its dt_run_open has failed");
    }
    dt_err_clear(&err);
    assert_fails(dt_run_open(&run, NULL, NULL, 0, &err), DT_E_CONFIG, &err, "path or name");
    dt_run_close(run);
    dt_err_clear(&err);
    assert_fails(dt_run_open(NULL, "net.ini", NULL, 0, &err), DT_E_CONFIG, &err, "is to be put");
    dt_err_clear(&err);
    assert_fails(dt_register_policy(NULL, &err), DT_E_CONFIG, &err, "dt_policy_spec is NULL");
    dt_err_clear(&err);
    assert_fails(dt_register_layer(NULL, &err), DT_E_CONFIG, &err, "dt_layer_spec is NULL");
}

/* ---- from outside ---- */

static dt_status same_extent(
    const void *options, const dt_extent *x, int n_x, dt_layer_shape *s, dt_err *err)
{
    (void)options, (void)n_x, (void)err;
    *s = (dt_layer_shape){.y = x[0], .forward_flops = (double)(x[0].h * x[0].w * x[0].c)};
    s->backward_flops = s->forward_flops;
    s->param[0] = (dt_layer_param){.name = "gain", .rank = 1, .d = {x[0].c}, .begin = DT_BEGIN_ONE};
    return DT_OK;
}

static int64_t values(const dt_layer_job *j)
{
    return j->n * j->y_extent.h * j->y_extent.w * j->y_extent.c;
}

static void rectify(const dt_layer_job *j)
{
    for (int64_t i = 0; i < values(j); i++)
        j->y[i] = j->x[0][i] > 0 ? j->x[0][i] : 0;
}

static void rectify_back(const dt_layer_job *j)
{
    for (int64_t i = 0; i < values(j); i++)
        j->dx[0][i] = j->y[i] > 0 ? j->dy[i] : 0;
}

static void amplify(const dt_layer_job *j)
{
    for (int64_t i = 0; i < values(j); i++)
        j->y[i] = j->x[0][i] * j->param[0][i % j->y_extent.c];
}

static void amplify_back(const dt_layer_job *j)
{
    const int64_t c = j->y_extent.c;
    for (int64_t k = 0; k < c; k++)
        j->dparam[0][k] = 0;
    for (int64_t i = 0; i < values(j); i++) {
        j->dparam[0][i % c] += j->dy[i] * j->x[0][i];
        j->dx[0][i] = j->dy[i] * j->param[0][i % c];
    }
}

static const dt_layer_spec my_relu = {.name = "my_relu",
    .summary = "max(x, 0)",
    .min_x = 1,
    .max_x = 1,
    .keeps_y = true,
    .in_place = true,
    .infer = same_extent,
    .forward = rectify,
    .backward = rectify_back};
static const dt_layer_spec gain = {.name = "gain",
    .summary = "a factor for each channel",
    .min_x = 1,
    .max_x = 1,
    .n_param = 1,
    .keeps_x = true,
    .infer = same_extent,
    .forward = amplify,
    .backward = amplify_back};

/* Asked for the options' struct that no row fills. */
static dt_status extent_of_zeros(
    const void *options, const dt_extent *x, int n_x, dt_layer_shape *s, dt_err *err)
{
    const int *own = options;
    return own[0] == 0 && own[3] == 0 ? same_extent(options, x, n_x, s, err)
                                      : DT_FAIL(err, DT_E_CONFIG, "options that nobody gave");
}

static void a_layer_from_outside_trains_as_ours_does(void **state)
{
    (void)state;
    dt_err err = {0};
    dt_run *run = NULL;
    assert_ok(dt_register_layer(&my_relu, &err), &err);
    assert_ok(dt_register_layer(&gain, &err), &err);
    assert_fails(dt_register_layer(&gain, &err), DT_E_CONFIG, &err, "there is one of that name");
    dt_err_clear(&err);
    dt_layer_spec of_all = gain;
    of_all.name = "memory";
    assert_fails(dt_register_layer(&of_all, &err), DT_E_CONFIG, &err, "a section of every");
    dt_err_clear(&err);
    train("relu", "ours", NULL, 0);
    train("my_relu", "theirs", NULL, 0);
    assert_same_weights("ours", "theirs");
    train("my_relu", "chen", "memory.policy=chen_sqrt", 0);
    assert_same_weights("ours", "chen");
    dt_layer_spec rowless = my_relu;
    rowless.name = "rowless";
    rowless.options_bytes = 4 * sizeof(int);
    rowless.infer = extent_of_zeros;
    assert_ok(dt_register_layer(&rowless, &err), &err);
    train("rowless", "rowless", NULL, 0);
    assert_same_weights("ours", "rowless");
    train("gain", "gain", NULL, 0); /* its gradient: of micro-batches, added up, about the same */
    train("gain", "gain_moved", "memory.policy=vdnn_all", 0);
    assert_same_weights("gain", "gain_moved");
    train("gain", "gain_micro", "train.micro_batch=4", 0);
    char *all = cli_text(in_workspace("gain/summary.json"));
    char *micro = cli_text(in_workspace("gain_micro/summary.json"));
    double a, b;
    assert_int_equal(sscanf(strstr(all, "\"final_loss\":"), "\"final_loss\": %lf", &a), 1);
    assert_int_equal(sscanf(strstr(micro, "\"final_loss\":"), "\"final_loss\": %lf", &b), 1);
    assert_true(fabs(a - b) < 1e-4 * fabs(a));
    dt_free(all);
    dt_free(micro);
    assert_ok(open_net(&run, "gain", "bf16", "train.precision=auto", &err), &err);
    const dt_status st = dt_run_plan(run, &err);
    if (st != DT_OK) /* where auto is bf16 */
        assert_fails(st, DT_E_CONFIG, &err, "layer 'gain' computes in fp32 only");
    dt_run_close(run);
}

/* What it says of itself is looked at when a network is built. */
static dt_layer_shape odd_shape;

static dt_status odd_infer(
    const void *options, const dt_extent *x, int n_x, dt_layer_shape *s, dt_err *err)
{
    (void)options, (void)x, (void)n_x, (void)err;
    *s = odd_shape;
    return DT_OK;
}

static void what_a_layer_from_outside_says_is_looked_at(void **state)
{
    (void)state;
    dt_layer_spec odd = gain;
    dt_err err = {0};
    odd.name = "odd";
    odd.infer = odd_infer;
    assert_ok(dt_register_layer(&odd, &err), &err);
    const dt_layer_shape good = {.y = {8, 8, 8},
        .forward_flops = 1,
        .backward_flops = 1,
        .param = {{.name = "gain", .rank = 1, .d = {8}, .begin = DT_BEGIN_ONE}}};
    dt_layer_shape wrong[8];
    static const char *const says[8] = {"gives no output", "nan and 1 operations",
        "1 and -1 operations", "scale nan", "scale -1", "begins as no dt_begin",
        "no 1 to 4 dimensions", "too large"};
    for (size_t i = 0; i < DT_COUNT(wrong); i++)
        wrong[i] = good;
    wrong[0].y.h = 0;
    wrong[1].forward_flops = (double)NAN;
    wrong[2].backward_flops = -1;
    wrong[3].param[0].scale = (double)NAN;
    wrong[4].param[0].scale = -1;
    wrong[5].param[0].begin = (dt_begin)(DT_BEGIN_NORMAL + 1);
    wrong[6].param[0].rank = 5;
    wrong[7].param[0].d[0] = INT64_MAX;
    for (size_t i = 0; i <= DT_COUNT(wrong); i++) {
        dt_run *run = NULL;
        odd_shape = i < DT_COUNT(wrong) ? wrong[i] : good;
        const dt_status st = open_net(&run, "odd", "odd", NULL, &err);
        if (i < DT_COUNT(wrong))
            assert_fails(st, DT_E_CONFIG, &err, says[i]);
        else
            assert_ok(st, &err);
        dt_run_close(run);
        dt_err_clear(&err);
    }
}

static void a_layer_from_outside_takes_no_key_that_every_layer_has(void **state)
{
    (void)state;
    static const dt_opt tiles[] = {
        {"tiles", DT_OPT_I64, 0, "1", 0, 0, NULL, NULL, "of a layer of one's own"}};
    dt_layer_spec tiled = my_relu;
    dt_err err = {0};
    dt_run *run = NULL;
    tiled.name = "tiled";
    tiled.options = tiles;
    tiled.n_options = 1;
    tiled.options_bytes = sizeof(int64_t);
    assert_ok(dt_register_layer(&tiled, &err), &err);
    assert_fails(open_net(&run, "tiled", "tiled", NULL, &err), DT_E_CONFIG, &err,
        "layer 'tiled' has an option 'tiles', a key that every layer has");
    dt_run_close(run);
}

/* Names by which checkpoints could not be read again, and the most that a layer may have. */
static const char *param_name[DT_LAYER_PARAMS];

static dt_status four_params(
    const void *options, const dt_extent *x, int n_x, dt_layer_shape *s, dt_err *err)
{
    DT_CHECK(same_extent(options, x, n_x, s, err));
    for (int i = 0; i < DT_LAYER_PARAMS; i++) {
        s->param[i] = s->param[0];
        s->param[i].name = param_name[i];
    }
    return DT_OK;
}

static void sum_up(const dt_layer_job *j)
{
    for (int64_t i = 0; i < values(j); i++) {
        j->y[i] = 0;
        for (int k = 0; k < j->n_x; k++)
            j->y[i] += j->x[k][i] * j->param[k % DT_LAYER_PARAMS][0];
    }
}

static void sum_up_back(const dt_layer_job *j)
{
    for (int k = 0; k < DT_LAYER_PARAMS; k++)
        memset(j->dparam[k], 0, (size_t)j->y_extent.c * sizeof(float));
    for (int k = 0; k < j->n_x; k++)
        for (int64_t i = 0; i < values(j); i++) {
            const float *x = j->x[k];
            j->dparam[k % DT_LAYER_PARAMS][0] += j->dy[i] * x[i];
            if (j->dx[k] != NULL)
                j->dx[k][i] = j->dy[i] * j->param[k % DT_LAYER_PARAMS][0] + 0 * j->y[i];
        }
}

static const char *const eight = "[model]\nimage = 8\nclasses = 4\n[conv c1]\nout = 4\n"
                                 "kernel = 1\n[relu a]\n[relu b]\n[relu c]\n[relu d]\n[relu e]\n"
                                 "[relu f]\n[relu g]\n[widest w]\n"
                                 "input = c1, a, b, c, d, e, f, g\n[global_avgpool p]\n[fc o]\n"
                                 "out = 4\n[data]\nsource = synthetic\nsamples = 64\n"
                                 "[train]\nbatch = 8\nsteps = 2\nprecision = fp32\n";

static void a_layer_from_outside_may_have_all_that_is_allowed(void **state)
{
    (void)state;
    static const dt_layer_spec widest = {.name = "widest",
        .summary = "a weighted sum",
        .min_x = DT_LAYER_INPUTS,
        .max_x = DT_LAYER_INPUTS,
        .n_param = DT_LAYER_PARAMS,
        .keeps_x = true,
        .keeps_y = true,
        .infer = four_params,
        .forward = sum_up,
        .backward = sum_up_back};
    const struct {
        const char *name[DT_LAYER_PARAMS], *says; /* NULL: it trains */
    } cases[] = {{{"a", "b", "c", "a"}, "two parameters 'a'"},
        {{"a", "b", "c", "my weight"}, "of parameter 3 no name of a-z"},
        {{"a", "b", NULL, "d"}, "of parameter 2 no name of a-z"}, {{"a", "b", "c", "d"}, NULL}};
    dt_err err = {0};
    char dir[512];
    snprintf(dir, sizeof dir, "run.dir=%s", in_workspace("widest"));
    const char *const set[] = {dir};
    assert_ok(dt_register_layer(&widest, &err), &err);
    for (size_t i = 0; i < DT_COUNT(cases); i++) {
        dt_run *run = NULL;
        memcpy(param_name, cases[i].name, sizeof param_name);
        dt_status st = dt_run_open_text(&run, "eight", eight, strlen(eight), set, 1, &err);
        if (cases[i].says != NULL) {
            assert_fails(st, DT_E_CONFIG, &err, cases[i].says);
            dt_err_clear(&err);
        } else {
            assert_ok(st, &err);
            assert_ok(dt_run_begin(run, NULL, &err), &err);
            assert_ok(dt_run_end(run, dt_run_train(run, 0, &err), &err), &err);
        }
        dt_run_close(run);
    }
}

/* A source of the host program: ours of made-up pictures, asked from outside. @count, of those to
 * train on, and @label: given instead, unless they are below 0; @unlabelled: no label counts; @nan:
 * samples 3 have a value that is none; @gives: of sample @bad, without a note, unless it is 0 */
typedef struct lender {
    dt_source *lent[2]; /* to train on, held out */
    int64_t count, bad;
    int32_t label;
    bool unlabelled, nan;
    int gives;
} lender;

static dt_status count_lent(void *self, const dt_samples *s, int64_t *n, dt_err *err)
{
    const lender *l = self;
    (void)err;
    if (s->h != 8 || s->w != 8 || s->c != 3 || s->classes != 4 || s->labels != 1)
        return DT_E_CONFIG; /* and no word why */
    *n = l->lent[s->held_out]->desc->count(l->lent[s->held_out]);
    *n = l->count >= 0 && !s->held_out ? l->count : *n;
    return DT_OK;
}

static dt_status read_lent(
    void *self, const dt_samples *s, int64_t i, float *x, int32_t *label, dt_err *err)
{
    const lender *l = self;
    const dt_source *from = l->lent[s->held_out];
    if (i == l->bad && !s->held_out && l->gives != 0)
        return (dt_status)l->gives;
    if (i == l->bad && !s->held_out)
        return DT_FAIL(err, DT_E_DATA, "picture %d is torn", (int)i);
    DT_CHECK(from->desc->read(from, i, 0, x, label, err));
    *label = l->unlabelled ? DT_NO_LABEL : l->label >= 0 ? l->label : *label;
    x[0] = l->nan && i == 3 ? NAN : x[0];
    return DT_OK;
}

static lender lent;
static const dt_source_spec lent_source = {
    .name = "lent", .summary = "-", .self = &lent, .count = count_lent, .read = read_lent};

static void open_lent(dt_run **run, const char *set, dt_err *err)
{
    char text[1024], dir[512];
    snprintf(text, sizeof text, net, "relu");
    snprintf(dir, sizeof dir, "run.dir=%s", in_workspace("lent"));
    const char *sets[] = {"data.source=lent", dir, "run.overwrite=on", set};
    assert_ok(
        dt_run_open_text(run, "net", text, strlen(text), sets, set != NULL ? 4 : 3, err), err);
}

static dt_status train_lent(const char *set, dt_err *err)
{
    dt_run *run = NULL;
    open_lent(&run, set, err);
    dt_status st = dt_run_begin(run, NULL, err);
    if (st == DT_OK)
        st = dt_run_end(run, dt_run_train(run, 0, err), err);
    dt_run_close(run);
    return st;
}

/* dnntrain has it not, but what the run has learned may be held against other data. */
static void assert_asked_with_other_data(double loss)
{
    ran r = cli_run("eval FILE", in_workspace("lent"));
    assert_code(&r, DT_E_CONFIG);
    assert_has(r.err, "source = lent: no such source");
    assert_has(r.err, "'lent' is a source of the program that trained it (dt_register_source)");
    cli_done(&r);
    r = cli_run("eval FILE --json --set data.source=synthetic", in_workspace("lent"));
    assert_code(&r, 0);
    cJSON *o = json_of(r.out, strlen(r.out));
    assert_true(fabs(json_number(o, "loss") - loss) < 1e-6 * loss);
    cJSON_Delete(o);
    cli_done(&r);
}

/* Neither a key that nobody set nor the learning rate is at fault. */
static void assert_data_at_fault(void)
{
    dt_run *run = NULL;
    dt_eval_report report;
    dt_err err = {0};
    lent = (lender){{lent.lent[0], lent.lent[1]}, -1, -1, -1, true, false, 0};
    assert_fails(train_lent(NULL, &err), DT_E_DATA, &err, "has a label that counts");
    dt_err_clear(&err);
    lent.unlabelled = false;
    lent.nan = true;
    assert_fails(train_lent(NULL, &err), DT_E_NONFINITE, &err, "of the batch, from 0, has a value");
    assert_null(strstr(err.text, "train.lr"));
    dt_err_clear(&err);
    open_lent(&run, NULL, &err);
    assert_fails(dt_run_evaluate(run, NULL, &report, &err), DT_E_NONFINITE, &err,
        "sample 3 of the evaluation");
    dt_run_close(run);
}

static void a_source_from_outside_trains_as_ours_does(void **state)
{
    NEED_BINARY();
    dt_err err = {0};
    dt_source_opts o = {.shape = {1, 8, 8, 3}, .classes = 4, .labels = 1, .seed = 1, .samples = 32};
    for (int i = 0; i < 2; i++) {
        o.eval = i == 1;
        assert_ok(dt_source_synthetic.open(&dt_source_synthetic, &lent.lent[i], &o, &err), &err);
    }
    assert_ok(dt_register_source(&lent_source, &err), &err);
    lent = (lender){{lent.lent[0], lent.lent[1]}, -1, -1, -1, false, false, 0};
    assert_ok(train_lent(NULL, &err), &err);
    train("relu", "made_up", NULL, 0);
    assert_same_weights("made_up", "lent");
    cJSON *ours = json_file(in_workspace("made_up/summary.json"));
    cJSON *theirs = json_file(in_workspace("lent/summary.json"));
    assert_true(json_number(ours, "eval_samples") > 0);
    assert_true(json_number(ours, "eval_loss") - json_number(theirs, "eval_loss") == 0);
    assert_asked_with_other_data(json_number(theirs, "eval_loss"));
    cJSON_Delete(ours);
    cJSON_Delete(theirs);
    static const struct {
        int64_t count, bad;
        int32_t label;
        const char *set;
        dt_status st;
        const char *says;
        int gives;
    } wrong[] = {{0, -1, -1, NULL, DT_E_DATA, "data.source = lent: it has 0 samples", 0},
        {INT64_MAX, -1, -1, NULL, DT_E_DATA, "1 to 1000000000000000 are taken", 0},
        {DT_MOST_SAMPLES, -1, -1, "train.steps=2", DT_OK, "", 0},
        {-1, 5, -1, NULL, DT_E_DATA, "picture 5 is torn\ndata.source = lent: sample 5", 0},
        {-1, 5, -1, NULL, DT_E_DATA, "lent: sample 5: it returned 12345 (unknown)", 12345},
        {-1, 5, -1, NULL, DT_E_DATA, "sample 5: it returned 1 (internal) and no note",
            DT_E_INTERNAL},
        {-1, 5, -1, NULL, DT_E_IO, "sample 5: it returned 6 (io) and no note", DT_E_IO},
        {-1, 5, -1, "data.on_error=skip", DT_OK, "", 0},
        {-1, 5, -1, "data.on_error=skip", DT_OK, "", -1},
        {-1, -1, 4, NULL, DT_E_DATA, "is 4, must be in [0, 4)", 0},
        {-1, -1, -1, "model.channels=1", DT_E_CONFIG,
            "how many samples it has, it refuses: it returned 2 (config) and no note", 0}};
    for (size_t i = 0; i < DT_COUNT(wrong); i++) {
        lent.count = wrong[i].count;
        lent.bad = wrong[i].bad;
        lent.label = wrong[i].label;
        lent.gives = wrong[i].gives;
        dt_err_clear(&err);
        assert_int_equal(train_lent(wrong[i].set, &err), wrong[i].st);
        assert_has(err.text, wrong[i].says);
    }
    assert_data_at_fault();
    for (int i = 0; i < 2; i++)
        lent.lent[i]->desc->close(lent.lent[i]);
}

static void what_is_wrong_with_a_source_is_told_when_it_is_registered(void **state)
{
    (void)state;
    dt_err err = {0};
    dt_source_spec s = lent_source;
    const char *const names[] = {"images", "lent", "my data", NULL};
    for (size_t i = 0; i < DT_COUNT(names); i++) {
        s.name = names[i];
        assert_fails(dt_register_source(&s, &err), DT_E_CONFIG, &err,
            i < 2 ? "there is one of that name" : "a word of a-z");
        dt_err_clear(&err);
    }
    s.name = "no_count";
    s.count = NULL;
    assert_fails(dt_register_source(&s, &err), DT_E_CONFIG, &err, "a summary, count and read");
    dt_err_clear(&err);
    assert_fails(dt_register_source(NULL, &err), DT_E_CONFIG, &err, "dt_source_spec is NULL");
    s.count = count_lent;
    static char name[DT_OUTSIDE_SOURCES][8];
    for (int i = 0; i < DT_OUTSIDE_SOURCES; i++) {
        snprintf(name[i], sizeof name[i], "more_%d", i);
        s.name = name[i];
        dt_err_clear(&err);
        if (i + 1 < DT_OUTSIDE_SOURCES)
            assert_ok(dt_register_source(&s, &err), &err);
        else
            assert_fails(
                dt_register_source(&s, &err), DT_E_CONFIG, &err, "8 are registered already");
    }
}

static dt_status offload_all(dt_program *p, const dt_pass_env *e, dt_err *err)
{
    (void)e;
    for (dt_saved s = {0}; dt_saved_next(p, &s);)
        DT_CHECK(dt_saved_offload(p, &s, err));
    return DT_OK;
}

static dt_status repeat_all(dt_program *p, const dt_pass_env *e, dt_err *err)
{
    (void)e;
    for (dt_saved s = {0}; dt_saved_next(p, &s);)
        if (s.repeatable)
            DT_CHECK(dt_saved_recompute(p, &s, err));
    return DT_OK;
}

static dt_status pack_all(dt_program *p, const dt_pass_env *e, dt_err *err)
{
    (void)e;
    for (dt_saved s = {0}; dt_saved_next(p, &s);) {
        assert_null(strstr(s.name, ".zvc")); /* nothing that it packed itself */
        DT_CHECK(dt_saved_encode(p, &s, "zvc", 0.9, err));
    }
    return DT_OK;
}

/* Far less room than is needed, so that each step is run again. */
static dt_status pack_tight(dt_program *p, const dt_pass_env *e, dt_err *err)
{
    (void)e;
    for (dt_saved s = {0}; dt_saved_next(p, &s);)
        DT_CHECK(dt_saved_encode(p, &s, "zvc", 0.05, err));
    return DT_OK;
}

static dt_status round_all(dt_program *p, const dt_pass_env *e, dt_err *err)
{
    (void)e;
    for (dt_saved s = {0}; dt_saved_next(p, &s);)
        DT_CHECK(dt_saved_encode(p, &s, "fp8", 1, err));
    return DT_OK;
}

/* Mistakes of a pass. */
static int mistake;

static dt_status mistaken(dt_program *p, const dt_pass_env *e, dt_err *err)
{
    static const dt_saved none = {.tensor = 12345}, weight = {.tensor = 0};
    dt_saved s = {0};
    assert_true(dt_saved_next(p, &s));
    assert_false(dt_saved_next(p, NULL));
    assert_true(isinf(dt_saved_recompute_seconds(p, e, &none)));
    assert_true(isinf(dt_saved_recompute_seconds(p, e, &weight)));
    assert_true(isinf(dt_saved_recompute_seconds(p, e, NULL)));
    assert_true(!(dt_saved_offload_seconds(e, NULL) > 0));
    assert_true(!(dt_saved_offload_seconds(NULL, &s) > 0));
    assert_true(isinf(dt_saved_recompute_seconds(p, NULL, &s)));
    assert_null(dt_policy_options(NULL));
    assert_int_equal(dt_policy_budget(NULL), 0);
    dt_saved before = {.next = -1};
    assert_false(dt_saved_next(p, &before));
    before.next = INT32_MIN;
    assert_false(dt_saved_next(p, &before));
    if (mistake == 0)
        return dt_saved_offload(p, &none, err);
    if (mistake == 1) /* the input */
        return dt_saved_recompute(p, &s, err);
    if (mistake == 2)
        return dt_saved_offload(NULL, &s, err);
    if (mistake == 3)
        return dt_saved_offload(p, NULL, err);
    if (mistake == 4)
        return dt_saved_offload(p, &weight, err);
    DT_CHECK(dt_saved_offload(p, &s, err));
    return dt_saved_offload(p, &s, err);
}

static void mistakes_of_a_policy_from_outside_are_told(void **state)
{
    (void)state;
    static const dt_policy_spec wrong = {.name = "mistaken", .summary = "-", .pass = mistaken};
    static const char *const says[] = {"there is no tensor 12345",
        "'x' cannot be made again, which dt_saved.repeatable says", "the program is NULL",
        "the dt_saved is NULL", "'c1.weight' does not wait for backward, here or any more",
        "'x' does not wait for backward, here or any more"};
    dt_err err = {0};
    assert_ok(dt_register_policy(&wrong, &err), &err);
    for (mistake = 0; mistake < (int)DT_COUNT(says); mistake++) {
        dt_run *run = NULL;
        dt_err_clear(&err);
        assert_ok(open_net(&run, "relu", "mistaken", "memory.policy=mistaken", &err), &err);
        assert_fails(dt_run_plan(run, &err), DT_E_CONFIG, &err, says[mistake]);
        dt_run_close(run);
    }
}

/* ---- what fails without a word ---- */

static int silent; /* what functions of this program give, without a note */

static dt_status silent_pass(dt_program *p, const dt_pass_env *e, dt_err *err)
{
    (void)p, (void)e, (void)err;
    return (dt_status)silent;
}

static dt_status silent_infer(
    const void *options, const dt_extent *x, int n_x, dt_layer_shape *s, dt_err *err)
{
    (void)options, (void)x, (void)n_x, (void)s, (void)err;
    return (dt_status)silent;
}

static dt_status silent_ready(void *self, const dt_run *r, dt_err *err)
{
    (void)self, (void)r, (void)err;
    return (dt_status)silent;
}

/* The call of the library in which each of them is asked. */
static dt_status call_silent(int which, dt_err *err)
{
    dt_run *run = NULL;
    const dt_run_observer o = {.ready = silent_ready};
    const char *more = which == 1 ? "memory.policy=silent" : "run.overwrite=on";
    dt_status st = open_net(&run, which == 0 ? "silent" : "relu", "silent", more, err);
    if (which == 1)
        st = dt_run_plan(run, err);
    else if (which == 2)
        st = dt_run_begin(run, &o, err);
    dt_run_close(run);
    return st;
}

static void what_fails_without_a_word_is_named(void **state)
{
    (void)state;
    static const dt_policy_spec policy = {.name = "silent", .summary = "-", .pass = silent_pass};
    static const char *const asked[] = {"its infer", "its pass", "the observer's ready"};
    static const struct {
        int given;
        dt_status st;
        const char *name;
    } cases[] = {{DT_E_DATA, DT_E_DATA, "data"}, {DT_E_INTERNAL, DT_E_CONFIG, "internal"},
        {DT_E_STOPPED, DT_E_STOPPED, "stopped"}, {DT_E_BUSY + 1, DT_E_CONFIG, "unknown"},
        {12345, DT_E_CONFIG, "unknown"}, {-1, DT_E_CONFIG, "unknown"}};
    dt_layer_spec layer = my_relu;
    dt_err err = {0};
    layer.name = "silent";
    layer.infer = silent_infer;
    assert_ok(dt_register_policy(&policy, &err), &err);
    assert_ok(dt_register_layer(&layer, &err), &err);
    for (int which = 0; which < (int)DT_COUNT(asked); which++)
        for (size_t i = 0; i < DT_COUNT(cases); i++) {
            char says[128];
            silent = cases[i].given;
            snprintf(says, sizeof says, "%s: it returned %d (%s) and no note in err", asked[which],
                silent, cases[i].name);
            assert_fails(call_silent(which, &err), cases[i].st, &err, says);
            dt_err_clear(&err);
        }
}

/* A run ends with what training gave, and with the cause where that is lost. */
static void a_run_ends_with_a_status(void **state)
{
    (void)state;
    dt_run *run = NULL;
    dt_err err = {0};
    assert_ok(open_net(&run, "relu", "ended", NULL, &err), &err);
    assert_ok(dt_run_begin(run, NULL, &err), &err);
    assert_fails(
        dt_run_end(run, (dt_status)12345, &err), DT_E_CONFIG, &err, "12345 is no dt_status");
    dt_err_clear(&err);
    assert_fails(dt_run_end(run, DT_E_DATA, &err), DT_E_DATA, &err,
        "the run was ended with 3 (data) and no note in err");
    dt_run_close(run);
    char *summary = cli_text(in_workspace("ended/summary.json"));
    assert_has(summary, "ended with 3 (data)");
    dt_free(summary);
}

static void a_lossy_codec_from_outside_is_refused_where_values_are_bf16(void **state)
{
    (void)state;
    static const dt_policy_spec rounds = {.name = "round_all", .summary = "-", .pass = round_all};
    dt_run *run = NULL;
    dt_err err = {0};
    assert_ok(dt_register_policy(&rounds, &err), &err);
    const char *sets[] = {"memory.policy=round_all", "train.precision=bf16"};
    char text[1024];
    snprintf(text, sizeof text, net, "relu");
    assert_ok(dt_run_open_text(&run, "net", text, strlen(text), sets, 2, &err), &err);
    assert_fails(dt_run_plan(run, &err), DT_E_CONFIG, &err, "fp8 rounds values of 32 bits");
    dt_run_close(run);
}

/* Its word for it does not count beside its plans. */
static void a_policy_from_outside_that_rounds_is_not_exact(void **state)
{
    (void)state;
    static const dt_policy_spec says = {
        .name = "says_exact", .summary = "-", .exact = true, .pass = round_all};
    dt_run *run = NULL;
    dt_err err = {0};
    assert_ok(dt_register_policy(&says, &err), &err);
    assert_ok(open_net(&run, "relu", "says_exact", "memory.policy=says_exact", &err), &err);
    assert_ok(dt_run_plan(run, &err), &err);
    assert_false(dt_run_memory(run).exact);
    dt_run_close(run);
}

static void policies_from_outside_change_no_bit(void **state)
{
    (void)state;
    static const dt_policy_spec all[] = {
        {.name = "pack_tight", .summary = "-", .exact = true, .pass = pack_tight},
        {.name = "offload_all", .summary = "-", .exact = true, .pass = offload_all},
        {.name = "repeat_all", .summary = "-", .exact = true, .pass = repeat_all},
        {.name = "pack_all", .summary = "-", .exact = true, .pass = pack_all}};
    dt_err err = {0};
    train("relu", "plain", NULL, 0);
    for (size_t i = 0; i < DT_COUNT(all); i++) {
        char set[64];
        snprintf(set, sizeof set, "memory.policy=%s", all[i].name);
        assert_ok(dt_register_policy(&all[i], &err), &err);
        train("relu", all[i].name, set, 0);
        assert_same_weights("plain", all[i].name);
    }
    char *tight = cli_text(in_workspace("pack_tight/summary.json"));
    assert_has(tight, "\"steps_rerun\":\t3,"); /* 1, 3 and 6 of 8: others pack nothing */
    dt_free(tight);
}

static void what_is_wrong_with_it_is_told_when_it_is_registered(void **state)
{
    (void)state;
    dt_err err = {0};
    dt_opt row[2] = {{.key = "much", .type = DT_OPT_I64, .fallback = "1", .help = "-"}};
    const dt_policy_spec good = {.name = "bad_one",
        .summary = "-",
        .options = row,
        .n_options = 1,
        .options_bytes = sizeof(int64_t),
        .pass = offload_all};
    static const struct {
        const char *name;
        size_t n, bytes;
        const char *key, *fallback, *want;
    } cases[] = {
        {"Bad", 1, 8, "much", "1", "a word of a-z"},
        {"keep_all", 1, 8, "much", "1", "there is one of that name"},
        {"bad_one", 17, 8, "much", "1", "17 options"},
        {"bad_one", 2, 8, "much", "1",
            "no key"}, /* a row too many is no key, and not walked past */
        {"bad_one", 1, 4, "much", "1", "lies beyond its struct of 4 bytes"},
        {"bad_one", 1, SIZE_MAX, "much", "1", "options of 18446744073709551615 bytes"},
        {"bad_one", 1, 8, "much", "x", "default of 'much'"},
        {"bad_one", 1, 8, "mu ch", "1", "no key"},
    };
    for (size_t i = 0; i < DT_COUNT(cases); i++) {
        dt_policy_spec s = good;
        s.name = cases[i].name;
        s.n_options = cases[i].n;
        s.options_bytes = cases[i].bytes;
        row[0].key = cases[i].key;
        row[0].fallback = cases[i].fallback;
        assert_fails(dt_register_policy(&s, &err), DT_E_CONFIG, &err, cases[i].want);
        dt_err_clear(&err);
    }
    row[0] = (dt_opt){.key = "much", .type = (dt_opt_type)99, .fallback = "1", .help = "-"};
    assert_fails(dt_register_policy(&good, &err), DT_E_CONFIG, &err,
        "option 'much' is of type 99, which is no dt_opt_type");
    dt_err_clear(&err);
    dt_policy_spec askew = good;
    askew.options = NULL;
    assert_fails(
        dt_register_policy(&askew, &err), DT_E_CONFIG, &err, "n_options is 1, but options is NULL");
    dt_err_clear(&err);
    row[0] = (dt_opt){.key = "much", .type = DT_OPT_I64, .at = 4, .fallback = "1", .help = "-"};
    askew.options = row;
    askew.options_bytes = 16;
    assert_fails(dt_register_policy(&askew, &err), DT_E_CONFIG, &err, "'much' is at 4 of its");
    dt_err_clear(&err);
    dt_layer_spec l = gain;
    l.name = "bad_layer";
    l.max_x = 9;
    assert_fails(dt_register_layer(&l, &err), DT_E_CONFIG, &err, "1 to 8 inputs");
    dt_err_clear(&err);
    l = gain;
    l.name = "bad_layer";
    l.in_place = true; /* and keeps x */
    assert_fails(dt_register_layer(&l, &err), DT_E_CONFIG, &err, "not in place");
}

static void what_was_built_is_told(void **state)
{
    NEED_BINARY();
    const dt_build b = dt_build_facts();
    ran r = cli_run("--version", NULL);
    assert_code(&r, 0);
    assert_has(r.out, b.version);
    assert_has(r.out, b.git);
    assert_has(r.out, b.library);
    assert_has(r.out, b.io_uring ? "\nwith io_uring\n" : "\nwithout io_uring\n");
    assert_has(r.out, b.lz4 ? "\nwith LZ4\n" : "\nwithout LZ4\n");
    assert_has(r.out, b.cuda ? "\nwith CUDA\n" : "\nwithout CUDA\n");
    cli_done(&r);
}

/* ---- text ---- */

typedef struct page {
    char text[64];
    size_t n, most;
} page;

static bool write_down(void *self, char c)
{
    page *p = self;
    p->text[p->n++] = c;
    return p->n < p->most;
}

static void open_text(dt_run **run, const char *more)
{
    char text[1024], dir[512];
    dt_err err = {0};
    snprintf(text, sizeof text,
        "[model]\nname = gpt2\nlayers = 1\nheads = 2\nwidth = 16\ncontext = 8\nvocab = 30\n"
        "[data]\nsource = text\npath = %s\n[train]\nbatch = 4\nsteps = 1\nepochs = 0\n"
        "[device]\nkind = cpu\nthreads = 1\n",
        in_workspace("words.txt"));
    snprintf(dir, sizeof dir, "run.dir=%s", in_workspace("words"));
    const char *sets[] = {dir, more};
    assert_ok(
        dt_run_open_text(run, "net", text, strlen(text), sets, more != NULL ? 2 : 1, &err), &err);
}

static void a_network_of_text_writes(void **state)
{
    (void)state;
    dt_run *run = NULL;
    dt_err err = {0};
    char words[400] = "";
    while (strlen(words) + 13 < sizeof words)
        strcat(words, "the lazy dog ");
    put_text("words.txt", words);
    page at[2] = {{.most = 64}, {.most = 64}};
    dt_generate_opts o = {
        .count = 20, .prompt = "dog", .temperature = 1, .seed = 3, .character = write_down};
    open_text(&run, NULL);
    for (int i = 0; i < 2; i++) {
        o.self = &at[i];
        if (i == 0) /* plans of training are no plans to write by */
            assert_ok(dt_run_plan(run, &err), &err);
        else
            open_text(&run, NULL);
        assert_ok(dt_run_generate(run, &o, &err), &err);
        assert_int_equal(at[i].n, 23);
        assert_int_equal(strspn(at[i].text, "the lazy dog "), 23);
        assert_int_equal(dt_run_plans(run), i == 0 ? 3 : 0);
        if (i == 0)
            dt_run_close(run);
    }
    assert_memory_equal(at[0].text, at[1].text, 23);
    assert_memory_equal(at[0].text, "dog", 3);
    at[1] = (page){.most = 7};
    assert_int_equal(dt_run_generate(run, &o, &err), DT_E_STOPPED);
    assert_int_equal(at[1].n, 7);
    const struct {
        dt_generate_opts o;
        const char *says;
    } wrong[] = {{{.count = 0}, "0 characters"}, {{.count = 5, .temperature = -1}, "temperature"},
        {{.count = 5, .temperature = (double)NAN}, "temperature"},
        {{.count = 5, .prompt = "cat"}, "byte 1 (0x63) does not occur"},
        {{.count = 5, .prompt = ""}, "a character at least"}};
    for (size_t i = 0; i < DT_COUNT(wrong); i++) {
        dt_err_clear(&err);
        assert_fails(dt_run_generate(run, &wrong[i].o, &err), DT_E_CONFIG, &err, wrong[i].says);
    }
    dt_err_clear(&err);
    assert_ok(dt_run_begin(run, NULL, &err), &err);
    assert_fails(dt_run_generate(run, &o, &err), DT_E_CONFIG, &err, "open another");
    dt_run_close(run);
}

/* What training would take was asked about, and is no matter then. */
static void what_is_evaluated_need_not_fit_when_it_trains(void **state)
{
    (void)state;
    dt_run *run = NULL;
    dt_eval_report report;
    char set[64];
    dt_err err = {0};
    assert_ok(open_net(&run, "relu", "small", NULL, &err), &err);
    assert_ok(dt_run_plan(run, &err), &err);
    const uint64_t trains = dt_run_memory(run).device;
    assert_ok(dt_run_evaluate(run, NULL, &report, &err), &err);
    assert_true(dt_run_memory(run).device < trains);
    dt_run_close(run);
    snprintf(set, sizeof set, "memory.device_budget=%llu", (unsigned long long)trains - 1);
    assert_ok(open_net(&run, "relu", "small", set, &err), &err);
    assert_int_equal(dt_run_plan(run, &err), DT_E_BUDGET);
    dt_err_clear(&err);
    assert_ok(dt_run_evaluate(run, NULL, &report, &err), &err);
    dt_run_close(run);
}

static void count_step(void *self, const dt_step_report *s)
{
    (void)s;
    ++*(int *)self;
}

static void keep_eval(void *self, const dt_eval_report *report)
{
    *(dt_eval_report *)self = *report;
}

/* An evaluation's own observer is told of that alone; its epoch is that of the last step. */
static void an_evaluation_takes_no_observer_away(void **state)
{
    (void)state;
    int steps = 0, others = 0;
    const dt_run_observer o = {.self = &steps, .step = count_step};
    const dt_run_observer other = {.self = &others, .step = count_step};
    dt_run *run = NULL;
    dt_eval_report report, told = {0};
    const dt_run_observer alone = {.self = &told, .eval = keep_eval};
    dt_err err = {0};
    assert_ok(open_net(&run, "relu", "seen", NULL, &err), &err);
    assert_ok(dt_run_begin(run, &o, &err), &err);
    assert_ok(dt_run_train(run, 2, &err), &err);
    assert_ok(dt_run_evaluate(run, &other, &report, &err), &err);
    assert_int_equal(report.epoch, 0);
    assert_ok(dt_run_train(run, 0, &err), &err);
    assert_ok(dt_run_evaluate(run, &other, &report, &err), &err);
    assert_int_equal(report.step, 8);
    assert_true(report.epoch > 0);
    assert_ok(dt_run_evaluate(run, &alone, NULL, &err), &err);
    assert_memory_equal(&told.loss, &report.loss, sizeof told.loss);
    assert_int_equal(told.step, 8);
    assert_int_equal(told.epoch, report.epoch);
    assert_int_equal(steps, 8);
    assert_int_equal(others, 0);
    assert_ok(dt_run_end(run, DT_OK, &err), &err);
    dt_run_close(run);
}

/* Tries to change the run that it is told of. */
static void meddle(void *self, const dt_step_report *s)
{
    dt_run *r = *(dt_run **)self;
    const float bias[8] = {0};
    const dt_generate_opts text = {.count = 1};
    float score[4], x[8 * 8 * 3] = {0};
    dt_weight weight;
    dt_err err = {0};
    enum { CALLS = 9 };
    for (int i = 0; i < CALLS; i++) {
        const dt_status st = i == 0   ? dt_run_plan(r, &err)
                             : i == 1 ? dt_run_take_plans(r, "plans", &err)
                             : i == 2 ? dt_run_begin(r, NULL, &err)
                             : i == 3 ? dt_run_train(r, 0, &err)
                             : i == 4 ? dt_run_save(r, &err)
                             : i == 5 ? dt_run_evaluate(r, NULL, NULL, &err)
                             : i == 6 ? dt_run_generate(r, &text, &err)
                             : i == 7 ? dt_run_write_weight(r, "c1.bias", bias, 8, &err)
                                      : dt_run_end(r, DT_OK, &err);
        assert_fails(st, DT_E_CONFIG, &err, "called by its own observer");
        dt_err_clear(&err);
    }
    assert_fails(dt_run_scores(r, x, 1, score, 4, &err), DT_E_CONFIG, &err, "its own observer");
    dt_run_close(r);
    assert_true(dt_run_weight(r, 0, &weight));
    assert_true(s->step <= dt_run_steps(r));
}

static void an_observer_changes_nothing(void **state)
{
    (void)state;
    dt_run *run = NULL;
    dt_err err = {0};
    const dt_run_observer o = {.self = &run, .step = meddle};
    assert_ok(open_net(&run, "relu", "meddled", NULL, &err), &err);
    assert_ok(dt_run_begin(run, &o, &err), &err);
    assert_ok(dt_run_end(run, dt_run_train(run, 0, &err), &err), &err);
    dt_run_close(run);
    train("relu", "unmeddled", NULL, 0);
    assert_same_weights("meddled", "unmeddled");
}

/* What failed half-way is not gone on with, as if it had been done. */
static void an_evaluation_that_failed_fails_again(void **state)
{
    (void)state;
    dt_run *run = NULL;
    dt_eval_report report;
    const long live = dti_alloc_live();
    dt_err err = {0};
    char missing[512];
    snprintf(missing, sizeof missing, "model.weights=%s", dt_temp_path("nowhere.safetensors"));
    assert_ok(open_net(&run, "relu", "never", missing, &err), &err);
    for (int i = 0; i < 2; i++) {
        dt_err_clear(&err);
        assert_fails(
            dt_run_evaluate(run, NULL, &report, &err), DT_E_DATA, &err, "nowhere.safetensors");
    }
    dt_run_close(run);
    assert_int_equal(dti_alloc_live(), live);
}

static void a_network_of_pictures_writes_no_text(void **state)
{
    (void)state;
    dt_run *run = NULL;
    dt_err err = {0};
    assert_ok(open_net(&run, "relu", "pictures", NULL, &err), &err);
    const dt_generate_opts o = {.count = 5};
    assert_fails(dt_run_generate(run, &o, &err), DT_E_CONFIG, &err, "needs data.source = text");
    dt_run_close(run);
    dt_err_clear(&err);
}

/* ---- plans of a file ---- */

/* Of a file that is none, or is not there: the run has the plans that it had, made or taken. */
static void plans_that_cannot_be_taken_leave_those_there_were(void **state)
{
    (void)state;
    dt_run *run = NULL;
    dt_err err = {0};
    train("relu", "planned", "memory.policy=vdnn_all", 0);
    put_text("torn.txt", "plan first\nno row of a plan\n");
    assert_ok(open_net(&run, "relu", "taken", NULL, &err), &err);
    for (int taken = 0; taken < 2; taken++) {
        assert_ok(dt_run_plan(run, &err), &err);
        const size_t n = dt_run_plans(run);
        const uint64_t out = dt_run_memory(run).out;
        assert_true(n > 0 && (out > 0) == (taken == 1));
        assert_int_equal(dt_run_take_plans(run, in_workspace("torn.txt"), &err), DT_E_DATA);
        assert_int_equal(dt_run_take_plans(run, in_workspace("nowhere.txt"), &err), DT_E_DATA);
        dt_err_clear(&err);
        assert_int_equal(dt_run_plans(run), n);
        assert_ok(dt_run_plan(run, &err), &err);
        assert_int_equal(dt_run_memory(run).out, out);
        assert_ok(dt_run_take_plans(run, in_workspace("planned/plan.txt"), &err), &err);
        assert_int_equal(dt_run_plans(run), 0);
    }
    dt_run_close(run);
}

/* A prompt of one's own opens no source, which would say so. */
static void nor_does_it_with_a_text(void **state)
{
    (void)state;
    dt_run *run = NULL;
    dt_err err = {0};
    char text[1024], path[600];
    const char *file = dt_temp_path("some.txt"), *sets[] = {"data.source=text", path};
    snprintf(text, sizeof text, net, "relu");
    snprintf(path, sizeof path, "data.path=%s", file);
    assert_ok(dt_write_file(file, "abab", 4, &err), &err);
    assert_ok(dt_run_open_text(&run, "net", text, strlen(text), sets, 2, &err), &err);
    const dt_generate_opts o = {.count = 5, .prompt = "a"};
    assert_fails(dt_run_generate(run, &o, &err), DT_E_CONFIG, &err, "no sequence of tokens");
    dt_run_close(run);
}

/* Asked for none, or for fewer than there are. */
static void no_more_samples_are_shown_than_asked_for(void **state)
{
    (void)state;
    static dt_sample to[4];
    dt_run *run = NULL;
    dt_err err = {0};
    assert_ok(open_net(&run, "relu", "samples", "train.eval_every=1", &err), &err);
    assert_ok(dt_run_begin(run, NULL, &err), &err);
    assert_ok(dt_run_train(run, 0, &err), &err);
    for (size_t most = 0; most <= DT_COUNT(to); most++) {
        size_t n = 9;
        assert_ok(dt_run_samples(run, to, most, &n, &err), &err);
        assert_int_equal(n, most);
    }
    assert_ok(dt_run_end(run, DT_OK, &err), &err);
    dt_run_close(run);
}

/* The trace that is asked for last is the run's, and nothing is left of the one before. */
static void a_second_trace_takes_the_place_of_the_first(void **state)
{
    (void)state;
    dt_run *run = NULL;
    dt_err err = {0};
    char path[2][512];
    for (int i = 0; i < 2; i++)
        snprintf(path[i], sizeof path[i], "%s", in_workspace(i == 0 ? "first.csv" : "last.csv"));
    assert_ok(open_net(&run, "relu", "traced", NULL, &err), &err);
    assert_ok(dt_run_trace(run, path[0], &err), &err);
    const long live = dti_alloc_live();
    assert_ok(dt_run_trace(run, path[1], &err), &err);
    assert_int_equal(dti_alloc_live(), live);
    dt_run_close(run);
}

DT_TEST_GROUP(library)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_more_samples_are_shown_than_asked_for),
        cmocka_unit_test(a_second_trace_takes_the_place_of_the_first),
        cmocka_unit_test(steps_one_by_one_give_what_all_at_once_give),
        cmocka_unit_test(a_run_leaves_nothing),
        cmocka_unit_test(a_step_is_predicted_of_plans),
        cmocka_unit_test(a_run_is_asked_and_then_trained),
        cmocka_unit_test(a_budget_that_does_not_hold_is_told_and_answered),
        cmocka_unit_test(a_run_is_stopped_and_goes_on),
        cmocka_unit_test(a_checkpoint_that_is_not_where_its_steps_lead_is_refused),
        cmocka_unit_test(a_run_that_did_not_begin_can_only_be_closed),
        cmocka_unit_test(a_run_that_begins_has_no_weights_yet),
        cmocka_unit_test(weights_are_read_as_they_are_saved),
        cmocka_unit_test(weights_that_are_written_are_those_of_the_network),
        cmocka_unit_test(weights_that_are_written_are_not_dropped),
        cmocka_unit_test(what_is_no_weight_is_not_written),
        cmocka_unit_test(weights_that_are_written_are_saved),
        cmocka_unit_test(a_weight_that_a_disk_did_not_take_is_not_trained_on),
        cmocka_unit_test(scores_are_what_an_evaluation_counts),
        cmocka_unit_test(what_is_no_run_is_refused),
        cmocka_unit_test(a_layer_from_outside_trains_as_ours_does),
        cmocka_unit_test(what_a_layer_from_outside_says_is_looked_at),
        cmocka_unit_test(a_layer_from_outside_takes_no_key_that_every_layer_has),
        cmocka_unit_test(a_layer_from_outside_may_have_all_that_is_allowed),
        cmocka_unit_test(a_source_from_outside_trains_as_ours_does),
        cmocka_unit_test(what_is_wrong_with_a_source_is_told_when_it_is_registered),
        cmocka_unit_test(a_policy_from_outside_that_rounds_is_not_exact),
        cmocka_unit_test(policies_from_outside_change_no_bit),
        cmocka_unit_test(mistakes_of_a_policy_from_outside_are_told),
        cmocka_unit_test(what_fails_without_a_word_is_named),
        cmocka_unit_test(a_run_ends_with_a_status),
        cmocka_unit_test(a_lossy_codec_from_outside_is_refused_where_values_are_bf16),
        cmocka_unit_test(what_is_wrong_with_it_is_told_when_it_is_registered),
        cmocka_unit_test(what_was_built_is_told),
        cmocka_unit_test(plans_that_cannot_be_taken_leave_those_there_were),
        cmocka_unit_test(a_network_of_text_writes),
        cmocka_unit_test(a_network_of_pictures_writes_no_text),
        cmocka_unit_test(nor_does_it_with_a_text),
        cmocka_unit_test(what_is_evaluated_need_not_fit_when_it_trains),
        cmocka_unit_test(an_evaluation_takes_no_observer_away),
        cmocka_unit_test(an_observer_changes_nothing),
        cmocka_unit_test(an_evaluation_that_failed_fails_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
