/* A stream that prints into memory, and says at its end when there was not enough. */
#define _GNU_SOURCE /* fopencookie */

#include "engine/base/memory_stream.h"

#include <string.h>

#include "engine/base/alloc.h"

/* Room for @n bytes more and a NUL behind them. */
static bool make_room(dt_memory_stream *m, size_t n)
{
    size_t want, twice;
    if (!dti_add_bytes(m->n + 1, n, &want))
        return false;
    if (want <= m->room)
        return true;
    if (dt_mul_bytes(m->room, 2, &twice) && twice > want)
        want = twice;
    char *text = dt_realloc(m->text, want, 1);
    if (text == NULL)
        return false;
    m->text = text;
    m->room = want;
    return true;
}

/* After a loss nothing is taken any more: what came behind it would stand where it does not belong.
 */
static ssize_t take(void *self, const char *from, size_t n)
{
    dt_memory_stream *m = self;
    m->lost = m->lost || !make_room(m, n);
    if (m->lost)
        return 0;
    memcpy(m->text + m->n, from, n);
    m->n += n;
    m->text[m->n] = '\0';
    return (ssize_t)n;
}

static dt_status no_memory(const dt_memory_stream *m, dt_err *err)
{
    return DT_FAIL(err, DT_E_NOMEM, "no memory for %s", m->what);
}

dt_status dt_memory_open(dt_memory_stream *m, const char *what, dt_err *err)
{
    *m = (dt_memory_stream){.what = what, .text = dt_alloc(1, 1), .room = 1};
    if (m->text != NULL)
        m->f = fopencookie(m, "w", (cookie_io_functions_t){.write = take});
    if (m->f != NULL)
        return DT_OK;
    dt_free(m->text);
    m->text = NULL;
    return no_memory(m, err);
}

dt_status dt_memory_close(dt_memory_stream *m, dt_status st, dt_err *err)
{
    const bool failed = ferror(m->f) != 0;
    if ((fclose(m->f) != 0 || failed || m->lost) && st == DT_OK)
        st = no_memory(m, err);
    if (st != DT_OK) {
        dt_free(m->text);
        m->text = NULL;
    }
    return st;
}
