/* The least room: of each op what no choice does without. */
#include "memory/least_room.h"

/* A port as sets name it: the first input stands for all, and its gradient for theirs. */
static dt_ports port_bit(int port)
{
    const int first = port < DT_DX ? DT_X : port < DT_P ? DT_DX : port;
    return DT_BIT(first);
}

/* Ports that backward reads with some alternatives and not with others. */
static dt_ports by_choice(const dt_layer_desc *d)
{
    dt_ports some = 0, all = ~(dt_ports)0;
    for (int i = 0; i < d->n_alt; i++) {
        some |= d->alt[i].reads;
        all &= d->alt[i].reads;
    }
    return some & ~all;
}

/* Ports whose bytes another port's may be. */
static dt_ports over(const dt_form *f)
{
    dt_ports those = 0;
    for (int i = 0; i < f->n_over; i++)
        those |= DT_BIT(f->over[i].out);
    return those;
}

static uint64_t bytes_of(const dt_program *p, const dt_op *op)
{
    const dt_form *f = &op->desc->form[op->form];
    const dt_ports less = DT_BITS(DT_S, DT_MAX_STASH) | DT_BIT(DT_WORK) | over(f) |
                          (f->saved ? by_choice(op->desc) & ~f->reads : 0);
    uint64_t sum = 0;
    for (int k = 0; k < op->n_arg; k++) {
        bool left_out = (port_bit(op->arg[k].port) & less) != 0;
        for (int i = 0; i < k; i++) /* one tensor at two ports */
            left_out = left_out || op->arg[i].tensor == op->arg[k].tensor;
        sum += left_out ? 0 : p->tensor[op->arg[k].tensor].bytes;
    }
    return sum;
}

uint64_t dt_least_room(const dt_program *p, int32_t *op)
{
    uint64_t most = 0;
    *op = DT_NONE;
    for (size_t i = 0; i < p->n_order; i++) {
        const dt_op *o = &p->op[p->order[i]];
        if (o->desc == NULL || (o->kind != DT_OP_FORWARD && o->kind != DT_OP_BACKWARD))
            continue;
        const uint64_t bytes = bytes_of(p, o);
        if (bytes <= most)
            continue;
        most = bytes;
        *op = p->order[i];
    }
    return most;
}
