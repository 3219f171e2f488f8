/* Chunks of sparse codecs, packed and unpacked by the team's threads. */
#include "memory/codecs/sparse.h"

#include "engine/base/team.h"

/* What chunks are packed from and to.
 * @count: values, packed or not
 * @heads: bytes before them; @fixed: before the chunks; @room: whether all of these fit
 * @total: words of all chunks: counted when packing, as they should be when unpacking
 * @bad:   what is unpacked was not packed by this codec */
typedef struct packing {
    const dti_sparse *s;
    const dti_lanes *lanes;
    const uint8_t *from;
    uint8_t *to;
    size_t count, chunks, heads, fixed;
    bool room;
    uint64_t *total;
    bool *bad;
} packing;

static packing packing_of(
    const dti_sparse *s, const void *from, void *to, size_t count, uint64_t *total)
{
    const size_t chunks = dti_parts(count, DTI_CHUNK);
    return (packing){.s = s,
        .lanes = dti_lanes_best(),
        .from = from,
        .to = to,
        .count = count,
        .chunks = chunks,
        .heads = 8 * chunks,
        .fixed = dti_sparse_fixed(s, count),
        .total = total};
}

static dti_chunk chunk_of(const packing *p, size_t i, uint64_t words)
{
    return (dti_chunk){p->lanes, p->s->how, dti_chunk_count(p->count, i), (size_t)words};
}

/* Where the head of chunk i lies, in bytes. */
static size_t head_at(const packing *p, size_t i)
{
    return p->heads + 4 * i * (DTI_CHUNK / p->s->each);
}

static void measure_task(const void *of, int64_t chunk)
{
    const packing *p = of;
    const size_t i = (size_t)chunk;
    const dti_chunk c = chunk_of(p, i, 0);
    const size_t words =
        p->s->measure(&c, p->from + 4 * i * DTI_CHUNK, p->room ? p->to + head_at(p, i) : NULL);
    if (p->room)
        dti_set_chunk_end(p->to, i, words);
    __atomic_add_fetch(p->total, words, __ATOMIC_RELAXED);
}

static void pack_task(const void *of, int64_t chunk)
{
    const packing *p = of;
    const size_t i = (size_t)chunk;
    const uint64_t begin = dti_chunk_begin(p->to, i);
    const dti_chunk c = chunk_of(p, i, dti_chunk_end(p->to, i) - begin);
    p->s->pack(
        &c, p->from + 4 * i * DTI_CHUNK, p->to + head_at(p, i), p->to + p->fixed + 4 * begin);
}

bool dti_sparse_encode(
    const dti_sparse *s, const void *src, size_t count, void *dst, size_t capacity, size_t *used)
{
    uint64_t total = 0;
    packing p = packing_of(s, src, dst, count, &total);
    p.room = p.fixed <= capacity;
    dt_team_run((int64_t)p.chunks, measure_task, &p);
    *used = p.fixed + 4 * (size_t)total;
    if (*used > capacity)
        return false;
    dti_sum_chunks(dst, p.chunks);
    dt_team_run((int64_t)p.chunks, pack_task, &p);
    return true;
}

static void unpack_task(const void *of, int64_t chunk)
{
    const packing *p = of;
    const size_t i = (size_t)chunk;
    const uint64_t begin = dti_chunk_begin(p->from, i), end = dti_chunk_end(p->from, i);
    const dti_chunk c = chunk_of(p, i, end - begin);
    if (begin > end || end > *p->total ||
        !p->s->unpack(
            &c, p->from + p->fixed + 4 * begin, p->from + head_at(p, i), p->to + 4 * i * DTI_CHUNK))
        __atomic_store_n(p->bad, true, __ATOMIC_RELAXED);
}

dt_status dti_sparse_decode(
    const dti_sparse *s, const void *src, size_t used, void *dst, size_t count, dt_err *err)
{
    uint64_t total = 0;
    packing p = packing_of(s, src, dst, count, &total);
    total = used >= p.fixed ? (used - p.fixed) / 4 : 0;
    bool bad = used < p.fixed || (used - p.fixed) % 4 != 0 ||
               (p.chunks > 0 ? dti_chunk_end(p.from, p.chunks - 1) : 0) != total;
    p.bad = &bad;
    if (!bad)
        dt_team_run((int64_t)p.chunks, unpack_task, &p);
    if (bad)
        return DT_FAIL(err, DT_E_DATA,
            "%zu bytes are not %zu values packed %s; they were changed or cut since", used, count,
            s->packed);
    return DT_OK;
}
