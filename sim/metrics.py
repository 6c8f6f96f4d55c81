"""What a run was like: waits, service and shares by user and level, Jain's index, and what checks ask for.

Jain's index (Jain 1984) is (sum x)^2 / (n sum x^2) with x the cost dispatched per weight, corrected to what was used when it
ends, over the time in which every user that is ever backlogged is backlogged together; None below two users or without
such time. A dispatch counts where it was made, whenever it ends.

Everything is counted once, by user and level; groups are added up when the run is over.
"""

import math
from array import array
from collections.abc import Callable, Mapping
from itertools import chain
from typing import Any

from actors.task import Priority
from actors.trace import (
    Cancelled,
    Completed,
    DeadLettered,
    Recovered,
    Released,
    ReportRefused,
    Requeued,
    Retried,
    Started,
    SubmitRefused,
    Unreachable,
)
from sim.entries import Entry, Line
from sim.groups import Cell, GroupMetrics, group_of
from sim.invariants import Ledger

__all__ = ["Metrics", "Summary", "jain_index"]

_BEGIN, _END = math.inf, -math.inf


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
        self._entries = ledger.entries
        self._weights = weights
        self._warmup_seconds = warmup_seconds
        self._cell_of: dict[tuple[str, int], Cell] = {}
        self._cell_of_line: dict[Line, Cell] = {}
        self._refused = dict.fromkeys(weights, 0)
        self._refused_in_all = 0
        self._backlog_max = dict.fromkeys(weights, 0)
        self._backlog_max_in_all = 0
        self._names = list(weights)
        self._numbers = {user: number for number, user in enumerate(weights)}
        self._backlogged: set[str] = set()
        """Empty where there is nobody to share with."""
        self._log_users = array("l")
        self._log_values = array("d")
        self._dispatched: dict[str, int] = {}
        """For each running task that was logged, where."""
        self._is_shared = len(weights) > 1
        """Whether there is anybody to share with."""
        self.handlers: dict[type, Callable[[Any], None]] = {
            Started: self._started,
            Completed: self._completed,
            Retried: self._retried,
            Released: self._released,
            Recovered: self._recovered,
            DeadLettered: self._dead_lettered,
            Cancelled: self._cancelled,
            ReportRefused: self._report_refused,
            SubmitRefused: self._submit_refused,
            Unreachable: self._unreachable,
            Requeued: self._requeued,
        }
        """What to do about each event that counts for something."""
        self.jobs = 0
        """Tasks that ended."""
        self.zombies = 0
        self.unreachable = 0
        """How often a user was found that no worker may serve."""

    def on_quiet(self, now: float) -> None:
        waiting = self._ledger.waiting
        touched = waiting.touched
        if not touched:
            return
        for shelf in touched:
            shelf.touched = False
            user, ready = shelf.user, shelf.ready
            if ready > self._backlog_max[user]:
                self._backlog_max[user] = ready
            if self._is_shared and (ready > 0) != (user in self._backlogged):
                (self._backlogged.add if ready else self._backlogged.discard)(user)
                self._log(user, _BEGIN if ready else _END)
        touched.clear()
        if waiting.ready > self._backlog_max_in_all:
            self._backlog_max_in_all = waiting.ready

    def summary(self) -> "Summary":
        """What it came to so far."""
        return Summary(list(self._cell_of.values()), dict(self._refused), self._refused_in_all, self._ledger.last_at)

    def backlog_max(self, user: str | None) -> int:
        """The most tasks of a user, or of all, that could start and waited at one quiet instant."""
        return self._backlog_max_in_all if user is None else self._backlog_max[user]

    def starved(self, over_seconds: float, user: str | None, level: Priority | None) -> int:
        """Tasks that waited longer than that for their first start, or never had one though nobody cancelled them."""
        late = sum(
            wait > over_seconds
            for cell in self._cell_of.values()
            if (user is None or cell.user == user) and (level is None or cell.level == level)
            for wait in cell.waits
        )
        never = sum(
            not entry.started and entry.state in ("waiting", "failed") and entry.order_at >= self._warmup_seconds
            for entry in self._ledger.entries.values()
            if (user is None or entry.user == user) and (level is None or entry.level == level)
        )
        return late + never

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

    # One method an event

    def _started(self, event: Started) -> None:
        entry = self._entries[event.task]
        if self._backlogged:
            self._dispatched[event.task] = len(self._log_values)
            self._log(entry.user, entry.cost)
        cell = self._cell_of_line.get(entry.line) or self._cell(entry)
        if event.stolen:
            cell.stolen += 1
        if event.attempt == 1 and not entry.troubled and entry.order_at >= self._warmup_seconds:
            cell.waits.append(event.at - entry.order_at)

    def _completed(self, event: Completed) -> None:
        cell, entry = self._served(event)
        self.jobs += 1
        cell.completed += 1
        used = event.used_seconds
        if used > 0 and entry.order_at >= self._warmup_seconds:
            cell.slowdowns.append((event.at - entry.order_at) / used)

    def _retried(self, event: Retried) -> None:
        self._served(event)[0].retried += 1

    def _released(self, event: Released) -> None:
        self._served(event)

    def _recovered(self, event: Recovered) -> None:
        self._taken_back(*self._served(event), event.at)

    def _dead_lettered(self, event: DeadLettered) -> None:
        cell, entry = self._served(event)
        self.jobs += 1
        cell.dead_letters[event.cause] += 1
        if event.outcome == "recovered":
            self._taken_back(cell, entry, event.at)

    def _cancelled(self, event: Cancelled) -> None:
        cell, entry = self._served(event)
        self.jobs += 1
        cell.cancelled += 1
        if event.outcome == "recovered":
            self._taken_back(cell, entry, event.at)

    def _report_refused(self, event: ReportRefused) -> None:
        if event.worker is None:
            return
        self.zombies += 1
        # Of a task that was removed nobody knows whose it was.
        if (entry := self._ledger.entries.get(event.task)) is not None:
            self._cell(entry).zombies += 1

    def _submit_refused(self, event: SubmitRefused) -> None:
        self._refused_in_all += 1
        if event.user in self._refused:
            self._refused[event.user] += 1

    def _unreachable(self, event: Unreachable) -> None:
        self.unreachable += 1

    def _requeued(self, event: Requeued) -> None:
        # What it had used of its turn, if it was running, nobody says: the turn stays at its cost.
        self._dispatched.pop(event.task, None)

    # Shared by the above

    def _served(
        self, event: Completed | Retried | Released | Recovered | DeadLettered | Cancelled
    ) -> tuple[Cell, Entry]:
        entry = self._entries[event.task]
        cell = self._cell_of_line.get(entry.line) or self._cell(entry)
        cell.service_seconds += event.used_seconds
        if self._is_shared and (place := self._dispatched.pop(event.task, None)) is not None:
            self._log_values[place] = event.used_seconds
        return cell, entry

    def _taken_back(self, cell: Cell, entry: Entry, at: float) -> None:
        cell.recovered += 1
        cell.recovery_seconds_max = max(cell.recovery_seconds_max or 0.0, at - entry.alive_at)

    def _cell(self, entry: Entry) -> Cell:
        key = (entry.user, entry.level)
        cell = self._cell_of.get(key)
        if cell is None:
            cell = self._cell_of[key] = Cell(*key)
        self._cell_of_line[entry.line] = cell
        return cell

    def _log(self, user: str, value: float) -> None:
        self._log_users.append(self._numbers[user])
        self._log_values.append(value)


class Summary:
    """What was counted, added up by user, by level, by both or over everybody."""

    def __init__(self, cells: list[Cell], refused: dict[str, int], refused_in_all: int, seconds: float) -> None:
        self._cells: dict[str, list[Cell]] = {}
        for cell in cells:
            self._cells.setdefault(cell.user, []).append(cell)
        self._refused = refused
        self._refused_in_all = refused_in_all
        self._seconds = seconds
        self._service_seconds = math.fsum(cell.service_seconds for cell in cells)
        self._groups: dict[tuple[str | None, Priority | None], GroupMetrics] = {}

    def users(self) -> dict[str, GroupMetrics]:
        """By user, in the order of the scenario."""
        return {user: self.group(user=user) for user in self._refused}

    def levels(self) -> dict[str, GroupMetrics]:
        """By level, lowest first."""
        return {level.name.lower(): self.group(level=level) for level in Priority}

    def group(self, user: str | None = None, level: Priority | None = None) -> GroupMetrics:
        """Of one user, one level, both or neither."""
        found = self._groups.get((user, level))
        if found is None:
            refused = self._refused_in_all if user is None else self._refused[user]
            cells = self._of(user, level)
            found = group_of(cells, self._service_seconds, 0 if level is not None else refused, self._seconds)
            self._groups[user, level] = found
        return found

    def dead_lettered(self, cause: str, user: str | None, level: Priority | None) -> int:
        """Tasks that failed for good for this cause."""
        return sum(cell.dead_letters[cause] for cell in self._of(user, level))

    def _of(self, user: str | None, level: Priority | None) -> list[Cell]:
        cells = chain.from_iterable(self._cells.values()) if user is None else self._cells.get(user, [])
        return [cell for cell in cells if level is None or cell.level == level]
