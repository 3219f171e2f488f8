/* Layers with a weight of the library's: which primitive or reorder an op is, and its weight's
 * home.
 */
#include "layers/cpu/weighted.h"

#include <stdio.h>
#include <string.h>

#include "engine/base/alloc.h"
#include "engine/base/numbers_text.h"
#include "layers/blocked/weight_pairs.h"
#include "layers/cpu/row_tiles.h"
#include "layers/cpu/sample_parts.h"
#include "layers/cpu/widened.h"

dt_dnnl_problem dti_rows_problem(const dt_call *c, int64_t in, int64_t out, bool bias)
{
    return (dt_dnnl_problem){.fc = 1,
        .bias = bias,
        .bf16 = c->dtype == DT_BF16,
        .groups = 1,
        .c = in,
        .h = 1,
        .w = 1,
        .out = out,
        .p = 1,
        .q = 1,
        .kernel = 1,
        .stride = 1,
        .dilation = 1};
}

/* One op: a primitive of one direction, or a reorder between two layouts. */
typedef struct job {
    bool reorder;
    dt_dnnl_layout from, to; /* of the weight; a direction uses only @to */
} job;

static const dt_dnnl_layout plain_layout = {.kind = DT_DNNL_PLAIN};

/* A weight that belongs to another layer lives as that one has it: plain. */
static dt_dnnl_layout home(const dt_dnnl_problem *p, const dt_call *c)
{
    if (p->plain || c->node->shares != DT_SHARES_NONE)
        return plain_layout;
    if (p->hwio)
        return (dt_dnnl_layout){.kind = DT_DNNL_HWIO};
    return dti_sample_parts_layout(p, DT_DNNL_WEIGHTS, c->home_n);
}

/* False for forms these layers do not have. */
static bool find_job(const dt_dnnl_problem *p, const dt_call *c, job *j)
{
    const dt_dnnl_kind data = p->panels ? DT_DNNL_PANELS : DT_DNNL_DATA;
    *j = (job){.from = home(p, c)};
    switch (c->form) {
    case DT_FORWARD:
    case DT_RECOMPUTE:
    case DT_EVAL:
        j->to = dti_sample_parts_layout(p, DT_DNNL_FORWARD, c->n);
        return true;
    case DT_BACKWARD:
        j->to = dti_sample_parts_layout(p, DT_DNNL_WEIGHTS, c->n);
        return true;
    case DT_BACKWARD2:
        j->to = dti_sample_parts_layout(p, data, c->n);
        return true;
    case DT_DERIVE_F:
        j->reorder = true;
        j->to = dti_sample_parts_layout(p, DT_DNNL_FORWARD, c->n);
        return true;
    case DT_DERIVE_B:
        j->reorder = true;
        j->to = dti_sample_parts_layout(p, data, c->n);
        return true;
    case DT_RESTORE:
        *j = (job){true, dti_sample_parts_layout(p, DT_DNNL_WEIGHTS, c->n), home(p, c)};
        return true;
    case DT_UPDATE:
    case DT_FORMS:
        return false;
    }
    return false;
}

/* Whether the reorder to @to is a kernel's of ours. What cannot be asked is the library's, too. */
static bool find_pairs(
    const dt_dnnl_problem *p, const job *j, const dt_dnnl_facts *to, dti_weight_pairs *w)
{
    dt_dnnl_facts lives, plain;
    *w = (dti_weight_pairs){.out = p->out,
        .in = p->c,
        .taps = dt_sides_h(p->kernel) * dt_sides_w(p->kernel),
        .columns = to->pairs,
        .hwio = j->from.kind == DT_DNNL_HWIO,
        .transposed = to->plain_rows};
    if (!j->reorder || p->fc || p->groups != 1 || !dti_weight_pairs_can(w))
        return false;
    return w->hwio ||
           (dt_dnnl_ask(p, j->from, &lives, NULL) == DT_OK &&
               dt_dnnl_ask(p, plain_layout, &plain, NULL) == DT_OK && lives.layout == plain.layout);
}

dt_status dti_weighted_no_form(const dt_call *c, dt_err *err)
{
    return DT_FAIL(err, DT_E_INTERNAL, "layer '%s' has no form %d", c->node->name, (int)c->form);
}

/* Whether an op computes with samples, and does not make a copy of a weight or a gradient. */
static bool computes(const dt_call *c)
{
    return c->form != DT_DERIVE_F && c->form != DT_DERIVE_B && c->form != DT_RESTORE;
}

static dt_status library_facts(
    const dt_dnnl_problem *p, const dt_call *c, dt_facts *f, size_t *weight, dt_err *err)
{
    job j;
    dt_dnnl_facts own, move;
    *f = (dt_facts){0};
    if (!find_job(p, c, &j))
        return dti_weighted_no_form(c, err);
    dt_status st = j.reorder ? dti_dnnl_ask_reorder(p, j.from, j.to, &own, err)
                             : dt_dnnl_ask(p, j.to, &own, err);
    if (st == DT_OK && !j.reorder)
        st = dti_dnnl_ask_reorder(p, home(p, c), j.to, &move, err);
    f->adds = c->form == DT_BACKWARD && dti_row_tiles_can(p, c->n, home(p, c));
    const bool in_tiles = f->adds && c->add != 0;
    if (st == DT_OK && in_tiles)
        st = dti_row_tiles_ask(p, c->n, &own, err);
    DT_TRY(err, st, "layer '%s'", c->node->name);
    *weight = own.weight_bytes;
    f->work_bytes =
        j.reorder || in_tiles ? own.work_bytes : dti_sample_parts_work(p, j.to.kind, c->n, &own);
    f->layout = own.layout;
    memcpy(f->impl, own.impl, sizeof f->impl);
    dti_weight_pairs pairs;
    if (find_pairs(p, &j, &own, &pairs)) {
        f->work_bytes = 0;
        snprintf(f->impl, sizeof f->impl, pairs.transposed ? "transposed" : "pairs");
    }
    if (j.reorder || move.same || in_tiles)
        return DT_OK;
    if (j.to.kind == DT_DNNL_WEIGHTS)
        f->gradient_bytes = own.weight_bytes;
    else
        f->derived_bytes = own.weight_bytes;
    return DT_OK;
}
_Static_assert(sizeof((dt_facts){0}.impl) == sizeof((dt_dnnl_facts){0}.impl), "copied whole");

dt_status dti_weighted_facts(const dt_dnnl_problem *p, const dt_call *c, dt_facts *f, dt_err *err)
{
    const dti_widened w = dti_widened_of(p, c);
    size_t weight;
    DT_CHECK(library_facts(&w.problem, &w.call, f, &weight, err));
    if (w.pieces > 0 && computes(c)) {
        const dti_widened_places at = dti_widened_places_of(&w, f->work_bytes, weight);
        f->work_bytes = dti_widened_work(&at);
        char of[sizeof f->impl];
        memcpy(of, f->impl, sizeof of);
        dt_snprintf(f->impl, sizeof f->impl, "widened:%s", of);
    }
    return DT_OK;
}

/* One of these: an op of the library's, many of tiles, one a part of the samples, or a reorder of
 * ours, which has outputs. @wide: pieces of it, if any */
typedef struct prepared {
    dti_widened_places wide;
    dti_weight_pairs pairs;
    dt_dnnl_op *op;
    dti_row_tiles *tiles;
    dti_sample_parts *parts;
} prepared;

static dt_status create_reorder(prepared *s, const dt_dnnl_problem *p, const job *j, dt_err *err)
{
    dt_dnnl_facts to;
    DT_CHECK(dti_dnnl_ask_reorder(p, j->from, j->to, &to, err));
    if (find_pairs(p, j, &to, &s->pairs))
        return DT_OK;
    s->pairs = (dti_weight_pairs){0};
    return dti_dnnl_create_reorder(&s->op, p, j->from, j->to, err);
}

static dt_status prepare(
    prepared *s, const dt_dnnl_problem *p, const dt_call *c, const job *j, dt_err *err)
{
    if (j->reorder)
        return create_reorder(s, p, j, err);
    if (c->add != 0)
        return dti_row_tiles_create(&s->tiles, p, c->n, home(p, c), err);
    return j->to.alone ? dti_sample_parts_create(&s->parts, p, j->to.kind, c->n, err)
                       : dt_dnnl_create(&s->op, p, j->to, err);
}

dt_status dti_weighted_create(const dt_dnnl_problem *p, const dt_call *c, void **state, dt_err *err)
{
    const dti_widened w = dti_widened_of(p, c);
    job j;
    dt_facts f;
    size_t weight;
    *state = NULL;
    if (!find_job(&w.problem, &w.call, &j))
        return dti_weighted_no_form(c, err);
    prepared *s = dt_alloc(1, sizeof *s);
    if (s == NULL)
        return DT_FAIL(err, DT_E_NOMEM, "layer '%s': no memory to prepare an op", c->node->name);
    dt_status st = prepare(s, &w.problem, &w.call, &j, err);
    if (st == DT_OK && w.pieces > 0 && computes(c)) {
        st = library_facts(&w.problem, &w.call, &f, &weight, err);
        if (st == DT_OK)
            s->wide = dti_widened_places_of(&w, f.work_bytes, weight);
    }
    if (st != DT_OK)
        dti_weighted_destroy(s);
    DT_TRY(err, st, "layer '%s'", c->node->name);
    *state = s;
    return DT_OK;
}

void dti_weighted_destroy(void *state)
{
    prepared *s = state;
    if (s == NULL)
        return;
    dt_dnnl_destroy(s->op);
    dti_row_tiles_destroy(s->tiles);
    dti_sample_parts_destroy(s->parts);
    dt_free(s);
}

/* Ports of each form, in the order of dt_dnnl_bytes without work. A weight that needs no other
 * layout is bound to the derived port as it lives. */
static const uint8_t ports[DT_FORMS][4] = {
    [DT_FORWARD] = {DT_X, DT_Y, DT_D, DT_P + 1},
    [DT_RECOMPUTE] = {DT_X, DT_Y, DT_D, DT_P + 1},
    [DT_EVAL] = {DT_X, DT_Y, DT_D, DT_P + 1},
    [DT_BACKWARD] = {DT_X, DT_DY, DT_DP, DT_DP + 1},
    [DT_BACKWARD2] = {DT_DX, DT_DY, DT_D + 1, DT_P + 1},
    [DT_DERIVE_F] = {DT_P, DT_D, DT_D, DT_P + 1},
    [DT_DERIVE_B] = {DT_P, DT_D + 1, DT_D + 1, DT_P + 1},
    [DT_RESTORE] = {DT_S, DT_DP, DT_DP, DT_P + 1},
};

/* What was prepared, of the samples that it was prepared for. */
typedef struct running {
    const prepared *s;
    bool add_bias;
} running;

static dt_status run_prepared(void *self, const dt_dnnl_bytes *bytes, dt_err *err)
{
    const running *r = self;
    const prepared *s = r->s;
    return s->tiles != NULL   ? dti_row_tiles_run(s->tiles, bytes, r->add_bias, err)
           : s->parts != NULL ? dti_sample_parts_run(s->parts, bytes, err)
                              : dt_dnnl_run(s->op, bytes, err);
}

dt_status dti_weighted_run(const dt_call *c, void *state, const dt_args *a, dt_err *err)
{
    const uint8_t *at = ports[c->form];
    DT_ASSERT(a->n == c->n);
    const dt_dnnl_bytes bytes = {
        a->port[at[0]], a->port[at[1]], a->port[at[2]], a->port[at[3]], a->port[DT_WORK]};
    const prepared *s = state;
    running r = {s, (c->add & 2) != 0};
    if (s->pairs.out > 0) {
        dti_weight_pairs_run(&s->pairs, bytes.x, bytes.y);
        return DT_OK;
    }
    DT_TRY(err,
        s->wide.pieces > 0 ? dti_widened_run(&s->wide, c->form, &bytes, run_prepared, &r, err)
                           : run_prepared(&r, &bytes, err),
        "layer '%s'", c->node->name);
    return DT_OK;
}

dt_status dti_weighted_bytes(
    const dt_dnnl_problem *p, const dt_call *c, int i, size_t *bytes, dt_err *err)
{
    const dti_widened w = dti_widened_of(p, c);
    dt_dnnl_facts f;
    *bytes = dti_weighted_plain_bytes(c, i);
    if (i > 0)
        return DT_OK;
    DT_TRY(err, dt_dnnl_ask(&w.problem, home(&w.problem, &w.call), &f, err), "layer '%s'",
        c->node->name);
    *bytes = f.weight_bytes;
    return DT_OK;
}

/* One reorder, with scratch of its own: parameters are loaded and saved outside the step. */
static dt_status convert_all(
    const dt_dnnl_problem *p, dt_dnnl_layout from, dt_dnnl_layout to, void *x, void *y, dt_err *err)
{
    dt_dnnl_facts f;
    dt_dnnl_op *op;
    DT_CHECK(dti_dnnl_ask_reorder(p, from, to, &f, err));
    DT_CHECK(dti_dnnl_create_reorder(&op, p, from, to, err));
    const dt_dnnl_bytes bytes = {.x = x, .y = y, .work = dt_alloc(f.work_bytes, 1)};
    const dt_status st =
        bytes.work == NULL ? DT_FAIL(err, DT_E_NOMEM, "%zu bytes to reorder a weight", f.work_bytes)
                           : dt_dnnl_run(op, &bytes, err);
    dt_free(bytes.work);
    dt_dnnl_destroy(op);
    return st;
}

/* The library takes its inputs without const and does not write to them. */
static void *unconst(const void *p)
{
    void *q;
    memcpy(&q, &p, sizeof q);
    return q;
}

/* Values of a row of what lives as files have it: of a bias, or of an fc's plain weight; 0 of
 * others.
 */
static int64_t plain_row(const dt_dnnl_problem *p, const dt_call *c, int i)
{
    return i > 0 ? 1 : p->fc && home(p, c).kind == DT_DNNL_PLAIN ? p->c : 0;
}

/* Of an fc's weight whose layout keeps rows together. A padded one is written whole, so that the
 * padding is. */
int64_t dti_weighted_rows(const dt_dnnl_problem *p, const dt_call *c, int i)
{
    dt_dnnl_facts f;
    dt_dnnl_op *op = NULL;
    if (plain_row(p, c, i) > 0)
        return 1;
    if (!p->fc)
        return 0;
    const int64_t most = dti_dnnl_rows(), first = p->out > most ? most : 0, left = p->out - first;
    const bool apart = dt_dnnl_ask(p, home(p, c), &f, NULL) == DT_OK &&
                       f.weight_bytes == dti_weighted_plain_bytes(c, 0) &&
                       dti_dnnl_create_reorder_rows(&op, p, home(p, c), plain_layout, first,
                           left < most ? left : most, NULL) == DT_OK;
    dt_dnnl_destroy(op);
    return apart ? most : 0;
}

/* Some of an fc's weight: how much of a matrix the bytes are, the library wants to know. */
static dt_status convert_rows(const dt_dnnl_problem *p, dt_dnnl_layout from, dt_dnnl_layout to,
    dt_rows rows, const dt_dnnl_bytes *bytes, dt_err *err)
{
    dt_dnnl_op *op;
    DT_CHECK(dti_dnnl_create_reorder_rows(&op, p, from, to, rows.at, rows.n, err));
    const dt_status st = dt_dnnl_run(op, bytes, err);
    dt_dnnl_destroy(op);
    return st;
}

static dt_status convert(const dt_dnnl_problem *p, dt_dnnl_layout from, dt_dnnl_layout to,
    dt_rows rows, void *x, void *y, dt_err *err)
{
    const dt_dnnl_bytes bytes = {.x = x, .y = y};
    return !p->fc || rows.n == p->out ? convert_all(p, from, to, x, y, err)
                                      : convert_rows(p, from, to, rows, &bytes, err);
}

dt_status dti_weighted_put(const dt_dnnl_problem *p, const dt_call *c, int i, dt_rows rows,
    const float *plain, void *lives, dt_err *err)
{
    const dti_widened w = dti_widened_of(p, c);
    const int64_t row = plain_row(p, c, i);
    if (row > 0) {
        memcpy((float *)lives + rows.at * row, plain, (size_t)(rows.n * row) * sizeof *plain);
        return DT_OK;
    }
    DT_TRY(err,
        convert(
            &w.problem, plain_layout, home(&w.problem, &w.call), rows, unconst(plain), lives, err),
        "layer '%s', weight", c->node->name);
    return DT_OK;
}

dt_status dti_weighted_get(const dt_dnnl_problem *p, const dt_call *c, int i, dt_rows rows,
    const void *lives, float *plain, dt_err *err)
{
    const dti_widened w = dti_widened_of(p, c);
    const int64_t row = plain_row(p, c, i);
    if (row > 0) {
        memcpy(plain, (const float *)lives + rows.at * row, (size_t)(rows.n * row) * sizeof *plain);
        return DT_OK;
    }
    DT_TRY(err,
        convert(
            &w.problem, home(&w.problem, &w.call), plain_layout, rows, unconst(lives), plain, err),
        "layer '%s', weight", c->node->name);
    return DT_OK;
}
