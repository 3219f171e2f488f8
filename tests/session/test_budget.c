/* Budgets from outside: what is refused, and whether what a refusal says is true. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/vfs.h>

#include "engine/base/alloc.h"
#include "engine/base/io.h"
#include "engine/base/limits.h"
#include "engine/config/options.h"
#include "layers/onednn/onednn.h"
#include "tests/fixture/refusal.h"
#include "tests/fixture/run_cli.h"
#include "tests/fixture/workspace.h"
#include "session/budget.h"
#include "session/open.h"
#include "session/run_plans.h"
#include "session/run/run_internal.h"

#define LENET                                                                                      \
    "[model]\nname = lenet5\n[data]\nsamples = 256\n[train]\nsteps = 1\nbatch = 96\n"              \
    "[run]\ndir = out\n"

/* A residual block with a batch norm, so that smaller parts of a batch differ. */
#define NORMED                                                                                     \
    "[model]\nimage = 16\n[data]\nsamples = 256\n[train]\nbatch = 64\nsteps = 1\n[run]\n"          \
    "dir = out\n[conv a]\nout = 16\nkernel = 3\npad = 1\n[batchnorm b]\n[relu c]\n[conv d]\n"      \
    "out = 16\nkernel = 3\npad = 1\n[batchnorm e]\n[relu f]\n[fc g]\nout = 4\n"

/* Where nothing fits, all that there is has been tried: of one layer that takes a moment. */
#define LAYER                                                                                      \
    "[model]\nimage = 16\n[data]\nsamples = 256\n[train]\nbatch = 64\nsteps = 1\n"                 \
    "[fc f]\nout = 4\n"

static ran refused(const char *words, int code)
{
    ran r = cli_run(words, NULL);
    if (r.code != code)
        fail_msg("'%s' ends with %d, not %d; stderr:\n%s", words, r.code, code, r.err);
    return r;
}

static uint64_t peak(const char *words, const char *tier)
{
    char want[32];
    ran r = cli_run(words, NULL);
    snprintf(want, sizeof want, "\"%s\":", tier);
    const char *at = strstr(r.out, want);
    assert_non_null(at);
    at = strstr(at, "\"peak\":");
    assert_non_null(at);
    const uint64_t bytes = strtoull(at + 7, NULL, 10);
    cli_done(&r);
    return bytes;
}

/* Between the last blank-free words of a suggestion: "[memory] policy = x and [train] batch = 4" as
 * --set assignments. */
static void as_sets(const char *line, char *to, size_t room)
{
    char section[16] = "", copy[1024], *save = NULL;
    const char *end = strstr(line, ", which needs");
    assert_non_null(end);
    snprintf(copy, sizeof copy, "%.*s", (int)(end - line), line);
    char *stop = strstr(copy, " (");
    if (stop != NULL)
        *stop = '\0';
    stop = strstr(copy, ", of the same");
    if (stop != NULL)
        *stop = '\0';
    to[0] = '\0';
    char key[32] = "";
    for (char *w = strtok_r(copy, " ", &save); w != NULL; w = strtok_r(NULL, " ", &save)) {
        const size_t n = strlen(to), last = strlen(w) - 1;
        if (w[last] == ',') /* within a word commas are of a list */
            w[last] = '\0';
        if (*w == '[')
            snprintf(section, sizeof section, "%.*s", (int)strcspn(w + 1, "]"), w + 1);
        else if (strcmp(w, "and") == 0 || strcmp(w, "=") == 0)
            continue;
        else if (key[0] == '\0')
            snprintf(key, sizeof key, "%s", w);
        else {
            snprintf(to + n, room - n, " --set %s.%s=%s", section, key, w);
            key[0] = '\0';
        }
    }
}

/* Every configuration that a refusal names is taken, and trained if asked for. Returns how many. */
static int all_suggestions_fit(const char *words, bool train)
{
    int n = 0;
    char line[2048], plan[2200];
    snprintf(plan, sizeof plan, "plan %s", words);
    ran r = refused(plan, DT_E_BUDGET);
    for (const char *at = r.err; (at = strstr(at, "  fits if: ")) != NULL; n++) {
        char sets[1024];
        at += strlen("  fits if: ");
        as_sets(at, sets, sizeof sets);
        snprintf(line, sizeof line, "%s%s%s", train ? "" : "plan ", words, sets);
        ran one = cli_run(line, NULL);
        if (one.code != 0)
            fail_msg("'%s' ends with %d; stderr:\n%s", line, one.code, one.err);
        cli_done(&one);
        remove_all("out");
    }
    cli_done(&r);
    return n;
}

static void three_configurations_that_fit_are_named(void **state) /* case 13 */
{
    NEED_BINARY();
    dt_take_turns(0, 5); /* a refusal tries all that there is */
    put_text("b.ini", LENET);
    assert_int_equal(all_suggestions_fit("b.ini --set memory.device_budget=3MiB", true), 3 + 1);
    put_text("n.ini", NORMED);
    static const char halves[] = "n.ini --set train.micro_batch=32";
    char below[128]; /* what kernels take beside tensors is another on each processor */
    snprintf(below, sizeof below, "plan %s --json", halves);
    const uint64_t all = peak(below, "device");
    snprintf(below, sizeof below, "%s --set memory.device_budget=%" PRIu64, halves, all - 1);
    const struct {
        const char *words;
        int fit;
    } more[] = {{"b.ini --set memory.device_budget=1200KiB", 3},
        {"n.ini --set memory.device_budget=4MiB", 3 + 1}, {below, 3 + 1}};
    for (size_t i = 0; i < DT_COUNT(more); i++)
        if (dt_picked(i, 3, 3, 1))
            assert_int_equal(all_suggestions_fit(more[i].words, false), more[i].fit);
}

/* Of the first "1.15 GiB (1,234,803,098 bytes)". */
static uint64_t exact_bytes(const char *text)
{
    char count[32];
    uint64_t bytes = 0;
    dt_err err = {0};
    assert_int_equal(sscanf(strchr(text, '('), "(%31[0-9,]", count), 1);
    assert_ok(dt_parse_bytes(count, &bytes, &err), &err);
    return bytes;
}

/* Below the bytes of one op; at those it is another matter, and what is found takes no less. */
static void a_budget_below_the_bound_is_told_so(void **state)
{
    NEED_BINARY();
    static const char mark[] = "  no plan of 64 samples at once takes less than ", *at;
    char words[128];
    put_text("n.ini", NORMED);
    ran r = refused("plan n.ini --set memory.device_budget=1MiB", DT_E_BUDGET);
    assert_non_null(at = strstr(r.err, mark));
    const uint64_t least = exact_bytes(at);
    assert_has(at, " bytes): 'd.f' reads and writes that much\n");
    assert_non_null(at = strstr(r.err, " needs the least, "));
    assert_true(least > 1 << 20 && exact_bytes(at) >= least);
    cli_done(&r);
    for (uint64_t more = 0; more < 2; more++) {
        snprintf(words, sizeof words, "plan n.ini --set memory.device_budget=%" PRIu64,
            least - 1 + more);
        r = refused(words, DT_E_BUDGET);
        assert_int_equal(strstr(r.err, mark) == NULL, more);
        cli_done(&r);
    }
}

/* Once, and typed as it stands there, it fits. */
static void the_first_suggestion_is_told_as_it_is_typed(void **state)
{
    NEED_BINARY();
    dt_take_turns(1, 5);
    static const char *const budgets[] = {"2500KiB", "4MiB"};
    put_text("n.ini", NORMED);
    for (size_t i = 0; i < DT_COUNT(budgets); i++) {
        static const char mark[] = "\ndnntrain:   to type: --set ";
        char words[256], line[1024], first[512];
        snprintf(words, sizeof words, "plan n.ini --set memory.device_budget=%s", budgets[i]);
        ran r = refused(words, DT_E_BUDGET);
        const char *at = strstr(r.err, mark), *fits = strstr(r.err, "fits if: ");
        assert_non_null(at);
        assert_null(strstr(at + 1, mark));
        assert_true(fits != NULL && at == strchr(fits, '\n')); /* right behind the first */
        as_sets(fits + strlen("fits if: "), first, sizeof first);
        at += strlen(mark) - strlen("--set ") - 1;
        const size_t n = strcspn(at, "\n");
        assert_int_equal(n, strlen(first));
        assert_memory_equal(at, first, n);
        snprintf(line, sizeof line, "%s%.*s", words, (int)n, at);
        cli_done(&r);
        r = refused(line, 0);
        cli_done(&r);
    }
}

static void bytes_without_a_unit_are_told(void **state)
{
    NEED_BINARY();
    dt_take_turns(2, 5);
    put_text("f.ini", LAYER);
    ran r = refused("plan f.ini --set memory.device_budget=2", DT_E_BUDGET);
    assert_has(r.err, "memory.device_budget is 2 B (--set), in bytes: write 2GiB\n");
    cli_done(&r);
    r = refused("plan f.ini --set memory.device_budget=500", DT_E_BUDGET);
    assert_has(r.err, ", in bytes: write 500MiB\n");
    cli_done(&r);
    r = refused("plan f.ini --set memory.device_budget=0.5KiB", DT_E_BUDGET);
    assert_has(r.err, "memory.device_budget is 512 B (--set)\n");
    cli_done(&r);
    r = refused("plan f.ini --set memory.device_budget=1KiB", DT_E_BUDGET);
    assert_has_not(r.err, ": write ");
    cli_done(&r);
}

static void suggestions_are_of_different_kinds(void **state)
{
    NEED_BINARY();
    put_text("n.ini", NORMED);
    const uint64_t all = peak("plan n.ini --json", "device");
    char words[128];
    snprintf(words, sizeof words, "plan n.ini --set memory.device_budget=%" PRIu64, all - 1);
    ran r = refused(words, DT_E_BUDGET);
    assert_has(r.err, "fits if: [memory] policy = ");
    assert_has(r.err, "fits if: [train] micro_batch = 32, of the same batch in 2 parts (batch norm "
                      "sees 32 samples at a time: results change)");
    assert_has(r.err, "fits if: [train] batch = 63 (64 does not fit)");
    assert_has(r.err, "the least found for this batch is ");
    cli_done(&r);
}

/* One part of a batch may fit alone where it does not beside others; and what a pair takes no less
 * for than its first is not offered. */
static void a_batch_beyond_a_part_is_tried(void **state)
{
    NEED_BINARY();
    put_text("n.ini", NORMED);
    char words[128], want[64];
    const uint64_t part = peak("plan n.ini --json --set train.batch=16", "device");
    snprintf(words, sizeof words,
        "plan n.ini --set train.micro_batch=16 --set memory.device_budget=%" PRIu64, part);
    ran r = refused(words, DT_E_BUDGET);
    const char *at = strstr(r.err, "fits if: [train] batch = ");
    int batch = 0;
    assert_non_null(at);
    assert_int_equal(sscanf(at, "fits if: [train] batch = %d", &batch), 1);
    assert_true(batch >= 16);
    snprintf(want, sizeof want, "(%d does not fit)", batch + 1);
    assert_has(r.err, want);
    assert_has_not(r.err, ",keep_all");
    cli_done(&r);
    snprintf(words, sizeof words,
        "plan n.ini --set train.batch=%d --set memory.device_budget=%" PRIu64, batch + 1, part);
    r = refused(words, DT_E_BUDGET);
    cli_done(&r);
}

#define FORKED                                                                                     \
    "[model]\nimage = 16\nclasses = 3\n[data]\nsamples = 8\n[train]\nbatch = 8\n"                  \
    "[conv a]\nout = 8\nkernel = 3\npad = 1\n[gelu b]\n[conv c]\nout = 8\nkernel = 3\n"            \
    "pad = 1\n[tanh d]\n[concat e]\ninput = a, b, d\n[conv f]\nout = 8\nkernel = 1\n"              \
    "[global_avgpool g]\n[fc h]\nout = 3\n"

/* Of policies that go by a budget, too, what they take at the least. */
static void the_least_is_the_same_whatever_was_asked(void **state)
{
    NEED_BINARY();
    dt_take_turns(1, 5);
    static const int part[] = {20, 3, 1}; /* of what all takes, and a byte less */
    char words[1200], sets[1024], least[256] = "", first[256];
    put_text("f.ini", FORKED);
    const uint64_t all = peak("plan f.ini --json", "device");
    for (size_t i = 0; i < DT_COUNT(part); i++) {
        snprintf(words, sizeof words, "plan f.ini --set memory.device_budget=%" PRIu64,
            all / (uint64_t)part[i] - 1);
        ran r = refused(words, DT_E_BUDGET);
        const char *at = strstr(r.err, "the least found for this batch is ");
        assert_non_null(at);
        snprintf(least, sizeof least, "%.*s", (int)strcspn(at, "\n"), at);
        cli_done(&r);
        if (i == 0)
            memcpy(first, least, sizeof first);
        assert_string_equal(least, first);
    }
    const char *lines = strstr(least, "): ");
    char bytes[32]; /* as it is printed */
    assert_int_equal(sscanf(strchr(least, '('), "(%31[0-9,]", bytes), 1);
    assert_non_null(lines);
    char told[300];
    snprintf(told, sizeof told, "%s, which needs", lines + 3);
    as_sets(told, sets, sizeof sets);
    snprintf(words, sizeof words, "plan f.ini --set memory.device_budget=%s%s", bytes, sets);
    ran r = cli_run(words, NULL);
    assert_code(&r, 0);
    cli_done(&r);
}

/* Where nothing else fits, what takes the least is offered, and before that the run's own policy by
 * small algorithms in parts. */
static void what_takes_the_least_is_offered(void **state)
{
    NEED_BINARY();
    dt_take_turns(2, 5);
    char net[512], words[1024];
    snprintf(net, sizeof net, "%.500s", dt_source_path("configs/tiny_ini_network.ini"));
    snprintf(words, sizeof words, "plan %s --set memory.device_budget=1KiB", net);
    ran r = refused(words, DT_E_BUDGET);
    const char *at = strstr(r.err, "the least found for this batch is ");
    assert_non_null(at);
    snprintf(words, sizeof words, "%s --set memory.device_budget=%" PRIu64, net, exact_bytes(at));
    cli_done(&r);
    assert_true(all_suggestions_fit(words, false) > 0);
    snprintf(words, sizeof words,
        "plan %s --json --set memory.algorithms=small --set train.micro_batch=2", net);
    const uint64_t parts = peak(words, "device");
    snprintf(words, sizeof words, "plan %s --set memory.device_budget=%" PRIu64, net, parts);
    r = refused(words, DT_E_BUDGET);
    assert_has_not(r.err, "not even one sample");
    assert_has(r.err, "micro_batch = 2, of the same batch in 16 parts");
    cli_done(&r);
}

/* Of one sample there are no smaller parts, and a policy that packs fp32 alone cannot be planned.
 */
static void one_sample_in_bf16_is_told_what_it_takes(void **state)
{
    NEED_BINARY();
    put_text("f.ini", LENET);
    ran r = refused("plan f.ini --set train.precision=bf16 --set train.batch=1 "
                    "--set memory.device_budget=100KiB",
        DT_E_BUDGET);
    assert_has(r.err, "the least found for this batch is ");
    cli_done(&r);
}

/* The first that is said; what it says that a step takes is no less than what it takes. */
static void auto_is_offered_first(void **state)
{
    NEED_BINARY();
    dt_take_turns(3, 5);
    char words[256];
    put_text("n.ini", NORMED);
    const uint64_t all = peak("plan n.ini --json", "device");
    snprintf(words, sizeof words, "plan n.ini --set memory.device_budget=%" PRIu64, all * 3 / 4);
    ran r = refused(words, DT_E_BUDGET);
    assert_has(r.err, "what a step takes is predicted with memory.profile or memory.simulate");
    cli_done(&r);
    snprintf(words, sizeof words,
        "plan n.ini --set memory.simulate=p100 --set memory.device_budget=%" PRIu64, all * 3 / 4);
    r = refused(words, DT_E_BUDGET);
    const char *first = strstr(r.err, "fits if: ");
    assert_true(first != NULL && first == strstr(r.err, "fits if: [memory] policy = auto, which "));
    const char *step = strstr(first, "; a step takes no more than ");
    assert_true(step != NULL && step < strchr(first, '\n'));
    const char *how = strstr(step, " s as simulated, ");
    assert_true(how != NULL && how < strchr(first, '\n'));
    const double said = strtod(step + strlen("; a step takes no more than "), NULL);
    cli_done(&r);
    const size_t n = strlen(words);
    snprintf(words + n, sizeof words - n, " --json --set memory.policy=auto");
    r = refused(words, 0);
    step = strstr(r.out, "\"step_seconds\":");
    assert_non_null(step);
    const double takes = strtod(step + strlen("\"step_seconds\":"), NULL);
    if (!(takes > 0 && takes <= said * 1.001)) /* four digits are said */
        fail_msg("a step takes %g s, the refusal said %g", takes, said);
    cli_done(&r);
    /* auto itself is refused without its own name */
    put_text("f.ini", LAYER);
    r = refused(
        "plan f.ini --set memory.policy=auto --set memory.device_budget=200KiB", DT_E_BUDGET);
    assert_has(r.err, "fits if: ");
    assert_has_not(r.err, "policy = auto, which");
    cli_done(&r);
}

/* Convolutions that two algorithms compute. */
#define WAYS                                                                                       \
    "[data]\nsamples = 64\n[train]\nbatch = 4\nsteps = 1\n[run]\ndir = out\n[model]\nimage = 8\n"  \
    "classes = 10\n[conv c1]\nout = 64\nkernel = 3\npad = 1\n[relu r1]\n[conv c2]\nout = 128\n"    \
    "kernel = 3\npad = 1\n[relu r2]\n[conv c3]\nout = 128\nkernel = 3\npad = 1\n[relu r3]\n"       \
    "[maxpool p]\nkernel = 8\n[fc f]\nout = 10\n"

static void smaller_algorithms_are_suggested(void **state)
{
    NEED_BINARY();
    dt_take_turns(4, 5);
    if (!dti_onednn_avx512()) /* elsewhere the library may want more than Winograd */
        skip();
    char words[160];
    put_text("w.ini", WAYS);
    const uint64_t small = peak("plan w.ini --json --set memory.algorithms=small", "device");
    snprintf(words, sizeof words, "w.ini --set memory.device_budget=%" PRIu64, small);
    assert_true(all_suggestions_fit(words, dt_picked(0, 2, 2, 1)) > 0);
    snprintf(words, sizeof words, "plan w.ini --set memory.device_budget=%" PRIu64, small);
    ran r = refused(words, DT_E_BUDGET);
    assert_has(r.err, "fits if: [memory] algorithms = small, which needs ");
    assert_has(r.err, "FLOP by slower algorithms; changes the last bits\n");
    assert_has_not(r.err, "not even one sample");
    cli_done(&r);
    /* where neither a policy nor small is enough */
    const uint64_t both =
        peak("plan w.ini --json --set train.batch=64 --set memory.algorithms=small "
             "--set memory.policy=chen_budget",
            "device");
    snprintf(words, sizeof words, "w.ini --set train.batch=64 --set memory.device_budget=%" PRIu64,
        both);
    assert_true(all_suggestions_fit(words, dt_picked(1, 2, 2, 1)) > 0);
    snprintf(words, sizeof words,
        "plan w.ini --set train.batch=64 --set memory.device_budget=%" PRIu64, both);
    r = refused(words, DT_E_BUDGET);
    assert_has(r.err, "fits if: [memory] policy = chen_budget, algorithms = small, which needs ");
    cli_done(&r);
    /* those of this run already */
    snprintf(words, sizeof words,
        "plan w.ini --set memory.algorithms=small --set memory.device_budget=%" PRIu64, small - 1);
    r = refused(words, DT_E_BUDGET);
    assert_has_not(r.err, "algorithms");
    cli_done(&r);
}

static void what_a_policy_costs_is_told(void **state)
{
    NEED_BINARY();
    put_text("n.ini", NORMED);
    const uint64_t most = peak("plan n.ini --json --set memory.policy=chen_sqrt", "device");
    char words[160];
    snprintf(words, sizeof words,
        "plan n.ini --set memory.policy=network_wide --set memory.device_budget=%" PRIu64, most);
    ran r = refused(words, DT_E_BUDGET);
    const char *moves = strstr(r.err, "; a step moves "), *again = strstr(r.err, "FLOP again (");
    assert_true(moves != NULL || again != NULL);
    cli_done(&r);
}

#define BY_AUTO "  fits if: [memory] policy = auto, which needs no more than "

static void a_host_budget_is_hard(void **state)
{
    NEED_BINARY();
    put_text("b.ini", LENET);
    const char *vdnn = "plan b.ini --json --set memory.policy=vdnn_all";
    const uint64_t host = peak(vdnn, "host");
    char words[256];
    assert_true(host > 0);
    snprintf(words, sizeof words, "%s --set memory.host_budget=%" PRIu64, vdnn, host);
    ran r = refused(words, 0);
    assert_has(r.out, "\"fits\":\ttrue");
    cli_done(&r);
    snprintf(words, sizeof words, "%s --set memory.host_budget=%" PRIu64, vdnn, host - 1);
    r = refused(words, DT_E_BUDGET);
    assert_has(r.out, "\"fits\":\tfalse");
    snprintf(words, sizeof words, "\"budget\":\t%" PRIu64, host - 1);
    assert_has(r.out, words);
    assert_has(r.err, "does not fit: the host needs ");
    assert_has(r.err, "memory.host_budget is ");
    assert_has(r.err, "largest of those that 'first' moves to the host: relu1.y ");
    const char *first = strstr(r.err, "  fits if: ");
    assert_true(first != NULL && strncmp(first, BY_AUTO, strlen(BY_AUTO)) == 0);
    assert_has(r.err, "fits if: [memory] tier = disk, which needs ");
    assert_has_not(r.err, "the least found"); /* of the device, which is not what lacks */
    assert_has(r.err, " on the disk");
    assert_has_not(r.err, "the device needs");
    cli_done(&r);
    snprintf(words, sizeof words,
        "b.ini --set memory.policy=vdnn_all --set memory.host_budget=%" PRIu64, host - 1);
    assert_int_equal(all_suggestions_fit(words, false), 3 + 1);
}

static void a_disk_budget_is_hard(void **state)
{
    NEED_BINARY();
    put_text("b.ini", LENET);
    const char *vdnn = "plan b.ini --json --set memory.policy=vdnn_all --set memory.tier=disk";
    const uint64_t disk = peak(vdnn, "disk");
    char words[256];
    assert_true(disk > 0);
    snprintf(words, sizeof words, "%s --set memory.disk_budget=%" PRIu64, vdnn, disk);
    ran r = refused(words, 0);
    cli_done(&r);
    snprintf(words, sizeof words, "%s --set memory.disk_budget=%" PRIu64, vdnn, disk - 1);
    r = refused(words, DT_E_BUDGET);
    assert_has(r.err, "does not fit: the disk needs ");
    assert_has(r.err, "fits if: [memory] tier = host, which needs ");
    cli_done(&r);
    r = refused(
        "plan b.ini --set memory.policy=zero_infinity --set memory.disk_budget=1KiB", DT_E_BUDGET);
    assert_has(r.err, "fits if: [memory] policy = keep_all, ");
    assert_has_not(r.err, "network_wide"); /* it saves nothing here */
    cli_done(&r);
}

static void every_tier_that_does_not_fit_is_named(void **state)
{
    NEED_BINARY();
    put_text("b.ini", LENET);
    ran r = refused("plan b.ini --set memory.policy=vdnn_all --set memory.host_budget=64KiB "
                    "--set memory.device_budget=2MiB",
        DT_E_BUDGET);
    assert_has(r.err, "the device needs ");
    assert_has(r.err, "the host needs ");
    assert_has(r.out, "DOES NOT FIT the budget of 2.00 MiB");
    assert_has(r.out, "DOES NOT FIT the budget of 64.00 KiB");
    cli_done(&r);
}

/* With no time at all nothing is tried: that is said, and not that nothing more was found. */
static void a_search_that_ends_by_its_time_says_so(void **state)
{
    (void)state;
    dt_session *s = NULL;
    static dt_err err;
    const char *const sets[] = {"memory.device_budget=3MiB"};
    put_text("b.ini", LENET);
    assert_ok(dt_session_open(&s, in_workspace("b.ini"), sets, 1, &err), &err);
    assert_ok(dt_session_plan_run(s, true, 0, 0, &err), &err);
    const dt_available have = dt_plan_set_available(s->plans);
    for (int seconds = 0; seconds <= DTI_SUGGEST_SECONDS; seconds += DTI_SUGGEST_SECONDS) {
        dt_err_clear(&err);
        assert_ok(dti_suggest(s, &have, seconds, &err), &err);
        (seconds == 0 ? assert_has : assert_has_not)(err.text,
            "  the search for what fits ended after 0 seconds of processor time; more may");
        (seconds > 0 ? assert_has : assert_has_not)(err.text, "fits if");
        assert_has_not(err.text, "such configuration");
        assert_has_not(err.text, "nothing was found");
    }
    dt_session_close(s);
}

/* Where lines hold all layers no policy saves anything, and one that takes more than keep_all is no
 * way out beside smaller parts. */
static void what_lines_of_layers_hold_is_told(void **state)
{
    NEED_BINARY();
    put_text("n.ini", LENET);
    ran r = refused(
        "plan n.ini --set memory.device_budget=1400KiB --set memory.layers.*=keep", DT_E_BUDGET);
    assert_has(
        r.err, "policies leave alone what [memory.layers] says of layers; without its lines");
    assert_has(r.err, "fits if: [train] ");
    assert_has_not(r.err, "network_wide");
    cli_done(&r);
}

static void nothing_that_fits_is_said(void **state)
{
    NEED_BINARY();
    put_text("f.ini", LAYER);
    ran r = refused("plan f.ini --set memory.device_budget=16KiB", DT_E_BUDGET);
    assert_has(r.err, "nothing was found that fits; parameters with gradients and optimizer state");
    assert_has_not(r.err, "fits if");
    cli_done(&r);
}

/* ---- the machine ---- */

static void allow_address_space(void)
{
    const struct rlimit most = {(rlim_t)500 << 20, (rlim_t)500 << 20};
    if (setrlimit(RLIMIT_AS, &most) != 0)
        _Exit(125);
}

static void allow_data(void)
{
    const struct rlimit most = {(rlim_t)200 << 20, (rlim_t)200 << 20};
    if (setrlimit(RLIMIT_DATA, &most) != 0)
        _Exit(125);
}

static void budgets_beyond_the_machine_are_mistakes(void **state) /* case 12 */
{
    NEED_BINARY();
    put_text("b.ini", LENET);
    ran r = refused(
        "b.ini --set memory.device_budget=900TiB --set memory.host_budget=800TiB", DT_E_CONFIG);
    assert_has(r.err, "memory.device_budget is 900.00 TiB (--set), but there are no more than ");
    assert_has(r.err, "memory.host_budget is 800.00 TiB (--set), but there are no more than ");
    assert_false(is_there("out"));
    cli_done(&r);
    r = refused("b.ini --set memory.disk_budget=900000TiB", DT_E_CONFIG);
    assert_has(r.err, ": the file system of '/var/tmp'; lower it, or leave it out");
    cli_done(&r);
    r = refused("plan b.ini --set memory.device_budget=900TiB", 0); /* of some other machine */
    cli_done(&r);
}

static void a_budget_beyond_a_limit_of_the_process_names_it(void **state) /* cases 12 and 58 */
{
    NEED_BINARY();
    NEED_LIMITS();
    put_text("b.ini", LENET);
    cli.child = allow_address_space;
    ran r = refused("b.ini --set memory.device_budget=700MiB", DT_E_CONFIG);
    assert_has(r.err, "no more than 500.00 MiB (524,288,000 bytes): RLIMIT_AS (ulimit -v)");
    cli_done(&r);
    cli.child = allow_data;
    r = refused("b.ini --set memory.host_budget=700MiB", DT_E_CONFIG);
    assert_has(r.err, "no more than 200.00 MiB (209,715,200 bytes): RLIMIT_DATA (ulimit -d)");
    cli_done(&r);
}

/* A refused run says which batch fits; that one runs, under the same limit. */
static void limit_is_kept(void (*child)(void), const char *name)
{
    char words[160];
    put_text("w.ini",
        "[model]\nimage = 256\nclasses = 4\n[conv c]\nout = 16\nkernel = 1\n[relu r]\n"
        "[global_avgpool p]\n[fc f]\nout = 4\n[data]\nsamples = 256\n[train]\n"
        "batch = 256\nsteps = 1\n[device]\nthreads = 2\n[run]\ndir = out\n");
    cli.child = child;
    char *before = snapshot("");
    ran r = refused("w.ini", DT_E_BUDGET);
    assert_has(r.err, "does not fit: the run needs ");
    assert_has(r.err, name);
    const char *at = strstr(r.err, "fits if: [train] batch = ");
    assert_non_null(at);
    const int batch = atoi(at + strlen("fits if: [train] batch = "));
    assert_in_range(batch, 2, 255);
    assert_unchanged(before, "");
    cli_done(&r);
    snprintf(words, sizeof words, "w.ini --set train.batch=%d --set data.samples=%d", batch, batch);
    r = refused(words, 0);
    cli_done(&r);
    remove_all("out");
}

static void a_run_beyond_the_address_space_is_refused(void **state) /* case 58 */
{
    NEED_BINARY();
    NEED_LIMITS();
    limit_is_kept(allow_address_space, ": RLIMIT_AS (ulimit -v)");
}

static void a_run_beyond_the_data_limit_is_refused(void **state) /* case 58 */
{
    NEED_BINARY();
    NEED_LIMITS();
    limit_is_kept(allow_data, ": RLIMIT_DATA (ulimit -d)");
}

static void allow_too_little(void)
{
    const struct rlimit most = {(rlim_t)190 << 20, (rlim_t)190 << 20};
    if (setrlimit(RLIMIT_AS, &most) != 0)
        _Exit(125);
}

static void where_no_plan_makes_room_the_limit_is_told(void **state) /* case 58 */
{
    NEED_BINARY();
    NEED_LIMITS();
    put_text("b.ini", LENET);
    cli.child = allow_too_little;
    ran r = refused("b.ini", DT_E_BUDGET);
    assert_has(r.err, "0 B are left: RLIMIT_AS (ulimit -v)");
    assert_has(r.err, "so none makes room: this limit has to be ");
    assert_has_not(r.err, "nothing was found");
    assert_has_not(r.err, "[memory] policy");
    cli_done(&r);
}

static void a_run_beyond_the_machine_is_refused(void **state) /* case 58 */
{
    NEED_BINARY();
    put_text("b.ini", LENET);
    char *before = snapshot("");
    ran r = refused("b.ini --set train.batch=1048576 --set data.samples=1048576 "
                    "--set model.width=1024 --set model.name=lenet5",
        DT_E_BUDGET);
    assert_has(r.err, "does not fit: the run needs ");
    assert_unchanged(before, "");
    cli_done(&r);
}

/* A machine of which the tests say what it has. */
static uint64_t free_blocks, group_bytes;

static int made_up_disk(const char *path, struct statfs *to)
{
    (void)path;
    *to = (struct statfs){.f_bsize = 1 << 20, /* as on networks: what it likes to move */
        .f_frsize = 4096,
        .f_blocks = 100000,
        .f_bavail = (fsblkcnt_t)free_blocks};
    return 0;
}

static FILE *made_up_group(const char *path)
{
    static char text[64];
    const char *is = NULL;
    if (strcmp(path, "/proc/self/cgroup") == 0)
        is = "0::/job\n";
    if (strcmp(path, "/proc/self/mountinfo") == 0)
        is = "30 1 0:26 / /groups rw - cgroup2 none rw\n";
    if (strcmp(path, "/groups/job/memory.max") == 0) {
        snprintf(text, sizeof text, "%" PRIu64 "\n", group_bytes);
        is = text;
    }
    return is != NULL ? fmemopen((void *)(uintptr_t)is, strlen(is), "r") : NULL;
}

static dt_session *planned_of(const char *text, const char *const *sets, size_t n)
{
    dt_err err = {0};
    dt_session *s = NULL;
    put_text("b.ini", text);
    assert_ok(dt_session_open(&s, in_workspace("b.ini"), sets, n, &err), &err);
    assert_ok(dt_session_plan_run(s, false, 0, 0, &err), &err);
    return s;
}

static dt_session *planned(const char *const *sets, size_t n)
{
    return planned_of(LENET, sets, n);
}

static void a_disk_without_room_is_known_before_the_run(void **state) /* case 50 */
{
    (void)state;
    const char *const sets[] = {"memory.policy=vdnn_all", "memory.tier=disk"};
    dt_session *s = planned(sets, DT_COUNT(sets));
    dt_io_ops ops = dt_io_system;
    dt_err err = {0};
    ops.statfs = made_up_disk;
    dt_io = &ops;
    const uint64_t need = dt_plan_set_tier_peak(s->plans, DT_TIER_DISK);
    free_blocks = need / 4096;
    assert_ok(dti_session_check_run(s, false, &err), &err);
    free_blocks--;
    assert_fails(dti_session_check_run(s, false, &err), DT_E_IO, &err, "in '/var/tmp', where ");
    dt_here here;
    dt_plan_set_here(s->plans, &here); /* as plan and compare ask */
    assert_int_equal(here.disk_error, ENOSPC);
    assert_int_equal(here.disk_free, free_blocks * 4096);
    dt_io = &dt_io_system;
    dt_session_close(s);
}

/* What a run takes of memory, less half of its arena: a smaller batch fits. */
static uint64_t too_little_for(const dt_session *s)
{
    dt_here here;
    dt_plan_set_here(s->plans, &here);
    return here.need - dt_plan_set_peak(s->plans) / 2;
}

static void a_control_group_bounds_run_and_budgets(void **state) /* cases 12 and 58 */
{
    (void)state;
    const char *const sets[] = {"memory.device_budget=500MiB"};
    const dti_limit_ops ops = {made_up_group, dt_limit_system.resource};
    dt_session *s = planned(NULL, 0), *t = planned(sets, 1);
    dt_err err = {0}, other = {0};
    s->context.limits = t->context.limits = &ops;
    group_bytes = UINT64_C(1) << 30;
    const dt_status fits = dti_session_check_run(t, false, &err);
    group_bytes = too_little_for(s);
    const dt_status run = dti_session_check_run(s, false, &err);
    const dt_status budget = dti_session_check_run(t, false, &other);
    assert_int_equal(fits, DT_OK);
    assert_fails(run, DT_E_BUDGET, &err, "the control group's /groups/job/memory.max");
    assert_non_null(strstr(err.text, "fits if: "));
    assert_fails(budget, DT_E_CONFIG, &other, "the control group's /groups/job/memory.max");
    dt_session_close(s);
    dt_session_close(t);
}

/* Without a budget plans bring ahead what they may, as what a machine has free is not for them to
 * know: the refusal says by which budget less comes ahead, and with it the run fits. */
static void less_comes_ahead_where_the_machine_has_no_room(void **state)
{
    (void)state;
    const dti_limit_ops ops = {made_up_group, dt_limit_system.resource};
    char budget[64] = "memory.device_budget=";
    const char *const sets[] = {"memory.policy=zero_infinity", "train.batch=1", budget};
    static const char text[] = "[model]\nimage = 16\n[data]\nsamples = 64\n[train]\nsteps = 1\n"
                               "[run]\ndir = out\n[fc a]\nout = 1024\n[fc b]\nout = 1024\n"
                               "[fc c]\nout = 1024\n[fc d]\nout = 4\n";
    dt_session *s = planned_of(text, sets, 2);
    dt_err err = {0};
    s->context.limits = &ops;
    group_bytes = too_little_for(s);
    assert_fails(dti_session_check_run(s, false, &err), DT_E_BUDGET, &err,
        "fits if: [memory] device_budget");
    const char *at = strstr(err.text, "to type: --set ") + strlen("to type: --set ");
    snprintf(budget, sizeof budget, "%.*s", (int)strcspn(at, " \n"), at);
    dt_session_close(s);
    s = planned_of(text, sets, 3);
    s->context.limits = &ops;
    err = (dt_err){0};
    assert_ok(dti_session_check_run(s, false, &err), &err);
    dt_session_close(s);
}

/* The batch of tensors is the file's, and another would be refused. */
static void no_other_batch_is_named_where_it_is_the_files(void **state)
{
    NEED_BINARY();
    put_text("b.ini", LENET);
    ran r = refused("plan b.ini --set memory.device_budget=3MiB", DT_E_BUDGET);
    assert_has(r.err, "[train] batch = ");
    cli_done(&r);
    static const struct {
        const char *x, *y;
    } shape[] = {{"96,1,28,28", "96"}, {"1,96,1,28,28", "1,96"}};
    for (int steps = 0; steps < 2; steps++) {
        char header[256];
        snprintf(header, sizeof header,
            "{\"x\":{\"dtype\":\"F32\",\"shape\":[%s],\"data_offsets\":[0,301056]},"
            "\"y\":{\"dtype\":\"I64\",\"shape\":[%s],\"data_offsets\":[301056,301824]}}",
            shape[steps].x, shape[steps].y);
        put_tensors("data.safetensors", 0, header, 301824);
        r = refused("plan b.ini --set memory.device_budget=3MiB --set data.source=tensors "
                    "--set data.path=data.safetensors",
            DT_E_BUDGET);
        assert_has(r.err, "[train] micro_batch = ");
        (steps ? assert_has_not : assert_has)(r.err, "[train] batch = ");
        cli_done(&r);
    }
}

/* Nought parts are none, however they are written: nothing of them is said again. */
static void parts_of_nought_are_none_that_are_named(void **state)
{
    NEED_BINARY();
    put_text("b.ini", LENET);
    ran plain = refused("plan b.ini --set memory.device_budget=1000KiB "
                        "--set train.micro_batch=0",
        DT_E_BUDGET);
    ran zeros = refused("plan b.ini --set memory.device_budget=1000KiB "
                        "--set train.micro_batch=000",
        DT_E_BUDGET);
    assert_has(plain.err, "[train] batch = ");
    assert_string_equal(zeros.err, plain.err);
    cli_done(&plain);
    cli_done(&zeros);
}

/* A run whose plans turn out to be wrong has failed, and its summary says so. */
static void a_peak_that_was_not_planned_fails_the_run(void **state)
{
    (void)state;
    dt_run t = {.s = planned(NULL, 0), .feeds = {.steps = 1, .steps_per_epoch = 1}};
    const dt_dir_opts o = {.dir = in_workspace("out")};
    dt_err err = {0};
    t.measured = dt_plan_set_peak(t.s->plans) - 64;
    assert_ok(dti_rig_reserve(&t.rig, t.s, &err), &err);
    assert_ok(dti_run_dir_open(&t.dir, &o, "lenet5", "keep_all", &err), &err);
    assert_fails(dti_run_summarise(&t, DT_OK, &err), DT_E_INTERNAL, &err, " bytes were planned, ");
    dti_run_dir_close(t.dir);
    dti_rig_close(&t.rig);
    dt_session_close(t.s);
    char *text = cli_text(in_workspace("out/summary.json"));
    assert_has(text, "\"status\":\t\"failed\"");
    assert_has(text, "\"exit_code\":\t1");
    assert_has(text, " bytes were planned, ");
    dt_free(text);
}

/* What is made again holds what it is made from, which at some batches is more than fits. */
static void what_swaps_alone_fit_is_not_refused(void **state)
{
    (void)state;
    const char *file = cli_file("inception.ini",
        "[model]\nname = inception_v3\n[data]\nsource = synthetic\n[train]\nlr = .1\n"
        "[memory]\npolicy = capuchin\nsimulate = p100\ndevice_budget = 16GB\n");
    for (int n = 1000; n <= 1120; n += 20) {
        if (!dt_picked((uint64_t)n / 20, 7, 3, 1))
            continue;
        char batch[32];
        uint64_t peaks[2];
        snprintf(batch, sizeof batch, "train.batch=%d", n);
        const char *sets[] = {batch, "policy.capuchin.recompute=off"};
        for (size_t k = 0; k < 2; k++) {
            dt_err err = {0};
            dt_session *s = NULL;
            assert_ok(dt_session_open(&s, file, sets, k + 1, &err), &err);
            assert_ok(dt_session_plan_run(s, true, 0, 0, &err), &err);
            peaks[k] = dt_plan_set_peak(s->plans);
            dt_session_close(s);
        }
        assert_true(peaks[1] > 16000000000 || peaks[0] <= 16000000000);
    }
}

static int clean(void **state)
{
    (void)state;
    cli.child = NULL;
    if (cli_binary() != NULL)
        remove_all("out");
    return 0;
}

#define T(f) cmocka_unit_test_teardown(f, clean)
DT_TEST_GROUP(budget)
{
    const struct CMUnitTest tests[] = {
        T(three_configurations_that_fit_are_named),
        T(a_budget_below_the_bound_is_told_so),
        T(the_first_suggestion_is_told_as_it_is_typed),
        T(bytes_without_a_unit_are_told),
        T(suggestions_are_of_different_kinds),
        T(a_batch_beyond_a_part_is_tried),
        T(the_least_is_the_same_whatever_was_asked),
        T(what_takes_the_least_is_offered),
        T(one_sample_in_bf16_is_told_what_it_takes),
        T(auto_is_offered_first),
        T(smaller_algorithms_are_suggested),
        T(what_swaps_alone_fit_is_not_refused),
        T(what_a_policy_costs_is_told),
        T(a_host_budget_is_hard),
        T(a_disk_budget_is_hard),
        T(every_tier_that_does_not_fit_is_named),
        T(a_search_that_ends_by_its_time_says_so),
        T(what_lines_of_layers_hold_is_told),
        T(nothing_that_fits_is_said),
        T(budgets_beyond_the_machine_are_mistakes),
        T(a_budget_beyond_a_limit_of_the_process_names_it),
        T(a_run_beyond_the_address_space_is_refused),
        T(a_run_beyond_the_data_limit_is_refused),
        T(where_no_plan_makes_room_the_limit_is_told),
        T(a_run_beyond_the_machine_is_refused),
        T(a_disk_without_room_is_known_before_the_run),
        T(a_control_group_bounds_run_and_budgets),
        T(less_comes_ahead_where_the_machine_has_no_room),
        T(no_other_batch_is_named_where_it_is_the_files),
        T(parts_of_nought_are_none_that_are_named),
        T(a_peak_that_was_not_planned_fails_the_run),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
