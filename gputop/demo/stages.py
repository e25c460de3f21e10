"""The stages of the story: the same service three times, each faster than the one before."""

from __future__ import annotations

import itertools
import os
import queue
import threading
from collections.abc import Callable, Generator, Iterable, Sequence
from typing import NamedTuple

from gputop.demo.model import Model
from gputop.demo.pictures import Picture, decode_image

Load = Callable[[], Model]


class Answer(NamedTuple):
    """What the model said about a picture."""

    picture: Picture
    label: int


Answers = Generator[Answer, None, None]


def naive(pictures: Sequence[Picture], load_model: Load) -> Answers:
    """Load the model for every image, as in a request handler that was written in a hurry.

    Expected: the main thread computes all the time, most of it in `load_model` (with torch: in what that calls).
    Without torch the states are native (decompressing) and python (parsing numbers).
    """
    for picture in itertools.cycle(pictures):
        model = load_model()
        yield Answer(picture, model.classify(decode_image(picture.data)))


def cached(pictures: Sequence[Picture], load_model: Load) -> Answers:
    """Load the model once; now decoding is what takes the time.

    Expected: the main thread computes all the time, most of it in `decode_image`: half native (decompressing), half
    python (the differences). With a GPU, that is nearly idle, and the gpu_wait in `classify` is small.
    """
    model = load_model()
    for picture in itertools.cycle(pictures):
        yield Answer(picture, model.classify(decode_image(picture.data)))


def threads(pictures: Sequence[Picture], load_model: Load) -> Answers:
    """Decode on several threads; they all need the one model, which is locked while one of them uses it.

    Expected: the main thread waits for answers (lock, in `threads`). The `decoder-N` threads compute in `decode_image`,
    and wait for each other: gil (for the half of the work that is Python) and lock (in `classify_locked`).
    """
    model, model_lock = load_model(), threading.Lock()
    answers: queue.SimpleQueue[Answer] = queue.SimpleQueue()
    stopping = threading.Event()

    def classify_locked(picture: Picture) -> Answer:
        image = decode_image(picture.data)
        with model_lock:
            return Answer(picture, model.classify(image))

    def serve(mine: Iterable[Picture]) -> None:
        for picture in mine:
            if stopping.is_set():
                break
            answers.put(classify_locked(picture))

    count = min(max(os.cpu_count() or 1, 4), 8)
    shares = [itertools.cycle([*pictures[first:], *pictures[:first]]) for first in range(count)]
    workers = [threading.Thread(target=serve, args=(mine,), name=f"decoder-{n}") for n, mine in enumerate(shares)]
    try:
        for worker in workers:
            worker.start()
        while True:
            yield answers.get()
    finally:
        stopping.set()
        for worker in workers:
            worker.join()


#: By name, in the order of the story.
BY_NAME: dict[str, Callable[[Sequence[Picture], Load], Answers]] = {
    stage.__name__: stage for stage in (naive, cached, threads)
}
