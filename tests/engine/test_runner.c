/* The runner: its arena ends at a page that kills; a checked run finds every byte written where
 * none may be and measures what was planned; running allocates nothing. */
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "engine/base/alloc.h"
#include "engine/base/numbers.h"
#include "engine/driver.h"
#include "layers/onednn/onednn.h"
#include "engine/base/cpu.h"
#include "layers/cpu/cpu.h"
#include "layers/weighted/fc.h"
#include "layers/plain.h"
#include "memory/codec.h"
#include "models/model.h"
#include "tests/fixture/check.h"
#include "tests/fixture/fake_tier.h"
#include "tests/fixture/planned.h"
#include "tests/fixture/random_graph.h"
#include "tests/fixture/sanitizer.h"
#include "tests/fixture/state.h"
#include "tests/fixture/trainee.h"
#include "layers/registry.h"
#include "memory/codec_op.h"

/* Allocations of the whole process while armed, its libraries included. Volatile, because compilers
 * know that malloc looks at nothing. */
static volatile struct watch {
    bool armed;
    int64_t calls;
    size_t largest;
} watch;

#if !DT_OWN_HEAP && defined(__GLIBC__)
#define WATCHED 1
extern void *__libc_malloc(size_t n);
extern void *__libc_calloc(size_t n, size_t each);
extern void *__libc_realloc(void *p, size_t n);
extern void *__libc_memalign(size_t align, size_t n);

static void note(size_t n)
{
    if (!watch.armed)
        return;
    __atomic_add_fetch(&watch.calls, 1, __ATOMIC_RELAXED);
    if (n > watch.largest)
        watch.largest = n;
}

void *malloc(size_t n)
{
    note(n);
    return __libc_malloc(n);
}

void *calloc(size_t n, size_t each)
{
    note(n * each);
    return __libc_calloc(n, each);
}

void *realloc(void *p, size_t n)
{
    note(n);
    return __libc_realloc(p, n);
}

void *aligned_alloc(size_t align, size_t n)
{
    note(n);
    return __libc_memalign(align, n);
}

int posix_memalign(void **p, size_t align, size_t n)
{
    note(n);
    *p = __libc_memalign(align, n);
    return *p != NULL ? 0 : 12; /* ENOMEM */
}
#else
#define WATCHED 0
#endif

/* What a child process that writes one byte of an arena of so many bytes dies of; 0: of nothing. */
static int signal_of_write(size_t bytes, size_t at)
{
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        const dt_driver *d = &dt_cpu_driver;
        void *self, *base;
        signal(SIGSEGV, SIG_DFL); /* a sanitizer's handler would exit */
        if (d->open(0, &self, NULL) != DT_OK || d->reserve(self, bytes, &base, NULL) != DT_OK)
            _exit(1);
        *((volatile unsigned char *)base + at) = 1;
        _exit(0);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) || WEXITSTATUS(status) == 0);
    return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

static void a_write_past_the_arena_dies(void **state)
{
    (void)state;
    static const size_t bytes[] = {64, 100, 4096, 4 << 20};
    for (size_t i = 0; i < DT_COUNT(bytes); i++) {
        const size_t end = dt_align_up(bytes[i], DT_ALIGN);
        assert_int_equal(signal_of_write(bytes[i], end), SIGSEGV);
        assert_int_equal(signal_of_write(bytes[i], end - 1), 0);
    }
}

static void an_arena_is_aligned_and_says_when_it_is_too_large(void **state)
{
    (void)state;
    const dt_driver *d = &dt_cpu_driver;
    void *self, *base;
    dt_err err = {0};
    assert_ok(d->open(0, &self, &err), &err);
    assert_ok(d->reserve(self, 1000, &base, &err), &err);
    assert_int_equal((uintptr_t)base % DT_ALIGN, 0);
    d->release(self, base);
    assert_fails(d->reserve(self, SIZE_MAX / 2 + 1, &base, &err), DT_E_NOMEM, &err, "any machine");
    assert_fails(d->reserve(self, (size_t)1 << 60, &base, &err), DT_E_NOMEM, &err,
        "1,152,921,504,606,846,976 bytes");
    assert_null(base);
    d->close(self);
}

/* A network on a stage with the plans of a training run. */
typedef struct session {
    dt_stage at;
    int64_t n;
    float *x; /* two batches */
    int32_t *labels;
} session;

enum { SLACK = 1 << 16 }; /* of the arena, behind every plan */

static void fill_batches(session *s)
{
    const size_t image = (size_t)dt_shape_sample(&s->at.graph->input), n = 2 * (size_t)s->n;
    dt_dice d = {99, 0}, label = {98, 0};
    s->x = dt_alloc(n * image, sizeof *s->x);
    s->labels = dt_alloc(n, sizeof *s->labels);
    assert_true(s->x != NULL && s->labels != NULL);
    for (size_t i = 0; i < n * image; i++)
        s->x[i] = (float)dt_roll(&d, 2001) / 1000.0F - 1.0F;
    for (size_t i = 0; i < n; i++)
        s->labels[i] = (int32_t)dt_roll(&label, (uint32_t)s->at.graph->classes);
}

/* Takes the graph. */
static session open_session(dt_graph *g, int64_t n, int64_t home_n, uint64_t seed)
{
    const dt_stage_opts o = {.kinds = (1u << DT_PROGRAM_KINDS) - 1,
        .batch = n,
        .home_n = home_n,
        .slack = SLACK,
        .seed = seed,
        .threads = dt_cpu_setup(0)};
    session s = {.at = dt_stage_open(g, &o), .n = n};
    fill_batches(&s);
    return s;
}

static void close_session(session *s)
{
    dt_stage_close(&s->at);
    dt_free(s->x);
    dt_free(s->labels);
}

static dt_run_args args_of(const session *s, int64_t step_labels)
{
    return (dt_run_args){
        .batch = {s->x, s->labels, s->n}, .step_labels = step_labels, .hyper = {0.1F, 0.9F, 0.0F}};
}

static void run(session *s, dt_program_kind kind, const dt_run_args *a)
{
    dt_err err = {0};
    assert_ok(dt_runner_run(s->at.runner, s->at.id[kind], a, &err), &err);
}

static dt_graph *model(const char *name, int64_t image, int64_t width)
{
    dt_graph *g;
    dt_err err = {0};
    const dt_model_opts o = {.image = image, .width = width, .dropout = -1};
    const dt_model_desc *m = dt_model_find(name);
    assert_non_null(m);
    assert_ok(dt_model_build(m, &o, &g, &err), &err);
    return g;
}

/* A relu whose forward also changes one byte where it may not. */
static struct stray {
    bool on, outside; /* strays; is the host program's */
    int64_t at;       /* from the beginning of its output */
} stray;

static dt_status stray_run(const dt_call *c, void *state, const dt_args *a, dt_err *err)
{
    DT_CHECK(dt_relu_cpu.run(c, state, a, err));
    if (stray.on && c->form == DT_FORWARD) {
        volatile unsigned char *p = (unsigned char *)a->port[DT_Y] + stray.at;
        *p = (unsigned char)(*p + 1);
    }
    return DT_OK;
}

/* bn - stray - fc - loss on 3x3x3 images: 216 bytes a value of batch 2, and 40 of padding. */
enum { STRAY_BYTES = 216, STRAY_PADDED = 256 };

static session open_stray(void)
{
    static dt_kernels kernels;
    static dt_layer_desc layer;
    dt_graph *g;
    dt_err err = {0};
    int32_t v = DT_GRAPH_INPUT;
    const dt_fc fc = {3, true};
    kernels = dt_relu_cpu;
    kernels.run = stray_run;
    layer = dt_layer_relu;
    layer.cpu = &kernels;
    layer.outside = stray.outside;
    assert_ok(dt_graph_create(&g, "stray", (dt_shape){1, 3, 3, 3}, 3, &err), &err);
    assert_ok(dt_graph_add(g, &dt_layer_relu, "relu", NULL, &v, 1, &v, &err), &err);
    assert_ok(dt_graph_add(g, &layer, "stray", NULL, &v, 1, &v, &err), &err);
    assert_ok(dt_graph_add(g, &dt_layer_fc, "fc", &fc, &v, 1, &v, &err), &err);
    assert_ok(dt_graph_add(g, &dt_layer_cross_entropy, "loss", NULL, &v, 1, &v, &err), &err);
    return open_session(g, 2, 2, 1);
}

static void a_good_kernel_passes_the_checked_run(void **state)
{
    (void)state;
    session s = open_stray();
    const dt_run_args a = args_of(&s, 2);
    dt_measure m;
    dt_err err = {0};
    stray.on = false;
    assert_ok(dt_runner_check(s.at.runner, s.at.id[DT_PROGRAM_FIRST], &a, &m, &err), &err);
    assert_int_equal(m.peak, s.at.peak[DT_PROGRAM_FIRST]);
    stray.on = true; /* it may change its own bytes */
    stray.at = STRAY_BYTES - 1;
    assert_ok(dt_runner_check(s.at.runner, s.at.id[DT_PROGRAM_FIRST], &a, &m, &err), &err);
    close_session(&s);
}

static void a_byte_written_beside_a_tensor_is_found_at_its_op(void **state)
{
    (void)state;
    static const int64_t wrong[] = {
        -1, STRAY_BYTES, STRAY_BYTES + 1, STRAY_PADDED - 1, STRAY_PADDED, -64};
    session s = open_stray();
    const dt_run_args a = args_of(&s, 2);
    for (size_t i = 0; i < DT_COUNT(wrong); i++) {
        dt_measure m;
        dt_err err = {0};
        stray.on = true;
        stray.at = wrong[i];
        assert_fails(dt_runner_check(s.at.runner, s.at.id[DT_PROGRAM_FIRST], &a, &m, &err),
            DT_E_INTERNAL, &err, "stray.f wrote outside stray.y");
    }
    close_session(&s);
}

static void a_layer_from_outside_that_strays_is_named(void **state)
{
    (void)state;
    dt_measure m;
    dt_err err = {0};
    stray = (struct stray){.on = true, .outside = true, .at = STRAY_BYTES};
    session s = open_stray();
    const dt_run_args a = args_of(&s, 2);
    assert_fails(dt_runner_check(s.at.runner, s.at.id[DT_PROGRAM_FIRST], &a, &m, &err), DT_E_CONFIG,
        &err, "layer 'stray' (relu), which the host program has registered, wrote outside stray.y");
    close_session(&s);
    stray = (struct stray){0};
}

static void a_byte_written_far_from_any_tensor_is_found_in_the_end(void **state)
{
    (void)state;
    session s = open_stray();
    const dt_run_args a = args_of(&s, 2);
    dt_measure m;
    dt_err err = {0};
    stray.on = true;
    /* Counted from a tensor above the persistent ones, this is behind all tensors, in the slack. */
    stray.at = (int64_t)(s.at.peak[DT_PROGRAM_FIRST] - s.at.map->bytes);
    assert_true(stray.at < SLACK);
    assert_fails(dt_runner_check(s.at.runner, s.at.id[DT_PROGRAM_FIRST], &a, &m, &err),
        DT_E_INTERNAL, &err, "where no tensor lies");
    close_session(&s);
}

static void measured_memory_is_planned_memory(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        int64_t image, width, n;
    } cases[] = {
        {"lenet5", 0, 0, 4}, {"resnet20", 32, 0, 4}, {"vgg11", 224, 4, 2}, {"resnet18", 32, 8, 2}};
    for (size_t i = 0; i < DT_COUNT(cases); i++) {
        session s = open_session(
            model(cases[i].name, cases[i].image, cases[i].width), cases[i].n, cases[i].n, 1);
        const dt_run_args a = args_of(&s, s.n);
        for (int k = 0; k < DT_PROGRAM_KINDS; k++) {
            dt_measure m;
            dt_err err = {0};
            assert_ok(dt_runner_check(s.at.runner, s.at.id[k], &a, &m, &err), &err);
            if (k == DT_PROGRAM_UPDATE) /* it leaves the metrics, which come last, alone */
                assert_true(m.peak <= s.at.peak[k] && m.peak + DT_ALIGN >= s.at.peak[k]);
            else
                assert_int_equal(m.peak, s.at.peak[k]);
        }
        close_session(&s);
    }
}

/* As where a run plans every epoch anew: no number is left over, and after the first no byte; nor
 * are they of plans that were refused. */
static void plans_that_are_dropped_leave_nothing(void **state)
{
    (void)state;
    session s = open_session(model("lenet5", 0, 0), 4, 4, 1);
    dt_program *p = dt_program_on(s.at.graph, s.at.map, DT_PROGRAM_FIRST, s.n);
    dt_plan *plan = dt_planned_by(p, "keep_all", "greedy");
    const dt_run_args a = args_of(&s, s.n);
    size_t bytes = 0;
    int first = -1;
    for (int i = 0; i < 4; i++) {
        int id;
        dt_measure m;
        dt_err err = {0};
        assert_ok(dt_runner_add(s.at.runner, plan, &id, &err), &err);
        first = i == 0 ? id : first;
        assert_int_equal(id, first);
        assert_ok(dt_runner_check(s.at.runner, id, &a, &m, &err), &err);
        assert_int_equal(m.peak, plan->peak);
        dt_runner_drop(s.at.runner, id);
        bytes = i == 0 ? dti_alloc_bytes() : bytes;
        assert_int_equal(dti_alloc_bytes(), bytes);
    }
    for (long k = 1;; k++) {
        int id;
        dt_err err = {0};
        dti_alloc_fail_at(k);
        const dt_status st = dt_runner_add(s.at.runner, plan, &id, &err);
        if (dti_alloc_fail_at(0) > 0) {
            assert_true(k > 10);
            assert_ok(st, &err);
            assert_int_equal(id, first);
            dt_runner_drop(s.at.runner, id);
            break;
        }
        assert_fails(st, DT_E_NOMEM, &err, "no memory");
        assert_int_equal(dti_alloc_bytes(), bytes);
    }
    const dt_run_args step = args_of(&s, s.n);
    run(&s, DT_PROGRAM_FIRST, &step); /* those before it are as they were */
    dt_plan_destroy(plan);
    dt_program_destroy(p);
    close_session(&s);
}

/* One step: two micro-batches, update, evaluation. */
static void one_step(session *s, int64_t step)
{
    dt_run_args a = args_of(s, 2 * s->n);
    a.step = step;
    run(s, DT_PROGRAM_FIRST, &a);
    a.batch.x = s->x + s->n * dti_runner_sample(s->at.runner);
    a.batch.labels = s->labels + s->n;
    a.sample0 = s->n;
    run(s, DT_PROGRAM_AGAIN, &a);
    run(s, DT_PROGRAM_UPDATE, &a);
    run(s, DT_PROGRAM_EVAL, &a);
}

/* Small bookkeeping of the libraries aside, which they free before they return. */
enum { BOOKKEEPING = 1024 };

static void watch_begin(void)
{
    dti_alloc_fail_at(1); /* ours would fail, and so would the step */
    watch.calls = 0;
    watch.largest = 0;
    watch.armed = true;
}

static void watch_end(long live)
{
    watch.armed = false;
    void *p = dt_alloc(1, 1);
    assert_null(p); /* the trap was set all the time */
    dti_alloc_fail_at(0);
    assert_int_equal(dti_alloc_live(), live);
    assert_true(watch.largest <= BOOKKEEPING);
    if (WATCHED) {
        watch.armed = true;
        void *volatile seen = malloc(BOOKKEEPING + 1);
        free(seen);
        watch.armed = false;
        assert_int_equal(watch.largest, BOOKKEEPING + 1); /* it would have been seen */
    }
}

static void a_step_allocates_nothing(void **state)
{
    (void)state;
    if (!dti_onednn_avx512())
        skip();
    session s = open_session(model("resnet20", 32, 0), 4, 4, 1);
    one_step(&s, 0);
    const long live = dti_alloc_live();
    watch_begin();
    one_step(&s, 1);
    watch_end(live);
    close_session(&s);
}

/* Nor do copies, on threads or not, packed or not. */
static void a_step_with_copies_allocates_nothing(void **state)
{
    (void)state;
    static const dt_tier tiers[] = {DT_TIER_HOST, DT_TIER_HOST, DT_TIER_DISK, DT_TIER_DISK};
    if (!dti_onednn_avx512())
        skip();
    for (size_t i = 0; i < 2 * DT_COUNT(tiers); i++) {
        dt_trainee_opts o = {.tier = tiers[i / 2],
            .desc = tiers[i / 2] == DT_TIER_DISK ? &dt_fake_tier : NULL,
            .codec = i % 2 == 0 ? NULL : dti_codec_find("zvc"),
            .density = 1,
            .copy_threads = i / 2 % 2 == 1};
        dt_trainee t = dt_trainee_open(dt_trainee_resnet(), &o);
        dt_err err = {0};
        assert_ok(dt_trainee_step(&t, 0, &err), &err);
        const long live = dti_alloc_live();
        watch_begin();
        assert_ok(dt_trainee_step(&t, 1, &err), &err);
        watch_end(live);
        dt_trainee_close(&t);
    }
}

static void parameters_come_back_as_they_were_put(void **state)
{
    (void)state;
    static const char *const names[] = {"lenet5", "resnet20"};
    for (size_t k = 0; k < DT_COUNT(names); k++) {
        session s = open_session(model(names[k], 0, 0), 3, 3, 1);
        dt_err err = {0};
        int seen = 0;
        for (size_t i = 0; i < s.at.map->n; i++) {
            const dt_home *h = &s.at.map->home[i];
            if (h->port != DT_P)
                continue;
            const int64_t n = dt_param_count(&s.at.graph->node[h->node].info.param[h->param]);
            float *in = dt_alloc((size_t)n, sizeof *in), *out = dt_alloc((size_t)n, sizeof *out);
            assert_true(in != NULL && out != NULL);
            for (int64_t e = 0; e < n; e++)
                in[e] = (float)e + 0.5F;
            assert_ok(dt_values_put(s.at.runner, (int32_t)i, in, &err), &err);
            assert_ok(dt_values_get(s.at.runner, (int32_t)i, out, &err), &err);
            assert_memory_equal(in, out, (size_t)n * sizeof *in);
            dt_free(in);
            dt_free(out);
            seen++;
        }
        assert_true(seen >= 10);
        close_session(&s);
    }
}

/* All parameters in PyTorch's layout, one behind the other; freed by the caller. */
static float *parameters(session *s, size_t *n)
{
    dt_err err = {0};
    *n = 0;
    for (size_t i = 0; i < s->at.map->n; i++)
        if (s->at.map->home[i].port == DT_P)
            *n += s->at.map->home[i].bytes / sizeof(float); /* no less than its elements */
    float *all = dt_alloc(*n, sizeof *all);
    assert_non_null(all);
    size_t at = 0;
    for (size_t i = 0; i < s->at.map->n; i++) {
        const dt_home *h = &s->at.map->home[i];
        if (h->port != DT_P)
            continue;
        assert_ok(dt_values_get(s->at.runner, (int32_t)i, all + at, &err), &err);
        at += (size_t)dt_param_count(&s->at.graph->node[h->node].info.param[h->param]);
    }
    *n = at;
    return all;
}

static float *initial(uint64_t seed, int64_t home_n, size_t *n)
{
    session s = open_session(model("resnet20", 0, 0), home_n, home_n, seed);
    float *all = parameters(&s, n);
    close_session(&s);
    return all;
}

static void initial_values_depend_on_the_seed_alone(void **state)
{
    (void)state;
    size_t n[4];
    float *v[4] = {
        initial(1, 4, &n[0]), initial(1, 4, &n[1]), initial(1, 2, &n[2]), initial(2, 4, &n[3])};
    double sum = 0;
    for (int i = 1; i < 4; i++)
        assert_int_equal(n[i], n[0]);
    assert_memory_equal(v[1], v[0], n[0] * sizeof(float));
    assert_memory_equal(v[2], v[0], n[0] * sizeof(float));
    assert_memory_not_equal(v[3], v[0], n[0] * sizeof(float));
    for (size_t i = 0; i < n[0]; i++)
        sum += (double)v[0][i] * (double)v[0][i];
    assert_true(sum > 0 && sum < 1e6);
    for (int i = 0; i < 4; i++)
        dt_free(v[i]);
}

/* A step's gradients in plain layout, of four samples in one micro-batch or two. */
static float *gradients(int64_t micro, size_t *n)
{
    session s = open_session(model("lenet5", 0, 0), micro, 4, 1);
    dt_run_args a = args_of(&s, 4);
    run(&s, DT_PROGRAM_FIRST, &a);
    a.batch.x += micro * dti_runner_sample(s.at.runner);
    a.batch.labels += micro;
    a.sample0 = micro;
    if (micro < 4)
        run(&s, DT_PROGRAM_AGAIN, &a);
    const dt_metrics *m = dt_runner_home(s.at.runner, s.at.map->metrics);
    assert_int_equal(m->count, 4);
    for (size_t i = 0; i < s.at.map->n; i++) { /* gradients live as their parameters do */
        const dt_home *h = &s.at.map->home[i];
        const int32_t g = dti_map_find(s.at.map, h->node, h->param, DT_DP);
        if (h->port == DT_P && g >= 0)
            memcpy(
                dt_runner_home(s.at.runner, (int32_t)i), dt_runner_home(s.at.runner, g), h->bytes);
    }
    float *all = parameters(&s, n);
    close_session(&s);
    return all;
}

static void micro_batches_add_up(void **state)
{
    (void)state;
    size_t n[2];
    float *whole = gradients(4, &n[0]), *halves = gradients(2, &n[1]);
    assert_int_equal(n[0], n[1]);
    assert_true(dt_relative_error(halves, whole, n[0]) < 1e-5);
    assert_memory_not_equal(halves, whole, n[0] * sizeof *whole); /* or nothing was added up */
    dt_free(whole);
    dt_free(halves);
}

static void evaluation_leaves_parameters_and_statistics_alone(void **state)
{
    (void)state;
    session s = open_session(model("resnet20", 0, 0), 4, 4, 1);
    size_t n;
    const dt_run_args a = args_of(&s, 4);
    float *before = parameters(&s, &n);
    run(&s, DT_PROGRAM_FIRST, &a);
    run(&s, DT_PROGRAM_EVAL, &a);
    float *after = parameters(&s, &n);
    assert_memory_equal(after, before, n * sizeof *after); /* forward and backward do not, either */
    run(&s, DT_PROGRAM_UPDATE, &a);
    dt_free(after);
    after = parameters(&s, &n);
    assert_memory_not_equal(after, before, n * sizeof *after);
    dt_free(before);
    dt_free(after);
    close_session(&s);
}

static void a_plan_larger_than_the_arena_is_refused(void **state)
{
    (void)state;
    session s = open_session(model("lenet5", 0, 0), 2, 2, 1);
    dt_program *p = dt_program_on(s.at.graph, s.at.map, DT_PROGRAM_FIRST, 2);
    dt_plan *large = dt_planned_by(p, "keep_all", "greedy");
    dt_err err = {0};
    dt_runner *r;
    int id;
    const dt_runner_opts o = {.graph = s.at.graph,
        .map = s.at.map,
        .find_op = dt_layer_find,
        .codecs = &dt_codecs,
        .arena_bytes = large->peak - 1};
    assert_ok(dt_runner_create(&r, &o, &err), &err);
    assert_fails(dt_runner_add(r, large, &id, &err), DT_E_INTERNAL, &err, "larger than the arena");
    dt_runner_destroy(r);
    dt_plan_destroy(large);
    dt_program_destroy(p);
    close_session(&s);
}

/* The scratch of its plan is for so many threads as there were when it was made. */
static void a_thread_with_another_team_may_not_run_a_plan(void **state)
{
    (void)state;
    session s = open_session(model("lenet5", 0, 0), 2, 2, 1);
    dt_err err = {0};
    dt_measure m;
    const dt_run_args a = args_of(&s, 2);
    const int threads = dt_cpu_threads();
    run(&s, DT_PROGRAM_FIRST, &a);
    (void)dt_cpu_setup(threads + 1);
    if (dt_cpu_threads() == threads)
        skip();
    assert_fails(dt_runner_run(s.at.runner, s.at.id[DT_PROGRAM_FIRST], &a, &err), DT_E_CONFIG, &err,
        "but the thread that runs it has");
    memset(&err, 0, sizeof err);
    assert_fails(dt_runner_check(s.at.runner, s.at.id[DT_PROGRAM_FIRST], &a, &m, &err), DT_E_CONFIG,
        &err, "set OMP_NUM_THREADS=");
    (void)dt_cpu_setup(threads);
    run(&s, DT_PROGRAM_FIRST, &a);
    close_session(&s);
}

/* One thing of a plan that is not as this run has it. */
static void other_threads(dt_plan *p)
{
    p->threads++;
}

static void other_streams(dt_plan *p)
{
    p->stream[p->n_stream++] = p->stream[1];
}

static void other_network(dt_plan *p)
{
    p->net[0] = 'x';
}

static void other_device(dt_plan *p)
{
    snprintf(p->device, sizeof p->device, "cuda");
}

static void other_home(dt_plan *p)
{
    p->home_n++;
}

static void other_parameter(dt_plan *p)
{
    p->tensor[0].bytes += DT_ALIGN;
}

static void other_layer(dt_plan *p)
{
    p->node[0].name[0] = 'x';
}

static void other_options(dt_plan *p)
{
    p->text[p->node[0].opts] = 'x';
}

static void other_kernel(dt_plan *p)
{
    snprintf(p->op[0].layer, sizeof p->op[0].layer, "fc");
}

static void other_scratch(dt_plan *p)
{
    for (size_t i = 0; i < p->n_arg; i++)
        if (p->arg[i].port == DT_WORK) {
            p->tensor[p->arg[i].tensor].bytes--;
            return;
        }
    fail_msg("no op has scratch");
}

static void other_program(dt_plan *p)
{
    p->program[0] = 'x';
}

static void a_plan_that_is_not_this_runs_is_refused_and_told_why(void **state)
{
    (void)state;
    static const struct wrong {
        void (*edit)(dt_plan *p);
        dt_status st;
        const char *says;
    } wrong[] = {
        {other_threads, DT_E_CONFIG, "set OMP_NUM_THREADS="},
        {other_streams, DT_E_CONFIG, "has a stream o, and this run has none"},
        {other_network, DT_E_CONFIG, "is of network 'xenet5', not of 'lenet5'"},
        {other_device, DT_E_CONFIG, "for device 'cuda', but this run is on 'cpu'"},
        {other_home, DT_E_CONFIG, "laid out for micro-batches of 3, but this run"},
        {other_parameter, DT_E_CONFIG, "the plan keeps 'conv1.weight'"},
        {other_layer, DT_E_CONFIG, "has a layer 'xonv1', but network 'lenet5' has none"},
        {other_options, DT_E_CONFIG, "layer 'conv1' is planned for xut="},
        {other_kernel, DT_E_CONFIG, "planned as 'fc', but here it is 'conv'"},
        {other_scratch, DT_E_CONFIG, "bytes of scratch, but here it wants"},
        {other_program, DT_E_CONFIG, "'xirst' is no program"},
    };
    session s = open_session(model("lenet5", 0, 0), 2, 2, 1);
    dt_program *p = dt_program_on(s.at.graph, s.at.map, DT_PROGRAM_FIRST, 2);
    int id;
    for (size_t i = 0; i < DT_COUNT(wrong); i++) {
        dt_plan *mine = dt_planned_by(p, "keep_all", "greedy");
        dt_err err = {0};
        wrong[i].edit(mine);
        assert_fails(dt_runner_add(s.at.runner, mine, &id, &err), wrong[i].st, &err, wrong[i].says);
        dt_plan_destroy(mine);
    }
    dt_program_destroy(p);
    close_session(&s);
}

/* A text does not tell it, and costs go by it. */
static void a_plan_that_suits_is_told_what_its_layers_compute(void **state)
{
    (void)state;
    enum { MOST_LAYERS = 32 };
    session s = open_session(model("lenet5", 0, 0), 2, 2, 1);
    dt_program *p = dt_program_on(s.at.graph, s.at.map, DT_PROGRAM_FIRST, 2);
    dt_plan *mine = dt_planned_by(p, "keep_all", "greedy");
    dt_work lowered[MOST_LAYERS];
    dt_err err = {0};
    assert_in_range(mine->n_node, 1, MOST_LAYERS);
    for (size_t i = 0; i < mine->n_node; i++) {
        lowered[i] = mine->node[i].work;
        mine->node[i].work = DT_WORK_MATRIX;
    }
    assert_int_equal(lowered[0], DT_WORK_CONV);
    assert_ok(
        dt_plan_suits(mine, s.at.graph, s.at.map, &(dt_context){0}, dt_cpu_threads(), &err), &err);
    for (size_t i = 0; i < mine->n_node; i++)
        assert_int_equal(mine->node[i].work, lowered[i]);
    dt_plan_destroy(mine);
    dt_program_destroy(p);
    close_session(&s);
}

static dt_graph *deep_chain(int layers)
{
    dt_graph *g;
    dt_err err = {0};
    int32_t at = DT_GRAPH_INPUT;
    char name[32];
    assert_ok(dt_graph_create(&g, "deep", (dt_shape){1, 1, 1, 2}, 2, &err), &err);
    for (int i = 0; i < layers; i++) {
        snprintf(name, sizeof name, "r%d", i);
        assert_ok(dt_graph_add(g, &dt_layer_relu, name, NULL, &at, 1, &at, &err), &err);
    }
    assert_ok(dt_graph_add(g, &dt_layer_cross_entropy, "loss", NULL, &at, 1, &at, &err), &err);
    return g;
}

/* Layers stand in a plan in any order, and none is looked for among all others. */
static void layers_of_a_plan_are_found_in_any_order(void **state)
{
    (void)state;
    enum { LAYERS = 80000 };
    static const double most_seconds = 2;
    dt_err err = {0};
    dt_lowered l = dt_program_of(deep_chain(LAYERS), DT_PROGRAM_EVAL, 1);
    dt_plan *p = dt_planned_by(l.program, "keep_all", "greedy");
    for (size_t i = 0; i < p->n_node / 2; i++) {
        const dt_plan_node one = p->node[i];
        p->node[i] = p->node[p->n_node - 1 - i];
        p->node[p->n_node - 1 - i] = one;
    }
    const clock_t began = clock();
    assert_ok(dt_plan_suits(p, l.graph, l.map, &(dt_context){0}, dt_cpu_threads(), &err), &err);
    const double took = (double)(clock() - began) / CLOCKS_PER_SEC;
    if (!(took < most_seconds))
        fail_msg("%.1f seconds", took);
    snprintf(p->node[7].name, sizeof p->node[7].name, "none");
    assert_fails(dt_plan_suits(p, l.graph, l.map, &(dt_context){0}, dt_cpu_threads(), &err),
        DT_E_CONFIG, &err, "has a layer 'none', but network 'deep' has none");
    dt_plan_destroy(p);
    dt_lowered_close(&l);
}

DT_TEST_GROUP(runner)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_write_past_the_arena_dies), /* forks: before there are threads */
        cmocka_unit_test(an_arena_is_aligned_and_says_when_it_is_too_large),
        cmocka_unit_test(a_good_kernel_passes_the_checked_run),
        cmocka_unit_test(a_byte_written_beside_a_tensor_is_found_at_its_op),
        cmocka_unit_test(a_layer_from_outside_that_strays_is_named),
        cmocka_unit_test(a_byte_written_far_from_any_tensor_is_found_in_the_end),
        cmocka_unit_test(measured_memory_is_planned_memory),
        cmocka_unit_test(plans_that_are_dropped_leave_nothing),
        cmocka_unit_test(a_step_allocates_nothing),
        cmocka_unit_test(a_step_with_copies_allocates_nothing),
        cmocka_unit_test(parameters_come_back_as_they_were_put),
        cmocka_unit_test(initial_values_depend_on_the_seed_alone),
        cmocka_unit_test(micro_batches_add_up),
        cmocka_unit_test(evaluation_leaves_parameters_and_statistics_alone),
        cmocka_unit_test(a_plan_larger_than_the_arena_is_refused),
        cmocka_unit_test(a_thread_with_another_team_may_not_run_a_plan),
        cmocka_unit_test(a_plan_that_is_not_this_runs_is_refused_and_told_why),
        cmocka_unit_test(a_plan_that_suits_is_told_what_its_layers_compute),
        cmocka_unit_test(layers_of_a_plan_are_found_in_any_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
