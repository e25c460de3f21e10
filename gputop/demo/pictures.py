"""The pictures that the job classifies: striped, noisy, and packed the way PNG does it.

A row is stored as its difference to the row above (PNG's "up" filter), and all rows are compressed together. Unpacking
is honest work: native code without the interpreter lock for the compression, the interpreter for the differences.
"""

from __future__ import annotations

import bz2
import operator
import random
from typing import NamedTuple

#: Pictures are squares of this many pixels a side, of three bytes each.
SIDE = 224
COLOURS = {
    "red": (220, 40, 40),
    "green": (40, 200, 60),
    "blue": (50, 60, 220),
    "yellow": (220, 210, 40),
    "violet": (150, 40, 200),
    "cyan": (40, 200, 210),
    "orange": (240, 140, 30),
    "white": (230, 230, 230),
}
STRIPES = range(1, 9)
#: What a picture can show; a label is the place in this list.
LABELS = [f"{colour}, {count} stripes" for colour in COLOURS for count in STRIPES]
_DARK = (20, 20, 30)
_NOISE = bytes(value % 16 for value in range(256))
#: A sum of two bytes, as a byte.
_WRAP = bytes(range(256)) * 2


class Image(NamedTuple):
    """Pixels, row by row, three bytes each."""

    side: int
    pixels: bytes


class Picture(NamedTuple):
    """A packed image, and what it shows."""

    data: bytes
    label: int


def draw_row(label: int, side: int) -> bytes:
    """Draw a row of the picture that `label` stands for; all its rows are alike."""
    colour, count = list(COLOURS.values())[label // len(STRIPES)], STRIPES[label % len(STRIPES)]
    return b"".join(bytes(colour if 2 * count * x // side % 2 == 0 else _DARK) for x in range(side))


def make_picture(label: int, seed: int) -> Picture:
    """Draw a noisy picture and pack it."""
    noise = random.Random(seed)
    row = draw_row(label, SIDE)
    rows = [bytes(map(sum, zip(row, noise.randbytes(len(row)).translate(_NOISE), strict=True))) for _ in range(SIDE)]
    above = [bytes(len(row)), *rows[:-1]]
    differences = b"".join(map(_difference, rows, above))
    return Picture(bz2.compress(differences), label)


def _difference(row: bytes, above: bytes) -> bytes:
    return bytes([(here - up) & 0xFF for here, up in zip(row, above, strict=True)])


def make_pictures(count: int) -> list[Picture]:
    """Make the pictures that the job is asked about, always the same ones."""
    labels = random.Random(7).sample(range(len(LABELS)), count)
    return [make_picture(label, seed) for seed, label in enumerate(labels)]


def decode_image(data: bytes) -> Image:
    """Unpack a picture: first the compressed bytes, then each row from its difference to the row above."""
    differences = bz2.BZ2Decompressor().decompress(data)
    length = 3 * SIDE
    rows = [bytes(length)]
    for start in range(0, len(differences), length):
        sums = map(operator.add, rows[-1], differences[start : start + length])
        rows.append(bytes(map(_WRAP.__getitem__, sums)))
    return Image(SIDE, b"".join(rows[1:]))


def resize(image: Image, side: int) -> Image:
    """Make an image smaller, by taking the pixel nearest to each new one's middle."""
    places = [(2 * place + 1) * image.side // (2 * side) for place in range(side)]
    starts = [3 * (y * image.side + x) for y in places for x in places]
    return Image(side, b"".join([image.pixels[start : start + 3] for start in starts]))
