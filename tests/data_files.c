#include "tests/data_files.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#define ZLIB_CONST
#include <zlib.h>

#include "data/loader.h"
#include "engine/base/alloc.h"
#include "tests/check.h"

static void need(int ok, const char *what)
{
    if (ok)
        return;
    perror(what);
    abort();
}

void put_folder(const char *path)
{
    char part[8192];
    need(strlen(path) < sizeof part, path);
    strcpy(part, path);
    for (char *s = part + 1; *s != '\0'; s++)
        if (*s == '/') {
            *s = '\0';
            need(mkdir(part, 0777) == 0 || errno == EEXIST, part);
            *s = '/';
        }
    need(mkdir(part, 0777) == 0 || errno == EEXIST, part);
}

void put_file(const char *path, const void *bytes, size_t n)
{
    char folder[8192];
    need(strlen(path) < sizeof folder, path);
    strcpy(folder, path);
    *strrchr(folder, '/') = '\0';
    put_folder(folder);
    FILE *f = fopen(path, "wb");
    need(f != NULL, path);
    need(fwrite(bytes, 1, n, f) == n, path);
    need(fclose(f) == 0, path);
}

void blob_put(blob *b, const void *bytes, size_t n)
{
    b->p = realloc(b->p, b->n + n + 1);
    need(b->p != NULL, "memory");
    if (n > 0)
        memcpy(b->p + b->n, bytes, n);
    b->n += n;
}

void blob_byte(blob *b, unsigned v)
{
    const uint8_t c = (uint8_t)v;
    blob_put(b, &c, 1);
}

void blob_big(blob *b, uint32_t v)
{
    for (int i = 24; i >= 0; i -= 8)
        blob_byte(b, v >> i & 255);
}

void blob_little(blob *b, uint32_t v, int bytes)
{
    for (int i = 0; i < bytes; i++)
        blob_byte(b, v >> (8 * i) & 255);
}

void blob_free(blob *b)
{
    free(b->p);
    *b = (blob){0};
}

static blob deflate_all(const void *bytes, size_t n, int window)
{
    z_stream z = {0};
    blob b = {0};
    need(deflateInit2(&z, 9, Z_DEFLATED, window, 8, Z_DEFAULT_STRATEGY) == Z_OK, "deflateInit2");
    b.p = malloc(deflateBound(&z, n) + 64);
    need(b.p != NULL, "memory");
    z.next_in = bytes;
    z.avail_in = (uInt)n;
    z.next_out = b.p;
    z.avail_out = (uInt)(deflateBound(&z, n) + 64);
    need(deflate(&z, Z_FINISH) == Z_STREAM_END, "deflate");
    b.n = z.total_out;
    deflateEnd(&z);
    return b;
}

blob make_gzip(const void *bytes, size_t n)
{
    return deflate_all(bytes, n, 15 + 16);
}

blob make_idx(int rank, const uint32_t *dims, const uint8_t *items, size_t n)
{
    blob b = {0};
    blob_big(&b, 0x800u | (uint32_t)rank);
    for (int i = 0; i < rank; i++)
        blob_big(&b, dims[i]);
    blob_put(&b, items, n);
    return b;
}

static void put_chunk(blob *b, const char *type, const void *data, size_t n)
{
    blob_big(b, (uint32_t)n);
    const size_t at = b->n;
    blob_put(b, type, 4);
    blob_put(b, data, n);
    blob_big(b, (uint32_t)crc32(0, b->p + at, (uInt)(n + 4)));
}

blob make_png(const png_opts *o, const uint8_t *rows, size_t n)
{
    blob b = {0}, ihdr = {0}, idat = deflate_all(rows, n, 15);
    blob_put(&b, "\x89PNG\r\n\x1a\n", 8);
    blob_big(&ihdr, o->w);
    blob_big(&ihdr, o->h);
    blob_byte(&ihdr, (unsigned)o->bits);
    blob_byte(&ihdr, (unsigned)o->kind);
    blob_little(&ihdr, 0, 3);
    put_chunk(&b, "IHDR", ihdr.p, ihdr.n);
    if (o->plte != NULL)
        put_chunk(&b, "PLTE", o->plte, o->plte_n);
    put_chunk(&b, "IDAT", idat.p, idat.n);
    put_chunk(&b, "IEND", "", 0);
    blob_free(&ihdr);
    blob_free(&idat);
    return b;
}

blob make_rgb_png(const uint8_t *px, int w, int h)
{
    blob rows = {0};
    for (int y = 0; y < h; y++) {
        blob_byte(&rows, 0);
        blob_put(&rows, px + y * w * 3, (size_t)w * 3);
    }
    const png_opts o = {.w = (uint32_t)w, .h = (uint32_t)h, .bits = 8, .kind = 2};
    blob b = make_png(&o, rows.p, rows.n);
    blob_free(&rows);
    return b;
}

blob make_bmp(const uint8_t *px, int w, int h)
{
    blob b = {0};
    const uint32_t row = ((uint32_t)w * 3 + 3) / 4 * 4;
    blob_put(&b, "BM", 2);
    blob_little(&b, 54 + row * (uint32_t)h, 4);
    blob_little(&b, 0, 4);
    blob_little(&b, 54, 4);
    blob_little(&b, 40, 4);
    blob_little(&b, (uint32_t)w, 4);
    blob_little(&b, (uint32_t)h, 4);
    blob_little(&b, 1, 2);
    blob_little(&b, 24, 2);
    for (int i = 0; i < 6; i++)
        blob_little(&b, 0, 4);
    for (int y = h - 1; y >= 0; y--) {
        for (int x = 0; x < w; x++)
            for (int c = 2; c >= 0; c--)
                blob_byte(&b, px[(y * w + x) * 3 + c]);
        for (uint32_t x = (uint32_t)w * 3; x < row; x++)
            blob_byte(&b, 0);
    }
    return b;
}

/* Bits of entropy-coded data, most significant first. */
typedef struct bits {
    blob *out;
    unsigned acc;
    int n;
} bits;

static void put_bits(bits *b, unsigned v, int n)
{
    for (int i = n - 1; i >= 0; i--) {
        b->acc = b->acc << 1 | (v >> i & 1);
        if (++b->n == 8) {
            blob_byte(b->out, b->acc & 255);
            if ((b->acc & 255) == 255)
                blob_byte(b->out, 0);
            b->acc = 0;
            b->n = 0;
        }
    }
}

/* A plain encoder: every quantiser is 8, DC categories have codes of four bits, AC symbols codes of
 * eight bits, components are not subsampled. */
enum {
    END = 160,
    RUN_OF_16 = 161
}; /* AC symbols after the 160 of a run below 16 and a size of 1 to 10 */

static void put_header(blob *b, int w, int h, int n, int adobe)
{
    blob_put(b, "\xFF\xD8", 2);
    if (adobe)
        blob_put(b, "\xFF\xEE\0\x0E\x41\x64\x6F\x62\x65\0\x64\0\0\0\0\0", 16);
    blob_put(b, "\xFF\xDB\0\x43\0", 5);
    for (int i = 0; i < 64; i++)
        blob_byte(b, 8);
    blob_put(b, "\xFF\xC4\0\x1F\0\0\0\0\x0C\0\0\0\0\0\0\0\0\0\0\0\0", 21);
    for (unsigned i = 0; i < 12; i++)
        blob_byte(b, i);
    blob_put(b, "\xFF\xC4\0\xB5\x10\0\0\0\0\0\0\0\xA2\0\0\0\0\0\0\0\0", 21);
    for (unsigned i = 0; i < 160; i++)
        blob_byte(b, i / 10 << 4 | (i % 10 + 1));
    blob_put(b, "\0\xF0", 2);
    const uint8_t frame[] = {0xFF, 0xC0, 0, (uint8_t)(8 + 3 * n), 8, (uint8_t)(h >> 8), (uint8_t)h,
        (uint8_t)(w >> 8), (uint8_t)w, (uint8_t)n};
    blob_put(b, frame, sizeof frame);
    for (int i = 1; i <= n; i++)
        blob_little(b, (unsigned)i | 0x1100u, 3);
    blob_put(b, "\xFF\xDA\0", 3);
    blob_byte(b, (unsigned)(6 + 2 * n));
    blob_byte(b, (unsigned)n);
    for (int i = 1; i <= n; i++)
        blob_little(b, (unsigned)i, 2);
    blob_put(b, "\0\x3F\0", 3);
}

static int category(int v)
{
    int n = 0;
    while (abs(v) >> n != 0)
        n++;
    return n;
}

static void put_value(bits *s, int v, int size)
{
    put_bits(s, (unsigned)(v < 0 ? v - 1 : v), size);
}

/* Coefficients of one block, in zigzag order. */
static void put_block(bits *s, const int *v, int *last_dc)
{
    const int dc = v[0] - *last_dc;
    *last_dc = v[0];
    put_bits(s, (unsigned)category(dc), 4);
    put_value(s, dc, category(dc));
    int run = 0;
    for (int i = 1; i < 64; i++) {
        if (v[i] == 0) {
            run++;
            continue;
        }
        for (; run > 15; run -= 16)
            put_bits(s, RUN_OF_16, 8);
        put_bits(s, (unsigned)(run * 10 + category(v[i]) - 1), 8);
        put_value(s, v[i], category(v[i]));
        run = 0;
    }
    if (run > 0)
        put_bits(s, END, 8);
}

/* One step of the zigzag over columns u and rows v: up and to the right, then down and to the left.
 */
static void zigzag(int *u, int *v)
{
    int *ahead = (*u + *v) % 2 == 0 ? u : v, *back = ahead == u ? v : u;
    if (*ahead == 7) {
        ++*back;
    } else {
        ++*ahead;
        *back -= *back > 0;
    }
}

/* The cosine transform of an 8x8 block of values around 0, quantised, in zigzag order. */
static void transform_block(const double *block, int *out)
{
    const double pi = 3.14159265358979323846, half = sqrt(0.5);
    int u = 0, v = 0;
    for (int i = 0; i < 64; i++, zigzag(&u, &v)) {
        double sum = 0;
        for (int y = 0; y < 8; y++)
            for (int x = 0; x < 8; x++)
                sum += block[y * 8 + x] * cos((2 * x + 1) * u * pi / 16) *
                       cos((2 * y + 1) * v * pi / 16);
        sum *= (u == 0 ? half : 1) * (v == 0 ? half : 1) / 4;
        out[i] = (int)lround(sum / 8);
    }
}

/* Pixel (x, y) in YCbCr around 0; past the edge the last one is repeated. */
static double component(const uint8_t *px, int w, int h, int x, int y, int c)
{
    static const double from_rgb[3][3] = {
        {0.299, 0.587, 0.114}, {-0.168736, -0.331264, 0.5}, {0.5, -0.418688, -0.081312}};
    const uint8_t *p = px + ((y < h ? y : h - 1) * w + (x < w ? x : w - 1)) * 3;
    return from_rgb[c][0] * p[0] + from_rgb[c][1] * p[1] + from_rgb[c][2] * p[2] -
           (c == 0 ? 128 : 0);
}

static void put_end(bits *s)
{
    put_bits(s, 127, 7);
    blob_put(s->out, "\xFF\xD9", 2);
}

blob make_jpeg(const uint8_t *px, int w, int h)
{
    blob b = {0};
    int last[3] = {0};
    put_header(&b, w, h, 3, 0);
    bits s = {.out = &b};
    for (int top = 0; top < h; top += 8)
        for (int left = 0; left < w; left += 8)
            for (int c = 0; c < 3; c++) {
                double block[64];
                int v[64];
                for (int i = 0; i < 64; i++)
                    block[i] = component(px, w, h, left + i % 8, top + i / 8, c);
                transform_block(block, v);
                put_block(&s, v, &last[c]);
            }
    put_end(&s);
    return b;
}

blob make_flat_jpeg(const int *values, int n, int adobe)
{
    blob b = {0};
    put_header(&b, 8, 8, n, adobe);
    bits s = {.out = &b};
    for (int i = 0; i < n; i++) {
        int v[64] = {values[i] - 128}, last = 0; /* 8 times the mean, over the quantiser */
        put_block(&s, v, &last);
    }
    put_end(&s);
    return b;
}

static void load_with_fault(const dt_source *s, long k)
{
    const dt_loader_opts o = {.batch = s->opts.batch, .ahead = 1, .threads = 2};
    const long before = dt_alloc_live();
    dt_err err = {0};
    dt_loader *l = NULL;
    dt_batch b;
    dt_alloc_fail_at(k);
    dt_status st = dt_loader_create(&l, s, &o, &err);
    if (st == DT_OK)
        st = dt_loader_feed(l)->next(dt_loader_feed(l)->self, &b, &err);
    dt_loader_destroy(l);
    dt_alloc_fail_at(0);
    assert_int_equal(dt_alloc_live(), before);
    assert_int_equal(st == DT_OK, err.n == 0);
    assert_true(st == DT_OK || st == DT_E_NOMEM);
}

void open_with_faults(const dt_source_desc *desc, const dt_source_opts *o)
{
    const long before = dt_alloc_live();
    dt_source *s = NULL;
    for (long k = 1; s == NULL; k++) {
        dt_err err = {0};
        dt_alloc_fail_at(k);
        const dt_status st = desc->open(&s, o, &err);
        dt_alloc_fail_at(0);
        assert_true(k < 1000);
        assert_true(st == DT_OK ? s != NULL && k > 1 : st == DT_E_NOMEM && err.n > 0);
        assert_true(s != NULL || dt_alloc_live() == before);
    }
    for (long k = 1; k < 50; k++)
        load_with_fault(s, k);
    desc->close(s);
    assert_int_equal(dt_alloc_live(), before);
}
