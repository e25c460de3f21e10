"""What a look at a thread means: one ordered table, the first rule that matches decides.

To add a rule: put it before the more general ones, add the frames it needs to `rules_frames`, and a recorded
example to `tests/data/rules`; a test fails when a rule has none or when another rule takes its example first.
"""

from __future__ import annotations

from dataclasses import dataclass, field


def words(text: str) -> frozenset[str]:
    """Split a table cell."""
    return frozenset(text.split())


_NONE: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule matches when everything that it names holds; a set asks for one of its members.

    Attributes:
        id: unique, the name of its example.
        state, kind: what the thread is doing, when it matches.
        running: on a CPU, or blocked; None for both.
        stopped: the kernel's letter for it.
        unreadable: nothing could be read.
        syscalls, waits_on: of a blocked thread.
        call: the nearest entry point into CUDA (a group of `rules_frames.CUDA_CALLS`).
        leaf: tags of the frame that the program counter is in.
        home: tags of the first frame outside the C library: whose code is running.
        near: tags of the frames up to the Python function that called them (all, without Python).
        under: tags anywhere in the chain.
        only: every frame outside the C library has this tag.
    """

    id: str
    state: str
    kind: str = ""
    running: bool | None = None
    stopped: str = ""
    unreadable: bool | None = None
    syscalls: frozenset[str] = field(default=_NONE)
    waits_on: frozenset[str] = field(default=_NONE)
    call: frozenset[str] = field(default=_NONE)
    leaf: frozenset[str] = field(default=_NONE)
    home: frozenset[str] = field(default=_NONE)
    near: frozenset[str] = field(default=_NONE)
    under: frozenset[str] = field(default=_NONE)
    only: str = ""


FUTEX = words("futex futex_waitv futex_wait")
#: What a wait is called once the thread was stopped and continued: frames tell which wait it is.
RESTART = words("restart_syscall")
POLL = words("poll ppoll select pselect6")
EPOLL = words("epoll_wait epoll_pwait epoll_pwait2")
SLEEP = words("nanosleep clock_nanosleep")
SIGNAL = words("pause rt_sigtimedwait rt_sigsuspend")
SPAWN = words("vfork clone clone3")
READ_WRITE = words(
    "read readv write writev splice sendfile ioctl io_uring_enter io_getevents io_pgetevents msgsnd msgrcv "
    "mq_timedsend mq_timedreceive"
)
FILE_LOCK = words("flock fcntl semop semtimedop")

_ENQUEUE = words("launch graph copy_async other")
_WAITING = words("sync event copy_to_host copy_to_device copy")
_ANY_CALL = _ENQUEUE | _WAITING | words("alloc free module_load init query")
_MEMORY = words("alloc free")
_PATIENCE = words("yield clock")

RULES: tuple[Rule, ...] = (
    # Nothing to see.
    Rule("dead", "unknown", "dead", stopped="Z"),
    Rule("stopped", "unknown", "stopped", stopped="T"),
    Rule("unreadable-disk", "io", "disk", stopped="D", unreadable=True),
    Rule("unreadable-running", "unknown", "on_cpu", running=True, unreadable=True),
    Rule("unreadable-blocked", "unknown", "blocked", running=False, unreadable=True),
    # Python's global lock: the futex's address says it, with no stack needed.
    Rule("gil-futex", "gil", waits_on=words("gil")),
    Rule("gil-call", "gil", syscalls=FUTEX, near=words("gil")),
    # On a CPU it takes or gives the lock, and so does not wait for it; in eager torch that is each operation.
    Rule("gil-running", "python", "gil", running=True, near=words("gil")),
    # A stripped interpreter: it waits on a condition for nothing but the lock (its other locks are semaphores).
    Rule("gil-condition", "gil", home=words("python"), near=words("condition")),
    # Collectives wait for their peers, by way of the GPU or not.
    Rule("nccl-sync", "comm", "nccl", call=_WAITING, near=words("nccl_call nccl_wait")),
    # The GPU.
    Rule("gpu-sync", "gpu_wait", "sync", call=words("sync")),
    Rule("gpu-event", "gpu_wait", "event", call=words("event")),
    Rule("gpu-copy-to-host", "gpu_wait", "copy_to_host", call=words("copy_to_host")),
    Rule("gpu-copy-to-device", "gpu_wait", "copy_to_device", call=words("copy_to_device")),
    Rule("gpu-copy", "gpu_wait", "copy", call=words("copy")),
    # Unloading code first waits for what was launched to be done.
    Rule("gpu-unload", "gpu_wait", "unload", call=words("unload")),
    Rule("gpu-queue-full", "gpu_wait", "queue_full", running=True, call=_ENQUEUE, leaf=words("yield")),
    Rule("gpu-queue-full-blocked", "gpu_wait", "queue_full", running=False, call=_ENQUEUE, syscalls=POLL | {"ioctl"}),
    Rule("gpu-alloc-wait", "gpu_wait", "alloc", running=True, call=_MEMORY, leaf=_PATIENCE),
    Rule("gpu-alloc-blocked", "gpu_wait", "alloc", running=False, call=_MEMORY, syscalls=POLL | {"ioctl"}),
    Rule("gpu-launch", "gpu_api", "launch", running=True, call=words("launch")),
    Rule("gpu-graph", "gpu_api", "graph", running=True, call=words("graph")),
    Rule("gpu-alloc", "gpu_api", "alloc", running=True, call=_MEMORY),
    Rule("gpu-copy-async", "gpu_api", "copy_async", running=True, call=words("copy_async")),
    Rule("gpu-query", "gpu_api", "query", running=True, call=words("query")),
    Rule("gpu-module-load", "gpu_api", "module_load", running=True, call=words("module_load")),
    Rule("gpu-init", "gpu_api", "init", running=True, call=words("init")),
    Rule("gpu-other", "gpu_api", "other", running=True, call=words("other")),
    Rule("gpu-lock", "lock", "cuda", running=False, call=_ANY_CALL, syscalls=FUTEX),
    Rule("gpu-driver-thread", "idle", "driver", running=False, only="cuda"),
    Rule("gpu-device", "gpu_wait", "sync", running=False, waits_on=words("nvidia")),
    Rule("gpu-internal", "gpu_api", "other", running=True, only="cuda"),
    Rule("gpu-compile-driver", "native", "compile", running=True, home=words("cuda"), near=words("gpu_compiler")),
    # A call into CUDA has a name, once the names have been read: without it (or its frame) it may wait or not.
    Rule("gpu-nameless", "unknown", "nameless", running=True, home=words("cuda")),
    # Collectives, and the threads that serve them.
    Rule("comm-helper", "idle", "helper", running=False, near=words("comm_helper")),
    Rule("nccl", "comm", "nccl", near=words("nccl_call")),
    Rule("nccl-helper", "idle", "helper", running=False, only="nccl"),
    Rule("gloo", "comm", "gloo", running=False, near=words("gloo_call")),
    Rule("mpi", "comm", "mpi", near=words("mpi_call")),
    # Pools of workers with nothing to do, and what waits for them.
    Rule("autograd-call", "lock", "autograd", running=False, syscalls=FUTEX, near=words("autograd_call")),
    Rule("autograd-worker", "idle", "pool", running=False, near=words("autograd_worker")),
    # On a CPU there, it is about to sleep or has just been woken.
    Rule("autograd-turn", "idle", "pool", running=True, near=words("autograd_pop")),
    Rule("pool-parked", "idle", "pool", running=False, syscalls=FUTEX, only="pool"),
    Rule("xla-pool", "idle", "pool", running=False, syscalls=FUTEX, only="xla"),
    Rule("pool-join", "lock", "pool", running=False, syscalls=FUTEX, home=words("pool")),
    Rule("xla-await", "gpu_wait", "await", running=False, syscalls=FUTEX, home=words("xla"), under=words("python")),
    # On a CPU there, it is about to sleep or has just been woken.
    Rule("xla-turn", "gpu_wait", "await", running=True, near=words("xla_wait"), under=words("python")),
    # Children, sleep, signals.
    Rule("child-spawn", "child", "spawn", syscalls=SPAWN),
    Rule("child", "child", waits_on=words("process")),
    Rule("sleep", "idle", "sleep", syscalls=SLEEP),
    Rule("sleep-python", "idle", "sleep", running=False, near=words("python_sleep")),
    Rule("sleep-restarted", "idle", "sleep", syscalls=RESTART, leaf=words("sleep_call")),
    Rule("sleep-timer", "idle", "sleep", waits_on=words("timer")),
    Rule("signal", "idle", "signal", syscalls=SIGNAL),
    # Locks: what kind is told by the nearest function that takes one.
    Rule("join", "lock", "join", syscalls=FUTEX | RESTART, near=words("join")),
    Rule("simple-queue", "lock", "queue", syscalls=FUTEX | RESTART, near=words("simple_queue")),
    Rule("lock-python", "lock", "python", syscalls=FUTEX | RESTART, near=words("python_lock")),
    Rule("semaphore", "lock", "semaphore", syscalls=FUTEX | RESTART, near=words("semaphore")),
    Rule("condition", "lock", "condition", syscalls=FUTEX | RESTART, near=words("condition")),
    Rule("mutex", "lock", "mutex", syscalls=FUTEX | RESTART, near=words("mutex")),
    Rule("futex", "lock", syscalls=FUTEX),
    # Threads that map memory or touch it for the first time wait for each other, and for tools that read it.
    Rule("memory-map", "lock", "memory_map", running=False, waits_on=words("memory")),
    Rule("lock-file", "lock", "file", syscalls=FILE_LOCK),
    # Event loops and message queues.
    Rule("zmq-thread", "idle", "event_loop", running=False, only="zmq"),
    Rule("zmq", "io", "socket", running=False, syscalls=POLL, near=words("zmq")),
    Rule("event-loop", "idle", "event_loop", syscalls=EPOLL),
    Rule("event-loop-native", "idle", "event_loop", syscalls=POLL, near=words("event_loop")),
    Rule("eventfd", "lock", "eventfd", waits_on=words("eventfd")),
    # Input and output.
    Rule("pipe", "io", "pipe", running=False, waits_on=words("pipe")),
    Rule("socket", "io", "socket", running=False, waits_on=words("socket")),
    Rule("tty", "io", "tty", running=False, waits_on=words("tty")),
    Rule("file", "io", "disk", running=False, waits_on=words("file")),
    Rule("disk-wait", "io", "disk", stopped="D"),
    Rule("poll", "io", "poll", syscalls=POLL),
    Rule("poll-restarted", "io", "poll", syscalls=RESTART, leaf=words("poll_call")),
    Rule("io-other", "io", "other", syscalls=READ_WRITE),
    # On a CPU.
    Rule("pool-spin", "native", "pool_spin", running=True, home=words("pool_loop")),
    Rule("kernel", "native", "kernel", running=True, leaf=words("kernel_call")),
    Rule("triton-launch", "native", "dispatch", running=True, near=words("triton_launch")),
    Rule("gpu-compile", "native", "compile", running=True, home=words("gpu_compiler")),
    Rule("gpu-dispatch", "native", "dispatch", running=True, near=words("gpu_framework")),
    Rule("dispatch", "native", "dispatch", running=True, home=words("dispatcher")),
    Rule("gc", "python", "gc", running=True, home=words("python"), near=words("gc")),
    Rule("python", "python", running=True, home=words("python")),
    Rule("jit", "native", "jit", running=True, home=words("jit")),
    Rule("native", "native", running=True),
    Rule("blocked", "unknown", "blocked"),
)
