"""Makes screenshots/ from the recordings in tests/data/recordings: each picture as SVG and PNG, and the cast as SVG.

    python -m tests.screenshots [NAME …]

(For the PNGs: pip install resvg_py; the pictures here were made with the font Fira Code.)
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from pathlib import Path

from gputop.tui import theme
from tests.screenshots import svg
from tests.screenshots.capture import RECORDINGS, ROOT, Playing, Shown, press, rows, settled, showing
from tests.screenshots.pictures import CAST, CAST_FROM, CAST_SIZE, PICTURES, STORY, Picture

TARGET = ROOT / "screenshots"
#: Width of a PNG of 160 columns, pixels.
_PIXELS = 1520
#: Pictures a second in the cast.
_RATE = 2


def _recording(name: str) -> Path:
    return RECORDINGS / f"{name}.gputop"


async def still(picture: Picture) -> str:
    """Return one picture as SVG."""
    async with showing(Shown(_recording(picture.recording)), picture.size, picture.theme) as (app, pilot):
        await press(app, pilot, picture.keys)
        return svg.draw([svg.Frame(rows(app))], "gputop", theme.theme(picture.theme).palette["base"])


async def cast() -> str:
    """Return the cast as SVG."""
    source = Playing(_recording(CAST), CAST_FROM)
    frames = []
    async with showing(source, CAST_SIZE) as (app, pilot):
        for scene in STORY:
            await press(app, pilot, scene.keys)
            for _ in range(round(scene.seconds * _RATE)):
                source.now += 1 / _RATE
                app._tick()
                await settled(app, pilot)
                app.draw()
                await pilot.pause()
                frames.append(svg.Frame(rows(app), 1 / _RATE))
    return svg.draw(frames, "gputop", theme.theme("dark").palette["base"])


def png(drawing: str, columns: int) -> bytes:
    """Return a picture of an SVG."""
    import resvg_py

    width = round(_PIXELS * max(80, columns) / 160)
    return bytes(resvg_py.svg_to_bytes(svg_string=drawing, width=width, monospace_family="DejaVu Sans Mono"))


def main(names: list[str]) -> None:
    """Make all pictures, or those named."""
    os.environ |= {"TZ": "UTC", "HOME": "/home/ada", "XDG_CONFIG_HOME": "/home/ada/.config"}
    time.tzset()
    TARGET.mkdir(exist_ok=True)
    for picture in PICTURES:
        if not names or picture.name in names:
            drawing = asyncio.run(still(picture))
            (TARGET / f"{picture.name}.svg").write_text(drawing, encoding="utf-8")
            (TARGET / f"{picture.name}.png").write_bytes(png(drawing, picture.size[0]))
            print(picture.name)
    if not names or "cast" in names:
        (TARGET / "cast.svg").write_text(asyncio.run(cast()), encoding="utf-8")
        print("cast")


if __name__ == "__main__":
    main(sys.argv[1:])
