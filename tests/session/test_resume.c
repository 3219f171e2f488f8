/* A run that is stopped, killed or interrupted anywhere and gone on with ends with the same bits as
 * one that was not; one that has changed is refused; and nothing that saving meets harms a run. */
#define _GNU_SOURCE

#include "tests/fixture/json_read.h"
#include "tests/fixture/run_cli.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "engine/base/alloc.h"
#include "engine/base/io.h"
#include "engine/checkpoint/safetensors.h"
#include "tests/fixture/data_files.h"
#include "tests/fixture/leaks.h"
#include "tests/fixture/workspace.h"
#include "tools/tools.h"

/* On one thread, here and in processes, as the bits are compared and idle threads spin. Statistics,
 * dropped values, micro-batches, and a last batch that is smaller: 4 steps an epoch. */
#define NETWORK                                                                                    \
    "[model]\nimage = 8\nclasses = 3\n[conv c]\nout = 4\nkernel = 3\n[batchnorm b]\n[relu r]\n"    \
    "[dropout d]\n[fc f]\nout = 3\n"
#define DATA "[data]\nsamples = 30\n"
#define TRAIN                                                                                      \
    "[device]\nthreads = 1\n[train]\nbatch = 8\nmicro_batch = 4\nlr = 0.05\nseed = 3\nsteps = "    \
    "11\n"
#define INI NETWORK DATA TRAIN

#define MODEL "checkpoints/model.safetensors"

static void run_well(const char *words)
{
    ran r = cli_run(words, NULL);
    assert_code(&r, 0);
    cli_done(&r);
}

static void refused(const char *words, int code, const char *says)
{
    ran r = cli_run(words, NULL);
    assert_code(&r, code);
    assert_has(r.err, says);
    cli_done(&r);
}

static char *bytes_of(const char *run, const char *name, size_t *n)
{
    char below[256], *text;
    dt_err err = {0};
    snprintf(below, sizeof below, "%s/%s", run, name);
    assert_ok(dt_read_file(&text, n, in_workspace(below), 64 << 20, DT_E_DATA, &err), &err);
    return text;
}

static void same_file(const char *a, const char *b, const char *name, const char *why)
{
    size_t n, m;
    char *x = bytes_of(a, name, &n), *y = bytes_of(b, name, &m);
    if (n != m || memcmp(x, y, n) != 0)
        fail_msg("%s: %s of %s and of %s differ", why, name, a, b);
    dt_free(x);
    dt_free(y);
}

/* All but the time that was taken. */
static void same_state(const char *a, const char *b, const char *step, const char *why)
{
    char path[2][256];
    dt_st_file *f[2];
    dt_err err = {0};
    for (int i = 0; i < 2; i++) {
        snprintf(
            path[i], sizeof path[i], "%s/checkpoints/%s/state.safetensors", i == 0 ? a : b, step);
        assert_ok(dt_st_open(&f[i], in_workspace(path[i]), &err), &err);
    }
    assert_int_equal(dti_st_count(f[0]), dti_st_count(f[1]));
    for (size_t i = 0; i < dti_st_count(f[0]); i++) {
        static char x[65536], y[65536];
        const dt_st_entry *e = dti_st_at(f[0], i), *o = dt_st_find(f[1], e->name);
        assert_true(o != NULL && o->bytes == e->bytes && e->bytes <= sizeof x);
        assert_ok(dt_st_read(f[0], e, 0, x, e->bytes, &err), &err);
        assert_ok(dt_st_read(f[1], o, 0, y, e->bytes, &err), &err);
        if (strcmp(e->name, "run.seconds") != 0 && memcmp(x, y, e->bytes) != 0)
            fail_msg("%s: %s has other bits", why, e->name);
    }
    dt_st_close(f[0]);
    dt_st_close(f[1]);
}

/* Lines of metrics without times: up to the first key that tells of time. */
static void same_metrics(const char *a, const char *b, const char *why)
{
    size_t n, m;
    char *x = bytes_of(a, "metrics.jsonl", &n), *y = bytes_of(b, "metrics.jsonl", &m);
    const char *s = x, *t = y;
    int line = 1;
    for (; *s != '\0' && *t != '\0'; line++) {
        const size_t here = strcspn(s, "\n"), there = strcspn(t, "\n");
        static const char *const times[] = {", \"images_per_second\"", ", \"seconds\""};
        size_t keep = here;
        for (size_t i = 0; i < DT_COUNT(times); i++) {
            const char *at = memmem(s, here, times[i], strlen(times[i]));
            keep = at != NULL && (size_t)(at - s) < keep ? (size_t)(at - s) : keep;
        }
        if (keep > there || memcmp(s, t, keep) != 0)
            fail_msg("%s: line %d of metrics is\n%.*s, not\n%.*s", why, line, (int)there, t,
                (int)here, s);
        s += here + (s[here] == '\n');
        t += there + (t[there] == '\n');
    }
    if (*s != '\0' || *t != '\0')
        fail_msg("%s: one has more than %d lines of metrics", why, line - 1);
    dt_free(x);
    dt_free(y);
}

static void same_run(const char *a, const char *b, const char *last, const char *why)
{
    same_file(a, b, MODEL, why);
    same_state(a, b, last, why);
    same_metrics(a, b, why);
}

/* ---- the same bits ---- */

/* From every @by-th step, other ones with each seed, those in the middle of an epoch and at its
 * end, under policies by turns. */
static void from_every_step_and_policy(const char *sets, const char *first, int by)
{
    static const char *const policies[] = {"vdnn_all", "chen_sqrt", "keep_all"};
    char words[512], why[128];
    snprintf(words, sizeof words, "c.ini --set run.dir=whole %s", sets);
    run_well(words);
    snprintf(words, sizeof words,
        "c.ini --set run.dir=part --set checkpoint.every=1 --set checkpoint.keep_last=0 "
        "--set memory.policy=%s %s",
        first, sets);
    run_well(words);
    for (int step = 10 - (int)(dt_test_seed() % (uint64_t)by); step > 0; step -= by) {
        const char *policy = policies[step % 3];
        snprintf(words, sizeof words,
            "c.ini %s --set checkpoint.keep_last=0 --set memory.policy=%s --resume "
            "part/checkpoints/step-%08d",
            sets, policy, step);
        run_well(words);
        snprintf(why, sizeof why, "from step %d under %s", step, policy);
        same_run("whole", "part", "step-00000011", why);
    }
    remove_all("whole");
    remove_all("part");
}

/* What rounds at random draws by the step, and not by how often it was begun. */
static void a_run_that_draws_goes_on_with_the_same_draws(void **state)
{
    NEED_BINARY();
    static const char how[] = "--set train.momentum=0.9 --set memory.policy=actnn";
    char words[512];
    put_text("c.ini", INI);
    snprintf(words, sizeof words, "c.ini --set run.dir=whole %s", how);
    run_well(words);
    snprintf(words, sizeof words, "c.ini --set run.dir=part --set train.steps=5 %s", how);
    run_well(words);
    run_well("part --resume --set train.steps=11");
    same_file("whole", "part", MODEL, "actnn");
    run_well("c.ini --set run.dir=exact --set train.momentum=0.9");
    size_t n, m;
    char *lossy = bytes_of("whole", MODEL, &n), *exact = bytes_of("exact", MODEL, &m);
    assert_true(n != m || memcmp(lossy, exact, n) != 0);
    dt_free(lossy);
    dt_free(exact);
    remove_all("whole");
    remove_all("part");
    remove_all("exact");
}

static void gone_on_with_anywhere_a_run_ends_with_the_same_bits(void **state)
{
    NEED_BINARY();
    put_text("c.ini", INI);
    from_every_step_and_policy("--set train.momentum=0.9", "vdnn_conv", dt_scaled(3, 3, 1));
}

static void the_state_of_adamw_comes_back(void **state)
{
    NEED_BINARY();
    put_text("c.ini", INI);
    from_every_step_and_policy("--set train.optimizer=adamw --set train.lr=0.01", "keep_all", 4);
}

static void the_state_of_lion_comes_back(void **state)
{
    NEED_BINARY();
    put_text("c.ini", INI);
    from_every_step_and_policy("--set train.optimizer=lion --set train.lr=0.001 "
                               "--set train.beta2=0.99 --set train.micro_batch=8",
        "chen_sqrt", 4);
}

static void without_momentum_there_is_no_state(void **state)
{
    NEED_BINARY();
    put_text("c.ini", INI);
    from_every_step_and_policy("--set train.momentum=0", "keep_all", 7);
}

/* The two moments of Adam, a norm to clip by, and a schedule that ends where the run does. */
static void the_state_of_adam_comes_back(void **state)
{
    NEED_BINARY();
    put_text("c.ini", INI);
    from_every_step_and_policy("--set train.optimizer=adam --set train.lr=0.01 --set train.clip=1 "
                               "--set train.schedule=cosine --set train.warmup=4",
        "chen_sqrt", 5);
}

static void the_state_of_nesterovs_momentum_comes_back(void **state)
{
    NEED_BINARY();
    put_text("c.ini", INI);
    from_every_step_and_policy("--set train.momentum=0.9 --set train.nesterov=on "
                               "--set train.no_decay=on --set train.label_smoothing=0.1",
        "vdnn_all", 8);
}

/* The weights that are saved are the fp32 ones, so nothing is rounded on the way. */
static void in_bf16_a_run_ends_with_the_same_bits(void **state)
{
    NEED_BINARY();
    put_text("c.ini", INI);
    from_every_step_and_policy(
        "--set train.precision=bf16 --set train.momentum=0.9", "keep_all", 4);
    from_every_step_and_policy("--set train.precision=bf16 --set train.optimizer=adamw "
                               "--set train.lr=0.01 --set train.micro_batch=8",
        "vdnn_all", 9);
}

/* What is moved in one part of a run may stay in another. */
static void through_the_disk_tier_a_run_ends_with_the_same_bits(void **state)
{
    NEED_BINARY();
    put_text("c.ini", INI);
    put_text("disk/none", "");
    from_every_step_and_policy("--set train.momentum=0.9 --set memory.tier=disk "
                               "--set memory.disk_path=disk --set memory.checksum=on",
        "vdnn_all", 4);
    remove_all("disk");
}

/* So may what lives elsewhere. */
static void wherever_tensors_live_a_run_ends_with_the_same_bits(void **state)
{
    NEED_BINARY();
    put_text("c.ini", INI "[memory.layers]\n*.moments = home disk\n*.weight = home host\n");
    put_text("disk/none", "");
    from_every_step_and_policy(
        "--set train.optimizer=adamw --set train.lr=0.01 --set memory.disk_path=disk", "vdnn_all",
        4);
    remove_all("disk");
}

/* 31 windows of 8 characters, in an order drawn for each epoch. */
static void the_windows_of_a_text_come_in_the_same_order(void **state)
{
    NEED_BINARY();
    char text[281] = "";
    for (size_t i = 0; i + 1 < sizeof text; i++)
        text[i] = (char)('a' + (i * i + i / 5) % 23);
    put_text("text", text);
    put_text("c.ini", "[model]\nname = gpt2\nlayers = 1\nheads = 2\nwidth = 16\ncontext = 8\n"
                      "vocab = 32\ndropout = 0.1\n[data]\nsource = text\npath = text\n" TRAIN);
    from_every_step_and_policy("--set train.optimizer=adamw --set train.lr=0.01", "vdnn_all", 4);
    remove_all("text");
}

/* Pictures of three classes, all those with a number of 5 k + @bad none at all. */
static void make_pictures(int width, int height, int bad)
{
    char path[64];
    uint8_t px[16 * 16 * 3];
    for (int i = 0; i < 30; i++) {
        for (size_t k = 0; k < sizeof px; k++)
            px[k] = (uint8_t)(k * 7 + (size_t)i * 31);
        snprintf(path, sizeof path, "set/%c/%d.png", 'a' + i % 3, i);
        put_text(path, "no picture");
        blob b = make_rgb_png(px, width, height);
        if (i % 5 != bad)
            put_file(in_workspace(path), b.p, b.n);
        blob_free(&b);
    }
}

/* Cuts of other sizes and mirrored ones are drawn anew in every epoch. */
static void cuts_are_drawn_as_they_would_have_been(void **state)
{
    NEED_BINARY();
    make_pictures(14, 11, 5);
    put_text("c.ini", NETWORK "[data]\nsource = images\npath = set\naugment = on\n" TRAIN);
    from_every_step_and_policy("--set train.momentum=0.9", "vdnn_all", 4);
    remove_all("set");
}

/* Others of the same number are no data to go on with; the same ones may lie elsewhere. */
static void data_may_move_and_not_change(void **state)
{
    NEED_BINARY();
    make_pictures(8, 8, 5);
    put_text("c.ini", NETWORK "[data]\nsource = images\npath = set\n" TRAIN);
    run_well("c.ini --set run.dir=whole");
    run_well("c.ini --set run.dir=part --set train.steps=2");
    make_pictures(12, 9, 5);
    char *before = snapshot("part");
    ran r = cli_run("c.ini --set run.dir=part --resume", NULL);
    assert_code(&r, DT_E_CONFIG);
    assert_has(r.err, "dnntrain:   data.fingerprint ");
    assert_has_not(r.err, "dnntrain:   samples ");
    cli_done(&r);
    assert_unchanged(before, "part");
    make_pictures(8, 8, 5);
    assert_int_equal(rename(in_workspace("set"), in_workspace("elsewhere")), 0);
    r = cli_run("c.ini --set run.dir=part --resume --set data.path=elsewhere", NULL);
    assert_code(&r, 0);
    assert_has(r.err, "data.path was ");
    cli_done(&r);
    same_file("whole", "part", MODEL, "with data that moved");
    remove_all("elsewhere");
    remove_all("whole");
    remove_all("part");
}

/* Some pictures are bad, so an epoch's order is not where its batches would say. */
static void bad_samples_do_not_move_the_order(void **state)
{
    NEED_BINARY();
    make_pictures(8, 8, 2);
    put_text("c.ini", NETWORK "[data]\nsource = images\npath = set\non_error = skip\n" TRAIN);
    from_every_step_and_policy("--set train.drop_last=on", "keep_all", 3);
    remove_all("set");
}

/* Two pictures, none of those that tell whether the set is another. */
static void spoil(int first, int second)
{
    const int bad[] = {first, second};
    char path[64];
    make_pictures(8, 8, 5);
    for (size_t i = 0; i < DT_COUNT(bad); i++) {
        snprintf(path, sizeof path, "set/%c/%d.png", 'a' + bad[i] % 3, bad[i]);
        put_text(path, "no picture");
    }
}

/* Two in each epoch, others in the second: too many for one run, but not for one that was gone on
 * with. */
static void bad_samples_are_counted_anew(void **state)
{
    NEED_BINARY();
    put_text("c.ini", NETWORK "[data]\nsource = images\npath = set\non_error = skip\n" TRAIN);
    static const char *const runs[] = {"--set train.steps=4 --set data.max_skips=2",
        "--set train.steps=8 --set data.max_skips=2 --resume",
        "--set train.steps=12 --set data.max_skips=1 --resume"};
    for (int i = 0; i < 3; i++) {
        char words[256];
        snprintf(words, sizeof words, "c.ini --set run.dir=part %s", runs[i]);
        spoil(i == 1 ? 11 : 1, i == 1 ? 16 : 6);
        ran r = cli_run(words, NULL);
        assert_code(&r, i < 2 ? 0 : DT_E_DATA);
        if (i == 2) /* so each epoch meets them */
            assert_has(r.err, "2 bad samples, at most 1 may be skipped");
        cli_done(&r);
    }
    remove_all("part");
    remove_all("set");
}

/* ---- killed ---- */

static long random_below(uint32_t *seed, long n)
{
    *seed = *seed * 1664525u + 1013904223u;
    return (long)(*seed >> 8) % n;
}

/* Run until a random time of up to 150 ms after the first step, or to its end: whether it came
 * there. The metrics of an earlier start stay, so steps are waited for by the file's growth. */
static bool run_and_kill(const char *words, uint32_t *seed, bool kill_it)
{
    struct stat st = {0};
    (void)stat(in_workspace("part/metrics.jsonl"), &st);
    const off_t before = st.st_size;
    const long more = random_below(seed, 150);
    const pid_t child = cli_start(words, NULL);
    /* some are killed while they start */
    for (int i = 0; kill_it && more % 4 != 0 && i < 400 && st.st_size == before; i++) {
        nanosleep(&(struct timespec){0, 2000000}, NULL);
        (void)stat(in_workspace("part/metrics.jsonl"), &st);
    }
    if (kill_it) {
        nanosleep(&(struct timespec){0, 1000000 * more}, NULL);
        assert_int_equal(kill(child, SIGKILL), 0);
    }
    ran r = cli_wait(child);
    const bool ended = r.code == 0;
    if (!ended)
        assert_code(&r, 128 + SIGKILL);
    cli_done(&r);
    return ended;
}

/* Killed at random times, again and again, and started again each time. */
static void killed_again_and_again_a_run_ends_with_the_same_bits(void **state)
{
    NEED_BINARY();
    static const char words[] = "c.ini --set train.steps=120 --set data.samples=200 "
                                "--set checkpoint.every=4 --set run.dir=part --resume";
    const int kills = dt_scaled(5, 6, 100);
    uint32_t seed = 20 + (uint32_t)dt_test_seed();
    put_text("c.ini", INI);
    run_well("c.ini --set train.steps=120 --set data.samples=200 --set run.dir=whole");
    for (int killed = 0; killed < kills || is_there("part");) {
        if (!run_and_kill(words, &seed, killed < kills)) {
            killed++;
            continue;
        }
        same_run("whole", "part", "step-00000120", "killed");
        remove_all("part");
    }
}

/* Each start has parameters and states live elsewhere; nothing of them outlives the process, and
 * what lies about in the folder of the disk is nobody's. */
static void killed_with_homes_elsewhere_a_run_ends_with_the_same_bits(void **state)
{
    NEED_BINARY();
    static const char *const homes[] = {"memory.policy=zero_infinity",
        "memory.policy=zero_infinity,chen_sqrt --set memory.generations=2 --set train.update=early",
        "memory.policy=zero_offload", "memory.policy=keep_all"};
    const int kills = dt_scaled(4, 8, 40);
    uint32_t seed = 31 + (uint32_t)dt_test_seed();
    char words[512];
    put_text("c.ini", NETWORK
        "[data]\nsamples = 200\n[device]\nthreads = 1\n[train]\nbatch = 8\nlr = 0.01\nseed = 3\n"
        "steps = 40\noptimizer = adamw\nclip = 1\n[memory]\n"
        "disk_path = disk\n[checkpoint]\nevery = 4\n");
    put_text("disk/dnntrain-left", "what a run that died could have left");
    char *before = snapshot("disk");
    run_well("c.ini --set run.dir=whole");
    for (int killed = 0; killed < kills || is_there("part");) {
        snprintf(words, sizeof words, "c.ini --set run.dir=part --set %s --resume",
            homes[(size_t)killed % DT_COUNT(homes)]);
        if (!run_and_kill(words, &seed, killed < kills)) {
            killed++;
            continue;
        }
        same_run("whole", "part", "step-00000040", "killed with homes elsewhere");
        remove_all("part");
    }
    assert_unchanged(before, "disk");
    remove_all("disk");
}

/* Every step saves and removes one, so that most of the time is spent on that. */
static void killed_while_pruning_a_run_ends_with_the_same_bits(void **state)
{
    NEED_BINARY();
    static const char words[] = "c.ini --set train.steps=60 --set data.samples=200 "
                                "--set checkpoint.every=1 --set checkpoint.keep_last=1 "
                                "--set checkpoint.best=loss --set run.dir=part --resume";
    const int kills = dt_scaled(4, 4, 20);
    uint32_t seed = 7 + (uint32_t)dt_test_seed();
    put_text("c.ini", INI);
    run_well("c.ini --set train.steps=60 --set data.samples=200 --set run.dir=whole");
    for (int killed = 0; killed < kills || is_there("part");) {
        if (!run_and_kill(words, &seed, killed < kills)) {
            killed++;
            continue;
        }
        same_file("whole", "part", MODEL, "killed while pruning");
        remove_all("part");
    }
}

static void what_is_cut_from_the_metrics_is_kept(void **state)
{
    NEED_BINARY();
    size_t n, m;
    put_text("c.ini", INI);
    run_well("c.ini --set run.dir=part --set checkpoint.every=4 --set checkpoint.keep_last=0");
    char *all = bytes_of("part", "metrics.jsonl", &n);
    remove_all("part/checkpoints/step-00000011");
    ran r = cli_run("c.ini --set run.dir=part --resume", NULL);
    assert_code(&r, 0);
    assert_has(r.err, "later lines of metrics.jsonl are now in metrics.cut.jsonl");
    cli_done(&r);
    char *cut = bytes_of("part", "metrics.cut.jsonl", &m);
    assert_true(m > 0 && m < n);
    assert_memory_equal(all + n - m, cut, m);
    assert_int_equal(strncmp(cut, "{\"step\": 9,", 11), 0);
    dt_free(all);
    dt_free(cut);
}

/* Saves that replace a checkpoint may end between two renames. The newest is looked for behind
 * that, so that it is not passed over. */
static void one_that_lost_its_name_is_gone_on_with(void **state)
{
    NEED_BINARY();
    char at[512];
    put_text("c.ini", INI);
    run_well("c.ini --set run.dir=part --set checkpoint.every=4 --set checkpoint.keep_last=0");
    snprintf(at, sizeof at, "%s", in_workspace("part/checkpoints/step-00000011"));
    assert_int_equal(rename(at, in_workspace("part/checkpoints/.step-00000011.old-77")), 0);
    ran r = cli_run("c.ini --set run.dir=part --resume --set train.steps=12", NULL);
    assert_code(&r, 0);
    assert_has(r.err, "is whole, and the checkpoint of step 11 again");
    assert_has(r.err, "step-00000011");
    cli_done(&r);
    remove_all("part");
}

/* A run would have two checkpoints of one step, and remove one that it reads. */
static void one_of_another_name_is_no_place_to_go_on_from(void **state)
{
    NEED_BINARY();
    char at[512];
    put_text("c.ini", INI);
    run_well("c.ini --set run.dir=part --set checkpoint.every=4 --set checkpoint.keep_last=0");
    run_well("c.ini --resume part/checkpoints/step-00000004/ --set train.steps=5");
    snprintf(at, sizeof at, "%s", in_workspace("part/checkpoints/aside-step-00000008"));
    assert_true(is_there("part/checkpoints/aside-step-00000008"));
    refused("c.ini --resume part/checkpoints/aside-step-00000008", DT_E_CONFIG,
        "rename this one to step-00000008");
    assert_int_equal(rename(at, in_workspace("part/checkpoints/step-00000008")), 0);
    run_well("c.ini --resume part/checkpoints/step-00000008");
    remove_all("part");
}

/* ---- what has changed ---- */

static void a_changed_run_is_refused_with_a_table(void **state)
{
    NEED_BINARY();
    static const char *const cases[][4] = {
        {"train.batch=16", "train.batch", "8", "16"},
        {"train.micro_batch=8", "train.micro_batch", "4", "8"},
        {"train.seed=4", "train.seed", "3", "4"},
        {"train.momentum=0.8", "train.momentum", "0.9", "0.8"},
        {"train.weight_decay=0", "train.weight_decay", "0.0001", "0"},
        {"data.samples=31", "samples", "30", "31"},
        {"data.shuffle=off", "data.shuffle", "on", "off"},
        {"model.fuse=off", "model.fuse", "on", "off"},
        {"dropout d.rate=0.25", "dropout d.rate", "(not given)", "0.25"},
        {"fc f.out=4", "parameters", "551", "696"},
    };
    put_text("c.ini", INI);
    run_well("c.ini --set run.dir=part --set train.steps=2");
    char *before = snapshot("part");
    for (size_t i = 0; i < DT_COUNT(cases); i++) {
        char words[256] = "c.ini --set run.dir=part --resume --set FILE";
        if (strncmp(cases[i][0], "fc f", 4) == 0)
            strcat(words, " --set model.classes=4");
        ran r = cli_run(words, cases[i][0]);
        assert_code(&r, DT_E_CONFIG);
        assert_has(r.err, "dnntrain:   key ");
        const char *row = strstr(r.err, "dnntrain:   key ");
        char key[128];
        snprintf(key, sizeof key, "\ndnntrain:   %s ", cases[i][1]);
        row = strstr(row, key);
        if (row == NULL)
            fail_msg("no row for %s in:\n%s", cases[i][1], r.err);
        char then[64] = "", now[64] = "";
        const size_t at = strlen(key);
        assert_int_equal(sscanf(row + at, " %63s %63s", then, now), 2);
        if (strcmp(cases[i][2], "(not given)") != 0) {
            if (strcmp(cases[i][1], "parameters") != 0)
                assert_string_equal(then, cases[i][2]);
            if (strcmp(cases[i][1], "parameters") != 0)
                assert_string_equal(now, cases[i][3]);
        } else {
            assert_has(row, "(not given)");
        }
        assert_has(r.err, "model.weights = ");
        cli_done(&r);
    }
    assert_unchanged(before, "part");
    remove_all("part");
}

/* Which writes out what the file left to defaults, as "bias = on" of a layer, and says nothing of
 * how the run was started. */
static void a_run_goes_on_by_its_own_configuration(void **state)
{
    NEED_BINARY();
    put_text("c.ini", INI);
    run_well("c.ini --set run.dir=whole");
    run_well("c.ini --set run.dir=part --set train.steps=2 --resume");
    size_t n;
    char *text = bytes_of("part", "config.ini", &n);
    assert_has(text, "[conv c]");
    assert_has(text, "bias = on ; default");
    assert_has_not(text, "resume = auto");
    dt_free(text);
    refused("part/config.ini --set train.steps=3", DT_E_BUSY, "part");
    run_well("part/config.ini --resume part --set train.steps=5");
    run_well("part/config.ini --resume --set train.steps=8");
    run_well("part --resume --set train.steps=11");
    same_file("whole", "part", MODEL, "by its own configuration");
    same_state("whole", "part", "step-00000011", "by its own configuration");
    remove_all("whole");
    remove_all("part");
}

/* Of a run whose folder nobody named, its configuration says nothing of it; nor does a run that was
 * moved know where it is now. */
static void a_run_is_where_its_configuration_is(void **state)
{
    NEED_BINARY();
    put_text("c.ini", INI);
    run_well("c.ini --set run.dir=whole");
    run_well("c.ini --set train.steps=2");
    char *text = bytes_of("runs/c-keep_all-1", "config.ini", (size_t[1]){0});
    assert_has(text, "\ndir =  ; default\n");
    dt_free(text);
    ran r = cli_run("runs/c-keep_all-1/config.ini --resume --set train.steps=5", NULL);
    assert_code(&r, 0);
    assert_has(r.err, "train.steps was 2, now 5");
    assert_has(r.err, "network   c, ");
    cli_done(&r);
    assert_int_equal(rename(in_workspace("runs/c-keep_all-1"), in_workspace("moved")), 0);
    run_well("moved --resume --set train.steps=11");
    same_file("whole", "moved", MODEL, "where its configuration is");
    same_state("whole", "moved", "step-00000011", "where its configuration is");
    r = cli_run("--resume moved/checkpoints/step-00000005/ --set train.steps=6", NULL);
    assert_code(&r, 0);
    assert_has(r.err, "after step 5, from ");
    cli_done(&r);
    r = cli_run("moved/checkpoints/step-00000005 --resume moved --set train.steps=6", NULL);
    assert_code(&r, 0);
    assert_has(r.err, "after step 5, from ");
    cli_done(&r);
    r = cli_run("moved --resume moved/checkpoints/step-00000005 --set train.steps=11", NULL);
    assert_code(&r, 0);
    assert_has(r.err, "after step 5, from ");
    cli_done(&r);
    same_file("whole", "moved", MODEL, "where its configuration is, from a checkpoint");
    r = cli_run("moved --resume --set train.steps=3", NULL);
    assert_code(&r, 0);
    assert_has(r.err, "all 11 steps are done; set train.steps higher to train on");
    assert_has(r.out, "after 11 of 11 steps");
    cli_done(&r);
    remove_all("whole");
    remove_all("moved");
    remove_all("runs");
}

/* Its own configuration still says where it was when it began; nothing is begun there. */
static void a_run_that_was_moved_goes_on_where_it_is(void **state)
{
    NEED_BINARY();
    put_text("c.ini", INI);
    run_well("c.ini --set run.dir=whole");
    run_well("c.ini --set run.dir=part --set train.steps=2");
    char *text = bytes_of("part", "config.ini", (size_t[1]){0});
    assert_has(text, "/w/part ; --set\n");
    dt_free(text);
    assert_int_equal(rename(in_workspace("part"), in_workspace("moved")), 0);
    run_well("moved --resume --set train.steps=5");
    run_well("moved/config.ini --resume --set train.steps=8");
    run_well("moved/config.ini --resume moved --set train.steps=11");
    assert_false(is_there("part"));
    same_file("whole", "moved", MODEL, "moved");
    same_state("whole", "moved", "step-00000011", "moved");
}

/* The copy's configuration names the first one, which is left alone. */
static void a_run_that_was_copied_goes_on_in_the_copy(void **state)
{
    NEED_BINARY();
    char command[2048];
    put_text("c.ini", INI);
    run_well("c.ini --set run.dir=whole");
    run_well("c.ini --set run.dir=part --set train.steps=2");
    snprintf(command, sizeof command, "cp -a '%s' '%s'", in_workspace("part"), in_workspace("new"));
    assert_int_equal(system(command), 0);
    char *before = snapshot("part");
    run_well("new --resume --set train.steps=11");
    assert_unchanged(before, "part");
    same_file("whole", "new", MODEL, "copied");
    same_state("whole", "new", "step-00000011", "copied");
}

/* Only what a run wrote of itself is old; what is typed beside it is meant. */
static void a_folder_that_is_typed_counts_for_a_run_that_was_moved(void **state)
{
    NEED_BINARY();
    put_text("c.ini", INI);
    run_well("c.ini --set run.dir=part --set train.steps=2");
    assert_int_equal(rename(in_workspace("part"), in_workspace("moved")), 0);
    char *before = snapshot("moved");
    refused("moved/config.ini --resume moved --set run.dir=new", DT_E_CONFIG,
        "/w/new: a run goes on where it is");
    assert_false(is_there("new"));
    run_well("moved --resume --set run.dir=new --set train.steps=1");
    assert_true(is_there("new/checkpoints/step-00000001/manifest.json"));
    assert_false(is_there("part"));
    assert_unchanged(before, "moved");
}

/* "yes" is "on", and what equals a default may be written or not. */
static void values_are_compared_by_what_they_mean(void **state)
{
    NEED_BINARY();
    put_text("c.ini", INI);
    run_well("c.ini --set run.dir=part --set train.steps=1");
    ran r = cli_run("c.ini --set run.dir=part --resume --set train.steps=2", NULL);
    assert_code(&r, 0);
    cli_done(&r);
    static const char *const same[] = {"conv c.bias=yes", "conv c.stride=1",
        "batchnorm b.eps=0.00001", "dropout d.rate=0.50", "conv c.kernel=+3"};
    for (size_t i = 0; i < DT_COUNT(same); i++) {
        r = cli_run("c.ini --set run.dir=part --resume --set train.steps=3 --set FILE", same[i]);
        assert_code(&r, 0);
        cli_done(&r);
    }
    r = cli_run("c.ini --set run.dir=part --resume --set FILE", "batchnorm b.eps=0.0001");
    assert_code(&r, DT_E_CONFIG);
    assert_has(r.err, "batchnorm b.eps");
    cli_done(&r);
    remove_all("part");
}

/* A checkpoint has no room for the keys of so many layers one by one. */
static void of_many_layers_each_option_counts(void **state)
{
    NEED_BINARY();
    enum { LAYERS = 120 };
    static char ini[LAYERS * 80 + 512];
    size_t n = 0;
    n += (size_t)snprintf(ini, sizeof ini, "[model]\nimage = 4\nclasses = 2\n");
    for (int i = 0; i < LAYERS; i++)
        n += (size_t)snprintf(ini + n, sizeof ini - n,
            "[conv c%d]\nout = 1\nkernel = 1\npad = 0\nstride = 1\nbias = on\n", i);
    snprintf(ini + n, sizeof ini - n,
        "[leaky_relu last]\nslope = 0.1\n[fc f]\nout = 2\n[data]\nsamples = 4\n[train]\n"
        "batch = 2\nsteps = 1\n[run]\ndir = part\n");
    put_text("c.ini", ini);
    run_well("c.ini");
    ran r = cli_run("c.ini --resume --set train.steps=2 --set FILE", "leaky_relu last.slope=0.3");
    assert_code(&r, DT_E_CONFIG);
    assert_has(r.err, "network");
    cli_done(&r);
    r = cli_run("c.ini --resume --set train.steps=2 --set FILE", "conv c119.bias=yes");
    assert_code(&r, 0);
    cli_done(&r);
    remove_all("part");
}

static void a_schedule_may_change_and_memory_is_free(void **state)
{
    NEED_BINARY();
    put_text("c.ini", INI);
    run_well("c.ini --set run.dir=part --set train.steps=2");
    ran r = cli_run("c.ini --set run.dir=part --resume --set train.lr=0.01 --set train.steps=4 "
                    "--set memory.policy=vdnn_all --set memory.device_budget=1GiB "
                    "--set data.ahead=3 --set device.threads=1",
        NULL);
    assert_code(&r, 0);
    assert_has(r.err, "train.lr was 0.05, now 0.01");
    assert_has(r.err, "train.steps was 2, now 4");
    assert_has_not(r.err, "memory.policy was");
    assert_has_not(r.err, "data.ahead was");
    assert_has(r.out, "done      after 4 of 4 steps");
    cli_done(&r);
    r = cli_run("c.ini --set run.dir=part --resume --set train.steps=4", NULL);
    assert_code(&r, 0);
    assert_has(r.err, "all 4 steps are done; set train.steps higher to train on");
    cli_done(&r);
    remove_all("part");
    run_well("c.ini --set run.dir=part --set train.steps=0 --set train.epochs=1");
    r = cli_run("part --resume", NULL);
    assert_code(&r, 0);
    assert_has(r.err, "all 4 steps are done; set train.epochs higher to train on");
    cli_done(&r);
    remove_all("part");
}

static void other_algorithms_are_told(void **state)
{
    NEED_BINARY();
    put_text("c.ini", INI);
    run_well("c.ini --set run.dir=part --set train.steps=2 --set memory.algorithms=small");
    ran r = cli_run("c.ini --set run.dir=part --resume --set train.steps=3", NULL);
    assert_code(&r, 0);
    assert_has(r.err, "algorithms was small, now fast: results will differ in rounding");
    cli_done(&r);
    r = cli_run("c.ini --set run.dir=part --resume --set train.steps=4", NULL);
    assert_code(&r, 0);
    assert_has_not(r.err, "algorithms was");
    cli_done(&r);
    remove_all("part");
}

/* ---- where to go on ---- */

/* Files of a run that are links, or no files, when it is gone on with: what they lead to is not
 * touched. */
static void links_in_a_run_are_not_written_through(void **state)
{
    NEED_BINARY();
    static const char *const names[] = {"metrics.jsonl", "metrics.cut.jsonl"};
    put_text("c.ini", INI);
    run_well("c.ini --set run.dir=part --set checkpoint.every=4 --set checkpoint.keep_last=0");
    remove_all("part/checkpoints/step-00000011");
    put_text("whole/mine", "not the run's");
    char *before = snapshot("whole");
    for (size_t i = 0; i < DT_COUNT(names); i++) {
        char at[512], kept[512], below[128];
        snprintf(below, sizeof below, "part/%s", names[i]);
        snprintf(at, sizeof at, "%s", in_workspace(below));
        snprintf(kept, sizeof kept, "%s", in_workspace("kept"));
        (void)rename(at, kept);
        assert_int_equal(symlink("../whole/mine", at), 0);
        refused("c.ini --set run.dir=part --resume", DT_E_IO, names[i]);
        assert_int_equal(unlink(at), 0);
        assert_int_equal(mkfifo(at, 0600), 0);
        refused("c.ini --set run.dir=part --resume", DT_E_IO, names[i]);
        assert_int_equal(unlink(at), 0);
        if (is_there("kept"))
            assert_int_equal(rename(kept, at), 0);
    }
    assert_unchanged(before, "whole");
    run_well("c.ini --set run.dir=part --resume");
}

static void resume_begins_where_nothing_is(void **state)
{
    NEED_BINARY();
    put_text("c.ini", INI);
    char *before = snapshot("");
    run_well("c.ini --set run.dir=new --set train.steps=2 --resume");
    assert_true(is_there("new/checkpoints/step-00000002/manifest.json"));
    refused("c.ini --resume nowhere", DT_E_CONFIG, "resume 'nowhere': No such file or directory");
    refused("c.ini --resume new --set run.dir=other", DT_E_CONFIG, "leave out run.dir");
    refused("c.ini new", DT_E_CONFIG, "one argument too many");
    run_well("--resume new c.ini --set train.steps=3");
    assert_true(is_there("new/checkpoints/step-00000003/manifest.json"));
    remove_all("new/checkpoints/step-00000002");
    remove_all("new/checkpoints/step-00000003");
    refused("c.ini --resume new", DT_E_DATA, "holds no checkpoint to go on from");
    run_well("c.ini --set run.dir=new --set train.steps=2 --resume"); /* so it begins again */
    remove_all("new");
    put_text("new/mine.txt", "mine");
    refused("c.ini --set run.dir=new --resume", DT_E_BUSY, "holds files that are no run's");
    remove_all("new");
    assert_unchanged(before, "");
}

static void a_folder_that_holds_no_run_is_not_gone_on_with(void **state)
{
    NEED_BINARY();
    put_text("c.ini", INI);
    assert_int_equal(mkdir(in_workspace("new"), 0777), 0);
    refused("c.ini --resume new", DT_E_CONFIG,
        "holds no run; name a run directory or one of its checkpoints");
    assert_int_equal(files_in(in_workspace("new")), 0);
    put_text("new/mine.txt", "mine");
    refused("c.ini --resume new", DT_E_CONFIG, "holds no run");
    assert_int_equal(files_in(in_workspace("new")), 1);
}

/* By its own configuration, in which the options of the policy that it had stand; those that are
 * typed are read by somebody, or refused. */
static void a_run_goes_on_by_itself_under_another_policy(void **state)
{
    NEED_BINARY();
    put_text("c.ini", INI);
    run_well("c.ini --set run.dir=whole");
    run_well("c.ini --set run.dir=part --set memory.policy=chen_sqrt --set train.steps=2");
    refused("part --resume --set memory.policy=vdnn_all --set policy.chen_sqrt.cuts=points",
        DT_E_CONFIG, "chen_sqrt");
    run_well("part --resume --set memory.policy=zero_infinity --set train.steps=4");
    run_well("part --resume --set memory.policy=vdnn_all --set train.steps=11");
    same_file("whole", "part", MODEL, "under another policy");
    remove_all("whole");
    remove_all("part");
}

/* How a policy changes results is told where that changes. */
static void other_options_of_a_policy_that_changes_results_are_told(void **state)
{
    NEED_BINARY();
    put_text("c.ini", INI);
    run_well("c.ini --set run.dir=part --set memory.policy=gist --set train.steps=2");
    ran r = cli_run("part --resume --set policy.gist.dpr=fp8 --set train.steps=3", NULL);
    assert_code(&r, 0);
    assert_has(r.err, "resume    exact was gist dpr=fp16");
    assert_has(r.err, ", now gist dpr=fp8");
    assert_has(r.err, ": results will differ from those of a run that was not stopped");
    cli_done(&r);
    r = cli_run("part --resume --set memory.policy=vdnn_all --set train.steps=4", NULL);
    assert_code(&r, 0);
    assert_has(r.err, ", now on: results will differ from those of a run that was not stopped");
    cli_done(&r);
    remove_all("part");
}

/* What is missing there is made only by a run that goes on. */
static void a_resume_that_is_refused_changes_nothing(void **state)
{
    NEED_BINARY();
    static const char changed[] = "c.ini --set run.dir=part --resume --set train.batch=16";
    put_text("c.ini", INI);
    run_well("c.ini --set run.dir=part --set train.steps=2");
    remove_all("part/metrics.jsonl");
    char *before = snapshot("part");
    refused(changed, DT_E_CONFIG, "train.batch");
    assert_unchanged(before, "part");
    remove_all("part/checkpoints");
    before = snapshot("part");
    refused("c.ini --resume part", DT_E_DATA, "holds no checkpoint to go on from");
    assert_unchanged(before, "part");
}

/* By their whole names, as somebody's own file may have a part of them; and only by a run that goes
 * on. */
static void what_was_being_written_goes_when_the_run_goes_on(void **state)
{
    NEED_BINARY();
    static const char *const ours[] = {"part/.x.tmp-123", "part/checkpoints/.x.tmp-123"};
    static const char *const theirs[] = {
        "part/.notes.tmp-draft", "part/checkpoints/.notes.tmp-draft"};
    put_text("c.ini", INI);
    run_well("c.ini --set run.dir=part --set train.steps=2");
    for (size_t i = 0; i < DT_COUNT(ours); i++) {
        put_text(ours[i], "half of a file");
        put_text(theirs[i], "mine");
    }
    const int files = files_in(in_workspace("part"));
    refused("c.ini --set run.dir=part --resume --set train.batch=16", DT_E_CONFIG, "train.batch");
    assert_int_equal(files_in(in_workspace("part")), files);
    for (size_t i = 0; i < DT_COUNT(ours); i++)
        assert_true(is_there(ours[i]) && is_there(theirs[i]));
    run_well("c.ini --set run.dir=part --resume --set train.steps=3");
    for (size_t i = 0; i < DT_COUNT(ours); i++)
        assert_true(!is_there(ours[i]) && is_there(theirs[i]));
}

static void without_a_folder_the_newest_run_is_gone_on_with(void **state)
{
    NEED_BINARY();
    put_text("c.ini", INI);
    run_well("c.ini --set train.steps=1 --resume");
    run_well("c.ini --set train.steps=1");
    put_text("runs/c-keep_all-9.copy/notes", ""); /* no runs */
    put_text("runs/c-keep_all-50", "");
    ran r = cli_run("c.ini --set train.steps=2 --resume", NULL);
    assert_code(&r, 0);
    assert_has(r.err, "run       runs/c-keep_all-2\n");
    assert_has(r.err, "after step 1, from ");
    cli_done(&r);
    remove_all("runs");
}

static void a_damaged_checkpoint_costs_only_its_steps(void **state)
{
    NEED_BINARY();
    put_text("c.ini", INI);
    run_well("c.ini --set run.dir=whole");
    run_well("c.ini --set run.dir=part --set checkpoint.every=4");
    assert_int_equal(
        truncate(in_workspace("part/checkpoints/step-00000011/model.safetensors"), 1000), 0);
    ran r = cli_run("c.ini --set run.dir=part --resume", NULL);
    assert_code(&r, 0);
    assert_has(r.err, "passed over ");
    assert_has(r.err, "has 1000 bytes, was written with ");
    assert_has(r.err, "after step 8, from ");
    cli_done(&r);
    same_run("whole", "part", "step-00000011", "after damage");
    assert_true(is_there("part/checkpoints/aside-step-00000011/manifest.json"));
    put_text("part/checkpoints/step-00000008/manifest.json", "{}");
    put_text("part/checkpoints/step-00000011/manifest.json", "");
    char *before = snapshot("part");
    r = cli_run("c.ini --set run.dir=part --resume", NULL);
    assert_code(&r, DT_E_DATA);
    assert_has(r.err, "step-00000008/manifest.json: its checksum is wrong");
    assert_has(r.err, "none of the 2 checkpoints");
    cli_done(&r);
    assert_unchanged(before, "part");
    remove_all("whole");
    remove_all("part");
}

static void weights_of_a_checkpoint_start_another_run(void **state)
{
    NEED_BINARY();
    put_text("c.ini", INI);
    run_well("c.ini --set run.dir=part --set train.steps=2");
    run_well("c.ini --set run.dir=new --set train.batch=10 --set train.micro_batch=5 "
             "--set train.steps=1 "
             "--set model.weights=part/checkpoints/step-00000002/model.safetensors");
    remove_all("part");
    remove_all("new");
}

/* The step behind @after whose evaluation had the lowest loss, by what was written. */
static int lowest_loss(const char *run, int after)
{
    size_t n;
    double best = 1e9, loss;
    int step, best_step = 0;
    char *text = bytes_of(run, "metrics.jsonl", &n);
    for (const char *s = text; (s = strchr(s, '{')) != NULL; s++)
        if (sscanf(s, "{\"step\": %d, \"epoch\": %*d, \"split\": \"eval\", \"loss\": %lf", &step,
                &loss) == 2 &&
            step > after && loss < best) {
            best = loss;
            best_step = step;
        }
    dt_free(text);
    assert_true(best_step > 0);
    return best_step;
}

/* That checkpoint, the last one and the weights, and no others. */
static void assert_best_kept(int best_step)
{
    char below[128];
    snprintf(below, sizeof below, "part/checkpoints/step-%08d/manifest.json", best_step);
    assert_true(is_there(below));
    assert_true(is_there("part/checkpoints/step-00000011/manifest.json"));
    assert_int_equal(files_in(in_workspace("part/checkpoints")), best_step == 11 ? 2 : 3);
}

static void the_best_is_kept(void **state)
{
    NEED_BINARY();
    put_text("c.ini", INI);
    run_well("c.ini --set run.dir=part --set checkpoint.best=loss --set checkpoint.keep_last=1 "
             "--set train.lr=0.2");
    const int best = lowest_loss("part", 0);
    char says[128];
    assert_best_kept(best);
    assert_true(best < 11);
    ran r = cli_run("eval part", NULL); /* takes the last weights, and says which were better */
    assert_code(&r, 0);
    snprintf(says, sizeof says, " after step %d: dnntrain eval part/checkpoints/step-%08d\n", best,
        best);
    assert_has(r.out, "\nbest      loss ");
    assert_has(r.out, says);
    cli_done(&r);
    snprintf(says, sizeof says, "eval part/checkpoints/step-%08d", best);
    r = cli_run(says, NULL);
    assert_code(&r, 0);
    assert_has_not(r.out, "best  ");
    cli_done(&r);
    remove_all("part");
}

/* What was the best by another measure says nothing, as no loss, negated, is above a share; the
 * checkpoint that is gone on from is the best so far. */
static void another_measure_finds_the_best_anew(void **state)
{
    NEED_BINARY();
    put_text("c.ini", INI);
    run_well("c.ini --set run.dir=part --set checkpoint.best=top1 --set checkpoint.keep_last=1 "
             "--set train.steps=4");
    for (int again = 0; again < 2; again++) {
        ran r = cli_run("c.ini --set run.dir=part --set checkpoint.best=loss "
                        "--set checkpoint.keep_last=1 --resume",
            NULL);
        assert_code(&r, 0);
        (again ? assert_has_not : assert_has)(r.err, "checkpoint.best was top1, now loss");
        cli_done(&r);
        assert_best_kept(lowest_loss("part", 3));
    }
}

/* One that was given up for a better one is no best to go by, where that one is given up as well.
 */
static void a_best_that_is_gone_is_found_anew(void **state)
{
    NEED_BINARY();
    put_text("c.ini", INI);
    run_well("c.ini --set run.dir=part --set checkpoint.best=loss --set checkpoint.every=1 "
             "--set checkpoint.keep_last=0 --set train.steps=7");
    remove_all("part/checkpoints/step-00000004"); /* the end of the first epoch */
    ran r = cli_run("c.ini --set checkpoint.best=loss --set checkpoint.keep_last=1 "
                    "--resume part/checkpoints/step-00000006",
        NULL);
    assert_code(&r, 0);
    assert_has(r.err, "step 4, the best so far, has no checkpoint any more");
    cli_done(&r);
    char best[128];
    snprintf(best, sizeof best, "part/checkpoints/step-%08d/manifest.json", lowest_loss("part", 6));
    assert_true(is_there(best));
    remove_all("part");
}

/* Whether a folder holds a name with @part in it. */
static bool has_name(const char *folder, const char *part)
{
    bool any = false;
    DIR *d = opendir(folder);
    for (const struct dirent *e; d != NULL && !any && (e = readdir(d)) != NULL;)
        any = strstr(e->d_name, part) != NULL;
    if (d != NULL)
        closedir(d);
    return any;
}

/* ---- in this process: signals and failing calls at chosen places ---- */

static struct {
    const char *path; /* the first file opened whose path holds it */
    int error;        /* cannot be opened; 0: it can */
    int signals;      /* raised instead */
    int number;       /* which; 0: SIGTERM */
    int (*statfs)(const char *path, struct statfs *to);
    const char *text; /* or when this is written */
    int link;         /* second names are refused with this error; 0: they are given */
    int refused;      /* how often */
} trap;

static void spring(void)
{
    for (; trap.signals > 0; trap.signals--)
        raise(trap.number != 0 ? trap.number : SIGTERM);
}

static int trapped_open(const char *path, int flags, mode_t mode)
{
    if (trap.path != NULL && strstr(path, trap.path) != NULL) {
        spring();
        if (trap.error != 0) {
            errno = trap.error;
            return -1;
        }
    }
    return dt_io_system.open(path, flags, mode);
}

static ssize_t trapped_pwrite(int fd, const void *from, size_t n, off_t at)
{
    if (trap.text != NULL && memmem(from, n, trap.text, strlen(trap.text)) != NULL)
        spring();
    return dt_io_system.pwrite(fd, from, n, at);
}

static int trapped_link(const char *from, const char *to)
{
    if (trap.link == 0)
        return dt_io_system.link(from, to);
    trap.refused++;
    errno = trap.link;
    return -1;
}

static int do_not_wait(int fd)
{
    (void)fd;
    return 0;
}

/* Train in this process; what it says goes to a file. */
static ran run_here(const char *words)
{
    char line[1024], *arg[16] = {NULL};
    int n = 0;
    snprintf(line, sizeof line, "%s", words);
    for (char *w = strtok(line, " "); w != NULL; w = strtok(NULL, " "))
        arg[n++] = w;
    dt_io_ops ops = dt_io_system;
    ops.open = trapped_open;
    ops.pwrite = trapped_pwrite;
    ops.link = trapped_link;
    if (trap.statfs != NULL)
        ops.statfs = trap.statfs;
    ops.fsync = do_not_wait;
    const char *said = in_workspace("said");
    const int here = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_true(here >= 0 && chdir(in_workspace("")) == 0);
    const int out = open(said, O_WRONLY | O_CREAT | O_TRUNC, 0600), loud = dup(2);
    assert_true(out >= 0 && loud >= 0 && dup2(out, 2) == 2);
    const dti_command_args a = {n, arg};
    dt_err err = {0};
    dt_io = &ops;
    const dt_status st = dt_command_train.run(&a, &err);
    dt_io = &dt_io_system;
    fputs(err.text, stderr);
    assert_int_equal(dup2(loud, 2), 2);
    close(out);
    close(loud);
    assert_int_equal(fchdir(here), 0);
    close(here);
    ran r = {(int)st, NULL, cli_text(in_workspace("said"))};
    remove_all("said");
    return r;
}

static void a_signal_anywhere_saves_and_the_rest_is_the_same(void **state)
{
    NEED_BINARY();
    static const struct {
        const char *path, *text;
        int step; /* that is saved; -1: none */
    } cases[] = {
        {"plan.txt", NULL, -1},      /* before the plans are checked */
        {NULL, "{\"step\": 2, ", 2}, /* in a step */
        {NULL, "{\"step\": 4, \"epoch\": 0, \"split\": \"train\"", 4}, /* in the evaluation */
        {NULL, "{\"step\": 4, \"epoch\": 0, \"split\": \"eval\"", 4},  /* after it */

        {".step-00000006.tmp", NULL, 6}, /* while saving */
    };
    put_text("c.ini", INI);
    run_well("c.ini --set run.dir=whole");
    for (size_t i = 0; i < DT_COUNT(cases); i++) {
        trap.path = cases[i].path;
        trap.text = cases[i].text;
        trap.signals = 1;
        trap.number = i % 2 == 0 ? SIGUSR1 : SIGINT;
        ran r = run_here("c.ini --set run.dir=part --set checkpoint.every=3");
        trap.number = 0;
        assert_code(&r, DT_E_STOPPED);
        assert_int_equal(trap.signals, 0);
        char name[128];
        snprintf(name, sizeof name, "part/checkpoints/step-%08d/manifest.json", cases[i].step);
        if (cases[i].step > 0) {
            assert_has(r.err, "--resume ");
            assert_true(is_there(name));
        }
        cli_done(&r);
        trap.path = trap.text = NULL;
        run_well("c.ini --set run.dir=part --set checkpoint.every=3 --resume");
        same_run("whole", "part", "step-00000011", "after a signal");
        remove_all("part");
    }
    remove_all("whole");
}

/* Train in this process until a file is opened, or a text written, which is when a signal comes. */
static void stop_here(const char *words, const char *path, const char *text, const char *says)
{
    trap.path = path;
    trap.text = text;
    trap.signals = 1;
    ran r = run_here(words);
    trap.path = trap.text = NULL;
    assert_code(&r, DT_E_STOPPED);
    assert_int_equal(trap.signals, 0);
    assert_has(r.err, says);
    cli_done(&r);
}

/* What a summary says of the whole run, and nothing of the speed of a process that did no step. */
static void same_course(const cJSON *a, const cJSON *b)
{
    static const char *const keys[] = {"steps", "steps_planned", "epochs", "samples", "first_loss",
        "final_loss", "eval_loss", "eval_top1", "eval_top5"};
    for (size_t i = 0; i < DT_COUNT(keys); i++)
        if (!(json_number(a, keys[i]) == json_number(b, keys[i])))
            fail_msg("%s: %g and %g", keys[i], json_number(a, keys[i]), json_number(b, keys[i]));
    assert_true(json_number(a, "images_per_second") > 0 && json_number(b, "seconds") > 0);
    assert_true(cJSON_IsNull(cJSON_GetObjectItemCaseSensitive(b, "images_per_second")));
}

static void assert_same_summary(const char *folder, const cJSON *before)
{
    char path[64];
    snprintf(path, sizeof path, "%s/summary.json", folder);
    cJSON *after = json_file(in_workspace(path));
    assert_true(cJSON_Compare(before, after, true));
    cJSON_Delete(after);
}

/* Nothing is trained then, and the run is what it was: of one that is done, done. */
static void a_run_stopped_before_it_goes_on_tells_what_was_done(void **state)
{
    NEED_BINARY();
    put_text("c.ini", INI);
    run_well("c.ini --set run.dir=whole --set checkpoint.every=4");
    stop_here("c.ini --set run.dir=part", NULL, "{\"step\": 5, ", "goes on after step 5");
    cJSON *before = json_file(in_workspace("part/summary.json"));
    assert_int_equal((int)json_number(before, "steps"), 5);
    stop_here("c.ini --set run.dir=part --resume", "plan.txt", NULL, "while plans were checked");
    assert_same_summary("part", before);
    cJSON_Delete(before);
    run_well("c.ini --set run.dir=part --resume");
    same_run("whole", "part", "step-00000011", "stopped before it went on");
    before = json_file(in_workspace("whole/summary.json"));
    assert_string_equal(json_text(before, "status"), "done");
    stop_here("c.ini --set run.dir=whole --resume whole/checkpoints/step-00000008", "plan.txt",
        NULL, "while plans were checked");
    assert_same_summary("whole", before);
    cJSON_Delete(before);
}

/* Where the end of a run that went on can write no weights, those of its earlier end stay: its
 * checkpoint is further, and its summary says so. */
static void weights_that_an_end_cannot_write_are_not_taken_for_its_own(void **state)
{
    NEED_BINARY();
    put_text("c.ini", INI);
    run_well("c.ini --set run.dir=part --set train.steps=5");
    cJSON *o = json_file(in_workspace("part/summary.json"));
    assert_int_equal((int)json_number(o, "weights_step"), 5);
    cJSON_Delete(o);
    trap.path = ".model.safetensors";
    trap.error = ENOSPC;
    ran r =
        run_here("c.ini --set run.dir=part --set train.steps=9 --set checkpoint.every=7 --resume");
    trap.path = NULL;
    trap.error = 0;
    assert_code(&r, DT_E_IO);
    cli_done(&r);
    o = json_file(in_workspace("part/summary.json"));
    assert_int_equal((int)json_number(o, "steps"), 9);
    assert_int_equal((int)json_number(o, "weights_step"), 5);
    cJSON_Delete(o);
    r = cli_run("eval FILE --json", in_workspace("part"));
    assert_code(&r, 0);
    o = cJSON_Parse(r.out);
    assert_int_equal((int)json_number(o, "step"), 5);
    cJSON_Delete(o);
    cli_done(&r);
}

static void with_nothing_left_to_do_a_summary_tells_the_same(void **state)
{
    NEED_BINARY();
    put_text("c.ini", INI);
    run_well("c.ini --set run.dir=part");
    cJSON *before = json_file(in_workspace("part/summary.json"));
    run_well("c.ini --set run.dir=part --resume");
    cJSON *after = json_file(in_workspace("part/summary.json"));
    assert_string_equal(json_text(after, "status"), "done");
    same_course(before, after);
    cJSON_Delete(before);
    cJSON_Delete(after);
}

/* Stop a run that saves at every step in the midst of saving: at a moment at which the folder it
 * writes a checkpoint in is there. */
static void stop_while_saving(pid_t child)
{
    char mark[32];
    const char *folder = in_workspace("part/checkpoints");
    snprintf(mark, sizeof mark, ".tmp-%ld", (long)child);
    for (int i = 0; i < 60000; i++) {
        int status;
        if (has_name(folder, mark)) {
            assert_int_equal(kill(child, SIGSTOP), 0);
            assert_int_equal(waitpid(child, &status, WUNTRACED), child);
            assert_true(WIFSTOPPED(status));
            if (has_name(folder, mark)) /* still */
                return;
            assert_int_equal(kill(child, SIGCONT), 0);
        }
        nanosleep(&(struct timespec){0, 1000000}, NULL);
    }
    fail_msg("nothing was saved within a minute");
}

/* In a child: the second signal takes the default way. */
static void a_second_signal_while_saving_does_no_damage(void **state)
{
    NEED_BINARY();
    put_text("c.ini", INI);
    run_well("c.ini --set run.dir=whole");
    run_well("c.ini --set run.dir=part --set checkpoint.every=5 --set checkpoint.keep_last=0");
    char *before = snapshot("part/checkpoints/step-00000005");
    for (int i = 0; i < 2; i++) {
        fflush(NULL);
        const pid_t child = cli_start("c.ini --set run.dir=part --set train.steps=1000000 "
                                      "--set checkpoint.every=1 --set checkpoint.keep_last=0 "
                                      "--resume part/checkpoints/step-00000005",
            NULL);
        stop_while_saving(child);
        kill(child, SIGTERM);
        kill(child, SIGINT);
        kill(child, SIGCONT);
        ran r = cli_wait(child);
        assert_true(r.code == 128 + SIGINT || r.code == 128 + SIGTERM);
        cli_done(&r);
    }
    assert_unchanged(before, "part/checkpoints/step-00000005");
    assert_int_equal(symlink("part/checkpoints/step-00000005", in_workspace("the-fifth")), 0);
    run_well("c.ini --set run.dir=part --resume the-fifth"); /* a link is what it leads to */
    same_run("whole", "part", "step-00000011", "after two signals");
    assert_int_equal(unlink(in_workspace("the-fifth")), 0);
    remove_all("whole");
    remove_all("part");
}

static void a_checkpoint_that_cannot_be_written_ends_no_run(void **state)
{
    NEED_BINARY();
    put_text("c.ini", INI);
    trap.path = ".step-00000006.tmp";
    trap.error = ENOSPC;
    ran r = run_here("c.ini --set run.dir=part --set checkpoint.every=3");
    assert_code(&r, 0);
    assert_has(r.err, "no checkpoint of step 6: ");
    assert_has(r.err, "No space left on device");
    assert_has(r.err, "the run goes on; the checkpoint of step 3 is kept");
    assert_true(is_there("part/checkpoints/step-00000009/manifest.json"));
    assert_false(is_there("part/checkpoints/step-00000006"));
    cli_done(&r);
    remove_all("part");
    trap.path = ".step-00000011.tmp";
    r = run_here("c.ini --set run.dir=part --set checkpoint.every=3");
    trap.path = NULL;
    trap.error = 0;
    assert_code(&r, DT_E_IO);
    assert_has(r.err, "No space left on device");
    assert_true(is_there("part/" MODEL));
    assert_true(is_there("part/checkpoints/step-00000009/manifest.json"));
    cli_done(&r);
    remove_all("part");
}

static struct stat weights_of(const char *run)
{
    char below[128];
    struct stat st;
    snprintf(below, sizeof below, "%s/" MODEL, run);
    assert_int_equal(stat(in_workspace(below), &st), 0);
    return st;
}

/* The weights at the end are a second name of the last checkpoint's file. Where there are no such
 * names (FAT, some network folders), they are a file of their own with the same bytes. */
static void without_second_names_the_weights_are_written_again(void **state)
{
    NEED_BINARY();
    static const int errors[] = {EPERM, EXDEV, EMLINK, EOPNOTSUPP};
    put_text("c.ini", INI);
    ran r = run_here("c.ini --set run.dir=whole");
    assert_code(&r, 0);
    cli_done(&r);
    assert_int_equal(weights_of("whole").st_nlink, 2);
    for (size_t i = 0; i < DT_COUNT(errors); i++) {
        if (!dt_picked(i, 2, 2, 1))
            continue;
        trap.link = errors[i];
        trap.refused = 0;
        r = run_here("c.ini --set run.dir=part");
        trap.link = 0;
        assert_code(&r, 0);
        assert_has_not(r.err, strerror(errors[i]));
        cli_done(&r);
        assert_int_equal(trap.refused, 1);
        assert_int_equal(weights_of("part").st_nlink, 1);
        same_run("whole", "part", "step-00000011", "without a second name");
        dt_free(snapshot("part")); /* no temporary file */
        remove_all("part");
    }
    remove_all("whole");
}

static int nearly_full(const char *path, struct statfs *to)
{
    const int r = dt_io_system.statfs(path, to);
    to->f_bavail = 2;
    return r;
}

static void too_little_room_is_told_before_the_first_step(void **state)
{
    NEED_BINARY();
    put_text("c.ini", INI);
    trap.statfs = nearly_full;
    ran r = run_here("c.ini --set run.dir=part --set checkpoint.every=3");
    trap.statfs = NULL;
    assert_code(&r, DT_E_IO);
    const char *told = strstr(r.err, "too little for checkpoints, which take up to ");
    assert_non_null(told);
    assert_true(told < strstr(r.err, "no checkpoint of step 3: "));
    assert_has(r.err, "bytes free, a checkpoint takes up to ");
    assert_has(r.err, "make room there");
    assert_true(is_there("part/" MODEL));
    cli_done(&r);
}

/* The whole line, as of a run of 11 steps that saves after each. */
static char *room_foreseen(const char *keep)
{
    char words[128];
    snprintf(
        words, sizeof words, "c.ini --set run.dir=part --set checkpoint.every=1 --set %s", keep);
    trap.statfs = nearly_full;
    ran r = run_here(words);
    trap.statfs = NULL;
    const char *told = strstr(r.err, "too little for checkpoints, which take up to ");
    assert_non_null(told);
    char *line = strndup(told, strcspn(told, "\n"));
    cli_done(&r);
    remove_all("part");
    return line;
}

/* All is as many as are to come, and no run keeps more. */
static void room_is_foreseen_for_all_that_are_kept(void **state)
{
    NEED_BINARY();
    put_text("c.ini", INI);
    char *all = room_foreseen("checkpoint.keep_last=0");
    char *eleven = room_foreseen("checkpoint.keep_last=11");
    char *many = room_foreseen("checkpoint.keep_last=1000");
    char *few = room_foreseen("checkpoint.keep_last=10");
    assert_string_equal(all, eleven);
    assert_string_equal(many, eleven);
    assert_string_not_equal(few, eleven);
    free(all);
    free(eleven);
    free(many);
    free(few);
}

/* Counted in 32 bits they would be less than none, and the run over at once. */
static void more_than_2_to_the_31_steps_are_counted(void **state)
{
    NEED_BINARY();
    put_text("c.ini", INI);
    trap.text = "{\"step\": 3, ";
    trap.signals = 1;
    ran r = run_here("c.ini --set run.dir=part --set train.steps=3000000000");
    trap.text = NULL;
    assert_code(&r, DT_E_STOPPED);
    assert_has(r.err, "step 1/3000000000");
    cli_done(&r);
}

static void listen_to_nothing(void)
{
    close(1);
    close(2);
}

static void write_to_a_full_device(void)
{
    const int fd = open("/dev/full", O_WRONLY);
    dup2(fd, 1);
    dup2(fd, 2);
}

static void write_to_a_broken_pipe(void)
{
    int fd[2];
    if (pipe(fd) != 0)
        _exit(125);
    dup2(fd[1], 1);
    dup2(fd[1], 2);
    close(fd[0]);
    close(fd[1]);
}

static void nobody_has_to_listen(void **state)
{
    NEED_BINARY();
    put_text("c.ini", INI);
    run_well("c.ini --set run.dir=whole");
    void (*const ways[])(void) = {
        listen_to_nothing, write_to_a_full_device, write_to_a_broken_pipe};
    for (size_t i = 0; i < DT_COUNT(ways); i++) {
        cli.child = ways[i];
        ran r = cli_run("c.ini --set run.dir=part", NULL);
        cli.child = NULL;
        assert_code(&r, 0);
        cli_done(&r);
        same_run("whole", "part", "step-00000011", "unheard");
        remove_all("part");
    }
}

static void a_run_that_another_process_has_is_left_alone(void **state)
{
    NEED_BINARY();
    put_text("c.ini", INI);
    run_well("c.ini --set run.dir=part --set train.steps=1");
    struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    put_text("part/lock", "1 elsewhere\n");
    const int fd = open(in_workspace("part/lock"), O_RDWR);
    assert_true(fd >= 0 && fcntl(fd, F_OFD_SETLK, &whole) == 0);
    refused("c.ini --set run.dir=part --resume", DT_E_BUSY, "is in use by process 1 on elsewhere");
    close(fd); /* left by a process that is gone */
    run_well("c.ini --set run.dir=part --set train.steps=2 --resume");
    remove_all("part");
}

static int clean(void **state)
{
    (void)state;
    trap.path = trap.text = NULL;
    trap.error = trap.signals = trap.link = 0;
    dt_io = &dt_io_system;
    static const char *const all[] = {
        "part", "whole", "moved", "new", "set", "runs", "disk", "text"};
    for (size_t i = 0; cli_binary() != NULL && i < DT_COUNT(all); i++)
        remove_all(all[i]);
    return 0;
}

#define T(f) cmocka_unit_test_teardown(f, clean)
DT_TEST_GROUP(resume)
{
    const struct CMUnitTest tests[] = {
        T(a_run_that_draws_goes_on_with_the_same_draws),
        T(gone_on_with_anywhere_a_run_ends_with_the_same_bits),
        T(the_state_of_adamw_comes_back),
        T(the_state_of_lion_comes_back),
        T(without_momentum_there_is_no_state),
        T(the_state_of_adam_comes_back),
        T(the_state_of_nesterovs_momentum_comes_back),
        T(in_bf16_a_run_ends_with_the_same_bits),
        T(through_the_disk_tier_a_run_ends_with_the_same_bits),
        T(wherever_tensors_live_a_run_ends_with_the_same_bits),
        T(the_windows_of_a_text_come_in_the_same_order),
        T(cuts_are_drawn_as_they_would_have_been),
        T(data_may_move_and_not_change),
        T(bad_samples_do_not_move_the_order),
        T(bad_samples_are_counted_anew),
        T(killed_again_and_again_a_run_ends_with_the_same_bits),
        T(killed_with_homes_elsewhere_a_run_ends_with_the_same_bits),
        T(killed_while_pruning_a_run_ends_with_the_same_bits),
        T(what_is_cut_from_the_metrics_is_kept),
        T(one_that_lost_its_name_is_gone_on_with),
        T(one_of_another_name_is_no_place_to_go_on_from),
        T(links_in_a_run_are_not_written_through),
        T(a_changed_run_is_refused_with_a_table),
        T(a_run_goes_on_by_its_own_configuration),
        T(a_run_is_where_its_configuration_is),
        T(a_run_that_was_moved_goes_on_where_it_is),
        T(a_run_that_was_copied_goes_on_in_the_copy),
        T(a_folder_that_is_typed_counts_for_a_run_that_was_moved),
        T(values_are_compared_by_what_they_mean),
        T(of_many_layers_each_option_counts),
        T(a_schedule_may_change_and_memory_is_free),
        T(other_algorithms_are_told),
        T(resume_begins_where_nothing_is),
        T(a_folder_that_holds_no_run_is_not_gone_on_with),
        T(a_run_goes_on_by_itself_under_another_policy),
        T(other_options_of_a_policy_that_changes_results_are_told),
        T(a_resume_that_is_refused_changes_nothing),
        T(what_was_being_written_goes_when_the_run_goes_on),
        T(without_a_folder_the_newest_run_is_gone_on_with),
        T(a_damaged_checkpoint_costs_only_its_steps),
        T(weights_of_a_checkpoint_start_another_run),
        T(the_best_is_kept),
        T(another_measure_finds_the_best_anew),
        T(a_best_that_is_gone_is_found_anew),
        T(a_signal_anywhere_saves_and_the_rest_is_the_same),
        T(a_run_stopped_before_it_goes_on_tells_what_was_done),
        T(weights_that_an_end_cannot_write_are_not_taken_for_its_own),
        T(with_nothing_left_to_do_a_summary_tells_the_same),
        T(a_second_signal_while_saving_does_no_damage),
        T(a_checkpoint_that_cannot_be_written_ends_no_run),
        T(without_second_names_the_weights_are_written_again),
        T(too_little_room_is_told_before_the_first_step),
        T(room_is_foreseen_for_all_that_are_kept),
        T(more_than_2_to_the_31_steps_are_counted),
        T(nobody_has_to_listen),
        T(a_run_that_another_process_has_is_left_alone),
    };
    cli_threads_here();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
