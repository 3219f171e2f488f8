/* What may be written: no file that is read, and none that a run left. */
#include "session/may_write.h"

#include <string.h>

#include "data/source.h"
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
