"""What must hold on every run, whatever the policies and faults: checked from the trace as it is made.

The ledger folds events into one entry a task, by rules of its own: it shares no code with the cores except the ordering
policy's key and rank. So what it finds is a disagreement between what the runtime did and what it may do. It judges by
tokens and leases, and takes no worker to be healthy.

- I1 conservation: every admitted task is waiting, running, ended, or removed after it ended, and the table agrees, at
  every quiet instant.
- I3 fencing, I4 one outcome, I5 executions, I6 old tokens, I18 cancel: see tasks.py.
- I7 keys, I15 memory: see admission.py.
- I8 recovery, I16 no orphan: see leases.py.
- I9 work conservation, I22 retirement: see crew.py.
- I10 pick: no waiting task of the same shard ranks above the one that starts, of those that its worker could start;
  critical bursts keep to their bound. A kind with a limit is shared by turns of its own, so only its own tasks compare.
- I11 overtaking: see overtaking.py.
- I12 service lag, I23 virtual time: see lag.py.
- I13 rate, I14 concurrency, I17 assignment, pauses: see restrictions.py.
- I19 poison, I20 herd: see retries.py.
- I21 escalation: see restarts.py.
- I25 time: no event is earlier than the one before.
- With a store, I2 acknowledgements and I23 rehydration: see promises.py. When a process begins again, so does the ledger: it
  is folded anew from the events that hold, with all that was found and told before.
"""

from collections.abc import Mapping, Sequence
from typing import Protocol

from actors.config import Settings
from actors.host import Host
from actors.messages import Address, WorkerClass
from actors.supervision import Group
from actors.table import Table
from actors.task import Status
from actors.trace import (
    Acknowledged,
    ActorRestarted,
    Admitted,
    Event,
    FaultInjected,
    Progressed,
    Reachable,
    ReportRefused,
    Restored,
    ScheduleFired,
    StopIgnored,
    SubmitRefused,
    Told,
)
from sim.admission import KEYS, MEMORY
from sim.crew import RETIREMENT, WORK_CONSERVATION
from sim.entries import Entry
from sim.lag import LAG, VIRTUAL_TIME, SharingJudge, lag_of, virtual_time
from sim.leases import ORPHANS, RECOVERY
from sim.overtaking import OVERTAKING
from sim.picks import PICK
from sim.promises import LOST, REHYDRATION, Promises, check_fold, check_shards
from sim.restarts import ESCALATION, Restarts
from sim.restrictions import ASSIGNMENT, CONCURRENCY, PAUSES, RATE
from sim.retries import HERD, POISON
from sim.tasks import CANCEL, CONSERVATION, EXECUTIONS, FENCING, OLD_TOKENS, ONE_OUTCOME, Tasks
from sim.violations import Violation, Violations

__all__ = ["INVARIANTS", "Entry", "Ledger", "Observer", "Violation"]

TIME = "I25 time"
INVARIANTS = (
    CONSERVATION,
    LOST,
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
    REHYDRATION,
    TIME,
)
"""What is checked on every run."""

_HARMLESS = (SubmitRefused, StopIgnored, Progressed, Reachable, ScheduleFired, Acknowledged, Told)
"""Events after which the same can be served as before."""


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
        is_shared: bool = True,
        judges: Sequence[SharingJudge] = (),
    ) -> None:
        """Without `supervision` I21 is not judged; I20 only where every task is retried as its kind says; and I12 not
        where there is but one user, with nobody to share with."""
        self._found = Violations(INVARIANTS)
        self._broken = broken = self._found.add
        self._table = table
        lag = lag_of(settings, table, workers, is_shared, broken)
        self._judges: tuple[SharingJudge, ...] = (*judges, *([] if lag is None else [lag]))
        self._supervision = supervision
        self._restarts = self._no_restarts()
        self._tasks = Tasks(settings, table, workers, self._judges, retried_by_kind, broken)
        self._promises = Promises(broken)
        self.entries = self._tasks.entries
        self.crew = self._tasks.crew
        self.waiting = self._tasks.waiting
        self._handlers = self._tasks.handlers
        self._delayed = self.waiting.delayed
        self._has_restarted = False
        """Whether anybody was built anew since the last quiet instant."""
        self.last_at = 0.0
        """When something last happened."""

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
        if at >= self.last_at:
            self.last_at = at
        else:
            self._broken(TIME, at, f"{event} comes after {self.last_at:g} s")
        if self._delayed:
            self.waiting.mature(at)
        handler = self._handlers.get(type(event))
        if handler is None:
            self._on_other(event)
            return
        entry = self.entries.get(event.task)  # type: ignore[union-attr]
        if entry is not None:
            handler(event, entry)
        else:
            self._on_unknown(event)

    def _on_unknown(self, event: Event) -> None:
        """Something happened to a task of which nothing is known."""
        if isinstance(event, Admitted):
            self._tasks.admit(event)
        elif isinstance(event, ReportRefused) and event.status == "unknown" and self._tasks.removed:
            # A zombie of a task that was removed: nobody knows the task's name any more.
            self._tasks.crew.refused(event)
        else:
            self._broken(ONE_OUTCOME, event.at, f"{event} is about a task that was never admitted")

    def _on_other(self, event: Event) -> None:
        self._tasks.restrictions.on_event(event)
        if isinstance(event, FaultInjected) and event.seconds:
            self._tasks.leases.leapt(event.at, event.seconds)
        if self._restarts is not None and isinstance(event, ActorRestarted):
            self._restarts.on_event(event)
            self._has_restarted = True
        elif isinstance(event, Restored):
            # Nobody in the new process has borne a crash.
            self._restarts = self._no_restarts()
        elif isinstance(event, Acknowledged):
            self._promises.acknowledged(event)
        elif isinstance(event, Told):
            self._promises.told(event)
        if not isinstance(event, _HARMLESS):
            for judge in self._judges:
                judge.on_event(event)

    # Processes that end and begin again

    def fold_quiet(self, now: float) -> None:
        """What is folded anew was quiet then; how the table stood at that time nobody knows any more."""
        self.waiting.mature(now)
        if self._restarts is not None:
            self._restarts.on_quiet(now)

    def _no_restarts(self) -> Restarts | None:
        return None if self._supervision is None else Restarts(self._supervision, self._broken)

    def begin_life(self, before: "Ledger", at: float, virtual: float) -> None:
        """All that holds is folded, and the table is what the store gave back; it was `virtual` then, by the scheduler's clock.

        What was found and told before this stays so.
        """
        self._found.take_over(before._found)
        self._promises.take_over(before._promises)
        check_fold(self._table, self.entries, at, self._broken)
        if (now := virtual_time(self._table)) < virtual:
            self._broken(REHYDRATION, at, f"virtual time was {virtual:g} and came back as {now:g}")
        self._promises.check(self._table, at)

    def check_shards(self, host: Host, queue_drops: bool) -> None:
        """The cores were built from that table."""
        check_shards(host, self._table, queue_drops, self.last_at, self._broken)

    def on_quiet(self, now: float) -> None:
        if now < self.last_at:
            self._broken(TIME, now, f"it is quiet at {now:g} s, after {self.last_at:g} s")
        if self._delayed:
            self.waiting.mature(now)
        if self.waiting.ready or self.crew.late_claims:
            self.crew.on_quiet(self.waiting, now)
        for judge in self._judges:
            if judge.restless:
                judge.on_quiet(now)
        if self._restarts is not None and self._has_restarted:
            self._restarts.on_quiet(now)
            self._has_restarted = False
        tasks = self._tasks
        # Unpacked, because to look one up by its status costs as much as all the rest.
        pending, in_progress, completed, failed, cancelled = self._table.counts.values()
        if (
            in_progress != tasks.running
            or completed + failed + cancelled != tasks.ended
            or pending != len(self.entries) - tasks.running - tasks.ended
            or self._table.removed != tasks.removed
        ):
            self._disagree(now)

    def _disagree(self, now: float) -> None:
        counts, tasks = self._table.counts, self._tasks
        waiting = len(tasks.entries) - tasks.running - tasks.ended
        ended = sum(counts[status] for status in Status if status.terminal)
        by_trace = (waiting, tasks.running, tasks.ended, tasks.removed)
        by_table = (counts[Status.PENDING], counts[Status.IN_PROGRESS], ended, self._table.removed)
        said = f"waiting, running, ended, removed: {by_trace} by the trace, {by_table} by the table"
        self._broken(CONSERVATION, now, said)

    def on_end(self, now: float) -> None:
        """Nothing will ever happen again."""
        self._tasks.on_end(now)
        self.crew.on_end(now)
        self._promises.check(self._table, now)
        for judge in self._judges:
            judge.on_end(now)
        self._tasks.admission.check_keys(self._table, now)
