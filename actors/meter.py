"""The meter: counts what happens, and how long tasks waited, at little cost.

Events are only put down when they happen, and counted a thousand at a time, or when somebody asks.

Every event is counted by its type. Waits go into a histogram whose buckets are an eighth of a doubling wide, so that a
percentile is right to within a twentieth; it and the counts of the last minutes come in windows of a minute, of which the
last five are kept: "the last minutes" are the last four, and as much of the fifth as the current one is not over yet.
"""

import math
from bisect import bisect_left
from collections import Counter, deque
from collections.abc import Iterable, Mapping
from operator import attrgetter
from typing import get_args

import attrs

from actors.trace import Completed, DeadLettered, Event, Started

__all__ = ["Meter", "NeverRan", "WaitHistogram"]

WINDOW_SECONDS = 60.0
WINDOWS = 5

_COUNTED_AT_ONCE = 1_000
_at = attrgetter("at")

_SMALLEST_SECONDS = 1e-6
_BUCKETS_PER_DOUBLING = 8
_BUCKETS = 60 * _BUCKETS_PER_DOUBLING
"""Up to thirty thousand years: nobody waits longer."""


class WaitHistogram:
    """How many waits there were of about each length.

    >>> waits = WaitHistogram()
    >>> for milliseconds in range(1, 101):
    ...     waits.add(milliseconds / 1000)
    >>> round(waits.percentile(0.5), 3), round(waits.percentile(0.99), 3), WaitHistogram().percentile(0.5)
    (0.048, 0.097, None)
    """

    __slots__ = ("buckets",)

    def __init__(self) -> None:
        self.buckets = [0] * (_BUCKETS + 1)

    def add(self, seconds: float) -> None:
        """Count a wait."""
        if seconds <= _SMALLEST_SECONDS:
            self.buckets[0] += 1
        else:
            bucket = 1 + int(_BUCKETS_PER_DOUBLING * math.log2(seconds / _SMALLEST_SECONDS))
            self.buckets[bucket if bucket < _BUCKETS else _BUCKETS] += 1

    def percentile(self, part: float) -> float | None:
        """The wait that this part of the waits did not exceed, or None if there were none."""
        wanted = math.ceil(part * sum(self.buckets))
        for bucket, count in enumerate(self.buckets):
            wanted -= count
            if count and wanted <= 0:
                return _SMALLEST_SECONDS * 2 ** ((bucket - 0.5) / _BUCKETS_PER_DOUBLING) if bucket else 0.0
        return None

    @classmethod
    def together(cls, parts: "Iterable[WaitHistogram]") -> "WaitHistogram":
        """All waits of several histograms."""
        sums = cls()
        sums.buckets = [sum(counts) for counts in zip(sums.buckets, *(part.buckets for part in parts), strict=True)]
        return sums


class NeverRan:
    """Counted beside `DeadLettered`, for a dead letter that was not running: it expired, or had to make room."""


@attrs.frozen
class _Window:
    began_at: float
    counts: dict[type, int]
    """What had been counted when it began."""
    waits: WaitHistogram = attrs.Factory(WaitHistogram)


class Meter:
    """Counts every event, and waits."""

    def __init__(self, now: float) -> None:
        self.began_at = now
        self._counts: Counter[type] = Counter(dict.fromkeys((*get_args(Event), NeverRan), 0))
        self._windows: deque[_Window] = deque([_Window(now, dict(self._counts))], maxlen=WINDOWS)
        self._waits = self._windows[-1].waits
        self._turns_at = now + WINDOW_SECONDS
        self._uncounted: list[Event] = []

    @property
    def counts(self) -> Mapping[type, int]:
        """How many events of each type there were."""
        self._count_all()
        return self._counts

    def on_event(self, event: Event) -> None:
        """Something happened."""
        self._uncounted.append(event)
        if len(self._uncounted) >= _COUNTED_AT_ONCE:
            self._count_all()

    def recent(self, now: float, *kinds: type) -> int:
        """How many events of these types there were in the last minutes."""
        self._turn_if_due(now)
        return sum(self._counts[kind] - self._windows[0].counts[kind] for kind in kinds)

    def completed_per_second(self, now: float) -> float:
        """How many tasks were completed a second, over the last minutes."""
        completed = self.recent(now, Completed)
        return completed / max(now - self._windows[0].began_at, 1e-3)

    def wait_percentile(self, now: float, part: float) -> float | None:
        """The wait that this part of the tasks of the last minutes did not exceed."""
        self._turn_if_due(now)
        return WaitHistogram.together(window.waits for window in self._windows).percentile(part)

    def _count_all(self) -> None:
        """Each in the window of its time; events come in order."""
        while (events := self._uncounted) and events[-1].at >= self._turns_at:
            rest = bisect_left(events, self._turns_at, key=_at)
            self._count(events[:rest])
            del events[:rest]
            self._turn(events[0].at)
        self._count(events)
        events.clear()

    def _count(self, events: list[Event]) -> None:
        self._counts.update(map(type, events))
        for event in events:
            if type(event) is Started:
                if event.waited_seconds is not None:
                    self._waits.add(event.waited_seconds)
            elif type(event) is DeadLettered and event.worker is None:
                self._counts[NeverRan] += 1

    def _turn_if_due(self, now: float) -> None:
        self._count_all()
        if now >= self._turns_at:
            self._turn(now)

    def _turn(self, now: float) -> None:
        """Begin a new window; after a pause of several, the empty ones between too, each in its time."""
        over = int((now - self._turns_at) // WINDOW_SECONDS)
        for number in range(max(0, over + 1 - WINDOWS), over + 1):
            self._windows.append(_Window(self._turns_at + number * WINDOW_SECONDS, dict(self._counts)))
        self._waits = self._windows[-1].waits
        self._turns_at = self._windows[-1].began_at + WINDOW_SECONDS
