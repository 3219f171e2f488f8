/* The ops of layers without parameters, where several layers have the same. What backward reads of
 * forward's values beside these ports, a descriptor says as its alternatives. */
#ifndef DT_LAYERS_FORMS_H
#define DT_LAYERS_FORMS_H

#include "engine/layer.h"

/* dx follows from dy alone: y is linear in x. */
#define DTI_LINEAR_FORMS                                                                           \
    {                                                                                              \
        [DT_FORWARD] = {.suffix = "f",                                                             \
            .reads = DT_BIT(DT_X),                                                                 \
            .writes = DT_BIT(DT_Y),                                                                \
            .split = true},                                                                        \
        [DT_BACKWARD] = {                                                                          \
            .suffix = "b", .reads = DT_BIT(DT_DY), .writes = DT_BIT(DT_DX), .split = true},        \
    }

/* dx follows from dy and values that were saved. @stash: what forward writes for that besides y, a
 * set of ports. */
#define DTI_SAVED_FORMS(stash)                                                                     \
    {                                                                                              \
        [DT_FORWARD] = {.suffix = "f",                                                             \
            .reads = DT_BIT(DT_X),                                                                 \
            .writes = DT_BIT(DT_Y) | (stash),                                                      \
            .split = true},                                                                        \
        [DT_BACKWARD] = {.suffix = "b",                                                            \
            .reads = DT_BIT(DT_DY),                                                                \
            .writes = DT_BIT(DT_DX),                                                               \
            .saved = true,                                                                         \
            .split = true},                                                                        \
    }

/* The same, where y may take the bytes of x, and dx those of dy. */
#define DTI_IN_PLACE_FORMS(stash)                                                                  \
    {                                                                                              \
        [DT_FORWARD] = {.suffix = "f",                                                             \
            .reads = DT_BIT(DT_X),                                                                 \
            .writes = DT_BIT(DT_Y) | (stash),                                                      \
            .split = true,                                                                         \
            .n_over = 1,                                                                           \
            .over = {{DT_Y, DT_X}}},                                                               \
        [DT_BACKWARD] = {.suffix = "b",                                                            \
            .reads = DT_BIT(DT_DY),                                                                \
            .writes = DT_BIT(DT_DX),                                                               \
            .saved = true,                                                                         \
            .split = true,                                                                         \
            .n_over = 1,                                                                           \
            .over = {{DT_DX, DT_DY}}},                                                             \
    }

#endif
