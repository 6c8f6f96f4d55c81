"""`run_soon`: any async function as a task, with whatever it is given and gives, and nothing of it kept for long."""

import gc
import weakref
from functools import partial
from typing import Any

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from actors import (
    Context,
    InvalidTask,
    QueueFull,
    Status,
    Table,
    Task,
    TaskCancelled,
    TaskFailed,
    UnknownTask,
    open_runtime,
)
from actors.calls import Calls
from actors.messages import Run, Submit
from actors.table import Removed


class Thing:
    """Nothing that JSON has words for."""


async def give_back(thing: Any) -> Any:
    await trio.sleep(1)
    return thing


async def test_what_it_is_given_and_gives_can_be_anything(autojump_clock: trio.abc.Clock) -> None:
    thing = Thing()
    async with open_runtime(workers=1) as runtime:
        assert await (await runtime.run_soon(give_back, thing)).result() is thing
        assert await (await runtime.run_soon(partial(give_back, thing=thing))).result() is thing
        assert await (await runtime.run_soon(lambda: give_back(thing))).result() is thing


async def test_it_is_a_task_like_any_other_but_for_a_store(autojump_clock: trio.abc.Clock) -> None:
    async with open_runtime(workers=1) as runtime:
        handle = await runtime.run_soon(give_back, 1, user="alice", priority="high", delay_seconds=9, persist=True)
        task = handle.task()
        assert (task.kind, task.user, task.priority, task.payload) == ("run_soon", "alice", 4, None)
        assert (task.max_retries, task.persist) == (0, False)
        began = trio.current_time()
        assert await handle.result() == 1 and trio.current_time() - began == pytest.approx(10)


async def test_it_takes_its_turn_by_fair_share(autojump_clock: trio.abc.Clock) -> None:
    order: list[str] = []

    async def note(user: str) -> None:
        order.append(user)
        await trio.sleep(1)

    async with open_runtime(workers=1) as runtime:
        await runtime.pause()
        for user in ("alice", "alice", "alice", "bob"):
            await runtime.run_soon(note, user, user=user)
        await runtime.resume()
        await trio.sleep(10)
    assert order[:2] in (["alice", "bob"], ["bob", "alice"])


async def test_it_is_tried_once_unless_more_is_asked_for(autojump_clock: trio.abc.Clock) -> None:
    calls = 0

    async def fails() -> None:
        nonlocal calls
        calls += 1
        raise ValueError("boom")

    async with open_runtime(workers=1) as runtime:
        with pytest.raises(TaskFailed, match="after 1 execution: ValueError: boom"):
            await (await runtime.run_soon(fails)).result()
        with pytest.raises(TaskFailed, match="after 3 executions: ValueError: boom"):
            await (await runtime.run_soon(fails, max_retries=2)).result()
        assert calls == 4


async def test_what_is_no_async_function_is_refused(autojump_clock: trio.abc.Clock) -> None:
    async with open_runtime(workers=1) as runtime:
        with pytest.raises(InvalidTask, match="function must be an async function, got 5"):
            await runtime.run_soon(5)  # type: ignore[arg-type]
        with pytest.raises(InvalidTask, match="function must be an async function, got <coroutine object give_back"):
            await runtime.run_soon(give_back(1))  # type: ignore[arg-type]
        with pytest.raises(InvalidTask, match="user must be 1 to 128 printable characters, got ''"):
            await runtime.run_soon(give_back, 1, user="")
        with pytest.raises(InvalidTask, match="function must be an async function, got <built-in function len>"):
            await runtime.run_soon(len, "x")  # type: ignore[arg-type]
        assert runtime.tasks() == []


async def test_a_plain_function_fails_once_and_for_good(autojump_clock: trio.abc.Clock) -> None:
    async with open_runtime(workers=1) as runtime:
        with pytest.raises(TaskFailed) as failed:
            await (await runtime.run_soon(lambda: 7, max_retries=5)).result()  # type: ignore[arg-type, return-value]
        assert failed.value.error is not None
        assert failed.value.error.startswith("InvalidTask: function must be an async function, got <function ")
        assert len(failed.value.history) == 1


async def test_one_that_is_cancelled_is_never_called(autojump_clock: trio.abc.Clock) -> None:
    async with open_runtime(workers=1) as runtime:
        await runtime.pause()
        called = False

        async def call() -> None:
            nonlocal called
            called = True

        handle = await runtime.run_soon(call)
        await handle.cancel()
        await runtime.resume()
        await trio.sleep(1)
        with pytest.raises(TaskCancelled):
            await handle.result()
        assert not called


async def test_one_that_failed_can_be_put_back_however_many_came_since(autojump_clock: trio.abc.Clock) -> None:
    works = False

    async def sometimes() -> str:
        if not works:
            raise ValueError("boom")
        return "done"

    async with open_runtime(workers=1) as runtime:
        handle = await runtime.run_soon(sometimes)
        assert (await handle.wait()).status is Status.FAILED
        for number in range(50):
            assert await (await runtime.run_soon(give_back, number)).result() == number
        works = True
        await runtime.requeue(handle.id)
        assert await handle.result() == "done"


async def test_a_key_means_the_first_function(autojump_clock: trio.abc.Clock) -> None:
    async with open_runtime(workers=1) as runtime:
        handles = [await runtime.run_soon(give_back, number, idempotency_key="k") for number in range(3)]
        assert [await handle.result() for handle in handles] == [0, 0, 0]
        assert len(runtime.tasks()) == 1


async def test_a_task_whose_function_nobody_has_gives_up(autojump_clock: trio.abc.Clock) -> None:
    """As after a restart, if somebody persisted it."""
    async with open_runtime(workers=1) as runtime:
        await (await runtime.run_soon(give_back, 1)).result()
        with pytest.raises(TaskFailed, match="the function lived in the memory of a runtime that has ended"):
            await (await runtime.submit("run_soon")).result()


# What is kept


async def test_functions_are_let_go_when_their_tasks_have_ended(autojump_clock: trio.abc.Clock) -> None:
    """Beside one that takes long, what most others were given is free long before it has ended."""
    seen: list[weakref.ref[Thing]] = []

    async def forget(thing: Thing) -> None:
        seen.append(weakref.ref(thing))

    async with open_runtime(workers=2) as runtime:
        long = await runtime.run_soon(trio.sleep, 100)
        for _ in range(200):
            await (await runtime.run_soon(forget, Thing())).result()
        gc.collect()
        assert sum(reference() is not None for reference in seen) <= 4
        await long.result()


async def test_functions_that_wait_at_the_door_are_kept(autojump_clock: trio.abc.Clock) -> None:
    results: list[int] = []

    async def call(number: int) -> None:
        results.append(await (await runtime.run_soon(give_back, number)).result())

    async with open_runtime(workers=1, admitted_max=1, when_full="wait") as runtime, trio.open_nursery() as nursery:
        for number in range(10):
            nursery.start_soon(call, number)
    assert sorted(results) == list(range(10))


async def test_a_function_that_was_refused_is_let_go(autojump_clock: trio.abc.Clock) -> None:
    thing = Thing()
    gone = weakref.ref(thing)
    async with open_runtime(workers=1, admitted_max=0) as runtime:
        with pytest.raises(QueueFull):
            await runtime.run_soon(give_back, thing)
        del thing
        gc.collect()
        assert gone() is None


async def test_a_function_whose_submit_is_withdrawn_is_let_go(autojump_clock: trio.abc.Clock) -> None:
    thing = Thing()
    gone = weakref.ref(thing)
    async with open_runtime(workers=1, admitted_max=0, when_full="wait") as runtime:
        with trio.move_on_after(1):
            await runtime.run_soon(give_back, thing)
        del thing
        # Until its next step trio remembers the cancellation, and all that it went through.
        await trio.lowlevel.checkpoint()
        gc.collect()
        assert gone() is None and runtime.tasks() == []


STATUS = {"complete": Status.COMPLETED, "cancel": Status.CANCELLED, "fail": Status.FAILED, "put back": Status.PENDING}


@given(
    st.lists(
        st.tuples(st.sampled_from(["call", "call", "remove", *STATUS]), st.integers(0, 99)), min_size=10, max_size=60
    )
)
def test_what_may_still_be_called_is_kept_and_little_else(steps: list[tuple[str, int]]) -> None:
    """Against a plain model: the ids that may still run. Never is more kept than twice as many as there were at most."""
    table, needed = Table(), list[str]()
    calls = Calls(table)
    run = calls.handler().function
    most = 0

    def write(task_id: str, status: Status) -> None:
        at: Any = dict.fromkeys(("created_at", "updated_at", "order_at", "started_at", "completed_at"), 0.0)
        table.apply(Task(id=task_id, user="u", kind="run_soon", sequence=int(task_id), status=status, **at))

    async def send(submit: Submit) -> str:
        write(submit.id, Status.PENDING)
        return submit.id

    async def step(number: int, action: str, place: int) -> None:
        if action == "call":
            needed.append(await calls.submit(new_submit(number), give_back_at_once, (str(number),), send))
        elif needed:
            task_id = needed[place % len(needed)]
            failed = table[task_id].status is Status.FAILED
            if action == "remove" and failed:
                table.apply(Removed(task_id))
                needed.remove(task_id)
            elif action != "remove" and failed == (action == "put back"):
                write(task_id, STATUS[action])
                if action in ("complete", "cancel"):
                    needed.remove(task_id)

    async def program() -> None:
        nonlocal most
        for number, (action, place) in enumerate(steps):
            await step(number, action, place)
            most = max(most, len(needed))
            assert [await run(None, context_of(task_id)) for task_id in needed] == needed
            assert len(calls) <= 2 * most

    trio.run(program)


async def give_back_at_once(thing: str) -> str:
    return thing


def new_submit(number: int) -> Submit:
    return Submit(id=str(number), user="u", kind="run_soon")


def context_of(task_id: str) -> Context:
    return Context(Run(task_id, "u", "run_soon", 1, 1, None, 60.0, 1), {}, lambda progress: None)


async def test_a_handle_of_a_call_that_was_removed_knows_nothing(autojump_clock: trio.abc.Clock) -> None:
    async with open_runtime(workers=1) as runtime:
        handle = await runtime.run_soon(give_back, 1)
        await handle.result()
        assert await runtime.maintain(everything=True) == 1
        with pytest.raises(UnknownTask):
            await handle.result()
