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
    """A deficit and a place in the ring for every user that waits.

    Who leaves keeps both until the round is over: it has had its turn in this round, and must not get another by coming
    back. After that it has neither, and joins at the end of the ring like anybody new. Who waits but is not active, for a
    limited kind or the end of a pause, keeps its place, and of the rounds that it misses no more than its next task costs.
    """

    def __init__(self, quantum: float, notes: Notes, claims: Claims) -> None:
        self._quantum = quantum
        self._notes = notes
        self._weight = claims.weight
        self._waiting = claims.waiting
        self._round, self._positions = notes.get("ring", (1, 0))
        self._places: dict[str, _Place] = {}
        self._active: set[str] = set()
        for user, (active, *saved) in notes.under("place/").items():
            self._places[user] = _Place(*saved)
            if active:
                self._active.add(user)
        self._leaving = [user for user in self._places if user not in self._active]
        """Who may have left in this round; looked at when it is over."""

    def activate(self, user: str, now: float) -> None:
        if user not in self._active:
            if user in self._places and self._places[user].through < self._round - 1:
                del self._places[user]
            place = self._take_place(user)
            self._active.add(user)
            self._note(user, place)

    def deactivate(self, user: str) -> None:
        self._active.discard(user)
        if self._waiting(user):
            self._note(user, self._take_place(user))
        elif user in self._places:
            self._leave(user)

    def charge(self, user: str, cost: float, now: float) -> None:
        place = self._take_place(user)
        rounds = self._rounds(user, place.deficit, cost)
        if self._missed(user, place, rounds):
            rounds = self._rounds(user, 0.0, cost)
            self._positions += 1
            place.deficit, place.through, place.position = 0.0, self._round - rounds, self._positions
            self._notes["ring"] = (self._round, self._positions)
        place.through += rounds
        place.deficit += rounds * self._quantum * self._weight(user) - cost
        self._note(user, place)
        if user not in self._active:
            self._leaving.append(user)
        if place.through > self._round:
            self._round = place.through
            self._notes["ring"] = (self._round, self._positions)
            self._see_off()

    def correct(self, user: str, difference: float, now: float) -> None:
        place = self._places.get(user)
        if place is not None:
            place.deficit -= difference
            self._note(user, place)

    def reweigh(self, name: str, before: float, after: float) -> None:
        """A new weight counts from the next round; what the deficit holds is held."""

    def rank(self, user: str, head: Head | None) -> tuple[int, int]:
        assert head is not None, "the policy sees heads"
        place = self._places.get(user) or self._new_place()
        rounds = self._rounds(user, place.deficit, head.cost)
        if self._missed(user, place, rounds):
            return (self._round, self._positions + 1)
        return (place.through + rounds, place.position)

    def index(self) -> KeyIndex:
        return KeyIndex(self)

    def _take_place(self, user: str) -> _Place:
        place = self._places.get(user)
        if place is None:
            place = self._places[user] = self._new_place()
            self._positions = place.position
            self._notes["ring"] = (self._round, self._positions)
        return place

    def _new_place(self) -> _Place:
        """At the end of the ring, still to be visited in this round."""
        return _Place(0.0, self._round - 1, self._positions + 1)

    def _rounds(self, user: str, deficit: float, cost: float) -> int:
        return max(0, math.ceil((cost - deficit) / (self._quantum * self._weight(user))))

    def _missed(self, user: str, place: _Place, rounds: int) -> bool:
        """Whether its turn came and went while it was held back: then it is last in this round, and starts from nothing."""
        return user not in self._active and place.through + rounds < self._round

    def _leave(self, user: str) -> None:
        place = self._places[user]
        if place.through < self._round:
            del self._places[user]
            del self._notes["place/" + user]
        else:
            self._leaving.append(user)
            self._note(user, place)

    def _see_off(self) -> None:
        """The round is over: who left in it is forgotten, unless it waits again."""
        leaving, self._leaving = self._leaving, []
        for user in dict.fromkeys(leaving):
            if user in self._places and user not in self._active and not self._waiting(user):
                self._leave(user)

    def _note(self, user: str, place: _Place) -> None:
        self._notes["place/" + user] = (user in self._active, *attrs.astuple(place))
