/* A program of a network under a policy, and its plan; and whether a plan is the golden one. */
#ifndef DT_TESTS_PLANNED_H
#define DT_TESTS_PLANNED_H

#include "engine/plan.h"
#include "models/model.h"

typedef struct dt_planned {
    dt_graph *graph;
    dt_map *map;
    dt_program *program;
    dt_plan *plan;
} dt_planned;

/* The program as its author wrote it; @graph becomes the result's. Failures fail the test, here and
 * below. */
dt_planned dt_program_of(dt_graph *graph, dt_program_kind kind, int64_t n);
/* A model in its standard form. */
dt_graph *dt_standard(const char *model);
/* Whether it is so deep that planning it takes longer than all others together, and tests are to be
 * small. */
bool dt_left_out(const char *model);
/* Rewrite by policies, with their default options. */
void dt_rewrite(dt_program *p, const char *policies);
/* Lower and verify. */
dt_plan *dt_planned_by(dt_program *p, const char *policies, const char *pool);
/* All of it: program first of a model, pool greedy. */
dt_planned dt_plan_model(const char *model, const char *policies, int64_t n);
void dt_planned_close(dt_planned *m);

/* The program's plan, placed by best_fit, is tests/plans/golden/NAME.txt, and takes so many bytes
 * besides the persistent ones. */
void dt_assert_golden(dt_program *p, const char *name, uint64_t transient, uint64_t host);

#endif
