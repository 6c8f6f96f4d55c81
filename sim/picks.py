"""I10, which task a shard should start: by rules of its own, which share with the cores only the policy's key and rank.

What starts must be the first of all kinds that its worker could choose from: critical tasks before the rest, but no more
than a burst of them in a row while others wait. The policy is asked for a key only where the order does not follow from who
came first.
"""

from collections.abc import Iterable, Sequence

import msgspec

from actors.policies.ordering import Aging, Arrival, OrderingPolicy, Strict, as_moving
from actors.task import Priority, Task
from actors.trace import Admitted
from sim.entries import CRITICAL, Entry, Line, Shelf

__all__ = ["PICK", "Picks"]

PICK = "I10 pick"

_BY_ARRIVAL = (Aging, Strict, Arrival)
"""Orders in which, of one level, whoever came first is first."""

_LEVELS = {int(level): level for level in Priority}


class Picks:
    """What an ordering policy makes of tasks, and what speaks against a start."""

    def __init__(self, order: OrderingPolicy, burst_max: int | None) -> None:
        self._order = order
        self._moving = as_moving(order)
        self._by_arrival = type(order) in _BY_ARRIVAL
        self._burst_max = burst_max

    def entry_of(self, event: Admitted, line: Line) -> Entry:
        """The entry of a task that was just admitted, to that line."""
        user, level, order_at = event.user, event.level, event.order_at
        sequence = int(event.task[len(user) + 1 :])
        task = None
        key = order_at
        if not self._by_arrival and level != CRITICAL:
            task = _task_of(
                event.task, event.user, event.kind, sequence, event.at, order_at, level, event.expires_at, event.cost
            )
            key = self._order.key(task)
            if event.expires_at is None and self._moving is None:
                task = None
        return Entry(line, user, event.kind, level, order_at, sequence, key, event.cost, event.max_retries, task)

    def put_back_by_hand(self, entry: Entry) -> None:
        """An operator wants the task: it neither expires nor is to be cancelled any more."""
        entry.unwanted = False
        if entry.task is not None:
            entry.task = msgspec.structs.replace(entry.task, expires_at=None)
            entry.key = self._order.key(entry.task)

    def faults(self, entry: Entry, shelf: Shelf, heads: Iterable[Entry], now: float) -> Sequence[str]:
        """What is wrong with starting this task for a worker that could choose from these, the first of their lines."""
        critical = self._next([head for head in heads if head.level == CRITICAL], now)
        ordinary = self._next([head for head in heads if head.level != CRITICAL], now)
        is_critical = entry.level == CRITICAL
        expected = critical if is_critical else ordinary
        faults = [] if expected is entry else [f"was started before #{expected.sequence if expected else None}"]
        bound = self._burst_max
        if is_critical:
            shelf.burst += ordinary is not None
            if any(line.ready for line in shelf.lines.values() if line.level != CRITICAL):
                shelf.burst_at_most += 1
            else:
                shelf.burst = shelf.burst_at_most = 0
            if bound is not None and shelf.burst > bound:
                faults.append(f"is critical number {shelf.burst} in a row of {bound}")
        else:
            if critical is not None and (bound is None or shelf.burst_at_most < bound):
                faults.append("was started before a critical task")
            shelf.burst = shelf.burst_at_most = 0
        return faults

    def _next(self, heads: Sequence[Entry], now: float) -> Entry | None:
        """Which should start first, of these."""
        if len(heads) < 2:
            return heads[0] if heads else None
        return min(heads, key=lambda head: (self._rank(head, now), head.key, head.order_at, head.sequence))

    def _rank(self, head: Entry, now: float) -> float:
        if head.level == CRITICAL:
            return 0.0
        if self._moving is not None:
            assert head.task is not None, "it is kept where ranks move"
            return self._moving.rank(head.task, now)
        if not self._by_arrival:
            return 0.0
        if head.rank is None:
            task = _task_of(
                head.name,
                head.user,
                head.kind,
                head.sequence,
                head.order_at,
                head.order_at,
                head.level,
                None,
                head.cost,
            )
            head.rank = self._order.key(task)
        return head.rank


def _task_of(
    name: str,
    user: str,
    kind: str,
    sequence: int,
    at: float,
    order_at: float,
    level: int,
    expires_at: float | None,
    cost: float,
) -> Task:
    return Task(
        id=name,
        user=user,
        kind=kind,
        sequence=sequence,
        created_at=at,
        updated_at=at,
        order_at=order_at,
        priority=_LEVELS[level],
        expires_at=expires_at,
        cost=cost,
    )
