/* What a plan says of a program that is laid out: tables, and rows in the program's order. */
#include <stdio.h>
#include <string.h>

#include "engine/base/alloc.h"
#include "engine/base/cpu.h"
#include "engine/base/numbers_text.h"
#include "memory/codec.h"
#include "memory/lower/lower_internal.h"

static void tensor_table(dti_lowering *l)
{
    const dt_program *p = l->p;
    for (size_t t = 0; t < p->n_tensor; t++) {
        dt_plan_tensor *to = &l->plan->tensor[t];
        memcpy(to->name, p->tensor[t].name, sizeof to->name);
        to->role = (uint16_t)p->tensor[t].role;
        to->bytes = p->tensor[t].bytes;
        to->persistent = p->tensor[t].home != DT_NONE;
        if (!to->persistent)
            continue;
        const dt_home *home = &p->map->home[p->tensor[t].home];
        to->tier = (uint8_t)home->tier;
        to->home = home->off + p->tensor[t].from;
        to->next = home->next + p->tensor[t].from;
    }
    l->plan->n_tensor = p->n_tensor;
}

/* Bytes of the tensor that the op touches: its samples' part of a batched port, and of what it
 * updates the elements that it is for. */
static dt_plan_arg plan_arg(const dt_program *p, const dt_op *op, const dt_operand *a)
{
    const dt_tensor *t = &p->tensor[a->tensor];
    dt_plan_arg g = {a->tensor, a->mode, a->port, 0, t->bytes};
    if (t->sample_bytes > 0 && op->count == 0 && op->n1 - op->n0 != p->n) {
        g.from = (uint64_t)op->n0 * t->sample_bytes;
        g.to = (uint64_t)op->n1 * t->sample_bytes;
    }
    const dt_store store = t->home != DT_NONE ? p->map->home[t->home].store : DT_STORE_F32;
    const uint64_t bytes = dt_stored_bytes(store, op->count);
    if (op->kind == DT_OP_UPDATE && t->bytes > bytes) {
        g.from = dt_stored_bytes(store, op->first);
        g.to = g.from + bytes;
    }
    return g;
}

/* The algorithm that this op takes, where it has a choice that was limited. */
static dt_status plan_algorithm(const dt_program *p, const dt_op *op, dt_plan_op *to, dt_err *err)
{
    dt_algorithms all;
    dt_facts f;
    if (dt_op_call(p, op).workspace_limit == DT_LIMIT_ANY)
        return DT_OK;
    DT_CHECK(dt_op_algorithms(p, op, &all, err));
    if (all.n < 2)
        return DT_OK;
    DT_CHECK(dt_op_facts(p, op, &f, err));
    memcpy(to->algorithm, f.impl, sizeof to->algorithm);
    to->work = f.work_bytes;
    return DT_OK;
}

/* Which kernel, and all that it is told. */
static void name_kernel(const dt_program *p, const dt_op *op, const int32_t *node, dt_plan_op *to)
{
    snprintf(to->layer, sizeof to->layer, "%s", op->desc->name);
    to->node = op->node == DT_NONE ? DT_NONE : node[op->node];
    to->form = (uint8_t)op->form;
    to->alt = op->node == DT_NONE ? 0 : p->alt[op->node];
    to->dtype = (uint8_t)op->dtype;
    to->needs_dx = op->node != DT_NONE && p->needs_dx[op->node];
    to->vector = op->vector;
    to->on_host = op->on_host;
    to->codec = dti_codec_number(op->codec);
    to->packed = op->stored;
    to->n0 = op->n0;
    to->n1 = op->n1;
    to->count = op->count;
    to->limit = dt_op_call(p, op).workspace_limit;
}

/* Bytes of the options of all layers, each ended by NUL. */
static size_t options_bytes(const dt_graph *g)
{
    size_t n = 0;
    for (size_t i = 0; i < g->n_node; i++)
        n += strlen(g->node[i].opts_text) + 1;
    return n;
}

/* The layers whose ops the program has, in the order of the graph. */
static void add_nodes(dti_lowering *l, int32_t *node)
{
    const dt_program *p = l->p;
    dt_plan *plan = l->plan;
    for (size_t i = 0; i < p->n_order; i++) {
        const dt_op *op = &p->op[p->order[i]];
        if (op->desc != NULL && op->node != DT_NONE)
            node[op->node] = 1;
    }
    for (size_t i = 0; i < p->graph->n_node; i++) {
        if (node[i] == 0)
            continue;
        const dt_node *from = &p->graph->node[i];
        const size_t bytes = strlen(from->opts_text) + 1;
        dt_plan_node *to = &plan->node[plan->n_node];
        memcpy(to->name, from->name, sizeof to->name);
        to->opts = plan->n_text;
        to->work = from->info.work;
        memcpy(plan->text + plan->n_text, from->opts_text, bytes);
        plan->n_text += bytes;
        node[i] = (int32_t)plan->n_node++;
    }
}

/* In @node, by node of the graph: its row. */
static dt_status node_table(dti_lowering *l, int32_t **node, dt_err *err)
{
    const dt_graph *g = l->p->graph;
    *node = dt_alloc(g->n_node + 1, sizeof **node);
    l->plan->node = dt_alloc(g->n_node + 1, sizeof *l->plan->node);
    l->plan->text = dt_alloc(options_bytes(g) + 1, 1);
    if (*node == NULL || l->plan->node == NULL || l->plan->text == NULL)
        return DT_FAIL(err, DT_E_NOMEM, "no memory for a plan");
    add_nodes(l, *node);
    return DT_OK;
}

static dt_status op_table(dti_lowering *l, const int32_t *node, dt_err *err)
{
    const dt_program *p = l->p;
    for (size_t i = 0; i < p->n_order; i++) {
        const dt_op *op = &p->op[p->order[i]];
        if (op->desc == NULL)
            continue;
        dt_plan_op *to = &l->plan->op[l->plan->n_op++];
        memcpy(to->name, op->name, sizeof to->name);
        to->kind = (uint16_t)op->kind;
        to->flops = op->flops;
        name_kernel(p, op, node, to);
        to->first = (int32_t)l->plan->n_arg;
        for (int a = 0; a < op->n_arg; a++)
            l->plan->arg[l->plan->n_arg++] = plan_arg(p, op, &op->arg[a]);
        to->n = (int32_t)l->plan->n_arg - to->first;
        const dt_form *f = &op->desc->form[op->form];
        for (int k = 0; k < f->n_over; k++) {
            const int32_t out = dt_op_tensor(op, f->over[k].out);
            const int32_t in = dt_op_tensor(op, f->over[k].in);
            if (out == DT_NONE || in == DT_NONE || out == in)
                continue;
            to->safe[to->n_safe].out = out;
            to->safe[to->n_safe++].in = in;
        }
        DT_TRY(err, plan_algorithm(p, op, to, err), "%s", op->name);
    }
    return DT_OK;
}

/* Why the algorithm that the op takes: how far its limit goes. */
static void algorithm_reason(const dt_plan_op *op, char to[DT_REASON_BYTES])
{
    if (op->limit <= DT_LIMIT_LEAST)
        snprintf(to, DT_REASON_BYTES, "algorithm %.40s: the least scratch", op->algorithm);
    else
        dt_snprintf(to, DT_REASON_BYTES, "algorithm %.40s: fastest within %.1f MiB", op->algorithm,
            (double)op->limit / (1 << 20));
}

/* What the row of an op gives as its reason: that of the policy, that of its algorithm, or both. */
static dt_status op_reason(
    dti_lowering *l, const dt_op *op, const dt_plan_op *with, int32_t *reason, dt_err *err)
{
    int32_t number = 0;
    char algorithm[DT_REASON_BYTES] = "";
    const char *policy = dt_reason_text(&l->p->reasons, op->reason);
    if (with != NULL && with->algorithm[0] != '\0')
        algorithm_reason(with, algorithm);
    if (policy[0] != '\0' || algorithm[0] != '\0')
        DT_CHECK(dt_reasons_add(&l->reasons, &number, err, "%s%s%s", policy,
            policy[0] != '\0' && algorithm[0] != '\0' ? "; " : "", algorithm));
    *reason = number - 1;
    return DT_OK;
}

static dt_row *add_row(dti_lowering *l, dt_row_kind kind, int32_t segment)
{
    dt_row *r = &l->plan->row[l->plan->n_row++];
    *r = (dt_row){
        .kind = (uint16_t)kind, .op = -1, .tensor = -1, .over = -1, .event = -1, .reason = -1};
    if (segment >= 0) {
        r->tensor = l->segment[segment].tensor;
        r->bytes = l->p->tensor[r->tensor].bytes;
        r->off = dti_segment_off(l, segment);
    }
    return r;
}

static dt_status place_row(dti_lowering *l, int32_t segment, dt_err *err)
{
    const dti_live_segment *g = &l->segment[segment];
    dt_row *r = add_row(l, DT_ROW_PLACE, segment);
    int32_t number = 0;
    if (g->over >= 0) {
        r->over = l->segment[g->over].tensor;
        DT_CHECK(dt_reasons_add(&l->reasons, &number, err, "in place: the last reader of %.60s",
            l->p->tensor[r->over].name));
    }
    r->reason = number - 1;
    return DT_OK;
}

static dt_row *copy_row(dti_lowering *l, const dt_op *op, int32_t id, int32_t pos)
{
    const int32_t s = dti_segment_at(l, op->arg[0].tensor, pos);
    const bool out = op->kind == DT_OP_OUT;
    dt_row *r = add_row(l, out ? DT_ROW_COPY_OUT : DT_ROW_COPY_IN, s);
    if (op->kind == DT_OP_FETCH) {
        r->stream = (uint8_t)dt_plan_stream(l->plan, DT_STREAM_IN, DT_TIER_HOST);
        r->tier = DT_TIER_INPUT;
        r->slot = op->arg[0].port == DT_LABELS ? 1 : 0;
        l->plan->in_bytes += r->bytes;
        return r;
    }
    const dti_tier_slot *slot = &l->slot[l->slot_of[id]];
    r->stream =
        (uint8_t)dt_plan_stream(l->plan, out ? DT_STREAM_OUT : DT_STREAM_IN, (int)slot->tier);
    r->tier = (uint8_t)slot->tier;
    r->slot = l->p->map->tier_bytes[slot->tier] + slot->at.off;
    r->stored = slot->at.bytes;
    r->codec = dti_codec_number(op->codec);
    *(out ? &l->plan->out_bytes : &l->plan->in_bytes) += r->stored;
    return r;
}

/* Whether an earlier stay of the segment's tensor has sent it home. */
static bool sent_before(const dti_lowering *l, int32_t segment)
{
    for (int32_t s = l->first[l->segment[segment].tensor]; s < segment; s++)
        if (l->segment[s].home >= 0)
            return true;
    return false;
}

/* A copy of a stay's tensor from home or home. */
static dt_status home_row(dti_lowering *l, int32_t segment, bool out, dt_err *err)
{
    const dt_tensor *t = &l->p->tensor[l->segment[segment].tensor];
    const dt_home *home = &l->p->map->home[t->home];
    dt_row *r = add_row(l, out ? DT_ROW_COPY_OUT : DT_ROW_COPY_IN, segment);
    int32_t number = 0;
    r->stream =
        (uint8_t)dt_plan_stream(l->plan, out ? DT_STREAM_OUT : DT_STREAM_IN, (int)home->tier);
    r->tier = (uint8_t)home->tier;
    r->slot = (out || sent_before(l, segment) ? home->next : home->off) + t->from;
    r->stored = r->bytes;
    *(out ? &l->plan->out_bytes : &l->plan->in_bytes) += r->bytes;
    DT_CHECK(dt_reasons_add(
        &l->reasons, &number, err, "its home is the %s", dt_tier_name((int)home->tier)));
    r->reason = number - 1;
    return DT_OK;
}

/* Segments in the order of a place of theirs: by place, at[place] .. at[place + 1]. */
typedef struct by_place {
    int32_t *at, *segment;
} by_place;

typedef enum which_place { FIRST, LAST, HOME } which_place;

/* -1: it has no such place. */
static int32_t place_of(const dti_live_segment *s, which_place which)
{
    return which == FIRST ? s->first : which == LAST ? s->last : s->home;
}

static bool sort_by_place(const dti_lowering *l, which_place which, by_place *b)
{
    const size_t n = l->p->n_order;
    b->at = dt_alloc(n + 2, sizeof *b->at);
    b->segment = dt_alloc(l->n_segment, sizeof *b->segment);
    if (b->at == NULL || b->segment == NULL)
        return false;
    for (size_t s = 0; s < l->n_segment; s++)
        if (place_of(&l->segment[s], which) >= 0)
            b->at[place_of(&l->segment[s], which) + 2]++;
    for (size_t i = 2; i < n + 2; i++)
        b->at[i] += b->at[i - 1];
    for (size_t s = 0; s < l->n_segment; s++)
        if (place_of(&l->segment[s], which) >= 0)
            b->segment[b->at[place_of(&l->segment[s], which) + 1]++] = (int32_t)s;
    return true;
}

/* What comes before the op at a place. */
static dt_status rows_before(dti_lowering *l, const by_place *begin, int32_t pos, dt_err *err)
{
    for (int32_t k = begin->at[pos]; k < begin->at[pos + 1]; k++) {
        DT_CHECK(place_row(l, begin->segment[k], err));
        if (l->segment[begin->segment[k]].fetch)
            DT_CHECK(home_row(l, begin->segment[k], false, err));
    }
    return DT_OK;
}

/* What comes behind it. */
static dt_status rows_behind(
    dti_lowering *l, const by_place *home, const by_place *end, int32_t pos, dt_err *err)
{
    for (int32_t k = home->at[pos]; k < home->at[pos + 1]; k++)
        DT_CHECK(home_row(l, home->segment[k], true, err));
    for (int32_t k = end->at[pos]; k < end->at[pos + 1]; k++)
        if (l->segment[end->segment[k]].under < 0)
            add_row(l, DT_ROW_RELEASE, end->segment[k]);
    return DT_OK;
}

/* What the program asks a stream to wait for besides what its rows need: such a row has no event
 * yet. */
static void wait_row(dti_lowering *l, uint8_t stream, int32_t tensor)
{
    dt_row *r = add_row(l, DT_ROW_WAIT, -1);
    r->stream = stream;
    r->tensor = tensor;
}

/* Copies back that are awaited before an op. @coming: those under way that some op waits for, @n of
 * them. */
static void await_rows(dti_lowering *l, int32_t before, int32_t *coming, size_t *n)
{
    const dt_program *p = l->p;
    size_t left = 0;
    for (size_t i = 0; i < *n; i++) {
        const dt_op *in = &p->op[coming[i]];
        if (in->join_before == before)
            wait_row(l, DT_MAIN_STREAM, in->arg[0].tensor);
        else
            coming[left++] = coming[i];
    }
    *n = left;
}

/* The row of a copy; one that is joined to the ops begins behind those before it. */
static dt_row *copy_rows(dti_lowering *l, int32_t pos, int32_t *coming, size_t *n)
{
    const int32_t id = l->p->order[pos];
    const dt_op *op = &l->p->op[id];
    if (op->join_before > 0) {
        const int tier = op->kind == DT_OP_FETCH ? DT_TIER_HOST : (int)l->slot[l->slot_of[id]].tier;
        wait_row(l, (uint8_t)dt_plan_stream(l->plan, DT_STREAM_IN, tier), -1);
        coming[(*n)++] = id;
    }
    return copy_row(l, op, id, pos);
}

/* The host's processor makes what is on the host beside a device whose memory it does not reach. */
static bool beside_device(const dt_program *p, const dt_op *op)
{
    return op->on_host && p->map->device != DT_CPU;
}

static bool host_computes(const dt_program *p)
{
    for (size_t i = 0; i < p->n_order; i++)
        if (beside_device(p, &p->op[p->order[i]]))
            return true;
    return false;
}

static uint8_t compute_stream(const dti_lowering *l, const dt_op *op)
{
    return beside_device(l->p, op)
               ? (uint8_t)dt_plan_stream(l->plan, DT_STREAM_COMPUTE, DT_TIER_HOST)
               : DT_MAIN_STREAM;
}

/* @by: by first, last and home place; @coming: room for as many as there are ops */
static dt_status rows(dti_lowering *l, const by_place by[], int32_t *coming, dt_err *err)
{
    const dt_program *p = l->p;
    int32_t compute = 0;
    size_t n_coming = 0;
    for (int32_t pos = 0; pos < (int32_t)p->n_order; pos++) {
        const dt_op *op = &p->op[p->order[pos]];
        await_rows(l, p->order[pos], coming, &n_coming);
        DT_CHECK(rows_before(l, &by[FIRST], pos, err));
        const dt_plan_op *with = op->desc != NULL ? &l->plan->op[compute] : NULL;
        dt_row *r =
            with != NULL ? add_row(l, DT_ROW_COMPUTE, -1) : copy_rows(l, pos, coming, &n_coming);
        if (with != NULL) {
            r->op = compute++;
            r->stream = compute_stream(l, op);
        }
        DT_CHECK(op_reason(l, op, with, &r->reason, err));
        DT_CHECK(rows_behind(l, &by[HOME], &by[LAST], pos, err));
    }
    return DT_OK;
}

static dt_status add_rows(dti_lowering *l, dt_err *err)
{
    enum { PLACES = HOME + 1 };
    by_place by[PLACES] = {{0}};
    bool ok = true;
    for (int i = 0; i < PLACES; i++)
        ok = sort_by_place(l, (which_place)i, &by[i]) && ok;
    int32_t *coming = dt_alloc(l->p->n_order, sizeof *coming);
    dt_status st = ok && coming != NULL ? rows(l, by, coming, err)
                                        : DT_FAIL(err, DT_E_NOMEM, "no memory for a plan");
    dt_free(coming);
    l->plan->reason = l->reasons.text;
    l->plan->n_reason = l->reasons.n;
    l->reasons.text = NULL;
    for (int i = 0; i < PLACES; i++) {
        dt_free(by[i].at);
        dt_free(by[i].segment);
    }
    return st;
}

/* What the plan is of and made by. */
static void describe(const dti_lowering *l)
{
    const dt_program *p = l->p;
    dt_plan *plan = l->plan;
    snprintf(plan->net, sizeof plan->net, "%s", p->graph->name);
    snprintf(plan->policy, sizeof plan->policy, "%s", l->o->policy);
    snprintf(plan->pool, sizeof plan->pool, "%s", l->pool->name);
    snprintf(
        plan->device, sizeof plan->device, "%s", dt_device_name(dt_context_device(p->context)));
    snprintf(plan->program, sizeof plan->program, "%s", dt_program_kind_name(p->kind));
    plan->batch = p->n;
    plan->home_n = p->map->home_n;
    plan->threads = dt_context_device(p->context) == DT_CPU ? dt_cpu_threads() : 0;
    plan->n_stream = dt_usual_streams(plan->stream, host_computes(p));
}

/* Room for all tables and for rows; dti_sync makes its own for WAITs. */
static bool make_tables(const dti_lowering *l)
{
    const dt_program *p = l->p;
    dt_plan *plan = l->plan;
    size_t args = 0;
    for (size_t i = 0; i < p->n_order; i++)
        args += (size_t)p->op[p->order[i]].n_arg;
    plan->tensor = dt_alloc(p->n_tensor, sizeof *plan->tensor);
    plan->op = dt_alloc(p->n_order, sizeof *plan->op);
    plan->arg = dt_alloc(args, sizeof *plan->arg);
    plan->row = dt_alloc(
        3 * p->n_order + 4 * l->n_segment, sizeof *plan->row); /* with two waits for a copy */
    return plan->tensor != NULL && plan->op != NULL && plan->arg != NULL && plan->row != NULL;
}

/* Tables and rows; of WAITs only those that the program asks for. */
dt_status dti_lower_rows(dti_lowering *l, dt_err *err)
{
    describe(l);
    if (!make_tables(l))
        return DT_FAIL(err, DT_E_NOMEM, "no memory for a plan");
    tensor_table(l);
    int32_t *node = NULL;
    dt_status st = node_table(l, &node, err);
    if (st == DT_OK)
        st = op_table(l, node, err);
    dt_free(node);
    return st == DT_OK ? add_rows(l, err) : st;
}
