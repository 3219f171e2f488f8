/* The swap planner and its clock: ops one after the other; what an op wants and is not there takes
 * an object of its class that is free, or that of the resident tensor whose next use is farthest;
 * or of bytes in common as many as it has, for which as many tensors leave as that takes. Copies of
 * a direction follow each other, and begin as soon as their object allows. */
#include <math.h>
#include <string.h>

#include "engine/base/alloc.h"
#include "memory/policies/swapadvisor_search.h"

enum { NONE = -1 };

/* Of a tensor. @object: NONE: it is not there. @uses: it is an argument of the op at this place.
 * @swap: the one by which it has left, NONE: it was not made yet. @ready: seconds from which on its
 * bytes are there */
typedef struct tensor {
    int32_t object, class, last, next, used_at, swap;
    double ready;
} tensor;

/* Of the pool. @next: of those that are free. @free: seconds from which on it is. */
typedef struct object {
    int32_t class, next;
    double free;
} object;

/* Bytes in common that are free from these seconds on. */
typedef struct chunk {
    uint64_t bytes;
    double free;
} chunk;

/* @next_use: by argument, the place of the tensor's next use, or NONE. @head: by class, the first
 * free object. @bytes: by class, of an object. @chunk: those from @first_chunk up to @n_chunk are
 * free, the one that is so for longest first. @used: bytes of what is there, @beside it as well; at
 * most @most. */
struct dti_swap_room {
    tensor *tensor;
    object *object;
    chunk *chunk;
    size_t first_chunk, n_chunk;
    uint64_t used, most, beside;
    int32_t *next_use, *seen, *head;
    uint64_t *bytes;
    int32_t n_object;
    double out, in; /* when the queues are free */
};

dt_status dti_swap_plan_init(dti_swap_plan *s, const dti_swap_problem *p, dt_err *err)
{
    struct dti_swap_room *r = dt_alloc(1, sizeof *r);
    const size_t n_arg = (size_t)p->arg_at[p->n_op];
    *s = (dti_swap_plan){.begin = dt_alloc(p->n_op, sizeof *s->begin),
        .end = dt_alloc(p->n_op, sizeof *s->end),
        .made = dt_alloc(p->n_size, sizeof *s->made),
        .room = r};
    if (r == NULL)
        return dti_swap_no_memory(err);
    *r = (struct dti_swap_room){.tensor = dt_alloc(p->n_tensor, sizeof *r->tensor),
        .object = dt_alloc(n_arg, sizeof *r->object),
        .chunk = dt_alloc(n_arg + p->n_op + 1, sizeof *r->chunk),
        .next_use = dt_alloc(n_arg, sizeof *r->next_use),
        .seen = dt_alloc(p->n_tensor, sizeof *r->seen),
        .head = dt_alloc(p->n_size, sizeof *r->head),
        .bytes = dt_alloc(p->n_size, sizeof *r->bytes)};
    const bool ok = s->begin != NULL && s->end != NULL && r->tensor != NULL && r->object != NULL &&
                    r->chunk != NULL && r->next_use != NULL && r->seen != NULL && r->head != NULL &&
                    s->made != NULL && r->bytes != NULL;
    return ok ? DT_OK : dti_swap_no_memory(err);
}

void dti_swap_plan_deinit(dti_swap_plan *s)
{
    struct dti_swap_room *r = s->room;
    if (r != NULL) {
        dt_free(r->tensor);
        dt_free(r->object);
        dt_free(r->chunk);
        dt_free(r->next_use);
        dt_free(r->seen);
        dt_free(r->head);
        dt_free(r->bytes);
    }
    dt_free(r);
    dt_free(s->begin);
    dt_free(s->end);
    dt_free(s->swap);
    dt_free(s->made);
    *s = (dti_swap_plan){0};
}

static void start(dti_swap_plan *s, const dti_swap_problem *p, const dti_genes *g)
{
    struct dti_swap_room *r = s->room;
    s->n = 0;
    r->n_object = 0;
    r->out = r->in = 0;
    r->first_chunk = 0;
    r->n_chunk = 1;
    r->chunk[0] = (chunk){p->limit, 0};
    r->used = r->most = r->beside = 0;
    for (size_t t = 0; t < p->n_tensor; t++) {
        r->tensor[t] = (tensor){.object = NONE,
            .class = g->class[p->size_of[t]],
            .last = NONE,
            .next = NONE,
            .used_at = NONE,
            .swap = NONE};
        r->seen[t] = NONE;
    }
    for (size_t i = 0; i < p->n_size; i++) {
        r->head[i] = NONE;
        s->made[i] = 0;
        r->bytes[g->class[i]] = p->size[i]; /* of a class the last is the largest */
    }
    for (size_t k = p->n_op; k-- > 0;)
        for (int32_t a = p->arg_at[g->order[k]]; a < p->arg_at[g->order[k] + 1]; a++) {
            r->next_use[a] = r->seen[p->arg[a]];
            r->seen[p->arg[a]] = (int32_t)k;
        }
}

/* The object of its class that is free for longest; NONE: none is. */
static int32_t take_free(struct dti_swap_room *r, int32_t class)
{
    int32_t *best = NULL;
    for (int32_t *o = &r->head[class]; *o != NONE; o = &r->object[*o].next)
        if (best == NULL || r->object[*o].free < r->object[*best].free)
            best = o;
    if (best == NULL)
        return NONE;
    const int32_t found = *best;
    *best = r->object[found].next;
    return found;
}

static int32_t make_object(dti_swap_plan *s, int32_t class)
{
    struct dti_swap_room *r = s->room;
    s->made[class]++;
    r->object[r->n_object] = (object){.class = class, .next = NONE};
    return r->n_object++;
}

static void free_bytes(struct dti_swap_room *r, uint64_t bytes, double free)
{
    size_t at = r->n_chunk++;
    for (; at > r->first_chunk && r->chunk[at - 1].free > free; at--)
        r->chunk[at] = r->chunk[at - 1];
    r->chunk[at] = (chunk){bytes, free};
    r->used -= bytes;
}

/* When so many bytes are there that are free for longest. Beyond the limit there are no more. */
static double take_bytes(struct dti_swap_room *r, uint64_t bytes)
{
    double free = 0;
    r->used += bytes;
    while (bytes > 0 && r->first_chunk < r->n_chunk) {
        chunk *c = &r->chunk[r->first_chunk];
        const uint64_t taken = bytes < c->bytes ? bytes : c->bytes;
        free = fmax(free, c->free);
        bytes -= taken;
        c->bytes -= taken;
        if (c->bytes == 0)
            r->first_chunk++;
    }
    return free;
}

/* The resident tensor of a class, or of any (NONE), whose next use is farthest; NONE:
 * all are wanted. */
static int32_t find_victim(
    const struct dti_swap_room *r, const dti_swap_problem *p, int32_t class, int32_t place)
{
    int32_t best = NONE;
    for (int32_t t = 0; t < (int32_t)p->n_tensor; t++) {
        const tensor *of = &r->tensor[t];
        if (of->object == NONE || (class != NONE && of->class != class) || of->used_at == place ||
            place - of->last <= p->guard)
            continue;
        if (best == NONE || of->next > r->tensor[best].next)
            best = t;
    }
    return best;
}

static dt_status add_swap(dti_swap_plan *s, dti_swap w, dt_err *err)
{
    if (!dt_grow(&s->swap, &s->cap, s->n, sizeof *s->swap))
        return dti_swap_no_memory(err);
    s->swap[s->n++] = w;
    return DT_OK;
}

/* Its object is free when its copy is done. */
static dt_status swap_out(dti_swap_plan *s, const dti_swap_problem *p, int32_t victim, dt_err *err)
{
    struct dti_swap_room *r = s->room;
    tensor *of = &r->tensor[victim];
    r->out = fmax(r->out, fmax(s->end[of->last], of->ready)) + p->out[victim];
    if (p->common)
        free_bytes(r, p->size[p->size_of[victim]], r->out);
    else
        r->object[of->object].free = r->out;
    of->object = NONE;
    of->swap = (int32_t)s->n;
    return add_swap(
        s, (dti_swap){.tensor = victim, .from = of->last, .to = of->next, .gone = r->out}, err);
}

static dt_status get_object(dti_swap_plan *s, const dti_swap_problem *p, const dti_genes *g,
    int32_t t, int32_t place, double *copies, dt_err *err)
{
    struct dti_swap_room *r = s->room;
    const int32_t class = r->tensor[t].class;
    int32_t found = take_free(r, class);
    if (found == NONE && s->made[class] < g->count[class])
        found = make_object(s, class);
    const int32_t victim = found == NONE ? find_victim(r, p, class, place) : NONE;
    if (victim != NONE) {
        found = r->tensor[victim].object;
        DT_CHECK(swap_out(s, p, victim, err));
        *copies += p->out[victim];
    }
    r->tensor[t].object = found != NONE ? found : make_object(s, class);
    return DT_OK;
}

/* When so many more are there, for which tensors leave. */
static dt_status make_room(dti_swap_plan *s, const dti_swap_problem *p, uint64_t bytes,
    int32_t place, double *free, double *copies, dt_err *err)
{
    struct dti_swap_room *r = s->room;
    int32_t victim = 0;
    while (r->used + bytes > p->limit && (victim = find_victim(r, p, NONE, place)) != NONE) {
        DT_CHECK(swap_out(s, p, victim, err));
        *copies += p->out[victim];
    }
    *free = take_bytes(r, bytes);
    return DT_OK;
}

/* Bytes in common are an object of their own. */
static dt_status get_bytes(dti_swap_plan *s, const dti_swap_problem *p, int32_t t, int32_t place,
    double *copies, dt_err *err)
{
    struct dti_swap_room *r = s->room;
    double free = 0;
    DT_CHECK(make_room(s, p, p->size[p->size_of[t]], place, &free, copies, err));
    r->tensor[t].object = make_object(s, r->tensor[t].class);
    r->object[r->tensor[t].object].free = free;
    return DT_OK;
}

/* What lives beside the tensors takes of the same bytes, and gives them back behind the op before.
 */
static dt_status change_beside(dti_swap_plan *s, const dti_swap_problem *p, int32_t op,
    int32_t place, double *begin, double *copies, dt_err *err)
{
    struct dti_swap_room *r = s->room;
    const uint64_t now = p->beside[op], was = r->beside;
    double free = 0;
    r->beside = now;
    if (now < was)
        free_bytes(r, was - now, *begin);
    else
        DT_CHECK(make_room(s, p, now - was, place, &free, copies, err));
    *begin = fmax(*begin, free);
    return DT_OK;
}

/* An argument that is not there: a new one waits for its object, another comes back. */
static dt_status bring(dti_swap_plan *s, const dti_swap_problem *p, const dti_genes *g, int32_t t,
    int32_t place, double *copies, dt_err *err)
{
    struct dti_swap_room *r = s->room;
    tensor *of = &r->tensor[t];
    if (p->common)
        DT_CHECK(get_bytes(s, p, t, place, copies, err));
    else
        DT_CHECK(get_object(s, p, g, t, place, copies, err));
    of->ready = r->object[of->object].free;
    if (of->swap == NONE)
        return DT_OK;
    dti_swap *w = &s->swap[of->swap];
    w->fetched = fmax(fmax(r->in, of->ready), w->gone);
    of->ready = r->in = w->fetched + p->in[t];
    *copies += p->in[t];
    return DT_OK;
}

static void use(dti_swap_plan *s, const dti_swap_problem *p, int32_t op, int32_t place)
{
    struct dti_swap_room *r = s->room;
    for (int32_t a = p->arg_at[op]; a < p->arg_at[op + 1]; a++) {
        tensor *of = &r->tensor[p->arg[a]];
        of->last = place;
        of->next = r->next_use[a];
        if (of->next != NONE)
            continue;
        object *o = &r->object[of->object];
        of->object = NONE;
        if (p->common) {
            free_bytes(r, p->size[p->size_of[p->arg[a]]], s->end[place]);
            continue;
        }
        o->free = s->end[place];
        o->next = r->head[o->class];
        r->head[o->class] = (int32_t)(o - r->object);
    }
}

static dt_status run(
    dti_swap_plan *s, const dti_swap_problem *p, const dti_genes *g, int32_t place, dt_err *err)
{
    struct dti_swap_room *r = s->room;
    const int32_t op = g->order[place];
    double begin = place > 0 ? s->end[place - 1] : 0, copies = 0;
    for (int32_t a = p->arg_at[op]; a < p->arg_at[op + 1]; a++)
        r->tensor[p->arg[a]].used_at = place;
    if (p->common)
        DT_CHECK(change_beside(s, p, op, place, &begin, &copies, err));
    for (int32_t a = p->arg_at[op]; a < p->arg_at[op + 1]; a++)
        if (r->tensor[p->arg[a]].object == NONE)
            DT_CHECK(bring(s, p, g, p->arg[a], place, &copies, err));
    for (int32_t a = p->arg_at[op]; a < p->arg_at[op + 1] && !p->inlined; a++)
        begin = fmax(begin, r->tensor[p->arg[a]].ready);
    s->begin[place] = begin + (p->inlined ? copies : 0);
    s->end[place] = s->begin[place] + p->seconds[op];
    r->most = r->used > r->most ? r->used : r->most;
    use(s, p, op, place);
    return DT_OK;
}

dt_status dti_swap_plan_make(dti_swap_plan *s, const dti_swap_problem *p, dti_genes *g, dt_err *err)
{
    uint64_t bytes = 0;
    start(s, p, g);
    for (size_t k = 0; k < p->n_op; k++)
        DT_CHECK(run(s, p, g, (int32_t)k, err));
    for (int32_t c = 0; c <= g->class[p->n_size - 1] && !p->common; c++)
        bytes += (uint64_t)s->made[c] * s->room->bytes[c];
    g->seconds = s->end[p->n_op - 1];
    g->bytes = bytes = p->common ? s->room->most : bytes;
    g->over = bytes > p->limit ? bytes - p->limit : 0;
    return DT_OK;
}
