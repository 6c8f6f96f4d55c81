"""The task table: one per runtime, and the only shared state.

Only the host writes it, by applying the records that a core returned once that core has succeeded. Only a task's own
shard makes records of it; one that has ended is nobody's any more, and the queue has it removed when its time is over.
Everything else an actor must remember over a restart (tags, virtual times, turns, bursts) is noted, and kept here beside
the tasks. So any actor can be rebuilt from the table alone.
"""

from collections import OrderedDict
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from actors.errors import UnknownTask
from actors.task import Status, Task

__all__ = ["Noted", "Notes", "Record", "Removed", "Table"]


class Noted(msgspec.Struct, frozen=True, gc=False):
    """What an actor noted while handling one message; a value of None forgets its key.

    >>> Noted("scheduler", {"virtual": 2.5}).values
    {'virtual': 2.5}
    """

    owner: str
    """The address of the actor it belongs to."""
    values: dict[str, Any]
    """Any JSON values by key."""


class Removed(msgspec.Struct, frozen=True, gc=False):
    """An ended task leaves the table.

    >>> Removed("t1").task_id
    't1'
    """

    task_id: str


Record = Task | Noted | Removed


class Notes:
    """An actor's own notes: reads like a mapping, and keeps what was written until the core hands it over.

    >>> notes = Notes("scheduler", {"virtual": 1.0})
    >>> notes["virtual"] += 1.5
    >>> notes.get("virtual"), notes.drain(), notes.drain()
    (2.5, Noted(owner='scheduler', values={'virtual': 2.5}), None)
    >>> notes.within("pool/")["virtual"] = 3.0
    >>> notes.get("pool/virtual")
    3.0
    """

    __slots__ = ("_owner", "_prefix", "_values", "_written")

    def __init__(self, owner: str, saved: Mapping[str, Any] | None = None) -> None:
        self._owner = owner
        self._prefix = ""
        self._values: dict[str, Any] = dict(saved or {})
        self._written: dict[str, Any] = {}

    def within(self, prefix: str) -> "Notes":
        """The same notes, with every key below `prefix`: a room for one part of the actor."""
        room = Notes(self._owner)
        room._prefix = self._prefix + prefix
        room._values, room._written = self._values, self._written
        return room

    def __getitem__(self, key: str) -> Any:
        return self._values[self._prefix + key]

    def __setitem__(self, key: str, value: Any) -> None:
        key = self._prefix + key
        self._values[key] = value
        self._written[key] = value

    def __delitem__(self, key: str) -> None:
        key = self._prefix + key
        del self._values[key]
        self._written[key] = None

    def __contains__(self, key: str) -> bool:
        return self._prefix + key in self._values

    def get(self, key: str, default: Any = None) -> Any:
        """The value noted under `key`, or `default`."""
        return self._values.get(self._prefix + key, default)

    def under(self, prefix: str) -> dict[str, Any]:
        """All that is noted under keys that start with `prefix`, without it, in key order."""
        prefix = self._prefix + prefix
        return {key.removeprefix(prefix): self._values[key] for key in sorted(self._values) if key.startswith(prefix)}

    def drain(self) -> Noted | None:
        """What was written since the last call, or None."""
        if not self._written:
            return None
        written = Noted(self._owner, self._written.copy())
        self._written.clear()
        return written


class Table:
    """Every task of a runtime by id, and every actor's notes.

    >>> table = Table()
    >>> table.apply(Task(id="t1", user="alice", kind="crawl", sequence=1, created_at=0.0, updated_at=0.0, order_at=0.0))
    >>> table["t1"].user, len(table), table.counts[Status.PENDING]
    ('alice', 1, 1)
    """

    def __init__(self) -> None:
        self._tasks: dict[str, Task] = {}
        self._live_by_user: dict[str, set[str]] = {}
        self._pending_by_user: dict[str, int] = {}
        # Swept from the front, where a plain dict would look at every hole that the sweeps before have left.
        self._ended: dict[Status, OrderedDict[str, None]] = {
            status: OrderedDict() for status in Status if status.terminal
        }
        self._notes: dict[str, dict[str, Any]] = {}
        self.counts: dict[Status, int] = dict.fromkeys(Status, 0)
        """How many tasks stand where."""
        self.removed = 0
        """How many ended tasks were removed."""

    def __len__(self) -> int:
        return len(self._tasks)

    def __iter__(self) -> Iterator[Task]:
        return iter(self._tasks.values())

    def __getitem__(self, task_id: str) -> Task:
        try:
            return self._tasks[task_id]
        except KeyError:
            raise UnknownTask(f"no task has id {task_id!r}") from None

    def get(self, task_id: str) -> Task | None:
        """The task's record, or None."""
        return self._tasks.get(task_id)

    def live(self, user: str) -> list[Task]:
        """A user's tasks that have not ended, in order of admission."""
        ids = self._live_by_user.get(user, ())
        return sorted((self._tasks[task_id] for task_id in ids), key=lambda task: task.sequence)

    def live_users(self) -> list[str]:
        """The users with a task that has not ended, sorted."""
        return sorted(self._live_by_user)

    def pending(self, user: str) -> int:
        """How many of a user's tasks wait, delayed ones included."""
        return self._pending_by_user.get(user, 0)

    def running(self, user: str) -> int:
        """How many of a user's tasks run."""
        return len(self._live_by_user.get(user, ())) - self.pending(user)

    def ended(self, status: Status) -> Iterator[Task]:
        """The tasks that ended so, in the order of their ending, which is the order in which they were applied."""
        return (self._tasks[task_id] for task_id in self._ended[status])

    def first_ended(self, status: Status) -> Task | None:
        """Of the tasks that ended so, the one that ended first, or None."""
        return next(self.ended(status), None)

    def dead_letters(self) -> list[Task]:
        """The failed tasks, the one that failed first at the front."""
        return list(self.ended(Status.FAILED))

    def notes(self, owner: str) -> Mapping[str, Any]:
        """What the actor at that address has noted."""
        return self._notes.get(owner, {})

    def apply(self, record: Record) -> None:
        """Make a record the current one. For the host alone."""
        if type(record) is Task:
            self._apply_task(record)
        elif type(record) is Removed:
            self._apply_removed(record)
        else:
            assert isinstance(record, Noted)
            self._apply_notes(record)

    def _apply_task(self, task: Task) -> None:
        before = self._tasks.get(task.id)
        self._tasks[task.id] = task
        status = task.status
        if before is not None:
            if before.status is status:
                return
            self._leave(before)
        self.counts[status] += 1
        if status is Status.PENDING:
            self._pending_by_user[task.user] = self._pending_by_user.get(task.user, 0) + 1
            self._live_by_user.setdefault(task.user, set()).add(task.id)
        elif status is not Status.IN_PROGRESS:
            self._ended[status][task.id] = None
            if before is not None:
                self._forget_live(task)
        elif before is None:
            self._live_by_user.setdefault(task.user, set()).add(task.id)

    def _leave(self, before: Task) -> None:
        """The task stands no more where this record says."""
        status = before.status
        self.counts[status] -= 1
        if status is Status.PENDING:
            left = self._pending_by_user[before.user] - 1
            if left:
                self._pending_by_user[before.user] = left
            else:
                del self._pending_by_user[before.user]
        elif status is not Status.IN_PROGRESS:
            del self._ended[status][before.id]

    def _apply_removed(self, removed: Removed) -> None:
        task = self._tasks.pop(removed.task_id)
        assert task.status.terminal, "only an ended task is removed"
        self._leave(task)
        self.removed += 1

    def _forget_live(self, task: Task) -> None:
        live = self._live_by_user[task.user]
        live.discard(task.id)
        if not live:
            del self._live_by_user[task.user]

    def _apply_notes(self, noted: Noted) -> None:
        notes = self._notes.get(noted.owner)
        if notes is None:
            notes = self._notes[noted.owner] = {}
        notes.update(noted.values)
        if None in noted.values.values():
            for key in [key for key, value in noted.values.items() if value is None]:
                del notes[key]
