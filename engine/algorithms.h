/* The algorithms with which a device can compute an op: several, where the faster one takes more
 * bytes. Which one is taken is fixed for a whole run, before any program is built: a table holds
 * the most bytes that the algorithm of each op may take, and each op takes the fastest within its
 * limit. So every program, recompute and policy of a run computes the same bits. Where the bytes of
 * an algorithm go by the samples, a rest of fewer may be computed by another. */
#ifndef DT_ENGINE_ALGORITHMS_H
#define DT_ENGINE_ALGORITHMS_H

#include <stddef.h>

#include "engine/layer.h"

enum { DT_MAX_ALGORITHMS = 8, DT_IMPL_BYTES = 48 };

/* A workspace limit is in bytes; these two are not. */
enum { DT_LIMIT_ANY = 0, DT_LIMIT_LEAST = 1 };

/**
 * struct dt_algorithms - the algorithms of an op, the fastest first, as the device expects; each
 * takes fewer bytes than the one before it.
 * @n:     0: there is no choice
 * @impl:  the library's name
 * @bytes: all that lives only for it, while the op runs: scratch, and the weight or its gradient
 * in another layout
 */
typedef struct dt_algorithms {
    int n;
    struct {
        char impl[DT_IMPL_BYTES];
        size_t bytes;
    } algorithm[DT_MAX_ALGORITHMS];
} dt_algorithms;

/* Add one that is slower than all before it; one that takes no fewer bytes is left out. When the
 * list is full, it takes the last one's place. */
void dt_algorithms_add(dt_algorithms *a, const char *impl, size_t bytes);

/* The fastest one within @limit, or the one of the fewest bytes when none is; a->n > 0. */
int dti_algorithms_within(const dt_algorithms *a, size_t limit);

/* Forward, backward, second backward: which limit of its node an op of this form goes by. Ops that
 * make the weight's layouts go with those that read them. */
int dt_form_direction(dt_form_kind form);
/* The form that stands for all of a direction. */
dt_form_kind dti_direction_form(int direction);

/**
 * struct dt_algorithm_table - which algorithm each op of a network takes.
 * @n:     nodes of the graph
 * @limit: by node and direction: the most bytes that its algorithm may take
 *
 * A NULL table stands for one that limits nothing.
 */
typedef struct dt_algorithm_table {
    size_t n;
    size_t (*limit)[DT_DIRECTIONS];
} dt_algorithm_table;

/* One limit for all: DT_LIMIT_ANY takes the fastest algorithms, DT_LIMIT_LEAST the smallest.
 * DT_E_NOMEM. A zeroed table may be released, too. */
dt_status dt_algorithm_table_init(
    dt_algorithm_table *t, size_t n_node, size_t limit, dt_err *err) DT_NODISCARD;
void dt_algorithm_table_set(dt_algorithm_table *t, size_t limit);
void dt_algorithm_table_deinit(dt_algorithm_table *t);

static inline size_t dti_workspace_limit(
    const dt_algorithm_table *t, int32_t node, dt_form_kind form)
{
    return t != NULL ? t->limit[node][dt_form_direction(form)] : (size_t)DT_LIMIT_ANY;
}

#endif
