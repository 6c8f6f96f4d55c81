"""What arrives when, and how long it takes: the random parts of a scenario."""

import math
from collections.abc import Iterator
from random import Random
from statistics import NormalDist
from typing import Any

import attrs

from actors.errors import InvalidConfig
from actors.task import Priority
from actors.validators import finite, greater_than, is_finite, one_of, or_none, whole

__all__ = [
    "PROCESSES",
    "SERVICES",
    "Arrivals",
    "At",
    "Burst",
    "Empirical",
    "Exponential",
    "Fixed",
    "FixedRate",
    "Lognormal",
    "OnOff",
    "Pareto",
    "Poisson",
    "Service",
    "Uniform",
]


# How long work takes. Each is the inverse of its distribution function, so that one number in [0, 1) is one time: two
# policies are compared on the same numbers, and a larger number is a longer time whatever the distribution.


@attrs.frozen(kw_only=True)
class Fixed:
    """Every task takes the same time."""

    seconds: float = attrs.field(validator=greater_than(0))
    """That time."""

    @property
    def mean_seconds(self) -> float:
        """The mean."""
        return self.seconds

    def sample(self, uniform: float) -> float:
        """The time that a number in [0, 1) stands for."""
        return self.seconds


@attrs.frozen(kw_only=True)
class Exponential:
    """Times without memory: most short, some long."""

    mean_seconds: float = attrs.field(validator=greater_than(0))
    """The mean."""

    def sample(self, uniform: float) -> float:
        """The time that a number in [0, 1) stands for."""
        return -self.mean_seconds * math.log1p(-uniform)


@attrs.frozen(kw_only=True)
class Uniform:
    """Any time between two is as likely as any other.

    >>> Uniform(low_seconds=1.0, high_seconds=3.0).sample(0.25)
    1.5
    """

    low_seconds: float = attrs.field(validator=finite(0))
    """The shortest."""
    high_seconds: float = attrs.field(validator=greater_than(0))
    """The longest."""

    def __attrs_post_init__(self) -> None:
        if self.high_seconds < self.low_seconds:
            raise InvalidConfig(f"high_seconds must be >= low_seconds, {self.low_seconds:g}, got {self.high_seconds!r}")

    @property
    def mean_seconds(self) -> float:
        """The mean."""
        return (self.low_seconds + self.high_seconds) / 2

    def sample(self, uniform: float) -> float:
        """The time that a number in [0, 1) stands for."""
        return self.low_seconds + (self.high_seconds - self.low_seconds) * uniform


@attrs.frozen(kw_only=True)
class Lognormal:
    """Times whose logarithm is normal: a hump of usual ones and a long tail, as much real work has it.

    With deviation s of the logarithm, the mean is exp(m + s^2 / 2) and the coefficient of variation sqrt(exp(s^2) - 1).

    >>> round(Lognormal(mean_seconds=2.0, cv=1.0).sample(0.5), 3)
    1.414
    """

    mean_seconds: float = attrs.field(validator=greater_than(0))
    """The mean."""
    sigma: float | None = attrs.field(default=None, validator=or_none(greater_than(0)))
    """The standard deviation of the logarithm; either this or `cv`."""
    cv: float | None = attrs.field(default=None, validator=or_none(greater_than(0)))
    """The coefficient of variation: standard deviation by mean."""

    def __attrs_post_init__(self) -> None:
        if (self.sigma is None) == (self.cv is None):
            raise InvalidConfig("lognormal must have either sigma or cv")

    @property
    def log_deviation(self) -> float:
        """The standard deviation of the logarithm, however it was given."""
        return math.sqrt(math.log1p(self.cv**2)) if self.cv is not None else self.sigma or 0.0

    def sample(self, uniform: float) -> float:
        """The time that a number in [0, 1) stands for."""
        deviation = self.log_deviation
        # The smallest draw is 0, for which there is no time; half of the next one stands in for it.
        normal = NormalDist().inv_cdf(max(uniform, 2.0**-54))
        return self.mean_seconds * math.exp(deviation * normal - deviation * deviation / 2)


@attrs.frozen(kw_only=True)
class Pareto:
    """Times with a tail that thins out by a power: few take most of all the time. The mean is scale * alpha / (alpha - 1).

    >>> Pareto(scale_seconds=1.0, alpha=2.0).sample(0.75), Pareto(mean_seconds=2.0, alpha=2.0).sample(0.0)
    (2.0, 1.0)
    """

    alpha: float = attrs.field(validator=greater_than(1))
    """How fast the tail thins out: the smaller, the heavier. The variance is infinite up to 2."""
    mean_seconds: float | None = attrs.field(default=None, validator=or_none(greater_than(0)))
    """The mean; either this or `scale_seconds`."""
    scale_seconds: float | None = attrs.field(default=None, validator=or_none(greater_than(0)))
    """The shortest time."""

    def __attrs_post_init__(self) -> None:
        if (self.mean_seconds is None) == (self.scale_seconds is None):
            raise InvalidConfig("pareto must have either mean_seconds or scale_seconds")

    @property
    def shortest_seconds(self) -> float:
        """The shortest time, however it was given."""
        if self.scale_seconds is not None:
            return self.scale_seconds
        assert self.mean_seconds is not None, "one of them is given"
        return self.mean_seconds * (self.alpha - 1) / self.alpha

    def sample(self, uniform: float) -> float:
        """The time that a number in [0, 1) stands for."""
        return float(self.shortest_seconds * (1 - uniform) ** (-1 / self.alpha))


@attrs.frozen(kw_only=True)
class Empirical:
    """Times that were measured, each as likely as the others.

    >>> Empirical(seconds=(1.0, 5.0)).sample(0.5)
    5.0
    """

    seconds: tuple[float, ...] = attrs.field()
    """Those times, in any order."""

    @seconds.validator
    def _check(self, _: Any, seconds: tuple[float, ...]) -> None:
        if not seconds:
            raise InvalidConfig("seconds must have at least one number in it, got none")
        _check_times(seconds)

    @property
    def mean_seconds(self) -> float:
        """The mean."""
        return math.fsum(self.seconds) / len(self.seconds)

    def sample(self, uniform: float) -> float:
        """The time that a number in [0, 1) stands for."""
        return self.seconds[int(uniform * len(self.seconds))]


def _check_times(seconds: tuple[float, ...]) -> None:
    for at in seconds:
        if not (is_finite(at) and at >= 0):
            raise InvalidConfig(f"seconds must be finite numbers >= 0, got {at!r}")


Service = Fixed | Exponential | Uniform | Lognormal | Pareto | Empirical
SERVICES: dict[str, type[Any]] = {
    "fixed": Fixed,
    "exponential": Exponential,
    "uniform": Uniform,
    "lognormal": Lognormal,
    "pareto": Pareto,
    "empirical": Empirical,
}


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
    """How many a second."""

    def times(self, random: Random, duration_seconds: float) -> Iterator[float]:
        """When tasks arrive, in order, before the duration is over."""
        gap, rate = random.expovariate, self.per_second
        at = gap(rate)
        while at < duration_seconds:
            yield at
            at += gap(rate)


@attrs.frozen(kw_only=True)
class FixedRate(_Arrivals):
    """Arrivals like clockwork, the first at 0."""

    per_second: float = attrs.field(validator=greater_than(0))
    """How many a second."""

    def times(self, random: Random, duration_seconds: float) -> Iterator[float]:
        """When tasks arrive, in order, before the duration is over."""
        number = 0
        while (at := number / self.per_second) < duration_seconds:
            yield at
            number += 1


@attrs.frozen(kw_only=True)
class OnOff(_Arrivals):
    """Bursts: arrivals without memory while on, none while off. It begins with an on period."""

    per_second: float = attrs.field(validator=greater_than(0))
    """How many a second, while on."""
    on_seconds: float = attrs.field(validator=finite(0.001))
    """How long an on period is, in the mean."""
    off_seconds: float = attrs.field(validator=finite(0.001))
    """How long an off period is, in the mean."""
    periods: str = attrs.field(default="exponential", validator=one_of(("exponential", "fixed")))
    """Whether periods are `exponential`, without memory, or `fixed`, all of one length."""

    def times(self, random: Random, duration_seconds: float) -> Iterator[float]:
        """When tasks arrive, in order, before the duration is over."""
        begins = 0.0
        while begins < duration_seconds:
            ends = begins + self._period(random, self.on_seconds)
            at = begins + random.expovariate(self.per_second)
            while at < min(ends, duration_seconds):
                yield at
                at += random.expovariate(self.per_second)
            begins = ends + self._period(random, self.off_seconds)

    def _period(self, random: Random, mean_seconds: float) -> float:
        return mean_seconds if self.periods == "fixed" else random.expovariate(1 / mean_seconds)


@attrs.frozen(kw_only=True)
class At(_Arrivals):
    """Arrivals at the times that are listed."""

    seconds: tuple[float, ...] = attrs.field()
    """Those times, in any order."""

    @seconds.validator
    def _check(self, _: Any, seconds: tuple[float, ...]) -> None:
        _check_times(seconds)

    def times(self, random: Random, duration_seconds: float) -> Iterator[float]:
        """When tasks arrive, in order, before the duration is over."""
        return (at for at in sorted(self.seconds) if at < duration_seconds)


@attrs.frozen(kw_only=True)
class Burst(_Arrivals):
    """Many arrivals at once."""

    count: int = attrs.field(validator=whole(1))
    """How many."""
    at_seconds: float = attrs.field(default=0.0, validator=finite(0))
    """When."""

    def times(self, random: Random, duration_seconds: float) -> Iterator[float]:
        """When tasks arrive, in order, before the duration is over."""
        return (self.at_seconds for _ in range(self.count) if self.at_seconds < duration_seconds)


Arrivals = Poisson | FixedRate | OnOff | At | Burst
PROCESSES: dict[str, type[Any]] = {
    "poisson": Poisson,
    "fixed": FixedRate,
    "on_off": OnOff,
    "at": At,
    "burst": Burst,
}
