"""What may run, as the ledger sees it: limits, pauses and assignments, by books of their own.

Permits are counted here as permits, refilled with time; the runtime keeps them as a point in time. So what is found is a
disagreement between two ways to count. I13: starts in any window <= capacity + rate * window. I14: running <= cap.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase

import attrs

from actors.config import Settings
from actors.limits import Limit
from actors.messages import Address, WorkerClass
from actors.policies.sharing import CapsUsers
from actors.trace import Event, Paused, Relimited, Resumed
from sim.entries import Line, Shelf

__all__ = ["ASSIGNMENT", "CONCURRENCY", "PAUSES", "RATE", "Restrictions"]

RATE = "I13 rate"
CONCURRENCY = "I14 concurrency"
ASSIGNMENT = "I17 assignment"
PAUSES = "pauses"

_TOLERANCE = 1e-6


@attrs.define
class _Meter:
    """How far one limit is used, and whether what it is about is paused."""

    key: str
    limit: Limit
    paused: bool = False
    permits: float = 0.0
    counted_at: float = 0.0
    running: int = 0

    def __attrs_post_init__(self) -> None:
        self.permits = self.capacity

    @property
    def capacity(self) -> float:
        return max(1.0, self.limit.rate_limit or 1.0)

    def refill(self, now: float) -> float:
        if self.limit.rate_limit is not None:
            self.permits = min(self.capacity, self.permits + (now - self.counted_at) * self.limit.rate_limit)
            self.counted_at = now
        return self.permits

    def start(self, line: Line, at: float) -> Iterator[tuple[str, str]]:
        """Count one more; what that breaks."""
        user, kind = line.shelf.user, line.kind
        if self.is_full():
            yield CONCURRENCY, f"{user} started {kind!r} beside {self.running} of {self.key}, which may be no more"
        if self.limit.rate_limit is not None:
            if self.refill(at) < 1 - _TOLERANCE:
                yield RATE, f"{user} started {kind!r} with {self.permits:.6f} permits of {self.key}"
            self.permits -= 1
        self.running += 1

    def is_full(self) -> bool:
        cap = self.limit.concurrency_max
        return cap is not None and self.running >= cap

    def is_open(self, now: float) -> bool:
        """Whether one more could surely start; on the very edge of a permit nobody can tell."""
        if self.is_full():
            return False
        return self.limit.rate_limit is None or self.refill(now) > 1 + _TOLERANCE


class Restrictions:
    """Which worker may run what of whom, and when.

    A meter is kept only for what is or was limited or paused. So what nothing restricts costs next to nothing.
    """

    def __init__(
        self, settings: Settings, workers: Mapping[Address, WorkerClass], shelves: Mapping[str, Shelf]
    ) -> None:
        self._settings = settings
        self._workers = workers
        self._shelves = shelves
        self._cap = settings.sharing.user_concurrency_max if isinstance(settings.sharing, CapsUsers) else None
        self._meters: dict[str, _Meter] = {}
        self._meters_of: dict[Line, tuple[_Meter, ...]] = {}
        """What each line is held to."""
        self._relations: dict[tuple[Address, str], str] = {}
        self._rightful: set[tuple[Address, Line, bool]] = set()
        """Who was seen to run what of whom, and might."""

    def on_event(self, event: Event) -> None:
        """An operator changed something."""
        if isinstance(event, (Paused, Resumed)):
            self._metered(_key(event.kind, event.user)).paused = isinstance(event, Paused)
        elif isinstance(event, Relimited):
            meter = self._metered(_key(event.kind, event.user))
            # Where there was no rate, nobody counted permits: a new bucket is full.
            permits = math.inf if meter.limit.rate_limit is None else meter.refill(event.at)
            meter.limit = self._capped(meter.key, Limit(event.rate_limit, event.concurrency_max))
            meter.counted_at = event.at
            meter.permits = min(meter.capacity, permits)

    def is_limited(self, kind: str) -> bool:
        """Whether users share a limit on this kind, so that its turns go by an account of its own."""
        meter = self._meter("kind/" + kind)
        return meter is not None and meter.limit.holds

    def is_paused(self, kind: str) -> bool:
        """Whether the kind is paused."""
        meter = self._meter("kind/" + kind)
        return meter is not None and meter.paused

    def started(self, line: Line, worker: Address, stolen: bool, at: float) -> Sequence[tuple[str, str]]:
        """Count a start; what it breaks, as (invariant, what happened)."""
        meters = self._meters_of.get(line)
        if meters is None:
            meters = self._meters_for(line)
        line.running += 1
        if not meters and (worker, line, stolen) in self._rightful:
            return ()
        broken: list[tuple[str, str]] = []
        for meter in meters:
            if meter.paused:
                broken.append((PAUSES, f"{line.shelf.user} started {line.kind!r} while {meter.key} was paused"))
            broken += meter.start(line, at)
        if (worker, line, stolen) not in self._rightful:
            broken += self._wrongful(line, worker, stolen)
        return broken

    def _wrongful(self, line: Line, worker: Address, stolen: bool) -> Iterator[tuple[str, str]]:
        user, kind = line.shelf.user, line.kind
        relation = self._relation(worker, user)
        if kind not in self.runs(worker) or relation == "none":
            yield ASSIGNMENT, f"{worker} started {kind!r} of {user}, which it may not"
        elif stolen != (relation == "steals"):
            yield ASSIGNMENT, f"{worker} started {kind!r} of {user} as {'stolen' if stolen else 'its own'}"
        else:
            self._rightful.add((worker, line, stolen))

    def runs(self, worker: Address) -> frozenset[str]:
        """The kinds that a worker runs."""
        return self._workers[worker].runs(self._settings.handled)

    def ended(self, line: Line) -> None:
        """A claim ended, whatever came of it."""
        line.running -= 1
        for meter in self._meters_of[line]:
            meter.running -= 1

    def may_start(self, worker: Address, line: Line, now: float) -> bool:
        """Whether this worker could surely start a task of this line now."""
        return (
            line.kind in self.runs(worker)
            and self._relation(worker, line.shelf.user) != "none"
            and all(not meter.paused and meter.is_open(now) for meter in self._meters_for(line))
        )

    def _relation(self, worker: Address, user: str) -> str:
        """`own`, `steals` or `none`."""
        relation = self._relations.get((worker, user))
        if relation is None:
            worker_class = self._workers[worker]
            if worker_class.users is None or _named(user, worker_class.users):
                relation = "own"
            else:
                steals = self._settings.stealing != "none" and _named(user, worker_class.steals)
                relation = "steals" if steals else "none"
            self._relations[worker, user] = relation
        return relation

    def _meters_for(self, line: Line) -> tuple[_Meter, ...]:
        meters = self._meters_of.get(line)
        if meters is None:
            found = (self._meter("all"), self._meter("kind/" + line.kind), self._meter("user/" + line.shelf.user))
            meters = self._meters_of[line] = tuple(meter for meter in found if meter is not None)
        return meters

    def _meter(self, key: str) -> _Meter | None:
        """The meter of what is limited or paused, or was."""
        meter = self._meters.get(key)
        if meter is None and (limit := self._capped(key, self._limit(key))).holds:
            meter = self._meters[key] = self._new(key, limit)
        return meter

    def _metered(self, key: str) -> _Meter:
        """The meter of what is to be limited or paused."""
        meter = self._meter(key)
        if meter is None:
            meter = self._meters[key] = self._new(key, Limit())
            self._meters_of.clear()
            for shelf in self._shelves.values():
                for line in shelf.lines.values():
                    self._meters_for(line)
        return meter

    def _new(self, key: str, limit: Limit) -> _Meter:
        lines = (line for shelf in self._shelves.values() for line in shelf.lines.values())
        held = [line for line in lines if key in ("all", "kind/" + line.kind, "user/" + line.shelf.user)]
        return _Meter(key, limit, running=sum(line.running for line in held))

    def _limit(self, key: str) -> Limit:
        role, _, name = key.partition("/")
        if role == "all":
            return self._settings.limit
        return self._settings.kind(name).limit if role == "kind" else self._settings.user_limits.get(name, Limit())

    def _capped(self, key: str, limit: Limit) -> Limit:
        if self._cap is None or not key.startswith("user/"):
            return limit
        caps = [cap for cap in (limit.concurrency_max, self._cap) if cap is not None]
        return Limit(limit.rate_limit, min(caps))


def _named(user: str, patterns: tuple[str, ...]) -> bool:
    return any(user == pattern or fnmatchcase(user, pattern) for pattern in patterns)


def _key(kind: str | None, user: str | None) -> str:
    if kind is not None:
        return "kind/" + kind
    return "all" if user is None else "user/" + user
