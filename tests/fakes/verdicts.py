"""What analysis says of the two fake programs."""

from __future__ import annotations

from gputop.analysis.results import Verdict

STARVED = Verdict(
    "gpu-starved",
    "GPU starved",
    "idle 72 % of the last 60 s: MainThread spends 41 % in decode_image (data.py:31)",
    evidence=(
        "the GPU ran a kernel in 28 % of the last 60 s",
        "MainThread computed in 68 % of it: native 46 %, Python 18 %, GPU calls 4 %",
        "decode_image (data.py:31) alone took 41 %",
        "no data loader worker was seen",
    ),
    advice=(
        "decode in worker processes: DataLoader(num_workers=8, persistent_workers=True)",
        "decode on the GPU: torchvision.io.decode_jpeg(device='cuda')",
        "cache decoded images when they fit in memory",
    ),
)
BOUND = Verdict(
    "gpu-bound",
    "GPU bound",
    "busy 97 % of the last 60 s; MainThread waits for it 91 %",
    advice=("nothing to mend on the CPU side; look at kernels: press s",),
)
