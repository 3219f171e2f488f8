/* Everything that calls oneDNN: descriptions of memories and of each direction's primitive, what
 * the library would do, asked for once, and primitives made, run and given back. */
#include "layers/onednn/onednn.h"

#include <inttypes.h>
#include <omp.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/alloc.h"
#include "engine/base/mix.h"
#include "engine/base/team.h"
#include "engine/config/options.h"
#include "engine/shape.h"
#include "layers/onednn/unpad.h"
#include "layers/onednn/version.h"

/* --- descriptions --- */

/* The library's error in our words. */
static dt_status failed(dnnl_status_t s, const char *call, dt_err *err)
{
    const char *why = s == dnnl_out_of_memory       ? "out of memory"
                      : s == dnnl_invalid_arguments ? "invalid arguments"
                      : s == dnnl_unimplemented     ? "not available for this shape"
                                                    : "failed";
    const dt_status code = s == dnnl_out_of_memory       ? DT_E_NOMEM
                           : s == dnnl_invalid_arguments ? DT_E_INTERNAL
                                                         : DT_E_DEVICE;
    return DT_FAIL(err, code, "oneDNN: %s: %s (%d)", call, why, (int)s);
}

/* Return with a note when a call of the library fails. Only where nothing is held. */
#define TRY(err, call)                                                                             \
    do {                                                                                           \
        const dnnl_status_t status_ = (call);                                                      \
        if (status_ != dnnl_success)                                                               \
            return failed(status_, #call, err);                                                    \
    } while (0)

/* One engine and attribute (scratch memory is ours), and one of what is added to its result, for
 * the life of the process; there once ready() has returned DT_OK. */
static struct {
    dnnl_engine_t engine;
    dnnl_primitive_attr_t attr, adding;
} library;
static dnnl_status_t started;
static pthread_once_t start_once = PTHREAD_ONCE_INIT;

static void start(void)
{
    started = dnnl_engine_create(&library.engine, dnnl_cpu, 0);
    if (started == dnnl_success)
        started = dnnl_primitive_attr_create(&library.attr);
    if (started == dnnl_success)
        started = dnnl_primitive_attr_set_scratchpad_mode(library.attr, dnnl_scratchpad_mode_user);
    dnnl_post_ops_t add = NULL;
    if (started == dnnl_success)
        started = dnnl_primitive_attr_clone(&library.adding, library.attr);
    if (started == dnnl_success)
        started = dnnl_post_ops_create(&add);
    if (started == dnnl_success)
        started = dti_post_ops_add(add);
    if (started == dnnl_success)
        started = dnnl_primitive_attr_set_post_ops(library.adding, add);
    if (add != NULL)
        dnnl_post_ops_destroy(add);
}

static dt_status ready(dt_err *err)
{
    pthread_once(&start_once, start);
    return started == dnnl_success ? DT_OK : failed(started, "starting its engine", err);
}

/* The memories of a direction: a gradient has the description of what it is the gradient of. */
typedef struct memories {
    dti_desc x, y, weight, bias;
} memories;

static void forget(memories *d)
{
    dti_desc_free(&d->x);
    dti_desc_free(&d->y);
    dti_desc_free(&d->weight);
    dti_desc_free(&d->bias);
}

/* The weight in PyTorch's layout, or as the library likes it. */
static dt_status describe_weight(
    const dt_dnnl_problem *p, bool plain, bool bf16, dti_desc *d, dt_err *err)
{
    const int64_t high = dt_sides_h(p->kernel), wide = dt_sides_w(p->kernel);
    const dnnl_dims_t fc = {p->out, p->c}, dense = {p->out, p->c, high, wide};
    const dnnl_dims_t grouped = {p->groups, p->out / p->groups, p->c / p->groups, high, wide};
    const int rank = p->fc ? 2 : p->groups > 1 ? 5 : 4;
    const dnnl_format_tag_t tag = !plain      ? dnnl_format_tag_any
                                  : rank == 2 ? dnnl_ab
                                  : rank == 4 ? dnnl_abcd
                                              : dnnl_abcde;
    TRY(err, dti_desc_by_tag(d, rank,
                 rank == 2   ? fc
                 : rank == 4 ? dense
                             : grouped,
                 bf16 ? dnnl_bf16 : dnnl_f32, tag));
    return DT_OK;
}

/* The weight of one tap in columns of DTI_DNNL_PANEL input channels. */
static dt_status describe_panels(const dt_dnnl_problem *p, dti_desc *d, dt_err *err)
{
    _Static_assert((int)DTI_DNNL_PANEL == (int)DTI_PANEL, "one width of columns");
    DT_ASSERT(p->groups == 1 && p->kernel == 1 && p->c % DTI_DNNL_PANEL == 0);
    TRY(err, dti_desc_panels(d, p->out, p->c));
    return DT_OK;
}

static dt_status describe_hwio(const dt_dnnl_problem *p, dti_desc *d, dt_err *err)
{
    const dnnl_dims_t dims = {p->out, p->c, dt_sides_h(p->kernel), dt_sides_w(p->kernel)};
    TRY(err, dti_desc_by_tag(d, 4, dims, dnnl_f32, dnnl_hwio));
    return DT_OK;
}

/* The caller forgets @d, which is all zero before, also where this fails. */
static dt_status describe(const dt_dnnl_problem *p, dt_dnnl_layout layout, memories *d, dt_err *err)
{
    const int64_t n = layout.n;
    const dnnl_data_type_t t = p->bf16 ? dnnl_bf16 : dnnl_f32;
    const dnnl_dims_t x = {n, p->c, p->h, p->w}, y = {n, p->out, p->p, p->q}, bias = {p->out};
    const int rank = p->fc ? 2 : 4;
    const dnnl_format_tag_t tag = p->fc ? dnnl_ab : dnnl_nhwc;
    TRY(err, dti_desc_by_tag(&d->x, rank, x, t, tag));
    TRY(err, dti_desc_by_tag(&d->y, rank, y, t, tag));
    TRY(err, dti_desc_by_tag(&d->bias, 1, bias, dnnl_f32, dnnl_a));
    return describe_weight(p, false, p->bf16 && layout.kind != DT_DNNL_WEIGHTS, &d->weight, err);
}

static const dti_direction directions[] = {
    [DT_DNNL_FORWARD] = DTI_FORWARD, [DT_DNNL_DATA] = DTI_DATA, [DT_DNNL_WEIGHTS] = DTI_WEIGHTS};

/* Of a kernel of one pixel with a stride and few input channels the library (2.6.3) reserves less
 * scratch for the gradient of the weight than it writes: behind it, or with threads over each
 * other's. Seen with AVX2 for 1 to 7 channels and never for 8 to 33; a vector of AVX-512 has 16. */
static bool writes_beyond(const dt_dnnl_problem *p, dt_dnnl_kind kind)
{
    enum { FEW = 16 };
    return kind == DT_DNNL_WEIGHTS && !p->fc && p->kernel == 1 && p->stride != 1 &&
           p->c / p->groups < FEW;
}

/* The library (2.6.3) makes the gradient of a weight in bf16 of scratch that it has not written,
 * another number every time and now and then none: of an image that is narrower than the stride;
 * and of a dilated kernel whose channels do not fill vectors. The latter is seen from 29 columns on
 * with 17 channels and more, or with groups, and never with a stride. */
static bool reads_unwritten(const dt_dnnl_problem *p, dt_dnnl_kind kind)
{
    enum { VECTOR = 16 };
    const bool thin = p->w < dt_sides_w(p->stride);
    const bool gaps = p->dilation > 1 && p->c / p->groups % VECTOR != 0;
    return kind == DT_DNNL_WEIGHTS && !p->fc && p->bf16 && (thin || gaps);
}

/* What a name of an implementation that is left out has in it, or NULL. */
static const char *left_out(const dt_dnnl_problem *p, dt_dnnl_kind kind)
{
    if (reads_unwritten(p, kind))
        return "jit_bf16"; /* those of one pixel, too */
    return writes_beyond(p, kind) ? "1x1" : NULL;
}

/* A direction's primitive; @hint: forward's, or NULL. */
static dt_status direction_pd(const dt_dnnl_problem *p, dt_dnnl_layout layout,
    const_dnnl_primitive_desc_t hint, dnnl_primitive_desc_t *pd, dt_err *err)
{
    const dnnl_dims_t stride = {dt_sides_h(p->stride), dt_sides_w(p->stride)};
    const dnnl_dims_t pad = {dt_sides_h(p->pad), dt_sides_w(p->pad)};
    const dnnl_dims_t gap = {p->dilation - 1, p->dilation - 1}; /* 0 is dense here */
    memories d = {0};
    const dt_status st = describe(p, layout, &d, err);
    dti_operands of = {.x = dti_desc_read(&d.x),
        .weight = dti_desc_read(&d.weight),
        .bias = p->bias ? dti_desc_read(&d.bias) : NULL,
        .y = dti_desc_read(&d.y)};
    if (!p->fc) {
        of.stride = stride;
        of.dilation = gap;
        of.pad = pad;
        of.without = left_out(p, layout.kind);
    }
    const dnnl_status_t s = st != DT_OK ? dnnl_success
                                        : dti_pd_direction(pd, library.engine,
                                              directions[layout.kind], &of, hint, library.attr);
    forget(&d);
    if (s == dnnl_success)
        return st;
    return DT_FAIL(err, failed(s, "creating a primitive", err),
        "%s with %" PRId64 "x%" PRId64 "x%" PRId64 " -> %" PRId64 ", kernel %s, %" PRId64
        " samples",
        p->fc ? "fc" : "conv", p->h, p->w, p->c, p->out, dt_sides_print(p->kernel).s, layout.n);
}

/* In bf16 the backward passes of a convolution that looks at one pixel are faster as products of
 * matrices whose rows are pixels, and the library's convolution backward-weights has its threads
 * wait for each other by spinning, which on a shared machine takes up to a hundred times as long
 * (2.6.3). The weight is then plain in both. */
static bool by_product(const dt_dnnl_problem *p, dt_dnnl_kind kind)
{
    return p->bf16 && !p->fc && p->kernel == 1 && p->stride == 1 && p->pad == 0 && p->groups == 1 &&
           (kind == DT_DNNL_DATA || (kind == DT_DNNL_WEIGHTS && !p->bias));
}

/* dx = dy weight, or dweight = dy^T x. */
static dt_status product_pd(
    const dt_dnnl_problem *p, dt_dnnl_layout layout, dnnl_primitive_desc_t *pd, dt_err *err)
{
    const bool data = layout.kind == DT_DNNL_DATA;
    const int64_t pixels = layout.n * p->h * p->w;
    const dnnl_dims_t dy = {pixels, p->out}, transposed = {p->out, pixels}, x = {pixels, p->c},
                      weight = {p->out, p->c};
    dti_desc a = {0}, b = {0}, c = {0};
    dnnl_status_t s =
        dti_desc_by_tag(&a, 2, data ? dy : transposed, dnnl_bf16, data ? dnnl_ab : dnnl_ba);
    if (s == dnnl_success)
        s = dti_desc_by_tag(&b, 2, data ? weight : x, dnnl_bf16, dnnl_ab);
    if (s == dnnl_success)
        s = dti_desc_by_tag(&c, 2, data ? x : weight, data ? dnnl_bf16 : dnnl_f32, dnnl_ab);
    if (s == dnnl_success)
        s = dti_pd_product(pd, library.engine, dti_desc_read(&a), dti_desc_read(&b),
            dti_desc_read(&c), library.attr);
    dti_desc_free(&a);
    dti_desc_free(&b);
    dti_desc_free(&c);
    return s == dnnl_success ? DT_OK : failed(s, "creating a product", err);
}

static dt_status pd_of_direction(
    const dt_dnnl_problem *p, dt_dnnl_layout layout, dnnl_primitive_desc_t *pd, dt_err *err)
{
    if (by_product(p, layout.kind))
        return product_pd(p, layout, pd, err);
    dnnl_primitive_desc_t forward = NULL;
    DT_CHECK(direction_pd(
        p, (dt_dnnl_layout){DT_DNNL_FORWARD, layout.n, layout.alone}, NULL, &forward, err));
    if (layout.kind == DT_DNNL_FORWARD) {
        *pd = forward;
        return DT_OK;
    }
    const dt_status st = direction_pd(p, layout, forward, pd, err);
    dnnl_primitive_desc_destroy(forward);
    return st;
}

/* The library makes a primitive for as many threads as the calling thread's team has, and runs it
 * by so many. Returns how many those were, to be set again. */
static int set_threads(int threads)
{
    const int before = omp_get_max_threads();
    omp_set_num_threads(threads);
    return before;
}

/* A direction's primitive, which the caller destroys. */
static dt_status create_pd(
    const dt_dnnl_problem *p, dt_dnnl_layout layout, dnnl_primitive_desc_t *pd, dt_err *err)
{
    *pd = NULL;
    DT_CHECK(ready(err));
    const int team = set_threads(layout.alone ? 1 : omp_get_max_threads());
    const dt_status st = pd_of_direction(p, layout, pd, err);
    set_threads(team);
    return st;
}

/* Which of a primitive's memories is its weight. */
static dti_read_desc weight_of(const_dnnl_primitive_desc_t pd, dt_dnnl_kind kind)
{
    return dnnl_primitive_desc_query_md(
        pd, kind == DT_DNNL_WEIGHTS ? dnnl_query_diff_weights_md : dnnl_query_weights_md, 0);
}

/* --- what the library would do --- */

enum { MEMO = 4096 };

/* One answered question. A reorder has two layouts; a direction has the same one twice. */
typedef struct memo_key {
    dt_dnnl_problem p;
    int64_t kind[2], n[2], threads[2];
} memo_key;

typedef struct memo_entry {
    bool used;
    memo_key key;
    dti_desc weight; /* its own */
    dt_dnnl_facts facts;
} memo_entry;

/* Open addressing in static storage: planning may ask a million times, and an answer must not be
 * able to fail for lack of memory. Forgotten as a whole when it fills up. */
static memo_entry memo[MEMO];
static size_t memo_used;
static pthread_mutex_t memo_lock = PTHREAD_MUTEX_INITIALIZER;

static memo_key make_key(const dt_dnnl_problem *p, dt_dnnl_layout a, dt_dnnl_layout b)
{
    const int64_t team = omp_get_max_threads();
    return (memo_key){*p, {(int64_t)a.kind, (int64_t)b.kind}, {a.n, b.n},
        {a.alone ? 1 : team, b.alone ? 1 : team}};
}

/* The entry of this key, or the free one where it belongs. */
static memo_entry *memo_find(const memo_key *key)
{
    for (size_t i = dt_mix_place(key, sizeof *key, MEMO);; i++) {
        memo_entry *e = &memo[i % MEMO];
        if (!e->used || memcmp(&e->key, key, sizeof *key) == 0)
            return e;
    }
}
_Static_assert(sizeof(memo_key) % 8 == 0 && sizeof(memo_key) == 23 * 8, "a key has no padding");

/* What it owns is kept with it. Somebody else may have found the same answer meanwhile. */
static memo_entry *memo_keep(const memo_entry *answer)
{
    if (memo_used >= MEMO * 3 / 4) {
        for (size_t i = 0; i < MEMO; i++)
            dti_desc_free(&memo[i].weight);
        memset(memo, 0, sizeof memo);
        memo_used = 0;
    }
    memo_entry *e = memo_find(&answer->key);
    memo_used += !e->used;
    dti_desc_free(&e->weight);
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

/* The layout of a weight, and what else a direction's primitive says; @answer keeps the layout. */
static dt_status answer_direction(
    const dt_dnnl_problem *p, dt_dnnl_layout layout, memo_entry *answer, dt_err *err)
{
    dnnl_primitive_desc_t pd;
    DT_CHECK(create_pd(p, layout, &pd, err));
    read_pd(pd, &answer->facts);
    if (by_product(p, layout.kind)) { /* as a convolution's, for reorders */
        dnnl_primitive_desc_destroy(pd);
        return describe_weight(p, true, layout.kind == DT_DNNL_DATA, &answer->weight, err);
    }
    const dnnl_status_t s = dti_desc_copy(&answer->weight, weight_of(pd, layout.kind));
    dnnl_primitive_desc_destroy(pd);
    return s == dnnl_success ? DT_OK : failed(s, "copying a description", err);
}

/* The caller holds the lock. */
static dt_status ask_locked(
    const dt_dnnl_problem *p, dt_dnnl_layout layout, const memo_entry **out, dt_err *err)
{
    const memo_key key = make_key(p, layout, layout);
    const memo_entry *e = memo_find(&key);
    if (e->used) {
        *out = e;
        return DT_OK;
    }
    memo_entry answer = {.key = key, .facts.same = true};
    if (layout.kind == DT_DNNL_PLAIN)
        DT_CHECK(describe_weight(p, true, false, &answer.weight, err));
    else if (layout.kind == DT_DNNL_PANELS)
        DT_CHECK(describe_panels(p, &answer.weight, err));
    else if (layout.kind == DT_DNNL_HWIO)
        DT_CHECK(describe_hwio(p, &answer.weight, err));
    else
        DT_CHECK(answer_direction(p, layout, &answer, err));
    answer.facts.weight_bytes = dnnl_memory_desc_get_size(dti_desc_read(&answer.weight));
    answer.facts.layout = dti_desc_number(dti_desc_read(&answer.weight));
    answer.facts.pairs = dti_desc_pairs(dti_desc_read(&answer.weight));
    answer.facts.plain_rows = dti_desc_plain_rows(dti_desc_read(&answer.weight));
    *out = memo_keep(&answer);
    return DT_OK;
}

/* A weight's layout, which the caller gives back. */
static dt_status layout_of(
    const dt_dnnl_problem *p, dt_dnnl_layout layout, dti_desc *d, dt_err *err)
{
    const memo_entry *e;
    dnnl_status_t s = dnnl_success;
    pthread_mutex_lock(&memo_lock);
    const dt_status st = ask_locked(p, layout, &e, err);
    if (st == DT_OK)
        s = dti_desc_copy(d, dti_desc_read(&e->weight));
    pthread_mutex_unlock(&memo_lock);
    return s == dnnl_success ? st : failed(s, "copying a description", err);
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

dt_status dt_dnnl_ask(
    const dt_dnnl_problem *p, dt_dnnl_layout layout, dt_dnnl_facts *f, dt_err *err)
{
    const memo_entry *e;
    if (layout.kind < DT_DNNL_PLAIN)
        DT_CHECK(check_size(p, layout.n, err));
    pthread_mutex_lock(&memo_lock);
    const dt_status st = ask_locked(p, layout, &e, err);
    if (st == DT_OK)
        *f = e->facts;
    pthread_mutex_unlock(&memo_lock);
    return st;
}

/* The two sides of a reorder. */
typedef struct sides {
    dti_desc md[2];
    size_t skip[2]; /* bytes of each before what is meant */
} sides;

static void forget_sides(sides *of)
{
    dti_desc_free(&of->md[0]);
    dti_desc_free(&of->md[1]);
}

static bool unpads(const sides *of)
{
    return dti_unpad_can(dti_desc_read(&of->md[0]), dti_desc_read(&of->md[1]));
}

/* Whether a weight is so small that waking others to reorder it takes longer than doing it. */
static bool small(const dt_dnnl_problem *p)
{
    enum { SMALL = 1 << 16 };
    return p->c / p->groups * p->out * dt_sides_h(p->kernel) * dt_sides_w(p->kernel) <= SMALL;
}

/* A reorder, which the caller destroys; the caller forgets @of, also where this fails. */
static dt_status create_reorder_pd(const dt_dnnl_problem *p, dt_dnnl_layout from, dt_dnnl_layout to,
    sides *of, dnnl_primitive_desc_t *pd, dt_err *err)
{
    DT_CHECK(ready(err));
    DT_CHECK(layout_of(p, from, &of->md[0], err));
    DT_CHECK(layout_of(p, to, &of->md[1], err));
    const int team = set_threads(small(p) ? 1 : omp_get_max_threads());
    const dnnl_status_t s = dnnl_reorder_primitive_desc_create(pd, dti_desc_read(&of->md[0]),
        library.engine, dti_desc_read(&of->md[1]), library.engine, library.attr);
    set_threads(team);
    return s == dnnl_success ? DT_OK : failed(s, "creating a reorder", err);
}

static dt_status answer_reorder(
    const dt_dnnl_problem *p, dt_dnnl_layout from, dt_dnnl_layout to, dt_dnnl_facts *f, dt_err *err)
{
    sides of = {0};
    dnnl_primitive_desc_t pd;
    const dt_status st = create_reorder_pd(p, from, to, &of, &pd, err);
    if (st == DT_OK) {
        const dti_read_desc a = dti_desc_read(&of.md[0]), b = dti_desc_read(&of.md[1]);
        read_pd(pd, f);
        dnnl_primitive_desc_destroy(pd);
        if (unpads(&of)) {
            f->work_bytes = 0;
            snprintf(f->impl, sizeof f->impl, "unpad");
        }
        f->weight_bytes = dnnl_memory_desc_get_size(b);
        f->layout = dti_desc_number(b);
        f->pairs = dti_desc_pairs(b);
        f->plain_rows = dti_desc_plain_rows(b);
        f->same = dnnl_memory_desc_equal(a, b) != 0;
    }
    forget_sides(&of);
    return st;
}

dt_status dti_dnnl_ask_reorder(
    const dt_dnnl_problem *p, dt_dnnl_layout from, dt_dnnl_layout to, dt_dnnl_facts *f, dt_err *err)
{
    memo_entry answer = {.key = make_key(p, from, to)};
    if (from.kind == to.kind && from.n == to.n && from.alone == to.alone)
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

/* --- primitives --- */

enum { SLOTS = 5 };

/* Slots are in the order of dt_dnnl_bytes: x, y, weight, bias, work. */
struct dt_dnnl_op {
    dti_unpad *unpad; /* a reorder of ours, and nothing else; or NULL */
    dnnl_primitive_t primitive;
    dnnl_stream_t stream; /* its own: ops of other runs may run at the same time */
    dnnl_memory_t memory[SLOTS];
    int arg[SLOTS];
    void *bound[SLOTS];
    size_t skip[2]; /* bytes of x and of y before what is meant: a reorder's rows */
    bool alone;
};

static const int arguments[3][SLOTS] = {
    [DT_DNNL_FORWARD] = {DNNL_ARG_SRC, DNNL_ARG_DST, DNNL_ARG_WEIGHTS, DNNL_ARG_BIAS,
        DNNL_ARG_SCRATCHPAD},
    [DT_DNNL_DATA] = {DNNL_ARG_DIFF_SRC, DNNL_ARG_DIFF_DST, DNNL_ARG_WEIGHTS, 0,
        DNNL_ARG_SCRATCHPAD},
    [DT_DNNL_WEIGHTS] = {DNNL_ARG_SRC, DNNL_ARG_DIFF_DST, DNNL_ARG_DIFF_WEIGHTS, DNNL_ARG_DIFF_BIAS,
        DNNL_ARG_SCRATCHPAD},
};
static const int product_arguments[3][SLOTS] = {
    [DT_DNNL_DATA] = {DNNL_ARG_DST, DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, 0, DNNL_ARG_SCRATCHPAD},
    [DT_DNNL_WEIGHTS] = {DNNL_ARG_WEIGHTS, DNNL_ARG_SRC, DNNL_ARG_DST, 0, DNNL_ARG_SCRATCHPAD},
};
static const int reorder_arguments[SLOTS] = {DNNL_ARG_FROM, DNNL_ARG_TO, 0, 0, DNNL_ARG_SCRATCHPAD};

/* Takes ownership of pd. An empty scratch memory is left out. */
static dt_status build(dt_dnnl_op **out, dnnl_primitive_desc_t pd, const dti_read_desc md[SLOTS],
    const int arg[SLOTS], bool alone, dt_err *err)
{
    const int team = set_threads(alone ? 1 : omp_get_max_threads());
    dnnl_status_t s = dnnl_success;
    dt_dnnl_op *op = dt_alloc(1, sizeof *op);
    if (op == NULL)
        s = dnnl_out_of_memory;
    for (int i = 0; i < SLOTS && s == dnnl_success; i++)
        if (md[i] != NULL && !dti_desc_empty(md[i])) {
            op->arg[i] = arg[i];
            s = dnnl_memory_create(&op->memory[i], md[i], library.engine, DNNL_MEMORY_NONE);
        }
    if (s == dnnl_success)
        s = dnnl_primitive_create(&op->primitive, pd);
    if (s == dnnl_success)
        s = dnnl_stream_create(&op->stream, library.engine, dnnl_stream_default_flags);
    set_threads(team);
    dnnl_primitive_desc_destroy(pd);
    if (s != dnnl_success) {
        dt_dnnl_destroy(op);
        return failed(s, "building a primitive", err);
    }
    op->alone = alone;
    *out = op;
    return DT_OK;
}

static dti_read_desc operand(const_dnnl_primitive_desc_t pd, int arg)
{
    return arg == 0 ? NULL : dnnl_primitive_desc_query_md(pd, dnnl_query_exec_arg_md, arg);
}

dt_status dt_dnnl_create(
    dt_dnnl_op **out, const dt_dnnl_problem *p, dt_dnnl_layout layout, dt_err *err)
{
    const int *arg = (by_product(p, layout.kind) ? product_arguments : arguments)[layout.kind];
    dti_read_desc md[SLOTS];
    dnnl_primitive_desc_t pd;
    *out = NULL;
    DT_ASSERT(layout.kind < DT_DNNL_PLAIN);
    DT_CHECK(create_pd(p, layout, &pd, err));
    for (int i = 0; i < SLOTS; i++)
        md[i] = operand(pd, arg[i]);
    return build(out, pd, md, arg, layout.alone, err);
}

static dt_status build_unpad(dt_dnnl_op **out, const sides *of, bool adds, dt_err *err)
{
    dt_dnnl_op *op = dt_alloc(1, sizeof *op);
    if (op == NULL)
        return DT_FAIL(err, DT_E_NOMEM, "no memory to prepare an op");
    memcpy(op->skip, of->skip, sizeof op->skip);
    const dt_status st = dti_unpad_create(
        &op->unpad, dti_desc_read(&of->md[0]), dti_desc_read(&of->md[1]), adds, err);
    if (st == DT_OK)
        *out = op;
    else
        dt_dnnl_destroy(op);
    return st;
}

dt_status dti_dnnl_create_reorder(
    dt_dnnl_op **out, const dt_dnnl_problem *p, dt_dnnl_layout from, dt_dnnl_layout to, dt_err *err)
{
    sides of = {0};
    dnnl_primitive_desc_t pd;
    *out = NULL;
    dt_status st = create_reorder_pd(p, from, to, &of, &pd, err);
    if (st == DT_OK && unpads(&of)) {
        dnnl_primitive_desc_destroy(pd);
        st = build_unpad(out, &of, false, err);
    } else if (st == DT_OK) {
        const dti_read_desc all[SLOTS] = {dti_desc_read(&of.md[0]), dti_desc_read(&of.md[1]), NULL,
            NULL, dnnl_primitive_desc_query_md(pd, dnnl_query_scratchpad_md, 0)};
        st = build(out, pd, all, reorder_arguments, small(p), err);
    }
    forget_sides(&of);
    return st;
}

/* Rows of an fc's weight. */
static dt_status some_rows(const dt_dnnl_problem *p, dt_dnnl_layout layout, int64_t first,
    int64_t n, dti_desc *d, size_t *skip, dt_err *err)
{
    dti_desc whole = {0};
    DT_CHECK(layout_of(p, layout, &whole, err));
    const dnnl_status_t s = dti_desc_rows(d, dti_desc_read(&whole), first, n, p->c, skip);
    dti_desc_free(&whole);
    return s == dnnl_success ? DT_OK : failed(s, "describing rows", err);
}

/* The rows of one side: a part of the weight, or a small weight by itself. */
static dt_status rows_desc(const dt_dnnl_problem *p, dt_dnnl_layout layout, int64_t first,
    int64_t n, dti_desc *d, size_t *skip, dt_err *err)
{
    const dnnl_dims_t dims = {n, p->c};
    if (layout.kind != DT_DNNL_PLAIN)
        return some_rows(p, layout, first, n, d, skip, err);
    *skip = 0;
    TRY(err, dti_desc_by_tag(d, 2, dims, dnnl_f32, dnnl_ab));
    return DT_OK;
}

/* A reorder between two sides of which one is some rows of a weight. */
static dt_status create_rows(
    dt_dnnl_op **out, const sides *of, const_dnnl_primitive_attr_t attr, dt_err *err)
{
    if (unpads(of))
        return build_unpad(out, of, attr == library.adding, err);
    const dti_read_desc all[SLOTS] = {dti_desc_read(&of->md[0]), dti_desc_read(&of->md[1])};
    dnnl_primitive_desc_t pd;
    TRY(err, dnnl_reorder_primitive_desc_create(
                 &pd, all[0], library.engine, all[1], library.engine, attr));
    if (dnnl_memory_desc_get_size(dnnl_primitive_desc_query_md(pd, dnnl_query_scratchpad_md, 0)) >
        0) {
        dnnl_primitive_desc_destroy(pd);
        return DT_FAIL(err, DT_E_DEVICE, "oneDNN wants scratch memory to reorder rows");
    }
    DT_CHECK(build(out, pd, all, reorder_arguments, false, err));
    memcpy((*out)->skip, of->skip, sizeof(*out)->skip);
    return DT_OK;
}

dt_status dti_dnnl_create_reorder_rows(dt_dnnl_op **out, const dt_dnnl_problem *p,
    dt_dnnl_layout from, dt_dnnl_layout to, int64_t first, int64_t n, dt_err *err)
{
    sides of = {0};
    *out = NULL;
    DT_ASSERT(p->fc && (from.kind == DT_DNNL_PLAIN) != (to.kind == DT_DNNL_PLAIN));
    DT_CHECK(ready(err));
    dt_status st = rows_desc(p, from, first, n, &of.md[0], &of.skip[0], err);
    if (st == DT_OK)
        st = rows_desc(p, to, first, n, &of.md[1], &of.skip[1], err);
    if (st == DT_OK)
        st = create_rows(out, &of, library.attr, err);
    forget_sides(&of);
    return st;
}

dt_status dti_dnnl_create_add_rows(dt_dnnl_op **out, const dt_dnnl_problem *rows,
    dt_dnnl_layout from, const dt_dnnl_problem *p, dt_dnnl_layout to, int64_t first, dt_err *err)
{
    sides of = {0};
    *out = NULL;
    DT_ASSERT(p->fc && p->c == rows->c && first + rows->out <= p->out);
    DT_CHECK(ready(err));
    dt_status st = layout_of(rows, from, &of.md[0], err);
    if (st == DT_OK)
        st = some_rows(p, to, first, rows->out, &of.md[1], &of.skip[1], err);
    if (st == DT_OK)
        st = create_rows(out, &of, library.adding, err);
    forget_sides(&of);
    return st;
}

int64_t dti_dnnl_rows(void)
{
    return DTI_ROWS;
}

void dt_dnnl_destroy(dt_dnnl_op *op)
{
    if (op == NULL)
        return;
    for (int i = 0; i < SLOTS; i++)
        if (op->memory[i] != NULL)
            dnnl_memory_destroy(op->memory[i]);
    dti_unpad_destroy(op->unpad);
    if (op->primitive != NULL)
        dnnl_primitive_destroy(op->primitive);
    if (op->stream != NULL)
        dnnl_stream_destroy(op->stream);
    dt_free(op);
}

/* Setting a handle also clears the padding behind it, so it is done when it changes. */
dt_status dti_dnnl_bind(dt_dnnl_op *op, const dt_dnnl_bytes *b, dt_err *err)
{
    void *const bytes[SLOTS] = {
        (char *)b->x + op->skip[0], (char *)b->y + op->skip[1], b->weight, b->bias, b->work};
    for (int i = 0; i < SLOTS; i++)
        if (op->memory[i] != NULL && op->bound[i] != bytes[i]) {
            DT_ASSERT(bytes[i] != NULL);
            TRY(err, dnnl_memory_set_data_handle(op->memory[i], bytes[i]));
            op->bound[i] = bytes[i];
        }
    return DT_OK;
}

dt_status dt_dnnl_run(dt_dnnl_op *op, const dt_dnnl_bytes *b, dt_err *err)
{
    DT_ASSERT(b->x != NULL && b->y != NULL);
    if (op->unpad != NULL) {
        dti_unpad_run(op->unpad, (const float *)b->x + op->skip[0] / sizeof(float),
            (float *)b->y + op->skip[1] / sizeof(float));
        return DT_OK;
    }
    DT_CHECK(dti_dnnl_bind(op, b, err));
    dnnl_exec_arg_t args[SLOTS];
    int n = 0;
    for (int i = 0; i < SLOTS; i++)
        if (op->memory[i] != NULL)
            args[n++] = (dnnl_exec_arg_t){op->arg[i], op->memory[i]};
    if (!op->alone)
        dt_team_rest();
    const int team = set_threads(op->alone ? 1 : omp_get_max_threads());
    dnnl_status_t s = dnnl_primitive_execute(op->primitive, op->stream, n, args);
    if (s == dnnl_success)
        s = dnnl_stream_wait(op->stream);
    set_threads(team);
    return s == dnnl_success ? DT_OK : failed(s, "running a primitive", err);
}

static bool has(dnnl_cpu_isa_t wanted)
{
    const dnnl_cpu_isa_t isa = dnnl_get_effective_cpu_isa();
    return ((unsigned)isa & (unsigned)wanted) == (unsigned)wanted;
}

bool dti_onednn_avx512(void)
{
    return has(dnnl_cpu_isa_avx512_core);
}

bool dt_onednn_bf16(void)
{
    return has(dnnl_cpu_isa_avx512_core_bf16);
}

const char *dt_onednn_isa(void)
{
    static const struct {
        dnnl_cpu_isa_t isa;
        const char *name;
    } known[] = {{dnnl_cpu_isa_avx512_core_amx, "avx512_core_amx"},
        {dnnl_cpu_isa_avx512_core_bf16, "avx512_core_bf16"},
        {dnnl_cpu_isa_avx512_core_vnni, "avx512_core_vnni"},
        {dnnl_cpu_isa_avx512_core, "avx512_core"}, {dnnl_cpu_isa_avx2_vnni, "avx2_vnni"},
        {dnnl_cpu_isa_avx2, "avx2"}, {dnnl_cpu_isa_avx, "avx"}, {dnnl_cpu_isa_sse41, "sse41"}};
    for (size_t i = 0; i < DT_COUNT(known); i++)
        if (has(known[i].isa))
            return known[i].name;
    return "plain";
}

dt_status dt_onednn_limit(dt_isa isa, dt_err *err)
{
    const dnnl_cpu_isa_t most[] = {[DT_ISA_PLAIN] = dnnl_cpu_isa_sse41,
        [DT_ISA_AVX2] = dnnl_cpu_isa_avx2,
        [DT_ISA_AVX512] = dnnl_cpu_isa_avx512_core,
        [DT_ISA_AVX512_BF16] = dnnl_cpu_isa_avx512_core_bf16,
        [DT_ISA_AMX] = dti_isa_all};
    if (dnnl_set_max_cpu_isa(most[isa]) != dnnl_success)
        return DT_FAIL(err, DT_E_CONFIG,
            "oneDNN takes no limit of instruction sets: it was used before, or built without");
    return DT_OK;
}

static char version[48];

static void write_version(void)
{
    const dnnl_version_t *v = dnnl_version();
    snprintf(version, sizeof version, "oneDNN %d.%d.%d", v->major, v->minor, v->patch);
}

const char *dt_onednn_version(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, write_version);
    return version;
}
