#!/usr/bin/env python3
"""Weights between PyTorch and dnntrain.

    tools/weights.py from-torch STATE.pt OUT.safetensors   for model.weights = OUT.safetensors
    tools/weights.py to-torch IN.safetensors STATE.pt      for model.load_state_dict(torch.load(...))
    tools/weights.py show FILE                             names, types and shapes of either

Names and shapes are the same on both sides, so nothing is changed but the container. STATE.pt may also
be a .safetensors file. from-torch takes away a "module." before names, which DataParallel leaves there,
and the "_orig_mod." of torch.compile; other floating types become float32, and the counts of batches that
batch norm keeps are left out, and so is, with a line, what is of no floating type. Of Hugging Face's GPT-2
it leaves out the masks, the word "transformer." before names and an output head that is the embedding of
tokens; what to-torch writes is for model.transformer.load_state_dict.

    --key KEY           the state lies at that key of the file, as in --key ema or, one in another,
                        --key ema.model; else at "state_dict", "model_state_dict", "model" or no key
    --rename 'RE=NEW'   NEW for what the regular expression RE (Python's) finds in a name
    --without GLOB      leave tensors of such names out
    --whole             join tiles: a file does not say which layers were cut, so all those are taken for
                        one whose names end in 0, 1, ... without a gap and whose shapes are the same

--rename and --without may be given several times, and each sees the names that the one before it left.
Files are mapped and written tensor by tensor (a STATE.pt from PyTorch 2.1 on), and appear whole or not at
all. Only tensors are unpickled (weights_only). Without PyTorch it says so and exits 2, or 0 with the word
"skipped" under --if-present.
"""

import argparse
import ctypes
import fnmatch
import json
import math
import mmap
import os
import re
import struct
import sys
import warnings
from pathlib import Path

SYSTEM_PYTHON = "/usr/bin/python3"
MOST_HEADER = 100 << 20


class Bad(Exception):
    pass


def import_torch(if_present):
    """PyTorch in this Python, else in the system's."""
    try:
        import torch
        return torch
    except ImportError:
        pass
    other = os.path.realpath(SYSTEM_PYTHON)
    if os.path.exists(other) and os.path.realpath(sys.executable) != other and \
            os.environ.get("DT_WEIGHTS_PYTHON") is None:
        os.environ["DT_WEIGHTS_PYTHON"] = other  # once only
        os.execv(other, [other, *sys.argv])
    if if_present:
        print("skipped: no PyTorch")
        sys.exit(0)
    print("weights.py: no PyTorch; on Debian: apt-get install python3-torch", file=sys.stderr)
    sys.exit(2)


def write_whole(path, write):
    temp = path.with_name(f".{path.name}.tmp-{os.getpid()}")
    try:
        with open(temp, "wb") as f:
            write(f)
            f.flush()
            os.fsync(f.fileno())
        os.replace(temp, path)
    finally:
        temp.unlink(missing_ok=True)


def save_safetensors(torch, state, path):
    header, at = {}, 0
    for name, t in state.items():
        header[name] = {"dtype": "F32", "shape": list(t.shape), "data_offsets": [at, at + 4 * t.numel()]}
        at += 4 * t.numel()
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)

    def write(f):
        f.write(struct.pack("<Q", len(text)) + text)
        for t in state.values():
            plain = t.to("cpu", torch.float32).contiguous()
            if plain.numel() > 0:  # its bytes where they are: numpy() wants NumPy, which may be missing
                f.write((ctypes.c_char * (4 * plain.numel())).from_address(plain.data_ptr()))

    write_whole(path, write)


def map_file(path):
    with open(path, "rb") as f:
        if os.fstat(f.fileno()).st_size < 8:
            raise Bad(f"{path}: too short for a safetensors file")
        return mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_READ)


def mapped_tensor(torch, path, data, name, row, begin):
    """Of the file's bytes, which are read when the tensor is."""
    types = {"F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16,
             "I64": torch.int64, "I32": torch.int32, "I16": torch.int16, "I8": torch.int8, "U8": torch.uint8,
             "BOOL": torch.bool}
    if row["dtype"] not in types:
        raise Bad(f"{path}: {name} is {row['dtype']}; known here are {', '.join(types)}")
    dtype, shape, (start, end) = types[row["dtype"]], row["shape"], row["data_offsets"]
    count, each = math.prod(shape), torch.empty(0, dtype=dtype).element_size()
    if not 0 <= start <= end <= len(data) - begin or end - start != each * count or min(shape, default=0) < 0:
        raise Bad(f"{path}: {name}: offsets {start} to {end} do not fit its shape {shape}")
    if count == 0:
        return torch.empty(shape, dtype=dtype)
    if (begin + start) % each != 0:  # of a header that nobody padded
        return torch.frombuffer(bytearray(data[begin + start:begin + end]), dtype=dtype).reshape(shape)
    return torch.frombuffer(data, dtype=dtype, count=count, offset=begin + start).reshape(shape)


def load_safetensors(torch, path):
    data = map_file(path)
    n, = struct.unpack_from("<Q", data)
    if n > min(MOST_HEADER, len(data) - 8):
        raise Bad(f"{path}: its header of {n} bytes is longer than the file")
    try:
        header = json.loads(data[8:8 + n])
        header.pop("__metadata__", None)
        state = {}
        for name, row in header.items():
            if not is_needless(name, row["shape"]):
                state[name] = mapped_tensor(torch, path, data, name, row, 8 + n)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as e:
        raise Bad(f"{path}: not a safetensors file: {e!r}") from e
    return state


def unpickle(torch, path):
    """Mapped where PyTorch can: not before 2.1, and not in files of before 1.6."""
    try:
        return torch.load(path, map_location="cpu", weights_only=True, mmap=True)
    except (TypeError, RuntimeError):
        return torch.load(path, map_location="cpu", weights_only=True)


def keyed(path, state, key):
    """What lies at a key, or at one below another, A.B."""
    if isinstance(state, dict) and key in state:
        return state[key]
    first, dot, rest = key.partition(".")
    if dot and isinstance(state, dict) and first in state:
        return keyed(path, state[first], rest)
    there = ", ".join(shown(str(k)) for k in list(state)[:20]) if isinstance(state, dict) else "no keys"
    raise Bad(f"{path}: nothing lies at '{key}'; there are {there}")


def load_torch(torch, path, key=None):
    try:
        state = unpickle(torch, path)
    except OSError:
        raise
    except Exception as e:  # pickles fail in many ways
        raise Bad(f"{path}: not a state that PyTorch loads: {e}") from e
    if key is not None:
        state = keyed(path, state, key)
    for usual in ("state_dict", "model_state_dict", "model"):
        if isinstance(state, dict) and isinstance(state.get(usual), dict):
            state = state[usual]
    if not isinstance(state, dict) or not all(isinstance(t, torch.Tensor) for t in state.values()):
        keys = f": --key names where, of {', '.join(shown(str(k)) for k in list(state)[:20])}" if isinstance(state, dict) else ""
        raise Bad(f"{path}: holds no state_dict, which is names and tensors{keys}")
    return {name: t.detach() for name, t in state.items() if not is_needless(name, t.shape)}


def shown(name):
    """As it may be printed: names of a stranger's file may hold what a terminal obeys."""
    return name if name.isprintable() else ascii(name)


def floating(path, state):
    """Without what is no weight: tables of places, masks, counts."""
    for name in [name for name, t in state.items() if not t.is_floating_point()]:
        print(f"{path}: left out: {shown(name)} is {state.pop(name).dtype}, no floating type")
    return state


class Rename(argparse.Action):
    """Appends a function of names: the new one, or None for a tensor to leave out."""

    def __call__(self, parser, o, value, option=None):
        if option == "--without":
            change = lambda name: None if fnmatch.fnmatchcase(name, value) else name
        else:
            old, is_pair, new = value.rpartition("=")
            if not is_pair or not old:
                raise argparse.ArgumentError(self, f"'{value}' is no RE=NEW")
            try:
                pattern = re.compile(old)
                pattern.sub(new, "")
            except (re.error, IndexError) as e:
                raise argparse.ArgumentError(self, f"'{value}': {e}")
            change = lambda name: pattern.sub(new, name)
        o.changes = [*o.changes, change]


def renamed(path, state, changes):
    out = {}
    for name, t in state.items():
        to = name
        for change in changes:
            to = to and change(to)
        if to == "":
            raise Bad(f"{path}: --rename leaves no name of {name}")
        if to in out:
            raise Bad(f"{path}: two tensors would be called {to}; one of them was {name}")
        if to is not None:
            out[to] = t
    return out


def is_needless(name, shape):
    """What PyTorch's networks keep beside their weights: counts of batches, and GPT-2's masks."""
    if re.search(r"(^|\.)h\.\d+\.attn\.bias$", name):
        return len(shape) == 4
    return name.endswith("num_batches_tracked") or name.endswith(".attn.masked_bias")


def bare(torch, path, state):
    """Names as they are without wrappers, several of them also: around the network, and what torch.compile
    puts around a part of it."""
    return bare_gpt2(torch, path, {re.sub(r"^(module\.)+", "", name.replace("_orig_mod.", "")): t
                                   for name, t in state.items()})


def bare_gpt2(torch, path, state):
    """GPT2Model's names for those of GPT2LMHeadModel, whose head has no weight of its own."""
    if "transformer.h.0.attn.c_attn.weight" in state:
        state = {name.removeprefix("transformer."): t for name, t in state.items()}
    if "h.0.attn.c_attn.weight" in state and "lm_head.weight" in state:
        head, tokens = state.pop("lm_head.weight"), state.get("wte.weight")
        if tokens is None or not torch.equal(head, tokens):
            raise Bad(f"{path}: lm_head.weight is not wte.weight; only a tied head is known here")
    return state


def tiles_of(state):
    """By the names of whole weights those of their tiles, in order."""
    found = {}
    for name in state:
        m = re.fullmatch(r"(.+)\.(0|[1-9]\d*)\.(weight|bias)", name)
        if m:
            found.setdefault(f"{m[1]}.{m[3]}", {})[int(m[2])] = name
    return {whole: [names[i] for i in range(len(names))] for whole, names in found.items()
            if len(names) > 1 and max(names) < len(names) and whole not in state
            and len({tuple(state[name].shape) for name in names.values()}) == 1}


def along(whole, tile, bias):
    """The dimension along a layer's outputs: of linear weights of GPT-2, which are [in, out], the second."""
    if len(tile.shape) != 2 or not whole.endswith(".weight"):
        return 0
    if bias is None or tile.shape[0] == tile.shape[1]:
        return int(re.search(r"(^|\.)c_(attn|fc|proj)\.weight$", whole) is not None)
    return int(tile.shape[0] != bias.shape[0])


def joined(torch, state):
    """The state with layers whole, and how many tiles each had."""
    tiles, out, counts = tiles_of(state), {}, {}
    whole_of = {name: whole for whole, names in tiles.items() for name in names}
    for name, t in state.items():
        whole = whole_of.get(name)
        if whole is None:
            out[name] = t
        elif whole not in out:
            layer = whole.rpartition(".")[0]
            bias = state.get(f"{layer}.0.bias")
            out[whole] = torch.cat([state[n] for n in tiles[whole]], along(whole, t, bias))
            counts[layer] = len(tiles[whole])
    return out, counts


def load(torch, path, key=None):
    if path.suffix != ".safetensors":
        return load_torch(torch, path, key)
    if key is not None:
        raise Bad(f"{path}: --key is for files of PyTorch's; a safetensors file holds names and tensors alone")
    return load_safetensors(torch, path)


def show(state):
    width = max((len(shown(n)) for n in state), default=0)
    for name, t in state.items():
        print(f"{shown(name):{width}}  {'x'.join(map(str, t.shape)) or 'scalar':>16}  {t.numel():>12,}")
    print(f"{len(state)} tensors, {sum(t.numel() for t in state.values()):,} values")


def main():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("--if-present", action="store_true", help="exit 0 without PyTorch")
    sub = a.add_subparsers(dest="what", required=True)
    for what in ("from-torch", "to-torch"):
        p = sub.add_parser(what)
        p.add_argument("source", type=Path)
        p.add_argument("to", type=Path)
        p.add_argument("--rename", metavar="RE=NEW", dest="changes", action=Rename, default=[])
        p.add_argument("--without", metavar="GLOB", dest="changes", action=Rename)
    p.add_argument("--whole", action="store_true", help="join tiles")
    p = sub.add_parser("show")
    p.add_argument("source", type=Path)
    for p in (sub.choices["from-torch"], p):
        p.add_argument("--key", help="where in the file the state lies")
    o = a.parse_args()
    for needless in ("The given buffer is not writable", "Failed to initialize NumPy"):  # nobody writes, or asks
        warnings.filterwarnings("ignore", message=needless)
    torch = import_torch(o.if_present)
    try:
        if o.what == "show":
            show(load(torch, o.source, o.key))
        elif o.what == "from-torch":
            state = bare(torch, o.source, load(torch, o.source, o.key))
            state = floating(o.source, renamed(o.source, state, o.changes))
            save_safetensors(torch, state, o.to)
            print(f"{o.to}: {len(state)} tensors")
        else:
            state = renamed(o.source, load_safetensors(torch, o.source), o.changes)
            if o.whole:
                state, counts = joined(torch, state)
                for layer, n in counts.items():
                    print(f"{layer}: {n} tiles")
            write_whole(o.to, lambda f: torch.save(state, f))
            print(f"{o.to}: {len(state)} tensors")
    except (Bad, OSError) as e:
        print(f"weights.py: {e}", file=sys.stderr)
        return 3
    return 0


if __name__ == "__main__":
    sys.exit(main())
