#define _GNU_SOURCE /* statfs */

#include "engine/checkpoint/checkpoint_parts.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "engine/base/alloc.h"
#include "engine/base/io.h"
#include "engine/checkpoint/weights.h"

enum { SLACK = 1 << 20 }; /* headers, names, the manifest, what a file system takes itself */

uint64_t dt_checkpoint_bytes(const dt_trained *t)
{
    uint64_t bytes = SLACK + dti_state_bytes(t);
    for (size_t i = 0; i < t->map->n; i++)
        if (t->map->home[i].port == DT_P)
            bytes += t->map->home[i].bytes;
    return bytes;
}

dt_status dt_space_check(const char *folder, uint64_t bytes, dt_err *err)
{
    struct statfs fs;
    if (dt_io->statfs(folder, &fs) != 0)
        return DT_OK;
    uint64_t left;
    if (__builtin_mul_overflow((uint64_t)fs.f_bavail, (uint64_t)fs.f_bsize, &left) || left >= bytes)
        return DT_OK;
    return DT_FAIL(err, DT_E_IO,
        "'%s' has %" PRIu64 " bytes free, a checkpoint takes %" PRIu64
        ": make room there, or set run.dir to a folder elsewhere",
        folder, left, bytes);
}

/* ---- saving ---- */

typedef struct names {
    char temp[DTI_PATH_BYTES], path[DTI_PATH_BYTES], old[DTI_PATH_BYTES];
} names;

static dt_status name_all(names *n, const char *folder, int64_t step, dt_err *err)
{
    char name[DTI_STEP_BYTES], text[DTI_STEP_BYTES + 32];
    dti_step_name(name, step);
    DT_CHECK(dti_path(n->path, folder, name, err));
    snprintf(text, sizeof text, ".%s.tmp-%ld", name, (long)getpid());
    DT_CHECK(dti_path(n->temp, folder, text, err));
    snprintf(text, sizeof text, ".%s.old-%ld", name, (long)getpid());
    return dti_path(n->old, folder, text, err);
}

/* What is there under that name is of a dead process that had our number. */
static dt_status make_folder(const char *path, dt_err *err)
{
    if (dti_is_folder(path))
        DT_CHECK(dti_remove(path, err));
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
    DT_CHECK(dti_path(path, folder, DTI_MODEL, err));
    dt_sha256_init(&sum);
    DT_CHECK(dt_weights_save_sum(t->runner, t->graph, t->map, path, &sum, err));
    end_sum(&m.model, &sum);
    DT_CHECK(dti_path(path, folder, DTI_STATE, err));
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
 * there is a moment at which neither checkpoint bears its name. */
static dt_status replace(const names *n, dt_err *err)
{
    if (dt_io->exchange(n->temp, n->path) == 0) {
        (void)dt_io->rename(n->temp, n->old); /* else the next run removes it under that name */
        return DT_OK;
    }
    DT_CHECK(rename_to(n->path, n->old, err));
    const dt_status st = rename_to(n->temp, n->path, err);
    if (st != DT_OK)
        (void)dt_io->rename(n->old, n->path);
    return st;
}

static dt_status put_in_place(const names *n, const char *folder, dt_err *err)
{
    const bool replaces = dti_is_folder(n->path);
    DT_CHECK(replaces ? replace(n, err) : rename_to(n->temp, n->path, err));
    DT_CHECK(dti_sync_folder(folder, err));
    if (replaces)
        (void)dti_remove(n->old, NULL); /* else the next run does */
    return DT_OK;
}

dt_status dt_checkpoint_save(const char *folder, const dt_trained *t, const dt_course *c,
    const dt_fact *facts, size_t n_facts, dt_err *err)
{
    names n;
    DT_CHECK(name_all(&n, folder, c->step, err));
    DT_CHECK(dt_space_check(folder, dt_checkpoint_bytes(t), err));
    DT_CHECK(make_folder(n.temp, err));
    dt_status st = write_files(n.temp, t, c, facts, n_facts, err);
    if (st == DT_OK)
        st = put_in_place(&n, folder, err);
    if (st != DT_OK && dti_is_folder(n.temp))
        (void)dti_remove(n.temp, NULL);
    return st;
}

dt_status dt_checkpoint_link_weights(
    const char *folder, int64_t step, const char *path, dt_err *err)
{
    char name[DTI_STEP_BYTES], file[DTI_STEP_BYTES + sizeof DTI_MODEL], from[DTI_PATH_BYTES];
    dti_step_name(name, step);
    snprintf(file, sizeof file, "%s/%s", name, DTI_MODEL);
    DT_CHECK(dti_path(from, folder, file, err));
    return dt_link_over(from, path, err);
}

/* ---- reading ---- */

struct dt_checkpoint {
    char path[DTI_PATH_BYTES];
    dti_manifest m;
};

const char *dt_checkpoint_path(const dt_checkpoint *c)
{
    return c->path;
}

int64_t dt_checkpoint_step(const dt_checkpoint *c)
{
    return c->m.step;
}

const char *dt_checkpoint_fact(const dt_checkpoint *c, const char *key)
{
    for (size_t i = 0; i < c->m.n_fact; i++)
        if (strcmp(c->m.fact[i].key, key) == 0)
            return c->m.fact[i].value;
    return NULL;
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
    DT_CHECK(dt_sha256_file(path, got.sha, &got.bytes, DT_E_DATA, err));
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
static dt_status verify(const dt_checkpoint *c, dt_err *err)
{
    char path[DTI_PATH_BYTES];
    dt_course course;
    DT_CHECK(verify_file(c->path, DTI_MODEL, &c->m.model, err));
    DT_CHECK(verify_file(c->path, DTI_STATE, &c->m.state, err));
    DT_CHECK(dti_path(path, c->path, DTI_STATE, err));
    DT_CHECK(dti_state_load(path, NULL, &course, err));
    if (course.step != c->m.step || course.epoch != c->m.epoch)
        return DT_FAIL(err, DT_E_DATA, "'%s' is of step %" PRId64 ", its manifest of step %" PRId64,
            path, course.step, c->m.step);
    return DT_OK;
}

dt_status dt_checkpoint_open(dt_checkpoint **out, const char *path, dt_err *err)
{
    *out = NULL;
    if (!dti_is_folder(path))
        return DT_FAIL(err, DT_E_DATA, "'%s' is no folder", path);
    dt_checkpoint *c = dt_alloc(1, sizeof *c);
    if (c == NULL)
        return DT_FAIL(err, DT_E_NOMEM, "no memory to read '%s'", path);
    dt_status st = DT_OK;
    if (snprintf(c->path, sizeof c->path, "%s", path) >= DTI_PATH_BYTES)
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

void dt_checkpoint_close(dt_checkpoint *c)
{
    if (c == NULL)
        return;
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
        char name[DTI_STEP_BYTES], path[DTI_PATH_BYTES];
        dti_step_name(name, step[i]);
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
        pass_over(path, &why, tell, trail);
    }
    return DT_E_DATA;
}

dt_status dt_checkpoint_newest(
    dt_checkpoint **out, const char *folder, const dt_teller *tell, dt_err *err)
{
    int64_t *step;
    size_t n;
    *out = NULL;
    DT_CHECK(dti_steps(&step, &n, folder, err));
    dt_err *trail = dt_alloc(1, sizeof *trail);
    dt_status st = DT_OK;
    if (trail == NULL)
        st = DT_FAIL(err, DT_E_NOMEM, "no memory to look into '%s'", folder);
    else if (n > 0)
        st = try_each(out, folder, step, n, tell, trail, err);
    if (st == DT_E_DATA) {
        if (err != NULL)
            *err = *trail;
        (void)DT_FAIL(err, st, "none of the %zu checkpoints in '%s' is whole", n, folder);
    }
    dt_free(trail);
    dt_free(step);
    return st;
}

dt_status dt_checkpoint_load(
    const dt_checkpoint *c, const dt_trained *t, dt_course *course, dt_err *err)
{
    char model[DTI_PATH_BYTES], state[DTI_PATH_BYTES];
    DT_CHECK(dti_path(model, c->path, DTI_MODEL, err));
    DT_CHECK(dti_path(state, c->path, DTI_STATE, err));
    DT_CHECK(dt_weights_check(t->graph, model, err));
    DT_CHECK(dti_state_load(state, t, course, err));
    return dt_weights_load(t->runner, t->graph, t->map, model, err);
}
