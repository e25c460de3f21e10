"""Everything the user can do: one registry; key bindings, command palette, hints and help are made from it."""

from __future__ import annotations

from dataclasses import dataclass

#: Actions of the app, which work on every screen, begin with this.
APP = "app."

#: The screens that take their keys from here.
OVERVIEW, SOURCE, FLAME, COMPARE = "overview", "source", "flame", "compare"
GPUS, PROCESSES, OUTPUT, SETTINGS, THREADS = "gpus", "processes", "output", "settings", "threads"
TRACE = "trace"
_LISTS = (OVERVIEW, SOURCE)
_MOVING = (OVERVIEW, SOURCE, FLAME, COMPARE, GPUS, PROCESSES, OUTPUT, SETTINGS, THREADS, TRACE)
#: The screens that others open from, that can be frozen, that walk through time, that look for a text.
_OPENING = (OVERVIEW, SOURCE, FLAME, GPUS, PROCESSES, OUTPUT, THREADS)
_LIVE = (OVERVIEW, SOURCE, FLAME, GPUS, PROCESSES, THREADS)
_TRAVELLING = (OVERVIEW, SOURCE, GPUS, PROCESSES, THREADS)
_SEARCHING = (OVERVIEW, SOURCE, FLAME, OUTPUT, THREADS)
_FILTERED = (*_LISTS, THREADS)


@dataclass(frozen=True)
class Action:
    """One thing to do.

    Attributes:
        keys: Textual's names for the keys, the first one is shown.
        name: what the palette calls it.
        help: one sentence.
        method: the action with its arguments ("sort('self')"): the app's where it begins with `APP`, else that of
            the screen it is used on.
        screens: where the key works; the first one is where the help lists it.
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
    screens: tuple[str, ...] = (OVERVIEW,)

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
    "doing": "By the time in it that does not compute",
}
#: What the threads can be sorted by, with the keys 1 and up; "role" puts them in groups.
THREAD_SORTS = {
    "role": "In groups, by what they are for",
    "thread": "By name",
    "pid": "By process",
    "tid": "By thread id",
    "cpu": "By CPU use",
    "doing": "By the time in which they compute or use the GPU",
}

#: The screens that Esc closes.
_SHEETS = tuple(screen for screen in _MOVING if screen != OVERVIEW)

#: In the order of the help. (Keys in the table: as in py-spy top; the rest as in htop and less.)
ACTIONS: tuple[Action, ...] = (
    Action(
        ("s", "f12"), "Snapshot", "Save a trace of the last seconds, to open in Perfetto", "snapshot", "snapshot", 2
    ),
    Action(("space", "Z"), "Pause", "Freeze what is shown; sampling goes on", "pause", "pause", 3, screens=_LIVE),
    Action(("question_mark", "h", "f1"), "Help", "Keys, states and how to read the screen", "app.help", "help", 0, "?"),
    Action(("q", "ctrl+c", "f10"), "Quit", "Quit; asks what becomes of a launched command", "app.quit", "quit", 1),
    Action(
        ("enter",), "Open", "The source of the chosen row; with none chosen, why the verdict", "open", label="Enter"
    ),
    Action(("w",), "Why", "The evidence for the verdict, and what usually helps", "advice", "why", 9),
    Action(
        ("f",),
        "Source",
        "Functions with their source, each line with its time",
        "go('source')",
        "source",
        4,
        screens=tuple(screen for screen in _OPENING if screen != SOURCE),
    ),
    Action(
        ("F",),
        "Flame graph",
        "Down which call paths the time went",
        "go('flame')",
        "flame",
        5,
        screens=tuple(screen for screen in _OPENING if screen != FLAME),
    ),
    Action(
        ("t", "H"),
        "Threads",
        "All threads, and what each is doing; Enter looks at one",
        "go('threads')",
        "threads",
        6,
        screens=_OPENING,
    ),
    Action(("d",), "GPUs", "Each GPU with its history, and what limits it", "go('gpus')", "gpus", 16, screens=_OPENING),
    Action(
        ("p",),
        "Processes",
        "The program's processes and ranks; Enter looks at one's main thread",
        "go('processes')",
        "processes",
        17,
        screens=_OPENING,
    ),
    Action(
        ("T",),
        "Trace",
        "What the snapshot key can save here, its options, and what the last trace shows",
        "go('trace')",
        "trace",
        21,
        screens=_OPENING,
    ),
    Action(("y",), "Copy", "The chosen row, else the verdict, to the clipboard", "copy", "copy", 20, screens=_OPENING),
    Action(("O",), "Output", "All that the program prints", "go('output')", "output", 18, screens=_OPENING),
    Action(
        ("S", "f2"), "Settings", "Change the settings and keep them", "go('settings')", "settings", 19, screens=_OPENING
    ),
    Action(
        ("l",),
        "Functions or lines",
        "The table lists functions, or source lines",
        "lines",
        "lines",
        12,
        screens=(*_LISTS, FLAME),
    ),
    Action(
        ("slash",),
        "Search",
        "To the next row that holds a text; n, N: next, previous",
        "search",
        "search",
        7,
        "/",
        screens=_SEARCHING,
    ),
    Action(("n",), "Next match", "On to the next match", "next(1)", palette=False, screens=_SEARCHING),
    Action(("N",), "Match before", "Back to the match before", "next(-1)", palette=False, screens=_SEARCHING),
    Action(
        ("f4", "backslash"),
        "Filter",
        "Only rows whose function or file holds a text",
        "filter",
        "filter",
        8,
        "F4",
        screens=_FILTERED,
    ),
    Action(
        ("o",),
        "Own code only",
        "Hide site-packages and the standard library; in the flame graph, fold them",
        "own",
        "own code",
        10,
        screens=(*_LISTS, FLAME),
    ),
    Action(
        ("percent_sign",), "Threshold", "Hide rows below 0.5, 1 or 5 %", "threshold", "least", 13, "%", screens=_LISTS
    ),
    Action(
        ("a",),
        "All threads or one",
        "Sum up all threads' work, or the timeline's thread alone",
        "alone",
        "merge",
        14,
        screens=(*_LISTS, FLAME),
    ),
    *(
        Action((str(place),), f"Sort by {name}", text, f"sort('{name}')", screens=_LISTS)
        for place, (name, text) in enumerate(SORTS.items(), 1)
    ),
    Action(("r",), "Start afresh", "Sum up from now on only; again: the whole window", "reset", "reset", 15),
    Action(("plus", "equals_sign"), "Sample faster", "Twice the sampling rates, in the budget", "rate(2.0)", label="+"),
    Action(("minus",), "Sample slower", "Half the sampling rates", "rate(0.5)", label="-"),
    Action(("left",), "Earlier", "Back in time, through everything kept", "travel(-1)", label="←", screens=_TRAVELLING),
    Action(("right",), "Later", "Forward again; End or Esc: now", "travel(1)", label="→", screens=_TRAVELLING),
    Action(
        ("m",),
        "Mark",
        "Start, then end of a range to look at; or drag over the timeline",
        "mark",
        "mark",
        11,
        screens=_TRAVELLING,
    ),
    Action(
        ("c",),
        "Compare",
        "The last two marked ranges side by side, or the marked one with now",
        "compare",
        "compare",
        12,
        screens=_TRAVELLING,
    ),
    Action(("down", "j"), "Down", "Next row", "move(1)", label="↓", palette=False, screens=_MOVING),
    Action(("up", "k"), "Up", "Row before", "move(-1)", label="↑", palette=False, screens=_MOVING),
    Action(("pagedown",), "Page down", "Next page of rows", "page(1)", label="PgDn", palette=False, screens=_MOVING),
    Action(("pageup",), "Page up", "Page of rows before", "page(-1)", label="PgUp", palette=False, screens=_MOVING),
    Action(("home", "g"), "First row", "First row", "move(-1000000)", label="Home", palette=False, screens=_MOVING),
    Action(
        ("end",), "Now", "Back to now; when it is now, the last row", "end", label="End", palette=False, screens=_MOVING
    ),
    Action(("G",), "Last row", "Last row", "move(1000000)", palette=False, screens=_MOVING),
    Action(("escape",), "Back", "Clears search, filter, cursor, thread or time", "back", label="Esc", palette=False),
    Action(("escape",), "Close", "Back to the overview", "back", "back", 0, "Esc", palette=False, screens=_SHEETS),
    # ------------------------------------------------------------------------------------ source
    Action(
        ("tab", "enter"),
        "Other side",
        "To the source, and back to the list",
        "focus_other",
        "source",
        1,
        "Tab",
        palette=False,
        screens=(SOURCE,),
    ),
    Action(
        ("full_stop", "right_square_bracket"),
        "Next hot line",
        "To the next line down that takes time",
        "hot(1)",
        "next hot line",
        2,
        ".",
        screens=(SOURCE,),
    ),
    Action(
        ("comma", "left_square_bracket"),
        "Hot line before",
        "To the line above that takes time",
        "hot(-1)",
        label=",",
        screens=(SOURCE,),
    ),
    Action(
        ("greater_than_sign", "shift+right"),
        "Scroll right",
        "What long lines have on their right",
        "aside(1)",
        label=">",
        palette=False,
        screens=(SOURCE,),
    ),
    Action(
        ("less_than_sign", "shift+left"),
        "Scroll left",
        "Back to where lines begin",
        "aside(-1)",
        label="<",
        palette=False,
        screens=(SOURCE,),
    ),
    # ----------------------------------------------------------------------------------- threads
    Action(
        ("enter",),
        "Look at it",
        "The overview is about this thread",
        "choose",
        "look at it",
        1,
        "Enter",
        palette=False,
        screens=(THREADS,),
    ),
    Action(("o",), "Own threads only", "Hide those of libraries", "own", "own threads", 9, screens=(THREADS,)),
    *(
        Action((str(place),), f"Sort by {name}", text, f"sort('{name}')", palette=False, screens=(THREADS,))
        for place, (name, text) in enumerate(THREAD_SORTS.items(), 1)
    ),
    # ------------------------------------------------------------------------------------- flame
    Action(
        ("enter",),
        "Zoom in",
        "The chosen call fills the width",
        "zoom",
        "zoom",
        1,
        "Enter",
        palette=False,
        screens=(FLAME,),
    ),
    Action(
        ("backspace",),
        "Zoom out",
        "One call less; Esc: all",
        "unzoom",
        "out",
        2,
        "Bksp",
        palette=False,
        screens=(FLAME,),
    ),
    Action(
        ("left",), "Call to the left", "Neighbour on the left", "aside(-1)", label="←", palette=False, screens=(FLAME,)
    ),
    Action(
        ("right",),
        "Call to the right",
        "Neighbour on the right",
        "aside(1)",
        label="→",
        palette=False,
        screens=(FLAME,),
    ),
    Action(("i",), "Invert", "From each function to its callers, and back", "invert", "invert", 4, screens=(FLAME,)),
    Action(("v",), "Colours", "By module, or by what the thread does", "colours", "colours", 6, screens=(FLAME,)),
    # ----------------------------------------------------------------------------------- compare
    Action(("x",), "Swap", "The other range first", "swap", "swap", 1, palette=False, screens=(COMPARE,)),
    # --------------------------------------------------------------------------------------- trace
    Action(
        ("right", "enter", "space"),
        "Next value",
        "The option's next value; Enter: the same",
        "change(1)",
        "change",
        2,
        "→",
        palette=False,
        screens=(TRACE,),
    ),
    Action(
        ("left",), "Value before", "The option's value before", "change(-1)", label="←", palette=False, screens=(TRACE,)
    ),
    Action(
        ("s",), "Snapshot", "Save a trace with these options", "take", "snapshot", 1, palette=False, screens=(TRACE,)
    ),
    # ----------------------------------------------------------------------------- processes, settings
    Action(
        ("enter",),
        "Look at it",
        "The overview is about this process's main thread",
        "choose",
        "look at it",
        1,
        "Enter",
        palette=False,
        screens=(PROCESSES,),
    ),
    Action(
        ("right", "enter", "space"),
        "Next value",
        "The setting's next value; what can be is applied at once",
        "change(1)",
        "change",
        1,
        "→",
        palette=False,
        screens=(SETTINGS,),
    ),
    Action(
        ("left",),
        "Value before",
        "The setting's value before",
        "change(-1)",
        label="←",
        palette=False,
        screens=(SETTINGS,),
    ),
    Action(
        ("s", "ctrl+s"), "Save", "Keep the settings in the file", "save", "save", 2, palette=False, screens=(SETTINGS,)
    ),
)


def on(screen: str) -> list[Action]:
    """Return the actions of a screen, in the order of the help; the app's own work on each."""
    return [action for action in ACTIONS if screen in action.screens and not action.method.startswith(APP)]
