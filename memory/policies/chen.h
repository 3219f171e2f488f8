/* What the policies after Chen et al. share (Training Deep Nets with Sublinear Memory Cost,
 * arXiv:1604.06174): the values that forward may drop, where the network may be cut, algorithm 3,
 * and the rewrite. */
#ifndef DT_MEMORY_POLICIES_CHEN_H
#define DT_MEMORY_POLICIES_CHEN_H

#include "memory/pass.h"

/**
 * struct dti_chen_value - a layer's output that forward can make again and no other pass has
 * touched.
 * @tensor @op: which, and the op that makes it
 * @last_read: the last place of forward at which it is read
 * @read_back: backward reads it, so that keeping it costs what it always did
 * @split: the network may be cut here: it is read by forward after it and by backward, and nothing
 * else that forward makes before it is read after it
 */
typedef struct dti_chen_value {
    int32_t tensor, op, last_read;
    bool read_back, split;
} dti_chen_value;

/* Where a network may be cut: at split points; at any value that is read later, as if the network
 * were a line, and then what crosses the cut is kept as well (Checkmate's linearised heuristics);
 * or at any where points leave more than half of the bytes in one segment. */
typedef enum dti_chen_cuts { DTI_CHEN_AUTO, DTI_CHEN_POINTS, DTI_CHEN_LINEAR } dti_chen_cuts;
extern const char *const dti_chen_cuts_names[];

/**
 * struct dti_chen - a program that trains, as these policies see it.
 * @value:   n values, in the order of forward; none in a program without backward
 * @n_split: how many of them are split points
 * @dropped: by tensor, those of the program when it was opened: not to be kept. None at first
 * @reason:  of the same, why: a number of the program's reasons
 */
typedef struct dti_chen {
    dt_program *p; /* borrowed */
    size_t n, n_split, n_tensor;
    dti_chen_value *value;
    bool *dropped;
    int32_t *reason;
} dti_chen;

/* Operations for a value; normalising takes ten, attention hundreds. */
enum { DTI_CHEN_DEAR = 64 };

/* Whether an op of forward is dear to run again: its weight is a matrix or more, or it computes
 * more than that for each value. */
bool dti_chen_dear(const dt_program *p, int32_t op);

/* Layers of forward that read the tensor; pieces of a split op are one. */
int dti_chen_readers(const dt_program *p, int32_t tensor);

/* Cut at points. Release with dti_chen_close even after a failure. DT_E_NOMEM. */
dt_status dti_chen_open(dti_chen *c, dt_program *p, dt_err *err) DT_NODISCARD;
void dti_chen_close(dti_chen *c);

/* Cut as asked. True: cuts may be behind any value (linear). */
bool dti_chen_cut(dti_chen *c, dti_chen_cuts cuts);

/* Drop everything but the values kept (by number of the value), what is read across them, and what
 * follows the last of them, and say why. */
dt_status dti_chen_keep(dti_chen *c, const bool *keep, dt_err *err) DT_NODISCARD;

/* Rewrite: what is dropped is made again right before the first op of backward that reads it, with
 * all that is needed for that back to what is kept, and stays until its last reader. */
dt_status dti_chen_rewrite(const dti_chen *c, dt_err *err) DT_NODISCARD;

/* Algorithm 3, the memory planning with a budget. */
typedef struct dti_chen_sums {
    uint64_t kept, segment; /* bytes of what is kept (x), and of the largest closed segment (y) */
} dti_chen_sums;
dti_chen_sums dti_chen_plan(
    const uint64_t *bytes, const bool *split, size_t n, uint64_t budget, bool *keep);

#endif
