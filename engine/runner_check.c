/* The checked run. The arena is filled with a pattern, persistent tensors with zeros; bytes given
 * up get the pattern back. Around every op the bytes beside the tensors it writes are remembered
 * and compared, so that a write that strays is found at the op that made it; in the end the whole
 * arena outside the persistent tensors must hold the pattern. */
#include <string.h>

#include "engine/runner_parts.h"

enum { PATTERN = 0xA5, MARGIN = 64, MOST = 2 * DT_MAX_ARGS, CHUNK = 4 << 20 };

/* Bytes beside a written tensor: [from, to) of the arena, and what they held. */
typedef struct margin {
    uint64_t from, to;
    int32_t tensor;
    unsigned char held[2 * MARGIN];
} margin;

typedef struct checker {
    dt_runner *r;
    dti_plan *p;
    dt_measure *m;
    margin margin[MOST];
    int n;
} checker;

static uint64_t padded(uint64_t to)
{
    return (to + DT_ALIGN - 1) / DT_ALIGN * DT_ALIGN;
}

/* All bytes equal their neighbours, and the first is the pattern. */
static bool all_pattern(const unsigned char *p, size_t n)
{
    return n == 0 || (p[0] == PATTERN && memcmp(p, p + 1, n - 1) == 0);
}

/* By the whole team: this is where the pages of the arena are first touched. */
static void fill(unsigned char *p, size_t n)
{
    const long chunks = (long)((n + CHUNK - 1) / CHUNK);
#pragma omp parallel for schedule(static) if (chunks > 1)
    for (long i = 0; i < chunks; i++) {
        const size_t at = (size_t)i * CHUNK;
        memset(p + at, PATTERN, n - at < CHUNK ? n - at : CHUNK);
    }
}

static void remember(checker *k, uint64_t from, uint64_t to, int32_t tensor)
{
    if (from >= to || k->n == MOST)
        return;
    margin *g = &k->margin[k->n++];
    *g = (margin){.from = from, .to = to, .tensor = tensor};
    memcpy(g->held, k->r->arena.base + from, to - from);
}

static void before_op(checker *k, const dti_step *s)
{
    k->n = 0;
    for (int32_t i = s->first; i < s->first + s->n; i++) {
        const dti_bytes *b = &k->p->touched[i];
        if (!b->written)
            continue;
        const uint64_t end = padded(b->to) + MARGIN;
        remember(k, b->from > MARGIN ? b->from - MARGIN : 0, b->from, b->tensor);
        remember(k, b->to, end < k->r->arena.bytes ? end : k->r->arena.bytes, b->tensor);
    }
}

static bool written_by(const checker *k, const dti_step *s, uint64_t at)
{
    for (int32_t i = s->first; i < s->first + s->n; i++) {
        const dti_bytes *b = &k->p->touched[i];
        if (b->written && at >= b->from && at < b->to)
            return true;
    }
    return false;
}

static dt_status after_op(checker *k, const dti_step *s, dt_err *err)
{
    for (int g = 0; g < k->n; g++) {
        const margin *m = &k->margin[g];
        for (uint64_t at = m->from; at < m->to; at++)
            if (k->r->arena.base[at] != m->held[at - m->from] && !written_by(k, s, at))
                return DT_FAIL(err, DT_E_INTERNAL, "%s wrote outside %s: byte %llu of the arena",
                    s->name, k->p->tensor[m->tensor].name, (unsigned long long)at);
    }
    return DT_OK;
}

/* Whether the tensor counts as used, before its bytes change hands. */
static void measure(checker *k, const dti_bytes *b)
{
    if (padded(b->to) > k->m->peak && !all_pattern(k->r->arena.base + b->from, b->to - b->from)) {
        k->m->peak = padded(b->to);
        k->m->peak_tensor = b->tensor;
    }
}

static dt_status check_untouched(const checker *k, uint64_t from, uint64_t to, dt_err *err)
{
    const unsigned char *base = k->r->arena.base;
    if (from >= to || all_pattern(base + from, to - from))
        return DT_OK;
    while (base[from] == PATTERN)
        from++;
    return DT_FAIL(err, DT_E_INTERNAL, "byte %llu of the arena changed, where no tensor lies",
        (unsigned long long)from);
}

static dt_status run_steps(checker *k, const dt_run_args *a, dt_err *err)
{
    const dti_run u = {k->r, k->p, a};
    for (size_t i = 0; i < k->p->n_step; i++) {
        dti_step *s = &k->p->step[i];
        if (s->kind == DTI_WAIT)
            continue;
        if (s->kind == DTI_END) {
            const dti_bytes *b = &k->p->touched[s->first];
            measure(k, b);
            fill(k->r->arena.base + b->from, b->to - b->from);
            continue;
        }
        before_op(k, s);
        DT_CHECK(dti_step_run(&u, s, DT_STREAM_COMPUTE, err));
        DT_CHECK(after_op(k, s, err));
        for (int32_t t = s->first; t < s->first + s->n; t++)
            measure(k, &k->p->touched[t]);
    }
    return DT_OK;
}

dt_status dt_runner_check(dt_runner *r, int id, const dt_run_args *a, dt_measure *m, dt_err *err)
{
    *m = (dt_measure){.peak_tensor = -1};
    checker k = {.r = r, .p = &r->plan[id], .m = m};
    const dt_map *map = r->o.map;
    r->overflow = 0;
    fill(r->arena.base, r->arena.bytes);
    for (size_t i = 0; i < map->n; i++) /* or what is computed from them could be the pattern */
        memset(r->arena.base + map->home[i].off, 0, map->home[i].bytes);
    DT_CHECK(run_steps(&k, a, err));
    uint64_t at = 0;
    for (size_t i = 0; i < map->n; i++) { /* between persistent tensors, then all the rest */
        DT_CHECK(check_untouched(&k, at, map->home[i].off, err));
        at = map->home[i].off + map->home[i].bytes;
    }
    DT_CHECK(check_untouched(&k, at, r->arena.bytes, err));
    return DT_OK;
}
