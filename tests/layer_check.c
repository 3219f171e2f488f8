#include "tests/layer_check.h"

#include <stdlib.h>
#include <string.h>

#include "engine/base/alloc.h"
#include "engine/base/philox.h"
#include "tests/check.h"

enum { GUARD = 64, GUARD_BYTE = 0xA5, JUNK = 0xFF }; /* four bytes of JUNK are a NaN */

/* A tensor between two guards. Aliases (in place, a parameter that serves as derived weight) have
 * no block of their own. */
typedef struct buffer {
    unsigned char *block, *bytes;
    size_t size;
} buffer;

typedef struct bench {
    dt_layer_run *r;
    const dt_kernels *k;
    dt_graph *g;
    dt_call call;
    buffer port[DT_PORTS];
} bench;

static const dt_opt *find_row(const dt_layer_desc *desc, const char *key)
{
    for (const dt_opt *row = desc->opts; row != NULL && row->key != NULL; row++)
        if (strcmp(row->key, key) == 0)
            return row;
    fail_msg("layer %s has no option '%s'", desc->name, key);
    return NULL;
}

void *dt_layer_options(const dt_layer_desc *desc, const char *text)
{
    char key[32], value[32];
    int used;
    void *opts = dt_alloc(1, desc->opts_bytes);
    assert_non_null(opts);
    if (desc->opts != NULL)
        dt_opt_defaults(desc->opts, opts);
    for (; sscanf(text, " %31[^= ]=%31s%n", key, value, &used) == 2; text += used) {
        dt_err err = {0};
        assert_ok(dt_opt_read(find_row(desc, key), value, opts, &err), &err);
    }
    return opts;
}

float *dt_random_values(size_t n, uint32_t key)
{
    float *v = malloc((n > 0 ? n : 1) * sizeof *v);
    assert_non_null(v);
    for (size_t i = 0; i < n; i++)
        v[i] = 2 * dt_unit(dt_random(7, DT_RANDOM_TEST, key, 0, i).v[0]) - 1;
    return v;
}

void dt_to_nhwc(const float *nchw, float *nhwc, int64_t n, const dt_shape *s)
{
    const int64_t pixels = s->h * s->w;
    for (int64_t i = 0; i < n * pixels; i++)
        for (int64_t c = 0; c < s->c; c++)
            nhwc[i * s->c + c] = nchw[(i / pixels * s->c + c) * pixels + i % pixels];
}

void dt_to_nchw(const float *nhwc, float *nchw, int64_t n, const dt_shape *s)
{
    const int64_t pixels = s->h * s->w;
    for (int64_t i = 0; i < n * pixels; i++)
        for (int64_t c = 0; c < s->c; c++)
            nchw[(i / pixels * s->c + c) * pixels + i % pixels] = nhwc[i * s->c + c];
}

static buffer make_buffer(size_t size)
{
    const size_t room = (size + GUARD - 1) / GUARD * GUARD;
    buffer b = {.size = size};
    b.block = aligned_alloc(GUARD, room + 2 * GUARD);
    assert_non_null(b.block);
    memset(b.block, GUARD_BYTE, room + 2 * GUARD);
    b.bytes = b.block + GUARD;
    memset(b.bytes, JUNK, size);
    return b;
}

static void free_buffer(buffer *b)
{
    free(b->block);
    *b = (buffer){0};
}

static buffer alias(const buffer *b)
{
    return (buffer){NULL, b->bytes, b->size};
}

static void check_guards(const buffer *b, const char *op, int port)
{
    if (b->block == NULL)
        return;
    const size_t end = GUARD + (b->size + GUARD - 1) / GUARD * GUARD + GUARD;
    for (size_t i = 0; i < end; i++)
        if ((i < GUARD || i >= GUARD + b->size) && b->block[i] != GUARD_BYTE)
            fail_msg("%s wrote outside port %d: byte %td of %zu", op, port, (ptrdiff_t)i - GUARD,
                b->size);
}

static const dt_node *node_of(const bench *b)
{
    return b->call.node;
}

static const dt_form *form_of(const bench *b, dt_form_kind kind)
{
    const dt_form *f = &b->r->desc->form[kind];
    const bool absent = f->suffix == NULL && (kind == DT_CLONE || kind == DT_EVAL);
    return absent ? &b->r->desc->form[DT_FORWARD] : f;
}

/* The chosen alternative, and what its stashes are. */
static dt_ports saved(const bench *b)
{
    const dt_layer_desc *d = b->r->desc;
    return b->r->alt < d->n_alt ? d->alt[b->r->alt].reads : 0;
}

/* The ports of a set that this node has. */
static dt_ports present(const bench *b, dt_ports set)
{
    const dt_layer_info *info = &node_of(b)->info;
    const int n_in = node_of(b)->n_in;
    if (set & DT_BIT(DT_X))
        set |= DT_BITS(DT_X, n_in);
    if ((set & DT_BIT(DT_DX)) && !b->r->desc->shares_dy)
        set |= DT_BITS(DT_DX, n_in);
    dt_ports have = DT_BITS(DT_X, n_in) | DT_BITS(DT_DX, n_in) | DT_BITS(DT_D, 2) | DT_BIT(DT_Y) |
                    DT_BIT(DT_DY) | DT_BIT(DT_LABELS) | DT_BIT(DT_METRICS) |
                    (saved(b) & DT_BITS(DT_S, DT_MAX_STASH));
    for (int i = 0; i < info->n_param; i++)
        have |= DT_BIT(DT_P + i) | DT_BIT((info->param[i].buffer ? DT_Q : DT_DP) + i);
    return set & have;
}

static size_t param_bytes(const bench *b, int i)
{
    size_t bytes = (size_t)dt_param_count(&node_of(b)->info.param[i]) * sizeof(float);
    dt_err err = {0};
    if (b->k->param_bytes != NULL)
        assert_ok(b->k->param_bytes(&b->call, i, &bytes, &err), &err);
    return bytes;
}

static void param_put(const bench *b, int i, const float *plain, void *lives)
{
    dt_err err = {0};
    if (b->k->param_put != NULL)
        assert_ok(b->k->param_put(&b->call, i, plain, lives, &err), &err);
    else
        memcpy(lives, plain, param_bytes(b, i));
}

static void param_get(const bench *b, int i, const void *lives, float *plain)
{
    dt_err err = {0};
    if (b->k->param_get != NULL)
        assert_ok(b->k->param_get(&b->call, i, lives, plain, &err), &err);
    else
        memcpy(plain, lives, param_bytes(b, i));
}

static float *new_values(size_t n)
{
    float *v = calloc(n > 0 ? n : 1, sizeof *v);
    assert_non_null(v);
    return v;
}

static dt_dtype type_of(const bench *b, int port)
{
    const bool ids = b->r->desc->reads_ids && port < DT_DX;
    return ids ? DT_F32 : b->r->dtype;
}

static buffer make_values(const bench *b, int port, size_t count)
{
    return make_buffer(count * dt_dtype_bytes(type_of(b, port)));
}

/* From PyTorch's order, rounded to the type of the port. */
static void put_values(bench *b, int port, const float *nchw, const dt_shape *s)
{
    const size_t n = (size_t)(b->r->n * dt_shape_sample(s));
    float *v = new_values(n);
    dt_to_nhwc(nchw, v, b->r->n, s);
    if (type_of(b, port) == DT_F32)
        memcpy(b->port[port].bytes, v, n * sizeof *v);
    else
        for (size_t i = 0; i < n; i++)
            ((dt_bf16 *)(void *)b->port[port].bytes)[i] = dt_bf16_from_float(v[i]);
    free(v);
}

static void make_ports(bench *b)
{
    const dt_layer_run *r = b->r;
    const dt_layer_info *info = &node_of(b)->info;
    const size_t n = (size_t)r->n, y = (size_t)dt_shape_sample(&info->y);
    for (int i = 0; i < r->n_x; i++) {
        const size_t x = n * (size_t)dt_shape_sample(&r->x[i]);
        b->port[DT_X + i] = make_values(b, DT_X + i, x);
        b->port[DT_DX + i] = make_values(b, DT_DX + i, x);
        put_values(b, DT_X + i, r->in[i], &r->x[i]);
    }
    for (int i = 0; i < info->n_param; i++) {
        float *zero = new_values((size_t)dt_param_count(&info->param[i]));
        for (int set = 0; set < 3; set++)
            b->port[(set == 0      ? DT_P
                        : set == 1 ? DT_DP
                                   : DT_Q) +
                    i] = make_buffer(param_bytes(b, i));
        param_put(b, i, r->param[i] != NULL ? r->param[i] : zero, b->port[DT_P + i].bytes);
        free(zero);
    }
    for (int i = 0; i < info->n_stash; i++)
        b->port[DT_S + i] =
            make_buffer(info->stash[i].fixed_bytes + n * info->stash[i].sample_bytes);
    b->port[DT_Y] = make_values(b, DT_Y, n * y);
    b->port[DT_DY] = make_values(b, DT_DY, n * y);
    memset(b->port[DT_DY].bytes, 0, b->port[DT_DY].size);
    if (r->dy != NULL)
        put_values(b, DT_DY, r->dy, &info->y);
    /* One a sample, or for a loss over positions one a position. */
    const bool positions = node_of(b)->desc->loss;
    const size_t labels = n * (positions ? (size_t)(r->x[0].h * r->x[0].w) : 1) * sizeof(int32_t);
    b->port[DT_LABELS] = make_buffer(labels);
    if (r->labels != NULL)
        memcpy(b->port[DT_LABELS].bytes, r->labels, labels);
    const size_t counted = positions ? (size_t)dt_counted_classes(r->x[0]) : 0;
    const size_t metrics = sizeof(dt_metrics) + counted * sizeof(dt_class_count);
    b->port[DT_METRICS] = make_buffer(metrics);
    memset(b->port[DT_METRICS].bytes, 0, metrics);
}

static dt_facts facts_of(bench *b, dt_form_kind kind, int64_t n)
{
    dt_facts f = {0};
    dt_err err = {0};
    b->call.form = kind;
    b->call.n = n;
    if (b->k->facts != NULL)
        assert_ok(b->k->facts(&b->call, &f, &err), &err);
    return f;
}

/* Bytes of one sample at a port, 0 where samples are not apart. */
static size_t sample_bytes(const bench *b, int port)
{
    if (port < DT_P || port == DT_Y || port == DT_DY || port == DT_LABELS)
        return b->port[port].size / (size_t)b->r->n;
    if (port >= DT_S && port < DT_S + DT_MAX_STASH)
        return node_of(b)->info.stash[port - DT_S].sample_bytes;
    return 0;
}

/* Junk where a form will write the results of these samples. */
static void fill(bench *b, dt_ports set, int64_t from, int64_t n)
{
    for (int p = 0; p < DT_PORTS; p++) {
        const size_t each = sample_bytes(b, p);
        if (set & DT_BIT(p))
            memset(b->port[p].bytes + (size_t)from * each, JUNK,
                each > 0 ? (size_t)n * each : b->port[p].size);
    }
}

/* Run a form for the samples [from, from + n). Twice with the same prepared state if it may be
 * repeated, because its first run may do what later ones leave out. */
static void execute(
    bench *b, dt_form_kind kind, dt_ports bound, dt_ports again, int64_t from, int64_t n)
{
    const char *op = form_of(b, kind)->suffix;
    dt_args a = {.n = n, .sample0 = from, .step = 3, .step_samples = b->r->n, .seed = 11};
    dt_err err = {0};
    void *state = NULL;
    buffer work = make_buffer(facts_of(b, kind, n).work_bytes);
    for (int p = 0; p < DT_PORTS; p++)
        if (bound & DT_BIT(p))
            a.port[p] = b->port[p].bytes + (size_t)from * sample_bytes(b, p);
    a.port[DT_WORK] = work.size > 0 ? work.bytes : NULL;
    a.accumulate = from > 0;
    if (b->k->create != NULL)
        assert_ok(b->k->create(&b->call, &state, &err), &err);
    assert_ok(b->k->run(&b->call, state, &a, &err), &err);
    if (again != 0) {
        fill(b, again, from, n);
        memset(work.bytes, JUNK, work.size);
        assert_ok(b->k->run(&b->call, state, &a, &err), &err);
    }
    check_guards(&work, op, DT_WORK);
    if (b->k->destroy != NULL)
        b->k->destroy(state);
    free_buffer(&work);
}

/* Contents of all ports of a set, one after another. */
static unsigned char *snapshot(const bench *b, dt_ports set, size_t *size)
{
    *size = 0;
    for (int p = 0; p < DT_PORTS; p++)
        *size += set & DT_BIT(p) ? b->port[p].size : 0;
    unsigned char *all = malloc(*size + 1);
    assert_non_null(all);
    size_t at = 0;
    for (int p = 0; p < DT_PORTS; p++)
        if (set & DT_BIT(p)) {
            memcpy(all + at, b->port[p].bytes, b->port[p].size);
            at += b->port[p].size;
        }
    return all;
}

static void assert_unchanged(
    const bench *b, dt_ports set, unsigned char *before, const char *op, const char *what)
{
    size_t size;
    unsigned char *now = snapshot(b, set, &size);
    if (memcmp(before, now, size) != 0)
        fail_msg("%s of layer %s: %s", op, b->r->desc->name, what);
    free(now);
    free(before);
}

static void all_pieces(bench *b, dt_form_kind kind, dt_ports bound, dt_ports again)
{
    const int64_t n = b->r->n;
    const bool split = b->r->piece > 0 && form_of(b, kind)->split;
    const int64_t step = split ? b->r->piece : n;
    for (int64_t at = 0; at < n; at += step)
        execute(b, kind, bound, again, at, at + step < n ? step : n - at);
}

/* May the form's result take the bytes of what it reads, given what later forms read? */
static bool may_overwrite(const bench *b, dt_form_kind kind, int port)
{
    const dt_form_kind later[] = {DT_BACKWARD, DT_BACKWARD2};
    for (size_t i = 0; i < DT_COUNT(later); i++) {
        const dt_form *f = &b->r->desc->form[later[i]];
        const dt_ports reads = f->reads | (f->saved ? saved(b) : 0);
        if (later[i] > kind && f->suffix != NULL && (reads & DT_BIT(port)) && !b->r->forward_only)
            return false;
    }
    return true;
}

/* Returns the ports that now share bytes with another. */
static dt_ports place_over(bench *b, dt_form_kind kind, dt_ports writes)
{
    const dt_form *f = form_of(b, kind);
    dt_ports shared = 0;
    for (int i = 0; i < f->n_over && b->r->in_place; i++) {
        const int out = f->over[i].out, in = f->over[i].in;
        if (!(writes & DT_BIT(out)) || (shared & DT_BIT(out)) || b->port[in].bytes == NULL ||
            b->port[out].size != b->port[in].size || !may_overwrite(b, kind, in))
            continue;
        free_buffer(&b->port[out]);
        b->port[out] = alias(&b->port[in]);
        shared |= DT_BIT(out) | DT_BIT(in);
    }
    return shared;
}

static void run_form(bench *b, dt_form_kind kind)
{
    const dt_form *f = form_of(b, kind);
    const dt_ports reads = present(b, f->reads | (f->saved ? saved(b) : 0));
    dt_ports writes = present(b, f->writes);
    if (kind == DT_EVAL && b->r->desc->form[DT_EVAL].suffix == NULL)
        writes &= ~DT_BITS(DT_S, DT_MAX_STASH);
    const dt_ports updates = present(b, f->updates), bound = reads | writes | updates;
    const dt_ports shared = place_over(b, kind, writes);
    const dt_ports kept = reads & ~writes & ~updates & ~shared;
    size_t size;
    unsigned char *before = snapshot(b, kept, &size);
    const bool repeat = updates == 0 && shared == 0;
    fill(b, writes & ~shared, 0, b->r->n);
    all_pieces(b, kind, bound, repeat ? writes : 0);
    assert_unchanged(b, kept, before, f->suffix, "an input was changed");
    for (int p = 0; p < DT_PORTS; p++)
        check_guards(&b->port[p], f->suffix, p);
    if (!repeat)
        return;
    before = snapshot(b, writes, &size);
    fill(b, writes, 0, b->r->n);
    all_pieces(b, kind, bound, 0);
    assert_unchanged(b, writes, before, f->suffix, "a second run gave other bits");
}

/* The weight a form wants, as the parameter itself or made by a form of its own. Split forms want
 * it for their pieces. */
static void derive(bench *b, dt_form_kind user, dt_form_kind maker, int which)
{
    if (!(present(b, form_of(b, user)->reads) & DT_BIT(DT_D + which)))
        return;
    const bool split = b->r->piece > 0 && form_of(b, user)->split;
    const int64_t n = split ? b->r->piece : b->r->n;
    const size_t bytes = facts_of(b, user, n).derived_bytes;
    free_buffer(&b->port[DT_D + which]);
    b->port[DT_D + which] = bytes > 0 ? make_buffer(bytes) : alias(&b->port[DT_P]);
    if (bytes > 0)
        execute(b, maker, DT_BIT(DT_P) | DT_BIT(DT_D + which), DT_BIT(DT_D + which), 0, n);
    check_guards(&b->port[DT_D + which], "derive", DT_D + which);
}

static void forward(bench *b)
{
    const dt_form_kind kind = b->r->eval ? DT_EVAL : DT_FORWARD;
    derive(b, kind, DT_DERIVE_F, 0);
    run_form(b, kind);
    if (b->r->eval || b->r->in_place || !b->r->desc->repeatable)
        return;
    size_t size;
    unsigned char *y = snapshot(b, DT_BIT(DT_Y), &size);
    run_form(b, DT_CLONE);
    assert_unchanged(b, DT_BIT(DT_Y), y, "clone", "a clone gave other bits than forward");
}

/* The gradient of the weight may come in another layout than the parameter's. */
static void restore(bench *b)
{
    const size_t bytes = facts_of(b, DT_BACKWARD, b->r->n).gradient_bytes;
    if (bytes == 0) {
        run_form(b, DT_BACKWARD);
        return;
    }
    const buffer own = b->port[DT_DP], stash = b->port[DT_S];
    b->port[DT_DP] = make_buffer(bytes);
    run_form(b, DT_BACKWARD);
    b->port[DT_S] = b->port[DT_DP];
    b->port[DT_DP] = own;
    execute(b, DT_RESTORE, DT_BIT(DT_S) | DT_BIT(DT_DP), DT_BIT(DT_DP), 0, b->r->n);
    check_guards(&b->port[DT_DP], "restore", DT_DP);
    free_buffer(&b->port[DT_S]);
    b->port[DT_S] = stash;
}

/* Inputs that share a gradient all get it: that of the output, or what backward made of it. */
static void share_gradient(bench *b)
{
    const bool made = (b->r->desc->form[DT_BACKWARD].writes & DT_BIT(DT_DX)) != 0;
    const buffer *from = &b->port[made ? DT_DX : DT_DY];
    for (int i = made ? 1 : 0; i < b->r->n_x && b->r->desc->shares_dy; i++)
        memcpy(b->port[DT_DX + i].bytes, from->bytes, from->size);
}

static void backward(bench *b)
{
    if (b->r->desc->form[DT_BACKWARD].suffix != NULL)
        restore(b);
    share_gradient(b);
    if (b->r->desc->form[DT_BACKWARD2].suffix == NULL)
        return;
    derive(b, DT_BACKWARD2, DT_DERIVE_B, 1);
    run_form(b, DT_BACKWARD2);
}

/* Padding in the library's layout must be zero, or an optimizer would carry junk along: then
 * putting back what was got gives the same bytes. */
static void assert_padding_is_zero(const bench *b, int i, const float *plain)
{
    buffer again = make_buffer(param_bytes(b, i));
    param_put(b, i, plain, again.bytes);
    if (memcmp(again.bytes, b->port[DT_DP + i].bytes, again.size) != 0)
        fail_msg("layer %s: the padding of gradient %d is not zero", b->r->desc->name, i);
    free_buffer(&again);
}

static float *to_plain(const bench *b, int port, const dt_shape *s)
{
    const size_t n = (size_t)(b->r->n * dt_shape_sample(s));
    const void *bytes = b->port[port].bytes;
    float *v = new_values(n), *nhwc = new_values(n);
    for (size_t i = 0; i < n; i++)
        nhwc[i] = type_of(b, port) == DT_BF16 ? dt_bf16_to_float(((const dt_bf16 *)bytes)[i])
                                              : ((const float *)bytes)[i];
    dt_to_nchw(nhwc, v, b->r->n, s);
    free(nhwc);
    return v;
}

static void collect(bench *b)
{
    dt_layer_run *r = b->r;
    const dt_layer_info *info = &node_of(b)->info;
    memcpy(&r->metrics, b->port[DT_METRICS].bytes, sizeof r->metrics);
    for (int i = 0; i < info->n_param; i++) {
        float *v = new_values((size_t)dt_param_count(&info->param[i]));
        const int port = info->param[i].buffer ? DT_Q : DT_DP;
        param_get(b, i, b->port[port + i].bytes, v);
        *(info->param[i].buffer ? &r->got_pending[i] : &r->got_dparam[i]) = v;
        if (!info->param[i].buffer && !r->eval && !r->forward_only)
            assert_padding_is_zero(b, i, v);
    }
    for (int i = 0; i < r->n_x; i++)
        r->got_dx[i] = to_plain(b, DT_DX + i, &r->x[i]);
}

void dt_layer_check(dt_layer_run *r)
{
    dt_err err = {0};
    bench b = {.r = r, .k = r->desc->cpu};
    int32_t ids[DT_MAX_IN], id;
    assert_non_null(b.k);
    assert_ok(dt_graph_create(&b.g, "bench", r->x[0], 10, &err), &err);
    for (int i = 0; i < r->n_x; i++) {
        assert_true(dt_shape_same(&r->x[i], &r->x[0]));
        ids[i] = DT_GRAPH_INPUT;
    }
    assert_ok(dt_graph_add(b.g, r->desc, "layer", r->opts, ids, r->n_x, &id, &err), &err);
    b.g->dtype = r->dtype;
    for (int i = 0; i < DT_ROOMS; i++)
        b.g->node[id].room[i] = r->room;
    b.call = (dt_call){.node = &b.g->node[id],
        .graph = b.g,
        .alt = r->alt,
        .dtype = r->dtype,
        .n = r->n,
        .home_n = r->home_n > 0 ? r->home_n : r->n,
        .needs_dx = true};
    r->info = b.call.node->info;
    make_ports(&b);
    forward(&b);
    r->got_y = to_plain(&b, DT_Y, &r->info.y);
    if (!r->eval && !r->forward_only)
        backward(&b);
    collect(&b);
    for (int p = 0; p < DT_PORTS; p++)
        free_buffer(&b.port[p]);
    dt_graph_destroy(b.g);
}

void dt_layer_check_free(dt_layer_run *r)
{
    free(r->got_y);
    r->got_y = NULL;
    for (int i = 0; i < DT_MAX_IN; i++) {
        free(r->got_dx[i]);
        r->got_dx[i] = NULL;
    }
    for (int i = 0; i < DT_MAX_PARAM; i++) {
        free(r->got_dparam[i]);
        free(r->got_pending[i]);
        r->got_dparam[i] = r->got_pending[i] = NULL;
    }
}
