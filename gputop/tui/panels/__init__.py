"""The panels of the overview: one registry, from the top of the screen to its bottom."""

from __future__ import annotations

from gputop.tui.panels import cores, gpus, header, hot, output, status, threads, timeline, verdict
from gputop.tui.panels.base import Panel

PANELS: tuple[Panel, ...] = (
    header.PANEL,
    verdict.PANEL,
    timeline.PANEL,
    hot.PANEL,
    gpus.PANEL,
    cores.PANEL,
    threads.PANEL,
    output.PANEL,
    status.NOTES,
    status.STATUS,
    status.MESSAGE,
)
