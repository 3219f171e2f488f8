/* What `dnntrain bench` shows. */
#ifndef DT_TOOLS_BENCH_H
#define DT_TOOLS_BENCH_H

#include "session/bench.h"

void dti_bench_table(const dt_bench_result *r);
dt_status dti_bench_json(const dt_bench_result *r, dt_err *err) DT_NODISCARD;

#endif
