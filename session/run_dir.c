/* Run directories: a folder of one's own, its lock, the files in it, and going on with what lies
 * there. */
#define _GNU_SOURCE /* O_PATH, locks of open files */

#include "session/run_dir.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cjson/cJSON.h>

#include "engine/base/alloc.h"
#include "engine/base/io.h"
#include "engine/base/json.h"
#include "engine/base/text.h"
#include "session/environment.h"

struct dt_run_dir {
    char *path, *file; /* file: room for dti_run_dir_file */
    char **older;      /* paths it had before, which are borrowed still */
    size_t n_older, cap_older;
    int folder;        /* descriptor of the folder itself; -1 */
    char *moved;       /* NULL: nothing was */
    bool made;         /* this process made the folder */
    bool begins;       /* a new run, of which nothing needs to last yet */
    int lock, metrics; /* descriptors; -1 */
    int64_t metrics_bytes;
    uint64_t lost;
    dt_err why; /* of the first line lost */
};

#define RUNS "runs"

enum { LOCK_TEXT = 160, PREFIX_BYTES = 194 };

/* What a folder holds besides a lock. */
typedef struct content {
    bool any, run; /* of a run */
} content;

/* ---- the lock: Linux's of an open file, not of a process, so it works within one process
 * too, and ends with the process however that ends; the file's text only names it ---- */

enum { PATH_BYTES = 4096 };

/* False: the path is too long to exist. */
static bool lock_path(char to[PATH_BYTES], const char *folder)
{
    return snprintf(to, PATH_BYTES, "%s/lock", folder) < PATH_BYTES;
}

/* "PID HOST" as "process PID on HOST"; a file of anyone's making is cut down to that. */
static void read_holder(int fd, char to[LOCK_TEXT])
{
    char text[LOCK_TEXT] = "", *end;
    const ssize_t n = pread(fd, text, 100, 0);
    text[n > 0 ? n : 0] = '\0';
    const long pid = strtol(text, &end, 10);
    if (end == text || pid <= 0) {
        snprintf(to, LOCK_TEXT, "another process");
        return;
    }
    char *host = end + strspn(end, " ");
    for (char *c = host; *c != '\0'; c++)
        if (*c < '!' || *c > '~')
            *c = '\0';
    snprintf(to, LOCK_TEXT, "process %ld%s%.64s", pid, *host != '\0' ? " on " : "", host);
}

static bool same_file(int fd, const char *path)
{
    struct stat a, b;
    return fstat(fd, &a) == 0 && lstat(path, &b) == 0 && a.st_ino == b.st_ino &&
           a.st_dev == b.st_dev;
}

/* Lock and sign. A file that was removed or replaced meanwhile locks nothing. */
static dt_status lock_file(int fd, const char *path, const char *folder, dt_err *err)
{
    struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    char text[LOCK_TEXT], host[64] = "";
    if (fcntl(fd, F_OFD_SETLK, &whole) != 0) {
        if (errno != EAGAIN && errno != EACCES)
            return DT_FAIL(err, DT_E_IO,
                "lock '%s': %s; this file system has no locks: set run.dir to a folder on another",
                path, strerror(errno));
        read_holder(fd, text);
        return DT_FAIL(err, DT_E_BUSY,
            "run directory '%s' is in use by %s; set run.dir to another folder", folder, text);
    }
    if (!same_file(fd, path))
        return DT_FAIL(err, DT_E_BUSY,
            "run directory '%s' was taken by another process just now; set run.dir to another "
            "folder",
            folder);
    (void)gethostname(host, sizeof host - 1);
    const int n = snprintf(text, sizeof text, "%ld %s\n", (long)getpid(), host);
    if (ftruncate(fd, 0) != 0)
        return DT_FAIL(err, DT_E_IO, "truncate '%s': %s", path, strerror(errno));
    return dt_write_at(fd, path, text, (size_t)n, 0, err);
}

/* Remove the lock's file, then let go. */
static void lock_drop(int fd, const char *folder)
{
    char path[PATH_BYTES];
    if (fd < 0)
        return;
    if (lock_path(path, folder) && same_file(fd, path))
        (void)dt_io->unlink(path);
    (void)dt_io->close(fd);
}

/* Take the lock of a folder, for as long as *fd stays open. DT_E_BUSY names the process that holds
 * it. */
static dt_status lock_take(int *fd, const char *folder, dt_err *err)
{
    char path[PATH_BYTES];
    *fd = -1;
    if (!lock_path(path, folder))
        return DT_FAIL(err, DT_E_IO, "'%s': %s", folder, strerror(ENAMETOOLONG));
    const int got = dt_io->open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (got < 0)
        return DT_FAIL(err, DT_E_IO, "run directory '%s' cannot be written: create '%s': %s",
            folder, path, strerror(errno));
    const dt_status st = lock_file(got, path, folder, err);
    if (st == DT_OK)
        *fd = got;
    else if (st == DT_E_BUSY) /* the file is the other's */
        (void)dt_io->close(got);
    else
        lock_drop(got, folder);
    return st;
}

/* Who holds, or held, the lock of a folder: "process 12 on host"; "" when there is no lock file. */
static bool lock_held(const char *folder, char holder[LOCK_TEXT])
{
    char path[PATH_BYTES];
    holder[0] = '\0';
    if (!lock_path(path, folder))
        return false;
    const int fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return false;
    struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    const bool held = fcntl(fd, F_OFD_GETLK, &whole) == 0 && whole.l_type != F_UNLCK;
    read_holder(fd, holder);
    (void)close(fd);
    return held;
}

/* ---- the files ---- */

/* ---- whole files ---- */

/* What a run writes before its first step. That waits for no disk: until a run has made a step
 * there is nothing to lose, and dti_run_dir_settle syncs all of them at once. */
static const char *const of_beginning[] = {"config.ini", "env.json", "plan.txt"};

static bool is_of_beginning(const char *name)
{
    for (size_t i = 0; i < DT_COUNT(of_beginning); i++)
        if (strcmp(name, of_beginning[i]) == 0)
            return true;
    return false;
}

static dt_status write_bytes(
    dt_run_dir *d, const char *name, const char *text, size_t n, dt_err *err)
{
    dt_file_writer *w;
    DT_CHECK(dt_run_dir_there(d, err));
    DT_CHECK(dt_writer_open(&w, dti_run_dir_file(d, name), err));
    const dt_status st = dt_writer_put(w, text, n, err);
    if (st == DT_OK)
        return d->begins && is_of_beginning(name) ? dt_writer_rename(w, err)
                                                  : dt_writer_commit(w, err);
    dt_writer_abandon(w);
    return st;
}

dt_status dti_run_dir_settle(dt_run_dir *d, dt_err *err)
{
    if (!d->begins)
        return DT_OK;
    d->begins = false; /* a sync that fails is not tried again: the bytes may be gone */
    dt_status st = dt_run_dir_there(d, err);
    for (size_t i = 0; i < DT_COUNT(of_beginning) && st == DT_OK; i++)
        if (access(dti_run_dir_file(d, of_beginning[i]), F_OK) == 0)
            st = dt_sync_path(dti_run_dir_file(d, of_beginning[i]), err);
    if (st == DT_OK)
        st = dt_sync_path(d->path, err);
    DT_TRY(err, st, "run directory '%s' cannot be written; set run.dir to another folder", d->path);
    return DT_OK;
}

dt_status dti_run_dir_write(
    dt_run_dir *d, const char *name, dti_run_dir_printer *print, const void *arg, dt_err *err)
{
    char *text = NULL;
    size_t n = 0;
    FILE *f = open_memstream(&text, &n);
    if (f == NULL)
        return DT_FAIL(err, DT_E_NOMEM, "no memory for '%s'", name);
    dt_status st = print(arg, f, err);
    const bool lost = ferror(f) != 0;
    if ((fclose(f) != 0 || lost) && st == DT_OK)
        st = DT_FAIL(err, DT_E_NOMEM, "no memory for '%s'", name);
    if (st == DT_OK)
        st = write_bytes(d, name, text, n, err);
    free(text);
    return st;
}

static dt_status print_config(const void *arg, FILE *f, dt_err *err)
{
    (void)err;
    dt_config_dump(arg, f);
    return DT_OK;
}

dt_status dti_run_dir_config(dt_run_dir *d, const dt_config *c, dt_err *err)
{
    return dti_run_dir_write(d, "config.ini", print_config, c, err);
}

/* ---- JSON objects ---- */

enum { NUMBER_BYTES = 40 };

typedef struct object {
    cJSON *o;
    bool lost; /* no memory */
} object;

static void add_raw(object *j, const char *key, const char *text)
{
    j->lost |= cJSON_AddRawToObject(j->o, key, text) == NULL;
}

/* Paths need not be UTF-8, JSON must: bytes that are not become '?'. NULL is left out. */
static void add_text(object *j, const char *key, const char *value)
{
    if (value == NULL)
        return;
    char *text = dt_strdup(value);
    j->lost |= text == NULL;
    if (text == NULL)
        return;
    const size_t n = strlen(text);
    for (size_t at = 0; (at += dt_utf8_bad(text + at, n - at)) < n;)
        text[at] = '?';
    j->lost |= cJSON_AddStringToObject(j->o, key, text) == NULL;
    dt_free(text);
}

/* JSON has no word for them, so they are strings; they are never left out. */
static const char *real_text(char to[NUMBER_BYTES], double v)
{
    if (isfinite(v))
        snprintf(to, NUMBER_BYTES, "%.9g", v);
    else
        snprintf(to, NUMBER_BYTES, "\"%s\"", isnan(v) ? "nan" : v > 0 ? "inf" : "-inf");
    return to;
}

static void add_real(object *j, const char *key, double v)
{
    char text[NUMBER_BYTES];
    add_raw(j, key, real_text(text, v));
}

static void add_int(object *j, const char *key, int64_t v)
{
    char text[NUMBER_BYTES];
    snprintf(text, sizeof text, "%" PRId64, v);
    add_raw(j, key, text);
}

static void add_bytes(object *j, const char *key, uint64_t v)
{
    char text[NUMBER_BYTES];
    snprintf(text, sizeof text, "%" PRIu64, v);
    add_raw(j, key, text);
}

/* Write the object and forget it. */
static dt_status write_object(dt_run_dir *d, const char *name, object *j, dt_err *err)
{
    char *text = j->lost ? NULL : cJSON_Print(j->o);
    cJSON_Delete(j->o);
    if (text == NULL)
        return DT_FAIL(err, DT_E_NOMEM, "no memory for '%s'", name);
    const size_t n = strlen(text);
    text[n] = '\n'; /* in place of the NUL: the length is known */
    const dt_status st = write_bytes(d, name, text, n + 1, err);
    cJSON_free(text);
    return st;
}

dt_status dti_run_dir_facts(dt_run_dir *d, const dti_run_facts *f, dt_err *err)
{
    char text[DT_FACT_BYTES];
    object j = {.o = cJSON_CreateObject()};
    add_text(&j, "network", f->network);
    add_text(&j, "version", f->version);
    add_text(&j, "compiler", __VERSION__);
    add_text(&j, "library", f->library);
    add_text(&j, "device", f->device);
    add_text(&j, "cpu", dt_cpu_name(text));
    add_text(&j, "isa", f->isa);
    add_text(&j, "library_isa", f->library_isa);
    add_int(&j, "threads", f->threads);
    add_bytes(&j, "seed", f->seed);
    add_text(&j, "system", dt_system_name(text));
    add_text(&j, "started", dt_date(text));
    return write_object(d, "env.json", &j, err);
}

static bool is_plain(const char *name)
{
    static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-";
    return name[0] != '\0' && name[0] != '.' && name[strspn(name, plain)] == '\0';
}

bool dti_run_dir_network(const char *folder, char *to, size_t bytes)
{
    enum { CAP = 65536, DEPTH = 4, VALUES = 64 };
    char path[4096], *text = NULL;
    size_t n = 0;
    cJSON *j = NULL;
    dt_err ignored = {0};
    if (snprintf(path, sizeof path, "%s/env.json", folder) >= (int)sizeof path ||
        dt_read_file(&text, &n, path, CAP, DT_E_DATA, &ignored) != DT_OK)
        return false;
    bool found = dt_json_parse(&j, text, n, DEPTH, VALUES, &ignored) == DT_OK;
    dt_free(text);
    const cJSON *name = found ? cJSON_GetObjectItemCaseSensitive(j, "network") : NULL;
    found =
        cJSON_IsString(name) && is_plain(name->valuestring) && strlen(name->valuestring) < bytes;
    if (found)
        snprintf(to, bytes, "%s", name->valuestring);
    cJSON_Delete(j);
    return found;
}

/* ---- summary ---- */

static const char *status_word(dt_status s)
{
    return s == DT_OK ? "done" : s == DT_E_STOPPED ? "stopped" : "failed";
}

static void add_what(object *j, const dti_run_summary *s)
{
    add_text(j, "status", status_word(s->status));
    add_int(j, "exit_code", s->status);
    add_text(j, "error", s->error);
    add_text(j, "model", s->model);
    add_int(j, "parameters", s->parameters);
    add_text(j, "policy", s->policy);
    if (s->chosen_by != NULL)
        add_text(j, "chosen_by", s->chosen_by);
    add_raw(j, "exact", s->exact ? "true" : "false");
    add_text(j, "pool", s->pool);
    add_text(j, "precision", s->precision);
    add_text(j, "device", s->device);
    add_text(j, "isa", s->isa);
    add_text(j, "library_isa", s->library_isa);
    add_int(j, "threads", s->threads);
    add_int(j, "batch", s->batch);
    add_int(j, "micro_batch", s->micro_batch);
}

static void add_course(object *j, const dti_run_summary *s)
{
    add_int(j, "steps", s->steps);
    add_int(j, "steps_planned", s->steps_planned);
    add_int(j, "epochs", s->epochs);
    add_int(j, "samples", s->samples);
    add_real(j, "seconds", s->seconds);
    if (s->steps > 0 && !isnan(s->images_per_second))
        add_real(j, "images_per_second", s->images_per_second);
    else
        add_raw(j, "images_per_second", "null");
    if (s->steps > 0) {
        add_real(j, "first_loss", s->first_loss);
        add_real(j, "final_loss", s->final_loss);
    } else {
        add_raw(j, "first_loss", "null");
        add_raw(j, "final_loss", "null");
    }
    if (s->eval == NULL)
        return;
    add_int(j, "eval_step", s->eval->step);
    add_int(j, "eval_samples", s->eval->samples);
    add_real(j, "eval_loss", s->eval->loss);
    add_real(j, "eval_top1", s->eval->top1);
    add_real(j, "eval_top5", s->eval->top5);
    if (s->eval->pixels && !isnan(s->eval->mean_iou))
        add_real(j, "eval_mean_iou", s->eval->mean_iou);
}

static void add_memory(object *j, const dti_run_summary *s)
{
    if (s->device_budget > 0)
        add_bytes(j, "device_budget", s->device_budget);
    else
        add_raw(j, "device_budget", "null");
    add_bytes(j, "device_peak_planned", s->device_peak_planned);
    if (s->device_peak_measured > 0)
        add_bytes(j, "device_peak_measured", s->device_peak_measured);
    else
        add_raw(j, "device_peak_measured", "null");
    add_bytes(j, "host_peak_planned", s->host_peak_planned);
    add_bytes(j, "disk_peak_planned", s->disk_peak_planned);
    if (s->moved != NULL) {
        add_bytes(j, "moved_out_host", s->moved->out[DT_TIER_HOST]);
        add_bytes(j, "moved_out_disk", s->moved->out[DT_TIER_DISK]);
        add_bytes(j, "moved_in_host", s->moved->in[DT_TIER_HOST]);
        add_bytes(j, "moved_in_disk", s->moved->in[DT_TIER_DISK]);
        add_real(j, "copy_seconds", s->moved->copy_seconds);
        add_real(j, "stall_seconds", s->moved->stall_seconds);
    }
    add_bytes(j, "steps_rerun", (uint64_t)s->reruns);
    add_bytes(j, "process_peak", s->process_peak);
    add_bytes(j, "outside_arena_bytes", s->outside_arena_bytes);
}

dt_status dti_run_dir_summary(dt_run_dir *d, const dti_run_summary *s, dt_err *err)
{
    char date[DT_FACT_BYTES];
    DT_CHECK(dti_run_dir_settle(d, err));
    object j = {.o = cJSON_CreateObject()};
    add_what(&j, s);
    add_course(&j, s);
    add_memory(&j, s);
    add_bytes(&j, "metrics_lost", d->lost);
    add_text(&j, "run_dir", d->path);
    add_text(&j, "finished", dt_date(date));
    return write_object(d, "summary.json", &j, err);
}

/* ---- metrics ---- */

/* Open metrics.jsonl: one that must not exist, or the one that is there, if any. */
static dt_status metrics_open(dt_run_dir *d, bool go_on, dt_err *err)
{
    const char *path = dti_run_dir_file(d, "metrics.jsonl");
    const int how = go_on ? O_RDWR | O_NOFOLLOW | O_NONBLOCK : O_WRONLY | O_EXCL;
    d->metrics = dt_open(path, how | O_CREAT | O_CLOEXEC, 0666);
    if (d->metrics < 0)
        return DT_FAIL(err, DT_E_IO, "create '%s': %s", path, strerror(errno));
    return DT_OK;
}

/* What a failed write may have left behind the last whole line goes. */
static void metrics_close(dt_run_dir *d)
{
    if (d->metrics < 0)
        return;
    if (d->lost > 0 && ftruncate(d->metrics, (off_t)d->metrics_bytes) != 0)
        d->lost++;
    (void)dt_io->fsync(d->metrics);
    (void)dt_io->close(d->metrics);
    d->metrics = -1;
}

void dti_run_dir_sync(dt_run_dir *d)
{
    (void)dt_io->fsync(d->metrics);
}

static void append(dt_run_dir *d, const char *line, int n)
{
    dt_err *why = d->lost == 0 ? &d->why : NULL;
    if (dt_write_at(d->metrics, "metrics.jsonl", line, (size_t)n, (off_t)d->metrics_bytes, why) ==
        DT_OK)
        d->metrics_bytes += n;
    else
        d->lost++;
}

void dti_run_dir_step(dt_run_dir *d, const dt_step_report *r)
{
    char line[512], loss[NUMBER_BYTES], lr[NUMBER_BYTES], rate[NUMBER_BYTES], time[NUMBER_BYTES];
    char norm[NUMBER_BYTES], clipped[NUMBER_BYTES + 32] = "", wait[NUMBER_BYTES];
    if (r->clips)
        snprintf(clipped, sizeof clipped, ", \"grad_norm\": %s", real_text(norm, r->grad_norm));
    const int n = snprintf(line, sizeof line,
        "{\"step\": %" PRId64 ", \"epoch\": %" PRId64
        ", \"split\": \"train\", \"loss\": %s, \"lr\": %s%s, \"images_per_second\": %s, "
        "\"step_seconds\": %s, \"wait_seconds\": %s}\n",
        r->step, r->epoch, real_text(loss, r->loss), real_text(lr, r->lr), clipped,
        real_text(rate, (double)r->samples / r->step_seconds), real_text(time, r->step_seconds),
        real_text(wait, r->wait_seconds));
    append(d, line, n);
}

void dti_run_dir_eval(dt_run_dir *d, const dt_eval_report *r)
{
    char line[512], loss[NUMBER_BYTES], top1[NUMBER_BYTES], top5[NUMBER_BYTES], time[NUMBER_BYTES];
    char mean[NUMBER_BYTES], iou[NUMBER_BYTES + 32] = "";
    if (r->pixels)
        snprintf(iou, sizeof iou, ", \"mean_iou\": %s", real_text(mean, r->mean_iou));
    const int n = snprintf(line, sizeof line,
        "{\"step\": %" PRId64 ", \"epoch\": %" PRId64
        ", \"split\": \"eval\", \"loss\": %s, \"top1\": %s, \"top5\": %s%s, \"samples\": %" PRId64
        ", \"seconds\": %s}\n",
        r->step, r->epoch, real_text(loss, r->loss), real_text(top1, r->top1),
        real_text(top5, r->top5), iou, r->samples, real_text(time, r->seconds));
    append(d, line, n);
}

uint64_t dt_run_dir_lost(const dt_run_dir *d, const char **why)
{
    if (why != NULL)
        *why = d->why.text;
    return d->lost;
}

/* ---- the folder ---- */

enum { WORD_BYTES = 97, MOST_NUMBER = 1000000000, FILE_NAME_BYTES = 64, OLD_BYTES = 32 };
_Static_assert(PREFIX_BYTES == 2 * WORD_BYTES, "two words");

static dt_status run_no_memory(dt_err *err)
{
    return DT_FAIL(err, DT_E_NOMEM, "no memory for the run directory's name");
}

/* ---- names ---- */

/* A word of a folder's name: no blanks, "a, b" becomes "a+b", odd bytes '_'. */
static void word(char to[WORD_BYTES], const char *from)
{
    size_t n = 0;
    for (; *from != '\0' && n + 1 < WORD_BYTES; from++) {
        const char c = *from;
        const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                           (c >= '0' && c <= '9') || c == '_' || c == '-' || c == '+' ||
                           (c == '.' && n > 0);
        if (c != ' ' && c != '\t')
            to[n++] = plain ? c : c == ',' ? '+' : '_';
    }
    to[n] = '\0';
}

/* MODEL-POLICY, and the largest N of the folders PREFIX-N in runs/; 0 when there is none. */
static void run_prefix(char to[PREFIX_BYTES], const char *model, const char *policy)
{
    char a[WORD_BYTES], b[WORD_BYTES];
    word(a, model);
    word(b, policy);
    snprintf(to, PREFIX_BYTES, "%s-%s", a, b);
}

static dt_status run_last(long *last, const char *prefix, dt_err *err)
{
    const size_t n = strlen(prefix);
    const char *name;
    *last = 0;
    DIR *dir = opendir(RUNS);
    if (dir == NULL && (errno == ENOENT || errno == ENOTDIR)) /* who makes one there tells more */
        return DT_OK;
    if (dir == NULL)
        return DT_FAIL(err, DT_E_IO, "open folder '" RUNS "': %s", strerror(errno));
    dt_status st;
    while ((st = dt_next_name(&name, dir, RUNS, err)) == DT_OK && name != NULL) {
        if (strncmp(name, prefix, n) != 0 || name[n] != '-')
            continue;
        const long number = strtol(name + n + 1, NULL, 10);
        if (number > *last && number < MOST_NUMBER)
            *last = number;
    }
    closedir(dir);
    return st;
}

static dt_status cannot_make(const char *what, const char *path, dt_err *err)
{
    return DT_FAIL(err, DT_E_IO, "make %s '%s': %s; set run.dir to a folder that can be made", what,
        path, strerror(errno));
}

/* ---- claiming a folder ---- */

/* runs/MODEL-POLICY-N: mkdir decides between processes that want the same number. */
static dt_status claim_next(dt_run_dir *d, const char *model, const char *policy, dt_err *err)
{
    char prefix[PREFIX_BYTES], path[sizeof prefix + 32];
    run_prefix(prefix, model, policy);
    if (mkdir(RUNS, 0777) != 0 && errno != EEXIST)
        return cannot_make("run directory", RUNS, err);
    long last;
    DT_CHECK(run_last(&last, prefix, err));
    for (long n = last + 1;; n++) {
        snprintf(path, sizeof path, RUNS "/%s-%ld", prefix, n);
        d->made = mkdir(path, 0777) == 0;
        if (d->made)
            break;
        if (errno != EEXIST)
            return cannot_make("run directory", path, err);
    }
    d->path = dt_strdup(path);
    return d->path != NULL ? DT_OK : run_no_memory(err);
}

static dt_status run_look(const char *path, content *c, dt_err *err)
{
    *c = (content){0};
    DIR *dir = opendir(path);
    if (dir == NULL)
        return DT_FAIL(err, DT_E_IO, "open run directory '%s': %s", path, strerror(errno));
    dt_status st;
    const char *name;
    while ((st = dt_next_name(&name, dir, path, err)) == DT_OK && name != NULL) {
        if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
            continue;
        c->run |= strcmp(name, "config.ini") == 0 || strcmp(name, "metrics.jsonl") == 0 ||
                  strcmp(name, "lock") == 0;
        c->any |= strcmp(name, "lock") != 0;
    }
    closedir(dir);
    return st;
}

static dt_status run_used(const char *path, const content *c, dt_err *err)
{
    char holder[LOCK_TEXT];
    const bool held = lock_held(path, holder);
    if (held)
        return DT_FAIL(err, DT_E_BUSY,
            "run directory '%s' is in use by %s; set run.dir to another folder", path, holder);
    if (!c->run)
        return DT_FAIL(err, DT_E_BUSY,
            "run directory '%s' holds files that are no run's; set run.dir to another folder",
            path);
    if (*holder != '\0')
        return DT_FAIL(err, DT_E_BUSY,
            "run directory '%s' holds a run that did not finish (%s is gone); set run.dir to "
            "another folder, or run.overwrite = on to move it aside",
            path, holder);
    return DT_FAIL(err, DT_E_BUSY,
        "run directory '%s' holds a run; set run.dir to another folder, or run.overwrite = on to "
        "move it aside",
        path);
}

/* Rename to the next free PATH.old-K: an empty folder of that name is made, which only one process
 * can, and replaced. */
static dt_status move_aside(dt_run_dir *d, dt_err *err)
{
    const size_t room = strlen(d->path) + OLD_BYTES;
    d->moved = dt_alloc(room, 1);
    if (d->moved == NULL)
        return run_no_memory(err);
    for (long k = 1;; k++) {
        snprintf(d->moved, room, "%s.old-%ld", d->path, k);
        if (mkdir(d->moved, 0777) == 0)
            break;
        if (errno != EEXIST)
            return DT_FAIL(err, DT_E_IO, "make folder '%s': %s", d->moved, strerror(errno));
    }
    if (dt_io->rename(d->path, d->moved) == 0)
        return DT_OK;
    const dt_status st =
        DT_FAIL(err, DT_E_IO, "move '%s' to '%s': %s", d->path, d->moved, strerror(errno));
    (void)rmdir(d->moved);
    return st;
}

/* Holding its lock proves that the run in it is over. */
static dt_status replace_old(dt_run_dir *d, dt_err *err)
{
    int lock;
    DT_CHECK(lock_take(&lock, d->path, err));
    const dt_status st = move_aside(d, err);
    lock_drop(lock, st == DT_OK ? d->moved : d->path);
    DT_CHECK(st);
    d->made = mkdir(d->path, 0777) == 0;
    return d->made ? DT_OK : cannot_make("run directory", d->path, err);
}

static dt_status claim_given(dt_run_dir *d, const dt_dir_opts *o, dt_err *err)
{
    d->path = dt_strdup(o->dir);
    if (d->path == NULL)
        return run_no_memory(err);
    for (size_t n = strlen(d->path); n > 1 && d->path[n - 1] == '/'; n--)
        d->path[n - 1] = '\0';
    DT_TRY(err, dt_make_above(d->path, err), "set run.dir to a folder that can be made");
    d->made = mkdir(d->path, 0777) == 0;
    if (d->made)
        return DT_OK;
    if (errno != EEXIST)
        return cannot_make("run directory", d->path, err);
    struct stat st;
    if (stat(d->path, &st) != 0 || !S_ISDIR(st.st_mode))
        return DT_FAIL(
            err, DT_E_IO, "run directory '%s' is no folder; set run.dir to another name", d->path);
    content c;
    DT_CHECK(run_look(d->path, &c, err));
    if (!c.any)
        return DT_OK;
    return o->overwrite && c.run ? replace_old(d, err) : run_used(d->path, &c, err);
}

/* Between the first look and the lock another process may have been here, from start to end. */
static dt_status take(dt_run_dir *d, dt_err *err)
{
    content c;
    DT_CHECK(lock_take(&d->lock, d->path, err));
    DT_CHECK(run_look(d->path, &c, err));
    if (c.any)
        return DT_FAIL(err, DT_E_BUSY,
            "run directory '%s' was used by another process just now; set run.dir to another "
            "folder",
            d->path);
    return DT_OK;
}

/* ---- trying it out ---- */

/* Write and rename a file in the folder; where a run goes on, sync it as well. */
static dt_status run_probe(dt_run_dir *d, dt_err *err)
{
    dt_file_writer *w = NULL;
    const char *path = dti_run_dir_file(d, "probe");
    dt_status st = dt_writer_open(&w, path, err);
    if (st == DT_OK) {
        st = dt_writer_put(w, "probe\n", 6, err);
        if (st == DT_OK)
            st = d->begins ? dt_writer_rename(w, err) : dt_writer_commit(w, err);
        else
            dt_writer_abandon(w);
        (void)dt_io->unlink(path);
    }
    DT_TRY(err, st, "run directory '%s' cannot be written; set run.dir to another folder", d->path);
    return DT_OK;
}

static dt_status begin(dt_run_dir *d, dt_err *err)
{
    DT_CHECK(run_probe(d, err));
    if (mkdir(dti_run_dir_file(d, "checkpoints"), 0777) != 0)
        return cannot_make("folder", dti_run_dir_file(d, "checkpoints"), err);
    const dt_status st = metrics_open(d, false, err);
    if (st != DT_OK)
        (void)rmdir(dti_run_dir_file(d, "checkpoints"));
    return st;
}

/* The folder has its name: hold on to it, and make room for the names of its files. */
static dt_status run_named(dt_run_dir *d, dt_err *err)
{
    d->file = dt_alloc(strlen(d->path) + FILE_NAME_BYTES, 1);
    if (d->file == NULL)
        return run_no_memory(err);
    d->folder = open(d->path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    return d->folder >= 0
               ? DT_OK
               : DT_FAIL(err, DT_E_IO, "open run directory '%s': %s", d->path, strerror(errno));
}

static bool is_folder(const dt_run_dir *d, const char *path)
{
    struct stat a, b;
    return fstat(d->folder, &a) == 0 && stat(path, &b) == 0 && a.st_ino == b.st_ino &&
           a.st_dev == b.st_dev;
}

/* A path by which the folder is known now, in place of the one that it had. Without memory the old
 * one stays, and what is written by it fails, or shows. */
static void rename_to(dt_run_dir *d, const char *path)
{
    char *now = dt_strdup(path);
    char *file = dt_alloc(strlen(path) + FILE_NAME_BYTES, 1);
    if (now == NULL || file == NULL ||
        !dt_grow((void **)&d->older, &d->cap_older, d->n_older + 1, sizeof *d->older)) {
        dt_free(now);
        dt_free(file);
        return;
    }
    d->older[d->n_older++] = d->path;
    d->older[d->n_older++] = d->file;
    d->path = now;
    d->file = file;
}

/* Whether the folder is still where its files are looked for. One that was moved meanwhile is
 * followed, so that nothing is written into another that has taken its place. */
static bool follow(dt_run_dir *d)
{
    char link[64], path[4096];
    if (is_folder(d, d->path))
        return true;
    snprintf(link, sizeof link, "/proc/self/fd/%d", d->folder);
    const ssize_t n = readlink(link, path, sizeof path - 1);
    path[n > 0 ? n : 0] = '\0';
    if (n <= 0 || !is_folder(d, path))
        return false;
    rename_to(d, path);
    return strcmp(d->path, path) == 0;
}

dt_status dt_run_dir_there(dt_run_dir *d, dt_err *err)
{
    if (follow(d))
        return DT_OK;
    return DT_FAIL(err, DT_E_IO, "run directory '%s' was removed while the run went on", d->path);
}

static dt_status prepare(dt_run_dir *d, dt_err *err)
{
    DT_CHECK(run_named(d, err));
    DT_CHECK(take(d, err));
    return begin(d, err);
}

/* Leave nothing of ours where nothing was. */
static void undo(dt_run_dir *d)
{
    lock_drop(d->lock, d->path);
    d->lock = -1;
    if (d->made)
        (void)rmdir(d->path);
}

dt_status dti_run_dir_open(
    dt_run_dir **out, const dt_dir_opts *o, const char *model, const char *policy, dt_err *err)
{
    *out = NULL;
    dt_run_dir *d = dt_alloc(1, sizeof *d);
    if (d == NULL)
        return run_no_memory(err);
    d->lock = d->metrics = d->folder = -1;
    d->begins = true;
    dt_status st = o->dir != NULL ? claim_given(d, o, err) : claim_next(d, model, policy, err);
    if (st == DT_OK)
        st = prepare(d, err);
    if (st != DT_OK) {
        undo(d);
        dti_run_dir_close(d);
        return st;
    }
    *out = d;
    return DT_OK;
}

void dti_run_dir_close(dt_run_dir *d)
{
    if (d == NULL)
        return;
    metrics_close(d);
    if (d->folder >= 0)
        (void)follow(d);
    lock_drop(d->lock, d->path);
    if (d->folder >= 0)
        (void)close(d->folder);
    for (size_t i = 0; i < d->n_older; i++)
        dt_free(d->older[i]);
    dt_free(d->older);
    dt_free(d->path);
    dt_free(d->file);
    dt_free(d->moved);
    dt_free(d);
}

void dti_run_dir_discard(dt_run_dir *d)
{
    static const char *const ours[] = {
        "config.ini", "env.json", "plan.txt", "metrics.jsonl", "summary.json", DT_RUN_WEIGHTS};
    if (!follow(d))
        return;
    metrics_close(d);
    for (size_t i = 0; i < DT_COUNT(ours); i++)
        (void)dt_io->unlink(dti_run_dir_file(d, ours[i]));
    (void)rmdir(dti_run_dir_file(d, DT_RUN_CHECKPOINTS));
    undo(d);
}

const char *dt_run_dir_path(const dt_run_dir *d)
{
    return d->path;
}

const char *dt_run_dir_moved(const dt_run_dir *d)
{
    return d->moved;
}

const char *dti_run_dir_file(dt_run_dir *d, const char *name)
{
    const size_t room = strlen(d->path) + FILE_NAME_BYTES;
    const int n = snprintf(d->file, room, "%s/%s", d->path, name);
    DT_ASSERT(n > 0 && (size_t)n < room);
    return d->file;
}

/* ---- going on with the run that a folder holds ---- */

#define CUT_NAME "metrics.cut.jsonl"

enum { LINE_BYTES = 4096 };

dt_status dti_run_dir_newest(char **out, const char *model, const char *policy, dt_err *err)
{
    char prefix[PREFIX_BYTES], path[sizeof prefix + 32];
    *out = NULL;
    run_prefix(prefix, model, policy);
    long n;
    DT_CHECK(run_last(&n, prefix, err));
    if (n == 0)
        return DT_OK;
    snprintf(path, sizeof path, RUNS "/%s-%ld", prefix, n);
    *out = dt_strdup(path);
    return *out != NULL ? DT_OK : run_no_memory(err);
}

dt_status dti_run_dir_holds(const char *dir, bool *any, bool *run, dt_err *err)
{
    struct stat st;
    *any = *run = false;
    if (stat(dir, &st) != 0 || !S_ISDIR(st.st_mode))
        return DT_OK; /* what else is wrong shows when it is opened */
    content c;
    DT_CHECK(run_look(dir, &c, err));
    *any = c.any;
    *run = c.run;
    return DT_OK;
}

/* A run that was killed early may have none yet; links are not followed. */
static dt_status check_content(dt_run_dir *d, dt_err *err)
{
    struct stat st;
    const char *path = dti_run_dir_file(d, DT_RUN_CHECKPOINTS);
    if (lstat(path, &st) == 0 && !S_ISDIR(st.st_mode))
        return DT_FAIL(err, DT_E_IO, "'%s' is no folder", path);
    path = dti_run_dir_file(d, "metrics.jsonl");
    if (lstat(path, &st) == 0 && !S_ISREG(st.st_mode))
        return DT_FAIL(err, DT_E_IO, "'%s' is no regular file", path);
    return DT_OK;
}

static dt_status need_checkpoints(dt_run_dir *d, dt_err *err)
{
    const char *path = dti_run_dir_file(d, DT_RUN_CHECKPOINTS);
    return mkdir(path, 0777) == 0 || errno == EEXIST
               ? DT_OK
               : DT_FAIL(err, DT_E_IO, "make folder '%s': %s", path, strerror(errno));
}

/* Files that a process which is gone was writing. */
static void remove_leftovers(const dt_run_dir *d)
{
    DIR *dir = opendir(d->path);
    const int fd = dir != NULL ? dirfd(dir) : -1;
    for (const struct dirent *e; dir != NULL && (e = readdir(dir)) != NULL;)
        if (dt_is_temporary(e->d_name))
            (void)unlinkat(fd, e->d_name, 0);
    if (dir != NULL)
        closedir(dir);
}

static dt_status open_metrics(dt_run_dir *d, dt_err *err)
{
    struct stat st;
    DT_CHECK(metrics_open(d, true, err));
    if (fstat(d->metrics, &st) != 0 || !S_ISREG(st.st_mode))
        return DT_FAIL(
            err, DT_E_IO, "'%s' is no regular file", dti_run_dir_file(d, "metrics.jsonl"));
    d->metrics_bytes = st.st_size;
    return DT_OK;
}

static dt_status claim(dt_run_dir *d, const char *dir, dt_err *err)
{
    d->path = dt_strdup(dir);
    if (d->path == NULL)
        return run_no_memory(err);
    for (size_t n = strlen(d->path); n > 1 && d->path[n - 1] == '/'; n--)
        d->path[n - 1] = '\0';
    DT_CHECK(run_named(d, err));
    content c;
    DT_CHECK(run_look(d->path, &c, err));
    if (!c.run)
        return DT_FAIL(err, DT_E_CONFIG,
            "'%s' holds no run; name a run directory or one of its checkpoints", d->path);
    DT_CHECK(lock_take(&d->lock, d->path, err));
    DT_CHECK(check_content(d, err));
    return run_probe(d, err);
}

dt_status dti_run_dir_continue(dt_run_dir **out, const char *dir, dt_err *err)
{
    *out = NULL;
    dt_run_dir *d = dt_alloc(1, sizeof *d);
    if (d == NULL)
        return run_no_memory(err);
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
    const char *path = dti_run_dir_file(d, "metrics.jsonl");
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
    const bool failed = ferror(f) != 0;
    fclose(f);
    return failed ? DT_FAIL(err, DT_E_IO, "read '%s': %s", path, strerror(errno)) : DT_OK;
}

/* Append bytes of metrics.jsonl from @at on to the file of what was cut. */
static dt_status set_aside(dt_run_dir *d, off_t at, dt_err *err)
{
    char piece[LINE_BYTES];
    const char *path = dti_run_dir_file(d, CUT_NAME);
    const int fd = dt_open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0666);
    struct stat st = {0};
    if (fd < 0)
        return DT_FAIL(err, DT_E_IO, "create '%s': %s", path, strerror(errno));
    dt_status s = DT_OK;
    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode))
        s = DT_FAIL(err, DT_E_IO, "'%s' is no regular file", path);
    for (off_t to = st.st_size; at < d->metrics_bytes && s == DT_OK;) {
        const off_t left = d->metrics_bytes - at;
        const size_t n = left < LINE_BYTES ? (size_t)left : LINE_BYTES;
        s = dt_read_at(d->metrics, "metrics.jsonl", piece, n, at, err);
        if (s == DT_OK)
            s = dt_write_at(fd, path, piece, n, to, err);
        at += (off_t)n;
        to += (off_t)n;
    }
    if (s == DT_OK && dt_io->fsync(fd) != 0)
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
            err, DT_E_IO, "cut '%s': %s", dti_run_dir_file(d, "metrics.jsonl"), strerror(errno));
    d->metrics_bytes = keep;
    return DT_OK;
}
