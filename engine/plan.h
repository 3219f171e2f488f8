/* The plan: what the runner does, row by row, with every address decided and every kernel named.
 * Fixed-size rows and tables, indices and no pointers: it can be printed, parsed, compared and
 * verified alone, and run with the network it was made for, whose program is not needed any more.
 * memory/lower/lower.h makes plans, memory/verify/verify.h proves them,
 * memory/plan_text/plan_text.h prints and parses them.
 *
 * Order. The streams, which the plan lists, each run their rows in order; rows of different streams
 * are ordered only by events: a COMPUTE or copy row with an event signals it when done, WAIT holds
 * its stream until then. PLACE and RELEASE are bookkeeping of the compute stream.
 * The boundary between two plans (or two runs of one) orders everything before it before everything
 * after. */
#ifndef DT_ENGINE_PLAN_H
#define DT_ENGINE_PLAN_H

#include "engine/program/program.h"

typedef enum dt_row_kind {
    DT_ROW_PLACE,    /* bind a tensor to arena bytes; over = the tensor whose bytes it takes */
    DT_ROW_RELEASE,  /* give the bytes back; contents are lost */
    DT_ROW_COMPUTE,  /* run an op, of whatever kind (dt_op_kind) */
    DT_ROW_COPY_OUT, /* copy to a tier's slot */
    DT_ROW_COPY_IN,  /* copy from a tier's slot, or from the decoded batch */
    DT_ROW_WAIT,     /* hold this stream until the event has happened */
    DT_ROW_KINDS
} dt_row_kind;

const char *dt_row_name(int kind);

typedef enum dt_stream_kind {
    DT_STREAM_COMPUTE,
    DT_STREAM_OUT, /* copies to a tier */
    DT_STREAM_IN,  /* copies from a tier; those from the host fetch the decoded batch as well */
    DT_STREAM_KINDS
} dt_stream_kind;

/**
 * struct dt_stream - a stream of a plan, by whose place in the plan's table rows name it.
 * @kind:   dt_stream_kind
 * @tier:   of the copies; of compute 0, or the host's where its processor computes for a device
 *          whose memory it does not reach
 * @letter: what the plan's text calls it
 */
typedef struct dt_stream {
    uint8_t kind, tier;
    char letter;
} dt_stream;

/* The first of every table is the one on which the device computes. */
enum { DT_MAX_STREAMS = 8, DT_MAIN_STREAM = 0 };

/**
 * struct dt_row - one row.
 * @kind:   DT_ROW_...
 * @stream: row of the table of streams; PLACE and RELEASE stand on the compute stream
 * @tier:   of the slot, for copies
 * @op:     COMPUTE: row of the op table; otherwise -1
 * @tensor: PLACE, RELEASE and copies; otherwise -1
 * @over:   PLACE: the tensor whose bytes it takes; -1
 * @event:  WAIT: the event waited for; COMPUTE and copies: the event signalled; -1
 * @reason: row of the reason table; -1
 * @codec:  copies: how the bytes are packed in the slot, numbered from 1; 0: as they are
 * @off:    PLACE, RELEASE, copies: offset in the arena
 * @slot:   copies: offset in the tier; in the input tier 0 is the image, 1 the labels
 * @bytes:  of the tensor
 * @stored: copies to and from a tier: bytes of the slot; otherwise 0
 */
typedef struct dt_row {
    uint16_t kind;
    uint8_t stream, tier;
    int32_t op, tensor, over, event, reason;
    int32_t codec;
    uint64_t off, slot, bytes, stored;
} dt_row;

/* A tensor of the plan. Persistent ones are at home, whole, before and after a run. tier:
 * DT_AT_DEVICE: home is a place in the arena, where it lies for ever. Otherwise home is a slot of
 * that tier: it is placed, copied in, copied out if it was changed, and released, as transients
 * are. next: the slot to which it is copied out, and from which it is read in this plan after that;
 * home itself, but for tensors of two generations. One whose slot lies within that of another is a
 * part of it, which stands for the other in this plan. */
typedef struct dt_plan_tensor {
    char name[DT_TENSOR_NAME_BYTES];
    uint16_t role;
    bool persistent;
    uint64_t bytes, home, next;
    uint8_t tier;
} dt_plan_tensor;

/* Whether it lies in the arena from the start to the end. */
static inline bool dt_plan_resident(const dt_plan_tensor *t)
{
    return t->persistent && t->tier == DT_AT_DEVICE;
}

/* Bytes [from, to) of a tensor that an op reads, writes or updates. */
typedef struct dt_plan_arg {
    int32_t tensor;
    uint8_t mode; /* DT_READ, DT_WRITE, DT_UPDATES */
    uint8_t port; /* DT_X ... DT_WORK; DT_PORTS where an op names no kernel */
    uint64_t from, to;
} dt_plan_arg;

enum { DT_LAYER_NAME_BYTES = 32, DT_REFUSAL_BYTES = 192 };

/* A rung of the ladder that the plan's policy is of, which did not fit, and why. */
typedef struct dt_plan_refusal {
    char policy[DT_NAME_BYTES], algorithms[DT_LAYER_NAME_BYTES], why[DT_REFUSAL_BYTES];
} dt_plan_refusal;

/* A layer whose ops the plan runs: its name in the network, and its options as the text of its node
 * has them, from byte @opts of the plan's text on, ended by NUL. @work: its arithmetic, which the
 * text of a plan does not tell: DT_WORK_MATRIX until dt_plan_suits has seen the network. */
typedef struct dt_plan_node {
    char name[DT_NAME_BYTES];
    size_t opts;
    dt_work work;
} dt_plan_node;

/**
 * struct dt_plan_op - an op of the plan: op i is the i-th op with a kernel in its program's order.
 * @kind:   dt_op_kind
 * @first @n: its arguments are arg[first .. first + n)
 * @safe:   which written tensor may lie over which read one
 * @layer:  whose kernel runs: a layer, the optimizer, sum, codec; "": not said, and then nothing
 *          below is, and the plan cannot be run
 * @node:   row of the table of nodes; -1 for ops that belong to no layer
 * @form @alt @dtype @needs_dx @vector @count: see dt_call
 * @on_host: of the tensors that it touches, those that live on the host stay there. For a device
 *          whose memory the processor does not reach, all of them do, and its row stands on the
 *          host's stream
 * @n0 @n1: samples it works on
 * @codec @packed: how it packs, numbered from 1 (0: not at all), and the bytes of what is packed
 * @limit:  most bytes of its algorithm, see dt_call; DT_LIMIT_ANY: the fastest
 * @algorithm @work: where a device has several for it and the limit chooses: the one this plan is
 *          for, and the scratch that it wants; otherwise algorithm is empty
 */
typedef struct dt_plan_op {
    char name[DT_TENSOR_NAME_BYTES];
    uint16_t kind;
    int32_t first, n;
    int32_t n_safe;
    struct {
        int32_t out, in;
    } safe[DT_MAX_OVER];
    double flops;
    char layer[DT_LAYER_NAME_BYTES];
    int32_t node;
    uint8_t form, alt, dtype;
    bool needs_dx, vector, on_host;
    int32_t codec;
    uint64_t packed;
    int64_t n0, n1, count;
    uint64_t limit;
    char algorithm[DT_IMPL_BYTES];
    uint64_t work;
} dt_plan_op;

/* Whether the op reaches a tensor in the slot where that lives. */
static inline bool dt_plan_in_slot(const dt_plan_op *op, const dt_plan_tensor *t)
{
    return op->on_host && t->persistent && t->tier == DT_TIER_HOST;
}

/**
 * struct dt_plan - a plan.
 * @batch:   samples
 * @home_n:  micro-batch of training, which fixed the layouts of parameters
 * @threads: of the processor's team, which its scratch is for; 0 on other devices
 * @refused: rungs of its policy's ladder, if that is one, in the order in which they were tried
 * @line:    by row, the line of the text that it was read from; NULL: it was read from none
 */
typedef struct dt_plan {
    char net[DT_NAME_BYTES], policy[DT_NAME_BYTES], pool[32], device[16], program[16];
    int64_t batch, home_n;
    int32_t threads;
    uint64_t budget;              /* of the arena, by whoever wrote the plan; 0: none, as in ours */
    uint64_t persistent;          /* bytes of the map at the bottom of the arena */
    uint64_t peak, bound;         /* end of the highest tensor; lower bound of any placement */
    uint64_t tier_peak[DT_TIERS]; /* bytes of the tiers; the input has none */
    uint64_t out_bytes, in_bytes; /* moved in a run; fetches of input count as in */
    int32_t n_event;
    int32_t n_stream;
    dt_stream stream[DT_MAX_STREAMS];
    size_t n_refused;
    dt_plan_refusal *refused;
    size_t n_node, n_text, n_tensor, n_op, n_arg, n_row, n_reason;
    dt_plan_node *node;
    char *text; /* n_text bytes: what nodes point into, each ended by NUL */
    dt_plan_tensor *tensor;
    dt_plan_op *op;
    dt_plan_arg *arg;
    dt_row *row;
    size_t *line;
    char (*reason)[DT_REASON_BYTES];
} dt_plan;

void dt_plan_destroy(dt_plan *p);

/* The usual streams: what computes, copies to and from the host and the disk, and what the host's
 * processor computes for a device. They stand so in tables of costs, which a machine has for no
 * others. */
typedef enum dt_usual_stream {
    DT_USUAL_COMPUTE,
    DT_USUAL_OUT,
    DT_USUAL_IN,
    DT_USUAL_WRITE,
    DT_USUAL_READ,
    DT_USUAL_HOST,
    DT_USUAL_STREAMS
} dt_usual_stream;

/* Fill the table of a plan with them; how many. @host: the last one, too. */
int dt_usual_streams(dt_stream to[DT_MAX_STREAMS], bool host);
/* Which of them has this one's kind and tier; -1: none. */
int dt_usual_stream_of(const dt_stream *s);
/* What traces call it: compute, or host where its processor computes for a device; out and in of
 * the host, write and read of the disk. */
const char *dt_stream_name(const dt_stream *s);

/* The first stream of a kind and tier; -1: the plan has none. */
int dt_plan_stream(const dt_plan *p, dt_stream_kind kind, int tier);

/* Whether the host's processor makes the op beside the plan's device. */
static inline bool dt_plan_beside(const dt_plan *p, const dt_plan_op *op)
{
    return op->on_host && dt_plan_stream(p, DT_STREAM_COMPUTE, DT_TIER_HOST) >= 0;
}

/* The program that the plan is of; -1 where its name is of none. */
int dt_plan_kind(const dt_plan *p);

/* Whether both have the same rows. */
bool dt_plan_same_rows(const dt_plan *a, const dt_plan *b);

#endif
