/* A folder with one folder of pictures for each class. */
#ifndef DT_DATA_FOLDER_H
#define DT_DATA_FOLDER_H

#include "data/file.h"

typedef struct dt_folder_file {
    size_t name; /* in names */
    dt_stamp stamp;
    int32_t class;
} dt_folder_file;

/* Classes are numbered by the rank of their folder's name in byte order, files follow by class and
 * name. */
typedef struct dt_folder {
    const char *root; /* borrowed */
    char *names;      /* NUL-terminated, one after another */
    size_t *classes;  /* [n_classes] folder names, in names */
    dt_folder_file *files;
    size_t n_classes, n_files;
    size_t ignored; /* files that are not pictures by their name */
    size_t names_n, names_cap, files_cap;
} dt_folder;

/* Read the folders; a link counts as what it leads to, names that begin with a dot are passed over,
 * files that do not end in .jpg, .jpeg, .png or .bmp (any case) are ignored. DT_E_DATA names path
 * and counts when there is no class, a class without a picture, more classes than @classes, a
 * device, FIFO or socket, a link that leads nowhere or in a circle, or something that may not be
 * read. Free it, also after an error. */
dt_status dt_folder_open(dt_folder *f, const char *root, int64_t classes, dt_err *err) DT_NODISCARD;
void dt_folder_free(dt_folder *f);

/* Path of file @i; dt_free it. NULL when memory is out. */
char *dt_folder_path(const dt_folder *f, size_t i) DT_NODISCARD;

#endif
