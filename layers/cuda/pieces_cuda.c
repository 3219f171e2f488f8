/* Products in pieces of their outputs. */
#include "layers/cuda/pieces_cuda.h"

#include "engine/base/alloc.h"
#include "layers/cpu/tasks.h"
#include "layers/cuda/weighted_cuda.h"

#ifndef PIECE_BYTES            /* a test has smaller ones */
#define PIECE_BYTES (32 << 20) /* of a piece's outputs, which then stay in a large card's cache */
#endif

enum {
    PIECE_LEAST = 64,  /* outputs */
    WORTH_IT = 1 << 16 /* outputs of all rows; a piece costs a launch or two */
};

static size_t bytes_of(const dti_cublas_problem *p)
{
    return dt_dtype_bytes(p->bf16 ? DT_BF16 : DT_F32);
}

/* Outputs of a piece; 0: the product is run as it is, as those of fp32 are, which no matrix unit
 * does. */
static int64_t piece_outputs(const dti_cublas_problem *p)
{
    if ((size_t)p->out * bytes_of(p) % 16 == 0 || p->rows * p->out < WORTH_IT ||
        (p->bf16 == 0 && p->tf32 == 0))
        return 0;
    const int64_t fit = PIECE_BYTES / (p->rows * (int64_t)bytes_of(p)) / PIECE_LEAST * PIECE_LEAST;
    const int64_t all = dti_ceil_div(p->out, PIECE_LEAST) * PIECE_LEAST;
    return fit < PIECE_LEAST ? PIECE_LEAST : fit < all ? fit : all;
}

/* The gradient of x is added up over pieces, in fp32. */
static bool sums_up(const dti_cublas_problem *p)
{
    return p->direction == DTI_CUBLAS_DATA;
}

/* The product of @out outputs that lie in rows of @pitch. */
static dti_cublas_problem piece_of(const dti_cublas_problem *p, int64_t out, int64_t pitch)
{
    dti_cublas_problem piece = *p;
    piece.out = out;
    piece.pitch = pitch;
    piece.sums = sums_up(p);
    return piece;
}

/* Scratch: the piece's outputs, sums where dx is not fp32 itself, the library's. */
typedef struct scratch {
    size_t sums, library;
} scratch;

static size_t aligned(size_t bytes)
{
    return (bytes + 255) / 256 * 256;
}

static scratch scratch_of(const dti_cublas_problem *p, int64_t width)
{
    scratch r;
    r.sums = aligned((size_t)(p->rows * width) * bytes_of(p));
    r.library =
        r.sums + (sums_up(p) && p->bf16 ? aligned((size_t)(p->rows * p->in) * sizeof(float)) : 0);
    return r;
}

dt_status dti_pieces_ask(
    dti_cublas *lib, const dti_cublas_problem *p, dti_cublas_facts *f, dt_err *err)
{
    const int64_t width = piece_outputs(p);
    dti_cublas_facts last = {0};
    if (width == 0)
        return dti_cublas_ask(lib, p, f, err);
    const dti_cublas_problem whole = piece_of(p, width < p->out ? width : p->out, width);
    const dti_cublas_problem rest = piece_of(p, p->out % width, width);
    DT_CHECK(dti_cublas_ask(lib, &whole, f, err));
    if (rest.out > 0 && rest.out < whole.out)
        DT_CHECK(dti_cublas_ask(lib, &rest, &last, err));
    const size_t work = f->work_bytes > last.work_bytes ? f->work_bytes : last.work_bytes;
    f->work_bytes = dti_cuda_aligned_bytes(scratch_of(p, width).library) + work;
    return DT_OK;
}

/* @width: outputs of a piece, of @whole; 0: @whole is all
 * @rest: of fewer, for the last piece; NULL: it is a whole one */
struct dti_pieces {
    dti_cublas_problem p;
    int64_t width;
    dti_cublas_op *whole, *rest;
};

static dt_status create_ops(dti_cublas *lib, dti_pieces *s, dt_err *err)
{
    const dti_cublas_problem *p = &s->p;
    if (s->width == 0)
        return dti_cublas_create(lib, &s->whole, p, err);
    const dti_cublas_problem whole = piece_of(p, s->width < p->out ? s->width : p->out, s->width);
    const dti_cublas_problem rest = piece_of(p, p->out % s->width, s->width);
    DT_CHECK(dti_cublas_create(lib, &s->whole, &whole, err));
    return rest.out > 0 && rest.out < whole.out ? dti_cublas_create(lib, &s->rest, &rest, err)
                                                : DT_OK;
}

dt_status dti_pieces_create(
    dti_cublas *lib, dti_pieces **out, const dti_cublas_problem *p, dt_err *err)
{
    *out = NULL;
    dti_pieces *s = dt_alloc(1, sizeof *s);
    if (s == NULL)
        return DT_FAIL(err, DT_E_NOMEM, "no memory to prepare a product");
    s->p = *p;
    s->width = piece_outputs(p);
    const dt_status st = create_ops(lib, s, err);
    if (st != DT_OK) {
        dti_pieces_destroy(s);
        return st;
    }
    *out = s;
    return DT_OK;
}

void dti_pieces_destroy(dti_pieces *s)
{
    if (s == NULL)
        return;
    dti_cublas_destroy(s->whole);
    dti_cublas_destroy(s->rest);
    dt_free(s);
}

/* Outputs [first, first + n) of the weight, of the bias, of y or dy. @b: with the piece's addresses
 * but for what is moved on here. */
static dt_status run_piece(const dti_pieces *s, void *queue, const dti_cublas_bytes *all,
    dti_cublas_bytes b, int64_t first, int64_t n, dt_err *err)
{
    const dti_cublas_problem *p = &s->p;
    const dt_dtype t = p->bf16 ? DT_BF16 : DT_F32;
    const bool forward = p->direction == DTI_CUBLAS_FORWARD;
    const bool fp32 = !p->bf16 || p->direction == DTI_CUBLAS_WEIGHTS;
    char *const y = (char *)all->y + (size_t)first * bytes_of(p);
    b.weight =
        (char *)all->weight + (size_t)(first * p->in) * (fp32 ? sizeof(float) : sizeof(dt_bf16));
    b.bias = all->bias != NULL ? (float *)all->bias + first : NULL;
    b.add = sums_up(p) && first > 0;
    if (!forward)
        DT_CHECK(dti_cuda_copy_rows(queue, t, b.y, s->width, y, p->out, p->rows, n, err));
    DT_CHECK(dti_cublas_run(s->rest != NULL && n < s->width ? s->rest : s->whole, queue, &b, err));
    return forward ? dti_cuda_copy_rows(queue, t, y, p->out, b.y, s->width, p->rows, n, err)
                   : DT_OK;
}

dt_status dti_pieces_run(dti_pieces *s, void *queue, const dti_cublas_bytes *bytes, dt_err *err)
{
    const dti_cublas_problem *p = &s->p;
    if (s->width == 0)
        return dti_cublas_run(s->whole, queue, bytes, err);
    char *const work = dti_cuda_scratch(bytes->work);
    const scratch r = scratch_of(p, s->width);
    const bool apart = sums_up(p) && p->bf16 != 0;
    const dti_cublas_bytes b = {
        .x = apart ? work + r.sums : bytes->x, .y = work, .work = work + r.library};
    for (int64_t first = 0; first < p->out; first += s->width) {
        const int64_t n = p->out - first < s->width ? p->out - first : s->width;
        DT_CHECK(run_piece(s, queue, bytes, b, first, n, err));
    }
    return apart ? dti_cuda_to_bf16(queue, bytes->x, (const float *)b.x, p->rows * p->in, err)
                 : DT_OK;
}
