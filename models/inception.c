/* Inception-v3 (Szegedy et al. 2016) in torchvision's form, without its auxiliary classifier, and
 * Inception-v4 (Szegedy et al. 2017) in the names of timm. Nearly all there is to say of their
 * modules is shapes, so a module is a table. */
#include "models/model.h"
#include "models/net.h"

#include <stdio.h>

#include "layers/pool/avgpool.h"
#include "layers/norm/batchnorm.h"
#include "layers/shape/concat.h"

/* CONV keeps height and width, VALID pads nothing; both have batch norm and ReLU behind them. MEAN
 * counts its padding, BARE_MEAN does not. Pools are of 3x3. */
typedef enum kind { CONV, VALID, MAX, MEAN, BARE_MEAN } kind;

/* What a unit reads: the module's input, or the unit so many places above. */
enum { INPUT, LAST, LAST_2 };

enum { OWN = -1, MOST_UNITS = 16 };

/* @name: behind the module's
 * @from: as above
 * @out: channels of a convolution; OWN: the module's
 * @h @w: of its kernel */
typedef struct unit {
    kind kind;
    const char *name;
    int from;
    int64_t out, h, w, stride;
} unit;

static int32_t conv(dti_net *n, int32_t x, const unit *u, int64_t out, const char *module)
{
    const dt_batchnorm bn = {.eps = 1e-3, .momentum = 0.1};
    const dti_conv c = {.out = dti_scale(n, out),
        .kernel = dt_sides(u->h, u->w),
        .stride = u->stride,
        .pad = u->kind == CONV ? dt_sides(u->h / 2, u->w / 2) : 0};
    x = dti_add_conv(n, x, c, "%s%s.conv", module, u->name);
    x = dti_layer(n, &dt_layer_batchnorm, &bn, &x, 1, "%s%s.bn", module, u->name);
    return dti_add_relu(n, x, "%s%s.relu", module, u->name);
}

static int32_t add_unit(dti_net *n, int32_t x, const unit *u, int64_t own, const char *module)
{
    const dt_avgpool mean = {.kernel = 3, .stride = 1, .pad = 1, .include_pad = u->kind == MEAN};
    switch (u->kind) {
    case MAX:
        return dti_add_maxpool(n, x, (dti_pool){3, 2, 0}, "%s%s", module, u->name);
    case MEAN:
    case BARE_MEAN:
        return dti_layer(n, &dt_layer_avgpool, &mean, &x, 1, "%s%s", module, u->name);
    case CONV:
    case VALID:
    default:
        return conv(n, x, u, u->out == OWN ? own : u->out, module);
    }
}

/* Joins what no unit of the module reads. */
static int32_t add_module(
    dti_net *n, int32_t x, const unit *u, int count, int64_t own, const char *module)
{
    int32_t y[MOST_UNITS], ends[MOST_UNITS];
    bool read[MOST_UNITS] = {false};
    int n_end = 0;
    for (int i = 0; i < count; i++) {
        const int from = i - u[i].from;
        y[i] = add_unit(n, u[i].from == INPUT ? x : y[from], &u[i], own, module);
        if (u[i].from != INPUT)
            read[from] = true;
    }
    for (int i = 0; i < count; i++)
        if (!read[i])
            ends[n_end++] = y[i];
    return n_end == 1 ? ends[0]
                      : dti_layer(n, &dt_layer_concat, NULL, ends, n_end, "%s.concat", module);
}

#define MODULE(n, x, table, own, name) add_module(n, x, table, (int)DT_COUNT(table), own, name)

/* clang-format off */
static const unit v3_stem[] = {
    {VALID, "Conv2d_1a_3x3", INPUT, 32,  3, 3, 2},
    {VALID, "Conv2d_2a_3x3", LAST,  32,  3, 3, 1},
    {CONV,  "Conv2d_2b_3x3", LAST,  64,  3, 3, 1},
    {MAX,   "maxpool1",      LAST,  0,   0, 0, 0},
    {VALID, "Conv2d_3b_1x1", LAST,  80,  1, 1, 1},
    {VALID, "Conv2d_4a_3x3", LAST,  192, 3, 3, 1},
    {MAX,   "maxpool2",      LAST,  0,   0, 0, 0},
};

static const unit v3_5[] = {
    {CONV, ".branch1x1",      INPUT, 64,  1, 1, 1},
    {CONV, ".branch5x5_1",    INPUT, 48,  1, 1, 1},
    {CONV, ".branch5x5_2",    LAST,  64,  5, 5, 1},
    {CONV, ".branch3x3dbl_1", INPUT, 64,  1, 1, 1},
    {CONV, ".branch3x3dbl_2", LAST,  96,  3, 3, 1},
    {CONV, ".branch3x3dbl_3", LAST,  96,  3, 3, 1},
    {MEAN, ".pool",           INPUT, 0,   0, 0, 0},
    {CONV, ".branch_pool",    LAST,  OWN, 1, 1, 1},
};

static const unit v3_6a[] = {
    {VALID, ".branch3x3",      INPUT, 384, 3, 3, 2},
    {CONV,  ".branch3x3dbl_1", INPUT, 64,  1, 1, 1},
    {CONV,  ".branch3x3dbl_2", LAST,  96,  3, 3, 1},
    {VALID, ".branch3x3dbl_3", LAST,  96,  3, 3, 2},
    {MAX,   ".pool",           INPUT, 0,   0, 0, 0},
};

static const unit v3_6[] = {
    {CONV, ".branch1x1",      INPUT, 192, 1, 1, 1},
    {CONV, ".branch7x7_1",    INPUT, OWN, 1, 1, 1},
    {CONV, ".branch7x7_2",    LAST,  OWN, 1, 7, 1},
    {CONV, ".branch7x7_3",    LAST,  192, 7, 1, 1},
    {CONV, ".branch7x7dbl_1", INPUT, OWN, 1, 1, 1},
    {CONV, ".branch7x7dbl_2", LAST,  OWN, 7, 1, 1},
    {CONV, ".branch7x7dbl_3", LAST,  OWN, 1, 7, 1},
    {CONV, ".branch7x7dbl_4", LAST,  OWN, 7, 1, 1},
    {CONV, ".branch7x7dbl_5", LAST,  192, 1, 7, 1},
    {MEAN, ".pool",           INPUT, 0,   0, 0, 0},
    {CONV, ".branch_pool",    LAST,  192, 1, 1, 1},
};

static const unit v3_7a[] = {
    {CONV,  ".branch3x3_1",   INPUT, 192, 1, 1, 1},
    {VALID, ".branch3x3_2",   LAST,  320, 3, 3, 2},
    {CONV,  ".branch7x7x3_1", INPUT, 192, 1, 1, 1},
    {CONV,  ".branch7x7x3_2", LAST,  192, 1, 7, 1},
    {CONV,  ".branch7x7x3_3", LAST,  192, 7, 1, 1},
    {VALID, ".branch7x7x3_4", LAST,  192, 3, 3, 2},
    {MAX,   ".pool",          INPUT, 0,   0, 0, 0},
};

static const unit v3_7[] = {
    {CONV, ".branch1x1",       INPUT,  320, 1, 1, 1},
    {CONV, ".branch3x3_1",     INPUT,  384, 1, 1, 1},
    {CONV, ".branch3x3_2a",    LAST,   384, 1, 3, 1},
    {CONV, ".branch3x3_2b",    LAST_2, 384, 3, 1, 1},
    {CONV, ".branch3x3dbl_1",  INPUT,  448, 1, 1, 1},
    {CONV, ".branch3x3dbl_2",  LAST,   384, 3, 3, 1},
    {CONV, ".branch3x3dbl_3a", LAST,   384, 1, 3, 1},
    {CONV, ".branch3x3dbl_3b", LAST_2, 384, 3, 1, 1},
    {MEAN, ".pool",            INPUT,  0,   0, 0, 0},
    {CONV, ".branch_pool",     LAST,   192, 1, 1, 1},
};
/* clang-format on */

static int32_t v3_layers(const dt_model_desc *m, dti_net *n)
{
    (void)m;
    int32_t x = MODULE(n, DT_GRAPH_INPUT, v3_stem, 0, "");
    x = MODULE(n, x, v3_5, 32, "Mixed_5b");
    x = MODULE(n, x, v3_5, 64, "Mixed_5c");
    x = MODULE(n, x, v3_5, 64, "Mixed_5d");
    x = MODULE(n, x, v3_6a, 0, "Mixed_6a");
    x = MODULE(n, x, v3_6, 128, "Mixed_6b");
    x = MODULE(n, x, v3_6, 160, "Mixed_6c");
    x = MODULE(n, x, v3_6, 160, "Mixed_6d");
    x = MODULE(n, x, v3_6, 192, "Mixed_6e");
    x = MODULE(n, x, v3_7a, 0, "Mixed_7a");
    x = MODULE(n, x, v3_7, 0, "Mixed_7b");
    x = MODULE(n, x, v3_7, 0, "Mixed_7c");
    x = dti_add_global_avgpool(n, x);
    x = dti_add_dropout(n, x, "dropout");
    return dti_add_fc(n, x, n->opts.classes, "fc");
}

const dt_model_desc dt_model_inception_v3 = {
    .name = "inception_v3",
    .summary = "modules with kernels of 1x7 and 7x1, 299x299 pixels, no auxiliary classifier",
    .input = {1, 299, 299, 3},
    .classes = 1000,
    .dropout = 0.5,
    .layers = v3_layers,
};

/* ---- v4: layers are numbered, "features.6.branch0" ---- */

/* clang-format off */
static const unit v4_stem[] = {
    {VALID, "features.0", INPUT, 32, 3, 3, 2},
    {VALID, "features.1", LAST,  32, 3, 3, 1},
    {CONV,  "features.2", LAST,  64, 3, 3, 1},
};

static const unit v4_3[] = {
    {MAX,   ".maxpool", INPUT, 0,  0, 0, 0},
    {VALID, ".conv",    INPUT, 96, 3, 3, 2},
};

static const unit v4_4[] = {
    {CONV,  ".branch0.0", INPUT, 64, 1, 1, 1},
    {VALID, ".branch0.1", LAST,  96, 3, 3, 1},
    {CONV,  ".branch1.0", INPUT, 64, 1, 1, 1},
    {CONV,  ".branch1.1", LAST,  64, 1, 7, 1},
    {CONV,  ".branch1.2", LAST,  64, 7, 1, 1},
    {VALID, ".branch1.3", LAST,  96, 3, 3, 1},
};

static const unit v4_5[] = {
    {VALID, ".conv",    INPUT, 192, 3, 3, 2},
    {MAX,   ".maxpool", INPUT, 0,   0, 0, 0},
};

static const unit v4_a[] = {
    {CONV,      ".branch0",   INPUT, 96, 1, 1, 1},
    {CONV,      ".branch1.0", INPUT, 64, 1, 1, 1},
    {CONV,      ".branch1.1", LAST,  96, 3, 3, 1},
    {CONV,      ".branch2.0", INPUT, 64, 1, 1, 1},
    {CONV,      ".branch2.1", LAST,  96, 3, 3, 1},
    {CONV,      ".branch2.2", LAST,  96, 3, 3, 1},
    {BARE_MEAN, ".branch3.0", INPUT, 0,  0, 0, 0},
    {CONV,      ".branch3.1", LAST,  96, 1, 1, 1},
};

static const unit v4_10[] = {
    {VALID, ".branch0",   INPUT, 384, 3, 3, 2},
    {CONV,  ".branch1.0", INPUT, 192, 1, 1, 1},
    {CONV,  ".branch1.1", LAST,  224, 3, 3, 1},
    {VALID, ".branch1.2", LAST,  256, 3, 3, 2},
    {MAX,   ".branch2",   INPUT, 0,   0, 0, 0},
};

static const unit v4_b[] = {
    {CONV,      ".branch0",   INPUT, 384, 1, 1, 1},
    {CONV,      ".branch1.0", INPUT, 192, 1, 1, 1},
    {CONV,      ".branch1.1", LAST,  224, 1, 7, 1},
    {CONV,      ".branch1.2", LAST,  256, 7, 1, 1},
    {CONV,      ".branch2.0", INPUT, 192, 1, 1, 1},
    {CONV,      ".branch2.1", LAST,  192, 7, 1, 1},
    {CONV,      ".branch2.2", LAST,  224, 1, 7, 1},
    {CONV,      ".branch2.3", LAST,  224, 7, 1, 1},
    {CONV,      ".branch2.4", LAST,  256, 1, 7, 1},
    {BARE_MEAN, ".branch3.0", INPUT, 0,   0, 0, 0},
    {CONV,      ".branch3.1", LAST,  128, 1, 1, 1},
};

static const unit v4_18[] = {
    {CONV,  ".branch0.0", INPUT, 192, 1, 1, 1},
    {VALID, ".branch0.1", LAST,  192, 3, 3, 2},
    {CONV,  ".branch1.0", INPUT, 256, 1, 1, 1},
    {CONV,  ".branch1.1", LAST,  256, 1, 7, 1},
    {CONV,  ".branch1.2", LAST,  320, 7, 1, 1},
    {VALID, ".branch1.3", LAST,  320, 3, 3, 2},
    {MAX,   ".branch2",   INPUT, 0,   0, 0, 0},
};

static const unit v4_c[] = {
    {CONV,      ".branch0",    INPUT,  256, 1, 1, 1},
    {CONV,      ".branch1_0",  INPUT,  384, 1, 1, 1},
    {CONV,      ".branch1_1a", LAST,   256, 1, 3, 1},
    {CONV,      ".branch1_1b", LAST_2, 256, 3, 1, 1},
    {CONV,      ".branch2_0",  INPUT,  384, 1, 1, 1},
    {CONV,      ".branch2_1",  LAST,   448, 3, 1, 1},
    {CONV,      ".branch2_2",  LAST,   512, 1, 3, 1},
    {CONV,      ".branch2_3a", LAST,   256, 1, 3, 1},
    {CONV,      ".branch2_3b", LAST_2, 256, 3, 1, 1},
    {BARE_MEAN, ".branch3.0",  INPUT,  0,   0, 0, 0},
    {CONV,      ".branch3.1",  LAST,   256, 1, 1, 1},
};
/* clang-format on */

static int32_t repeat(dti_net *n, int32_t x, const unit *u, int count, int first, int times)
{
    char name[DT_NAME_BYTES];
    for (int i = first; i < first + times; i++) {
        snprintf(name, sizeof name, "features.%d", i);
        x = add_module(n, x, u, count, 0, name);
    }
    return x;
}

#define REPEAT(n, x, table, first, times) repeat(n, x, table, (int)DT_COUNT(table), first, times)

static int32_t v4_layers(const dt_model_desc *m, dti_net *n)
{
    (void)m;
    int32_t x = MODULE(n, DT_GRAPH_INPUT, v4_stem, 0, "");
    x = REPEAT(n, x, v4_3, 3, 1);
    x = REPEAT(n, x, v4_4, 4, 1);
    x = REPEAT(n, x, v4_5, 5, 1);
    x = REPEAT(n, x, v4_a, 6, 4);
    x = REPEAT(n, x, v4_10, 10, 1);
    x = REPEAT(n, x, v4_b, 11, 7);
    x = REPEAT(n, x, v4_18, 18, 1);
    x = REPEAT(n, x, v4_c, 19, 3);
    x = dti_add_global_avgpool(n, x);
    x = dti_add_dropout(n, x, "dropout");
    return dti_add_fc(n, x, n->opts.classes, "last_linear");
}

const dt_model_desc dt_model_inception_v4 = {
    .name = "inception_v4",
    .summary = "Inception-v4: 14 modules of three kinds between reductions, 299x299 pixels",
    .input = {1, 299, 299, 3},
    .classes = 1000,
    .dropout = 0.2,
    .layers = v4_layers,
};
