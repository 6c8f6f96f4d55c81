"""Plain functions, which run in threads: on the real clock, waiting for events and never for time."""

import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from actors import Cause, Context, RetryPolicy, Runtime, Status, TaskHandle, open_runtime
from actors.opening import run_runtime
from actors.options import Options
from actors.trace import StopIgnored
from tests.observing import Seen, seeing

HANG_SECONDS = 30


class Held:
    """A handler that waits until it is let go."""

    def __init__(self) -> None:
        self.started = threading.Event()
        self.go = threading.Event()
        self.ended = threading.Event()
        self.saw_stop: bool | None = None

    def __call__(self, payload: Any, context: Context) -> str:
        self.started.set()
        assert self.go.wait(HANG_SECONDS)
        self.saw_stop = context.stopping
        self.ended.set()
        return "at last"

    async def until_started(self) -> None:
        assert await trio.to_thread.run_sync(self.started.wait, HANG_SECONDS)

    async def until_ended(self) -> None:
        self.go.set()
        assert await trio.to_thread.run_sync(self.ended.wait, HANG_SECONDS)


@contextmanager
def held() -> Iterator[Held]:
    handler = Held()
    try:
        yield handler
    finally:
        handler.go.set()


@asynccontextmanager
async def one_worker(**options: Any) -> AsyncIterator[tuple[Runtime, Seen]]:
    with trio.fail_after(HANG_SECONDS):
        async with open_runtime(workers=1, **options) as runtime:
            yield runtime, seeing(runtime)


async def next_one(runtime: Runtime) -> TaskHandle[None]:
    return await runtime.run_soon(trio.lowlevel.checkpoint)


async def test_a_plain_function_runs_in_a_thread_and_what_it_returns_is_the_result() -> None:
    async with one_worker() as (runtime, _):

        @runtime.handler("work")
        def work(payload: int) -> Any:
            thread = threading.current_thread()
            return [payload, thread.name, thread is threading.main_thread()]

        assert await (await runtime.submit(work, 4)).result() == [4, "evenhand work", False]


async def test_threads_run_beside_each_other_as_many_as_there_are_workers() -> None:
    barrier = threading.Barrier(3)
    with trio.fail_after(HANG_SECONDS):
        async with open_runtime(workers=3) as runtime:

            @runtime.handler("meet")
            def meet(payload: Any) -> None:
                barrier.wait(HANG_SECONDS)

            for handle in [await runtime.submit(meet, None) for _ in range(3)]:
                await handle.result()


@pytest.mark.parametrize(
    ("error", "cause", "said"),
    [
        (ValueError("boom"), Cause.FAILED, "ValueError: boom"),
        (SystemExit(3), Cause.FAILED, "SystemExit: 3"),
        (BaseExceptionGroup("both", [SystemExit(3), ValueError("boom")]), Cause.FAILED, "BaseExceptionGroup: both"),
    ],
    ids=repr,
)
async def test_what_a_thread_raises_ends_its_own_run_and_nothing_else(
    error: BaseException, cause: Cause, said: str
) -> None:
    async with one_worker() as (runtime, _):

        @runtime.handler("work", max_retries=0)
        def work(payload: Any) -> None:
            raise error

        task = await (await runtime.submit(work, None)).wait()
        assert (task.cause, (task.error or "")[: len(said)]) == (cause, said)
        await (await next_one(runtime)).result()


async def test_a_thread_that_is_cancelled_is_fenced_at_once_and_keeps_its_slot_until_it_ends() -> None:
    with held() as handler:
        async with one_worker() as (runtime, seen):
            runtime.handler("work")(handler)
            handle = await runtime.submit("work")
            await handler.until_started()
            await handle.cancel()
            task = handle.task()
            assert task.status is Status.CANCELLED, "at once: a thread cannot be waited for"
            assert [event.why for event in seen.of(StopIgnored)] == ["cancelled"]
            other = await next_one(runtime)
            stats = runtime.stats()
            assert (stats.workers_busy, stats.in_progress, stats.pending) == (1, 0, 1), "its slot is taken"
            await handler.until_ended()
            await other.result()
            assert handler.saw_stop
            assert handle.task() == task, "what it returned changes nothing"
            assert runtime.stats().lifetime.abandoned_threads == 0, "it ended while somebody waited for it"


async def test_a_thread_that_takes_too_long_is_fenced_at_once_and_tried_again_elsewhere(mock_clock: MockClock) -> None:
    # The real clock, which can be made to jump: to the timeout, and to the next try.
    mock_clock.rate = 1.0
    with held() as handler:
        async with one_worker(cancel_grace_seconds=1_000.0) as (runtime, seen):
            retry = RetryPolicy(max_retries=1, base_seconds=10.0, jitter=0.0)
            runtime.handler("work", timeout_seconds=5.0, retry=retry)(handler)
            handle = await runtime.submit("work")
            await handler.until_started()
            mock_clock.jump(5.0)
            while not seen.of(StopIgnored):
                await trio.lowlevel.checkpoint()
            task = handle.task()
            assert (task.status, task.error, task.attempts) == (Status.PENDING, "timed out after 5 s", 1)
            assert runtime.stats().workers_busy == 1
            await handler.until_ended()
            await (await next_one(runtime)).result()
            assert handle.task() == task
            mock_clock.jump(10.0)
            assert await handle.result() == "at last"
            assert [attempt.outcome for attempt in handle.task().history] == ["failed", "completed"]


async def test_a_thread_whose_worker_crashed_is_abandoned_and_counted_and_the_new_worker_works_beside_it() -> None:
    with held() as handler:
        async with one_worker() as (runtime, _):
            runtime.handler("work", max_retries=0)(handler)
            handle = await runtime.submit("work")
            await handler.until_started()
            runtime.tell("worker/1", "what no worker understands")
            task = await handle.wait()
            assert (task.status, task.error) == (Status.FAILED, "the worker was restarted")
            assert runtime.stats().lifetime.abandoned_threads == 1
            await (await next_one(runtime)).result()
            await handler.until_ended()
        assert handler.saw_stop, "it could have known"
        assert handle.task() == task


async def test_where_there_are_no_threads_plain_functions_run_as_they_are(autojump_clock: trio.abc.Clock) -> None:
    async with run_runtime(Options(workers=1), resources={}, wall_clock=lambda: 0.0, threads=False) as runtime:
        seen = seeing(runtime)

        @runtime.handler("work")
        def work(payload: Any, context: Context) -> bool:
            context.progress("half way")
            return threading.current_thread() is threading.main_thread()

        handle = await runtime.submit(work, None)
        assert await handle.result() is True
        assert handle.task().progress == "half way"
        assert seen.of(StopIgnored) == []
