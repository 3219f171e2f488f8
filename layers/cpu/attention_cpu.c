/* Attention on the processor: what a call is cut into, how positions get into scratch and back, and
 * what multiplies. */
#include "layers/attention.h"

#include <math.h>
#include <omp.h>
#include <string.h>

#include "engine/implementations.h"
#include "layers/blocked/transpose.h"
#include "layers/cpu/attention_tasks.h"
#include "layers/cpu/cpu.h"
#include "layers/cpu/values.h"

dti_head dti_head_of(const dti_attend *j, int64_t i)
{
    float *work = (float *)j->a->port[DT_WORK] + omp_get_thread_num() * j->room;
    return (dti_head){j, i / j->heads, i % j->heads, work};
}

dti_positions dti_part_of(const dti_head *h, int port, int part)
{
    const dti_attend *j = h->j;
    return (dti_positions){
        j->a->port[port], (h->sample * j->t * 3 + part) * j->c + h->h * j->d, 3 * j->c};
}

dti_positions dti_whole_of(const dti_head *h, int port)
{
    const dti_attend *j = h->j;
    return (dti_positions){j->a->port[port], h->sample * j->t * j->c + h->h * j->d, j->c};
}

DT_CLONES void dti_load_rows(const dti_attend *j, const dti_positions *from, int64_t first,
    int64_t n, float scale, float *to)
{
    for (int64_t r = 0; r < n; r++) {
        const int64_t at = from->at + (first + r) * from->row;
        float *row = to + r * j->pad;
        const float *x = dti_values_read(j->type, from->p, at, row, j->d);
#pragma omp simd
        for (int64_t i = 0; i < j->d; i++)
            row[i] = scale * x[i];
        for (int64_t i = j->d; i < j->pad; i++)
            row[i] = 0;
    }
}

void dti_load_turned(const dti_attend *j, const dti_positions *from, int64_t first, float scale,
    float *to, int64_t lanes, float *room)
{
    const int64_t n = dti_left(j, first);
    for (int64_t r = 0; r < DT_TILE; r += 4) {
        const float *x[4];
        for (int k = 0; k < 4; k++) {
            float *row = room + k * j->pad;
            memset(row, 0, (size_t)j->d * sizeof *row);
            x[k] = r + k < n ? dti_values_read(j->type, from->p,
                                   from->at + (first + r + k) * from->row, row, j->d)
                             : row;
        }
        int64_t i = 0;
        for (; i + 4 <= j->d; i += 4)
            dti_transpose_four(x, i, scale, to + i * lanes + r, lanes);
        for (; i < j->d; i++)
            for (int k = 0; k < 4; k++)
                to[i * lanes + r + k] = scale * x[k][i];
    }
}

DT_CLONES void dti_store_rows(const dti_attend *j, const dti_positions *to, int64_t first,
    int64_t n, float *from, const float *factor, float scale)
{
    for (int64_t r = 0; r < n; r++) {
        const int64_t at = to->at + (first + r) * to->row;
        const float f = factor == NULL ? scale : scale * factor[r];
        float *row = from + r * j->pad, *y = dti_values_room(j->type, to->p, at, row);
#pragma omp simd
        for (int64_t i = 0; i < j->d; i++)
            y[i] = f * row[i];
        dti_values_write(j->type, to->p, at, y, j->d);
    }
}

/* To whole vectors. */
static int64_t padded(int64_t n)
{
    return dt_ceil_div(n, DT_TILE_LANES) * DT_TILE_LANES;
}

static dti_attend job_of(const dt_call *c, const dt_args *a, dt_tile_fn *product)
{
    const dt_attention *o = c->node->opts;
    const dt_shape x = dti_call_x(c);
    dti_attend j = {.a = a,
        .type = c->dtype,
        .causal = o->causal,
        .t = x.h * x.w,
        .c = x.c / 3,
        .d = x.c / 3 / o->heads,
        .heads = o->heads,
        .tiles = dt_ceil_div(x.h * x.w, DT_TILE),
        .product = product};
    j.pad = padded(j.d);
    j.room = c->form == DT_BACKWARD          ? dti_backward_room(&j)
             : o->kind == DT_ATTENTION_NAIVE ? dti_naive_room(&j)
                                             : dti_efficient_room(&j);
    j.room = padded(j.room);
    j.scale = (float)(1 / sqrt((double)j.d));
    return j;
}

static dt_status facts(const dt_call *c, dt_facts *f, dt_err *err)
{
    (void)err;
    f->work_bytes =
        (size_t)job_of(c, NULL, NULL).room * (size_t)omp_get_max_threads() * sizeof(float);
    return DT_OK;
}

static void attend(const dt_call *c, const dt_args *a, dt_tile_fn *product)
{
    const dt_attention *o = c->node->opts;
    const dti_attend j = job_of(c, a, product);
    const bool naive = o->kind == DT_ATTENTION_NAIVE;
    const int64_t n = a->n * j.heads;
    if (c->form == DT_BACKWARD)
        dti_run_tasks(n, naive ? dti_naive_backward_task : dti_efficient_backward_task, &j);
    else if (naive)
        dti_run_tasks(n, dti_naive_task, &j);
    else
        dti_run_tasks(n * j.tiles, dti_efficient_task, &j);
}

/* Its factors are rounded to bf16. */
static bool amx_accepts(const dt_call *c, dt_why *why)
{
    if (c->dtype != DT_BF16)
        return dt_refuse(why, "%s, needs bf16", dt_dtype_name(c->dtype));
    return dti_tile_bf16() != NULL ||
           dt_refuse(why, "this processor has no AMX, or no AVX512-BF16");
}

static dt_status amx_run(const dt_call *c, void *state, const dt_args *a, dt_err *err)
{
    (void)state, (void)err;
    attend(c, a, dti_tile_bf16());
    return DT_OK;
}

static dt_status fp32_run(const dt_call *c, void *state, const dt_args *a, dt_err *err)
{
    (void)state, (void)err;
    attend(c, a, dti_tile_best());
    return DT_OK;
}

static const dt_impl attention[] = {
    {.name = "amx", .accepts = amx_accepts, .facts = facts, .run = amx_run},
    {.name = "fp32", .facts = facts, .run = fp32_run},
    {0},
};
DT_IMPLS(attention);

const dt_kernels dt_attention_cpu = {DT_BY_IMPLS(attention)};
