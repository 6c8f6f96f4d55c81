"""Whose turn is it? Sharing policies pick the user that serves the next idle worker.

A policy is frozen configuration; `start()` gives its *account*: what each user has been charged, kept in the scheduler's
notes so that it survives a restart. The account makes *indexes*: users who have work for somebody, the next in turn
first. Ranks are compared, then names, so a pick never depends on chance or history.

The scheduler keeps one account for the pool of workers, and one more for each kind that is limited: users who wait for the
same limit share it by an account of its own, and the pool's account decides between them and the rest. A user that waits
only for a limited kind is not active with the pool; whatever it is given is charged to it there all the same, from where
it would stand if it came back now.

A policy of one's own is a class with `sees_heads` and `start`, and an account with the methods of `Account`; `KeyIndex` is an
index for any account that ranks each user by itself. docs/testing_your_policy.md writes one, breaks it and mends it.
"""

from collections.abc import Iterable
from typing import Any, Protocol, runtime_checkable

import attrs

from actors.errors import InvalidConfig
from actors.messages import Head, WorkerClass
from actors.policies.heaps import KeyHeap
from actors.table import Notes
from actors.validators import whole

__all__ = [
    "Account",
    "Capped",
    "CapsUsers",
    "Claims",
    "Fifo",
    "Gauged",
    "Index",
    "KeyIndex",
    "SharingPolicy",
    "Strict",
    "follows_counts",
    "open_account",
]


class Claims(Protocol):
    """What an account may ask about users."""

    def weight(self, name: str) -> float:
        """The weight of a user, or of everybody below a name."""

    def waiting(self, user: str) -> int:
        """How many of the user's tasks could start now. Under a policy with `sees_counts = False`: at least so many."""

    def running(self, user: str) -> int:
        """How many of the user's tasks are claimed."""

    def in_flight(self) -> int:
        """Tasks of all users that wait or run. Under a policy with `sees_counts = False`: at least so many."""


class Index(Protocol):
    """Some of the users with work, the next in turn first."""

    def put(self, user: str, head: Head | None) -> None:
        """The user has work, of which this is next; None unless the policy sees heads."""

    def discard(self, user: str) -> None:
        """The user has no work here; not an error if it had none."""

    def refresh(self, name: str) -> None:
        """The account of this user, or of everybody below this name, changed."""

    def pick(self) -> str | None:
        """Whose turn it is, or None when nobody waits. Changes nothing."""


class Account(Protocol):
    """What each user has been charged."""

    def activate(self, user: str, now: float) -> None:
        """The user has work that could start; nothing is raised if it had some before."""

    def deactivate(self, user: str) -> None:
        """The user has no work that could start; nothing changes if it had none before."""

    def charge(self, user: str, cost: float, now: float) -> None:
        """The user was picked and this much work was dispatched."""

    def correct(self, user: str, difference: float, now: float) -> None:
        """Charged work ended and used this many seconds more than the charge; fewer if negative. Once a charge."""

    def reweigh(self, name: str, before: float, after: float) -> None:
        """The weight of a user, or of everybody below a name, changed."""

    def rank(self, user: str, head: Head | None) -> Any:
        """What users are compared by, smallest first; of an inactive user, as if it came back now."""

    def index(self) -> Index:
        """A new, empty index over this account."""


@runtime_checkable
class SharingPolicy(Protocol):
    """Frozen configuration of a way to share; a user's own needs no base class.

    >>> isinstance(Fifo(), SharingPolicy)
    True
    """

    @property
    def sees_heads(self) -> bool:
        """Whether ranks depend on the tasks next in turn; they are sent along only if so."""

    def start(self, notes: Notes, claims: Claims) -> Account:
        """An account that reads and keeps its state in these notes, under keys of its own."""


@runtime_checkable
class CapsUsers(Protocol):
    """A sharing policy that comes with a cap on every user.

    >>> isinstance(Capped(user_concurrency_max=2), CapsUsers), isinstance(Fifo(), CapsUsers)
    (True, False)
    """

    @property
    def user_concurrency_max(self) -> int:
        """Tasks of one user at once."""


@runtime_checkable
class Gauged(Protocol):
    """An account that can say by how much one user is ahead of another."""

    def gap(self, user: str, other: str) -> float:
        """How much more work per weight the user was given than the other."""


def follows_counts(policy: SharingPolicy, classes: Iterable[WorkerClass], stealing: str) -> bool:
    """Whether somebody looks at how many tasks wait: the policy, unless it says otherwise, or a worker that may steal.

    >>> follows_counts(Fifo(), [WorkerClass()], "longest")
    True
    """
    steals = any(found.users is not None and found.steals for found in classes)
    return getattr(policy, "sees_counts", True) or (steals and stealing in ("longest", "random_two"))


def open_account(policy: SharingPolicy, notes: Notes, claims: Claims) -> Account:
    """The account that a policy starts; InvalidConfig names what it lacks, now and not when it is first needed.

    >>> class Half:
    ...     sees_heads = False
    ...     def start(self, notes, claims):
    ...         return object()
    >>> open_account(Half(), Notes("scheduler"), None)
    Traceback (most recent call last):
    actors.errors.InvalidConfig: account of sharing policy Half must have activate, charge, correct, deactivate, index, ...
    """
    account = policy.start(notes, claims)
    wanted = sorted(name for name in vars(Account) if not name.startswith("_"))
    if missing := [name for name in wanted if not callable(getattr(account, name, None))]:
        raise InvalidConfig(
            f"account of sharing policy {type(policy).__name__} must have {', '.join(missing)}, got {account!r}"
        )
    return account


class KeyIndex:
    """An index for any account whose `rank(user, head)` depends on that user alone.

    >>> class Fixed:
    ...     def rank(self, user, head):
    ...         return {"alice": 2, "bob": 1}[user]
    >>> index = KeyIndex(Fixed())
    >>> index.put("alice", None); index.put("bob", None)
    >>> index.pick()
    'bob'
    """

    def __init__(self, account: Any) -> None:
        self._rank = account.rank
        self._heads: dict[str, Head | None] = {}
        self._heap = KeyHeap()

    def put(self, user: str, head: Head | None) -> None:
        self._heads[user] = head
        self._heap.put(user, self._rank(user, head))

    def discard(self, user: str) -> None:
        if user in self._heads:
            del self._heads[user]
            self._heap.discard(user)

    def refresh(self, name: str) -> None:
        if name in self._heads:
            self._heap.put(name, self._rank(name, self._heads[name]))

    def pick(self) -> str | None:
        first = self._heap.first()
        return None if first is None else first[1]


class HeadAccount:
    """Charges nothing: the tasks next in turn decide, by a rule that is given."""

    def __init__(self, rule: Any) -> None:
        self._rule = rule

    def activate(self, user: str, now: float) -> None:
        """Nothing to remember."""

    def deactivate(self, user: str) -> None:
        """Nothing to remember."""

    def charge(self, user: str, cost: float, now: float) -> None:
        """Nothing to remember."""

    def correct(self, user: str, difference: float, now: float) -> None:
        """Nothing to remember."""

    def reweigh(self, name: str, before: float, after: float) -> None:
        """Weights do not count."""

    def rank(self, user: str, head: Head | None) -> Any:
        return self._rule(head)

    def index(self) -> KeyIndex:
        return KeyIndex(self)


def by_arrival(head: Head) -> tuple[float, int]:
    """The oldest first."""
    return (head.order_at, head.sequence)


def by_level(head: Head) -> tuple[int, float, int]:
    """The most urgent first, then the oldest."""
    return (-head.level, head.order_at, head.sequence)


@attrs.frozen
class Fifo:
    """First come, first served over all users: what a plain queue does, and what lets one user flood the rest.

    >>> index = Fifo().start(Notes("scheduler"), None).index()
    >>> index.put("alice", Head(level=3, order_at=2.0, sequence=2, cost=1.0))
    >>> index.put("bob", Head(level=3, order_at=1.0, sequence=1, cost=1.0))
    >>> index.pick()
    'bob'
    """

    sees_heads = True

    def start(self, notes: Notes, claims: Claims) -> HeadAccount:
        return HeadAccount(by_arrival)


@attrs.frozen
class Strict:
    """The most urgent task of all users first: whoever calls everything urgent gets everything.

    >>> index = Strict().start(Notes("scheduler"), None).index()
    >>> index.put("alice", Head(level=3, order_at=1.0, sequence=1, cost=1.0))
    >>> index.put("bob", Head(level=5, order_at=2.0, sequence=2, cost=1.0))
    >>> index.pick()
    'bob'
    """

    sees_heads = True

    def start(self, notes: Notes, claims: Claims) -> HeadAccount:
        return HeadAccount(by_level)


@attrs.frozen
class Capped:
    """First come, first served, with a cap on each user and nothing else: many names get around it.

    >>> Capped(user_concurrency_max=4)
    Capped(user_concurrency_max=4)
    """

    user_concurrency_max: int = attrs.field(default=2, validator=whole(1))
    """Tasks of one user at once."""
    sees_heads = True

    def start(self, notes: Notes, claims: Claims) -> HeadAccount:
        return HeadAccount(by_arrival)
