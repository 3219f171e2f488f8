/* Revolve's closed form, and Rotor's dynamic program over (first stage, last stage, memory).
 *
 * A stretch of the chain is reversed either by keeping the tape of its first stage, or by keeping
 * its input, running forward to some stage inside, reversing what lies behind that and then what
 * lies before. Ours differs from the authors' in this: bytes are exact where the budget over the
 * greatest common divisor of all sizes is small enough, and rounded up to units elsewhere. */
#include "memory/remat/chain.h"

#include <inttypes.h>
#include <string.h>

#include "engine/base/alloc.h"
#include "engine/base/io.h"
#include "engine/base/numbers.h"
#include "engine/base/text.h"
#include "engine/base/numbers_text.h"
#include "memory/remat/number_lines.h"

/* --- Revolve --- */

/* C(n, k), or UINT64_MAX where it is beyond @cap. */
static uint64_t choose(uint64_t n, uint64_t k, uint64_t cap)
{
    uint64_t c = 1;
    k = k < n - k ? k : n - k;
    for (uint64_t i = 1; i <= k; i++) {
        c = c * (n - k + i) / i;
        if (c > cap)
            return UINT64_MAX;
    }
    return c;
}

uint64_t dt_revolve_extra(uint64_t n, uint64_t s)
{
    uint64_t repeats = 0;
    s = s < n ? s : n;
    while (choose(s + repeats, s, n) < n)
        repeats++;
    if (repeats == 0)
        return 0;
    /* C(s + r, s + 1) is below n r, so it needs no cap of its own */
    return repeats * n - choose(s + repeats, s + 1, UINT64_MAX / (s + repeats + 1) - 1);
}

/* --- Rotor --- */

enum { MOST_CELLS = 1 << 26 };
/* Dearer than any sequence; two of them and all forward steps fit 64 bits. */
static const uint64_t never = (uint64_t)1 << 62;
#define BY_TAPE SIZE_MAX

/* From so many units on a stretch costs so much. */
typedef struct stair {
    uint64_t units, cost;
} stair;

/**
 * struct table - what each stretch costs at the least, by units of memory: stairs that go down, of
 * which there are some ten where there are thousands of units. Below its first one a stretch costs
 * never.
 * @slots:  memory is 0 to slots - 1 units
 * @stair:  of all stretches, by length and then by first stage
 * @first:  of each stretch, and of one more, its place among them
 * @least @touched:  of one stretch while it is made: by units, and a bit for each that is not never
 * @sum @all: of the forward costs before each stage, and of all
 * @x @tape @fextra @bextra: in units; x[0] is the input, x[i + 1] the output of stage i
 */
typedef struct table {
    const dt_chain *c;
    size_t slots, n_stairs, cap;
    stair *stair;
    size_t *first;
    uint64_t *least, *touched;
    uint64_t unit, *sum, *all, *x, *tape, *fextra, *bextra;
} table;

typedef struct stairs {
    const stair *v;
    size_t n;
} stairs;

static size_t at(const table *t, size_t i, size_t l)
{
    const size_t length = l - i; /* of shorter ones there are n, n - 1, ... */
    return length * (2 * (size_t)t->c->n + 1 - length) / 2 + i;
}

static stairs stretch(const table *t, size_t i, size_t l)
{
    const size_t k = at(t, i, l);
    return (stairs){t->stair + t->first[k], t->first[k + 1] - t->first[k]};
}

/* The last stair that begins within @units, plus one; 0 where none does. */
static size_t within(stairs s, uint64_t units)
{
    size_t from = 0, to = s.n;
    while (from < to) {
        const size_t mid = from + (to - from) / 2;
        if (s.v[mid].units <= units)
            from = mid + 1;
        else
            to = mid;
    }
    return from;
}

static uint64_t cost_of(const table *t, size_t i, size_t l, uint64_t units)
{
    const stairs s = stretch(t, i, l);
    const size_t k = within(s, units);
    return k > 0 ? s.v[k - 1].cost : never;
}

/* The least with which the stretch's first stage can run keeping its tape, and then backward: it
 * runs beside the gradient of the stretch's last output, and backward beside that of its own. */
static uint64_t units_by_tape(const table *t, size_t i, size_t l)
{
    return t->tape[i] + dt_max_u64(t->x[l + 1] + t->fextra[i], t->x[i + 1] + t->bextra[i]);
}

/* The least with which stage j of the stretch can run ahead, keeping nothing. */
static uint64_t ahead_by(const table *t, size_t i, size_t j, size_t l)
{
    const uint64_t reads = j > i ? t->x[j] : 0; /* the stretch's input is there anyway */
    return t->x[l + 1] + reads + t->x[j + 1] + t->fextra[j];
}

/* With so many units, below slots, the stretch that is made can be had for @cost. */
static void offer(table *t, uint64_t units, uint64_t cost)
{
    if (cost < t->least[units]) {
        t->least[units] = cost;
        t->touched[units / 64] |= (uint64_t)1 << units % 64;
    }
}

/* The stretch that was made joins the others. */
static bool store(table *t)
{
    uint64_t best = never;
    for (size_t w = 0; w <= (t->slots - 1) / 64; w++) {
        for (; t->touched[w] != 0; t->touched[w] &= t->touched[w] - 1) {
            const size_t units = w * 64 + (size_t)__builtin_ctzll(t->touched[w]);
            const uint64_t cost = t->least[units];
            t->least[units] = never;
            if (cost >= best)
                continue;
            if (!dt_grow(&t->stair, &t->cap, t->n_stairs, sizeof *t->stair))
                return false;
            t->stair[t->n_stairs++] = (stair){units, cost};
            best = cost;
        }
    }
    return true;
}

/* Run forward to stage j and keep its input, with @from to @to - 1 units. */
static void run_ahead(table *t, size_t i, size_t j, size_t l, uint64_t from, uint64_t to)
{
    const uint64_t forward = t->sum[j] - t->sum[i], shift = t->x[j];
    const stairs ahead = stretch(t, i, j - 1), behind = stretch(t, j, l);
    if (ahead.n == 0 || behind.n == 0)
        return;
    uint64_t units = dt_max_u64(dt_max_u64(from, ahead.v[0].units), behind.v[0].units + shift);
    if (units >= to)
        return;
    size_t a = within(ahead, units), b = within(behind, units - shift);
    while (units < to) {
        offer(t, units, forward + ahead.v[a - 1].cost + behind.v[b - 1].cost);
        const uint64_t next_a = a < ahead.n ? ahead.v[a].units : to;
        const uint64_t next_b = b < behind.n ? behind.v[b].units + shift : to;
        units = next_a < next_b ? next_a : next_b;
        a += next_a == units && a < ahead.n;
        b += next_b == units && b < behind.n;
    }
}

/* With the first stage's tape, or by running ahead to a later one, beside the gradient of the
 * stretch's last output. That takes these forward steps more than each stage once; where the
 * stretch costs no more than that with the tape, with so many units or more, neither this stage nor
 * those behind it need be looked at. */
static void make_stretch(table *t, size_t i, size_t l)
{
    const dt_chain_stage *s = &t->c->stage[i];
    const uint64_t one = s->forward + s->backward, once = t->all[l + 1] - t->all[i];
    const uint64_t by_tape = units_by_tape(t, i, l);
    const stairs rest = stretch(t, i + 1, l);
    uint64_t to = t->slots, least = ahead_by(t, i, i, l);
    size_t k = 0;
    if (by_tape < to)
        for (; k < rest.n && rest.v[k].units + t->tape[i] < to; k++)
            offer(t, dt_max_u64(rest.v[k].units + t->tape[i], by_tape), one + rest.v[k].cost);
    for (size_t j = i + 1; j <= l && least < to; j++) {
        while (k > 0 && one + rest.v[k - 1].cost <= once + t->sum[j] - t->sum[i])
            to = dt_max_u64(rest.v[--k].units + t->tape[i], by_tape);
        run_ahead(t, i, j, l, least, to);
        least = dt_max_u64(least, ahead_by(t, i, j, l));
    }
}

/* Stretches are made of shorter ones. */
static bool solve_all(table *t)
{
    const size_t n = t->c->n;
    for (size_t length = 0; length < n; length++)
        for (size_t i = 0; i + length < n; i++) {
            const dt_chain_stage *s = &t->c->stage[i];
            t->first[at(t, i, i + length)] = t->n_stairs;
            if (length > 0)
                make_stretch(t, i, i + length);
            else if (units_by_tape(t, i, i) < t->slots)
                offer(t, units_by_tape(t, i, i), s->forward + s->backward);
            if (!store(t))
                return false;
            t->first[at(t, i, i + length) + 1] = t->n_stairs;
        }
    return true;
}

static dt_status push(dt_chain_plan *p, dt_chain_act act, size_t stage, dt_err *err)
{
    if (!dt_grow(&p->step, &p->cap, p->n, sizeof *p->step))
        return DT_FAIL(err, DT_E_NOMEM, "no memory for %zu steps", p->n + 1);
    p->step[p->n++] = (dt_chain_step){act, (uint32_t)stage};
    return DT_OK;
}

/* What gave the least cost: the first of what did. */
static size_t cut_of(const table *t, size_t i, size_t l, size_t m)
{
    const uint64_t cost = cost_of(t, i, l, m);
    const dt_chain_stage *s = &t->c->stage[i];
    uint64_t least = ahead_by(t, i, i, l);
    if (i == l || (m >= units_by_tape(t, i, l) &&
                      s->forward + s->backward + cost_of(t, i + 1, l, m - t->tape[i]) == cost))
        return BY_TAPE;
    for (size_t j = i + 1; j <= l && m >= least; j++) {
        if (m >= t->x[j] &&
            t->sum[j] - t->sum[i] + cost_of(t, i, j - 1, m) + cost_of(t, j, l, m - t->x[j]) == cost)
            return j;
        least = dt_max_u64(least, ahead_by(t, i, j, l));
    }
    return BY_TAPE;
}

/* A call is for a shorter stretch, so there are never more at once than there are stages. */
static dt_status write_down(
    const table *t, size_t i, size_t l, size_t m, dt_chain_plan *p, dt_err *err)
{
    const size_t cut = cut_of(t, i, l, m);
    if (cut == BY_TAPE) {
        DT_CHECK(push(p, DT_CHAIN_FORWARD_KEEP_TAPE, i, err));
        if (i < l)
            DT_CHECK(write_down(t, i + 1, l, m - t->tape[i], p, err));
        return push(p, DT_CHAIN_BACKWARD, i, err);
    }
    DT_CHECK(push(p, DT_CHAIN_FORWARD_KEEP_INPUT, i, err));
    for (size_t j = i + 1; j < cut; j++)
        DT_CHECK(push(p, DT_CHAIN_FORWARD, j, err));
    DT_CHECK(write_down(t, cut, l, m - t->x[cut], p, err));
    return write_down(t, i, cut - 1, m, p, err);
}

/* The next of eight steps to twice as much, so that one table is for many budgets. */
static uint64_t coarse(uint64_t bytes)
{
    uint64_t step = 1, next;
    while (bytes / 16 >= step)
        step *= 2;
    return dt_round_up(bytes, step, &next) ? next : bytes;
}

/* What bytes are counted in: a divisor of all of them, or what makes the table small enough. */
static uint64_t unit_for(const dt_chain *c, uint64_t room)
{
    uint64_t all = c->input;
    for (uint32_t i = 0; i < c->n; i++) {
        const dt_chain_stage *s = &c->stage[i];
        all = dt_gcd(dt_gcd(all, s->bytes), dt_gcd(s->tape, s->forward_extra));
        all = dt_gcd(all, s->backward_extra);
    }
    all = all > 0 ? all : 1;
    const uint64_t of_all = (uint64_t)c->n * (c->n + 1) / 2;
    const uint64_t fit = MOST_CELLS / of_all;
    const uint64_t slots = fit < DT_CHAIN_MOST_SLOTS ? fit : DT_CHAIN_MOST_SLOTS;
    return room / all < slots ? all : coarse(room) / (slots - 1) + 1;
}

static uint64_t units(const table *t, uint64_t bytes)
{
    return bytes / t->unit + (bytes % t->unit != 0);
}

static dt_status no_memory(const table *t, dt_err *err)
{
    return DT_FAIL(err, DT_E_NOMEM, "no memory for a table of %" PRIu32 " stages by %zu units",
        t->c->n, t->slots);
}

/* Within @bytes. */
static dt_status table_init(table *t, const dt_chain *c, uint64_t bytes, dt_err *err)
{
    const size_t n = c->n;
    *t = (table){.c = c, .unit = unit_for(c, bytes)};
    t->slots = (size_t)(bytes / t->unit) + 1;
    t->first = dt_alloc(n * (n + 1) / 2 + 1, sizeof *t->first);
    t->least = dt_alloc(t->slots, sizeof *t->least);
    t->touched = dt_alloc(t->slots / 64 + 1, sizeof *t->touched);
    t->sum = dt_alloc(n + 1, sizeof *t->sum);
    t->all = dt_alloc(n + 1, sizeof *t->all);
    t->x = dt_alloc(n + 1, sizeof *t->x);
    t->tape = dt_alloc(n, sizeof *t->tape);
    t->fextra = dt_alloc(n, sizeof *t->fextra);
    t->bextra = dt_alloc(n, sizeof *t->bextra);
    if (t->first == NULL || t->least == NULL || t->touched == NULL || t->sum == NULL ||
        t->all == NULL || t->x == NULL || t->tape == NULL || t->fextra == NULL || t->bextra == NULL)
        return no_memory(t, err);
    for (size_t m = 0; m < t->slots; m++)
        t->least[m] = never;
    t->x[0] = units(t, c->input);
    for (size_t i = 0; i < n; i++) {
        const dt_chain_stage *s = &c->stage[i];
        t->sum[i + 1] = t->sum[i] + s->forward;
        t->all[i + 1] = t->all[i] + s->forward + s->backward;
        t->x[i + 1] = units(t, s->bytes);
        t->tape[i] = units(t, s->tape);
        t->fextra[i] = units(t, s->forward_extra);
        t->bextra[i] = units(t, s->backward_extra);
    }
    return DT_OK;
}

static void table_deinit(table *t)
{
    dt_free(t->stair);
    dt_free(t->first);
    dt_free(t->least);
    dt_free(t->touched);
    dt_free(t->sum);
    dt_free(t->all);
    dt_free(t->x);
    dt_free(t->tape);
    dt_free(t->fextra);
    dt_free(t->bextra);
    *t = (table){0};
}

/* --- Revolve's sequence --- */

/* Stages [i, i + n) whose input is kept, with @states of them in all; T is monotone in neither of
 * its parts, so each place to cut is tried. */
static dt_status revolve(dt_chain_plan *p, size_t i, uint64_t n, uint64_t states, dt_err *err)
{
    if (n == 1) {
        DT_CHECK(push(p, DT_CHAIN_FORWARD_KEEP_TAPE, i, err));
        return push(p, DT_CHAIN_BACKWARD, i, err);
    }
    uint64_t cut = n - 1, least = UINT64_MAX;
    for (uint64_t k = 1; states > 1 && k < n; k++) {
        const uint64_t extra =
            k + dt_revolve_extra(k, states) + dt_revolve_extra(n - k, states - 1);
        if (extra < least) {
            least = extra;
            cut = k;
        }
    }
    DT_CHECK(push(p, DT_CHAIN_FORWARD_KEEP_INPUT, i, err));
    for (uint64_t k = 1; k < cut; k++)
        DT_CHECK(push(p, DT_CHAIN_FORWARD, i + k, err));
    DT_CHECK(revolve(p, i + cut, n - cut, states > 1 ? states - 1 : 1, err));
    return revolve(p, i, cut, states, err);
}

dt_status dti_revolve_steps(dt_chain_plan *out, uint32_t n, uint64_t states, dt_err *err)
{
    *out = (dt_chain_plan){.unit = 1};
    const dt_status st = n > 0 && n <= DT_CHAIN_MOST_STAGES && states > 0
                             ? revolve(out, 0, n, states, err)
                             : DT_FAIL(err, DT_E_CONFIG,
                                   "Revolve's sequence is of 1 to %d stages and 1 state or more",
                                   DT_CHAIN_MOST_STAGES);
    if (st != DT_OK)
        dt_chain_plan_deinit(out);
    return st;
}

void dt_chain_plan_deinit(dt_chain_plan *p)
{
    dt_free(p->step);
    *p = (dt_chain_plan){0};
}

struct dti_chain_solver {
    const dt_chain *c;
    table t;
    bool made;
};

dti_chain_solver *dti_chain_solver_new(const dt_chain *c)
{
    dti_chain_solver *s = dt_alloc(1, sizeof *s);
    if (s != NULL)
        s->c = c;
    return s;
}

void dti_chain_solver_free(dti_chain_solver *s)
{
    if (s != NULL)
        table_deinit(&s->t);
    dt_free(s);
}

/* A table with room for @bytes, and for all that one of the same unit is for; where it is exact,
 * for twice as many where one was too small, as who asked for more once does so again. */
static dt_status make_table(dti_chain_solver *s, uint64_t bytes, dt_err *err)
{
    const uint64_t unit = unit_for(s->c, bytes);
    const bool grows = s->made && s->t.unit == unit;
    if (grows && bytes / unit < s->t.slots)
        return DT_OK;
    if (unit_for(s->c, coarse(bytes)) == unit)
        bytes = coarse(bytes);
    if (grows && bytes <= UINT64_MAX / 2 && unit_for(s->c, 2 * bytes) == unit)
        bytes *= 2;
    table_deinit(&s->t);
    const dt_status st = table_init(&s->t, s->c, bytes, err);
    s->made = st == DT_OK && solve_all(&s->t);
    return st != DT_OK || s->made ? st : no_memory(&s->t, err);
}

/* From the table that there is, which has room. */
static dt_status plan_by_table(
    const dti_chain_solver *s, dt_chain_plan *out, uint64_t budget, dt_err *err)
{
    const table *t = &s->t;
    const size_t n = s->c->n, room = (size_t)((budget - s->c->input) / t->unit);
    char count[DT_HUMAN_BYTES], more[DT_HUMAN_BYTES];
    out->unit = t->unit;
    out->cost = cost_of(t, 0, n - 1, room);
    const dt_status st =
        out->cost != never
            ? write_down(t, 0, n - 1, room, out, err)
            : DT_FAIL(err, DT_E_BUDGET, "no sequence fits %s byte%s, counted in units of %s",
                  dt_human_count(count, budget), budget == 1 ? "" : "s",
                  dt_human_count(more, t->unit));
    if (st != DT_OK)
        dt_chain_plan_deinit(out);
    return st;
}

dt_status dti_chain_solver_plan(
    dti_chain_solver *s, dt_chain_plan *out, uint64_t budget, dt_err *err)
{
    char count[DT_HUMAN_BYTES], more[DT_HUMAN_BYTES];
    const uint64_t input = s->c->input;
    *out = (dt_chain_plan){0};
    if (budget < input)
        return DT_FAIL(err, DT_E_BUDGET, "the input alone takes %s bytes; the budget is %s",
            dt_human_count(count, input), dt_human_count(more, budget));
    DT_CHECK(make_table(s, budget - input, err));
    return plan_by_table(s, out, budget, err);
}

dt_status dti_chain_solver_roughly(
    dti_chain_solver *s, dt_chain_plan *out, uint64_t budget, dt_err *err)
{
    const uint64_t input = s->c->input;
    if (!s->made || budget < input || (budget - input) / s->t.unit >= s->t.slots)
        return dti_chain_solver_plan(s, out, budget, err);
    *out = (dt_chain_plan){0};
    return plan_by_table(s, out, budget, err);
}

dt_status dt_chain_solve(dt_chain_plan *out, const dt_chain *c, uint64_t budget, dt_err *err)
{
    dti_chain_solver *s = dti_chain_solver_new(c);
    *out = (dt_chain_plan){0};
    const dt_status st = s != NULL ? dti_chain_solver_plan(s, out, budget, err)
                                   : DT_FAIL(err, DT_E_NOMEM, "no memory for a chain's table");
    dti_chain_solver_free(s);
    return st;
}

/* --- chains as text --- */

enum { MOST_BYTES = 1 << 20, NUMBERS = 6 };

void dt_chain_deinit(dt_chain *c)
{
    dt_free(c->stage);
    *c = (dt_chain){0};
}

static dt_status read_stages(dti_number_lines *r, dt_chain *c)
{
    uint64_t v[NUMBERS], sum[2] = {0};
    for (uint32_t i = 0; i < c->n; i++) {
        DT_CHECK(dti_number_line(
            r, v, NUMBERS, "FORWARD BACKWARD BYTES TAPE FORWARD_EXTRA BACKWARD_EXTRA"));
        for (size_t k = 0; k < NUMBERS; k++) {
            uint64_t *to = &sum[k >= 2];
            if (v[k] > DT_CHAIN_MOST_SUM - *to)
                return DT_FAIL(r->err, DT_E_DATA,
                    "%s:%zu: the %s add up to more than 2^44 here; scale them down", r->path,
                    r->line, k < 2 ? "costs" : "bytes");
            *to += v[k];
        }
        if (v[3] < v[2])
            return DT_FAIL(r->err, DT_E_DATA,
                "%s:%zu: TAPE is %" PRIu64 " and BYTES %" PRIu64
                "; a tape has the stage's output in it, so it is no less",
                r->path, r->line, v[3], v[2]);
        c->stage[i] = (dt_chain_stage){v[0], v[1], v[2], v[3], v[4], v[5]};
    }
    if (c->stage[c->n - 1].bytes != 0 || c->stage[c->n - 1].tape != 0)
        return DT_FAIL(r->err, DT_E_DATA,
            "%s:%zu: the last line is that of the loss, whose BYTES and TAPE are 0", r->path,
            r->line);
    return dti_number_end(r);
}

dt_status dti_chain_parse(
    dt_chain *out, const char *text, size_t bytes, const char *path, dt_err *err)
{
    *out = (dt_chain){0};
    dti_number_lines r = {dt_behind_mark(text, bytes), text + bytes, path, 0, err};
    uint64_t v[2];
    DT_CHECK(dti_number_line(&r, v, 2, "STAGES INPUT"));
    if (v[0] == 0 || v[0] > DT_CHAIN_MOST_STAGES || v[1] > DT_CHAIN_MOST_SUM)
        return DT_FAIL(err, DT_E_DATA,
            "%s:1: %" PRIu64 " stages and an input of %" PRIu64
            " bytes; there may be 1 to %d stages, and 2^44 bytes",
            path, v[0], v[1], DT_CHAIN_MOST_STAGES);
    dt_chain c = {.n = (uint32_t)v[0], .input = v[1]};
    c.stage = dt_alloc(c.n, sizeof *c.stage);
    const dt_status st =
        c.stage != NULL ? read_stages(&r, &c) : DT_FAIL(err, DT_E_NOMEM, "%s: out of memory", path);
    if (st != DT_OK) {
        dt_chain_deinit(&c);
        return st;
    }
    *out = c;
    return DT_OK;
}

dt_status dt_chain_read(dt_chain *out, const char *path, dt_err *err)
{
    char *text;
    size_t bytes;
    *out = (dt_chain){0};
    DT_CHECK(dt_read_file(&text, &bytes, path, MOST_BYTES, DT_E_DATA, err));
    const dt_status st = dti_chain_parse(out, text, bytes, path, err);
    dt_free(text);
    return st;
}
