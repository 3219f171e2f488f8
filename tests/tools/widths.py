#!/usr/bin/env python3
"""What commands print on a terminal of 80 columns is no wider, and on one of 100: widths.py DNNTRAIN SOURCE."""
import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import tempfile
import termios
import threading

COMMANDS = """
list policies
list models
list layers
list codecs
list pools
list cards
list sources
help
help config
help plan
help memory
help train.batch
help gist
help conv
help glossary
help units
help p100
show configs/resnet50.ini
show configs/gpt2_shakespeare.ini
plan configs/resnet50.ini
plan configs/resnet50.ini --set memory.policy=cdma --set memory.simulate=p100
plan configs/chain.ini --set memory.device_budget=1GiB --set memory.policy=vdnn_all,gist --set memory.tier=disk
plan configs/chain.ini --set memory.simulate=p100
plan configs/resnet50.ini --set memory.policy=rotor --set memory.simulate=p100 --set memory.device_budget=1GiB
compare configs/chain.ini --set memory.simulate=p100 --policies all;chen_cheap,vdnn_conv
compare configs/chain.ini --set memory.simulate=p100 --policies vdnn_all;gist --vary train.precision=fp32,bf16 --vary policy.gist.dpr=fp16,fp8,fp99
compare configs/chain.ini --set memory.simulate=p100 --policies vdnn_all --vary memory.algorithms=fast,small --vary train.micro_batch=16,5 --vary memory.pool=greedy,best_fit
sweep configs/chain.ini --set memory.device_budget=20MiB
sweep configs/chain.ini --set memory.device_budget=20MiB --set memory.simulate=p100 --set memory.tier=disk
sweep configs/chain.ini --set memory.device_budget=20MiB --policies chen_sqrt;vdnn_all,gist --verify
compare configs/chain.ini --policies vdnn_all;chen_cheap,vdnn_conv --budgets 1 --run
explain configs/chain.ini r4
explain configs/chain.ini chen_sqrt
explain configs/resnet50.ini layer3.1.bn1
explain configs/resnet50.ini layer3.0.downsample.1.y --set memory.policy=chen_sqrt
explain configs/resnet50.ini vdnn_all
plan configs/resnet50.ini --kernels
plan configs/resnet50.ini --kernels --set train.precision=bf16
plan configs/resnet50.ini --rows --set memory.policy=vdnn_all
plan configs/papers/alexnet2012.ini --set train.batch=200 --set model.fuse=off --set memory.account=superneurons
plan configs/papers/alexnet2012.ini --set train.batch=200 --set model.fuse=off --set memory.account=vdnn
pool --random 50 --seed 3
pool --random 50 --seed 3 --compare
bench configs/chain.ini --steps 1
bench configs/chain.ini --steps 1 --set train.precision=bf16 --set train.batch=512
bench-codecs --mib 1 --errors
eval configs/chain.ini --random
reproduce --list
"""

# What is said on stderr as well: exit code and command.
MESSAGES = """
4 configs/resnet50.ini --set memory.device_budget=1GiB
2 configs/resnet50.ini --set memory.policy=vdnn
2 explain configs/resnet50.ini nothing_of_that_name
4 sweep configs/resnet50.ini --set memory.device_budget=30MiB --policies vdnn_all
4 compare configs/resnet50.ini --budgets 30MiB --policies vdnn_all
0 configs/chain.ini --set train.steps=3 --set memory.policy=chen_cheap,vdnn_conv,vdnn_all --set run.dir=RUN
0 configs/chain.ini --set train.steps=3 --set memory.policy=chen_cheap,vdnn_conv,vdnn_all --set run.dir=RUN --resume
"""

# Of the pass of this one the progress is drawn several times.
EVAL = "eval configs/resnet50.ini --random --set model.image=64 --set train.batch=4 --set device.threads=2"

END = b"\0"
ESCAPE = re.compile("\033\\[[0-9;]*[mK]")


def as_shown(text):
    """Lines as they have stood there: what is drawn over another is a line as well."""
    return [ESCAPE.sub("", part) for line in text.split("\r\n") for part in line.split("\r")]


def on_terminal(words, columns, folder, stderr=subprocess.DEVNULL):
    """What a program prints on a terminal of so many columns, in lines, and its exit code."""
    ours, its = pty.openpty()
    fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    drop = ("COLUMNS", "NO_COLOR", "LC_CTYPE")
    env = {**{k: v for k, v in os.environ.items() if k not in drop}, "TERM": "xterm", "LC_ALL": "C.UTF-8"}
    said = b""
    with subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=its, stderr=stderr or its, cwd=folder, env=env) as p:
        # A terminal that its last writer has left may drop what nobody has read yet: so stay, and
        # say behind the program's last word that there is no more.
        last = threading.Thread(target=lambda: (p.wait(), os.write(its, END)))
        last.start()
        while not said.endswith(END):
            said += os.read(ours, 65536)
        last.join()
    os.close(its)
    os.close(ours)
    return as_shown(said[:-1].decode())[:-1], p.returncode


def check(binary, command, want, columns, folder, stderr):
    """Whether a command ends as it should and prints nothing wider."""
    lines, code = on_terminal([binary, *command.split()], columns, folder, stderr)
    wide = [line for line in lines if len(line) > columns]
    if wide or len(lines) < 2 or code != want:
        print(f"{command}, in {columns} columns: exit {code}, {len(lines)} lines, too wide:", *wide[:3], sep="\n")
        return False
    return True


def check_in_file(binary, command, want, folder):
    """Whether each message in a file is one line."""
    p = subprocess.run([binary, *command.split()], stdin=subprocess.DEVNULL, capture_output=True, text=True, cwd=folder)
    torn = [line for line in p.stderr.splitlines() if not line.startswith("dnntrain: ")]
    if torn or p.returncode != want:
        print(f"{command}: exit {p.returncode}, not messages of a line each:", *torn[:3], sep="\n")
        return False
    return True


def check_drawn(binary, folder):
    """Whether the line that eval draws again and again stays on one line of a narrow terminal."""
    bad = False
    for columns in (12, 30):
        lines, code = on_terminal([binary, *EVAL.split()], columns, folder, None)
        drawn = [line for line in lines if re.match("[0-9,]+ of ", line)]
        wide = [line for line in drawn if len(line) >= columns]
        if wide or not drawn or code != 0:
            print(f"{EVAL}, in {columns} columns: exit {code}, {len(drawn)} lines drawn, too wide:", *wide[:3], sep="\n")
            bad = True
    return not bad


def check_all():
    binary, folder = os.path.abspath(sys.argv[1]), sys.argv[2]
    wide, _ = on_terminal(["sh", "-c", "stty size <&1; printf '%081d\\n' 0"], 80, folder)
    assert wide == ["24 80", "0" * 81], f"the check itself: {wide}"
    # At both widths in whole runs; else at one of them, the other with the next seed.
    whole, seed = os.environ.get("DT_TEST_SCALE") == "whole", int(os.environ.get("DT_TEST_SEED") or 0)
    bad = 0
    for i, command in enumerate(COMMANDS.strip().split("\n")):
        for columns in (80, 100) if whole else ((80, 100)[(i + seed) % 2],):
            bad += not check(binary, command, 0, columns, folder, subprocess.DEVNULL)
    with tempfile.TemporaryDirectory() as runs:
        for line in MESSAGES.strip().split("\n"):
            code, command = line.split(" ", 1)
            for columns in (80, 100) if whole else (80,):
                bad += not check(binary, command.replace("RUN", f"{runs}/{columns}"), int(code), columns, folder, None)
            if code != "0":
                bad += not check_in_file(binary, command, int(code), folder)
    bad += not check_drawn(binary, folder)
    return bad != 0


def main():
    with tempfile.TemporaryDirectory() as cache:  # nothing of a run before
        os.environ["XDG_CACHE_HOME"] = cache
        return check_all()


if __name__ == "__main__":
    sys.exit(main())
