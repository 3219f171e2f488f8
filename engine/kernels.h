/* What a device offers for one layer: a table of functions, one per device and layer. The runner
 * binds ops to these; planning asks them for facts. Kernels allocate nothing while they run:
 * scratch is the WORK port, prepared state is made by create. */
#ifndef DT_ENGINE_KERNELS_H
#define DT_ENGINE_KERNELS_H

#include <math.h>

#include "engine/codec.h"
#include "engine/dtype.h"
#include "engine/graph.h"
#include "engine/algorithms.h"

typedef struct dt_context dt_context; /* what a session computes with: engine/context.h */

/**
 * struct dt_call - which op, for which shapes, in which context.
 * @context: NULL: the processor
 * @node:   the graph's node; NULL for ops that belong to no layer (sum, sgd, commit)
 * @graph:  for the shapes of the inputs
 * @form:   which of the layer's ops
 * @alt:    index of the chosen alternative
 * @n:      samples this op works on
 * @home_n: micro-batch of training, which fixes the layout in which parameters live
 * @count:  elements, for ops on parameters
 * @dtype:  of the values it reads and writes
 * @codec @packed: of ops that pack and unpack: how, and the bytes of the packed tensor
 * @needs_dx: false when nothing before the layer is trained, so no DX port is bound
 * @add:    bit i: DP + i holds a gradient to which this op's is added
 * @vector:   of an optimizer: the parameter has one dimension, as biases and weights of norms have
 * @rate:     of the same: what the learning rate is multiplied by; 0: nothing
 * @workspace_limit: the most bytes that the algorithm may take; DT_LIMIT_ANY: the fastest
 */
typedef struct dt_call {
    const dt_context *context;
    const dt_node *node;
    const dt_graph *graph;
    dt_form_kind form;
    int alt;
    dt_dtype dtype;
    const dt_codec *codec;
    size_t packed;
    int64_t n, home_n, count;
    bool needs_dx, vector;
    float rate;
    unsigned add;
    size_t workspace_limit;
} dt_call;

/* The learning rate of an update. */
DT_BOTH static inline double dt_call_rate(float lr, float rate)
{
    return (double)lr * (rate > 0 ? (double)rate : 1.0);
}

/**
 * struct dt_facts - what a device says of an op before it exists.
 * @work_bytes:    scratch
 * @derived_bytes: forward and backward-data: bytes of the weight in the layout this op wants, 0
 * when the parameter as it lives serves
 * @gradient_bytes: backward-weights: bytes of the gradient in the layout this op gives, 0 when it
 * is the parameter's
 * @adds:          the op can add its gradients to those that their ports hold, where the call says
 * so: every value is rounded once by itself and then added, as if it had been stored between. What
 * it then gives is in the parameters' layouts
 * @layout:        equal numbers, equal layouts of all of the op's operands; 0 where there is no
 * choice
 * @impl:          the library's name of what will run, for reports and for telling exact splits;
 * static
 */
typedef struct dt_facts {
    size_t work_bytes, derived_bytes, gradient_bytes;
    bool adds;
    uint64_t layout;
    char impl[DT_IMPL_BYTES];
} dt_facts;

static inline size_t dt_facts_bytes(const dt_facts *f)
{
    return f->work_bytes + f->derived_bytes + f->gradient_bytes;
}

/* Loss and counts of a step, kept on the device, summed over micro-batches. @count: labels that
 * count. Where these are probabilities, top1 counts outputs on the right side of the middle, and
 * where they are other values nothing. Where every pixel has a class, a dt_class_count of each
 * class follows, which only evaluation writes. */
typedef struct dt_metrics {
    double loss_sum;
    int64_t count, top1, top5;
    int64_t nonfinite; /* losses that were NaN or infinite */
    int64_t spare[3];
} dt_metrics;

/* Pixels of a class: labelled with it, predicted to be of it (their greatest score, the first of
 * equals; none with a NaN among the scores), and both. */
typedef struct dt_class_count {
    int64_t labelled, predicted, both;
} dt_class_count;

/**
 * struct dt_hyper - numbers of learning for this step.
 * @no_decay:            weight decay leaves vectors alone
 * @momentum @nesterov:  of sgd
 * @beta1 @beta2 @eps:   of Adam, and but for eps of Lion; the betas are double, as 1 - beta loses
 * digits in single
 * @correction1 @correction2: of Adam's moments in this step, as dti_hyper_correct sets them
 * @clip:                factor of all gradients, when they are @clipped
 * @label_smoothing:     share of a label that is spread over all classes; 0 in evaluation
 */
typedef struct dt_hyper {
    float lr, momentum, weight_decay;
    double beta1, beta2, correction1, correction2;
    float eps, clip, label_smoothing;
    bool clipped, nesterov, no_decay;
} dt_hyper;

/* For the step of that number, from 0: 1 - beta^t, in double precision, as it loses digits in
 * single, and on the host, as powers are rounded otherwise on a card. */
static inline void dti_hyper_correct(dt_hyper *h, int64_t step)
{
    h->correction1 = 1 - pow(h->beta1, (double)(step + 1));
    h->correction2 = 1 - pow(h->beta2, (double)(step + 1));
}

/* What differs from one run of a plan to the next.
 * @sample0: global index in the step's batch of the micro-batch's first sample */
typedef struct dt_now {
    int64_t sample0, step, step_labels;
    dt_hyper hyper;
} dt_now;

/**
 * struct dt_args - one execution.
 * @port:    bytes of each bound port; NULL otherwise. Batched ports already point at sample 0 of
 * this op
 * @n:       samples
 * @layer:   the node's key, of its random numbers; where a value is packed, the node that made it
 * @sample0: global index in the step's batch of this op's first sample, key of its random numbers
 * @step_labels: labels of the whole step that count: gradients are divided by their number
 * @accumulate: a later micro-batch of the step: metrics and pending statistics are added to
 * @overflow: where an op says, by setting it to 1, that packed bytes did not fit; never NULL. The
 * step is then discarded
 * @queue: of a device that works on its own: where kernels go (a cudaStream_t). They are put there
 * once and may be done again and again, so what differs from run to run is not in these members:
 * there step, step_labels and hyper mean nothing, and sample0 counts from the micro-batch's first
 * sample
 * @now: there: what differs, in the device's memory, to be read by the kernels
 */
typedef struct dt_args {
    void *port[DT_PORTS];
    int64_t n, layer, sample0, step, step_labels;
    uint64_t seed;
    bool accumulate;
    int *overflow;
    dt_hyper hyper;
    void *queue;
    const dt_now *now;
} dt_args;

/* Rows [at, at + n) of a parameter: of the first dimension that files give it. */
typedef struct dt_rows {
    int64_t at, n;
} dt_rows;

/**
 * struct dt_kernels - a layer on a device. All but run are optional.
 * @facts:   default: no scratch, parameters as they live. Pure; the device may memoise. Where there
 * are several algorithms, of the one that the workspace limit allows
 * @create:  prepare an op (may allocate); *state goes to run and destroy. Default: NULL state
 * @run:     one execution; allocates nothing
 * @param_bytes: bytes of parameter i as it lives on this device. Default: 4 * elements
 * @param_put @param_get: some rows of parameter i between PyTorch's layout (fp32; @plain is where
 * these rows are) and the one it lives in (@lives is all of it). param_put may overwrite
 * what is at @plain. Default: copy
 * @param_rows: the rows that these two take may be any number of times this many, and fewer at the
 * end; 0: only all together. Default: 1
 * @run_many: of updates that need no create: one execution each of n of them, in any order, as none
 * touches what another writes. Queue, now and hyper are the same in all args. For devices where a
 * launch costs as much as a small op; allocates nothing. Default: run for each
 * @algorithms: those that can compute the op, whatever the limit; default: there is no choice. They
 * differ in bits and in what lives while the op runs, never in how parameters live
 * @impls:   where there are several implementations: their list (engine/implementations.h), from
 * which facts, create, run, destroy and algorithms are made
 */
typedef struct dt_kernels {
    dt_status (*facts)(const dt_call *c, dt_facts *f, dt_err *err);
    dt_status (*create)(const dt_call *c, void **state, dt_err *err);
    void (*destroy)(void *state);
    dt_status (*run)(const dt_call *c, void *state, const dt_args *a, dt_err *err);
    dt_status (*param_bytes)(const dt_call *c, int i, size_t *bytes, dt_err *err);
    dt_status (*param_put)(
        const dt_call *c, int i, dt_rows rows, float *plain, void *lives, dt_err *err);
    dt_status (*param_get)(
        const dt_call *c, int i, dt_rows rows, const void *lives, float *plain, dt_err *err);
    int64_t (*param_rows)(const dt_call *c, int i);
    dt_status (*run_many)(const dt_call *const *c, const dt_args *a, int n, dt_err *err);
    dt_status (*algorithms)(const dt_call *c, dt_algorithms *a, dt_err *err);
    const struct dt_impl *impls;
} dt_kernels;

#endif
