"""What is shown in screenshots/: one line a picture, and the story of the cast."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Picture:
    """One picture: of which recording, in which size and theme, after which keys."""

    name: str
    recording: str
    size: tuple[int, int] = (160, 48)
    keys: tuple[str, ...] = ()
    theme: str = "dark"


#: Marks one range early and one late, then compares them.
_TWO_RANGES = (*["left"] * 11, "m", *["right"] * 4, "m", "end", *["left"] * 4, "m", *["right"] * 4, "m", "c")

PICTURES: tuple[Picture, ...] = (
    Picture("overview", "mixed"),
    Picture("overview-light", "mixed", theme="light"),
    Picture("overview-starved", "demo"),
    Picture("overview-data", "loader"),
    Picture("overview-gpu-bound", "train"),
    Picture("overview-80x24", "mixed", (80, 24)),
    Picture("overview-40x10", "mixed", (40, 10)),
    Picture("threads", "loader", (140, 24), ("t",)),
    Picture("advice", "loader", (120, 30), ("w",)),
    Picture("compare", "demo", (140, 26), _TWO_RANGES),
    Picture("gpus", "mixed", (140, 40), ("d",)),
    Picture("source", "demo", (160, 40), ("f",)),
    Picture("flame", "train", (160, 24), ("F", "o")),
    Picture("flame-states", "demo", (160, 40), ("F", "v")),
    Picture("processes", "loader", (120, 12), ("p",)),
    Picture("settings", "demo", (120, 16), ("S",)),
    Picture("help", "mixed", (110, 114), ("question_mark",)),
)


@dataclass(frozen=True)
class Scene:
    """A part of the cast: after these keys, so many seconds, with the recording going on."""

    keys: tuple[str, ...]
    seconds: float


#: The cast plays this recording from so many seconds after its start.
CAST, CAST_SIZE, CAST_FROM = "demo", (120, 32), 11.0
STORY: tuple[Scene, ...] = (
    Scene((), 6.0),
    Scene(("w",), 2.5),
    Scene(("escape", "f"), 3.0),
    Scene(("escape", "escape", "F"), 2.5),
    Scene(("escape", "escape", "t"), 2.5),
    Scene(("escape", "d"), 2.5),
    Scene(("escape", "escape"), 2.0),
)
