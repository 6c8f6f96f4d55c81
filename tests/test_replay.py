"""A recorded run as a workload: replayed under its own policies it is the same run, under others the same work."""

import gzip
import io
from pathlib import Path
from typing import Any

import attrs
import pytest
import trio

from actors import InvalidConfig, NewTask, Retry, open_runtime
from actors.trace import (
    Admitted,
    Completed,
    DeadLettered,
    Event,
    Extended,
    Header,
    Recovered,
    Retried,
    Started,
    encode_events,
    read_trace,
)
from sim import (
    Burst,
    Empirical,
    Exponential,
    Fixed,
    Kind,
    Poisson,
    Runtime,
    Scenario,
    User,
    Workload,
    load_scenario,
    simulate,
    simulate_fully,
)
from sim.jobs import Execution
from sim.library import located
from tests.virtual import run_on_virtual_time

SCENARIO = Scenario(
    name="recorded",
    seed=5,
    duration_seconds=60.0,
    runtime=Runtime(workers=3),
    kinds=(
        Kind(name="work", service=Exponential(mean_seconds=1.0)),
        Kind(name="report", service=Fixed(seconds=4.0), timeout_seconds=3.0, max_retries=2, cost=4.0),
    ),
    users=(
        User(name="alice", arrivals=(Burst(kind="work", count=40), Poisson(kind="report", per_second=0.1))),
        User(name="bob", weight=2.0, arrivals=(Poisson(kind="work", per_second=1.0, expires_after_seconds=30.0),)),
    ),
)


def recorded(path: Path, scenario: Scenario, **options: Any) -> Workload:
    with path.open("wb") as output:
        assert simulate(scenario, trace=output, **options).passed
    return Workload(process="trace", path=str(path))


def replaying(workload: Workload, scenario: Scenario = SCENARIO) -> Scenario:
    """The same runtime and weights, with the work from the recording."""
    return attrs.evolve(
        scenario,
        duration_seconds=workload.duration_seconds,
        kinds=(),
        users=tuple(attrs.evolve(user, arrivals=()) for user in scenario.users),
        workload=workload,
    )


def events_of(scenario: Scenario, **options: Any) -> list[Event]:
    trace = io.BytesIO()
    result = simulate(scenario, trace=trace, **options)
    assert result.passed, result.violations
    return [event for event in read_trace(trace.getvalue().splitlines()) if not isinstance(event, Header)]


def test_a_run_replayed_under_its_own_policies_is_the_same_run_failures_included(tmp_path: Path) -> None:
    """But for what a recording does not say: how executions that timed out would have gone on."""
    events = events_of(SCENARIO)
    assert any(isinstance(event, Retried) for event in events) and any(
        isinstance(event, DeadLettered) for event in events
    )
    workload = recorded(tmp_path / "run.jsonl", SCENARIO)
    again = events_of(replaying(workload))
    assert len(again) == len(events)
    for one, other in zip(events, again, strict=True):
        assert type(one) is type(other)
        assert {name: getattr(one, name) for name in one.__struct_fields__} == pytest.approx(
            {name: getattr(other, name) for name in other.__struct_fields__}
        )


@pytest.mark.parametrize("name", ["equal_shares", "critical_burst", "weighted_shares"])
def test_scenarios_of_the_library_replay_event_for_event(name: str, tmp_path: Path) -> None:
    """But for beats: a recorded task is leased for longer than it takes."""
    scenario = load_scenario(located(name))
    workload = recorded(tmp_path / "run.jsonl", scenario)
    events = [event for event in events_of(scenario) if not isinstance(event, Extended)]
    assert events_of(replaying(workload, scenario)) == events


def test_under_another_policy_the_same_work_is_done(tmp_path: Path) -> None:
    workload = recorded(tmp_path / "run.jsonl", SCENARIO)
    fair, plain = simulate(replaying(workload)), simulate(replaying(workload), sharing="fifo")
    assert fair.trace_sha256 != plain.trace_sha256
    assert fair.jobs == plain.jobs
    assert fair.users["bob"].wait_seconds_mean != plain.users["bob"].wait_seconds_mean


def test_a_recording_says_all_of_a_task(tmp_path: Path) -> None:
    def write(*events: Event) -> Workload:
        path = tmp_path / "run.jsonl.gz"
        path.write_bytes(gzip.compress(encode_events(events)))
        return Workload(process="trace", path=str(path))

    admitted = Admitted(5.0, "alice#1", "alice", "work", 4, 7.0, 7.0, 30.0, 2, 1.5)
    workload = write(
        admitted,
        Started(7.0, "alice#1", 1, 1, "worker/1", 0.0),
        Recovered(67.0, "alice#1", 2, "worker/1", 60.0),
        Started(67.0, "alice#1", 3, 2, "worker/1"),
        Retried(69.0, "alice#1", 3, "worker/1", 2.0, "failed", "boom", 79.0),
        Started(79.0, "alice#1", 4, 3, "worker/1"),
        Completed(82.0, "alice#1", 4, "worker/1", 3.0),
        Admitted(6.0, "bob#2", "bob", "work", 3, 6.0, None, None, 0, 1.0),
        Completed(82.0, "carol#3", 4, "worker/1", 99.0),
    )
    job, other = workload.jobs
    assert (job.at_seconds, job.user, job.kind, job.priority, job.cost) == (5.0, "alice", "work", 4, 1.5)
    assert (job.delay_seconds, job.expires_after_seconds, job.max_retries, job.waited_seconds) == (2.0, 25.0, 2, 0.0)
    # A lease that ran out says nothing of how long the work takes.
    assert job.executions == (Execution(2.0, "boom", 10.0), Execution(3.0))
    assert other.executions == ()
    assert workload.services == {"work": Empirical(seconds=(2.0, 3.0))}, "what bob's task is drawn from"
    result = simulate(Scenario(name="x", duration_seconds=9.0, kinds=(), users=(), workload=workload))
    assert result.passed
    alice, bob = sorted(result.table, key=lambda task: task.user)
    assert (alice.started_at, alice.completed_at, alice.attempts) == (19.0, 22.0, 2)
    assert bob.completed_at in (8.0, 9.0)


def test_a_task_that_was_given_up_is_given_up_again(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    events: list[Event] = [
        Admitted(1.0, "alice#1", "alice", "work", 3, 1.0, None, None, 3, 1.0),
        Started(1.0, "alice#1", 1, 1, "worker/1", 0.0),
        DeadLettered(3.0, "alice#1", 1, "worker/1", 2.0, "failed", "failed", "no use"),
    ]
    path.write_bytes(encode_events(events))
    workload = Workload(process="trace", path=str(path))
    assert events_of(Scenario(name="x", duration_seconds=9.0, kinds=(), users=(), workload=workload)) == events


def test_a_recording_of_a_runtime_begins_when_it_began(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"

    async def main() -> None:
        async with open_runtime(workers=1, record=str(path), users={"bob": {"weight": 2.0}}) as runtime:

            @runtime.handler("work", max_retries=3)
            async def work(payload: int, context: Any) -> None:
                await trio.sleep(payload)
                if context.attempt == 1 and payload == 2:
                    raise Retry(after=5)

            handles = await runtime.submit_many([NewTask("work", 2, user="alice"), NewTask("work", 3, user="bob")])
            await trio.sleep(10)
            handles.append(await runtime.submit("work", 1, user="alice"))
            for handle in handles:
                await handle.result()

    run_on_virtual_time(main)
    workload = Workload(process="trace", path=str(path))
    assert [job.at_seconds - workload.jobs[0].at_seconds for job in workload.jobs] == [0.0, 0.0, 10.0]
    assert workload.jobs[0].at_seconds < 1.0, "times of the day become times since the start"
    assert [[run.seconds for run in job.executions] for job in workload.jobs] == [[2.0, 2.0], [3.0], [1.0]]
    scenario = Scenario(
        name="again", duration_seconds=20.0, runtime=Runtime(workers=1), kinds=(), users=(), workload=workload
    )
    result = simulate(scenario)
    assert result.passed
    assert [task.completed_at for task in sorted(result.table, key=lambda task: task.sequence)] == [9.0, 5.0, 11.0]


LINE = b'{"event":"admitted","at":1.0,"task":"a#1","user":"a","kind":"work","level":3,"order_at":1.0,"run_after":null,'
LINE += b'"expires_at":null,"max_retries":3,"cost":1.0}\n'
BAD: list[tuple[bytes, str]] = [
    (b"what?\n", "must be an event, got b'what?\\n': "),
    (LINE.replace(b'"level":3', b'"level":9'), "level must be one of 1 to 6, got 9"),
    (LINE.replace(b'"user":"a"', b'"user":""'), "user must be 1 to 128 printable characters, got ''"),
    (LINE.replace(b'"max_retries":3', b'"max_retries":-1'), "max_retries must be a whole number >= 0, got -1"),
    (
        b'{"event":"completed","at":2.0,"task":"a#1","token":1,"worker":"w","used_seconds":-1.0}\n',
        "used_seconds must be",
    ),
]


@pytest.mark.parametrize(("line", "said"), BAD, ids=[said for _, said in BAD])
def test_a_line_that_is_no_event_is_named(tmp_path: Path, line: bytes, said: str) -> None:
    path = tmp_path / "run.jsonl"
    path.write_bytes(LINE + line)
    with pytest.raises(InvalidConfig) as refused:
        _ = Workload(process="trace", path=str(path)).jobs
    assert str(refused.value).startswith(f"workload {path}, line 2: {said}")


def test_a_recording_is_read_once(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    path.write_bytes(LINE)
    scenario = Scenario(
        name="x", duration_seconds=9.0, kinds=(), users=(), workload=Workload(process="trace", path=str(path))
    )
    path.unlink()
    assert simulate(scenario).jobs == simulate(scenario, sharing="fifo").jobs == 1


def test_a_full_simulation_takes_no_workload(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    path.write_bytes(LINE)
    scenario = Scenario(
        name="x", duration_seconds=9.0, kinds=(), users=(), workload=Workload(process="trace", path=str(path))
    )
    with pytest.raises(InvalidConfig, match="a full simulation must have no workload"):
        simulate_fully(scenario)
