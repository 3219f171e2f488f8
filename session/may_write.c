/* What can be written, and may be: no file that is read, and none that a run left. */
#include "session/may_write.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "data/source.h"
#include "engine/base/io.h"
#include "engine/base/path.h"
#include "session/run_dir.h"

#define REMEDY "and would be overwritten; name another file to write"

/* Whether data in folders may hold it: it is there, and is called as files of such data are. */
static bool is_data(const dt_session *s, const char *path, const char *folder)
{
    const dt_source_desc *d = dt_source_find(s->opts.data.source);
    const char *slash = strrchr(path, '/');
    return d != NULL && d->holds != NULL && d->holds(slash != NULL ? slash + 1 : path) &&
           dt_is_below(path, folder);
}

/* All of them count, as one of a key that this command does not read may be of use later. Folders
 * but those of data are written to, by runs and caches. */
static dt_status check_keys(const dt_session *s, const char *path, dt_err *err)
{
    for (const dt_run_section *p = dt_run_sections; p->name != NULL; p++)
        for (const dt_opt *row = p->rows; row->key != NULL; row++) {
            const char *named = dt_run_options_path(&s->opts, p, row);
            if (named == NULL || named == path) /* the key of this very output */
                continue;
            if (dt_same_file(path, named))
                return DT_FAIL(
                    err, DT_E_CONFIG, "'%s' is what %s.%s names, " REMEDY, path, p->name, row->key);
            if (strcmp(p->name, "data") == 0 && is_data(s, path, named))
                return DT_FAIL(err, DT_E_CONFIG,
                    "'%s' may be of the data that %s.%s names, " REMEDY, path, p->name, row->key);
        }
    return DT_OK;
}

dt_status dt_may_write(const dt_session *s, const char *path, dt_err *err)
{
    const char *const read[] = {dt_config_path(s->config), s->given_by};
    for (size_t i = 0; i < DT_COUNT(read); i++)
        if (read[i] != NULL && dt_same_file(path, read[i]))
            return DT_FAIL(err, DT_E_CONFIG, "'%s' is what is read, " REMEDY, path);
    DT_CHECK(check_keys(s, path, err));
    return dti_run_dir_wrote(path)
               ? DT_FAIL(err, DT_E_CONFIG, "'%s' was written by a run, " REMEDY, path)
               : DT_OK;
}

/* The path without what follows its last slash, and without slashes at its end; false: none is
 * left. */
static bool cut(char *path)
{
    char *slash = strrchr(path, '/');
    while (slash != NULL && slash > path && slash[-1] == '/')
        slash--;
    if (slash == NULL || slash == path)
        return false;
    *slash = '\0';
    return true;
}

dt_status dti_may_write_beside(const dt_session *s, const char *path, dt_err *err)
{
    char above[DT_PATH_BYTES], dir[DT_PATH_BYTES];
    const char *given = s->opts.run.dir;
    if (given == NULL || snprintf(above, sizeof above, "%s", path) >= DT_PATH_BYTES ||
        snprintf(dir, sizeof dir, "%s", given) >= DT_PATH_BYTES)
        return DT_OK; /* what is too long is refused as such */
    const size_t n = strlen(dir);
    if (n > 1 && dir[n - 1] == '/')
        (void)cut(dir);
    do {
        if (dt_same_file(above, dir))
            return DT_FAIL(err, DT_E_CONFIG,
                "'%s' is run.dir or in it, where files are the run's own; name a file elsewhere",
                path);
    } while (cut(above));
    return DT_OK;
}

dt_status dt_can_write(const char *path, dt_err *err)
{
    char folder[DT_PATH_BYTES];
    struct stat st;
    if (*path == '\0')
        return DT_FAIL(err, DT_E_IO, "'' is no name of a file; " DT_WRITE_REMEDY);
    if (!dt_path_folder(folder, path))
        return DT_FAIL(err, DT_E_IO, "'%.60s...' is too long a path; " DT_WRITE_REMEDY, path);
    if (stat(path, &st) == 0 && S_ISDIR(st.st_mode))
        return DT_FAIL(err, DT_E_IO, "'%s' is a folder; " DT_WRITE_REMEDY, path);
    if (access(folder, W_OK | X_OK) != 0)
        return DT_FAIL(
            err, DT_E_IO, "'%s' cannot be written: %s; " DT_WRITE_REMEDY, path, strerror(errno));
    return dt_check_target(path, err);
}
