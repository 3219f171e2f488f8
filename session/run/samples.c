/* What a trained network makes of some pictures that were held out: for those who show a run. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/alloc.h"
#include "session/run/run_internal.h"
#include "session/run/scores.h"

enum { LOOKS = 16 }; /* samples of a part that are read to find a class not seen yet */

/* @n: samples of the evaluation's plan, of which @most are different; @each: values of one; @rows:
 * labels of one; @place: these in the data */
typedef struct looker {
    dt_run *r;
    dt_source *plain; /* the same data, not normalised */
    const dt_planned *planned;
    int id;
    int64_t n, most, classes, each, rows;
    dti_scores scores;
    float *x;
    int32_t *labels;
    int64_t *place;
} looker;

/* Of one or three colours. */
static bool takes_pictures(const dt_graph *g)
{
    return dt_graph_tokens(g) == 0 && (g->input.c == 1 || g->input.c == 3) && g->input.h > 1 &&
           g->input.w > 1;
}

/* With a label each. */
static bool has_pictures(const dt_graph *g)
{
    return takes_pictures(g) && dt_graph_labels(g) == 1 && dt_graph_label_kind(g) == DT_LABEL_CLASS;
}

/* With a label a pixel. */
static bool labels_pixels(const dt_graph *g)
{
    return takes_pictures(g) && dt_graph_counted(g) > 0 &&
           dt_graph_labels(g) == g->input.h * g->input.w;
}

static bool find_plan(looker *w)
{
    w->planned = dti_run_eval_plan(w->r, &w->id);
    w->n = w->planned != NULL ? w->planned->n : 0;
    return w->planned != NULL;
}

static void look(void *self, const dt_plan_tensor *t, const void *bytes)
{
    looker *w = self;
    dti_scores_look(&w->scores, t, bytes);
}

static dt_status reserve(looker *w, dt_err *err)
{
    w->classes = w->r->s->graph->classes;
    w->each = dt_shape_sample(&w->r->s->graph->input);
    w->rows = dt_graph_labels(w->r->s->graph);
    w->x = dt_alloc((size_t)w->n, (size_t)w->each * sizeof *w->x);
    w->labels = dt_alloc((size_t)w->n, (size_t)w->rows * sizeof *w->labels);
    w->place = dt_alloc((size_t)w->n, sizeof *w->place);
    if (w->x == NULL || w->labels == NULL || w->place == NULL)
        return DT_FAIL(err, DT_E_NOMEM, "no memory to look at samples");
    return dti_scores_init(&w->scores, w->planned->program, w->n * w->rows, err);
}

static void release(looker *w)
{
    dt_free(w->x);
    dt_free(w->labels);
    dt_free(w->place);
    dti_scores_deinit(&w->scores);
}

static int64_t times_seen(const looker *w, int64_t n, int32_t label)
{
    int64_t times = 0;
    for (int64_t i = 0; i < n; i++)
        times += w->labels[i] == label;
    return times;
}

/* The @i-th, from its own part of the data, as samples may stand by class; and of a class seen as
 * seldom as can be, as classes may also take turns. What cannot be read is passed over. */
static dt_status choose(looker *w, int64_t i, dt_err *err)
{
    const dt_source *s = w->r->feeds.eval;
    const int64_t count = s->desc->count(s), from = i * count / w->most;
    const int64_t part = (i + 1) * count / w->most - from, looks = part < LOOKS ? part : LOOKS;
    float *x = w->x + i * w->each;
    int64_t least = INT64_MAX;
    w->place[i] = from;
    for (int64_t k = 0; k < looks && least > 0; k++) {
        int32_t label;
        if (s->desc->read(s, from + k, 0, x, &label, NULL) != DT_OK)
            continue;
        const int64_t times = times_seen(w, i, label);
        if (times < least)
            w->place[i] = from + k;
        least = times < least ? times : least;
    }
    return s->desc->read(s, w->place[i], 0, x, &w->labels[i], err);
}

static dt_status read_samples(looker *w, dt_err *err)
{
    for (int64_t i = 0; i < w->most; i++)
        DT_CHECK(choose(w, i, err));
    for (int64_t i = w->most; i < w->n; i++) { /* the plan is for so many */
        const int64_t from = i % w->most;
        memcpy(w->x + i * w->each, w->x + from * w->each, (size_t)w->each * sizeof *w->x);
        w->labels[i] = w->labels[from];
    }
    return DT_OK;
}

static dt_status ask(looker *w, dt_err *err)
{
    const dt_run_args a = {.batch = {w->x, w->labels, w->n, 0}, .step_labels = w->n * w->rows};
    const dt_probe probe = {w, look};
    DT_CHECK(dt_runner_set_trace(w->r->rig.runner, NULL, err)); /* it is no part of the run */
    dt_runner_set_probe(w->r->rig.runner, &probe);
    const dt_status st = dt_runner_run(w->r->rig.runner, w->id, &a, err);
    dt_runner_set_probe(w->r->rig.runner, NULL);
    DT_CHECK(st);
    return dti_scores_check(&w->scores, err);
}

/* ---- what is seen ---- */

/* The likeliest classes, by the softmax of the scores that are finite. */
static void guess(const looker *w, int64_t i, dt_sample *to)
{
    const float *v = w->scores.score + i * w->classes;
    float top = -INFINITY; /* GCC 12 for arm64 cannot compile the largest of widened values */
    for (int64_t c = 0; c < w->classes; c++)
        if (isfinite(v[c]))
            top = fmaxf(top, v[c]);
    const double most = (double)top;
    double sum = 0;
    for (int64_t c = 0; c < w->classes; c++)
        sum += isfinite(v[c]) ? exp((double)v[c] - most) : 0;
    to->n_guess = 0;
    while (to->n_guess < DT_SAMPLE_GUESSES && to->n_guess < w->classes) {
        int32_t best = -1;
        for (int32_t c = 0; c < w->classes; c++) {
            bool taken = !isfinite(v[c]);
            for (int k = 0; k < to->n_guess; k++)
                taken = taken || to->guess[k] == c;
            if (!taken && (best < 0 || v[c] > v[best]))
                best = c;
        }
        if (best < 0)
            return;
        to->share[to->n_guess] = exp((double)v[best] - most) / sum;
        to->guess[to->n_guess++] = best;
    }
}

/* Means of squares of pixels, so that no side is longer than DT_SAMPLE_SIDE; @v in 0 to 1. */
static void shrink(const dt_shape *s, const float *v, dt_sample *to)
{
    const int64_t longest = s->h > s->w ? s->h : s->w;
    const int64_t by = (longest + DT_SAMPLE_SIDE - 1) / DT_SAMPLE_SIDE;
    to->h = (int)((s->h + by - 1) / by);
    to->w = (int)((s->w + by - 1) / by);
    for (int64_t p = 0; p < to->h * to->w * 3; p++) {
        const int64_t y0 = p / 3 / to->w * by, x0 = p / 3 % to->w * by, c = s->c == 1 ? 0 : p % 3;
        double sum = 0, n = 0;
        for (int64_t y = y0; y < y0 + by && y < s->h; y++)
            for (int64_t x = x0; x < x0 + by && x < s->w; x++, n++)
                sum += (double)v[(y * s->w + x) * s->c + c];
        to->rgb[p] = (uint8_t)lround(255 * fmin(1, fmax(0, sum / n)));
    }
}

/* What is no picture's value from 0 to 1, as in a file of tensors, is brought there. */
static void stretch(float *v, int64_t n)
{
    float least = 0, most = 1;
    for (int64_t i = 0; i < n; i++) {
        if (!isfinite(v[i]))
            v[i] = 0;
        least = v[i] < least ? v[i] : least;
        most = v[i] > most ? v[i] : most;
    }
    for (int64_t i = 0; i < n; i++)
        v[i] = (v[i] - least) / (most - least);
}

static dt_status show(const looker *w, int64_t i, dt_sample *to, dt_err *err)
{
    float *v = w->x; /* the network has read it */
    DT_CHECK(w->plain->desc->read(w->plain, w->place[i], 0, v, &to->label, err));
    to->label = w->labels[i];
    stretch(v, w->each);
    shrink(&w->r->s->graph->input, v, to);
    guess(w, i, to);
    return DT_OK;
}

static dt_status open_plain(looker *w, dt_err *err)
{
    static const float mean[3] = {0, 0, 0}, std[3] = {1, 1, 1};
    dt_source_opts o = w->r->feeds.eval->opts;
    o.mean = mean;
    o.std = std;
    const dt_source_desc *d = w->r->feeds.eval->desc;
    return d->open(d, &w->plain, &o, err);
}

static dt_status samples(looker *w, dt_sample *to, size_t *n, dt_err *err)
{
    DT_CHECK(reserve(w, err));
    DT_CHECK(open_plain(w, err));
    DT_CHECK(read_samples(w, err));
    DT_CHECK(ask(w, err));
    for (int64_t i = 0; i < w->most; i++) {
        DT_CHECK(show(w, i, &to[i], err));
        *n = (size_t)i + 1;
    }
    return DT_OK;
}

dt_status dt_run_samples(dt_run *r, dt_sample *to, size_t most, size_t *n, dt_err *err)
{
    looker w = {.r = r};
    *n = 0;
    if (r->rig.runner == NULL || r->point.broken || r->feeds.eval == NULL ||
        !has_pictures(r->s->graph) || !find_plan(&w))
        return DT_OK;
    const int64_t count = r->feeds.eval->desc->count(r->feeds.eval);
    w.most = w.n < count ? w.n : count;
    w.most = (uint64_t)w.most < most ? w.most : (int64_t)most;
    if (w.most == 0)
        return DT_OK;
    dti_session_enter(r->s);
    const dt_status st = samples(&w, to, n, err);
    if (w.plain != NULL)
        w.plain->desc->close(w.plain);
    release(&w);
    return dti_run_left(r, st);
}

/* ---- pictures that are named ---- */

/* The likeliest class of each pixel that the network sees. */
static dt_status classes_of_pixels(const looker *w, int32_t *class, dt_err *err)
{
    const int64_t wide = w->r->s->graph->input.w;
    for (int64_t i = 0; i < w->rows; i++) {
        const float *v = w->scores.score + i * w->classes;
        class[i] = -1;
        for (int32_t c = 0; c < w->classes; c++)
            if (isfinite(v[c]) && (class[i] < 0 || v[c] > v[class[i]]))
                class[i] = c;
        if (class[i] < 0)
            return DT_FAIL(err, DT_E_NONFINITE,
                "no score of pixel %" PRId64 ",%" PRId64
                " is finite: these weights give no classes",
                i / wide, i % wide);
    }
    return DT_OK;
}

/* The classes that most pixels have. */
static dt_status most_frequent(const looker *w, const int32_t *class, dt_sample *to, dt_err *err)
{
    int64_t *pixels = dt_alloc((size_t)w->classes, sizeof *pixels);
    if (pixels == NULL)
        return DT_FAIL(err, DT_E_NOMEM, "no memory to count the pixels of classes");
    for (int64_t i = 0; i < w->rows; i++)
        pixels[class[i]]++;
    for (to->n_guess = 0; to->n_guess < DT_SAMPLE_GUESSES; to->n_guess++) {
        int32_t best = 0;
        for (int32_t c = 1; c < w->classes; c++)
            best = pixels[c] > pixels[best] ? c : best;
        if (pixels[best] == 0)
            break;
        to->guess[to->n_guess] = best;
        to->share[to->n_guess] = (double)pixels[best] / (double)w->rows;
        pixels[best] = 0;
    }
    dt_free(pixels);
    return DT_OK;
}

/* As large as the picture is. */
static dt_status spread(const looker *w, const int32_t *class, dt_mask *to, dt_err *err)
{
    const dt_shape *s = &w->r->s->graph->input;
    to->class = dt_alloc((size_t)to->h, (size_t)to->w * sizeof *to->class);
    if (to->class == NULL)
        return DT_FAIL(err, DT_E_NOMEM, "no memory for a class a pixel");
    for (int64_t y = 0; y < to->h; y++)
        for (int64_t x = 0; x < to->w; x++)
            to->class[y * to->w + x] =
                class[(2 * y + 1) * s->h / (2 * to->h) * s->w + (2 * x + 1) * s->w / (2 * to->w)];
    return DT_OK;
}

static dt_status label_pixels(const looker *w, dt_sample *to, dt_mask *mask, dt_err *err)
{
    int32_t *class = dt_alloc((size_t)w->rows, sizeof *class);
    if (class == NULL)
        return DT_FAIL(err, DT_E_NOMEM, "no memory for a class a pixel");
    dt_status st = classes_of_pixels(w, class, err);
    if (st == DT_OK)
        st = most_frequent(w, class, to, err);
    if (st == DT_OK && mask != NULL)
        st = spread(w, class, mask, err);
    dt_free(class);
    return st;
}

static dt_status check_classify(const dt_run *r, bool mask, dt_err *err)
{
    const dt_graph *g = r->s->graph;
    if (dt_graph_label_kind(g) != DT_LABEL_CLASS)
        return DT_FAIL(err, DT_E_CONFIG,
            "'%s' learns numbers: its loss, %s, tells no classes; `dnntrain eval RUN --outputs "
            "FILE` "
            "writes what it gives for held-out samples",
            g->name, g->node[g->n_node - 1].desc->name);
    if (dt_graph_tokens(g) == 0 && g->input.c != 1 && g->input.c != 3)
        return DT_FAIL(err, DT_E_CONFIG,
            "'%s' takes %" PRId64 " channels, and pictures have 1 or 3; `dnntrain eval RUN "
            "--outputs FILE` writes what it gives for held-out samples",
            g->name, g->input.c);
    if (!has_pictures(g) && !labels_pixels(g))
        return DT_FAIL(err, DT_E_CONFIG,
            "'%s' takes no pictures with a class each, or a class a pixel", g->name);
    if (mask && !labels_pixels(g))
        return DT_FAIL(err, DT_E_CONFIG,
            "'%s' tells the class of a picture and not of its pixels: there is no mask of it",
            g->name);
    return DT_OK;
}

static dt_status classify(looker *w, const char *path, dt_sample *to, dt_mask *mask, dt_err *err)
{
    dt_run *r = w->r;
    dt_source_opts o;
    dt_mask size;
    DT_CHECK(check_classify(r, mask != NULL, err));
    if (r->rig.runner == NULL)
        DT_CHECK(dti_run_take_learned(r, dti_session_fresh_learned(r->s), err));
    DT_CHECK(dti_feeds_open_pictures(&r->feeds, &o, r->s, r->names.n == 0, err));
    if (r->rig.runner == NULL)
        DT_CHECK(dti_run_open_eval(r, 1, err));
    if (!find_plan(w))
        return DT_FAIL(err, DT_E_INTERNAL, "no plan of an evaluation");
    DT_CHECK(reserve(w, err));
    mask = mask != NULL ? mask : &size;
    DT_CHECK(dt_picture_read(&o, path, w->x, &mask->h, &mask->w, err));
    memset(w->labels, 0, (size_t)w->rows * sizeof *w->labels); /* nobody knows or looks at them */
    DT_CHECK(ask(w, err));
    if (labels_pixels(r->s->graph))
        return label_pixels(w, to, mask != &size ? mask : NULL, err);
    guess(w, 0, to);
    return DT_OK;
}

dt_status dt_run_classify(dt_run *r, const char *path, dt_sample *to, dt_mask *mask, dt_err *err)
{
    looker w = {.r = r};
    *to = (dt_sample){.label = -1};
    if (mask != NULL)
        *mask = (dt_mask){0};
    dti_session_enter(r->s);
    const dt_status st = classify(&w, path, to, mask, err);
    release(&w);
    return dti_run_left(r, st);
}
