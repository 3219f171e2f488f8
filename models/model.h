/* Networks by name. A family file (vgg.c, resnet.c, ...) defines the descriptors of its members and
 * models.def lists them. Nodes carry PyTorch's module paths, so that NODE.weight is the name the
 * weight has in torchvision's files. */
#ifndef DT_MODELS_MODEL_H
#define DT_MODELS_MODEL_H

#include "engine/graph.h"
#include "models/model_opts.h"

struct dti_net;

/**
 * struct dt_model_desc - a model.
 * @name @summary: as in the INI file and in `dnntrain list models`
 * @input @classes: standard image (n = 1) and number of classes; for a model of tokens a sequence
 * {1, context, 1, 1} and the vocabulary
 * @tokens:   it takes sequences of tokens, one label each
 * @blocks @heads @width: standards of a transformer; without heads, of a stack of layers; all 0:
 * the model is neither, and its standard width is 64
 * @dropout:  standard rate; negative: the model has no dropout
 * @counts @n_counts: standards of the family's stages; n_counts = 0: it has none
 * @recipe:   what else tells the members of a family apart; the family's own
 * @layers:   appends all layers but the loss and returns the value the loss takes. Errors stay in
 * the net
 */
typedef struct dt_model_desc {
    const char *name, *summary;
    dt_shape input;
    int64_t classes;
    double dropout;
    bool tokens;
    int64_t blocks, heads, width;
    const int64_t *counts;
    int n_counts;
    const void *recipe;
    int32_t (*layers)(const struct dt_model_desc *m, struct dti_net *n);
} dt_model_desc;

/* The network, ending in a loss called "loss", cross_entropy unless its scores come in tiles; the
 * caller owns *out. DT_E_CONFIG for an option out of range, dropout where the model has none, or an
 * image the model cannot take (the note says which it can). */
dt_status dt_model_build(
    const dt_model_desc *m, const dt_model_opts *o, dt_graph **out, dt_err *err) DT_NODISCARD;

const dt_model_desc *const *dt_model_all(size_t *n);
const dt_model_desc *dt_model_find(const char *name); /* NULL if unknown */
const char *const *dt_model_names(void);              /* NULL-terminated, for dt_nearest */

#define DT_MODEL(name) extern const dt_model_desc dt_model_##name;
#include "models/models.def"
#undef DT_MODEL

#endif
