/* What a network answers to samples of the host program, and its weights in memory. */
#include <inttypes.h>
#include <string.h>

#include "engine/base/alloc.h"
#include "engine/checkpoint/weights.h"
#include "session/budget.h"
#include "session/run_plans.h"
#include "session/run/run_internal.h"
#include "session/run/scores.h"

/* ---- scores ---- */

const dt_planned *dti_run_eval_plan(const dt_run *r, int *id)
{
    const dt_plan_set *plans = r->s->plans;
    for (size_t i = 0; i < r->rig.n && i < plans->n; i++) {
        const dt_planned *p = plans->planned[i];
        if (p->kind != DT_PROGRAM_EVAL || p->dense || p->program == NULL)
            continue;
        *id = r->rig.ready[i].id;
        return p;
    }
    return NULL;
}

dt_status dti_run_open_eval(dt_run *r, int64_t samples, dt_err *err)
{
    dt_session *s = r->s;
    const dt_planned *p;
    dti_session_forget(s); /* of training, which need not fit */
    DT_CHECK(dti_session_plan(s, DT_PROGRAM_EVAL, samples, &p, err));
    DT_CHECK(dti_session_check_run(s, true, err));
    const dt_status st = dti_rig_open_learned(&r->rig, s, err);
    if (st != DT_OK)
        dti_rig_close(&r->rig); /* whoever asks once more is told the same */
    return st;
}

/* @n: samples of the plan; @each: values of one; @rows: of scores of one */
typedef struct asker {
    dt_run *r;
    int id;
    int64_t n, each, rows;
    dti_scores scores;
    float *x; /* for a part that is smaller than the plan */
    int32_t *labels;
} asker;

static void look(void *self, const dt_plan_tensor *t, const void *bytes)
{
    asker *a = self;
    dti_scores_look(&a->scores, t, bytes);
}

static dt_status asker_init(asker *a, dt_run *r, dt_err *err)
{
    const dt_graph *g = r->s->graph;
    const dt_planned *p = dti_run_eval_plan(r, &a->id);
    if (p == NULL)
        return DT_FAIL(err, DT_E_CONFIG,
            "this run has no plan of an evaluation, as nothing is held out or its plans were "
            "given; open another run with its weights as model.weights");
    a->r = r;
    a->n = p->n;
    a->each = dt_shape_sample(&g->input);
    a->rows = dt_graph_score_rows(g);
    a->x = dt_alloc((size_t)a->n, (size_t)a->each * sizeof *a->x);
    a->labels = dt_alloc((size_t)a->n, (size_t)dt_graph_labels(g) * sizeof *a->labels);
    if (a->x == NULL || a->labels == NULL)
        return DT_FAIL(err, DT_E_NOMEM, "no memory to look at samples");
    return dti_scores_init(&a->scores, p->program, a->n * a->rows, err);
}

static void asker_deinit(asker *a)
{
    dti_scores_deinit(&a->scores);
    dt_free(a->x);
    dt_free(a->labels);
}

/* At most as many samples as the plan takes; of fewer the first stands for what is missing. */
static dt_status ask(asker *a, const float *x, int64_t n, float *to, dt_err *err)
{
    const size_t each = (size_t)a->each * sizeof *x;
    for (int64_t i = 0; i < a->n; i++)
        memcpy(a->x + i * a->each, x + (i < n ? i : 0) * a->each, each);
    a->scores.seen = 0;
    const dt_run_args args = {.batch = {a->x, a->labels, a->n, 0}, .step_labels = a->n * a->rows};
    DT_CHECK(dt_runner_run(a->r->rig.runner, a->id, &args, err));
    DT_CHECK(dti_scores_check(&a->scores, err));
    const int64_t values = n * a->rows * a->scores.classes;
    memcpy(to, a->scores.score, (size_t)values * sizeof *to);
    return DT_OK;
}

static dt_status ask_all(asker *a, const float *x, int64_t n, float *to, dt_err *err)
{
    const dt_probe probe = {a, look};
    dt_status st = DT_OK;
    dt_runner_set_probe(a->r->rig.runner, &probe);
    for (int64_t i = 0; i < n && st == DT_OK; i += a->n) {
        st = ask(a, x + i * a->each, n - i < a->n ? n - i : a->n,
            to + i * a->rows * a->scores.classes, err);
        if (st != DT_OK)
            (void)DT_FAIL(
                err, st, "samples %" PRId64 " to %" PRId64, i, (n - i < a->n ? n : i + a->n) - 1);
    }
    dt_runner_set_probe(a->r->rig.runner, NULL);
    return st;
}

/* Whoever is wrong about the network would have others' memory written. */
static dt_status check_count(const dt_run *r, int64_t n, size_t count, dt_err *err)
{
    const dt_graph *g = r->s->graph;
    const int64_t labels = dt_graph_score_rows(g);
    const bool classes = dt_graph_label_kind(g) == DT_LABEL_CLASS;
    uint64_t want;
    if (n < 0)
        return DT_FAIL(err, DT_E_CONFIG, "%" PRId64 " samples: 0 or more", n);
    const bool counted =
        !__builtin_mul_overflow((uint64_t)n, (uint64_t)(labels * g->classes), &want);
    if ((!counted || want != count) && !classes)
        return DT_FAIL(err, DT_E_CONFIG,
            "%" PRId64 " samples of %" PRId64 " values have other than %zu values", n,
            labels * g->classes, count);
    if (!counted || want != count)
        return DT_FAIL(err, DT_E_CONFIG,
            "%" PRId64 " samples of %" PRId64 " label%s and %" PRId64
            " classes have other than %zu scores",
            n, labels, labels == 1 ? "" : "s", g->classes, count);
    return DT_OK;
}

static dt_status scores(dt_run *r, const float *x, int64_t n, float *to, size_t count, dt_err *err)
{
    asker a = {0};
    if (r->failed)
        return DT_FAIL(err, DT_E_CONFIG, "a run whose begin has failed can only be closed");
    DT_CHECK(check_count(r, n, count, err));
    if (r->rig.runner == NULL)
        DT_CHECK(dti_run_open_eval(r, r->s->micro_batch, err));
    dt_status st = asker_init(&a, r, err);
    if (st == DT_OK)
        st = ask_all(&a, x, n, to, err);
    asker_deinit(&a);
    return st;
}

dt_status dt_run_scores(dt_run *r, const float *x, int64_t n, float *to, size_t count, dt_err *err)
{
    DT_CHECK(dti_run_check_idle(r, err));
    if (n > 0) {
        DT_CHECK(dti_run_need(x, "where the samples are", err));
        DT_CHECK(dti_run_need(to, "where the scores are to be put", err));
    }
    dti_session_enter(r->s);
    return dti_run_left(r, scores(r, x, n, to, count, err));
}

/* ---- weights ---- */

_Static_assert((int)DT_WEIGHT_NAME == (int)DT_WEIGHT_NAME_BYTES, "names of weights");

dt_status dti_run_check_weights(const dt_run *r, dt_err *err)
{
    if (r->rig.runner == NULL)
        return DT_FAIL(err, DT_E_CONFIG, "a run that has not begun has no weights");
    if (r->failed && r->s->inside > 0) /* asked by its observer */
        return DT_FAIL(err, DT_E_CONFIG, "the run has no weights yet: it is beginning");
    if (r->failed)
        return DT_FAIL(err, DT_E_CONFIG, "a run whose begin has failed can only be closed");
    if (r->point.broken)
        return DT_FAIL(err, DT_E_CONFIG, "an update, or a write, has failed: no weights are whole");
    return DT_OK;
}

bool dt_run_weight(const dt_run *r, size_t i, dt_weight *to)
{
    dt_weight_place p;
    if (to == NULL || !dti_run_is_open(r) || !dt_weight_at(r->s->graph, i, &p))
        return false;
    memcpy(to->name, p.name, sizeof to->name);
    to->rank = p.info->rank;
    memcpy(to->d, p.info->d, sizeof to->d);
    to->count = dt_param_count(p.info);
    to->trained = p.trained;
    return true;
}

dt_status dt_run_read_weight(dt_run *r, const char *name, float *to, size_t count, dt_err *err)
{
    DT_CHECK(dti_run_check_open(r, err));
    DT_CHECK(dti_run_need(name, "the name of the weight", err));
    DT_CHECK(dti_run_need(to, "where the weight is to be put", err));
    DT_CHECK(dti_run_check_weights(r, err));
    dti_session_enter(r->s);
    return dti_run_left(
        r, dt_weight_read(r->rig.runner, r->s->graph, r->s->plans->map, name, to, count, err));
}

dt_status dt_run_write_weight(
    dt_run *r, const char *name, const float *from, size_t count, dt_err *err)
{
    bool begun = false;
    DT_CHECK(dti_run_check_idle(r, err));
    DT_CHECK(dti_run_need(name, "the name of the weight", err));
    DT_CHECK(dti_run_need(from, "where the values of the weight are", err));
    DT_CHECK(dti_run_check_weights(r, err));
    dti_session_enter(r->s);
    const dt_status st = dt_weight_write(
        r->rig.runner, r->s->graph, r->s->plans->map, name, from, count, &begun, err);
    r->rewritten |= begun;
    r->point.broken |= begun && st != DT_OK;
    return dti_run_left(r, st);
}
