/* The header: all tensors of a file, which must cover its data without holes. */
#include "engine/checkpoint/safetensors_parts.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/alloc.h"
#include "engine/base/json.h"

/* A tensor has at most 14 JSON values and the header at most this many in all. */
enum { HEADER_DEPTH = 3, HEADER_VALUES = DT_ST_TENSORS * 16 };

/* Quotes alone take more room in the header than the NUL here, and escapes only shrink. */
const char *dti_st_keep_text(dt_st_file *f, const char *s)
{
    const size_t n = strlen(s) + 1;
    DT_ASSERT(n <= f->texts_room - f->texts_held);
    char *to = f->texts + f->texts_held;
    memcpy(to, s, n);
    f->texts_held += n;
    return to;
}

static dt_status read_metadata(dt_st_file *f, const cJSON *v, dt_err *err)
{
    if (!cJSON_IsObject(v))
        return DT_FAIL(err, DT_E_DATA, "%s: __metadata__ is no object", f->path);
    f->meta = dt_alloc((size_t)cJSON_GetArraySize(v), sizeof *f->meta);
    if (f->meta == NULL)
        return DT_FAIL(err, DT_E_NOMEM, "%s: no memory for __metadata__", f->path);
    for (const cJSON *c = v->child; c != NULL; c = c->next) {
        if (!cJSON_IsString(c))
            return DT_FAIL(
                err, DT_E_DATA, "%s: __metadata__ '%.40s' is no string", f->path, c->string);
        f->meta[f->n_meta].key = dti_st_keep_text(f, c->string);
        f->meta[f->n_meta++].value = dti_st_keep_text(f, c->valuestring);
    }
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
    const size_t n = (size_t)cJSON_GetArraySize(root);
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
            DT_CHECK(read_metadata(f, v, err));
        else
            DT_CHECK(dti_st_read_tensor(f, v, &f->entry[f->n++], err));
    qsort(f->entry, f->n, sizeof *f->entry, by_offset);
    for (size_t i = 0; i < f->n; i++)
        f->sorted[i] = &f->entry[i];
    qsort(f->sorted, f->n, sizeof *f->sorted, by_name);
    return check_cover(f, err);
}

dt_status dti_st_parse_header(dt_st_file *f, const char *header, size_t n, dt_err *err)
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

const dt_st_entry *dt_st_find(const dt_st_file *f, const char *name)
{
    const dt_st_entry wanted = {.name = name}, *key = &wanted;
    const dt_st_entry **hit = bsearch(&key, f->sorted, f->n, sizeof *f->sorted, by_name);
    return hit != NULL ? *hit : NULL;
}
