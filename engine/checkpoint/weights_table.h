/* For weights.c: which tensors a network has, and how a file differs from them. */
#ifndef DT_ENGINE_CHECKPOINT_WEIGHTS_TABLE_H
#define DT_ENGINE_CHECKPOINT_WEIGHTS_TABLE_H

#include "engine/graph.h"
#include "engine/checkpoint/safetensors.h"

enum { DTI_WEIGHT_NAME_BYTES = 2 * DT_NAME_BYTES };

typedef struct dti_weight {
    char name[DTI_WEIGHT_NAME_BYTES]; /* NODE.PARAM */
    const dt_param_info *info;        /* the graph's */
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

/* Names, shapes and types of a file against those of a network. DT_E_DATA with the table of
 * differences. */
dt_status dti_weights_compare(const dti_weights *w, const dt_graph *g, const dt_st_file *f,
    const char *path, dt_err *err) DT_NODISCARD;

#endif
