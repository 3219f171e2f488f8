/* `dnntrain bench`: its parts add up, nothing is missing, and a step takes no memory. */
#include <math.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/team.h"
#include "tests/fixture/json_read.h"
#include "tests/fixture/run_cli.h"
#include "session/budget.h"
#include "session/machine.h"
#include "session/open.h"
#include "session/rig.h"
#include "session/run_plans.h"

#define SMALL                                                                                      \
    "[model]\nimage = 12\nclasses = 4\n[train]\nbatch = 16\nmicro_batch = 8\n"                     \
    "[device]\nthreads = 1\n"                                                                      \
    "[conv a]\nout = 8\nkernel = 3\npad = 1\n[relu b]\n[maxpool c]\nkernel = 2\n"                  \
    "[conv d]\nout = 8\nkernel = 3\npad = 1\n[relu e]\n[fc f]\nout = 4\n"

static const char *small(void)
{
    return cli_file("small.ini", SMALL);
}

static cJSON *bench_of(const char *words, const char *file)
{
    char line[1024];
    snprintf(line, sizeof line, "bench FILE --json %s", words);
    ran r = cli_run(line, file);
    assert_code(&r, 0);
    cJSON *o = json_of(r.out, strlen(r.out));
    cli_done(&r);
    return o;
}

static cJSON *bench(const char *words)
{
    return bench_of(words, small());
}

/* What a bench of the small network says, which several tests look at. */
static cJSON *plain;

static int bench_once(void **state)
{
    (void)state;
    plain = cli_binary() != NULL ? bench("--steps 20") : NULL;
    return 0;
}

static int forget(void **state)
{
    (void)state;
    cJSON_Delete(plain);
    return 0;
}

/* A row's count of ops in a step; 0 when there is no such row. */
static double ops_of(const cJSON *o, const char *kind, const char *pass)
{
    const cJSON *row;
    cJSON_ArrayForEach(row, cJSON_GetObjectItemCaseSensitive(o, "parts"))
    {
        const char *k = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(row, "kind"));
        const char *p = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(row, "pass"));
        if (strcmp(k, kind) == 0 && strcmp(p, pass) == 0)
            return json_number(row, "ops");
    }
    return 0;
}

static void the_parts_add_up_to_a_step(void **state)
{
    NEED_BINARY();
    const cJSON *o = plain;
    const double step = json_number(o, "step_seconds");
    double sum = json_number(o, "rest_seconds"), floor = 0;
    const cJSON *row;
    assert_true(sum > 0);
    cJSON_ArrayForEach(row, cJSON_GetObjectItemCaseSensitive(o, "parts"))
    {
        sum += json_number(row, "seconds");
        floor += json_number(row, "floor_seconds");
    }
    assert_true(fabs(sum - step) < 1e-6);
    assert_true(floor > 0 && fabs(floor - json_number(o, "floor_seconds")) < 1e-7);
    assert_true(json_number(o, "least_seconds") <= json_number(o, "median_seconds"));
    assert_true(json_number(o, "median_seconds") <= json_number(o, "most_seconds"));
    assert_true(fabs(json_number(o, "per_second") * json_number(o, "median_seconds") - 16) < 0.1);
    assert_string_equal(
        cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(o, "unit")), "images");
}

static void every_op_of_a_step_is_counted(void **state)
{
    NEED_BINARY();
    cJSON *o = bench("--steps 2 --set model.fuse=off");
    static const struct {
        const char *kind, *pass;
        int ops;
    } want[] = {{"conv", "forward", 4}, {"relu", "forward", 4}, {"maxpool", "backward", 2},
        {"fc", "backward", 4}, {"cross_entropy", "forward", 2}, {"sgd", "update", 6},
        {"batch, host, disk", "copy", 0}};
    for (size_t i = 0; i < DT_COUNT(want); i++) {
        const double n = ops_of(o, want[i].kind, want[i].pass);
        if (want[i].ops > 0 ? !(fabs(n - want[i].ops) <= 0.01) : !(n > 3))
            fail_msg("%s %s: %g ops", want[i].kind, want[i].pass, n);
    }
    cJSON_Delete(o);
}

/* In one network, so that the machine is measured once. */
static void what_policies_add_has_rows_of_its_own(void **state)
{
    NEED_BINARY();
    cJSON *o = bench_of("--steps 2 --set memory.policy=vdnn_conv",
        cli_file("fates.ini", SMALL "[memory.layers]\na = recompute\nb = recompute\n"
                                    "c = encode fp16\n"));
    assert_true(ops_of(o, "conv", "recompute") > 0);
    assert_true(fabs(ops_of(o, "fp16", "codec") - 4) < 0.01); /* packed and unpacked, twice */
    assert_true(
        ops_of(o, "batch, host, disk", "copy") > ops_of(plain, "batch, host, disk", "copy"));
    cJSON_Delete(o);
}

static void a_step_takes_no_memory(void **state)
{
    NEED_BINARY();
    NEED_LIMITS(); /* sanitizers take pages of their own */
    assert_true(json_number(plain, "page_faults") < 0.5);
    assert_true(json_number(plain, "allocations") < 0.5);
    assert_true(fabs(json_number(plain, "heap_growth")) < 0.5);
}

static void people_get_a_table(void **state)
{
    NEED_BINARY();
    ran r = cli_run("bench FILE --steps 4", small());
    assert_code(&r, 0);
    static const char *const want[] = {"GFLOP/s fp32", "ms in the median of 4", "images a second",
        "\nconv ", "backward", "\ntotal ", "100.0 %", "page faults ", "allocations ",
        " 1 thread\n"};
    for (size_t i = 0; i < DT_COUNT(want); i++)
        assert_has(r.out, want[i]);
    for (const char *line = r.out; *line != '\0';) {
        const size_t n = strcspn(line, "\n");
        assert_in_range(n, 0, 100);
        line += n + (line[n] == '\n');
    }
    cli_done(&r);
}

static void tokens_are_counted_for_texts(void **state)
{
    NEED_BINARY();
    ran r = cli_run("bench FILE --steps 2",
        cli_file("gpt.ini", "[model]\nname = gpt2\nlayers = 1\nheads = 2\nwidth = 32\n"
                            "context = 16\nvocab = 65\n[train]\nbatch = 2\nsteps = 1\n"
                            "[device]\nthreads = 1\n"));
    assert_code(&r, 0);
    assert_has(r.out, "tokens a second");
    assert_has(r.out, "\nattention ");
    cli_done(&r);
}

static void wrong_arguments_are_refused(void **state)
{
    NEED_BINARY();
    static const char *const wrong[][2] = {{"bench", "name a CONFIG"},
        {"bench FILE --steps 0", "--steps 0: must be a whole number, 1..10000"},
        {"bench FILE --steps x", "--steps x"}, {"bench nosuch.ini", "nosuch.ini"}};
    for (size_t i = 0; i < DT_COUNT(wrong); i++) {
        ran r = cli_run(wrong[i][0], small());
        assert_code(&r, DT_E_CONFIG);
        assert_has(r.err, wrong[i][1]);
        cli_done(&r);
    }
}

/* --- below it --- */

typedef struct heard {
    int plan, n, copies;
    uint64_t bytes;
    bool in_order;
    double seconds;
} heard;

static void hear(void *self, const dt_trace_row *r)
{
    heard *h = self;
    h->plan = r->plan;
    h->seconds += r->end - r->begin;
    if (r->op < 0) {
        h->copies++;
        h->bytes += r->bytes;
    } else {
        h->in_order = h->in_order && r->op == h->n++;
    }
}

static void a_trace_tells_every_op_in_order(void **state)
{
    (void)state;
    dt_err err = {0};
    dt_session *s = NULL;
    const dt_planned *p;
    dt_rig rig = {0};
    static float x[8 * 12 * 12 * 3];
    static int32_t labels[8];
    heard h = {.in_order = true};
    const dt_trace trace = {&h, hear};
    const dt_run_args a = {.batch = {x, labels, 8}, .step_labels = 8};
    assert_ok(dt_session_open(&s, small(), NULL, 0, &err), &err);
    assert_ok(dti_session_plan(s, DT_PROGRAM_EVAL, 8, &p, &err), &err);
    assert_ok(dti_session_plan(s, DT_PROGRAM_FIRST, 8, &p, &err), &err);
    assert_ok(dti_rig_open(&rig, s, &err), &err);
    assert_ok(dt_runner_run(rig.runner, rig.ready[1].id, &a, &err), &err);
    assert_int_equal(h.n, 0);
    assert_ok(dt_runner_set_trace(rig.runner, &trace, &err), &err);
    assert_ok(dt_runner_run(rig.runner, rig.ready[1].id, &a, &err), &err);
    assert_ok(dt_runner_set_trace(rig.runner, NULL, &err), &err);
    assert_true(h.in_order && h.n > 10 && h.seconds > 0);
    assert_int_equal(h.n, p->plan->n_op);
    assert_int_equal(h.plan, rig.ready[1].id);
    assert_true(h.copies >= 2 && h.bytes >= sizeof x + sizeof labels); /* image and labels */
    const heard before = h;
    assert_ok(dt_runner_run(rig.runner, rig.ready[1].id, &a, &err), &err);
    assert_memory_equal(&h, &before, sizeof h);
    dti_rig_close(&rig);
    dt_session_close(s);
}

static void the_floor_is_the_higher_of_two(void **state)
{
    (void)state;
    const dt_machine m = {.flops = {[DT_F32] = 100, [DT_BF16] = 400}, .bytes = 10};
    assert_true(fabs(dti_machine_floor(&m, DT_F32, 1000, 50) - 10) < 1e-12);
    assert_true(fabs(dti_machine_floor(&m, DT_BF16, 1000, 50) - 5) < 1e-12);
    assert_true(fabs(dti_machine_floor(&m, DT_BF16, 1000, 10) - 2.5) < 1e-12);
}

static void the_machine_is_measured(void **state)
{
    (void)state;
    dt_machine m;
    dt_err err = {0};
    assert_ok(dti_machine_measure(&m, DT_F32, &err), &err);
    assert_true(m.flops[DT_F32] > 1e8 && m.flops[DT_F32] < 1e15);
    assert_true(m.bytes > 1e7 && m.bytes < 1e13);
    assert_false(m.flops[DT_BF16] > 0);
}

static void measure_one(const void *job, int64_t i)
{
    dt_err err = {0};
    if (i == 0 && dti_machine_measure(*(dt_machine *const *)job, DT_F32, &err) != DT_OK)
        abort();
}

/* Within a task there is no team: who would answer comes when the first has given up. */
static void a_thread_whom_nobody_answers_goes_on(void **state)
{
    (void)state;
    dt_machine m = {0}, *at = &m;
    const int threads = omp_get_max_threads();
    omp_set_num_threads(2);
    dt_team_run(2, measure_one, &at);
    omp_set_num_threads(threads);
    assert_true(m.bytes > 0);
    if (dt_team_member() == 0)
        assert_false(m.answer > 0);
}

DT_TEST_GROUP(bench)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_parts_add_up_to_a_step),
        cmocka_unit_test(every_op_of_a_step_is_counted),
        cmocka_unit_test(what_policies_add_has_rows_of_its_own),
        cmocka_unit_test(a_step_takes_no_memory),
        cmocka_unit_test(people_get_a_table),
        cmocka_unit_test(tokens_are_counted_for_texts),
        cmocka_unit_test(wrong_arguments_are_refused),
        cmocka_unit_test(a_trace_tells_every_op_in_order),
        cmocka_unit_test(the_floor_is_the_higher_of_two),
        cmocka_unit_test(the_machine_is_measured),
        cmocka_unit_test(a_thread_whom_nobody_answers_goes_on),
    };
    return cmocka_run_group_tests(tests, bench_once, forget);
}
