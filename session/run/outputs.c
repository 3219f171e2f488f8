/* What a network gives for each sample that was held out, as a file. */
#include <math.h>
#include <string.h>

#include "engine/base/alloc.h"
#include "engine/checkpoint/safetensors.h"
#include "session/run/run_internal.h"

/* @each: values of a sample of the input; @gives: of the output; @most: samples at a time, as the
 * plans take; @bad: those of these that cannot be read */
typedef struct giver {
    dt_run *r;
    const dt_source *from;
    dt_shape output;
    int64_t samples, each, gives, most;
    float *x, *y, *plain; /* of some samples; plain: channels first, as files have it */
    int32_t *labels;      /* of one; nobody reads them here */
    bool *bad;
} giver;

static dt_status giver_init(giver *g, dt_run *r, dt_err *err)
{
    const dt_graph *of = r->s->graph;
    *g = (giver){.r = r, .from = r->feeds.eval, .output = dt_graph_output(of)};
    g->output.c = of->classes; /* of all tiles */
    g->samples = g->from->desc->count(g->from);
    g->each = dt_shape_sample(&of->input);
    g->gives = dt_shape_sample(&g->output);
    g->most = r->s->micro_batch;
    g->x = dt_alloc((size_t)(g->each * g->most), sizeof *g->x);
    g->y = dt_alloc((size_t)(g->gives * g->most), sizeof *g->y);
    g->plain = dt_alloc((size_t)(g->gives * g->most), sizeof *g->plain);
    g->labels = dt_alloc((size_t)dt_graph_labels(of), sizeof *g->labels);
    g->bad = dt_alloc((size_t)g->most, sizeof *g->bad);
    return g->x != NULL && g->y != NULL && g->plain != NULL && g->labels != NULL && g->bad != NULL
               ? DT_OK
               : DT_FAIL(err, DT_E_NOMEM, "no memory to look at samples");
}

static void giver_deinit(giver *g)
{
    dt_free(g->x);
    dt_free(g->y);
    dt_free(g->plain);
    dt_free(g->labels);
    dt_free(g->bad);
}

static void to_plain(const giver *g, int64_t n)
{
    const int64_t plane = g->output.h * g->output.w, c = g->output.c;
    for (int64_t i = 0; i < n * g->gives; i++) {
        const int64_t sample = i / g->gives, k = i % g->gives;
        g->plain[i] = g->bad[sample] ? NAN : g->y[sample * g->gives + k % plane * c + k / plane];
    }
}

/* The network looks at something in the place of what cannot be read. */
static dt_status read_one(giver *g, int64_t i, int64_t k, dt_err *err)
{
    float *x = g->x + k * g->each;
    dt_err why = {0};
    const dt_status st = g->from->desc->read(g->from, i, 0, x, g->labels, &why);
    g->bad[k] = st == DT_E_DATA && g->from->opts.skip_bad;
    if (st != DT_OK && !g->bad[k])
        return dt_err_append(err, st, why.text);
    if (g->bad[k])
        memset(x, 0, (size_t)g->each * sizeof *x);
    return DT_OK;
}

/* The next samples, from byte @at of the file's on. */
static dt_status give(void *self, size_t i, size_t at, const void **bytes, size_t *n, dt_err *err)
{
    giver *g = self;
    (void)i;
    const int64_t first = (int64_t)(at / sizeof *g->y) / g->gives, left = g->samples - first;
    const int64_t some = left < g->most ? left : g->most;
    for (int64_t k = 0; k < some; k++)
        DT_CHECK(read_one(g, first + k, k, err));
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
    DT_CHECK(dt_runner_set_trace(r->rig.runner, NULL, err)); /* it is no part of the evaluation */
    dt_status st = giver_init(&g, r, err);
    if (st == DT_OK) {
        const dt_st_out y = {"y", DT_ST_F32, 4, {g.samples, g.output.c, g.output.h, g.output.w}};
        st = dt_st_write(path, &y, 1, NULL, 0, give, &g, NULL, err);
    }
    giver_deinit(&g);
    return st;
}
