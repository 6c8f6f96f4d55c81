"""I10, which task a shard should start: by rules of its own, which share with the cores only the policy's key and rank.

A user's ready tasks lie in a heap for each kind, or for each kind and level if the order moves with time, those that left
included until they come up. What starts must be the first of all kinds that its worker could choose from: critical tasks
before the rest, but no more than a burst of them in a row while others wait.
"""

from collections.abc import Container, Sequence
from heapq import heappop, heappush

import attrs
import msgspec

from actors.policies.ordering import OrderingPolicy, as_moving
from actors.task import Priority, Task
from actors.trace import Admitted

__all__ = ["PICK", "Entry", "Picks", "entry_of", "put_back_by_hand"]

PICK = "I10 pick"


@attrs.define(eq=False)
class Entry:
    """What the trace says of one task."""

    user: str
    kind: str
    level: int
    order_at: float
    sequence: int
    key: float
    cost: float
    max_retries: int
    task: Task | None = None
    """What its key came from, kept only if that has to be worked out again or it has a rank too."""
    state: str = "waiting"
    """`waiting`, `running`, `failed`, `ended` or `cancelled`."""
    run_after: float | None = None
    token: int = 0
    executions: int = 0
    troubled: bool = False
    """Whether anything ever went wrong with it."""
    started: bool = False
    """Whether it was ever started."""
    unwanted: bool = False
    """Whether its cancel was acknowledged while it ran."""
    crashes: int = 0
    """How often it took its worker down in this requeue epoch."""
    readmitted: bool = False
    """Whether an operator put it back after it had failed: nobody asked at the door."""
    started_at: float = 0.0
    alive_at: float = 0.0
    """When its worker last gave a sign of life that was accepted: its start or a beat."""
    lease_until: float = 0.0


def entry_of(event: Admitted, order: OrderingPolicy) -> Entry:
    """The entry of a task that was just admitted."""
    sequence = int(event.task.rpartition("#")[2])
    critical = event.level == Priority.CRITICAL
    task = None if critical else _task_of(event, sequence)
    key = event.order_at if task is None else order.key(task)
    if event.expires_at is None and as_moving(order) is None:
        task = None
    return Entry(
        event.user, event.kind, event.level, event.order_at, sequence, key, event.cost, event.max_retries, task
    )


def _task_of(event: Admitted, sequence: int) -> Task:
    return Task(
        id=event.task,
        user=event.user,
        kind=event.kind,
        sequence=sequence,
        created_at=event.at,
        updated_at=event.at,
        order_at=event.order_at,
        priority=Priority(event.level),
        expires_at=event.expires_at,
        cost=event.cost,
    )


def put_back_by_hand(entry: Entry, order: OrderingPolicy) -> None:
    """An operator wants the task: it neither expires nor is to be cancelled any more."""
    entry.unwanted = False
    if entry.task is not None:
        entry.task = msgspec.structs.replace(entry.task, expires_at=None)
        entry.key = order.key(entry.task)


Heap = list[tuple[float, float, int, Entry]]


class Picks:
    """One user's ready tasks, and what speaks against a start."""

    __slots__ = ("_burst", "_burst_at_most", "_burst_max", "_critical", "_moving", "_ordinary")

    def __init__(self, order: OrderingPolicy, burst_max: int | None) -> None:
        self._moving = as_moving(order)
        self._burst_max = burst_max
        self._burst = 0
        """Critical tasks in a row that certainly went before another."""
        self._burst_at_most = 0
        """And that may have: of a kind with turns of its own nobody but the scheduler knows whether it was offered too."""
        self._ordinary: dict[tuple[str, int], Heap] = {}
        self._critical: dict[tuple[str, int], Heap] = {}

    def push(self, entry: Entry) -> None:
        """A task is ready."""
        heaps = self._critical if entry.level == Priority.CRITICAL else self._ordinary
        place = (entry.kind, entry.level if self._moving is not None else 0)
        heap = heaps.get(place)
        if heap is None:
            heap = heaps[place] = []
        heappush(heap, (entry.key, entry.order_at, entry.sequence, entry))

    def faults(self, entry: Entry, kinds: Container[str], now: float) -> Sequence[str]:
        """What is wrong with starting this task for a worker that could choose from these kinds."""
        if not self._critical and len(self._ordinary) == 1:
            # One kind and no critical task ever: what most users have.
            self._burst = self._burst_at_most = 0
            (heap,) = self._ordinary.values()
            return () if (first := _first(heap)) is entry else (_before(first),)
        critical, ordinary = self._next(self._critical, kinds, now), self._next(self._ordinary, kinds, now)
        is_critical = entry.level == Priority.CRITICAL
        expected = critical if is_critical else ordinary
        faults = [] if expected is entry else [_before(expected)]
        bound = self._burst_max
        if is_critical:
            self._burst += ordinary is not None
            if any(_first(heap) for heap in self._ordinary.values()):
                self._burst_at_most += 1
            else:
                self._burst = self._burst_at_most = 0
            if bound is not None and self._burst > bound:
                faults.append(f"is critical number {self._burst} in a row of {bound}")
        else:
            if critical is not None and (bound is None or self._burst_at_most < bound):
                faults.append("was started before a critical task")
            self._burst = self._burst_at_most = 0
        return faults

    def _next(self, heaps: dict[tuple[str, int], Heap], kinds: Container[str], now: float) -> Entry | None:
        """Which should start first, of these kinds."""
        heads = [
            (self._rank(first, now), heap[0], first)
            for (kind, _), heap in heaps.items()
            if kind in kinds and (first := _first(heap)) is not None
        ]
        return min(heads)[2] if heads else None

    def _rank(self, entry: Entry, now: float) -> float:
        return self._moving.rank(entry.task, now) if self._moving is not None and entry.task is not None else 0.0


def _before(expected: Entry | None) -> str:
    return f"was started before #{expected.sequence if expected else None}"


def _first(heap: Heap) -> Entry | None:
    """The first entry that still waits and is not delayed; those that left are dropped on the way."""
    while heap:
        key, _, _, entry = heap[0]
        if entry.state == "waiting" and entry.run_after is None and key == entry.key:
            return entry
        heappop(heap)
    return None
