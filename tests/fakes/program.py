"""The program that the synthetic source is about: its files, its call tree, and where it is now."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gputop.analysis.results import FlameNode, States
from gputop.model import Frame, Stack
from gputop.target.code import Code

_TRAIN, _DATA = "/home/ada/train/train.py", "/home/ada/train/data.py"
_TORCH = "/venv/lib/python3.12/site-packages/torch/nn/modules"

MAIN, EPOCH_, STEP = Frame("main", _TRAIN, 150), Frame("run_epoch", _TRAIN, 120), Frame("train_step", _TRAIN, 88)
LOAD, ITEM = Frame("load_batch", _TRAIN, 117), Frame("__getitem__", _DATA, 22)
DECODE, NORMALISE = Frame("decode_image", _DATA, 31), Frame("normalise", _DATA, 57)
CALL, CONV = Frame("_call_impl", f"{_TORCH}/module.py", 1562), Frame("_conv_forward", f"{_TORCH}/conv.py", 548)
SYNC = Frame("synchronize", "/usr/lib/python3/dist-packages/torch/cuda/__init__.py", 1162)
LOG = Frame("log_metrics", _TRAIN, 140)

#: Where the main thread is now.
STACK: Stack = (MAIN, EPOCH_, LOAD, ITEM, DECODE)

_SOURCE: Mapping[str, Mapping[int, str]] = {
    _DATA: {
        1: '"""Images from a folder."""',
        3: "import io",
        4: "from pathlib import Path",
        6: "import numpy as np",
        7: "from PIL import Image",
        10: "class Folder:",
        11: '    """Decodes on access; nothing is cached."""',
        13: "    def __init__(self, root: Path, size: int = 224) -> None:",
        14: "        self.files = sorted(root.glob('*/*.jpg'))",
        15: "        self.size = size",
        17: "    def __len__(self) -> int:",
        18: "        return len(self.files)",
        20: "    def __getitem__(self, index: int) -> np.ndarray:",
        21: "        raw = self.files[index].read_bytes()",
        22: "        return normalise(decode_image(raw, self.size))",
        25: "def decode_image(raw: bytes, size: int) -> Image.Image:",
        26: '    """Return the picture, square and in RGB."""',
        27: "    image = Image.open(io.BytesIO(raw))",
        28: "    side = min(image.size)",
        29: "    # JPEG can be decoded at a half, a quarter, an eighth of its size",
        30: "    image.draft('RGB', (side, side))",
        31: "    return image.convert('RGB').resize((size, size), Image.LANCZOS)",
        54: "def normalise(image: Image.Image) -> np.ndarray:",
        55: "    pixels = np.asarray(image, dtype=np.float32)",
        56: "    mean, deviation = pixels.mean((0, 1)), pixels.std((0, 1))",
        57: "    return (pixels - mean) / deviation",
        60: "SIZES = [2**power for power in range(9)]",
    },
    _TRAIN: {
        85: "def train_step(model, batch, optimizer):",
        86: "    optimizer.zero_grad(set_to_none=True)",
        87: "    loss = model(batch.images).loss(batch.labels)",
        88: "    loss.backward(); optimizer.step()",
        89: "    return loss.item()",
        115: "def run_epoch(model, loader, optimizer):",
        116: "    for number in range(len(loader)):",
        117: "        batch = load_batch(loader)",
        120: "        loss = train_step(model, batch, optimizer)",
        140: "    log_metrics(epoch, loss)",
        150: "    run_epoch(model, loader, optimizer)",
    },
}


def code_of(file: str) -> Code:
    """Return a file of the program; installed ones are missing."""
    known = _SOURCE.get(file)
    if known is None:
        return Code(missing="the file is not there")
    return Code(tuple(known.get(number, "") for number in range(1, max(known) + 1)))


def grown(paths: Sequence[tuple[Stack, float, States]]) -> FlameNode:
    """Return the call tree of (stack, seconds at its end, what they went into)."""
    return _node(Frame("all", "", 0), paths, 0)


def _node(frame: Frame, paths: Sequence[tuple[Stack, float, States]], depth: int) -> FlameNode:
    below: dict[Frame, list[tuple[Stack, float, States]]] = {}
    for path in paths:
        if len(path[0]) > depth:
            below.setdefault(path[0][depth], []).append(path)
    children = sorted((_node(child, rest, depth + 1) for child, rest in below.items()), key=lambda node: -node.total)
    total = sum(seconds for _, seconds, _ in paths)
    states: dict[str, float] = {}
    for _, seconds, shares in paths:
        for name, share in shares.items():
            states[name] = states.get(name, 0.0) + seconds * share / total
    own = sum(seconds for stack, seconds, _ in paths if len(stack) == depth)
    return FlameNode(frame, total, own, states, tuple(children))


#: A minute of the main thread: 60 s in all.
CALLS = grown(
    (
        ((MAIN, EPOCH_, LOAD, ITEM, DECODE), 24.6, {"native": 0.9, "python": 0.1}),
        ((MAIN, EPOCH_, LOAD, ITEM, NORMALISE), 4.8, {"native": 0.6, "python": 0.4}),
        ((MAIN, EPOCH_, LOAD, ITEM), 0.6, {"python": 1.0}),
        ((MAIN, EPOCH_, STEP), 7.2, {"python": 0.7, "gpu_api": 0.3}),
        ((MAIN, EPOCH_, STEP, CALL, CONV), 12.0, {"gpu_api": 1.0}),
        ((MAIN, EPOCH_, STEP, SYNC), 9.0, {"gpu_wait": 1.0}),
        ((MAIN, EPOCH_, LOG), 1.8, {"python": 0.6, "io": 0.4}),
    )
)
