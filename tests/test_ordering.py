"""The ordering policies: what each promises, where it breaks, and that a shard and the ledger keep to it.

Orders that stand still are a key, and `test_shard.py` holds them to a model. Here are those that move with time, the
deadlines, and the one that is wrong on purpose.
"""

from collections.abc import Callable
from typing import Any

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actors import (
    ORDERING,
    Accumulating,
    Deadline,
    InvalidConfig,
    MovingOrder,
    NaiveScore,
    OrderingPolicy,
    Priority,
    Settings,
    Task,
)
from actors.lanes import KindLanes, LevelLanes, lanes_in
from actors.messages import Requeue, shard_address
from actors.policies.ordering import WEIGHTS
from actors.trace import Event, Started
from sim import At, Exponential, Fixed, FixedRate, Kind, Runtime, Scenario, Simulation, User, simulate
from tests.test_shard import Lone, enqueued, granted, new_task, picks
from tests.test_simulation import RestartWhenQuiet, scenarios
from tests.test_theory import Z_MAX, Stream, System, wait_of, weighted_by_load, z_of

ORDINARY = [level for level in Priority if level is not Priority.CRITICAL]
MOVING = [Accumulating(), NaiveScore()]


# Accumulating priorities, against theory


def kleinrock(system: System) -> dict[Priority, float]:
    """The mean wait of each class where priority grows as weight times waited, for one worker.

    Kleinrock 1964, "A delay dependent queue discipline": the lowest class first, each from those below it.
    """
    classes = sorted(system.streams, key=lambda stream: stream.priority)
    waits: dict[Priority, float] = {}
    for stream in classes:
        weight = WEIGHTS[stream.priority]
        below = sum(
            system.load_of(other) * waits[other.priority] * (1 - WEIGHTS[other.priority] / weight)
            for other in classes
            if other.priority < stream.priority
        )
        above = sum(
            system.load_of(other) * (1 - weight / WEIGHTS[other.priority])
            for other in classes
            if other.priority > stream.priority
        )
        waits[stream.priority] = (system.first_wait / (1 - system.load) - below) / (1 - above)
    return waits


ALIKE = System(
    ordering=Accumulating(),
    streams=tuple(
        Stream(per_second=0.25, priority=level) for level in (Priority.VERY_HIGH, Priority.NORMAL, Priority.VERY_LOW)
    ),
)
EVERY_LEVEL = System(
    ordering=Accumulating(),
    streams=(
        Stream(per_second=0.4, service=Fixed(seconds=0.5), priority=Priority.VERY_HIGH),
        Stream(per_second=0.15, service=Exponential(mean_seconds=1.0), priority=Priority.HIGH),
        Stream(per_second=0.2, service=Exponential(mean_seconds=0.8), priority=Priority.NORMAL),
        Stream(per_second=0.08, service=Fixed(seconds=1.5), priority=Priority.LOW),
        Stream(per_second=0.12, service=Exponential(mean_seconds=1.0), priority=Priority.VERY_LOW),
    ),
)
SYSTEMS = {"three levels alike": ALIKE, "five levels of different work": EVERY_LEVEL}


@pytest.mark.parametrize("system", SYSTEMS.values(), ids=SYSTEMS)
def test_waits_of_accumulating_levels_agree_with_kleinrock(system: System) -> None:
    z = {level: z_of(system, wait_of(level), theory) for level, theory in kleinrock(system).items()}
    assert all(abs(value) <= Z_MAX for value in z.values()), z
    assert abs(z_of(system, weighted_by_load(system), system.conserved())) <= Z_MAX


@pytest.mark.parametrize("system", SYSTEMS.values(), ids=SYSTEMS)
def test_kleinrocks_waits_obey_the_conservation_law_and_fall_with_the_level(system: System) -> None:
    waits = kleinrock(system)
    total = sum(system.load_of(stream) * waits[stream.priority] for stream in system.streams)
    assert total == pytest.approx(system.conserved())
    by_level = [waits[level] for level in sorted(waits)]
    assert by_level == sorted(by_level, reverse=True)


def test_accumulating_taken_for_strict_or_first_come_is_noticed() -> None:
    first_come = ALIKE.first_wait / (1 - ALIKE.load)
    for level in (Priority.VERY_HIGH, Priority.VERY_LOW):
        assert abs(z_of(ALIKE, wait_of(level), ALIKE.cobham()[level])) > Z_MAX
        assert abs(z_of(ALIKE, wait_of(level), first_come)) > Z_MAX


# Its threshold, and what others make of the same overload

ARRIVALS_STOP_AT = 600.0


class Starts:
    """When each task was first started."""

    def __init__(self) -> None:
        self.at: dict[str, float] = {}

    def on_event(self, event: Event) -> None:
        if isinstance(event, Started):
            self.at.setdefault(event.task, event.at)

    def on_quiet(self, now: float) -> None:
        """Events are enough."""


def patient_started_at(ordering: str, load: float) -> float:
    """When a lone VERY_LOW task is started that came at 10 s into nothing but VERY_HIGH ones, at this load of a worker."""
    rush = FixedRate(kind="rush", per_second=load, priority=Priority.VERY_HIGH)
    scenario = Scenario(
        name="patient",
        duration_seconds=ARRIVALS_STOP_AT,
        runtime=Runtime(workers=1, ordering=ORDERING.make(ordering)),
        kinds=(Kind(name="rush", service=Fixed(seconds=1.0)), Kind(name="patient", service=Fixed(seconds=1.0))),
        users=(User(name="alice", arrivals=(rush, At(kind="patient", seconds=(10.0,), priority=Priority.VERY_LOW))),),
    )
    starts = Starts()
    result = simulate(scenario, observers=[starts])
    assert result.passed, result.violations
    (patient,) = (task for task in result.table if task.kind == "patient")
    return starts.at[patient.identity]


@pytest.mark.parametrize(("load", "by"), [(1.2, 62.0), (1.24, 312.0)])
def test_the_patient_are_started_in_time_below_the_threshold_of_accumulating(load: float, by: float) -> None:
    # At t the head of the rush has waited t (1 - 1/load): the patient one goes first once 0.2 (t - 10) is more.
    assert by - 5 <= patient_started_at("accumulating", load) <= by < ARRIVALS_STOP_AT


@pytest.mark.parametrize("load", [1.26, 1.3])
def test_the_patient_starve_above_the_threshold_of_accumulating(load: float) -> None:
    assert patient_started_at("accumulating", load) > ARRIVALS_STOP_AT


def test_the_default_order_has_no_threshold() -> None:
    assert patient_started_at("aging", 1.3) < ARRIVALS_STOP_AT
    assert patient_started_at("strict", 1.2) > ARRIVALS_STOP_AT


# Orders that move, inside a shard


@attrs.frozen
class ByKind:
    """A user's own: mail is twice as urgent as anything else, and urgency grows with waiting."""

    def key(self, task: Task) -> float:
        return task.order_at

    def rank(self, task: Task, now: float) -> float:
        return -(now - task.order_at) * (2.0 if task.kind == "mail" else 1.0)


KINDS = ("crawl", "mail", "index")
moments = st.one_of(st.integers(0, 20).map(float), st.floats(0, 20))
waiting = st.lists(
    st.tuples(st.sampled_from(KINDS), st.sampled_from(ORDINARY), moments, st.booleans()), min_size=1, max_size=30
)


@given(waiting, st.sampled_from([*MOVING, ByKind()]), st.frozensets(st.sampled_from(KINDS)), st.floats(20, 1e6))
def test_to_rank_the_heads_is_to_rank_everybody(
    given_tasks: list[tuple[str, Priority, float, bool]], order: MovingOrder, kinds: frozenset[str], now: float
) -> None:
    tasks = [
        new_task(number, now=at, kind=kind, priority=level)
        for number, (kind, level, at, _) in enumerate(given_tasks, start=1)
    ]
    live = {task.id: task for task in tasks}
    lanes = lanes_in(order, lambda task: task.id in live)
    for task in tasks:
        lanes.push(task)
    for task, (*_, leaves) in zip(tasks, given_tasks, strict=True):
        if leaves:
            del live[task.id]
            lanes.forget(task)
    taken = []
    while (lane := lanes.best(kinds, now)) is not None:
        taken.append(live.pop(lane.pop().id))
    left = [task for task in tasks if task.kind not in kinds and task.id in live]
    ranked = sorted(taken, key=lambda task: (order.rank(task, now), order.key(task), task.order_at, task.sequence))
    assert taken == ranked
    assert len(taken) + len(left) == len(tasks) - sum(leaves for *_, leaves in given_tasks)
    assert {kind: lanes.count(kind) for kind in KINDS} == {
        kind: sum(task.kind == kind for task in left) for kind in KINDS
    }


def test_a_pick_ranks_one_task_a_level_however_many_wait() -> None:
    ranked = []

    class Counting(ByKind):
        def rank(self, task: Task, now: float) -> float:
            ranked.append(task.id)
            return super().rank(task, now)

    lone = Lone(ordering=Counting())
    lone.tell(0.0, *enqueued(*(new_task(n, priority=ORDINARY[n % 5]) for n in range(1, 1_001))))
    assert not ranked, "a push ranks nothing"
    lone.tell(1.0, granted(1))
    assert len(ranked) == 5


def test_time_reverses_two_tasks_in_an_accumulating_shard_and_not_otherwise() -> None:
    tasks = [new_task(1, priority=Priority.VERY_LOW), new_task(2, now=8.0, priority=Priority.VERY_HIGH)]
    for ordering, at_nine, at_eleven in (("accumulating", "t1", "t2"), ("fifo", "t1", "t1"), ("strict", "t2", "t2")):
        for now, first in ((9.0, at_nine), (11.0, at_eleven)):
            lone = Lone(ordering=ORDERING.make(ordering))
            lone.tell(8.0, *enqueued(*tasks))
            assert picks(lone.shard, lone.table, now)[0] == first, (ordering, now)


def test_a_task_that_is_tried_again_has_waited_since_it_came() -> None:
    lone = Lone(ordering=Accumulating())
    lone.tell(0.0, *enqueued(new_task(1)), granted(1), Requeue("t1"))
    lone.tell(5.0, *enqueued(new_task(2, now=5.0, priority=Priority.HIGH)))
    assert picks(lone.shard, lone.table, 10.0) == ["t1", "t2"]


def test_critical_tasks_keep_their_lane_and_their_burst_in_an_order_that_moves() -> None:
    lone = Lone(ordering=NaiveScore(), critical_burst=2)
    critical = [new_task(n, now=float(n), priority=Priority.CRITICAL) for n in range(1, 6)]
    lone.tell(9.0, *enqueued(*critical, new_task(6, now=6.0), new_task(7, now=7.0)))
    assert picks(lone.shard, lone.table, 9.0) == ["t1", "t2", "t7", "t3", "t4", "t6", "t5"]


# The one that is wrong


@pytest.mark.parametrize("level", ORDINARY)
def test_naive_score_is_last_come_first_served_within_a_level(level: Priority) -> None:
    lone = Lone(ordering=NaiveScore())
    lone.tell(9.0, *enqueued(*(new_task(n, now=float(n), priority=level) for n in range(1, 9))))
    assert picks(lone.shard, lone.table, 9.0) == [f"t{n}" for n in range(8, 0, -1)]


@pytest.mark.parametrize("rival", ORDINARY)
def test_naive_score_starves_an_old_task_for_as_long_as_one_comes_for_each_that_goes(rival: Priority) -> None:
    lone = Lone(ordering=NaiveScore())
    lone.tell(0.0, *enqueued(new_task(1, priority=Priority.VERY_LOW)))
    for number in range(2, 1_002):
        now = float(number)
        effects = lone.tell(now, *enqueued(new_task(number, now=now, priority=rival)), granted(number))
        assert [run.task_id for _, run in effects.held] == [f"t{number}"]
    assert picks(lone.shard, lone.table, 2_000.0) == ["t1"]


@pytest.mark.parametrize("ordering", ["aging", "accumulating", "fifo"])
def test_no_other_order_starves_it(ordering: str) -> None:
    lone = Lone(ordering=ORDERING.make(ordering))
    lone.tell(0.0, *enqueued(new_task(1, priority=Priority.VERY_LOW)))
    for number in range(2, 1_002):
        now = float(number)
        effects = lone.tell(now, *enqueued(new_task(number, now=now, priority=Priority.VERY_HIGH)), granted(number))
        if effects.held[0][1].task_id == "t1":
            return
    raise AssertionError("the old task was never started")


# Deadlines

deadlines = st.lists(st.tuples(st.one_of(st.none(), moments.map(lambda at: at + 25)), moments), min_size=1, max_size=20)


@given(deadlines, st.sampled_from(ORDINARY))
def test_the_earliest_deadline_goes_first_and_none_at_all_last(
    given_tasks: list[tuple[float | None, float]], level: Priority
) -> None:
    lone = Lone(ordering=Deadline())
    tasks = [
        new_task(number, now=at, expires_at=expires_at, kind=KINDS[number % 3], priority=level)
        for number, (expires_at, at) in enumerate(given_tasks, start=1)
    ]
    lone.tell(20.0, *enqueued(*tasks))
    timed = sorted((task.expires_at, task.order_at, task.sequence) for task in tasks if task.expires_at is not None)
    untimed = sorted((task.order_at, task.sequence) for task in tasks if task.expires_at is None)
    assert picks(lone.shard, lone.table, 20.0) == [f"t{place[-1]}" for place in (*timed, *untimed)]


class Clerk:
    """Requeues every task that failed, once, at the first quiet instant after it did."""

    def __init__(self) -> None:
        self.simulation: Any = None
        self.requeued: list[str] = []

    def on_event(self, event: Event) -> None:
        """Quiet instants are enough."""

    def on_quiet(self, now: float) -> None:
        host = self.simulation.host
        for task in self.simulation.table.dead_letters():
            if task.id not in self.requeued:
                self.requeued.append(task.id)
                host.post("clerk", shard_address(task.user), Requeue(task.id))
        host.drain()


def test_a_requeued_task_has_no_deadline_any_more_and_the_ledger_knows() -> None:
    def once(at: float, expires_after_seconds: float | None) -> At:
        return At(kind="work", seconds=(at,), expires_after_seconds=expires_after_seconds)

    # The second expires at 3 and is put back; the third, which has a deadline, now goes before it.
    user = User(name="alice", arrivals=(once(0.0, None), once(1.0, 2.0), once(2.0, 90.0)))
    kinds = (Kind(name="work", service=Fixed(seconds=10.0)),)
    runtime = Runtime(workers=1, ordering=Deadline())
    clerk, starts = Clerk(), Starts()
    scenario = Scenario(name="requeue", duration_seconds=9.0, kinds=kinds, users=(user,), runtime=runtime)
    clerk.simulation = Simulation(scenario, observers=[clerk, starts])
    clerk.simulation.run()
    assert clerk.simulation.result().passed, clerk.simulation.result().violations
    assert starts.at == {"alice#1": 0.0, "alice#3": 10.0, "alice#2": 20.0}


# By name, by class, and as the ledger sees them


@pytest.mark.parametrize("name", ["aging", "accumulating", "strict", "fifo", "deadline", "naive_score"])
def test_every_order_has_a_name(name: str) -> None:
    assert ORDERING.name_of(ORDERING.make(name)) == name


def test_waiting_counts_from_a_fifth_to_all_of_itself_by_level() -> None:
    assert {str(level.name).lower(): weight for level, weight in WEIGHTS.items()} == {
        "very_low": 0.2,
        "low": 0.4,
        "normal": 0.6,
        "high": 0.8,
        "very_high": 1.0,
    }


def test_the_default_is_aging() -> None:
    assert ORDERING.name_of(Settings().ordering) == ORDERING.name_of(Runtime().ordering) == "aging"


@attrs.frozen
class Backwards:
    """A user's own order, which stands still."""

    def key(self, task: Task) -> float:
        return -task.sequence


class Keyless:
    def rank(self, task: Task, now: float) -> float:
        return 0.0


@pytest.mark.parametrize(("own", "lanes"), [(Backwards, KindLanes), (ByKind, LevelLanes)])
def test_a_users_own_order_is_taken_with_or_without_a_rank(own: Callable[[], OrderingPolicy], lanes: type) -> None:
    order = ORDERING.make(f"{__name__}:{own.__name__}")
    assert order == ORDERING.make(own()) == own()
    assert isinstance(lanes_in(order, lambda task: True), lanes)
    assert isinstance(order, MovingOrder) == (lanes is LevelLanes)


def test_a_rank_without_a_key_is_no_order() -> None:
    with pytest.raises(InvalidConfig, match=r"^ordering policy must have key, got "):
        ORDERING.make(Keyless())


orders = st.sampled_from([*MOVING, Deadline(), ByKind(), Backwards()])


@given(scenarios(), orders)
def test_every_invariant_holds_in_every_order(scenario: Scenario, order: OrderingPolicy) -> None:
    result = simulate(scenario, ordering=order)
    assert result.passed, result.violations
    assert all(task.status.terminal for task in result.table)


@settings(max_examples=30)
@given(scenarios(), st.sampled_from([*MOVING, ByKind()]))
def test_a_restart_changes_nothing_in_an_order_that_moves(scenario: Scenario, order: OrderingPolicy) -> None:
    scenario = attrs.evolve(scenario, runtime=attrs.evolve(scenario.runtime, ordering=order))
    restarter = RestartWhenQuiet()
    restarter.simulation = Simulation(scenario, observers=[restarter])
    restarter.simulation.run()
    assert restarter.simulation.result().trace_sha256 == simulate(scenario).trace_sha256


def stale(self: LevelLanes, kinds: frozenset[str], now: float, best: Any = LevelLanes.best) -> Any:
    """Ranks as of a while ago."""
    return best(self, kinds, now - 5.0)


def levels_ignored(self: LevelLanes, kinds: frozenset[str], now: float) -> Any:
    return next((lane for lane in self if len(lane)), None)


@pytest.mark.parametrize("bug", [stale, levels_ignored])
def test_the_ledger_finds_a_pick_that_ignores_the_time_or_the_rank(bug: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    arrivals = tuple(
        FixedRate(kind="work", per_second=0.5, priority=level) for level in (Priority.VERY_LOW, Priority.VERY_HIGH)
    )
    scenario = Scenario(
        name="planted",
        duration_seconds=60.0,
        kinds=(Kind(name="work", service=Fixed(seconds=1.2)),),
        users=(User(name="alice", arrivals=arrivals),),
        runtime=Runtime(workers=1, ordering=Accumulating()),
    )
    assert simulate(scenario).passed
    monkeypatch.setattr(LevelLanes, "best", bug)
    assert {violation.invariant for violation in simulate(scenario).violations} == {"I10 pick"}
