"""Whose turn is it? Sharing policies pick the user that serves the next idle worker.

A policy is frozen configuration; `start()` gives its *account*: what each user has been charged, kept in the scheduler's
notes so that it survives a restart. The account makes an *index* for each class of workers: the users who have work for
that class, smallest key first. Keys are compared, then names, so a pick never depends on chance or history.

Weighted fair sharing is start-time fair queueing (Goyal, Vin, Cheng 1996). Each user has a start tag; the smallest goes
next; a dispatch of cost c moves the tag by c/weight. Virtual time v is the largest tag picked so far, and a user that
becomes backlogged starts no earlier than v: nobody banks credit while idle. Bound, for users f and g over any interval in
which both are backlogged and eligible for every grant, with D the charged and L the largest single cost:

    |D_f/w_f - D_g/w_g| <= L_f/w_f + L_g/w_g        at any number of workers, when costs are exact.

Why: a pick has the smallest tag S, so -L_g/w_g <= S_f - S_g <= L_f/w_f holds after every grant (only the picked tag
moves, by at most L/w, from below or at the other); tags move by exactly D/w, so subtracting the two ends of the interval
gives the bound. It needs one grant at a time, charged before the next pick, which is what the scheduler does. With
estimates that are corrected when the work is done, (m+1) times that, L being the larger of estimate and used, is what we
observe on m workers; that is a conjecture, asserted by the tests.
"""

from collections.abc import Sequence
from heapq import heapify, heappop, heappush
from typing import Any, Protocol, runtime_checkable

import attrs

from actors.messages import Head
from actors.table import Notes

__all__ = ["Account", "Fifo", "Index", "KeyIndex", "RoundRobin", "SharingPolicy", "WeightedFair"]

_COMPACT_MIN = 64


class Index(Protocol):
    """The users with work for one class of workers."""

    def put(self, user: str, heads: Sequence[Head]) -> None:
        """The user has work, or its key may have changed."""

    def discard(self, user: str) -> None:
        """The user has no work for this class; not an error if it had none."""

    def pick(self) -> str | None:
        """Whose turn it is, or None when nobody waits. Changes nothing."""


class Account(Protocol):
    """What each user has been charged."""

    def activate(self, user: str, weight: float) -> None:
        """The user has eligible work; nothing changes if it had some before."""

    def deactivate(self, user: str) -> None:
        """The user has no eligible work; nothing changes if it had none before."""

    def charge(self, user: str, weight: float, cost: float) -> None:
        """The user was picked and this much work was dispatched."""

    def correct(self, user: str, weight: float, difference: float) -> None:
        """Charged work ended and used this many seconds more than the charge; fewer if negative. Once a charge."""

    def index(self) -> Index:
        """A new, empty index over this account."""


@runtime_checkable
class SharingPolicy(Protocol):
    """Frozen configuration of a way to share; a user's own needs no base class.

    >>> isinstance(WeightedFair(), SharingPolicy)
    True
    """

    @property
    def sees_heads(self) -> bool:
        """Whether keys depend on the tasks next in turn; they are sent along only if so."""

    def start(self, notes: Notes) -> Account:
        """An account that reads and keeps its state in these notes, under keys of its own."""


class _Keyed(Protocol):
    def key(self, user: str, heads: Sequence[Head]) -> Any:
        """What the user is ordered by, smallest first."""


class KeyIndex:
    """An index for any account with a `key(user, heads)`: a heap whose outdated entries are skipped.

    >>> class Fixed:
    ...     def key(self, user, heads):
    ...         return {"alice": 2, "bob": 1}[user]
    >>> index = KeyIndex(Fixed())
    >>> index.put("alice", ()); index.put("bob", ())
    >>> index.pick()
    'bob'
    """

    def __init__(self, account: _Keyed) -> None:
        self._key = account.key
        self._keys: dict[str, Any] = {}
        self._heap: list[tuple[Any, str]] = []

    def put(self, user: str, heads: Sequence[Head]) -> None:
        key = self._key(user, heads)
        if self._keys.get(user) == key:
            return
        self._keys[user] = key
        heappush(self._heap, (key, user))
        if len(self._heap) > 2 * len(self._keys) + _COMPACT_MIN:
            self._heap = [(key, user) for user, key in self._keys.items()]
            heapify(self._heap)

    def discard(self, user: str) -> None:
        self._keys.pop(user, None)

    def pick(self) -> str | None:
        heap = self._heap
        while heap:
            key, user = heap[0]
            if self._keys.get(user) == key:
                return user
            heappop(heap)
        return None


@attrs.frozen
class WeightedFair:
    """Start-time fair queueing: every user gets work in proportion to its weight, and an idle one banks nothing.

    >>> account = WeightedFair().start(Notes("scheduler"))
    >>> index = account.index()
    >>> for user in ("alice", "bob"):
    ...     account.activate(user, weight=1.0)
    ...     index.put(user, ())
    >>> account.charge("alice", weight=1.0, cost=2.0)
    >>> index.put("alice", ())
    >>> index.pick()
    'bob'
    """

    sees_heads = False

    def start(self, notes: Notes) -> "FairAccount":
        return FairAccount(notes)


@attrs.define
class _Standing:
    """How one user stands with the account."""

    tag: float
    active: bool = False
    running: int = 0
    """Charges that are not settled yet."""


class FairAccount:
    """A start tag per user and one virtual time, which never goes back.

    A user that is idle, owes nothing and has nothing running is forgotten: it would start at the virtual time anyway.
    """

    def __init__(self, notes: Notes) -> None:
        self._notes = notes
        self._virtual: float = notes.get("virtual", 0.0)
        self._standings = {user: _Standing(*saved) for user, saved in notes.under("standing/").items()}
        self._idle = [(standing.tag, user) for user, standing in self._standings.items() if not standing.active]
        """A heap of tags that idle users had: each is looked at once when virtual time has passed it."""
        heapify(self._idle)

    def activate(self, user: str, weight: float) -> None:
        standing = self._standing(user)
        if not standing.active:
            standing.active = True
            standing.tag = max(standing.tag, self._virtual)
            self._note(user, standing)

    def deactivate(self, user: str) -> None:
        standing = self._standings.get(user)
        if standing is not None and standing.active:
            standing.active = False
            self._rest(user, standing)

    def charge(self, user: str, weight: float, cost: float) -> None:
        standing = self._standing(user)
        if standing.active and standing.tag > self._virtual:
            self._virtual = standing.tag
            self._notes["virtual"] = self._virtual
        standing.tag += cost / weight
        standing.running += 1
        self._note(user, standing)
        self._forget_passed()

    def correct(self, user: str, weight: float, difference: float) -> None:
        standing = self._standing(user)
        standing.tag += difference / weight
        standing.running -= 1
        if standing.active:
            self._note(user, standing)
        else:
            self._rest(user, standing)

    def index(self) -> KeyIndex:
        return KeyIndex(self)

    def key(self, user: str, heads: Sequence[Head]) -> float:
        return self._standings[user].tag

    def _standing(self, user: str) -> _Standing:
        standing = self._standings.get(user)
        if standing is None:
            standing = self._standings[user] = _Standing(self._virtual)
        return standing

    def _rest(self, user: str, standing: _Standing) -> None:
        """Keep an idle user for as long as its tag or something it runs may still matter."""
        if standing.running or standing.tag > self._virtual:
            self._note(user, standing)
            heappush(self._idle, (standing.tag, user))
        else:
            self._forget(user)

    def _forget_passed(self) -> None:
        while self._idle and self._idle[0][0] <= self._virtual:
            _, user = heappop(self._idle)
            standing = self._standings.get(user)
            if standing is not None and not (standing.active or standing.running or standing.tag > self._virtual):
                self._forget(user)

    def _forget(self, user: str) -> None:
        del self._standings[user]
        del self._notes["standing/" + user]

    def _note(self, user: str, standing: _Standing) -> None:
        self._notes["standing/" + user] = (standing.tag, standing.active, standing.running)


@attrs.frozen
class RoundRobin:
    """One task each in turn, whatever it costs; who joins goes to the end.

    >>> account = RoundRobin().start(Notes("scheduler"))
    >>> index = account.index()
    >>> for user in ("bob", "alice"):
    ...     account.activate(user, weight=1.0)
    ...     index.put(user, ())
    >>> index.pick()
    'bob'
    """

    sees_heads = False

    def start(self, notes: Notes) -> "TurnAccount":
        return TurnAccount(notes)


class TurnAccount:
    """A turn number per active user: smaller goes first, and each new turn is the largest so far."""

    def __init__(self, notes: Notes) -> None:
        self._notes = notes
        self._turns: dict[str, int] = notes.under("turn/")
        self._last: int = notes.get("last_turn", 0)

    def activate(self, user: str, weight: float) -> None:
        if user not in self._turns:
            self._to_the_end(user)

    def deactivate(self, user: str) -> None:
        if self._turns.pop(user, None) is not None:
            del self._notes["turn/" + user]

    def charge(self, user: str, weight: float, cost: float) -> None:
        if user in self._turns:
            self._to_the_end(user)

    def correct(self, user: str, weight: float, difference: float) -> None:
        """Turns are counted, not weighed."""

    def index(self) -> KeyIndex:
        return KeyIndex(self)

    def key(self, user: str, heads: Sequence[Head]) -> int:
        return self._turns[user]

    def _to_the_end(self, user: str) -> None:
        self._last += 1
        self._turns[user] = self._last
        self._notes["last_turn"] = self._last
        self._notes["turn/" + user] = self._last


@attrs.frozen
class Fifo:
    """First come, first served over all users: what a plain queue does, and what lets one user flood the rest.

    >>> account = Fifo().start(Notes("scheduler"))
    >>> index = account.index()
    >>> index.put("alice", [Head(level=3, order_at=2.0, sequence=2, cost=1.0)])
    >>> index.put("bob", [Head(level=3, order_at=1.0, sequence=1, cost=1.0)])
    >>> index.pick()
    'bob'
    """

    sees_heads = True

    def start(self, notes: Notes) -> "ArrivalAccount":
        return ArrivalAccount()


class ArrivalAccount:
    """Charges nothing: the oldest task next in turn decides."""

    def activate(self, user: str, weight: float) -> None:
        """Arrival order needs no memory."""

    def deactivate(self, user: str) -> None:
        """Arrival order needs no memory."""

    def charge(self, user: str, weight: float, cost: float) -> None:
        """Arrival order needs no memory."""

    def correct(self, user: str, weight: float, difference: float) -> None:
        """Arrival order needs no memory."""

    def index(self) -> KeyIndex:
        return KeyIndex(self)

    def key(self, user: str, heads: Sequence[Head]) -> tuple[float, int]:
        return min((head.order_at, head.sequence) for head in heads)
