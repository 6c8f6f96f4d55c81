"""The end of a runtime: grace, drain, what is given back, who ignores it, and what Ctrl-C does."""

import threading
from collections.abc import Callable
from typing import Any

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from actors import (
    ActorFailed,
    Context,
    QueueFull,
    RetryPolicy,
    Runtime,
    RuntimeStopped,
    Status,
    Task,
    TaskHandle,
    open_runtime,
)
from actors.trace import Completed, Released, Started, StopIgnored
from tests.observing import seeing
from tests.test_threads import HANG_SECONDS, held

Clock = trio.abc.Clock


class Stopwatch:
    """How long it is since it was made, on trio's clock."""

    def __init__(self) -> None:
        self.began = trio.current_time()

    def __call__(self) -> float:
        return round(trio.current_time() - self.began, 6)


def sleeps(runtime: Runtime, kind: str = "sleep", **options: Any) -> None:
    """A handler whose payload is how many seconds it takes."""

    @runtime.handler(kind, **options)
    async def sleep(seconds: float) -> str:
        await trio.sleep(seconds)
        return "slept"


def stands(handles: list[TaskHandle[Any]]) -> list[str]:
    return [handle.task().status.value for handle in handles]


def check_given_back(task: Task) -> None:
    """As if it had never been started, but for its history."""
    assert (task.status, task.attempts, task.worker_id is not None) == (Status.PENDING, 0, True)
    assert (task.run_after, task.lease_until, task.error, task.cause) == (None, None, None, None)
    assert [attempt.outcome for attempt in task.history] == ["released"]


# In order


async def test_leaving_the_block_lets_what_runs_end_and_starts_nothing_more(autojump_clock: Clock) -> None:
    async with open_runtime(workers=2, stop_grace_seconds=30) as runtime:
        sleeps(runtime)
        handles = [await runtime.submit("sleep", seconds) for seconds in (5, 20, 1)]
        elapsed = Stopwatch()
    assert stands(handles) == ["completed", "completed", "pending"]
    assert elapsed() == 20, "and not longer"
    assert [task.id for task in runtime.left] == [handles[2].id]
    assert handles[2].task().attempts == 0


async def test_what_has_not_ended_within_the_grace_time_is_given_back_with_its_attempt(autojump_clock: Clock) -> None:
    async with open_runtime(workers=2, stop_grace_seconds=3) as runtime:
        seen = seeing(runtime)
        sleeps(runtime)
        handles = [await runtime.submit("sleep", seconds) for seconds in (2, 100)]
        elapsed = Stopwatch()
    assert elapsed() == 3
    assert stands(handles) == ["completed", "pending"]
    check_given_back(handles[1].task())
    assert [event.worker for event in seen.of(Released)] == ["worker/2"]
    assert runtime.left == (handles[1].task(),)


async def test_draining_runs_what_waits_too_retries_included(autojump_clock: Clock) -> None:
    async with open_runtime(workers=1, stop_grace_seconds=1_000, drain=True) as runtime:
        sleeps(runtime)

        @runtime.handler("flaky", retry=RetryPolicy(base_seconds=60, jitter=0.0))
        async def flaky(payload: Any, context: Context) -> None:
            if context.attempt == 1:
                raise ValueError("boom")

        handles = [await runtime.submit("sleep", 10) for _ in range(5)]
        handles.append(await runtime.submit(flaky, None))
        elapsed = Stopwatch()
    assert set(stands(handles)) == {"completed"}
    assert elapsed() == 110
    assert runtime.left == ()


async def test_draining_gives_up_at_the_end_of_the_grace_time(autojump_clock: Clock) -> None:
    async with open_runtime(workers=1, stop_grace_seconds=25, drain=True) as runtime:
        sleeps(runtime)
        handles = [await runtime.submit("sleep", 10) for _ in range(5)]
    assert stands(handles) == ["completed", "completed", "pending", "pending", "pending"]
    check_given_back(handles[2].task())


async def test_draining_runs_those_who_wait_at_the_door_too(autojump_clock: Clock) -> None:
    """The one that is in ends before the next comes in: for a moment there is nothing left to do."""
    results: list[str] = []
    async with trio.open_nursery() as nursery:
        async with open_runtime(workers=1, admitted_max=1, when_full="wait", drain=True) as runtime:
            sleeps(runtime)

            async def submit_one() -> None:
                results.append(await (await runtime.submit("sleep", 1)).result())

            for _ in range(4):
                nursery.start_soon(submit_one)
            await wait_all_tasks_blocked()
        assert runtime.left == ()
    assert results == ["slept"] * 4


async def test_whoever_still_waits_when_it_is_over_is_told_so(autojump_clock: Clock) -> None:
    told: list[str] = []

    async def tell(wait: Callable[[], Any]) -> None:
        with pytest.raises(RuntimeStopped) as caught:
            await wait()
        told.append(str(caught.value))

    async with trio.open_nursery() as nursery:
        async with open_runtime(workers=1, admitted_max=1, when_full="wait", stop_grace_seconds=1) as runtime:
            sleeps(runtime)
            handle = await runtime.submit("sleep", 100)
            nursery.start_soon(tell, handle.result)
            nursery.start_soon(tell, lambda: runtime.submit("sleep", 1))
            await wait_all_tasks_blocked()
            stream = runtime.events()
            elapsed = Stopwatch()
        assert elapsed() == 1
    assert len(told) == 2
    assert [event async for event in stream][-1:] != [], "a stream ends, after the last event"
    with pytest.raises(RuntimeStopped, match=r"^the runtime has stopped, or stops, and takes no more orders$"):
        await runtime.submit("sleep", 1)


# Stopping before the block is left


async def test_a_runtime_that_stops_takes_no_more_orders_and_can_still_be_looked_at(autojump_clock: Clock) -> None:
    async with open_runtime(workers=1) as runtime:
        sleeps(runtime)
        handle = await runtime.submit("sleep", 5)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(runtime.stop)
            await wait_all_tasks_blocked()
            with pytest.raises(RuntimeStopped):
                await runtime.submit("sleep", 5)
            assert await handle.result() == "slept", "whoever waits is told"
        assert runtime.stats().lifetime.completed == 1
        assert handle.task().status is Status.COMPLETED


async def test_a_second_stop_with_less_patience_ends_the_first(autojump_clock: Clock) -> None:
    async with open_runtime(workers=2) as runtime:
        sleeps(runtime)
        handles = [await runtime.submit("sleep", 1_000) for _ in range(2)]
        elapsed = Stopwatch()
        ended: list[float] = []

        async def stop(grace_seconds: float) -> None:
            await runtime.stop(grace_seconds)
            ended.append(elapsed())

        async with trio.open_nursery() as nursery:
            nursery.start_soon(stop, 500)
            await trio.sleep(7)
            nursery.start_soon(stop, 3)
        assert ended == [10, 10]
        assert stands(handles) == ["pending", "pending"]
    assert elapsed() == 10, "and there is nothing left to wait for"


async def test_a_second_stop_that_is_cancelled_leaves_the_first_alone(autojump_clock: Clock) -> None:
    async with open_runtime(workers=1) as runtime:
        sleeps(runtime)
        handle = await runtime.submit("sleep", 20)
        elapsed = Stopwatch()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(runtime.stop, 100)
            await wait_all_tasks_blocked()
            with trio.move_on_after(5):
                await runtime.stop(100)
        assert elapsed() == 20
        assert handle.task().status is Status.COMPLETED


async def test_a_stop_that_is_cancelled_can_be_made_again(autojump_clock: Clock) -> None:
    async with open_runtime(workers=1) as runtime:
        sleeps(runtime)
        handle = await runtime.submit("sleep", 1_000)
        with trio.move_on_after(5):
            await runtime.stop(100)
        assert handle.task().status is Status.IN_PROGRESS
        await runtime.stop(0)
        check_given_back(handle.task())


async def test_a_handler_may_stop_its_own_runtime(autojump_clock: Clock) -> None:
    async with open_runtime(workers=2) as runtime:
        sleeps(runtime)

        @runtime.handler("stop")
        async def stop(payload: Any) -> None:
            await runtime.stop(10)

        other = await runtime.submit("sleep", 5)
        handle = await runtime.submit(stop, None)
        elapsed = Stopwatch()
        await trio.sleep(20)
        assert other.task().status is Status.COMPLETED
        check_given_back(handle.task())
    assert elapsed() == 20


# Blocks that are left in haste


async def test_a_block_that_raises_gives_back_at_once_and_raises_what_it_did(autojump_clock: Clock) -> None:
    handles: list[TaskHandle[Any]] = []
    elapsed = Stopwatch()
    with pytest.raises(QueueFull, match=r"^mine$"):
        async with open_runtime(workers=1) as runtime:
            sleeps(runtime)
            handles.append(await runtime.submit("sleep", 100))
            raise QueueFull("mine")
    assert elapsed() == 0
    check_given_back(handles[0].task())


async def test_a_block_that_is_cancelled_gives_back_at_once(autojump_clock: Clock) -> None:
    handles: list[TaskHandle[Any]] = []
    elapsed = Stopwatch()
    with trio.move_on_after(3) as scope:
        async with open_runtime(workers=1) as runtime:
            sleeps(runtime)
            handles.append(await runtime.submit("sleep", 100))
            await trio.sleep_forever()
    assert scope.cancelled_caught
    assert elapsed() == 3
    check_given_back(handles[0].task())


# Who ignores it


async def test_a_handler_that_cleans_up_in_time_is_given_back_and_not_reported(autojump_clock: Clock) -> None:
    async with open_runtime(workers=1, stop_grace_seconds=0, cancel_grace_seconds=5) as runtime:
        seen = seeing(runtime)

        @runtime.handler("tidy")
        async def tidy(payload: Any) -> None:
            try:
                await trio.sleep_forever()
            finally:
                with trio.CancelScope(shield=True):
                    await trio.sleep(4)

        handle = await runtime.submit(tidy, None)
        await wait_all_tasks_blocked()
        elapsed = Stopwatch()
    assert elapsed() == 4
    check_given_back(handle.task())
    assert seen.of(StopIgnored) == []


async def test_a_handler_that_ignores_the_end_is_fenced_reported_given_back_and_waited_for(
    autojump_clock: Clock,
) -> None:
    """Trio cannot end a task that will not: the block is left when it has ended, and nothing it says then counts."""
    ended: list[float] = []
    async with open_runtime(workers=2, stop_grace_seconds=3, cancel_grace_seconds=5) as runtime:
        seen = seeing(runtime)
        elapsed = Stopwatch()
        sleeps(runtime)

        @runtime.handler("stubborn")
        async def stubborn(payload: Any) -> str:
            with trio.CancelScope(shield=True):
                await trio.sleep(60)
            ended.append(elapsed())
            return "too late"

        handle = await runtime.submit(stubborn, None)
        other = await runtime.submit("sleep", 100)
    assert (elapsed(), ended) == (60, [60])
    check_given_back(handle.task())
    check_given_back(other.task())
    [ignored] = seen.of(StopIgnored)
    assert ignored.at - handle.task().created_at == pytest.approx(8.0)
    assert ignored.why == "released"
    assert seen.of(Completed) == []
    assert len(seen.of(Started)) == 2, "nothing was started in a runtime that ends"


async def test_a_thread_that_goes_on_is_abandoned_counted_reported_and_its_task_given_back() -> None:
    with trio.fail_after(HANG_SECONDS), held() as handler:
        async with open_runtime(workers=1, stop_grace_seconds=0) as runtime:
            seen = seeing(runtime)
            runtime.handler("work")(handler)
            handle = await runtime.submit("work")
            await handler.until_started()
        assert not handler.ended.is_set(), "nobody waited for it"
        check_given_back(handle.task())
        assert runtime.stats().lifetime.abandoned_threads == 1
        assert [event.why for event in seen.of(StopIgnored)] == ["released"]
        assert [alert.name for alert in runtime.health().alerts] == ["stuck"]
        await handler.until_ended()
        assert handler.saw_stop
        check_given_back(handle.task())


async def test_a_thread_that_was_fenced_before_is_not_waited_for(mock_clock: Any) -> None:
    mock_clock.rate = 1.0
    with trio.fail_after(HANG_SECONDS), held() as handler:
        async with open_runtime(workers=1, stop_grace_seconds=10_000) as runtime:
            runtime.handler("work", timeout_seconds=5, max_retries=0)(handler)
            handle = await runtime.submit("work")
            await handler.until_started()
            mock_clock.jump(5)
            assert (await handle.wait()).error == "timed out after 5 s"
        assert not handler.ended.is_set()
        assert runtime.stats().lifetime.abandoned_threads == 1


async def test_a_thread_that_ends_within_the_grace_time_is_waited_for() -> None:
    with trio.fail_after(HANG_SECONDS), held() as handler:
        async with open_runtime(workers=1) as runtime:
            runtime.handler("work")(handler)
            handle = await runtime.submit("work")
            await handler.until_started()
            threading.Timer(0, handler.go.set).start()
        assert handle.task().result == "at last"
        assert runtime.stats().lifetime.abandoned_threads == 0


# Ctrl-C, and failures


async def test_ctrl_c_in_a_handler_ends_the_runtime_and_gives_back_all_that_ran(autojump_clock: Clock) -> None:
    handles: list[TaskHandle[Any]] = []
    elapsed = Stopwatch()
    with pytest.raises(KeyboardInterrupt):
        async with open_runtime(workers=2) as runtime:
            seen = seeing(runtime)
            sleeps(runtime)

            @runtime.handler("interrupted")
            async def interrupted(payload: Any) -> None:
                await trio.sleep(2)
                raise KeyboardInterrupt

            handles.append(await runtime.submit(interrupted, None))
            handles.append(await runtime.submit("sleep", 100))
            handles.append(await runtime.submit("sleep", 100))
            await handles[0].wait()
    assert elapsed() == 2
    check_given_back(handles[0].task())
    check_given_back(handles[1].task())
    assert stands(handles) == ["pending"] * 3
    assert len(seen.of(Started)) == 2, "what was given back is not started by another worker"


async def test_ctrl_c_in_a_thread_ends_the_runtime_and_threads_beside_it_are_counted() -> None:
    def interrupted(payload: Any) -> None:
        assert handler.started.wait(HANG_SECONDS)
        raise KeyboardInterrupt

    with trio.fail_after(HANG_SECONDS), held() as handler:
        with pytest.raises(KeyboardInterrupt):
            async with open_runtime(workers=2) as runtime:
                runtime.handler("work")(handler)
                runtime.handler("interrupted")(interrupted)
                handles = [await runtime.submit(kind) for kind in ("work", "interrupted")]
                await trio.sleep_forever()
        assert runtime.stats().lifetime.abandoned_threads == 1
        for handle in handles:
            check_given_back(handle.task())


async def test_an_exit_in_a_handler_is_a_crash_of_that_task_only(autojump_clock: Clock) -> None:
    async with open_runtime(workers=1) as runtime:
        sleeps(runtime)

        @runtime.handler("exit", max_retries=0)
        async def leave(payload: Any) -> None:
            raise SystemExit(1)

        handle = await runtime.submit(leave, None)
        assert (await handle.wait()).history[0].outcome == "crashed"
        assert await (await runtime.submit("sleep", 1)).result() == "slept"


async def test_a_runtime_that_fails_cancels_the_block_and_says_why_and_nobody_waits_for_ever(
    autojump_clock: Clock,
) -> None:
    told: list[str] = []
    ended: list[str] = []

    async def tell(wait: Callable[[], Any]) -> None:
        with pytest.raises(RuntimeStopped) as caught:
            await wait()
        told.append(str(caught.value))

    async with trio.open_nursery() as nursery:
        with pytest.raises(ActorFailed, match=r" crashed \d+ times in 5 s"):
            async with open_runtime(workers=1) as runtime:
                sleeps(runtime)
                handle = await runtime.submit("sleep", 100)
                nursery.start_soon(tell, handle.result)
                await wait_all_tasks_blocked()
                for _ in range(20):
                    runtime.tell("worker/1", "what no worker understands")
                nursery.start_soon(tell, lambda: runtime.cancel(handle.id))
                try:
                    await trio.sleep_forever()
                finally:
                    ended.append("the block")
    assert ended == ["the block"]
    assert len(told) == 2
