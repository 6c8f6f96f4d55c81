"""What a store is: it keeps a runtime's tasks and notes safe, a batch at a time, all of it or nothing.

A batch says how things stand after what happened since the last one: each task once, with its latest record, and each note
once, with its latest value. So a store writes a task that was submitted, claimed and completed between two commits once.

Not everything that actors note outlives the process. A worker's notes, who waits for whom, the grant that is open and
whoever stands at the door belong to the process; how many tasks each user has inside, and which keys are taken, follow from
the tasks. None of that is stored (`lasting`).
"""

from collections.abc import Iterator
from typing import Any, Protocol

import attrs

from actors.messages import QUEUE, SCHEDULER, SHARD, WORKER, Submit
from actors.task import Status, Task

__all__ = ["Batch", "Inbox", "Listing", "Store", "lasting", "passing_keys"]

_PASSING: dict[str, tuple[str, ...]] = {
    QUEUE: ("wait/", "held/", "key/", "sweep", "drop"),
    SCHEDULER: ("used/", "grant"),
    SHARD: ("await/",),
    WORKER: ("",),
}
"""By the role of an actor, how the keys begin that are not stored."""


def lasting(owner: str, key: str) -> bool:
    """Whether what an actor noted under a key outlives the process.

    >>> lasting("scheduler", "weight/alice"), lasting("scheduler", "grant"), lasting("worker/3", "run")
    (True, False, False)
    """
    return not key.startswith(passing_keys(owner))


def passing_keys(owner: str) -> tuple[str, ...]:
    """How the keys begin under which an actor notes what does not outlive the process.

    >>> passing_keys("shard/alice")
    ('await/',)
    """
    passing = _PASSING.get(owner)
    return _PASSING.get(owner.partition("/")[0], ()) if passing is None else passing


@attrs.define
class Batch:
    """What is made safe together.

    >>> Batch().empty
    True
    """

    at: float = 0.0
    """The time of the runtime that it is; never below that of an earlier batch."""
    tasks: dict[str, Task] = attrs.Factory(dict)
    """Records by task id."""
    removed: dict[str, None] = attrs.Factory(dict)
    """Tasks that are gone: removed before `tasks` are written."""
    notes: dict[tuple[str, str], Any] = attrs.Factory(dict)
    """Values by owner and key; None forgets the key."""
    taken: dict[int, str | None] = attrs.Factory(dict)
    """Numbers of submits that came in through the store itself, which are done with; with why, if they were refused."""

    @property
    def empty(self) -> bool:
        """Whether there is nothing to write."""
        return not (self.tasks or self.removed or self.notes or self.taken)


@attrs.frozen(kw_only=True)
class Listing:
    """Which tasks somebody wants to see.

    >>> Listing(user="alice").status is None
    True
    """

    status: Status | None = None
    kind: str | None = None
    user: str | None = None
    limit: int = 100
    offset: int = 0


class Inbox(Protocol):
    """Where other processes submit into a store."""

    def read(self) -> list[tuple[int, Submit]]:
        """Submits that were not read before, with their numbers, the first at the front; some of them if there are many."""

    def close(self) -> None:
        """Read no more."""


class Store(Protocol):
    """Keeps what it is given. Its calls may block; no two of them come at the same time."""

    name: str
    """What errors call it."""

    def last_at(self) -> float:
        """The time of the last batch, or 0.0 if there was none."""

    def notes(self) -> Iterator[tuple[str, str, Any]]:
        """Every note: owner, key, value."""

    def tasks(self) -> Iterator[Task]:
        """Every task, one after the other: the live ones in the order of admission, then the ended ones of each status in
        the order of their ending."""

    def write(self, batch: Batch) -> None:
        """Make all of it safe, or raise; then it is unknown whether it is."""

    def get(self, task_id: str) -> Task | None:
        """The record of a task, or None."""

    def listed(self, listing: Listing) -> list[Task]:
        """Some of the tasks, in the order of `tasks`."""

    def counts(self) -> dict[Status, int]:
        """How many tasks stand where."""

    def inbox(self) -> Inbox | None:
        """Where others submit, if they can; it may be read while this is written."""

    def close(self) -> None:
        """Let go of everything; no other call follows."""
