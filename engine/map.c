/* The persistent map: what outlives a step, each at its place. */
#include "engine/map.h"

#include <stdio.h>
#include <string.h>

#include "engine/base/alloc.h"
#include "engine/base/cpu.h"
#include "engine/base/numbers.h"
#include "engine/state_codes.h"

static const char *const role_names[] = {
#define NAME(id, text) text,
    DT_ROLES(NAME)
#undef NAME
};
_Static_assert(DT_COUNT(role_names) == DT_ROLE_COUNT, "a name a role");

const char *dt_role_name(dt_role r)
{
    return role_names[r];
}

int dt_role_find(const char *name)
{
    for (int i = 0; i < DT_ROLE_COUNT; i++)
        if (strcmp(role_names[i], name) == 0)
            return i;
    return -1;
}

/* Parameters, optimizer state and running statistics are what a step changes for the next. */
static bool passed_on(const dt_home *h)
{
    return !h->frozen && (h->port == DT_P || h->role == DT_ROLE_OPTIMIZER);
}

/* A place behind all that are there. */
static dt_status place(dt_map *m, dt_home *h, dt_err *err)
{
    size_t *bytes = h->tier == DT_AT_DEVICE ? &m->bytes : &m->tier_bytes[h->tier];
    const size_t align = h->tier == DT_AT_DEVICE ? DT_ALIGN : (size_t)dt_tier_align(h->tier);
    size_t end;
    h->off = h->next = *bytes;
    if (h->bytes > SIZE_MAX / 4)
        return DT_FAIL(err, DT_E_CONFIG, "the parameters of '%s' are too large", h->name);
    size_t each = dt_align_up(h->bytes, align);
    const bool delayed = dt_map_delays(m) && h->tier == DT_TIER_HOST && h->port == DT_DP;
    if (delayed || (m->two && h->tier == DT_TIER_DISK && passed_on(h))) {
        h->next += each;
        each *= 2;
    }
    if (!dti_add_bytes(*bytes, each, &end) || end > SIZE_MAX / 2)
        return DT_FAIL(err, DT_E_CONFIG, "the parameters of '%s' are too large", h->name);
    *bytes = end;
    return DT_OK;
}

static dt_status add(dt_map *m, const dt_home *h, dt_err *err)
{
    if (!dt_grow(&m->home, &m->cap, m->n, sizeof *m->home))
        return DT_FAIL(err, DT_E_NOMEM, "no memory for the persistent map");
    m->home[m->n] = *h;
    return place(m, &m->home[m->n++], err);
}

/* A parameter, and what training keeps beside it: nothing where it stays as it is. */
static dt_status add_parameter(dt_map *m, const dt_graph *g, const dt_context *context,
    int64_t home_n, int state, int32_t node, int i, dt_err *err)
{
    const dt_node *nd = &g->node[node];
    const dt_param_info *p = &nd->info.param[i];
    const dt_kernels *k = dti_kernels_of(nd->desc, context);
    const dt_call c = {.context = context,
        .node = nd,
        .graph = g,
        .form = DT_BACKWARD,
        .dtype = g->dtype,
        .n = home_n,
        .home_n = home_n,
        .needs_dx = true};
    dt_home h = {.node = node, .param = i, .bytes = (size_t)dt_param_count(p) * sizeof(float)};
    if (k != NULL && k->param_bytes != NULL)
        DT_TRY(err, k->param_bytes(&c, i, &h.bytes, err), "layer '%s': %s", nd->name, p->name);
    h.param_bytes = h.bytes;
    h.port = DT_P;
    h.role = p->buffer ? DT_ROLE_BUFFERS : DT_ROLE_WEIGHTS;
    h.frozen = nd->frozen;
    snprintf(h.name, sizeof h.name, "%s.%s", nd->name, p->name);
    DT_CHECK(add(m, &h, err));
    if (nd->frozen)
        return DT_OK;
    h.port = p->buffer ? DT_Q : DT_DP;
    h.role = p->buffer ? DT_ROLE_BUFFERS : DT_ROLE_GRADIENTS;
    snprintf(h.name, sizeof h.name, "%s.%s.%s", p->buffer ? "q" : "g", nd->name, p->name);
    DT_CHECK(add(m, &h, err));
    for (int s = 0; s < state && !p->buffer; s++) {
        h.port = (dt_port)(DT_M + s);
        h.role = DT_ROLE_OPTIMIZER;
        snprintf(h.name, sizeof h.name, "m%d.%s.%s", s, nd->name, p->name);
        DT_CHECK(add(m, &h, err));
    }
    return DT_OK;
}

static dt_status fill(
    dt_map *m, const dt_graph *g, const dt_context *context, int64_t home_n, int state, dt_err *err)
{
    for (size_t node = 0; node < g->n_node; node++)
        for (int i = 0; i < g->node[node].info.n_param; i++)
            DT_CHECK(add_parameter(m, g, context, home_n, state, (int32_t)node, i, err));
    dt_home metrics = {.name = "metrics",
        .role = DT_ROLE_BUFFERS,
        .bytes = sizeof(dt_metrics) + (size_t)dt_graph_counted(g) * sizeof(dt_class_count),
        .node = -1,
        .param = -1,
        .port = DT_METRICS};
    m->metrics = (int32_t)m->n;
    return add(m, &metrics, err);
}

dt_status dt_map_create(dt_map **out, const dt_graph *g, const dt_context *context, int64_t home_n,
    int state, dt_err *err)
{
    *out = NULL;
    dt_map *m = dt_alloc(1, sizeof *m);
    if (m == NULL)
        return DT_FAIL(err, DT_E_NOMEM, "no memory for the persistent map");
    m->home_n = home_n;
    m->delayed_from = -1;
    m->threads = dt_context_device(context) == DT_CPU ? dt_cpu_threads() : 0;
    m->device = dt_context_device(context);
    const dt_status st = fill(m, g, context, home_n, state, err);
    if (st != DT_OK) {
        dt_map_destroy(m);
        return st;
    }
    *out = m;
    return DT_OK;
}

size_t dt_stored_bytes(dt_store store, int64_t n)
{
    return store == DT_STORE_CODES    ? (size_t)n
           : store == DT_STORE_SCALES ? (size_t)dt_state_blocks(n) * sizeof(float)
                                      : (size_t)n * sizeof(float);
}

/* A moment in 8 bits: its codes, or their scales. */
static dt_home packed(const dt_home *moment, dt_store store)
{
    dt_home h = *moment;
    h.store = store;
    h.bytes = dt_stored_bytes(store, (int64_t)(moment->bytes / sizeof(float)));
    if (store == DT_STORE_SCALES) {
        h.port = DTI_SCALES_OF(moment->port);
        h.name[0] = 's'; /* "s0.conv1.weight" */
    }
    return h;
}

static bool packs(const dt_graph *g, const dt_home *h)
{
    return h->role == DT_ROLE_OPTIMIZER &&
           dt_param_count(&g->node[h->node].info.param[h->param]) >= DT_STATE_LEAST;
}

static dt_status add_packed(dt_map *m, const dt_home *moment, dt_err *err)
{
    const dt_home codes = packed(moment, DT_STORE_CODES);
    const dt_home scales = packed(moment, DT_STORE_SCALES);
    DT_CHECK(add(m, &codes, err));
    return add(m, &scales, err);
}

dt_status dt_map_pack_moments(dt_map *m, const dt_graph *g, dt_err *err)
{
    const dt_map was = *m;
    dt_status st = DT_OK;
    m->home = NULL;
    m->n = m->cap = m->bytes = 0;
    memset(m->tier_bytes, 0, sizeof m->tier_bytes);
    for (size_t i = 0; i < was.n && st == DT_OK; i++) {
        const dt_home *h = &was.home[i];
        if ((int32_t)i == was.metrics)
            m->metrics = (int32_t)m->n;
        st = packs(g, h) ? add_packed(m, h, err) : add(m, h, err);
    }
    dt_free(was.home);
    return st;
}

bool dt_map_all_on_host(const dt_map *m)
{
    for (size_t i = 0; i < m->n; i++)
        if (m->home[i].tier != DT_TIER_HOST && !m->home[i].frozen &&
            (m->home[i].role == DT_ROLE_WEIGHTS || m->home[i].role == DT_ROLE_GRADIENTS ||
                m->home[i].role == DT_ROLE_OPTIMIZER))
            return false;
    return true;
}

dt_status dt_map_update_early(dt_map *m, bool loose, dt_err *err)
{
    size_t n = 0;
    m->early = true;
    m->loose = loose;
    if (!loose)
        return DT_OK;
    m->bytes = 0;
    memset(m->tier_bytes, 0, sizeof m->tier_bytes);
    for (size_t i = 0; i < m->n; i++) {
        if (m->home[i].port == DT_DP)
            continue;
        if ((int32_t)i == m->metrics)
            m->metrics = (int32_t)n;
        m->home[n] = m->home[i];
        DT_CHECK(place(m, &m->home[n++], err));
    }
    m->n = n;
    return DT_OK;
}

dt_status dt_map_settle(dt_map *m, const dt_tier *tier, bool two, dt_err *err)
{
    m->two = two;
    m->bytes = 0;
    memset(m->tier_bytes, 0, sizeof m->tier_bytes);
    for (size_t i = 0; i < m->n; i++) {
        m->home[i].tier = (int32_t)i == m->metrics ? DT_AT_DEVICE : tier[i];
        DT_CHECK(place(m, &m->home[i], err));
    }
    return DT_OK;
}

/* Updates that are early leave nothing to the end of a step but running statistics, which are
 * copied there; that fails only where the disk has a part in it. */
static bool spoils(const dt_map *m, const dt_home *h)
{
    if (!passed_on(h) || h->next != h->off)
        return false;
    if (!m->early || h->role != DT_ROLE_BUFFERS || h->tier == DT_TIER_DISK)
        return true;
    return m->home[dti_map_find(m, h->node, h->param, DT_Q)].tier == DT_TIER_DISK;
}

bool dt_map_undoes(const dt_map *m, int32_t *why)
{
    for (size_t i = 0; i < m->n; i++)
        if (spoils(m, &m->home[i])) {
            if (why != NULL)
                *why = (int32_t)i;
            return false;
        }
    return true;
}

int32_t dti_map_holds(const dt_map *m, int tier, uint64_t off, uint64_t next, uint64_t bytes)
{
    for (size_t i = 0; i < m->n; i++) {
        const dt_home *h = &m->home[i];
        if ((int)h->tier == tier && off >= h->off && off - h->off <= h->bytes &&
            bytes <= h->bytes - (off - h->off) && next >= off && next - off == h->next - h->off)
            return (int32_t)i;
    }
    return -1;
}

void dt_map_destroy(dt_map *m)
{
    if (m == NULL)
        return;
    dt_free(m->home);
    dt_free(m);
}

/* Whether an entry comes before those of a parameter; the metrics, which are nobody's, never do. */
static bool before(const dt_home *h, int32_t node, int param)
{
    return h->node >= 0 && (h->node < node || (h->node == node && h->param < param));
}

int32_t dti_map_find(const dt_map *m, int32_t node, int param, dt_port port)
{
    size_t lo = 0, hi = m->n;
    while (lo < hi) {
        const size_t mid = lo + (hi - lo) / 2;
        if (before(&m->home[mid], node, param))
            lo = mid + 1;
        else
            hi = mid;
    }
    for (; lo < m->n && m->home[lo].node == node && m->home[lo].param == param; lo++)
        if (m->home[lo].port == port)
            return (int32_t)lo;
    return -1;
}
