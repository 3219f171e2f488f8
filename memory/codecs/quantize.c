/* Values in 1, 2, 4 or 8 bits, in groups of 256 of one sample, rounded by random numbers: ActNN's
 * (Chen et al., ICML 2021). memory/codecs/quantize_bits.h says what a group becomes.
 *
 * Packed bytes: how many values a sample has (8 bytes), then the groups of one sample after
 * another. A group is its head and then codes, 32 / bits a word, value 0 lowest; the last one of a
 * sample has fewer. A draw's counter is the place of the value in the step's whole batch, so
 * neither the micro-batch nor the number of threads changes what is drawn. */
#include "memory/codecs/quantize_bits.h"

#include <inttypes.h>

#include "engine/base/draw.h"
#include "engine/base/team.h"
#include "memory/codec.h"
#include "memory/codecs/chunks.h"
#include "memory/codecs/words.h"

enum { MANY = 64 }; /* groups of a task */
_Static_assert(DTI_GROUP % (4 * DT_DRAW_LANES) == 0, "a group has whole vectors of draws");

/* What is packed from and to. @row: values of a sample; @groups: of a sample; @all: of all */
typedef struct packing {
    uint32_t bits;
    const uint8_t *from;
    uint8_t *to;
    size_t row, groups, all;
    const dt_rounding *by;
    dt_draw_fn *draw;
} packing;

static size_t capacity_of(size_t count, int64_t samples, uint32_t bits)
{
    if (count == 0)
        return 0;
    if (count > DT_CODEC_MOST || samples <= 0 || count % (size_t)samples != 0)
        return SIZE_MAX;
    return dti_quantized_all(count / (size_t)samples, (size_t)samples, bits);
}

static dti_group group_of(const packing *p, size_t i)
{
    return dti_group_of(i, p->groups, p->row, p->bits);
}

DT_CLONES static dti_group_scan scan(const uint32_t *w, int n)
{
    int32_t least = INT32_MAX, most = INT32_MIN;
    uint32_t differs = 0, bad = 0;
#pragma omp simd reduction(min : least) reduction(max : most) reduction(| : differs, bad)
    for (int i = 0; i < n; i++) {
        const int32_t order = dti_quantize_order(dti_quantize_seen(w[i]));
        least = order < least ? order : least;
        most = order > most ? order : most;
        differs |= w[i] ^ w[0];
        bad |= dti_quantize_bad(w[i]) ? 1 : 0;
    }
    return (dti_group_scan){w[0], differs, least, most, bad != 0};
}

DT_CLONES static void find_codes(
    const uint32_t *w, const uint32_t *u, dti_group_levels l, uint32_t bits, uint32_t *code, int n)
{
#pragma omp simd
    for (int i = 0; i < n; i++) {
        const float x = dti_quantize_float(dti_quantize_seen(w[i]));
        code[i] = dti_quantize_code(x, l.from, l.step, u[i] >> 8, bits);
    }
}

DT_CLONES static void find_values(const uint32_t *code, dti_group_levels l, uint32_t *w, int n)
{
#pragma omp simd
    for (int i = 0; i < n; i++)
        w[i] = dti_quantize_value(l, code[i]);
}

/* @code has zeros behind its n. */
static void put_codes(const uint32_t *code, size_t n, uint32_t bits, uint8_t *to)
{
    const uint32_t per = 32 / bits;
    for (size_t i = 0; i < dti_parts(n, per); i++) {
        uint32_t w = 0;
        for (uint32_t k = 0; k < per; k++)
            w |= code[i * per + k] << (k * bits);
        dti_set_word(to, i, w);
    }
}

static void take_codes(const uint8_t *from, size_t n, uint32_t bits, uint32_t *code)
{
    const uint32_t per = 32 / bits, mask = (1u << bits) - 1;
    for (size_t i = 0; i < dti_parts(n, per); i++)
        for (uint32_t k = 0; k < per; k++)
            code[i * per + k] = dti_word(from, i) >> (k * bits) & mask;
}

static void draw(const packing *p, const dti_group *at, uint32_t *u)
{
    const dt_rounding *by = p->by;
    const uint64_t sample = (uint64_t)by->sample0 + at->sample;
    p->draw(by->seed, DT_RANDOM_ROUND, (uint32_t)by->value, (uint64_t)by->step,
        sample * dti_parts(p->row, 4) + at->value / 4, u, (int64_t)dti_parts(at->n, 4));
}

static void pack_group(const packing *p, size_t g)
{
    const dti_group at = group_of(p, g);
    uint32_t w[DTI_GROUP], u[DTI_GROUP], code[DTI_GROUP] = {0};
    uint8_t *to = p->to + at.byte;
    memcpy(w, p->from + 4 * (at.sample * p->row + at.value), 4 * at.n);
    const dti_group_scan s = scan(w, (int)at.n);
    const dti_group_levels l = dti_group_levels_of(&s, p->bits);
    dti_set_word(to, 0, l.head);
    if (l.step != 0.0f) {
        draw(p, &at, u);
        find_codes(w, u, l, p->bits, code, (int)at.n);
    }
    put_codes(code, at.n, p->bits, to + 4);
    if (l.step == 0.0f)
        dti_set_word(to, 1, l.flat & 0xFFFFu);
}

static void unpack_group(const packing *p, size_t g)
{
    const dti_group at = group_of(p, g);
    uint32_t w[DTI_GROUP], code[DTI_GROUP];
    const uint8_t *from = p->from + at.byte;
    take_codes(from + 4, at.n, p->bits, code);
    find_values(code, dti_group_levels_read(dti_word(from, 0), dti_word(from, 1)), w, (int)at.n);
    memcpy(p->to + 4 * (at.sample * p->row + at.value), w, 4 * at.n);
}

static void pack_some(const void *of, int64_t task)
{
    const packing *p = of;
    for (size_t g = (size_t)task * MANY; g < p->all && g < ((size_t)task + 1) * MANY; g++)
        pack_group(p, g);
}

static void unpack_some(const void *of, int64_t task)
{
    const packing *p = of;
    for (size_t g = (size_t)task * MANY; g < p->all && g < ((size_t)task + 1) * MANY; g++)
        unpack_group(p, g);
}

static packing packing_of(
    const void *from, void *to, size_t row, size_t samples, uint32_t bits, const dt_rounding *by)
{
    packing p = {.bits = bits, .from = from, .to = to, .row = row, .by = by};
    p.groups = dti_parts(row, DTI_GROUP);
    p.all = samples * p.groups;
    return p;
}

static bool encode_samples(const void *src, size_t count, const dt_rounding *by, void *dst,
    size_t capacity, size_t *used, uint32_t bits)
{
    *used = capacity_of(count, by->samples, bits);
    if (*used > capacity || *used == SIZE_MAX)
        return false;
    if (count == 0)
        return true;
    const uint64_t row = count / (size_t)by->samples;
    packing p = packing_of(src, dst, row, (size_t)by->samples, bits, by);
    p.draw = dt_draw_best();
    memcpy(dst, &row, DTI_QUANTIZED_HEAD);
    dt_team_run((int64_t)dti_parts(p.all, MANY), pack_some, &p);
    return true;
}

static bool encode_one(
    const void *src, size_t count, void *dst, size_t capacity, size_t *used, uint32_t bits)
{
    const dt_rounding by = {.samples = 1};
    return encode_samples(src, count, &by, dst, capacity, used, bits);
}

static dt_status decode(
    const void *src, size_t used, void *dst, size_t count, uint32_t bits, dt_err *err)
{
    uint64_t row = 0;
    if (count == 0 && used == 0)
        return DT_OK;
    if (used >= DTI_QUANTIZED_HEAD)
        memcpy(&row, src, DTI_QUANTIZED_HEAD);
    const bool whole = row > 0 && row <= count && count % row == 0;
    if (!whole || used != capacity_of(count, (int64_t)(count / row), bits))
        return DT_FAIL(err, DT_E_DATA,
            "%zu bytes are not %zu values in groups of %d bits, of samples of %" PRIu64, used,
            count, (int)bits, row);
    const packing p = packing_of(src, dst, row, count / row, bits, NULL);
    dt_team_run((int64_t)dti_parts(p.all, MANY), unpack_some, &p);
    return DT_OK;
}

#define QUANTIZED(b, text)                                                                         \
    static size_t int##b##_capacity(size_t count, double density)                                  \
    {                                                                                              \
        (void)density;                                                                             \
        return capacity_of(count, 1, b);                                                           \
    }                                                                                              \
    static size_t int##b##_samples(size_t count, int64_t samples)                                  \
    {                                                                                              \
        return capacity_of(count, samples, b);                                                     \
    }                                                                                              \
    static bool int##b##_encode(                                                                   \
        const void *src, size_t count, void *dst, size_t capacity, size_t *used)                   \
    {                                                                                              \
        return encode_one(src, count, dst, capacity, used, b);                                     \
    }                                                                                              \
    static bool int##b##_drawn(const void *src, size_t count, const dt_rounding *by, void *dst,    \
        size_t capacity, size_t *used)                                                             \
    {                                                                                              \
        return encode_samples(src, count, by, dst, capacity, used, b);                             \
    }                                                                                              \
    static dt_status int##b##_decode(                                                              \
        const void *src, size_t used, void *dst, size_t count, dt_err *err)                        \
    {                                                                                              \
        return decode(src, used, dst, count, b, err);                                              \
    }                                                                                              \
    const dt_codec dt_codec_int##b = {                                                             \
        .name = "int" #b,                                                                          \
        .summary = text,                                                                           \
        .exact = false,                                                                            \
        .capacity = int##b##_capacity,                                                             \
        .encode = int##b##_encode,                                                                 \
        .decode = int##b##_decode,                                                                 \
        .drawn = {.capacity = int##b##_samples, .encode = int##b##_drawn},                         \
    };

QUANTIZED(8, "256 levels for 256 values of a sample, rounded at random")
QUANTIZED(4, "16 levels for 256 values of a sample, rounded at random")
QUANTIZED(2, "4 levels for 256 values of a sample, rounded at random")
QUANTIZED(1, "1 bit: each of 256 values becomes their minimum or maximum, at random")
