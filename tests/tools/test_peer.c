/* tools/peer.py, which compares this program with PyTorch. What needs PyTorch is skipped without
 * it. */
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "tests/fixture/json_read.h"
#include "tests/fixture/run_cli.h"

/* Runs peer.py on a tiny LeNet-5, with more arguments; both of its outputs together. */
static ran peer(const char *more)
{
    char script[4096];
    snprintf(script, sizeof script, "%s", dt_source_path("tools/peer.py"));
    const char *out = dt_temp_path("peer.out");
    char line[8192];
    const int n = snprintf(line, sizeof line,
        "python3 '%s' '%s' --dnntrain '%s' --set "
        "train.batch=4 "
        "%s >'%s' 2>&1",
        script, dt_source_path("configs/lenet5_mnist.ini"), cli_binary(), more, out);
    assert_true(n > 0 && (size_t)n < sizeof line);
    const int status = system(line);
    assert_true(WIFEXITED(status));
    return (ran){WEXITSTATUS(status), cli_text(out), cli_text(out)};
}

/* What need not be asked twice. */
static struct {
    bool python, no_torch;
} here;

static int look_for_python(void **state)
{
    (void)state;
    here.python = system("python3 -c '' >/dev/null 2>&1") == 0;
    return 0;
}

#define NEED_PYTHON()                                                                              \
    do {                                                                                           \
        NEED_BINARY();                                                                             \
        if (!here.python)                                                                          \
            skip();                                                                                \
    } while (0)

/* The run, or a skipped test when there is no PyTorch. It takes PyTorch seconds to load and to
 * compile, so a third of the cases, @i by the seed, are made. */
static ran peer_with_torch(uint64_t i, const char *more)
{
    if (here.no_torch || !dt_picked(i, 3, 3, 1))
        skip();
    char words[8192] = "";
    const char *python = cli_torch_python();
    const int n = *python == '/' ? snprintf(words, sizeof words, "--python '%s' %s", python, more)
                                 : snprintf(words, sizeof words, "%s", more);
    assert_true(n > 0 && (size_t)n < sizeof words);
    ran r = peer(words);
    here.no_torch = strstr(r.out, "skipped") != NULL;
    if (here.no_torch) {
        assert_code(&r, 0);
        cli_done(&r);
        skip();
    }
    return r;
}

static void without_torch_it_says_how_to_get_it(void **state)
{
    NEED_PYTHON();
    ran r = peer("--python /nowhere/python3");
    assert_code(&r, 2);
    assert_has(r.out, "/nowhere/python3 has no PyTorch");
    assert_has(r.out, "apt-get install python3-torch");
    cli_done(&r);
    r = peer("--python /nowhere/python3 --if-present");
    assert_code(&r, 0);
    assert_has(r.out, "skipped");
    cli_done(&r);
}

static void another_network_is_refused(void **state)
{
    NEED_PYTHON();
    ran r = peer("--torch none --set model.name=wide_resnet50_2");
    assert_code(&r, 2);
    assert_has(r.out, "'wide_resnet50_2' is none of the networks that this tool knows");
    cli_done(&r);
}

static void both_sides_are_timed_on_the_same_network(void **state)
{
    NEED_PYTHON();
    ran r = peer_with_torch(0, "--if-present --torch stock --steps 2 --rounds 2 --warmup 1 --json");
    assert_code(&r, 0);
    cJSON *all = cJSON_Parse(r.out);
    const cJSON *sides = cJSON_GetObjectItemCaseSensitive(all, "sides"), *side;
    assert_int_equal(cJSON_GetArraySize(sides), 2);
    cJSON_ArrayForEach(side, sides)
    {
        const cJSON *rounds = cJSON_GetObjectItemCaseSensitive(side, "rounds");
        const cJSON *ratio = cJSON_GetObjectItemCaseSensitive(side, "ratio");
        assert_int_equal(cJSON_GetArraySize(rounds), 2);
        assert_true(
            json_number(side, "step_seconds") > 0 && json_number(side, "resident_peak") > 1 << 20);
        assert_true(json_number(ratio, "time") > 0);
        assert_true(json_number(ratio, "time_least") <= json_number(ratio, "time_most"));
        const cJSON *first = cJSON_GetArrayItem(sides, 0); /* of ours */
        const float ours = (float)json_number(
            cJSON_GetArrayItem(cJSON_GetObjectItemCaseSensitive(first, "rounds"), 0), "first_loss");
        const float loss = (float)json_number(cJSON_GetArrayItem(rounds, 0), "first_loss");
        assert_true(dt_relative_error(&loss, &ours, 1) <= 1e-5);
    }
    cJSON_Delete(all);
    cli_done(&r);
}

/* The row of a table whose name begins so, or NULL. */
static const cJSON *row_of(const cJSON *all, const char *name)
{
    const cJSON *side, *sides = cJSON_GetObjectItemCaseSensitive(all, "sides");
    cJSON_ArrayForEach(side, sides)
    {
        const char *its = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(side, "side"));
        if (its != NULL && strncmp(its, name, strlen(name)) == 0)
            return side;
    }
    return NULL;
}

static void compiled_steps_are_warm_and_memory_has_both_numbers(void **state)
{
    NEED_PYTHON();
    ran r = peer_with_torch(1, "--if-present --steps 2 --rounds 1 --warmup 2 --isa avx2 --json");
    if (strstr(r.out, "this processor lacks") != NULL) {
        cli_done(&r);
        skip();
    }
    assert_code(&r, 0);
    cJSON *all = cJSON_Parse(r.out);
    const cJSON *about = cJSON_GetObjectItemCaseSensitive(all, "torch");
    const bool compiles =
        cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(about, "compiler")) != NULL;
    assert_non_null(cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(about, "kind")));
    assert_int_equal(row_of(all, "torch compiled") != NULL, compiles);
    static const char *const names[] = {"torch stock", "torch tuned", "torch compiled"};
    for (int i = 0; i < (compiles ? 3 : 2); i++) {
        const cJSON *round = cJSON_GetArrayItem(
            cJSON_GetObjectItemCaseSensitive(row_of(all, names[i]), "rounds"), 0);
        const double peak = json_number(round, "resident_peak");
        const double out = json_number(round, "resident_left_out");
        assert_true(peak > 1 << 20 && out >= 0);
        assert_true(json_number(round, "resident_whole") == peak + out);
        assert_string_equal(
            cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(round, "capability")), "AVX2");
        assert_int_equal(cJSON_GetArraySize(cJSON_GetObjectItemCaseSensitive(round, "seconds")), 2);
        /* The step that compiles is none of those that warm up. */
        const double graphs = json_number(round, "graphs");
        assert_true(json_number(round, "warmup_steps") >= (i == 2 ? 3 : 2));
        assert_true(i == 2 ? graphs >= 1 : graphs == 0);
        assert_true((json_number(round, "compile_seconds") > 0) == (i == 2));
    }
    cJSON_Delete(all);
    cli_done(&r);
}

static void two_builds_of_ours_take_turns_without_torch(void **state)
{
    NEED_PYTHON();
    char more[4096];
    snprintf(more, sizeof more,
        "--torch none --ours-before '%s' --policies chen_sqrt --steps 2 --rounds 2 --warmup 1 "
        "--json",
        cli_binary());
    static const char *const names[] = {
        "dnntrain keep_all", "before keep_all", "dnntrain chen_sqrt", "before chen_sqrt"};
    ran r = peer(more);
    assert_code(&r, 0);
    cJSON *all = cJSON_Parse(r.out);
    const cJSON *sides = cJSON_GetObjectItemCaseSensitive(all, "sides");
    assert_int_equal(cJSON_GetArraySize(sides), DT_COUNT(names));
    for (int i = 0; i < (int)DT_COUNT(names); i++) {
        const cJSON *side = cJSON_GetArrayItem(sides, i);
        const cJSON *ratio = cJSON_GetObjectItemCaseSensitive(side, "ratio");
        const cJSON *rounds = cJSON_GetObjectItemCaseSensitive(side, "rounds");
        assert_string_equal(
            cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(side, "side")), names[i]);
        assert_true(json_number(side, "step_seconds") > 0 && json_number(ratio, "time") > 0);
        assert_true(json_number(ratio, "time_least") <= json_number(ratio, "time_most"));
        assert_true(json_number(cJSON_GetArrayItem(rounds, 1), "first_loss") > 0);
        assert_int_equal(cJSON_GetArraySize(rounds), 2);
    }
    cJSON_Delete(all);
    cli_done(&r);
}

static void beside_busy_processes_it_says_so(void **state)
{
    NEED_PYTHON();
    ran r = peer("--torch none --busy 2 --nice 19 --steps 2 --rounds 1 --warmup 1");
    assert_code(&r, 0);
    assert_has(r.out, "beside 2 busy processes, nice 19: of a turn the mean step");
    assert_has(r.out, "dnntrain keep_all");
    cli_done(&r);
}

static void what_does_not_go_together_is_wrong_use(void **state)
{
    NEED_PYTHON();
    ran r = peer("--torch none --check"); /* and more of them in peer_parts.py */
    assert_code(&r, 2);
    assert_has(r.out, "leave out --torch none");
    cli_done(&r);
    r = peer("--torch none --ours-before /bin/false --rounds 1 --steps 1");
    assert_code(&r, 1);
    assert_has(r.out, "before keep_all: exit 1");
    cli_done(&r);
}

/* Beside PyTorch these would be unlike steps; ours alone may make them. */
static void steps_of_ours_alone_are_refused(void **state)
{
    NEED_PYTHON();
    ran r = peer("--torch none --set train.freeze=conv1 --steps 1 --rounds 1 --warmup 1");
    assert_code(&r, 0);
    cli_done(&r);
    r = peer_with_torch(2, "--if-present --check --set train.freeze=conv1");
    assert_code(&r, 2);
    assert_has(r.out, "train.freeze = conv1: PyTorch's sides train all parameters, at one rate");
    cli_done(&r);
}

static void loss_and_gradients_agree(void **state)
{
    NEED_PYTHON();
    ran r = peer_with_torch(3, "--if-present --check");
    assert_code(&r, 0);
    assert_has(r.out, "10 tensors");
    assert_has(r.out, "\nagree\n");
    cli_done(&r);
}

/* Both in few layers, as that is what PyTorch in double precision takes time for; every kind of
 * tensor is there. */
static void a_densenet_and_a_transformer_agree(void **state)
{
    NEED_PYTHON();
    static const char *const networks[] = {
        "--set model.name=densenet121 --set model.counts=2,1,1,2 --set model.image=64",
        "--set model.name=vit_small --set model.layers=2 --set model.image=32 --set "
        "train.optimizer=adamw --set train.no_decay=on"};
    static const char *const tensors[] = {"52 tensors", "31 tensors"};
    for (int i = 0; i < (int)DT_COUNT(networks); i++) {
        char more[512];
        snprintf(
            more, sizeof more, "--if-present --check --set data.source=synthetic %s", networks[i]);
        ran r = peer_with_torch(4, more);
        assert_code(&r, 0);
        assert_has(r.out, tensors[i]);
        assert_has(r.out, "\nagree\n");
        cli_done(&r);
    }
}

static void what_goes_wrong_is_told(void **state)
{
    NEED_PYTHON();
    ran r = peer_with_torch(5, "--if-present --set train.bach=3");
    assert_code(&r, 1);
    assert_has(r.out, "did you mean 'batch'");
    cli_done(&r);
}

DT_TEST_GROUP(peer)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_torch_it_says_how_to_get_it),
        cmocka_unit_test(another_network_is_refused),
        cmocka_unit_test(both_sides_are_timed_on_the_same_network),
        cmocka_unit_test(compiled_steps_are_warm_and_memory_has_both_numbers),
        cmocka_unit_test(two_builds_of_ours_take_turns_without_torch),
        cmocka_unit_test(beside_busy_processes_it_says_so),
        cmocka_unit_test(what_does_not_go_together_is_wrong_use),
        cmocka_unit_test(steps_of_ours_alone_are_refused),
        cmocka_unit_test(loss_and_gradients_agree),
        cmocka_unit_test(a_densenet_and_a_transformer_agree),
        cmocka_unit_test(what_goes_wrong_is_told),
    };
    return cmocka_run_group_tests(tests, look_for_python, NULL);
}
