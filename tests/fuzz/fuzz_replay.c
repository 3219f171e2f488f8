/* `fuzz_replay TARGET FILE...` replays files, and the files of folders, through a fuzz target: the
 * corpus as an ordinary test. */
#include <dirent.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/alloc.h"
#include "engine/base/io.h"
#include "tests/fuzz/fuzz.h"

enum { MOST_BYTES = 64 << 20 };

typedef int dt_fuzz_target(const uint8_t *data, size_t size);
#define TARGET(name) dt_fuzz_target dt_fuzz_##name;
#include DT_FUZZ_TARGETS
#undef TARGET

#define TARGET(name) {#name, dt_fuzz_##name},
static const struct target {
    const char *name;
    dt_fuzz_target *try_one;
} targets[] = {
#include DT_FUZZ_TARGETS
};
#undef TARGET

static dt_status replay_file(const char *path, dt_fuzz_target *try_one, dt_err *err)
{
    char *text;
    size_t n;
    DT_CHECK(dt_read_file(&text, &n, path, MOST_BYTES, DT_E_DATA, err));
    /* a block of exactly n bytes, so that the sanitizer sees a read behind them */
    uint8_t *exact = dt_alloc(n, 1);
    DT_ASSERT(exact != NULL);
    memcpy(exact, text, n);
    dt_free(text);
    (void)try_one(exact, n);
    dt_free(exact);
    return DT_OK;
}

static dt_status replay(const char *path, dt_fuzz_target *try_one, size_t *count, dt_err *err)
{
    DIR *d = opendir(path);
    if (d == NULL) {
        ++*count;
        return replay_file(path, try_one, err);
    }
    dt_status st = DT_OK;
    for (const struct dirent *e = readdir(d); e != NULL && st == DT_OK; e = readdir(d)) {
        char below[4096];
        if (e->d_name[0] == '.')
            continue;
        if (snprintf(below, sizeof below, "%s/%s", path, e->d_name) >= (int)sizeof below)
            st = DT_FAIL(err, DT_E_IO, "'%s': a name is too long", path);
        else
            st = replay(below, try_one, count, err);
    }
    closedir(d);
    return st;
}

static dt_fuzz_target *find(const char *name)
{
    for (size_t i = 0; i < sizeof targets / sizeof *targets; i++)
        if (strcmp(targets[i].name, name) == 0)
            return targets[i].try_one;
    return NULL;
}

int main(int argc, char **argv)
{
    dt_fuzz_target *try_one = argc > 1 ? find(argv[1]) : NULL;
    if (try_one == NULL) {
        fprintf(stderr, "usage: %s TARGET FILE_OR_FOLDER...\n", argv[0]);
        return 2;
    }
    size_t count = 0;
    for (int i = 2; i < argc; i++) {
        dt_err err = {0};
        const dt_status st = replay(argv[i], try_one, &count, &err);
        if (st != DT_OK) {
            fputs(err.text, stderr);
            return (int)st;
        }
    }
    printf("%zu inputs replayed\n", count);
    return count > 0 ? 0 : 1; /* replaying nothing is a failure */
}
