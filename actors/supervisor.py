"""The supervisor: finds the tasks whose worker fell silent.

The table keeps what runs in the order in which the leases began. All leases of a kind are of one length, so that is the
order in which they end, and finding the stuck ones costs O(stuck + kinds). A beat begins a lease anew, at the end of the
line. The supervisor only has to look in time: when the first lease ends, or earlier. A shard tells it of a lease if none
of that kind was there before; of any other it will know when it looks. The shard has the last word on a lease that has run
out, because a beat may be under way.

After a stall (a suspended process, a clock that leapt) everybody's timers are late, and they fire in the order in which they
were due. So the supervisor looks as of the time at which it was to look, and not as of now: leases that ran out since have
beats that are due before them.
"""

import math
from typing import Any

from actors.actor import NEVER, Draw, Effects
from actors.messages import ExpireLease, Failed, Leased, Wake, shard_address
from actors.table import Table

__all__ = ["Supervisor"]


class Supervisor:
    """The core of the supervisor actor."""

    passive = False

    def __init__(self, table: Table) -> None:
        self._table = table
        self._wakes_at = NEVER

    def __repr__(self) -> str:
        return f"<Supervisor: looks again at {self._wakes_at:g} s>"

    def start(self, now: float) -> Effects:
        effects = Effects()
        # Whatever has run out is given up when this is the first timer that is due.
        self._look(-math.inf, effects)
        return effects

    def handle(self, message: Any, now: float, draw: Draw) -> Effects:
        effects = Effects()
        match message:
            case Leased():
                self._wake_at(message.until, effects)
            case Wake():
                due_at, self._wakes_at = min(now, self._wakes_at), NEVER
                self._look(due_at, effects)
            case Failed(message=ExpireLease()):
                # The shard is there again: ask once more.
                self._wake_at(now, effects)
            case Failed():
                pass
            case _:
                raise TypeError(f"supervisor cannot handle {message!r}")
        return effects

    def _look(self, due_at: float, effects: Effects) -> None:
        """Have every lease given up that has run out by then, and look again when the next one does."""
        for kind in self._table.leased_kinds():
            for task in self._table.leases(kind):
                until = task.lease_until or 0.0
                if until > due_at:
                    self._wake_at(until, effects)
                    break
                effects.send(shard_address(task.user), ExpireLease(task.id, task.token))

    def _wake_at(self, at: float, effects: Effects) -> None:
        if at < self._wakes_at:
            self._wakes_at = effects.timer = at
