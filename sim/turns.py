"""A log of turns: who was given how much, and who was waiting for it, in the order in which it happened.

A user is *backlogged* from the first quiet instant at which it has tasks that could start, until the last of them has left.
Whoever is held back by something that is not the sharing policy's doing counts as not backlogged for as long as that
holds: a pause, or a limit on the user or on a kind of its own. So does, always, a user that some worker may not serve. What
is left is what a sharing policy can be blamed for: `sim/fairness.py` reads it.

A dispatch is charged at its cost, and corrected when it ends to the seconds that it took.
"""

from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

from actors.config import Settings
from actors.limits import Limit
from actors.messages import Address, WorkerClass
from actors.restraints import EVERYTHING, kind_key, user_key
from actors.trace import (
    Cancelled,
    Completed,
    DeadLettered,
    Event,
    Paused,
    Recovered,
    Released,
    Relimited,
    Requeued,
    Resumed,
    Retried,
    Reweighted,
    Started,
)
from sim.invariants import Ledger

__all__ = ["BEGAN", "CHARGED", "CORRECTED", "ENDED", "REWEIGHTED", "Turn", "TurnLog"]

BEGAN, ENDED, CHARGED, CORRECTED, REWEIGHTED = range(5)

_EXACT = 1e-9


class Turn(NamedTuple):
    """One line of the log."""

    what: int
    """`BEGAN` or `ENDED` to be backlogged, `CHARGED` for a dispatch, `CORRECTED` when it ended, `REWEIGHTED`."""
    user: str
    at: float
    value: float
    """The cost, the difference to it, or the new weight."""
    single: float
    """What this one task cost or, where it was corrected, used."""


class TurnLog:
    """Writes the log of a run. Must see each event after the ledger, and quiet instants before the metrics."""

    def __init__(
        self,
        settings: Settings,
        ledger: Ledger,
        workers: Mapping[Address, WorkerClass],
        kinds_of: Mapping[str, frozenset[str]],
    ) -> None:
        self.weights = dict(settings.weights)
        """As they were at the beginning."""
        self.workers = len(workers)
        self.exact = True
        """Whether every task took what it was charged."""
        self._ledger = ledger
        self._keys = {
            user: {user_key(user), *map(kind_key, kinds)}
            for user, kinds in kinds_of.items()
            if _served_by_all(user, kinds, set(workers.values()), settings)
        }
        """What may hold back each user that is judged at all."""
        self._holding = {key for key in settings.limits() if key != EVERYTHING}
        self._backlogged: set[str] = set()
        self._look_again: dict[str, None] = {}
        self._running: dict[str, tuple[str, float, float]] = {}
        """The user of each running task, its cost, and when it was started."""
        self._names = list(self.weights)
        self._numbers = {user: number for number, user in enumerate(self._names)}
        self._what, self._who = array("b"), array("l")
        self._at, self._values, self._singles = array("d"), array("d"), array("d")

    def __iter__(self) -> Iterator[Turn]:
        columns = (self._what, self._who, self._at, self._values, self._singles)
        for what, who, at, value, single in zip(*columns, strict=True):
            yield Turn(what, self._names[who], at, value, single)

    def __len__(self) -> int:
        return len(self._what)

    def on_event(self, event: Event) -> None:
        handler = _HANDLERS.get(type(event))
        if handler is not None:
            handler(self, event)

    def on_quiet(self, now: float) -> None:
        users: Iterable[str] = self._ledger.waiting.touched
        if self._look_again:
            users = {**self._look_again, **self._ledger.waiting.touched}
            self._look_again = {}
        for user in users:
            if user not in self._backlogged and self._waits(user):
                self._backlogged.add(user)
                self._log(BEGAN, user, now)

    # One method an event

    def _started(self, event: Started) -> None:
        entry = self._ledger.entries[event.task]
        self._running[event.task] = (entry.user, entry.cost, event.at)
        self._log(CHARGED, entry.user, event.at, entry.cost, entry.cost)
        self._end_if_empty(entry.user, event.at)

    def _settled(self, event: Completed) -> None:
        running = self._running.pop(event.task, None)
        if running is None:
            # It ended without a start, and may have been the last that waited.
            if (entry := self._ledger.entries.get(event.task)) is not None:
                self._end_if_empty(entry.user, event.at)
            return
        user, cost, started_at = running
        used = event.at - started_at
        difference = used - cost
        if abs(difference) > _EXACT * max(1.0, event.at):
            self.exact = False
            self._log(CORRECTED, user, event.at, difference, used)

    def _reweighted(self, event: Reweighted) -> None:
        if event.user in self._numbers:
            self._log(REWEIGHTED, event.user, event.at, event.weight)

    def _changed(self, event: Paused | Resumed | Relimited) -> None:
        """An operator holds something back, or lets it go."""
        if event.kind is None and event.user is None:
            # What concerns everybody alike makes no difference between users.
            return
        key = kind_key(event.kind) if event.kind is not None else user_key(event.user or "")
        # A pause and a limit are told apart, because lifting one does not lift the other.
        mark = key if isinstance(event, Relimited) else "paused/" + key
        holds = isinstance(event, Paused) or (
            isinstance(event, Relimited) and Limit(event.rate_limit, event.concurrency_max).holds
        )
        (self._holding.add if holds else self._holding.discard)(mark)
        for user, keys in self._keys.items():
            if key in keys:
                self._look_again[user] = None
                self._end_if_empty(user, event.at)

    # Shared by the above

    def _waits(self, user: str) -> bool:
        """Whether the user has tasks that could start, and nothing holds it back."""
        shard, keys = self._ledger.waiting.shelves.get(user), self._keys.get(user)
        if shard is None or not shard.ready or keys is None:
            return False
        return not (self._holding and any(key in self._holding or "paused/" + key in self._holding for key in keys))

    def _end_if_empty(self, user: str, at: float) -> None:
        if user in self._backlogged and not self._waits(user):
            self._backlogged.remove(user)
            self._log(ENDED, user, at)

    def _log(self, what: int, user: str, at: float, value: float = 0.0, single: float = 0.0) -> None:
        self._what.append(what)
        self._who.append(self._numbers[user])
        self._at.append(at)
        self._values.append(value)
        self._singles.append(single)


def _served_by_all(user: str, kinds: frozenset[str], classes: set[WorkerClass], settings: Settings) -> bool:
    """Whether every worker may take whatever this user submits, as its own."""
    return all(
        kinds <= found.runs(settings.handled)
        and (found.users is None or any(user == name or fnmatchcase(user, name) for name in found.users))
        for found in classes
    )


_HANDLERS: dict[type, Callable[[TurnLog, Any], None]] = {
    Started: TurnLog._started,
    Completed: TurnLog._settled,
    Retried: TurnLog._settled,
    Recovered: TurnLog._settled,
    Released: TurnLog._settled,
    Requeued: TurnLog._settled,
    DeadLettered: TurnLog._settled,
    Cancelled: TurnLog._settled,
    Reweighted: TurnLog._reweighted,
    Paused: TurnLog._changed,
    Resumed: TurnLog._changed,
    Relimited: TurnLog._changed,
}
