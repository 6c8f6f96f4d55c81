"""What a scenario's checks can ask for, against its definition, worked out once more from the events alone."""

from collections import Counter
from typing import Any

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actors import Priority
from actors.messages import Finished
from actors.trace import (
    Admitted,
    Cancelled,
    Completed,
    DeadLettered,
    Extended,
    Recovered,
    ReportRefused,
    Retried,
    Started,
)
from sim import Burst, Check, Exponential, Fixed, Kind, Poisson, Runtime, Scenario, Simulation, User, simulate
from sim.groups import GroupMetrics
from sim.scenario import GROUP_METRICS, METRICS, USER_METRICS, WHOLE_METRICS
from tests.test_metrics import Log, Unreliable, faults, nearest_rank, scenarios
from tests.test_service_lag import crowds, worst_lag

WHOSE: list[dict[str, Any]] = [
    {},
    {"user": "alice"},
    {"level": Priority.HIGH},
    {"user": "alice", "level": Priority.NORMAL},
]


def asked(metric: str, **options: Any) -> Check:
    return Check(name=metric, metric=metric, at_least=0.0, **options)


def measured(scenario: Scenario, script: list[str], *checks: Check) -> tuple[list[float | None], Log]:
    """What the checks measure, and everything that happened."""
    log = Log()
    simulation = Simulation(attrs.evolve(scenario, checks=checks), observers=[log], gate=Unreliable(script))
    simulation.run()
    return [result.value for result in simulation.result().checks[-len(checks) :]], log


def by_definition(log: Log, scenario: Scenario, user: str | None, level: Priority | None) -> dict[str, float | None]:
    events = log.events()
    tasks = {
        event.task: event
        for event in events
        if isinstance(event, Admitted) and user in (None, event.user) and level in (None, event.level)
    }
    mine = [event for event in events if getattr(event, "task", None) in tasks]
    ends = Counter(type(event) for event in mine)
    starts: dict[str, float] = {}
    alive: dict[str, float] = {}
    silences, slowdowns = [], []
    for event in mine:
        if isinstance(event, Started):
            starts.setdefault(event.task, event.at)
        if isinstance(event, (Started, Extended)):
            alive[event.task] = event.at
        if isinstance(event, Recovered) or getattr(event, "outcome", "") == "recovered":
            silences.append(event.at - alive[event.task])
        if isinstance(event, Completed) and tasks[event.task].order_at >= scenario.warmup_seconds:
            slowdowns.append((event.at - tasks[event.task].order_at) / event.used_seconds)
    late = {task for task, event in tasks.items() if event.order_at >= scenario.warmup_seconds} - {
        task for task, at in starts.items() if at - tasks[task].order_at <= 3.0
    }
    overtaken = [
        sum(
            (tasks[other].order_at, other_number) > (event.order_at, number)
            for other in starts
            if tasks[other].user == event.user and starts_before(list(starts), other, task)
            for other_number in [int(other.partition("#")[2])]
        )
        for task, event in tasks.items()
        for number in [int(task.partition("#")[2])]
        if task in starts
    ]
    return {
        "throughput": ends[Completed] / events[-1].at if events and events[-1].at else None,
        "slowdown_mean": sum(slowdowns) / len(slowdowns) if slowdowns else None,
        "slowdown_p99": nearest_rank(slowdowns, 99) if slowdowns else None,
        "retried": ends[Retried],
        "recovered": len(silences),
        "recovery_seconds_max": max(silences, default=None),
        "zombies": sum(isinstance(event, ReportRefused) and event.worker is not None for event in mine),
        "dead_lettered": ends[DeadLettered],
        "cancelled": ends[Cancelled],
        "starved": len(late),
        "overtaken_max": max(overtaken, default=None) if level is None else None,
    }


def starts_before(order: list[str], other: str, task: str) -> bool:
    return order.index(other) < order.index(task)


@settings(max_examples=40)
@given(scenarios(), faults, st.sampled_from(WHOSE))
def test_what_a_check_measures_is_what_its_metric_means(
    scenario: Scenario, script: list[str], whose: dict[str, Any]
) -> None:
    names = [
        "throughput",
        "slowdown_mean",
        "slowdown_p99",
        "retried",
        "recovered",
        "recovery_seconds_max",
        "zombies",
        "dead_lettered",
        "cancelled",
    ]
    if "user" in whose and "alice" not in {user.name for user in scenario.users}:
        return
    checks = [asked(name, **whose) for name in names]
    checks.append(asked("starved", over_seconds=3.0, **whose))
    values, log = measured(scenario, script, *checks)
    expected = by_definition(log, scenario, whose.get("user"), whose.get("level"))
    found = dict(zip([*names, "starved"], values, strict=True))
    assert found == pytest.approx({name: expected[name] for name in found})


@settings(max_examples=40)
@given(scenarios(), faults)
def test_how_often_a_task_was_overtaken_is_counted_over_the_whole_run(scenario: Scenario, script: list[str]) -> None:
    (value,), log = measured(scenario, script, asked("overtaken_max"))
    assert value == by_definition(log, scenario, None, None)["overtaken_max"]


@settings(max_examples=12)
@given(crowds(exact=True))
def test_the_lag_is_what_a_look_at_every_pair_finds_when_costs_are_exact(scenario: Scenario) -> None:
    result = simulate(attrs.evolve(scenario, checks=(asked("service_lag"),)))
    assert (result.checks[-1].value or 0.0) == pytest.approx(worst_lag(scenario), abs=1e-6)


@settings(max_examples=12)
@given(crowds(exact=False), st.sampled_from(["weighted_fair", "round_robin", "lottery"]))
def test_the_lag_is_measured_against_the_conjecture_when_costs_are_corrected(scenario: Scenario, policy: str) -> None:
    result = simulate(attrs.evolve(scenario, checks=(asked("service_lag"),)), sharing=policy)
    factors = (1, scenario.runtime.workers + 1)
    expected = [worst_lag(scenario, sharing=policy) / factor for factor in factors]
    assert any((result.checks[-1].value or 0.0) == pytest.approx(each, abs=1e-6) for each in expected)


def two_users(**changes: Any) -> Scenario:
    users = (
        User(
            name="alice",
            arrivals=(Burst(kind="work", count=6), Burst(kind="work", count=2, priority=Priority.VERY_HIGH)),
        ),
        User(name="bob", arrivals=(Burst(kind="work", count=4),)),
    )
    return Scenario(
        name="two",
        duration_seconds=1.0,
        kinds=(Kind(name="work", service=Fixed(seconds=1.0), cost=1.0),),
        users=users,
        runtime=Runtime(workers=2),
        **changes,
    )


def value_of(scenario: Scenario, check: Check) -> float | None:
    return simulate(attrs.evolve(scenario, checks=(check,))).checks[-1].value


def test_the_largest_backlog_is_what_waits_when_all_workers_are_busy() -> None:
    assert value_of(two_users(), asked("backlog_max")) == 10
    assert value_of(two_users(), asked("backlog_max", user="alice")) == 6
    assert value_of(two_users(), asked("backlog_max", user="bob")) == 4


def test_urgent_tasks_overtake_the_six_that_came_before() -> None:
    assert value_of(two_users(), asked("overtaken_max")) == 2
    assert value_of(two_users(), asked("overtaken_max", level=Priority.VERY_HIGH)) == 0


def test_the_mailbox_holds_a_burst_at_most() -> None:
    peak = value_of(two_users(), asked("mailbox_max"))
    assert peak is not None
    assert 2 <= peak <= 40


def test_one_level_of_one_user_is_measured_apart() -> None:
    urgent = {"user": "alice", "level": Priority.VERY_HIGH}
    assert value_of(two_users(), asked("completed", **urgent)) == 2
    assert value_of(two_users(), asked("wait_seconds_max", **urgent)) == 0.0
    assert value_of(two_users(), asked("wait_seconds_max", user="alice", level=Priority.NORMAL)) == 5.0


def test_dead_letters_are_told_apart_by_their_cause() -> None:
    arrivals = (Burst(kind="work", count=5, expires_after_seconds=0.5),)
    scenario = attrs.evolve(two_users(), users=(User(name="alice", arrivals=arrivals),))
    assert value_of(scenario, asked("dead_lettered")) == 3
    assert value_of(scenario, asked("dead_lettered", cause="expired")) == 3
    assert value_of(scenario, asked("dead_lettered", cause="failed")) == 0


def test_a_task_that_is_never_started_is_starved() -> None:
    class NoReports:
        def envelopes(self, envelope: Any, now: float) -> list[Any]:
            return [] if isinstance(envelope[2], Finished) else [(0.0, envelope)]

        def timer(self, address: str, at: float, now: float) -> float:
            return at

    check = asked("starved", over_seconds=1_000.0)
    arrivals = (Burst(kind="work", count=3, expires_after_seconds=5.0),)
    kind = Kind(name="work", service=Fixed(seconds=1.0), max_retries=0, concurrency_max=2)
    scenario = attrs.evolve(two_users(), kinds=(kind,), users=(User(name="alice", arrivals=arrivals),), checks=(check,))
    simulation = Simulation(scenario, gate=NoReports())
    simulation.run()
    assert simulation.result().checks[-1].value == 1


def test_the_longest_silence_is_a_lease() -> None:
    class NoReport:
        dropped = False

        def envelopes(self, envelope: Any, now: float) -> list[Any]:
            if isinstance(envelope[2], Finished) and not self.dropped:
                self.dropped = True
                return []
            return [(0.0, envelope)]

        def timer(self, address: str, at: float, now: float) -> float:
            return at

    simulation = Simulation(two_users(checks=(asked("recovery_seconds_max"),)), gate=NoReport())
    simulation.run()
    assert simulation.result().checks[-1].value == 60.0


def test_every_metric_can_be_measured() -> None:
    users = (User(name="alice", arrivals=(Poisson(kind="work", per_second=1.0),)),)
    kind = Kind(name="work", service=Exponential(mean_seconds=1.0))
    checks = tuple(asked(name, **({"over_seconds": 1.0} if name == "starved" else {})) for name in METRICS)
    scenario = Scenario(name="all", duration_seconds=20.0, kinds=(kind,), users=users, checks=checks)
    values = {check.name: check.value for check in simulate(scenario).checks[-len(METRICS) :]}
    assert list(values) == list(METRICS)
    assert {name for name, value in values.items() if value is None} == {"jain", "service_lag", "recovery_seconds_max"}


def test_every_measure_of_a_group_can_be_asked_for() -> None:
    fields = {field.name for field in attrs.fields(GroupMetrics)}
    assert fields == {*GROUP_METRICS, "refused"} - {"starved", "overtaken_max"}
    assert len({*GROUP_METRICS, *USER_METRICS, *WHOLE_METRICS}) == len(METRICS)
