/* Lines of whole numbers, read strictly. */
#include "memory/remat/number_lines.h"

#include <string.h>

#include "engine/base/text.h"

enum { SHOWN = 40 };

static bool blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

dt_status dti_number_line(dti_number_lines *r, uint64_t *to, size_t n, const char *form)
{
    r->line++;
    if (r->at == r->end)
        return DT_FAIL(r->err, DT_E_DATA, "%s:%zu: the file ends where '%s' should stand", r->path,
            r->line, form);
    const char *newline = memchr(r->at, '\n', (size_t)(r->end - r->at));
    const char *p = r->at, *stop = newline != NULL ? newline : r->end;
    const int shown = stop - p > SHOWN ? SHOWN : (int)(stop - p);
    size_t got = 0;
    for (;; got++) {
        while (p < stop && blank(*p))
            p++;
        if (p == stop || got == n)
            break;
        const char *from = p;
        if (!dt_scan_u64(&p, stop, &to[got]))
            return DT_FAIL(r->err, DT_E_DATA, "%s:%zu: '%.*s' holds a number beyond 64 bits",
                r->path, r->line, shown, r->at);
        if (p == from || (p < stop && !blank(*p)))
            break;
    }
    if (got != n || p != stop)
        return DT_FAIL(r->err, DT_E_DATA,
            "%s:%zu: '%.*s' is not '%s', whole numbers from 0 on with blanks between them", r->path,
            r->line, shown, r->at, form);
    r->at = newline != NULL ? newline + 1 : r->end;
    return DT_OK;
}

dt_status dti_number_end(dti_number_lines *r)
{
    while (r->at < r->end && (blank(*r->at) || *r->at == '\n'))
        r->at++;
    if (r->at < r->end)
        return DT_FAIL(
            r->err, DT_E_DATA, "%s:%zu: more lines than line 1 says", r->path, r->line + 1);
    return DT_OK;
}
