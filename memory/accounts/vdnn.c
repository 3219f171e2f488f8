/* vDNN's count (Rhu and others, MICRO 2016): what a network's feature extraction takes in its
 * baseline and under its policies, and which trial of its dynamic policy is the first that fits.
 *
 * The baseline (section II-B, figure 2) holds all parameters, the input of every convolution,
 * pooling and fully connected layer, the scores, and two gradients of the largest size; activations
 * are in place. Under a policy the features take the convolutions' weights with their gradients and
 * the most that backward of one layer works with: its input and the gradients on both sides, of a
 * pooling its output as well. What is fetched ahead meanwhile, half a map more in VGG, is left out:
 * with it the 4.8 GB of VGG-16 of batch 128 cannot be. Under vDNN_conv inputs of poolings stay.
 *
 * Section V-E counts gradients of parameters as well: its 67.1 GB are 67,033 MiB with them.
 *
 * The dynamic policy (section III-C) tries: 2 nothing moved, the fastest algorithms; 3 vDNN_conv
 * and 4 vDNN_all with these; 5 vDNN_conv and 6 vDNN_all with what algorithms still fit; 7 vDNN_all
 * with those of no workspace. A workspace is memory.account_workspace, which is the paper's to
 * know. */
#include <math.h>
#include <string.h>

#include "memory/accounts/account.h"

typedef enum kind { CONV, POOL, FC, OTHER } kind;

static const struct {
    const char *layer;
    kind kind;
} kinds[] = {{"conv", CONV}, {"maxpool", POOL}, {"avgpool", POOL}, {"fc", FC}, {"linear", FC}};

static kind kind_of(const dt_node *nd)
{
    for (size_t i = 0; i < DT_COUNT(kinds); i++)
        if (strcmp(nd->desc->name, kinds[i].layer) == 0)
            return kinds[i].kind;
    return OTHER;
}

static double shape_bytes(dt_shape s, int64_t batch)
{
    return (double)dt_shape_sample(&s) * (double)batch * sizeof(float);
}

static double weights(const dt_node *nd)
{
    double sum = 0;
    for (int i = 0; i < nd->info.n_param; i++)
        if (!nd->info.param[i].buffer)
            sum += (double)dt_param_count(&nd->info.param[i]) * sizeof(float);
    return sum;
}

/**
 * struct sums - bytes.
 * @weights @conv_weights: of all parameters, and of those of convolutions
 * @features: inputs of convolutions and poolings, each once
 * @inputs:   and of fully connected layers
 * @map:      the largest output
 * @scores:   output of the last fully connected layer
 * @pools:    inputs of poolings so far
 * @all @conv: the most that backward of a feature layer works with; and with inputs of poolings
 *             before it that wait for theirs
 */
typedef struct sums {
    double weights, conv_weights, features, inputs, map, scores, pools, all, conv;
} sums;

static bool read_before(const dt_graph *g, size_t node, int32_t value)
{
    for (size_t k = 0; k < node; k++)
        if (kind_of(&g->node[k]) != OTHER && g->node[k].in[0] == value)
            return true;
    return false;
}

static void work(sums *s, kind of, double in, double out)
{
    const double here = 2 * in + out + (of == POOL ? out : 0);
    s->all = fmax(s->all, here);
    s->conv = fmax(s->conv, here + s->pools);
    s->pools += of == POOL ? in : 0;
}

static void add_layer(sums *s, const dt_graph *g, size_t node, int64_t batch)
{
    const dt_node *nd = &g->node[node];
    const kind of = kind_of(nd);
    const double in = shape_bytes(dt_graph_shape(g, nd->in[0]), batch);
    const double out = shape_bytes(nd->info.y, batch);
    s->weights += weights(nd);
    s->map = fmax(s->map, out);
    if (of == OTHER)
        return;
    if (!read_before(g, node, nd->in[0])) {
        s->inputs += in;
        s->features += of != FC ? in : 0;
    }
    if (of == FC) {
        s->scores = out;
        return;
    }
    s->conv_weights += weights(nd);
    work(s, of, in, out);
}

static sums add_up(const dt_graph *g, int64_t batch)
{
    sums s = {0};
    for (size_t i = 0; i < g->n_node; i++)
        if (!g->node[i].desc->loss)
            add_layer(&s, g, i, batch);
    return s;
}

/* ---- the account ---- */

enum { BASELINE, ALL, CONV_ONLY, HOST, SHARE, TRIAL, FAST };

static const dt_account_figure figures[] = {
    [BASELINE] = {"baseline", "MiB", "network-wide, by algorithms of no workspace"},
    [ALL] = {"all", "MiB", "of the features under vDNN_all, by the same"},
    [CONV_ONLY] = {"conv", "MiB", "under vDNN_conv"},
    [HOST] = {"host", "MiB", "that vDNN_all moves to the host"},
    [SHARE] = {"share", "%", "of the baseline that is of the features"},
    [TRIAL] = {"trial", "",
        "of the dynamic policy that fits device_budget, 2 to 6; 0: none; -: there is no budget"},
    [FAST] = {"fast", "MiB", "the baseline with gradients of parameters and the largest workspace"},
};

static int first_trial(const double *mib, double workspace, double budget)
{
    const double need[] = {mib[BASELINE] + workspace, mib[CONV_ONLY] + workspace,
        mib[ALL] + workspace, mib[CONV_ONLY], mib[ALL]};
    for (int i = 0; i < (int)DT_COUNT(need); i++)
        if (need[i] <= budget)
            return i + 2;
    return 0;
}

/* Its features are convolutions and poolings between them. */
static dt_status check_convolutions(const dt_graph *g, dt_err *err)
{
    for (size_t i = 0; i < g->n_node; i++)
        if (kind_of(&g->node[i]) == CONV)
            return DT_OK;
    return DT_FAIL(err, DT_E_CONFIG,
        "%s has no convolution, and vDNN's count is of networks whose features are convolutions",
        g->name);
}

static dt_status count(const dt_graph *g, const dt_account_ask *ask, double *value, dt_err *err)
{
    const double mib = 1 << 20;
    DT_CHECK(check_convolutions(g, err));
    const sums s = add_up(g, ask->batch);
    const double of_classifier = s.weights - s.conv_weights + s.inputs - s.features + s.scores;
    value[BASELINE] = (s.weights + s.inputs + s.scores + 2 * s.map) / mib;
    value[ALL] = (2 * s.conv_weights + s.all) / mib;
    value[CONV_ONLY] = (2 * s.conv_weights + s.conv) / mib;
    value[HOST] = s.features / mib;
    value[SHARE] = 100 * (1 - of_classifier / mib / value[BASELINE]);
    value[TRIAL] = ask->budget > 0
                       ? first_trial(value, (double)ask->workspace / mib, (double)ask->budget / mib)
                       : (double)NAN;
    value[FAST] = value[BASELINE] + (s.weights + (double)ask->workspace) / mib;
    return DT_OK;
}

const dt_account_desc dt_account_vdnn = {
    .name = "vdnn",
    .summary = "vDNN's baseline, policies and trials, by the paper's sums (2016)",
    .n = DT_COUNT(figures),
    .figure = figures,
    .count = count,
};
