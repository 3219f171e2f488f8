/* tools/weights.py: weights go to PyTorch and come back as they were. Skipped without PyTorch. */
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/alloc.h"
#include "tests/run_cli.h"

/* Runs the script; both of its outputs together. */
static ran weights(const char *words)
{
    char script[4096], out[1024], line[8192];
    snprintf(script, sizeof script, "%s", dt_source_path("tools/weights.py"));
    snprintf(out, sizeof out, "%s", dt_temp_path("weights.out"));
    snprintf(line, sizeof line, "python3 '%s' --if-present %s >'%s' 2>&1", script, words, out);
    const int status = system(line);
    assert_true(WIFEXITED(status));
    return (ran){WEXITSTATUS(status), cli_text(out), cli_text(out)};
}

static bool has_torch(void)
{
    ran r = weights("show /nowhere.pt");
    const bool there = r.code == 3;
    cli_done(&r);
    return there;
}

#define NEED_TORCH()                                                                               \
    do {                                                                                           \
        NEED_BINARY();                                                                             \
        if (!has_torch())                                                                          \
            skip();                                                                                \
    } while (0)

static const char *config(void)
{
    char ini[2048];
    snprintf(ini, sizeof ini,
        "[model]\nname = resnet20\n[data]\nsamples = 64\n[train]\nbatch = 16\nsteps = 2\n"
        "[device]\nthreads = 1\n[run]\ndir = %s\noverwrite = on\n",
        dt_temp_path("run"));
    return cli_file("resnet20.ini", ini);
}

static ran eval(const char *file)
{
    char line[2048];
    snprintf(line, sizeof line, "eval FILE --set model.weights=%s", dt_temp_path(file));
    return cli_run(line, config());
}

/* What evaluation prints from the loss on, without times. */
static void same_scores(const ran *a, const ran *b)
{
    const char *x = strstr(a->out, "\nloss "), *y = strstr(b->out, "\nloss ");
    assert_non_null(x);
    assert_non_null(y);
    const size_t n = (size_t)(strstr(x, "\nsamples ") - x);
    assert_in_range(n, 20, 200);
    assert_int_equal(strncmp(x, y, n), 0);
}

static void they_come_back_as_they_were(void **state)
{
    NEED_TORCH();
    char line[4096], folder[1024];
    snprintf(folder, sizeof folder, "%s", dt_temp_path("run"));
    folder[strlen(folder) - strlen("run")] = '\0';
    ran r = cli_run("FILE", config());
    assert_code(&r, 0);
    cli_done(&r);
    snprintf(line, sizeof line, "to-torch '%srun/checkpoints/model.safetensors' '%sa.pt'", folder,
        folder);
    r = weights(line);
    assert_code(&r, 0);
    cli_done(&r);
    snprintf(line, sizeof line, "from-torch '%sa.pt' '%sb.safetensors'", folder, folder);
    r = weights(line);
    assert_code(&r, 0);
    cli_done(&r);
    ran a = eval("run/checkpoints/model.safetensors"), b = eval("b.safetensors");
    assert_code(&a, 0);
    assert_code(&b, 0);
    same_scores(&a, &b);
    cli_done(&a);
    cli_done(&b);
}

/* A script for the Python that has PyTorch. */
static int python(const char *script)
{
    const char *file = cli_file("script.py", script);
    char line[4096];
    snprintf(line, sizeof line,
        "python3 -c 'import torch' 2>/dev/null && exec python3 '%s'; exec /usr/bin/python3 '%s'",
        file, file);
    const int status = system(line);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* A module of PyTorch's own: its state as saved from half precision inside a DataParallel, with
 * counts of batches, is loaded here; and what is written here loads there, strictly. */
static void a_module_of_pytorch_takes_and_gives_them(void **state)
{
    NEED_TORCH();
    char script[4096], ini[1024], line[4096], folder[1024];
    snprintf(folder, sizeof folder, "%s", dt_temp_path("m.pt"));
    folder[strlen(folder) - strlen("m.pt")] = '\0';
    static const char *const net =
        "import torch\nfrom torch import nn\n"
        "from collections import OrderedDict\n"
        "net = nn.Sequential(OrderedDict(a=nn.Conv2d(3, 4, 3, padding=1), "
        "n=nn.BatchNorm2d(4), f=nn.Linear(256, 5)))\n";
    snprintf(script, sizeof script,
        "%sstate = {'module.' + k: v.half() if v.is_floating_point() else v\n"
        "         for k, v in net.state_dict().items()}\n"
        "torch.save({'state_dict': state, 'epoch': 3}, '%sm.pt')\n",
        net, folder);
    assert_int_equal(python(script), 0);
    snprintf(line, sizeof line, "from-torch '%sm.pt' '%sm.safetensors'", folder, folder);
    ran r = weights(line);
    assert_code(&r, 0);
    assert_has(r.out, "8 tensors");
    cli_done(&r);
    snprintf(ini, sizeof ini,
        "[model]\nimage = 8\nclasses = 5\nweights = %sm.safetensors\n[data]\nsamples = 32\n"
        "[train]\nbatch = 8\nsteps = 1\n[device]\nthreads = 1\n[run]\ndir = %srun2\n"
        "overwrite = on\n"
        "[conv a]\nout = 4\nkernel = 3\npad = 1\nbias = on\n[batchnorm n]\n[fc f]\nout = 5\n",
        folder, folder);
    r = cli_run("FILE", cli_file("net.ini", ini));
    assert_code(&r, 0);
    cli_done(&r);
    snprintf(line, sizeof line, "to-torch '%srun2/checkpoints/model.safetensors' '%sn.pt'", folder,
        folder);
    r = weights(line);
    assert_code(&r, 0);
    cli_done(&r);
    snprintf(script, sizeof script,
        "%sbefore = torch.load('%sm.pt')['state_dict']\nafter = torch.load('%sn.pt')\n"
        "missing, more = net.load_state_dict(after, strict=False)\n"
        "assert missing in ([], ['n.num_batches_tracked']) and not more, (missing, more)\n"
        "d = (before['module.a.weight'].float() - net.a.weight).abs().max().item()\n"
        "assert 0 < d < 0.5, d\n", /* a step was made from there */
        net, folder, folder);
    assert_int_equal(python(script), 0);
}

static void what_is_no_weight_file_is_refused(void **state)
{
    NEED_TORCH();
    char line[4096], bad[1024];
    snprintf(bad, sizeof bad, "%s", cli_file("bad.safetensors", "\x7f______________"));
    snprintf(line, sizeof line, "to-torch '%s' '%s.pt'", bad, bad);
    ran r = weights(line);
    assert_code(&r, 3);
    assert_has(r.out, "longer than the file");
    cli_done(&r);
    snprintf(line, sizeof line, "%s.pt", bad);
    assert_int_not_equal(access(line, F_OK), 0);
    static const char shape[] =
        "9       {\"a\":{\"dtype\":\"F32\",\"shape\":[-1,-1],\"data_offsets\":[0,4]}}1234";
    char file[sizeof shape];
    memcpy(file, shape, sizeof shape);
    const uint64_t header = sizeof shape - 1 - 8 - 4;
    memcpy(file, &header, sizeof header);
    FILE *f = fopen(dt_temp_path("shape.safetensors"), "w");
    assert_non_null(f);
    assert_int_equal(fwrite(file, 1, sizeof file - 1, f), sizeof file - 1);
    assert_int_equal(fclose(f), 0);
    snprintf(line, sizeof line, "show '%s'", dt_temp_path("shape.safetensors"));
    r = weights(line);
    assert_code(&r, 3);
    assert_has(r.out, "do not fit its shape");
    cli_done(&r);
    snprintf(line, sizeof line, "from-torch '%s' '%s.out'", bad, bad);
    r = weights(line);
    assert_code(&r, 3);
    assert_has(r.out, "not a state that PyTorch loads");
    cli_done(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(they_come_back_as_they_were),
        cmocka_unit_test(a_module_of_pytorch_takes_and_gives_them),
        cmocka_unit_test(what_is_no_weight_file_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
