"""Workers that come and go on the way, and whoever must know of it."""

import io
from typing import Any

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actors import InvalidConfig
from actors.messages import WorkerClass
from actors.trace import Completed, Header, Released, Started, read_trace
from sim import (
    AddWorkersEvent,
    Burst,
    Fixed,
    Kind,
    RetireWorkersEvent,
    Runtime,
    Scenario,
    SetWeightEvent,
    Simulation,
    User,
    Workers,
    parse_scenario,
    simulate,
    simulate_fully,
)
from sim.operator import TimedEvent


def scenario_of(*events: TimedEvent, count: int = 12, workers: int = 2, **options: Any) -> Scenario:
    return Scenario(
        name="shifts",
        duration_seconds=100.0,
        runtime=Runtime(workers=workers),
        kinds=(Kind(name="work", service=Fixed(seconds=10.0), cost=10.0, lease_seconds=1000.0),),
        users=(User(name="alice", arrivals=(Burst(kind="work", count=count),)),),
        events=events,
        **options,
    )


def events_of(scenario: Scenario) -> list[Any]:
    trace = io.BytesIO()
    result = simulate(scenario, trace=trace)
    assert result.passed, result.violations
    return [event for event in read_trace(trace.getvalue().splitlines()) if not isinstance(event, Header)]


def starts_of(scenario: Scenario) -> list[tuple[float, str]]:
    return [(event.at, event.worker) for event in events_of(scenario) if isinstance(event, Started)]


def test_workers_that_come_are_given_work_at_once_and_numbered_on() -> None:
    assert starts_of(scenario_of(AddWorkersEvent(at_seconds=5.0, count=2), count=6)) == [
        (0.0, "worker/1"),
        (0.0, "worker/2"),
        (5.0, "worker/3"),
        (5.0, "worker/4"),
        (10.0, "worker/1"),
        (10.0, "worker/2"),
    ]


def test_workers_that_go_end_what_they_run_and_start_nothing_more() -> None:
    scenario = scenario_of(RetireWorkersEvent(at_seconds=5.0), count=4)
    assert starts_of(scenario) == [(0.0, "worker/1"), (0.0, "worker/2"), (10.0, "worker/1"), (20.0, "worker/1")]
    completed = [event.worker for event in events_of(scenario) if isinstance(event, Completed)]
    assert completed == ["worker/1", "worker/2", "worker/1", "worker/1"]


def test_workers_that_go_at_once_give_back_what_they_run() -> None:
    events = events_of(scenario_of(RetireWorkersEvent(at_seconds=5.0, at_once=True), count=3))
    assert [(event.at, event.worker) for event in events if isinstance(event, Released)] == [(5.0, "worker/2")]
    assert [(event.at, event.attempt) for event in events if isinstance(event, Started)] == [
        (0.0, 1),
        (0.0, 1),
        (10.0, 1),
        (20.0, 1),
    ]


def test_those_who_came_last_go_first_and_a_number_is_never_used_again() -> None:
    scenario = scenario_of(
        AddWorkersEvent(at_seconds=1.0),
        RetireWorkersEvent(at_seconds=2.0, count=2),
        AddWorkersEvent(at_seconds=3.0),
        count=8,
    )
    assert {worker for at, worker in starts_of(scenario) if at > 3.0} == {"worker/1", "worker/4"}


def test_everybody_may_go_and_others_come_later() -> None:
    scenario = scenario_of(RetireWorkersEvent(at_seconds=0.0, count=2), AddWorkersEvent(at_seconds=50.0), count=1)
    assert starts_of(scenario) == [(50.0, "worker/3")]


def test_a_worker_that_comes_may_be_one_for_some_users_only() -> None:
    scenario = scenario_of(
        AddWorkersEvent(at_seconds=1.0, users=("bob",)),
        AddWorkersEvent(at_seconds=2.0, users=("bob",), steals=("alice",)),
    )
    assert {worker for at, worker in starts_of(scenario) if 0.0 < at < 10.0} == {"worker/4"}


def test_the_ledger_counts_a_worker_that_came_as_idle_beside_work() -> None:
    """Sound cores break nothing, so here a worker comes of whom only the ledger is told."""
    simulation = Simulation(scenario_of(count=6))
    simulation._pool.add(WorkerClass(frozenset({"work"})))
    simulation.run()
    broken = simulation.result().violations
    assert {(found.invariant, found.said.split(" beside")[0]) for found in broken} == {
        ("I9 work conservation", "worker/3 idle")
    }


def test_the_ledger_does_not_take_a_worker_that_went_for_idle() -> None:
    simulation = Simulation(scenario_of(RetireWorkersEvent(at_seconds=5.0), count=6))
    simulation.run()
    assert simulation.result().passed
    assert simulation._pool.retired == {"worker/2"}
    again = Simulation(scenario_of(RetireWorkersEvent(at_seconds=5.0), count=6))
    # Were it not told, the ledger would complain of the worker that no longer takes any.
    again.ledger.crew._has_retired = lambda worker: False  # type: ignore[method-assign]
    again.run()
    assert {found.invariant for found in again.result().violations} == {"I9 work conservation"}


shifts = st.lists(
    st.one_of(
        st.builds(AddWorkersEvent, at_seconds=st.floats(0, 60), count=st.integers(1, 3)),
        st.builds(RetireWorkersEvent, at_seconds=st.floats(0, 60), count=st.just(1), at_once=st.booleans()),
    ),
    max_size=6,
)


@settings(max_examples=40)
@given(shifts, st.sampled_from(["weighted_fair", "fifo", "deficit", "lottery"]))
def test_whoever_comes_and_goes_every_invariant_holds_and_every_task_ends(
    events: list[TimedEvent], sharing: str
) -> None:
    scenario = scenario_of(*events, count=25, workers=7)
    result = simulate(scenario, sharing=sharing)
    assert result.passed, result.violations
    assert result.jobs == 25


def test_more_cannot_go_than_there_are_by_then() -> None:
    with pytest.raises(InvalidConfig) as refused:
        scenario_of(
            RetireWorkersEvent(at_seconds=9.0, count=4),
            AddWorkersEvent(at_seconds=1.0),
            RetireWorkersEvent(at_seconds=20.0),
        )
    assert str(refused.value).split("\n") == [
        "event[0].count must be at most the workers that there are by then, 3, got 4",
        "event[2].count must be at most the workers that there are by then, 0, got 1",
    ]


def test_workers_that_come_run_kinds_that_there_are() -> None:
    with pytest.raises(InvalidConfig, match=r"event\[0\].kinds\[0\] must name a kind of this scenario \(work\)"):
        scenario_of(AddWorkersEvent(at_seconds=1.0, kinds=("wrok",)))


def test_such_events_are_read_from_a_file() -> None:
    text = """
    name = "shifts"
    duration_seconds = 10
    kind = [{ name = "work", service = { distribution = "fixed", seconds = 1 } }]
    user = [{ name = "alice" }]
    [[event]]
    action = "add_workers"
    at_seconds = 1
    count = 2
    users = ["al*"]
    [[event]]
    action = "retire_workers"
    at_seconds = 2
    at_once = true
    """
    assert parse_scenario(text).events == (
        AddWorkersEvent(at_seconds=1.0, count=2, users=("al*",)),
        RetireWorkersEvent(at_seconds=2.0, at_once=True),
    )


def test_a_full_simulation_has_the_same_workers_throughout() -> None:
    with pytest.raises(InvalidConfig, match="a full simulation must have the same workers throughout"):
        simulate_fully(scenario_of(AddWorkersEvent(at_seconds=1.0)))


def test_added_workers_that_steal_from_the_longest_queue_are_told_of_its_length() -> None:
    stealing = AddWorkersEvent(at_seconds=1.0, users=("nobody",), steals=("*",))
    assert scenario_of(stealing, workers=1).settings().follows_counts
    assert starts_of(scenario_of(stealing, workers=1, count=3))[1] == (1.0, "worker/2")


def test_a_weight_set_on_the_way_binds_whoever_waits_at_the_door() -> None:
    """Two places, and both users want many: at the door, too, bob is due three of four from now on."""
    scenario = attrs.evolve(
        scenario_of(),
        users=tuple(User(name=name, arrivals=(Burst(kind="work", count=60),)) for name in ("alice", "bob")),
        runtime=Runtime(workers=1, admitted_max=2, when_full="wait", admission_share=None),
        events=(SetWeightEvent(at_seconds=0.0, user="bob", weight=3.0),),
    )
    result = simulate(scenario)
    assert result.passed, result.violations
    starts = sorted((task.started_at or 0.0, task.user) for task in result.table)[:40]
    assert sum(user == "bob" for _, user in starts) >= 28


def test_workers_without_a_table_are_those_of_the_runtime() -> None:
    scenario = scenario_of(workers=3)
    assert len(scenario.worker_classes()) == 3
    assert len(attrs.evolve(scenario, workers=(Workers(count=2), Workers())).worker_classes()) == 3
