/* Tables and rows of the plan, in the program's order; WAIT rows come later. */
#include <stdio.h>
#include <string.h>

#include "engine/base/alloc.h"
#include "engine/base/cpu.h"
#include "memory/codec.h"
#include "memory/lower/lowering.h"

static void tensor_table(dti_lowering *l)
{
    const dt_program *p = l->p;
    for (size_t t = 0; t < p->n_tensor; t++) {
        dt_plan_tensor *to = &l->plan->tensor[t];
        memcpy(to->name, p->tensor[t].name, sizeof to->name);
        to->role = (uint16_t)p->tensor[t].role;
        to->bytes = p->tensor[t].bytes;
        to->persistent = p->tensor[t].home != DT_NONE;
        to->home = to->persistent ? p->map->home[p->tensor[t].home].off : 0;
    }
    l->plan->n_tensor = p->n_tensor;
}

/* Bytes of the tensor that the op touches: its samples' part of a batched port. */
static dt_plan_arg plan_arg(const dt_program *p, const dt_op *op, const dt_operand *a)
{
    const dt_tensor *t = &p->tensor[a->tensor];
    dt_plan_arg g = {a->tensor, a->mode, a->port, 0, t->bytes};
    if (t->sample_bytes > 0 && op->count == 0 && op->n1 - op->n0 != p->n) {
        g.from = (uint64_t)op->n0 * t->sample_bytes;
        g.to = (uint64_t)op->n1 * t->sample_bytes;
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
    to->codec = dti_codec_number(op->codec);
    to->packed = op->stored;
    to->n0 = op->n0;
    to->n1 = op->n1;
    to->count = op->count;
    to->limit = dt_op_call(p, op).workspace_limit;
}

/* The layers whose ops the program has, in the order of the graph. */
static void add_nodes(dti_lowering *l, const char *text, const size_t *at, int32_t *node)
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
        const size_t bytes = strlen(text + at[i]) + 1;
        dt_plan_node *to = &plan->node[plan->n_node];
        memcpy(to->name, p->graph->node[i].name, sizeof to->name);
        to->opts = plan->n_text;
        memcpy(plan->text + plan->n_text, text + at[i], bytes);
        plan->n_text += bytes;
        node[i] = (int32_t)plan->n_node++;
    }
}

/* In @node, by node of the graph: its row. */
static dt_status node_table(dti_lowering *l, int32_t **node, dt_err *err)
{
    const dt_graph *g = l->p->graph;
    char *text;
    size_t *at, bytes;
    DT_CHECK(dt_graph_options(g, &text, &bytes, &at, err));
    *node = dt_alloc(g->n_node + 1, sizeof **node);
    l->plan->node = dt_alloc(g->n_node + 1, sizeof *l->plan->node);
    l->plan->text = dt_alloc(bytes + 1, 1);
    const bool ok = *node != NULL && l->plan->node != NULL && l->plan->text != NULL;
    if (ok)
        add_nodes(l, text, at, *node);
    dt_free(text);
    dt_free(at);
    return ok ? DT_OK : DT_FAIL(err, DT_E_NOMEM, "no memory for a plan");
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
        snprintf(to, DT_REASON_BYTES, "algorithm %.40s: fastest within %.1f MiB", op->algorithm,
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
    const dti_segment *g = &l->segment[segment];
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
    const dti_slot *slot = &l->slot[l->slot_of[id]];
    r->stream =
        (uint8_t)dt_plan_stream(l->plan, out ? DT_STREAM_OUT : DT_STREAM_IN, (int)slot->tier);
    r->tier = (uint8_t)slot->tier;
    r->slot = slot->at.off;
    r->stored = slot->at.bytes;
    r->codec = dti_codec_number(op->codec);
    *(out ? &l->plan->out_bytes : &l->plan->in_bytes) += r->stored;
    return r;
}

/* Segments in the order of their first (or last) places: by place, at[place] .. at[place + 1]. */
typedef struct by_place {
    int32_t *at, *segment;
} by_place;

static bool sort_by_place(const dti_lowering *l, bool last, by_place *b)
{
    const size_t n = l->p->n_order;
    b->at = dt_alloc(n + 2, sizeof *b->at);
    b->segment = dt_alloc(l->n_segment, sizeof *b->segment);
    if (b->at == NULL || b->segment == NULL)
        return false;
    for (size_t s = 0; s < l->n_segment; s++)
        b->at[(last ? l->segment[s].last : l->segment[s].first) + 2]++;
    for (size_t i = 2; i < n + 2; i++)
        b->at[i] += b->at[i - 1];
    for (size_t s = 0; s < l->n_segment; s++)
        b->segment[b->at[(last ? l->segment[s].last : l->segment[s].first) + 1]++] = (int32_t)s;
    return true;
}

static dt_status rows(dti_lowering *l, const by_place *begin, const by_place *end, dt_err *err)
{
    const dt_program *p = l->p;
    int32_t compute = 0;
    for (int32_t pos = 0; pos < (int32_t)p->n_order; pos++) {
        const dt_op *op = &p->op[p->order[pos]];
        for (int32_t k = begin->at[pos]; k < begin->at[pos + 1]; k++)
            DT_CHECK(place_row(l, begin->segment[k], err));
        const dt_plan_op *with = op->desc != NULL ? &l->plan->op[compute] : NULL;
        dt_row *r =
            with != NULL ? add_row(l, DT_ROW_COMPUTE, -1) : copy_row(l, op, p->order[pos], pos);
        if (with != NULL)
            r->op = compute++;
        DT_CHECK(op_reason(l, op, with, &r->reason, err));
        for (int32_t k = end->at[pos]; k < end->at[pos + 1]; k++)
            if (l->segment[end->segment[k]].under < 0)
                add_row(l, DT_ROW_RELEASE, end->segment[k]);
    }
    return DT_OK;
}

static dt_status add_rows(dti_lowering *l, dt_err *err)
{
    by_place begin = {0}, end = {0};
    const bool ok = sort_by_place(l, false, &begin) && sort_by_place(l, true, &end);
    dt_status st =
        ok ? rows(l, &begin, &end, err) : DT_FAIL(err, DT_E_NOMEM, "no memory for a plan");
    l->plan->reason = l->reasons.text;
    l->plan->n_reason = l->reasons.n;
    l->reasons.text = NULL;
    dt_free(begin.at);
    dt_free(begin.segment);
    dt_free(end.at);
    dt_free(end.segment);
    return st;
}

dt_status dti_lower_rows(dti_lowering *l, dt_err *err)
{
    const dt_program *p = l->p;
    dt_plan *plan = l->plan;
    snprintf(plan->net, sizeof plan->net, "%s", p->graph->name);
    snprintf(plan->policy, sizeof plan->policy, "%s", l->o->policy);
    snprintf(plan->pool, sizeof plan->pool, "%s", l->o->pool->name);
    snprintf(
        plan->device, sizeof plan->device, "%s", dt_device_name(dt_context_device(p->context)));
    snprintf(plan->program, sizeof plan->program, "%s", dt_program_kind_name(p->kind));
    plan->batch = p->n;
    plan->home_n = p->home_n;
    plan->threads = dt_context_device(p->context) == DT_CPU ? dt_cpu_threads() : 0;
    plan->budget = l->o->budget;
    plan->n_stream = dt_usual_streams(plan->stream);
    size_t args = 0;
    for (size_t i = 0; i < p->n_order; i++)
        args += (size_t)p->op[p->order[i]].n_arg;
    plan->tensor = dt_alloc(p->n_tensor, sizeof *plan->tensor);
    plan->op = dt_alloc(p->n_order, sizeof *plan->op);
    plan->arg = dt_alloc(args, sizeof *plan->arg);
    plan->row = dt_alloc(p->n_order + 2 * l->n_segment, sizeof *plan->row);
    if (plan->tensor == NULL || plan->op == NULL || plan->arg == NULL || plan->row == NULL)
        return DT_FAIL(err, DT_E_NOMEM, "no memory for a plan");
    tensor_table(l);
    int32_t *node = NULL;
    dt_status st = node_table(l, &node, err);
    if (st == DT_OK)
        st = op_table(l, node, err);
    dt_free(node);
    return st == DT_OK ? add_rows(l, err) : st;
}
