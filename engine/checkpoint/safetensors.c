/* Reading safetensors: one tensor of the header, all of them, which must cover the data without
 * holes, and the file. */
#include "engine/checkpoint/safetensors.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>

#include "engine/base/alloc.h"
#include "engine/base/io.h"
#include "engine/base/json.h"
#include "engine/base/read_ahead.h"

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "safetensors are little-endian and are read without conversion"
#endif

struct dt_st_file {
    int fd; /* -1: parsed from memory */
    char *path;
    dti_ahead *ahead; /* of who reads in order */
    uint64_t data_at, data_bytes;
    size_t n;
    dt_st_entry *entry;         /* by offset */
    const dt_st_entry **sorted; /* by name */
    char *texts;                /* names, NUL-terminated */
    size_t texts_held, texts_room;
};

/* ---- a tensor ---- */

/* A tensor has at most 14 JSON values and the header at most this many in all. */
enum { HEADER_DEPTH = 3, HEADER_VALUES = DT_ST_TENSORS * 16 }; /* none has 16 */

/* A copy that lives as long as the file. Quotes alone take more room in the header than the NUL
 * here, and escapes only shrink. */
static const char *keep_text(dt_st_file *f, const char *s)
{
    const size_t n = strlen(s) + 1;
    DT_ASSERT(n <= f->texts_room - f->texts_held);
    char *to = f->texts + f->texts_held;
    memcpy(to, s, n);
    f->texts_held += n;
    return to;
}

static const struct {
    const char *name;
    size_t bytes;
} types[] = {
    [DT_ST_F32] = {"F32", 4},
    [DT_ST_F16] = {"F16", 2},
    [DT_ST_BF16] = {"BF16", 2},
    [DT_ST_F64] = {"F64", 8},
    [DT_ST_I64] = {"I64", 8},
    [DT_ST_I32] = {"I32", 4},
    [DT_ST_I16] = {"I16", 2},
    [DT_ST_I8] = {"I8", 1},
    [DT_ST_U8] = {"U8", 1},
    [DT_ST_BOOL] = {"BOOL", 1},
};

size_t dt_st_type_bytes(dt_st_type t)
{
    return types[t].bytes;
}

const char *dt_st_type_name(dt_st_type t)
{
    return types[t].name;
}

static dt_status check_name(const dt_st_file *f, const char *name, dt_err *err)
{
    const size_t n = strlen(name);
    if (n == 0 || n > DT_ST_NAME_BYTES)
        return DT_FAIL(err, DT_E_DATA, "%s: a tensor name has %zu bytes; must be 1..%d", f->path, n,
            DT_ST_NAME_BYTES);
    for (const char *c = name; *c != '\0'; c++)
        if ((uint8_t)*c < 0x20 || *c == 0x7F)
            return DT_FAIL(err, DT_E_DATA, "%s: a tensor name has control character 0x%02x",
                f->path, (unsigned)*c);
    return DT_OK;
}

dt_dims_text dt_dims_print(int rank, const int64_t *d)
{
    dt_dims_text t = {"["};
    size_t at = 1;
    for (int i = 0; i < rank; i++)
        at += (size_t)snprintf(t.s + at, sizeof t.s - at, "%s%" PRId64, i > 0 ? ", " : "", d[i]);
    snprintf(t.s + at, sizeof t.s - at, "]");
    return t;
}

static dt_status read_dtype(const dt_st_file *f, dt_st_entry *e, const cJSON *v, dt_err *err)
{
    if (!cJSON_IsString(v))
        return DT_FAIL(err, DT_E_DATA, "%s: tensor '%s': dtype is no string", f->path, e->name);
    for (size_t t = 0; t < DT_COUNT(types); t++)
        if (strcmp(types[t].name, v->valuestring) == 0) {
            e->type = (dt_st_type)t;
            return DT_OK;
        }
    return DT_FAIL(err, DT_E_DATA,
        "%s: tensor '%s': dtype '%.40s' is not supported; convert it to F32, or whole numbers, "
        "as labels and tokens are, to I64",
        f->path, e->name, v->valuestring);
}

static dt_status read_shape(const dt_st_file *f, dt_st_entry *e, const cJSON *v, dt_err *err)
{
    if (!cJSON_IsArray(v))
        return DT_FAIL(err, DT_E_DATA, "%s: tensor '%s': shape is no array", f->path, e->name);
    const int rank = cJSON_GetArraySize(v);
    if (rank > DT_ST_RANK)
        return DT_FAIL(err, DT_E_DATA, "%s: tensor '%s': %d dimensions; at most %d are supported",
            f->path, e->name, rank, DT_ST_RANK);
    for (const cJSON *d = v->child; d != NULL; d = d->next) {
        uint64_t n;
        if (!dt_json_natural(d, &n))
            return DT_FAIL(err, DT_E_DATA,
                "%s: tensor '%s': dimension %d (%.17g) is no whole number from 0 to 2^53", f->path,
                e->name, e->rank, cJSON_IsNumber(d) ? d->valuedouble : (double)NAN);
        e->d[e->rank++] = (int64_t)n;
    }
    return DT_OK;
}

static dt_status read_offsets(const dt_st_file *f, dt_st_entry *e, const cJSON *v, dt_err *err)
{
    uint64_t begin, end;
    if (!cJSON_IsArray(v) || cJSON_GetArraySize(v) != 2 || !dt_json_natural(v->child, &begin) ||
        !dt_json_natural(v->child->next, &end))
        return DT_FAIL(err, DT_E_DATA,
            "%s: tensor '%s': data_offsets must be two whole numbers from 0 to 2^53", f->path,
            e->name);
    if (begin > end || end > f->data_bytes)
        return DT_FAIL(err, DT_E_DATA,
            "%s: tensor '%s': data_offsets [%" PRIu64 ", %" PRIu64 "] do not lie in the %" PRIu64
            " bytes of data%s",
            f->path, e->name, begin, end, f->data_bytes,
            begin <= end ? "; the file is truncated or damaged" : "");
    e->begin = begin;
    e->bytes = end - begin;
    return DT_OK;
}

static dt_status check_size(const dt_st_file *f, const dt_st_entry *e, dt_err *err)
{
    size_t bytes = types[e->type].bytes;
    for (int i = 0; i < e->rank; i++)
        bytes = e->d[i] == 0 ? 0 : bytes; /* wherever it stands, nothing overflows */
    for (int i = 0; i < e->rank; i++)
        if (!dt_mul_bytes(bytes, (size_t)e->d[i], &bytes))
            return DT_FAIL(
                err, DT_E_DATA, "%s: tensor '%s': its shape overflows", f->path, e->name);
    if (bytes != e->bytes)
        return DT_FAIL(err, DT_E_DATA,
            "%s: tensor '%s': shape and dtype %s need %zu bytes, data_offsets give %" PRIu64,
            f->path, e->name, types[e->type].name, bytes, e->bytes);
    return DT_OK;
}

static dt_status read_tensor(dt_st_file *f, const cJSON *v, dt_st_entry *e, dt_err *err)
{
    static const struct {
        const char *key;
        dt_status (*read)(const dt_st_file *, dt_st_entry *, const cJSON *, dt_err *);
    } fields[] = {{"dtype", read_dtype}, {"shape", read_shape}, {"data_offsets", read_offsets}};
    DT_CHECK(check_name(f, v->string, err));
    e->name = keep_text(f, v->string);
    if (!cJSON_IsObject(v))
        return DT_FAIL(err, DT_E_DATA, "%s: tensor '%s' is no object", f->path, e->name);
    size_t seen = 0;
    for (const cJSON *c = v->child; c != NULL; c = c->next) {
        size_t k = 0;
        while (k < DT_COUNT(fields) && strcmp(fields[k].key, c->string) != 0)
            k++;
        if (k == DT_COUNT(fields))
            return DT_FAIL(err, DT_E_DATA, "%s: tensor '%s': unknown key '%.40s'", f->path, e->name,
                c->string);
        DT_CHECK(fields[k].read(f, e, c, err));
        seen++; /* keys are unique, so three of them are all three */
    }
    if (seen != DT_COUNT(fields))
        return DT_FAIL(err, DT_E_DATA, "%s: tensor '%s': needs dtype, shape and data_offsets",
            f->path, e->name);
    return check_size(f, e, err);
}

/* ---- the header ---- */

/* Nobody asks for it, and a file in which it is no table of texts is none such. */
static dt_status check_metadata(const dt_st_file *f, const cJSON *v, dt_err *err)
{
    if (!cJSON_IsObject(v))
        return DT_FAIL(err, DT_E_DATA, "%s: __metadata__ is no object", f->path);
    for (const cJSON *c = v->child; c != NULL; c = c->next)
        if (!cJSON_IsString(c))
            return DT_FAIL(
                err, DT_E_DATA, "%s: __metadata__ '%.40s' is no string", f->path, c->string);
    return DT_OK;
}

/* Tensors of no bytes come before the one that starts where they do. */
static int by_offset(const void *a, const void *b)
{
    const dt_st_entry *p = a, *q = b;
    if (p->begin != q->begin)
        return p->begin < q->begin ? -1 : 1;
    if (p->bytes != q->bytes)
        return p->bytes < q->bytes ? -1 : 1;
    return strcmp(p->name, q->name);
}

static int by_name(const void *a, const void *b)
{
    return strcmp((*(const dt_st_entry *const *)a)->name, (*(const dt_st_entry *const *)b)->name);
}

static dt_status check_cover(const dt_st_file *f, dt_err *err)
{
    uint64_t end = 0;
    for (size_t i = 0; i < f->n; i++) {
        const dt_st_entry *e = &f->entry[i];
        if (e->begin != end)
            return DT_FAIL(err, DT_E_DATA,
                "%s: tensor '%s' starts at data byte %" PRIu64 ", which %s %" PRIu64, f->path,
                e->name, e->begin,
                e->begin > end ? "leaves a hole behind byte" : "overlaps tensors up to byte", end);
        end += e->bytes;
    }
    if (end != f->data_bytes)
        return DT_FAIL(err, DT_E_DATA,
            "%s: tensors end at data byte %" PRIu64 ", the file at %" PRIu64, f->path, end,
            f->data_bytes);
    return DT_OK;
}

static dt_status read_header(dt_st_file *f, const cJSON *root, size_t header_bytes, dt_err *err)
{
    if (!cJSON_IsObject(root))
        return DT_FAIL(err, DT_E_DATA, "%s: the header is no JSON object", f->path);
    const bool tells = cJSON_GetObjectItemCaseSensitive(root, "__metadata__") != NULL;
    const size_t n = (size_t)cJSON_GetArraySize(root) - tells;
    if (n > DT_ST_TENSORS)
        return DT_FAIL(
            err, DT_E_DATA, "%s: %zu tensors; at most %d are supported", f->path, n, DT_ST_TENSORS);
    f->entry = dt_alloc(n, sizeof *f->entry);
    f->sorted = dt_alloc(n, sizeof *f->sorted);
    f->texts = dt_alloc(header_bytes, 1);
    f->texts_room = header_bytes;
    if (f->entry == NULL || f->sorted == NULL || f->texts == NULL)
        return DT_FAIL(err, DT_E_NOMEM, "%s: no memory for %zu tensors", f->path, n);
    for (const cJSON *v = root->child; v != NULL; v = v->next)
        if (strcmp(v->string, "__metadata__") == 0)
            DT_CHECK(check_metadata(f, v, err));
        else
            DT_CHECK(read_tensor(f, v, &f->entry[f->n++], err));
    qsort(f->entry, f->n, sizeof *f->entry, by_offset);
    for (size_t i = 0; i < f->n; i++)
        f->sorted[i] = &f->entry[i];
    qsort(f->sorted, f->n, sizeof *f->sorted, by_name);
    return check_cover(f, err);
}

/* The JSON of @n bytes, into a file whose data_bytes are known. */
static dt_status parse_header(dt_st_file *f, const char *header, size_t n, dt_err *err)
{
    if (header[0] != '{')
        return DT_FAIL(err, DT_E_DATA, "%s: no safetensors file: its header starts with 0x%02x",
            f->path, (unsigned)(uint8_t)header[0]);
    cJSON *root;
    DT_TRY(err, dt_json_parse(&root, header, n, HEADER_DEPTH, HEADER_VALUES, err),
        "%s: the safetensors header is damaged", f->path);
    const dt_status st = read_header(f, root, n, err);
    cJSON_Delete(root);
    return st;
}

/* ---- the file ---- */

/* What others keep weights in, by its first 8 bytes, and what makes a safetensors file of it. */
static const char *foreign(const uint8_t *first)
{
    if (memcmp(first, "PK\3\4", 4) == 0 || (first[0] == 0x80 && first[1] >= 2 && first[1] <= 5))
        return "one of PyTorch's: tools/weights.py from-torch FILE OUT.safetensors makes one of it";
    if (memcmp(first, "\x89HDF\r\n\x1A\n", 8) == 0)
        return "HDF5, as Keras has it: write the weights by their PyTorch names with Python's "
               "safetensors";
    if (memcmp(first, "GGUF", 4) == 0)
        return "GGUF, whose weights are packed: take the safetensors file that it was made from";
    return NULL;
}

/* The header's length, from its first 8 bytes, checked against what there is before any use. */
static dt_status header_length(
    const char *path, const uint8_t *first, uint64_t file_bytes, size_t *n, dt_err *err)
{
    uint64_t length;
    memcpy(&length, first, 8);
    if (length == 0)
        return DT_FAIL(err, DT_E_DATA, "%s: no safetensors file: its header is empty", path);
    if (length > DT_ST_HEADER_BYTES && foreign(first) != NULL)
        return DT_FAIL(err, DT_E_DATA, "%s: no safetensors file but %s", path, foreign(first));
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

dt_status dti_st_parse(dt_st_file **out, const char *name, const void *bytes, size_t n, dt_err *err)
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
    const dt_status st = parse_header(f, (const char *)bytes + 8, length, err);
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
        st = parse_header(f, header, length, err);
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
    dti_ahead_close(f->ahead);
    if (f->fd >= 0)
        (void)dt_io->close(f->fd);
    dt_free(f->path);
    dt_free(f->entry);
    dt_free(f->sorted);
    dt_free(f->texts);
    dt_free(f);
}

size_t dti_st_count(const dt_st_file *f)
{
    return f->n;
}

const dt_st_entry *dti_st_at(const dt_st_file *f, size_t i)
{
    return &f->entry[i];
}

const dt_st_entry *dt_st_find(const dt_st_file *f, const char *name)
{
    const dt_st_entry wanted = {.name = name}, *key = &wanted;
    const dt_st_entry **hit = bsearch(&key, f->sorted, f->n, sizeof *f->sorted, by_name);
    return hit != NULL ? *hit : NULL;
}

dt_status dt_st_read(
    const dt_st_file *f, const dt_st_entry *e, uint64_t from, void *to, size_t n, dt_err *err)
{
    if (f->fd < 0)
        return DT_FAIL(err, DT_E_DATA, "%s: parsed from memory, it has no data to read", f->path);
    if (from > e->bytes || n > e->bytes - from)
        return DT_FAIL(err, DT_E_INTERNAL, "%s: tensor '%s': read past its %" PRIu64 " bytes",
            f->path, e->name, e->bytes);
    const off_t at = (off_t)(f->data_at + e->begin + from);
    bool had = false;
    dt_status st = f->ahead != NULL ? dti_ahead_read(f->ahead, at, to, n, &had, err) : DT_OK;
    if (!had)
        st = dt_read_at(f->fd, f->path, to, n, at, err);
    DT_TRY(err, st, "%s: tensor '%s' cannot be read", f->path, e->name);
    return DT_OK;
}

void dti_st_stream(dt_st_file *f)
{
    dti_ahead_close(f->ahead);
    f->ahead = NULL;
    if (dti_ahead_open(&f->ahead, f->path, DT_E_DATA, NULL) != DT_OK)
        f->ahead = NULL;
    if (f->ahead != NULL && !dti_ahead_is(f->ahead, f->fd)) { /* what was opened is read plainly */
        dti_ahead_close(f->ahead);
        f->ahead = NULL;
    }
}
