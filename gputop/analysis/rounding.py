"""Shares rounded so that what is printed of a whole still adds up."""

from __future__ import annotations

from collections.abc import Mapping


def rounded(shares: Mapping[str, float], digits: int) -> dict[str, float]:
    """Return shares with so many digits after the point; their sum is what the exact sum rounds to.

    Each is cut to its last digit, and the units missing from the sum go to those that lost most by that (method of the
    largest remainder, as seats are given to parties). So each is less than one unit off.
    """
    scale = 10.0**digits
    exact = {name: share * scale for name, share in shares.items()}
    units = {name: int(amount) for name, amount in exact.items()}
    missing = round(sum(exact.values())) - sum(units.values())
    for name in sorted(exact, key=lambda name: units[name] - exact[name])[: max(missing, 0)]:
        units[name] += 1
    return {name: count / scale for name, count in units.items()}
