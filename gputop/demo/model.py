"""The model without torch: it knows what each label's picture looks like, and finds the most similar one.

One matrix-vector product in plain Python. Its "checkpoint" is a compressed text file, as slow to load as that sounds.
"""

from __future__ import annotations

import bz2
import functools
import operator
from typing import Protocol

from gputop.demo.pictures import LABELS, Image, draw_row, resize

#: Images are made this small before they are compared.
SIDE = 32
_PIXELS = 3 * SIDE * SIDE


class Model(Protocol):
    """What the stages need of a model."""

    def classify(self, image: Image) -> int:
        """Return the label of an image."""


class NearestPicture:
    """Compares an image with one example of each label.

    Args:
        examples: for each label, the pixel values of its picture.
    """

    def __init__(self, examples: list[list[float]]) -> None:
        self.weights = examples
        self.bias = [-sum(map(operator.mul, row, row)) / 2 for row in examples]

    def classify(self, image: Image) -> int:
        """Return the label whose example differs least: the largest of `weights @ pixels + bias`."""
        pixels = [value / 255 for value in resize(image, SIDE).pixels]
        scores = [sum(map(operator.mul, row, pixels)) + bias for row, bias in zip(self.weights, self.bias, strict=True)]
        return scores.index(max(scores))


def load_model() -> NearestPicture:
    """Unpack and parse the checkpoint."""
    text = bz2.BZ2Decompressor().decompress(checkpoint())
    numbers = list(map(float, text.split()))
    return NearestPicture([numbers[start : start + _PIXELS] for start in range(0, len(numbers), _PIXELS)])


@functools.cache
def checkpoint() -> bytes:
    """Return the model's file, as it would lie on a disk."""
    examples = b"".join(draw_row(label, SIDE) * SIDE for label in range(len(LABELS)))
    return bz2.compress(b" ".join(b"%.4f" % (value / 255) for value in examples))
