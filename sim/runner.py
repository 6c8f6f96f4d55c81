"""Runs a scenario: the runtime's own cores on virtual time, as a plain synchronous call.

When no message is under way the clock jumps to the next timer. Nothing depends on the machine: the same scenario, seed
and version give the same trace, byte for byte, in any process.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from typing import Any, BinaryIO, TypeVar

import attrs

from actors.actor import NEVER, Core, keyed_draw
from actors.config import Settings
from actors.errors import Livelock
from actors.explain import Explanation, explain_task
from actors.host import Gate, Host, Journal
from actors.messages import QUEUE, SCHEDULER, SHARD, SUPERVISOR, Address, WorkerClass, worker_address
from actors.policies import ORDERING, SHARING
from actors.policies.ordering import OrderingPolicy
from actors.policies.sharing import SharingPolicy
from actors.queue import Queue
from actors.scheduler import Scheduler
from actors.shard import Shard
from actors.supervisor import Supervisor
from actors.table import Notes, Table
from actors.trace import Event, Header, TraceWriter
from sim.invariants import Ledger, Observer, Violation
from sim.metrics import GroupMetrics, Metrics
from sim.operator import OPERATOR, Operator
from sim.scenario import Check, Scenario
from sim.worker import SimulatedWorker
from sim.workload import Source, source_address

__all__ = ["CheckResult", "Simulation", "SimulationResult", "installed_version", "simulate"]

C = TypeVar("C", bound=Core)

MESSAGES_PER_INSTANT_MAX = 1_000_000
"""Far more than any instant needs: sources submit at most a thousand tasks at once."""


@attrs.frozen(kw_only=True)
class CheckResult:
    """What became of one check."""

    name: str
    passed: bool
    """Whether what was measured kept to the limit."""
    value: float | None
    """What was measured; for an invariant, how often it was broken."""
    limit: float
    expect: str = "pass"
    """`fail` where the scenario shows something going wrong."""

    @property
    def as_expected(self) -> bool:
        """Whether it passed where it should, or failed where it should; what was not measured did neither."""
        return self.passed if self.expect == "pass" else not self.passed and self.value is not None


@attrs.frozen(kw_only=True)
class SimulationResult:
    """What a run came to."""

    scenario: str
    seed: int
    version: str
    sharing: str
    ordering: str
    verdict: str
    """`pass` or `fail`."""
    trace_sha256: str
    jobs: int
    """Tasks that ended."""
    virtual_seconds: float
    wall_seconds: float
    checks: tuple[CheckResult, ...]
    users: dict[str, GroupMetrics]
    levels: dict[str, GroupMetrics]
    overall: GroupMetrics
    jain: float | None
    stolen: int
    recovered: int
    zombies: int
    violations: tuple[Violation, ...]
    """The first invariants that were broken, with what happened."""
    table: Table = attrs.field(repr=False)
    """Every task as the run left it."""

    @property
    def passed(self) -> bool:
        """Whether every invariant and check held, but for the checks that were expected to fail, and those failed."""
        return self.verdict == "pass"

    def as_json(self) -> dict[str, Any]:
        """Everything but the table, as plain data."""
        return attrs.asdict(self, filter=attrs.filters.exclude("table"))


class Simulation:
    """A scenario being run, for those who want to reach in: `simulate` is the plain way.

    >>> from sim import Scenario, Kind, User, Burst, Fixed
    >>> kind = Kind(name="work", service=Fixed(seconds=1.0))
    >>> user = User(name="alice", arrivals=(Burst(kind="work", count=3),))
    >>> simulation = Simulation(Scenario(name="demo", duration_seconds=10.0, kinds=(kind,), users=(user,)))
    >>> simulation.run()
    >>> simulation.result().virtual_seconds
    1.0
    """

    def __init__(
        self,
        scenario: Scenario,
        *,
        observers: Sequence[Observer] = (),
        trace: BinaryIO | None = None,
        gate: Gate | None = None,
        journal: Journal | None = None,
    ) -> None:
        self.scenario = scenario
        self.table = Table()
        self._last_at = 0.0
        """When something last happened; timers of leases that ended early may come later."""
        self._settings = settings = scenario.settings()
        workers = {worker_address(number): found for number, found in enumerate(scenario.worker_classes(), start=1)}
        self.ledger = Ledger(settings, self.table, workers)
        weights = {user.name: user.weight for user in scenario.each_user()}
        self.metrics = Metrics(self.ledger, weights, scenario.warmup_seconds)
        self.writer = TraceWriter(trace, _header(scenario))
        self._observers: list[Observer] = [self.ledger, self.metrics, *observers]
        self.host = Host(self.table, keyed_draw(scenario.seed), observe=self._observing(), gate=gate, journal=journal)
        self._populate(settings, workers)

    def run(self, until: float = NEVER) -> None:
        """Drain, let the observers look, jump to the next timer; until there is none, or none by that time."""
        host = self.host
        while True:
            if not host.drain(MESSAGES_PER_INSTANT_MAX):
                raise Livelock(f"{MESSAGES_PER_INSTANT_MAX} messages at {host.now:g} s and no end")
            at = host.next_timer()
            if at > host.now:
                for observer in self._observers:
                    observer.on_quiet(host.now)
            if at == NEVER or at > until:
                return
            if at > host.now:
                host.now = at
            host.fire()

    def explain(self, task_id: str) -> Explanation:
        """Why a task is where it is now."""
        scheduler = self.host.core(SCHEDULER)
        assert isinstance(scheduler, Scheduler), "the scheduler is always there"
        return explain_task(task_id, self.table, scheduler, self._settings, self.host.now)

    def result(self, wall_seconds: float = 0.0) -> SimulationResult:
        """What the run came to so far."""
        checks = (*self._invariant_results(), *(self._check_result(check) for check in self.scenario.checks))
        runtime = self.scenario.runtime
        return SimulationResult(
            scenario=self.scenario.name,
            seed=self.scenario.seed,
            version=installed_version(),
            sharing=SHARING.name_of(runtime.sharing),
            ordering=ORDERING.name_of(runtime.ordering),
            verdict="pass" if all(check.as_expected for check in checks) else "fail",
            trace_sha256=self.writer.sha256(),
            jobs=self.metrics.jobs,
            virtual_seconds=self._last_at,
            wall_seconds=wall_seconds,
            checks=checks,
            users=self.metrics.users(),
            levels=self.metrics.levels(),
            overall=self.metrics.overall(),
            jain=self.metrics.jain(),
            stolen=self.metrics.overall().stolen,
            recovered=self.metrics.recovered,
            zombies=self.metrics.zombies,
            violations=tuple(self.ledger.violations),
            table=self.table,
        )

    def _observing(self) -> Callable[[Event], None]:
        write = self.writer.write
        handlers = [observer.on_event for observer in self._observers]

        def observe(event: Event) -> None:
            self._last_at = event.at
            write(event)
            for handler in handlers:
                handler(event)

        return observe

    def _populate(self, settings: Settings, workers: Mapping[Address, WorkerClass]) -> None:
        host, table, scenario = self.host, self.table, self.scenario
        kinds = {kind.name: kind for kind in scenario.kinds}

        def notes(address: Address) -> Notes:
            return Notes(address, table.notes(address))

        def worker(address: Address, worker_class: WorkerClass) -> Callable[[], SimulatedWorker]:
            return lambda: SimulatedWorker(address, worker_class, kinds, table, notes(address))

        host.on_demand(SHARD, lambda user: Shard(user, settings, table, notes(f"{SHARD}/{user}")))
        host.spawn(QUEUE, lambda: Queue(settings, notes(QUEUE), table))
        host.spawn(SCHEDULER, lambda: Scheduler(settings, table, notes(SCHEDULER)))
        host.spawn(SUPERVISOR, lambda: Supervisor(table))
        for address, worker_class in workers.items():
            host.spawn(address, worker(address, worker_class))
        # A source or operator that crashed carries on where it was: what it did is not done again.
        for user in scenario.each_user():
            if user.arrivals:
                host.spawn(source_address(user.name), partial(_same, Source(scenario, user)))
        if scenario.events:
            host.spawn(OPERATOR, partial(_same, Operator(scenario.events)))

    def _invariant_results(self) -> list[CheckResult]:
        return [
            CheckResult(name=name, passed=count == 0, value=count, limit=0)
            for name, count in self.ledger.counts.items()
        ]

    def _check_result(self, check: Check) -> CheckResult:
        value: float | None
        if check.metric == "jain":
            value = self.metrics.jain()
        elif check.metric == "unreachable":
            value = self.metrics.unreachable
        else:
            group = self.metrics.overall()
            if check.user is not None:
                group = self.metrics.users()[check.user]
            elif check.level is not None:
                group = self.metrics.levels()[check.level.name.lower()]
            value = getattr(group, check.metric)
        if check.at_most is not None:
            limit, passed = check.at_most, value is not None and value <= check.at_most
        else:
            assert check.at_least is not None, "a check has one limit"
            limit, passed = check.at_least, value is not None and value >= check.at_least
        return CheckResult(name=check.name, passed=passed, value=value, limit=limit, expect=check.expect)


def with_options(
    scenario: Scenario,
    *,
    seed: int | None = None,
    sharing: SharingPolicy | str | None = None,
    ordering: OrderingPolicy | str | None = None,
) -> Scenario:
    """The same scenario with another seed or policies, where they are given."""
    runtime = scenario.runtime
    if sharing is not None:
        runtime = attrs.evolve(runtime, sharing=SHARING.make(sharing))
    if ordering is not None:
        runtime = attrs.evolve(runtime, ordering=ORDERING.make(ordering))
    return attrs.evolve(scenario, runtime=runtime, seed=scenario.seed if seed is None else seed)


def simulate(
    scenario: Scenario,
    *,
    seed: int | None = None,
    sharing: SharingPolicy | str | None = None,
    ordering: OrderingPolicy | str | None = None,
    observers: Sequence[Observer] = (),
    trace: BinaryIO | None = None,
) -> SimulationResult:
    """Run a scenario on virtual time, with another seed or policies if given.

    >>> from sim import Scenario, Kind, User, Burst, Fixed
    >>> kind = Kind(name="work", service=Fixed(seconds=2.0))
    >>> user = User(name="alice", arrivals=(Burst(kind="work", count=9),))
    >>> result = simulate(Scenario(name="demo", duration_seconds=10.0, kinds=(kind,), users=(user,)))
    >>> result.verdict, result.jobs, result.virtual_seconds, result.users["alice"].wait_seconds_max
    ('pass', 9, 4.0, 2.0)
    """
    scenario = with_options(scenario, seed=seed, sharing=sharing, ordering=ordering)
    began = time.perf_counter()
    simulation = Simulation(scenario, observers=observers, trace=trace)
    simulation.run()
    return simulation.result(time.perf_counter() - began)


def _same(core: C) -> C:
    return core


def _header(scenario: Scenario) -> Header:
    runtime = scenario.runtime
    options = {
        "workers": runtime.workers,
        "sharing": SHARING.name_of(runtime.sharing),
        "ordering": ORDERING.name_of(runtime.ordering),
        "critical_burst": runtime.critical_burst,
        "admitted_max": runtime.admitted_max,
    }
    return Header(scenario=scenario.name, seed=scenario.seed, version=installed_version(), options=options)


def installed_version() -> str:
    """The version of Evenhand that is installed."""
    try:
        return version("evenhand")
    except PackageNotFoundError:
        return "uninstalled"
