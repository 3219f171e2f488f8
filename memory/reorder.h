/* Another order of a program's ops that computes the same bits: what each op reads is made by the
 * same op as before, so only the times change at which values are alive. */
#ifndef DT_MEMORY_REORDER_H
#define DT_MEMORY_REORDER_H

#include "engine/program/program.h"

/**
 * struct dti_dependences - which places of a program's order stay behind which.
 * @n:     places
 * @first: n + 1 of them; @after: [first[k], first[k + 1]) the later places that depend on place k,
 * rising, some perhaps twice
 *
 * An op stays behind the last one that wrote what it reads or writes, and, if it writes, behind
 * those that read it since. That fixes in which order gradients are added. Ops of forward stay
 * before the loss and those of backward behind it; updates keep their order among each other, by
 * which a norm is summed; and inputs are fetched where they were.
 */
typedef struct dti_dependences {
    size_t n;
    int32_t *first, *after;
} dti_dependences;

/* Of a program with a fresh index that has neither copies nor recomputes, whose places are told by
 * others: DT_E_CONFIG otherwise; DT_E_NOMEM. Release even after a failure. */
dt_status dti_dependences_open(dti_dependences *d, const dt_program *p, dt_err *err) DT_NODISCARD;
void dti_dependences_close(dti_dependences *d);

/* For tests: whether n numbers are an order, each place once, behind those that it depends on.
 * @seen: room for n. */
bool dti_dependences_keep(const dti_dependences *d, const int32_t *order, bool *seen);

/* Give the ops of a program this order, which keeps its dependences. DT_E_NOMEM. */
dt_status dti_reorder(dt_program *p, const int32_t *order, dt_err *err) DT_NODISCARD;

#endif
