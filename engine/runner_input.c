/* The labels and tokens of a batch are places in tables. The processor's kernels refuse one that is
 * out of range when they come to it; those of a device that works on its own cannot, so there it is
 * refused before it goes. */
#include <inttypes.h>

#include "engine/runner_parts.h"

static bool is_token(float x, int64_t vocabulary)
{
    return x >= 0 && x < (float)vocabulary && x == (float)(int64_t)x;
}

static dt_status check_tokens(const dti_run *u, dt_err *err)
{
    const dt_graph *g = u->r->o.graph;
    const dt_batch *b = &u->a->batch;
    const int64_t each = dt_graph_tokens(g), vocabulary = dt_graph_vocabulary(g);
    for (int64_t i = 0; i < b->n * each; i++)
        if (!is_token(b->x[i], vocabulary))
            return DT_FAIL(err, DT_E_DATA,
                "sample %" PRId64 " of the step has token %g at position %" PRId64
                ", but tokens are whole numbers from 0 to %" PRId64,
                u->a->sample0 + i / each, (double)b->x[i], i % each, vocabulary - 1);
    return DT_OK;
}

dt_status dti_input_check(const dti_run *u, dt_err *err)
{
    const dt_batch *b = &u->a->batch;
    if (b->x == NULL)
        return DT_OK;
    const int64_t each = dt_runner_labels(u->r), classes = u->r->o.graph->classes;
    for (int64_t i = 0; i < b->n * each; i++)
        if (b->labels[i] < 0 || b->labels[i] >= classes)
            return DT_FAIL(err, DT_E_DATA,
                "sample %" PRId64 " of the step has label %" PRId32
                ", but the network has classes 0 to %" PRId64,
                u->a->sample0 + i / each, b->labels[i], classes - 1);
    return check_tokens(u, err);
}
