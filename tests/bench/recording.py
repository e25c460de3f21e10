"""What a recording costs: run with `python -m tests.bench.recording [busy threads] [parked threads]`."""

from __future__ import annotations

import sys
import tempfile
import time
import zlib
from pathlib import Path

from gputop.session import SessionWriter, load
from gputop.session.codec import encode
from tests.fakes.feed import Feed

_SECONDS = 60


def main(busy: int, parked: int) -> None:
    """Print bytes and CPU time for each second recorded, and how fast a recording is read."""
    feed = Feed(busy, parked)
    seconds = [list(feed.second(float(second))) for second in range(_SECONDS)]
    print(f"{busy} busy threads, {parked} parked")
    for level in (1, zlib.Z_DEFAULT_COMPRESSION):
        deflate, size = zlib.compressobj(level, wbits=31), 0
        began = time.process_time()
        for batches in seconds:
            for batch in batches:
                size += len(deflate.compress(f"{encode(batch)}\n".encode()))
            size += len(deflate.flush(zlib.Z_SYNC_FLUSH))
        spent = time.process_time() - began
        print(f"level {level}: {size / _SECONDS / 1000:7.1f} kB/s  {1000 * spent / _SECONDS:6.2f} ms CPU a second")
    with tempfile.TemporaryDirectory() as directory:
        writer = SessionWriter(Path(directory) / "run.gputop")
        writer.write(feed.session())
        for batches in seconds:
            for batch in batches:
                writer.write(batch)
        writer.close()
        began = time.process_time()
        load(writer.path)
        print(f"reading: {1000 * (time.process_time() - began) / _SECONDS:.2f} ms CPU for each second recorded")


if __name__ == "__main__":
    main(*(int(argument) for argument in sys.argv[1:3] or ("1", "40")))
