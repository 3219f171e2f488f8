/* What `dnntrain bench` shows. */
#ifndef DT_TOOLS_BENCH_H
#define DT_TOOLS_BENCH_H

#include "session/bench.h"

/* Labels of a step, and what one of them is called: "images", "tokens". */
double dti_bench_units(const dt_bench_result *r);
const char *dti_bench_unit(const dt_bench_result *r);

void dti_bench_table(const dt_bench_result *r);
dt_status dti_bench_json(const dt_bench_result *r, dt_err *err) DT_NODISCARD;

#endif
