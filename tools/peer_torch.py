"""The PyTorch side of peer.py: the same networks, and one job a process. Not called by hand.

    peer_torch.py JSON

The JSON object names a job (`about`, `batch`, `time`, `check` or `loss`) and what it needs; the
answer is one line of JSON on standard output. Networks follow models/*.c: names and shapes of their
tensors are those of the weight files of dnntrain, and loading one fails when a single tensor differs.
"""

import contextlib
import ctypes
import json
import math
import os
import re
import resource
import shlex
import struct
import subprocess
import sys
import sysconfig
import time

import peer_memory
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint

# --- networks ---


class Net(nn.Module):
    """A network as a list of parts, each taking the value of the one before. With segments > 1 all
    but the last segment keep only their input and run forward again in backward, as
    checkpoint_sequential has it; the segments are as equal as can be."""

    def __init__(self):
        super().__init__()
        self.segments = 1

    def parts(self):
        raise NotImplementedError

    def forward(self, x):
        parts = self.parts()
        size = math.ceil(len(parts) / self.segments)
        for at in range(0, len(parts), size):
            run = chain(parts[at : at + size])
            last = at + size >= len(parts)
            x = run(x) if last else checkpoint(run, x, use_reentrant=False)
        return x

    def loss(self, x, y, exact=False):
        scores = self(x)
        scores = scores if exact else scores.float()  # autocast leaves them in bf16
        return F.cross_entropy(scores.view(-1, scores.shape[-1]), y.view(-1))


def chain(parts):
    def run(x):
        for part in parts:
            x = part(x)
        return x

    return run


def layer_groups(layers):
    """A Sequential cut before every layer with weights, so that a ReLU in place stays with the
    layer it overwrites the output of."""
    groups = [[]]
    for layer in layers:
        if isinstance(layer, (nn.Conv2d, nn.Linear)) and groups[-1]:
            groups.append([])
        groups[-1].append(layer)
    return [chain(g) for g in groups]


def scale(channels, width):
    return max(1, (channels * width + 32) // 64)


def conv(inputs, outputs, kernel, stride=1):
    return nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, bias=False)


class Basic(nn.Module):
    """Two 3x3 convolutions; `shortcut` is a convolution or, on CIFAR, zeros for new channels."""

    grows = 1

    def __init__(self, inputs, planes, stride, padded):
        super().__init__()
        self.conv1, self.bn1 = conv(inputs, planes, 3, stride), nn.BatchNorm2d(planes)
        self.conv2, self.bn2 = conv(planes, planes, 3), nn.BatchNorm2d(planes)
        self.stride, self.new = stride, planes - inputs
        self.padded = padded
        self.downsample = None
        if not padded and (stride != 1 or self.new):
            self.downsample = nn.Sequential(conv(inputs, planes, 1, stride), nn.BatchNorm2d(planes))

    def shortcut(self, x):
        if self.downsample is not None:
            return self.downsample(x)
        if not self.padded or (self.stride == 1 and not self.new):
            return x
        before = self.new // 2
        x = x[:, :, :: self.stride, :: self.stride]
        return F.pad(x, (0, 0, 0, 0, before, self.new - before))

    def forward(self, x):
        y = F.relu(self.bn1(self.conv1(x)), inplace=True)
        y = self.bn2(self.conv2(y))
        y += self.shortcut(x)
        return F.relu(y, inplace=True)


class Bottleneck(nn.Module):
    grows = 4

    def __init__(self, inputs, planes, stride, padded):
        super().__init__()
        outputs = 4 * planes
        self.conv1, self.bn1 = conv(inputs, planes, 1), nn.BatchNorm2d(planes)
        self.conv2, self.bn2 = conv(planes, planes, 3, stride), nn.BatchNorm2d(planes)
        self.conv3, self.bn3 = conv(planes, outputs, 1), nn.BatchNorm2d(outputs)
        self.downsample = None
        if stride != 1 or inputs != outputs:
            self.downsample = nn.Sequential(
                conv(inputs, outputs, 1, stride), nn.BatchNorm2d(outputs)
            )

    def forward(self, x):
        y = F.relu(self.bn1(self.conv1(x)), inplace=True)
        y = F.relu(self.bn2(self.conv2(y)), inplace=True)
        y = self.bn3(self.conv3(y))
        y += x if self.downsample is None else self.downsample(x)
        return F.relu(y, inplace=True)


class ResNet(Net):
    def __init__(self, net, block, blocks, cifar):
        super().__init__()
        w, base = net["width"], 16 if cifar else 64
        self.cifar = cifar
        inputs = scale(base, w)
        self.conv1 = nn.Conv2d(
            net["channels"], inputs, *((3, 1, 1) if cifar else (7, 2, 3)), bias=False
        )
        self.bn1 = nn.BatchNorm2d(inputs)
        stages = []
        for s, n in enumerate(blocks):
            planes, row = scale(base << s, w), []
            for i in range(n):
                row.append(block(inputs, planes, 2 if s > 0 and i == 0 else 1, cifar))
                inputs = planes * block.grows
            stages += row
            setattr(self, f"layer{s + 1}", nn.Sequential(*row))
        self.stages = tuple(stages)  # a tuple: layerN has them registered
        setattr(self, "linear" if cifar else "fc", nn.Linear(inputs, net["classes"]))

    def stem(self, x):
        x = F.relu(self.bn1(self.conv1(x)), inplace=True)
        return x if self.cifar else F.max_pool2d(x, 3, 2, 1)

    def head(self, x):
        x = torch.flatten(F.adaptive_avg_pool2d(x, 1), 1)
        return (self.linear if self.cifar else self.fc)(x)

    def parts(self):
        return [self.stem, *self.stages, self.head]


class Columns(Net):
    """VGG and AlexNet: features, a pool to a fixed size, a classifier."""

    def __init__(self, features, side, classifier):
        super().__init__()
        self.features, self.side = nn.Sequential(*features), side
        self.classifier = nn.Sequential(*classifier)

    def middle(self, x):
        return torch.flatten(F.adaptive_avg_pool2d(x, self.side), 1)

    def parts(self):
        return [*layer_groups(self.features), self.middle, *layer_groups(self.classifier)]


def vgg(net, convs, norm):
    features, inputs, w = [], net["channels"], net["width"]
    for outputs, n in zip((64, 128, 256, 512, 512), convs):
        for _ in range(n):
            features.append(nn.Conv2d(inputs, scale(outputs, w), 3, 1, 1))
            inputs = scale(outputs, w)
            features += [nn.BatchNorm2d(inputs)] if norm else []
            features.append(nn.ReLU(inplace=True))
        features.append(nn.MaxPool2d(2, 2))
    classifier, inputs = [], inputs * 49
    for _ in range(2):
        classifier += [nn.Linear(inputs, scale(4096, w)), nn.ReLU(inplace=True)]
        classifier.append(nn.Dropout(net["dropout"]))
        inputs = scale(4096, w)
    return Columns(features, 7, [*classifier, nn.Linear(inputs, net["classes"])])


def alexnet(net):
    rows = [(64, 11, 4, 2, True), (192, 5, 1, 2, True), (384, 3, 1, 1, False)]
    rows += [(256, 3, 1, 1, False), (256, 3, 1, 1, True)]
    features, inputs, w, drop = [], net["channels"], net["width"], net["dropout"]
    for outputs, kernel, stride, pad, pool in rows:
        features.append(nn.Conv2d(inputs, scale(outputs, w), kernel, stride, pad))
        features.append(nn.ReLU(inplace=True))
        features += [nn.MaxPool2d(3, 2)] if pool else []
        inputs = scale(outputs, w)
    wide = scale(4096, w)
    classifier = [nn.Dropout(drop), nn.Linear(inputs * 36, wide), nn.ReLU(inplace=True)]
    classifier += [nn.Dropout(drop), nn.Linear(wide, wide), nn.ReLU(inplace=True)]
    return Columns(features, 6, [*classifier, nn.Linear(wide, net["classes"])])


class LeNet5(Net):
    def __init__(self, net):
        super().__init__()
        c6, c16, n120, n84 = (scale(n, net["width"]) for n in (6, 16, 120, 84))
        self.conv1 = nn.Conv2d(net["channels"], c6, 5, padding=2 if net["image"] == 28 else 0)
        self.conv2 = nn.Conv2d(c6, c16, 5)
        self.fc1, self.fc2 = nn.Linear(c16 * 25, n120), nn.Linear(n120, n84)
        self.fc3 = nn.Linear(n84, net["classes"])

    def head(self, x):
        return self.fc3(F.relu(self.fc2(F.relu(self.fc1(torch.flatten(x, 1))))))

    def parts(self):
        return [
            lambda x: F.max_pool2d(F.relu(self.conv1(x)), 2),
            lambda x: F.max_pool2d(F.relu(self.conv2(x)), 2),
            self.head,
        ]


class MLP(Net):
    def __init__(self, net):
        super().__init__()
        a, b = scale(512, net["width"]), scale(256, net["width"])
        self.fc1 = nn.Linear(net["channels"] * net["image"] ** 2, a)
        self.fc2, self.fc3 = nn.Linear(a, b), nn.Linear(b, net["classes"])
        self.drop = nn.Dropout(net["dropout"])

    def parts(self):
        return [
            lambda x: self.drop(F.relu(self.fc1(torch.flatten(x, 1)))),
            lambda x: self.drop(F.relu(self.fc2(x))),
            self.fc3,
        ]


class DenseLayer(nn.Module):
    """What was there before, with `growth` channels more behind it."""

    def __init__(self, inputs, middle, growth):
        super().__init__()
        self.norm1, self.conv1 = nn.BatchNorm2d(inputs), conv(inputs, middle, 1)
        self.norm2, self.conv2 = nn.BatchNorm2d(middle), conv(middle, growth, 3)

    def forward(self, x):
        y = self.conv1(F.relu(self.norm1(x), inplace=True))
        return torch.cat([x, self.conv2(F.relu(self.norm2(y), inplace=True))], 1)


class Transition(nn.Module):
    """Half the channels, half the height and width."""

    def __init__(self, inputs):
        super().__init__()
        self.norm, self.conv = nn.BatchNorm2d(inputs), conv(inputs, max(1, inputs // 2), 1)

    def forward(self, x):
        return F.avg_pool2d(self.conv(F.relu(self.norm(x), inplace=True)), 2, 2)


class DenseNet(Net):
    """How many layers a block has the names of the weights say: `model.counts` may change it."""

    def __init__(self, net, shapes):
        super().__init__()
        middle, growth = scale(128, net["width"]), scale(32, net["width"])
        channels = scale(64, net["width"])
        f = self.features = nn.Module()
        f.conv0 = nn.Conv2d(net["channels"], channels, 7, 2, 3, bias=False)
        f.norm0 = nn.BatchNorm2d(channels)
        row = []
        for b in range(1, 5):
            block = nn.Module()
            layers = re.compile(rf"features\.denseblock{b}\.denselayer\d+\.conv2\.weight")
            for i in range(1, sum(bool(layers.fullmatch(name)) for name in shapes) + 1):
                row.append(DenseLayer(channels, middle, growth))
                setattr(block, f"denselayer{i}", row[-1])
                channels += growth
            setattr(f, f"denseblock{b}", block)
            if b < 4:
                row.append(Transition(channels))
                setattr(f, f"transition{b}", row[-1])
                channels = row[-1].conv.out_channels
        f.norm5 = nn.BatchNorm2d(channels)
        self.row = tuple(row)  # a tuple: the blocks have them registered
        self.classifier = nn.Linear(channels, net["classes"])

    def stem(self, x):
        x = F.relu(self.features.norm0(self.features.conv0(x)), inplace=True)
        return F.max_pool2d(x, 3, 2, 1)

    def head(self, x):
        x = F.relu(self.features.norm5(x), inplace=True)
        return self.classifier(torch.flatten(F.adaptive_avg_pool2d(x, 1), 1))

    def parts(self):
        return [self.stem, *self.row, self.head]


def attention(x, heads, mask=None):
    """What heads read, of [n, t, 3c]: queries, keys and values side by side, c channels each. With
    a mask, of the later positions, none of them is seen. [n, t, c]. Weights are not dropped, which
    our networks do not do, and for which PyTorch would leave its fused kernel."""
    n, t, c = x.shape[0], x.shape[1], x.shape[2] // 3
    q, k, v = (p.view(n, t, heads, c // heads).transpose(1, 2) for p in x.split(c, dim=2))
    if hasattr(F, "scaled_dot_product_attention"):
        y = F.scaled_dot_product_attention(q, k, v, is_causal=mask is not None)
    else:
        scores = (q * (c // heads) ** -0.5) @ k.transpose(-2, -1)
        if mask is not None:
            scores = scores.masked_fill(mask[:t, :t], float("-inf"))
        y = F.softmax(scores, dim=-1) @ v
    return y.transpose(1, 2).reshape(n, t, c)


class ViTBlock(nn.Module):
    def __init__(self, width, heads, drop):
        super().__init__()
        self.heads, self.drop = heads, drop
        self.norm1, self.norm2 = nn.LayerNorm(width, 1e-6), nn.LayerNorm(width, 1e-6)
        self.attn, self.mlp = nn.Module(), nn.Module()
        self.attn.qkv, self.attn.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp.fc1, self.mlp.fc2 = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        y = attention(self.attn.qkv(self.norm1(x)), self.heads)
        x = x + F.dropout(self.attn.proj(y), self.drop)
        y = F.gelu(self.mlp.fc1(self.norm2(x)))
        return x + F.dropout(self.mlp.fc2(y), self.drop)


class ViT(Net):
    """Sizes come from the shapes of the weights. No class token: the mean over the patches is what
    the classifier reads."""

    def __init__(self, net, shapes):
        super().__init__()
        width, channels, side = shapes["patch_embed.proj.weight"][:3]
        layers = sum(name.endswith("attn.qkv.weight") for name in shapes)
        self.patch_embed, self.pos_embed = nn.Module(), nn.Module()
        self.patch_embed.proj = nn.Conv2d(channels, width, side, side)
        self.pos_embed.weight = nn.Parameter(torch.empty(*shapes["pos_embed.weight"]))
        self.blocks = nn.ModuleList(
            ViTBlock(width, net["heads"] or VIT_HEADS, net["dropout"]) for _ in range(layers)
        )
        self.fc_norm = nn.LayerNorm(width, 1e-6)
        self.head = nn.Linear(width, net["classes"])

    def embed(self, x):
        return self.patch_embed.proj(x).flatten(2).transpose(1, 2) + self.pos_embed.weight

    def classify(self, x):
        return self.head(self.fc_norm(x.mean(1)))

    def parts(self):
        return [self.embed, *self.blocks, self.classify]


class Projection(nn.Module):
    """A linear layer whose weight is [inputs, outputs], as GPT-2's files have it."""

    def __init__(self, inputs, outputs):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(inputs, outputs))
        self.bias = nn.Parameter(torch.empty(outputs))

    def forward(self, x):
        y = torch.addmm(self.bias, x.reshape(-1, x.shape[-1]), self.weight)
        return y.view(*x.shape[:-1], -1)


class GPTBlock(nn.Module):
    def __init__(self, width, heads, drop, mask):
        super().__init__()
        self.heads, self.drop, self.mask = heads, drop, mask
        self.ln_1, self.ln_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attn, self.mlp = nn.Module(), nn.Module()
        self.attn.c_attn = Projection(width, 3 * width)
        self.attn.c_proj = Projection(width, width)
        self.mlp.c_fc, self.mlp.c_proj = Projection(width, 4 * width), Projection(4 * width, width)

    def forward(self, x):
        y = attention(self.attn.c_attn(self.ln_1(x)), self.heads, self.mask)
        x = x + F.dropout(self.attn.c_proj(y), self.drop)
        y = F.gelu(self.mlp.c_fc(self.ln_2(x)), approximate="tanh")
        return x + F.dropout(self.mlp.c_proj(y), self.drop)


GPT2_HEADS = 12  # gpt2's, which `model.heads` changes


class GPT2(Net):
    """Sizes come from the shapes of the weights; the head is the token embedding."""

    def __init__(self, net, shapes):
        super().__init__()
        vocab, width = shapes["wte.weight"]
        context = shapes["wpe.weight"][0]
        layers = sum(name.endswith("ln_1.weight") for name in shapes)
        mask = torch.ones(context, context, dtype=torch.bool).triu(1)
        heads = net["heads"] or GPT2_HEADS
        self.drop = net["dropout"]
        self.wte, self.wpe = nn.Embedding(vocab, width), nn.Embedding(context, width)
        self.h = nn.ModuleList(
            GPTBlock(width, heads, self.drop, mask) for _ in range(layers)
        )
        self.ln_f = nn.LayerNorm(width)

    def embed(self, x):
        return F.dropout(self.wte(x) + self.wpe(torch.arange(x.shape[1])), self.drop)

    def head(self, x):
        return F.linear(self.ln_f(x), self.wte.weight)

    def parts(self):
        return [self.embed, *self.h, self.head]


VIT_HEADS = 6  # vit_small's, which `model.heads` changes
RESNETS = {18: (2, 2, 2, 2), 34: (3, 4, 6, 3)}
BOTTLENECKS = {50: (3, 4, 6, 3), 101: (3, 4, 23, 3), 152: (3, 8, 36, 3)}
VGGS = {11: (1, 1, 2, 2, 2), 13: (2, 2, 2, 2, 2), 16: (2, 2, 3, 3, 3), 19: (2, 2, 4, 4, 4)}


def build(net, shapes):
    name = net["name"]
    if name.startswith("resnet"):
        depth = int(name[6:])
        if depth in RESNETS:
            return ResNet(net, Basic, RESNETS[depth], False)
        if depth in BOTTLENECKS:
            return ResNet(net, Bottleneck, BOTTLENECKS[depth], False)
        if (depth - 2) % 6 == 0:
            return ResNet(net, Basic, ((depth - 2) // 6,) * 3, True)
    elif name.startswith("vgg"):
        return vgg(net, VGGS[int(name[3:5])], name.endswith("_bn"))
    elif name in SIMPLE:
        return SIMPLE[name](net)
    elif name.startswith("densenet"):
        return DenseNet(net, shapes)
    elif name.startswith("vit_"):
        return ViT(net, shapes)
    elif name == "gpt2":
        return GPT2(net, shapes)
    raise SystemExit(f"peer: this tool has no torch network '{name}'")


SIMPLE = {"alexnet": alexnet, "lenet5": LeNet5, "mlp": MLP}

# --- safetensors: a length, a JSON header, then the tensors' bytes ---

TYPES = {"F32": torch.float32, "I64": torch.int64}


def read_header(file):
    (size,) = struct.unpack("<Q", file.read(8))
    header = json.loads(file.read(size))
    header.pop("__metadata__", None)
    return header, 8 + size


def read_tensor(file, base, entry):
    begin, end = entry["data_offsets"]
    file.seek(base + begin)
    data = bytearray(file.read(end - begin))
    return torch.frombuffer(data, dtype=TYPES[entry["dtype"]]).reshape(entry["shape"])


def read_file(path):
    with open(path, "rb") as file:
        header, base = read_header(file)
        return {name: read_tensor(file, base, entry) for name, entry in header.items()}


def write_file(path, tensors):
    header, at, names = {}, 0, {t: n for n, t in TYPES.items()}
    for name, t in tensors.items():
        size = t.numel() * t.element_size()
        header[name] = {
            "dtype": names[t.dtype],
            "shape": list(t.shape),
            "data_offsets": [at, at + size],
        }
        at += size
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for t in tensors.values():
            t = t.contiguous()  # without numpy, which PyTorch does not bring
            file.write(ctypes.string_at(t.data_ptr(), t.numel() * t.element_size()))


def plain(name):
    return name[len("transformer.") :] if name.startswith("transformer.") else name


def load(job):
    """The network with dnntrain's weights, one tensor in memory twice at a time."""
    with open(job["weights"], "rb") as file:
        header, base = read_header(file)
        theirs = {plain(n): e for n, e in header.items() if not n.startswith("lm_head.")}
        model = build(job["net"], {n: e["shape"] for n, e in theirs.items()})
        ours = model.state_dict()
        for name in sorted({*ours, *theirs}):
            if name.endswith("num_batches_tracked"):
                continue
            mine = list(ours[name].shape) if name in ours else "missing"
            yours = theirs[name]["shape"] if name in theirs else "missing"
            if mine != yours:
                raise SystemExit(f"peer: '{name}' is {mine} in torch, {yours} in dnntrain")
            ours[name].copy_(read_tensor(file, base, theirs[name]))
    model.train()
    model.segments = round(math.sqrt(len(model.parts()))) if job.get("checkpoint") else 1
    return model


# --- jobs ---


def libraries():
    with open("/proc/self/maps") as file:
        paths = {line.split()[-1] for line in file if ".so" in line}
    return sorted(p for p in paths if re.search("blas|mkl|malloc", p.rsplit("/", 1)[-1]))


def built(pattern):
    """What PyTorch says of itself, as its configuration has it."""
    found = re.search(pattern, torch.__config__.show())
    return found[1] if found else None


def about(_):
    """Of this PyTorch: its version, oneDNN's, the BLAS inside, and why it cannot compile."""
    return {
        "torch": torch.__version__,
        "onednn": built(r"(?:MKL-DNN|oneDNN) v(\d[\d.]*\d)"),
        "blas": built(r"BLAS_INFO=(\w+)"),
        "too_old": too_old(torch.__version__),
        "compiler": None if too_old(torch.__version__) else compiler(),
    }


def too_old(version):
    """torch.compile is there from 2.0 on."""
    return int(version.split(".")[0]) < 2


def compiler():
    """What inductor makes kernels with: its version's first line. None without one, or without
    the headers of Python, which kernels include."""
    if not os.path.exists(os.path.join(sysconfig.get_paths()["include"], "Python.h")):
        return None
    try:
        words = [*shlex.split(os.environ.get("CXX", "g++")), "--version"]
        done = subprocess.run(words, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return done.stdout.splitlines()[0] if done.stdout else words[0]


def make_batch(job):
    """Checks the network against the weights, and writes the batch that both sides train on."""
    model = load(job)
    torch.manual_seed(1)
    n, net = job["batch"], job["net"]
    if net["name"] == "gpt2":
        x = torch.randint(model.wte.num_embeddings, (1, n, model.wpe.num_embeddings))
        y = torch.randint(model.wte.num_embeddings, x.shape)
    else:
        x = torch.randn(1, n, net["channels"], net["image"], net["image"])
        y = torch.randint(net["classes"], (1, n))
    write_file(job["data"], {"x": x, "y": y})
    numbers = sum(p.numel() for p in model.parameters())
    return {"tensors": len(list(model.parameters())), "parameters": numbers}


def prepared(job):
    model = load(job)
    data = read_file(job["data"])
    x, y = data["x"][0], data["y"][0]
    if job["layout"] == "nhwc" and x.dim() == 4:
        model = model.to(memory_format=torch.channels_last)
        x = x.contiguous(memory_format=torch.channels_last)
    return model, x, y


def precision(job):
    if job["precision"] == "bf16":
        return torch.autocast("cpu", dtype=torch.bfloat16)
    return contextlib.nullcontext()


class Lion(torch.optim.Optimizer):
    """Chen et al. (2023), Program 1; PyTorch has none."""

    def __init__(self, parameters, lr, betas, weight_decay):
        super().__init__(parameters, {"lr": lr, "betas": betas, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            beta1, beta2 = group["betas"]
            for p in (p for p in group["params"] if p.grad is not None):
                state = self.state[p]
                mean = state.setdefault("mean", torch.zeros_like(p))
                p.mul_(1 - group["lr"] * group["weight_decay"])
                p.add_(mean.lerp(p.grad, 1 - beta1).sign_(), alpha=-group["lr"])
                mean.lerp_(p.grad, 1 - beta2)


def fused_updates(job):
    """One pass over the parameters, which PyTorch can make on the processor since 2.4 and does not
    choose by itself there."""
    version = tuple(int(part) for part in torch.__version__.split("+")[0].split(".")[:2])
    return {"fused": True} if job["fused"] and version >= (2, 4) else {}


def make_optimizer(job, model):
    o = job["optimizer"]
    if o["name"] == "sgd":
        return torch.optim.SGD(
            model.parameters(), o["lr"], o["momentum"], 0, o["weight_decay"], o["nesterov"],
            **fused_updates(job)
        )
    kind = {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW, "lion": Lion}[o["name"]]
    more = {} if kind is Lion else {"eps": o["eps"], **fused_updates(job)}
    return kind(model.parameters(), o["lr"], o["betas"], weight_decay=o["weight_decay"], **more)


class Steps:
    """Training steps on one batch."""

    def __init__(self, job):
        self.job = job
        self.model, self.x, self.y = prepared(job)
        self.optimizer = make_optimizer(job, self.model)
        self.loss = torch.compile(self.model.loss) if job["compile"] else self.model.loss

    def step(self):
        """Its seconds and its loss."""
        start = time.perf_counter()
        self.optimizer.zero_grad(set_to_none=True)
        with precision(self.job):
            loss = self.loss(self.x, self.y)
        loss.backward()
        self.optimizer.step()
        loss = loss.item()
        return time.perf_counter() - start, loss

    def warm_up(self):
        """As many steps as were asked for, behind the last in which something was compiled: seconds
        and loss of all, and of those up to that one."""
        done, compiling = [], 0
        while len(done) < compiling + self.job["warmup"]:
            before = graphs()
            done.append(self.step())
            if graphs() != before:
                compiling = len(done)
            if compiling > COMPILING_STEPS:
                raise SystemExit(f"peer: torch.compile has no end: {compiling} steps")
        return done, done[:compiling]


COMPILING_STEPS = 16


def graphs():
    """How many graphs torch.compile has made; backward is compiled in the step of its forward."""
    dynamo = sys.modules.get("torch._dynamo.utils")
    return dynamo.counters["stats"]["unique_graphs"] if dynamo else 0


def time_steps(job):
    imported = peer_memory.own_peak()
    steps = Steps(job)
    peer_memory.restart_peak()  # reading the weights is no part of it
    warm, compiling = steps.warm_up()
    if job["compile"]:
        peer_memory.restart_peak()  # nor is what the compiler took
    faults, made = resource.getrusage(resource.RUSAGE_SELF).ru_minflt, graphs()
    done = [steps.step() for _ in range(job["steps"])]
    faults = resource.getrusage(resource.RUSAGE_SELF).ru_minflt - faults
    if graphs() != made:
        raise SystemExit("peer: torch.compile compiled again after the warm-up: widen --warmup")
    whole, out = peer_memory.own_peak()
    return {
        "seconds": [seconds for seconds, _ in done],
        "first_loss": warm[0][1],
        "warmup_steps": len(warm),
        "compile_seconds": sum(seconds for seconds, _ in compiling),
        "graphs": made,
        "resident_peak": whole - out,
        "resident_whole": whole,
        "resident_left_out": out,
        "resident_after_import": imported[0] - imported[1],
        "faults_a_step": faults / job["steps"],
        "segments": steps.model.segments,
        "libraries": libraries(),
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "capability": built(r"CPU capability usage: (\S+)") or "unknown",
    }


def gradients(job, exact):
    """Loss and gradients on the batch: in double precision, or in that of the run."""
    model, x, y = prepared(job)
    if exact:
        model = model.double()
        x = x.double() if x.is_floating_point() else x
    with contextlib.nullcontext() if exact else precision(job):
        loss = model.loss(x, y, exact)
    loss.backward()
    return loss.item(), {name: p.grad.double() for name, p in model.named_parameters()}


def first_loss(job):
    """Forward alone, for networks of which no gradient would fit."""
    model, x, y = prepared(job)
    with torch.no_grad():
        return {"torch_loss": model.loss(x, y).item(), "torch": torch.__version__}


def farthest(got, want):
    """The tensor that is farthest from what it should be, and the relative distance. A gradient
    that is nothing but rounding, as a bias before batch norm has it, is measured against the
    largest."""
    least = 1e-3 * max(w.norm().item() for w in want.values())
    far = {n: ((got[n] - w).norm() / max(w.norm().item(), least)).item() for n, w in want.items()}
    worst = max(far, key=lambda n: far[n] if math.isfinite(far[n]) else math.inf)
    return {"tensor": worst, "difference": far[worst]}


def check(job):
    exact_loss, exact = gradients(job, True)
    torch_loss, torch_has = gradients(job, False)
    dnntrain_has = {plain(n): t.double() for n, t in read_file(job["gradients"]).items()}
    return {
        "exact_loss": exact_loss,
        "torch_loss": torch_loss,
        "tensors": len(exact),
        "dnntrain": farthest(dnntrain_has, exact),
        "torch": farthest(torch_has, exact),
    }


def main():
    job = json.loads(sys.argv[1])
    if job.get("flush"):
        torch.set_flush_denormal(True)  # before there are threads: they inherit it
    torch.set_num_threads(job["threads"])
    jobs = {"about": about, "batch": make_batch, "time": time_steps, "check": check,
            "loss": first_loss}
    print(json.dumps(jobs[job["job"]](job)))


if __name__ == "__main__":
    main()
