"""Stand-ins for py-spy: programs that take its options and misbehave in one way each."""

from __future__ import annotations

import sys
from pathlib import Path

#: Names that a body can use: `output` the file to write, `pid` the target, `seconds`; `attach()` says that it samples
#: and waits for SIGINT; `write(events)` writes them; `event(phase, name, us)` makes one.
_PRELUDE = """\
#!{python} -IS
import json, os, signal, sys, time
options = dict(zip(sys.argv[1:], sys.argv[2:]))
output, pid, seconds = options["--output"], int(options["--pid"]), float(options["--duration"])
interrupted = False

def note(*_):
    global interrupted
    interrupted = True

def say(text):
    sys.stdout.write(text + chr(10))
    sys.stdout.flush()

def attach():
    signal.signal(signal.SIGINT, note)
    say("py-spy> Sampling process 100 times a second for 1 seconds. Press Control-C to exit.")
    end = time.monotonic() + seconds
    while not interrupted and time.monotonic() < end:
        time.sleep(0.005)

def event(phase, name, us, line=1):
    args = dict(filename="" if name.startswith("thread") else "/app/job.py", line=line)
    return dict(args=args, cat="py-spy", name=name, ph=phase, pid=pid, tid=7, ts=us)

def write(events, samples=50, errors=0):
    with open(output, "w") as file:
        file.write(events if isinstance(events, str) else json.dumps(events))
    say(f"py-spy> Wrote chrome trace to '{{output}}'. Samples: {{samples}} Errors: {{errors}}")

def fail(text, status=1):
    sys.stderr.write(text)
    sys.exit(status)

"""

GOOD = """\
begin = time.monotonic()
attach()
last = (time.monotonic() - begin) * 1e6
root = f"thread ({pid}): MainThread"
write([event("B", root, 0), event("B", "work", 0), event("E", "work", last), event("E", root, last)])
"""


def fake(folder: Path, body: str, name: str = "py-spy") -> Path:
    """Make an executable of this Python body."""
    path = folder / name
    path.write_text(_PRELUDE.format(python=sys.executable) + body)
    path.chmod(0o755)
    return path
