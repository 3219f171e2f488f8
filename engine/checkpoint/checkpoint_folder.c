/* The folder that checkpoints lie in: names, order, leftovers. */
#include "engine/checkpoint/checkpoint_parts.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/base/alloc.h"
#include "engine/base/io.h"

#define PREFIX "step-"

enum { MOST_DIGITS = 16, MOST_ASIDE = 1000000 };

dt_status dti_path(char to[DTI_PATH_BYTES], const char *folder, const char *name, dt_err *err)
{
    if (snprintf(to, DTI_PATH_BYTES, "%s/%s", folder, name) < DTI_PATH_BYTES)
        return DT_OK;
    return DT_FAIL(err, DT_E_IO, "'%s/%s': %s", folder, name, strerror(ENAMETOOLONG));
}

void dti_step_name(char to[DTI_STEP_BYTES], int64_t step)
{
    snprintf(to, DTI_STEP_BYTES, PREFIX "%08" PRId64, step);
}

/* The step a name stands for; -1 when it is not exactly the name of one. */
static int64_t step_of(const char *name)
{
    char same[DTI_STEP_BYTES];
    if (strncmp(name, PREFIX, sizeof PREFIX - 1) != 0)
        return -1;
    const char *digits = name + sizeof PREFIX - 1;
    const size_t n = strspn(digits, "0123456789");
    if (n == 0 || n > MOST_DIGITS || digits[n] != '\0')
        return -1;
    const int64_t step = strtoll(digits, NULL, 10);
    dti_step_name(same, step);
    return strcmp(same, name) == 0 ? step : -1;
}

bool dti_is_folder(const char *path)
{
    struct stat st;
    return lstat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

dt_status dti_sync_folder(const char *path, dt_err *err)
{
    const int fd = dt_open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
    if (fd < 0)
        return DT_FAIL(err, DT_E_IO, "open folder '%s': %s", path, strerror(errno));
    dt_status st = DT_OK;
    int failed;
    do
        failed = dt_io->fsync(fd);
    while (failed != 0 && errno == EINTR);
    if (failed != 0 && errno != EINVAL) /* some file systems cannot */
        st = DT_FAIL(err, DT_E_IO, "sync folder '%s': %s", path, strerror(errno));
    (void)dt_close(fd);
    return st;
}

static bool is_dots(const char *name)
{
    return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

dt_status dti_remove(const char *path, dt_err *err)
{
    char file[DTI_PATH_BYTES];
    if (!dti_is_folder(path))
        return DT_FAIL(err, DT_E_IO, "remove '%s': no folder", path);
    DIR *dir = opendir(path);
    if (dir == NULL)
        return DT_FAIL(err, DT_E_IO, "open folder '%s': %s", path, strerror(errno));
    for (const struct dirent *e; (e = readdir(dir)) != NULL;)
        if (!is_dots(e->d_name) && dti_path(file, path, e->d_name, NULL) == DT_OK)
            (void)dt_io->unlink(file); /* what stays keeps the folder */
    closedir(dir);
    if (rmdir(path) != 0)
        return DT_FAIL(err, DT_E_IO, "remove folder '%s': %s", path, strerror(errno));
    return DT_OK;
}

/* ---- listing ---- */

static int newest_first(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x < y) - (x > y);
}

dt_status dti_steps(int64_t **step, size_t *n, const char *folder, dt_err *err)
{
    size_t cap = 0;
    *step = NULL;
    *n = 0;
    DIR *dir = opendir(folder);
    if (dir == NULL && errno == ENOENT)
        return DT_OK;
    if (dir == NULL)
        return DT_FAIL(err, DT_E_IO, "open folder '%s': %s", folder, strerror(errno));
    for (const struct dirent *e; (e = readdir(dir)) != NULL;) {
        const int64_t s = step_of(e->d_name);
        if (s < 0)
            continue;
        if (!dt_grow((void **)step, &cap, *n, sizeof **step)) {
            closedir(dir);
            dt_free(*step);
            *step = NULL;
            *n = 0;
            return DT_FAIL(err, DT_E_NOMEM, "no memory to list '%s'", folder);
        }
        (*step)[(*n)++] = s;
    }
    closedir(dir);
    if (*n > 0)
        qsort(*step, *n, sizeof **step, newest_first);
    return DT_OK;
}

/* ---- leftovers ---- */

static void DT_PRINTF(2, 3) say(const dt_teller *t, const char *fmt, ...)
{
    char line[2 * DTI_PATH_BYTES];
    va_list ap;
    if (t == NULL)
        return;
    va_start(ap, fmt);
    vsnprintf(line, sizeof line, fmt, ap);
    va_end(ap);
    t->tell(t->self, line);
}

/* Folders of saves under way, ".step-N.tmp-PID", and of removals, ".step-N.old-PID"; a file under
 * way, ".NAME.tmp-PID". */
static bool is_leftover(const char *name)
{
    return strncmp(name, "." PREFIX, sizeof PREFIX) == 0 ||
           (name[0] == '.' && strstr(name, ".tmp-") != NULL);
}

static bool remove_any(const char *path)
{
    return dti_is_folder(path) ? dti_remove(path, NULL) == DT_OK : dt_io->unlink(path) == 0;
}

static dt_status remove_leftovers(const char *folder, const dt_teller *tell, dt_err *err)
{
    char path[DTI_PATH_BYTES];
    DIR *dir = opendir(folder);
    if (dir == NULL)
        return DT_FAIL(err, DT_E_IO, "open folder '%s': %s", folder, strerror(errno));
    for (const struct dirent *e; (e = readdir(dir)) != NULL;) {
        if (!is_leftover(e->d_name) || dti_path(path, folder, e->d_name, NULL) != DT_OK)
            continue;
        if (remove_any(path))
            say(tell, "removed %s, left by a save that was cut short", path);
        else
            say(tell, "cannot remove %s", path);
    }
    closedir(dir);
    return DT_OK;
}

/* "step-N" becomes "aside-step-N", or "aside-K-step-N" with the first K that is free. */
static dt_status set_aside(const char *folder, int64_t step, const dt_teller *tell, dt_err *err)
{
    char from[DTI_PATH_BYTES], to[DTI_PATH_BYTES], name[DTI_STEP_BYTES], aside[64];
    struct stat st;
    dti_step_name(name, step);
    snprintf(aside, sizeof aside, "aside-%s", name);
    DT_CHECK(dti_path(from, folder, name, err));
    DT_CHECK(dti_path(to, folder, aside, err));
    for (int k = 2; lstat(to, &st) == 0 && k < MOST_ASIDE; k++) {
        snprintf(aside, sizeof aside, "aside-%d-%s", k, name);
        DT_CHECK(dti_path(to, folder, aside, err));
    }
    if (dt_io->rename(from, to) != 0)
        return DT_FAIL(err, DT_E_IO, "rename '%s' to '%s': %s", from, to, strerror(errno));
    say(tell, "%s is now %s", from, to);
    return DT_OK;
}

dt_status dt_checkpoint_tidy(const char *folder, int64_t step, const dt_teller *tell, dt_err *err)
{
    int64_t *steps;
    size_t n;
    DT_CHECK(remove_leftovers(folder, tell, err));
    DT_CHECK(dti_steps(&steps, &n, folder, err));
    dt_status st = DT_OK;
    for (size_t i = 0; i < n && steps[i] > step && st == DT_OK; i++)
        st = set_aside(folder, steps[i], tell, err);
    dt_free(steps);
    return st;
}

/* ---- pruning ---- */

static bool has_bytes(const char *folder, const char *name, uint64_t bytes)
{
    char path[DTI_PATH_BYTES];
    struct stat st;
    return dti_path(path, folder, name, NULL) == DT_OK && lstat(path, &st) == 0 &&
           S_ISREG(st.st_mode) && (uint64_t)st.st_size == bytes;
}

static bool looks_whole(const char *path)
{
    dti_manifest m;
    if (!dti_is_folder(path) || dti_manifest_read(&m, path, NULL) != DT_OK)
        return false;
    const bool whole =
        has_bytes(path, DTI_MODEL, m.model.bytes) && has_bytes(path, DTI_STATE, m.state.bytes);
    dti_manifest_deinit(&m);
    return whole;
}

/* Once renamed it is no checkpoint any more, however far the removal comes. */
static dt_status drop(const char *folder, const char *name, const char *path, dt_err *err)
{
    char old[DTI_STEP_BYTES + 32], to[DTI_PATH_BYTES];
    snprintf(old, sizeof old, ".%s.old-%ld", name, (long)getpid());
    DT_CHECK(dti_path(to, folder, old, err));
    if (dt_io->rename(path, to) != 0)
        return DT_FAIL(err, DT_E_IO, "rename '%s' to '%s': %s", path, to, strerror(errno));
    return dti_remove(to, err);
}

dt_status dt_checkpoint_prune(const char *folder, int64_t keep, int64_t best, dt_err *err)
{
    int64_t *steps, kept = 0;
    size_t n;
    DT_CHECK(dti_steps(&steps, &n, folder, err));
    dt_status st = DT_OK;
    for (size_t i = 0; i < n && st == DT_OK; i++) {
        char name[DTI_STEP_BYTES], path[DTI_PATH_BYTES];
        dti_step_name(name, steps[i]);
        st = dti_path(path, folder, name, err);
        if (st != DT_OK || !looks_whole(path))
            continue;
        if (kept < keep)
            kept++;
        else if (steps[i] != best)
            st = drop(folder, name, path, err);
    }
    dt_free(steps);
    return st;
}
