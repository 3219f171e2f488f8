"""What a process holds, as peer_torch.py counts it. Needs no PyTorch."""

import re

# PyTorch's wheel loads CUDA's libraries even where there is no card: libcudart, libcublas,
# libnvrtc, libnccl and the like. Their pages in the page cache are no part of what a step on the CPU takes.
LEFT_OUT = re.compile(r"lib(cu|nv|nccl)[^/]*")
# "7f12...-7f13... r-xp 00000000 08:01 1234   /path with spaces": the path, "" for no file.
MAPPING = re.compile(r"[0-9a-f]+-[0-9a-f]+ [-rwxsp]{4} [0-9a-f]+ [0-9a-f]+:[0-9a-f]+ \d+ *(.*)")


def left_out(smaps):
    """Bytes resident in pages that belong to the file of a mapping of LEFT_OUT: what was written
    to is the process's own and stays counted."""
    total, wanted = 0, False
    for line in smaps.splitlines():
        mapping = MAPPING.fullmatch(line)
        if mapping:
            wanted = bool(LEFT_OUT.fullmatch(mapping[1].rsplit("/", 1)[-1]))
        elif wanted and line.startswith(("Rss:", "Anonymous:")):
            size = int(line.split()[1]) * 1024
            total += size if line.startswith("Rss:") else -size
    return total


def peak(status, smaps):
    """VmHWM as a whole and the part left out of it, in bytes. The part is what is resident at the
    end, while the peak was at some time before: it is never more than the whole."""
    whole = next(int(line.split()[1]) * 1024 for line in status.splitlines()
                 if line.startswith("VmHWM:"))
    return whole, min(whole, left_out(smaps))


def own_peak():
    with open("/proc/self/status") as status, open("/proc/self/smaps") as smaps:
        return peak(status.read(), smaps.read())


def restart_peak():
    """The peak starts anew, from what is resident now; where the kernel does not let us, it goes
    on."""
    try:
        with open("/proc/self/clear_refs", "w") as file:
            file.write("5")
    except OSError:
        pass
