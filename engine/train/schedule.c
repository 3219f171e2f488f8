/* What a step is told by its number: how samples are cut into batches, the learning rate; and the
 * factor by which gradients are clipped. */
#include <math.h>

#include "engine/train.h"

dt_batches dt_batches_of(int64_t samples, int64_t size)
{
    const int64_t full = samples / size, rest = samples % size;
    return (dt_batches){full + (rest > 0), rest > 0 || full == 0 ? rest : size, rest};
}

static double step_down(const dt_train_opts *o, int64_t epoch)
{
    double lr = o->lr;
    for (int i = 0; o->schedule == DT_SCHEDULE_STEP && i < o->n_milestone; i++)
        if (epoch >= o->milestone[i])
            lr *= o->gamma;
    return lr;
}

double dti_learning_rate(
    const dt_train_opts *o, int64_t step, int64_t steps, int64_t steps_per_epoch)
{
    const double pi = 3.14159265358979323846;
    const double warm =
        (double)o->warmup_steps + (double)o->warmup_epochs * (double)steps_per_epoch;
    const double at = (double)step, all = (double)steps;
    double lr = step_down(o, step / steps_per_epoch);
    if (dti_schedule_falls(o) && at > warm) { /* so all > warm as well */
        const double gone = (at - warm) / (all - warm);
        const double left = o->schedule == DT_SCHEDULE_LINEAR ? 1 - gone : (1 + cos(pi * gone)) / 2;
        lr = o->final_lr + (lr - o->final_lr) * left;
    }
    return at < warm ? lr * (at + 1) / warm : lr;
}

double dti_clip_factor(double norm, double most)
{
    const double factor = most / (norm + 1e-6);
    return factor < 1 ? factor : 1;
}
