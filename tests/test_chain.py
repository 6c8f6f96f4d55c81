"""The chained style: what each link sets, and what cannot be set any more."""

from collections.abc import Callable
from itertools import product
from typing import Any

import pytest
import trio

from actors import Context, InvalidConfig, Limit, TaskFailed, TaskHandle, UnknownTask, open_runtime
from actors.chain import TaskQueue


async def double(number: int) -> int:
    return 2 * number


async def test_a_chain_sets_up_a_kind_and_feeds_it(autojump_clock: trio.abc.Clock) -> None:
    async with open_runtime(workers=2) as runtime:
        queue = runtime.tq("double").set_worker(double).add(1).add(2, user="alice", priority="high").add(3)
        assert await queue.results() == [2, 4, 6]
        assert all(isinstance(handle, TaskHandle) for handle in queue.handles)
        assert [handle.task().user for handle in queue.handles] == ["default", "alice", "default"]


async def test_a_worker_count_is_how_many_run_at_once(autojump_clock: trio.abc.Clock) -> None:
    running = most = 0

    async def work(payload: None) -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await trio.sleep(1)
        running -= 1

    async with open_runtime(workers=8) as runtime:
        queue = runtime.tq("x").set_worker(work).set_worker_count(3)
        for _ in range(9):
            queue.add()
        began = trio.current_time()
        await queue.results()
        assert most == 3 and trio.current_time() - began == pytest.approx(3)


async def test_a_rate_limit_is_how_many_start_a_second(autojump_clock: trio.abc.Clock) -> None:
    async with open_runtime(workers=8) as runtime:
        queue = runtime.tq("double").set_worker(double).set_rate_limit(2)
        for number in range(8):
            queue.add(number)
        began = trio.current_time()
        await queue.results()
        assert trio.current_time() - began == pytest.approx(3), "two at once, and two a second after that"


async def test_a_timeout_ends_an_execution_and_five_attempts_are_four_retries(autojump_clock: trio.abc.Clock) -> None:
    attempts: list[int] = []

    async def hang(payload: None, context: Context) -> None:
        attempts.append(context.attempt)
        await trio.sleep_forever()

    async with open_runtime(workers=1) as runtime:
        queue = runtime.tq("x").set_worker(hang).set_timeout(30).set_max_attempts(5).add()
        with pytest.raises(TaskFailed, match="after 5 executions: timed out after 30 s"):
            await queue.results()
        task = queue.handles[0].task()
        assert attempts == [1, 2, 3, 4, 5] and task.max_retries == 4
        assert {round(attempt.ended_at - attempt.started_at) for attempt in task.history} == {30}


async def test_one_attempt_is_no_retry(autojump_clock: trio.abc.Clock) -> None:
    async with open_runtime(workers=1) as runtime:
        queue = runtime.tq("x").set_worker(double).set_max_attempts(1).add("x")
        assert queue.handles[0].task().max_retries == 0


@pytest.mark.parametrize("attempts", [0, -1, 1.5, True, "5"])
async def test_attempts_are_a_number_from_one_on(attempts: Any) -> None:
    async with open_runtime(workers=1) as runtime:
        with pytest.raises(InvalidConfig) as refused:
            runtime.tq("x").set_max_attempts(attempts)
        assert str(refused.value) == f"max_attempts must be a whole number >= 1, got {attempts!r}"


async def test_limits_can_be_changed_while_it_runs_each_for_itself(autojump_clock: trio.abc.Clock) -> None:
    async with open_runtime(workers=4) as runtime:
        queue = runtime.tq("double").set_worker(double).set_worker_count(3).set_rate_limit(10).add(1)
        assert runtime.limit(kind="double") == Limit(10, 3)
        queue.set_worker_count(2)
        assert runtime.limit(kind="double") == Limit(10, 2)
        queue.set_rate_limit(None)
        assert runtime.limit(kind="double") == Limit(None, 2)


async def test_a_chain_for_a_kind_that_has_a_handler_leaves_the_limits_it_does_not_name(
    autojump_clock: trio.abc.Clock,
) -> None:
    async with open_runtime(workers=4) as runtime:
        runtime.handler("double", rate_limit=10, concurrency_max=3)(double)
        assert await runtime.tq("double").set_worker_count(2).add(1).results() == [2]
        assert runtime.limit(kind="double") == Limit(10, 2)


@pytest.mark.parametrize("registered", [False, True])
async def test_limits_that_make_no_sense_are_refused_at_once(registered: bool) -> None:
    async with open_runtime(workers=1) as runtime:
        if registered:
            runtime.handler("x", rate_limit=5)(double)
        queue = runtime.tq("x").set_worker(double)
        with pytest.raises(InvalidConfig, match="worker_count of 'x' must be a whole number >= 1, got 0"):
            queue.set_worker_count(0)
        with pytest.raises(InvalidConfig, match="rate_limit must be a finite number > 0, got 0"):
            queue.set_rate_limit(0)
        queue.add(1)
        assert runtime.limit(kind="x") == Limit(5 if registered else None)


async def test_what_the_handler_needs_to_know_cannot_be_set_any_more(autojump_clock: trio.abc.Clock) -> None:
    async with open_runtime(workers=1) as runtime:
        queue = runtime.tq("x").set_worker(double).add(1)

        async def other(payload: None) -> None: ...

        changes: list[tuple[str, Callable[[TaskQueue], Any]]] = [
            ("worker", lambda again: again.set_worker(other)),
            ("timeout", lambda again: again.set_timeout(1)),
            ("max_attempts", lambda again: again.set_max_attempts(2)),
        ]
        for again, (what, change) in product((queue, runtime.tq("x")), changes):
            with pytest.raises(InvalidConfig) as refused:
                change(again)
            assert str(refused.value) == f"{what} of 'x' must be set before its first task is added"


async def test_the_same_chain_can_be_written_twice(autojump_clock: trio.abc.Clock) -> None:
    """By function, and by the handler that a decorator has made of it."""
    async with open_runtime(workers=1) as runtime:
        for _ in range(2):
            assert await runtime.tq("double").set_worker(double).set_worker_count(3).add(4).results() == [8]
        handler = runtime.handlers["double"]
        assert await runtime.tq("double").set_worker(handler).add(5).results() == [10]


async def test_a_handler_of_one_kind_can_be_the_worker_of_another(autojump_clock: trio.abc.Clock) -> None:
    async with open_runtime(workers=1) as runtime:
        handler = runtime.handler("x")(double)
        assert await runtime.tq("y").set_worker(handler).add(5).results() == [10]


async def test_a_worker_that_comes_after_its_first_task_runs_it(autojump_clock: trio.abc.Clock) -> None:
    async with open_runtime(workers=1) as runtime:
        queue = runtime.tq("double").add(1)
        await trio.sleep(100)
        assert queue.handles[0].task().attempts == 0
        queue.set_worker(double)
        with trio.fail_after(10):
            assert await queue.results() == [2]


async def test_a_worker_or_a_kind_that_cannot_be_one_is_refused_at_once(autojump_clock: trio.abc.Clock) -> None:
    async with open_runtime(workers=1) as runtime:
        with pytest.raises(InvalidConfig, match="worker of 'x' must be a function, got 5"):
            runtime.tq("x").set_worker(5)  # type: ignore[arg-type]
        with pytest.raises(InvalidConfig, match="kind must be 1 to 128 printable characters, got ''"):
            runtime.tq("")


async def test_what_is_added_to_a_full_queue_waits_at_the_door(autojump_clock: trio.abc.Clock) -> None:
    async with open_runtime(workers=1, admitted_max=1, when_full="wait") as runtime:
        queue = runtime.tq("double").set_worker(double)
        for number in range(5):
            queue.add(number)
        with pytest.raises(UnknownTask):
            queue.handles[-1].task()
        with trio.fail_after(60):
            assert await queue.results() == [0, 2, 4, 6, 8]
