"""What is seen of a run: every event through the invariants, the metrics and the trace, and what it all came to.

Both ways of simulating, cores and full, are seen through the same eyes.
"""

from collections.abc import Callable, Sequence
from typing import Any, BinaryIO

import attrs

from actors.config import Settings
from actors.host import Host
from actors.policies import ORDERING, SHARING
from actors.table import Table
from actors.trace import Event, Restored, TraceWriter
from actors.version import installed_version
from actors.wiring import TREE
from sim.crashes import NO_CRASH_OF_ITS_OWN, Crashes
from sim.groups import GroupMetrics
from sim.header import header_of
from sim.injection import FaultCount
from sim.interleaving import interleaving_in_words
from sim.invariants import Ledger, Observer, Violation
from sim.lag import virtual_time
from sim.liveness import EVERYTHING_ENDS, unended
from sim.metrics import Metrics, Summary
from sim.overtaken import Overtaken
from sim.own_checks import ask, judge, load_function, load_observer
from sim.pairs import PairLag
from sim.pool import Pool
from sim.scenario import Check, Scenario
from sim.turns import TurnLog
from sim.undone import Refolded

__all__ = ["CheckResult", "Observation", "SimulationResult"]

_BATCH = 512
"""So many events are encoded and hashed at a time, because a call each costs more."""


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
    said: str = ""
    """What a check of one's own has to say, if it failed by an assertion."""

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
    interleaving: str
    """In which order messages were delivered that were under way together."""
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
    commits: int
    """How many batches were made safe; 0 without a store."""
    restarts: int
    """How often the process ended and began again with what its store had."""
    violations: tuple[Violation, ...]
    """The first invariants that were broken, with what happened."""
    table: Table = attrs.field(repr=False)
    """Every task as the run left it."""
    turns: TurnLog = attrs.field(repr=False)
    """Who was given how much and who was waiting for it: what `assert_fair` reads."""

    @property
    def passed(self) -> bool:
        """Whether every invariant and check held, but for the checks that were expected to fail, and those failed."""
        return self.verdict == "pass"

    def as_json(self) -> dict[str, Any]:
        """Everything but the table and the log of turns, as plain data."""
        return attrs.asdict(self, filter=attrs.filters.exclude("table", "turns"))


class Observation:
    """Watches a run of a scenario."""

    def __init__(
        self,
        scenario: Scenario,
        settings: Settings,
        table: Table,
        pool: Pool,
        observers: Sequence[Observer] = (),
        trace: BinaryIO | None = None,
    ) -> None:
        self._scenario = scenario
        self._settings = settings
        self._pool = pool
        self._table = table
        self._host: Host | None = None
        self._writer = TraceWriter(trace, header_of(scenario))
        self._crashes = Crashes()
        self._others = observers
        self._unwritten: list[Event] = []
        self._log: list[Event | float] | None = None if scenario.runtime.store is None else []
        """Every event that was not undone, and the quiet instants between them: only a process that ends is begun anew."""
        self.restarts = 0
        """How often that was."""
        self._watch()
        self.on_event = self._hearing() if self._log is None else self._on_event
        """Something happened."""

    def _watch(self) -> None:
        """Begin to look, at what the table holds now."""
        scenario, settings, pool = self._scenario, self._settings, self._pool
        asked = {check.metric for check in scenario.checks}
        self._pairs = PairLag(settings, pool.classes) if "service_lag" in asked else None
        kinds_of = {user.name: frozenset(found.kind for found in user.arrivals) for user in scenario.each_user()}
        self.turns = TurnLog(settings, pool.classes, kinds_of)
        self._judges = (self.turns,) if self._pairs is None else (self.turns, self._pairs)
        weights = {user.name: user.weight for user in scenario.each_user()}
        self.ledger = Ledger(
            settings,
            self._table,
            pool.classes,
            supervision=TREE,
            retried_by_kind=scenario.workload is None,
            is_shared=len(weights) > 1,
            judges=self._judges,
        )
        self._overtaken = Overtaken(self.ledger) if "overtaken_max" in asked else None
        self.metrics = Metrics(self.ledger, weights, scenario.warmup_seconds)
        self._own = {check: load_observer(check.observer)() for check in scenario.checks if check.observer}
        """The observers of checks of one's own."""
        self._folding: list[Observer] = [*([] if self._overtaken is None else [self._overtaken]), *self._own.values()]
        """Whoever reads nothing but events and the ledger, which comes before them."""
        on_request: list[Observer] = [self._crashes] if scenario.faults else []
        self._hearers: list[Observer] = [*self._folding, *on_request, *self._others]
        self._observers: list[Ledger | Metrics | Observer] = [self.ledger, self.metrics, *self._hearers]

    def follow(self, host: Host) -> None:
        """This is the host on which it happens."""
        self._host = host

    def _hearing(self) -> Callable[[Event], None]:
        """What is called for each event where nothing is ever undone: one function, because all that happens passes here."""
        keep, judge, measures = self._unwritten.append, self.ledger.on_event, self.metrics.handlers
        others = [observer.on_event for observer in self._hearers]

        def on_event(event: Event) -> None:
            keep(event)
            judge(event)
            measure = measures.get(type(event))
            if measure is not None:
                measure(event)
            if others:
                for other in others:
                    other(event)

        return on_event

    def _on_event(self, event: Event) -> None:
        """The same where a process may end, and others look on afterwards."""
        assert self._log is not None, "only with a store"
        self._unwritten.append(event)
        self._tell(event, self._hearers)
        self._log.append(event)

    def _tell(self, event: Event, observers: Sequence[Observer]) -> None:
        self.ledger.on_event(event)
        if (measure := self.metrics.handlers.get(type(event))) is not None:
            measure(event)
        for observer in observers:
            observer.on_event(event)

    def on_quiet(self, now: float) -> None:
        """Nothing is under way and time is about to move on."""
        if self._log is not None:
            self._log.append(now)
        for observer in self._observers:
            observer.on_quiet(now)
        if len(self._unwritten) >= _BATCH:
            self._write()

    def _write(self) -> None:
        self._writer.write_all(self._unwritten)
        self._unwritten.clear()
        self.turns.pack()

    # Processes that end and begin again

    def mark(self) -> tuple[int, float]:
        """What the run has come to: how much of the log there is, and the virtual time."""
        assert self._log is not None, "only with a store"
        return len(self._log), virtual_time(self._table)

    def restore(self, table: Table, mark: tuple[int, float] | None, stored_at: float, resumed_at: float) -> None:
        """The process begins again with this table: what came after the mark is undone, and all is folded anew."""
        assert self._log is not None, "only with a store"
        length, virtual = mark or (0, 0.0)
        log, before, self._log, self._table = self._log[:length], self.ledger, [], table
        restored = Restored(stored_at, sum(not isinstance(item, float) for item in log), resumed_at)
        for observer in (others := [observer for observer in self._others if isinstance(observer, Refolded)]):
            observer.start_over()
        self._watch()
        for item in (log := [*log, restored]):
            self._fold(item, [*self._folding, *others])
        self._log += log
        self._unwritten.append(restored)
        self.restarts += 1
        self.ledger.begin_life(before, stored_at, virtual)

    def _fold(self, item: Event | float, observers: Sequence[Observer]) -> None:
        if not isinstance(item, float):
            self._tell(item, observers)
            return
        self.ledger.fold_quiet(item)
        for observer in (*self._judges, self.metrics, *observers):
            observer.on_quiet(item)

    def check_shards(self, host: Host) -> None:
        """The cores were built anew from what the store gave back."""
        self.ledger.check_shards(host, self._settings.when_full == "drop_oldest")

    def on_end(self, now: float) -> None:
        """Nothing will ever happen again."""
        self.ledger.on_end(now)

    def result(
        self, wall_seconds: float = 0.0, faults: tuple[FaultCount, ...] = (), commits: int = 0
    ) -> SimulationResult:
        """What the run came to so far, with these faults and so many commits."""
        self._write()
        summary = self.metrics.summary()
        own = [check for check in self._scenario.checks if check.metric is None]
        checks = (
            *self._invariant_results(),
            *self._crash_results(),
            *self._liveness_results(),
            *_faults_that_must_fire(self._scenario, faults),
            *(self._check_result(check, summary) for check in self._scenario.checks if check.metric is not None),
        )
        result = self._result(checks, summary, wall_seconds, faults, commits)
        if not own:
            return result
        checks = (*checks, *(self._own_result(check, result) for check in own))
        return self._result(checks, summary, wall_seconds, faults, commits)

    def _left(self) -> list[Violation]:
        """What had to end and did not."""
        return unended(self._table, self.ledger.last_at) if self._scenario.liveness else []

    def _crash_results(self) -> list[CheckResult]:
        if not self._scenario.faults:
            return []
        crashes = len(self._crashes.violations)
        return [CheckResult(name=NO_CRASH_OF_ITS_OWN, passed=not crashes, value=crashes, limit=0)]

    def _liveness_results(self) -> list[CheckResult]:
        if not self._scenario.liveness:
            return []
        left = len(self._left())
        expect = self._expected(EVERYTHING_ENDS)
        return [CheckResult(name=EVERYTHING_ENDS, passed=not left, value=left, limit=0, expect=expect)]

    def _expected(self, invariant: str) -> str:
        return "fail" if invariant in self._scenario.breaks else "pass"

    def _result(
        self,
        checks: tuple[CheckResult, ...],
        summary: Summary,
        wall_seconds: float,
        faults: tuple[FaultCount, ...],
        commits: int,
    ) -> SimulationResult:
        runtime = self._scenario.runtime
        return SimulationResult(
            scenario=self._scenario.name,
            seed=self._scenario.seed,
            version=installed_version(),
            sharing=SHARING.name_of(runtime.sharing),
            ordering=ORDERING.name_of(runtime.ordering),
            interleaving=interleaving_in_words(self._scenario.interleaving),
            verdict="pass" if all(check.as_expected for check in checks) else "fail",
            trace_sha256=self._writer.sha256(),
            jobs=self.metrics.jobs,
            virtual_seconds=self.ledger.last_at,
            wall_seconds=wall_seconds,
            checks=checks,
            users=summary.users(),
            levels=summary.levels(),
            overall=summary.group(),
            jain=self.metrics.jain(),
            stolen=summary.group().stolen,
            recovered=summary.group().recovered,
            zombies=self.metrics.zombies,
            faults=faults,
            commits=commits,
            restarts=self.restarts,
            violations=(*self.ledger.violations, *self._crashes.violations, *self._left()),
            table=self._table,
            turns=self.turns,
        )

    def _invariant_results(self) -> list[CheckResult]:
        return [
            CheckResult(name=name, passed=count == 0, value=count, limit=0, expect=self._expected(name))
            for name, count in self.ledger.counts.items()
        ]

    def _own_result(self, check: Check, result: SimulationResult) -> CheckResult:
        """What a check of one's own says of the result, which has all the other checks in it."""
        whose = check.function or check.observer or ""
        function = load_function(check.function) if check.function is not None else self._own[check]
        returned = ask(check.name, whose, function, result)
        if isinstance(returned, CheckResult):
            return attrs.evolve(returned, name=check.name, expect=check.expect)
        judged = judge(check.name, whose, returned, check.at_most, check.at_least)
        return CheckResult(
            name=check.name,
            passed=judged.passed,
            value=judged.value,
            limit=judged.limit,
            expect=check.expect,
            said=judged.said,
        )

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
        assert check.metric is not None, "the others have code of their own"
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
