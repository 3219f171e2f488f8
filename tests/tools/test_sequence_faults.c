/* Text that is no data for a network of sequences, and weights that are not a transformer's:
 * refused as in test_faults. Numbers are those of docs/faults.md. */
#include "tests/fixture/refusal.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/base/alloc.h"
#include "tests/fixture/workspace.h"

/* 9 characters a sample; 16 weights. */
#define TINY                                                                                       \
    "[model]\nname = gpt2\nlayers = 1\nheads = 2\nwidth = 8\ncontext = 8\nvocab = 16\n[data]\n"    \
    "source = text\npath = good.txt\n[train]\nbatch = 2\nsteps = 2\n[run]\ndir = out\n"

/* 320 characters of 8 kinds. */
static void put_good_text(void)
{
    char text[321] = "";
    for (size_t i = 0; i + 1 < sizeof text; i++)
        text[i] = (char)('a' + i % 8);
    put_text("good.txt", text);
}

/* --- text --- */

#define PATH(path) "--set data.path=" path
#define EVAL(path) "--set data.eval_path=" path

static void text_that_is_not_there(void **state) /* cases 16 and 24 */
{
    NEED_BINARY();
    put_good_text();
    put_folder(in_workspace("folder"));
    assert_int_equal(mkfifo(in_workspace("pipe"), 0600), 0);
    assert_int_equal(symlink("loop", in_workspace("loop")), 0);
    static const refusal cases[] = {
        {NULL, PATH("none.txt"), DT_E_DATA,
            {"/w/none.txt: cannot open: No such file or directory",
                "--set: [data] path = none.txt"}},
        {NULL, PATH("none/tinyshakespeare.txt"), DT_E_DATA,
            {"cannot open: ", "`tools/get_data tinyshakespeare` fetches"}},
        {NULL, PATH(""), DT_E_CONFIG,
            {"data.path is missing: data.source = text reads files; set data.path = FILE"}},
        {NULL, PATH("folder"), DT_E_DATA, {"/w/folder: not a regular file"}},
        {NULL, PATH("pipe"), DT_E_DATA, {"/w/pipe: not a regular file"}},
        {NULL, PATH("loop"), DT_E_DATA, {"/w/loop: cannot open: Too many levels of symbolic"}},
        {NULL, EVAL("none.txt"), DT_E_DATA,
            {"/w/none.txt: cannot open: ", "--set: [data] eval_path = none.txt"}},
        {NULL, EVAL("folder"), DT_E_DATA, {"/w/folder: not a regular file"}},
    };
    refuse_all(cases, DT_COUNT(cases));
    ran r = cli_run("c.ini --set data.path=none.txt", NULL);
    assert_has_not(r.err, "get_data");
    cli_done(&r);
    remove_all("pipe");
    remove_all("loop");
}

static void text_of_a_wrong_length(void **state) /* case 16 */
{
    NEED_BINARY();
    put_good_text();
    put_text("empty.txt", "");
    put_text("short.txt", "abcdabcd");
    put_text("held.txt", "abcdabcdabcdabcdabcdabcdabcdabcdabcdabcd");
    static const refusal cases[] = {
        {NULL, PATH("empty.txt"), DT_E_DATA,
            {"/w/empty.txt: 0 bytes leave 0 to train on, and a sample takes 9; take a longer file",
                "--set: [data] path = empty.txt"}},
        {NULL, PATH("short.txt"), DT_E_DATA,
            {"/w/short.txt: 8 bytes leave 8 to train on, and a sample takes 9; take a longer file "
             "or "
             "a smaller model.context"}},
        {NULL, PATH("held.txt"), DT_E_DATA, {"/w/held.txt: 40 bytes leave 4 to evaluate on"}},
        {NULL, "--set model.context=40", DT_E_DATA,
            {"/w/good.txt: 320 bytes leave 32 to evaluate on, and a sample takes 41",
                "c.ini:10: [data] path = good.txt"}},
        {NULL, EVAL("short.txt"), DT_E_DATA,
            {"/w/short.txt: 8 bytes leave 8 to evaluate on, and a sample takes 9",
                "--set: [data] eval_path = short.txt"}},
    };
    refuse_all(cases, DT_COUNT(cases));
}

/* Refused by its length; nobody wants to look at 4 GiB before and after. */
static void text_that_is_too_long(void **state) /* case 16 */
{
    NEED_BINARY();
    put_text("c.ini", TINY);
    put_text("huge.txt", "");
    assert_int_equal(truncate(in_workspace("huge.txt"), ((off_t)1 << 32) + 1), 0);
    ran r = cli_run("c.ini " PATH("huge.txt"), NULL);
    remove_all("huge.txt");
    assert_code(&r, DT_E_DATA);
    assert_has(r.err, "/w/huge.txt: has 4294967297 bytes, at most 4294967296 are read");
    assert_has(r.err, "--set: [data] path = huge.txt");
    assert_false(is_there("out"));
    cli_done(&r);
}

static void text_of_too_many_kinds_of_characters(void **state) /* case 20 */
{
    NEED_BINARY();
    char all[4 * 256];
    put_good_text();
    for (size_t i = 0; i < sizeof all; i++)
        all[i] = (char)i;
    put_file(in_workspace("all.txt"), all, sizeof all);
    put_text("other.txt", "abc\nabcdefghabcdefgh");
    static const refusal cases[] = {
        {NULL, PATH("all.txt"), DT_E_DATA,
            {"/w/all.txt: has 256 different bytes, and the network a vocabulary of 16; set "
             "model.vocab = 256 or more",
                "--set: [data] path = all.txt"}},
        {NULL, "--set model.vocab=7", DT_E_DATA,
            {"/w/good.txt: has 8 different bytes", "set model.vocab = 8 or more"}},
        {NULL, EVAL("other.txt"), DT_E_DATA,
            {"/w/other.txt: line 1, offset 3: byte 0x0A does not occur in ", "/w/good.txt, whose",
                "--set: [data] eval_path = other.txt"}},
        {NULL, "--set data.source=images", DT_E_CONFIG, {"use data.source = text"}},
    };
    refuse_all(cases, DT_COUNT(cases));
}

/* A character is a byte: what no encoding knows, and NUL, is text like any other. */
static void bytes_that_are_no_utf8_are_characters(void **state)
{
    NEED_BINARY();
    static const char some[] = {'a', '\0', (char)0xFF, (char)0xC3, '\r', '\n', (char)0x80};
    char bytes[40 * sizeof some];
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = some[i % sizeof some];
    put_file(in_workspace("bytes.txt"), bytes, sizeof bytes);
    put_text("c.ini", TINY);
    ran r = cli_run("c.ini " PATH("bytes.txt"), NULL);
    assert_code(&r, 0);
    assert_has(r.err, "252 characters of 7 kinds");
    cli_done(&r);
}

static void text_that_may_not_be_read(void **state) /* case 27 */
{
    NEED_BINARY();
    put_good_text();
    put_text("c.ini", TINY);
    put_text("secret.txt", "abc");
    assert_int_equal(chmod(in_workspace("secret.txt"), 0), 0);
    const bool can = nobody_can_run();
    cli.child = become_nobody;
    ran r = cli_run("c.ini " PATH("secret.txt"), NULL);
    cli.child = NULL;
    if (can) {
        assert_code(&r, DT_E_DATA);
        assert_has(r.err, "/w/secret.txt: cannot open: Permission denied");
        assert_has(r.err, "--set: [data] path = secret.txt");
        assert_false(is_there("out"));
    }
    cli_done(&r);
    remove_all("secret.txt");
    if (!can)
        skip();
}

/* --- weights --- */

/* A tensor of a file: @shape as JSON has it; @bytes all zero. */
typedef struct tensor {
    const char *name, *type, *shape;
    size_t bytes;
} tensor;

/* All that the network has, in the names and layouts of GPT2Model. */
static const tensor whole[] = {
    {"wte.weight", "F32", "16,8", 512},
    {"wpe.weight", "F32", "8,8", 256},
    {"h.0.ln_1.weight", "F32", "8", 32},
    {"h.0.ln_1.bias", "F32", "8", 32},
    {"h.0.attn.c_attn.weight", "F32", "8,24", 768},
    {"h.0.attn.c_attn.bias", "F32", "24", 96},
    {"h.0.attn.c_proj.weight", "F32", "8,8", 256},
    {"h.0.attn.c_proj.bias", "F32", "8", 32},
    {"h.0.ln_2.weight", "F32", "8", 32},
    {"h.0.ln_2.bias", "F32", "8", 32},
    {"h.0.mlp.c_fc.weight", "F32", "8,32", 1024},
    {"h.0.mlp.c_fc.bias", "F32", "32", 128},
    {"h.0.mlp.c_proj.weight", "F32", "32,8", 1024},
    {"h.0.mlp.c_proj.bias", "F32", "8", 32},
    {"ln_f.weight", "F32", "8", 32},
    {"ln_f.bias", "F32", "8", 32},
};

enum { MOST_TENSORS = DT_COUNT(whole) + 2, HEADER_BYTES = 4096 };

/* One file that is not whole: tensors put in the place of those of their name, or added; one that
 * is left out, a word before every name, bytes cut off at the end. */
typedef struct flaw {
    tensor now[2];
    const char *without, *prefix;
    size_t cut;
    const char *want[3];
} flaw;

static size_t spoil(const flaw *f, tensor all[MOST_TENSORS])
{
    size_t n = 0;
    for (size_t i = 0; i < DT_COUNT(whole); i++)
        if (f->without == NULL || strcmp(whole[i].name, f->without) != 0)
            all[n++] = whole[i];
    for (size_t k = 0; k < DT_COUNT(f->now) && f->now[k].name != NULL; k++) {
        size_t at = 0;
        while (at < n && strcmp(all[at].name, f->now[k].name) != 0)
            at++;
        all[at] = f->now[k];
        n += at == n;
    }
    return n;
}

static void put_flawed(const flaw *f)
{
    tensor all[MOST_TENSORS];
    char header[HEADER_BYTES] = "{";
    const size_t n = spoil(f, all);
    size_t at = 0, text = 1;
    for (size_t i = 0; i < n; i++) {
        text += (size_t)snprintf(header + text, sizeof header - text,
            "%s\"%s%s\":{\"dtype\":\"%s\",\"shape\":[%s],\"data_offsets\":[%zu,%zu]}",
            i > 0 ? "," : "", f->prefix != NULL ? f->prefix : "", all[i].name, all[i].type,
            all[i].shape, at, at + all[i].bytes);
        at += all[i].bytes;
    }
    snprintf(header + text, sizeof header - text, "}");
    put_tensors("w.safetensors", 0, header, at - f->cut);
}

static void refuse_flawed(const flaw *f, size_t n)
{
    put_good_text();
    for (size_t i = 0; i < n; i++) {
        refusal r = {NULL, "--set model.weights=w.safetensors", DT_E_DATA, {NULL}};
        put_flawed(&f[i]);
        memcpy(r.want, f[i].want, sizeof f[i].want);
        r.want[3] = "--set: [model] weights = w.safetensors";
        for (int k = 2; k > 0 && r.want[k] == NULL; k--) /* no gap in the list */
            r.want[k] = r.want[3];
        refuse(&r);
    }
}

/* Else the others would be refused for that. */
static void the_whole_file_is_taken(void **state)
{
    NEED_BINARY();
    put_good_text();
    put_flawed(&(flaw){0});
    put_text("c.ini", TINY);
    ran r = cli_run("c.ini --set model.weights=w.safetensors", NULL);
    assert_code(&r, 0);
    cli_done(&r);
}

#define ONLY(name, type, shape, bytes) {{name, type, shape, bytes}}, NULL, NULL, 0

static void weights_of_other_shapes(void **state) /* case 47 */
{
    NEED_BINARY();
    static const flaw cases[] = {
        {ONLY("h.0.ln_1.weight", "F32", "4", 16),
            {"1 of another shape", "h.0.ln_1.weight: file [4], network [8]",
                "compare model.name, model.width and model.context"}},
        {ONLY("wpe.weight", "F32", "32,8", 1024),
            {"wpe.weight: file [32, 8], network [8, 8]", "model.context"}},
        {ONLY("wte.weight", "F32", "20,8", 640),
            {"wte.weight: file [20, 8], network [16, 8]", "set model.vocab = 20"}},
        {ONLY("h.0.attn.c_proj.bias", "F32", "8,1", 32),
            {"h.0.attn.c_proj.bias: file [8, 1], network [8]"}},
        {{{"h.0.attn.c_attn.weight", "F32", "24,8", 768},
             {"h.0.mlp.c_fc.weight", "F32", "32,8", 1024}},
            NULL, NULL, 0,
            {"2 of another shape", "h.0.attn.c_attn.weight: file [24, 8], network [8, 24]",
                "2 of them are turned: write v.t().contiguous()"}},
    };
    refuse_flawed(cases, DT_COUNT(cases));
}

static void weights_that_are_missing_or_too_many(void **state) /* case 47 */
{
    NEED_BINARY();
    static const flaw cases[] = {
        {{{0}}, "wte.weight", NULL, 0,
            {"1 missing from the file", "missing  wte.weight [16, 8]", "model.layers"}},
        {{{0}}, "h.0.ln_2.bias", NULL, 0, {"missing  h.0.ln_2.bias [8]", "model.layers"}},
        {{{0}}, "h.0.attn.c_attn.weight", NULL, 0, {"missing  h.0.attn.c_attn.weight [8, 24]"}},
        {ONLY("lm_head.weight", "F32", "16,8", 512),
            {"1 that the network does not have", "unknown  lm_head.weight [16, 8]",
                "write the file without it"}},
        {{{"h.0.attn.bias", "U8", "1,1,8,8", 64}, {"h.0.attn.masked_bias", "F32", "", 4}}, NULL,
            NULL, 0,
            {"2 that the network does not have", "unknown  h.0.attn.bias [1, 1, 8, 8]",
                "write the file without them"}},
        {ONLY("h.1.ln_1.weight", "F32", "8", 32), {"unknown  h.1.ln_1.weight [8]"}},
        {{{0}}, NULL, "transformer.", 0,
            {"16 missing from the file, 16 that the network does not have",
                "the file's names have a prefix ('transformer.wte.weight' for 'wte.weight'): write "
                "it without"}},
    };
    refuse_flawed(cases, DT_COUNT(cases));
}

static void weights_of_other_types_or_cut(void **state) /* cases 46 and 48 */
{
    NEED_BINARY();
    static const flaw cases[] = {
        {ONLY("h.0.ln_1.weight", "F16", "8", 16),
            {"1 of another type", "h.0.ln_1.weight: F16, must be F32", "v.float()"}},
        {ONLY("wte.weight", "I64", "16,8", 1024), {"wte.weight: I64, must be F32", "v.float()"}},
        {ONLY("h.0.attn.c_attn.weight", "BF16", "8,24", 384),
            {"h.0.attn.c_attn.weight: BF16, must be F32"}},
        {ONLY("wpe.weight", "F32", "8,8", 255),
            {"'wpe.weight': shape and dtype F32 need 256 bytes, data_offsets give 255"}},
        {{{0}}, NULL, NULL, 33,
            {"/w/w.safetensors: tensor 'ln_f.weight': data_offsets", "the file is truncated"}},
        {{{0}}, NULL, NULL, 4320, {"the 0 bytes of data; the file is truncated or damaged"}},
    };
    refuse_flawed(cases, DT_COUNT(cases));
}

static void weights_of_which_one_is_not_finite(void **state) /* case 48 */
{
    NEED_BINARY();
    static const struct {
        long from_end; /* the last tensor's bias lies there */
        const char *want;
    } cases[] = {{-4, "w.safetensors': ln_f.bias[7] is nan; weights must be finite"},
        {-64 - 32 - 1024 - 4, "w.safetensors': h.0.mlp.c_fc.bias[31] is nan"}};
    for (size_t i = 0; i < DT_COUNT(cases); i++) {
        const uint32_t nan_bits = 0x7FC00000;
        put_good_text();
        put_flawed(&(flaw){0});
        const int fd = open(in_workspace("w.safetensors"), O_RDWR | O_CLOEXEC);
        assert_true(fd >= 0);
        assert_true(lseek(fd, cases[i].from_end, SEEK_END) > 0);
        assert_int_equal(write(fd, &nan_bits, sizeof nan_bits), (ssize_t)sizeof nan_bits);
        assert_int_equal(close(fd), 0);
        refuse(&(refusal){NULL, "--set model.weights=w.safetensors", DT_E_DATA, {cases[i].want}});
    }
}

/* What a test that failed may have left. */
static int clean(void **state)
{
    static const char *const all[] = {"huge.txt", "secret.txt", "pipe", "loop"};
    for (size_t i = 0; cli_binary() != NULL && i < DT_COUNT(all); i++)
        remove_all(all[i]);
    return clean_workspace(state);
}

#define T(f) cmocka_unit_test_teardown(f, clean)
DT_TEST_GROUP(sequence_faults)
{
    const struct CMUnitTest tests[] = {
        T(text_that_is_not_there),
        T(text_of_a_wrong_length),
        T(text_that_is_too_long),
        T(text_of_too_many_kinds_of_characters),
        T(bytes_that_are_no_utf8_are_characters),
        T(text_that_may_not_be_read),
        T(the_whole_file_is_taken),
        T(weights_of_other_shapes),
        T(weights_that_are_missing_or_too_many),
        T(weights_of_other_types_or_cut),
        T(weights_of_which_one_is_not_finite),
    };
    refusal_ini = TINY;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
