/* dnntrain bench-codecs: how fast codecs pack and unpack here, beside copying the same bytes. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/alloc.h"
#include "engine/base/clock.h"
#include "engine/base/copy.h"
#include "engine/base/cpu.h"
#include "engine/base/isa.h"
#include "engine/base/numbers.h"
#include "engine/graph.h"
#include "engine/config/options.h"
#include "engine/base/philox.h"
#include "layers/cpu/cpu.h"
#include "layers/plain.h"
#include "memory/codec.h"
#include "memory/time/costs.h"
#include "tools/args.h"
#include "tools/json_out.h"

enum { REPEATS = 5, MOST_MIB = 16384, SEED = 1, DECIMALS = 4 };

static const double densities[] = {0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0};

/* The buffers: values, packed bytes, values again. */
typedef struct bench {
    size_t count, capacity;
    float *src, *back;
    uint8_t *packed;
    dt_graph *relu; /* a network of one ReLU over all values */
    dt_json *rows;  /* NULL: a table instead */
} bench;

/* What is measured: a codec or, without one, ReLU's mask of signs. */
typedef struct subject {
    const dt_codec *codec;
    const char *name;
    double density;
    size_t used;
} subject;

/* Gigabytes of values a second, and shares of what copying reached right before. Medians. */
typedef struct result {
    double copy, encode, decode, encode_share, decode_share;
} result;

static void fill(const bench *b, double density)
{
    const int64_t n = (int64_t)b->count;
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < n; i += 2) {
        const dt_u32x4 r = dt_random(SEED, DT_RANDOM_TEST, 0, 0, (uint64_t)i);
        for (int k = 0; k < 2 && i + k < n; k++)
            b->src[i + k] =
                (double)dt_unit(r.v[2 * k]) < density ? dt_unit(r.v[2 * k + 1]) + 0.5f : 0.0f;
    }
}

/* ReLU forward writes the mask beside its output; backward goes by the mask. */
static dt_status relu(const bench *b, dt_form_kind form, dt_err *err)
{
    const dt_call call = {
        .node = &b->relu->node[0], .graph = b->relu, .form = form, .alt = 1, .n = 1, .home_n = 1};
    dt_args a = {.n = 1, .port = {0}};
    a.port[form == DT_FORWARD ? DT_X : DT_DY] = b->src;
    a.port[form == DT_FORWARD ? DT_Y : DT_DX] = b->back;
    a.port[DT_S] = b->packed;
    return dt_relu_cpu.run(&call, NULL, &a, err);
}

static dt_status encode(const bench *b, subject *s, dt_err *err)
{
    if (s->codec == NULL) {
        s->used = (b->count + 7) / 8;
        return relu(b, DT_FORWARD, err);
    }
    if (!s->codec->encode(b->src, b->count, b->packed, b->capacity, &s->used))
        return DT_FAIL(
            err, DT_E_INTERNAL, "%s needs %zu bytes, more than its capacity", s->name, s->used);
    return DT_OK;
}

static dt_status decode(const bench *b, const subject *s, dt_err *err)
{
    if (s->codec == NULL)
        return relu(b, DT_BACKWARD, err);
    return s->codec->decode(b->packed, s->used, b->back, b->count, err);
}

/* Copying, packing and unpacking take turns, so that a machine busy with other things slows all of
 * them. The first round is for the caches and pages, and is not counted. */
static dt_status measure(const bench *b, subject *s, result *out, dt_err *err)
{
    double copy[REPEATS], pack[REPEATS], unpack[REPEATS], pack_share[REPEATS],
        unpack_share[REPEATS];
    const double gb = 4e-9 * (double)b->count;
    for (int i = -1; i < REPEATS; i++) {
        double t[4];
        t[0] = dt_seconds();
        dt_cpu_copy(b->back, b->src, 4 * b->count);
        t[1] = dt_seconds();
        DT_CHECK(encode(b, s, err));
        t[2] = dt_seconds();
        DT_CHECK(decode(b, s, err));
        t[3] = dt_seconds();
        if (i < 0)
            continue;
        copy[i] = gb / (t[1] - t[0]);
        pack[i] = gb / (t[2] - t[1]);
        unpack[i] = gb / (t[3] - t[2]);
        pack_share[i] = pack[i] / copy[i];
        unpack_share[i] = unpack[i] / copy[i];
    }
    *out = (result){dt_median(copy, REPEATS), dt_median(pack, REPEATS), dt_median(unpack, REPEATS),
        dt_median(pack_share, REPEATS), dt_median(unpack_share, REPEATS)};
    return DT_OK;
}

/* An exact codec gives back what it was given. */
static dt_status check(const bench *b, const subject *s, dt_err *err)
{
    if (s->codec != NULL && s->codec->exact && memcmp(b->src, b->back, 4 * b->count) != 0)
        return DT_FAIL(err, DT_E_INTERNAL, "%s did not give back the values", s->name);
    return DT_OK;
}

/* One more row: of a codec. */
static dt_json row_of(const bench *b, const char *codec)
{
    dt_json row = dt_json_element(b->rows);
    dt_json_text(&row, "codec", codec);
    return row;
}

static void report(const bench *b, const subject *s, const result *r)
{
    const double ratio = 4.0 * (double)b->count / (double)s->used;
    if (b->rows == NULL) {
        printf("%-10s %7.1f %8.3f %8.2f %8.2f %8.2f %7.0f %% %7.0f %%\n", s->name, s->density,
            ratio, r->copy, r->encode, r->decode, 100 * r->encode_share, 100 * r->decode_share);
        fflush(stdout);
        return;
    }
    dt_json row = row_of(b, s->name);
    dt_json_real(&row, "density", s->density, DECIMALS);
    dt_json_real(&row, "ratio", ratio, DECIMALS);
    dt_json_real(&row, "copy_gb_s", r->copy, DECIMALS);
    dt_json_real(&row, "encode_gb_s", r->encode, DECIMALS);
    dt_json_real(&row, "decode_gb_s", r->decode, DECIMALS);
    dt_json_real(&row, "encode_share", r->encode_share, DECIMALS);
    dt_json_real(&row, "decode_share", r->decode_share, DECIMALS);
    dt_json_leave(b->rows, &row);
}

/* Those whose bytes do not depend on the density are measured at one. */
static dt_status run_at(const bench *b, double density, bool dense, dt_err *err)
{
    size_t n;
    const dt_codec *const *all = dt_codec_all(&n);
    fill(b, density);
    for (size_t i = 0; i <= n; i++) {
        subject s = {i < n ? all[i] : NULL, i < n ? all[i]->name : "relu_mask", density, 0};
        result r;
        if (!dense && (s.codec == NULL || !s.codec->sparse))
            continue;
        DT_CHECK(measure(b, &s, &r, err));
        DT_CHECK(check(b, &s, err));
        report(b, &s, &r);
    }
    return DT_OK;
}

static dt_status prepare(bench *b, dt_err *err)
{
    size_t n;
    const dt_codec *const *all = dt_codec_all(&n);
    const int32_t in = DT_GRAPH_INPUT;
    int32_t id;
    for (size_t i = 0; i < n; i++) {
        const size_t most = all[i]->capacity(b->count, 1.0);
        b->capacity = most > b->capacity ? most : b->capacity;
    }
    b->src = dt_alloc(b->count, sizeof *b->src);
    b->back = dt_alloc(b->count, sizeof *b->back);
    b->packed = dt_alloc(b->capacity, 1);
    if (b->src == NULL || b->back == NULL || b->packed == NULL)
        return DT_FAIL(err, DT_E_NOMEM, "no memory for %zu values; take a smaller --mib", b->count);
    DT_CHECK(dt_graph_create(&b->relu, "bench", (dt_shape){1, 1, 1, (int64_t)b->count}, 1, err));
    return dt_graph_add(b->relu, &dt_layer_relu, "relu", NULL, &in, 1, &id, err);
}

static dt_status run_all(const bench *b, dt_err *err)
{
    if (b->rows == NULL)
        printf("gigabytes of values a second\n\n%-10s %7s %8s %8s %8s %8s %9s %9s\n", "codec",
            "density", "ratio", "copy", "encode", "decode", "of copy", "of copy");
    for (size_t i = 0; i < DT_COUNT(densities); i++)
        DT_CHECK(run_at(b, densities[i], i == 4, err));
    return DT_OK;
}

/* ---- how well seconds of codecs are predicted ---- */

static const double known[] = {0.2, 0.4, 0.6, 0.8, 1.0}, between[] = {0.3, 0.5, 0.7, 0.9};
enum { PARTS = 2, TRIALS = 4 * PARTS };

/* Seconds of a codec, packing and unpacking: of values that the table of costs has not seen, by
 * that table, by one line over the densities that it has, and measured. */
typedef struct trials {
    double table[2][TRIALS], line[2][TRIALS], measured[2][TRIALS];
} trials;

/* Those whose bytes depend on the density and that a policy may choose by that. */
static bool is_predicted(const dt_codec *c)
{
    return c->exact && c->sparse;
}

/* Least squares of seconds a byte over the densities of the table: *at + *slope · density. */
static void one_line(const dt_costs *c, const char *codec, bool pack, double *at, double *slope)
{
    double n = 0, x = 0, y = 0, xx = 0, xy = 0;
    for (size_t i = 0; i < DT_COUNT(known); i++) {
        const double d = known[i], s = 1 / dt_costs_rate(c, codec, d, pack);
        n++;
        x += d;
        y += s;
        xx += d * d;
        xy += d * s;
    }
    *slope = (n * xy - x * y) / (n * xx - x * x);
    *at = (y - *slope * x) / n;
}

/* The table as a profile makes it, of all of the values. */
static dt_status fill_table(const bench *b, dt_costs *c, dt_err *err)
{
    size_t n;
    const dt_codec *const *all = dt_codec_all(&n);
    for (size_t d = 0; d < DT_COUNT(known); d++) {
        fill(b, known[d]);
        for (size_t i = 0; i < n; i++) {
            subject s = {all[i], all[i]->name, known[d], 0};
            dt_codec_rate rate = {.density = known[d]};
            result r;
            if (!is_predicted(all[i]))
                continue;
            DT_CHECK(measure(b, &s, &r, err));
            snprintf(rate.codec, sizeof rate.codec, "%s", all[i]->name);
            rate.pack = 1e9 * r.encode;
            rate.unpack = 1e9 * r.decode;
            DT_CHECK(dt_costs_add_rate(c, &rate, err));
        }
    }
    return dt_costs_seal(c, err);
}

/* Of densities between those of the table, all of the values and a quarter of them. */
static dt_status try_codecs(const bench *b, const dt_costs *c, trials *of, dt_err *err)
{
    size_t n;
    const dt_codec *const *all = dt_codec_all(&n);
    for (size_t t = 0; t < TRIALS; t++) {
        bench part = *b;
        part.count = t % PARTS == 0 ? b->count : b->count / 4;
        const double density = between[t / PARTS], gb = 4e-9 * (double)part.count;
        fill(&part, density);
        for (size_t i = 0; i < n; i++) {
            subject s = {all[i], all[i]->name, density, 0};
            result r;
            if (!is_predicted(all[i]))
                continue;
            DT_CHECK(measure(&part, &s, &r, err));
            for (int way = 0; way < 2; way++) {
                double at, slope;
                one_line(c, s.name, way == 0, &at, &slope);
                of[i].table[way][t] = 1e9 * gb / dt_costs_rate(c, s.name, density, way == 0);
                of[i].line[way][t] = 1e9 * gb * (at + slope * density);
                of[i].measured[way][t] = gb / (way == 0 ? r.encode : r.decode);
            }
        }
    }
    return DT_OK;
}

static void report_errors(const bench *b, const char *name, const trials *of)
{
    double e[4];
    for (int way = 0; way < 2; way++) {
        e[way] = dt_relative_absolute_error(of->table[way], of->measured[way], TRIALS);
        e[2 + way] = dt_relative_absolute_error(of->line[way], of->measured[way], TRIALS);
    }
    if (b->rows == NULL) {
        printf("%-10s %8.1f %% %8.1f %% %8.1f %% %8.1f %%\n", name, 100 * e[0], 100 * e[1],
            100 * e[2], 100 * e[3]);
        return;
    }
    dt_json row = row_of(b, name);
    dt_json_real(&row, "encode_error", e[0], DECIMALS);
    dt_json_real(&row, "decode_error", e[1], DECIMALS);
    dt_json_real(&row, "encode_error_of_one_line", e[2], DECIMALS);
    dt_json_real(&row, "decode_error_of_one_line", e[3], DECIMALS);
    dt_json_leave(b->rows, &row);
}

static dt_status run_errors(const bench *b, dt_err *err)
{
    size_t n;
    const dt_codec *const *all = dt_codec_all(&n);
    dt_costs costs = dt_costs_default;
    trials *of = dt_alloc(n, sizeof *of);
    dt_status st = of != NULL ? fill_table(b, &costs, err)
                              : DT_FAIL(err, DT_E_NOMEM, "no memory for the results");
    if (st == DT_OK)
        st = try_codecs(b, &costs, of, err);
    if (st == DT_OK && b->rows == NULL)
        printf("relative absolute error of seconds, at densities and sizes not in the table\n\n"
               "%-10s %10s %10s %21s\n%-10s %10s %10s %10s %10s\n",
            "", "by the table", "", "by one line", "codec", "encode", "decode", "encode", "decode");
    for (size_t i = 0; st == DT_OK && i < n; i++)
        if (is_predicted(all[i]))
            report_errors(b, all[i]->name, &of[i]);
    dt_costs_deinit(&costs);
    dt_free(of);
    return st;
}

static dt_status run_either(bench *b, bool errors, dt_err *err)
{
    DT_CHECK(prepare(b, err));
    DT_CHECK(dt_cpu_check(0, err));
    const int threads = dt_cpu_setup(0);
    if (b->rows == NULL)
        printf("%zu MiB of values, %d thread%s, %s%s", b->count >> 18, threads,
            threads == 1 ? "" : "s", dt_isa_name(), errors ? "\n" : "; ");
    return errors ? run_errors(b, err) : run_all(b, err);
}

static dt_status run_with(const char *mib, bool json, bool errors, dt_err *err)
{
    int64_t n = 64;
    if (mib != NULL && (!dt_parse_i64(mib, &n) || n < 1 || n > MOST_MIB))
        return DT_FAIL(
            err, DT_E_CONFIG, "--mib %s: give a whole number from 1 to %d", mib, (int)MOST_MIB);
    dt_json rows = {NULL, false};
    if (json)
        rows = dt_json_begin_list();
    bench b = {.count = (size_t)n << 18, .rows = json ? &rows : NULL};
    dt_status st = run_either(&b, errors, err);
    if (st == DT_OK && json)
        st = dti_json_out(&rows, err);
    dt_json_drop(&rows);
    dt_graph_destroy(b.relu);
    dt_free(b.packed);
    dt_free(b.back);
    dt_free(b.src);
    return st;
}

static dt_status bench_codecs(const dti_command_args *a, dt_err *err)
{
    bool json = false, errors = false;
    const char *mib = NULL;
    const dti_flag flags[] = {
        {"--mib", "N", "mebibytes of values (default 64)", NULL, &mib},
        {"--errors", NULL,
            "how far predicted seconds of codecs are off: a relative absolute error each", &errors,
            NULL},
        {"--json", NULL, "an array of objects, one a codec and density", &json, NULL},
        {NULL, NULL, NULL, NULL, NULL},
    };
    dti_cli cli;
    dt_status st = dti_cli_init(&cli, &dt_command_bench_codecs, a, flags, false, 0, err);
    if (st == DT_OK && !cli.help)
        st = run_with(mib, json, errors, err);
    dti_cli_deinit(&cli);
    return st;
}

const dti_command dt_command_bench_codecs = {
    .name = "bench-codecs",
    .usage = "dnntrain bench-codecs [--mib N] [--errors] [--json]",
    .summary = "how fast codecs pack and unpack here, beside copying the same bytes",
    .run = bench_codecs,
};
