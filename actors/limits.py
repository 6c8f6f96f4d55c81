"""How much may run: permits at a rate, and a number at once.

A bucket of permits is kept as the one time at which it would be full again (the virtual scheduling form of the leaky
bucket, ITU-T I.371): a permit moves that time by 1/rate, and there is a permit whenever that time is at most
(capacity - 1)/rate away. So asking costs and changes nothing, refilling needs no arithmetic that could drift, and the time
of the next permit is exact. Capacity is max(1, rate): starts in any window of t seconds <= capacity + rate * t.
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

    __slots__ = ("_slack", "full_at", "rate")

    def __init__(self, rate: float, full_at: float = ALWAYS) -> None:
        self.rate = rate
        self.full_at = full_at
        """When all permits are back; the whole state."""
        self._slack = (self.capacity - 1) / rate

    @property
    def capacity(self) -> float:
        """Permits at most."""
        return max(1.0, self.rate)

    @property
    def free_at(self) -> float:
        """When there is a permit; in the past if there is one now."""
        return self.full_at - self._slack

    def permits(self, now: float) -> float:
        """How many there are, parts included."""
        return self.capacity if self.full_at <= now else self.capacity - (self.full_at - now) * self.rate

    def take(self, now: float) -> None:
        """Use one."""
        self.full_at = max(self.full_at, now) + 1 / self.rate

    def at_rate(self, rate: float, now: float) -> "Bucket":
        """A bucket of another rate that holds what this one holds, as far as it has room for it."""
        other = Bucket(rate)
        other.full_at = now + (other.capacity - min(other.capacity, self.permits(now))) / rate
        return other


class Gauge:
    """A limit and how far it is used."""

    __slots__ = ("bucket", "limit", "running")

    def __init__(self, limit: Limit, full_at: float = ALWAYS) -> None:
        self.limit = limit
        self.running = 0
        self.bucket = None if limit.rate_limit is None else Bucket(limit.rate_limit, full_at)

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
