"""The supervisor: finds the tasks whose worker fell silent.

Leases lie in one heap by deadline, so finding the stuck ones costs O(stuck). The heap is lazy: a beat only changes the
task's record, and when a deadline comes up the record says whether the task has ended (drop it), beaten (look again at
the new deadline) or fallen silent (tell its shard). The shard has the last word, because a beat may be under way.
Entries of tasks that ended early are swept whenever they are more than half of the heap.
"""

from heapq import heapify, heappop, heappush
from typing import Any

from actors.actor import NEVER, Draw, Effects
from actors.messages import ExpireLease, Failed, Leased, Wake, shard_address
from actors.table import Table
from actors.task import Status, Task

__all__ = ["Supervisor"]

_COMPACT_MIN = 1024


class Supervisor:
    """The core of the supervisor actor."""

    passive = False

    def __init__(self, table: Table) -> None:
        self._table = table
        running = (task for task in table if task.status is Status.IN_PROGRESS)
        self._deadlines = [(task.lease_until or 0.0, task.id, task.token) for task in running]
        heapify(self._deadlines)
        self._sweep_at = max(_COMPACT_MIN, 2 * len(self._deadlines))
        self._wakes_at = NEVER

    def __repr__(self) -> str:
        return f"<Supervisor: {len(self._deadlines)} deadlines, the next at {self._wakes_at:g} s>"

    def start(self, now: float) -> Effects:
        effects = Effects()
        self._set_timer(effects)
        return effects

    def handle(self, message: Any, now: float, draw: Draw) -> Effects:
        effects = Effects()
        match message:
            case Leased():
                heappush(self._deadlines, (message.until, message.task_id, message.token))
                if len(self._deadlines) > self._sweep_at:
                    self._sweep()
            case Wake():
                self._wakes_at = NEVER
                self._expire_due(now, effects)
            case Failed(message=ExpireLease() as order):
                heappush(self._deadlines, (now, order.task_id, order.token))
            case Failed():
                pass
            case _:
                raise TypeError(f"supervisor cannot handle {message!r}")
        self._set_timer(effects)
        return effects

    def _expire_due(self, now: float, effects: Effects) -> None:
        """Deal with every deadline that is due, and drop those behind it whose task has ended: no wake-up for them."""
        while self._deadlines:
            at, task_id, token = self._deadlines[0]
            task = self._owned(task_id, token)
            if task is not None and at > now:
                return
            heappop(self._deadlines)
            if task is None:
                continue
            until = task.lease_until or 0.0
            if until > now:
                heappush(self._deadlines, (until, task_id, token))
            else:
                effects.send(shard_address(task.user), ExpireLease(task_id, token))

    def _sweep(self) -> None:
        self._deadlines = [entry for entry in self._deadlines if self._owned(entry[1], entry[2]) is not None]
        heapify(self._deadlines)
        self._sweep_at = max(_COMPACT_MIN, 2 * len(self._deadlines))

    def _owned(self, task_id: str, token: int) -> Task | None:
        task = self._table.get(task_id)
        if task is None or task.status is not Status.IN_PROGRESS or task.token != token:
            return None
        return task

    def _set_timer(self, effects: Effects) -> None:
        wakes_at = self._deadlines[0][0] if self._deadlines else NEVER
        if wakes_at != self._wakes_at:
            self._wakes_at = effects.timer = wakes_at
