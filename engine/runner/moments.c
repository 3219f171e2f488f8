/* Moments in 8 bits, read and written as fp32 between runs of plans. */
#include "engine/base/alloc.h"
#include "engine/runner/runner_internal.h"
#include "engine/state_codes.h"

enum { CODES = DT_PART_UNIT }; /* at once: whole blocks, and what parts of a slot begin at */

/* @codes @scales: the homes; the scales are held whole, as they are few. */
struct dti_moment {
    dt_runner *runner;
    const dt_home *codes, *scales;
    dt_state_map map;
    float *scale;
    uint8_t *code;
};

static const dt_home *scales_of(const dt_map *m, const dt_home *codes)
{
    return &m->home[dti_map_find(m, codes->node, codes->param, DTI_SCALES_OF(codes->port))];
}

uint64_t dti_moment_bytes(const dt_map *m, const dt_home *h)
{
    return h->store != DT_STORE_CODES ? 0 : sizeof(dti_moment) + CODES + scales_of(m, h)->bytes;
}

dt_status dti_moment_open(dti_moment **out, dt_runner *r, const dt_home *h, dt_err *err)
{
    *out = NULL;
    if (h->store != DT_STORE_CODES)
        return DT_OK;
    dti_moment *m = dt_alloc(1, sizeof *m);
    if (m != NULL) {
        m->runner = r;
        m->codes = h;
        m->scales = scales_of(r->o.map, h);
        m->scale = dt_alloc(m->scales->bytes, 1);
        m->code = dt_alloc(CODES, 1);
        dt_state_map_fill(&m->map, h->port == DT_M, 0, 1); /* a second one is of squares */
        *out = m;
    }
    if (m != NULL && m->scale != NULL && m->code != NULL)
        return DT_OK;
    dti_moment_close(m);
    *out = NULL;
    return DT_FAIL(err, DT_E_NOMEM, "no memory to bring %s to fp32", h->name);
}

void dti_moment_close(dti_moment *m)
{
    if (m == NULL)
        return;
    dt_free(m->scale);
    dt_free(m->code);
    dt_free(m);
}

static int64_t block(int64_t at, int64_t end)
{
    return end - at < DT_STATE_BLOCK ? end - at : DT_STATE_BLOCK;
}

dt_status dti_moment_read(dti_moment *m, size_t at, float *to, size_t n, dt_err *err)
{
    if (at == 0)
        DT_CHECK(dti_home_read(m->runner, m->scales, 0, m->scale, m->scales->bytes, err));
    for (size_t done = 0; done < n; done += CODES) {
        const size_t some = n - done < CODES ? n - done : CODES;
        DT_CHECK(dti_home_read(m->runner, m->codes, at + done, m->code, some, err));
        for (size_t i = 0; i < some; i += DT_STATE_BLOCK)
            dt_state_unpack(&m->map, m->code + i, m->scale[(at + done + i) / DT_STATE_BLOCK],
                to + done + i, block((int64_t)i, (int64_t)some));
    }
    return DT_OK;
}

dt_status dti_moment_write(dti_moment *m, size_t at, const float *from, size_t n, dt_err *err)
{
    for (size_t done = 0; done < n; done += CODES) {
        const size_t some = n - done < CODES ? n - done : CODES;
        for (size_t i = 0; i < some; i += DT_STATE_BLOCK)
            m->scale[(at + done + i) / DT_STATE_BLOCK] = dt_state_pack(
                &m->map, from + done + i, m->code + i, block((int64_t)i, (int64_t)some));
        DT_CHECK(dti_home_write(m->runner, m->codes, at + done, m->code, some, err));
    }
    if (at + n < m->codes->bytes)
        return DT_OK;
    return dti_home_write(m->runner, m->scales, 0, m->scale, m->scales->bytes, err);
}
