"""Metrics against their definitions, worked out once more from the events alone, the slow and plain way."""

import math
from collections.abc import Iterable
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors import SHARING, Priority
from actors.messages import Beat, Finished, Run
from actors.trace import (
    Admitted,
    Completed,
    DeadLettered,
    Event,
    Recovered,
    Released,
    ReportRefused,
    Retried,
    Started,
    SubmitRefused,
)
from sim import (
    At,
    Burst,
    Exponential,
    Fixed,
    GroupMetrics,
    Kind,
    Poisson,
    Runtime,
    Scenario,
    Simulation,
    SimulationResult,
    User,
    Workers,
    jain_index,
    simulate,
)
from sim.groups import percentile

# Percentiles


def nearest_rank(numbers: list[float], percent: int) -> float:
    """By definition: the smallest of the numbers that at least that many percent of them do not exceed."""
    return min(
        number for number in numbers if 100 * sum(other <= number for other in numbers) >= percent * len(numbers)
    )


@given(st.lists(st.integers(0, 20).map(float), min_size=1, max_size=120), st.integers(1, 100))
def test_a_percentile_is_the_nearest_rank(numbers: list[float], percent: int) -> None:
    assert percentile(sorted(numbers), percent / 100) == nearest_rank(numbers, percent)


def ranks_that_are_off(percents: Iterable[int], count_max: int) -> list[tuple[int, int]]:
    """Every (percent, count) for which the percentile of 1, 2, ... count is not the rank it should be."""
    numbers = [float(rank) for rank in range(1, count_max + 1)]
    return [
        (percent, count)
        for percent in percents
        for count in range(1, count_max + 1)
        if percentile(numbers[:count], percent / 100) != -(-percent * count // 100)
    ]


def test_the_percentiles_in_reports_are_exact_at_any_length() -> None:
    assert ranks_that_are_off([50, 99], 3_000) == []


def test_every_whole_percentile_is_exact() -> None:
    # A rank one too high is what rounding in `part * count` gives: 0.07 * 100 is a little over 7.
    assert ranks_that_are_off(range(1, 101), 200) == []


def test_nothing_has_no_percentile() -> None:
    assert percentile([], 0.5) is None


# Jain's index

shares = st.lists(st.floats(0.001, 1_000), min_size=2, max_size=20)


@given(shares)
def test_jains_index_lies_between_one_nth_and_one(given_shares: list[float]) -> None:
    index = jain_index(given_shares)
    assert index is not None
    assert 1 / len(given_shares) - 1e-9 <= index <= 1 + 1e-9


@given(shares)
def test_jains_index_is_what_the_formula_says(given_shares: list[float]) -> None:
    expected = sum(given_shares) ** 2 / (len(given_shares) * sum(share**2 for share in given_shares))
    assert jain_index(given_shares) == pytest.approx(expected)


@given(shares, st.sampled_from([1e-250, 1e-9, 0.5, 3.0, 1e9, 1e250]))
def test_jains_index_does_not_depend_on_the_scale(given_shares: list[float], scale: float) -> None:
    scaled = [share * scale for share in given_shares]
    assert jain_index(scaled) == pytest.approx(jain_index(given_shares), rel=1e-6)


@given(st.floats(0.001, 1_000), st.integers(2, 30))
def test_equal_shares_have_index_one(share: float, count: int) -> None:
    assert jain_index([share] * count) == pytest.approx(1.0)


@given(st.floats(0.001, 1_000), st.integers(2, 30))
def test_one_user_with_everything_has_index_one_nth(share: float, count: int) -> None:
    assert jain_index([share] + [0.0] * (count - 1)) == pytest.approx(1 / count)


@given(shares, st.randoms())
def test_jains_index_does_not_depend_on_the_order(given_shares: list[float], random: Any) -> None:
    shuffled = list(given_shares)
    random.shuffle(shuffled)
    assert jain_index(shuffled) == pytest.approx(jain_index(given_shares))


@pytest.mark.parametrize("given_shares", [[], [1.0], [0.0, 0.0]])
def test_there_is_no_index_below_two_users_or_without_service(given_shares: list[float]) -> None:
    assert jain_index(given_shares) is None


# Whole runs


class Log:
    """Everything that an observer sees: events, and for each quiet instant its time."""

    def __init__(self) -> None:
        self.items: list[Event | float] = []

    def on_event(self, event: Event) -> None:
        self.items.append(event)

    def on_quiet(self, now: float) -> None:
        self.items.append(now)

    def events(self) -> list[Any]:
        return [item for item in self.items if not isinstance(item, float)]


class Unreliable:
    """Drops, repeats and delays what a lease covers, by a script: so there is something to recover and refuse."""

    def __init__(self, script: list[str]) -> None:
        self.script = list(script)

    def envelopes(self, envelope: Any, now: float) -> list[Any]:
        if not isinstance(envelope[2], (Run, Finished, Beat)) or not self.script:
            return [(0.0, envelope)]
        match self.script.pop(0):
            case "drop":
                return []
            case "repeat":
                return [(0.0, envelope), (0.0, envelope)]
            case "delay":
                return [(25.0, envelope)]
            case _:
                return [(0.0, envelope)]

    def timer(self, address: str, at: float, now: float) -> float:
        return at


ASSIGNED = (Workers(count=2, users=("alice",), steals=("*",)), Workers(users=("bob", "carol")))


@st.composite
def scenarios(draw: st.DrawFn) -> Scenario:
    kinds = (
        Kind(
            name="even",
            service=Fixed(seconds=draw(st.sampled_from([0.5, 2.0]))),
            lease_seconds=4.0,
            cost=draw(st.sampled_from([None, 1.5])),
        ),
        Kind(
            name="odd",
            service=Exponential(mean_seconds=2.0),
            timeout_seconds=draw(st.sampled_from([None, 1.0])),
            max_retries=draw(st.integers(0, 2)),
        ),
    )
    common: dict[str, Any] = {
        "kind": st.sampled_from(["even", "odd"]),
        "priority": st.sampled_from(Priority),
        "delay_seconds": st.sampled_from([None, 2.0]),
        "expires_after_seconds": st.sampled_from([None, None, 5.0]),
    }
    arrivals = st.one_of(
        st.builds(Burst, count=st.integers(1, 12), at_seconds=st.sampled_from([0.0, 5.0]), **common),
        st.builds(Poisson, per_second=st.floats(0.2, 2), **common),
        st.builds(At, seconds=st.lists(st.integers(0, 19).map(float), max_size=6).map(tuple), **common),
    )
    names = ("alice", "bob", "carol")[: draw(st.integers(1, 3))]
    weights = st.sampled_from([0.5, 1.0, 3.0])
    users = tuple(
        User(name=name, weight=draw(weights), arrivals=tuple(draw(st.lists(arrivals, max_size=3)))) for name in names
    )
    sharing = SHARING.make(draw(st.sampled_from(sorted(SHARING.classes))))
    return Scenario(
        name="any",
        seed=draw(st.integers(0, 99)),
        duration_seconds=20.0,
        warmup_seconds=draw(st.sampled_from([0.0, 4.0])),
        kinds=kinds,
        users=users,
        runtime=Runtime(
            workers=draw(st.integers(1, 6)),
            sharing=sharing,
            admitted_max=draw(st.sampled_from([None, 8])),
            when_full=draw(st.sampled_from(["reject", "wait", "drop_oldest"])),
        ),
        workers=draw(st.sampled_from([(), (), ASSIGNED])),
    )


faults = st.lists(st.sampled_from(["deliver", "drop", "repeat", "delay"]), max_size=25)


def run(scenario: Scenario, script: list[str]) -> tuple[SimulationResult, Log]:
    log = Log()
    simulation = Simulation(scenario, observers=[log], gate=Unreliable(script))
    simulation.run()
    return simulation.result(), log


ENDS = (Completed, Retried, Recovered, Released, DeadLettered)


def measured(log: Log, warmup_seconds: float, tasks: set[str]) -> dict[str, float | None]:
    """The metrics of these tasks, by a look at every event for each of them."""
    events = log.events()
    admitted = {event.task: event for event in events if isinstance(event, Admitted)}
    waits = []
    for task in sorted(tasks):
        starts = [event.at for event in events if isinstance(event, Started) and event.task == task]
        if starts and admitted[task].order_at >= warmup_seconds:
            waits.append(starts[0] - admitted[task].order_at)
    used = [(event.task, event.used_seconds) for event in events if isinstance(event, ENDS)]
    service = math.fsum(seconds for task, seconds in used if task in tasks)
    service_of_all = math.fsum(seconds for _, seconds in used)
    return {
        "completed": sum(isinstance(event, Completed) and event.task in tasks for event in events),
        "wait_seconds_mean": math.fsum(waits) / len(waits) if waits else None,
        "wait_seconds_p50": nearest_rank(waits, 50) if waits else None,
        "wait_seconds_p99": nearest_rank(waits, 99) if waits else None,
        "wait_seconds_max": max(waits) if waits else None,
        "service_seconds": service,
        "share": service / service_of_all if service_of_all else None,
        "expired": sum(
            isinstance(event, DeadLettered) and event.cause == "expired" and event.task in tasks for event in events
        ),
        "stolen": sum(isinstance(event, Started) and event.stolen and event.task in tasks for event in events),
    }


def same(group: GroupMetrics, expected: dict[str, float | None]) -> bool:
    return {name: getattr(group, name) for name in expected} == pytest.approx(expected)


@given(scenarios(), faults)
def test_every_users_and_levels_metrics_follow_from_the_events(scenario: Scenario, script: list[str]) -> None:
    result, log = run(scenario, script)
    admitted = [event for event in log.events() if isinstance(event, Admitted)]
    assert list(result.users) == [user.name for user in scenario.users]
    for user, metrics in result.users.items():
        tasks = {event.task for event in admitted if event.user == user}
        assert same(metrics, measured(log, scenario.warmup_seconds, tasks)), user
        refused = [event for event in log.events() if isinstance(event, SubmitRefused) and event.user == user]
        assert metrics.refused == len(refused)
    assert result.overall.refused == sum(metrics.refused for metrics in result.users.values())
    assert list(result.levels) == [level.name.lower() for level in Priority]
    for level, metrics in result.levels.items():
        tasks = {event.task for event in admitted if event.level == Priority[level.upper()]}
        assert same(metrics, measured(log, scenario.warmup_seconds, tasks)), level
    assert same(result.overall, measured(log, scenario.warmup_seconds, {event.task for event in admitted}))


@given(scenarios(), faults)
def test_what_is_counted_over_a_run_follows_from_the_events(scenario: Scenario, script: list[str]) -> None:
    result, log = run(scenario, script)
    events = log.events()
    lost = [event for event in events if isinstance(event, DeadLettered) and event.outcome == "recovered"]
    recovered = [event for event in events if isinstance(event, Recovered)]
    refused = [event for event in events if isinstance(event, ReportRefused) and event.worker is not None]
    assert result.jobs == sum(isinstance(event, (Completed, DeadLettered)) for event in events)
    assert result.jobs == len({event.task for event in events if isinstance(event, Admitted)})
    assert result.recovered == len(recovered) + len(lost)
    assert result.zombies == len(refused)
    assert result.stolen == sum(isinstance(event, Started) and event.stolen for event in events)
    assert result.virtual_seconds == (events[-1].at if events else 0.0)


@given(scenarios(), faults)
def test_shares_sum_to_one_and_counts_to_the_whole(scenario: Scenario, script: list[str]) -> None:
    result, _ = run(scenario, script)
    for groups in (result.users, result.levels):
        parts = [group.share for group in groups.values() if group.share is not None]
        assert not parts or sum(parts) == pytest.approx(1.0)
        assert bool(parts) == (result.overall.service_seconds > 0)
        assert sum(group.completed for group in groups.values()) == result.overall.completed
        assert sum(group.service_seconds for group in groups.values()) == pytest.approx(result.overall.service_seconds)


def jain_by_definition(scenario: Scenario, log: Log) -> float | None:
    """Over what was dispatched, per weight, while every user that is ever backlogged is, from one quiet instant to the next.

    A dispatch counts as its cost, and once it has ended as what it used.
    """
    owner: dict[str, Admitted] = {}
    ready_at: dict[str, float] = {}
    """Each waiting task, and when it may start."""
    backlogged: frozenset[str] = frozenset()
    spells: list[frozenset[str]] = [backlogged]
    """Who was backlogged, from each quiet instant to the next."""
    dispatched: list[tuple[int, str, float]] = []
    """In which spell, whose, how much."""
    latest: dict[str, int] = {}
    for item in log.items:
        match item:
            case float():
                spells.append(frozenset(owner[task].user for task, at in ready_at.items() if at <= item))
            case Admitted():
                owner[item.task] = item
                ready_at[item.task] = item.at if item.run_after is None else item.run_after
            case Started():
                del ready_at[item.task]
                latest[item.task] = len(dispatched)
                dispatched.append((len(spells) - 1, owner[item.task].user, owner[item.task].cost))
            case Retried():
                ready_at[item.task] = item.run_after
            case Recovered() | Released():
                ready_at[item.task] = item.at
            case DeadLettered(worker=None):
                del ready_at[item.task]
        if isinstance(item, ENDS) and item.worker is not None:
            spell, user, _ = dispatched[latest[item.task]]
            dispatched[latest[item.task]] = (spell, user, item.used_seconds)
    ever = frozenset().union(*spells)
    together = dict.fromkeys(sorted(ever), 0.0)
    weights = {user.name: user.weight for user in scenario.users}
    for spell, user, seconds in dispatched:
        if user in ever and spells[spell] == ever:
            together[user] += seconds / weights[user]
    got = list(together.values())
    if len(got) < 2 or not any(got):
        return None
    return sum(got) ** 2 / (len(got) * sum(share**2 for share in got))


@given(scenarios(), faults)
def test_a_runs_jain_index_follows_from_the_events(scenario: Scenario, script: list[str]) -> None:
    result, log = run(scenario, script)
    assert result.jain == pytest.approx(jain_by_definition(scenario, log))


def test_what_was_dispatched_before_users_compete_counts_for_nobody() -> None:
    # Alice's first task starts before anybody waits. That it then takes less than its cost must not count against her:
    # a share below nothing would give an index below 1/n.
    users = tuple(User(name=name, arrivals=(Burst(kind="work", count=n),)) for name, n in (("alice", 2), ("bob", 1)))
    kinds = (Kind(name="work", service=Fixed(seconds=0.5)),)
    scenario = Scenario(name="early", duration_seconds=1.0, kinds=kinds, users=users, runtime=Runtime(workers=1))
    assert simulate(scenario).jain == pytest.approx(0.5)


def flooded(**weights: float) -> Scenario:
    users = tuple(
        User(name=name, weight=weight, arrivals=(Burst(kind="work", count=300),)) for name, weight in weights.items()
    )
    kinds = (Kind(name="work", service=Fixed(seconds=1.0)),)
    return Scenario(name="flood", duration_seconds=1.0, kinds=kinds, users=users, runtime=Runtime(workers=2))


def test_fair_sharing_has_an_index_of_one_and_arrival_order_has_not() -> None:
    scenario = flooded(alice=3.0, bob=1.0)
    fair = simulate(scenario).jain
    plain = simulate(scenario, sharing="round_robin").jain
    assert fair is not None and plain is not None
    assert fair == pytest.approx(1.0, abs=0.001)
    # Turn about gives 1 : 1 where 3 : 1 is due: (1/3 + 1)^2 / (2 (1/9 + 1)) = 0.8.
    assert plain == pytest.approx(0.8, abs=0.001)


def test_a_user_alone_has_no_index() -> None:
    assert simulate(flooded(alice=1.0)).jain is None


@pytest.mark.parametrize("weight", [1e-200, 1e200])
def test_weights_of_any_size_can_be_measured(weight: float) -> None:
    jain = simulate(flooded(alice=weight, bob=weight)).jain
    assert jain == pytest.approx(1.0, abs=0.001)


def test_tasks_that_arrive_in_the_warmup_are_not_measured_but_are_counted() -> None:
    arrivals = (Burst(kind="work", count=5), At(kind="work", seconds=(20.0,)))
    kinds = (Kind(name="work", service=Fixed(seconds=1.0)),)
    scenario = Scenario(
        name="warm",
        duration_seconds=30.0,
        warmup_seconds=10.0,
        kinds=kinds,
        users=(User(name="alice", arrivals=arrivals),),
        runtime=Runtime(workers=1),
    )
    alice = simulate(scenario).users["alice"]
    assert (alice.completed, alice.service_seconds) == (6, 6.0)
    assert (alice.wait_seconds_mean, alice.wait_seconds_max) == (0.0, 0.0)
    cold = simulate(attrs.evolve(scenario, warmup_seconds=0.0)).users["alice"]
    assert (cold.wait_seconds_p50, cold.wait_seconds_max) == (1.0, 4.0)


def test_waits_are_counted_from_arrival_to_first_start_whatever_comes_later() -> None:
    kinds = (Kind(name="work", service=Fixed(seconds=5.0), timeout_seconds=2.0, max_retries=2),)
    users = (User(name="alice", arrivals=(Burst(kind="work", count=2),)),)
    scenario = Scenario(name="late", duration_seconds=1.0, kinds=kinds, users=users, runtime=Runtime(workers=1))
    alice = simulate(scenario).users["alice"]
    # The second waits for the first's first attempt only; retries wait their delay, which is nobody's queueing.
    assert (alice.completed, alice.wait_seconds_mean, alice.wait_seconds_max) == (0, 1.0, 2.0)
    assert alice.service_seconds == pytest.approx(2 * 3 * 2.0)
