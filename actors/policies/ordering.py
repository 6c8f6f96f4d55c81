"""Which task is next inside one user's shard? Ordering policies give each task a key, smallest first.

A key never changes once the task is in, so it fits a heap, an SQL index and a sorted set. Ties are broken by `order_at`,
then by admission. CRITICAL tasks do not come here: they form a lane of their own (see actors/shard.py).

Aging gives every level the same slope and a head start: key = order_at - (level - 1) * aging_seconds. So at any load a
task is overtaken only by tasks whose `order_at` is less than (their level - its level) * aging_seconds after its own.
Proof: j goes before i only if order_j - b_j <= order_i - b_i, that is order_j - order_i <= b_j - b_i.
"""

from typing import Protocol, runtime_checkable

import attrs

from actors.task import Task
from actors.validators import finite

__all__ = ["Aging", "Arrival", "OrderingPolicy", "Strict"]


@runtime_checkable
class OrderingPolicy(Protocol):
    """Frozen configuration of an order; a user's own needs no base class.

    >>> isinstance(Aging(), OrderingPolicy)
    True
    """

    def key(self, task: Task) -> float:
        """What the task is ordered by, smallest first; the same for as long as it waits."""


@attrs.frozen
class Aging:
    """Urgent first, but every level is worth a fixed head start, so nobody waits for ever.

    >>> old = Task(id="a", user="u", kind="k", sequence=1, created_at=0.0, updated_at=0.0, order_at=0.0, priority=1)
    >>> new = Task(id="b", user="u", kind="k", sequence=2, created_at=70.0, updated_at=70.0, order_at=70.0, priority=2)
    >>> Aging(aging_seconds=60).key(old) < Aging(aging_seconds=60).key(new)
    True
    """

    aging_seconds: float = attrs.field(default=60.0, validator=finite(0))
    """The head start of each level over the one below."""

    def key(self, task: Task) -> float:
        return task.order_at - (task.priority - 1) * self.aging_seconds


@attrs.frozen
class Strict:
    """The highest level first, then arrival: the lowest starves while the rest keeps coming.

    >>> task = Task(id="a", user="u", kind="k", sequence=1, created_at=0.0, updated_at=0.0, order_at=0.0, priority=5)
    >>> Strict().key(task)
    -5
    """

    def key(self, task: Task) -> float:
        return -task.priority


@attrs.frozen
class Arrival:
    """First come, first served.

    >>> task = Task(id="a", user="u", kind="k", sequence=1, created_at=0.0, updated_at=0.0, order_at=7.0)
    >>> Arrival().key(task)
    7.0
    """

    def key(self, task: Task) -> float:
        return task.order_at
