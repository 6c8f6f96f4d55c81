"""What must hold on every run, whatever the policies and faults: checked from the trace as it is made.

The ledger folds events into one entry a task, by rules of its own: it shares no code with the cores except the ordering
policy's key and rank. So what it finds is a disagreement between what the runtime did and what it may do. It judges by
tokens and leases, and takes no worker to be healthy.

- I1 conservation: every admitted task is waiting, running, ended, or removed after it ended, and the table agrees, at
  every quiet instant.
- I3 fencing: tokens rise with every claim; an accepted report or beat carries the latest; one live claim a task.
- I4 one outcome: nothing happens to an ended task except a requeue of a failed one.
- I5 executions: at most 1 + max_retries in each requeue epoch, and one if nothing went wrong.
- I6 old tokens: a report that is refused was indeed not the owner's.
- I7 keys, I15 memory: see admission.py.
- I8 recovery, I16 no orphan: see leases.py.
- I9 work conservation, I22 retirement: see crew.py.
- I10 pick: no waiting task of the same shard ranks above the one that starts, of those that its worker could start;
  critical bursts keep to their bound. A kind with a limit is shared by turns of its own, so only its own tasks compare.
- I11 overtaking: see overtaking.py.
- I12 service lag, I23 virtual time: see lag.py.
- I13 rate, I14 concurrency, I17 assignment, pauses: see restrictions.py.
- I18 cancel: a waiting task that was cancelled never starts; a running one whose cancel was acknowledged ends completed
  or cancelled, never both, and no other running task is cancelled.
- I19 poison, I20 herd: see retries.py.
- I21 escalation: see restarts.py.
- I25 time: no event is earlier than the one before.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from actors.config import Settings
from actors.messages import Address, WorkerClass
from actors.supervision import Group
from actors.table import Table
from actors.task import Status
from actors.trace import (
    ActorRestarted,
    Admitted,
    Cancelled,
    CancelRequested,
    Completed,
    DeadLettered,
    Event,
    Extended,
    Progressed,
    Reachable,
    Recovered,
    Released,
    ReportRefused,
    Requeued,
    Retried,
    ScheduleFired,
    Started,
    StopIgnored,
    SubmitRefused,
    Swept,
)
from sim.admission import KEYS, MEMORY, Admission
from sim.crew import RETIREMENT, WORK_CONSERVATION, Crew
from sim.lag import LAG, VIRTUAL_TIME, SharingJudge, lag_of
from sim.leases import ORPHANS, RECOVERY, Leases
from sim.overtaking import OVERTAKING
from sim.picks import PICK, Entry, entry_of, put_back_by_hand
from sim.restarts import ESCALATION, Restarts
from sim.restrictions import ASSIGNMENT, CONCURRENCY, PAUSES, RATE, Restrictions
from sim.retries import HERD, POISON, Retries
from sim.violations import Violation, Violations
from sim.waiting import Waiting

__all__ = ["INVARIANTS", "Entry", "Ledger", "Observer", "Violation"]

CONSERVATION = "I1 conservation"
FENCING = "I3 fencing"
ONE_OUTCOME = "I4 one outcome"
EXECUTIONS = "I5 executions"
OLD_TOKENS = "I6 old tokens"
CANCEL = "I18 cancel"
TIME = "I25 time"
INVARIANTS = (
    CONSERVATION,
    FENCING,
    ONE_OUTCOME,
    EXECUTIONS,
    OLD_TOKENS,
    KEYS,
    RECOVERY,
    WORK_CONSERVATION,
    PICK,
    OVERTAKING,
    LAG,
    RATE,
    CONCURRENCY,
    MEMORY,
    ORPHANS,
    ASSIGNMENT,
    PAUSES,
    CANCEL,
    POISON,
    HERD,
    ESCALATION,
    RETIREMENT,
    VIRTUAL_TIME,
    TIME,
)
"""What is checked on every run."""

_HARMLESS = (SubmitRefused, StopIgnored, Progressed, Reachable, ScheduleFired)
"""Events after which the same can be served as before."""


_PENDING, _IN_PROGRESS, _COMPLETED, _FAILED, _CANCELLED = Status


class Observer(Protocol):
    """Watches a run: every event as it happens, and every instant at which nothing is under way."""

    def on_event(self, event: Event) -> None:
        """Something happened."""

    def on_quiet(self, now: float) -> None:
        """No message is under way and time is about to move on."""


class Ledger:
    """Folds the trace and checks it."""

    def __init__(
        self,
        settings: Settings,
        table: Table,
        workers: Mapping[Address, WorkerClass],
        *,
        supervision: Group | None = None,
        retried_by_kind: bool = False,
        judges: Sequence[SharingJudge] = (),
    ) -> None:
        """Without `supervision` I21 is not judged; I20 only where every task is retried as its kind says."""
        self.entries: dict[str, Entry] = {}
        self._found = Violations(INVARIANTS)
        self._broken = broken = self._found.add
        self._settings = settings
        self._table = table
        self._restrictions = Restrictions(settings, workers)
        lag = lag_of(settings, table, workers, broken)
        self._judges: tuple[SharingJudge, ...] = (*judges, *([] if lag is None else [lag]))
        self.waiting = Waiting(settings, self._restrictions, self._judges, broken)
        self._crew = Crew(workers, self._restrictions, table, broken)
        self._leases = Leases(settings, broken)
        self._retries = Retries(settings, retried_by_kind, broken)
        self._restarts = None if supervision is None else Restarts(supervision, broken)
        self._admission = Admission(settings, broken)
        self._running = 0
        self._ended = 0
        self._removed = 0
        self._now = 0.0

    @property
    def violations(self) -> list[Violation]:
        """The first invariants that were broken, with what happened."""
        return self._found.kept

    @property
    def counts(self) -> dict[str, int]:
        """How often each invariant was broken."""
        return self._found.counts

    def on_event(self, event: Event) -> None:
        at = event.at
        if at < self._now:
            self._broken(TIME, at, f"{event} comes after {self._now:g} s")
        else:
            self._now = at
        kind = type(event)
        handler = _HANDLERS.get(kind)
        if handler is None:
            self._on_other(event)
            return
        if self.waiting.delayed:
            self.waiting.mature(at)
        if kind is Admitted:
            self._admitted(event)  # type: ignore[arg-type]
            return
        entry = self.entries.get(event.task)  # type: ignore[union-attr]
        if entry is not None:
            handler(self, event, entry)
        elif kind is ReportRefused and event.status == "unknown" and self._removed:  # type: ignore[union-attr]
            # A zombie of a task that was removed: nobody knows the task's name any more.
            self._crew.refused(event)  # type: ignore[arg-type]
        else:
            self._broken(ONE_OUTCOME, at, f"{event} is about a task that was never admitted")

    def _on_other(self, event: Event) -> None:
        self._restrictions.on_event(event)
        if self._restarts is not None and isinstance(event, ActorRestarted):
            self._restarts.on_event(event)
        if not isinstance(event, _HARMLESS):
            for judge in self._judges:
                judge.on_event(event)

    def on_quiet(self, now: float) -> None:
        if now < self._now:
            self._broken(TIME, now, f"it is quiet at {now:g} s, after {self._now:g} s")
        if self.waiting.delayed:
            self.waiting.mature(now)
        self._crew.on_quiet(self.waiting, now)
        for judge in self._judges:
            judge.on_quiet(now)
        if self._restarts is not None:
            self._restarts.on_quiet(now)
        counts, ended = self._table.counts, self._ended
        if (
            counts[_PENDING] != len(self.entries) - self._running - ended
            or counts[_IN_PROGRESS] != self._running
            or counts[_COMPLETED] + counts[_FAILED] + counts[_CANCELLED] != ended
            or self._table.removed != self._removed
        ):
            self._disagree(now)

    def _disagree(self, now: float) -> None:
        counts = self._table.counts
        waiting = len(self.entries) - self._running - self._ended
        ended = sum(counts[status] for status in Status if status.terminal)
        by_trace = (waiting, self._running, self._ended, self._removed)
        by_table = (counts[Status.PENDING], counts[Status.IN_PROGRESS], ended, self._table.removed)
        said = f"waiting, running, ended, removed: {by_trace} by the trace, {by_table} by the table"
        self._broken(CONSERVATION, now, said)

    def on_end(self, now: float) -> None:
        """Nothing will ever happen again."""
        if self._running:
            for name, entry in self.entries.items():
                if entry.state == "running":
                    self._leases.left_over(name, entry, now)
        for judge in self._judges:
            judge.on_end(now)
        self._admission.check_keys(self._table, now)

    # One method an event

    def _admitted(self, event: Admitted) -> None:
        if event.task in self.entries:
            self._broken(CONSERVATION, event.at, f"{event.task} was admitted twice")
            return
        entry = self.entries[event.task] = entry_of(event, self._settings.ordering)
        if self._admission.bounded:
            self._admission.entered(entry, event.at)
        self.waiting.add(entry, event.run_after, event.at)

    def _started(self, event: Started, entry: Entry) -> None:
        if entry.state != "waiting":
            self._broken(_unless_ended(entry), event.at, f"{event.task} was started while {entry.state}")
            return
        if event.token <= entry.token:
            self._broken(FENCING, event.at, f"{event.task} was claimed with token {event.token} after {entry.token}")
        if entry.crashes:
            self._retries.started(entry, event.at)
        self.waiting.judge_start(entry, event.worker, event.at, event.task)
        for invariant, said in self._restrictions.started(event.at, entry.user, entry.kind, event.worker, event.stolen):
            self._broken(invariant, event.at, f"{event.task}: {said}")
        self.waiting.leave(entry, event.at)
        entry.state, entry.token, entry.started = "running", event.token, True
        entry.executions += 1
        if entry.executions > 1 + entry.max_retries:
            self._broken(EXECUTIONS, event.at, f"{event.task} ran {entry.executions} times of {1 + entry.max_retries}")
        self._running += 1
        self._leases.started(event, entry)
        self._crew.started(event.worker, event.task, entry, event.token)
        for judge in self._judges:
            judge.started(entry)

    def _extended(self, event: Extended, entry: Entry) -> None:
        if self._check_owner(event, entry):
            self._leases.extended(event, entry)

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
        self._leases.taken_back(event.task, entry, event.at)
        self._crew.fell_silent(event, entry.token)
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
            self._crew.fell_silent(event, entry.token)
            self._stop_running(entry, event.at)
        else:
            self._ended -= 1
            entry.readmitted = True
        entry.troubled = True
        entry.crashes = 0
        entry.token, entry.executions = event.token, event.attempts
        put_back_by_hand(entry, self._settings.ordering)
        self._wait(entry, None, event.at)

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
        self._crew.refused(event)

    def _swept(self, event: Swept, entry: Entry) -> None:
        if entry.state in ("waiting", "running"):
            self._broken(CONSERVATION, event.at, f"{event.task} was removed while {entry.state}")
            return
        del self.entries[event.task]
        self._ended -= 1
        self._removed += 1

    # Shared by the above

    def _check_owner(self, event: Any, entry: Entry) -> bool:
        if entry.state == "running" and event.token == entry.token:
            return True
        said = f"{event.task} accepted token {event.token} while {entry.state} under {entry.token}"
        self._broken(_unless_ended(entry), event.at, said)
        return False

    def _stop(self, event: Any, entry: Entry) -> bool:
        """The owner is done with it, and its worker free."""
        if not self._check_owner(event, entry):
            return False
        self._leases.heard(event.task, entry, event.at)
        self._crew.stopped(event.worker, event.task)
        self._stop_running(entry, event.at)
        return True

    def _stop_running(self, entry: Entry, at: float) -> None:
        self._running -= 1
        self._restrictions.ended(entry.user, entry.kind)
        for judge in self._judges:
            judge.stopped(entry, at)

    def _end(self, entry: Entry, state: str) -> None:
        entry.state = state
        self._ended += 1
        if self._admission.bounded:
            self._admission.ended(entry)

    def _end_without_result(self, event: DeadLettered | Cancelled, entry: Entry, state: str) -> None:
        if event.worker is None:
            self._end_waiting(event, entry, state)
        elif event.outcome == "recovered":
            if self._check_owner(event, entry):
                self._leases.taken_back(event.task, entry, event.at)
                self._crew.fell_silent(event, entry.token)
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
            self._broken(CANCEL, at, f"{entry.user}#{entry.sequence} waits again though its cancel was acknowledged")
        self.waiting.add(entry, run_after, at)


def _unless_ended(entry: Entry) -> str:
    if entry.state == "cancelled" or (entry.state == "ended" and entry.unwanted):
        return CANCEL
    return ONE_OUTCOME if entry.state in ("failed", "ended") else FENCING


_HANDLERS: dict[type, Callable[..., None]] = {
    Admitted: Ledger._admitted,
    Started: Ledger._started,
    Extended: Ledger._extended,
    Completed: Ledger._completed,
    Retried: Ledger._retried,
    Recovered: Ledger._recovered,
    Released: Ledger._released,
    Requeued: Ledger._requeued,
    DeadLettered: Ledger._dead_lettered,
    CancelRequested: Ledger._cancel_requested,
    Cancelled: Ledger._cancelled,
    ReportRefused: Ledger._report_refused,
    Swept: Ledger._swept,
}
