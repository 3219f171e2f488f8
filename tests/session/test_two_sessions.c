/* Two runs of different settings in one process, at the same time in two threads or step by step in
 * one: each gives the bits that it gives alone. */
#include <dnntrain.h>
#include <dnntrain/layer.h>
#include <dnntrain/policy.h>

#include <float.h>
#include <omp.h>
#include <pthread.h>
#include <string.h>

#include "engine/base/alloc.h"
#include "engine/base/sha256.h"
#include "tests/fixture/check.h"
#include "tests/fixture/sanitizer.h"

enum { STEPS = 3, PATH_BYTES = 512 };

/* The sanitizer does not know how threads of OpenMP's wait for each other. */
#if DT_THREAD_SANITIZER
enum { MOST_THREADS = 1 };
#else
enum { MOST_THREADS = 2 };
#endif

/* What a run is of; all else is its own as well: network, seed, policy, tier, precision. */
static const char *const texts[] = {
    "[model]\nimage = 12\nclasses = 4\n[data]\nsource = synthetic\nsamples = 24\n"
    "[train]\nbatch = 8\nmicro_batch = 4\nsteps = 3\nlr = 0.05\nprecision = fp32\nseed = 1\n"
    "[memory]\npolicy = vdnn_all\ntier = disk\nchecksum = on\n[device]\nkind = cpu\nthreads = 1\n"
    "[conv c1]\nout = 64\nkernel = 3\npad = 1\nbias = off\n[batchnorm b1]\n[relu r1]\n"
    "[conv c2]\nout = 64\nkernel = 3\npad = 1\n[relu r2]\n[maxpool p]\nkernel = 2\nstride = 2\n"
    "[dropout d]\nrate = 0.3\n[fc f]\nout = 4\n",
    "[model]\nname = vit_small\nimage = 16\nwidth = 16\nlayers = 2\nheads = 2\nclasses = 5\n"
    "[data]\nsource = synthetic\nsamples = 12\n[train]\nbatch = 4\nsteps = 3\noptimizer = adamw\n"
    "lr = 3e-4\nseed = 2\nclip = 1\n[memory]\npolicy = chen_sqrt,vdnn_conv\ncopy_threads = on\n"
    "[device]\nkind = cpu\nthreads = 1\n",
    "[model]\nname = lenet5\nclasses = 4\n[data]\nsource = synthetic\nsamples = 16\n"
    "[train]\nbatch = 4\nsteps = 3\nlr = 0.01\nseed = 3\n"
    "[memory]\npolicy = gist_lossless\nalgorithms = small\n[device]\nkind = cpu\nthreads = 1\n"};

/* A run of texts[which] in a folder of its own, and what came of it. */
typedef struct trained {
    size_t which;
    char set[PATH_BYTES], disk[PATH_BYTES], weights[PATH_BYTES], threads[32];
    dt_run *run;
    dt_status st;
    dt_err err;
    char sha[DT_SHA256_TEXT];
    pthread_barrier_t *together;
} trained;

static trained *prepare(size_t which, int threads)
{
    static int next;
    char name[32];
    trained *t = dt_alloc(1, sizeof *t);
    assert_non_null(t);
    snprintf(name, sizeof name, "run%d", next++);
    const char *folder = dt_temp_path(name);
    t->which = which;
    snprintf(t->set, sizeof t->set, "run.dir=%s", folder);
    snprintf(t->weights, sizeof t->weights, "%s/checkpoints/model.safetensors", folder);
    snprintf(t->threads, sizeof t->threads, "device.threads=%d", threads);
    snprintf(t->disk, sizeof t->disk, "memory.disk_path=%s", dt_temp_path("."));
    return t;
}

static void begin(trained *t)
{
    const char *sets[] = {t->set, t->disk, t->threads}, *text = texts[t->which];
    t->st = dt_run_open_text(&t->run, "net", text, strlen(text), sets, DT_COUNT(sets), &t->err);
    if (t->st == DT_OK)
        t->st = dt_run_begin(t->run, NULL, &t->err);
}

static void train(trained *t, int64_t until)
{
    if (t->st == DT_OK)
        t->st = dt_run_train(t->run, until, &t->err);
}

static void end(trained *t)
{
    uint64_t bytes;
    if (t->st == DT_OK)
        t->st = dt_run_end(t->run, DT_OK, &t->err);
    if (t->st == DT_OK)
        t->st = dti_sha256_file(t->weights, t->sha, &bytes, DT_E_DATA, &t->err);
    dt_run_close(t->run);
}

/* The bits, once it has gone well; frees it. */
static void take(trained *t, char sha[DT_SHA256_TEXT])
{
    assert_ok(t->st, &t->err);
    memcpy(sha, t->sha, sizeof t->sha);
    dt_free(t);
}

/* No assertion here: they belong to the thread that runs the tests. */
static void *whole(void *arg)
{
    trained *t = arg;
    if (t->together != NULL)
        pthread_barrier_wait(t->together);
    begin(t);
    train(t, 0);
    end(t);
    return NULL;
}

static void alone(size_t which, int threads, char sha[DT_SHA256_TEXT])
{
    trained *t = prepare(which, threads);
    whole(t);
    take(t, sha);
}

/* texts[a] and texts[b], from their opening on. */
static void at_once(size_t a, size_t b, char sha[2][DT_SHA256_TEXT])
{
    pthread_t thread[2];
    pthread_barrier_t together;
    trained *t[2] = {prepare(a, 1), prepare(b, 1)};
    assert_int_equal(pthread_barrier_init(&together, NULL, 2), 0);
    for (int i = 0; i < 2; i++) {
        t[i]->together = &together;
        assert_int_equal(pthread_create(&thread[i], NULL, whole, t[i]), 0);
    }
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_join(thread[i], NULL), 0);
    pthread_barrier_destroy(&together);
    for (int i = 0; i < 2; i++)
        take(t[i], sha[i]);
}

/* Before anything ran alone: whatever is started by the first to come is started by two. */
static void two_threads_train_what_each_trains_alone(void **state)
{
    static const size_t pairs[][2] = {{0, 1}, {1, 2}, {2, 0}, {0, 0}};
    char sha[DT_COUNT(pairs)][2][DT_SHA256_TEXT], want[DT_COUNT(texts)][DT_SHA256_TEXT];
    (void)state;
    for (size_t i = 0; i < DT_COUNT(pairs); i++)
        at_once(pairs[i][0], pairs[i][1], sha[i]);
    for (size_t i = 0; i < DT_COUNT(texts); i++)
        alone(i, 1, want[i]);
    for (size_t i = 0; i < DT_COUNT(pairs); i++)
        for (int k = 0; k < 2; k++)
            assert_string_equal(sha[i][k], want[pairs[i][k]]);
}

static int team_of(size_t which)
{
    return which == 1 ? MOST_THREADS : 1;
}

static void runs_in_turns_train_what_each_trains_alone(void **state)
{
    char want[DT_COUNT(texts)][DT_SHA256_TEXT], got[DT_SHA256_TEXT];
    trained *t[DT_COUNT(texts)];
    (void)state;
    for (size_t i = 0; i < DT_COUNT(texts); i++)
        alone(i, team_of(i), want[i]);
    for (size_t i = 0; i < DT_COUNT(texts); i++)
        begin(t[i] = prepare(i, team_of(i)));
    for (int step = 1; step <= STEPS; step++)
        for (size_t i = 0; i < DT_COUNT(texts); i++)
            train(t[i], step);
    for (size_t i = 0; i < DT_COUNT(texts); i++)
        end(t[i]);
    for (size_t i = 0; i < DT_COUNT(texts); i++) {
        take(t[i], got);
        assert_string_equal(got, want[i]);
    }
}

/* ---- policies and layers from outside ---- */

enum { REGISTERED = 6 };

static dt_status keep_it(dt_program *p, const dt_pass_env *e, dt_err *err)
{
    (void)p, (void)e, (void)err;
    return DT_OK;
}

static dt_status as_its_input(
    const void *options, const dt_extent *x, int n_x, dt_layer_shape *s, dt_err *err)
{
    (void)options, (void)n_x, (void)err;
    s->y = x[0];
    return DT_OK;
}

static void copy(const dt_layer_job *j)
{
    const dt_extent e = j->extent[0];
    memcpy(j->y, j->x[0], (size_t)(j->n * e.h * e.w * e.c) * sizeof(float));
}

static void copy_back(const dt_layer_job *j)
{
    const dt_extent e = j->extent[0];
    if (j->dx[0] != NULL)
        memcpy(j->dx[0], j->dy, (size_t)(j->n * e.h * e.w * e.c) * sizeof(float));
}

/* Names that both threads register: the policy of number i, and the layer. */
static const char *const names[REGISTERED] = {
    "twin_a", "twin_b", "twin_c", "twin_d", "twin_e", "twin_f"};

/* How many of each kind were this thread's, and whether a run of what was registered plans. */
typedef struct registrar {
    int policies, layers;
    dt_status st;
    dt_err err;
    pthread_barrier_t *together;
} registrar;

static void register_one(registrar *r, const char *name)
{
    dt_err taken = {0};
    const dt_policy_spec p = {.name = name, .summary = "-", .exact = true, .pass = keep_it};
    const dt_layer_spec l = {.name = name,
        .summary = "-",
        .min_x = 1,
        .max_x = 1,
        .infer = as_its_input,
        .forward = copy,
        .backward = copy_back};
    r->policies += dt_register_policy(&p, &taken) == DT_OK;
    r->layers += dt_register_layer(&l, &taken) == DT_OK;
}

static dt_status plan_with(const char *name, dt_err *err)
{
    char text[512];
    dt_run *run = NULL;
    snprintf(text, sizeof text,
        "[model]\nimage = 8\nclasses = 4\n[data]\nsource = synthetic\nsamples = 8\n"
        "[train]\nbatch = 4\nsteps = 1\nprecision = fp32\n[memory]\npolicy = %s\n"
        "[device]\nkind = cpu\nthreads = 1\n[%s one]\n[fc f]\nout = 4\n",
        name, name);
    dt_status st = dt_run_open_text(&run, "net", text, strlen(text), NULL, 0, err);
    if (st == DT_OK)
        st = dt_run_plan(run, err);
    dt_run_close(run);
    return st;
}

static void *register_all(void *arg)
{
    registrar *r = arg;
    pthread_barrier_wait(r->together);
    for (int i = 0; i < REGISTERED && r->st == DT_OK; i++) {
        register_one(r, names[i]);
        r->st = plan_with(names[i], &r->err);
    }
    return NULL;
}

/* Each name is taken once, and whoever comes second finds it whole. */
static void two_threads_register_what_both_use(void **state)
{
    static registrar r[2];
    pthread_t thread[2];
    pthread_barrier_t together;
    (void)state;
    assert_int_equal(pthread_barrier_init(&together, NULL, 2), 0);
    for (int i = 0; i < 2; i++) {
        r[i].together = &together;
        assert_int_equal(pthread_create(&thread[i], NULL, register_all, &r[i]), 0);
    }
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_join(thread[i], NULL), 0);
    pthread_barrier_destroy(&together);
    for (int i = 0; i < 2; i++)
        assert_ok(r[i].st, &r[i].err);
    assert_int_equal(r[0].policies + r[1].policies, REGISTERED);
    assert_int_equal(r[0].layers + r[1].layers, REGISTERED);
}

/* ---- what the host program has set ---- */

/* Whether the calling thread computes with denormal numbers. */
static bool has_denormals(void)
{
    volatile float least = FLT_MIN;
    volatile float half = least / 2;
    volatile float twice = half * 2;
    return half != 0 && twice == least;
}

static int threads_with_denormals(void)
{
    const int dynamic = omp_get_dynamic();
    int n = 0;
    omp_set_dynamic(0);
#pragma omp parallel num_threads(MOST_THREADS)
    {
#pragma omp atomic
        n += has_denormals();
    }
    omp_set_dynamic(dynamic);
    return n;
}

static void assert_as_set(int threads)
{
    assert_int_equal(omp_get_max_threads(), threads);
    assert_int_equal(omp_get_dynamic(), 1);
    assert_true(has_denormals());
    assert_int_equal(threads_with_denormals(), MOST_THREADS);
}

typedef struct seen {
    int steps, threads;
    bool denormals;
} seen;

static void look(void *self, const dt_step_report *report)
{
    seen *s = self;
    (void)report;
    s->steps++;
    s->threads = omp_get_max_threads();
    s->denormals = s->denormals || has_denormals();
}

static void the_processor_is_left_as_it_was(void **state)
{
    (void)state;
    const int had = omp_get_max_threads(), dynamic = omp_get_dynamic(), threads = had + 2;
    seen now = {0};
    const dt_run_observer o = {.self = &now, .step = look};
    dt_eval_report report;
    char sets[2][PATH_BYTES];
    trained *t = prepare(2, MOST_THREADS);
    const char *bad[] = {"train.precision=tf32", t->set};
    snprintf(sets[0], PATH_BYTES, "%s", t->set);
    snprintf(sets[1], PATH_BYTES, "%s", t->threads);
    const char *good[] = {sets[0], sets[1]};
    const char *text = texts[2];
    static const char no_network[] =
        "[model]\nimage = 8\nclasses = 2\n[conv c]\ninput = nobody\nout = 2\nkernel = 1\n";
    dt_run *run = NULL;
    dt_err err = {0};
    omp_set_num_threads(threads);
    omp_set_dynamic(1);
    assert_as_set(threads);
    assert_fails(dt_run_open_text(&run, "net", text, strlen(text), bad, 2, &err), DT_E_CONFIG, &err,
        "tf32 is of cuda devices");
    assert_as_set(threads);
    dt_run_close(run);
    assert_as_set(threads);
    dt_err_clear(&err);
    assert_fails(dt_run_open_text(&run, "net", no_network, strlen(no_network), good, 2, &err),
        DT_E_CONFIG, &err, "nobody");
    assert_as_set(threads);
    dt_run_close(run);
    assert_as_set(threads);
    dt_err_clear(&err);
    assert_ok(dt_run_open_text(&run, "net", text, strlen(text), good, 2, &err), &err);
    assert_as_set(threads);
    assert_ok(dt_run_plan(run, &err), &err);
    assert_as_set(threads);
    assert_ok(dt_run_begin(run, &o, &err), &err);
    assert_as_set(threads);
    assert_ok(dt_run_train(run, 2, &err), &err);
    assert_as_set(threads);
    assert_int_equal(now.steps, 2);
    assert_int_equal(now.threads, MOST_THREADS);
    assert_false(now.denormals);
    assert_ok(dt_run_save(run, &err), &err);
    assert_as_set(threads);
    assert_ok(dt_run_save_weights(run, dt_temp_path("weights.st"), &err), &err);
    assert_as_set(threads);
    assert_ok(dt_run_evaluate(run, NULL, &report, &err), &err);
    assert_as_set(threads);
    assert_ok(dt_run_end(run, DT_OK, &err), &err);
    assert_as_set(threads);
    dt_run_close(run);
    assert_as_set(threads);
    omp_set_num_threads(had);
    omp_set_dynamic(dynamic);
    dt_free(t);
}

DT_TEST_GROUP(two_sessions)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_threads_train_what_each_trains_alone),
        cmocka_unit_test(runs_in_turns_train_what_each_trains_alone),
        cmocka_unit_test(two_threads_register_what_both_use),
        cmocka_unit_test(the_processor_is_left_as_it_was),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
