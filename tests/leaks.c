#include "tests/leaks.h"

#include <dirent.h>
#include <string.h>

#include "tests/check.h"

int files_in(const char *folder)
{
    int n = 0;
    DIR *d = opendir(folder);
    assert_non_null(d);
    for (const struct dirent *e = readdir(d); e != NULL; e = readdir(d))
        n += strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0;
    closedir(d);
    return n;
}

int open_files(void)
{
    return files_in("/proc/self/fd");
}
