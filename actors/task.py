"""A task, and the only moves it can make.

`TRANSITIONS` is the one place that says what may become of a task: code, tests and the diagram in the docs read it, and
a missing entry *is* the error. A `Task` is a frozen record: a move makes a new record and the old one stays as it was,
so a crash in the middle of a decision changes nothing, and an index entry is live exactly while the table still holds
the very record it was made for.

`Task` is a msgspec struct rather than an attrs class because it is the one thing there are a million of: replacing six
fields costs 0.25 µs against 6 µs for `attrs.evolve`, and a struct outside the garbage collector's sight keeps a long
backlog from slowing every collection. JSON values cannot form cycles, so nothing leaks.
"""

from enum import IntEnum, StrEnum
from typing import Any

import msgspec

from actors.errors import InvalidTask, InvalidTransition
from actors.retry import RetryPolicy

__all__ = [
    "CANCELLED",
    "COMPLETED",
    "CRITICAL",
    "FAILED",
    "IN_PROGRESS",
    "NORMAL",
    "PENDING",
    "TRANSITIONS",
    "Attempt",
    "Cause",
    "Change",
    "Priority",
    "Status",
    "Task",
    "next_status",
]


class Priority(IntEnum):
    """How urgent a task is within its own user's work.

    >>> Priority.parse("high"), Priority.parse(3), Priority.parse("medium")
    (<Priority.HIGH: 4>, <Priority.NORMAL: 3>, <Priority.NORMAL: 3>)
    """

    VERY_LOW = 1
    LOW = 2
    NORMAL = 3
    HIGH = 4
    VERY_HIGH = 5
    CRITICAL = 6

    @classmethod
    def parse(cls, value: "Priority | str | int") -> "Priority":
        """The priority meant by an enum member, a name in any case, or a number."""
        found = None
        if type(value) is cls:
            return value
        if isinstance(value, str):
            found = _PRIORITY_BY_NAME.get(value.lower())
        elif isinstance(value, int) and not isinstance(value, bool):
            found = _PRIORITY_BY_NUMBER.get(value)
        if found is None:
            names = ", ".join(priority.name.lower() for priority in cls)
            raise InvalidTask(f"priority must be one of {names} or 1 to 6, got {value!r}")
        return found


NORMAL, CRITICAL = Priority.NORMAL, Priority.CRITICAL
"""For what runs for every task: to look a member up in its enum costs as much as a function call."""

_PRIORITY_BY_NUMBER = {int(priority): priority for priority in Priority}
_PRIORITY_BY_NAME = {priority.name.lower(): priority for priority in Priority} | {"medium": Priority.NORMAL}


class Status(StrEnum):
    """Where a task stands.

    >>> [str(status) for status in Status if status.terminal]
    ['completed', 'failed', 'cancelled']
    """

    PENDING = "pending"
    IN_PROGRESS = "in_progress"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def terminal(self) -> bool:
        """Whether the task has ended. A failed one may still be requeued by an operator."""
        return self is not PENDING and self is not IN_PROGRESS


PENDING, IN_PROGRESS, COMPLETED, FAILED, CANCELLED = Status
"""As above."""


class Change(StrEnum):
    """What can happen to a task; the value is the past participle that error messages use.

    >>> str(Change.RECOVER)
    'recovered'
    """

    CLAIM = "claimed"
    COMPLETE = "completed"
    RETRY = "retried"
    RECOVER = "recovered"
    RELEASE = "released"
    REQUEUE = "requeued"
    FAIL = "failed"
    EXPIRE = "expired"
    DROP = "dropped"
    CANCEL = "cancelled"


TRANSITIONS: dict[Status, dict[Change, Status]] = {
    Status.PENDING: {
        Change.CLAIM: Status.IN_PROGRESS,
        Change.CANCEL: Status.CANCELLED,
        Change.EXPIRE: Status.FAILED,
        Change.DROP: Status.FAILED,
    },
    Status.IN_PROGRESS: {
        Change.COMPLETE: Status.COMPLETED,
        Change.RETRY: Status.PENDING,
        Change.RECOVER: Status.PENDING,
        Change.RELEASE: Status.PENDING,
        Change.REQUEUE: Status.PENDING,
        Change.FAIL: Status.FAILED,
        Change.CANCEL: Status.CANCELLED,
    },
    Status.FAILED: {Change.REQUEUE: Status.PENDING},
    Status.COMPLETED: {},
    Status.CANCELLED: {},
}
"""Status, then change, then the status it leads to."""

_LEADS_TO = {change: status for row in TRANSITIONS.values() for change, status in row.items()}


def next_status(status: Status, change: Change) -> Status:
    """The status that `change` leads to from `status`, or InvalidTransition.

    >>> next_status(Status.PENDING, Change.CLAIM)
    <Status.IN_PROGRESS: 'in_progress'>
    """
    try:
        return TRANSITIONS[status][change]
    except KeyError:
        article = "an" if status is Status.IN_PROGRESS else "a"
        said = f"{article} {status} task cannot be {change} ({status} -> {_LEADS_TO[change]})"
        raise InvalidTransition(said) from None


class Cause(StrEnum):
    """Why a task is among the dead letters.

    >>> Cause("poisoned")
    <Cause.POISONED: 'poisoned'>
    """

    FAILED = "failed"
    EXPIRED = "expired"
    POISONED = "poisoned"
    DROPPED = "dropped"


class Attempt(msgspec.Struct, frozen=True, gc=False):
    """One past execution of a task.

    >>> Attempt(1, 1, "worker/1", 0.0, 2.5, "failed", "boom").error
    'boom'
    """

    number: int
    """Which execution of its requeue epoch this was, from 1."""
    token: int
    """The fencing token it ran under."""
    worker_id: str
    """Who ran it."""
    started_at: float
    """When it was claimed."""
    ended_at: float
    """When its outcome was accepted, or its lease was given up."""
    outcome: str
    """`completed`, `failed`, `crashed`, `recovered`, `released`, `requeued` or `cancelled`."""
    error: str | None = None
    """What it said, if it said anything."""
    requeues: int = 0
    """The requeue epoch it belongs to."""
    traceback: str | None = None
    """Where its handler raised, if it did: the end of the traceback, as text."""


class Task(msgspec.Struct, frozen=True, gc=False, kw_only=True, omit_defaults=True):
    """One piece of work: a frozen record, replaced on every move. Encoded, what is as by default is left out.

    >>> task = Task(id="t1", user="alice", kind="crawl", sequence=1, created_at=5.0, updated_at=5.0, order_at=5.0)
    >>> task.status, task.identity, task.age(now=8.0)
    (<Status.PENDING: 'pending'>, 'alice#1', 3.0)
    """

    id: str
    """A time-ordered UUID (version 7); in the simulator a seeded one."""
    user: str
    """Whose work it is: the unit of fairness."""
    kind: str
    """Which handler runs it."""
    sequence: int
    """The place in the order of admission, over all users."""
    created_at: float
    """When it was admitted."""
    updated_at: float
    """When this record was made."""
    order_at: float
    """`max(created_at, first run_after)`: what waiting is counted from."""
    payload: Any = None
    """Any JSON value."""
    priority: Priority = Priority.NORMAL
    """How urgent it is among its user's tasks."""
    status: Status = Status.PENDING
    """Where it stands."""
    attempts: int = 0
    """Executions so far in this requeue epoch."""
    token: int = 0
    """The fencing token: goes up on every change of ownership."""
    retry: RetryPolicy = RetryPolicy()
    """When a failed execution is tried again."""
    cost: float = 1.0
    """Expected seconds of work: what fairness charges at the grant."""
    run_after: float | None = None
    """Not before; 0.0 is a real time."""
    expires_at: float | None = None
    """Not after."""
    started_at: float | None = None
    """When the latest execution was claimed."""
    completed_at: float | None = None
    """When it ended."""
    lease_until: float | None = None
    """While it runs: when it counts as stuck unless its worker beats."""
    worker_id: str | None = None
    """Who runs it or ran it last."""
    cancel_requested: bool = False
    """Whether its worker was told to stop: it ends as completed or cancelled, and is never tried again."""
    progress: Any = None
    """How far the handler last said it was."""
    result: Any = None
    """What the handler returned."""
    error: str | None = None
    """What the last failed execution said."""
    cause: Cause | None = None
    """Why it is among the dead letters, if it is."""
    history: tuple[Attempt, ...] = ()
    """Every past execution."""
    requeues: int = 0
    """How often an operator put it back; attempts are counted anew each time."""
    idempotency_key: str | None = None
    """The same key within its user means the same task."""
    persist: bool = True
    """Whether a durable store keeps it."""

    @property
    def max_retries(self) -> int:
        """Executions allowed after the first, in each requeue epoch."""
        return self.retry.max_retries

    @property
    def identity(self) -> str:
        """A short name that a seeded run gives to the same task every time."""
        return f"{self.user}#{self.sequence}"

    @property
    def first_started_at(self) -> float | None:
        """When it first ran, or None."""
        return self.history[0].started_at if self.history else self.started_at

    def age(self, now: float) -> float:
        """Seconds since it was admitted."""
        return now - self.created_at

    def time_in_queue(self, now: float) -> float:
        """Seconds it waited for its first start, counted from `order_at`; still counting if it never started."""
        until = self.first_started_at
        if until is None:
            until = self.completed_at if self.completed_at is not None else now
        return max(0.0, until - self.order_at)

    def time_in_progress(self, now: float) -> float:
        """Seconds spent in executions, the current one included."""
        spent = sum(attempt.ended_at - attempt.started_at for attempt in self.history)
        if self.status is Status.IN_PROGRESS and self.started_at is not None:
            spent += now - self.started_at
        return spent
