/* What a run's plans need, and what a step of it costs. */
#include "session/budget.h"

/* A step is the first micro-batch, all others, and the update; steps run again because packed
 * values did not fit are not counted. */
static int64_t times_a_step(const dt_session *s, const dt_planned *p)
{
    const int64_t micro = s->opts.train.micro_batch;
    if (p->kind == DT_PROGRAM_UPDATE)
        return 1;
    if (p->n != micro || p->kind == DT_PROGRAM_EVAL || p->dense)
        return 0;
    return p->kind == DT_PROGRAM_FIRST ? 1 : s->opts.train.batch / micro - 1;
}

static void add_plan(dt_cost *c, const dt_plan *p, int64_t times)
{
    c->out += (uint64_t)times * p->out_bytes;
    c->in += (uint64_t)times * p->in_bytes;
    for (size_t i = 0; i < p->n_op; i++) {
        const dt_plan_op *op = &p->op[i];
        c->limited_flops += op->way[0] != '\0' ? (double)times * op->flops : 0;
        if (op->kind == DT_OP_CLONE) {
            c->clones += times;
            c->clone_flops += (double)times * op->flops;
        } else if (op->kind == DT_OP_FORWARD || op->kind == DT_OP_BACKWARD) {
            c->flops += (double)times * op->flops;
        }
    }
    for (size_t i = 0; i < p->n_row; i++)
        if (p->row[i].kind == DT_ROW_COPY_OUT && p->row[i].tier == DT_TIER_DISK)
            c->to_disk += (uint64_t)times * p->row[i].stored;
}

/* What encoders read, and codecs of moves. */
static uint64_t packed_bytes(const dt_program *p)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < p->n_order; i++) {
        const dt_op *op = &p->op[p->order[i]];
        if (op->codec != NULL && (op->kind == DT_OP_ENCODE || op->kind == DT_OP_OUT))
            sum += (uint64_t)op->count * sizeof(float);
    }
    return sum;
}

dt_cost dt_session_cost(const dt_session *s)
{
    dt_cost c = {0};
    for (size_t i = 0; i < s->n_planned; i++) {
        const int64_t times = times_a_step(s, &s->planned[i]);
        if (times == 0)
            continue;
        add_plan(&c, s->planned[i].plan, times);
        c.packed += (uint64_t)times * packed_bytes(s->planned[i].program);
    }
    return c;
}

uint64_t dt_batches_held(const dt_session *s)
{
    return 2 * ((uint64_t)s->opts.data.ahead + 1) + 1;
}

static uint64_t batches(const dt_session *s)
{
    const uint64_t sample = sizeof(float) * (uint64_t)dt_shape_sample(&s->graph->input) +
                            sizeof(int32_t) * (uint64_t)dt_graph_labels(s->graph);
    const uint64_t pinned = /* blocks from which a card fetches */
        s->device != DT_CPU ? 2 * sample * (uint64_t)s->opts.train.micro_batch : 0;
    return sample * (uint64_t)s->opts.train.batch * dt_batches_held(s) + pinned;
}

/* The largest as it is in memory, and in PyTorch's layout on its way there. */
static uint64_t weights(const dt_session *s)
{
    uint64_t most = 0;
    for (size_t i = 0; s->map != NULL && i < s->map->n; i++)
        most = s->map->home[i].bytes > most ? s->map->home[i].bytes : most;
    return 2 * most;
}

dt_need dt_session_need(const dt_session *s)
{
    return (dt_need){.device = dt_session_peak(s),
        .host = dt_session_tier_peak(s, DT_TIER_HOST),
        .disk = dt_session_tier_peak(s, DT_TIER_DISK),
        .batches = batches(s),
        .weights = weights(s)};
}

static uint64_t or_any(uint64_t budget)
{
    return budget > 0 ? budget : UINT64_MAX;
}

dt_room dt_session_room(const dt_session *s)
{
    const dt_memory_opts *m = &s->opts.memory;
    return (dt_room){.device = or_any(m->device_budget),
        .host = or_any(m->host_budget),
        .disk = or_any(m->disk_budget),
        .memory = UINT64_MAX,
        .apart = s->device != DT_CPU};
}

bool dt_need_fits(const dt_need *n, const dt_room *r)
{
    const uint64_t parts[] = {r->apart ? 0 : n->device, n->host, n->batches, n->weights};
    uint64_t rest = r->memory;
    for (size_t i = 0; i < DT_COUNT(parts) && r->memory != UINT64_MAX; i++) {
        if (parts[i] > rest)
            return false;
        rest -= parts[i];
    }
    return n->device <= r->device && n->host <= r->host && n->disk <= r->disk;
}
