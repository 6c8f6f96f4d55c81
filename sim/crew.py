"""I9 and I22: the workers, as the trace tells what they do. None idles beside work that it may do, none that retired claims any.

A worker that was given a task just before everybody heard of its retirement hands it back at once. So what it must not do
is keep it.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from actors.messages import Address, WorkerClass
from actors.table import Table
from actors.trace import ReportRefused
from sim.entries import Entry, Line
from sim.restrictions import Restrictions
from sim.violations import Broken
from sim.waiting import Waiting

__all__ = ["RETIREMENT", "WORK_CONSERVATION", "Crew"]

WORK_CONSERVATION = "I9 work conservation"
RETIREMENT = "I22 retirement"


class Crew:
    """Who is busy with what."""

    def __init__(
        self, workers: Mapping[Address, WorkerClass], restrictions: Restrictions, table: Table, broken: Broken
    ) -> None:
        self._workers = workers
        self._restrictions = restrictions
        self._table = table
        self._broken = broken
        self._busy: dict[Address, str] = {}
        """Each busy worker, and what it runs."""
        self._silent: dict[Address, tuple[str, int]] = {}
        """Workers whose task was taken from them, with its old token: free or not, nobody knows until they report it or
        are given another."""
        self.occupied: Callable[[Address], bool] = lambda worker: False
        """Whether a worker is at work of which the trace says nothing: a run that came twice, and to one that had crashed on
        the first. Only faults bring that about."""
        self.late_claims: list[tuple[Address, Entry, int]] = []
        """Claims by workers that had retired, with their tokens."""

    def started(self, worker: Address, task: str, entry: Entry, token: int) -> None:
        """A worker claimed a task."""
        self._busy[worker] = task
        if self._silent:
            self._silent.pop(worker, None)
        if self._has_retired(worker):
            self.late_claims.append((worker, entry, token))

    def stopped(self, worker: Address, task: str) -> None:
        """The owner of a task is done with it, and free."""
        if self._busy.get(worker) == task:
            del self._busy[worker]

    def fell_silent(self, event: Any, token: int) -> None:
        """A task was taken away from whoever had it under this token."""
        if self._busy.get(event.worker) == event.task:
            del self._busy[event.worker]
            self._silent[event.worker] = (event.task, token)

    def refused(self, event: ReportRefused) -> None:
        """A worker reported something that nobody wants to know any more; of a task that was removed, no name is known."""
        if event.worker is not None and (
            event.status == "unknown" or self._silent.get(event.worker) == (event.task, event.token)
        ):
            self._silent.pop(event.worker, None)

    def on_quiet(self, waiting: Waiting, now: float) -> None:
        """Look at those who are idle, and at those who should be gone."""
        if self.late_claims:
            self._check_late_claims(now)
        if waiting.ready and len(self._busy) + len(self._silent) < len(self._workers):
            self._check_idle(waiting, now)

    def on_end(self, now: float) -> None:
        """Nothing will ever happen again: what such a worker still holds it keeps."""
        for worker, entry, token in self.late_claims:
            if entry.state == "running" and entry.token == token:
                self._keeps(worker, entry, now)

    def _keeps(self, worker: Address, entry: Entry, now: float) -> None:
        self._broken(RETIREMENT, now, f"{worker} claimed {entry.name} after it had retired")

    def _has_retired(self, worker: Address) -> bool:
        return "retiring" in self._table.notes(worker)

    def _check_late_claims(self, now: float) -> None:
        waiting = []
        for worker, entry, token in self.late_claims:
            if entry.state != "running" or entry.token != token:
                continue
            if now > entry.lease_until:
                self._keeps(worker, entry, now)
            else:
                # What it was given may be late: then it has not heard of it yet.
                waiting.append((worker, entry, token))
        self.late_claims = waiting

    def _check_idle(self, waiting: Waiting, now: float) -> None:
        """One worker of each class that is idle, against every user and kind that waits."""
        idle = {
            worker_class: worker
            for worker, worker_class in self._workers.items()
            if not (
                worker in self._busy or worker in self._silent or self._has_retired(worker) or self.occupied(worker)
            )
        }.values()
        for shelf in waiting.shelves.values():
            if not shelf.ready:
                continue
            for line in shelf.lines.values():
                if line.ready and (worker := self._one_for(line, idle, now)) is not None:
                    said = f"{worker} idle beside {line.ready} {line.kind!r} of {shelf.user}"
                    self._broken(WORK_CONSERVATION, now, said)
                    return

    def _one_for(self, line: Line, idle: Iterable[Address], now: float) -> Address | None:
        """Somebody of these who may start what waits in a line."""
        return next((worker for worker in idle if self._restrictions.may_start(worker, line, now)), None)
