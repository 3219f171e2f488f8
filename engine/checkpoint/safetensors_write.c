/* Writing safetensors: the header as text, padded, then the data as it is handed over. */
#include "engine/checkpoint/safetensors.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/alloc.h"
#include "engine/base/io.h"
#include "engine/base/json.h"

enum { DATA_ALIGN = 64 };

/* A text that grows; once memory is out it stays so. */
typedef struct text {
    char *p;
    size_t n, cap;
    bool lost;
} text;

static void put_bytes(text *t, const char *s, size_t n)
{
    t->lost = t->lost || !dt_grow(&t->p, &t->cap, t->n + n, 1);
    if (t->lost)
        return;
    memcpy(t->p + t->n, s, n);
    t->n += n;
}

static void DT_PRINTF(2, 3) put(text *t, const char *fmt, ...)
{
    char s[96]; /* every format here is shorter */
    va_list ap;
    va_start(ap, fmt);
    const int n = vsnprintf(s, sizeof s, fmt, ap);
    va_end(ap);
    DT_ASSERT(n >= 0 && n < (int)sizeof s);
    put_bytes(t, s, (size_t)n);
}

static void put_string(text *t, const char *s)
{
    put(t, "\"");
    char c[DTI_JSON_CHAR];
    for (; *s != '\0'; s++)
        put_bytes(t, c, dti_json_char(c, *s));
    put(t, "\"");
}

static bool entry_bytes(const dt_st_out *e, size_t *bytes)
{
    *bytes = dt_st_type_bytes(e->type);
    for (int i = 0; i < e->rank; i++)
        if (e->d[i] < 0 || !dt_mul_bytes(*bytes, (size_t)e->d[i], bytes))
            return false;
    return e->rank >= 0 && e->rank <= DT_ST_RANK;
}

static void put_entry(text *t, const dt_st_out *e, uint64_t begin, uint64_t end)
{
    put_string(t, e->name);
    put(t, ":{\"dtype\":\"%s\",\"shape\":[", dt_st_type_name(e->type));
    for (int i = 0; i < e->rank; i++)
        put(t, "%s%" PRId64, i > 0 ? "," : "", e->d[i]);
    put(t, "],\"data_offsets\":[%" PRIu64 ",%" PRIu64 "]}", begin, end);
}

static void put_metadata(text *t, const dti_st_meta *meta, size_t n)
{
    put(t, "\"__metadata__\":{");
    for (size_t i = 0; i < n; i++) {
        put(t, i > 0 ? "," : "");
        put_string(t, meta[i].key);
        put(t, ":");
        put_string(t, meta[i].value);
    }
    put(t, "}");
}

/* Length, header and padding. What does not fit a file here is the caller's mistake. */
static dt_status make_header(text *t, const char *path, const dt_st_out *entries, size_t n,
    const dti_st_meta *meta, size_t n_meta, dt_err *err)
{
    put(t, "%8s{", ""); /* the length goes here */
    if (n_meta > 0)
        put_metadata(t, meta, n_meta);
    uint64_t at = 0;
    for (size_t i = 0; i < n; i++) {
        size_t bytes;
        if (!entry_bytes(&entries[i], &bytes) || bytes > (UINT64_C(1) << 53) - at)
            return DT_FAIL(
                err, DT_E_INTERNAL, "%s: bad shape of tensor '%s'", path, entries[i].name);
        if (i > 0 || n_meta > 0)
            put(t, ",");
        put_entry(t, &entries[i], at, at + bytes);
        at += bytes;
    }
    put(t, "}");
    while (!t->lost && t->n % DATA_ALIGN != 0)
        put(t, " ");
    if (t->lost)
        return DT_FAIL(err, DT_E_NOMEM, "%s: no memory for its header", path);
    const uint64_t length = t->n - 8;
    if (length > DT_ST_HEADER_BYTES || n > DT_ST_TENSORS)
        return DT_FAIL(err, DT_E_INTERNAL, "%s: header of %" PRIu64 " bytes", path, length);
    memcpy(t->p, &length, 8); /* little-endian hosts only, see safetensors.c */
    return DT_OK;
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
    text t = {0};
    dt_file_writer *w = NULL;
    dt_status st = make_header(&t, path, entries, n, meta, n_meta, err);
    if (st == DT_OK)
        st = dt_writer_open(&w, path, err);
    if (st == DT_OK) {
        dti_writer_sum(w, sum);
        st = dt_writer_put(w, t.p, t.n, err);
    }
    if (st == DT_OK)
        st = put_tensors(w, entries, n, data, arg, err);
    dt_free(t.p);
    if (st == DT_OK)
        return dt_writer_commit(w, err);
    dt_writer_abandon(w);
    return st;
}
