/* What paths stand for, by their names and by what is there. */
#define _XOPEN_SOURCE 700 /* realpath */
#include "engine/base/path.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static const char *base_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash != NULL ? slash + 1 : path;
}

bool dt_path_folder(char to[DT_PATH_BYTES], const char *path)
{
    const int n = (int)(base_of(path) - path);
    return snprintf(to, DT_PATH_BYTES, "%.*s", n > 0 ? n : 1, n > 0 ? path : ".") < DT_PATH_BYTES;
}

static bool same_inode(const char *a, const char *b)
{
    struct stat x, y;
    return stat(a, &x) == 0 && stat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

bool dt_same_file(const char *a, const char *b)
{
    char in_a[DT_PATH_BYTES], in_b[DT_PATH_BYTES];
    if (strcmp(a, b) == 0 || same_inode(a, b))
        return true;
    return strcmp(base_of(a), base_of(b)) == 0 && dt_path_folder(in_a, a) &&
           dt_path_folder(in_b, b) && same_inode(in_a, in_b);
}

bool dt_is_below(const char *path, const char *folder)
{
    char *file = realpath(path, NULL), *top = realpath(folder, NULL);
    const size_t n = top != NULL ? strlen(top) : 0;
    const bool below = file != NULL && n > 0 && strncmp(file, top, n) == 0 &&
                       (file[n] == '/' || (n == 1 && file[1] != '\0'));
    free(file);
    free(top);
    return below;
}
