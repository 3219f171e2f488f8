/* Text that a network writes: the prompt read, a token drawn, the window moved on. */
#include <math.h>
#include <string.h>

#include "data/text.h"
#include "engine/base/alloc.h"
#include "engine/base/io.h"
#include "engine/base/philox.h"
#include "session/budget.h"
#include "session/feeds.h"
#include "session/rig.h"
#include "session/run_plans.h"
#include "session/run/run_internal.h"
#include "session/run/scores.h"

enum { HELD_OUT_PROMPT = 64 }; /* characters, unless the context is shorter */
static const size_t most_bytes = (size_t)1 << 32;

typedef struct writer {
    dt_session *s;
    const dt_class_names *names; /* of the run that learned; none: as data.path has them */
    dt_rig rig;
    dt_vocabulary v;
    dti_scores scores; /* of the last character shown */
    int64_t context, classes;
    uint8_t *token; /* prompt and what was written */
    int64_t n;
    float *x; /* [context] */
    int32_t *labels;
    double *share; /* [classes] */
} writer;

static void look(void *self, const dt_plan_tensor *t, const void *bytes)
{
    writer *w = self;
    dti_scores_look(&w->scores, t, bytes);
}

/* The characters that the training text had when the run learned, or has; they are the tokens. */
static dt_status read_vocabulary(writer *w, dt_err *err)
{
    const dt_data_opts *d = &w->s->opts.data;
    char *text = NULL, asked[DT_ASKED];
    size_t n = 0;
    if (w->names->n > 0)
        return dt_vocabulary_named(&w->v, w->names->name, w->names->n, err);
    if (d->vocab != NULL) {
        DT_TRY(err, dt_vocabulary_read(&w->v, d->vocab, err), "%s",
            dt_session_asked(asked, w->s, "data", "vocab"));
        return DT_OK;
    }
    if (d->path == NULL)
        return DT_FAIL(err, DT_E_CONFIG,
            "data.path is missing: set data.path = FILE, the text that the network has learned");
    DT_CHECK(dt_read_file(&text, &n, d->path, most_bytes, DT_E_DATA, err));
    dt_vocabulary_of(&w->v, (const uint8_t *)text, n);
    dt_free(text);
    return DT_OK;
}

static dt_status own_prompt(writer *w, const char *prompt, dt_err *err)
{
    w->n = (int64_t)strlen(prompt);
    if (w->n == 0)
        return DT_FAIL(err, DT_E_CONFIG, "prompt: give it a character at least");
    for (int64_t i = 0; i < w->n; i++) {
        const int16_t token = w->v.token[(unsigned char)prompt[i]];
        if (token < 0)
            return DT_FAIL(err, DT_E_CONFIG,
                "prompt: byte %lld (0x%02X) does not occur in the text the network has learned",
                (long long)i + 1, (unsigned)(unsigned char)prompt[i]);
        w->token[i] = (uint8_t)token;
    }
    return DT_OK;
}

/* The beginning of the text that training does not see. */
static dt_status held_out_prompt(writer *w, dt_err *err)
{
    dt_feeds feeds;
    dt_status st = dti_feeds_open_eval(&feeds, w->s, err);
    if (st == DT_OK)
        st = dt_class_names_check(w->names, feeds.eval, err);
    if (st == DT_OK)
        st = feeds.eval->desc->read(feeds.eval, 0, 0, w->x, w->labels, err);
    if (st == DT_OK)
        w->n = w->context < HELD_OUT_PROMPT ? w->context : HELD_OUT_PROMPT;
    for (int64_t i = 0; i < w->n; i++)
        w->token[i] = (uint8_t)w->x[i];
    dt_feeds_close(&feeds);
    return st;
}

static dt_status reserve(writer *w, const dt_generate_opts *o, dt_err *err)
{
    const size_t prompt = o->prompt != NULL ? strlen(o->prompt) : HELD_OUT_PROMPT;
    w->context = w->s->graph->input.h;
    w->classes = w->s->graph->classes;
    w->token = dt_alloc(prompt + (size_t)o->count, 1);
    w->x = dt_alloc((size_t)w->context, sizeof *w->x);
    w->labels = dt_alloc((size_t)w->context, sizeof *w->labels);
    w->share = dt_alloc((size_t)w->classes, sizeof *w->share);
    if (w->token == NULL || w->x == NULL || w->labels == NULL || w->share == NULL)
        return DT_FAIL(err, DT_E_NOMEM, "no memory for the text");
    return DT_OK;
}

/* A program that shows one sequence to the network. */
static dt_status prepare(writer *w, dt_err *err)
{
    const dt_planned *p;
    DT_CHECK(dti_session_plan(w->s, DT_PROGRAM_EVAL, 1, &p, err));
    DT_CHECK(dti_scores_init(&w->scores, p->program, 1, err));
    DT_CHECK(dti_session_check_run(w->s, true, err));
    return dti_rig_open_learned(&w->rig, w->s, err);
}

/* Scores of what may come next, from as much of the text as the network takes. */
static dt_status ask(writer *w, dt_err *err)
{
    const int64_t shown = w->n < w->context ? w->n : w->context;
    for (int64_t i = 0; i < w->context; i++)
        w->x[i] = i < shown ? (float)w->token[w->n - shown + i] : 0.0f;
    w->scores.row = shown - 1;
    w->scores.seen = 0;
    const dt_run_args a = {.batch = {w->x, w->labels, 1}, .step_labels = 1};
    DT_CHECK(dt_runner_run(w->rig.runner, w->rig.ready[0].id, &a, err));
    return dti_scores_check(&w->scores, err);
}

/* Tokens that no character has are never drawn. *token: which. */
static dt_status draw(writer *w, const dt_generate_opts *o, int64_t at, int *token, dt_err *err)
{
    const float *score = w->scores.score;
    double most = -HUGE_VAL, sum = 0;
    for (int i = 0; i < w->v.n; i++) {
        if (!isfinite(score[i]))
            return DT_FAIL(
                err, DT_E_NONFINITE, "character %lld: a score is not finite", (long long)at + 1);
        if ((double)score[i] > most) {
            most = (double)score[i];
            *token = i;
        }
    }
    if (!(o->temperature > 0))
        return DT_OK;
    for (int i = 0; i < w->v.n; i++)
        sum += w->share[i] = exp(((double)score[i] - most) / o->temperature);
    const dt_u32x4 u = dt_random(o->seed, DT_RANDOM_GENERATE, 0, 0, (uint64_t)at);
    double left = ((double)u.v[0] + (double)u.v[1] * 0x1p-32) * 0x1p-32 * sum;
    for (int i = 0; i < w->v.n && left >= 0; i++) {
        left -= w->share[i];
        *token = i; /* the last one, should rounding leave a rest */
    }
    return DT_OK;
}

static dt_status tell(const writer *w, const dt_generate_opts *o, int64_t at, dt_err *err)
{
    if (o->character == NULL || o->character(o->self, (char)w->v.byte[w->token[at]]))
        return DT_OK;
    return DT_FAIL(err, DT_E_STOPPED, "stopped after character %lld", (long long)at + 1);
}

static dt_status write_text(writer *w, const dt_generate_opts *o, dt_err *err)
{
    for (int64_t i = 0; i < w->n; i++)
        DT_CHECK(tell(w, o, i, err));
    for (int64_t i = 0; i < o->count; i++) {
        int token = 0;
        DT_CHECK(ask(w, err));
        DT_CHECK(draw(w, o, i, &token, err));
        w->token[w->n++] = (uint8_t)token;
        DT_CHECK(tell(w, o, w->n - 1, err));
    }
    return DT_OK;
}

static dt_status generate(writer *w, const dt_generate_opts *o, dt_err *err)
{
    DT_CHECK(reserve(w, o, err));
    DT_CHECK(read_vocabulary(w, err));
    if (w->v.n > w->classes)
        return DT_FAIL(err, DT_E_DATA, "%s: has %d different bytes; set model.vocab = %d or more",
            w->s->opts.data.vocab != NULL ? w->s->opts.data.vocab : w->s->opts.data.path, w->v.n,
            w->v.n);
    DT_CHECK(o->prompt != NULL ? own_prompt(w, o->prompt, err) : held_out_prompt(w, err));
    DT_CHECK(prepare(w, err));
    const dt_probe probe = {w, look};
    dt_runner_set_probe(w->rig.runner, &probe);
    const dt_status st = write_text(w, o, err);
    dt_runner_set_probe(w->rig.runner, NULL);
    return st;
}

static dt_status check(const dt_run *r, const dt_generate_opts *o, dt_err *err)
{
    char asked[DT_ASKED];
    const dt_session *s = r->s;
    if (r->rig.runner != NULL)
        return DT_FAIL(err, DT_E_CONFIG,
            "a run that trains or evaluates writes no text; open another with its model.weights");
    if (o->count < 1 || o->count > DT_GENERATE_CHARACTERS)
        return DT_FAIL(err, DT_E_CONFIG, "%lld characters: must be 1 to %d", (long long)o->count,
            DT_GENERATE_CHARACTERS);
    if (!(o->temperature >= 0 && o->temperature <= DT_GENERATE_TEMPERATURE))
        return DT_FAIL(err, DT_E_CONFIG, "temperature %g: must be 0 to %d", o->temperature,
            DT_GENERATE_TEMPERATURE);
    if (strcmp(s->opts.data.source, "text") != 0)
        return DT_FAIL(err, DT_E_CONFIG, "%s: writing text needs data.source = text",
            dt_session_asked(asked, s, "data", "source"));
    const dt_source_opts of_net = dti_feeds_of_network(s);
    return dt_source_check_sequence(&of_net, err); /* a prompt of one's own opens no source */
}

dt_status dt_run_generate(dt_run *r, const dt_generate_opts *o, dt_err *err)
{
    DT_CHECK(dti_run_check_idle(r, err));
    DT_CHECK(dti_run_need(o, "dt_generate_opts", err));
    writer w = {.s = r->s, .names = &r->names};
    dti_session_enter(r->s);
    dt_status st = check(r, o, err);
    if (st != DT_OK)
        return dti_run_left(r, st);
    dt_plan_set *asked = r->s->plans; /* of the run itself: they are answered from, not run here */
    r->s->plans = NULL;
    st = dti_run_take_learned(r, dti_session_fresh_learned(r->s), err);
    if (st == DT_OK)
        st = generate(&w, o, err);
    dti_rig_close(&w.rig);
    dti_session_forget(r->s);
    r->s->plans = asked;
    dt_free(w.token);
    dt_free(w.x);
    dt_free(w.labels);
    dt_free(w.share);
    dti_scores_deinit(&w.scores);
    return dti_run_left(r, st);
}
