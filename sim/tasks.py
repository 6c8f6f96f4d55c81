"""What becomes of tasks, folded from the trace into one entry each: I3 to I6 and I18, and all that hangs on a claim.

- I3 fencing: tokens rise with every claim; an accepted report or beat carries the latest; one live claim a task.
- I4 one outcome: nothing happens to an ended task except a requeue of a failed one.
- I5 executions: at most 1 + max_retries in each requeue epoch, and one if nothing went wrong.
- I6 old tokens: a report that is refused was indeed not the owner's.
- I18 cancel: a waiting task that was cancelled never starts; a running one whose cancel was acknowledged ends completed
  or cancelled, never both, and no other running task is cancelled.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from actors.config import Settings
from actors.messages import Address, WorkerClass
from actors.table import Table
from actors.trace import (
    Admitted,
    Cancelled,
    CancelRequested,
    Completed,
    DeadLettered,
    Extended,
    Recovered,
    Released,
    ReportRefused,
    Requeued,
    Retried,
    Started,
    Swept,
)
from sim.admission import Admission
from sim.crew import Crew
from sim.entries import Entry, Shelf
from sim.lag import SharingJudge
from sim.leases import Leases
from sim.restrictions import Restrictions
from sim.retries import Retries
from sim.violations import Broken
from sim.waiting import Waiting

__all__ = ["CANCEL", "CONSERVATION", "EXECUTIONS", "FENCING", "OLD_TOKENS", "ONE_OUTCOME", "Tasks"]

CONSERVATION = "I1 conservation"
FENCING = "I3 fencing"
ONE_OUTCOME = "I4 one outcome"
EXECUTIONS = "I5 executions"
OLD_TOKENS = "I6 old tokens"
CANCEL = "I18 cancel"


class Tasks:
    """Every task that was ever admitted and not removed."""

    def __init__(
        self,
        settings: Settings,
        table: Table,
        workers: Mapping[Address, WorkerClass],
        judges: Sequence[SharingJudge],
        retried_by_kind: bool,
        broken: Broken,
    ) -> None:
        self.entries: dict[str, Entry] = {}
        self.running = 0
        self.ended = 0
        self.removed = 0
        self._judges = judges
        self._broken = broken
        shelves: dict[str, Shelf] = {}
        self.restrictions = Restrictions(settings, workers, shelves)
        self.waiting = Waiting(settings, shelves, self.restrictions, judges, broken)
        self.crew = Crew(workers, self.restrictions, table, broken)
        self.admission = Admission(settings, broken)
        self.leases = Leases(settings, broken)
        self._retries = Retries(settings, retried_by_kind, broken)
        self.handlers: dict[type, Callable[[Any, Entry], None]] = {
            Admitted: self._admitted,
            Started: self._started,
            Extended: self._extended,
            Completed: self._completed,
            Retried: self._retried,
            Recovered: self._recovered,
            Released: self._released,
            Requeued: self._requeued,
            DeadLettered: self._dead_lettered,
            CancelRequested: self._cancel_requested,
            Cancelled: self._cancelled,
            ReportRefused: self._report_refused,
            Swept: self._swept,
        }
        """What to do about each event that is about a task that was admitted."""

    def on_end(self, now: float) -> None:
        """Nothing will ever happen again."""
        if self.running:
            for name, entry in self.entries.items():
                if entry.state == "running":
                    self.leases.left_over(name, entry, now)

    # One method an event

    def admit(self, event: Admitted) -> None:
        """A task was let in of which nothing was known."""
        entry = self.entries[event.task] = self.waiting.admit(event)
        if self.admission.bounded:
            self.admission.entered(entry, event.at)

    def _admitted(self, event: Admitted, entry: Entry) -> None:
        self._broken(CONSERVATION, event.at, f"{event.task} was admitted twice")

    def _started(self, event: Started, entry: Entry) -> None:
        at, worker, token, line = event.at, event.worker, event.token, entry.line
        if entry.state != "waiting":
            self._broken(_unless_ended(entry), at, f"{event.task} was started while {entry.state}")
            return
        if token <= entry.token:
            self._broken(FENCING, at, f"{event.task} was claimed with token {token} after {entry.token}")
        if entry.crashes:
            self._retries.started(entry, at)
        self.waiting.start(entry, worker, at)
        for invariant, said in self.restrictions.started(line, worker, event.stolen, at):
            self._broken(invariant, at, f"{event.task}: {said}")
        for judge in self._judges:
            judge.started(entry, at)
        # Only now: its turn came while there was work.
        if not line.shelf.ready:
            self.waiting.has_none(line.shelf, at)
        entry.state, entry.token, entry.started = "running", token, True
        entry.executions += 1
        if entry.executions > 1 + entry.max_retries:
            self._broken(EXECUTIONS, at, f"{event.task} ran {entry.executions} times of {1 + entry.max_retries}")
        self.running += 1
        self.leases.started(entry, at)
        self.crew.started(worker, event.task, entry, token)

    def _extended(self, event: Extended, entry: Entry) -> None:
        if self._check_owner(event, entry):
            self.leases.extended(event, entry)

    def _completed(self, event: Completed, entry: Entry) -> None:
        if self._stop(event, entry):
            if not entry.troubled and entry.executions != 1:
                self._broken(
                    EXECUTIONS, event.at, f"{event.task} ran {entry.executions} times though nothing went wrong"
                )
            self._end(entry, "ended")

    def _retried(self, event: Retried, entry: Entry) -> None:
        if self._stop(event, entry):
            entry.troubled = True
            self._retries.retried(event, entry)
            self._wait(entry, event.run_after, event.at)

    def _recovered(self, event: Recovered, entry: Entry) -> None:
        if entry.state != "running" or event.token <= entry.token:
            self._broken(FENCING, event.at, f"{event.task} was recovered with token {event.token} after {entry.token}")
            return
        self.leases.taken_back(event.task, entry, event.at)
        self.crew.fell_silent(event, entry.token)
        self._stop_running(entry, event.at)
        entry.troubled = True
        entry.token = event.token
        self._wait(entry, None, event.at)

    def _released(self, event: Released, entry: Entry) -> None:
        if self._stop(event, entry):
            entry.executions -= 1
            entry.troubled = True
            self._wait(entry, None, event.at)

    def _requeued(self, event: Requeued, entry: Entry) -> None:
        if entry.state not in ("failed", "running") or event.token <= entry.token:
            self._broken(_unless_ended(entry), event.at, f"{event.task} was requeued while {entry.state}")
            return
        if entry.state == "running":
            self.crew.fell_silent(event, entry.token)
            self._stop_running(entry, event.at)
        else:
            self.ended -= 1
            entry.readmitted = True
        entry.troubled = True
        entry.crashes = 0
        entry.token, entry.executions = event.token, event.attempts
        self.waiting.put_back_by_hand(entry, event.at)

    def _dead_lettered(self, event: DeadLettered, entry: Entry) -> None:
        if entry.unwanted:
            self._broken(CANCEL, event.at, f"{event.task} was dead-lettered though its cancel was acknowledged")
        self._retries.dead_lettered(event, entry)
        self._end_without_result(event, entry, "failed")

    def _cancel_requested(self, event: CancelRequested, entry: Entry) -> None:
        if self._check_owner(event, entry):
            entry.unwanted = True

    def _cancelled(self, event: Cancelled, entry: Entry) -> None:
        if event.worker is not None and not entry.unwanted:
            self._broken(CANCEL, event.at, f"{event.task} was cancelled while it ran and nobody asked")
        self._end_without_result(event, entry, "cancelled")

    def _report_refused(self, event: ReportRefused, entry: Entry) -> None:
        if entry.state == "running" and event.token == entry.token:
            self._broken(OLD_TOKENS, event.at, f"{event.task}: the owner's own report was refused")
        self.crew.refused(event)

    def _swept(self, event: Swept, entry: Entry) -> None:
        if entry.state in ("waiting", "running"):
            self._broken(CONSERVATION, event.at, f"{event.task} was removed while {entry.state}")
            return
        del self.entries[event.task]
        self.ended -= 1
        self.removed += 1

    # Shared by the above

    def _check_owner(self, event: Any, entry: Entry) -> bool:
        if entry.state == "running" and event.token == entry.token:
            return True
        said = f"{event.task} accepted token {event.token} while {entry.state} under {entry.token}"
        self._broken(_unless_ended(entry), event.at, said)
        return False

    def _stop(self, event: Any, entry: Entry) -> bool:
        """The owner is done with it, and its worker free."""
        if (entry.state != "running" or event.token != entry.token) and not self._check_owner(event, entry):
            return False
        at = event.at
        if at > entry.lease_until:
            self.leases.heard(event.task, entry, at)
        self.crew.stopped(event.worker, event.task)
        self._stop_running(entry, at)
        return True

    def _stop_running(self, entry: Entry, at: float) -> None:
        self.running -= 1
        self.restrictions.ended(entry.line)
        used = at - entry.started_at
        for judge in self._judges:
            judge.stopped(entry, at, used)

    def _end(self, entry: Entry, state: str) -> None:
        entry.state = state
        self.ended += 1
        if self.admission.bounded:
            self.admission.ended(entry)

    def _end_without_result(self, event: DeadLettered | Cancelled, entry: Entry, state: str) -> None:
        if event.worker is None:
            self._end_waiting(event, entry, state)
        elif event.outcome == "recovered":
            if self._check_owner(event, entry):
                self.leases.taken_back(event.task, entry, event.at)
                self.crew.fell_silent(event, entry.token)
                self._stop_running(entry, event.at)
                self._end(entry, state)
        elif self._stop(event, entry):
            self._end(entry, state)

    def _end_waiting(self, event: Any, entry: Entry, state: str) -> None:
        if entry.state != "waiting":
            self._broken(_unless_ended(entry), event.at, f"{event.task} ended unstarted while {entry.state}")
            return
        self.waiting.leave(entry, event.at)
        self._end(entry, state)

    def _wait(self, entry: Entry, run_after: float | None, at: float) -> None:
        if entry.unwanted:
            self._broken(CANCEL, at, f"{entry.name} waits again though its cancel was acknowledged")
        self.waiting.add(entry, run_after, at)


def _unless_ended(entry: Entry) -> str:
    if entry.state == "cancelled" or (entry.state == "ended" and entry.unwanted):
        return CANCEL
    return ONE_OUTCOME if entry.state in ("failed", "ended") else FENCING
