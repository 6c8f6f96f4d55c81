"""What must hold on every run does, whatever the policies, limits and messages lost; and what breaks is found."""

from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors import ORDERING, SHARING, Priority, RetryPolicy, Settings
from actors.config import KindSettings
from actors.demand import Demand
from actors.messages import WorkerClass
from actors.policies.ordering import Aging
from actors.supervisor import Supervisor
from actors.table import Noted, Table
from actors.task import Task
from actors.trace import (
    ActorRestarted,
    Admitted,
    Completed,
    DeadLettered,
    Event,
    Extended,
    Recovered,
    Released,
    Relimited,
    Retried,
    Started,
)
from actors.wiring import TREE
from sim import (
    Burst,
    Exponential,
    Fixed,
    Kind,
    PauseEvent,
    Poisson,
    ResumeEvent,
    Runtime,
    Scenario,
    SetLimitEvent,
    SetWeightEvent,
    Simulation,
    User,
    Workers,
    simulate,
)
from sim.admission import KEYS, MEMORY
from sim.crew import RETIREMENT, WORK_CONSERVATION
from sim.invariants import INVARIANTS, TIME, Ledger
from sim.lag import LAG, VIRTUAL_TIME
from sim.leases import ORPHANS, RECOVERY
from sim.overtaking import OVERTAKING
from sim.picks import PICK
from sim.restarts import ESCALATION
from sim.restrictions import CONCURRENCY
from sim.retries import HERD, POISON
from sim.tasks import CONSERVATION
from tests.test_metrics import Unreliable

NAMES = ("alice", "bob", "tenant", "tenant/carol", "tenant/dave", "tenant/dave/eve")
SCRIPTS = st.lists(st.sampled_from(["deliver", "deliver", "drop", "repeat", "delay"]), max_size=25)


@st.composite
def kinds(draw: st.DrawFn, name: str) -> Kind:
    seconds = draw(st.sampled_from([0.5, 1.3, 4.0]))
    exact = draw(st.booleans())
    return Kind(
        name=name,
        service=Fixed(seconds=seconds) if exact else Exponential(mean_seconds=seconds),
        cost=seconds if exact else draw(st.sampled_from([None, 0.7])),
        lease_seconds=4.0,
        timeout_seconds=draw(st.sampled_from([None, None, 3.0])),
        max_retries=draw(st.integers(0, 3)),
        concurrency_max=draw(st.sampled_from([None, None, None, 1])),
    )


@st.composite
def scenarios(draw: st.DrawFn) -> Scenario:
    common: dict[str, Any] = {
        "kind": st.sampled_from(["even", "odd"]),
        "priority": st.sampled_from(Priority),
        "delay_seconds": st.sampled_from([None, None, 2.0]),
        "expires_after_seconds": st.sampled_from([None, None, 5.0]),
    }
    arrivals = st.one_of(
        st.builds(Burst, count=st.integers(1, 15), at_seconds=st.sampled_from([0.0, 5.0, 60.0]), **common),
        st.builds(Poisson, per_second=st.floats(0.2, 2), **common),
    )
    users = tuple(
        User(
            name=name,
            weight=draw(st.sampled_from([0.5, 1.0, 3.0])),
            arrivals=tuple(draw(st.lists(arrivals, min_size=1, max_size=3))),
        )
        for name in draw(st.lists(st.sampled_from(NAMES), min_size=1, max_size=5, unique=True))
    )
    events = st.one_of(
        st.builds(PauseEvent, at_seconds=st.just(3.0), user=st.just(users[0].name)),
        st.builds(ResumeEvent, at_seconds=st.just(9.0), user=st.just(users[0].name)),
        st.builds(SetWeightEvent, at_seconds=st.just(6.0), user=st.just(users[-1].name), weight=st.just(2.0)),
        st.builds(SetLimitEvent, at_seconds=st.just(12.0), kind=st.just("odd"), concurrency_max=st.just(2)),
    )
    return Scenario(
        name="any",
        seed=draw(st.integers(0, 99)),
        duration_seconds=20.0,
        kinds=(draw(kinds("even")), draw(kinds("odd"))),
        users=users,
        events=tuple(draw(st.one_of(st.just([]), st.lists(events, max_size=3)))),
        runtime=Runtime(
            workers=draw(st.integers(1, 6)),
            sharing=SHARING.make(draw(st.one_of(st.just("weighted_fair"), st.sampled_from(sorted(SHARING.classes))))),
            ordering=ORDERING.make(draw(st.one_of(st.just("aging"), st.sampled_from(sorted(ORDERING.classes))))),
            critical_burst=draw(st.sampled_from([None, 2, 16])),
            admitted_max=draw(st.sampled_from([None, None, 8])),
            admitted_per_user_max=draw(st.sampled_from([None, None, 5])),
            when_full=draw(st.sampled_from(["reject", "wait", "drop_oldest"])),
        ),
        workers=draw(st.sampled_from([(), (), (), (Workers(count=2), Workers(kinds=("odd",)))])),
    )


@given(scenarios(), st.one_of(st.just([]), SCRIPTS))
def test_no_run_breaks_an_invariant(scenario: Scenario, script: list[str]) -> None:
    simulation = Simulation(scenario, gate=Unreliable(script))
    simulation.run()
    assert simulation.ledger.violations == []


@pytest.mark.parametrize("sharing", sorted(SHARING.classes))
@pytest.mark.parametrize("ordering", sorted(ORDERING.classes))
def test_no_two_policies_together_break_one(sharing: str, ordering: str) -> None:
    def user(name: str, weight: float) -> User:
        arrivals = (
            Poisson(kind="exact", per_second=0.5),
            Poisson(kind="guessed", per_second=0.5, priority=Priority.HIGH),
            Burst(kind="exact", count=6, at_seconds=8.0, priority=Priority.CRITICAL),
        )
        return User(name=name, weight=weight, arrivals=arrivals)

    scenario = Scenario(
        name="both",
        duration_seconds=40.0,
        kinds=(
            Kind(name="exact", service=Fixed(seconds=2.0), cost=2.0),
            Kind(name="guessed", service=Exponential(mean_seconds=2.0), timeout_seconds=6.0),
        ),
        users=(user("alice", 1.0), user("tenant/bob", 2.0), user("tenant/carol", 0.5)),
        runtime=Runtime(workers=3, sharing=SHARING.make(sharing), ordering=ORDERING.make(ordering)),
    )
    result = simulate(scenario)
    assert (result.verdict, result.violations) == ("pass", ())


# Each can be broken: the shortest trace that does

WORKERS = {"worker/1": WorkerClass(frozenset({"work"})), "worker/2": WorkerClass(frozenset({"work"}))}
SETTINGS = Settings(kinds={"work": KindSettings(lease_seconds=10.0, retry=RetryPolicy(base_seconds=10.0, jitter=0.2))})
BOUNDED = attrs.evolve(SETTINGS, admitted_max=2, admitted_per_user_max=1)
Step = Event | float | Task | Noted
"""An event, a quiet instant, or what the table holds from then on."""


def admitted(task: str, at: float = 0.0, level: int = 3, cost: float = 1.0) -> Admitted:
    return Admitted(at, task, task.partition("#")[0], "work", level, at, None, None, 3, cost)


def started(task: str, at: float = 0.0, token: int = 1, worker: str = "worker/1") -> Started:
    return Started(at, task, token, (token + 1) // 2, worker)


def completed(task: str, at: float, token: int = 1, worker: str = "worker/1") -> Completed:
    return Completed(at, task, token, worker, 1.0)


def retried(task: str, at: float, run_after: float, token: int = 1, outcome: str = "failed") -> Retried:
    return Retried(at, task, token, "worker/1", 1.0, outcome, "boom", run_after)


def poisoned(task: str, at: float) -> DeadLettered:
    return DeadLettered(at, task, 1, "worker/1", 1.0, "poisoned", "crashed", "boom")


def keyed(task: str) -> Task:
    user, _, sequence = task.partition("#")
    return Task(
        id=task,
        user=user,
        kind="work",
        sequence=int(sequence),
        created_at=0.0,
        updated_at=0.0,
        order_at=0.0,
        idempotency_key="once",
    )


def noted(virtual: float, **active: bool) -> Noted:
    """What the scheduler says: the virtual time, and who has work."""
    nodes = {f"pool/node/{user}": (0.0, 0.0, 0.0, own, 0) for user, own in active.items()}
    return Noted("scheduler", {"pool/node/": (0.0, 0.0, virtual, False, 0), **nodes})


def crashed(at: float, actor: str, error: str = "ValueError: boom") -> ActorRestarted:
    return ActorRestarted(at, actor, error)


def herd(*delays: float) -> list[Step]:
    """Tasks that fail one after the other at their first try, and wait so long."""
    steps: list[Step] = []
    for number, delay in enumerate(delays, start=1):
        name, at = f"alice#{number}", 100.0 * number
        steps += [admitted(name, at), started(name, at), retried(name, at + 1, at + 1 + delay)]
    return steps


def crashes(count: int) -> list[Step]:
    """A task that takes so many workers down, and is started again."""
    steps: list[Step] = [admitted("alice#1"), started("alice#1")]
    for number in range(1, count + 1):
        at = 100.0 * number
        delay = 10.0 * 2 ** (number - 1)
        steps += [
            retried("alice#1", at - 99, at - 99 + delay, number, "crashed"),
            started("alice#1", at, number + 1),
        ]
    return steps


def two_backlogs(*starts: str, virtual: tuple[float, ...]) -> list[Step]:
    """Alice and Bob have three tasks of a second each, are started in this order, and this is the virtual time then."""
    names = [f"{user}#{number}" for number in (1, 2, 3) for user in ("alice", "bob")]
    steps: list[Step] = [*map(admitted, names), noted(0.0, alice=True, bob=True), 0.0]
    for at, (task, then) in enumerate(zip(starts, virtual, strict=True), start=1):
        steps += [started(task, float(at)), noted(then), float(at), completed(task, at + 1.0), noted(then)]
    return steps


BROKEN: dict[str, tuple[str, list[Step]]] = {
    "a task that nobody has": (CONSERVATION, [admitted("alice#1"), 0.0]),
    "a key with two tasks": (KEYS, [keyed("alice#1"), keyed("alice#2")]),
    "a rescue before the lease is over": (
        RECOVERY,
        [admitted("alice#1"), started("alice#1"), Recovered(9.0, "alice#1", 2, "worker/1", 9.0)],
    ),
    "a rescue although a beat came": (
        RECOVERY,
        [
            admitted("alice#1"),
            started("alice#1"),
            Extended(5.0, "alice#1", 1, 15.0),
            Recovered(10.0, "alice#1", 2, "worker/1", 10.0),
        ],
    ),
    "a dead letter before the lease is over": (
        RECOVERY,
        [
            admitted("alice#1"),
            started("alice#1"),
            DeadLettered(9.0, "alice#1", 1, "worker/1", 9.0, "failed", "recovered", "silent"),
        ],
    ),
    "a rescue that comes too late": (
        RECOVERY,
        [admitted("alice#1"), started("alice#1"), Recovered(21.0, "alice#1", 2, "worker/1", 21.0)],
    ),
    "a silent worker that is believed long after": (
        RECOVERY,
        [admitted("alice#1"), started("alice#1"), completed("alice#1", 21.0)],
    ),
    "a beat that shortens a lease": (
        RECOVERY,
        [admitted("alice#1"), started("alice#1"), Extended(1.0, "alice#1", 1, 9.0)],
    ),
    "a worker idle beside a task": (WORK_CONSERVATION, [admitted("alice#1"), 0.0]),
    "a task that comes before its turn": (
        PICK,
        [admitted("alice#1"), admitted("alice#2"), started("alice#2")],
    ),
    "one that came later, at the same level": (
        OVERTAKING,
        [admitted("alice#1"), admitted("alice#2", 1.0), started("alice#2", 1.0)],
    ),
    "one that came too much later, a level higher": (
        OVERTAKING,
        [admitted("alice#1"), admitted("alice#2", 61.0, level=4), started("alice#2", 61.0)],
    ),
    "one that came earlier, but not early enough for its level": (
        OVERTAKING,
        [admitted("alice#1"), admitted("alice#2", 59.0, level=4), started("alice#1", 59.0)],
    ),
    "a user that is passed over": (
        LAG,
        two_backlogs("alice#1", "alice#2", "alice#3", "bob#1", virtual=(0.0, 1.0, 2.0, 2.0)),
    ),
    "a user that is never served": (
        LAG,
        two_backlogs("alice#1", "alice#2", "alice#3", virtual=(0.0, 1.0, 2.0)),
    ),
    "a virtual time that stands still": (
        LAG,
        two_backlogs("alice#1", "bob#1", "alice#2", virtual=(0.0, 0.0, 0.0)),
    ),
    "more tasks inside than may be": (
        MEMORY,
        [admitted("alice#1"), admitted("bob#2"), admitted("carol#3")],
    ),
    "more tasks of a user inside than may be": (MEMORY, [admitted("alice#1"), admitted("alice#2")]),
    "a task that is left in progress": (ORPHANS, [admitted("alice#1"), started("alice#1")]),
    "a task that took down too many": (POISON, crashes(3)),
    "a task that is called poisoned too early": (
        POISON,
        [admitted("alice#1"), started("alice#1"), poisoned("alice#1", 1.0)],
    ),
    "a retry that comes too early": (HERD, herd(7.9)),
    "a retry that comes too late": (HERD, herd(12.1)),
    "retries that are not spread": (HERD, herd(10.0, 10.0, 10.0)),
    "a root that cannot bear it and goes on": (
        ESCALATION,
        [*(crashed(float(at), "worker/1") for at in range(4)), 5.0],
    ),
    "a group that is built anew too early": (
        ESCALATION,
        [crashed(0.0, "queue"), crashed(0.0, "scheduler", "queue crashed: ValueError: boom")],
    ),
    "a group of which one is not built anew": (
        ESCALATION,
        [
            *(crashed(float(at), "queue") for at in range(4)),
            crashed(3.0, "scheduler", "queue crashed: ValueError: boom"),
            3.0,
        ],
    ),
    "a group that is built anew twice": (
        ESCALATION,
        [
            *(crashed(float(at), "queue") for at in range(4)),
            *(crashed(3.0, name, "queue crashed: ValueError: boom") for name in ("scheduler", "scheduler")),
        ],
    ),
    "a worker that claims after it retired": (
        RETIREMENT,
        [Noted("worker/1", {"retiring": True}), admitted("alice#1"), started("alice#1"), 0.0],
    ),
    "a virtual time that goes back": (
        VIRTUAL_TIME,
        two_backlogs("alice#1", "bob#1", virtual=(1.0, 0.5)),
    ),
    "an event before the last": (TIME, [admitted("alice#1", 2.0), admitted("alice#2", 1.0)]),
    "a quiet instant before the last event": (TIME, [admitted("alice#1", 2.0), 1.0]),
}

KEPT: dict[str, tuple[str, list[Step]]] = {
    "a rescue when the lease is over": (
        RECOVERY,
        [admitted("alice#1"), started("alice#1"), Recovered(10.0, "alice#1", 2, "worker/1", 10.0)],
    ),
    "one that came just in time, a level higher": (
        OVERTAKING,
        [admitted("alice#1"), admitted("alice#2", 59.0, level=4), started("alice#2", 59.0)],
    ),
    "turns": (
        LAG,
        two_backlogs("alice#1", "bob#1", "alice#2", "bob#2", virtual=(0.0, 0.0, 1.0, 1.0)),
    ),
    "as many inside as may be": (MEMORY, [admitted("alice#1"), admitted("bob#2")]),
    "a task that took down as many as it may": (POISON, crashes(2)),
    "retries that are spread": (HERD, herd(8.0, 12.0, 10.0, 10.0, 11.0)),
    "crashes that can be borne": (ESCALATION, [*(crashed(float(at), "worker/1") for at in (0, 1, 2, 8)), 9.0]),
    "a group that is built anew": (
        ESCALATION,
        [
            *(crashed(float(at), "queue") for at in range(4)),
            *(crashed(3.0, name, "queue crashed: ValueError: boom") for name in ("scheduler", "supervisor")),
            3.0,
        ],
    ),
    "a worker that hands back what it claimed": (
        RETIREMENT,
        [
            Noted("worker/1", {"retiring": True}),
            admitted("alice#1"),
            started("alice#1"),
            Released(0.0, "alice#1", 1, "worker/1", 0.0),
            0.0,
        ],
    ),
}


def broken_by(steps: list[Step], is_shared: bool = True) -> set[str]:
    """What a ledger finds, with the bounds of the door only where they are the matter."""
    names = [step.task for step in steps if isinstance(step, Admitted)]
    crowded = names in (["alice#1", "bob#2"], ["alice#1", "bob#2", "carol#3"], ["alice#1", "alice#2"])
    table = Table()
    settings = BOUNDED if crowded and not any(isinstance(step, Started) for step in steps) else SETTINGS
    ledger = Ledger(settings, table, WORKERS, supervision=TREE, retried_by_kind=True, is_shared=is_shared)
    for step in steps:
        if isinstance(step, float):
            ledger.on_quiet(step)
        elif isinstance(step, (Task, Noted)):
            table.apply(step)
        else:
            ledger.on_event(step)
    ledger.on_end(1000.0)
    return {violation.invariant for violation in ledger.violations}


@pytest.mark.parametrize("bug", BROKEN)
def test_a_broken_invariant_is_found(bug: str) -> None:
    invariant, steps = BROKEN[bug]
    assert invariant in broken_by(steps)


@pytest.mark.parametrize("case", KEPT)
def test_an_invariant_that_was_kept_is_not_taken_for_broken(case: str) -> None:
    invariant, steps = KEPT[case]
    assert invariant not in broken_by(steps)


def limited_on_the_way(*before: Step) -> list[Step]:
    """Two tasks run when their kind is held to two at a time; then there may be this, and one more is started."""
    return [
        *(admitted(f"alice#{number}") for number in (1, 2, 3)),
        started("alice#1"),
        started("alice#2", worker="worker/2"),
        Relimited(1.0, "work", None, None, 2),
        *before,
        started("alice#3", 3.0),
    ]


def test_what_ran_before_a_limit_counts_against_it() -> None:
    assert broken_by(limited_on_the_way()) == {CONCURRENCY, ORPHANS, RECOVERY}
    assert CONCURRENCY not in broken_by(limited_on_the_way(completed("alice#1", 2.0)))


@pytest.mark.parametrize("is_shared", [False, True])
def test_virtual_time_may_not_go_back_for_a_lone_user_either(is_shared: bool) -> None:
    assert VIRTUAL_TIME in broken_by(two_backlogs("alice#1", "alice#2", virtual=(1.0, 0.5)), is_shared)
    assert VIRTUAL_TIME not in broken_by(two_backlogs("alice#1", "alice#2", virtual=(1.0, 1.0)), is_shared)


def test_a_lone_user_has_no_share_to_be_ahead_of() -> None:
    ahead = two_backlogs("alice#1", "alice#2", "alice#3", virtual=(0.0, 1.0, 2.0))
    assert LAG in broken_by(ahead)
    assert LAG not in broken_by(ahead, is_shared=False)


# Whole runs of a runtime with a mistake in it


def two_users_with_much_to_do() -> Scenario:
    levels = (Priority.LOW, Priority.HIGH)
    arrivals = tuple(Poisson(kind="work", per_second=1.0, priority=level) for level in levels)
    return Scenario(
        name="much",
        duration_seconds=60.0,
        kinds=(Kind(name="work", service=Fixed(seconds=2.0), cost=2.0),),
        users=(User(name="alice", arrivals=arrivals), User(name="bob", weight=2.0, arrivals=arrivals)),
        runtime=Runtime(workers=2, ordering=Aging(aging_seconds=5.0)),
    )


def broken_in(scenario: Scenario) -> set[str]:
    return {violation.invariant for violation in simulate(scenario).violations}


def test_nothing_is_broken_without_a_mistake() -> None:
    assert broken_in(two_users_with_much_to_do()) == set()


def test_a_lag_is_found_where_weights_do_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Demand, "weight", lambda self, name: 1.0)
    assert broken_in(two_users_with_much_to_do()) == {LAG}


def test_overtaking_is_found_where_age_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """The pick is judged by the policy's own key, and so finds nothing."""
    monkeypatch.setattr(Aging, "key", lambda self, task: -task.priority)
    assert broken_in(two_users_with_much_to_do()) == {OVERTAKING}


def test_an_orphan_is_found_where_nobody_looks_at_leases(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Supervisor, "_look", lambda self, now, effects: None)
    simulation = Simulation(two_users_with_much_to_do(), gate=Unreliable(["drop"]))
    simulation.run()
    assert ORPHANS in {violation.invariant for violation in simulation.ledger.violations}


def test_there_is_no_invariant_twice() -> None:
    assert len(set(INVARIANTS)) == len(INVARIANTS)
