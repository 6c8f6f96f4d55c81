"""Deficit round robin (Shreedhar, Varghese 1995): turns, each with a quantum of work.

On its turn a user's deficit grows by quantum * weight, and it is served while its next task costs no more than its
deficit. Nobody walks around the ring: a user whose next task costs c is served in the round in which its deficit
reaches c, so (that round, place in the ring) is its rank, and a pick is O(log n) whatever the quantum.

Bound, both active all the time, quantum Q >= every cost L: |D_f/w_f - D_g/w_g| <= Q + L/w_f + L/w_g.
"""

import math

import attrs

from actors.messages import Head
from actors.policies.sharing import Claims, KeyIndex
from actors.table import Notes
from actors.validators import greater_than

__all__ = ["Deficit", "DeficitAccount"]


@attrs.frozen
class Deficit:
    """Round robin in work instead of tasks.

    >>> Deficit(quantum_seconds=30)
    Deficit(quantum_seconds=30)
    """

    quantum_seconds: float = attrs.field(default=10.0, validator=greater_than(0))
    """The work a user of weight 1 may do in a round."""
    sees_heads = True

    def start(self, notes: Notes, claims: Claims) -> "DeficitAccount":
        return DeficitAccount(self.quantum_seconds, notes, claims)


@attrs.define
class _Place:
    deficit: float
    through: int
    """The last round whose quantum is in the deficit."""
    position: int


class DeficitAccount:
    """A deficit and a place in the ring for every active user; who leaves loses both."""

    def __init__(self, quantum: float, notes: Notes, claims: Claims) -> None:
        self._quantum = quantum
        self._notes = notes
        self._weight = claims.weight
        self._round, self._positions = notes.get("ring", (1, 0))
        self._places = {user: _Place(*saved) for user, saved in notes.under("place/").items()}

    def activate(self, user: str, now: float) -> None:
        if user not in self._places:
            self._places[user] = self._new_place()
            self._positions += 1
            self._note(user)

    def deactivate(self, user: str) -> None:
        if user in self._places:
            del self._places[user]
            del self._notes["place/" + user]

    def charge(self, user: str, cost: float, now: float) -> None:
        passing = user not in self._places
        self.activate(user, now)
        place = self._places[user]
        rounds = self._rounds(user, place, cost)
        place.deficit += rounds * self._quantum * self._weight(user) - cost
        place.through += rounds
        self._round = max(self._round, place.through)
        self._note(user)
        if passing:
            self.deactivate(user)

    def correct(self, user: str, difference: float, now: float) -> None:
        if user in self._places:
            self._places[user].deficit -= difference
            self._note(user)

    def reweigh(self, name: str, before: float, after: float) -> None:
        """A new weight counts from the next round; what the deficit holds is held."""

    def rank(self, user: str, head: Head | None) -> tuple[int, int]:
        assert head is not None, "the policy sees heads"
        place = self._places.get(user)
        if place is None:
            place = self._new_place()
        return (place.through + self._rounds(user, place, head.cost), place.position)

    def index(self) -> KeyIndex:
        return KeyIndex(self)

    def _new_place(self) -> _Place:
        """At the end of the ring, behind those who were served in this round: who comes and goes must not gain by it."""
        return _Place(0.0, self._round, self._positions + 1)

    def _rounds(self, user: str, place: _Place, cost: float) -> int:
        return max(0, math.ceil((cost - place.deficit) / (self._quantum * self._weight(user))))

    def _note(self, user: str) -> None:
        self._notes["ring"] = (self._round, self._positions)
        self._notes["place/" + user] = attrs.astuple(self._places[user])
