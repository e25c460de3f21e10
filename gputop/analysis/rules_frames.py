"""What a native frame is evidence of: one table from module and symbol to tags.

A tag says what a function belongs to ("python", "nccl", "cuda:sync"), `rules_table` says what a chain of tagged
frames means. Names are those that the projects export; where each was seen: `tests/data/rules`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache, lru_cache

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
    ("launch", r"cu(da)?(Launch|Memset)|__cuda(Push|Pop)Call"),
    ("free", r"cu(da)?(Mem)?Free(Host|Array)?(?!Async|Host|Array)|cuMemHostUnregister|cudaHostUnregister"),
    ("alloc", r"cu(da)?(Mem(Alloc|Free|Host|Create|Map|Unmap|Release|Address|SetAccess|Pool)|Malloc|Free|Host|Array)"),
    ("unload", r"cu(Module|Library)Unload"),
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
    FrameRule("gc", r"(lib)?python", r"(gc_collect|_PyGC_Collect|_Py_RunGC|PyGC_Collect)"),
    FrameRule("jit", r"$"),
    # Wrappers of system calls. On top of a running thread they mean that the kernel works for it: copying, looking up.
    # Those that get or map memory are not among them: they are part of whatever allocates.
    FrameRule("yield", r"libc[.-]", r"_*sched_yield$"),
    FrameRule("clock", r"(libc[.-]|\[vdso\])", r"(_*(vdso_)?clock_gettime)?$"),
    FrameRule("sleep_call", r"libc[.-]", r"_*(clock_)?nanosleep$"),
    FrameRule("poll_call", r"libc[.-]", r"_*(p?poll|p?select)$"),
    FrameRule(
        "kernel_call",
        r"(libc[.-]|libpthread|ld-)",
        r"_*(libc_)?(p?(read|write)v?(64)?|p?poll|p?select|epoll_p?wait|(clock_)?nanosleep"
        r"|open(at)?(64)?|f?stat(at|x)?(64)?|getdents(64)?|lseek(64)?|ioctl|f?(data)?sync|recv\w*|send\w*|accept4?|connect"
        r"|clone3?|v?fork|execve|wait4|waitid|syscall)$",
    ),
    # CUDA: the driver, the runtime, and what the driver calls (compiler, Jetson's resource manager, tracing).
    FrameRule("cuda", rf"({_CUDA}|libnvrm_|libnvidia-(ptxjitcompiler|nvvm|gpucomp)|libcupti)"),
    # What works on the CPU for the GPU: compilers of kernels, and the layers between an operation and its launch.
    FrameRule("gpu_compiler", r"(libnvrtc|libnvJitLink|libnvvm|libtriton)"),
    FrameRule("triton_launch", r"libtriton", r"_ZN12_GLOBAL__N_1\d+specialize_"),
    FrameRule(
        "gpu_framework", r"(libtorch_cuda|libc10_cuda|libcudnn|libcublas|libcufft|libcusparse|libcusolver|libcurand)"
    ),
    FrameRule("dispatcher", r"(libtorch_python|libc10\.)"),
    # Collectives: the calls that wait, and the threads that serve them.
    FrameRule("nccl", r"lib(nccl|rccl)"),
    FrameRule("nccl_call", r"lib(nccl|rccl)", r"p?nccl[A-Z]"),
    FrameRule("nccl_wait", "", r"_ZN4c10d16ProcessGroupNCCL(7barrier|8WorkNCCL\d+(wait|synchronize))"),
    FrameRule("gloo_call", "", r"_ZNK?4c10d4Work4wait|_ZN4gloo\d+(allreduce|allgather|barrier|broadcast|reduce)"),
    FrameRule("mpi_call", "", r"P?MPI_[A-Z][a-z]"),
    FrameRule(
        "comm_helper",
        "",
        r"_ZN4gloo9transport\w*4Loop3run|_ZN4c10d16ProcessGroup(Gloo7runLoop|NCCL(8Watchdog|16HeartbeatMonitor))"
        r"|_ZN4c10d\w*StoreDaemon",
    ),
    # Python's own waits.
    FrameRule("gil", "", r"(take_gil|drop_gil|PyEval_(Restore|Acquire)Thread|PyGILState_Ensure|_PyThreadState_Attach)"),
    FrameRule("python_lock", r"(lib)?python", r"(PyThread_acquire_lock|_PyMutex_Lock|_PySemaphore_Wait)"),
    FrameRule("python_sleep", r"(lib)?python", r"(time_sleep|pysleep)"),
    FrameRule("simple_queue", "", r"_queue_SimpleQueue_get"),
    FrameRule("join", "", r"(ThreadHandle_join|_*pthread_\w*join|_ZNSt6thread4join)"),
    FrameRule("semaphore", "", r"(_multiprocessing_SemLock_acquire|_*sem_(timed|clock)?wait)"),
    FrameRule("semaphore", r"_multiprocessing\."),
    FrameRule("condition", "", r"(_*pthread_cond_(timed|clock)?wait|_ZNSt\w*18condition_variable)"),
    FrameRule("mutex", "", r"(_*pthread_(mutex|rwlock)_|__lll_(lock|mutex))"),
    # Pools of worker threads; `pool_loop` is where a worker spins, everything else of a pool's library may compute.
    FrameRule(
        "pool", r"(libgomp|libomp|libiomp|libscipy_openblas|libopenblas|libblis|libmkl|libtbb|(lib)?onnxruntime)"
    ),
    FrameRule("pool", "", r"(blas_thread_server|_ZN3c1010ThreadPool9main_loop|thread_main$)"),
    FrameRule("pool_loop", r"(libgomp|libomp|libiomp)"),
    FrameRule("pool_loop", "", r"blas_thread_server"),
    FrameRule(
        "autograd_worker",
        "",
        r"_ZN5torch8autograd(6Engine11thread_(main|init)|6python12PythonEngine11thread_init|10ReadyQueue3pop)",
    ),
    FrameRule("autograd_pop", "", r"_ZN5torch8autograd10ReadyQueue3pop"),
    FrameRule("autograd_call", "", r"_ZN5torch8autograd6Engine\d+execute"),
    FrameRule("xla", _XLA),
    FrameRule(
        "xla_wait",
        _XLA,
        r"_ZNK?(\d?absl\w*12Notification\d+WaitFor|3tsl15BlockUntilReady|3xla9Semaphore\d+\w*Acquire|3jax17AwaitBuffers)",
    ),
    # Event loops and message queues that are native code.
    FrameRule("event_loop", "", r"(uv_run|ev_run|event_base_loop|g_main_loop_run|g_main_context_iterate)"),
    FrameRule("zmq", r"libzmq"),
)


@cache
def _pattern(text: str) -> re.Pattern[str]:
    return re.compile(text)


def matches(rule: FrameRule, frame: NativeFrame) -> bool:
    """Tell whether a frame is what the rule describes."""
    return bool(_pattern(rule.module).match(frame.module) and _pattern(rule.symbol).match(frame.symbol))


@lru_cache(maxsize=16384)
def tags(frame: NativeFrame) -> frozenset[str]:
    """Return what this frame is evidence of; a named export of the CUDA driver or runtime has one "cuda:…" tag."""
    found = {rule.tag for rule in FRAME_RULES if matches(rule, frame)}
    if frame.symbol and _pattern(_CUDA).match(frame.module):
        found.update([f"cuda:{name}" for name, pattern in CUDA_CALLS if _pattern(pattern).match(frame.symbol)][:1])
    return frozenset(found)
