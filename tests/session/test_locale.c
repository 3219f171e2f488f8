/* A host program may have set a locale whose decimal point is a comma: what a run writes, what is
 * kept, and what plans say is the same, and is read back. */
#include <dnntrain.h>

#include <stdlib.h>
#include <string.h>

#include "engine/base/alloc.h"
#include "memory/plan_text/plan_text.h"
#include "memory/policies/auto_front.h"
#include "memory/time/costs.h"
#include "tests/fixture/comma_locale.h"
#include "tests/fixture/json_read.h"
#include "tests/fixture/planned.h"
#include "tests/fixture/run_cli.h"
#include "tests/fixture/workspace.h"

static int with_c_locale(void **state)
{
    (void)state;
    c_locale();
    return 0;
}

static const char net[] =
    "[model]\nimage = 8\nclasses = 4\n[data]\nsource = synthetic\nsamples = 32\n"
    "[train]\nbatch = 8\nsteps = 2\nlr = 0.05\nprecision = fp32\n"
    "[device]\nkind = cpu\nthreads = 1\n[memory]\npolicy = superneurons\n"
    "[conv c1]\nout = 8\nkernel = 3\npad = 1\n[relu r1]\n[conv c2]\nout = 8\n"
    "kernel = 3\npad = 1\n[relu r2]\n[fc f1]\nout = 4\n";

static void train(const char *folder)
{
    char dir[512];
    dt_run *run = NULL;
    dt_err err = {0};
    snprintf(dir, sizeof dir, "run.dir=%s", in_workspace(folder));
    const char *sets[] = {dir};
    assert_ok(dt_run_open_text(&run, "net", net, strlen(net), sets, 1, &err), &err);
    assert_ok(dt_run_begin(run, NULL, &err), &err);
    assert_ok(dt_run_end(run, dt_run_train(run, 0, &err), &err), &err);
    dt_run_close(run);
}

static char *text_of(const char *folder, const char *name)
{
    char path[128];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return cli_text(in_workspace(path));
}

/* Times differ between two runs: they stand last, and are numbers. */
static void assert_same_lines(const char *a, const char *b)
{
    int lines = 0;
    for (; *a != '\0' && *b != '\0'; lines++) {
        const bool step = lines < 2;
        const size_t na = strcspn(a, "\n"), nb = strcspn(b, "\n");
        const char *end = strstr(a, step ? ", \"images_per_second\"" : ", \"seconds\"");
        cJSON *o = json_of(b, nb);
        assert_non_null(end);
        assert_int_equal(strncmp(a, b, (size_t)(end - a)), 0);
        assert_true(json_number(o, step ? "step_seconds" : "seconds") > 0);
        cJSON_Delete(o);
        a += na + 1;
        b += nb + 1;
    }
    assert_int_equal(lines, 3); /* two steps, an evaluation */
    assert_true(*a == *b);
}

static void a_run_writes_the_same(void **state)
{
    (void)state;
    train("point");
    comma_locale();
    train("comma");
    char *a = text_of("point", "metrics.jsonl"), *b = text_of("comma", "metrics.jsonl");
    assert_same_lines(a, b);
    dt_free(a);
    dt_free(b);
    a = text_of("point", "plan.txt");
    b = text_of("comma", "plan.txt");
    assert_non_null(strstr(a, " MiB at once"));
    assert_string_equal(a, b);
    dt_free(a);
    dt_free(b);
    cJSON *o = json_file(in_workspace("comma/summary.json"));
    assert_true(json_number(o, "final_loss") > 0);
    cJSON_Delete(o);
}

static char *printed(const dt_plan *p)
{
    char *text = NULL;
    size_t n = 0;
    FILE *f = open_memstream(&text, &n);
    assert_non_null(f);
    dt_plan_print(p, f);
    assert_int_equal(fclose(f), 0);
    return text;
}

static void signatures(const dt_plan *p, char (*to)[DT_SIGNATURE_BYTES], size_t most)
{
    int64_t samples;
    for (size_t i = 0; i < p->n_op && i < most; i++)
        dt_cost_signature(p, &p->op[i], to[i], &samples);
}

static void plans_are_read_back_and_priced_alike(void **state)
{
    (void)state;
    enum { OPS = 16 };
    static char point[OPS][DT_SIGNATURE_BYTES], comma[OPS][DT_SIGNATURE_BYTES];
    dt_err err = {0};
    dt_plan *again = NULL;
    dt_lowered m = dt_plan_model("lenet5", "keep_all", 3);
    m.plan->op[0].flops = 1.5;
    for (size_t i = 0; i < m.plan->n_arg; i++)
        m.plan->arg[i].to = m.plan->arg[i].from + 1; /* a third of a byte for each sample */
    signatures(m.plan, point, OPS);
    char *a = printed(m.plan);
    comma_locale();
    signatures(m.plan, comma, OPS);
    assert_memory_equal(point, comma, sizeof point);
    assert_ok(dti_plan_parse(&again, "a", a, strlen(a), &err), &err);
    assert_true(again->op[0].flops >= 1.5 && again->op[0].flops <= 1.5);
    char *b = printed(again);
    assert_string_equal(a, b);
    free(a);
    free(b);
    dt_plan_destroy(again);
    dt_lowered_close(&m);
}

static void fronts_are_the_same(void **state)
{
    (void)state;
    static const char text[] = "1 2 1 2\n9 7 5 1 0 1 1 1 1 0x1.8p-3 vdnn_all chen_sqrt\n";
    comma_locale();
    dti_front *f = dti_front_parse(text, 2);
    assert_non_null(f);
    assert_true(f->plan[0].cost.seconds >= 0.1875 && f->plan[0].cost.seconds <= 0.1875);
    size_t bytes;
    char *again = dti_front_text(f, &bytes);
    assert_non_null(again);
    assert_int_equal(bytes, strlen(text));
    assert_memory_equal(again, text, bytes);
    dt_free(again);
    dti_front_destroy(f);
}

static void errors_say_a_point(void **state)
{
    (void)state;
    dt_err err = {0};
    comma_locale();
    assert_fails(DT_FAIL(&err, DT_E_CONFIG, "lr %g", 0.5), DT_E_CONFIG, &err, "lr 0.5");
}

DT_TEST_GROUP(locale)
{
#define T(f) cmocka_unit_test_teardown(f, with_c_locale)
    const struct CMUnitTest tests[] = {
        T(a_run_writes_the_same),
        T(plans_are_read_back_and_priced_alike),
        T(fronts_are_the_same),
        T(errors_say_a_point),
    };
#undef T
    return cmocka_run_group_tests(tests, NULL, NULL);
}
