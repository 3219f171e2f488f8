/* Accounts: how papers count memory where they do not count as our plans do, because they leave
 * layers out of place, group what shares bytes, or keep what ours lets go. An account looks at a
 * network and says the paper's figures; nothing of it is ever run.
 *
 * One file each in memory/accounts/, ending in a descriptor; accounts.def holds a line an account.
 */
#ifndef DT_MEMORY_ACCOUNTS_ACCOUNT_H
#define DT_MEMORY_ACCOUNTS_ACCOUNT_H

#include "engine/graph.h"

/* One number of an account. @unit: "MiB", "samples" ...; "": a plain number. */
typedef struct dt_account_figure {
    const char *name, *unit, *meaning;
} dt_account_figure;

/**
 * struct dt_account_ask - what is counted.
 * @batch:   samples of a step
 * @budget:  bytes of the device; 0: none is given
 * @host:    bytes of the host; 0: none is given
 * @workspace: bytes of the largest workspace where the fastest algorithms are taken
 * @density: share of the values behind a ReLU that are not zero
 * @figure:  the only one that is asked for, the others may stay as they are; DT_ACCOUNT_ALL
 */
typedef struct dt_account_ask {
    int64_t batch;
    uint64_t budget, host, workspace;
    double density;
    int figure;
} dt_account_ask;

enum { DT_ACCOUNT_FIGURES = 24, DT_ACCOUNT_ALL = -1 };

/**
 * struct dt_account_desc - an account.
 * @name @summary: as in the INI file and in `dnntrain list accounts`
 * @figure: n of them, at most DT_ACCOUNT_FIGURES
 * @count: fill in the value of each, NaN where what it is of was not given or its rule leads to
 * none. DT_E_CONFIG names what the paper's rules say nothing of, a layer or a budget that is
 * missing; DT_E_NOMEM
 */
typedef struct dt_account_desc {
    const char *name, *summary;
    size_t n;
    const dt_account_figure *figure;
    dt_status (*count)(const dt_graph *g, const dt_account_ask *ask, double *value, dt_err *err);
} dt_account_desc;

const dt_account_desc *const *dt_account_all(size_t *n);
const dt_account_desc *dt_account_find(const char *name); /* NULL if unknown */
const char *const *dt_account_names(void);                /* NULL-terminated, for dt_unknown */

/* DT_E_CONFIG: the node has another layer fused into it, which no account counts. */
dt_status dti_account_fused(const dt_node *nd, dt_err *err) DT_NODISCARD;

#endif
