"""Lists of tasks, for people: some of the table, by what they ask for."""

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TypeVar

from actors.errors import InvalidConfig
from actors.table import Table
from actors.task import Cause, Status, Task

__all__ = ["dead_letters", "listed", "part"]

E = TypeVar("E", Status, Cause)


def listed(table: Table, status: Status | str | None, kind: str | None, user: str | None) -> Iterator[Task]:
    """Tasks in the order of admission; those of one status that have ended, in the order of their ending."""
    wanted = None if status is None else _parsed(Status, "status", status)
    return (task for task in _candidates(table, wanted, user) if _fits(task, wanted, kind, user))


def dead_letters(table: Table, cause: Cause | str | None, kind: str | None, user: str | None) -> Iterator[Task]:
    """The tasks that failed for good, the one that failed first at the front."""
    wanted = None if cause is None else _parsed(Cause, "cause", cause)
    return (
        task
        for task in table.ended(Status.FAILED)
        if (wanted is None or task.cause is wanted) and _fits(task, None, kind, user)
    )


def part(tasks: Iterable[Task], limit: int | None, offset: int = 0) -> list[Task]:
    """At most `limit` of the tasks, after the first `offset`.

    >>> part([], limit=-1)
    Traceback (most recent call last):
    actors.errors.InvalidConfig: limit must be a whole number >= 0, got -1
    """
    for name, value in (("limit", limit or 0), ("offset", offset)):
        if not isinstance(value, int) or isinstance(value, bool) or value < 0:
            raise InvalidConfig(f"{name} must be a whole number >= 0, got {value!r}")
    return list(islice(tasks, offset, None if limit is None else offset + limit))


def _candidates(table: Table, status: Status | None, user: str | None) -> Iterable[Task]:
    if status is None:
        return table
    if status.terminal:
        return table.ended(status)
    # Whoever was put back stands last in the table.
    return sorted(table.every_live(), key=lambda task: task.sequence) if user is None else table.live(user)


def _fits(task: Task, status: Status | None, kind: str | None, user: str | None) -> bool:
    return (
        (status is None or task.status is status)
        and (kind is None or task.kind == kind)
        and (user is None or task.user == user)
    )


def _parsed(into: type[E], what: str, value: str) -> E:
    try:
        return into(value)
    except ValueError:
        raise InvalidConfig(f"{what} must be one of {', '.join(into)}, got {value!r}") from None
