#define _POSIX_C_SOURCE 200809L /* nanosleep */

#include "engine/runner/runner.h"

#include <inttypes.h>
#include <string.h>
#include <time.h>

#include "engine/base/alloc.h"
#include "engine/base/cpu.h"
#include "engine/runner/runner_parts.h"

enum { MOST_DELAY = 300000 /* ns */ };

static unsigned copy_threads(const dt_runner_opts *o)
{
    unsigned threads = 0;
    if (o->copy_threads && o->driver == NULL)
        threads |= 1U << DT_STREAM_OUT | 1U << DT_STREAM_IN;
    if (o->tier_bytes[DT_TIER_DISK] > 0)
        threads |= 1U << DT_STREAM_WRITE | 1U << DT_STREAM_READ;
    return threads;
}

static dt_status reserve(dt_runner *r, dt_err *err)
{
    DT_CHECK(dti_tiers_reserve(r, err));
    DT_CHECK(r->o.driver != NULL ? dti_device_open(r, err)
                                 : dt_arena_reserve(&r->arena, r->o.arena_bytes, err));
    return dt_streams_create(&r->streams, copy_threads(&r->o), err);
}

dt_status dt_runner_create(dt_runner **out, const dt_runner_opts *o, dt_err *err)
{
    *out = NULL;
    dt_runner *r = dt_alloc(1, sizeof *r);
    if (r == NULL)
        return DT_FAIL(err, DT_E_NOMEM, "no memory for a runner");
    r->o = *o;
    (void)dt_cpu_setup(o->threads);
    const dt_status st = reserve(r, err);
    r->o.disk_path = NULL; /* the caller's */
    if (st != DT_OK) {
        dt_runner_destroy(r);
        return st;
    }
    *out = r;
    return DT_OK;
}

void dt_runner_destroy(dt_runner *r)
{
    if (r == NULL)
        return;
    dt_streams_destroy(r->streams);
    for (size_t i = 0; i < r->n_plan; i++) {
        dti_device_forget(r, &r->plan[i]);
        dt_free(r->plan[i].stretch);
        dt_free(r->plan[i].step);
        dt_free(r->plan[i].touched);
        dt_free(r->plan[i].op);
        dt_free(r->plan[i].tensor);
    }
    for (size_t i = 0; i < r->n_state; i++) {
        const dt_kernels *k = dt_kernels_of(r->state[i].desc, r->o.device);
        if (k->destroy != NULL && r->state[i].state != NULL)
            k->destroy(r->state[i].state);
    }
    dt_free(r->plan);
    dt_free(r->state);
    dti_device_close(r);
    dti_gather_free(r);
    dti_tiers_release(r);
    dt_arena_release(&r->arena);
    dt_free(r);
}

dt_status dt_runner_add(
    dt_runner *r, const dt_program *p, const dt_plan *plan, int *id, dt_err *err)
{
    if (plan->peak > r->o.arena_bytes || plan->host_peak > r->o.tier_bytes[DT_TIER_HOST] ||
        plan->disk_peak > r->o.tier_bytes[DT_TIER_DISK])
        return DT_FAIL(err, DT_E_INTERNAL, "a plan larger than the arena or a tier");
    if (!dt_grow((void **)&r->plan, &r->cap_plan, r->n_plan, sizeof *r->plan))
        return DT_FAIL(err, DT_E_NOMEM, "no memory to bind a plan");
    dti_plan *to = &r->plan[r->n_plan];
    memset(to, 0, sizeof *to);
    *id = (int)r->n_plan++; /* destroy frees it from here on */
    return dti_bind(r, p, plan, to, err);
}

/* Steele, Lea and Flood's splitmix, 2014. */
static uint64_t mixed(uint64_t z)
{
    z += 0x9E3779B97F4A7C15u;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return z ^ z >> 31;
}

/* In each run some threads are later than others, so that they come far apart. */
static void delay(const dti_run *u, int thread, int32_t step)
{
    const uint64_t run = mixed(u->r->o.delay_seed + mixed(dt_streams_runs(u->r->streams)));
    const uint64_t most = MOST_DELAY >> mixed(run + (uint64_t)thread) % 8;
    const uint64_t late = mixed(run + DT_STREAMS + (uint64_t)step) % (most + 1);
    (void)nanosleep(&(struct timespec){.tv_nsec = (long)late}, NULL);
}

/* The steps of one thread. */
static dt_status run_thread(void *arg, int thread, dt_err *err)
{
    const dti_run *u = arg;
    dt_streams *all = u->r->streams;
    const bool late = u->r->o.delay_seed != 0 && u->p->threads != 0;
    for (int32_t i = u->p->begin[thread]; i >= 0; i = u->p->step[i].next) {
        dti_step *s = &u->p->step[i];
        if (s->kind == DTI_WAIT) {
            dt_stream_wait(all, thread, s->event);
            continue;
        }
        if (dt_streams_stopped(all))
            break;
        if (late)
            delay(u, thread, i);
        DT_CHECK(dti_step_run(u, s, thread, err));
        if (s->event >= 0)
            dt_stream_signal(all, s->event);
    }
    return DT_OK;
}

dt_status dt_runner_run(dt_runner *r, int id, const dt_run_args *a, dt_err *err)
{
    dti_run u = {r, &r->plan[id], a};
    r->overflow = 0;
    if (r->o.driver != NULL)
        return dti_queue_run(&u, err);
    return dt_streams_run(r->streams, u.p->threads, run_thread, &u, err);
}

void dt_runner_set_probe(dt_runner *r, const dt_probe *p)
{
    r->probe = p;
}

void dt_runner_set_clock(dt_runner *r, const dt_clock *c)
{
    r->clock = c;
}

bool dt_runner_overflowed(const dt_runner *r)
{
    return r->overflow != 0;
}

dt_runner_stats dt_runner_get_stats(const dt_runner *r)
{
    dt_runner_stats all = {.copy_seconds = r->moved[DT_STREAM_COMPUTE].seconds,
        .stall_seconds = dt_streams_stalled(r->streams)};
    for (int s = 0; s < DT_STREAMS; s++)
        for (int t = 0; t < DT_TIERS; t++) {
            all.out[t] += r->moved[s].out[t];
            all.in[t] += r->moved[s].in[t];
        }
    return all;
}

void dt_runner_reset_stats(dt_runner *r)
{
    memset(r->moved, 0, sizeof r->moved);
    dt_streams_forget(r->streams);
}

void *dt_runner_home(dt_runner *r, int32_t home)
{
    return r->arena.base + r->o.map->home[home].off;
}

dt_status dt_runner_read(dt_runner *r, int32_t home, void *to, size_t bytes, dt_err *err)
{
    return dti_read(r, to, r->o.map->home[home].off, bytes, err);
}

int64_t dt_runner_sample(const dt_runner *r)
{
    return dt_shape_sample(&r->o.graph->input);
}

int64_t dt_runner_labels(const dt_runner *r)
{
    return dt_graph_labels(r->o.graph);
}
