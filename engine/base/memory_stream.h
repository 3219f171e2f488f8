/* A stream that prints into memory, and says at its end when there was not enough: a text is whole
 * or an error. The C library's open_memstream cuts it and tells none but the caller of each
 * fprintf: to ferror, fflush and fclose all went well (glibc 2.36). */
#ifndef DT_ENGINE_BASE_MEMORY_STREAM_H
#define DT_ENGINE_BASE_MEMORY_STREAM_H

#include <stdio.h>

#include "engine/base/error.h"

/* It stays where it is while it is open. @f: to print to; @what is printed, for the message,
 * borrowed; @text and its @n bytes: whole once it is closed, and NUL-terminated beyond them. */
typedef struct dt_memory_stream {
    FILE *f;
    const char *what;
    char *text;
    size_t n, room;
    bool lost;
} dt_memory_stream;

/* DT_E_NOMEM, "no memory for WHAT". */
dt_status dt_memory_open(dt_memory_stream *m, const char *what, dt_err *err) DT_NODISCARD;
/* Ends a stream that was opened; @st: what printing came to. That, or DT_E_NOMEM where a byte was
 * lost. After DT_OK dt_free m->text; otherwise it is NULL. */
dt_status dt_memory_close(dt_memory_stream *m, dt_status st, dt_err *err) DT_NODISCARD;

#endif
