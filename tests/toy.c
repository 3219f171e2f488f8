#include "tests/toy.h"

#include <string.h>

#include "layers/batchnorm.h"
#include "layers/conv.h"
#include "layers/plain.h"
#include "tests/check.h"

static dt_status run(const dt_call *c, void *state, const dt_args *a, dt_err *err)
{
    (void)c, (void)state, (void)a;
    return DT_FAIL(err, DT_E_INTERNAL, "a toy does not run");
}

static dt_status derived_facts(const dt_call *c, dt_facts *f, dt_err *err)
{
    (void)err;
    f->work_bytes = c->form == DT_FORWARD ? 32 * (size_t)c->n : 0;
    f->derived_bytes = c->form == DT_FORWARD || c->form == DT_BACKWARD2 ? 256 : 0;
    return DT_OK;
}

static const dt_kernels plain_kernels = {.run = run};
static const dt_kernels derived_kernels = {.run = run, .facts = derived_facts};
static dt_layer_desc conv, derived_conv, batchnorm, relu, loss;

static void set_up_layers(void)
{
    conv = derived_conv = dt_layer_conv;
    batchnorm = dt_layer_batchnorm;
    relu = dt_layer_relu;
    loss = dt_layer_cross_entropy;
    conv.cpu = batchnorm.cpu = relu.cpu = loss.cpu = &plain_kernels;
    derived_conv.cpu = &derived_kernels;
}

static void add(dt_graph *g, const dt_layer_desc *desc, const char *name, const void *opts)
{
    dt_err err = {0};
    const int32_t in = (int32_t)g->n_node - 1; /* DT_GRAPH_INPUT at first */
    int32_t id;
    assert_ok(dt_graph_add(g, desc, name, opts, &in, 1, &id, &err), &err);
}

dt_toy dt_toy_open(bool derived)
{
    static const dt_conv first = {4, 3, 1, 1, 1, 1, true}, second = {10, 8, 1, 0, 1, 1, true};
    static const dt_batchnorm norm = {.eps = 1e-5, .momentum = 0.1};
    dt_toy t;
    dt_err err = {0};
    set_up_layers();
    const dt_layer_desc *c = derived ? &derived_conv : &conv;
    assert_ok(dt_graph_create(&t.graph, "toy", (dt_shape){1, 8, 8, 3}, 10, &err), &err);
    add(t.graph, c, "conv1", &first);
    add(t.graph, &batchnorm, "bn1", &norm);
    add(t.graph, &relu, "relu1", NULL);
    add(t.graph, c, "conv2", &second);
    add(t.graph, &loss, "loss", NULL);
    assert_ok(dt_graph_check(t.graph, &err), &err);
    assert_ok(dt_map_create(&t.map, t.graph, DT_CPU, 2, 1, &err), &err);
    const dt_program_opts o = {t.graph, t.map, DT_CPU, DT_PROGRAM_FIRST, 2, 2,
        {&dt_layer_sum, &dt_layer_commit, &dt_layer_sgd}};
    assert_ok(dt_program_create(&t.first, &o, &err), &err);
    return t;
}

void dt_toy_close(dt_toy *t)
{
    dt_program_destroy(t->first);
    dt_map_destroy(t->map);
    dt_graph_destroy(t->graph);
}

int32_t dt_toy_op(const dt_program *p, const char *name)
{
    for (size_t i = 0; i < p->n_order; i++)
        if (strcmp(p->op[p->order[i]].name, name) == 0)
            return p->order[i];
    fail_msg("the program has no op %s", name);
    return DT_NONE;
}

int32_t dt_toy_tensor(const dt_program *p, const char *name)
{
    for (size_t t = 0; t < p->n_tensor; t++)
        if (strcmp(p->tensor[t].name, name) == 0)
            return (int32_t)t;
    fail_msg("the program has no tensor %s", name);
    return DT_NONE;
}
