"""The ideal that sharing is measured against: work as a fluid that flows to everybody at once, by weight.

At every moment user i, with d_i unfinished tasks, is served at the rate x_i = min(d_i, w_i * theta), where theta is such that
the sum of all x_i is min(m, sum of all d_i): weighted max-min sharing of m workers, as generalized processor sharing
has it for one server (Parekh, Gallager 1993) and for several (Blanquer, Ozden 2001). A task is served by one worker at most, so
nobody is served faster than it has tasks; within a user all unfinished tasks are served alike. Rates of at most one a task
that sum to at most m can be kept by m workers that may switch tasks at any time (McNaughton 1959), so no scheduler that is
fair at every moment could do better, and none that finishes what it started can quite keep up: the distance between what a
user was given and this is how far from ideal a policy is.

`tenant/alice` shares within `tenant` first: a name above others has the sum of their demands and a weight of its own, and
what it gets is shared below it by the same rule. Tasks of the inner name itself are a child of weight 1, as with `weighted_fair`.

It is a pure function of who asked for how much and when. Weights are those of the beginning; limits, pauses and crashes are
not ideal and are left out.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from heapq import heappop, heappush
from itertools import accumulate

import attrs

from sim.curve import Curve

__all__ = ["Work", "fluid_service", "max_min"]

Work = tuple[float, str, float]
"""When it came, whose it is, and how many seconds of a worker it takes."""

_ROUNDING = 1e-9


def max_min(capacity: float, demands: Sequence[float], weights: Sequence[float]) -> list[float]:
    """What each gets of a capacity: as much as it asks for, or its part by weight of what the modest leave over.

    >>> max_min(8.0, [1.0, 20.0, 20.0], [1.0, 1.0, 1.0])
    [1.0, 3.5, 3.5]
    >>> max_min(8.0, [1.0, 2.0], [1.0, 1.0])
    [1.0, 2.0]
    """
    if sum(demands) <= capacity:
        return list(demands)
    order = sorted(range(len(demands)), key=lambda number: demands[number] / weights[number])
    # What each and all that ask for more weigh: summed from the end, since to subtract would round.
    behind = list(accumulate(weights[number] for number in reversed(order)))[::-1]
    rates = [0.0] * len(demands)
    left = capacity
    for place, number in enumerate(order):
        level = left / behind[place]
        if demands[number] > level * weights[number]:
            for greedy in order[place:]:
                rates[greedy] = level * weights[greedy]
            break
        rates[number] = demands[number]
        left -= demands[number]
    return rates


def fluid_service(work: Iterable[Work], workers: int, weights: Mapping[str, float]) -> dict[str, Curve]:
    """For each user, the service in seconds that it would have had by each time, if it had flowed.

    >>> curves = fluid_service([(0.0, "flood", 4.0), (0.0, "flood", 4.0), (1.0, "light", 1.0)], 1, {})
    >>> [round(curves["light"].at(time), 9) for time in (1.0, 2.0, 3.0, 9.0)]
    [0.0, 0.5, 1.0, 1.0]
    """
    fluid = _Fluid(workers, weights)
    for at, user, seconds in sorted(work):
        fluid.flow(until=at)
        fluid.add(user, seconds)
    fluid.flow(until=None)
    return {user: tap.curve for user, tap in fluid.taps.items()}


@attrs.define(eq=False)
class _Tap:
    """What flows to one user."""

    tags: list[float] = attrs.Factory(list)
    """A heap: for each unfinished task, how far `each` must come for it to end."""
    each: float = 0.0
    """What a task has been given that was there throughout."""
    given: float = 0.0
    asked: float = 0.0
    rate: float = 0.0
    curve: Curve = attrs.Factory(Curve)

    def turn(self, rate: float, now: float) -> None:
        """From now on it flows at this rate."""
        if rate != self.rate:
            self.curve.add(now, self.given)
            self.rate = rate


class _Fluid:
    def __init__(self, workers: int, weights: Mapping[str, float]) -> None:
        self.taps: dict[str, _Tap] = {}
        self._workers = workers
        self._weights = weights
        self._open: dict[str, _Tap] = {}
        """Those with unfinished tasks."""
        self._now = 0.0
        self._changed = False

    def add(self, user: str, seconds: float) -> None:
        """Somebody asks for this much."""
        tap = self.taps.get(user)
        if tap is None:
            tap = self.taps[user] = _Tap()
        if seconds <= 0:
            return
        heappush(tap.tags, tap.each + seconds)
        tap.asked += seconds
        self._open[user] = tap
        self._changed = True

    def flow(self, until: float | None) -> None:
        """Let it flow until then, or until all is done."""
        while self._open and (until is None or self._now < until):
            if self._changed:
                self._share()
            ends_at, first = self._next_end()
            if until is not None and ends_at > until:
                self._advance(until)
                return
            self._advance(ends_at)
            self._end(first)
        if until is not None:
            self._now = max(self._now, until)

    def _next_end(self) -> tuple[float, str]:
        seconds, user = min(
            ((tap.tags[0] - tap.each) * len(tap.tags) / tap.rate, user) for user, tap in self._open.items()
        )
        return self._now + max(0.0, seconds), user

    def _advance(self, to: float) -> None:
        seconds = to - self._now
        for tap in self._open.values():
            tap.given += tap.rate * seconds
            tap.each += tap.rate * seconds / len(tap.tags)
        self._now = to

    def _end(self, first: str) -> None:
        """The first task of this user is done, and so is whatever else is but for rounding."""
        self._open[first].each = max(self._open[first].each, self._open[first].tags[0])
        for user, tap in list(self._open.items()):
            reached = tap.each * (1 + _ROUNDING)
            while tap.tags and tap.tags[0] <= reached:
                heappop(tap.tags)
                self._changed = True
            if not tap.tags:
                # Nothing is left but what rounding made of it.
                tap.given, tap.each = tap.asked, 0.0
                tap.turn(0.0, self._now)
                del self._open[user]

    def _share(self) -> None:
        demands = {user: float(len(tap.tags)) for user, tap in self._open.items()}
        for user, rate in _shared(self._workers, demands, self._weights).items():
            self._open[user].turn(rate, self._now)
        self._changed = False


def _shared(capacity: float, demands: Mapping[str, float], weights: Mapping[str, float]) -> dict[str, float]:
    """What each user gets, of the capacity of all."""
    if sum(demands.values()) <= capacity:
        return dict(demands)
    if not any("/" in user for user in demands):
        found = max_min(capacity, list(demands.values()), [weights.get(user, 1.0) for user in demands])
        return dict(zip(demands, found, strict=True))
    return _shared_below("", capacity, demands, weights)


def _shared_below(
    name: str, capacity: float, demands: Mapping[str, float], weights: Mapping[str, float]
) -> dict[str, float]:
    """Among the names directly below one, and then below each of them."""
    children: dict[str, dict[str, float]] = {}
    for user, demand in demands.items():
        child = _child(name, user)
        if (below := children.get(child)) is None:
            children[child] = {user: demand}
        else:
            below[user] = demand
    heavy = [weights.get(child, 1.0) if child else 1.0 for child in children]
    found = max_min(capacity, [sum(below.values()) for below in children.values()], heavy)
    rates: dict[str, float] = {}
    for (child, below), part in zip(children.items(), found, strict=True):
        if len(below) == 1:
            rates.update(dict.fromkeys(below, part))
        elif sum(below.values()) <= part:
            rates.update(below)
        else:
            rates.update(_shared_below(child, part, below, weights))
    return rates


@lru_cache(maxsize=100_000)
def _child(name: str, user: str) -> str:
    """Which name directly below another leads to a user; the name's own tasks are a child too, and no other is called "".

    >>> _child("", "acme/crawl/night"), _child("acme", "acme/crawl/night"), _child("acme", "acme")
    ('acme', 'acme/crawl', '')
    """
    if user == name:
        return ""
    end = user.find("/", (len(name) + 1 if name else 0) + 1)
    return user[:end] if end > 0 else user
