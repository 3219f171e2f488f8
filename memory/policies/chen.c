/* What the policies after Chen et al. share: where to cut, and the rewrite. */
#include "memory/policies/chen.h"

#include "engine/base/alloc.h"

/* Whether forward makes the value and nobody else has a hand in it: a pass before this one may have
 * moved it, put it in a slot, recomputed it or read it for a recompute. */
static bool ours(const dt_program *p, int32_t tensor, int32_t loss)
{
    const dt_tensor *t = &p->tensor[tensor];
    if (t->role != DT_ROLE_ACTIVATIONS || t->home != DT_NONE || t->of != DT_NONE ||
        t->group != DT_NONE || t->pin != DT_PIN_NONE || !dti_repeatable(p, tensor))
        return false;
    int32_t n;
    const dt_access *a = dt_accesses(p, tensor, &n);
    for (int32_t i = 0; i < n; i++)
        if (p->op[a[i].op].kind != (dt_pos(p, a[i].op) <= loss ? DT_OP_FORWARD : DT_OP_BACKWARD))
            return false;
    return true;
}

/* The last place of forward at which a tensor is read. */
static int32_t last_forward(const dt_program *p, int32_t tensor, int32_t loss)
{
    int32_t n, last = 0;
    const dt_access *a = dt_accesses(p, tensor, &n);
    for (int32_t i = 0; i < n && dt_pos(p, a[i].op) <= loss; i++)
        last = dt_pos(p, a[i].op);
    return last;
}

static bool read_by_backward(const dt_program *p, int32_t tensor, int32_t loss)
{
    int32_t n;
    const dt_access *a = dt_accesses(p, tensor, &n);
    return n > 0 && dt_pos(p, a[n - 1].op) > loss;
}

/* By place: how many values that forward makes at it or before it are read by forward after it. */
static void count_crossing(const dt_program *p, int32_t loss, int32_t *crossing)
{
    for (size_t t = 0; t < p->n_tensor; t++) {
        const int32_t made_by = dti_producer(p, (int32_t)t);
        if (p->tensor[t].role != DT_ROLE_ACTIVATIONS || made_by == DT_NONE ||
            dt_pos(p, made_by) > loss)
            continue;
        crossing[dt_pos(p, made_by)]++;
        crossing[last_forward(p, (int32_t)t, loss)]--;
    }
    for (int32_t i = 1; i <= loss; i++)
        crossing[i] += crossing[i - 1];
}

static void collect(dti_chen *c, const int32_t *crossing, int32_t loss)
{
    const dt_program *p = c->p;
    for (int32_t i = 0; i <= loss; i++) {
        const int32_t id = p->order[i];
        const int32_t y =
            p->op[id].kind == DT_OP_FORWARD ? dt_op_tensor(&p->op[id], DT_Y) : DT_NONE;
        /* A split op makes its value in pieces; the first counts. */
        if (y == DT_NONE || dti_producer(p, y) != id || !ours(p, y, loss))
            continue;
        dti_chen_value *v = &c->value[c->n++];
        *v = (dti_chen_value){.tensor = y,
            .op = id,
            .last_read = last_forward(p, y, loss),
            .read_back = read_by_backward(p, y, loss)};
        v->split = crossing[i] == 1 && v->last_read > i && v->read_back;
        c->n_split += v->split;
    }
}

bool dti_chen_dear(const dt_program *p, int32_t op)
{
    const dt_layer_info *info = &p->graph->node[p->op[op].node].info;
    for (int i = 0; i < info->n_param; i++)
        if (info->param[i].rank >= 2)
            return true;
    return info->forward_flops > DTI_CHEN_DEAR * (double)dt_shape_sample(&info->y);
}

int dti_chen_readers(const dt_program *p, int32_t tensor)
{
    int32_t n;
    int readers = 0, node = DT_NONE;
    const dt_access *a = dt_accesses(p, tensor, &n);
    for (int32_t i = 0; i < n; i++) {
        const dt_op *op = &p->op[a[i].op];
        if (op->kind != DT_OP_FORWARD || a[i].mode != DT_READ || op->node == node)
            continue;
        readers++;
        node = op->node;
    }
    return readers;
}

const char *const dti_chen_cuts_names[] = {
    [DTI_CHEN_AUTO] = "auto", [DTI_CHEN_POINTS] = "points", [DTI_CHEN_LINEAR] = "linear", NULL};

/* Whether the values that forward makes between two points, the later one included, are more than
 * half of all. */
static bool far_apart(const dti_chen *c)
{
    uint64_t segment = 0, largest = 0, all = 0;
    for (size_t i = 0; i < c->n; i++) {
        const uint64_t bytes = c->p->tensor[c->value[i].tensor].bytes;
        segment += bytes;
        all += bytes;
        largest = segment > largest ? segment : largest;
        if (c->value[i].split)
            segment = 0;
    }
    return largest > all / 2;
}

bool dti_chen_cut(dti_chen *c, dti_chen_cuts cuts)
{
    if (cuts == DTI_CHEN_POINTS || (cuts == DTI_CHEN_AUTO && !far_apart(c)))
        return false;
    c->n_split = 0;
    for (size_t i = 0; i < c->n; i++) {
        dti_chen_value *v = &c->value[i];
        v->split = v->read_back && v->last_read > dt_pos(c->p, v->op);
        c->n_split += v->split;
    }
    return true;
}

dt_status dti_chen_open(dti_chen *c, dt_program *p, dt_err *err)
{
    *c = (dti_chen){.p = p, .n_tensor = p->n_tensor};
    if (p->loss == DT_NONE)
        return DT_OK;
    DT_CHECK(dt_program_index(p, err));
    const int32_t loss = dt_pos(p, p->loss);
    c->value = dt_alloc((size_t)loss + 1, sizeof *c->value);
    c->dropped = dt_alloc(p->n_tensor + 1, sizeof *c->dropped);
    c->reason = dt_alloc(p->n_tensor + 1, sizeof *c->reason);
    int32_t *crossing = dt_alloc((size_t)loss + 1, sizeof *crossing);
    const bool ok = c->value != NULL && c->dropped != NULL && c->reason != NULL && crossing != NULL;
    if (ok) {
        count_crossing(p, loss, crossing);
        collect(c, crossing, loss);
    }
    dt_free(crossing);
    return ok ? DT_OK : dti_pass_no_memory(err);
}

void dti_chen_close(dti_chen *c)
{
    dt_free(c->value);
    dt_free(c->dropped);
    dt_free(c->reason);
    *c = (dti_chen){0};
}

static const char *layer_of(const dti_chen *c, size_t value)
{
    const int32_t node = c->p->op[c->value[value].op].node;
    return node == DT_NONE ? "?" : c->p->graph->node[node].name;
}

/* Drop what is made before value @to, back to the one kept before it. */
static dt_status drop_segment(dti_chen *c, const bool *keep, size_t to, dt_err *err)
{
    size_t from = to;
    int32_t reason;
    while (from > 0 && !keep[from - 1])
        from--;
    if (from == to)
        return DT_OK;
    DT_CHECK(dt_reasons_add(&c->p->reasons, &reason, err, "%s: between checkpoints %.40s and %.40s",
        c->p->policy, from > 0 ? layer_of(c, from - 1) : "input", layer_of(c, to)));
    for (size_t i = from; i < to; i++) {
        const dti_chen_value *v = &c->value[i];
        c->dropped[v->tensor] = v->last_read <= dt_pos(c->p, c->value[to].op);
        c->reason[v->tensor] = reason;
    }
    return DT_OK;
}

dt_status dti_chen_keep(dti_chen *c, const bool *keep, dt_err *err)
{
    for (size_t i = 0; i < c->n; i++)
        if (keep[i])
            DT_CHECK(drop_segment(c, keep, i, err));
    return DT_OK;
}

/* What an op of backward reads that was dropped is made again before it. */
static dt_status before_op(const dti_chen *c, dti_remakes *r, int32_t id, dt_err *err)
{
    const dt_program *p = c->p;
    dti_gap g;
    for (int a = 0; a < p->op[id].n_arg; a++) {
        const int32_t t = p->op[id].arg[a].tensor;
        if (t >= (int32_t)c->n_tensor || !c->dropped[t])
            continue;
        if (dti_gap_crossing(p, t, &g) && g.to == id)
            DT_CHECK(dti_remakes_before(r, id, &g.tensor, 1, c->reason[t], err));
    }
    return DT_OK;
}

dt_status dti_chen_rewrite(const dti_chen *c, dt_err *err)
{
    dt_program *p = c->p;
    if (c->n == 0)
        return DT_OK;
    const size_t first = (size_t)dt_pos(p, p->loss) + 1, n = p->n_order;
    int32_t *order = dti_order_copy(p); /* recomputes will come between the ops */
    if (order == NULL)
        return dti_pass_no_memory(err);
    dti_remakes r;
    dt_status st = dti_remakes_open(&r, p, c->dropped, false, err);
    for (size_t i = first; i < n && st == DT_OK; i++)
        st = before_op(c, &r, order[i], err);
    dti_remakes_close(&r);
    dt_free(order);
    return st;
}

dti_chen_sums dti_chen_plan(
    const uint64_t *bytes, const bool *split, size_t n, uint64_t budget, bool *keep)
{
    dti_chen_sums s = {0, 0};
    uint64_t open = 0;
    for (size_t i = 0; i < n; i++) {
        open += bytes[i];
        keep[i] = split[i] && open > budget;
        if (!keep[i])
            continue;
        s.kept += bytes[i];
        s.segment = open > s.segment ? open : s.segment;
        open = 0;
    }
    return s;
}
