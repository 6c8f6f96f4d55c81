"""A submitter who relies on what it is told: a source of work beside a runtime that has a store.

It remembers which of its submits were not answered, and of which tasks it has not heard the end. When the runtime comes back it
asks again. Nobody can know whether what was not acknowledged is there, so each submit has an idempotency key. What a
client is told goes into the trace: the ledger holds the runtime to it.
"""

from collections.abc import Callable
from typing import Any

import msgspec

from actors.actor import Draw, Effects
from actors.messages import QUEUE, Accepted, Address, Answered, Await, Ended, Failed, Refused, Submit, shard_address
from actors.trace import Acknowledged, Told
from sim.workload import Source

__all__ = ["Client"]


class Client:
    """The core of a source that listens."""

    passive = False

    def __init__(self, address: Address, source: Source, name_of: Callable[[str], str]) -> None:
        self._address = address
        self._source = source
        self._name_of = name_of
        """What the trace calls a task, by its id."""
        self._unanswered: dict[str, Submit] = {}
        self._unended: dict[str, str] = {}
        """The users of tasks that are in, by their ids."""

    def start(self, now: float) -> Effects:
        effects = self._source.start(now)
        for submit in self._unanswered.values():
            effects.send(QUEUE, submit)
        for task_id, user in self._unended.items():
            effects.send(shard_address(user), Await(task_id, self._address))
        return effects

    def handle(self, message: Any, now: float, draw: Draw) -> Effects:
        effects = Effects()
        match message:
            case Accepted():
                self._accepted(message, now, effects)
            case Refused(submitted_id=submitted_id):
                self._unanswered.pop(submitted_id, None)
            case Ended(task=task):
                if self._unended.pop(task.id, None) is not None:
                    effects.events.append(Told(now, task.identity, task.status))
            case Failed(message=(Submit() | Await()) as again):
                effects.send(message.receiver, again)
            case Failed() | Answered():
                pass
            case _:
                effects = self._source.handle(message, now, draw)
                effects.sends[:] = [(QUEUE, self._remembered(submit)) for _, submit in effects.sends]
        return effects

    def _remembered(self, submit: Submit) -> Submit:
        submit = msgspec.structs.replace(submit, reply_to=self._address, idempotency_key=submit.id)
        self._unanswered[submit.id] = submit
        return submit

    def _accepted(self, accepted: Accepted, now: float, effects: Effects) -> None:
        submit = self._unanswered.pop(accepted.submitted_id, None)
        if submit is not None:
            effects.events.append(Acknowledged(now, self._name_of(accepted.task_id)))
            self._unended[accepted.task_id] = submit.user
            effects.send(shard_address(submit.user), Await(accepted.task_id, self._address))
