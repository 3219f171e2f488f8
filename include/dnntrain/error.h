/* Errors: a status to branch on and a trail to read. The caller owns the trail; nothing is global
 * and nothing in the library exits. The value of a status is the exit code of the program. */
#ifndef DNNTRAIN_ERROR_H
#define DNNTRAIN_ERROR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What libdnntrain.so exports. */
#define DT_API __attribute__((visibility("default")))
#define DT_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))
#define DT_NODISCARD __attribute__((warn_unused_result))

#ifdef __cplusplus
extern "C" {
#endif

typedef enum dt_status {
    DT_OK = 0,
    DT_E_INTERNAL = 1,  /* our bug */
    DT_E_CONFIG = 2,    /* usage or configuration */
    DT_E_DATA = 3,      /* bad data or weights */
    DT_E_BUDGET = 4,    /* does not fit the budgets */
    DT_E_NOMEM = 5,     /* out of memory at run time */
    DT_E_IO = 6,        /* read, write, permission, full disk */
    DT_E_NONFINITE = 7, /* a loss or gradient that is not finite */
    DT_E_DEVICE = 8,    /* device or driver */
    DT_E_BUSY = 9,      /* run directory in use */
    DT_E_STOPPED = 75   /* stopped when it was asked to; what was trained is saved */
} dt_status;

enum { DT_ERR_BYTES = 16384 };

/**
 * struct dt_err - the trail of one failure, innermost cause first, one line a note.
 * @code: status of the first note; DT_OK while empty
 * @n:    notes pushed, those that no longer fit in @text included
 * @lost: how many of them did not fit
 *
 * Zero-initialise it, and again, `err = (dt_err){0}`, before it is used for another. Every dt_
 * function that may fail takes one last and may be given NULL; on success it is left untouched.
 * Lines end in '\n'; in a trail that is full the last line says how many are missing. Notes are
 * printable UTF-8: a newline in a name, any other control character and bytes that are no UTF-8
 * stand there as \n, \t, \r or \xHH.
 */
typedef struct dt_err {
    dt_status code;
    int n, lost;
    size_t len;
    char text[DT_ERR_BYTES];
} dt_err;

/* Append one line; returns @code. @src and @line are shown only for DT_E_INTERNAL, where the reader
 * is a developer. */
DT_API dt_status dt_err_push(
    dt_err *err, dt_status code, const char *src, int line, const char *fmt, ...) DT_PRINTF(5, 6);

DT_API const char *dt_status_name(dt_status s); /* "config", "data", ... */

/* Hands the code through where the compiler sees it: it is not DT_OK. */
static inline dt_status dt_failed(dt_status pushed, dt_status code)
{
    (void)pushed;
    return code;
}

/* So that `return DT_FAIL(err, DT_E_CONFIG, "...")` reads well. */
#define DT_FAIL(err, code, ...)                                                                    \
    dt_failed(dt_err_push((err), (code), __FILE__, __LINE__, __VA_ARGS__), (code))

/* Return the status of an expression that fails. Only where nothing is held. */
#define DT_CHECK(expr)                                                                             \
    do {                                                                                           \
        const dt_status dt_check_ = (expr);                                                        \
        if (dt_check_ != DT_OK)                                                                    \
            return dt_check_;                                                                      \
    } while (0)

#ifdef __cplusplus
}
#endif

#endif
