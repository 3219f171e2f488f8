/* Files that commands write when they are asked to. */
#include "tools/out_file.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/base/io.h"

#define REMEDY "name a file in a folder that is there and can be written"

static dt_status write_text(const char *path, const char *text, size_t bytes, dt_err *err)
{
    dt_file_writer *w = NULL;
    DT_TRY(err, dt_writer_open(&w, path, err), "'%s' cannot be written; " REMEDY, path);
    const dt_status st = dt_writer_put(w, text, bytes, err);
    if (st == DT_OK)
        return dt_writer_commit(w, err);
    dt_writer_abandon(w);
    return st;
}

dt_status dti_write_file(const char *path, dti_printer *print, const void *of, dt_err *err)
{
    char *text = NULL;
    size_t bytes = 0;
    if (strcmp(path, "-") == 0)
        return print(of, stdout, err);
    FILE *f = open_memstream(&text, &bytes);
    if (f == NULL)
        return DT_FAIL(err, DT_E_NOMEM, "no memory for what goes to %s", path);
    dt_status st = print(of, f, err);
    if (fclose(f) != 0 && st == DT_OK)
        st = DT_FAIL(err, DT_E_NOMEM, "no memory for what goes to %s", path);
    if (st == DT_OK)
        st = write_text(path, text, bytes, err);
    free(text);
    return st;
}

bool dti_is_stdout(const char *path)
{
    return path != NULL && strcmp(path, "-") == 0;
}

dt_status dti_check_writable(const char *path, dt_err *err)
{
    char folder[4096] = ".";
    struct stat st;
    const char *slash = path != NULL ? strrchr(path, '/') : NULL;
    if (path == NULL || dti_is_stdout(path))
        return DT_OK;
    if (slash != NULL)
        snprintf(folder, sizeof folder, "%.*s", (int)(slash - path) + 1, path);
    if (stat(path, &st) == 0 && S_ISDIR(st.st_mode))
        return DT_FAIL(err, DT_E_IO, "'%s' is a folder; " REMEDY, path);
    if (access(folder, W_OK | X_OK) != 0)
        return DT_FAIL(err, DT_E_IO, "'%s' cannot be written: %s; " REMEDY, path, strerror(errno));
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
