#include "engine/checkpoint/weights.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/alloc.h"
#include "engine/checkpoint/weights_table.h"

enum { PIECE = 1 << 16, INDEX_BYTES = 128 }; /* floats checked at a time */

static size_t count_of(const dti_weight *row)
{
    return (size_t)dt_param_count(row->info);
}

/* Row-major place of element @i: "[3, 0, 1, 2]". */
static const char *index_text(char to[INDEX_BYTES], const dt_param_info *p, size_t i)
{
    int64_t at[DT_COUNT(p->d)] = {0};
    for (int k = p->rank - 1; k >= 0; k--) {
        at[k] = (int64_t)(i % (size_t)p->d[k]);
        i /= (size_t)p->d[k];
    }
    size_t n = (size_t)snprintf(to, INDEX_BYTES, "[");
    for (int k = 0; k < p->rank; k++)
        n += (size_t)snprintf(to + n, INDEX_BYTES - n, "%s%" PRId64, k > 0 ? ", " : "", at[k]);
    snprintf(to + n, INDEX_BYTES - n, "]");
    return to;
}

static dt_status check_finite(
    const dti_weight *row, const float *v, size_t from, size_t n, const char *path, dt_err *err)
{
    for (size_t i = 0; i < n; i++)
        if (!isfinite(v[i])) {
            char at[INDEX_BYTES];
            return DT_FAIL(err, DT_E_DATA, "weights '%s': %s%s is %g; weights must be finite", path,
                row->name, index_text(at, row->info, from + i), (double)v[i]);
        }
    return DT_OK;
}

static dt_status check_values(
    const dt_st_file *f, const dti_weight *row, float *piece, const char *path, dt_err *err)
{
    const dt_st_entry *e = dt_st_find(f, row->name);
    const size_t count = count_of(row);
    for (size_t at = 0; at < count; at += PIECE) {
        const size_t n = count - at < PIECE ? count - at : PIECE;
        DT_CHECK(dt_st_read(f, e, at * sizeof(float), piece, n * sizeof(float), err));
        DT_CHECK(check_finite(row, piece, at, n, path, err));
    }
    return DT_OK;
}

static dt_status check_file(
    const dti_weights *w, const dt_graph *g, const dt_st_file *f, const char *path, dt_err *err)
{
    DT_CHECK(dti_weights_compare(w, g, f, path, err));
    float *piece = dt_alloc(PIECE, sizeof *piece);
    if (piece == NULL)
        return DT_FAIL(err, DT_E_NOMEM, "no memory to check '%s'", path);
    dt_status st = DT_OK;
    for (size_t i = 0; i < w->n && st == DT_OK; i++)
        st = check_values(f, &w->row[i], piece, path, err);
    dt_free(piece);
    return st;
}

/* Room for the largest tensor, in PyTorch's layout. */
static dt_status take_staging(dt_staging *staging, dt_runner *r, const dti_weights *w, dt_err *err)
{
    size_t most = 0;
    for (size_t i = 0; i < w->n; i++)
        most = count_of(&w->row[i]) > most ? count_of(&w->row[i]) : most;
    return dt_staging_take(staging, r, most, err);
}

static dt_status find_home(
    int32_t *home, const dti_weight *row, const dt_map *m, dt_port port, dt_err *err)
{
    *home = dt_map_find(m, row->node, row->param, port);
    if (*home < 0)
        return DT_FAIL(err, DT_E_INTERNAL, "'%s' is not in the map (port %d)", row->name, port);
    return DT_OK;
}

static dt_status put_one(dt_runner *r, const dt_map *m, const dt_st_file *f, const dti_weight *row,
    float *plain, const char *path, dt_err *err)
{
    int32_t home;
    DT_CHECK(find_home(&home, row, m, DT_P, err));
    const size_t n = count_of(row);
    DT_CHECK(dt_st_read(f, dt_st_find(f, row->name), 0, plain, n * sizeof *plain, err));
    DT_CHECK(check_finite(row, plain, 0, n, path, err)); /* the file may have changed since */
    return dt_runner_put(r, home, plain, err);
}

static dt_status put_all(dt_runner *r, const dt_map *m, const dt_st_file *f, const dti_weights *w,
    const char *path, dt_err *err)
{
    dt_staging staging;
    DT_CHECK(take_staging(&staging, r, w, err));
    dt_status st = DT_OK;
    for (size_t i = 0; i < w->n && st == DT_OK; i++)
        st = put_one(r, m, f, &w->row[i], staging.p, path, err);
    dt_staging_give(&staging);
    return st;
}

/* @r NULL: only check. */
static dt_status load(
    dt_runner *r, const dt_graph *g, const dt_map *m, const char *path, dt_err *err)
{
    dti_weights w;
    DT_CHECK(dti_weights_init(&w, g, true, err));
    dt_st_file *f = NULL;
    dt_status st = dt_st_open(&f, path, err);
    if (st == DT_OK)
        st = check_file(&w, g, f, path, err);
    if (st == DT_OK && r != NULL)
        st = put_all(r, m, f, &w, path, err);
    dt_st_close(f);
    dti_weights_deinit(&w);
    return st;
}

dt_status dt_weights_check(const dt_graph *g, const char *path, dt_err *err)
{
    return load(NULL, g, NULL, path, err);
}

dt_status dt_weights_load(
    dt_runner *r, const dt_graph *g, const dt_map *m, const char *path, dt_err *err)
{
    return load(r, g, m, path, err);
}

typedef struct saving {
    dt_runner *runner;
    const dt_map *map;
    dt_port port;
    const dti_weights *w;
    dt_staging staging;
    dt_sha256 *sum; /* NULL: none */
} saving;

static dt_status next_tensor(void *arg, size_t i, const void **bytes, dt_err *err)
{
    const saving *s = arg;
    int32_t home;
    DT_CHECK(find_home(&home, &s->w->row[i], s->map, s->port, err));
    DT_CHECK(dt_runner_get(s->runner, home, s->staging.p, err));
    *bytes = s->staging.p;
    return DT_OK;
}

static dt_status write_all(saving *s, dt_st_out *out, const char *path, dt_err *err)
{
    static const dt_st_meta meta = {"format", "pt"};
    for (size_t i = 0; i < s->w->n; i++) {
        const dti_weight *row = &s->w->row[i];
        out[i] = (dt_st_out){.name = row->name, .type = DT_ST_F32, .rank = row->info->rank};
        memcpy(out[i].d, row->info->d, sizeof row->info->d);
    }
    return dt_st_write_sum(path, out, s->w->n, &meta, 1, next_tensor, s, s->sum, err);
}

static dt_status save(dt_runner *r, const dt_graph *g, const dt_map *m, dt_port port,
    const char *path, dt_sha256 *sum, dt_err *err)
{
    dti_weights w;
    DT_CHECK(dti_weights_init(&w, g, port == DT_P, err));
    saving s = {.runner = r, .map = m, .port = port, .w = &w, .sum = sum};
    dt_st_out *out = dt_alloc(w.n, sizeof *out);
    dt_status st = out != NULL ? take_staging(&s.staging, r, &w, err)
                               : DT_FAIL(err, DT_E_NOMEM, "no memory to write '%s'", path);
    if (st == DT_OK)
        st = write_all(&s, out, path, err);
    dt_staging_give(&s.staging);
    dt_free(out);
    dti_weights_deinit(&w);
    return st;
}

dt_status dt_weights_save(
    dt_runner *r, const dt_graph *g, const dt_map *m, const char *path, dt_err *err)
{
    return save(r, g, m, DT_P, path, NULL, err);
}

dt_status dt_weights_save_sum(
    dt_runner *r, const dt_graph *g, const dt_map *m, const char *path, dt_sha256 *sum, dt_err *err)
{
    return save(r, g, m, DT_P, path, sum, err);
}

dt_status dt_gradients_save(
    dt_runner *r, const dt_graph *g, const dt_map *m, const char *path, dt_err *err)
{
    return save(r, g, m, DT_DP, path, NULL, err);
}
