"""The task table: one per runtime, and the only shared state.

Only the host writes it, by applying the records that a core returned once that core has succeeded. Only a task's own
shard makes records of it; one that has ended is nobody's any more, and the queue has it removed when its time is over.
Everything else an actor must remember over a restart (tags, virtual times, turns, bursts) is noted, and kept here beside
the tasks. So any actor can be rebuilt from the table alone.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import Any

import msgspec

from actors.errors import UnknownTask
from actors.task import COMPLETED, FAILED, IN_PROGRESS, PENDING, Priority, Status, Task

__all__ = ["Noted", "Notes", "Record", "Removed", "Table"]


_COMPACT_MIN = 64


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
    >>> notes.get("virtual"), notes.hand_over(), notes.written
    (2.5, Noted(owner='scheduler', values={'virtual': 2.5}), {})
    >>> notes.within("pool/")["virtual"] = 3.0
    >>> notes.get("pool/virtual")
    3.0
    """

    __slots__ = ("_owner", "_values", "prefix", "written")

    def __init__(self, owner: str, saved: Mapping[str, Any] | None = None) -> None:
        self._owner = owner
        self._values = dict(saved or {})
        self.written: dict[str, Any] = {}
        """What was written since it was last handed over."""
        self.prefix = ""
        """What every key here begins with in the actor's notes."""

    def within(self, prefix: str) -> "Notes":
        """The same notes, with every key below `prefix`: a room for one part of the actor."""
        room = Notes(self._owner)
        room._values, room.written, room.prefix = self._values, self.written, self.prefix + prefix
        return room

    def __getitem__(self, key: str) -> Any:
        return self._values[self.prefix + key]

    def __setitem__(self, key: str, value: Any) -> None:
        self.put(self.prefix + key, value)

    def put(self, whole_key: str, value: Any) -> None:
        """Write under a key that has the prefix already: for those who write it often."""
        self._values[whole_key] = self.written[whole_key] = value

    def __delitem__(self, key: str) -> None:
        key = self.prefix + key
        del self._values[key]
        self.written[key] = None

    def __contains__(self, key: str) -> bool:
        return self.prefix + key in self._values

    def get(self, key: str, default: Any = None) -> Any:
        """The value noted under `key`, or `default`."""
        return self._values.get(self.prefix + key, default)

    def under(self, prefix: str) -> dict[str, Any]:
        """All that is noted under keys that start with `prefix`, without it, in key order."""
        prefix, values = self.prefix + prefix, self._values
        return {key.removeprefix(prefix): values[key] for key in sorted(values) if key.startswith(prefix)}

    def hand_over(self) -> Noted:
        """What was written since the last call."""
        noted = Noted(self._owner, self.written.copy())
        self.written.clear()
        return noted


class _Owner:
    """A user with tasks that have not ended."""

    __slots__ = ("ids", "pending")

    def __init__(self) -> None:
        self.ids: set[str] = set()
        self.pending = 0


class Table:
    """Every task of a runtime by id, and every actor's notes.

    >>> table = Table()
    >>> table.apply(Task(id="t1", user="alice", kind="crawl", sequence=1, created_at=0.0, updated_at=0.0, order_at=0.0))
    >>> table["t1"].user, len(table), table.counts[Status.PENDING]
    ('alice', 1, 1)
    """

    def __init__(self) -> None:
        self._live: dict[str, Task] = {}
        """In the order of admission, except for those that an operator put back."""
        self._ended: dict[str, Task] = {}
        self._in_order: dict[Status, deque[Task]] = {status: deque() for status in Status if status.terminal}
        """In the order of their ending; who was removed or put back since is skipped."""
        self._owners: dict[str, _Owner] = {}
        self._tallies: dict[tuple[str, str, Priority], dict[Status, int]] = {}
        self._running: dict[str, int] = {}
        """How many tasks of each kind run."""
        self._leases: dict[str, deque[Task]] = {}
        """What runs, by kind, in the order in which the leases began; who ended or beat since is skipped."""
        self._service: dict[str, tuple[int, float]] = {}
        """How many tasks of each kind were completed, and the seconds that took."""
        self._notes: dict[str, dict[str, Any]] = {}
        self.counts: dict[Status, int] = dict.fromkeys(Status, 0)
        """How many tasks stand where."""
        self.removed = 0
        """How many ended tasks were removed."""

    def __len__(self) -> int:
        return len(self._live) + len(self._ended)

    def __iter__(self) -> Iterator[Task]:
        """Every task, in the order of admission."""
        return iter(sorted(chain(self._ended.values(), self._live.values()), key=lambda task: task.sequence))

    def __getitem__(self, task_id: str) -> Task:
        task = self._live.get(task_id) or self._ended.get(task_id)
        if task is None:
            raise UnknownTask(f"no task has id {task_id!r}")
        return task

    def get(self, task_id: str) -> Task | None:
        """The task's record, or None."""
        return self._live.get(task_id) or self._ended.get(task_id)

    # Those that have not ended

    def every_live(self) -> Iterable[Task]:
        """Every task that has not ended, in the order of admission, except for those that an operator put back."""
        return self._live.values()

    def live(self, user: str) -> list[Task]:
        """A user's tasks that have not ended, in order of admission."""
        owner = self._owners.get(user)
        if owner is None:
            return []
        return sorted((self._live[task_id] for task_id in owner.ids), key=lambda task: task.sequence)

    def live_users(self) -> list[str]:
        """The users with a task that has not ended, sorted."""
        return sorted(self._owners)

    def pending(self, user: str) -> int:
        """How many of a user's tasks wait, delayed ones included."""
        owner = self._owners.get(user)
        return 0 if owner is None else owner.pending

    def running(self, user: str) -> int:
        """How many of a user's tasks run."""
        owner = self._owners.get(user)
        return 0 if owner is None else len(owner.ids) - owner.pending

    # Those that run

    def is_leased(self, kind: str) -> bool:
        """Whether any task of a kind runs."""
        return self._running.get(kind, 0) > 0

    def leases(self, kind: str) -> Iterator[Task]:
        """The running tasks of a kind, in the order in which their leases end.

        All leases of a kind are of one length, so they end in the order in which they began.
        """
        return filter(self._holds, self._leases[kind])

    def _holds(self, leased: Task) -> bool:
        """Whether the lease that began with this record is still the task's."""
        task = self._live.get(leased.id)
        return task is not None and task.token == leased.token and task.lease_until == leased.lease_until

    def leased_kinds(self) -> list[str]:
        """The kinds of which something runs, or ran a short while ago."""
        return list(self._leases)

    # Those that have ended

    def ended(self, status: Status) -> Iterator[Task]:
        """The tasks that ended so, in the order of their ending, which is the order in which they were applied."""
        ended = self._ended
        return (task for task in self._in_order[status] if ended.get(task.id) is task)

    def first_ended(self, status: Status) -> Task | None:
        """Of the tasks that ended so, the one that ended first, or None."""
        in_order = self._in_order[status]
        while in_order:
            task = in_order[0]
            if self._ended.get(task.id) is task:
                return task
            in_order.popleft()
        return None

    def dead_letters(self) -> list[Task]:
        """The failed tasks, the one that failed first at the front."""
        return list(self.ended(FAILED))

    # Whoever wants to know

    def tallies(self) -> Mapping[tuple[str, str, Priority], Mapping[Status, int]]:
        """How many tasks of each user, kind and level stand where."""
        return self._tallies

    def mean_seconds(self, kind: str) -> float | None:
        """The mean time that tasks of a kind took to be completed, or None if none was."""
        count, seconds = self._service.get(kind, (0, 0.0))
        return seconds / count if count else None

    def notes(self, owner: str) -> Mapping[str, Any]:
        """What the actor at that address has noted."""
        return self._notes.get(owner, {})

    # For the host alone

    def apply(self, record: Record) -> None:
        """Make a record the current one."""
        self.apply_all((record,))

    def apply_all(self, records: Iterable[Record]) -> None:
        """Make these records the current ones."""
        for record in records:
            if type(record) is Task:
                self._apply_task(record)
            elif type(record) is Noted:
                self._apply_notes(record.owner, record.values)
            else:
                assert type(record) is Removed
                self._apply_removed(record)

    def _apply_task(self, task: Task) -> None:
        status = task.status
        before = self._live.get(task.id)
        if before is None:
            tally = self._tally(task)
            self._enter(task, tally)
        elif before.status is status:
            self._live[task.id] = task
            if task.lease_until != before.lease_until:
                self._lease(task)
            return
        else:
            tally = self._tally(task)
            self.counts[before.status] -= 1
            tally[before.status] -= 1
            if before.status is PENDING:
                self._owners[before.user].pending -= 1
            else:
                self._running[before.kind] -= 1
        self.counts[status] += 1
        tally[status] += 1
        if status is PENDING:
            self._live[task.id] = task
            self._owners[task.user].pending += 1
        elif status is IN_PROGRESS:
            self._live[task.id] = task
            self._running[task.kind] = self._running.get(task.kind, 0) + 1
            self._lease(task)
        else:
            self._end(task)

    def _tally(self, task: Task) -> dict[Status, int]:
        key = (task.user, task.kind, task.priority)
        tally = self._tallies.get(key)
        if tally is None:
            tally = self._tallies[key] = dict.fromkeys(Status, 0)
        return tally

    def _enter(self, task: Task, tally: dict[Status, int]) -> None:
        """The task is new, or comes back from among those that have ended."""
        before = self._ended.pop(task.id, None)
        if before is not None:
            self.counts[before.status] -= 1
            tally[before.status] -= 1
        owner = self._owners.get(task.user)
        if owner is None:
            owner = self._owners[task.user] = _Owner()
        owner.ids.add(task.id)

    def _end(self, task: Task) -> None:
        task_id, status = task.id, task.status
        self._live.pop(task_id, None)
        self._ended[task_id] = task
        in_order = self._in_order[status]
        in_order.append(task)
        if len(in_order) > 2 * self.counts[status] + _COMPACT_MIN:
            self._in_order[status] = deque(self.ended(status))
        ids = self._owners[task.user].ids
        ids.discard(task_id)
        if not ids:
            del self._owners[task.user]
        if status is COMPLETED and (used := task.completed_at - task.started_at) > 0:  # type: ignore[operator]
            count, seconds = self._service.get(task.kind, (0, 0.0))
            self._service[task.kind] = (count + 1, seconds + used)

    def _lease(self, task: Task) -> None:
        leases = self._leases.get(task.kind)
        if leases is None:
            leases = self._leases[task.kind] = deque()
        leases.append(task)
        if len(leases) > 2 * self.counts[IN_PROGRESS] + _COMPACT_MIN:
            self._leases[task.kind] = deque(self.leases(task.kind))

    def _apply_removed(self, removed: Removed) -> None:
        assert removed.task_id in self._ended, "only an ended task is removed"
        task = self._ended.pop(removed.task_id)
        tally = self._tally(task)
        self.counts[task.status] -= 1
        tally[task.status] -= 1
        if not any(tally.values()):
            del self._tallies[task.user, task.kind, task.priority]
        self.removed += 1

    def _apply_notes(self, owner: str, values: Mapping[str, Any]) -> None:
        notes = self._notes.get(owner)
        if notes is None:
            notes = self._notes[owner] = {}
        notes.update(values)
        if None in values.values():
            for key, value in values.items():
                if value is None:
                    del notes[key]
