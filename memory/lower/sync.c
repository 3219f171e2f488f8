/* Order across streams: inserts WAIT rows, and events where they are waited for, wherever a row
 * needs work of another stream to be done that its stream does not yet know to be done. What a
 * stream knows is a vector clock; a WAIT that another makes superfluous is left out, so that every
 * WAIT of a plan is needed, or was asked for. */
#include <string.h>

#include "engine/base/alloc.h"
#include "memory/lower/extents.h"
#include "memory/lower/sync.h"

typedef struct work {
    int32_t row;     /* in the new rows */
    dti_clock known; /* once it is complete */
} work;

typedef struct usage {
    dti_clock write, any;
} usage;

typedef struct syncer {
    const dt_plan *p;
    dt_row *row;
    size_t n_row, cap_row;
    work *work[DT_MAX_STREAMS];
    dti_clock now[DT_MAX_STREAMS];
    usage *use;               /* by tensor, of its current interval */
    dt_row over[DT_MAX_OVER]; /* PLACE rows of tensors over others, which end at the next COMPUTE */
    int n_over;
    dti_extents former;         /* arena bytes of intervals that have ended */
    dti_extents slot[DT_TIERS]; /* bytes of copies so far */
    bool no_memory;
} syncer;

static void wait_for(syncer *y, int stream, int other, int32_t count)
{
    const work *w = &y->work[other][count - 1];
    dt_row *signal = &y->row[w->row];
    if (signal->event < 0)
        signal->event = w->row; /* renumbered at the end */
    y->row[y->n_row++] = (dt_row){.kind = DT_ROW_WAIT,
        .stream = (uint8_t)stream,
        .op = -1,
        .tensor = -1,
        .over = -1,
        .event = signal->event,
        .reason = -1};
    dti_clock_join(&y->now[stream], &w->known);
}

/* Make the stream know of all that is needed, by the fewest waits. */
static void require(syncer *y, int stream, const dti_clock *need)
{
    for (int round = 0; round < y->p->n_stream; round++) {
        int best = -1, covers = -1;
        for (int o = 0; o < y->p->n_stream; o++) {
            if (o == stream || need->done[o] <= y->now[stream].done[o])
                continue;
            dti_clock after = y->now[stream];
            dti_clock_join(&after, &y->work[o][need->done[o] - 1].known);
            int covered = 0;
            for (int k = 0; k < y->p->n_stream; k++)
                covered += k == stream || after.done[k] >= need->done[k];
            if (covered > covers) {
                covers = covered;
                best = o;
            }
        }
        if (best < 0)
            return;
        wait_for(y, stream, best, need->done[best]);
    }
}

static int32_t add_work(syncer *y, const dt_row *r)
{
    const int s = r->stream;
    y->row[y->n_row] = *r;
    const int32_t count = ++y->now[s].done[s];
    y->work[s][count - 1] = (work){(int32_t)y->n_row++, y->now[s]};
    return count;
}

static void use_slot(syncer *y, const dt_row *r, int32_t count)
{
    dti_extent x = {r->slot, r->slot + r->stored, {{0}}};
    x.last.done[r->stream] = count;
    y->no_memory = !dti_extents_add(&y->slot[r->tier], x) || y->no_memory;
}

/* The interval is over; whoever uses its bytes next must know of all that was done to it. */
static void forget(syncer *y, int32_t tensor, uint64_t off)
{
    usage *u = &y->use[tensor];
    const dti_extent x = {off, off + y->p->tensor[tensor].bytes, u->any};
    y->no_memory = !dti_extents_add(&y->former, x) || y->no_memory;
    memset(u, 0, sizeof *u);
}

/* What an op finds in the slot where it lives. */
static void use_home(syncer *y, int stream, const dt_plan_tensor *t, int32_t count)
{
    dti_extent x = {t->home, t->home + t->bytes, {{0}}};
    x.last.done[stream] = count;
    y->no_memory = !dti_extents_add(&y->slot[t->tier], x) || y->no_memory;
}

static void compute(syncer *y, const dt_row *r)
{
    const dt_plan_op *op = &y->p->op[r->op];
    dti_clock need = {{0}};
    for (int32_t a = op->first; a < op->first + op->n; a++) {
        const dt_plan_arg *g = &y->p->arg[a];
        const dt_plan_tensor *t = &y->p->tensor[g->tensor];
        const usage *u = &y->use[g->tensor];
        if (dt_plan_in_slot(op, t))
            dti_extents_over(&y->slot[t->tier], t->home, t->home + t->bytes, &need);
        else
            dti_clock_join(&need, g->mode == DT_READ ? &u->write : &u->any);
    }
    for (int i = 0; i < y->n_over; i++)
        dti_clock_join(&need, &y->use[y->over[i].over].any);
    require(y, r->stream, &need);
    const int32_t at = add_work(y, r);
    for (int32_t a = op->first; a < op->first + op->n; a++) {
        usage *u = &y->use[y->p->arg[a].tensor];
        if (dt_plan_in_slot(op, &y->p->tensor[y->p->arg[a].tensor])) {
            use_home(y, r->stream, &y->p->tensor[y->p->arg[a].tensor], at);
            continue;
        }
        u->any.done[r->stream] = at;
        if (y->p->arg[a].mode != DT_READ)
            u->write.done[r->stream] = at;
    }
    for (int i = 0; i < y->n_over; i++)
        forget(y, y->over[i].over, y->over[i].off);
    y->n_over = 0;
}

static void copy_out(syncer *y, const dt_row *r)
{
    usage *u = &y->use[r->tensor];
    dti_clock need = u->write;
    dti_extents_over(&y->slot[r->tier], r->slot, r->slot + r->stored, &need);
    require(y, r->stream, &need);
    u->any.done[r->stream] = add_work(y, r);
    use_slot(y, r, u->any.done[r->stream]);
}

static void copy_in(syncer *y, const dt_row *r)
{
    usage *u = &y->use[r->tensor];
    dti_clock need = {{0}};
    dti_extents_over(&y->former, r->off, r->off + r->bytes, &need);
    const bool stored = r->tier != DT_TIER_INPUT;
    if (stored)
        dti_extents_over(&y->slot[r->tier], r->slot, r->slot + r->stored, &need);
    require(y, r->stream, &need);
    u->any.done[r->stream] = u->write.done[r->stream] = add_work(y, r);
    if (stored)
        use_slot(y, r, u->any.done[r->stream]);
}

/* The interval ends on the compute stream, which must know of every copy of it. */
static void release(syncer *y, const dt_row *r)
{
    require(y, DT_MAIN_STREAM, &y->use[r->tensor].any);
    forget(y, r->tensor, r->off);
    y->row[y->n_row++] = *r;
}

/* The program asks for it: the stream goes on when the tensor has come, or when the ops so far are
 * done. */
static void await(syncer *y, const dt_row *r)
{
    dti_clock need = {{0}};
    need.done[DT_MAIN_STREAM] = y->now[DT_MAIN_STREAM].done[DT_MAIN_STREAM];
    require(y, r->stream, r->tensor >= 0 ? &y->use[r->tensor].write : &need);
}

/* Events so far bear the number of the row that signals them; count them up from 0 instead. */
static dt_status renumber(dt_plan *p, dt_err *err)
{
    int32_t *number = dt_alloc(p->n_row, sizeof *number);
    if (number == NULL)
        return DT_FAIL(err, DT_E_NOMEM, "no memory for lowering");
    for (size_t i = 0; i < p->n_row; i++) {
        dt_row *r = &p->row[i];
        if (r->event < 0)
            continue;
        if (r->kind != DT_ROW_WAIT) /* a signal comes before its waits */
            number[r->event] = p->n_event++;
        r->event = number[r->event];
    }
    dt_free(number);
    return DT_OK;
}

/* Works are as many as there are ops and copies; rows as many as before, and waits, which few need.
 */
static dt_status reserve(syncer *y, dt_err *err)
{
    size_t works[DT_MAX_STREAMS] = {0};
    bool ok = true;
    for (size_t i = 0; i < y->p->n_row; i++) {
        const dt_row *r = &y->p->row[i];
        works[r->stream] += r->kind != DT_ROW_PLACE && r->kind != DT_ROW_RELEASE;
    }
    for (int s = 0; s < y->p->n_stream; s++) {
        y->work[s] = dt_alloc(works[s], sizeof *y->work[s]);
        ok = ok && y->work[s] != NULL;
    }
    y->cap_row = y->p->n_row + y->p->n_row / 4 + (size_t)y->p->n_stream;
    y->row = dt_alloc(y->cap_row, sizeof *y->row);
    y->use = dt_alloc(y->p->n_tensor, sizeof *y->use);
    if (!ok || y->row == NULL || y->use == NULL)
        return DT_FAIL(err, DT_E_NOMEM, "no memory for lowering");
    return DT_OK;
}

/* For a row and its waits, one for each other stream at most. */
static bool has_room(syncer *y)
{
    return dt_grow(&y->row, &y->cap_row, y->n_row + (size_t)y->p->n_stream, sizeof *y->row);
}

static void walk(syncer *y)
{
    for (size_t i = 0; i < y->p->n_row && !y->no_memory; i++) {
        const dt_row *r = &y->p->row[i];
        if (!has_room(y)) {
            y->no_memory = true;
            return;
        }
        switch ((dt_row_kind)r->kind) {
        case DT_ROW_PLACE:
            if (r->over >= 0)
                y->over[y->n_over++] = *r;
            y->row[y->n_row++] = *r;
            break;
        case DT_ROW_RELEASE:
            release(y, r);
            break;
        case DT_ROW_COMPUTE:
            compute(y, r);
            break;
        case DT_ROW_COPY_OUT:
            copy_out(y, r);
            break;
        case DT_ROW_COPY_IN:
            copy_in(y, r);
            break;
        case DT_ROW_WAIT:
            await(y, r);
            break;
        case DT_ROW_KINDS:
            DT_ASSERT(0 && "no row");
        }
    }
}

dt_status dti_sync(dt_plan *p, dt_err *err)
{
    syncer y = {.p = p};
    dt_status st = reserve(&y, err);
    if (st == DT_OK) {
        walk(&y);
        if (y.no_memory)
            st = DT_FAIL(err, DT_E_NOMEM, "no memory for lowering");
    }
    if (st == DT_OK) {
        dt_free(p->row);
        p->row = y.row;
        p->n_row = y.n_row;
        y.row = NULL;
        st = renumber(p, err);
    }
    for (int s = 0; s < p->n_stream; s++)
        dt_free(y.work[s]);
    dt_free(y.row);
    dt_free(y.use);
    dti_extents_close(&y.former);
    for (int t = 0; t < DT_TIERS; t++)
        dti_extents_close(&y.slot[t]);
    return st;
}
