"""What is seen of a run: every event through the invariants, the metrics and the trace, and what it all came to.

Both ways of simulating, cores and full, are seen through the same eyes.
"""

from collections.abc import Mapping, Sequence
from typing import Any, BinaryIO

import attrs

from actors.config import Settings
from actors.messages import Address, WorkerClass
from actors.policies import ORDERING, SHARING
from actors.table import Table
from actors.trace import Event, Header, TraceWriter
from actors.version import installed_version
from sim.crashes import NO_CRASH_OF_ITS_OWN, Crashes
from sim.injection import FaultCount
from sim.invariants import Ledger, Observer, Violation
from sim.liveness import EVERYTHING_ENDS, unended
from sim.metrics import GroupMetrics, Metrics
from sim.scenario import Check, Scenario

__all__ = ["CheckResult", "Observation", "SimulationResult"]


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
    faults: tuple[FaultCount, ...]
    """How often each fault of the scenario happened."""
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


class Observation:
    """Watches a run of a scenario."""

    def __init__(
        self,
        scenario: Scenario,
        settings: Settings,
        table: Table,
        workers: Mapping[Address, WorkerClass],
        observers: Sequence[Observer] = (),
        trace: BinaryIO | None = None,
    ) -> None:
        self._scenario = scenario
        self._table = table
        self._last_at = 0.0
        """When something last happened; timers of leases that ended early may come later."""
        self.ledger = Ledger(settings, table, workers)
        weights = {user.name: user.weight for user in scenario.each_user()}
        self.metrics = Metrics(self.ledger, weights, scenario.warmup_seconds)
        self._writer = TraceWriter(trace, _header(scenario))
        self._crashes = Crashes()
        self._observers: list[Observer] = [self.ledger, self.metrics, *observers]
        if scenario.faults:
            self._observers.append(self._crashes)
        self._handlers = [observer.on_event for observer in self._observers]

    def on_event(self, event: Event) -> None:
        """Something happened."""
        self._last_at = event.at
        self._writer.write(event)
        for handler in self._handlers:
            handler(event)

    def on_quiet(self, now: float) -> None:
        """Nothing is under way and time is about to move on."""
        for observer in self._observers:
            observer.on_quiet(now)

    def result(self, wall_seconds: float = 0.0, faults: tuple[FaultCount, ...] = ()) -> SimulationResult:
        """What the run came to so far, with these faults."""
        left = unended(self._table, self._last_at)
        liveness = CheckResult(name=EVERYTHING_ENDS, passed=not left, value=len(left), limit=0)
        crashes = self._crashes.violations
        own_crashes = CheckResult(name=NO_CRASH_OF_ITS_OWN, passed=not crashes, value=len(crashes), limit=0)
        checks = (
            *self._invariant_results(),
            *([own_crashes] if self._scenario.faults else []),
            *([liveness] if self._scenario.liveness else []),
            *_faults_that_must_fire(self._scenario, faults),
            *(self._check_result(check) for check in self._scenario.checks),
        )
        runtime = self._scenario.runtime
        return SimulationResult(
            scenario=self._scenario.name,
            seed=self._scenario.seed,
            version=installed_version(),
            sharing=SHARING.name_of(runtime.sharing),
            ordering=ORDERING.name_of(runtime.ordering),
            verdict="pass" if all(check.as_expected for check in checks) else "fail",
            trace_sha256=self._writer.sha256(),
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
            faults=faults,
            violations=(*self.ledger.violations, *crashes, *(left if self._scenario.liveness else ())),
            table=self._table,
        )

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


def _faults_that_must_fire(scenario: Scenario, faults: tuple[FaultCount, ...]) -> list[CheckResult]:
    """A scenario whose faults never happened shows nothing."""
    return [
        CheckResult(
            name=f"fault[{number}] {count.fault} fires",
            passed=count.fired >= fault.fires_min,
            value=count.fired,
            limit=fault.fires_min,
        )
        for number, (fault, count) in enumerate(zip(scenario.faults, faults, strict=True))
        if fault.fires_min
    ]


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
