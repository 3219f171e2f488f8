/* What the library would do, without doing it: scratch and layouts, each asked for once. */
#include <inttypes.h>
#include <omp.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "layers/onednn/onednn_parts.h"

enum { MEMO = 4096 };

/* One answered question. A reorder has two layouts; a direction has the same one twice. */
typedef struct memo_key {
    dt_dnnl_problem p;
    int64_t way[2], n[2], threads;
} memo_key;

typedef struct memo_entry {
    bool used;
    memo_key key;
    dnnl_memory_desc_t weight;
    dt_dnnl_facts facts;
} memo_entry;

/* Open addressing in static storage: planning may ask a million times, and an answer must not be
 * able to fail for lack of memory. Forgotten as a whole when it fills up. */
static memo_entry memo[MEMO];
static size_t memo_used;
static pthread_mutex_t memo_lock = PTHREAD_MUTEX_INITIALIZER;

static memo_key make_key(const dt_dnnl_problem *p, dt_dnnl_layout a, dt_dnnl_layout b)
{
    return (memo_key){*p, {(int64_t)a.way, (int64_t)b.way}, {a.n, b.n}, omp_get_max_threads()};
}

/* The entry of this key, or the free one where it belongs. */
static memo_entry *memo_find(const memo_key *key)
{
    uint64_t words[sizeof *key / 8], h = 0;
    memcpy(words, key, sizeof words);
    for (size_t i = 0; i < DT_COUNT(words); i++)
        h = (h ^ words[i]) * UINT64_C(0x9E3779B97F4A7C15) ^ h >> 29;
    for (size_t i = (size_t)(h >> 32);; i++) {
        memo_entry *e = &memo[i % MEMO];
        if (!e->used || memcmp(&e->key, key, sizeof *key) == 0)
            return e;
    }
}
_Static_assert(sizeof(memo_key) % 8 == 0 && sizeof(memo_key) == 21 * 8, "a key has no padding");

static memo_entry *memo_keep(const memo_entry *answer)
{
    if (memo_used >= MEMO * 3 / 4) {
        memset(memo, 0, sizeof memo);
        memo_used = 0;
    }
    memo_entry *e = memo_find(&answer->key);
    memo_used += !e->used;
    *e = *answer;
    e->used = true;
    return e;
}

static void read_pd(const_dnnl_primitive_desc_t pd, dt_dnnl_facts *f)
{
    const char *name = "";
    f->work_bytes =
        dnnl_memory_desc_get_size(dnnl_primitive_desc_query_md(pd, dnnl_query_scratchpad_md, 0));
    if (dnnl_primitive_desc_query(pd, dnnl_query_impl_info_str, 0, &name) == dnnl_success)
        snprintf(f->impl, sizeof f->impl, "%s", name);
}

/* A number for a layout, from the bytes of its description. */
static uint64_t layout_number(const dnnl_memory_desc_t *d)
{
    unsigned char bytes[sizeof *d];
    uint64_t h = UINT64_C(0xCBF29CE484222325);
    memcpy(bytes, d, sizeof bytes);
    for (size_t i = 0; i < sizeof bytes; i++)
        h = (h ^ bytes[i]) * UINT64_C(0x100000001B3);
    return h;
}

/* The caller holds the lock. */
static dt_status ask_locked(
    const dt_dnnl_problem *p, dt_dnnl_layout way, const memo_entry **out, dt_err *err)
{
    const memo_key key = make_key(p, way, way);
    const memo_entry *e = memo_find(&key);
    if (e->used) {
        *out = e;
        return DT_OK;
    }
    memo_entry answer = {.key = key, .facts.same = true};
    if (way.way == DT_DNNL_PLAIN) {
        DT_CHECK(dti_dnnl_weight(p, true, false, &answer.weight, err));
    } else if (way.way == DT_DNNL_PANELS) {
        DT_CHECK(dti_dnnl_panels(p, &answer.weight, err));
    } else if (way.way == DT_DNNL_TAPS) {
        DT_CHECK(dti_dnnl_taps(p, &answer.weight, err));
    } else {
        dnnl_primitive_desc_t pd;
        DT_CHECK(dti_dnnl_pd(p, way, &pd, err));
        answer.weight = *dti_dnnl_weight_of(pd, way.way);
        read_pd(pd, &answer.facts);
        dnnl_primitive_desc_destroy(pd);
        if (dti_dnnl_by_product(p, way.way)) /* as a convolution's, for reorders */
            DT_CHECK(dti_dnnl_weight(p, true, way.way == DT_DNNL_DATA, &answer.weight, err));
    }
    answer.facts.weight_bytes = dnnl_memory_desc_get_size(&answer.weight);
    answer.facts.layout = layout_number(&answer.weight);
    *out = memo_keep(&answer);
    return DT_OK;
}

dt_status dti_dnnl_layout(
    const dt_dnnl_problem *p, dt_dnnl_layout layout, dnnl_memory_desc_t *d, dt_err *err)
{
    const memo_entry *e;
    pthread_mutex_lock(&memo_lock);
    const dt_status st = ask_locked(p, layout, &e, err);
    if (st == DT_OK)
        *d = e->weight;
    pthread_mutex_unlock(&memo_lock);
    return st;
}

/* The library counts positions, and values of one of them, in 32 bits here and there: beyond that
 * it divides by zero. */
static dt_status check_size(const dt_dnnl_problem *p, int64_t n, dt_err *err)
{
    const int64_t pixels = p->h * p->w > p->p * p->q ? p->h * p->w : p->p * p->q;
    if (n <= INT32_MAX / pixels && p->c <= INT32_MAX && p->out <= INT32_MAX)
        return DT_OK;
    return DT_FAIL(err, DT_E_CONFIG,
        "%" PRId64 " samples of %" PRId64 " pixels and %" PRId64
        " channels are more than oneDNN can count; samples times pixels, and channels, must be "
        "below 2^31: lower train.micro_batch, train.batch or model.image",
        n, pixels, p->c > p->out ? p->c : p->out);
}

dt_status dt_dnnl_ask(const dt_dnnl_problem *p, dt_dnnl_layout way, dt_dnnl_facts *f, dt_err *err)
{
    const memo_entry *e;
    if (way.way < DT_DNNL_PLAIN)
        DT_CHECK(check_size(p, way.n, err));
    pthread_mutex_lock(&memo_lock);
    const dt_status st = ask_locked(p, way, &e, err);
    if (st == DT_OK)
        *f = e->facts;
    pthread_mutex_unlock(&memo_lock);
    return st;
}

dt_status dti_dnnl_reorder_pd(const dt_dnnl_problem *p, dt_dnnl_layout from, dt_dnnl_layout to,
    dnnl_memory_desc_t md[2], dnnl_primitive_desc_t *pd, dt_err *err)
{
    DT_CHECK(dti_dnnl_ready(err));
    DT_CHECK(dti_dnnl_layout(p, from, &md[0], err));
    DT_CHECK(dti_dnnl_layout(p, to, &md[1], err));
    DT_ONEDNN_TRY(err, dnnl_reorder_primitive_desc_create(
                           pd, &md[0], dti_dnnl.engine, &md[1], dti_dnnl.engine, dti_dnnl.attr));
    return DT_OK;
}

static dt_status answer_reorder(
    const dt_dnnl_problem *p, dt_dnnl_layout from, dt_dnnl_layout to, dt_dnnl_facts *f, dt_err *err)
{
    dnnl_memory_desc_t md[2];
    dnnl_primitive_desc_t pd;
    DT_CHECK(dti_dnnl_reorder_pd(p, from, to, md, &pd, err));
    read_pd(pd, f);
    dnnl_primitive_desc_destroy(pd);
    f->weight_bytes = dnnl_memory_desc_get_size(&md[1]);
    f->layout = layout_number(&md[1]);
    f->same = dnnl_memory_desc_equal(&md[0], &md[1]) != 0;
    return DT_OK;
}

dt_status dti_dnnl_ask_reorder(
    const dt_dnnl_problem *p, dt_dnnl_layout from, dt_dnnl_layout to, dt_dnnl_facts *f, dt_err *err)
{
    memo_entry answer = {.key = make_key(p, from, to)};
    if (from.way == to.way && from.n == to.n)
        return dt_dnnl_ask(p, to, f, err);
    pthread_mutex_lock(&memo_lock);
    const memo_entry *e = memo_find(&answer.key);
    const bool known = e->used;
    if (known)
        *f = e->facts;
    pthread_mutex_unlock(&memo_lock);
    if (known)
        return DT_OK;
    DT_CHECK(answer_reorder(p, from, to, &answer.facts, err));
    pthread_mutex_lock(&memo_lock);
    memo_keep(&answer);
    pthread_mutex_unlock(&memo_lock);
    *f = answer.facts;
    return DT_OK;
}
