/* Checkpoints: their folder, saving, reading, and what is removed from there. */
#define _GNU_SOURCE /* statfs */
#include "engine/checkpoint/checkpoint_internal.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "engine/base/alloc.h"
#include "engine/base/io.h"
#include "engine/base/numbers_text.h"
#include "engine/checkpoint/weights.h"

/* ---- names and folders ---- */

#define PREFIX "step-"

enum { MOST_DIGITS = 16, MOST_ASIDE = 1000000 };

dt_status dti_path(char to[DTI_PATH_BYTES], const char *folder, const char *name, dt_err *err)
{
    if (snprintf(to, DTI_PATH_BYTES, "%s/%s", folder, name) < DTI_PATH_BYTES)
        return DT_OK;
    return DT_FAIL(err, DT_E_IO, "'%s/%s': %s", folder, name, strerror(ENAMETOOLONG));
}

const char *dt_checkpoint_name(char to[DT_CHECKPOINT_NAME], int64_t step)
{
    snprintf(to, DT_CHECKPOINT_NAME, PREFIX "%08" PRId64, step);
    return to;
}

/* The step a name stands for; -1 when it is not exactly the name of one. */
static int64_t step_of(const char *name)
{
    char same[DT_CHECKPOINT_NAME];
    if (strncmp(name, PREFIX, sizeof PREFIX - 1) != 0)
        return -1;
    const char *digits = name + sizeof PREFIX - 1;
    const size_t n = strspn(digits, "0123456789");
    if (n == 0 || n > MOST_DIGITS || digits[n] != '\0')
        return -1;
    const int64_t step = strtoll(digits, NULL, 10);
    (void)dt_checkpoint_name(same, step);
    return strcmp(same, name) == 0 ? step : -1;
}

/* A folder, and no link to one. */
static bool is_folder(const char *path)
{
    struct stat st;
    return lstat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

dt_status dt_checkpoint_folder(const char *folder, dt_err *err)
{
    struct stat st;
    if (lstat(folder, &st) != 0)
        return DT_FAIL(err, DT_E_IO, "folder '%s': %s", folder, strerror(errno));
    return S_ISDIR(st.st_mode) ? DT_OK : DT_FAIL(err, DT_E_IO, "'%s' is no folder", folder);
}

static bool is_dots(const char *name)
{
    return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

/* A folder (no link), and all files in it; DT_E_IO when something is left. */
static dt_status remove_folder(const char *path, dt_err *err)
{
    char file[DTI_PATH_BYTES];
    if (!is_folder(path))
        return DT_FAIL(err, DT_E_IO, "remove '%s': no folder", path);
    DIR *dir = opendir(path);
    if (dir == NULL)
        return DT_FAIL(err, DT_E_IO, "open folder '%s': %s", path, strerror(errno));
    for (const char *name; dt_next_name(&name, dir, path, NULL) == DT_OK && name != NULL;)
        if (!is_dots(name) && dti_path(file, path, name, NULL) == DT_OK)
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

/* Steps of the checkpoints in a folder, newest first; dt_free *step. None when there is no such
 * folder. */
static dt_status list_steps(int64_t **step, size_t *n, const char *folder, dt_err *err)
{
    size_t cap = 0;
    const char *name;
    *step = NULL;
    *n = 0;
    DIR *dir = opendir(folder);
    if (dir == NULL && errno == ENOENT)
        return DT_OK;
    if (dir == NULL)
        return DT_FAIL(err, DT_E_IO, "open folder '%s': %s", folder, strerror(errno));
    dt_status st;
    while ((st = dt_next_name(&name, dir, folder, err)) == DT_OK && name != NULL) {
        const int64_t s = step_of(name);
        if (s < 0)
            continue;
        if (!dt_grow(step, &cap, *n, sizeof **step)) {
            st = DT_FAIL(err, DT_E_NOMEM, "no memory to list '%s'", folder);
            break;
        }
        (*step)[(*n)++] = s;
    }
    closedir(dir);
    if (st != DT_OK) {
        dt_free(*step);
        *step = NULL;
        *n = 0;
    }
    if (*n > 0)
        qsort(*step, *n, sizeof **step, newest_first);
    return st;
}

/* ---- space ---- */

/* A usual manifest, the numbers of a course, and the blocks that files begin; and of each tensor
 * its name, shape and place in a header. */
enum { FILES_BYTES = 64 << 10, ENTRY_BYTES = 256 };

uint64_t dt_checkpoint_bytes(const dt_trained *t)
{
    uint64_t bytes = FILES_BYTES;
    for (size_t i = 0; i < t->map->n; i++) {
        const dt_home *h = &t->map->home[i];
        if (h->port != DT_P && !dti_is_state(t, h))
            continue;
        const dt_param_info *p = &t->graph->node[h->node].info.param[h->param];
        bytes += (uint64_t)dt_param_count(p) * sizeof(float) + ENTRY_BYTES;
    }
    return bytes;
}

dt_status dt_space_check(const char *folder, uint64_t bytes, dt_err *err)
{
    struct statfs fs;
    char has[DT_HUMAN_BYTES], takes[DT_HUMAN_BYTES];
    if (dt_io->statfs(folder, &fs) != 0)
        return DT_OK;
    uint64_t left;
    if (__builtin_mul_overflow((uint64_t)fs.f_bavail, dt_block_bytes(&fs), &left) || left >= bytes)
        return DT_OK;
    return DT_FAIL(err, DT_E_IO,
        "'%s' has %s bytes free, a checkpoint takes up to %s: make room there, or set "
        "run.dir to a folder elsewhere",
        folder, dt_human_count(has, left), dt_human_count(takes, bytes));
}

/* ---- saving ---- */

typedef struct names {
    char temp[DTI_PATH_BYTES], path[DTI_PATH_BYTES], old[DTI_PATH_BYTES];
} names;

static dt_status name_all(names *n, const char *folder, int64_t step, dt_err *err)
{
    char name[DT_CHECKPOINT_NAME], text[DT_CHECKPOINT_NAME + 32];
    (void)dt_checkpoint_name(name, step);
    DT_CHECK(dti_path(n->path, folder, name, err));
    snprintf(text, sizeof text, ".%s.tmp-%ld", name, (long)getpid());
    DT_CHECK(dti_path(n->temp, folder, text, err));
    snprintf(text, sizeof text, ".%s.old-%ld", name, (long)getpid());
    return dti_path(n->old, folder, text, err);
}

/* What is there under that name is of a dead process that had our number. */
static dt_status make_folder(const char *path, dt_err *err)
{
    if (is_folder(path))
        DT_CHECK(remove_folder(path, err));
    if (mkdir(path, 0777) != 0)
        return DT_FAIL(err, DT_E_IO, "make folder '%s': %s", path, strerror(errno));
    return DT_OK;
}

/* What was just written. */
static void end_sum(dti_file *f, dt_sha256 *sum)
{
    f->bytes = sum->bytes;
    dt_sha256_text(sum, f->sha);
}

/* Each file is synced, and the folder after each; the manifest comes last. */
static dt_status write_files(const char *folder, const dt_trained *t, const dt_course *c,
    const dt_fact *facts, size_t n_facts, dt_err *err)
{
    char path[DTI_PATH_BYTES];
    dti_manifest m = {.step = c->step, .epoch = c->epoch};
    dt_sha256 sum;
    DT_CHECK(dti_path(path, folder, DT_CHECKPOINT_MODEL, err));
    dt_sha256_init(&sum);
    DT_CHECK(dti_weights_save_sum(t->runner, t->graph, t->map, path, &sum, err));
    end_sum(&m.model, &sum);
    DT_CHECK(dti_path(path, folder, DT_CHECKPOINT_STATE, err));
    dt_sha256_init(&sum);
    DT_CHECK(dti_state_save(path, t, c, &sum, err));
    end_sum(&m.state, &sum);
    return dti_manifest_write(&m, folder, facts, n_facts, err);
}

static dt_status rename_to(const char *from, const char *to, dt_err *err)
{
    if (dt_io->rename(from, to) != 0)
        return DT_FAIL(err, DT_E_IO, "rename '%s' to '%s': %s", from, to, strerror(errno));
    return DT_OK;
}

/* A folder that is not empty cannot be renamed over. Where two names cannot change places at once,
 * there is a moment at which neither checkpoint bears its name. *before: the name of what was
 * replaced. */
static dt_status replace(const names *n, const char **before, dt_err *err)
{
    *before = n->temp;
    if (dt_io->exchange(n->temp, n->path) == 0)
        return DT_OK;
    *before = n->old;
    DT_CHECK(rename_to(n->path, n->old, err));
    const dt_status st = rename_to(n->temp, n->path, err);
    if (st != DT_OK)
        (void)dt_io->rename(n->old, n->path);
    return st;
}

/* *placed: it has its name. Until that is synced what it replaced is kept. */
static dt_status put_in_place(const names *n, const char *folder, bool *placed, dt_err *err)
{
    const char *before = NULL;
    DT_CHECK(is_folder(n->path) ? replace(n, &before, err) : rename_to(n->temp, n->path, err));
    *placed = true;
    DT_CHECK(dt_sync_path(folder, err));
    if (before != NULL)
        (void)remove_folder(before, NULL); /* else the next run does */
    return DT_OK;
}

dt_status dt_checkpoint_save(const char *folder, const dt_trained *t, const dt_course *c,
    const dt_fact *facts, size_t n_facts, dt_err *err)
{
    names n;
    DT_CHECK(dt_checkpoint_folder(folder, err));
    DT_CHECK(name_all(&n, folder, c->step, err));
    DT_CHECK(dt_space_check(folder, dt_checkpoint_bytes(t), err));
    DT_CHECK(make_folder(n.temp, err));
    bool placed = false;
    dt_status st = write_files(n.temp, t, c, facts, n_facts, err);
    if (st == DT_OK)
        st = put_in_place(&n, folder, &placed, err);
    if (st != DT_OK && !placed && is_folder(n.temp))
        (void)remove_folder(n.temp, NULL);
    return st;
}

dt_status dt_checkpoint_check_tensors(const dt_trained *t, dt_err *err)
{
    DT_CHECK(dti_weights_check(DT_CHECKPOINT_MODEL, t->graph, err));
    return dti_state_check(DT_CHECKPOINT_STATE, t, err);
}

dt_status dt_checkpoint_link_weights(
    const char *folder, int64_t step, const char *path, dt_err *err)
{
    char name[DT_CHECKPOINT_NAME], file[DT_CHECKPOINT_NAME + sizeof DT_CHECKPOINT_MODEL],
        from[DTI_PATH_BYTES];
    (void)dt_checkpoint_name(name, step);
    snprintf(file, sizeof file, "%s/%s", name, DT_CHECKPOINT_MODEL);
    DT_CHECK(dti_path(from, folder, file, err));
    return dti_link_over(from, path, err);
}

bool dt_checkpoint_there(const char *folder, int64_t step)
{
    char name[DT_CHECKPOINT_NAME], path[DTI_PATH_BYTES];
    (void)dt_checkpoint_name(name, step);
    return dti_path(path, folder, name, NULL) == DT_OK && is_folder(path);
}

dt_status dt_checkpoint_last(int64_t *step, const char *folder, dt_err *err)
{
    int64_t *all;
    size_t n;
    DT_CHECK(list_steps(&all, &n, folder, err));
    *step = n > 0 ? all[0] : -1;
    dt_free(all);
    return DT_OK;
}

/* ---- reading ---- */

struct dt_checkpoint {
    char path[DTI_PATH_BYTES];
    int held;
    dti_manifest m;
    dt_course course;
};

const char *dt_checkpoint_path(const dt_checkpoint *c)
{
    return c->path;
}

const dt_course *dt_checkpoint_course(const dt_checkpoint *c)
{
    return &c->course;
}

const char *dt_fact_find(const dt_fact *facts, size_t n, const char *key)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(facts[i].key, key) == 0)
            return facts[i].value;
    return NULL;
}

const char *dt_checkpoint_fact(const dt_checkpoint *c, const char *key)
{
    return dt_fact_find(c->m.fact, c->m.n_fact, key);
}

size_t dt_checkpoint_facts(const dt_checkpoint *c)
{
    return c->m.n_fact;
}

dt_fact dt_checkpoint_fact_at(const dt_checkpoint *c, size_t i)
{
    return c->m.fact[i];
}

static dt_status verify_file(
    const char *folder, const char *name, const dti_file *want, dt_err *err)
{
    char path[DTI_PATH_BYTES];
    dti_file got;
    struct stat st;
    DT_CHECK(dti_path(path, folder, name, err));
    if (lstat(path, &st) == 0 && S_ISLNK(st.st_mode))
        return DT_FAIL(err, DT_E_DATA, "'%s' is a link", path);
    DT_CHECK(dti_sha256_file(path, got.sha, &got.bytes, DT_E_DATA, err));
    if (got.bytes != want->bytes)
        return DT_FAIL(err, DT_E_DATA, "'%s' has %" PRIu64 " bytes, was written with %" PRIu64,
            path, got.bytes, want->bytes);
    if (strcmp(got.sha, want->sha) != 0)
        return DT_FAIL(err, DT_E_DATA,
            "'%s' is not what was written: its SHA-256 is %.12s..., "
            "was %.12s...",
            path, got.sha, want->sha);
    return DT_OK;
}

/* The numbers are part of what must be right. */
static dt_status verify(dt_checkpoint *c, dt_err *err)
{
    char path[DTI_PATH_BYTES];
    DT_CHECK(verify_file(c->path, DT_CHECKPOINT_MODEL, &c->m.model, err));
    DT_CHECK(verify_file(c->path, DT_CHECKPOINT_STATE, &c->m.state, err));
    DT_CHECK(dti_path(path, c->path, DT_CHECKPOINT_STATE, err));
    DT_CHECK(dti_state_load(path, NULL, &c->course, err));
    if (c->course.step != c->m.step || c->course.epoch != c->m.epoch)
        return DT_FAIL(err, DT_E_DATA, "'%s' is of step %" PRId64 ", its manifest of step %" PRId64,
            path, c->course.step, c->m.step);
    return DT_OK;
}

dt_status dt_checkpoint_open(dt_checkpoint **out, const char *path, dt_err *err)
{
    *out = NULL;
    if (!is_folder(path))
        return DT_FAIL(err, DT_E_DATA, "'%s' is no folder", path);
    dt_checkpoint *c = dt_alloc(1, sizeof *c);
    if (c == NULL)
        return DT_FAIL(err, DT_E_NOMEM, "no memory to read '%s'", path);
    dt_status st = dti_hold(&c->held, path, err);
    if (st == DT_OK && snprintf(c->path, sizeof c->path, "%s", path) >= DTI_PATH_BYTES)
        st = DT_FAIL(err, DT_E_DATA, "'%s': %s", path, strerror(ENAMETOOLONG));
    if (st == DT_OK)
        st = dti_manifest_read(&c->m, path, err);
    if (st == DT_OK)
        st = verify(c, err);
    if (st != DT_OK) {
        dt_checkpoint_close(c);
        return st;
    }
    *out = c;
    return DT_OK;
}

void dt_checkpoint_let_go(dt_checkpoint *c)
{
    dti_let_go(&c->held);
}

void dt_checkpoint_close(dt_checkpoint *c)
{
    if (c == NULL)
        return;
    dt_checkpoint_let_go(c);
    dti_manifest_deinit(&c->m);
    dt_free(c);
}

/* The first line of why, handed to the listener and kept for the trail. */
static void pass_over(const char *path, const dt_err *why, const dt_teller *tell, dt_err *trail)
{
    char line[2 * DTI_PATH_BYTES];
    snprintf(
        line, sizeof line, "passed over %s: %.*s", path, (int)strcspn(why->text, "\n"), why->text);
    if (tell != NULL)
        tell->tell(tell->self, line);
    (void)DT_FAIL(trail, DT_E_DATA, "%s", line);
}

/* What is wrong with one, a disk that cannot read it included, says nothing about others. Want of
 * memory says nothing about any. */
static dt_status try_each(dt_checkpoint **out, const char *folder, const int64_t *step, size_t n,
    const dt_teller *tell, dt_err *trail, dt_err *err)
{
    for (size_t i = 0; i < n; i++) {
        char name[DT_CHECKPOINT_NAME], path[DTI_PATH_BYTES];
        (void)dt_checkpoint_name(name, step[i]);
        DT_CHECK(dti_path(path, folder, name, err));
        dt_err why = {0};
        dt_status st = dt_checkpoint_open(out, path, &why);
        if (st == DT_OK && (*out)->m.step != step[i]) {
            st = DT_FAIL(&why, DT_E_DATA, "it is of step %" PRId64, (*out)->m.step);
            dt_checkpoint_close(*out);
            *out = NULL;
        }
        if (st == DT_OK)
            return DT_OK;
        if (st == DT_E_NOMEM)
            return DT_FAIL(err, st, "no memory to read '%s'", path);
        struct stat gone;
        if (lstat(path, &gone) == 0) /* else the run that writes them has removed it meanwhile */
            pass_over(path, &why, tell, trail);
    }
    return DT_E_DATA;
}

/* Those that there are now. *newest: the step of the newest; -1: there are none. */
static dt_status try_now(dt_checkpoint **out, const char *folder, int64_t *newest,
    const dt_teller *tell, dt_err *trail, dt_err *err)
{
    int64_t *step;
    size_t n;
    DT_CHECK(list_steps(&step, &n, folder, err));
    *newest = n > 0 ? step[0] : -1;
    dt_status st = n > 0 ? try_each(out, folder, step, n, tell, trail, err) : DT_OK;
    if (st == DT_E_DATA && trail->n == 0) /* all are gone */
        st = DT_FAIL(trail, st, "they were removed while they were read");
    if (st == DT_E_DATA) {
        (void)dt_err_append(err, st, trail->text);
        (void)DT_FAIL(err, st, "none of the %zu checkpoints in '%s' is whole", n, folder);
    }
    dt_free(step);
    return st;
}

/* A run that goes on beside this may remove what is read, and then has newer ones. */
dt_status dt_checkpoint_newest(
    dt_checkpoint **out, const char *folder, const dt_teller *tell, dt_err *err)
{
    enum { MOST_TRIES = 16 };
    int64_t newest = -1, now = -1;
    *out = NULL;
    dt_err *why = dt_alloc(2, sizeof *why);
    if (why == NULL)
        return DT_FAIL(err, DT_E_NOMEM, "no memory to look into '%s'", folder);
    dt_status st = DT_OK;
    for (int i = 0; i < MOST_TRIES; i++) {
        why[0] = why[1] = (dt_err){0};
        st = try_now(out, folder, &newest, tell, &why[1], why);
        if (st != DT_E_DATA || dt_checkpoint_last(&now, folder, NULL) != DT_OK || now <= newest)
            break;
    }
    if (st != DT_OK)
        (void)dt_err_append(err, st, why->text);
    dt_free(why);
    return st;
}

dt_status dt_checkpoint_load(const dt_checkpoint *c, const dt_trained *t, dt_err *err)
{
    char model[DTI_PATH_BYTES], state[DTI_PATH_BYTES];
    dt_course course; /* the same as when it was opened */
    DT_CHECK(dti_path(model, c->path, DT_CHECKPOINT_MODEL, err));
    DT_CHECK(dti_path(state, c->path, DT_CHECKPOINT_STATE, err));
    DT_CHECK(dti_weights_check_names(t->graph, model, err));
    DT_CHECK(dti_state_load(state, t, &course, err));
    return dti_weights_load_verified(t->runner, t->graph, t->map, model, err);
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
    if (!is_folder(path) || dti_manifest_read(&m, path, NULL) != DT_OK)
        return false;
    const bool whole = has_bytes(path, DT_CHECKPOINT_MODEL, m.model.bytes) &&
                       has_bytes(path, DT_CHECKPOINT_STATE, m.state.bytes);
    dti_manifest_deinit(&m);
    return whole;
}

/* What was replaced or is being removed: of ".step-N.old-PID" N, of other names -1. */
static int64_t old_step(const char *name)
{
    static const char mark[] = ".old-";
    const char *end = name[0] == '.' ? strstr(name, mark) : NULL;
    char step[DT_CHECKPOINT_NAME];
    if (end == NULL || (size_t)(end - name) > sizeof step)
        return -1;
    snprintf(step, sizeof step, "%.*s", (int)(end - name - 1), name + 1);
    end += sizeof mark - 1;
    const size_t process = strspn(end, "0123456789");
    return process > 0 && end[process] == '\0' ? step_of(step) : -1;
}

/* Of two renames the first may have been the last thing that a run did (see replace). */
static bool put_back(const char *folder, const char *path, int64_t step)
{
    char name[DT_CHECKPOINT_NAME], to[DTI_PATH_BYTES];
    return !dt_checkpoint_there(folder, step) && looks_whole(path) &&
           dti_path(to, folder, dt_checkpoint_name(name, step), NULL) == DT_OK &&
           dt_io->rename(path, to) == 0;
}

static bool remove_any(const char *path)
{
    return is_folder(path) ? remove_folder(path, NULL) == DT_OK : dt_io->unlink(path) == 0;
}

/* What saves that were cut short have left: a checkpoint without its name gets it back, and with
 * @all the rest is removed. */
static dt_status leftovers(const char *folder, bool all, const dt_teller *tell, dt_err *err)
{
    char path[DTI_PATH_BYTES];
    DIR *dir = opendir(folder);
    if (dir == NULL && errno == ENOENT)
        return DT_OK;
    if (dir == NULL)
        return DT_FAIL(err, DT_E_IO, "open folder '%s': %s", folder, strerror(errno));
    const char *name;
    dt_status st;
    while ((st = dt_next_name(&name, dir, folder, err)) == DT_OK && name != NULL) {
        const int64_t step = old_step(name);
        if ((step < 0 && !dt_is_temporary(name)) || dti_path(path, folder, name, NULL) != DT_OK)
            continue;
        if (step >= 0 && put_back(folder, path, step))
            say(tell, "%s is whole, and the checkpoint of step %" PRId64 " again", path, step);
        else if (!all)
            continue;
        else if (remove_any(path))
            say(tell, "removed %s, left by a save that was cut short", path);
        else
            say(tell, "cannot remove %s", path);
    }
    closedir(dir);
    return st;
}

dt_status dt_checkpoint_put_back(const char *folder, const dt_teller *tell, dt_err *err)
{
    return leftovers(folder, false, tell, err);
}

/* NAME becomes "aside-NAME", or "aside-K-NAME" with the first K that is free. */
static dt_status set_aside(const char *folder, const char *name, const dt_teller *tell, dt_err *err)
{
    char from[DTI_PATH_BYTES], to[DTI_PATH_BYTES], aside[64];
    struct stat st;
    snprintf(aside, sizeof aside, "aside-%s", name);
    DT_CHECK(dti_path(from, folder, name, err));
    DT_CHECK(dti_path(to, folder, aside, err));
    for (int k = 2; lstat(to, &st) == 0 && k < MOST_ASIDE; k++) {
        snprintf(aside, sizeof aside, "aside-%d-%s", k, name);
        DT_CHECK(dti_path(to, folder, aside, err));
    }
    DT_CHECK(rename_to(from, to, err));
    say(tell, "%s is now %s", from, to);
    return DT_OK;
}

/* The weights of an end. */
static dt_status set_end_aside(const char *folder, const dt_teller *tell, dt_err *err)
{
    char path[DTI_PATH_BYTES];
    struct stat st;
    DT_CHECK(dti_path(path, folder, DT_CHECKPOINT_MODEL, err));
    return lstat(path, &st) == 0 ? set_aside(folder, DT_CHECKPOINT_MODEL, tell, err) : DT_OK;
}

dt_status dt_checkpoint_tidy(
    const char *folder, int64_t step, int64_t ended, const dt_teller *tell, dt_err *err)
{
    char name[DT_CHECKPOINT_NAME];
    int64_t *steps;
    size_t n;
    DT_CHECK(leftovers(folder, true, tell, err));
    DT_CHECK(list_steps(&steps, &n, folder, err));
    dt_status st = ended > step ? set_end_aside(folder, tell, err) : DT_OK;
    for (size_t i = 0; i < n && steps[i] > step && st == DT_OK; i++)
        st = set_aside(folder, dt_checkpoint_name(name, steps[i]), tell, err);
    dt_free(steps);
    return st;
}

/* ---- pruning ---- */

/* Once renamed it is no checkpoint any more, however far the removal comes. */
static dt_status remove_checkpoint(
    const char *folder, const char *name, const char *path, dt_err *err)
{
    char old[DT_CHECKPOINT_NAME + 32], to[DTI_PATH_BYTES];
    snprintf(old, sizeof old, ".%s.old-%ld", name, (long)getpid());
    DT_CHECK(dti_path(to, folder, old, err));
    DT_CHECK(rename_to(path, to, err));
    return remove_folder(to, err);
}

/* One that somebody reads stays until the next time. */
static dt_status drop(const char *folder, const char *name, const char *path, dt_err *err)
{
    int alone;
    if (!dti_hold_alone(&alone, path))
        return DT_OK;
    const dt_status st = remove_checkpoint(folder, name, path, err);
    dti_let_go(&alone);
    return st;
}

dt_status dt_checkpoint_prune(const char *folder, int64_t keep, int64_t best, dt_err *err)
{
    int64_t *steps, kept = 0;
    size_t n;
    DT_CHECK(dt_checkpoint_folder(folder, err));
    DT_CHECK(list_steps(&steps, &n, folder, err));
    dt_status st = DT_OK;
    for (size_t i = 0; i < n && st == DT_OK; i++) {
        char name[DT_CHECKPOINT_NAME], path[DTI_PATH_BYTES];
        (void)dt_checkpoint_name(name, steps[i]);
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
