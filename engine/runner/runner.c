/* A runner's life: memory of the device and of the tiers, threads, plans. */
#include "engine/runner/runner.h"

#include <inttypes.h>
#include <string.h>

#include "engine/base/alloc.h"
#include "engine/base/cpu.h"
#include "engine/base/numbers.h"
#include "engine/base/numbers_text.h"
#include "engine/runner/runner_internal.h"

/* ---- what is reserved ---- */

static dt_status reserve_tier(dt_runner *r, dt_tier tier, dt_err *err)
{
    dti_tier *t = &r->tier[tier];
    const dt_tier_opts o = {r->o.tier_bytes[tier], r->o.disk_path, r->o.checksum};
    char count[DT_HUMAN_BYTES];
    if (o.bytes == 0)
        return DT_OK;
    if (r->o.tier[tier] == NULL)
        return DT_FAIL(err, DT_E_INTERNAL, "%" PRIu64 " bytes of the %s tier, and no such tier",
            o.bytes, dt_tier_name((int)tier));
    DT_TRY(err, r->o.tier[tier]->reserve(&o, &t->state, &t->note, err),
        "reserve %s bytes of the %s tier", dt_human_count(count, o.bytes), dt_tier_name((int)tier));
    t->desc = r->o.tier[tier];
    t->map = t->desc->map != NULL ? t->desc->map(t->state) : NULL;
    return DT_OK;
}

/* The numbers of a run lie before the arena, so that its end is that of the reservation. */
static dt_status reserve_device(dt_runner *r, dt_err *err)
{
    enum { NUMBERS = 256 };
    const dt_driver *d = r->d;
    const uint64_t arena = dt_align_up(r->o.arena_bytes, DT_ALIGN);
    char count[DT_HUMAN_BYTES];
    void *here;
    _Static_assert(sizeof *r->there <= NUMBERS && NUMBERS % DT_ALIGN == 0, "they fit");
    DT_TRY(err, d->open(r->n_stream, &r->device, err), "open the %s device", d->name);
    DT_TRY(err, d->reserve(r->device, NUMBERS + arena, &r->reserved, err),
        "reserve %s bytes of %s memory", dt_human_count(count, arena), d->name);
    r->there = r->reserved;
    r->base = (unsigned char *)r->reserved + NUMBERS;
    DT_CHECK(d->pin(r->device, sizeof *r->here, &here, err));
    r->here = here;
    memset(r->here, 0, sizeof *r->here);
    for (int t = 0; t < DT_TIERS; t++)
        if (r->tier[t].map != NULL)
            DT_TRY(err, d->reach(r->device, r->tier[t].map, r->o.tier_bytes[t], err),
                "pin %s bytes of the %s tier", dt_human_count(count, r->o.tier_bytes[t]),
                dt_tier_name(t));
    return DT_OK;
}

/* How many threads a stream's own thread computes with; 0: it has none. Copies to and from the host
 * want one only where they would take the calling one's time. What the host computes beside a
 * device has the whole team: the calling thread only puts work on queues. */
static int team_of(const dt_runner *r, int stream)
{
    const dt_stream *x = &r->stream[stream];
    const bool used = r->o.tier_bytes[x->tier] > 0;
    if (stream == DT_MAIN_STREAM)
        return 0;
    if (x->kind == DT_STREAM_COMPUTE)
        return used ? r->o.threads : 0;
    return x->tier == DT_TIER_HOST ? r->o.copy_threads && r->d->immediate : used;
}

/* What is kept by entry of the map. */
static dt_status reserve_entries(dt_runner *r, dt_err *err)
{
    const size_t n = r->o.map->n;
    r->turned = dt_alloc(n, 1);
    r->beside = dt_alloc(n, 1);
    r->squares = dt_alloc(n, sizeof *r->squares);
    return r->turned != NULL && r->beside != NULL && r->squares != NULL
               ? DT_OK
               : DT_FAIL(err, DT_E_NOMEM, "no memory for a runner");
}

static dt_status reserve(dt_runner *r, dt_err *err)
{
    DT_CHECK(reserve_entries(r, err));
    for (int t = 0; t < DT_TIERS; t++)
        DT_CHECK(reserve_tier(r, (dt_tier)t, err));
    DT_CHECK(reserve_device(r, err));
    if (r->o.map->two && r->tier[DT_TIER_DISK].map != NULL && !r->d->immediate)
        return DT_FAIL(err, DT_E_CONFIG,
            "two generations want a disk tier that is written and read, and '%s' is mapped: set "
            "memory.tier = disk, or memory.generations = 1",
            r->tier[DT_TIER_DISK].desc->name);
    if (dt_map_delays(r->o.map) && !r->d->immediate)
        return DT_FAIL(err, DT_E_CONFIG,
            "the map delays updates, which only a processor makes: the %s device wants one that "
            "does not",
            r->d->name);
    int team[DT_MAX_STREAMS] = {0};
    for (int s = 0; s < r->n_stream; s++)
        team[s] = team_of(r, s);
    return dti_streams_create(&r->streams, team, err);
}

/* It begins where slots of the disk do, which unbuffered files want of memory too. */
dt_status dti_stage_reserve(dt_runner *r, int stream, uint64_t bytes, dt_err *err)
{
    dti_stage *g = &r->stage[stream];
    const uint64_t align = dt_tier_align(DT_TIER_DISK);
    size_t all;
    if (bytes <= g->bytes)
        return DT_OK;
    void *block = NULL;
    if (!dti_add_bytes(bytes, align, &all))
        return DT_FAIL(err, DT_E_NOMEM, "no memory for %" PRIu64 " bytes on their way", bytes);
    DT_TRY(err, r->d->pin(r->device, all, &block, err), "%zu bytes on their way to and from a tier",
        all);
    if (g->block != NULL)
        r->d->unpin(r->device, g->block);
    g->block = block;
    g->base = (unsigned char *)block + (align - (uintptr_t)block % align) % align;
    g->bytes = bytes;
    return DT_OK;
}

/* ---- life ---- */

dt_status dt_runner_create(dt_runner **out, const dt_runner_opts *o, dt_err *err)
{
    *out = NULL;
    dt_runner *r = dt_alloc(1, sizeof *r);
    if (r == NULL)
        return DT_FAIL(err, DT_E_NOMEM, "no memory for a runner");
    r->o = *o;
    r->d = dti_runner_driver(o);
    r->o.threads = dt_cpu_setup(o->threads);
    r->n_stream = dt_usual_streams(r->stream, !r->d->host_memory);
    const dt_status st = reserve(r, err);
    r->o.disk_path = NULL; /* the caller's */
    if (st != DT_OK) {
        dt_runner_destroy(r);
        return st;
    }
    *out = r;
    return DT_OK;
}

static void release_device(dt_runner *r)
{
    const dt_driver *d = r->d;
    if (r->device == NULL)
        return;
    if (r->input.base[0] != NULL)
        d->unpin(r->device, r->input.base[0]);
    if (r->here != NULL)
        d->unpin(r->device, r->here);
    for (int s = 0; s < r->n_stream; s++)
        if (r->stage[s].block != NULL)
            d->unpin(r->device, r->stage[s].block);
    if (r->reserved != NULL)
        d->release(r->device, r->reserved);
    d->close(r->device);
}

void dt_runner_destroy(dt_runner *r)
{
    if (r == NULL)
        return;
    dti_streams_destroy(r->streams);
    for (size_t i = 0; i < r->n_plan; i++)
        dti_graphs_forget(r, &r->plan[i]);
    dti_unbind(r);
    release_device(r);
    for (int t = 0; t < DT_TIERS; t++)
        if (r->tier[t].desc != NULL)
            r->tier[t].desc->release(r->tier[t].state);
    dt_free(r->turned);
    dt_free(r->beside);
    dt_free(r->squares);
    dt_free(r);
}

/* Whether the arena and the tiers are large enough. */
static bool has_room(const dt_runner *r, const dt_plan *plan)
{
    for (int t = 0; t < DT_TIERS; t++)
        if (plan->tier_peak[t] > r->o.tier_bytes[t])
            return false;
    return plan->peak <= r->o.arena_bytes;
}

dt_status dt_runner_add(dt_runner *r, const dt_plan *plan, int *id, dt_err *err)
{
    if (!has_room(r, plan))
        return DT_FAIL(err, DT_E_INTERNAL, "a plan larger than the arena or a tier");
    size_t at = 0; /* of one that was dropped */
    while (at < r->n_plan && r->plan[at].step != NULL)
        at++;
    if (!dt_grow(&r->plan, &r->cap_plan, at, sizeof *r->plan))
        return DT_FAIL(err, DT_E_NOMEM, "no memory to bind a plan");
    if (at == r->n_plan)
        r->plan[r->n_plan++] = (dti_plan){0}; /* destroy frees it from here on */
    dti_unbind_plan(&r->plan[at]);
    *id = (int)at;
    const dt_status st = dti_bind(r, plan, &r->plan[at], err);
    if (st != DT_OK) /* its number is for the next */
        dti_unbind_plan(&r->plan[at]);
    return st;
}

void dt_runner_drop(dt_runner *r, int id)
{
    dti_graphs_forget(r, &r->plan[id]);
    dti_unbind_plan(&r->plan[id]);
}

/* ---- what it is asked and told ---- */

const char *dt_runner_note(const dt_runner *r, dt_tier tier)
{
    return r->tier[tier].note;
}

const char *dt_runner_not_kept(const dt_runner *r)
{
    return r->plain[0] != '\0' ? r->plain : NULL;
}

void dti_runner_set_delay(dt_runner *r, uint64_t seed)
{
    r->delay_seed = seed;
}

bool dti_runner_overflowed(const dt_runner *r)
{
    return r->here->overflow != 0;
}

dt_runner_stats dt_runner_get_stats(const dt_runner *r)
{
    dt_runner_stats all = r->stats;
    all.stall_seconds = dti_streams_stalled(r->streams);
    return all;
}

void dt_runner_reset_stats(dt_runner *r)
{
    r->stats = (dt_runner_stats){0};
    dti_streams_forget(r->streams);
}

void dt_runner_put_stats(dt_runner *r, const dt_runner_stats *s)
{
    r->stats = *s; /* a checked run waits for no stream */
}

int64_t dti_runner_sample(const dt_runner *r)
{
    return dt_shape_sample(&r->o.graph->input);
}

int64_t dti_runner_labels(const dt_runner *r)
{
    return dt_graph_labels(r->o.graph);
}

dt_label_kind dti_runner_label_kind(const dt_runner *r)
{
    return dt_graph_label_kind(r->o.graph);
}
