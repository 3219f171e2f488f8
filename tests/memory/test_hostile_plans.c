/* Plans that somebody has changed: every field of their ops, one at a time. Each is refused with a
 * message, or gives the bits of the plan that it was made from. What a kernel does to memory that
 * is not its own shows under the sanitizers. */
#include "tests/fixture/check.h"

#include <stdio.h>
#include <string.h>

#include "engine/base/alloc.h"
#include "engine/base/cpu.h"
#include "engine/graph_share.h"
#include "engine/runner/runner.h"
#include "layers/weighted/conv.h"
#include "layers/elementwise/dropout.h"
#include "layers/sequence/embedding.h"
#include "layers/weighted/fc.h"
#include "layers/weighted/linear.h"
#include "layers/plain.h"
#include "layers/registry.h"
#include "memory/codec_op.h"
#include "memory/pass.h"
#include "memory/tier.h"
#include "memory/verify/verify.h"
#include "tests/fixture/planned.h"

enum { BATCH = 2, MOST_SAME = 6 };

/* A network, one of its plans, and what a run of that leaves. */
typedef struct subject {
    dt_lowered m;
    dt_runner *runner;
    float *x;
    int32_t *labels;
    unsigned char *left;
    const char *what;
    int changes, refused, taken;
} subject;

static dt_runner *open_runner(const subject *s)
{
    dt_err err = {0};
    dt_runner *r;
    const dt_plan *p = s->m.plan;
    const dt_runner_opts o = {.graph = s->m.graph,
        .map = s->m.map,
        .find_op = dt_layer_find,
        .codecs = &dt_codecs,
        .arena_bytes = p->peak,
        .tier = {[DT_TIER_HOST] =
                     p->tier_peak[DT_TIER_HOST] > 0 ? dt_tier_desc_find("host") : NULL},
        .tier_bytes = {[DT_TIER_HOST] = p->tier_peak[DT_TIER_HOST]},
        .seed = 3,
        .threads = 1};
    assert_ok(dt_runner_create(&r, &o, &err), &err);
    return r;
}

/* All that outlives a run of a plan. */
static dt_status run(subject *s, int id, unsigned char *left, dt_err *err)
{
    DT_CHECK(dt_runner_init(s->runner, err));
    const dt_run_args a = {.batch = {s->x, s->labels, BATCH},
        .step_labels = BATCH,
        .hyper = {.lr = 0.1F, .momentum = 0.9F, .weight_decay = 0.1F}};
    DT_CHECK(dt_runner_run(s->runner, id, &a, err));
    for (size_t i = 0; i < s->m.map->n; i++) {
        const dt_home *h = &s->m.map->home[i];
        DT_CHECK(dti_runner_read(s->runner, (int32_t)i, left + h->off, h->bytes, err));
    }
    return DT_OK;
}

/* Moments are in 8 bits from now on, or updates are early. */
static void change_map(dt_lowered *m, const char *how, dt_program_kind kind)
{
    dt_err err = {0};
    const bool early = strcmp(how, "early") == 0;
    dt_program_destroy(m->program);
    assert_ok(early ? dt_map_update_early(m->map, false, &err)
                    : dt_map_pack_moments(m->map, m->graph, &err),
        &err);
    m->program = dt_program_on(m->graph, m->map, kind, BATCH);
}

/* @policies: or "8bit" or "early", of keep_all with moments in 8 bits or early updates. */
static void open_subject(
    subject *s, const char *what, dt_graph *g, const char *policies, dt_program_kind kind)
{
    const bool changed = strcmp(policies, "8bit") == 0 || strcmp(policies, "early") == 0;
    dt_err err = {0};
    int id;
    (void)dt_cpu_setup(1); /* plans are for so many threads */
    *s = (subject){.m = dt_program_of(g, kind, BATCH), .what = what};
    if (changed)
        change_map(&s->m, policies, kind);
    policies = changed ? "keep_all" : policies;
    if (kind != DT_PROGRAM_UPDATE)
        dt_rewrite(s->m.program, policies);
    s->m.plan = dt_planned_by(s->m.program, policies, "greedy");
    const size_t floats = BATCH * (size_t)dt_shape_sample(&g->input);
    const size_t labels = BATCH * (size_t)dt_graph_labels(g);
    const int64_t tokens = dt_graph_vocabulary(g);
    s->x = dt_alloc(floats, sizeof *s->x);
    s->labels = dt_alloc(labels, sizeof *s->labels);
    s->left = dt_alloc(s->m.map->bytes, 1);
    assert_true(s->x != NULL && s->labels != NULL && s->left != NULL);
    for (size_t i = 0; i < floats; i++)
        s->x[i] = tokens > 0 ? (float)(i * 7 % (size_t)tokens) : (float)(i * 31 % 101) / 50 - 1;
    for (size_t i = 0; i < labels; i++)
        s->labels[i] = (int32_t)(i * 5 % (size_t)g->classes);
    s->runner = open_runner(s);
    assert_ok(dt_runner_add(s->runner, s->m.plan, &id, &err), &err);
    assert_ok(run(s, id, s->left, &err), &err);
}

static void close_subject(subject *s)
{
    dt_runner_destroy(s->runner);
    dt_free(s->x);
    dt_free(s->labels);
    dt_free(s->left);
    dt_lowered_close(&s->m);
}

/* The plan as it is now; of all changes a part is tried. */
static void try_it(subject *s, const char *field, const char *op)
{
    dt_err err = {0};
    int id;
    if (!dt_picked((uint64_t)s->changes++, 12, 5, 1))
        return;
    dt_status st = dt_verify(s->m.plan, &err);
    if (st == DT_OK)
        st = dt_runner_add(s->runner, s->m.plan, &id, &err);
    if (st != DT_OK) {
        assert_true(err.n > 0 && err.text[0] != '\0');
        s->refused++;
        return;
    }
    unsigned char *left = dt_alloc(s->m.map->bytes, 1);
    assert_non_null(left);
    if (run(s, id, left, &err) != DT_OK)
        fail_msg(
            "%s: %s of %s changed: taken, but its run fails: %s", s->what, field, op, err.text);
    if (memcmp(left, s->left, s->m.map->bytes) != 0)
        fail_msg("%s: %s of %s changed: taken, but gives other bits", s->what, field, op);
    dt_free(left);
    s->taken++;
}

/* FIELD becomes VALUE, unless it is, and afterwards what it was. */
#define WITH(field, value)                                                                         \
    do {                                                                                           \
        const __typeof__(field) had_ = (field);                                                    \
        (field) = (__typeof__(field))(value);                                                      \
        if ((field) != had_)                                                                       \
            try_it(s, #field " = " #value, o->name);                                               \
        (field) = had_;                                                                            \
    } while (0)

static void change_layer(subject *s, dt_plan_op *o)
{
    static const char *const names[] = {"relu", "fc", "conv", "batchnorm", "sum", "sgd", "sgd8",
        "adam", "adam8", "commit", "codec", "nothing"};
    const dt_plan_op had = *o;
    for (size_t i = 0; i < DT_COUNT(names); i++) {
        if (strcmp(names[i], had.layer) == 0)
            continue;
        snprintf(o->layer, sizeof o->layer, "%s", names[i]);
        try_it(s, "layer", o->name);
    }
    *o = had;
    for (int32_t node = -2; node <= (int32_t)s->m.plan->n_node; node++)
        if (node < 2 || node + 2 > (int32_t)s->m.plan->n_node || node == had.node + 1)
            WITH(o->node, node);
    snprintf(o->algorithm, sizeof o->algorithm, "%s", had.algorithm[0] == '\0' ? "x" : "");
    try_it(s, "algorithm", o->name);
    *o = had;
}

static void change_call(subject *s, dt_plan_op *o)
{
    for (int i = 0; i <= DT_OP_KINDS; i++)
        WITH(o->kind, i);
    for (int i = 0; i <= DT_FORMS + 1; i++)
        WITH(o->form, i);
    for (int i = 0; i <= 4; i++)
        WITH(o->alt, i);
    for (int i = 0; i < 3; i++)
        WITH(o->dtype, i);
    for (int i = -1; i <= (int)dt_codecs.n + 1; i++)
        WITH(o->codec, i);
    WITH(o->needs_dx, !o->needs_dx);
    WITH(o->vector, !o->vector);
    WITH(o->packed, 0);
    WITH(o->packed, 4);
    WITH(o->packed, o->packed + 1);
    WITH(o->packed, UINT64_MAX);
    WITH(o->n0, o->n0 - 1);
    WITH(o->n0, o->n0 + 1);
    WITH(o->n0, INT64_MIN);
    WITH(o->n1, o->n1 - 1);
    WITH(o->n1, o->n1 + 1);
    WITH(o->n1, INT64_MAX);
    WITH(o->count, -1);
    WITH(o->count, 0);
    WITH(o->count, o->count + 1);
    WITH(o->count, o->count - 1);
    WITH(o->count, INT64_MAX);
    WITH(o->limit, 1);
    WITH(o->limit, 4096);
    WITH(o->limit, UINT64_MAX);
    WITH(o->work, o->work + 1);
}

static void change_tables(subject *s, dt_plan_op *o)
{
    WITH(o->first, o->first - 1);
    WITH(o->first, o->first + 1);
    WITH(o->first, INT32_MAX);
    WITH(o->n, o->n - 1);
    WITH(o->n, o->n + 1);
    WITH(o->n, 0);
    WITH(o->n, -1);
    if (o->n_safe < DT_MAX_OVER && o->n > 1) {
        const dt_plan_op had = *o;
        o->safe[o->n_safe].out = s->m.plan->arg[o->first + o->n - 1].tensor;
        o->safe[o->n_safe].in = s->m.plan->arg[o->first].tensor;
        o->n_safe++;
        try_it(s, "safe", o->name);
        *o = had;
    }
}

/* Another tensor of the same size, which the proof of the plan cannot tell. */
static void change_tensor(subject *s, const dt_plan_op *o, dt_plan_arg *a)
{
    const dt_plan *p = s->m.plan;
    int same = 0;
    for (size_t k = 1; k < p->n_tensor && same < MOST_SAME; k++) {
        const int32_t t = (int32_t)(((size_t)a->tensor + k) % p->n_tensor);
        if (p->tensor[t].bytes != p->tensor[a->tensor].bytes)
            continue;
        same++;
        WITH(a->tensor, t);
    }
    WITH(a->tensor, -1);
    WITH(a->tensor, p->n_tensor);
    WITH(a->tensor, 0);
}

static void change_args(subject *s, const dt_plan_op *o)
{
    for (int32_t i = o->first; i < o->first + o->n; i++) {
        dt_plan_arg *a = &s->m.plan->arg[i];
        change_tensor(s, o, a);
        for (int port = 0; port <= DT_PORTS; port++)
            WITH(a->port, port);
        WITH(a->port, 63);
        WITH(a->port, 255);
        for (int mode = 0; mode <= 4; mode++)
            WITH(a->mode, mode);
        WITH(a->from, a->from + 4);
        WITH(a->to, a->to - 4);
        WITH(a->to, a->to + 4);
        WITH(a->to, UINT64_MAX);
        if (a->tensor >= 0)
            WITH(s->m.plan->tensor[a->tensor].bytes, s->m.plan->tensor[a->tensor].bytes - 64);
    }
}

static void change_rows(subject *s)
{
    dt_plan *p = s->m.plan;
    for (size_t i = 0; i < p->n_row; i++) {
        dt_row *r = &p->row[i];
        const dt_plan_op *o = r->op >= 0 ? &p->op[r->op] : &p->op[0];
        const bool copies = r->kind == DT_ROW_COPY_IN || r->kind == DT_ROW_COPY_OUT;
        if (r->kind == DT_ROW_PLACE || r->kind == DT_ROW_RELEASE)
            WITH(r->event, INT32_MAX);
        if (!copies)
            continue;
        WITH(r->slot, 1 - r->slot);
        WITH(r->codec, r->codec + 1);
        WITH(r->stored, r->stored - 1);
        WITH(r->bytes, r->bytes - 4);
        WITH(r->stream, DT_MAX_STREAMS);
        WITH(r->tier, DT_TIER_DISK);
    }
}

/* Whether an op before this one is of the same layer, form and kind: then it is left out. */
static bool seen(const dt_plan *p, size_t op)
{
    for (size_t i = 0; i < op; i++)
        if (p->op[i].kind == p->op[op].kind && p->op[i].form == p->op[op].form &&
            p->op[i].n == p->op[op].n && strcmp(p->op[i].layer, p->op[op].layer) == 0)
            return true;
    return false;
}

static void change_all(const char *what, dt_graph *g, const char *policies, dt_program_kind kind)
{
    subject all, *s = &all;
    open_subject(s, what, g, policies, kind);
    for (size_t i = 0; i < s->m.plan->n_op; i++) {
        dt_plan_op *o = &s->m.plan->op[i];
        if (seen(s->m.plan, i))
            continue;
        change_layer(s, o);
        change_call(s, o);
        change_tables(s, o);
        change_args(s, o);
    }
    dt_plan_op *o = &s->m.plan->op[0];
    WITH(s->m.plan->batch, BATCH + 1);
    WITH(s->m.plan->batch, 0);
    WITH(s->m.plan->batch, -1);
    WITH(s->m.plan->batch, INT64_MAX);
    change_rows(s);
    print_message("%s: %d refused, %d taken\n", what, s->refused, s->taken);
    assert_true(s->refused > 20 * s->taken);
    close_subject(s);
}

static dt_graph *model(const char *name, int64_t image, int64_t width)
{
    const dt_model_opts o = {.image = image, .width = width, .classes = 4, .dropout = -1};
    dt_graph *g;
    dt_err err = {0};
    assert_ok(dt_model_build(dt_model_find(name), &o, &g, &err), &err);
    return g;
}

/* The plan without row @row and the op that it runs, whose number the last op gets. */
static void leave_out(dt_plan *p, size_t row)
{
    const int32_t op = p->row[row].op;
    p->op[op] = p->op[--p->n_op];
    memmove(&p->row[row], &p->row[row + 1], (--p->n_row - row) * sizeof *p->row);
    for (size_t i = 0; i < p->n_row; i++)
        if (p->row[i].op == (int32_t)p->n_op)
            p->row[i].op = op;
}

static dt_graph *lenet(void)
{
    return model("lenet5", 0, 0);
}

static dt_graph *text_model(void)
{
    const dt_model_opts o = {
        .vocab = 12, .context = 4, .layers = 1, .heads = 2, .width = 8, .dropout = -1};
    dt_graph *g;
    dt_err err = {0};
    assert_ok(dt_model_build(dt_model_find("gpt2"), &o, &g, &err), &err);
    return g;
}

/* Gradients of weights are read by other programs alone, so their ops leave no hole in this one. */
static void leave_out_each(
    const char *what, dt_graph *(*build)(void), const char *policies, dt_program_kind kind)
{
    size_t n = 1;
    for (size_t k = 0; k < n; k++) {
        subject s;
        dt_err err = {0};
        size_t row = 0;
        int id;
        open_subject(&s, what, build(), policies, kind);
        dt_plan *p = s.m.plan;
        n = p->n_op;
        for (size_t left = k;; row++)
            if (p->row[row].kind == DT_ROW_COMPUTE && left-- == 0)
                break;
        char name[DT_TENSOR_NAME_BYTES];
        snprintf(name, sizeof name, "%s", p->op[p->row[row].op].name);
        leave_out(p, row);
        dt_status st = dt_verify(p, &err);
        if (st == DT_OK)
            st = dt_runner_add(s.runner, p, &id, &err);
        if (st == DT_OK)
            fail_msg("%s: %s left out: taken", what, name);
        close_subject(&s);
    }
}

static void a_plan_that_lacks_an_op_is_refused(void **state)
{
    (void)state;
    leave_out_each("first", lenet, "keep_all", DT_PROGRAM_FIRST);
    leave_out_each("again", lenet, "vdnn_all", DT_PROGRAM_AGAIN);
    leave_out_each("update", lenet, "keep_all", DT_PROGRAM_UPDATE);
    leave_out_each("packed", lenet, "8bit", DT_PROGRAM_UPDATE);
    leave_out_each("tied", text_model, "keep_all", DT_PROGRAM_AGAIN);
    leave_out_each("eval", lenet, "keep_all", DT_PROGRAM_EVAL);
}

static void a_batch_fetched_for_an_update_is_refused(void **state)
{
    (void)state;
    subject s;
    dt_err err = {0};
    int id;
    open_subject(&s, "first", model("lenet5", 0, 0), "keep_all", DT_PROGRAM_FIRST);
    dt_plan *p = s.m.plan;
    p->batch = 0;
    snprintf(p->program, sizeof p->program, "update");
    for (size_t i = 0; i < p->n_row; i++) /* of no samples, so that none are missed */
        if (p->row[i].tier == DT_TIER_INPUT)
            p->row[i].bytes = p->row[i].stored = 0;
    assert_int_equal(dt_runner_add(s.runner, p, &id, &err), DT_E_DATA);
    assert_non_null(strstr(err.text, "program 'update' has no batch"));
    close_subject(&s);
}

/* A ReLU that two layers read, of which a dropout alone would tell its signs. */
static dt_graph *beside_dropout(void)
{
    const dt_conv conv = {.out = 4, .kernel = 1, .stride = 1, .dilation = 1, .groups = 1};
    const dt_dropout half = {0.5};
    const dt_fc fc = {2, true};
    int32_t x = DT_GRAPH_INPUT, y[2], v;
    dt_graph *g;
    dt_err err = {0};
    assert_ok(dt_graph_create(&g, "beside", (dt_shape){1, 4, 4, 3}, 2, &err), &err);
    assert_ok(dt_graph_add(g, &dt_layer_conv, "conv", &conv, &x, 1, &v, &err), &err);
    assert_ok(dt_graph_add(g, &dt_layer_relu, "relu", NULL, &v, 1, &y[0], &err), &err);
    assert_ok(dt_graph_add(g, &dt_layer_dropout, "drop", &half, &y[0], 1, &y[1], &err), &err);
    assert_ok(dt_graph_add(g, &dt_layer_add, "add", NULL, y, 2, &v, &err), &err);
    assert_ok(dt_graph_add(g, &dt_layer_fc, "fc", &fc, &v, 1, &v, &err), &err);
    assert_ok(dt_graph_add(g, &dt_layer_cross_entropy, "loss", NULL, &v, 1, &v, &err), &err);
    return g;
}

/* The plan with op @op run once more right behind itself, under another name. */
static void run_again(dt_plan *p, int32_t op)
{
    dt_plan_op *more = dt_alloc(p->n_op + 1, sizeof *more);
    dt_row *rows = dt_alloc(p->n_row + 1, sizeof *rows);
    size_t at = 0;
    assert_true(more != NULL && rows != NULL);
    while (p->row[at].op != op)
        at++;
    memcpy(more, p->op, p->n_op * sizeof *more);
    more[p->n_op] = more[op];
    snprintf(more[p->n_op].name, sizeof more->name, "once.more");
    memcpy(rows, p->row, ++at * sizeof *rows);
    rows[at] = (dt_row){.kind = DT_ROW_COMPUTE,
        .op = (int32_t)p->n_op,
        .tensor = DT_NONE,
        .event = DT_NONE,
        .over = DT_NONE};
    memcpy(rows + at + 1, p->row + at, (p->n_row - at) * sizeof *rows);
    dt_free(p->op);
    dt_free(p->row);
    p->op = more;
    p->row = rows;
    p->n_op++;
    p->n_row++;
}

/* What is added to a gradient, to running statistics or to metrics would be added twice. */
static void an_op_that_runs_twice_is_refused(void **state)
{
    (void)state;
    int tried = 0;
    for (size_t k = 0, n = 1; k < n; k++) {
        subject s;
        dt_err err = {0};
        int id;
        open_subject(&s, "resnet20", model("resnet20", 8, 4), "keep_all", DT_PROGRAM_AGAIN);
        dt_plan *p = s.m.plan;
        n = p->n_op;
        const dt_op_kind kind = (dt_op_kind)p->op[k].kind;
        if ((kind == DT_OP_FORWARD || kind == DT_OP_BACKWARD) && !seen(p, k)) {
            run_again(p, (int32_t)k);
            if (dt_runner_add(s.runner, p, &id, &err) != DT_E_DATA)
                fail_msg("%s twice: taken", p->op[k].name);
            tried++;
        }
        close_subject(&s);
    }
    assert_true(tried > 10);
}

/* Two heads side by side that share the weight of the embedding before them. */
static dt_graph *two_heads(void)
{
    enum { VOCAB = 12 };
    const dt_embedding tokens = {.vocab = VOCAB, .out = 8, .sigma = 0.1};
    const dt_linear head = {.out = VOCAB};
    int32_t in = DT_GRAPH_INPUT, x, y[2], v;
    dt_graph *g;
    dt_err err = {0};
    assert_ok(dt_graph_create(&g, "heads", (dt_shape){1, 4, 1, 1}, VOCAB, &err), &err);
    assert_ok(dt_graph_add(g, &dt_layer_embedding, "tokens", &tokens, &in, 1, &x, &err), &err);
    for (int i = 0; i < 2; i++) {
        assert_ok(
            dt_graph_add(g, &dt_layer_linear, i == 0 ? "a" : "b", &head, &x, 1, &y[i], &err), &err);
        assert_ok(dt_graph_share(g, y[i], x, &err), &err);
    }
    assert_ok(dt_graph_add(g, &dt_layer_add, "add", NULL, y, 2, &v, &err), &err);
    assert_ok(dt_graph_add(g, &dt_layer_cross_entropy, "loss", NULL, &v, 1, &v, &err), &err);
    return g;
}

/* Where the op that gives a layer's gradient of its weight stands in the order. */
static size_t place_of_gradient(const dt_program *p, const dt_graph *g, const char *layer)
{
    for (size_t at = 0; at < p->n_order; at++) {
        const dt_op *o = &p->op[p->order[at]];
        for (int i = 0; i < o->n_arg && o->node != DT_NONE; i++)
            if (o->arg[i].port == DT_DP && strcmp(g->node[o->node].name, layer) == 0)
                return at;
    }
    fail_msg("%s has no gradient", layer);
    return 0;
}

/* Where the op that updates this entry of the map stands. */
static size_t place_of_update(const dt_program *p, const char *home)
{
    for (size_t at = 0; at < p->n_order; at++) {
        const dt_op *o = &p->op[p->order[at]];
        for (int i = 0; i < o->n_arg && o->kind == DT_OP_UPDATE; i++)
            if (o->arg[i].port == DT_P && strcmp(p->tensor[o->arg[i].tensor].name, home) == 0)
                return at;
    }
    fail_msg("%s is not updated", home);
    return 0;
}

/* The program with two ops exchanged has a plan that can be proved, but none that may run. */
static void refuses_exchanged(subject *s, size_t one, size_t other, const char *says)
{
    dt_program *p = s->m.program;
    const int32_t first = p->order[one];
    dt_err err = {0};
    int id;
    p->order[one] = p->order[other];
    p->order[other] = first;
    p->stale = true;
    assert_ok(dt_program_index(p, &err), &err);
    dt_plan *changed = dt_planned_by(p, "keep_all", "greedy");
    if (dt_runner_add(s->runner, changed, &id, &err) != DT_E_DATA)
        fail_msg("%s: places %zu and %zu exchanged: taken", s->what, one, other);
    assert_non_null(strstr(err.text, says));
    dt_plan_destroy(changed);
}

/* Of gradients of a shared weight one is written and the others are added to it: exchanged, the
 * first would be added to that of the step before, and the sum be overwritten. */
static void gradients_of_a_shared_weight_come_in_their_order(void **state)
{
    (void)state;
    static const dt_program_kind kinds[] = {DT_PROGRAM_FIRST, DT_PROGRAM_AGAIN};
    for (size_t k = 0; k < DT_COUNT(kinds); k++) {
        subject s;
        open_subject(&s, "two heads", two_heads(), "keep_all", kinds[k]);
        const size_t a = place_of_gradient(s.m.program, s.m.graph, "a");
        const size_t b = place_of_gradient(s.m.program, s.m.graph, "b");
        assert_true(b < a);
        refuses_exchanged(&s, b, a, "behind that of a layer below it");
        close_subject(&s);
    }
}

/* An early update takes a gradient of all layers that share the weight. */
static void an_update_before_its_gradient_is_whole_is_refused(void **state)
{
    (void)state;
    subject s;
    open_subject(&s, "two heads early", two_heads(), "early", DT_PROGRAM_FIRST);
    const size_t gradient = place_of_gradient(s.m.program, s.m.graph, "tokens");
    const size_t update = place_of_update(s.m.program, "tokens.weight");
    assert_true(gradient < update);
    refuses_exchanged(&s, gradient, update, "how many layers its gradient is of is 2");
    close_subject(&s);
}

/* One sample alone is computed in another way than two, and its values may lie otherwise. */
static dt_status other_of_one(const dt_call *c, dt_facts *f, dt_err *err)
{
    (void)err;
    snprintf(f->impl, sizeof f->impl, "%s", c->n == 1 ? "other" : "same");
    return DT_OK;
}

static dt_status other_layout_of_one(const dt_call *c, dt_facts *f, dt_err *err)
{
    (void)err;
    snprintf(f->impl, sizeof f->impl, "same");
    f->layout = c->n == 1;
    return DT_OK;
}

static void pieces_of_other_code_than_the_whole_are_refused(void **state)
{
    (void)state;
    static const struct {
        dt_status (*facts)(const dt_call *c, dt_facts *f, dt_err *err);
        const char *says;
    } cases[] = {{other_of_one, "computed by 'other', and all by 'same'"},
        {other_layout_of_one, "in another layout"}};
    for (size_t i = 0; i < DT_COUNT(cases); i++) {
        subject s;
        dt_err err = {0};
        int id;
        open_subject(&s, "pieces", lenet(), "keep_all", DT_PROGRAM_FIRST);
        dt_program *p = s.m.program;
        int32_t op = 0;
        while (p->op[op].desc != &dt_layer_relu || p->op[op].kind != DT_OP_FORWARD)
            op++;
        assert_ok(dti_split(p, op, BATCH, &err), &err);
        dt_plan *split = dt_planned_by(p, "keep_all", "greedy");
        assert_ok(dt_runner_add(s.runner, split, &id, &err), &err);
        dt_node *nd = &s.m.graph->node[p->op[op].node];
        dt_kernels kernels = *nd->desc->cpu;
        dt_layer_desc desc = *nd->desc;
        kernels.facts = cases[i].facts;
        desc.cpu = &kernels;
        nd->desc = &desc;
        assert_fails(dt_runner_add(s.runner, split, &id, &err), DT_E_DATA, &err, cases[i].says);
        nd->desc = &dt_layer_relu;
        dt_plan_destroy(split);
        close_subject(&s);
    }
}

/* A piece goes on with what the ones before it have left, which other work in between, such as a
 * kernel's scratch, would have spoilt. */
static void a_piece_without_the_one_before_it_is_refused(void **state)
{
    (void)state;
    subject s;
    dt_err err = {0};
    int id;
    open_subject(&s, "pieces", model("resnet20", 8, 4), "chen_sqrt", DT_PROGRAM_FIRST);
    dt_program *p = s.m.program;
    int32_t op = 0;
    while (p->op[op].kind != DT_OP_RECOMPUTE || !p->op[op].desc->form[p->op[op].form].split)
        op++;
    assert_ok(dti_split(p, op, BATCH, &err), &err);
    dt_plan *split = dt_planned_by(p, "chen_sqrt", "greedy");
    assert_ok(dt_runner_add(s.runner, split, &id, &err), &err);
    size_t row = 0;
    while (split->row[row].kind != DT_ROW_COMPUTE ||
           strcmp(split->op[split->row[row].op].name, p->op[op].name) != 0)
        row++;
    leave_out(split, row);
    assert_fails(dt_runner_add(s.runner, split, &id, &err), DT_E_DATA, &err,
        "lacks the samples before those that this op writes");
    dt_plan_destroy(split);
    close_subject(&s);
}

static int32_t tensor_of(const dt_plan *p, const char *name)
{
    int32_t t = 0;
    while (strcmp(p->tensor[t].name, name) != 0)
        t++;
    return t;
}

static void signs_are_read_of_a_sole_reader_alone(void **state)
{
    (void)state;
    subject s;
    dt_err err = {0};
    int id;
    open_subject(&s, "beside", beside_dropout(), "keep_all", DT_PROGRAM_FIRST);
    const dt_plan *p = s.m.plan;
    const int32_t relu = tensor_of(p, "relu.y"), drop = tensor_of(p, "drop.y");
    int changed = 0;
    for (size_t i = 0; i < p->n_op; i++)
        for (int32_t a = p->op[i].first; a < p->op[i].first + p->op[i].n; a++)
            if (strcmp(p->op[i].name, "relu.b") == 0 && p->arg[a].tensor == relu) {
                p->arg[a].tensor = drop;
                changed++;
            }
    assert_int_equal(changed, 1);
    assert_int_equal(dt_runner_add(s.runner, p, &id, &err), DT_E_DATA);
    close_subject(&s);
}

static void a_changed_plan_of_lenet_is_refused_or_the_same(void **state)
{
    (void)state;
    for (int k = 0; k < DT_PROGRAM_KINDS; k++)
        change_all("lenet5", model("lenet5", 0, 0), "keep_all", (dt_program_kind)k);
}

static void a_changed_plan_with_packed_values_is_refused_or_the_same(void **state)
{
    (void)state;
    change_all("lenet5 gist", model("lenet5", 0, 0), "gist_lossless", DT_PROGRAM_FIRST);
    change_all("lenet5 cdma", model("lenet5", 0, 0), "cdma", DT_PROGRAM_FIRST);
}

static void a_changed_plan_of_moments_in_8_bits_is_refused_or_the_same(void **state)
{
    (void)state;
    change_all("lenet5 in 8 bits", model("lenet5", 0, 0), "8bit", DT_PROGRAM_UPDATE);
}

static void a_changed_plan_of_a_residual_network_is_refused_or_the_same(void **state)
{
    (void)state;
    change_all("resnet20 chen", model("resnet20", 8, 4), "chen_sqrt", DT_PROGRAM_FIRST);
    change_all("resnet20 vdnn", model("resnet20", 8, 4), "vdnn_all", DT_PROGRAM_AGAIN);
}

static void a_changed_plan_of_a_text_model_is_refused_or_the_same(void **state)
{
    (void)state;
    change_all("gpt2", text_model(), "keep_all", DT_PROGRAM_FIRST);
    change_all("gpt2 update", text_model(), "keep_all", DT_PROGRAM_UPDATE);
}

DT_TEST_GROUP(hostile_plans)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_plan_that_lacks_an_op_is_refused),
        cmocka_unit_test(an_op_that_runs_twice_is_refused),
        cmocka_unit_test(gradients_of_a_shared_weight_come_in_their_order),
        cmocka_unit_test(an_update_before_its_gradient_is_whole_is_refused),
        cmocka_unit_test(pieces_of_other_code_than_the_whole_are_refused),
        cmocka_unit_test(a_piece_without_the_one_before_it_is_refused),
        cmocka_unit_test(a_batch_fetched_for_an_update_is_refused),
        cmocka_unit_test(signs_are_read_of_a_sole_reader_alone),
        cmocka_unit_test(a_changed_plan_of_lenet_is_refused_or_the_same),
        cmocka_unit_test(a_changed_plan_with_packed_values_is_refused_or_the_same),
        cmocka_unit_test(a_changed_plan_of_moments_in_8_bits_is_refused_or_the_same),
        cmocka_unit_test(a_changed_plan_of_a_residual_network_is_refused_or_the_same),
        cmocka_unit_test(a_changed_plan_of_a_text_model_is_refused_or_the_same),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
