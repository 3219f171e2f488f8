/* Tiles of rows of an inner product's gradient: what they take, their primitives, one after the
 * other. */
#include "layers/cpu/row_tiles.h"

#include <string.h>

#include "engine/base/alloc.h"
#include "engine/base/numbers.h"

enum { TILE = 8 << 20, LINE = 64 };

static int64_t tile_rows(const dt_dnnl_problem *p)
{
    const int64_t unit = dti_dnnl_rows();
    const int64_t fit = TILE / (int64_t)sizeof(float) / p->c / unit * unit;
    return fit < unit ? unit : fit;
}

/* The rows of a tile, or those that are left, as a layer. */
static dt_dnnl_problem rows_of(const dt_dnnl_problem *p, int64_t first)
{
    const int64_t rows = tile_rows(p), left = p->out - first;
    dt_dnnl_problem q = *p;
    q.out = left < rows ? left : rows;
    return q;
}

/* A padded layout does not let rows be. Without AVX-512 the library takes memory of its own for
 * such products, and sums in another order. */
bool dti_row_tiles_can(const dt_dnnl_problem *p, int64_t n, dt_dnnl_layout home)
{
    dt_dnnl_facts f;
    return p->fc != 0 && n <= DTI_ROW_TILES_MOST && p->out > tile_rows(p) && dti_onednn_avx512() &&
           dt_dnnl_ask(p, home, &f, NULL) == DT_OK &&
           f.weight_bytes == (size_t)(p->c * p->out) * sizeof(float);
}

static size_t value_bytes(const dt_dnnl_problem *p)
{
    return p->bf16 != 0 ? 2 : 4;
}

/* Where things lie in scratch: the tile, its part of dy, its part of the bias's gradient, what the
 * library wants. */
typedef struct places {
    size_t dy, bias, work, end;
} places;

static dt_status lay_out(
    const dt_dnnl_problem *p, int64_t n, places *at, dt_dnnl_facts *whole, dt_err *err)
{
    const int64_t rows = tile_rows(p), last = (p->out - 1) / rows * rows;
    const dt_dnnl_layout gradient = {.kind = DT_DNNL_WEIGHTS, .n = n};
    const dt_dnnl_problem q[2] = {rows_of(p, 0), rows_of(p, last)};
    dt_dnnl_facts f[2];
    for (int i = 0; i < 2; i++)
        DT_CHECK(dt_dnnl_ask(&q[i], gradient, &f[i], err));
    const bool first = f[0].work_bytes > f[1].work_bytes;
    at->dy = dt_align_up(
        f[0].weight_bytes > f[1].weight_bytes ? f[0].weight_bytes : f[1].weight_bytes, LINE);
    at->bias = at->dy + dt_align_up((size_t)(n * rows) * value_bytes(p), LINE);
    at->work = at->bias + (p->bias != 0 ? dt_align_up((size_t)rows * sizeof(float), LINE) : 0);
    at->end = at->work + (first ? f[0] : f[1]).work_bytes;
    *whole = f[0];
    return DT_OK;
}

dt_status dti_row_tiles_ask(const dt_dnnl_problem *p, int64_t n, dt_dnnl_facts *f, dt_err *err)
{
    places at;
    DT_CHECK(lay_out(p, n, &at, f, err));
    f->work_bytes = at.end;
    return DT_OK;
}

struct dti_row_tiles {
    dt_dnnl_problem p;
    int64_t n, rows, tiles;
    places at;
    dt_dnnl_op *make[2]; /* of a tile, and of the last one */
    dt_dnnl_op **add;    /* of each */
};

void dti_row_tiles_destroy(dti_row_tiles *t)
{
    if (t == NULL)
        return;
    for (int64_t i = 0; t->add != NULL && i < t->tiles; i++)
        dt_dnnl_destroy(t->add[i]);
    dt_dnnl_destroy(t->make[0]);
    dt_dnnl_destroy(t->make[1]);
    dt_free(t->add);
    dt_free(t);
}

static dt_status create_ops(dti_row_tiles *t, dt_dnnl_layout home, dt_err *err)
{
    const dt_dnnl_layout gradient = {.kind = DT_DNNL_WEIGHTS, .n = t->n};
    dt_dnnl_facts f;
    DT_CHECK(lay_out(&t->p, t->n, &t->at, &f, err));
    for (int k = 0; k < 2; k++) {
        const dt_dnnl_problem q = rows_of(&t->p, k == 0 ? 0 : (t->tiles - 1) * t->rows);
        DT_CHECK(dt_dnnl_create(&t->make[k], &q, gradient, err));
    }
    for (int64_t i = 0; i < t->tiles; i++) {
        const dt_dnnl_problem q = rows_of(&t->p, i * t->rows);
        DT_CHECK(dti_dnnl_create_add_rows(&t->add[i], &q, gradient, &t->p, home, i * t->rows, err));
    }
    return DT_OK;
}

dt_status dti_row_tiles_create(
    dti_row_tiles **out, const dt_dnnl_problem *p, int64_t n, dt_dnnl_layout home, dt_err *err)
{
    dti_row_tiles *t = dt_alloc(1, sizeof *t);
    *out = NULL;
    if (t == NULL)
        return DT_FAIL(err, DT_E_NOMEM, "no memory to prepare an op");
    t->p = *p;
    t->n = n;
    t->rows = tile_rows(p);
    t->tiles = (p->out + t->rows - 1) / t->rows;
    t->add = dt_alloc((size_t)t->tiles, sizeof *t->add);
    const dt_status st = t->add == NULL ? DT_FAIL(err, DT_E_NOMEM, "no memory to prepare an op")
                                        : create_ops(t, home, err);
    if (st != DT_OK) {
        dti_row_tiles_destroy(t);
        return st;
    }
    *out = t;
    return DT_OK;
}

/* The columns of dy that a tile's rows are of, one sample behind the other. */
static void pack_dy(const dti_row_tiles *t, const char *dy, int64_t first, int64_t rows, char *to)
{
    const size_t each = value_bytes(&t->p), row = (size_t)rows * each;
    for (int64_t i = 0; i < t->n; i++)
        memcpy(to + (size_t)i * row, dy + (size_t)(i * t->p.out + first) * each, row);
}

static void give_bias(const float *from, int64_t n, bool add, float *to)
{
    for (int64_t i = 0; i < n; i++)
        to[i] = add ? to[i] + from[i] : from[i];
}

dt_status dti_row_tiles_run(dti_row_tiles *t, const dt_dnnl_bytes *b, bool add_bias, dt_err *err)
{
    char *const work = b->work;
    const dt_dnnl_bytes make = {b->x, work + t->at.dy, work, work + t->at.bias, work + t->at.work};
    const dt_dnnl_bytes add = {.x = work, .y = b->weight};
    for (int64_t i = 0; i < t->tiles; i++) {
        const int64_t first = i * t->rows, left = t->p.out - first;
        const int64_t rows = left < t->rows ? left : t->rows;
        pack_dy(t, b->y, first, rows, work + t->at.dy);
        DT_CHECK(dt_dnnl_run(t->make[i == t->tiles - 1], &make, err));
        DT_CHECK(dt_dnnl_run(t->add[i], &add, err));
        if (t->p.bias != 0)
            give_bias(make.bias, rows, add_bias, (float *)b->bias + first);
    }
    return DT_OK;
}
