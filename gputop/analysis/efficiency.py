"""How well a GPU is used while it is busy: utilisation alone only tells that some kernel ran.

Counters are divided by the share of the time the GPU was busy, so that a GPU that is fed in bursts is judged by its
bursts; why it waits between them is for the verdict on the program. Thresholds, each a share of the busy time:

- `EFFECTIVE_SM`: below a half the GPU is likely used ineffectively; 0.8 is necessary but not sufficient for effective
  use (NVIDIA's DCGM user guide, "SM Activity" in the profiling metrics).
- `BUSY_DRAM`: about 0.8 of the peak is what can be reached in practice (the same guide, "Memory BW Utilization"), of
  which three quarters are taken for memory-bound.
- `BUSY_TENSOR`, `BUSY_FP32`: a pipe that works half of the time is what the kernels wait for; for tensor cores a matrix
  product in bf16 on an H200 was measured at 0.78.
- `THROTTLED`: clocks held down for more than a tenth of the time change run times that one would notice.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from gputop.model import NA, GpuReading, Value, known

BUSY, THROTTLED = 0.05, 0.10
EFFECTIVE_SM, BUSY_DRAM, BUSY_TENSOR, BUSY_FP32 = 0.5, 0.6, 0.5, 0.5

#: The reason for clocks that are held down while all is well: kernels that work hard draw all the power there is.
_POWER = "power cap"

#: Below this a pipe counts as not used at all.
UNUSED = 0.01


@dataclass(frozen=True, slots=True)
class Efficiency:
    """What limits a GPU, in words.

    Attributes:
        id: "idle", "power-limited", "throttled", "memory-bound", "compute-bound", "ineffective", "mixed" or "unknown".
        title: a few words for the screen.
        evidence: the numbers that say so, one sentence.
        number: the one that says most, a few words ("SM active 9 %"); empty where there is none.
    """

    id: str
    title: str
    evidence: str
    number: str = ""


@dataclass(frozen=True, slots=True)
class Use:
    """The counters of a reading, as shares of the time it was busy (`busy` and `throttled`: of all the time)."""

    busy: float
    throttled: float | None
    reasons: tuple[str, ...]
    sm: float | None
    tensor: float | None
    fp32: float | None
    dram: float | None


@dataclass(frozen=True, slots=True)
class Rule:
    """One judgement; the first that applies is made."""

    id: str
    title: str
    applies: Callable[[Use], bool]
    evidence: Callable[[Use], str]
    number: Callable[[Use], str]


def _percent(share: float | None) -> str:
    return "n/a" if share is None else f"{100 * share:.0f} %"


def _ineffective(use: Use) -> str:
    unused = "" if use.tensor is None or use.tensor >= UNUSED else ", and its tensor cores are not used"
    return f"busy {_percent(use.busy)} of the time, then with work for {_percent(use.sm)} of its SMs{unused}"


def _pipes(use: Use) -> str:
    pipes = {"tensor cores": use.tensor, "FP32": use.fp32, "SMs": use.sm, "DRAM": use.dram}
    known_ones = ", ".join(f"{name} {_percent(share)}" for name, share in pipes.items() if share is not None)
    return f"busy {_percent(use.busy)} of the time, then {known_ones}"


def _dram(use: Use) -> str:
    share = f"{_percent(use.dram)} of the peak memory bandwidth (about 80 % can be reached)"
    return f"busy {_percent(use.busy)} of the time, then {share}"


def _held_down(use: Use) -> str:
    return f"clocks held down {_percent(use.throttled)} of the time: {', '.join(use.reasons)}; {_pipes(use)}"


def _sm(use: Use) -> str:
    return f"SM active {_percent(use.sm)} while busy"


def _pipe(use: Use) -> str:
    tensor, fp32 = use.tensor or 0.0, use.fp32 or 0.0
    return f"tensor cores {_percent(tensor)} while busy" if tensor >= fp32 else f"FP32 {_percent(fp32)} while busy"


RULES: tuple[Rule, ...] = (
    Rule(
        "idle",
        "idle",
        lambda use: use.busy < BUSY,
        lambda use: f"busy {_percent(use.busy)} of the time",
        lambda use: f"busy {_percent(use.busy)} of the time",
    ),
    Rule(
        "power-limited",
        "at its power limit",
        lambda use: (use.throttled or 0) >= THROTTLED and "".join(use.reasons[:1]).startswith(_POWER),
        _held_down,
        lambda use: f"clocks held down {_percent(use.throttled)} of the time",
    ),
    Rule(
        "throttled",
        "held down",
        lambda use: (use.throttled or 0) >= THROTTLED,
        _held_down,
        lambda use: use.reasons[0] if use.reasons else f"{_percent(use.throttled)} of the time",
    ),
    Rule(
        "memory-bound",
        "memory-bound",
        lambda use: (use.dram or 0) >= BUSY_DRAM and (use.dram or 0) >= (use.tensor or 0),
        _dram,
        lambda use: f"DRAM {_percent(use.dram)} of its peak while busy",
    ),
    Rule(
        "compute-bound",
        "compute-bound",
        lambda use: (use.tensor or 0) >= BUSY_TENSOR or (use.fp32 or 0) >= BUSY_FP32,
        _pipes,
        _pipe,
    ),
    Rule(
        "ineffective",
        "busy but ineffective",
        lambda use: use.sm is not None and use.sm < EFFECTIVE_SM,
        _ineffective,
        _sm,
    ),
    Rule("mixed", "no single limit", lambda use: use.sm is not None, _pipes, _sm),
)


def assess(gpu: GpuReading) -> Efficiency:
    """Say what limits a GPU, or why that cannot be said."""
    busy = gpu.metric("gpm.graphics") if not isinstance(gpu.metric("gpm.graphics"), NA) else gpu.metric("utilization")
    if gpu.error or isinstance(busy, NA):
        return Efficiency("unknown", "not known", gpu.error or _reason(busy))
    use = _use(gpu, busy)
    for rule in RULES:
        if rule.applies(use):
            return Efficiency(rule.id, rule.title, rule.evidence(use), rule.number(use))
    return Efficiency(
        "unknown", "not known", f"busy {_percent(busy)}; SM activity: {_reason(gpu.metric('gpm.sm_active'))}"
    )


def _reason(value: Value) -> str:
    return value.reason if isinstance(value, NA) else ""


def _use(gpu: GpuReading, busy: float) -> Use:
    """Relate the counters to the busy time."""

    def while_busy(name: str) -> float | None:
        share = known(gpu.metric(name))
        return share if share is None or busy < BUSY else min(1.0, share / busy)

    return Use(
        busy=busy,
        throttled=known(gpu.metric("throttled")),
        reasons=_held_by(gpu),
        sm=while_busy("gpm.sm_active"),
        tensor=while_busy("gpm.tensor"),
        fp32=while_busy("gpm.fp32"),
        dram=while_busy("gpm.dram"),
    )


def _held_by(gpu: GpuReading) -> tuple[str, ...]:
    """Return the reasons that held the clocks down, longest first, with their share of the time."""
    prefix = "throttle."
    shares = {name: known(value) or 0.0 for name, value in gpu.metrics.items() if name.startswith(prefix)}
    longest = sorted((name for name in shares if shares[name] > 0), key=lambda name: -shares[name])
    return tuple(f"{name.removeprefix(prefix).replace('_', ' ')} {_percent(shares[name])}" for name in longest)
