"""Lanes: the heaps a shard keeps its waiting tasks in.

An entry is live while the table still holds the very record it was made for; a task that was claimed, cancelled or
expired leaves a dead entry behind, which is skipped when it comes up. A lane knows how many of its entries are live, and
once most are dead it is rebuilt without them: so a dead entry costs amortised O(log n), and `health` is honest.

Ready tasks lie in one lane for each kind, so that a kind which nobody can run never hides another. If the order moves,
they lie in one for each kind and level, whose heads are ranked at the time of the pick: a push costs O(log n), a pick
O(kinds), or O(kinds * levels) if the order moves.
"""

from collections.abc import Callable, Container, Iterator
from heapq import heapify, heappop, heappush
from typing import Any

from actors.policies.ordering import MovingOrder, OrderingPolicy, as_moving
from actors.task import Priority, Task

__all__ = ["KindLanes", "Lane", "Lanes", "LevelLanes", "lanes_in"]

_COMPACT_MIN = 64

Entry = tuple[Any, float, int, int, Task]
"""Key, then `order_at`, sequence and token: no two entries are equal before the task is reached, for a task that comes
back beside its own dead entry was claimed or requeued since."""


class Lane:
    """Tasks in the order of a key that does not change while they wait.

    >>> lane = Lane(lambda task: True)
    >>> task = Task(id="t", user="alice", kind="crawl", sequence=1, created_at=0.0, updated_at=0.0, order_at=0.0)
    >>> lane.push(5.0, task)
    >>> lane.head() is task, len(lane), lane.health
    (True, 1, 1.0)
    """

    __slots__ = ("_entries", "_is_live", "live")

    def __init__(self, is_live: Callable[[Task], bool]) -> None:
        self._is_live = is_live
        self._entries: list[Entry] = []
        self.live = 0
        """How many live tasks there are."""

    def __len__(self) -> int:
        return self.live

    @property
    def entries(self) -> int:
        """How many entries there are, live or dead."""
        return len(self._entries)

    @property
    def health(self) -> float:
        """Live entries as a part of all; 1 when empty."""
        return self.live / len(self._entries) if self._entries else 1.0

    def push(self, key: Any, task: Task) -> None:
        """Put a task in its place."""
        heappush(self._entries, (key, task.order_at, task.sequence, task.token, task))
        self.live += 1

    def first(self) -> Entry | None:
        """The entry of the task that comes first, or None. Drops the dead ones before it."""
        entries = self._entries
        if not self.live:
            entries.clear()
            return None
        if len(entries) > self.live:
            while not self._is_live(entries[0][-1]):
                heappop(entries)
        return entries[0]

    def head(self) -> Task | None:
        """The task that comes first, or None."""
        first = self.first()
        return first[-1] if first is not None else None

    def pop(self) -> Task:
        """Remove the task that `first` has just shown, and hand it over."""
        task = heappop(self._entries)[-1]
        self.forget()
        return task

    def forget(self) -> None:
        """One of the tasks is live no more; its entry, if there is one, is skipped when it comes up, or swept with many."""
        self.live -= 1
        if len(self._entries) > 2 * self.live + _COMPACT_MIN:
            self._entries = [entry for entry in self._entries if self._is_live(entry[-1])]
            heapify(self._entries)


class KindLanes:
    """Ready tasks in an order that stands still: one lane for each kind.

    >>> from actors.policies.ordering import Arrival
    >>> lanes = KindLanes(Arrival(), lambda task: True)
    >>> lanes.push(
    ...     Task(id="t", user="alice", kind="crawl", sequence=1, created_at=0.0, updated_at=0.0, order_at=0.0)
    ... )
    >>> lanes.count("crawl"), lanes.best({"mail"}, now=1.0), lanes.best({"crawl"}, now=1.0).pop().id
    (1, None, 't')
    """

    __slots__ = ("_is_live", "_key", "by_kind")

    def __init__(self, order: OrderingPolicy, is_live: Callable[[Task], bool]) -> None:
        self._key = order.key
        self._is_live = is_live
        self.by_kind: dict[str, Lane] = {}
        """The kinds that have a lane, empty or not."""

    def __iter__(self) -> Iterator[Lane]:
        return iter(self.by_kind.values())

    def push(self, task: Task) -> None:
        """Put a task in its place."""
        lane = self.by_kind.get(task.kind)
        if lane is None:
            lane = self.by_kind[task.kind] = Lane(self._is_live)
        lane.push(self._key(task), task)

    def forget(self, task: Task) -> None:
        """This task is live no more."""
        self.by_kind[task.kind].forget()

    def best(self, kinds: Container[str], now: float) -> Lane | None:
        """The lane whose head comes first among these kinds, or None if they have no task."""
        best: Lane | None = None
        best_entry = None
        for kind, lane in self.by_kind.items():
            if kind in kinds and (entry := lane.first()) is not None and (best_entry is None or entry < best_entry):
                best, best_entry = lane, entry
        return best

    def count(self, kind: str) -> int:
        """How many tasks of this kind there are."""
        lane = self.by_kind.get(kind)
        return lane.live if lane is not None else 0

    def drop(self, kind: str) -> None:
        """This kind has no task left: neither does it need a lane."""
        self.by_kind.pop(kind, None)


class LevelLanes:
    """Ready tasks in an order that moves: one lane for each kind and level, whose heads alone are ranked.

    >>> import msgspec
    >>> from actors.policies.ordering import Accumulating
    >>> lanes = LevelLanes(Accumulating(), lambda task: True)
    >>> for number, level in enumerate((Priority.VERY_LOW, Priority.VERY_HIGH)):
    ...     at = 8.0 * number
    ...     task = Task(id=level.name, user="u", kind="k", sequence=number, created_at=at, updated_at=at, order_at=at)
    ...     lanes.push(msgspec.structs.replace(task, priority=level))
    >>> [lanes.best({"k"}, now).head().id for now in (9.0, 11.0)]
    ['VERY_LOW', 'VERY_HIGH']
    """

    __slots__ = ("_is_live", "_key", "_rank", "by_kind")

    def __init__(self, order: MovingOrder, is_live: Callable[[Task], bool]) -> None:
        self._key, self._rank = order.key, order.rank
        self._is_live = is_live
        self.by_kind: dict[str, dict[Priority, Lane]] = {}
        """The kinds that have lanes, empty or not, and within each the levels."""

    def __iter__(self) -> Iterator[Lane]:
        return (lane for levels in self.by_kind.values() for lane in levels.values())

    def push(self, task: Task) -> None:
        """Put a task in its place."""
        levels = self.by_kind.setdefault(task.kind, {})
        lane = levels.get(task.priority)
        if lane is None:
            lane = levels[task.priority] = Lane(self._is_live)
        lane.push(self._key(task), task)

    def forget(self, task: Task) -> None:
        """This task is live no more."""
        self.by_kind[task.kind][task.priority].forget()

    def best(self, kinds: Container[str], now: float) -> Lane | None:
        """The lane whose head ranks first now among these kinds, or None if they have no task."""
        heads = (
            (self._rank(entry[-1], now), entry, lane)
            for kind, levels in self.by_kind.items()
            if kind in kinds
            for lane in levels.values()
            if (entry := lane.first()) is not None
        )
        # No two entries are equal before the task is reached, so lanes are never compared.
        best = min(heads, default=None)
        return best[2] if best is not None else None

    def count(self, kind: str) -> int:
        """How many tasks of this kind there are."""
        return sum(len(lane) for lane in self.by_kind.get(kind, {}).values())

    def drop(self, kind: str) -> None:
        """This kind has no task left: neither does it need lanes."""
        self.by_kind.pop(kind, None)


Lanes = KindLanes | LevelLanes


def lanes_in(order: OrderingPolicy, is_live: Callable[[Task], bool]) -> Lanes:
    """Lanes for ready tasks in this order."""
    moving = as_moving(order)
    return KindLanes(order, is_live) if moving is None else LevelLanes(moving, is_live)
