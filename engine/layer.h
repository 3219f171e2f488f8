/* What a layer is: one const descriptor. It states facts (shapes, what each of its ops reads and
 * writes, what backward needs, what may be in place, split, repeated) and names its kernels per
 * device. The memory planner reads facts and never a layer's name.
 *
 * A layer gives rise to several ops, its forms: forward, recompute, evaluation, one or two backward
 * ops, and ops that bring a parameter into another layout. A form names what it touches by ports:
 * X0 is the first input, Y the output, P0 the first parameter, and so on. */
#ifndef DT_ENGINE_LAYER_H
#define DT_ENGINE_LAYER_H

#include "engine/base/error.h"
#include "engine/config/options.h"
#include "engine/label.h"
#include "engine/shape.h"

enum {
    DT_MAX_IN = 16,
    DT_MAX_PARAM = 4,
    DT_MAX_STASH = 3,
    DT_MAX_MOMENT = 2,
    DT_MAX_STATE = 2 * DT_MAX_MOMENT,
    DT_MAX_ALT = 3,
    DT_MAX_OVER = 3
};
enum { DT_DIRECTIONS = 3 }; /* of a layer: forward, backward, second backward */

/* Places where an op finds its tensors. */
typedef enum dt_port {
    DT_X = 0,                    /* inputs: DT_X + i */
    DT_DX = DT_X + DT_MAX_IN,    /* gradients of the inputs */
    DT_P = DT_DX + DT_MAX_IN,    /* parameters and buffers (running statistics) */
    DT_DP = DT_P + DT_MAX_PARAM, /* gradients of the parameters */
    DT_Q = DT_DP + DT_MAX_PARAM, /* pending copies of the buffers, committed by update */
    DT_D = DT_Q + DT_MAX_PARAM,  /* derived: DT_D + 0 weight for forward, + 1 for backward-data */
    DT_S = DT_D + 2,             /* stashes: statistics, masks, indices, probabilities */
    DT_M = DT_S + DT_MAX_STASH,  /* optimizer state: moments, and scales of those in 8 bits */
    DT_Y = DT_M + DT_MAX_STATE,  /* output */
    DT_DY,                       /* gradient of the output */
    DT_LABELS,                   /* words, as engine/label.h says */
    DT_METRICS,                  /* struct dt_metrics and what follows it: loss and counts so far */
    DT_WORK,                     /* scratch of one op */
    DT_PORTS
} dt_port;

/* Where the scales are of a moment in 8 bits. */
#define DTI_SCALES_OF(moment) ((dt_port)((moment) + DT_MAX_MOMENT))

typedef uint64_t dt_ports; /* a set */
#define DT_BIT(port) ((dt_ports)1 << (unsigned)(port))
#define DT_BITS(port, n) ((((dt_ports)1 << (n)) - 1) << (port))

/* The forms an op can have. */
typedef enum dt_form_kind {
    DT_FORWARD,   /* training forward */
    DT_RECOMPUTE, /* forward again, from saved statistics, touching no state; absent: same as
                     forward */
    DT_EVAL,      /* evaluation forward; absent: same as forward, writing no stash */
    DT_BACKWARD,  /* the first backward op ... */
    DT_BACKWARD2, /* ... and the second, when gradients are computed apart */
    DT_DERIVE_F,  /* P0 -> D0, the layout forward wants */
    DT_DERIVE_B,  /* P0 -> D1, the layout backward-data wants */
    DT_RESTORE,   /* S0 (gradient in the layout this batch gives) -> DP0, the layout of P0 */
    DT_UPDATE,    /* for optimizers and commits */
    DT_FORMS
} dt_form_kind;

/**
 * struct dt_form - one op of a layer.
 * @suffix:  "f", "b", "bw", "bd" ...; NULL: the layer has no such op
 * @reads:   ports read. DT_X or DT_DX + 0 in a set stand for all inputs the node has (of
 * a layer that shares_dy, DT_DX stands for itself)
 * @writes:  ports written whole
 * @updates: ports read and written in place (state)
 * @may_lack: of these, what need not be there
 * @saved:   this backward op also reads the values of the chosen alternative
 * @over:    pairs {written port, read port}: the first may take the second's bytes
 * @split:   may run on parts of the batch with the same bits
 */
typedef struct dt_form {
    const char *suffix;
    dt_ports reads, writes, updates, may_lack;
    bool saved;
    bool split;
    int n_over;
    struct {
        uint8_t out, in;
    } over[DT_MAX_OVER];
} dt_form;

/* One way backward can work: which values of forward it reads. X and Y are the layer's input and
 * output; the stashes named here are the ones forward then writes. */
typedef struct dt_alt {
    const char *name;
    dt_ports reads;
} dt_alt;

typedef enum dt_init_kind {
    DT_INIT_ZERO,
    DT_INIT_ONE,
    DT_INIT_UNIFORM, /* in [-scale, scale] */
    DT_INIT_NORMAL   /* standard deviation scale */
} dt_init_kind;

/* A parameter (trained) or a buffer (running statistic), in PyTorch's layout: row-major, OIHW for
 * convolutions, [out, in] for fc with in = C*H*W in that order. @along: the dimension that goes
 * along the layer's outputs, by which tiles are cut. */
typedef struct dt_param_info {
    const char *name; /* "weight"; the full name is NODE.weight */
    bool buffer;
    int rank, along;
    int64_t d[4];
    dt_init_kind init;
    double scale;
} dt_param_info;

/* A value forward leaves for backward besides X and Y. */
typedef struct dt_stash_info {
    const char *name;                 /* "mean", "mask" */
    size_t fixed_bytes, sample_bytes; /* fixed + batch * sample */
} dt_stash_info;

/* Kinds of arithmetic that reach different shares of a roof: products of matrices and all else,
 * convolutions by the fastest algorithm, those of one pixel, which no transform shortens, those of
 * one channel each, and, which is no layer's but an op's, those others by the algorithm with the
 * least scratch. */
typedef enum dt_work {
    DT_WORK_MATRIX,
    DT_WORK_CONV,
    DT_WORK_CONV_POINTWISE,
    DT_WORK_CONV_DEPTHWISE,
    DT_WORK_CONV_SMALL,
    DT_WORKS
} dt_work;

/* What infer finds out about one node, for n = 1. flops count a multiply-add as two. @ids: of a
 * layer that reads ids, how many there are: they are 0 to ids - 1. @scores: of how many classes X0
 * holds the scores, from class @first_score on; 0: it holds none. A loss need not say it: its X0
 * holds those of all, unless that is fp32 whatever the type of values. Where labels are values, the
 * channels of X0 stand for classes. */
typedef struct dt_layer_info {
    dt_shape y;
    int n_param, n_stash;
    dt_param_info param[DT_MAX_PARAM];
    dt_stash_info stash[DT_MAX_STASH];
    double forward_flops, backward_flops[2]; /* per sample */
    dt_work work;
    int64_t ids, scores, first_score;
} dt_layer_info;

struct dt_node;
struct dt_kernels;

/**
 * struct dt_layer_desc - a layer.
 * @name @summary: as in the INI file and in `dnntrain list layers`
 * @opts @opts_bytes: its options, and the size of the struct they fill; NULL and 0 for none
 * @min_in @max_in: how many inputs it takes
 * @form:     its ops
 * @alt:      what backward needs, best first for speed; n_alt may be 0 (backward reads nothing
 * saved)
 * @masked:   the alternative that reads values, but signs from a stash, so that it may read values
 * that were rounded since; 0: there is none
 * @identity: no op at all: y is x, dx is dy (flatten)
 * @reads_flat: takes each value by itself, or all as one vector, so that a flatten before it may be
 * a mark alone
 * @shares_dy: the gradient of every input is one and the same: dy itself (add), and backward is no
 * op, or one for the parameters alone; or what a backward op writes to DX + 0 (add_relu)
 * @reads_sign: backward reads of Y only whether it is above zero (relu)
 * @keeps_sign: y is x times something positive, or zero, and where it is zero no gradient comes
 * back (dropout): a layer before it that reads a sign may read this y, and this one run in place
 * @reads_ids: its input is whole numbers, as tokens are, which stay fp32 whatever the type of
 * values
 * @loss:     the last layer of a network; takes labels, starts backward
 * @labels:   of a loss: what its labels are
 * @repeatable: forward again gives the same bits and touches no state in its recompute form
 * @holds_inputs: the values of all inputs stand in y (concat)
 * @mixes_positions: a value of y reads x at other places of the image or sequence too
 * @may_share: parameter 0 may be that of another node, in its plain layout (see dt_graph_share)
 * @fp32: ports (DT_Y, DT_X + i) whose values, and their gradients, stay fp32 whatever the type of
 * values. Such a value goes to such a port alone
 * @batch_statistics: training normalises each channel over batch and image, so there must be more
 * than one value in a channel
 * @fuse: a node of this layer whose only reader is a node of layer @next may become, together with
 * it, one node of layer @as, which has this layer's options and parameters. NULL: none
 * @outside:  of the host program, which is at fault where it writes what is not its own
 * @infer:    pure: options and input shapes (n = 1) to facts. DT_E_CONFIG for shapes that cannot be
 * @cpu: the processor's kernels; those of other devices are found by @name (engine/device.h)
 */
typedef struct dt_layer_desc {
    const char *name, *summary;
    const dt_opt *opts;
    size_t opts_bytes;
    int min_in, max_in;
    dt_form form[DT_FORMS];
    int n_alt, masked;
    dt_alt alt[DT_MAX_ALT];
    bool identity, reads_flat, shares_dy, reads_sign, keeps_sign, reads_ids, loss, repeatable,
        holds_inputs, mixes_positions, may_share, batch_statistics, outside;
    dt_label_kind labels;
    dt_ports fp32;
    struct {
        const struct dt_layer_desc *next, *as;
    } fuse;
    dt_status (*infer)(
        const void *opts, const dt_shape *x, int n_x, dt_layer_info *info, dt_err *err);
    const struct dt_kernels *cpu;
} dt_layer_desc;

/* The form of its forward op, in training or in evaluation. */
static inline dt_form_kind dti_forward_form(const dt_layer_desc *d, bool eval)
{
    return eval && d->form[DT_EVAL].suffix != NULL ? DT_EVAL : DT_FORWARD;
}

#endif
