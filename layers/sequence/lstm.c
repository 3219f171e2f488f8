/* The LSTM: its options, shapes and what it keeps for backward. */
#include "layers/sequence/lstm.h"

#include <inttypes.h>
#include <math.h>

#include "layers/cpu/cpu.h"

enum { MOST_OUT = 1 << 16, GATES = 4 };

static const char *const kept[] = {"gates", "cells", NULL};

/* clang-format off */
#define AT(f) offsetof(dt_lstm, f)
static const dt_opt options[] = {
    {"out",  DT_OPT_I64,  AT(out),  NULL,    1, MOST_OUT, NULL, NULL, "channels of the state, and of the output"},
    {"bias", DT_OPT_BOOL, AT(bias), "on",    0, 0,        NULL, NULL, "add two values to each gate, as PyTorch does"},
    {"keep", DT_OPT_ENUM, AT(keep), "gates", 0, 0,        kept, NULL, "what is kept for backward; gates: gates and cells; cells: cells alone, a fifth of the bytes, from which gates are recomputed"},
    {0},
};
#undef AT
/* clang-format on */

/* Bytes that a sample keeps: of a position, one value of each channel of the state. */
static bool state_bytes(const dt_lstm *o, const dt_shape *x, size_t *bytes)
{
    *bytes = (size_t)o->out * sizeof(float);
    return dt_mul_bytes(*bytes, (size_t)x->h, bytes) && dt_mul_bytes(*bytes, (size_t)x->w, bytes) &&
           *bytes < SIZE_MAX >> 26;
}

static dt_status infer(
    const void *opts, const dt_shape *x, int n_x, dt_layer_info *info, dt_err *err)
{
    const dt_lstm *o = opts;
    size_t cells;
    (void)n_x;
    if (o->out < 1 || o->out > MOST_OUT)
        return DT_FAIL(
            err, DT_E_CONFIG, "lstm: out = %" PRId64 " must be 1 to %d", o->out, (int)MOST_OUT);
    if (!state_bytes(o, x, &cells))
        return DT_FAIL(err, DT_E_CONFIG,
            "lstm: what %" PRId64 " channels keep of %" PRId64 " x %" PRId64
            " positions is too large; shorten the sequence",
            o->out, x->h, x->w);
    const int64_t rows = GATES * o->out;
    const double product = 2.0 * (double)(x->h * x->w) * (double)rows * (double)(x->c + o->out);
    const dt_param_info param = {
        .rank = 1, .d = {rows}, .init = DT_INIT_UNIFORM, .scale = 1 / sqrt((double)o->out)};
    *info = (dt_layer_info){
        .y = {1, x->h, x->w, o->out},
        .n_param = o->bias ? 4 : 2,
        .param = {param, param, param, param},
        .n_stash = o->keep == DTI_LSTM_KEEP_GATES ? 2 : 1,
        .stash = {[DTI_LSTM_CELLS] = {.name = "cells", .sample_bytes = cells},
            [DTI_LSTM_GATES] = {.name = "gates", .sample_bytes = GATES * cells}},
        .forward_flops = product,
        .backward_flops = {(o->keep == DTI_LSTM_KEEP_GATES ? 2 : 3) * product},
    };
    static const char *const names[] = {"weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0"};
    for (int i = 0; i < info->n_param; i++)
        info->param[i].name = names[i];
    info->param[0].rank = info->param[1].rank = 2;
    info->param[0].d[1] = x->c;
    info->param[1].d[1] = o->out;
    return DT_OK;
}

/* Samples are computed apart, but the gradients of the parameters are summed over them. */
const dt_layer_desc dt_layer_lstm = {
    .name = "lstm",
    .summary = "long short-term memory over a sequence, one layer in one direction",
    .opts = options,
    .opts_bytes = sizeof(dt_lstm),
    .min_in = 1,
    .max_in = 1,
    .form =
        {
            [DT_FORWARD] = {.suffix = "f",
                .reads = DT_BIT(DT_X) | DT_BITS(DT_P, DT_MAX_PARAM),
                .writes = DT_BIT(DT_Y) | DT_BITS(DT_S, 2),
                .split = true},
            [DT_BACKWARD] = {.suffix = "b",
                .reads = DT_BIT(DT_DY) | DT_BITS(DT_P, DT_MAX_PARAM),
                .writes = DT_BIT(DT_DX) | DT_BITS(DT_DP, DT_MAX_PARAM),
                .saved = true},
        },
    .n_alt = 1,
    .alt = {{"x_y", DT_BIT(DT_X) | DT_BIT(DT_Y) | DT_BITS(DT_S, 2)}},
    .repeatable = true,
    .mixes_positions = true,
    .infer = infer,
    .cpu = &dt_lstm_cpu,
};
