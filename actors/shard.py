"""A shard: one user's tasks, and the only one who may change them.

It decides which of its user's tasks is next, hands it to a worker under a new token and a lease, and judges what comes
back. A report counts only for a running task under its current token; any other is refused, recorded, and changes
nothing. So delivery is at least once, and exactly one outcome is accepted.

A waiting task is cancelled at once. For a running one a cancel is a request: its worker is told to stop, and reports
whichever came first. A result counts; any other end of that execution, a failure, a crash or a silent worker, ends the
task as cancelled. An operator's requeue takes the request back.

What waits lies in the backlog, which is an index over the table: a crashed shard is rebuilt from it and carries on.
"""

from collections import Counter
from collections.abc import Callable
from typing import Any

import msgspec

from actors import moves
from actors.actor import NEVER, Draw, Effects
from actors.backlog import Backlog
from actors.config import Settings
from actors.errors import EvenhandError, UnknownTask
from actors.messages import (
    QUEUE,
    SCHEDULER,
    SUPERVISOR,
    Accepted,
    Address,
    Answered,
    Await,
    Beat,
    Cancel,
    Declined,
    Drop,
    Ended,
    Enqueue,
    ExpireLease,
    Failed,
    Finished,
    Grant,
    Granted,
    Leased,
    NothingDropped,
    Readmitted,
    Ready,
    Requeue,
    Resync,
    Run,
    Settled,
    Stop,
    Wake,
)
from actors.table import Notes, Table
from actors.task import IN_PROGRESS, PENDING, Cause, Task
from actors.trace import (
    Admitted,
    Cancelled,
    CancelRequested,
    Completed,
    DeadLettered,
    Extended,
    Progressed,
    Recovered,
    Released,
    ReportRefused,
    Requeued,
    Retried,
    Started,
)

__all__ = ["Shard"]

_FACTS = (Settled, Readmitted, NothingDropped, Granted, Declined)
"""Messages that must arrive: sent again if their receiver crashed on them."""


class Shard:
    """The core of one user's shard."""

    def __init__(self, user: str, settings: Settings, table: Table, notes: Notes) -> None:
        self._user = user
        self._settings = settings
        self._table = table
        self._notes = notes
        self._epoch: int = table.notes(SCHEDULER).get("epoch", 1)
        self._backlog = Backlog(settings, notes, self._is_live)
        self._bounded = settings.bounded
        self._queue_drops = settings.when_full == "drop_oldest"
        self._awaited: dict[str, list[Address]] = notes.under("await/")
        """Who wants to know when a task has ended."""
        self._written: dict[str, Task] = {}
        """Records made while handling this message, which the table does not hold yet."""
        self._wakes_at = NEVER
        self.passive = True

    def __repr__(self) -> str:
        return f"<Shard of {self._user}: {self._backlog!r}>"

    @property
    def index_health(self) -> float:
        """Live entries as a part of all, over every lane; 1 when empty."""
        live, entries = self.index_size
        return live / entries if entries else 1.0

    @property
    def index_size(self) -> tuple[int, int]:
        """Live entries and all entries, over every lane."""
        return self._backlog.size

    def start(self, now: float) -> Effects:
        """Index what the table holds, and say what is ready."""
        effects = Effects()
        for task in self._table.live(self._user):
            if task.status is PENDING:
                self._backlog.add(task, now)
        return self._finish(now, effects)

    def handle(self, message: Any, now: float, draw: Draw) -> Effects:
        handler = _HANDLERS.get(type(message))
        if handler is None:
            raise TypeError(f"shard cannot handle {message!r}")
        effects = Effects()
        if self._written:
            self._written.clear()
        if self._wakes_at <= now:
            self._catch_up(now, effects)
        handler(self, message, now, draw, effects)
        return self._finish(now, effects)

    # Orders from outside

    def _enqueue(self, message: Enqueue, now: float, draw: Draw, effects: Effects) -> None:
        task = message.task
        self._wait(task, now, effects)
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
            if task.status is IN_PROGRESS:
                self._request_cancel(task, now, effects)
                return
            self._write(moves.cancel(task, now), effects)
            self._backlog.remove(task, now)
            effects.events.append(Cancelled(now, task.identity, task.token))
            self._settle(task, "cancelled", now, effects, ended=True)

        self._answer(message, cancelled, effects)

    def _request_cancel(self, task: Task, now: float, effects: Effects) -> None:
        """Tell the worker to stop; asked again, tell it again, for the first time may have been lost."""
        if not task.cancel_requested:
            self._write(moves.request_cancel(task, now), effects)
            effects.events.append(CancelRequested(now, task.identity, task.token))
        self._stop(task, effects)

    def _requeue(self, message: Requeue, now: float, draw: Draw, effects: Effects) -> None:
        def requeued(task: Task) -> None:
            back = moves.requeue(task, message.reset_retries, now)
            running = task.status is IN_PROGRESS
            self._wait(back, now, effects)
            worker = task.worker_id if running else None
            effects.events.append(Requeued(now, back.identity, back.token, back.attempts, worker))
            if running:
                self._settle(task, "requeued", now, effects, ended=False)
            else:
                effects.send(QUEUE, Readmitted(task.id, task.user))

        self._answer(message, requeued, effects)

    def _drop(self, message: Drop, now: float, draw: Draw, effects: Effects) -> None:
        if (task := self._backlog.oldest()) is None:
            effects.send(QUEUE, NothingDropped(self._user))
        else:
            self._end_unstarted(task, moves.drop(task, now), Cause.DROPPED, now, effects)

    def _await(self, message: Await, now: float, draw: Draw, effects: Effects) -> None:
        task = self._current(message.task_id)
        if task is None or task.user != self._user:
            error = UnknownTask(f"{self._user} has no task {message.task_id!r}")
            effects.hold(message.reply_to, Answered(message.task_id, error))
        elif task.status.terminal:
            effects.hold(message.reply_to, Ended(task))
        else:
            waiting = self._awaited.setdefault(task.id, [])
            if message.reply_to not in waiting:
                waiting.append(message.reply_to)
                self._notes["await/" + task.id] = list(waiting)

    def _tell_awaiting(self, ended: Task, effects: Effects) -> None:
        for reply_to in self._awaited.pop(ended.id):
            effects.hold(reply_to, Ended(ended))
        del self._notes["await/" + ended.id]

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
        task = self._backlog.choose(grant.kinds, now)
        if task is None:
            self._backlog.changed.update(dict.fromkeys(grant.kinds))
            effects.send(SCHEDULER, Declined(grant.number, self._ready(now)))
            return
        kind = self._settings.kind(task.kind)
        lease_seconds = kind.lease_seconds
        claimed = moves.claim(task, grant.worker_id, lease_seconds, now)
        self._write(claimed, effects)
        self._backlog.forget(task)
        waited = None if task.token else now - task.order_at
        effects.events.append(
            Started(now, claimed.identity, claimed.token, claimed.attempts, grant.worker_id, waited, grant.stolen)
        )
        run = Run(
            task.id,
            self._user,
            task.kind,
            claimed.token,
            claimed.attempts,
            task.payload,
            lease_seconds,
            grant.number,
            kind.timeout_seconds,
        )
        effects.hold(grant.worker_id, run)
        if not self._table.is_leased(task.kind):
            effects.send(SUPERVISOR, Leased(task.id, claimed.token, now + lease_seconds))
        left = self._ready(now) if self._backlog.changed else None
        effects.send(SCHEDULER, Granted(grant.number, task.id, self._user, task.kind, task.cost, left))

    # What comes back

    def _finished(self, message: Finished, now: float, draw: Draw, effects: Effects) -> None:
        task = self._owned(message.task_id, message.token, message.worker_id, now, effects)
        if task is None:
            return
        if message.outcome == "completed":
            self._complete(task, message, now, effects)
        elif message.outcome == "cancelled" or task.cancel_requested:
            self._end_cancelled(task, message.token, message.outcome, message.error, now, effects)
        elif message.outcome == "released":
            back = moves.release(task, now)
            self._wait(back, now, effects)
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
            self._dead_letter(task, report.token, Cause.POISONED, "crashed", error, now, effects, report.traceback)
        elif report.give_up or task.attempts > task.max_retries or not _may_try_again(task, report):
            self._dead_letter(task, report.token, Cause.FAILED, report.outcome, error, now, effects, report.traceback)
        else:
            delay = report.retry_after_seconds
            if delay is None:
                delay = task.retry.delay_seconds(task.attempts, draw("retry", task.id, task.token))
            back = moves.retry(task, report.outcome, error, now + delay, now, report.traceback)
            self._wait(back, now, effects)
            used = self._settle(task, report.outcome, now, effects, ended=False)
            said = (report.outcome, error, now + delay)
            effects.events.append(Retried(now, task.identity, report.token, report.worker_id, used, *said))

    def _beat(self, message: Beat, now: float, draw: Draw, effects: Effects) -> None:
        task = self._owned(message.task_id, message.token, None, now, effects)
        if task is not None:
            extended = moves.extend(task, self._settings.kind(task.kind).lease_seconds, now, message.progress)
            self._write(extended, effects)
            effects.events.append(Extended(now, task.identity, message.token, extended.lease_until or now))
            if message.progress is not None:
                effects.events.append(Progressed(now, task.identity, message.token, message.progress))
            if task.cancel_requested:
                # The worker is still at it: what told it to stop was lost, or came before the run.
                self._stop(task, effects)

    def _expire_lease(self, message: ExpireLease, now: float, draw: Draw, effects: Effects) -> None:
        task = self._current(message.task_id)
        if task is None or task.status is not IN_PROGRESS or task.token != message.token:
            return
        assert task.lease_until is not None, "a running task has a lease"
        if task.lease_until > now:
            effects.send(SUPERVISOR, Leased(task.id, task.token, task.lease_until))
            return
        error = f"{task.worker_id} was silent for {self._settings.kind(task.kind).lease_seconds:g} s"
        if task.cancel_requested:
            self._end_cancelled(task, message.token, "recovered", error, now, effects)
            return
        if task.attempts > task.max_retries:
            self._dead_letter(task, message.token, Cause.FAILED, "recovered", error, now, effects)
            return
        back = moves.recover(task, error, now)
        self._wait(back, now, effects)
        used = self._settle(task, "recovered", now, effects, ended=False)
        effects.events.append(Recovered(now, task.identity, back.token, _worker(task), used))

    def _owned(self, task_id: str, token: int, worker: Address | None, now: float, effects: Effects) -> Task | None:
        """The running task that this token still owns; else None, and the refusal is recorded."""
        task = self._current(task_id)
        if task is not None and task.status is IN_PROGRESS and task.token == token:
            return task
        identity, current, status = (task.identity, task.token, task.status) if task else (task_id, 0, "unknown")
        effects.events.append(ReportRefused(now, identity, token, current, status, worker))
        return None

    def _resync(self, message: Resync, now: float, draw: Draw, effects: Effects) -> None:
        self._epoch = message.epoch
        self._backlog.change_all()
        running = Counter(task.kind for task in self._table.live(self._user) if task.status is IN_PROGRESS)
        effects.send(SCHEDULER, msgspec.structs.replace(self._ready(now), running=dict(running), void=message.void))

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
            case _:
                effects.tell_again(failed)

    def _wake(self, message: Wake, now: float, draw: Draw, effects: Effects) -> None:
        """What was due is done by `_catch_up`, as before any message."""
        self._wakes_at = NEVER

    # Shared by the above

    def _dead_letter(
        self,
        task: Task,
        token: int,
        cause: Cause,
        outcome: str,
        error: str,
        now: float,
        effects: Effects,
        traceback: str | None = None,
    ) -> None:
        self._write(moves.fail(task, cause, outcome, error, now, traceback), effects)
        used = self._settle(task, outcome, now, effects, ended=True)
        effects.events.append(DeadLettered(now, task.identity, token, task.worker_id, used, cause, outcome, error))

    def _end_cancelled(
        self, task: Task, token: int, outcome: str, error: str | None, now: float, effects: Effects
    ) -> None:
        """The running task is cancelled, however its execution ended."""
        self._write(moves.cancel(task, now, outcome, error), effects)
        used = self._settle(task, outcome, now, effects, ended=True)
        effects.events.append(Cancelled(now, task.identity, token, task.worker_id, used, outcome))

    def _stop(self, task: Task, effects: Effects) -> None:
        # Held as the run was, so that it cannot overtake it.
        effects.hold(_worker(task), Stop(task.id, task.token))

    def _wait(self, task: Task, now: float, effects: Effects) -> None:
        """The task waits from now on."""
        self._write(task, effects)
        self._backlog.add(task, now)

    def _settle(self, task: Task, outcome: str, now: float, effects: Effects, ended: bool) -> float:
        """Tell the scheduler (if it was charged) and the queue (if its place is free, or it drops) what `task` used."""
        running = task.status is IN_PROGRESS
        used = now - task.started_at if running and task.started_at is not None else 0.0
        worker = task.worker_id if running else None
        settled = Settled(self._user, task.kind, task.id, worker, task.cost, used, outcome, ended)
        if ended and task.id in self._awaited:
            self._tell_awaiting(self._written[task.id], effects)
        if running:
            effects.send(SCHEDULER, settled)
        # Without bounds the queue need not count; it must only know of a first task to be swept, to know of the others.
        if (self._bounded and (ended or self._queue_drops)) or (
            ended and not self._table.counts[self._written[task.id].status]
        ):
            effects.send(QUEUE, settled)
        return used

    def _catch_up(self, now: float, effects: Effects) -> None:
        """Make ready what is delayed no more, then expire what nobody started in time."""
        self._backlog.mature(now)
        while (task := self._backlog.overdue(now)) is not None:
            self._end_unstarted(task, moves.expire(task, now), Cause.EXPIRED, now, effects)

    def _end_unstarted(self, task: Task, ended: Task, cause: Cause, now: float, effects: Effects) -> None:
        """A waiting task became a dead letter."""
        self._write(ended, effects)
        self._backlog.remove(task, now)
        self._settle(task, cause, now, effects, ended=True)
        effects.events.append(DeadLettered(now, task.identity, task.token, None, 0.0, cause, cause, ended.error or ""))

    def _finish(self, now: float, effects: Effects) -> Effects:
        backlog = self._backlog
        if backlog.changed:
            self._announce(now, effects)
        wakes_at = backlog.wakes_at()
        if wakes_at != self._wakes_at:
            self._wakes_at = effects.timer = wakes_at
        self.passive = backlog.empty
        return effects.keep(self._notes)

    def _announce(self, now: float, effects: Effects) -> None:
        effects.send(SCHEDULER, self._ready(now))

    def _ready(self, now: float) -> Ready:
        """What changed since this was last said."""
        counts, heads = self._backlog.tell(now)
        return Ready(self._user, counts, heads, self._epoch)

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
    Drop: Shard._drop,
    Finished: Shard._finished,
    Beat: Shard._beat,
    ExpireLease: Shard._expire_lease,
    Cancel: Shard._cancel,
    Await: Shard._await,
    Requeue: Shard._requeue,
    Resync: Shard._resync,
    Failed: Shard._told_failed,
    Wake: Shard._wake,
}


def _worker(task: Task) -> str:
    assert task.worker_id is not None, "a running task has an owner"
    return task.worker_id


def _may_try_again(task: Task, report: Finished) -> bool:
    """Whether its policy has nothing against another try.

    A handler that asks for one needs no leave. Neither does a crash, which is judged by how often it happens: `retry_on`
    names what handlers raise, and cannot name what ended a worker. `give_up_on` may.
    """
    if report.retry_after_seconds is not None:
        return True
    if report.outcome == "crashed":
        return not task.retry.gives_up(report.error_types)
    return task.retry.retries(report.error_types)


def _crashes(task: Task) -> int:
    """How many workers the task has taken down since it was last requeued."""
    return sum(attempt.outcome == "crashed" and attempt.requeues == task.requeues for attempt in task.history)
