/* The values that a plan's tensors hold while its rows are bound, in their order. What does not fit
 * the network is DT_E_DATA, with the op, the port and what differs. The plan was verified, and is
 * of the map. */
#ifndef DT_ENGINE_RUNNER_BIND_VALUES_H
#define DT_ENGINE_RUNNER_BIND_VALUES_H

#include "engine/kernels.h"
#include "engine/plan.h"

/**
 * struct dti_values - values, by tensor.
 * @program:  dt_program_kind
 * @needs_dx @trained @gradient: by node of the graph; the last is the gradient of its output
 * @last_sharing @sharing: by node: see dti_graph_sharing; @sign: dti_find_signs
 * @holds:    by tensor: the value; 0: none, or scratch
 * @entry:    by tensor: the entry of the map that it is, or is a part of; DT_NONE: it is a
 * transient
 * @written:  by entry of the map: up to which byte ops of the plan have written it
 * @owed:     by entry of the map: gradients for it that were made and not added yet
 * @summed @adder: by entry of a parameter: the gradients that its one holds the sum of, each whole;
 * and the node whose gradient came last, INT32_MAX before the first
 * @ran:      by node and form: the samples that forward and backward have gone through
 * @saved:    by the step that copied it out: the value
 */
typedef struct dti_values {
    const dt_graph *graph;
    const dt_map *map;
    const dt_plan *plan;
    int program;
    bool *needs_dx, *trained;
    int32_t *entry, *last_sharing, *sharing, *sign, *owed, *summed, *adder;
    int64_t (*ran)[DT_FORMS];
    uint64_t *gradient, *holds, *saved, *written;
} dti_values;

dt_status dti_values_init(dti_values *v, const dt_graph *g, const dt_map *map, const dt_plan *p,
    dt_err *err) DT_NODISCARD;
void dti_values_deinit(dti_values *v); /* a zeroed one is fine */

/* What a kernel is told, before it is asked for facts; then all that the op binds, and what it
 * leaves. */
dt_status dti_values_check_call(dti_values *v, const dt_plan_op *op, const dt_layer_desc *desc,
    const dt_call *c, dt_err *err) DT_NODISCARD;
dt_status dti_values_check_op(dti_values *v, const dt_plan_op *op, const dt_layer_desc *desc,
    const dt_call *c, const dt_facts *f, dt_err *err) DT_NODISCARD;

/* The node whose value a tensor holds. */
int32_t dti_values_maker(const dti_values *v, int32_t tensor);

/* All rows are bound: nothing that the program is for was left out. */
dt_status dti_values_check_end(const dti_values *v, dt_err *err) DT_NODISCARD;

/* Rows that are no ops: the batch comes; a copy out, by its step, and the copy back of it; bytes
 * are bound. */
dt_status dti_values_fetch(dti_values *v, const dt_row *r, dt_err *err) DT_NODISCARD;
dt_status dti_values_save(
    dti_values *v, const dt_row *r, int32_t step, const dt_codec *codec, dt_err *err) DT_NODISCARD;
void dti_values_restore(dti_values *v, int32_t tensor, int32_t step);
void dti_values_place(dti_values *v, int32_t tensor);

#endif
