/* The classes of a picture's pixels as a PNG file. */
#include "tools/mask.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "data/unzip.h"
#include "engine/base/alloc.h"
#include "engine/base/io.h"

/* The name of a picture's file without its ending. */
static const char *stem_of(const char *picture, int *n)
{
    const char *slash = strrchr(picture, '/'), *name = slash != NULL ? slash + 1 : picture;
    const char *dot = strrchr(name, '.');
    *n = dot != NULL && dot != name ? (int)(dot - name) : (int)strlen(name);
    return name;
}

bool dti_mask_alike(const char *picture, const char *other)
{
    int a, b;
    const char *one = stem_of(picture, &a), *two = stem_of(other, &b);
    return a == b && strncmp(one, two, (size_t)a) == 0;
}

dt_status dti_mask_path(
    char to[DTI_MASK_PATH], const char *folder, const char *picture, dt_err *err)
{
    int n;
    const char *stem = stem_of(picture, &n);
    struct stat st;
    if (snprintf(to, DTI_MASK_PATH, "%s/%.*s.png", folder, n, stem) >= DTI_MASK_PATH)
        return DT_FAIL(
            err, DT_E_IO, "'%.60s...' and '%.60s...' are too long for a path", folder, stem);
    if (lstat(to, &st) == 0)
        return DT_FAIL(err, DT_E_CONFIG,
            "'%s', the mask of '%s', is there already; name another folder with --masks", to,
            picture);
    return DT_OK;
}

/* ---- the file ---- */

/* Bytes that are there, and room for all. */
typedef struct png {
    uint8_t *at;
    size_t n;
} png;

static void put_number(png *p, uint32_t v)
{
    for (int i = 3; i >= 0; i--)
        p->at[p->n++] = (uint8_t)(v >> 8 * i);
}

/* What was written behind @from, where its length stands, is a chunk. */
static void end_chunk(png *p, size_t from)
{
    const size_t bytes = p->n - from - 8;
    png length = {p->at, from};
    put_number(&length, (uint32_t)bytes);
    put_number(p, (uint32_t)crc32_z(0, p->at + from + 4, bytes + 4));
}

static size_t begin_chunk(png *p, const char name[4])
{
    const size_t from = p->n;
    p->n += 4;
    memcpy(p->at + p->n, name, 4);
    p->n += 4;
    return from;
}

static void put_header(png *p, const dt_mask *m)
{
    static const uint8_t signature[8] = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'};
    static const uint8_t kind[5] = {8, 3, 0, 0, 0}; /* 8 bits a pixel, of a palette */
    memcpy(p->at, signature, sizeof signature);
    p->n = sizeof signature;
    const size_t from = begin_chunk(p, "IHDR");
    put_number(p, (uint32_t)m->w);
    put_number(p, (uint32_t)m->h);
    memcpy(p->at + p->n, kind, sizeof kind);
    p->n += sizeof kind;
    end_chunk(p, from);
}

/* Bits of a class go to red, green and blue in turns, the lowest to the highest. */
static void put_palette(png *p)
{
    const size_t from = begin_chunk(p, "PLTE");
    for (int class = 0; class < DTI_MASK_CLASSES; class ++, p->n += 3) {
        memset(p->at + p->n, 0, 3);
        for (int bit = 0; bit < 8; bit++)
            p->at[p->n + (size_t)(bit % 3)] |= (uint8_t)((class >> bit & 1) << (7 - bit / 3));
    }
    end_chunk(p, from);
}

/* Rows, each behind the number of its filter, none. */
static uint8_t *rows_of(const dt_mask *m)
{
    const size_t row = (size_t)m->w + 1;
    uint8_t *rows = dt_alloc((size_t)m->h, row);
    for (int64_t y = 0; rows != NULL && y < m->h; y++) {
        rows[(size_t)y * row] = 0;
        for (int64_t x = 0; x < m->w; x++)
            rows[(size_t)y * row + 1 + (size_t)x] = (uint8_t)m->class[y * m->w + x];
    }
    return rows;
}

/* There is room for all that deflate may make of it. */
static bool put_pixels(png *p, z_stream *z, const uint8_t *rows, size_t bytes, size_t room)
{
    const size_t from = begin_chunk(p, "IDAT");
    z->next_in = rows;
    z->avail_in = (uInt)bytes;
    z->next_out = p->at + p->n;
    z->avail_out = (uInt)room;
    const bool whole = deflate(z, Z_FINISH) == Z_STREAM_END;
    p->n += room - z->avail_out;
    end_chunk(p, from);
    return whole;
}

static dt_status print(png *p, const dt_mask *m, z_stream *z, dt_err *err)
{
    enum { REST = 1024 }; /* of the file, beside its pixels */
    const size_t bytes = (size_t)m->h * ((size_t)m->w + 1);
    const size_t room = deflateBound(z, (uLong)bytes);
    uint8_t *rows = rows_of(m);
    p->at = dt_alloc(room + REST, 1);
    const bool made = rows != NULL && p->at != NULL;
    bool whole = false;
    if (made) {
        put_header(p, m);
        put_palette(p);
        whole = put_pixels(p, z, rows, bytes, room);
        end_chunk(p, begin_chunk(p, "IEND"));
    }
    dt_free(rows);
    if (!made)
        return DT_FAIL(err, DT_E_NOMEM, "no memory for a mask");
    return whole ? DT_OK : DT_FAIL(err, DT_E_INTERNAL, "a mask is not deflated whole");
}

dt_status dti_mask_write(const char *path, const dt_mask *m, dt_err *err)
{
    png p = {0};
    z_stream z = {.zalloc = dt_zip_alloc, .zfree = dt_zip_free};
    if (deflateInit(&z, Z_DEFAULT_COMPRESSION) != Z_OK)
        return DT_FAIL(err, DT_E_NOMEM, "no memory for a mask");
    dt_status st = print(&p, m, &z, err);
    (void)deflateEnd(&z);
    if (st == DT_OK)
        st = dt_write_file(path, p.at, p.n, err);
    dt_free(p.at);
    return st;
}
