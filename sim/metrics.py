"""What a run was like for each user and level: waits, service, shares, and Jain's index.

A wait is the first start minus `order_at`. Percentiles are nearest-rank: the smallest wait that at least that part of the
waits does not exceed. Jain's index (Jain 1984) is (sum x)^2 / (n sum x^2) with x the cost dispatched per weight, corrected
to what was used when it ends, over the time in which every user that is ever backlogged is backlogged together; None below
two users or without such time. A dispatch counts where it was made, whenever it ends.
"""

import math
from array import array
from collections.abc import Mapping

import attrs

from actors.task import Priority
from actors.trace import (
    Cancelled,
    Completed,
    DeadLettered,
    Event,
    Recovered,
    Released,
    ReportRefused,
    Requeued,
    Retried,
    Started,
    SubmitRefused,
    Unreachable,
)
from sim.invariants import Ledger
from sim.picks import Entry

__all__ = ["GroupMetrics", "Metrics", "jain_index", "percentile"]

_BEGIN, _END = math.inf, -math.inf


@attrs.frozen(kw_only=True)
class GroupMetrics:
    """What a run was like for one user, one level, or everybody. None: nothing to measure."""

    completed: int
    wait_seconds_mean: float | None
    wait_seconds_p50: float | None
    wait_seconds_p99: float | None
    wait_seconds_max: float | None
    service_seconds: float
    share: float | None
    """Of the service given to all."""
    refused: int
    """Submits turned away at the door; not known by level."""
    expired: int
    """Tasks that nobody started in time."""
    stolen: int
    """Starts by a worker that is not the user's own."""


@attrs.define
class _Group:
    waits: "array[float]" = attrs.Factory(lambda: array("d"))
    completed: int = 0
    service_seconds: float = 0.0
    refused: int = 0
    expired: int = 0
    stolen: int = 0

    def metrics(self, service_of_all: float) -> GroupMetrics:
        waits = sorted(self.waits)
        return GroupMetrics(
            completed=self.completed,
            wait_seconds_mean=math.fsum(waits) / len(waits) if waits else None,
            wait_seconds_p50=percentile(waits, 0.50),
            wait_seconds_p99=percentile(waits, 0.99),
            wait_seconds_max=waits[-1] if waits else None,
            service_seconds=self.service_seconds,
            share=self.service_seconds / service_of_all if service_of_all else None,
            refused=self.refused,
            expired=self.expired,
            stolen=self.stolen,
        )


def percentile(ordered: list[float], part: float) -> float | None:
    """The nearest-rank percentile of sorted numbers, or None if there are none.

    >>> percentile([1.0, 2.0, 3.0, 4.0], 0.5), percentile([], 0.5)
    (2.0, None)
    """
    if not ordered:
        return None
    # A little less, because 0.07 * 100 is a little over 7 and its ceiling would be the next rank.
    rank = math.ceil(part * len(ordered) * (1 - 1e-12))
    return ordered[max(0, rank - 1)]


def jain_index(shares: list[float]) -> float | None:
    """1 when all shares are equal, 1/n when one has everything; None below two or when nobody got anything.

    >>> jain_index([1.0, 1.0]), jain_index([1.0, 0.0]), jain_index([1.0])
    (1.0, 0.5, None)
    """
    largest = max(shares, default=0.0)
    if len(shares) < 2 or largest <= 0:
        return None
    # Relative to the largest: the square of a very large or small share is not a number that a float holds.
    relative = [share / largest for share in shares]
    return math.fsum(relative) ** 2 / (len(relative) * math.fsum(share * share for share in relative))


class Metrics:
    """Measures a run. Must see each event after the ledger it reads from."""

    def __init__(self, ledger: Ledger, weights: Mapping[str, float], warmup_seconds: float) -> None:
        self._ledger = ledger
        self._weights = weights
        self._warmup_seconds = warmup_seconds
        self._users = {user: _Group() for user in weights}
        self._levels = {level: _Group() for level in Priority}
        self._overall = _Group()
        self._names = list(weights)
        self._numbers = {user: number for number, user in enumerate(weights)}
        self._backlogged: set[str] = set()
        self._log_users = array("l")
        self._log_values = array("d")
        self._dispatched: dict[str, int] = {}
        """For each running task that was logged, where."""
        self.jobs = 0
        """Tasks that ended."""
        self.recovered = 0
        self.zombies = 0
        self.unreachable = 0
        """How often a user was found that no worker may serve."""

    def on_event(self, event: Event) -> None:
        kind = type(event)
        if kind is Started:
            self._started(event)  # type: ignore[arg-type]
        elif kind is Completed or kind in (Retried, Released):
            self._served(event)  # type: ignore[arg-type]
        elif kind in (DeadLettered, Cancelled):
            self._served(event)  # type: ignore[arg-type]
            self.recovered += event.outcome == "recovered"  # type: ignore[union-attr]
        elif kind is Recovered:
            self.recovered += 1
            self._served(event)  # type: ignore[arg-type]
        elif kind is ReportRefused:
            self.zombies += event.worker is not None  # type: ignore[union-attr]
        elif kind is SubmitRefused:
            self._refused(event)  # type: ignore[arg-type]
        elif kind is Unreachable:
            self.unreachable += 1
        elif kind is Requeued:
            # What it had used of its turn, if it was running, nobody says: the turn stays at its cost.
            self._dispatched.pop(event.task, None)  # type: ignore[union-attr]

    def on_quiet(self, now: float) -> None:
        touched = self._ledger.waiting.touched
        for user in touched:
            waits = self._ledger.waiting.shelves[user].ready > 0
            if waits != (user in self._backlogged):
                (self._backlogged.add if waits else self._backlogged.discard)(user)
                self._log(user, _BEGIN if waits else _END)
        touched.clear()

    def users(self) -> dict[str, GroupMetrics]:
        """By user, in the order of the scenario."""
        return {user: self._measured(group) for user, group in self._users.items()}

    def levels(self) -> dict[str, GroupMetrics]:
        """By level, lowest first."""
        return {level.name.lower(): self._measured(group) for level, group in self._levels.items()}

    def overall(self) -> GroupMetrics:
        """Over everybody."""
        return self._measured(self._overall)

    def jain(self) -> float | None:
        """Over the users that were ever backlogged, while all of them were."""
        named = {user for user, value in zip(self._log_users, self._log_values, strict=True) if value == _BEGIN}
        dispatched = dict.fromkeys(sorted(named), 0.0)
        together = 0
        for user, value in zip(self._log_users, self._log_values, strict=True):
            if value == _BEGIN:
                together += 1
            elif value == _END:
                together -= 1
            elif together == len(named) and user in dispatched:
                dispatched[user] += value
        return jain_index([cost / self._weights[self._names[user]] for user, cost in dispatched.items()])

    def _started(self, event: Started) -> None:
        entry = self._ledger.entries[event.task]
        if self._backlogged:
            self._dispatched[event.task] = len(self._log_values)
            self._log(entry.user, entry.cost)
        if event.stolen:
            for group in self._groups(entry):
                group.stolen += 1
        if event.attempt == 1 and not entry.troubled and entry.order_at >= self._warmup_seconds:
            wait = event.at - entry.order_at
            for group in self._groups(entry):
                group.waits.append(wait)

    def _served(self, event: Completed | DeadLettered | Cancelled) -> None:
        entry = self._ledger.entries[event.task]
        completed = type(event) is Completed
        self.jobs += completed or type(event) in (DeadLettered, Cancelled)
        expired = type(event) is DeadLettered and event.cause == "expired"
        if (place := self._dispatched.pop(event.task, None)) is not None:
            self._log_values[place] = event.used_seconds
        for group in self._groups(entry):
            group.completed += completed
            group.expired += expired
            group.service_seconds += event.used_seconds

    def _refused(self, event: SubmitRefused) -> None:
        self._overall.refused += 1
        if event.user in self._users:
            self._users[event.user].refused += 1

    def _groups(self, entry: Entry) -> "tuple[_Group, _Group, _Group]":
        return (self._users[entry.user], self._levels[Priority(entry.level)], self._overall)

    def _log(self, user: str, value: float) -> None:
        self._log_users.append(self._numbers[user])
        self._log_values.append(value)

    def _measured(self, group: _Group) -> GroupMetrics:
        return group.metrics(self._overall.service_seconds)
