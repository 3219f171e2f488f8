/* Files that are written whole or not at all: the configuration, facts, the summary. */
#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/alloc.h"
#include "engine/base/io.h"
#include "engine/base/json.h"
#include "engine/base/json_write.h"
#include "engine/base/memory_stream.h"
#include "engine/base/numbers_text.h"
#include "session/environment.h"
#include "session/run_dir/run_dir_internal.h"

/* What a run writes before its first step. That waits for no disk: until a run has made a step
 * there is nothing to lose, and dti_run_dir_settle syncs all of them at once. */
static const char *const of_beginning[] = {DT_RUN_CONFIG, DT_RUN_ENV, DT_RUN_PLAN, DT_RUN_CLASSES};

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
        st = dt_sync_path(dti_run_dir_file(d, "."), err); /* also where a link leads to it */
    DT_TRY(err, st, "run directory '%s' cannot be written; set run.dir to another folder", d->path);
    return DT_OK;
}

dt_status dti_run_dir_write(
    dt_run_dir *d, const char *name, dti_run_dir_printer *print, const void *arg, dt_err *err)
{
    dt_memory_stream text;
    DT_CHECK(dt_memory_open(&text, name, err));
    DT_CHECK(dt_memory_close(&text, print(arg, text.f, err), err));
    const dt_status st = write_bytes(d, name, text.text, text.n, err);
    dt_free(text.text);
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
    return dti_run_dir_write(d, DT_RUN_CONFIG, print_config, c, err);
}

/* ---- JSON objects ---- */

/* NULL is left out. */
static void add_text(dt_json *j, const char *key, const char *value)
{
    if (value != NULL)
        dt_json_text(j, key, value);
}

const char *dti_real_text(char to[DTI_NUMBER_BYTES], double v)
{
    if (isfinite(v))
        dt_snprintf(to, DTI_NUMBER_BYTES, "%.9g", v);
    else
        snprintf(to, DTI_NUMBER_BYTES, "\"%s\"", isnan(v) ? "nan" : v > 0 ? "inf" : "-inf");
    return to;
}

static void add_real(dt_json *j, const char *key, double v)
{
    char text[DTI_NUMBER_BYTES];
    dt_json_raw(j, key, dti_real_text(text, v));
}

static void add_int(dt_json *j, const char *key, int64_t v)
{
    char text[DTI_NUMBER_BYTES];
    snprintf(text, sizeof text, "%" PRId64, v);
    dt_json_raw(j, key, text);
}

/* Write the object and forget it. */
static dt_status write_object(dt_run_dir *d, const char *name, dt_json *j, dt_err *err)
{
    char what[64], *text;
    snprintf(what, sizeof what, "'%s'", name);
    DT_CHECK(dt_json_end(j, &text, what, err));
    const size_t n = strlen(text);
    text[n] = '\n'; /* in place of the NUL: the length is known */
    const dt_status st = write_bytes(d, name, text, n + 1, err);
    cJSON_free(text);
    return st;
}

dt_status dti_run_dir_facts(dt_run_dir *d, const dti_run_facts *f, dt_err *err)
{
    char text[DT_FACT_BYTES];
    dt_json j = dt_json_begin();
    add_text(&j, "network", f->network);
    add_text(&j, "version", f->version);
    add_text(&j, "compiler", __VERSION__);
    add_text(&j, "library", f->library);
    add_text(&j, "device", f->device);
    add_text(&j, "cpu", dt_cpu_name(text));
    add_text(&j, "isa", f->isa);
    add_text(&j, "library_isa", f->library_isa);
    add_int(&j, "threads", f->threads);
    dt_json_whole(&j, "seed", f->seed);
    add_text(&j, "system", dt_system_name(text));
    add_text(&j, "started", dt_date(text));
    return write_object(d, DT_RUN_ENV, &j, err);
}

static bool is_plain(const char *name)
{
    static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-";
    return name[0] != '\0' && name[0] != '.' && name[strspn(name, plain)] == '\0';
}

/* The object of a file of a run; NULL where there is none that can be read. */
static cJSON *read_object(const char *folder, const char *name)
{
    enum { CAP = 65536, DEPTH = 4, VALUES = 128 };
    char path[4096], *text = NULL;
    size_t n = 0;
    cJSON *j = NULL;
    dt_err ignored = {0};
    if (snprintf(path, sizeof path, "%s/%s", folder, name) >= (int)sizeof path ||
        dt_read_file(&text, &n, path, CAP, DT_E_DATA, &ignored) != DT_OK)
        return NULL;
    if (dt_json_parse(&j, text, n, DEPTH, VALUES, &ignored) != DT_OK)
        j = NULL;
    dt_free(text);
    return j;
}

bool dti_run_dir_network(const char *folder, char *to, size_t bytes)
{
    cJSON *j = read_object(folder, DT_RUN_ENV);
    const cJSON *name = cJSON_GetObjectItemCaseSensitive(j, "network");
    const bool found =
        cJSON_IsString(name) && is_plain(name->valuestring) && strlen(name->valuestring) < bytes;
    if (found)
        snprintf(to, bytes, "%s", name->valuestring);
    cJSON_Delete(j);
    return found;
}

int64_t dt_run_dir_weights_step(const char *folder)
{
    cJSON *j = read_object(folder, DT_RUN_SUMMARY);
    uint64_t steps;
    const cJSON *of = cJSON_GetObjectItemCaseSensitive(j, "weights_step");
    if (of == NULL) /* as older versions leave it */
        of = cJSON_GetObjectItemCaseSensitive(j, "steps");
    const bool told = dt_json_natural(of, &steps);
    cJSON_Delete(j);
    return told ? (int64_t)steps : -1;
}

dt_run_best dt_run_dir_best(const char *folder)
{
    dt_run_best b = {0};
    uint64_t step;
    cJSON *j = read_object(folder, DT_RUN_SUMMARY);
    const cJSON *loss = cJSON_GetObjectItemCaseSensitive(j, "best_loss");
    const cJSON *top1 = cJSON_GetObjectItemCaseSensitive(j, "best_top1");
    const cJSON *value = cJSON_IsNumber(loss) ? loss : top1;
    if (cJSON_IsNumber(value) &&
        dt_json_natural(cJSON_GetObjectItemCaseSensitive(j, "best_step"), &step))
        b = (dt_run_best){
            (int64_t)step, value == loss ? DT_BEST_LOSS : DT_BEST_TOP1, value->valuedouble};
    cJSON_Delete(j);
    return b;
}

/* ---- summary ---- */

const char *dt_run_word(dt_status s)
{
    return s == DT_OK ? "done" : s == DT_E_STOPPED ? "stopped" : "failed";
}

static void add_what(dt_json *j, const dti_run_summary *s)
{
    add_text(j, "status", dt_run_word(s->status));
    add_int(j, "exit_code", s->status);
    add_text(j, "error", s->error);
    add_text(j, "model", s->model);
    add_int(j, "parameters", s->parameters);
    add_text(j, "policy", s->policy);
    if (s->chosen_by != NULL)
        add_text(j, "chosen_by", s->chosen_by);
    dt_json_flag(j, "exact", s->exact);
    add_text(j, "pool", s->pool);
    add_text(j, "precision", s->precision);
    add_text(j, "device", s->device);
    add_text(j, "isa", s->isa);
    add_text(j, "library_isa", s->library_isa);
    add_int(j, "threads", s->threads);
    add_int(j, "batch", s->batch);
    add_int(j, "micro_batch", s->micro_batch);
}

static void add_course(dt_json *j, const dti_run_summary *s)
{
    add_int(j, "steps", s->steps);
    add_int(j, "steps_planned", s->steps_planned);
    if (s->weights_step >= 0)
        add_int(j, "weights_step", s->weights_step);
    else
        dt_json_null(j, "weights_step");
    add_int(j, "epochs", s->epochs);
    add_int(j, "samples", s->samples);
    add_int(j, "samples_skipped", s->skipped);
    add_real(j, "seconds", s->seconds);
    if (s->steps > 0 && !isnan(s->images_per_second))
        add_real(j, "images_per_second", s->images_per_second);
    else
        dt_json_null(j, "images_per_second");
    if (s->steps > 0) {
        add_real(j, "first_loss", s->first_loss);
        add_real(j, "final_loss", s->final_loss);
    } else {
        dt_json_null(j, "first_loss");
        dt_json_null(j, "final_loss");
    }
    if (s->best.step > 0) {
        add_int(j, "best_step", s->best.step);
        add_real(j, s->best.by == DT_BEST_LOSS ? "best_loss" : "best_top1", s->best.value);
    }
    if (s->eval == NULL)
        return;
    add_int(j, "eval_step", s->eval->step);
    add_int(j, "eval_samples", s->eval->samples);
    add_real(j, "eval_loss", s->eval->loss);
    if (!s->eval->values) {
        add_real(j, "eval_top1", s->eval->top1);
        add_real(j, "eval_top5", s->eval->top5);
    }
    if (s->eval->probabilities)
        add_real(j, "eval_accuracy", s->eval->accuracy);
    if (s->eval->pixels && !isnan(s->eval->mean_iou))
        add_real(j, "eval_mean_iou", s->eval->mean_iou);
}

static void add_memory(dt_json *j, const dti_run_summary *s)
{
    if (s->device_budget > 0)
        dt_json_whole(j, "device_budget", s->device_budget);
    else
        dt_json_null(j, "device_budget");
    dt_json_whole(j, "device_peak_planned", s->device_peak_planned);
    if (s->device_peak_measured > 0)
        dt_json_whole(j, "device_peak_measured", s->device_peak_measured);
    else
        dt_json_null(j, "device_peak_measured");
    dt_json_whole(j, "host_peak_planned", s->host_peak_planned);
    dt_json_whole(j, "disk_peak_planned", s->disk_peak_planned);
    if (s->moved != NULL) {
        dt_json_whole(j, "moved_out_host", s->moved->out[DT_TIER_HOST]);
        dt_json_whole(j, "moved_out_disk", s->moved->out[DT_TIER_DISK]);
        dt_json_whole(j, "moved_in_host", s->moved->in[DT_TIER_HOST]);
        dt_json_whole(j, "moved_in_disk", s->moved->in[DT_TIER_DISK]);
        add_real(j, "copy_seconds", s->moved->copy_seconds);
        add_real(j, "stall_seconds", s->moved->stall_seconds);
    }
    dt_json_whole(j, "steps_rerun", (uint64_t)s->reruns);
    dt_json_whole(j, "process_peak", s->process_peak);
    dt_json_whole(j, "outside_arena_bytes", s->outside_arena_bytes);
}

dt_status dti_run_dir_summary(dt_run_dir *d, const dti_run_summary *s, dt_err *err)
{
    char date[DT_FACT_BYTES];
    DT_CHECK(dti_run_dir_settle(d, err));
    dti_metrics_look(d);
    dt_json j = dt_json_begin();
    add_what(&j, s);
    add_course(&j, s);
    add_memory(&j, s);
    dt_json_whole(&j, "metrics_lost", d->lost);
    add_text(&j, "run_dir", d->path);
    add_text(&j, "finished", dt_date(date));
    return write_object(d, DT_RUN_SUMMARY, &j, err);
}
