"""What must hold on every run, whatever the policies and faults: checked from the trace as it is made.

The ledger folds events into one entry a task, by rules of its own: it shares no code with the cores except the ordering
policy's key and rank. So what it finds is a disagreement between what the runtime did and what it may do.

- I1 conservation: every admitted task is waiting, running, ended, or removed after it ended, and the table agrees, at
  every quiet instant.
- I3 fencing: tokens rise with every claim; an accepted report or beat carries the latest; one live claim a task.
- I4 one outcome: nothing happens to an ended task except a requeue of a failed one.
- I5 executions: at most 1 + max_retries in each requeue epoch, and one if nothing went wrong.
- I6 old tokens: a report that is refused was indeed not the owner's.
- I9 work conservation: at no quiet instant is a worker idle beside a task that could start.
- I10 pick: no waiting task of the same shard ranks above the one that starts, of those that its worker could start;
  critical bursts keep to their bound. A kind with a limit is shared by turns of its own, so only its own tasks compare.
- I13 rate, I14 concurrency, I17 assignment, pauses: see restrictions.py.
- I18 cancel: a waiting task that was cancelled never starts; a running one whose cancel was acknowledged ends completed
  or cancelled, never both, and no other running task is cancelled.
"""

from collections.abc import Callable, Container, Iterable, Mapping
from heapq import heappop, heappush
from typing import Any, Protocol

import attrs

from actors.config import Settings
from actors.messages import Address, WorkerClass
from actors.table import Table
from actors.task import Status
from actors.trace import (
    Admitted,
    Cancelled,
    CancelRequested,
    Completed,
    DeadLettered,
    Event,
    Extended,
    FaultInjected,
    Recovered,
    Released,
    ReportRefused,
    Requeued,
    Retried,
    Started,
    Swept,
)
from sim.picks import Entry, Picks, entry_of, put_back_by_hand
from sim.restrictions import ASSIGNMENT, CONCURRENCY, PAUSES, RATE, Restrictions

__all__ = ["INVARIANTS", "Entry", "Ledger", "Observer", "Violation"]

CONSERVATION = "I1 conservation"
FENCING = "I3 fencing"
ONE_OUTCOME = "I4 one outcome"
EXECUTIONS = "I5 executions"
OLD_TOKENS = "I6 old tokens"
WORK_CONSERVATION = "I9 work conservation"
PICK = "I10 pick"
CANCEL = "I18 cancel"
INVARIANTS = (
    CONSERVATION,
    FENCING,
    ONE_OUTCOME,
    EXECUTIONS,
    OLD_TOKENS,
    WORK_CONSERVATION,
    PICK,
    RATE,
    CONCURRENCY,
    ASSIGNMENT,
    PAUSES,
    CANCEL,
)

_VIOLATIONS_KEPT = 100


class Observer(Protocol):
    """Watches a run: every event as it happens, and every instant at which nothing is under way."""

    def on_event(self, event: Event) -> None:
        """Something happened."""

    def on_quiet(self, now: float) -> None:
        """No message is under way and time is about to move on."""


@attrs.frozen
class Violation:
    """An invariant that did not hold."""

    invariant: str
    at: float
    said: str


@attrs.define(eq=False)
class _Shard:
    """A user's waiting tasks."""

    picks: Picks
    ready: int = 0
    ready_kinds: dict[str, int] = attrs.Factory(dict)


class Ledger:
    """Folds the trace and checks it."""

    def __init__(
        self,
        settings: Settings,
        table: Table,
        workers: Mapping[Address, WorkerClass],
        retired: Container[Address] = (),
    ) -> None:
        self.entries: dict[str, Entry] = {}
        self.violations: list[Violation] = []
        self.counts = dict.fromkeys(INVARIANTS, 0)
        """How often each invariant was broken."""
        self.shards: dict[str, _Shard] = {}
        self.occupied: Callable[[Address], bool] = lambda worker: False
        """Whether a worker is at work of which the trace says nothing: a run that came twice, and to one that had crashed on
        the first. Only faults bring that about."""
        self.touched: dict[str, None] = {}
        """Users whose number of ready tasks changed since the last quiet instant."""
        self._settings = settings
        self._table = table
        self._workers = workers
        """Everybody who ever was one: more may come on the way."""
        self._left = retired
        """Whom the operator sent away."""
        self._restrictions = Restrictions(settings, workers)
        self._busy: dict[str, str] = {}
        """Each busy worker, and what it runs."""
        self._silent: dict[str, tuple[str, int]] = {}
        """Workers whose task was recovered, with its old token: free or not, nobody knows until they report it or are
        given another."""
        self._retired: set[str] = set()
        """Workers that were told to retire, until they are given something again."""
        self._ready = 0
        self._running = 0
        self._ended = 0
        self._removed = 0
        self._delayed: list[tuple[float, int, Entry]] = []

    def on_event(self, event: Event) -> None:
        handler = _HANDLERS.get(type(event))
        if handler is None:
            if type(event) is FaultInjected and event.fault == "stop":
                self._retired.add(event.target)
            self._restrictions.on_event(event)
            return
        if self._delayed:
            self._mature(event.at)
        if type(event) is Admitted:
            self._admitted(event)
            return
        entry = self.entries.get(event.task)  # type: ignore[union-attr]
        if entry is None and type(event) is ReportRefused and event.status == "unknown" and self._removed:
            # A zombie of a task that was removed: nobody knows the task's name any more.
            self._silent.pop(event.worker or "", None)
        elif entry is None:
            self._broken(ONE_OUTCOME, event.at, f"{event} is about a task that was never admitted")
        else:
            handler(self, event, entry)

    def on_quiet(self, now: float) -> None:
        if self._delayed:
            self._mature(now)
        if self._ready and len(self._busy) + len(self._silent) < len(self._workers):
            self._check_idle(now)
        counts = self._table.counts
        waiting = len(self.entries) - self._running - self._ended
        ended = counts[Status.COMPLETED] + counts[Status.FAILED] + counts[Status.CANCELLED]
        by_trace = (waiting, self._running, self._ended, self._removed)
        by_table = (counts[Status.PENDING], counts[Status.IN_PROGRESS], ended, self._table.removed)
        if by_trace != by_table:
            said = f"waiting, running, ended, removed: {by_trace} by the trace, {by_table} by the table"
            self._broken(CONSERVATION, now, said)

    def _check_idle(self, now: float) -> None:
        """One worker of each class that is idle, against every user and kind that waits."""
        idle = {
            worker_class: worker
            for worker, worker_class in self._workers.items()
            if not (
                worker in self._busy
                or worker in self._silent
                or worker in self._retired
                or worker in self._left
                or self.occupied(worker)
            )
        }
        for user, shard in self.shards.items():
            for kind in shard.ready_kinds:
                for worker in idle.values():
                    if self._restrictions.may_start(worker, user, kind, now):
                        said = f"{worker} idle beside {shard.ready_kinds[kind]} {kind!r} of {user}"
                        self._broken(WORK_CONSERVATION, now, said)
                        return

    # One method an event

    def _admitted(self, event: Admitted) -> None:
        if event.task in self.entries:
            self._broken(CONSERVATION, event.at, f"{event.task} was admitted twice")
            return
        entry = self.entries[event.task] = entry_of(event, self._settings.ordering)
        self._wait(entry, event.run_after, event.at)

    def _started(self, event: Started, entry: Entry) -> None:
        if entry.state != "waiting":
            self._broken(_unless_ended(entry), event.at, f"{event.task} was started while {entry.state}")
            return
        if event.token <= entry.token:
            self._broken(FENCING, event.at, f"{event.task} was claimed with token {event.token} after {entry.token}")
        if entry.run_after is not None and entry.run_after > event.at:
            self._broken(PICK, event.at, f"{event.task} was started before {entry.run_after}")
        shard = self.shards[entry.user]
        for fault in shard.picks.faults(entry, self._choice(entry.kind, event.worker, shard.ready_kinds), event.at):
            self._broken(PICK, event.at, f"{event.task} {fault}")
        for invariant, said in self._restrictions.started(event.at, entry.user, entry.kind, event.worker, event.stolen):
            self._broken(invariant, event.at, f"{event.task}: {said}")
        entry.state, entry.token, entry.started = "running", event.token, True
        entry.executions += 1
        if entry.executions > 1 + entry.max_retries:
            self._broken(EXECUTIONS, event.at, f"{event.task} ran {entry.executions} times of {1 + entry.max_retries}")
        self._busy[event.worker] = event.task
        self._silent.pop(event.worker, None)
        self._retired.discard(event.worker)
        self._running += 1
        self._leave(entry)

    def _choice(self, kind: str, worker: Address, ready: Iterable[str]) -> set[str]:
        """The ready kinds that the worker could choose from when it was given a task of `kind`."""
        restrictions, runs = self._restrictions, self._restrictions.runs(worker)
        if restrictions.is_limited(kind):
            return {kind}
        open_kinds = {
            other
            for other in ready
            if other in runs and not restrictions.is_limited(other) and not restrictions.is_paused(other)
        }
        return open_kinds | {kind}

    def _extended(self, event: Extended, entry: Entry) -> None:
        self._check_owner(event, entry)

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
            self._wait(entry, event.run_after, event.at)

    def _recovered(self, event: Recovered, entry: Entry) -> None:
        if entry.state != "running" or event.token <= entry.token:
            self._broken(FENCING, event.at, f"{event.task} was recovered with token {event.token} after {entry.token}")
            return
        self._fall_silent(event, entry)
        self._stop_running(entry)
        entry.troubled = True
        entry.token = event.token
        self._wait(entry, None, event.at)

    def _released(self, event: Released, entry: Entry) -> None:
        if self._stop(event, entry):
            # Only a worker that retires gives a task back.
            self._retired.add(event.worker)
            entry.executions -= 1
            entry.troubled = True
            self._wait(entry, None, event.at)

    def _requeued(self, event: Requeued, entry: Entry) -> None:
        if entry.state not in ("failed", "running") or event.token <= entry.token:
            self._broken(_unless_ended(entry), event.at, f"{event.task} was requeued while {entry.state}")
            return
        if entry.state == "running":
            self._fall_silent(event, entry)
            self._stop_running(entry)
        else:
            self._ended -= 1
        entry.troubled = True
        entry.token, entry.executions = event.token, event.attempts
        put_back_by_hand(entry, self._settings.ordering)
        self._wait(entry, None, event.at)

    def _dead_lettered(self, event: DeadLettered, entry: Entry) -> None:
        if entry.unwanted:
            self._broken(CANCEL, event.at, f"{event.task} was dead-lettered though its cancel was acknowledged")
        self._end_without_result(event, entry, "failed")

    def _cancel_requested(self, event: CancelRequested, entry: Entry) -> None:
        if self._check_owner(event, entry):
            entry.unwanted = True

    def _cancelled(self, event: Cancelled, entry: Entry) -> None:
        if event.worker is not None and not entry.unwanted:
            self._broken(CANCEL, event.at, f"{event.task} was cancelled while it ran and nobody asked")
        if event.worker is not None and event.outcome == "released":
            self._retired.add(event.worker)
        self._end_without_result(event, entry, "cancelled")

    def _report_refused(self, event: ReportRefused, entry: Entry) -> None:
        if entry.state == "running" and event.token == entry.token:
            self._broken(OLD_TOKENS, event.at, f"{event.task}: the owner's own report was refused")
        if event.worker is not None and self._silent.get(event.worker) == (event.task, event.token):
            del self._silent[event.worker]

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
        if self._busy.get(event.worker) == event.task:
            del self._busy[event.worker]
        self._stop_running(entry)
        return True

    def _stop_running(self, entry: Entry) -> None:
        self._running -= 1
        self._restrictions.ended(entry.user, entry.kind)

    def _fall_silent(self, event: Any, entry: Entry) -> None:
        if self._busy.get(event.worker) == event.task:
            del self._busy[event.worker]
            self._silent[event.worker] = (event.task, entry.token)

    def _end(self, entry: Entry, state: str) -> None:
        entry.state = state
        self._ended += 1

    def _end_without_result(self, event: DeadLettered | Cancelled, entry: Entry, state: str) -> None:
        if event.worker is None:
            self._end_waiting(event, entry, state)
        elif event.outcome == "recovered":
            if self._check_owner(event, entry):
                self._fall_silent(event, entry)
                self._stop_running(entry)
                self._end(entry, state)
        elif self._stop(event, entry):
            self._end(entry, state)

    def _end_waiting(self, event: Any, entry: Entry, state: str) -> None:
        if entry.state != "waiting":
            self._broken(_unless_ended(entry), event.at, f"{event.task} ended unstarted while {entry.state}")
            return
        if entry.run_after is None:
            self._leave(entry)
        self._end(entry, state)

    def _wait(self, entry: Entry, run_after: float | None, at: float) -> None:
        if entry.unwanted:
            self._broken(CANCEL, at, f"{entry.user}#{entry.sequence} waits again though its cancel was acknowledged")
        entry.state = "waiting"
        if run_after is not None and run_after > at:
            entry.run_after = run_after
            heappush(self._delayed, (run_after, entry.sequence, entry))
        else:
            self._make_ready(entry)

    def _mature(self, now: float) -> None:
        while self._delayed and self._delayed[0][0] <= now:
            run_after, _, entry = heappop(self._delayed)
            if entry.state == "waiting" and entry.run_after == run_after:
                self._make_ready(entry)

    def _make_ready(self, entry: Entry) -> None:
        entry.run_after = None
        shard = self.shards.get(entry.user)
        if shard is None:
            picks = Picks(self._settings.ordering, self._settings.critical_burst)
            shard = self.shards[entry.user] = _Shard(picks)
        shard.picks.push(entry)
        shard.ready += 1
        shard.ready_kinds[entry.kind] = shard.ready_kinds.get(entry.kind, 0) + 1
        self._ready += 1
        self.touched[entry.user] = None

    def _leave(self, entry: Entry) -> None:
        shard = self.shards[entry.user]
        shard.ready -= 1
        shard.ready_kinds[entry.kind] -= 1
        if not shard.ready_kinds[entry.kind]:
            del shard.ready_kinds[entry.kind]
        self._ready -= 1
        self.touched[entry.user] = None

    def _broken(self, invariant: str, at: float, said: str) -> None:
        self.counts[invariant] += 1
        if len(self.violations) < _VIOLATIONS_KEPT:
            self.violations.append(Violation(invariant, at, said))


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
