"""Faults as scenario files state them: each fires, is counted, and breaks no promise."""

import io
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actors import InvalidConfig, Status
from actors.trace import ActorRestarted, FaultInjected, Header, Retried, Started, read_trace
from sim import (
    AmbiguousWrite,
    Burst,
    CancelRace,
    ClockJump,
    Crash,
    CrashOnMessage,
    Delay,
    Drop,
    Duplicate,
    Exponential,
    Fail,
    Fixed,
    Hang,
    Kill,
    Kind,
    LostBeats,
    PauseEvent,
    Poison,
    Poisson,
    PowerLoss,
    Reconfigure,
    Retry,
    Runtime,
    Scenario,
    SimulationResult,
    Slow,
    StealRace,
    Stop,
    Storage,
    StoreStall,
    User,
    WorkerCrash,
    Workers,
    WriteError,
    Zombie,
    load_scenario,
    parse_scenario,
    simulate,
    simulate_fully,
)
from sim.faults import FAULTS, KILLED, MOMENTS, RACES, StoreFault, name_of

ROOT = Path(__file__).parent.parent
SOAK = ROOT / "scenarios" / "slow" / "mixed_faults.toml"
DURABLE_SOAK = ROOT / "scenarios" / "slow" / "durable_soak.toml"
END = 40.0
"""When the faults are over."""

EACH: dict[str, Any] = {
    "crash of all": Crash(target="*", until_seconds=END, times=3),
    "crash of the queue": Crash(target="queue", at_seconds=10.0),
    "crash of the scheduler": Crash(target="scheduler", at_seconds=10.0),
    "crash of the supervisor": Crash(target="supervisor", at_seconds=10.0),
    "crash of a shard": Crash(target="shard/alice", at_seconds=10.0),
    "crash of workers": Crash(target="worker/*", at_seconds=10.0),
    "crash on a message": CrashOnMessage(target="*", probability=0.1, until_seconds=END),
    "clock jump": ClockJump(seconds=100.0, until_seconds=END, times=2),
    "stop": Stop(at_seconds=10.0, back_after_seconds=5.0),
    "stop at once": Stop(at_seconds=10.0, at_once=True, back_after_seconds=5.0),
    "reconfigure": Reconfigure(from_seconds=5.0, until_seconds=END),
    "drop": Drop(probability=0.1, until_seconds=END),
    "delay": Delay(seconds=0.1, seconds_max=8.0, probability=0.2, until_seconds=END),
    "late word": Delay(messages=("Ready", "Grant", "Granted", "Idle"), seconds=1.0, probability=0.1, until_seconds=END),
    "duplicate": Duplicate(probability=0.5, after_seconds=0.5, until_seconds=END),
    "steal race": StealRace(probability=0.5, until_seconds=END),
    "hang": Hang(probability=0.1, until_seconds=END),
    "slow": Slow(probability=0.3, factor=8.0, until_seconds=END),
    "fail": Fail(probability=0.3, until_seconds=END),
    "poison": Poison(user="bob", probability=0.3, until_seconds=END),
    "lost beats": LostBeats(until_seconds=END),
    "zombie": Zombie(probability=0.3, until_seconds=END),
    "power loss": PowerLoss(until_seconds=END, times=4),
    "write error": WriteError(probability=0.02, until_seconds=END),
    "ambiguous write": AmbiguousWrite(probability=0.02, until_seconds=END),
    "store stall": StoreStall(probability=0.05, seconds=4.0, until_seconds=END),
    **{f"kill {when}": Kill(when=when, until_seconds=END, times=2) for when in KILLED},
    **{f"worker crash {when}": WorkerCrash(when=when, probability=0.3, until_seconds=END) for when in MOMENTS},
    **{f"cancel against {race}": CancelRace(against=race, probability=0.5, until_seconds=END) for race in RACES},
}


def small(*faults: Any, seed: int = 0, **changes: Any) -> Scenario:
    """Two users, two kinds, stealing, failures now and then, a store where there are faults of one: a place for any fault."""
    store = Storage(commit_seconds=0.1) if any(isinstance(fault, StoreFault) for fault in faults) else None
    always = Fail(kind="odd", probability=0.2, until_seconds=END)
    scenario = Scenario(
        name="small",
        seed=seed,
        duration_seconds=30.0,
        runtime=Runtime(critical_burst=2, store=store),
        kinds=(
            Kind(name="work", service=Exponential(mean_seconds=1.0), lease_seconds=3.0, timeout_seconds=20.0),
            Kind(
                name="odd",
                service=Exponential(mean_seconds=4.0),
                lease_seconds=3.0,
                timeout_seconds=20.0,
                concurrency_max=2,
                retry=Retry(base_seconds=1.0),
            ),
        ),
        users=(
            User(name="alice", arrivals=(Poisson(kind="work", per_second=1.0), Burst(kind="odd", count=3))),
            User(name="bob", weight=2.0, arrivals=(Poisson(kind="odd", per_second=0.5),)),
        ),
        workers=(Workers(count=2), Workers(users=("alice",), steals=("bob",))),
        faults=(*faults, always),
        liveness=True,
    )
    return attrs.evolve(scenario, **changes)


def run(scenario: Scenario) -> tuple[SimulationResult, list[Any]]:
    output = io.BytesIO()
    result = simulate(scenario, trace=output)
    return result, [item for item in read_trace(output.getvalue().splitlines()) if not isinstance(item, Header)]


# Each fault


def test_every_fault_there_is_is_tried_here() -> None:
    assert {name_of(fault) for fault in EACH.values()} == set(FAULTS)


@pytest.mark.parametrize("name", EACH)
def test_a_fault_fires_is_counted_and_breaks_no_promise(name: str) -> None:
    fired = 0
    # A steal is rare where everybody is served by somebody else too.
    for seed in range(12 if name == "steal race" else 5):
        result, events = run(small(EACH[name], seed=seed))
        assert result.passed, result.violations
        assert result.table.counts[Status.PENDING] == result.table.counts[Status.IN_PROGRESS] == 0
        injected = Counter(event.number for event in events if isinstance(event, FaultInjected))
        assert [count.fired for count in result.faults] == [injected[0], injected[1]]
        fired += injected[0]
    assert fired


@pytest.mark.parametrize("target", ["scheduler", "shard/*", "worker/*", "*"])
def test_several_crashes_in_a_row_break_no_promise_either(target: str) -> None:
    for seed in range(10):
        result = simulate(small(CrashOnMessage(target=target, probability=0.25, until_seconds=END), seed=seed))
        assert result.passed, result.violations


@settings(max_examples=40)
@given(st.lists(st.sampled_from(sorted(EACH)), min_size=1, max_size=6), st.integers(0, 999))
def test_faults_together_break_no_promise(names: list[str], seed: int) -> None:
    faults = [EACH[name] for name in names if name != "reconfigure" or "late word" not in names]
    result = simulate(small(*faults, seed=seed))
    assert result.passed, result.violations


def test_a_fault_that_is_added_leaves_the_draws_of_the_others_alone() -> None:
    hang = Hang(probability=0.1, until_seconds=END)
    never = Drop(probability=0.0, until_seconds=END)
    assert simulate(small(hang)).users == simulate(attrs.evolve(small(), faults=(hang, small().faults[0], never))).users


def test_it_happens_no_more_often_than_it_may_and_only_in_its_window() -> None:
    fault = Slow(from_seconds=5.0, until_seconds=10.0, fires_max=2)
    _, events = run(small(fault))
    times = [event.at for event in events if isinstance(event, FaultInjected) and event.fault == "slow"]
    assert len(times) == 2
    assert all(5.0 <= at < 10.0 for at in times)


def test_a_fault_that_must_fire_and_does_not_fails_the_run() -> None:
    result = simulate(small(Slow(probability=0.0, until_seconds=1.0, fires_min=1)))
    (check,) = (check for check in result.checks if check.name == "fault[0] slow fires")
    assert (check.passed, check.value, check.limit) == (False, 0, 1)
    assert result.verdict == "fail"


# What the single ones bring about


def one_kind(*faults: Any, **kind: Any) -> Scenario:
    work = Kind(name="work", **({"service": Fixed(seconds=1.0)} | kind))
    users = tuple(User(name=name, arrivals=(Burst(kind="work", count=20),)) for name in ("alice", "mallory"))
    return Scenario(name="one", duration_seconds=9.0, kinds=(work,), users=users, faults=faults)


def test_a_poisonous_task_is_contained_and_others_are_unaffected() -> None:
    poison = Poison(user="mallory")
    scenario = attrs.evolve(one_kind(poison, max_retries=9), runtime=Runtime(workers=4, poison_after=2))
    result = simulate(scenario)
    assert result.passed
    letters = result.table.dead_letters()
    assert {(task.user, task.cause, task.attempts) for task in letters} == {("mallory", "poisoned", 2)}
    assert len(letters) == 20
    assert result.users["alice"].completed == 20
    assert result.faults[0].fired == 40


def test_a_task_is_poisonous_or_it_is_not() -> None:
    scenario = attrs.evolve(one_kind(Poison(probability=0.5), max_retries=9), runtime=Runtime(poison_after=2))
    result = simulate(scenario)
    ends = Counter((task.status, task.attempts) for task in result.table)
    assert set(ends) == {(Status.FAILED, 2), (Status.COMPLETED, 1)}


@pytest.mark.parametrize(("jitter", "together"), [(0.0, 40), (0.5, 1)])
def test_a_herd_is_spread_by_jitter(jitter: float, together: int) -> None:
    herd = Fail(until_seconds=0.5, probability=1.0)
    scenario = one_kind(herd, retry=Retry(base_seconds=10.0, jitter=jitter))
    result, events = run(attrs.evolve(scenario, runtime=Runtime(workers=40)))
    assert result.passed
    back = Counter(event.run_after for event in events if isinstance(event, Retried))
    assert max(back.values()) == together


def test_a_zombie_is_refused_and_another_execution_counts() -> None:
    result, events = run(one_kind(Zombie(fires_max=3), lease_seconds=5.0))
    assert result.passed
    assert (result.zombies, result.recovered, result.overall.completed) == (3, 3, 40)
    late = [event.attempt for event in events if isinstance(event, Started) and event.attempt > 1]
    assert late == [2, 2, 2]


def test_what_a_slow_worker_beats_for_is_never_given_up() -> None:
    result = simulate(one_kind(Slow(factor=50.0, fires_max=4), lease_seconds=3.0))
    assert (result.recovered, result.zombies, result.overall.completed) == (0, 0, 40)
    assert result.virtual_seconds >= 50.0


def test_a_hang_ends_at_its_timeout() -> None:
    result, events = run(one_kind(Hang(fires_max=2), timeout_seconds=7.0, lease_seconds=3.0))
    assert result.passed
    assert [event.error for event in events if isinstance(event, Retried)] == ["timed out after 7 s"] * 2
    assert result.overall.completed == 40


@pytest.mark.parametrize("when", ["before", "during", "after"])
def test_a_worker_that_crashes_with_a_task_comes_back_and_the_task_is_tried_again(when: str) -> None:
    result, events = run(one_kind(WorkerCrash(when=when, fires_max=3)))
    assert result.passed
    assert [event.outcome for event in events if isinstance(event, Retried)] == ["crashed"] * 3
    assert sum(isinstance(event, ActorRestarted) for event in events) == 3
    assert result.overall.completed == 40


def test_a_worker_that_crashes_having_reported_has_its_report_counted() -> None:
    result, events = run(one_kind(WorkerCrash(when="reported", fires_max=3), max_retries=0))
    assert result.passed
    assert sum(isinstance(event, ActorRestarted) for event in events) == 3
    assert (result.overall.completed, result.zombies) == (40, 3)


# Determinism


def test_the_same_faults_leave_the_same_trace() -> None:
    scenario = load_scenario(SOAK)
    assert simulate(scenario).trace_sha256 == simulate(scenario).trace_sha256
    assert simulate(scenario).trace_sha256 != simulate(scenario, seed=2).trace_sha256


def test_the_same_faults_leave_the_same_trace_in_a_process_with_another_hash_seed() -> None:
    program = f"from sim import load_scenario, simulate; print(simulate(load_scenario({str(SOAK)!r})).trace_sha256)"
    printed = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONHASHSEED": "4711"},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert printed.stdout.strip() == simulate(load_scenario(SOAK)).trace_sha256


@pytest.mark.parametrize("seed", range(1, 9))
def test_the_mixed_soak_is_clean(seed: int) -> None:
    result = simulate(load_scenario(SOAK), seed=seed)
    assert result.passed, result.violations


@pytest.mark.parametrize("seed", range(4))
def test_the_soak_with_a_store_is_clean(seed: int) -> None:
    result = simulate(load_scenario(DURABLE_SOAK), seed=seed)
    assert result.passed, result.violations
    assert result.restarts > 8


@pytest.mark.skipif(os.environ.get("HYPOTHESIS_PROFILE") != "explore", reason="a long look: make explore")
@pytest.mark.parametrize(("path", "seeds"), [(SOAK, 2_000), (DURABLE_SOAK, 1_000)])
def test_a_mixed_soak_is_clean_under_many_seeds_and_every_fault_fires(path: Path, seeds: int) -> None:
    soak = load_scenario(path)
    fired = Counter[int]()
    for seed in range(seeds):
        result = simulate(soak, seed=seed)
        assert result.passed, (seed, result.violations)
        fired.update({number: count.fired for number, count in enumerate(result.faults)})
    assert all(fired[number] for number in range(len(soak.faults)))


# Safety and liveness


def test_a_safety_run_does_not_ask_for_an_end() -> None:
    forever = Stop(at_seconds=3.0)
    result = simulate(one_kind(forever))
    assert result.passed
    assert result.table.counts[Status.PENDING] > 0
    assert "I2 everything ends" not in [check.name for check in result.checks]


def test_a_liveness_run_in_which_something_never_ends_fails_and_says_what() -> None:
    paused = attrs.evolve(one_kind(), events=(PauseEvent(at_seconds=2.5, user="alice"),), liveness=True)
    result = simulate(attrs.evolve(paused, runtime=Runtime(workers=4)))
    (check,) = (check for check in result.checks if check.name == "I2 everything ends")
    left = result.table.counts[Status.PENDING]
    assert left > 0
    assert (check.passed, check.value) == (False, left)
    assert result.violations[0].said.endswith("is pending after 0 attempts")
    assert len(result.violations) == left


# Reading them


BASE = """\
name = "x"
duration_seconds = 9.0
liveness = true
[[kind]]
name = "work"
service = { distribution = "fixed", seconds = 1.0 }
[[user]]
name = "alice"
[[fault]]
"""


def test_a_fault_is_read_from_a_file() -> None:
    (fault,) = parse_scenario(BASE + 'fault = "drop"\ntarget = "worker/*"\nprobability = 0.5\nuntil_seconds = 5').faults
    assert fault == Drop(target="worker/*", probability=0.5, until_seconds=5.0)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('fault = "hagn"', "fault[0].fault must be one of crash, clock_jump"),
        ('fault = "hang"', "fault[0] must be of kinds with a timeout_seconds, or it hangs for ever: 'work' has none"),
        (
            'fault = "slow"',
            "fault[0].until_seconds must be given where liveness is true: every fault must end",
        ),
        (
            'fault = "stop"\nat_seconds = 1',
            "fault[0].back_after_seconds must be given where liveness is true: every fault must end",
        ),
        (
            'fault = "crash"\ntarget = "wroker/*"\nat_seconds = 1',
            "fault[0].target must be an actor of this scenario, or a glob for some, got 'wroker/*'",
        ),
        ('fault = "crash"\ntarget = "queue"', "fault[0]: fault must have either at_seconds or until_seconds"),
        (
            'fault = "crash"\ntarget = "queue"\nat_seconds = 1\ntimes = 2',
            "fault[0]: fault at at_seconds happens once: from_seconds and times need until_seconds",
        ),
        (
            'fault = "drop"\nmessages = ["Idle"]\nuntil_seconds = 1',
            "fault[0].messages must be of Run, Finished, Beat, got 'Idle'",
        ),
        (
            'fault = "fail"\nfrom_seconds = 5\nuntil_seconds = 5',
            "fault[0].until_seconds must be after from_seconds, which is 5, got 5",
        ),
        (
            'fault = "delay"\nseconds = 3\nseconds_max = 2\nuntil_seconds = 9',
            "fault[0].seconds_max must be at least seconds, 3, got 2",
        ),
        (
            'fault = "reconfigure"\nfrom_seconds = 5\nuntil_seconds = 4',
            "fault[0].until_seconds must be after from_seconds, which is 5, got 4",
        ),
        ('fault = "fail"\nprobability = 2\nuntil_seconds = 1', "fault[0].probability must be between 0 and 1, got 2"),
        (
            'fault = "fail"\nuser = "alcie"\nuntil_seconds = 1',
            "fault[0].user must name a user of this scenario (alice), got 'alcie' (did you mean 'alice'?)",
        ),
        (
            'fault = "fail"\nuntil = 1',
            "fault[0].until is not a key of this table",
        ),
    ],
)
def test_a_fault_that_makes_no_sense_is_refused_with_its_path(text: str, said: str) -> None:
    with pytest.raises(InvalidConfig) as caught:
        parse_scenario(BASE + text)
    assert str(caught.value).startswith(said)


def test_full_simulation_has_no_faults() -> None:
    with pytest.raises(InvalidConfig, match="the cores alone have faults"):
        simulate_fully(small())
