"""What it means when py-spy brings no stacks, and what helps: a table, first match wins."""

from __future__ import annotations

import re
import signal
from dataclasses import dataclass
from pathlib import Path

from gputop.collectors.stacks.window import Outcome
from gputop.errors import ptrace_remedy
from gputop.model import ProcessInfo
from gputop.text import printable

_REST = "everything but Python functions still works"
_FREE_THREADED = re.compile(rb"python3\.\d+t\b")


@dataclass(frozen=True, slots=True)
class Trouble:
    """One way in which py-spy fails.

    Attributes:
        pattern: what it is recognised by, in py-spy's output after "cut short: …" and "status N".
        what, remedy: the note's sentences; `{who}` is the process, `{0}` the pattern's first group.
        patience: failures in a row that are kept quiet, because they usually mend themselves; None is always quiet.
        retry: seconds until the next try, doubled with every failure up to `retry_limit`.
    """

    pattern: str
    what: str = ""
    remedy: str = _REST
    patience: int | None = 0
    retry: float = 1.0
    retry_limit: float = 10.0

    def note(self, text: str, who: str) -> tuple[str, str]:
        """Return what to tell the user about the process `who`, and the remedy."""
        found = re.search(self.pattern, text)
        captured = printable(found[1], 60) if found and found.lastindex else ""
        return self.what.format(captured, who=who), self.remedy.format(captured, who=who)

    def pause(self, failures: int) -> float:
        """Return the seconds to wait after that many failures in a row."""
        return float(min(self.retry * 2 ** min(failures - 1, 10), self.retry_limit))


#: What py-spy prints, and when: `benfred/py-spy`, main.rs and python_spy.rs (0.4.2), tried with 0.4.3.
TROUBLES = (
    Trouble(
        r"cut short: (.*)",
        "py-spy hung on {who} and was ended: {0}",
        "gputop tries again; a lower rate helps when the machine is overloaded",
        patience=1,
    ),
    Trouble(
        r"Permission [Dd]enied|EPERM|Operation not permitted",
        "no right to read the Python stacks of {who}",
        ptrace_remedy(),
        retry=3,
    ),
    Trouble(r"process executable name|No such process|process exited", patience=None, retry=0.2),
    Trouble(
        r"Unsupported version of Python: (\S+)",
        "py-spy cannot read Python {0} of {who}",
        f"pip install --upgrade py-spy; until then {_REST}",
        retry=60,
        retry_limit=600,
    ),
    Trouble(
        r"free-threaded",
        "{who} runs a free-threaded Python, which py-spy cannot read",
        "gputop reads the innermost functions itself; to see their callers, use the ordinary build of Python",
        retry=60,
        retry_limit=600,
    ),
    Trouble(
        r"No space left on device",
        "no room to write the Python stacks of {who}",
        "free some space in the temporary directory",
    ),
    Trouble(
        r"status -(\d+)",
        "py-spy on {who} is being killed from outside (signal {0})",
        "look for an out-of-memory killer (dmesg) or a job manager's limits",
        patience=1,
        retry=0.1,
    ),
    Trouble(
        r"status 2\b",
        "this py-spy does not know the options that gputop uses",
        "pip install --upgrade py-spy",
        retry=60,
        retry_limit=600,
    ),
    Trouble(r"python version", "no Python found in {who}", patience=3, retry=0.3),
    # While a program starts or imports, half an interpreter may be found.
    Trouble(
        r"\.data section|Failed to|Bad address|os error",
        "the Python stacks of {who} cannot be read",
        f"gputop keeps trying; {_REST}",
        patience=4,
        retry=0.1,
    ),
    Trouble(
        r"broken trace",
        "py-spy writes no readable stacks of {who}",
        f"pip install --force-reinstall py-spy; {_REST}",
        patience=1,
    ),
    Trouble(r"status (\S+)", "py-spy on {who} failed (status {0})", f"gputop keeps trying; {_REST}", patience=1),
)


def is_trouble(outcome: Outcome) -> bool:
    """Say whether py-spy ended in another way than by having sampled for as long as it was meant to.

    One that is told to end right after it attached may not yet have prepared for that: it dies of the SIGINT.
    """
    as_told = outcome.status == 0 or (outcome.interrupted and outcome.status == -signal.SIGINT)
    return not as_told or outcome.ready is None or "process exited" in outcome.said or _is_broken(outcome)


def _is_broken(outcome: Outcome) -> bool:
    """Say whether py-spy claims to have sampled without having written a whole trace, which is a JSON array."""
    return outcome.ready is not None and outcome.status == 0 and not outcome.trace.rstrip().endswith(b"]")


def recognise(outcome: Outcome, process: ProcessInfo) -> tuple[Trouble, str]:
    """Return the first trouble that fits, and the text that it was recognised by."""
    lines = [f"cut short: {outcome.cut_short}"] if outcome.cut_short else []
    if "interpreter" in outcome.said or "gil_thread_id" in outcome.said or "Failed to copy" in outcome.said:
        lines += ["free-threaded"] if _is_free_threaded(process.pid) else []
    lines += ["broken trace"] if _is_broken(outcome) else []
    text = "\n".join([*lines, outcome.said, f"status {outcome.status}"])
    return next(trouble for trouble in TROUBLES if re.search(trouble.pattern, text)), text


def _is_free_threaded(pid: int) -> bool:
    try:
        return _FREE_THREADED.search(Path(f"/proc/{pid}/maps").read_bytes()) is not None
    except OSError:
        return False
