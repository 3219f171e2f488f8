/* Values between the layout they live in and PyTorch's, a piece after the other, so that loading,
 * saving and first values take little memory besides the plans'. */
#include "engine/base/alloc.h"
#include "engine/base/numbers.h"
#include "engine/runner/runner_internal.h"

static const dt_home *home_of(const dti_passage *w)
{
    return &w->runner->o.map->home[w->home];
}

static dt_call call_of(const dt_runner_opts *o, const dt_home *h)
{
    return (dt_call){.context = o->context,
        .node = &o->graph->node[h->node],
        .graph = o->graph,
        .form = DT_BACKWARD,
        .dtype = o->graph->dtype,
        .n = o->map->home_n,
        .home_n = o->map->home_n,
        .needs_dx = true};
}

/* ---- room ---- */

/* In the arena from *from on, which moves behind it; else of its own. */
static void *take(const dt_runner *r, uint64_t *from, size_t bytes, bool *owned)
{
    *owned = !r->d->host_memory || *from > r->o.arena_bytes || bytes > r->o.arena_bytes - *from;
    if (*owned)
        return dt_alloc(bytes, 1);
    void *at = r->base + *from;
    *from += dt_align_up(bytes, DT_ALIGN);
    return at;
}

/* Of all values as they live, in fp32. */
static size_t lives_bytes(const dt_home *h)
{
    return h->store == DT_STORE_CODES ? h->bytes * sizeof(float) : h->bytes;
}

static dt_status take_memory(dti_passage *w, bool apart, dt_err *err)
{
    const dt_home *h = home_of(w);
    uint64_t from = dt_align_up(w->runner->o.map->bytes, DT_ALIGN);
    w->borrowed = apart && (w->moment != NULL || !dti_home_on_host(w->runner, h));
    w->lives = w->borrowed ? take(w->runner, &from, lives_bytes(h), &w->lives_owned)
               : apart     ? dti_home_at(w->runner, h)
                           : NULL;
    w->piece = take(w->runner, &from, (size_t)w->step * sizeof *w->piece, &w->piece_owned);
    if (w->piece != NULL && (w->lives != NULL || !apart))
        return DT_OK;
    dti_passage_close(w);
    return DT_FAIL(err, DT_E_NOMEM, "no memory to bring %s into another layout", h->name);
}

/* Values of a piece: as many rows as fit, in steps of what goes at_once. */
static int64_t step_of(int64_t row, int64_t at_once, int64_t all)
{
    const int64_t unit = row * at_once, most = DTI_PIECE / (int64_t)sizeof(float);
    const int64_t step = unit == 0 ? all : unit < most ? most / unit * unit : unit;
    return step < all ? step : all;
}

/* How values are cut. Returns whether they live in a layout of their own. */
static bool cut(dti_passage *w, const dt_runner_opts *o, const dt_home *h)
{
    const dt_call c = call_of(o, h);
    const dt_kernels *k = dti_kernels_of(c.node->desc, o->context);
    const dt_param_info *p = &c.node->info.param[h->param];
    const int64_t all = dt_param_count(p);
    const bool apart = k->param_put != NULL;
    w->all = (size_t)all;
    w->row = apart && p->rank > 0 ? all / p->d[0] : 1;
    w->step =
        step_of(w->row, apart && k->param_rows != NULL ? k->param_rows(&c, h->param) : 1, all);
    return apart;
}

dt_status dti_passage_open(dti_passage *w, dt_runner *r, int32_t home, dt_err *err)
{
    *w = (dti_passage){.runner = r, .home = home};
    DT_CHECK(dti_check_team(r, r->o.map->threads, "weights lie as", err));
    const bool apart = cut(w, &r->o, home_of(w));
    DT_CHECK(dti_moment_open(&w->moment, r, home_of(w), err));
    return take_memory(w, apart, err);
}

/* As take does: bytes of *room, or 0 if there is too little. */
static uint64_t beside(uint64_t *room, uint64_t bytes)
{
    if (bytes > *room)
        return bytes;
    *room -= bytes;
    return 0;
}

uint64_t dt_passage_outside(const dt_runner_opts *o)
{
    const uint64_t lives = dt_align_up(o->map->bytes, DT_ALIGN);
    const dt_driver *d = dti_runner_driver(o);
    const bool host = d != NULL && d->host_memory;
    uint64_t most = 0;
    for (size_t i = 0; i < o->map->n; i++) {
        const dt_home *h = &o->map->home[i];
        uint64_t room = host && o->arena_bytes > lives ? o->arena_bytes - lives : 0;
        dti_passage w;
        if (h->node == DT_NONE || h->param == DT_NONE || h->store == DT_STORE_SCALES)
            continue;
        const bool apart = cut(&w, o, h);
        const bool fp32 = h->store == DT_STORE_F32;
        const bool reached = fp32 && (h->tier == DT_TIER_HOST || (h->tier == DT_AT_DEVICE && host));
        const uint64_t piece = dt_align_up((uint64_t)w.step * sizeof *w.piece, DT_ALIGN);
        uint64_t bytes = apart ? piece : 0; /* a kernel's own, on the way to the layout */
        if (apart && !reached)
            bytes += beside(&room, dt_align_up(lives_bytes(h), DT_ALIGN));
        bytes += beside(&room, piece) + dti_moment_bytes(o->map, h);
        most = bytes > most ? bytes : most;
    }
    return most;
}

void dti_passage_close(dti_passage *w)
{
    if (w->piece_owned)
        dt_free(w->piece);
    if (w->lives_owned)
        dt_free(w->lives);
    dti_moment_close(w->moment);
    *w = (dti_passage){0};
}

/* ---- pieces ---- */

bool dti_passage_next(dti_passage *w)
{
    w->at += w->n;
    w->n = w->all - w->at < (size_t)w->step ? w->all - w->at : (size_t)w->step;
    return w->n > 0;
}

static dt_rows rows_of(const dti_passage *w)
{
    return (dt_rows){(int64_t)w->at / w->row, (int64_t)w->n / w->row};
}

/* Values from @at on as they live. */
static dt_status read_values(const dti_passage *w, size_t at, void *to, size_t n, dt_err *err)
{
    if (w->moment != NULL)
        return dti_moment_read(w->moment, at, to, n, err);
    return dti_home_read(w->runner, home_of(w), at * sizeof(float), to, n * sizeof(float), err);
}

static dt_status write_values(
    const dti_passage *w, size_t at, const void *from, size_t n, dt_err *err)
{
    if (w->moment != NULL)
        return dti_moment_write(w->moment, at, from, n, err);
    return dti_home_write(w->runner, home_of(w), at * sizeof(float), from, n * sizeof(float), err);
}

dt_status dti_passage_get(dti_passage *w, dt_err *err)
{
    dt_runner *r = w->runner;
    const dt_home *h = home_of(w);
    const dt_call c = call_of(&r->o, h);
    const dt_kernels *k = dti_kernels_of(c.node->desc, r->o.context);
    if (w->lives == NULL)
        return read_values(w, w->at, w->piece, w->n, err);
    if (w->borrowed && w->at == 0)
        DT_CHECK(read_values(w, 0, w->lives, lives_bytes(h) / sizeof(float), err));
    return k->param_get(&c, h->param, rows_of(w), w->lives, w->piece, err);
}

dt_status dti_passage_put(dti_passage *w, dt_err *err)
{
    dt_runner *r = w->runner;
    const dt_home *h = home_of(w);
    const dt_call c = call_of(&r->o, h);
    const dt_kernels *k = dti_kernels_of(c.node->desc, r->o.context);
    if (w->lives == NULL)
        return write_values(w, w->at, w->piece, w->n, err);
    DT_CHECK(k->param_put(&c, h->param, rows_of(w), w->piece, w->lives, err));
    if (w->borrowed && w->at + w->n == w->all)
        return write_values(w, 0, w->lives, lives_bytes(h) / sizeof(float), err);
    return DT_OK;
}

dt_status dti_passage_give(dti_passage *w, dt_runner *r, int32_t home, size_t at,
    const void **bytes, size_t *n, dt_err *err)
{
    if (at == 0) {
        dti_passage_close(w);
        DT_CHECK(dti_passage_open(w, r, home, err));
    }
    const bool more = dti_passage_next(w);
    DT_ASSERT(more && w->at * sizeof(float) == at);
    DT_CHECK(dti_passage_get(w, err));
    *bytes = w->piece;
    *n = w->n * sizeof(float);
    return DT_OK;
}
