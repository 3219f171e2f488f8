#include "tests/planned.h"

#include <stdlib.h>

#include "layers/plain.h"
#include "memory/lower/lower.h"
#include "memory/plan_text/plan_text.h"
#include "memory/policy.h"
#include "memory/verify/verify.h"
#include "tests/check.h"

dt_planned dt_program_of(dt_graph *graph, dt_program_kind kind, int64_t n)
{
    dt_planned m = {.graph = graph};
    dt_err err = {0};
    assert_ok(dt_map_create(&m.map, graph, DT_CPU, n, 1, &err), &err);
    const dt_program_opts o = {
        graph, m.map, DT_CPU, kind, n, n, {&dt_layer_sum, &dt_layer_commit, &dt_layer_sgd}};
    assert_ok(dt_program_create(&m.program, &o, &err), &err);
    return m;
}

dt_graph *dt_standard(const char *model)
{
    const dt_model_opts o = {.dropout = -1};
    dt_graph *g;
    dt_err err = {0};
    assert_ok(dt_model_build(dt_model_find(model), &o, &g, &err), &err);
    return g;
}

bool dt_left_out(const char *model)
{
    enum { DEEP = 1000 };
    if (!dt_small_scale())
        return false;
    dt_graph *g = dt_standard(model);
    const bool deep = g->n_node > DEEP;
    dt_graph_destroy(g);
    return deep;
}

void dt_rewrite(dt_program *p, const char *policies)
{
    dt_policies s;
    dt_err err = {0};
    assert_ok(dt_policies_open(&s, policies, NULL, &err), &err);
    assert_ok(dt_policies_apply(&s, p, NULL, &err), &err);
    dt_policies_close(&s);
}

dt_plan *dt_planned_by(dt_program *p, const char *policies, const char *pool)
{
    dt_plan *plan;
    dt_err err = {0};
    const dt_lower_opts o = {.pool = dt_pool_find(pool), .policy = policies};
    assert_ok(dt_lower(&plan, p, &o, &err), &err);
    assert_ok(dt_verify(plan, &err), &err);
    return plan;
}

dt_planned dt_plan_model(const char *model, const char *policies, int64_t n)
{
    dt_planned m = dt_program_of(dt_standard(model), DT_PROGRAM_FIRST, n);
    dt_rewrite(m.program, policies);
    m.plan = dt_planned_by(m.program, policies, "greedy");
    return m;
}

void dt_planned_close(dt_planned *m)
{
    dt_plan_destroy(m->plan);
    dt_program_destroy(m->program);
    dt_map_destroy(m->map);
    dt_graph_destroy(m->graph);
}

static char *read_file(const char *path)
{
    FILE *f = fopen(path, "rb");
    if (f == NULL)
        fail_msg("cannot open %s", path);
    char *text = calloc(1, 1 << 16);
    assert_non_null(text);
    assert_true(fread(text, 1, (1 << 16) - 1, f) > 0);
    assert_int_equal(fclose(f), 0);
    return text;
}

static char *printed(const dt_plan *p)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *f = open_memstream(&text, &bytes);
    assert_non_null(f);
    dt_plan_print_short(p, f);
    assert_int_equal(fclose(f), 0);
    return text;
}

void dt_assert_golden(dt_program *p, const char *name, uint64_t transient, uint64_t host)
{
    char below[96];
    dt_plan *plan = dt_planned_by(p, name, "best_fit");
    snprintf(below, sizeof below, "tests/plans/golden/%s.txt", name);
    char *want = read_file(dt_source_path(below)), *got = printed(plan);
    assert_string_equal(got, want);
    assert_int_equal(plan->peak - plan->persistent, transient);
    assert_int_equal(plan->host_peak, host);
    free(want);
    free(got);
    dt_plan_destroy(plan);
}
