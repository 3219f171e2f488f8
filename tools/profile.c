/* dnntrain profile: train some steps that keep all, and write down what ops, links and codecs take,
 * and how many values of the activations that wait for backward are not zero. Steps are predicted
 * by the first, and room for packed tensors is made by the second. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/alloc.h"
#include "engine/base/io.h"
#include "engine/base/memory_stream.h"
#include "session/open.h"
#include "session/version.h"
#include "tools/args.h"
#include "tools/out_file.h"
#include "tools/profile_make.h"
#include "tools/terminal.h"

enum { MOST_STEPS = 1000000 };

typedef struct profiling {
    dt_session *s;
    bool keep; /* in the user's folder */
    dt_profile_opts o;
    dt_profile found;
} profiling;

/* Shares alone, as lines for people to change. */
static void print_densities(const profiling *p, FILE *f)
{
    const dt_session *s = p->s;
    const dt_densities *d = &p->found.densities;
    fprintf(f,
        "; dnntrain %s profile of %s: batch %" PRId64 ", micro-batch %" PRId64 ", %" PRId64
        " step%s from seed %" PRId64 "\n"
        "; of every activation that waits for backward the largest share of values that were not "
        "zero, and %g\n"
        "; more; to be named by memory.profile\n[density]\n",
        dt_version(), s->graph->name, s->opts.train.batch, s->micro_batch, p->o.steps,
        p->o.steps == 1 ? "" : "s", s->opts.train.seed, p->o.margin);
    for (size_t i = 0; i < d->n; i++)
        if (d->line[i].share >= 0)
            fprintf(f, "%s = %.4f\n", d->line[i].glob, d->line[i].share);
        else
            fprintf(f, "; %s: never written as a whole\n", d->line[i].glob);
}

static dt_status text_of(const profiling *p, char **text, size_t *bytes, dt_err *err)
{
    if (p->o.timed)
        return dt_profile_text(
            text, bytes, &p->found.costs, &p->found.densities, &p->found.origin, err);
    dt_memory_stream to;
    DT_CHECK(dt_memory_open(&to, "the profile", err));
    print_densities(p, to.f);
    DT_CHECK(dt_memory_close(&to, DT_OK, err));
    *text = to.text;
    *bytes = to.n;
    return DT_OK;
}

/* What was found, in a few lines. */
static void summary(const profiling *p)
{
    const dt_costs *c = &p->found.costs;
    const dt_link *out = &c->link[DT_TIER_HOST][DT_TO_TIER];
    dti_term_say(
        "a step takes %.4f s, its rows %.4f s; %zu kinds of op; %.0f GFLOP/s and %.1f GB/s at "
        "most; %.1f GB/s to the host",
        p->found.step, p->found.rows, c->n_entry,
        c->flops[DT_WORK_MATRIX][p->s->graph->dtype] / 1e9, c->bytes / 1e9, out->rate / 1e9);
}

static dt_status give(const profiling *p, const char *path, dt_err *err)
{
    char *text = NULL;
    size_t bytes = 0;
    dt_status st = text_of(p, &text, &bytes, err);
    if (st == DT_OK && path != NULL && strcmp(path, "-") != 0)
        st = dt_write_file(path, text, bytes, err);
    else if (st == DT_OK)
        fputs(text, stdout);
    dt_free(text);
    return st;
}

static dt_status profile_config(profiling *p, const dti_cli *cli, const char *out, dt_err *err)
{
    dt_status kept = DT_OK;
    dti_profile_watch watch = {0};
    dt_status st = dti_profile_session(&p->s, cli->word[0], cli->set, cli->n_set, &p->o, err);
    if (st == DT_OK)
        st = dti_check_outputs(p->s, &out, 1, NULL, err);
    if (st == DT_OK && p->keep)
        st = dti_profile_can_keep(p->s, err);
    dti_profile_watch_begin(&watch, &p->o);
    if (st == DT_OK)
        st = dt_profile_measure(p->s, &p->o, &p->found, err);
    dti_profile_watch_end(&watch);
    if (st == DT_OK && p->o.timed)
        summary(p);
    if (st == DT_OK && p->keep)
        kept = dti_profile_keep(p->s, &p->found, err);
    if (st == DT_OK && (out != NULL || !p->keep || kept != DT_OK))
        st = give(p, out, err);
    dt_profile_deinit(&p->found);
    dt_session_close(p->s);
    return st == DT_OK ? kept : st;
}

static dt_status check(
    profiling *p, const dti_cli *cli, const char *steps, const char *margin, dt_err *err)
{
    if (cli->n_word == 0)
        return DT_FAIL(err, DT_E_CONFIG, "name a CONFIG; usage: %s", dt_command_profile.usage);
    if (!dt_parse_i64(steps, &p->o.steps) || p->o.steps < 1 || p->o.steps > MOST_STEPS)
        return DT_FAIL(
            err, DT_E_CONFIG, "--steps %s: must be a whole number, 1..%d", steps, MOST_STEPS);
    if (!dt_parse_f64(margin, &p->o.margin) || !(p->o.margin >= 0) || !(p->o.margin <= 1))
        return DT_FAIL(err, DT_E_CONFIG, "--margin %s: must be a number, 0..1", margin);
    if (p->keep && !p->o.timed)
        return DT_FAIL(err, DT_E_CONFIG,
            "--keep: a profile of --density alone is not kept; leave out one of them");
    return dti_cli_check_file(cli->word[0], err);
}

static dt_status profile(const dti_command_args *a, dt_err *err)
{
    const char *steps = "20", *margin = "0.05", *out = NULL;
    bool density = false;
    profiling p = {0};
    const dti_flag flags[] = {
        {"--density", NULL, "shares of values alone, as text", &density, NULL},
        {"--steps", "N", "of training to look at, and as many to time; 20 unless given", NULL,
            &steps},
        {"--margin", "S", "share added to the largest share seen; 0.05 unless given", NULL,
            &margin},
        {"--out", "FILE", "where to; - is the standard output, as where it is not given", NULL,
            &out},
        {"--keep", NULL, "keep it for memory.profile = auto, beside other numbers of samples",
            &p.keep, NULL},
        {NULL, NULL, NULL, NULL, NULL},
    };
    dti_cli cli;
    dt_status st = dti_cli_init(&cli, &dt_command_profile, a, flags, true, 1, err);
    p.o.timed = !density;
    if (st == DT_OK && !cli.help) {
        st = check(&p, &cli, steps, margin, err);
        if (st == DT_OK)
            st = profile_config(&p, &cli, out, err);
    }
    dti_cli_deinit(&cli);
    return st;
}

const dti_command dt_command_profile = {
    .name = "profile",
    .usage = "dnntrain profile CONFIG [--set s.k=v]... [--density|--keep] [--steps N] [--margin S] "
             "[--out FILE]",
    .summary = "what ops, links and codecs take here, and how many values are not zero, for "
               "memory.profile",
    .run = profile,
};
