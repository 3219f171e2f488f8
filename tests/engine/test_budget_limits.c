/* How much memory and how many processors a process may have, read from made-up files. */
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "engine/base/limits.h"
#include "tests/fixture/check.h"

enum { FILES = 12 };

/* The files of a machine. */
static struct {
    const char *path, *text;
} files[FILES];
static uint64_t space = UINT64_MAX, data = UINT64_MAX;

static FILE *open_made_up(const char *path)
{
    for (int i = 0; i < FILES && files[i].path != NULL; i++)
        if (strcmp(files[i].path, path) == 0)
            return fmemopen((void *)(uintptr_t)files[i].text, strlen(files[i].text), "r");
    return NULL;
}

static uint64_t resource(int which)
{
    return which == RLIMIT_AS ? space : which == RLIMIT_DATA ? data : UINT64_MAX;
}

static void put(const char *path, const char *text)
{
    int i = 0;
    while (i < FILES && files[i].path != NULL && strcmp(files[i].path, path) != 0)
        i++;
    assert_true(i < FILES);
    files[i].path = path;
    files[i].text = text;
}

#define MEMINFO "MemTotal:       16777216 kB\nMemFree:         1 kB\n"
#define STATUS "Name:\tx\nVmSize:\t  409600 kB\nVmRSS:\t   20480 kB\nVmData:\t   40960 kB\n"

static const dti_limit_ops ops = {open_made_up, resource};

static int made_up(void **state)
{
    (void)state;
    memset(files, 0, sizeof files);
    space = data = UINT64_MAX;
    put("/proc/meminfo", MEMINFO);
    put("/proc/self/status", STATUS);
    return 0;
}

/* The smallest limit is of @bytes and comes from a place that holds @from. */
static void expect(uint64_t bytes, const char *from)
{
    dt_limits l;
    dt_limits_read(&ops, &l);
    const dt_limit *least = dt_limits_least(&l);
    assert_non_null(least);
    assert_int_equal(least->bytes, bytes);
    if (strstr(least->from, from) == NULL)
        fail_msg("'%s' does not name '%s'", least->from, from);
}

static const uint64_t gib = UINT64_C(1) << 30;

static void a_machine_without_limits_has_its_memory(void **state)
{
    (void)state;
    expect(16 * gib, "the machine's memory");
}

static void a_group_of_version_2_limits(void **state)
{
    (void)state;
    put("/proc/self/cgroup", "0::/user.slice/job\n");
    put("/proc/self/mountinfo", "30 1 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 "
                                "rw,nsdelegate\n");
    put("/sys/fs/cgroup/user.slice/job/memory.max", "2147483648\n");
    expect(2 * gib, "/sys/fs/cgroup/user.slice/job/memory.max");
}

static void the_tightest_of_all_groups_above_holds(void **state)
{
    (void)state;
    put("/proc/self/cgroup", "0::/a/b/c\n");
    put("/proc/self/mountinfo", "30 1 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
    put("/sys/fs/cgroup/a/b/c/memory.max", "max\n");
    put("/sys/fs/cgroup/a/b/memory.max", "4294967296\n");
    put("/sys/fs/cgroup/a/memory.max", "1073741824\n");
    expect(gib, "/sys/fs/cgroup/a/memory.max");
}

static void a_group_of_version_1_limits(void **state)
{
    (void)state;
    put("/proc/self/cgroup",
        "12:cpu,cpuacct:/wrong\n4:hugetlb,memory:/job\n1:name=systemd:/\n0::/\n");
    put("/proc/self/mountinfo",
        "31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw\n"
        "32 31 0:29 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n"
        "35 31 0:32 / /sys/fs/cgroup/memory rw,relatime shared:9 - cgroup cgroup rw,memory\n"
        "41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n");
    put("/sys/fs/cgroup/memory/job/memory.limit_in_bytes", "9223372036854771712\n");
    put("/sys/fs/cgroup/memory/memory.limit_in_bytes", "3221225472\n");
    put("/sys/fs/cgroup/cpu/wrong/memory.limit_in_bytes", "1\n");
    expect(3 * gib, "/sys/fs/cgroup/memory/memory.limit_in_bytes");
}

/* In a container the mount shows the group's own folder as the root. */
static void a_mount_of_the_group_itself_is_its_root(void **state)
{
    (void)state;
    put("/proc/self/cgroup", "4:memory:/docker/0a1b\n");
    put("/proc/self/mountinfo",
        "35 31 0:32 /docker/0a1b /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n");
    put("/sys/fs/cgroup/memory/memory.limit_in_bytes", "536870912\n");
    expect(gib / 2, "/sys/fs/cgroup/memory/memory.limit_in_bytes");
    put("/proc/self/cgroup", "4:memory:/../elsewhere\n"); /* out of sight: what is mounted */
    expect(gib / 2, "/sys/fs/cgroup/memory/memory.limit_in_bytes");
}

static void escaped_paths_are_read(void **state)
{
    (void)state;
    put("/proc/self/cgroup", "0::/j\n");
    put("/proc/self/mountinfo", "30 1 0:26 / /my\\040groups rw - cgroup2 none rw\n");
    put("/my groups/j/memory.max", "1073741824\n");
    expect(gib, "/my groups/j/memory.max");
}

static void files_that_make_no_sense_limit_nothing(void **state)
{
    (void)state;
    put("/proc/self/cgroup", "x\n::\n0::\n7:memory\n0::/j\n");
    put("/proc/self/mountinfo",
        "\n - cgroup2\n1 2 3 - cgroup2 x y\n30 1 0:26 / /g rw - cgroup2 n rw\n");
    put("/g/j/memory.max", "");
    put("/g/memory.max", "lots\n");
    expect(16 * gib, "the machine's memory");
}

static void limits_of_the_process_count(void **state)
{
    (void)state;
    space = 3 * gib;
    expect(3 * gib, "RLIMIT_AS");
    data = 2 * gib;
    expect(2 * gib, "RLIMIT_DATA");
}

/* What is used already, and what threads take, depends on what is limited. */
static void what_is_left_counts_use_and_threads(void **state)
{
    (void)state;
    dt_limits l;
    space = gib;
    dt_limits_read(&ops, &l);
    assert_int_equal(l.n, 2);
    assert_int_equal(dt_limit_rest(&l.limit[0], 0), 16 * gib - (20 << 20));
    assert_int_equal(dt_limit_rest(&l.limit[1], 0), gib - (400 << 20));
    assert_true(dt_limit_rest(&l.limit[1], 2) < gib - (500 << 20));
    assert_int_equal(dt_limit_rest(&l.limit[1], 100), 0);
    assert_null(dt_limits_passed(&l, 600 << 20, 0));
    assert_ptr_equal(dt_limits_passed(&l, 625 << 20, 0), &l.limit[1]);
    assert_ptr_equal(dt_limits_passed(&l, 17 * gib, 0), &l.limit[0]);
}

/* Half a processor is one: who has none of its own yet works. */
static void a_quota_of_version_2_is_of_processors(void **state)
{
    (void)state;
    assert_int_equal(dti_limit_processors(&ops), INT_MAX);
    put("/proc/self/cgroup", "0::/a/b\n");
    put("/proc/self/mountinfo", "30 1 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
    put("/sys/fs/cgroup/a/b/cpu.max", "max 100000\n");
    assert_int_equal(dti_limit_processors(&ops), INT_MAX);
    put("/sys/fs/cgroup/a/cpu.max", "200000 100000\n");
    assert_int_equal(dti_limit_processors(&ops), 2);
    put("/sys/fs/cgroup/a/b/cpu.max", "50000 100000\n");
    assert_int_equal(dti_limit_processors(&ops), 1);
    put("/sys/fs/cgroup/a/b/cpu.max", "100001 100000\n");
    assert_int_equal(dti_limit_processors(&ops), 2);
    put("/sys/fs/cgroup/a/b/cpu.max", "100000 0\n");
    put("/sys/fs/cgroup/a/cpu.max", "9223372036854775807 1\n");
    assert_int_equal(dti_limit_processors(&ops), INT_MAX);
}

static void a_quota_of_version_1_is_of_processors(void **state)
{
    (void)state;
    put("/proc/self/cgroup", "12:cpu,cpuacct:/job\n11:cpuset:/wrong\n4:memory:/wrong\n");
    put("/proc/self/mountinfo",
        "32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"
        "35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n");
    put("/sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_quota_us", "350000\n");
    assert_int_equal(dti_limit_processors(&ops), INT_MAX); /* of no known period */
    put("/sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_period_us", "100000\n");
    assert_int_equal(dti_limit_processors(&ops), 4);
    put("/sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_quota_us", "-1\n");
    assert_int_equal(dti_limit_processors(&ops), INT_MAX);
}

static void this_machine_has_memory(void **state)
{
    (void)state;
    dt_limits l;
    dt_limits_read(NULL, &l);
    assert_true(l.n >= 1);
    assert_true(l.limit[0].bytes > 64 << 20);
    assert_true(l.limit[0].used > 0 && l.limit[0].used < l.limit[0].bytes);
}

#define T(f) cmocka_unit_test_setup(f, made_up)
DT_TEST_GROUP(budget_limits)
{
    const struct CMUnitTest tests[] = {
        T(a_machine_without_limits_has_its_memory),
        T(a_group_of_version_2_limits),
        T(the_tightest_of_all_groups_above_holds),
        T(a_group_of_version_1_limits),
        T(a_mount_of_the_group_itself_is_its_root),
        T(escaped_paths_are_read),
        T(files_that_make_no_sense_limit_nothing),
        T(limits_of_the_process_count),
        T(what_is_left_counts_use_and_threads),
        T(a_quota_of_version_2_is_of_processors),
        T(a_quota_of_version_1_is_of_processors),
        T(this_machine_has_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
