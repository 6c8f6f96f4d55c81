"""A shard: one user's tasks, and the only one who may change them.

It decides which of its user's tasks is next, hands it to a worker under a new token and a lease, and judges what comes
back. A report counts only for a running task under its current token; any other is refused, recorded, and changes
nothing. So delivery is at least once, and exactly one outcome is accepted.

Lanes are per kind, so a kind that nobody can run never hides another. CRITICAL tasks have a lane of their own, first come
first served, before the rest, but after `critical_burst` of them in a row one other task goes first if any waits.
Everything here is an index over the table: a crashed shard is rebuilt from it and carries on.
"""

from collections.abc import Callable
from typing import Any

from actors import moves
from actors.actor import NEVER, Draw, Effects
from actors.config import Settings
from actors.errors import EvenhandError, InvalidTransition, UnknownTask
from actors.lanes import Lane
from actors.messages import (
    QUEUE,
    SCHEDULER,
    SUPERVISOR,
    Accepted,
    Address,
    Answered,
    Beat,
    Cancel,
    Declined,
    Enqueue,
    ExpireLease,
    Failed,
    Finished,
    Grant,
    Granted,
    Head,
    Leased,
    Readmitted,
    Ready,
    Requeue,
    Resync,
    Run,
    Settled,
    Wake,
)
from actors.table import Notes, Table
from actors.task import Cause, Priority, Status, Task
from actors.trace import (
    Admitted,
    Cancelled,
    Completed,
    DeadLettered,
    Extended,
    Recovered,
    Released,
    ReportRefused,
    Requeued,
    Retried,
    Started,
)

__all__ = ["Shard"]

_FACTS = (Settled, Readmitted, Granted, Declined)
"""Messages that must arrive: sent again if their receiver crashed on them."""


class Shard:
    """The core of one user's shard."""

    def __init__(self, user: str, settings: Settings, table: Table, notes: Notes) -> None:
        self._user = user
        self._settings = settings
        self._table = table
        self._notes = notes
        self._epoch: int = table.notes(SCHEDULER).get("epoch", 1)
        self._critical: dict[str, Lane] = {}
        self._ordinary: dict[str, Lane] = {}
        self._delayed = Lane(self._is_live)
        self._expiring = Lane(self._is_live)
        self._written: dict[str, Task] = {}
        """Records made while handling this message, which the table does not hold yet."""
        self._changed: dict[str, None] = {}
        """Kinds whose ready count changed while handling this message."""
        self._wakes_at = NEVER

    def __repr__(self) -> str:
        ready = sum(self._count(kind) for kind in self._ordinary)
        return f"<Shard of {self._user}: {ready} ready, {len(self._delayed)} delayed>"

    @property
    def passive(self) -> bool:
        return not self._ordinary and not len(self._delayed)

    @property
    def index_health(self) -> float:
        """Live entries as a part of all, over every lane; 1 when empty."""
        lanes = [*self._critical.values(), *self._ordinary.values(), self._delayed, self._expiring]
        entries = sum(lane.entries for lane in lanes)
        return sum(len(lane) for lane in lanes) / entries if entries else 1.0

    def start(self, now: float) -> Effects:
        """Index what the table holds, and say what is ready."""
        effects = Effects()
        for task in self._table.live(self._user):
            if task.status is Status.PENDING:
                self._index(task, now)
        self._finish(now, effects)
        return effects

    def handle(self, message: Any, now: float, draw: Draw) -> Effects:
        handler = _HANDLERS.get(type(message))
        if handler is None:
            raise TypeError(f"shard cannot handle {message!r}")
        effects = Effects()
        self._written.clear()
        self._catch_up(now, effects)
        handler(self, message, now, draw, effects)
        self._finish(now, effects)
        return effects

    # Orders from outside

    def _enqueue(self, message: Enqueue, now: float, draw: Draw, effects: Effects) -> None:
        task = message.task
        self._write(task, effects)
        self._index(task, now)
        effects.events.append(
            Admitted(
                now,
                task.identity,
                task.user,
                task.kind,
                task.priority,
                task.order_at,
                task.run_after,
                task.expires_at,
                task.max_retries,
                task.cost,
            )
        )
        if message.reply_to is not None:
            effects.hold(message.reply_to, Accepted(task.id, task.id))

    def _cancel(self, message: Cancel, now: float, draw: Draw, effects: Effects) -> None:
        def cancelled(task: Task) -> None:
            if task.status is Status.IN_PROGRESS:
                raise InvalidTransition("a running task cannot be cancelled yet, only a pending one")
            ended = moves.cancel(task, now)
            self._write(ended, effects)
            self._unindex(task, now)
            effects.events.append(Cancelled(now, task.identity, task.token))
            self._settle(task, "cancelled", now, effects, ended=True)

        self._answer(message, cancelled, effects)

    def _requeue(self, message: Requeue, now: float, draw: Draw, effects: Effects) -> None:
        def requeued(task: Task) -> None:
            back = moves.requeue(task, message.reset_retries, now)
            running = task.status is Status.IN_PROGRESS
            self._write(back, effects)
            self._index(back, now)
            worker = task.worker_id if running else None
            effects.events.append(Requeued(now, back.identity, back.token, back.attempts, worker))
            if running:
                self._settle(task, "requeued", now, effects, ended=False)
            else:
                effects.send(QUEUE, Readmitted(task.id))

        self._answer(message, requeued, effects)

    def _answer(self, message: Cancel | Requeue, act: Callable[[Task], None], effects: Effects) -> None:
        error: EvenhandError | None = None
        try:
            task = self._current(message.task_id)
            if task is None or task.user != self._user:
                raise UnknownTask(f"{self._user} has no task {message.task_id!r}")
            act(task)
        except EvenhandError as refused:
            error = refused
        if message.reply_to is not None:
            effects.hold(message.reply_to, Answered(message.task_id, error))

    # The turn

    def _grant(self, grant: Grant, now: float, draw: Draw, effects: Effects) -> None:
        lane = self._choose(grant.kinds)
        if lane is None:
            for kind in grant.kinds:
                self._changed[kind] = None
            effects.send(SCHEDULER, Declined(grant.number, self._ready()))
            return
        task = lane.head()
        assert task is not None, "a chosen lane is not empty"
        lane.pop()
        lease_seconds = self._settings.kind(task.kind).lease_seconds
        claimed = moves.claim(task, grant.worker_id, lease_seconds, now)
        self._write(claimed, effects)
        if task.expires_at is not None:
            self._expiring.forget()
        self._changed[task.kind] = None
        effects.events.append(Started(now, task.identity, claimed.token, claimed.attempts, grant.worker_id))
        run = Run(
            task.id, self._user, task.kind, claimed.token, claimed.attempts, task.payload, lease_seconds, grant.number
        )
        effects.hold(grant.worker_id, run)
        effects.send(SUPERVISOR, Leased(task.id, claimed.token, now + lease_seconds))
        effects.send(SCHEDULER, Granted(grant.number, task.id, task.cost, self._ready()))

    def _choose(self, kinds: frozenset[str]) -> Lane | None:
        """The lane whose head is next: the critical one, unless its burst is spent while others wait.

        The burst counts critical tasks that went before another this worker could have had, and ends when another
        starts or none waits for anybody. A worker that has no other to choose from neither adds to it nor ends it.
        """
        critical = self._best(self._critical, kinds)
        ordinary = self._best(self._ordinary, kinds)
        burst_max = self._settings.critical_burst
        burst: int = self._notes.get("burst", 0)
        if ordinary is not None and (critical is None or (burst_max is not None and burst >= burst_max)):
            self._set_burst(burst, 0)
            return ordinary
        if ordinary is not None:
            self._set_burst(burst, burst + 1)
        elif not any(self._ordinary.values()):
            self._set_burst(burst, 0)
        return critical

    def _best(self, lanes: dict[str, Lane], kinds: frozenset[str]) -> Lane | None:
        best: Lane | None = None
        best_entry = None
        for kind, lane in lanes.items():
            if kind in kinds and (entry := lane.first()) is not None and (best_entry is None or entry < best_entry):
                best, best_entry = lane, entry
        return best

    def _set_burst(self, before: int, burst: int) -> None:
        if burst:
            self._notes["burst"] = burst
        elif before:
            del self._notes["burst"]

    # What comes back

    def _finished(self, message: Finished, now: float, draw: Draw, effects: Effects) -> None:
        task = self._owned(message.task_id, message.token, message.worker_id, now, effects)
        if task is None:
            return
        if message.outcome == "completed":
            self._complete(task, message, now, effects)
        elif message.outcome == "released":
            back = moves.release(task, now)
            self._put_back(back, now, effects)
            used = self._settle(task, "released", now, effects, ended=False)
            effects.events.append(Released(now, task.identity, message.token, message.worker_id, used))
        else:
            self._failed_execution(task, message, now, draw, effects)

    def _complete(self, task: Task, report: Finished, now: float, effects: Effects) -> None:
        self._write(moves.complete(task, report.result, now), effects)
        used = self._settle(task, "completed", now, effects, ended=True)
        # The reporter's own token, here and below: a trace that quoted the task's could not show a report let through.
        effects.events.append(Completed(now, task.identity, report.token, report.worker_id, used))

    def _failed_execution(self, task: Task, report: Finished, now: float, draw: Draw, effects: Effects) -> None:
        error = report.error or report.outcome
        if report.outcome == "crashed" and _crashes(task) + 1 >= self._settings.poison_after:
            self._dead_letter(task, report.token, Cause.POISONED, "crashed", error, now, effects)
        elif report.give_up or task.attempts > task.max_retries or not task.retry.retries(report.error_types):
            self._dead_letter(task, report.token, Cause.FAILED, report.outcome, error, now, effects)
        else:
            delay = report.retry_after_seconds
            if delay is None:
                delay = task.retry.delay_seconds(task.attempts, draw("retry", task.id, task.token))
            back = moves.retry(task, report.outcome, error, now + delay, now)
            self._put_back(back, now, effects)
            used = self._settle(task, report.outcome, now, effects, ended=False)
            said = (report.outcome, error, now + delay)
            effects.events.append(Retried(now, task.identity, report.token, report.worker_id, used, *said))

    def _beat(self, message: Beat, now: float, draw: Draw, effects: Effects) -> None:
        task = self._owned(message.task_id, message.token, None, now, effects)
        if task is not None:
            extended = moves.extend(task, self._settings.kind(task.kind).lease_seconds, now)
            self._write(extended, effects)
            effects.events.append(Extended(now, task.identity, message.token, extended.lease_until or now))

    def _expire_lease(self, message: ExpireLease, now: float, draw: Draw, effects: Effects) -> None:
        task = self._current(message.task_id)
        if task is None or task.status is not Status.IN_PROGRESS or task.token != message.token:
            return
        assert task.lease_until is not None, "a running task has a lease"
        if task.lease_until > now:
            effects.send(SUPERVISOR, Leased(task.id, task.token, task.lease_until))
            return
        error = f"{task.worker_id} was silent for {self._settings.kind(task.kind).lease_seconds:g} s"
        if task.attempts > task.max_retries:
            self._dead_letter(task, message.token, Cause.FAILED, "recovered", error, now, effects)
            return
        back = moves.recover(task, error, now)
        self._put_back(back, now, effects)
        used = self._settle(task, "recovered", now, effects, ended=False)
        effects.events.append(Recovered(now, task.identity, back.token, _worker(task), used))

    def _owned(self, task_id: str, token: int, worker: Address | None, now: float, effects: Effects) -> Task | None:
        """The running task that this token still owns; else None, and the refusal is recorded."""
        task = self._current(task_id)
        if task is not None and task.status is Status.IN_PROGRESS and task.token == token:
            return task
        identity, current, status = (task.identity, task.token, task.status) if task else (task_id, 0, "unknown")
        effects.events.append(ReportRefused(now, identity, token, current, status, worker))
        return None

    def _resync(self, message: Resync, now: float, draw: Draw, effects: Effects) -> None:
        self._epoch = message.epoch
        self._changed.update(dict.fromkeys(self._ordinary))
        effects.send(SCHEDULER, self._ready())

    def _told_failed(self, failed: Failed, now: float, draw: Draw, effects: Effects) -> None:
        """A worker that crashed on a run took the task's side of it down; a fact is told again; the rest needs nothing."""
        match failed.message:
            case Run(task_id=task_id, token=token):
                report = Finished(
                    task_id=task_id, token=token, worker_id=failed.receiver, outcome="crashed", error=failed.error
                )
                self._finished(report, now, draw, effects)
            case fact if isinstance(fact, _FACTS):
                effects.send(failed.receiver, fact)

    def _wake(self, message: Wake, now: float, draw: Draw, effects: Effects) -> None:
        """What was due is done by `_catch_up`, as before any message."""
        self._wakes_at = NEVER

    # Shared by the above

    def _dead_letter(
        self, task: Task, token: int, cause: Cause, outcome: str, error: str, now: float, effects: Effects
    ) -> None:
        self._write(moves.fail(task, cause, outcome, error, now), effects)
        used = self._settle(task, outcome, now, effects, ended=True)
        effects.events.append(DeadLettered(now, task.identity, token, task.worker_id, used, cause, outcome, error))

    def _put_back(self, task: Task, now: float, effects: Effects) -> None:
        self._write(task, effects)
        self._index(task, now)

    def _settle(self, task: Task, outcome: str, now: float, effects: Effects, ended: bool) -> float:
        """Tell the scheduler (if it was charged) and the queue (if its place is free) what `task`, as it was, used."""
        running = task.status is Status.IN_PROGRESS
        used = now - task.started_at if running and task.started_at is not None else 0.0
        worker = task.worker_id if running else None
        settled = Settled(self._user, task.kind, task.id, worker, task.cost, used, outcome, ended)
        if running:
            effects.send(SCHEDULER, settled)
        if ended:
            effects.send(QUEUE, settled)
        return used

    def _catch_up(self, now: float, effects: Effects) -> None:
        """Make ready what is delayed no more, then expire what nobody started in time."""
        while self._delayed and (entry := self._delayed.first()) is not None and entry[0] <= now:
            self._delayed.pop()
            self._make_ready(entry[3])
        while self._expiring and (entry := self._expiring.first()) is not None and entry[0] <= now:
            self._expiring.pop()
            self._expire(entry[3], now, effects)

    def _expire(self, task: Task, now: float, effects: Effects) -> None:
        ended = moves.expire(task, now)
        self._write(ended, effects)
        self._unindex(task, now, expiring=False)
        self._settle(task, "expired", now, effects, ended=True)
        error = ended.error or ""
        effects.events.append(DeadLettered(now, task.identity, task.token, None, 0.0, Cause.EXPIRED, "expired", error))

    def _index(self, task: Task, now: float) -> None:
        if task.run_after is not None and task.run_after > now:
            self._delayed.push(task.run_after, task)
        else:
            self._make_ready(task)
        if task.expires_at is not None:
            self._expiring.push(task.expires_at, task)

    def _make_ready(self, task: Task) -> None:
        lanes = self._critical if task.priority is Priority.CRITICAL else self._ordinary
        if task.kind not in self._ordinary:
            self._critical[task.kind] = Lane(self._is_live)
            self._ordinary[task.kind] = Lane(self._is_live)
        key = task.order_at if task.priority is Priority.CRITICAL else self._settings.ordering.key(task)
        lanes[task.kind].push(key, task)
        self._changed[task.kind] = None

    def _unindex(self, task: Task, now: float, expiring: bool = True) -> None:
        """The pending task ended: its entries are dead."""
        if task.run_after is not None and task.run_after > now:
            self._delayed.forget()
        else:
            lanes = self._critical if task.priority is Priority.CRITICAL else self._ordinary
            lanes[task.kind].forget()
            self._changed[task.kind] = None
        if expiring and task.expires_at is not None:
            self._expiring.forget()

    def _count(self, kind: str) -> int:
        return len(self._ordinary[kind]) + len(self._critical[kind]) if kind in self._ordinary else 0

    def _finish(self, now: float, effects: Effects) -> None:
        self._announce(effects)
        wakes_at = min(_due(self._delayed), _due(self._expiring))
        if wakes_at != self._wakes_at:
            self._wakes_at = effects.timer = wakes_at
        effects.keep(self._notes)

    def _announce(self, effects: Effects) -> None:
        if self._changed:
            effects.send(SCHEDULER, self._ready())

    def _ready(self) -> Ready:
        """The counts that changed since this was last said. Forgets the lanes that are empty."""
        counts = {kind: self._count(kind) for kind in self._changed}
        heads = self._heads(counts)
        for kind, count in counts.items():
            if not count and kind in self._ordinary:
                del self._ordinary[kind], self._critical[kind]
        self._changed.clear()
        return Ready(self._user, counts, heads, self._epoch)

    def _heads(self, counts: dict[str, int]) -> dict[str, Head]:
        if not self._settings.sharing.sees_heads:
            return {}
        return {kind: self._head(kind) for kind, count in counts.items() if count}

    def _head(self, kind: str) -> Head:
        # A critical task comes first: a burst that is spent delays it by one task only.
        task = self._critical[kind].head() or self._ordinary[kind].head()
        assert task is not None, "a kind with a count has a head"
        return Head(task.priority, task.order_at, task.sequence, task.cost)

    def _write(self, task: Task, effects: Effects) -> None:
        self._written[task.id] = task
        effects.records.append(task)

    def _current(self, task_id: str) -> Task | None:
        return self._written.get(task_id) or self._table.get(task_id)

    def _is_live(self, task: Task) -> bool:
        return self._current(task.id) is task


_HANDLERS: dict[type, Callable[..., None]] = {
    Enqueue: Shard._enqueue,
    Grant: Shard._grant,
    Finished: Shard._finished,
    Beat: Shard._beat,
    ExpireLease: Shard._expire_lease,
    Cancel: Shard._cancel,
    Requeue: Shard._requeue,
    Resync: Shard._resync,
    Failed: Shard._told_failed,
    Wake: Shard._wake,
}


def _due(lane: Lane) -> float:
    """When the lane's first task is due, or NEVER."""
    first = lane.first() if lane else None
    at: float = first[0] if first is not None else NEVER
    return at


def _worker(task: Task) -> str:
    assert task.worker_id is not None, "a running task has an owner"
    return task.worker_id


def _crashes(task: Task) -> int:
    """How many workers the task has taken down since it was last requeued."""
    return sum(attempt.outcome == "crashed" and attempt.requeues == task.requeues for attempt in task.history)
