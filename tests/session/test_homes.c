/* Parameters, gradients and optimizer states whose home is the host or the disk: what
 * [memory.layers] may say, what the plans do, and that a run leaves the same bits wherever they
 * live. */
#include <stdlib.h>
#include <string.h>

#include "engine/base/alloc.h"
#include "engine/base/io.h"
#include "engine/base/numbers.h"
#include "memory/remat/remat.h"
#include "session/open.h"
#include "session/run_plans.h"
#include "session/session.h"
#include "tests/fixture/planned.h"
#include "tests/fixture/run_cli.h"
#include "tests/fixture/workspace.h"

/* Four tensors of weights, two of running statistics. */
#define NETWORK                                                                                    \
    "[model]\nimage = 8\nclasses = 3\n[conv c]\nout = 4\nkernel = 3\n[batchnorm b]\n[relu r]\n"    \
    "[dropout d]\n[fc f]\nout = 3\n"
#define DATA "[data]\nsamples = 30\n"
#define TRAIN "[train]\nbatch = 8\nmicro_batch = 4\nlr = 0.05\nseed = 3\nsteps = 5\n"

enum { MICRO = 4 };

static dt_session *open_with(const char *homes, const char *optimizer)
{
    char text[1024];
    dt_session *s = NULL;
    dt_err err = {0};
    snprintf(text, sizeof text,
        NETWORK DATA TRAIN "optimizer = %s\nmomentum = %s\n"
                           "[memory.layers]\n%s",
        optimizer, strcmp(optimizer, "sgd") == 0 ? "0.9" : "0", homes);
    assert_ok(dt_session_open(&s, cli_file("homes.ini", text), NULL, 0, &err), &err);
    return s;
}

static void refused(const char *homes, const char *says)
{
    char text[1024];
    dt_session *s = NULL;
    dt_err err = {0};
    snprintf(text, sizeof text, NETWORK DATA TRAIN "[memory.layers]\n%s", homes);
    assert_fails(
        dt_session_open(&s, cli_file("homes.ini", text), NULL, 0, &err), DT_E_CONFIG, &err, says);
    dt_session_close(s);
}

static const dt_plan *plan(dt_session *s, dt_program_kind kind)
{
    const dt_planned *p = NULL;
    dt_err err = {0};
    assert_ok(dti_session_plan(s, kind, MICRO, &p, &err), &err);
    return p->plan;
}

static void what_no_tensor_is_called_is_refused(void **state)
{
    (void)state;
    refused("*.momets = home host\n", "matches no parameter, gradient or moments");
    refused("b.running_mean.moments = home host\n", "matches no parameter");
    refused("c = home host\n", "matches no parameter"); /* a layer is no tensor */
    refused("c.weight = home moon\n", "write home device, home host or home disk");
    refused("c.weight = home\n", "write home device, home host or home disk");
    refused("c.weight = home host zvc\n", "write home device, home host or home disk");
    refused("c.weight = house host\n", "must be one of keep, offload, recompute, encode, home");
}

/* Where each tensor of a map lives, by its name in [memory.layers]. */
static dt_tier home_of(const dt_session *s, const char *name)
{
    char is[DT_HOME_NAME_BYTES];
    for (size_t i = 0; i < s->plans->map->n; i++)
        if (strcmp(dt_home_name(&s->plans->map->home[i], is), name) == 0)
            return s->plans->map->home[i].tier;
    fail_msg("no tensor '%s'", name);
    return DT_AT_DEVICE;
}

static void the_last_line_that_matches_holds(void **state)
{
    (void)state;
    dt_session *s = open_with(
        "* = home disk\n*.weight = home host\nf.* = home device\nf.bias.moments = home host\n",
        "sgd");
    (void)plan(s, DT_PROGRAM_FIRST);
    assert_int_equal(home_of(s, "c.weight"), DT_TIER_HOST);
    assert_int_equal(home_of(s, "c.bias"), DT_TIER_DISK);
    assert_int_equal(home_of(s, "c.weight.gradient"), DT_TIER_DISK);
    assert_int_equal(home_of(s, "c.weight.moments"), DT_TIER_DISK);
    assert_int_equal(home_of(s, "b.running_var"), DT_TIER_DISK);
    assert_int_equal(home_of(s, "b.running_var.pending"), DT_TIER_DISK);
    assert_int_equal(home_of(s, "f.weight"), DT_AT_DEVICE);
    assert_int_equal(home_of(s, "f.bias.moments"), DT_TIER_HOST);
    assert_int_equal(home_of(s, "metrics"), DT_AT_DEVICE);
    dt_session_close(s);
}

/* Only updates touch them, so that only these bring them to the device. */
static void moments_come_to_the_device_for_their_updates(void **state)
{
    (void)state;
    dt_session *s = open_with("*.moments = home host\n", "adamw"), *all = open_with("", "adamw");
    const dt_plan *first = plan(s, DT_PROGRAM_FIRST), *update = plan(s, DT_PROGRAM_UPDATE);
    const dt_plan *kept = plan(all, DT_PROGRAM_FIRST);
    uint64_t moments = 0;
    for (size_t i = 0; i < s->plans->map->n; i++) {
        const dt_home *h = &s->plans->map->home[i];
        const bool is = h->role == DT_ROLE_OPTIMIZER;
        moments += is ? dt_align_up(h->bytes, DT_ALIGN) : 0;
        assert_int_equal(dt_rows_of(first, DT_ROW_PLACE, h->name), 0);
        assert_int_equal(dt_rows_of(update, DT_ROW_COPY_IN, h->name), is);
        assert_int_equal(dt_rows_of(update, DT_ROW_COPY_OUT, h->name), is);
    }
    assert_true(moments > 0);
    assert_int_equal(update->tier_peak[DT_TIER_HOST], moments);
    assert_int_equal(update->out_bytes, update->in_bytes);
    assert_int_equal(kept->peak - first->peak, moments);
    assert_int_equal(first->peak - first->persistent, kept->peak - kept->persistent);
    dt_session_close(s);
    dt_session_close(all);
}

static void weights_come_for_each_layer_and_gradients_leave(void **state)
{
    (void)state;
    dt_session *s = open_with("*.weight = home host\n*.gradient = home disk\n", "sgd");
    const dt_plan *first = plan(s, DT_PROGRAM_FIRST), *again = plan(s, DT_PROGRAM_AGAIN);
    const dt_plan *update = plan(s, DT_PROGRAM_UPDATE);
    assert_int_equal(dt_rows_of(first, DT_ROW_COPY_IN, "f.weight"), 2); /* forward and backward */
    assert_int_equal(dt_rows_of(first, DT_ROW_COPY_OUT, "f.weight"), 0);
    assert_int_equal(dt_rows_of(first, DT_ROW_COPY_IN, "g.f.weight"), 0); /* all of it is written */
    assert_int_equal(dt_rows_of(first, DT_ROW_COPY_OUT, "g.f.weight"), 1);
    assert_int_equal(dt_rows_of(again, DT_ROW_COPY_IN, "g.f.weight"), 1); /* and is added to */
    assert_int_equal(dt_rows_of(again, DT_ROW_COPY_OUT, "g.f.weight"), 1);
    assert_int_equal(dt_rows_of(update, DT_ROW_COPY_IN, "g.f.weight"), 1);
    assert_int_equal(dt_rows_of(update, DT_ROW_COPY_OUT, "g.f.weight"), 0);
    assert_int_equal(dt_rows_of(update, DT_ROW_COPY_OUT, "f.weight"), 1);
    assert_true(update->tier_peak[DT_TIER_HOST] > 0 && update->tier_peak[DT_TIER_DISK] > 0);
    dt_session_close(s);
}

/* Bytes under way before their ops, at most @ahead: what is placed and not used yet. */
static void copies_come_ahead_by_bytes(void **state)
{
    (void)state;
    static const char text[] = NETWORK DATA TRAIN "[memory]\nahead = %s\n"
                                                  "[memory.layers]\n* = home disk\n";
    uint64_t peak[2];
    for (int i = 0; i < 2; i++) {
        char ini[1024];
        dt_session *s = NULL;
        dt_err err = {0};
        snprintf(ini, sizeof ini, text, i == 0 ? "0" : "1MiB");
        assert_ok(dt_session_open(&s, cli_file("homes.ini", ini), NULL, 0, &err), &err);
        const dt_plan *p = plan(s, DT_PROGRAM_UPDATE);
        int before = 0;
        for (size_t k = 0; k < p->n_row && p->row[k].kind != DT_ROW_COMPUTE; k++)
            before += p->row[k].kind == DT_ROW_COPY_IN;
        peak[i] = p->peak;
        if (i == 0)
            assert_int_equal(before, 3); /* weight, gradient, momentum */
        else
            assert_true(before > 12); /* all that there are, as they are so few bytes */
        dt_session_close(s);
    }
    assert_true(peak[0] < peak[1]);
}

/* ---- runs ---- */

static void run_well(const char *dir, const char *homes, const char *sets)
{
    char ini[1024], words[1024];
    snprintf(ini, sizeof ini,
        NETWORK DATA TRAIN "[memory]\ndisk_path = .\nchecksum = on\n"
                           "[memory.layers]\n%s",
        homes);
    put_text("c.ini", ini);
    snprintf(words, sizeof words, "c.ini --set run.dir=%s %s", dir, sets);
    ran r = cli_run(words, NULL);
    assert_code(&r, 0);
    cli_done(&r);
}

static char *left_by(const char *dir, size_t *n)
{
    char below[64], *text;
    dt_err err = {0};
    snprintf(below, sizeof below, "%s/checkpoints/model.safetensors", dir);
    assert_ok(dt_read_file(&text, n, in_workspace(below), 1 << 24, DT_E_DATA, &err), &err);
    return text;
}

/* A run that leaves the bits of @want. */
static void same_bits(const char *homes, const char *sets, const char *want, size_t n)
{
    size_t m;
    run_well("away", homes, sets);
    char *got = left_by("away", &m);
    if (n != m || memcmp(want, got, n) != 0)
        fail_msg("%s with %s: other bits", sets, homes);
    dt_free(got);
    remove_all("away");
}

/* Planned equals measured on every tier, or the run fails. */
static void the_bits_are_the_same_wherever_they_live(void **state)
{
    NEED_BINARY();
    static const char *const homes[] = {"*.moments = home host\n", "* = home host\n",
        "* = home disk\n", "*.weight = home disk\n*.gradient = home host\n*.moments = home disk\n"};
    static const char *const ways[] = {"--set train.momentum=0.9",
        "--set train.momentum=0 --set memory.policy=vdnn_all --set memory.copy_threads=on",
        "--set train.optimizer=adamw --set train.lr=0.01 --set train.clip=0.5",
        ("--set train.optimizer=adamw --set train.lr=0.01 --set memory.policy=chen_sqrt "
         "--set train.precision=auto --set train.micro_batch=8"),
        "--set train.optimizer=lion --set train.lr=0.001 --set train.clip=0.5"};
    for (size_t w = 0; w < DT_COUNT(ways); w++) {
        size_t n;
        run_well("kept", "", ways[w]);
        char *want = left_by("kept", &n);
        for (size_t i = 0; i < DT_COUNT(homes); i++)
            same_bits(homes[i], ways[w], want, n);
        dt_free(want);
        remove_all("kept");
    }
}

/* ---- updates on the host, and early ones ---- */

#define EARLY "--set train.micro_batch=8 --set train.update=early --set train.finite=off "

static void an_early_update_leaves_the_same_bits(void **state)
{
    NEED_BINARY();
    static const char *const ways[] = {"--set train.momentum=0.9 ",
        "--set train.optimizer=adamw --set train.lr=0.01 --set train.precision=auto ",
        "--set train.optimizer=lion --set train.lr=0.001 "};
    static const char *const how[] = {"", "--set memory.policy=chen_sqrt",
        "--set memory.policy=vdnn_all,zero_offload", "--set memory.policy=zero_infinity"};
    for (size_t w = 0; w < DT_COUNT(ways); w++) {
        char sets[512];
        size_t n;
        snprintf(sets, sizeof sets, "%s--set train.micro_batch=8", ways[w]);
        run_well("kept", "", sets);
        char *want = left_by("kept", &n);
        for (size_t i = 0; i < DT_COUNT(how); i++) {
            snprintf(sets, sizeof sets, "%s" EARLY "%s", ways[w], how[i]);
            same_bits("", sets, want, n);
        }
        dt_free(want);
        remove_all("kept");
    }
}

/* Nothing that a step can fail by goes with updates that cannot be taken back. */
static void early_updates_are_refused_where_a_step_may_fail(void **state)
{
    NEED_BINARY();
    static const struct {
        const char *sets, *says;
    } cases[] = {{"--set train.update=early --set train.finite=off", "micro_batch = batch"},
        {EARLY "--set train.clip=1", "the norm to clip by"},
        {EARLY "--set train.finite=on", "set finite = off"},
        {EARLY "--set train.dump_gradients=g", "dump_gradients"},
        {EARLY "--set memory.policy=gist_lossless --set policy.gist_lossless.density=0.3",
            "leave the policy out that packs values"}};
    put_text("c.ini", NETWORK DATA TRAIN);
    for (size_t i = 0; i < DT_COUNT(cases); i++) {
        char words[512];
        snprintf(words, sizeof words, "c.ini --set run.dir=away %s", cases[i].sets);
        ran r = cli_run(words, NULL);
        assert_code(&r, DT_E_CONFIG);
        assert_has(r.err, cases[i].says);
        cli_done(&r);
    }
}

/* A loss that is not finite is seen behind the updates. */
static void what_an_early_update_has_spoilt_is_not_saved(void **state)
{
    NEED_BINARY();
    put_text("c.ini", NETWORK DATA TRAIN);
    ran r = cli_run(
        "c.ini --set run.dir=away " EARLY "--set train.lr=1e6 --set checkpoint.every=1", NULL);
    assert_code(&r, DT_E_NONFINITE);
    assert_has(r.err, "nothing is saved");
    assert_false(is_there("away/checkpoints/model.safetensors"));
    cli_done(&r);
    remove_all("away");
}

/* ZeRO-Offload: gradients go out, the update copies nothing. */
static void an_update_on_the_host_takes_nothing_of_the_device(void **state)
{
    (void)state;
    dt_session *s = dt_session_planned(NETWORK DATA TRAIN "optimizer = adamw\n[memory]\n"
                                                          "policy = zero_offload\n");
    const dt_plan *update = plan(s, DT_PROGRAM_UPDATE), *first = plan(s, DT_PROGRAM_FIRST);
    assert_int_equal(update->out_bytes + update->in_bytes, 0);
    assert_int_equal(update->peak, update->persistent);
    assert_int_equal(dt_rows_of(first, DT_ROW_COPY_OUT, "g.f.weight"), 1);
    for (size_t i = 0; i < update->n_op; i++)
        assert_true(update->op[i].on_host);
    dt_session_close(s);
}

/* ---- updates in slices ---- */

/* A weight of more than 2 MiB. */
#define WIDE                                                                                       \
    "[model]\nimage = 16\nclasses = 3\n[fc f1]\nout = 700\n[relu r]\n[fc f2]\nout = 3\n" DATA      \
    "[train]\nbatch = 8\nlr = 0.01\nseed = 3\nsteps = 4\noptimizer = adamw\n"                      \
    "[memory]\ndisk_path = .\n"

enum { MIB = 1 << 20 };

static uint64_t home_bytes(const dt_session *s, const char *name)
{
    char is[DT_HOME_NAME_BYTES];
    for (size_t i = 0; i < s->plans->map->n; i++)
        if (strcmp(dt_home_name(&s->plans->map->home[i], is), name) == 0)
            return s->plans->map->home[i].bytes;
    fail_msg("no tensor '%s'", name);
    return 0;
}

static const dt_plan *wide_plan(dt_session *s, dt_program_kind kind)
{
    const dt_planned *p = NULL;
    dt_err err = {0};
    assert_ok(dti_session_plan(s, kind, 8, &p, &err), &err);
    return p->plan;
}

/* Bytes of rows of a kind whose tensor is called so, or is a part of what is called so. */
static uint64_t row_bytes(const dt_plan *p, dt_row_kind kind, const char *tensor, int *n)
{
    uint64_t bytes = 0;
    *n = 0;
    for (size_t i = 0; i < p->n_row; i++) {
        const dt_row *r = &p->row[i];
        if (r->kind != kind || strncmp(p->tensor[r->tensor].name, tensor, strlen(tensor)) != 0)
            continue;
        bytes += r->bytes;
        ++*n;
    }
    return bytes;
}

static void a_large_tensor_is_updated_in_slices(void **state)
{
    (void)state;
    static const char *const away[] = {"f1.weight", "m0.f1.weight", "m1.f1.weight"};
    dt_session *s = dt_session_planned(WIDE "policy = zero_infinity\nahead = 0\nslice = 1MiB\n");
    dt_session *whole = dt_session_planned(WIDE "policy = zero_infinity\nahead = 0\nslice = 0\n");
    const dt_plan *p = wide_plan(s, DT_PROGRAM_UPDATE);
    const uint64_t bytes = home_bytes(s, "f1.weight");
    int n;
    assert_true(bytes > 2 * MIB && bytes < 3 * MIB);
    for (size_t i = 0; i < DT_COUNT(away); i++) {
        assert_int_equal(row_bytes(p, DT_ROW_COPY_IN, away[i], &n), bytes);
        assert_int_equal(n, 3);
        assert_int_equal(row_bytes(p, DT_ROW_COPY_OUT, away[i], &n), bytes);
        assert_int_equal(n, 3);
    }
    assert_int_equal(row_bytes(p, DT_ROW_COPY_IN, "g.f1.weight", &n), bytes);
    assert_int_equal(p->peak - p->persistent, 4 * MIB); /* with its gradient and two moments */
    assert_int_equal(wide_plan(whole, DT_PROGRAM_UPDATE)->peak - p->persistent, 4 * bytes);
    assert_int_equal(p->in_bytes, wide_plan(whole, DT_PROGRAM_UPDATE)->in_bytes);
    dt_session_close(s);
    dt_session_close(whole);
}

/* The host's slots are cut where nothing reaches into them; a parameter that is on the device
 * anyway is updated there slice by slice. */
static void slices_go_with_early_updates_and_every_home(void **state)
{
    NEED_BINARY();
    static const char *const keep[] = {"", "--set train.clip=0.01"};
    static const struct {
        size_t keep;
        const char *sets;
    } ways[] = {{0, "--set memory.policy=zero_infinity --set memory.checksum=on"},
        {0, "--set memory.policy=zero_infinity --set policy.zero_infinity.states=host"},
        {0, "--set memory.policy=zero_infinity --set policy.zero_infinity.parameters=device"},
        {0, "--set memory.policy=zero_infinity --set train.update=early --set train.finite=off"},
        {0, "--set memory.policy=zero_infinity,zero_offload"},
        {1, "--set memory.policy=zero_infinity --set train.update=early --set "
            "memory.generations=2 --set memory.checksum=on"}};
    put_text("c.ini", WIDE);
    for (size_t k = 0; k < DT_COUNT(keep); k++) {
        char words[512];
        size_t n, m;
        snprintf(words, sizeof words, "c.ini --set run.dir=kept %s", keep[k]);
        ran r = cli_run(words, NULL);
        assert_code(&r, 0);
        cli_done(&r);
        char *want = left_by("kept", &n);
        for (size_t i = 0; i < DT_COUNT(ways); i++) {
            if (ways[i].keep != k)
                continue;
            snprintf(words, sizeof words, "c.ini --set run.dir=away --set memory.slice=1MiB %s %s",
                keep[k], ways[i].sets);
            r = cli_run(words, NULL);
            assert_code(&r, 0);
            cli_done(&r);
            char *got = left_by("away", &m);
            if (n != m || memcmp(want, got, n) != 0)
                fail_msg("%s: other bits", ways[i].sets);
            dt_free(got);
            remove_all("away");
        }
        dt_free(want);
        remove_all("kept");
    }
}

/* ---- auto, compare and what is suggested ---- */

/* What auto takes under a budget; its list goes to @list. */
static dt_need auto_takes(uint64_t budget, const char *more, char list[DT_POLICY_LIST])
{
    char text[1024];
    snprintf(text, sizeof text,
        NETWORK DATA TRAIN "momentum = 0.9\n[memory]\npolicy = auto\ndevice_budget = %llu\n%s"
                           "[policy.auto]\nmoves = 4\n",
        (unsigned long long)budget, more);
    dt_session *s = dt_session_planned(text);
    const dt_need need = dt_plan_set_need(s->plans);
    snprintf(list, DT_POLICY_LIST, "%s", s->plans->list);
    dt_session_close(s);
    return need;
}

/* A policy of values plans whatever lives elsewhere, before and behind the one that says so. */
static void every_policy_plans_with_homes(void **state)
{
    (void)state;
    size_t n;
    const dt_policy *const *all = dt_policy_all(&n);
    for (size_t i = 0; i < n; i++)
        for (int k = 0; k < 2 && (all[i]->home == NULL || all[i]->says_home != NULL); k++) {
            if (all[i]->solver && dt_solver_name() == NULL)
                continue;
            char text[1024];
            snprintf(text, sizeof text,
                NETWORK DATA TRAIN "momentum = 0.9\n[memory]\ndevice_budget = 60KiB\n"
                                   "policy = %s%s%s\n",
                k == 0 ? all[i]->name : "zero_offload", k == 0 ? ",zero_infinity" : ",",
                k == 0 ? "" : all[i]->name);
            dt_session *s = dt_session_planned(text);
            const dt_need need = dt_plan_set_need(s->plans);
            assert_true(k == 0 ? need.tier[DT_TIER_DISK] > 0 : need.tier[DT_TIER_HOST] > 0);
            dt_session_close(s);
        }
}

/* It goes by values first, then by the host, then by the disk, if that was named. */
static void auto_takes_homes_where_nothing_else_fits(void **state)
{
    NEED_BINARY();
    dt_take_turns(0, 4); /* six plans by auto */
    char list[DT_POLICY_LIST], sets[256];
    const uint64_t alone = auto_takes(1, "host_budget = 1\n", list).device;
    assert_string_equal(list, "auto");
    (void)auto_takes(alone, "", list);
    assert_string_equal(list, "auto");
    const dt_need host = auto_takes(alone - 1, "", list);
    assert_string_equal(list, "auto,zero_offload");
    assert_true(host.device < alone && host.tier[DT_TIER_HOST] > 0 && host.tier[DT_TIER_DISK] == 0);
    const dt_need disk = auto_takes(alone - 1, "host_budget = 1KiB\ndisk_path = .\n", list);
    assert_string_equal(list, "auto,zero_infinity");
    assert_true(
        disk.device < alone && disk.tier[DT_TIER_HOST] <= 1024 && disk.tier[DT_TIER_DISK] > 0);
    (void)auto_takes(alone - 1, "host_budget = 1KiB\n", list); /* nobody named a disk */
    assert_string_equal(list, "auto");
    size_t n;
    run_well("kept", "", "--set train.momentum=0.9");
    char *want = left_by("kept", &n);
    snprintf(sets, sizeof sets,
        "--set train.momentum=0.9 --set memory.policy=auto --set memory.host_budget=1KiB "
        "--set memory.device_budget=%llu",
        (unsigned long long)alone - 1);
    same_bits("", sets, want, n);
    dt_free(want);
    remove_all("kept");
}

/* The host is the processor's memory: where values are to go to the disk, so do homes, unless it is
 * said how much of the host they may take. */
static void auto_spares_the_host_where_the_disk_is_named(void **state)
{
    (void)state;
    dt_take_turns(1, 4); /* three plans by auto */
    char list[DT_POLICY_LIST];
    const uint64_t alone = auto_takes(1, "tier = disk\n", list).device;
    assert_string_equal(list, "auto");
    const dt_need disk = auto_takes(alone - 1, "tier = disk\n", list);
    assert_string_equal(list, "auto,zero_infinity");
    assert_true(disk.device < alone && disk.tier[DT_TIER_HOST] == 0 && disk.tier[DT_TIER_DISK] > 0);
    const dt_need host = auto_takes(alone - 1, "tier = disk\nhost_budget = 1MiB\n", list);
    assert_true(host.device < alone && host.tier[DT_TIER_HOST] > 0);
}

/* Under swapadvisor; seconds of a step in *seconds. */
static dt_need swapped(uint64_t budget, const char *weights, uint64_t *at_home, double *seconds)
{
    char text[1024];
    dt_prediction of = {0};
    dt_err err = {0};
    snprintf(text, sizeof text,
        WIDE "policy = swapadvisor\ndevice_budget = %llu\n"
             "[policy.swapadvisor]\nleast = 0\nsamples = 40\nweights = %s\n",
        (unsigned long long)budget, weights);
    dt_session *s = dt_session_planned(text);
    const dt_need need = dt_plan_set_need(s->plans);
    *at_home = s->plans->map->tier_bytes[DT_TIER_HOST];
    assert_string_equal(s->plans->list, "swapadvisor");
    assert_ok(dt_plan_set_predict(s->plans, &of, &err), &err);
    *seconds = of.seconds;
    dt_session_close(s);
    return need;
}

/* All weights from some bytes on, or none, or by a gene each, whichever makes the fastest run that
 * fits. The update wants all of the large weight at once, so not much can be saved. */
enum { LESS = 64 << 10 };

static void swapadvisor_searches_where_weights_live(void **state)
{
    (void)state;
    static const char *const fixed[] = {"search\nweights_samples = 0", "host\nweights_from = 1MiB",
        "host\nweights_from = 64KiB", "host\nweights_from = 1"};
    uint64_t none, some;
    double alone, least, seconds;
    const uint64_t whole = swapped(UINT64_C(1) << 40, "off", &none, &alone).device;
    const dt_need off = swapped(whole - LESS, "off", &none, &alone);
    assert_true(off.device > whole - LESS && none == 0); /* or there was nothing to search */
    assert_true(swapped(whole - LESS, "search", &some, &least).device <= whole - LESS && some > 0);
    for (size_t i = 0; i < DT_COUNT(fixed); i++)
        if (swapped(whole - LESS, fixed[i], &some, &seconds).device <= whole - LESS)
            assert_true(least <= seconds);
    assert_true(swapped(whole, "search", &some, &seconds).device <= whole);
    assert_true(some == 0 && seconds <= least); /* nothing has to leave, so nothing does */
}

static void no_bit_changes_by_weights_that_are_searched(void **state)
{
    NEED_BINARY();
    size_t n;
    run_well("kept", "", "--set train.momentum=0.9");
    char *want = left_by("kept", &n);
    same_bits("",
        "--set train.momentum=0.9 --set memory.policy=swapadvisor --set policy.swapadvisor.least=0 "
        "--set policy.swapadvisor.samples=40 --set policy.swapadvisor.weights=host "
        "--set memory.device_budget=1MiB",
        want, n);
    dt_free(want);
    remove_all("kept");
}

/* Bytes that what lives on the disk would take on the host, and those of the largest. */
static uint64_t away(const dt_map *m, uint64_t *most)
{
    uint64_t all = 0;
    *most = 0;
    for (size_t i = 0; i < m->n; i++) {
        const uint64_t bytes = dt_align_up(m->home[i].bytes, DT_ALIGN);
        if (m->home[i].tier != DT_TIER_DISK)
            continue;
        all += bytes;
        *most = bytes > *most ? bytes : *most;
    }
    return all;
}

/* Each budget of the host is kept, and used but for less than the largest tensor, beside what moves
 * there within a step; the rest is on the disk; and no bit changes. */
static void the_host_takes_what_its_budget_has_room_for(void **state)
{
    NEED_BINARY();
    static const char *const beside[] = {"zero_infinity", "vdnn_all,zero_infinity"};
    size_t n;
    run_well("kept", "", "--set train.momentum=0.9");
    char *want = left_by("kept", &n);
    for (size_t k = 0; k < 4 * DT_COUNT(beside); k++) {
        char text[1024], sets[256];
        const char *policy = beside[k / 4];
        uint64_t most;
        snprintf(text, sizeof text, NETWORK DATA TRAIN "momentum = 0.9\n[memory]\npolicy = %s\n",
            policy);
        dt_session *s = dt_session_planned(text);
        const dt_need far = dt_plan_set_need(s->plans);
        const uint64_t budget =
            far.tier[DT_TIER_HOST] + away(s->plans->map, &most) * (k % 4 + 1) / 4;
        dt_session_close(s);
        snprintf(text, sizeof text,
            NETWORK DATA TRAIN "momentum = 0.9\n[memory]\npolicy = %s\nhost_budget = %llu\n",
            policy, (unsigned long long)budget);
        s = dt_session_planned(text);
        const dt_need need = dt_plan_set_need(s->plans);
        dt_session_close(s);
        assert_true(need.tier[DT_TIER_HOST] <= budget && need.tier[DT_TIER_HOST] + most > budget);
        assert_true(k % 4 == 3 ? need.tier[DT_TIER_DISK] == 0
                               : need.tier[DT_TIER_DISK] > 0 &&
                                     need.tier[DT_TIER_DISK] < far.tier[DT_TIER_DISK]);
        snprintf(sets, sizeof sets,
            "--set train.momentum=0.9 --set memory.policy=%s --set memory.host_budget=%llu", policy,
            (unsigned long long)budget);
        same_bits("", sets, want, n);
        if (k % 4 != 1)
            continue;
        char words[512]; /* and by the plans of a file */
        snprintf(words, sizeof words, "plan c.ini --text plans.txt %s", sets);
        ran r = cli_run(words, NULL);
        assert_code(&r, 0);
        cli_done(&r);
        strcat(sets, " --plan plans.txt");
        same_bits("", sets, want, n);
    }
    dt_free(want);
    remove_all("kept");
}

static void compare_says_what_lives_where(void **state)
{
    NEED_BINARY();
    put_text("c.ini", NETWORK DATA TRAIN);
    ran r = cli_run(
        "compare c.ini --policies zero_offload;zero_infinity --set memory.simulate=p100", NULL);
    assert_code(&r, 0);
    const char *offload = strstr(r.out, " zero_offload "), *all = strstr(r.out, " zero_infinity ");
    assert_true(offload != NULL && all != NULL);
    assert_non_null(strstr(offload, "iB live on the host\n"));
    assert_non_null(strstr(all, "iB live on the disk\n"));
    cli_done(&r);
}

/* A home that does not fit names what is too small and the least that would do; and what is
 * suggested instead, fits. */
static void homes_that_do_not_fit_are_refused_with_what_would(void **state)
{
    NEED_BINARY();
    static const struct {
        const char *sets, *says;
    } cases[] = {
        {"--set memory.policy=zero_offload --set memory.host_budget=1KiB", "the host needs"},
        {"--set memory.policy=zero_infinity --set memory.disk_budget=1KiB", "the disk needs"}};
    put_text("c.ini", NETWORK DATA TRAIN);
    for (size_t i = 0; i < DT_COUNT(cases); i++) {
        char words[512];
        snprintf(words, sizeof words, "c.ini --set run.dir=away %s", cases[i].sets);
        ran r = cli_run(words, NULL);
        assert_code(&r, DT_E_BUDGET);
        assert_has(r.err, cases[i].says);
        assert_has(r.err, "(--set)");
        assert_has_not(
            r.err, "the least found for this batch is"); /* of the device: not it lacks */
        assert_has(r.err, "fits if: [memory] policy = auto");
        assert_has(r.err, "fits if: [memory] policy = keep_all");
        assert_false(is_there("away"));
        cli_done(&r);
    }
}

/* Convolutions enough that it pays to run segments of them again. */
static const char *deep(const char *policies)
{
    static char text[2048];
    size_t at = (size_t)snprintf(text, sizeof text, "[model]\nimage = 16\nclasses = 3\n");
    for (int i = 0; i < 12; i++)
        at += (size_t)snprintf(text + at, sizeof text - at,
            "[conv c%d]\nout = 8\nkernel = 3\npad = 1\n[relu r%d]\n", i, i);
    snprintf(text + at, sizeof text - at,
        "[fc f]\nout = 3\n" DATA "[train]\nbatch = 4\noptimizer = adamw\n[memory]\n"
        "policy = %s\n",
        policies);
    return text;
}

static uint64_t device_of(const char *policies)
{
    dt_session *s = dt_session_planned(deep(policies));
    const uint64_t peak = dt_plan_set_peak(s->plans);
    dt_session_close(s);
    return peak;
}

/* Where neither homes nor a policy of values is enough, both together are named. */
static void homes_are_suggested_with_a_policy_of_values(void **state)
{
    NEED_BINARY();
    const uint64_t pair = device_of("zero_infinity,chen_sqrt");
    char words[512];
    assert_true(pair < device_of("zero_infinity") && pair < device_of("chen_sqrt"));
    put_text("c.ini", deep("keep_all"));
    snprintf(words, sizeof words, "c.ini --set run.dir=away --set memory.device_budget=%llu",
        (unsigned long long)pair);
    ran r = cli_run(words, NULL);
    assert_code(&r, DT_E_BUDGET);
    const char *fits = strstr(r.err, "fits if: [memory] policy = zero_");
    assert_non_null(fits);
    const size_t name = strlen("fits if: [memory] policy = ");
    const size_t word = strcspn(fits + name, " \n");
    assert_non_null(memchr(fits + name, ',', word - 1)); /* not the one behind the list */
    assert_has(r.err, "the host is the same memory here");
    cli_done(&r);
}

/* Six large layers, of which a window of memory.ahead holds all. */
static const char *layers_on_the_disk(const char *policy, const char *memory)
{
    static char text[2048];
    size_t at = (size_t)snprintf(text, sizeof text, "[model]\nimage = 8\nclasses = 3\n");
    for (int i = 0; i < 6; i++)
        at += (size_t)snprintf(text + at, sizeof text - at, "[fc f%d]\nout = 400\n", i);
    snprintf(text + at, sizeof text - at,
        "[fc f]\nout = 3\n" DATA "[train]\nbatch = 8\nlr = 0.01\nseed = 3\nsteps = 4\n"
        "optimizer = adamw\n[memory]\ntier = disk\ndisk_path = .\npolicy = %s\n%s",
        policy, memory);
    return text;
}

static dt_need needs(const char *text)
{
    dt_session *s = dt_session_planned(text);
    const dt_need need = dt_plan_set_need(s->plans);
    dt_session_close(s);
    return need;
}

/* As much as memory.ahead allows where it fits, and down to nothing where that is what fits; the
 * same for policies that choose by what plans take. */
static void less_comes_ahead_where_the_budget_wants_it(void **state)
{
    NEED_BINARY();
    static const char *const policies[] = {"zero_infinity", "auto", "zero_infinity,chen_sqrt"};
    const uint64_t wide = needs(layers_on_the_disk("zero_infinity", "")).device;
    const uint64_t tight = needs(layers_on_the_disk("zero_infinity", "ahead = 0\n")).device;
    assert_true(tight < wide / 2);
    for (uint64_t part = 0; part <= 3; part++)
        for (size_t i = 0; i < DT_COUNT(policies); i++) {
            char memory[128];
            const uint64_t budget = tight + (wide - tight) * part / 3;
            snprintf(memory, sizeof memory, "device_budget = %llu\n", (unsigned long long)budget);
            const dt_need need = needs(layers_on_the_disk(policies[i], memory));
            if (need.device > budget)
                fail_msg("%s takes %llu bytes of %llu", policies[i],
                    (unsigned long long)need.device, (unsigned long long)budget);
            if (i == 0 && part == 3)
                assert_true(need.device == wide);
        }
    size_t n;
    char words[256];
    put_text("c.ini", layers_on_the_disk("zero_infinity", ""));
    ran r = cli_run("c.ini --set run.dir=wide", NULL);
    assert_code(&r, 0);
    cli_done(&r);
    char *want = left_by("wide", &n);
    snprintf(words, sizeof words, "c.ini --set run.dir=tight --set memory.device_budget=%llu",
        (unsigned long long)tight);
    r = cli_run(words, NULL);
    assert_code(&r, 0);
    cli_done(&r);
    size_t m;
    char *got = left_by("tight", &m);
    assert_true(n == m && memcmp(want, got, n) == 0);
    dt_free(got);
    dt_free(want);
    remove_all("wide");
    remove_all("tight");
}

/* What is suggested beside the disk puts nothing on the host, where that makes no process smaller
 * or there is no room; and what needs the least of the device fits there, too. */
static void nothing_is_suggested_that_the_host_has_no_room_for(void **state)
{
    NEED_BINARY();
    static const char *const sets[] = {"--set memory.tier=disk",
        "--set memory.tier=disk --set memory.host_budget=1", "--set memory.host_budget=1"};
    const uint64_t pair = device_of("zero_infinity,chen_sqrt");
    put_text("c.ini", deep("keep_all"));
    for (size_t i = 0; i < DT_COUNT(sets); i++)
        for (uint64_t part = 1; part <= 2; part++) {
            char words[512];
            snprintf(words, sizeof words,
                "c.ini --set run.dir=away --set memory.device_budget=%llu %s",
                (unsigned long long)(pair / part), sets[i]);
            ran r = cli_run(words, NULL);
            assert_code(&r, DT_E_BUDGET);
            assert_has_not(r.err, "zero_offload");
            assert_has_not(r.err, "on the host");
            assert_has_not(r.err, "memory.tier = disk does");
            cli_done(&r);
        }
}

/* moDNN's bound for VGG-16 of 1,000 classes, by single pictures: 1,080 MiB. */
static void vgg16_by_single_pictures_is_below_modnns_bound(void **state)
{
    (void)state;
    dt_session *s =
        dt_session_planned("[model]\nname = vgg16\nclasses = 1000\n[data]\nsamples = 640\n"
                           "[train]\nbatch = 64\nmicro_batch = 1\nmomentum = 0\n"
                           "[memory]\nalgorithms = small\n[memory.layers]\n* = home host\n");
    const double mib = (double)dt_plan_set_peak(s->plans) / (1 << 20);
    print_message("%.2f MiB\n", mib);
    assert_true(mib <= 1.02 * 1080);
    dt_session_close(s);
}

/* vDNN's VGG-416: 80 more convolutions in each of VGG-16's five groups. */
static char *vgg416(void)
{
    static const int layers[] = {82, 82, 83, 83, 83}, width[] = {64, 128, 256, 512, 512};
    char *text = NULL;
    size_t bytes;
    FILE *f = open_memstream(&text, &bytes);
    assert_non_null(f);
    fprintf(f, "[model]\nimage = 224\nclasses = 1000\n[data]\nsamples = 64\n"
               "[train]\nbatch = 32\nupdate = early\nfinite = off\n"
               "[memory]\npolicy = vdnn_all\nalgorithms = small\n"
               "[memory.layers]\n*.moments = home host\n");
    for (size_t g = 0; g < DT_COUNT(layers); g++) {
        for (int k = 0; k < layers[g]; k++)
            fprintf(f, "[conv c%zu_%d]\nout = %d\nkernel = 3\npad = 1\n[relu r%zu_%d]\n", g, k,
                width[g], g, k);
        fprintf(f, "[maxpool p%zu]\nkernel = 2\nstride = 2\n", g);
    }
    fprintf(f, "[fc f1]\nout = 4096\n[relu rf1]\n[dropout d1]\n[fc f2]\nout = 4096\n"
               "[relu rf2]\n[dropout d2]\n[fc f3]\nout = 1000\n");
    assert_int_equal(fclose(f), 0);
    return text;
}

/* The paper trains 32 pictures in 4.2 GB of the device. */
static void vgg416_trains_in_what_vdnns_paper_has(void **state)
{
    (void)state;
    char *text = vgg416();
    dt_session *s = dt_session_planned(text);
    print_message("%.3f GB\n", (double)dt_plan_set_peak(s->plans) / 1e9);
    assert_true(dt_plan_set_peak(s->plans) <= UINT64_C(4200000000));
    dt_session_close(s);
    free(text);
}

/* GPT-2, AdamW, a sequence of 1,024 tokens: besides activations the device holds 4 bytes a
 * parameter, and never more than one gradient, of which the tied embedding's is the largest. */
static void gpt2_keeps_parameters_and_one_gradient_on_the_device(void **state)
{
    (void)state;
    enum { PARAMETERS = 124439808, EMBEDDING = 50257 * 768 };
    dt_session *s =
        dt_session_planned("[model]\nname = gpt2\n[data]\nsource = synthetic\nsamples = 8\n"
                           "[train]\nbatch = 1\noptimizer = adamw\nlr = 1e-4\n"
                           "[memory]\npolicy = zero_offload,chen_sqrt\n");
    uint64_t live = 0, most = 0;
    const dt_planned *p = NULL;
    dt_err err = {0};
    assert_ok(dti_session_plan(s, DT_PROGRAM_FIRST, 1, &p, &err), &err);
    for (size_t i = 0; i < p->plan->n_row; i++) {
        const dt_row *r = &p->plan->row[i];
        const bool counts =
            r->tensor >= 0 && (p->plan->tensor[r->tensor].role == DT_ROLE_GRADIENTS ||
                                  p->plan->tensor[r->tensor].role == DT_ROLE_OPTIMIZER);
        live += counts && r->kind == DT_ROW_PLACE && r->over < 0 ? r->bytes : 0;
        live -= counts && r->kind == DT_ROW_RELEASE ? r->bytes : 0;
        most = live > most ? live : most;
    }
    print_message("%.1f MiB of gradients at once\n", (double)most / (1 << 20));
    assert_true(p->plan->persistent <= (uint64_t)4 * PARAMETERS + (1 << 20));
    assert_true(most <= (uint64_t)4 * EMBEDDING + (1 << 16));
    dt_session_close(s);
}

DT_TEST_GROUP(homes)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_no_tensor_is_called_is_refused),
        cmocka_unit_test(the_last_line_that_matches_holds),
        cmocka_unit_test(moments_come_to_the_device_for_their_updates),
        cmocka_unit_test(weights_come_for_each_layer_and_gradients_leave),
        cmocka_unit_test(copies_come_ahead_by_bytes),
        cmocka_unit_test(the_bits_are_the_same_wherever_they_live),
        cmocka_unit_test(an_early_update_leaves_the_same_bits),
        cmocka_unit_test(early_updates_are_refused_where_a_step_may_fail),
        cmocka_unit_test(what_an_early_update_has_spoilt_is_not_saved),
        cmocka_unit_test(an_update_on_the_host_takes_nothing_of_the_device),
        cmocka_unit_test(a_large_tensor_is_updated_in_slices),
        cmocka_unit_test(slices_go_with_early_updates_and_every_home),
        cmocka_unit_test(every_policy_plans_with_homes),
        cmocka_unit_test(swapadvisor_searches_where_weights_live),
        cmocka_unit_test(no_bit_changes_by_weights_that_are_searched),
        cmocka_unit_test(auto_takes_homes_where_nothing_else_fits),
        cmocka_unit_test(auto_spares_the_host_where_the_disk_is_named),
        cmocka_unit_test(less_comes_ahead_where_the_budget_wants_it),
        cmocka_unit_test(nothing_is_suggested_that_the_host_has_no_room_for),
        cmocka_unit_test(the_host_takes_what_its_budget_has_room_for),
        cmocka_unit_test(compare_says_what_lives_where),
        cmocka_unit_test(homes_that_do_not_fit_are_refused_with_what_would),
        cmocka_unit_test(homes_are_suggested_with_a_policy_of_values),
        cmocka_unit_test(vgg16_by_single_pictures_is_below_modnns_bound),
        cmocka_unit_test(vgg416_trains_in_what_vdnns_paper_has),
        cmocka_unit_test(gpt2_keeps_parameters_and_one_gradient_on_the_device),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
