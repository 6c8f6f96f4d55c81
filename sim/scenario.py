"""A scenario: who submits what and when, how long it takes, who runs it, and what must come of it.

Read from a TOML file into frozen attrs classes. Every unknown key and every bad value is refused with the path of the
key, the constraint and the value.
"""

import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs

from actors.config import Faults, KindSettings, Settings, make_converter, structure
from actors.errors import InvalidConfig
from actors.limits import Limit
from actors.messages import WorkerClass
from actors.policies import suggestion
from actors.policies.fair import WeightedFair
from actors.policies.ordering import Aging, OrderingPolicy
from actors.policies.sharing import SharingPolicy, follows_counts
from actors.policies.stealing import STEALING
from actors.retry import RetryPolicy
from actors.task import Cause, Priority
from actors.validators import finite, greater_than, is_finite, one_of, or_none, printable, user_name_fault, whole
from sim.operator import ACTIONS, TimedEvent
from sim.processes import PROCESSES, SERVICES, Arrivals, Service

__all__ = [
    "GROUP_METRICS",
    "METRICS",
    "USER_METRICS",
    "WHOLE_METRICS",
    "Check",
    "Kind",
    "Runtime",
    "Scenario",
    "User",
    "Workers",
    "load_scenario",
    "parse_scenario",
]

GROUP_METRICS = (
    "completed",
    "throughput",
    "wait_seconds_mean",
    "wait_seconds_p50",
    "wait_seconds_p99",
    "wait_seconds_max",
    "slowdown_mean",
    "slowdown_p99",
    "starved",
    "overtaken_max",
    "service_seconds",
    "share",
    "expired",
    "stolen",
    "retried",
    "recovered",
    "recovery_seconds_max",
    "zombies",
    "dead_lettered",
    "cancelled",
)
"""What a check can be about for a user, a level, both or everybody."""
USER_METRICS = ("refused", "backlog_max")
"""What it can be about for a user or everybody."""
WHOLE_METRICS = ("jain", "service_lag", "unreachable", "mailbox_max")
"""What it can be about only for the whole run."""
METRICS = (*GROUP_METRICS, *USER_METRICS, *WHOLE_METRICS)
"""What a check can be about."""


@attrs.frozen(kw_only=True)
class Kind:
    """A kind of work."""

    name: str = attrs.field(validator=printable)
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
    rate_limit: float | None = attrs.field(default=None, validator=or_none(greater_than(0)))
    """Starts a second."""
    concurrency_max: int | None = attrs.field(default=None, validator=or_none(whole(0)))
    """Tasks at once."""

    def settings(self) -> KindSettings:
        """What the cores need to know of it."""
        return KindSettings(
            lease_seconds=self.lease_seconds,
            timeout_seconds=self.timeout_seconds,
            retry=RetryPolicy(max_retries=self.max_retries),
            limit=Limit(self.rate_limit, self.concurrency_max),
        )


@attrs.frozen(kw_only=True)
class User:
    """A user and what it submits; or many alike; or, without arrivals, a name above users that has a weight.

    >>> [user.name for user in User(name="mallory/{n}", count=3).each()]
    ['mallory/1', 'mallory/2', 'mallory/3']
    """

    name: str = attrs.field()
    """With `{n}` in it where there are many."""
    count: int = attrs.field(default=1, validator=whole(1))
    """How many there are."""
    weight: float = attrs.field(default=1.0, validator=greater_than(0))
    """The part of the workers that is its due, relative to the others."""
    rate_limit: float | None = attrs.field(default=None, validator=or_none(greater_than(0)))
    """Starts a second."""
    concurrency_max: int | None = attrs.field(default=None, validator=or_none(whole(0)))
    """Tasks at once."""
    arrivals: tuple[Arrivals, ...] = ()

    def __attrs_post_init__(self) -> None:
        if self.count > 1 and "{n}" not in self.name:
            raise InvalidConfig(f"name must have {{n}} in it where count is above 1, got {self.name!r}")
        if fault := user_name_fault(self.name.replace("{n}", str(self.count))):
            raise InvalidConfig(fault.replace("user", "name", 1))

    def each(self) -> "list[User]":
        """The single users that this stands for."""
        if self.count == 1:
            return [self]
        return [attrs.evolve(self, name=self.name.replace("{n}", str(n)), count=1) for n in range(1, self.count + 1)]


@attrs.frozen(kw_only=True)
class Workers:
    """Workers that are alike."""

    count: int = attrs.field(default=1, validator=whole(1))
    kinds: tuple[str, ...] | None = None
    """What they can run; every kind unless given."""
    users: tuple[str, ...] | None = None
    """Their own users, names or globs; everybody unless given."""
    steals: tuple[str, ...] = ()
    """Whom they may steal from when their own have nothing."""


@attrs.frozen(kw_only=True)
class Runtime:
    """The runtime under test."""

    workers: int = attrs.field(default=8, validator=whole(1))
    """Workers that take anything from anybody, unless the scenario has `worker` tables."""
    sharing: SharingPolicy = WeightedFair()
    ordering: OrderingPolicy = Aging()
    critical_burst: int | None = attrs.field(default=16, validator=or_none(whole(1)))
    stealing: str = attrs.field(default="longest", validator=one_of(STEALING))
    rate_limit: float | None = attrs.field(default=None, validator=or_none(greater_than(0)))
    """Starts a second, over everything."""
    concurrency_max: int | None = attrs.field(default=None, validator=or_none(whole(0)))
    """Tasks at once, over everything."""
    admitted_max: int | None = attrs.field(default=None, validator=or_none(whole(0)))
    admitted_per_user_max: int | None = attrs.field(default=None, validator=or_none(whole(0)))
    when_full: str = attrs.field(default="reject", validator=one_of(("reject", "wait", "drop_oldest")))
    admission_share: float | None = attrs.field(default=8.0, validator=or_none(greater_than(0)))


@attrs.frozen(kw_only=True)
class Check:
    """Something a metric must not exceed or fall below."""

    name: str
    expect: str = attrs.field(default="pass", validator=one_of(("pass", "fail")))
    """`fail` in a scenario that shows something going wrong: it passes only if this check fails."""
    metric: str = attrs.field()
    user: str | None = None
    level: Priority | None = None
    cause: str | None = attrs.field(default=None, validator=or_none(one_of(tuple(str(cause) for cause in Cause))))
    """For `dead_lettered`: only those that failed for this."""
    over_seconds: float | None = attrs.field(default=None, validator=or_none(finite(0)))
    """For `starved`: a wait that is longer counts."""
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
        limit = self.at_least if self.at_most is None else self.at_most
        if not is_finite(limit):
            raise InvalidConfig(f"check {self.name!r} must have a limit that is a finite number, got {limit!r}")
        if self.metric in WHOLE_METRICS and (self.user is not None or self.level is not None):
            raise InvalidConfig(f"check {self.name!r} must be over all users: {self.metric} has no user or level")
        if self.metric in USER_METRICS and self.level is not None:
            raise InvalidConfig(f"check {self.name!r} must be over users: {self.metric} has no level")
        if self.cause is not None and self.metric != "dead_lettered":
            raise InvalidConfig(f"check {self.name!r} must have no cause: only dead_lettered has one")
        if (self.over_seconds is not None) != (self.metric == "starved"):
            raise InvalidConfig(f"check {self.name!r} must have over_seconds if its metric is starved, and only then")


@attrs.frozen(kw_only=True)
class Scenario:
    """A whole scenario.

    >>> from sim import Burst, Fixed
    >>> kind = Kind(name="work", service=Fixed(seconds=1.0))
    >>> user = User(name="alice", arrivals=(Burst(kind="work", count=3),))
    >>> Scenario(name="demo", duration_seconds=10.0, kinds=(kind,), users=(user,)).seed
    0
    """

    name: str = attrs.field(validator=printable)
    seed: int = attrs.field(default=0, validator=whole(0))
    duration_seconds: float = attrs.field(validator=greater_than(0))
    """When arrivals stop; the queue then drains."""
    warmup_seconds: float = attrs.field(default=0.0, validator=finite(0))
    """Waits of tasks that arrive before this are not measured."""
    runtime: Runtime = Runtime()
    kinds: tuple[Kind, ...] = attrs.field(metadata={"key": "kind"})
    users: tuple[User, ...] = attrs.field(metadata={"key": "user"})
    workers: tuple[Workers, ...] = attrs.field(default=(), metadata={"key": "worker"})
    """Who runs it, where that is not `runtime.workers` workers for everything."""
    events: tuple[TimedEvent, ...] = attrs.field(default=(), metadata={"key": "event"})
    """What an operator does on the way."""
    checks: tuple[Check, ...] = attrs.field(default=(), metadata={"key": "check"})

    def __attrs_post_init__(self) -> None:
        if faults := [*self._repeated_names(), *self._unknown_names()]:
            raise InvalidConfig("\n".join(faults))

    def _repeated_names(self) -> Iterator[str]:
        yield from _repeated("kind", [[kind.name] for kind in self.kinds])
        yield from _repeated("user", [[single.name for single in user.each()] for user in self.users])

    def _unknown_names(self) -> Iterator[str]:
        users, kinds = [user.name for user in self.each_user()], [kind.name for kind in self.kinds]
        for u, user in enumerate(self.users):
            for a, arrivals in enumerate(user.arrivals):
                yield from _unknown(f"user[{u}].arrivals[{a}].kind", "kind", arrivals.kind, kinds)
        for w, workers in enumerate(self.workers):
            for k, kind in enumerate(workers.kinds or ()):
                yield from _unknown(f"worker[{w}].kinds[{k}]", "kind", kind, kinds)
        for e, event in enumerate(self.events):
            yield from _unknown(f"event[{e}].kind", "kind", event.kind, kinds)
            yield from _unknown(f"event[{e}].user", "user", event.user, users)
        for c, check in enumerate(self.checks):
            yield from _unknown(f"check[{c}].user", "user", check.user, users)

    def each_user(self) -> list[User]:
        """Every single user."""
        return [single for user in self.users for single in user.each()]

    def worker_classes(self) -> list[WorkerClass]:
        """What each worker can take, in the order of their numbers."""
        every = tuple(kind.name for kind in self.kinds)
        if not self.workers:
            return [WorkerClass(frozenset(every))] * self.runtime.workers
        return [
            WorkerClass(frozenset(every if table.kinds is None else table.kinds), table.users, table.steals)
            for table in self.workers
            for _ in range(table.count)
        ]

    def settings(self) -> Settings:
        """What the cores need to know."""
        return Settings(
            sharing=self.runtime.sharing,
            ordering=self.runtime.ordering,
            critical_burst=self.runtime.critical_burst,
            stealing=self.runtime.stealing,
            follows_counts=follows_counts(self.runtime.sharing, self.worker_classes(), self.runtime.stealing),
            limit=Limit(self.runtime.rate_limit, self.runtime.concurrency_max),
            admitted_max=self.runtime.admitted_max,
            admitted_per_user_max=self.runtime.admitted_per_user_max,
            when_full=self.runtime.when_full,
            admission_share=self.runtime.admission_share,
            # A run is over when its tasks are, not when they are swept; and a result shows every task.
            keep_completed_seconds=None,
            keep_failed_seconds=None,
            keep_cancelled_seconds=None,
            kinds={kind.name: kind.settings() for kind in self.kinds},
            weights={user.name: user.weight for user in self.each_user()},
            user_limits={
                user.name: limit
                for user in self.each_user()
                if (limit := Limit(user.rate_limit, user.concurrency_max)).holds
            },
        )


def _repeated(what: str, tables: list[list[str]]) -> Iterator[str]:
    """A fault for each table of the file that stands for a name which another one before it stands for."""
    known: set[str] = set()
    for number, names in enumerate(tables):
        if again := [name for name in names if name in known]:
            yield f"{what}[{number}].name must not repeat, got {again[0]!r} again"
        known.update(names)


def _unknown(path: str, what: str, name: str | None, known: list[str]) -> Iterator[str]:
    if name is not None and name not in known:
        listed = ", ".join(known) or "none"
        yield f"{path} must name a {what} of this scenario ({listed}), got {name!r}{suggestion(name, known)}"


# Reading a file


def _tagged(converter: Any, tag: str, classes: dict[str, type[Any]]) -> Any:
    """A hook for tables that say in one key which class they are."""

    def hook(value: Any, _: object) -> Any:
        if not isinstance(value, dict):
            raise Faults(f" must be a table with {tag!r}, got {value!r}")
        if tag not in value:
            raise Faults(f".{tag} is missing")
        name = value[tag]
        if not isinstance(name, str) or name not in classes:
            hint = suggestion(str(name), list(classes))
            raise Faults(f".{tag} must be one of {', '.join(classes)}, got {name!r}{hint}")
        return converter.structure({key: item for key, item in value.items() if key != tag}, classes[name])

    return hook


def _make_converter() -> Any:
    converter = make_converter()
    converter.register_structure_hook(Service, _tagged(converter, "distribution", SERVICES))
    converter.register_structure_hook(Arrivals, _tagged(converter, "process", PROCESSES))
    converter.register_structure_hook(TimedEvent, _tagged(converter, "action", ACTIONS))
    return converter


_converter = _make_converter()


def parse_scenario(text: str) -> Scenario:
    """The scenario that this TOML text describes.

    >>> parse_scenario('name = "x"')
    Traceback (most recent call last):
    actors.errors.InvalidConfig: duration_seconds is missing
    kind is missing
    user is missing
    """
    try:
        data = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        # A number of thousands of digits and lists in lists without end are beyond the parser, which says so in its way.
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
        lines = "\n".join(f"{path}: {line}" for line in str(error).split("\n"))
        raise InvalidConfig(lines) from None
