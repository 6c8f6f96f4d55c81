"""What arrives when, and how long it takes: the random parts of a scenario."""

import math
from collections.abc import Iterator
from random import Random
from typing import Any

import attrs

from actors.errors import InvalidConfig
from actors.task import Priority
from actors.validators import finite, greater_than, or_none, whole

__all__ = [
    "PROCESSES",
    "SERVICES",
    "Arrivals",
    "At",
    "Burst",
    "Exponential",
    "Fixed",
    "FixedRate",
    "Poisson",
    "Service",
]


# How long work takes


@attrs.frozen(kw_only=True)
class Fixed:
    """Every task takes the same time."""

    seconds: float = attrs.field(validator=greater_than(0))

    def sample(self, uniform: float) -> float:
        """The time that a number in [0, 1) stands for."""
        return self.seconds


@attrs.frozen(kw_only=True)
class Exponential:
    """Times without memory: most short, some long."""

    mean_seconds: float = attrs.field(validator=greater_than(0))

    def sample(self, uniform: float) -> float:
        """The time that a number in [0, 1) stands for."""
        return -self.mean_seconds * math.log1p(-uniform)


Service = Fixed | Exponential
SERVICES: dict[str, type[Any]] = {"fixed": Fixed, "exponential": Exponential}


# When work arrives


@attrs.frozen(kw_only=True)
class _Arrivals:
    kind: str
    """Which kind arrives."""
    priority: Priority = Priority.NORMAL
    """At which level."""
    delay_seconds: float | None = attrs.field(default=None, validator=or_none(finite(0)))
    """Not to be run before so long after it was submitted."""
    expires_after_seconds: float | None = attrs.field(default=None, validator=or_none(greater_than(0)))
    """Not to be run later than so long after it was submitted."""


@attrs.frozen(kw_only=True)
class Poisson(_Arrivals):
    """Arrivals without memory, at a mean rate."""

    per_second: float = attrs.field(validator=greater_than(0))

    def times(self, random: Random, duration_seconds: float) -> Iterator[float]:
        """When tasks arrive, in order, before the duration is over."""
        at = random.expovariate(self.per_second)
        while at < duration_seconds:
            yield at
            at += random.expovariate(self.per_second)


@attrs.frozen(kw_only=True)
class FixedRate(_Arrivals):
    """Arrivals like clockwork, the first at 0."""

    per_second: float = attrs.field(validator=greater_than(0))

    def times(self, random: Random, duration_seconds: float) -> Iterator[float]:
        """When tasks arrive, in order, before the duration is over."""
        number = 0
        while (at := number / self.per_second) < duration_seconds:
            yield at
            number += 1


@attrs.frozen(kw_only=True)
class At(_Arrivals):
    """Arrivals at the times that are listed."""

    seconds: tuple[float, ...] = attrs.field()

    @seconds.validator
    def _check(self, _: Any, seconds: tuple[float, ...]) -> None:
        for at in seconds:
            if not (math.isfinite(at) and at >= 0):
                raise InvalidConfig(f"seconds must be finite numbers >= 0, got {at!r}")

    def times(self, random: Random, duration_seconds: float) -> Iterator[float]:
        """When tasks arrive, in order, before the duration is over."""
        return (at for at in sorted(self.seconds) if at < duration_seconds)


@attrs.frozen(kw_only=True)
class Burst(_Arrivals):
    """Many arrivals at once."""

    count: int = attrs.field(validator=whole(1))
    at_seconds: float = attrs.field(default=0.0, validator=finite(0))

    def times(self, random: Random, duration_seconds: float) -> Iterator[float]:
        """When tasks arrive, in order, before the duration is over."""
        return (self.at_seconds for _ in range(self.count) if self.at_seconds < duration_seconds)


Arrivals = Poisson | FixedRate | At | Burst
PROCESSES: dict[str, type[Any]] = {"poisson": Poisson, "fixed": FixedRate, "at": At, "burst": Burst}
