/* The data a run reads: sources opened, each with a loader. */
#include "session/feeds.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "data/held.h"
#include "engine/base/numbers.h"

/* Mean or standard deviation for each channel of the image. */
static dt_status per_channel(
    const char *key, const float *v, int n, int64_t channels, const float **out, dt_err *err)
{
    *out = n > 0 ? v : NULL;
    if (n > 0 && channels > DT_RUN_CHANNELS)
        return DT_FAIL(err, DT_E_CONFIG,
            "[data] %s: the network's image has %" PRId64 " channels, at most %d can be normalised",
            key, channels, DT_RUN_CHANNELS);
    return DT_OK;
}

dt_source_opts dti_feeds_of_network(const dt_session *s)
{
    const dt_graph *g = s->graph;
    const bool tokens = s->opts.model.context > 0 || dt_graph_tokens(g) > 0;
    return (dt_source_opts){.shape = g->input,
        .classes = g->classes,
        .labels = dt_graph_labels(g),
        .tokens = tokens && g->input.w == 1,
        .vocabulary = dt_graph_vocabulary(g),
        .label_kind = dt_graph_label_kind(g),
        .values = dt_graph_output(g)};
}

static dt_status source_opts(const dt_session *s, dt_source_opts *o, dt_err *err)
{
    const dt_data_opts *d = &s->opts.data;
    *o = dti_feeds_of_network(s);
    o->path = d->path;
    o->vocab = d->vocab;
    o->ignore_label = d->ignore_label;
    o->augment = d->augment;
    o->cutout = d->cutout;
    o->skip_bad = d->on_error == DT_ON_ERROR_SKIP;
    o->max_skips = d->max_skips;
    o->seed = (uint64_t)s->opts.train.seed;
    o->batch = s->opts.train.batch;
    o->samples = d->samples;
    if (d->target == DT_TARGET_INPUT) {
        o->label_kind = DT_LABEL_CLASS;
        o->labels = 1;
        o->classes = INT32_MAX;
        o->unlabelled = true;
    }
    DT_CHECK(per_channel("mean", d->mean, d->n_mean, o->shape.c, &o->mean, err));
    return per_channel("std", d->std, d->n_std, o->shape.c, &o->std, err);
}

bool dti_feeds_of_batches(const dt_session *s)
{
    const dt_source_desc *desc = dt_source_find(s->opts.data.source);
    dt_source *source = NULL;
    dt_source_opts o;
    if (desc != &dt_source_tensors || source_opts(s, &o, NULL) != DT_OK ||
        desc->open(desc, &source, &o, NULL) != DT_OK)
        return false;
    const bool of_batches = source->fixed_order;
    desc->close(source);
    return of_batches;
}

int dti_decoders(const dt_session *s)
{
    enum { MOST = 64 };
    const int idle = s->threads < MOST ? s->threads : MOST;
    return s->context.device == DT_CUDA ? idle : 1;
}

/* What shells and other systems write in a path, and this program reads as it stands. */
static const char *wrong_in_path(const char *path)
{
    const size_t n = strlen(path);
    if (strstr(path, "/~") != NULL)
        return "'~' is the shell's word for your home folder; write the whole path";
    if (strchr(path, '$') != NULL)
        return "variables are the shell's; write the whole path";
    if (strstr(path, "/'") != NULL && path[n - 1] == '\'')
        return "a path needs no ' around it, also where it has blanks";
    if (strchr(path, '\\') != NULL)
        return "folders are separated by / and not by \\";
    return NULL;
}

/* Labels that a source does not have. */
static dt_status check_labels(
    const dt_session *s, const dt_source_desc *desc, const dt_source_opts *o, dt_err *err)
{
    char asked[DT_ASKED];
    if (o->label_kind == DT_LABEL_CLASS || desc->gives_values)
        return DT_OK;
    return DT_FAIL(err, DT_E_CONFIG,
        "%s: the loss, %s, learns values, and samples of this source have none; set data.source = "
        "tensors, whose y holds them, or data.target = input to learn the input itself",
        dt_session_asked(asked, s, "data", "source"),
        s->graph->node[s->graph->n_node - 1].desc->name);
}

/* Whether a text would do in its own bytes: then it is the vocabulary that does not go with it. */
static bool is_of_vocabulary(const dt_source_desc *desc, const dt_source_opts *o)
{
    enum { BYTES = 256 };
    dt_source *s = NULL;
    dt_source_opts own = *o;
    if (desc != &dt_source_text || o->vocab == NULL)
        return false;
    own.vocab = NULL;
    own.classes = BYTES;
    if (own.train_path != NULL) /* it is taken whole */
        own.train_path = own.path;
    if (desc->open(desc, &s, &own, NULL) != DT_OK)
        return false;
    desc->close(s);
    return true;
}

/* Says, after what is wrong with it, where the data is named, and what may bring it. */
static dt_status open_source(dt_source **out, const dt_session *s, const dt_source_desc *desc,
    const dt_source_opts *o, const char *key, dt_err *err)
{
    char asked[DT_ASKED];
    DT_CHECK(check_labels(s, desc, o, err));
    const dt_status st = desc->open(desc, out, o, err);
    if (st == DT_OK)
        return DT_OK;
    const bool by_source = o->path == NULL || st == DT_E_CONFIG; /* no path would do */
    if (st == DT_E_DATA && is_of_vocabulary(desc, o))
        return DT_FAIL(err, st, "%s", dt_session_asked(asked, s, "data", "vocab"));
    (void)DT_FAIL(err, st, "%s", dt_session_asked(asked, s, "data", by_source ? "source" : key));
    const dt_source_desc *meant = st == DT_E_DATA ? dt_source_meant(desc, o->path) : NULL;
    if (meant != NULL)
        (void)DT_FAIL(
            err, st, "that looks like %s: set data.source = %s", meant->summary, meant->name);
    if (o->path == NULL || access(o->path, F_OK) == 0 || errno != ENOENT)
        return st;
    const char *wrong = wrong_in_path(o->path);
    if (wrong != NULL)
        (void)DT_FAIL(err, st, "%s", wrong);
    if (desc->fetched != NULL &&
        (desc != &dt_source_text || strstr(o->path, desc->fetched) != NULL))
        (void)DT_FAIL(err, st,
            "`tools/get_data %s` fetches %s to where configs/ look for it (wants python3: apt-get "
            "install python3)",
            desc->fetched, desc->fetched);
    return st;
}

/* Whether what is evaluated on has to be taken from what is learned from. */
static bool shares(const dt_session *s, const dt_source_desc *desc, const dt_source_opts *train)
{
    dt_source_opts o = *train;
    o.eval = true;
    return s->opts.data.eval_share > 0 && s->opts.data.eval_path == NULL &&
           !(desc->has_eval != NULL && desc->has_eval(desc, &o));
}

static dt_status hold(dt_source **source, const dt_session *s, bool held, dt_err *err)
{
    char asked[DT_ASKED];
    DT_TRY(err, dt_source_hold(source, s->opts.data.eval_share, held, err), "%s",
        dt_session_asked(asked, s, "data", "eval_share"));
    return DT_OK;
}

/* Whether what the loss compares with is a vector and no map. */
static bool gives_vector(const dt_session *s)
{
    const dt_shape y = dt_graph_output(s->graph);
    return y.h * y.w == 1;
}

static dt_status open_eval(dt_feeds *f, const dt_session *s, const dt_source_desc *desc,
    const dt_source_opts *train, dt_err *err)
{
    dt_source_opts o = *train;
    const char *path = s->opts.data.eval_path;
    const bool share = shares(s, desc, train);
    o.eval = !share;
    o.augment = false;
    if (path != NULL) {
        o.train_path = train->path != NULL ? train->path : "";
        o.path = path;
    } else if (!share && (desc->has_eval == NULL || !desc->has_eval(desc, &o))) {
        return DT_OK;
    }
    DT_CHECK(open_source(&f->eval, s, desc, &o, path != NULL ? "eval_path" : "path", err));
    if (share)
        DT_CHECK(hold(&f->eval, s, true, err));
    const dt_loader_opts l = {.batch = s->micro_batch,
        .ahead = (int)s->opts.data.ahead,
        .threads = dti_decoders(s),
        .seed = o.seed,
        .once = true,
        .rests = true,
        .own_labels = o.unlabelled,
        .by_channel = gives_vector(s),
        .label_kind = dt_graph_label_kind(s->graph)};
    DT_CHECK(dt_loader_create(&f->eval_loader, f->eval, &l, err));
    f->eval_last = dt_batches_of(dt_loader_feed(f->eval_loader)->samples, l.batch).partial;
    return DT_OK;
}

/* Steps of an epoch and of the run; a partial batch ends an epoch unless it is dropped. */
static dt_status count_steps(dt_feeds *f, const dt_train_opts *t, int64_t samples, dt_err *err)
{
    const dt_batches b = dt_batches_of(samples, t->batch);
    f->steps_per_epoch = b.n;
    f->last = b.partial;
    if (t->epochs == 0)
        f->steps = t->steps;
    else if (__builtin_mul_overflow(t->epochs, f->steps_per_epoch, &f->steps))
        return DT_FAIL(err, DT_E_CONFIG,
            "[train] epochs = %" PRId64 " of %" PRId64 " steps are more than can be counted",
            t->epochs, f->steps_per_epoch);
    else if (t->steps > 0 && t->steps < f->steps)
        f->steps = t->steps;
    f->whole_epochs = t->epochs > 0 && f->steps % f->steps_per_epoch == 0 &&
                      f->steps / f->steps_per_epoch == t->epochs;
    if (f->steps < f->steps_per_epoch)
        f->last = 0; /* never reached */
    return DT_OK;
}

/* Of the steps that the run takes alone, as others may have nothing to learn. */
static dt_status check_learned(const dt_feeds *f, const dt_session *s, dt_err *err)
{
    char asked[DT_ASKED];
    const dt_source_desc *desc = f->train->desc;
    const int64_t n = dt_min_i64(f->steps, f->steps_per_epoch) * s->opts.train.batch;
    if (desc->check_learned != NULL)
        DT_TRY(err, desc->check_learned(f->train, n, err), "%s",
            dt_session_asked(asked, s, "data", "path"));
    return DT_OK;
}

/* Without partial batches a small set has none at all. */
static dt_status check_full(const dt_session *s, const dt_source *source, dt_err *err)
{
    const dt_train_opts *t = &s->opts.train;
    const int64_t count = source->desc->count(source);
    char asked[DT_ASKED];
    if (!t->drop_last || count >= t->batch)
        return DT_OK;
    return DT_FAIL(err, DT_E_CONFIG,
        "%s: the data has %" PRId64 " sample%s, no full batch of %" PRId64
        "; set train.batch = %" PRId64 " or less, or drop_last = off",
        dt_session_asked(asked, s, "train", "drop_last"), count, count == 1 ? "" : "s", t->batch,
        count);
}

static void describe(const dt_source *s, char *note, size_t bytes)
{
    char found[256] = "";
    if (s == NULL)
        return;
    if (s->desc->describe != NULL)
        s->desc->describe(s, found, sizeof found);
    snprintf(note, bytes, "%s: %s", s->desc->name, found);
}

static void warn(dt_feeds *f, const char *fmt, ...) DT_PRINTF(2, 3);
static void warn(dt_feeds *f, const char *fmt, ...)
{
    va_list args;
    DT_ASSERT(f->n_warning < DT_FEED_WARNINGS);
    va_start(args, fmt);
    vsnprintf(f->warning[f->n_warning++], sizeof *f->warning, fmt, args);
    va_end(args);
}

/* Whether a key is given for data of this kind: one that is left in the file where the command line
 * asks for other data is no mistake. */
static bool is_meant(const dt_session *s, const char *key)
{
    const char *file;
    int line;
    if (dt_config_get(s->config, "data", key, &file, &line) == NULL)
        return false;
    return !dt_config_typed(s->config, "data", "source") || dt_config_typed(s->config, "data", key);
}

/* Keys that want an evaluation, where there is none. */
static void warn_of_no_eval(dt_feeds *f, const dt_session *s)
{
    static const char *const wants[] = {"eval_every", "patience"};
    for (size_t i = 0; i < DT_COUNT(wants) && f->eval == NULL; i++)
        if (dt_config_typed(s->config, "train", wants[i]) ||
            (strcmp(wants[i], "patience") == 0 && s->opts.train.patience > 0))
            warn(f,
                "train.%s counts for nothing: nothing is held out to evaluate on; name it with "
                "data.eval_path, or hold some out with data.eval_share",
                wants[i]);
}

/* Keys of [data] that nobody reads. What is so anyway is no mistake, nor, in a file, what is so
 * unless it is given: a run writes it there. */
static void warn_of_idle(dt_feeds *f, const dt_session *s, const dt_source_desc *desc)
{
    const dt_data_opts *d = &s->opts.data;
    if (desc->made_up && d->path != NULL && is_meant(s, "path"))
        warn(f,
            "data.path is not read: data.source = %s makes its samples up; for pictures in folders "
            "set data.source = images",
            desc->name);
    if (desc->made_up && d->eval_path != NULL && is_meant(s, "eval_path"))
        warn(f,
            "data.eval_path is not read: data.source = %s makes up what it is evaluated on, too",
            desc->name);
    if (!desc->augments && d->augment && dt_config_typed(s->config, "data", "augment"))
        warn(f,
            "data.augment counts for nothing: samples of data.source = %s are taken as they are",
            desc->name);
    if (d->cutout > 0 && (!desc->augments || !d->augment) && is_meant(s, "cutout"))
        warn(f, "data.cutout counts for nothing: %s%s",
            desc->augments ? "data.augment is off" : "it is not for data.source = ",
            desc->augments ? "" : desc->name);
    if (d->eval_share > 0 && is_meant(s, "eval_share") && !shares(s, desc, &f->train->opts))
        warn(f, "data.eval_share counts for nothing: %s%s",
            d->eval_path != NULL ? "data.eval_path names what to evaluate on"
                                 : "samples are held out already by data.source = ",
            d->eval_path != NULL ? "" : desc->name);
    if (desc != &dt_source_text && d->vocab != NULL && is_meant(s, "vocab"))
        warn(f, "data.vocab counts for nothing: it is for data.source = text");
    if (desc != &dt_source_tensors && dti_session_idle(s, "data", "ignore_label", "source"))
        warn(f, "data.ignore_label counts for nothing: data.source = %s has no labels to leave out",
            desc->name);
    if (desc == &dt_source_tensors && (is_meant(s, "mean") || is_meant(s, "std")) &&
        d->n_mean + d->n_std > 0)
        warn(f,
            "data.mean and data.std change nothing in training: samples of tensors are taken as "
            "they are; classify alone goes by them");
    warn_of_no_eval(f, s);
}

/* Scores that no sample ever asks for are learned all the same, and shares of hits mean less. Of
 * samples that are made up nobody expects more, and the line of the data says how many there are.
 */
static void warn_of_classes(dt_feeds *f, const dt_graph *g)
{
    const dt_source *s = f->train;
    if (dt_graph_label_kind(g) != DT_LABEL_CLASS)
        return;
    const int64_t n = s->desc->classes != NULL ? s->desc->classes(s) : g->classes;
    if (n == 1)
        warn(f, "all samples are of one class, so there is nothing to tell apart");
    else if (n < g->classes && !s->desc->made_up)
        warn(f,
            "%" PRId64 " classes occur in the data, of %" PRId64 " that the network tells apart", n,
            g->classes);
}

/* A network that learns to tell apart more bytes than there are takes memory and time for nothing.
 */
static void warn_of_vocabulary(dt_feeds *f, const dt_graph *g)
{
    enum { BYTES = 256 };
    if (f->train->desc == &dt_source_text && g->classes > BYTES)
        warn(f,
            "the network has a vocabulary of %" PRId64 ", and a text no more than %d different "
            "bytes: model.vocab = %d takes less memory and time",
            g->classes, (int)BYTES, (int)BYTES);
}

/* Of a run that is cut short on the command line nothing else is expected, unless the key is typed
 * with it. */
static bool is_cut_short(const dt_session *s, const char *key)
{
    return !dt_config_typed(s->config, "train", key) &&
           (dt_config_typed(s->config, "train", "steps") ||
               dt_config_typed(s->config, "train", "epochs"));
}

/* A run that ends before lr is what it is to be. */
static void warn_of_schedule(dt_feeds *f, const dt_session *s)
{
    const dt_train_opts *t = &s->opts.train;
    const double epoch = (double)f->steps_per_epoch, steps = (double)f->steps;
    const double warm = (double)t->warmup_steps + (double)t->warmup_epochs * epoch;
    const char *plural = f->steps == 1 ? "" : "s";
    if (warm > 0 && warm >= steps && !is_cut_short(s, "warmup"))
        warn(f,
            "train.warmup = %.40s is no shorter than the run of %" PRId64
            " step%s: lr rises to its end",
            t->warmup_text, f->steps, plural);
    if (t->n_milestone > 0 && (double)t->milestone[0] * epoch >= steps &&
        !is_cut_short(s, "milestones"))
        warn(f,
            "train.milestones = %.40s: the run of %" PRId64
            " step%s ends before the first of these epochs, and lr stays as it is",
            t->milestones_text, f->steps, plural);
}

dt_status dt_feeds_open(dt_feeds *f, const dt_session *s, dt_err *err)
{
    memset(f, 0, sizeof *f);
    const dt_source_desc *desc = dt_source_find(s->opts.data.source);
    dt_source_opts o;
    DT_CHECK(source_opts(s, &o, err));
    DT_CHECK(open_source(&f->train, s, desc, &o, "path", err));
    if (shares(s, desc, &o))
        DT_CHECK(hold(&f->train, s, false, err));
    DT_CHECK(check_full(s, f->train, err));
    const dt_loader_opts l = {.batch = s->opts.train.batch,
        .shuffle = s->opts.data.shuffle && !f->train->fixed_order,
        .drop_last = s->opts.train.drop_last,
        .ahead = (int)s->opts.data.ahead,
        .threads = dti_decoders(s),
        .own_labels = o.unlabelled,
        .by_channel = gives_vector(s),
        .label_kind = dt_graph_label_kind(s->graph),
        .seed = o.seed};
    DT_CHECK(dt_loader_create(&f->train_loader, f->train, &l, err));
    DT_CHECK(count_steps(f, &s->opts.train, dt_loader_feed(f->train_loader)->samples, err));
    DT_CHECK(check_learned(f, s, err));
    DT_CHECK(open_eval(f, s, desc, &o, err));
    warn_of_idle(f, s, desc);
    warn_of_classes(f, s->graph);
    warn_of_vocabulary(f, s->graph);
    warn_of_schedule(f, s);
    describe(f->train, f->note, sizeof f->note);
    describe(f->eval, f->eval_note, sizeof f->eval_note);
    return DT_OK;
}

dt_status dti_feeds_open_eval(dt_feeds *f, const dt_session *s, dt_err *err)
{
    memset(f, 0, sizeof *f);
    const dt_source_desc *desc = dt_source_find(s->opts.data.source);
    dt_source_opts o;
    char asked[DT_ASKED];
    DT_CHECK(source_opts(s, &o, err));
    if (o.path == NULL && s->opts.data.eval_path == NULL && !desc->made_up && !desc->path_optional)
        return DT_FAIL(err, DT_E_CONFIG,
            "%s: data.path is missing: set it, or data.eval_path, to what is to be evaluated on",
            dt_session_asked(asked, s, "data", "source"));
    if (s->of_run != NULL && dt_config_typed(s->config, "data", "eval_share"))
        return DT_FAIL(err, DT_E_CONFIG,
            "%s: what is held out is chosen when a run begins, which has learned from the rest; "
            "name what else to evaluate on with data.eval_path",
            dt_session_asked(asked, s, "data", "eval_share"));
    DT_CHECK(open_eval(f, s, desc, &o, err));
    if (f->eval == NULL)
        return DT_FAIL(err, DT_E_CONFIG,
            "%s: nothing is held out there to evaluate on; name a folder or file of such data with "
            "data.eval_path",
            dt_session_asked(asked, s, "data", "source"));
    describe(f->eval, f->eval_note, sizeof f->eval_note);
    return DT_OK;
}

dt_status dti_feeds_open_pictures(
    dt_feeds *f, dt_source_opts *o, const dt_session *s, bool classes, dt_err *err)
{
    char asked[DT_ASKED];
    const dt_source_desc *desc = dt_source_find(s->opts.data.source);
    const dt_data_opts *d = &s->opts.data;
    if (desc != &dt_source_images && (d->n_mean == 0 || d->n_std == 0))
        return DT_FAIL(err, DT_E_CONFIG,
            "%s: this network learned from %s; classify wants a run with data.source = images, or "
            "data.mean and data.std, which tell how a picture's values, 0 to 1, become what this "
            "network takes: --set data.mean=0 --set data.std=1 as they are",
            dt_session_asked(asked, s, "data", "source"),
            desc->made_up ? "pictures that are made up" : "what is no file of a picture");
    DT_CHECK(source_opts(s, o, err));
    if (classes && f->train == NULL && o->path != NULL && desc->class_name != NULL &&
        desc->open(desc, &f->train, o, NULL) != DT_OK)
        f->train = NULL;
    return DT_OK;
}

void dt_feeds_close(dt_feeds *f)
{
    dt_loader_destroy(f->train_loader);
    dt_loader_destroy(f->eval_loader);
    if (f->train != NULL)
        f->train->desc->close(f->train);
    if (f->eval != NULL)
        f->eval->desc->close(f->eval);
    memset(f, 0, sizeof *f);
}
