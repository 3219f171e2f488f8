/* Costs: a sorted table of what was measured, and what stands in where nothing was. */
#include "memory/time/costs.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/alloc.h"
#include "engine/base/mix.h"
#include "engine/base/numbers.h"
#include "engine/base/numbers_text.h"
#include "engine/base/text.h"
#include "memory/codec.h"

#define ONES                                                                                       \
    {                                                                                              \
        1, 1, 1, 1, 1, 1                                                                           \
    }
#define EVEN                                                                                       \
    {                                                                                              \
        ONES, ONES, ONES, ONES, ONES, ONES                                                         \
    }
_Static_assert(DT_USUAL_STREAMS == 6, "a one for each pair");

#define LINKS                                                                                      \
    {                                                                                              \
        [DT_TIER_INPUT] = {{0, 8e9}, {0, 8e9}}, [DT_TIER_HOST] = {{0, 8e9}, {0, 8e9}},             \
        [DT_TIER_DISK] = {                                                                         \
            {0, 1.6e9},                                                                            \
            {0, 1.6e9}                                                                             \
        }                                                                                          \
    }

#define RATE                                                                                       \
    {                                                                                              \
        2e11, 2e11                                                                                 \
    }

const dt_costs dt_costs_default = {.name = "defaults",
    .flops = {[DT_WORK_MATRIX] = RATE,
        [DT_WORK_CONV] = RATE,
        [DT_WORK_CONV_POINTWISE] = RATE,
        [DT_WORK_CONV_DEPTHWISE] = RATE,
        [DT_WORK_CONV_SMALL] = {2e11 / 1.5, 2e11 / 1.5}},
    .bytes = 2e10,
    .host = 2e10,
    .slower = 0.5,
    .codec = 5e9,
    .link = LINKS,
    .thread_link = LINKS,
    .slow = EVEN,
    .scale = 1};

bool dt_costs_known(const dt_costs *c)
{
    return c->simulated || c->hash[0] != '\0';
}

const char *dt_costs_word(const dt_costs *c)
{
    return c->simulated ? "simulated" : dt_costs_known(c) ? "measured" : "defaults";
}

const char *dt_costs_said(const dt_costs *c)
{
    return c->simulated ? "simulated" : "predicted";
}

const char *dt_cost_source_name(int s)
{
    static const char *const name[DT_COST_SOURCES] = {
        "measured", "between", "scaled", "kind", "floor"};
    return s >= 0 && s < DT_COST_SOURCES ? name[s] : "?";
}

/* ---- what an op is ---- */

static const char *const form_names[DT_FORMS] = {
    "f", "recompute", "eval", "b", "b2", "derive", "derive_b", "restore", "update"};

/* Ports whose bytes say which shapes an op has. The others follow from them. */
static const struct {
    uint8_t port, n;
    bool sample; /* of each sample */
    const char *name;
} telling[] = {
    {DT_X, DT_MAX_IN, true, "x"},
    {DT_DX, DT_MAX_IN, true, "dx"},
    {DT_P, DT_MAX_PARAM, false, "p"},
    {DT_DP, DT_MAX_PARAM, false, "dp"},
    {DT_Y, 1, true, "y"},
    {DT_DY, 1, true, "dy"},
};

static size_t put(char *to, size_t at, const char *text)
{
    const size_t n = strlen(text);
    if (at + n < DT_SIGNATURE_BYTES)
        memcpy(to + at, text, n + 1);
    return at + n;
}

/* A text that is too long ends in a number that tells it from others: behind what of it there is,
 * which is less where a whole piece did not fit. */
static void shorten(char *to, size_t whole, uint64_t hash)
{
    enum { NUMBER = 20 };
    const size_t there = strlen(to), most = DT_SIGNATURE_BYTES - NUMBER;
    if (whole >= DT_SIGNATURE_BYTES)
        snprintf(to + (there < most ? there : most), NUMBER, "~%016" PRIx64, hash);
}

typedef struct line {
    char *to;
    size_t at;
    uint64_t hash;
} line;

static void say(line *s, const char *text)
{
    s->hash = dt_fnv_add(s->hash, text, strlen(text));
    s->at = put(s->to, s->at, text);
}

static void say_arg(line *s, const dt_plan_arg *a, int64_t samples)
{
    char text[64];
    for (size_t k = 0; k < DT_COUNT(telling); k++) {
        if (a->port < telling[k].port || a->port >= telling[k].port + telling[k].n)
            continue;
        const double bytes = (double)(a->to - a->from);
        const double each = telling[k].sample && samples > 0 ? bytes / (double)samples : bytes;
        dt_snprintf(text, sizeof text, " %s%.9g", telling[k].name, each);
        say(s, text);
    }
}

void dt_cost_signature(
    const dt_plan *p, const dt_plan_op *op, char to[DT_SIGNATURE_BYTES], int64_t *samples)
{
    char text[192];
    line s = {to, 0, DT_FNV};
    to[0] = '\0';
    *samples = op->node >= 0 ? op->n1 - op->n0 : 0;
    snprintf(text, sizeof text, "%s.%s %s alt%d%s%s%s%s ", op->layer,
        op->form < DT_FORMS ? form_names[op->form] : "?", dt_dtype_name((dt_dtype)op->dtype),
        op->alt, dt_plan_beside(p, op) ? " host" : "", op->needs_dx ? " dx" : "",
        op->vector ? " vector " : " ", op->algorithm);
    say(&s, text);
    if (op->node >= 0 && (size_t)op->node < p->n_node)
        say(&s, p->text + p->node[op->node].opts);
    for (int32_t i = op->first; i < op->first + op->n; i++)
        say_arg(&s, &p->arg[i], *samples);
    shorten(to, s.at, s.hash);
}

/* ---- the floor ---- */

static dt_work work_of(const dt_plan *p, const dt_plan_op *op)
{
    if (op->node < 0 || (size_t)op->node >= p->n_node)
        return DT_WORK_MATRIX;
    const dt_work work = p->node[op->node].work;
    const bool transformed = work == DT_WORK_CONV || work == DT_WORK_CONV_POINTWISE;
    return transformed && op->limit == DT_LIMIT_LEAST ? DT_WORK_CONV_SMALL : work;
}

double dt_costs_floor(const dt_costs *c, const dt_plan *p, const dt_plan_op *op)
{
    double bytes = 0;
    for (int32_t i = op->first; i < op->first + op->n; i++)
        if (p->arg[i].port != DT_WORK)
            bytes +=
                (double)(p->arg[i].to - p->arg[i].from) * (p->arg[i].mode == DT_UPDATES ? 2 : 1);
    if (dt_plan_beside(p, op))
        return bytes / c->host;
    const double rate = c->flops[work_of(p, op)][op->dtype < DT_DTYPES ? op->dtype : DT_F32];
    return dt_max_f64(dt_max_f64(op->flops / rate, bytes / c->bytes), c->launch);
}

/* ---- the table ---- */

void dt_costs_deinit(dt_costs *c)
{
    for (size_t i = 0; i < c->n_entry; i++)
        dt_free(c->entry[i].signature);
    dt_free(c->entry);
    dt_free(c->kind);
    dt_free(c->rate);
    *c = dt_costs_default;
}

dt_status dt_costs_add(dt_costs *c, const dt_cost_entry *e, dt_err *err)
{
    char *own = NULL;
    if (dt_grow(&c->entry, &c->cap_entry, c->n_entry, sizeof *c->entry))
        own = dt_strdup(e->signature);
    if (own == NULL)
        return DT_FAIL(err, DT_E_NOMEM, "no memory for a table of costs");
    c->entry[c->n_entry] = *e;
    c->entry[c->n_entry++].signature = own;
    return DT_OK;
}

dt_status dt_costs_add_rate(dt_costs *c, const dt_codec_rate *r, dt_err *err)
{
    if (!dt_grow(&c->rate, &c->cap_rate, c->n_rate, sizeof *c->rate))
        return DT_FAIL(err, DT_E_NOMEM, "no memory for a table of costs");
    c->rate[c->n_rate++] = *r;
    return DT_OK;
}

int dt_cost_order(const void *a, const void *b)
{
    const dt_cost_entry *x = a, *y = b;
    const int order = strcmp(x->signature, y->signature);
    return order != 0 ? order : (x->samples > y->samples) - (x->samples < y->samples);
}

static int by_signature_and_seconds(const void *a, const void *b)
{
    const dt_cost_entry *x = a, *y = b;
    const int order = dt_cost_order(a, b);
    if (order != 0)
        return order;
    return (x->seconds > y->seconds) - (x->seconds < y->seconds);
}

static int by_codec(const void *a, const void *b)
{
    const dt_codec_rate *x = a, *y = b;
    const int order = strcmp(x->codec, y->codec);
    if (order != 0 || x->across != y->across)
        return order != 0 ? order : x->across - y->across;
    return (x->density > y->density) - (x->density < y->density);
}

static void drop_doubles(dt_costs *c)
{
    size_t n = 0;
    for (size_t i = 0; i < c->n_entry; i++) {
        if (n > 0 && c->entry[n - 1].samples == c->entry[i].samples &&
            strcmp(c->entry[n - 1].signature, c->entry[i].signature) == 0)
            dt_free(c->entry[i].signature);
        else
            c->entry[n++] = c->entry[i];
    }
    c->n_entry = n;
}

/* "conv" and its form, from "conv.b2 f32 ..." */
static void kind_of(const dt_cost_entry *e, char layer[DT_LAYER_NAME_BYTES], char form[16])
{
    const size_t dot = strcspn(e->signature, ".");
    const char *after = e->signature + dot + (e->signature[dot] == '.');
    snprintf(layer, DT_LAYER_NAME_BYTES, "%.*s", (int)(dot < 31 ? dot : 31), e->signature);
    snprintf(form, 16, "%.*s", (int)strcspn(after, " "), after);
}

/* The median over entries [from, to). */
static double ratio_of(const dt_costs *c, size_t from, size_t to, double *v)
{
    size_t n = 0;
    for (size_t i = from; i < to; i++)
        if (c->entry[i].floor > 0)
            v[n++] = c->entry[i].seconds / c->entry[i].floor;
    return n > 0 ? dt_median(v, n) : 0;
}

static uint8_t form_of(const char *name)
{
    uint8_t i = 0;
    while (i < DT_FORMS && strcmp(form_names[i], name) != 0)
        i++;
    return i;
}

static void add_kind(dt_costs *c, const char *layer, uint8_t form, double ratio)
{
    dt_kind_ratio *k = &c->kind[c->n_kind];
    if (ratio <= 0)
        return;
    *k = (dt_kind_ratio){.form = form, .ratio = ratio};
    snprintf(k->layer, sizeof k->layer, "%s", layer);
    c->n_kind++;
}

/* The end of the entries from one on that are of its layer, or of its layer and form: they are
 * sorted, so these stand together. */
static size_t end_of_kind(const dt_costs *c, size_t from, bool and_form)
{
    char layer[DT_LAYER_NAME_BYTES], form[16], l[DT_LAYER_NAME_BYTES], f[16];
    size_t to = from + 1;
    kind_of(&c->entry[from], layer, form);
    for (; to < c->n_entry; to++) {
        kind_of(&c->entry[to], l, f);
        if (strcmp(l, layer) != 0 || (and_form && strcmp(f, form) != 0))
            break;
    }
    return to;
}

static void find_kinds(dt_costs *c, double *v)
{
    size_t end_of_layer = 0;
    for (size_t i = 0, next; i < c->n_entry; i = next) {
        char layer[DT_LAYER_NAME_BYTES], form[16];
        kind_of(&c->entry[i], layer, form);
        next = end_of_kind(c, i, true);
        if (i == end_of_layer) {
            end_of_layer = end_of_kind(c, i, false);
            add_kind(c, layer, DT_FORMS, ratio_of(c, i, end_of_layer, v));
        }
        add_kind(c, layer, form_of(form), ratio_of(c, i, next, v));
    }
    add_kind(c, "", DT_FORMS, ratio_of(c, 0, c->n_entry, v));
}

dt_status dt_costs_seal(dt_costs *c, dt_err *err)
{
    if (c->n_entry > 0)
        qsort(c->entry, c->n_entry, sizeof *c->entry, by_signature_and_seconds);
    if (c->n_rate > 0)
        qsort(c->rate, c->n_rate, sizeof *c->rate, by_codec);
    drop_doubles(c);
    dt_free(c->kind);
    c->n_kind = 0;
    c->kind = dt_alloc(2 * c->n_entry + 1, sizeof *c->kind);
    double *v = dt_alloc(c->n_entry + 1, sizeof *v);
    if (c->kind == NULL || v == NULL) {
        dt_free(v);
        return DT_FAIL(err, DT_E_NOMEM, "no memory for a table of costs");
    }
    find_kinds(c, v);
    dt_free(v);
    return DT_OK;
}

static void take_disk(dt_costs *to, const dt_costs *from)
{
    const int disk[] = {DT_USUAL_WRITE, DT_USUAL_READ};
    memcpy(to->link[DT_TIER_DISK], from->link[DT_TIER_DISK], sizeof to->link[DT_TIER_DISK]);
    memcpy(to->thread_link[DT_TIER_DISK], from->thread_link[DT_TIER_DISK],
        sizeof to->thread_link[DT_TIER_DISK]);
    for (size_t i = 0; i < DT_COUNT(disk); i++) {
        to->slow[DT_USUAL_COMPUTE][disk[i]] = from->slow[DT_USUAL_COMPUTE][disk[i]];
        to->slow[disk[i]][DT_USUAL_COMPUTE] = from->slow[disk[i]][DT_USUAL_COMPUTE];
    }
}

dt_status dt_costs_merge(dt_costs *to, const dt_costs *older, dt_err *err)
{
    const size_t n = to->n_entry; /* sorted; those added come behind */
    for (size_t i = 0; i < older->n_entry; i++) {
        const dt_cost_entry *e = &older->entry[i];
        if (n == 0 || bsearch(e, to->entry, n, sizeof *e, dt_cost_order) == NULL)
            DT_CHECK(dt_costs_add(to, e, err));
    }
    if (memcmp(to->link[DT_TIER_DISK], dt_costs_default.link[DT_TIER_DISK],
            sizeof to->link[DT_TIER_DISK]) == 0)
        take_disk(to, older);
    return dt_costs_seal(to, err);
}

/* ---- asking ---- */

static double kind_ratio(const dt_costs *c, const dt_plan_op *op)
{
    double layer = 0, all = 0;
    for (size_t i = 0; i < c->n_kind; i++) {
        const dt_kind_ratio *k = &c->kind[i];
        if (k->layer[0] == '\0')
            all = k->ratio;
        else if (strcmp(k->layer, op->layer) == 0 && k->form == op->form)
            return k->ratio;
        else if (strcmp(k->layer, op->layer) == 0 && k->form == DT_FORMS)
            layer = k->ratio;
    }
    return layer > 0 ? layer : all;
}

/* The first entry of a signature; n_entry when there is none. */
static size_t first_of(const dt_costs *c, const char *signature)
{
    size_t low = 0, high = c->n_entry;
    while (low < high) {
        const size_t mid = low + (high - low) / 2;
        if (strcmp(c->entry[mid].signature, signature) < 0)
            low = mid + 1;
        else
            high = mid;
    }
    return low < c->n_entry && strcmp(c->entry[low].signature, signature) == 0 ? low : c->n_entry;
}

static dti_cost on_line(const dt_cost_entry *a, const dt_cost_entry *b, int64_t samples)
{
    const double slope = (b->seconds - a->seconds) / (double)(b->samples - a->samples);
    const double at = a->seconds + slope * (double)(samples - a->samples);
    const double least = (a->seconds < b->seconds ? a->seconds : b->seconds) * 0.1;
    return (dti_cost){dt_max_f64(at, least), DT_COST_BETWEEN};
}

/* Of the entries from @i on, which are of one signature. */
static dti_cost from_entries(const dt_costs *c, size_t i, int64_t samples, double floor)
{
    size_t last = i;
    while (
        last + 1 < c->n_entry && strcmp(c->entry[last + 1].signature, c->entry[i].signature) == 0)
        last++;
    for (size_t k = i; k <= last; k++)
        if (c->entry[k].samples == samples)
            return (dti_cost){c->entry[k].seconds, DT_COST_MEASURED};
    const dt_cost_entry *e = &c->entry[i];
    if (last == i)
        return (dti_cost){
            e->floor > 0 ? e->seconds * floor / e->floor : e->seconds, DT_COST_SCALED};
    while (i + 1 < last && c->entry[i + 1].samples < samples)
        i++;
    return on_line(&c->entry[i], &c->entry[i + 1], samples);
}

static dti_cost packing(const dt_costs *c, const dt_plan_op *op)
{
    const dt_codec *codec = dt_codec_numbered(op->codec);
    const char *name = codec != NULL ? codec->name : "";
    const double bytes = (double)op->count * sizeof(float);
    const double density = bytes > 0 ? (double)op->packed / bytes : 1;
    return (dti_cost){c->launch + bytes / dt_costs_rate(c, name, density, op->kind == DT_OP_ENCODE),
        c->n_rate > 0 ? DT_COST_KIND : DT_COST_FLOOR};
}

dti_cost dti_costs_op(const dt_costs *c, const dt_plan *p, const dt_plan_op *op)
{
    char signature[DT_SIGNATURE_BYTES];
    int64_t samples;
    if (op->kind == DT_OP_ENCODE || op->kind == DT_OP_DECODE)
        return packing(c, op);
    const double floor = dt_costs_floor(c, p, op);
    size_t i = 0;
    if (c->n_entry > 0) {
        dt_cost_signature(p, op, signature, &samples);
        i = first_of(c, signature);
    }
    dti_cost found = {0};
    if (i < c->n_entry)
        found = from_entries(c, i, samples, floor);
    else if (c->n_kind > 0)
        found = (dti_cost){floor * kind_ratio(c, op), DT_COST_KIND};
    else
        found = (dti_cost){floor, DT_COST_FLOOR};
    found.seconds *= c->scale;
    return found;
}

/* Seconds of all samples in pieces of @n, by the entries from @i on, where they are less. */
static void try_pieces(const dt_costs *c, size_t i, double n, int64_t samples, double *least)
{
    if (n >= 1 && n < (double)samples)
        *least = fmin(*least,
            c->scale * from_entries(c, i, (int64_t)n, 0).seconds * (double)samples / floor(n));
}

/* By its floor, and by one measured number of samples, an op takes the least as a whole. On a line
 * between two the seconds a sample are least at an end: at what was measured, or where the line is
 * cut off below. */
double dti_costs_op_in_pieces(const dt_costs *c, const dt_plan *p, const dt_plan_op *op)
{
    char signature[DT_SIGNATURE_BYTES];
    int64_t samples;
    double least = dti_costs_op(c, p, op).seconds;
    if (c->n_entry == 0 || op->kind == DT_OP_ENCODE || op->kind == DT_OP_DECODE)
        return least;
    dt_cost_signature(p, op, signature, &samples);
    const size_t i = first_of(c, signature);
    if (i + 1 >= c->n_entry || strcmp(c->entry[i + 1].signature, signature) != 0)
        return least;
    const dt_cost_entry *a = &c->entry[i], *b = a + 1;
    const double slope = (b->seconds - a->seconds) / (double)(b->samples - a->samples);
    const double cut =
        slope > 0 ? (double)a->samples - (a->seconds - on_line(a, b, 0).seconds) / slope : 0;
    for (size_t k = i; k < c->n_entry && strcmp(c->entry[k].signature, signature) == 0; k++)
        try_pieces(c, i, (double)c->entry[k].samples, samples, &least);
    try_pieces(c, i, floor(cut), samples, &least);
    try_pieces(c, i, ceil(cut), samples, &least);
    try_pieces(c, i, (double)samples - 1, samples, &least);
    return least;
}

/* 0: the table has none. */
static double rate_of(const dt_costs *c, const char *codec, bool across, double density, bool pack)
{
    const dt_codec_rate *below = NULL;
    for (size_t i = 0; i < c->n_rate; i++) {
        const dt_codec_rate *r = &c->rate[i];
        if (strcmp(r->codec, codec) != 0 || r->across != across)
            continue;
        const double rate = pack ? r->pack : r->unpack;
        if (r->density >= density && below == NULL)
            return rate;
        if (r->density >= density) {
            const double before = pack ? below->pack : below->unpack;
            const double part = (density - below->density) / (r->density - below->density);
            return 1 / ((1 - part) / before + part / rate);
        }
        below = r;
    }
    return below == NULL ? 0 : pack ? below->pack : below->unpack;
}

double dt_costs_rate(const dt_costs *c, const char *codec, double density, bool pack)
{
    const double rate = rate_of(c, codec, false, density, pack);
    return rate > 0 ? rate : c->codec;
}

double dt_relative_absolute_error(const double *predicted, const double *measured, size_t n)
{
    double mean = 0, off = 0, spread = 0;
    for (size_t i = 0; i < n; i++)
        mean += measured[i] / (double)n;
    for (size_t i = 0; i < n; i++) {
        off += fabs(predicted[i] - measured[i]);
        spread += fabs(mean - measured[i]);
    }
    return spread > 0 || !(off <= 0) ? off / spread : 0;
}

void dti_costs_sum(const dt_costs *c, dt_sha256 *sum)
{
    dt_sha256_add(
        sum, c->hash, strlen(c->hash) + 1); /* ops, those among them that are made later */
    dt_sha256_add(sum, &c->launch, sizeof c->launch);
    dt_sha256_add(sum, &c->slower, sizeof c->slower);
    dt_sha256_add(sum, c->link, sizeof c->link);
    dt_sha256_add(sum, c->thread_link, sizeof c->thread_link);
    dt_sha256_add(sum, c->slow, sizeof c->slow);
    dt_sha256_add(sum, &c->codec, sizeof c->codec);
    dt_sha256_add(sum, &c->wake, sizeof c->wake);
    dt_sha256_add(sum, &c->rest, sizeof c->rest);
    for (size_t i = 0; i < c->n_rate; i++) {
        const dt_codec_rate *r = &c->rate[i];
        const double value[] = {r->density, r->pack, r->unpack};
        dt_sha256_add_text(sum, r->codec);
        dt_sha256_add(sum, value, sizeof value);
        if (r->across)
            dt_sha256_add(sum, "across", sizeof "across");
    }
}

/* No clock gives a default to the last digit, so what is equal to one was not measured. */
bool dti_costs_has_link(const dt_costs *c, int tier, int direction, bool team)
{
    const dt_link *l = &(team ? c->link : c->thread_link)[tier][direction];
    const dt_link *usual = &dt_costs_default.link[tier][direction];
    return l->latency != usual->latency || l->rate != usual->rate;
}

double dti_costs_copy(const dt_costs *c, const dt_row *r, double density, bool team)
{
    const dt_codec *codec = dt_codec_numbered(r->codec);
    const bool out = r->kind == DT_ROW_COPY_OUT;
    const dt_link *l =
        &(team ? c->link : c->thread_link)[r->tier < DT_TIERS ? r->tier : DT_TIER_INPUT]
                                          [out ? DT_TO_TIER : DT_FROM_TIER];
    if (codec == NULL)
        return dti_link_seconds(l, (double)r->bytes);
    const size_t words = r->bytes / sizeof(float);
    const double packed = (double)dt_packed_bytes(codec, words, density);
    const double used = packed < (double)r->stored ? packed : (double)r->stored;
    const double across = rate_of(c, codec->name, true, density, out);
    const double packing =
        (double)r->bytes / (across > 0 ? across : dt_costs_rate(c, codec->name, density, out));
    const double moving = dti_link_seconds(l, used);
    return r->tier == DT_TIER_DISK /* it has no address to pack to, so that the one waits */
               ? moving + packing
               : dt_max_f64(moving, packing);
}
