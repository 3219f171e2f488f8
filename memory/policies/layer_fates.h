/* [memory.layers]: fates by layer. Keys are globs over the names of layers (* stands for any text,
 * ? for one character). Values are
 *     keep
 *     offload [host | disk] [CODEC]   to a tier, packed on the way if a codec is named
 *     recompute
 *     encode [CODEC]   stays on the device, packed; zvc unless another is named
 *     encode CODEC offload [host | disk]   is packed, and what it was packed to moves
 *     home device | host | disk   of persistent tensors: the key matches their names, as homes.h
 *                                 gives them, and not those of layers
 * What moves comes back as late as the link allows for backward not to wait, as far as the costs of
 * the machine tell. Where several lines match a layer the last one holds. A layer that was fused
 * with the ReLU behind it goes by both names.
 *
 * A fate is that of the gap between forward and backward, of the layer's output and of its stashes.
 * Fates are set before any policy, and pinned: policies leave these tensors as they are. A value
 * that cannot be made again stays where recompute asks for it (statistics; the loss). */
#ifndef DT_MEMORY_POLICIES_LAYER_FATES_H
#define DT_MEMORY_POLICIES_LAYER_FATES_H

#include "engine/config/config.h"
#include "memory/homes.h"
#include "memory/policy.h"

#define DT_LAYER_FATES DT_CONFIG_GLOBS

/* @moves: ENCODE: what it is packed to moves. @tier: DT_TIER_INPUT where none is named.
 * @line: which says it, by its number among those of fates. */
typedef struct dt_layer_fate {
    dt_pin pin;
    bool moves;
    dt_tier tier;
    const dt_codec *codec;
    size_t line;
} dt_layer_fate;

/* A line that is no home. @glob: borrowed from the configuration. @text: "GLOB = VALUE". @codec:
 * that it packs by; NULL: it packs nothing. @holds: of some layer it is the last that matches. */
typedef struct dt_fate_line {
    const char *glob;
    dt_pin pin;
    const dt_codec *codec;
    bool holds;
    char text[80];
} dt_fate_line;

/**
 * struct dt_layer_fates - what the section says.
 * @n:    nodes of the graph; 0: the section is empty
 * @node: by node; DT_PIN_NONE where no line matches
 * @line: in the order in which the section holds them
 * @homes: of persistent tensors. Their globs, and those of lines, are the configuration's, which
 * must outlive them
 */
typedef struct dt_layer_fates {
    size_t n;
    dt_layer_fate *node;
    size_t n_line, cap_line;
    dt_fate_line *line;
    dt_home_rules homes;
} dt_layer_fates;

/* Read the section for the layers of @g. All problems are reported with their places: DT_E_CONFIG
 * for a fate that does not exist, for a glob without a layer or a persistent tensor, for a codec
 * that @device has no kernels for, and for a lossy one where values are bf16. @old: the
 * configuration is one that a run wrote, in which "move" may stand for offload, and such a codec
 * packs nothing. Release with dt_layer_fates_close even after a failure. */
dt_status dt_layer_fates_open(dt_layer_fates *out, const dt_config *c, const dt_graph *g,
    dt_device_kind device, bool old, dt_err *err) DT_NODISCARD;
void dt_layer_fates_close(dt_layer_fates *f);

bool dt_layer_fates_exact(const dt_layer_fates *f); /* no codec of theirs loses a bit */

/* What a line comes to in a program: nothing of what it names waits for backward and can be treated
 * so; such values are there, but its codec makes none smaller; some are treated so. */
typedef enum dt_fate_done { DT_FATE_IDLE, DT_FATE_NO_SMALLER, DT_FATE_DONE } dt_fate_done;

/* Rewrite a program of that graph. Every value is computed again at most once, so layers that stand
 * next to each other are made again together. Programs without backward are left alone.
 * @done: by line, IDLE all, told what each comes to; NULL: nobody asks */
dt_status dt_layer_fates_apply(const dt_layer_fates *f, dt_program *p, const dt_pass_env *env,
    dt_fate_done *done, dt_err *err) DT_NODISCARD;

#endif
