"""A store in memory: keeps what it is given as long as the object lives, encoded as any other store would.

For tests and simulations. A runtime whose store is `memory` has no store at all, and acknowledges at once.
"""

from collections.abc import Iterator
from itertools import islice
from typing import Any

from actors.stores.contract import Batch, Listing
from actors.stores.encoding import decode_note, encode_note, encode_task, task_decoder
from actors.task import Status, Task

__all__ = ["MemoryStore"]


class MemoryStore:
    """A dictionary of tasks and one of notes.

    >>> store = MemoryStore()
    >>> store.write(Batch(at=5.0, notes={("scheduler", "weight/alice"): 2.0}))
    >>> store.last_at(), list(store.notes())
    (5.0, [('scheduler', 'weight/alice', 2.0)])
    """

    def __init__(self) -> None:
        self.name = "memory"
        self._at = 0.0
        self._tasks: dict[str, bytes] = {}
        self._notes: dict[tuple[str, str], bytes] = {}
        self._decode = task_decoder()

    def last_at(self) -> float:
        return self._at

    def notes(self) -> Iterator[tuple[str, str, Any]]:
        return ((owner, key, decode_note(value)) for (owner, key), value in sorted(self._notes.items()))

    def tasks(self) -> Iterator[Task]:
        return iter(sorted(self._decoded(), key=_restoring_order))

    def write(self, batch: Batch) -> None:
        tasks = {task_id: encode_task(task) for task_id, task in batch.tasks.items()}
        notes = {key: encode_note(value) for key, value in batch.notes.items() if value is not None}
        for task_id in batch.removed:
            self._tasks.pop(task_id, None)
        for key in batch.notes:
            self._notes.pop(key, None)
        self._tasks |= tasks
        self._notes |= notes
        self._at = max(self._at, batch.at)

    def get(self, task_id: str) -> Task | None:
        encoded = self._tasks.get(task_id)
        return None if encoded is None else self._decode(encoded)

    def listed(self, listing: Listing) -> list[Task]:
        fitting = (
            task
            for task in self.tasks()
            if listing.status in (None, task.status)
            and listing.kind in (None, task.kind)
            and listing.user in (None, task.user)
        )
        return list(islice(fitting, listing.offset, listing.offset + listing.limit))

    def counts(self) -> dict[Status, int]:
        counts = dict.fromkeys(Status, 0)
        for task in self._decoded():
            counts[task.status] += 1
        return counts

    def inbox(self) -> None:
        """Nobody else can reach it."""

    def close(self) -> None:
        """What was given stays: the same object can be used again."""

    def _decoded(self) -> Iterator[Task]:
        return map(self._decode, self._tasks.values())


_ENDED = [status for status in Status if status.terminal]


def _restoring_order(task: Task) -> tuple[int, float, int]:
    if task.completed_at is None:
        return (-1, 0.0, task.sequence)
    return (_ENDED.index(task.status), task.completed_at, task.sequence)
