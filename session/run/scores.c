/* Scores gathered from the tensors that ops write. */
#include "session/run/scores.h"

#include <string.h>

#include "engine/base/alloc.h"

static const char *tensor_of(const dt_program *p, int32_t node)
{
    for (size_t i = 0; i < p->n_order; i++) {
        const dt_op *op = &p->op[p->order[i]];
        if (op->kind == DT_OP_FORWARD && op->node == node)
            return p->tensor[dt_op_tensor(op, DT_X)].name;
    }
    return NULL;
}

dt_status dti_scores_init(dti_scores *s, const dt_program *p, int64_t n_row, dt_err *err)
{
    size_t at = 0, tiles = 0;
    dt_scores of;
    while (dt_graph_scores(p->graph, &at, &of))
        tiles++;
    *s = (dti_scores){.n_row = n_row, .classes = p->graph->classes};
    s->tile = dt_alloc(tiles, sizeof *s->tile);
    s->score = dt_alloc((size_t)n_row, (size_t)s->classes * sizeof *s->score);
    if (s->tile == NULL || s->score == NULL)
        return DT_FAIL(err, DT_E_NOMEM, "no memory for the scores");
    for (at = 0; dt_graph_scores(p->graph, &at, &of); s->n++) {
        s->tile[s->n] = (dti_score_tile){
            tensor_of(p, (int32_t)at - 1), dt_graph_dtype(p->graph, of.value), of.first, of.n};
        if (s->tile[s->n].tensor == NULL)
            return DT_FAIL(err, DT_E_INTERNAL, "an evaluation without scores");
    }
    return DT_OK;
}

void dti_scores_deinit(dti_scores *s)
{
    dt_free(s->tile);
    dt_free(s->score);
}

static float value(const void *bytes, int64_t i, dt_dtype type)
{
    return type == DT_BF16 ? dt_bf16_to_float(((const dt_bf16 *)bytes)[i])
                           : ((const float *)bytes)[i];
}

static void take(const dti_scores *s, const dti_score_tile *t, const void *bytes)
{
    for (int64_t r = 0; r < s->n_row; r++)
        for (int64_t c = 0; c < t->n; c++)
            s->score[r * s->classes + t->first + c] =
                value(bytes, (s->row + r) * t->n + c, t->type);
}

void dti_scores_look(dti_scores *s, const dt_plan_tensor *t, const void *bytes)
{
    for (size_t i = 0; i < s->n; i++)
        if (strcmp(t->name, s->tile[i].tensor) == 0) {
            take(s, &s->tile[i], bytes);
            s->seen++;
        }
}

dt_status dti_scores_check(const dti_scores *s, dt_err *err)
{
    return s->seen == s->n ? DT_OK
                           : DT_FAIL(err, DT_E_INTERNAL, "of %zu tiles of scores %zu were written",
                                 s->n, s->seen);
}
