/* Which idle bytes leave, and when: the load curve, the intervals in which tensors lie idle, and a
 * queue of copies for each direction. Numbers alone: a planner (memory/gap/planner.h) fills them in
 * from a program, and makes what was chosen.
 *
 * Copies of a direction follow each other. A copy out begins when the op before the gap is done and
 * the queue is free; a copy back as late as the op after the gap and the queue behind it allow.
 * What is on the device neither after the one nor before the other is saved. */
#ifndef DT_MEMORY_GAP_GAPS_H
#define DT_MEMORY_GAP_GAPS_H

#include "memory/gap/turns.h"
#include "memory/pass.h"

/**
 * struct dti_idle - a gap on the clock.
 * @bytes:     that lie idle in it
 * @out @in:   seconds of a copy to the tier and of one back
 * @fate:      what was chosen for it
 * @at:        place of the peak for which it was chosen; DT_NONE
 * @refused:   place of the peak for which it was looked at in vain; DT_NONE
 * @late_to @late_from: ops would wait for it at a peak up to the one place, for its copy out, and
 * from the other on, for the one back
 * @fixed:     its copies were there before: they keep the queues busy, from release and fetch on
 * @early:     the copy back is to be done so many seconds before it is needed
 * @release @fetch: when offloaded, places after which it is gone, and before which it is taken back
 * @out_end @in_begin: seconds
 * @own:     of one that is fixed, see struct dti_turn
 */
typedef struct dti_idle {
    dti_gap gap;
    uint64_t bytes;
    double out, in;
    dti_fate fate;
    int32_t at, refused, late_to, late_from;
    bool fixed;
    double early;
    int32_t release, fetch;
    double out_end, in_begin;
    size_t own;
} dti_idle;

struct dti_gaps;
typedef double dti_gap_score(struct dti_gaps *g, const dti_idle *i);

typedef struct dti_ranked {
    double score;
    int32_t idle;
} dti_ranked;

/* Absence, its area, load over and left over, in this order; see the end of this file. */
enum { DTI_GAP_SCORES = 4 };

/* Queues: of copies out, and of those back. */
enum { DTI_OUT, DTI_BACK, DTI_QUEUES };

/**
 * struct dti_gaps - a program's gaps, in the order of their tensors.
 * @begin @end @load: by place, see struct dti_load_curve
 * @limit:   of the load; UINT64_MAX: there is none, and no op is to wait for a copy
 * @inline_copies: copies stand between the ops, so none is hidden
 * @left:    by place: the load without what was chosen
 * @settled: it is so up to the limit, and one more that is gone can be taken from it
 * @over:    n_place + 1 sums: over[k] is what is left above the limit, or above 0 where there is
 * none, at places below k
 * @summed:  over[0 .. summed] is up to date; dti_left_over makes the rest
 * @over_first: the same sums of the load, signed; they never change
 * @hopeless: by place: nothing can be done about it
 * @high:    the n_high places above the limit and not hopeless: a heap, the highest first
 * @heaped:  high is up to date: from the first place that is given up until what is left changes
 * @peak:    the place of the most that is left, of those not hopeless; DT_NONE when that is within
 * the limit
 * @out @back: the n_offload gaps that are offloaded, in the order of their copies; back from the
 * last one on
 * @turns:   both queues, the one back with its seconds negated, as time runs backwards in it
 * @turn_at: by place, how many of the queue go before a gap that begins there (out) or ends there
 * (back)
 * @late:    seconds that ops wait for both queues
 * @turned:  turns, turn_at and late are as the queues are; asking for a wait makes them so
 * @late_known: what late was when late_to and late_from were found; they hold until it is more
 * @narrowed: some were found
 * @asked:   the score by which the best was asked for since what is left last changed; NULL: none
 * @ranked:  n_ranked gaps by that score, made when it is asked for once more
 * @next:    none ranked before it is over the peak @next_peak
 * @weight:  of each score in dti_weighted, by its scale; see dti_gaps_weigh
 */
typedef struct dti_gaps {
    size_t n_place, n, n_offload;
    double *begin, *end;
    uint64_t *load;
    dti_idle *idle;
    uint64_t limit;
    bool inline_copies;
    uint64_t *left;
    bool settled;
    double *over, *over_first;
    size_t summed;
    bool *hopeless;
    int32_t *high;
    size_t n_high;
    bool heaped;
    int32_t peak;
    int32_t *out, *back;
    double *shifted; /* room for the ends of ops that wait */
    dti_turns turns[DTI_QUEUES];
    int32_t *turn_at[DTI_QUEUES];
    double late, late_known;
    bool turned, narrowed;
    dti_gap_score *asked;
    dti_ranked *ranked;
    size_t n_ranked, next;
    int32_t next_peak;
    double weight[DTI_GAP_SCORES];
} dti_gaps;

/* Room for what was chosen, which is nothing yet; curve and gaps are there and stay the caller's.
 * Release with dti_gaps_close even after a failure. DT_E_NOMEM. */
dt_status dti_gaps_open(dti_gaps *g, dt_err *err) DT_NODISCARD;
void dti_gaps_close(dti_gaps *g);

void dti_gaps_limit(dti_gaps *g, uint64_t limit); /* what was chosen stays so */

/* A kept gap over the peak, and not refused for it. */
bool dti_gaps_is_over(const dti_gaps *g, const dti_idle *i);

/* Of those the one whose score is highest, the first of several; NULL: there is none. A score goes
 * by the gap and by what is left, not by the peak: until a gap is chosen all peaks share one
 * ranking, and refusing gap after gap, peak after peak, takes a look each. */
dti_idle *dti_gaps_best(dti_gaps *g, dti_gap_score *score);

/* Seconds that ops would wait longer, if this one were offloaded as well, to be away at the peak:
 * for both of its copies where they stand between the ops. Many may be asked for until one is
 * chosen: what is found of the queues is kept so long. */
double dti_gaps_wait(dti_gaps *g, dti_idle *i);
double dti_gaps_wait_at(dti_gaps *g, dti_idle *i, int32_t pos); /* at that place instead */

void dti_gaps_choose(dti_gaps *g, dti_idle *i, dti_fate fate);
void dti_gaps_refuse(dti_gaps *g, dti_idle *i);
/* Whether ops would wait longer than @most for this one, offloaded to be away at the peak; it is
 * refused then, there and at all other places for which the same reason holds. Copies are only
 * added to the queues, so it does as long as those that are there are no later. */
bool dti_gaps_refuse_late(dti_gaps *g, dti_idle *i, double most);
void dti_gaps_forgive(dti_gaps *g); /* none is refused any more */

/* The peak is hopeless: the next is looked at. Until the limit is set anew. */
void dti_gaps_give_up(dti_gaps *g);

/* It is offloaded, whatever there is to be said against it. */
void dti_gaps_enqueue(dti_gaps *g, dti_idle *i);

/* Release and fetch of all that is offloaded. With a limit ops wait wherever the load would exceed
 * it. */
void dti_gaps_schedule(dti_gaps *g);

/* Duration of absence: seconds between the ops of a gap, less both copies. Capuchin's free time. */
double dti_absence(dti_gaps *g, const dti_idle *i);

/* Area of absence: the same times bytes; divided by them where it is negative. */
double dti_absence_area(dti_gaps *g, const dti_idle *i);

/* Load above the limit in the gap, summed over its ops: of the whole load, signed; and of what is
 * left, where it is above. */
double dti_load_over(dti_gaps *g, const dti_idle *i);
double dti_left_over(dti_gaps *g, const dti_idle *i);

/* The four scores weighted and summed, each as a share of the most that it is of any gap when
 * dti_gaps_weigh is called, without its sign: seconds, seconds times bytes and bytes are alike
 * then. A score that is 0 of all gaps adds nothing. */
void dti_gaps_weigh(dti_gaps *g, const double weight[DTI_GAP_SCORES]);
double dti_weighted(dti_gaps *g, const dti_idle *i);

#endif
