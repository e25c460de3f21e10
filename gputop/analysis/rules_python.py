"""What a blocked thread waits for, told by its Python frames: one ordered table.

A wait in a queue or a pipe looks the same for a data loader, a pool's idle worker and a peer. The frames tell them
apart, provided that nothing but plumbing (locks, queues, selectors, connections) lies between them and the wait: a
worker of a pool that waits inside the user's own function is not an idle worker.
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass
from functools import lru_cache

from gputop.model import Frame, Stack

#: States that more knowledge may change; a thread at work is never made to wait.
_OPEN = frozenset({"lock", "io", "idle", "unknown", "child"})


@dataclass(frozen=True, slots=True)
class FrameRule:
    """A frame matches by the end of its file's path and the last dotted part of its name; a rule's name with a dot by
    the last two parts (Python 3.10 tells no class, and so matches none of those).

    `also` adds states that this rule may change beside the usual ones; `only` replaces them.
    """

    id: str
    state: str
    kind: str
    file: str
    names: frozenset[str]
    also: frozenset[str] = frozenset()
    only: frozenset[str] = frozenset()

    def applies(self, state: str) -> bool:
        """Tell whether a thread in `state` may be one of these."""
        return state in (self.only or _OPEN | self.also)


def _rule(
    id: str,  # noqa: A002 - the table's first column
    detail: str,
    file: str,
    names: str,
    also: str = "",
    only: str = "",
) -> FrameRule:
    state, _, kind = detail.partition(".")
    return FrameRule(id, state, kind, file, *(frozenset(text.split()) for text in (names, also, only)))


_COLLECTIVES = (
    "barrier monitored_barrier all_reduce all_reduce_coalesced all_gather all_gather_into_tensor all_gather_object "
    "broadcast broadcast_object_list reduce reduce_scatter reduce_scatter_tensor gather scatter all_to_all "
    "all_to_all_single send recv batch_isend_irecv scatter_object_list gather_object all_gather_coalesced"
)

#: What is more telling comes first; of several frames that match, the rule that stands first here decides.
FRAME_RULES: tuple[FrameRule, ...] = (
    _rule("torch-loader", "data.loader", "torch/utils/data/dataloader.py", "_get_data _try_get_data"),
    _rule("torch-loader-worker", "idle.worker", "torch/utils/data/_utils/worker.py", "_worker_loop"),
    _rule("torch-pin-thread", "idle.worker", "torch/utils/data/_utils/pin_memory.py", "do_one_step"),
    _rule("tf-data", "data.loader", "tensorflow/python/data/ops/iterator_ops.py", "_next_internal", also="gpu_wait"),
    _rule("grain", "data.loader", "grain/_src/python/data_loader.py", "__next__"),
    _rule("grain-dataset", "data.loader", "grain/_src/python/dataset/transformations/prefetch.py", "__next__"),
    _rule("torch-distributed", "comm.torch", "torch/distributed/distributed_c10d.py", _COLLECTIVES, also="gpu_wait"),
    _rule("torch-wait-tensor", "comm.torch", "torch/distributed/_functional_collectives.py", "wait_tensor wait"),
    _rule("vllm-engine", "gpu_wait.await", "vllm/v1/executor/multiproc_executor.py", "result get_response"),
    _rule(
        "vllm-worker",
        "idle.worker",
        "vllm/distributed/device_communicators/shm_broadcast.py",
        "acquire_read dequeue wait spin",
        also="python native",
    ),
    _rule("inductor-compile", "child.compile", "torch/_inductor/cpp_builder.py", "run_compile_cmd _run_compile_cmd"),
    _rule("triton-compile", "child.compile", "triton/backends/nvidia/compiler.py", "make_cubin", only="child io"),
    _rule("subprocess", "child.", "/subprocess.py", "wait _wait _try_wait communicate _communicate"),
    _rule("process-join", "child.", "multiprocessing/popen_fork.py", "wait poll"),
    # Helpers and workers of the standard library, waiting for something to do.
    _rule("thread-pool-worker", "idle.worker", "concurrent/futures/thread.py", "_worker"),
    _rule("process-pool-worker", "idle.worker", "concurrent/futures/process.py", "_process_worker"),
    _rule("process-pool-helper", "idle.helper", "concurrent/futures/process.py", "wait_result_broken_or_wakeup"),
    _rule("pool-worker", "idle.worker", "multiprocessing/pool.py", "worker"),
    _rule(
        "pool-helper",
        "idle.helper",
        "multiprocessing/pool.py",
        "_handle_tasks _handle_results _handle_workers _wait_for_updates",
    ),
    _rule("queue-feeder", "idle.helper", "multiprocessing/queues.py", "_feed"),
    # Event loops.
    _rule("asyncio", "idle.event_loop", "asyncio/base_events.py", "_run_once"),
    _rule("socketserver", "idle.event_loop", "/socketserver.py", "serve_forever"),
    _rule("zmq-poll", "idle.event_loop", "zmq/sugar/poll.py", "poll"),
    # What the wait is made of.
    _rule("future", "lock.future", "concurrent/futures/_base.py", "result exception wait as_completed"),
    _rule("queue", "lock.queue", "/queue.py", "get put join"),
    _rule("process-queue", "lock.queue", "multiprocessing/queues.py", "get"),
    _rule("connection", "io.pipe", "multiprocessing/connection.py", "_recv _poll poll wait _send"),
    _rule("selectors", "idle.event_loop", "/selectors.py", "select"),
    _rule("thread-join", "lock.join", "/threading.py", "join _wait_for_tstate_lock _shutdown"),
    _rule("event", "lock.event", "/threading.py", "Event.wait"),
    _rule("barrier", "lock.barrier", "/threading.py", "Barrier.wait"),
    _rule("semaphore-python", "lock.semaphore", "/threading.py", "Semaphore.acquire"),
    _rule("condition-python", "lock.condition", "/threading.py", "wait wait_for", only="lock unknown"),
)

#: Code that only passes a wait on.
_PLUMBING = re.compile(
    r"(^|/)(threading|queue|selectors|socket|ssl|socketserver|subprocess|signal|contextlib|functools)\.py$"
    r"|(^|/)(multiprocessing|asyncio|concurrent/futures|zmq|grain|torch/distributed|torch/utils/data|vllm/distributed)/"
    r"|(^|/)vllm/v1/executor/|torch/_ops\.py$|tensorflow/python/(ops/gen_\w+|data/ops/\w+|eager/\w+|util/\w+)\.py$"
)

_BY_NAME: dict[str, list[tuple[int, FrameRule]]] = defaultdict(list)
for _place, _entry in enumerate(FRAME_RULES):
    for _name in _entry.names:
        _BY_NAME[_name].append((_place, _entry))


def _hits(frame: Frame) -> list[tuple[int, FrameRule]]:
    *_, last = parts = frame.name.rsplit(".", 2)
    candidates = _BY_NAME.get(last, []) + _BY_NAME.get(".".join(parts[-2:]), []) * (len(parts) > 1)
    path = f"/{frame.file}"
    return [(place, rule) for place, rule in candidates if path.endswith(rule.file)]


#: Code that the user did not write: installed packages, the standard library, what is built into Python; of native
#: code, what is not the program itself.
_LIBRARY = re.compile(
    r"/(site|dist)-packages/|/lib(64)?/python3(\.\d+)?/|^<frozen |^(lib|ld-)[^/]*\.so(\.|$)|^[^/]*\.so$|^\[vdso\]$"
)


@lru_cache(maxsize=4096)
def is_library(file: str) -> bool:
    """Tell whether the code in a file is not the user's own."""
    return _LIBRARY.search(file) is not None


def caller(stack: Stack) -> Frame | None:
    """Return the innermost frame that is the user's own code; without one, the innermost that does not merely pass a
    wait on; None without that either."""
    own = next((frame for frame in reversed(stack) if not is_library(frame.file)), None)
    return own or next((frame for frame in reversed(stack) if not is_plumbing(frame.file)), None)


@lru_cache(maxsize=4096)
def is_plumbing(file: str) -> bool:
    """Tell whether the code in a file only passes a wait on, so that it is not worth naming."""
    return _PLUMBING.search(file) is not None


def find(state: str, stack: Stack) -> FrameRule | None:
    """Return the most telling rule for a thread in `state` with this Python stack (root first), or None."""
    best: tuple[int, FrameRule] | None = None
    for frame in reversed(stack):
        hits = [(place, rule) for place, rule in _hits(frame) if rule.applies(state)]
        best = min([*hits, *([best] if best else [])], key=lambda hit: hit[0], default=None)
        if not hits and not is_plumbing(frame.file):
            break
    return best[1] if best else None
