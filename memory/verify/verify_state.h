/* The verifier's own picture of a run: the arena, the slots, and what each stream knows to be
 * complete. It shares no code with lowering. Used by memory/verify*.c alone. */
#ifndef DT_MEMORY_VERIFY_VERIFY_STATE_H
#define DT_MEMORY_VERIFY_VERIFY_STATE_H

#include "memory/verify/verify.h"

typedef struct dti_clock {
    int32_t
        at[DT_MAX_STREAMS]; /* rows of each stream known to be complete; row i counts as i + 1 */
} dti_clock;

typedef struct dti_holding {
    bool live, started; /* started: something has written here since it was placed */
    uint32_t version;   /* how often ops have changed the tensor so far, wherever it lay */
    uint64_t off, filled;
    dti_clock read, write; /* the last of each */
    dti_clock before;      /* what used the bytes before it was placed */
} dti_holding;

/* Bytes of the arena: whose they are now, and all uses of them before that. */
typedef struct dti_stretch {
    uint64_t from, to;
    int32_t owner; /* -1: nobody's */
    dti_clock used;
} dti_stretch;

typedef struct dti_saved {
    uint64_t from, to;
    uint8_t tier;
    int32_t tensor, codec;
    uint32_t version; /* of the tensor, when it was copied out */
    dti_clock used, written;
} dti_saved;

typedef struct dti_pending {
    int32_t tensor, under;
} dti_pending;

typedef struct dti_verifier {
    const dt_plan *p;
    dt_err *err;
    int32_t row;
    dti_clock known[DT_MAX_STREAMS];
    dti_holding *hold;
    dti_stretch *stretch; /* apart from each other; bytes of none were never used */
    int32_t *by_address;  /* stretches, the lowest first; behind them those not in use */
    dti_saved *saved;
    dti_clock *event;
    bool *signalled, *ran;
    dti_pending over[DT_MAX_OVER];
    size_t n_stretch, n_saved;
    int n_over;
    uint64_t peak, out, in;
} dti_verifier;

/* DT_E_INTERNAL with the number of the row. */
dt_status dti_refuse(dti_verifier *v, const char *fmt, ...) DT_PRINTF(2, 3);

static inline const char *dti_named(const dti_verifier *v, int32_t tensor)
{
    return v->p->tensor[tensor].name;
}

void dti_merge(dti_clock *to, const dti_clock *from);
/* Refuse the row unless its stream knows that @what of the tensor is complete. */
dt_status dti_must_know(
    dti_verifier *v, int stream, const dti_clock *need, const char *what, int32_t t);
dt_status dti_tensor_ok(dti_verifier *v, int32_t t);

/* What a row does, refused if it may not: bytes [from, to) of a tensor are written on a stream; its
 * first @to bytes are read; the row's event is signalled. */
dt_status dti_note_write(dti_verifier *v, int stream, int32_t t, uint64_t from, uint64_t to);
dt_status dti_note_read(dti_verifier *v, int stream, int32_t t, uint64_t to);
dt_status dti_note_signal(dti_verifier *v, const dt_row *r);

/* verify_space.c: addresses. Tensors placed over others since the last op are settled by the next,
 * which must be the one that makes it right. */
dt_status dti_placed(dti_verifier *v, const dt_row *r);
bool dti_is_pending(const dti_verifier *v, int32_t t);
dt_status dti_verify_place(dti_verifier *v, const dt_row *r);
dt_status dti_verify_release(dti_verifier *v, const dt_row *r);
dt_status dti_verify_settle(dti_verifier *v, const dt_plan_op *op);

/* verify_copy.c: copies, and what slots hold. */
dt_status dti_verify_copy_out(dti_verifier *v, const dt_row *r);
dt_status dti_verify_copy_in(dti_verifier *v, const dt_row *r);

#endif
