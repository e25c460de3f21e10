"""Training: bound by the GPU, or by the data loader."""

from __future__ import annotations

import time
from collections.abc import Iterator

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

from tests.gpu.jobs.base import DISPATCH, Ledger, python_work, run


class Bottleneck(nn.Module):
    """A residual block of three convolutions (He et al., 2015, figure 5)."""

    def __init__(self, inputs: int, width: int, stride: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            *_convolution(inputs, width, 1),
            nn.ReLU(inplace=True),
            *_convolution(width, width, 3, stride),
            nn.ReLU(inplace=True),
            *_convolution(width, 4 * width, 1),
        )
        fits = inputs == 4 * width and stride == 1
        self.shortcut = nn.Identity() if fits else nn.Sequential(*_convolution(inputs, 4 * width, 1, stride))

    def forward(self, images: Tensor) -> Tensor:
        return torch.relu(self.body(images) + self.shortcut(images))


def _convolution(inputs: int, outputs: int, size: int, stride: int = 1) -> tuple[nn.Module, nn.Module]:
    return nn.Conv2d(inputs, outputs, size, stride, size // 2, bias=False), nn.BatchNorm2d(outputs)


def resnet(width: int, depths: tuple[int, ...]) -> nn.Module:
    """Return a residual network; width 64 and depths 3, 4, 6, 3 make ResNet-50."""
    layers: list[nn.Module] = [*_convolution(3, width, 7, 2), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1)]
    inputs = width
    for stage, depth in enumerate(depths):
        for place in range(depth):
            layers.append(Bottleneck(inputs, width << stage, 2 if stage and not place else 1))
            inputs = 4 * width << stage
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inputs, 1000))


class Trainer:
    """A model that learns, timed in its phases."""

    def __init__(self, model: nn.Module) -> None:
        self._model = model
        self._optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)
        self._criterion = nn.CrossEntropyLoss()

    def step(self, ledger: Ledger, images: Tensor, labels: Tensor) -> float:
        """Take one step. Backward runs on autograd's own thread where there is a GPU, here otherwise."""
        with ledger.timed(DISPATCH):
            self._optimizer.zero_grad()
            loss = self._criterion(self._model(images), labels)
        with ledger.waited("lock", DISPATCH):
            loss.backward()
        with ledger.timed(DISPATCH):
            self._optimizer.step()
        with ledger.timed("gpu_wait" if images.is_cuda else DISPATCH):
            return float(loss.item())


def gpu_bound(device: str) -> None:
    """Train with the batch resident on the GPU."""
    torch.set_num_threads(1)
    batch, size, model = (128, 224, resnet(64, (3, 4, 6, 3)))
    if device == "cpu":
        batch, size, model = 4, 64, resnet(8, (1, 1, 1, 1))
    trainer = Trainer(model.to(device))
    images, labels = torch.randn(batch, 3, size, size, device=device), torch.arange(batch, device=device)
    run(lambda ledger: trainer.step(ledger, images, labels), warm_up=5)


class Photos(Dataset[tuple[Tensor, int]]):
    """Pictures that take a few milliseconds each to fetch and to decode."""

    def __len__(self) -> int:
        return 1 << 24

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        time.sleep(0.006)
        shade = python_work(2)
        return torch.full((3, 64, 64), shade / 65536), index % 1000


def loader_bound(device: str) -> None:
    """Train on batches from two workers that are slower than the model."""
    torch.set_num_threads(1)
    trainer = Trainer(resnet(16, (1, 1)).to(device))
    batches: Iterator[tuple[Tensor, Tensor]] = iter(DataLoader(Photos(), batch_size=8, num_workers=2))

    def step(ledger: Ledger) -> None:
        with ledger.waited("data", DISPATCH):
            images, labels = next(batches)
        with ledger.timed("gpu_wait.copy_to_device" if device == "cuda" else DISPATCH):
            images, labels = images.to(device), labels.to(device)
        trainer.step(ledger, images, labels)

    run(step, warm_up=5)
