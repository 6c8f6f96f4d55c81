"""A scenario: who submits what and when, how long it takes, who runs it, and what must come of it.

Frozen attrs classes, whose fields are the keys of a scenario file; reading.py makes them from one, and docs/scenarios.md
lists every key.
"""

from collections.abc import Iterator
from typing import Any

import attrs

from actors.config import KindSettings, Settings
from actors.errors import InvalidConfig
from actors.limits import Limit
from actors.messages import QUEUE, SCHEDULER, SUPERVISOR, Address, WorkerClass, shard_address, worker_address
from actors.policies import suggestion
from actors.policies.fair import WeightedFair
from actors.policies.ordering import Aging, OrderingPolicy
from actors.policies.sharing import SharingPolicy, follows_counts
from actors.policies.stealing import STEALING
from actors.retry import RetryPolicy
from actors.task import Cause, Priority
from actors.validators import (
    between,
    finite,
    greater_than,
    is_finite,
    one_of,
    or_none,
    printable,
    user_name_fault,
    whole,
)
from sim.faults import Fault, mistakes
from sim.interleaving import Interleaving
from sim.invariants import INVARIANTS
from sim.liveness import EVERYTHING_ENDS
from sim.operator import OPERATOR, AddWorkersEvent, RetireWorkersEvent, TimedEvent, retirement_faults
from sim.own_checks import load_function, load_observer
from sim.planted import PLANTED
from sim.pool import Workers
from sim.processes import Arrivals, Service
from sim.replay import Workload
from sim.storage import Storage

__all__ = [
    "GROUP_METRICS",
    "METRICS",
    "USER_METRICS",
    "WHOLE_METRICS",
    "Check",
    "Kind",
    "Retry",
    "Runtime",
    "Scenario",
    "User",
    "Workers",
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
class Retry:
    """When a failed execution is tried again: see `RetryPolicy`, whose defaults these are."""

    base_seconds: float = attrs.field(default=10.0, validator=finite(0))
    """After the first failure."""
    factor: float = attrs.field(default=2.0, validator=finite(1))
    """The delay grows by this with each failure."""
    max_seconds: float = attrs.field(default=21600.0, validator=finite(0))
    """At most."""
    jitter: float = attrs.field(default=0.2, validator=between(0, 1))
    """Up to this part more or less."""


@attrs.frozen(kw_only=True)
class Kind:
    """A kind of work."""

    name: str = attrs.field(validator=printable)
    """What arrivals and workers call it."""
    service: Service
    """How long it takes."""
    lease_seconds: float = attrs.field(default=60.0, validator=greater_than(0))
    """How long a silent worker keeps a task."""
    timeout_seconds: float | None = attrs.field(default=None, validator=or_none(greater_than(0)))
    """When an execution is cut off as failed; off unless given."""
    max_retries: int = attrs.field(default=3, validator=whole(0))
    """Executions after the first."""
    retry: Retry = Retry()
    """When they come."""
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
            retry=RetryPolicy(max_retries=self.max_retries, **attrs.asdict(self.retry)),
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
    """What it submits."""

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
class Runtime:
    """The runtime under test."""

    workers: int = attrs.field(default=8, validator=whole(1))
    """Workers that take anything from anybody, unless the scenario has `worker` tables."""
    sharing: SharingPolicy = WeightedFair()
    """Whose turn it is: a name, `module:Class`, or a table with `policy` and its options."""
    ordering: OrderingPolicy = Aging()
    """Which of a user's tasks is next: likewise."""
    critical_burst: int | None = attrs.field(default=16, validator=or_none(whole(1)))
    """Critical tasks started in a row while other work waits; `"none"`: any number."""
    poison_after: int = attrs.field(default=3, validator=whole(1))
    """Workers a task may take down before it is dead-lettered."""
    stealing: str = attrs.field(default="longest", validator=one_of(STEALING))
    """From whom a worker takes work when its own users have none: `none`, `listed`, `longest` or `random_two`."""
    rate_limit: float | None = attrs.field(default=None, validator=or_none(greater_than(0)))
    """Starts a second, over everything."""
    concurrency_max: int | None = attrs.field(default=None, validator=or_none(whole(0)))
    """Tasks at once, over everything."""
    admitted_max: int | None = attrs.field(default=None, validator=or_none(whole(0)))
    """Tasks admitted and not yet ended."""
    admitted_per_user_max: int | None = attrs.field(default=None, validator=or_none(whole(0)))
    """Of those, tasks of one user."""
    when_full: str = attrs.field(default="reject", validator=one_of(("reject", "wait", "drop_oldest")))
    """What becomes of a submit that finds no room: `reject`, `wait`, or `drop_oldest`, somebody's oldest task makes room."""
    admission_share: float | None = attrs.field(default=8.0, validator=or_none(greater_than(0)))
    """Where `admitted_max` is set: what a user may hold, as a multiple of the room still free; `"none"`: all of it."""
    store: Storage | None = None
    """What keeps its tasks; nothing is stored unless given: `store = {}` has the defaults."""
    planted: tuple[str, ...] = attrs.field(default=())
    """Mistakes to be made on purpose, to see that they are found."""

    @planted.validator
    def _check_planted(self, _: Any, planted: tuple[str, ...]) -> None:
        for name in planted:
            if name not in PLANTED:
                hint = suggestion(name, list(PLANTED))
                raise InvalidConfig(f"planted must be of {', '.join(PLANTED)}, got {name!r}{hint}")


@attrs.frozen(kw_only=True)
class Check:
    """Something that must come of the run: a metric within a limit, or what a function or observer of one's own says."""

    name: str
    """What the report calls it."""
    expect: str = attrs.field(default="pass", validator=one_of(("pass", "fail")))
    """`fail` in a scenario that shows something going wrong: it passes only if this check fails."""
    metric: str | None = attrs.field(default=None)
    """What is measured; either this, `function` or `observer`."""
    function: str | None = None
    """A function of one's own, `module:function`, that is called with the result."""
    observer: str | None = None
    """A class of one's own, `module:Class`, that watches the run and is then called with the result."""
    user: str | None = None
    """Of which user; over all unless given."""
    level: Priority | None = None
    """Of which level; over all unless given."""
    cause: str | None = attrs.field(default=None, validator=or_none(one_of(tuple(str(cause) for cause in Cause))))
    """For `dead_lettered`: only those that failed for this."""
    over_seconds: float | None = attrs.field(default=None, validator=or_none(finite(0)))
    """For `starved`: a wait that is longer counts."""
    at_most: float | None = None
    """What it must not exceed."""
    at_least: float | None = None
    """What it must not fall below."""

    @metric.validator
    def _check_metric(self, _: Any, metric: str | None) -> None:
        if metric is not None and metric not in METRICS:
            names = ", ".join(METRICS)
            raise InvalidConfig(f"metric must be one of {names}, got {metric!r}{suggestion(metric, list(METRICS))}")

    def __attrs_post_init__(self) -> None:
        ways = [way for way in (self.metric, self.function, self.observer) if way is not None]
        if not ways:
            raise InvalidConfig("metric is missing")
        if len(ways) > 1:
            raise InvalidConfig(f"check {self.name!r} must have one of metric, function and observer")
        self._check_limit()
        if self.metric is not None:
            self._check_scope(self.metric)
        elif self.user is not None or self.level is not None:
            raise InvalidConfig(f"check {self.name!r} must be over all users: its own code chooses what to look at")
        if self.function is not None:
            load_function(self.function)
        if self.observer is not None:
            load_observer(self.observer)

    def _check_limit(self) -> None:
        limits = [limit for limit in (self.at_most, self.at_least) if limit is not None]
        if len(limits) > 1 or (self.metric is not None and not limits):
            raise InvalidConfig(f"check {self.name!r} must have either at_most or at_least")
        for limit in limits:
            if not is_finite(limit):
                raise InvalidConfig(f"check {self.name!r} must have a limit that is a finite number, got {limit!r}")

    def _check_scope(self, metric: str) -> None:
        if metric in WHOLE_METRICS and (self.user is not None or self.level is not None):
            raise InvalidConfig(f"check {self.name!r} must be over all users: {metric} has no user or level")
        if metric in USER_METRICS and self.level is not None:
            raise InvalidConfig(f"check {self.name!r} must be over users: {metric} has no level")
        if self.cause is not None and metric != "dead_lettered":
            raise InvalidConfig(f"check {self.name!r} must have no cause: only dead_lettered has one")
        if (self.over_seconds is not None) != (metric == "starved"):
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
    """What the report calls it."""
    seed: int = attrs.field(default=0, validator=whole(0))
    """What every random number comes from."""
    duration_seconds: float = attrs.field(validator=greater_than(0))
    """When arrivals stop; the queue then drains. In a file with a workload: until its last job, unless given."""
    warmup_seconds: float = attrs.field(default=0.0, validator=finite(0))
    """Waits of tasks that arrive before this are not measured."""
    service_draws: str = attrs.field(default="task", validator=one_of(("task", "start")))
    """What a service time is drawn for: each `task`, or each `start`, the first to start taking the first time. Then
    every order that lets no worker idle has the same total wait."""
    interleaving: Interleaving | None = None
    """In which order messages are delivered that are under way together; as they were sent unless given."""
    runtime: Runtime = Runtime()
    """The runtime under test."""
    workload: Workload | None = None
    """Jobs from a file, beside what the users' own arrivals are."""
    kinds: tuple[Kind, ...] = attrs.field(metadata={"key": "kind"})
    """The kinds of work. A workload brings its own; a table here says how they are run."""
    users: tuple[User, ...] = attrs.field(metadata={"key": "user"})
    """Who submits. A workload brings its own; a table here gives them a weight, limits, or more work."""
    workers: tuple[Workers, ...] = attrs.field(default=(), metadata={"key": "worker"})
    """Who runs it, where that is not `runtime.workers` workers for everything."""
    events: tuple[TimedEvent, ...] = attrs.field(default=(), metadata={"key": "event"})
    """What an operator does on the way."""
    faults: tuple[Fault, ...] = attrs.field(default=(), metadata={"key": "fault"})
    """What goes wrong."""
    liveness: bool = False
    """Whether every fault has an end and everything must end after them; else the run is judged for safety alone."""
    checks: tuple[Check, ...] = attrs.field(default=(), metadata={"key": "check"})
    """What must come of it."""
    breaks: tuple[str, ...] = ()
    """Invariants by name, in a scenario that shows something going wrong: it passes only if these are broken, and no others."""

    def __attrs_post_init__(self) -> None:
        untimed_kinds = [kind.name for kind in self.kinds if kind.timeout_seconds is None]
        addresses = self.addresses() if self.faults else []
        faults = [*self._repeated_names(), *self._unknown_names()]
        faults += mistakes(self.faults, self.liveness, addresses, untimed_kinds, self.runtime.store is not None)
        known = [*INVARIANTS, EVERYTHING_ENDS]
        for number, name in enumerate(self.breaks):
            if name not in known:
                faults.append(f"breaks[{number}] must name an invariant, got {name!r}{suggestion(name, known)}")
        faults += retirement_faults(self.events, len(self.worker_classes()))
        if self.workload is not None and self.service_draws != "task":
            faults.append(
                f"service_draws must be 'task' where a workload says how long work takes, got {self.service_draws!r}"
            )
        if faults:
            raise InvalidConfig("\n".join(faults))

    def _repeated_names(self) -> Iterator[str]:
        yield from _repeated("kind", [[kind.name] for kind in self.kinds])
        yield from _repeated("user", [[single.name for single in user.each()] for user in self.users])

    def _unknown_names(self) -> Iterator[str]:
        users, kinds = [user.name for user in self.each_user()], [kind.name for kind in self.each_kind()]
        for u, user in enumerate(self.users):
            for a, arrivals in enumerate(user.arrivals):
                yield from _unknown(f"user[{u}].arrivals[{a}].kind", "kind", arrivals.kind, kinds)
        for w, workers in enumerate(self.workers):
            for k, kind in enumerate(workers.kinds or ()):
                yield from _unknown(f"worker[{w}].kinds[{k}]", "kind", kind, kinds)
        for e, event in enumerate(self.events):
            if isinstance(event, AddWorkersEvent):
                for k, kind in enumerate(event.kinds or ()):
                    yield from _unknown(f"event[{e}].kinds[{k}]", "kind", kind, kinds)
            elif not isinstance(event, RetireWorkersEvent):
                yield from _unknown(f"event[{e}].kind", "kind", event.kind, kinds)
                yield from _unknown(f"event[{e}].user", "user", event.user, users)
        for f, fault in enumerate(self.faults):
            yield from _unknown(f"fault[{f}].kind", "kind", getattr(fault, "kind", None), kinds)
            yield from _unknown(f"fault[{f}].user", "user", getattr(fault, "user", None), users)
        for c, check in enumerate(self.checks):
            yield from _unknown(f"check[{c}].user", "user", check.user, users)

    def each_user(self) -> list[User]:
        """Every single user, those of the workload included."""
        singles = [single for user in self.users for single in user.each()]
        known = {user.name for user in singles}
        recorded = () if self.workload is None else self.workload.users
        return [*singles, *(User(name=name) for name in recorded if name not in known)]

    def each_kind(self) -> list[Kind]:
        """Every kind, those of the workload included."""
        if self.workload is None:
            return list(self.kinds)
        known = {kind.name for kind in self.kinds}
        lease_seconds = self.workload.lease_seconds
        return [
            *self.kinds,
            *(
                Kind(name=name, service=service, lease_seconds=lease_seconds)
                for name, service in self.workload.services.items()
                if name not in known
            ),
        ]

    def addresses(self) -> list[Address]:
        """Every actor that there may be, but those that submit."""
        shards = [shard_address(user.name) for user in self.each_user()]
        workers = [worker_address(number) for number in range(1, len(self.worker_classes()) + 1)]
        return [QUEUE, SCHEDULER, SUPERVISOR, OPERATOR, *shards, *workers]

    def worker_classes(self) -> list[WorkerClass]:
        """What each worker can take that is there at the beginning, in the order of their numbers."""
        every = [kind.name for kind in self.each_kind()]
        tables = self.workers or (Workers(count=self.runtime.workers),)
        return [table.worker_class(every) for table in tables for _ in range(table.count)]

    def _classes_ever(self) -> list[WorkerClass]:
        every = [kind.name for kind in self.each_kind()]
        added = [event.worker_class(every) for event in self.events if isinstance(event, AddWorkersEvent)]
        return [*self.worker_classes(), *added]

    def settings(self) -> Settings:
        """What the cores need to know."""
        return Settings(
            sharing=self.runtime.sharing,
            ordering=self.runtime.ordering,
            critical_burst=self.runtime.critical_burst,
            poison_after=self.runtime.poison_after,
            stealing=self.runtime.stealing,
            follows_counts=follows_counts(self.runtime.sharing, self._classes_ever(), self.runtime.stealing),
            limit=Limit(self.runtime.rate_limit, self.runtime.concurrency_max),
            admitted_max=self.runtime.admitted_max,
            admitted_per_user_max=self.runtime.admitted_per_user_max,
            when_full=self.runtime.when_full,
            admission_share=self.runtime.admission_share,
            # A run is over when its tasks are, not when they are swept; and a result shows every task.
            keep_completed_seconds=None,
            keep_failed_seconds=None,
            keep_cancelled_seconds=None,
            kinds={kind.name: kind.settings() for kind in self.each_kind()},
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
