/* What paths stand for, by their names and by what is there. */
#ifndef DT_ENGINE_BASE_PATH_H
#define DT_ENGINE_BASE_PATH_H

#include <stdbool.h>

enum { DT_PATH_BYTES = 4096 };

/* The folder that a path names a file in, with its slash, or "."; false: it is too long. */
bool dt_path_folder(char to[DT_PATH_BYTES], const char *path);

/* Whether two paths are of one file, which need not be there yet. */
bool dt_same_file(const char *a, const char *b);

/* Whether what is at a path is in a folder, at any depth. */
bool dt_is_below(const char *path, const char *folder);

#endif
