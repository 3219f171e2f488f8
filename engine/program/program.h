/* The program: one step of training as a list of operations. Built from a graph, rewritten by
 * policies, lowered into a plan. Ops and tensors have stable numbers; the order of ops is a list of
 * numbers, so inserting an op moves nothing else. */
#ifndef DT_ENGINE_PROGRAM_PROGRAM_H
#define DT_ENGINE_PROGRAM_PROGRAM_H

#include "engine/map.h"
#include "engine/reasons.h"
#include "engine/tier.h"

enum { DT_MAX_ARGS = 32, DT_NONE = -1 };

/* A training step runs FIRST, then AGAIN for each further micro-batch, then UPDATE. */
typedef enum dt_program_kind {
    DT_PROGRAM_FIRST,  /* a micro-batch; gradients are written */
    DT_PROGRAM_AGAIN,  /* a micro-batch; gradients are added */
    DT_PROGRAM_UPDATE, /* optimizer, commit of running statistics */
    DT_PROGRAM_EVAL,   /* forward only, running statistics */
    DT_PROGRAM_KINDS
} dt_program_kind;

const char *dt_program_kind_name(dt_program_kind k);

/* What the configuration has fixed for a tensor's gap between forward and backward; policies leave
 * such gaps as they are. */
typedef enum dt_pin {
    DT_PIN_NONE,
    DT_PIN_KEEP,
    DT_PIN_MOVE,
    DT_PIN_RECOMPUTE,
    DT_PIN_ENCODE
} dt_pin;

/**
 * struct dt_tensor - a value.
 * @bytes:        of the whole tensor
 * @sample_bytes: of one sample, 0 when it has no batch dimension; a tensor of the batch has n of
 * them
 * @home:         entry of the persistent map, or DT_NONE for a transient. Behind the tensors that
 * are entries stand parts of some that live in a tier, which come and go by themselves
 * @from:         of such a part: the byte of the entry with which it begins
 * @node:         the layer it belongs to, or DT_NONE
 * @of:           the tensor whose value a recompute wrote here again, or DT_NONE
 * @group:        tensors of one group share one interval that lasts the whole run; DT_NONE: its own
 * @pin:          its fate, when the configuration names one
 */
typedef struct dt_tensor {
    char name[DT_TENSOR_NAME_BYTES];
    dt_role role;
    size_t bytes, sample_bytes, from;
    int32_t home, node, of, group;
    dt_pin pin;
} dt_tensor;

/* A tensor that lives in no entry of the map, and has an interval of its own; callers name it. */
dt_tensor dt_transient(dt_role role, size_t bytes, int32_t node);

typedef enum dt_op_kind {
    DT_OP_FORWARD,
    DT_OP_BACKWARD,
    DT_OP_RECOMPUTE, /* forward again, inserted by a policy */
    DT_OP_REORDER,   /* a parameter or gradient into another layout */
    DT_OP_UPDATE,
    DT_OP_FETCH,  /* input from the decoded batch */
    DT_OP_OUT,    /* copy to a tier */
    DT_OP_IN,     /* copy back */
    DT_OP_ENCODE, /* pack a value, which stays on the device */
    DT_OP_DECODE, /* unpack it into bytes of its own */
    DT_OP_KINDS
} dt_op_kind;

const char *dt_op_kind_name(dt_op_kind k);
int dt_op_kind_find(const char *name);

enum { DT_READ = 1, DT_WRITE = 2, DT_UPDATES = 3 };

/* Of dt_call.add, for an operand that is updated: the bit of the gradient at this port; else 0. */
static inline unsigned dti_adds_bit(int port, int mode)
{
    return mode == DT_UPDATES && port >= DT_DP && port < DT_DP + DT_MAX_PARAM
               ? 1u << (unsigned)(port - DT_DP)
               : 0;
}

typedef struct dt_operand {
    int32_t tensor;
    uint8_t port, mode; /* DT_READ, DT_WRITE (the bytes it covers, whole) or DT_UPDATES */
} dt_operand;

/**
 * struct dt_op - an operation.
 * @desc:  layer (or optimizer, sum, ...) whose kernel runs; NULL for copies
 * @node:  the graph's node, or DT_NONE
 * @form:  which of the layer's ops
 * @n0 @n1: samples it works on; a split op has several pieces
 * @count: elements, for ops without a node
 * @first: UPDATE: the first of them, in the parameter
 * @flops: of these samples
 * @dtype: of the values it works on
 * @pair:  IN: the OUT whose bytes it brings back
 * @tier:  OUT and IN: where to and from
 * @codec: ENCODE, DECODE, OUT and IN: how bytes are packed; NULL: not at all
 * @stored: of the same: bytes of the slot, or of the packed tensor
 * @release_after: OUT: op after which the device bytes are given back; DT_NONE: the OUT itself
 * @join_before: IN and FETCH: the copy begins when the ops before it are done, and is awaited
 * before this op; 0, which that op never is: it begins when its bytes are free, and its first
 * reader waits
 * @recompute_of: RECOMPUTE: the op it repeats
 * @vector: UPDATE: the parameter has one dimension
 * @on_host: UPDATE: what lives on the host is read and written there
 * @reason: why a policy has put it here, or has chosen what it reads: a number of the program's
 * reasons; 0: none has
 */
typedef struct dt_op {
    char name[DT_TENSOR_NAME_BYTES];
    dt_op_kind kind;
    const dt_layer_desc *desc;
    int32_t node, pair, release_after, join_before, recompute_of;
    dt_form_kind form;
    dt_dtype dtype;
    const dt_codec *codec;
    dt_tier tier;
    size_t stored;
    int64_t n0, n1, count, first;
    bool vector, on_host;
    int32_t reason;
    double flops;
    int n_arg;
    dt_operand arg[DT_MAX_ARGS];
} dt_op;

/* One access of a tensor. */
typedef struct dt_access {
    int32_t op;
    uint8_t mode;
} dt_access;

/* Of a tensor: n accesses from the first on, with room for so many. */
typedef struct dt_access_list {
    int32_t first, n, room;
} dt_access_list;

/* Derived from the order: where each op stands, and each tensor's accesses in order. It holds for
 * the first n_op ops and n_tensor tensors. */
typedef struct dt_index {
    int32_t *pos;       /* by op; DT_NONE when it is not in the order */
    dt_access_list *of; /* by tensor */
    dt_access *access;  /* n_access of them, of lists and of lists that have moved since */
    size_t n_op, n_tensor, n_access;
    size_t cap_pos, cap_of, cap_access;
} dt_index;

/* An op of which an operand was another tensor. */
typedef struct dt_rebound {
    int32_t op, tensor;
} dt_rebound;

typedef struct dt_program {
    dt_program_kind kind;
    const dt_context *context;            /* borrowed */
    const dt_graph *graph;                /* borrowed */
    const dt_map *map;                    /* borrowed */
    const dt_algorithm_table *algorithms; /* borrowed; NULL: the fastest */
    int64_t n;                            /* samples */
    size_t n_tensor, cap_tensor, n_op, cap_op, n_order, cap_order;
    dt_tensor *tensor;
    dt_op *op;
    int32_t *order;
    int32_t n_group;
    int32_t loss;       /* the op that ends forward; DT_NONE without backward */
    uint8_t *alt;       /* by node: the chosen alternative */
    const char *policy; /* borrowed; whose pass rewrites it, for reasons */
    bool dense;         /* what that pass plans is for steps whose packed values did not fit */
    dt_reasons reasons;
    bool *needs_dx; /* by node: something before it is trained */
    bool stale;     /* the index must be made anew: more has changed than @rebound and @changed_from
                       tell */
    dt_rebound *rebound; /* since the index was made */
    size_t n_rebound, cap_rebound;
    size_t changed_from; /* the first place of the order that has changed since */
    dt_index index;
} dt_program;

/* The ops that belong to no layer, handed in because the engine knows no kernels. @packed: the
 * optimizer of moments in 8 bits; NULL where there are none. */
typedef struct dt_plain_ops {
    const dt_layer_desc *sum, *commit, *optimizer, *packed;
} dt_plain_ops;

typedef struct dt_program_opts {
    const dt_graph *graph;
    const dt_map *map;
    const dt_context *context; /* NULL: the processor */
    dt_program_kind kind;
    int64_t n; /* samples */
    dt_plain_ops ops;
    const dt_algorithm_table *algorithms; /* NULL: the fastest */
    bool masks; /* of a ReLU whose value a concatenation holds as well keep the mask alone */
} dt_program_opts;

/* Build one program of a network, as its author wrote it: nothing moved, nothing recomputed.
 * Borrows context, graph, map and table of algorithms, which must outlive it. */
dt_status dt_program_create(dt_program **out, const dt_program_opts *o, dt_err *err) DT_NODISCARD;
void dt_program_destroy(dt_program *p);

/* A program like this one, indexed, to try a rewrite on; it borrows what that does. DT_E_NOMEM. */
dt_status dt_program_copy(dt_program **out, const dt_program *p, dt_err *err) DT_NODISCARD;
void dt_program_swap(dt_program *p, dt_program *q); /* each becomes the other */

/* Building blocks, for the builder and for passes. They return numbers through *id. */
dt_status dt_program_tensor(
    dt_program *p, const dt_tensor *t, int32_t *id, dt_err *err) DT_NODISCARD;
/* Insert before place @pos of the order (n_order: at the end). */
dt_status dt_program_insert(
    dt_program *p, const dt_op *op, size_t pos, int32_t *id, dt_err *err) DT_NODISCARD;
/* Bind an operand of an op that is in the program to another tensor. */
void dt_program_rebind(dt_program *p, int32_t op, int arg, int32_t tensor);
/* Before the operands of an op that has some are changed in any other way. */
void dt_program_rebinds(dt_program *p, int32_t op);
/* Updates go to what lives on the host, instead of bringing it to the device. */
void dt_program_update_on_host(dt_program *p);
void dt_op_bind(dt_op *op, int32_t tensor, int port, int mode);
/* Bind @bytes of scratch of the op's own, in place of what it has; none for 0. The op need not be
 * in the program yet. */
dt_status dt_op_bind_work(dt_program *p, dt_op *op, size_t bytes, dt_err *err) DT_NODISCARD;
/* Tensor bound to a port, or DT_NONE. */
int32_t dt_op_tensor(const dt_op *op, int port);
/* How the op accesses the tensor: union of modes over its operands, 0 if not at all. */
int dti_op_mode(const dt_op *op, int32_t tensor);

/* The index, made anew when the program has changed. */
dt_status dt_program_index(dt_program *p, dt_err *err) DT_NODISCARD;
static inline int32_t dt_pos(const dt_program *p, int32_t op)
{
    return p->index.pos[op];
}
/* Accesses of a tensor in order. */
const dt_access *dt_accesses(const dt_program *p, int32_t tensor, int32_t *n);

/* The call that names an op to its device. */
dt_call dt_op_call(const dt_program *p, const dt_op *op);
/* Facts of an op; work_bytes and layouts. And its algorithms, none where there is no choice. */
dt_status dt_op_facts(const dt_program *p, const dt_op *op, dt_facts *f, dt_err *err) DT_NODISCARD;
dt_status dt_op_algorithms(
    const dt_program *p, const dt_op *op, dt_algorithms *a, dt_err *err) DT_NODISCARD;
/* Which implementation computes it, and why others do not. */
dt_status dt_op_choice(
    const dt_program *p, const dt_op *op, dt_choice *choice, dt_err *err) DT_NODISCARD;

#endif
