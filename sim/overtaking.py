"""I11, who may overtake whom inside a shard that is ordered by `aging`.

Of two ordinary tasks that a worker could choose from, j may be started before i only if j's `order_at` is less than
(level of j - level of i) * aging_seconds after that of i; among equal levels the one that came first is first. The shard gets there
by a key for each task. Here nobody computes a key: of each kind and level only the task that has waited longest is
looked at, since whoever may overtake that one may overtake all behind it.
"""

from collections.abc import Iterable, Sequence

from actors.policies.ordering import Aging, OrderingPolicy
from sim.entries import CRITICAL, Entry

__all__ = ["OVERTAKING", "Overtaking", "overtaking_of"]

OVERTAKING = "I11 overtaking"

_ROUNDING = 1e-9


def overtaking_of(order: OrderingPolicy) -> "Overtaking | None":
    """The judge of an order that promises a bound, or None."""
    return Overtaking(order.aging_seconds) if type(order) is Aging else None


class Overtaking:
    """Compares what starts with whoever has waited longest in each line."""

    def __init__(self, aging_seconds: float) -> None:
        self._aging_seconds = aging_seconds

    def faults(self, entry: Entry, heads: Iterable[Entry]) -> Sequence[str]:
        """Whom of these this task may not overtake, and does by starting now."""
        if entry.level == CRITICAL:
            return ()
        faults: list[str] = []
        for first in heads:
            if first is not entry and first.level != CRITICAL:
                allowed = (entry.level - first.level) * self._aging_seconds
                later = entry.order_at - first.order_at - allowed
                if allowed:
                    too_much = later >= _ROUNDING * (1 + abs(entry.order_at))
                else:
                    too_much = (first.order_at, first.sequence) < (entry.order_at, entry.sequence)
                if too_much:
                    waits = f"#{first.sequence}, which waits since {first.order_at:g} s"
                    faults.append(f"overtook {waits}, by {later:g} s too much")
        return faults
