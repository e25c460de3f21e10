"""How often a process may be read so that its py-spy stays affordable.

A read costs about as much CPU as the process has threads, from 0.2 ms to 60 ms; and a py-spy that cannot keep up
does not skip reads but works off its backlog at full speed. So the rate follows the cost, guessed before the first
window and measured ever after.
"""

from __future__ import annotations

#: CPU seconds of one read, and of attaching, before anything was measured: for the process, and for each native thread.
#: A thousand threads were seen to take 0.09 and 0.3 s on two shared cores.
_READ, _READ_PER_THREAD = 0.0002, 0.00008
_ATTACH, _ATTACH_PER_THREAD = 0.02, 0.00025
#: Rates are taken from this ladder, so that small changes of the cost change nothing.
_LADDER = (1, 2, 3, 5, 7, 10, 15, 20, 30, 50, 70, 100, 150, 200, 300, 500, 700, 1000)
#: A window holds so many reads, or there would be windows without any.
_READS = 2.2
#: Windows follow each other without a pause while they cost no more than this many times what may be spent.
_CONTINUOUS = 1.5
#: Windows are so long that attaching takes at most this part of what may be spent.
_ATTACH_PART = 0.4
_SHORTEST, _LONGEST = 1.0, 5.0


class Pace:
    """The cost of reading one process, and what follows from it.

    Attributes:
        attach: CPU seconds that attaching takes.
        read: CPU seconds that one read takes.
    """

    def __init__(self, threads: int) -> None:
        self.attach = _ATTACH + _ATTACH_PER_THREAD * threads
        self.read = _READ + _READ_PER_THREAD * threads

    def learn(self, attach_wall: float, cpu_seconds: float, reads: int) -> None:
        """Take in what a window cost, which attached for `attach_wall` seconds and then read `reads` times."""
        if reads < 1:
            return
        attach = min(attach_wall, cpu_seconds / 2)
        self.attach += (attach - self.attach) / 2
        self.read += ((cpu_seconds - attach) / reads - self.read) / 2

    def rate(self, asked: float, share: float) -> int:
        """Return the reads each second, at most `asked`, that cost no more than `share` of a core; at least 1."""
        left = share - self.attach / self.seconds(share)
        affordable = max(left, share / 4) / self.read
        if affordable >= asked:
            return max(1, round(asked))
        return max(step for step in _LADDER if step <= max(affordable, 1))

    def seconds(self, share: float) -> float:
        """Return how long windows shall be."""
        return min(max(self.attach / (_ATTACH_PART * share), _SHORTEST), _LONGEST)

    def pause(self, asked: float, share: float) -> float:
        """Return the seconds between two windows: where even the slowest reading is too dear, the mean is kept."""
        seconds = self.seconds(share)
        cost = self.attach + self.read * self.rate(asked, share) * seconds
        return cost / share - seconds if cost > _CONTINUOUS * share * seconds else 0.0


def until_read(rate: float) -> float:
    """Return the shortest time in which py-spy reads at this rate: its first read is one interval after its start."""
    return _READS / rate
