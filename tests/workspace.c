#include "tests/workspace.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/base/alloc.h"
#include "tests/data_files.h"
#include "tests/run_cli.h"

enum { PATH_BYTES = 4096, MOST = 4096 };

static void make(void)
{
    static const char older[] = "[model]\nname = mlp\nwidth = 4\n[data]\nsamples = 64\n"
                                "[train]\nbatch = 16\nsteps = 2\n[run]\ndir = older\n";
    put_folder(dt_temp_path("w"));
    static char folder[PATH_BYTES];
    snprintf(folder, sizeof folder, "%s", dt_temp_path("w"));
    cli.folder = folder;
    put_file(dt_temp_path("w/older.ini"), older, sizeof older - 1);
    ran r = cli_run("older.ini", NULL);
    assert_code(&r, 0);
    cli_done(&r);
}

const char *in_workspace(const char *below)
{
    char path[PATH_BYTES];
    if (cli.folder == NULL)
        make();
    snprintf(path, sizeof path, "w/%s", below);
    return dt_temp_path(path);
}

void put_text(const char *below, const char *text)
{
    put_file(in_workspace(below), text, strlen(text));
}

bool is_there(const char *below)
{
    struct stat st;
    return lstat(in_workspace(below), &st) == 0;
}

/* Names in a folder, sorted; returns how many. */
static int list(const char *path, char **names)
{
    DIR *d = opendir(path);
    int n = 0;
    assert_non_null(d);
    for (const struct dirent *e; (e = readdir(d)) != NULL;) {
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
            continue;
        assert_true(n < MOST);
        names[n] = dt_strdup(e->d_name);
        assert_non_null(names[n]);
        int at = n++;
        for (; at > 0 && strcmp(names[at - 1], names[at]) > 0; at--) {
            char *swap = names[at];
            names[at] = names[at - 1];
            names[at - 1] = swap;
        }
    }
    closedir(d);
    return n;
}

/* Calls @each for everything below a path, folders before what they hold if @first. */
static void walk(const char *path, bool first, void (*each)(void *, const char *), void *arg)
{
    struct stat st;
    assert_int_equal(lstat(path, &st), 0);
    if (first)
        each(arg, path);
    if (S_ISDIR(st.st_mode)) {
        char **names = dt_alloc(MOST, sizeof *names);
        assert_non_null(names);
        const int n = list(path, names);
        for (int i = 0; i < n; i++) {
            char below[PATH_BYTES];
            const int len = snprintf(below, sizeof below, "%s/%s", path, names[i]);
            assert_true(len < (int)sizeof below);
            walk(below, first, each, arg);
            dt_free(names[i]);
        }
        dt_free(names);
    }
    if (!first)
        each(arg, path);
}

static void remove_one(void *arg, const char *path)
{
    (void)arg;
    assert_int_equal(remove(path), 0);
}

void remove_all(const char *below)
{
    if (is_there(below))
        walk(in_workspace(below), false, remove_one, NULL);
}

/* FNV-1a, 64 bits. */
static unsigned long long checksum(const char *path)
{
    unsigned long long h = 0xcbf29ce484222325ULL;
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    for (int c; (c = getc(f)) != EOF;)
        h = (h ^ (unsigned)c) * 0x100000001b3ULL;
    fclose(f);
    return h;
}

static void describe(void *arg, const char *path)
{
    FILE *to = arg;
    struct stat st;
    char target[PATH_BYTES] = "";
    assert_int_equal(lstat(path, &st), 0);
    if (strstr(path, ".tmp-") != NULL)
        fail_msg("a temporary file is left: %s", path);
    if (S_ISLNK(st.st_mode))
        assert_true(readlink(path, target, sizeof target - 1) > 0);
    const bool file = S_ISREG(st.st_mode);
    fprintf(to, "%s %o %lld %llx %s\n", path, (unsigned)st.st_mode,
        file ? (long long)st.st_size : 0LL, file ? checksum(path) : 0ULL, target);
}

char *snapshot(const char *below)
{
    char *text = NULL;
    size_t n = 0;
    FILE *to = open_memstream(&text, &n);
    assert_non_null(to);
    walk(in_workspace(below), true, describe, to);
    assert_int_equal(fclose(to), 0);
    char *copy = dt_strdup(text);
    assert_non_null(copy);
    free(text);
    return copy;
}

void assert_unchanged(char *before, const char *below)
{
    char *after = snapshot(below);
    if (strcmp(before, after) != 0)
        fail_msg("before:\n%s\nafter:\n%s", before, after);
    dt_free(after);
    dt_free(before);
}
