"""What is seen of a run: every event through the invariants, the metrics and the trace, and what it all came to.

Both ways of simulating, cores and full, are seen through the same eyes.
"""

from collections.abc import Mapping, Sequence
from typing import Any, BinaryIO

import attrs

from actors.config import Settings
from actors.host import Host
from actors.messages import Address, WorkerClass
from actors.policies import ORDERING, SHARING
from actors.table import Table
from actors.trace import Event, Header, TraceWriter
from actors.version import installed_version
from actors.wiring import TREE
from sim.groups import GroupMetrics
from sim.invariants import Ledger, Observer, Violation
from sim.metrics import Metrics, Summary
from sim.overtaken import Overtaken
from sim.pairs import PairLag
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
        asked = {check.metric for check in scenario.checks}
        self._pairs = PairLag(settings, workers) if "service_lag" in asked else None
        judges = () if self._pairs is None else (self._pairs,)
        self.ledger = Ledger(settings, table, workers, supervision=TREE, retried_by_kind=True, judges=judges)
        self._overtaken = Overtaken(self.ledger) if "overtaken_max" in asked else None
        weights = {user.name: user.weight for user in scenario.each_user()}
        self.metrics = Metrics(self.ledger, weights, scenario.warmup_seconds)
        self._host: Host | None = None
        self._writer = TraceWriter(trace, _header(scenario))
        on_request = () if self._overtaken is None else (self._overtaken,)
        self._observers: list[Observer] = [self.ledger, self.metrics, *on_request, *observers]
        self._handlers = [self._writer.write, *(observer.on_event for observer in self._observers)]

    def follow(self, host: Host) -> None:
        """This is the host on which it happens."""
        self._host = host

    def on_event(self, event: Event) -> None:
        """Something happened."""
        self._last_at = event.at
        for handler in self._handlers:
            handler(event)

    def on_quiet(self, now: float) -> None:
        """Nothing is under way and time is about to move on."""
        for observer in self._observers:
            observer.on_quiet(now)

    def on_end(self, now: float) -> None:
        """Nothing will ever happen again."""
        self.ledger.on_end(now)

    def result(self, wall_seconds: float = 0.0) -> SimulationResult:
        """What the run came to so far."""
        summary = self.metrics.summary()
        asked = (self._check_result(check, summary) for check in self._scenario.checks)
        checks = (*self._invariant_results(), *asked)
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
            users=summary.users(),
            levels=summary.levels(),
            overall=summary.group(),
            jain=self.metrics.jain(),
            stolen=summary.group().stolen,
            recovered=summary.group().recovered,
            zombies=self.metrics.zombies,
            violations=tuple(self.ledger.violations),
            table=self._table,
        )

    def _invariant_results(self) -> list[CheckResult]:
        return [
            CheckResult(name=name, passed=count == 0, value=count, limit=0)
            for name, count in self.ledger.counts.items()
        ]

    def _check_result(self, check: Check, summary: Summary) -> CheckResult:
        value = self._measured(check, summary)
        if check.at_most is not None:
            limit, passed = check.at_most, value is not None and value <= check.at_most
        else:
            assert check.at_least is not None, "a check has one limit"
            limit, passed = check.at_least, value is not None and value >= check.at_least
        return CheckResult(name=check.name, passed=passed, value=value, limit=limit, expect=check.expect)

    def _measured(self, check: Check, summary: Summary) -> float | None:
        metrics, user, level = self.metrics, check.user, check.level
        match check.metric:
            case "jain":
                return metrics.jain()
            case "unreachable":
                return metrics.unreachable
            case "service_lag":
                return None if self._pairs is None else self._pairs.worst
            case "mailbox_max":
                return None if self._host is None else self._host.mailbox_peak
            case "backlog_max":
                return metrics.backlog_max(user)
            case "overtaken_max":
                return None if self._overtaken is None else self._overtaken.most(user, level)
            case "starved":
                return metrics.starved(check.over_seconds or 0.0, user, level)
            case "dead_lettered" if check.cause is not None:
                return summary.dead_lettered(check.cause, user, level)
        value: float | None = getattr(summary.group(user, level), check.metric)
        return value


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
