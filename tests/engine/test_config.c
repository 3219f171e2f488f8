/* Configurations: the grammar, the values, and that everything wrong is told at once with its line.
 */
#define _XOPEN_SOURCE 700 /* realpath */
#include "engine/config/nearest.h"
#include "tests/fixture/check.h"
#include "tests/fixture/comma_locale.h"
#include "tests/fixture/parse_config.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/base/alloc.h"
#include "engine/config/run_options.h"
#include "engine/shape.h"

typedef struct sample {
    int64_t count, needed;
    double rate;
    bool on;
    int mode;
    const char *text, *path, *list;
    uint64_t bytes;
} sample;

static const char *const modes[] = {"fast", "exact", NULL};
#define AT(f) offsetof(sample, f)
/* clang-format off */
static const dt_opt rows[] = {
    {"count", DT_OPT_I64,   AT(count), "3",    1, 64, NULL,  NULL, "how many"},
    {"rate",  DT_OPT_F64,   AT(rate),  "0.5",  0, 1,  NULL,  NULL, "how fast"},
    {"on",    DT_OPT_BOOL,  AT(on),    "off",  0, 0,  NULL,  NULL, "whether"},
    {"mode",  DT_OPT_ENUM,  AT(mode),  "fast", 0, 0,  modes, NULL, "which way"},
    {"text",  DT_OPT_STR,   AT(text),  "",     0, 0,  NULL,  NULL, "some words"},
    {"path",  DT_OPT_PATH,  AT(path),  "",     0, 0,  NULL,  NULL, "a file"},
    {"list",  DT_OPT_LIST,  AT(list),  "a,b",  0, 0,  NULL,  NULL, "names"},
    {"bytes", DT_OPT_BYTES, AT(bytes), "1MiB", 1, 0x1p40, NULL, NULL, "how large"},
    {NULL,    DT_OPT_I64,   0,         NULL,   0, 0,  NULL,  NULL, NULL}};
static const dt_opt strict_rows[] = {
    {"needed", DT_OPT_I64, AT(needed), NULL, 0, 9, NULL, NULL, "no default"},
    {NULL,     DT_OPT_I64, 0,          NULL, 0, 0, NULL, NULL, NULL}};
/* clang-format on */

static dt_config *parse(const char *text)
{
    dt_err err = {0};
    dt_config *c = NULL;
    assert_ok(parse_config(&c, "t.ini", text, strlen(text), &err), &err);
    assert_non_null(c);
    return c;
}

static void refuse_bytes(const char *text, size_t n, const char *says)
{
    const long before = dti_alloc_live();
    dt_err err = {0};
    dt_config *c = NULL;
    assert_fails(parse_config(&c, "t.ini", text, n, &err), DT_E_CONFIG, &err, says);
    assert_null(c);
    assert_int_equal(dti_alloc_live(), before);
}

static void refuse(const char *text, const char *says)
{
    refuse_bytes(text, strlen(text), says);
}

/* The value of [s] key, as it was written. */
static const char *value(const dt_config *c, const char *key)
{
    const char *file;
    int line;
    return dt_config_get(c, "s", key, &file, &line);
}

/* ---- grammar ---- */

static void values_comments_and_blanks_are_told_apart(void **state)
{
    (void)state;
    dt_config *c = parse("; head\n"
                         "# head\n"
                         "\n"
                         "[s] ; note\n"
                         "  a=1\n"
                         "\tb =  two words \t; note\n"
                         "c = x;y#z # note\n"
                         "d = \"  kept ; \"\"so\"\" \"   # note\n"
                         "e =\n"
                         "f = ; nothing\n"
                         "g = k = v\n"
                         "h = \"\"");
    assert_string_equal(value(c, "a"), "1");
    assert_string_equal(value(c, "b"), "two words");
    assert_string_equal(value(c, "c"), "x;y#z");
    assert_string_equal(value(c, "d"), "  kept ; \"so\" ");
    assert_string_equal(value(c, "e"), "");
    assert_string_equal(value(c, "f"), "");
    assert_string_equal(value(c, "g"), "k = v");
    assert_string_equal(value(c, "h"), "");
    assert_null(value(c, "i"));
    dt_config_destroy(c);
}

static void crlf_and_a_byte_order_mark_are_accepted(void **state)
{
    (void)state;
    dt_config *c = parse("\xEF\xBB\xBF[s]\r\na = 1\r\nb = caf\xC3\xA9\r\n");
    assert_string_equal(value(c, "a"), "1");
    assert_string_equal(value(c, "b"), "caf\xC3\xA9");
    dt_config_destroy(c);
}

static void sections_have_kind_name_and_line(void **state)
{
    (void)state;
    dt_config *c = parse("[train]\n\n[ conv \t layer1.0.conv1 ]\nout = 3\n");
    assert_int_equal(dt_config_section_count(c), 2);
    const dt_section a = dt_config_section(c, 0), b = dt_config_section(c, 1);
    assert_string_equal(a.kind, "train");
    assert_string_equal(a.name, "");
    assert_string_equal(b.text, "conv layer1.0.conv1");
    assert_string_equal(b.kind, "conv");
    assert_string_equal(b.name, "layer1.0.conv1");
    assert_string_equal(b.file, "t.ini");
    assert_int_equal(b.line, 3);
    assert_int_equal(dt_config_key_count(c, 1), 1);
    const char *key, *text;
    int line;
    dt_config_key(c, 1, 0, &key, &text, &line);
    assert_string_equal(key, "out");
    assert_string_equal(text, "3");
    assert_int_equal(line, 4);
    dt_config_destroy(c);
}

static void lines_that_mean_nothing_are_refused(void **state)
{
    (void)state;
    refuse("[s]\njust words\n", "t.ini:2: 'just words' is neither [section] nor key = value");
    refuse("[s]\n= 3\n", "t.ini:2:");
    refuse("[s]\na b = 3\n", "t.ini:2: 'a b' is no key");
    refuse("a = 3\n[s]\n", "t.ini:1: key 'a' stands before the first [section]");
    refuse("[s\na = 3\n", "t.ini:1: '[s' has no closing ]");
    refuse("[s] a = 3\n", "t.ini:1: text after [s]: 'a = 3'");
    refuse("[]\n", "t.ini:1: [] is no section");
    refuse("[a b c]\n", "t.ini:1: [a b c] is no section");
    refuse("[s]\na = \"x\n", "t.ini:2: a value starts with \" and has no closing \"");
    refuse("[s]\na = \"x\" y\n", "t.ini:2: text after the closing \": 'y'");
    refuse("[s]\ninclude other.ini\n", "t.ini:2:");
}

static void duplicates_name_both_lines(void **state) /* case 2 */
{
    (void)state;
    refuse("[train]\nbatch = 1\nlr = 2\nbatch = 3\n",
        "t.ini:4: [train] key 'batch' is given again; first at line 2");
    refuse("[train]\nlr = 1\n[data]\n[train]\n",
        "t.ini:4: section [train] is given again; first at line 1");
    refuse("[conv a]\n[conv  a]\n", "t.ini:2: section [conv a] is given again; first at line 1");
}

static void all_problems_are_reported_at_once(void **state) /* case 1 */
{
    (void)state;
    static const char text[] = "[s]\nno equals\n[t\n[s]\na = 1\na = 2\n";
    refuse(text, "t.ini:2:");
    refuse(text, "t.ini:3:");
    refuse(text, "t.ini:4:");
    refuse(text, "t.ini:6:");
}

/* ---- files ---- */

static void refuse_file(const char *name, const char *text, size_t n, const char *says)
{
    const char *path = dt_temp_path(name);
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(text, 1, n, f), n);
    fclose(f);
    dt_err err = {0};
    dt_config *c = NULL;
    assert_fails(dt_config_load(&c, path, &err), DT_E_CONFIG, &err, says);
    assert_fails(DT_E_CONFIG, DT_E_CONFIG, &err, path);
    assert_null(c);
}

static void bad_files_are_named(void **state) /* case 6 */
{
    (void)state;
    dt_err err = {0};
    dt_config *c = NULL;
    assert_fails(dt_config_load(&c, dt_temp_path("none.ini"), &err), DT_E_CONFIG, &err,
        "none.ini': No such file or directory");
    assert_fails(dt_config_load(&c, dt_temp_path("."), &err), DT_E_CONFIG, &err, "is a folder");
    assert_fails(dt_config_load(&c, "/dev/zero", &err), DT_E_CONFIG, &err, "is a device");
    const char *fifo = dt_temp_path("fifo.ini");
    assert_int_equal(mkfifo(fifo, 0600), 0);
    assert_fails(dt_config_load(&c, fifo, &err), DT_E_CONFIG, &err, "is a FIFO");
    refuse_file("empty.ini", "", 0, "no section in it");
    refuse_file("blank.ini", "\n; nothing\n", 11, "no section in it");
    refuse_file("le.ini", "\xFF\xFE[\0s\0", 6, ":1: this text is UTF-16; save it as UTF-8");
    refuse_file("be.ini", "\0[\0s", 4, ":1: this text is UTF-16; save it as UTF-8");
    refuse_file("nul.ini", "[s]\na = 1\0junk\n", 15, ":2: column 6: control character 0x00");
    refuse_file(
        "latin.ini", "[s]\nname = caf\xE9\n", 16, ":2: column 11: invalid UTF-8, byte 0xe9");
    refuse_file("escape.ini", "[s]\na = \x1b[2J\n", 13, "control character 0x1b");
    refuse_file("c1.ini", "[s]\na = \xC2\x9B\n", 11, ":2: column 5: control character");
}

static void long_lines_are_refused_and_never_cut(void **state) /* case 6 */
{
    (void)state;
    enum { LONG = 1 << 20 };
    char *text = malloc(LONG + 16);
    assert_non_null(text);
    memset(text, 'x', LONG + 16);
    memcpy(text, "[s]\na = ", 8);
    refuse_file("long.ini", text, LONG + 4, ":2: a line of 1048576 bytes; at most 8192 are read");
    text[4 + DT_LINE_BYTES] = '\0';
    dt_config *c = parse(text);
    assert_int_equal(strlen(value(c, "a")), DT_LINE_BYTES - 4);
    dt_config_destroy(c);
    text[4 + DT_LINE_BYTES] = 'x';
    refuse_bytes(text, 4 + DT_LINE_BYTES + 1, "t.ini:2: a line of 8193 bytes");
    free(text);
    char *huge = calloc(1, DT_CONFIG_BYTES + 1);
    assert_non_null(huge);
    memset(huge, '\n', DT_CONFIG_BYTES + 1);
    refuse_file("huge.ini", huge, DT_CONFIG_BYTES + 1, "has 4194305 bytes; at most 4194304");
    refuse_bytes(huge, DT_CONFIG_BYTES + 1, "at most 4194304");
    free(huge);
}

static void long_names_are_kept_whole(void **state)
{
    (void)state;
    char text[600], name[301];
    memset(name, 'n', 300);
    name[300] = '\0';
    snprintf(text, sizeof text, "[conv %s]\n", name);
    dt_config *c = parse(text);
    assert_string_equal(dt_config_section(c, 0).name, name);
    dt_config_destroy(c);
}

/* A file of nothing but keys is refused without taking a quadratic time. */
static void many_keys_and_sections_are_quick(void **state)
{
    (void)state;
    enum { MANY = 100000 };
    char *text = malloc(MANY * 20 + 8), *to = text;
    assert_non_null(text);
    for (int i = 0; i < MANY; i++)
        to += snprintf(to, 20, "[conv c%d]\nk=1\n", i);
    dt_config *c = parse(text);
    assert_int_equal(dt_config_section_count(c), MANY);
    const char *file;
    int line;
    assert_string_equal(dt_config_get(c, "conv c77777", "k", &file, &line), "1");
    assert_int_equal(line, 2 * 77778);
    dt_config_destroy(c);
    to = text + snprintf(text, 20, "[s]\n");
    for (int i = 0; i < MANY; i++)
        to += snprintf(to, 20, "k%d=1\n", i);
    c = parse(text);
    assert_string_equal(value(c, "k99999"), "1");
    dt_config_destroy(c);
    free(text);
}

/* Of processor time: what is counted and not shown gets no advice. */
static void many_unknown_keys_are_counted_quickly(void **state)
{
    (void)state;
    enum { MANY = 200000, MOST_SECONDS = 2 };
    char *text = malloc(MANY * 20 + 8), *to = text;
    sample s;
    dt_err err = {0};
    assert_non_null(text);
    to += snprintf(to, 8, "[s]\n");
    for (int i = 0; i < MANY; i++)
        to += snprintf(to, 20, "unknown%d=1\n", i);
    dt_config *c = parse(text);
    assert_ok(dt_config_bind(c, "s", rows, &s, &err), &err);
    const clock_t began = clock();
    assert_fails(dt_config_check_known(c, &err), DT_E_CONFIG, &err, "unknown key 'unknown0'");
    const double took = (double)(clock() - began) / CLOCKS_PER_SEC;
    if (!(took < MOST_SECONDS))
        fail_msg("%.1f seconds", took);
    assert_int_equal(err.n, MANY);
    dt_config_destroy(c);
    free(text);
}

/* Of processor time. One look at each other name for each would take minutes. */
static void many_layers_are_bound_checked_and_written_quickly(void **state)
{
    (void)state;
    enum { MANY = 100000, MOST_SECONDS = 20 };
    char *text = malloc(MANY * 20 + 8), *to = text, section[32];
    size_t n = 0;
    sample s;
    dt_err err = {0};
    assert_non_null(text);
    for (int i = 0; i < MANY; i++)
        to += snprintf(to, 20, i % 2 ? "[conv%d]\n" : "[conv c%d]\n", i);
    dt_config *c = parse(text);
    const clock_t began = clock();
    for (int i = 0; i < MANY; i += 2) {
        snprintf(section, sizeof section, "conv c%d", i);
        assert_ok(dt_config_bind(c, section, rows, &s, &err), &err);
    }
    assert_fails(dt_config_check_known(c, &err), DT_E_CONFIG, &err, ":2: unknown section [conv1]");
    char *dumped = NULL;
    FILE *f = open_memstream(&dumped, &n);
    assert_non_null(f);
    dt_config_dump(c, f);
    assert_int_equal(fclose(f), 0);
    const double took = (double)(clock() - began) / CLOCKS_PER_SEC;
    if (!(took < MOST_SECONDS))
        fail_msg("%.1f seconds", took);
    assert_non_null(strstr(dumped, "\n\n[conv c99998]\ncount = "));
    free(dumped);
    dt_config_destroy(c);
    free(text);
}

/* ---- values ---- */

/* Bind "[s]\nKEY = VALUE". */
static dt_status bind_one(const char *key, const char *text, sample *s, dt_err *err)
{
    char ini[512];
    snprintf(ini, sizeof ini, "[s]\n%s = %s\n", key, text);
    dt_config *c = parse(ini);
    const dt_status st = dt_config_bind(c, "s", rows, s, err);
    dt_config_destroy(c);
    return st;
}

static void refuse_value(const char *key, const char *text, const char *says)
{
    sample s;
    dt_err err = {0};
    char all[512];
    snprintf(all, sizeof all, "t.ini:2: [s] %s = %s: %s", key, text, says);
    assert_fails(bind_one(key, text, &s, &err), DT_E_CONFIG, &err, all);
}

static void whole_numbers_are_strict(void **state) /* case 3 */
{
    (void)state;
    sample s;
    dt_err err = {0};
    assert_ok(bind_one("count", "64", &s, &err), &err);
    assert_int_equal(s.count, 64);
    assert_ok(bind_one("count", "+07", &s, &err), &err);
    assert_int_equal(s.count, 7);
    refuse_value("count", "0", "must be 1..64");
    refuse_value("count", "-1", "must be 1..64");
    refuse_value("count", "65", "must be 1..64");
    refuse_value("count", "1.5", "not a whole number; must be 1..64");
    refuse_value("count", "32x", "not a whole number");
    refuse_value("count", "1 2", "not a whole number");
    refuse_value("count", "0x10", "not a whole number");
    refuse_value("count", "1e1", "not a whole number");
    refuse_value("count", "", "not a whole number");
    refuse_value("count", "-", "not a whole number");
    refuse_value("count", "99999999999999999999", "must be 1..64");
    refuse_value("count", "-99999999999999999999", "must be 1..64");
}

static void bytes_are_strict(void **state) /* case 3 */
{
    (void)state;
    static const struct {
        const char *text;
        uint64_t bytes;
    } good[] = {{"1", 1}, {"4096", 4096}, {"1KiB", 1024}, {"1KB", 1000}, {"8MiB", 8 << 20},
        {"1,639,726,592", 1639726592}, {"12,345", 12345}, {"999", 999},
        {"1,099,511,627,776", UINT64_C(1) << 40}, {"3GiB", UINT64_C(3) << 30},
        {"1.5GiB", UINT64_C(3) << 29}, {"1.5GB", 1500000000}, {"0.3KB", 300}, {"0.0009KB", 0},
        {"1TiB", UINT64_C(1) << 40}};
    for (size_t i = 0; i < DT_COUNT(good); i++) {
        sample s;
        dt_err err = {0};
        if (good[i].bytes == 0) {
            refuse_value("bytes", good[i].text, "must be 1..1TiB");
            continue;
        }
        assert_ok(bind_one("bytes", good[i].text, &s, &err), &err);
        assert_true(s.bytes == good[i].bytes);
    }
    refuse_value("bytes", "8 GB", "no blank before the unit: write 8GB");
    refuse_value("bytes", "1.5 GiB", "no blank before the unit: write 1.5GiB");
    refuse_value("bytes", "1.5", "not a number of bytes");
    refuse_value("bytes", "-1", "not a number of bytes");
    refuse_value("bytes", "1,63", "not a number of bytes");
    refuse_value("bytes", "1234,567", "not a number of bytes");
    refuse_value("bytes", "1,234,", "not a number of bytes");
    refuse_value("bytes", ",234", "not a number of bytes");
    refuse_value("bytes", "1,234KiB", "not a number of bytes");
    refuse_value("bytes", "18,446,744,073,709,551,616", "not a number of bytes");
    refuse_value("bytes", "8gib", "not a number of bytes; write 8GiB");
    refuse_value("bytes", "1.5g", "not a number of bytes; write 1.5GiB");
    refuse_value("bytes", "8kb", "not a number of bytes; write 8KB");
    refuse_value("bytes", "8gi b", "not a number of bytes; write bytes as 512, 64KiB");
    refuse_value("bytes", "8GiBs", "not a number of bytes");
    refuse_value("bytes", "GiB", "not a number of bytes");
    refuse_value("bytes", "1.GiB", "not a number of bytes");
    refuse_value("bytes", ".5GiB", "not a number of bytes");
    refuse_value("bytes", "1.1234567GiB", "not a number of bytes");
    refuse_value("bytes", "", "not a number of bytes");
    refuse_value("bytes", "0", "must be 1..1TiB");
    refuse_value("bytes", "2TiB", "must be 1..1TiB");
    refuse_value("bytes", "99999999TiB", "more bytes than 64 bits can count");
    refuse_value("bytes", "99999999999999999999", "more bytes than 64 bits can count");
}

/* A height and a width, or a number that is both. */
static void sides_are_strict(void **state)
{
    (void)state;
    static const dt_opt row = {
        .key = "kernel", .type = DT_OPT_SIDES, .fallback = "3", .min = 1, .max = 64};
    static const struct {
        const char *text, *prints;
        int64_t h, w;
    } good[] = {{"3", "3", 3, 3}, {"1x7", "1x7", 1, 7}, {"7x1", "7x1", 7, 1}, {"5x5", "5", 5, 5},
        {"+07x64", "7x64", 7, 64}};
    static const char *const bad[][2] = {{"0", "must be 1..64"}, {"65", "must be 1..64"},
        {"1x65", "must be 1..64"}, {"0x3", "must be 1..64"}, {"-1x3", "must be 1..64"},
        {"99999999999999999999", "must be 1..64"}, {"1x7x2", "not height and width, as 1x7"},
        {"1x", "not height and width, as 1x7; must be 1..64"}, {"x7", "not height and width"},
        {"1 x 7", "not height and width, as 1x7; write 1x7; must be"},
        {"1x99999999999999999999", "not height and width"},
        {"1,7", "not a whole number; write 1x7; must be 1..64"}, {"32X48", "; write 32x48;"},
        {"2*3", "; write 2x3;"}, {"2,-3", "not a whole number; must be"}, {"2,3,4", "number; must"},
        {"3.0", "not a whole number; write 3"}, {"", "not a whole number"}};
    dt_err err = {0};
    int64_t v;
    for (size_t i = 0; i < DT_COUNT(good); i++) {
        assert_ok(dt_opt_read(&row, good[i].text, &v, &err), &err);
        assert_true(dt_sides_h(v) == good[i].h && dt_sides_w(v) == good[i].w);
        assert_true(v == dt_sides(good[i].h, good[i].w) && dt_sides_within(v, 1, 64));
        assert_true(dt_sides_square(v) == (good[i].h == good[i].w));
        assert_string_equal(dt_sides_print(v).s, good[i].prints);
    }
    for (size_t i = 0; i < DT_COUNT(bad); i++) {
        err = (dt_err){0};
        assert_fails(dt_opt_read(&row, bad[i][0], &v, &err), DT_E_CONFIG, &err, bad[i][1]);
    }
    const dt_opt free_row = {.key = "any", .type = DT_OPT_SIDES};
    assert_ok(dt_opt_read(&free_row, "0x2147483646", &v, &err), &err);
    assert_true(dt_sides_h(v) == 0 && dt_sides_w(v) == INT32_MAX - 1);
    assert_int_equal(dt_opt_read(&free_row, "1x2147483647", &v, NULL), DT_E_CONFIG);
    assert_false(dt_sides_within(-1, 0, 64) || dt_sides_within(dt_sides(3, 65), 0, 64));
}

/* What dt_opt_print writes of this value of the row, read back. */
static void print_and_read(const dt_opt *row, const sample *from)
{
    char *text = NULL;
    size_t n;
    FILE *f = open_memstream(&text, &n);
    assert_non_null(f);
    dt_opt_print(f, row, from);
    fclose(f);
    sample to;
    memset(&to, 0, sizeof to);
    dt_err err = {0};
    assert_ok(dt_opt_read(row, text, &to, &err), &err);
    if (row->type == DT_OPT_F64)
        assert_memory_equal(&to.rate, &from->rate, sizeof to.rate);
    else if (row->type == DT_OPT_BYTES)
        assert_true(to.bytes == from->bytes);
    else if (row->type == DT_OPT_I64)
        assert_int_equal(to.count, from->count);
    free(text);
}

static void check_reals(void)
{
    sample s;
    dt_err err = {0};
    static const struct {
        const char *text;
        double want;
    } good[] = {{"0.25", 0.25}, {"1e-3", 1e-3}, {".5", 0.5}, {"1.", 1}, {"+5E-1", 0.5}, {"-0", 0}};
    for (size_t i = 0; i < DT_COUNT(good); i++) {
        assert_ok(bind_one("rate", good[i].text, &s, &err), &err);
        assert_true(s.rate >= good[i].want && s.rate <= good[i].want);
    }
    refuse_value("rate", "nan", "not a finite decimal number; must be 0..1");
    refuse_value("rate", "inf", "not a finite decimal number");
    refuse_value("rate", "-Infinity", "not a finite decimal number");
    refuse_value("rate", "1e400", "not within the range of doubles");
    refuse_value("rate", "1e-400", "not within the range of doubles");
    refuse_value("rate", "0,1", "not a number (the decimal sign is a point)");
    refuse_value("rate", "0x1p-1", "not a finite decimal number");
    refuse_value("rate", "0.5f", "not a finite decimal number");
    refuse_value("rate", ".", "not a finite decimal number");
    refuse_value("rate", "1e", "not a finite decimal number");
    refuse_value("rate", "", "not a finite decimal number");
    refuse_value("rate", "1.0000001", "must be 0..1");
    refuse_value("rate", "-0.1", "must be 0..1");
}

static void reals_are_strict(void **state) /* case 4 */
{
    (void)state;
    check_reals();
}

static void reals_do_not_depend_on_the_locale(void **state) /* case 4 */
{
    (void)state;
    comma_locale();
    check_reals();
    print_and_read(&rows[1], &(sample){.rate = 0.1});
    c_locale();
}

static void units_do_not_depend_on_the_locale(void **state)
{
    (void)state;
    turkish_locale();
    refuse_value("bytes", "8GIB", "not a number of bytes; write 8GiB");
    refuse_value("bytes", "8gib", "not a number of bytes; write 8GiB");
    c_locale();
}

static void words_are_checked_and_suggested(void **state)
{
    (void)state;
    sample s;
    dt_err err = {0};
    assert_ok(bind_one("mode", "exact", &s, &err), &err);
    assert_int_equal(s.mode, 1);
    refuse_value("mode", "exakt", "must be one of fast, exact; did you mean 'exact'?");
    refuse_value("mode", "Fast", "must be one of fast, exact; did you mean 'fast'?");
    refuse_value("mode", "zebra", "must be one of fast, exact");
    static const char *const yes[] = {"true", "on", "yes", "1", "True"}, *const no[] = {"false",
                                                                             "off", "no", "0",
                                                                             "FALSE"};
    for (size_t i = 0; i < DT_COUNT(yes); i++) {
        assert_ok(bind_one("on", yes[i], &s, &err), &err);
        assert_true(s.on);
        assert_ok(bind_one("on", no[i], &s, &err), &err);
        assert_false(s.on);
    }
    refuse_value("on", "2", "must be true or false");
    refuse_value("list", "", "must not be empty");
    refuse_value("list", "a,,b", "an item of the list is empty");
    refuse_value("list", "a,", "an item of the list is empty");
}

static void lists_lose_the_blanks_around_commas(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"a , b,\tc", "a,b,c"}, {"one", "one"}, {"a b , c", "a b,c"}, {"\" a, b \"", "a,b"}};
    for (size_t i = 0; i < DT_COUNT(cases); i++) {
        char ini[64];
        snprintf(ini, sizeof ini, "[s]\nlist = %s\n", cases[i][0]);
        dt_config *c = parse(ini);
        sample s;
        dt_err err = {0};
        assert_ok(dt_config_bind(c, "s", rows, &s, &err), &err);
        assert_string_equal(s.list, cases[i][1]);
        dt_config_destroy(c);
    }
}

static void defaults_fill_what_is_not_given(void **state)
{
    (void)state;
    dt_config *c = parse("[other]\n");
    sample s;
    memset(&s, 0x55, sizeof s);
    dt_err err = {0};
    assert_ok(dt_config_bind(c, "s", rows, &s, &err), &err);
    assert_int_equal(s.count, 3);
    assert_true(s.rate >= 0.5 && s.rate <= 0.5);
    assert_false(s.on);
    assert_int_equal(s.mode, 0);
    assert_null(s.text);
    assert_null(s.path);
    assert_string_equal(s.list, "a,b");
    assert_true(s.bytes == 1 << 20);
    dt_config_destroy(c);
}

static void a_missing_required_key_is_named(void **state) /* case 5 */
{
    (void)state;
    sample s;
    dt_err err = {0};
    dt_config *c = parse("\n[s]\ncount = 1\n");
    assert_fails(dt_config_bind(c, "s", strict_rows, &s, &err), DT_E_CONFIG, &err,
        "t.ini:2: [s] needed is required (0..9: no default)");
    dt_config_destroy(c);
    c = parse("[other]\n");
    assert_fails(dt_config_bind(c, "s", strict_rows, &s, &err), DT_E_CONFIG, &err,
        "t.ini: [s] needed is required");
    dt_config_destroy(c);
}

/* Each misspelt key stands for one that is missing, and is told once. */
static void a_misspelt_required_key_is_not_missing_as_well(void **state)
{
    (void)state;
    sample s;
    dt_err err = {0};
    dt_config *c = parse("[s]\ncount = 1\nneeeded = 2\n");
    assert_fails(dt_config_bind(c, "s", strict_rows, &s, &err), DT_E_CONFIG, &err,
        "t.ini:3: [s] unknown key 'neeeded', did you mean 'needed'?");
    assert_null(strstr(err.text, "is required"));
    const size_t told = strlen(err.text);
    (void)!dt_config_check_known(c, &err);
    assert_null(strstr(err.text + told, "neeeded"));
    dt_config_destroy(c);
}

static void every_wrong_value_is_reported(void **state) /* case 1 */
{
    (void)state;
    dt_config *c = parse("[s]\ncount = 0\nrate = x\nbytes = 8 GB\n");
    sample s;
    dt_err err = {0};
    const dt_status st = dt_config_bind(c, "s", rows, &s, &err);
    assert_fails(st, DT_E_CONFIG, &err, "t.ini:2: [s] count = 0: must be 1..64; count: how many\n");
    assert_fails(st, DT_E_CONFIG, &err, "t.ini:3: [s] rate = x: ");
    assert_fails(st, DT_E_CONFIG, &err, "t.ini:4: [s] bytes = 8 GB: ");
    assert_int_equal(err.n, 3);
    assert_int_equal(s.count, 3); /* what was refused keeps its default */
    dt_config_destroy(c);
}

static void paths_count_from_where_they_were_written(void **state)
{
    (void)state;
    assert_int_equal(mkdir(dt_temp_path("sub"), 0700), 0);
    const char *path = dt_temp_path("sub/p.ini");
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs("[s]\npath = ../data/x y\n[abs]\npath = /data\n[none]\npath =\n", f);
    fclose(f);
    dt_err err = {0};
    dt_config *c = NULL;
    assert_ok(dt_config_load(&c, path, &err), &err);
    assert_ok(dt_config_set(c, "set.path=here", &err), &err);
    sample s;
    char *folder = realpath(dt_temp_path("sub"), NULL), *here = getcwd(NULL, 0), want[4096];
    assert_ok(dt_config_bind(c, "s", rows, &s, &err), &err);
    snprintf(want, sizeof want, "%s/../data/x y", folder);
    assert_string_equal(s.path, want);
    assert_ok(dt_config_bind(c, "abs", rows, &s, &err), &err);
    assert_string_equal(s.path, "/data");
    assert_ok(dt_config_bind(c, "none", rows, &s, &err), &err);
    assert_null(s.path);
    assert_ok(dt_config_bind(c, "set", rows, &s, &err), &err);
    snprintf(want, sizeof want, "%s/here", here);
    assert_string_equal(s.path, want);
    dt_config_destroy(c);
    assert_ok(dt_config_parse_further(&c, "text", "[s]\npath = there", 16, &err), &err);
    assert_ok(dt_config_bind(c, "s", rows, &s, &err), &err);
    snprintf(want, sizeof want, "%s/there", here);
    assert_string_equal(s.path, want);
    free(folder);
    free(here);
    dt_config_destroy(c);
}

/* In a process of its own, which gives up the right to look at the folder above the one it is in:
 * 0 where the file was read, and a path in it counts from its own folder. */
static int read_below_a_closed_folder(void)
{
    enum { NOBODY = 65534 };
    if (chmod(dt_temp_path("closed"), 0) != 0 || (geteuid() == 0 && setuid(NOBODY) != 0))
        return 2;
    dt_err err = {0};
    dt_config *c = NULL;
    sample s;
    if (realpath("p.ini", NULL) != NULL)
        return 3; /* nothing is closed here: this test would say nothing */
    if (dt_config_load(&c, "p.ini", &err) != DT_OK ||
        dt_config_bind(c, "s", rows, &s, &err) != DT_OK) {
        fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    const int wrong = strcmp(s.path, "./data");
    dt_config_destroy(c);
    return wrong != 0;
}

static void a_file_is_read_where_a_folder_above_is_closed(void **state)
{
    (void)state;
    assert_int_equal(mkdir(dt_temp_path("closed"), 0755), 0);
    assert_int_equal(mkdir(dt_temp_path("closed/open"), 0755), 0);
    assert_int_equal(chmod(dt_temp_path("closed/open"), 0755), 0); /* whatever the umask */
    FILE *f = fopen(dt_temp_path("closed/open/p.ini"), "w");
    assert_non_null(f);
    fputs("[s]\npath = data\n", f);
    fclose(f);
    assert_int_equal(chmod(dt_temp_path("closed/open/p.ini"), 0644), 0);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0)
        _exit(chdir(dt_temp_path("closed/open")) == 0 ? read_below_a_closed_folder() : 2);
    int how = 0;
    assert_int_equal(waitpid(child, &how, 0), child);
    assert_int_equal(chmod(dt_temp_path("closed"), 0700), 0); /* so that it can be removed */
    assert_true(WIFEXITED(how));
    assert_int_equal(WEXITSTATUS(how), 0);
}

/* ---- what nobody asked for ---- */

static void unknown_names_get_line_and_suggestion(void **state) /* case 1 */
{
    (void)state;
    dt_config *c = parse("[s]\ncuont = 1\nzzzzzz = 2\n[t]\ncount = 1\n[conv c1]\nneeeded = 1\n");
    sample s;
    dt_err err = {0};
    assert_ok(dt_config_bind(c, "s", rows, &s, &err), &err);
    for (int twice = 0; twice < 2; twice++) /* a section of two readers is named once */
        assert_int_equal(dt_config_bind(c, "conv c1", strict_rows, &s, NULL), DT_E_CONFIG);
    const dt_status st = dt_config_check_known(c, &err);
    assert_fails(
        st, DT_E_CONFIG, &err, "t.ini:2: [s] unknown key 'cuont', did you mean 'count'?\n");
    assert_fails(st, DT_E_CONFIG, &err,
        "t.ini:3: [s] unknown key 'zzzzzz', known: count, rate, on, mode, text, path, list, "
        "bytes\n");
    assert_fails(st, DT_E_CONFIG, &err, "t.ini:4: unknown section [t], known: s\n"); /* no layer */
    assert_fails(st, DT_E_CONFIG, &err,
        "t.ini:7: [conv c1] unknown key 'neeeded', did you mean 'needed'?\n");
    assert_int_equal(err.n, 4);
    dt_config_destroy(c);
}

static void two_tables_may_share_a_section(void **state)
{
    (void)state;
    dt_config *c = parse("[s]\ncount = 1\nneeded = 2\n");
    sample s;
    dt_err err = {0};
    assert_ok(dt_config_bind(c, "s", rows, &s, &err), &err);
    assert_fails(dt_config_check_known(c, &err), DT_E_CONFIG, &err, "unknown key 'needed'");
    memset(&err, 0, sizeof err);
    assert_ok(dt_config_bind(c, "s", strict_rows, &s, &err), &err);
    assert_ok(dt_config_check_known(c, &err), &err);
    dt_config_destroy(c);
}

static void free_keys_are_known_once_marked(void **state)
{
    (void)state;
    dt_config *c = parse("[free]\nlayer1.*.conv? = offload\n");
    dt_err err = {0};
    assert_int_equal(dt_config_check_known(c, NULL), DT_E_CONFIG);
    dt_config_mark_known(c, "free");
    dt_config_mark_known(c, "not there");
    assert_ok(dt_config_check_known(c, &err), &err);
    dt_config_destroy(c);
}

static void the_nearest_word_is_found(void **state)
{
    (void)state;
    static const char *const words[] = {"kernel", "stride", "pad", "train", "lr", NULL};
    assert_string_equal(dt_nearest("kernal", words), "kernel");
    assert_string_equal(dt_nearest("trian", words), "train");
    assert_string_equal(dt_nearest("padd", words), "pad");
    assert_string_equal(dt_nearest("Stride", words), "stride");
    assert_null(dt_nearest("x", words));
    assert_null(dt_nearest("rl2", words));
    assert_string_equal(dt_nearest("apd", words), "pad");
    assert_string_equal(dt_nearest("pid", words), "pad");
    assert_string_equal(dt_nearest("la", words), "lr");
    assert_null(dt_nearest("pat", (const char *const[]){"pad", "cat", NULL})); /* which of both? */
    assert_null(dt_nearest("fp4", (const char *const[]){"fp8", "zvc", NULL}));
    assert_null(dt_nearest("rx", words)); /* two letters, both wrong */
    assert_null(dt_nearest("abc", words));
    assert_null(dt_nearest("trace", words));
    assert_string_equal(dt_nearest("TRA_IN", words), "train");
    assert_string_equal(dt_nearest("learning-rate", words), "lr");
    assert_string_equal(dt_nearest("lerning_rate", words), "lr");
    assert_string_equal(dt_nearest("kern", words), "kernel");
    static const char *const parts[] = {"vit_small", "gist_lossless", "rtx3090", "gpt2", NULL};
    assert_string_equal(dt_nearest("vit", parts), "vit_small");
    assert_string_equal(dt_nearest("lossless", parts), "gist_lossless");
    assert_string_equal(dt_nearest("3090", parts), "rtx3090");
    assert_null(dt_nearest("less", parts));
    assert_null(dt_nearest("90", parts));
    assert_null(dt_nearest("momentum", words));
    assert_null(dt_nearest("", words));
    char word[200];
    memset(word, 'k', sizeof word - 1);
    word[sizeof word - 1] = '\0';
    assert_null(dt_nearest(word, words));
}

/* ---- --set ---- */

static void set_replaces_and_adds(void **state)
{
    (void)state;
    dt_config *c = parse("[s]\ncount = 1\n[conv layer1.0.conv1]\nneeded = 1\n");
    dt_err err = {0};
    assert_ok(dt_config_set(c, "s.count=5", &err), &err);
    assert_ok(dt_config_set(c, "s.count = 6", &err), &err);
    assert_ok(dt_config_set(c, "s.text=a ; b = \"c\"", &err), &err);
    assert_ok(dt_config_set(c, "conv  layer1.0.conv1.needed=7", &err), &err);
    assert_ok(dt_config_set(c, "new.count=8", &err), &err);
    sample s;
    assert_ok(dt_config_bind(c, "s", rows, &s, &err), &err);
    assert_int_equal(s.count, 6);
    assert_string_equal(s.text, "a ; b = \"c\"");
    assert_ok(dt_config_bind(c, "conv layer1.0.conv1", strict_rows, &s, &err), &err);
    assert_int_equal(s.needed, 7);
    assert_ok(dt_config_bind(c, "new", rows, &s, &err), &err);
    assert_int_equal(s.count, 8);
    assert_string_equal(dt_config_section(c, 2).file, "--set");
    dt_config_destroy(c);
}

static void set_is_checked_as_the_file_is(void **state) /* case 7 */
{
    (void)state;
    dt_config *c = parse("[s]\ncount = 1\n");
    sample s;
    dt_err err = {0};
    static const char *const malformed[] = {"", "s", "s.count", "count=1", "=1", ".=1", ".count=1",
        "s.=1", "a b c.k=1", "s.a b=1", "s].count=1"};
    for (size_t i = 0; i < DT_COUNT(malformed); i++) {
        char says[64];
        snprintf(says, sizeof says, "--set '%s': write section.key=value", malformed[i]);
        memset(&err, 0, sizeof err);
        assert_fails(dt_config_set(c, malformed[i], &err), DT_E_CONFIG, &err, says);
    }
    memset(&err, 0, sizeof err);
    assert_fails(dt_config_set(c, "s.count=1\n2", &err), DT_E_CONFIG, &err,
        "--set 's.count=1\\n2': byte 10, 0x0A, is a control character");
    memset(&err, 0, sizeof err);
    assert_fails(dt_config_set(c, "s.count=\xFF", &err), DT_E_CONFIG, &err,
        "--set 's.count=\\xFF': byte 9, 0xFF, is not UTF-8");
    memset(&err, 0, sizeof err);
    assert_ok(dt_config_set(c, "s.count=0", &err), &err);
    assert_ok(dt_config_set(c, "s.cuont=1", &err), &err);
    assert_ok(dt_config_set(c, "ss.count=1", &err), &err);
    assert_fails(dt_config_bind(c, "s", rows, &s, &err), DT_E_CONFIG, &err,
        "--set: [s] count = 0: must be 1..64");
    assert_fails(dt_config_check_known(c, &err), DT_E_CONFIG, &err,
        "--set: [s] unknown key 'cuont', did you mean 'count'?");
    assert_fails(DT_E_CONFIG, DT_E_CONFIG, &err, "--set: unknown section [ss]");
    dt_config_destroy(c);
}

static void a_layer_without_its_kind_is_found(void **state)
{
    (void)state;
    dt_config *c = parse("[s]\ncount = 1\n[conv block.c1]\nneeded = 1\n");
    sample s;
    dt_err err = {0};
    assert_ok(dt_config_set(c, "block.c1.needed=2", &err), &err);
    assert_ok(dt_config_bind(c, "conv block.c1", rows, &s, &err), &err);
    assert_fails(dt_config_check_known(c, &err), DT_E_CONFIG, &err,
        "--set: unknown section [block.c1], did you mean 'conv block.c1'? As in "
        "\"conv block.c1.needed\"");
    dt_config_destroy(c);
}

/* ---- dump ---- */

static char *dump(const dt_config *c)
{
    char *text = NULL;
    size_t n;
    FILE *f = open_memstream(&text, &n);
    assert_non_null(f);
    dt_config_dump(c, f);
    fclose(f);
    return text;
}

static void the_dump_has_every_key_with_its_origin(void **state)
{
    (void)state;
    dt_config *c = parse("\n[s]\nrate = 0.25 ; note\ntext = \"a ; b\"\n");
    dt_err err = {0};
    assert_ok(dt_config_set(c, "s.count=7", &err), &err);
    sample s;
    assert_ok(dt_config_bind(c, "s", rows, &s, &err), &err);
    char *text = dump(c);
    assert_string_equal(text, "[s]\n"
                              "count = 7 ; --set\n"
                              "rate = 0.25 ; t.ini:3\n"
                              "on = off ; default\n"
                              "mode = fast ; default\n"
                              "text = \"a ; b\" ; t.ini:4\n"
                              "path =  ; default\n"
                              "list = a,b ; default\n"
                              "bytes = 1MiB ; default\n");
    free(text);
    dt_config_destroy(c);
}

static void a_dump_reads_back_as_the_same_values(void **state)
{
    (void)state;
    dt_config *c = parse("[s]\ncount = 9\nbytes = 1.5GiB\nlist = x , y\n");
    dt_err err = {0};
    assert_ok(dt_config_set(c, "s.text=\" ; # \"\"", &err), &err);
    assert_ok(dt_config_set(c, "s.path=some where", &err), &err);
    sample a, b;
    assert_ok(dt_config_bind(c, "s", rows, &a, &err), &err);
    char *text = dump(c);
    dt_config *again = parse(text);
    assert_ok(dt_config_bind(again, "s", rows, &b, &err), &err);
    assert_ok(dt_config_check_known(again, &err), &err);
    assert_int_equal(b.count, 9);
    assert_true(a.bytes == b.bytes && a.rate <= b.rate && a.rate >= b.rate);
    assert_string_equal(a.text, b.text);
    assert_string_equal(b.text, "\" ; # \"\"");
    assert_string_equal(a.path, b.path);
    assert_string_equal(a.list, b.list);
    dt_config_destroy(again);
    free(text);
    dt_config_destroy(c);
}

/* A file name may be in another encoding, which no line of a configuration may. */
static void a_dump_reads_back_whatever_the_file_is_called(void **state)
{
    (void)state;
    static const char text[] = "[s]\ncount = 9\n";
    dt_config *c, *again;
    dt_err err = {0};
    sample s;
    assert_ok(parse_config(&c, "caf\xE9\n\xC3\xA9.ini", text, sizeof text - 1, &err), &err);
    assert_ok(dt_config_bind(c, "s", rows, &s, &err), &err);
    char *dumped = dump(c);
    assert_non_null(strstr(dumped, "count = 9 ; caf??\xC3\xA9.ini:2\n"));
    assert_ok(parse_config(&again, "again.ini", dumped, strlen(dumped), &err), &err);
    dt_config_destroy(again);
    free(dumped);
    dt_config_destroy(c);
}

static void refuse_dump(const dt_config *c, const char *says)
{
    dt_err err = {0};
    assert_fails(dt_config_check_dump(c, &err), DT_E_CONFIG, &err, says);
}

/* [s] text = a value of @n times a character, by --set. */
static dt_config *with_text(size_t n, char c, sample *s)
{
    char set[2 * DT_LINE_BYTES] = "s.text=";
    dt_err err = {0};
    memset(set + strlen("s.text="), c, n);
    dt_config *config = parse("[s]\ncount = 9\n");
    assert_ok(dt_config_set(config, set, &err), &err);
    assert_ok(dt_config_bind(config, "s", rows, s, &err), &err);
    return config;
}

static void a_line_too_long_for_a_dump_is_refused(void **state)
{
    (void)state;
    enum { MOST = DT_LINE_BYTES - 7 }; /* "text = " stands before it */
    dt_err err = {0};
    sample a, b;
    dt_config *c = with_text(MOST + 1, 'x', &a);
    refuse_dump(c,
        "--set: [s] text: it is 8186 bytes long, and 8193 as a line of a configuration, of which "
        "at most 8192 are read");
    dt_config_destroy(c);
    c = with_text(MOST / 2, '"', &a); /* all of them are doubled */
    refuse_dump(c, "--set: [s] text: it is 4092 bytes long, and 8193 as a line");
    dt_config_destroy(c);
    for (size_t n = MOST - 12; n <= MOST;
         n++) { /* with a note of where it comes from, and without */
        c = with_text(n, 'x', &a);
        assert_ok(dt_config_check_dump(c, &err), &err);
        char *text = dump(c);
        dt_config *again = parse(text);
        assert_ok(dt_config_bind(again, "s", rows, &b, &err), &err);
        assert_string_equal(a.text, b.text);
        dt_config_destroy(again);
        free(text);
        dt_config_destroy(c);
    }
    char line[DT_LINE_BYTES + 5] = "[s]\ntext="; /* read without blanks, and written with them */
    memset(line + strlen(line), 'x', DT_LINE_BYTES - strlen("text="));
    c = parse(line);
    assert_ok(dt_config_bind(c, "s", rows, &a, &err), &err);
    refuse_dump(c, "t.ini:2: [s] text: it is 8187 bytes long, and 8194 as a line");
    dt_config_destroy(c);
}

/* Folders may be called what no line may hold. */
static void a_path_that_no_line_holds_is_refused(void **state)
{
    (void)state;
    static const char *const folders[][2] = {
        {"odd\nname", "a control character"}, {"caf\xE9", "0xE9, is not UTF-8"}};
    for (size_t i = 0; i < DT_COUNT(folders); i++) {
        char name[64];
        assert_int_equal(mkdir(dt_temp_path(folders[i][0]), 0700), 0);
        snprintf(name, sizeof name, "%s/p.ini", folders[i][0]);
        const char *path = dt_temp_path(name);
        FILE *f = fopen(path, "w");
        assert_non_null(f);
        fputs("[s]\npath = data\n", f);
        fclose(f);
        dt_err err = {0};
        dt_config *c = NULL;
        sample s;
        assert_ok(dt_config_load(&c, path, &err), &err);
        assert_ok(dt_config_bind(c, "s", rows, &s, &err), &err);
        refuse_dump(c, folders[i][1]);
        refuse_dump(c, "p.ini:2: [s] path = /");
        dt_config_destroy(c);
    }
}

static void a_key_that_would_be_no_key_is_refused(void **state)
{
    (void)state;
    static const char *const sets[] = {"#a=keep", ";a=keep", "[ab]*=keep"};
    for (size_t i = 0; i < DT_COUNT(sets); i++) {
        char set[64], says[64];
        dt_err err = {0};
        dt_config *c = parse("[s]\ncount = 9\n");
        snprintf(set, sizeof set, DT_CONFIG_GLOBS ".%s", sets[i]);
        assert_ok(dt_config_set(c, set, &err), &err);
        dt_config_mark_known(c, DT_CONFIG_GLOBS);
        snprintf(says, sizeof says, ": no key begins with '%c'", sets[i][0]);
        refuse_dump(c, says);
        dt_config_destroy(c);
    }
}

static void printed_values_read_back_to_the_last_bit(void **state)
{
    (void)state;
    static const double reals[] = {0, 1, 0.1, 1.0 / 3, 1e-300, 0.30000000000000004};
    static const uint64_t sizes[] = {1, 1000, 1024, 1500, 1 << 20, 12345678901, UINT64_C(1) << 40};
    for (size_t i = 0; i < DT_COUNT(reals); i++)
        print_and_read(&rows[1], &(sample){.rate = reals[i]});
    for (size_t i = 0; i < DT_COUNT(sizes); i++)
        print_and_read(&rows[7], &(sample){.bytes = sizes[i]});
    print_and_read(&rows[0], &(sample){.count = 64});
}

/* ---- a run's options ---- */

static dt_status bind_run(const char *text, dt_run_options *o, dt_err *err)
{
    dt_config *c = parse(text);
    const dt_status st = dt_run_options_bind(c, o, err);
    o->model.name = o->model.name != NULL ? "given" : NULL; /* strings end with the config */
    dt_config_destroy(c);
    return st;
}

static void refuse_run(const char *text, const char *says)
{
    dt_run_options o;
    dt_err err = {0};
    assert_fails(bind_run(text, &o, &err), DT_E_CONFIG, &err, says);
}

static void a_run_has_defaults(void **state)
{
    (void)state;
    dt_config *c = parse("[train]\n");
    dt_run_options o;
    dt_err err = {0};
    assert_ok(dt_run_options_bind(c, &o, &err), &err);
    assert_string_equal(o.model.name, "resnet50");
    assert_string_equal(o.data.source, "synthetic");
    assert_int_equal(o.data.n_mean, 0);
    assert_int_equal(o.train.batch, 32);
    assert_int_equal(o.train.micro_batch, 32);
    assert_int_equal(o.train.steps, 100);
    assert_int_equal(o.train.epochs, 0);
    assert_string_equal(o.memory.policy, "keep_all");
    assert_true(o.memory.device_budget == 0);
    assert_true(o.model.dropout < 0);
    assert_null(o.run.dir);
    assert_ok(dt_config_check_known(c, &err), &err);
    dt_config_destroy(c);
}

static void batches_must_fit_together(void **state) /* case 5 */
{
    (void)state;
    dt_run_options o;
    dt_err err = {0};
    assert_ok(bind_run("[train]\nbatch = 24\nmicro_batch = 8\n", &o, &err), &err);
    assert_int_equal(o.train.micro_batch, 8);
    refuse_run("[train]\nbatch = 32\nmicro_batch = 64\n",
        "t.ini:3: [train] micro_batch = 64 does not divide batch = 32; micro_batch = 32 with batch "
        "= 32 does");
    refuse_run("[train]\nbatch = 32\nmicro_batch = 24\n", "micro_batch = 16 with batch = 32 does");
    refuse_run("[train]\nbatch = 0\n", "t.ini:2: [train] batch = 0: must be 1..1048576");
}

static void a_run_has_a_length(void **state) /* case 5 */
{
    (void)state;
    dt_run_options o;
    dt_err err = {0};
    assert_ok(bind_run("[train]\nepochs = 3\n", &o, &err), &err);
    assert_int_equal(o.train.steps, 0);
    assert_int_equal(o.train.epochs, 3);
    assert_ok(bind_run("[train]\nsteps = 5\nepochs = 3\n", &o, &err), &err);
    assert_int_equal(o.train.steps, 5);
    assert_int_equal(o.train.epochs, 3);
}

static void warm_up_is_in_steps_or_epochs(void **state)
{
    (void)state;
    dt_run_options o;
    dt_err err = {0};
    assert_ok(bind_run("[train]\nwarmup = 500\n", &o, &err), &err);
    assert_true(o.train.warmup_steps == 500 && o.train.warmup_epochs == 0);
    assert_ok(bind_run("[train]\nwarmup = 5ep\n", &o, &err), &err);
    assert_true(o.train.warmup_steps == 0 && o.train.warmup_epochs == 5);
    static const char *const bad[] = {"ep", "-1", "-1ep", "1.5", "5 epochs", "5epp", "2000000000",
        "99999999999999999999999999999999999999999999ep", "00000000000000000000000000000000015"};
    for (size_t i = 0; i < DT_COUNT(bad); i++) {
        char text[128], want[160];
        snprintf(text, sizeof text, "[train]\nwarmup = %s\n", bad[i]);
        snprintf(want, sizeof want, "t.ini:2: [train] warmup: '%.40s'", bad[i]);
        refuse_run(text, want);
    }
}

static void options_of_learning_that_do_nothing_are_refused(void **state)
{
    (void)state;
    refuse_run("[train]\nfinal_lr = 0.1\n", "t.ini:2: [train] final_lr needs schedule = cosine");
    refuse_run("[train]\nnesterov = on\nmomentum = 0\n", "t.ini:2: [train] nesterov needs");
    refuse_run("[train]\noptimizer = adam\nnesterov = on\n", "t.ini:3: [train] nesterov needs");
}

static void counts_are_whole_numbers(void **state)
{
    (void)state;
    dt_run_options o;
    dt_err err = {0};
    assert_ok(bind_run("[model]\ncounts = 6, 32 ,596,6\n", &o, &err), &err);
    assert_int_equal(o.model.n_count, 4);
    assert_int_equal(o.model.count[2], 596);
    assert_ok(bind_run("[model]\nname = vgg16\n", &o, &err), &err);
    assert_int_equal(o.model.n_count, 0);
    refuse_run("[model]\ncounts = 3,0\n", "t.ini:2: [model] counts: '0': at most 8 whole numbers");
    refuse_run("[model]\ncounts = 3,-4\n", "counts: '-4'");
    refuse_run("[model]\ncounts = 3,,4\n", "[model] counts = 3,,4: an item of the list is empty");
    refuse_run("[model]\ncounts = 1,2,3,4,5,6,7,8,9\n", "counts: '9'");
}

static void a_step_schedule_has_milestones(void **state)
{
    (void)state;
    dt_run_options o;
    dt_err err = {0};
    assert_ok(bind_run("[train]\nschedule = step\nmilestones = 30, 60 ,80\n", &o, &err), &err);
    assert_int_equal(o.train.n_milestone, 3);
    assert_int_equal(o.train.milestone[0], 30);
    assert_int_equal(o.train.milestone[2], 80);
    refuse_run("[train]\nschedule = step\n", "t.ini:2: [train] schedule = step needs milestones");
    refuse_run("[train]\nmilestones = 3\n", "t.ini:2: [train] milestones need schedule = step");
    refuse_run("[train]\nschedule = step\nmilestones = 3,3\n", "milestones: '3'");
    refuse_run("[train]\nschedule = step\nmilestones = 00000000000000000000000000000030\n",
        "milestones: '0000000000000000000000000000...'"); /* not 3, its first 31 digits */
    refuse_run("[train]\nschedule = step\nmilestones = 0,3\n", "milestones: '0'");
    refuse_run("[train]\nschedule = step\nmilestones = 3,x\n", "t.ini:3: [train] milestones: 'x'");
    char many[512];
    int n = snprintf(many, sizeof many, "[train]\nschedule = step\nmilestones = 1");
    for (int i = 2; i <= DT_RUN_MILESTONES + 1; i++)
        n += snprintf(many + n, sizeof many - (size_t)n, ",%d", i);
    refuse_run(many, "milestones: '65': at most 64");
}

static void means_are_one_number_or_three(void **state)
{
    (void)state;
    dt_run_options o;
    dt_err err = {0};
    assert_ok(bind_run("[data]\nmean = 0.5\nstd = 0.25, 0.5, 1\n", &o, &err), &err);
    assert_int_equal(o.data.n_mean, 3);
    assert_true(o.data.mean[2] >= 0.5f && o.data.mean[2] <= 0.5f);
    assert_true(o.data.std[1] >= 0.5f && o.data.std[1] <= 0.5f);
    refuse_run("[data]\nmean = 1,2\n", "t.ini:2: [data] mean and std take one number or three");
    refuse_run("[data]\nmean = 1,2,3,4\n", "mean: '4'");
    refuse_run("[data]\nstd = 0\n", "t.ini:2: [data] std: '0'");
    refuse_run("[data]\nstd = x\n", "std: 'x'");
}

static void a_network_is_ours_or_made_of_sections(void **state)
{
    (void)state;
    dt_run_options o;
    dt_err err = {0};
    assert_ok(bind_run("[train]\n[conv c1]\n", &o, &err), &err);
    assert_null(o.model.name);
    refuse_run("[model]\nname = vgg16\n[conv c1]\n",
        "t.ini:2: [model] name = vgg16, but line 3 has [conv c1]");
    dt_config *c = parse("[model]\nname = vgg16\n");
    assert_ok(dt_config_set(c, "conv c1.out=4", &err), &err);
    assert_fails(dt_run_options_bind(c, &o, &err), DT_E_CONFIG, &err,
        "t.ini:2: [model] name = vgg16, but --set has [conv c1]");
    dt_config_destroy(c);
    refuse_run("[model]\ndropout = -0.5\n", "dropout must be 0..0.99, or -1");
}

static void problems_of_all_sections_come_at_once(void **state) /* case 1 */
{
    (void)state;
    static const char text[] =
        "[model]\nwidth = -1\n[train]\nlr = -1\nmicro_batch = 5\nbatch = 8\n[device]\nkind = gpu\n";
    refuse_run(text, "t.ini:2: [model] width = -1: must be 0..65536");
    refuse_run(text, "t.ini:4: [train] lr = -1: must be 1e-12..1e+06");
    refuse_run(text, "t.ini:5: [train] micro_batch = 5");
    refuse_run(text, "t.ini:8: [device] kind = gpu: must be one of auto, cpu, cuda");
}

static void the_reference_names_every_key(void **state)
{
    (void)state;
    char *text = NULL;
    size_t n;
    FILE *f = open_memstream(&text, &n);
    assert_non_null(f);
    dt_run_options_help(f);
    fclose(f);
    for (const dt_run_section *s = dt_run_sections; s->name != NULL; s++)
        for (const dt_opt *row = s->rows; row->key != NULL; row++) {
            char cell[64];
            snprintf(cell, sizeof cell, "| %s ", row->key);
            assert_non_null(strstr(text, cell));
            assert_non_null(row->help);
        }
    assert_non_null(strstr(text, "## [train]"));
    assert_non_null(strstr(text, "1..1048576 samples"));
    free(text);
}

/* ---- memory ---- */

static dt_status whole_round(dt_err *err)
{
    static const char text[] = "[s]\ncount = 2\nlist = a , b\n[conv c1]\nneeded = 1\n[data]\n";
    dt_config *c = NULL;
    sample s;
    dt_run_options o;
    dt_status st = parse_config(&c, "t.ini", text, sizeof text - 1, err);
    if (st == DT_OK)
        st = dt_config_set(c, "new.count=3", err);
    if (st == DT_OK)
        st = dt_config_set(c, "data.path=x", err);
    if (st == DT_OK)
        st = dt_config_bind(c, "s", rows, &s, err);
    if (st == DT_OK)
        st = dt_config_bind(c, "new", rows, &s, err);
    if (st == DT_OK)
        st = dt_config_bind(c, "conv c1", strict_rows, &s, err);
    if (st == DT_OK)
        st = dt_run_options_bind(c, &o, err);
    if (st == DT_OK)
        st = dt_config_check_known(c, err);
    if (st == DT_OK)
        st = dt_config_check_dump(c, err);
    dt_config_destroy(c);
    return st;
}

static void a_failed_allocation_is_reported(void **state)
{
    (void)state;
    const long before = dti_alloc_live();
    for (long k = 1;; k++) {
        dt_err err = {0};
        dti_alloc_fail_at(k);
        const dt_status st = whole_round(&err);
        dti_alloc_fail_at(0);
        assert_int_equal(dti_alloc_live(), before);
        if (st == DT_OK) {
            assert_true(k > 20);
            break;
        }
        assert_fails(st, DT_E_NOMEM, &err, "no memory");
    }
}

#define T(f) cmocka_unit_test(f)
/* As many keys as a hostile section may hold: each is found, and the last word on it holds. */
static void many_keys_are_found(void **state)
{
    (void)state;
    enum { KEYS = 60000 };
    size_t n = 0;
    int line;
    const char *file;
    char *text = NULL, key[32], value[32];
    FILE *f = open_memstream(&text, &n);
    assert_non_null(f);
    fputs("[many]\n", f);
    for (int i = 0; i < KEYS; i++)
        fprintf(f, "key%d = %d\n", i, i);
    assert_int_equal(fclose(f), 0);
    dt_config *c = NULL;
    dt_err err = {0};
    assert_ok(parse_config(&c, "many.ini", text, n, &err), &err);
    free(text);
    assert_ok(dt_config_set(c, "many.key777=set", &err), &err);
    for (int i = 0; i < KEYS; i++) {
        snprintf(key, sizeof key, "key%d", i);
        snprintf(value, sizeof value, "%d", i);
        assert_string_equal(dt_config_get(c, "many", key, &file, &line), i == 777 ? "set" : value);
    }
    assert_null(dt_config_get(c, "many", "key60000", &file, &line));
    dt_config_destroy(c);
}

DT_TEST_GROUP(config)
{
    const struct CMUnitTest tests[] = {T(many_keys_are_found),
        T(values_comments_and_blanks_are_told_apart), T(crlf_and_a_byte_order_mark_are_accepted),
        T(sections_have_kind_name_and_line), T(lines_that_mean_nothing_are_refused),
        T(duplicates_name_both_lines), T(all_problems_are_reported_at_once), T(bad_files_are_named),
        T(long_lines_are_refused_and_never_cut), T(long_names_are_kept_whole),
        T(many_keys_and_sections_are_quick), T(many_unknown_keys_are_counted_quickly),
        T(many_layers_are_bound_checked_and_written_quickly), T(whole_numbers_are_strict),
        T(sides_are_strict), T(bytes_are_strict), T(reals_are_strict),
        T(reals_do_not_depend_on_the_locale), T(units_do_not_depend_on_the_locale),
        T(words_are_checked_and_suggested), T(lists_lose_the_blanks_around_commas),
        T(defaults_fill_what_is_not_given), T(a_missing_required_key_is_named),
        T(a_misspelt_required_key_is_not_missing_as_well), T(every_wrong_value_is_reported),
        T(paths_count_from_where_they_were_written),
        T(a_file_is_read_where_a_folder_above_is_closed), T(unknown_names_get_line_and_suggestion),
        T(two_tables_may_share_a_section), T(free_keys_are_known_once_marked),
        T(the_nearest_word_is_found), T(set_replaces_and_adds), T(set_is_checked_as_the_file_is),
        T(the_nearest_word_is_found), T(set_replaces_and_adds),
        T(a_layer_without_its_kind_is_found), T(the_dump_has_every_key_with_its_origin),
        T(a_dump_reads_back_as_the_same_values), T(a_dump_reads_back_whatever_the_file_is_called),
        T(a_line_too_long_for_a_dump_is_refused), T(a_path_that_no_line_holds_is_refused),
        T(a_key_that_would_be_no_key_is_refused), T(printed_values_read_back_to_the_last_bit),
        T(a_run_has_defaults), T(batches_must_fit_together), T(a_run_has_a_length),
        T(counts_are_whole_numbers), T(a_step_schedule_has_milestones),
        T(warm_up_is_in_steps_or_epochs), T(options_of_learning_that_do_nothing_are_refused),
        T(means_are_one_number_or_three), T(a_network_is_ours_or_made_of_sections),
        T(problems_of_all_sections_come_at_once), T(the_reference_names_every_key),
        T(a_failed_allocation_is_reported)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
