/* dnntrain pool: how well the pools place the intervals of a file. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/alloc.h"
#include "engine/base/clock.h"
#include "engine/config/nearest.h"
#include "engine/config/options.h"
#include "engine/base/io.h"
#include "memory/pools/pool_file.h"
#include "memory/pools/pool_random.h"
#include "session/human.h"
#include "tools/args.h"
#include "tools/columns.h"
#include "tools/json_out.h"
#include "tools/patience.h"
#include "tools/terminal.h"

enum { PICTURE_ROWS = 16, MOST_PICTURED = 20000, MOST_RANDOM = 100000000, WHY = 160 };

typedef struct pool_flags {
    bool csv, json, compare;
    const char *name, *nodes, *max_bytes, *random, *seed;
} pool_flags;

/* @refused: why the pool cannot place them; "": it has */
typedef struct placing {
    const dt_pool_desc *pool;
    char refused[WHY];
    dt_interval *v;
    uint64_t peak, reserved;
    dt_pool_effort effort;
    double seconds;
} placing;

static dt_status place_by(placing *p, size_t n, dt_err *err)
{
    if (p->pool->reserve != NULL)
        return p->pool->reserve(p->v, n, &p->peak, &p->reserved, err);
    const dt_status st = p->pool->search != NULL
                             ? p->pool->search(p->v, n, &p->effort, &p->peak, err)
                             : p->pool->place(p->v, n, &p->peak, err);
    p->reserved = p->peak;
    return st;
}

static dt_status place(placing *p, const dt_interval *v, size_t n, dt_err *err)
{
    p->v = dt_alloc(n, sizeof *v);
    if (p->v == NULL)
        return DT_FAIL(err, DT_E_NOMEM, "no memory for %zu intervals", n);
    if (n > 0)
        memcpy(p->v, v, n * sizeof *v);
    const double start = dt_seconds();
    dt_err why = {0};
    const dt_status st = place_by(p, n, &why);
    p->seconds = dt_seconds() - start;
    const int first = (int)strcspn(why.text, "\n");
    if (st == DT_E_BUDGET) { /* what rounds up passes 2^64 bytes sooner than others */
        snprintf(p->refused, sizeof p->refused, "%.*s", first, why.text);
        return DT_OK;
    }
    return st == DT_OK ? st : DT_FAIL(err, st, "%.*s", first, why.text);
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

static double to_bound(uint64_t bytes, uint64_t bound)
{
    return bound > 0 ? (double)bytes / (double)bound : 1.0;
}

enum { NAME = 12, PEAK = 0, TO_BOUND, HELD, OVERHEAD, SECONDS, NODES, COLUMNS };

static void line(const placing *p, uint64_t bound, const dti_table_column *column)
{
    char cell[COLUMNS][DT_HUMAN_BYTES] = {""};
    if (p->refused[0] != '\0') {
        const int at = printf("%-*s ", NAME, p->pool->name);
        dti_term_wrap(stdout, at, at, p->refused);
        return;
    }
    dt_human_count(cell[PEAK], p->peak);
    snprintf(cell[TO_BOUND], DT_HUMAN_BYTES, "%.6f", to_bound(p->peak, bound));
    dt_human_count(cell[HELD], p->reserved);
    snprintf(
        cell[OVERHEAD], DT_HUMAN_BYTES, "%.2f %%", 100.0 * (to_bound(p->reserved, bound) - 1.0));
    snprintf(cell[SECONDS], DT_HUMAN_BYTES, "%.4f", p->seconds);
    dt_human_count(cell[NODES], p->effort.nodes);
    const int used = p->pool->search != NULL ? COLUMNS : NODES;
    printf("%-*s", NAME, p->pool->name);
    for (int i = 0; i < used; i++)
        dti_column(&column[i], cell[i]);
    putchar('\n');
}

/* @compare: what each would hold, and how much of that nobody could use; else how the search went.
 */
static void table(const placing *p, size_t n_pool, size_t n, uint64_t bound, bool compare)
{
    dti_table_column column[COLUMNS] = {[PEAK] = {"peak bytes", 17, 0, NULL, false},
        [TO_BOUND] = {"to bound", 10, 1, NULL, false},
        [HELD] = {"held bytes", 17, compare ? 3 : -1, NULL, false},
        [OVERHEAD] = {"overhead", 10, compare ? 2 : -1, NULL, false},
        [SECONDS] = {"seconds", 9, 4, NULL, false},
        [NODES] = {"nodes", 14, compare ? -1 : 5, NULL, false}};
    char text[DT_HUMAN_BYTES];
    dti_columns_fit(column, COLUMNS, NAME);
    printf("%zu intervals, lower bound %s bytes\n\n", n, dt_human_count(text, bound));
    printf("%-*s", NAME, "pool");
    dti_columns_head(column, COLUMNS);
    for (size_t i = 0; i < n_pool; i++)
        line(&p[i], bound, column);
    dti_columns_left_out(column, COLUMNS, NAME);
    for (size_t i = 0; i < n_pool && !compare; i++)
        if (p[i].effort.optimal)
            printf("%s: no lower peak is possible\n", p[i].pool->name);
}

/* nodes and optimal: of a pool that searches; the others know only that the bound cannot be beaten.
 */
static void json_of(dt_json *j, const placing *p, size_t n, uint64_t bound)
{
    dt_json_text(j, "pool", p->pool->name);
    dt_json_whole(j, "intervals", n);
    if (p->refused[0] != '\0') {
        dt_json_text(j, "refused", p->refused);
        return;
    }
    dt_json_whole(j, "peak", p->peak);
    dt_json_whole(j, "bound", bound);
    dt_json_whole(j, "reserved", p->reserved);
    dt_json_real(j, "overhead", to_bound(p->reserved, bound) - 1.0, 6);
    dt_json_real(j, "seconds", p->seconds, 6);
    dt_json_whole(j, "nodes", p->effort.nodes);
    dt_json_flag(j, "optimal", p->effort.optimal || p->peak == bound);
}

/* One pool is an object, several are its member "pools". */
static dt_status json(const placing *p, size_t n_pool, size_t n, uint64_t bound, dt_err *err)
{
    dt_json j = dt_json_begin();
    if (n_pool == 1) {
        json_of(&j, p, n, bound);
    } else {
        dt_json list = dt_json_list(&j, "pools");
        for (size_t i = 0; i < n_pool; i++) {
            dt_json one = dt_json_element(&list);
            json_of(&one, &p[i], n, bound);
            dt_json_leave(&list, &one);
        }
        dt_json_leave(&j, &list);
    }
    return dti_json_out(&j, err);
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
    char what[128];
    for (size_t i = 0; i < n_all; i++)
        if (name == NULL || strcmp(name, all[i]->name) == 0)
            p[(*n)++].pool = all[i];
    snprintf(what, sizeof what, "there is no pool '%.80s'", name != NULL ? name : "");
    return *n > 0 ? DT_OK : dt_unknown(what, name, dt_pool_names(), err);
}

/* A flag's number, or what stands for it where it is not given. */
static dt_status whole(
    const char *flag, const char *text, int64_t most, uint64_t otherwise, uint64_t *to, dt_err *err)
{
    int64_t value;
    *to = otherwise;
    if (text == NULL)
        return DT_OK;
    if (!dt_parse_i64(text, &value) || value < 1 || value > most)
        return DT_FAIL(
            err, DT_E_CONFIG, "%s %s: must be a whole number, 1..%" PRId64, flag, text, most);
    *to = (uint64_t)value;
    return DT_OK;
}

static dt_status read_nodes(placing *p, size_t n, const pool_flags *f, dt_err *err)
{
    uint64_t nodes;
    bool searches = false;
    DT_CHECK(whole("--nodes", f->nodes, INT64_MAX, 0, &nodes, err));
    for (size_t i = 0; i < n; i++) {
        p[i].effort.max_nodes = nodes;
        searches = searches || p[i].pool->search != NULL;
    }
    if (f->nodes != NULL && !searches)
        return DT_FAIL(err, DT_E_CONFIG,
            "--nodes is for a pool that searches, and %s does not; leave it out", p[0].pool->name);
    return DT_OK;
}

/* *best: with the lowest peak. DT_E_BUDGET where no pool can place them. */
static dt_status try_all(
    placing *p, size_t n_pool, const dt_interval *v, size_t n, size_t *best, dt_err *err)
{
    *best = n_pool;
    for (size_t i = 0; i < n_pool; i++) {
        dti_patience_begin("pool %s places %zu intervals ...", p[i].pool->name, n);
        const dt_status st = place(&p[i], v, n, err);
        dti_patience_end();
        DT_CHECK(st);
        if (p[i].refused[0] == '\0' && (*best == n_pool || p[i].peak < p[*best].peak))
            *best = i;
    }
    return *best < n_pool ? DT_OK : DT_FAIL(err, DT_E_BUDGET, "%s", p[0].refused);
}

static dt_status place_all(
    placing *p, size_t n_pool, const dt_interval *v, size_t n, const pool_flags *f, dt_err *err)
{
    size_t best;
    DT_CHECK(try_all(p, n_pool, v, n, &best, err));
    if (f->csv) {
        if (n_pool > 1)
            dti_term_say("offsets by pool %s, the lowest", p[best].pool->name);
        csv(&p[best], n);
        return DT_OK;
    }
    const uint64_t bound = dt_pool_lower_bound(v, n);
    if (f->json)
        return json(p, n_pool, n, bound, err);
    table(p, n_pool, n, bound, f->compare);
    if (!f->compare && dti_terminal_of(stdout).tty && n <= MOST_PICTURED)
        picture(&p[best], n);
    return DT_OK;
}

static dt_status read_file(
    dt_interval **v, size_t *n, const char *path, const pool_flags *f, dt_err *err)
{
    uint64_t most;
    int fd;
    off_t bytes;
    DT_CHECK(whole("--max-bytes", f->max_bytes, INT64_MAX, DT_POOL_FILE_BYTES, &most, err));
    DT_CHECK(dti_cli_check_data(path, "a list of intervals", err));
    DT_CHECK(dt_open_regular(&fd, &bytes, path, DT_E_DATA, err));
    (void)dt_close(fd);
    if ((uint64_t)bytes > most)
        return DT_FAIL(err, DT_E_DATA,
            "'%s' has %" PRIu64 " bytes; at most %" PRIu64 " are read: --max-bytes %" PRIu64
            " allows them",
            path, (uint64_t)bytes, most, (uint64_t)bytes);
    return dt_pool_file_read(v, n, path, most, err);
}

static dt_status make_random(dt_interval **v, size_t *n, const pool_flags *f, dt_err *err)
{
    uint64_t count, seed;
    DT_CHECK(whole("--random", f->random, MOST_RANDOM, 0, &count, err));
    DT_CHECK(whole("--seed", f->seed, INT64_MAX, 1, &seed, err));
    *n = count;
    return dt_pool_random(v, *n, seed, err);
}

static dt_status run_on(const char *path, const pool_flags *f, dt_err *err)
{
    size_t n_all, n_pool = 0, n = 0;
    dt_interval *v = NULL;
    (void)dt_pool_all(&n_all);
    placing *p = dt_alloc(n_all, sizeof *p);
    dt_status st = p != NULL ? choose(f->name, p, &n_pool, err)
                             : DT_FAIL(err, DT_E_NOMEM, "no memory for the pools");
    if (st == DT_OK)
        st = read_nodes(p, n_pool, f, err);
    if (st == DT_OK)
        st = path != NULL ? read_file(&v, &n, path, f, err) : make_random(&v, &n, f, err);
    if (st == DT_OK)
        st = place_all(p, n_pool, v, n, f, err);
    for (size_t i = 0; p != NULL && i < n_pool; i++)
        dt_free(p[i].v);
    dt_free(p);
    dt_free(v);
    return st;
}

static dt_status check_flags(const dti_cli *cli, const pool_flags *f, dt_err *err)
{
    if (cli->n_word > 0 && f->random != NULL)
        return DT_FAIL(
            err, DT_E_CONFIG, "--random makes up intervals; it goes without '%s'", cli->word[0]);
    if (cli->n_word == 0 && f->random == NULL)
        return DT_FAIL(
            err, DT_E_CONFIG, "name a file of intervals; usage: %s", dt_command_pool.usage);
    if (f->csv && f->json)
        return DT_FAIL(err, DT_E_CONFIG, "--csv and --json exclude each other; give one of them");
    if (f->compare && (f->csv || f->name != NULL))
        return DT_FAIL(
            err, DT_E_CONFIG, "--compare is of all pools; it goes without --pool and --csv");
    if (f->seed != NULL && f->random == NULL)
        return DT_FAIL(err, DT_E_CONFIG, "--seed goes with --random");
    if (f->max_bytes != NULL && f->random != NULL)
        return DT_FAIL(err, DT_E_CONFIG, "--max-bytes is of a file; it goes without --random");
    return DT_OK;
}

static dt_status pool(const dti_command_args *a, dt_err *err)
{
    pool_flags f = {0};
    const dti_flag flags[] = {
        {"--pool", "NAME", "only this pool", NULL, &f.name},
        {"--nodes", "N", "let a pool that searches look at so many partial placements", NULL,
            &f.nodes},
        {"--compare", NULL, "what each pool would hold, and its overhead over the lower bound",
            &f.compare, NULL},
        {"--csv", NULL, "the offsets of the lowest, or of --pool, as id,lower,upper,size,offset",
            &f.csv, NULL},
        {"--json", NULL, "peak, bound, seconds and nodes as one object", &f.json, NULL},
        {"--max-bytes", "N", "read a file of up to N bytes; 16 MiB unless given", NULL,
            &f.max_bytes},
        {"--random", "N", "no file: N intervals made up, lives and sizes over all magnitudes", NULL,
            &f.random},
        {"--seed", "N", "of --random; 1 unless given", NULL, &f.seed},
        {NULL, NULL, NULL, NULL, NULL},
    };
    dti_cli cli;
    dt_status st = dti_cli_init(&cli, &dt_command_pool, a, flags, false, 1, err);
    if (st == DT_OK && !cli.help) {
        st = check_flags(&cli, &f, err);
        if (st == DT_OK)
            st = run_on(cli.n_word == 1 ? cli.word[0] : NULL, &f, err);
    }
    dti_cli_deinit(&cli);
    return st;
}

const dti_command dt_command_pool = {
    .name = "pool",
    .usage = "dnntrain pool FILE.csv|--random N [--pool NAME|--compare] [--csv|--json]",
    .summary = "place the intervals of a file (id,lower,upper,size) and show peak and lower bound",
    .run = pool,
};
