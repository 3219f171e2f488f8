/* metrics.jsonl: a line a step and one an evaluation, at once. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/base/io.h"
#include "session/run_dir/run_dir_internal.h"

dt_status dti_metrics_open(dt_run_dir *d, bool go_on, dt_err *err)
{
    const char *path = dti_run_dir_file(d, DT_RUN_METRICS);
    const int how = go_on ? O_RDWR | O_NOFOLLOW | O_NONBLOCK : O_WRONLY | O_EXCL;
    d->metrics = dt_open(path, how | O_CREAT | O_CLOEXEC, 0666);
    if (d->metrics < 0)
        return DT_FAIL(err, DT_E_IO, "create '%s': %s", path, strerror(errno));
    return DT_OK;
}

void dti_metrics_close(dt_run_dir *d)
{
    if (d->metrics < 0)
        return;
    if (d->lost > 0 && ftruncate(d->metrics, (off_t)d->metrics_bytes) != 0)
        d->lost++;
    dti_run_dir_sync(d);
    if (d->metrics >= 0)
        (void)dt_close(d->metrics);
    d->metrics = -1;
}

void dti_metrics_look(dt_run_dir *d)
{
    struct stat ours, there;
    if (d->metrics < 0 ||
        (fstat(d->metrics, &ours) == 0 &&
            fstatat(d->folder, DT_RUN_METRICS, &there, AT_SYMLINK_NOFOLLOW) == 0 &&
            ours.st_ino == there.st_ino && ours.st_dev == there.st_dev))
        return;
    if (d->lost == 0 && d->lines > 0)
        (void)DT_FAIL(
            &d->why, DT_E_IO, "'" DT_RUN_METRICS "' was removed or replaced while the run went on");
    d->lost += d->lines;
    d->lines = 0;
    d->metrics_bytes = 0;
    (void)dt_close(d->metrics);
    d->metrics = -1;
}

/* Lines that the disk did not take are lost, however many they are. */
void dti_run_dir_sync(dt_run_dir *d)
{
    dti_metrics_look(d);
    if (d->metrics < 0 || dt_sync(d->metrics) == 0)
        return;
    const int error = errno;
    if (d->lost++ == 0)
        (void)DT_FAIL(&d->why, DT_E_IO, "sync '" DT_RUN_METRICS "': %s", strerror(error));
}

/* In the folder itself, wherever that was moved to; what somebody put there stays. */
static dt_status begin_anew(dt_run_dir *d, dt_err *err)
{
    if (d->metrics < 0)
        d->metrics =
            openat(d->folder, DT_RUN_METRICS, O_WRONLY | O_EXCL | O_CREAT | O_CLOEXEC, 0666);
    return d->metrics >= 0
               ? DT_OK
               : DT_FAIL(err, DT_E_IO, "create '" DT_RUN_METRICS "': %s", strerror(errno));
}

static void append(dt_run_dir *d, const char *line, int n)
{
    dt_err *why = d->lost == 0 ? &d->why : NULL;
    if (begin_anew(d, why) != DT_OK || dt_write_at(d->metrics, DT_RUN_METRICS, line, (size_t)n,
                                           (off_t)d->metrics_bytes, why) != DT_OK) {
        d->lost++;
        return;
    }
    d->metrics_bytes += n;
    d->lines++;
}

void dti_run_dir_step(dt_run_dir *d, const dt_step_report *r)
{
    char line[512], loss[DTI_NUMBER_BYTES], lr[DTI_NUMBER_BYTES], rate[DTI_NUMBER_BYTES],
        time[DTI_NUMBER_BYTES];
    char norm[DTI_NUMBER_BYTES], clipped[DTI_NUMBER_BYTES + 32] = "", wait[DTI_NUMBER_BYTES];
    if (r->clips)
        snprintf(clipped, sizeof clipped, ", \"grad_norm\": %s", dti_real_text(norm, r->grad_norm));
    const int n = snprintf(line, sizeof line,
        "{\"step\": %" PRId64 ", \"epoch\": %" PRId64
        ", \"split\": \"train\", \"loss\": %s, \"lr\": %s%s, \"images_per_second\": %s, "
        "\"step_seconds\": %s, \"wait_seconds\": %s}\n",
        r->step, r->epoch, dti_real_text(loss, r->loss), dti_real_text(lr, r->lr), clipped,
        dti_real_text(rate, (double)r->samples / r->step_seconds),
        dti_real_text(time, r->step_seconds), dti_real_text(wait, r->wait_seconds));
    append(d, line, n);
}

void dti_run_dir_eval(dt_run_dir *d, const dt_eval_report *r)
{
    char line[512], number[DTI_NUMBER_BYTES], time[DTI_NUMBER_BYTES];
    const struct {
        bool told;
        const char *key;
        double value;
    } all[] = {{!r->values, "top1", r->top1}, {!r->values, "top5", r->top5},
        {r->pixels, "mean_iou", r->mean_iou}, {r->probabilities, "accuracy", r->accuracy}};
    int n = snprintf(line, sizeof line,
        "{\"step\": %" PRId64 ", \"epoch\": %" PRId64 ", \"split\": \"eval\", \"loss\": %s",
        r->step, r->epoch, dti_real_text(number, r->loss));
    for (size_t i = 0; i < DT_COUNT(all); i++)
        if (all[i].told)
            n += snprintf(line + n, sizeof line - (size_t)n, ", \"%s\": %s", all[i].key,
                dti_real_text(number, all[i].value));
    n += snprintf(line + n, sizeof line - (size_t)n,
        ", \"samples\": %" PRId64 ", \"seconds\": %s}\n", r->samples,
        dti_real_text(time, r->seconds));
    append(d, line, n);
}

uint64_t dt_run_dir_lost(const dt_run_dir *d, const char **why)
{
    if (why != NULL)
        *why = d->why.text;
    return d->lost;
}
