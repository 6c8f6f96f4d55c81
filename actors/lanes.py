"""Lanes: the heaps a shard keeps its waiting tasks in.

An entry is live while the table still holds the very record it was made for; a task that was claimed, cancelled or
expired leaves a dead entry behind, which is skipped when it comes up. A lane knows how many of its entries are live, and
once most are dead it is rebuilt without them: so a dead entry costs amortised O(log n), and `health` is honest.
"""

from collections.abc import Callable
from heapq import heapify, heappop, heappush
from typing import Any

from actors.task import Task

__all__ = ["Lane"]

_COMPACT_MIN = 64

Entry = tuple[Any, float, int, Task]
"""Key, then `order_at`, then sequence: no two entries are equal before the task is reached."""


class Lane:
    """Tasks in the order of a key that does not change while they wait.

    >>> lane = Lane(lambda task: True)
    >>> task = Task(id="t", user="alice", kind="crawl", sequence=1, created_at=0.0, updated_at=0.0, order_at=0.0)
    >>> lane.push(5.0, task)
    >>> lane.head() is task, len(lane), lane.health
    (True, 1, 1.0)
    """

    __slots__ = ("_entries", "_is_live", "_live")

    def __init__(self, is_live: Callable[[Task], bool]) -> None:
        self._is_live = is_live
        self._entries: list[Entry] = []
        self._live = 0

    def __len__(self) -> int:
        """How many live tasks there are."""
        return self._live

    @property
    def entries(self) -> int:
        """How many entries there are, live or dead."""
        return len(self._entries)

    @property
    def health(self) -> float:
        """Live entries as a part of all; 1 when empty."""
        return self._live / len(self._entries) if self._entries else 1.0

    def push(self, key: Any, task: Task) -> None:
        """Put a task in its place."""
        heappush(self._entries, (key, task.order_at, task.sequence, task))
        self._live += 1

    def first(self) -> Entry | None:
        """The entry of the task that comes first, or None. Drops the dead ones before it."""
        entries = self._entries
        if not self._live:
            entries.clear()
            return None
        while not self._is_live(entries[0][3]):
            heappop(entries)
        return entries[0]

    def head(self) -> Task | None:
        """The task that comes first, or None."""
        first = self.first()
        return first[3] if first is not None else None

    def pop(self) -> None:
        """Remove the task that `first` has just shown."""
        heappop(self._entries)
        self._live -= 1

    def forget(self) -> None:
        """One of the tasks is live no more; its entry is skipped when it comes up, or swept with many others."""
        self._live -= 1
        if len(self._entries) > 2 * self._live + _COMPACT_MIN:
            self._entries = [entry for entry in self._entries if self._is_live(entry[3])]
            heapify(self._entries)
