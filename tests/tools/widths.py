#!/usr/bin/env python3
"""What commands print on a terminal of 80 columns is no wider, and on one of 100: widths.py DNNTRAIN SOURCE."""
import fcntl
import os
import pty
import struct
import subprocess
import sys
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
explain configs/chain.ini r4
explain configs/chain.ini chen_sqrt
"""


END = b"\0"


def on_terminal(words, columns, folder):
    """What a program prints on a terminal of so many columns, in lines, and its exit code."""
    ours, its = pty.openpty()
    fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    drop = ("COLUMNS", "NO_COLOR", "LC_CTYPE")
    env = {**{k: v for k, v in os.environ.items() if k not in drop}, "TERM": "xterm", "LC_ALL": "C.UTF-8"}
    said = b""
    with subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=its, stderr=subprocess.DEVNULL, cwd=folder, env=env) as p:
        # A terminal that its last writer has left may drop what nobody has read yet: so stay, and
        # say behind the program's last word that there is no more.
        last = threading.Thread(target=lambda: (p.wait(), os.write(its, END)))
        last.start()
        while not said.endswith(END):
            said += os.read(ours, 65536)
        last.join()
    os.close(its)
    os.close(ours)
    return said[:-1].decode().replace("\r", "").split("\n")[:-1], p.returncode


def main():
    binary, folder = os.path.abspath(sys.argv[1]), sys.argv[2]
    wide, _ = on_terminal(["sh", "-c", "stty size <&1; printf '%081d\\n' 0"], 80, folder)
    assert wide == ["24 80", "0" * 81], f"the check itself: {wide}"
    # At both widths in whole runs; else at one of them, the other with the next seed.
    whole, seed = os.environ.get("DT_TEST_SCALE") == "whole", int(os.environ.get("DT_TEST_SEED") or 0)
    bad = 0
    for i, command in enumerate(COMMANDS.strip().split("\n")):
        for columns in (80, 100) if whole else ((80, 100)[(i + seed) % 2],):
            lines, code = on_terminal([binary, *command.split()], columns, folder)
            wide = [line for line in lines if len(line) > columns]
            if wide or len(lines) < 2 or code != 0:
                bad += 1
                print(f"{command}, in {columns} columns: exit {code}, {len(lines)} lines, too wide:", *wide[:3], sep="\n")
    return bad != 0


if __name__ == "__main__":
    sys.exit(main())
