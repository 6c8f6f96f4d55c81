"""The way in from threads: the same calls, which block. Real threads and the real clock, so waits are for events alone."""

import threading
import warnings
from collections.abc import Callable
from typing import Any, TypeVar

import pytest
import trio

from actors import (
    InvalidTask,
    InvalidTransition,
    NewTask,
    PoolIsFull,
    RuntimeStopped,
    SomeRefused,
    Status,
    TaskFailed,
    TaskHandle,
    open_runtime,
)
from actors.portal import ThreadPortal

T = TypeVar("T")


async def in_a_thread(function: Callable[..., T], *arguments: Any) -> T:
    """A thread that hangs is left behind, and the test fails instead of hanging with it."""
    return await trio.to_thread.run_sync(function, *arguments, abandon_on_cancel=True)


async def echo(payload: Any) -> Any:
    return payload


async def test_a_thread_submits_waits_and_hears_the_result() -> None:
    def program(portal: ThreadPortal) -> list[Any]:
        handle = portal.submit("echo", 1, user="alice")
        handles = portal.submit_many([NewTask("echo", number) for number in range(3)])
        task = portal.wait(handle.id)
        return [portal.result(handle), task.user, task.status, *map(portal.result, handles)]

    with trio.fail_after(30):
        async with open_runtime(workers=2) as runtime:
            runtime.handler("echo")(echo)
            heard = await in_a_thread(program, runtime.from_thread)
    assert heard == [1, "alice", Status.COMPLETED, 0, 1, 2]


async def test_a_thread_that_trio_does_not_know_can_do_so_too() -> None:
    results: list[Any] = []
    with trio.fail_after(30):
        async with open_runtime(workers=2) as runtime:
            handler = runtime.handler("echo")(echo)
            portal, done = runtime.from_thread, trio.Event()
            token = trio.lowlevel.current_trio_token()

            def program() -> None:
                results.append(portal.result(portal.submit(handler, {"a": 1})))
                token.run_sync_soon(done.set)

            thread = threading.Thread(target=program)
            thread.start()
            await done.wait()
            thread.join()
    assert results == [{"a": 1}]


async def test_threads_together_lose_nothing() -> None:
    threads, each = 8, 25

    def program(portal: ThreadPortal, number: int, handles: list[TaskHandle[Any]]) -> None:
        handles += [portal.submit("echo", [number, count], user=f"user{number}") for count in range(each)]

    with trio.fail_after(30):
        async with open_runtime(workers=4) as runtime:
            runtime.handler("echo")(echo)
            handles: list[TaskHandle[Any]] = []
            async with trio.open_nursery() as nursery:
                for number in range(threads):
                    nursery.start_soon(in_a_thread, program, runtime.from_thread, number, handles)
            results = sorted([await handle.result() for handle in handles])
    assert results == [[number, count] for number in range(threads) for count in range(each)]
    assert len({handle.id for handle in handles}) == threads * each


async def test_what_goes_wrong_is_raised_in_the_thread() -> None:
    async def fails(payload: None) -> None:
        raise ValueError("boom")

    def program(portal: ThreadPortal) -> None:
        with pytest.raises(InvalidTask, match="user must be 1 to 128 printable characters, got ''"):
            portal.submit("echo", user="")
        with pytest.raises(SomeRefused, match="1 of 2 tasks were refused"):
            portal.submit_many([NewTask("echo"), NewTask("echo", cost=-1)])
        handle = portal.submit("fails")
        with pytest.raises(TaskFailed, match="ValueError: boom"):
            portal.result(handle)
        with pytest.raises(InvalidTransition, match="a failed task cannot be cancelled"):
            portal.cancel(handle.id)

    with trio.fail_after(30):
        async with open_runtime(workers=1) as runtime:
            runtime.handler("echo")(echo)
            runtime.handler("fails", max_retries=0)(fails)
            await in_a_thread(program, runtime.from_thread)


async def test_a_thread_cancels_a_task() -> None:
    begun = threading.Event()

    async def hang(payload: None) -> None:
        begun.set()
        await trio.sleep_forever()

    def program(portal: ThreadPortal) -> Status:
        handle = portal.submit("hang")
        assert begun.wait(30)
        portal.cancel(handle.id)
        return portal.wait(handle.id).status

    with trio.fail_after(30):
        async with open_runtime(workers=1) as runtime:
            runtime.handler("hang")(hang)
            assert await in_a_thread(program, runtime.from_thread) is Status.CANCELLED


async def test_a_thread_waits_at_a_full_door() -> None:
    with trio.fail_after(30):
        async with open_runtime(workers=1, admitted_max=1, when_full="wait") as runtime:
            first = await runtime.submit("echo", 1)
            done = trio.Event()
            results: list[Any] = []

            async def wait() -> None:
                portal = runtime.from_thread
                results.append(await in_a_thread(lambda: portal.result(portal.submit("echo", 2))))
                done.set()

            async with trio.open_nursery() as nursery:
                nursery.start_soon(wait)
                runtime.handler("echo")(echo)
                assert await first.result() == 1
                await done.wait()
    assert results == [2]


async def test_a_handler_in_a_thread_that_waits_while_the_pool_is_full_is_warned(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It waits in vain, so the child is cancelled once the warning was heard."""
    heard, said = trio.Event(), []

    def hear(message: Warning, *about: Any) -> None:
        said.append(message)
        heard.set()

    with trio.fail_after(30), warnings.catch_warnings():
        warnings.simplefilter("always")
        monkeypatch.setattr(warnings, "showwarning", hear)
        async with open_runtime(workers=1) as runtime:
            portal = runtime.from_thread

            @runtime.handler("parent", max_retries=0)
            def parent(payload: None) -> str:
                return portal.wait(portal.submit("child").id).status

            runtime.handler("child")(echo)
            handle = await runtime.submit("parent")
            await heard.wait()
            (child,) = runtime.tasks(kind="child")
            await runtime.cancel(child.id)
            assert await handle.result() == "cancelled"
    assert [(type(one), str(one)) for one in said] == [
        (PoolIsFull, "a handler waits for a task of its own runtime while all 1 workers are busy")
    ]


# Too late


async def test_a_thread_that_waits_when_the_runtime_ends_is_told_so() -> None:
    said: list[str] = []

    async def wait(portal: ThreadPortal, task_id: str, about_to: threading.Event) -> None:
        def program() -> None:
            about_to.set()
            with pytest.raises(RuntimeStopped) as stopped:
                portal.wait(task_id)
            said.append(str(stopped.value))

        await in_a_thread(program)

    with trio.fail_after(30):
        async with trio.open_nursery() as nursery, open_runtime(workers=1, stop_grace_seconds=0) as runtime:
            handle = await runtime.submit("nobody runs this", user="alice")
            about_to = threading.Event()
            nursery.start_soon(wait, runtime.from_thread, handle.id, about_to)
            await in_a_thread(about_to.wait)
    assert len(said) == 1 and said[0].startswith("the runtime has stopped")


CALLS: list[Callable[[ThreadPortal, TaskHandle[Any]], Any]] = [
    lambda portal, handle: portal.submit("x"),
    lambda portal, handle: portal.submit_many([NewTask("x")]),
    lambda portal, handle: portal.wait(handle.id),
    lambda portal, handle: portal.result(handle),
    lambda portal, handle: portal.cancel(handle.id),
]


@pytest.mark.parametrize("number", range(len(CALLS)))
async def test_a_thread_that_comes_after_the_block_is_told_so(number: int) -> None:
    with trio.fail_after(30):
        async with open_runtime(workers=1) as runtime:
            handle = await runtime.submit("x")
        with pytest.raises(RuntimeStopped, match="the runtime has stopped"):
            await in_a_thread(CALLS[number], runtime.from_thread, handle)


@pytest.mark.parametrize("number", range(len(CALLS)))
def test_a_thread_that_comes_after_the_program_is_told_so(number: int) -> None:
    async def program() -> tuple[ThreadPortal, TaskHandle[Any]]:
        async with open_runtime(workers=1) as runtime:
            return runtime.from_thread, await runtime.submit("x")

    portal, handle = trio.run(program)
    with pytest.raises(RuntimeStopped, match="the runtime has stopped, or stops, and takes no more orders"):
        CALLS[number](portal, handle)


def test_a_call_that_is_under_way_when_the_program_ends_is_told_so() -> None:
    """What trio raises then is its Cancelled, which no thread should have to know."""
    entered, said = threading.Event(), []

    class Endless:
        """A runtime whose wait the end of the program overtakes."""

        async def wait(self, task_id: str) -> None:
            entered.set()
            await trio.sleep_forever()

    def thread(portal: ThreadPortal) -> None:
        with pytest.raises(RuntimeStopped) as stopped:
            portal.wait("t1")
        said.append(str(stopped.value))

    async def program() -> threading.Thread:
        portal = ThreadPortal(Endless(), trio.lowlevel.current_trio_token())  # type: ignore[arg-type]
        started = threading.Thread(target=thread, args=(portal,))
        started.start()
        assert await in_a_thread(entered.wait, 30)
        return started

    trio.run(program).join(30)
    assert said == ["the runtime has stopped, or stops, and takes no more orders"]


async def test_the_trio_thread_itself_has_no_use_for_it() -> None:
    async with open_runtime(workers=1) as runtime:
        with pytest.raises(RuntimeError, match="blocking function"):
            runtime.from_thread.submit("x")
        assert runtime.tasks() == []
