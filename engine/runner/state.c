/* What lives on between steps: initial values, values in PyTorch's layout, and what is
 * asked about gradients before an update. */
#include <math.h>
#include <string.h>

#include "engine/base/philox.h"
#include "engine/base/team.h"
#include "engine/runner/runner_internal.h"

/* ---- bytes ---- */

dt_status dti_read(dt_runner *r, void *to, uint64_t off, uint64_t bytes, dt_err *err)
{
    DT_CHECK(r->d->copy(r->device, DT_MAIN_STREAM, to, r->base + off, bytes, err));
    return r->d->finish_queue(r->device, DT_MAIN_STREAM, err);
}

dt_status dti_fill(dt_runner *r, uint64_t off, int byte, uint64_t bytes, dt_err *err)
{
    DT_CHECK(r->d->fill(r->device, DT_MAIN_STREAM, r->base + off, byte, bytes, err));
    return r->d->finish_queue(r->device, DT_MAIN_STREAM, err);
}

void *dt_runner_home(dt_runner *r, int32_t home)
{
    return dti_home_at(r, &r->o.map->home[home]);
}

dt_status dti_runner_read(dt_runner *r, int32_t home, void *to, size_t bytes, dt_err *err)
{
    return dti_home_read(r, &r->o.map->home[home], 0, to, bytes, err);
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

/* Values [at, at + count), of which every four come from one draw. */
static void draw(
    const dt_param_info *p, uint64_t seed, uint32_t key, float *to, int64_t at, int64_t count)
{
    const float scale = (float)p->scale;
    for (int64_t i = at / 4 * 4; i < at + count; i += 4) {
        const dt_u32x4 u = dt_random(seed, DT_RANDOM_INIT, key, 0, (uint64_t)i / 4);
        float v[4];
        if (p->init == DT_INIT_NORMAL) {
            normal_pair(u.v[0], u.v[1], &v[0], &v[1]);
            normal_pair(u.v[2], u.v[3], &v[2], &v[3]);
        }
        for (int64_t k = i < at ? at - i : 0; k < 4 && i + k < at + count; k++)
            to[i + k - at] =
                scale * (p->init == DT_INIT_NORMAL ? v[k] : 2.0f * dt_unit(u.v[k]) - 1.0f);
    }
}

/* Values [at, at + count) of a tile are where the whole parameter has them. */
static void draw_part(const dt_param_info *p, dt_part part, uint64_t seed, uint32_t key, float *to,
    int64_t at, int64_t count)
{
    while (count > 0) {
        int64_t run;
        const int64_t place = dti_part_place(p, part, at, &run), n = count < run ? count : run;
        draw(p, seed, key, to, place, n);
        to += n;
        at += n;
        count -= n;
    }
}

/* First values [at, at + count) of a parameter. */
typedef struct drawing {
    const dt_param_info *p;
    dt_part part;
    uint64_t seed;
    uint32_t key;
    float *to;
    int64_t at, count;
} drawing;

enum { DRAWN = 1 << 14 }; /* by a task */

static void draw_some(const void *job, int64_t i)
{
    const drawing *d = job;
    const int64_t from = i * DRAWN, left = d->count - from, n = left < DRAWN ? left : DRAWN;
    if (d->part.of > 0)
        draw_part(d->p, d->part, d->seed, d->key, d->to + from, d->at + from, n);
    else
        draw(d->p, d->seed, d->key, d->to + from, d->at + from, n);
}

static void initial(const drawing *d)
{
    if (d->p->init == DT_INIT_NORMAL || d->p->init == DT_INIT_UNIFORM) {
        dt_team_run((d->count + DRAWN - 1) / DRAWN, draw_some, d);
        return;
    }
    for (int64_t i = 0; i < d->count; i++)
        d->to[i] = d->p->init == DT_INIT_ONE ? 1.0f : 0.0f;
}

static dt_status init_parameter(dt_runner *r, int32_t home, dt_err *err)
{
    const dt_home *h = &r->o.map->home[home];
    const dt_node *node = &r->o.graph->node[h->node];
    const uint32_t key = (uint32_t)(node->key * DT_MAX_PARAM + h->param);
    dti_passage w;
    DT_CHECK(dti_passage_open(&w, r, home, err));
    dt_status st = DT_OK;
    while (st == DT_OK && dti_passage_next(&w)) {
        const drawing d = {&node->info.param[h->param], node->part, r->o.seed, key, w.piece,
            (int64_t)w.at, (int64_t)w.n};
        initial(&d);
        st = dti_passage_put(&w, err);
    }
    dti_passage_close(&w);
    return st;
}

dt_status dt_runner_clear(dt_runner *r, dt_err *err)
{
    const dt_map *m = r->o.map;
    DT_CHECK(dti_fill(r, 0, 0, m->bytes, err));
    for (size_t i = 0; i < m->n; i++)
        if (m->home[i].tier != DT_AT_DEVICE)
            DT_CHECK(dti_home_zero(r, &m->home[i], err));
    return DT_OK;
}

dt_status dt_runner_init(dt_runner *r, dt_err *err)
{
    const dt_map *m = r->o.map;
    DT_CHECK(dt_runner_clear(r, err));
    for (size_t i = 0; i < m->n; i++) {
        const dt_home *h = &m->home[i];
        if (h->port == DT_P)
            DT_TRY(err, init_parameter(r, (int32_t)i, err), "initialise %s", h->name);
    }
    return DT_OK;
}

/* ---- gradients and running statistics ---- */

static dt_floats floats_at(const unsigned char *at, const dt_home *h)
{
    return (dt_floats){(const float *)(const void *)at, (int64_t)(h->bytes / sizeof(float))};
}

/* Up to DTI_SQUARES tensors of the map, from *at on, for which a device is waited for once. What
 * has to be brought to it is the last of them. */
static dt_status some_squares(
    dt_runner *r, dt_port port, size_t *at, double *all, int32_t *bad, dt_err *err)
{
    const dt_map *m = r->o.map;
    dt_floats of[DTI_SQUARES];
    double sum[DTI_SQUARES];
    int32_t home[DTI_SQUARES];
    size_t n = 0;
    for (bool full = false; *at < m->n && n < DTI_SQUARES && !full; ++*at) {
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
