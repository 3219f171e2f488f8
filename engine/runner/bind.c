/* From a plan's rows to the steps that the runner takes: addresses, kernels, and which thread. What
 * a plan names is looked up in the network, and must be what it was planned for. */
#include <inttypes.h>
#include <string.h>

#include "engine/base/alloc.h"
#include "engine/runner/bind_values.h"
#include "engine/runner/runner_internal.h"

/* Prepared kernels. */
typedef struct dti_state {
    const dt_kernels *kernels;
    dt_call call;
    void *state;
    int32_t next; /* another of the same node; -1 */
} dti_state;

static bool same_call(const dt_call *a, const dt_call *b)
{
    return a->node == b->node && a->dtype == b->dtype && a->form == b->form && a->alt == b->alt &&
           a->n == b->n && a->home_n == b->home_n && a->codec == b->codec && a->count == b->count &&
           a->packed == b->packed && a->needs_dx == b->needs_dx && a->vector == b->vector &&
           a->add == b->add && a->workspace_limit == b->workspace_limit;
}

/* Prepared state of a call, shared by all ops that make the same call. */
static dt_status state_of(
    dt_runner *r, const dt_kernels *k, const dt_call *c, void **state, dt_err *err)
{
    *state = NULL;
    if (k->create == NULL)
        return DT_OK;
    int32_t *first = &r->first_state[c->node == NULL ? r->o.graph->n_node
                                                     : (size_t)(c->node - r->o.graph->node)];
    for (int32_t i = *first; i >= 0; i = r->state[i].next)
        if (r->state[i].kernels == k && same_call(&r->state[i].call, c)) {
            *state = r->state[i].state;
            return DT_OK;
        }
    if (!dt_grow(&r->state, &r->cap_state, r->n_state, sizeof *r->state))
        return DT_FAIL(err, DT_E_NOMEM, "no memory to prepare kernels");
    DT_CHECK(k->create(c, state, err));
    r->state[r->n_state] = (dti_state){k, *c, *state, *first};
    *first = (int32_t)r->n_state++;
    return DT_OK;
}

/* What is known as rows go by. */
typedef struct binder {
    dt_runner *r;
    const dt_plan *plan;
    dti_plan *to;
    dti_values values;
    int32_t *node;      /* by node of the plan: of the graph */
    uint64_t *off;      /* by tensor: where it lies */
    int32_t *copied;    /* by tensor: the step that copied it out last; -1 */
    int32_t *before;    /* by such a step: the one before it of the same tensor; -1 */
    uint8_t *signaller; /* by event: the stream that signals it */
    uint8_t *awaited;   /* by event: who waits for it that is not in order with it anyway */
    int32_t last[DT_MAX_STREAMS]; /* by thread: its last step */
    int stream[DT_MAX_STREAMS];   /* by stream of the plan: of the runner */
} binder;

enum { AWAITED = 1, CROSSES = 2 }; /* of awaited: by somebody, by another thread */

/* The thread of a stream of the plan. */
static int thread_of(const binder *b, int stream)
{
    const int own = b->stream[stream];
    return dti_streams_threaded(b->r->streams, own) ? own : DT_MAIN_STREAM;
}

/* Whether what two streams of the plan do is in the order of their rows without any event. */
static bool in_order(const binder *b, int one, int other)
{
    return b->r->d->immediate ? thread_of(b, one) == thread_of(b, other) : one == other;
}

static dti_step *new_step(binder *b, const dt_row *row, dti_step_kind kind)
{
    const int32_t at = (int32_t)b->to->n_step++;
    const int thread = thread_of(b, row->stream);
    dti_step *s = &b->to->step[at];
    *s = (dti_step){.r = b->r,
        .kind = kind,
        .row = (int32_t)(row - b->plan->row),
        .next = -1,
        .event = row->event >= 0 && b->awaited[row->event] != 0 ? row->event : -1,
        .stream = b->stream[row->stream],
        .first = (int32_t)b->to->n_touched};
    s->crosses = s->event >= 0 && (b->awaited[s->event] & CROSSES) != 0;
    if (kind == DTI_END)
        return s; /* nothing to do in a run */
    if (b->last[thread] < 0)
        b->to->begin[thread] = at;
    else
        b->to->step[b->last[thread]].next = at;
    b->last[thread] = at;
    if (thread != DT_MAIN_STREAM)
        b->to->threads |= 1U << thread;
    return s;
}

static dti_bytes *touch(binder *b, dti_step *s, int32_t tensor, bool written)
{
    dti_bytes *of = &b->to->touched[b->to->n_touched++];
    *of = (dti_bytes){
        b->off[tensor], b->off[tensor] + b->plan->tensor[tensor].bytes, tensor, written, DT_F32};
    s->n++;
    return of;
}

/* Of the value at a port, or of the gradient there. */
static dt_dtype type_at(const dt_call *c, int port)
{
    if (c->node == NULL)
        return c->dtype;
    if (port == DT_Y || port == DT_DY)
        return dt_graph_dtype(c->graph, (int32_t)(c->node - c->graph->node));
    const int i = port >= DT_DX ? port - DT_DX : port - DT_X;
    return i < c->node->n_in ? dt_graph_dtype(c->graph, c->node->in[i]) : DT_F32;
}

/* ---- what the plan names ---- */

/* Whose plan it is to be. */
typedef struct owner {
    const dt_graph *graph;
    const dt_map *map;
    const dt_context *context;
    int threads;
} owner;

/* A layer computes in the type of the network's values. */
static dt_status check_types(const owner *w, const dt_plan *p, dt_err *err)
{
    const dt_dtype now = w->graph->dtype;
    for (size_t i = 0; i < p->n_op; i++)
        if (p->op[i].node != DT_NONE && p->op[i].dtype != now)
            return DT_FAIL(err, DT_E_CONFIG,
                "%s: planned for values in %s, but this run has %s: plan again, or set "
                "train.precision",
                p->op[i].name, dt_dtype_name((dt_dtype)p->op[i].dtype), dt_dtype_name(now));
    return DT_OK;
}

static dt_status check_header(const owner *w, const dt_plan *p, dt_err *err)
{
    const dt_device_kind device = dt_context_device(w->context);
    const dt_driver *d = dt_device_driver(device);
    const dt_map *m = w->map;
    if (strcmp(p->net, w->graph->name) != 0)
        return DT_FAIL(err, DT_E_CONFIG, "the plan is of network '%s', not of '%s': plan again",
            p->net, w->graph->name);
    if (strcmp(p->device, dt_device_name(device)) != 0)
        return DT_FAIL(err, DT_E_CONFIG,
            "the plan is for device '%s', but this run is on '%s': plan again, or set device.kind",
            p->device, dt_device_name(device));
    if (d != NULL && d->kernels_on_host && p->threads != w->threads)
        return DT_FAIL(err, DT_E_CONFIG,
            "the plan's scratch is for %" PRId32
            " threads, but this run has %d: plan again, or set OMP_NUM_THREADS=%" PRId32,
            p->threads, w->threads, p->threads);
    if (dt_plan_kind(p) < 0)
        return DT_FAIL(err, DT_E_CONFIG, "'%s' is no program of a run", p->program);
    DT_CHECK(check_types(w, p, err));
    if (p->home_n != m->home_n || p->persistent != m->bytes)
        return DT_FAIL(err, DT_E_CONFIG,
            "the plan is for %" PRIu64 " bytes of parameters laid out for micro-batches of %" PRId64
            ", but this run has %zu and %" PRId64
            ": set train.micro_batch, states and freeze back, or plan again",
            p->persistent, p->home_n, m->bytes, m->home_n);
    return DT_OK;
}

/* Where an entry of the map lives, and whether in two generations. */
static dt_status check_place(const dt_plan_tensor *t, const dt_home *h, dt_err *err)
{
    const int then = t->next == t->home ? 1 : 2, now = h->next == h->off ? 1 : 2;
    if (t->tier == h->tier && then == now)
        return DT_OK;
    return DT_FAIL(err, DT_E_CONFIG,
        "the plan keeps '%s' on the %s in %d generation%s, this run on the %s in %d, by "
        "memory.generations and policies that delay updates: set them back, or plan again",
        t->name, dt_place_name(t->tier), then, then == 1 ? "" : "s", dt_place_name((int)h->tier),
        now);
}

/* Tensor i of a plan is entry i of the map, as far as that goes, and no other persists but parts of
 * entries. */
static dt_status check_homes(const owner *w, const dt_plan *p, dt_err *err)
{
    const dt_map *m = w->map;
    for (size_t i = 0; i < p->n_tensor || i < m->n; i++) {
        const dt_plan_tensor *t = i < p->n_tensor ? &p->tensor[i] : NULL;
        const dt_home *h = i < m->n ? &m->home[i] : NULL;
        if (h == NULL &&
            (!t->persistent || (t->tier != DT_AT_DEVICE &&
                                   dti_map_holds(m, t->tier, t->home, t->next, t->bytes) >= 0)))
            continue;
        const bool same = t != NULL && h != NULL && strcmp(t->name, h->name) == 0;
        if (same && t->persistent)
            DT_CHECK(check_place(t, h, err));
        if (!same || !t->persistent || t->home != h->off || t->next != h->next ||
            t->bytes != h->bytes || t->tier != h->tier)
            return DT_FAIL(err, DT_E_CONFIG,
                "the plan keeps '%s' where this run keeps '%s': plan again",
                t != NULL ? t->name : "nothing", h != NULL ? h->name : "nothing");
    }
    return DT_OK;
}

/* In @node, which nodes of the graph the plan's are, with the same options. Mostly they stand in
 * the order of the graph, so what follows the last one found is looked at first. */
static dt_status find_nodes(const dt_graph *g, const dt_plan *p, int32_t *node, dt_err *err)
{
    int32_t next = 0;
    for (size_t i = 0; i < p->n_node; i++) {
        const dt_plan_node *n = &p->node[i];
        if (n->opts >= p->n_text || p->text[p->n_text - 1] != '\0')
            return DT_FAIL(err, DT_E_DATA, "layer '%s' has no options in the plan", n->name);
        const bool follows = next < (int32_t)g->n_node && strcmp(g->node[next].name, n->name) == 0;
        const int32_t found = follows ? next : dt_graph_find(g, n->name);
        if (found < 0)
            return DT_FAIL(err, DT_E_CONFIG,
                "the plan has a layer '%s', but network '%s' has none: plan again", n->name,
                g->name);
        const char *is = g->node[found].opts_text, *planned = p->text + n->opts;
        if (strcmp(is, planned) != 0)
            return DT_FAIL(err, DT_E_CONFIG, "layer '%s' is planned for %s, but is %s: plan again",
                n->name, planned, is);
        node[i] = found;
        next = found + 1;
    }
    return DT_OK;
}

dt_status dt_plan_suits(dt_plan *p, const dt_graph *g, const dt_map *map, const dt_context *context,
    int threads, dt_err *err)
{
    const owner w = {g, map, context, threads};
    int32_t *node = dt_alloc(p->n_node, sizeof *node);
    if (node == NULL)
        return DT_FAIL(err, DT_E_NOMEM, "no memory to look at a plan");
    dt_status st = check_header(&w, p, err);
    if (st == DT_OK)
        st = check_homes(&w, p, err);
    if (st == DT_OK)
        st = find_nodes(g, p, node, err);
    for (size_t i = 0; st == DT_OK && i < p->n_node; i++)
        p->node[i].work = g->node[node[i]].info.work;
    dt_free(node);
    return st;
}

static const dt_codec *codec_of(const dt_runner *r, int32_t number)
{
    const dt_codec_set *s = r->o.codecs;
    return number > 0 && s != NULL && (size_t)number <= s->n ? s->codec[number - 1] : NULL;
}

/* Which parameters' gradients an op adds to those that are there. */
static unsigned added(const dt_plan *p, const dt_plan_op *op)
{
    unsigned bits = 0;
    for (int32_t i = op->first; i < op->first + op->n; i++)
        bits |= dti_adds_bit(p->arg[i].port, p->arg[i].mode);
    return bits;
}

/* The layer whose kernel an op runs, and the call that it is for. */
static dt_status find_call(
    const binder *b, const dt_plan_op *op, const dt_layer_desc **desc, dt_call *c, dt_err *err)
{
    const dt_runner *r = b->r;
    if (op->node < DT_NONE || (op->node >= 0 && (size_t)op->node >= b->plan->n_node))
        return DT_FAIL(err, DT_E_DATA, "%s: no layer %" PRId32, op->name, op->node);
    const dt_node *nd = op->node >= 0 ? &r->o.graph->node[b->node[op->node]] : NULL;
    *desc = nd != NULL             ? nd->desc
            : op->codec > 0        ? (r->o.codecs != NULL ? r->o.codecs->op : NULL)
            : r->o.find_op != NULL ? r->o.find_op(op->layer)
                                   : NULL;
    *c = (dt_call){.context = r->o.context,
        .node = nd,
        .graph = r->o.graph,
        .form = (dt_form_kind)op->form,
        .alt = op->alt,
        .dtype = (dt_dtype)op->dtype,
        .codec = codec_of(r, op->codec),
        .packed = op->packed,
        .n = (int64_t)((uint64_t)op->n1 - (uint64_t)op->n0), /* which are still to be looked at */
        .home_n = r->o.map->home_n,
        .count = op->count,
        .needs_dx = op->needs_dx,
        .vector = op->vector,
        .add = added(b->plan, op),
        .workspace_limit = (size_t)op->limit};
    if (*desc == NULL || strcmp((*desc)->name, op->layer) != 0)
        return DT_FAIL(err, DT_E_CONFIG, "%s: planned as '%s', but here it is '%s': plan again",
            op->name, op->layer, *desc != NULL ? (*desc)->name : "unknown");
    if (op->codec > 0 && c->codec == NULL)
        return DT_FAIL(err, DT_E_CONFIG, "%s: no codec %" PRId32, op->name, op->codec);
    return DT_OK;
}

/* A part of the batch is computed as the whole would be: results are those of any other cut. */
static dt_status check_piece(const dt_plan *p, const dt_plan_op *op, const dt_layer_desc *desc,
    const dt_call *c, const dt_facts *f, dt_err *err)
{
    dt_facts whole;
    dt_call all = *c;
    all.n = p->batch;
    if (c->node == NULL || c->n == p->batch)
        return DT_OK;
    DT_TRY(err, dti_call_facts(&all, desc, &whole, err), "%s", op->name);
    if (strcmp(whole.impl, f->impl) == 0 && whole.layout == f->layout &&
        whole.derived_bytes == f->derived_bytes)
        return DT_OK;
    return DT_FAIL(err, DT_E_DATA,
        "%s: %" PRId64 " of %" PRId64 " samples are computed by '%s', and all by '%s'%s: plan "
        "again",
        op->name, c->n, p->batch, f->impl, whole.impl,
        strcmp(whole.impl, f->impl) == 0 ? " in another layout" : "");
}

/* What the device would do now is what the plan is for. */
static dt_status check_facts(const binder *b, const dt_plan_op *op, const dt_layer_desc *desc,
    const dt_call *c, dt_facts *f, dt_err *err)
{
    uint64_t work = 0;
    DT_TRY(err, dti_call_facts(c, desc, f, err), "%s", op->name);
    for (int32_t i = op->first; i < op->first + op->n; i++)
        if (b->plan->arg[i].port == DT_WORK)
            work = b->plan->tensor[b->plan->arg[i].tensor].bytes;
    if (op->algorithm[0] != '\0' && strcmp(op->algorithm, f->impl) != 0)
        return DT_FAIL(err, DT_E_CONFIG, "%s: planned for the algorithm '%s', but '%s' is chosen",
            op->name, op->algorithm, f->impl);
    if (work != f->work_bytes)
        return DT_FAIL(err, DT_E_CONFIG,
            "%s: planned with %" PRIu64 " bytes of scratch, but here it wants %zu: plan again on "
            "this machine",
            op->name, work, f->work_bytes);
    return check_piece(b->plan, op, desc, c, f, err);
}

/* ---- rows ---- */

/* Where a tensor lives on the host, within the reach of the device's kernels. */
static dt_status bind_in_slot(
    const binder *b, const dt_plan_op *op, const dt_plan_arg *a, void **at, dt_err *err)
{
    unsigned char *map = b->r->tier[DT_TIER_HOST].map;
    if (map == NULL)
        return DT_FAIL(err, DT_E_CONFIG,
            "%s works on the host's memory, of which this run has none: plan again", op->name);
    *at = map + b->plan->tensor[a->tensor].home;
    return DT_OK;
}

static dt_status bind_compute(binder *b, const dt_row *row, dt_err *err)
{
    const dt_plan_op *op = &b->plan->op[row->op];
    const dt_layer_desc *desc;
    dti_step *s = new_step(b, row, DTI_COMPUTE);
    dti_compute *c = &s->compute;
    s->name = b->to->op[row->op].name;
    *c = (dti_compute){.op = row->op, .launched = 1, .updates = DT_NONE, .gradient = DT_NONE};
    DT_CHECK(find_call(b, op, &desc, &c->call, err));
    c->host = op->on_host && !b->r->d->host_memory;
    if (c->host != (s->stream != DT_MAIN_STREAM))
        return DT_FAIL(err, DT_E_DATA, "%s: %s: plan again", op->name,
            c->host ? "the host computes it, but its row is not on the host's stream"
                    : "its row is on the stream of what the host computes");
    c->kernels = c->host ? desc->cpu : dti_kernels_of(desc, b->r->o.context);
    /* Kept, the device's work would be cut into pieces at each copy that the host waits for, and
     * pieces wait for each other. */
    b->to->plain = b->to->plain || c->host;
    c->args.n = c->call.n;
    c->args.sample0 = op->n0;
    c->args.layer = c->call.node == NULL ? DT_NONE : c->call.node->key;
    c->args.seed = b->r->o.seed;
    c->args.accumulate = dt_plan_kind(b->plan) == DT_PROGRAM_AGAIN;
    if (c->kernels == NULL)
        return DT_FAIL(err, DT_E_DEVICE, "%s: no %s kernels", op->name,
            dt_device_name(dt_context_device(b->r->o.context)));
    dt_facts facts;
    DT_CHECK(dti_values_check_call(&b->values, op, desc, &c->call, err));
    DT_CHECK(check_facts(b, op, desc, &c->call, &facts, err));
    DT_CHECK(dti_values_check_op(&b->values, op, desc, &c->call, &facts, err));
    DT_TRY(err, state_of(b->r, c->kernels, &c->call, &c->state, err), "%s", op->name);
    for (int32_t i = op->first; i < op->first + op->n; i++) {
        const dt_plan_arg *a = &b->plan->arg[i];
        if (op->form == DT_UPDATE && a->port == DT_P) {
            c->updates = b->values.entry[a->tensor];
            c->call.rate =
                dti_node_rate(&b->values.graph->node[b->values.map->home[c->updates].node]);
        }
        if (op->form == DT_UPDATE && a->port == DT_DP && a->from == 0)
            c->gradients = (int64_t)(b->plan->tensor[a->tensor].bytes / sizeof(float));
        if (dt_plan_in_slot(op, &b->plan->tensor[a->tensor])) {
            DT_CHECK(bind_in_slot(b, op, a, &c->args.port[a->port], err));
            if (a->port == DT_DP && (size_t)a->tensor >= b->r->o.map->n)
                return DT_FAIL(err, DT_E_DATA,
                    "%s: %s is updated where it lives, and so as a whole", op->name,
                    b->plan->tensor[a->tensor].name);
            c->gradient = a->port == DT_DP ? a->tensor : c->gradient;
            continue;
        }
        if (c->host)
            return DT_FAIL(err, DT_E_CONFIG,
                "%s works on the host's memory, but %s lives elsewhere: plan again", op->name,
                b->plan->tensor[a->tensor].name);
        if (op->kind == DT_OP_ENCODE && a->port == DT_X)
            c->args.layer = dti_values_maker(&b->values, a->tensor);
        c->args.port[a->port] = b->r->base + b->off[a->tensor] + a->from;
        touch(b, s, a->tensor, a->mode != DT_READ)->type = type_at(&c->call, a->port);
    }
    return DT_OK;
}

static dt_status bind_fetch(binder *b, const dt_row *row, dt_err *err)
{
    DT_CHECK(dti_values_fetch(&b->values, row, err));
    dti_step *s = new_step(b, row, DTI_FETCH);
    s->name = b->to->tensor[row->tensor].name;
    s->fetch = (dti_fetch){b->r->base + row->off, row->bytes, row->slot != 0};
    (void)touch(b, s, row->tensor, true);
    return dti_input_reserve(b->r, &s->fetch, err);
}

/* Memory that a copy needs on its way to or from a tier which has no map. */
static dt_status reserve_stage(binder *b, const dti_step *s, dt_err *err)
{
    const dti_copy *c = &s->copy;
    const dt_driver *d = b->r->d;
    if (c->codec != NULL && !d->can_pack(c->codec))
        return DT_FAIL(
            err, DT_E_DEVICE, "%s: codec '%s' has no %s kernels", s->name, c->codec->name, d->name);
    if (b->r->tier[c->tier].map != NULL || (c->codec == NULL && d->host_memory))
        return DT_OK;
    return dti_stage_reserve(b->r, s->stream, c->codec != NULL ? c->stored : c->bytes, err);
}

/* The step that wrote the slot; none where that is the tensor's home. */
static dt_status find_pair(const binder *b, dti_step *s, int32_t tensor, dt_err *err)
{
    int32_t i = b->copied[tensor];
    s->copy.pair = -1;
    if (b->plan->tensor[tensor].persistent)
        return DT_OK;
    while (i >= 0 &&
           (b->to->step[i].copy.tier != s->copy.tier || b->to->step[i].copy.slot != s->copy.slot))
        i = b->before[i];
    s->copy.pair = i;
    return i >= 0 ? DT_OK
                  : DT_FAIL(err, DT_E_CONFIG, "a copy in of %s that was never copied out",
                        b->plan->tensor[tensor].name);
}

static dt_status bind_copy(binder *b, const dt_row *row, dt_err *err)
{
    dti_step *s = new_step(b, row, DTI_COPY);
    s->name = b->to->tensor[row->tensor].name;
    s->copy = (dti_copy){.out = row->kind == DT_ROW_COPY_OUT,
        .tier = (dt_tier)row->tier,
        .device = b->r->base + row->off,
        .slot = row->slot,
        .bytes = row->bytes,
        .stored = row->stored,
        .codec = codec_of(b->r, row->codec),
        .home = b->values.entry[row->tensor]};
    if (row->codec > 0 && s->copy.codec == NULL)
        return DT_FAIL(err, DT_E_CONFIG, "copy of %s: no codec %" PRId32, s->name, row->codec);
    const int32_t at = (int32_t)(s - b->to->step);
    if (s->copy.out) {
        DT_CHECK(dti_values_save(&b->values, row, at, s->copy.codec, err));
        b->before[at] = b->copied[row->tensor];
        b->copied[row->tensor] = at;
    } else {
        DT_CHECK(find_pair(b, s, row->tensor, err));
        if (s->copy.pair >= 0)
            dti_values_restore(&b->values, row->tensor, s->copy.pair);
    }
    (void)touch(b, s, row->tensor, !s->copy.out);
    return reserve_stage(b, s, err);
}

static dt_status bind_row(binder *b, const dt_row *row, dt_err *err)
{
    switch ((dt_row_kind)row->kind) {
    case DT_ROW_PLACE:
        b->off[row->tensor] = row->off;
        dti_values_place(&b->values, row->tensor);
        return DT_OK;
    case DT_ROW_RELEASE:
        (void)touch(b, new_step(b, row, DTI_END), row->tensor, false);
        return DT_OK;
    case DT_ROW_COMPUTE:
        return bind_compute(b, row, err);
    case DT_ROW_COPY_OUT:
    case DT_ROW_COPY_IN:
        return row->tier == DT_TIER_INPUT ? bind_fetch(b, row, err) : bind_copy(b, row, err);
    case DT_ROW_WAIT: /* on one thread the order of rows is order enough */
        if (!in_order(b, b->signaller[row->event], row->stream))
            new_step(b, row, DTI_WAIT)->from = thread_of(b, b->signaller[row->event]);
        return DT_OK;
    case DT_ROW_KINDS:
        break;
    }
    return DT_OK;
}

/* Packed copies whose slot is another's before the run is over, when a device that works later is
 * asked how long they were. */
static void find_reused(dti_plan *p)
{
    for (size_t i = 0; i < p->n_step; i++) {
        dti_step *s = &p->step[i];
        const dti_copy *c = &s->copy;
        if (s->kind != DTI_COPY || !c->out || c->codec == NULL)
            continue;
        for (size_t k = i + 1; k < p->n_step && !s->copy.reused; k++) {
            const dti_copy *x = &p->step[k].copy;
            s->copy.reused = p->step[k].kind == DTI_COPY && x->out && x->tier == c->tier &&
                             x->slot < c->slot + c->stored && c->slot < x->slot + x->stored;
        }
    }
}

/* Each stream of the plan becomes the runner's of its kind and tier. */
static dt_status find_streams(binder *b, dt_err *err)
{
    const dt_runner *r = b->r;
    unsigned taken = 0;
    for (int s = 0; s < b->plan->n_stream; s++) {
        const dt_stream *x = &b->plan->stream[s];
        int own = 0;
        while (own < r->n_stream && ((taken & 1U << own) != 0 || r->stream[own].kind != x->kind ||
                                        r->stream[own].tier != x->tier))
            own++;
        if (own == r->n_stream)
            return DT_FAIL(err, DT_E_CONFIG,
                "the plan has a stream %c, and this run has none of its kind and tier: plan again",
                x->letter);
        b->stream[s] = own;
        taken |= 1U << own;
    }
    return DT_OK;
}

/* A signal comes before its waits. */
static void find_events(binder *b)
{
    for (size_t i = 0; i < b->plan->n_row; i++) {
        const dt_row *row = &b->plan->row[i];
        if (row->event < 0)
            continue;
        const int signals = b->signaller[row->event];
        if (row->kind != DT_ROW_WAIT)
            b->signaller[row->event] = (uint8_t)row->stream;
        else if (!in_order(b, signals, row->stream))
            b->awaited[row->event] |=
                thread_of(b, signals) == thread_of(b, row->stream) ? AWAITED : AWAITED | CROSSES;
    }
}

/* ---- updates ----
 *
 * A network has hundreds of updates, one a parameter, and on a device where a launch costs most are
 * so small that putting them there takes longer than doing them. So those that stand in a row, with
 * no copy, wait or signal between them, go there together, one launch for each kind. No two of a
 * row touch what one of them writes, so their order means nothing. */
enum { MOST_UPDATES = 1024 /* of a row: each is compared with those before it */ };

static bool may_batch(const dti_step *s)
{
    return s->kind == DTI_COMPUTE && s->compute.call.form == DT_UPDATE && !s->compute.host &&
           s->compute.kernels->create == NULL;
}

/* Whether one of them writes what the other touches. */
static bool meet(const dti_plan *p, const dti_step *a, const dti_step *b)
{
    for (int32_t i = a->first; i < a->first + a->n; i++)
        for (int32_t k = b->first; k < b->first + b->n; k++) {
            const dti_bytes *x = &p->touched[i], *y = &p->touched[k];
            if ((x->written || y->written) && x->from < y->to && y->from < x->to)
                return true;
        }
    return false;
}

/* The step behind a row's last, -1 where the plan ends; @first itself, if it is in no row. */
static int32_t end_of_row(const dti_plan *p, int32_t first)
{
    int32_t i = first;
    for (int n = 0; i >= 0 && n < MOST_UPDATES && may_batch(&p->step[i]); n++) {
        for (int32_t k = first; k != i; k = p->step[k].next)
            if (meet(p, &p->step[k], &p->step[i]))
                return i;
        const dti_step *s = &p->step[i];
        i = s->next;
        if (s->event >= 0)
            return i;
    }
    return i;
}

/* All of a row that are of this one's kind become one launch with it; how many. */
static int join(dti_plan *p, dti_step *leader, int32_t end)
{
    dti_step *last = leader;
    for (int32_t i = leader->next; i != end; i = p->step[i].next) {
        dti_step *s = &p->step[i];
        if (s->compute.kernels != leader->compute.kernels)
            continue;
        s->compute.launched = 0;
        leader->compute.launched++;
        last->compute.fused = s;
        last = s;
    }
    return leader->compute.launched;
}

static dt_status make_room(dt_runner *r, int n, dt_err *err)
{
    if (n <= r->fused.cap)
        return DT_OK;
    const dt_call **call = dt_alloc((size_t)n, sizeof *call);
    dt_args *args = dt_alloc((size_t)n, sizeof *args);
    if (call == NULL || args == NULL) { /* plans that are bound still have their room */
        dt_free(call);
        dt_free(args);
        return DT_FAIL(err, DT_E_NOMEM, "no memory to bind a plan");
    }
    dt_free(r->fused.call);
    dt_free(r->fused.args);
    r->fused.call = call;
    r->fused.args = args;
    r->fused.cap = n;
    return DT_OK;
}

static dt_status batch_updates(dt_runner *r, dti_plan *p, dt_err *err)
{
    for (int32_t first = p->begin[DT_MAIN_STREAM]; first >= 0;) {
        const int32_t end = end_of_row(p, first);
        for (int32_t i = first; i != end; i = p->step[i].next)
            if (p->step[i].compute.launched == 1)
                DT_CHECK(make_room(r, join(p, &p->step[i], end), err));
        first = end != first ? end : p->step[first].next;
    }
    return DT_OK;
}

/* ---- a plan ---- */

static dt_status reserve(binder *b, dt_err *err)
{
    const dt_plan *p = b->plan;
    b->off = dt_alloc(p->n_tensor, sizeof *b->off);
    b->copied = dt_alloc(p->n_tensor, sizeof *b->copied);
    b->before = dt_alloc(p->n_row, sizeof *b->before);
    b->node = dt_alloc(p->n_node, sizeof *b->node);
    b->signaller = dt_alloc((size_t)p->n_event, sizeof *b->signaller);
    b->awaited = dt_alloc((size_t)p->n_event, sizeof *b->awaited);
    b->to->step = dt_alloc(p->n_row, sizeof *b->to->step);
    b->to->touched = dt_alloc(p->n_arg + p->n_row, sizeof *b->to->touched);
    b->to->op = dt_alloc(p->n_op, sizeof *b->to->op);
    b->to->tensor = dt_alloc(p->n_tensor, sizeof *b->to->tensor);
    if (b->off == NULL || b->copied == NULL || b->before == NULL || b->node == NULL ||
        b->signaller == NULL || b->awaited == NULL || b->to->step == NULL ||
        b->to->touched == NULL || b->to->op == NULL || b->to->tensor == NULL)
        return DT_FAIL(err, DT_E_NOMEM, "no memory to bind a plan");
    memcpy(b->to->op, p->op, p->n_op * sizeof *p->op);
    memcpy(b->to->tensor, p->tensor, p->n_tensor * sizeof *p->tensor);
    for (size_t t = 0; t < p->n_tensor; t++)
        b->off[t] = p->tensor[t].home;
    for (size_t t = 0; t < p->n_tensor; t++)
        b->copied[t] = -1;
    for (int s = 0; s < DT_MAX_STREAMS; s++)
        b->to->begin[s] = b->last[s] = -1;
    b->to->n_event = p->n_event;
    DT_CHECK(b->r->d->events(b->r->device, p->n_event, err));
    return dti_streams_events(b->r->streams, p->n_event, err);
}

/* By node, and for ops that have none: the first of their states. */
static dt_status reserve_states(dt_runner *r, dt_err *err)
{
    const size_t n = r->o.graph->n_node + 1;
    if (r->first_state != NULL)
        return DT_OK;
    r->first_state = dt_alloc(n, sizeof *r->first_state);
    if (r->first_state == NULL)
        return DT_FAIL(err, DT_E_NOMEM, "no memory to prepare kernels");
    for (size_t i = 0; i < n; i++)
        r->first_state[i] = -1;
    return DT_OK;
}

static dt_status bind(binder *b, dt_err *err)
{
    const dt_runner_opts *o = &b->r->o;
    const owner w = {o->graph, o->map, o->context, o->threads};
    DT_CHECK(check_header(&w, b->plan, err));
    DT_CHECK(check_homes(&w, b->plan, err));
    DT_CHECK(reserve(b, err));
    DT_CHECK(dti_values_init(&b->values, b->r->o.graph, b->r->o.map, b->plan, err));
    DT_CHECK(find_nodes(o->graph, b->plan, b->node, err));
    DT_CHECK(reserve_states(b->r, err));
    DT_CHECK(find_streams(b, err));
    find_events(b);
    for (size_t i = 0; i < b->plan->n_row; i++)
        DT_CHECK(bind_row(b, &b->plan->row[i], err));
    DT_CHECK(dti_values_check_end(&b->values, err));
    if (!b->r->d->immediate)
        find_reused(b->to);
    return b->r->d->launch_costs ? batch_updates(b->r, b->to, err) : DT_OK;
}

dt_status dti_bind(dt_runner *r, const dt_plan *plan, dti_plan *to, dt_err *err)
{
    binder b = {.r = r, .plan = plan, .to = to};
    to->n = plan->batch;
    to->team = plan->threads;
    const dt_status st = bind(&b, err);
    dti_values_deinit(&b.values);
    dt_free(b.off);
    dt_free(b.copied);
    dt_free(b.before);
    dt_free(b.node);
    dt_free(b.signaller);
    dt_free(b.awaited);
    return st;
}

void dti_unbind_plan(dti_plan *p)
{
    dt_free(p->step);
    dt_free(p->touched);
    dt_free(p->op);
    dt_free(p->tensor);
    dt_free(p->span);
    *p = (dti_plan){0};
}

void dti_unbind(dt_runner *r)
{
    for (size_t i = 0; i < r->n_plan; i++)
        dti_unbind_plan(&r->plan[i]);
    for (size_t i = 0; i < r->n_state; i++) {
        const dt_kernels *k = r->state[i].kernels;
        if (k->destroy != NULL && r->state[i].state != NULL)
            k->destroy(r->state[i].state);
    }
    dt_free(r->plan);
    dt_free(r->state);
    dt_free(r->first_state);
    dt_free(r->fused.call);
    dt_free(r->fused.args);
}
