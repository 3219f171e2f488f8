/* What policies are made of: the gaps of a program, and the rewrites that set a gap's fate. Setting
 * a fate rewrites the program at once, so whoever looks next sees what is left. */
#ifndef DT_MEMORY_PASS_H
#define DT_MEMORY_PASS_H

#include "engine/plan.h"
#include "engine/program/saved.h"
#include "memory/codec.h"

/**
 * struct dti_gap - two consecutive accesses of a transient tensor with other ops between them,
 * during which its bytes lie idle.
 * @tensor: which
 * @from @to: ops before and after; @from_pos @to_pos their places in the order
 * @crosses_loss: from forward to backward
 * @reason: why its fate is set, a number of the program's reasons, which all ops bear that set it;
 * 0 when it is found: whoever sets a fate says why
 */
typedef struct dti_gap {
    int32_t tensor, from, to, from_pos, to_pos;
    bool crosses_loss;
    int32_t reason;
} dti_gap;

/* What becomes of a gap's bytes where searches choose. To encode, the fourth fate, is not among
 * them: passes set it. Files of auto's plans hold the numbers of these. */
typedef enum dti_fate { DTI_KEEP, DTI_RECOMPUTE, DTI_OFFLOAD, DTI_FATES } dti_fate;

/* Gaps of one tensor: the first at or after access number *i, which moves on. False when there are
 * no more. A pinned tensor shows none: the configuration has set them, and no rewrite below touches
 * them. Nor does one in a group: its bytes are taken all along, and no fate would free them. The
 * program's index must be fresh. */
bool dti_gap_next(const dt_program *p, int32_t tensor, int32_t *i, dti_gap *g);

/* Whether moving a tensor may free bytes, and at least so many: in a group they are taken all
 * along. */
bool dti_may_free(const dt_tensor *t, uint64_t least);

/* The same gap with the places that its ops have by now, where others were put in since it was
 * found. */
dti_gap dti_gap_now(const dt_program *p, dti_gap g);

/* The gap of a tensor that crosses the loss, of which it has one or none: false. */
bool dti_gap_crossing(const dt_program *p, int32_t tensor, dti_gap *g);

/* The op that brings the bytes of a tensor that are alive at place pos: its producer, or the copy
 * that brought them back. DT_NONE for persistent tensors. */
int32_t dti_definition(const dt_program *p, int32_t tensor, int32_t pos);

/* The place of its first access behind that place; that place itself where there is none. */
int32_t dti_next_access(const dt_program *p, int32_t tensor, int32_t pos);

/* Whether the tensor's bytes are on the device between the ops before and at place pos, as things
 * stand. */
bool dti_resident(const dt_program *p, int32_t tensor, int32_t pos);

/* The tensor a recompute's output stands for, itself for originals; and the op that made it first.
 */
int32_t dti_root(const dt_program *p, int32_t tensor);
int32_t dti_producer(const dt_program *p, int32_t tensor); /* DT_NONE for persistent tensors */
const dt_form *dti_recompute_form(
    const dt_op *op, dt_form_kind *kind); /* the form a recompute of it runs */
bool dti_recompute_reads(
    const dt_operand *a, const dt_form *f); /* whether that form reads an operand of the op */
static inline bool dti_is_stash(int port)
{
    return port >= DT_S && port < DT_S + DT_MAX_STASH;
}

/* DT_E_NOMEM, of a policy. */
dt_status dti_pass_no_memory(dt_err *err) DT_NODISCARD;

/* The order of the ops as it is, for who puts others between them. NULL: no memory; the caller
 * frees it. */
int32_t *dti_order_copy(const dt_program *p) DT_NODISCARD;

/* Whether forward may be run again to make this tensor: its producer is repeatable and its
 * recompute form writes it. */
bool dti_repeatable(const dt_program *p, int32_t tensor);

/* Whether a node's output holds many zeros: that of ReLU, of dropout and pools behind it. */
bool dti_often_zero(const dt_program *p, int32_t node);

/**
 * struct dti_offload_opt - how to offload.
 * @release_after: op after which the device bytes are given back; DT_NONE: as soon as the copy is
 * done
 * @fetch_before:  op before which they come back; DT_NONE: right before the reader
 * @join_before:   the copy back begins no sooner than the op before which it stands, and is awaited
 * before this one; 0: it begins when its bytes are free, and its first reader waits
 * @tier:          where to; DT_TIER_INPUT: lowering decides, by the budgets of the tiers
 * @codec @density: pack on the way (NULL: do not), with room for this share of values that are not
 * zero; what is no larger than the header of packed values moves as it is
 * @most: room for no more than so many packed bytes, whatever the density; 0: any. What certainly
 * takes more moves as it is
 */
typedef struct dti_offload_opt {
    int32_t release_after, fetch_before, join_before;
    dt_tier tier;
    const dt_codec *codec;
    double density;
    size_t most;
} dti_offload_opt;

/* OFFLOAD: copy the tensor to a tier after the gap begins and back before it ends. An input is not
 * copied out: it is fetched again. DT_E_CONFIG when the gap cannot be offloaded; a pinned one is
 * left as it is. */
dt_status dti_offload(
    dt_program *p, const dti_gap *g, const dti_offload_opt *o, dt_err *err) DT_NODISCARD;

/* Several at once. A program is counted anew behind each dti_offload, which thousands of them on
 * thousands of ops would do for most of their time; these are listed first, while the program and
 * its places stay as they are, and then put in together. What comes of it is the same. */
typedef struct dti_copy_put {
    dt_op op;
    int32_t at; /* the op before which it is put, or behind which */
    bool behind;
} dti_copy_put;

typedef struct dti_offloads {
    dti_copy_put *put;
    size_t n, cap;
} dti_offloads;

/* As dti_offload, which may not be called meanwhile. */
dt_status dti_offloads_add(dti_offloads *all, dt_program *p, const dti_gap *g,
    const dti_offload_opt *o, dt_err *err) DT_NODISCARD;
/* Puts all of them in, unless @st is a failure, which is returned; the list is released. */
dt_status dti_offloads_end(
    dti_offloads *all, dt_program *p, dt_status st, dt_err *err) DT_NODISCARD;

/* Drop the input between forward and backward and fetch it again: nothing is cheaper to have than
 * the picture, which waits in the decoded batch. */
dt_status dti_fetch_again(dt_program *p, dt_err *err) DT_NODISCARD;

/* Whether the tensor is an activation, and no input, statistics or mask, whose bytes are 32-bit
 * words, which codecs pack. Exact codecs look at words alone, so they pack bf16 too, where a word
 * is two values and is left out when both are zero. Lossy ones round fp32 values: dti_offload and
 * dti_encode leave bf16 values as they are. */
bool dt_packs(const dt_tensor *t);

/* ENCODE: pack the tensor right after the gap begins and unpack it right before it ends; in between
 * lies the packed tensor, *packed (DT_NONE when nothing was done), which has gaps of its own. Room
 * is made for the share @density of values that are not zero; an encoder that needs more says so
 * while it runs, and the step is done again without. Nothing is done when the packed bytes would be
 * no fewer, the codec does not suit the values, or the gap is pinned. DT_E_CONFIG for what dt_packs
 * refuses. */
dt_status dti_encode(dt_program *p, const dti_gap *g, const dt_codec *codec, double density,
    int32_t *packed, dt_err *err) DT_NODISCARD;

/* RECOMPUTE: recomputes right before the gap's end, back to what is resident there. @dropped (by
 * tensor, or NULL) are values that are not to be kept for this: recomputes go through them even
 * when keeping would do; others not resident are kept when @dropped is given, and recomputed when
 * it is NULL. Readers from the gap's end on use the recompute's output. What is pinned to be kept
 * is kept for recomputes too; a pinned gap is left as it is. */
dt_status dti_recompute(
    dt_program *p, const dti_gap *g, const bool *dropped, dt_err *err) DT_NODISCARD;

/**
 * struct dti_remakes - many such requests on one program, which share what they know of it.
 * @p @dropped: as above, of the tensors that there are when it is opened
 * @absent: with @dropped, what is not resident at a request's place is dropped as well
 * The rest is recompute.c's own: a table by tensor, of n_v so far; and of the request at hand its
 * place, what it makes again, who reads that, and where it wrote into the table.
 */
typedef struct dti_remakes {
    dt_program *p;
    const bool *dropped;
    bool absent;
    int32_t reason, pos;
    struct dti_remade *v;
    int32_t *todo, *written;
    size_t n_v, cap, n_todo, n_written, n_reader;
    struct dti_remade_reader *reader;
} dti_remakes;

/* Close it even after a failure. DT_E_NOMEM. */
dt_status dti_remakes_open(
    dti_remakes *r, dt_program *p, const bool *dropped, bool absent, dt_err *err) DT_NODISCARD;
/* Several values at once, at one place. @version: in the order of forward, each with an access
 * before the op @before, and of each value the tensor that is read from there on. */
dt_status dti_remakes_before(dti_remakes *r, int32_t before, const int32_t *version, size_t n,
    int32_t reason, dt_err *err) DT_NODISCARD;
/* Pins a value: it and all its recomputes. */
dt_status dti_remakes_pin(dti_remakes *r, int32_t root, dt_pin to, dt_err *err) DT_NODISCARD;
void dti_remakes_close(dti_remakes *r);

/* Choose what a node's backward reads; its ops bear the reason. Where the configuration or a policy
 * before this one has settled fates of its values, a node keeps the alternative that it has. */
dt_status dti_choose(
    dt_program *p, int32_t node, int alt, int32_t reason, dt_err *err) DT_NODISCARD;

/**
 * struct dti_choices - a program of which that is chosen for many nodes, while its order stays.
 * @first: by node, its first op in the order, counted from 1; 0: there is none
 * @next:  by op, the next one of its node
 * @waits: by tensor of the n_tensor there were: it moves or is packed until backward
 */
typedef struct dti_choices {
    dt_program *p;
    size_t n_tensor;
    int32_t *first, *next;
    bool *waits;
} dti_choices;

/* Close it even after a failure. DT_E_NOMEM. */
dt_status dti_choices_open(dti_choices *c, dt_program *p, dt_err *err) DT_NODISCARD;
dt_status dti_choices_take(
    dti_choices *c, int32_t node, int alt, int32_t reason, dt_err *err) DT_NODISCARD;
void dti_choices_close(dti_choices *c);

/* The same of every node for whose layer @alternative gives one, and not -1. */
dt_status dti_choose_each(dt_program *p, int (*alternative)(const dt_layer_desc *d), int32_t reason,
    dt_err *err) DT_NODISCARD;
/* The same of every node whose backward can do without values. */
dt_status dti_choose_value_free(dt_program *p, dt_err *err) DT_NODISCARD;

/* Split an op over the batch into pieces with the same bits. DT_E_CONFIG when it cannot be. */
dt_status dti_split(dt_program *p, int32_t op, int pieces, dt_err *err) DT_NODISCARD;

#endif
