/* How much memory and how many processors this process may have, as control groups and limits say.
 */
#include "engine/base/limits.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

enum { PATH_BYTES = 4096 };

/* Of a thread, measured: the address space takes the whole stack and heap, data what of them may be
 * written, memory what has been. */
enum { THREAD_SPACE = 72 << 20, THREAD_DATA = 10 << 20, THREAD_RESIDENT = 1 << 19 };

/* Version 1 writes "no limit" as a number of pages near 2^63. */
static const uint64_t no_limit = UINT64_C(1) << 62;

static FILE *open_file(const char *path)
{
    return fopen(path, "re");
}

static uint64_t resource(int which)
{
    struct rlimit r;
    if (getrlimit(which, &r) != 0 || r.rlim_cur == RLIM_INFINITY)
        return UINT64_MAX;
    return r.rlim_cur;
}

const dti_limit_ops dt_limit_system = {.open = open_file, .resource = resource};

/* "KEY:   N kB", in bytes; 0 when there is no such line. */
static uint64_t kilobytes(const dti_limit_ops *o, const char *path, const char *key)
{
    FILE *f = o->open(path);
    char line[256];
    unsigned long long kb = 0;
    const size_t n = strlen(key);
    while (f != NULL && kb == 0 && fgets(line, sizeof line, f) != NULL)
        if (strncmp(line, key, n) == 0 && line[n] == ':')
            kb = strtoull(line + n + 1, NULL, 10);
    if (f != NULL)
        fclose(f);
    return kb < UINT64_MAX / 1024 ? kb * 1024 : 0;
}

static void add(const dti_limit_ops *o, dt_limits *to, uint64_t bytes, const char *key,
    uint64_t thread, const char *from)
{
    dt_limit *l = &to->limit[to->n++];
    l->bytes = bytes;
    l->used = kilobytes(o, "/proc/self/status", key);
    l->thread = thread;
    snprintf(l->from, sizeof l->from, "%s", from);
}

/* What a file of a group limits to; UINT64_MAX: to nothing, or there is none. */
typedef uint64_t read_fn(const dti_limit_ops *o, const char *path);

/* One version of the control groups as this process sees it. */
typedef struct hierarchy {
    const char *controller;
    const char *file; /* that holds the limit of a group */
    read_fn *read;
    char own[PATH_BYTES];  /* the process's group, from the root of all; "": none */
    char root[PATH_BYTES]; /* the group that is mounted */
    char at[PATH_BYTES];   /* where; "": nowhere */
} hierarchy;

static bool copy(char to[PATH_BYTES], const char *from, size_t n)
{
    if (n >= PATH_BYTES)
        return false;
    memcpy(to, from, n);
    to[n] = '\0';
    return true;
}

static bool lists(const char *words, const char *word)
{
    const size_t n = strlen(word);
    for (const char *at = words; *at != '\0'; at += strcspn(at, ",")) {
        at += *at == ',';
        if (strncmp(at, word, n) == 0 && (at[n] == ',' || at[n] == '\0'))
            return true;
    }
    return false;
}

/* "ID:CONTROLLERS:PATH"; of version 2 without controllers. */
static void read_own_line(char *line, hierarchy *one, hierarchy *two)
{
    line[strcspn(line, "\n")] = '\0';
    char *controllers = strchr(line, ':');
    char *path = controllers != NULL ? strchr(controllers + 1, ':') : NULL;
    if (path == NULL)
        return;
    *controllers++ = *path++ = '\0';
    hierarchy *h = *controllers == '\0' ? two : lists(controllers, one->controller) ? one : NULL;
    if (h != NULL && !copy(h->own, path, strlen(path)))
        h->own[0] = '\0';
}

/* Blanks and the like stand as \ooo. */
static void unescape(char *s)
{
    char *to = s;
    for (; *s != '\0'; to++) {
        const bool escaped = s[0] == '\\' && s[1] >= '0' && s[1] <= '3' && s[2] >= '0' &&
                             s[2] <= '7' && s[3] >= '0' && s[3] <= '7';
        *to = escaped ? (char)((s[1] - '0') * 64 + (s[2] - '0') * 8 + (s[3] - '0')) : *s;
        s += escaped ? 4 : 1;
    }
    *to = '\0';
}

/* "36 35 98:0 ROOT WHERE OPTIONS ... - TYPE SOURCE OPTIONS" */
static void read_mount_line(char *line, hierarchy *one, hierarchy *two)
{
    char *word[10] = {NULL}, *rest = strstr(line, " - "), *save = NULL;
    if (rest == NULL)
        return;
    *rest = '\0';
    size_t n = 0;
    for (char *w = strtok_r(line, " ", &save); w != NULL && n < 5; w = strtok_r(NULL, " ", &save))
        word[n++] = w;
    for (char *w = strtok_r(rest + 3, " \n", &save); n >= 5 && w != NULL && n < 8;
         w = strtok_r(NULL, " \n", &save))
        word[n++] = w;
    if (n < 8)
        return;
    const bool second = strcmp(word[5], "cgroup2") == 0;
    if (!second && (strcmp(word[5], "cgroup") != 0 || !lists(word[7], one->controller)))
        return;
    hierarchy *h = second ? two : one;
    unescape(word[3]);
    unescape(word[4]);
    if (!copy(h->root, word[3], strlen(word[3])) || !copy(h->at, word[4], strlen(word[4])))
        h->at[0] = '\0';
}

static void each_line(const dti_limit_ops *o, const char *path,
    void (*take)(char *, hierarchy *, hierarchy *), hierarchy *one, hierarchy *two)
{
    FILE *f = o->open(path);
    char *line = NULL;
    size_t room = 0;
    while (f != NULL && getline(&line, &room, f) >= 0)
        take(line, one, two);
    free(line);
    if (f != NULL)
        fclose(f);
}

/* The first number of @text, whose rest *end is; UINT64_MAX for "max", for -1 and for none. */
static uint64_t number_of(const char *text, char **end)
{
    const unsigned long long v = strtoull(text, end, 10);
    return *end == text || v >= no_limit ? UINT64_MAX : v;
}

enum { LINE_BYTES = 64 };

/* The first line of a file; "" where there is none. */
static void line_in(const dti_limit_ops *o, const char *path, char text[LINE_BYTES])
{
    FILE *f = o->open(path);
    text[0] = '\0';
    if (f == NULL)
        return;
    if (fgets(text, LINE_BYTES, f) == NULL)
        text[0] = '\0';
    fclose(f);
}

static uint64_t number_in(const dti_limit_ops *o, const char *path)
{
    char text[LINE_BYTES], *end;
    line_in(o, path, text);
    return number_of(text, &end);
}

/* Processors that so many microseconds of every period are, a part of one being one. */
static uint64_t processors_of(uint64_t quota, uint64_t period)
{
    const bool limits = quota != UINT64_MAX && quota > 0 && period != UINT64_MAX && period > 0;
    return limits ? quota / period + (quota % period != 0) : UINT64_MAX;
}

/* "QUOTA PERIOD" */
static uint64_t quota_in(const dti_limit_ops *o, const char *path)
{
    char text[LINE_BYTES], *end, *last;
    line_in(o, path, text);
    const uint64_t quota = number_of(text, &end);
    return processors_of(quota, number_of(end, &last));
}

/* Of version 1, whose period stands in a file beside. */
static uint64_t quota_beside_period(const dti_limit_ops *o, const char *path)
{
    char period[2 * PATH_BYTES + 64];
    const int folder = (int)(strrchr(path, '/') - path);
    snprintf(period, sizeof period, "%.*s/cpu.cfs_period_us", folder, path);
    return processors_of(number_in(o, path), number_in(o, period));
}

/* The group's folder, from where groups are mounted: what stands above that is out of sight. */
static const char *below_mount(const hierarchy *h)
{
    const size_t n = strcmp(h->root, "/") == 0 ? 0 : strlen(h->root);
    if (strncmp(h->own, h->root, n) != 0 || (h->own[n] != '/' && h->own[n] != '\0') ||
        strstr(h->own, "/..") != NULL)
        return "";
    return strcmp(h->own + n, "/") == 0 ? "" : h->own + n;
}

/* The tightest of the process's group and all above it. @from: NULL where nobody asks. */
static void tightest(const dti_limit_ops *o, const hierarchy *h, uint64_t *least, char *from)
{
    char folder[2 * PATH_BYTES], path[2 * PATH_BYTES + 64];
    if (h->own[0] == '\0' || h->at[0] == '\0')
        return;
    snprintf(folder, sizeof folder, "%s%s", h->at, below_mount(h));
    for (const size_t top = strlen(h->at);;) {
        snprintf(path, sizeof path, "%s/%s", folder, h->file);
        const uint64_t most = h->read(o, path);
        if (most < *least) {
            *least = most;
            if (from != NULL)
                snprintf(from, DT_LIMIT_FROM, "the control group's %.440s", path);
        }
        char *cut = strrchr(folder, '/');
        if (cut == NULL || (size_t)(cut - folder) < top)
            return;
        *cut = '\0';
    }
}

/* The tightest of both versions. */
static uint64_t tightest_group(const dti_limit_ops *o, const hierarchy of[2], char *from)
{
    hierarchy h[2];
    uint64_t least = UINT64_MAX;
    memcpy(h, of, sizeof h);
    each_line(o, "/proc/self/cgroup", read_own_line, &h[0], &h[1]);
    each_line(o, "/proc/self/mountinfo", read_mount_line, &h[0], &h[1]);
    tightest(o, &h[0], &least, from);
    tightest(o, &h[1], &least, from);
    return least;
}

static void add_groups(const dti_limit_ops *o, dt_limits *to)
{
    static const hierarchy memory[2] = {
        {.controller = "memory", .file = "memory.limit_in_bytes", .read = number_in},
        {.controller = "memory", .file = "memory.max", .read = number_in}};
    char from[DT_LIMIT_FROM];
    const uint64_t least = tightest_group(o, memory, from);
    if (least != UINT64_MAX)
        add(o, to, least, "VmRSS", THREAD_RESIDENT, from);
}

void dt_limits_read(const dti_limit_ops *from, dt_limits *out)
{
    const dti_limit_ops *o = from != NULL ? from : &dt_limit_system;
    *out = (dt_limits){0};
    const uint64_t physical = kilobytes(o, "/proc/meminfo", "MemTotal");
    if (physical > 0)
        add(o, out, physical, "VmRSS", THREAD_RESIDENT, "the machine's memory");
    add_groups(o, out);
    const uint64_t space = o->resource(RLIMIT_AS);
    if (space != UINT64_MAX)
        add(o, out, space, "VmSize", THREAD_SPACE, "RLIMIT_AS (ulimit -v)");
    const uint64_t data = o->resource(RLIMIT_DATA);
    if (data != UINT64_MAX)
        add(o, out, data, "VmData", THREAD_DATA, "RLIMIT_DATA (ulimit -d)");
}

int dti_limit_processors(const dti_limit_ops *from)
{
    static const hierarchy cpu[2] = {
        {.controller = "cpu", .file = "cpu.cfs_quota_us", .read = quota_beside_period},
        {.controller = "cpu", .file = "cpu.max", .read = quota_in}};
    const uint64_t least = tightest_group(from != NULL ? from : &dt_limit_system, cpu, NULL);
    return least < INT_MAX ? (int)least : INT_MAX;
}

const dt_limit *dt_limits_least(const dt_limits *l)
{
    const dt_limit *least = NULL;
    for (int i = 0; i < l->n; i++)
        if (least == NULL || l->limit[i].bytes < least->bytes)
            least = &l->limit[i];
    return least;
}

uint64_t dt_limit_rest(const dt_limit *l, int threads)
{
    const uint64_t taken = l->used + (uint64_t)threads * l->thread;
    return l->bytes > taken ? l->bytes - taken : 0;
}

const dt_limit *dt_limits_passed(const dt_limits *l, uint64_t bytes, int threads)
{
    for (int i = 0; i < l->n; i++)
        if (bytes > dt_limit_rest(&l->limit[i], threads))
            return &l->limit[i];
    return NULL;
}
