/* What a network gives for each sample that was held out, as a file. */
#include <inttypes.h>
#include <string.h>

#include "engine/base/alloc.h"
#include "engine/checkpoint/safetensors.h"
#include "session/run/run_internal.h"

enum { MOST = 64 }; /* samples at a time */

/* @each: values of a sample of the input; @gives: of the output; @most: samples at a time, no more
 * than the plans take */
typedef struct giver {
    dt_run *r;
    const dt_source *from;
    dt_shape output;
    int64_t samples, each, gives, most;
    float *x, *y, *plain; /* of some samples; plain: channels first, as files have it */
    int32_t *labels;      /* of one; nobody reads them here */
} giver;

static dt_status giver_init(giver *g, dt_run *r, dt_err *err)
{
    const dt_graph *of = r->s->graph;
    *g = (giver){.r = r, .from = r->feeds.eval, .output = dt_graph_output(of)};
    g->output.c = of->classes; /* of all tiles */
    g->samples = g->from->desc->count(g->from);
    g->each = dt_shape_sample(&of->input);
    g->gives = dt_shape_sample(&g->output);
    g->most = r->s->micro_batch < MOST ? r->s->micro_batch : MOST;
    g->x = dt_alloc((size_t)(g->each * g->most), sizeof *g->x);
    g->y = dt_alloc((size_t)(g->gives * g->most), sizeof *g->y);
    g->plain = dt_alloc((size_t)(g->gives * g->most), sizeof *g->plain);
    g->labels = dt_alloc((size_t)dt_graph_labels(of), sizeof *g->labels);
    return g->x != NULL && g->y != NULL && g->plain != NULL && g->labels != NULL
               ? DT_OK
               : DT_FAIL(err, DT_E_NOMEM, "no memory to look at samples");
}

static void giver_deinit(giver *g)
{
    dt_free(g->x);
    dt_free(g->y);
    dt_free(g->plain);
    dt_free(g->labels);
}

static void to_plain(const giver *g, int64_t n)
{
    const int64_t plane = g->output.h * g->output.w, c = g->output.c;
    for (int64_t i = 0; i < n * g->gives; i++) {
        const int64_t sample = i / g->gives, k = i % g->gives;
        g->plain[i] = g->y[sample * g->gives + k % plane * c + k / plane];
    }
}

/* The next samples, from byte @at of the file's on. */
static dt_status give(void *self, size_t i, size_t at, const void **bytes, size_t *n, dt_err *err)
{
    giver *g = self;
    (void)i;
    const int64_t first = (int64_t)(at / sizeof *g->y) / g->gives, left = g->samples - first;
    const int64_t some = left < g->most ? left : g->most;
    for (int64_t k = 0; k < some; k++)
        DT_CHECK(g->from->desc->read(g->from, first + k, 0, g->x + k * g->each, g->labels, err));
    DT_CHECK(dt_run_scores(g->r, g->x, some, g->y, (size_t)(some * g->gives), err));
    to_plain(g, some);
    *bytes = g->plain;
    *n = (size_t)(some * g->gives) * sizeof *g->y;
    return DT_OK;
}

dt_status dt_run_write_outputs(dt_run *r, const char *path, dt_err *err)
{
    giver g;
    if (r->feeds.eval == NULL)
        return DT_FAIL(err, DT_E_INTERNAL, "outputs without an evaluation before them");
    dt_status st = giver_init(&g, r, err);
    if (st == DT_OK) {
        const dt_st_out y = {"y", DT_ST_F32, 4, {g.samples, g.output.c, g.output.h, g.output.w}};
        st = dt_st_write(path, &y, 1, NULL, 0, give, &g, NULL, err);
    }
    giver_deinit(&g);
    return st;
}
