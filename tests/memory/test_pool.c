/* Pools: nothing overlaps, peaks are not below the bound, hard cases are as good as they were. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/alloc.h"
#include "memory/pools/pool.h"
#include "memory/pools/pool_file.h"
#include "memory/pools/pool_many.h"
#include "memory/pools/pool_random.h"
#include "memory/pools/pool_repair.h"
#include "tests/fixture/check.h"

static const char *const pools[] = {
#define DT_POOL(name) #name,
#include "memory/pools/pools.def"
#undef DT_POOL
};

/* ---- what a placement must be, told without the pools' own code ---- */

static uint64_t rounded(const dt_interval *x)
{
    return (x->bytes + x->align - 1) / x->align * x->align;
}

static int by_begin(const void *a, const void *b)
{
    const dt_interval *x = *(const dt_interval *const *)a, *y = *(const dt_interval *const *)b;
    return (x->lower > y->lower) - (x->lower < y->lower);
}

static void assert_apart(const dt_interval *v, const dt_interval *a, const dt_interval *b)
{
    if (a->off < b->off + rounded(b) && b->off < a->off + rounded(a))
        fail_msg("intervals %zu and %zu share time and bytes", (size_t)(a - v), (size_t)(b - v));
}

/* Each against those that are there when it begins: of tens of thousands, all pairs take seconds.
 */
static void assert_placed(const dt_interval *v, size_t n, uint64_t peak)
{
    uint64_t end = 0;
    size_t all = 0, there = 0;
    const dt_interval **at = dt_alloc(2 * n + 1, sizeof *at), **now = at + n;
    assert_non_null(at);
    for (size_t i = 0; i < n; i++) {
        if (v[i].bytes == 0) {
            assert_int_equal(v[i].off, 0);
            continue;
        }
        assert_int_equal(v[i].off % v[i].align, 0);
        end = v[i].off + rounded(&v[i]) > end ? v[i].off + rounded(&v[i]) : end;
        at[all++] = &v[i];
    }
    qsort(at, all, sizeof *at, by_begin);
    for (size_t i = 0; i < all; i++) {
        size_t stay = 0;
        for (size_t k = 0; k < there; k++)
            if (now[k]->upper > at[i]->lower) {
                assert_apart(v, now[k], at[i]);
                now[stay++] = now[k];
            }
        now[stay++] = at[i];
        there = stay;
    }
    dt_free(at);
    assert_int_equal(end, peak);
}

static uint64_t most_live(const dt_interval *v, size_t n)
{
    uint64_t most = 0;
    for (size_t i = 0; i < n; i++) {
        uint64_t sum = 0;
        for (size_t j = 0; j < n; j++)
            if (v[j].lower <= v[i].lower && v[i].lower < v[j].upper)
                sum += rounded(&v[j]);
        most = sum > most ? sum : most;
    }
    return most;
}

/* Place, check, place again from spoilt answers and compare; the peak. */
static uint64_t place_checked(const char *pool, dt_interval *v, size_t n)
{
    static dt_err err;
    uint64_t peak = 1, again = 2;
    memset(&err, 0, sizeof err);
    assert_ok(dt_pool_find(pool)->place(v, n, &peak, &err), &err);
    assert_placed(v, n, peak);
    dt_interval *w = dt_alloc(n, sizeof *w);
    assert_non_null(w);
    if (n > 0)
        memcpy(w, v, n * sizeof *w);
    for (size_t i = 0; i < n; i++)
        w[i].off = 12345;
    assert_ok(dt_pool_find(pool)->place(w, n, &again, &err), &err);
    assert_int_equal(peak, again);
    if (n > 0)
        assert_memory_equal(v, w, n * sizeof *v);
    dt_free(w);
    return peak;
}

static double ratio(uint64_t peak, uint64_t bound)
{
    return (double)peak / (double)bound;
}

/* ---- inputs ---- */

static uint64_t random_state;

static uint64_t draw(uint64_t n)
{
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (random_state >> 33) % n;
}

static void fill_random(dt_interval *v, size_t n)
{
    const uint64_t instants = 1 + draw(n), largest = draw(2) == 0 ? 8 : 5000;
    const unsigned aligns = draw(2) == 0 ? 1 : 8;
    memset(v, 0, n * sizeof *v);
    for (size_t i = 0; i < n; i++) {
        v[i].lower = (int64_t)draw(instants) - 3;
        v[i].upper = v[i].lower + 1 + (int64_t)draw(draw(3) == 0 ? instants : 3);
        v[i].bytes = draw(largest + 1);
        v[i].align = (uint64_t)1 << draw(aligns);
    }
}

/* A rectangle of time and bytes cut at random, each piece across its longer side: the bound can be
 * met, and leaves no byte free at any time. */
typedef struct piece {
    int64_t t0, t1;
    uint64_t b0, b1;
} piece;

static size_t fill_cut(dt_interval *v, size_t n)
{
    piece p[512] = {{0, 1024, 0, 1024}};
    size_t m = 1;
    assert_true(n <= DT_COUNT(p));
    for (size_t tries = 0; m < n && tries < 100 * n; tries++) {
        piece *x = &p[draw(m)];
        const uint64_t time = (uint64_t)(x->t1 - x->t0), bytes = x->b1 - x->b0;
        if (time < 4 || bytes < 4)
            continue;
        p[m] = *x;
        if (draw(2) == 0)
            p[m++].t0 = x->t1 = x->t0 + 1 + (int64_t)draw(time - 1);
        else
            p[m++].b0 = x->b1 = x->b0 + 1 + draw(bytes - 1);
    }
    for (size_t i = 0; i < m; i++)
        v[i] = (dt_interval){
            .lower = p[i].t0, .upper = p[i].t1, .bytes = (p[i].b1 - p[i].b0) * 1024, .align = 1};
    return m;
}

/* One step of a chain of bottleneck blocks like ResNet-152: convolution, batch norm and ReLU three
 * times, then the sum. Time counts ops: forward upwards, backward mirrored. */
typedef enum keeping { KEEP, OFFLOAD, RECOMPUTE } keeping;

typedef struct chain {
    dt_interval *v;
    size_t n, cap;
    int64_t end;
} chain;

static void add(chain *c, int64_t lower, int64_t upper, uint64_t bytes)
{
    assert_true(c->n < c->cap);
    c->v[c->n++] = (dt_interval){.lower = lower, .upper = upper, .bytes = bytes, .align = 64};
}

/* What forward op f makes and backward reads again. */
static void add_kept(chain *c, int64_t f, uint64_t bytes, keeping how)
{
    const int64_t b = c->end - f;
    if (how == KEEP) {
        add(c, f, b, bytes);
    } else if (how == OFFLOAD) {
        add(c, f, f + 3, bytes);
        add(c, b - 4, b, bytes);
    } else if (f / 30 % 2 == 0) { /* every other segment drops all but its ends */
        add(c, f, f + 2, bytes);
        add(c, c->end - (f / 30 + 1) * 30 + f % 30, b + 30, bytes);
    } else {
        add(c, f, b, bytes);
    }
}

static void add_convolution(
    chain *c, int64_t f, uint64_t in, uint64_t out, uint64_t weights, keeping how)
{
    const int64_t b = c->end - f;
    for (int i = 0; i < 3; i++)
        add(c, 0, c->end + 10, weights); /* weights, gradient, momentum */
    add(c, f, f + 1, weights);           /* other layouts, forward and backward */
    add(c, b, b + 1, weights);
    add(c, f, f + 1, out / 8 + draw(out)); /* workspaces */
    add(c, b - 1, b, in / 4 + draw(in));
    add(c, b, b + 1, in / 4 + draw(in));
    add_kept(c, f, out, how); /* read by batch norm's backward */
    add(c, f + 1, b, 512);    /* its mean and inverse deviation */
    add(c, f + 1, b, 512);
    add_kept(c, f + 1, out, how); /* the ReLU's output */
    add(c, b - 2, b - 1, out);    /* gradients, ping-pong */
    add(c, b - 1, b + 1, out);
}

static void fill_chain(chain *c, int blocks, keeping how)
{
    int64_t f = 1;
    uint64_t bytes = 3211264, width = 64;
    c->end = (int64_t)blocks * 14 + 8;
    c->n = 0;
    add(c, 0, 2, bytes / 4);
    for (int k = 0; k < blocks; k++, f += 7) {
        if (k == blocks / 16 || k == blocks / 5 || k == blocks - blocks / 16) {
            bytes /= 2;
            width *= 2;
        }
        add_convolution(c, f, 4 * bytes, bytes, width * width * 16, how);
        add_convolution(c, f + 2, bytes, bytes, width * width * 36, how);
        add_convolution(c, f + 4, bytes, 4 * bytes, width * width * 16, how);
        add_kept(c, f + 6, 4 * bytes, how);
        add(c, c->end - f - 7, c->end - f, 4 * bytes); /* gradient of the skip */
    }
}

/* ---- tests ---- */

static void every_pool_is_found_by_name(void **state)
{
    (void)state;
    size_t n;
    const dt_pool_desc *const *all = dt_pool_all(&n);
    assert_int_equal(n, DT_COUNT(pools));
    for (size_t i = 0; i < n; i++) {
        assert_string_equal(all[i]->name, pools[i]);
        assert_ptr_equal(dt_pool_find(pools[i]), all[i]);
        assert_true(strlen(all[i]->summary) > 0);
    }
    assert_null(dt_pool_find("greed"));
}

/* Who names another pool gets that. */
static void greedy_alone_has_a_quick_pool(void **state)
{
    (void)state;
    for (size_t i = 0; i < DT_COUNT(pools); i++)
        assert_int_equal(dt_pool_find(pools[i])->quick != NULL, strcmp(pools[i], "greedy") == 0);
    assert_ptr_equal(dt_pool_find("greedy")->quick, dti_pool_quick());
}

static void nothing_takes_no_bytes(void **state)
{
    (void)state;
    assert_int_equal(dt_pool_lower_bound(NULL, 0), 0);
    dt_interval empty = {.lower = 5, .upper = 5};
    for (size_t p = 0; p < DT_COUNT(pools); p++) {
        assert_int_equal(place_checked(pools[p], NULL, 0), 0);
        uint64_t peak = 1;
        empty.off = 7;
        assert_ok(dt_pool_find(pools[p])->place(&empty, 1, &peak, NULL), NULL);
        assert_int_equal(peak, 0);
        assert_int_equal(empty.off, 0);
    }
}

static void half_open_neighbours_share_bytes(void **state)
{
    (void)state;
    dt_interval v[] = {{.lower = 0, .upper = 4, .bytes = 10, .align = 1},
        {.lower = 4, .upper = 9, .bytes = 10, .align = 1}};
    for (size_t p = 0; p < DT_COUNT(pools); p++)
        assert_int_equal(place_checked(pools[p], v, 2), 10);
}

static void best_fit_takes_the_tightest_hole(void **state)
{
    (void)state;
    /* at 2 holes of 30, 10 and 10 bytes open between blocks that stay */
    dt_interval v[] = {{.lower = 0, .upper = 2, .bytes = 30, .align = 1},
        {.lower = 0, .upper = 9, .bytes = 1, .align = 1},
        {.lower = 0, .upper = 2, .bytes = 10, .align = 1},
        {.lower = 0, .upper = 9, .bytes = 1, .align = 1},
        {.lower = 0, .upper = 2, .bytes = 10, .align = 1},
        {.lower = 0, .upper = 9, .bytes = 1, .align = 1},
        {.lower = 2, .upper = 9, .bytes = 10, .align = 1},
        {.lower = 3, .upper = 9, .bytes = 40, .align = 1}};
    assert_int_equal(place_checked("best_fit", v, DT_COUNT(v)), 93);
    assert_int_equal(v[6].off, 31);
    assert_int_equal(v[7].off, 53);
}

static void best_fit_grows_from_a_free_end(void **state)
{
    (void)state;
    dt_interval v[] = {{.lower = 0, .upper = 9, .bytes = 5, .align = 1},
        {.lower = 0, .upper = 2, .bytes = 10, .align = 1},
        {.lower = 2, .upper = 9, .bytes = 12, .align = 4}};
    assert_int_equal(place_checked("best_fit", v, DT_COUNT(v)), 20);
    assert_int_equal(v[2].off, 8);
}

static void best_fit_sees_the_free_end_as_a_hole(void **state)
{
    (void)state;
    /* at 2 a hole of 20 bytes lies below, 12 bytes are free at the end */
    dt_interval v[] = {{.lower = 0, .upper = 2, .bytes = 20, .align = 1},
        {.lower = 0, .upper = 9, .bytes = 1, .align = 1},
        {.lower = 0, .upper = 2, .bytes = 12, .align = 1},
        {.lower = 2, .upper = 9, .bytes = 10, .align = 1}};
    assert_int_equal(place_checked("best_fit", v, DT_COUNT(v)), 33);
    assert_int_equal(v[3].off, 21);
}

static void best_fit_uses_what_alignment_skips(void **state)
{
    (void)state;
    dt_interval v[] = {{.lower = 0, .upper = 9, .bytes = 1, .align = 1},
        {.lower = 1, .upper = 9, .bytes = 64, .align = 64},
        {.lower = 2, .upper = 9, .bytes = 63, .align = 1}};
    assert_int_equal(place_checked("best_fit", v, DT_COUNT(v)), 128);
    assert_int_equal(v[2].off, 1);
}

static void greedy_fits_where_time_order_overflows(void **state)
{
    (void)state;
    const uint64_t half = (uint64_t)1 << 63;
    dt_interval v[] = {{.lower = 0, .upper = 9, .bytes = half / 2, .align = 1},
        {.lower = 1, .upper = 9, .bytes = half, .align = half}};
    uint64_t peak;
    assert_int_equal(dt_pool_find("best_fit")->place(v, 2, &peak, NULL), DT_E_BUDGET);
    assert_int_equal(place_checked("greedy", v, 2), half + half / 2);
}

/* By the pool exact, with a limit on its nodes; twice, to see that it is the same. */
static uint64_t searched(dt_interval *v, size_t n, uint64_t nodes)
{
    static dt_err err;
    uint64_t peak[2];
    dt_pool_effort effort[2] = {{.max_nodes = nodes}, {.max_nodes = nodes}};
    for (int k = 0; k < 2; k++) {
        memset(&err, 0, sizeof err);
        for (size_t i = 0; i < n; i++)
            v[i].off = (uint64_t)k * 12345;
        assert_ok(dt_pool_find("exact")->search(v, n, &effort[k], &peak[k], &err), &err);
        assert_placed(v, n, peak[k]);
    }
    assert_int_equal(peak[0], peak[1]);
    assert_int_equal(effort[0].nodes, effort[1].nodes);
    assert_true(effort[0].nodes <= nodes);
    return peak[0];
}

static void random_cases_hold_for_every_pool(void **state)
{
    (void)state;
    dt_interval v[40];
    for (random_state = 1; random_state <= 2000; random_state++) {
        const uint64_t seed = random_state;
        const size_t n = 1 + draw(seed % 10 == 0 ? DT_COUNT(v) : 16);
        fill_random(v, n);
        const uint64_t bound = dt_pool_lower_bound(v, n);
        assert_int_equal(bound, most_live(v, n));
        const uint64_t online = place_checked("best_fit", v, n),
                       peak = place_checked("greedy", v, n), least = searched(v, n, 2000);
        assert_true(bound <= least && least <= peak && peak <= online);
        for (size_t p = 0; p < DT_COUNT(pools); p++)
            if (dt_pool_find(pools[p])->search == NULL)
                assert_true(place_checked(pools[p], v, n) >= bound);
        random_state = seed;
    }
}

/* What is far apart in time is looked up more coarsely, and its bound found by sorting. */
static void the_unit_of_time_changes_nothing(void **state)
{
    (void)state;
    enum { N = 400 };
    const int64_t unit = (int64_t)1 << 30;
    static const char *const by_order[] = {"greedy", "two_ended", "smartpool", "cntk_groups"};
    dt_interval v[N], w[N];
    dt_err err = {0};
    for (random_state = 1; random_state <= 40; random_state++) {
        const uint64_t seed = random_state;
        const size_t n = 1 + draw(N);
        fill_random(v, n);
        memcpy(w, v, sizeof w);
        for (size_t i = 0; i < n; i++) {
            w[i].lower = v[i].lower * unit - INT64_MAX / 2;
            w[i].upper = v[i].upper * unit - INT64_MAX / 2;
        }
        assert_int_equal(dt_pool_lower_bound(v, n), dt_pool_lower_bound(w, n));
        for (size_t p = 0; p < DT_COUNT(by_order); p++) {
            const dt_pool_desc *pool = dt_pool_find(by_order[p]);
            uint64_t here, there;
            assert_ok(pool->place(v, n, &here, &err), &err);
            assert_ok(pool->place(w, n, &there, &err), &err);
            assert_int_equal(here, there);
            for (size_t i = 0; i < n; i++)
                assert_int_equal(v[i].off, w[i].off);
        }
        random_state = seed;
    }
}

/* Lowest-offset placement over all orders finds the optimum: ordered by offset, an optimal
 * placement can only sink. */
static uint64_t optimum(dt_interval *v, size_t n, size_t placed, uint64_t peak, uint64_t best)
{
    if (placed == n || peak >= best)
        return peak < best ? peak : best;
    for (size_t i = placed; i < n; i++) {
        dt_interval x = v[i];
        v[i] = v[placed];
        x.off = 0;
        for (size_t j = 0; j < placed; j++) {
            const bool meets = x.lower < v[j].upper && v[j].lower < x.upper && v[j].bytes > 0 &&
                               x.off < v[j].off + rounded(&v[j]) && v[j].off < x.off + rounded(&x);
            if (meets) {
                x.off = (v[j].off + rounded(&v[j]) + x.align - 1) / x.align * x.align;
                j = SIZE_MAX;
            }
        }
        v[placed] = x;
        const uint64_t end = x.bytes > 0 ? x.off + rounded(&x) : 0;
        best = optimum(v, n, placed + 1, end > peak ? end : peak, best);
        v[placed] = v[i];
        v[i] = x;
    }
    return best;
}

static void the_search_finds_the_optimum_of_small_cases(void **state)
{
    (void)state;
    size_t better = 0, above_bound = 0;
    for (random_state = 1; random_state <= 4000; random_state++) {
        const uint64_t seed = random_state;
        static dt_err err;
        dt_interval v[7], w[7];
        const size_t n = 3 + draw(seed % 8 == 0 ? 5 : 4);
        fill_random(v, n);
        for (size_t i = 1; i < n; i++) /* some that are alike */
            if (draw(4) == 0)
                v[i] = v[i - 1];
        memcpy(w, v, sizeof w);
        const uint64_t best = optimum(w, n, 0, 0, UINT64_MAX);
        const uint64_t before = place_checked("greedy", v, n);
        dt_pool_effort effort = {0};
        uint64_t peak;
        assert_ok(dt_pool_find("exact")->search(v, n, &effort, &peak, &err), &err);
        assert_placed(v, n, peak);
        assert_int_equal(peak, best);
        assert_true(effort.optimal);
        better += peak < before;
        above_bound += peak > dt_pool_lower_bound(v, n);
        random_state = seed;
    }
    print_message(
        "exact: below greedy in %zu small cases, above the bound in %zu\n", better, above_bound);
    assert_true(better > 0 && above_bound > 0);
}

/* With no room for a waste of one byte, and more intervals than brute force can place. */
static void cut_rectangles_are_put_together_again(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 40; seed++) {
        dt_interval v[20];
        random_state = seed;
        const size_t n = fill_cut(v, DT_COUNT(v));
        assert_int_equal(searched(v, n, 1000000), 1 << 20);
    }
}

static void a_limit_on_nodes_ends_the_search(void **state)
{
    (void)state;
    dt_interval v[300];
    random_state = 5;
    const size_t n = fill_cut(v, DT_COUNT(v));
    uint64_t before = place_checked("greedy", v, n);
    for (uint64_t nodes = 1; nodes <= 10000; nodes *= 100) {
        const uint64_t peak = searched(v, n, nodes);
        assert_true(peak <= before);
        before = peak;
    }
}

static void small_cases_are_near_the_optimum(void **state)
{
    (void)state;
    size_t hit = 0, cases = 0;
    double worst = 0;
    for (random_state = 1; random_state <= 1000; random_state++, cases++) {
        const uint64_t seed = random_state;
        dt_interval v[6], w[6];
        const size_t n = 2 + draw(5);
        fill_random(v, n);
        v[0].bytes += 1;
        memcpy(w, v, sizeof w);
        const uint64_t best = optimum(w, n, 0, 0, UINT64_MAX), peak = place_checked("greedy", v, n);
        assert_true(dt_pool_lower_bound(v, n) <= best && best <= peak);
        hit += peak == best;
        worst = ratio(peak, best) > worst ? ratio(peak, best) : worst;
        random_state = seed;
    }
    print_message(
        "greedy: optimal in %zu of %zu small cases, worst ratio %.3f\n", hit, cases, worst);
    assert_true(hit * 100 >= cases * 99);
    assert_true(worst <= 1.25);
}

static void training_programs_meet_the_bound(void **state)
{
    (void)state;
    static const char *const names[] = {"keep", "offload", "recompute"};
    static const int blocks[] = {16, 50, 75, 200};
    chain c = {.cap = 12000};
    c.v = dt_alloc(c.cap, sizeof *c.v);
    assert_non_null(c.v);
    for (keeping how = KEEP; how <= RECOMPUTE; how++)
        for (size_t k = 0; k < (dt_small_scale() ? 3 : DT_COUNT(blocks)); k++) {
            if (!dt_picked((uint64_t)how + k, 2, 2, 1))
                continue;
            random_state = (uint64_t)blocks[k];
            fill_chain(&c, blocks[k], how);
            const uint64_t bound = dt_pool_lower_bound(c.v, c.n);
            const double online = ratio(place_checked("best_fit", c.v, c.n), bound);
            const double got = ratio(place_checked("greedy", c.v, c.n), bound);
            print_message("%s, %zu intervals: greedy %.4f, best_fit %.4f of the bound\n",
                names[how], c.n, got, online);
            assert_true(got >= 1.0 && got <= 1.01);
        }
    dt_free(c.v);
}

static void cut_rectangles_stay_near_the_bound(void **state)
{
    (void)state;
    dt_interval v[300];
    for (uint64_t seed = 1; seed <= 5; seed++) {
        random_state = seed;
        const size_t n = fill_cut(v, 60 * seed);
        const uint64_t bound = dt_pool_lower_bound(v, n);
        assert_int_equal(bound, 1 << 20);
        const double got = ratio(place_checked("greedy", v, n), bound);
        print_message("cut into %zu: greedy %.4f of the bound\n", n, got);
        assert_true(got >= 1.0 && got <= 1.38);
    }
}

static void public_hard_cases_stay_near_the_bound(void **state)
{
    (void)state;
    static const char *const files[] = {"A", "B", "C", "D", "E"};
    if (dt_shared("data/dsa") == NULL)
        skip();
    for (size_t f = 0; f < DT_COUNT(files); f++) {
        char below[32];
        static dt_err err;
        dt_interval *v;
        size_t n;
        snprintf(below, sizeof below, "data/dsa/%s.csv", files[f]);
        assert_ok(dt_pool_file_read(&v, &n, dt_shared(below), DT_POOL_FILE_BYTES, &err), &err);
        const uint64_t bound = dt_pool_lower_bound(v, n);
        const double got = ratio(place_checked("greedy", v, n), bound);
        print_message("%s: greedy %.4f of the bound\n", files[f], got);
        assert_true(got >= 1.0 && got <= 1.38);
        dt_free(v);
    }
}

/* All meet the bound; the best known for D, which takes long, was 1.063. */
static void public_hard_cases_are_solved_by_search(void **state)
{
    (void)state;
    static const struct {
        const char *file;
        uint64_t peak, nodes;
        double most;
    } rows[] = {{"A", 1048576, 0, 1}, {"B", 1048576, 0, 1}, {"C", 1039360, 0, 1},
        {"D", 0, 200000, 1.064}, {"E", 1048576, 0, 1}, {"somas_resnet50", 1515472556, 0, 1.002},
        {"iopddl_G1", 3030937746, 0, 1.002}};
    if (dt_shared("data/dsa") == NULL)
        skip();
    for (size_t f = 0; f < DT_COUNT(rows); f++) {
        if (!dt_picked(f, 6, 2, 1))
            continue;
        char below[48];
        static dt_err err;
        dt_interval *v;
        size_t n;
        uint64_t peak;
        dt_pool_effort effort = {.max_nodes = rows[f].nodes};
        snprintf(below, sizeof below, "data/dsa/%s.csv", rows[f].file);
        assert_ok(dt_pool_file_read(&v, &n, dt_shared(below), DT_POOL_FILE_BYTES, &err), &err);
        assert_ok(dt_pool_find("exact")->search(v, n, &effort, &peak, &err), &err);
        assert_placed(v, n, peak);
        const double got = ratio(peak, dt_pool_lower_bound(v, n));
        print_message(
            "%s: exact %.6f of the bound, %" PRIu64 " nodes\n", rows[f].file, got, effort.nodes);
        assert_true(got >= 1.0 && got <= rows[f].most);
        if (rows[f].peak > 0)
            assert_int_equal(peak, rows[f].peak);
        dt_free(v);
    }
}

/* Of these the first two are hard: repairs that learn nothing or are not begun anew end above 1 %.
 */
static void many_intervals_stay_near_the_bound(void **state)
{
    (void)state;
    static const struct {
        size_t n;
        uint64_t seed;
    } rows[] = {{20000, 20}, {60000, 47}, {20000, 1}, {60000, 2}};
    for (size_t k = 0; k < (size_t)dt_scaled(1, 1, DT_COUNT(rows)); k++) {
        static dt_err err;
        dt_interval *v;
        const size_t n = rows[k].n;
        uint64_t peak, online;
        assert_ok(dt_pool_random(&v, n, rows[k].seed, &err), &err);
        assert_ok(dt_pool_find("best_fit")->place(v, n, &online, &err), &err);
        assert_ok(dt_pool_find("greedy")->place(v, n, &peak, &err), &err);
        assert_placed(v, n, peak);
        const double got = ratio(peak, dt_pool_lower_bound(v, n));
        print_message("%zu made up: greedy %.4f, best_fit %.4f of the bound\n", n, got,
            ratio(online, dt_pool_lower_bound(v, n)));
        assert_true(got >= 1.0 && got <= 1.01);
        dt_free(v);
    }
}

/* Searches place with it: the same offsets for few, and for many never lower than greedy's. */
static void brief_greedy_is_never_below_greedy(void **state)
{
    (void)state;
    static const size_t rows[] = {1, 200, 4000, 12000, 30000};
    const dt_pool_desc *greedy = dt_pool_find("greedy"), *brief = greedy->tries;
    assert_non_null(brief);
    assert_null(brief->tries);
    for (size_t k = 0; k < DT_COUNT(rows); k++) {
        static dt_err err;
        dt_interval *v, *w;
        const size_t n = rows[k];
        uint64_t low, high, online;
        assert_ok(dt_pool_random(&v, n, 7, &err), &err);
        assert_ok(dt_pool_random(&w, n, 7, &err), &err);
        assert_ok(dt_pool_find("best_fit")->place(v, n, &online, &err), &err);
        assert_ok(greedy->place(v, n, &low, &err), &err);
        assert_ok(brief->place(w, n, &high, &err), &err);
        assert_placed(w, n, high);
        print_message("%zu made up: %.4f, briefly %.4f of the bound\n", n,
            ratio(low, dt_pool_lower_bound(v, n)), ratio(high, dt_pool_lower_bound(v, n)));
        assert_true(low <= high && high <= online);
        if (n <= 4000)
            assert_memory_equal(v, w, n * sizeof *v);
        dt_free(v);
        dt_free(w);
    }
}

/* Of lives that are all the whole time the sum may round up to more than their number times that,
 * from these numbers of them on. There is a slab all the same. */
static void equal_lives_whose_sum_rounds_up_are_placed(void **state)
{
    (void)state;
    enum { MOST = 258, BYTES = 1000 };
    static const struct {
        size_t n;
        int64_t length;
    } rows[] = {{6, (INT64_C(1) << 52) + 3}, {MOST, 1152921504615268608}};
    for (size_t k = 0; k < DT_COUNT(rows); k++) {
        dt_interval v[MOST];
        uint64_t peak = UINT64_MAX;
        double lives = 0;
        for (size_t i = 0; i < rows[k].n; i++) {
            v[i] = (dt_interval){.upper = rows[k].length, .bytes = BYTES, .align = 1};
            lives += (double)rows[k].length;
        }
        assert_true((double)rows[k].length * (double)rows[k].n < lives);
        assert_true(dti_pool_many(v, rows[k].n, false, &peak));
        assert_int_equal(peak, rows[k].n * BYTES);
        assert_placed(v, rows[k].n, peak);
    }
}

enum { REPAIRED = 600 };

/* Intervals as a pool in time order leaves them, whose alignments differ, with where they lie and
 * how hard they are to place. */
typedef struct placement {
    dt_interval *v;
    uint64_t peak, bound, off[REPAIRED];
    double hard[REPAIRED];
} placement;

static placement make_placement(uint64_t seed)
{
    placement p = {.v = NULL};
    dt_err err = {0};
    assert_ok(dt_pool_random(&p.v, REPAIRED, seed, &err), &err);
    for (size_t i = 0; i < REPAIRED; i++)
        p.v[i].align = (uint64_t)1 << (seed % 2 == 0 ? 0 : i % 11);
    if (seed % 5 == 0)
        p.v[3].lower = INT64_MIN;
    assert_ok(dt_pool_find("best_fit")->place(p.v, REPAIRED, &p.peak, &err), &err);
    p.bound = dt_pool_lower_bound(p.v, REPAIRED);
    for (size_t i = 0; i < REPAIRED; i++) {
        p.off[i] = p.v[i].off;
        p.hard[i] =
            (double)rounded(&p.v[i]) * (double)((uint64_t)p.v[i].upper - (uint64_t)p.v[i].lower);
    }
    return p;
}

/* How many have become harder; none becomes easier. */
static int count_harder(const double *now, const double *before)
{
    int harder = 0;
    for (size_t i = 0; i < REPAIRED; i++) {
        assert_true(now[i] >= before[i] * (1 - 1e-12) && isfinite(now[i]));
        harder += now[i] > before[i] * (1 + 1e-12);
    }
    return harder;
}

/* The goal is reached with nothing over anything, or nothing has moved. */
static void a_repair_reaches_its_goal_or_changes_nothing(void **state)
{
    (void)state;
    static const double parts[] = {0.9, 0.5, 0.1, 0};
    int reached = 0, missed = 0;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        placement p = make_placement(seed);
        for (size_t k = 0; k < DT_COUNT(parts); k++) {
            const uint64_t goal = p.bound + (uint64_t)(parts[k] * (double)(p.peak - p.bound));
            int64_t steps = 20000000;
            uint64_t off[REPAIRED], end = 0;
            double hard[REPAIRED];
            bool done;
            memcpy(off, p.off, sizeof off);
            memcpy(hard, p.hard, sizeof hard);
            assert_true(dti_pool_repair(p.v, REPAIRED, hard, goal, &steps, off, &done));
            reached += done;
            missed += !done;
            assert_true(count_harder(hard, p.hard) > 0 || done);
            if (!done) {
                assert_memory_equal(off, p.off, sizeof off);
                assert_true(steps <= 0);
                continue;
            }
            for (size_t i = 0; i < REPAIRED; i++) {
                p.v[i].off = off[i];
                end = off[i] + rounded(&p.v[i]) > end ? off[i] + rounded(&p.v[i]) : end;
            }
            assert_placed(p.v, REPAIRED, end);
            assert_true(end <= goal);
        }
        dt_free(p.v);
    }
    print_message("of %d goals %d are reached\n", reached + missed, reached);
    assert_true(reached > 20 && missed > 0);
}

/* Two that drive each other out tens of thousands of times. */
static void hardness_that_grows_for_long_stays_finite(void **state)
{
    (void)state;
    const dt_interval v[] = {
        {.upper = 2, .bytes = 8, .align = 1}, {.lower = 1, .upper = 3, .bytes = 8, .align = 1}};
    double hard[] = {1, 1};
    for (int round = 0; round < 3; round++) {
        uint64_t off[] = {0, 8};
        int64_t steps = 40000000;
        bool done;
        assert_true(dti_pool_repair(v, DT_COUNT(v), hard, 8, &steps, off, &done));
        assert_false(done);
        for (size_t i = 0; i < DT_COUNT(v); i++)
            assert_true(hard[i] > 1000 && isfinite(hard[i]));
    }
}

static void a_repair_survives_failed_allocations(void **state)
{
    (void)state;
    placement p = make_placement(1);
    const uint64_t goal = p.bound + (p.peak - p.bound) / 2;
    const long before = dti_alloc_live();
    bool ok = false, done = false;
    long k = 0;
    while (!ok && k++ < 100) {
        int64_t steps = 20000000;
        uint64_t off[REPAIRED];
        memcpy(off, p.off, sizeof off);
        dti_alloc_fail_at(k);
        ok = dti_pool_repair(p.v, REPAIRED, p.hard, goal, &steps, off, &done);
        dti_alloc_fail_at(0);
        assert_int_equal(dti_alloc_live(), before);
        if (!ok)
            assert_memory_equal(off, p.off, sizeof off);
    }
    assert_true(ok && done && k > 8);
    dt_free(p.v);
}

/* Far ends of time, and alignments that differ, in more intervals than one shelf takes. */
static void many_aligned_intervals_keep_apart(void **state)
{
    (void)state;
    const size_t count = (size_t)dt_scaled(10000, 10000, 30000);
    static dt_err err;
    dt_interval *v;
    uint64_t peak, bound;
    assert_ok(dt_pool_random(&v, count, 3, &err), &err);
    for (size_t i = 0; i < count; i++) {
        v[i].align = (uint64_t)1 << i % 13;
        v[i].bytes = i % 50 == 0 ? 0 : v[i].bytes + i % 3;
    }
    v[7].lower = INT64_MIN;
    v[8].upper = INT64_MAX;
    bound = dt_pool_lower_bound(v, count);
    assert_ok(dt_pool_find("greedy")->place(v, count, &peak, &err), &err);
    assert_placed(v, count, peak);
    assert_true(ratio(peak, bound) <= 1.35);
    dt_free(v);
}

static void extreme_times_and_sizes_do_not_overflow(void **state)
{
    (void)state;
    const uint64_t half = (uint64_t)1 << 63;
    dt_interval in_turn[] = {{.lower = INT64_MIN, .upper = 0, .bytes = half, .align = 1},
        {.lower = 0, .upper = INT64_MAX, .bytes = half, .align = half}};
    dt_interval at_once[] = {{.lower = INT64_MIN, .upper = INT64_MAX, .bytes = half, .align = 1},
        {.lower = -1, .upper = INT64_MAX, .bytes = half, .align = 1}};
    dt_interval padded = {.lower = 0, .upper = 1, .bytes = UINT64_MAX - 3, .align = 64};
    assert_int_equal(dt_pool_lower_bound(in_turn, 2), half);
    assert_int_equal(dt_pool_lower_bound(at_once, 2), UINT64_MAX);
    assert_int_equal(dt_pool_lower_bound(&padded, 1), UINT64_MAX);
    for (size_t p = 0; p < DT_COUNT(pools); p++) {
        uint64_t peak;
        static dt_err err;
        memset(&err, 0, sizeof err);
        assert_int_equal(place_checked(pools[p], in_turn, 2), half);
        assert_fails(
            dt_pool_find(pools[p])->place(at_once, 2, &peak, &err), DT_E_BUDGET, &err, "2^64");
        assert_fails(dt_pool_find(pools[p])->place(&padded, 1, &peak, &err), DT_E_BUDGET, &err,
            "rounded up");
    }
}

static void impossible_intervals_are_refused(void **state)
{
    (void)state;
    dt_interval backwards = {.lower = 4, .upper = 4, .bytes = 1, .align = 1};
    dt_interval odd = {.lower = 4, .upper = 5, .bytes = 1, .align = 48};
    dt_interval none = {.lower = 4, .upper = 5, .bytes = 1};
    for (size_t p = 0; p < DT_COUNT(pools); p++) {
        const dt_pool_desc *d = dt_pool_find(pools[p]);
        uint64_t peak;
        static dt_err err;
        memset(&err, 0, sizeof err);
        assert_fails(d->place(&backwards, 1, &peak, &err), DT_E_INTERNAL, &err, "[4, 4)");
        assert_fails(d->place(&odd, 1, &peak, &err), DT_E_INTERNAL, &err, "alignment 48");
        assert_fails(d->place(&none, 1, &peak, &err), DT_E_INTERNAL, &err, "alignment 0");
    }
}

static void a_failed_allocation_is_reported_and_leaks_nothing(void **state)
{
    (void)state;
    dt_interval v[60];
    random_state = 3;
    const size_t n = fill_cut(v, DT_COUNT(v));
    const uint64_t bound = dt_pool_lower_bound(v, n);
    const long before = dti_alloc_live();
    dti_alloc_fail_at(1);
    assert_int_equal(dt_pool_lower_bound(v, n), bound);
    for (size_t p = 0; p < DT_COUNT(pools); p++) {
        long refused = 0;
        dt_status last = DT_E_NOMEM;
        for (long k = 1; k <= 60; k++) {
            uint64_t peak = 0;
            static dt_err err;
            memset(&err, 0, sizeof err);
            dti_alloc_fail_at(k);
            last = dt_pool_find(pools[p])->place(v, n, &peak, &err);
            dti_alloc_fail_at(0);
            assert_int_equal(dti_alloc_live(), before);
            assert_true(last == DT_OK || last == DT_E_NOMEM);
            assert_int_equal(err.code, last);
            refused += last == DT_E_NOMEM;
            if (last == DT_OK)
                assert_placed(v, n, peak);
        }
        assert_true(refused >= 2);
        assert_int_equal(last, DT_OK);
    }
}

/* ---- the file format ---- */

static const char *text_file(const char *text, size_t bytes)
{
    const char *path = dt_temp_path("cases.csv");
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(text, 1, bytes, f), bytes);
    assert_int_equal(fclose(f), 0);
    return path;
}

static void a_file_is_read_with_or_without_header(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "id,lower,upper,size\n7,-5,9223372036854775807,12\n-8,0,1,0\n",
        "7,-5,9223372036854775807,12\n-8,0,1,0",
        "\xEF\xBB\xBFid,lower,upper,size\n7,-5,9223372036854775807,12\n-8,0,1,0",
        "id,lower,upper,size\r\n7,-5,9223372036854775807,12\r\n-8,0,1,0\r\n"};
    for (size_t i = 0; i < DT_COUNT(texts); i++) {
        static dt_err err;
        dt_interval *v;
        size_t n;
        assert_ok(dt_pool_file_read(
                      &v, &n, text_file(texts[i], strlen(texts[i])), DT_POOL_FILE_BYTES, &err),
            &err);
        assert_int_equal(n, 2);
        assert_int_equal(v[0].id, 7);
        assert_int_equal(v[0].lower, -5);
        assert_int_equal(v[0].upper, INT64_MAX);
        assert_int_equal(v[0].bytes, 12);
        assert_int_equal(v[0].align, 1);
        assert_int_equal(v[1].id, -8);
        assert_int_equal(v[1].bytes, 0);
        dt_free(v);
    }
}

/* As a plan that places nothing writes it. */
static void a_header_alone_is_a_list_of_none(void **state)
{
    (void)state;
    static dt_err err;
    dt_interval *v;
    size_t n;
    const char *path = text_file("id,lower,upper,size\n", 20);
    assert_ok(dt_pool_file_read(&v, &n, path, DT_POOL_FILE_BYTES, &err), &err);
    assert_int_equal(n, 0);
    dt_free(v);
}

static void bad_lines_are_named(void **state)
{
    (void)state;
    static const struct {
        const char *text, *says;
    } rows[] = {{"", ":1: the file is empty; a line an interval has id,lower,upper,size"},
        {"0,1,2\n", ":1: not the four fields"}, {"0,0,1,4\n1,0,1,4,5\n", ":2: not the four"},
        {"0,0,1,4\n\n1,0,1,4\n", ":2: not the four"},
        {"id,lower,upper,size\n0,3,3,4\n", ":2: lower 3"},
        {"0,4,3,4\n", ":1: lower 4 is not below upper 3"},
        {"0,0,1,-1\n", ":1: size -1 is negative"},
        {"0,0,1,9223372036854775808\n", ":1: size '9223372036854775808'"},
        {"0,-9223372036854775809,1,1\n", ":1: lower '-9223372036854775809'"},
        {"0,0,99999999999999999999999,1\n", ":1: upper '999"}, {"0,0,1,\n", ":1: size ''"},
        {"0,0,1, 4\n", ":1: size ' 4'"}, {"0,0,1,+4\n", ":1: size '+4'"},
        {"0,0,1,-\n", ":1: size '-'"}, {"0,0,1,4.0\n", ":1: size '4.0'"},
        {"0,0,1,0x4\n", ":1: size '0x4'"}, {"x,0,1,4\n", ":1: id 'x'"},
        {"id,lower,upper,size,offset\n0,0,1,4,0\n", "nor is the line the header, id,lower,upper"},
        {"0,0,1,4\nid,lower,upper,size\n", ":2: id 'id'"}, {"0,0,1,nan\n", ":1: size 'nan'"},
        {"0,inf,1,4\n", ":1: lower 'inf'"},
        {"3,0,1,4\n1,0,1,4\n3,5,6,7\n", ":3: id 3 is that of line 1"},
        {"id,lower,upper,size\n5,0,1,4\n5,0,1,4\n", ":3: id 5 is that of line 2"}};
    for (size_t i = 0; i < DT_COUNT(rows); i++) {
        static dt_err err;
        memset(&err, 0, sizeof err);
        dt_interval *v;
        size_t n;
        assert_fails(dt_pool_file_read(&v, &n, text_file(rows[i].text, strlen(rows[i].text)),
                         DT_POOL_FILE_BYTES, &err),
            DT_E_DATA, &err, rows[i].says);
        assert_null(v);
        assert_int_equal(n, 0);
    }
    dt_interval *v;
    size_t n;
    assert_int_equal(
        dt_pool_file_read(&v, &n, text_file("0,0,1,4\0\n", 9), DT_POOL_FILE_BYTES, NULL),
        DT_E_DATA);
    assert_int_equal(
        dt_pool_file_read(&v, &n, dt_temp_path("absent.csv"), DT_POOL_FILE_BYTES, NULL), DT_E_DATA);
}

static void least_integers_are_read(void **state)
{
    (void)state;
    static const char text[] = "-9223372036854775808,-9223372036854775808,-9223372036854775807,1\n";
    static dt_err err;
    dt_interval *v;
    size_t n;
    assert_ok(dt_pool_file_read(&v, &n, text_file(text, sizeof text - 1), DT_POOL_FILE_BYTES, &err),
        &err);
    assert_int_equal(v[0].id, INT64_MIN);
    assert_int_equal(v[0].lower, INT64_MIN);
    assert_int_equal(v[0].upper, INT64_MIN + 1);
    dt_free(v);
}

static void what_is_written_is_read_back(void **state)
{
    (void)state;
    static dt_err err;
    dt_interval v[40];
    random_state = 11;
    fill_random(v, DT_COUNT(v));
    for (size_t i = 0; i < DT_COUNT(v); i++)
        v[i].id = -(int64_t)i;
    dt_interval *w;
    size_t n;
    const char *path = dt_temp_path("written.csv");
    assert_ok(dt_pool_file_write(v, DT_COUNT(v), path, &err), &err);
    assert_ok(dt_pool_file_read(&w, &n, path, DT_POOL_FILE_BYTES, &err), &err);
    assert_int_equal(n, DT_COUNT(v));
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(w[i].id, v[i].id);
        assert_int_equal(w[i].lower, v[i].lower);
        assert_int_equal(w[i].upper, v[i].upper);
        assert_int_equal(w[i].bytes, rounded(&v[i]));
    }
    dt_free(w);
    v[1].upper = v[1].lower;
    v[1].bytes = 0;
    assert_fails(
        dt_pool_file_write(v, 2, dt_temp_path("refused.csv"), &err), DT_E_INTERNAL, &err, "1");
    assert_int_equal(
        dt_pool_file_read(&w, &n, dt_temp_path("refused.csv"), DT_POOL_FILE_BYTES, NULL),
        DT_E_DATA);
}

static void reading_survives_failed_allocations(void **state)
{
    (void)state;
    char text[64 * 8];
    size_t bytes = 0;
    for (int i = 0; i < 40; i++)
        bytes += (size_t)snprintf(text + bytes, sizeof text - bytes, "%d,0,1,4\n", 40 - i);
    const char *path = text_file(text, bytes);
    const long before = dti_alloc_live();
    long k = 1;
    for (dt_status st = DT_E_NOMEM; st != DT_OK; k++) {
        dt_interval *v;
        size_t n;
        assert_true(k < 100);
        dti_alloc_fail_at(k);
        st = dt_pool_file_read(&v, &n, path, DT_POOL_FILE_BYTES, NULL);
        dti_alloc_fail_at(0);
        assert_true(st == DT_OK || st == DT_E_NOMEM);
        assert_int_equal(n, st == DT_OK ? 40 : 0);
        dt_free(v);
        assert_int_equal(dti_alloc_live(), before);
    }
    assert_true(k > 3);
}

DT_TEST_GROUP(pool)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_pool_is_found_by_name),
        cmocka_unit_test(greedy_alone_has_a_quick_pool),
        cmocka_unit_test(nothing_takes_no_bytes),
        cmocka_unit_test(half_open_neighbours_share_bytes),
        cmocka_unit_test(best_fit_takes_the_tightest_hole),
        cmocka_unit_test(best_fit_grows_from_a_free_end),
        cmocka_unit_test(best_fit_sees_the_free_end_as_a_hole),
        cmocka_unit_test(best_fit_uses_what_alignment_skips),
        cmocka_unit_test(greedy_fits_where_time_order_overflows),
        cmocka_unit_test(random_cases_hold_for_every_pool),
        cmocka_unit_test(the_unit_of_time_changes_nothing),
        cmocka_unit_test(the_search_finds_the_optimum_of_small_cases),
        cmocka_unit_test(cut_rectangles_are_put_together_again),
        cmocka_unit_test(a_limit_on_nodes_ends_the_search),
        cmocka_unit_test(small_cases_are_near_the_optimum),
        cmocka_unit_test(training_programs_meet_the_bound),
        cmocka_unit_test(cut_rectangles_stay_near_the_bound),
        cmocka_unit_test(public_hard_cases_stay_near_the_bound),
        cmocka_unit_test(public_hard_cases_are_solved_by_search),
        cmocka_unit_test(many_intervals_stay_near_the_bound),
        cmocka_unit_test(brief_greedy_is_never_below_greedy),
        cmocka_unit_test(equal_lives_whose_sum_rounds_up_are_placed),
        cmocka_unit_test(a_repair_reaches_its_goal_or_changes_nothing),
        cmocka_unit_test(hardness_that_grows_for_long_stays_finite),
        cmocka_unit_test(a_repair_survives_failed_allocations),
        cmocka_unit_test(many_aligned_intervals_keep_apart),
        cmocka_unit_test(extreme_times_and_sizes_do_not_overflow),
        cmocka_unit_test(impossible_intervals_are_refused),
        cmocka_unit_test(a_failed_allocation_is_reported_and_leaks_nothing),
        cmocka_unit_test(a_file_is_read_with_or_without_header),
        cmocka_unit_test(a_header_alone_is_a_list_of_none),
        cmocka_unit_test(bad_lines_are_named),
        cmocka_unit_test(least_integers_are_read),
        cmocka_unit_test(what_is_written_is_read_back),
        cmocka_unit_test(reading_survives_failed_allocations),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
