/* The fully connected layer on the processor: the library's inner product. */
#include "layers/fc.h"

#include <string.h>

#include "engine/base/alloc.h"
#include "layers/cpu/cpu.h"
#include "layers/cpu/weighted.h"
#include "layers/weighted.h"

/* x as one vector per sample, in the order it is stored (h, w, c). What the library does itself
 * with images is slower and allocates megabytes in every call. */
static dt_dnnl_problem problem(const dt_call *c)
{
    const dt_fc *o = c->node->opts;
    const dt_shape x = dti_call_x(c);
    return dti_rows_problem(c, dt_shape_sample(&x), o->out, o->bias);
}

static dt_status facts(const dt_call *c, dt_facts *f, dt_err *err)
{
    const dt_dnnl_problem p = problem(c);
    return dti_weighted_facts(&p, c, f, err);
}

static dt_status create(const dt_call *c, void **state, dt_err *err)
{
    const dt_dnnl_problem p = problem(c);
    return dti_weighted_create(&p, c, state, err);
}

static dt_status param_bytes(const dt_call *c, int i, size_t *bytes, dt_err *err)
{
    const dt_dnnl_problem p = problem(c);
    return dti_weighted_bytes(&p, c, i, bytes, err);
}

/* A weight on its way from PyTorch's layout, whose columns are in the order c, h, w, or back to it.
 */
typedef struct passage {
    const dt_call *c;
    dt_dnnl_problem p;
    dt_shape x;
    const float *plain; /* to put */
    void *lives;
    float *to; /* to get */
} passage;

static dt_status put_rows(const passage *w, int64_t at, int64_t n, float *piece, dt_err *err)
{
    dti_weight_transpose(w->plain + at * w->p.c, piece, n, w->x.c, w->x.h * w->x.w);
    return dti_weighted_put_rows(&w->p, w->c, at, n, piece, w->lives, err);
}

static dt_status get_rows(const passage *w, int64_t at, int64_t n, float *piece, dt_err *err)
{
    DT_CHECK(dti_weighted_get_rows(&w->p, w->c, at, n, w->lives, piece, err));
    dti_weight_transpose(piece, w->to + at * w->p.c, n, w->x.h * w->x.w, w->x.c);
    return DT_OK;
}

static dt_status put_all(const passage *w, float *hwc, dt_err *err)
{
    dti_weight_transpose(w->plain, hwc, w->p.out, w->x.c, w->x.h * w->x.w);
    return dti_weighted_put(&w->p, w->c, 0, hwc, w->lives, err);
}

static dt_status get_all(const passage *w, float *hwc, dt_err *err)
{
    DT_CHECK(dti_weighted_get(&w->p, w->c, 0, w->lives, hwc, err));
    dti_weight_transpose(hwc, w->to, w->p.out, w->x.h * w->x.w, w->x.c);
    return DT_OK;
}

/* The weight with its columns in the other order, a few rows at a time where its layout lets that
 * be: that of VGG's first fc takes 400 MiB. */
static dt_status pass(const passage *w, dt_err *err)
{
    enum { PIECE = 4 << 20 };
    const bool put = w->plain != NULL;
    const int64_t row = w->p.c * (int64_t)sizeof(float), all = w->p.out;
    int64_t rows = dti_weighted_has_rows(&w->p, w->c)
                       ? (PIECE / row / DT_WEIGHTED_ROWS + 1) * DT_WEIGHTED_ROWS
                       : all;
    rows = rows < all ? rows : all;
    float *piece = dt_alloc((size_t)(rows * w->p.c), sizeof *piece);
    if (piece == NULL)
        return DT_FAIL(
            err, DT_E_NOMEM, "layer '%s': no memory to transpose its weight", w->c->node->name);
    dt_status st = DT_OK;
    if (rows == all)
        st = (put ? put_all : get_all)(w, piece, err);
    for (int64_t at = 0; rows < all && at < all && st == DT_OK; at += rows)
        st = (put ? put_rows : get_rows)(w, at, all - at < rows ? all - at : rows, piece, err);
    dt_free(piece);
    return st;
}

static dt_status param_put(const dt_call *c, int i, const float *plain, void *lives, dt_err *err)
{
    const passage w = {c, problem(c), dti_fc_image(c), plain, lives, NULL};
    if (i > 0 || w.x.h * w.x.w == 1)
        return dti_weighted_put(&w.p, c, i, plain, lives, err);
    return pass(&w, err);
}

static dt_status param_get(const dt_call *c, int i, const void *lives, float *plain, dt_err *err)
{
    void *from; /* only read */
    memcpy(&from, &lives, sizeof from);
    const passage w = {c, problem(c), dti_fc_image(c), NULL, from, plain};
    if (i > 0 || w.x.h * w.x.w == 1)
        return dti_weighted_get(&w.p, c, i, lives, plain, err);
    return pass(&w, err);
}

const dt_kernels dt_fc_cpu = {
    .facts = facts,
    .create = create,
    .destroy = dti_weighted_destroy,
    .run = dti_weighted_run,
    .param_bytes = param_bytes,
    .param_put = param_put,
    .param_get = param_get,
};
