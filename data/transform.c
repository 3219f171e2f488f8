/* Pixels to values: scaling, and the crops, flips and squares of augmentation. */
#include "data/transform.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "engine/base/alloc.h"
#include "engine/base/philox.h"

enum {
    BORDER = 4,     /* pixels of zeros around a picture of the network's size */
    PARTS = 10,     /* draws of a part of a picture, each with random numbers of its own */
    CUT = PARTS + 1 /* those of the square that is cut out */
};

static const float imagenet_mean[3] = {0.485f, 0.456f, 0.406f};
static const float imagenet_std[3] = {0.229f, 0.224f, 0.225f};
static const float imagenet_grey[2] = {0.449f, 0.226f}; /* the means of both */

dt_status dti_recipe_make(dti_recipe *r, const dt_source_opts *o, bool imagenet, dt_err *err)
{
    const int64_t c = o->shape.c;
    if (c != 1 && c != 3)
        return DT_FAIL(
            err, DT_E_CONFIG, "pictures give 1 or 3 channels, the network takes %" PRId64, c);
    DT_CHECK(dti_source_check_scale(o, err));
    *r = (dti_recipe){.h = o->shape.h,
        .w = o->shape.w,
        .c = c,
        .cutout = o->cutout,
        .augment = o->augment && !o->eval,
        .flip = true};
    for (int64_t i = 0; i < c; i++) {
        r->std[i] = 1;
        if (imagenet) {
            r->mean[i] = c == 1 ? imagenet_grey[0] : imagenet_mean[i];
            r->std[i] = c == 1 ? imagenet_grey[1] : imagenet_std[i];
        }
        if (o->mean != NULL)
            r->mean[i] = o->mean[i];
        if (o->std != NULL)
            r->std[i] = o->std[i];
    }
    return DT_OK;
}

/* Uniform in [0, n) */
static int64_t pick(uint32_t u, int64_t n)
{
    return (int64_t)((uint64_t)u * (uint64_t)n >> 32);
}

/* One pixel of @n channels, values 0 to 255, into the network's channels. */
static void put_pixel(const dti_recipe *r, const float *v, int64_t n, float *x)
{
    if (n == r->c) {
        for (int64_t c = 0; c < n; c++)
            x[c] = (v[c] / 255 - r->mean[c]) / r->std[c];
        return;
    }
    const float grey = n == 1 ? v[0] : 0.299f * v[0] + 0.587f * v[1] + 0.114f * v[2];
    for (int64_t c = 0; c < r->c; c++)
        x[c] = (grey / 255 - r->mean[c]) / r->std[c];
}

/* Pixel (0, 0) of x is pixel (top, left) of the picture; zeros where there is none. */
static void place(
    const dti_recipe *r, const dti_picture *p, int64_t top, int64_t left, bool flip, float *x)
{
    for (int64_t y = 0; y < r->h; y++)
        for (int64_t i = 0; i < r->w; i++) {
            const int64_t sy = y + top, sx = (flip ? r->w - 1 - i : i) + left;
            float v[3] = {0};
            if (sy >= 0 && sy < p->h && sx >= 0 && sx < p->w)
                for (int64_t c = 0; c < p->c; c++)
                    v[c] = p->px[(sy * p->w + sx) * p->c + c];
            put_pixel(r, v, p->c, x + (y * r->w + i) * r->c);
        }
}

/* Pixels first to first + n of a line of @from pixels resized to @to: pixel i is the weighted sum
 * of pixels at[i] to at[i] + len[i] - 1, with weights w[i * most] and on. */
typedef struct line {
    int64_t n, most, *at, *len;
    float *w;
} line;

static void line_free(line *l)
{
    dt_free(l->at);
    dt_free(l->len);
    dt_free(l->w);
}

static void line_weights(const line *l, int64_t i, double centre, double reach, int64_t from)
{
    int64_t lo = (int64_t)(centre - reach + 0.5), hi = (int64_t)(centre + reach + 0.5);
    lo = lo < 0 ? 0 : lo;
    hi = hi > from ? from : hi;
    hi = hi > lo + l->most ? lo + l->most : hi;
    float *w = l->w + i * l->most;
    double sum = 0;
    for (int64_t k = lo; k < hi; k++) {
        const double t = fabs(((double)k - centre + 0.5) / reach);
        w[k - lo] = t < 1 ? (float)(1 - t) : 0.0f;
        sum += t < 1 ? 1 - t : 0;
    }
    for (int64_t k = lo; k < hi; k++)
        w[k - lo] = (float)((double)w[k - lo] / sum);
    l->at[i] = lo;
    l->len[i] = hi - lo;
}

static bool line_make(line *l, int64_t from, int64_t to, int64_t first, int64_t n)
{
    const double step = (double)from / (double)to, reach = step > 1 ? step : 1;
    l->n = n;
    l->most = 2 * (int64_t)ceil(reach) + 1;
    l->at = dt_alloc((size_t)n, sizeof *l->at);
    l->len = dt_alloc((size_t)n, sizeof *l->len);
    l->w = dt_alloc((size_t)n, (size_t)l->most * sizeof *l->w);
    if (l->at == NULL || l->len == NULL || l->w == NULL)
        return false;
    for (int64_t i = 0; i < n; i++)
        line_weights(l, i, ((double)(first + i) + 0.5) * step, reach, from);
    return true;
}

/* Row @y of the picture, resized across: n pixels of p->c channels. */
static void across(const dti_picture *p, const line *l, int64_t y, float *out)
{
    for (int64_t i = 0; i < l->n; i++) {
        const uint8_t *px = p->px + (y * p->w + l->at[i]) * p->c;
        const float *w = l->w + i * l->most;
        float v[3] = {0};
        if (p->c == 3)
            for (int64_t k = 0; k < l->len[i]; k++)
                for (int c = 0; c < 3; c++)
                    v[c] += w[k] * (float)px[3 * k + c];
        else
            for (int64_t k = 0; k < l->len[i]; k++)
                v[0] += w[k] * (float)px[k];
        for (int64_t c = 0; c < p->c; c++)
            out[i * p->c + c] = v[c];
    }
}

/* Resize down the columns of @rows, whose first row is picture row @first, and normalise. */
static void down(const dti_recipe *r, const line *l, const float *rows, int64_t first, int64_t c,
    bool flip, float *acc, float *x)
{
    for (int64_t y = 0; y < r->h; y++) {
        const float *w = l->w + y * l->most;
        for (int64_t i = 0; i < r->w * c; i++)
            acc[i] = 0;
        for (int64_t k = 0; k < l->len[y]; k++) {
            const float *row = rows + (l->at[y] + k - first) * r->w * c;
            for (int64_t i = 0; i < r->w * c; i++)
                acc[i] += w[k] * row[i];
        }
        for (int64_t i = 0; i < r->w; i++)
            put_pixel(r, acc + (flip ? r->w - 1 - i : i) * c, c, x + (y * r->w + i) * r->c);
    }
}

/* A part of the picture. */
typedef struct box {
    int64_t top, left, h, w;
} box;

/* Resize the part @from to th by tw pixels, of which x is what begins at (top, left). */
static dt_status resize(const dti_recipe *r, const dti_picture *p, const box *from, int64_t th,
    int64_t tw, int64_t top, int64_t left, bool flip, float *x, dt_err *err)
{
    line h = {0}, v = {0};
    float *rows = NULL, *acc = NULL;
    dt_status st = DT_E_NOMEM;
    if (line_make(&h, from->w, tw, left, r->w) && line_make(&v, from->h, th, top, r->h)) {
        for (int64_t i = 0; i < r->w; i++)
            h.at[i] += from->left;
        for (int64_t i = 0; i < r->h; i++)
            v.at[i] += from->top;
        const int64_t first = v.at[0], last = v.at[r->h - 1] + v.len[r->h - 1];
        const size_t row = (size_t)(r->w * p->c) * sizeof(float);
        rows = dt_alloc((size_t)(last - first), row);
        acc = dt_alloc(1, row);
        if (rows != NULL && acc != NULL) {
            for (int64_t y = first; y < last; y++)
                across(p, &h, y, rows + (y - first) * r->w * p->c);
            down(r, &v, rows, first, p->c, flip, acc, x);
            st = DT_OK;
        }
    }
    line_free(&h);
    line_free(&v);
    dt_free(rows);
    dt_free(acc);
    return st == DT_OK ? DT_OK : DT_FAIL(err, st, "no memory to resize a picture");
}

/* Half of a difference, halves to the even side, as Python rounds for torchvision. */
static int64_t middle(int64_t d)
{
    return d / 2 + (d % 2 != 0 && d / 2 % 2 != 0);
}

static double between(uint32_t u, double least, double most)
{
    return least + (most - least) * ((double)u * 0x1p-32);
}

/* torchvision's RandomResizedCrop: a share of the area and an aspect ratio are drawn until such a
 * part fits, ten times at most; then it is the middle, as much of it as the ratios allow. */
static box random_part(const dti_picture *p, uint64_t key)
{
    const double least = 3.0 / 4, most = 4.0 / 3, area = (double)p->h * (double)p->w;
    for (uint32_t i = 1; i <= PARTS; i++) {
        const dt_u32x4 u = dt_random(key, DT_RANDOM_AUGMENT, 0, 0, i);
        const double part = area * between(u.v[0], 0.08, 1);
        const double ratio = exp(between(u.v[1], log(least), log(most)));
        const int64_t h = (int64_t)rint(sqrt(part / ratio)), w = (int64_t)rint(sqrt(part * ratio));
        if (h > 0 && w > 0 && h <= p->h && w <= p->w)
            return (box){pick(u.v[2], p->h - h + 1), pick(u.v[3], p->w - w + 1), h, w};
    }
    const double ratio = (double)p->w / (double)p->h;
    box b = {0, 0, p->h, p->w};
    if (ratio < least)
        b.h = (int64_t)rint((double)p->w / least);
    else if (ratio > most)
        b.w = (int64_t)rint((double)p->h * most);
    b.top = (p->h - b.h) / 2;
    b.left = (p->w - b.w) / 2;
    return b;
}

static int64_t within(int64_t v, int64_t most)
{
    return v < 0 ? 0 : v > most ? most : v;
}

static void cut_out(const dti_recipe *r, uint64_t key, float *x)
{
    const dt_u32x4 u = dt_random(key, DT_RANDOM_AUGMENT, 0, 0, CUT);
    const int64_t top = pick(u.v[0], r->h) - r->cutout / 2;
    const int64_t left = pick(u.v[1], r->w) - r->cutout / 2;
    const int64_t first = within(left, r->w), last = within(left + r->cutout, r->w);
    for (int64_t y = within(top, r->h); y < within(top + r->cutout, r->h); y++)
        memset(x + (y * r->w + first) * r->c, 0, (size_t)((last - first) * r->c) * sizeof *x);
}

static dt_status fit(const dti_recipe *r, const dti_picture *p, uint64_t key, float *x, dt_err *err)
{
    const dt_u32x4 u = dt_random(key, DT_RANDOM_AUGMENT, 0, 0, 0);
    const bool flip = r->augment && r->flip && (u.v[2] >> 31) != 0;
    if (r->centre && (p->h > r->h || p->w > r->w))
        return DT_FAIL(err, DT_E_DATA,
            "picture of %" PRId64 "x%" PRId64 " does not fit the network's %" PRId64 "x%" PRId64,
            p->h, p->w, r->h, r->w);
    if (r->centre || (p->h == r->h && p->w == r->w)) {
        int64_t top = -((r->h - p->h) / 2), left = -((r->w - p->w) / 2);
        if (r->augment) {
            top += pick(u.v[0], 2 * BORDER + 1) - BORDER;
            left += pick(u.v[1], 2 * BORDER + 1) - BORDER;
        }
        place(r, p, top, left, flip, x);
        return DT_OK;
    }
    if (r->augment) {
        const box part = random_part(p, key);
        return resize(r, p, &part, r->h, r->w, 0, 0, flip, x, err);
    }
    const box all = {0, 0, p->h, p->w};
    if (r->stretch)
        return resize(r, p, &all, r->h, r->w, 0, 0, false, x, err);
    /* Sides to cover, then the resized picture: one side exactly, the other at least. */
    const int64_t ch = (r->h * 256 + 112) / 224, cw = (r->w * 256 + 112) / 224;
    const bool high = ch * p->w >= cw * p->h; /* the height decides */
    const int64_t th = high ? ch : cw * p->h / p->w, tw = high ? ch * p->w / p->h : cw;
    return resize(r, p, &all, th, tw, middle(th - r->h), middle(tw - r->w), flip, x, err);
}

dt_status dti_transform(
    const dti_recipe *r, const dti_picture *p, uint64_t key, float *x, dt_err *err)
{
    DT_CHECK(fit(r, p, key, x, err));
    if (r->augment && r->cutout > 0)
        cut_out(r, key, x);
    return DT_OK;
}
