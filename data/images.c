/* Pictures in folders, one folder a class: the folders are listed once, pictures are decoded when
 * they are read. */
#include "data/source.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "data/decode.h"
#include "data/escape.h"
#include "data/file.h"
#include "data/transform.h"
#include "engine/base/alloc.h"
#include "engine/base/io.h"
#include "engine/base/text.h"

/* ---- the folders ---- */

typedef struct picture_file {
    size_t name; /* in names */
    dti_stamp stamp;
    int32_t class;
} picture_file;

/* Classes are numbered by the rank of their folder's name in byte order, of training's folders
 * where these are for evaluation alone; files follow by class and name. */
typedef struct class_folders {
    const char *root; /* borrowed */
    char *names;      /* NUL-terminated, one after another */
    size_t *classes;  /* [n_classes] folder names, in names */
    bool *here;       /* [n_classes] whether there is such a folder */
    picture_file *files;
    size_t n_classes, n_files;
    size_t ignored; /* files that are not pictures by their name */
    size_t names_n, names_cap, files_cap;
} class_folders;

enum { MAX_FILES = 100000000 };

/* What one folder holds; the names lie in a block of its own until they are sorted. */
typedef struct listing {
    char *names;
    size_t names_n, names_cap;
    struct item {
        size_t at;
        const char *name; /* set once the block no longer moves */
        dti_stamp stamp;
    } * items;
    size_t n, cap;
    size_t files, folders; /* all of them, wanted or not */
} listing;

static void listing_free(listing *l)
{
    dt_free(l->names);
    dt_free(l->items);
}

/* Append a name with its NUL to a growing block; false when memory is out. */
static bool put_name(char **block, size_t *used, size_t *cap, const char *name, size_t *at)
{
    const size_t n = strlen(name) + 1;
    if (!dt_grow(block, cap, *used + n - 1, 1))
        return false;
    memcpy(*block + *used, name, n);
    *at = *used;
    *used += n;
    return true;
}

static bool put_item(listing *l, const char *name, const struct stat *st)
{
    if (!dt_grow(&l->items, &l->cap, l->n, sizeof *l->items))
        return false;
    struct item *i = &l->items[l->n];
    *i = (struct item){.stamp = dti_stamp_of(st)};
    if (!put_name(&l->names, &l->names_n, &l->names_cap, name, &i->at))
        return false;
    l->n++;
    return true;
}

static bool is_picture(const char *name)
{
    static const char *const ends[] = {".jpg", ".jpeg", ".png", ".bmp"};
    const char *dot = strrchr(name, '.');
    for (size_t i = 0; dot != NULL && i < DT_COUNT(ends); i++)
        if (dt_alike(dot, ends[i]))
            return true;
    return false;
}

static int by_name(const void *a, const void *b)
{
    const struct item *x = a, *y = b;
    return strcmp(x->name, y->name);
}

static dt_status no_memory(const char *path, dt_err *err)
{
    return DT_FAIL(err, DT_E_NOMEM, "%s: no memory for its list of files", dti_escape(path).text);
}

static dt_status put_entry(
    listing *l, DIR *d, const char *path, const char *name, bool folders, dt_err *err)
{
    struct stat st;
    if (fstatat(dirfd(d), name, &st, 0) != 0) {
        const int error = errno;
        return DT_FAIL(err, dti_blame(error), "%s/%s: %s", dti_escape(path).text,
            dti_escape(name).text, strerror(error));
    }
    const bool folder = S_ISDIR(st.st_mode);
    if (!folder && !S_ISREG(st.st_mode))
        return DT_FAIL(err, DT_E_DATA, "%s/%s: neither a regular file nor a folder",
            dti_escape(path).text, dti_escape(name).text);
    l->folders += folder;
    l->files += !folder;
    const bool wanted = folders ? folder : !folder && is_picture(name);
    return !wanted || put_item(l, name, &st) ? DT_OK : no_memory(path, err);
}

static dt_status list_folder(listing *l, const char *path, bool folders, dt_err *err)
{
    DIR *d = opendir(path);
    if (d == NULL) {
        const int error = errno;
        return DT_FAIL(err, dti_blame(error), "%s: cannot read the folder: %s",
            dti_escape(path).text, strerror(error));
    }
    const char *name;
    dt_status st;
    while ((st = dt_next_name(&name, d, dti_escape(path).text, err)) == DT_OK && name != NULL) {
        if (name[0] != '.' && (st = put_entry(l, d, path, name, folders, err)) != DT_OK)
            break;
    }
    closedir(d);
    DT_CHECK(st);
    for (size_t i = 0; i < l->n; i++)
        l->items[i].name = l->names + l->items[i].at;
    if (l->n > 0)
        qsort(l->items, l->n, sizeof *l->items, by_name);
    return DT_OK;
}

static dt_status put_classes(
    class_folders *f, const listing *l, const char *root, int64_t classes, dt_err *err)
{
    if (l->n == 0)
        return DT_FAIL(err, DT_E_DATA,
            "%s: holds 0 folders and %zu files; there must be a folder for each class",
            dti_escape(root).text, l->files);
    if ((uint64_t)l->n > (uint64_t)classes)
        return DT_FAIL(err, DT_E_DATA,
            "%s: holds %zu class folders, the network has %" PRId64
            " classes: set model.classes = %zu",
            dti_escape(root).text, l->n, classes, l->n);
    f->classes = dt_alloc(l->n, sizeof *f->classes);
    f->here = dt_alloc(l->n, sizeof *f->here);
    if (f->classes == NULL || f->here == NULL)
        return no_memory(root, err);
    for (size_t i = 0; i < l->n; i++) {
        if (!put_name(&f->names, &f->names_n, &f->names_cap, l->items[i].name, &f->classes[i]))
            return no_memory(root, err);
        f->n_classes++;
    }
    return DT_OK;
}

/* Where nobody asks for classes pictures may lie in the folder itself. */
static dt_status put_root(class_folders *f, dt_err *err)
{
    f->classes = dt_alloc(1, sizeof *f->classes);
    f->here = dt_alloc(1, sizeof *f->here);
    if (f->classes == NULL || f->here == NULL ||
        !put_name(&f->names, &f->names_n, &f->names_cap, ".", &f->classes[0]))
        return no_memory(f->root, err);
    f->n_classes = 1;
    f->here[0] = true;
    return DT_OK;
}

/* Which of the classes these folders are; each must be one. */
static dt_status find_here(class_folders *f, const listing *l, const char *classes, dt_err *err)
{
    for (size_t i = 0, k = 0; i < l->n; i++) { /* both lists are sorted */
        const char *name = l->items[i].name;
        while (k < f->n_classes && strcmp(f->names + f->classes[k], name) < 0)
            k++;
        if (k == f->n_classes || strcmp(f->names + f->classes[k], name) != 0)
            return DT_FAIL(err, DT_E_DATA,
                "%s/%s: not one of the %zu classes that training has in %s",
                dti_escape(f->root).text, dti_escape(name).text, f->n_classes,
                dti_escape(classes).text);
        f->here[k] = true;
    }
    return DT_OK;
}

/* Folders for evaluation where there are none of training to number them by. */
static dt_status check_whole(const class_folders *f, int64_t classes, dt_err *err)
{
    if (f->n_classes == (size_t)classes)
        return DT_OK;
    return DT_FAIL(err, DT_E_DATA,
        "%s: holds %zu class folders of the network's %" PRId64
        ", and which they are only training's tell: let data.path name those",
        dti_escape(f->root).text, f->n_classes, classes);
}

/* A folder of folders is most often one of parts, train and val, and its classes are one deeper. */
static dt_status no_pictures(
    const class_folders *f, const listing *l, const char *path, dt_err *err)
{
    static const char *const parts[] = {"val", "valid", "validation", "test", "eval"};
    (void)DT_FAIL(err, DT_E_DATA,
        "%s: a class folder with 0 pictures (.jpg, .jpeg, .png, .bmp), %zu other files and %zu "
        "folders",
        dti_escape(path).text, l->files, l->folders);
    const char *train = NULL, *eval = NULL;
    for (size_t i = 0; i < f->n_classes; i++) {
        const char *name = f->names + f->classes[i];
        if (strcmp(name, "train") == 0)
            train = name;
        for (size_t k = 0; k < DT_COUNT(parts); k++)
            if (strcmp(name, parts[k]) == 0)
                eval = name;
    }
    const dti_escaped root = dti_escape(f->root);
    if (l->folders > 0 && train != NULL && eval != NULL)
        return DT_FAIL(err, DT_E_DATA,
            "these are parts, not classes: data.path = %s/train and data.eval_path = %s/%s",
            root.text, root.text, eval);
    if (l->folders > 0)
        return DT_FAIL(err, DT_E_DATA,
            "classes are the folders right below data.path: name one a level deeper");
    return DT_E_DATA;
}

static dt_status put_files(
    class_folders *f, const listing *l, size_t class, const char *path, dt_err *err)
{
    if (l->n == 0)
        return no_pictures(f, l, path, err);
    if (l->n > MAX_FILES - f->n_files)
        return DT_FAIL(
            err, DT_E_DATA, "%s: more than %d pictures", dti_escape(f->root).text, MAX_FILES);
    f->ignored += l->files - l->n;
    for (size_t i = 0; i < l->n; i++) {
        if (!dt_grow(&f->files, &f->files_cap, f->n_files, sizeof *f->files))
            return no_memory(f->root, err);
        picture_file *file = &f->files[f->n_files];
        *file = (picture_file){.stamp = l->items[i].stamp, .class = (int32_t) class};
        if (!put_name(&f->names, &f->names_n, &f->names_cap, l->items[i].name, &file->name))
            return no_memory(f->root, err);
        f->n_files++;
    }
    return DT_OK;
}

static dt_status read_class(class_folders *f, size_t class, dt_err *err)
{
    listing l = {0};
    char *path = dti_join(f->root, f->names + f->classes[class]);
    if (path == NULL)
        return no_memory(f->root, err);
    dt_status st = list_folder(&l, path, false, err);
    if (st == DT_OK)
        st = put_files(f, &l, class, path, err);
    listing_free(&l);
    dt_free(path);
    return st;
}

/* The classes that there are by the names of training's folders, if it has some of its own and
 * anybody asks for classes. */
static dt_status number_classes(
    class_folders *f, const listing *l, const dt_source_opts *o, dt_err *err)
{
    const char *train = o->unlabelled ? NULL : o->train_path;
    listing of_training = {0};
    struct stat st;
    dt_status status;
    if (train != NULL && stat(train, &st) == 0 && S_ISDIR(st.st_mode)) {
        status = list_folder(&of_training, train, true, err);
        if (status == DT_OK)
            status = put_classes(f, &of_training, train, o->classes, err);
        if (status == DT_OK)
            status = find_here(f, l, train, err);
        listing_free(&of_training);
        return status;
    }
    status = put_classes(f, l, f->root, o->classes, err);
    if (status == DT_OK && train != NULL)
        status = check_whole(f, o->classes, err);
    return status == DT_OK ? find_here(f, l, f->root, err) : status;
}

/* Read the folders; a link counts as what it leads to, names that begin with a dot are passed over,
 * files that do not end in .jpg, .jpeg, .png or .bmp (any case) are ignored. DT_E_DATA names path
 * and counts when there is no class, a class without a picture, more classes than the network has,
 * one that training has not, a device, FIFO or socket, a link that leads nowhere or in a circle, or
 * something that may not be read. Free it, also after an error. */
static dt_status open_folder(class_folders *f, const dt_source_opts *o, dt_err *err)
{
    listing l = {0};
    *f = (class_folders){.root = o->path};
    dt_status st = list_folder(&l, o->path, true, err);
    const bool bare = l.n == 0 && o->unlabelled;
    if (st == DT_OK && bare)
        st = put_root(f, err);
    else if (st == DT_OK && l.n == 0)
        st = put_classes(f, &l, o->path, o->classes, err); /* says so */
    if (st == DT_OK && !bare)
        st = number_classes(f, &l, o, err);
    f->ignored += bare ? 0 : l.files;
    listing_free(&l);
    for (size_t i = 0; st == DT_OK && i < f->n_classes; i++)
        if (f->here[i])
            st = read_class(f, i, err);
    return st;
}

static void free_folder(class_folders *f)
{
    dt_free(f->names);
    dt_free(f->classes);
    dt_free(f->here);
    dt_free(f->files);
    *f = (class_folders){0};
}

/* Path of file @i; dt_free it. NULL when memory is out. */
static char *path_of(const class_folders *f, size_t i)
{
    char *folder = dti_join(f->root, f->names + f->classes[f->files[i].class]);
    char *path = folder != NULL ? dti_join(folder, f->names + f->files[i].name) : NULL;
    dt_free(folder);
    return path;
}

/* ---- the source ---- */

typedef struct images {
    dt_source base;
    dti_recipe recipe;
    class_folders folder;
} images;

static void close_images(dt_source *base)
{
    images *s = (images *)base;
    if (s != NULL)
        free_folder(&s->folder);
    dt_free(s);
}

static dt_status check_path(const dt_source_opts *o, dt_err *err)
{
    bool folder;
    DT_CHECK(dti_source_check_path(o, "images", "FOLDER", err));
    DT_CHECK(dti_is_folder(&folder, o->path, err));
    if (!folder)
        return DT_FAIL(err, DT_E_DATA,
            "%s: not a folder; images takes one that holds a folder a class",
            dti_escape(o->path).text);
    return DT_OK;
}

static dt_status open_images(
    const dt_source_desc *d, dt_source **out, const dt_source_opts *o, dt_err *err)
{
    dti_recipe r;
    DT_CHECK(dti_source_check(o, err));
    DT_CHECK(dti_recipe_make(&r, o, true, err));
    DT_CHECK(check_path(o, err));
    images *s = dt_alloc(1, sizeof *s);
    if (s == NULL)
        return DT_FAIL(err, DT_E_NOMEM, "no memory for the images source");
    s->base = (dt_source){.desc = d, .opts = *o};
    s->recipe = r;
    const dt_status st = open_folder(&s->folder, o, err);
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

/* @stamp: what the file was; NULL: not looked at before
 * @size: of the picture, as it is there */
static dt_status read_picture(const dti_recipe *r, const dti_stamp *stamp, const char *path,
    uint64_t key, float *x, dti_picture *size, dt_err *err)
{
    uint8_t *bytes;
    size_t n;
    dti_picture p;
    DT_CHECK(dti_slurp(&bytes, &n, path, DTI_IMAGE_FILE_BYTES, stamp, err));
    dt_status st = dti_decode(&p, dti_escape(path).text, bytes, n, err);
    dt_free(bytes);
    if (st == DT_OK)
        st = dti_transform(r, &p, key, x, err);
    dt_free(p.px);
    *size = (dti_picture){.h = p.h, .w = p.w, .c = p.c};
    return st;
}

dt_status dt_picture_read(
    const dt_source_opts *o, const char *path, float *x, int64_t *h, int64_t *w, dt_err *err)
{
    dti_recipe r;
    dti_picture size;
    dt_source_opts eval = *o;
    eval.eval = true;
    eval.augment = false;
    DT_CHECK(dti_source_check_pixels(&eval, err));
    DT_CHECK(dti_recipe_make(&r, &eval, true, err));
    r.stretch = dti_source_of_pixels(&eval);
    DT_CHECK(read_picture(&r, NULL, path, 0, x, &size, err));
    *h = size.h;
    *w = size.w;
    return DT_OK;
}

static dt_status read_images(
    const dt_source *base, int64_t i, uint64_t key, float *x, int32_t *label, dt_err *err)
{
    const images *s = (const images *)base;
    const picture_file *file = &s->folder.files[i];
    char *path = path_of(&s->folder, (size_t)i);
    if (path == NULL)
        return DT_FAIL(err, DT_E_NOMEM, "no memory for a file name");
    dti_picture size;
    const dt_status st = read_picture(&s->recipe, &file->stamp, path, key, x, &size, err);
    dt_free(path);
    *label = file->class;
    return st;
}

static bool holds_pictures(const char *folder, int deep);

static bool is_one(const char *folder, const char *name, int deep)
{
    struct stat st;
    if (deep == 0)
        return is_picture(name);
    char *path = dti_join(folder, name);
    const bool yes = path != NULL && name[0] != '.' && stat(path, &st) == 0 &&
                     S_ISDIR(st.st_mode) && holds_pictures(path, deep - 1);
    dt_free(path);
    return yes;
}

/* So many folders deep, as far as the first of its names tell. */
static bool holds_pictures(const char *folder, int deep)
{
    enum { MOST_NAMES = 256 };
    DIR *d = opendir(folder);
    const char *name;
    bool found = false;
    for (int i = 0; d != NULL && !found && i < MOST_NAMES; i++) {
        if (dt_next_name(&name, d, folder, NULL) != DT_OK || name == NULL)
            break;
        found = is_one(folder, name, deep);
    }
    if (d != NULL)
        closedir(d);
    return found;
}

/* A folder of classes, or one of train and val, whose classes are one deeper. */
static bool looks_like_images(const char *path)
{
    return holds_pictures(path, 1) || holds_pictures(path, 2);
}

static void describe_images(const dt_source *base, char *text, size_t n)
{
    const class_folders *f = &((const images *)base)->folder;
    size_t folders = 0;
    for (size_t i = 0; i < f->n_classes; i++)
        folders += f->here[i];
    snprintf(text, n, "%zu picture%s in %zu class folder%s, %zu other file%s ignored", f->n_files,
        f->n_files == 1 ? "" : "s", folders, folders == 1 ? "" : "s", f->ignored,
        f->ignored == 1 ? "" : "s");
}

static int64_t classes_of_images(const dt_source *base)
{
    return (int64_t)((const images *)base)->folder.n_classes;
}

static const char *class_of_images(const dt_source *base, int32_t label)
{
    const class_folders *f = &((const images *)base)->folder;
    return label >= 0 && (size_t)label < f->n_classes ? f->names + f->classes[label] : NULL;
}

const dt_source_desc dt_source_images = {
    .name = "images",
    .summary = "JPEG, PNG and BMP files in folders, one folder a class",
    .augments = true,
    .open = open_images,
    .close = close_images,
    .count = count_images,
    .read = read_images,
    .classes = classes_of_images,
    .class_name = class_of_images,
    .looks = looks_like_images,
    .holds = is_picture,
    .describe = describe_images,
};
