"""Full simulation, and trio made deterministic: the shell does what the cores do, and every run of it is the same."""

import io
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import attrs
import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st

from actors import EvenhandError, Runtime, TaskFailed
from actors.trace import Event, Header, read_trace
from sim import Burst, Fixed, Kind, Scenario, User, load_scenario, simulate, simulate_fully
from sim.determinism import VirtualClock, run_deterministically
from tests.test_simulation import scenarios

ROOT = Path(__file__).parent.parent
LIBRARY = [
    "fast/capped_user",
    "fast/critical_burst",
    "fast/delayed_and_expiring",
    "fast/dropping_the_oldest",
    "fast/equal_shares",
    "fast/limit_set_on_the_way",
    "fast/paused_user_returns",
    "fast/stealing_random_two",
    "fast/throttled_kind",
    "fast/waiting_at_the_door",
    "negative/strict_ordering",
]


def scenario_of(name: str) -> Scenario:
    return load_scenario(ROOT / "scenarios" / f"{name}.toml")


def events_of(run: Any, scenario: Scenario, **options: Any) -> list[Header | Event]:
    trace = io.BytesIO()
    run(scenario, trace=trace, **options)
    return [event for event in read_trace(trace.getvalue().splitlines()) if not isinstance(event, Header)]


# The shell and the cores


@pytest.mark.parametrize("name", LIBRARY)
def test_the_whole_runtime_leaves_the_same_trace_as_its_cores(name: str) -> None:
    scenario = scenario_of(name)
    full = simulate_fully(scenario)
    assert full.trace_sha256 == simulate(scenario).trace_sha256
    assert full.passed and full.jobs > 0


@settings(max_examples=30)
@given(scenario=scenarios(), scheduling_seed=st.integers(0, 3))
def test_any_scenario_leaves_the_same_events_whatever_the_order_of_trios_tasks(
    scenario: Scenario, scheduling_seed: int
) -> None:
    """Without beats, and without timeouts that are due together: those, trio lets come in any order."""
    patient = attrs.evolve(
        scenario,
        kinds=tuple(attrs.evolve(kind, lease_seconds=1e6, timeout_seconds=None) for kind in scenario.kinds),
    )
    full = events_of(simulate_fully, patient, scheduling_seed=scheduling_seed)
    assert full == events_of(simulate, patient)


def test_a_shell_that_mixes_up_its_workers_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    real = VirtualClock.sleep_until

    async def last_first(self: VirtualClock, at: float, key: str = "") -> None:
        await real(self, at, "".join(chr(255 - ord(letter)) for letter in key))

    monkeypatch.setattr(VirtualClock, "sleep_until", last_first)
    alice = User(name="alice", arrivals=(Burst(kind="work", count=9),))
    kind = Kind(name="work", service=Fixed(seconds=1.0))
    scenario = Scenario(name="ties", duration_seconds=1.0, kinds=(kind,), users=(alice,))
    assert simulate_fully(scenario).trace_sha256 != simulate(scenario).trace_sha256


# Determinism

CANARY = """
import sys, trio
from sim import load_scenario, simulate_fully
from sim.determinism import run_deterministically

async def order() -> str:
    said = []
    async def say(name):
        for _ in range(5):
            await trio.sleep(1)
            said.append(name)
    async with trio.open_nursery() as nursery:
        for name in "abcdefgh":
            nursery.start_soon(say, name)
    return "".join(said)

print(simulate_fully(load_scenario(sys.argv[1])).trace_sha256, run_deterministically(order, seed=7))
"""


def test_the_canary_sings_the_same_song_in_processes_with_different_hash_seeds() -> None:
    scenario = str(ROOT / "scenarios" / "fast" / "throttled_kind.toml")
    songs = {
        subprocess.run(
            [sys.executable, "-c", CANARY, scenario],
            env={**os.environ, "PYTHONHASHSEED": seed},
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2", "3")
    }
    assert len(songs) == 1
    assert len(songs.pop().split()[1]) == 40


async def order_of_six() -> str:
    said: list[str] = []

    async def say(name: str) -> None:
        await trio.sleep(1)
        said.append(name)

    async with trio.open_nursery() as nursery:
        for name in "abcdef":
            nursery.start_soon(say, name)
    return "".join(said)


def test_the_order_of_tasks_depends_on_the_seed_alone() -> None:
    orders = [run_deterministically(order_of_six, seed=seed) for seed in (1, 2, 3, 1, 2, 3)]
    assert orders[:3] == orders[3:]
    assert len(set(orders)) > 1


def test_the_scheduler_is_left_as_it_was_found() -> None:
    import trio._core._run as scheduler

    before = scheduler._ALLOW_DETERMINISTIC_SCHEDULING, scheduler._r.getstate()

    async def fail() -> None:
        raise ValueError("boom")

    with pytest.raises(ValueError, match="boom"):
        run_deterministically(fail)
    assert (scheduler._ALLOW_DETERMINISTIC_SCHEDULING, scheduler._r.getstate()) == before


def test_a_trio_whose_scheduler_is_not_known_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    import trio._core._run as scheduler

    monkeypatch.delattr(scheduler, "_ALLOW_DETERMINISTIC_SCHEDULING")
    with pytest.raises(
        EvenhandError, match=rf"^full simulation does not know the scheduler of trio {trio.__version__}$"
    ):
        run_deterministically(order_of_six)


# The clock


def test_sleepers_are_woken_in_the_order_of_time_then_key_and_behind_trios_own_deadlines() -> None:
    clock, said = VirtualClock(), []

    async def sleep(at: float, key: str) -> None:
        await clock.sleep_until(at, key)
        said.append((trio.current_time(), key))

    async def deadline(at: float) -> None:
        await trio.sleep_until(at)
        said.append((trio.current_time(), "deadline"))

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            for at, key in ((2.0, "b"), (1.0, "c"), (2.0, "a"), (1.0, "b")):
                nursery.start_soon(sleep, at, key)
            nursery.start_soon(deadline, 2.0)

    run_deterministically(main, clock=clock)
    assert said == [(1.0, "b"), (1.0, "c"), (2.0, "deadline"), (2.0, "a"), (2.0, "b")]


def test_a_cancelled_sleeper_is_forgotten_and_time_does_not_go_there() -> None:
    clock = VirtualClock()

    async def main() -> float:
        with trio.move_on_after(1):
            await clock.sleep_until(1000.0)
        await trio.sleep(1)
        return trio.current_time()

    assert run_deterministically(main, clock=clock) == 2.0


def test_idle_means_that_nothing_is_due_at_any_time() -> None:
    clock = VirtualClock()

    async def main() -> float:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.sleep, 5)
            nursery.start_soon(clock.sleep_until, 7.0)
            await clock.wait_until_idle()
            return trio.current_time()

    assert run_deterministically(main, clock=clock) == 7.0


def test_what_an_observer_raises_is_raised_by_the_run_and_not_within_trio() -> None:
    def fail(now: float) -> None:
        raise ValueError(f"at {now}")

    with pytest.raises(ValueError, match=r"^at 0.0$"):
        run_deterministically(trio.sleep, 3, clock=VirtualClock(on_advance=fail))


def test_a_thread_takes_no_virtual_time_and_is_waited_for() -> None:
    async def main() -> tuple[int, float]:
        return await trio.to_thread.run_sync(lambda: 42), trio.current_time()

    assert run_deterministically(main) == (42, 0.0)


# The fixtures


async def test_a_runtime_on_virtual_time_waits_for_nobody(
    virtual_clock: VirtualClock, evenhand_runtime: Runtime
) -> None:
    @evenhand_runtime.handler("nap", timeout_seconds=None)
    async def nap(seconds: float) -> float:
        await trio.sleep(seconds)
        return trio.current_time()

    handle = await evenhand_runtime.submit(nap, 3600.0, delay_seconds=86400)
    assert await handle.result() == 90000.0


async def test_plain_functions_are_called_in_trios_thread(
    virtual_clock: VirtualClock, evenhand_runtime: Runtime
) -> None:
    @evenhand_runtime.handler("where")
    def where(payload: None) -> str:
        return str(trio.current_time())

    assert await (await evenhand_runtime.submit("where")).result() == "0.0"


async def test_retries_timeouts_and_leases_take_virtual_time(
    virtual_clock: VirtualClock, evenhand_runtime: Runtime
) -> None:
    @evenhand_runtime.handler("hang", timeout_seconds=100, max_retries=2)
    async def hang(payload: None) -> None:
        await trio.sleep_forever()

    with pytest.raises(TaskFailed, match="timed out after 100 s") as raised:
        await (await evenhand_runtime.submit("hang")).result()
    times = [(round(attempt.started_at), round(attempt.ended_at)) for attempt in raised.value.history]
    # After the first failure about 10 s, after the second about 20 s, each plus or minus a fifth.
    assert times[0] == (0, 100)
    assert 108 <= times[1][0] <= 112 and 16 <= times[2][0] - times[1][1] <= 24


async def test_a_runtime_on_virtual_time_refuses_a_real_clock() -> None:
    from sim.testing import virtual_runtime

    with pytest.raises(EvenhandError, match="needs a virtual clock: add `virtual_clock` to the arguments of the test"):
        async with virtual_runtime():
            pass
