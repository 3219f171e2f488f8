/* One tensor of the header, checked on its own. */
#include "engine/checkpoint/safetensors_parts.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

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

static const double LARGEST_EXACT = 0x1p53; /* cJSON's numbers are doubles */

static bool whole_number(const cJSON *v, uint64_t *out)
{
    if (!cJSON_IsNumber(v) || !(v->valuedouble >= 0) || !(v->valuedouble <= LARGEST_EXACT) ||
        v->valuedouble != floor(v->valuedouble))
        return false;
    *out = (uint64_t)v->valuedouble;
    return true;
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
        "%s: tensor '%s': dtype '%.40s' is not supported; convert it to F32, F16, BF16, F64, I64, "
        "I32, I16, I8, U8 or BOOL",
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
        if (!whole_number(d, &n))
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
    if (!cJSON_IsArray(v) || cJSON_GetArraySize(v) != 2 || !whole_number(v->child, &begin) ||
        !whole_number(v->child->next, &end))
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
        if (!dt_mul_bytes(bytes, (size_t)e->d[i], &bytes))
            return DT_FAIL(
                err, DT_E_DATA, "%s: tensor '%s': its shape overflows", f->path, e->name);
    if (bytes != e->bytes)
        return DT_FAIL(err, DT_E_DATA,
            "%s: tensor '%s': shape and dtype %s need %zu bytes, data_offsets give %" PRIu64,
            f->path, e->name, types[e->type].name, bytes, e->bytes);
    return DT_OK;
}

dt_status dti_st_read_tensor(dt_st_file *f, const cJSON *v, dt_st_entry *e, dt_err *err)
{
    static const struct {
        const char *key;
        dt_status (*read)(const dt_st_file *, dt_st_entry *, const cJSON *, dt_err *);
    } fields[] = {{"dtype", read_dtype}, {"shape", read_shape}, {"data_offsets", read_offsets}};
    DT_CHECK(check_name(f, v->string, err));
    e->name = dti_st_keep_text(f, v->string);
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
