/* Intervals from text and to it. */
#include "memory/pools/pool_file.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/alloc.h"
#include "engine/base/io.h"
#include "engine/base/text.h"

static const char header[] = "id,lower,upper,size";
static const char *const fields[] = {"id", "lower", "upper", "size"};
enum { FIELDS = 4, SHOWN = 40 };

/* A decimal integer that is the whole of [p, end). */
static bool read_integer(const char *p, const char *end, int64_t *out)
{
    const bool minus = p < end && *p == '-';
    const uint64_t most = (uint64_t)INT64_MAX + minus;
    uint64_t value = 0;
    p += minus;
    if (p == end || !dt_scan_u64(&p, end, &value) || p != end || value > most)
        return false;
    *out = !minus ? (int64_t)value : value == most ? INT64_MIN : -(int64_t)value;
    return true;
}

/* Where a message points. */
typedef struct place {
    const char *path;
    size_t line;
} place;

static dt_status read_line(
    dt_interval *x, const char *p, const char *end, const place *at, dt_err *err)
{
    int64_t value[FIELDS];
    for (size_t i = 0; i < FIELDS; i++) {
        const char *comma = memchr(p, ',', (size_t)(end - p));
        if ((comma != NULL) != (i + 1 < FIELDS))
            return DT_FAIL(
                err, DT_E_DATA, "%s:%zu: not the four fields %s", at->path, at->line, header);
        const char *stop = comma != NULL ? comma : end;
        if (!read_integer(p, stop, &value[i])) {
            const int shown = stop - p > SHOWN ? SHOWN : (int)(stop - p);
            const bool heads = i == 0 && at->line == 1;
            return DT_FAIL(err, DT_E_DATA, "%s:%zu: %s '%.*s' is not an integer of 64 bits%s%s",
                at->path, at->line, fields[i], shown, p,
                heads ? "; nor is the line the header, " : "", heads ? header : "");
        }
        p = stop + 1;
    }
    if (value[1] >= value[2])
        return DT_FAIL(err, DT_E_DATA, "%s:%zu: lower %" PRId64 " is not below upper %" PRId64,
            at->path, at->line, value[1], value[2]);
    if (value[3] < 0)
        return DT_FAIL(
            err, DT_E_DATA, "%s:%zu: size %" PRId64 " is negative", at->path, at->line, value[3]);
    *x = (dt_interval){.id = value[0],
        .lower = value[1],
        .upper = value[2],
        .bytes = (uint64_t)value[3],
        .align = 1};
    return DT_OK;
}

static bool is_header(const char *p, const char *end)
{
    return (size_t)(end - p) == sizeof header - 1 && memcmp(p, header, sizeof header - 1) == 0;
}

static dt_status read_text(dt_interval **v, size_t *n, size_t *lines, const char *text,
    size_t bytes, const char *path, dt_err *err)
{
    size_t cap = 0;
    place at = {path, 0};
    if (bytes == 0)
        return DT_FAIL(
            err, DT_E_DATA, "%s:1: the file is empty; a line an interval has %s", path, header);
    for (const char *p = dt_behind_mark(text, bytes), *const stop = text + bytes; p < stop;) {
        const char *newline = memchr(p, '\n', (size_t)(stop - p));
        const char *next = newline != NULL ? newline + 1 : stop;
        const char *end = newline != NULL ? newline : stop;
        end -= end > p && newline != NULL && end[-1] == '\r';
        at.line++;
        if (at.line > 1 || !is_header(p, end)) {
            if (!dt_grow(v, &cap, *n, sizeof **v))
                return DT_FAIL(err, DT_E_NOMEM, "%s:%zu: out of memory", path, at.line);
            DT_CHECK(read_line(&(*v)[*n], p, end, &at, err));
            ++*n;
        }
        p = next;
    }
    *lines = at.line;
    return DT_OK;
}

/* An id and where it stands. */
typedef struct named {
    int64_t id;
    size_t row;
} named;

static int by_id(const void *a, const void *b)
{
    const named *p = a, *q = b;
    if (p->id != q->id)
        return p->id < q->id ? -1 : 1;
    return (p->row > q->row) - (p->row < q->row);
}

/* @skipped lines stand before the first interval. */
static dt_status check_ids(
    const dt_interval *v, size_t n, size_t skipped, const char *path, dt_err *err)
{
    size_t rising = 1;
    while (rising < n && v[rising - 1].id < v[rising].id)
        rising++;
    if (rising >= n)
        return DT_OK;
    named *all = dt_alloc(n, sizeof *all);
    if (all == NULL)
        return DT_FAIL(err, DT_E_NOMEM, "%s: no memory for %zu ids", path, n);
    for (size_t i = 0; i < n; i++)
        all[i] = (named){v[i].id, i};
    qsort(all, n, sizeof *all, by_id);
    dt_status st = DT_OK;
    for (size_t i = 1; i < n && st == DT_OK; i++)
        if (all[i - 1].id == all[i].id)
            st = DT_FAIL(err, DT_E_DATA, "%s:%zu: id %" PRId64 " is that of line %zu", path,
                all[i].row + 1 + skipped, all[i].id, all[i - 1].row + 1 + skipped);
    dt_free(all);
    return st;
}

dt_status dt_pool_file_read(
    dt_interval **v, size_t *n, const char *path, size_t max_bytes, dt_err *err)
{
    *v = NULL;
    *n = 0;
    char *text;
    size_t bytes;
    DT_CHECK(dt_read_file(&text, &bytes, path, max_bytes, DT_E_DATA, err));
    dt_interval *read = NULL;
    size_t count = 0, lines = 0;
    dt_status st = read_text(&read, &count, &lines, text, bytes, path, err);
    dt_free(text);
    if (st == DT_OK)
        st = check_ids(read, count, lines - count, path, err);
    if (st != DT_OK) {
        dt_free(read);
        return st;
    }
    *v = read;
    *n = count;
    return DT_OK;
}

enum { LINE_BYTES = 128 };

static dt_status line_of(
    const dt_interval *v, size_t i, char to[LINE_BYTES], size_t *bytes, dt_err *err)
{
    const uint64_t need = v[i].bytes > 0 ? dti_interval_need(&v[i]) : 0;
    if (v[i].lower >= v[i].upper || need > INT64_MAX)
        return DT_FAIL(err, DT_E_INTERNAL, "interval %zu is empty or too large for a file", i);
    *bytes = (size_t)snprintf(to, LINE_BYTES, "%" PRId64 ",%" PRId64 ",%" PRId64 ",%" PRIu64 "\n",
        v[i].id, v[i].lower, v[i].upper, need);
    return DT_OK;
}

static dt_status write_lines(dt_file_writer *w, const dt_interval *v, size_t n, dt_err *err)
{
    char line[LINE_BYTES];
    size_t bytes = (size_t)snprintf(line, sizeof line, "%s\n", header);
    DT_CHECK(dt_writer_put(w, line, bytes, err));
    for (size_t i = 0; i < n; i++) {
        DT_CHECK(line_of(v, i, line, &bytes, err));
        DT_CHECK(dt_writer_put(w, line, bytes, err));
    }
    return DT_OK;
}

dt_status dt_pool_file_print(const dt_interval *v, size_t n, FILE *f, dt_err *err)
{
    char line[LINE_BYTES];
    size_t bytes;
    DT_CHECK(dti_pool_check(v, n, err));
    fprintf(f, "%s\n", header);
    for (size_t i = 0; i < n; i++) {
        DT_CHECK(line_of(v, i, line, &bytes, err));
        fputs(line, f);
    }
    return DT_OK;
}

dt_status dt_pool_file_write(const dt_interval *v, size_t n, const char *path, dt_err *err)
{
    dt_file_writer *w;
    DT_CHECK(dti_pool_check(v, n, err));
    DT_CHECK(dt_writer_open(&w, path, err));
    const dt_status st = write_lines(w, v, n, err);
    if (st != DT_OK) {
        dt_writer_abandon(w);
        return st;
    }
    return dt_writer_commit(w, err);
}
