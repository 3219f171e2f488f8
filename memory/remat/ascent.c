/* Primal-dual hybrid gradient, with steps by row and column (Pock and Chambolle 2011), averages and
 * restarts (Applegate et al. 2021).
 *
 * Minimise c x with A x >= b and l <= x <= u. For any y >= 0 no solution costs less than
 *   b y + the sum over columns of the least of (c - A'y) x within l and u,
 * so the answer is proved by the y it comes of, less what that sum may be rounded by, and nothing
 * rests on how y was found. */
#include "memory/remat/ascent.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "engine/base/alloc.h"

enum { LOOK = 40 }; /* steps between two looks at the bound */

/* @a, unless @b is more, or less: as fmax and fmin for a @b that is no number. Those are calls of
 * the C library, which took as long here as a fifth of all else. */
static inline double larger(double a, double b)
{
    return b > a ? b : a;
}

static inline double smaller(double a, double b)
{
    return b < a ? b : a;
}

/* A point, and what it is worth. */
typedef struct point {
    double *x, *y, *ay; /* ay: A'y, by column */
} point;

typedef struct ascent {
    const dti_lp *p;
    double *tau, *sigma, *over; /* over: 2 x' - x */
    point at, mean, begin;
    double weight; /* of dual steps against primal ones */
    double best;
    double *memory;
} ascent;

static void transposed(const dti_lp *p, const double *y, double *to)
{
    memset(to, 0, p->n_col * sizeof *to);
    for (size_t r = 0; r < p->n_row; r++)
        for (int e = p->start[r]; y[r] > 0 && e < p->start[r + 1]; e++)
            to[p->column[e]] += p->factor[e] * y[r];
}

/* What y proves. */
static double proved(const dti_lp *p, const point *q)
{
    double sum = 0;
    for (size_t r = 0; r < p->n_row; r++)
        sum += p->row_lower[r] * q->y[r];
    for (size_t k = 0; k < p->n_col; k++) {
        const double left = p->cost[k] - q->ay[k];
        sum += left * (left > 0 ? p->lower[k] : p->upper[k]);
    }
    return sum;
}

/* By how much what `proved` gives may be above what these multipliers prove: of each term's size so
 * many roundings as there are sums and products on its way (Higham, Accuracy and Stability of
 * Numerical Algorithms, 3.1), twice, for those of this sum and of the coefficients. */
static double rounding(const dti_lp *p, const double *y)
{
    double sum = 0;
    for (size_t k = 0; k < p->n_col; k++)
        sum += fabs(p->cost[k]) * larger(fabs(p->lower[k]), fabs(p->upper[k]));
    for (size_t r = 0; r < p->n_row; r++) {
        double row = fabs(p->row_lower[r]);
        for (int e = p->start[r]; y[r] > 0 && e < p->start[r + 1]; e++) {
            const int k = p->column[e];
            row += fabs(p->factor[e]) * larger(fabs(p->lower[k]), fabs(p->upper[k]));
        }
        sum += row * y[r];
    }
    return 2 * DBL_EPSILON * (double)(p->n_row + p->n_col + 4) * sum;
}

static double row_of(const dti_lp *p, size_t r, const double *x)
{
    double sum = 0;
    for (int e = p->start[r]; e < p->start[r + 1]; e++)
        sum += p->factor[e] * x[p->column[e]];
    return sum;
}

/* How far a point is from a solution: how far the two costs are apart, and what rows lack, by their
 * steps. */
static double off(const ascent *a, const point *q, double bound)
{
    const dti_lp *p = a->p;
    double cost = 0, lack = 0;
    for (size_t k = 0; k < p->n_col; k++)
        cost += p->cost[k] * q->x[k];
    for (size_t r = 0; r < p->n_row; r++) {
        const double d = larger(0, p->row_lower[r] - row_of(p, r, q->x));
        lack += a->sigma[r] * d * d;
    }
    return fabs(cost - bound) + a->weight * sqrt(lack);
}

static void take_step(ascent *a)
{
    const dti_lp *p = a->p;
    for (size_t k = 0; k < p->n_col; k++) {
        const double moved = a->at.x[k] - a->tau[k] / a->weight * (p->cost[k] - a->at.ay[k]);
        const double x = smaller(p->upper[k], larger(p->lower[k], moved));
        a->over[k] = 2 * x - a->at.x[k];
        a->at.x[k] = x;
    }
    for (size_t r = 0; r < p->n_row; r++) {
        const double lack = p->row_lower[r] - row_of(p, r, a->over);
        a->at.y[r] = larger(0, a->at.y[r] + a->sigma[r] * a->weight * lack);
    }
    transposed(p, a->at.y, a->at.ay);
}

static void copy(const dti_lp *p, point *to, const point *from)
{
    memcpy(to->x, from->x, p->n_col * sizeof *to->x);
    memcpy(to->y, from->y, p->n_row * sizeof *to->y);
    memcpy(to->ay, from->ay, p->n_col * sizeof *to->ay);
}

static void add_to_mean(const dti_lp *p, point *mean, const point *q, double share)
{
    for (size_t k = 0; k < p->n_col; k++)
        mean->x[k] += share * (q->x[k] - mean->x[k]);
    for (size_t r = 0; r < p->n_row; r++)
        mean->y[r] += share * (q->y[r] - mean->y[r]);
}

/* Dual against primal by how far each went since the last beginning. */
static void weigh(ascent *a)
{
    const dti_lp *p = a->p;
    double dx = 0, dy = 0;
    for (size_t k = 0; k < p->n_col; k++) {
        const double d = a->at.x[k] - a->begin.x[k];
        dx += a->tau[k] > 0 ? d * d / a->tau[k] : 0;
    }
    for (size_t r = 0; r < p->n_row; r++) {
        const double d = a->at.y[r] - a->begin.y[r];
        dy += a->sigma[r] > 0 ? d * d / a->sigma[r] : 0;
    }
    if (dx > 1e-20 && dy > 1e-20)
        a->weight = exp(0.5 * log(sqrt(dy / dx)) + 0.5 * log(a->weight));
}

/* Where it is better to go on from, the mean or the last point; whether that is much better than
 * where it began. */
static double look(ascent *a, point *better)
{
    transposed(a->p, a->mean.y, a->mean.ay); /* of this very y: what was averaged has drifted */
    const double at = proved(a->p, &a->at), mean = proved(a->p, &a->mean);
    a->best = larger(a->best, at - rounding(a->p, a->at.y));
    a->best = larger(a->best, mean - rounding(a->p, a->mean.y));
    const double off_at = off(a, &a->at, at), off_mean = off(a, &a->mean, mean);
    *better = off_mean < off_at ? a->mean : a->at;
    return smaller(off_at, off_mean);
}

static void climb(ascent *a, int steps, double near)
{
    double begun = HUGE_VAL, last = HUGE_VAL;
    int since = 0;
    for (int i = 1; i <= steps; i++) {
        take_step(a);
        add_to_mean(a->p, &a->mean, &a->at, 1.0 / ++since);
        if (i % LOOK != 0)
            continue;
        point from;
        const double is = look(a, &from);
        if (is <= near * fabs(a->best))
            break;
        const bool much = is <= 0.2 * begun, stuck = is <= 0.8 * begun && is > last;
        last = is;
        if (!much && !stuck && since < 0.36 * i)
            continue;
        copy(a->p, &a->at, &from);
        weigh(a);
        copy(a->p, &a->begin, &a->at);
        copy(a->p, &a->mean, &a->at);
        begun = is;
        last = HUGE_VAL;
        since = 0;
    }
}

static void scale(ascent *a)
{
    const dti_lp *p = a->p;
    for (size_t r = 0; r < p->n_row; r++)
        for (int e = p->start[r]; e < p->start[r + 1]; e++) {
            a->sigma[r] += fabs(p->factor[e]);
            a->tau[p->column[e]] += fabs(p->factor[e]);
        }
    for (size_t r = 0; r < p->n_row; r++)
        a->sigma[r] = a->sigma[r] > 0 ? 1 / a->sigma[r] : 0;
    for (size_t k = 0; k < p->n_col; k++)
        a->tau[k] = a->tau[k] > 0 ? 1 / a->tau[k] : 1;
}

static dt_status open(ascent *a, const dti_lp *p, dt_err *err)
{
    const size_t c = p->n_col, r = p->n_row;
    a->memory = dt_alloc(3 * (2 * c + r) + 2 * c + r + 1, sizeof *a->memory);
    if (a->memory == NULL)
        return DT_FAIL(err, DT_E_NOMEM, "no memory for a bound");
    double *to = a->memory;
    point *const points[] = {&a->at, &a->mean, &a->begin};
    for (int i = 0; i < 3; i++) {
        points[i]->x = to;
        points[i]->ay = to + c;
        points[i]->y = to + 2 * c;
        to += 2 * c + r;
    }
    a->tau = to;
    a->over = to + c;
    a->sigma = to + 2 * c;
    for (size_t k = 0; k < c; k++)
        a->at.x[k] = a->begin.x[k] = a->mean.x[k] = p->lower[k];
    a->weight = 1;
    a->best = -HUGE_VAL;
    scale(a);
    return DT_OK;
}

dt_status dti_lp_bound(const dti_lp *p, int steps, double near, double *out, dt_err *err)
{
    ascent a = {.p = p};
    const dt_status st = open(&a, p, err);
    if (st == DT_OK)
        climb(&a, steps, near);
    *out = st == DT_OK ? a.best : 0;
    dt_free(a.memory);
    return st;
}
