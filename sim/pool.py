"""The workers of a simulation: who is there at the beginning, who comes and who goes."""

from collections.abc import Collection, Iterable

import attrs

from actors.messages import Address, WorkerClass, worker_address
from actors.validators import whole

__all__ = ["Pool", "Workers"]


@attrs.frozen(kw_only=True)
class Workers:
    """Workers that are alike."""

    count: int = attrs.field(default=1, validator=whole(1))
    """How many."""
    kinds: tuple[str, ...] | None = None
    """What they can run; every kind unless given."""
    users: tuple[str, ...] | None = None
    """Their own users, names or globs; everybody unless given."""
    steals: tuple[str, ...] = ()
    """Whom they may steal from when their own have nothing."""

    def worker_class(self, every: Collection[str]) -> WorkerClass:
        """What each of them can take, where these are all the kinds there are."""
        return WorkerClass(frozenset(every if self.kinds is None else self.kinds), self.users, self.steals)


class Pool:
    """Everybody who ever was a worker, by number, and who no longer is.

    >>> pool = Pool([WorkerClass(), WorkerClass()])
    >>> pool.add(WorkerClass()), pool.retire(2), sorted(pool.retired)
    ('worker/3', ['worker/3', 'worker/2'], ['worker/2', 'worker/3'])
    """

    def __init__(self, classes: Iterable[WorkerClass]) -> None:
        self.classes: dict[Address, WorkerClass] = {}
        self.retired: set[Address] = set()
        """Who takes no more work; what they are at they may still end."""
        for worker_class in classes:
            self.add(worker_class)

    def add(self, worker_class: WorkerClass) -> Address:
        """One more, with the next number."""
        address = worker_address(len(self.classes) + 1)
        self.classes[address] = worker_class
        return address

    def retire(self, count: int) -> list[Address]:
        """Who goes: those who came last go first."""
        present = [address for address in self.classes if address not in self.retired]
        going = present[::-1][:count]
        self.retired.update(going)
        return going
