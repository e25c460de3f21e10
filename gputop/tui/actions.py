"""Everything the user can do: one registry; key bindings, command palette, hints and help are made from it."""

from __future__ import annotations

from dataclasses import dataclass

#: Actions of the app, which work on every screen, begin with this.
APP = "app."


@dataclass(frozen=True)
class Action:
    """One thing to do.

    Attributes:
        keys: Textual's names for the keys, the first one is shown.
        name: what the palette calls it.
        help: one sentence.
        method: the action with its arguments ("sort('self')"): the app's where it begins with `APP`, else the
            overview's.
        hint: one word for the status line, empty for none.
        rank: place among the hints, smaller is more important.
        label: the key as people write it, where that differs from Textual's name.
        palette: listed in the command palette.
    """

    keys: tuple[str, ...]
    name: str
    help: str
    method: str
    hint: str = ""
    rank: int = 99
    label: str = ""
    palette: bool = True

    @property
    def shown(self) -> str:
        """Return the key as help and hints write it."""
        return self.label or self.keys[0]


#: What the table can be sorted by, with the keys 1 and up.
SORTS = {
    "self": "Time in the function itself",
    "total": "Time in the function and in what it calls",
    "function": "By name",
    "file": "By file and line",
}

#: In the order of the help. (Keys in the table: as in py-spy top; the rest as in htop and less.)
ACTIONS: tuple[Action, ...] = (
    Action(
        ("s", "f12"), "Snapshot", "Save a trace of the last seconds, to open in Perfetto", "snapshot", "snapshot", 2
    ),
    Action(("space", "Z"), "Pause", "Freeze what is shown; sampling goes on", "pause", "pause", 3),
    Action(("question_mark", "h", "f1"), "Help", "Keys, states and how to read the screen", "app.help", "help", 0, "?"),
    Action(("q", "ctrl+c", "f10"), "Quit", "Quit; asks what becomes of a launched command", "app.quit", "quit", 1),
    Action(("enter",), "Why", "The evidence for the verdict, and what usually helps", "advice", label="Enter"),
    Action(("t", "H"), "Threads", "All threads, and what each is doing; Enter looks at one", "threads", "threads", 4),
    Action(("l",), "Functions or lines", "The table lists functions, or source lines", "lines", "lines", 6),
    Action(
        ("slash", "f4", "backslash"),
        "Filter",
        "Only rows whose function or file holds a text",
        "filter",
        "filter",
        5,
        "/",
    ),
    *(
        Action((str(place),), f"Sort by {name}", text, f"sort('{name}')")
        for place, (name, text) in enumerate(SORTS.items(), 1)
    ),
    Action(("r",), "Start afresh", "Sum up from now on only; again: the whole window", "reset", "reset", 7),
    Action(("plus", "equals_sign"), "Sample faster", "Twice the sampling rates, in the budget", "rate(2.0)", label="+"),
    Action(("minus",), "Sample slower", "Half the sampling rates", "rate(0.5)", label="-"),
    Action(("left",), "Earlier", "Back in time, through everything kept", "travel(-1)", label="←"),
    Action(("right",), "Later", "Forward again; Space or Esc: now", "travel(1)", label="→"),
    Action(("down", "j"), "Down", "Next row", "move(1)", label="↓", palette=False),
    Action(("up", "k"), "Up", "Row before", "move(-1)", label="↑", palette=False),
    Action(("pagedown",), "Page down", "Next page of rows", "page(1)", label="PgDn", palette=False),
    Action(("pageup",), "Page up", "Page of rows before", "page(-1)", label="PgUp", palette=False),
    Action(("home", "g"), "First row", "First row", "move(-1000000)", label="Home", palette=False),
    Action(("end", "G"), "Last row", "Last row", "move(1000000)", label="End", palette=False),
    Action(("escape",), "Back", "Clears filter, cursor or thread; closes a screen", "back", label="Esc", palette=False),
)
