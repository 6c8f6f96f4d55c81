"""What waits, as the trace tells it: each user's ready tasks, by kind, and those that are delayed.

Two things are judged when one of them starts: I10, that it was its turn (picks.py), and I11, that it overtook nobody whom
the order protects (overtaking.py). Both look only at what its worker could have chosen from.
"""

from collections.abc import Container, Sequence
from heapq import heappop, heappush

import attrs

from actors.config import Settings
from actors.messages import Address
from sim.lag import SharingJudge
from sim.overtaking import OVERTAKING, Overtaking, overtaking_of
from sim.picks import PICK, Entry, Picks
from sim.restrictions import Restrictions
from sim.violations import Broken

__all__ = ["Shelf", "Waiting"]


@attrs.define(eq=False)
class Shelf:
    """One user's ready tasks."""

    picks: Picks
    overtaking: Overtaking | None
    ready: int = 0
    kinds: dict[str, int] = attrs.Factory(dict)
    """How many there are of each kind."""


class Waiting:
    """Everybody's waiting tasks."""

    def __init__(
        self, settings: Settings, restrictions: Restrictions, judges: Sequence[SharingJudge], broken: Broken
    ) -> None:
        self.shelves: dict[str, Shelf] = {}
        self.ready = 0
        """Tasks that could start, as far as they are concerned."""
        self.touched: dict[str, None] = {}
        """Users whose number of ready tasks changed since the last quiet instant."""
        self._settings = settings
        self._restrictions = restrictions
        self._judges = judges
        self._broken = broken
        self._kinds: set[str] = set()
        """Every kind there ever was a ready task of."""
        self.delayed: list[tuple[float, int, Entry]] = []
        """What `mature` has to see to: a heap."""

    def add(self, entry: Entry, run_after: float | None, at: float) -> None:
        """A task waits, from then on if it is delayed."""
        entry.state = "waiting"
        if run_after is not None and run_after > at:
            entry.run_after = run_after
            heappush(self.delayed, (run_after, entry.sequence, entry))
        else:
            self._make_ready(entry)

    def mature(self, now: float) -> None:
        """What is delayed no more is ready."""
        delayed = self.delayed
        while delayed and delayed[0][0] <= now:
            run_after, _, entry = heappop(delayed)
            if entry.state == "waiting" and entry.run_after == run_after:
                self._make_ready(entry)

    def judge_start(self, entry: Entry, worker: Address, at: float, name: str) -> None:
        """Say what is wrong with starting this task now."""
        if entry.run_after is not None:
            self._broken(PICK, at, f"{name} was started before {entry.run_after}")
        shelf = self.shelves.get(entry.user)
        if shelf is None:
            return
        kinds = self._choice(entry.kind, worker, shelf.kinds)
        for fault in shelf.picks.faults(entry, kinds, at):
            self._broken(PICK, at, f"{name} {fault}")
        if shelf.overtaking is not None:
            for fault in shelf.overtaking.faults(entry, kinds):
                self._broken(OVERTAKING, at, f"{name} {fault}")

    def leave(self, entry: Entry, at: float) -> None:
        """A task that waited is started, or ends."""
        if entry.run_after is not None:
            entry.run_after = None
            return
        user, kind = entry.user, entry.kind
        shelf = self.shelves[user]
        shelf.ready -= 1
        if shelf.kinds[kind] == 1:
            del shelf.kinds[kind]
        else:
            shelf.kinds[kind] -= 1
        self.ready -= 1
        self.touched[user] = None
        if not shelf.ready:
            for judge in self._judges:
                judge.has_none(user, at)

    def _make_ready(self, entry: Entry) -> None:
        entry.run_after = None
        user, kind = entry.user, entry.kind
        shelf = self.shelves.get(user)
        if shelf is None:
            shelf = self._shelf(user)
        shelf.picks.push(entry)
        if shelf.overtaking is not None:
            shelf.overtaking.push(entry)
        shelf.kinds[kind] = shelf.kinds.get(kind, 0) + 1
        self.ready += 1
        self.touched[user] = None
        shelf.ready += 1
        if shelf.ready == 1:
            for judge in self._judges:
                judge.has_work(user)
        if kind not in self._kinds:
            self._kinds.add(kind)
            for judge in self._judges:
                judge.saw(kind)

    def _shelf(self, user: str) -> Shelf:
        picks = Picks(self._settings.ordering, self._settings.critical_burst)
        shelf = self.shelves[user] = Shelf(picks, overtaking_of(self._settings.ordering))
        return shelf

    def _choice(self, kind: str, worker: Address, ready: dict[str, int]) -> Container[str]:
        """The ready kinds that the worker could choose from when it was given a task of `kind`."""
        if len(ready) == 1 and kind in ready:
            return ready
        restrictions, runs = self._restrictions, self._restrictions.runs(worker)
        if restrictions.is_limited(kind):
            return {kind}
        open_kinds = {
            other
            for other in ready
            if other in runs and not restrictions.is_limited(other) and not restrictions.is_paused(other)
        }
        return open_kinds | {kind}
