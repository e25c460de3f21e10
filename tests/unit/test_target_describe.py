"""What a process is, told from outside."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from gputop import procfs
from gputop.errors import NoProcessError
from gputop.model import ProcessInfo
from gputop.target.describe import aliases, describe, same
from gputop.target.naming import short_command, short_name
from gputop.target.python import python_version
from tests.fakes.programs import READY, python, running

HOSTILE = ["\x1b]0;owned\x07\x1b[2J", "a\nb\rc", "\u202egnp.exe", "x" * 10_000, os.fsdecode(b"\xff\xfe\x80")]


def texts(info: ProcessInfo) -> list[str]:
    return [*info.cmdline, info.exe, info.name, *info.frameworks, info.python or ""]


def test_a_python_process() -> None:
    with running(python("")) as process:
        info = describe(process.pid)
        assert info.python == platform.python_version()
        assert (info.ppid, info.name, info.aliases[0]) == (os.getpid(), "python -c", process.pid)
        assert info.exe == os.path.realpath(sys.executable)
        assert info.cmdline[:3] == (sys.executable, "-I", "-S")
        assert info.started_unix == pytest.approx(psutil.Process(process.pid).create_time(), abs=1.1)
        assert info.started_unix == pytest.approx(time.time(), abs=60)


def test_t13_a_kernel_that_does_not_tell_other_names_leaves_the_pid(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels before 4.1 have no line NSpid (fault T13 of other monitors)."""
    monkeypatch.setattr(procfs, "status", lambda pid: {"Name": "python"})
    assert aliases(4121) == (4121,)


def interpreter(minor: int) -> str | None:
    """Return a Python of that version: installed beside ours, as pyenv and uv do, or found along PATH."""
    beside = sorted(Path(sys.base_prefix).parent.glob(f"*3.{minor}*/bin/python3.{minor}"))
    return str(beside[0]) if beside else shutil.which(f"python3.{minor}", path="/usr/bin:/usr/local/bin")


@pytest.mark.parametrize("minor", range(10, 16))
def test_other_interpreters_tell_their_own_version(minor: int) -> None:
    program = interpreter(minor)
    if program is None:
        pytest.skip(f"no Python 3.{minor} here")
    told = subprocess.run([program, "-V"], capture_output=True, text=True, check=True).stdout
    with running([program, "-I", "-S", "-c", READY]) as process:
        assert describe(process.pid).python == told.split()[1]


def test_a_program_without_python() -> None:
    with running(["sh", "-c", "echo ready; read line"]) as process:
        info = describe(process.pid)
        assert (info.python, info.name, info.frameworks, info.rank) == (None, "sh", (), None)


@pytest.mark.parametrize(
    ("cmdline", "comm", "name"),
    [
        (["python3.12", "-u", "/app/train.py", "--epochs", "3"], "python3.12", "train.py"),
        (["/venv/bin/python", "-m", "vllm.entrypoints.api"], "python", "vllm.entrypoints.api"),
        (["python", "-X", "dev", "-W", "error", "x.py"], "python", "x.py"),
        (["python", "-um", "http.server"], "python", "http.server"),
        (["python3", "/venv/bin/torchrun", "train.py"], "torchrun", "torchrun"),
        (["python"], "python", "python"),
        (
            ["python", "-c", "from multiprocessing.spawn import spawn_main; spawn_main()"],
            "python",
            "multiprocessing worker",
        ),
        (["python", "train.py"], "pt_data_worker", "train.py [pt_data_worker]"),
        (["/opt/bin/solver", "-n", "3"], "solver", "solver"),
        (["VLLM::EngineCore"], "VLLM::EngineCor", "VLLM::EngineCore"),
        (["postgres: writer process"], "postgres", "postgres: writer process"),
        ([], "kworker/0:1", "[kworker/0:1]"),
    ],
)
def test_short_names(cmdline: list[str], comm: str, name: str) -> None:
    assert short_name(cmdline, comm) == name


@pytest.mark.parametrize(
    ("cmdline", "shown"),
    [
        (
            ["/opt/conda/envs/jobs/bin/python3.11", "-u", "/a/b/train.py", "/data/x"],
            "python3.11 -u train.py /data/x",
        ),
        (["/usr/bin/python3", "-m", "serve", "--port", "80"], "python3 -m serve --port 80"),
        (["python", "-c", "open('/tmp/a')\nwork()"], "python -c open('/tmp/a') work()"),
        (["/usr/bin/python3", "-W", "/a/b", "./x.py"], "python3 -W /a/b x.py"),
        (["/usr/bin/python3", "-i"], "python3 -i"),
        (["/usr/bin/python3", "-m"], "python3 -m"),
        (["/opt/hpc/solver", "--deck", "/a.inp"], "solver --deck /a.inp"),
        (["ray::work in /tmp/a"], "ray::work in /tmp/a"),
        ([], ""),
    ],
)
def test_short_commands(cmdline: list[str], shown: str) -> None:
    assert short_command(cmdline) == shown


def test_ranks_come_from_the_environment() -> None:
    with running(python(""), {"RANK": "3", "LOCAL_RANK": "1"}) as process:
        assert (describe(process.pid).rank, describe(process.pid).local_rank) == (3, 1)
    with running(python(""), {"RANK": "\x1b[31m", "OMPI_COMM_WORLD_RANK": "7"}) as process:
        assert (describe(process.pid).rank, describe(process.pid).local_rank) == (7, None)


def test_hostile_names_come_out_printable() -> None:
    rename = "open('/proc/self/comm', 'wb').write(b'\\x1b[2J\\xff\\nx')\n"
    with running(python(rename, *HOSTILE)) as process:
        info = describe(process.pid)
        assert len(info.cmdline) == 5 + len(HOSTILE)
        assert all(text.isprintable() and len(text) <= 400 for text in texts(info))


def test_no_such_process() -> None:
    with running(python("")) as process:
        pid = process.pid
    for number in (pid, 0, -1, 2**22 + 1, 2**70):
        with pytest.raises(NoProcessError, match="there is no process"):
            describe(number)


def test_a_zombie_has_ended() -> None:
    process = subprocess.Popen([sys.executable, "-I", "-S", "-c", ""])
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    with pytest.raises(NoProcessError, match="has ended"):
        describe(process.pid)
    process.wait()


def test_a_process_outlives_its_main_thread() -> None:
    code = "import threading, ctypes\n"
    code += f"threading.Thread(target=lambda: exec({READY!r})).start()\nctypes.CDLL(None).pthread_exit(None)\n"
    with running([sys.executable, "-I", "-S", "-c", code]) as process:
        while psutil.Process(process.pid).status() != psutil.STATUS_ZOMBIE:
            time.sleep(0.01)
        info = describe(process.pid)
        assert info.pid == process.pid
        assert same(info)
        process.kill()


def test_a_thread_is_no_process() -> None:
    code = "import threading\nthreading.Thread(target=lambda: sys.stdin.read()).start()\n"
    with running(python("import sys\n" + code)) as process:
        tid = max(map(int, os.listdir(f"/proc/{process.pid}/task")))
        with pytest.raises(NoProcessError, match=f"is a thread of process {process.pid}") as caught:
            describe(tid)
        assert caught.value.remedy == f"gputop --pid {process.pid}"


def test_a_number_used_again_is_another_process() -> None:
    with running(python("")) as process:
        info = describe(process.pid)
        assert same(info)
        assert not same(replace(info, started_unix=info.started_unix - 0.01))
    assert not same(info)


def mapping(paths: list[Path]) -> list[str]:
    """Return a program that maps files, as loading a library does."""
    code = "import mmap, sys\nfiles = [open(name) for name in sys.argv[1:]]\n"
    code += "kept = [mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) for file in files]\n"
    return python(code, *map(str, paths))


def library(path: Path, content: bytes = b"\x7fELF") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def test_frameworks_and_their_versions(tmp_path: Path) -> None:
    site = tmp_path / "lib/python3.12/site-packages"
    mapped = [
        library(site / "torch/lib/libtorch_cpu.so"),
        library(site / "jaxlib/xla.so"),
        library(site / "vllm/_C.so"),
    ]
    (site / "torch/version.py").write_text("debug = False\n__version__ = '2.11.0+cu130'\n")
    (site / "jax-0.11.0.dist-info").mkdir()
    (site / "jaxlib-0.10.9.dist-info").mkdir()
    with running(mapping(mapped)) as process:
        assert describe(process.pid).frameworks == ("torch 2.11.0+cu130", "jax 0.11.0", "vllm")


def test_a_pipe_in_place_of_a_version_file_is_not_waited_for(tmp_path: Path) -> None:
    mapped = [library(tmp_path / "torch/lib/libtorch_cpu.so")]
    os.mkfifo(tmp_path / "torch/version.py")
    (tmp_path / "torch-2.9.1.dist-info").mkdir()
    with running(mapping(mapped)) as process:
        assert describe(process.pid).frameworks == ("torch 2.9.1",)


def test_the_library_tells_a_free_threaded_python(tmp_path: Path) -> None:
    edge = b"x" * ((1 << 20) - 3)
    mapped = [library(tmp_path / "libpython3.13t.so.1.0", edge + b"/opt/3.13.2rc1\0" + b"13.13.9\0")]
    with running(mapping(mapped)) as process:
        assert describe(process.pid).python == "3.13.2rc1t"


def test_a_version_that_nothing_tells_is_cut_short_or_none() -> None:
    extension = ["/x/python3.12/lib-dynload/_json.cpython-312-x86_64-linux-gnu.so"]
    assert python_version(os.getpid(), "/opt/app", extension) == "3.12"
    assert python_version(os.getpid(), "", [], "/usr/bin/python3.99t") == "3.99t"
    assert python_version(os.getpid(), "/opt/app", ["/x/site-packages/torch/lib/libtorch.so"]) is None


def test_another_user_sees_what_is_public() -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can become another user")
    with running(python(""), {"RANK": "3"}) as process:
        code = "import os, sys; from gputop.target.describe import describe, same; os.setgroups([]); os.setgid(65534)\n"
        code += "os.setuid(65534); info = describe(int(sys.argv[1]))\n"
        code += "print(info.name, repr(info.exe), info.rank, info.cmdline[1], same(info))"
        told = subprocess.run(
            [sys.executable, "-c", code, str(process.pid)], capture_output=True, text=True, check=True
        )
        assert told.stdout == "python -c '' None -I True\n"
