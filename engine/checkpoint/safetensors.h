/* Hugging Face's safetensors files: an 8-byte little-endian length, a JSON header, raw
 * little-endian data. Reading trusts nothing: the header is capped and parsed behind depth, count,
 * name and duplicate checks, offsets must cover the data exactly, without overlap or holes, and
 * every size must match its shape. Names are UTF-8 without control characters; keys other than
 * dtype, shape and data_offsets are refused. Scalars (shape []) and tensors of no elements are
 * fine. Values are not looked at. */
#ifndef DT_ENGINE_CHECKPOINT_SAFETENSORS_H
#define DT_ENGINE_CHECKPOINT_SAFETENSORS_H

#include "engine/base/error.h"
#include "engine/base/sha256.h"

enum {
    DT_ST_RANK = 8,
    DT_ST_NAME_BYTES = 512,
    DT_ST_TENSORS = 1 << 18, /* more than the header's bytes have room for under usual names */
    DT_ST_HEADER_BYTES = 16 << 20
};

typedef enum dt_st_type {
    DT_ST_F32,
    DT_ST_F16,
    DT_ST_BF16,
    DT_ST_F64,
    DT_ST_I64,
    DT_ST_I32,
    DT_ST_I16,
    DT_ST_I8,
    DT_ST_U8,
    DT_ST_BOOL
} dt_st_type;

/* Dimensions, or a place among them, as messages have them: "[64, 3, 7, 7]". */
typedef struct dt_dims_text {
    char s[DT_ST_RANK * 22 + 3];
} dt_dims_text;
dt_dims_text dt_dims_print(int rank, const int64_t *d);

typedef struct dt_st_entry {
    const char *name; /* owned by the file */
    dt_st_type type;
    int rank;
    int64_t d[DT_ST_RANK];
    uint64_t begin, bytes; /* in the data region */
} dt_st_entry;

typedef struct dti_st_meta {
    const char *key, *value;
} dti_st_meta;

typedef struct dt_st_file dt_st_file;

/* Open and check; data stays on disk. DT_E_DATA for a bad file (named tensor, value), DT_E_DATA
 * with the system's text when it cannot be opened. */
dt_status dt_st_open(dt_st_file **out, const char *path, dt_err *err) DT_NODISCARD;
/* Check a header and the size of what follows it, from memory (fuzzing); reads of data fail. */
dt_status dti_st_parse(
    dt_st_file **out, const char *name, const void *bytes, size_t n, dt_err *err) DT_NODISCARD;
void dt_st_close(dt_st_file *f);

size_t dti_st_count(const dt_st_file *f);
const dt_st_entry *dti_st_at(const dt_st_file *f, size_t i); /* in the order of their data */
const dt_st_entry *dt_st_find(const dt_st_file *f, const char *name); /* NULL if none; O(log n) */
size_t dt_st_type_bytes(dt_st_type t);
const char *dt_st_type_name(dt_st_type t); /* "F32" */

/* From here on its data are read in their order, by one thread: another reads ahead. What is asked
 * for otherwise is read all the same, and where there is no memory for it nothing changes. Begins
 * anew when called again. */
void dti_st_stream(dt_st_file *f);

/* Read bytes [from, from + n) of an entry's data. Thread-safe but for a stream. DT_E_IO or
 * DT_E_DATA when the file fails or has shrunk. */
dt_status dt_st_read(const dt_st_file *f, const dt_st_entry *e, uint64_t from, void *to, size_t n,
    dt_err *err) DT_NODISCARD;

typedef struct dt_st_out {
    const char *name;
    dt_st_type type;
    int rank;
    int64_t d[DT_ST_RANK];
} dt_st_out;

/* Bytes of entry @i from byte @at on, borrowed until the next call; *n is how many are left, and
 * becomes how many there are at *bytes: at least one. */
typedef dt_status (*dt_st_source)(
    void *arg, size_t i, size_t at, const void **bytes, size_t *n, dt_err *err);

/* Before anything is written: DT_E_CONFIG when a file could not list these, and so could not be
 * read again. */
dt_status dti_st_check(const char *path, const dt_st_out *entries, size_t n,
    const dti_st_meta *meta, size_t n_meta, dt_err *err) DT_NODISCARD;

/* Write a file: beside, synced, renamed over @path, folder synced, so that a reader finds the old
 * file or the new one. Entries are written in the order given; the caller chooses an order that
 * depends on nothing but the weights. @data is asked for the bytes of each in order, and for no
 * entry that has none. The header is padded with spaces so that data starts at a multiple of 64.
 * All bytes of the file are added to @sum on their way; NULL: to none. */
dt_status dt_st_write(const char *path, const dt_st_out *entries, size_t n, const dti_st_meta *meta,
    size_t n_meta, dt_st_source data, void *arg, dt_sha256 *sum, dt_err *err) DT_NODISCARD;

#endif
