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

/* Where the trail ends, and what is pushed from now on begins; 0 of NULL. */
static inline size_t dt_err_end(const dt_err *err)
{
    return err != NULL ? err->len : 0;
}

/* Notes so far; 0 of NULL. */
static inline int dt_err_notes(const dt_err *err)
{
    return err != NULL ? err->n : 0;
}

/* The trail up to @end, where a line ends; what is behind it is gone. */
void dti_err_cut(dt_err *err, size_t end);

/* The lines from @from on in another order: @text is all of them, to its NUL. */
void dti_err_reorder(dt_err *err, size_t from, const char *text);

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
    "; raise the limit of processes (ulimit -u, or pids.max of its control group), or of memory "  \
    "(ulimit -v, -d), of which each thread takes a stack"

#endif
