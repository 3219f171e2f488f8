/* What weights.c has for the other files of checkpoints; besides them only their tests include
 * this. */
#ifndef DT_ENGINE_CHECKPOINT_WEIGHTS_INTERNAL_H
#define DT_ENGINE_CHECKPOINT_WEIGHTS_INTERNAL_H

#include "engine/runner/runner.h"

/* What a dti_st_source gives: values from byte @at on of a tensor that persists, whose passage *w
 * is. It begins zeroed, and is closed when all is written. */
dt_status dti_passage_give(dti_passage *w, dt_runner *r, int32_t home, size_t at,
    const void **bytes, size_t *n, dt_err *err) DT_NODISCARD;

enum { DTI_WEIGHT_NAME_BYTES = 2 * DT_NAME_BYTES };

/* @whole: of a tile, "wte.3.weight": the name that the whole has, "wte.weight", of which a file may
 * hold it; else "" */
typedef struct dti_weight {
    char name[DTI_WEIGHT_NAME_BYTES]; /* NODE.PARAM */
    char whole[DTI_WEIGHT_NAME_BYTES];
    dt_part part;
    const dt_param_info *info; /* the graph's */
    int32_t node;
    int param;
} dti_weight;

typedef struct dti_weights {
    size_t n;
    dti_weight *row; /* in the order of nodes, then parameters */
} dti_weights;

/* @buffers: running statistics too. DT_E_NOMEM. */
dt_status dti_weights_init(
    dti_weights *w, const dt_graph *g, bool buffers, dt_err *err) DT_NODISCARD;
void dti_weights_deinit(dti_weights *w);

#endif
