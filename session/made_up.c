/* One made-up batch. */
#include "session/made_up.h"

#include "engine/base/alloc.h"
#include "engine/base/philox.h"

static dt_status next_batch(void *self, dt_batch *out, dt_err *err)
{
    const dti_made_up *m = self;
    (void)err;
    *out = (dt_batch){.x = m->x, .labels = m->labels, .n = m->feed.batch};
    return DT_OK;
}

static dt_status seek(void *self, int64_t epoch, dt_err *err)
{
    (void)self, (void)epoch, (void)err;
    return DT_OK;
}

dt_status dti_made_up_init(dti_made_up *m, const dt_session *s, dt_err *err)
{
    const dt_graph *g = s->graph;
    const int64_t n = s->opts.train.batch, labels = n * dt_graph_labels(g);
    const int64_t values = n * dt_shape_sample(&g->input);
    const int64_t words = dt_graph_tokens(g) > 0 ? dt_graph_vocabulary(g) : 0;
    *m = (dti_made_up){.x = dt_alloc((size_t)values, sizeof *m->x),
        .labels = dt_alloc((size_t)labels, sizeof *m->labels)};
    if (m->x == NULL || m->labels == NULL)
        return DT_FAIL(err, DT_E_NOMEM, "no memory for a batch");
    for (int64_t i = 0; i < values; i++) {
        const uint32_t u = dt_random(1, DT_RANDOM_DATA, 0, 0, (uint64_t)i).v[0];
        m->x[i] = words > 0 ? (float)(u % (uint64_t)words) : 2 * dt_unit(u) - 1;
    }
    for (int64_t i = 0; i < labels; i++) {
        const uint32_t u = dt_random(1, DT_RANDOM_DATA, 1, 0, (uint64_t)i).v[0];
        m->labels[i] = dt_graph_label_kind(g) == DT_LABEL_CLASS
                           ? (int32_t)(u % (uint64_t)g->classes)
                           : dt_label_of_value(dt_unit(u));
    }
    m->feed = (dt_feed){
        .self = m, .next = next_batch, .seek = seek, .samples = n * DTI_MADE_UP_STEPS, .batch = n};
    return DT_OK;
}

void dti_made_up_deinit(dti_made_up *m)
{
    dt_free(m->x);
    dt_free(m->labels);
    *m = (dti_made_up){0};
}

dt_train_opts dti_made_up_opts(const dt_session *s)
{
    dt_train_opts o = s->opts.train;
    o.lr = 1e-12;
    o.schedule = DT_SCHEDULE_CONSTANT;
    o.warmup_steps = o.warmup_epochs = 0;
    return o;
}
