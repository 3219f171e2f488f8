/* Files of the MNIST family (train-images-idx3-ubyte and so on), plain or gzip, kept in memory as
 * bytes. The path is their folder, or the file of images beside its labels. Evaluation takes the
 * t10k files. */
#include "data/idx.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "data/escape.h"
#include "data/file.h"
#include "data/transform.h"
#include "data/unzip.h"
#include "engine/base/alloc.h"
#include "engine/base/text.h"

static const uint64_t most_bytes = UINT64_C(1) << 32; /* of a file, before and after inflating */

enum { MAX_RANK = 3, MAX_SIDE = 32768 };

/* The header: two zeros, the type (8: unsigned bytes), the rank, then that many big-endian sizes.
 */
static dt_status read_header(dti_unzip *u, uint8_t rank, int64_t d[MAX_RANK], dt_err *err)
{
    uint8_t h[4 + 4 * MAX_RANK];
    DT_CHECK(dti_unzip_read(u, h, 4, err));
    if (h[0] != 0 || h[1] != 0 || h[2] != 8 || h[3] != rank)
        return DT_FAIL(err, DT_E_DATA,
            "%s: begins with %02x%02x%02x%02x, IDX %s begin with 0000080%d", u->name, h[0], h[1],
            h[2], h[3], rank == 3 ? "images" : "labels", rank);
    DT_CHECK(dti_unzip_read(u, h, 4u * rank, err));
    for (int i = 0; i < rank; i++)
        d[i] = (int64_t)h[4 * i] << 24 | h[4 * i + 1] << 16 | h[4 * i + 2] << 8 | h[4 * i + 3];
    return DT_OK;
}

/* Bytes of the items a header announces, or an error when the file cannot hold them. */
static dt_status announced(size_t *bytes, const dti_unzip *u, const dti_idx_file *f, int rank,
    const int64_t d[MAX_RANK], dt_err *err)
{
    uint64_t each = 1;
    for (int i = 1; i < rank; i++) {
        if (d[i] < 1 || d[i] > MAX_SIDE)
            return DT_FAIL(err, DT_E_DATA,
                "%s: images of %" PRId64 "x%" PRId64 ": sides must be 1 to %d", f->name, d[1], d[2],
                MAX_SIDE);
        each *= (uint64_t)d[i];
    }
    if (d[0] < 1)
        return DT_FAIL(err, DT_E_DATA, "%s: holds 0 items", f->name);
    const uint64_t total = (uint64_t)d[0] * each; /* below 2^62 */
    if (total > dti_unzip_most(u))
        return DT_FAIL(err, DT_E_DATA,
            "%s: its header announces %" PRId64 " items, %" PRIu64
            " bytes; a file of %zu bytes cannot hold them",
            f->name, d[0], total, f->n);
    if (total > most_bytes)
        return DT_FAIL(err, DT_E_DATA,
            "%s: its header announces %" PRId64 " items, %" PRIu64 " bytes; at most %" PRIu64
            " are read",
            f->name, d[0], total, (uint64_t)most_bytes);
    *bytes = (size_t)total;
    return DT_OK;
}

static dt_status read_items(dti_unzip *u, uint8_t **out, int64_t d[MAX_RANK], const dti_idx_file *f,
    uint8_t rank, dt_err *err)
{
    size_t bytes = 0;
    DT_CHECK(read_header(u, rank, d, err));
    DT_CHECK(announced(&bytes, u, f, rank, d, err));
    *out = dt_alloc(bytes, 1);
    if (*out == NULL)
        return DT_FAIL(err, DT_E_NOMEM, "%s: no memory for its %zu bytes", f->name, bytes);
    DT_CHECK(dti_unzip_read(u, *out, bytes, err));
    return dti_unzip_end(u, err);
}

static dt_status read_all(
    uint8_t **out, int64_t d[MAX_RANK], const dti_idx_file *f, uint8_t rank, dt_err *err)
{
    dti_unzip u;
    DT_CHECK(dti_unzip_open(&u, f->name, f->bytes, f->n, err));
    const dt_status st = read_items(&u, out, d, f, rank, err);
    dti_unzip_close(&u);
    return st;
}

dt_status dti_idx_parse(dti_idx *x, const dti_idx_file *images, const dti_idx_file *labels,
    int64_t classes, dt_err *err)
{
    int64_t d[MAX_RANK] = {0}, n[MAX_RANK] = {0};
    *x = (dti_idx){0};
    DT_CHECK(read_all(&x->pixels, d, images, 3, err));
    DT_CHECK(read_all(&x->labels, n, labels, 1, err));
    if (n[0] != d[0])
        return DT_FAIL(err, DT_E_DATA, "%s: %" PRId64 " images, but %s: %" PRId64 " labels",
            images->name, d[0], labels->name, n[0]);
    for (int64_t i = 0; i < d[0]; i++)
        if (x->labels[i] >= classes)
            return DT_FAIL(err, DT_E_DATA,
                "%s: label %d of sample %" PRId64 " must be below %" PRId64, labels->name,
                x->labels[i], i, classes);
    x->n = d[0];
    x->h = d[1];
    x->w = d[2];
    return DT_OK;
}

void dti_idx_free(dti_idx *x)
{
    dt_free(x->pixels);
    dt_free(x->labels);
    *x = (dti_idx){0};
}

typedef struct idx {
    dt_source base;
    dti_recipe recipe;
    dti_idx set;
} idx;

/* The file of images in a folder; dt_free it. */
static dt_status find_images(char **out, const dt_source_opts *o, dt_err *err)
{
    static const char *const names[2][4] = {
        {"train-images-idx3-ubyte", "train-images-idx3-ubyte.gz", "train-images.idx3-ubyte",
            "train-images.idx3-ubyte.gz"},
        {"t10k-images-idx3-ubyte", "t10k-images-idx3-ubyte.gz", "t10k-images.idx3-ubyte",
            "t10k-images.idx3-ubyte.gz"},
    };
    for (size_t i = 0; i < DT_COUNT(names[0]); i++) {
        *out = dti_join(o->path, names[o->eval][i]);
        if (*out == NULL || dti_is_there(*out))
            return *out != NULL ? DT_OK : DT_FAIL(err, DT_E_NOMEM, "no memory for a file name");
        dt_free(*out);
    }
    *out = NULL;
    return DT_FAIL(err, DT_E_DATA, "%s: holds neither %s nor %s", dti_escape(o->path).text,
        names[o->eval][0], names[o->eval][1]);
}

/* "images" becomes "labels" and "idx3" becomes "idx1" in the file's own name; the lengths stay. */
static bool name_labels(char *path)
{
    char *slash = strrchr(path, '/');
    char *name = slash != NULL ? slash + 1 : path, *images = strstr(name, "images");
    char *idx3 = strstr(name, "idx3");
    if (images == NULL)
        return false;
    memcpy(images, "labels", 6);
    if (idx3 != NULL)
        idx3[3] = '1';
    return true;
}

static dt_status slurp(
    uint8_t **bytes, dti_idx_file *f, dti_escaped *name, const char *path, dt_err *err)
{
    DT_CHECK(dti_slurp(bytes, &f->n, path, most_bytes, NULL, err));
    *name = dti_escape(path);
    f->bytes = *bytes;
    f->name = name->text;
    if (dt_ends_with(path, ".gz") && (f->n < 2 || f->bytes[0] != 0x1F || f->bytes[1] != 0x8B))
        return DT_FAIL(err, DT_E_DATA, "%s: not gzip, though its name says so", f->name);
    return DT_OK;
}

static dt_status load_pair(idx *s, const char *images_path, char *labels_path, dt_err *err)
{
    dti_escaped names[2];
    dti_idx_file images, labels;
    uint8_t *pixels = NULL, *classes = NULL;
    if (!name_labels(labels_path))
        return DT_FAIL(err, DT_E_DATA,
            "%s: cannot tell its labels: a file of images has 'images' in its name, as "
            "train-images-idx3-ubyte",
            dti_escape(images_path).text);
    dt_status st = slurp(&pixels, &images, &names[0], images_path, err);
    if (st == DT_OK)
        st = slurp(&classes, &labels, &names[1], labels_path, err);
    if (st == DT_OK)
        st = dti_idx_parse(&s->set, &images, &labels, s->base.opts.classes, err);
    if (st == DT_OK && (s->set.h > s->recipe.h || s->set.w > s->recipe.w))
        st = DT_FAIL(err, DT_E_DATA,
            "%s: images of %" PRId64 "x%" PRId64 ", the network takes %" PRId64 "x%" PRId64
            ": smaller ones are centred in zeros, larger ones do not fit",
            images.name, s->set.h, s->set.w, s->recipe.h, s->recipe.w);
    dt_free(pixels);
    dt_free(classes);
    return st;
}

static dt_status load(idx *s, dt_err *err)
{
    const dt_source_opts *o = &s->base.opts;
    bool folder;
    DT_CHECK(dti_source_check_path(o, "idx", "FOLDER", err));
    DT_CHECK(dti_is_folder(&folder, o->path, err));
    char *images = NULL;
    if (folder)
        DT_CHECK(find_images(&images, o, err));
    else
        images = dt_strdup(o->path);
    char *labels = images != NULL ? dt_strdup(images) : NULL;
    const dt_status st = labels != NULL ? load_pair(s, images, labels, err)
                                        : DT_FAIL(err, DT_E_NOMEM, "no memory for a file name");
    dt_free(images);
    dt_free(labels);
    return st;
}

static void close_idx(dt_source *base)
{
    idx *s = (idx *)base;
    if (s != NULL)
        dti_idx_free(&s->set);
    dt_free(s);
}

static dt_status open_idx(
    const dt_source_desc *d, dt_source **out, const dt_source_opts *o, dt_err *err)
{
    dti_recipe r;
    DT_CHECK(dti_source_check(o, err));
    DT_CHECK(dti_recipe_make(&r, o, false, err));
    r.centre = true;
    r.flip = false; /* a digit mirrored is no digit */
    idx *s = dt_alloc(1, sizeof *s);
    if (s == NULL)
        return DT_FAIL(err, DT_E_NOMEM, "no memory for the idx source");
    s->base = (dt_source){.desc = d, .opts = *o};
    s->recipe = r;
    const dt_status st = load(s, err);
    if (st != DT_OK) {
        close_idx(&s->base);
        return st;
    }
    *out = &s->base;
    return DT_OK;
}

static int64_t count_idx(const dt_source *base)
{
    return ((const idx *)base)->set.n;
}

static dt_status read_idx(
    const dt_source *base, int64_t i, uint64_t key, float *x, int32_t *label, dt_err *err)
{
    const idx *s = (const idx *)base;
    const dti_picture p = {s->set.pixels + i * s->set.h * s->set.w, s->set.h, s->set.w, 1};
    *label = s->set.labels[i];
    return dti_transform(&s->recipe, &p, key, x, err);
}

/* Only a folder has a place for the other split. */
static bool has_t10k(const dt_source_desc *d, const dt_source_opts *o)
{
    (void)d;
    dt_source_opts eval = *o;
    eval.eval = true;
    char *file = NULL;
    const bool there = find_images(&file, &eval, NULL) == DT_OK;
    dt_free(file);
    return there;
}

static bool looks_like_idx(const char *path)
{
    char *file = NULL;
    const dt_source_opts train = {.path = path};
    const bool there =
        has_t10k(&dt_source_idx, &train) || find_images(&file, &train, NULL) == DT_OK;
    dt_free(file);
    return there;
}

static void describe_idx(const dt_source *base, char *text, size_t n)
{
    const dti_idx *s = &((const idx *)base)->set;
    snprintf(
        text, n, "%" PRId64 " pictures of %" PRId64 "x%" PRId64 " in memory", s->n, s->h, s->w);
}

static int64_t classes_of_idx(const dt_source *base)
{
    const dti_idx *s = &((const idx *)base)->set;
    bool occurs[256] = {false};
    int64_t n = 0;
    for (int64_t i = 0; i < s->n; i++) {
        n += !occurs[s->labels[i]];
        occurs[s->labels[i]] = true;
    }
    return n;
}

static bool is_idx(const char *name)
{
    return strstr(name, "ubyte") != NULL;
}

const dt_source_desc dt_source_idx = {
    .name = "idx",
    .summary = "the MNIST family, plain or .gz: the folder of its files, or the file of images",
    .augments = true,
    .fetched = "mnist",
    .open = open_idx,
    .close = close_idx,
    .count = count_idx,
    .read = read_idx,
    .has_eval = has_t10k,
    .classes = classes_of_idx,
    .looks = looks_like_idx,
    .holds = is_idx,
    .describe = describe_idx,
};
