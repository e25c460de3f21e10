"""The states a thread can be in; exclusive, so that a thread's shares sum to one (DESIGN: thread state analysis)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class State:
    """One state: its stable id, a short label for the screen, the group it counts in, a glyph that carries the
    meaning without colour, an ASCII letter for terminals without glyphs, and what it means."""

    id: str
    label: str
    group: str
    glyph: str
    letter: str
    meaning: str


COMPUTE, GPU_WAIT, OTHER_WAIT, IDLE = "compute", "gpu_wait", "other_wait", "idle"

#: In the order in which they are stacked in a bar, bottom first.
STATES: tuple[State, ...] = (
    State("python", "python", COMPUTE, "█", "P", "on a CPU in the Python interpreter"),
    State("native", "native", COMPUTE, "▓", "N", "on a CPU in native code"),
    State(
        "gpu_api",
        "gpu api",
        COMPUTE,
        "▒",
        "A",
        "on a CPU inside a GPU call that does not wait (launch, allocation)",
    ),
    State("gpu_wait", "gpu wait", GPU_WAIT, "G", "G", "waiting for the GPU, blocked or spinning"),
    State("comm", "comm", OTHER_WAIT, "C", "C", "waiting in a collective (NCCL, Gloo, MPI)"),
    State("data", "data", OTHER_WAIT, "D", "D", "waiting for the data loader"),
    State("gil", "gil", OTHER_WAIT, "L", "L", "waiting for Python's global interpreter lock"),
    State("lock", "lock", OTHER_WAIT, "W", "W", "waiting for another thread: a lock, an event, a queue, its end"),
    State("io", "io", OTHER_WAIT, "I", "I", "waiting for a disk, a socket or a pipe"),
    State("child", "child", OTHER_WAIT, "c", "c", "waiting for a child process"),
    State("starved", "starved", OTHER_WAIT, "R", "R", "ready to run, but no CPU was free"),
    State("unknown", "unknown", OTHER_WAIT, "?", "?", "could not be read"),
    State("idle", "idle", IDLE, "·", ".", "sleeping, or an event loop with nothing to do"),
)

BY_ID = {state.id: state for state in STATES}


#: Kinds of waiting in which others work for a thread, and what it does where no look was possible but it was on a CPU.
WORKED_FOR = ("lock.pool", "lock.autograd", "unknown.on_cpu")


def groups(states: dict[str, float]) -> dict[str, float]:
    """Sum states (shares or seconds) into the four groups."""
    sums = dict.fromkeys((COMPUTE, GPU_WAIT, OTHER_WAIT, IDLE), 0.0)
    for name, amount in states.items():
        sums[BY_ID[name].group] += amount
    return sums
