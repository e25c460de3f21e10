"""Runs a program that the kernel refuses a system call, as filters of containers do: `refusing.py NAME PROGRAM …`"""

from __future__ import annotations

import ctypes
import os
import struct
import sys

#: System calls by processor, and what seccomp(2) wants: load the number; if equal, EPERM; else allow.
NUMBERS = {"x86_64": {"ptrace": 101, "process_vm_readv": 310}, "aarch64": {"ptrace": 117, "process_vm_readv": 270}}
_LOAD, _IF_EQUAL, _RETURN = 0x20, 0x15, 0x06
_EPERM, _ALLOW = 0x00050001, 0x7FFF0000
_NO_NEW_PRIVS, _SECCOMP, _FILTER = 38, 22, 2


class _Program(ctypes.Structure):
    """`struct sock_fprog` of the Linux headers."""

    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_void_p))


def main(name: str, command: list[str]) -> None:
    """Become the command."""
    number = NUMBERS[os.uname().machine][name]
    steps = ((_LOAD, 0, 0, 0), (_IF_EQUAL, 0, 1, number), (_RETURN, 0, 0, _EPERM), (_RETURN, 0, 0, _ALLOW))
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in steps))
    program = _Program(len(steps), ctypes.addressof(code))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_NO_NEW_PRIVS, 1, 0, 0, 0) or libc.prctl(_SECCOMP, _FILTER, ctypes.byref(program)):
        sys.exit(f"no filter: {os.strerror(ctypes.get_errno())}")
    os.execvp(command[0], command)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
