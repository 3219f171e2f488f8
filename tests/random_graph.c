#include "tests/random_graph.h"

#include <stdio.h>

#include "engine/graph_fuse.h"
#include "engine/base/philox.h"
#include "layers/avgpool.h"
#include "layers/batchnorm.h"
#include "layers/conv.h"
#include "layers/dropout.h"
#include "layers/fc.h"
#include "layers/maxpool.h"
#include "layers/plain.h"
#include "tests/check.h"

enum { CHANNELS = 4, MOST_VALUES = 64 };

uint32_t dt_roll(dt_dice *d, uint32_t below)
{
    const dt_u32x4 u = dt_random(d->seed, DT_RANDOM_TEST, 7, 0, d->rolled++);
    return u.v[0] % below;
}

int64_t dt_roll_in(dt_dice *d, int64_t a, int64_t b)
{
    return a + (int64_t)dt_roll(d, (uint32_t)(b - a + 1));
}

/* A value of the network under construction. */
typedef struct value {
    int32_t id;
    int64_t side;
    bool read;
} value;

typedef struct maker {
    dt_graph *g;
    dt_dice dice;
    value v[MOST_VALUES];
    int n;
} maker;

static int append(maker *m, const dt_layer_desc *desc, const void *opts, const int *in, int n_in)
{
    dt_err err = {0};
    char name[DT_NAME_BYTES];
    int32_t id, from[DT_MAX_IN];
    snprintf(name, sizeof name, "%s%zu", desc->name, m->g->n_node);
    for (int i = 0; i < n_in; i++) {
        from[i] = m->v[in[i]].id;
        m->v[in[i]].read = true;
    }
    assert_ok(dt_graph_add(m->g, desc, name, opts, from, n_in, &id, &err), &err);
    assert_true(m->n < MOST_VALUES);
    m->v[m->n] = (value){id, dt_graph_shape(m->g, id).h, false};
    return m->n++;
}

/* The newest value mostly, an older one at times: those are then read more than once. */
static int pick(maker *m)
{
    return dt_roll(&m->dice, 4) != 0 ? m->n - 1 : (int)dt_roll(&m->dice, (uint32_t)m->n);
}

static void add_conv(maker *m, int x)
{
    static const dt_conv kinds[] = {
        {CHANNELS, 3, 1, 1, 1, 1, false}, {CHANNELS, 1, 1, 0, 1, 1, true}};
    append(m, &dt_layer_conv, &kinds[dt_roll(&m->dice, 2)], &x, 1);
}

static void add_pool(maker *m, int x)
{
    static const dt_maxpool max = {2, 2, 0, false}, lapped = {3, 2, 1, false};
    static const dt_avgpool average = {2, 2, 0, false, true};
    const uint32_t k = dt_roll(&m->dice, 3);
    if (m->v[x].side < 2)
        append(m, &dt_layer_relu, NULL, &x, 1);
    else if (k == 0)
        append(m, &dt_layer_avgpool, &average, &x, 1);
    else
        append(m, &dt_layer_maxpool, k == 1 ? &max : &lapped, &x, 1);
}

/* The sum of a value and of others of its size, or of it and itself when there is no other. */
static void add_sum(maker *m, int x)
{
    int in[3] = {x, x, x}, n = 1;
    for (int i = m->n; i-- > 0 && n < 3;)
        if (i != x && m->v[i].side == m->v[x].side && m->v[i].id != DT_GRAPH_INPUT &&
            dt_roll(&m->dice, 2) == 0)
            in[n++] = i;
    append(m, &dt_layer_add, NULL, in, n < 2 ? 2 : n);
}

static void add_layer(maker *m, bool conv)
{
    static const dt_batchnorm norm = {.eps = 1e-5, .momentum = 0.1};
    static const dt_dropout drop = {0.25};
    const int x = pick(m);
    const uint32_t k = dt_roll(&m->dice, 12);
    if (k < 3)
        append(m, &dt_layer_relu, NULL, &x, 1);
    else if (k < 5)
        append(m, &dt_layer_batchnorm, &norm, &x, 1);
    else if (k < 7)
        add_pool(m, x);
    else if (k < 9)
        add_sum(m, x);
    else if (k < 10)
        append(m, &dt_layer_dropout, &drop, &x, 1);
    else if (conv)
        add_conv(m, x);
    else
        append(m, &dt_layer_relu, NULL, &x, 1);
}

/* Every value that nobody has read goes into the classifier, so that the network is whole. */
static void finish(maker *m, int64_t classes)
{
    int last[DT_MAX_IN], n = 0;
    const int made = m->n;
    for (int i = made; i-- > 1;) {
        if (m->v[i].read)
            continue;
        if (n == DT_MAX_IN) {
            last[0] = append(m, &dt_layer_add, NULL, last, n);
            n = 1;
        }
        last[n++] = append(m, &dt_layer_global_avgpool, NULL, &i, 1);
    }
    int top = n > 1 ? append(m, &dt_layer_add, NULL, last, n) : last[0];
    const dt_fc hidden = {8, true}, scores = {classes, true};
    if (dt_roll(&m->dice, 2) == 0) {
        top = append(m, &dt_layer_flatten, NULL, &top, 1);
        top = append(m, &dt_layer_fc, &hidden, &top, 1);
        top = append(m, &dt_layer_relu, NULL, &top, 1);
    }
    top = append(m, &dt_layer_fc, &scores, &top, 1);
    append(m, &dt_layer_cross_entropy, NULL, &top, 1);
}

/* Every third network is a fused one. */
static dt_graph *fuse_at_times(dt_graph *g, uint64_t seed)
{
    dt_err err = {0};
    dt_graph *fused;
    if (seed % 3 != 0)
        return g;
    assert_ok(dt_graph_fuse(&fused, g, &err), &err);
    dt_graph_destroy(g);
    return fused;
}

dt_graph *dt_random_graph(uint64_t seed)
{
    maker m = {.dice = {seed, 0}};
    dt_err err = {0};
    const int64_t classes = 5, side = dt_roll(&m.dice, 3) == 0 ? 8 : 4;
    assert_ok(
        dt_graph_create(&m.g, "random", (dt_shape){1, side, side, CHANNELS}, classes, &err), &err);
    m.v[m.n++] = (value){DT_GRAPH_INPUT, side, false};
    const bool conv = dt_roll(&m.dice, 3) == 0;
    const int64_t layers = dt_roll_in(&m.dice, 3, 14);
    /* Something trained comes first mostly, so that gradients flow through what follows. */
    const int image = 0;
    if (conv && dt_roll(&m.dice, 4) != 0)
        add_conv(&m, image);
    else if (dt_roll(&m.dice, 4) != 0)
        append(&m, &dt_layer_batchnorm, &(dt_batchnorm){.eps = 1e-5, .momentum = 0.1}, &image, 1);
    for (int64_t i = 0; i < layers; i++)
        add_layer(&m, conv);
    finish(&m, classes);
    m.g = fuse_at_times(m.g, seed);
    assert_ok(dt_graph_check(m.g, &err), &err);
    return m.g;
}

int dt_most_readers(const dt_graph *g)
{
    int most = 0;
    for (size_t v = 0; v < g->n_node; v++) {
        int readers = 0;
        for (size_t i = v + 1; i < g->n_node; i++) {
            bool reads = false;
            for (int k = 0; k < g->node[i].n_in; k++)
                reads = reads || g->node[i].in[k] == (int32_t)v;
            readers += reads;
        }
        most = readers > most ? readers : most;
    }
    return most;
}
