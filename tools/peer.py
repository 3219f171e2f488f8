#!/usr/bin/env python3
"""Compares dnntrain with PyTorch on this machine: the same network, weights and batch, in turns.

    tools/peer.py configs/resnet50.ini                      step time and resident memory
    tools/peer.py configs/resnet50.ini --policies chen_cheap,gist_lossless+vdnn_conv --checkpoint
    tools/peer.py configs/resnet20_cifar10.ini --check      loss and gradients
    tools/peer.py configs/gpt2_xl.ini --loss                the first step's loss, fp32 and bf16
    tools/peer.py configs/resnet50.ini --torch none --ours-before OLD/dnntrain    two of ours
    tools/peer.py configs/resnet20_cifar10.ini --busy 2     on a machine that does other things

Nothing else needs PyTorch, nor does this with --torch none; on Debian it is the package
python3-torch. docs/peer.md says what is measured and how. Exit codes: 0 done, 1 a run failed or
--check found a difference, 2 wrong use or no PyTorch (0 and the word "skipped" with --if-present).
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
# What a configuration may ask for beyond the step that both sides make.
PLAIN = {"train.label_smoothing": 0, "train.clip": 0, "train.warmup": 0, "train.no_decay": "off",
         "checkpoint.every": 0}
LIBRARY_FOLDERS = ["/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64"]


class Failed(Exception):
    """A program that was started did not do its work; the text says which and why."""


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
    p.add_argument("--torch", choices=["stock", "tuned", "both", "none"], default="both")
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
    p.add_argument("--python", metavar="PATH", help="a Python that has torch")
    p.add_argument("--lib", metavar="DIR", action="append", default=[],
                   help="look here too for the libraries of the tuned side")
    a = p.parse_args()
    if min(a.steps, a.rounds) < 1 or a.warmup < 1:
        p.error("--steps, --warmup and --rounds are at least 1")
    if a.torch == "none" and (a.check or a.checkpoint or a.loss):
        p.error("--check, --loss and --checkpoint want PyTorch: leave out --torch none")
    if a.ours_before and a.check:
        p.error("--check compares with PyTorch: leave out --ours-before")
    if not 0 <= a.busy <= 256 or not 0 <= a.nice <= 19:
        p.error("--busy is 0 to 256, --nice 0 to 19")
    old = a.ours_before
    if old and (not os.access(old, os.X_OK) or os.path.isdir(old)):
        p.error(f"--ours-before: {old} is no program that can be run")
    a.policies = [q.replace("+", ",") for q in a.policies.split(",") if q]
    return a


def find_python(wanted):
    """The first Python that knows torch: the one asked for, this one, Debian's."""
    code = "import importlib.util as u, sys; sys.exit(u.find_spec('torch') is None)"
    for path in [wanted] if wanted else [sys.executable, "/usr/bin/python3"]:
        try:
            if subprocess.run([path, "-c", code], capture_output=True).returncode == 0:
                return path
        except OSError:
            pass
    return None


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
           if not k.startswith(("OMP_", "GOMP_", "KMP_", "MKL_", "DNNL_", "ONEDNN_", "OPENBLAS_"))
           and k not in ("LD_PRELOAD", "ATEN_CPU_CAPABILITY")}
    env["OMP_NUM_THREADS"] = str(threads)
    return {**env, **more}


def find_library(folders, *patterns):
    for folder in folders:
        for pattern in patterns:
            found = sorted(Path(folder).glob(pattern))
            if found:
                return found[0].resolve()
    return None


def tuning(folders):
    """What the tuned side gets, as environment and in words."""
    env, words = {"GOMP_SPINCOUNT": "20000"}, ["flush to zero"]
    malloc = find_library(folders, "libtcmalloc_minimal.so.4", "libtcmalloc.so.4")
    blas = find_library(folders, "openblas-openmp/libblas.so.3", "libopenblas.so.0")
    words.append("tcmalloc" if malloc else "no tcmalloc (libtcmalloc-minimal4)")
    words.append("OpenMP OpenBLAS" if blas else "no OpenBLAS (libopenblas0-openmp)")
    preload = [str(p) for p in (malloc, blas) if p]
    if preload:
        env["LD_PRELOAD"] = ":".join(preload)
    if blas:
        env["LD_LIBRARY_PATH"] = ":".join(
            [str(blas.parent), *filter(None, [os.environ.get("LD_LIBRARY_PATH")])])
    if re.search(r"\bavx512bw\b.*\bavx512vl\b", Path("/proc/cpuinfo").read_text()):
        env["ATEN_CPU_CAPABILITY"] = "avx512"
        words.append("AVX-512")
    return env, ", ".join(words)


# --- what is compared ---


class Dnntrain:
    """Runs of ours: the file's configuration, with what the comparison fixes laid over it."""

    def __init__(self, a, folder):
        self.a, self.program, self.folder, self.runs = a, a.dnntrain, folder, 0
        self.cpus, self.env = os.sched_getaffinity(0), environment(len(os.sched_getaffinity(0)))

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
            "train.eval_every": 0, "run.dir": there,
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
                "nesterov": keys.get("train.nesterov", "off") == "on"})
        for last in ("fc.weight", "linear.weight", "fc3.weight", "classifier.weight",
                     "classifier.6.weight", "head.weight"):
            about["classes"] = shapes.get(last, [about.get("classes")])[0]
        if not self.a.busy:  # which processors the others leave is for the system to say
            self.cpus = set(sorted(self.cpus)[: max(1, threads)])
        self.env = environment(threads, GOMP_SPINCOUNT="20000")
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
        self.python, self.ours, self.tuned = python, ours, tuning(folders)
        self.job = {"net": {k: about.get(k) for k in
                            ("name", "image", "channels", "classes", "width", "heads", "dropout")},
                    "weights": str(about["weights"]), "batch": about["batch"],
                    "precision": about["precision"], "optimizer": about["optimizer"],
                    "threads": about["threads"], "data": str(ours.folder / "batch.safetensors")}

    def do(self, job, tuned=False, **more):
        env = environment(self.job["threads"], **(self.tuned[0] if tuned else {}))
        job = {**self.job, "job": job, "layout": "nhwc", "flush": tuned, **more}
        script = str(Path(__file__).with_name("peer_torch.py"))
        out = run([self.python, script, json.dumps(job)], env, self.ours.cpus)
        return json.loads(out.strip().splitlines()[-1])

    def time(self, a, tuned, layout, recompute):
        return self.do("time", tuned, layout=layout, checkpoint=recompute,
                       steps=a.steps, warmup=a.warmup)


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


def pick_layout(a, torch, tuned):
    if a.layout != "best":
        return a.layout
    trial = {}
    for layout in ("nhwc", "nchw"):
        got = torch.do("time", tuned, layout=layout, steps=3, warmup=2)
        trial[layout] = statistics.median(got["seconds"])
    return min(trial, key=trial.get)


def make_sides(a, ours, torch, about):
    data = ours.folder / "batch.safetensors"
    builds = [("dnntrain", ours)]
    if a.ours_before:
        builds.append(("before", ours.by(a.ours_before)))
    sides = [Side(f"{name} {policy or about['policy']}", lambda b=build, p=policy: b.time(data, p), a.busy)
             for policy in [None, *a.policies] for name, build in builds]
    for kind in {"both": ["stock", "tuned"], "none": []}.get(a.torch, [a.torch]):
        tuned = kind == "tuned"
        layout = pick_layout(a, torch, tuned)
        for recompute in [False, True] if a.checkpoint else [False]:
            name = f"torch {kind}, {'checkpoint' if recompute else layout}"
            sides.append(Side(name, lambda t=tuned, l=layout, r=recompute: torch.time(a, t, l, r),
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
    for kind in ("stock", "tuned"):
        run = next((r for name, r in runs.items() if name.startswith(f"torch {kind}")), None)
        if run:
            blas = [os.path.basename(p) for p in run["libraries"] if "malloc" not in p]
            print(f"{kind}     torch {run['torch']}, {run['capability']} kernels, "
                  f"{', '.join(blas) or 'no BLAS library'}")
            if kind == "tuned":
                print(f"          with {torch.tuned[1]}")
            print(f"          {human(run['resident_after_import'])} resident before there is a "
                  f"network; {run['faults_a_step']:,.0f} page faults a step")
    print(f"measured  {a.rounds} rounds in turns, each {a.steps} steps after {a.warmup} "
          "of warm-up")
    if a.busy:
        print(f"          beside {a.busy} busy process{'es' * (a.busy != 1)}, nice {a.nice}: of a "
              "turn the mean step")
    busy = os.getloadavg()[0]
    if not a.busy and busy > 1.25 * n["threads"]:
        print(f"          the machine had other work (load {busy:.1f}): times spread")
    print()


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
        print(f"{s.name:{width}}  {row['step_seconds']:8.4f} "
              f"{row['least']:7.4f}..{row['most']:.4f} "
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
        print(f"gpt2, batch {about['batch']}: the loss of the first step, beside PyTorch "
              f"{got['torch']} in fp32")
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
        print(json.dumps({"about": about, "same": same, "tuned": torch.tuned[1],
                          "sides": [s.row(sides[0]) for s in sides]}, indent=1))
    else:
        describe(a, about, torch, same, sides)
        table(sides)
    return 1 if any(s.error for s in sides) else 0


def main():
    a = arguments()
    python = find_python(a.python) if a.torch != "none" else None
    if python is None and a.torch != "none":
        where = f"{a.python} has no PyTorch" if a.python else "no Python with PyTorch found"
        print(f"peer: {'skipped: ' if a.if_present else ''}{where}; on Debian: apt-get install "
              "python3-torch libtcmalloc-minimal4 libopenblas0-openmp; "
              "elsewhere name one: --python PATH", file=sys.stdout if a.if_present else sys.stderr)
        return 0 if a.if_present else 2
    with tempfile.TemporaryDirectory(prefix="dnntrain-peer-") as folder:
        try:
            return compare(a, python, Path(folder))
        except Failed as e:
            print(f"peer: {e}", file=sys.stderr)
            return 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
