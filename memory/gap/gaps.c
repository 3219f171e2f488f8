/* Choosing among gaps, and the queues of those that are offloaded. */
#include "memory/gap/gaps.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/alloc.h"
#include "engine/base/numbers.h"

/* ---- what is left ---- */

/* From a place on. */
static void sum_up(
    const dti_gaps *g, const uint64_t *load, size_t from, bool above_only, double *to)
{
    const double limit = g->limit != UINT64_MAX ? (double)g->limit : 0;
    to[0] = 0;
    for (size_t k = from; k < g->n_place; k++) {
        const double over = (double)load[k] - limit;
        to[k + 1] = to[k] + (above_only && over < 0 ? 0 : over);
    }
}

static bool is_limited(const dti_gaps *g)
{
    return g->limit != UINT64_MAX;
}

/* The most that is left at any place of those not hopeless, or 0. */
DT_CLONES static uint64_t most_left(const uint64_t *left, const bool *hopeless, size_t n)
{
    uint64_t most = 0;
    for (size_t k = 0; k < n; k++) {
        const uint64_t here = hopeless[k] ? 0 : left[k];
        most = here > most ? here : most;
    }
    return most;
}

static void find_peak(dti_gaps *g)
{
    const uint64_t most = most_left(g->left, g->hopeless, g->n_place);
    size_t k = 0;
    while (k < g->n_place && (g->hopeless[k] || g->left[k] != most))
        k++;
    g->peak = k < g->n_place ? (int32_t)k : DT_NONE;
    if (g->peak != DT_NONE && is_limited(g) && g->left[g->peak] <= g->limit)
        g->peak = DT_NONE;
}

/* Whether the load that is left at place a is the higher one; of equal ones the first. */
static bool is_higher(const dti_gaps *g, int32_t a, int32_t b)
{
    return g->left[a] != g->left[b] ? g->left[a] > g->left[b] : a < b;
}

static void sink(dti_gaps *g, size_t at)
{
    int32_t *heap = g->high;
    for (size_t below = 2 * at + 1; below < g->n_high; below = 2 * at + 1) {
        below += below + 1 < g->n_high && is_higher(g, heap[below + 1], heap[below]);
        if (!is_higher(g, heap[below], heap[at]))
            return;
        const int32_t up = heap[below];
        heap[below] = heap[at];
        heap[at] = up;
        at = below;
    }
}

/* All places that may become the peak, as a heap: thousands are given up one after the other. */
static void heap_places(dti_gaps *g)
{
    g->n_high = 0;
    for (size_t k = 0; k < g->n_place; k++)
        if (!g->hopeless[k] && (!is_limited(g) || g->left[k] > g->limit))
            g->high[g->n_high++] = (int32_t)k;
    for (size_t at = g->n_high / 2; at > 0; at--)
        sink(g, at - 1);
    g->heaped = true;
}

/* Of @over, which few scores ask for, what is not summed up anew: from a place on. */
static void left_changes(dti_gaps *g, size_t from)
{
    g->summed = from < g->summed ? from : g->summed;
    g->asked = NULL;
    g->heaped = false;
}

/* Up to a limit whatever is chosen may be gone for all of its gap, if ops wait; without one it is
 * gone for as long as its copies leave it. */
static void find_left(dti_gaps *g)
{
    uint64_t gone = 0;
    if (!is_limited(g))
        dti_gaps_schedule(g);
    memset(g->left, 0, (g->n_place + 1) * sizeof *g->left);
    for (size_t n = 0; n < g->n; n++) {
        const dti_idle *i = &g->idle[n];
        const bool copied = i->fate == DTI_OFFLOAD && !is_limited(g);
        const int32_t from = copied ? i->release : i->gap.from_pos;
        const int32_t to = copied ? i->fetch : i->gap.to_pos;
        if (i->fate == DTI_KEEP || to <= from + 1)
            continue;
        g->left[from + 1] += i->bytes; /* goes, and comes back: sums wrap */
        g->left[to] -= i->bytes;
    }
    for (size_t k = 0; k < g->n_place; k++) {
        gone += g->left[k];
        g->left[k] = g->load[k] > gone ? g->load[k] - gone : 0;
    }
    left_changes(g, 0);
    find_peak(g);
    g->settled = is_limited(g);
}

/* At places [from, to), down to nothing. */
DT_CLONES static void take(uint64_t *left, int32_t from, int32_t to, uint64_t bytes)
{
    for (int32_t k = from; k < to; k++)
        left[k] -= bytes < left[k] ? bytes : left[k];
}

/* The same, where it was found before and one more is gone. As less is left nowhere but in its gap,
 * a peak elsewhere is still the highest, and where there was none there is none. */
static void take_from_left(dti_gaps *g, const dti_idle *i)
{
    const int32_t from = i->gap.from_pos + 1, to = i->gap.to_pos;
    take(g->left, from, to, i->bytes);
    left_changes(g, (size_t)from);
    if (from <= g->peak && g->peak < to)
        find_peak(g);
}

void dti_gaps_close(dti_gaps *g)
{
    dt_free(g->left);
    dt_free(g->over);
    dt_free(g->over_first);
    dt_free(g->shifted);
    dt_free(g->ranked);
    dt_free(g->hopeless);
    dt_free(g->high);
    dt_free(g->out);
    dt_free(g->back);
    for (int queue = 0; queue < DTI_QUEUES; queue++) {
        dti_turns_close(&g->turns[queue]);
        dt_free(g->turn_at[queue]);
    }
    *g = (dti_gaps){0};
}

void dti_gaps_limit(dti_gaps *g, uint64_t limit)
{
    g->limit = limit;
    memset(g->hopeless, 0, g->n_place * sizeof *g->hopeless);
    find_left(g);
}

/* ---- queues ---- */

static void insert(int32_t *queue, size_t n, size_t at, int32_t i)
{
    memmove(queue + at + 1, queue + at, (n - at) * sizeof *queue);
    queue[at] = i;
}

/* How many of the queue out begin at a place or before it. */
static size_t behind_out(const dti_gaps *g, int32_t place)
{
    size_t low = 0, high = g->n_offload;
    while (low < high) {
        const size_t mid = low + (high - low) / 2;
        if (g->idle[g->out[mid]].gap.from_pos <= place)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

/* How many of the queue back, which runs from the last one on, end behind a place. */
static size_t before_back(const dti_gaps *g, int32_t place)
{
    size_t low = 0, high = g->n_offload;
    while (low < high) {
        const size_t mid = low + (high - low) / 2;
        if (g->idle[g->back[mid]].gap.to_pos > place)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

void dti_gaps_enqueue(dti_gaps *g, dti_idle *x)
{
    const int32_t i = (int32_t)(x - g->idle);
    const size_t at = behind_out(g, x->gap.from_pos), behind = before_back(g, x->gap.to_pos);
    insert(g->out, g->n_offload, at, i);
    insert(g->back, g->n_offload, behind, i);
    x->fate = DTI_OFFLOAD;
    g->n_offload++;
    g->turned = false;
}

/* When copies end and begin, if no op waits. */
static void run_queues(dti_gaps *g)
{
    double free = 0, next = g->n_place > 0 ? g->end[g->n_place - 1] : 0;
    for (size_t k = 0; k < g->n_offload; k++) {
        dti_idle *i = &g->idle[g->out[k]];
        i->out_end = free = dt_max_f64(free, g->end[i->gap.from_pos]) + i->out;
    }
    for (size_t k = 0; k < g->n_offload; k++) {
        dti_idle *i = &g->idle[g->back[k]];
        i->in_begin = next = dt_min_f64(g->begin[i->gap.to_pos], next) - i->early - i->in;
    }
}

/* The longest that a peak waits until what it needs gone is out, and until the last copy back that
 * could only begin behind it has come; and how late copies are that were there before. */
static double wait_of(dti_gaps *g)
{
    double out = 0, in = 0, fixed = 0;
    run_queues(g);
    for (size_t k = 0; k < g->n_offload; k++) {
        const dti_idle *i = &g->idle[g->out[k]];
        if (i->fixed) {
            fixed += dt_max_f64(0, i->out_end - g->begin[i->release + 1]);
            fixed += dt_max_f64(0, g->begin[i->fetch] - i->in_begin);
            continue;
        }
        out = dt_max_f64(out, i->out_end - g->end[i->at - 1]);
        in = dt_max_f64(in, g->begin[i->at + 1] - i->in_begin);
    }
    return out + in + fixed;
}

static void forget_late(dti_gaps *g)
{
    for (size_t n = 0; n < g->n; n++) {
        g->idle[n].late_to = DT_NONE;
        g->idle[n].late_from = INT32_MAX;
    }
    g->narrowed = false;
    g->next = 0;
}

static dt_status open_turns(dti_gaps *g, dt_err *err)
{
    for (int queue = 0; queue < DTI_QUEUES; queue++) {
        g->turn_at[queue] = dt_alloc(g->n_place + 1, sizeof *g->turn_at[queue]);
        if (g->turn_at[queue] == NULL)
            return dti_pass_no_memory(err);
        DT_CHECK(dti_turns_open(&g->turns[queue], g->n, err));
    }
    return DT_OK;
}

dt_status dti_gaps_open(dti_gaps *g, dt_err *err)
{
    DT_CHECK(open_turns(g, err));
    g->left = dt_alloc(g->n_place + 1, sizeof *g->left);
    g->over = dt_alloc(g->n_place + 1, sizeof *g->over);
    g->over_first = dt_alloc(g->n_place + 1, sizeof *g->over_first);
    g->hopeless = dt_alloc(g->n_place + 1, sizeof *g->hopeless);
    g->high = dt_alloc(g->n_place + 1, sizeof *g->high);
    g->shifted = dt_alloc(g->n_place + 1, sizeof *g->shifted);
    g->ranked = dt_alloc(g->n + 1, sizeof *g->ranked);
    g->out = dt_alloc(g->n + 1, sizeof *g->out);
    g->back = dt_alloc(g->n + 1, sizeof *g->back);
    if (g->left == NULL || g->over == NULL || g->over_first == NULL || g->shifted == NULL ||
        g->hopeless == NULL || g->high == NULL || g->ranked == NULL || g->out == NULL ||
        g->back == NULL)
        return dti_pass_no_memory(err);
    for (size_t n = 0; n < g->n; n++) {
        g->idle[n].at = g->idle[n].refused = DT_NONE;
        if (g->idle[n].fixed)
            dti_gaps_enqueue(g, &g->idle[n]);
    }
    forget_late(g);
    find_left(g);
    sum_up(g, g->load, 0, false, g->over_first);
    return DT_OK;
}

/* ---- one more in the queues ---- */

static dti_turn turn_out(const dti_gaps *g, const dti_idle *i)
{
    return (dti_turn){.ready = g->end[i->gap.from_pos],
        .takes = i->out,
        .by = i->fixed ? g->begin[i->release + 1] : g->end[i->at - 1]};
}

static dti_turn turn_back(const dti_gaps *g, const dti_idle *i)
{
    return (dti_turn){.ready = -g->begin[i->gap.to_pos],
        .early = i->early,
        .takes = i->in,
        .by = -g->begin[i->fixed ? i->fetch : i->at + 1]};
}

/* As dti_gaps_enqueue would place one: behind all that begin there, before all that end there. */
static void find_places(dti_gaps *g)
{
    size_t out = 0, back = g->n_offload;
    for (int32_t k = 0; k < (int32_t)g->n_place; k++) {
        while (out < g->n_offload && g->idle[g->out[out]].gap.from_pos <= k)
            out++;
        while (back > 0 && g->idle[g->back[back - 1]].gap.to_pos <= k)
            back--;
        g->turn_at[DTI_OUT][k] = (int32_t)out;
        g->turn_at[DTI_BACK][k] = (int32_t)back;
    }
}

/* Waits for copies that were there are added up, in the order of the queue out. */
static void take_turns(dti_gaps *g)
{
    size_t own = 0;
    for (size_t k = 0; k < g->n_offload; k++) {
        dti_idle *i = &g->idle[g->out[k]];
        i->own = i->fixed ? ++own : 0;
        g->turns[DTI_OUT].turn[k] = turn_out(g, i);
        g->turns[DTI_OUT].turn[k].own = i->own;
    }
    for (size_t k = 0; k < g->n_offload; k++) {
        const dti_idle *i = &g->idle[g->back[k]];
        g->turns[DTI_BACK].turn[k] = turn_back(g, i);
        g->turns[DTI_BACK].turn[k].own = i->own;
    }
    dti_turns_run(&g->turns[DTI_OUT], g->n_offload, own, 0);
    dti_turns_run(&g->turns[DTI_BACK], g->n_offload, own, -g->end[g->n_place - 1]);
    find_places(g);
    g->late = wait_of(g);
    g->turned = true;
}

static double wait_in(dti_gaps *g, int queue, int32_t place, dti_turn more)
{
    return dti_turns_wait_with(&g->turns[queue], (size_t)g->turn_at[queue][place], &more);
}

/* wait_of, to the last bit, with one more in the queues. */
static double wait_with(dti_gaps *g, const dti_idle *i, dti_turn more_out, dti_turn more_back)
{
    double fixed = 0;
    const double out = wait_in(g, DTI_OUT, i->gap.from_pos, more_out);
    const double back = wait_in(g, DTI_BACK, i->gap.to_pos, more_back);
    for (size_t k = 1; k <= g->turns[DTI_OUT].n_own; k++) {
        fixed += g->turns[DTI_OUT].own[k];
        fixed += g->turns[DTI_BACK].own[k];
    }
    return out + back + fixed;
}

/* Seconds that ops wait for what is offloaded. */
static double late_of(dti_gaps *g)
{
    if (!g->turned)
        take_turns(g);
    if (g->narrowed && g->late > g->late_known)
        forget_late(g);
    return g->late;
}

double dti_gaps_wait_at(dti_gaps *g, dti_idle *i, int32_t pos)
{
    if (g->inline_copies)
        return i->out + i->in;
    const double late = late_of(g);
    i->at = pos;
    const double with = wait_with(g, i, turn_out(g, i), turn_back(g, i));
    i->at = DT_NONE;
    return with - late;
}

double dti_gaps_wait(dti_gaps *g, dti_idle *i)
{
    return dti_gaps_wait_at(g, i, g->peak);
}

/* Ops wait for its copy out the longer, the earlier the peak is, for the one back the longer, the
 * later it is, and for those of others wherever it is: which of them is too long by itself. */
static void narrow(dti_gaps *g, dti_idle *i, double most)
{
    const double late = late_of(g);
    i->at = g->peak;
    const dti_turn out = turn_out(g, i), back = turn_back(g, i);
    dti_turn early_out = out, early_back = back;
    i->at = DT_NONE;
    early_out.by = early_back.by = HUGE_VAL;
    if (wait_with(g, i, out, early_back) - late > most)
        i->late_to = g->peak;
    if (wait_with(g, i, early_out, back) - late > most)
        i->late_from = g->peak;
    if (wait_with(g, i, early_out, early_back) - late > most)
        i->late_to = INT32_MAX;
    g->late_known = late;
    g->narrowed = true;
}

bool dti_gaps_refuse_late(dti_gaps *g, dti_idle *i, double most)
{
    if (!(dti_gaps_wait(g, i) > most))
        return false;
    if (g->inline_copies)
        i->late_to = INT32_MAX; /* they take as long wherever they are */
    else
        narrow(g, i, most);
    dti_gaps_refuse(g, i);
    return true;
}

void dti_gaps_choose(dti_gaps *g, dti_idle *i, dti_fate fate)
{
    const bool more = g->settled && i->fate == DTI_KEEP && fate != DTI_KEEP;
    i->at = i->at == DT_NONE ? g->peak : i->at;
    i->fate = fate;
    if (fate == DTI_OFFLOAD)
        dti_gaps_enqueue(g, i);
    if (more)
        take_from_left(g, i);
    else
        find_left(g);
}

/* ---- choosing ---- */

bool dti_gaps_is_over(const dti_gaps *g, const dti_idle *i)
{
    return g->peak != DT_NONE && i->fate == DTI_KEEP && i->refused != g->peak &&
           i->gap.from_pos < g->peak && i->gap.to_pos > g->peak && i->late_to < g->peak &&
           i->late_from > g->peak;
}

static dti_idle *find_best(dti_gaps *g, dti_gap_score *score)
{
    dti_idle *best = NULL;
    double most = 0;
    for (size_t n = 0; n < g->n; n++) {
        dti_idle *i = &g->idle[n];
        const double s = dti_gaps_is_over(g, i) ? score(g, i) : 0;
        if (dti_gaps_is_over(g, i) && (best == NULL || s > most)) {
            best = i;
            most = s;
        }
    }
    return best;
}

static int by_score(const void *va, const void *vb)
{
    const dti_ranked *a = va, *b = vb;
    if (a->score != b->score)
        return a->score > b->score ? -1 : 1;
    return (a->idle > b->idle) - (a->idle < b->idle);
}

static void rank(dti_gaps *g, dti_gap_score *score)
{
    g->n_ranked = 0;
    for (size_t n = 0; n < g->n; n++)
        if (g->idle[n].fate == DTI_KEEP)
            g->ranked[g->n_ranked++] = (dti_ranked){score(g, &g->idle[n]), (int32_t)n};
    qsort(g->ranked, g->n_ranked, sizeof *g->ranked, by_score);
    g->next_peak = DT_NONE;
}

/* Most are asked for once and chosen, for which one look at all is less than a ranking. */
dti_idle *dti_gaps_best(dti_gaps *g, dti_gap_score *score)
{
    if (g->narrowed)
        (void)late_of(g); /* it may be more now */
    if (g->asked != score) {
        g->asked = score;
        g->n_ranked = 0;
        return find_best(g, score);
    }
    if (g->n_ranked == 0)
        rank(g, score);
    if (g->next_peak != g->peak) {
        g->next_peak = g->peak;
        g->next = 0;
    }
    while (g->next < g->n_ranked && !dti_gaps_is_over(g, &g->idle[g->ranked[g->next].idle]))
        g->next++;
    return g->next < g->n_ranked ? &g->idle[g->ranked[g->next].idle] : NULL;
}

void dti_gaps_refuse(dti_gaps *g, dti_idle *i)
{
    i->refused = g->peak;
}

void dti_gaps_forgive(dti_gaps *g)
{
    for (size_t n = 0; n < g->n; n++)
        g->idle[n].refused = DT_NONE;
    forget_late(g);
}

void dti_gaps_give_up(dti_gaps *g)
{
    g->hopeless[g->peak] = true;
    if (!g->heaped) {
        heap_places(g);
    } else {
        g->high[0] = g->high[--g->n_high];
        sink(g, 0);
    }
    g->peak = g->n_high > 0 ? g->high[0] : DT_NONE;
}

/* ---- the schedule ---- */

/* The first place from @from on whose value is not below. */
static int32_t first_not_below(const double *v, int32_t from, int32_t n, double x)
{
    int32_t low = from, high = n;
    while (low < high) {
        const int32_t mid = low + (high - low) / 2;
        if (v[mid] < x)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

/* Its bytes are gone once the copy is done; where the load is too high before that, the op there
 * waits, and all behind it. */
static void schedule_out(dti_gaps *g, dti_idle *i, double *free)
{
    double *end = g->shifted;
    const int32_t from = i->gap.from_pos, to = i->gap.to_pos;
    i->out_end = *free = dt_max_f64(*free, end[from]) + i->out;
    i->release = first_not_below(end, from, to - 1, i->out_end);
    if (!is_limited(g))
        return;
    for (int32_t k = from + 1; k <= i->release; k++)
        if (g->left[k] > g->limit) {
            const double wait = i->out_end - end[k - 1];
            for (size_t x = (size_t)k; wait > 0 && x < g->n_place; x++)
                end[x] += wait;
            i->release = k - 1;
        }
    for (int32_t k = i->release + 1; k < to; k++)
        g->left[k] -= i->bytes;
}

/* They come back as late as the op behind the gap allows; later, where the load would be too high,
 * for which that op waits. */
static void schedule_in(dti_gaps *g, dti_idle *i, double *next)
{
    const int32_t to = i->gap.to_pos;
    double begin = dt_min_f64(g->begin[to], *next) - i->early - i->in;
    i->fetch = first_not_below(g->begin, i->release + 1, to, begin);
    if (i->fetch > i->release + 1 && g->begin[i->fetch] > begin)
        i->fetch--;
    if (is_limited(g)) {
        for (int32_t k = to - 1; k >= i->fetch; k--)
            if (g->left[k] + i->bytes > g->limit) {
                i->fetch = k + 1;
                begin = dt_max_f64(begin, g->begin[i->fetch]);
            }
        for (int32_t k = i->fetch; k < to; k++)
            g->left[k] += i->bytes;
    }
    i->in_begin = *next = begin;
}

void dti_gaps_schedule(dti_gaps *g)
{
    double free = 0, next = g->n_place > 0 ? g->end[g->n_place - 1] : 0;
    memcpy(g->shifted, g->end, g->n_place * sizeof *g->end);
    g->settled = false;
    if (is_limited(g))
        memcpy(g->left, g->load, g->n_place * sizeof *g->left);
    for (size_t k = 0; k < g->n_offload; k++) {
        dti_idle *i = &g->idle[g->out[k]];
        if (i->fixed)
            i->out_end = free = dt_max_f64(free, g->shifted[i->gap.from_pos]) + i->out;
        else if (g->inline_copies)
            i->release = i->gap.from_pos;
        else
            schedule_out(g, i, &free);
    }
    for (size_t k = 0; k < g->n_offload; k++) {
        dti_idle *i = &g->idle[g->back[k]];
        if (i->fixed)
            i->in_begin = next = dt_min_f64(g->begin[i->gap.to_pos], next) - i->in;
        else if (g->inline_copies)
            i->fetch = i->gap.to_pos;
        else
            schedule_in(g, i, &next);
    }
}

/* ---- scores ---- */

double dti_absence(dti_gaps *g, const dti_idle *i)
{
    return g->begin[i->gap.to_pos] - g->end[i->gap.from_pos] - i->out - i->in;
}

double dti_absence_area(dti_gaps *g, const dti_idle *i)
{
    const double seconds = dti_absence(g, i), bytes = (double)i->bytes;
    return seconds >= 0 ? seconds * bytes : seconds / bytes;
}

double dti_load_over(dti_gaps *g, const dti_idle *i)
{
    return g->over_first[i->gap.to_pos] - g->over_first[i->gap.from_pos + 1];
}

double dti_left_over(dti_gaps *g, const dti_idle *i)
{
    if (g->summed < g->n_place) {
        sum_up(g, g->left, g->summed, true, g->over);
        g->summed = g->n_place;
    }
    return g->over[i->gap.to_pos] - g->over[i->gap.from_pos + 1];
}

static dti_gap_score *const summed[DTI_GAP_SCORES] = {
    dti_absence, dti_absence_area, dti_load_over, dti_left_over};

void dti_gaps_weigh(dti_gaps *g, const double weight[DTI_GAP_SCORES])
{
    for (int k = 0; k < DTI_GAP_SCORES; k++) {
        double most = 0;
        for (size_t n = 0; n < g->n; n++)
            if (!g->idle[n].fixed)
                most = fmax(most, fabs(summed[k](g, &g->idle[n])));
        g->weight[k] = most > 0 ? weight[k] / most : 0;
    }
    g->asked = NULL;
}

double dti_weighted(dti_gaps *g, const dti_idle *i)
{
    double sum = 0;
    for (int k = 0; k < DTI_GAP_SCORES; k++)
        if (g->weight[k] > 0)
            sum += g->weight[k] * summed[k](g, i);
    return sum;
}
