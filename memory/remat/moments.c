/* A relaxation over time. Take ops m_1, m_2, ... of which each runs for the first time behind the
 * one before, and call the beginning of m_k's first run moment k, and what is between moments k and
 * k + 1 interval k. A plan says of each value and moment whether its bytes are allocated (there),
 * of each op and interval whether it runs again in it, and of each value and interval which share
 * of a copy out and of a copy back is made in it. Whatever the plan, these numbers keep to
 *
 *   need:  an op that runs for the first time in interval k finds what it reads there at moment k,
 *          or that is made again, or comes back, in interval k;
 *   again: so does an op that runs again in it;
 *   carry: what is there at moment k + 1 was there at moment k, was made, or came back, in k;
 *   out:   what leaves in interval k was there at moment k, or was made in it: who leaves has not
 *          come back before;
 *   back:  what comes back has left before, or waits elsewhere from the beginning, as inputs do;
 *   bytes: what is there at moment k, with what m_k reads and writes, is within the budget;
 *   time:  interval k takes no less than the ops that run in it, nor than the shares of copies out,
 *          nor than those of copies back;
 *   tail:  what is read behind moment k by an op that runs for the first time there was there at
 *          moment k, or had left before it, or is made again behind it; and for what is made again
 *          behind it that holds of what it reads.
 *
 * A copy back that goes on over a moment counts as there by the share that has come, which is no
 * more than it takes, and then need and carry hold for its shares as they do for all of it. A run
 * is counted once an interval, a copy at most once; a value that runs for the first time in an
 * interval may run again in it for nothing. So the least sum of times over all numbers between 0
 * and 1 that keep to these is no more than any plan takes. That is a linear program, and a bound of
 * it from below (ascent.h) a bound of every plan. What tail says follows from the others where the
 * numbers are whole; with fractions, half of a value could be made again twice from one half of
 * another, and half could leave and come back as the other half.
 *
 * If first runs need not be in the graph's order, each m_k depends on the one before. What is known
 * of another op is the moment which it depends on last and that which depends on it first; between
 * these its first run, too, may be in any interval, but must be in some. */
#include "memory/remat/moments.h"

#include <math.h>
#include <string.h>

#include "engine/base/alloc.h"
#include "memory/remat/ascent.h"

/* MOST: steps above so many times the first runs are not told apart. */
enum { MOMENTS = 24, LEAST_MOMENTS = 3, COLUMNS = 15000, STEPS = 4000, MOST = 8 };
static const double near = 1e-4, small = 1e-4, work = 4e8;

/**
 * struct model - the program.
 * @k: moments; @at: 1 to k, the ops; at[0] is none
 * @from @to:  by op, intervals in the first and last of which its first run may be
 * @needed:    by op, the last interval in which its value may be of use
 * @big:       by op, its value has bytes that matter; others are there for nothing
 * @there @runs @back @out: columns by interval and op; below 0: none
 * @tail:      columns by op, of the moment that rows are added for
 * @full:      by op: its value has to be in this interval, in which a first run reads it
 */
typedef struct model {
    const dti_moments *m;
    uint32_t n, k, at[MOMENTS + 2];
    uint32_t *from, *to, *needed, *stack;
    bool *big, *full;
    uint8_t *mark;
    int *there, *runs, *back, *out, *tail;
    int time[MOMENTS + 2];
    dti_lp lp;
    double unit; /* seconds that are 1 in the program */
    dt_err *err;
} model;

static size_t cell(const model *m, uint32_t k, uint32_t v)
{
    return (size_t)k * m->n + v;
}

static bool moves(const model *m)
{
    return m->m->out.rate > 0 && m->m->in.rate > 0;
}

/* Whether a value waits elsewhere from the beginning. */
static bool waits(const model *m, uint32_t v)
{
    return moves(m) && m->m->fetch != NULL && m->m->fetch[v] > 0;
}

/* ---- moments ---- */

/* Mark what depends on an op, or, @back, what it depends on; itself as well. */
static void spread(model *m, uint32_t op, bool back)
{
    const dt_remat_graph *g = m->m->g;
    const uint32_t *at = back ? g->in_at : g->out_at, *to = back ? g->in : g->out;
    uint32_t n = 0;
    memset(m->mark, 0, m->n);
    m->mark[op] = 1;
    m->stack[n++] = op;
    while (n > 0) {
        const uint32_t v = m->stack[--n];
        for (uint32_t i = at[v]; i < at[v + 1]; i++)
            if (m->mark[to[i]] == 0) {
                m->mark[to[i]] = 1;
                m->stack[n++] = to[i];
            }
    }
}

/* Bytes there while an op runs: of its inputs, of which each is counted once, and its own. */
static double load_of(const model *m, uint32_t op)
{
    const dt_remat_graph *g = m->m->g;
    double sum = (double)(m->m->own != NULL ? m->m->own[op] : g->bytes[op]);
    for (uint32_t i = g->in_at[op]; i < g->in_at[op + 1]; i++)
        if (i == g->in_at[op] || g->in[i] != g->in[i - 1])
            sum += (double)g->bytes[g->in[i]];
    return sum;
}

static uint32_t last_reader(const dt_remat_graph *g, uint32_t v)
{
    uint32_t last = v;
    for (uint32_t i = g->out_at[v]; i < g->out_at[v + 1]; i++)
        last = g->out[i] > last ? g->out[i] : last;
    return last;
}

/* Evenly by the bytes that are made and that go; there the op of the largest load. */
static dt_status choose_moments(model *m)
{
    const dt_remat_graph *g = m->m->g;
    double *change = dt_alloc((size_t)m->n + 1, sizeof *change), sum = 0, passed = 0;
    if (change == NULL)
        return DT_FAIL(m->err, DT_E_NOMEM, "no memory for a bound");
    for (uint32_t v = 0; v < m->n; v++) {
        const uint32_t last = last_reader(g, v);
        const double bytes = last > v + 1 ? (double)g->bytes[v] : 0;
        change[v] += bytes;
        change[last] += bytes;
        sum += 2 * bytes;
    }
    uint32_t values = 1;
    for (uint32_t v = 0; v < m->n; v++)
        values += m->big[v];
    const uint32_t fit = COLUMNS / (4 * values), most = fit < MOMENTS ? fit : MOMENTS;
    const uint32_t wanted = most > LEAST_MOMENTS ? most : LEAST_MOMENTS;
    uint32_t best = UINT32_MAX;
    memset(m->mark, 1, m->n);
    for (uint32_t v = 0; v < m->n; v++) {
        passed += change[v];
        const bool may = m->mark[v] != 0 && v > 0 && (m->m->apart == NULL || m->m->apart[v] == 0);
        if (may && (best == UINT32_MAX || load_of(m, v) > load_of(m, best)))
            best = v;
        if (passed * wanted < sum * (m->k + 1) || best == UINT32_MAX || m->k == wanted)
            continue;
        m->at[++m->k] = best;
        if (!m->m->in_order)
            spread(m, best, false);
        m->mark[best] = 0;
        best = UINT32_MAX;
    }
    dt_free(change);
    return DT_OK;
}

/* Between which moments ops run for the first time. */
static void place_ops(model *m)
{
    for (uint32_t v = 0; v < m->n; v++) {
        m->from[v] = 0;
        m->to[v] = m->k;
    }
    for (uint32_t k = 1; k <= m->k; k++) {
        if (!m->m->in_order)
            spread(m, m->at[k], false);
        for (uint32_t v = 0; v < m->n; v++)
            if (m->m->in_order ? v >= m->at[k] : m->mark[v] != 0)
                m->from[v] = k;
    }
    for (uint32_t k = m->k; k > 0; k--) {
        if (!m->m->in_order)
            spread(m, m->at[k], true);
        for (uint32_t v = 0; v < m->n; v++)
            if (v != m->at[k] && (m->m->in_order ? v < m->at[k] : m->mark[v] != 0))
                m->to[v] = k - 1;
    }
}

static bool may_repeat(const model *m, uint32_t v)
{
    return !waits(m, v) && (m->m->once == NULL || m->m->once[v] == 0);
}

/* A value is of use as long as it may be read: by first runs, or by what is made again from it. */
static void find_needed(model *m)
{
    const dt_remat_graph *g = m->m->g;
    for (uint32_t v = m->n; v-- > 0;) {
        m->needed[v] = m->from[v];
        for (uint32_t i = g->out_at[v]; i < g->out_at[v + 1]; i++) {
            const uint32_t w = g->out[i];
            const uint32_t last =
                may_repeat(m, w) && m->needed[w] > m->to[w] ? m->needed[w] : m->to[w];
            m->needed[v] = last > m->needed[v] ? last : m->needed[v];
        }
    }
}

/* ---- columns ---- */

static dt_status column(model *m, double lower, double upper, double cost, int *out)
{
    return dti_lp_col(&m->lp, lower, upper, cost, false, out, m->err);
}

static dt_status add_value(model *m, uint32_t k, uint32_t v)
{
    const dt_remat_graph *g = m->m->g;
    const size_t c = cell(m, k, v);
    const bool floats = m->from[v] < m->to[v] && k >= m->from[v] && k <= m->to[v];
    const bool again = k > m->from[v] && k <= m->needed[v] && may_repeat(m, v) && m->big[v];
    const double seconds = moves(m) ? 0 : m->m->again[v] / m->unit;
    if (k > m->from[v] && m->big[v] && k > 0 && dti_remat_reads(g, m->at[k], v))
        DT_CHECK(column(m, 1, 1, 0, &m->there[c]));
    else if (k > m->from[v] && k <= m->needed[v] && m->big[v])
        DT_CHECK(column(m, 0, 1, 0, &m->there[c]));
    if (floats || again)
        DT_CHECK(column(m, 0, 1, seconds, &m->runs[c]));
    if (!moves(m) || !m->big[v] || k > m->needed[v])
        return DT_OK;
    if (k > m->from[v])
        DT_CHECK(column(m, 0, 1, 0, &m->back[c]));
    const bool leaves = k >= m->from[v] && m->needed[v] > m->from[v] && !waits(m, v);
    return leaves ? column(m, 0, 1, 0, &m->out[c]) : DT_OK;
}

static dt_status add_columns(model *m)
{
    const size_t cells = (size_t)(m->k + 1) * m->n;
    for (size_t i = 0; i < cells; i++)
        m->there[i] = m->runs[i] = m->back[i] = m->out[i] = -1;
    for (uint32_t k = 0; k <= m->k; k++)
        for (uint32_t v = 0; v < m->n; v++)
            DT_CHECK(add_value(m, k, v));
    for (uint32_t k = 0; moves(m) && k <= m->k; k++)
        DT_CHECK(column(m, k == 0 ? m->m->before / m->unit : 0, MOST, 1, &m->time[k]));
    return DT_OK;
}

/* ---- rows ---- */

static dt_status entry(model *m, int column, double factor)
{
    return column < 0 ? DT_OK : dti_lp_entry(&m->lp, column, factor, m->err);
}

/* A row that begins with where a value is in an interval: there, made again or back. */
static dt_status row_of(model *m, uint32_t k, uint32_t v, double lower)
{
    const size_t c = cell(m, k, v);
    DT_CHECK(dti_lp_row(&m->lp, lower, HUGE_VAL, m->err));
    DT_CHECK(entry(m, m->there[c], 1));
    DT_CHECK(entry(m, m->runs[c], 1));
    return entry(m, m->back[c], 1);
}

static bool is_made_in(const model *m, uint32_t k, uint32_t v)
{
    return m->from[v] == k && m->to[v] == k;
}

/* Whether a value is in an interval whatever is done: it has no bytes, or is made in it. */
static bool is_in(const model *m, uint32_t k, uint32_t v)
{
    const size_t c = cell(m, k, v);
    return !m->big[v] || is_made_in(m, k, v) || m->full[c] ||
           (m->there[c] >= 0 && m->lp.lower[m->there[c]] > 0);
}

static dt_status add_needs(model *m, uint32_t k, uint32_t op)
{
    const dt_remat_graph *g = m->m->g;
    for (uint32_t i = g->in_at[op]; i < g->in_at[op + 1]; i++) {
        const uint32_t v = g->in[i];
        if (is_in(m, k, v))
            continue;
        DT_CHECK(row_of(m, k, v, 1));
        m->full[cell(m, k, v)] = true;
    }
    return DT_OK;
}

static dt_status add_sources(model *m, uint32_t k, uint32_t op)
{
    const dt_remat_graph *g = m->m->g;
    for (uint32_t i = g->in_at[op]; i < g->in_at[op + 1]; i++)
        if (!is_in(m, k, g->in[i]) && (i == g->in_at[op] || g->in[i] != g->in[i - 1])) {
            DT_CHECK(row_of(m, k, g->in[i], 0));
            DT_CHECK(entry(m, m->runs[cell(m, k, op)], -1));
        }
    return DT_OK;
}

static dt_status add_carry_and_moves(model *m, uint32_t k, uint32_t v)
{
    const size_t c = cell(m, k, v);
    const int next = k < m->k ? m->there[cell(m, k + 1, v)] : -1;
    if (next >= 0 && !is_in(m, k, v)) {
        DT_CHECK(row_of(m, k, v, 0));
        DT_CHECK(entry(m, next, -1));
    }
    if (m->out[c] >= 0 && !is_made_in(m, k, v)) {
        DT_CHECK(dti_lp_row(&m->lp, 0, HUGE_VAL, m->err));
        DT_CHECK(entry(m, m->there[c], 1));
        DT_CHECK(entry(m, m->runs[c], 1));
        DT_CHECK(entry(m, m->out[c], -1));
    }
    if (m->back[c] < 0 || waits(m, v))
        return DT_OK;
    DT_CHECK(dti_lp_row(&m->lp, 0, HUGE_VAL, m->err));
    for (uint32_t j = m->from[v]; j <= k; j++)
        DT_CHECK(entry(m, m->out[cell(m, j, v)], 1));
    return entry(m, m->back[c], -1);
}

/* Ops whose interval is not known run in some. */
static dt_status add_first_runs(model *m)
{
    for (uint32_t v = 0; v < m->n; v++) {
        if (m->from[v] == m->to[v])
            continue;
        DT_CHECK(dti_lp_row(&m->lp, 1, HUGE_VAL, m->err));
        for (uint32_t k = m->from[v]; k <= m->to[v]; k++)
            DT_CHECK(entry(m, m->runs[cell(m, k, v)], 1));
    }
    return DT_OK;
}

static dt_status add_bytes(model *m, uint32_t k)
{
    const dt_remat_graph *g = m->m->g;
    const uint32_t op = m->at[k];
    const double own = (double)(m->m->own != NULL ? m->m->own[op] : g->bytes[op]);
    const double budget = (double)m->m->budget;
    if (load_of(m, op) > budget || !(budget > 0)) /* what fits nowhere binds nothing */
        return DT_OK;
    DT_CHECK(dti_lp_row(&m->lp, own / budget - 1, HUGE_VAL, m->err));
    for (uint32_t v = 0; v < m->n; v++)
        DT_CHECK(entry(m, m->there[cell(m, k, v)], -(double)g->bytes[v] / budget));
    return DT_OK;
}

/* Copies of one kind follow each other: those out, those back, and those of what waits. */
static dt_status add_copies(model *m, uint32_t k, const int *column, const dti_copies *c)
{
    DT_CHECK(dti_lp_row(&m->lp, 0, HUGE_VAL, m->err));
    DT_CHECK(entry(m, m->time[k], 1));
    for (uint32_t v = 0; v < m->n; v++) {
        const double moved = c != NULL ? c->latency + (double)m->m->g->bytes[v] / c->rate : 0;
        if (waits(m, v) == (c == NULL))
            DT_CHECK(
                entry(m, column[cell(m, k, v)], -(c != NULL ? moved : m->m->fetch[v]) / m->unit));
    }
    return DT_OK;
}

/* Runs cost what further ones do; of an op whose first run may be in several intervals one of them
 * is counted with all first runs, so as much more has to be there. */
static dt_status add_ops(model *m, uint32_t first, uint32_t last, double seconds)
{
    DT_CHECK(dti_lp_row(&m->lp, seconds / m->unit, HUGE_VAL, m->err));
    for (uint32_t k = first; k <= last; k++) {
        DT_CHECK(entry(m, m->time[k], 1));
        for (uint32_t v = 0; v < m->n; v++)
            DT_CHECK(entry(m, m->runs[cell(m, k, v)], -m->m->again[v] / m->unit));
    }
    return DT_OK;
}

static double floating(const model *m)
{
    double sum = 0;
    for (uint32_t v = 0; v < m->n; v++)
        sum += m->from[v] < m->to[v] ? m->m->again[v] : 0;
    return sum;
}

static dt_status add_times(model *m)
{
    for (uint32_t k = 0; k <= m->k; k++) {
        double seconds = k == 0 ? m->m->before : 0;
        for (uint32_t v = 0; v < m->n; v++)
            seconds += is_made_in(m, k, v) ? m->m->first[v] : 0;
        DT_CHECK(add_ops(m, k, k, seconds));
        DT_CHECK(add_copies(m, k, m->out, &m->m->out));
        DT_CHECK(add_copies(m, k, m->back, &m->m->in));
        DT_CHECK(add_copies(m, k, m->back, NULL));
    }
    return add_ops(m, 0, m->k, m->m->least - floating(m));
}

/* ---- tails ---- */

/* Whether a value may be behind a moment whatever is done: it has no bytes, waits elsewhere, is
 * there at it, or may run for the first time behind it. */
static bool is_behind(const model *m, uint32_t k, uint32_t v)
{
    const int there = m->there[cell(m, k, v)];
    return !m->big[v] || waits(m, v) || m->to[v] >= k || (there >= 0 && m->lp.lower[there] > 0);
}

/* A row that begins with where a value is behind a moment; @reader: a column that is no more, or
 * below 0. */
static dt_status tail_row(model *m, uint32_t k, uint32_t v, double lower, int reader)
{
    DT_CHECK(dti_lp_row(&m->lp, lower, HUGE_VAL, m->err));
    DT_CHECK(entry(m, m->there[cell(m, k, v)], 1));
    DT_CHECK(entry(m, m->tail[v], 1));
    for (uint32_t j = m->from[v]; j < k; j++)
        DT_CHECK(entry(m, m->out[cell(m, j, v)], 1));
    return entry(m, reader, -1);
}

static bool is_read_behind(const model *m, uint32_t k, uint32_t v)
{
    const dt_remat_graph *g = m->m->g;
    for (uint32_t i = g->out_at[v]; i < g->out_at[v + 1]; i++)
        if (m->from[g->out[i]] >= k)
            return true;
    return false;
}

static dt_status tail_rows(model *m, uint32_t k, uint32_t v)
{
    const dt_remat_graph *g = m->m->g;
    if (!is_behind(m, k, v) && is_read_behind(m, k, v))
        DT_CHECK(tail_row(m, k, v, 1, -1));
    for (uint32_t i = g->in_at[v]; m->tail[v] >= 0 && i < g->in_at[v + 1]; i++)
        if (!is_behind(m, k, g->in[i]) && !is_read_behind(m, k, g->in[i]))
            DT_CHECK(tail_row(m, k, g->in[i], 0, m->tail[v]));
    return DT_OK;
}

/* Columns that say whether an op runs again behind a moment, at most as much as in the intervals
 * there. */
static dt_status add_tail(model *m, uint32_t k)
{
    for (uint32_t v = 0; v < m->n; v++) {
        m->tail[v] = -1;
        if (m->to[v] >= k || m->needed[v] < k || !m->big[v] || !may_repeat(m, v))
            continue;
        DT_CHECK(column(m, 0, 1, 0, &m->tail[v]));
        DT_CHECK(dti_lp_row(&m->lp, 0, HUGE_VAL, m->err));
        DT_CHECK(entry(m, m->tail[v], -1));
        for (uint32_t j = k; j <= m->k; j++)
            DT_CHECK(entry(m, m->runs[cell(m, j, v)], 1));
    }
    for (uint32_t v = 0; v < m->n; v++)
        DT_CHECK(tail_rows(m, k, v));
    return DT_OK;
}

static dt_status add_rows(model *m)
{
    for (uint32_t k = 0; k <= m->k; k++) {
        for (uint32_t v = 0; v < m->n; v++)
            if (is_made_in(m, k, v) && v != m->at[k])
                DT_CHECK(add_needs(m, k, v));
        for (uint32_t v = 0; v < m->n; v++) {
            if (m->runs[cell(m, k, v)] >= 0)
                DT_CHECK(add_sources(m, k, v));
            DT_CHECK(add_carry_and_moves(m, k, v));
        }
        if (k > 0)
            DT_CHECK(add_bytes(m, k));
    }
    DT_CHECK(add_first_runs(m));
    for (uint32_t k = 1; k <= m->k; k++)
        DT_CHECK(add_tail(m, k));
    return moves(m) ? add_times(m) : DT_OK;
}

static dt_status open(model *m)
{
    const size_t n = (size_t)m->n + 1, cells = (MOMENTS + 1) * n;
    m->from = dt_alloc(n, sizeof *m->from);
    m->to = dt_alloc(n, sizeof *m->to);
    m->needed = dt_alloc(n, sizeof *m->needed);
    m->stack = dt_alloc(n, sizeof *m->stack);
    m->big = dt_alloc(n, sizeof *m->big);
    m->mark = dt_alloc(n, 1);
    m->full = dt_alloc(cells, sizeof *m->full);
    m->there = dt_alloc(cells, sizeof *m->there);
    m->runs = dt_alloc(cells, sizeof *m->runs);
    m->back = dt_alloc(cells, sizeof *m->back);
    m->out = dt_alloc(cells, sizeof *m->out);
    m->tail = dt_alloc(n, sizeof *m->tail);
    if (m->from == NULL || m->to == NULL || m->needed == NULL || m->stack == NULL ||
        m->big == NULL || m->mark == NULL || m->full == NULL || m->there == NULL ||
        m->runs == NULL || m->back == NULL || m->out == NULL || m->tail == NULL)
        return DT_FAIL(m->err, DT_E_NOMEM, "no memory for a bound over %zu ops", n);
    for (uint32_t v = 0; v < m->n; v++)
        m->big[v] = (double)m->m->g->bytes[v] > small * (double)m->m->budget;
    return DT_OK;
}

static void close(model *m)
{
    dti_lp_deinit(&m->lp);
    dt_free(m->from);
    dt_free(m->to);
    dt_free(m->needed);
    dt_free(m->stack);
    dt_free(m->big);
    dt_free(m->mark);
    dt_free(m->full);
    dt_free(m->there);
    dt_free(m->runs);
    dt_free(m->back);
    dt_free(m->out);
    dt_free(m->tail);
}

dt_status dti_moments_bound(const dti_moments *given, double *seconds, dt_err *err)
{
    model m = {.m = given, .n = given->g->n_op, .unit = given->least, .err = err};
    double best = 0;
    *seconds = given->least;
    if (!(given->least > 0))
        return DT_OK;
    for (int i = 0; i < MOMENTS + 2; i++)
        m.time[i] = -1;
    dt_status st = open(&m);
    if (st == DT_OK)
        st = choose_moments(&m);
    if (st == DT_OK && m.k > 0) {
        place_ops(&m);
        find_needed(&m);
        st = add_columns(&m);
    }
    if (st == DT_OK && m.k > 0)
        st = add_rows(&m);
    if (st == DT_OK && m.k > 0) {
        const int steps = (int)fmin(STEPS, work / ((double)m.lp.n_entry + 1));
        const double rounded =
            1e-7; /* units, and what is added behind the bound, which sees to its own */
        const double rest = moves(&m) ? 0 : given->least - floating(&m);
        st = dti_lp_bound(&m.lp, steps, near, &best, err);
        *seconds = fmax(*seconds, rest + fmin(best, MOST) * m.unit * (1 - rounded));
    }
    close(&m);
    return st;
}
