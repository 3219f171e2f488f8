/* Pieces of samples, widened, computed, rounded. */
#include "layers/cpu/widened.h"

#include "engine/base/numbers.h"
#include "layers/blocked/bf16.h"
#include "layers/cpu/tasks.h"

/* A piece and its results are to stay in a cache; places begin with a line. */
enum { PIECE = 4 << 20, MOST = 256, LINE = 64, FLOATS = LINE / sizeof(float) };

static int64_t sample_x(const dt_dnnl_problem *p)
{
    return p->h * p->w * p->c;
}

static int64_t sample_y(const dt_dnnl_problem *p)
{
    return p->p * p->q * p->out;
}

/* Samples of a piece: all have as many, so that one op computes each. */
static int64_t piece_of(const dt_dnnl_problem *p, int64_t n)
{
    const int64_t each = (sample_x(p) + sample_y(p)) * (int64_t)sizeof(float);
    int64_t piece = dt_min_i64(n, dt_min_i64(PIECE / each, MOST));
    while (piece > 1 && n % piece != 0)
        piece--;
    return piece > 1 ? piece : 1;
}

dti_widened dti_widened_of(const dt_dnnl_problem *p, const dt_call *c)
{
    dti_widened w = {.problem = *p, .call = *c};
    if (!p->bf16 || p->fc || dt_bf16_pays())
        return w;
    w.problem.bf16 = 0;
    w.call.n = piece_of(p, c->n);
    w.call.home_n = piece_of(p, c->home_n);
    w.pieces = c->n / w.call.n;
    return w;
}

dti_widened_places dti_widened_places_of(const dti_widened *w, size_t work, size_t weight_bytes)
{
    const dt_dnnl_problem *p = &w->problem;
    const bool sums = w->call.form == DT_BACKWARD && w->pieces > 1;
    return (dti_widened_places){.work = dt_align_up(work, LINE),
        .pieces = w->pieces,
        .x = w->call.n * sample_x(p),
        .y = w->call.n * sample_y(p),
        .weight = sums ? (int64_t)(weight_bytes / sizeof(float)) : 0,
        .bias = sums && p->bias ? p->out : 0};
}

/* Floats, to whole lines. */
static int64_t lines(int64_t floats)
{
    return dti_ceil_div(floats, FLOATS) * FLOATS;
}

size_t dti_widened_work(const dti_widened_places *at)
{
    const int64_t floats = lines(at->x) + lines(at->y) + lines(at->weight) + lines(at->bias);
    return at->work + (size_t)floats * sizeof(float);
}

/* ---- in pieces of DTI_GRAIN ---- */

struct job {
    int64_t n;
    dt_bf16 *bf16;
    float *wide;
    const float *more;
};

DT_CLONES static void widen(const void *job, int64_t i)
{
    const struct job *j = job;
    const dti_span s = dti_span_of(j->n, DTI_GRAIN, i);
#pragma omp simd
    for (int64_t k = s.begin; k < s.end; k++)
        j->wide[k] = dt_bf16_to_float(j->bf16[k]);
}

DT_CLONES static void to_bf16(const void *job, int64_t i)
{
    const struct job *j = job;
    const dti_span s = dti_span_of(j->n, DTI_GRAIN, i);
#pragma omp simd
    for (int64_t k = s.begin; k < s.end; k++)
        j->bf16[k] = dt_bf16_from_float(j->wide[k]);
}

DT_CLONES static void add(const void *job, int64_t i)
{
    const struct job *j = job;
    const dti_span s = dti_span_of(j->n, DTI_GRAIN, i);
#pragma omp simd
    for (int64_t k = s.begin; k < s.end; k++)
        j->wide[k] += j->more[k];
}

static void run(const struct job *j, dti_task *task)
{
    dti_run_tasks(dti_ceil_div(j->n, DTI_GRAIN), task, j);
}

/* ---- all pieces ---- */

dt_status dti_widened_run(const dti_widened_places *at, dt_form_kind form,
    const dt_dnnl_bytes *bytes, dti_widened_piece *piece, void *self, dt_err *err)
{
    const bool makes_x = form == DT_BACKWARD2, makes_y = !makes_x && form != DT_BACKWARD;
    struct job x = {.n = at->x, .wide = (float *)(void *)((char *)bytes->work + at->work)};
    struct job y = {.n = at->y, .wide = x.wide + lines(at->x)};
    float *const weight = y.wide + lines(at->y), *const bias = weight + lines(at->weight);
    for (int64_t i = 0; i < at->pieces; i++) {
        const bool adds = form == DT_BACKWARD && i > 0;
        x.bf16 = (dt_bf16 *)bytes->x + i * at->x;
        y.bf16 = (dt_bf16 *)bytes->y + i * at->y;
        if (!makes_x)
            run(&x, widen);
        if (!makes_y)
            run(&y, widen);
        const dt_dnnl_bytes of = {
            x.wide, y.wide, adds ? weight : bytes->weight, adds ? bias : bytes->bias, bytes->work};
        DT_CHECK(piece(self, &of, err));
        if (makes_x)
            run(&x, to_bf16);
        if (makes_y)
            run(&y, to_bf16);
        if (adds) {
            run(&(struct job){.n = at->weight, .wide = bytes->weight, .more = weight}, add);
            run(&(struct job){.n = at->bias, .wide = bytes->bias, .more = bias}, add);
        }
    }
    return DT_OK;
}
