/* Pictures from a seed: a task to be learned, without a file.
 *
 * Each class is a texture: three gratings of its own orientations, periods and colours, and two
 * soft blobs. A sample shows the texture shifted by up to half an image each way, at a random
 * contrast, with its colours tinted and with noise. The shift takes the mean of a class to about
 * grey, and tint is stronger than what is left, so pixel values alone say little: what has to be
 * learned are local patterns. Numbers come from counters, so a sample is a pure function of seed,
 * split and index; the splits use different counters.
 *
 * For a network that labels pixels a picture shows one texture and, in PATCHES discs, one that is
 * drawn anew for each, which may be the same: a pixel's label is the class of the texture seen
 * there.
 *
 * For a loss of values channel k of the labels is 1 where class k is seen, else 0: of the picture,
 * or of each pixel where the network gives as many as it takes. One channel tells class 0 from
 * another.
 *
 * Of many classes only the first samples/64 occur, so that each has at least 64 samples; but two
 * occur in any case, as far as the network has them. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "data/source.h"
#include "engine/base/alloc.h"
#include "engine/base/philox.h"

enum { GRATINGS = 3, BLOBS = 2, PATCHES = 2, PER_CLASS = 64, EVAL_LEAST = 256 };

static const double pi = 3.14159265358979323846;

typedef struct grating {
    double fx, fy, phase; /* cycles per image; turns */
} grating;

typedef struct blob {
    double x, y, width; /* in images */
} blob;

typedef struct texture {
    grating gratings[GRATINGS];
    blob blobs[BLOBS];
} texture;

typedef struct synthetic {
    dt_source base;
    int64_t count, used; /* samples; classes that occur */
    texture *textures;   /* [used] */
    float *colours;      /* [used][GRATINGS + BLOBS][c] */
} synthetic;

/* Which draw, in the first coordinate of dt_random. */
enum { DRAW_TEXTURE = 1, DRAW_COLOUR, DRAW_SAMPLE, DRAW_TINT, DRAW_NOISE, DRAW_PATCH };

static double unit(uint32_t u)
{
    return (double)dt_unit(u);
}

/* Orientations are spread evenly over classes by the golden ratio, so that no two of a few classes
 * look alike by chance. */
static void make_texture(synthetic *s, int64_t class)
{
    const dt_source_opts *o = &s->base.opts;
    const double side = (double)(o->shape.h < o->shape.w ? o->shape.h : o->shape.w);
    const double most = fmin(side / 3.2, 12), least = fmin(1.5, most);
    texture *t = &s->textures[class];
    for (uint32_t g = 0; g < GRATINGS; g++) {
        const dt_u32x4 u = dt_random(o->seed, DT_RANDOM_DATA, DRAW_TEXTURE, g, (uint64_t) class);
        const double turn = fmod((double)(class * GRATINGS + g) * 0.6180339887498949, 1);
        const double cycles = least * pow(most / least, unit(u.v[0]));
        t->gratings[g] = (grating){cycles * cos(pi * turn), cycles * sin(pi * turn), unit(u.v[1])};
    }
    for (uint32_t b = 0; b < BLOBS; b++) {
        const dt_u32x4 u =
            dt_random(o->seed, DT_RANDOM_DATA, DRAW_TEXTURE, GRATINGS + b, (uint64_t) class);
        t->blobs[b] = (blob){unit(u.v[0]), unit(u.v[1]), 0.08 + 0.12 * unit(u.v[2])};
    }
    for (int64_t i = 0; i < (GRATINGS + BLOBS) * o->shape.c; i++) {
        const dt_u32x4 u =
            dt_random(o->seed, DT_RANDOM_DATA, DRAW_COLOUR, (uint32_t)i, (uint64_t) class);
        const float sign = (u.v[1] >> 31) != 0 ? 1.0f : -1.0f;
        s->colours[class * (GRATINGS + BLOBS) * o->shape.c + i] =
            sign * (0.04f + 0.14f * dt_unit(u.v[0]));
    }
}

static void close_synthetic(dt_source *base)
{
    synthetic *s = (synthetic *)base;
    if (s == NULL)
        return;
    dt_free(s->textures);
    dt_free(s->colours);
    dt_free(s);
}

static dt_status open_synthetic(
    const dt_source_desc *d, dt_source **out, const dt_source_opts *o, dt_err *err)
{
    DT_CHECK(dti_source_check_pixels(o, err));
    DT_CHECK(dti_source_check_scale(o, err));
    if (o->samples < 1)
        return DT_FAIL(
            err, DT_E_CONFIG, "data.samples = %" PRId64 ": must be at least 1", o->samples);
    synthetic *s = dt_alloc(1, sizeof *s);
    if (s == NULL)
        return DT_FAIL(err, DT_E_NOMEM, "no memory for the synthetic source");
    s->base = (dt_source){.desc = d, .opts = *o};
    const int64_t eighth = o->samples / 8, most = o->samples / PER_CLASS;
    s->count = !o->eval ? o->samples : eighth > EVAL_LEAST ? eighth : EVAL_LEAST;
    const bool values = o->label_kind != DT_LABEL_CLASS;
    const int64_t classes = values && o->values.c < 2 ? 2 : values ? o->values.c : o->classes;
    s->used = most < 2 ? 2 : most;
    s->used = s->used < classes ? s->used : classes;
    const size_t used = (size_t)s->used;
    size_t colours;
    if (dt_mul_bytes((GRATINGS + BLOBS) * sizeof(float), (size_t)o->shape.c, &colours)) {
        s->textures = dt_alloc(used, sizeof *s->textures);
        s->colours = dt_alloc(used, colours);
    }
    if (s->textures == NULL || s->colours == NULL) {
        close_synthetic(&s->base);
        return DT_FAIL(err, DT_E_NOMEM, "no memory for %zu synthetic classes", used);
    }
    for (int64_t class = 0; class < s->used; class ++)
        make_texture(s, class);
    *out = &s->base;
    return DT_OK;
}

static int64_t count_synthetic(const dt_source *base)
{
    return ((const synthetic *)base)->count;
}

/* sin(2 pi (f x + phase)) and the cosine for n pixels: a product of two such lines is a grating in
 * the plane, so a picture costs n sines and not n * n. */
static void wave(float *sine, float *cosine, int64_t n, double f, double phase)
{
    for (int64_t i = 0; i < n; i++) {
        const double a = 2 * pi * (f * (double)i / (double)n + phase);
        sine[i] = (float)sin(a);
        cosine[i] = (float)cos(a);
    }
}

/* A bump around @at on a ring of n pixels. */
static void bump(float *out, int64_t n, double at, double width)
{
    for (int64_t i = 0; i < n; i++) {
        double d = fabs((double)i / (double)n - at);
        d = (d - floor(d));
        d = fmin(d, 1 - d) / width;
        out[i] = (float)exp(-d * d);
    }
}

/* The lines of one picture; see wave and bump. */
typedef struct lines {
    float *across[2 * GRATINGS + BLOBS], *down[2 * GRATINGS + BLOBS];
    float *mix; /* [GRATINGS + BLOBS][w], one row of the picture */
} lines;

static void draw_lines(const lines *l, const texture *t, const dt_shape *s, double dx, double dy)
{
    for (int g = 0; g < GRATINGS; g++) {
        const grating *p = &t->gratings[g];
        wave(l->across[2 * g], l->across[2 * g + 1], s->w, p->fx, p->fx * dx);
        wave(l->down[2 * g], l->down[2 * g + 1], s->h, p->fy, p->fy * dy + p->phase);
    }
    for (int b = 0; b < BLOBS; b++) {
        const blob *p = &t->blobs[b];
        bump(l->across[2 * GRATINGS + b], s->w, p->x - dx, p->width);
        bump(l->down[2 * GRATINGS + b], s->h, p->y - dy, p->width);
    }
}

/* Row @y of each grating and blob. */
static void mix_row(const lines *l, int64_t y, int64_t w)
{
    for (int g = 0; g < GRATINGS; g++) {
        const float sine = l->down[2 * g][y], cosine = l->down[2 * g + 1][y];
        const float *sx = l->across[2 * g], *cx = l->across[2 * g + 1];
        float *m = l->mix + g * w;
        for (int64_t i = 0; i < w; i++)
            m[i] = sx[i] * cosine + cx[i] * sine;
    }
    for (int b = 0; b < BLOBS; b++) {
        const float v = l->down[2 * GRATINGS + b][y], *bx = l->across[2 * GRATINGS + b];
        float *m = l->mix + (GRATINGS + b) * w;
        for (int64_t i = 0; i < w; i++)
            m[i] = bx[i] * v;
    }
}

/* One sample as it is drawn: contrast and tint per channel fold into weights and an offset. */
typedef struct sample {
    const synthetic *s;
    uint32_t split;
    uint64_t at;
    int64_t class;
    float contrast;
} sample;

/* Weights of the gratings and blobs of channel @c, and what is added; 0.5 and 0.25 are taken off
 * and divided by unless the options say otherwise. */
static float channel(const sample *p, int64_t c, float weight[GRATINGS + BLOBS], float *spread)
{
    const dt_source_opts *o = &p->s->base.opts;
    const dt_u32x4 u =
        dt_random(o->seed, DT_RANDOM_DATA, DRAW_TINT + 8 * p->split, (uint32_t)c, p->at);
    const float mean = o->mean != NULL ? o->mean[c] : 0.5f,
                std = o->std != NULL ? o->std[c] : 0.25f;
    const float gain = p->contrast * (0.8f + 0.4f * dt_unit(u.v[0])) / std;
    const float *colours = p->s->colours + p->class * (GRATINGS + BLOBS) * o->shape.c;
    for (int k = 0; k < GRATINGS + BLOBS; k++)
        weight[k] = gain * colours[k * o->shape.c + c];
    *spread = 0.24f / 255 / std;
    const float tint = 0.4f * dt_unit(u.v[1]) - 0.2f;
    return (0.5f + tint - mean) / std - 127.5f * *spread;
}

/* Noise bytes of row @y and channel @c: one counter gives 16. */
static void add_noise(const sample *p, int64_t row, float spread, float *x, int64_t w, int64_t step)
{
    const uint64_t seed = p->s->base.opts.seed;
    const int64_t blocks = (w + 15) / 16;
    for (int64_t i = 0; i < w; i += 16) {
        const dt_u32x4 u = dt_random(seed, DT_RANDOM_DATA, DRAW_NOISE + 8 * p->split,
            (uint32_t)(row * blocks + i / 16), p->at);
        for (int64_t k = 0; k < 16 && i + k < w; k++)
            x[(i + k) * step] += spread * (float)(u.v[k / 4] >> (8 * (k % 4)) & 255);
    }
}

static void paint(const sample *p, const lines *l, float *x)
{
    const dt_shape *s = &p->s->base.opts.shape;
    for (int64_t y = 0; y < s->h; y++) {
        mix_row(l, y, s->w);
        for (int64_t c = 0; c < s->c; c++) {
            float k[GRATINGS + BLOBS], spread;
            const float offset = channel(p, c, k, &spread), *m = l->mix;
            float *out = x + y * s->w * s->c + c;
            const int64_t w = s->w;
            for (int64_t i = 0; i < w; i++)
                out[i * s->c] = offset + k[0] * m[i] + k[1] * m[w + i] + k[2] * m[2 * w + i] +
                                k[3] * m[3 * w + i] + k[4] * m[4 * w + i];
            add_noise(p, y * s->c + c, spread, out, w, s->c);
        }
    }
}

/* The whole picture of p->class; a picture's textures differ in shift and contrast by @which. */
static dt_status draw(sample *p, uint32_t which, float *x, dt_err *err)
{
    const dt_source_opts *o = &p->s->base.opts;
    const dt_u32x4 u = dt_random(o->seed, DT_RANDOM_DATA, DRAW_SAMPLE + 8 * p->split, which, p->at);
    p->contrast = 0.6f + 0.8f * dt_unit(u.v[2]);
    const int64_t each = 2 * GRATINGS + BLOBS, w = o->shape.w, h = o->shape.h;
    float *block = dt_alloc((size_t)(each * (w + h) + (GRATINGS + BLOBS) * w), sizeof *block);
    if (block == NULL)
        return DT_FAIL(err, DT_E_NOMEM, "no memory to draw a synthetic picture");
    lines l = {.mix = block + each * (w + h)};
    for (int64_t k = 0; k < each; k++) {
        l.across[k] = block + k * (w + h);
        l.down[k] = l.across[k] + w;
    }
    draw_lines(&l, &p->s->textures[p->class], &o->shape, unit(u.v[0]) - 0.5, unit(u.v[1]) - 0.5);
    paint(p, &l, x);
    dt_free(block);
    return DT_OK;
}

/* Take the pixels of a disc, somewhere, from another picture. */
static void copy_disc(const sample *p, uint32_t which, const float *from, float *x, int32_t *label)
{
    const dt_source_opts *o = &p->s->base.opts;
    const dt_u32x4 u = dt_random(o->seed, DT_RANDOM_DATA, DRAW_PATCH + 8 * p->split, which, p->at);
    const int64_t w = o->shape.w, h = o->shape.h, c = o->shape.c;
    const double side = (double)(w < h ? w : h), radius = (0.15 + 0.2 * unit(u.v[2])) * side;
    const double cx = unit(u.v[0]) * (double)w, cy = unit(u.v[1]) * (double)h;
    for (int64_t i = 0; i < w * h; i++) {
        const double dx = (double)(i % w) + 0.5 - cx, dy = (double)(i / w) + 0.5 - cy;
        if (dx * dx + dy * dy > radius * radius)
            continue;
        memcpy(x + i * c, from + i * c, (size_t)c * sizeof *x);
        label[i] = (int32_t)p->class;
    }
}

/* Other textures in discs, and a label for every pixel. */
static dt_status draw_patches(sample *p, float *x, int32_t *label, dt_err *err)
{
    const dt_shape *shape = &p->s->base.opts.shape;
    const int64_t pixels = shape->h * shape->w;
    const int64_t own = p->class;
    float *other = dt_alloc((size_t)dt_shape_sample(shape), sizeof *other);
    if (other == NULL)
        return DT_FAIL(err, DT_E_NOMEM, "no memory to draw a synthetic picture");
    for (int64_t i = 0; i < pixels; i++)
        label[i] = (int32_t)own;
    dt_status st = DT_OK;
    for (uint32_t k = 1; k <= PATCHES && st == DT_OK; k++) {
        const dt_u32x4 u =
            dt_random(p->s->base.opts.seed, DT_RANDOM_DATA, DRAW_PATCH + 8 * p->split, 0, p->at);
        p->class = (own + 1 + (int64_t)(u.v[k] % (uint64_t)p->s->used)) % p->s->used;
        st = draw(p, k, other, err);
        if (st == DT_OK)
            copy_disc(p, k, other, x, label);
    }
    dt_free(other);
    return st;
}

static bool sees_pixels(const dt_source_opts *o)
{
    if (o->label_kind == DT_LABEL_CLASS)
        return dti_source_of_pixels(o);
    return !o->tokens && o->values.h == o->shape.h && o->values.w == o->shape.w &&
           o->shape.h * o->shape.w > 1;
}

/* From the class of the picture or of each pixel, in the first of the labels, from the last on. */
static void to_values(const dt_shape *v, bool pixels, int32_t *label)
{
    for (int64_t p = v->h * v->w; p-- > 0;) {
        const int32_t class = label[pixels ? p : 0];
        for (int64_t k = 0; k < v->c; k++)
            label[p * v->c + k] = dt_label_of_value(class == k ? 1.0f : 0.0f);
    }
}

static dt_status read_synthetic(
    const dt_source *base, int64_t i, uint64_t key, float *x, int32_t *label, dt_err *err)
{
    (void)key; /* a sample is random as it is, and mirrored it might be of another class */
    const synthetic *s = (const synthetic *)base;
    sample p = {.s = s, .split = base->opts.eval, .at = (uint64_t)i, .class = i % s->used};
    DT_CHECK(draw(&p, 0, x, err));
    const bool pixels = sees_pixels(&base->opts);
    if (pixels)
        DT_CHECK(draw_patches(&p, x, label, err));
    else
        *label = (int32_t)p.class;
    if (base->opts.label_kind != DT_LABEL_CLASS)
        to_values(&base->opts.values, pixels, label);
    return DT_OK;
}

static bool always(const dt_source_desc *d, const dt_source_opts *o)
{
    (void)d, (void)o;
    return true;
}

static void describe_synthetic(const dt_source *base, char *text, size_t n)
{
    const synthetic *s = (const synthetic *)base;
    const int at = snprintf(text, n, "%" PRId64 " synthetic pictures", s->count);
    if ((size_t)at >= n || base->opts.unlabelled || base->opts.label_kind != DT_LABEL_CLASS)
        return;
    if (s->used < base->opts.classes)
        snprintf(text + at, n - (size_t)at,
            ", in which %" PRId64 " of the network's %" PRId64 " classes occur (one per %d "
            "samples, at least 2): raise data.samples for more",
            s->used, base->opts.classes, PER_CLASS);
    else
        snprintf(text + at, n - (size_t)at, " of %" PRId64 " classes", s->used);
}

static int64_t classes_of_synthetic(const dt_source *base)
{
    return ((const synthetic *)base)->used;
}

const dt_source_desc dt_source_synthetic = {
    .name = "synthetic",
    .summary = "textures from a seed, one a class; needs no files",
    .made_up = true,
    .gives_values = true,
    .open = open_synthetic,
    .close = close_synthetic,
    .count = count_synthetic,
    .read = read_synthetic,
    .has_eval = always,
    .classes = classes_of_synthetic,
    .describe = describe_synthetic,
};
