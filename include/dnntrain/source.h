/* Data from outside: samples that the host program has, in its memory or wherever it likes. A
 * source is registered once, before a run that names it is opened, and is then a name like any
 * other in [data] source. */
#ifndef DNNTRAIN_SOURCE_H
#define DNNTRAIN_SOURCE_H

#include <dnntrain/error.h>

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { DT_OUTSIDE_SOURCES = 8 }; /* at most, in all */
enum { DT_NO_LABEL = -1 };       /* of what does not count: neither loss, hit nor miss */
#define DT_MOST_SAMPLES INT64_C(1000000000000000) /* what has no end says that it has so many */

/* What the loss of a network learns from: a class for each row of scores; or, of mse, l1, smooth_l1
 * and bce, a value for each that the network gives, which of bce is from 0 to 1. */
typedef enum dt_learned { DT_LEARNS_CLASSES, DT_LEARNS_VALUES, DT_LEARNS_PROBABILITIES } dt_learned;

/**
 * struct dt_samples - what a run asks a source for.
 * @h @w @c:   of a sample, as the network takes it: rows by columns by channels, channels innermost
 *             (NHWC). Of a network of tokens h whole numbers, and w = c = 1
 * @classes:   a label is in [0, classes), or DT_NO_LABEL
 * @labels:    of a sample: 1, or one for each pixel, row after row, or for each position
 * @held_out:  the samples to evaluate on, and not those to train on
 * @path:      data.path, or data.eval_path of those held out; NULL where none is given
 * @learns:    other than classes only for a source that gives values: then a sample has @labels of
 *             them, which are put as floats to where labels go, in rows, columns and channels; a
 *             NaN does not count, and @classes means nothing
 */
typedef struct dt_samples {
    int64_t h, w, c;
    int64_t classes, labels;
    bool held_out;
    const char *path;
    dt_learned learns;
} dt_samples;

/**
 * struct dt_source_spec - a source.
 * @name:  in [data] source: a-z, 0-9 and _; none that there is
 * @self:  handed to both functions; its samples stay as they are while a run is open
 * @count: *n: how many samples there are, 1 to DT_MOST_SAMPLES; where 0 are held out, nothing is
 *         evaluated. DT_E_CONFIG for a shape or classes that it cannot give, DT_E_DATA for what is
 *         wrong with the data; with a note in @err
 * @read:  sample @i, from 0 on: its h * w * c values to @x, as they go into the network, and its
 *         labels to @label, or its values: memcpy(label, values, labels * sizeof(float)). The same
 *         each time; from any thread, from several at once.
 *         DT_E_DATA, with a note that names it, for one that is bad, which data.on_error = skip
 *         leaves out
 *
 * @values: it gives values where dt_samples.learns asks for some; without, a network that learns
 *         values is refused
 *
 * Of both @err may be NULL, which DT_FAIL takes. What a run takes from it is shuffled as [data]
 * says, and read ahead by a thread of the run. data.mean, data.std and data.augment count for
 * nothing.
 */
typedef struct dt_source_spec {
    const char *name, *summary;
    void *self;
    dt_status (*count)(void *self, const dt_samples *s, int64_t *n, dt_err *err);
    dt_status (*read)(
        void *self, const dt_samples *s, int64_t i, float *x, int32_t *label, dt_err *err);
    bool values;
} dt_source_spec;

/* For the life of the process; texts that @s names, and @self, must live as long. From any thread,
 * also while runs are open: it is there for those that are opened afterwards. DT_E_CONFIG for a
 * name that is taken or none, for what is missing, and for one source too many. */
DT_API dt_status dt_register_source(const dt_source_spec *s, dt_err *err) DT_NODISCARD;

#ifdef __cplusplus
}
#endif

#endif
