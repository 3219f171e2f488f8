#include "data/folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "data/escape.h"
#include "engine/base/alloc.h"

enum { MAX_FILES = 100000000 };

/* What one folder holds; the names lie in a block of its own until they are sorted. */
typedef struct listing {
    char *names;
    size_t names_n, names_cap;
    struct item {
        size_t at;
        const char *name; /* set once the block no longer moves */
        dt_stamp stamp;
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
    while (*cap - *used < n) {
        void *p = *block;
        if (!dt_grow(&p, cap, *cap, 1))
            return false;
        *block = p;
    }
    memcpy(*block + *used, name, n);
    *at = *used;
    *used += n;
    return true;
}

static bool put_item(listing *l, const char *name, const struct stat *st)
{
    void *p = l->items;
    if (!dt_grow(&p, &l->cap, l->n, sizeof *l->items))
        return false;
    l->items = p;
    struct item *i = &l->items[l->n];
    *i = (struct item){.stamp = dt_stamp_of(st)};
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
        if (strcasecmp(dot, ends[i]) == 0)
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
    return DT_FAIL(err, DT_E_NOMEM, "%s: no memory for its list of files", dt_escape(path).text);
}

static dt_status put_entry(
    listing *l, DIR *d, const char *path, const char *name, bool folders, dt_err *err)
{
    struct stat st;
    if (fstatat(dirfd(d), name, &st, 0) != 0) {
        const int error = errno;
        return DT_FAIL(err, DT_E_DATA, "%s/%s: %s", dt_escape(path).text, dt_escape(name).text,
            strerror(error));
    }
    const bool folder = S_ISDIR(st.st_mode);
    if (!folder && !S_ISREG(st.st_mode))
        return DT_FAIL(err, DT_E_DATA, "%s/%s: neither a regular file nor a folder",
            dt_escape(path).text, dt_escape(name).text);
    l->folders += folder;
    l->files += !folder;
    const bool wanted = folders ? folder : !folder && is_picture(name);
    return !wanted || put_item(l, name, &st) ? DT_OK : no_memory(path, err);
}

static dt_status list(listing *l, const char *path, bool folders, dt_err *err)
{
    DIR *d = opendir(path);
    if (d == NULL) {
        const int error = errno;
        return DT_FAIL(err, DT_E_DATA, "%s: cannot read the folder: %s", dt_escape(path).text,
            strerror(error));
    }
    dt_status st = DT_OK;
    while (st == DT_OK) {
        errno = 0;
        const struct dirent *e = readdir(d);
        if (e == NULL && errno != 0)
            st = DT_FAIL(err, DT_E_IO, "%s: %s", dt_escape(path).text, strerror(errno));
        if (e == NULL)
            break;
        if (e->d_name[0] != '.')
            st = put_entry(l, d, path, e->d_name, folders, err);
    }
    closedir(d);
    DT_CHECK(st);
    for (size_t i = 0; i < l->n; i++)
        l->items[i].name = l->names + l->items[i].at;
    if (l->n > 0)
        qsort(l->items, l->n, sizeof *l->items, by_name);
    return DT_OK;
}

static dt_status put_classes(dt_folder *f, const listing *l, int64_t classes, dt_err *err)
{
    if (l->n == 0)
        return DT_FAIL(err, DT_E_DATA,
            "%s: holds 0 folders and %zu files; there must be a folder for each class",
            dt_escape(f->root).text, l->files);
    if ((uint64_t)l->n > (uint64_t)classes)
        return DT_FAIL(err, DT_E_DATA,
            "%s: holds %zu class folders, the network has %" PRId64
            " classes: set model.classes = %zu",
            dt_escape(f->root).text, l->n, classes, l->n);
    f->classes = dt_alloc(l->n, sizeof *f->classes);
    if (f->classes == NULL)
        return no_memory(f->root, err);
    for (size_t i = 0; i < l->n; i++) {
        if (!put_name(&f->names, &f->names_n, &f->names_cap, l->items[i].name, &f->classes[i]))
            return no_memory(f->root, err);
        f->n_classes++;
    }
    return DT_OK;
}

static dt_status put_files(
    dt_folder *f, const listing *l, size_t class, const char *path, dt_err *err)
{
    if (l->n == 0)
        return DT_FAIL(err, DT_E_DATA,
            "%s: a class folder with 0 pictures (.jpg, .jpeg, .png, .bmp), %zu other files and %zu "
            "folders",
            dt_escape(path).text, l->files, l->folders);
    if (l->n > MAX_FILES - f->n_files)
        return DT_FAIL(
            err, DT_E_DATA, "%s: more than %d pictures", dt_escape(f->root).text, MAX_FILES);
    f->ignored += l->files - l->n;
    for (size_t i = 0; i < l->n; i++) {
        void *p = f->files;
        if (!dt_grow(&p, &f->files_cap, f->n_files, sizeof *f->files))
            return no_memory(f->root, err);
        f->files = p;
        dt_folder_file *file = &f->files[f->n_files];
        *file = (dt_folder_file){.stamp = l->items[i].stamp, .class = (int32_t) class};
        if (!put_name(&f->names, &f->names_n, &f->names_cap, l->items[i].name, &file->name))
            return no_memory(f->root, err);
        f->n_files++;
    }
    return DT_OK;
}

static dt_status read_class(dt_folder *f, size_t class, dt_err *err)
{
    listing l = {0};
    char *path = dt_join(f->root, f->names + f->classes[class]);
    if (path == NULL)
        return no_memory(f->root, err);
    dt_status st = list(&l, path, false, err);
    if (st == DT_OK)
        st = put_files(f, &l, class, path, err);
    listing_free(&l);
    dt_free(path);
    return st;
}

dt_status dt_folder_open(dt_folder *f, const char *root, int64_t classes, dt_err *err)
{
    listing l = {0};
    *f = (dt_folder){.root = root};
    dt_status st = list(&l, root, true, err);
    if (st == DT_OK)
        st = put_classes(f, &l, classes, err);
    listing_free(&l);
    for (size_t i = 0; st == DT_OK && i < f->n_classes; i++)
        st = read_class(f, i, err);
    return st;
}

void dt_folder_free(dt_folder *f)
{
    dt_free(f->names);
    dt_free(f->classes);
    dt_free(f->files);
    *f = (dt_folder){0};
}

char *dt_folder_path(const dt_folder *f, size_t i)
{
    char *folder = dt_join(f->root, f->names + f->classes[f->files[i].class]);
    char *path = folder != NULL ? dt_join(folder, f->names + f->files[i].name) : NULL;
    dt_free(folder);
    return path;
}
