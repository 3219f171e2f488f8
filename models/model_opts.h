/* How a network is to differ from its model's standard form. */
#ifndef DT_MODELS_MODEL_OPTS_H
#define DT_MODELS_MODEL_OPTS_H

#include <stdint.h>

/* Most blocks of a stage; most tiles of a linear layer, of a vocabulary. */
enum { DTI_MODEL_COUNT = 4096, DTI_MODEL_TILES = 16, DTI_MODEL_HEAD_TILES = 1024 };

/**
 * struct dt_model_opts - how a model is to differ from its standard form.
 * @classes @image @channels @width: 0 or less: the model's standard. @image is height and width in
 * pixels, as sides (engine/shape.h): 224, or dt_sides(416, 608); @channels those of the image;
 * @width 64 is the standard of every model and scales all its channels but those of the image and
 * the classes; of a model of tokens it is the number of channels itself
 * @dropout: rate in [0, 1); negative: the model's standard; 0: none
 * @layers @heads @vocab @context: of models of tokens and of transformers; 0 or less: the model's
 * standard. The vocabulary is the number of classes as well
 * @attention: dti_attention_kind
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

#endif
