"""A backlog: which of one user's tasks wait, and which of them is next.

CRITICAL tasks have lanes of their own, first come, first served, before the rest; but after `critical_burst` of them in a
row one other task goes first if any waits. The rest is in the order of the ordering policy. What may not start yet lies
apart until its time, and what expires is known by its deadline.

Everything here is an index over the records of a shard: it makes none. Whoever ends or claims a waiting task writes the
new record first and tells the backlog next, so that the entries of the old one are dead by then.
"""

from collections.abc import Callable, Container, Iterator

from actors.actor import NEVER
from actors.config import Settings
from actors.lanes import KindLanes, Lane, lanes_in
from actors.messages import Head
from actors.policies.ordering import Arrival
from actors.table import Notes
from actors.task import CRITICAL, Task

__all__ = ["Backlog"]


class Backlog:
    """One user's waiting tasks.

    >>> backlog = Backlog(Settings(), Notes("shard/alice"), lambda task: True)
    >>> task = Task(id="t", user="alice", kind="crawl", sequence=1, created_at=0.0, updated_at=0.0, order_at=0.0)
    >>> backlog.add(task, now=0.0)
    >>> backlog.tell(now=0.0), backlog.choose({"crawl"}, now=0.0) is task
    (({'crawl': 1}, {}), True)
    """

    def __init__(self, settings: Settings, notes: Notes, is_live: Callable[[Task], bool]) -> None:
        self._settings = settings
        self._notes = notes
        self._critical = KindLanes(Arrival(), is_live)
        self._ordinary = lanes_in(settings.ordering, is_live)
        self._delayed = Lane(is_live)
        self._expiring = Lane(is_live)
        self._oldest = Lane(is_live) if settings.when_full == "drop_oldest" else None
        """All that waits, delayed or not, if the queue may ask for the oldest of it."""
        self.changed: dict[str, None] = {}
        """Kinds of which the scheduler must be told: where it follows counts, every one whose number of ready tasks
        changed, and else those that have come to have none, or any."""
        self._follows_counts = settings.follows_counts
        self._told: set[str] = set()
        """Kinds of which the scheduler knows that there are some."""
        self._burst: int = notes.get("burst", 0)

    def __repr__(self) -> str:
        ready = sum(len(lane) for lanes in (self._critical, self._ordinary) for lane in lanes)
        return f"{ready} ready, {len(self._delayed)} delayed"

    def __iter__(self) -> Iterator[Lane]:
        """Every lane there is."""
        yield from self._critical
        yield from self._ordinary
        yield self._delayed
        yield self._expiring
        if self._oldest is not None:
            yield self._oldest

    @property
    def empty(self) -> bool:
        """Whether nothing waits, once that has been told."""
        return not (self._ordinary.by_kind or self._critical.by_kind or self._delayed.live)

    @property
    def size(self) -> tuple[int, int]:
        """Live entries and all entries, over every lane."""
        return sum(len(lane) for lane in self), sum(lane.entries for lane in self)

    # Who waits

    def add(self, task: Task, now: float) -> None:
        """This task waits from now on."""
        if task.run_after is not None and task.run_after > now:
            self._delayed.push(task.run_after, task)
        else:
            self._make_ready(task)
        if task.expires_at is not None:
            self._expiring.push(task.expires_at, task)
        if self._oldest is not None:
            self._oldest.push(0, task)

    def remove(self, task: Task, now: float) -> None:
        """This task ended without a start."""
        if task.run_after is not None and task.run_after > now:
            self._delayed.forget()
        else:
            lanes = self._critical if task.priority is CRITICAL else self._ordinary
            lanes.forget(task)
            self._left(task.kind, lanes.count(task.kind))
        self.forget(task)

    def forget(self, task: Task) -> None:
        """This task, which `choose` took out, waits no more; neither is it known by its deadline or its age."""
        if task.expires_at is not None:
            self._expiring.forget()
        if self._oldest is not None:
            self._oldest.forget()

    def oldest(self) -> Task | None:
        """The task that has waited longest, delayed or not; None if there is none or nobody may ask."""
        return self._oldest.head() if self._oldest is not None else None

    # What time does

    def wakes_at(self) -> float:
        """When the next task gets ready or expires, or NEVER."""
        if not (self._delayed.live or self._expiring.live):
            return NEVER
        delayed, expiring = self._delayed.first(), self._expiring.first()
        due_at: float = delayed[0] if delayed is not None else NEVER
        return due_at if expiring is None else min(due_at, expiring[0])

    def mature(self, now: float) -> None:
        """Make ready what is delayed no more."""
        while (entry := self._delayed.first()) is not None and entry[0] <= now:
            self._make_ready(self._delayed.pop())

    def overdue(self, now: float) -> Task | None:
        """A task that nobody started in time, the earliest first, or None."""
        entry = self._expiring.first()
        return entry[-1] if entry is not None and entry[0] <= now else None

    # Who is next

    def choose(self, kinds: Container[str], now: float) -> Task | None:
        """Take out the task of these kinds that is next, or None if there is none."""
        lane = self._choose(kinds, now)
        if lane is None:
            return None
        task = lane.pop()
        self._left(task.kind, lane.live)
        return task

    def _choose(self, kinds: Container[str], now: float) -> Lane | None:
        """The lane whose head is next: the critical one, unless its burst is spent while others wait.

        The burst counts critical tasks that went before another this worker could have had, and ends when another
        starts or none waits for anybody. A worker that has no other to choose from neither adds to it nor ends it.
        """
        ordinary = self._ordinary.best(kinds, now)
        if not (self._critical.by_kind or self._burst):
            return ordinary
        critical = self._critical.best(kinds, now)
        burst_max = self._settings.critical_burst
        if ordinary is not None and (critical is None or (burst_max is not None and self._burst >= burst_max)):
            self._set_burst(0)
            return ordinary
        if ordinary is not None:
            self._set_burst(self._burst + 1)
        elif self._burst and not any(self._ordinary):
            self._set_burst(0)
        return critical

    def _set_burst(self, burst: int) -> None:
        before, self._burst = self._burst, burst
        if burst:
            self._notes["burst"] = burst
        elif before:
            del self._notes["burst"]

    # What the scheduler is told

    def change_all(self) -> None:
        """Let every kind be told again."""
        self.changed.update(dict.fromkeys(self._ordinary.by_kind))
        self.changed.update(dict.fromkeys(self._critical.by_kind))

    def tell(self, now: float) -> tuple[dict[str, int], dict[str, Head]]:
        """The counts that changed since this was last asked, and the heads if the policy sees them.

        Forgets the lanes of kinds that have no task left.
        """
        counts = {kind: self._ordinary.count(kind) + self._critical.count(kind) for kind in self.changed}
        heads = self._heads(counts, now) if self._settings.sharing.sees_heads else {}
        for kind, count in counts.items():
            if count:
                self._told.add(kind)
            else:
                self._told.discard(kind)
                self._ordinary.drop(kind)
                self._critical.drop(kind)
        self.changed.clear()
        return counts, heads

    def _heads(self, counts: dict[str, int], now: float) -> dict[str, Head]:
        return {kind: self._head((kind,), now) for kind, count in counts.items() if count}

    def _head(self, kind: tuple[str], now: float) -> Head:
        # A critical task comes first: a burst that is spent delays it by one task only.
        lane = self._critical.best(kind, now) or self._ordinary.best(kind, now)
        task = lane.head() if lane is not None else None
        assert task is not None, "a kind with a count has a head"
        return Head(task.priority, task.order_at, task.sequence, task.cost)

    # Shared by the above

    def _make_ready(self, task: Task) -> None:
        (self._critical if task.priority is CRITICAL else self._ordinary).push(task)
        if self._follows_counts or task.kind not in self._told:
            self.changed[task.kind] = None

    def _left(self, kind: str, left: int) -> None:
        """A task of this kind is ready no more, and so many are left in its lanes."""
        if self._follows_counts or not left:
            self.changed[kind] = None
