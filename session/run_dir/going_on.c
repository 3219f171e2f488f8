/* Going on with the run that a folder holds. */
#define _GNU_SOURCE /* realpath */

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/base/alloc.h"
#include "engine/base/io.h"
#include "engine/base/path.h"
#include "session/run_dir/run_dir_internal.h"

enum { LINE_BYTES = 4096 };

dt_status dti_run_dir_newest(char **out, const char *model, const char *policy, dt_err *err)
{
    char prefix[DTI_PREFIX_BYTES], path[sizeof prefix + 32];
    *out = NULL;
    dti_run_prefix(prefix, model, policy);
    long n;
    DT_CHECK(dti_run_last(&n, prefix, err));
    if (n == 0)
        return DT_OK;
    snprintf(path, sizeof path, DTI_RUNS "/%s-%ld", prefix, n);
    *out = dt_strdup(path);
    return *out != NULL ? DT_OK : dti_run_no_memory(err);
}

bool dt_run_dir_of_checkpoint(char *path)
{
    char *name = strrchr(path, '/');
    if (name == NULL || name == path)
        return false;
    *name = '\0';
    char *parent = strrchr(path, '/');
    if (parent == NULL || parent == path || strcmp(parent + 1, DT_CHECKPOINTS) != 0)
        return false;
    *parent = '\0';
    return true;
}

static bool is_run(const char *folder)
{
    static const char *const has[] = {DT_RUN_CONFIG, DT_RUN_ENV};
    char path[DT_PATH_BYTES];
    struct stat st;
    for (size_t i = 0; i < DT_COUNT(has); i++)
        if (snprintf(path, sizeof path, "%s/%s", folder, has[i]) >= DT_PATH_BYTES ||
            stat(path, &st) != 0)
            return false;
    return true;
}

static bool is_own(const char *name)
{
    static const char below[] = DT_CHECKPOINTS "/";
    static const char *const ours[] = {DT_RUN_CONFIG, DT_RUN_ENV, DT_RUN_PLAN, DT_RUN_CLASSES,
        DT_RUN_METRICS, DT_RUN_METRICS_CUT, DT_RUN_SUMMARY, DT_RUN_REPORT, DT_RUN_LOCK};
    for (size_t i = 0; i < DT_COUNT(ours); i++)
        if (strcmp(name, ours[i]) == 0)
            return true;
    return strncmp(name, below, strlen(below)) == 0;
}

bool dti_run_dir_wrote(const char *path)
{
    char *file = realpath(path, NULL), folder[DT_PATH_BYTES];
    bool wrote = false;
    snprintf(folder, sizeof folder, "%s", file != NULL ? file : "");
    for (char *slash; !wrote && (slash = strrchr(folder, '/')) != NULL;) {
        *slash = '\0';
        wrote = is_own(file + (slash - folder) + 1) && is_run(folder);
    }
    free(file);
    return wrote;
}

dt_status dt_run_dir_holds(const char *dir, bool *any, bool *run, dt_err *err)
{
    struct stat st;
    *any = *run = false;
    if (stat(dir, &st) != 0 || !S_ISDIR(st.st_mode))
        return DT_OK; /* what else is wrong shows when it is opened */
    dti_content c;
    DT_CHECK(dti_run_look(dir, &c, err));
    *any = c.any;
    *run = c.run;
    return DT_OK;
}

/* A run that was killed early may have none yet; links are not followed. */
static dt_status check_content(dt_run_dir *d, dt_err *err)
{
    struct stat st;
    const char *path = dti_run_dir_file(d, DT_CHECKPOINTS);
    if (lstat(path, &st) == 0 && !S_ISDIR(st.st_mode))
        return DT_FAIL(err, DT_E_IO, "'%s' is no folder", path);
    path = dti_run_dir_file(d, DT_RUN_METRICS);
    if (lstat(path, &st) == 0 && !S_ISREG(st.st_mode))
        return DT_FAIL(err, DT_E_IO, "'%s' is no regular file", path);
    return DT_OK;
}

static dt_status need_checkpoints(dt_run_dir *d, dt_err *err)
{
    const char *path = dti_run_dir_file(d, DT_CHECKPOINTS);
    return mkdir(path, 0777) == 0 || errno == EEXIST
               ? DT_OK
               : DT_FAIL(err, DT_E_IO, "make folder '%s': %s", path, strerror(errno));
}

/* Files that a process which is gone was writing. */
static void remove_leftovers(const dt_run_dir *d)
{
    DIR *dir = opendir(d->path);
    if (dir == NULL)
        return;
    for (const char *name; dt_next_name(&name, dir, d->path, NULL) == DT_OK && name != NULL;)
        if (dt_is_temporary(name))
            (void)unlinkat(dirfd(dir), name, 0);
    closedir(dir);
}

static dt_status open_metrics(dt_run_dir *d, dt_err *err)
{
    struct stat st;
    DT_CHECK(dti_metrics_open(d, true, err));
    if (fstat(d->metrics, &st) != 0 || !S_ISREG(st.st_mode))
        return DT_FAIL(
            err, DT_E_IO, "'%s' is no regular file", dti_run_dir_file(d, DT_RUN_METRICS));
    d->metrics_bytes = st.st_size;
    return DT_OK;
}

static dt_status claim(dt_run_dir *d, const char *dir, dt_err *err)
{
    d->path = dt_strdup(dir);
    if (d->path == NULL)
        return dti_run_no_memory(err);
    for (size_t n = strlen(d->path); n > 1 && d->path[n - 1] == '/'; n--)
        d->path[n - 1] = '\0';
    DT_CHECK(dti_run_named(d, err));
    dti_content c;
    DT_CHECK(dti_run_look(d->path, &c, err));
    if (!c.run)
        return DT_FAIL(err, DT_E_CONFIG,
            "'%s' holds no run; name a run directory or one of its checkpoints", d->path);
    DT_CHECK(dti_run_lock_take(&d->lock, d->path, err));
    DT_CHECK(check_content(d, err));
    return dti_run_probe(d, err);
}

dt_status dti_run_dir_continue(dt_run_dir **out, const char *dir, dt_err *err)
{
    *out = NULL;
    dt_run_dir *d = dt_alloc(1, sizeof *d);
    if (d == NULL)
        return dti_run_no_memory(err);
    d->lock = d->metrics = d->folder = -1;
    const dt_status st = claim(d, dir, err);
    if (st != DT_OK) {
        dti_run_dir_close(d);
        return st;
    }
    *out = d;
    return DT_OK;
}

/* ---- metrics ---- */

/* A whole line of a step that is kept: {"step": N, "epoch": E, "split": "train" ... */
static bool is_kept(const char *line, int64_t step, bool evaluated)
{
    int64_t n;
    char split[8];
    const size_t length = strlen(line);
    if (length < 3 || strcmp(line + length - 2, "}\n") != 0 ||
        sscanf(line, "{\"step\": %" SCNd64 ", \"epoch\": %*d, \"split\": \"%7[a-z]\"", &n, split) !=
            2)
        return false;
    return n >= 0 && (n < step || (n == step && (evaluated || strcmp(split, "eval") != 0)));
}

/* Length of the lines to keep; those that follow are counted. */
static dt_status kept_bytes(
    dt_run_dir *d, int64_t step, bool evaluated, off_t *keep, int64_t *lines, dt_err *err)
{
    char line[LINE_BYTES];
    const char *path = dti_run_dir_file(d, DT_RUN_METRICS);
    FILE *f = fopen(path, "r");
    if (f == NULL)
        return DT_FAIL(err, DT_E_IO, "open '%s': %s", path, strerror(errno));
    bool cut = false;
    *keep = 0;
    *lines = 0;
    while (fgets(line, sizeof line, f) != NULL) {
        cut = cut || !is_kept(line, step, evaluated);
        if (cut)
            *lines += strchr(line, '\n') != NULL;
        else
            *keep += (off_t)strlen(line);
    }
    const int error = ferror(f) != 0 ? errno : 0;
    fclose(f);
    return error != 0 ? DT_FAIL(err, DT_E_IO, "read '%s': %s", path, strerror(error)) : DT_OK;
}

/* Where the next line of a file begins, which is its end: half a line there is ended. */
static dt_status line_after(int fd, const char *path, off_t *end, dt_err *err)
{
    char last = '\n';
    if (*end > 0)
        DT_CHECK(dt_read_at(fd, path, &last, 1, *end - 1, err));
    if (last == '\n')
        return DT_OK;
    return dt_write_at(fd, path, "\n", 1, (*end)++, err);
}

/* Append bytes of metrics.jsonl from @at on to the file of what was cut. */
static dt_status set_aside(dt_run_dir *d, off_t at, dt_err *err)
{
    char piece[LINE_BYTES];
    const char *path = dti_run_dir_file(d, DT_RUN_METRICS_CUT);
    const int fd = dt_open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0666);
    struct stat st = {0};
    if (fd < 0)
        return DT_FAIL(err, DT_E_IO, "create '%s': %s", path, strerror(errno));
    dt_status s = DT_OK;
    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode))
        s = DT_FAIL(err, DT_E_IO, "'%s' is no regular file", path);
    off_t to = st.st_size;
    if (s == DT_OK)
        s = line_after(fd, path, &to, err);
    while (at < d->metrics_bytes && s == DT_OK) {
        const off_t left = d->metrics_bytes - at;
        const size_t n = left < LINE_BYTES ? (size_t)left : LINE_BYTES;
        s = dt_read_at(d->metrics, DT_RUN_METRICS, piece, n, at, err);
        if (s == DT_OK)
            s = dt_write_at(fd, path, piece, n, to, err);
        at += (off_t)n;
        to += (off_t)n;
    }
    if (s == DT_OK && dt_sync(fd) != 0)
        s = DT_FAIL(err, DT_E_IO, "sync '%s': %s", path, strerror(errno));
    if (dt_close(fd) != 0 && s == DT_OK)
        s = DT_FAIL(err, DT_E_IO, "close '%s': %s", path, strerror(errno));
    return s;
}

dt_status dti_run_dir_cut(dt_run_dir *d, int64_t step, bool evaluated, int64_t *lines, dt_err *err)
{
    off_t keep;
    remove_leftovers(d);
    DT_CHECK(need_checkpoints(d, err));
    DT_CHECK(open_metrics(d, err));
    DT_CHECK(kept_bytes(d, step, evaluated, &keep, lines, err));
    if (keep >= d->metrics_bytes)
        return DT_OK;
    DT_CHECK(set_aside(d, keep, err));
    if (ftruncate(d->metrics, keep) != 0)
        return DT_FAIL(
            err, DT_E_IO, "cut '%s': %s", dti_run_dir_file(d, DT_RUN_METRICS), strerror(errno));
    d->metrics_bytes = keep;
    return DT_OK;
}
