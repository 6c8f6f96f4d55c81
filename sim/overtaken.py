"""How often a task was overtaken, counted on request, whatever the order.

A task is overtaken by every task of the same user that came after it, by `order_at` and then by admission, and was first
started before it.
"""

from bisect import bisect_right, insort
from collections.abc import Iterable

from actors.task import Priority
from actors.trace import Event, Started
from sim.entries import Entry
from sim.invariants import Ledger

__all__ = ["Overtaken"]

Place = tuple[float, int]


class Overtaken:
    """Takes down who was started, in order. Must see each event after the ledger it reads from."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._started: dict[str, list[Place]] = {}
        """The places of each user's tasks that were started, sorted."""
        self._times: dict[str, int] = {}
        """How often each task that was started had been overtaken."""

    def on_event(self, event: Event) -> None:
        if type(event) is Started and event.task not in self._times:
            entry = self._ledger.entries[event.task]
            self._times[event.task] = self._later_than(entry)
            insort(self._started.setdefault(entry.user, []), _place(entry))

    def on_quiet(self, now: float) -> None:
        """Nothing to see."""

    def most(self, user: str | None, level: Priority | None) -> int | None:
        """The most that any of these tasks was overtaken, also of those that still wait; None if there is none."""
        chosen: Iterable[tuple[str, Entry]] = (
            (name, entry)
            for name, entry in self._ledger.entries.items()
            if (user is None or entry.user == user) and (level is None or entry.level == level)
        )
        return max(
            (
                self._times[name] if name in self._times else self._later_than(entry)
                for name, entry in chosen
                if name in self._times or entry.state == "waiting"
            ),
            default=None,
        )

    def _later_than(self, entry: Entry) -> int:
        started = self._started.get(entry.user, [])
        return len(started) - bisect_right(started, _place(entry))


def _place(entry: Entry) -> Place:
    return (entry.order_at, entry.sequence)
