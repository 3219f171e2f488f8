/* Where a value lies is a sum over the dimensions, so there is a table for each: of the layout that
 * is read, and of the one that is written. */
#include "layers/onednn/unpad.h"

#include "engine/base/alloc.h"
#include "layers/cpu/tasks.h"

enum { RANK = 5, LAST = RANK - 1 };

/* @at: by index of each dimension, what it adds to the place of a value; dimensions that a weight
 * has not are of one, before its own
 * @offset: values before the first one */
typedef struct side {
    int64_t *at[RANK], offset;
} side;

struct dti_unpad {
    int64_t dims[RANK];
    side from, to;
    bool adds;
};

/* Whether the last block of a dimension is not full. */
static bool is_padded(const dti_blocks *b)
{
    int64_t whole[DNNL_MAX_NDIMS];
    bool any = false;
    for (int d = 0; d < b->rank; d++)
        whole[d] = 1;
    for (int k = 0; k < b->n; k++)
        whole[b->block_of[k]] *= b->blocks[k];
    for (int d = 0; d < b->rank; d++)
        any = any || b->dims[d] % whole[d] != 0;
    return any;
}

bool dti_unpad_can(dti_read_desc from, dti_read_desc to)
{
    dti_blocks a, b;
    return dti_desc_blocks(from, dnnl_f32, &a) && dti_desc_blocks(to, dnnl_f32, &b) &&
           a.rank == b.rank && a.rank <= RANK && is_padded(&a) && !is_padded(&b);
}

/* What index @i of a dimension adds: its place in the blocks, from the innermost one on, and that
 * of the block that it is in. */
static int64_t place(const dti_blocks *b, int dim, int64_t i)
{
    int64_t at = 0, each = 1;
    for (int k = b->n - 1; k >= 0; k--) {
        if (b->block_of[k] == dim) {
            at += i % b->blocks[k] * each;
            i /= b->blocks[k];
        }
        each *= b->blocks[k];
    }
    return at + i * b->strides[dim];
}

static bool fill(side *s, const dti_blocks *b)
{
    s->offset = b->offset;
    for (int d = 0; d < RANK; d++) {
        const int own = d - (RANK - b->rank);
        const int64_t n = own < 0 ? 1 : b->dims[own];
        s->at[d] = dt_alloc((size_t)n, sizeof *s->at[d]);
        if (s->at[d] == NULL)
            return false;
        for (int64_t i = 0; i < n; i++)
            s->at[d][i] = own < 0 ? 0 : place(b, own, i);
    }
    return true;
}

dt_status dti_unpad_create(
    dti_unpad **out, dti_read_desc from, dti_read_desc to, bool adds, dt_err *err)
{
    dti_blocks a, b;
    dti_unpad *u = dt_alloc(1, sizeof *u);
    *out = NULL;
    DT_ASSERT(dti_desc_blocks(from, dnnl_f32, &a) && dti_desc_blocks(to, dnnl_f32, &b));
    if (u == NULL || !fill(&u->from, &a) || !fill(&u->to, &b)) {
        dti_unpad_destroy(u);
        return DT_FAIL(err, DT_E_NOMEM, "no memory to prepare an op");
    }
    for (int d = 0; d < RANK; d++)
        u->dims[d] = d < RANK - a.rank ? 1 : a.dims[d - (RANK - a.rank)];
    u->adds = adds;
    *out = u;
    return DT_OK;
}

void dti_unpad_destroy(dti_unpad *u)
{
    for (int d = 0; u != NULL && d < RANK; d++) {
        dt_free(u->from.at[d]);
        dt_free(u->to.at[d]);
    }
    dt_free(u);
}

/* A line: values that differ in the last index alone. */
typedef struct job {
    const dti_unpad *u;
    const float *from;
    float *to;
    int64_t lines, each; /* of all, and of a task */
} job;

static void copy_line(const job *j, int64_t line)
{
    const dti_unpad *u = j->u;
    const float *from = j->from + u->from.offset;
    float *to = j->to + u->to.offset;
    for (int d = LAST - 1; d >= 0; d--) {
        from += u->from.at[d][line % u->dims[d]];
        to += u->to.at[d][line % u->dims[d]];
        line /= u->dims[d];
    }
    const int64_t *x = u->from.at[LAST], *y = u->to.at[LAST];
    for (int64_t i = 0; i < u->dims[LAST]; i++)
        to[y[i]] = u->adds ? to[y[i]] + from[x[i]] : from[x[i]];
}

static void copy_lines(const void *self, int64_t task)
{
    const job *j = self;
    const dti_span mine = dti_span_of(j->lines, j->each, task);
    for (int64_t line = mine.begin; line < mine.end; line++)
        copy_line(j, line);
}

void dti_unpad_run(const dti_unpad *u, const float *from, float *to)
{
    job j = {.u = u, .from = from, .to = to, .lines = 1};
    for (int d = 0; d < LAST; d++)
        j.lines *= u->dims[d];
    j.each = dti_ceil_div(DTI_GRAIN, u->dims[LAST]);
    dti_run_tasks(dti_ceil_div(j.lines, j.each), copy_lines, &j);
}
