#include "tests/interleave.h"

#include <string.h>

#include "engine/base/alloc.h"
#include "tests/check.h"
#include "tests/random_graph.h"

enum { CELL = 64, RUNS = 2 };

typedef struct interleaver {
    const dt_plan *p;
    int run;
    uint64_t *arena, *slot;  /* marks, by cell */
    uint64_t *apart, *saved; /* in program order: each tensor by itself, and as last copied out */
    size_t *base;            /* by tensor: its first cell in apart and saved */
    uint64_t *off;           /* by tensor: where it was placed */
    uint64_t *expect[RUNS];  /* by row: what it reads */
    uint64_t **packed;       /* by row, copies out that pack: the tensor's marks */
    bool *signalled;
    int32_t *queue[DT_STREAMS]; /* rows */
    size_t length[DT_STREAMS], next[DT_STREAMS];
    size_t n_arena, n_slot, n_apart;
} interleaver;

static void *take(size_t n, size_t each)
{
    void *p = dt_alloc(n, each);
    assert_non_null(p);
    return p;
}

static uint64_t mix(uint64_t a, uint64_t b)
{
    uint64_t x = a * 0x9E3779B97F4A7C15u ^ (b + 0xD1B54A32D192ED03u);
    x ^= x >> 32;
    x *= 0xD6E8FEB86659FD93u;
    return x ^ x >> 29;
}

static size_t cells(uint64_t bytes)
{
    return (size_t)((bytes + CELL - 1) / CELL);
}

static uint64_t read_cells(const uint64_t *cell, uint64_t from, uint64_t to, uint64_t mark)
{
    for (uint64_t c = from / CELL; c < cells(to); c++)
        mark = mix(mark, cell[c]);
    return mark;
}

/* A write that begins inside a cell adds to what the write before it left there. */
static void write_cells(uint64_t *cell, uint64_t from, uint64_t to, uint64_t mark)
{
    for (uint64_t c = from / CELL; c < cells(to); c++)
        cell[c] = mix(mark, c * CELL < from ? cell[c] : c);
}

/* Where the marks of a tensor are: by itself, or in the arena. NULL when it lies outside. */
static uint64_t *marks(interleaver *k, int32_t t, uint64_t off, bool apart)
{
    if (apart)
        return k->apart + k->base[t];
    const bool inside = off % CELL == 0 && off / CELL + cells(k->p->tensor[t].bytes) <= k->n_arena;
    return inside ? k->arena + off / CELL : NULL;
}

static bool run_op(interleaver *k, const dt_row *r, int32_t at, bool apart, uint64_t *seen)
{
    const dt_plan_op *op = &k->p->op[r->op];
    for (int write = 0; write < 2; write++)
        for (int32_t a = op->first; a < op->first + op->n; a++) {
            const dt_plan_arg *g = &k->p->arg[a];
            uint64_t *cell = marks(k, g->tensor, k->off[g->tensor], apart);
            if (cell == NULL)
                return false;
            if (write == 0 && (g->mode & DT_READ) != 0)
                *seen = read_cells(cell, g->from, g->to, *seen);
            if (write == 1 && (g->mode & DT_WRITE) != 0)
                write_cells(
                    cell, g->from, g->to, mix(*seen, (uint64_t)at * 64 + (uint64_t)g->tensor));
        }
    return true;
}

/* A slot of packed bytes has fewer cells than the tensor. The tensor's marks wait beside it, and
 * the cells say which row put them there: all of them must, when they are read. */
static void pack(interleaver *k, int32_t at, const uint64_t *device, uint64_t *slot)
{
    const dt_row *r = &k->p->row[at];
    const size_t n = cells(r->bytes);
    if (k->packed[at] == NULL)
        k->packed[at] = take(n, sizeof **k->packed);
    memcpy(k->packed[at], device, n * sizeof *device);
    for (size_t c = 0; c < cells(r->stored); c++)
        slot[c] = mix((uint64_t)at, c);
}

static void unpack(interleaver *k, int32_t at, const uint64_t *slot, uint64_t *device)
{
    const dt_row *r = &k->p->row[at];
    int32_t from = 0;
    while ((size_t)from < k->p->n_row &&
           (k->packed[from] == NULL || slot[0] != mix((uint64_t)from, 0)))
        from++;
    bool whole = (size_t)from < k->p->n_row && k->p->row[from].tensor == r->tensor;
    for (size_t c = 0; c < cells(r->stored) && whole; c++)
        whole = slot[c] == mix((uint64_t)from, c);
    for (size_t c = 0; c < cells(r->bytes); c++)
        device[c] = whole ? k->packed[from][c] : 0;
}

static bool run_copy(interleaver *k, int32_t at, bool apart, uint64_t *seen)
{
    const dt_row *r = &k->p->row[at];
    const uint64_t bytes = k->p->tensor[r->tensor].bytes;
    uint64_t *device = marks(k, r->tensor, r->off, apart);
    if (device == NULL)
        return false;
    if (r->tier == DT_TIER_INPUT) {
        write_cells(device, 0, bytes, mix(r->slot + 1000, (uint64_t)k->run));
        return true;
    }
    const size_t first = r->tier == DT_TIER_DISK ? cells(k->p->host_peak) : 0;
    if (r->slot % CELL != 0 || first + r->slot / CELL + cells(r->stored) > k->n_slot)
        return false;
    uint64_t *host = apart ? k->saved + k->base[r->tensor] : k->slot + first + r->slot / CELL;
    const bool out = r->kind == DT_ROW_COPY_OUT;
    if (out)
        *seen = read_cells(device, 0, bytes, 0);
    if (apart || r->codec == 0)
        memcpy(out ? host : device, out ? device : host, cells(bytes) * sizeof *host);
    else if (out)
        pack(k, at, device, host);
    else
        unpack(k, at, host, device);
    if (!out)
        *seen = read_cells(device, 0, bytes, 0);
    return true;
}

/* What the row reads goes to *seen. False when it touches what is not there. */
static bool run_row(interleaver *k, int32_t at, bool apart, uint64_t *seen)
{
    const dt_row *r = &k->p->row[at];
    *seen = (uint64_t)k->run;
    switch ((dt_row_kind)r->kind) {
    case DT_ROW_PLACE:
        k->off[r->tensor] = r->off;
        return true;
    case DT_ROW_COMPUTE:
        if (!run_op(k, r, at, apart, seen))
            return false;
        break;
    case DT_ROW_COPY_OUT:
    case DT_ROW_COPY_IN:
        if (!run_copy(k, at, apart, seen))
            return false;
        break;
    case DT_ROW_RELEASE:
    case DT_ROW_WAIT:
    case DT_ROW_KINDS:
        return true;
    }
    if (r->event >= 0)
        k->signalled[r->event] = true;
    return true;
}

static void start_homes(interleaver *k)
{
    const dt_plan *p = k->p;
    for (size_t t = 0; t < p->n_tensor; t++)
        if (p->tensor[t].persistent) {
            k->off[t] = p->tensor[t].home;
            write_cells(k->apart + k->base[t], 0, p->tensor[t].bytes, t);
            write_cells(k->arena + p->tensor[t].home / CELL, 0, p->tensor[t].bytes, t);
        }
}

/* Rows in their order, tensors apart from each other: what every row is to read. */
static void expectations(interleaver *k)
{
    start_homes(k);
    for (k->run = 0; k->run < RUNS; k->run++)
        for (size_t i = 0; i < k->p->n_row; i++)
            (void)run_row(k, (int32_t)i, true, &k->expect[k->run][i]);
}

static bool may_run(const interleaver *k, int s)
{
    if (k->next[s] == k->length[s])
        return false;
    const dt_row *r = &k->p->row[k->queue[s][k->next[s]]];
    return r->kind != DT_ROW_WAIT || k->signalled[r->event];
}

/* The stream whose turn it is, of those that may go on; -1 when none may. */
static int turn(const interleaver *k, int schedule, dt_dice *d)
{
    static const int late[DT_STREAMS] = {
        DT_STREAM_COMPUTE, DT_STREAM_OUT, DT_STREAM_WRITE, DT_STREAM_IN, DT_STREAM_READ};
    static const int early[DT_STREAMS] = {
        DT_STREAM_READ, DT_STREAM_IN, DT_STREAM_WRITE, DT_STREAM_OUT, DT_STREAM_COMPUTE};
    int chosen = -1;
    uint32_t seen = 0;
    for (int i = DT_STREAMS; i-- > 0;) {
        const int s = schedule == 0 ? late[i] : early[i];
        if (may_run(k, s) && (schedule < 2 || dt_roll(d, ++seen) == 0))
            chosen = s;
    }
    return chosen;
}

static int32_t stuck(const interleaver *k)
{
    for (int s = 0; s < DT_STREAMS; s++)
        if (k->next[s] < k->length[s])
            return k->queue[s][k->next[s]];
    return DT_INTERLEAVE_FINE;
}

static int32_t one_run(interleaver *k, int schedule, dt_dice *d)
{
    memset(k->next, 0, sizeof k->next);
    memset(k->signalled, 0, (size_t)k->p->n_event * sizeof *k->signalled);
    for (int s; (s = turn(k, schedule, d)) >= 0;) {
        uint64_t seen;
        /* A stream that has the turn at random keeps it for a while: bursts reach further. */
        for (uint32_t more = schedule < 2 ? 1 : 1 + dt_roll(d, 6); more > 0 && may_run(k, s);
             more--) {
            const int32_t row = k->queue[s][k->next[s]++];
            if (!run_row(k, row, false, &seen) || seen != k->expect[k->run][row])
                return row;
        }
    }
    return stuck(k);
}

static void start(interleaver *k)
{
    const dt_plan *p = k->p;
    k->n_arena = cells(p->peak);
    k->n_slot = cells(p->host_peak) + cells(p->disk_peak);
    k->base = take(p->n_tensor, sizeof *k->base);
    k->off = take(p->n_tensor, sizeof *k->off);
    for (size_t t = 0; t < p->n_tensor; t++) {
        k->base[t] = k->n_apart;
        k->n_apart += cells(p->tensor[t].bytes);
    }
    k->arena = take(k->n_arena, sizeof *k->arena);
    k->slot = take(k->n_slot, sizeof *k->slot);
    k->apart = take(k->n_apart, sizeof *k->apart);
    k->saved = take(k->n_apart, sizeof *k->saved);
    k->packed = take(p->n_row, sizeof *k->packed);
    k->signalled = take((size_t)p->n_event, sizeof *k->signalled);
    for (int r = 0; r < RUNS; r++)
        k->expect[r] = take(p->n_row, sizeof *k->expect[r]);
    for (int s = 0; s < DT_STREAMS; s++)
        k->queue[s] = take(p->n_row, sizeof *k->queue[s]);
    for (size_t i = 0; i < p->n_row; i++)
        k->queue[p->row[i].stream][k->length[p->row[i].stream]++] = (int32_t)i;
}

static void end(interleaver *k)
{
    dt_free(k->base);
    dt_free(k->off);
    dt_free(k->arena);
    dt_free(k->slot);
    dt_free(k->apart);
    dt_free(k->saved);
    for (size_t i = 0; i < k->p->n_row; i++)
        dt_free(k->packed[i]);
    dt_free(k->packed);
    dt_free(k->signalled);
    for (int r = 0; r < RUNS; r++)
        dt_free(k->expect[r]);
    for (int s = 0; s < DT_STREAMS; s++)
        dt_free(k->queue[s]);
}

int32_t dt_interleave(const dt_plan *p, uint64_t seed, int schedules)
{
    interleaver k = {.p = p};
    dt_dice d = {seed, 0};
    int32_t found = DT_INTERLEAVE_FINE;
    start(&k);
    expectations(&k);
    for (int i = 0; i < schedules && found == DT_INTERLEAVE_FINE; i++) {
        memset(k.arena, 0, k.n_arena * sizeof *k.arena);
        memset(k.slot, 0, k.n_slot * sizeof *k.slot);
        start_homes(&k);
        for (k.run = 0; k.run < RUNS && found == DT_INTERLEAVE_FINE; k.run++)
            found = one_run(&k, i, &d);
    }
    end(&k);
    return found;
}
