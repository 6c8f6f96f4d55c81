"""Why is my task not running? The answer names all that blocks: lift it, and the task starts."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors import ORDERING, SHARING, Block, Cause, Priority, Settings, Status, Task, UnknownTask, moves
from actors.demand import Demand
from actors.explain import explain
from actors.messages import SCHEDULER, Resume, SetLimit, WorkerClass
from actors.restraints import Restraints
from actors.standing import Standing
from actors.table import Notes
from actors.worker import Worker
from sim import (
    At,
    Burst,
    Fixed,
    Kind,
    PauseEvent,
    Runtime,
    Scenario,
    SetLimitEvent,
    Simulation,
    User,
    Workers,
)
from sim.service import ServiceTimes
from sim.worker import SimulatedExecutor

KINDS = ("crawl", "mail")
USERS = ("alice", "bob", "team/carol", "team/dave")
LOOK_AT = 20.0

limits = {
    "rate_limit": st.sampled_from([None, None, 0.05, 2.0]),
    "concurrency_max": st.sampled_from([None, None, None, 0, 1]),
}


@st.composite
def held_back(draw: st.DrawFn) -> Scenario:
    """A scenario in which much may hold a task back, and nothing changes after `LOOK_AT`."""
    kinds = tuple(
        Kind(name=name, service=Fixed(seconds=draw(st.sampled_from([1.0, 60.0]))), **drawn(draw)) for name in KINDS
    )
    arrivals = st.builds(
        Burst,
        kind=st.sampled_from(KINDS),
        count=st.integers(1, 4),
        at_seconds=st.floats(0, 19),
        priority=st.sampled_from(Priority),
        delay_seconds=st.sampled_from([None, None, 50.0]),
    )
    users = tuple(
        User(name=name, arrivals=tuple(draw(st.lists(arrivals, max_size=2))), **drawn(draw)) for name in USERS
    )
    names = st.sampled_from([("alice",), ("bob", "team/*"), ("*",), None])
    workers = st.builds(
        Workers,
        count=st.integers(1, 2),
        users=names,
        steals=st.sampled_from([(), ("team/*",), ("*",)]),
        kinds=st.sampled_from([None, ("crawl",), ("mail",)]),
    )
    targets: st.SearchStrategy[dict[str, Any]] = st.sampled_from(
        [{}, {"user": "alice"}, {"user": "bob"}, {"kind": "crawl"}, {"kind": "mail"}]
    )
    pauses = [PauseEvent(at_seconds=5.0, **target) for target in draw(st.lists(targets, max_size=2))]
    changes = [SetLimitEvent(at_seconds=6.0, **target, **drawn(draw)) for target in draw(st.lists(targets, max_size=1))]
    runtime = Runtime(
        stealing=draw(st.sampled_from(["none", "listed", "longest", "random_two"])),
        sharing=draw(st.sampled_from(["weighted_fair", "fifo", "round_robin"]).map(SHARING.make)),
        ordering=draw(st.sampled_from(["aging", "strict", "accumulating"]).map(ORDERING.make)),
        **drawn(draw),
    )
    return Scenario(
        name="held back",
        duration_seconds=LOOK_AT,
        kinds=kinds,
        users=users,
        runtime=runtime,
        workers=tuple(draw(st.lists(workers, min_size=1, max_size=2))),
        events=(*pauses, *changes),
    )


def drawn(draw: st.DrawFn) -> dict[str, Any]:
    return {name: draw(strategy) for name, strategy in limits.items()}


def pending(simulation: Simulation) -> list[str]:
    return [task.id for task in simulation.table if task.status is Status.PENDING]


def lift(simulation: Simulation, block: Block) -> None:
    """End what a block names, and nothing else."""
    host = simulation.host
    role, _, name = (block.scope or "all").partition("/")
    target: dict[str, Any] = {role: name} if name else {}
    if block.reason == "paused":
        host.post("people", SCHEDULER, Resume(**target))
    elif block.reason in ("rate_limit", "concurrency"):
        host.post("people", SCHEDULER, SetLimit(**target))
    elif block.reason in ("no_handler", "unreachable", "busy"):
        hire(simulation)


def hire(simulation: Simulation) -> None:
    """One more worker, who takes anything from anybody."""
    host, kinds = simulation.host, {kind.name: kind for kind in simulation.scenario.kinds}
    address = "worker/99"
    if address not in host.addresses():
        everything = WorkerClass(frozenset(KINDS))
        host.spawn(
            address,
            lambda: Worker(
                address, everything, SimulatedExecutor(address, ServiceTimes(kinds)), simulation.table, Notes(address)
            ),
        )


@given(held_back(), st.integers(0, 99))
def test_it_names_all_that_blocks_lift_it_beside_a_free_worker_and_the_task_starts(
    scenario: Scenario, which: int
) -> None:
    check_explained(scenario, which)


def check_explained(scenario: Scenario, which: int) -> None:
    simulation = Simulation(scenario)
    simulation.run(until=LOOK_AT)
    waiting = pending(simulation)
    explained = [simulation.explain(task_id) for task_id in waiting]
    assert all(found.blocks for found in explained), "a task that nothing holds back has started"
    if not explained:
        return
    found = explained[which % len(explained)]
    stop_observing(simulation)
    for block in found.blocks:
        lift(simulation, block)
    simulation.run()
    task = simulation.table[found.task_id]
    assert task.first_started_at is not None, found.sentence


HIDDEN: dict[str, tuple[type[Any], str, Any]] = {
    "limits": (Demand, "_limits_of", lambda self, name, kind, now: ()),
    "pauses": (Restraints, "paused", property(lambda self: frozenset(), lambda self, value: None)),
}


@pytest.mark.parametrize("reason", HIDDEN)
def test_the_check_fails_where_a_block_is_not_named(reason: str, monkeypatch: pytest.MonkeyPatch) -> None:
    scenario = one_user(kind={"rate_limit": 0.01}, events=(PauseEvent(at_seconds=1.0, user="alice"),))
    check_explained(scenario, 0)
    owner, name, hiding = HIDDEN[reason]
    simulation = Simulation(scenario)
    simulation.run(until=LOOK_AT)
    monkeypatch.setattr(owner, name, hiding, raising=False)
    found = simulation.explain(pending(simulation)[0])
    monkeypatch.undo()
    stop_observing(simulation)
    for block in found.blocks:
        lift(simulation, block)
    simulation.run(until=50.0)
    assert simulation.table[found.task_id].first_started_at is None


def stop_observing(simulation: Simulation) -> None:
    """The ledger knows only the workers of the scenario: it could not make sense of one that is hired on the way."""
    simulation._observation._observers.clear()
    simulation.host._observe = lambda event: None


def one_user(**options: Any) -> Scenario:
    kind = Kind(name="crawl", service=Fixed(seconds=5.0), **options.pop("kind", {}))
    arrivals = options.pop("arrivals", (Burst(kind="crawl", count=3),))
    user = User(name="alice", arrivals=arrivals, **options.pop("user", {}))
    return Scenario(
        name="one", duration_seconds=9.0, kinds=(kind,), users=(user,), runtime=Runtime(workers=1), **options
    )


def sentences(scenario: Scenario, at: float = 1.0) -> list[str]:
    simulation = Simulation(scenario)
    simulation.run(until=at)
    simulation.host.now = at
    return [simulation.explain(task.id).sentence for task in simulation.table]


def test_a_running_task_says_where_since_when_and_those_behind_it_how_many_go_first() -> None:
    assert sentences(one_user()) == [
        "alice#1 runs on worker/1 for 1 s now, execution 1.",
        "alice#2 waits: every worker that may take it is busy.",
        "alice#3 waits: 1 of alice's own tasks go first; every worker that may take it is busy.",
    ]


def test_a_delayed_task_says_until_when() -> None:
    arrivals = (At(kind="crawl", seconds=(0.0,), delay_seconds=7.5),)
    assert sentences(one_user(arrivals=arrivals)) == ["alice#1 waits: it is delayed, and due in 6.5 s."]


def test_a_throttled_task_says_which_limit_and_when_it_frees() -> None:
    found = sentences(one_user(kind={"rate_limit": 0.1}), at=6.0)
    assert found[0] == "alice#1 was completed 1 s ago."
    assert found[1] == "alice#2 waits: kind 'crawl' has its next permit in 4 s."


def test_a_capped_user_says_so() -> None:
    found = sentences(one_user(user={"concurrency_max": 0}))
    assert found[0] == "alice#1 waits: user 'alice' runs as many as it may."


def test_a_pause_says_of_what() -> None:
    events = (PauseEvent(at_seconds=0.0), PauseEvent(at_seconds=0.0, kind="crawl"))
    found = sentences(one_user(events=events))
    assert found[0] == "alice#1 waits: everything is paused; kind 'crawl' is paused."


def test_a_kind_without_a_handler_and_a_user_without_a_worker_say_so() -> None:
    no_handler = one_user(workers=(Workers(kinds=()),))
    assert sentences(no_handler)[0] == "alice#1 waits: no worker has a handler for 'crawl'."
    unreachable = one_user(workers=(Workers(users=("bob",)),))
    assert sentences(unreachable)[0] == "alice#1 waits: no worker for 'crawl' may serve alice."


def test_another_users_turn_says_whose_and_by_how_much() -> None:
    kind = Kind(name="crawl", service=Fixed(seconds=5.0), cost=5.0)
    users = tuple(User(name=name, arrivals=(Burst(kind="crawl", count=2),)) for name in ("alice", "bob"))
    scenario = Scenario(name="two", duration_seconds=9.0, kinds=(kind,), users=users, runtime=Runtime(workers=1))
    assert (
        sentences(scenario)[1]
        == "alice#2 waits: it is bob's turn, by 5 s of work per weight; every worker that may take it is busy."
    )


def test_an_ended_task_says_what_became_of_it() -> None:
    arrivals = (At(kind="crawl", seconds=(0.0, 0.0), expires_after_seconds=2.0),)
    found = sentences(one_user(arrivals=arrivals), at=6.0)
    assert found == [
        "alice#1 was completed 1 s ago.",
        "alice#2 failed (expired) 4 s ago: not started within 2 s.",
    ]


def test_an_unknown_task_is_an_error() -> None:
    with pytest.raises(UnknownTask, match=r"^no task has id 'x'$"):
        Simulation(one_user()).explain("x")


def test_a_task_between_retries_says_that_it_failed_and_why() -> None:
    task = Task(id="t", user="u", kind="k", sequence=1, created_at=0.0, updated_at=0.0, order_at=0.0)
    back = moves.retry(moves.claim(task, "worker/1", 60.0, 1.0), "failed", "ValueError: boom", 9.0, 2.0)
    found = explain(back, [back], Standing(), Settings(), now=4.8)
    assert found.sentence == (
        "u#1 failed (ValueError: boom) and waits to be tried again: it is delayed, and due in 4.2 s."
    )
    dead = moves.fail(moves.claim(task, "worker/1", 60.0, 1.0), Cause.FAILED, "failed", "ValueError: boom", 2.0)
    assert (
        explain(dead, [], Standing(), Settings(), now=1e9).sentence == "u#1 failed 999999998 s ago: ValueError: boom."
    )


def test_on_a_stopped_runtime_that_is_what_a_task_waits_for() -> None:
    task = Task(id="t", user="u", kind="k", sequence=1, created_at=0.0, updated_at=0.0, order_at=0.0)
    found = explain(task, [task], Standing(handled=False), Settings(), now=1.0, stopped=True)
    assert found.sentence == "u#1 waits: the runtime has stopped, or stops."
    assert [block.reason for block in found.blocks] == ["stopped"]
