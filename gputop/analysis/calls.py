"""The call tree looked at in other ways: by function instead of line, from the functions up to their callers, searched.

No recursion: Python stacks may be as deep as the program likes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from gputop.analysis.results import FlameNode, States
from gputop.model import Frame

#: What makes two calls from one place the same.
Key = tuple[str, ...]


def key(frame: Frame, by_line: bool = False) -> Key:
    """Return what identifies a call among its siblings."""
    return (frame.name, frame.file, str(frame.line)) if by_line else (frame.name, frame.file)


@dataclass(slots=True)
class _Sum:
    """A call while a tree is put together: seconds here and below by state, here alone, and of its heaviest line."""

    frame: Frame
    time: dict[str, float] = field(default_factory=dict)
    total: float = 0.0
    own: float = 0.0
    heaviest: float = 0.0
    children: dict[Key, _Sum] = field(default_factory=dict)

    def add(self, frame: Frame, seconds: float, own: float, states: States) -> None:
        """Count a node."""
        self.total += seconds
        self.own += own
        for name, share in states.items():
            self.time[name] = self.time.get(name, 0.0) + share * seconds
        if seconds > self.heaviest:
            self.frame, self.heaviest = frame, seconds

    def child(self, frame: Frame, by_line: bool) -> _Sum:
        """Return the node of a call from here, made when missing."""
        return self.children.setdefault(key(frame, by_line), _Sum(frame))


def by_function(root: FlameNode) -> FlameNode:
    """Return the tree with calls of one function from one place as one node, whatever line they are at.

    Such a node has the line that takes most of its time.
    """
    top = _Sum(root.frame)
    waiting = [(root, top)]
    while waiting:
        node, into = waiting.pop()
        into.add(node.frame, node.total, node.self, node.states)
        waiting += [(child, into.child(child.frame, by_line=False)) for child in node.children]
    return _frozen(top)


def inverted(root: FlameNode, *, by_line: bool = False) -> FlameNode:
    """Return the tree from the other end: functions by the time in themselves, below each those that called it."""
    top = _Sum(root.frame)
    for path in _paths(root):
        node = path[-1]
        if node.self <= 0 or len(path) == 1:
            continue
        states = own_states(node)
        top.add(root.frame, node.self, 0.0, states)
        into = top
        for place, caller in enumerate(reversed(path[1:])):
            into = into.child(caller.frame, by_line)
            into.add(caller.frame, node.self, node.self if place == 0 else 0.0, states)
    return _frozen(top)


def without(root: FlameNode, hidden: Callable[[Frame, Frame], bool], *, by_line: bool = False) -> FlameNode:
    """Return the tree without some calls: their own time is their caller's, and what they call is called by it.

    Arguments:
        hidden: tells of a call and of the nearest caller that is kept whether to leave it out.
    """
    top = _Sum(root.frame)
    top.add(root.frame, root.total, root.self, root.states)
    waiting = [(root, top)]
    while waiting:
        node, into = waiting.pop()
        for child in node.children:
            if hidden(child.frame, into.frame):
                into.own += child.self
                waiting.append((child, into))
            else:
                below = into.child(child.frame, by_line)
                below.add(child.frame, child.total, child.self, child.states)
                waiting.append((child, below))
    return _frozen(top)


def own_states(node: FlameNode) -> States:
    """Return what a node's time outside its children went into, as far as the children's times tell."""
    left = {name: share * node.total for name, share in node.states.items()}
    for child in node.children:
        for name, share in child.states.items():
            left[name] = left.get(name, 0.0) - share * child.total
    left = {name: seconds for name, seconds in left.items() if seconds > 1e-9}
    total = sum(left.values())
    return {name: seconds / total for name, seconds in left.items()} if total else node.states


def _paths(root: FlameNode) -> Iterator[list[FlameNode]]:
    """Yield each node with its callers, the root first; the list is the same one each time."""
    path: list[FlameNode] = []
    waiting = [(root, 0)]
    while waiting:
        node, depth = waiting.pop()
        del path[depth:]
        path.append(node)
        yield path
        waiting += [(child, depth + 1) for child in reversed(node.children)]


def _frozen(top: _Sum) -> FlameNode:
    order = [top]
    for node in order:
        order += node.children.values()
    done: dict[int, FlameNode] = {}
    for node in reversed(order):
        children = sorted((done.pop(id(child)) for child in node.children.values()), key=lambda child: -child.total)
        states = {name: seconds / node.total for name, seconds in node.time.items()} if node.total else {}
        done[id(node)] = FlameNode(node.frame, node.total, node.own, states, tuple(children))
    return done[id(top)]


def matched(root: FlameNode, wanted: Callable[[Frame], bool]) -> tuple[int, float]:
    """Return how many nodes below the root are wanted, and the seconds in them and what they call, each second once."""
    count, seconds = 0, 0.0
    waiting = [(child, False) for child in root.children]
    while waiting:
        node, inside = waiting.pop()
        hit = wanted(node.frame)
        count += hit
        if hit and not inside:
            seconds += node.total
        waiting += [(child, inside or hit) for child in node.children]
    return count, seconds
