#include "layers/attention.h"

#include <math.h>
#include <omp.h>

#include "layers/cpu/attention_parts.h"
#include "layers/cpu/cpu.h"

/* To whole vectors. */
static int64_t padded(int64_t n)
{
    return dt_ceil_div(n, DT_TILE_LANES) * DT_TILE_LANES;
}

static dt_attend job_of(const dt_call *c, const dt_args *a)
{
    const dt_attention *o = c->node->opts;
    const dt_shape x = dt_call_x(c);
    dt_attend j = {.a = a,
        .type = c->dtype,
        .causal = o->causal,
        .t = x.h * x.w,
        .c = x.c / 3,
        .d = x.c / 3 / o->heads,
        .heads = o->heads,
        .tiles = dt_ceil_div(x.h * x.w, DT_TILE)};
    j.pad = padded(j.d);
    j.room = c->form == DT_BACKWARD          ? dti_attention_backward_room(&j)
             : o->kind == DT_ATTENTION_NAIVE ? dti_naive_room(&j)
                                             : dti_efficient_room(&j);
    j.room = padded(j.room);
    j.scale = (float)(1 / sqrt((double)j.d));
    j.product = c->dtype == DT_BF16 ? dt_tile_bf16() : dt_tile_best();
    return j;
}

static dt_status facts(const dt_call *c, dt_facts *f, dt_err *err)
{
    (void)err;
    f->work_bytes = (size_t)job_of(c, NULL).room * (size_t)omp_get_max_threads() * sizeof(float);
    return DT_OK;
}

static dt_status run(const dt_call *c, void *state, const dt_args *a, dt_err *err)
{
    (void)state, (void)err;
    const dt_attention *o = c->node->opts;
    const dt_attend j = job_of(c, a);
    const bool naive = o->kind == DT_ATTENTION_NAIVE;
    const int64_t n = a->n * j.heads;
    if (c->form == DT_BACKWARD)
        dt_team(n, naive ? dti_naive_backward_task : dti_efficient_backward_task, &j);
    else if (naive)
        dt_team(n, dti_naive_task, &j);
    else
        dt_team(n * j.tiles, dti_efficient_task, &j);
    return DT_OK;
}

const dt_kernels dt_attention_cpu = {.facts = facts, .run = run};
