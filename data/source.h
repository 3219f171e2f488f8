/* A data set: samples by index. A source is opened from its options, says how many samples it has
 * and of what shape, and reads any of them by number, from any thread, so that order, shuffling and
 * decoding ahead are one loader's business and not each source's. */
#ifndef DT_DATA_SOURCE_H
#define DT_DATA_SOURCE_H

#include <dnntrain/source.h>

#include "engine/base/error.h"
#include "engine/label.h"
#include "engine/shape.h"

typedef struct dt_source dt_source;

enum { DTI_SOURCE_SIDE = 16384 }; /* longest side of an image a network may take */

/* What a source is opened with; a subset of the [data] section and of the network's shape. The
 * pointers are borrowed until close. */
typedef struct dt_source_opts {
    const char *path;       /* file or folder; NULL for synthetic */
    const char *train_path; /* of the data that training takes, when path is another one only for
                               evaluation; else NULL, and "" when nothing
                               names them. text takes its vocabulary from there, images the
                               numbers of their classes */
    const char *vocab;      /* text: a file that names its tokens, as a run's classes.txt; NULL */
    dt_shape shape;         /* image the network takes, n = 1 */
    int64_t classes;        /* labels must lie in [0, classes) */
    int64_t labels; /* of a sample; 0 is 1. A sequence has one for each of its positions, and a
                       picture may have one for each pixel, row after row */
    bool tokens;    /* the image is a sequence of shape.h tokens, and no picture of one column */
    int64_t vocabulary;   /* of tensors: tokens are in [0, vocabulary); 0: no layer looks them up */
    int64_t ignore_label; /* of tensors: what it gives DT_LABEL_NONE for */
    dt_label_kind label_kind; /* other than classes only for a source that gives values */
    dt_shape values;          /* then: of the labels, n = 1; labels is how many these are */
    bool unlabelled;          /* nobody reads labels: any class will do */
    bool eval;                /* the held-out split, no augmentation */
    bool augment;             /* random crops and flips */
    int64_t cutout;           /* with augment, side of a square to cut out of pictures, in pixels */
    bool skip_bad;            /* on_error = skip */
    int64_t max_skips;        /* different bad samples left out before the run fails */
    /* Per channel (shape.c each), of values in [0, 1]. NULL: the source's own; images and cifar10
     * have ImageNet's, synthetic 0.5 and 0.25, idx none. tensors takes its values as they are. */
    const float *mean, *std;
    uint64_t seed;
    int64_t batch;   /* micro-batches per step aside: the step's batch; used by `tensors` */
    int64_t samples; /* synthetic: samples for training; evaluation has an eighth, at least 256 */
} dt_source_opts;

/**
 * struct dt_source_desc - a kind of source.
 * @made_up: reads no file, so data.path is for others
 * @path_optional: data.path may be left out
 * @augments: samples to train on are cropped and flipped, as [data] says
 * @fetched: (optional) what tools/get_data calls such data that it fetches
 * @gives_values: labels may be values
 * @open:  one of this kind, @d. DT_E_DATA names path, record and value; DT_E_CONFIG for a shape the
 * source cannot give
 * @count: samples, at least 1
 * @read:  sample @i into x (h*w*c floats, NHWC) and the opts.labels of it at label, each a class,
 * or as opts.label_kind says, or DT_LABEL_NONE. @key draws the augmentation: the same key, the same
 * bits. Thread-safe. DT_E_DATA for a bad sample
 * @check_learned: (optional, of a fixed order) whether there is something to learn in each batch of
 * the first @n samples. DT_E_DATA
 * @has_eval: (optional) whether a held-out split lies beside the training data, to be opened with
 * the same options and eval set; absent: it does not
 * @classes: (optional) how many classes occur
 * @class_name: (optional) what a label stands for, borrowed from the source; NULL: not known
 * @looks: (optional) whether what is at a path looks like data of this kind, by names alone
 * @holds: (optional) whether a file of such a name in the folder of data.path may be of the data
 * @describe: (optional) what was found, one line without a newline, cut to @n bytes
 */
typedef struct dt_source_desc {
    const char *name, *summary;
    bool made_up, path_optional, augments, gives_values;
    const char *fetched;
    dt_status (*open)(
        const struct dt_source_desc *d, dt_source **out, const dt_source_opts *o, dt_err *err);
    void (*close)(dt_source *s);
    int64_t (*count)(const dt_source *s);
    dt_status (*read)(
        const dt_source *s, int64_t i, uint64_t key, float *x, int32_t *label, dt_err *err);
    dt_status (*check_learned)(const dt_source *s, int64_t n, dt_err *err);
    bool (*has_eval)(const struct dt_source_desc *d, const dt_source_opts *o);
    int64_t (*classes)(const dt_source *s);
    const char *(*class_name)(const dt_source *s, int32_t label);
    bool (*looks)(const char *path);
    bool (*holds)(const char *name);
    void (*describe)(const dt_source *s, char *text, size_t n);
} dt_source_desc;

/* Every source begins with this.
 * @fixed_order: samples come in file order, never shuffled, and in the file's batches (tensors) */
struct dt_source {
    const dt_source_desc *desc;
    dt_source_opts opts;
    bool fixed_order;
};

/* The picture of a file, JPEG, PNG or BMP, as the source of pictures in folders gives it for
 * evaluation: h*w*c floats, NHWC. For a network that labels pixels it is stretched to what that
 * takes, and nothing is cut off. *h, *w: its own size. Of @o the path is not read. DT_E_DATA names
 * the file. */
dt_status dt_picture_read(const dt_source_opts *o, const char *path, float *x, int64_t *h,
    int64_t *w, dt_err *err) DT_NODISCARD;

/* data/sources.def holds a line a source. */
#define DT_SOURCE(name) extern const dt_source_desc dt_source_##name;
#include "data/sources.def"
#undef DT_SOURCE

#define DT_SOURCE(name) +1
enum {
    DT_OUR_SOURCES = 0
#include "data/sources.def"
    ,
    DT_SOURCES = DT_OUR_SOURCES + DT_OUTSIDE_SOURCES /* at most */
};
#undef DT_SOURCE

const dt_source_desc *const *dt_source_all(size_t *n);
const dt_source_desc *dt_source_find(const char *name); /* NULL if none */
/* The other source that what is at a path looks like, where one of its own fails to open it; NULL:
 * none, or no path. */
const dt_source_desc *dt_source_meant(const dt_source_desc *but, const char *path);
void dti_source_add(const dt_source_desc *d); /* from outside; the table has space */
/* Their names, NULL-terminated, for dt_unknown. Returns @to. */
const char *const *dt_source_names(const char *to[DT_SOURCES + 1]);

/* Whether the network takes a picture with a label for each pixel. */
bool dti_source_of_pixels(const dt_source_opts *o);

/* Shape, classes, mean and std are usable; every open begins with it. DT_E_CONFIG names the value.
 * The first is for sources of pictures that have one label each, the second for those that may have
 * one for each pixel, the third for sequences with one for each token; the last looks at classes
 * alone. */
dt_status dti_source_check(const dt_source_opts *o, dt_err *err) DT_NODISCARD;
dt_status dti_source_check_pixels(const dt_source_opts *o, dt_err *err) DT_NODISCARD;
dt_status dt_source_check_sequence(const dt_source_opts *o, dt_err *err) DT_NODISCARD;
dt_status dti_source_check_classes(const dt_source_opts *o, dt_err *err) DT_NODISCARD;
/* DT_E_CONFIG where nothing names what @source reads: @what, "FOLDER" or "FILE". */
dt_status dti_source_check_path(
    const dt_source_opts *o, const char *source, const char *what, dt_err *err) DT_NODISCARD;
/* Mean and standard deviation are of values in 0..1, not of bytes. DT_E_CONFIG. */
dt_status dti_source_check_scale(const dt_source_opts *o, dt_err *err) DT_NODISCARD;

#endif
