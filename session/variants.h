/* Variants of a configuration: the product of the values that some of its keys take, each a session
 * of its own. */
#ifndef DT_SESSION_VARIANTS_H
#define DT_SESSION_VARIANTS_H

#include "session/session.h"

enum { DT_VARIED_KEYS = 16, DT_VARIANT_ROWS = 512 };

/**
 * struct dt_varied - a key and the values that it takes in turn.
 * @section @key: as in "memory" and "pool"
 * @name:  both, with a dot between
 * @value: of which there are @n, each once
 */
typedef struct dt_varied {
    const char *name, *section, *key;
    size_t n;
    const char **value;
} dt_varied;

typedef struct dt_vary {
    size_t n;
    dt_varied key[DT_VARIED_KEYS];
} dt_vary;

/**
 * struct dt_variant - a configuration.
 * @value:   by key, which of its values it has; below 0: the key does not matter to what is planned
 *           of it, and is as the file and --set say
 * @session: NULL: it was refused. Entered by nobody
 * @status @refused: why; owned
 * @group:   from 0; exact plans of a group train the same bits on one machine, and their seconds go
 *           by the same costs
 */
typedef struct dt_variant {
    int value[DT_VARIED_KEYS];
    dt_session *session;
    dt_status status;
    char *refused;
    size_t group;
} dt_variant;

/* What is planned of a variant: a list of policies, by its number. */
typedef struct dt_variant_list {
    size_t list, variant;
} dt_variant_list;

/**
 * struct dt_variants - all of them.
 * @keys:  what they differ in; borrowed
 * @matters: by list, a bit for each key that does
 * @pair:  what there is to plan: each list with all variants that differ for it. Options of a
 * policy
 *         ([policy.NAME]) matter to lists that come to that policy and to no others
 */
typedef struct dt_variants {
    const dt_vary *keys;
    size_t n, cap, n_pair, cap_pair, n_group;
    uint32_t *matters;
    dt_variant *variant;
    dt_variant_list *pair;
} dt_variants;

/* What sessions are opened of: see dti_session_open_for. */
typedef struct dt_variants_of {
    const char *path;
    const char *const *sets;
    size_t n_sets;
    const char *const *lists;
    size_t n_lists;
} dt_variants_of;

/* All variants of a configuration, opened. DT_E_CONFIG when there are more than DT_VARIANT_ROWS
 * pairs, before anything is opened; when a key belongs to a policy that is in none of the lists;
 * and, with what was wrong with the first, when all that a key takes part in is refused, which a
 * mistake in its name does. Other variants that are refused have @refused. Release with
 * dti_variants_close even after a failure. */
dt_status dt_variants_open(
    dt_variants *out, const dt_vary *keys, const dt_variants_of *of, dt_err *err) DT_NODISCARD;
void dti_variants_close(dt_variants *v);

/* The variant with the values of @variant in the keys that matter to list @list. */
size_t dti_variants_for(const dt_variants *v, size_t variant, size_t list);

/* "train.precision = bf16, memory.pool = greedy"; "" of one that has no values. Returns @to. */
const char *dt_variant_text(const dt_vary *keys, const dt_variant *v, char *to, size_t bytes);

#endif
