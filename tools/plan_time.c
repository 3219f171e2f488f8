/* A plan in time, beside what was measured of it. */
#include "tools/plan_time.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/alloc.h"
#include "engine/base/io.h"
#include "engine/base/numbers.h"
#include "engine/base/text.h"
#include "engine/config/options.h"
#include "tools/columns.h"

enum { FIELDS = 10, WORST = 12, NAME = 28, MOST_BYTES = 1 << 30 };

/* Kinds of rows, as a trace calls them; a wait is in no trace. */
typedef enum row_sort { SORT_COMPUTE, SORT_OUT, SORT_IN, SORT_FETCH, SORT_WAIT, SORTS } row_sort;
static const char *const sort_name[SORTS] = {"compute", "copy_out", "copy_in", "fetch", "wait"};

static row_sort sort_of(const dt_row *r)
{
    if (r->kind == DT_ROW_COMPUTE)
        return SORT_COMPUTE;
    if (r->kind == DT_ROW_COPY_OUT)
        return SORT_OUT;
    if (r->kind == DT_ROW_COPY_IN)
        return r->tier == DT_TIER_INPUT ? SORT_FETCH : SORT_IN;
    return r->kind == DT_ROW_WAIT ? SORT_WAIT : SORTS;
}

static const char *name_of(const dt_plan *p, const dt_row *r)
{
    if (r->kind == DT_ROW_COMPUTE)
        return p->op[r->op].name;
    return r->tensor >= 0 ? p->tensor[r->tensor].name : "";
}

/* Of an op those of all tensors that it touches. */
static uint64_t bytes_of(const dt_plan *p, const dt_row *r)
{
    uint64_t bytes = 0;
    if (r->kind == DT_ROW_WAIT)
        return 0;
    if (r->kind != DT_ROW_COMPUTE)
        return r->stored > 0 ? r->stored : r->bytes;
    const dt_plan_op *op = &p->op[r->op];
    for (int32_t i = op->first; i < op->first + op->n; i++)
        bytes += p->arg[i].to - p->arg[i].from;
    return bytes;
}

/* @by: by event, the row that signals it */
static void print_rows(const dti_plan_time *t, const int32_t *by, FILE *f)
{
    const dt_plan *p = t->plan;
    fprintf(f, "row,stream,name,kind,bytes,begin,end,source,costs\n");
    for (size_t i = 0; i < p->n_row; i++) {
        const dt_row *r = &p->row[i];
        const row_sort sort = sort_of(r);
        if (sort == SORTS)
            continue;
        const char *source = sort == SORT_COMPUTE ? dt_cost_source_name(t->time->source[i])
                             : sort == SORT_WAIT  ? ""
                                                  : "link";
        fprintf(f, "%zu,%s,%s,%s,%" PRIu64 ",%.9f,%.9f,%s,%s\n", i,
            dt_stream_name(&p->stream[r->stream]),
            name_of(p, sort == SORT_WAIT ? &p->row[by[r->event]] : r), sort_name[sort],
            bytes_of(p, r), t->time->begin[i], t->time->end[i], source, dt_costs_word(t->costs));
    }
}

dt_status dti_plan_timeline(const void *plan_time, FILE *f, dt_err *err)
{
    const dti_plan_time *t = plan_time;
    int32_t *by = dt_alloc((size_t)t->plan->n_event + 1, sizeof *by);
    if (by == NULL)
        return DT_FAIL(err, DT_E_NOMEM, "no memory for a timeline");
    dt_timeline_signals(t->plan, by);
    print_rows(t, by, f);
    dt_free(by);
    return DT_OK;
}

/* ---- a trace ---- */

/* A row as it ran once. */
typedef struct sample {
    int32_t row;
    double begin, seconds;
} sample;

/* @whole: seconds of each time that the plan ran; @begin @end @last: of the time under way, and its
 * latest row */
typedef struct trace {
    const dti_plan_time *t;
    const char *path;
    int64_t samples;
    size_t line;
    sample *of;
    size_t n, cap;
    double *whole;
    size_t n_whole, cap_whole;
    double begin, end;
    int32_t last;
} trace;

static dt_status end_run(trace *x, dt_err *err)
{
    if (x->last < 0)
        return DT_OK;
    if (!dt_grow(&x->whole, &x->cap_whole, x->n_whole, sizeof *x->whole))
        return DT_FAIL(err, DT_E_NOMEM, "no memory for a trace");
    x->whole[x->n_whole++] = x->end - x->begin;
    x->last = -1;
    return DT_OK;
}

static dt_status other_plan(
    const trace *x, int64_t row, const char *name, const char *ours, dt_err *err)
{
    return DT_FAIL(err, DT_E_DATA,
        "%s:%zu: row %" PRId64 " is '%s', in this plan '%s': the trace is of another plan; trace a "
        "run of this configuration, by DT_TRACE=FILE dnntrain CONFIG",
        x->path, x->line, row, name, ours);
}

/* Rows of a run of the plan come in its order. */
static dt_status take(trace *x, int64_t row, char **field, double begin, double end, dt_err *err)
{
    const dt_plan *p = x->t->plan;
    const char *ours = "nothing";
    if (row >= 0 && (uint64_t)row < p->n_row)
        ours = name_of(p, &p->row[row]);
    if (row < 0 || (uint64_t)row >= p->n_row || strcmp(ours, field[5]) != 0 ||
        sort_of(&p->row[row]) == SORTS || strcmp(sort_name[sort_of(&p->row[row])], field[6]) != 0)
        return other_plan(x, row, field[5], ours, err);
    if (row <= x->last)
        DT_CHECK(end_run(x, err));
    if (x->last < 0) {
        x->begin = begin;
        x->end = end;
    }
    x->begin = begin < x->begin ? begin : x->begin;
    x->end = end > x->end ? end : x->end;
    x->last = (int32_t)row;
    if (!dt_grow(&x->of, &x->cap, x->n, sizeof *x->of))
        return DT_FAIL(err, DT_E_NOMEM, "no memory for a trace");
    x->of[x->n++] = (sample){(int32_t)row, begin, end - begin};
    return DT_OK;
}

static dt_status read_line(trace *x, char *line, dt_err *err)
{
    char *field[FIELDS];
    int n = 0;
    int64_t samples, row;
    double begin, end;
    for (char *at = line; at != NULL; n++) {
        char *comma = strchr(at, ',');
        if (n < FIELDS)
            field[n] = at;
        if (comma != NULL)
            *comma++ = '\0';
        at = comma;
    }
    if (n != FIELDS)
        return DT_FAIL(err, DT_E_DATA, "%s:%zu: %d fields, not the %d of a trace", x->path, x->line,
            n, FIELDS);
    if (!dt_parse_i64(field[2], &samples) || !dt_parse_i64(field[3], &row))
        return DT_FAIL(err, DT_E_DATA, "%s:%zu: samples '%.40s' or row '%.40s' is no whole number",
            x->path, x->line, field[2], field[3]);
    if (!dt_parse_f64(field[8], &begin) || !dt_parse_f64(field[9], &end) || !isfinite(begin) ||
        !isfinite(end) || !(begin >= 0) || !(end >= begin))
        return DT_FAIL(err, DT_E_DATA,
            "%s:%zu: begin '%.40s' and end '%.40s' are no seconds from 0 on, the end not before "
            "the "
            "beginning",
            x->path, x->line, field[8], field[9]);
    if (strcmp(field[1], x->t->plan->program) != 0 || samples != x->samples)
        return end_run(x, err);
    return take(x, row, field, begin, end, err);
}

static dt_status read_lines(trace *x, char *text, dt_err *err)
{
    static const char first[] = "step,program,samples,row,stream,name,kind,bytes,begin,end";
    text += dt_behind_mark(text, strlen(text)) - text;
    for (char *at = text; *at != '\0'; x->line++) {
        char *end = strchr(at, '\n');
        if (end == NULL)
            return DT_FAIL(err, DT_E_DATA,
                "%s:%zu: the line has no end: the trace is cut, or its run goes on", x->path,
                x->line);
        *end = '\0';
        if (end > at && end[-1] == '\r') /* as some editors write */
            end[-1] = '\0';
        if (x->line == 1 && strcmp(at, first) != 0)
            return DT_FAIL(
                err, DT_E_DATA, "%s:1: not the first line of a trace, %s", x->path, first);
        if (x->line > 1)
            DT_CHECK(read_line(x, at, err));
        at = end + 1;
    }
    DT_CHECK(end_run(x, err));
    if (x->n == 0)
        return DT_FAIL(err, DT_E_DATA,
            "%s: no row of it is of program '%s' for %" PRId64
            " samples; --program says which, and "
            "DT_TRACE=FILE dnntrain CONFIG writes it",
            x->path, x->t->plan->program, x->samples);
    return DT_OK;
}

/* ---- beside each other ---- */

static int by_row(const void *va, const void *vb)
{
    const sample *a = va, *b = vb;
    if (a->row != b->row)
        return a->row < b->row ? -1 : 1;
    return (a->seconds > b->seconds) - (a->seconds < b->seconds);
}

/* Both of a row; @measured is below 0 where the trace has none. */
typedef struct pair {
    size_t row;
    double predicted, measured;
} pair;

static double differs(const pair *p)
{
    return p->measured < 0 ? 0 : fabs(p->predicted - p->measured);
}

static int worst_first(const void *va, const void *vb)
{
    const pair *a = va, *b = vb;
    if (differs(a) > differs(b) || differs(a) < differs(b))
        return differs(a) > differs(b) ? -1 : 1;
    return (a->row > b->row) - (a->row < b->row);
}

/* Medians; samples are sorted by row. */
static size_t pair_up(const trace *x, pair *to)
{
    const dt_plan *p = x->t->plan;
    size_t n = 0, at = 0;
    for (size_t i = 0; i < p->n_row; i++) {
        const size_t from = at;
        while (at < x->n && (size_t)x->of[at].row == i)
            at++;
        if (sort_of(&p->row[i]) >= SORT_WAIT)
            continue;
        to[n++] = (pair){.row = i,
            .predicted = x->t->time->end[i] - x->t->time->begin[i],
            .measured = at > from ? (x->of[from + (at - from) / 2].seconds +
                                        x->of[from + (at - from - 1) / 2].seconds) /
                                        2
                                  : -1};
    }
    return n;
}

static void put_line(const char *name, size_t rows, double predicted, double measured)
{
    dti_column_end_of(name, NAME);
    printf(" %6zu %12.6f %12.6f", rows, predicted, measured);
    if (measured > 0)
        printf(" %8.3f", predicted / measured);
    putchar('\n');
}

static void print_all(trace *x, pair *all, size_t n)
{
    const dt_plan *p = x->t->plan;
    size_t missing = 0;
    printf("program '%s', %" PRId64 " samples, run %zu time%s in %s; medians\n\n", p->program,
        x->samples, x->n_whole, x->n_whole == 1 ? "" : "s", x->path);
    printf("%-*s %6s %10s s %12s %8s\n", NAME, "", "rows", dt_costs_said(x->t->costs), "measured s",
        "ratio");
    for (int sort = 0; sort < SORT_WAIT; sort++) {
        pair sum = {0};
        for (size_t i = 0; i < n; i++)
            if (sort_of(&p->row[all[i].row]) == (row_sort)sort && all[i].measured >= 0) {
                sum.row++;
                sum.predicted += all[i].predicted;
                sum.measured += all[i].measured;
            }
        if (sum.row > 0)
            put_line(sort_name[sort], sum.row, sum.predicted, sum.measured);
    }
    qsort(x->whole, x->n_whole, sizeof *x->whole, dt_order_f64);
    put_line("all, from begin to end", n, x->t->time->seconds,
        (x->whole[x->n_whole / 2] + x->whole[(x->n_whole - 1) / 2]) / 2);
    for (size_t i = 0; i < n; i++)
        missing += all[i].measured < 0;
    if (missing > 0)
        printf("%zu row%s not in the trace\n", missing, missing == 1 ? " is" : "s are");
    qsort(all, n, sizeof *all, worst_first);
    printf("\nthose that differ most\n");
    for (size_t i = 0; i < n && i < WORST && differs(&all[i]) > 0; i++)
        put_line(name_of(p, &p->row[all[i].row]), all[i].row, all[i].predicted, all[i].measured);
}

static dt_status compare(trace *x, dt_err *err)
{
    pair *all = dt_alloc(x->t->plan->n_row + 1, sizeof *all);
    if (all == NULL)
        return DT_FAIL(err, DT_E_NOMEM, "no memory for a trace");
    qsort(x->of, x->n, sizeof *x->of, by_row);
    print_all(x, all, pair_up(x, all));
    dt_free(all);
    return DT_OK;
}

static dt_status read_trace(trace *x, dt_err *err)
{
    char *text = NULL;
    size_t bytes = 0;
    DT_CHECK(dt_read_file(&text, &bytes, x->path, MOST_BYTES, DT_E_DATA, err));
    dt_status st = strlen(text) == bytes
                       ? DT_OK
                       : DT_FAIL(err, DT_E_DATA, "%s: a NUL byte is in it: no trace", x->path);
    if (st == DT_OK)
        st = read_lines(x, text, err);
    dt_free(text);
    return st;
}

static void trace_free(trace *x)
{
    dt_free(x->of);
    dt_free(x->whole);
}

dt_status dti_plan_against(const dti_plan_time *t, int64_t samples, const char *path, dt_err *err)
{
    trace x = {.t = t, .path = path, .samples = samples, .line = 1, .last = -1};
    dt_status st = read_trace(&x, err);
    if (st == DT_OK)
        st = compare(&x, err);
    trace_free(&x);
    return st;
}

/* ---- one time that it ran ---- */

/* The time whose seconds are the median; the first of several. */
static size_t usual_run(const trace *x, double *sorted)
{
    memcpy(sorted, x->whole, x->n_whole * sizeof *sorted);
    qsort(sorted, x->n_whole, sizeof *sorted, dt_order_f64);
    const double median = sorted[(x->n_whole - 1) / 2];
    size_t run = 0;
    while (run + 1 < x->n_whole && (x->whole[run] < median || x->whole[run] > median))
        run++;
    return run;
}

/* Its rows: samples stand as they were read, and a row that comes no later than the one before it
 * begins another time. */
static void take_run(const trace *x, size_t run, dt_timeline *to)
{
    size_t at = 0, from, now = 0;
    double first = HUGE_VAL;
    for (from = 0; now < run && from < x->n; now++)
        for (from++; from < x->n && x->of[from].row > x->of[from - 1].row;)
            from++;
    for (at = from; at < x->n && (at == from || x->of[at].row > x->of[at - 1].row); at++)
        first = fmin(first, x->of[at].begin);
    for (size_t i = from; i < at; i++) {
        const sample *s = &x->of[i];
        to->begin[s->row] = s->begin - first;
        to->end[s->row] = s->begin - first + s->seconds;
        to->seconds = fmax(to->seconds, to->end[s->row]);
    }
}

dt_status dti_plan_measured(
    const dt_plan *p, int64_t samples, const char *path, dt_timeline *out, dt_err *err)
{
    const dti_plan_time t = {.plan = p};
    trace x = {.t = &t, .path = path, .samples = samples, .line = 1, .last = -1};
    *out = (dt_timeline){.n = p->n_row,
        .begin = dt_alloc(p->n_row + 1, sizeof *out->begin),
        .end = dt_alloc(p->n_row + 1, sizeof *out->end),
        .source = dt_alloc(p->n_row + 1, sizeof *out->source)};
    dt_status st = out->begin != NULL && out->end != NULL && out->source != NULL
                       ? read_trace(&x, err)
                       : DT_FAIL(err, DT_E_NOMEM, "no memory for a trace");
    double *sorted = st == DT_OK ? dt_alloc(x.n_whole, sizeof *sorted) : NULL;
    if (st == DT_OK && sorted == NULL)
        st = DT_FAIL(err, DT_E_NOMEM, "no memory for a trace");
    if (st == DT_OK)
        take_run(&x, usual_run(&x, sorted), out);
    dt_free(sorted);
    trace_free(&x);
    return st;
}
