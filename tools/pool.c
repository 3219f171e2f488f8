/* dnntrain pool: how well the pools place the intervals of a file. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/alloc.h"
#include "engine/base/clock.h"
#include "engine/config/nearest.h"
#include "engine/config/options.h"
#include "memory/pools/pool_file.h"
#include "tools/args.h"
#include "session/human.h"
#include "tools/terminal.h"

enum { PICTURE_ROWS = 16 };

typedef struct placing {
    const dt_pool_desc *pool;
    dt_interval *v;
    uint64_t peak;
    double seconds;
} placing;

static dt_status place(placing *p, const dt_interval *v, size_t n, dt_err *err)
{
    p->v = dt_alloc(n, sizeof *v);
    if (p->v == NULL)
        return DT_FAIL(err, DT_E_NOMEM, "no memory for %zu intervals", n);
    if (n > 0)
        memcpy(p->v, v, n * sizeof *v);
    const double start = dt_seconds();
    DT_TRY(err, p->pool->place(p->v, n, &p->peak, err), "while pool %s placed the intervals",
        p->pool->name);
    p->seconds = dt_seconds() - start;
    return DT_OK;
}

/* Pools of different shade lie side by side, so that neighbours can be told apart. */
static const char *shade(int64_t interval)
{
    static const char *const blocks[] = {"░", "▒", "▓", "█"};
    static const char *const plain[] = {"o", "x", "+", "#"};
    if (interval < 0)
        return " ";
    return dti_term_unicode() ? blocks[interval % 4] : plain[interval % 4];
}

/* The interval whose bytes hold @at at instant @when, or -1. */
static int64_t holder(const placing *p, size_t n, double when, double at)
{
    for (size_t i = 0; i < n; i++) {
        const dt_interval *v = &p->v[i];
        if ((double)v->lower <= when && when < (double)v->upper && (double)v->off <= at &&
            at < (double)v->off + (double)v->bytes)
            return (int64_t)i;
    }
    return -1;
}

/* Bytes upwards, time to the right; each cell shows who holds its middle. */
static void picture(const placing *p, size_t n)
{
    const int columns = dti_term_width() - 4;
    char peak[DT_HUMAN_BYTES];
    int64_t from = INT64_MAX, to = INT64_MIN;
    for (size_t i = 0; i < n; i++) {
        from = p->v[i].lower < from ? p->v[i].lower : from;
        to = p->v[i].upper > to ? p->v[i].upper : to;
    }
    if (n == 0 || p->peak == 0)
        return;
    printf("\n  %s, %s bytes high, time %" PRId64 " to %" PRId64 "\n", p->pool->name,
        dt_human_count(peak, p->peak), from, to);
    for (int y = PICTURE_ROWS - 1; y >= 0; y--) {
        fputs(dti_term_unicode() ? "  │" : "  |", stdout);
        for (int x = 0; x < columns; x++) {
            const double when = (double)from + ((double)to - (double)from) * (x + 0.5) / columns;
            fputs(shade(holder(p, n, when, (double)p->peak * (y + 0.5) / PICTURE_ROWS)), stdout);
        }
        putchar('\n');
    }
}

static void table(const placing *p, size_t n_pool, size_t n, uint64_t bound)
{
    char text[DT_HUMAN_BYTES];
    printf("%zu intervals, lower bound %s bytes\n\n", n, dt_human_count(text, bound));
    printf("%-12s %18s %10s %10s\n", "pool", "peak bytes", "to bound", "seconds");
    for (size_t i = 0; i < n_pool; i++)
        printf("%-12s %18s %10.6f %10.4f\n", p[i].pool->name, dt_human_count(text, p[i].peak),
            bound > 0 ? (double)p[i].peak / (double)bound : 1.0, p[i].seconds);
}

static void csv(const placing *p, size_t n)
{
    printf("id,lower,upper,size,offset\n");
    for (size_t i = 0; i < n; i++)
        printf("%" PRId64 ",%" PRId64 ",%" PRId64 ",%" PRIu64 ",%" PRIu64 "\n", p->v[i].id,
            p->v[i].lower, p->v[i].upper, p->v[i].bytes, p->v[i].off);
}

/* The pools asked for: one by name, or all. */
static dt_status choose(const char *name, placing *p, size_t *n, dt_err *err)
{
    size_t n_all;
    const dt_pool_desc *const *all = dt_pool_all(&n_all);
    const char **names = dt_alloc(n_all + 1, sizeof *names);
    if (names == NULL)
        return DT_FAIL(err, DT_E_NOMEM, "no memory for the pools");
    for (size_t i = 0; i < n_all; i++) {
        names[i] = all[i]->name;
        if (name == NULL || strcmp(name, names[i]) == 0)
            p[(*n)++].pool = all[i];
    }
    const char *near = *n == 0 ? dt_nearest(name, names) : NULL;
    dt_free(names);
    if (*n > 0)
        return DT_OK;
    if (near != NULL)
        return DT_FAIL(err, DT_E_CONFIG, "there is no pool '%s'; did you mean '%s'?", name, near);
    return DT_FAIL(
        err, DT_E_CONFIG, "there is no pool '%s'; `dnntrain list pools` names them", name);
}

static dt_status place_all(
    placing *p, size_t n_pool, const dt_interval *v, size_t n, bool as_csv, dt_err *err)
{
    size_t best = 0;
    for (size_t i = 0; i < n_pool; i++) {
        DT_CHECK(place(&p[i], v, n, err));
        best = p[i].peak < p[best].peak ? i : best;
    }
    if (as_csv) {
        if (n_pool > 1)
            fprintf(stderr, "dnntrain: offsets by pool %s, the lowest\n", p[best].pool->name);
        csv(&p[best], n);
        return DT_OK;
    }
    table(p, n_pool, n, dt_pool_lower_bound(v, n));
    if (dti_terminal_of(stdout).tty)
        picture(&p[best], n);
    return DT_OK;
}

static dt_status run_on(const char *path, const char *name, bool as_csv, dt_err *err)
{
    size_t n_all, n_pool = 0, n = 0;
    dt_interval *v = NULL;
    (void)dt_pool_all(&n_all);
    placing *p = dt_alloc(n_all, sizeof *p);
    dt_status st = p != NULL ? choose(name, p, &n_pool, err)
                             : DT_FAIL(err, DT_E_NOMEM, "no memory for the pools");
    if (st == DT_OK)
        st = dti_cli_check_file(path, err);
    if (st == DT_OK)
        st = dt_pool_file_read(&v, &n, path, err);
    if (st == DT_OK)
        st = place_all(p, n_pool, v, n, as_csv, err);
    for (size_t i = 0; p != NULL && i < n_pool; i++)
        dt_free(p[i].v);
    dt_free(p);
    dt_free(v);
    return st;
}

static dt_status pool(const dt_command_args *a, dt_err *err)
{
    bool as_csv = false;
    const char *name = NULL;
    const dt_flag flags[] = {
        {"--pool", "NAME", "only this pool", NULL, &name},
        {"--csv", NULL, "the offsets of the lowest, or of --pool, as id,lower,upper,size,offset",
            &as_csv, NULL},
        {NULL, NULL, NULL, NULL, NULL},
    };
    dt_cli cli;
    dt_status st = dti_cli_init(&cli, &dt_command_pool, a, flags, false, 1, err);
    if (st == DT_OK && !cli.help)
        st = cli.n_word == 1 ? run_on(cli.word[0], name, as_csv, err)
                             : DT_FAIL(err, DT_E_CONFIG, "name a file of intervals; usage: %s",
                                   dt_command_pool.usage);
    dti_cli_deinit(&cli);
    return st;
}

const dt_command dt_command_pool = {
    .name = "pool",
    .usage = "dnntrain pool FILE.csv [--pool NAME] [--csv]",
    .summary = "place the intervals of a file (id,lower,upper,size) and show peak and lower bound",
    .run = pool,
};
