/* dnntrain profile: train some steps, and see how many values of the activations that wait for
 * backward are not zero. Planning makes room for packed tensors by that. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/alloc.h"
#include "engine/base/io.h"
#include "tools/args.h"
#include "session/budget.h"
#include "session/feeds.h"
#include "session/rig.h"
#include "session/version.h"

enum { MOST_STEPS = 1000000 };

/* An activation that waits, and the largest share of it seen so far; below 0: not seen. */
typedef struct waiting {
    char name[DT_TENSOR_NAME_BYTES];
    double share;
} waiting;

typedef struct profiling {
    dt_session *s;
    dt_feeds feeds;
    dt_rig rig;
    size_t n;
    waiting *tensor;
    int64_t steps;
    double margin;
} profiling;

static bool waits(const dt_program *p, size_t tensor)
{
    dt_gap g;
    for (int32_t i = 0; dt_gap_next(p, (int32_t)tensor, &i, &g);)
        if (g.crosses_loss)
            return p->tensor[tensor].role == DT_ROLE_ACTIVATIONS && dt_packs(&p->tensor[tensor]);
    return false;
}

static dt_status list_waiting(profiling *p, dt_program *first, dt_err *err)
{
    DT_CHECK(dt_program_index(first, err));
    p->tensor = dt_alloc(first->n_tensor, sizeof *p->tensor);
    if (p->tensor == NULL)
        return DT_FAIL(err, DT_E_NOMEM, "no memory for a profile");
    for (size_t t = 0; t < first->n_tensor; t++)
        if (waits(first, t)) {
            memcpy(p->tensor[p->n].name, first->tensor[t].name, sizeof p->tensor->name);
            p->tensor[p->n++].share = -1;
        }
    return DT_OK;
}

/* What waits under keep_all: other policies let no more wait. */
static dt_status find_waiting(profiling *p, dt_err *err)
{
    const dt_planned *first;
    dt_plan_set *plans = NULL;
    dt_policies keep_all;
    dt_plan_request r = dt_session_request(p->s);
    r.policies = &keep_all;
    r.fates = NULL;
    dt_status st = dt_policies_open(&keep_all, "keep_all", NULL, err);
    if (st == DT_OK)
        st = dt_plan_set_create(&plans, p->s, &r, err);
    if (st == DT_OK)
        st = dt_plan_set_add(plans, DT_PROGRAM_FIRST, r.micro_batch, &first, err);
    if (st == DT_OK)
        st = list_waiting(p, first->program, err);
    dt_plan_set_destroy(plans);
    dt_policies_close(&keep_all);
    return st;
}

/* As codecs see it: zero is the word without a bit. */
static double share_of(const uint32_t *word, int64_t n)
{
    int64_t some = 0;
#pragma omp parallel for schedule(static) reduction(+ : some)
    for (int64_t i = 0; i < n; i++)
        some += word[i] != 0;
    return n > 0 ? (double)some / (double)n : 0;
}

static void look(void *self, const dt_plan_tensor *t, const void *bytes)
{
    profiling *p = self;
    if (t->role != DT_ROLE_ACTIVATIONS)
        return;
    for (size_t i = 0; i < p->n; i++)
        if (strcmp(p->tensor[i].name, t->name) == 0) {
            const double share = share_of(bytes, (int64_t)(t->bytes / sizeof(uint32_t)));
            p->tensor[i].share = share > p->tensor[i].share ? share : p->tensor[i].share;
            return;
        }
}

static dt_status tell_step(void *self, const dt_step_report *r, dt_err *err)
{
    (void)self;
    (void)err;
    if (r->step == 1 || r->step == r->steps)
        fprintf(stderr, "dnntrain: step %" PRId64 " of %" PRId64 ", loss %.4f\n", r->step, r->steps,
            r->loss);
    return DT_OK;
}

static dt_status run_steps(profiling *p, dt_err *err)
{
    const dt_observer o = {.self = p, .step = tell_step};
    const dt_train_job j = {.runner = p->rig.runner,
        .map = p->s->plans->map,
        .opts = &p->s->opts.train,
        .ready = p->rig.ready,
        .n_ready = p->rig.n,
        .feed = dt_loader_feed(p->feeds.train_loader),
        .steps = p->steps,
        .steps_per_epoch = p->feeds.steps_per_epoch,
        .observer = &o};
    const dt_probe probe = {p, look};
    dt_runner_set_probe(p->rig.runner, &probe);
    const dt_status st = dt_train(&j, err);
    dt_runner_set_probe(p->rig.runner, NULL);
    return st;
}

static dt_status measure(profiling *p, dt_err *err)
{
    dt_session *s = p->s;
    DT_CHECK(dt_session_plan_run(s, false, 0, 0, err));
    DT_CHECK(dt_session_check_run(s, false, err)); /* before any data is read */
    DT_CHECK(dt_feeds_open(&p->feeds, s, err));
    DT_CHECK(dt_session_plan_run(s, false, p->feeds.last, 0, err));
    DT_CHECK(dt_plan_set_check_statistics(s->plans, err));
    DT_CHECK(dt_session_check_run(s, true, err));
    DT_CHECK(find_waiting(p, err));
    DT_CHECK(dt_rig_open(&p->rig, s, err));
    return run_steps(p, err);
}

/* Rounded up: never less room than was seen. */
static double with_margin(const profiling *p, const waiting *w)
{
    const double share = ceil((w->share + p->margin) * 1e4) / 1e4;
    return share < 1 ? share : 1;
}

static void print(const profiling *p, FILE *f)
{
    const dt_session *s = p->s;
    fprintf(f,
        "; dnntrain %s profile of %s: batch %" PRId64 ", micro-batch %" PRId64 ", %" PRId64
        " step%s from seed %" PRId64 "\n"
        "; of every activation that waits for backward the largest share of values that were not "
        "zero, and %g\n"
        "; more; to be named by memory.profile\n[density]\n",
        DT_VERSION, s->graph->name, s->opts.train.batch, s->opts.train.micro_batch, p->steps,
        p->steps == 1 ? "" : "s", s->opts.train.seed, p->margin);
    for (size_t i = 0; i < p->n; i++)
        if (p->tensor[i].share >= 0)
            fprintf(f, "%s = %.4f\n", p->tensor[i].name, with_margin(p, &p->tensor[i]));
        else
            fprintf(f, "; %s: never written as a whole\n", p->tensor[i].name);
}

static dt_status write_file(const profiling *p, const char *path, dt_err *err)
{
    char *text = NULL;
    size_t bytes = 0;
    dt_file_writer *w = NULL;
    FILE *f = open_memstream(&text, &bytes);
    if (f == NULL)
        return DT_FAIL(err, DT_E_NOMEM, "no memory to print the profile");
    print(p, f);
    dt_status st =
        fclose(f) == 0 ? DT_OK : DT_FAIL(err, DT_E_NOMEM, "no memory to print the profile");
    if (st == DT_OK)
        st = dt_writer_open(&w, path, err);
    if (st == DT_OK)
        st = dt_writer_put(w, text, bytes, err);
    if (st == DT_OK)
        st = dt_writer_commit(w, err);
    else
        dt_writer_abandon(w);
    free(text);
    return st;
}

/* A profile that is being made anew does not count, nor do evaluations. */
static dt_status open_session(profiling *p, const dt_cli *cli, dt_err *err)
{
    static const char *const ours[] = {"memory.profile=", "train.eval_every=0", "train.epochs=0"};
    char steps[64];
    const char **set = dt_alloc(cli->n_set + DT_COUNT(ours) + 1, sizeof(char *));
    if (set == NULL)
        return DT_FAIL(err, DT_E_NOMEM, "no memory for settings");
    size_t n = 0;
    for (size_t i = 0; i < cli->n_set; i++)
        set[n++] = cli->set[i];
    for (size_t i = 0; i < DT_COUNT(ours); i++)
        set[n++] = ours[i];
    snprintf(steps, sizeof steps, "train.steps=%" PRId64, p->steps);
    set[n++] = steps;
    const dt_status st = dti_cli_session(&p->s, cli->word[0], set, n, err);
    dt_free(set);
    return st;
}

static dt_status profile_config(profiling *p, const dt_cli *cli, const char *out, dt_err *err)
{
    dt_status st = open_session(p, cli, err);
    if (st == DT_OK)
        st = measure(p, err);
    if (st == DT_OK && out != NULL)
        st = write_file(p, out, err);
    else if (st == DT_OK)
        print(p, stdout);
    dt_rig_close(&p->rig);
    dt_feeds_close(&p->feeds);
    dt_free(p->tensor);
    dt_session_close(p->s);
    return st;
}

static dt_status check(
    profiling *p, const dt_cli *cli, const char *steps, const char *margin, dt_err *err)
{
    if (cli->n_word == 0)
        return DT_FAIL(err, DT_E_CONFIG, "name a CONFIG; usage: %s", dt_command_profile.usage);
    if (!dt_parse_i64(steps, &p->steps) || p->steps < 1 || p->steps > MOST_STEPS)
        return DT_FAIL(
            err, DT_E_CONFIG, "--steps %s: must be a whole number, 1..%d", steps, MOST_STEPS);
    if (!dt_parse_f64(margin, &p->margin) || !(p->margin >= 0) || !(p->margin <= 1))
        return DT_FAIL(err, DT_E_CONFIG, "--margin %s: must be a number, 0..1", margin);
    return dti_cli_check_file(cli->word[0], err);
}

static dt_status profile(const dt_command_args *a, dt_err *err)
{
    const char *steps = "20", *margin = "0.05", *out = NULL;
    const dt_flag flags[] = {
        {"--steps", "N", "of training to look at; 20 unless given", NULL, &steps},
        {"--margin", "SHARE", "added to the largest share seen; 0.05 unless given", NULL, &margin},
        {"--out", "FILE", "where to; the standard output unless given", NULL, &out},
        {NULL, NULL, NULL, NULL, NULL},
    };
    dt_cli cli;
    profiling p = {0};
    dt_status st = dti_cli_init(&cli, &dt_command_profile, a, flags, true, 1, err);
    if (st == DT_OK && !cli.help) {
        st = check(&p, &cli, steps, margin, err);
        if (st == DT_OK)
            st = profile_config(&p, &cli, out, err);
    }
    dti_cli_deinit(&cli);
    return st;
}

const dt_command dt_command_profile = {
    .name = "profile",
    .usage = "dnntrain profile CONFIG [--set s.k=v]... [--steps N] [--margin SHARE] [--out FILE]",
    .summary = "how many values of waiting activations are not zero, for memory.profile",
    .run = profile,
};
