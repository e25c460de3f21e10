"""What a native frame is evidence of: one table from module and symbol to tags.

A tag says what a function belongs to ("python", "nccl", "cuda:sync"), `rules_table` says what a chain of tagged
frames means. Names are those that the projects export; where each was seen: `tests/data/rules`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

from gputop.model import NativeFrame


@dataclass(frozen=True, slots=True)
class FrameRule:
    """A frame gets `tag` when its module and its symbol match (regular expressions from the start)."""

    tag: str
    module: str = ""
    symbol: str = ""


_CUDA = r"libcuda(rt)?[.-]"
_XLA = r"(libjax|xla_extension|xla_c_extension|xla_cuda|pjrt_c_api|libpjrt|libtensorflow|_pywrap_tensorflow)"

#: Entry points of the CUDA driver (cuXxx) and runtime (cudaXxx), first match wins: prefixes, because versions and
#: per-thread streams only add suffixes (_v2, _ptsz). CUDA driver and runtime API references, 13.0.
CUDA_CALLS: tuple[tuple[str, str], ...] = (
    ("sync", r"cu(da)?(Stream|Ctx|Device|Thread)Synchronize"),
    ("event", r"cu(da)?EventSynchronize"),
    ("copy_to_host", r"cuMemcpy(DtoH|AtoH)|cudaMemcpy(2D)?From(Symbol|Array)"),
    ("copy_to_device", r"cuMemcpy(HtoD|HtoA)|cudaMemcpy(2D)?To(Symbol|Array)"),
    ("copy_async", r"cu(da)?Memcpy\w*(DtoD|AtoA|Peer|Batch)\w*Async|cu(da)?MemPrefetch"),
    ("copy", r"cu(da)?Memcpy"),
    ("graph", r"cu(da)?(Graph|Stream(Begin|End)Capture)"),
    ("launch", r"cu(da)?(Launch|Memset)"),
    ("free", r"cu(da)?(Mem)?Free(Host|Array)?(?!Async|Host|Array)|cuMemHostUnregister|cudaHostUnregister"),
    ("alloc", r"cu(da)?(Mem(Alloc|Free|Host|Create|Map|Unmap|Release|Address|SetAccess|Pool)|Malloc|Free|Host|Array)"),
    ("module_load", r"cu(Module|Library|Link|Kernel|Func)|cuda(Func|Library)"),
    ("init", r"cuInit|cuCtx(Create|Destroy)|cuDevicePrimaryCtx|cuda(Set|Init)Device|cudaDeviceReset"),
    ("query", r"cu(da)?(Event|Stream)Query|cu\w*Get|cudaPeek|cu(da)?StreamIsCapturing|cu(da)?Occupancy"),
    ("other", r"cu(da)?[A-Z]"),
)

#: All rules that match give their tag.
FRAME_RULES: tuple[FrameRule, ...] = (
    # The C library, the loader, C++'s runtime and preloaded allocators work for whoever calls them.
    FrameRule(
        "system",
        r"(libc[.-]|ld-|ld64|\[v|linux-vdso|libpthread|libdl[.-]|librt[.-]|libstdc\+\+|libgcc_s"
        r"|libjemalloc|libtcmalloc|libmimalloc)",
    ),
    FrameRule("python", r"(lib)?python[0-9.]*[a-z]*([.-]|$)"),
    FrameRule("eval", r"(lib)?python", r"(_PyEval_EvalFrame|_TAIL_CALL_)"),
    FrameRule("jit", r"$"),
    FrameRule("yield", "", r"_*sched_yield\b"),
    FrameRule("clock", "", r"_*(vdso_)?clock_gettime\b"),
    FrameRule("clock", r"(\[vdso\]|linux-vdso)"),
    # What spends its time in the kernel on the CPU, seen as a wrapper's frame: copying, mapping, looking up.
    FrameRule(
        "kernel_call",
        r"(libc|libpthread|ld-)",
        r"(__|__libc_)?(p?(read|write)v?(64)?|m(map|unmap|advise|protect|remap)(64)?|openat?(64)?|f?statx?(64)?|fstatat(64)?"
        r"|getdents(64)?|lseek(64)?|ioctl|fsync|fdatasync|recv\w*|send\w*|clone3?|fork|vfork|execve|futex|syscall)(@|$)",
    ),
    # CUDA: the driver, the runtime, and what the driver calls (compiler, Jetson's resource manager, tracing).
    FrameRule("cuda", rf"({_CUDA}|libnvrm_|libnvidia-(ptxjitcompiler|nvvm|gpucomp)|libcupti)"),
    FrameRule("nccl", r"(libnccl|librccl)"),
    FrameRule("nccl_call", r"(libnccl|librccl)", r"p?nccl[A-Z]"),
    FrameRule("nccl_call", "", r"_ZN4c10d5?.*(WorkNCCL|ProcessGroupNCCL).*(4wait|11synchronize|7barrier)"),
    FrameRule(
        "gloo_call", "", r"_ZN4gloo\w*(9allreduce|9allgather|7barrier|9broadcast|6reduce|8alltoall|7scatter|6gather)"
    ),
    FrameRule("gloo_call", "", r"_ZN4gloo9transport\w*(8waitSend|8waitRecv|13UnboundBuffer)"),
    FrameRule("gloo_call", "", r"_ZNK?4c10d(4Work4wait|\w*GlooStore|16ProcessGroupGloo\w*(4wait|7barrier))"),
    FrameRule("mpi_call", "", r"P?MPI_[A-Z][a-z]"),
    FrameRule("mpi", r"(libmpi|libopen-pal|libucp|libuct|libmpich)"),
    FrameRule("comm_helper", "", r"_ZN4gloo9transport\w*4Loop3run|_ZN4c10d16ProcessGroupGloo7runLoop"),
    FrameRule(
        "comm_helper", "", r"_ZN4c10d\w*(Watchdog|HeartbeatMonitor|ncclCommWatchdog|heartbeatMonitor|BackgroundThread)"
    ),
    FrameRule("comm_helper", "", r"_ZN4c10d\w*(TCPStoreMasterDaemon|LibUVStoreDaemon)"),
    # Python's own waits.
    FrameRule("gil", "", r"(take_gil|drop_gil|PyEval_(Restore|Acquire)Thread|PyGILState_Ensure|_PyThreadState_Attach)"),
    FrameRule(
        "python_lock", r"(lib)?python", r"(PyThread_acquire_lock|_PyMutex_Lock|_PySemaphore_Wait|_PyParkingLot_Park)"
    ),
    FrameRule(
        "python_lock", "", r"(lock_PyThread_acquire|lock_acquire|rlock_acquire|simplequeue_get|_queue_SimpleQueue_get)"
    ),
    FrameRule("python_sleep", "", r"(time_sleep|pysleep)"),
    FrameRule("join", "", r"(_*pthread_(timed|clock)?join|thread_PyThread_join|ThreadHandle_join|_ZNSt6thread4join)"),
    FrameRule(
        "semaphore", "", r"(_*sem_(timed|clock)?wait|__new_sem_wait|_multiprocessing_SemLock_acquire|do_futex_wait)"
    ),
    FrameRule("condition", "", r"_*pthread_cond_(timed|clock)?wait"),
    FrameRule("condition", "", r"_ZNSt(3__1)?(\d_V2)?18condition_variable"),
    FrameRule("mutex", "", r"(_*pthread_(mutex|rwlock)_|__lll_(lock|mutex)|_*pthread_spin)"),
    # Pools of worker threads.
    FrameRule("openmp", r"(libgomp|libomp|libiomp|libkmp)"),
    FrameRule("blas", r"(libscipy_openblas|libopenblas|libflexiblas|libblis|libmkl_(intel|gnu|tbb)_thread)"),
    FrameRule("pool", r"(libgomp|libomp|libiomp|libscipy_openblas|libopenblas|libblis|libmkl|libtbb)"),
    FrameRule(
        "pool",
        "",
        r"(blas_thread_server|_ZN3c1010ThreadPool9main_loop|pthreadpool_|_ZN3tbb|_ZN5Eigen\w*(WaitForWork|WorkerLoop))",
    ),
    FrameRule("autograd_worker", "", r"_ZN5torch8autograd6Engine11thread_main"),
    FrameRule("autograd_worker", "", r"_ZN5torch8autograd10ReadyQueue3pop"),
    FrameRule("autograd_call", "", r"_ZN5torch8autograd6Engine\d+execute"),
    FrameRule("autograd_call", "", r"_ZN5torch8autograd6python12PythonEngine"),
    FrameRule("xla", _XLA),
    # Event loops that are native code.
    FrameRule("event_loop", r"(libuv[.-]|loop\.c|libev[.-]|libevent)"),
    FrameRule("event_loop", "", r"(uv_run|uv__io_poll|ev_run|event_base_loop|select_epoll_poll|g_main_context)"),
    FrameRule("zmq", r"(libzmq|_zmq)"),
    FrameRule("zmq_thread", "", r"(_ZN3zmq7epoll_t4loop|_ZN3zmq\w*13worker_routine)"),
    FrameRule("gc", r"(lib)?python", r"(gc_collect|_PyGC_Collect|_Py_RunGC|PyGC_Collect|deduce_unreachable)"),
)


def _compile(pattern: str) -> Callable[[str], object]:
    return re.compile(pattern).match if pattern else lambda _: True


_MATCHERS = tuple((rule.tag, _compile(rule.module), _compile(rule.symbol)) for rule in FRAME_RULES)
_CALLS = tuple((f"cuda:{name}", re.compile(pattern).match) for name, pattern in CUDA_CALLS)
_IS_CUDA = re.compile(_CUDA).match


@lru_cache(maxsize=16384)
def tags(frame: NativeFrame) -> frozenset[str]:
    """Return what this frame is evidence of; a named export of the CUDA driver or runtime has one "cuda:…" tag."""
    found = {tag for tag, module, symbol in _MATCHERS if module(frame.module) and symbol(frame.symbol)}
    if frame.symbol and _IS_CUDA(frame.module):
        found.update([tag for tag, match in _CALLS if match(frame.symbol)][:1])
    return frozenset(found)
