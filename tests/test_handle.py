"""A handle: waiting for a task alone and together, what its end is called, and the warning that nobody is left to run it."""

import warnings
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import pytest
import trio
import trio.testing
from hypothesis import given, settings
from hypothesis import strategies as st

from actors import (
    Context,
    EvenhandError,
    PoolIsFull,
    RetryPolicy,
    Runtime,
    RuntimeStopped,
    Status,
    TaskCancelled,
    TaskFailed,
    TaskHandle,
    open_runtime,
)

T = TypeVar("T")

ENDS_AT = 10.5


def on_virtual_time(program: Callable[[], Awaitable[T]]) -> T:
    """Run a program of its own, for properties: a fixture would be shared by all examples. One that hangs fails."""

    async def main() -> T:
        with trio.fail_after(10_000_000):
            return await program()

    return trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))


# Waiting


@given(st.lists(st.tuples(st.integers(0, 20), st.none() | st.integers(0, 20)), max_size=8))
@settings(max_examples=60)
def test_whoever_waits_hears_the_end_unless_it_gave_up_before(waits: list[tuple[int, int | None]]) -> None:
    """Each waits from one time on, and gives up at another or never; the task ends in between, whatever they do."""

    async def program() -> list[str]:
        heard = ["nothing"] * len(waits)
        async with open_runtime(workers=1) as runtime:
            runtime.handler("sleep")(trio.sleep)
            handle = await runtime.submit("sleep", ENDS_AT)
            began = trio.current_time()

            async def wait(place: int, since: int, until: int | None) -> None:
                await trio.sleep_until(began + since)
                scope = trio.CancelScope() if until is None else trio.CancelScope(deadline=began + until)
                with scope:
                    await handle.result()
                    heard[place] = "the end at once" if since > ENDS_AT else "the end"

            async with trio.open_nursery() as nursery:
                for place, (since, until) in enumerate(waits):
                    nursery.start_soon(wait, place, since, until)
            task = await handle.wait()
            assert task.completed_at is not None and task.started_at is not None
            assert task.completed_at - task.started_at == pytest.approx(ENDS_AT)
        return heard

    def expected(since: int, until: int | None) -> str:
        if until is not None and until <= max(since, ENDS_AT):
            return "nothing"
        return "the end at once" if since > ENDS_AT else "the end"

    assert on_virtual_time(program) == [expected(since, until) for since, until in waits]


async def test_waiting_can_be_given_up_and_taken_up_again(autojump_clock: trio.abc.Clock) -> None:
    async with open_runtime(workers=1) as runtime:
        runtime.handler("sleep")(trio.sleep)
        handle = await runtime.submit("sleep", 10)
        for _ in range(3):
            with trio.move_on_after(1) as gave_up:
                await handle.result()
            assert gave_up.cancelled_caught and handle.task().status is Status.IN_PROGRESS
        assert await handle.result() is None
        assert await handle.result() is None
        assert len(handle.task().history) == 1


async def test_waiting_is_a_checkpoint_also_for_what_has_ended(autojump_clock: trio.abc.Clock) -> None:
    async with open_runtime(workers=1) as runtime:
        runtime.handler("sleep")(trio.sleep)
        handle = await runtime.submit("sleep", 1)
        await handle.wait()
        with trio.testing.assert_checkpoints():
            await handle.result()
        with trio.CancelScope() as scope:
            scope.cancel()
            await handle.result()
        assert scope.cancelled_caught


async def test_a_task_that_ends_just_as_somebody_begins_to_wait_is_not_missed(
    mock_clock: trio.testing.MockClock,
) -> None:
    """Its time is over, and who asks about it is there before the timer that would have said so."""
    async with open_runtime(workers=1) as runtime:
        handle = await runtime.submit("nobody runs this", expires_after_seconds=10)
        await trio.testing.wait_all_tasks_blocked()
        status = "it was waited for in vain"

        async def give_up_when_nothing_happens() -> None:
            await trio.testing.wait_all_tasks_blocked()
            nursery.cancel_scope.cancel()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(give_up_when_nothing_happens)
            mock_clock.jump(10)
            status = (await handle.wait()).status
        assert status == "failed"


async def test_waiting_outlasts_the_crash_of_the_shard(autojump_clock: trio.abc.Clock) -> None:
    async with open_runtime(workers=1) as runtime:
        runtime.handler("sleep")(trio.sleep)
        handle = await runtime.submit("sleep", 10, user="alice")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(handle.result)
            await trio.sleep(1)
            runtime.tell("shard/alice", "what is this?")
            await trio.sleep(1)
            assert len(runtime.undelivered()) == 1
        assert handle.task().status is Status.COMPLETED


# How it ended


async def test_a_result_that_never_comes_says_what_happened_and_every_try(autojump_clock: trio.abc.Clock) -> None:
    async with open_runtime(workers=1) as runtime:

        @runtime.handler("x", retry=RetryPolicy(base_seconds=5, factor=1, jitter=0, max_retries=2))
        async def fails(payload: None, context: Context) -> None:
            await trio.sleep(1)
            raise ValueError(f"boom {context.attempt}")

        handle = await runtime.submit("x", user="alice")
        for _ in range(2):
            with pytest.raises(TaskFailed) as failed:
                await handle.result()
            error = failed.value
            assert str(error) == "alice#1 failed after 3 executions: ValueError: boom 3"
            assert error.error == "ValueError: boom 3" and error.task is handle.task()
            assert [attempt.error for attempt in error.history] == [f"ValueError: boom {n}" for n in (1, 2, 3)]
            began = error.history[0].started_at
            times = [(attempt.started_at - began, attempt.ended_at - began) for attempt in error.history]
            assert times == [pytest.approx(pair) for pair in [(0, 1), (6, 7), (12, 13)]]
        assert not isinstance(failed.value, TaskCancelled) and isinstance(failed.value, EvenhandError)


async def test_one_execution_is_called_one(autojump_clock: trio.abc.Clock) -> None:
    async with open_runtime(workers=1) as runtime:

        @runtime.handler("x", max_retries=0)
        async def fails(payload: None) -> None:
            raise ValueError("boom")

        handle = await runtime.submit("x", user="alice")
        with pytest.raises(TaskFailed) as failed:
            await handle.result()
        assert str(failed.value) == "alice#1 failed after 1 execution: ValueError: boom"
        assert repr(handle) == f"<TaskHandle {handle.id}>"


async def test_a_task_that_hangs_is_ended_by_its_timeout(autojump_clock: trio.abc.Clock) -> None:
    async with open_runtime(workers=1) as runtime:

        @runtime.handler("x", timeout_seconds=7, lease_seconds=2, max_retries=0)
        async def hangs(payload: None) -> None:
            await trio.sleep_forever()

        began = trio.current_time()
        with pytest.raises(TaskFailed, match="timed out after 7 s"):
            await (await runtime.submit("x")).result()
        assert trio.current_time() - began == pytest.approx(7)


async def test_a_task_that_is_given_back_at_the_end_is_told_so_to_whoever_waits(autojump_clock: trio.abc.Clock) -> None:
    said: list[str] = []

    async def wait(handle: TaskHandle[Any]) -> None:
        with pytest.raises(RuntimeStopped) as stopped:
            await handle.result()
        said.append(str(stopped.value))

    async with trio.open_nursery() as nursery, open_runtime(workers=1, stop_grace_seconds=0) as runtime:
        runtime.handler("sleep")(trio.sleep)
        handle = await runtime.submit("sleep", 1_000, user="alice")
        nursery.start_soon(wait, handle)
        nursery.start_soon(wait, handle)
        await trio.sleep(1)
    assert said == ["the runtime has stopped"] * 2
    with trio.fail_after(60), pytest.raises(RuntimeStopped) as stopped:
        await handle.result()
    assert str(stopped.value) == "the runtime has stopped, and alice#1 had not ended"


async def test_a_result_can_be_read_after_the_block(autojump_clock: trio.abc.Clock) -> None:
    async with open_runtime(workers=1) as runtime:
        runtime.handler("sleep")(trio.sleep)
        handle = await runtime.submit("sleep", 1)
    assert await handle.result() is None


# Waiting for a task of one's own runtime


@contextmanager
def warned() -> Iterator[list[warnings.WarningMessage]]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield caught


async def leaf(payload: Any) -> str:
    return "leaf"


async def wait_itself(runtime: Runtime) -> None:
    with trio.move_on_after(1):
        await (await runtime.submit("leaf")).result()


async def wait_in_a_task_of_its_own(runtime: Runtime) -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(wait_itself, runtime)


async def wait_for_the_record(runtime: Runtime) -> None:
    handle = await runtime.submit("leaf")
    with trio.move_on_after(1):
        await handle.wait()
    with trio.move_on_after(1):
        await runtime.wait(handle.id)


@pytest.mark.parametrize(("way", "times"), [(wait_itself, 1), (wait_in_a_task_of_its_own, 1), (wait_for_the_record, 2)])
async def test_a_handler_that_waits_while_the_pool_is_full_is_warned(
    way: Callable[[Runtime], Awaitable[None]], times: int, autojump_clock: trio.abc.Clock
) -> None:
    async with open_runtime(workers=2) as runtime:

        @runtime.handler("parent")
        async def parent(payload: None) -> None:
            await trio.sleep(1)
            await way(runtime)

        runtime.handler("sleep")(trio.sleep)
        runtime.handler("leaf")(leaf)
        with warned() as caught:
            await runtime.submit("sleep", 100)
            await (await runtime.submit("parent")).result()
        assert [(warning.category, str(warning.message)) for warning in caught] == [
            (PoolIsFull, "a handler waits for a task of its own runtime while all 2 workers are busy")
        ] * times
        assert {warning.filename for warning in caught} == {__file__}, "the warning is about the handler's own line"


async def test_nobody_is_warned_while_a_worker_is_free(autojump_clock: trio.abc.Clock) -> None:
    async with open_runtime(workers=2) as runtime:

        @runtime.handler("parent")
        async def parent(payload: None) -> str:
            result: str = await (await runtime.submit("leaf")).result()
            return result

        runtime.handler("leaf", rate_limit=0.1)(leaf)
        with warned() as caught:
            await (await runtime.submit("leaf")).result()
            assert await (await runtime.submit("parent")).result() == "leaf"
        assert caught == []


async def test_whoever_is_no_handler_of_this_runtime_may_wait_as_it_likes(autojump_clock: trio.abc.Clock) -> None:
    """From outside, and from a handler of another runtime."""
    async with open_runtime(workers=1) as inner, open_runtime(workers=1) as outer:

        @outer.handler("parent")
        async def parent(payload: None) -> None:
            await trio.sleep(1)
            await (await inner.submit("sleep", 1)).result()

        inner.handler("sleep")(trio.sleep)
        with warned() as caught:
            await (await inner.submit("sleep", 10)).wait()
            await inner.submit("sleep", 10)
            await (await outer.submit("parent")).result()
        assert caught == []


async def test_a_task_that_has_ended_is_no_reason_to_warn(autojump_clock: trio.abc.Clock) -> None:
    async with open_runtime(workers=1) as runtime:
        runtime.handler("leaf")(leaf)
        ended = await runtime.submit("leaf")
        await ended.wait()

        @runtime.handler("parent")
        async def parent(payload: None) -> str:
            result: str = await ended.result()
            return result

        with warned() as caught:
            assert await (await runtime.submit("parent")).result() == "leaf"
        assert caught == []


# Whose exception it is


def raise_group() -> None:
    raise ExceptionGroup("two", [ValueError("a"), TypeError("b")])


def raise_exit() -> None:
    raise SystemExit(3)


def raise_stop() -> None:
    raise StopIteration


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


def raise_unspeakable() -> None:
    raise Unspeakable


@pytest.mark.parametrize("act", [raise_group, raise_exit, raise_stop, raise_unspeakable])
async def test_a_handlers_exception_is_its_tasks_alone(act: Callable[[], None], autojump_clock: trio.abc.Clock) -> None:
    async with open_runtime(workers=2) as runtime:

        @runtime.handler("x", max_retries=0)
        async def raises(payload: None) -> None:
            await trio.sleep(1)
            act()

        runtime.handler("sleep")(trio.sleep)
        other = await runtime.submit("sleep", 5, user="bob")
        with pytest.raises(TaskFailed):
            await (await runtime.submit("x", user="alice")).result()
        assert await other.result() is None
        assert len(other.task().history) == 1, "it was not disturbed"
        assert await (await runtime.submit("sleep", 1, user="alice")).result() is None


async def test_an_exception_from_a_handlers_own_nursery_is_its_tasks_alone(autojump_clock: trio.abc.Clock) -> None:
    async with open_runtime(workers=1) as runtime:

        @runtime.handler("x", max_retries=0)
        async def raises(payload: None) -> None:
            async def boom() -> None:
                raise ValueError("boom")

            async with trio.open_nursery() as nursery:
                nursery.start_soon(boom)
                await trio.sleep_forever()

        with pytest.raises(TaskFailed, match="ValueError: boom"):
            await (await runtime.submit("x")).result()
