"""A quantity over time that grows or falls along straight lines: service that was given, say, second by second."""

from array import array
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence

import attrs

__all__ = ["Curve", "furthest_below", "steps"]


@attrs.define(eq=False)
class Curve:
    """Straight lines from point to point: flat at the first value before the first point, and at the last after the last.

    >>> curve = Curve()
    >>> curve.add(0.0, 0.0); curve.add(10.0, 5.0)
    >>> curve.at(-1.0), curve.at(4.0), curve.at(99.0)
    (0.0, 2.0, 5.0)
    """

    times: "array[float]" = attrs.Factory(lambda: array("d"))
    """When each point is; two at one time are a jump."""
    values: "array[float]" = attrs.Factory(lambda: array("d"))

    def add(self, at: float, value: float) -> None:
        """One more point, no earlier than the last."""
        self.times.append(at)
        self.values.append(value)

    def at(self, time: float) -> float:
        """What it is at this time; where it jumps, after the jump."""
        place = bisect_right(self.times, time)
        if place == 0:
            return self.values[0] if self.values else 0.0
        began_at, began = self.times[place - 1], self.values[place - 1]
        if place == len(self.times):
            return began
        part = (time - began_at) / (self.times[place] - began_at)
        return began + part * (self.values[place] - began)

    def along(self, times: Sequence[float]) -> Iterator[float]:
        """What it is at each of these times, which rise: as `at`, with one way along the curve for all of them."""
        place, count = 0, len(self.times)
        value, slope, since = (self.values[0] if count else 0.0), 0.0, 0.0
        for time in times:
            if place < count and self.times[place] <= time:
                while place < count and self.times[place] <= time:
                    place += 1
                value, since = self.values[place - 1], self.times[place - 1]
                slope = 0.0
                if place < count:
                    slope = (self.values[place] - value) / (self.times[place] - since)
            yield value + slope * (time - since)

    @property
    def last(self) -> float:
        """What it came to."""
        return self.values[-1] if self.values else 0.0


def furthest_below(curve: Curve, other: Curve) -> tuple[float, float]:
    """By how much the curve is ever below the other, and when it is so for the first time; 0 if it never is.

    The difference of two curves that do not jump bends only where one of them does, so a look at each bend is enough.

    >>> slow, fast = Curve(), Curve()
    >>> slow.add(0.0, 0.0); slow.add(10.0, 5.0)
    >>> fast.add(0.0, 0.0); fast.add(4.0, 4.0); fast.add(10.0, 5.0)
    >>> furthest_below(slow, fast)
    (2.0, 4.0)
    """
    bends = sorted({*curve.times, *other.times})
    worst, when = 0.0, 0.0
    for at, value, wanted in zip(bends, curve.along(bends), other.along(bends), strict=True):
        if wanted - value > worst:
            worst, when = wanted - value, at
    return worst, when


def steps(changes: Iterable[tuple[float, int]]) -> Iterator[tuple[float, int]]:
    """The count after each time at which it changes, from changes in any order; what comes and goes at once is not seen.

    >>> list(steps([(1.0, 1), (3.0, -1), (3.0, 1), (5.0, -1)]))
    [(1.0, 1), (5.0, 0)]
    """
    count, seen, last_at = 0, 0, 0.0
    for at, change in sorted(changes):
        if at != last_at and count != seen:
            yield last_at, count
            seen = count
        last_at = at
        count += change
    if count != seen:
        yield last_at, count
