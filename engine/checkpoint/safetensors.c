#include "engine/checkpoint/safetensors_parts.h"

#include <inttypes.h>
#include <string.h>

#include "engine/base/alloc.h"
#include "engine/base/io.h"

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "safetensors are little-endian and are read without conversion"
#endif

/* The header's length, from its first 8 bytes, checked against what there is before any use. */
static dt_status header_length(
    const char *path, const uint8_t *first, uint64_t file_bytes, size_t *n, dt_err *err)
{
    uint64_t length;
    memcpy(&length, first, 8);
    if (length == 0)
        return DT_FAIL(err, DT_E_DATA, "%s: no safetensors file: its header is empty", path);
    if (length > DT_ST_HEADER_BYTES)
        return DT_FAIL(err, DT_E_DATA,
            "%s: no safetensors file, or one too large: header of %" PRIu64 " bytes, at most %d",
            path, length, DT_ST_HEADER_BYTES);
    if (length > file_bytes - 8)
        return DT_FAIL(err, DT_E_DATA,
            "%s: header of %" PRIu64 " bytes in a file of %" PRIu64 ": truncated", path, length,
            file_bytes);
    *n = (size_t)length;
    return DT_OK;
}

static dt_status too_short(const char *path, uint64_t bytes, dt_err *err)
{
    return DT_FAIL(
        err, DT_E_DATA, "%s: no safetensors file: it has %" PRIu64 " bytes", path, bytes);
}

static dt_status file_create(dt_st_file **out, const char *path, dt_err *err)
{
    dt_st_file *f = dt_alloc(1, sizeof *f);
    if (f != NULL)
        f->fd = -1;
    if (f == NULL || (f->path = dt_strdup(path)) == NULL) {
        dt_free(f);
        return DT_FAIL(err, DT_E_NOMEM, "%s: no memory", path);
    }
    *out = f;
    return DT_OK;
}

dt_status dt_st_parse(dt_st_file **out, const char *name, const void *bytes, size_t n, dt_err *err)
{
    *out = NULL;
    if (n < 8)
        return too_short(name, n, err);
    size_t length;
    DT_CHECK(header_length(name, bytes, n, &length, err));
    dt_st_file *f;
    DT_CHECK(file_create(&f, name, err));
    f->data_at = 8 + length;
    f->data_bytes = n - f->data_at;
    const dt_status st = dti_st_parse_header(f, (const char *)bytes + 8, length, err);
    if (st != DT_OK)
        dt_st_close(f);
    else
        *out = f;
    return st;
}

/* f->fd is open, @size its length. */
static dt_status read_file_header(dt_st_file *f, uint64_t size, dt_err *err)
{
    uint8_t first[8];
    size_t length;
    if (size < 8)
        return too_short(f->path, size, err);
    DT_CHECK(dt_read_at(f->fd, f->path, first, 8, 0, err));
    DT_CHECK(header_length(f->path, first, size, &length, err));
    f->data_at = 8 + length;
    f->data_bytes = size - f->data_at;
    char *header = dt_alloc(length, 1);
    if (header == NULL)
        return DT_FAIL(err, DT_E_NOMEM, "%s: no memory for its header", f->path);
    dt_status st = dt_read_at(f->fd, f->path, header, length, 8, err);
    if (st == DT_OK)
        st = dti_st_parse_header(f, header, length, err);
    dt_free(header);
    return st;
}

dt_status dt_st_open(dt_st_file **out, const char *path, dt_err *err)
{
    *out = NULL;
    dt_st_file *f;
    DT_CHECK(file_create(&f, path, err));
    off_t size;
    dt_status st = dt_open_regular(&f->fd, &size, path, DT_E_DATA, err);
    if (st == DT_OK)
        st = read_file_header(f, (uint64_t)size, err);
    if (st != DT_OK)
        dt_st_close(f);
    else
        *out = f;
    return st;
}

void dt_st_close(dt_st_file *f)
{
    if (f == NULL)
        return;
    if (f->fd >= 0)
        (void)dt_io->close(f->fd);
    dt_free(f->path);
    dt_free(f->entry);
    dt_free(f->sorted);
    dt_free(f->meta);
    dt_free(f->texts);
    dt_free(f);
}

size_t dt_st_count(const dt_st_file *f)
{
    return f->n;
}

const dt_st_entry *dt_st_at(const dt_st_file *f, size_t i)
{
    return &f->entry[i];
}

const char *dt_st_metadata(const dt_st_file *f, const char *key)
{
    for (size_t i = 0; i < f->n_meta; i++)
        if (strcmp(f->meta[i].key, key) == 0)
            return f->meta[i].value;
    return NULL;
}

dt_status dt_st_read(
    const dt_st_file *f, const dt_st_entry *e, uint64_t from, void *to, size_t n, dt_err *err)
{
    if (f->fd < 0)
        return DT_FAIL(err, DT_E_DATA, "%s: parsed from memory, it has no data to read", f->path);
    if (from > e->bytes || n > e->bytes - from)
        return DT_FAIL(err, DT_E_INTERNAL, "%s: tensor '%s': read past its %" PRIu64 " bytes",
            f->path, e->name, e->bytes);
    DT_TRY(err, dt_read_at(f->fd, f->path, to, n, (off_t)(f->data_at + e->begin + from), err),
        "%s: tensor '%s' cannot be read", f->path, e->name);
    return DT_OK;
}
