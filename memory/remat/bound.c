/* Bounds that hold for every sequence, reordered or not: of one moment, here, and of several at
 * once (moments.c).
 *
 * Take the moment when an op x runs for the first time. All ops that x depends on have run, and
 * what depends on x has not. A value of the former that the latter read is there at that moment, or
 * its op runs once more later, and then the same holds for that op's inputs. What is there, with
 * x's own output and inputs, is within the budget. So the extra cost is at least that of the
 * cheapest choice for one moment: for each such value to be there (bytes) or to be made again (its
 * cost, and its inputs wanted in turn).
 *
 * With a price on bytes instead of the budget that choice is a minimum cut, and the cut less the
 * price of the budget is below the cost for any price. So each price gives a bound; the best price
 * is found where the lines of two cuts meet. */
#include <math.h>
#include <string.h>

#include "engine/base/alloc.h"
#include "memory/remat/moments.h"
#include "memory/remat/remat.h"

enum { MOMENTS = 64, PRICES = 24 };
static const double work_for_moments = 2e8, work_for_cuts = 4e8; /* arcs that are looked at */

/* --- maximum flow by Dinic's algorithm --- */

typedef struct arc {
    uint32_t to, next; /* arc e goes back as e ^ 1 */
    double room;
} arc;

typedef struct flow {
    uint32_t n_node, n_arc;
    double work; /* arcs looked at so far, for all cuts */
    arc *arc;
    uint32_t *head, *level, *at, *queue;
} flow;

#define NO_ARC UINT32_MAX

static void connect(flow *f, uint32_t from, uint32_t to, double room)
{
    f->arc[f->n_arc] = (arc){to, f->head[from], room};
    f->head[from] = f->n_arc++;
    f->arc[f->n_arc] = (arc){from, f->head[to], 0};
    f->head[to] = f->n_arc++;
}

/* How far each node is from @from through arcs with room; whether @to can be reached. */
static bool levels(flow *f, uint32_t from, uint32_t to, double least)
{
    memset(f->level, 0xff, f->n_node * sizeof *f->level);
    uint32_t n = 0;
    f->queue[n++] = from;
    f->level[from] = 0;
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t e = f->head[f->queue[i]]; e != NO_ARC; e = f->arc[e].next, f->work++)
            if (f->arc[e].room > least && f->level[f->arc[e].to] == UINT32_MAX) {
                f->level[f->arc[e].to] = f->level[f->queue[i]] + 1;
                f->queue[n++] = f->arc[e].to;
            }
    return f->level[to] != UINT32_MAX;
}

/* Send along one path of rising levels; 0 when there is none. The path is kept in f->queue as arcs.
 */
static double augment(flow *f, uint32_t from, uint32_t to, double least)
{
    uint32_t n = 0, node = from;
    while (node != to) {
        uint32_t e = f->at[node];
        for (; e != NO_ARC &&
               !(f->arc[e].room > least && f->level[f->arc[e].to] == f->level[node] + 1);
             f->work++)
            e = f->arc[e].next;
        f->at[node] = e;
        if (e != NO_ARC) {
            f->queue[n++] = e;
            node = f->arc[e].to;
        } else if (n == 0) {
            return 0;
        } else {
            f->level[node] = UINT32_MAX - 1; /* a dead end */
            node = f->arc[f->queue[--n] ^ 1].to;
        }
    }
    double sent = HUGE_VAL;
    for (uint32_t i = 0; i < n; i++)
        sent = fmin(sent, f->arc[f->queue[i]].room);
    for (uint32_t i = 0; i < n; i++) {
        f->arc[f->queue[i]].room -= sent;
        f->arc[f->queue[i] ^ 1].room += sent;
    }
    return sent;
}

static bool is_tired(const flow *f)
{
    return f->work > work_for_cuts;
}

/* Of one that ends early the flow is no more than the most, and so no less a bound. */
static double most_flow(flow *f, uint32_t from, uint32_t to, double least)
{
    double sum = 0;
    while (!is_tired(f) && levels(f, from, to, least)) {
        memcpy(f->at, f->head, f->n_node * sizeof *f->at);
        for (double sent; !is_tired(f) && (sent = augment(f, from, to, least)) > 0;)
            sum += sent;
    }
    return sum;
}

/* --- one moment --- */

enum { EARLIER = 1, LATER = 2, THERE = 4, WANTED = 8 };

/* When op x runs first; @there: bytes of its inputs and of its output; @bytes @cost: of the values
 * that are read later besides. */
typedef struct moment {
    uint32_t x;
    uint64_t there;
    double bytes, cost;
} moment;

/* @own: bytes of an op's output while it runs; NULL: all of it. @moment: n of them. @state: by op,
 * at the moment looked at last. */
struct dti_remat_bounds {
    const dt_remat_graph *g;
    const uint64_t *own;
    uint64_t total; /* cost */
    moment *moment;
    size_t n;
    uint8_t *state;
    uint32_t *stack;
    flow f;
};

typedef dti_remat_bounds moments;

static void spread(moments *m, uint32_t from, uint8_t mark)
{
    const dt_remat_graph *g = m->g;
    const uint32_t *at = mark == EARLIER ? g->in_at : g->out_at;
    const uint32_t *to = mark == EARLIER ? g->in : g->out;
    uint32_t n = 0;
    m->stack[n++] = from;
    while (n > 0) {
        const uint32_t v = m->stack[--n];
        for (uint32_t i = at[v]; i < at[v + 1]; i++)
            if ((m->state[to[i]] & mark) == 0) {
                m->state[to[i]] |= mark;
                m->stack[n++] = to[i];
            }
    }
}

/* Which ops ran before x, which are read after it; bytes of what lies there. */
static uint64_t look(moments *m, uint32_t x)
{
    const dt_remat_graph *g = m->g;
    memset(m->state, 0, g->n_op);
    spread(m, x, EARLIER);
    spread(m, x, LATER);
    uint64_t there = m->own != NULL ? m->own[x] : g->bytes[x];
    for (uint32_t i = g->in_at[x]; i < g->in_at[x + 1]; i++)
        if ((m->state[g->in[i]] & THERE) == 0) {
            m->state[g->in[i]] |= THERE;
            there += g->bytes[g->in[i]];
        }
    for (uint32_t v = 0; v < x; v++)
        for (uint32_t i = g->out_at[v]; (m->state[v] & EARLIER) != 0 && i < g->out_at[v + 1]; i++)
            if ((m->state[g->out[i]] & LATER) != 0)
                m->state[v] |= WANTED;
    return there;
}

static bool asked(uint8_t state)
{
    return (state & (WANTED | THERE)) == WANTED;
}

/* Nodes 2 v: v is wanted, 2 v + 1: it is made again; then the two ends. */
static void build(moments *m, uint32_t x, double price)
{
    const dt_remat_graph *g = m->g;
    flow *f = &m->f;
    const uint32_t from = 2 * x, to = 2 * x + 1;
    f->n_node = 2 * x + 2;
    f->n_arc = 0;
    memset(f->head, 0xff, f->n_node * sizeof *f->head);
    for (uint32_t v = 0; v < x; v++) {
        if ((m->state[v] & (EARLIER | THERE)) != EARLIER)
            continue;
        if (asked(m->state[v]))
            connect(f, from, 2 * v, HUGE_VAL);
        connect(f, 2 * v, 2 * v + 1, price * (double)g->bytes[v]);
        connect(f, 2 * v + 1, to, (double)g->cost[v]);
        for (uint32_t i = g->in_at[v]; i < g->in_at[v + 1]; i++)
            if ((m->state[g->in[i]] & THERE) == 0)
                connect(f, 2 * v + 1, 2 * g->in[i], HUGE_VAL);
    }
}

/* A cut: what is made again costs @cost, what is there takes @bytes. */
typedef struct cut {
    double cost, bytes, flow;
} cut;

static cut cut_at(moments *m, uint32_t x, double price, double least)
{
    const dt_remat_graph *g = m->g;
    cut c = {0};
    build(m, x, price);
    c.flow = most_flow(&m->f, 2 * x, 2 * x + 1, least);
    (void)levels(&m->f, 2 * x, 2 * x + 1, least);
    for (uint32_t v = 0; v < x; v++) {
        if ((m->state[v] & (EARLIER | THERE)) != EARLIER || m->f.level[2 * v] == UINT32_MAX)
            continue;
        if (m->f.level[2 * v + 1] != UINT32_MAX)
            c.cost += (double)g->cost[v];
        else
            c.bytes += (double)g->bytes[v];
    }
    return c;
}

/* The best price for a moment: between one at which too much stays and one at which all fits. No
 * price gives more than where the lines of two cuts meet, so the search ends where that is no more
 * than @known, or where it has found @enough. */
static double at_moment(moments *m, const moment *at, uint64_t rest, double known, double enough)
{
    const double left = (double)rest, total = (double)m->total, least = total * 1e-13;
    double best = 0;
    cut all = {.bytes = at->bytes};
    if (all.bytes <= left)
        return 0;
    (void)look(m, at->x);
    cut few = {.cost = total}; /* all is made again, nothing stays */
    for (int i = 0; i < PRICES; i++) {
        const double price = (few.cost - all.cost) / (all.bytes - few.bytes);
        if (best >= enough || all.cost + price * (all.bytes - left) <= known)
            break;
        const cut c = cut_at(m, at->x, price, least);
        best = fmax(best, c.flow - price * left);
        if (is_tired(&m->f) ||
            c.cost + price * c.bytes >= all.cost + price * all.bytes - total * 1e-9)
            break;
        if (c.bytes > left)
            all = c;
        else
            few = c;
    }
    return best;
}

/* --- which moments --- */

typedef struct scored {
    const moment *of;
    double score;
} scored;

static uint64_t rest_of(const moment *x, uint64_t budget)
{
    return x->there <= budget ? budget - x->there : 0;
}

/* What the moment costs if values are made again without their inputs: a knapsack that may cut one.
 */
static double knapsack(const moment *x, uint64_t budget)
{
    const double over = x->bytes - (double)rest_of(x, budget);
    return over <= 0 ? 0 : x->cost * over / x->bytes + over * 1e-12;
}

/* The few of the highest scores, in order. */
static void insert(scored *top, size_t *n, scored x)
{
    if (*n == MOMENTS && top[MOMENTS - 1].score >= x.score)
        return;
    size_t i = *n < MOMENTS ? (*n)++ : MOMENTS - 1;
    for (; i > 0 && top[i - 1].score < x.score; i--)
        top[i] = top[i - 1];
    top[i] = x;
}

static void choose(const moments *m, uint64_t budget, scored *top, size_t *n)
{
    for (size_t i = 0; i < m->n; i++) {
        const double score = knapsack(&m->moment[i], budget);
        if (score > 0)
            insert(top, n, (scored){&m->moment[i], score});
    }
}

static moment moment_of(moments *m, uint32_t x)
{
    moment at = {.x = x, .there = look(m, x)};
    for (uint32_t v = 0; v < x; v++)
        if (asked(m->state[v])) {
            at.bytes += (double)m->g->bytes[v];
            at.cost += (double)m->g->cost[v];
        }
    return at;
}

/* Of every op, or of some with as many between them. */
static dt_status find_moments(moments *m, const uint8_t *apart, dt_err *err)
{
    const dt_remat_graph *g = m->g;
    const double each = (double)g->n_op + g->n_edge;
    const double tried = fmin(g->n_op, fmax(MOMENTS, work_for_moments / each));
    const double stride = g->n_op / tried;
    m->moment = dt_alloc((size_t)tried + 2, sizeof *m->moment);
    if (m->moment == NULL)
        return DT_FAIL(err, DT_E_NOMEM, "no memory for a bound's moments");
    for (double at = 0; at < g->n_op; at += stride)
        if (apart == NULL || apart[(uint32_t)at] == 0)
            m->moment[m->n++] = moment_of(m, (uint32_t)at);
    return DT_OK;
}

static dt_status open(moments *m, dt_err *err)
{
    const size_t n = m->g->n_op, nodes = 2 * n + 2;
    const size_t arcs = 2 * (3 * n + m->g->n_edge);
    m->state = dt_alloc(n, sizeof *m->state);
    m->stack = dt_alloc(n, sizeof *m->stack);
    m->f = (flow){.arc = dt_alloc(arcs, sizeof *m->f.arc),
        .head = dt_alloc(nodes, sizeof *m->f.head),
        .level = dt_alloc(nodes, sizeof *m->f.level),
        .at = dt_alloc(nodes, sizeof *m->f.at),
        .queue = dt_alloc(nodes, sizeof *m->f.queue)};
    if (m->state == NULL || m->stack == NULL || m->f.arc == NULL || m->f.head == NULL ||
        m->f.level == NULL || m->f.at == NULL || m->f.queue == NULL)
        return DT_FAIL(err, DT_E_NOMEM, "no memory for a bound over %zu ops", n);
    return DT_OK;
}

uint64_t dt_remat_least_peak(const dt_remat_graph *g)
{
    uint64_t most = 0;
    for (uint32_t v = 0; v < g->n_op; v++) {
        uint64_t sum = g->bytes[v];
        for (uint32_t i = g->in_at[v]; i < g->in_at[v + 1]; i++)
            if (i == g->in_at[v] || g->in[i] != g->in[i - 1])
                sum += g->bytes[g->in[i]];
        most = sum > most ? sum : most;
    }
    return most;
}

/* By several moments at once, for any order (moments.h). Sums are wrong by less than @off. */
static dt_status by_several(
    const dt_remat_graph *g, uint64_t budget, double *cost, double *off, dt_err *err)
{
    dti_moments m = {.g = g, .budget = budget};
    double *each = dt_alloc((size_t)g->n_op + 1, sizeof *each);
    if (each == NULL)
        return DT_FAIL(err, DT_E_NOMEM, "no memory for a bound");
    for (uint32_t v = 0; v < g->n_op; v++) {
        each[v] = (double)g->cost[v];
        m.least += each[v];
    }
    m.first = m.again = each;
    *off = 1e-6 + 1e-9 * m.least;
    const dt_status st = dti_moments_bound(&m, cost, err);
    dt_free(each);
    return st;
}

dt_status dti_remat_bounds_open(dti_remat_bounds **out, const dt_remat_graph *g,
    const uint64_t *own, const uint8_t *apart, dt_err *err)
{
    moments *m = *out = dt_alloc(1, sizeof *m);
    if (m == NULL)
        return DT_FAIL(err, DT_E_NOMEM, "no memory for a bound");
    *m = (moments){.g = g, .own = own};
    for (uint32_t v = 0; v < g->n_op; v++)
        m->total += g->cost[v];
    DT_CHECK(open(m, err));
    return find_moments(m, apart, err);
}

void dti_remat_bounds_close(dti_remat_bounds *m)
{
    if (m == NULL)
        return;
    dt_free(m->moment);
    dt_free(m->state);
    dt_free(m->stack);
    dt_free(m->f.arc);
    dt_free(m->f.head);
    dt_free(m->f.level);
    dt_free(m->f.at);
    dt_free(m->f.queue);
    dt_free(m);
}

uint64_t dti_remat_bounds_by(dti_remat_bounds *m, uint64_t budget, uint64_t enough)
{
    scored top[MOMENTS];
    size_t n = 0;
    const double off = 1e-6 + 1e-9 * (double)m->total; /* that sums may be wrong by */
    const bool all = enough == UINT64_MAX;
    const double goal = all ? HUGE_VAL : (double)enough - (double)m->total + off + 1;
    double best = 0;
    m->f.work = 0;
    choose(m, budget, top, &n);
    for (size_t i = 0; i < n && best < goal && !is_tired(&m->f); i++) {
        const moment *x = top[i].of;
        if (x->there <= budget)
            best = fmax(best, at_moment(m, x, rest_of(x, budget), all ? best : goal, goal));
    }
    /* costs are whole numbers, so a bound may be rounded up */
    best -= off;
    return m->total + (best > 0 ? (uint64_t)ceil(best) : 0);
}

dt_status dti_remat_bound(const dt_remat_graph *g, uint64_t budget, uint64_t *out, dt_err *err)
{
    dti_remat_bounds *one = NULL;
    double cost = 0, off = 0;
    const dt_status st = dti_remat_bounds_open(&one, g, NULL, NULL, err);
    *out = st == DT_OK ? dti_remat_bounds_by(one, budget, UINT64_MAX) : 0;
    dti_remat_bounds_close(one);
    DT_CHECK(st);
    if (g->n_op <= DTI_REMAT_MOST_MOMENTS)
        DT_CHECK(by_several(g, budget, &cost, &off, err));
    /* costs are whole numbers, so a bound may be rounded up */
    if (cost - off > (double)*out)
        *out = (uint64_t)ceil(cost - off);
    return DT_OK;
}
