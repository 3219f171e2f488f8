/* Additive attention: its options, shapes and what it keeps for backward. */
#include "layers/sequence/additive_attention.h"

#include <inttypes.h>
#include <math.h>

#include "layers/cpu/cpu.h"

enum { MOST_HIDDEN = 1 << 16 };

static const char *const kinds[] = {"efficient", "naive", NULL};

/* clang-format off */
#define AT(f) offsetof(dt_additive_attention, f)
static const dt_opt options[] = {
    {"hidden", DT_OPT_I64,  AT(hidden), NULL,        1, MOST_HIDDEN, NULL,  NULL, "width of the small network that computes scores"},
    {"causal", DT_OPT_BOOL, AT(causal), "off",       0, 0,           NULL,  NULL, "a query sees only the keys up to its own position"},
    {"kind",   DT_OPT_ENUM, AT(kind),   "efficient", 0, 0,           kinds, NULL, "naive keeps the hidden values of each pair of positions for backward; efficient recomputes them"},
    {0},
};
#undef AT
/* clang-format on */

/* Bytes of a sample: of the positions of one input, times what. */
static bool positions_bytes(const dt_shape *x, size_t each, size_t *bytes)
{
    return dt_mul_bytes(each, (size_t)x->h, bytes) && dt_mul_bytes(*bytes, (size_t)x->w, bytes) &&
           *bytes < SIZE_MAX >> 26;
}

/* Of pairs of positions, and of hidden values of each pair; false: those, or what is computed on
 * the way, are too many. */
static bool stash_bytes(
    const dt_additive_attention *o, const dt_shape *x, size_t *prob, size_t *all)
{
    const size_t hidden = (size_t)o->hidden * sizeof(float);
    size_t part;
    return positions_bytes(&x[0], hidden, &part) && positions_bytes(&x[1], hidden, &part) &&
           positions_bytes(&x[0], sizeof(float), prob) && positions_bytes(&x[1], *prob, prob) &&
           dt_mul_bytes(*prob, (size_t)o->hidden, all) &&
           (o->kind == DTI_ATTENTION_EFFICIENT || *all < SIZE_MAX >> 26);
}

static dt_param_info weight(const char *name, int64_t rows, int64_t in)
{
    return (dt_param_info){.name = name,
        .rank = rows > 0 ? 2 : 1,
        .d = {rows > 0 ? rows : in, rows > 0 ? in : 0},
        .init = DT_INIT_UNIFORM,
        .scale = 1 / sqrt((double)in)};
}

static dt_status infer(
    const void *opts, const dt_shape *x, int n_x, dt_layer_info *info, dt_err *err)
{
    const dt_additive_attention *o = opts;
    const bool naive = o->kind == DTI_ATTENTION_NAIVE;
    size_t prob, all;
    (void)n_x;
    if (o->hidden < 1 || o->hidden > MOST_HIDDEN)
        return DT_FAIL(err, DT_E_CONFIG, "additive_attention: hidden = %" PRId64 " must be 1 to %d",
            o->hidden, (int)MOST_HIDDEN);
    if (!stash_bytes(o, x, &prob, &all))
        return DT_FAIL(err, DT_E_CONFIG,
            "additive_attention: what %" PRId64 " queries keep of %" PRId64 " keys is too large%s",
            x[1].h * x[1].w, x[0].h * x[0].w, naive ? "; take kind = efficient" : "");
    const double keys = (double)(x[0].h * x[0].w), queries = (double)(x[1].h * x[1].w);
    const double hidden = (double)o->hidden, seen = o->causal ? 0.5 : 1;
    const double project = 2 * hidden * (keys * (double)x[0].c + queries * (double)x[1].c);
    const double pairs = keys * queries, sums = 2 * pairs * (double)x[0].c;
    *info = (dt_layer_info){
        .y = {1, x[1].h, x[1].w, x[0].c},
        .n_param = 3,
        .param = {weight("key_weight", o->hidden, x[0].c),
            weight("query_weight", o->hidden, x[1].c), weight("score_weight", 0, o->hidden)},
        .n_stash = naive ? 2 : 1,
        .stash = {[DTI_ADDITIVE_PROB] = {.name = "prob", .sample_bytes = prob},
            [DTI_ADDITIVE_TANH] = {.name = "tanh", .sample_bytes = all}},
        .forward_flops = project + sums + 4 * seen * pairs * hidden,
        .backward_flops = {(naive ? 2 : 3) * project + 2 * sums +
                           (naive ? 6 : 8) * seen * pairs * hidden},
    };
    return DT_OK;
}

/* Samples are computed apart, but the gradients of the parameters are summed over them. */
const dt_layer_desc dt_layer_additive_attention = {
    .name = "additive_attention",
    .summary =
        "attention of queries (second input) to keys (first input) by a small network's scores",
    .opts = options,
    .opts_bytes = sizeof(dt_additive_attention),
    .min_in = 2,
    .max_in = 2,
    .form =
        {
            [DT_FORWARD] = {.suffix = "f",
                .reads = DT_BIT(DT_X) | DT_BITS(DT_P, 3),
                .writes = DT_BIT(DT_Y) | DT_BITS(DT_S, 2),
                .split = true},
            [DT_BACKWARD] = {.suffix = "b",
                .reads = DT_BIT(DT_DY) | DT_BITS(DT_P, 3),
                .writes = DT_BIT(DT_DX) | DT_BITS(DT_DP, 3),
                .saved = true},
        },
    .n_alt = 1,
    .alt = {{"x", DT_BIT(DT_X) | DT_BITS(DT_S, 2)}},
    .repeatable = true,
    .mixes_positions = true,
    .infer = infer,
    .cpu = &dt_additive_attention_cpu,
};
