/* One pass over the evaluation feed. */
#include <inttypes.h>

#include "engine/base/alloc.h"
#include "engine/base/clock.h"
#include "engine/label.h"
#include "engine/train/train_internal.h"

/* What an evaluation adds up, batch after batch. @of: of each class, where pixels are counted. */
typedef struct tally {
    dt_metrics sum;
    dt_class_count *of;
    size_t classes;
    void *batch; /* of one batch, as it lies on the device */
    size_t bytes;
} tally;

static dt_status tally_init(tally *t, const dt_train_job *j, dt_err *err)
{
    *t = (tally){.bytes = j->map->home[j->map->metrics].bytes};
    t->classes = (t->bytes - sizeof(dt_metrics)) / sizeof *t->of;
    t->batch = dt_alloc(1, t->bytes);
    t->of = dt_alloc(t->classes + 1, sizeof *t->of);
    if (t->batch == NULL || t->of == NULL)
        return DT_FAIL(err, DT_E_NOMEM, "no memory for the counts of an evaluation");
    return DT_OK;
}

static void tally_deinit(tally *t)
{
    dt_free(t->batch);
    dt_free(t->of);
}

static dt_status tally_add(tally *t, const dt_train_job *j, dt_err *err)
{
    const dt_metrics *m = t->batch;
    const dt_class_count *of = (const dt_class_count *)(m + 1);
    DT_CHECK(dti_runner_read(j->runner, j->map->metrics, t->batch, t->bytes, err));
    t->sum.loss_sum += m->loss_sum;
    t->sum.top1 += m->top1;
    t->sum.top5 += m->top5;
    t->sum.count += m->count;
    for (size_t c = 0; c < t->classes; c++) {
        t->of[c].labelled += of[c].labelled;
        t->of[c].predicted += of[c].predicted;
        t->of[c].both += of[c].both;
    }
    return DT_OK;
}

static double mean_iou(const tally *t)
{
    double sum = 0;
    int64_t occurring = 0;
    for (size_t c = 0; c < t->classes; c++) {
        const dt_class_count *n = &t->of[c];
        const int64_t either = n->labelled + n->predicted - n->both;
        sum += either > 0 ? (double)n->both / (double)either : 0;
        occurring += either > 0;
    }
    return occurring > 0 ? sum / (double)occurring : 0;
}

/* Samples of which a label counts. */
static int64_t count_samples(const dt_train_job *j, const dt_batch *b)
{
    const int64_t each = dti_runner_labels(j->runner);
    int64_t n = 0;
    for (int64_t i = 0; i < b->n; i++) {
        int64_t k = 0;
        while (k < each && b->labels[i * each + k] == DT_LABEL_NONE)
            k++;
        n += k < each;
    }
    return n;
}

static dt_status evaluate_all(const dt_train_job *j, tally *t, int64_t *samples, dt_err *err)
{
    for (int64_t seen = 0; seen < j->eval_feed->samples;) {
        dt_batch b;
        int id;
        DT_TRY(err, j->eval_feed->next(j->eval_feed->self, &b, err), "evaluation");
        DT_CHECK(dti_train_ready(j, DT_PROGRAM_EVAL, b.n, false, &id, err));
        const dt_run_args a = {.batch = b,
            .coming = dti_train_peek(j->eval_feed),
            .step_labels = dti_train_labels(j, &b)};
        DT_TRY(err, dt_runner_run(j->runner, id, &a, err), "evaluation");
        DT_CHECK(tally_add(t, j, err));
        seen += b.n;
        *samples += count_samples(j, &b);
        if (dti_train_stops(j))
            return DT_FAIL(err, DT_E_STOPPED, "stopped in evaluation");
    }
    return DT_OK;
}

dt_status dt_evaluate(const dt_train_job *j, dt_eval_report *r, dt_err *err)
{
    const double began = dt_seconds();
    *r = (dt_eval_report){0};
    DT_CHECK(j->eval_feed->seek(j->eval_feed->self, 0, err));
    tally t;
    dt_status st = tally_init(&t, j, err);
    if (st == DT_OK)
        st = evaluate_all(j, &t, &r->samples, err);
    dti_train_rest(j->eval_feed);
    if (st == DT_OK && t.sum.count == 0)
        st = DT_FAIL(err, DT_E_DATA,
            "evaluation: none of %" PRId64 " samples has a label that counts (" DTI_NO_LABEL ")",
            j->eval_feed->samples);
    const double count = (double)t.sum.count, first = (double)t.sum.top1 / count;
    const dt_label_kind kind = dti_runner_label_kind(j->runner);
    r->loss = t.sum.loss_sum / count;
    r->values = kind != DT_LABEL_CLASS;
    r->top1 = r->values ? 0 : first;
    r->top5 = (double)t.sum.top5 / count;
    r->probabilities = kind == DT_LABEL_PROBABILITY;
    r->accuracy = r->probabilities ? first : 0;
    r->pixels = t.classes > 0;
    r->mean_iou = st == DT_OK ? mean_iou(&t) : 0; /* else there may be no counts */
    r->seconds = dt_seconds() - began;
    tally_deinit(&t);
    return st;
}

dt_status dt_evaluate_blame(const dt_train_job *j, dt_err *err)
{
    const dt_feed *f = j->eval_feed;
    int64_t bad = -1, before = 0;
    DT_CHECK(f->seek(f->self, 0, err));
    for (dt_batch b; bad < 0 && before < f->samples; before += bad < 0 ? b.n : 0) {
        DT_TRY(err, f->next(f->self, &b, err), "evaluation");
        bad = dti_train_bad_sample(j, &b);
    }
    dti_train_rest(f);
    return bad < 0
               ? DT_FAIL(
                     err, DT_E_NONFINITE, "the loss is not finite: these weights give no scores")
               : DT_FAIL(err, DT_E_NONFINITE,
                     "the loss is not finite, as sample %" PRId64
                     " of the evaluation, from 0, has a value that is not: the data is at fault",
                     before + bad);
}
