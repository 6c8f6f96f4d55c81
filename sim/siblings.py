"""Who shares with whom, as the trace tells it: what each name was given, while it had work that could start.

`tenant/alice` is a sibling of `tenant/bob` in the clock of `tenant`, which is a sibling of other names in the root's. The
tasks of `tenant` itself are a sibling of those below it, of weight 1. What a name was given is what it was charged, and
what that is corrected by when the work is done.

A backlog is open from a quiet instant on at which it had work, until its last task leaves; those are the times over which
shares can be compared. When anything happens that may change who can be served, all of them begin anew.
"""

from collections.abc import Iterable, Mapping

__all__ = ["Clock", "Sibling", "Siblings"]


class Clock:
    """The names directly below a name."""

    __slots__ = ("before", "largest", "looked_at", "name", "virtual")

    def __init__(self, name: str) -> None:
        self.name = name
        self.virtual = 0.0
        """What the scheduler said at the last quiet instant."""
        self.before = 0.0
        """What it had said at the instant before."""
        self.looked_at = -1.0
        self.largest = 0.0
        """The most that any of them was given for one task, per weight."""


class Sibling:
    """A name, or a name's own tasks, in the clock of those it shares with."""

    __slots__ = ("busy", "clock", "high", "is_open", "largest", "low", "name", "seen", "service", "weight")

    def __init__(self, name: str, clock: Clock, weight: float) -> None:
        self.name = name
        self.clock = clock
        self.weight = weight
        self.busy = 0
        """Users here and below with a task that could start."""
        self.service = 0.0
        """What it was given, per weight."""
        self.largest = 0.0
        """The most that it was given for one task, per weight."""
        self.is_open = False
        self.seen = 0.0
        """What it had been given at the last quiet instant at which anybody looked."""
        self.low = 0.0
        self.high = 0.0


class Siblings:
    """The tree of names."""

    def __init__(self, weights: Mapping[str, float]) -> None:
        self._weights = dict(weights)
        self._clocks: dict[str, Clock] = {}
        self._named: dict[str, Sibling] = {}
        self._ways: dict[str, tuple[Sibling, ...]] = {}
        self._own: dict[str, Sibling] = {}
        """The own tasks of names with others below."""

    def way(self, user: str) -> tuple[Sibling, ...]:
        """What a user's tasks count for, from the leaf to the root."""
        way = self._ways.get(user)
        if way is None:
            way = self._ways[user] = tuple(self._way(user))
        return way

    def users(self) -> Iterable[str]:
        """Everybody who ever had a task."""
        return self._ways

    def everybody(self) -> Iterable[Sibling]:
        """All siblings of all clocks."""
        return [*self._named.values(), *self._own.values()]

    def charge(self, user: str, cost: float, single: float) -> tuple[Sibling, ...]:
        """A user was given so much more, or less, for a task that has had `single` in all; whom that concerns."""
        way = self._ways[user]
        for sibling in way:
            weight = sibling.weight
            sibling.service += cost / weight
            if single > sibling.largest * weight:
                sibling.largest = single / weight
                sibling.clock.largest = max(sibling.clock.largest, sibling.largest)
        return way

    def reweigh(self, name: str, weight: float) -> None:
        """A name weighs something else from now on: what it was given is counted anew."""
        self._weights[name] = weight
        if (sibling := self._named.get(name)) is not None:
            sibling.largest *= sibling.weight / weight
            sibling.clock.largest = max(sibling.clock.largest, sibling.largest)
            sibling.service = 0.0
            sibling.weight = weight

    def _way(self, user: str) -> Iterable[Sibling]:
        if user in self._own:
            yield self._own[user]
        name = user
        while name:
            parent = name.rpartition("/")[0]
            sibling = self._named.get(name)
            if sibling is None:
                sibling = self._named[name] = Sibling(name, self._clock(parent), self._weights.get(name, 1.0))
                if parent and parent not in self._own:
                    self._have_own(parent)
            yield sibling
            name = parent

    def _have_own(self, name: str) -> None:
        """Somebody lives below the name: from now on its own tasks are a sibling of theirs."""
        own = self._own[name] = Sibling(name + "/", self._clock(name), 1.0)
        if (way := self._ways.get(name)) is not None:
            own.busy = way[0].busy
            own.largest = own.clock.largest = way[0].largest * way[0].weight
            self._ways[name] = (own, *way)

    def _clock(self, name: str) -> Clock:
        clock = self._clocks.get(name)
        if clock is None:
            clock = self._clocks[name] = Clock(name)
        return clock
