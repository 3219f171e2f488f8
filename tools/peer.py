#!/usr/bin/env python3
"""Compares dnntrain with PyTorch on this machine: the same network, weights and batch, in turns.

    tools/peer.py configs/resnet50.ini                      step time and resident memory
    tools/peer.py configs/resnet50.ini --venv               with the PyTorch that PyPI has now
    tools/peer.py configs/vit_small.ini --torch tuned,compiled --isa avx2
    tools/peer.py configs/resnet50.ini --policies chen_cheap,gist_lossless+vdnn_conv --checkpoint
    tools/peer.py configs/resnet20_cifar10.ini --check      loss and gradients
    tools/peer.py configs/gpt2_xl.ini --loss                the first step's loss, fp32 and bf16
    tools/peer.py configs/resnet50.ini --torch none --ours-before OLD/dnntrain    two of ours
    tools/peer.py configs/resnet20_cifar10.ini --busy 2     on a machine that does other things

Nothing else needs PyTorch, nor does this with --torch none; --venv fetches it. docs/peer.md says
what is measured and how. Exit codes: 0 done, 1 a run failed or --check found a difference, 2 wrong
use or no PyTorch (0 and the word "skipped" with --if-present).
"""

import argparse
import array
import contextlib
import copy
import json
import math
import os
import random
import re
import shutil
import statistics
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LR = "0.001"  # small, so that no step of noise ends in numbers that are not finite
SIDES = ("stock", "tuned", "compiled")
# What a configuration may ask for beyond the step that both sides make.
PLAIN = {"train.label_smoothing": 0, "train.clip": 0, "train.warmup": 0, "train.no_decay": "off",
         "checkpoint.every": 0}
# What makes another step, of which PyTorch's sides know nothing.
OURS_ALONE = {"train.freeze": "", "train.rates": "", "train.states": "fp32"}
# Networks that peer_torch.py has as well.
KNOWN = re.compile(r"resnet\d+|vgg\d+(_bn)?|densenet\d+|vit_small|gpt2|alexnet|lenet5|mlp")
LIBRARY_FOLDERS = ["/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64"]


class Failed(Exception):
    """A program that was started did not do its work; the text says which and why."""


class Refused(Exception):
    """What was asked for cannot be had here; the text says why."""


def arguments():
    p = argparse.ArgumentParser(
        description="Compare dnntrain with PyTorch on this machine: same network, weights and "
        "batch, in turns, each in a process of its own.",
        epilog="docs/peer.md says what is measured and how.",
    )
    p.add_argument("config", metavar="CONFIG", help="INI file of the run")
    p.add_argument("--set", metavar="S.K=V", action="append", default=[], help="as for dnntrain")
    p.add_argument("--steps", type=int, default=10, help="timed steps a round (10)")
    p.add_argument("--warmup", type=int, default=2, help="steps before them, not counted (2)")
    p.add_argument("--rounds", type=int, default=5, help="turns of every side (5)")
    p.add_argument("--torch", metavar="A,B", default="all",
                   help="sides of PyTorch: stock, tuned, compiled; both: the first two; all; none "
                   "(all, without compiled where that cannot be)")
    p.add_argument("--layout", choices=["nhwc", "nchw", "best"], default="nhwc",
                   help="of images in PyTorch; best: the faster one of a trial (nhwc)")
    p.add_argument("--checkpoint", action="store_true",
                   help="PyTorch with torch.utils.checkpoint as well, sqrt(n) segments")
    p.add_argument("--policies", metavar="A,B+C", default="",
                   help="dnntrain under these policies as well; + joins those that act together")
    p.add_argument("--busy", metavar="N", type=int, default=0,
                   help="beside N processes that never rest; a turn's time is its mean step")
    p.add_argument("--nice", metavar="K", type=int, default=0, help="of those processes (0)")
    p.add_argument("--check", action="store_true", help="compare loss and gradients, not time")
    p.add_argument("--loss", action="store_true",
                   help="compare the first step's loss alone, in fp32 and bf16, by the file's own "
                   "policy: for a gpt2 whose gradients do not fit")
    p.add_argument("--json", action="store_true", help="every number, as JSON")
    p.add_argument("--if-present", action="store_true", help="without PyTorch: say skipped, exit 0")
    p.add_argument("--dnntrain", metavar="PATH", default=str(ROOT / "dnntrain"))
    p.add_argument("--ours-before", metavar="PATH",
                   help="an older build of dnntrain, which has a turn beside each of this one's")
    p.add_argument("--isa", choices=list(ISAS), help="no better instructions than these, all sides")
    p.add_argument("--python", metavar="PATH", help="a Python that has torch")
    p.add_argument("--venv", metavar="DIR", nargs="?", const=str(default_venv()),
                   help="the PyTorch of this virtual environment, which is made, with the current "
                   f"PyTorch of PyPI, when it is not there ({default_venv()}); behind CONFIG")
    p.add_argument("--lib", metavar="DIR", action="append", default=[],
                   help="look here too for the libraries of the tuned side")
    a = p.parse_args()
    if min(a.steps, a.rounds) < 1 or a.warmup < 1:
        p.error("--steps, --warmup and --rounds are at least 1")
    a.all, a.torch = a.torch == "all", sides_of_torch(a.torch)
    if a.torch is None:
        p.error(f"--torch is one of both, all, none, or some of {', '.join(SIDES)}")
    if not a.torch and (a.check or a.checkpoint or a.loss or a.venv):
        p.error("--check, --loss, --checkpoint and --venv want PyTorch: leave out --torch none")
    if a.venv and a.python:
        p.error("--python and --venv both name a PyTorch: leave out one")
    if a.ours_before and a.check:
        p.error("--check compares with PyTorch: leave out --ours-before")
    if not 0 <= a.busy <= 256 or not 0 <= a.nice <= 19:
        p.error("--busy is 0 to 256, --nice 0 to 19")
    old = a.ours_before
    if old and (not os.access(old, os.X_OK) or os.path.isdir(old)):
        p.error(f"--ours-before: {old} is no program that can be run")
    a.policies = [q.replace("+", ",") for q in a.policies.split(",") if q]
    return a


def sides_of_torch(text):
    """The sides that the word names, or None for a word that names none."""
    known = {"both": ["stock", "tuned"], "all": list(SIDES), "none": []}
    if text in known:
        return known[text]
    named = text.split(",")
    return [s for s in SIDES if s in named] if set(named) <= set(SIDES) else None


# --- the Python that has PyTorch ---


def default_venv():
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "dnntrain" / "peer"


def python_of(venv):
    return str(Path(venv) / "bin" / "python3")


def has_torch(path):
    code = "import importlib.util as u, sys; sys.exit(u.find_spec('torch') is None)"
    try:
        return subprocess.run([path, "-c", code], capture_output=True).returncode == 0
    except OSError:
        return False


def find_python(wanted, venv):
    """The first Python that has torch and what kind of place it is: the one asked for; or else
    our virtual environment, the Python that runs this, the system's. None when there is none."""
    if wanted:
        places = [(wanted, "as named")]
    elif venv:
        places = [(python_of(venv), f"virtual environment {venv}")]
    else:
        places = [(python_of(default_venv()), f"virtual environment {default_venv()}"),
                  (sys.executable, "the Python that runs this"),
                  ("/usr/bin/python3", "the system's Python")]
    return next((place for place in places if has_torch(place[0])), None)


def make_venv(folder):
    """A virtual environment with PyPI's current PyTorch. One that is there without PyTorch, as an
    attempt that was broken off leaves it, is gone on with."""
    folder = Path(folder)
    if has_torch(python_of(folder)):
        return
    if folder.is_file() or (folder.is_dir() and any(folder.iterdir())
                            and not (folder / "pyvenv.cfg").exists()):
        raise Refused(f"--venv: {folder} is something else than a virtual environment: name a new "
                      "folder (--venv takes the word behind it: CONFIG comes first)")
    print(f"peer: making {folder} with PyTorch from PyPI: some GB, minutes", file=sys.stderr)
    steps = [([sys.executable, "-m", "venv", str(folder)],
              "on Debian: apt-get install python3-venv"),
             ([python_of(folder), "-m", "pip", "install", "torch"],
              "pip said why; --venv again goes on, once that is mended, and so does "
              f"{folder}/bin/pip install torch")]
    for command, remedy in steps:
        try:
            done = subprocess.run(command, stdout=sys.stderr).returncode
        except OSError as e:
            done = e.strerror
        if done != 0:
            raise Refused(f"--venv: {' '.join(command)} failed ({done}); {remedy}")


# --- instruction sets ---

WIDE = ["avx512f", "avx512dq", "avx512bw", "avx512vl"]
# By the word of DT_ISA: what /proc/cpuinfo must have, and what caps the parts of PyTorch alike:
# oneDNN (its documentation, "CPU dispatcher control"), ATen, and MKL and the code that inductor has
# compiled, which look for themselves.
ISAS = {
    "avx2": (["avx2", "fma"], "AVX2", "avx2", "AVX2", "x86-64-v3"),
    "avx512": (WIDE, "AVX512_CORE", "avx512", "AVX512", "x86-64-v4"),
    "avx512_bf16": ([*WIDE, "avx512_bf16"], "AVX512_CORE_BF16", "avx512", "AVX512_E3",
                    "cooperlake"),
    "amx": ([*WIDE, "avx512_bf16", "amx_tile", "amx_int8", "amx_bf16"], "AVX512_CORE_AMX", "avx512",
            "AVX512_E4", "sapphirerapids"),
}


def lacking(isa, cpuinfo):
    """What the processor of this text of /proc/cpuinfo lacks for it."""
    found = re.search(r"^flags\s*:(.*)$", cpuinfo, re.M)
    has = set(found[1].split()) if found else set()
    return [flag for flag in ISAS[isa][0] if flag not in has]


def cap(isa):
    """Environments that keep ours and PyTorch at or below it."""
    if not isa:
        return {}, {}
    _, onednn, aten, mkl, march = ISAS[isa]
    torch = {"ONEDNN_MAX_CPU_ISA": onednn, "ATEN_CPU_CAPABILITY": aten,
             "MKL_ENABLE_INSTRUCTIONS": mkl, "TORCHINDUCTOR_CPP_MARCH": march}
    if isa == "avx2":
        torch["OPENBLAS_CORETYPE"] = "Haswell"  # names a processor: no limit that others could have
    return {"DT_ISA": isa}, torch


# --- processes ---


def run(command, env, cpus):
    """Standard output of a program kept to these processors; Failed with its last words."""
    try:
        done = subprocess.run(command, env=env, capture_output=True, text=True,
                              preexec_fn=lambda: os.sched_setaffinity(0, cpus))
    except OSError as e:
        raise Failed(f"cannot start {command[0]}: {e.strerror}") from e
    if done.returncode != 0:
        what = f"signal {-done.returncode}" if done.returncode < 0 else f"exit {done.returncode}"
        said = [line.strip() for line in done.stderr.splitlines() if line.strip()]
        ours = [line for line in said if line.startswith(("dnntrain: ", "peer: "))]
        raise Failed("\n".join([what, *(ours or said[-1:])]))
    return done.stdout


def environment(threads, **more):
    """Ours without what would tell one side's libraries something the other's do not hear."""
    env = {k: v for k, v in os.environ.items()
           if not k.startswith(("OMP_", "GOMP_", "KMP_", "MKL_", "DNNL_", "ONEDNN_", "OPENBLAS_",
                                "TORCHINDUCTOR_", "TORCH_COMPILE"))
           and k not in ("LD_PRELOAD", "ATEN_CPU_CAPABILITY", "DT_ISA")}
    env["OMP_NUM_THREADS"] = str(threads)
    return {**env, **more}


def find_library(folders, *patterns):
    for folder in folders:
        for pattern in patterns:
            found = sorted(Path(folder).glob(pattern))
            if found:
                return found[0].resolve()
    return None


def tuning(folders, inside, isa):
    """What the tuned side gets, as environment and in words. A PyTorch with MKL inside keeps it."""
    env, words = {"GOMP_SPINCOUNT": "20000"}, ["flush to zero"]
    malloc = find_library(folders, "libtcmalloc_minimal.so.4", "libtcmalloc.so.4")
    blas = None
    words.append("tcmalloc" if malloc else "no tcmalloc (libtcmalloc-minimal4)")
    if inside != "mkl":
        blas = find_library(folders, "openblas-openmp/libblas.so.3", "libopenblas.so.0")
        words.append("OpenMP OpenBLAS" if blas else "no OpenBLAS (libopenblas0-openmp)")
    preload = [str(p) for p in (malloc, blas) if p]
    if preload:
        env["LD_PRELOAD"] = ":".join(preload)
    if blas:
        env["LD_LIBRARY_PATH"] = ":".join(
            [str(blas.parent), *filter(None, [os.environ.get("LD_LIBRARY_PATH")])])
    if not isa and not lacking("avx512", Path("/proc/cpuinfo").read_text()):
        env["ATEN_CPU_CAPABILITY"] = "avx512"
        words.append("AVX-512")
    return env, ", ".join(words)


# --- what is compared ---


class Dnntrain:
    """Runs of ours: the file's configuration, with what the comparison fixes laid over it."""

    def __init__(self, a, folder):
        self.a, self.program, self.folder, self.runs = a, a.dnntrain, folder, 0
        self.cpus, self.cap = os.sched_getaffinity(0), cap(a.isa)[0]
        self.env = environment(len(self.cpus), **self.cap)

    def by(self, program):
        """The same runs by another build."""
        other = copy.copy(self)
        other.program, other.folder = program, self.folder / "before"
        other.folder.mkdir()
        return other

    def command(self, words, sets):
        pairs = [*self.a.set, *(f"{k}={v}" for k, v in sets.items())]
        return [self.program, *words, *(w for pair in pairs for w in ("--set", pair))]

    def train(self, sets):
        """One run on ready batches. Its folder, which the caller removes."""
        self.runs += 1
        there = self.folder / f"run{self.runs}"
        fixed = {
            "data.source": "tensors", "data.eval_path": "", "train.epochs": 0, "train.lr": LR,
            "train.micro_batch": 0, "train.schedule": "constant", "train.milestones": "",
            "train.final_lr": 0, "train.warmup": 0,
            "train.eval_every": 0, "train.patience": 0, "run.dir": there,
        }
        run(self.command([self.a.config], {**fixed, **sets}), self.env, self.cpus)
        return there

    def describe(self):
        """Model, sizes, threads and optimizer, from a plan and from one step on a batch of zeros;
        and the weights it starts from, in a file."""
        words, no_limit = ["plan", self.a.config], {"memory.device_budget": 0}
        text = run(self.command(words, no_limit), self.env, self.cpus)
        plan = json.loads(run(self.command([*words, "--json"], no_limit), self.env, self.cpus))
        about = {"name": plan["model"], "batch": plan["batch"], "precision": plan["precision"],
                 "policy": plan["policy"]}
        if not KNOWN.fullmatch(about["name"]):
            raise Refused(f"{self.a.config}: '{about['name']}' is none of the networks that this tool knows: "
                          "those of pictures with a class each, resnet18 to resnet152 and resnet20 to resnet1202, "
                          "vgg11 to vgg19, densenet121 to densenet201, vit_small, alexnet, lenet5 and mlp; and gpt2")
        image = re.search(r"image (\d+)x(\d+)x(\d+)", text)
        data = self.folder / "zeros.safetensors"
        if about["name"] != "gpt2":
            about["image"], about["channels"] = int(image[1]), int(image[3])
            write_zeros(data, [1, 2, int(image[3]), int(image[1]), int(image[2])], "F32")
        else:
            context = int(re.search(r"(\d+) tokens", text)[1])
            write_zeros(data, [1, 2, context], "I64")
        there = self.train({"data.path": data, "train.batch": 2, "train.steps": 1,
                            "train.lr": "1e-12", "memory.policy": "keep_all", **no_limit})
        keys = read_config(there / "config.ini")
        about["weights"] = self.folder / "weights.safetensors"
        shutil.move(there / "checkpoints" / "model.safetensors", about["weights"])
        summary = json.loads((there / "summary.json").read_text())
        shutil.rmtree(there)
        self.settle(about, keys, summary["threads"])
        return about

    def settle(self, about, keys, threads):
        if self.a.torch:
            check_alike(keys)
        dropout = float(keys.get("model.dropout", -1))
        if dropout < 0:  # the model's own
            dropout = 0.5 if about["name"].startswith(("vgg", "alexnet")) else 0.0
        shapes = read_shapes(about["weights"])
        about.update(
            width=int(keys["model.width"]) or 64, heads=int(keys.get("model.heads", 0)),
            dropout=dropout, threads=threads,
            optimizer={
                "name": keys["train.optimizer"], "lr": float(LR),
                "momentum": float(keys["train.momentum"]),
                "weight_decay": float(keys["train.weight_decay"]),
                "betas": [float(keys.get("train.beta1", 0.9)),
                          float(keys.get("train.beta2", 0.999))],
                "eps": float(keys.get("train.eps", 1e-8)),
                "nesterov": keys.get("train.nesterov", "off") == "on"})
        for last in ("fc.weight", "linear.weight", "fc3.weight", "classifier.weight",
                     "classifier.6.weight", "head.weight"):
            about["classes"] = shapes.get(last, [about.get("classes")])[0]
        if not self.a.busy:  # which processors the others leave is for the system to say
            self.cpus = set(sorted(self.cpus)[: max(1, threads)])
        self.env = environment(threads, **self.cap)
        self.fixed = {"train.batch": about["batch"], "model.weights": about["weights"],
                      "device.threads": threads,
                      **{key: off for key, off in PLAIN.items() if key in keys}}

    def time(self, data, policy):
        a = self.a
        sets = {**self.fixed, "data.path": data, "train.steps": a.warmup + a.steps}
        if policy:
            sets["memory.policy"] = policy
        there = self.train(sets)
        lines = (json.loads(line) for line in (there / "metrics.jsonl").open())
        steps = [line for line in lines if line["split"] == "train"]
        summary = json.loads((there / "summary.json").read_text())
        shutil.rmtree(there)
        return {"seconds": [line["step_seconds"] for line in steps[a.warmup:]],
                "first_loss": steps[0]["loss"], "resident_peak": summary["process_peak"],
                "device_peak": summary["device_peak_measured"]}


def check_alike(keys):
    for key, off in OURS_ALONE.items():
        if keys.get(key, off) != off:
            raise Refused(f"{key} = {keys[key]}: PyTorch's sides train all parameters, at one rate and with moments "
                          f"in fp32; leave it out (--set {key}={off}), or compare ours alone (--torch none)")


def write_zeros(path, shape, kind):
    """A batch for a first look: x of this shape, y as long as it needs."""
    labels = shape[:2] if kind == "F32" else shape
    count = math.prod(shape) * (4 if kind == "F32" else 8)
    write_tensors(path, shape, kind, bytes(count), labels, bytes(8 * math.prod(labels)))


def write_batch(path, about, shapes):
    """What PyTorch else writes: one batch of normal noise, or of tokens, and random labels. What
    the network holds, for people."""
    numbers, n, classes = random.Random(7), about["batch"], about["classes"]
    if about["name"] == "gpt2":
        each, classes = shapes["wpe.weight"][0], shapes["wte.weight"][0]
        kind, shape, labels = "I64", [1, n, each], [1, n, each]
        x = array.array("q", (numbers.randrange(classes) for _ in range(n * each)))
    else:
        side, channels, each = about["image"], about["channels"], 1
        kind, shape, labels = "F32", [1, n, channels, side, side], [1, n]
        x = array.array("f", (numbers.gauss(0, 1) for _ in range(n * channels * side * side)))
    y = array.array("q", (numbers.randrange(classes) for _ in range(n * each)))
    write_tensors(path, shape, kind, x.tobytes(), labels, y.tobytes())
    trained = [d for name, d in shapes.items() if not name.endswith(("_mean", "_var"))]
    return {"tensors": len(shapes), "parameters": sum(math.prod(d) for d in trained)}


def write_tensors(path, shape, kind, x, labels, y):
    end = len(x) + len(y)
    header = json.dumps({
        "x": {"dtype": kind, "shape": shape, "data_offsets": [0, len(x)]},
        "y": {"dtype": "I64", "shape": labels, "data_offsets": [len(x), end]}}).encode()
    header += b" " * (-len(header) % 8)
    path.write_bytes(struct.pack("<Q", len(header)) + header + x + y)


def read_shapes(path):
    with open(path, "rb") as file:
        header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
    return {name: e["shape"] for name, e in header.items() if name != "__metadata__"}


def read_config(path):
    """The effective configuration as section.key; behind " ; " stands where a value is from."""
    keys, section = {}, ""
    for line in path.read_text().splitlines():
        if line.startswith("["):
            section = line.strip("[]")
        elif "=" in line:
            key, value = line.split("=", 1)
            keys[f"{section}.{key.strip()}"] = value.rsplit(" ; ", 1)[0].strip()
    return keys


class Torch:
    """Jobs of peer_torch.py."""

    def __init__(self, python, ours, about, folders):
        self.python, self.ours, self.about = python, ours, python.about if python else {}
        self.tuned = tuning(folders, self.about.get("blas"), ours.a.isa)
        # Headers that inductor compiles beforehand are below TMPDIR, wherever its cache is.
        self.compiled = {**self.tuned[0], "TORCHINDUCTOR_CACHE_DIR": str(ours.folder / "inductor"),
                         "TMPDIR": str(ours.folder)}
        self.job = {"net": {k: about.get(k) for k in
                            ("name", "image", "channels", "classes", "width", "heads", "dropout")},
                    "weights": str(about["weights"]), "batch": about["batch"],
                    "precision": about["precision"], "optimizer": about["optimizer"],
                    "threads": about["threads"], "data": str(ours.folder / "batch.safetensors")}

    def do(self, job, kind="stock", **more):
        env = {"stock": {}, "tuned": self.tuned[0], "compiled": self.compiled}[kind]
        job = {**self.job, "job": job, "layout": "nhwc", "flush": kind != "stock",
               "fused": kind != "stock", "compile": kind == "compiled", **more}
        return self.python.do(job, {**env, **cap(self.ours.a.isa)[1]}, self.ours.cpus)

    def time(self, a, kind, layout, recompute):
        return self.do("time", kind, layout=layout, checkpoint=recompute,
                       steps=a.steps, warmup=a.warmup)


class Python:
    """One that has PyTorch, and what it says of itself."""

    def __init__(self, path, kind):
        self.path, self.kind = path, kind
        self.about = self.do({"job": "about", "threads": 1}, {}, os.sched_getaffinity(0))

    def do(self, job, env, cpus):
        script = str(Path(__file__).with_name("peer_torch.py"))
        out = run([self.path, script, json.dumps(job)], environment(job["threads"], **env), cpus)
        return json.loads(out.strip().splitlines()[-1])

    def words(self):
        onednn = self.about["onednn"]
        return (f"{self.about['torch']} of {self.path} ({self.kind}), "
                f"{'oneDNN ' + onednn if onednn else 'no oneDNN that it tells of'}")

    def cannot_compile(self):
        """Why, in words; None when it can."""
        if self.about["too_old"]:
            return (f"PyTorch {self.about['torch']} has no torch.compile, which came with 2.0; --venv "
                    "fetches the current one, --python names another")
        if not self.about["compiler"]:
            return "there is no C++ compiler ($CXX or g++) or no Python.h (g++, python3-dev)"
        return None


class Side:
    """A row of the table: a function that runs one round, and what the rounds gave."""

    def __init__(self, name, go, busy):
        self.name, self.go, self.rounds, self.error, self.busy = name, go, [], None, busy

    def turn(self):
        try:
            self.rounds.append(self.go())
        except Failed as e:
            self.error = str(e)

    def medians(self):
        """Of each turn. Beside busy processes the mean: a step that waits long is their doing."""
        middle = statistics.fmean if self.busy else statistics.median
        return [middle(r["seconds"]) for r in self.rounds]

    def against(self, first):
        """Ratios of medians to the first row's, over all and round by round."""
        pairs = list(zip(self.medians(), first.medians()))
        return {"time": statistics.median(self.medians()) / statistics.median(first.medians()),
                "time_least": min(x / y for x, y in pairs),
                "time_most": max(x / y for x, y in pairs),
                "memory": self.peak() / first.peak()}

    def peak(self):
        return max(r["resident_peak"] for r in self.rounds)

    def row(self, first):
        if self.error:
            return {"side": self.name, "error": self.error}
        m = self.medians()
        return {"side": self.name, "step_seconds": statistics.median(m), "least": min(m),
                "most": max(m), "resident_peak": self.peak(), "ratio": self.against(first),
                "rounds": self.rounds}


def pick_layout(a, torch, kind):
    if a.layout != "best":
        return a.layout
    trial = {}
    for layout in ("nhwc", "nchw"):
        got = torch.do("time", kind, layout=layout, steps=3, warmup=2)
        trial[layout] = statistics.median(got["seconds"])
    return min(trial, key=trial.get)


def make_sides(a, ours, torch, about):
    data = ours.folder / "batch.safetensors"
    builds = [("dnntrain", ours)]
    if a.ours_before:
        builds.append(("before", ours.by(a.ours_before)))
    sides = [Side(f"{name} {policy or about['policy']}", lambda b=build, p=policy: b.time(data, p), a.busy)
             for policy in [None, *a.policies] for name, build in builds]
    for kind in a.torch:
        if kind == "compiled" and torch.python.cannot_compile():
            continue  # the header says so
        layout = pick_layout(a, torch, kind)
        for recompute in [False, True] if a.checkpoint else [False]:
            name = f"torch {kind}, {'checkpoint' if recompute else layout}"
            sides.append(Side(name, lambda k=kind, l=layout, r=recompute: torch.time(a, k, l, r),
                              a.busy))
    return sides


@contextlib.contextmanager
def company(a):
    """N processes that compute without end, as long as this one lives."""
    loop = ("import os, sys\nos.nice(int(sys.argv[2]))\n"
            "while os.getppid() == int(sys.argv[1]):\n    sum(range(100000))")
    others = [subprocess.Popen([sys.executable, "-c", loop, str(os.getpid()), str(a.nice)])
              for _ in range(a.busy)]
    try:
        yield
    finally:
        for other in others:
            other.kill()
            other.wait()


def turns(a, sides):
    """All sides in each round, every second round backwards: what drifts hits all alike."""
    for r in range(a.rounds):
        for side in sides if r % 2 == 0 else sides[::-1]:
            if not side.error:
                if sys.stderr.isatty():
                    print(f"\r\033[Kround {r + 1}/{a.rounds}: {side.name}", end="", file=sys.stderr)
                side.turn()
            if sides[0].error:
                raise Failed(f"{sides[0].name}: {sides[0].error}")
    if sys.stderr.isatty():
        print("\r\033[K", end="", file=sys.stderr)


# --- output ---


def human(size):
    return f"{size / 2**20:.1f} MiB" if size < 2**30 else f"{size / 2**30:.2f} GiB"


def describe(a, about, torch, same, sides):
    n = about
    image = ""
    if n.get("image"):
        image = f"image {n['image']}x{n['image']}x{n['channels']}, {n['classes']} classes, "
    print(f"{n['name']}, batch {n['batch']}, {image}{n['precision']}, {n['optimizer']['name']}, "
          f"{n['threads']} thread{'s' * (n['threads'] != 1)}")
    print(f"network   the same on all sides: {same['tensors']} tensors, "
          f"{same['parameters']:,} parameters")
    runs = {s.name: s.rounds[0] for s in sides if s.rounds}
    if n["dropout"] == 0:
        first, *others = (r["first_loss"] for r in runs.values())
        apart = max((abs(x - first) / abs(first) for x in others), default=0.0)
        print(f"loss      {first:.6f} in the first step, at most {apart:.0e} of it apart")
    if torch.python:
        print(f"torch     {torch.python.words()}")
    for kind in a.torch:
        run = next((r for name, r in runs.items() if name.startswith(f"torch {kind}")), None)
        if run:
            describe_torch(kind, run, torch)
        elif kind == "compiled" and torch.python.cannot_compile():
            print(f"{kind}  not measured: {torch.python.cannot_compile()}")
    if a.isa:
        pairs = [f"{k}={v}" for env in cap(a.isa) for k, v in env.items()]
        print(f"capped    {a.isa}: {' '.join(pairs)}")
    print(f"measured  {a.rounds} rounds in turns, each {a.steps} steps after {a.warmup} "
          "of warm-up")
    if a.busy:
        print(f"          beside {a.busy} busy process{'es' * (a.busy != 1)}, nice {a.nice}: of a "
              "turn the mean step")
    busy = os.getloadavg()[0]
    if not a.busy and busy > 1.25 * n["threads"]:
        print(f"          the machine had other work (load {busy:.1f}): times spread")
    print()


def describe_torch(kind, run, torch):
    blas = [os.path.basename(p) for p in run["libraries"]
            if "malloc" not in p and not os.path.basename(p).startswith("libcu")]
    if torch.about.get("blas") == "mkl":
        blas.insert(0, "MKL inside")
    print(f"{kind:9} {run['capability']} kernels, {', '.join(blas) or 'no BLAS library'}")
    if kind == "compiled":
        graphs = f"{run['graphs']} graph{'s' * (run['graphs'] != 1)}"
        print(f"          inductor, {torch.about['compiler']}: {graphs}; not counted: "
              f"{run['warmup_steps']} steps, {run['compile_seconds']:.0f} s of compiling")
    if kind != "stock":
        print(f"          with {torch.tuned[1]}")
    print(f"          {human(run['resident_after_import'])} resident before there is a network; "
          f"{run['faults_a_step']:,.0f} page faults a step")
    print(f"          left out of its memory: {human(run['resident_left_out'])} of CUDA's libraries "
          "(lib{cu,nv,nccl}*)")


def seconds(value, width=0):
    """Four digits behind the point, or as many as a step of less than ten milliseconds has."""
    return f"{value:{width}.{4 if value >= 0.01 else 6}f}"


def table(sides):
    width = max(24, *(len(s.name) for s in sides))
    blank = " " * width
    print(f"{blank}  {'seconds a step':^24}  {'time / the first':^19}  {'resident memory':>17}")
    print(f"{blank}  {'median':>8} {'least..most':^15}  {'':5}  {'least..most':^12}  "
          f"{'peak':>11} {'ratio':>5}")
    for s in sides:
        row = s.row(sides[0])
        if "error" in row:
            print(f"{s.name:{width}}  failed: {row['error'].splitlines()[0]} (see below)")
            continue
        q = row["ratio"]
        print(f"{s.name:{width}}  {seconds(row['step_seconds'], 8)} "
              f"{seconds(row['least'], 7)}..{seconds(row['most'])} "
              f"{q['time']:6.2f} {q['time_least']:6.2f}..{q['time_most']:.2f}  "
              f"{human(row['resident_peak']):>11} {q['memory']:5.2f}")
    for s in sides:
        if s.error:
            print(f"\n{s.name}: {s.error}")


def compare_gradients(a, ours, torch, about):
    """One step on both sides, from the same weights on the same batch, without dropout."""
    dump = ours.folder / "gradients.safetensors"
    sets = {**ours.fixed, "data.path": torch.job["data"], "train.steps": 1,
            "train.dump_gradients": dump}
    if about["dropout"] > 0:
        sets["model.dropout"] = 0
        torch.job["net"]["dropout"] = 0.0
    there = ours.train(sets)
    loss = json.loads((there / "metrics.jsonl").open().readline())["loss"]
    shutil.rmtree(there)
    got = {"dnntrain_loss": loss, **torch.do("check", gradients=str(dump))}
    ours_off, torch_off = (abs(got[f"{side}_loss"] - got["exact_loss"]) / abs(got["exact_loss"])
                           for side in ("dnntrain", "torch"))
    far = {side: got[side]["difference"] for side in ("dnntrain", "torch")}
    least = {"fp32": (1e-5, 1e-3), "bf16": (2e-2, 5e-2)}[about["precision"]]
    got["agree"] = (ours_off <= max(least[0], 4 * torch_off)
                    and far["dnntrain"] <= max(least[1], 4 * far["torch"]))
    if a.json:
        print(json.dumps(got, indent=1))
    else:
        print(f"{about['name']}, batch {about['batch']}, {about['precision']}: one step, beside "
              "PyTorch in double precision")
        print(f"torch      {torch.python.words()}")
        print(f"loss       {got['exact_loss']:.9f}; dnntrain {ours_off:.1e} off, torch in "
              f"{about['precision']} {torch_off:.1e}")
        print(f"gradients  {got['tensors']} tensors; dnntrain at most {far['dnntrain']:.1e} off "
              f"({got['dnntrain']['tensor']}), torch {far['torch']:.1e} ({got['torch']['tensor']})")
        print("agree" if got["agree"] else "DIFFER")
    return 0 if got["agree"] else 1


def compare_losses(a, python, folder):
    """One step of ours in each precision, with the smallest rate that there is, on a batch of random tokens; and
    PyTorch's loss in fp32 by the weights that the first of these runs has left."""
    ours = Dnntrain(a, folder)
    printed = folder / "config.ini"
    printed.write_text(run(ours.command(["config", a.config], {}), ours.env, ours.cpus))
    keys, weights = read_config(printed), folder / "weights.safetensors"
    if keys["model.name"] != "gpt2":
        raise Failed("--loss is for networks of tokens: model.name = gpt2")
    about = {"name": "gpt2", "batch": int(keys["train.batch"]), "weights": weights, "classes": None,
             "precision": "fp32", "heads": int(keys["model.heads"]), "dropout": 0.0,
             "optimizer": {}, "threads": len(ours.cpus)}
    data = folder / "batch.safetensors"
    write_batch(data, about, {"wpe.weight": [int(keys["model.context"])],
                              "wte.weight": [int(keys["model.vocab"])]})
    # A rate so small moves no weight that is felt, and this optimizer keeps nothing beside it.
    sets = {"data.path": data, "train.steps": 1, "train.lr": "1e-12", "train.optimizer": "sgd",
            "train.momentum": 0, "train.weight_decay": 0, "model.dropout": 0}
    got = {}
    for precision in ("fp32", "bf16"):
        there = ours.train({**sets, "train.precision": precision})
        got[precision] = json.loads((there / "metrics.jsonl").open().readline())["loss"]
        if precision == "fp32":
            (there / "checkpoints" / "model.safetensors").rename(weights)
            sets["model.weights"] = weights
        shutil.rmtree(there)
    got.update(Torch(python, ours, about, []).do("loss"))
    off = {p: abs(got[p] - got["torch_loss"]) for p in ("fp32", "bf16")}
    got["agree"] = off["fp32"] <= 1e-4 and off["bf16"] <= 2e-2
    if a.json:
        print(json.dumps(got, indent=1))
    else:
        print(f"gpt2, batch {about['batch']}: the loss of the first step, beside PyTorch in fp32")
        print(f"torch      {python.words()}")
        print(f"loss       {got['torch_loss']:.6f}; dnntrain in fp32 {off['fp32']:.1e} off, in bf16 "
              f"{off['bf16']:.1e}")
        print("agree" if got["agree"] else "DIFFER")
    return 0 if got["agree"] else 1


def compare(a, python, folder):
    if a.loss:
        return compare_losses(a, python, folder)
    ours = Dnntrain(a, folder)
    about = ours.describe()
    torch = Torch(python, ours, about, [*a.lib, *LIBRARY_FOLDERS])
    if python is None:
        same = write_batch(Path(torch.job["data"]), about, read_shapes(about["weights"]))
    else:
        same = torch.do("batch")
    if a.check:
        return compare_gradients(a, ours, torch, about)
    sides = make_sides(a, ours, torch, about)
    with company(a):
        turns(a, sides)
    if a.json:
        about["weights"] = None
        told = {**python.about, "python": python.path, "kind": python.kind} if python else None
        print(json.dumps({"about": about, "same": same, "tuned": torch.tuned[1], "torch": told,
                          "isa": a.isa,
                          "sides": [s.row(sides[0]) for s in sides]}, indent=1))
    else:
        describe(a, about, torch, same, sides)
        table(sides)
    return 1 if any(s.error for s in sides) else 0


def absent(a):
    """What to say, and the exit code, where no PyTorch was found."""
    where = f"{a.python} has no PyTorch" if a.python else "no Python with PyTorch found"
    print(f"peer: {'skipped: ' if a.if_present else ''}{where}; --venv makes a virtual environment "
          "with the one of PyPI; on Debian: apt-get install python3-torch libtcmalloc-minimal4 "
          "libopenblas0-openmp; elsewhere name one: --python PATH",
          file=sys.stdout if a.if_present else sys.stderr)
    return 0 if a.if_present else 2


def start(a, folder):
    if a.isa:
        lacks = lacking(a.isa, Path("/proc/cpuinfo").read_text())
        if lacks:
            raise Refused(f"--isa {a.isa}: this processor lacks {', '.join(lacks)}")
    if not a.torch:
        return compare(a, None, folder)
    if a.venv:
        make_venv(a.venv)
    found = find_python(a.python, a.venv)
    if not found:
        return absent(a)
    python = Python(*found)
    if "compiled" in a.torch and not a.all and python.about["too_old"]:
        raise Refused(f"--torch compiled: {python.cannot_compile()}")
    return compare(a, python, folder)


def main():
    a = arguments()
    with tempfile.TemporaryDirectory(prefix="dnntrain-peer-") as folder:
        try:
            return start(a, Path(folder))
        except (Failed, Refused) as e:
            print(f"peer: {e}", file=sys.stderr)
            return 2 if isinstance(e, Refused) else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
