/* A network written in the INI file: a section [KIND NAME] a layer, in the order in which they run.
 *
 *   [conv c1]
 *   out = 16
 *   kernel = 3
 *   pad = 1
 *   [relu r1]
 *   [add sum]
 *   input = r1, c1
 *
 * `input` names the layers whose values a layer takes: layers above it, or `image`. Without it a
 * layer takes the value of the section above, the first one the image. `shares` names a layer above
 * whose weight a layer uses instead of one of its own, as the output of a language model uses that
 * of the embedding. `tiles` cuts a linear layer into so many. The other keys are the layer's
 * options. The last layer is a loss; [cross_entropy loss] is added when the file leaves it out.
 */
#ifndef DT_MODELS_INI_H
#define DT_MODELS_INI_H

#include "engine/config/config.h"
#include "models/model.h"

enum { DTI_INI_LAYERS = 4096 };

/* The keys that a section of a layer may have besides the layer's options. */
extern const dt_opt dt_ini_wiring[];

/* Whether any section writes a layer: its kind is one, or it carries a name, which only layers do.
 */
bool dt_ini_has_layers(const dt_config *c);

/* Everything that can be said of the layers without their shapes, in one pass; their keys are known
 * afterwards, but for those that no layer of the kind has. DT_E_CONFIG, DT_E_NOMEM. */
dt_status dt_ini_check(dt_config *c, dt_err *err) DT_NODISCARD;

/**
 * dt_ini_network() - build the network.
 * @o: image must be given, or context for an input of tokens; channels defaults to 3; classes, when
 * not given, is what the last layer makes. The rest belongs to models with a name: DT_E_CONFIG when
 * it asks for anything
 *
 * The network takes its name from [model] name, which then must not be that of a model, or else
 * from the file. The caller owns *out. DT_E_CONFIG with FILE:LINE for everything wrong with kinds,
 * names, options and inputs, in one pass; after those, for the first layer whose shapes do not fit.
 */
dt_status dt_ini_network(
    dt_config *c, const dt_model_opts *o, dt_graph **out, dt_err *err) DT_NODISCARD;

#endif
