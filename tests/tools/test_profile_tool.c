/* `dnntrain profile` from outside: its shares are those counted by hand from a forward pass, and
 * what it writes saves memory. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/alloc.h"
#include "memory/density.h"
#include "tests/fixture/json_read.h"
#include "tests/fixture/made_clock.h"
#include "tests/fixture/profile_file.h"
#include "tests/fixture/run_cli.h"
#include "session/budget.h"
#include "session/feeds.h"
#include "session/open.h"
#include "session/profile.h"
#include "session/profile/profile_internal.h"
#include "session/rig.h"
#include "session/run_plans.h"

static const char *small(void)
{
    return cli_file("small.ini",
        "[model]\nimage = 12\nclasses = 4\n[data]\nsamples = 64\n[train]\nbatch = 16\n"
        "micro_batch = 8\n"
        "[conv a]\nout = 8\nkernel = 3\npad = 1\n[relu b]\n[maxpool c]\nkernel = 2\n"
        "[conv d]\nout = 8\nkernel = 3\npad = 1\n[relu e]\n[fc f]\nout = 4\n");
}

enum { MOST = 128 };

/* Largest shares of words that are not zero, as a plain loop counts them. */
typedef struct counts {
    int n;
    char name[MOST][DT_TENSOR_NAME_BYTES];
    double share[MOST];
} counts;

static void count(void *self, const dt_plan_tensor *t, const void *bytes)
{
    counts *c = self;
    const unsigned char *at = bytes;
    size_t some = 0;
    for (size_t i = 0; i < t->bytes; i += 4)
        some += at[i] != 0 || at[i + 1] != 0 || at[i + 2] != 0 || at[i + 3] != 0;
    const double share = (double)some / (double)(t->bytes / 4);
    int k = 0;
    while (k < c->n && strcmp(c->name[k], t->name) != 0)
        k++;
    assert_true(k < MOST);
    if (k == c->n)
        memcpy(c->name[c->n++], t->name, sizeof t->name);
    c->share[k] = share > c->share[k] ? share : c->share[k];
}

/* One step by the runner itself: both micro-batches of the first batch, from the first weights. */
static counts by_hand(const char *path)
{
    dt_err err = {0};
    dt_session *s = NULL;
    dt_feeds feeds = {0};
    dt_rig rig = {0};
    dt_batch b;
    counts c = {0};
    const char *const sets[] = {"train.eval_every=0"};
    assert_ok(dt_session_open(&s, path, sets, 1, &err), &err);
    assert_ok(dt_session_plan_run(s, false, 0, 0, &err), &err);
    assert_ok(dti_rig_open(&rig, s, &err), &err);
    dt_runner *r = rig.runner;
    assert_ok(dt_feeds_open(&feeds, s, &err), &err);
    dt_feed *feed = dt_loader_feed(feeds.train_loader);
    assert_ok(feed->next(feed->self, &b, &err), &err);
    const dt_probe probe = {&c, count};
    const size_t sample = (size_t)dti_runner_sample(r);
    dt_runner_set_probe(r, &probe);
    for (size_t i = 0; i < rig.n; i++) {
        const dt_ready *p = &rig.ready[i];
        const int64_t from = p->kind == DT_PROGRAM_FIRST ? 0 : 8;
        const dt_run_args a = {.batch = {b.x + (size_t)from * sample, b.labels + from, 8},
            .sample0 = from,
            .step_labels = 16};
        if (p->kind != DT_PROGRAM_UPDATE)
            assert_ok(dt_runner_run(r, p->id, &a, &err), &err);
    }
    dti_rig_close(&rig);
    dt_feeds_close(&feeds);
    dt_session_close(s);
    return c;
}

/* Writes @name below the temporary folder. */
static dt_densities profile(const char *words, const char *name)
{
    char line[2048], out[1024];
    snprintf(out, sizeof out, "%s", dt_temp_path(name));
    dt_err err = {0};
    dt_densities d;
    remove(out);
    snprintf(line, sizeof line, "profile FILE --density --out %s %s", out, words);
    ran r = cli_run(line, small());
    assert_code(&r, 0);
    assert_string_equal(r.out, "");
    cli_done(&r);
    assert_ok(dti_densities_open(&d, out, &err), &err);
    return d;
}

static void shares_are_those_counted_by_hand(void **state)
{
    NEED_BINARY();
    const counts c = by_hand(small());
    dt_densities d = profile("--steps 1 --margin 0", "p.ini");
    static const char *const waiting[] = {"b.y", "c.y", "e.y"};
    for (size_t i = 0; i < DT_COUNT(waiting); i++) {
        int k = 0;
        while (k < c.n && strcmp(c.name[k], waiting[i]) != 0)
            k++;
        assert_true(k < c.n);
        const double got = dt_densities_of(&d, waiting[i]);
        assert_true(c.share[k] > 0.05 && c.share[k] < 1);
        if (!(got >= c.share[k] && got < c.share[k] + 1.01e-4)) /* rounded up to four digits */
            fail_msg("%s: %.6f, not %.6f", waiting[i], got, c.share[k]);
    }
    assert_true(dt_densities_of(&d, "a.y") < 0); /* ReLU lies over it: it does not wait */
    assert_true(dt_densities_of(&d, "d.e.y") < 0);
    dt_densities_close(&d);
}

static void the_margin_is_added(void **state)
{
    NEED_BINARY();
    dt_densities none = profile("--steps 1 --margin 0", "p.ini");
    dt_densities some = profile("--steps 1 --margin 0.125", "q.ini");
    dt_densities all = profile("--steps 1 --margin 1", "r.ini");
    assert_true(fabs(dt_densities_of(&some, "b.y") - dt_densities_of(&none, "b.y") - 0.125) < 2e-4);
    assert_true(fabs(dt_densities_of(&all, "b.y") - 1) < 1e-9);
    dt_densities_close(&none);
    dt_densities_close(&some);
    dt_densities_close(&all);
}

static void more_steps_never_lower_a_share(void **state)
{
    NEED_BINARY();
    dt_densities one = profile("--steps 1", "p.ini");
    dt_densities six = profile("--steps 6", "q.ini");
    assert_int_equal(one.n, six.n);
    for (size_t i = 0; i < one.n; i++)
        assert_true(six.line[i].share >= one.line[i].share);
    dt_densities_close(&one);
    dt_densities_close(&six);
}

static const char *deep(void)
{
    return cli_file("deep.ini",
        "[model]\nimage = 16\nclasses = 4\n[data]\nsamples = 64\n[train]\nbatch = 16\n"
        "[conv a]\nout = 16\nkernel = 3\npad = 1\n[relu b]\n[conv c]\nout = 16\nkernel = 3\n"
        "pad = 1\n[relu d]\n[conv e]\nout = 16\nkernel = 3\npad = 1\n[relu f]\n[conv g]\n"
        "out = 16\nkernel = 3\npad = 1\n[relu h]\n[conv i]\nout = 16\nkernel = 3\npad = 1\n"
        "[relu j]\n[fc k]\nout = 4\n");
}

/* Of the plan that runs while packed values fit, under gist_lossless and with more words. */
static uint64_t peak_of_first(const char *words)
{
    char line[2048], plan[1024];
    snprintf(plan, sizeof plan, "%s", dt_temp_path("first.txt"));
    snprintf(
        line, sizeof line, "plan FILE --text %s --set memory.policy=gist_lossless %s", plan, words);
    ran r = cli_run(line, deep());
    assert_code(&r, 0);
    cli_done(&r);
    char *text = cli_text(plan);
    const char *at = strstr(text, " peak=");
    assert_non_null(at);
    const uint64_t bytes = strtoull(at + 6, NULL, 10);
    dt_free(text);
    return bytes;
}

static void a_profile_lets_gist_save_bytes(void **state)
{
    NEED_BINARY();
    char words[2048], out[1024];
    snprintf(out, sizeof out, "%s", dt_temp_path("gist.ini"));
    snprintf(words, sizeof words, "profile FILE --density --steps 2 --margin 0.02 --out %s", out);
    ran r = cli_run(words, deep());
    assert_code(&r, 0);
    cli_done(&r);
    snprintf(words, sizeof words, "--set memory.profile=%s", out);
    assert_true(peak_of_first(words) < peak_of_first(""));
    snprintf(words, sizeof words,
        "plan FILE --set memory.policy=gist_lossless --set memory.profile=%s", out);
    r = cli_run(words, deep());
    assert_code(&r, 0);
    assert_has(r.out, "\nfirst *");
    assert_has(r.out, "*: runs a step again whose packed values do not fit");
    cli_done(&r);
    r = cli_run("plan FILE --set memory.policy=gist_lossless", deep());
    assert_has_not(r.out, "\nfirst *");
    cli_done(&r);
}

/* The words that name a profile with the shares of @d. */
static const char *profile_of(const dt_densities *d, char words[PROFILE_WORDS])
{
    char *text = profile_text(NULL, d);
    profile_words("shares.json", text, words);
    dt_free(text);
    return words;
}

/* What `plan` says of the traffic of a step. */
typedef struct traffic {
    double out, in, expected_out, expected_in, room, unknown;
} traffic;

static traffic traffic_of(const char *words)
{
    char line[4096];
    snprintf(line, sizeof line, "plan FILE --json %s", words);
    ran r = cli_run(line, deep());
    cJSON *o = json_of(r.out, strlen(r.out));
    const cJSON *t = json_object(o, "transfers");
    const traffic all = {json_number(t, "out"), json_number(t, "in"),
        json_number(t, "expected_out"), json_number(t, "expected_in"),
        json_number(t, "packed_room"), json_number(t, "packed_unknown")};
    cJSON_Delete(o);
    cli_done(&r);
    return all;
}

/* Zero-value compression takes a 32nd of the words for its masks, and the values that are not zero:
 * so from the bytes that vdnn_all moves follows what cdma does. */
static void traffic_is_told_by_the_mean_and_its_room_by_the_most(void **state)
{
    NEED_BINARY();
    static const char policy[] = "--set train.precision=fp32 --set memory.policy=";
    const double room = 0.75, mean = 0.25, mask = 1.0 / 32;
    char words[2048], key[PROFILE_WORDS];
    dt_densities d = {0};
    dt_err err = {0};
    assert_ok(dt_densities_add(&d, "*", room, mean, &err), &err);
    profile_of(&d, key);
    dt_densities_close(&d);
    snprintf(words, sizeof words, "%svdnn_all", policy);
    const traffic plain = traffic_of(words);
    assert_true(plain.out > 0 && fabs(plain.out - plain.expected_out) < 0.5 &&
                fabs(plain.in - plain.expected_in) < 0.5 && plain.room + plain.unknown < 0.5);
    snprintf(words, sizeof words, "%scdma", policy);
    const traffic guess = traffic_of(words); /* nobody has counted anything */
    assert_true(fabs(guess.out - guess.expected_out) < 0.5 && guess.room > 0 &&
                fabs(guess.unknown - guess.room) < 0.5);
    snprintf(words, sizeof words, "%scdma %s", policy, key);
    const traffic packed = traffic_of(words);
    const double values = (plain.out - packed.out) / (1 - room - mask); /* that are packed */
    assert_true(values > 0.5 * plain.out && packed.unknown < 0.5);
    assert_true(fabs(packed.room - values * (room + mask)) < 0.01 * values);
    const double expected = packed.out - values * (room - mean);
    assert_true(fabs(packed.expected_out - expected) < 0.01 * values);
    assert_true(fabs(packed.in - packed.expected_in - values * (room - mean)) < 0.01 * values);
    snprintf(words, sizeof words, "plan FILE %scdma %s", policy, key);
    ran r = cli_run(words, deep());
    assert_has(r.out, "a step at most: packed as large as their room");
    assert_has(r.out, "\nexpected  ");
    cli_done(&r);
}

/* The shares of a run's own steps come to what those steps move. */
static void what_is_expected_is_what_a_run_moves(void **state)
{
    NEED_BINARY();
    enum { STEPS = 4 };
    char key[PROFILE_WORDS], words[4096], dir[512], summary[600];
    dt_err err = {0};
    dt_session *s = NULL;
    dt_profile p;
    const char *const sets[] = {
        "train.eval_every=0", "train.epochs=0", "train.steps=64", "train.precision=fp32"};
    assert_ok(dt_session_open(&s, deep(), sets, DT_COUNT(sets), &err), &err);
    const dt_profile_opts o = {.steps = STEPS, .margin = 0.05};
    assert_ok(dt_profile_measure(s, &o, &p, &err), &err);
    profile_of(&p.densities, key);
    dt_profile_deinit(&p);
    dt_session_close(s);
    snprintf(dir, sizeof dir, "%s", dt_temp_path("moves"));
    snprintf(words, sizeof words, "--set train.precision=fp32 --set memory.policy=cdma %s", key);
    const traffic plan = traffic_of(words);
    assert_true(plan.room > 0 && plan.expected_out < 0.95 * plan.out);
    snprintf(words, sizeof words,
        "FILE --set train.precision=fp32 --set memory.policy=cdma --set train.epochs=0 "
        "--set train.eval_every=0 --set train.steps=%d --set run.dir=%s %s",
        STEPS, dir, key);
    ran r = cli_run(words, deep());
    assert_code(&r, 0);
    cli_done(&r);
    snprintf(summary, sizeof summary, "%s/summary.json", dir);
    cJSON *out = json_file(summary);
    const double moved = json_number(out, "moved_out_host") / STEPS;
    if (!(fabs(moved - plan.expected_out) <= 0.01 * moved))
        fail_msg("%.0f bytes a step, %.0f expected", moved, plan.expected_out);
    cJSON_Delete(out);
}

/* Steps as they were told: the last of its stage, of how many, and how many there were. */
typedef struct heard {
    int64_t step, of, n, stages;
} heard;

static void hear(void *self, int64_t step, int64_t of)
{
    heard *h = self;
    made_clock_begins(self, step, of);
    assert_true(step == 1 ? h->step == h->of : step == h->step + 1 && of == h->of);
    assert_in_range(step, 1, of);
    h->stages += step == 1;
    h->step = step;
    h->of = of;
    h->n++;
}

static void each_step_is_told_before_it_is_made(void **state)
{
    (void)state;
    for (int timed = 0; timed < 2; timed++) {
        heard h = {0};
        dt_session *s = NULL;
        dt_profile p;
        dt_err err = {0};
        const dt_profile_opts o = {.steps = 4,
            .margin = 0.05,
            .timed = timed,
            .line = made_clock_line,
            .begins = hear,
            .self = &h};
        char steps[64];
        snprintf(steps, sizeof steps, "train.steps=%lld", (long long)dt_profile_steps(&o));
        const char *const sets[] = {"train.eval_every=0", "train.epochs=0", steps};
        assert_ok(dt_session_open(&s, deep(), sets, DT_COUNT(sets), &err), &err);
        const dt_status st = dt_profile_measure(s, &o, &p, &err);
        made_clock(false);
        assert_ok(st, &err);
        dt_profile_deinit(&p);
        dt_session_close(s);
        assert_true(timed ? h.stages >= 2 && h.n >= 2 * o.steps : h.stages == 1 && h.n == 4);
        assert_int_equal(h.step, h.of);
    }
}

/* Where no step differs from another. Up to as many as are made beside copies, those meet again the
 * numbers of timed ones, which are not theirs. */
static void however_few_steps_a_quiet_machine_has_a_profile(void **state)
{
    (void)state;
    static const int64_t steps[] = {1, 2, 3, 5, DTI_BESIDE, DTI_BESIDE + 1};
    for (size_t i = 0; i < DT_COUNT(steps); i++) {
        dt_session *s = NULL;
        dt_profile p;
        dt_err err = {0};
        const dt_profile_opts o = {.steps = steps[i],
            .margin = 0.05,
            .timed = true,
            .line = made_clock_line,
            .begins = made_clock_begins};
        char all[64];
        snprintf(all, sizeof all, "train.steps=%lld", (long long)dt_profile_steps(&o));
        const char *const sets[] = {"train.eval_every=0", "train.epochs=0", all};
        assert_ok(dt_session_open(&s, deep(), sets, DT_COUNT(sets), &err), &err);
        const dt_status st = dt_profile_measure(s, &o, &p, &err);
        made_clock(false);
        assert_ok(st, &err);
        assert_true(p.rows > 0 && p.step > p.rows + 1e-3);
        dt_profile_deinit(&p);
        dt_session_close(s);
    }
}

static void without_a_file_it_goes_to_the_output(void **state)
{
    NEED_BINARY();
    static const char *const outs[] = {"", "--out -"};
    for (size_t i = 0; i < DT_COUNT(outs); i++) {
        char words[64];
        snprintf(words, sizeof words, "profile FILE --density --steps 2 %s", outs[i]);
        ran r = cli_run(words, small());
        assert_code(&r, 0);
        assert_has(r.out, "profile of ");
        assert_has(r.out, "batch 16, micro-batch 8, 2 steps from seed");
        assert_has(r.out, "\n[density]\nb.y = 0.");
        cli_done(&r);
    }
    ran r = cli_run("profile FILE --density --steps 1", small());
    assert_has(r.out, "batch 16, micro-batch 8, 1 step from seed");
    cli_done(&r);
}

/* Known before anything is measured, which may take minutes. */
static void files_that_cannot_be_written_are_refused_first(void **state)
{
    NEED_BINARY();
    static const char *const wrong[][2] = {
        {"/nowhere/at/all/p.json", "No such file or directory; name a file in a folder that is"},
        {"/", "'/' is a folder; name a file in a folder that is there"}};
    for (size_t i = 0; i < DT_COUNT(wrong); i++) {
        char words[256];
        snprintf(words, sizeof words, "profile FILE --out %s", wrong[i][0]);
        ran r = cli_run(words, small());
        assert_code(&r, DT_E_IO);
        assert_has(r.err, wrong[i][1]);
        assert_has_not(r.err, "a step takes");
        assert_string_equal(r.out, "");
        cli_done(&r);
    }
}

static void wrong_arguments_are_refused(void **state)
{
    NEED_BINARY();
    static const char *const wrong[][2] = {{"profile", "name a CONFIG"},
        {"profile FILE --steps 0", "--steps 0: must be a whole number, 1..1000000"},
        {"profile FILE --steps 2x", "--steps 2x"}, {"profile FILE --margin -1", "--margin -1"},
        {"profile FILE --margin nan", "--margin nan"}, {"profile nosuch.ini", "nosuch.ini"}};
    for (size_t i = 0; i < DT_COUNT(wrong); i++) {
        ran r = cli_run(wrong[i][0], small());
        assert_code(&r, DT_E_CONFIG);
        assert_has(r.err, wrong[i][1]);
        cli_done(&r);
    }
}

/* Without memory.tier = disk there is no rate of a disk in it, nor one back to the loader. A
 * machine that is at work on something else is asked again. */
static void what_was_not_measured_is_not_in_it(void **state)
{
    NEED_BINARY();
    char out[1024], words[2048];
    int code = DT_E_DEVICE;
    snprintf(out, sizeof out, "%s", dt_temp_path("links.json"));
    snprintf(words, sizeof words, "profile FILE --steps 3 --out %s", out);
    for (int turn = 0; turn < 20 && code == DT_E_DEVICE; turn++) {
        ran r = cli_run(words, small());
        code = r.code;
        if (code != DT_E_DEVICE)
            assert_code(&r, 0);
        cli_done(&r);
    }
    if (code == DT_E_DEVICE)
        skip();
    cJSON *profile = json_file(out);
    const cJSON *link;
    int host = 0, input = 0;
    cJSON_ArrayForEach(link, cJSON_GetObjectItem(profile, "links"))
    {
        const char *tier = json_text(link, "tier");
        assert_string_not_equal(tier, "disk");
        host += strcmp(tier, "host") == 0;
        input += strcmp(tier, "input") == 0;
        assert_true(strcmp(tier, "host") == 0 || strcmp(json_text(link, "direction"), "in") == 0);
    }
    assert_int_equal(host, 4); /* out and in, by the team and by a thread */
    assert_int_equal(input, 2);
    cJSON_Delete(profile);
}

/* Of a step of a millisecond, too, a tenth that is no row's is too much. */
static void rows_and_gaps_add_up_to_the_step(void **state)
{
    (void)state;
    static const struct {
        double step, told;
        bool right;
    } all[] = {{0.1, 0.0981, true}, {0.1, 0.1019, true}, {0.1, 0.0978, false}, {0.1, 0.1022, false},
        {1e-3, 0.94e-3, true}, {1e-3, 0.9e-3, false}, {1e-3, 1.1e-3, false}, {1e-3, 0, false},
        {20e-6, 0, true}, {1, (double)NAN, false}};
    for (size_t i = 0; i < DT_COUNT(all); i++)
        assert_int_equal(dti_profile_adds_up(all[i].step, all[i].told), all[i].right);
}

static void steps_that_differ_by_more_than_a_quarter_are_no_profile(void **state)
{
    (void)state;
    static const struct {
        double step, spread;
        dti_quiet is;
    } all[] = {{0.1, 0, DTI_QUIET}, {0.1, 0.0109, DTI_QUIET}, {0.1, 0.0111, DTI_RESTLESS},
        {0.1, 0.0259, DTI_RESTLESS}, {0.1, 0.0261, DTI_DISTURBED}, {1e-3, 1.05e-3, DTI_QUIET},
        {1e-3, 1.2e-3, DTI_RESTLESS}, {1e-3, 1.3e-3, DTI_DISTURBED},
        {0.1, (double)NAN, DTI_DISTURBED}};
    for (size_t i = 0; i < DT_COUNT(all); i++)
        assert_int_equal(dti_profile_quiet(all[i].step, all[i].spread), all[i].is);
}

DT_TEST_GROUP(profile_tool)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shares_are_those_counted_by_hand),
        cmocka_unit_test(the_margin_is_added),
        cmocka_unit_test(more_steps_never_lower_a_share),
        cmocka_unit_test(a_profile_lets_gist_save_bytes),
        cmocka_unit_test(what_was_not_measured_is_not_in_it),
        cmocka_unit_test(rows_and_gaps_add_up_to_the_step),
        cmocka_unit_test(steps_that_differ_by_more_than_a_quarter_are_no_profile),
        cmocka_unit_test(traffic_is_told_by_the_mean_and_its_room_by_the_most),
        cmocka_unit_test(what_is_expected_is_what_a_run_moves),
        cmocka_unit_test(each_step_is_told_before_it_is_made),
        cmocka_unit_test(however_few_steps_a_quiet_machine_has_a_profile),
        cmocka_unit_test(without_a_file_it_goes_to_the_output),
        cmocka_unit_test(files_that_cannot_be_written_are_refused_first),
        cmocka_unit_test(wrong_arguments_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
