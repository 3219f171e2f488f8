/* tools/weights.py: weights go to PyTorch and come back as they were. Most are skipped without
 * PyTorch.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/base/alloc.h"
#include "tests/fixture/run_cli.h"

/* Runs the script as where PyTorch has no NumPy; both of its outputs together. */
static ran weights(const char *words)
{
    char script[4096], out[1024], line[16384];
    snprintf(script, sizeof script, "%s", dt_source_path("tools/weights.py"));
    snprintf(out, sizeof out, "%s", dt_temp_path("weights.out"));
    const char *numpy = cli_file("numpy.py", "raise ModuleNotFoundError('there is none here')\n");
    snprintf(line, sizeof line,
        "PYTHONPATH=\"$(dirname '%s')\" '%s' '%s' --if-present %s >'%s' 2>&1", numpy,
        cli_torch_python(), script, words, out);
    const int status = system(line);
    assert_true(WIFEXITED(status));
    return (ran){WEXITSTATUS(status), cli_text(out), cli_text(out)};
}

/* Asked once: it takes seconds to load. */
static bool has_torch(void)
{
    static enum { UNKNOWN, MISSING, THERE } torch;
    if (torch == UNKNOWN) {
        ran r = weights("show /nowhere.pt");
        torch = r.code == 3 ? THERE : MISSING;
        cli_done(&r);
    }
    return torch == THERE;
}

/* A case loads PyTorch up to ten times, so a third of them, by the seed, have it. */
#define NEED_TORCH(i)                                                                              \
    do {                                                                                           \
        NEED_BINARY();                                                                             \
        if (!dt_picked(i, 3, 3, 1) || !has_torch())                                                \
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
    NEED_TORCH(0);
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
    char line[16384];
    const char *its = cli_torch_python();
    snprintf(line, sizeof line,
        "'%s' -c 'import torch' 2>/dev/null && exec '%s' '%s'; exec /usr/bin/python3 '%s'", its,
        its, file, file);
    const int status = system(line);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* A module of PyTorch's own: its state as saved from half precision inside a DataParallel, with
 * counts of batches, is loaded here; and what is written here loads there, strictly. */
static void a_module_of_pytorch_takes_and_gives_them(void **state)
{
    NEED_TORCH(1);
    char script[4096], ini[2048], line[4096], folder[512];
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
        "torch.save({'model_state_dict': state, 'epoch': 3}, '%sm.pt')\n",
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
        "%sbefore = torch.load('%sm.pt')['model_state_dict']\nafter = torch.load('%sn.pt')\n"
        "missing, more = net.load_state_dict(after, strict=False)\n"
        "assert missing in ([], ['n.num_batches_tracked']) and not more, (missing, more)\n"
        "d = (before['module.a.weight'].float() - net.a.weight).abs().max().item()\n"
        "assert 0 < d < 0.5, d\n", /* a step was made from there */
        net, folder, folder);
    assert_int_equal(python(script), 0);
}

/* Also in a file that is a safetensors file before and after. */
static void names_lose_the_wrapper_around_the_network(void **state)
{
    NEED_TORCH(2);
    char script[4096], line[4096], folder[512];
    snprintf(folder, sizeof folder, "%s", dt_temp_path("w.pt"));
    folder[strlen(folder) - strlen("w.pt")] = '\0';
    snprintf(script, sizeof script,
        "import json, struct\n"
        "for name, before in (('plain', ''), ('wrapped', 'module._orig_mod.module.')):\n"
        "    head = json.dumps({before + 'f.weight': {'dtype': 'F32', 'shape': [2, 1],\n"
        "        'data_offsets': [0, 8]}}).encode()\n"
        "    head += b' ' * (-len(head) %% 8)\n"
        "    with open(f'%s{name}.safetensors', 'wb') as f:\n"
        "        f.write(struct.pack('<Q', len(head)) + head + struct.pack('<2f', 1, 2))\n",
        folder);
    assert_int_equal(python(script), 0);
    static const char *const names[] = {"plain", "wrapped"};
    for (size_t i = 0; i < DT_COUNT(names); i++) {
        snprintf(line, sizeof line, "from-torch '%s%s.safetensors' '%s%s-bare.safetensors'", folder,
            names[i], folder, names[i]);
        ran r = weights(line);
        assert_code(&r, 0);
        cli_done(&r);
    }
    snprintf(line, sizeof line, "cmp '%splain-bare.safetensors' '%swrapped-bare.safetensors'",
        folder, folder);
    assert_int_equal(system(line), 0);
}

/* A language model of PyTorch's with the names and layouts of Hugging Face's GPT2LMHeadModel:
 * linear weights [in, out], masks beside them, a head that is the embedding of tokens. */
static const char *const language_model =
    "import json, torch\nfrom torch import nn\nfrom peer_torch import GPT2\n"
    "class LM(nn.Module):\n"
    "    def __init__(self):\n"
    "        super().__init__()\n"
    "        shapes = {'wte.weight': (7, 16), 'wpe.weight': (8, 16)}\n"
    "        shapes.update({f'h.{i}.ln_1.weight': (16,) for i in range(2)})\n"
    "        self.transformer = GPT2({'heads': 2, 'dropout': 0.0}, shapes)\n"
    "        self.lm_head = nn.Linear(16, 7, bias=False)\n"
    "        self.lm_head.weight = self.transformer.wte.weight\n"
    "net = LM()\n";

/* Of random weights, none of them symmetric. */
static const char *const make_it =
    "torch.manual_seed(3)\n"
    "for p in net.parameters():\n"
    "    nn.init.normal_(p, std=0.5)\n"
    "state = dict(net.state_dict())\n"
    "assert state['transformer.h.0.attn.c_attn.weight'].shape == (16, 48)\n"
    "for i in range(2):\n"
    "    mask = torch.ones(8, 8, dtype=torch.uint8).tril().view(1, 1, 8, 8)\n"
    "    state[f'transformer.h.{i}.attn.bias'] = mask\n"
    "    state[f'transformer.h.{i}.attn.masked_bias'] = torch.tensor(-1e4)\n"
    "torch.save(state, folder + 'g.pt')\n"
    "state['lm_head.weight'] = state['lm_head.weight'] + 1\n"
    "torch.save(state, folder + 'untied.pt')\n"
    "text = ''.join('abcdefg'[(i * i + i // 5) % 7] for i in range(400))\n"
    "open(folder + 'text', 'w').write(text)\n";

/* The loss of windows of 8 characters over the last tenth; then the weights that came back. */
static const char *const look_at_it =
    "net.load_state_dict(torch.load(folder + 'g.pt'), strict=False)\n"
    "held = torch.tensor([ord(c) - ord('a') for c in open(folder + 'text').read()])[-40:]\n"
    "x = torch.stack([held[i:i + 8] for i in range(0, 32, 8)])\n"
    "y = torch.stack([held[i + 1:i + 9] for i in range(0, 32, 8)])\n"
    "with torch.no_grad():\n"
    "    want = net.transformer.loss(x, y).item()\n"
    "got = json.load(open(folder + 'scores'))['loss']\n"
    "assert abs(got - want) < 1e-5 * want, (got, want)\n"
    "before = {k: v.clone() for k, v in net.transformer.state_dict().items()}\n"
    "net.transformer.load_state_dict(torch.load(folder + 'same.pt'))\n"
    "assert all(torch.equal(v, before[k]) for k, v in net.transformer.state_dict().items())\n"
    "net.transformer.load_state_dict(torch.load(folder + 'learnt.pt'))\n"
    "for name, v in net.transformer.state_dict().items():\n"
    "    d = (v - before[name]).abs().max().item()\n"
    "    assert 0 < d < 0.1, (name, d)\n"; /* a step was made from there */

static void run_script(const char *body, const char *folder)
{
    char script[8192], tools[4096];
    snprintf(tools, sizeof tools, "%s", dt_source_path("tools"));
    snprintf(script, sizeof script, "import sys\nsys.path.insert(0, '%s')\nfolder = '%s'\n%s%s",
        tools, folder, language_model, body);
    assert_int_equal(python(script), 0);
}

static void convert(const char *how, const char *folder, const char *from, const char *to, int code,
    const char *says)
{
    char line[4096];
    snprintf(line, sizeof line, "%s '%s%s' '%s%s'", how, folder, from, folder, to);
    ran r = weights(line);
    assert_code(&r, code);
    assert_has(r.out, says);
    cli_done(&r);
}

/* In @folder: g.pt, and the same as g.safetensors. */
static void make_language_model(char *folder, size_t cap)
{
    snprintf(folder, cap, "%s", dt_temp_path(""));
    run_script(make_it, folder);
    convert("from-torch", folder, "g.pt", "g.safetensors", 0, "28 tensors");
}

static void a_language_model_keeps_its_turned_matrices(void **state)
{
    NEED_TORCH(3);
    char ini[2048], folder[512];
    make_language_model(folder, sizeof folder);
    convert("from-torch", folder, "untied.pt", "no.safetensors", 3, "only a tied head is known");
    convert("to-torch", folder, "g.safetensors", "same.pt", 0, "28 tensors");
    snprintf(ini, sizeof ini,
        "[model]\nname = gpt2\nlayers = 2\nheads = 2\nwidth = 16\ncontext = 8\nvocab = 7\n"
        "dropout = 0\nweights = %sg.safetensors\n[data]\nsource = text\npath = %stext\n"
        "[train]\nbatch = 8\nsteps = 1\nlr = 1e-3\noptimizer = adamw\n[device]\nthreads = 1\n"
        "[run]\ndir = %slanguage\noverwrite = on\n",
        folder, folder, folder);
    const char *file = cli_file("gpt2.ini", ini);
    ran r = cli_run("eval FILE --json", file);
    assert_code(&r, 0);
    cli_file("scores", r.out);
    cli_done(&r);
    r = cli_run("FILE", file);
    assert_code(&r, 0);
    cli_done(&r);
    convert("to-torch", folder, "language/checkpoints/model.safetensors", "learnt.pt", 0, "28 ");
    run_script(look_at_it, folder);
}

/* A file of 16 GiB, all of it a hole, with 4 GiB of memory for what is not mapped. */
static void files_are_not_read_into_memory(void **state)
{
    NEED_TORCH(4);
    static const char header[] =
        "{\"a.weight\":{\"dtype\":\"F32\",\"shape\":[65536,32768],\"data_offsets\":[0,8589934592]},"
        "\"b.weight\":{\"dtype\":\"F32\",\"shape\":[65536,32768],"
        "\"data_offsets\":[8589934592,17179869184]},"
        "\"c.weight\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[17179869184,17179869192]}"
        "}";
    enum { HEADER = 512 }; /* with blanks at its end, so that tensors lie at multiples of 4 */
    const uint8_t length[8] = {HEADER & 0xFF, HEADER >> 8};
    char path[1024], script[4096], line[16384];
    snprintf(path, sizeof path, "%s", dt_temp_path("large.safetensors"));
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(length, 1, sizeof length, f), sizeof length);
    assert_int_equal(fprintf(f, "%-*s", (int)HEADER, header), HEADER);
    assert_int_equal(fclose(f), 0);
    assert_int_equal(truncate(path, (off_t)8 + HEADER + 17179869192), 0);
    snprintf(script, sizeof script, "%s", dt_source_path("tools/weights.py"));
    snprintf(line, sizeof line, "ulimit -d 4194304; '%s' '%s' show '%s' >/dev/null",
        cli_torch_python(), script, path);
    assert_int_equal(system(line), 0);
    assert_int_equal(unlink(path), 0);
}

static void what_is_no_weight_file_is_refused(void **state)
{
    NEED_TORCH(5);
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
    snprintf(bad, sizeof bad, "%s", cli_file("bad.pt", "\x7f______________"));
    snprintf(line, sizeof line, "from-torch '%s' '%s.out'", bad, bad);
    r = weights(line);
    assert_code(&r, 3);
    assert_has(r.out, "not a state that PyTorch loads");
    cli_done(&r);
}

/* A state below others, whose names and buffers are another program's. */
static void names_are_changed_and_left_out_when_asked(void **state)
{
    NEED_TORCH(6);
    char folder[512];
    snprintf(folder, sizeof folder, "%s", dt_temp_path("ema.pt"));
    folder[strlen(folder) - strlen("ema.pt")] = '\0';
    run_script(
        "t = torch.tensor([1.0, 2.0])\n"
        "state = {'net.a.w': t, 'net.b.w': 2 * t, 'net.head.w': t, 'net.at': torch.arange(3)}\n"
        "torch.save({'epoch': 3, 'ema': {'model': state}}, folder + 'ema.pt')\n",
        folder);
    convert(
        "from-torch", folder, "ema.pt", "none.safetensors", 3, "--key names where, of epoch, ema");
    convert("from-torch --key emu", folder, "ema.pt", "none.safetensors", 3,
        "nothing lies at 'emu'; there are epoch, ema");
    convert("from-torch --key ema.model --rename '^net\\.=' --rename '^a\\.(w)$=c.\\1' "
            "--without 'head.*'",
        folder, "ema.pt", "named.safetensors", 0, "left out: at is torch.int64");
    convert("to-torch --rename '^=net.' --without 'net.b.*'", folder, "named.safetensors",
        "back.pt", 0, "back.pt: 1 tensors");
    run_script("back = torch.load(folder + 'back.pt')\n"
               "assert list(back) == ['net.c.w'] and back['net.c.w'].tolist() == [1, 2], back\n",
        folder);
    convert("from-torch --key ema --rename '[ab]\\.w=w'", folder, "ema.pt", "none.safetensors", 3,
        "two tensors would be called net.w; one of them was net.b.w");
    convert("from-torch --key ema --rename '(=x'", folder, "ema.pt", "none.safetensors", 2, "(=x");
}

/* Tensors that are nothing but shapes, for want of PyTorch: layers go together along their outputs,
 * and what only looks like tiles does not. */
static void tiles_become_whole(void **state)
{
    (void)state;
    NEED_BINARY();
    if (system("python3 -c '' 2>/dev/null") != 0)
        skip();
    static const char *const body =
        "import weights\n"
        "class T:\n"
        "    def __init__(self, *shape): self.shape = shape\n"
        "class torch:\n"
        "    def cat(tiles, dim):\n"
        "        shape = list(tiles[0].shape)\n"
        "        shape[dim] *= len(tiles)\n"
        "        return T(*shape)\n"
        "def tiles(name, n, *shape): return {name % i: T(*shape) for i in range(n)}\n"
        "state = {**tiles('wte.%d.weight', 12, 5, 8), 'wpe.weight': T(4, 8),\n"
        "    **tiles('h.0.attn.c_attn.%d.weight', 3, 8, 8), **tiles('h.0.attn.c_attn.%d.bias', 3, "
        "8),\n"
        "    **tiles('turned.%d.weight', 2, 9, 4), **tiles('turned.%d.bias', 2, 4),\n"
        "    **tiles('plain.%d.weight', 2, 4, 9), **tiles('plain.%d.bias', 2, 4),\n"
        "    'features.0.weight': T(2, 3), 'features.3.weight': T(2, 3),\n"
        "    'a.0.weight': T(2, 3), 'a.1.weight': T(2, 4), 'lstm.0.weight_ih': T(2), "
        "'lstm.1.weight_ih': T(2)}\n"
        "out, counts = weights.joined(torch, state)\n"
        "got = {k: v.shape for k, v in out.items()}\n"
        "assert got == {'wte.weight': (60, 8), 'wpe.weight': (4, 8), 'h.0.attn.c_attn.weight': (8, "
        "24),\n"
        "    'h.0.attn.c_attn.bias': (24,), 'turned.weight': (9, 8), 'turned.bias': (8,),\n"
        "    'plain.weight': (8, 9), 'plain.bias': (8,), 'features.0.weight': (2, 3),\n"
        "    'features.3.weight': (2, 3), 'a.0.weight': (2, 3), 'a.1.weight': (2, 4),\n"
        "    'lstm.0.weight_ih': (2,), 'lstm.1.weight_ih': (2,)}, got\n"
        "assert counts == {'wte': 12, 'h.0.attn.c_attn': 3, 'turned': 2, 'plain': 2}, counts\n";
    char script[4096], line[4096];
    snprintf(script, sizeof script,
        "import sys\nsys.dont_write_bytecode = True\n"
        "sys.path.insert(0, '%s')\n%s",
        dt_source_path("tools"), body);
    snprintf(line, sizeof line, "python3 '%s'", cli_file("tiles.py", script));
    assert_int_equal(system(line), 0);
}

/* Of a language model in tiles, as PyTorch's has them. */
static void a_language_model_in_tiles_becomes_whole(void **state)
{
    NEED_TORCH(7);
    char ini[2048], folder[512];
    make_language_model(folder, sizeof folder);
    snprintf(ini, sizeof ini,
        "[model]\nname = gpt2\nlayers = 2\nheads = 2\nwidth = 16\ncontext = 8\nvocab = 7\n"
        "tiles = 4\nhead_tiles = 7\ndropout = 0\nweights = %sg.safetensors\n[data]\nsource = text\n"
        "path = %stext\n[train]\nbatch = 8\nsteps = 1\nlr = 1e-12\n[device]\nthreads = 1\n"
        "[run]\ndir = %stiled\noverwrite = on\n",
        folder, folder, folder);
    ran r = cli_run("FILE", cli_file("gpt2.ini", ini));
    assert_code(&r, 0);
    cli_done(&r);
    convert("to-torch --whole", folder, "tiled/checkpoints/model.safetensors", "whole.pt", 0,
        "h.1.mlp.c_proj: 4 tiles");
    run_script("before = torch.load(folder + 'g.pt')\n"
               "net.transformer.load_state_dict(torch.load(folder + 'whole.pt'))\n"
               "for name, v in net.transformer.state_dict().items():\n"
               "    assert (v - before['transformer.' + name]).abs().max() < 1e-6, name\n",
        folder);
}

DT_TEST_GROUP(weights_tool)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(they_come_back_as_they_were),
        cmocka_unit_test(a_module_of_pytorch_takes_and_gives_them),
        cmocka_unit_test(names_lose_the_wrapper_around_the_network),
        cmocka_unit_test(a_language_model_keeps_its_turned_matrices),
        cmocka_unit_test(names_are_changed_and_left_out_when_asked),
        cmocka_unit_test(tiles_become_whole),
        cmocka_unit_test(a_language_model_in_tiles_becomes_whole),
        cmocka_unit_test(files_are_not_read_into_memory),
        cmocka_unit_test(what_is_no_weight_file_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
