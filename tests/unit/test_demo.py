"""The built-in job: its results are right, each stage shows what it promises, and it ends and lives on as it should."""

from __future__ import annotations

import importlib.util
import itertools
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from gputop.demo import STAGES, command
from gputop.demo.model import load_model
from gputop.demo.pictures import LABELS, Image, decode_image, make_picture, make_pictures, resize
from gputop.demo.stages import BY_NAME
from tests.unit.stacks_tools import collecting, process

ROOT = Path(__file__).parents[2]


@contextmanager
def job(stage: str, *flags: str) -> Iterator[subprocess.Popen[str]]:
    """Run a stage as a program; yields when it has said its first line."""
    environment = dict(os.environ, PYTHONPATH=str(ROOT))
    with subprocess.Popen([*command(stage), *flags], stdout=subprocess.PIPE, text=True, env=environment) as program:
        assert program.stdout is not None
        assert STAGES[stage] in program.stdout.readline()
        try:
            yield program
        finally:
            program.kill()


def test_stages_are_the_ones_promised() -> None:
    assert list(BY_NAME) == list(STAGES) == ["naive", "cached", "threads"]
    assert all("Expected:" in (stage.__doc__ or "") for stage in BY_NAME.values())


def test_picture_survives_packing() -> None:
    picture = make_picture(label=5, seed=1)
    image = decode_image(picture.data)
    assert len(image.pixels) == 3 * image.side**2
    # The sixth red picture: two thirds of a twelfth of a side are red, then dark, give or take the noise of 15.
    red, dark = image.pixels[0:3], image.pixels[3 * 25 : 3 * 25 + 3]
    assert all(0 <= have - want <= 15 for have, want in zip(red + dark, (220, 40, 40, 20, 20, 30), strict=True))


def test_resize_takes_the_middle_pixels() -> None:
    pixels = b"".join(bytes((y, x, 0)) for y in range(6) for x in range(6))
    assert resize(Image(6, pixels), 2) == Image(2, bytes((1, 1, 0, 1, 4, 0, 4, 1, 0, 4, 4, 0)))


def test_model_knows_every_label() -> None:
    model = load_model()
    for label in range(3, len(LABELS), 8):
        assert model.classify(decode_image(make_picture(label, seed=label).data)) == label


@pytest.mark.parametrize("stage", STAGES)
def test_every_stage_answers_rightly(stage: str) -> None:
    answers = BY_NAME[stage](make_pictures(4), load_model)
    for answer in itertools.islice(answers, 8):
        assert answer.label == answer.picture.label
    answers.close()


@pytest.mark.parametrize("stage", STAGES)
def test_runs_for_so_long(stage: str) -> None:
    with job(stage, "--no-torch", "--seconds", "1.2") as program:
        assert program.stdout is not None
        *told, last = program.stdout.read().splitlines()
        assert program.wait(10) == 0
    assert all("images/s" in line for line in told)
    assert int(last.split()[1]) > 0


@pytest.mark.parametrize(("stage", "number"), [("cached", signal.SIGINT), ("threads", signal.SIGTERM)])
def test_signals_end_it_cleanly(stage: str, number: signal.Signals) -> None:
    with job(stage, "--no-torch") as program:
        assert program.stdout is not None
        program.send_signal(number)
        assert "images in all" in program.stdout.read().splitlines()[-1]
        assert program.wait(10) == 0


def test_goes_on_when_nobody_listens() -> None:
    with job("cached", "--no-torch") as program:
        assert program.stdout is not None
        program.stdout.close()
        output = Path(f"/proc/{program.pid}/fd/1")
        deadline = time.monotonic() + 15
        while output.readlink() != Path("/dev/null"):
            assert time.monotonic() < deadline
            time.sleep(0.02)
        assert program.poll() is None


#: The main thread's or the decoders' function that most time is to be spent below, and its least share.
HOT = {"naive": ("load_model", 0.45), "cached": ("decode_image", 0.5), "threads": ("decode_image", 0.4)}


@pytest.mark.parametrize("stage", STAGES)
def test_most_time_is_where_the_docstring_says(stage: str) -> None:
    with job(stage, "--no-torch") as program:
        assert program.stdout is not None
        program.stdout.readline()  # its model is loaded by now
        with collecting(process(program.pid)) as (emitted, _):
            emitted.wait(lambda: len(emitted.stacks()) >= 2)
    seconds: Counter[str] = Counter()
    for batch in emitted.stacks():
        for segment in batch.segments:
            if (stage == "threads") == batch.threads[segment.tid].startswith("decoder"):
                stack = {frame.name for frame in batch.stacks[segment.stack]}
                seconds.update(dict.fromkeys(stack | {"all"}, segment.end - segment.start))
    function, least = HOT[stage]
    assert seconds[function] / seconds["all"] > least


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed")
def test_torch_answers_the_same_in_every_stage() -> None:
    """In a program of its own: torch is large, and stays in a process for good."""
    code = """
import itertools
from gputop.demo.pictures import make_pictures
from gputop.demo.stages import BY_NAME
from gputop.demo.torch_model import load_model
said = set()
for stage in BY_NAME.values():
    answers = stage(make_pictures(2), load_model)
    said |= {(answer.picture.label, answer.label) for answer in itertools.islice(answers, 2)}
    answers.close()
assert len(said) == 2, said
"""
    subprocess.run([sys.executable, "-c", code], check=True, env=dict(os.environ, PYTHONPATH=str(ROOT)))
