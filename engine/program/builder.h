/* Inside the program builder: what its parts share. */
#ifndef DT_ENGINE_PROGRAM_BUILDER_H
#define DT_ENGINE_PROGRAM_BUILDER_H

#include "engine/program/program.h"

typedef struct dti_builder {
    dt_program *p;
    const dt_program_opts *o;
    const dt_graph *g;
    int32_t image, labels; /* tensors; labels DT_NONE until fetched */
    int32_t *value;        /* by node: tensor of its output */
    int32_t *grad;         /* by node: sum so far of the gradients of its output, or DT_NONE */
    int32_t *parts;        /* by node: how many gradients will arrive */
    int32_t *arrived;
    int32_t (*stash)[DT_MAX_STASH]; /* by node */
    bool *trained;                  /* by node: it or something before it has parameters */
} dti_builder;

/* Names are cut, never overrun; the engine's own names always fit. */
void dti_name(char to[DT_TENSOR_NAME_BYTES], const char *fmt, ...) DT_PRINTF(2, 3);

/* A transient of fixed + n * sample bytes. */
dt_status dti_add_tensor(dti_builder *b, const char *name, dt_role role, size_t fixed,
    size_t sample, int32_t node, int32_t *id, dt_err *err);
size_t dti_value_bytes(const dti_builder *b, int32_t value); /* of one sample */
int32_t dti_value_tensor(const dti_builder *b, int32_t value);

dt_op dti_start_op(const dti_builder *b, dt_op_kind kind, const dt_layer_desc *desc, int32_t node,
    dt_form_kind form, const char *suffix);
dt_status dti_append(dti_builder *b, dt_op *op, dt_err *err);
dt_status dti_append_work(dti_builder *b, dt_op *op, dt_err *err); /* with the scratch it wants */

/* The persistent tensor of a node's parameter, which may be another node's. */
int32_t dti_home(const dti_builder *b, int32_t node, int i, dt_port port);
void dti_bind_params(
    const dti_builder *b, dt_op *op, dt_ports set, int32_t node, dt_port port, int mode);
dt_status dti_bind_derived(
    dti_builder *b, dt_op *op, int which, dt_form_kind maker, int32_t node, dt_err *err);

dt_status dti_fetch(
    dti_builder *b, const char *name, size_t sample, int port, int32_t *id, dt_err *err);
dt_status dti_forward_node(dti_builder *b, int32_t node, dt_err *err);
dt_status dti_backward_node(dti_builder *b, int32_t node, dt_err *err);
dt_status dti_build_update(dti_builder *b, dt_err *err);

#endif
