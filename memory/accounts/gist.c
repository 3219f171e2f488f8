/* Gist's count (Jain and others, ISCA 2018, sections IV-C and V-A): what values and their gradients
 * take in CNTK where one allocator places them before the run, and how much less of that there is
 * when what waits for backward is encoded. Parameters, their gradients and workspaces are left out.
 *
 * A value lives from its op to the last that reads it. What backward reads is stashed; the rest is
 * short-lived, gradients too. CNTK's baseline lets all share bytes by its groups (pool
 * cntk_groups). In the baseline of the investigation what is stashed shares with nothing, so that
 * what an encoding saves is seen by itself. An encoded value lives short in forward, stashed as it
 * is encoded from its last reader in forward to its first in backward, and short again, decoded, to
 * its last. Where memory is allocated while the step runs (section V-H), the footprint is the most
 * that lives at once, beside CNTK's baseline.
 *
 * In that baseline much hangs on which of equal sizes is placed first, which CNTK leaves to
 * std::sort: over 400 orders at random VGG-16's is 0.82 to 0.98 of the investigation's. Requests
 * come as they are born and are sorted as the GNU library sorts (gnu_sort.h): figures 8 and 17 are
 * then within a tenth but for one bar of NiN, and with the earlier born first three more are
 * not. In the baseline of the investigation, whose requests are others, the earlier born first is
 * what figure 10 fits.
 *
 * What the paper leaves open is as in CNTK's source and examples where these tell. What a reader
 * fills shares with nothing (InputValueBase), and newer examples for ImageNet take the mean from it
 * in the network (VGG16_ImageNet.cntk; AlexNet.ndl still left that to the reader). So images are
 * there twice: as they were read, for the whole step, and less the mean, for the first
 * convolution's backward; both count as stashed. Where all that is stashed waits in few bits, those
 * less the mean do, and those as read, which nothing reads again, go: of four readings (they wait
 * in few bits too, stay whole, or never were there) it has the most of figures 8, 13 and 17.
 *
 * What backward of a response norm reads is not told either. Here it is what was normed alone, from
 * which the rest follows; with what it made as well, which cuDNN's op asks for, Inception in 10
 * bits would be 1.72 for the 1.92 of figure 8 and 2.83 for the 3.22 of figure 17.
 *
 * The rest was found by holding every reading against the twenty ratios of figure 10, all of which
 * this one has within a twentieth: the gradient of a ReLU's input lies over that of its output in
 * every column; dropout has a value of its own; what pools make stays as it is in figure 10, though
 * table I names it beside what ReLUs make. */
#include <stdlib.h>
#include <string.h>

#include "engine/base/alloc.h"
#include "memory/accounts/account.h"
#include "memory/accounts/gnu_sort.h"
#include "memory/pools/pool.h"

/* What backward of a layer reads. */
static const struct {
    const char *layer;
    bool in, out;
} facts[] = {{"conv", true, false}, {"fc", true, false}, {"linear", true, false},
    {"batchnorm", true, false}, {"maxpool", true, true}, {"lrn", true, false},
    {"relu", false, true}, {"dropout", false, false}, {"avgpool", false, false},
    {"global_avgpool", false, false}, {"adaptive_avgpool", false, false}, {"concat", false, false},
    {"add", false, false}};

/* Of one value, so that no sum overflows. */
#define MOST_BYTES (UINT64_MAX >> 24)

enum { WHOLE = 32, INDEX_BITS = 8, PLACE_BITS = 4, MOST_LIVES = 5 };

/**
 * struct encodings - which of the paper's are on.
 * @sparse: ReLU to convolution, rows of 256 as a sparse matrix
 * @binary: ReLU to max-pool, a bit a value and four of each maximum's place
 * @over:   a ReLU's output lies over its input
 * @bits:   of what else is stashed, and of the values of a sparse matrix; WHOLE: as they are
 */
typedef struct encodings {
    bool sparse, binary, over;
    int bits;
} encodings;

/**
 * struct feature_map - what a node makes; the image less the mean is one as well.
 * @node:   NULL: the image
 * @made @read @back: steps of its op, of the last one of forward that reads it, of its op's
 * backward
 * @grad:   of the first of backward that writes its gradient
 * @first @last: of the first and last of backward that read it; SIZE_MAX: none does
 * @over:   whether a ReLU is its only reader
 * @pools @convs: whether all its readers are max-pools; whether one is a convolution
 */
typedef struct feature_map {
    const dt_node *node;
    uint64_t bytes;
    size_t made, read, back, grad, first, last, readers;
    bool over, pools, convs;
} feature_map;

/* Bytes that live from a step on; below 0: that live no more. */
typedef struct moment {
    int64_t step;
    double bytes;
} moment;

/* Values by node, the image behind them; lives of one footprint, the id of those stashed is 1. */
typedef struct account {
    const dt_graph *g;
    size_t n;
    double density;
    feature_map *v;
    dt_interval *life, *apart;
    moment *moment; /* two of a life */
    size_t n_life;
} account;

static bool is(const dt_node *nd, const char *layer)
{
    return nd != NULL && strcmp(nd->desc->name, layer) == 0;
}

/* At step 0 the mean is taken from the images. Ops of forward are steps 1 to n, those of backward
 * n + 1 to 2 n. */
static size_t forward(size_t node)
{
    return 1 + node;
}

static size_t backward(const account *a, size_t node)
{
    return 2 * a->n - node;
}

/* The loss and what makes no value of its own have no part in it. */
static bool counts(const dt_node *nd)
{
    return !nd->desc->loss && !nd->desc->identity;
}

static feature_map *map_of(const account *a, int32_t id)
{
    const int32_t at = dt_graph_behind(a->g, id);
    return &a->v[at == DT_GRAPH_INPUT ? a->n : (size_t)at];
}

static size_t fact_of(const dt_node *nd)
{
    size_t k = 0;
    while (k < DT_COUNT(facts) && !is(nd, facts[k].layer))
        k++;
    return k;
}

/* ---- the network ---- */

static dt_status size_up(account *a, size_t at, int32_t id, int64_t batch, dt_err *err)
{
    const dt_shape s = dt_graph_shape(a->g, id);
    const uint64_t each = (uint64_t)batch * sizeof(float);
    if ((uint64_t)dt_shape_sample(&s) > MOST_BYTES / each)
        return DT_FAIL(err, DT_E_CONFIG, "%s: too many bytes to be counted",
            id == DT_GRAPH_INPUT ? "the input" : a->g->node[id].name);
    const bool image = at == a->n;
    const size_t made = image ? 0 : forward(at), back = backward(a, image ? 0 : at);
    a->v[at] = (feature_map){.node = id == DT_GRAPH_INPUT ? NULL : &a->g->node[id],
        .bytes = (uint64_t)dt_shape_sample(&s) * each,
        .made = made,
        .read = made,
        .back = back,
        .grad = back,
        .pools = true};
    return DT_OK;
}

static dt_status read_node(account *a, size_t i, dt_err *err)
{
    const dt_node *nd = &a->g->node[i];
    if (nd->with[0] != '\0')
        return dti_account_fused(nd, err);
    if (fact_of(nd) == DT_COUNT(facts))
        return DT_FAIL(err, DT_E_CONFIG,
            "%s, a %s: Gist's count is of convolutions, fully connected layers, ReLU, poolings, "
            "norms, dropout, concat and add",
            nd->name, nd->desc->name);
    for (int x = 0; x < nd->n_in; x++) {
        feature_map *in = map_of(a, nd->in[x]);
        in->readers++;
        in->read = forward(i);
        in->grad = backward(a, i); /* of its readers the last one's backward is the first */
        in->over = in->readers == 1 && in->node != NULL && is(nd, "relu");
        in->pools = in->pools && is(nd, "maxpool");
        in->convs = in->convs || is(nd, "conv");
    }
    return DT_OK;
}

static dt_status read_graph(account *a, int64_t batch, dt_err *err)
{
    DT_CHECK(size_up(a, a->n, DT_GRAPH_INPUT, batch, err));
    for (size_t i = 0; i < a->n; i++) {
        DT_CHECK(size_up(a, i, (int32_t)i, batch, err));
        if (counts(&a->g->node[i]))
            DT_CHECK(read_node(a, i, err));
    }
    return DT_OK;
}

/* ---- what waits for backward ---- */

/* A ReLU of which backward asks the sign alone. */
static bool is_binary(const feature_map *v, encodings e)
{
    return e.binary && is(v->node, "relu") && v->readers > 0 && v->pools;
}

/* A max-pool of such a one: four bits for the place of each maximum are all that it asks. */
static bool is_placed(const account *a, const feature_map *v, encodings e)
{
    return is(v->node, "maxpool") && is_binary(map_of(a, v->node->in[0]), e);
}

static void read_at(feature_map *v, size_t step)
{
    v->first = v->first == SIZE_MAX ? step : v->first;
    v->last = step;
}

/* Backward in its order. */
static void find_reads(account *a, encodings e)
{
    for (size_t k = 0; k <= a->n; k++)
        a->v[k].first = a->v[k].last = SIZE_MAX;
    for (size_t i = a->n; i-- > 0;) {
        feature_map *v = &a->v[i];
        if (!counts(v->node) || is_placed(a, v, e))
            continue;
        const size_t k = fact_of(v->node);
        if (facts[k].out && !is_binary(v, e))
            read_at(v, backward(a, i));
        for (int x = 0; facts[k].in && x < v->node->n_in; x++)
            read_at(map_of(a, v->node->in[x]), backward(a, i));
    }
}

/* A word in so many bits; formats of ten are three a word. */
static double share(int bits)
{
    return 1.0 / (WHOLE / bits);
}

/* What a stashed value takes until backward reads it, as part of itself; 1: it stays as it is. */
static double encoded(const account *a, const feature_map *v, encodings e)
{
    const double matrix = a->density * (share(e.bits) + (double)INDEX_BITS / WHOLE);
    if (e.sparse && is(v->node, "relu") && v->convs && matrix < share(e.bits))
        return matrix;
    return share(e.bits);
}

/* ---- lives ---- */

static void live(account *a, double bytes, size_t first, size_t last, bool stashed)
{
    a->life[a->n_life++] = (dt_interval){.lower = (int64_t)first,
        .upper = (int64_t)last + 1,
        .bytes = (uint64_t)bytes,
        .align = 1,
        .id = stashed};
}

static void live_value(account *a, const feature_map *v, encodings e)
{
    const double bytes = (double)v->bytes, as = encoded(a, v, e);
    const bool lies_over = e.over && is(v->node, "relu") && map_of(a, v->node->in[0])->over;
    const size_t made = lies_over ? map_of(a, v->node->in[0])->made : v->made;
    if (is_binary(v, e))
        live(a, bytes / WHOLE, v->read, v->back, true);
    if (is_placed(a, v, e))
        live(a, bytes * PLACE_BITS / WHOLE, made, v->back, true);
    if (v->first != SIZE_MAX && as >= 1) {
        live(a, bytes, made, v->last, true);
        return;
    }
    if (!(e.over && v->over && v->first == SIZE_MAX))
        live(a, bytes, made, v->read, false);
    if (v->first == SIZE_MAX)
        return;
    live(a, bytes * as, v->read, v->first, true);
    live(a, bytes, v->first, v->last, false);
}

/* A ReLU's gradient lies over the one that it is made from. */
static void live_gradient(account *a, const feature_map *v)
{
    if (v->node == NULL || (is(v->node, "relu") && map_of(a, v->node->in[0])->over))
        return;
    const size_t from = v->over ? a->v[v->read - forward(0)].grad : v->grad;
    live(a, (double)v->bytes, from, v->back, false);
}

/* As they were read: no op has a use for them after step 0. So where few bits make the lives of
 * what is stashed anew, to the last that reads it, nothing of them waits. */
static void live_images(account *a, encodings e)
{
    const bool stay = e.bits == WHOLE;
    live(a, (double)a->v[a->n].bytes, 0, stay ? backward(a, 0) : 0, stay);
}

static void live_all(account *a, encodings e)
{
    a->n_life = 0;
    find_reads(a, e);
    live_images(a, e);
    for (size_t k = 0; k <= a->n; k++) {
        if (k < a->n && !counts(a->v[k].node))
            continue;
        live_value(a, &a->v[k], e);
        live_gradient(a, &a->v[k]);
    }
}

/* ---- footprints ---- */

static int earlier_born(const void *a, const void *b)
{
    const dt_interval *x = a, *y = b;
    if (x->lower != y->lower)
        return x->lower < y->lower ? -1 : 1;
    return (x->off > y->off) - (x->off < y->off);
}

/* Those born at one step stay as they are listed. */
static void by_birth(dt_interval *life, size_t n)
{
    for (size_t i = 0; i < n; i++)
        life[i].off = i;
    qsort(life, n, sizeof *life, earlier_born);
}

static dt_status groups(dt_interval *life, size_t n, double *bytes, dt_err *err)
{
    uint64_t peak = 0;
    DT_CHECK(dt_pool_find("cntk_groups")->place(life, n, &peak, err));
    *bytes = (double)peak;
    return DT_OK;
}

/* All share. */
static dt_status shared(account *a, encodings e, double *bytes, dt_err *err)
{
    live_all(a, e);
    by_birth(a->life, a->n_life);
    dti_gnu_sort_largest_first(a->life, a->n_life);
    return groups(a->life, a->n_life, bytes, err);
}

/* What is stashed shares with nothing. */
static dt_status apart(account *a, encodings e, double *stashed, double *rest, dt_err *err)
{
    size_t n = 0;
    *stashed = 0;
    live_all(a, e);
    for (size_t i = 0; i < a->n_life; i++)
        if (a->life[i].id != 0)
            *stashed += (double)a->life[i].bytes;
        else
            a->apart[n++] = a->life[i];
    by_birth(a->apart, n);
    return groups(a->apart, n, rest, err);
}

static int by_step(const void *a, const void *b)
{
    const int64_t x = ((const moment *)a)->step, y = ((const moment *)b)->step;
    return (x > y) - (x < y);
}

/* The most that lives at once. */
static double dynamic(account *a, encodings e)
{
    size_t n = 0;
    live_all(a, e);
    for (size_t i = 0; i < a->n_life; i++) {
        const dt_interval *l = &a->life[i];
        a->moment[n++] = (moment){l->lower, (double)l->bytes};
        a->moment[n++] = (moment){l->upper, -(double)l->bytes};
    }
    qsort(a->moment, n, sizeof *a->moment, by_step);
    double now = 0, most = 0;
    for (size_t i = 0; i < n; i++) {
        now += a->moment[i].bytes;
        const bool whole = i + 1 == n || a->moment[i + 1].step > a->moment[i].step;
        most = whole && now > most ? now : most;
    }
    return most;
}

/* ---- the account ---- */

enum {
    STASHED,
    SHORT_LIVED,
    SHARED,
    SPARSE,
    BINARY,
    BOTH,
    LOSSLESS,
    HALF,
    TEN,
    EIGHT,
    SHARED_LOSSLESS,
    FULL_HALF,
    FULL_TEN,
    FULL_EIGHT,
    DYNAMIC,
    DYNAMIC_LOSSLESS,
    DYNAMIC_HALF,
    DYNAMIC_TEN,
    DYNAMIC_EIGHT
};

static const dt_account_figure figures[] = {
    [STASHED] = {"stashed", "MiB", "of the images and the values that backward reads, none shared"},
    [SHORT_LIVED] = {"short_lived", "MiB", "of other values and gradients, in groups"},
    [SHARED] = {"shared", "MiB", "of all of them, in groups: CNTK's baseline"},
    [SPARSE] = {"sparse", "", "times less where only ReLU to convolution is encoded (figure 10)"},
    [BINARY] = {"binary", "", "where only ReLU to max-pool is"},
    [BOTH] = {"both", "", "where both are"},
    [LOSSLESS] = {"lossless", "", "and a ReLU's output lies over its input"},
    [HALF] = {"dpr16", "",
        "where all that is stashed waits in 16 bits, and nothing else (figure 13)"},
    [TEN] = {"dpr10", "", "in 10 bits, three a word"},
    [EIGHT] = {"dpr8", "", "in 8 bits"},
    [SHARED_LOSSLESS] = {"shared_lossless", "", "lossless, in groups of all (figure 8)"},
    [FULL_HALF] = {"shared_full16", "", "and in 16 bits what else is stashed"},
    [FULL_TEN] = {"shared_full10", "", "in 10 bits"},
    [FULL_EIGHT] = {"shared_full8", "", "in 8 bits"},
    [DYNAMIC] = {"dynamic", "", "times less at once than CNTK's baseline (figure 17)"},
    [DYNAMIC_LOSSLESS] = {"dynamic_lossless", "", "lossless"},
    [DYNAMIC_HALF] = {"dynamic_full16", "", "and in 16 bits what else is stashed"},
    [DYNAMIC_TEN] = {"dynamic_full10", "", "in 10 bits"},
    [DYNAMIC_EIGHT] = {"dynamic_full8", "", "in 8 bits"},
};

static const encodings of_figure[] = {
    [SPARSE] = {true, false, false, WHOLE},
    [BINARY] = {false, true, false, WHOLE},
    [BOTH] = {true, true, false, WHOLE},
    [LOSSLESS] = {true, true, true, WHOLE},
    [HALF] = {false, false, false, 16},
    [TEN] = {false, false, false, 10},
    [EIGHT] = {false, false, false, 8},
    [SHARED_LOSSLESS] = {true, true, true, WHOLE},
    [FULL_HALF] = {true, true, true, 16},
    [FULL_TEN] = {true, true, true, 10},
    [FULL_EIGHT] = {true, true, true, 8},
    [DYNAMIC] = {false, false, false, WHOLE},
    [DYNAMIC_LOSSLESS] = {true, true, true, WHOLE},
    [DYNAMIC_HALF] = {true, true, true, 16},
    [DYNAMIC_TEN] = {true, true, true, 10},
    [DYNAMIC_EIGHT] = {true, true, true, 8},
};

static dt_status count_lives(account *a, double *value, dt_err *err)
{
    const encodings none = {.bits = WHOLE};
    double stashed, rest, all, own;
    DT_CHECK(apart(a, none, &stashed, &rest, err));
    DT_CHECK(shared(a, none, &all, err));
    const double baseline = stashed + rest, mib = 1 << 20;
    value[STASHED] = stashed / mib;
    value[SHORT_LIVED] = rest / mib;
    value[SHARED] = all / mib;
    for (int f = SPARSE; f < SHARED_LOSSLESS; f++) {
        DT_CHECK(apart(a, of_figure[f], &stashed, &rest, err));
        value[f] = baseline / (stashed + rest);
    }
    for (int f = SHARED_LOSSLESS; f < DYNAMIC; f++) {
        DT_CHECK(shared(a, of_figure[f], &own, err));
        value[f] = all / own;
    }
    for (int f = DYNAMIC; f < (int)DT_COUNT(figures); f++)
        value[f] = all / dynamic(a, of_figure[f]);
    return DT_OK;
}

static dt_status count(const dt_graph *g, const dt_account_ask *ask, double *value, dt_err *err)
{
    const size_t n = g->n_node, most = MOST_LIVES * (n + 1);
    account a = {.g = g,
        .n = n,
        .density = ask->density,
        .v = dt_alloc(n + 1, sizeof *a.v),
        .life = dt_alloc(most, sizeof *a.life),
        .apart = dt_alloc(most, sizeof *a.apart),
        .moment = dt_alloc(2 * most, sizeof *a.moment)};
    dt_status st = a.v != NULL && a.life != NULL && a.apart != NULL && a.moment != NULL
                       ? read_graph(&a, ask->batch, err)
                       : DT_FAIL(err, DT_E_NOMEM, "no memory to count %zu layers", n);
    if (st == DT_OK)
        st = count_lives(&a, value, err);
    dt_free(a.v);
    dt_free(a.life);
    dt_free(a.apart);
    dt_free(a.moment);
    return st;
}

const dt_account_desc dt_account_gist = {
    .name = "gist",
    .summary = "Gist's footprints in CNTK: groups, and how much less by each encoding (2018)",
    .n = DT_COUNT(figures),
    .figure = figures,
    .count = count,
};
