/* vDNN (Rhu et al., MICRO 2016, section III): the input of a layer, which its backward reads again,
 * waits on the host. It is copied out while the last layer that reads it runs forward, and that
 * layer ends only when the copy has ended. Each layer's backward brings back the input of one layer
 * before it: the nearest not yet back, looking no further than the nearest convolution (figure 10).
 * The classifier, which is what follows the last layer that looks at several positions at once,
 * keeps everything. vdnn_conv moves the inputs of convolutions, vdnn_all those of pools as well.
 *
 * Ours differs:
 * - The paper's networks have no batch norm. vdnn_all moves all that the feature extractor leaves
 *   for backward: inputs of norms and their statistics, outputs of ReLUs, masks and indices. With
 *   values = inputs it moves what the paper names, and keeps the rest.
 * - A value is looked for at the layer whose backward reads it first. In the paper's networks that
 *   is the last to read it forward; but the addition of a residual block has no backward.
 * - A copy out may begin as soon as its value is made, and a copy back is waited for by its first
 *   reader: plans hold no wait that is not needed. The bytes are taken and given back where vDNN
 *   does it. With join = layer a copy back takes place as the paper has it, between the beginning
 *   of a layer's backward and that of the next, which hides less.
 * - What an earlier policy has packed moves packed, and is unpacked when it is back.
 * - The image is not copied out, but fetched again. The authors' followers never move the input of
 *   a network's last layer; where that is a convolution, ours moves it, back beside the loss.
 * - The algorithms of convolutions are no business of the policy: memory.algorithms sets them for
 *   any, fast being the paper's (p), small its (m), fit the greedy choice of vDNN_dyn. */
#include "memory/policies/vdnn_pass.h"

#include <math.h>

#include "engine/base/alloc.h"

const char *const dti_vdnn_joins[] = {
    [DTI_VDNN_READER] = "reader", [DTI_VDNN_LAYER] = "layer", NULL};

/* By node:
 * @offloaded:    its backward is the first to read something that moves
 * @fetched:      the backward of some layer fetches that
 * @fetch_before: the first backward op of the layer that fetches it
 * @join_before:  the first backward op of the layer after that; 0: none */
typedef struct layer {
    bool offloaded, fetched;
    int32_t fetch_before, join_before;
} layer;

typedef struct vdnn {
    dt_program *p;
    const dti_vdnn_opts *o;
    int32_t classifier; /* its first node */
    layer *layer;
    int32_t *kernels; /* by op: how many of those before it run a kernel, which copies do not */
} vdnn;

static bool fully_connected(const dt_node *nd)
{
    return nd->info.n_param > 0 && nd->info.param[0].rank == 2;
}

/* The mean over a whole map, with which residual networks end their features. */
static bool global_average(const dt_graph *g, const dt_node *nd)
{
    const dt_shape x = dt_graph_shape(g, nd->in[0]), *y = &nd->info.y;
    return nd->info.n_param == 0 && nd->desc->n_alt == 0 && y->h * y->w == 1 && x.h * x.w > 1;
}

/* A transformer's linear layers stand between its attentions, and belong to its features. */
static int32_t find_classifier(const dt_graph *g)
{
    int32_t i = 0;
    for (int32_t k = 0; k < (int32_t)g->n_node; k++)
        if ((g->node[k].desc->mixes_positions || dt_graph_convolves(&g->node[k])) &&
            !global_average(g, &g->node[k]))
            i = k + 1;
    while (i < (int32_t)g->n_node && !g->node[i].desc->loss && !fully_connected(&g->node[i]) &&
           !global_average(g, &g->node[i]))
        i++;
    return i;
}

static bool is_convolution(const dt_graph *g, const dt_node *nd)
{
    (void)g;
    return dt_graph_convolves(nd);
}

/* From the places of a window to one, a channel by itself. */
static bool is_pool(const dt_graph *g, const dt_node *nd)
{
    return nd->desc->mixes_positions && nd->desc->max_in == 1 && nd->info.n_param == 0 &&
           dt_graph_shape(g, nd->in[0]).c == nd->info.y.c;
}

/* The node of a kind that reads the tensor, as its input, in forward; DT_NONE: none. */
static int32_t fed(
    const dt_program *p, const dti_gap *g, bool (*of)(const dt_graph *g, const dt_node *nd))
{
    int32_t n;
    const dt_op *packs = &p->op[g->from];
    const int32_t value = packs->kind == DT_OP_ENCODE ? dt_op_tensor(packs, DT_X) : g->tensor;
    const dt_access *a = dt_accesses(p, value, &n);
    for (int32_t i = 0; i < n && dt_pos(p, a[i].op) <= g->from_pos; i++) {
        const dt_op *op = &p->op[a[i].op];
        if (op->kind == DT_OP_FORWARD && of(p->graph, &p->graph->node[op->node]) &&
            dt_op_tensor(op, DT_X) == value)
            return op->node;
    }
    return DT_NONE;
}

/* The access of a tensor right before or after a place in the order; NULL: there is none. */
static const dt_op *neighbour(const dt_program *p, int32_t tensor, int32_t pos, bool before)
{
    int32_t n;
    const dt_op *found = NULL;
    const dt_access *a = dt_accesses(p, tensor, &n);
    for (int32_t i = 0; i < n; i++) {
        if (before && dt_pos(p, a[i].op) < pos)
            found = &p->op[a[i].op];
        if (!before && dt_pos(p, a[i].op) > pos)
            return &p->op[a[i].op];
    }
    return found;
}

/* The ops between which the value waits: those of the gap, or, where an earlier pass has packed it,
 * the last before it was packed and the first after it is unpacked. */
static const dt_op *last_reader(const dt_program *p, const dti_gap *g)
{
    const dt_op *op = &p->op[g->from];
    return op->kind == DT_OP_ENCODE ? neighbour(p, dt_op_tensor(op, DT_X), g->from_pos, true) : op;
}

static const dt_op *first_reader(const dt_program *p, const dti_gap *g)
{
    const dt_op *op = &p->op[g->to];
    return op->kind == DT_OP_DECODE ? neighbour(p, dt_op_tensor(op, DT_Y), g->to_pos, false) : op;
}

/* Whether it is one of the values that are to move. */
static bool wanted(const vdnn *v, const dti_gap *g)
{
    return v->o->moves == DTI_VDNN_ALL || fed(v->p, g, is_convolution) != DT_NONE ||
           (v->o->moves == DTI_VDNN_INPUTS && fed(v->p, g, is_pool) != DT_NONE);
}

/* The gap between forward and backward in which a tensor is offloaded. Its last reader in forward
 * has the largest node, so a value that the classifier reads too stays. */
static bool leaves(const vdnn *v, int32_t tensor, dti_gap *g)
{
    if (!dti_gap_crossing(v->p, tensor, g))
        return false;
    const dt_op *from = last_reader(v->p, g), *to = first_reader(v->p, g);
    return from != NULL && from->kind == DT_OP_FORWARD && from->node < v->classifier &&
           to != NULL && to->node != DT_NONE && wanted(v, g);
}

/* Figure 10: what backward of a layer fetches. */
static int32_t pick_prefetch(const vdnn *v, int32_t l)
{
    for (int32_t k = l - 1; k >= 0; k--) {
        if (v->layer[k].offloaded && !v->layer[k].fetched)
            return k;
        if (dt_graph_convolves(&v->p->graph->node[k]))
            break;
    }
    return DT_NONE;
}

/* The layers in the order of backward, each at its first op. Layers without one bring nothing. */
static void schedule(vdnn *v)
{
    const dt_program *p = v->p;
    int32_t last = DT_NONE, coming = DT_NONE; /* what the layer at hand fetches */
    for (int32_t pos = dt_pos(p, p->loss) + 1; pos < (int32_t)p->n_order; pos++) {
        const dt_op *op = &p->op[p->order[pos]];
        if (op->kind != DT_OP_BACKWARD || op->node == DT_NONE || op->node == last)
            continue;
        last = op->node;
        if (coming != DT_NONE)
            v->layer[coming].join_before = p->order[pos];
        coming = pick_prefetch(v, last);
        if (coming != DT_NONE) {
            v->layer[coming].fetched = true;
            v->layer[coming].fetch_before = p->order[pos];
        }
    }
}

static dt_status explain(const vdnn *v, dti_gap *g, dt_err *err)
{
    dt_program *p = v->p;
    const int32_t convolution = fed(p, g, is_convolution);
    const int idle = (int)(v->kernels[g->to] - v->kernels[g->from] - (p->op[g->from].desc != NULL));
    const int32_t reader = first_reader(p, g)->node;
    if (convolution != DT_NONE)
        return dt_reasons_add(&p->reasons, &g->reason, err,
            "%s: input of convolution %.48s, idle for %d ops", p->policy,
            p->graph->node[convolution].name, idle);
    return dt_reasons_add(&p->reasons, &g->reason, err,
        "%s: before the classifier, for backward of %.48s, idle for %d ops", p->policy,
        p->graph->node[reader].name, idle);
}

double dti_vdnn_slots(double density, int slots)
{
    return fmin(1, (floor(density * slots) + 1) / slots);
}

/* What is known to hold zeros enough is packed; of what is often zero it is assumed. Room is made
 * for no more than the values as they are, and a step whose packed values need more is run again
 * and moves them so. */
static void pack(const vdnn *v, const dt_tensor *t, dti_offload_opt *o)
{
    const dt_pass_env *e = v->o->env;
    if (v->o->choose != NULL) {
        o->codec = v->o->choose(v->o->self, (int32_t)(t - v->p->tensor), &o->density);
        o->most = t->bytes;
        return;
    }
    if (v->o->codec == NULL || !dt_packs(t) || e->dense || t->node == DT_NONE)
        return;
    const double measured = dti_pass_density(e, t, -1);
    double density = measured >= 0 ? measured : v->o->density;
    if (v->o->slots > 0)
        density = dti_vdnn_slots(density, v->o->slots);
    const size_t bytes = dt_packed_bytes(v->o->codec, t->bytes / sizeof(uint32_t), density);
    const bool assumed = v->o->every || dti_often_zero(v->p, t->node);
    if (measured >= 0 ? bytes >= t->bytes : !assumed)
        return;
    o->codec = v->o->codec;
    o->density = density;
    o->most = t->bytes;
}

static dt_status offload(vdnn *v, dti_gap *g, dti_offloads *all, dt_err *err)
{
    DT_CHECK(explain(v, g, err));
    const layer *reader = &v->layer[first_reader(v->p, g)->node];
    const dt_tensor *t = &v->p->tensor[g->tensor];
    dti_offload_opt o = {.release_after = g->from,
        .fetch_before = reader->fetch_before,
        .join_before = v->o->join ? reader->join_before : 0};
    pack(v, t, &o);
    /* A recompute of an earlier pass may read before backward of its layer's neighbour begins. */
    if (!reader->fetched || dt_pos(v->p, o.fetch_before) > g->to_pos) {
        o.fetch_before = DT_NONE;
        o.join_before = 0;
    }
    return dti_offloads_add(all, v->p, g, &o, err);
}

static void count_kernels(vdnn *v)
{
    const dt_program *p = v->p;
    int32_t n = 0;
    for (size_t i = 0; i < p->n_order; i++) {
        v->kernels[p->order[i]] = n;
        n += p->op[p->order[i]].desc != NULL;
    }
}

bool dti_vdnn_joins_layers(const dt_pass_env *e)
{
    const dti_vdnn_section *c = e->opts;
    return c->join == DTI_VDNN_LAYER;
}

dt_status dti_vdnn_pass(dt_program *p, const dti_vdnn_opts *o, dt_err *err)
{
    if (p->loss == DT_NONE)
        return DT_OK;
    vdnn v = {.p = p, .o = o, .classifier = find_classifier(p->graph)};
    v.layer = dt_alloc(p->graph->n_node, sizeof *v.layer);
    v.kernels = dt_alloc(p->n_op, sizeof *v.kernels);
    if (v.layer == NULL || v.kernels == NULL) {
        dt_free(v.layer);
        dt_free(v.kernels);
        return dti_pass_no_memory(err);
    }
    count_kernels(&v);
    dti_gap g;
    for (size_t t = 0; t < p->n_tensor; t++)
        if (leaves(&v, (int32_t)t, &g))
            v.layer[first_reader(p, &g)->node].offloaded = true;
    schedule(&v);
    dti_offloads all = {0};
    dt_status st = DT_OK;
    for (size_t t = 0; t < p->n_tensor && st == DT_OK; t++)
        if (leaves(&v, (int32_t)t, &g))
            st = offload(&v, &g, &all, err);
    st = dti_offloads_end(&all, p, st, err);
    dt_free(v.layer);
    dt_free(v.kernels);
    return st;
}
