/* The rule for sub-batches: what so many samples need at once, and numbers that kernels like. */
#include "memory/policies/modnn_batch.h"

#include <math.h>

#include "engine/base/alloc.h"
#include "memory/pass.h"

/* A run of neighbouring ops, which goes over the program: one op comes in, and one leaves.
 * @uses:    by tensor, how many operands of the run it is
 * @counted: by tensor, what it adds to @sum
 * @largest: places of the ops whose scratch may become the largest of the run, the largest first;
 * @from and @to of them */
typedef struct window {
    dt_program *p;
    uint32_t *uses;
    uint64_t *counted, sum, *scratch;
    size_t *largest, from, to;
} window;

/* Whether what an op writes takes the bytes of what it is the last to read. */
static bool in_place(const dt_program *p, const dt_op *op, const dt_operand *out)
{
    const dt_form *form = &op->desc->form[op->form];
    for (int i = 0; i < form->n_over; i++) {
        int32_t n;
        const int32_t in = dt_op_tensor(op, form->over[i].in);
        if (form->over[i].out != out->port || in == DT_NONE || p->tensor[in].home != DT_NONE)
            continue;
        const dt_access *a = dt_accesses(p, in, &n);
        if (&p->op[a[n - 1].op] == op && p->tensor[in].bytes == p->tensor[out->tensor].bytes)
            return true;
    }
    return false;
}

static bool is_value(const dt_tensor *t)
{
    return t->home == DT_NONE && t->role != DT_ROLE_WORKSPACE;
}

/* A tensor adds its bytes, unless the first op of the run that has it writes it in place; NULL: it
 * has left. */
static void count(window *w, int32_t t, const dt_op *first)
{
    w->sum -= w->counted[t];
    w->counted[t] = 0;
    for (int a = 0; first != NULL && a < first->n_arg; a++)
        if (first->arg[a].tensor == t) {
            w->counted[t] = in_place(w->p, first, &first->arg[a]) ? 0 : w->p->tensor[t].bytes;
            break;
        }
    w->sum += w->counted[t];
}

/* The op that uses a tensor next behind a place; copies are none. */
static const dt_op *next_of(dt_program *p, int32_t t, int32_t place)
{
    int32_t n, low = 0;
    const dt_access *a = dt_accesses(p, t, &n);
    for (int32_t high = n; low < high;) {
        const int32_t at = low + (high - low) / 2;
        if (dt_pos(p, a[at].op) > place)
            high = at;
        else
            low = at + 1;
    }
    while (low < n && p->op[a[low].op].desc == NULL)
        low++;
    return low < n ? &p->op[a[low].op] : NULL;
}

static void enter(window *w, size_t place)
{
    const dt_op *op = &w->p->op[w->p->order[place]];
    for (int a = 0; a < op->n_arg; a++) {
        const int32_t t = op->arg[a].tensor;
        const dt_tensor *of = &w->p->tensor[t];
        if (of->role == DT_ROLE_WORKSPACE && of->bytes > w->scratch[place])
            w->scratch[place] = of->bytes;
        if (is_value(of) && w->uses[t]++ == 0)
            count(w, t, op);
    }
    while (w->to > w->from && w->scratch[w->largest[w->to - 1]] <= w->scratch[place])
        w->to--;
    w->largest[w->to++] = place;
}

static void leave(window *w, size_t place)
{
    const dt_op *op = &w->p->op[w->p->order[place]];
    for (int a = 0; a < op->n_arg; a++) {
        const int32_t t = op->arg[a].tensor;
        if (is_value(&w->p->tensor[t]))
            count(w, t, --w->uses[t] > 0 ? next_of(w->p, t, (int32_t)place) : NULL);
    }
    w->from += w->from < w->to && w->largest[w->from] == place;
}

static uint64_t bytes_of(const window *w)
{
    return w->sum + (w->from < w->to ? w->scratch[w->largest[w->from]] : 0);
}

/* The next place of an op at or behind @k. */
static size_t next_op(const dt_program *p, size_t k)
{
    while (k < p->n_order && p->op[p->order[k]].desc == NULL)
        k++;
    return k;
}

static uint64_t most_bytes(window *w, size_t width)
{
    uint64_t most = 0;
    const dt_program *p = w->p;
    size_t end = next_op(p, 0), n = 0;
    for (size_t k = end; k < p->n_order; k = next_op(p, k + 1), n--) {
        for (; n < width && end < p->n_order; end = next_op(p, end + 1), n++)
            enter(w, end);
        most = bytes_of(w) > most ? bytes_of(w) : most;
        leave(w, k);
    }
    return most;
}

dt_status dti_modnn_need(dt_program *p, double share, uint64_t *bytes, dt_err *err)
{
    size_t n_op = 0;
    DT_CHECK(dt_program_index(p, err));
    for (size_t k = 0; k < p->n_order; k++)
        n_op += p->op[p->order[k]].desc != NULL;
    const double width = ceil(share * (double)n_op);
    window w = {.p = p};
    w.uses = dt_alloc(p->n_tensor + 1, sizeof *w.uses);
    w.counted = dt_alloc(p->n_tensor + 1, sizeof *w.counted);
    w.scratch = dt_alloc(p->n_order + 1, sizeof *w.scratch);
    w.largest = dt_alloc(p->n_order + 1, sizeof *w.largest);
    dt_status st = DT_OK;
    if (w.uses == NULL || w.counted == NULL || w.scratch == NULL || w.largest == NULL)
        st = dti_pass_no_memory(err);
    else
        *bytes = p->map->bytes + most_bytes(&w, width > 1 ? (size_t)width : 1);
    dt_free(w.uses);
    dt_free(w.counted);
    dt_free(w.scratch);
    dt_free(w.largest);
    return st;
}

int64_t dti_modnn_round(int64_t samples)
{
    int64_t step = 64;
    while (step > samples)
        step /= 2;
    return samples / step * step;
}
