"""Run one job: python -m tests.gpu.jobs NAME [--cpu]."""

from __future__ import annotations

import argparse
from importlib import import_module

from tests.gpu.jobs import JOBS


def main() -> None:
    """Run the job that was asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("job", choices=sorted(JOBS))
    parser.add_argument("--cpu", action="store_true", help="a small version without a GPU, to try the job out")
    options = parser.parse_args()
    job = JOBS[options.job]
    getattr(import_module(f"tests.gpu.jobs.{job.module}"), job.function)("cpu" if options.cpu else "cuda")


if __name__ == "__main__":
    main()
