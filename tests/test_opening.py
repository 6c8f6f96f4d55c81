"""The block of a runtime: what is in it, how it ends, what is left, and what it is to come too late."""

import threading
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import trio
import trio.testing

from actors import (
    ActorFailed,
    Context,
    InvalidConfig,
    KindOptions,
    NewTask,
    Options,
    Runtime,
    RuntimeStopped,
    Status,
    open_runtime,
)
from actors.opening import run_runtime


async def echo(payload: Any) -> Any:
    return payload


# How it ends


async def test_the_block_ends_when_what_runs_has_ended(autojump_clock: trio.abc.Clock) -> None:
    async with open_runtime(workers=2) as runtime:
        runtime.handler("sleep")(trio.sleep)
        handles = await runtime.submit_many([NewTask("sleep", 10) for _ in range(3)])
        await trio.sleep(1)
        began = trio.current_time()
    assert trio.current_time() - began == pytest.approx(9)
    assert [handle.task().status for handle in handles[:2]] == [Status.COMPLETED] * 2
    assert runtime.left == (handles[2].task(),)
    (left,) = runtime.left
    assert (left.status, left.attempts) == (Status.PENDING, 0)


async def test_with_drain_what_waits_is_run_too(autojump_clock: trio.abc.Clock) -> None:
    async with open_runtime(workers=2, drain=True, stop_grace_seconds=100) as runtime:
        runtime.handler("sleep")(trio.sleep)
        handles = await runtime.submit_many([NewTask("sleep", 10) for _ in range(5)])
    assert {handle.task().status for handle in handles} == {Status.COMPLETED} and runtime.left == ()


async def test_what_is_not_done_within_the_grace_time_is_given_back_with_its_attempt(
    autojump_clock: trio.abc.Clock,
) -> None:
    stopped_at: list[float] = []
    async with open_runtime(workers=1, stop_grace_seconds=20) as runtime:

        @runtime.handler("long", timeout_seconds=None)
        async def long(payload: None) -> None:
            try:
                await trio.sleep_forever()
            finally:
                stopped_at.append(trio.current_time())

        await runtime.submit_many([NewTask("long", user=user) for user in ("alice", "bob")])
        await trio.sleep(1)
        began = trio.current_time()
    assert stopped_at == [pytest.approx(began + 20)] and trio.current_time() == pytest.approx(began + 20)
    assert [(task.user, task.status, task.attempts) for task in runtime.left] == [
        ("alice", Status.PENDING, 0),
        ("bob", Status.PENDING, 0),
    ]
    (attempt,) = runtime.left[0].history
    assert attempt.outcome == "released"


async def test_a_runtime_can_be_stopped_before_its_block_ends(autojump_clock: trio.abc.Clock) -> None:
    async with open_runtime(workers=1) as runtime:
        runtime.handler("sleep")(trio.sleep)
        handle = await runtime.submit("sleep", 5)
        await runtime.stop(grace_seconds=10)
        assert await handle.result() is None
        with pytest.raises(RuntimeStopped, match="the runtime has stopped, or stops, and takes no more orders"):
            await runtime.submit("sleep", 5)


async def test_a_handler_that_will_not_stop_is_waited_for_but_its_task_is_given_back_before(
    autojump_clock: trio.abc.Clock,
) -> None:
    async with open_runtime(workers=1, stop_grace_seconds=0, cancel_grace_seconds=5) as runtime:

        @runtime.handler("stubborn")
        async def stubborn(payload: None) -> None:
            with trio.CancelScope(shield=True):
                await trio.sleep(50)

        handle = await runtime.submit("stubborn")
        began = trio.current_time()
        await runtime.stop()
        assert trio.current_time() - began == pytest.approx(5)
        assert handle.task().status is Status.PENDING
    assert trio.current_time() - began == pytest.approx(50)
    assert runtime.left == (handle.task(),)


async def test_a_thread_that_goes_on_does_not_hold_up_the_end() -> None:
    begun, end = threading.Event(), threading.Event()
    with trio.fail_after(30):
        async with open_runtime(workers=1, stop_grace_seconds=0, cancel_grace_seconds=0) as runtime:

            @runtime.handler("x")
            def blocks(payload: None) -> None:
                begun.set()
                end.wait(30)

            await runtime.submit("x")
            await trio.to_thread.run_sync(begun.wait)
        assert [task.status for task in runtime.left] == [Status.PENDING]
        end.set()


# How it ends by an exception


class Boom(Exception):
    """Somebody's own."""


@pytest.mark.parametrize(
    "error",
    [Boom("x"), StopAsyncIteration("x"), ExceptionGroup("g", [Boom("x")]), KeyboardInterrupt("x")],
    ids=lambda error: type(error).__name__,
)
async def test_an_exception_leaves_the_block_as_it_is_and_at_once(
    error: BaseException, autojump_clock: trio.abc.Clock
) -> None:
    ended: list[str] = []
    runtimes: list[Runtime] = []

    async def program() -> None:
        async with open_runtime(workers=1) as runtime:
            runtimes.append(runtime)

            @runtime.handler("x")
            async def hangs(payload: None) -> None:
                try:
                    await trio.sleep_forever()
                finally:
                    ended.append("cancelled")

            await runtime.submit("x")
            await trio.sleep(1)
            raise error

    began = trio.current_time()
    with pytest.raises(type(error)) as raised:
        await program()
    assert raised.value is error
    assert raised.value.__cause__ is None and raised.value.__context__ is None
    assert ended == ["cancelled"] and trio.current_time() - began == pytest.approx(1)
    assert [(task.status, task.attempts) for task in runtimes[0].left] == [(Status.PENDING, 0)]


async def test_a_program_that_is_cancelled_gives_back_what_ran(autojump_clock: trio.abc.Clock) -> None:
    with trio.move_on_after(3) as scope:
        async with open_runtime(workers=1) as runtime:
            runtime.handler("sleep")(trio.sleep)
            await runtime.submit("sleep", 1_000)
            await trio.sleep_forever()
    assert scope.cancelled_caught
    assert [(task.status, task.attempts) for task in runtime.left] == [(Status.PENDING, 0)]


async def test_a_program_that_is_cancelled_while_it_stops_stops_at_once(autojump_clock: trio.abc.Clock) -> None:
    began = trio.current_time()
    with trio.move_on_after(3) as scope:
        async with open_runtime(workers=1, stop_grace_seconds=100) as runtime:
            runtime.handler("sleep")(trio.sleep)
            await runtime.submit("sleep", 1_000)
    assert scope.cancelled_caught and trio.current_time() - began == pytest.approx(3)
    assert len(runtime.left) == 1


async def fail(in_the_block: BaseException | None = None) -> None:
    """Open a runtime and send its scheduler what it cannot handle until its supervisors give up."""
    async with open_runtime(workers=1) as runtime:
        for _ in range(100):
            runtime.tell("scheduler", "what is this?")
        try:
            await trio.sleep_forever()
        finally:
            if in_the_block is not None:
                raise in_the_block


async def test_what_makes_the_runtime_fail_cancels_the_block_and_is_raised_at_its_end(
    autojump_clock: trio.abc.Clock,
) -> None:
    with pytest.raises(ActorFailed, match="crashed 4 times in 5 s, last scheduler"):
        await fail()


async def test_a_block_and_a_runtime_that_both_fail_are_raised_together(autojump_clock: trio.abc.Clock) -> None:
    with pytest.raises(BaseExceptionGroup) as raised:
        await fail(Boom("x"))
    assert raised.value.message == "the block and the runtime failed"
    assert [type(error) for error in raised.value.exceptions] == [Boom, ActorFailed]


# Coming too late

LATE: list[Callable[[Runtime], Any]] = [
    lambda runtime: runtime.submit("x"),
    lambda runtime: runtime.submit_nowait("x"),
    lambda runtime: runtime.submit_task(NewTask("x")),
    lambda runtime: runtime.submit_many([NewTask("x")]),
    lambda runtime: runtime.submit_many([]),
    lambda runtime: runtime.run_soon(trio.sleep, 1),
    lambda runtime: runtime.tq("x").set_worker(echo).add(1),
    lambda runtime: runtime.tq("waiting").add(1),
    lambda runtime: runtime.tq("echo").set_worker_count(1),
    lambda runtime: runtime.handler("y")(echo),
    lambda runtime: runtime.cancel(runtime.left[0].id),
    lambda runtime: runtime.requeue(runtime.left[0].id),
    lambda runtime: runtime.wait(runtime.left[0].id),
    lambda runtime: runtime.delete(runtime.left[0].id),
    lambda runtime: runtime.purge(),
    lambda runtime: runtime.maintain(),
    lambda runtime: runtime.pause(),
    lambda runtime: runtime.resume(user="alice"),
    lambda runtime: runtime.set_weight("alice", 2),
    lambda runtime: runtime.set_limits(rate_limit=1),
    lambda runtime: runtime.set_rate_limit(1),
    lambda runtime: runtime.schedule("* * * * *", "x"),
    lambda runtime: runtime.unschedule("x"),
    lambda runtime: runtime.spawn(echo),
    lambda runtime: runtime.supervise("group", ["x"]),
    lambda runtime: runtime.events(),
    lambda runtime: runtime.tell("queue", "x"),
]


@pytest.mark.parametrize("number", range(len(LATE)))
async def test_whoever_comes_after_the_block_is_told_so(number: int, autojump_clock: trio.abc.Clock) -> None:
    async with open_runtime(workers=1) as runtime:
        runtime.handler("echo")(echo)

        @runtime.handler("fails", max_retries=0)
        async def fails(payload: None) -> None:
            raise ValueError("boom")

        await (await runtime.submit("fails")).wait()
        await runtime.submit("waiting", user="alice")

    async def come() -> None:
        came = LATE[number](runtime)
        if isinstance(came, Awaitable):
            await came

    with trio.fail_after(60), pytest.raises(RuntimeStopped, match="the runtime has stopped"):
        await come()


async def test_what_only_looks_can_be_asked_after_the_block(autojump_clock: trio.abc.Clock) -> None:
    async with open_runtime(workers=1) as runtime:
        runtime.handler("echo")(echo)
        handle = await runtime.submit("echo", 1)
        await handle.wait()
        waiting = await runtime.submit("nobody", user="alice")
        assert repr(runtime) == "<Runtime: 1 pending, 0 in progress>"
    assert runtime.get(handle.id).result == 1 and runtime.tasks() == [handle.task(), waiting.task()]
    assert runtime.explain(waiting.id).status is Status.PENDING
    assert runtime.stats() is not None and runtime.schedules() == []


async def test_streams_of_events_end_with_the_block(autojump_clock: trio.abc.Clock) -> None:
    names: list[str] = []

    async def read(runtime: Runtime) -> None:
        async for event in runtime.events():
            names.append(type(event).__name__)

    async with trio.open_nursery() as nursery, open_runtime(workers=1) as runtime:
        runtime.handler("echo")(echo)
        nursery.start_soon(read, runtime)
        await trio.testing.wait_all_tasks_blocked()
        await (await runtime.submit("echo")).wait()
    assert names == ["Admitted", "Started", "Completed"]


# What is in it


async def test_handlers_see_the_very_resources_that_were_given(autojump_clock: trio.abc.Clock) -> None:
    resources: dict[str, Any] = {}
    async with open_runtime(workers=1, resources=resources) as runtime:

        @runtime.handler("x")
        async def looks(payload: None, context: Context) -> Any:
            return context.resources["limit"]

        resources["limit"] = 10
        assert await (await runtime.submit("x")).result() == 10


async def test_options_win_over_what_a_handler_says(autojump_clock: trio.abc.Clock) -> None:
    kinds = {"x": KindOptions(timeout_seconds=3, max_retries=0, concurrency_max=1)}
    async with open_runtime(workers=2, kinds=kinds) as runtime:

        @runtime.handler("x", timeout_seconds=50, max_retries=9, rate_limit=100)
        async def hangs(payload: None) -> None:
            await trio.sleep_forever()

        began = trio.current_time()
        task = await (await runtime.submit("x")).wait()
        assert trio.current_time() - began == pytest.approx(3)
        assert (task.attempts, task.error) == (1, "timed out after 3 s")
        assert (runtime.limit(kind="x").concurrency_max, runtime.limit(kind="x").rate_limit) == (1, 100)


async def test_a_runtime_goes_by_the_wall_clock_that_it_is_given(autojump_clock: trio.abc.Clock) -> None:
    async with run_runtime(Options(workers=1), resources={}, wall_clock=lambda: 1_000.0) as runtime:
        await trio.sleep(5)
        assert (await runtime.submit("x")).task().created_at == pytest.approx(1_005)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"workers": 0}, "workers must be a whole number >= 1, got 0"),
        ({"wrokers": 3}, "wrokers is not a key of this table (did you mean 'workers'?)"),
        ({"store": "paper"}, "store must be 'memory' or 'sqlite:FILE', got 'paper'"),
    ],
)
async def test_options_that_make_no_sense_are_refused_before_anything_runs(options: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidConfig) as refused:
        async with open_runtime(**options):
            pytest.fail("it was opened")
    assert str(refused.value) == said
