"""The noisy-neighbour rule: quiet users first, then the noisy ones, each in order of arrival.

A user is noisy while it has more than a tenth of all tasks in flight (waiting or running) and at least thirty of its own,
or more than a tenth of the recent processing time. It is quiet again when it has drained, or after five minutes without a
submit. It is judged whenever something happens to it. A rule of thumb without a bound: many names, each just below the
threshold, get around it, and a noisy user can starve.
"""

import math
from heapq import heapify, heappop, heappush
from typing import Any
from weakref import WeakSet

import attrs

from actors.messages import Head
from actors.policies.sharing import Claims, KeyIndex, by_arrival
from actors.table import Notes
from actors.validators import between, greater_than, whole

__all__ = ["NoisyNeighbour"]

_SWEEP_MIN = 1024


@attrs.frozen
class NoisyNeighbour:
    """Users that take up too much go behind the others.

    >>> NoisyNeighbour().in_flight_min
    30
    """

    share_max: float = attrs.field(default=0.1, validator=between(0, 1))
    """The part of the tasks in flight, or of the recent processing time, above which a user is noisy."""
    in_flight_min: int = attrs.field(default=30, validator=whole(0))
    """Fewer tasks in flight than this are never noisy by number."""
    quiet_seconds: float = attrs.field(default=300.0, validator=greater_than(0))
    """Without a submit for so long, a user is quiet again."""
    recent_seconds: float = attrs.field(default=300.0, validator=greater_than(0))
    """How fast processing time is forgotten: after so long, a third of it is left."""
    sees_heads = True

    def start(self, notes: Notes, claims: Claims) -> "NoisyAccount":
        return NoisyAccount(self, notes, claims)


@attrs.define
class _Neighbour:
    noisy: bool = False
    submitted_at: float = 0.0
    waiting: int = 0
    service: float = 0.0
    """Recent processing time, as it was at `base`."""
    base: float = 0.0


class NoisyAccount:
    """Who is noisy, and the recent processing time of each."""

    def __init__(self, policy: NoisyNeighbour, notes: Notes, claims: Claims) -> None:
        self._policy = policy
        self._notes = notes
        self._claims = claims
        self._indexes: WeakSet[KeyIndex] = WeakSet()
        """Those that somebody still uses: they are made anew with every change of the workers."""
        self._total: tuple[float, float] = tuple(notes.get("total", (0.0, 0.0)))
        self._neighbours = {user: _Neighbour(*saved) for user, saved in notes.under("neighbour/").items()}
        self._hushing = [(n.submitted_at, user) for user, n in sorted(self._neighbours.items()) if n.noisy]
        """A heap of noisy users by when they last submitted."""
        heapify(self._hushing)
        self._sweep_at = max(_SWEEP_MIN, 2 * len(self._neighbours))

    def activate(self, user: str, now: float) -> None:
        self._judge(user, self._neighbours.setdefault(user, _Neighbour()), now)

    def deactivate(self, user: str) -> None:
        neighbour = self._neighbours.get(user)
        if neighbour is not None:
            neighbour.waiting = self._claims.waiting(user)
            drained = not neighbour.waiting and not self._claims.running(user)
            self._set_noisy(user, neighbour, neighbour.noisy and not drained)

    def charge(self, user: str, cost: float, now: float) -> None:
        # Until the shard's word on what is left, the task counts as waiting and as running.
        self._judge(user, self._serve(user, cost, now), now, counted_twice=1)
        self._hush(now)

    def correct(self, user: str, difference: float, now: float) -> None:
        self._judge(user, self._serve(user, difference, now), now)
        self._hush(now)

    def reweigh(self, name: str, before: float, after: float) -> None:
        """Weights do not count."""

    def rank(self, user: str, head: Head | None) -> Any:
        assert head is not None, "the policy sees heads"
        neighbour = self._neighbours.get(user)
        return (neighbour is not None and neighbour.noisy, *by_arrival(head))

    def index(self) -> KeyIndex:
        index = KeyIndex(self)
        self._indexes.add(index)
        return index

    def _serve(self, user: str, seconds: float, now: float) -> _Neighbour:
        neighbour = self._neighbours.setdefault(user, _Neighbour())
        neighbour.service = self._decayed(neighbour.service, neighbour.base, now) + seconds
        neighbour.base = now
        self._total = (self._decayed(*self._total, now) + seconds, now)
        self._notes["total"] = self._total
        self._notes["neighbour/" + user] = attrs.astuple(neighbour)
        if len(self._neighbours) > self._sweep_at:
            self._sweep(now)
        return neighbour

    def _decayed(self, service: float, base: float, now: float) -> float:
        return service * math.exp((base - now) / self._policy.recent_seconds)

    def _judge(self, user: str, neighbour: _Neighbour, now: float, counted_twice: int = 0) -> None:
        policy = self._policy
        waiting = self._claims.waiting(user)
        if waiting > neighbour.waiting:
            neighbour.submitted_at = now
        neighbour.waiting = waiting
        in_flight = max(counted_twice, waiting + self._claims.running(user) - counted_twice)
        if not in_flight or neighbour.submitted_at <= now - policy.quiet_seconds:
            noisy = False
        else:
            many = in_flight >= policy.in_flight_min
            crowding = many and in_flight > policy.share_max * (self._claims.in_flight() - counted_twice)
            service = self._decayed(neighbour.service, neighbour.base, now)
            hogging = service > policy.share_max * self._decayed(*self._total, now) > 0
            noisy = neighbour.noisy or crowding or hogging
        if noisy and not neighbour.noisy:
            heappush(self._hushing, (neighbour.submitted_at, user))
        self._set_noisy(user, neighbour, noisy)

    def _set_noisy(self, user: str, neighbour: _Neighbour, noisy: bool) -> None:
        changed = neighbour.noisy != noisy
        neighbour.noisy = noisy
        self._notes["neighbour/" + user] = attrs.astuple(neighbour)
        if changed:
            for index in self._indexes:
                index.refresh(user)

    def _hush(self, now: float) -> None:
        """Those who fell silent while nothing else happened to them are quiet from now on."""
        while self._hushing and self._hushing[0][0] <= now - self._policy.quiet_seconds:
            _, user = heappop(self._hushing)
            neighbour = self._neighbours.get(user)
            if neighbour is None or not neighbour.noisy:
                continue
            if neighbour.submitted_at > now - self._policy.quiet_seconds:
                heappush(self._hushing, (neighbour.submitted_at, user))
                continue
            self._set_noisy(user, neighbour, False)

    def _sweep(self, now: float) -> None:
        """Forget those who are idle and whose processing time is long past."""
        for user, neighbour in list(self._neighbours.items()):
            service = self._decayed(neighbour.service, neighbour.base, now)
            if not (neighbour.waiting or self._claims.running(user)) and service < 1e-3:
                del self._neighbours[user]
                del self._notes["neighbour/" + user]
        self._sweep_at = max(_SWEEP_MIN, 2 * len(self._neighbours))
