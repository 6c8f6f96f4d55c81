"""How much may run: permits at a rate, and a number at once.

A bucket of permits is kept as a time at which it was full, and how many were used since (the virtual scheduling form of the
leaky bucket, ITU-T I.371): it is full again at since + used/rate, and there is a permit from (capacity - 1)/rate before that
on. So asking costs and changes nothing, and refilling needs no arithmetic. Capacity is max(1, rate): starts in any window of
t seconds <= capacity + rate * t.

Why a count, and not the time itself, moved by 1/rate with each permit? A time of day as a float is a multiple of 0.24 us, and
at 1,000 a second each such move would be rounded to that: always the same way, so that 0.007 % too many would start. From a
whole number the time of the next permit is computed anew, and is off by one rounding, however many there were before it.
"""

import attrs

from actors.validators import greater_than, or_none, whole

__all__ = ["ALWAYS", "Bucket", "Gauge", "Limit"]

ALWAYS = float("-inf")
"""As a time: already open."""


@attrs.frozen
class Limit:
    """What a kind, a user or everything is held to; None: not held.

    >>> Limit(rate_limit=10)
    Limit(rate_limit=10, concurrency_max=None)
    >>> Limit(rate_limit=0)
    Traceback (most recent call last):
    actors.errors.InvalidConfig: rate_limit must be a finite number > 0, got 0
    """

    rate_limit: float | None = attrs.field(default=None, validator=or_none(greater_than(0)))
    """Starts a second."""
    concurrency_max: int | None = attrs.field(default=None, validator=or_none(whole(0)))
    """Tasks at once."""

    @property
    def holds(self) -> bool:
        """Whether it limits anything."""
        return self.rate_limit is not None or self.concurrency_max is not None


class Bucket:
    """Permits at a rate, with a burst of max(1, rate).

    >>> bucket = Bucket(rate=2.0)
    >>> for _ in range(2):
    ...     bucket.take(now=10.0)
    >>> bucket.free_at, bucket.permits(now=10.25)
    (10.5, 0.5)
    """

    __slots__ = ("_spare", "rate", "since", "used")

    def __init__(self, rate: float, since: float = ALWAYS, used: int = 0) -> None:
        self.rate = rate
        self.since = since
        """When all permits are there, but for those used since; ALWAYS if none was ever used."""
        self.used = used
        """How many were used since. With the time that is the whole state."""
        self._spare = self.capacity - 1

    @classmethod
    def restored(cls, rate: float, since: float, used: int, noted_rate: float) -> "Bucket":
        """A bucket from what was noted of it; if the rate was another, it is full when that would have been."""
        return cls(rate, since, used) if noted_rate == rate else cls(rate, since + used / noted_rate)

    def noted(self) -> tuple[float, int, float]:
        """All that `restored` needs, as JSON values; not before the first permit was used."""
        return (self.since, self.used, self.rate)

    @property
    def capacity(self) -> float:
        """Permits at most."""
        return max(1.0, self.rate)

    @property
    def free_at(self) -> float:
        """When there is a permit; in the past if there is one now."""
        return self.since + (self.used - self._spare) / self.rate

    def permits(self, now: float) -> float:
        """How many there are, parts included."""
        return min(self.capacity, self.capacity - (self.used - (now - self.since) * self.rate))

    def take(self, now: float) -> None:
        """Use one."""
        # By the difference of two times, which is exact: a rounded time at which it is full would let permits leak.
        if (now - self.since) * self.rate >= self.used:
            self.since, self.used = now, 0
        self.used += 1

    def at_rate(self, rate: float, now: float) -> "Bucket":
        """A bucket of another rate that holds what this one holds, as far as it has room for it."""
        other = Bucket(rate)
        other.since = now + (other.capacity - min(other.capacity, self.permits(now))) / rate
        return other


class Gauge:
    """A limit and how far it is used."""

    __slots__ = ("bucket", "held", "key", "limit", "running")

    def __init__(self, key: str, limit: Limit, noted: tuple[float, int, float] | None = None) -> None:
        self.key = key
        """Whose limit it is."""
        self.limit = limit
        self.held = limit.holds
        """Whether it limits anything."""
        self.running = 0
        self.bucket: Bucket | None = None
        if limit.rate_limit is not None:
            self.bucket = Bucket(limit.rate_limit) if noted is None else Bucket.restored(limit.rate_limit, *noted)

    def free_at(self) -> float:
        """When one more may start: a time, ALWAYS, or infinity while as many run as may."""
        cap = self.limit.concurrency_max
        if cap is not None and self.running >= cap:
            return float("inf")
        return ALWAYS if self.bucket is None else self.bucket.free_at

    def take(self, now: float) -> None:
        """One more starts."""
        self.running += 1
        if self.bucket is not None:
            self.bucket.take(now)

    def set(self, limit: Limit, now: float) -> None:
        """Hold to another limit from now on; permits already used stay used."""
        if limit.rate_limit is None:
            self.bucket = None
        elif self.bucket is None:
            self.bucket = Bucket(limit.rate_limit)
        elif self.bucket.rate != limit.rate_limit:
            self.bucket = self.bucket.at_rate(limit.rate_limit, now)
        self.limit = limit
        self.held = limit.holds
