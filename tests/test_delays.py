"""Why a task waited: the steps lie end to end and add up to the wait, and each names what it was spent on."""

import io
import math
from typing import Any

import networkx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors import Capped, NaiveScore, Priority, UnknownTask
from actors.trace import read_trace
from sim import (
    At,
    Burst,
    Causes,
    Fixed,
    Kind,
    PauseEvent,
    ResumeEvent,
    Runtime,
    Scenario,
    Simulation,
    Step,
    User,
    Workers,
    causal_graph,
    simulate,
    why,
)
from sim.strategies import scenarios
from tests.test_simulation import Unreliable

scripts = st.lists(st.sampled_from(["deliver", "drop", "repeat", "delay"]), max_size=30)


def kind(name: str = "work", seconds: float = 2.0, **options: Any) -> Kind:
    return Kind(name=name, service=Fixed(seconds=seconds), cost=seconds, **options)


def user(name: str, *at: float, kind: str = "work", **options: Any) -> User:
    return User(name=name, arrivals=(At(kind=kind, seconds=at),), **options)


def graph_of(scenario: Scenario) -> Any:
    causes = Causes(scenario.settings())
    assert simulate(scenario, observers=[causes]).passed
    return causes.graph()


def told(task: str, *users: User, kinds: tuple[Kind, ...] = (kind(),), workers: int = 1, **options: Any) -> list[str]:
    """The steps of one task, each in a line."""
    runtime = Runtime(workers=workers, **options.pop("runtime", {}))
    tables = options.pop("tables", ())
    scenario = Scenario(
        name="x", duration_seconds=99.0, kinds=kinds, users=users, workers=tables, runtime=runtime, **options
    )
    return [line(step) for step in why(graph_of(scenario), task)]


def line(step: Step) -> str:
    return f"{step.began_at:g} {step.seconds:g} {step.reason}: {step.said}"


# The pieces add up


def check_all(graph: Any, table: Any) -> None:
    for task in table:
        steps = why(graph, task.identity)
        end = graph.graph["now"]
        if task.started_at is not None:
            # The last start; a task that waits again after it has waited until now, or until it ended.
            last = max(number for name, number in graph if name == task.identity)
            stay = graph.nodes[task.identity, last]
            end = next((at for at in (stay["started_at"], stay["ended_at"]) if at is not None), end)
        elif task.completed_at is not None:
            end = task.completed_at
        where = [task.order_at, *(step.ended_at for step in steps)]
        assert where[-1] == end or (not steps and end <= task.order_at)
        assert [step.began_at for step in steps] == where[:-1], "each begins where the one before ended"
        assert all(step.seconds > 0 for step in steps)
        assert math.fsum(step.seconds for step in steps) == pytest.approx(max(0.0, end - task.order_at))


@given(scenarios())
def test_the_steps_of_every_task_add_up_to_its_wait(scenario: Scenario) -> None:
    causes = Causes(scenario.settings())
    result = simulate(scenario, observers=[causes])
    check_all(causes.graph(), result.table)


@given(scenarios())
def test_the_wait_of_a_task_that_was_started_once_is_what_the_metrics_say(scenario: Scenario) -> None:
    causes = Causes()
    result = simulate(scenario, observers=[causes])
    graph = causes.graph()
    waits = [
        math.fsum(step.seconds for step in why(graph, task.identity))
        for task in result.table
        if task.started_at is not None and (task.identity, 2) not in graph
    ]
    longest = result.overall.wait_seconds_max
    if waits and longest is not None:
        assert max(waits) <= longest + 1e-9


@given(scenarios(users=2, max_tasks=20), scripts)
def test_the_steps_add_up_under_faults(scenario: Scenario, script: list[str]) -> None:
    causes = Causes(scenario.settings())
    simulation = Simulation(scenario, observers=[causes], gate=Unreliable(script))
    simulation.run()
    check_all(causes.graph(), simulation.table)


# What is said


def test_a_worker_that_was_busy_and_then_served_another_in_turn() -> None:
    assert told("alice#3", user("bob", 0.0, 0.0), user("alice", 1.0)) == [
        "1 1 busy: worker/1 was running bob#1 when it came",
    ]
    assert told("bob#3", user("bob", 0.0, 1.0), user("alice", 1.0)) == [
        "1 1 busy: worker/1 was running bob#1 when it came",
        "2 2 turn: worker/1 ran alice#2: alice's turn (given since it came: alice 0 s, bob 0 s)",
    ]


def test_a_task_behind_its_own_users_others() -> None:
    assert told("alice#2", user("alice", 0.0, 0.0)) == ["0 2 order: worker/1 ran alice#1: alice's own, came before"]
    high = At(kind="work", seconds=(1.5,), priority=Priority.HIGH)
    assert told("alice#2", User(name="alice", arrivals=(At(kind="work", seconds=(0.0, 1.0)), high))) == [
        "1 1 busy: worker/1 was running alice#1 when it came",
        "2 2 order: worker/1 ran alice#3: alice's own, more urgent (high)",
    ]
    last_first = {"ordering": NaiveScore()}
    assert told("alice#2", user("alice", 0.0, 1.0, 1.5), runtime=last_first)[1:] == [
        "2 2 order: worker/1 ran alice#3: alice's own, put first by the order",
    ]


def test_a_cap_is_told_by_what_it_was_used_up_by() -> None:
    kinds = (kind("mail", concurrency_max=1),)
    assert told(
        "alice#3", user("bob", 0.0, 0.0, kind="mail"), user("alice", 1.0, kind="mail"), kinds=kinds, workers=4
    ) == [
        "1 1 limit: kind mail may run 1 at once: worker/1 ran bob#1",
    ]
    capped = user("alice", 0.0, 0.5, 1.0, concurrency_max=1)
    assert told("alice#3", capped, workers=4) == [
        "1 1 limit: alice may run 1 at once: worker/1 ran alice#1",
        "2 2 limit: alice may run 1 at once: worker/1 ran alice#2",
    ]
    policy = {"sharing": Capped(user_concurrency_max=1)}
    assert told("alice#2", user("alice", 0.0, 0.5), workers=4, runtime=policy) == [
        "0.5 1.5 limit: alice may run 1 at once: worker/1 ran alice#1",
    ]


def test_a_rate_is_told_by_what_was_started_before() -> None:
    kinds = (kind("mail", rate_limit=0.25),)
    assert told("alice#3", user("alice", 0.0, 0.0, 0.0, kind="mail"), kinds=kinds, workers=4) == [
        "0 4 limit: kind mail may start 0.25 a second: alice#1 had the turn",
        "4 4 limit: kind mail may start 0.25 a second: alice#2 had the turn",
    ]


def test_a_pause_is_one_step_whatever_ran_meanwhile() -> None:
    events = (PauseEvent(at_seconds=0.5, user="alice"), ResumeEvent(at_seconds=9.0, user="alice"))
    users = (user("alice", 1.0), user("bob", *[0.0] * 9))
    assert told("alice#10", *users, events=events) == [
        "1 8 pause: alice was paused",
        "9 1 turn: worker/1 ran bob#5: bob's turn (given since it came: bob 6 s, alice 0 s)",
    ]
    assert told("alice#1", user("alice", 1.0), events=events) == ["1 8 pause: alice was paused"]
    everything = (PauseEvent(at_seconds=0.5), ResumeEvent(at_seconds=9.0))
    assert told("alice#1", user("alice", 1.0), events=everything) == ["1 8 pause: everything was paused"]
    of_kind = (PauseEvent(at_seconds=0.5, kind="work"), ResumeEvent(at_seconds=9.0, kind="work"))
    assert told("alice#1", user("alice", 1.0), events=of_kind) == ["1 8 pause: kind work was paused"]


def test_a_retry_is_told_with_the_run_before_and_the_delay() -> None:
    failing = (kind(seconds=9.0, timeout_seconds=3.0, max_retries=1),)
    first, second = told("alice#1", user("alice", 1.0), kinds=failing)
    assert first == "1 3 run: ran on worker/1 and failed"
    assert second.startswith("4 ") and second.endswith(" retry: waited to be tried again: timed out after 3 s")


def test_a_recovery_is_told_with_the_run_that_fell_silent() -> None:
    scenario = Scenario(
        name="x",
        duration_seconds=9.0,
        kinds=(kind(lease_seconds=6.0),),
        users=(user("alice", 1.0),),
        runtime=Runtime(workers=1),
    )
    causes = Causes()
    simulation = Simulation(scenario, observers=[causes], gate=Unreliable(["drop"]))
    simulation.run()
    assert [line(step) for step in why(causes.graph(), "alice#1")] == [
        "1 6 run: ran on worker/1 until its lease ran out"
    ]


def test_a_user_whom_no_worker_may_serve_and_a_task_that_expired() -> None:
    stranger = User(name="alice", arrivals=(Burst(kind="work", count=1, at_seconds=1.0, expires_after_seconds=5.0),))
    assert told("alice#1", stranger, tables=(Workers(users=("bob",)),)) == [
        "1 5 unreachable: no worker may serve alice"
    ]
    assert told("alice#2", user("bob", 0.0), stranger, kinds=(kind(seconds=9.0),)) == [
        "1 5 busy: worker/1 was running bob#1 when it came",
    ]


# The graph


def test_a_trace_that_was_written_has_the_graph_of_its_run() -> None:
    kinds = (kind("mail", concurrency_max=1),)
    users = (user("bob", 0.0, 0.0, kind="mail"), user("alice", 1.0, kind="mail"))
    scenario = Scenario(name="x", duration_seconds=9.0, kinds=kinds, users=users, runtime=Runtime(workers=2))
    written, causes = io.BytesIO(), Causes(scenario.settings())
    simulate(scenario, trace=written, observers=[causes])
    graph = causal_graph(read_trace(written.getvalue().splitlines()), scenario.settings())
    assert networkx.utils.graphs_equal(graph, causes.graph())
    assert dict(graph.edges) == {
        (("bob#1", 1), ("alice#3", 1)): {
            "reason": "limit",
            "seconds": 1.0,
            "key": "kind mail may run 1 at once",
        },
        (("alice#3", 1), ("bob#2", 1)): {"reason": "limit", "seconds": 2.0, "key": "kind mail may run 1 at once"},
    }


@given(scenarios())
def test_the_graph_has_no_cycle_and_every_edge_a_reason(scenario: Scenario) -> None:
    graph = graph_of(scenario)
    assert networkx.is_directed_acyclic_graph(graph)
    reasons = {"worker", "limit", "retry", "recovery", "release", "requeue"}
    for _, _, edge in graph.edges(data=True):
        assert edge["reason"] in reasons and edge["seconds"] >= 0


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("alcie#1", r"no task of this run is called 'alcie#1' \(did you mean 'alice#1'\?\)"),
        ("nobody", r"no task of this run is called 'nobody' \(they are called 'alice#1' to 'alice#2'\)"),
    ],
)
def test_an_unknown_task_is_refused_with_what_was_meant(name: str, said: str) -> None:
    with pytest.raises(UnknownTask, match=said):
        told(name, user("alice", 0.0, 0.0))
    with pytest.raises(UnknownTask, match="no task of this run is called 'x': it had none"):
        why(causal_graph([]), "x")
