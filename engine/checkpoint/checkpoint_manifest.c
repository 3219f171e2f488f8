/* manifest.json: the first line holds the SHA-256 of all that follows it. */
#include "engine/checkpoint/checkpoint_internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/alloc.h"
#include "engine/base/io.h"
#include "engine/base/json.h"
#include "engine/base/memory_stream.h"

#define HEAD "{\"checksum\": \""
#define HEAD_END "\",\n"

enum { DEPTH = 3, VALUES = 4096, SUM_DIGITS = DT_SHA256_TEXT - 1 };
static const size_t head_bytes = sizeof HEAD - 1 + SUM_DIGITS + sizeof HEAD_END - 1;

/* ---- reading ---- */

static dt_status whole(const cJSON *o, const char *key, int64_t *to, const char *name, dt_err *err)
{
    uint64_t n;
    if (!dt_json_natural(cJSON_GetObjectItemCaseSensitive(o, key), &n))
        return DT_FAIL(err, DT_E_DATA, "%s: '%s' is no whole number from 0 on", name, key);
    *to = (int64_t)n;
    return DT_OK;
}

static dt_status sum_of(
    const cJSON *o, const char *key, char to[DT_SHA256_TEXT], const char *name, dt_err *err)
{
    const char *text = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(o, key));
    if (text == NULL || strlen(text) != SUM_DIGITS ||
        strspn(text, "0123456789abcdef") != SUM_DIGITS)
        return DT_FAIL(err, DT_E_DATA, "%s: '%s' is no SHA-256", name, key);
    memcpy(to, text, DT_SHA256_TEXT);
    return DT_OK;
}

static dt_status read_file(
    const cJSON *json, const char *key, dti_file *to, const char *name, dt_err *err)
{
    const cJSON *o = cJSON_GetObjectItemCaseSensitive(json, key);
    int64_t bytes;
    if (!cJSON_IsObject(o))
        return DT_FAIL(err, DT_E_DATA, "%s: '%s' is missing", name, key);
    DT_CHECK(whole(o, "bytes", &bytes, name, err));
    to->bytes = (uint64_t)bytes;
    return sum_of(o, "sha256", to->sha, name, err);
}

static dt_status read_facts(dti_manifest *m, const char *name, dt_err *err)
{
    const cJSON *o = cJSON_GetObjectItemCaseSensitive(m->json, "run"), *v;
    const int n = cJSON_IsObject(o) ? cJSON_GetArraySize(o) : -1;
    if (n < 0 || n > DT_CHECKPOINT_FACTS)
        return DT_FAIL(err, DT_E_DATA, "%s: 'run' is missing or too long", name);
    m->fact = dt_alloc((size_t)n, sizeof *m->fact);
    if (m->fact == NULL)
        return DT_FAIL(err, DT_E_NOMEM, "no memory for '%s'", name);
    cJSON_ArrayForEach(v, o)
    {
        if (!cJSON_IsString(v))
            return DT_FAIL(err, DT_E_DATA, "%s: '%s' is no text", name, v->string);
        m->fact[m->n_fact++] = (dt_fact){v->string, v->valuestring};
    }
    return DT_OK;
}

static dt_status read_all(dti_manifest *m, const char *name, dt_err *err)
{
    int64_t format;
    if (!cJSON_IsObject(m->json))
        return DT_FAIL(err, DT_E_DATA, "%s: no object", name);
    DT_CHECK(whole(m->json, "format", &format, name, err));
    if (format != DT_CHECKPOINT_FORMAT)
        return DT_FAIL(err, DT_E_DATA,
            "%s: has format %" PRId64 ", this program reads %d: another version has written it",
            name, format, DT_CHECKPOINT_FORMAT);
    DT_CHECK(whole(m->json, "step", &m->step, name, err));
    DT_CHECK(whole(m->json, "epoch", &m->epoch, name, err));
    DT_CHECK(read_file(m->json, DT_CHECKPOINT_MODEL, &m->model, name, err));
    DT_CHECK(read_file(m->json, DT_CHECKPOINT_STATE, &m->state, name, err));
    return read_facts(m, name, err);
}

dt_status dti_manifest_parse(
    dti_manifest *m, const char *name, const char *text, size_t n, dt_err *err)
{
    *m = (dti_manifest){0};
    DT_TRY(err, dt_json_parse(&m->json, text, n, DEPTH, VALUES, err), "%s", name);
    const dt_status st = read_all(m, name, err);
    if (st != DT_OK)
        dti_manifest_deinit(m);
    return st;
}

void dti_manifest_deinit(dti_manifest *m)
{
    dt_free(m->fact);
    cJSON_Delete(m->json);
    *m = (dti_manifest){0};
}

static void sum_up(const char *text, size_t n, char to[DT_SHA256_TEXT])
{
    dt_sha256 s;
    dt_sha256_init(&s);
    dt_sha256_add(&s, text, n);
    dt_sha256_text(&s, to);
}

static dt_status check_sum(const char *path, const char *text, size_t n, dt_err *err)
{
    char sum[DT_SHA256_TEXT];
    if (n >= head_bytes && memcmp(text, HEAD, sizeof HEAD - 1) == 0) {
        sum_up(text + head_bytes, n - head_bytes, sum);
        if (memcmp(text + sizeof HEAD - 1, sum, SUM_DIGITS) == 0)
            return DT_OK;
    }
    return DT_FAIL(err, DT_E_DATA, "%s: its checksum is wrong: it was changed or cut", path);
}

dt_status dti_manifest_read(dti_manifest *m, const char *folder, dt_err *err)
{
    char path[DTI_PATH_BYTES];
    *m = (dti_manifest){0};
    DT_CHECK(dti_path(path, folder, DT_CHECKPOINT_MANIFEST, err));
    char *text;
    size_t n;
    DT_CHECK(dt_read_file(&text, &n, path, DTI_MANIFEST_BYTES, DT_E_DATA, err));
    dt_status st = check_sum(path, text, n, err);
    if (st == DT_OK)
        st = dti_manifest_parse(m, path, text, n, err);
    dt_free(text);
    return st;
}

/* ---- writing ---- */

static void put_file(FILE *f, const char *name, const dti_file *file)
{
    fprintf(f, "  \"%s\": {\"bytes\": %" PRIu64 ", \"sha256\": \"%s\"},\n", name, file->bytes,
        file->sha);
}

/* All of it, with zeros for its own checksum. */
static void put_all(FILE *f, const dti_manifest *m, const dt_fact *facts, size_t n)
{
    fprintf(f, HEAD "%0*d" HEAD_END, SUM_DIGITS, 0);
    fprintf(f, "  \"format\": %d,\n  \"step\": %" PRId64 ",\n  \"epoch\": %" PRId64 ",\n",
        DT_CHECKPOINT_FORMAT, m->step, m->epoch);
    put_file(f, DT_CHECKPOINT_MODEL, &m->model);
    put_file(f, DT_CHECKPOINT_STATE, &m->state);
    fprintf(f, "  \"run\": {");
    for (size_t i = 0; i < n; i++) {
        fprintf(f, "%s\n    ", i > 0 ? "," : "");
        dti_json_put(f, facts[i].key);
        fprintf(f, ": ");
        dti_json_put(f, facts[i].value);
    }
    fprintf(f, "\n  }\n}\n");
}

/* Whether it would be read. */
static dt_status check_text(const char *path, const char *text, size_t n, dt_err *err)
{
    dti_manifest m;
    dt_err why = {0};
    dt_status st;
    if (n > DTI_MANIFEST_BYTES)
        st = DT_FAIL(&why, DT_E_DATA, "%zu bytes; at most %d are read", n, DTI_MANIFEST_BYTES);
    else
        st = dti_manifest_parse(&m, DT_CHECKPOINT_MANIFEST, text, n, &why);
    if (st == DT_OK)
        dti_manifest_deinit(&m);
    if (st == DT_OK || st == DT_E_NOMEM)
        return st == DT_OK ? st : DT_FAIL(err, st, "no memory for '%s'", path);
    return DT_FAIL(err, DT_E_CONFIG,
        "checkpoints of this configuration could not be read again: %.*s",
        (int)strcspn(why.text, "\n"), why.text);
}

dt_status dti_manifest_text(char **text, size_t *n, const char *path, const dti_manifest *m,
    const dt_fact *facts, size_t n_facts, dt_err *err)
{
    char sum[DT_SHA256_TEXT];
    dt_memory_stream to;
    *text = NULL;
    DT_CHECK(dt_memory_open(&to, path, err));
    put_all(to.f, m, facts, n_facts);
    DT_CHECK(dt_memory_close(&to, DT_OK, err));
    *text = to.text;
    *n = to.n;
    sum_up(*text + head_bytes, *n - head_bytes, sum);
    memcpy(*text + sizeof HEAD - 1, sum, SUM_DIGITS);
    return check_text(path, *text, *n, err);
}

dt_status dt_checkpoint_check_facts(const dt_fact *facts, size_t n, dt_err *err)
{
    dti_manifest m = {.step = INT64_C(1) << 53, .epoch = INT64_C(1) << 53};
    char *text;
    size_t bytes;
    memset(m.model.sha, '0', SUM_DIGITS);
    m.state = m.model;
    const dt_status st =
        dti_manifest_text(&text, &bytes, DT_CHECKPOINT_MANIFEST, &m, facts, n, err);
    dt_free(text);
    return st;
}

dt_status dti_manifest_write(
    const dti_manifest *m, const char *folder, const dt_fact *facts, size_t n_facts, dt_err *err)
{
    char path[DTI_PATH_BYTES], *text;
    size_t n;
    DT_CHECK(dti_path(path, folder, DT_CHECKPOINT_MANIFEST, err));
    dt_status st = dti_manifest_text(&text, &n, path, m, facts, n_facts, err);
    if (st == DT_OK)
        st = dt_write_file(path, text, n, err);
    dt_free(text);
    return st;
}
