/* Errors, beside what include/ says of them: for code of ours. */
#ifndef DT_ENGINE_BASE_ERROR_H
#define DT_ENGINE_BASE_ERROR_H

#include <dnntrain/error.h>

#include "engine/base/compiler.h"

/* Empty it again, without touching all of its text. */
static inline void dt_err_clear(dt_err *err)
{
    err->code = DT_OK;
    err->n = err->lost = 0;
    err->len = 0;
    err->text[0] = '\0';
}

/* The lines of another trail, behind what @err says already. Gives @code. */
dt_status dt_err_append(dt_err *err, dt_status code, const char *trail);

/* Return with a note when expr fails. Only where nothing is held. */
#define DT_TRY(err, expr, ...)                                                                     \
    do {                                                                                           \
        const dt_status dt_try_ = (expr);                                                          \
        if (dt_try_ != DT_OK) {                                                                    \
            (void)dt_err_push((err), dt_try_, __FILE__, __LINE__, __VA_ARGS__);                    \
            return dt_try_;                                                                        \
        }                                                                                          \
    } while (0)

/* Our promise to ourselves, alive in release builds. */
#define DT_ASSERT(c) ((c) ? (void)0 : dti_bug(__FILE__, __LINE__, #c))
#ifdef __cplusplus
[[noreturn]]
#else
_Noreturn
#endif
void dti_bug(const char *src, int line, const char *what);

/* What to do when the system refuses a thread, for the end of a message. */
#define DT_THREADS_ADVICE                                                                          \
    "; raise the limit of processes (ulimit -u, or pids.max of its control group)"

#endif
