"""Between `stop()` and the end of the block: nobody waits for what will not come, and nothing is begun any more."""

from typing import Any

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from actors import InvalidConfig, QueueFull, RuntimeStopped, open_runtime
from actors.trace import Completed, Event
from tests.observing import seeing
from tests.test_stopping import Clock, sleeps

HANG_SECONDS = 1_000


async def test_after_a_stop_whoever_asks_for_what_has_not_ended_is_told_so_at_once(autojump_clock: Clock) -> None:
    async with open_runtime(workers=1) as runtime:
        sleeps(runtime)
        done, left = await runtime.submit("sleep", 1), await runtime.submit("sleep", 1)
        await runtime.stop(grace_seconds=5)
        with trio.fail_after(HANG_SECONDS):
            assert await done.result() == "slept"
            for wait in (left.result, left.wait):
                with pytest.raises(RuntimeStopped, match="default#2 had not ended"):
                    await wait()
        with pytest.raises(RuntimeStopped, match="nothing happens any more"):
            runtime.events()


async def test_whoever_waited_before_a_stop_is_told_when_it_is_over(autojump_clock: Clock) -> None:
    told: list[str] = []
    seen: list[Event] = []

    async def wait(call: Any) -> None:
        with pytest.raises(RuntimeStopped):
            await call()
        told.append("stopped")

    async def watch(events: Any) -> None:
        seen.extend([event async for event in events])

    with trio.fail_after(HANG_SECONDS):
        async with open_runtime(workers=1) as runtime, trio.open_nursery() as nursery:
            sleeps(runtime)
            running, left = await runtime.submit("sleep", 3), await runtime.submit("sleep", 1)
            for call in (left.result, left.wait):
                nursery.start_soon(wait, call)
            nursery.start_soon(watch, runtime.events())
            await wait_all_tasks_blocked()
            await runtime.stop(grace_seconds=5)
            assert runtime.left == (left.task(),), "and what is left is known already"
    assert told == ["stopped", "stopped"]
    assert [event.task for event in seen if isinstance(event, Completed)] == [running.task().identity]


async def test_a_submit_that_waits_at_the_door_is_told_when_the_runtime_has_stopped(autojump_clock: Clock) -> None:
    with trio.fail_after(HANG_SECONDS):
        async with open_runtime(workers=1, admitted_max=1, when_full="wait") as runtime, trio.open_nursery() as nursery:
            await runtime.submit("nobody runs this")

            async def submit_one() -> None:
                with pytest.raises(RuntimeStopped):
                    await runtime.submit("nor this")

            nursery.start_soon(submit_one)
            waiting = runtime.submit_nowait("nor that")
            await wait_all_tasks_blocked()
            await runtime.stop(grace_seconds=1)
            with pytest.raises(RuntimeStopped):
                await waiting.result()
    assert len(runtime.left) == 1


async def test_a_stop_that_is_cancelled_tells_nobody_anything(autojump_clock: Clock) -> None:
    async with open_runtime(workers=1, stop_grace_seconds=60) as runtime:
        sleeps(runtime)
        handle = await runtime.submit("sleep", 10)
        with trio.move_on_after(1):
            await runtime.stop()
        assert await handle.result() == "slept"


@pytest.mark.parametrize("grace", [-1, float("nan"), "x", [1]])
async def test_a_grace_time_that_is_none_is_refused_before_anything_is_closed(
    autojump_clock: Clock, grace: Any
) -> None:
    async with open_runtime(workers=1) as runtime:
        sleeps(runtime)
        with pytest.raises(InvalidConfig, match="grace_seconds must be a number of seconds >= 0, got "):
            await runtime.stop(grace_seconds=grace)
        with pytest.raises(InvalidConfig, match="drain must be true or false, got 'yes'"):
            await runtime.stop(drain="yes")  # type: ignore[arg-type]
        assert await (await runtime.submit("sleep", 1)).result() == "slept"


async def test_no_schedule_fires_once_the_runtime_stops(autojump_clock: Clock) -> None:
    async with open_runtime(workers=1, admitted_max=5) as runtime:
        sleeps(runtime)
        await runtime.schedule("* * * * *", "sleep", 600, timezone="UTC")
        await trio.sleep(61)
        seen = seeing(runtime)
        await runtime.stop(grace_seconds=600)
        runtime._engine.host.restart("timetable")
        await trio.sleep(600)
        assert "ScheduleFired" not in seen.names()
        assert [scheduled.kind for scheduled in runtime.schedules()] == ["sleep"]


async def test_a_runtime_without_a_place_left_still_says_so_before_it_stops(autojump_clock: Clock) -> None:
    async with open_runtime(workers=1, admitted_max=1) as runtime:
        await runtime.submit("nobody runs this")
        with pytest.raises(QueueFull):
            await runtime.submit("nor this")
        await runtime.stop()
        with pytest.raises(RuntimeStopped):
            await runtime.submit("nor that")
