/* The persistent map: every tensor that outlives a step (parameters, gradients, optimizer state,
 * buffers, the pending copies of running statistics, metrics), with its fixed place: at the bottom
 * of the arena, or at the bottom of a tier. What lives in a tier is on the device only while ops of
 * a program need it. All programs of a run share the map: tensor i of a program, for i < n, is
 * entry i of the map. */
#ifndef DT_ENGINE_MAP_H
#define DT_ENGINE_MAP_H

#include "engine/context.h"
#include "engine/tier.h"

enum { DT_TENSOR_NAME_BYTES = DT_NAME_BYTES + 32, DT_ALIGN = 64 };

/* What a tensor is for; the rows of every breakdown. */
#define DT_ROLES(X)                                                                                \
    X(INPUT, "input")                                                                              \
    X(WEIGHTS, "weights")                                                                          \
    X(GRADIENTS, "gradients")                                                                      \
    X(OPTIMIZER, "optimizer")                                                                      \
    X(BUFFERS, "buffers")                                                                          \
    X(ACTIVATIONS, "activations")                                                                  \
    X(ACTIVATION_GRADIENTS, "activation_gradients")                                                \
    X(STASH, "stash")                                                                              \
    X(DERIVED, "derived")                                                                          \
    X(WORKSPACE, "workspace")

typedef enum dt_role {
#define DT_ROLE_ENUM(id, text) DT_ROLE_##id,
    DT_ROLES(DT_ROLE_ENUM)
#undef DT_ROLE_ENUM
        DT_ROLE_COUNT
} dt_role;

const char *dt_role_name(dt_role r);
int dt_role_find(const char *name); /* -1 if unknown */

/* How values are stored: in fp32, or in 8 bits, as two tensors (engine/state_codes.h). */
typedef enum dt_store { DT_STORE_F32, DT_STORE_CODES, DT_STORE_SCALES } dt_store;

/* One persistent tensor. node and param say whose it is; port tells parameter (DT_P), gradient
 * (DT_DP), pending copy (DT_Q), optimizer state (DT_M) and metrics apart. The scales of a
 * moment that is stored as codes are an entry of their own, DTI_SCALES_OF its port. tier:
 * DT_AT_DEVICE, DT_TIER_HOST or DT_TIER_DISK; off: its place in the arena, or its slot in the tier;
 * next: the slot of its next generation, to which a step writes what the steps after it read: off
 * itself where there is but one. param_bytes: of its parameter, whatever is beside it takes.
 * frozen: of a layer that stays as it is, so that no program writes it. */
typedef struct dt_home {
    char name[DT_TENSOR_NAME_BYTES];
    dt_role role;
    size_t bytes, param_bytes, off, next;
    int32_t node, param;
    dt_port port;
    dt_store store;
    dt_tier tier;
    bool frozen;
} dt_home;

/* Bytes of the first @n values that a tensor stored so holds, or has the scales of. Where n is no
 * multiple of a block and not all, they reach into that of the next value. */
size_t dt_stored_bytes(dt_store store, int64_t n);

typedef struct dt_map {
    size_t n, cap;
    dt_home *home;               /* in the order of nodes, then parameters; then what is nobody's */
    size_t bytes;                /* of all on the device, each rounded up to DT_ALIGN */
    size_t tier_bytes[DT_TIERS]; /* the same of those in a tier, rounded up to its alignment */
    bool early;                  /* a parameter is updated once its gradient is whole */
    bool loose;     /* no gradient lives on: each is a value of the program that updates early */
    bool two;       /* what steps change and the disk holds has two generations there */
    uint64_t slice; /* most bytes of a tensor in a tier that an update brings at once, a multiple of
                       DT_PART_UNIT, of one whose moments are in 8 bits of four; 0: any, whole */
    int64_t delayed_from;  /* from this step on updates take the gradients of the step before, so
                              that on the host these have two generations; below 0: none does */
    dt_device_kind device; /* that computes on it */
    int32_t metrics;       /* their entry */
    int64_t home_n;        /* micro-batch of training, which fixed the layouts */
    int threads; /* of the processor's team, which fixed them as well; 0 on other devices */
} dt_map;

/**
 * dt_map_create() - lay out what persists for a network.
 * @context: its device decides the layouts, and so the bytes, of parameters
 * @home_n: micro-batch of training
 * @state:  optimizer state tensors a parameter has (SGD with momentum: 1)
 */
dt_status dt_map_create(dt_map **out, const dt_graph *g, const dt_context *context, int64_t home_n,
    int state, dt_err *err) DT_NODISCARD;
void dt_map_destroy(dt_map *m);

/* Updates are early. @loose: gradients are left out; else they have homes, to which each goes for
 * its update. Before homes are given. */
dt_status dt_map_update_early(dt_map *m, bool loose, dt_err *err) DT_NODISCARD;

/* Moments of parameters of DT_STATE_LEAST values and more are stored in 8 bits. Before homes are
 * given. */
dt_status dt_map_pack_moments(dt_map *m, const dt_graph *g, dt_err *err) DT_NODISCARD;

/* Give every entry a home, by its number in @tier, and lay out all anew, as @two and delayed_from
 * say. Metrics stay on the device. DT_E_CONFIG when a tier would be too large. */
dt_status dt_map_settle(dt_map *m, const dt_tier *tier, bool two, dt_err *err) DT_NODISCARD;

/* Whether a step that fails, wherever it does, leaves all as it was before: what its updates write
 * is the next generation, beside the current one. Else, in *why, an entry that it may spoil; NULL:
 * nobody asks. What only the end of a step changes, and no disk can fail at, needs no second one.
 */
bool dt_map_undoes(const dt_map *m, int32_t *why);

/* Whether all parameters that steps change, gradients and optimizer state live on the host. */
bool dt_map_all_on_host(const dt_map *m);

/* The entry whose slot in @tier holds these bytes of it, whole or a part; -1 if there is none. Its
 * other generation is @next - @off further on. */
int32_t dti_map_holds(const dt_map *m, int tier, uint64_t off, uint64_t next, uint64_t bytes);

/* Whether some updates take the gradients of the step before. */
static inline bool dt_map_delays(const dt_map *m)
{
    return m->delayed_from >= 0;
}

/* Whether gradients of the step before wait for their update when @step begins. */
static inline bool dt_map_waits(const dt_map *m, int64_t step)
{
    return dt_map_delays(m) && step > m->delayed_from;
}

/* Entry of a node's parameter for a port (DT_P, DT_DP, DT_Q, DT_M + k); -1 if there is none. */
int32_t dti_map_find(const dt_map *m, int32_t node, int param, dt_port port);

#endif
