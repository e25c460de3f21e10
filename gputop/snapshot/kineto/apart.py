"""The short reading of a trace, made in a process of its own and told in sentences."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import gputop
from gputop.errors import SnapshotError
from gputop.snapshot.kineto.reading import Gap, Reading, Row, read
from gputop.text import printable

#: Longest that a reading may take, seconds; about 30 MB of JSON a second are read.
PATIENCE_S = 60.0

#: Lines of gputop's own evidence that are told.
_EVIDENCE = 4

_BOOT = (
    "import sys; sys.path.insert(0, sys.argv[1]); "
    "from gputop.snapshot.kineto.apart import main; sys.exit(main(sys.argv[2]))"
)

_VERDICTS = {
    "launch-bound": "launch-bound: the GPU waits for the next launch (try larger batches, CUDA graphs, torch.compile)",
    "gpu-bound": "GPU-bound: the GPU works nearly all the time",
    "cpu-bound": "CPU-bound: the GPU idles for long stretches while the CPU prepares its work",
    "mixed": "GPU and CPU alternate",
    "no-gpu": "no GPU work in this trace",
}


def read_apart(path: Path) -> Reading:
    """Read a trace without taking time or memory of this process.

    Raises:
        SnapshotError: the file cannot be read, is no trace, or takes too long.
    """
    command = [sys.executable, "-I", "-S", "-c", _BOOT, str(Path(gputop.__file__).parents[1]), str(path)]
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=PATIENCE_S)
    except subprocess.TimeoutExpired as error:
        raise SnapshotError(f"{path} is too large for a short reading", "open it at ui.perfetto.dev") from error
    if done.returncode != 0:
        raise _failed(path, done.stdout)
    return _restored(json.loads(done.stdout))


def told(path: Path) -> tuple[str, ...]:
    """Return the reading of a trace as sentences, or the one that says why there is none."""
    try:
        return tuple(sentences(read_apart(path)))
    except (SnapshotError, OSError) as error:
        return (f"no reading: {error}",)


def _failed(path: Path, printed: str) -> SnapshotError:
    try:
        what, remedy = json.loads(printed)
    except ValueError:
        what, remedy = f"{path} could not be read", "open it at ui.perfetto.dev"
    return SnapshotError(what, remedy)


def main(path: str) -> int:
    """Be the process: print the reading as JSON, or what failed and its remedy."""
    try:
        print(json.dumps(asdict(read(Path(path)))))
    except SnapshotError as error:
        print(json.dumps([error.what, error.remedy]))
        return 1
    return 0


def _restored(facts: dict[str, Any]) -> Reading:
    facts["kernels"], facts["operators"] = (
        tuple(Row(**row) for row in facts[name]) for name in ("kernels", "operators")
    )
    facts["gaps"] = tuple(
        Gap(gap["start_s"], gap["seconds"], *(tuple(map(tuple, gap[what])) for what in ("doing", "python")))
        for gap in facts["gaps"]
    )
    return Reading(**facts)


def sentences(reading: Reading) -> Iterator[str]:
    """Yield the reading, most important first: what torch recorded, then what gputop saw in the same time."""
    if reading.seconds:
        yield from _of_torch(reading)
    elif reading.ours.get("kind") != "sampled":
        yield "torch recorded nothing in this trace: no operator, CUDA call or kernel"
    yield from _of_ours(reading.ours)


def _of_torch(reading: Reading) -> Iterator[str]:
    yield _VERDICTS[reading.verdict]
    if reading.devices:
        yield (
            f"GPU busy {reading.gpu_busy:.0%} of {_time(reading.seconds)}; median kernel {reading.kernel_us:.1f} µs, "
            f"{reading.launch_us:.1f} µs after its launch; the launching thread waits {reading.waiting:.0%}"
        )
    for row in reading.kernels[:3]:
        yield f"kernel {row.share:.0%}: {_short(row.name)} ({row.calls} times, {_time(row.seconds)})"
    for row in reading.operators[:3]:
        yield f"CPU {row.share:.0%}: {_short(row.name)} ({row.calls} times, {_time(row.seconds)})"
    for gap in reading.gaps[:3]:
        yield f"GPU idle {_time(gap.seconds)} at {_time(gap.start_s)}: {_meanwhile(gap)}"
    if reading.copy_seconds:
        yield f"copies {_time(reading.copy_seconds)}, {reading.copy_alone:.0%} of that with no kernel running"


def _of_ours(about: Mapping[str, Any]) -> Iterator[str]:
    """Yield the verdict that gputop wrote into the file, whoever may have edited it since."""
    verdict = about.get("verdict")
    if isinstance(verdict, dict):
        yield printable(f"gputop saw: {verdict.get('title')}: {verdict.get('sentence')}")
        evidence = verdict.get("evidence")
        yield from (printable(f"  {words}") for words in (evidence if isinstance(evidence, list) else ())[:_EVIDENCE])


def _meanwhile(gap: Gap) -> str:
    """Say what the thread that feeds the GPU did: in torch, and where it was in Python."""
    parts = [f"{_short(name)} {_time(seconds)}" for name, seconds in gap.doing]
    outside = gap.seconds - sum(seconds for _, seconds in gap.doing)
    if outside > gap.seconds / 2:
        parts.insert(0, f"outside torch's operators {_time(outside)}")
    if gap.python:
        parts.append("in Python " + ", ".join(f"{_short(name)} {_time(seconds)}" for name, seconds in gap.python[:2]))
    return "; ".join(parts)


def _short(name: str, letters: int = 60) -> str:
    return name if len(name) <= letters else name[: letters - 1] + "…"


def _time(seconds: float) -> str:
    if seconds >= 1:
        return f"{seconds:.2f} s"
    return f"{seconds * 1e3:.1f} ms" if seconds >= 1e-3 else f"{seconds * 1e6:.0f} µs"
