/* Writing safetensors: the header as text, padded, then the data as it is handed over. */
#include "engine/checkpoint/safetensors.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/alloc.h"
#include "engine/base/io.h"
#include "engine/base/json.h"
#include "engine/base/memory_stream.h"

enum { DATA_ALIGN = 64 };

static bool entry_bytes(const dt_st_out *e, size_t *bytes)
{
    *bytes = dt_st_type_bytes(e->type);
    for (int i = 0; i < e->rank; i++)
        if (e->d[i] < 0 || !dt_mul_bytes(*bytes, (size_t)e->d[i], bytes))
            return false;
    return e->rank >= 0 && e->rank <= DT_ST_RANK;
}

static void put_entry(FILE *f, const dt_st_out *e, uint64_t begin, uint64_t end)
{
    dti_json_put(f, e->name);
    fprintf(f, ":{\"dtype\":\"%s\",\"shape\":[", dt_st_type_name(e->type));
    for (int i = 0; i < e->rank; i++)
        fprintf(f, "%s%" PRId64, i > 0 ? "," : "", e->d[i]);
    fprintf(f, "],\"data_offsets\":[%" PRIu64 ",%" PRIu64 "]}", begin, end);
}

static void put_metadata(FILE *f, const dti_st_meta *meta, size_t n)
{
    fputs("\"__metadata__\":{", f);
    for (size_t i = 0; i < n; i++) {
        fputs(i > 0 ? "," : "", f);
        dti_json_put(f, meta[i].key);
        fputc(':', f);
        dti_json_put(f, meta[i].value);
    }
    fputc('}', f);
}

/* Behind eight bytes for its length. What does not fit a file here is the caller's mistake. */
static dt_status put_header(FILE *f, const char *path, const dt_st_out *entries, size_t n,
    const dti_st_meta *meta, size_t n_meta, dt_err *err)
{
    fprintf(f, "%8s{", "");
    if (n_meta > 0)
        put_metadata(f, meta, n_meta);
    uint64_t at = 0;
    for (size_t i = 0; i < n; i++) {
        size_t bytes;
        if (!entry_bytes(&entries[i], &bytes) || bytes > (UINT64_C(1) << 53) - at)
            return DT_FAIL(
                err, DT_E_INTERNAL, "%s: bad shape of tensor '%s'", path, entries[i].name);
        if (i > 0 || n_meta > 0)
            fputc(',', f);
        put_entry(f, &entries[i], at, at + bytes);
        at += bytes;
    }
    fputc('}', f);
    return DT_OK;
}

/* Length, header and padding: m->text, which is the caller's. */
static dt_status make_header(dt_memory_stream *m, const char *path, const dt_st_out *entries,
    size_t n, const dti_st_meta *meta, size_t n_meta, dt_err *err)
{
    DT_CHECK(dt_memory_open(m, path, err));
    dt_status st = put_header(m->f, path, entries, n, meta, n_meta, err);
    (void)fflush(m->f);
    fprintf(m->f, "%*s", (int)(-m->n % DATA_ALIGN), "");
    DT_CHECK(dt_memory_close(m, st, err));
    const uint64_t length = m->n - 8;
    if (n > DT_ST_TENSORS)
        return DT_FAIL(err, DT_E_CONFIG,
            "%s: %zu tensors, and a file lists at most %d: take a network of fewer layers", path, n,
            DT_ST_TENSORS);
    if (length > DT_ST_HEADER_BYTES)
        return DT_FAIL(err, DT_E_CONFIG,
            "%s: the list of its %zu tensors takes %" PRIu64 " bytes, and at most %d are read: "
            "take a network of fewer layers, or shorter names",
            path, n, length, DT_ST_HEADER_BYTES);
    memcpy(m->text, &length, 8); /* little-endian hosts only, see safetensors.c */
    return DT_OK;
}

dt_status dti_st_check(const char *path, const dt_st_out *entries, size_t n,
    const dti_st_meta *meta, size_t n_meta, dt_err *err)
{
    dt_memory_stream m = {0};
    const dt_status st = make_header(&m, path, entries, n, meta, n_meta, err);
    dt_free(m.text);
    return st;
}

static dt_status put_tensor(
    dt_file_writer *w, const dt_st_out *e, size_t i, dt_st_source data, void *arg, dt_err *err)
{
    size_t bytes;
    const bool fits = entry_bytes(e, &bytes);
    DT_ASSERT(fits); /* make_header has looked */
    for (size_t at = 0, n; at < bytes; at += n) {
        const void *p = NULL;
        n = bytes - at;
        DT_CHECK(data(arg, i, at, &p, &n, err));
        DT_ASSERT(n > 0 && n <= bytes - at);
        DT_CHECK(dt_writer_put(w, p, n, err));
    }
    return DT_OK;
}

static dt_status put_tensors(dt_file_writer *w, const dt_st_out *entries, size_t n,
    dt_st_source data, void *arg, dt_err *err)
{
    for (size_t i = 0; i < n; i++)
        DT_CHECK(put_tensor(w, &entries[i], i, data, arg, err));
    return DT_OK;
}

dt_status dt_st_write(const char *path, const dt_st_out *entries, size_t n, const dti_st_meta *meta,
    size_t n_meta, dt_st_source data, void *arg, dt_sha256 *sum, dt_err *err)
{
    dt_memory_stream m = {0};
    dt_file_writer *w = NULL;
    dt_status st = make_header(&m, path, entries, n, meta, n_meta, err);
    if (st == DT_OK)
        st = dt_writer_open(&w, path, err);
    if (st == DT_OK) {
        dti_writer_sum(w, sum);
        st = dt_writer_put(w, m.text, m.n, err);
    }
    if (st == DT_OK)
        st = put_tensors(w, entries, n, data, arg, err);
    dt_free(m.text);
    if (st == DT_OK)
        return dt_writer_commit(w, err);
    dt_writer_abandon(w);
    return st;
}
