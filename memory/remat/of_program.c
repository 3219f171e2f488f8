/* From a program to a graph: ops in their order, each with the largest of its outputs. */
#include "memory/remat/of_program.h"

#include <math.h>
#include <string.h>

#include "engine/base/alloc.h"
#include "memory/pass.h"

enum { SMALL = 32 }; /* an output of less than this part of the op's largest is left out */

/**
 * struct node - an op to be: whatever runs in one piece.
 * @op @tensor:  of the program; DT_NONE: of none
 * @taken_by:    the node that overwrites this one's value, and does its work; none: it stays
 * @lies_in:     the node whose bytes this one's value takes over, from where on both are read; none
 * @first_edge:  edges to this node are this one or later ones
 */
typedef struct node {
    uint64_t bytes, cost;
    bool once, backward;
    int32_t op, tensor;
    uint32_t taken_by, lies_in;
    size_t first_edge;
} node;

typedef struct building {
    const dt_program *p;
    const dt_plan *plan;
    const double *seconds;
    double unit; /* seconds of one of a cost */
    const bool *away;
    node *v;
    size_t n, cap, n_edge, cap_edge;
    dti_remat_edge *edge;
    uint32_t *of;   /* by tensor: node that made it first, or none */
    uint32_t *back; /* by tensor that is away: node that brings it back, or none */
    int32_t *over;  /* by tensor of the program: whose bytes it takes, or DT_NONE */
    int32_t *readers;
} building;

static const uint32_t none = UINT32_MAX;

static dt_status no_memory(dt_err *err)
{
    return DT_FAIL(err, DT_E_NOMEM, "no memory for a problem of recomputation");
}

static dt_status add_node(building *b, node v, dt_err *err)
{
    if (!dt_grow(&b->v, &b->cap, b->n, sizeof *b->v))
        return no_memory(err);
    b->v[b->n++] = v;
    return DT_OK;
}

static dt_status add_edge(building *b, uint32_t from, uint32_t to, dt_err *err)
{
    if (from == none || from == to)
        return DT_OK;
    for (size_t i = b->n_edge; i-- > 0 && b->edge[i].to == to;)
        if (b->edge[i].from == from)
            return DT_OK;
    if (!dt_grow(&b->edge, &b->cap_edge, b->n_edge, sizeof *b->edge))
        return no_memory(err);
    b->edge[b->n_edge++] = (dti_remat_edge){from, to};
    return DT_OK;
}

static bool counts(const building *b, int32_t tensor)
{
    const dt_tensor *t = &b->p->tensor[tensor];
    return t->home == DT_NONE && t->role != DT_ROLE_WORKSPACE && t->role != DT_ROLE_DERIVED;
}

/* The node that makes a tensor, whoever overwrote what its first one made. */
static uint32_t maker(building *b, int32_t tensor)
{
    uint32_t *v = &b->of[tensor];
    while (*v != none && b->v[*v].taken_by != none)
        *v = b->v[*v].taken_by;
    return *v;
}

/* Who lies over whom is the plan's, whose tensors are the program's in their order. */
static void find_over(building *b)
{
    for (size_t i = 0; i < b->p->n_tensor; i++)
        b->over[i] = DT_NONE;
    for (size_t i = 0; i < b->plan->n_row; i++) {
        const dt_row *r = &b->plan->row[i];
        if (r->kind == DT_ROW_PLACE && r->over >= 0)
            b->over[r->tensor] = r->over;
    }
    for (size_t i = 0; i < b->p->n_order; i++) {
        const dt_op *op = &b->p->op[b->p->order[i]];
        for (int k = 0; k < op->n_arg; k++)
            b->readers[op->arg[k].tensor] += (op->arg[k].mode & DT_READ) != 0;
    }
}

/* Behind the loss a tensor that is away is read where it comes back. */
static dt_status source(building *b, int32_t tensor, bool backward, uint32_t *from, dt_err *err)
{
    *from = maker(b, tensor);
    if (!backward || b->away == NULL || !b->away[tensor] || *from == none)
        return DT_OK;
    if (b->back[tensor] == none) {
        const node v = {b->v[*from].bytes, 1, false, true, DT_NONE, DT_NONE, none, none, b->n_edge};
        DT_CHECK(add_node(b, v, err));
        b->back[tensor] = (uint32_t)(b->n - 1);
    }
    *from = b->back[tensor];
    return DT_OK;
}

/* The output that overwrites a value of which this op is the only reader; DT_NONE: none of the
 * largest ones does. */
static int32_t overwriting(building *b, const dt_op *op, uint64_t most)
{
    for (int k = 0; k < op->n_arg; k++) {
        const int32_t t = op->arg[k].tensor, x = b->over[t];
        if (op->arg[k].mode == DT_WRITE && b->p->tensor[t].bytes == most && x != DT_NONE &&
            b->readers[x] == 1 && maker(b, x) != none && (b->away == NULL || !b->away[x]))
            return t;
    }
    return DT_NONE;
}

/* The first of the largest outputs, and how many there are. */
static int32_t largest(const building *b, const dt_op *op, uint64_t most, uint32_t *n)
{
    int32_t first = DT_NONE;
    *n = 0;
    for (int k = 0; k < op->n_arg; k++) {
        const int32_t t = op->arg[k].tensor;
        if (op->arg[k].mode != DT_WRITE || !counts(b, t) || b->p->tensor[t].bytes != most)
            continue;
        first = first == DT_NONE ? t : first;
        ++*n;
    }
    return first;
}

/* Those beside the node's tensor, such as statistics and masks, stay; but as large ones as that
 * are made again with it. */
static dt_status add_outputs(building *b, const dt_op *op, uint32_t id, uint64_t most, dt_err *err)
{
    const bool again = !b->v[id].once;
    for (int k = 0; k < op->n_arg; k++) {
        const int32_t t = op->arg[k].tensor;
        if (op->arg[k].mode != DT_WRITE || !counts(b, t))
            continue;
        const uint64_t bytes = b->p->tensor[t].bytes;
        if (t == b->v[id].tensor || (bytes == most && again) || bytes < most / SMALL) {
            b->of[t] = bytes == most ? id : none;
            continue;
        }
        const node v = {bytes, 0, true, b->v[id].backward, DT_NONE, t, none, none, b->n_edge};
        DT_CHECK(add_node(b, v, err));
        b->of[t] = (uint32_t)(b->n - 1);
        DT_CHECK(add_edge(b, id, b->of[t], err));
    }
    return DT_OK;
}

/* Whether an op of forward can make its largest outputs again; the others stay. */
static bool largest_again(const building *b, const dt_op *op, uint64_t most)
{
    for (int k = 0; k < op->n_arg; k++) {
        const int32_t t = op->arg[k].tensor;
        if (op->arg[k].mode != DT_READ && counts(b, t) && b->p->tensor[t].bytes == most &&
            !dti_repeatable(b->p, t))
            return false;
    }
    return true;
}

/* The node @id overwrites the value of @under, does its work again wherever it runs again, and
 * reads what that read. */
static void take_over(building *b, uint32_t under, uint32_t id)
{
    node *v = &b->v[id], *u = &b->v[under];
    if (u->op != DT_NONE && dt_pos(b->p, v->op) == dt_pos(b->p, u->op) + 1)
        v->op = u->op; /* what runs again for either runs before the first of them */
    v->cost += u->cost;
    v->once = v->once || u->once;
    v->first_edge = u->first_edge;
    u->taken_by = id;
    for (size_t i = u->first_edge; i < b->n_edge; i++)
        if (b->edge[i].to == under)
            b->edge[i].to = id;
}

/* What runs once overwrites a value that is made once: its own takes no bytes, and the other's stay
 * until it was read for the last time. */
static void lie_in(const building *b, uint32_t under, node *v)
{
    const uint32_t first = b->v[under].lies_in;
    v->lies_in = first != none ? first : under;
    v->bytes = 0;
}

/* A value is read where it was made, and where it lies. */
static dt_status read_from(building *b, uint32_t from, uint32_t to, dt_err *err)
{
    DT_CHECK(add_edge(b, from, to, err));
    return from != none ? add_edge(b, b->v[from].lies_in, to, err) : DT_OK;
}

/* Nodes that an op reads from, and the bytes of its largest output. */
static dt_status look_at(building *b, const dt_op *op, bool backward, uint32_t from[DT_MAX_ARGS],
    int *n_from, uint64_t *most, dt_err *err)
{
    for (int k = 0; k < op->n_arg; k++) {
        const int32_t t = op->arg[k].tensor;
        if (!counts(b, t))
            continue;
        if (op->arg[k].mode == DT_READ)
            DT_CHECK(source(b, t, backward, &from[(*n_from)++], err));
        else
            *most = b->p->tensor[t].bytes > *most ? b->p->tensor[t].bytes : *most;
    }
    return DT_OK;
}

static dt_status add_op(building *b, int32_t number, bool backward, dt_err *err)
{
    const dt_op *op = &b->p->op[number];
    uint32_t from[DT_MAX_ARGS], n_largest;
    int n_from = 0;
    uint64_t most = 0;
    DT_CHECK(look_at(b, op, backward, from, &n_from, &most, err));
    const bool again =
        op->kind == DT_OP_FETCH || (op->kind == DT_OP_FORWARD && largest_again(b, op, most));
    const int32_t first = largest(b, op, most, &n_largest), lies = overwriting(b, op, most);
    const uint32_t under = lies != DT_NONE ? maker(b, b->over[lies]) : none;
    node v = {.bytes = again && n_largest > 0 ? most * n_largest : most,
        .cost = 1 + (uint64_t)(b->seconds[number] / b->unit),
        .once = !again,
        .backward = backward,
        .op = number,
        .tensor = lies != DT_NONE ? lies : first,
        .taken_by = none,
        .lies_in = none,
        .first_edge = b->n_edge};
    if (under != none && !again && b->v[under].once)
        lie_in(b, under, &v);
    DT_CHECK(add_node(b, v, err));
    const uint32_t id = (uint32_t)(b->n - 1);
    if (under != none && v.lies_in == none)
        take_over(b, under, id);
    for (int k = 0; k < n_from; k++)
        if (from[k] != under || v.lies_in != none)
            DT_CHECK(read_from(b, from[k], id, err));
    return add_outputs(b, op, id, most, err);
}

/* Nodes that were not taken into others, and edges between such, renumbered. */
static dt_status finish(building *b, dti_remat_program *out, dt_err *err)
{
    uint32_t *number = dt_alloc(b->n + 1, sizeof *number), n = 0;
    uint64_t *bytes = dt_alloc(b->n + 1, sizeof *bytes), *cost = dt_alloc(b->n + 1, sizeof *cost);
    uint8_t *backward = dt_alloc(b->n + 1, 1);
    out->once = dt_alloc(b->n + 1, 1);
    out->op = dt_alloc(b->n + 1, sizeof *out->op);
    out->tensor = dt_alloc(b->n + 1, sizeof *out->tensor);
    const bool ok = number != NULL && bytes != NULL && cost != NULL && backward != NULL &&
                    out->once != NULL && out->op != NULL && out->tensor != NULL;
    for (size_t i = 0; ok && i < b->n; i++) {
        if (b->v[i].taken_by != none)
            continue;
        number[i] = n;
        bytes[n] = b->v[i].bytes;
        cost[n] = b->v[i].cost;
        backward[n] = b->v[i].backward;
        out->op[n] = b->v[i].op;
        out->tensor[n] = b->v[i].tensor;
        out->once[n++] = b->v[i].once;
    }
    size_t edges = 0;
    for (size_t i = 0; ok && i < b->n_edge; i++)
        if (b->v[b->edge[i].from].taken_by == none && b->v[b->edge[i].to].taken_by == none)
            b->edge[edges++] = (dti_remat_edge){number[b->edge[i].from], number[b->edge[i].to]};
    for (size_t t = 0; ok && t < b->p->n_tensor; t++)
        out->op_of[t] = maker(b, (int32_t)t) == none ? none : number[maker(b, (int32_t)t)];
    dt_status st = ok ? dti_remat_graph_init(
                            &out->graph, n, bytes, cost, backward, (uint32_t)edges, b->edge, err)
                      : no_memory(err);
    dt_free(number);
    dt_free(bytes);
    dt_free(cost);
    dt_free(backward);
    return st;
}

static dt_status build(building *b, dti_remat_program *out, dt_err *err)
{
    bool backward = false;
    if (b->of == NULL || b->back == NULL || b->over == NULL || b->readers == NULL ||
        out->op_of == NULL)
        return no_memory(err);
    for (size_t i = 0; i < b->p->n_tensor; i++)
        b->of[i] = b->back[i] = none;
    find_over(b);
    for (size_t i = 0; i < b->p->n_order; i++) {
        const int32_t number = b->p->order[i];
        if (b->p->op[number].desc != NULL || b->p->op[number].kind == DT_OP_FETCH)
            DT_CHECK(add_op(b, number, backward, err));
        backward = backward || number == b->p->loss;
    }
    return finish(b, out, err);
}

/* A nanosecond, unless the ops take so many of them together that their sum is beyond a graph's. */
static double unit_of(const dt_program *p, const double *seconds)
{
    double all = 0;
    for (size_t i = 0; i < p->n_op; i++)
        all += seconds[i];
    return fmax(1e-9, all / (double)(DT_REMAT_MOST_SUM / 2));
}

dt_status dti_remat_of_program(dti_remat_program *out, const dt_program *p, const dt_plan *plan,
    const double *seconds, const bool *away, dt_err *err)
{
    const size_t n = p->n_tensor + 1;
    building b = {.p = p,
        .plan = plan,
        .seconds = seconds,
        .unit = unit_of(p, seconds),
        .away = away,
        .of = dt_alloc(n, sizeof *b.of),
        .back = dt_alloc(n, sizeof *b.back),
        .over = dt_alloc(n, sizeof *b.over),
        .readers = dt_alloc(n, sizeof *b.readers)};
    *out = (dti_remat_program){.op_of = dt_alloc(n, sizeof *out->op_of)};
    out->unit = b.unit;
    const dt_status st = build(&b, out, err);
    dt_free(b.v);
    dt_free(b.edge);
    dt_free(b.of);
    dt_free(b.back);
    dt_free(b.over);
    dt_free(b.readers);
    return st;
}

void dti_remat_program_deinit(dti_remat_program *r)
{
    dt_remat_graph_deinit(&r->graph);
    dt_free(r->once);
    dt_free(r->op_of);
    dt_free(r->op);
    dt_free(r->tensor);
    *r = (dti_remat_program){0};
}
