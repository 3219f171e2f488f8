/* Files of searches: a folder keeps the newest, and nothing in it goes that is none such. */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/base/alloc.h"
#include "engine/base/io.h"
#include "memory/kept.h"
#include "tests/fixture/check.h"

enum { MOST = 256, MORE = 20 };

static const char *const others[] = {"front-page.txt", "profile-1.json", "front-1-2-key.txt"};

static bool stem_is(const void *stem, char *to, size_t bytes)
{
    return snprintf(to, bytes, "%s", (const char *)stem) < (int)bytes;
}

static void key_of(int value, char key[DT_SHA256_TEXT])
{
    dt_sha256 sum;
    dt_sha256_init(&sum);
    dt_sha256_add(&sum, &value, sizeof value);
    dt_sha256_text(&sum, key);
}

/* @second: when it was written last */
static void make(const char *path, int second)
{
    dt_err err = {0};
    const struct timespec when[2] = {{.tv_sec = second}, {.tv_sec = second}};
    assert_ok(dt_write_file(path, "x\n", 2, &err), &err);
    assert_int_equal(utimensat(AT_FDCWD, path, when, 0), 0);
}

static int count(const char *folder)
{
    int n = 0;
    DIR *d = opendir(folder);
    assert_non_null(d);
    for (const struct dirent *e; (e = readdir(d)) != NULL;)
        n += e->d_name[0] != '.';
    closedir(d);
    return n;
}

/* Of two builds, the older one's numbers odd; the fewer the seconds, the older. */
static void file_of(const char *folder, int i, char path[512])
{
    char key[DT_SHA256_TEXT];
    key_of(i, key);
    snprintf(path, 512, "%s/front-0.1-%s-%s.txt", folder, i % 2 != 0 ? "aa" : "bb", key);
}

static void a_folder_keeps_the_newest(void **state)
{
    (void)state;
    char folder[300], path[512], stem[400], key[DT_SHA256_TEXT], *text;
    dt_err err = {0};
    snprintf(folder, sizeof folder, "%s", dt_temp_path("kept"));
    snprintf(path, sizeof path, "%s/any", folder);
    assert_ok(dt_make_above(path, &err), &err);
    for (int i = 0; i < MOST + MORE; i++) {
        file_of(folder, i, path);
        make(path, 1000 + i);
    }
    for (size_t i = 0; i < DT_COUNT(others); i++) {
        snprintf(path, sizeof path, "%s/%s", folder, others[i]);
        make(path, 1);
    }
    snprintf(stem, sizeof stem, "%s/front-0.1-bb-", folder);
    dt_kept *k = dt_kept_create(stem_is, stem);
    assert_non_null(k);
    key_of(-1, key);
    dti_kept_write(k, key, "found\n", 6);
    size_t n = 0;
    assert_non_null(text = dti_kept_read(k, key, &n));
    assert_int_equal(n, 6);
    dt_free(text);
    dt_kept_destroy(k);
    assert_int_equal(count(folder), MOST + (int)DT_COUNT(others));
    for (int i = 0; i < MOST + MORE; i++) {
        file_of(folder, i, path);
        assert_int_equal(access(path, F_OK) == 0, i > MORE);
    }
    for (size_t i = 0; i < DT_COUNT(others); i++) {
        snprintf(path, sizeof path, "%s/%s", folder, others[i]);
        assert_int_equal(access(path, F_OK), 0);
    }
}

DT_TEST_GROUP(kept)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_folder_keeps_the_newest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
