"""What a handler knows of its run, and what it says about it, wherever it runs."""

import threading
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

import pytest
import trio

from actors import Context, InvalidTask, Runtime, Status, open_runtime
from actors.messages import Run
from actors.trace import Extended, Progressed, ReportRefused
from tests import process_handlers
from tests.observing import seeing

HANG_SECONDS = 30


def test_a_context_says_which_run_it_is_of() -> None:
    run = Run("t1", "tenant/alice", "crawl", 5, 2, {"url": "x"}, 60.0, 7, 30.0)
    context = Context(run, {"limit": 10}, lambda progress: None)
    assert (context.id, context.user, context.kind) == ("t1", "tenant/alice", "crawl")
    assert (context.attempt, context.token, context.timeout_seconds) == (2, 5, 30.0)
    assert repr(context) == "<Context of crawl t1, attempt 2>"
    assert not context.stopping
    context.stop()
    assert context.stopping


def test_progress_is_a_json_value_and_a_heartbeat_is_none() -> None:
    said: list[Any] = []
    context = Context(Run("t1", "alice", "crawl", 1, 1, None, 60.0, 7), {}, said.append)
    context.progress({"done": (1, 2)})
    context.heartbeat()
    assert said == [{"done": [1, 2]}, None]
    with pytest.raises(InvalidTask, match=r"^progress must be a JSON value, got object: "):
        context.progress(object())
    assert len(said) == 2


async def test_resources_are_the_very_objects_that_the_runtime_was_given(autojump_clock: trio.abc.Clock) -> None:
    resources = {"database": object()}
    async with open_runtime(workers=1, resources=resources) as runtime:

        @runtime.handler("look")
        async def look(payload: Any, context: Context) -> bool:
            return context.resources is resources

        assert await (await runtime.submit(look, None)).result()


# Beats from async handlers


async def test_what_an_async_handler_says_is_in_the_record_and_among_the_events(
    autojump_clock: trio.abc.Clock,
) -> None:
    async with open_runtime(workers=1) as runtime:
        seen = seeing(runtime)

        @runtime.handler("work", lease_seconds=60.0)
        async def work(payload: Any, context: Context) -> Any:
            await trio.sleep(5)
            context.progress({"done": 1})
            first = runtime.get(context.id)
            await trio.sleep(5)
            context.heartbeat()
            return [first.progress, runtime.get(context.id).progress]

        handle = await runtime.submit(work, None)
        assert await handle.result() == [{"done": 1}, {"done": 1}], "a heartbeat leaves the progress alone"
        began = handle.task().created_at
        assert [(event.at - began, event.until - began) for event in seen.of(Extended)] == [(5, 65), (10, 70)]
        assert [(event.at - began, event.progress) for event in seen.of(Progressed)] == [(5, {"done": 1})]


async def test_progress_that_is_no_json_is_the_handlers_own_error(autojump_clock: trio.abc.Clock) -> None:
    async with open_runtime(workers=1) as runtime:

        @runtime.handler("work")
        async def work(payload: Any, context: Context) -> str:
            with pytest.raises(InvalidTask):
                context.progress({1, object()})
            return "went on"

        assert await (await runtime.submit(work, None)).result() == "went on"


async def test_what_a_handler_says_after_its_end_is_refused_and_counted(autojump_clock: trio.abc.Clock) -> None:
    kept: list[Context] = []
    async with open_runtime(workers=1) as runtime:
        seen = seeing(runtime)

        @runtime.handler("work")
        async def work(payload: Any, context: Context) -> None:
            kept.append(context)

        handle = await runtime.submit(work, None)
        await handle.result()
        kept[0].progress("still here")
        assert handle.task().progress is None
        assert [(event.token, event.status) for event in seen.of(ReportRefused)] == [(1, Status.COMPLETED)]
        assert runtime.stats().lifetime.late_reports == 1


# From threads


def in_its_own_thread(context: Context) -> None:
    context.progress("from the handler's thread")


def in_a_thread_of_the_handlers(context: Context) -> None:
    thread = threading.Thread(target=lambda: context.progress("from a thread of the handler's"))
    thread.start()
    thread.join()


@pytest.mark.parametrize("way", [in_its_own_thread, in_a_thread_of_the_handlers])
async def test_a_thread_says_how_far_it_is(way: Callable[[Context], None]) -> None:
    with trio.fail_after(HANG_SECONDS):
        async with open_runtime(workers=1) as runtime:
            seen = seeing(runtime)

            @runtime.handler("work")
            def work(payload: Any, context: Context) -> None:
                way(context)
                context.heartbeat()

            handle = await runtime.submit(work, None)
            await handle.result()
            assert len(seen.of(Extended)) == 2
            assert str(handle.task().progress).startswith("from ")


async def test_an_async_handler_may_take_its_context_into_a_thread() -> None:
    with trio.fail_after(HANG_SECONDS):
        async with open_runtime(workers=1) as runtime:
            threads: list[int] = []
            runtime._engine.add_sink(lambda event: threads.append(threading.get_ident()))

            @runtime.handler("work")
            async def work(payload: Any, context: Context) -> None:
                await trio.to_thread.run_sync(context.progress, "half way")

            handle = await runtime.submit(work, None)
            await handle.result()
            assert handle.task().progress == "half way"
            assert set(threads) == {threading.get_ident()}, "actors are in one thread only"


async def test_a_thread_that_outlives_the_runtime_may_go_on_talking() -> None:
    released, said = threading.Event(), threading.Event()
    errors: list[BaseException] = []

    def work(payload: Any, context: Context) -> None:
        released.wait(HANG_SECONDS)
        try:
            context.heartbeat()
            context.progress("still here")
        except BaseException as error:
            errors.append(error)
        said.set()

    with trio.fail_after(HANG_SECONDS):
        async with open_runtime(workers=1, stop_grace_seconds=0) as runtime:
            runtime.handler("work")(work)
            await runtime.submit("work")
            await until_running(runtime)
        released.set()
        await trio.to_thread.run_sync(said.wait, HANG_SECONDS)
    assert errors == []
    assert runtime.left[0].progress is None, "nobody listens"


def test_a_thread_that_outlives_the_program_may_go_on_talking() -> None:
    released, said = threading.Event(), threading.Event()
    errors: list[BaseException] = []

    def work(payload: Any, context: Context) -> None:
        released.wait(HANG_SECONDS)
        try:
            context.heartbeat()
        except BaseException as error:
            errors.append(error)
        said.set()

    async def program() -> None:
        async with open_runtime(workers=1, stop_grace_seconds=0) as runtime:
            runtime.handler("work")(work)
            await runtime.submit("work")
            await until_running(runtime)

    trio.run(program)
    released.set()
    assert said.wait(HANG_SECONDS)
    assert errors == []


async def test_a_thread_sees_that_it_was_told_to_stop() -> None:
    started, saw = threading.Event(), threading.Event()

    def work(payload: Any, context: Context) -> None:
        started.set()
        while not context.stopping:
            pass
        saw.set()

    with trio.fail_after(HANG_SECONDS):
        async with open_runtime(workers=1) as runtime:
            runtime.handler("work")(work)
            handle = await runtime.submit("work")
            await trio.to_thread.run_sync(started.wait, HANG_SECONDS)
            await handle.cancel()
            assert (await handle.wait()).status is Status.CANCELLED
            await trio.to_thread.run_sync(saw.wait, HANG_SECONDS)


# From processes


async def test_a_process_says_how_far_it_is_and_knows_its_run() -> None:
    with trio.fail_after(HANG_SECONDS):
        async with open_runtime(workers=1) as runtime:
            seen = seeing(runtime)
            runtime.handler("steps", process=True, timeout_seconds=20)(process_handlers.steps)
            handle = await runtime.submit("steps", 3, user="tenant/alice")
            assert await handle.result() == [handle.id, "tenant/alice", "steps", 1, 1, 20]
            assert [event.progress for event in seen.of(Progressed)] == [{"step": 1}, {"step": 2}, {"step": 3}]
            assert len(seen.of(Extended)) == 4, "and one heartbeat"
            assert handle.task().progress == {"step": 3}


# What one run leaves behind


USER: ContextVar[str] = ContextVar("user", default="nobody")


async def test_what_a_handler_leaves_in_a_context_variable_no_other_run_finds(
    autojump_clock: trio.abc.Clock,
) -> None:
    async with open_runtime(workers=1) as runtime:

        @runtime.handler("set", max_retries=0)
        async def leave(payload: str) -> str:
            before = USER.get()
            USER.set(payload)
            if payload == "fails":
                raise ValueError("boom")
            if payload == "is cancelled":
                await trio.sleep_forever()
            return before

        for payload in ("alice", "fails", "is cancelled", "bob"):
            handle = await runtime.submit(leave, payload)
            if payload == "is cancelled":
                await trio.testing.wait_all_tasks_blocked()
                await handle.cancel()
            task = await handle.wait()
            assert task.result in (None, "nobody")
        assert task.result == "nobody"


async def until_running(runtime: Runtime) -> None:
    """A worker has claimed something, and its executor has it."""
    while not runtime.stats().workers_busy:
        await trio.sleep(0)
    await trio.testing.wait_all_tasks_blocked()
