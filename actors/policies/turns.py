"""Sharing by turns: one after the other, or by lot.

Both are tags in a heap, as in fair sharing, only that a turn moves the tag by something else than the cost. Round robin
moves it behind everybody's. The lottery (Waldspurger, Weihl 1994) moves it by an exponential time of mean 1/weight: each
user is then a Poisson process of rate `weight`, the next arrival of all of them is user i's with probability
w_i / sum(w), independently of the past, and a draw costs O(log n) whoever comes and goes.
"""

import math
from collections.abc import Callable
from heapq import heapify, heappop, heappush

import attrs

from actors.actor import keyed_draw
from actors.messages import Head
from actors.policies.sharing import Claims, KeyIndex
from actors.table import Notes
from actors.validators import whole

__all__ = ["Lottery", "RoundRobin", "TurnAccount"]


@attrs.frozen
class RoundRobin:
    """One task each in turn, whatever it costs; who joins goes to the end.

    >>> from actors import Settings
    >>> account = RoundRobin().start(Notes("scheduler"), Settings())
    >>> index = account.index()
    >>> for user in ("bob", "alice"):
    ...     account.activate(user, now=0.0)
    ...     index.put(user, None)
    >>> index.pick()
    'bob'
    """

    sees_heads = False
    sees_counts = False

    def start(self, notes: Notes, claims: Claims) -> "TurnAccount":
        def to_the_end(account: TurnAccount, user: str, tag: float) -> float:
            return account.last + 1

        return TurnAccount(notes, enter=to_the_end, move=to_the_end)


@attrs.frozen
class Lottery:
    """Each turn is drawn by lot, with the weights as tickets: fair in the long run, by chance in the short.

    >>> Lottery(seed=7)
    Lottery(seed=7)
    """

    seed: int = attrs.field(default=0, validator=whole(0))
    """What the lots depend on, besides user and turn."""
    sees_heads = False
    sees_counts = False

    def start(self, notes: Notes, claims: Claims) -> "TurnAccount":
        draw = keyed_draw(self.seed)

        def by_lot(account: TurnAccount, user: str, tag: float) -> float:
            return tag - math.log1p(-draw("lottery", user, account.turns)) / claims.weight(user)

        def with_its_lot(account: TurnAccount, user: str, tag: float) -> float:
            # A lot that has not come up yet is kept: drawing again on every return would favour those who stay.
            return tag if tag > account.virtual else by_lot(account, user, account.virtual)

        return TurnAccount(notes, enter=with_its_lot, move=by_lot, weighed=True)


class TurnAccount:
    """A tag per user and the tag of the last turn. A user that is idle and whose tag has passed is forgotten."""

    def __init__(
        self,
        notes: Notes,
        enter: Callable[["TurnAccount", str, float], float],
        move: Callable[["TurnAccount", str, float], float],
        weighed: bool = False,
    ) -> None:
        self._notes = notes
        self._weighed = weighed
        self._enter = enter
        self._move = move
        self.virtual: float
        self.last: float
        self.turns: int
        self.virtual, self.last, self.turns = notes.get("turn", (0.0, 0.0, 0))
        """The tag of the last turn, the largest tag given, and how many turns there were."""
        saved = notes.under("user/")
        self._tags: dict[str, float] = {user: tag for user, (tag, _) in saved.items()}
        self._active: set[str] = {user for user, (_, active) in saved.items() if active}
        self._resting = [(tag, user) for user, tag in self._tags.items() if user not in self._active]
        heapify(self._resting)

    def activate(self, user: str, now: float) -> None:
        if user not in self._active:
            self._active.add(user)
            self._set(user, self._enter(self, user, self._tags.get(user, 0.0)))

    def deactivate(self, user: str) -> None:
        if user in self._active:
            self._active.remove(user)
            self._rest(user)

    def charge(self, user: str, cost: float, now: float) -> None:
        tag = self.rank(user, None)
        self.virtual = max(self.virtual, tag)
        self.turns += 1
        self._set(user, self._move(self, user, tag))
        if user not in self._active:
            self._rest(user)
        while self._resting and self._resting[0][0] <= self.virtual:
            _, name = heappop(self._resting)
            if name in self._tags and name not in self._active:
                self._rest(name)

    def correct(self, user: str, difference: float, now: float) -> None:
        """Turns are counted, not weighed."""

    def reweigh(self, name: str, before: float, after: float) -> None:
        """A lot that has not come up is as far away as it would be for the new weight; turns are not weighed."""
        if self._weighed and name in self._tags:
            self._set(name, self.virtual + (self._tags[name] - self.virtual) * before / after)

    def rank(self, user: str, head: Head | None) -> float:
        return max(self._tags.get(user, 0.0), self.virtual) if user not in self._active else self._tags[user]

    def index(self) -> KeyIndex:
        return KeyIndex(self)

    def _rest(self, user: str) -> None:
        if self._tags[user] > self.virtual:
            heappush(self._resting, (self._tags[user], user))
            self._notes["user/" + user] = (self._tags[user], False)
        else:
            del self._tags[user]
            del self._notes["user/" + user]

    def _set(self, user: str, tag: float) -> None:
        self._tags[user] = tag
        self.last = max(self.last, tag)
        self._notes["user/" + user] = (tag, user in self._active)
        self._notes["turn"] = (self.virtual, self.last, self.turns)
