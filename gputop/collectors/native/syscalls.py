"""Names of the system calls that threads wait in, and what a call concerns."""

from __future__ import annotations

import os
from collections.abc import Mapping

#: Numbers from the kernel's syscall tables; only calls that can block for long.
_X86_64 = {
    0: "read", 1: "write", 7: "poll", 8: "lseek", 9: "mmap", 10: "mprotect", 11: "munmap", 12: "brk", 16: "ioctl",
    17: "pread64", 18: "pwrite64", 19: "readv", 20: "writev", 23: "select", 24: "sched_yield", 25: "mremap",
    26: "msync", 28: "madvise", 34: "pause", 35: "nanosleep", 40: "sendfile",
    42: "connect", 43: "accept", 44: "sendto", 45: "recvfrom", 46: "sendmsg", 47: "recvmsg", 56: "clone",
    57: "fork", 58: "vfork", 59: "execve", 61: "wait4", 64: "semget", 65: "semop", 69: "msgsnd", 70: "msgrcv",
    72: "fcntl", 73: "flock", 74: "fsync", 75: "fdatasync", 78: "getdents", 128: "rt_sigtimedwait",
    130: "rt_sigsuspend", 202: "futex", 208: "io_getevents", 217: "getdents64", 219: "restart_syscall",
    220: "semtimedop", 230: "clock_nanosleep", 231: "exit_group", 232: "epoll_wait", 242: "mq_timedsend",
    243: "mq_timedreceive", 247: "waitid", 257: "openat", 262: "newfstatat", 270: "pselect6", 271: "ppoll",
    275: "splice", 281: "epoll_pwait", 285: "fallocate", 288: "accept4", 295: "preadv", 296: "pwritev",
    299: "recvmmsg", 307: "sendmmsg", 326: "copy_file_range", 327: "preadv2", 328: "pwritev2",
    333: "io_pgetevents", 426: "io_uring_enter", 435: "clone3", 441: "epoll_pwait2", 449: "futex_waitv",
    454: "futex_wake", 455: "futex_wait",
}  # fmt: skip
_AARCH64 = {
    4: "io_getevents", 22: "epoll_pwait", 25: "fcntl", 29: "ioctl", 32: "flock", 47: "fallocate", 56: "openat",
    61: "getdents64", 62: "lseek", 63: "read", 64: "write", 65: "readv", 66: "writev", 67: "pread64",
    68: "pwrite64", 69: "preadv", 70: "pwritev", 71: "sendfile", 72: "pselect6", 73: "ppoll", 76: "splice",
    79: "newfstatat", 82: "fsync", 83: "fdatasync", 94: "exit_group", 95: "waitid", 98: "futex",
    101: "nanosleep", 115: "clock_nanosleep", 124: "sched_yield", 128: "restart_syscall", 133: "rt_sigsuspend",
    137: "rt_sigtimedwait", 182: "mq_timedsend", 183: "mq_timedreceive", 188: "msgrcv", 189: "msgsnd",
    192: "semtimedop", 193: "semop", 202: "accept", 203: "connect", 206: "sendto", 207: "recvfrom",
    211: "sendmsg", 212: "recvmsg", 214: "brk", 215: "munmap", 216: "mremap", 220: "clone", 221: "execve",
    222: "mmap", 226: "mprotect", 227: "msync", 233: "madvise", 242: "accept4", 243: "recvmmsg",
    260: "wait4", 269: "sendmmsg", 285: "copy_file_range", 286: "preadv2", 287: "pwritev2",
    292: "io_pgetevents", 426: "io_uring_enter", 435: "clone3", 441: "epoll_pwait2", 449: "futex_waitv",
    454: "futex_wake", 455: "futex_wait",
}  # fmt: skip
_NUMBERS: Mapping[str, Mapping[int, str]] = {"x86_64": _X86_64, "aarch64": _AARCH64}

#: Calls whose first argument is a descriptor that says what they wait on.
ON_DESCRIPTOR = frozenset(
    "read write ioctl pread64 pwrite64 readv writev preadv pwritev preadv2 pwritev2 sendfile connect accept accept4 "
    "sendto recvfrom sendmsg recvmsg sendmmsg recvmmsg fcntl flock fsync fdatasync getdents getdents64 lseek "
    "fallocate splice copy_file_range".split()
)
#: Calls whose name alone says it.
ON_NAME = {
    "wait4": "process", "waitid": "process", "vfork": "process",
    "nanosleep": "timer", "clock_nanosleep": "timer",
    "epoll_wait": "epoll", "epoll_pwait": "epoll", "epoll_pwait2": "epoll",
    "openat": "file", "newfstatat": "file", "msync": "file",
    "mmap": "memory", "munmap": "memory", "mremap": "memory", "mprotect": "memory", "madvise": "memory",
    "brk": "memory",
}  # fmt: skip
#: Stands in for a call that was interrupted, see `restarted`.
RESTART = "restart_syscall"
#: Calls that wait on an array of `struct pollfd`.
ON_POLL = frozenset({"poll", "ppoll"})


def name_of(number: int, arch: str) -> str:
    """Return a system call's name, "syscall 123" for one that is not in the tables."""
    return _NUMBERS.get(arch, {}).get(number) or f"syscall {number}"


def restarted(leaf: str) -> str:
    """Return the call that `restart_syscall` goes on with, told by the function that made it.

    The kernel restarts so only the sleeps, poll and timed futexes, after a stop (ours may be one) or a job-control
    signal.
    """
    name = leaf.lstrip("_")
    return name if name in ("nanosleep", "clock_nanosleep", "poll") else "futex"


#: The kernel's functions in which a page fault waits for the lock of the process's memory map: since Linux 6.5, and
#: before (arch/x86/mm/fault.c, arch/arm64/mm/fault.c).
_MAP_LOCK = frozenset({"lock_mm_and_find_vma", "do_user_addr_fault", "__do_page_fault", "do_page_fault"})


def kind_of_fault(channel: str) -> str:
    """Return what a page fault waits for, given the kernel's function that it sleeps in (/proc/PID/wchan): "memory" for
    the lock of the memory map, "file" for a page that is being read, empty where the kernel does not tell."""
    if channel in _MAP_LOCK:
        return "memory"
    return "file" if channel.startswith(("folio_wait", "wait_on_page", "io_schedule", "filemap_")) else ""


def kind_of_link(link: str) -> str:
    """Return what a /proc/PID/fd link stands for, in `Observation.waits_on`'s words; empty when it is none of them."""
    for start, kind in _LINKS:
        if link.startswith(start):
            return kind
    return "file" if link.startswith("/") and not link.startswith("/dev/") else ""


_LINKS = (
    ("pipe:", "pipe"),
    ("socket:", "socket"),
    ("anon_inode:[eventfd]", "eventfd"),
    ("anon_inode:[eventpoll]", "epoll"),
    ("anon_inode:[timerfd]", "timer"),
    ("anon_inode:[pidfd]", "process"),
    ("/dev/nvidia", "nvidia"),
    ("/dev/pts/", "tty"),
    ("/dev/tty", "tty"),
    ("/dev/console", "tty"),
)


def kind_of_descriptor(pid: int, number: int) -> str:
    """Return what a process's descriptor stands for; empty when it cannot be told."""
    try:
        return kind_of_link(os.readlink(f"/proc/{pid}/fd/{number}"))
    except OSError:
        return ""


def kind_of_descriptors(pid: int, numbers: list[int]) -> str:
    """Return what several descriptors stand for: "nvidia" when one is the driver's, else what all have in common."""
    kinds = {kind_of_descriptor(pid, number) for number in numbers}
    if "nvidia" in kinds:
        return "nvidia"
    return kinds.pop() if len(kinds) == 1 else ""
