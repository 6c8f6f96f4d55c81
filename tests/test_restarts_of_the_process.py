"""Simulated processes that end and begin again with what their store has: nothing that anybody was told is lost."""

import io
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import attrs
import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actors import InvalidConfig, Priority, Status, Task
from actors.host import Host
from actors.restoring import restore, resume
from actors.stores.memory import MemoryStore
from actors.table import Table
from actors.trace import Acknowledged, Header, Restored, Retried, Told, read_trace
from sim import (
    AmbiguousWrite,
    Burst,
    Check,
    Crash,
    CrashOnMessage,
    Exponential,
    Fixed,
    Kill,
    Kind,
    Poisson,
    PowerLoss,
    Retry,
    Runtime,
    Scenario,
    SimulationResult,
    Storage,
    StoreStall,
    User,
    WriteError,
    parse_scenario,
    simulate,
    simulate_fully,
)
from sim.causes import causal_graph
from sim.delays import why
from sim.full import simulate_fully as fully
from sim.promises import LOST, REHYDRATION
from sim.undone import standing
from sim.writing import write_scenario

END = 20.0
WORK = Kind(
    name="work", service=Exponential(mean_seconds=1.0), max_retries=30, lease_seconds=5.0, retry=Retry(base_seconds=0.5)
)


def scenario(*faults: Any, store: Storage | None = Storage(commit_seconds=0.05), **changes: Any) -> Scenario:
    runtime: dict[str, Any] = {"workers": 3, "poison_after": 30, "store": store} | changes.pop("runtime", {})
    users = (
        User(name="alice", weight=2.0, arrivals=(Poisson(per_second=1.0, kind="work"),)),
        User(
            name="bob",
            arrivals=(
                Burst(kind="work", count=15, at_seconds=0.5),
                Burst(kind="work", count=5, at_seconds=9.0, priority=Priority.HIGH),
            ),
        ),
    )
    base = Scenario(
        name="lives",
        duration_seconds=END,
        kinds=(WORK,),
        users=users,
        faults=faults,
        liveness=True,
        runtime=Runtime(**runtime),
    )
    return attrs.evolve(base, **changes)


def traced(of: Scenario) -> tuple[SimulationResult, list[Any]]:
    output = io.BytesIO()
    result = simulate(of, trace=output)
    return result, [event for event in read_trace(output.getvalue().splitlines()) if not isinstance(event, Header)]


def broken(result: SimulationResult) -> set[str]:
    return {check.name for check in result.checks if not check.passed}


# Whatever happens to the process and its store

windows = st.tuples(st.floats(0, END), st.floats(0, END)).map(sorted).filter(lambda window: window[0] < window[1])
gone = st.sampled_from([0.0, 0.3, 7.0])


@st.composite
def store_faults(draw: st.DrawFn) -> Any:
    low, high = draw(windows)
    when: dict[str, Any] = {"from_seconds": low, "until_seconds": high}
    chance = when | {"probability": draw(st.sampled_from([0.02, 0.1])), "fires_max": 6}
    times = when | {"times": draw(st.integers(1, 3))}
    return draw(
        st.sampled_from(
            [
                Kill(
                    **times,
                    when=draw(st.sampled_from(["at_once", "writing", "written"])),
                    back_after_seconds=draw(gone),
                ),
                PowerLoss(**times, back_after_seconds=draw(gone)),
                WriteError(**chance, back_after_seconds=draw(gone)),
                AmbiguousWrite(**chance, back_after_seconds=draw(gone)),
                StoreStall(**chance, seconds=draw(st.sampled_from([0.5, 8.0]))),
                CrashOnMessage(**chance, target="*"),
                Crash(**times, target="shard/*"),
            ]
        )
    )


@settings(deadline=None, max_examples=40)
@given(
    st.lists(store_faults(), min_size=1, max_size=5),
    st.integers(0, 10_000),
    st.sampled_from([0.0, 0.01, 0.4]),
    st.sampled_from([{}, {"admitted_max": 12, "when_full": "wait"}, {"concurrency_max": 2}, {"ordering": "deadline"}]),
)
def test_nothing_that_anybody_was_told_is_lost(
    faults: list[Any], seed: int, commit_seconds: float, options: dict[str, Any]
) -> None:
    runtime = {"store": Storage(commit_seconds=commit_seconds), **_made(options)}
    result = simulate(scenario(*faults, seed=seed, runtime=runtime))
    assert result.passed, (broken(result), result.violations[:3])
    counts = result.table.counts
    assert sum(counts.values()) == counts[Status.COMPLETED] + counts[Status.FAILED]


def _made(options: dict[str, Any]) -> dict[str, Any]:
    from actors.policies import ORDERING

    return {name: ORDERING.make(value) if name == "ordering" else value for name, value in options.items()}


@settings(deadline=None, max_examples=15)
@given(
    st.lists(store_faults().filter(lambda fault: not isinstance(fault, PowerLoss)), min_size=1, max_size=4),
    st.integers(0, 999),
)
def test_a_store_that_flushes_now_and_then_survives_all_but_a_loss_of_power(faults: list[Any], seed: int) -> None:
    result = simulate(scenario(*faults, seed=seed, store=Storage(synchronous="normal", commit_seconds=0.05)))
    assert result.passed, (broken(result), result.violations[:3])


@settings(deadline=None, max_examples=10)
@given(st.lists(store_faults(), min_size=1, max_size=4), st.integers(0, 999))
def test_the_same_lives_leave_the_same_trace_and_read_back_from_a_file(faults: list[Any], seed: int) -> None:
    of = scenario(*faults, seed=seed)
    assert parse_scenario(write_scenario(of)) == of
    assert simulate(of).trace_sha256 == simulate(of).trace_sha256


# What it is like


def test_who_submits_is_told_after_the_commit_and_of_the_end_after_that_is_stored() -> None:
    result, events = traced(scenario(store=Storage(commit_seconds=0.25)))
    admitted = {event.task: event.at for event in events if type(event).__name__ == "Admitted"}
    completed = {event.task: event.at for event in events if type(event).__name__ == "Completed"}
    acknowledged = {event.task: event.at for event in events if isinstance(event, Acknowledged)}
    told = {event.task: event.at for event in events if isinstance(event, Told)}
    assert acknowledged.keys() == told.keys() == admitted.keys()
    assert all(0.25 <= acknowledged[task] - at <= 0.5 for task, at in admitted.items())
    assert all(0.25 <= told[task] - at <= 0.5 for task, at in completed.items())
    assert result.commits > 10 and result.restarts == 0


def test_without_a_latency_and_faults_a_store_changes_nothing_but_that_people_are_told() -> None:
    _, without = traced(scenario(store=None))
    _, stored = traced(scenario(store=Storage(commit_seconds=0.0)))
    assert [event for event in stored if not isinstance(event, (Acknowledged, Told))] == without


def test_a_task_that_ran_comes_back_as_one_that_crashed_at_the_last_commit() -> None:
    kind = attrs.evolve(WORK, service=Fixed(seconds=3.0), lease_seconds=60.0)
    users = (User(name="alice", arrivals=(Burst(kind="work", count=1),)),)
    of = scenario(Kill(at_seconds=2.0, back_after_seconds=5.0), kinds=(kind,), users=users)
    result, events = traced(of)
    restored = next(event for event in events if isinstance(event, Restored))
    retried = next(event for event in events if isinstance(event, Retried))
    assert (restored.at, restored.resumed_at) == (0.05, 7.0)
    assert (retried.at, retried.outcome, retried.error) == (0.05, "crashed", "the process ended while it ran")
    (task,) = result.table
    assert [attempt.outcome for attempt in task.history] == ["crashed", "completed"]
    # The retry was due before the process came back, and is claimed with its first commit.
    assert task.completed_at == pytest.approx(7.0 + 0.05 + 3.0)


def test_a_process_that_is_killed_before_its_first_commit_begins_with_nothing() -> None:
    result, events = traced(scenario(Kill(at_seconds=0.51)))
    (restored,) = (event for event in events if isinstance(event, Restored))
    assert restored.at < 0.5 and restored.kept < 15
    assert result.passed and result.overall.completed > 15


def test_what_was_undone_is_left_out_of_a_trace_that_is_read() -> None:
    faults = (Kill(until_seconds=END, times=5), PowerLoss(until_seconds=END, times=2))
    result, events = traced(scenario(*faults))
    held = standing(events)
    restarts = sum(isinstance(event, Restored) for event in events)
    assert (restarts, result.restarts) == (7, 7)
    times = [event.at for event in held]
    assert times == sorted(times) and len(held) < len(events)
    graph = causal_graph(events)
    assert {task for task, _ in graph.nodes} == {task.identity for task in result.table}
    assert any(step.said == "the process had ended" for task, _ in graph.nodes for step in why(graph, task))


def test_a_recording_of_lives_can_be_replayed(tmp_path: Path) -> None:
    path = tmp_path / "lives.jsonl"
    with path.open("wb") as output:
        original = simulate(scenario(Kill(until_seconds=END, times=5)), trace=output)
    text = f'name = "again"\n[workload]\nprocess = "trace"\npath = "{path}"\n[runtime]\nworkers = 3'
    again = simulate(parse_scenario(text))
    assert again.passed and len(again.table) == len(original.table)


class Seen:
    """An observer of somebody's own, with the tasks that were completed."""

    def __init__(self) -> None:
        self.completed = 0

    def on_event(self, event: Any) -> None:
        self.completed += type(event).__name__ == "Completed"

    def on_quiet(self, now: float) -> None:
        pass

    def __call__(self, result: SimulationResult) -> bool:
        return self.completed == result.overall.completed == result.table.counts[Status.COMPLETED]


def test_an_observer_of_ones_own_and_all_that_is_measured_know_only_what_holds() -> None:
    checks = (
        Check(name="seen", observer=f"{__name__}:Seen"),
        Check(name="overtaken", metric="overtaken_max", at_most=100),
        Check(name="lag", metric="service_lag", at_most=5),
    )
    result = simulate(scenario(Kill(until_seconds=END, times=5), checks=checks))
    assert result.passed, broken(result)


# Mistakes in coming back are seen


class Altered(MemoryStore):
    """A store that gives something back otherwise than it was stored."""

    def __init__(self, store: Any, altered: Callable[[Task], Task | None], virtual: float | None) -> None:
        super().__init__()
        self._store, self._altered, self._virtual = store, altered, virtual

    def last_at(self) -> float:
        at: float = self._store.last_at()
        return at

    def tasks(self) -> Iterator[Task]:
        done = False
        for task in self._store.tasks():
            other = task if done else self._altered(task)
            done = done or other is not task
            if other is not None:
                yield other

    def notes(self) -> Iterator[tuple[str, str, Any]]:
        for owner, key, value in self._store.notes():
            if self._virtual is not None and (owner, key) == ("scheduler", "pool/node/"):
                value = [*value[:2], self._virtual, *value[3:]]
            yield owner, key, value


def lives_with(
    monkeypatch: pytest.MonkeyPatch, altered: Callable[[Task], Task | None], virtual: float | None = None
) -> set[str]:
    monkeypatch.setattr("sim.runner.restore", lambda store, table: restore(Altered(store, altered, virtual), table))
    return broken(simulate(scenario(Kill(at_seconds=5.0), seed=3)))


def the_same(task: Task) -> Task | None:
    return task


def without_one(task: Task) -> Task | None:
    return task if task.status.terminal else None


def with_an_old_token(task: Task) -> Task | None:
    return msgspec.structs.replace(task, token=task.token - 1) if task.status is Status.IN_PROGRESS else task


def with_an_end_undone(task: Task) -> Task | None:
    ended = task.status is Status.COMPLETED
    return msgspec.structs.replace(task, status=Status.PENDING, completed_at=None) if ended else task


@pytest.mark.parametrize(
    ("altered", "virtual", "names"),
    [
        (without_one, None, {LOST, REHYDRATION}),
        (with_an_old_token, None, {REHYDRATION}),
        (with_an_end_undone, None, {LOST, REHYDRATION}),
        (the_same, 0.0, {REHYDRATION}),
        (the_same, None, set()),
    ],
)
def test_what_is_not_restored_as_it_was_is_found(
    monkeypatch: pytest.MonkeyPatch, altered: Any, virtual: float | None, names: set[str]
) -> None:
    found = lives_with(monkeypatch, altered, virtual)
    assert names <= found if names else not found


def test_a_shard_that_forgets_one_of_its_tasks_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    forgetting: list[Table] = []
    honest = Table.live

    def live(self: Table, user: str) -> list[Task]:
        found = honest(self, user)
        return found[:-1] if self in forgetting else found

    def resuming(host: Host, *arguments: Any) -> None:
        forgetting.append(host.table)
        resume(host, *arguments)
        forgetting.clear()

    monkeypatch.setattr(Table, "live", live)
    monkeypatch.setattr("sim.runner.resume", resuming)
    assert REHYDRATION in broken(simulate(scenario(Kill(at_seconds=2.0))))


# What cannot be


def test_faults_of_a_store_need_one() -> None:
    with pytest.raises(InvalidConfig, match=r"^fault\[0\] must be in a scenario with a runtime.store: kill is about"):
        scenario(Kill(at_seconds=1.0), store=None)


def test_only_the_cores_have_simulated_storage() -> None:
    with pytest.raises(InvalidConfig, match=r"^runtime\.store must not be in a scenario that is simulated fully"):
        simulate_fully(scenario())
    assert simulate_fully is fully
