/* vDNN's moves, for the policies that are vDNN and those that add to it. */
#ifndef DT_MEMORY_POLICIES_VDNN_PASS_H
#define DT_MEMORY_POLICIES_VDNN_PASS_H

#include "memory/policy.h"

/* What moves of the feature extractor: inputs of convolutions, as vdnn_conv has it; those of pools
 * as well; or, as vdnn_all has it, whatever its layers leave for backward. */
typedef enum dti_vdnn_moves { DTI_VDNN_CONV, DTI_VDNN_INPUTS, DTI_VDNN_ALL } dti_vdnn_moves;

/* When a value that was fetched back is waited for: by its first reader, or at the end of the layer
 * that it is fetched beside. */
typedef enum dti_vdnn_join { DTI_VDNN_READER, DTI_VDNN_LAYER } dti_vdnn_join;

/**
 * struct dti_vdnn_opts - which moves, and how.
 * @codec: packs fp32 values on the way; NULL: none does
 * @density: share of values not zero to make room for, where @env knows none
 * @every: pack what moves even where nothing says that it has zeros
 * @choose @self: in place of @codec: what packs a tensor, and the density to make room for; NULL:
 * it moves as it is
 * @join: a prefetch begins and ends with a layer
 * @slots: with @codec: room for packed values grows by so many equal parts of the tensor; 0: by any
 */
typedef struct dti_vdnn_opts {
    const dt_pass_env *env;
    dti_vdnn_moves moves;
    const dt_codec *codec;
    double density;
    bool every, join;
    const dt_codec *(*choose)(const void *self, int32_t tensor, double *density);
    const void *self;
    int slots;
} dti_vdnn_opts;

/* [policy.vdnn_conv] and [policy.vdnn_all], which has @values as well. */
typedef struct dti_vdnn_section {
    int join, values;
} dti_vdnn_section;
extern const char *const dti_vdnn_joins[];
#define DTI_VDNN_JOIN_HELP                                                                         \
    "reader: a value is fetched back as soon as there is space, and only its first reader waits "  \
    "for it; layer: it is fetched beside one layer, which ends only when it is back, as in the "   \
    "paper"
#define DTI_VDNN_JOIN                                                                              \
    {                                                                                              \
        "join", DT_OPT_ENUM, offsetof(dti_vdnn_section, join), "reader", 0, 0, dti_vdnn_joins,     \
            NULL, DTI_VDNN_JOIN_HELP                                                               \
    }

/* Whether the policy's own section says join = layer. */
bool dti_vdnn_joins_layers(const dt_pass_env *e);

/* The density for which there is room in whole slots, of which one more is open than values fill;
 * at most 1. */
double dti_vdnn_slots(double density, int slots);

dt_status dti_vdnn_pass(dt_program *p, const dti_vdnn_opts *o, dt_err *err) DT_NODISCARD;

#endif
