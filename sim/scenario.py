"""A scenario: who submits what and when, how long it takes, who runs it, and what must come of it.

Read from a TOML file into frozen attrs classes. Every unknown key and every bad value is refused with the path of the
key, the constraint and the value.
"""

import math
import tomllib
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import attrs

from actors.config import KindSettings, Settings, make_converter, structure
from actors.errors import InvalidConfig
from actors.policies import suggestion
from actors.policies.fair import WeightedFair
from actors.policies.ordering import Aging, OrderingPolicy
from actors.policies.sharing import SharingPolicy
from actors.retry import RetryPolicy
from actors.task import Priority
from actors.validators import finite, greater_than, or_none, user_name_fault, whole

__all__ = [
    "METRICS",
    "At",
    "Burst",
    "Check",
    "Exponential",
    "Fixed",
    "FixedRate",
    "Kind",
    "Poisson",
    "Runtime",
    "Scenario",
    "User",
    "load_scenario",
    "parse_scenario",
]

METRICS = (
    "completed",
    "wait_seconds_mean",
    "wait_seconds_p50",
    "wait_seconds_p99",
    "wait_seconds_max",
    "service_seconds",
    "share",
    "jain",
)
"""What a check can be about."""


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
_SERVICES: dict[str, type[Any]] = {"fixed": Fixed, "exponential": Exponential}


# When work arrives


@attrs.frozen(kw_only=True)
class _Arrivals:
    kind: str
    """Which kind arrives."""
    priority: Priority = Priority.NORMAL
    """At which level."""


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
_PROCESSES: dict[str, type[Any]] = {"poisson": Poisson, "fixed": FixedRate, "at": At, "burst": Burst}


# The rest of a file


@attrs.frozen(kw_only=True)
class Kind:
    """A kind of work."""

    name: str
    service: Service
    """How long it takes."""
    lease_seconds: float = attrs.field(default=60.0, validator=greater_than(0))
    """How long a silent worker keeps a task."""
    timeout_seconds: float | None = attrs.field(default=None, validator=or_none(greater_than(0)))
    """When an execution is cut off as failed; off unless given."""
    max_retries: int = attrs.field(default=3, validator=whole(0))
    """Executions after the first."""
    cost: float | None = attrs.field(default=None, validator=or_none(greater_than(0)))
    """The seconds that fairness charges; the running mean of the kind unless given."""

    def settings(self) -> KindSettings:
        """What the cores need to know of it."""
        return KindSettings(lease_seconds=self.lease_seconds, retry=RetryPolicy(max_retries=self.max_retries))


@attrs.frozen(kw_only=True)
class User:
    """A user and what it submits."""

    name: str = attrs.field()
    weight: float = attrs.field(default=1.0, validator=greater_than(0))
    """The part of the workers that is its due, relative to the others."""
    arrivals: tuple[Arrivals, ...] = ()

    @name.validator
    def _check(self, _: Any, name: str) -> None:
        if fault := user_name_fault(name):
            raise InvalidConfig(fault.replace("user", "name", 1))


@attrs.frozen(kw_only=True)
class Runtime:
    """The runtime under test."""

    workers: int = attrs.field(default=8, validator=whole(1))
    sharing: SharingPolicy = WeightedFair()
    ordering: OrderingPolicy = Aging()
    critical_burst: int | None = attrs.field(default=16, validator=or_none(whole(1)))
    admitted_max: int | None = attrs.field(default=None, validator=or_none(whole(0)))


@attrs.frozen(kw_only=True)
class Check:
    """Something a metric must not exceed or fall below."""

    name: str
    metric: str = attrs.field()
    user: str | None = None
    level: Priority | None = None
    at_most: float | None = None
    at_least: float | None = None

    @metric.validator
    def _check_metric(self, _: Any, metric: str) -> None:
        if metric not in METRICS:
            names = ", ".join(METRICS)
            raise InvalidConfig(f"metric must be one of {names}, got {metric!r}{suggestion(metric, list(METRICS))}")

    def __attrs_post_init__(self) -> None:
        if (self.at_most is None) == (self.at_least is None):
            raise InvalidConfig(f"check {self.name!r} must have either at_most or at_least")
        if any(limit is not None and math.isnan(limit) for limit in (self.at_most, self.at_least)):
            raise InvalidConfig(f"check {self.name!r} must have a limit that is a number, got nan")
        if self.user is not None and self.level is not None:
            raise InvalidConfig(f"check {self.name!r} must have a user or a level, not both")
        if self.metric == "jain" and (self.user is not None or self.level is not None):
            raise InvalidConfig(f"check {self.name!r} must be over all users: jain has no user or level")


@attrs.frozen(kw_only=True)
class Scenario:
    """A whole scenario.

    >>> kind = Kind(name="work", service=Fixed(seconds=1.0))
    >>> user = User(name="alice", arrivals=(Burst(kind="work", count=3),))
    >>> Scenario(name="demo", duration_seconds=10.0, kinds=(kind,), users=(user,)).seed
    0
    """

    name: str
    seed: int = attrs.field(default=0, validator=whole(0))
    duration_seconds: float = attrs.field(validator=greater_than(0))
    """When arrivals stop; the queue then drains."""
    warmup_seconds: float = attrs.field(default=0.0, validator=finite(0))
    """Waits of tasks that arrive before this are not measured."""
    runtime: Runtime = Runtime()
    kinds: tuple[Kind, ...] = attrs.field(metadata={"key": "kind"})
    users: tuple[User, ...] = attrs.field(metadata={"key": "user"})
    checks: tuple[Check, ...] = attrs.field(default=(), metadata={"key": "check"})

    def __attrs_post_init__(self) -> None:
        _refuse_repeated("kind", [kind.name for kind in self.kinds])
        _refuse_repeated("user", [user.name for user in self.users])
        kinds, users = [kind.name for kind in self.kinds], [user.name for user in self.users]
        for u, user in enumerate(self.users):
            for a, arrivals in enumerate(user.arrivals):
                _refuse_unknown(f"user[{u}].arrivals[{a}].kind", "kind", arrivals.kind, kinds)
        for c, check in enumerate(self.checks):
            if check.user is not None:
                _refuse_unknown(f"check[{c}].user", "user", check.user, users)

    def settings(self) -> Settings:
        """What the cores need to know."""
        return Settings(
            sharing=self.runtime.sharing,
            ordering=self.runtime.ordering,
            critical_burst=self.runtime.critical_burst,
            admitted_max=self.runtime.admitted_max,
            kinds={kind.name: kind.settings() for kind in self.kinds},
            weights={user.name: user.weight for user in self.users},
        )


def _refuse_repeated(what: str, names: list[str]) -> None:
    for number, name in enumerate(names):
        if name in names[:number]:
            raise InvalidConfig(f"{what}[{number}].name must not repeat, got {name!r} again")


def _refuse_unknown(path: str, what: str, name: str, known: list[str]) -> None:
    if name not in known:
        listed = ", ".join(known) or "none"
        raise InvalidConfig(
            f"{path} must name a {what} of this scenario ({listed}), got {name!r}{suggestion(name, known)}"
        )


# Reading a file


def _tagged(converter: Any, tag: str, classes: dict[str, type[Any]]) -> Any:
    """A hook for tables that say in one key which class they are."""

    def hook(value: Any, _: object) -> Any:
        if not isinstance(value, dict):
            raise InvalidConfig(f"must be a table with {tag!r}, got {value!r}")
        name = value.get(tag)
        if not isinstance(name, str) or name not in classes:
            hint = suggestion(str(name), list(classes))
            raise InvalidConfig(f"{tag} must be one of {', '.join(classes)}, got {name!r}{hint}")
        return converter.structure({key: item for key, item in value.items() if key != tag}, classes[name])

    return hook


def _make_converter() -> Any:
    converter = make_converter()
    converter.register_structure_hook(Service, _tagged(converter, "distribution", _SERVICES))
    converter.register_structure_hook(Arrivals, _tagged(converter, "process", _PROCESSES))
    return converter


_converter = _make_converter()


def parse_scenario(text: str) -> Scenario:
    """The scenario that this TOML text describes.

    >>> parse_scenario('name = "x"')
    Traceback (most recent call last):
    actors.errors.InvalidConfig: duration_seconds is missing
    """
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InvalidConfig(f"the file must be TOML: {error}") from None
    return structure(_converter, data, Scenario)


def load_scenario(path: str | Path) -> Scenario:
    """The scenario in this file; InvalidConfig names the file and every fault in it."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidConfig(f"{path}: must be a readable scenario file: {error}") from None
    try:
        return parse_scenario(text)
    except InvalidConfig as error:
        lines = "\n".join(f"{path}: {line}" for line in str(error).splitlines())
        raise InvalidConfig(lines) from None
