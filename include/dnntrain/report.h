/* What a run reports of its steps and evaluations. */
#ifndef DNNTRAIN_REPORT_H
#define DNNTRAIN_REPORT_H

#include <stdbool.h>
#include <stdint.h>

typedef struct dt_step_report {
    int64_t step, steps; /* done so far, counted from 1; to do in all */
    int64_t epoch;       /* from 0 */
    int64_t samples;     /* of this step */
    double loss;         /* mean over the step's samples */
    double lr;
    bool clips;                        /* gradients are clipped ... */
    double grad_norm;                  /* ... which had this norm together; otherwise 0 */
    double step_seconds, wait_seconds; /* of this step; of it, waiting for data */
    bool again;                        /* packed values did not fit: it was run a second time */
} dt_step_report;

/* Where every pixel has a class, top1 and top5 count pixels, and mean_iou is the mean over classes
 * of intersection over union: pixels rightly of a class, over those labelled or predicted with it,
 * in [0, 1]. Classes that occur in neither are left out.
 *
 * Where the loss is of values, as mse is, there is no class to tell. Of bce, accuracy is the share
 * of outputs whose sigmoid and label are on the same side of 0.5, in [0, 1]. */
typedef struct dt_eval_report {
    int64_t step, epoch, samples;
    double loss, top1, top5; /* means; top1 and top5 in [0, 1] */
    bool pixels;             /* else there is no mean_iou */
    double mean_iou;
    double seconds;
    bool values;        /* then there are no top1 and top5 */
    bool probabilities; /* else there is no accuracy */
    double accuracy;
} dt_eval_report;

#endif
