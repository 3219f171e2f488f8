/* Pictures in folders, one folder a class; decoded when they are read. */
#include <inttypes.h>
#include <stdio.h>

#include "data/decode.h"
#include "data/escape.h"
#include "data/folder.h"
#include "data/transform.h"
#include "engine/base/alloc.h"

typedef struct images {
    dt_source base;
    dt_recipe recipe;
    dt_folder folder;
} images;

static void close_images(dt_source *base)
{
    images *s = (images *)base;
    if (s != NULL)
        dt_folder_free(&s->folder);
    dt_free(s);
}

static dt_status check_path(const char *path, dt_err *err)
{
    bool folder;
    DT_CHECK(dt_is_folder(&folder, path, err));
    if (!folder)
        return DT_FAIL(err, DT_E_DATA,
            "%s: not a folder; images takes one that holds a folder a class", dt_escape(path).text);
    return DT_OK;
}

static dt_status open_images(dt_source **out, const dt_source_opts *o, dt_err *err)
{
    dt_recipe r;
    DT_CHECK(dt_source_check(o, err));
    DT_CHECK(dt_recipe_make(&r, o, true, err));
    DT_CHECK(check_path(o->path, err));
    images *s = dt_alloc(1, sizeof *s);
    if (s == NULL)
        return DT_FAIL(err, DT_E_NOMEM, "no memory for the images source");
    s->base = (dt_source){&dt_source_images, *o};
    s->recipe = r;
    const dt_status st = dt_folder_open(&s->folder, o->path, o->classes, err);
    if (st != DT_OK) {
        close_images(&s->base);
        return st;
    }
    *out = &s->base;
    return DT_OK;
}

static int64_t count_images(const dt_source *base)
{
    return (int64_t)((const images *)base)->folder.n_files;
}

static dt_status read_picture(const images *s, const dt_folder_file *file, const char *path,
    uint64_t key, float *x, dt_err *err)
{
    uint8_t *bytes;
    size_t n;
    dt_picture p;
    DT_CHECK(dt_slurp(&bytes, &n, path, DT_IMAGE_FILE_BYTES, &file->stamp, err));
    dt_status st = dt_decode(&p, dt_escape(path).text, bytes, n, err);
    dt_free(bytes);
    if (st == DT_OK)
        st = dt_transform(&s->recipe, &p, key, x, err);
    dt_free(p.px);
    return st;
}

static dt_status read_images(
    const dt_source *base, int64_t i, uint64_t key, float *x, int32_t *label, dt_err *err)
{
    const images *s = (const images *)base;
    const dt_folder_file *file = &s->folder.files[i];
    char *path = dt_folder_path(&s->folder, (size_t)i);
    if (path == NULL)
        return DT_FAIL(err, DT_E_NOMEM, "no memory for a file name");
    const dt_status st = read_picture(s, file, path, key, x, err);
    dt_free(path);
    *label = file->class;
    return st;
}

static void describe_images(const dt_source *base, char *text, size_t n)
{
    const dt_folder *f = &((const images *)base)->folder;
    snprintf(text, n, "%zu pictures in %zu class folders, %zu other files ignored", f->n_files,
        f->n_classes, f->ignored);
}

static int64_t classes_of_images(const dt_source *base)
{
    return (int64_t)((const images *)base)->folder.n_classes;
}

const dt_source_desc dt_source_images = {
    .name = "images",
    .summary = "JPEG, PNG and BMP files in folders, one folder a class",
    .open = open_images,
    .close = close_images,
    .count = count_images,
    .read = read_images,
    .classes = classes_of_images,
    .describe = describe_images,
};
