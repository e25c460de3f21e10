"""The model with torch: a small convolutional network with random weights, on the GPU when there is one.

What it answers means nothing, but it is always the same, and the work is the real one: copy the image to the GPU,
launch the kernels, and wait for the answer in `.item()`.
"""

from __future__ import annotations

import functools
import io

import torch
from torch import nn

from gputop.demo.pictures import LABELS, Image, resize

#: Images are made this small before they are looked at.
SIDE = 64
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
torch.set_num_threads(1)  # one small image is too little work to be shared among cores


class ConvNet:
    """A network in evaluation mode."""

    def __init__(self, network: nn.Module) -> None:
        self.network = network.to(DEVICE).eval()

    @torch.inference_mode()
    def classify(self, image: Image) -> int:
        """Return the label with the highest score."""
        pixels = torch.frombuffer(bytearray(resize(image, SIDE).pixels), dtype=torch.uint8)
        batch = pixels.to(DEVICE).view(1, SIDE, SIDE, 3).permute(0, 3, 1, 2) / 255
        return int(self.network(batch).argmax().item())


def build_network() -> nn.Module:
    """Return the network with fresh random weights."""
    return nn.Sequential(
        nn.Conv2d(3, 32, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(4),
        nn.Conv2d(32, 64, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(64 * (SIDE // 8) ** 2, 1024),
        nn.ReLU(),
        nn.Linear(1024, len(LABELS)),
    )


def load_model() -> ConvNet:
    """Build the network and fill in the checkpoint's weights."""
    network = build_network()
    network.load_state_dict(torch.load(io.BytesIO(checkpoint()), weights_only=True))
    return ConvNet(network)


@functools.cache
def checkpoint() -> bytes:
    """Return the model's file, as it would lie on a disk."""
    torch.manual_seed(7)
    file = io.BytesIO()
    torch.save(build_network().state_dict(), file)
    return file.getvalue()
