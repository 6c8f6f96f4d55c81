"""How handlers are run: async ones on virtual time, threads on the real clock, and whatever they raise."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from actors import (
    Cause,
    Context,
    GiveUp,
    Retry,
    RetryPolicy,
    Runtime,
    Status,
    TaskFailed,
    open_runtime,
)
from actors.execution import HandlerExecutor
from actors.handlers import Handler
from actors.messages import Finished, Run
from actors.trace import ActorRestarted, Completed, DeadLettered, Extended, Recovered, Released, Retried, StopIgnored
from tests.observing import seeing

HANG_SECONDS = 30
SOON = RetryPolicy(base_seconds=1.0, jitter=0.0)


# What comes of a handler


async def test_what_a_handler_returns_is_the_result_as_json_gives_it_back(autojump_clock: trio.abc.Clock) -> None:
    async with open_runtime(workers=1) as runtime:

        @runtime.handler("work")
        async def work(payload: Any) -> Any:
            await trio.sleep(1)
            return result

        result: dict[str, Any] = {"pair": [1, 2], "3": None}
        handle = await runtime.submit(work, None)
        kept = await handle.result()
        result["pair"] = "changed"
        assert kept == handle.task().result == {"pair": [1, 2], "3": None}


async def test_a_result_that_is_no_json_fails_the_task_for_good(autojump_clock: trio.abc.Clock) -> None:
    async with open_runtime(workers=1) as runtime:
        executions: list[int] = []

        @runtime.handler("work", retry=SOON)
        async def work(payload: Any) -> Any:
            executions.append(1)
            return object()

        with pytest.raises(TaskFailed) as caught:
            await (await runtime.submit(work, None)).result()
        assert caught.value.error == (
            "InvalidTask: result of 'work' must be a JSON value, got object: Encoding objects of type object is unsupported"
        )
        assert executions == [1], "it would be wrong every time"


async def test_a_handler_that_fails_is_tried_again_when_its_policy_says_so(autojump_clock: trio.abc.Clock) -> None:
    async with open_runtime(workers=1) as runtime:
        at: list[float] = []

        @runtime.handler("work", retry=RetryPolicy(base_seconds=10, factor=3, jitter=0.0, max_retries=2))
        async def work(payload: Any) -> str:
            at.append(trio.current_time())
            if len(at) < 3:
                raise OSError(f"try {len(at)}")
            return "third time lucky"

        handle = await runtime.submit(work, None)
        assert await handle.result() == "third time lucky"
        assert [later - at[0] for later in at] == [0, 10, 40]
        assert [(attempt.outcome, attempt.error) for attempt in handle.task().history] == [
            ("failed", "OSError: try 1"),
            ("failed", "OSError: try 2"),
            ("completed", None),
        ]


async def test_a_handler_says_itself_when_to_try_again_or_never(autojump_clock: trio.abc.Clock) -> None:
    async with open_runtime(workers=1) as runtime:
        at: list[float] = []

        @runtime.handler("work")
        async def work(payload: Any) -> None:
            at.append(trio.current_time())
            if len(at) == 1:
                raise Retry(after=7)
            raise GiveUp("the page is gone")

        handle = await runtime.submit(work, None)
        task = await handle.wait()
        assert (task.status, task.cause, task.error) == (Status.FAILED, Cause.FAILED, "the page is gone")
        assert at[1] - at[0] == 7
        assert task.history[0].error == "retry after 7 s"


async def raise_in_a_nursery(*errors: BaseException) -> None:
    async def fail(error: BaseException) -> None:
        raise error

    async with trio.open_nursery() as nursery:
        for error in errors:
            nursery.start_soon(fail, error)


class Unusual(BaseException):
    """Neither an error nor anybody's business but the handler's."""


def raises(error: BaseException) -> Callable[[Any], Awaitable[None]]:
    async def handler(payload: Any) -> None:
        raise error

    return handler


def raises_in_a_nursery(*errors: BaseException) -> Callable[[Any], Awaitable[None]]:
    async def handler(payload: Any) -> None:
        await raise_in_a_nursery(*errors)

    return handler


def raises_when_cancelled(*errors: BaseException) -> Callable[[Any], Awaitable[None]]:
    """In a child task, so that a group comes of it, with a Cancelled beside."""

    async def child(error: BaseException) -> None:
        try:
            await trio.sleep_forever()
        finally:
            raise error

    async def handler(payload: Any) -> None:
        async with trio.open_nursery() as nursery:
            for error in errors:
                nursery.start_soon(child, error)
            await trio.sleep_forever()

    return handler


async def raises_a_kept_cancelled(payload: Any) -> None:
    """One that is trio's no more: nothing is cancelled where it is raised."""
    kept: trio.Cancelled | None = None
    with trio.CancelScope() as scope:
        scope.cancel()
        try:
            await trio.sleep_forever()
        except trio.Cancelled as cancelled:
            kept = cancelled
    assert kept is not None
    raise kept


async def check_worker_is_well(runtime: Runtime) -> None:
    """The one worker runs the next task, and neither it nor any other actor was restarted."""
    handle = await runtime.run_soon(trio.sleep, 1)
    await handle.result()
    assert runtime.stats().lifetime.restarts == 0


@pytest.mark.parametrize(
    ("handler", "outcome", "error"),
    [
        (raises(ValueError("boom")), "failed", "ValueError: boom"),
        (raises(SystemExit(3)), "crashed", "SystemExit: 3"),
        (raises(asyncio.CancelledError()), "failed", "CancelledError: "),
        (raises(Unusual("odd")), "failed", "Unusual: odd"),
        (raises_in_a_nursery(ValueError("boom")), "failed", "ValueError: boom"),
        (raises_in_a_nursery(SystemExit(3)), "crashed", "SystemExit: 3"),
        (raises_in_a_nursery(SystemExit(3), ValueError("boom")), "crashed", "BaseExceptionGroup: "),
        (raises_in_a_nursery(Unusual("odd"), ValueError("boom")), "failed", "BaseExceptionGroup: "),
        (raises_a_kept_cancelled, "failed", "Cancelled: "),
    ],
    ids=range(9),
)
async def test_whatever_a_handler_raises_ends_its_own_run_and_nothing_else(
    handler: Any, outcome: str, error: str, autojump_clock: trio.abc.Clock
) -> None:
    async with open_runtime(workers=1) as runtime:
        runtime.handler("work", max_retries=0)(handler)
        task = await (await runtime.submit("work")).wait()
        assert task.status is Status.FAILED
        assert task.history[0].outcome == outcome
        assert (task.error or "").startswith(error)
        await check_worker_is_well(runtime)


@pytest.mark.parametrize(
    ("errors", "outcome", "error"),
    [
        ((ValueError("boom"),), "failed", "ValueError: boom"),
        ((SystemExit(3),), "crashed", "SystemExit: 3"),
        ((SystemExit(3), ValueError("boom")), "crashed", "BaseExceptionGroup: "),
        ((Unusual("odd"), ValueError("boom")), "failed", "BaseExceptionGroup: "),
        ((ValueError("one"), ValueError("two")), "failed", "ExceptionGroup: "),
    ],
    ids=range(5),
)
@pytest.mark.parametrize("why", ["timed out", "cancelled"])
async def test_a_group_that_is_raised_while_being_cancelled_ends_its_own_run_and_nothing_else(
    errors: tuple[BaseException, ...], outcome: str, error: str, why: str, autojump_clock: trio.abc.Clock
) -> None:
    async with open_runtime(workers=1) as runtime:
        runtime.handler("work", max_retries=0, timeout_seconds=5.0)(raises_when_cancelled(*errors))
        handle = await runtime.submit("work")
        await wait_all_tasks_blocked()
        if why == "cancelled":
            await handle.cancel()
        task = await handle.wait()
        assert task.status is (Status.CANCELLED if why == "cancelled" else Status.FAILED)
        assert task.history[0].outcome == outcome
        assert (task.error or "").startswith(error)
        await check_worker_is_well(runtime)


async def test_a_task_that_ends_the_program_three_times_is_poisoned(autojump_clock: trio.abc.Clock) -> None:
    async with open_runtime(workers=1) as runtime:
        runtime.handler("work", retry=RetryPolicy(max_retries=9))(raises(SystemExit(3)))
        task = await (await runtime.submit("work")).wait()
        assert (task.cause, task.error, len(task.history)) == (Cause.POISONED, "SystemExit: 3", 3)


# Stopping it


async def test_a_handler_that_takes_too_long_is_cancelled_and_has_failed_with_a_timeout(
    autojump_clock: trio.abc.Clock,
) -> None:
    async with open_runtime(workers=1) as runtime:
        ended: list[float] = []

        @runtime.handler("work", timeout_seconds=2.5, max_retries=0)
        async def work(payload: Any) -> None:
            began = trio.current_time()
            try:
                await trio.sleep(1_000)
            finally:
                ended.append(trio.current_time() - began)

        task = await (await runtime.submit(work, None)).wait()
        assert (task.status, task.error) == (Status.FAILED, "timed out after 2.5 s")
        assert ended == [2.5]
        await check_worker_is_well(runtime)


async def test_retry_policies_know_a_timeout_by_name(autojump_clock: trio.abc.Clock) -> None:
    async with open_runtime(workers=1) as runtime:

        @runtime.handler("work", timeout_seconds=1, retry=RetryPolicy(max_retries=3, give_up_on=(TimeoutError,)))
        async def work(payload: Any) -> None:
            await trio.sleep(1_000)

        assert len((await (await runtime.submit(work, None)).wait()).history) == 1


async def test_a_handler_that_is_told_to_stop_may_say_its_result_all_the_same(
    autojump_clock: trio.abc.Clock,
) -> None:
    async with open_runtime(workers=1) as runtime:

        @runtime.handler("work")
        async def work(payload: Any) -> str:
            try:
                await trio.sleep(1_000)
            except trio.Cancelled:
                return "what I had"
            return "all"

        handle = await runtime.submit(work, None)
        await wait_all_tasks_blocked()
        await handle.cancel()
        assert await handle.result() == "what I had"
        await check_worker_is_well(runtime)


async def test_one_that_is_cancelled_before_its_handler_was_called_is_never_called(
    autojump_clock: trio.abc.Clock,
) -> None:
    async with open_runtime(workers=1) as runtime:
        called: list[Any] = []

        @runtime.handler("work")
        async def work(payload: Any) -> None:
            called.append(payload)

        # Without waiting: the worker has it, and its executor has not come round yet.
        handle = runtime.submit_nowait(work, 1)
        assert handle.task().status is Status.IN_PROGRESS
        with trio.CancelScope() as scope:
            scope.cancel()
            await handle.cancel()
        assert (await handle.wait()).status is Status.CANCELLED
        assert called == []


async def test_a_handler_that_ignores_cancellation_is_reported_and_keeps_its_worker(
    autojump_clock: trio.abc.Clock,
) -> None:
    async with open_runtime(workers=1, cancel_grace_seconds=5.0) as runtime:
        seen = seeing(runtime)

        @runtime.handler("stubborn", timeout_seconds=10, max_retries=0)
        async def stubborn(payload: Any) -> str:
            with trio.CancelScope(shield=True):
                await trio.sleep(100)
            return "too late"

        handle = await runtime.submit(stubborn, None)
        other = await runtime.run_soon(trio.sleep, 1)
        began = trio.current_time()
        task = await handle.wait()
        assert trio.current_time() - began == 15.0, "the timeout, and the grace time"
        assert (task.status, task.error) == (Status.FAILED, "timed out after 10 s")
        [ignored] = seen.of(StopIgnored)
        assert (ignored.task, ignored.worker, ignored.why) == (task.identity, "worker/1", "timed out")
        stats, health = runtime.stats(), runtime.health()
        assert (stats.lifetime.stops_ignored, stats.workers_busy, stats.in_progress) == (1, 1, 0)
        assert health.status == "degraded"
        assert [alert.said for alert in health.alerts if alert.name == "stuck"] == [
            "1 of the executions of the last minutes fell silent or would not stop"
        ]
        assert other.task().status is Status.PENDING
        await other.result()
        assert trio.current_time() - began == 101.0
        assert handle.task() == task, "what it says at last changes nothing"


# Leases and beats


async def test_a_handler_longer_than_its_lease_is_not_recovered_while_its_worker_beats(
    autojump_clock: trio.abc.Clock,
) -> None:
    async with open_runtime(workers=1) as runtime:
        seen = seeing(runtime)

        @runtime.handler("long", lease_seconds=3.0, timeout_seconds=None)
        async def long(payload: Any) -> str:
            await trio.sleep(100.5)
            return "done"

        handle = await runtime.submit(long, None)
        assert await handle.result() == "done"
        assert len(handle.task().history) == 1
        began = handle.task().started_at or 0.0
        beats = [event.at - began for event in seen.of(Extended)]
        assert beats == pytest.approx([float(second) for second in range(1, 101)], abs=1e-3)
        assert seen.of(Recovered) == []


async def test_a_handler_that_blocks_everything_is_not_recovered_when_it_is_over(mock_clock: Any) -> None:
    """Its worker could not beat while nobody could do anything; what was late then is read before leases are judged."""
    async with open_runtime(workers=1) as runtime:
        seen = seeing(runtime)

        @runtime.handler("block", lease_seconds=3.0)
        async def block(payload: Any) -> str:
            mock_clock.jump(1_000.0)
            return "at last"

        assert await (await runtime.submit(block, None)).result() == "at last"
        assert seen.of(Recovered) == []


class LosesBeats:
    """Lets everything through but beats."""

    def envelopes(self, envelope: Any, now: float) -> list[tuple[float, Any]]:
        return [] if type(envelope[2]).__name__ == "Beat" else [(0.0, envelope)]

    def timer(self, address: str, at: float, now: float) -> float:
        return at


async def test_a_worker_whose_beats_are_lost_is_recovered_and_its_late_report_refused_and_counted(
    autojump_clock: trio.abc.Clock,
) -> None:
    async with open_runtime(workers=2) as runtime:
        seen = seeing(runtime)
        runtime._engine.host._gate = LosesBeats()
        said: list[str] = []

        @runtime.handler("work", lease_seconds=3.0)
        async def work(payload: Any, context: Context) -> str:
            await trio.sleep(5 if context.attempt == 1 else 2.5)
            said.append(f"attempt {context.attempt}")
            return said[-1]

        handle = await runtime.submit(work, None)
        assert await handle.result() == "attempt 2"
        await trio.sleep(100)
        task = handle.task()
        assert said == ["attempt 1", "attempt 2"], "the first was still at it"
        assert task.result == "attempt 2"
        assert [(attempt.outcome, attempt.error) for attempt in task.history] == [
            ("recovered", "worker/1 was silent for 3 s"),
            ("completed", None),
        ]
        assert (len(seen.of(Recovered)), len(seen.of(Completed))) == (1, 1)
        lifetime = runtime.stats().lifetime
        assert (lifetime.recovered, lifetime.late_reports) == (1, 1)
        await check_worker_is_well(runtime)


# Workers that crash


async def test_a_worker_that_crashes_is_rebuilt_and_its_run_stopped_counted_and_tried_again(
    autojump_clock: trio.abc.Clock,
) -> None:
    async with open_runtime(workers=1) as runtime:
        seen = seeing(runtime)
        ends: list[str] = []

        @runtime.handler("work", retry=SOON)
        async def work(payload: Any, context: Context) -> str:
            try:
                await trio.sleep(10)
            except trio.Cancelled:
                ends.append("stopped")
                raise
            return f"attempt {context.attempt}"

        handle = await runtime.submit(work, None)
        await wait_all_tasks_blocked()
        runtime.tell("worker/1", "what no worker understands")
        assert await handle.result() == "attempt 2"
        assert ends == ["stopped"]
        assert [attempt.outcome for attempt in handle.task().history] == ["crashed", "completed"]
        [restarted] = seen.of(ActorRestarted)
        assert restarted.actor == "worker/1"
        assert [type(event) for event in seen if isinstance(event, (Retried, Released, DeadLettered))] == [Retried]


async def test_a_run_that_was_not_begun_when_its_worker_crashed_is_not_begun_afterwards(
    autojump_clock: trio.abc.Clock,
) -> None:
    async with open_runtime(workers=1) as runtime:
        attempts: list[int] = []

        @runtime.handler("work", retry=SOON)
        async def work(payload: Any, context: Context) -> None:
            attempts.append(context.attempt)

        handle = runtime.submit_nowait(work, None)
        runtime.tell("worker/1", "what no worker understands")
        await handle.result()
        assert attempts == [2]


# Fair turns


async def test_handlers_that_never_wait_let_others_have_their_turn() -> None:
    with trio.fail_after(HANG_SECONDS):
        async with open_runtime(workers=1) as runtime:
            count = 0

            @runtime.handler("quick", max_retries=0)
            async def quick(payload: Any) -> None:
                nonlocal count
                count += 1
                runtime.submit_nowait("quick")

            runtime.submit_nowait("quick")
            for _ in range(5):
                before = count
                while count == before:
                    await trio.lowlevel.checkpoint()
            await runtime.pause()


async def test_an_executor_says_what_it_is_at() -> None:
    told: list[Any] = []
    handler: Handler[Any, Any] = Handler.of("work", trio.sleep)
    executor = HandlerExecutor(
        "worker/1", {"work": handler}, {}, lambda *message: told.append(message[2]), result_bytes_max=100
    )
    run = Run("t1", "alice", "work", 1, 1, 1_000, 60.0, 1)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(executor.serve)
        assert repr(executor) == "<HandlerExecutor of worker/1: idle>"
        executor.start(run, 0.0, lambda *key: 0.0)
        await wait_all_tasks_blocked()
        assert repr(executor) == "<HandlerExecutor of worker/1: t1>"
        assert executor.stop(run) is None
        await wait_all_tasks_blocked()
        assert told == [Finished(task_id="t1", token=1, worker_id="worker/1", outcome="cancelled")]
        assert not executor.occupied
        assert not executor.abandon(), "there is no thread to be left behind"
