"""From whom? Which users a worker serves, and from whom it takes work when its own have none.

A worker class looks at *views* in order: first its own users, then those it may steal from. A view is a set of users, given
by names and globs, with a slot for each kind of work; a slot holds the users of the view that have such work and says
who is next. Among its own users that is the sharing policy's word. Among the others it is the steal policy's:

- `none`: nobody's.
- `listed`: the entries of the worker's list one after the other; within an entry the sharing policy decides.
- `longest`: the user with the most waiting tasks of the kind.
- `random_two`: two users drawn at random, the one with more waiting tasks of the two.

Where users wait for a kind that is limited they share that limit by its own account, whoever takes their work.
"""

import re
from bisect import bisect_left, insort
from collections.abc import Callable
from fnmatch import translate
from typing import Protocol

import attrs

from actors.messages import Head, WorkerClass
from actors.policies.heaps import KeyHeap
from actors.policies.sharing import Account

__all__ = ["STEALING", "FairSlot", "LongestSlot", "Lots", "SampleSlot", "Slot", "View", "ViewKey", "view_keys"]

STEALING = ("none", "listed", "longest", "random_two")

Lots = Callable[[int], float]
"""`lots(n)`: the n-th random number in [0, 1) of this decision."""


class Slot(Protocol):
    """The users of a view with work of one kind."""

    def put(self, user: str, head: Head | None, count: int) -> None:
        """The user has so much work, of which this is next."""

    def discard(self, user: str) -> None:
        """The user has none."""

    def refresh(self, name: str) -> None:
        """The account of this user, or of everybody below this name, changed."""

    def pick(self, lots: Lots) -> str | None:
        """Who is next, or None."""


class FairSlot:
    """Who is next by an account."""

    def __init__(self, account: Account) -> None:
        self._index = account.index()

    def put(self, user: str, head: Head | None, count: int) -> None:
        self._index.put(user, head)

    def discard(self, user: str) -> None:
        self._index.discard(user)

    def refresh(self, name: str) -> None:
        self._index.refresh(name)

    def pick(self, lots: Lots) -> str | None:
        return self._index.pick()


class LongestSlot:
    """Who has most.

    >>> slot = LongestSlot()
    >>> slot.put("alice", None, 2); slot.put("bob", None, 5)
    >>> slot.pick(lambda n: 0.0)
    'bob'
    """

    def __init__(self) -> None:
        self._heap = KeyHeap()

    def put(self, user: str, head: Head | None, count: int) -> None:
        self._heap.put(user, -count)

    def discard(self, user: str) -> None:
        self._heap.discard(user)

    def refresh(self, name: str) -> None:
        """Accounts do not count."""

    def pick(self, lots: Lots) -> str | None:
        first = self._heap.first()
        return None if first is None else first[1]


class SampleSlot:
    """The longer of two drawn at random (Mitzenmacher 2001: two choices are nearly as good as all).

    >>> slot = SampleSlot()
    >>> slot.put("alice", None, 2); slot.put("bob", None, 5)
    >>> slot.pick(lambda n: 0.0), slot.pick(lambda n: 0.9)
    ('bob', 'bob')
    """

    def __init__(self) -> None:
        self._users: list[str] = []
        """Sorted, so that a draw depends on who is there and not on how they came; moving names up is one memmove."""
        self._counts: dict[str, int] = {}

    def put(self, user: str, head: Head | None, count: int) -> None:
        if user not in self._counts:
            insort(self._users, user)
        self._counts[user] = count

    def discard(self, user: str) -> None:
        if self._counts.pop(user, None) is not None:
            del self._users[bisect_left(self._users, user)]

    def refresh(self, name: str) -> None:
        """Accounts do not count."""

    def pick(self, lots: Lots) -> str | None:
        users = self._users
        if not users:
            return None
        first = int(lots(0) * len(users))
        second = (first + 1 + int(lots(1) * (len(users) - 1))) % len(users)
        return min(users[first], users[second], key=lambda user: (-self._counts[user], user))


@attrs.frozen
class ViewKey:
    """Which users, and who is next among them: classes of workers with the same key share a view."""

    patterns: tuple[str, ...] | None
    """Names or globs; None: everybody."""
    without: tuple[str, ...] | None = ()
    """Except these."""
    order: str = "fair"
    """`fair`, `longest` or `random_two`."""
    stolen: bool = False
    """Whether the worker is not one of the users' own."""


def view_keys(worker_class: WorkerClass, stealing: str) -> list[ViewKey]:
    """The views of a class, in the order in which it looks at them.

    >>> [key.patterns for key in view_keys(WorkerClass(frozenset(), ("alice",), ("b*", "carol")), "listed")]
    [('alice',), ('b*',), ('carol',)]
    """
    own = ViewKey(worker_class.users)
    steals = worker_class.steals
    if worker_class.users is None or not steals or stealing == "none":
        return [own]
    if stealing == "listed":
        return [own, *(ViewKey((entry,), worker_class.users, "fair", True) for entry in steals)]
    return [own, ViewKey(steals, worker_class.users, stealing, True)]


class View:
    """A set of users, and who of them is next for each kind."""

    def __init__(self, key: ViewKey) -> None:
        self.key = key
        self.kinds: set[str] = set()
        """What the workers that look at it can run."""
        self.slots: dict[str, Slot] = {}
        self._matches = _matcher(key.patterns)
        self._excludes = _matcher(key.without)

    def holds(self, user: str) -> bool:
        """Whether the user is in this view."""
        return self._matches(user) and not self._excludes(user)

    def new_slot(self, account: Account, limited: bool) -> Slot:
        """A slot for a kind: by the account, unless the view has an order of its own and no limit is shared."""
        if self.key.order == "longest" and not limited:
            return LongestSlot()
        if self.key.order == "random_two" and not limited:
            return SampleSlot()
        return FairSlot(account)


def _matcher(patterns: tuple[str, ...] | None) -> Callable[[str], bool]:
    if patterns is None:
        return lambda user: True
    if not patterns:
        return lambda user: False
    globs = re.compile("|".join(translate(pattern) for pattern in patterns)).fullmatch
    # A name means the user of that name, whatever signs it is made of.
    return lambda user: user in patterns or globs(user) is not None
