/* cDMA (Rhu et al., Compressing DMA Engine, HPCA 2018): vDNN, but what moves is packed on its way
 * by zero-value compression, 32 bits that tell zeros from values before each 32 values, because
 * what ReLU leaves is mostly zero. Values on the device stay as they are; only what is copied and
 * where it waits shrinks.
 *
 * Ours differs: the paper puts the codec into the GPU's DMA engine. Here whoever copies packs,
 * straight from the arena into the slot, so the device takes no byte more. The paper packs every
 * move, whether that pays or not. Ours leaves values as they are that are measured to hold too few
 * zeros, and those of which nothing is known but that no ReLU made them. What is copied is as long
 * as the values need; the room in the tier is fixed before the run, by a profile, or density, and
 * never more than the values take as they are. A step that would need more is run again: it
 * computes values again within the same room, or moves them as they are, for which there is room
 * then, too (session/plan_set/plan_set.c). */
#include "memory/policies/vdnn_pass.h"

typedef struct options {
    int base;
    double density;
    int values, join;
} options;

enum { VDNN_ALL, VDNN_CONV };
enum { ZEROS, EVERY };
static const char *const values[] = {[ZEROS] = "zeros", [EVERY] = "all", NULL};
static const char *const bases[] = {[VDNN_ALL] = "vdnn_all", [VDNN_CONV] = "vdnn_conv", NULL};

#define AT(f) offsetof(options, f)
/* clang-format off */
static const dt_opt opts[] = {
    {"base",    DT_OPT_ENUM, AT(base),    "vdnn_all", 0, 0, bases, NULL, "policy whose copies are packed"},
    {"density", DT_OPT_F64,  AT(density), "1",        0, 1, NULL,  NULL, "share of nonzero values to reserve space for, where memory.profile does not say"},
    {"values",  DT_OPT_ENUM, AT(values),  "zeros",    0, 0, values, NULL, "what is packed where memory.profile says nothing: zeros: outputs of ReLUs; all: everything that moves, as in the paper"},
    {"join",    DT_OPT_ENUM, AT(join),    "reader",   0, 0, dti_vdnn_joins, NULL, DTI_VDNN_JOIN_HELP},
    {NULL,      DT_OPT_I64,  0,           NULL,       0, 0, NULL,  NULL, NULL},
};
/* clang-format on */

static dt_status cdma(dt_program *p, const dt_pass_env *env, dt_err *err)
{
    const options *o = env->opts;
    const dti_vdnn_opts v = {.env = env,
        .moves = o->base == VDNN_ALL ? DTI_VDNN_ALL : DTI_VDNN_CONV,
        .codec = dti_codec_find("zvc"),
        .density = o->density,
        .every = o->values == EVERY,
        .join = o->join == DTI_VDNN_LAYER};
    return dti_vdnn_pass(p, &v, err);
}

const dt_policy dt_policy_cdma = {
    .name = "cdma",
    .summary = "vDNN with zeros left out of what is copied",
    .exact = true,
    .opts = opts,
    .opts_bytes = sizeof(options),
    .pass = cdma,
};
