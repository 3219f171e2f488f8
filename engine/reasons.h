/* Why a policy does what it does: short texts, each kept once and known by its number. */
#ifndef DT_ENGINE_REASONS_H
#define DT_ENGINE_REASONS_H

#include "engine/base/error.h"
#include "engine/base/names.h"

enum { DT_REASON_BYTES = 128 };

/* Texts are numbered from 1; 0 stands for none. Zeroed memory is an empty table. */
typedef struct dt_reasons {
    size_t n, cap;
    char (*text)[DT_REASON_BYTES]; /* n of them, zeroed behind their ends */
    dt_names names;
} dt_reasons;

/* The number of a text, which is added when it is new; what is too long is cut,
 * and bytes that are no UTF-8 become question marks. DT_E_NOMEM. */
dt_status dt_reasons_add(dt_reasons *r, int32_t *number, dt_err *err, const char *format, ...)
    DT_PRINTF(4, 5) DT_NODISCARD;
/* The text of a number; "" for 0. */
const char *dt_reason_text(const dt_reasons *r, int32_t number);
dt_status dti_reasons_copy(dt_reasons *to, const dt_reasons *from, dt_err *err) DT_NODISCARD;
void dt_reasons_deinit(dt_reasons *r);

#endif
