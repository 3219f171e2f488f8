/* dnntrain eval: how good a network is on data it has not learned from, or what it writes. */
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/clock.h"
#include "engine/base/path.h"
#include "engine/config/options.h"
#include "session/human.h"
#include "tools/json_out.h"
#include "session/run.h"
#include "tools/of_run.h"
#include "tools/out_file.h"
#include "tools/terminal.h"

typedef struct evaluation {
    dt_run *run;
    dt_eval_report result;
    dti_terminal terminal;
    int64_t done; /* samples */
    double began, drawn;
    int64_t step;        /* after which the run saved the weights; -1: not told */
    dt_run_best best;    /* whose weights are others; step 0: none */
    const char *folder;  /* of the run */
    const char *outputs; /* file for what the network gives; NULL: none is written */
    bool random, json;
} evaluation;

/* ---- progress ---- */

static const double redraw_seconds = 0.2, line_seconds = 10;
enum { PROGRESS = 128 };

/* A part of the line, if @room columns hold it all. */
static void DT_PRINTF(3, 4) put_part(char to[PROGRESS], int room, const char *fmt, ...)
{
    char part[PROGRESS];
    const size_t n = strlen(to);
    va_list ap;
    va_start(ap, fmt);
    const int more = vsnprintf(part, sizeof part, fmt, ap);
    va_end(ap);
    if (more > 0 && more <= room - (int)n)
        memcpy(to + n, part, (size_t)more + 1);
}

/* On a terminal what fits: a line that goes on below cannot be drawn over. */
static void draw(evaluation *e)
{
    char line[PROGRESS] = "", a[DT_HUMAN_BYTES], b[DT_HUMAN_BYTES];
    const bool tty = e->terminal.tty;
    const int width = tty ? dti_terminal_width(&e->terminal, stderr) : PROGRESS;
    const int room = width < PROGRESS ? width - 1 : PROGRESS - 1;
    const int64_t all = dt_loader_feed(e->run->feeds.eval_loader)->samples;
    const double seconds = dt_seconds() - e->began, speed = (double)e->done / seconds;
    put_part(line, room, "%s of %s", dt_human_count(a, (uint64_t)e->done),
        dt_human_count(b, (uint64_t)all));
    put_part(line, room, "   %s a second", dt_human_rate(a, speed));
    put_part(line, room, "   %s left", dt_human_time(a, (double)(all - e->done) / speed));
    fprintf(stderr, "%s%s%s", tty ? "\r\033[K" : "", line, tty ? "" : "\n");
    fflush(stderr);
    e->drawn = dt_seconds();
}

static dt_status begin(void *self, const dt_run *r, dt_err *err)
{
    evaluation *e = self;
    (void)r;
    (void)err;
    e->terminal = dti_terminal_of(stderr);
    e->began = e->drawn = dt_seconds();
    return DT_OK;
}

/* Between two batches: shows how far it is, and never stops. */
static bool after_batch(void *self)
{
    evaluation *e = self;
    const int64_t all = dt_loader_feed(e->run->feeds.eval_loader)->samples;
    e->done += e->run->s->micro_batch;
    e->done = e->done < all ? e->done : all;
    if (dt_seconds() - e->drawn >= (e->terminal.tty ? redraw_seconds : line_seconds))
        draw(e);
    return false;
}

static void clear(const evaluation *e)
{
    if (e->terminal.tty)
        fputs("\r\033[K", stderr);
}

/* What a run tells besides, as it is told while training. */
static void tell_line(void *self, const char *label, const char *text)
{
    clear(self);
    fprintf(stderr, "%-9s %s\n", label, text);
}

/* ---- the pass ---- */

static dt_status pass(evaluation *e, dt_err *err)
{
    const dt_run_observer o = {.self = e, .ready = begin, .stop = after_batch, .line = tell_line};
    const dt_status st = dt_run_evaluate(e->run, &o, &e->result, err);
    clear(e);
    return st;
}

static void print(const evaluation *e)
{
    const dt_eval_report *r = &e->result;
    const bool many = !r->values && dt_graph_labels(e->run->s->graph) > 1, pixels = r->pixels;
    const char *of = !many ? "" : pixels ? " of pixels" : " of positions";
    char count[DT_HUMAN_BYTES], rate[DT_HUMAN_BYTES], best[DTI_BEST_TEXT], name[DT_CHECKPOINT_NAME];
    char loss[DT_HUMAN_BYTES], bits[DT_HUMAN_BYTES];
    const int at = printf("%s on ", e->run->s->graph->name);
    dti_term_wrap(stdout, at, 2, e->run->feeds.eval_note);
    printf(
        "weights   %s\n", e->random ? "random, as before training" : e->run->s->opts.model.weights);
    if (e->step >= 0)
        printf("          after step %s\n", dt_human_count(count, (uint64_t)e->step));
    if (e->best.step > 0)
        printf("best      %s: dnntrain eval %s/" DT_CHECKPOINTS "/%s\n",
            dti_best_text(best, &e->best), e->folder, dt_checkpoint_name(name, e->best.step));
    putchar('\n');
    if (many)
        printf("loss      %s nats a %s, %s bits\n", dt_human_number(loss, r->loss),
            pixels ? "pixel" : "position", dt_human_number(bits, r->loss / log(2)));
    else
        printf("loss      %s\n", dt_human_number(loss, r->loss));
    if (!r->values)
        printf("top-1     %.2f %%%s\n", 100 * r->top1, of);
    if (r->probabilities)
        printf("accuracy  %.2f %% of values\n", 100 * r->accuracy);
    if (!r->values && dt_human_tells_top5(e->run->s->graph->classes))
        printf("top-5     %.2f %%%s\n", 100 * r->top5, of);
    if (r->pixels)
        printf("mean IoU  %.2f %%\n", 100 * r->mean_iou);
    printf("samples   %s in %.1f s, %s a second\n", dt_human_count(count, (uint64_t)r->samples),
        r->seconds, dt_human_rate(rate, (double)r->samples / r->seconds));
}

static dt_status print_json(const evaluation *e, dt_err *err)
{
    const dt_eval_report *r = &e->result;
    dt_json j = dt_json_begin();
    dt_json_text(&j, "model", e->run->s->graph->name);
    dt_json_text(&j, "data", e->run->feeds.eval_note);
    if (!e->random)
        dt_json_text(&j, "weights", e->run->s->opts.model.weights);
    if (e->step >= 0)
        dt_json_whole(&j, "step", (uint64_t)e->step);
    dt_json_real(&j, "loss", r->loss, 9);
    if (!r->values) {
        dt_json_real(&j, "top1", r->top1, 9);
        dt_json_real(&j, "top5", r->top5, 9);
    }
    if (r->probabilities)
        dt_json_real(&j, "accuracy", r->accuracy, 9);
    if (r->pixels)
        dt_json_real(&j, "mean_iou", r->mean_iou, 9);
    dt_json_whole(&j, "samples", (uint64_t)r->samples);
    dt_json_whole(&j, "skipped", (uint64_t)dt_loader_feed(e->run->feeds.eval_loader)->skipped);
    dt_json_real(&j, "seconds", r->seconds, 6);
    return dti_json_out(&j, err);
}

static dt_status evaluate(evaluation *e, dt_err *err)
{
    DT_CHECK(pass(e, err));
    if (e->json)
        DT_CHECK(print_json(e, err));
    else
        print(e);
    fflush(stdout); /* before what is said on stderr, where both are one file */
    return e->outputs != NULL ? dt_run_write_outputs(e->run, e->outputs, err) : DT_OK;
}

/* ---- the command ---- */

typedef struct eval_flags {
    const char *generate, *prompt, *temperature, *seed;
} eval_flags;

static dt_status check_weights(const evaluation *e, dt_err *err)
{
    char asked[DT_ASKED];
    if (e->random && e->run->s->opts.model.weights != NULL)
        return DT_FAIL(err, DT_E_CONFIG, "%s: --random asks for other weights; give one of them",
            dt_session_asked(asked, e->run->s, "model", "weights"));
    if (e->random || e->run->s->opts.model.weights != NULL)
        return DT_OK;
    return DT_FAIL(err, DT_E_CONFIG,
        "no weights to evaluate: name a file with --set model.weights=FILE (a run leaves "
        "RUN/" DT_RUN_WEIGHTS "; RUN in place of CONFIG takes those), or give --random "
        "for those training begins with");
}

static dt_status read_flags(
    const dt_session *s, const eval_flags *f, dt_generate_opts *o, dt_err *err)
{
    int64_t seed = s->opts.train.seed;
    *o = (dt_generate_opts){.prompt = f->prompt, .temperature = 1};
    if (!dt_parse_i64(f->generate, &o->count) || o->count < 1 || o->count > DT_GENERATE_CHARACTERS)
        return DT_FAIL(err, DT_E_CONFIG, "--generate %s: must be a whole number, 1..%d",
            f->generate, DT_GENERATE_CHARACTERS);
    if (f->temperature != NULL &&
        (!dt_parse_f64(f->temperature, &o->temperature) ||
            !(o->temperature >= 0 && o->temperature <= DT_GENERATE_TEMPERATURE)))
        return DT_FAIL(err, DT_E_CONFIG, "--temperature %s: must be a number, 0..%d",
            f->temperature, DT_GENERATE_TEMPERATURE);
    if (f->seed != NULL && (!dt_parse_i64(f->seed, &seed) || seed < 0))
        return DT_FAIL(err, DT_E_CONFIG, "--seed %s: must be a whole number, 0 or more", f->seed);
    o->seed = (uint64_t)seed;
    return DT_OK;
}

/* To be read while it is written. */
static bool put(void *self, char c)
{
    evaluation *e = self;
    if (e->done++ == 0)
        e->began = dt_seconds();
    putchar(c);
    fflush(stdout);
    return true;
}

static dt_status write_text(evaluation *e, dt_generate_opts *o, dt_err *err)
{
    char rate[DT_HUMAN_BYTES];
    o->self = e;
    o->character = put;
    DT_CHECK(dt_run_generate(e->run, o, err));
    putchar('\n');
    fflush(stdout); /* before what is said on stderr, where both are one file */
    dti_term_say("%lld characters, %s a second", (long long)o->count,
        dt_human_rate(rate, (double)o->count / (dt_seconds() - e->began)));
    return DT_OK;
}

static dt_status run(evaluation *e, const eval_flags *f, dt_err *err)
{
    dt_generate_opts o;
    DT_CHECK(dti_check_outputs(e->run->s, &e->outputs, 1, NULL, err));
    DT_CHECK(check_weights(e, err));
    if (f->generate == NULL)
        return evaluate(e, err);
    DT_CHECK(read_flags(e->run->s, f, &o, err));
    return write_text(e, &o, err);
}

static dt_status check(const dti_cli *cli, const evaluation *e, const eval_flags *f, dt_err *err)
{
    if (cli->n_word == 0)
        return DT_FAIL(err, DT_E_CONFIG, "name a CONFIG; usage: %s", dt_command_eval.usage);
    if (f->generate == NULL && (f->prompt != NULL || f->temperature != NULL || f->seed != NULL))
        return DT_FAIL(err, DT_E_CONFIG, "--prompt, --temperature and --seed go with --generate N");
    if (f->generate != NULL && (e->json || e->outputs != NULL))
        return DT_FAIL(err, DT_E_CONFIG, "--%s and --generate exclude each other; give one of them",
            e->json ? "json" : "outputs");
    if (e->outputs != NULL && strcmp(e->outputs, "-") == 0)
        return DT_FAIL(err, DT_E_CONFIG, "--outputs names a file; stdout has what is printed");
    const char *trace = getenv("DT_TRACE");
    if (e->outputs != NULL && trace != NULL && dt_same_file(e->outputs, trace))
        return DT_FAIL(err, DT_E_CONFIG,
            "'%s' is to be written twice, by --outputs and by DT_TRACE; name two files", trace);
    char config[DTI_RUN_PATH];
    if (e->random && dti_config_of_run(cli->word[0], config))
        return DT_FAIL(err, DT_E_CONFIG,
            "--random goes with a CONFIG, and '%s' is a run: name its '%s'", cli->word[0], config);
    return dti_cli_check_file(cli->word[0], err);
}

static dt_status ask(
    evaluation *e, const dti_cli *cli, const dti_run_paths *paths, const eval_flags *f, dt_err *err)
{
    e->step = paths->step;
    e->best = dti_better_than(paths);
    e->folder = paths->run;
    dt_status st = dt_run_open(&e->run, cli->word[0], cli->set, cli->n_set, err);
    if (st == DT_OK && paths->run[0] != '\0')
        st = dt_run_take_classes(e->run, paths->run, err);
    if (st == DT_OK)
        st = dt_run_trace(e->run, getenv("DT_TRACE"), err);
    if (st == DT_OK) {
        dti_cli_listen(e->run->s);
        st = run(e, f, err);
    }
    dt_run_close(e->run);
    return st;
}

static dt_status eval(const dti_command_args *a, dt_err *err)
{
    eval_flags f = {0};
    evaluation e = {0};
    const dti_flag flags[] = {
        {"--random", NULL, "evaluate the weights that training begins with", &e.random, NULL},
        {"--json", NULL, "as one object", &e.json, NULL},
        {"--outputs", "FILE", "also write what the network gives for each sample", NULL,
            &e.outputs},
        {"--generate", "N", "write N characters instead; for data.source = text", NULL,
            &f.generate},
        {"--prompt", "TEXT", "go on from here, not from the held-out text", NULL, &f.prompt},
        {"--temperature", "T", "0: the likeliest; 1 (default): as learned; more: freer", NULL,
            &f.temperature},
        {"--seed", "S", "of what is drawn; train.seed unless given", NULL, &f.seed},
        {NULL, NULL, NULL, NULL, NULL},
    };
    dti_cli cli;
    dti_run_paths paths = {.step = -1};
    dt_status st = dti_cli_init(&cli, &dt_command_eval, a, flags, true, 1, err);
    if (st == DT_OK && !cli.help) {
        if (cli.n_word > 0 && !e.random)
            st = dti_cli_take_run(&cli, &paths, err);
        if (st == DT_OK)
            st = check(&cli, &e, &f, err);
        if (st == DT_OK)
            st = ask(&e, &cli, &paths, &f, err);
    }
    dti_run_paths_deinit(&paths);
    dti_cli_deinit(&cli);
    return st;
}

const dti_command dt_command_eval = {
    .name = "eval",
    .usage = "dnntrain eval RUN|CONFIG [--set model.weights=FILE]... [--random] [--json] "
             "[--outputs FILE] [--generate N]",
    .summary = "loss and accuracy on held-out data, or text that the network writes",
    .run = eval,
};
