/* Layers from outside: include/dnntrain/layer.h as descriptors and the processor's kernels. */
#include <dnntrain/layer.h>

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "engine/config/outside.h"
#include "engine/config/run_options.h"
#include "engine/kernels.h"
#include "engine/program/program.h"
#include "layers/registry.h"

/* Backward has x and dx of each input, each parameter and its gradient, y, dy and scratch. */
_Static_assert(2 * DT_LAYER_INPUTS + 2 * DT_LAYER_PARAMS + 3 <= (int)DT_MAX_ARGS, "operands");
_Static_assert((int)DT_LAYER_INPUTS <= (int)DT_MAX_IN, "inputs");
_Static_assert((int)DT_LAYER_PARAMS == (int)DT_MAX_PARAM, "parameters");
_Static_assert((int)DT_BEGIN_NORMAL == (int)DT_INIT_NORMAL, "beginnings");

static struct {
    dt_layer_spec spec;
    dt_layer_desc desc;
    dt_opt row[DT_LAYER_OPTIONS + 1];
} outside[DT_OUTSIDE_LAYERS];
static atomic_size_t n_outside; /* an entry is whole before it is counted, and stays */
static pthread_mutex_t registering = PTHREAD_MUTEX_INITIALIZER;

/* ---- shapes ---- */

static dt_extent extent(dt_shape s)
{
    return (dt_extent){s.h, s.w, s.c};
}

/* Of parameter @i. */
static dt_status check_param(const dt_layer_spec *s, const dt_layer_shape *l, int i, dt_err *err)
{
    const dt_layer_param *p = &l->param[i];
    bool fine = dt_is_word(p->name) && p->rank >= 1 && p->rank <= 4;
    for (int k = 0; fine && k < p->rank; k++)
        fine = p->d[k] >= 1;
    if (!fine)
        return DT_FAIL(err, DT_E_CONFIG,
            "layer '%s' says of parameter %d no name of a-z, 0-9 and _ and no 1 to 4 dimensions",
            s->name, i);
    if ((int)p->begin < DT_BEGIN_ZERO || (int)p->begin > DT_BEGIN_NORMAL ||
        !(p->scale >= 0 && isfinite(p->scale)))
        return DT_FAIL(err, DT_E_CONFIG,
            "layer '%s': parameter '%s' begins as no dt_begin, or with scale %g, which must be 0 "
            "or "
            "more",
            s->name, p->name, p->scale);
    for (int k = 0; k < i; k++)
        if (strcmp(l->param[k].name, p->name) == 0)
            return DT_FAIL(
                err, DT_E_CONFIG, "layer '%s' has two parameters '%s'", s->name, p->name);
    return DT_OK;
}

static bool are_flops(double n)
{
    return n >= 0 && isfinite(n);
}

static dt_status infer(const dt_layer_spec *s, const void *opts, const dt_shape *x, int n_x,
    dt_layer_info *info, dt_err *err)
{
    dt_extent in[DT_LAYER_INPUTS];
    dt_layer_shape l = {0};
    for (int i = 0; i < n_x; i++)
        in[i] = extent(x[i]);
    const int notes = dt_err_notes(err);
    const dt_status st = s->infer(opts, in, n_x, &l, err);
    DT_CHECK(dt_outside_status(st, DT_E_CONFIG, "its infer", notes, err));
    if (l.y.h < 1 || l.y.w < 1 || l.y.c < 1)
        return DT_FAIL(err, DT_E_CONFIG, "layer '%s' gives no output", s->name);
    if (!are_flops(l.forward_flops) || !are_flops(l.backward_flops))
        return DT_FAIL(err, DT_E_CONFIG, "layer '%s' says that it takes %g and %g operations",
            s->name, l.forward_flops, l.backward_flops);
    const bool same = l.y.h == in[0].h && l.y.w == in[0].w && l.y.c == in[0].c;
    if (s->in_place && !same)
        return DT_FAIL(err, DT_E_CONFIG,
            "layer '%s' is in place, but its output is of another extent", s->name);
    *info = (dt_layer_info){.y = {1, l.y.h, l.y.w, l.y.c},
        .n_param = s->n_param,
        .forward_flops = l.forward_flops,
        .backward_flops = {l.backward_flops}};
    for (int i = 0; i < s->n_param; i++) {
        const dt_layer_param *p = &l.param[i];
        dt_param_info *to = &info->param[i];
        DT_CHECK(check_param(s, &l, i, err));
        *to = (dt_param_info){
            .name = p->name, .rank = p->rank, .init = (dt_init_kind)p->begin, .scale = p->scale};
        for (int k = 0; k < p->rank; k++)
            to->d[k] = p->d[k];
    }
    return DT_OK;
}

/* A layer's infer is told no descriptor, so that each has one of its own. */
#define EACH(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7)
#define INFER(i)                                                                                   \
    static dt_status infer_##i(                                                                    \
        const void *opts, const dt_shape *x, int n_x, dt_layer_info *info, dt_err *err)            \
    {                                                                                              \
        return infer(&outside[i].spec, opts, x, n_x, info, err);                                   \
    }
EACH(INFER)
#define NAME(i) infer_##i,
static dt_status (*const infers[])(
    const void *opts, const dt_shape *x, int n_x, dt_layer_info *info, dt_err *err) = {EACH(NAME)};
_Static_assert(DT_COUNT(infers) == DT_OUTSIDE_LAYERS, "one a layer");

/* ---- kernels ---- */

static const dt_layer_spec *spec_of(const dt_call *c)
{
    const size_t n = n_outside;
    for (size_t i = 0; i < n; i++)
        if (c->node->desc == &outside[i].desc)
            return &outside[i].spec;
    return NULL;
}

static dt_status facts(const dt_call *c, dt_facts *f, dt_err *err)
{
    if (c->dtype != DT_F32)
        return DT_FAIL(err, DT_E_CONFIG,
            "layer '%s' computes in fp32 only; set train.precision = fp32", c->node->desc->name);
    memcpy(f->impl, "outside", sizeof "outside");
    return DT_OK;
}

static dt_status run(const dt_call *c, void *state, const dt_args *a, dt_err *err)
{
    const dt_layer_spec *s = spec_of(c);
    dt_extent in[DT_LAYER_INPUTS];
    (void)state, (void)err;
    dt_layer_job j = {.options = c->node->opts,
        .n = a->n,
        .n_x = c->node->n_in,
        .extent = in,
        .y_extent = extent(c->node->info.y),
        .y = a->port[DT_Y],
        .dy = a->port[DT_DY]};
    for (int i = 0; i < j.n_x; i++) {
        in[i] = extent(dt_graph_shape(c->graph, c->node->in[i]));
        j.x[i] = a->port[DT_X + i];
        j.dx[i] = a->port[DT_DX + i];
    }
    for (int i = 0; i < s->n_param; i++) {
        j.param[i] = a->port[DT_P + i];
        j.dparam[i] = a->port[DT_DP + i];
    }
    (c->form == DT_BACKWARD ? s->backward : s->forward)(&j);
    return DT_OK;
}

static const dt_kernels kernels = {.facts = facts, .run = run};

/* ---- registering ---- */

static dt_layer_desc describe(const dt_layer_spec *s, const dt_opt *rows, size_t slot)
{
    const dt_ports params = s->n_param > 0 ? DT_BITS(DT_P, (unsigned)s->n_param) : 0;
    const dt_ports gradients = s->n_param > 0 ? DT_BITS(DT_DP, (unsigned)s->n_param) : 0;
    dt_layer_desc d = {.name = s->name,
        .summary = s->summary,
        .opts = s->options_bytes > 0 ? rows : NULL, /* none fill a struct with zeros */
        .opts_bytes = s->options_bytes,
        .min_in = s->min_x,
        .max_in = s->max_x,
        .form = {[DT_FORWARD] = {.suffix = "f",
                     .reads = DT_BIT(DT_X) | params,
                     .writes = DT_BIT(DT_Y)},
            [DT_BACKWARD] = {.suffix = "b",
                .reads = DT_BIT(DT_DY) | params,
                .writes = DT_BIT(DT_DX) | gradients,
                .saved = s->keeps_x || s->keeps_y}},
        .n_alt = s->keeps_x || s->keeps_y,
        .alt = {{s->keeps_x && s->keeps_y ? "xy"
                 : s->keeps_x             ? "x"
                                          : "y",
            (s->keeps_x ? DT_BIT(DT_X) : 0) | (s->keeps_y ? DT_BIT(DT_Y) : 0)}},
        .repeatable = true,
        .outside = true,
        .infer = infers[slot],
        .cpu = &kernels};
    if (s->in_place) {
        d.form[DT_FORWARD].n_over = d.form[DT_BACKWARD].n_over = 1;
        d.form[DT_FORWARD].over[0].out = DT_Y;
        d.form[DT_FORWARD].over[0].in = DT_X;
        d.form[DT_BACKWARD].over[0].out = DT_DX;
        d.form[DT_BACKWARD].over[0].in = DT_DY;
    }
    return d;
}

static bool counts_hold(const dt_layer_spec *s)
{
    return s->min_x >= 1 && s->max_x >= s->min_x && s->max_x <= DT_LAYER_INPUTS &&
           s->n_param >= 0 && s->n_param <= DT_LAYER_PARAMS && !(s->in_place && s->keeps_x);
}

/* The caller holds the lock. */
static dt_status add(const dt_layer_spec *s, dt_err *err)
{
    const size_t n = n_outside;
    if (dt_layer_find(s->name) != NULL)
        return DT_FAIL(err, DT_E_CONFIG, "layer '%s': there is one of that name", s->name);
    if (n == DT_OUTSIDE_LAYERS)
        return DT_FAIL(err, DT_E_CONFIG, "layer '%s': %d are registered already", s->name, (int)n);
    for (size_t i = 0; i < s->n_options; i++)
        outside[n].row[i] = s->options[i];
    outside[n].spec = *s;
    outside[n].desc = describe(s, outside[n].row, n);
    n_outside = n + 1;
    dti_layer_add(&outside[n].desc);
    return DT_OK;
}

dt_status dt_register_layer(const dt_layer_spec *s, dt_err *err)
{
    if (s == NULL)
        return DT_FAIL(err, DT_E_CONFIG, "a layer's dt_layer_spec is NULL");
    DT_CHECK(dt_outside_check("layer", s->name, s->options, s->n_options, s->options_bytes, err));
    if (s->summary == NULL || s->infer == NULL || s->forward == NULL || s->backward == NULL ||
        !counts_hold(s))
        return DT_FAIL(err, DT_E_CONFIG,
            "layer '%s': it needs a summary, infer, forward and backward, 1 to %d inputs and at "
            "most "
            "%d parameters, and is not in place where it keeps x",
            s->name, (int)DT_LAYER_INPUTS, (int)DT_LAYER_PARAMS);
    for (const dt_run_section *of = dt_run_sections; of->name != NULL; of++)
        if (strcmp(of->name, s->name) == 0)
            return DT_FAIL(err, DT_E_CONFIG,
                "layer '%s': [%s] is a section of every configuration; take another name", s->name,
                s->name);
    pthread_mutex_lock(&registering);
    const dt_status st = add(s, err);
    pthread_mutex_unlock(&registering);
    return st;
}
