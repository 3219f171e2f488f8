/* Networks by name. A family file (vgg.c, resnet.c, ...) defines the descriptors of its members and
 * models.def lists them. Nodes carry PyTorch's module paths, so that NODE.weight is the name the
 * weight has in torchvision's files. */
#ifndef DT_MODELS_MODEL_H
#define DT_MODELS_MODEL_H

#include "engine/graph.h"

struct dti_net;

/* Most blocks of a stage; most tiles of a linear layer, of a vocabulary. */
enum { DT_MODEL_COUNT = 4096, DT_MODEL_TILES = 16, DT_MODEL_HEAD_TILES = 1024 };

/**
 * struct dt_model_opts - how a model is to differ from its standard form.
 * @classes @image @channels @width: 0 or less: the model's standard. @image is both height and
 * width in pixels; @channels those of the image; @width 64 is the standard of every model and
 * scales all its channels but those of the image and the classes; of a model of tokens it is the
 * number of channels itself
 * @dropout: rate in [0, 1); negative: the model's standard; 0: none
 * @layers @heads @vocab @context: of models of tokens and of transformers; 0 or less: the model's
 * standard. The vocabulary is the number of classes as well
 * @attention: dt_attention_kind
 * @tiles: parts that each linear layer's outputs are cut into; @head_tiles: of a model of tokens,
 * parts of its vocabulary: of embedding, output layer and loss; 0 and 1: whole
 * @counts @n_counts: how many blocks, or convolutions, each stage of a family has, in the caller's
 * memory; 0: the model's standard
 */
typedef struct dt_model_opts {
    int64_t classes, image, channels, width;
    double dropout;
    int64_t layers, heads, vocab, context;
    int attention;
    int64_t tiles, head_tiles;
    const int64_t *counts;
    int n_counts;
} dt_model_opts;

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
