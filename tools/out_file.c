/* Files that commands write when they are asked to. */
#include "tools/out_file.h"

#include <string.h>

#include "engine/base/alloc.h"
#include "engine/base/io.h"
#include "engine/base/memory_stream.h"
#include "engine/base/path.h"
#include "session/may_write.h"

dt_status dti_write_file(const char *path, dti_printer *print, const void *of, dt_err *err)
{
    dt_memory_stream text;
    if (strcmp(path, "-") == 0)
        return print(of, stdout, err);
    DT_CHECK(dt_memory_open(&text, path, err));
    DT_CHECK(dt_memory_close(&text, print(of, text.f, err), err));
    const dt_status st = dt_write_file(path, text.text, text.n, err);
    dt_free(text.text);
    DT_TRY(err, st, "'%s' cannot be written; " DT_WRITE_REMEDY, path);
    return DT_OK;
}

bool dti_is_stdout(const char *path)
{
    return path != NULL && strcmp(path, "-") == 0;
}

static bool is_file(const char *path)
{
    return path != NULL && !dti_is_stdout(path);
}

dt_status dti_check_outputs(
    const dt_session *s, const char *const *path, size_t n, const char *input, dt_err *err)
{
    for (size_t i = 0; i < n; i++) {
        if (!is_file(path[i]))
            continue;
        DT_CHECK(dt_can_write(path[i], err));
        if (s != NULL)
            DT_CHECK(dt_may_write(s, path[i], err));
        if (input != NULL && dt_same_file(path[i], input))
            return DT_FAIL(err, DT_E_CONFIG,
                "'%s' is what is read, and would be overwritten; name another file to write",
                path[i]);
        for (size_t k = 0; k < i; k++)
            if (is_file(path[k]) && dt_same_file(path[k], path[i]))
                return DT_FAIL(err, DT_E_CONFIG,
                    "'%s' is to be written twice, and the second would take the place of the "
                    "first; name two files",
                    path[i]);
    }
    return DT_OK;
}

dt_status dti_check_ending(
    const char *path, const char *flag, const char *ending, const char *what, dt_err *err)
{
    const char *dot = path != NULL ? strrchr(path, '.') : NULL;
    if (path != NULL && strcmp(path, "-") != 0 && (dot == NULL || strcmp(dot, ending) != 0))
        return DT_FAIL(err, DT_E_CONFIG,
            "%s %s: what is written is %s; name it FILE%s, or - for stdout", flag, path, what,
            ending);
    return DT_OK;
}

void dti_csv_text(FILE *f, const char *text)
{
    const bool quoted = strpbrk(text, ",\"\r\n") != NULL;
    if (quoted)
        fputc('"', f);
    for (const char *at = text; *at != '\0'; at++) {
        if (*at == '"')
            fputc('"', f);
        fputc(*at, f);
    }
    if (quoted)
        fputc('"', f);
}
