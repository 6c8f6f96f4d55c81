"""What waits, as the trace tells it: each user's ready tasks, by kind and level, and those that are delayed.

Two things are judged when one of them starts: I10, that it was its turn (picks.py), and I11, that it overtook nobody whom
the order protects (overtaking.py). Both look only at what its worker could have chosen from.
"""

from collections.abc import Sequence
from heapq import heappop, heappush

from actors.config import Settings
from actors.messages import Address
from actors.trace import Admitted
from sim.entries import Entry, Line, Shelf, first_of
from sim.lag import SharingJudge
from sim.overtaking import OVERTAKING, overtaking_of
from sim.picks import PICK, Picks
from sim.restrictions import Restrictions
from sim.violations import Broken

__all__ = ["Waiting"]


class Waiting:
    """Everybody's waiting tasks."""

    def __init__(
        self,
        settings: Settings,
        shelves: dict[str, Shelf],
        restrictions: Restrictions,
        judges: Sequence[SharingJudge],
        broken: Broken,
    ) -> None:
        self.shelves = shelves
        self.ready = 0
        """Tasks that could start, as far as they are concerned."""
        self.touched: list[Shelf] = []
        """Those whose number of ready tasks changed since the last quiet instant."""
        self.delayed: list[tuple[float, int, Entry]] = []
        """What `mature` has to see to: a heap."""
        self._picks = Picks(settings.ordering, settings.critical_burst)
        self._overtaking = overtaking_of(settings.ordering)
        self._restrictions = restrictions
        self._judges = judges
        self._broken = broken
        self._kinds: set[str] = set()
        """Every kind there ever was a ready task of."""

    def admit(self, event: Admitted) -> Entry:
        """A task was let in: it waits."""
        shelf = self.shelves.get(event.user)
        if shelf is None:
            shelf = self.shelves[event.user] = Shelf(event.user)
        line = shelf.only
        if line is None or line.kind != event.kind or line.level != event.level:
            line = shelf.line(event.kind, event.level)
        entry = self._picks.entry_of(event, line)
        self.add(entry, event.run_after, event.at)
        return entry

    def add(self, entry: Entry, run_after: float | None, at: float) -> None:
        """A task waits, from then on if it is delayed."""
        entry.state = "waiting"
        if run_after is not None and run_after > at:
            entry.run_after = run_after
            heappush(self.delayed, (run_after, entry.sequence, entry))
        else:
            self._make_ready(entry)

    def put_back_by_hand(self, entry: Entry, at: float) -> None:
        """An operator wants the task: it waits, and neither expires nor is to be cancelled any more."""
        self._picks.put_back_by_hand(entry)
        self.add(entry, None, at)

    def mature(self, now: float) -> None:
        """What is delayed no more is ready."""
        delayed = self.delayed
        while delayed and delayed[0][0] <= now:
            run_after, _, entry = heappop(delayed)
            if entry.state == "waiting" and entry.run_after == run_after:
                self._make_ready(entry)

    def start(self, entry: Entry, worker: Address, at: float) -> None:
        """A task that waits is started, and waits no more: say what is wrong with that."""
        line = entry.line
        shelf, heap = line.shelf, line.heap
        if shelf.only is line and heap and heap[0][3] is entry and heap[0][0] == entry.key and entry.run_after is None:
            # The one line that there is, and the first of it.
            heappop(heap)
        else:
            self._judge(entry, worker, at)
            if entry.run_after is not None:
                entry.run_after = None
                return
        self._count_out(line, shelf)

    def _judge(self, entry: Entry, worker: Address, at: float) -> None:
        """Say what is wrong with starting this task now."""
        shelf = entry.line.shelf
        if entry.run_after is not None:
            self._broken(PICK, at, f"{entry.name} was started before {entry.run_after}")
        heads = [head for other in shelf.lines.values() if (head := first_of(other)) is not None]
        heads = self._choice(entry.kind, worker, heads)
        for fault in self._picks.faults(entry, shelf, heads, at):
            self._broken(PICK, at, f"{entry.name} {fault}")
        if self._overtaking is not None:
            for fault in self._overtaking.faults(entry, heads):
                self._broken(OVERTAKING, at, f"{entry.name} {fault}")

    def leave(self, entry: Entry, at: float) -> None:
        """A task that waited ends."""
        if entry.run_after is not None:
            entry.run_after = None
            return
        shelf = entry.line.shelf
        self._count_out(entry.line, shelf)
        if not shelf.ready:
            self.has_none(shelf, at)

    def has_none(self, shelf: Shelf, at: float) -> None:
        """The last task of a user that could start is gone."""
        for judge in self._judges:
            judge.has_none(shelf.user, at)

    def _count_out(self, line: Line, shelf: Shelf) -> None:
        line.ready -= 1
        shelf.ready -= 1
        self.ready -= 1
        if not shelf.touched:
            shelf.touched = True
            self.touched.append(shelf)

    def _make_ready(self, entry: Entry) -> None:
        entry.run_after = None
        line = entry.line
        shelf = line.shelf
        heappush(line.heap, (entry.key, entry.order_at, entry.sequence, entry))
        line.ready += 1
        shelf.ready += 1
        self.ready += 1
        if not shelf.touched:
            shelf.touched = True
            self.touched.append(shelf)
        if shelf.ready == 1:
            for judge in self._judges:
                judge.has_work(shelf.user)
        if entry.kind not in self._kinds:
            self._kinds.add(entry.kind)
            for judge in self._judges:
                judge.saw(entry.kind)

    def _choice(self, kind: str, worker: Address, heads: Sequence[Entry]) -> list[Entry]:
        """Of these, those that the worker could choose from when it was given a task of `kind`."""
        ready = {head.kind for head in heads}
        if ready == {kind}:
            return list(heads)
        restrictions = self._restrictions
        open_kinds = {kind}
        if not restrictions.is_limited(kind):
            runs = restrictions.runs(worker)
            open_kinds |= {
                other
                for other in ready
                if other in runs and not restrictions.is_limited(other) and not restrictions.is_paused(other)
            }
        return [head for head in heads if head.kind in open_kinds]
