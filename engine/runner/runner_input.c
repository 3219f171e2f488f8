/* Batches on their way to a device that works on its own. They go through two blocks of pinned
 * memory: the queues read one, while the host fills the other with what comes. A block remembers
 * which batch it holds, by its id; so whatever happens between two runs, a batch that is there is
 * found, and any other is copied before its run.
 *
 * The labels and tokens of a batch are places in tables. The processor's kernels refuse one that is
 * out of range when they come to it; those of such a device cannot, so there it is refused before
 * it goes. */
#include <inttypes.h>

#include "engine/base/cpu.h"
#include "engine/runner/runner_parts.h"

static bool is_token(float x, int64_t vocabulary)
{
    return x >= 0 && x < (float)vocabulary && x == (float)(int64_t)x;
}

static dt_status check_tokens(const dt_runner *r, const dt_batch *b, int64_t sample0, dt_err *err)
{
    const dt_graph *g = r->o.graph;
    const int64_t each = dt_graph_tokens(g), vocabulary = dt_graph_vocabulary(g);
    for (int64_t i = 0; i < b->n * each; i++)
        if (!is_token(b->x[i], vocabulary))
            return DT_FAIL(err, DT_E_DATA,
                "sample %" PRId64 " of the step has token %g at position %" PRId64
                ", but tokens are whole numbers from 0 to %" PRId64,
                sample0 + i / each, (double)b->x[i], i % each, vocabulary - 1);
    return DT_OK;
}

/* @sample0: place of the first one in the step's batch. */
static dt_status check(const dt_runner *r, const dt_batch *b, int64_t sample0, dt_err *err)
{
    const int64_t each = dt_runner_labels(r), classes = r->o.graph->classes;
    for (int64_t i = 0; i < b->n * each; i++)
        if (b->labels[i] < 0 || b->labels[i] >= classes)
            return DT_FAIL(err, DT_E_DATA,
                "sample %" PRId64 " of the step has label %" PRId32
                ", but the network has classes 0 to %" PRId64,
                sample0 + i / each, b->labels[i], classes - 1);
    return check_tokens(r, b, sample0, err);
}

static bool holds(const dti_block *k, const dt_batch *b)
{
    return b->id != 0 && k->holds.id == b->id && k->holds.x == b->x && k->holds.n == b->n;
}

static bool has_room(const dt_runner *r, const dt_batch *b)
{
    const uint64_t n = (uint64_t)b->n, value = dt_dtype_bytes(dt_graph_input_dtype(r->o.graph));
    return n * (uint64_t)dt_runner_sample(r) * value <= r->device.image_bytes &&
           n * (uint64_t)dt_runner_labels(r) * sizeof(int32_t) <= r->device.label_bytes;
}

static void fill(const dt_runner *r, dti_block *k, const dt_batch *b)
{
    const size_t values = (size_t)(b->n * dt_runner_sample(r));
    const size_t labels = (size_t)(b->n * dt_runner_labels(r)) * sizeof(int32_t);
    if (dt_graph_input_dtype(r->o.graph) == DT_BF16)
        dt_cpu_narrow((dt_bf16 *)(void *)k->base, b->x, (int64_t)values);
    else
        dt_cpu_copy(k->base, b->x, values * sizeof(float));
    dt_cpu_copy(k->base + r->device.image_bytes, b->labels, labels);
    k->holds = *b;
}

dt_status dti_input_begin(const dti_run *u, dt_err *err)
{
    dti_device *v = &u->r->device;
    const dt_batch *b = &u->a->batch;
    if (b->x == NULL || holds(&v->block[v->now], b))
        return DT_OK;
    if (holds(&v->block[1 - v->now], b)) {
        v->now = 1 - v->now;
        return DT_OK;
    }
    DT_CHECK(check(u->r, b, u->a->sample0, err));
    if (v->block[v->now].base != NULL) /* the other one keeps what may still come */
        fill(u->r, &v->block[v->now], b);
    return DT_OK;
}

/* One that is wrong is left to its own run, which says so. */
void dti_input_coming(const dti_run *u)
{
    dti_device *v = &u->r->device;
    const dt_batch *b = &u->a->coming;
    dti_block *other = &v->block[1 - v->now];
    if (b->x == NULL || b->id == 0 || other->base == NULL || !has_room(u->r, b) ||
        holds(other, b) || holds(&v->block[v->now], b))
        return;
    if (check(u->r, b, 0, NULL) == DT_OK)
        fill(u->r, other, b);
}
