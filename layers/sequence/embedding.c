/* A row of a table for each token. */
#include "layers/sequence/embedding.h"

#include <inttypes.h>

#include "layers/cpu/cpu.h"

/* Token ids are floats, exact to 2^24. */
enum { MOST_VOCAB = 1 << 24, MOST_OUT = 1 << 20 };

/* clang-format off */
#define AT(f) offsetof(dt_embedding, f)
static const dt_opt options[] = {
    {"vocab", DT_OPT_I64, AT(vocab), NULL, 1, MOST_VOCAB, NULL, "tokens", "number of different tokens"},
    {"out",   DT_OPT_I64, AT(out),   NULL, 1, MOST_OUT,   NULL, NULL,     "channels of a token's vector"},
    {"sigma", DT_OPT_F64, AT(sigma), "1",  0, 1e3,        NULL, NULL,     "standard deviation of the initial weights"},
    {"first", DT_OPT_I64, AT(first), "0",  0, MOST_VOCAB, NULL, "tokens", "of a tile of the vocabulary, its first token; tokens of other tiles give 0"},
    {"rows",  DT_OPT_I64, AT(rows),  "0",  0, MOST_VOCAB, NULL, "tokens", "of a tile of the vocabulary, its number of tokens; 0: all from first on"},
    {0},
};
#undef AT
/* clang-format on */

static dt_status infer(
    const void *opts, const dt_shape *x, int n_x, dt_layer_info *info, dt_err *err)
{
    const dt_embedding *o = opts;
    (void)n_x;
    if (o->vocab < 1 || o->vocab > MOST_VOCAB || o->out < 1 || o->out > MOST_OUT)
        return DT_FAIL(err, DT_E_CONFIG,
            "embedding: vocab = %" PRId64 " and out = %" PRId64 " must be 1 to %d and 1 to %d",
            o->vocab, o->out, (int)MOST_VOCAB, (int)MOST_OUT);
    if (o->first < 0 || o->rows < 0 || o->first >= o->vocab || o->rows > o->vocab - o->first)
        return DT_FAIL(err, DT_E_CONFIG,
            "embedding: tokens from first = %" PRId64 " on, rows = %" PRId64
            ", are not within the %" PRId64 " that there are",
            o->first, o->rows, o->vocab);
    if (x[0].c != 1)
        return DT_FAIL(err, DT_E_CONFIG,
            "embedding: takes one token a position, but there are %" PRId64 " channels", x[0].c);
    *info = (dt_layer_info){
        .y = {1, x[0].h, x[0].w, o->out},
        .n_param = 1,
        .param = {{.name = "weight",
            .rank = 2,
            .d = {dti_embedding_rows(o), o->out},
            .init = DT_INIT_NORMAL,
            .scale = o->sigma}},
        .backward_flops = {(double)(x[0].h * x[0].w) * (double)o->out},
        .ids = o->vocab,
    };
    return DT_OK;
}

const dt_layer_desc dt_layer_embedding = {
    .name = "embedding",
    .summary = "a vector for each token",
    .opts = options,
    .opts_bytes = sizeof(dt_embedding),
    .min_in = 1,
    .max_in = 1,
    .form =
        {
            [DT_FORWARD] = {.suffix = "f",
                .reads = DT_BIT(DT_X) | DT_BIT(DT_P),
                .writes = DT_BIT(DT_Y),
                .split = true},
            [DT_BACKWARD] =
                {.suffix = "bw", .reads = DT_BIT(DT_DY), .writes = DT_BIT(DT_DP), .saved = true},
        },
    .n_alt = 1,
    .alt = {{"x", DT_BIT(DT_X)}},
    .reads_ids = true,
    .repeatable = true,
    .infer = infer,
    .cpu = &dt_embedding_cpu,
};
