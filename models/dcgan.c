/* DCGAN (Radford, Metz, Chintala, 2016) for images of 64 pixels, with the channels of PyTorch's
 * example. Two networks play against each other; a network here has one loss, so each of the two
 * steps is one: the discriminator's, which tells made images from real ones, and the generator's,
 * which goes from noise through both. What one step learns the other does not see: there is no run
 * that takes them in turn. Of the two scores the loss makes what the example makes of one by a
 * logistic function. Weights begin as those of every layer here (He-normal), the paper's from
 * N(0, 0.02). */
#include "models/model.h"
#include "models/net.h"

#include "layers/elementwise/activations.h"
#include "layers/weighted/conv_transpose.h"
#include "layers/elementwise/leaky_relu.h"

enum { SIDE = 64, NOISE = 100, STEPS = 4, WIDTH = 64 };

static int32_t discriminator(dti_net *n, int32_t x, const char *of)
{
    const dt_leaky_relu leaky = {.slope = 0.2};
    int at = 0;
    for (int k = 0; k < STEPS; k++) {
        const dti_conv c = {dti_scale(n, WIDTH << k), 4, 2, 1, false};
        x = dti_add_conv(n, x, c, "%s.%d", of, at++);
        if (k > 0)
            x = dti_add_bn(n, x, false, "%s.%d", of, at++);
        x = dti_layer(n, &dt_layer_leaky_relu, &leaky, &x, 1, "%s.%d", of, at++);
    }
    return dti_add_conv(n, x, (dti_conv){n->opts.classes, 4, 1, 0, false}, "%s.%d", of, at);
}

static int32_t generator(dti_net *n, int32_t x, const char *of)
{
    int at = 0;
    for (int k = STEPS; k >= 0; k--) {
        const dt_conv_transpose c = {.out = k > 0 ? dti_scale(n, WIDTH << (k - 1)) : 3,
            .kernel = 4,
            .stride = k < STEPS ? 2 : 1,
            .pad = k < STEPS ? 1 : 0,
            .groups = 1};
        x = dti_layer(n, &dt_layer_conv_transpose, &c, &x, 1, "%s.%d", of, at++);
        if (k > 0) {
            x = dti_add_bn(n, x, false, "%s.%d", of, at++);
            x = dti_add_relu(n, x, "%s.%d", of, at++);
        }
    }
    return dti_layer(n, &dt_layer_tanh, NULL, &x, 1, "%s.%d", of, at);
}

static int32_t discriminator_layers(const dt_model_desc *m, dti_net *n)
{
    if (n->status == DT_OK && n->opts.image != SIDE)
        n->status = DT_FAIL(n->err, DT_E_CONFIG,
            "%s: it takes images of %d pixels; [model] image may be %d", m->name, (int)SIDE,
            (int)SIDE);
    return discriminator(n, DT_GRAPH_INPUT, "main");
}

static int32_t generator_layers(const dt_model_desc *m, dti_net *n)
{
    if (n->status == DT_OK && n->opts.image != 1)
        n->status = DT_FAIL(n->err, DT_E_CONFIG,
            "%s: its input is noise, one pixel of [model] channels; [model] image may be 1",
            m->name);
    return discriminator(n, generator(n, DT_GRAPH_INPUT, "main"), "discriminator.main");
}

const dt_model_desc dt_model_dcgan_discriminator = {
    .name = "dcgan_discriminator",
    .summary = "DCGAN's discriminator: made images or real ones",
    .input = {1, SIDE, SIDE, 3},
    .classes = 2,
    .dropout = -1,
    .layers = discriminator_layers,
};

const dt_model_desc dt_model_dcgan_generator = {
    .name = "dcgan_generator",
    .summary = "DCGAN's generator, of noise, and behind it the discriminator it learns by",
    .input = {1, 1, 1, NOISE},
    .classes = 2,
    .dropout = -1,
    .layers = generator_layers,
};
