"""Switching Kineto's polling on in a running process. Only after the user said yes.

Everything here runs as the target's user, never as root for another user's process.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from gputop.errors import SnapshotError, ptrace_remedy
from gputop.snapshot.flight import HandsOff, Wait
from gputop.snapshot.kineto import exports
from gputop.snapshot.kineto.detect import Torch, owner
from gputop.snapshot.kineto.directory import Shared
from gputop.snapshot.kineto.route import GDB, INTERPRETER
from gputop.text import printable

#: Ways that this file goes.
WAYS = (INTERPRETER, GDB)

_PAYLOAD = Path(__file__).with_name("payload.py")

#: Longest that the main thread may take to reach its next bytecode, or any thread to allocate memory, seconds.
PATIENCE_S = 10.0

_USED = SnapshotError(
    "this program has used torch.profiler before, and torch cannot be asked from outside any more",
    "take a sampled trace; for torch's own trace start it with: gputop -- COMMAND",
)


def with_interpreter(pid: int, shared: Shared, variables: Mapping[str, str], wait: Wait) -> None:
    """Have the target's interpreter (3.14 or newer) run our script: PEP 768.

    `wait` waits until a monotonic time and returns False to give up.

    Raises:
        SnapshotError: it was refused, the main thread did not come round to it, or Kineto is in use already.
    """
    script = _write_script(pid, shared, variables)
    interpreter = os.readlink(f"/proc/{pid}/exe")
    done = _run_as_owner(pid, [interpreter, "-I", "-S", "-c", _REMOTE_EXEC, str(pid), script])
    if done.returncode != 0:
        raise _refused(done.stderr)
    _await_script(pid, shared, wait)


def _write_script(pid: int, shared: Shared, variables: Mapping[str, str]) -> str:
    """Write what the target is to run, and return its path there. The ranks of a job share the directory."""
    text = _PAYLOAD.read_text(encoding="utf-8")
    call = f"\n_gputop_enable({f'{shared.inside}/{_status(pid)}'!r}, {dict(variables)!r})\ndel _gputop_enable\n"
    return shared.write(f"enable-{pid}.py", text + call)


def _status(pid: int) -> str:
    return f"status-{pid}"


def _await_script(pid: int, shared: Shared, wait: Wait) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not shared.exists(_status(pid)):
        if time.monotonic() > deadline or not wait(time.monotonic() + 0.05):
            raise SnapshotError(
                "the program's main thread is inside native code and did not run the script in time", "try again later"
            )
    with os.fdopen(shared.open(_status(pid)), encoding="utf-8") as status:
        _judge(status.read(200))


_REMOTE_EXEC = "import sys; sys.remote_exec(int(sys.argv[1]), sys.argv[2])"


def _run_as_owner(pid: int, command: Sequence[str]) -> subprocess.CompletedProcess[str]:
    """Run a helper as the target's user, in an environment without anything of ours."""
    uid, gid = owner(pid)
    other = os.geteuid() == 0 and uid != 0
    try:
        return subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=3 * PATIENCE_S,
            cwd="/",
            env={"PATH": os.defpath, "LANG": "C.UTF-8", "HOME": "/nonexistent"},
            start_new_session=True,
            user=uid if other else None,
            group=gid if other else None,
            extra_groups=[] if other else None,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise SnapshotError(f"torch tracing could not be switched on: {error}") from error


def _refused(printed: str) -> SnapshotError:
    lines = [line for line in printed.strip().splitlines() if "warning" not in line]
    why = printable(lines[-1] if lines else "no reason given", 200)
    return SnapshotError(f"torch tracing could not be switched on: {why}", _restart(why) or ptrace_remedy())


def _restart(why: str) -> str:
    """Return the remedy for a program that was started so that no code from outside runs in it (PEP 768)."""
    return "for torch's own trace start it with: gputop -- COMMAND" if "debugging is not enabled" in why else ""


def _judge(outcome: str) -> None:
    if outcome == "used":
        raise _USED
    if outcome != "on":
        raise SnapshotError(f"torch tracing could not be switched on: {outcome[:200]}", "take a sampled trace")


def with_gdb(
    pid: int, torch: Torch, shared: Shared, variables: Mapping[str, str], wait: Wait, hands_off: HandsOff
) -> None:
    """Have gdb ask the target's interpreter to run our script at its next bytecode (`Py_AddPendingCall`).

    gdb only puts the request in, at a moment when some thread is about to allocate memory and so holds no lock of
    malloc. Nothing of torch or CUDA is called there: that thread may be deep inside the driver.
    gdb loads no symbols (that would take seconds): all addresses are ours.

    `hands_off` keeps our own tracers away meanwhile.

    Raises:
        SnapshotError: gdb may not attach, no thread allocated memory in time, or Kineto is in use already.
    """
    libc = torch.libc and exports.addresses(pid, torch.libc, (_MALLOC,))
    python = torch.python and exports.addresses(pid, torch.python, (_PENDING, _RUN))
    gdb, watchdog = shutil.which("gdb"), shutil.which("timeout")
    if not libc or not python or gdb is None or watchdog is None:
        raise SnapshotError("torch tracing could not be switched on: its entry points were not found", "update Python")
    wish = _WISH.format(script=_write_script(pid, shared, variables))
    commands = shared.write(f"enable-{pid}.gdb", "\n".join(_gdb_script(libc | python, wish)))
    settings = [word for setting in _GDB_SETTINGS for word in ("-iex", f"set {setting}")]
    # A watchdog of its own, not ours: were gdb killed, its breakpoint would stay in the target and end it. An
    # interrupted gdb takes it out and detaches; it does not pass the signal on.
    limit = [watchdog, "--signal=INT", f"{PATIENCE_S:g}s"]
    command = [*limit, gdb, "-nx", "-batch", "-readnever", *settings, "-p", str(pid), "-x", commands]
    with hands_off():
        done = _run_as_owner(pid, command)
    outcome = re.search(r"^gputop: (\w+)$", done.stdout, re.MULTILINE)
    if outcome is None and "extended state" in done.stderr:
        raise SnapshotError("this gdb cannot write all registers of this machine's processor", "install a newer gdb")
    if outcome is None and done.returncode != _TIMED_OUT:
        raise _refused(done.stderr)
    if outcome is None or outcome[1] == "missed":
        raise SnapshotError("the program did nothing during which tracing could be switched on", "try again later")
    _await_script(pid, shared, wait)


#: Exit code of timeout(1) when the time was over.
_TIMED_OUT = 124

_MALLOC, _PENDING, _RUN = "malloc", "Py_AddPendingCall", "PyRun_SimpleString"

#: What the interpreter runs. No exception may come out of it: a pending call that fails is an error of the program's.
#: A Ctrl-C of just then is handed back.
_WISH = """try:
    exec(open({script!r}).read(), {{}})
except KeyboardInterrupt:
    __import__("_thread").interrupt_main()
except BaseException:
    pass
"""

_GDB_SETTINGS = (
    "auto-solib-add off",
    "debuginfod enabled off",
    "auto-load off",
    "language c",
    "pagination off",
    "confirm off",
    "unwindonsignal on",
)


def _gdb_script(at: Mapping[str, int], wish: str) -> Iterator[str]:
    """Yield gdb's commands. Any other stop than the one at malloc (a signal, our time limit) changes nothing.

    The text stays allocated in the target: it is read after gdb has left.
    """
    data = (*wish.encode(), 0)
    yield "handle all nostop noprint pass"
    yield f"tbreak *{at[_MALLOC]:#x}"
    yield "continue"
    yield f"if (unsigned long) $pc != {at[_MALLOC]:#x}"
    yield r"echo gputop: missed\n"
    yield "else"
    # Where a gdb cannot write all registers (older ones on newer processors, some containers), it could not put them
    # back after a call, and the program would go on with wrong ones. Here it fails first, with nothing changed.
    yield "if $_isvoid($ymm0) == 0"
    yield "set $ymm0 = $ymm0"
    yield "end"
    yield f"set $text = ((unsigned long (*)(unsigned long)) {at[_MALLOC]:#x})({len(data)})"
    # As an argument a string would need malloc's symbol.
    yield f"set {{char [{len(data)}]}} $text = {{{', '.join(map(str, data))}}}"
    yield f"if ((int (*)(unsigned long, unsigned long)) {at[_PENDING]:#x})({at[_RUN]:#x}, $text) == 0"
    yield r"echo gputop: asked\n"
    yield "else"
    yield r"echo gputop: missed\n"
    yield "end"
    yield "end"
    yield "detach"
    yield ""
