/* Runs that must be refused: by the program itself, with the documented exit code, a message that
 * names the cause, and nothing changed on disk. Numbers are those of docs/faults.md. */
#include "tests/fixture/refusal.h"

#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/base/alloc.h"
#include "tests/fixture/data_files.h"
#include "tests/fixture/workspace.h"

/* 98 parameters over pictures of 4x4x3. */
#define TINY                                                                                       \
    "[model]\nimage = 4\nclasses = 2\n[fc f]\nout = 2\n[data]\nsamples = 64\n[train]\n"            \
    "batch = 16\nsteps = 2\n[run]\ndir = out\n"

/* --- configurations --- */

static void wrong_configurations(void **state) /* cases 1 to 5 and 10 */
{
    NEED_BINARY();
#define MLP "[model]\nname = mlp\n"
    static const refusal cases[] = {
        {"[trian]\nbatch = 3\n[train]\nbach = 3\n", NULL, DT_E_CONFIG,
            {"c.ini:1: unknown section [trian], did you mean 'train'?",
                "c.ini:4: [train] unknown key 'bach', did you mean 'batch'?"}},
        {"[train]\nbatch = 3\nlr = 1\nbatch = 4\n[train]\n", NULL, DT_E_CONFIG,
            {"c.ini:4: [train] key 'batch' is given again; first at line 2",
                "c.ini:5: section [train] is given again; first at line 1"}},
        {MLP "learning_rate = 0.1\n", NULL, DT_E_CONFIG,
            {"c.ini:3: [model] unknown key 'learning_rate', did you mean [train] lr?"}},
        {MLP "[train]\nbatch = 0\n", NULL, DT_E_CONFIG, {"c.ini:4: [train] batch = 0", "1.."}},
        {MLP "[train]\nbatch = -4\n", NULL, DT_E_CONFIG, {"c.ini:4: [train] batch = -4", "1.."}},
        {MLP "[train]\nbatch = 3.5\n", NULL, DT_E_CONFIG, {"c.ini:4: [train] batch = 3.5"}},
        {MLP "[train]\nbatch = 32x\n", NULL, DT_E_CONFIG, {"c.ini:4: [train] batch = 32x"}},
        {MLP "[train]\nbatch = 99999999999999999999\n", NULL, DT_E_CONFIG, {"c.ini:4: ", "1.."}},
        {MLP "[memory]\ndevice_budget = 8 GB\n", NULL, DT_E_CONFIG,
            {"c.ini:4: [memory] device_budget = 8 GB", "write 8GB"}},
        {MLP "[train]\nlr = nan\n", NULL, DT_E_CONFIG, {"c.ini:4: [train] lr = nan"}},
        {MLP "[train]\nlr = inf\n", NULL, DT_E_CONFIG, {"c.ini:4: [train] lr = inf"}},
        {MLP "[train]\nlr = 1e400\n", NULL, DT_E_CONFIG, {"c.ini:4: [train] lr = 1e400"}},
        {MLP "[train]\nlr = 0,1\n", NULL, DT_E_CONFIG, {"c.ini:4: [train] lr = 0,1"}},
        {MLP "[train]\nbatch = 64\nmicro_batch = 24\n", NULL, DT_E_CONFIG,
            {"c.ini:5: ", "micro_batch = 24", "batch = 64", "micro_batch = 16"}},
        {MLP "[train]\nlr = 0.1\nmilestones = 3\n", NULL, DT_E_CONFIG,
            {"c.ini:5: ", "milestones need schedule = step"}},
        {"[conv c1]\nkernel = 3\n[fc f]\nout = 10\n", NULL, DT_E_CONFIG,
            {"c.ini:1: [conv c1] out is required"}},
        {"[model]\nname = lenet6\n", NULL, DT_E_CONFIG,
            {"c.ini:2: [model] name = lenet6", "did you mean 'lenet5'", "resnet50"}},
        {MLP "[memory]\npolicy = keepall\n", NULL, DT_E_CONFIG,
            {"did you mean 'keep_all'", "network_wide", "c.ini:4: [memory] policy"}},
        {MLP "[memory]\npool = gready\n", NULL, DT_E_CONFIG, {"c.ini:4: ", "'greedy'"}},
        {MLP "[train]\noptimizer = sdg\n", NULL, DT_E_CONFIG, {"c.ini:4: ", "'sgd'"}},
        {MLP "[train]\nschedule = stpe\n", NULL, DT_E_CONFIG, {"c.ini:4: ", "'step'", "constant"}},
        {MLP "[data]\nsource = imgs\n", NULL, DT_E_CONFIG, {"c.ini:4: ", "'images'", "cifar10"}},
    };
    refuse_all(cases, DT_COUNT(cases));
}

static void files_that_are_no_configurations(void **state) /* case 6 */
{
    NEED_BINARY();
    char *mega = dt_alloc(1000001, 1);
    assert_non_null(mega);
    memset(mega, 'a', 1000000);
    memcpy(mega, "[model]\nname = ", 15);
    static const refusal cases[] = {
        {"", NULL, DT_E_CONFIG, {"c.ini: no section in it"}},
        {"[model]\nname = \xFF\xFE\n", NULL, DT_E_CONFIG, {"c.ini:2: column 8: invalid UTF-8"}},
        {"include other.ini\n", NULL, DT_E_CONFIG, {"c.ini:1: ", "neither [section] nor key"}},
    };
    refuse_all(cases, DT_COUNT(cases));
    refuse(&(refusal){mega, NULL, DT_E_CONFIG, {"c.ini:2: a line of 999992 bytes"}});
    dt_free(mega);
    put_file(in_workspace("nul.ini"), "[mo\0del]\n", 9);
    put_folder(in_workspace("folder"));
    assert_int_equal(mkfifo(in_workspace("pipe"), 0600), 0);
    const refusal other[] = {
        {NULL, "nul.ini", DT_E_CONFIG, {"nul.ini:1: column 4: control character 0x00"}},
        {NULL, "oldre.ini", DT_E_CONFIG,
            {"there is no file 'oldre.ini'; did you mean 'older.ini'?"}},
        {NULL, "folder", DT_E_CONFIG,
            {"'folder' is a folder; name a configuration, which is a file"}},
        {NULL, "pipe", DT_E_CONFIG, {"'pipe' is a FIFO, not a regular file"}},
    };
    for (size_t i = 0; i < DT_COUNT(other); i++)
        refuse_in_place(&other[i], other[i].words);
}

static void networks_that_cannot_be(void **state) /* cases 8 and 9 */
{
    NEED_BINARY();
    static const refusal cases[] = {
        {"[fc f]\nout = 1000000000000\n", NULL, DT_E_CONFIG,
            {"c.ini:2: [fc f] out = 1000000000000"}},
        {"[model]\nimage = 16384\n[conv c]\nout = 1048576\nkernel = 1\n[fc f]\nout = 10\n", NULL,
            DT_E_CONFIG,
            {"16384x16384x1048576", "layer 'c'", "16384x16384x3", "c.ini:3: [conv c]"}},
        {"[model]\nname = resnet18\nimage = 16384\nwidth = 4096\n[train]\nbatch = 1048576\n", NULL,
            DT_E_CONFIG, {"1048576 samples of 268435456 pixels", "layer 'conv1'", "lower train."}},
        {"[conv c1]\nkernel = 3\nout = 4\n[relu r]\ninput = c7\n[fc f]\nout = 10\n", NULL,
            DT_E_CONFIG, {"c.ini:5: [relu r]: no layer is called 'c7'"}},
        {"[conv c1]\nkernel = 3\nout = 4\ninput = r\n[relu r]\n[fc f]\nout = 10\n", NULL,
            DT_E_CONFIG, {"c.ini:4: [conv c1] takes 'r'", "c.ini:5: [relu r]", "no cycles"}},
        {"[model]\nimage = 32\n[conv c1]\nkernel = 3\nout = 4\n[conv c2]\nkernel = 5\nout = 4\n"
         "[add a]\ninput = c1, c2\n[fc f]\nout = 10\n",
            NULL, DT_E_CONFIG, {"layer 'a'", "c1 (30x30x4), c2 (26x26x4)", "c.ini:9: [add a]"}},
        {"[model]\nimage = 4\n[conv c1]\nkernel = 7\nout = 4\n[fc f]\nout = 10\n", NULL,
            DT_E_CONFIG, {"kernel reaching over 7 pixels", "4x4x3", "c.ini:3: [conv c1]"}},
    };
    refuse_all(cases, DT_COUNT(cases));
}

/* --- budgets --- */

static void allow_two_gigabytes(void)
{
    const struct rlimit most = {(rlim_t)2 << 30, (rlim_t)2 << 30};
    if (setrlimit(RLIMIT_AS, &most) != 0)
        _exit(125);
}

/* The batch alone would take 7 GB, the arena 300: neither is asked for. */
static void a_run_over_its_budget_allocates_nothing(void **state) /* case 13 */
{
    NEED_BINARY();
    NEED_LIMITS();
    cli.child = allow_two_gigabytes;
    refuse(&(refusal){
        "[model]\nname = vgg11\n[train]\nbatch = 4096\n[memory]\ndevice_budget = 1900MiB\n", NULL,
        DT_E_BUDGET,
        {"does not fit: the device needs ", "(c.ini:6)",
            "largest at the peak of 'first': ", "fits if: [train] batch = "}});
    refuse(
        &(refusal){"[model]\nname = vgg16\n[memory]\ndevice_budget = 256MiB\n", NULL, DT_E_BUDGET,
            {"not even one sample fits", "this batch fits under no policy that was tried; "}});
    cli.child = NULL;
}

static rlim_t stack_bytes;
static const char *threads_stack;

static void leave_a_stack(void)
{
    const struct rlimit most = {stack_bytes, stack_bytes};
    if (setrlimit(RLIMIT_STACK, &most) != 0)
        _exit(125);
}

static void give_threads_a_stack(void)
{
    if (setenv("OMP_STACKSIZE", threads_stack, 1) != 0)
        _exit(125);
}

static void a_stack_that_is_too_small(void **state) /* case 76 */
{
    NEED_BINARY();
    NEED_LIMITS();
    static const char *const small[] = {"16k", "20", "16384B", " 100 k"},
                             *const enough[] = {"256", "1 M", "1g", "18446744073709551615G"};
    put_text("c.ini", TINY); /* the first file brings an older run with it */
    cli.child = leave_a_stack;
    stack_bytes = 80 << 10;
    refuse(&(refusal){TINY, NULL, DT_E_BUDGET,
        {"the stack may take 80 KiB alone: RLIMIT_STACK (ulimit -s); raise it to 1024 or more"}});
    stack_bytes = 1 << 20;
    ran r = cli_run("plan FILE", cli_file("c.ini", TINY));
    assert_code(&r, 0);
    cli_done(&r);
    cli.child = give_threads_a_stack;
    for (size_t i = 0; i < DT_COUNT(small); i++) {
        threads_stack = small[i];
        refuse(&(refusal){TINY, NULL, DT_E_CONFIG, {"OMP_STACKSIZE = ", "of stack; raise it"}});
    }
    for (size_t i = 0; i < DT_COUNT(enough); i++) {
        threads_stack = enough[i];
        r = cli_run("plan FILE", cli_file("c.ini", TINY));
        assert_code(&r, 0);
        cli_done(&r);
    }
    cli.child = NULL;
}

/* The number behind a text in the output of a refused run. */
static int suggested(const char *words, const char *text)
{
    ran r = cli_run(words, NULL);
    assert_code(&r, DT_E_BUDGET);
    const char *at = strstr(r.err, text);
    if (at == NULL)
        fail_msg("'%s' is not in:\n%s", text, r.err);
    const int n = atoi(at + strlen(text));
    cli_done(&r);
    return n;
}

static void runs_with(const char *words, int code)
{
    ran r = cli_run(words, NULL);
    if (r.code != code)
        fail_msg("'%s' ends with %d, not %d; stderr:\n%s", words, r.code, code, r.err);
    cli_done(&r);
    remove_all("out");
}

static void what_a_refusal_suggests_is_true(void **state) /* case 13 */
{
    NEED_BINARY();
    put_text("b.ini", "[model]\nname = lenet5\n[data]\nsamples = 256\n[train]\nsteps = 1\n"
                      "batch = 96\n[memory]\ndevice_budget = 3MiB\n[run]\ndir = out\n");
    char words[128];
    const int batch = suggested("b.ini", "fits if: [train] batch = ");
    assert_in_range(batch, 2, 95);
    snprintf(words, sizeof words, "b.ini --set train.batch=%d", batch);
    runs_with(words, 0);
    snprintf(words, sizeof words, "b.ini --set train.batch=%d", batch + 1);
    runs_with(words, DT_E_BUDGET);
    const int micro = suggested("b.ini", "fits if: [train] micro_batch = ");
    assert_true(micro > 1 && micro <= batch && 96 % micro == 0);
    snprintf(words, sizeof words, "b.ini --set train.micro_batch=%d", micro);
    runs_with(words, 0);
    /* between what the two policies need, the other one is suggested */
    const char *wide = "b.ini --set memory.policy=network_wide --set memory.device_budget=6MiB";
    (void)suggested(wide, "fits if: [memory] policy = keep_all");
    runs_with("b.ini --set memory.device_budget=6MiB", 0);
}

/* As it stands there it is added to the command, whatever parts the refused policy had chosen. */
static void what_a_refusal_says_to_type_fits(void **state) /* case 13 */
{
    NEED_BINARY();
    static const char type[] = "to type: ";
    static const char *const asked[] = {"keep_all --set memory.device_budget=4MiB",
        "keep_all --set memory.device_budget=300KiB", "modnn --set memory.device_budget=200KiB",
        "vdnn_all --set memory.device_budget=1MiB"};
    put_text("b.ini", "[model]\nimage = 28\n[train]\nbatch = 64\n[memory]\ncache = none\n[conv a]\n"
                      "out = 12\nkernel = 3\npad = 1\n[batchnorm n]\n[relu r]\n[maxpool p]\n"
                      "kernel = 2\n[conv b]\nout = 24\nkernel = 3\npad = 1\n[relu s]\n"
                      "[conv c]\nout = 24\nkernel = 3\npad = 1\n[relu t]\n[global_avgpool g]\n[fc "
                      "f]\nout = 10\n");
    for (size_t i = 0; i < DT_COUNT(asked); i++) {
        char words[1400];
        snprintf(words, sizeof words, "plan b.ini --set memory.policy=%s", asked[i]);
        ran r = cli_run(words, NULL);
        assert_code(&r, DT_E_BUDGET);
        const char *at = strstr(r.err, type);
        if (at == NULL)
            fail_msg("nothing to type in:\n%s", r.err);
        const size_t n = strlen(words);
        at += strlen(type);
        snprintf(words + n, sizeof words - n, " %.*s", (int)strcspn(at, "\n"), at);
        cli_done(&r);
        runs_with(words, 0);
    }
}

/* --- data --- */

/* A folder of MNIST's names with @n pictures of 4x4 in classes 0 and 1. */
static void put_digits(const char *folder, uint32_t n)
{
    char path[128];
    uint8_t pixels[16 * 16] = {0}, labels[16] = {0, 1, 1, 0};
    snprintf(path, sizeof path, "%s/train-images-idx3-ubyte", folder);
    put_blob(path, make_idx(3, (uint32_t[]){n, 4, 4}, pixels, (size_t)n * 16));
    snprintf(path, sizeof path, "%s/train-labels-idx1-ubyte", folder);
    put_blob(path, make_idx(1, (uint32_t[]){n}, labels, n));
}

static void put_picture(const char *below)
{
    const uint8_t px[4 * 4 * 3] = {200, 100, 50};
    put_blob(below, make_rgb_png(px, 4, 4));
}

#define SOURCE(source, path) "--set data.source=" source " --set data.path=" path

static void data_that_is_not_there(void **state) /* cases 16 and 24 */
{
    NEED_BINARY();
    put_folder(in_workspace("empty"));
    put_text("noclass/a.png", "");
    put_picture("hollow/a/1.png");
    put_text("hollow/b/notes.txt", "");
    put_text("bins/test_batch.bin", "");
    put_picture("parts/train/a/1.png");
    put_text("plain/t10k-images-idx3-ubyte.gz", "");
    put_folder(in_workspace("loop/a"));
    put_folder(in_workspace("odd/a"));
    assert_int_equal(symlink("x.png", in_workspace("loop/a/x.png")), 0);
    assert_int_equal(mkfifo(in_workspace("odd/a/x.png"), 0600), 0);
    static const refusal cases[] = {
        {NULL, SOURCE("images", "nowhere"), DT_E_DATA,
            {"/w/nowhere: No such file or directory", "--set: [data] path = nowhere"}},
        {NULL, SOURCE("idx", "nowhere"), DT_E_DATA, {"`tools/get_data mnist` fetches mnist"}},
        {NULL, SOURCE("images", "empty"), DT_E_DATA, {"/w/empty: holds 0 folders and 0 files"}},
        {NULL, SOURCE("images", "noclass"), DT_E_DATA, {"/w/noclass: holds 0 folders and 1 files"}},
        {NULL, SOURCE("images", "hollow"), DT_E_DATA,
            {"/w/hollow/b: a class folder with 0 pictures", "1 other files"}},
        {NULL, SOURCE("images", "c.ini"), DT_E_DATA, {"/w/c.ini: not a folder"}},
        {NULL, "--set data.source=images", DT_E_CONFIG,
            {"data.path is missing", "set data.path = FOLDER", "--set: [data] source = images"}},
        {NULL, SOURCE("idx", "empty"), DT_E_DATA,
            {"/w/empty: holds neither train-images-idx3-ubyte nor"}},
        {NULL, SOURCE("cifar10", "empty"), DT_E_DATA,
            {"/w/empty/data_batch_1.bin: cannot open: No such file or directory"}},
        {NULL, SOURCE("cifar10", "parts"), DT_E_DATA,
            {"data_batch_1.bin: cannot open", "that looks like JPEG, PNG and BMP files in folders",
                "set data.source = images"}},
        {NULL, SOURCE("cifar10", "hollow"), DT_E_DATA, {"set data.source = images"}},
        {NULL, SOURCE("images", "bins"), DT_E_DATA,
            {"that looks like CIFAR-10, binary version", "set data.source = cifar10"}},
        {NULL, SOURCE("images", "plain"), DT_E_DATA, {"set data.source = idx"}},
        {NULL, SOURCE("tensors", "nowhere"), DT_E_DATA,
            {"open '", "/w/nowhere': No such file or directory"}},
        {NULL, SOURCE("images", "loop"), DT_E_DATA, {"/w/loop/a/x.png: ", "symbolic links"}},
        {NULL, SOURCE("images", "odd"), DT_E_DATA, {"/w/odd/a/x.png: neither a regular file nor"}},
        {NULL, SOURCE("idx", "odd/a/x.png"), DT_E_DATA, {"/w/odd/a/x.png: "}},
    };
    refuse_all(cases, DT_COUNT(cases));
}

/* Ten pictures, their file changed byte by byte. */
static void put_bad_digits(const char *folder, size_t at, unsigned value, bool labels)
{
    char path[128];
    put_digits(folder, 4);
    snprintf(
        path, sizeof path, "%s/train-%s-ubyte", folder, labels ? "labels-idx1" : "images-idx3");
    FILE *f = fopen(in_workspace(path), "r+b");
    assert_non_null(f);
    assert_int_equal(fseek(f, (long)at, SEEK_SET), 0);
    assert_int_equal(fputc((int)value, f), (int)value);
    assert_int_equal(fclose(f), 0);
}

static void damaged_idx_files(void **state) /* cases 17 and 20 */
{
    NEED_BINARY();
    put_bad_digits("magic", 2, 13, false);
    put_bad_digits("many", 4, 0x7F, false);
    put_bad_digits("tall", 8, 0xFF, false);
    put_digits("fewer", 4);
    put_blob("fewer/train-labels-idx1-ubyte", make_idx(1, (uint32_t[]){3}, (uint8_t[3]){0}, 3));
    put_bad_digits("label", 10, 7, true);
    static const refusal cases[] = {
        {NULL, SOURCE("idx", "magic"), DT_E_DATA,
            {"/w/magic/train-images-idx3-ubyte: begins with 00000d03", "00000803"}},
        {NULL, SOURCE("idx", "many"), DT_E_DATA, {"announces 2130706436 items", "of 80 bytes"}},
        {NULL, SOURCE("idx", "tall"), DT_E_DATA, {"images of 4278190084x4", "1 to 32768"}},
        {NULL, SOURCE("idx", "fewer"), DT_E_DATA,
            {"train-images-idx3-ubyte: 4 images, but ", "train-labels-idx1-ubyte: 3 labels"}},
        {NULL, SOURCE("idx", "label"), DT_E_DATA,
            {"/w/label/train-labels-idx1-ubyte: label 7 of sample 2 must be below 2",
                "--set: [data] path = label"}},
    };
    refuse_all(cases, DT_COUNT(cases));
}

/* Images as a gzip of our making, labels plain. */
static void put_gzip_digits(const char *folder, blob gz)
{
    char path[128];
    uint8_t labels[4] = {0, 1, 1, 0};
    snprintf(path, sizeof path, "%s/train-images-idx3-ubyte.gz", folder);
    put_blob(path, gz);
    snprintf(path, sizeof path, "%s/train-labels-idx1-ubyte.gz", folder);
    blob plain = make_idx(1, (uint32_t[]){4}, labels, 4);
    put_blob(path, make_gzip(plain.p, plain.n));
    blob_free(&plain);
}

static blob digits_gzip(void)
{
    const uint8_t pixels[4 * 16] = {1, 2, 3};
    blob idx = make_idx(3, (uint32_t[]){4, 4, 4}, pixels, sizeof pixels);
    const blob gz = make_gzip(idx.p, idx.n);
    blob_free(&idx);
    return gz;
}

static void damaged_gzip_files(void **state) /* case 18 */
{
    NEED_BINARY();
    blob b = digits_gzip();
    b.n -= 9;
    put_gzip_digits("cut", b);
    b = digits_gzip();
    b.p[b.n - 6] ^= 1;
    put_gzip_digits("crc", b);
    uint8_t plain[4 * 16] = {0};
    put_gzip_digits("plain", make_idx(3, (uint32_t[]){4, 4, 4}, plain, sizeof plain));
    enum { BOMB = 8 << 20 };
    uint8_t *zeros = dt_alloc(BOMB, 1);
    assert_non_null(zeros);
    memcpy(zeros, "\0\0\10\3\0\0\0\4\0\0\0\4\0\0\0\4", 16);
    put_gzip_digits("bomb", make_gzip(zeros, BOMB));
    dt_free(zeros);
    static const refusal cases[] = {
        {NULL, SOURCE("idx", "cut"), DT_E_DATA, {"/w/cut/train-images-idx3-ubyte.gz: "}},
        {NULL, SOURCE("idx", "crc"), DT_E_DATA, {"/w/crc/train-images-idx3-ubyte.gz: "}},
        {NULL, SOURCE("idx", "plain"), DT_E_DATA,
            {"/w/plain/train-images-idx3-ubyte.gz: not gzip, though its name says so"}},
        {NULL, SOURCE("idx", "bomb"), DT_E_DATA, {"/w/bomb/train-images-idx3-ubyte.gz: "}},
    };
    refuse_all(cases, DT_COUNT(cases));
}

static void damaged_cifar_files(void **state) /* cases 19 and 20 */
{
    NEED_BINARY();
    uint8_t *records = dt_alloc(3, 3073);
    assert_non_null(records);
    put_file(in_workspace("cut.bin"), records, 2 * 3073 + 5);
    records[3073] = 9;
    put_file(in_workspace("label.bin"), records, 3 * 3073);
    dt_free(records);
    static const refusal cases[] = {
        {NULL, SOURCE("cifar10", "cut.bin"), DT_E_DATA,
            {"/w/cut.bin: 6151 bytes are 2 records of 3073 bytes and 5 more"}},
        {NULL, SOURCE("cifar10", "label.bin"), DT_E_DATA,
            {"/w/label.bin: record 1 has label 9, must be below 2"}},
    };
    refuse_all(cases, DT_COUNT(cases));
}

/* --- safetensors --- */

#define ENTRY(name, type, shape, span)                                                             \
    "\"" name "\":{\"dtype\":\"" type "\",\"shape\":[" shape "],\"data_offsets\":[" span "]}"
#define WEIGHT ENTRY("f.weight", "F32", "2,48", "0,384")
#define BIAS ENTRY("f.bias", "F32", "2", "384,392")

/* One file for the tiny network. */
typedef struct damaged {
    uint64_t length;
    const char *header;
    size_t n;
    const char *want[3];
} damaged;

static void refuse_weights(const damaged *c, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        refusal r = {NULL, "--set model.weights=w.safetensors", DT_E_DATA, {NULL}};
        put_tensors("w.safetensors", c[i].length, c[i].header, c[i].n);
        memcpy(r.want, c[i].want, sizeof c[i].want);
        r.want[3] = "--set: [model] weights = w.safetensors";
        for (int k = 2; k > 0 && r.want[k] == NULL; k--) /* no gap in the list */
            r.want[k] = r.want[3];
        refuse(&r);
    }
}

static void weights_that_are_no_safetensors(void **state) /* cases 43 to 46 */
{
    NEED_BINARY();
    static const damaged cases[] = {
        {100000, "{" WEIGHT "," BIAS "}", 392, {"header of 100000 bytes", "truncated"}},
        {1 << 30, "{" WEIGHT "," BIAS "}", 392, {"header of 1073741824 bytes, at most 16777216"}},
        {UINT64_MAX, "{" WEIGHT "," BIAS "}", 392, {"header of 18446744073709551615 bytes"}},
        {0, "", 0, {"its header is empty"}},
        {0, "{\"a\":{\"b\":{\"c\":{\"d\":{\"e\":{}}}}}}", 0, {"w.safetensors: "}},
        {0, "{" WEIGHT "," WEIGHT "," BIAS "}", 392, {"two keys are named 'f.weight'"}},
        {0, "{" ENTRY("\xFF", "F32", "0", "0,0") "}", 0, {"offset 2: invalid UTF-8"}},
        {0, "{" ENTRY("f.weight", "F32", "2,48", "-4,380") "," BIAS "}", 392,
            {"'f.weight'", "2^53"}},
        {0, "{" WEIGHT "," ENTRY("f.bias", "F32", "2", "380,388") "}", 392,
            {"'f.bias' starts at data byte 380, which overlaps"}},
        {0, "{" WEIGHT "," ENTRY("f.bias", "F32", "2", "388,396") "}", 396,
            {"'f.bias' starts at data byte 388, which leaves a hole"}},
        {0, "{" WEIGHT "," ENTRY("f.bias", "F32", "2", "384,3920") "}", 392,
            {"'f.bias': data_offsets [384, 3920]", "the 392 bytes of data"}},
        {0, "{" ENTRY("f.weight", "F32", "2,47", "0,384") "," BIAS "}", 392,
            {"'f.weight': shape and dtype F32 need 376 bytes, data_offsets give 384"}},
        {0, "{" ENTRY("f.weight", "F32", "4294967296,4294967296", "0,384") "," BIAS "}", 392,
            {"'f.weight': its shape overflows"}},
        {0, "{" WEIGHT "," BIAS "}", 300, {"'f.weight': data_offsets", "300 bytes of data"}},
        {0, "{" WEIGHT "," BIAS "}", 400, {"tensors end at data byte 392, the file at 400"}},
    };
    refuse_weights(cases, DT_COUNT(cases));
}

static void bombs_in_headers(void **state) /* case 44 */
{
    NEED_BINARY();
    enum { MANY = 262145, EACH = 72 };
    char *header = dt_alloc(MANY * EACH, 1), *to = header;
    assert_non_null(header);
    *to++ = '{';
    for (int i = 0; i < MANY; i++)
        to += snprintf(to, EACH, "%s" ENTRY("%d", "F32", "0", "0,0"), i > 0 ? "," : "", i);
    memcpy(to, "}", 2);
    put_tensors("many.safetensors", 0, header, 0);
    memset(header, 'n', 600);
    memcpy(header, "{\"", 2);
    snprintf(header + 600, EACH, "\":{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[0,0]}}");
    put_tensors("name.safetensors", 0, header, 0);
    dt_free(header);
    static const refusal cases[] = {
        {NULL, "--set model.weights=many.safetensors", DT_E_DATA, {"many.safetensors: ", "262144"}},
        {NULL, "--set model.weights=name.safetensors", DT_E_DATA,
            {"name.safetensors: a tensor name has 598 bytes; must be 1..512"}},
    };
    refuse_all(cases, DT_COUNT(cases));
}

static void weights_of_another_network(void **state) /* cases 47 and 48 */
{
    NEED_BINARY();
    static const damaged cases[] = {
        {0, "{" WEIGHT "}", 384,
            {"1 missing from the file", "missing  f.bias [2]", "compare model.name with what"}},
        {0, "{" WEIGHT "," BIAS "," ENTRY("g", "F32", "1", "392,396") "}", 396,
            {"1 that the network does not have", "unknown  g [1]", "write the file without it"}},
        {0,
            "{" ENTRY("f.weight", "F32", "2,32", "0,256") "," ENTRY(
                "f.bias", "F32", "2", "256,264") "}",
            264, {"f.weight: file [2, 32], network [2, 48]", "model.width and model.image"}},
        {0, "{" ENTRY("f.weight", "F32", "48,2", "0,384") "," BIAS "}", 392,
            {"1 of another shape", "f.weight: file [48, 2], network [2, 48]",
                "1 of them is turned: write v.t().contiguous()"}},
        {0,
            "{" ENTRY("f.weight", "F16", "2,48", "0,192") "," ENTRY(
                "f.bias", "F32", "2", "192,200") "}",
            200, {"f.weight: F16, must be F32", "v.float()"}},
        {0, "{" ENTRY("f.weight", "F8_E5M2", "2,48", "0,384") "," BIAS "}", 392,
            {"'f.weight': dtype 'F8_E5M2' is not supported", "convert it to F32"}},
    };
    refuse_weights(cases, DT_COUNT(cases));
}

static void weights_that_are_not_finite(void **state) /* case 48 */
{
    NEED_BINARY();
    static const uint32_t bits[] = {0x7FC00000, 0x7F800000, 0xFF800000};
    for (size_t i = 0; i < DT_COUNT(bits); i++) {
        put_tensors("nan.safetensors", 0, "{" WEIGHT "," BIAS "}", 392);
        FILE *f = fopen(in_workspace("nan.safetensors"), "r+b");
        assert_non_null(f);
        assert_int_equal(fseek(f, -4, SEEK_END), 0);
        assert_int_equal(fwrite(&bits[i], 4, 1, f), 1);
        assert_int_equal(fclose(f), 0);
        refuse(&(refusal){NULL, "--set model.weights=nan.safetensors", DT_E_DATA,
            {"nan.safetensors': f.bias[1] is ", "weights must be finite"}});
    }
}

static void tensors_that_do_not_fit(void **state) /* cases 20 and 43 to 46, as data */
{
    NEED_BINARY();
#define X(shape, to) ENTRY("x", "F32", shape, "0," to)
#define Y(shape, span) ENTRY("y", "I64", shape, span)
    put_tensors("short.st", 0, "{" X("1,16,3,4,4", "3072") "," Y("1,16", "3072,3200") "}", 3000);
    put_tensors("batch.st", 0, "{" X("1,8,3,4,4", "1536") "," Y("1,8", "1536,1600") "}", 1600);
    put_tensors("shape.st", 0, "{" X("1,16,1,4,4", "1024") "," Y("1,16", "1024,1152") "}", 1152);
    put_tensors("label.st", 0, "{" X("1,16,3,4,4", "3072") "," Y("1,16", "3072,3200") "}", 3200);
    FILE *f = fopen(in_workspace("label.st"), "r+b");
    assert_non_null(f);
    const int64_t bad = -3;
    assert_int_equal(fseek(f, -64, SEEK_END), 0);
    assert_int_equal(fwrite(&bad, sizeof bad, 1, f), 1);
    assert_int_equal(fclose(f), 0);
    static const refusal cases[] = {
        {NULL, SOURCE("tensors", "short.st"), DT_E_DATA, {"short.st: ", "the 3000 bytes of data"}},
        {NULL, SOURCE("tensors", "batch.st"), DT_E_DATA,
            {"batch.st: x has 8 samples a step, train.batch is 16: set train.batch = 8"}},
        {NULL, SOURCE("tensors", "shape.st"), DT_E_DATA,
            {"shape.st: x is [1, 16, 1, 4, 4], the network takes [N, 3, 4, 4] or [steps, "}},
        {NULL, SOURCE("tensors", "label.st"), DT_E_DATA,
            {"label.st: y[0][8] is -3, must be in [0, 2)", "--set: [data] path = label.st"}},
    };
    refuse_all(cases, DT_COUNT(cases));
}

/* --- sizes of batches --- */

#define NORMALISED                                                                                 \
    "[model]\nimage = 4\nclasses = 2\n[conv c]\nout = 4\nkernel = 4\n[batchnorm bn]\n"             \
    "[fc f]\nout = 2\n[data]\nsamples = 65\n[run]\ndir = out\n[train]\nepochs = 1\nbatch = "

static void single_values_are_not_normalised(void **state) /* case 26 */
{
    NEED_BINARY();
    static const refusal cases[] = {
        {NORMALISED "1\n", NULL, DT_E_CONFIG,
            {"c.ini:16: [train] batch = 1: 'bn' would normalise a single value", "at least 2"}},
        {NORMALISED "4\nmicro_batch = 1\n", NULL, DT_E_CONFIG,
            {"c.ini:17: [train] micro_batch = 1: 'bn' would", "micro_batch must be at least 2"}},
        {NORMALISED "16\n", NULL, DT_E_CONFIG,
            {"c.ini:16: [train] batch = 16: 1 sample is left at the end of an epoch",
                "set train.drop_last = on, or another train.batch"}},
        {NORMALISED "16\ndrop_last = on\n", "--set data.samples=9", DT_E_CONFIG,
            {"c.ini:17: [train] drop_last = on: the data has 9 samples, no full batch of 16",
                "set train.batch = 9 or less"}},
    };
    refuse_all(cases, DT_COUNT(cases));
    put_text("n.ini", NORMALISED "16\n");
    runs_with("n.ini --set train.drop_last=on", 0);
    runs_with("n.ini --set train.batch=13", 0);
    runs_with("n.ini --set data.samples=9", 0);    /* one partial batch */
    runs_with("n.ini --set train.freeze=c,bn", 0); /* by what was learned before */
    runs_with(
        "n.ini --set train.epochs=0 --set train.steps=4", 0); /* the last one is not reached */
}

/* --- permissions and the run directory --- */

static void files_that_may_not_be_read(void **state) /* cases 27 and 28 */
{
    NEED_BINARY();
    put_text("c.ini", TINY);
    put_digits("secret/set", 4);
    put_tensors("secret.safetensors", 0, "{" WEIGHT "," BIAS "}", 392);
    put_text("secret.ini", TINY);
    assert_int_equal(chmod(in_workspace("secret"), 0), 0);
    assert_int_equal(chmod(in_workspace("secret.safetensors"), 0), 0);
    assert_int_equal(chmod(in_workspace("secret.ini"), 0), 0);
    assert_int_equal(chmod(in_workspace(""), 0555), 0);
    const bool can = nobody_can_run();
    static const refusal cases[] = {
        {NULL, "c.ini " SOURCE("idx", "secret/set"), DT_E_DATA,
            {"/w/secret/set: Permission denied"}},
        {NULL, "c.ini " SOURCE("images", "secret"), DT_E_DATA,
            {"/w/secret: ", "Permission denied"}},
        {NULL, "c.ini --set model.weights=secret.safetensors", DT_E_DATA,
            {"/w/secret.safetensors': Permission denied"}},
        {NULL, "secret.ini", DT_E_CONFIG, {"secret.ini': Permission denied"}},
        {NULL, "eval secret", DT_E_CONFIG, {"'secret': Permission denied"}},
        {NULL, "c.ini", DT_E_IO, {"run directory '", "/w/out': Permission denied"}},
        {NULL, "c.ini --set run.dir=older/sub/sub", DT_E_IO, {"/w/older/sub': Permission denied"}},
    };
    for (size_t i = 0; can && i < DT_COUNT(cases); i++) {
        cli.child = become_nobody;
        ran r = cli_run(cases[i].words, NULL);
        cli.child = NULL;
        assert_code(&r, cases[i].code);
        for (size_t k = 0; k < DT_COUNT(cases[i].want) && cases[i].want[k] != NULL; k++)
            assert_has(r.err, cases[i].want[k]);
        cli_done(&r);
        assert_false(is_there("out"));
    }
    assert_int_equal(chmod(in_workspace(""), 0755), 0);
    assert_int_equal(chmod(in_workspace("secret"), 0755), 0);
    remove_all("secret");
    remove_all("secret.safetensors");
    remove_all("secret.ini");
    if (!can)
        skip();
}

static void run_directories_that_cannot_be(void **state) /* cases 28 and 29 */
{
    NEED_BINARY();
    put_text("kept/mine.txt", "what the user wrote");
    static const refusal cases[] = {
        {NULL, "--set run.dir=c.ini", DT_E_IO, {"/w/c.ini' is no folder; set run.dir to another"}},
        {NULL, "--set run.dir=c.ini/below", DT_E_IO, {"/w/c.ini/below': Not a directory"}},
        {NULL, "--set run.dir=/proc/none/out", DT_E_IO, {"make folder '/proc/none': "}},
        {NULL, "--set run.dir=older", DT_E_BUSY,
            {"/w/older' holds a run; --resume goes on with it; else set run.dir to another folder, "
             "or"}},
        {NULL, "--set run.dir=kept", DT_E_BUSY, {"/w/kept' holds files that are no run's"}},
        {NULL, "--set run.dir=kept --set run.overwrite=on", DT_E_BUSY, {"/w/kept' holds files"}},
    };
    refuse_all(cases, DT_COUNT(cases));
}

static void overwriting_moves_the_older_run_aside(void **state) /* case 29 */
{
    NEED_BINARY();
    put_text("c.ini", TINY);
    ran r = cli_run("c.ini --set run.dir=twice", NULL);
    assert_code(&r, 0);
    cli_done(&r);
    char *first = cli_text(in_workspace("twice/metrics.jsonl"));
    r = cli_run("c.ini --set run.dir=twice --set run.overwrite=on --set train.lr=0.5", NULL);
    assert_code(&r, 0);
    assert_has(r.err, "twice.old-1");
    cli_done(&r);
    char *moved = cli_text(in_workspace("twice.old-1/metrics.jsonl"));
    assert_string_equal(moved, first);
    assert_true(is_there("twice/checkpoints/model.safetensors"));
    dt_free(first);
    dt_free(moved);
    remove_all("twice");
    remove_all("twice.old-1");
}

#define T(f) cmocka_unit_test_teardown(f, clean_workspace)
DT_TEST_GROUP(faults)
{
    const struct CMUnitTest tests[] = {
        T(wrong_configurations),
        T(files_that_are_no_configurations),
        T(networks_that_cannot_be),
        T(a_run_over_its_budget_allocates_nothing),
        T(a_stack_that_is_too_small),
        T(what_a_refusal_suggests_is_true),
        T(what_a_refusal_says_to_type_fits),
        T(data_that_is_not_there),
        T(damaged_idx_files),
        T(damaged_gzip_files),
        T(damaged_cifar_files),
        T(weights_that_are_no_safetensors),
        T(bombs_in_headers),
        T(weights_of_another_network),
        T(weights_that_are_not_finite),
        T(tensors_that_do_not_fit),
        T(single_values_are_not_normalised),
        T(files_that_may_not_be_read),
        T(run_directories_that_cannot_be),
        T(overwriting_moves_the_older_run_aside),
    };
    refusal_ini = TINY;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
