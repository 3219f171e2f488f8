/* Small files that tests of data sources make for themselves. Paths are below the temporary folder
 * of the process; anything that goes wrong ends the program. */
#ifndef DT_TESTS_DATA_FILES_H
#define DT_TESTS_DATA_FILES_H

#include <stddef.h>
#include <stdint.h>

#include "data/source.h"

/* Folders that are missing above it are made. */
void put_file(const char *path, const void *bytes, size_t n);
void put_folder(const char *path);

/* Bytes as they grow. */
typedef struct blob {
    uint8_t *p;
    size_t n;
} blob;
void blob_put(blob *b, const void *bytes, size_t n);
void blob_byte(blob *b, unsigned v);
void blob_big(blob *b, uint32_t v);
void blob_little(blob *b, uint32_t v, int bytes);
void blob_free(blob *b);

/* A gzip member. */
blob make_gzip(const void *bytes, size_t n);

/* An IDX file of bytes: rank 1 or 3. */
blob make_idx(int rank, const uint32_t *dims, const uint8_t *items, size_t n);

/* A PNG of rows that already have their filter byte; plte and its n may be NULL and 0. */
typedef struct png_opts {
    uint32_t w, h;
    int bits, kind; /* kind: 0 grey, 2 RGB, 3 palette, 4 grey and alpha, 6 RGBA */
    const uint8_t *plte;
    size_t plte_n;
} png_opts;
blob make_png(const png_opts *o, const uint8_t *rows, size_t n);

/* RGB pixels as a file. */
blob make_rgb_png(const uint8_t *px, int w, int h);
blob make_bmp(const uint8_t *px, int w, int h);
blob make_jpeg(const uint8_t *px, int w, int h);

/* An 8x8 JPEG of one colour, its n components (1, 3 or 4) stored as the values say. @adobe: an
 * Adobe marker that says "no transform". */
blob make_flat_jpeg(const int *values, int n, int adobe);

/* Open the source, then a loader on it, with each allocation failing in turn: DT_E_NOMEM and no
 * leak, until none fails. */
void open_with_faults(const dt_source_desc *desc, const dt_source_opts *o);

#endif
