"""The queue: the door. It validates, admits or refuses, numbers, and routes to the user's shard.

It owns what is known before a task has a shard: the bound on admitted tasks, the idempotency keys, the admission sequence
and the running mean cost of each kind. All of it is noted, so that a restart forgets nothing that is still under way.
"""

import math
from typing import Any

import msgspec

from actors.actor import Draw, Effects
from actors.config import Settings
from actors.errors import EvenhandError, InvalidTask, QueueFull
from actors.messages import Accepted, Enqueue, Failed, Readmitted, Refused, Settled, Submit, Wake, shard_address
from actors.table import Notes
from actors.task import Priority, Task
from actors.trace import SubmitRefused
from actors.validators import user_name_fault

__all__ = ["Queue"]

_encode = msgspec.json.Encoder().encode


class Queue:
    """The core of the queue actor."""

    passive = False

    def __init__(self, settings: Settings, notes: Notes) -> None:
        self._settings = settings
        self._notes = notes
        self._sequence, self._admitted = notes.get("door", (0, 0))

    def __repr__(self) -> str:
        bound = self._settings.admitted_max
        return f"<Queue: {self._admitted} admitted of {'any number' if bound is None else bound}>"

    def start(self, now: float) -> Effects:
        return Effects()

    def handle(self, message: Any, now: float, draw: Draw) -> Effects:
        effects = Effects()
        match message:
            case Submit():
                self._submit(message, now, effects)
            case Settled():
                self._settled(message)
            case Readmitted():
                self._count_admitted(+1)
            case Failed(message=Enqueue() as enqueue):
                self._put_out(enqueue, EvenhandError(message.error), now, effects)
            case Failed() | Wake():
                pass
            case _:
                raise TypeError(f"queue cannot handle {message!r}")
        return effects.keep(self._notes)

    def _submit(self, submit: Submit, now: float, effects: Effects) -> None:
        try:
            task = self._validated(submit, now)
            known = self._known(task)
            if known is None:
                self._check_bounds()
        except EvenhandError as error:
            self._refuse(submit, error, now, effects)
            return
        if known is not None:
            if submit.reply_to is not None:
                effects.hold(submit.reply_to, Accepted(submit.id, known))
            return
        self._sequence = task.sequence
        self._count_admitted(+1)
        if task.idempotency_key is not None:
            self._notes[_key_note(task)] = task.id
        effects.send(shard_address(task.user), Enqueue(task, submit.reply_to))

    def _validated(self, submit: Submit, now: float) -> Task:
        if fault := user_name_fault(submit.user) or _kind_fault(submit.kind) or _key_fault(submit.idempotency_key):
            raise InvalidTask(fault)
        self._check_payload(submit.payload)
        run_after = _time("run_after", submit.run_after)
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
            cost=self._cost(submit),
            run_after=run_after,
            expires_at=_time("expires_at", submit.expires_at),
            idempotency_key=submit.idempotency_key,
            persist=submit.persist,
        )

    def _check_payload(self, payload: Any) -> None:
        if payload is None:
            return
        try:
            size = len(_encode(payload))
        except (TypeError, ValueError, msgspec.MsgspecError, RecursionError) as error:
            raise InvalidTask(f"payload must be a JSON value, got {type(payload).__name__}: {error}") from None
        if size > self._settings.payload_bytes_max:
            raise InvalidTask(f"payload must be at most {self._settings.payload_bytes_max} bytes as JSON, got {size}")

    def _cost(self, submit: Submit) -> float:
        if submit.cost is None:
            mean: float = self._notes.get("mean/" + submit.kind, (0, 1.0))[1]
            return mean
        if not (isinstance(submit.cost, (int, float)) and math.isfinite(submit.cost) and submit.cost > 0):
            raise InvalidTask(f"cost must be a finite number > 0, got {submit.cost!r}")
        return float(submit.cost)

    def _known(self, task: Task) -> str | None:
        if task.idempotency_key is None:
            return None
        known: str | None = self._notes.get(_key_note(task))
        return known

    def _check_bounds(self) -> None:
        bound = self._settings.admitted_max
        if bound is not None and self._admitted >= bound:
            raise QueueFull(f"admitted tasks must be at most {bound}, got one more")

    def _settled(self, settled: Settled) -> None:
        if settled.ended:
            self._count_admitted(-1)
        if settled.outcome == "completed" and settled.used_seconds > 0:
            count, mean = self._notes.get("mean/" + settled.kind, (0, 1.0))
            mean = (mean * count + settled.used_seconds) / (count + 1)
            self._notes["mean/" + settled.kind] = (count + 1, mean)

    def _put_out(self, enqueue: Enqueue, error: EvenhandError, now: float, effects: Effects) -> None:
        """The shard could not take the task: it was never admitted, and its submitter must not wait for ever."""
        task = enqueue.task
        self._count_admitted(-1)
        if task.idempotency_key is not None:
            del self._notes[_key_note(task)]
        submit = Submit(id=task.id, user=task.user, kind=task.kind, reply_to=enqueue.reply_to)
        self._refuse(submit, error, now, effects)

    def _refuse(self, submit: Submit, error: EvenhandError, now: float, effects: Effects) -> None:
        effects.events.append(SubmitRefused(now, str(submit.user), str(submit.kind), str(error)))
        if submit.reply_to is not None:
            effects.send(submit.reply_to, Refused(submit.id, error))

    def _count_admitted(self, difference: int) -> None:
        self._admitted += difference
        assert self._admitted >= 0, "more tasks ended than were admitted"
        self._notes["door"] = (self._sequence, self._admitted)


def _key_note(task: Task) -> str:
    # The length keeps ("a", "b/c") and ("a/b", "c") apart.
    return f"key/{len(task.user)}/{task.user}/{task.idempotency_key}"


def _kind_fault(kind: object) -> str | None:
    if isinstance(kind, str) and kind and kind.isprintable():
        return None
    return f"kind must be printable text, got {kind!r}"


def _key_fault(key: object) -> str | None:
    if key is None or (isinstance(key, str) and key):
        return None
    return f"idempotency_key must be text that is not empty, got {key!r}"


def _time(name: str, value: float | None) -> float | None:
    if value is None:
        return None
    if not isinstance(value, (int, float)) or isinstance(value, bool) or not math.isfinite(value):
        raise InvalidTask(f"{name} must be a finite number of seconds, got {value!r}")
    return float(value)
