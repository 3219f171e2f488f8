/* What lives in the arena between steps: initial values, and values in PyTorch's layout. */
#include <math.h>

#include "engine/base/alloc.h"
#include "engine/base/philox.h"
#include "engine/runner/room.h"
#include "engine/runner/runner_parts.h"

static dt_call home_call(const dt_runner *r, const dt_home *h)
{
    return (dt_call){.node = &r->o.graph->node[h->node],
        .graph = r->o.graph,
        .form = DT_BACKWARD,
        .dtype = r->o.graph->dtype,
        .n = r->o.map->home_n,
        .home_n = r->o.map->home_n,
        .needs_dx = true};
}

/* A parameter as it lives, in memory of the processor: a copy, where the device has its own. */
static dt_status borrow(dt_runner *r, const dt_home *h, void **bytes, dt_err *err)
{
    *bytes = r->arena.base + h->off;
    if (r->o.driver == NULL)
        return DT_OK;
    *bytes = dt_alloc(h->bytes, 1);
    return *bytes != NULL ? DT_OK : DT_FAIL(err, DT_E_NOMEM, "no memory for a copy of %s", h->name);
}

static void give_back(const dt_runner *r, void *bytes)
{
    if (r->o.driver != NULL)
        dt_free(bytes);
}

dt_status dt_runner_put(dt_runner *r, int32_t home, const float *plain, dt_err *err)
{
    const dt_home *h = &r->o.map->home[home];
    const dt_call c = home_call(r, h);
    const dt_kernels *k = dt_kernels_of(c.node->desc, r->o.device);
    void *lives;
    dt_status st = DT_OK;
    if (k->param_put == NULL)
        return dti_write(r, h->off, plain, h->bytes, err);
    DT_CHECK(borrow(r, h, &lives, err));
    st = k->param_put(&c, h->param, plain, lives, err);
    if (st == DT_OK && r->o.driver != NULL)
        st = dti_write(r, h->off, lives, h->bytes, err);
    give_back(r, lives);
    return st;
}

dt_status dt_runner_get(dt_runner *r, int32_t home, float *plain, dt_err *err)
{
    const dt_home *h = &r->o.map->home[home];
    const dt_call c = home_call(r, h);
    const dt_kernels *k = dt_kernels_of(c.node->desc, r->o.device);
    void *lives;
    dt_status st = DT_OK;
    if (k->param_get == NULL)
        return dti_read(r, plain, h->off, h->bytes, err);
    DT_CHECK(borrow(r, h, &lives, err));
    if (r->o.driver != NULL)
        st = dti_read(r, lives, h->off, h->bytes, err);
    if (st == DT_OK)
        st = k->param_get(&c, h->param, lives, plain, err);
    give_back(r, lives);
    return st;
}

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
        if (h->port != DT_P)
            continue;
        const dt_param_info *p = &r->o.graph->node[h->node].info.param[h->param];
        const int64_t count = dt_param_count(p);
        dti_room room;
        DT_TRY(err, dti_room_take(&room, r, (size_t)count, err), "initialise %s", h->name);
        initial(p, r->o.seed, (uint32_t)(r->o.graph->node[h->node].key * DT_MAX_PARAM + h->param),
            room.p, count);
        const dt_status st = dt_runner_put(r, (int32_t)i, room.p, err);
        dti_room_give(&room);
        DT_TRY(err, st, "initialise %s", h->name);
    }
    return DT_OK;
}

/* Infinities and NaNs are the floats whose exponent is all ones. */
static bool all_finite(const void *bytes, size_t n)
{
    const uint32_t *v = bytes;
    const int64_t count = (int64_t)(n / sizeof *v);
    uint32_t most = 0;
#pragma omp parallel for schedule(static) reduction(max : most) if (count > 1 << 16)
    for (int64_t i = 0; i < count; i++) {
        const uint32_t magnitude = v[i] & 0x7FFFFFFFu;
        most = magnitude > most ? magnitude : most;
    }
    return most < 0x7F800000u;
}

dt_status dt_runner_nonfinite(dt_runner *r, dt_port port, int32_t *bad, dt_err *err)
{
    const dt_map *m = r->o.map;
    double norm;
    if (r->o.driver != NULL)
        return dt_runner_norm(r, port, &norm, bad, err);
    *bad = -1;
    for (size_t i = 0; i < m->n && *bad < 0; i++)
        if (m->home[i].port == port &&
            !all_finite(r->arena.base + m->home[i].off, m->home[i].bytes))
            *bad = (int32_t)i;
    return DT_OK;
}
