"""I11, who may overtake whom inside a shard that is ordered by `aging`.

Of two ordinary tasks that a worker could choose from, j may be started before i only if j's `order_at` is less than
(level of j - level of i) * aging_seconds after that of i; among equal levels the one that came first is first. The shard gets there
by a key for each task. Here nobody computes a key: of each kind and level only the task that has waited longest is
looked at, since whoever may overtake that one may overtake all behind it.
"""

from collections.abc import Container, Sequence
from heapq import heappop, heappush

from actors.policies.ordering import Aging, OrderingPolicy
from actors.task import Priority
from sim.picks import Entry

__all__ = ["OVERTAKING", "Overtaking", "overtaking_of"]

OVERTAKING = "I11 overtaking"

_ROUNDING = 1e-9

Line = list[tuple[float, int, Entry]]


def overtaking_of(order: OrderingPolicy) -> "Overtaking | None":
    """The judge of an order that promises a bound, or None."""
    return Overtaking(order.aging_seconds) if type(order) is Aging else None


class Overtaking:
    """One user's ready tasks that are not critical, in a line for each kind and level."""

    __slots__ = ("_aging_seconds", "_lines")

    def __init__(self, aging_seconds: float) -> None:
        self._aging_seconds = aging_seconds
        self._lines: dict[tuple[str, int], Line] = {}

    def push(self, entry: Entry) -> None:
        """A task is ready."""
        if entry.level != Priority.CRITICAL:
            place = (entry.kind, entry.level)
            line = self._lines.get(place)
            if line is None:
                line = self._lines[place] = []
            heappush(line, (entry.order_at, entry.sequence, entry))

    def faults(self, entry: Entry, kinds: Container[str]) -> Sequence[str]:
        """Whom this task may not overtake, and does by starting now."""
        if entry.level == Priority.CRITICAL:
            return ()
        faults: list[str] = []
        for (kind, level), line in self._lines.items():
            first = _first(line)
            if first is not None and first is not entry and kind in kinds:
                allowed = (entry.level - level) * self._aging_seconds
                later = entry.order_at - first.order_at - allowed
                if allowed:
                    too_much = later >= _ROUNDING * (1 + abs(entry.order_at))
                else:
                    too_much = (first.order_at, first.sequence) < (entry.order_at, entry.sequence)
                if too_much:
                    waits = f"#{first.sequence}, which waits since {first.order_at:g} s"
                    faults.append(f"overtook {waits}, by {later:g} s too much")
        return faults


def _first(line: Line) -> Entry | None:
    """Who has waited longest; those that left are dropped on the way."""
    while line:
        entry = line[0][2]
        if entry.state == "waiting" and entry.run_after is None:
            return entry
        heappop(line)
    return None
