"""The daemon's side of Kineto's on-demand protocol: run as a script, `daemon.py DIRECTORY UID GID ROOT NETWORK`.

A process of its own, because the target waits only 90 ms for an answer, which a busy interpreter could miss. It
imports nothing of gputop and takes its orders as lines of JSON on standard input, `{"pid": …, "config": …}`, with
null to take one back; what happens is told as lines of JSON on standard output. When standard input ends, so does it,
and its socket goes.

It speaks only when it has a request for the one that asks. An answer that nobody waits for any more stays in the
target's socket and is taken for the answer to its next question, which shifts all later ones.

DIRECTORY is where the target looks for the socket (KINETO_IPC_SOCKET_DIR, as it has it), empty for the abstract name.
Every datagram must come from exactly there: an answer from another name ends the target with an exception that
nobody catches (torch 2.13). ROOT is the target's root directory when it is not ours, NETWORK its network namespace.

Wire format (kineto, libkineto/src/IpcFabricConfigClient.cpp and IPC fabric), native byte order, one datagram each:
header `size_t payload size, char kind[32]`; "req": `int32 bits, int32 n, int64 job, int32 pid[n]`, answered by the
same header and the configuration as text; "ctxt": `int32 gpu, int32 pid, int64 job`, answered by an int32.
"""

from __future__ import annotations

import errno
import json
import os
import select
import signal
import socket
import struct
import sys
import time
from contextlib import suppress
from typing import NamedTuple

HEADER, BODY, COUNT = struct.Struct("=Q32s"), struct.Struct("=iiq"), struct.Struct("=i")

#: Bit of a question: the profiler is free, an activity request can be taken. (Bit 1 was for events, until 2.13.)
FREE = 2

#: The target reads its answer at most nine times, 10 ms apart.
STALE_S = 0.06

_NAME = "dynolog"
_ABSTRACT = b"\0dynolog\0"
_SO_TIMESTAMPNS = 35
_CLONE_NEWNET = 0x40000000
_LARGEST = 1 << 16


class Question(NamedTuple):
    """One datagram from a target: who sent it (by the kernel's word, not its own), when, and what it asks."""

    pid: int
    uid: int
    sent_unix: float
    source: bytes | str
    kind: str
    free: bool


def parse(data: bytes, credentials: tuple[int, int], sent_unix: float, source: bytes | str) -> Question | None:
    """Read a datagram; None when it is none of the protocol's."""
    if len(data) < HEADER.size:
        return None
    size, kind = HEADER.unpack_from(data)
    body = data[HEADER.size :]
    if size != len(body) or len(body) < BODY.size:
        return None
    name = kind.split(b"\0")[0].decode("ascii", "replace")
    bits = BODY.unpack_from(body)[0]
    return Question(*credentials, sent_unix, source, name, bool(bits & FREE))


def message(kind: str, payload: bytes) -> bytes:
    """Return a datagram."""
    return HEADER.pack(len(payload), kind.encode()) + payload


class Daemon:
    """Answers targets; `pending` holds what each is to be told when it asks next."""

    def __init__(self, listening: socket.socket, uid: int) -> None:
        self.pending: dict[int, str] = {}
        self._socket = listening
        self._uid = uid

    def fileno(self) -> int:
        return self._socket.fileno()

    def order(self, pid: int, config: str | None) -> None:
        """Take an order: what `pid` is to be told, or None for nothing any more."""
        self.pending.pop(pid, None)
        if config is not None:
            self.pending[pid] = config

    def answer(self) -> None:
        """Take one question and answer it, or stay silent."""
        question = self._receive()
        if question is None:
            return
        if question.uid != self._uid:
            tell("refused", pid=question.pid, uid=question.uid)
            return
        if question.kind == "ctxt":
            self._send(question, COUNT.pack(1))
            return
        tell("asked", pid=question.pid, free=question.free)
        if question.free and question.pid in self.pending and time.time() - question.sent_unix < STALE_S:
            self._grant(question)

    def _grant(self, question: Question) -> None:
        if self._send(question, self.pending[question.pid].encode()):
            del self.pending[question.pid]
            tell("sent", pid=question.pid)

    def _receive(self) -> Question | None:
        data, ancillary, _, source = self._socket.recvmsg(_LARGEST, 256)
        credentials, sent = None, time.time()
        for level, kind, blob in ancillary:
            if (level, kind) == (socket.SOL_SOCKET, socket.SCM_CREDENTIALS):
                credentials = struct.unpack_from("=iI", blob)
            elif (level, kind) == (socket.SOL_SOCKET, _SO_TIMESTAMPNS):
                seconds, nanoseconds = struct.unpack_from("@qq", blob)
                sent = seconds + nanoseconds / 1e9
        return parse(data, (credentials[0], credentials[1]), sent, source) if credentials and source else None

    def _send(self, question: Question, payload: bytes) -> bool:
        try:
            self._socket.sendto(message(question.kind, payload), question.source)
        except OSError as error:
            tell("unreachable", pid=question.pid, why=error.strerror)
            return False
        return True


def tell(event: str, **facts: object) -> None:
    """Say what happened, with the time."""
    line = json.dumps({"event": event, "unix": time.time(), **facts}) + "\n"
    os.write(1, line.encode())


def listen(directory: str, uid: int, gid: int, root: str, network: str) -> socket.socket:
    """Open the socket as the target's user, in the target's namespaces, which only root can enter.

    Raises:
        OSError: EADDRINUSE when another daemon (a real dynolog, another gputop) has the name.
    """
    if network:
        _enter(network)
    if root:
        os.chroot(root)
        os.chdir("/")
    listening = _socket()
    if directory:
        become(uid, gid)
        _remove_stale(f"{directory}/{_NAME}")
        listening.bind(f"{directory}/{_NAME}")
    else:
        listening.bind(_ABSTRACT)
        become(uid, gid)
    return listening


def become(uid: int, gid: int) -> None:
    """Give up root for the target's user, for good."""
    if os.geteuid() == 0 and uid != 0:
        os.setgroups([])
        os.setgid(gid)
        os.setuid(uid)


def _socket() -> socket.socket:
    made = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
    made.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)
    return made


def _remove_stale(path: str) -> None:
    """Remove a socket that nobody listens on; one that somebody does is left alone."""
    with _socket() as probe:
        try:
            probe.connect(path)
        except ConnectionRefusedError:
            os.unlink(path)
        except FileNotFoundError:
            return
        else:
            raise OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE))


def _enter(network: str) -> None:
    import ctypes

    descriptor = os.open(network, os.O_RDONLY | os.O_CLOEXEC)
    try:
        if ctypes.CDLL(None, use_errno=True).setns(descriptor, _CLONE_NEWNET) != 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    finally:
        os.close(descriptor)


def serve(daemon: Daemon) -> None:
    """Answer and take orders until standard input ends."""
    buffered = b""
    while True:
        ready, _, _ = select.select([daemon.fileno(), 0], [], [])
        if daemon.fileno() in ready:
            daemon.answer()
        if 0 in ready:
            data = os.read(0, _LARGEST)
            if not data:
                return
            *lines, buffered = (buffered + data).split(b"\n")
            for line in lines:
                daemon.order(**json.loads(line))


def main(argv: list[str]) -> int:
    """Listen, say so, and serve."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    directory, uid, gid, root, network = argv[1], int(argv[2]), int(argv[3]), argv[4], argv[5]
    try:
        listening = listen(directory, uid, gid, root, network)
    except OSError as error:
        tell("failed", number=error.errno, why=error.strerror)
        return 1
    try:
        tell("ready")
        serve(Daemon(listening, uid))
    except BrokenPipeError:
        pass  # gputop is gone
    finally:
        listening.close()
        if directory:
            with suppress(FileNotFoundError):
                os.unlink(f"{directory}/{_NAME}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
