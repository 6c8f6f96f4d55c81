"""Faults at a time: leaps of the clock, crashes between messages, workers that retire and come back, orders at random."""

import io
from typing import Any

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actors import Status
from actors.trace import (
    ActorRestarted,
    FaultInjected,
    Header,
    Paused,
    Released,
    Relimited,
    ReportRefused,
    Resumed,
    Reweighted,
    Started,
    read_trace,
)
from sim import (
    ClockJump,
    Crash,
    Delay,
    Exponential,
    FixedRate,
    Kind,
    Reconfigure,
    Runtime,
    Scenario,
    SimulationResult,
    Stop,
    User,
    simulate,
)


def busy(*faults: Any, seed: int = 0, max_retries: int = 0) -> Scenario:
    """Four workers with more to do than they can, in runs that are longer than their lease."""
    kind = Kind(name="work", service=Exponential(mean_seconds=6.0), lease_seconds=3.0, max_retries=max_retries)
    user = User(name="alice", weight=2.0, arrivals=(FixedRate(kind="work", per_second=1.0),))
    return Scenario(
        name="busy",
        seed=seed,
        duration_seconds=30.0,
        kinds=(kind,),
        users=(user,),
        runtime=Runtime(workers=4),
        faults=faults,
        liveness=True,
    )


def run(scenario: Scenario) -> tuple[SimulationResult, list[Any]]:
    output = io.BytesIO()
    result = simulate(scenario, trace=output)
    assert result.passed, result.violations
    return result, [item for item in read_trace(output.getvalue().splitlines()) if not isinstance(item, Header)]


@settings(max_examples=60)
@given(st.integers(0, 999), st.floats(0.1, 5_000.0), st.integers(1, 6))
def test_a_leap_of_the_clock_recovers_nobody_who_beats(seed: int, seconds: float, times: int) -> None:
    result = simulate(busy(ClockJump(seconds=seconds, until_seconds=40.0, times=times), seed=seed))
    assert result.passed, result.violations
    assert (result.recovered, result.overall.completed) == (0, 30)


def test_a_leap_takes_the_run_so_much_longer() -> None:
    result, events = run(busy(ClockJump(seconds=1000.0, at_seconds=10.0)))
    assert result.virtual_seconds > 1000.0
    times = [event.at for event in events]
    assert times == sorted(times)
    assert not [at for at in times if 10.0 < at < 1010.0]


def test_what_is_late_when_the_clock_leaps_is_overtaken_by_nobody() -> None:
    late = Delay(messages=("Finished", "Beat"), seconds=2.0, probability=0.5, until_seconds=40.0)
    for seed in range(10):
        # A report that overtook a beat would have the owner's beat refused.
        _, events = run(busy(late, ClockJump(seconds=30.0, until_seconds=40.0, times=5), seed=seed, max_retries=9))
        refused = [event for event in events if isinstance(event, ReportRefused) and event.worker is None]
        assert not [event for event in refused if event.token == event.current_token]


def test_everybody_who_matches_crashes_at_that_time() -> None:
    _, events = run(busy(Crash(target="worker/*", at_seconds=10.0), max_retries=3))
    assert [event.target for event in events if isinstance(event, FaultInjected)] == [
        f"worker/{number}" for number in range(1, 5)
    ]
    crashed = {(event.at, event.actor) for event in events if isinstance(event, ActorRestarted)}
    assert crashed == {(10.0, f"worker/{number}") for number in range(1, 5)}


@pytest.mark.parametrize("target", ["queue", "scheduler", "supervisor", "shard/alice"])
def test_a_crash_of_those_who_decide_changes_nothing_but_itself(target: str) -> None:
    _, steady = run(attrs.evolve(busy(Crash(target=target, at_seconds=10.0)), faults=()))
    _, crashed = run(busy(Crash(target=target, at_seconds=10.0)))
    added = [event for event in crashed if event not in steady]
    assert {type(event).__name__ for event in added} == {"FaultInjected", "ActorRestarted", "Undelivered"}
    assert [event for event in crashed if event not in added] == steady


@pytest.mark.parametrize("at_once", [False, True])
def test_workers_retire_in_mid_work_and_come_back(at_once: bool) -> None:
    result, events = run(busy(Stop(at_seconds=10.0, at_once=at_once, back_after_seconds=20.0)))
    assert result.overall.completed == 30
    assert sum(isinstance(event, Released) for event in events) == (4 if at_once else 0)
    starts = [event.at for event in events if isinstance(event, Started)]
    assert not [at for at in starts if 10.0 < at < 30.0]
    assert 30.0 in starts


def test_workers_that_never_come_back_leave_the_rest_waiting() -> None:
    scenario = attrs.evolve(busy(), liveness=False, faults=(Stop(at_seconds=10.0),))
    result, _ = run(scenario)
    assert result.table.counts[Status.PENDING] > 10


def test_what_was_reconfigured_is_put_back() -> None:
    _, events = run(busy(Reconfigure(from_seconds=5.0, until_seconds=25.0, every_seconds=0.25)))
    changed = [event for event in events if isinstance(event, FaultInjected)]
    assert 40 <= len(changed) <= 80
    assert [type(event) for event in events if isinstance(event, (Paused, Resumed))][-1] is Resumed
    assert [event.weight for event in events if isinstance(event, Reweighted)][-1] == 2.0
    for user, kind in (("alice", None), (None, "work")):
        limits = [
            event for event in events if isinstance(event, Relimited) and (event.user, event.kind) == (user, kind)
        ]
        assert (limits[-1].rate_limit, limits[-1].concurrency_max) == (None, None)


def test_times_that_are_drawn_depend_on_the_seed_and_lie_in_the_window() -> None:
    fault = Crash(target="queue", from_seconds=10.0, until_seconds=20.0, times=2)
    drawn = []
    for seed in (1, 2):
        _, events = run(busy(fault, seed=seed))
        drawn.append([event.at for event in events if isinstance(event, FaultInjected)])
    assert drawn[0] != drawn[1]
    assert all(10.0 <= at < 20.0 for times in drawn for at in times)
