"""What the ledger keeps: an entry for each task, and where those wait that could start.

Each user has a shelf, and on it a line for each kind and level. Within a line an order never changes its mind, so whoever
judges a start looks at the first of each line. Those that left a line are dropped when they come up.
"""

from heapq import heappop

import attrs
import msgspec

from actors.task import Priority, Task

__all__ = ["Entry", "Line", "Shelf", "first_of"]

CRITICAL = int(Priority.CRITICAL)


@attrs.define(eq=False)
class Shelf:
    """One user's ready tasks."""

    user: str
    lines: "dict[tuple[str, int], Line]" = attrs.Factory(dict)
    only: "Line | None" = None
    """Its line, if there was never more than one and that is not critical: what most users have."""
    ready: int = 0
    touched: bool = False
    """Whether the number of ready tasks changed since the last quiet instant."""
    burst: int = 0
    """Critical tasks in a row that certainly went before another."""
    burst_at_most: int = 0
    """And that may have: of a kind with turns of its own nobody but the scheduler knows whether it was offered too."""

    def line(self, kind: str, level: int) -> "Line":
        """Where tasks of this kind and level wait."""
        line = self.lines.get((kind, level))
        if line is None:
            line = self.lines[kind, level] = Line(self, kind, level)
            self.only = line if len(self.lines) == 1 and level != CRITICAL else None
        return line


@attrs.define(eq=False)
class Line:
    """One user's ready tasks of one kind and level, by key, `order_at` and admission."""

    shelf: Shelf
    kind: str
    level: int
    heap: "list[tuple[float, float, int, Entry]]" = attrs.Factory(list)
    ready: int = 0
    running: int = 0
    """Its tasks that some worker claims."""


class Entry(msgspec.Struct, eq=False):
    """What the trace says of one task. A plain struct, because there is one for each task."""

    line: Line
    user: str
    kind: str
    level: int
    order_at: float
    sequence: int
    key: float
    """What its line is ordered by."""
    cost: float
    max_retries: int
    task: Task | None = None
    """What its key came from, kept only if that has to be worked out again or it has a rank that moves."""
    rank: float | None = None
    """What it is compared by with the first of other lines, once somebody asked and if that never changes."""
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

    @property
    def name(self) -> str:
        """What the trace calls it."""
        return f"{self.user}#{self.sequence}"


def first_of(line: Line) -> Entry | None:
    """The first task of a line that still waits and is not delayed, or None."""
    heap = line.heap
    while heap:
        key, _, _, entry = heap[0]
        if entry.state == "waiting" and entry.run_after is None and key == entry.key:
            return entry
        heappop(heap)
    return None
