"""The queue: validates, admits or refuses, numbers, and routes to the user's shard. It sweeps what has long ended.

It owns what is known before a task has a shard: who is inside (`door.py`), the idempotency keys, the admission sequence and the
running mean cost of each kind. What becomes of a submit that finds no room is a setting: it is refused, or it waits until
the fair order of the waiting room lets it in, or it waits for somebody's oldest task to be dropped (`pushout.py`). All of it
is noted, so that a restart forgets nothing that is still under way.

Whom to ask for a task is decided on what the table says, so it waits until nothing is under way to or from it: timers fire
only when the mailbox is empty, so the queue asks to be woken now. Else a light user would lose a task to a burst that has
not arrived yet.
"""

from collections.abc import Callable
from typing import Any

import msgspec

from actors.actor import NEVER, Draw, Effects
from actors.config import Settings
from actors.door import Door
from actors.errors import EvenhandError, InvalidTransition, UnknownTask
from actors.messages import (
    Accepted,
    Address,
    Answered,
    Delete,
    Drop,
    Enqueue,
    Failed,
    Maintain,
    Maintained,
    NothingDropped,
    Readmitted,
    Refused,
    Settled,
    SetWeight,
    Submit,
    Wake,
    Withdraw,
    shard_address,
)
from actors.pushout import Pushout
from actors.retention import Retention
from actors.submission import check_same_kind, checked_payload, cost_of, seconds_of
from actors.table import Notes, Removed, Table
from actors.task import Priority, Task
from actors.trace import SubmitRefused, Swept
from actors.validators import number_fault
from actors.waiting import WaitingRoom

__all__ = ["Queue", "key_note"]


class Queue:
    """The core of the queue actor. Without a table it has nothing to sweep and nobody to push out."""

    passive = False

    def __init__(self, settings: Settings, notes: Notes, table: Table | None = None) -> None:
        self._settings = settings
        self._notes = notes
        self._table = Table() if table is None else table
        self._sequence: int = notes.get("sequence", 0)
        self._door = Door(settings, notes)
        self._room = WaitingRoom(notes.within("wait/"), self._door.closed + 1, self._door.needs, self._door.weight)
        drops = settings.when_full == "drop_oldest"
        self._pushout = Pushout(self._door, self._table, notes) if drops else None
        self._retention = Retention(settings, self._table, notes)
        self._due_at = NEVER
        """When the next ended task is to be removed."""
        self._wakes_at = NEVER

    def __repr__(self) -> str:
        if not self._settings.bounded:
            return "<Queue: any number may come in>"
        bound = self._settings.admitted_max
        waiting = f", {len(self._room)} users wait" if self._room else ""
        return f"<Queue: {self._door.admitted} admitted of {'any number' if bound is None else bound}{waiting}>"

    def start(self, now: float) -> Effects:
        effects = Effects()
        self._due_at = self._retention.due_at()
        self._set_timer(now, effects)
        return effects

    def handle(self, message: Any, now: float, draw: Draw) -> Effects:
        handler = _HANDLERS.get(type(message))
        if handler is None:
            raise TypeError(f"queue cannot handle {message!r}")
        effects = Effects()
        handler(self, message, now, effects)
        if self._room:
            self._let_in(now, effects, quiet=type(message) is Wake)
        self._set_timer(now, effects)
        return effects.keep(self._notes)

    # A submit

    def _submit(self, submit: Submit, now: float, effects: Effects) -> None:
        try:
            payload = checked_payload(submit, self._settings.payload_bytes_max)
            if payload is not submit.payload:
                submit = msgspec.structs.replace(submit, payload=payload)
            task = self._task(submit, now)
            known = self._known(task)
            joined = known is None and self._room.join(submit)
        except EvenhandError as error:
            self._refuse(submit, error, now, effects)
            return
        full = self._door.refusal(submit.user)
        if known is not None:
            self._accept(submit.id, submit.reply_to, known, effects)
        elif joined:
            return
        elif full is None and submit.user not in self._room:
            self._admit(task, submit.reply_to, effects)
        elif full is not None and self._settings.when_full == "reject":
            self._refuse(submit, full, now, effects)
        else:
            self._room.park(submit)

    def _task(self, submit: Submit, now: float) -> Task:
        run_after = seconds_of("run_after", submit.run_after)
        return Task(
            id=submit.id,
            user=submit.user,
            kind=submit.kind,
            sequence=self._sequence + 1,
            created_at=now,
            updated_at=now,
            order_at=now if run_after is None or run_after < now else run_after,
            payload=submit.payload,
            priority=Priority.parse(submit.priority),
            retry=submit.retry if submit.retry is not None else self._settings.kind(submit.kind).retry,
            cost=self._mean_cost(submit.kind) if submit.cost is None else cost_of(submit.cost),
            run_after=run_after,
            expires_at=seconds_of("expires_at", submit.expires_at),
            idempotency_key=submit.idempotency_key,
            persist=submit.persist,
        )

    def _mean_cost(self, kind: str) -> float:
        mean = self._table.mean_seconds(kind)
        return 1.0 if mean is None else mean

    def _known(self, task: Task) -> str | None:
        """The task that the key means, if it means one; InvalidTask if that is of another kind."""
        if task.idempotency_key is None or (known := self._notes.get(key_note(task))) is None:
            return None
        task_id, kind = known
        check_same_kind(task.idempotency_key, kind, task.kind)
        return str(task_id)

    def _admit(self, task: Task, reply_to: Address | None, effects: Effects) -> None:
        self._sequence = task.sequence
        self._notes.put("sequence", task.sequence)
        self._count(task.user, +1)
        if task.idempotency_key is not None:
            self._notes[key_note(task)] = [task.id, task.kind]
        effects.send(shard_address(task.user), Enqueue(task, reply_to))

    def _accept(self, submitted_id: str, reply_to: Address | None, task_id: str, effects: Effects) -> None:
        """The submit means a task that is in already. Of a new one its shard tells the submitter."""
        if reply_to is not None:
            effects.hold(reply_to, Accepted(submitted_id, task_id))

    def _refuse(self, submit: Submit, error: EvenhandError, now: float, effects: Effects) -> None:
        effects.events.append(SubmitRefused(now, str(submit.user), str(submit.kind), str(error)))
        if submit.reply_to is not None:
            effects.send(submit.reply_to, Refused(submit.id, error))

    # Those who wait

    def _let_in(self, now: float, effects: Effects, quiet: bool) -> None:
        """Let in whom the door would take, in their order; for the others, if that is the way, have a task dropped."""
        if self._pushout is not None and self._pushout.victim is not None:
            # The answer first: who came in meanwhile would have had a task dropped for nothing.
            return
        while (user := self._room.first(self._door.free)) is not None:
            self._enter(user, now, effects)
        if self._pushout is not None and quiet:
            self._push_out(self._pushout, now, effects)

    def _enter(self, user: str, now: float, effects: Effects) -> None:
        parked = self._room.let_in(user)
        task = self._task(parked.submit, now)
        self._admit(task, parked.submit.reply_to, effects)
        for submitted_id, reply_to in parked.joined:
            self._accept(submitted_id, reply_to, task.id, effects)
        if self._pushout is not None:
            self._pushout.forget_tried()

    def _push_out(self, pushout: Pushout, now: float, effects: Effects) -> None:
        """Ask somebody to drop a task for the first who waits; turn away whomever nobody can make room for."""
        while (user := self._room.first(self._door.closed)) is not None:
            victim = pushout.open(user)
            if victim is not None:
                effects.send(shard_address(victim), Drop())
                return
            full = self._door.refusal(user)
            assert full is not None, "whoever may enter has entered"
            parked = self._room.turn_away(user)
            self._refuse(parked.submit, full, now, effects)
            for submitted_id, reply_to in parked.joined:
                joined = msgspec.structs.replace(parked.submit, id=submitted_id, reply_to=reply_to)
                self._refuse(joined, full, now, effects)
            pushout.forget_tried()

    def _nothing_dropped(self, message: NothingDropped, now: float, effects: Effects) -> None:
        self._had_nothing(message.user)

    def _had_nothing(self, user: str) -> None:
        if self._pushout is not None:
            self._pushout.had_nothing(user)

    def _withdraw(self, message: Withdraw, now: float, effects: Effects) -> None:
        error = None
        if not self._room.withdraw(message.user, message.submitted_id):
            error = UnknownTask(f"no submit {message.submitted_id!r} of {message.user} waits at the door")
        if message.reply_to is not None:
            # At once: no store keeps who stands at the door.
            effects.send(message.reply_to, Answered(message.submitted_id, error))

    def _set_weight(self, message: SetWeight, now: float, effects: Effects) -> None:
        """The scheduler, who is told the same, answers; also that a weight is none."""
        if number_fault("weight", message.weight) is None:
            before = self._door.weight(message.user)
            self._door.set_weight(message.user, float(message.weight))
            self._room.reweigh(message.user, before, float(message.weight))
            if self._pushout is not None:
                self._pushout.refresh(message.user)

    # What comes back

    def _settled(self, settled: Settled, now: float, effects: Effects) -> None:
        user = settled.user
        if settled.ended:
            self._count(user, -1)
            self._due_at = self._retention.due_at()
        elif self._pushout is not None:
            self._pushout.refresh(user)
        if settled.outcome == "dropped" and self._pushout is not None:
            newcomer = self._pushout.dropped(user)
            if newcomer is not None and self._door.may_replace(newcomer):
                self._enter(newcomer, now, effects)

    def _readmitted(self, message: Readmitted, now: float, effects: Effects) -> None:
        self._count(message.user, +1)
        self._due_at = self._retention.due_at()

    def _told_failed(self, failed: Failed, now: float, effects: Effects) -> None:
        """A shard that crashed on a task never had it; one that crashed on a drop drops nothing; an answer is told again."""
        match failed.message:
            case Enqueue() as enqueue:
                self._put_out(enqueue, EvenhandError(failed.error), now, effects)
            case Drop():
                self._had_nothing(failed.receiver.removeprefix(shard_address("")))
            case _:
                effects.tell_again(failed)

    def _put_out(self, enqueue: Enqueue, error: EvenhandError, now: float, effects: Effects) -> None:
        """The shard could not take the task: it was never admitted, and its submitter must not wait for ever."""
        task = enqueue.task
        self._count(task.user, -1)
        if task.idempotency_key is not None:
            del self._notes[key_note(task)]
        submit = Submit(id=task.id, user=task.user, kind=task.kind, reply_to=enqueue.reply_to)
        self._refuse(submit, error, now, effects)

    def _maintain(self, message: Maintain, now: float, effects: Effects) -> None:
        self._retention.ask(message.reply_to, message.everything, now)
        self._sweep(now, effects)

    def _wake(self, message: Wake, now: float, effects: Effects) -> None:
        self._wakes_at = NEVER
        self._sweep(now, effects)

    def _sweep(self, now: float, effects: Effects) -> None:
        """Remove some of what is due, with its keys; if that was all, tell whoever asked."""
        going, self._due_at = self._retention.sweep(now)
        for task in going:
            self._remove(task, now, effects)
        self._retention.swept(len(going))
        if self._due_at > now:
            for reply_to, removed in self._retention.finish():
                effects.hold(reply_to, Maintained(removed))

    def _delete(self, message: Delete, now: float, effects: Effects) -> None:
        error: EvenhandError | None = None
        task = self._table.get(message.task_id)
        if task is None:
            error = UnknownTask(f"no task has id {message.task_id!r}")
        elif not task.status.terminal:
            error = InvalidTransition(f"a task that is {task.status} cannot be deleted: cancel it first")
        else:
            self._remove(task, now, effects)
        if message.reply_to is not None:
            effects.hold(message.reply_to, Answered(message.task_id, error))

    def _remove(self, task: Task, now: float, effects: Effects) -> None:
        effects.records.append(Removed(task.id))
        effects.events.append(Swept(now, task.identity))
        if task.idempotency_key is not None and self._notes.get(key_note(task)) == [task.id, task.kind]:
            del self._notes[key_note(task)]

    # Shared by the above

    def _count(self, user: str, difference: int) -> None:
        if not self._settings.bounded:
            return
        self._door.count(user, difference)
        self._room.move(user)
        if self._pushout is not None:
            self._pushout.refresh(user)

    def _set_timer(self, now: float, effects: Effects) -> None:
        undecided = self._pushout is not None and self._pushout.victim is None and len(self._room) > 0
        wakes_at = self._due_at if self._due_at > now and not undecided else now
        if wakes_at != self._wakes_at and not (wakes_at <= now and self._wakes_at <= now):
            self._wakes_at = effects.timer = wakes_at


_HANDLERS: dict[type, Callable[..., None]] = {
    Submit: Queue._submit,
    Settled: Queue._settled,
    Readmitted: Queue._readmitted,
    NothingDropped: Queue._nothing_dropped,
    Withdraw: Queue._withdraw,
    Delete: Queue._delete,
    SetWeight: Queue._set_weight,
    Maintain: Queue._maintain,
    Wake: Queue._wake,
    Failed: Queue._told_failed,
}


def key_note(task: Task) -> str:
    """Where the queue notes which task a user's idempotency key means."""
    # The length keeps ("a", "b/c") and ("a/b", "c") apart.
    return f"key/{len(task.user)}/{task.user}/{task.idempotency_key}"
