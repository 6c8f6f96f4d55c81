"""Which task is next inside one user's shard? Ordering policies give each task a key, smallest first.

A key never changes once the task is in, so it fits a heap, an SQL index and a sorted set. Ties are broken by `order_at`,
then by admission. CRITICAL tasks do not come here: they form a lane of their own (see actors/lanes.py).

Aging gives every level the same slope and a head start: key = order_at - (level - 1) * aging_seconds. So at any load a
task is overtaken only by tasks whose `order_at` is less than (their level - its level) * aging_seconds after its own.
Proof: j goes before i only if order_j - b_j <= order_i - b_i, that is order_j - order_i <= b_j - b_i.

An order in which time itself reverses two tasks has no such key. A *moving* order has a rank too, which is asked for at
the time of the pick. To stay cheap it keeps one lane for each kind and level, ordered by key, and ranks only the heads: so
within a level the rank must never contradict the key. Ties in rank go by key. A sharing policy that sees heads sees the one
that was next when its shard last spoke.

Accumulating priorities (Kleinrock 1964) grow with weight * waited. With W_0 the mean residual service, rho the load, b the
weights, ascending: W_p = [W_0 / (1 - rho) - sum_(i<p) rho_i W_i (1 - b_i / b_p)] / [1 - sum_(i>p) rho_i (1 - b_p / b_i)].
A class i starves once sum_(j>i) rho_j (1 - b_i / b_j) reaches the number of workers. With one other class j that keeps
all workers r times as busy as they can be, its head has waited t (1 - 1/r) at time t: i goes first only if
b_i t > b_j t (1 - 1/r), that is r < 1 / (1 - b_i / b_j); for weights 0.2 and 1.0, below 1.25 times capacity.
"""

import math
from typing import Protocol, cast, runtime_checkable

import attrs

from actors.task import Priority, Task
from actors.validators import finite

__all__ = [
    "WEIGHTS",
    "Accumulating",
    "Aging",
    "Arrival",
    "Deadline",
    "MovingOrder",
    "NaiveScore",
    "OrderingPolicy",
    "Strict",
    "as_moving",
]

WEIGHTS: dict[Priority, float] = {level: level / 5 for level in Priority if level is not Priority.CRITICAL}
"""How fast waiting counts at each level: from 0.2 for VERY_LOW to 1.0 for VERY_HIGH."""


@runtime_checkable
class OrderingPolicy(Protocol):
    """Frozen configuration of an order; a user's own needs no base class.

    >>> isinstance(Aging(), OrderingPolicy)
    True
    """

    def key(self, task: Task) -> float:
        """What the task is ordered by, smallest first; the same for as long as it waits."""


@runtime_checkable
class MovingOrder(OrderingPolicy, Protocol):
    """An order that changes as time passes: what has a `rank` is asked for it at every pick.

    >>> isinstance(Accumulating(), MovingOrder), isinstance(Aging(), MovingOrder)
    (True, False)
    """

    def rank(self, task: Task, now: float) -> float:
        """What the first of each kind and level is compared by, smallest first; in agreement with `key` within a level."""


def as_moving(order: OrderingPolicy) -> MovingOrder | None:
    """The order itself if it moves, else None.

    >>> as_moving(Accumulating()), as_moving(Aging())
    (Accumulating(), None)
    """
    # To ask isinstance of a protocol takes 11 µs, and a shard, which has to know, is built for every user.
    return cast(MovingOrder, order) if hasattr(order, "rank") else None


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


@attrs.frozen
class Deadline:
    """The earliest `expires_at` first; those that never expire come last, in order of arrival.

    >>> task = Task(id="a", user="u", kind="k", sequence=1, created_at=0.0, updated_at=0.0, order_at=0.0, expires_at=9.0)
    >>> Deadline().key(task)
    9.0
    """

    def key(self, task: Task) -> float:
        return task.expires_at if task.expires_at is not None else math.inf


@attrs.frozen
class Accumulating:
    """The largest weight times waited first: the urgent go first until the patient have waited long enough.

    The wait of a level is bounded while the load of those above it stays under the threshold given above, not beyond.

    >>> old = Task(id="a", user="u", kind="k", sequence=1, created_at=0.0, updated_at=0.0, order_at=0.0, priority=1)
    >>> new = Task(id="b", user="u", kind="k", sequence=2, created_at=8.0, updated_at=8.0, order_at=8.0, priority=5)
    >>> [Accumulating().rank(old, now) < Accumulating().rank(new, now) for now in (9.0, 11.0)]
    [True, False]
    """

    def key(self, task: Task) -> float:
        return task.order_at

    def rank(self, task: Task, now: float) -> float:
        return -WEIGHTS[task.priority] * (now - task.order_at)


@attrs.frozen
class NaiveScore:
    """Wrong, and kept to show it: the highest created_at + weight * elapsed first, as one published design has it.

    The age of the score, now - score = (1 - weight) * elapsed, grows with the wait: so the longest waiter loses. It is last
    come, first served within a level, and a task that is once overtaken starves for as long as others keep coming.

    >>> old = Task(id="a", user="u", kind="k", sequence=1, created_at=0.0, updated_at=0.0, order_at=0.0)
    >>> new = Task(id="b", user="u", kind="k", sequence=2, created_at=8.0, updated_at=8.0, order_at=8.0)
    >>> NaiveScore().rank(new, now=9.0) < NaiveScore().rank(old, now=9.0)
    True
    """

    def key(self, task: Task) -> float:
        return -task.created_at

    def rank(self, task: Task, now: float) -> float:
        # The age of the score, smallest first, is the score, highest first; but at weight 1.0 it is 0 without rounding.
        return (1.0 - WEIGHTS[task.priority]) * (now - task.created_at)
