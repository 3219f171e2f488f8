/* What steps and evaluations ask of a job. */
#include <inttypes.h>
#include <math.h>

#include "engine/label.h"
#include "engine/train/train_internal.h"

dt_status dti_train_ready(
    const dt_train_job *j, dt_program_kind kind, int64_t n, bool dense, int *id, dt_err *err)
{
    *id = -1;
    for (size_t i = 0; i < j->n_ready; i++) {
        const dt_ready *r = &j->ready[i];
        if (r->kind == kind && (kind == DT_PROGRAM_UPDATE || r->n == n) &&
            (*id < 0 || r->dense == dense))
            *id = r->id;
    }
    if (*id >= 0)
        return DT_OK;
    return DT_FAIL(
        err, DT_E_INTERNAL, "no %s plan for %" PRId64 " samples", dt_program_kind_name(kind), n);
}

bool dti_train_stops(const dt_train_job *j)
{
    return j->observer->stop != NULL && j->observer->stop(j->observer->self);
}

void dti_train_rest(const dt_feed *f)
{
    if (f->rest != NULL)
        f->rest(f->self);
}

dt_batch dti_train_peek(const dt_feed *f)
{
    return f->peek != NULL ? f->peek(f->self) : (dt_batch){0};
}

int64_t dti_train_bad_sample(const dt_train_job *j, const dt_batch *b)
{
    const int64_t each = dti_runner_sample(j->runner);
    for (int64_t i = 0; i < b->n * each; i++)
        if (!isfinite(b->x[i]))
            return i / each;
    return -1;
}

int64_t dti_train_labels(const dt_train_job *j, const dt_batch *b)
{
    const int64_t all = b->n * dti_runner_labels(j->runner);
    int64_t n = 0;
    for (int64_t i = 0; i < all; i++)
        n += b->labels[i] != DT_LABEL_NONE;
    return n;
}
