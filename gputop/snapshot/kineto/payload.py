"""Switches Kineto's polling on in a running process: executed there by `sys.remote_exec` (PEP 768), with a call of
`_gputop_enable` appended. Leaves one word of what happened in a file, and no name behind.
"""


def _gputop_enable(status: str, variables: dict[str, str]) -> None:
    import atexit
    import ctypes
    import os
    import sys
    import time

    def switch_on() -> str:
        torch = sys.modules.get("torch")
        if torch is None:
            return "torch is not imported"
        library = ctypes.CDLL(os.path.join(torch.__path__[0], "lib", "libtorch_cpu.so"))
        # libkineto::api() returns an object whose second word is the registered profiler: a second one would
        # replace it under the program's feet.
        library._ZN9libkineto3apiEv.restype = ctypes.c_void_p
        words = (ctypes.c_void_p * 2).from_address(library._ZN9libkineto3apiEv())
        if words[1]:
            return "used"
        os.environ.update(variables)
        library._ZN5torch18global_kineto_initEv()
        atexit.register(wait_for_trace, variables["KINETO_IPC_SOCKET_DIR"])
        return "on"

    def wait_for_trace(directory: str) -> None:
        """Keep the program from ending while it is recorded, as `agent/sitecustomize.py` does: torch crashes then."""
        flag = os.path.join(directory, f"tracing-{os.getpid()}")
        try:
            with open(flag) as file:
                until, _, trace = file.read().partition(" ")
            deadline, whole = float(until), os.path.join(directory, trace)
        except (OSError, ValueError):
            return
        while os.path.exists(flag) and not os.path.isfile(whole) and time.time() < deadline:
            time.sleep(0.02)

    try:
        outcome = switch_on()
    except Exception as error:
        outcome = repr(error)
    with open(status + ".part", "w") as file:
        file.write(outcome)
    os.rename(status + ".part", status)
