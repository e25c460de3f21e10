"""A verdict about now: what has changed in the last seconds need not wait until it fills half of a long window."""

from __future__ import annotations

from dataclasses import replace

from gputop.analysis.results import States, Summary
from gputop.analysis.split import thread_states
from gputop.analysis.summary import summarise
from gputop.model import Window
from gputop.store import Store, ThreadKey

#: "Lately", seconds: twice as long as the newest samples may take to come in. Of shorter windows nothing is set apart.
LATELY_S, SHORTEST_S = 5.0, 15.0
#: It has changed when a state has this much of the last seconds, and had less than that of the whole window: the shares
#: of a program whose steps last seconds do not vary so much.
NOW, BEFORE = 0.9, 0.5


def about_now(store: Store, summary: Summary) -> Summary:
    """Return a summary of a window that ends now with a verdict on its last seconds, where they are unlike the rest."""
    head, window = summary.headline, summary.window
    if head is None or window.seconds < SHORTEST_S:
        return summary
    recent = Window(window.end - LATELY_S, window.end)
    split = thread_states(store, ThreadKey(head.pid, head.tid), recent)
    if split.seconds < LATELY_S / 2 or not _changed(head.states, split.states):
        return summary
    now = summarise(store, recent, 1, (head.pid, head.tid), aside=True)
    if now.headline is None or not _changed(head.states, now.headline.states) or now.verdict.id == summary.verdict.id:
        return summary
    sentence = f"in the last {LATELY_S:.0f} s: {now.verdict.sentence}"
    return replace(summary, verdict=replace(now.verdict, sentence=sentence))


def _changed(whole: States, recent: States) -> bool:
    return any(share >= NOW and whole.get(state, 0.0) < BEFORE for state, share in recent.items())
