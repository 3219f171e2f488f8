/* memory.profile = auto: what is kept in the user's folder is taken, merged when it is measured
 * again, and never in the way of a run when it is missing, broken or cannot be written. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <dnntrain.h>

#include "engine/base/alloc.h"
#include "engine/base/io.h"
#include "session/open.h"
#include "session/origin.h"
#include "session/profile_cache.h"
#include "tests/fixture/run_cli.h"

static const char network[] =
    "[model]\nimage = 12\nclasses = 4\n[data]\nsamples = 32\n[train]\nbatch = 8\n"
    "[device]\nkind = cpu\nthreads = 1\n[memory]\nprofile = auto\n"
    "[conv a]\nout = 8\nkernel = 3\npad = 1\n[relu b]\n[fc f]\nout = 4\n";

/* A folder of the user's of its own; it is not there yet. */
static void fresh_cache(void)
{
    static char folder[1024];
    static int n;
    char name[32];
    snprintf(name, sizeof name, "cache%d/of", n++);
    snprintf(folder, sizeof folder, "%s", dt_temp_path(name));
    assert_int_equal(setenv("XDG_CACHE_HOME", folder, 1), 0);
}

static dt_session *opened(void)
{
    dt_session *s = NULL;
    dt_err err = {0};
    assert_ok(dt_session_open(&s, cli_file("cache.ini", network), NULL, 0, &err), &err);
    return s;
}

/* What a measurement of the session's machine may give: one op, at a number of samples. */
static dt_profile measured(const dt_session *s, const char *op, int64_t samples, double seconds)
{
    char *name = dt_strdup(op);
    dt_profile p = {.costs = dt_costs_default};
    const dt_cost_entry e = {
        .signature = name, .samples = samples, .seconds = seconds, .floor = seconds / 2};
    dt_err err = {0};
    dti_session_origin(s, &p.origin);
    assert_ok(dt_costs_add(&p.costs, &e, &err), &err);
    assert_ok(dt_costs_seal(&p.costs, &err), &err);
    dt_free(name);
    return p;
}

static void keep(const char *op, int64_t samples, double seconds, char path[DT_CACHE_PATH])
{
    dt_session *s = opened();
    dt_profile p = measured(s, op, samples, seconds);
    dt_err err = {0};
    assert_ok(dt_profile_keep(s, &p, path, &err), &err);
    dt_profile_deinit(&p);
    dt_session_close(s);
}

static void assert_goes_without(const char *why)
{
    dt_session *s = opened();
    assert_has(s->note, "memory.profile = auto: ");
    assert_has(s->note, why);
    assert_null(strchr(s->note, '\n'));
    assert_string_equal(s->costs.hash, "");
    assert_true(s->costs.n_entry == 0 && s->densities.n == 0);
    assert_true(s->costs.bytes == dt_costs_default.bytes);
    dt_session_close(s);
}

static void what_is_kept_is_taken(void **state)
{
    (void)state;
    char path[DT_CACHE_PATH];
    fresh_cache();
    assert_goes_without("dnntrain profile CONFIG --keep");
    keep("conv.forward x", 8, 2, path);
    dt_session *s = opened();
    assert_string_equal(s->note, "");
    assert_int_equal(strlen(s->costs.hash), 64);
    assert_true(s->costs.n_entry == 1 && s->costs.entry[0].samples == 8);
    dt_session_close(s);
}

/* Another batch comes beside it; of the same op at the same samples the new one counts, even if it
 * is slower. */
static void measurements_are_merged(void **state)
{
    (void)state;
    char path[DT_CACHE_PATH], again[DT_CACHE_PATH];
    fresh_cache();
    keep("conv.forward x", 8, 2, path);
    keep("conv.forward x", 16, 5, again);
    assert_string_equal(path, again);
    keep("conv.forward x", 8, 3, again);
    keep("relu.forward y", 8, 1, again);
    dt_session *s = opened();
    const dt_cost_entry *e = s->costs.entry;
    assert_int_equal(s->costs.n_entry, 3);
    assert_true(e[0].samples == 8 && e[0].seconds == 3);
    assert_true(e[1].samples == 16 && e[1].seconds == 5);
    assert_string_equal(e[2].signature, "relu.forward y");
    dt_session_close(s);
}

/* A measurement without a disk leaves what is known of it. */
static void the_disk_is_remembered(void **state)
{
    (void)state;
    char path[DT_CACHE_PATH];
    fresh_cache();
    dt_session *s = opened();
    dt_profile p = measured(s, "conv.forward x", 8, 2);
    dt_err err = {0};
    p.costs.link[DT_TIER_DISK][DT_TO_TIER].rate = 7e9;
    p.costs.slow[DT_USUAL_COMPUTE][DT_USUAL_WRITE] = 1.5;
    assert_ok(dt_profile_keep(s, &p, path, &err), &err);
    dt_profile_deinit(&p);
    dt_session_close(s);
    keep("conv.forward x", 16, 4, path);
    s = opened();
    assert_true(s->costs.link[DT_TIER_DISK][DT_TO_TIER].rate == 7e9);
    assert_true(s->costs.slow[DT_USUAL_COMPUTE][DT_USUAL_WRITE] == 1.5);
    dt_session_close(s);
}

/* Another commit of the same version may have other kernels: a line says so, and a new measurement
 * does not pass off what the other build's file has as its own. */
static void another_build_is_told(void **state)
{
    (void)state;
    char path[DT_CACHE_PATH];
    dt_err err = {0};
    fresh_cache();
    dt_session *s = opened();
    dt_profile p = measured(s, "conv.forward x", 8, 2);
    if (p.origin.build[0] == '\0') {
        dt_profile_deinit(&p);
        dt_session_close(s);
        skip();
    }
    snprintf(p.origin.build, sizeof p.origin.build, "0123456789ab");
    assert_ok(dt_profile_keep(s, &p, path, &err), &err);
    dt_profile_deinit(&p);
    dt_session_close(s);
    s = opened();
    assert_has(s->note, "measured by build 0123456789ab of this version, and this is ");
    assert_has(s->note, dt_build_facts().git);
    assert_int_equal(s->costs.n_entry, 1); /* taken all the same */
    dt_session_close(s);
    keep("conv.forward x", 16, 4, path);
    s = opened();
    assert_string_equal(s->note, "");
    assert_true(s->costs.n_entry == 1 && s->costs.entry[0].samples == 16);
    dt_session_close(s);
}

static void put(const char *path, const char *text, size_t n)
{
    dt_err err = {0};
    assert_ok(dt_write_file(path, text, n, &err), &err);
}

/* Cut anywhere, no profile, or another machine's under this name: a note, and the next measurement
 * takes its place. */
static void a_broken_file_is_a_note(void **state)
{
    (void)state;
    char path[DT_CACHE_PATH];
    fresh_cache();
    keep("conv.forward x", 8, 2, path);
    char *text = cli_text(path);
    const size_t n = strlen(text);
    for (size_t i = 0; i < n - 1; i += n / 16 + 1) {
        put(path, text, i);
        assert_goes_without("none is taken: ");
    }
    put(path, "a.y = 0.5\n", 10);
    assert_goes_without("none is taken: ");
    put(path, "[density]\na.y = 0.5\n", 20);
    assert_goes_without("none is taken: ");
    char *threads = strstr(text, "\"threads\":\t1");
    assert_non_null(threads);
    threads[strlen("\"threads\":\t")] = '7';
    put(path, text, n);
    assert_goes_without("none is taken: ");
    keep("conv.forward x", 16, 3, path); /* and nothing of the other machine's is in it */
    dt_session *s = opened();
    assert_string_equal(s->note, "");
    assert_true(s->costs.n_entry == 1 && s->costs.entry[0].samples == 16);
    dt_session_close(s);
    dt_free(text);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkdir(path, 0777), 0);
    assert_goes_without("none is taken: ");
}

/* A file stands where the folder should be made. */
static void a_folder_that_cannot_be_made(void **state)
{
    (void)state;
    char path[DT_CACHE_PATH];
    dt_err err = {0};
    assert_int_equal(setenv("XDG_CACHE_HOME", cli_file("in_the_way", "x"), 1), 0);
    assert_goes_without("dnntrain profile CONFIG --keep");
    dt_session *s = opened();
    dt_profile p = measured(s, "conv.forward x", 8, 2);
    assert_int_equal(dt_profile_keep(s, &p, path, &err), DT_E_IO);
    assert_has(err.text, "in_the_way");
    dt_profile_deinit(&p);
    dt_session_close(s);
}

static void folders_by_the_environment(void **state)
{
    (void)state;
    char path[DT_CACHE_PATH];
    const char *home = getenv("HOME");
    char *before = home != NULL ? dt_strdup(home) : NULL;
    dt_err err = {0};
    dt_session *s = opened();
    assert_int_equal(setenv("XDG_CACHE_HOME", "relative", 1), 0);
    assert_int_equal(setenv("HOME", "/h", 1), 0);
    assert_ok(dt_profile_kept(s, path, &err), &err);
    assert_int_equal(strncmp(path, "/h/.cache/dnntrain/profile-", 27), 0);
    assert_int_equal(unsetenv("HOME"), 0);
    assert_int_equal(dt_profile_kept(s, path, &err), DT_E_CONFIG);
    assert_goes_without("none is taken: neither XDG_CACHE_HOME nor HOME");
    if (before != NULL)
        assert_int_equal(setenv("HOME", before, 1), 0);
    dt_free(before);
    dt_session_close(s);
}

/* As memory.cache says: in a folder that is named and made, or nowhere; the user's is not touched.
 */
static void folders_by_the_configuration(void **state)
{
    (void)state;
    char path[DT_CACHE_PATH], folder[512], set[600];
    const char *sets[] = {set};
    dt_err err = {0};
    fresh_cache();
    snprintf(folder, sizeof folder, "%s", dt_temp_path("of_mine/here"));
    for (int none = 0; none < 2; none++) {
        dt_session *s = NULL;
        snprintf(set, sizeof set, "memory.cache=%s", none > 0 ? "none" : folder);
        assert_ok(dt_session_open(&s, cli_file("cache.ini", network), sets, 1, &err), &err);
        dt_profile p = measured(s, "conv.forward x", 8, 2);
        const dt_status st = dt_profile_keep(s, &p, path, &err);
        dt_profile_deinit(&p);
        dt_session_close(s);
        assert_ok(dt_session_open(&s, cli_file("cache.ini", network), sets, 1, &err), &err);
        assert_int_equal(st, none > 0 ? DT_E_CONFIG : DT_OK);
        assert_int_equal(s->costs.n_entry, none > 0 ? 0 : 1);
        assert_true(none > 0 || strncmp(path, folder, strlen(folder)) == 0);
        assert_has(s->note, none > 0 ? "none is taken: with memory.cache = none" : "");
        dt_session_close(s);
        assert_has(err.text, none > 0 ? "memory.cache = none nothing is kept" : "");
    }
    assert_int_not_equal(access(getenv("XDG_CACHE_HOME"), F_OK), 0);
}

/* Its commit does not say what it searches for. */
static void a_build_with_changes_keeps_no_fronts(void **state)
{
    (void)state;
    dt_build b = dt_build_facts();
    b.git = "0123456789ab-dirty";
    assert_false(dti_keeps_fronts(&b));
    b.git = "0123456789ab";
    assert_true(dti_keeps_fronts(&b));
    b.git = ""; /* of a release */
    assert_true(dti_keeps_fronts(&b));
}

/* From outside: measured, kept, and taken. What stands in the way of a measurement at all, other
 * work on this machine, is no failure of this test. */
static void from_the_command_line(void **state)
{
    NEED_BINARY();
    fresh_cache();
    char file[1024];
    snprintf(file, sizeof file, "%s", cli_file("cache.ini", network));
    ran r = cli_run("plan FILE", file);
    assert_code(&r, 0);
    assert_has(r.err, "dnntrain: memory.profile = auto: there is none of this machine");
    assert_has_not(r.out, "memory.profile");
    cli_done(&r);
    r = cli_run("profile FILE --keep --density", file);
    assert_code(&r, DT_E_CONFIG);
    assert_has(r.err, "--keep");
    cli_done(&r);
    r = cli_run("profile FILE --keep --steps 3", file);
    if (r.code == DT_E_DEVICE) {
        cli_done(&r);
        skip();
    }
    assert_code(&r, 0);
    assert_string_equal(r.out, "");
    assert_has(r.err, "kept for memory.profile = auto as ");
    cli_done(&r);
    r = cli_run("plan FILE", file);
    assert_code(&r, 0);
    assert_has(r.out, "as it was measured");
    assert_has_not(r.err, "memory.profile");
    cli_done(&r);
    assert_int_equal(setenv("XDG_CACHE_HOME", cli_file("in_the_way", "x"), 1), 0);
    r = cli_run("profile FILE --keep --steps 3", file);
    assert_code(&r, DT_E_IO); /* before any step */
    assert_has(r.err, "the profile cannot be kept; set memory.cache to a folder that can be");
    assert_string_equal(r.out, "");
    cli_done(&r);
}

/* Two steps in a folder of their own, or with --resume those that are there. */
static ran train_short(const char *dir, const char *more)
{
    char words[1200], file[1024];
    snprintf(file, sizeof file, "%s", cli_file("cache.ini", network));
    snprintf(words, sizeof words, "FILE --set train.steps=2 --set run.dir=%s %s", dt_temp_path(dir),
        more);
    return cli_run(words, file);
}

/* A run that finds none measures first, and later ones do not; unless nothing may be kept. Where
 * other work on this machine stands in the way, it goes on without one, and says so. */
static void a_run_measures_what_is_missing(void **state)
{
    NEED_BINARY();
    fresh_cache();
    ran r = train_short("first", "--set memory.cache=none");
    assert_code(&r, 0);
    assert_has_not(r.err, "are measured first");
    cli_done(&r);
    r = train_short("first", ""); /* refused: its folder holds a run */
    assert_code(&r, DT_E_BUSY);
    assert_has_not(r.err, "are measured first");
    cli_done(&r);
    r = train_short("second", "");
    assert_code(&r, 0);
    assert_has(r.err, "so some steps are measured first");
    const bool kept = strstr(r.err, "kept for memory.profile = auto as ") != NULL;
    assert_true(kept != (strstr(r.err, "nothing is kept: ") != NULL));
    assert_true(kept != (strstr(r.err, "profile CONFIG --keep' makes one") != NULL));
    cli_done(&r);
    r = train_short("second", "--resume"); /* goes on with what it has */
    assert_code(&r, 0);
    assert_has_not(r.err, "are measured first");
    cli_done(&r);
    r = train_short("third", "");
    assert_code(&r, 0);
    assert_true(kept == (strstr(r.err, "are measured first") == NULL));
    cli_done(&r);
}

DT_TEST_GROUP(profile_cache)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_kept_is_taken),
        cmocka_unit_test(measurements_are_merged),
        cmocka_unit_test(the_disk_is_remembered),
        cmocka_unit_test(another_build_is_told),
        cmocka_unit_test(a_broken_file_is_a_note),
        cmocka_unit_test(a_folder_that_cannot_be_made),
        cmocka_unit_test(folders_by_the_environment),
        cmocka_unit_test(folders_by_the_configuration),
        cmocka_unit_test(a_build_with_changes_keeps_no_fronts),
        cmocka_unit_test(from_the_command_line),
        cmocka_unit_test(a_run_measures_what_is_missing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
