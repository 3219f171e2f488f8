/* Concatenation on the processor. */
#include "layers/shape/concat.h"

#include <string.h>

#include "layers/cpu/cpu.h"
#include "layers/cpu/tasks.h"

/* The wide side is y or dy, the parts the inputs or their gradients; sizes in bytes of one
 * pixel. Tasks are runs of pixels, counted through all samples. */
struct job {
    bool back;
    int n;
    int64_t pixels, each; /* each: pixels of a task */
    size_t wide_bytes, bytes[DT_MAX_IN], at[DT_MAX_IN];
    char *wide, *part[DT_MAX_IN]; /* an input that is not trained has no gradient: NULL */
};

static void task(const void *job, int64_t i)
{
    const struct job *j = job;
    const dti_span s = dti_span_of(j->pixels, j->each, i);
    for (int k = 0; k < j->n; k++) {
        if (j->part[k] == NULL)
            continue;
        const size_t bytes = j->bytes[k];
        char *wide = j->wide + (size_t)s.begin * j->wide_bytes + j->at[k];
        char *part = j->part[k] + (size_t)s.begin * bytes;
        for (int64_t p = s.begin; p < s.end; p++, wide += j->wide_bytes, part += bytes)
            memcpy(j->back ? part : wide, j->back ? wide : part, bytes);
    }
}

static dt_status run(const dt_call *c, void *state, const dt_args *a, dt_err *err)
{
    (void)state, (void)err;
    const dt_shape y = c->node->info.y;
    const size_t element = dt_dtype_bytes(c->dtype);
    struct job j = {.back = c->form == DT_BACKWARD, .n = c->node->n_in, .pixels = a->n * y.h * y.w};
    j.each = dti_ceil_div(DTI_GRAIN, y.c);
    j.wide_bytes = (size_t)y.c * element;
    j.wide = a->port[j.back ? DT_DY : DT_Y];
    size_t at = 0;
    for (int k = 0; k < j.n; k++) {
        j.part[k] = a->port[(j.back ? DT_DX : DT_X) + k];
        j.bytes[k] = (size_t)dt_graph_shape(c->graph, c->node->in[k]).c * element;
        j.at[k] = at;
        at += j.bytes[k];
    }
    dti_run_tasks(dti_ceil_div(j.pixels, j.each), task, &j);
    return DT_OK;
}

const dt_kernels dt_concat_cpu = {.run = run};
