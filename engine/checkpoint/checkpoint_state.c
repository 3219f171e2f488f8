/* state.safetensors: optimizer state as "optimizer.K.NAME", of the shape of parameter NAME and in
 * fp32 also where it is 8 bits in memory, gradients that wait for a delayed update as
 * "gradient.NAME", and where the run stands as scalars "run.NAME".
 */
#include "engine/checkpoint/checkpoint_internal.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/alloc.h"
#include "engine/checkpoint/safetensors.h"

#define GRADIENT "gradient."

enum { NAME_BYTES = DT_WEIGHT_NAME_BYTES + 32 };

typedef struct number {
    const char *name;
    dt_st_type type; /* DT_ST_I64 or DT_ST_F64 */
    size_t at;
} number;

#define NUMBER(name, type, f)                                                                      \
    {                                                                                              \
        "run." name, type, offsetof(dt_course, f)                                                  \
    }
#define WHOLE(f) NUMBER(#f, DT_ST_I64, f)
#define REAL(f) NUMBER(#f, DT_ST_F64, f)
#define EVAL_WHOLE(f) NUMBER("eval_" #f, DT_ST_I64, eval.f)
#define EVAL_REAL(f) NUMBER("eval_" #f, DT_ST_F64, eval.f)
static const number numbers[] = {WHOLE(step), WHOLE(epoch), WHOLE(at), WHOLE(evaluated),
    WHOLE(samples), WHOLE(skipped), WHOLE(reruns), REAL(seconds), REAL(first_loss), REAL(last_loss),
    WHOLE(best_step), REAL(best), EVAL_WHOLE(step), EVAL_WHOLE(epoch), EVAL_WHOLE(samples),
    EVAL_REAL(loss), EVAL_REAL(top1), EVAL_REAL(top5), WHOLE(best_by), EVAL_REAL(mean_iou),
    EVAL_REAL(accuracy), WHOLE(improved_step), REAL(improved), WHOLE(worse)};
enum { LATER = 6, NUMBERS = DT_COUNT(numbers) }; /* LATER: the last so many may be missing */

/* A tensor of optimizer state, or a gradient that waits. */
typedef struct row {
    char name[NAME_BYTES];
    const dt_param_info *info;
    int32_t home;
} row;

typedef struct rows {
    size_t n;
    row *row;
} rows;

static void rows_deinit(rows *r)
{
    dt_free(r->row);
    *r = (rows){0};
}

/* Of a parameter what the map has at a port, if anything. */
static row *add_row(rows *r, const dti_weight *w, const dt_map *m, dt_port port)
{
    const int32_t home = dti_map_find(m, w->node, w->param, port);
    if (home < 0)
        return NULL;
    r->row[r->n] = (row){.info = w->info, .home = home};
    return &r->row[r->n++];
}

/* For every parameter what a run that goes on needs beside it, in the network's order. */
static void list(rows *r, const dti_weights *w, const dt_map *m, bool waits)
{
    for (size_t i = 0; i < w->n; i++) {
        for (int k = 0; k < DT_MAX_MOMENT; k++) {
            row *to = add_row(r, &w->row[i], m, (dt_port)(DT_M + k));
            if (to != NULL)
                snprintf(to->name, sizeof to->name, "optimizer.%d.%s", k, w->row[i].name);
        }
        row *to = waits ? add_row(r, &w->row[i], m, DT_DP) : NULL;
        if (to != NULL)
            snprintf(to->name, sizeof to->name, GRADIENT "%s", w->row[i].name);
    }
}

static dt_status rows_init(rows *r, const dt_trained *t, bool waits, dt_err *err)
{
    dti_weights w;
    *r = (rows){0};
    DT_CHECK(dti_weights_init(&w, t->graph, false, err));
    r->row = dt_alloc(w.n * (DT_MAX_MOMENT + 1), sizeof *r->row);
    dt_status st = DT_OK;
    if (r->row == NULL)
        st = DT_FAIL(err, DT_E_NOMEM, "no memory for the optimizer's state");
    if (st == DT_OK)
        list(r, &w, t->map, waits);
    dti_weights_deinit(&w);
    if (st != DT_OK)
        rows_deinit(r);
    return st;
}

bool dti_is_state(const dt_trained *t, const dt_home *h)
{
    return (h->port >= DT_M && h->port < DT_M + DT_MAX_MOMENT) ||
           (dt_map_delays(t->map) && h->port == DT_DP);
}

/* ---- writing ---- */

typedef struct saving {
    const dt_trained *t;
    const rows *rows;
    const dt_course *course;
    dti_passage passage; /* of the tensor at hand */
} saving;

static dt_status next_piece(
    void *arg, size_t i, size_t at, const void **bytes, size_t *n, dt_err *err)
{
    saving *s = arg;
    if (i < NUMBERS) {
        *bytes = (const char *)s->course + numbers[i].at;
        return DT_OK;
    }
    const int32_t home = s->rows->row[i - NUMBERS].home;
    return dti_passage_give(&s->passage, s->t->runner, home, at, bytes, n, err);
}

/* All that the file has, NUMBERS and as many as there are rows. NULL: no memory. */
static dt_st_out *entries_of(const rows *r)
{
    dt_st_out *out = dt_alloc(NUMBERS + r->n, sizeof *out);
    for (size_t i = 0; i < NUMBERS && out != NULL; i++)
        out[i] = (dt_st_out){.name = numbers[i].name, .type = numbers[i].type};
    for (size_t i = 0; i < r->n && out != NULL; i++) {
        dt_st_out *o = &out[NUMBERS + i];
        *o = (dt_st_out){.name = r->row[i].name, .type = DT_ST_F32, .rank = r->row[i].info->rank};
        memcpy(o->d, r->row[i].info->d, sizeof r->row[i].info->d);
    }
    return out;
}

dt_status dti_state_save(
    const char *path, const dt_trained *t, const dt_course *c, dt_sha256 *sum, dt_err *err)
{
    rows r;
    DT_CHECK(rows_init(&r, t, c->waits, err));
    dt_st_out *out = entries_of(&r);
    dt_status st = DT_OK;
    if (out == NULL) {
        st = DT_FAIL(err, DT_E_NOMEM, "no memory to write '%s'", path);
    } else {
        saving s = {.t = t, .rows = &r, .course = c};
        st = dt_st_write(path, out, NUMBERS + r.n, NULL, 0, next_piece, &s, sum, err);
        dti_passage_close(&s.passage);
    }
    dt_free(out);
    rows_deinit(&r);
    return st;
}

dt_status dti_state_check(const char *path, const dt_trained *t, dt_err *err)
{
    rows r;
    DT_CHECK(rows_init(&r, t, dt_map_delays(t->map), err));
    dt_st_out *out = entries_of(&r);
    const dt_status st = out != NULL ? dti_st_check(path, out, NUMBERS + r.n, NULL, 0, err)
                                     : DT_FAIL(err, DT_E_NOMEM, "no memory for '%s'", path);
    dt_free(out);
    rows_deinit(&r);
    return st;
}

/* ---- reading ---- */

static dt_status find(const dt_st_file *f, const char *path, const char *name, dt_st_type type,
    int rank, const int64_t *d, const dt_st_entry **out, dt_err *err)
{
    const dt_st_entry *e = *out = dt_st_find(f, name);
    if (e == NULL)
        return DT_FAIL(err, DT_E_DATA, "'%s' has no '%s'", path, name);
    bool same = e->type == type && e->rank == rank;
    for (int i = 0; i < rank && same; i++)
        same = e->d[i] == d[i];
    if (!same)
        return DT_FAIL(err, DT_E_DATA, "'%s': '%s' has another shape or type", path, name);
    return DT_OK;
}

/* What a file of an older version says of them. */
static size_t count_numbers(const dt_st_file *f)
{
    size_t n = 0;
    for (size_t i = 0; i < NUMBERS; i++)
        n += dt_st_find(f, numbers[i].name) != NULL;
    return n;
}

static bool has_gradients(const dt_st_file *f)
{
    bool has = false;
    for (size_t i = 0; i < dti_st_count(f) && !has; i++)
        has = strncmp(dti_st_at(f, i)->name, GRADIENT, strlen(GRADIENT)) == 0;
    return has;
}

static dt_status read_numbers(const dt_st_file *f, const char *path, dt_course *c, dt_err *err)
{
    *c = (dt_course){
        .eval = {.mean_iou = (double)NAN, .accuracy = (double)NAN}, .waits = has_gradients(f)};
    for (size_t i = 0; i < NUMBERS; i++) {
        const dt_st_entry *e;
        int64_t v; /* a real's bits are not looked at */
        if (i >= NUMBERS - LATER && dt_st_find(f, numbers[i].name) == NULL)
            continue;
        DT_CHECK(find(f, path, numbers[i].name, numbers[i].type, 0, NULL, &e, err));
        DT_CHECK(dt_st_read(f, e, 0, &v, sizeof v, err));
        if (numbers[i].type == DT_ST_I64 && (v < 0 || v > INT64_C(1) << 53))
            return DT_FAIL(err, DT_E_DATA, "'%s': %s is %" PRId64 ", must be from 0 to 2^53", path,
                numbers[i].name, v);
        memcpy((char *)c + numbers[i].at, &v, sizeof v);
    }
    return DT_OK;
}

static dt_status check_rows(const dt_st_file *f, const char *path, const rows *r, dt_err *err)
{
    for (size_t i = 0; i < r->n; i++) {
        const dt_st_entry *e;
        const dt_param_info *p = r->row[i].info;
        DT_CHECK(find(f, path, r->row[i].name, DT_ST_F32, p->rank, p->d, &e, err));
    }
    const size_t n = count_numbers(f) + r->n;
    if (dti_st_count(f) != n)
        return DT_FAIL(err, DT_E_DATA, "'%s' holds %zu tensors; the optimizer has %zu", path,
            dti_st_count(f), n);
    return DT_OK;
}

static dt_status put_row(const dt_st_file *f, const row *of, dt_runner *runner, dt_err *err)
{
    const dt_st_entry *e = dt_st_find(f, of->name);
    dti_passage w;
    DT_CHECK(dti_passage_open(&w, runner, of->home, err));
    dt_status st = DT_OK;
    while (st == DT_OK && dti_passage_next(&w)) {
        st = dt_st_read(f, e, w.at * sizeof(float), w.piece, w.n * sizeof(float), err);
        if (st == DT_OK)
            st = dti_passage_put(&w, err);
    }
    dti_passage_close(&w);
    return st;
}

static dt_status put_rows(dt_st_file *f, const rows *r, dt_runner *runner, dt_err *err)
{
    dti_st_stream(f);
    for (size_t i = 0; i < r->n; i++)
        DT_CHECK(put_row(f, &r->row[i], runner, err));
    return DT_OK;
}

static dt_status load(
    dt_st_file *f, const char *path, const dt_trained *t, dt_course *c, dt_err *err)
{
    rows r;
    DT_CHECK(read_numbers(f, path, c, err));
    if (t == NULL)
        return DT_OK;
    DT_CHECK(rows_init(&r, t, c->waits, err));
    dt_status st = check_rows(f, path, &r, err);
    if (st == DT_OK)
        st = put_rows(f, &r, t->runner, err);
    rows_deinit(&r);
    return st;
}

dt_status dti_state_load(const char *path, const dt_trained *t, dt_course *c, dt_err *err)
{
    dt_st_file *f;
    DT_CHECK(dt_st_open(&f, path, err));
    const dt_status st = load(f, path, t, c, err);
    dt_st_close(f);
    return st;
}
