/* The program from outside: what it prints, where, and with which exit code. */
#include "tests/fixture/json_read.h"
#include "tests/fixture/run_cli.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/alloc.h"
#include "engine/config/run_options.h"
#include "layers/registry.h"
#include "memory/plan_text/plan_text.h"
#include "memory/policy.h"
#include "memory/pools/pool_file.h"
#include "memory/remat/remat.h"
#include "memory/verify/verify.h"
#include "models/model.h"
#include "tools/args.h"

static const char *lenet(void)
{
    return cli_file("lenet.ini", "[model]\nname = lenet5\n[train]\nbatch = 64\nsteps = 2\n");
}

static const char *resnet(void)
{
    return cli_file("resnet.ini", "[model]\nname = resnet18\nimage = 64\nclasses = 10\n"
                                  "[train]\nbatch = 4\nsteps = 2\n");
}

/* --- help --- */

static void help_names_every_command(void **state)
{
    NEED_BINARY();
    char *list = cli_text(dt_source_path("tools/tools.def"));
    ran r = cli_run("help", NULL);
    assert_code(&r, 0);
    assert_string_equal(r.err, "");
    int n = 0;
    for (char *at = list; (at = strstr(at, "\nDT_COMMAND(")) != NULL; n++) {
        char want[80];
        at += strlen("\nDT_COMMAND(");
        const int len = (int)strcspn(at, ")");
        if (strncmp(at, "train)", 6) == 0)
            snprintf(want, sizeof want, "  dnntrain CONFIG");
        else
            snprintf(want, sizeof want, "  dnntrain %.*s ", len, at);
        for (char *c = want; *c != '\0'; c++) /* words of C have '_', commands '-' */
            *c = *c == '_' ? '-' : *c;
        assert_has(r.out, want);
    }
    assert_in_range(n, 5, 100);
    dt_free(list);
    cli_done(&r);
}

static void help_of_a_command_shows_its_flags(void **state)
{
    NEED_BINARY();
    static const char *const lines[] = {"help plan", "plan --help", "plan -h x.ini --json"};
    for (size_t i = 0; i < DT_COUNT(lines); i++) {
        ran r = cli_run(lines[i], NULL);
        assert_code(&r, 0);
        assert_has(r.out, "dnntrain plan CONFIG");
        assert_has(r.out, "--set SECTION.KEY=VALUE");
        assert_has(r.out, "--diff A B");
        cli_done(&r);
    }
}

static void help_fits_80_columns(void **state)
{
    NEED_BINARY();
    size_t n;
    const dti_command *const *command = dti_command_all(&n);
    for (size_t i = 0; i <= n; i++) {
        char words[80];
        const char *of = i == n ? "" : command[i]->name[0] != '\0' ? command[i]->name : "train";
        const bool page = strcmp(of, "config") == 0; /* of all keys, for docs/ */
        snprintf(words, sizeof words, page ? "%s --help" : "help %s", of);
        ran r = cli_run(words, NULL);
        assert_code(&r, 0);
        for (const char *line = r.out; *line != '\0'; line += strcspn(line, "\n") + 1)
            if (strcspn(line, "\n") > 80)
                fail_msg("%s: a line too wide: %.*s", words, (int)strcspn(line, "\n"), line);
        cli_done(&r);
    }
}

static void help_config_documents_every_key(void **state)
{
    NEED_BINARY();
    ran r = cli_run("help config", NULL);
    size_t n;
    const dt_layer_desc *const *layer = dt_layer_all(&n);
    assert_code(&r, 0);
    for (const dt_run_section *s = dt_run_sections; s->name != NULL; s++) {
        assert_has(r.out, s->name);
        for (const dt_opt *o = s->rows; o->key != NULL; o++)
            assert_has(r.out, o->key);
    }
    for (size_t i = 0; i < n; i++) {
        char want[64];
        snprintf(want, sizeof want, "[%s NAME]", layer[i]->name);
        assert_has(r.out, want);
    }
    const dt_policy *const *policy = dt_policy_all(&n);
    for (size_t i = 0; i < n; i++)
        for (const dt_opt *o = policy[i]->opts; o != NULL && o->key != NULL; o++) {
            char want[128];
            snprintf(want, sizeof want, "[policy.%s]: ", policy[i]->name);
            const char *section = strstr(r.out, want);
            assert_non_null(section);
            snprintf(want, sizeof want, "\n    %s ", o->key);
            assert_has(section, want);
        }
    cli_done(&r);
}

/* docs/config.md is a title, a paragraph, and what the program prints. */
static void the_configuration_page_is_what_the_program_prints(void **state)
{
    NEED_BINARY();
    char *page = cli_text(dt_source_path("docs/config.md"));
    ran r = cli_run("help config", NULL);
    assert_code(&r, 0);
    const char *rest = strstr(page, "\n\n");
    assert_non_null(rest);
    rest = strstr(rest + 2, "\n\n");
    assert_non_null(rest);
    int line = 1;
    for (const char *c = page; c < rest + 2; c++)
        line += *c == '\n';
    for (const char *a = rest + 2, *b = r.out; strcmp(a, b) != 0; line++) {
        const size_t n = strcspn(a, "\n"), m = strcspn(b, "\n");
        if (n != m || strncmp(a, b, n + 1) != 0)
            fail_msg("docs/config.md:%d: '%.*s' stands there, but `dnntrain help config` prints "
                     "'%.*s'; put its output below the first paragraph",
                line, (int)n, a, (int)m, b);
        a += n + 1;
        b += m + 1;
    }
    dt_free(page);
    cli_done(&r);
}

static void version_is_the_build_systems(void **state)
{
    NEED_BINARY();
    char *cmake = cli_text(dt_source_path("CMakeLists.txt")), want[64];
    ran r = cli_run("--version", NULL);
    const char *at = strstr(cmake, "project(dnntrain VERSION ");
    assert_non_null(at);
    at += strlen("project(dnntrain VERSION ");
    snprintf(want, sizeof want, "dnntrain %.*s", (int)strcspn(at, " "), at);
    assert_int_equal(strncmp(r.out, want, strlen(want)), 0);
    assert_true(strchr(" \n", r.out[strlen(want)]) != NULL); /* and what it was built from */
    dt_free(cmake);
    cli_done(&r);
}

/* What the library's threads do while they wait is settled when the program is loaded, unless the
 * caller has. */
static void threads_that_wait_soon_sleep(void **state)
{
    NEED_BINARY();
    const char *const set[] = {NULL, "GOMP_SPINCOUNT", "OMP_WAIT_POLICY"};
    char *had[2] = {getenv(set[1]), getenv(set[2])};
    for (int i = 0; i < 2; i++)
        had[i] = had[i] == NULL ? NULL : strdup(had[i]);
    setenv("OMP_DISPLAY_ENV", "verbose", 1);
    for (int i = 0; i < 3; i++) {
        unsetenv(set[1]);
        unsetenv(set[2]);
        if (set[i] != NULL)
            setenv(set[i], i == 1 ? "7" : "active", 1);
        ran r = cli_run("--version", NULL);
        assert_code(&r, 0);
        const char *key = "GOMP_SPINCOUNT = '", *at = NULL; /* the last is the program begun anew */
        for (const char *p = r.err; (p = strstr(p, key)) != NULL; p++)
            at = p;
        const long count = at != NULL ? strtol(at + strlen(key), NULL, 10) : 0;
        if (at != NULL && i < 2) /* GCC's OpenMP */
            assert_true(i == 1 ? count == 7 : count >= 500 && count <= 40000);
        cli_done(&r);
    }
    unsetenv("OMP_DISPLAY_ENV");
    for (int i = 0; i < 2; i++) {
        unsetenv(set[i + 1]);
        if (had[i] != NULL)
            setenv(set[i + 1], had[i], 1);
        free(had[i]);
    }
}

/* How many threads plans are made for, as they say; the caller frees it. */
static char *planned_threads(void)
{
    ran r = cli_run("plan FILE --text -", dt_source_path("configs/mlp.ini"));
    assert_code(&r, 0);
    const char *at = strstr(r.out, "threads=");
    assert_non_null(at);
    char *said = strndup(at, strcspn(at, " \n"));
    cli_done(&r);
    return said;
}

static void threads_that_are_bound_are_as_many(void **state)
{
    NEED_BINARY();
    if (getenv("OMP_PROC_BIND") != NULL)
        skip();
    char *free_ones = planned_threads();
    setenv("OMP_PROC_BIND", "true", 1);
    char *bound = planned_threads();
    unsetenv("OMP_PROC_BIND");
    assert_string_equal(bound, free_ones);
    free(bound);
    free(free_ones);
}

/* --- wrong calls --- */

typedef struct wrong {
    const char *words, *want;
} wrong;

/* Exit code 2, nothing on stdout, and every line on stderr under the program's name. */
static void refuse(const wrong *w, const char *file)
{
    ran r = cli_run(w->words, file);
    assert_code(&r, DT_E_CONFIG);
    assert_string_equal(r.out, "");
    assert_has(r.err, w->want);
    for (const char *line = r.err; *line != '\0'; line += strcspn(line, "\n") + 1)
        if (strncmp(line, "dnntrain: ", 10) != 0)
            fail_msg("this line does not say whose it is: %s", line);
    cli_done(&r);
}

static void wrong_commands_get_the_nearest(void **state)
{
    NEED_BINARY();
    static const wrong cases[] = {
        {"plna x.ini", "did you mean 'plan'?"},
        {"lsit models", "did you mean 'list'?"},
        {"trian x.ini", "did you mean 'train'?"},
        {"train", "which configuration?"},
        {"train nothing.ini", "there is no file 'nothing.ini'"},
        {"something-else", "`dnntrain help` lists the commands"},
        {"help plna", "did you mean 'plan'?"},
        {"help confg", "did you mean 'config'?"},
        {"list polices", "did you mean 'policies'?"},
        {"list weather", "name one of policies, models"},
        {"list", "Name one of policies, models"},
        {"plan", "name a CONFIG; usage: dnntrain plan"},
        {"pool", "name a file of intervals; usage: dnntrain pool"},
        {"plan a.ini b.ini", "'b.ini' is one argument too many"},
        {"list models layers", "'layers' is one argument too many"},
        {"plan --diff a", "--diff needs A B after it"},
        {"plan a.ini --diff a b", "--diff takes two files"},
        {"plan a.ini --jsn", "did you mean '--json'?"},
        {"plan a.ini --frobnicate", "`dnntrain plan --help` lists the flags"},
        {"plan a.ini --json=yes", "--json takes no value; leave out '=yes'"},
        {"plan a.ini --set", "--set needs SECTION.KEY=VALUE after it"},
        {"plan a.ini --json --rows", "exclude each other"},
    };
    for (size_t i = 0; i < DT_COUNT(cases); i++)
        refuse(&cases[i], NULL);
}

static void without_arguments_help_is_shown_and_nothing_done(void **state)
{
    NEED_BINARY();
    ran r = cli_run("", NULL);
    assert_code(&r, DT_E_CONFIG);
    assert_has(r.out, "dnntrain plan CONFIG");
    assert_has(r.err, "name a configuration or a command");
    cli_done(&r);
}

/* As many as a shell makes of a pattern; in this process, as lines of cli_run have fewer words. */
static void any_number_of_pictures_may_be_named(void **state)
{
    enum { PICTURES = 70 };
    (void)state;
    char config[256], picture[PICTURES][16], *arg[1 + PICTURES] = {config};
    snprintf(config, sizeof config, "%s", lenet());
    for (int i = 0; i < PICTURES; i++) {
        snprintf(picture[i], sizeof picture[i], "%d.png", i);
        arg[1 + i] = picture[i];
    }
    const dti_command_args a = {1 + PICTURES, arg};
    dt_err err = {0};
    assert_fails(
        dt_command_classify.run(&a, &err), DT_E_CONFIG, &err, "no weights to classify with");
    assert_has_not(err.text, "too many");
}

static void missing_files_get_the_nearest_in_their_folder(void **state)
{
    NEED_BINARY();
    char near[256]; /* paths of dt_temp_path do not last */
    snprintf(near, sizeof near, "%s", lenet());
    near[strlen(near) - 1] = '\0';
    static const wrong cases[] = {
        {"FILE", "lenet.ini'?"},
        {"plan FILE", "lenet.ini'?"},
        {"pool FILE", "lenet.ini'?"},
        {"plan --diff FILE FILE", "lenet.ini'?"},
    };
    for (size_t i = 0; i < DT_COUNT(cases); i++)
        refuse(&cases[i], near);
    (void)cli_file("big_net_of_mine.ini", "");
    (void)cli_file("pig_net.ini", "");
    snprintf(near, sizeof near, "%s", dt_temp_path("big_net.ini"));
    refuse(&(wrong){"plan FILE", "/big_net_of_mine.ini'?"}, near);
    refuse(&(wrong){"plan FILE", "there is no file"}, dt_temp_path("no/such/folder.ini"));
    refuse(&(wrong){"plan FILE", "folder"}, dt_temp_path(""));
}

static void sets_are_checked_as_the_file_is(void **state)
{
    NEED_BINARY();
    static const wrong cases[] = {
        {"plan FILE --set foo", "section.key=value"},
        {"plan FILE --set train.batch", "section.key=value"},
        {"plan FILE --set =3", "section.key=value"},
        {"plan FILE --set data.path=a\xFF", "byte 12, 0xFF, is not UTF-8"},
        {"plan FILE --set data.path=a\001", "byte 12, 0x01, is a control character"},
        {"plan FILE --set train.bach=3", "did you mean 'batch'?"},
        {"plan FILE --set trian.batch=3", "did you mean"},
        {"plan FILE --set train.batch=3x", "train] batch = 3x"},
        {"plan FILE --set train.batch=0", "train] batch = 0"},
        {"plan FILE --set train.batch=-4", "train] batch = -4"},
        {"plan FILE --set train.lr=nan", "train] lr = nan"},
        {"plan FILE --set train.lr=0,1", "train] lr = 0,1"},
        {"plan FILE --set memory.device_budget=8GG", "device_budget = 8GG"},
        {"plan FILE --set train.batch=64 --set train.micro_batch=7", "micro_batch"},
        {"plan FILE --set model.name=lenet6", "did you mean 'lenet5'"},
        {"plan FILE --set memory.policy=keepall", "did you mean 'keep_all'"},
        {"plan FILE --set memory.policy=keep_all,,keep_all", "empty"},
        {"plan FILE --set memory.pool=greedi", "did you mean 'greedy'"},
        {"plan FILE --set memory.layers.#c1=keep", "no key begins with '#'"},
    };
    for (size_t i = 0; i < DT_COUNT(cases); i++)
        refuse(&cases[i], lenet());
    char long_path[8000] =
        "plan FILE --set memory.disk_path=/;"; /* so it is quoted, and quotes doubled */
    memset(long_path + strlen(long_path), '"', 5000);
    refuse(&(wrong){long_path, "[memory] disk_path: it is 5002 bytes long, and "}, lenet());
}

static void all_wrong_sets_are_reported_together(void **state)
{
    NEED_BINARY();
    const wrong w = {"plan FILE --set train.bach=3 --set memory.polcy=x", "'batch'"};
    refuse(&w, lenet());
    refuse(&(wrong){w.words, "'policy'"}, lenet());
}

static void a_later_set_wins(void **state)
{
    NEED_BINARY();
    ran r = cli_run("plan --set train.batch=8 FILE --json --set=train.batch=16", lenet());
    assert_code(&r, 0);
    cJSON *o = json_of(r.out, strlen(r.out));
    assert_int_equal(cJSON_GetObjectItemCaseSensitive(o, "batch")->valueint, 16);
    cJSON_Delete(o);
    cli_done(&r);
}

static void results_that_cannot_be_written_are_an_error(void **state)
{
    NEED_BINARY();
    if (access("/dev/full", W_OK) != 0)
        skip();
    ran r = cli_run_to("/dev/full", "list models", NULL);
    assert_code(&r, DT_E_IO);
    assert_has(r.err, "could not be written");
    cli_done(&r);
}

/* --- list --- */

static const char *const kinds[] = {
    "policies", "models", "layers", "codecs", "tiers", "pools", "devices", "sources"};

static void lists_are_arrays_of_named_objects(void **state)
{
    NEED_BINARY();
    for (size_t i = 0; i < DT_COUNT(kinds); i++) {
        char words[64];
        snprintf(words, sizeof words, "list %s --json", kinds[i]);
        ran r = cli_run(words, NULL);
        assert_code(&r, 0);
        cJSON *a = json_of(r.out, strlen(r.out)), *o;
        const bool says_exact =
            strcmp(kinds[i], "policies") == 0 || strcmp(kinds[i], "codecs") == 0;
        assert_true(cJSON_IsArray(a));
        assert_true(cJSON_GetArraySize(a) > 0);
        cJSON_ArrayForEach(o, a)
        {
            const char *name = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(o, "name"));
            const char *about =
                cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(o, "summary"));
            assert_true(name != NULL && *name != '\0' && about != NULL && *about != '\0');
            assert_int_equal(
                cJSON_IsBool(cJSON_GetObjectItemCaseSensitive(o, "exact")) != 0, says_exact);
        }
        cJSON_Delete(a);
        cli_done(&r);
    }
}

static void lists_name_everything_there_is(void **state)
{
    NEED_BINARY();
    size_t n;
    const dt_policy *const *policy = dt_policy_all(&n);
    ran r = cli_run("list policies", NULL);
    for (size_t i = 0; i < n; i++)
        assert_has(r.out, policy[i]->name);
    cli_done(&r);
    r = cli_run("list models", NULL);
    for (const char *const *name = dt_model_names(); *name != NULL; name++)
        assert_has(r.out, *name);
    cli_done(&r);
}

/* Those that always do, and those of which an option does. */
static void every_policy_that_can_change_results_says_so(void **state)
{
    NEED_BINARY();
    size_t n;
    const dt_policy *const *all = dt_policy_all(&n);
    ran r = cli_run("list policies", NULL);
    char *line = r.out;
    for (size_t i = 0; i < n; i++) {
        char *end = strchr(line, '\n');
        assert_non_null(end);
        *end = '\0';
        assert_int_equal(strncmp(line, all[i]->name, strlen(all[i]->name)), 0);
        const bool can = !all[i]->exact || all[i]->changes != NULL;
        (can ? assert_has : assert_has_not)(line, "changes results");
        line = end + 1;
    }
    cli_done(&r);
}

/* --- plan --- */

static uint64_t number(const cJSON *o, const char *key)
{
    const double v = json_number(o, key);
    if (!(v >= 0 && v <= 9e15))
        fail_msg("'%s' is no count", key);
    return (uint64_t)v;
}

static const char *const roles[] = {"input", "weights", "gradients", "optimizer", "buffers",
    "activations", "activation_gradients", "stash", "derived", "workspace", "library", "unused"};

/* The invariants of every plan's JSON. */
static void check_plan(const cJSON *o)
{
    static const char *const texts[] = {
        "model", "policy", "device_kind", "pool", "precision", "peak_layer"};
    static const char *const unknown[] = {"step_seconds", "compute_seconds", "stall_seconds"};
    for (size_t i = 0; i < DT_COUNT(texts); i++) {
        const char *v = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(o, texts[i]));
        assert_true(v != NULL && *v != '\0');
    }
    assert_true(cJSON_IsBool(cJSON_GetObjectItemCaseSensitive(o, "fits")));
    const cJSON *device = json_object(o, "device"), *b = json_object(o, "breakdown");
    const uint64_t peak = number(device, "peak");
    assert_true(peak > 0 && number(device, "lower_bound") <= peak);
    assert_true(number(device, "lower_bound") > peak / 2);
    uint64_t sum = 0;
    for (size_t i = 0; i < DT_COUNT(roles); i++)
        sum += number(b, roles[i]);
    assert_int_equal(sum, peak);
    assert_int_equal(cJSON_GetArraySize(b), DT_COUNT(roles));
    (void)number(json_object(o, "disk"), "peak");
    for (size_t i = 0; i < DT_COUNT(unknown); i++)
        assert_true(cJSON_IsNull(
            cJSON_GetObjectItemCaseSensitive(json_object(o, "predicted"), unknown[i])));
    (void)number(json_object(o, "host"), "peak");
    (void)number(json_object(o, "transfers"), "out");
    (void)number(json_object(o, "recompute"), "ops");
    (void)number(json_object(o, "recompute"), "flops");
    assert_true(json_number(o, "plan_seconds") > 0);
}

/* The checked JSON of a plan that is made without complaint. */
static cJSON *plan_json(const char *words, const char *file)
{
    ran r = cli_run(words, file);
    assert_code(&r, 0);
    assert_string_equal(r.err, "");
    cJSON *o = json_of(r.out, strlen(r.out));
    check_plan(o);
    cli_done(&r);
    return o;
}

static void breakdowns_sum_to_the_peak(void **state)
{
    NEED_BINARY();
    size_t n;
    const dt_policy *const *policy = dt_policy_all(&n);
    for (size_t i = 0; i < n; i++) {
        if (policy[i]->solver && dt_solver_name() == NULL)
            continue;
        char words[256];
        snprintf(words, sizeof words, "plan FILE --json --set memory.policy=%s%s", policy[i]->name,
            policy[i]->rung != NULL ? " --set memory.device_budget=1TiB" : "");
        const char *const files[] = {lenet(), resnet()};
        for (size_t k = 0; k < DT_COUNT(files); k++) {
            if (!dt_picked(i + 4 * k, 8, 8, 1))
                continue;
            cJSON *o = plan_json(words, files[k]);
            const bool on_disk = number(json_object(o, "disk"), "peak") > 0;
            assert_true(policy[i]->to_disk || !on_disk);           /* no other asks for it */
            assert_true(!policy[i]->to_disk || on_disk || k == 0); /* LeNet-5 may be too small */
            cJSON_Delete(o);
        }
    }
}

static void roles_of_parameters_are_exact(void **state)
{
    NEED_BINARY();
    cJSON *o = plan_json("plan FILE --json --set train.batch=1 --set train.momentum=0.9", resnet());
    const cJSON *b = json_object(o, "breakdown");
    const uint64_t weights = number(b, "weights");
    assert_in_range(
        weights, 4 * 11181642, 4 * 11181642 * 2); /* resnet18 with 10 classes; padded layouts */
    assert_int_equal(number(b, "gradients"), weights);
    assert_int_equal(number(b, "optimizer"), weights);
    assert_true(number(b, "activations") > 0);
    assert_string_equal(
        cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(o, "model")), "resnet18");
    cJSON_Delete(o);
}

static void large_counts_are_whole(void **state)
{
    NEED_BINARY();
    ran r = cli_run("plan FILE --json --set train.batch=1048576", lenet());
    assert_code(&r, 0);
    cJSON *o = json_of(r.out, strlen(r.out));
    check_plan(o);
    const char *at = strstr(r.out, "\"peak\":");
    char *end;
    assert_non_null(at);
    const uint64_t peak = strtoull(at + 7, &end, 10);
    assert_true(peak > UINT64_C(1) << 35);
    assert_true(*end == ',' || *end == '\n'); /* no point, no exponent */
    assert_int_equal(peak, number(json_object(o, "device"), "peak"));
    cJSON_Delete(o);
    cli_done(&r);
}

static void without_a_budget_nothing_is_checked(void **state)
{
    NEED_BINARY();
    static const char *const tiers[] = {"device", "host", "disk"};
    cJSON *o = plan_json("plan FILE --json", lenet());
    for (size_t i = 0; i < DT_COUNT(tiers); i++)
        assert_true(
            cJSON_IsNull(cJSON_GetObjectItemCaseSensitive(json_object(o, tiers[i]), "budget")));
    assert_true(cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(o, "fits")));
    cJSON_Delete(o);
}

/* How many decisions of the first program there are of a fate. Each has a tensor, bytes and a
 * reason that begins with @rule. */
static int decisions(const cJSON *o, const char *fate, const char *rule)
{
    const cJSON *first = cJSON_GetArrayItem(cJSON_GetObjectItemCaseSensitive(o, "programs"), 0);
    const cJSON *table = cJSON_GetObjectItemCaseSensitive(first, "reasons"), *one;
    int n = 0;
    cJSON_ArrayForEach(one, cJSON_GetObjectItemCaseSensitive(first, "decisions"))
    {
        if (strcmp(cJSON_GetObjectItemCaseSensitive(one, "fate")->valuestring, fate) != 0)
            continue;
        const cJSON *why = cJSON_GetArrayItem(table, (int)number(one, "reason"));
        assert_non_null(why);
        assert_true(strncmp(why->valuestring, rule, strlen(rule)) == 0);
        assert_true(cJSON_IsString(cJSON_GetObjectItemCaseSensitive(one, "tensor")));
        assert_true(number(one, "bytes") > 0);
        n++;
    }
    return n;
}

static void decisions_give_their_reasons(void **state)
{
    NEED_BINARY();
    cJSON *o = plan_json("plan FILE --json --set memory.policy=vdnn_conv", lenet());
    assert_true(decisions(o, "offload", "vdnn_conv: input of convolution ") > 0);
    assert_true(decisions(o, "prefetch", "vdnn_conv: input of convolution ") > 0);
    assert_true(decisions(o, "in place", "in place: ") > 0);
    assert_int_equal(decisions(o, "recompute", ""), 0);
    cJSON_Delete(o);
    o = plan_json("plan FILE --json --set memory.policy=chen_cheap", lenet());
    assert_true(decisions(o, "recompute", "chen_cheap: ") > 0);
    cJSON_Delete(o);
    ran r = cli_run("plan FILE --rows --set memory.policy=vdnn_conv", lenet());
    assert_code(&r, 0);
    assert_has(r.out, "  # vdnn_conv: input of convolution ");
    cli_done(&r);
}

static void budgets_are_kept_to_the_byte(void **state)
{
    NEED_BINARY();
    char words[128];
    cJSON *o = plan_json("plan FILE --json", lenet());
    const uint64_t peak = number(json_object(o, "device"), "peak");
    cJSON_Delete(o);
    snprintf(words, sizeof words, "plan FILE --json --set memory.device_budget=%" PRIu64, peak);
    o = plan_json(words, lenet());
    assert_true(cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(o, "fits")));
    assert_int_equal(number(json_object(o, "device"), "budget"), peak);
    cJSON_Delete(o);
    snprintf(words, sizeof words, "plan FILE --json --set memory.device_budget=%" PRIu64, peak - 1);
    ran r = cli_run(words, lenet());
    assert_code(&r, DT_E_BUDGET);
    assert_has(r.err, "dnntrain: ");
    o = json_of(r.out, strlen(r.out));
    check_plan(o);
    assert_true(cJSON_IsFalse(cJSON_GetObjectItemCaseSensitive(o, "fits")));
    assert_int_equal(number(json_object(o, "device"), "peak"), peak);
    cJSON_Delete(o);
    cli_done(&r);
}

static void a_table_that_does_not_fit_says_so(void **state)
{
    NEED_BINARY();
    ran r = cli_run("plan FILE --set memory.device_budget=1MiB", lenet());
    assert_code(&r, DT_E_BUDGET);
    assert_has(r.out, "DOES NOT FIT the budget of 1.00 MiB");
    assert_has(r.err, "dnntrain: ");
    cli_done(&r);
}

/* Input is fetched for every micro-batch, labels too. */
static void transfers_are_of_a_whole_step(void **state)
{
    NEED_BINARY();
    cJSON *one = plan_json("plan FILE --json", lenet());
    cJSON *four = plan_json("plan FILE --json --set train.micro_batch=16", lenet());
    const uint64_t in = number(json_object(one, "transfers"), "in");
    assert_int_equal(number(json_object(one, "transfers"), "out"), 0);
    assert_true(in >= 64 * (28 * 28 * 4 + 4));
    assert_int_equal(number(json_object(four, "transfers"), "in"), in);
    assert_true(
        number(json_object(four, "device"), "peak") < number(json_object(one, "device"), "peak"));
    assert_int_equal(number(four, "batch"), 64);
    cJSON_Delete(one);
    cJSON_Delete(four);
}

static size_t longest_line(const char *text)
{
    size_t longest = 0;
    for (const char *line = text; *line != '\0'; line += strcspn(line, "\n") + 1) {
        size_t columns = 0; /* of UTF-8: bytes that go on do not count */
        for (const char *c = line; *c != '\n' && *c != '\0'; c++)
            columns += ((unsigned char)*c & 0xc0) != 0x80;
        longest = columns > longest ? columns : longest;
    }
    return longest;
}

static bool is_ascii(const char *text)
{
    while (*text != '\0' && (unsigned char)*text < 0x80)
        text++;
    return *text == '\0';
}

static void tables_fit_a_terminal_in_the_locales_characters(void **state)
{
    NEED_BINARY();
    static const char *const locales[] = {"C", "C.UTF-8"};
    for (size_t i = 0; i < DT_COUNT(locales); i++) {
        cli.locale = locales[i];
        ran r = cli_run("plan FILE", resnet());
        cli.locale = "C";
        assert_code(&r, 0);
        assert_int_equal(is_ascii(r.out), i == 0);
        assert_in_range(longest_line(r.out), 60, 80);
        assert_has(r.out, "resnet18");
        assert_has(r.out, "device peak");
        assert_has(r.out, "^");
        for (size_t k = 1; k < 4; k++)
            assert_has(r.out, roles[k]);
        assert_has(r.out, "\nfirst ");
        assert_has(r.out, "\nupdate ");
        assert_has(r.out, "\neval ");
        cli_done(&r);
    }
}

static int times(const char *text, const char *word)
{
    int n = 0;
    for (; (text = strstr(text, word)) != NULL; text += strlen(word))
        n++;
    return n;
}

/* The curve's legend tells of what is persistent where a row of the curve is, and nowhere else. */
static void the_legend_is_of_what_the_curve_shows(void **state)
{
    NEED_BINARY();
    int shown = 0;
    for (int batch = 1; batch <= 4096; batch *= 16) {
        char words[128];
        snprintf(words, sizeof words, "plan FILE --set train.batch=%d", batch);
        cli.locale = "C.UTF-8";
        ran r = cli_run(words, lenet());
        cli.locale = "C";
        assert_code(&r, 0);
        const int cells = times(r.out, "▒"), legend = times(r.out, "; ▒ persistent");
        if (legend != (cells > 0) || cells == 1)
            fail_msg("batch %d: legend %d times, cell %d times", batch, legend, cells);
        shown += legend;
        cli_done(&r);
    }
    assert_in_range(shown, 1, 3); /* of four: small batches have it, the largest has not */
}

static void assert_budget(const cJSON *o, const char *key, double want)
{
    const cJSON *b = cJSON_GetObjectItemCaseSensitive(o, key);
    assert_non_null(b);
    assert_true(want > 0 ? cJSON_IsNumber(b) && b->valuedouble == want : cJSON_IsNull(b));
}

/* A budget that is not given is null, before a run and after it; and what nobody uses at the peak
 * is called unused, before it and in it. */
static void a_plan_and_its_run_say_the_same_words(void **state)
{
    NEED_BINARY();
    for (int given = 0; given < 2; given++) {
        const char *budget = given > 0 ? "--set memory.device_budget=67108864" : "";
        char words[512];
        snprintf(words, sizeof words, "plan FILE --json %s", budget);
        ran r = cli_run(words, lenet());
        assert_code(&r, 0);
        cJSON *plan = json_of(r.out, strlen(r.out));
        const cJSON *device = cJSON_GetObjectItemCaseSensitive(plan, "device"),
                    *unused = cJSON_GetObjectItemCaseSensitive(
                        cJSON_GetObjectItemCaseSensitive(plan, "breakdown"), "unused");
        assert_budget(device, "budget", given > 0 ? 67108864 : 0);
        assert_true(cJSON_IsNumber(unused));
        cli_done(&r);
        snprintf(words, sizeof words, "FILE --set run.dir=%s --set run.overwrite=on %s",
            dt_temp_path("words"), budget);
        r = cli_run(words, lenet());
        assert_code(&r, 0);
        assert_int_equal(strstr(r.err, "unused ") != NULL, unused->valuedouble > 0);
        assert_has_not(r.err, "gaps");
        cJSON *summary = json_file(dt_temp_path("words/summary.json"));
        assert_budget(summary, "device_budget", given > 0 ? 67108864 : 0);
        cJSON_Delete(summary);
        cJSON_Delete(plan);
        cli_done(&r);
    }
}

static void plain_text_can_be_asked_for(void **state)
{
    NEED_BINARY();
    cli.locale = "C.UTF-8";
    ran r = cli_run("plan FILE", lenet());
    assert_false(is_ascii(r.out));
    cli_done(&r);
    cli.no_color = "1"; /* of colours only: as in a run's curve of losses */
    r = cli_run("plan FILE", lenet());
    cli.no_color = "";
    assert_false(is_ascii(r.out));
    cli_done(&r);
    cli.term = "dumb";
    r = cli_run("plan FILE", lenet());
    cli.term = "xterm";
    cli.locale = "C";
    assert_true(is_ascii(r.out));
    cli_done(&r);
}

static void written_plans_are_sound_and_can_be_compared(void **state)
{
    NEED_BINARY();
    char words[1024], a[256], b[256]; /* paths of dt_temp_path do not last */
    snprintf(a, sizeof a, "%s", dt_temp_path("a.plan"));
    snprintf(b, sizeof b, "%s", dt_temp_path("b.plan"));
    snprintf(words, sizeof words, "plan FILE --text %s", a);
    ran r = cli_run(words, lenet());
    assert_code(&r, 0);
    cli_done(&r);
    snprintf(words, sizeof words, "plan FILE --rows --text %s --set train.batch=32", b);
    r = cli_run(words, lenet());
    assert_code(&r, 0);
    assert_has(r.out, "; C conv1.f");
    cli_done(&r);

    dt_plans all;
    dt_err err = {0};
    char *text = cli_text(a);
    assert_ok(dt_plans_parse(&all, a, text, strlen(text), &err), &err);
    assert_true(all.n >= 3); /* a step, its update, an evaluation */
    for (size_t i = 0; i < all.n; i++)
        assert_ok(dt_verify(all.plan[i], &err), &err);
    dt_plans_deinit(&all);
    dt_free(text);

    snprintf(words, sizeof words, "plan --diff %s %s", a, b);
    r = cli_run(words, NULL);
    assert_code(&r, 0);
    assert_has(r.out, "- batch=64\n+ batch=32\n");
    assert_string_equal(r.err, "dnntrain: the plans differ\n");
    cli_done(&r);
    snprintf(words, sizeof words, "plan --diff %s %s", a, a);
    r = cli_run(words, NULL);
    assert_code(&r, 0);
    assert_string_equal(r.out, "");
    assert_string_equal(r.err, "dnntrain: the plans are the same\n");
    cli_done(&r);
}

static void rows_of_every_program_can_be_shown(void **state)
{
    NEED_BINARY();
    ran r = cli_run("plan FILE --rows --program update", lenet());
    assert_code(&r, 0);
    assert_has(r.out, "C ");
    cli_done(&r);
    refuse(&(wrong){"plan FILE --rows --program again", "it has first, update, eval"}, lenet());
    refuse(&(wrong){"plan FILE --rows --program frist", "did you mean 'first'?"}, lenet());
}

static void kernels_of_every_op_can_be_shown(void **state)
{
    NEED_BINARY();
    ran rows = cli_run("plan FILE --rows --program eval", resnet());
    ran r = cli_run("plan FILE --kernels --program eval", resnet());
    assert_code(&rows, 0);
    assert_code(&r, 0);
    size_t ops = 0, lines = 0, others = 0;
    for (const char *at = rows.out; (at = strstr(at, "; C ")) != NULL; at++)
        ops++;
    for (const char *at = r.out; *at != '\0'; at += strcspn(at, "\n") + 1) {
        others += *at == ' ';
        lines += *at != ' ';
    }
    assert_true(ops > 40);
    assert_int_equal(lines, ops + 1); /* and the head */
    assert_true(others >= 8);         /* convolutions of 3x3, by the library instead */
    assert_has(r.out, "layer1.0.conv1.f ");
    cli_done(&rows);
    cli_done(&r);
    r = cli_run("plan FILE --kernels --set train.precision=fp32", resnet());
    assert_code(&r, 0);
    assert_has(r.out, " winograd: kernel 7, needs 3"); /* in the line of conv1 */
    assert_has(r.out, " ours\n");
    cli_done(&r);
    r = cli_run("plan FILE --kernels --rows", resnet());
    assert_code(&r, DT_E_CONFIG);
    cli_done(&r);
}

static void a_plan_file_that_is_none_is_bad_data(void **state)
{
    NEED_BINARY();
    ran r = cli_run("plan --diff FILE FILE", lenet());
    assert_code(&r, DT_E_DATA);
    assert_has(r.err, "lenet.ini:1: ");
    cli_done(&r);
}

/* --- pool --- */

static const char *intervals(void)
{
    return cli_file(
        "intervals.csv", "id,lower,upper,size\n7,0,4,10\n8,2,6,30\n9,4,9,20\n10,0,9,1\n");
}

static void pools_report_peak_and_bound(void **state)
{
    NEED_BINARY();
    size_t n;
    const dt_pool_desc *const *all = dt_pool_all(&n);
    ran r = cli_run("pool FILE", intervals());
    assert_code(&r, 0);
    assert_has(r.out, "4 intervals, lower bound 51 bytes");
    for (size_t i = 0; i < n; i++)
        assert_has(r.out, all[i]->name);
    cli_done(&r);
    char words[128];
    snprintf(words, sizeof words, "pool FILE --pool %s", all[0]->name);
    r = cli_run(words, intervals());
    assert_code(&r, 0);
    assert_has(r.out, all[0]->name);
    for (size_t i = 1; i < n; i++)
        assert_null(strstr(r.out, all[i]->name));
    cli_done(&r);
    refuse(&(wrong){"pool FILE --pool gready", "did you mean 'greedy'?"}, intervals());
}

static void offsets_overlap_nowhere(void **state)
{
    NEED_BINARY();
    long v[4][5]; /* id, lower, upper, size, offset */
    ran r = cli_run("pool FILE --csv --pool greedy", intervals());
    assert_code(&r, 0);
    const char *line = strchr(r.out, '\n');
    assert_int_equal(strncmp(r.out, "id,lower,upper,size,offset\n", 27), 0);
    for (int i = 0; i < 4; i++, line = strchr(line + 1, '\n'))
        assert_int_equal(
            sscanf(line, "\n%ld,%ld,%ld,%ld,%ld", &v[i][0], &v[i][1], &v[i][2], &v[i][3], &v[i][4]),
            5);
    assert_string_equal(line, "\n");
    for (int i = 0; i < 4; i++) {
        assert_int_equal(v[i][0], 7 + i);
        for (int k = 0; k < i; k++)
            assert_true(v[i][2] <= v[k][1] || v[k][2] <= v[i][1] || v[i][4] >= v[k][4] + v[k][3] ||
                        v[k][4] >= v[i][4] + v[i][3]);
    }
    cli_done(&r);
}

/* Without --pool the offsets are those of the lowest. */
static void the_lowest_placement_is_shown(void **state)
{
    NEED_BINARY();
    enum { COUNT = 120 };
    dt_interval v[COUNT];
    const char *path = dt_temp_path("many.csv");
    dt_err err = {0};
    uint32_t seed = 1;
    for (int i = 0; i < COUNT; i++) {
        uint32_t n[3];
        for (int k = 0; k < 3; k++)
            n[k] = (seed = seed * 1664525U + 1013904223U) >> 16;
        v[i] = (dt_interval){.lower = n[0] % 100, .bytes = 1 + n[2] % 1000, .align = 1, .id = i};
        v[i].upper = v[i].lower + 1 + n[1] % 30;
    }
    assert_ok(dt_pool_file_write(v, COUNT, path, &err), &err);
    size_t n;
    const dt_pool_desc *const *all = dt_pool_all(&n);
    uint64_t lowest = UINT64_MAX, highest = 0, shown = 0;
    for (size_t i = 0; i < n; i++) {
        uint64_t peak;
        assert_ok(all[i]->place(v, COUNT, &peak, &err), &err);
        lowest = peak < lowest ? peak : lowest;
        highest = peak > highest ? peak : highest;
    }
    assert_true(lowest < highest); /* or this shows nothing */
    ran r = cli_run("pool FILE --csv", path);
    assert_code(&r, 0);
    assert_has(r.err, "the lowest");
    const char *line = strchr(r.out, '\n');
    for (int i = 0; i < COUNT; i++, line = strchr(line + 1, '\n')) {
        uint64_t bytes, off;
        assert_int_equal(sscanf(line, "\n%*d,%*d,%*d,%" SCNu64 ",%" SCNu64, &bytes, &off), 2);
        shown = off + bytes > shown ? off + bytes : shown;
    }
    assert_int_equal(shown, lowest);
    cli_done(&r);
}

static void a_search_reports_as_one_object(void **state)
{
    NEED_BINARY();
    ran r = cli_run("pool FILE --pool exact --json", intervals());
    assert_code(&r, 0);
    static const char *const members[] = {"\"pool\":\t\"exact\"", "\"intervals\":\t4",
        "\"peak\":\t51", "\"bound\":\t51", "\"seconds\":", "\"nodes\":", "\"optimal\":\ttrue"};
    for (size_t i = 0; i < DT_COUNT(members); i++)
        assert_has(r.out, members[i]);
    cli_done(&r);
    r = cli_run("pool FILE --json", intervals());
    assert_code(&r, 0);
    assert_has(r.out, "\"pools\":");
    assert_has(r.out, "\"pool\":\t\"best_fit\"");
    cli_done(&r);
    refuse(&(wrong){"pool FILE --json --csv", "exclude each other"}, intervals());
    refuse(&(wrong){"pool FILE --nodes 0", "--nodes 0: must be a whole number, 1.."}, intervals());
    refuse(&(wrong){"pool FILE --nodes nan", "--nodes nan: must be"}, intervals());
    refuse(&(wrong){"pool FILE --pool greedy --nodes 5", "for a pool that searches, and greedy"},
        intervals());
}

static const char *large_intervals(void)
{
    return cli_file(
        "large.csv", "id,lower,upper,size\n1,0,5,9223372036854775807\n2,1,5,8000000000000000000\n");
}

/* bfc rounds sizes up, beyond 2^64 bytes here; what others make of them is told all the same. */
static void a_pool_that_cannot_place_hides_no_other(void **state)
{
    NEED_BINARY();
    ran r = cli_run("pool FILE", large_intervals());
    assert_code(&r, 0);
    assert_has(r.out, "\nbfc          pool bfc: interval 1 would end beyond 2^64 bytes\n");
    assert_has(r.out, "\ngreedy       17,223,372,036,854,775,807   1.000000");
    cli_done(&r);
    r = cli_run("pool FILE --pool bfc", large_intervals());
    assert_code(&r, DT_E_BUDGET);
    assert_has(r.err, "beyond 2^64 bytes");
    cli_done(&r);
    r = cli_run("pool FILE --json", large_intervals());
    assert_code(&r, 0);
    assert_has(r.out, "\"refused\":\t\"pool bfc: interval 1 would end beyond 2^64 bytes\"");
    cli_done(&r);
}

/* 51 bytes at most; PyTorch's allocator would hold a segment of 2 MiB for them. */
static void pools_are_compared_by_what_they_hold(void **state)
{
    NEED_BINARY();
    size_t n;
    const dt_pool_desc *const *all = dt_pool_all(&n);
    ran r = cli_run("pool FILE --compare", intervals());
    assert_code(&r, 0);
    for (size_t i = 0; i < n; i++)
        assert_has(r.out, all[i]->name);
    assert_has(r.out, "2,097,152");
    assert_has(r.out, "overhead");
    cli_done(&r);
    r = cli_run("pool FILE --compare --json", intervals());
    assert_code(&r, 0);
    assert_has(r.out, "\"reserved\":\t2097152");
    assert_has(r.out, "\"overhead\":\t0");
    cli_done(&r);
    refuse(&(wrong){"pool FILE --compare --pool bfc", "--compare is of all pools"}, intervals());
    refuse(&(wrong){"pool FILE --compare --csv", "--compare is of all pools"}, intervals());
}

static void intervals_are_made_up_by_a_seed(void **state)
{
    NEED_BINARY();
    ran r = cli_run("pool --random 500 --pool greedy --csv", NULL);
    ran same = cli_run("pool --random 500 --pool greedy --csv --seed 1", NULL);
    ran other = cli_run("pool --random 500 --pool greedy --csv --seed 2", NULL);
    assert_code(&r, 0);
    assert_string_equal(r.out, same.out);
    assert_string_not_equal(r.out, other.out);
    cli_done(&r);
    cli_done(&same);
    cli_done(&other);
    refuse(&(wrong){"pool --random 0", "--random 0: must be"}, NULL);
    refuse(&(wrong){"pool FILE --random 9", "--random makes up intervals; it goes without '"},
        intervals());
    refuse(&(wrong){"pool FILE --seed 9", "--seed goes with --random"}, intervals());
    refuse(&(wrong){"pool --random 5 --max-bytes 3", "it goes without --random"}, NULL);
}

static void large_files_are_read_on_request(void **state)
{
    NEED_BINARY();
    ran r = cli_run("pool FILE --max-bytes 30", intervals());
    assert_code(&r, DT_E_DATA);
    assert_has(r.err, "at most 30 are read: --max-bytes 56 allows them");
    cli_done(&r);
    r = cli_run("pool FILE --max-bytes 56", intervals());
    assert_code(&r, 0);
    cli_done(&r);
    refuse(&(wrong){"pool FILE --max-bytes -1", "--max-bytes -1: must be"}, intervals());
}

static void a_bad_file_of_intervals_is_named_with_its_line(void **state)
{
    NEED_BINARY();
    ran r = cli_run("pool FILE", cli_file("bad.csv", "id,lower,upper,size\n1,5,5,8\n"));
    assert_code(&r, DT_E_DATA);
    assert_has(r.err, "bad.csv:2: ");
    assert_string_equal(r.out, "");
    cli_done(&r);
}

/* Plans of one program are searched for again and again. */
static void what_was_told_last_is_not_told_again(void **state)
{
    (void)state;
    char path[512];
    snprintf(path, sizeof path, "%s", dt_temp_path("told"));
    const int loud = dup(STDERR_FILENO);
    assert_true(loud >= 0);
    assert_non_null(freopen(path, "w", stderr));
    static const char *const lines[] = {"a", "a", "a", "ab", "a", "a"};
    for (size_t i = 0; i < DT_COUNT(lines); i++)
        dti_cli_notice_once(lines[i]);
    fflush(stderr);
    assert_int_equal(dup2(loud, STDERR_FILENO), STDERR_FILENO);
    close(loud);
    char *said = cli_text(path);
    assert_string_equal(said, "dnntrain: a\ndnntrain: ab\ndnntrain: a\n");
    dt_free(said);
}

DT_TEST_GROUP(cli)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(help_names_every_command),
        cmocka_unit_test(help_of_a_command_shows_its_flags),
        cmocka_unit_test(help_fits_80_columns),
        cmocka_unit_test(help_config_documents_every_key),
        cmocka_unit_test(the_configuration_page_is_what_the_program_prints),
        cmocka_unit_test(version_is_the_build_systems),
        cmocka_unit_test(threads_that_wait_soon_sleep),
        cmocka_unit_test(threads_that_are_bound_are_as_many),
        cmocka_unit_test(wrong_commands_get_the_nearest),
        cmocka_unit_test(without_arguments_help_is_shown_and_nothing_done),
        cmocka_unit_test(any_number_of_pictures_may_be_named),
        cmocka_unit_test(missing_files_get_the_nearest_in_their_folder),
        cmocka_unit_test(sets_are_checked_as_the_file_is),
        cmocka_unit_test(all_wrong_sets_are_reported_together),
        cmocka_unit_test(a_later_set_wins),
        cmocka_unit_test(results_that_cannot_be_written_are_an_error),
        cmocka_unit_test(lists_are_arrays_of_named_objects),
        cmocka_unit_test(lists_name_everything_there_is),
        cmocka_unit_test(every_policy_that_can_change_results_says_so),
        cmocka_unit_test(breakdowns_sum_to_the_peak),
        cmocka_unit_test(roles_of_parameters_are_exact),
        cmocka_unit_test(large_counts_are_whole),
        cmocka_unit_test(without_a_budget_nothing_is_checked),
        cmocka_unit_test(decisions_give_their_reasons),
        cmocka_unit_test(budgets_are_kept_to_the_byte),
        cmocka_unit_test(a_table_that_does_not_fit_says_so),
        cmocka_unit_test(transfers_are_of_a_whole_step),
        cmocka_unit_test(tables_fit_a_terminal_in_the_locales_characters),
        cmocka_unit_test(the_legend_is_of_what_the_curve_shows),
        cmocka_unit_test(a_plan_and_its_run_say_the_same_words),
        cmocka_unit_test(plain_text_can_be_asked_for),
        cmocka_unit_test(written_plans_are_sound_and_can_be_compared),
        cmocka_unit_test(rows_of_every_program_can_be_shown),
        cmocka_unit_test(kernels_of_every_op_can_be_shown),
        cmocka_unit_test(a_plan_file_that_is_none_is_bad_data),
        cmocka_unit_test(pools_report_peak_and_bound),
        cmocka_unit_test(a_search_reports_as_one_object),
        cmocka_unit_test(a_pool_that_cannot_place_hides_no_other),
        cmocka_unit_test(pools_are_compared_by_what_they_hold),
        cmocka_unit_test(intervals_are_made_up_by_a_seed),
        cmocka_unit_test(large_files_are_read_on_request),
        cmocka_unit_test(offsets_overlap_nowhere),
        cmocka_unit_test(the_lowest_placement_is_shown),
        cmocka_unit_test(a_bad_file_of_intervals_is_named_with_its_line),
        cmocka_unit_test(what_was_told_last_is_not_told_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
