"""A log of turns: who was given how much, and who was waiting for it, in the order in which it happened.

A user is *backlogged* from the first quiet instant at which it has tasks that could start, until the last of them has left.
Whoever is held back by something that is not the sharing policy's doing counts as not backlogged for as long as that
holds: a pause, or a limit on the user or on a kind of its own. So does, always, a user that some worker may not serve. What
is left is what a sharing policy can be blamed for: `sim/fairness.py` reads it.

A dispatch is charged at its cost, and corrected when it ends to the seconds that it took.
"""

from array import array
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

from actors.config import Settings
from actors.limits import Limit
from actors.messages import Address, WorkerClass
from actors.restraints import EVERYTHING, kind_key, user_key
from actors.trace import Event, Paused, Relimited, Resumed, Reweighted
from sim.entries import Entry

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
    """Writes the log of a run: one more judge of who shares with whom, but one that only takes down."""

    def __init__(
        self, settings: Settings, workers: Mapping[Address, WorkerClass], kinds_of: Mapping[str, frozenset[str]]
    ) -> None:
        self.weights = dict(settings.weights)
        """As they were at the beginning."""
        self.workers = len(workers)
        self.exact = True
        """Whether every task took what it was charged."""
        self._keys = {
            user: {user_key(user), *map(kind_key, kinds)}
            for user, kinds in kinds_of.items()
            if _served_by_all(user, kinds, set(workers.values()), settings)
        }
        """What may hold back each user that is judged at all."""
        self._holding = {key for key in settings.limits() if key != EVERYTHING}
        self._ready: set[str] = set()
        """Who has tasks that could start."""
        self._backlogged: set[str] = set()
        self._look_again: dict[str, None] = {}
        self.restless = False
        self._names = list(self.weights)
        self._numbers = {user: number for number, user in enumerate(self._names)}
        self._lines: list[tuple[int, int, float, float, float]] = []
        """The latest lines, until there are enough of them to be packed."""
        self._packed: tuple[array[Any], ...] = tuple(array(code) for code in "blddd")

    def __iter__(self) -> Iterator[Turn]:
        self.pack()
        for what, who, at, value, single in zip(*self._packed, strict=True):
            yield Turn(what, self._names[who], at, value, single)

    def __len__(self) -> int:
        return len(self._packed[0]) + len(self._lines)

    # What the ledger tells

    def saw(self, kind: str) -> None:
        """A kind makes no difference here."""

    def has_work(self, user: str) -> None:
        """A user has a task that could start, and had none before."""
        self._ready.add(user)
        self._look_again[user] = None
        self.restless = True

    def has_none(self, user: str, at: float) -> None:
        """The last task of a user that could start is gone."""
        self._ready.remove(user)
        self._end_if_empty(user, at)

    def started(self, entry: Entry, at: float) -> None:
        """A task was started, and is charged."""
        cost = entry.cost
        self._lines.append((CHARGED, self._numbers[entry.user], at, cost, cost))

    def stopped(self, entry: Entry, at: float, used: float) -> None:
        """Its turn is over, and the charge corrected."""
        difference = used - entry.cost
        if abs(difference) > _EXACT * max(1.0, at):
            self.exact = False
            self._lines.append((CORRECTED, self._numbers[entry.user], at, difference, used))

    def on_event(self, event: Event) -> None:
        """An operator may have changed something."""
        if isinstance(event, Reweighted):
            if event.user in self._numbers:
                self._log(REWEIGHTED, event.user, event.at, event.weight)
        elif isinstance(event, (Paused, Resumed, Relimited)):
            self._changed(event)

    def on_quiet(self, now: float) -> None:
        """See who is backlogged by now."""
        for user in self._look_again:
            if user not in self._backlogged and self._waits(user):
                self._backlogged.add(user)
                self._log(BEGAN, user, now)
        self._look_again.clear()
        self.restless = False

    def on_end(self, now: float) -> None:
        """Whoever still waits is still backlogged."""

    # Shared by the above

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
                self.restless = True
                self._end_if_empty(user, event.at)

    def _waits(self, user: str) -> bool:
        """Whether the user has tasks that could start, and nothing holds it back."""
        keys = self._keys.get(user)
        if user not in self._ready or keys is None:
            return False
        return not (self._holding and any(key in self._holding or "paused/" + key in self._holding for key in keys))

    def _end_if_empty(self, user: str, at: float) -> None:
        if user in self._backlogged and not self._waits(user):
            self._backlogged.remove(user)
            self._log(ENDED, user, at)

    def _log(self, what: int, user: str, at: float, value: float = 0.0) -> None:
        self._lines.append((what, self._numbers[user], at, value, 0.0))

    def pack(self) -> None:
        """A line costs a quarter of the memory in columns; to write each there at once costs four times as much time."""
        if self._lines:
            for column, values in zip(self._packed, zip(*self._lines, strict=True), strict=True):
                column.extend(values)
            self._lines.clear()


def _served_by_all(user: str, kinds: frozenset[str], classes: set[WorkerClass], settings: Settings) -> bool:
    """Whether every worker may take whatever this user submits, as its own."""
    return all(
        kinds <= found.runs(settings.handled)
        and (found.users is None or any(user == name or fnmatchcase(user, name) for name in found.users))
        for found in classes
    )
