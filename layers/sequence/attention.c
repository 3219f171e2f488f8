/* Attention: its options, shapes and what it keeps for backward. */
#include "layers/sequence/attention.h"

#include <inttypes.h>

#include "layers/cpu/cpu.h"
#include "layers/forms.h"

enum { MOST_HEADS = 1 << 16 };

static const char *const kinds[] = {"efficient", "naive", NULL};

/* clang-format off */
#define AT(f) offsetof(dt_attention, f)
static const dt_opt options[] = {
    {"heads",  DT_OPT_I64,  AT(heads),  "1",         1, MOST_HEADS, NULL,  NULL, "number of attention heads"},
    {"causal", DT_OPT_BOOL, AT(causal), "off",       0, 0,          NULL,  NULL, "a position sees only itself and those before it"},
    {"kind",   DT_OPT_ENUM, AT(kind),   "efficient", 0, 0,          kinds, NULL, "naive keeps all probabilities for backward; efficient recomputes them, tile by tile"},
    {0},
};
#undef AT
/* clang-format on */

static dt_status check(const dt_attention *o, const dt_shape *x, dt_err *err)
{
    if (x->c % 3 != 0)
        return DT_FAIL(err, DT_E_CONFIG,
            "attention: takes q, k and v of each position: a multiple of 3 channels");
    if (o->heads < 1 || o->heads > MOST_HEADS || x->c / 3 % o->heads != 0)
        return DT_FAIL(err, DT_E_CONFIG,
            "attention: heads = %" PRId64 " does not divide %" PRId64 " channels", o->heads,
            x->c / 3);
    return DT_OK;
}

/* Bytes that a sample keeps for backward besides x and y. */
static bool stash_bytes(const dt_attention *o, const dt_shape *x, size_t *bytes)
{
    const size_t t = (size_t)(x->h * x->w);
    *bytes = (size_t)o->heads * sizeof(float);
    return dt_mul_bytes(*bytes, t, bytes) &&
           (o->kind == DTI_ATTENTION_EFFICIENT || dt_mul_bytes(*bytes, t, bytes)) &&
           *bytes < SIZE_MAX >> 24;
}

static dt_status infer(
    const void *opts, const dt_shape *x, int n_x, dt_layer_info *info, dt_err *err)
{
    const dt_attention *o = opts;
    const bool naive = o->kind == DTI_ATTENTION_NAIVE;
    size_t bytes;
    (void)n_x;
    DT_CHECK(check(o, &x[0], err));
    if (!stash_bytes(o, &x[0], &bytes))
        return DT_FAIL(err, DT_E_CONFIG,
            "attention: what %" PRId64 " heads keep of %" PRId64 " positions is too large%s",
            o->heads, x[0].h * x[0].w, naive ? "; take kind = efficient" : "");
    const double c = (double)(x[0].c / 3), t = (double)(x[0].h * x[0].w), product = 2 * t * t * c;
    *info = (dt_layer_info){
        .y = {1, x[0].h, x[0].w, x[0].c / 3},
        .n_stash = 1,
        .stash = {{.name = naive ? "prob" : "lse", .sample_bytes = bytes}},
        .forward_flops = 2 * product * (o->causal && !naive ? 0.5 : 1),
        .backward_flops = {(naive ? 4 : 5) * product * (o->causal ? 0.5 : 1)},
    };
    return DT_OK;
}

/* Samples and heads are computed apart from each other, so both forms may be split. */
const dt_layer_desc dt_layer_attention = {
    .name = "attention",
    .summary = "multi-head attention, causal or not, of packed q, k and v",
    .opts = options,
    .opts_bytes = sizeof(dt_attention),
    .min_in = 1,
    .max_in = 1,
    .form = DTI_SAVED_FORMS(DT_BIT(DT_S)),
    .n_alt = 1,
    .alt = {{"x_y", DT_BIT(DT_X) | DT_BIT(DT_Y) | DT_BIT(DT_S)}},
    .repeatable = true,
    .mixes_positions = true,
    .infer = infer,
    .cpu = &dt_attention_cpu,
};
