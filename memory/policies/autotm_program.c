/* The program, the rounding of its relaxation, and branch and bound of what has few columns.
 *
 * A column says whether an absence has left at a place: one for each place near its ends, where its
 * copies may be, and one for all places between. They rise behind the begin and fall before the
 * end, so where one rises the copy out is made. Rows hold each place's bytes to the limit, and
 * seconds of copies beside an op to what that op hides, beyond which a column of the place counts
 * them. */
#include "memory/policies/autotm_program.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/alloc.h"
#include "memory/remat/solver.h"

enum { ROUNDINGS = 12, SHIFTS = 4 };
static const double unseen = 1e-3, close_enough = 0.01, byte_scale = 1000, second_scale = 1000;

/* ---- a placement ---- */

static bool is_away(const dti_absence_of *a, int32_t k)
{
    return a->away && k > a->release && k < a->fetch;
}

static bool is_inside(const dti_absence_of *a, int32_t k)
{
    return k > a->from && k < a->to;
}

static uint64_t away_at(const dti_placement *x, int32_t k)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < x->n; i++)
        sum += is_away(&x->of[i], k) ? x->of[i].bytes : 0;
    return sum;
}

/* Bytes that are to be away at a place. */
static uint64_t needed(const dti_placement *x, size_t k)
{
    return x->load[k] > x->limit ? x->load[k] - x->limit : 0;
}

uint64_t dti_placement_least(const dti_placement *x)
{
    uint64_t least = 0;
    for (size_t k = 0; k < x->n_place; k++) {
        uint64_t rest = x->load[k];
        for (size_t i = 0; i < x->n; i++)
            rest -= is_inside(&x->of[i], (int32_t)k) ? x->of[i].bytes : 0;
        least = rest > least ? rest : least;
    }
    return least;
}

bool dti_placement_keeps(const dti_placement *x)
{
    for (size_t k = 0; k < x->n_place; k++)
        if (needed(x, k) > 0 && away_at(x, (int32_t)k) < needed(x, k))
            return false;
    return true;
}

static double beside(const dti_placement *x, int32_t k)
{
    double sum = 0;
    for (size_t i = 0; i < x->n; i++) {
        const dti_absence_of *a = &x->of[i];
        sum += a->away && a->release == k && k > a->from ? a->out : 0;
        sum += a->away && a->fetch == k && k < a->to ? a->in : 0;
    }
    return sum;
}

double dti_placement_cost(const dti_placement *x)
{
    double sum = 0;
    for (size_t i = 0; i < x->n; i++) {
        const dti_absence_of *a = &x->of[i];
        if (a->away)
            sum += unseen * (a->out + a->in) + (a->release == a->from ? a->out : 0) +
                   (a->fetch == a->to ? a->in : 0);
    }
    for (size_t k = 0; k < x->n_place; k++)
        sum += fmax(0, beside(x, (int32_t)k) - x->hidden[k]);
    return sum;
}

/* ---- columns ---- */

/* @first: by absence, the column of the place behind its begin. @noticed: by place, -1: no copy can
 * be beside it. */
typedef struct model {
    const dti_placement *x;
    dti_lp lp;
    int *first, *noticed;
    dt_err *err;
} model;

/* Places at either end of an absence at which it may still be here. */
static int32_t ends(const dti_placement *x, const dti_absence_of *a)
{
    const int32_t half = (a->to - a->from - 2) / 2;
    return half < x->reach ? half : x->reach;
}

/* The column that says whether absence i has left at a place inside it. */
static int column_at(const model *m, size_t i, int32_t k)
{
    const dti_absence_of *a = &m->x->of[i];
    const int32_t h = ends(m->x, a), behind = k - a->from - 1, before = a->to - 1 - k;
    return m->first[i] + (behind < h ? behind : before < h ? 2 * h - before : h);
}

static bool is_beside_out(const dti_placement *x, const dti_absence_of *a, int32_t k)
{
    return k > a->from && k <= a->from + ends(x, a);
}

static bool is_beside_in(const dti_placement *x, const dti_absence_of *a, int32_t k)
{
    return k < a->to && k >= a->to - ends(x, a);
}

static void add_cost(model *m, int column, double seconds)
{
    m->lp.cost[column] += second_scale * seconds;
}

static dt_status add_columns(model *m)
{
    const dti_placement *x = m->x;
    int last;
    for (size_t i = 0; i < x->n; i++) {
        const dti_absence_of *a = &x->of[i];
        const bool again = x->tied && i > 0 && a[-1].tensor == a->tensor;
        if (again)
            m->first[i] = m->first[i - 1];
        else
            for (int32_t k = 0; k <= 2 * ends(x, a); k++)
                DT_CHECK(dti_lp_col(&m->lp, 0, 1, 0, true, k == 0 ? &m->first[i] : &last, m->err));
        add_cost(m, column_at(m, i, a->from + 1), a->out);
        add_cost(m, column_at(m, i, a->to - 1), a->in);
        add_cost(m, m->first[i] + ends(x, a), unseen * (a->out + a->in));
    }
    for (size_t k = 0; k < x->n_place; k++) {
        bool any = false;
        for (size_t i = 0; i < x->n && !any; i++)
            any = is_beside_out(x, &x->of[i], (int32_t)k) || is_beside_in(x, &x->of[i], (int32_t)k);
        m->noticed[k] = -1;
        if (any)
            DT_CHECK(dti_lp_col(&m->lp, 0, HUGE_VAL, second_scale, false, &m->noticed[k], m->err));
    }
    return DT_OK;
}

/* ---- rows ---- */

/* What has left stays so until the places at the end. */
static dt_status add_order(model *m, size_t i)
{
    const int32_t h = ends(m->x, &m->x->of[i]);
    for (int32_t k = 0; k < 2 * h; k++) {
        DT_CHECK(dti_lp_row(&m->lp, 0, HUGE_VAL, m->err));
        DT_CHECK(dti_lp_entry(&m->lp, m->first[i] + k, k < h ? -1 : 1, m->err));
        DT_CHECK(dti_lp_entry(&m->lp, m->first[i] + k + 1, k < h ? 1 : -1, m->err));
    }
    return DT_OK;
}

static dt_status add_bytes(model *m, int32_t k)
{
    const dti_placement *x = m->x;
    const uint64_t most = needed(x, (size_t)k); /* what is larger counts for no more */
    DT_CHECK(dti_lp_row(&m->lp, byte_scale, HUGE_VAL, m->err));
    for (size_t i = 0; i < x->n; i++) {
        const uint64_t bytes = x->of[i].bytes < most ? x->of[i].bytes : most;
        if (is_inside(&x->of[i], k))
            DT_CHECK(dti_lp_entry(
                &m->lp, column_at(m, i, k), byte_scale * (double)bytes / (double)most, m->err));
    }
    return DT_OK;
}

static dt_status add_step(model *m, size_t i, int32_t here, int32_t next, double seconds)
{
    DT_CHECK(dti_lp_entry(&m->lp, column_at(m, i, here), -second_scale * seconds, m->err));
    return dti_lp_entry(&m->lp, column_at(m, i, next), second_scale * seconds, m->err);
}

static dt_status add_seconds(model *m, int32_t k)
{
    const dti_placement *x = m->x;
    DT_CHECK(dti_lp_row(&m->lp, -HUGE_VAL, second_scale * x->hidden[k], m->err));
    DT_CHECK(dti_lp_entry(&m->lp, m->noticed[k], -second_scale, m->err));
    for (size_t i = 0; i < x->n; i++) {
        if (is_beside_out(x, &x->of[i], k))
            DT_CHECK(add_step(m, i, k, k + 1, x->of[i].out));
        if (is_beside_in(x, &x->of[i], k))
            DT_CHECK(add_step(m, i, k, k - 1, x->of[i].in));
    }
    return DT_OK;
}

static dt_status build(model *m, const dti_placement *x, dt_err *err)
{
    *m = (model){.x = x,
        .first = dt_alloc(x->n + 1, sizeof *m->first),
        .noticed = dt_alloc(x->n_place + 1, sizeof *m->noticed),
        .err = err};
    if (m->first == NULL || m->noticed == NULL)
        return DT_FAIL(err, DT_E_NOMEM, "no memory for an integer program");
    DT_CHECK(add_columns(m));
    for (size_t i = 0; i < x->n; i++)
        DT_CHECK(add_order(m, i));
    for (size_t k = 0; k < x->n_place; k++) {
        if (needed(x, k) > 0)
            DT_CHECK(add_bytes(m, (int32_t)k));
        if (m->noticed[k] >= 0)
            DT_CHECK(add_seconds(m, (int32_t)k));
    }
    return DT_OK;
}

static void model_deinit(model *m)
{
    dti_lp_deinit(&m->lp);
    dt_free(m->first);
    dt_free(m->noticed);
}

/* ---- from values of columns to placements ---- */

/* Columns of at least so much are 1. As they rise and fall, so does what is rounded. */
static void read_values(const model *m, dti_placement *x, const double *value, double least)
{
    for (size_t i = 0; i < x->n; i++) {
        dti_absence_of *a = &x->of[i];
        a->away = value[m->first[i] + ends(x, a)] >= least;
        a->release = a->from;
        a->fetch = a->to;
        while (a->away && value[column_at(m, i, a->release + 1)] < least)
            a->release++;
        while (a->away && value[column_at(m, i, a->fetch - 1)] < least)
            a->fetch--;
    }
}

/* @gone @busy: by place, bytes that are away, and seconds of copies beside it. @dearest: absences,
 * those of the most seconds first. @best: the best placement so far, of x->cost. */
typedef struct rounding {
    dti_placement *x;
    uint64_t *gone;
    double *busy;
    size_t *dearest;
    dti_absence_of *best;
} rounding;

static void count_gone(rounding *r)
{
    memset(r->gone, 0, r->x->n_place * sizeof *r->gone);
    for (size_t i = 0; i < r->x->n; i++) {
        const dti_absence_of *a = &r->x->of[i];
        for (int32_t k = a->release + 1; a->away && k < a->fetch; k++)
            r->gone[k] += a->bytes;
    }
}

static void leave_at_once(dti_placement *x, const dti_absence_of *which)
{
    for (size_t k = 0; k < x->n; k++) {
        dti_absence_of *a = &x->of[k];
        if (a == which || (x->tied && a->tensor == which->tensor)) {
            a->away = true;
            a->release = a->from;
            a->fetch = a->to;
        }
    }
}

/* Of what could be away at a place and is not, that of the fewest seconds a byte. */
static const dti_absence_of *cheapest_at(const dti_placement *x, int32_t k)
{
    const dti_absence_of *best = NULL;
    double least = HUGE_VAL;
    for (size_t i = 0; i < x->n; i++) {
        const dti_absence_of *a = &x->of[i];
        const double each = (a->out + a->in) / (double)a->bytes;
        if (is_inside(a, k) && !is_away(a, k) && each < least) {
            best = a;
            least = each;
        }
    }
    return best;
}

/* Until each place has enough away. */
static void repair(rounding *r)
{
    for (size_t k = 0; k < r->x->n_place; k++)
        while (r->gone[k] < needed(r->x, k)) {
            const dti_absence_of *a = cheapest_at(r->x, (int32_t)k);
            DT_ASSERT(a != NULL); /* the limit is at least the least one */
            leave_at_once(r->x, a);
            count_gone(r);
        }
}

/* Whether all places keep without this one. */
static bool is_spare(const rounding *r, const dti_absence_of *a)
{
    for (int32_t k = a->release + 1; k < a->fetch; k++)
        if (r->gone[k] - a->bytes < needed(r->x, (size_t)k))
            return false;
    return true;
}

/* What is away and need not be stays, the dearest first. */
static void prune(rounding *r)
{
    for (size_t n = 0; n < r->x->n && !r->x->tied; n++) {
        dti_absence_of *a = &r->x->of[r->dearest[n]];
        if (!a->away || !is_spare(r, a))
            continue;
        a->away = false;
        for (int32_t k = a->release + 1; k < a->fetch; k++)
            r->gone[k] -= a->bytes;
    }
}

/* Seconds that show of one copy more: all of them between the ops, else what its op hides no more.
 */
static double shows(const rounding *r, int32_t beside, bool between, double seconds)
{
    const double room = between ? 0 : r->x->hidden[beside] - r->busy[beside];
    return fmax(0, seconds - fmax(0, room));
}

/* Whether a place does without the bytes of an absence that are away there. */
static bool may_stay(const rounding *r, const dti_absence_of *a, int32_t k)
{
    return r->gone[k] - a->bytes >= needed(r->x, (size_t)k);
}

/* The place beside which its copy out shows least, the first of equals; the copy is taken off. */
static void move_out(rounding *r, dti_absence_of *a)
{
    const int32_t last = a->from + ends(r->x, a);
    double least = shows(r, a->from, true, a->out);
    int32_t best = a->from;
    for (int32_t k = a->from + 1; k <= last && k < a->fetch - 1; k++) {
        if (k > a->release && !may_stay(r, a, k))
            break;
        const double seconds = shows(r, k, false, a->out);
        if (seconds < least) {
            least = seconds;
            best = k;
        }
    }
    for (int32_t k = best + 1; k <= a->release; k++)
        r->gone[k] += a->bytes;
    for (int32_t k = a->release + 1; k <= best; k++)
        r->gone[k] -= a->bytes;
    a->release = best;
}

static void move_in(rounding *r, dti_absence_of *a)
{
    const int32_t last = a->to - ends(r->x, a);
    double least = shows(r, a->to, true, a->in);
    int32_t best = a->to;
    for (int32_t k = a->to - 1; k >= last && k > a->release + 1; k--) {
        if (k < a->fetch && !may_stay(r, a, k))
            break;
        const double seconds = shows(r, k, false, a->in);
        if (seconds < least) {
            least = seconds;
            best = k;
        }
    }
    for (int32_t k = a->fetch; k < best; k++)
        r->gone[k] += a->bytes;
    for (int32_t k = best; k < a->fetch; k++)
        r->gone[k] -= a->bytes;
    a->fetch = best;
}

/* Copies go one after the other to where they show least, the longest first, some times over. */
static void shift(rounding *r)
{
    dti_placement *x = r->x;
    for (size_t k = 0; k < x->n_place; k++)
        r->busy[k] = beside(x, (int32_t)k);
    for (size_t n = 0; n < SHIFTS * x->n; n++) {
        dti_absence_of *a = &x->of[r->dearest[n % x->n]];
        if (!a->away)
            continue;
        r->busy[a->release] -= a->release > a->from ? a->out : 0;
        move_out(r, a);
        r->busy[a->release] += a->release > a->from ? a->out : 0;
        r->busy[a->fetch] -= a->fetch < a->to ? a->in : 0;
        move_in(r, a);
        r->busy[a->fetch] += a->fetch < a->to ? a->in : 0;
    }
}

static void keep_if_better(rounding *r)
{
    const double cost = dti_placement_cost(r->x);
    if (!(cost < r->x->cost))
        return;
    r->x->cost = cost;
    memcpy(r->best, r->x->of, r->x->n * sizeof *r->best);
}

static void take(rounding *r, const model *m, const double *value, double least)
{
    read_values(m, r->x, value, least);
    count_gone(r);
    repair(r);
    prune(r);
    if (r->x->reach > 0)
        shift(r);
    keep_if_better(r);
}

typedef struct key {
    double seconds;
    size_t who;
} key;

static int dearer_first(const void *va, const void *vb)
{
    const key *a = va, *b = vb;
    if (a->seconds > b->seconds || a->seconds < b->seconds)
        return a->seconds > b->seconds ? -1 : 1;
    return (a->who > b->who) - (a->who < b->who);
}

static dt_status rounding_init(rounding *r, dti_placement *x, dt_err *err)
{
    key *k = dt_alloc(x->n, sizeof *k);
    *r = (rounding){.x = x,
        .gone = dt_alloc(x->n_place, sizeof *r->gone),
        .busy = dt_alloc(x->n_place, sizeof *r->busy),
        .dearest = dt_alloc(x->n, sizeof *r->dearest),
        .best = dt_alloc(x->n, sizeof *r->best)};
    const bool ok =
        k != NULL && r->gone != NULL && r->busy != NULL && r->dearest != NULL && r->best != NULL;
    for (size_t i = 0; ok && i < x->n; i++)
        k[i] = (key){x->of[i].out + x->of[i].in, i};
    if (ok)
        qsort(k, x->n, sizeof *k, dearer_first);
    for (size_t i = 0; ok && i < x->n; i++)
        r->dearest[i] = k[i].who;
    dt_free(k);
    return ok ? DT_OK : DT_FAIL(err, DT_E_NOMEM, "no memory for an integer program");
}

static void rounding_deinit(rounding *r)
{
    dt_free(r->gone);
    dt_free(r->busy);
    dt_free(r->dearest);
    dt_free(r->best);
}

/* ---- solving ---- */

static dt_status relax_and_round(const model *m, rounding *r, double *value, dt_err *err)
{
    dti_lp_answer a;
    DT_CHECK(dti_lp_solve(&m->lp, 0, 0, value, &a, err));
    if (!a.found) /* the solver has given up: whatever keeps to the limit is taken */
        memset(value, 0, m->lp.n_col * sizeof *value);
    r->x->bound = a.found ? fmax(0, a.cost / second_scale) : 0;
    for (int n = 0; n < ROUNDINGS; n++)
        take(r, m, value, n == 0 ? 1e-6 : (double)n / ROUNDINGS);
    r->x->proved = r->x->cost <= r->x->bound * (1 + close_enough) + 1e-12;
    return DT_OK;
}

static dt_status branch(const model *m, rounding *r, double *value, dt_err *err)
{
    dti_lp_answer a;
    const double gap = second_scale * close_enough * r->x->bound;
    DT_CHECK(dti_lp_solve(&m->lp, r->x->nodes, gap, value, &a, err));
    r->x->proved = a.proved;
    if (a.found)
        take(r, m, value, 0.5);
    return DT_OK;
}

static dt_status search(const model *m, dti_placement *x, dt_err *err)
{
    rounding r;
    dt_status st = rounding_init(&r, x, err);
    double *value = dt_alloc(m->lp.n_col, sizeof *value);
    if (st == DT_OK && value == NULL)
        st = DT_FAIL(err, DT_E_NOMEM, "no memory for an integer program");
    if (st == DT_OK)
        st = relax_and_round(m, &r, value, err);
    x->too_wide = st == DT_OK && !x->proved && m->lp.n_col > DTI_PLACEMENT_BRANCHED;
    if (st == DT_OK && !x->proved && x->nodes > 0 && !x->too_wide)
        st = branch(m, &r, value, err);
    if (st == DT_OK)
        memcpy(x->of, r.best, x->n * sizeof *r.best);
    dt_free(value);
    rounding_deinit(&r);
    return st;
}

dt_status dti_placement_solve(dti_placement *x, dt_err *err)
{
    model m;
    DT_ASSERT(!x->tied || x->reach == 0);
    for (size_t i = 0; i < x->n; i++)
        x->of[i].away = false;
    if (dti_placement_keeps(x)) {
        x->cost = x->bound = 0;
        x->proved = true;
        x->too_wide = false;
        return DT_OK;
    }
    x->cost = HUGE_VAL;
    dt_status st = build(&m, x, err);
    if (st == DT_OK)
        st = search(&m, x, err);
    model_deinit(&m);
    return st;
}
