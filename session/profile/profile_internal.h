/* What the files of a profile share: the run in stages (profile.c), what copies beside its ops
 * (loads.c), what its rows come to (rows.c), and codecs (codecs.c). */
#ifndef DT_SESSION_PROFILE_PROFILE_INTERNAL_H
#define DT_SESSION_PROFILE_PROFILE_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>

#include "session/density_count.h"
#include "session/device_rates.h"
#include "session/feeds.h"
#include "session/profile.h"
#include "session/rig.h"

/* Of timed steps, at the most; steps beside a load; loads. */
enum { DTI_ROUNDS = 4, DTI_BESIDE = 9, DTI_MOST_LOADS = 5 };
/* Bytes of the largest copy, and places for it on either side. */
enum { DTI_LARGE = 16 << 20, DTI_SLOTS = 4 };

/* What n > 0 values, which are sorted, have below them by that share; in between in proportion. */
double dti_quantile(double *v, int64_t n, double share);
/* Of what was measured several times, as what disturbs makes it longer. */
static inline double dti_lower_quartile(double *v, int64_t n)
{
    return dti_quantile(v, n, 0.25);
}

/* ---- what is copied beside the ops ---- */

/* What a thread copies, over and over, beside the ops.
 * @idle:   nothing: steps are made as they are in training, which on a device are not those that
 * are timed, row after row
 * @device: between its memory and pinned one; NULL: memory to memory, or a tier */
typedef struct dti_load {
    const char *name;
    bool idle;
    dti_device_rates *device;
    dt_tier tier;
    dt_direction direction;
    dt_usual_stream stream;
    const dt_tier_desc *desc; /* NULL: of no tier with files */
    void *state;
    unsigned char *from, *to;
    atomic_bool stop, flows; /* flows: the first copy is made, or has failed */
    double bytes, seconds;   /* done while it was on */
    size_t size;             /* of one copy */
    uint64_t n_slot;         /* of the disk, one behind the other */
    double alone;            /* its seconds without ops beside it */
    double step;             /* of the steps beside it: lower quartile */
    dt_err *why;             /* a copy failed, and no more were made, for this; else empty */
} dti_load;

/* @costs: which the rates of links become
 * @on:    the load that runs, if one is @running
 * @why:   what its copies failed for */
typedef struct dti_loads {
    const dt_session *s;
    dti_device_rates *device; /* NULL: the device is the processor */
    dt_costs *costs;
    dti_load load[DTI_MOST_LOADS];
    int n, on;
    pthread_t thread;
    bool running;
    dt_err why;
} dti_loads;

/* Links are measured alone, with copies of the size that the counted tensors' bytes travel in.
 * dti_loads_close also after a failure. */
dt_status dti_loads_open(dti_loads *l, const dti_density_count *count, dt_err *err) DT_NODISCARD;
void dti_loads_close(dti_loads *l);
/* Comes back when copies flow. */
dt_status dti_load_start(dti_loads *l, int i, dt_err *err) DT_NODISCARD;
/* Of the one that runs, or none. What a copy failed with: beside the last of the steps was nothing
 * then.
 */
dt_status dti_load_stop(dti_loads *l, dt_err *err) DT_NODISCARD;

/* How long who waits for an event takes to go on. @asked: one has been told and not answered */
typedef struct dti_relay {
    pthread_mutex_t lock;
    pthread_cond_t turned;
    bool asked, stop;
    pthread_t thread[2];
    int n_thread;
    double seconds;
    int64_t turns;
} dti_relay;

/* Where no thread can be had nothing is known, and nothing is measured. */
void dti_relay_start(dti_relay *r);
/* Seconds until a thread that is told goes on; of a relay that was not started 0. */
double dti_relay_stop(dti_relay *r);

/* ---- the run ---- */

typedef struct dti_profiling {
    dt_session *s;
    const dt_profile_opts *o;
    dt_profile *out;
    dt_policies keep_all;
    dt_feeds feeds;
    dt_rig rig;
    dti_density_count count;
    dt_trace trace;
    double **row;    /* by plan: of each row the seconds of each timed step */
    double *step;    /* of the stage's steps */
    bool *quiet;     /* of the timed steps the quarter that took least */
    double spread;   /* what those lie apart */
    double *between; /* of each timed step, what lies between its rows and around them */
    double first;    /* when the first row of the step began */
    struct {
        int64_t step;
        size_t plan;
        int32_t row;
        double end;
    } last;                  /* row that ran */
    int64_t in_stage, timed; /* steps */
    int64_t beside;          /* the step before which the first copies begin; 0: not known yet */
    bool done;
    dti_device_rates *device; /* NULL: the device is the processor */
    dti_loads loads;
    dti_relay relay;
} dti_profiling;

static inline int64_t dti_most_timed(const dti_profiling *p)
{
    return DTI_ROUNDS * p->o->steps;
}

/* Of a row's seconds, by timed step. */
double dti_mean_of_quiet(const dti_profiling *p, const double *v);

/* From the rows of the timed steps and the steps beside loads to costs. DT_E_DEVICE where they do
 * not add up to the step. */
dt_status dti_profile_rows(dti_profiling *p, dt_err *err) DT_NODISCARD;

/* Whether what rows and the gaps around them take, together, is a step: within 2 % of it and
 * 50 microseconds besides. */
bool dti_profile_adds_up(double step, double told);

/* What steps are worth whose quietest differ by @spread: up to a tenth nothing is said of it, up to
 * a quarter a line is, and beyond a profile of them is refused; all that and a millisecond. */
typedef enum dti_quiet { DTI_QUIET, DTI_RESTLESS, DTI_DISTURBED } dti_quiet;
dti_quiet dti_profile_quiet(double step, double spread);

/* Seconds of every codec, at several densities; @device: by a device of that driver, or NULL. */
dt_status dti_profile_codecs(
    dt_costs *to, const dt_driver *driver, dti_device_rates *device, dt_err *err) DT_NODISCARD;

#endif
