/* safetensors files: what we write reads back, and no file that strangers hand in is believed. */
#include "tests/fixture/check.h"
#include "tests/fixture/json_read.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/base/alloc.h"
#include "engine/base/io.h"
#include "engine/checkpoint/safetensors.h"

/* A file in memory: length, header text, then data bytes of zero. */
typedef struct blob {
    uint8_t *p;
    size_t n;
} blob;

static blob make(const char *header, size_t header_bytes, size_t data_bytes)
{
    const uint64_t length = header_bytes;
    blob b = {.n = 8 + header_bytes + data_bytes};
    b.p = calloc(1, b.n);
    assert_non_null(b.p);
    memcpy(b.p, &length, 8);
    memcpy(b.p + 8, header, header_bytes);
    return b;
}

/* Refused as bad data, with this text and the file's name in the trail, nothing kept. */
static void refuse_bytes(const void *bytes, size_t n, const char *says)
{
    const long before = dti_alloc_live();
    dt_err err = {0};
    dt_st_file *f = NULL;
    assert_fails(dti_st_parse(&f, "bad.st", bytes, n, &err), DT_E_DATA, &err, says);
    assert_fails(DT_E_DATA, DT_E_DATA, &err, "bad.st");
    assert_null(f);
    assert_int_equal(dti_alloc_live(), before);
}

static void refuse(const char *header, size_t data_bytes, const char *says)
{
    const blob b = make(header, strlen(header), data_bytes);
    refuse_bytes(b.p, b.n, says);
    free(b.p);
}

static dt_st_file *accept(const char *header, size_t data_bytes)
{
    const blob b = make(header, strlen(header), data_bytes);
    dt_err err = {0};
    dt_st_file *f = NULL;
    assert_ok(dti_st_parse(&f, "good.st", b.p, b.n, &err), &err);
    assert_non_null(f);
    free(b.p);
    return f;
}

/* ---- writing and reading ---- */

static const float weight[6] = {1, -2, 3, 0.5f, 1e-30f, -0.0f};
static const int64_t steps = 12;
static const uint8_t mask[3] = {7, 0, 255};

/* The first tensor in pieces of 8 bytes, each from a buffer that the next one uses again. */
static dt_status sample_data(
    void *arg, size_t i, size_t at, const void **bytes, size_t *n, dt_err *err)
{
    static char piece[8];
    const void *const parts[] = {weight, &steps, NULL, mask};
    const size_t *const fail_at = arg;
    if (fail_at != NULL && *fail_at == i)
        return DT_FAIL(err, DT_E_DEVICE, "part %zu is lost", i);
    *bytes = parts[i];
    if (i == 0) {
        assert_int_equal(*n, sizeof weight - at);
        *n = sizeof piece;
        *bytes = memcpy(piece, (const char *)parts[i] + at, sizeof piece);
    }
    return DT_OK;
}

/* The last tensor first. */
static dt_status turned_data(
    void *arg, size_t i, size_t at, const void **bytes, size_t *n, dt_err *err)
{
    return sample_data(arg, i == 0 ? 3 : i == 3 ? 0 : i, at, bytes, n, err);
}

static const dt_st_out sample[] = {
    {"fc.weight", DT_ST_F32, 2, {2, 3}},
    {"steps", DT_ST_I64, 0, {0}},
    {"empty", DT_ST_BF16, 2, {4, 0}},
    {"odd \"name\" \\ \xC3\xA9", DT_ST_U8, 1, {3}},
};
static const dti_st_meta sample_meta[] = {{"format", "pt"}, {"note", "two\nlines\t\"quoted\""}};

static dt_status write_sample(const char *path, size_t *fail_at, dt_err *err)
{
    return dt_st_write(path, sample, DT_COUNT(sample), sample_meta, DT_COUNT(sample_meta),
        sample_data, fail_at, NULL, err);
}

static dt_st_file *open_sample(const char *path)
{
    dt_err err = {0};
    dt_st_file *f = NULL;
    assert_ok(write_sample(path, NULL, &err), &err);
    assert_ok(dt_st_open(&f, path, &err), &err);
    return f;
}

/* Between opening a file and reading it through another may have its name. */
static void a_file_that_was_replaced_is_read_as_it_was_opened(void **state)
{
    (void)state;
    dt_err err = {0};
    char path[512];
    snprintf(path, sizeof path, "%s", dt_temp_path("replaced.st"));
    dt_st_file *f = open_sample(path);
    const dt_st_out turned[] = {sample[3], sample[1], sample[2], sample[0]};
    assert_ok(dt_st_write(path, turned, DT_COUNT(turned), sample_meta, DT_COUNT(sample_meta),
                  turned_data, NULL, NULL, &err),
        &err);
    dti_st_stream(f);
    float back[6];
    assert_ok(dt_st_read(f, dt_st_find(f, "fc.weight"), 0, back, sizeof back, &err), &err);
    assert_memory_equal(back, weight, sizeof back);
    dt_st_close(f);
}

static void a_written_file_reads_back(void **state)
{
    (void)state;
    dt_err err = {0};
    dt_st_file *f = open_sample(dt_temp_path("sample.st"));
    assert_int_equal(dti_st_count(f), 4);
    const dt_st_entry *e = dt_st_find(f, "fc.weight");
    assert_non_null(e);
    assert_int_equal(e->type, DT_ST_F32);
    assert_int_equal(e->rank, 2);
    assert_int_equal(e->d[0], 2);
    assert_int_equal(e->d[1], 3);
    assert_int_equal(e->begin, 0);
    float back[6];
    assert_ok(dt_st_read(f, e, 0, back, sizeof back, &err), &err);
    assert_memory_equal(back, weight, sizeof back);
    assert_ok(dt_st_read(f, e, 8, back, 4, &err), &err);
    assert_memory_equal(back, weight + 2, 4);
    const dt_st_entry *odd = dt_st_find(f, sample[3].name);
    assert_non_null(odd);
    uint8_t bytes[3];
    assert_ok(dt_st_read(f, odd, 0, bytes, 3, &err), &err);
    assert_memory_equal(bytes, mask, 3);
    dt_st_close(f);
}

static void scalars_and_empty_tensors_are_legal(void **state)
{
    (void)state;
    dt_err err = {0};
    dt_st_file *f = open_sample(dt_temp_path("scalar.st"));
    const dt_st_entry *e = dt_st_find(f, "steps");
    assert_int_equal(e->rank, 0);
    int64_t back = 0;
    assert_ok(dt_st_read(f, e, 0, &back, sizeof back, &err), &err);
    assert_int_equal(back, steps);
    e = dt_st_find(f, "empty");
    assert_int_equal(e->bytes, 0);
    assert_int_equal(e->d[0], 4);
    assert_ok(dt_st_read(f, e, 0, &back, 0, &err), &err);
    dt_st_close(f);
}

static void metadata_is_written_and_is_no_tensor(void **state)
{
    (void)state;
    const char *path = dt_temp_path("meta.st");
    dt_st_file *f = open_sample(path);
    cJSON *header = json_header(path);
    const cJSON *meta = json_object(header, "__metadata__");
    assert_string_equal(json_text(meta, "format"), "pt");
    assert_string_equal(json_text(meta, "note"), sample_meta[1].value);
    assert_int_equal(cJSON_GetArraySize(meta), DT_COUNT(sample_meta));
    cJSON_Delete(header);
    assert_null(dt_st_find(f, "__metadata__"));
    assert_null(dt_st_find(f, "fc.weigh"));
    dt_st_close(f);
}

static void data_starts_at_a_multiple_of_64(void **state)
{
    (void)state;
    const char *path = dt_temp_path("aligned.st");
    dt_st_close(open_sample(path));
    char *text;
    size_t n;
    dt_err err = {0};
    assert_ok(dt_read_file(&text, &n, path, 4096, DT_E_DATA, &err), &err);
    uint64_t length;
    memcpy(&length, text, 8);
    assert_int_equal((8 + length) % 64, 0);
    assert_int_equal(n, 8 + length + sizeof weight + sizeof steps + sizeof mask);
    assert_int_equal(text[8], '{');
    assert_memory_equal(text + 8 + length, weight, sizeof weight);
    dt_free(text);
}

static void the_same_tensors_give_the_same_bytes(void **state)
{
    (void)state;
    char *text[2];
    size_t n[2];
    for (int i = 0; i < 2; i++) {
        const char *path = dt_temp_path(i == 0 ? "a.st" : "b.st");
        dt_err err = {0};
        assert_ok(write_sample(path, NULL, &err), &err);
        assert_ok(dt_read_file(&text[i], &n[i], path, 4096, DT_E_DATA, &err), &err);
    }
    assert_int_equal(n[0], n[1]);
    assert_memory_equal(text[0], text[1], n[0]);
    dt_free(text[0]);
    dt_free(text[1]);
}

static void a_file_of_no_tensors_is_legal(void **state)
{
    (void)state;
    dt_err err = {0};
    const char *path = dt_temp_path("none.st");
    dt_st_file *f = NULL;
    assert_ok(dt_st_write(path, NULL, 0, NULL, 0, sample_data, NULL, NULL, &err), &err);
    assert_ok(dt_st_open(&f, path, &err), &err);
    assert_int_equal(dti_st_count(f), 0);
    assert_null(dt_st_find(f, "any"));
    dt_st_close(f);
}

static void a_failing_source_leaves_the_old_file(void **state)
{
    (void)state;
    const char *path = dt_temp_path("kept.st");
    dt_st_close(open_sample(path));
    for (size_t i = 0; i < DT_COUNT(sample); i++) {
        dt_err err = {0};
        if (i == 2) /* which has no bytes */
            continue;
        assert_fails(write_sample(path, &i, &err), DT_E_DEVICE, &err, "is lost");
        dt_st_file *f = NULL;
        assert_ok(dt_st_open(&f, path, &err), &err);
        dt_st_close(f);
    }
}

static void entries_come_in_the_order_of_their_data(void **state)
{
    (void)state;
    dt_st_file *f = accept("{\"b\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[2,3]},"
                           "\"a\":{\"dtype\":\"F16\",\"shape\":[1],\"data_offsets\":[0,2]},"
                           "\"e\":{\"dtype\":\"F64\",\"shape\":[0],\"data_offsets\":[2,2]}}",
        3);
    assert_string_equal(dti_st_at(f, 0)->name, "a");
    assert_string_equal(dti_st_at(f, 1)->name, "e");
    assert_string_equal(dti_st_at(f, 2)->name, "b");
    dt_st_close(f);
}

static void reading_past_a_tensor_is_refused(void **state)
{
    (void)state;
    dt_st_file *f = open_sample(dt_temp_path("past.st"));
    const dt_st_entry *e = dt_st_find(f, "fc.weight");
    char to[32];
    dt_err err = {0};
    assert_fails(dt_st_read(f, e, 0, to, 25, &err), DT_E_INTERNAL, &err, "fc.weight");
    assert_fails(dt_st_read(f, e, 25, to, 0, &err), DT_E_INTERNAL, &err, "fc.weight");
    assert_fails(dt_st_read(f, e, UINT64_MAX, to, 2, &err), DT_E_INTERNAL, &err, "fc.weight");
    dt_st_close(f);
}

static void a_file_that_shrinks_is_noticed(void **state)
{
    (void)state;
    const char *path = dt_temp_path("shrunk.st");
    dt_st_file *f = open_sample(path);
    assert_int_equal(truncate(path, 100), 0);
    float to[6];
    dt_err err = {0};
    assert_fails(dt_st_read(f, dt_st_find(f, "fc.weight"), 0, to, sizeof to, &err), DT_E_DATA, &err,
        "tensor 'fc.weight' cannot be read");
    dt_st_close(f);
}

static void files_that_cannot_be_opened_are_named(void **state)
{
    (void)state;
    dt_err err = {0};
    dt_st_file *f = NULL;
    assert_fails(dt_st_open(&f, dt_temp_path("gone.st"), &err), DT_E_DATA, &err,
        "gone.st': No such file or directory");
    assert_null(f);
    assert_fails(dt_st_open(&f, dt_temp_path("."), &err), DT_E_DATA, &err, "is a folder");
    const char *empty = dt_temp_path("empty.st");
    fclose(fopen(empty, "w"));
    assert_fails(dt_st_open(&f, empty, &err), DT_E_DATA, &err, "it has 0 bytes");
}

/* ---- hostile files; numbers are those of the list of faults ---- */

static void lengths_that_cannot_be_are_refused_before_allocating(void **state) /* 43 */
{
    (void)state;
    static const struct {
        uint64_t length;
        const char *says;
    } cases[] = {{0, "header is empty"}, {UINT64_MAX, "18446744073709551615 bytes, at most"},
        {UINT64_MAX - 7, "at most"}, {DT_ST_HEADER_BYTES + 1, "at most 16777216"},
        {57, "header of 57 bytes in a file of 64: truncated"}, {DT_ST_HEADER_BYTES, "truncated"}};
    uint8_t bytes[64] = {0};
    for (size_t i = 0; i < DT_COUNT(cases); i++) {
        memcpy(bytes, &cases[i].length, 8);
        dti_alloc_fail_at(1); /* an allocation would show as DT_E_NOMEM */
        refuse_bytes(bytes, sizeof bytes, cases[i].says);
        dti_alloc_fail_at(0);
    }
    for (size_t n = 0; n < 8; n++)
        refuse_bytes(bytes, n, "no safetensors file: it has");
}

/* n tensors of no bytes, "0", "1", ... */
static blob many_tensors(size_t n)
{
    char *text = malloc(n * 64 + 3), *to = text;
    assert_non_null(text);
    *to++ = '{';
    for (size_t i = 0; i < n; i++)
        to += snprintf(to, 64, "%s\"%zu\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}",
            i > 0 ? "," : "", i);
    *to++ = '}';
    const blob b = make(text, (size_t)(to - text), 0);
    free(text);
    return b;
}

/* A header of @size bytes that is a list of zeros and does not end. */
static void refuse_zeros(size_t size, const char *says)
{
    char *text = malloc(size);
    assert_non_null(text);
    memset(text, '0', size);
    for (size_t i = 6; i < size; i += 2)
        text[i] = ',';
    memcpy(text, "{\"a\":[", 6);
    const blob b = make(text, size, 0);
    refuse_bytes(b.p, b.n, says);
    free(b.p);
    free(text);
}

static void header_bombs_meet_a_cap(void **state) /* 44 */
{
    (void)state;
    blob b = many_tensors(DT_ST_TENSORS + 1);
    refuse_bytes(b.p, b.n, "262145 tensors; at most 262144");
    free(b.p);
    enum { DEEP = 1 << 20, LONG = 10 * DEEP };
    char *deep = malloc(DEEP);
    assert_non_null(deep);
    memset(deep, '[', DEEP);
    memcpy(deep, "{\"a\":", 5);
    b = make(deep, DEEP, 0);
    refuse_bytes(b.p, b.n, "nested deeper than 3");
    free(b.p);
    free(deep);
    refuse_zeros(LONG, "values");
    refuse_zeros(DEEP, "bad.st");
}

static void the_largest_count_is_read_and_found(void **state)
{
    (void)state;
    const blob b = many_tensors(DT_ST_TENSORS);
    dt_err err = {0};
    dt_st_file *f = NULL;
    assert_ok(dti_st_parse(&f, "many.st", b.p, b.n, &err), &err);
    assert_int_equal(dti_st_count(f), DT_ST_TENSORS);
    assert_string_equal(dt_st_find(f, "262143")->name, "262143");
    dt_st_close(f);
    free(b.p);
}

/* Beside as many tensors as a file may list metadata may stand; and what could not be read again is
 * told before it is written, by what is wrong with it. */
static void what_a_file_cannot_list_is_refused_before_it_is_written(void **state)
{
    (void)state;
    enum { LONG = 500, MANY = (DT_ST_HEADER_BYTES / LONG) };
    static const dti_st_meta meta = {"format", "pt"};
    char name[LONG + 1];
    memset(name, 'n', LONG);
    name[LONG] = '\0';
    dt_st_out *out = dt_alloc(DT_ST_TENSORS + 1, sizeof *out);
    assert_non_null(out);
    for (size_t i = 0; i <= DT_ST_TENSORS; i++)
        out[i] = (dt_st_out){.name = "n", .type = DT_ST_F32};
    dt_err err = {0};
    assert_ok(dti_st_check("out.st", out, DT_ST_TENSORS, &meta, 1, &err), &err);
    assert_fails(dti_st_check("out.st", out, DT_ST_TENSORS + 1, &meta, 1, &err), DT_E_CONFIG, &err,
        "262145 tensors, and a file lists at most 262144");
    for (size_t i = 0; i < MANY; i++)
        out[i].name = name;
    err = (dt_err){0};
    assert_fails(dti_st_check("out.st", out, MANY, NULL, 0, &err), DT_E_CONFIG, &err,
        "at most 16777216 are read");
    dt_free(out);
}

static void the_largest_count_may_have_metadata(void **state)
{
    (void)state;
    blob b = many_tensors(DT_ST_TENSORS);
    static const char more[] = "{\"__metadata__\":{\"format\":\"pt\"},";
    char *text = malloc(b.n + sizeof more);
    uint64_t length;
    dt_err err = {0};
    dt_st_file *f = NULL;
    assert_non_null(text);
    memcpy(&length, b.p, sizeof length);
    memcpy(text, more, sizeof more - 1);
    memcpy(text + sizeof more - 1, (const char *)b.p + 9, length - 1);
    const blob with = make(text, sizeof more - 1 + length - 1, 0);
    assert_ok(dti_st_parse(&f, "many.st", with.p, with.n, &err), &err);
    assert_int_equal(dti_st_count(f), DT_ST_TENSORS);
    dt_st_close(f);
    free(text);
    free(with.p);
    free(b.p);
}

#define ONE(name) "{\"" name "\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}"

static void names_are_checked(void **state) /* 44 */
{
    (void)state;
    char header[1024], name[600];
    for (size_t n = DT_ST_NAME_BYTES; n <= DT_ST_NAME_BYTES + 1; n++) {
        memset(name, 'n', n);
        name[n] = '\0';
        snprintf(header, sizeof header,
            "{\"%s\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}", name);
        if (n == DT_ST_NAME_BYTES)
            dt_st_close(accept(header, 1));
        else
            refuse(header, 1, "has 513 bytes; must be 1..512");
    }
    refuse(ONE(""), 1, "has 0 bytes");
    refuse(ONE("a\\u0000b"), 1, "NUL in a string");
    refuse(ONE("a\\u001b[31m"), 1, "control character 0x1b");
    refuse(ONE("a\x01"), 1, "control character");
    refuse(ONE("a\xFF"), 1, "invalid UTF-8");
    refuse(ONE("a\xC0\xAF"), 1, "invalid UTF-8");
    refuse(ONE("\xED\xA0\x80"), 1, "invalid UTF-8");
    refuse(ONE("\\ud800"), 1, "not JSON");
    dt_st_close(accept(ONE("caf\xC3\xA9"), 1));
}

static void duplicate_names_are_refused(void **state) /* 44 */
{
    (void)state;
    refuse("{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},"
           "\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[1,2]}}",
        2, "two keys are named 'a'");
    refuse("{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},"
           "\"\\u0061\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[1,2]}}",
        2, "two keys are named 'a'");
    refuse("{\"a\":{\"dtype\":\"U8\",\"shape\":[9],\"shape\":[1],\"data_offsets\":[0,1]}}", 1,
        "two keys are named 'shape'");
}

/* a tensor 'w' of two F32 with these offsets, and 8 bytes of data */
#define AT_OFFSETS(o) "{\"w\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":" o "}}"

static void offsets_must_be_whole_and_inside(void **state) /* 45 */
{
    (void)state;
    dt_st_close(accept(AT_OFFSETS("[0,8]"), 8));
    refuse(AT_OFFSETS("[-8,0]"), 8, "tensor 'w': data_offsets must be two whole numbers");
    refuse(AT_OFFSETS("[0,8.5]"), 8, "two whole numbers");
    refuse(AT_OFFSETS("[0,1e300]"), 8, "two whole numbers");
    refuse(AT_OFFSETS("[0,9007199254740994]"), 8, "two whole numbers from 0 to 2^53");
    refuse(AT_OFFSETS("[0]"), 8, "two whole numbers");
    refuse(AT_OFFSETS("[0,8,8]"), 8, "two whole numbers");
    refuse(AT_OFFSETS("[0,\"8\"]"), 8, "two whole numbers");
    refuse(AT_OFFSETS("8"), 8, "two whole numbers");
    refuse(
        AT_OFFSETS("[0,9007199254740992]"), 8, "[0, 9007199254740992] do not lie in the 8 bytes");
    refuse(AT_OFFSETS("[8,0]"), 8, "[8, 0] do not lie");
    refuse(AT_OFFSETS("[0,1e999]"), 8, "too large");
    refuse(AT_OFFSETS("[0,08]"), 8, "not a JSON number");
    refuse(AT_OFFSETS("[0,+8]"), 8, "not a JSON number");
    refuse(AT_OFFSETS("[0,NaN]"), 8, "not JSON");
}

static void the_data_region_must_be_whole(void **state) /* 46 */
{
    (void)state;
    refuse(AT_OFFSETS("[0,8]"), 7, "tensor 'w': data_offsets [0, 8] do not lie in the 7 bytes");
    refuse(AT_OFFSETS("[0,8]"), 0, "truncated");
    refuse(AT_OFFSETS("[0,8]"), 9, "tensors end at data byte 8, the file at 9");
}

/* tensors 'a' and 'b', one byte an element */
#define PAIR(a, na, b, nb)                                                                         \
    "{\"a\":{\"dtype\":\"U8\",\"shape\":[" na "],\"data_offsets\":" a                              \
    "},\"b\":{\"dtype\":\"I8\",\"shape\":[" nb "],\"data_offsets\":" b "}}"

static void holes_and_overlaps_are_refused(void **state) /* 45 */
{
    (void)state;
    dt_st_close(accept(PAIR("[0,4]", "4", "[4,8]", "4"), 8));
    dt_st_close(accept(PAIR("[4,8]", "4", "[0,4]", "4"), 8));
    refuse(PAIR("[0,4]", "4", "[5,8]", "3"), 8,
        "tensor 'b' starts at data byte 5, which leaves a hole");
    refuse(PAIR("[0,4]", "4", "[3,8]", "5"), 8, "tensor 'b' starts at data byte 3, which overlaps");
    refuse(PAIR("[0,8]", "8", "[0,8]", "8"), 8, "overlaps");
    refuse(PAIR("[0,8]", "8", "[4,4]", "0"), 8, "overlaps");
    refuse(PAIR("[1,4]", "3", "[4,8]", "4"), 8,
        "tensor 'a' starts at data byte 1, which leaves a hole");
}

#define OF_SHAPE(type, shape)                                                                      \
    "{\"w\":{\"dtype\":\"" type "\",\"shape\":" shape ",\"data_offsets\":[0,8]}}"

static void sizes_must_match_shapes(void **state) /* 45 */
{
    (void)state;
    dt_st_close(accept(OF_SHAPE("F32", "[2]"), 8));
    dt_st_close(accept(OF_SHAPE("F16", "[1,1,1,1,1,1,2,2]"), 8));
    dt_st_close(accept(OF_SHAPE("F64", "[]"), 8));
    refuse(OF_SHAPE("F32", "[3]"), 8,
        "tensor 'w': shape and dtype F32 need 12 bytes, data_offsets give 8");
    refuse(OF_SHAPE("BF16", "[2]"), 8, "need 4 bytes");
    refuse(OF_SHAPE("U8", "[0]"), 8, "need 0 bytes");
    refuse(OF_SHAPE("F32", "[4294967296,4294967296]"), 8, "tensor 'w': its shape overflows");
    refuse(OF_SHAPE("F32", "[4294967296,1073741824]"), 8, "tensor 'w': its shape overflows");
    refuse(OF_SHAPE("F32", "[0,4294967296,4294967296]"), 8, "need 0 bytes");
    refuse(OF_SHAPE("F32", "[4294967296,4294967296,0]"), 8, "need 0 bytes");
    refuse(OF_SHAPE("F32", "[-2]"), 8, "dimension 0 (-2) is no whole number");
    refuse(OF_SHAPE("F32", "[2,0.5]"), 8, "dimension 1 (0.5)");
    refuse(OF_SHAPE("F32", "[2,null]"), 8, "dimension 1");
    refuse(OF_SHAPE("F32", "[1,1,1,1,1,1,1,1,2]"), 8, "9 dimensions; at most 8");
    refuse(OF_SHAPE("F32", "2"), 8, "shape is no array");
}

static void unknown_dtypes_are_named(void **state) /* 48 */
{
    (void)state;
    refuse(OF_SHAPE("F8_E4M3", "[8]"), 8, "tensor 'w': dtype 'F8_E4M3' is not supported");
    refuse(OF_SHAPE("f32", "[2]"), 8, "dtype 'f32' is not supported");
    refuse("{\"w\":{\"dtype\":4,\"shape\":[2],\"data_offsets\":[0,8]}}", 8, "dtype is no string");
}

static void every_type_has_its_size(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        size_t bytes;
    } all[] = {{"F32", 4}, {"F16", 2}, {"BF16", 2}, {"F64", 8}, {"I64", 8}, {"I32", 4}, {"I16", 2},
        {"I8", 1}, {"U8", 1}, {"BOOL", 1}};
    for (size_t i = 0; i < DT_COUNT(all); i++) {
        char header[128];
        snprintf(header, sizeof header,
            "{\"w\":{\"dtype\":\"%s\",\"shape\":[3],\"data_offsets\":[0,%zu]}}", all[i].name,
            3 * all[i].bytes);
        dt_st_file *f = accept(header, 3 * all[i].bytes);
        const dt_st_type t = dti_st_at(f, 0)->type;
        assert_string_equal(dt_st_type_name(t), all[i].name);
        assert_int_equal(dt_st_type_bytes(t), all[i].bytes);
        dt_st_close(f);
    }
}

static void the_header_must_be_one_object_of_tensors(void **state)
{
    (void)state;
    refuse("[]", 0, "header starts with 0x5b");
    refuse(" {}", 0, "header starts with 0x20");
    refuse("{", 0, "not JSON");
    refuse("{}}", 0, "text behind the value");
    refuse("{} x", 0, "text behind the value");
    refuse("{\"a\":1}", 0, "tensor 'a' is no object");
    refuse("{\"a\":{}}", 0, "tensor 'a': needs dtype, shape and data_offsets");
    refuse("{\"a\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0],\"x\":1}}", 0,
        "tensor 'a': unknown key 'x'");
    dt_st_close(accept("{}   \n", 0));
}

static void metadata_must_be_strings(void **state)
{
    (void)state;
    refuse("{\"__metadata__\":[]}", 0, "__metadata__ is no object");
    refuse("{\"__metadata__\":{\"step\":1}}", 0, "__metadata__ 'step' is no string");
    refuse("{\"__metadata__\":{\"a\":\"1\",\"a\":\"2\"}}", 0, "two keys are named 'a'");
    dt_st_file *f = accept("{\"__metadata__\":{}}", 0);
    assert_int_equal(dti_st_count(f), 0);
    dt_st_close(f);
}

/* Every cut of a good file is refused, and no flipped bit crashes or leaks. */
static void damaged_files_are_survived(void **state)
{
    (void)state;
    const char *path = dt_temp_path("damage.st");
    dt_st_close(open_sample(path));
    char *text;
    size_t n;
    dt_err err = {0};
    assert_ok(dt_read_file(&text, &n, path, 4096, DT_E_DATA, &err), &err);
    for (size_t k = 0; k < n; k++)
        refuse_bytes(text, k, "bad.st");
    const long before = dti_alloc_live();
    for (size_t bit = 0; bit < n * 8; bit++) {
        text[bit / 8] = (char)(text[bit / 8] ^ (1 << bit % 8));
        dt_st_file *f = NULL;
        const dt_status st = dti_st_parse(&f, "flipped", text, n, NULL);
        assert_true(st == DT_OK || st == DT_E_DATA);
        assert_true((st == DT_OK) == (f != NULL));
        dt_st_close(f);
        assert_int_equal(dti_alloc_live(), before);
        text[bit / 8] = (char)(text[bit / 8] ^ (1 << bit % 8));
    }
    dt_free(text);
}

/* ---- memory ---- */

static void a_failed_allocation_in_reading_is_reported(void **state)
{
    (void)state;
    const char *path = dt_temp_path("nomem.st");
    dt_st_close(open_sample(path));
    const long before = dti_alloc_live();
    for (long k = 1;; k++) {
        dt_err err = {0};
        dt_st_file *f = NULL;
        dti_alloc_fail_at(k);
        const dt_status st = dt_st_open(&f, path, &err);
        dti_alloc_fail_at(0);
        if (st == DT_OK) {
            assert_true(k > 5);
            dt_st_close(f);
            assert_int_equal(dti_alloc_live(), before);
            break;
        }
        assert_fails(st, DT_E_NOMEM, &err, "no memory");
        assert_null(f);
        assert_int_equal(dti_alloc_live(), before);
    }
}

static void a_failed_allocation_in_writing_is_reported(void **state)
{
    (void)state;
    const char *path = dt_temp_path("nomem-write.st");
    const long before = dti_alloc_live();
    for (long k = 1;; k++) {
        dt_err err = {0};
        dti_alloc_fail_at(k);
        const dt_status st = write_sample(path, NULL, &err);
        dti_alloc_fail_at(0);
        assert_int_equal(dti_alloc_live(), before);
        struct stat info;
        assert_int_equal(stat(path, &info) == 0, st == DT_OK);
        if (st == DT_OK) {
            assert_true(k > 3);
            break;
        }
        assert_fails(st, DT_E_NOMEM, &err, "no memory");
    }
}

/* ---- a host program's cJSON ---- */

static long host_calls, host_fails;
static bool host_freed;

static void *host_alloc(size_t n)
{
    if (++host_calls != host_fails)
        return malloc(n);
    errno = ENOMEM;
    return NULL;
}

static void host_free(void *p)
{
    host_freed = true;
    free(p);
}

static int default_hooks(void **state)
{
    (void)state;
    cJSON_InitHooks(NULL);
    return 0;
}

static void what_a_host_has_cjson_allocate_by_stays(void **state)
{
    (void)state;
    const char *path = dt_temp_path("host.st");
    dt_st_close(open_sample(path));
    cJSON_InitHooks(&(cJSON_Hooks){.malloc_fn = host_alloc, .free_fn = host_free});
    dt_st_close(open_sample(path));
    host_calls = host_fails = 0;
    host_freed = false;
    cJSON *mine = cJSON_CreateObject();
    assert_non_null(mine);
    assert_int_equal(host_calls, 1);
    cJSON_Delete(mine);
    assert_true(host_freed);
    dt_status st = DT_E_NOMEM;
    for (host_fails = 1; st != DT_OK; host_fails++) {
        dt_err err = {0};
        dt_st_file *f = NULL;
        host_calls = 0;
        st = dt_st_open(&f, path, &err);
        if (st != DT_OK)
            assert_fails(st, DT_E_NOMEM, &err, "no memory");
        dt_st_close(f);
    }
    assert_true(host_fails > 10);
}

#define T(f) cmocka_unit_test(f)
DT_TEST_GROUP(safetensors)
{
    const struct CMUnitTest tests[] = {T(a_written_file_reads_back),
        T(a_file_that_was_replaced_is_read_as_it_was_opened),
        T(scalars_and_empty_tensors_are_legal), T(metadata_is_written_and_is_no_tensor),
        T(data_starts_at_a_multiple_of_64), T(the_same_tensors_give_the_same_bytes),
        T(a_file_of_no_tensors_is_legal), T(a_failing_source_leaves_the_old_file),
        T(entries_come_in_the_order_of_their_data), T(reading_past_a_tensor_is_refused),
        T(a_file_that_shrinks_is_noticed), T(files_that_cannot_be_opened_are_named),
        T(lengths_that_cannot_be_are_refused_before_allocating), T(header_bombs_meet_a_cap),
        T(the_largest_count_is_read_and_found), T(the_largest_count_may_have_metadata),
        T(what_a_file_cannot_list_is_refused_before_it_is_written), T(names_are_checked),
        T(duplicate_names_are_refused), T(offsets_must_be_whole_and_inside),
        T(the_data_region_must_be_whole), T(holes_and_overlaps_are_refused),
        T(sizes_must_match_shapes), T(unknown_dtypes_are_named), T(every_type_has_its_size),
        T(the_header_must_be_one_object_of_tensors), T(metadata_must_be_strings),
        T(damaged_files_are_survived), T(a_failed_allocation_in_reading_is_reported),
        T(a_failed_allocation_in_writing_is_reported),
        cmocka_unit_test_teardown(what_a_host_has_cjson_allocate_by_stays, default_hooks)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
