"""What torch does in a process that polls, without torch: `kineto_client.py UID`.

Reads the socket directory from standard input (an empty line: the abstract name), asks ten times a second, and
answers a request with a trace of one operator. Says "ready", then "done".
"""

from __future__ import annotations

import os
import socket
import struct
import sys
import time

HEADER = struct.Struct("=Q32s")


def main(uid: int) -> None:
    if uid:
        os.setgroups([])
        os.setgid(uid)
        os.setuid(uid)
    print("ready", flush=True)
    directory = sys.stdin.readline().rstrip("\n")
    client = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    client.bind(f"{directory}/dynoconfigclient-1" if directory else b"\0dynoconfigclient-1\0")
    client.settimeout(0.1)
    print("bound", flush=True)
    daemon = f"{directory}/dynolog" if directory else b"\0dynolog\0"
    ask = struct.pack("=iiqi", 3, 1, 0, os.getpid())
    while True:
        try:
            client.sendto(HEADER.pack(len(ask), b"req") + ask, daemon)
            data, source = client.recvfrom(65536)
        except (TimeoutError, ConnectionRefusedError, FileNotFoundError):
            time.sleep(0.02)
            continue
        assert source == daemon, (source, "torch ends with an exception here")
        break
    wanted = dict(line.split("=", 1) for line in data[HEADER.size :].decode().splitlines())
    path = wanted["ACTIVITIES_LOG_FILE"].replace(".json", f"_{os.getpid()}.json")
    with open(path + ".tmp", "w") as file:
        file.write('{"traceEvents": [\n{"ph": "X", "cat": "cpu_op", "name": "aten::mm", "ts": 0, "dur": 1}\n]}')
    os.rename(path + ".tmp", path)
    print("done", flush=True)
    sys.stdin.readline()


if __name__ == "__main__":
    main(int(sys.argv[1]))
