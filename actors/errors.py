"""Every error Evenhand raises on purpose.

One base class, so that `except EvenhandError` catches them all. Messages are lower case and name the thing, the
constraint and the value: `weight must be > 0, got -1`.
"""

from collections.abc import Sequence
from typing import Any


class EvenhandError(Exception):
    """The base of every error that Evenhand raises on purpose.

    >>> issubclass(QueueFull, EvenhandError)
    True
    """


class InvalidTask(EvenhandError, ValueError):
    """A submitted task breaks a rule; nothing was admitted.

    >>> from actors import Priority
    >>> Priority.parse("urgent")
    Traceback (most recent call last):
    actors.errors.InvalidTask: priority must be one of very_low, low, normal, high, very_high, critical or 1 to 6, got 'urgent'
    """


class InvalidTransition(EvenhandError):
    """A task was asked to make a move that TRANSITIONS does not have; both states are named.

    >>> from actors import Change, Status, next_status
    >>> next_status(Status.COMPLETED, Change.CLAIM)
    Traceback (most recent call last):
    actors.errors.InvalidTransition: a completed task cannot be claimed (completed -> in_progress)
    """


class UnknownTask(EvenhandError, LookupError):
    """No task with that id is in the table.

    >>> str(UnknownTask("alice has no task 'x'"))
    "alice has no task 'x'"
    """


class UnknownSchedule(EvenhandError, LookupError):
    """No schedule has that name.

    >>> str(UnknownSchedule("no schedule has the name 'nightly'"))
    "no schedule has the name 'nightly'"
    """


class QueueFull(EvenhandError):
    """A bound at the door was reached; the task was not admitted.

    >>> str(QueueFull("admitted_max must not be exceeded, got 10 of 10"))
    'admitted_max must not be exceeded, got 10 of 10'
    """


class InvalidConfig(EvenhandError, ValueError):
    """A configuration or scenario has an unknown key or a bad value; the message starts with the key's path.

    >>> from actors.policies import SHARING
    >>> SHARING.make("weighted_fare")
    Traceback (most recent call last):
    actors.errors.InvalidConfig: sharing policy must be one of fifo, round_robin, weighted_fair or 'module:Class', got 'weighted_fare' (did you mean 'weighted_fair'?)
    """


class MailboxFull(EvenhandError):
    """A message found no room in a mailbox. Admission and credits should make this impossible.

    >>> str(MailboxFull("the mailbox holds 2 messages, no room for Wake to queue"))
    'the mailbox holds 2 messages, no room for Wake to queue'
    """


class ActorGone(EvenhandError, LookupError):
    """A message was for an actor that is gone, or never was; it is kept as undelivered.

    >>> str(ActorGone("no actor is at actor/counter"))
    'no actor is at actor/counter'
    """


class AskFailed(EvenhandError):
    """Whoever was asked crashed on the question, or went before it came to it.

    >>> str(AskFailed("actor/counter could not answer: ValueError: boom"))
    'actor/counter could not answer: ValueError: boom'
    """


class Livelock(EvenhandError):
    """Actors kept sending each other messages and time could not move on.

    >>> str(Livelock("1000000 messages at 3 s and no end"))
    '1000000 messages at 3 s and no end'
    """


class TaskFailed(EvenhandError):
    """A task whose result was waited for has no result: it failed for good. Its record says how.

    >>> from actors import Task
    >>> task = Task(id="t", user="u", kind="k", sequence=1, created_at=0.0, updated_at=0.0, order_at=0.0, error="boom")
    >>> error = TaskFailed("u#1 failed: boom", task)
    >>> error.task.error, error.history
    ('boom', ())
    """

    def __init__(self, said: str, task: Any) -> None:
        super().__init__(said)
        self.task = task
        """The record of the task (`Task`)."""

    @property
    def error(self) -> str | None:
        """What the last execution said."""
        error: str | None = self.task.error
        return error

    @property
    def history(self) -> tuple[Any, ...]:
        """Every execution (`Attempt`), with its error and times."""
        history: tuple[Any, ...] = self.task.history
        return history


class TaskCancelled(TaskFailed):
    """A task whose result was waited for was cancelled.

    >>> issubclass(TaskCancelled, TaskFailed)
    True
    """


class RuntimeStopped(EvenhandError):
    """The runtime has stopped, or stops, and takes no more orders.

    >>> str(RuntimeStopped("the runtime has stopped: no task can be submitted"))
    'the runtime has stopped: no task can be submitted'
    """


class StoreFailed(EvenhandError):
    """A store could not be read or written. What was acknowledged is safe; nothing more is.

    >>> str(StoreFailed("tasks.db could not be written: disk I/O error"))
    'tasks.db could not be written: disk I/O error'
    """


class StoreInUse(EvenhandError):
    """Another process owns the store: there is one owner at a time.

    >>> str(StoreInUse("tasks.db is owned by process 7"))
    'tasks.db is owned by process 7'
    """


class SomeRefused(EvenhandError):
    """Some of the tasks that were submitted together were refused; the others are in.

    >>> error = SomeRefused([None], {0: QueueFull("admitted tasks must be at most 0, got one more")})
    >>> str(error)
    '1 of 1 tasks were refused; the first: admitted tasks must be at most 0, got one more'
    """

    def __init__(self, handles: list[Any], errors: dict[int, Exception]) -> None:
        first = next(iter(errors.values()))
        super().__init__(f"{len(errors)} of {len(handles)} tasks were refused; the first: {first}")
        self.handles = handles
        """A handle (`TaskHandle`) for each task that is in, in the order of the submits; None for those that are not."""
        self.errors = errors
        """Why each of the others was refused, by its place."""


class PoolIsFull(RuntimeWarning):
    """A handler waits for a task of its own runtime while every worker is busy: if all do, none ever ends.

    >>> issubclass(PoolIsFull, RuntimeWarning)
    True
    """


class ActorFailed(EvenhandError, ExceptionGroup[Exception]):
    """Actors crashed more often than their supervision tree bears; a group of the crashes, the last of them the cause.

    >>> failed = ActorFailed("shard/alice crashed 4 times in 5 s", [ValueError("boom")] * 4)
    >>> str(failed), len(failed.exceptions)
    ('shard/alice crashed 4 times in 5 s', 4)
    """

    def __str__(self) -> str:
        return self.message

    def derive(self, crashes: Sequence[Exception], /) -> "ActorFailed":  # type: ignore[override]
        """A part of the group, for `except*`."""
        return ActorFailed(self.message, crashes)
