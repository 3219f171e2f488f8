/* Convolutions and inner products by oneDNN. Everything that depends on oneDNN's version is
 * in onednn.c; its types do not appear here.
 *
 * Activations are plain NHWC. The weight is in whatever layout the library finds fastest, which
 * depends on the shape, the direction and the number of samples; such a layout is named by a
 * dt_dnnl_layout and a reorder brings a weight from one to another. Scratch memory is the caller's.
 *
 * In bf16 x, y and their gradients are bf16, and so is the weight that forward and backward-data
 * read; the gradient of the weight, plain weights and biases are fp32.
 */
#ifndef DT_LAYERS_ONEDNN_ONEDNN_H
#define DT_LAYERS_ONEDNN_ONEDNN_H

#include "engine/base/error.h"
#include "engine/base/isa.h"

/* What a primitive computes; or how a weight lies. */
typedef enum dt_dnnl_kind {
    DT_DNNL_FORWARD, /* x, weight, bias -> y */
    DT_DNNL_DATA,    /* dy, weight -> dx */
    DT_DNNL_WEIGHTS, /* x, dy -> dweight, dbias */
    DT_DNNL_PLAIN,   /* as a layout: OIHW, or [out, in] */
    DT_DNNL_PANELS, /* as a layout, of a 1 x 1 kernel: [in / DTI_DNNL_PANEL][out][DTI_DNNL_PANEL] */
    DT_DNNL_HWIO    /* as a layout: [height][width][in][out] */
} dt_dnnl_kind;

enum { DTI_DNNL_PANEL = 64 };

/* A layer. Eight-byte members only, so that a problem can be compared as bytes.
 * @fc:  1: an inner product of vectors of length c; h, w, p, q, kernel, stride, groups are then 1
 * @p @q: output height and width
 * @kernel @stride @pad: sides (engine/shape.h)
 * @dilation: 1 is a dense kernel
 * @bf16: 1: of values of bf16, else of fp32
 * @hwio: 1: the weight lives as DT_DNNL_HWIO, which kernels of ours read and write
 * @plain: 1: the same of DT_DNNL_PLAIN
 * @panels: 1: backward-data reads it as DT_DNNL_PANELS, being a kernel of ours */
typedef struct dt_dnnl_problem {
    int64_t fc, bf16, bias, hwio, plain, panels, groups, c, h, w, out, p, q, kernel, stride, pad,
        dilation;
} dt_dnnl_problem;

/* The layout of a weight that a direction wants (forward, data) or gives (weights) for n samples.
 * @alone: computed by the thread that calls, not by the library's team
 * From DT_DNNL_PLAIN on @n and @alone are ignored. */
typedef struct dt_dnnl_layout {
    dt_dnnl_kind kind;
    int64_t n;
    bool alone;
} dt_dnnl_layout;

/* What is known without building a primitive.
 * @same: a reorder's two layouts are equal
 * @pairs: n where the weight is bf16, [out / n][height][width][in / 32][16][n][2], else 0
 * @plain_rows: it is bf16, of one tap, and [out][in]
 * @layout: of the weight: equal numbers, equal layouts; unequal ones may still be equal */
typedef struct dt_dnnl_facts {
    size_t weight_bytes, work_bytes;
    int64_t pairs;
    uint64_t layout;
    bool same, plain_rows;
    char impl[48];
} dt_dnnl_facts;

/* Facts of one direction, and of a reorder (weight_bytes is then that of the result). Answers are
 * kept, so asking again is a look-up; thread-safe. DT_E_CONFIG when sizes are beyond the
 * library's counters, DT_E_DEVICE when it refuses the shape. */
dt_status dt_dnnl_ask(
    const dt_dnnl_problem *p, dt_dnnl_layout layout, dt_dnnl_facts *f, dt_err *err) DT_NODISCARD;
dt_status dti_dnnl_ask_reorder(const dt_dnnl_problem *p, dt_dnnl_layout from, dt_dnnl_layout to,
    dt_dnnl_facts *f, dt_err *err) DT_NODISCARD;

typedef struct dt_dnnl_op dt_dnnl_op;

dt_status dt_dnnl_create(
    dt_dnnl_op **out, const dt_dnnl_problem *p, dt_dnnl_layout layout, dt_err *err) DT_NODISCARD;
dt_status dti_dnnl_create_reorder(dt_dnnl_op **out, const dt_dnnl_problem *p, dt_dnnl_layout from,
    dt_dnnl_layout to, dt_err *err) DT_NODISCARD;
/* Of some rows only: of outputs [first, first + n) of an fc's weight. On the side of
 * DT_DNNL_PLAIN, which one of both must be, the bytes are those rows alone. DT_E_DEVICE where a
 * layout does not let that be. */
dt_status dti_dnnl_create_reorder_rows(dt_dnnl_op **out, const dt_dnnl_problem *p,
    dt_dnnl_layout from, dt_dnnl_layout to, int64_t first, int64_t n, dt_err *err) DT_NODISCARD;
/* Adds a small gradient, of fewer outputs, to the rows of an fc's weight that begin with @first;
 * rows are kept together as above. */
dt_status dti_dnnl_create_add_rows(dt_dnnl_op **out, const dt_dnnl_problem *rows,
    dt_dnnl_layout from, const dt_dnnl_problem *p, dt_dnnl_layout to, int64_t first,
    dt_err *err) DT_NODISCARD;
/* Rows, of which every layout of an fc's weight keeps a part together: [first, first + n) may be
 * any whole number of these. */
int64_t dti_dnnl_rows(void);
void dt_dnnl_destroy(dt_dnnl_op *op);

/* Bytes for one execution, by what they hold; 64-byte alignment is fastest.
 * @x: x or dx; the source of a reorder
 * @y: y or dy; the result of a reorder
 * @weight @bias: parameters or their gradients; bias is ignored without one
 * @work: facts' work_bytes of scratch */
typedef struct dt_dnnl_bytes {
    void *x, *y, *weight, *bias, *work;
} dt_dnnl_bytes;

/* One op is used by one thread at a time. The library allocates a few hundred bytes for its
 * bookkeeping and frees them before it returns. */
dt_status dt_dnnl_run(dt_dnnl_op *op, const dt_dnnl_bytes *bytes, dt_err *err) DT_NODISCARD;
/* What a run of these bytes does first: telling the library where they are, which writes the
 * padding of a weight, so ops that read the same one are bound before they run at the same time. */
dt_status dti_dnnl_bind(dt_dnnl_op *op, const dt_dnnl_bytes *bytes, dt_err *err) DT_NODISCARD;

/* Whether the library uses AVX-512 here. Below it, inner products and some convolutions fall back
 * to a matrix product that allocates up to 14 MB inside each call (2.6.3), outside the plan. */
bool dti_onednn_avx512(void);
/* Whether it multiplies bf16 by instructions made for it (AVX512-BF16, AMX). */
bool dt_onednn_bf16(void);
/* The instruction set it uses, by its own names: "avx512_core_amx", "avx2" ... What the user limits
 * (dt_onednn_limit, ONEDNN_MAX_CPU_ISA) is counted. */
const char *dt_onednn_isa(void);
/* Nothing above, in its kernels as in ours (dt_isa_limit). Before its first use, else DT_E_CONFIG.
 */
dt_status dt_onednn_limit(dt_isa isa, dt_err *err) DT_NODISCARD;
const char *dt_onednn_version(void); /* "oneDNN 2.6.3", of the library that is loaded */

#endif
