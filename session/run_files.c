/* The files of a run directory. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cjson/cJSON.h>

#include "engine/base/alloc.h"
#include "engine/base/io.h"
#include "engine/base/text.h"
#include "session/environment.h"
#include "session/run_dir_parts.h"

/* ---- whole files ---- */

static dt_status write_bytes(
    dt_run_dir *d, const char *name, const char *text, size_t n, dt_err *err)
{
    dt_file_writer *w;
    DT_CHECK(dt_run_dir_there(d, err));
    DT_CHECK(dt_writer_open(&w, dti_run_dir_file(d, name), err));
    const dt_status st = dt_writer_put(w, text, n, err);
    if (st == DT_OK)
        return dt_writer_commit(w, err);
    dt_writer_abandon(w);
    return st;
}

dt_status dti_run_dir_write(dt_run_dir *d, const char *name,
    void (*print)(const void *arg, FILE *f), const void *arg, dt_err *err)
{
    char *text = NULL;
    size_t n = 0;
    FILE *f = open_memstream(&text, &n);
    if (f == NULL)
        return DT_FAIL(err, DT_E_NOMEM, "no memory for '%s'", name);
    print(arg, f);
    const bool lost = ferror(f) != 0;
    dt_status st = DT_OK;
    if (fclose(f) != 0 || lost)
        st = DT_FAIL(err, DT_E_NOMEM, "no memory for '%s'", name);
    else
        st = write_bytes(d, name, text, n, err);
    free(text);
    return st;
}

static void print_config(const void *arg, FILE *f)
{
    dt_config_dump(arg, f);
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

dt_status dti_run_dir_facts(dt_run_dir *d, const dt_run_facts *f, dt_err *err)
{
    char text[DT_FACT_BYTES];
    object j = {.o = cJSON_CreateObject()};
    add_text(&j, "version", f->version);
    add_text(&j, "compiler", __VERSION__);
    add_text(&j, "library", f->library);
    add_text(&j, "device", f->device);
    add_text(&j, "cpu", dti_cpu_name(text));
    add_text(&j, "isa", f->isa);
    add_text(&j, "library_isa", f->library_isa);
    add_int(&j, "threads", f->threads);
    add_bytes(&j, "seed", f->seed);
    add_text(&j, "system", dti_system_name(text));
    add_text(&j, "started", dti_date(text));
    return write_object(d, "env.json", &j, err);
}

/* ---- summary ---- */

static const char *status_word(dt_status s)
{
    return s == DT_OK ? "done" : s == DT_E_STOPPED ? "stopped" : "failed";
}

static void add_what(object *j, const dt_run_summary *s)
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

static void add_course(object *j, const dt_run_summary *s)
{
    add_int(j, "steps", s->steps);
    add_int(j, "steps_planned", s->steps_planned);
    add_int(j, "epochs", s->epochs);
    add_int(j, "samples", s->samples);
    add_real(j, "seconds", s->seconds);
    if (s->steps > 0) {
        add_real(j, "images_per_second", s->images_per_second);
        add_real(j, "first_loss", s->first_loss);
        add_real(j, "final_loss", s->final_loss);
    } else {
        add_raw(j, "images_per_second", "null");
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
    if (s->eval->pixels)
        add_real(j, "eval_mean_iou", s->eval->mean_iou);
}

static void add_memory(object *j, const dt_run_summary *s)
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

dt_status dti_run_dir_summary(dt_run_dir *d, const dt_run_summary *s, dt_err *err)
{
    char date[DT_FACT_BYTES];
    object j = {.o = cJSON_CreateObject()};
    add_what(&j, s);
    add_course(&j, s);
    add_memory(&j, s);
    add_bytes(&j, "metrics_lost", d->lost);
    add_text(&j, "run_dir", d->path);
    add_text(&j, "finished", dti_date(date));
    return write_object(d, "summary.json", &j, err);
}

/* ---- metrics ---- */

dt_status dti_metrics_open(dt_run_dir *d, bool go_on, dt_err *err)
{
    const char *path = dti_run_dir_file(d, "metrics.jsonl");
    const int how = go_on ? O_RDWR | O_NOFOLLOW | O_NONBLOCK : O_WRONLY | O_EXCL;
    d->metrics = dt_open(path, how | O_CREAT | O_CLOEXEC, 0666);
    if (d->metrics < 0)
        return DT_FAIL(err, DT_E_IO, "create '%s': %s", path, strerror(errno));
    return DT_OK;
}

/* What a failed write may have left behind the last whole line goes. */
void dti_metrics_close(dt_run_dir *d)
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
    char norm[NUMBER_BYTES], clipped[NUMBER_BYTES + 32] = "";
    if (r->clips)
        snprintf(clipped, sizeof clipped, ", \"grad_norm\": %s", real_text(norm, r->grad_norm));
    const int n = snprintf(line, sizeof line,
        "{\"step\": %" PRId64 ", \"epoch\": %" PRId64
        ", \"split\": \"train\", \"loss\": %s, \"lr\": %s%s, \"images_per_second\": %s, "
        "\"step_seconds\": %s}\n",
        r->step, r->epoch, real_text(loss, r->loss), real_text(lr, r->lr), clipped,
        real_text(rate, (double)r->samples / r->step_seconds), real_text(time, r->step_seconds));
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
