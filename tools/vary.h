/* Keys that take several values, as --vary says them: "train.precision=fp32,bf16". */
#ifndef DT_TOOLS_VARY_H
#define DT_TOOLS_VARY_H

#include "session/variants.h"

/* Read "SECTION.KEY=A,B,C" of each text. Commas stand between values or, where a text has
 * semicolons, those alone, and commas are part of values. A value that stands twice counts once.
 * DT_E_CONFIG says what is wrong: no such form, nothing between two separators, a key twice, one
 * that --policies or
 * --budgets is for, control characters, too many. Release with dti_vary_close even after a failure.
 */
dt_status dti_vary_open(dt_vary *out, const char *const *text, size_t n, dt_err *err) DT_NODISCARD;
void dti_vary_close(dt_vary *v);

/* The title of a key's column: what follows the last dot, or the whole name if another key ends
 * like it. */
const char *dti_vary_title(const dt_vary *v, size_t key);
/* A variant's value of a key; @none where it has none. */
const char *dti_vary_value(const dt_vary *v, const dt_variant *of, size_t key, const char *none);
/* The values alone, "bf16 greedy". Returns @to. */
const char *dti_vary_short(const dt_vary *v, const dt_variant *of, char *to, size_t bytes);

#endif
