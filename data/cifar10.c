/* CIFAR-10 in its binary version: data_batch_1.bin to data_batch_5.bin for training, test_batch.bin
 * for evaluation, kept in memory as bytes. The path is their folder, or one such file. */
#include "data/cifar10.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "data/escape.h"
#include "data/file.h"
#include "data/transform.h"
#include "engine/base/alloc.h"

enum { LABELS = 10 };
static const size_t most_bytes = (size_t)1 << 32; /* of one file */

typedef struct cifar {
    dt_source base;
    dti_recipe recipe;
    uint8_t *bytes; /* [records][DTI_CIFAR_RECORD] */
    size_t records;
} cifar;

static const char *const train_files[] = {"data_batch_1.bin", "data_batch_2.bin",
    "data_batch_3.bin", "data_batch_4.bin", "data_batch_5.bin", NULL};
static const char *const eval_files[] = {"test_batch.bin", NULL};

dt_status dti_cifar10_check(
    const char *name, const uint8_t *bytes, size_t n, int64_t classes, dt_err *err)
{
    if (n == 0 || n % DTI_CIFAR_RECORD != 0)
        return DT_FAIL(err, DT_E_DATA,
            "%s: %zu bytes are %zu records of %d bytes and %zu more: not CIFAR-10's binary "
            "version, or cut",
            name, n, n / DTI_CIFAR_RECORD, DTI_CIFAR_RECORD, n % DTI_CIFAR_RECORD);
    const int64_t below = classes < LABELS ? classes : LABELS;
    for (size_t i = 0; i < n / DTI_CIFAR_RECORD; i++)
        if (bytes[i * DTI_CIFAR_RECORD] >= below)
            return DT_FAIL(err, DT_E_DATA, "%s: record %zu has label %d, must be below %" PRId64,
                name, i, bytes[i * DTI_CIFAR_RECORD], below);
    return DT_OK;
}

static dt_status append(cifar *s, const char *path, dt_err *err)
{
    uint8_t *bytes, *all;
    size_t n;
    DT_CHECK(dti_slurp(&bytes, &n, path, most_bytes, NULL, err));
    const dti_escaped name = dti_escape(path);
    dt_status st = dti_cifar10_check(name.text, bytes, n, s->base.opts.classes, err);
    if (st == DT_OK) {
        all = dt_realloc(s->bytes, s->records + n / DTI_CIFAR_RECORD, DTI_CIFAR_RECORD);
        if (all == NULL) {
            st = DT_FAIL(err, DT_E_NOMEM, "%s: no memory for its %zu bytes", name.text, n);
        } else {
            memcpy(all + s->records * DTI_CIFAR_RECORD, bytes, n);
            s->bytes = all;
            s->records += n / DTI_CIFAR_RECORD;
        }
    }
    dt_free(bytes);
    return st;
}

static dt_status load(cifar *s, dt_err *err)
{
    const char *path = s->base.opts.path;
    bool folder;
    DT_CHECK(dti_source_check_path(&s->base.opts, "cifar10", "FOLDER", err));
    DT_CHECK(dti_is_folder(&folder, path, err));
    if (!folder)
        return append(s, path, err);
    for (const char *const *f = s->base.opts.eval ? eval_files : train_files; *f != NULL; f++) {
        char *file = dti_join(path, *f);
        const dt_status st = file != NULL ? append(s, file, err)
                                          : DT_FAIL(err, DT_E_NOMEM, "no memory for a file name");
        dt_free(file);
        DT_CHECK(st);
    }
    return DT_OK;
}

static void close_cifar(dt_source *base)
{
    cifar *s = (cifar *)base;
    if (s != NULL)
        dt_free(s->bytes);
    dt_free(s);
}

static dt_status open_cifar(
    const dt_source_desc *d, dt_source **out, const dt_source_opts *o, dt_err *err)
{
    dti_recipe r;
    DT_CHECK(dti_source_check(o, err));
    DT_CHECK(dti_recipe_make(&r, o, true, err));
    cifar *s = dt_alloc(1, sizeof *s);
    if (s == NULL)
        return DT_FAIL(err, DT_E_NOMEM, "no memory for the cifar10 source");
    s->base = (dt_source){.desc = d, .opts = *o};
    s->recipe = r;
    const dt_status st = load(s, err);
    if (st != DT_OK) {
        close_cifar(&s->base);
        return st;
    }
    *out = &s->base;
    return DT_OK;
}

static int64_t count_cifar(const dt_source *base)
{
    return (int64_t)((const cifar *)base)->records;
}

static dt_status read_cifar(
    const dt_source *base, int64_t i, uint64_t key, float *x, int32_t *label, dt_err *err)
{
    const cifar *s = (const cifar *)base;
    const uint8_t *record = s->bytes + (size_t)i * DTI_CIFAR_RECORD;
    enum { PLANE = DTI_CIFAR_SIDE * DTI_CIFAR_SIDE };
    uint8_t px[DTI_CIFAR_PIXELS];
    for (int p = 0; p < PLANE; p++)
        for (int c = 0; c < 3; c++)
            px[3 * p + c] = record[1 + c * PLANE + p];
    *label = record[0];
    const dti_picture picture = {px, DTI_CIFAR_SIDE, DTI_CIFAR_SIDE, 3};
    return dti_transform(&s->recipe, &picture, key, x, err);
}

static bool holds(const char *folder, const char *name)
{
    char *file = dti_join(folder, name);
    const bool there = file != NULL && dti_is_there(file);
    dt_free(file);
    return there;
}

static bool has_test_batch(const dt_source_desc *d, const dt_source_opts *o)
{
    (void)d;
    return holds(o->path, eval_files[0]);
}

static bool looks_like_cifar(const char *path)
{
    return holds(path, train_files[0]) || holds(path, eval_files[0]);
}

static void describe_cifar(const dt_source *base, char *text, size_t n)
{
    snprintf(text, n, "%zu pictures of CIFAR-10 in memory", ((const cifar *)base)->records);
}

static int64_t classes_of_cifar(const dt_source *base)
{
    (void)base;
    return LABELS;
}

/* As its batches.meta.txt has them. */
static const char *class_of_cifar(const dt_source *base, int32_t label)
{
    static const char *const names[LABELS] = {
        "airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"};
    (void)base;
    return label >= 0 && label < LABELS ? names[label] : NULL;
}

static bool is_batch(const char *name)
{
    const char *dot = strrchr(name, '.');
    return dot != NULL && strcmp(dot, ".bin") == 0;
}

const dt_source_desc dt_source_cifar10 = {
    .name = "cifar10",
    .summary = "CIFAR-10, binary version: the folder of its .bin files, or one of them",
    .augments = true,
    .fetched = "cifar10",
    .open = open_cifar,
    .close = close_cifar,
    .count = count_cifar,
    .read = read_cifar,
    .has_eval = has_test_batch,
    .classes = classes_of_cifar,
    .class_name = class_of_cifar,
    .looks = looks_like_cifar,
    .holds = is_batch,
    .describe = describe_cifar,
};
