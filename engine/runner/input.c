/* Batches on their way to the device. The processor copies its own from where it lies. A device
 * that works later than it is told to gets them through two blocks of pinned memory: the queues
 * read one, while the host fills the other with what comes. A block remembers which batch it holds,
 * by its id; so whatever happens between two runs, a batch that is there is found, and any other is
 * copied before its run.
 *
 * Tokens of a batch, and labels that are classes, are places in tables. The processor's kernels
 * refuse one that is out of range when they come to it; those of such a device cannot, so there it
 * is refused before it goes. */
#include <inttypes.h>

#include "engine/base/copy.h"
#include "engine/base/numbers.h"
#include "engine/runner/runner_internal.h"
#include "engine/sample_check.h"

/* Room for the largest batch, twice. What was kept knows the old addresses. */
dt_status dti_input_reserve(dt_runner *r, const dti_fetch *f, dt_err *err)
{
    dti_input *in = &r->input;
    const uint64_t image = f->labels || f->bytes < in->image_bytes ? in->image_bytes : f->bytes;
    const uint64_t label = !f->labels || f->bytes < in->label_bytes ? in->label_bytes : f->bytes;
    if (r->d->immediate || (image == in->image_bytes && label == in->label_bytes))
        return DT_OK;
    const uint64_t each = dt_align_up(image + label, DT_ALIGN);
    void *base;
    DT_TRY(err, r->d->pin(r->device, 2 * each, &base, err), "pin %" PRIu64 " bytes for batches",
        2 * each);
    for (size_t i = 0; i < r->n_plan; i++)
        dti_graphs_forget(r, &r->plan[i]);
    if (in->base[0] != NULL)
        r->d->unpin(r->device, in->base[0]);
    for (int k = 0; k < 2; k++) {
        in->base[k] = (unsigned char *)base + (uint64_t)k * each;
        in->holds[k] = (dt_batch){0};
    }
    in->image_bytes = image;
    in->label_bytes = label;
    return DT_OK;
}

/* ---- what is wrong with a batch ---- */

/* @sample0: place of the first one in the step's batch. */
static dt_status check(const dt_runner *r, const dt_batch *b, int64_t sample0, dt_err *err)
{
    const dt_graph *g = r->o.graph;
    const int64_t labels = dti_runner_labels(r), tokens = dt_graph_tokens(g);
    const dt_label_kind kind = dt_graph_label_kind(g);
    DT_CHECK(kind == DT_LABEL_CLASS
                 ? dt_check_labels(b->labels, b->n * labels, labels, g->classes, sample0, err)
                 : dt_check_values(kind, b->labels, b->n * labels, labels, sample0, err));
    return dt_check_tokens(b->x, b->n * tokens, tokens, dt_graph_vocabulary(g), sample0, err);
}

/* ---- blocks ---- */

static bool holds(const dti_input *in, int block, const dt_batch *b)
{
    const dt_batch *there = &in->holds[block];
    return b->id != 0 && there->id == b->id && there->x == b->x && there->n == b->n;
}

static bool has_room(const dt_runner *r, const dt_batch *b)
{
    const uint64_t n = (uint64_t)b->n, value = dt_dtype_bytes(dti_graph_input_dtype(r->o.graph));
    return n * (uint64_t)dti_runner_sample(r) * value <= r->input.image_bytes &&
           n * (uint64_t)dti_runner_labels(r) * sizeof(int32_t) <= r->input.label_bytes;
}

/* A batch holds floats; values of a network may be narrower. */
static void copy_images(const dt_runner *r, void *to, const float *x, size_t bytes)
{
    if (dti_graph_input_dtype(r->o.graph) == DT_BF16)
        dti_cpu_to_bf16(to, x, (int64_t)(bytes / sizeof(dt_bf16)));
    else
        dt_cpu_copy(to, x, bytes);
}

static void fill(dt_runner *r, int block, const dt_batch *b)
{
    dti_input *in = &r->input;
    const size_t value = dt_dtype_bytes(dti_graph_input_dtype(r->o.graph));
    copy_images(r, in->base[block], b->x, (size_t)(b->n * dti_runner_sample(r)) * value);
    dt_cpu_copy(in->base[block] + in->image_bytes, b->labels,
        (size_t)(b->n * dti_runner_labels(r)) * sizeof(int32_t));
    in->holds[block] = *b;
}

dt_status dti_input_begin(const dti_run *u, dt_err *err)
{
    dti_input *in = &u->r->input;
    const dt_batch *b = &u->a->batch;
    if (u->r->d->immediate || b->x == NULL || holds(in, in->now, b))
        return DT_OK;
    if (holds(in, 1 - in->now, b)) {
        in->now = 1 - in->now;
        return DT_OK;
    }
    DT_CHECK(check(u->r, b, u->a->sample0, err));
    if (in->base[in->now] != NULL) /* the other one keeps what may still come */
        fill(u->r, in->now, b);
    return DT_OK;
}

dt_status dti_input_fetch(const dti_run *u, const dti_step *s, dt_err *err)
{
    dt_runner *r = u->r;
    const dti_fetch *f = &s->fetch;
    const dt_batch *b = &u->a->batch;
    if (!r->d->immediate)
        return r->d->copy(r->device, s->stream, f->device,
            r->input.base[r->input.now] + (f->labels ? r->input.image_bytes : 0), f->bytes, err);
    if (f->labels)
        dt_cpu_copy(f->device, b->labels, f->bytes);
    else
        copy_images(r, f->device, b->x, f->bytes);
    return DT_OK;
}

/* One that is wrong is left to its own run, which says so. */
void dti_input_coming(const dti_run *u)
{
    dti_input *in = &u->r->input;
    const dt_batch *b = &u->a->coming;
    const int other = 1 - in->now;
    if (b->x == NULL || b->id == 0 || in->base[other] == NULL || !has_room(u->r, b) ||
        holds(in, other, b) || holds(in, in->now, b))
        return;
    if (check(u->r, b, 0, NULL) == DT_OK)
        fill(u->r, other, b);
}
