/* What lives on between steps: initial values, values in PyTorch's layout, and what is
 * asked about gradients before an update. */
#include <math.h>
#include <string.h>

#include "engine/base/alloc.h"
#include "engine/base/philox.h"
#include "engine/runner/runner_internal.h"

/* ---- bytes ---- */

dt_status dti_read(dt_runner *r, void *to, uint64_t off, uint64_t bytes, dt_err *err)
{
    DT_CHECK(r->d->copy(r->device, DT_COMPUTE_STREAM, to, r->base + off, bytes, err));
    return r->d->finish_queue(r->device, DT_COMPUTE_STREAM, err);
}

dt_status dti_fill(dt_runner *r, uint64_t off, int byte, uint64_t bytes, dt_err *err)
{
    DT_CHECK(r->d->fill(r->device, DT_COMPUTE_STREAM, r->base + off, byte, bytes, err));
    return r->d->finish_queue(r->device, DT_COMPUTE_STREAM, err);
}

void *dt_runner_home(dt_runner *r, int32_t home)
{
    return dti_home_at(r, &r->o.map->home[home]);
}

dt_status dti_runner_read(dt_runner *r, int32_t home, void *to, size_t bytes, dt_err *err)
{
    const dt_home *h = &r->o.map->home[home];
    if (h->tier == DT_AT_DEVICE)
        return dti_read(r, to, h->off, bytes, err);
    DT_ASSERT(bytes == h->bytes);
    return dti_home_read(r, h, to, err);
}

dt_status dti_staging_take(dt_staging *to, dt_runner *r, size_t count, dt_err *err)
{
    const uint64_t from = (r->o.map->bytes + DT_ALIGN - 1) / DT_ALIGN * DT_ALIGN;
    size_t bytes;
    *to = (dt_staging){0};
    if (r->d->host_memory && dt_mul_bytes(count, sizeof *to->p, &bytes) &&
        from <= r->o.arena_bytes && bytes <= r->o.arena_bytes - from) {
        to->p = (float *)(void *)(r->base + from);
        return DT_OK;
    }
    to->owned = true;
    to->p = dt_alloc(count, sizeof *to->p);
    if (to->p == NULL)
        return DT_FAIL(err, DT_E_NOMEM, "no memory for a weight of %zu values", count);
    return DT_OK;
}

void dti_staging_give(dt_staging *s)
{
    if (s->owned)
        dt_free(s->p);
    *s = (dt_staging){0};
}

/* ---- layouts ---- */

static dt_call home_call(const dt_runner *r, const dt_home *h)
{
    return (dt_call){.context = r->o.context,
        .node = &r->o.graph->node[h->node],
        .graph = r->o.graph,
        .form = DT_BACKWARD,
        .dtype = r->o.graph->dtype,
        .n = r->o.map->home_n,
        .home_n = r->o.map->home_n,
        .needs_dx = true};
}

/* Room in the arena for a copy of a parameter as it lives, behind what persists and behind @plain,
 * if that is there as well; NULL: there is none. */
static void *room_behind(const dt_runner *r, const dt_home *h, const float *plain)
{
    const dt_param_info *p = &r->o.graph->node[h->node].info.param[h->param];
    const uintptr_t base = (uintptr_t)r->base, at = (uintptr_t)plain;
    uint64_t from = dti_align_up(r->o.map->bytes);
    if (!r->d->host_memory)
        return NULL;
    if (at >= base && at - base < r->o.arena_bytes)
        from = dti_align_up((size_t)(at - base) + (size_t)dt_param_count(p) * sizeof(float));
    return from <= r->o.arena_bytes && h->bytes <= r->o.arena_bytes - from ? r->base + from : NULL;
}

/* A parameter as it lives, in memory of the processor: a copy, where that does not reach it. */
typedef struct borrowed {
    void *bytes;
    bool owned;
} borrowed;

static dt_status borrow(
    dt_runner *r, const dt_home *h, const float *plain, borrowed *b, dt_err *err)
{
    *b = (borrowed){.bytes = dti_home_on_host(r, h) ? dti_home_at(r, h) : room_behind(r, h, plain)};
    if (b->bytes == NULL)
        *b = (borrowed){dt_alloc(h->bytes, 1), true};
    return b->bytes != NULL ? DT_OK
                            : DT_FAIL(err, DT_E_NOMEM, "no memory for a copy of %s", h->name);
}

static void give_back(borrowed *b)
{
    if (b->owned)
        dt_free(b->bytes);
}

dt_status dti_runner_put(dt_runner *r, int32_t home, const float *plain, dt_err *err)
{
    const dt_home *h = &r->o.map->home[home];
    const dt_call c = home_call(r, h);
    const dt_kernels *k = dti_kernels_of(c.node->desc, r->o.context);
    borrowed lives;
    if (k->param_put == NULL)
        return dti_home_write(r, h, plain, err);
    DT_CHECK(borrow(r, h, plain, &lives, err));
    dt_status st = k->param_put(&c, h->param, plain, lives.bytes, err);
    if (st == DT_OK && !dti_home_on_host(r, h))
        st = dti_home_write(r, h, lives.bytes, err);
    give_back(&lives);
    return st;
}

dt_status dti_runner_get(dt_runner *r, int32_t home, float *plain, dt_err *err)
{
    const dt_home *h = &r->o.map->home[home];
    const dt_call c = home_call(r, h);
    const dt_kernels *k = dti_kernels_of(c.node->desc, r->o.context);
    borrowed lives;
    dt_status st = DT_OK;
    if (k->param_get == NULL)
        return dti_home_read(r, h, plain, err);
    DT_CHECK(borrow(r, h, plain, &lives, err));
    if (!dti_home_on_host(r, h))
        st = dti_home_read(r, h, lives.bytes, err);
    if (st == DT_OK)
        st = k->param_get(&c, h->param, lives.bytes, plain, err);
    give_back(&lives);
    return st;
}

/* ---- first values ---- */

/* Two normal numbers from two uniform ones: Box and Muller, 1958. */
static void normal_pair(uint32_t a, uint32_t b, float *x, float *y)
{
    const double radius = sqrt(-2.0 * log(((double)a + 1.0) * 0x1p-32));
    const double angle = 6.283185307179586 * ((double)b * 0x1p-32);
    *x = (float)(radius * cos(angle));
    *y = (float)(radius * sin(angle));
}

static void draw(const dt_param_info *p, uint64_t seed, uint32_t key, float *to, int64_t count)
{
    const float scale = (float)p->scale;
    for (int64_t i = 0; i < count; i += 4) {
        const dt_u32x4 u = dt_random(seed, DT_RANDOM_INIT, key, 0, (uint64_t)i / 4);
        float v[4];
        if (p->init == DT_INIT_NORMAL) {
            normal_pair(u.v[0], u.v[1], &v[0], &v[1]);
            normal_pair(u.v[2], u.v[3], &v[2], &v[3]);
        }
        for (int64_t k = 0; k < 4 && i + k < count; k++)
            to[i + k] = scale * (p->init == DT_INIT_NORMAL ? v[k] : 2.0f * dt_unit(u.v[k]) - 1.0f);
    }
}

static void initial(const dt_param_info *p, uint64_t seed, uint32_t key, float *to, int64_t count)
{
    if (p->init == DT_INIT_NORMAL || p->init == DT_INIT_UNIFORM) {
        draw(p, seed, key, to, count);
        return;
    }
    for (int64_t i = 0; i < count; i++)
        to[i] = p->init == DT_INIT_ONE ? 1.0f : 0.0f;
}

dt_status dt_runner_init(dt_runner *r, dt_err *err)
{
    const dt_map *m = r->o.map;
    DT_CHECK(dti_fill(r, 0, 0, m->bytes, err));
    for (size_t i = 0; i < m->n; i++) {
        const dt_home *h = &m->home[i];
        if (h->tier != DT_AT_DEVICE)
            DT_CHECK(dti_home_zero(r, h, err));
        if (h->port != DT_P)
            continue;
        const dt_param_info *p = &r->o.graph->node[h->node].info.param[h->param];
        const int64_t count = dt_param_count(p);
        dt_staging staging;
        DT_TRY(err, dti_staging_take(&staging, r, (size_t)count, err), "initialise %s", h->name);
        initial(p, r->o.seed, (uint32_t)(r->o.graph->node[h->node].key * DT_MAX_PARAM + h->param),
            staging.p, count);
        const dt_status st = dti_runner_put(r, (int32_t)i, staging.p, err);
        dti_staging_give(&staging);
        DT_TRY(err, st, "initialise %s", h->name);
    }
    return DT_OK;
}

/* ---- gradients and running statistics ---- */

static dt_floats floats_at(const unsigned char *at, const dt_home *h)
{
    return (dt_floats){(const float *)(const void *)at, (int64_t)(h->bytes / sizeof(float))};
}

/* Up to DT_SQUARES tensors of the map, from *at on, for which a device is waited for once. What has
 * to be brought to it is the last of them. */
static dt_status some_squares(
    dt_runner *r, dt_port port, size_t *at, double *all, int32_t *bad, dt_err *err)
{
    const dt_map *m = r->o.map;
    dt_floats of[DT_SQUARES];
    double sum[DT_SQUARES];
    int32_t home[DT_SQUARES];
    size_t n = 0;
    for (bool full = false; *at < m->n && n < DT_SQUARES && !full; ++*at) {
        const dt_home *h = &m->home[*at];
        unsigned char *bytes;
        if (h->port != port)
            continue;
        full = dti_home_at(r, h) == NULL;
        DT_CHECK(dti_home_bring(r, h, &bytes, err));
        home[n] = (int32_t)*at;
        of[n++] = floats_at(bytes, h);
    }
    if (n == 0)
        return DT_OK;
    DT_CHECK(r->d->squares(r->device, of, n, sum, err));
    for (size_t i = 0; i < n; i++) {
        if (!isfinite(sum[i]) && *bad < 0)
            *bad = home[i]; /* squares of floats never overflow a double */
        *all += sum[i];
    }
    return DT_OK;
}

dt_status dti_runner_watch(dt_runner *r, bool on, dt_err *err)
{
    r->watched = on;
    if (!on || r->d->immediate)
        return DT_OK;
    return DT_FAIL(err, DT_E_DEVICE,
        "updates are early, and the %s device does not say how large gradients were: set "
        "train.clip = 0 and train.finite = off, or train.update = step",
        r->d->name);
}

/* Of gradients that early updates have used up: in the order in which they would lie there. */
static double watched_squares(const dt_runner *r, int32_t *bad)
{
    double all = 0;
    for (size_t i = 0; i < r->o.map->n; i++) {
        if (r->o.map->home[i].role != DT_ROLE_WEIGHTS)
            continue;
        if (!isfinite(r->squares[i]) && *bad < 0)
            *bad = (int32_t)i;
        all += r->squares[i];
    }
    return all;
}

dt_status dti_runner_norm(dt_runner *r, dt_port port, double *norm, int32_t *bad, dt_err *err)
{
    double all = 0;
    *bad = -1;
    if (r->watched && port == DT_DP) {
        *norm = sqrt(watched_squares(r, bad));
        return DT_OK;
    }
    for (size_t at = 0; at < r->o.map->n;)
        DT_CHECK(some_squares(r, port, &at, &all, bad, err));
    *norm = sqrt(all);
    return DT_OK;
}

dt_status dti_runner_nonfinite(dt_runner *r, dt_port port, int32_t *bad, dt_err *err)
{
    const dt_map *m = r->o.map;
    double norm;
    if (r->d->finite == NULL || (r->watched && port == DT_DP))
        return dti_runner_norm(r, port, &norm, bad, err);
    *bad = -1;
    for (size_t i = 0; i < m->n && *bad < 0; i++) {
        bool yes = true;
        unsigned char *bytes;
        if (m->home[i].port != port)
            continue;
        DT_CHECK(dti_home_bring(r, &m->home[i], &bytes, err));
        const dt_floats of = floats_at(bytes, &m->home[i]);
        DT_CHECK(r->d->finite(r->device, &of, &yes, err));
        if (!yes)
            *bad = (int32_t)i;
    }
    return DT_OK;
}
