"""Quicker waiting: Textual's pilot looks every 20 ms whether the app is idle, and these tests press a thousand keys."""

from __future__ import annotations

from textual import _wait

_STEP = 0.008

_wait.SLEEP_IDLE *= _STEP / _wait.SLEEP_GRANULARITY  # idle means the same: a twentieth of the time on a CPU
_wait.SLEEP_GRANULARITY = _STEP
