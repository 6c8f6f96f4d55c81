"""Submitting: what a task may be, what becomes of one that may not, and when a submit is in."""

import uuid
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest
import trio
import trio.testing
from hypothesis import given, settings
from hypothesis import strategies as st

from actors import (
    InvalidConfig,
    InvalidTask,
    NewTask,
    Priority,
    QueueFull,
    RetryPolicy,
    Runtime,
    SomeRefused,
    Status,
    TaskFailed,
    UnknownTask,
    open_runtime,
)
from actors.runtime import SUBMITTED_AT_ONCE
from actors.submission import TaskOptions
from tests.test_handle import on_virtual_time

LEAVES = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()
JSON = st.recursive(
    LEAVES.filter(lambda leaf: leaf not in (float("inf"), float("-inf"))),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=12,
).filter(lambda value: _is_text(value))


def _is_text(value: Any) -> bool:
    """Whether no text in it has half a character, which JSON cannot write."""
    try:
        return bool(str(value).encode())
    except UnicodeEncodeError:
        return False


async def echo(payload: Any) -> Any:
    return payload


# What a task may be


async def test_a_task_is_what_was_asked_for(autojump_clock: trio.abc.Clock) -> None:
    async with open_runtime(workers=1) as runtime:
        await runtime.pause()
        handle = await runtime.submit(
            "crawl",
            {"url": "x"},
            user="tenant/alice",
            priority="high",
            delay_seconds=5,
            expires_after_seconds=60,
            max_retries=7,
            retry=RetryPolicy(base_seconds=3, max_retries=1),
            cost=2.5,
            idempotency_key="k",
            persist=False,
        )
        task = handle.task()
        assert (task.id, task.kind, task.payload, task.user) == (handle.id, "crawl", {"url": "x"}, "tenant/alice")
        assert (task.status, task.attempts, task.token, task.history) == (Status.PENDING, 0, 0, ())
        assert task.priority is Priority.HIGH and task.cost == 2.5 and not task.persist
        assert task.retry == RetryPolicy(base_seconds=3, max_retries=7)
        assert task.run_after is not None and task.expires_at is not None
        assert task.run_after - task.created_at == pytest.approx(5)
        assert task.expires_at - task.created_at == pytest.approx(60)
        assert task.order_at == task.run_after and task.idempotency_key == "k"


async def test_a_task_of_which_only_the_kind_is_said_has_the_defaults(autojump_clock: trio.abc.Clock) -> None:
    async with open_runtime(workers=1) as runtime:
        task = (await runtime.submit("crawl")).task()
        assert (task.user, task.payload, task.priority, task.cost) == ("default", None, Priority.NORMAL, 1.0)
        assert (task.max_retries, task.retry, task.persist) == (3, RetryPolicy(), True)
        assert (task.run_after, task.expires_at, task.idempotency_key) == (None, None, None)
        assert task.order_at == task.created_at


async def test_ids_are_uuids_of_version_7_in_the_order_of_the_submits(autojump_clock: trio.abc.Clock) -> None:
    async with open_runtime(workers=1) as runtime:
        ids = [runtime.submit_nowait("crawl").id for _ in range(2_000)]
        assert {uuid.UUID(task_id).version for task_id in ids} == {7}
        assert ids == sorted(set(ids))


@pytest.mark.parametrize(
    ("given_priority", "meant"),
    [("VERY_LOW", 1), ("low", 2), ("medium", 3), (4, 4), (Priority.VERY_HIGH, 5), ("Critical", 6)],
)
async def test_a_priority_is_a_name_a_number_or_a_member(given_priority: Any, meant: int) -> None:
    async with open_runtime(workers=1) as runtime:
        assert (await runtime.submit("crawl", priority=given_priority)).task().priority == meant


FAULTS: list[tuple[dict[str, Any], str]] = [
    ({"user": ""}, "user must be 1 to 128 printable characters, got ''"),
    ({"user": "a\nb"}, r"user must be 1 to 128 printable characters, got 'a\nb'"),
    ({"user": "x" * 129}, "user must be 1 to 128 printable characters, got '" + "x" * 129 + "'"),
    ({"user": 7}, "user must be 1 to 128 printable characters, got 7"),
    (
        {"priority": "urgent"},
        "priority must be one of very_low, low, normal, high, very_high, critical or 1 to 6, got 'urgent'",
    ),
    (
        {"priority": True},
        "priority must be one of very_low, low, normal, high, very_high, critical or 1 to 6, got True",
    ),
    ({"delay_seconds": -1}, "delay_seconds must be a finite number of seconds >= 0, got -1"),
    ({"delay_seconds": "5"}, "delay_seconds must be a finite number of seconds >= 0, got '5'"),
    ({"delay_seconds": 1, "run_after": 0.0}, "a task must have run_after or delay_seconds, not both"),
    ({"run_after": float("nan")}, "run_after must be a finite number of seconds, got nan"),
    ({"expires_at": float("inf")}, "expires_at must be a finite number of seconds, got inf"),
    ({"expires_after_seconds": -2}, "expires_after_seconds must be a finite number of seconds >= 0, got -2"),
    ({"expires_after_seconds": 1, "expires_at": 1}, "a task must have expires_at or expires_after_seconds, not both"),
    ({"max_retries": -1}, "max_retries must be a whole number >= 0, got -1"),
    ({"max_retries": 1.5}, "max_retries must be a whole number >= 0, got 1.5"),
    ({"retry": 3}, "retry must be a RetryPolicy, got 3"),
    ({"retry": 3, "max_retries": 1}, "retry must be a RetryPolicy, got 3"),
    ({"cost": 0}, "cost must be a finite number > 0, got 0"),
    ({"cost": 10**400}, "cost must be a finite number > 0, got 1" + "0" * 63 + "..."),
    ({"idempotency_key": ""}, "idempotency_key must be text that is not empty, got ''"),
    ({"persist": "no"}, "persist must be true or false, got 'no'"),
    ({"payload": {1, 2}}, "payload must be a JSON value, got set: it would read back as another value"),
    ({"payload": (1, 2)}, "payload must be a JSON value, got tuple: it would read back as another value"),
    ({"payload": {1: 2}}, "payload must be a JSON value, got dict: it would read back as another value"),
    ({"payload": float("nan")}, "payload must be a JSON value, got float: it would read back as another value"),
    ({"payload": object()}, "payload must be a JSON value, got object: Encoding objects of type object is unsupported"),
    ({"kind": ""}, "kind must be 1 to 128 printable characters, got ''"),
    ({"kind": ["crawl"]}, "kind must be 1 to 128 printable characters, got ['crawl']"),
]


@pytest.mark.parametrize(("fault", "said"), FAULTS)
async def test_what_is_no_task_is_refused_and_nothing_is_in(fault: dict[str, Any], said: str) -> None:
    asked = {"kind": "crawl"} | fault
    async with open_runtime(workers=1) as runtime:
        with pytest.raises(InvalidTask) as waited:
            await runtime.submit(**asked)
        with pytest.raises(InvalidTask) as at_once:
            runtime.submit_nowait(**asked)
        with pytest.raises(SomeRefused) as together:
            await runtime.submit_many([NewTask(**asked)])
        assert str(waited.value) == str(at_once.value) == str(together.value.errors[0]) == said
        assert runtime.tasks() == []


async def test_an_option_that_does_not_exist_is_a_mistake_of_the_program() -> None:
    async with open_runtime(workers=1) as runtime:
        with pytest.raises(TypeError, match="Unexpected keyword argument 'prioritty'"):
            await runtime.submit("crawl", None, prioritty="high")  # type: ignore[call-overload]
        assert runtime.tasks() == []


def test_type_checkers_know_every_option_of_a_task() -> None:
    fields = {field.name for field in msgspec.structs.fields(NewTask)}
    assert set(TaskOptions.__annotations__) == fields - {"kind", "payload"}


@given(st.lists(JSON, min_size=1, max_size=10))
@settings(max_examples=40)
def test_any_json_value_reaches_the_handler_and_comes_back(payloads: list[Any]) -> None:
    async def program() -> list[Any]:
        async with open_runtime(workers=2) as runtime:
            runtime.handler("echo")(echo)
            handles = await runtime.submit_many([NewTask("echo", payload) for payload in payloads])
            return [await handle.result() for handle in handles]

    assert on_virtual_time(program) == payloads


@given(bound=st.integers(2, 300), length=st.integers(0, 300))
@settings(max_examples=40)
def test_a_payload_may_be_as_long_as_the_bound_and_not_longer(bound: int, length: int) -> None:
    async def program() -> None:
        async with open_runtime(workers=1, payload_bytes_max=bound) as runtime:
            if length + 2 <= bound:
                await runtime.submit("echo", "x" * length)
                return
            with pytest.raises(InvalidTask) as refused:
                await runtime.submit("echo", "x" * length)
            assert str(refused.value) == f"payload must be at most {bound} bytes as JSON, got {length + 2}"

    on_virtual_time(program)


async def test_a_record_says_when_each_thing_happened_and_who_ran_it(autojump_clock: trio.abc.Clock) -> None:
    async with open_runtime(workers=1) as runtime:
        runtime.handler("sleep")(trio.sleep)
        await runtime.pause()
        handle = await runtime.submit("sleep", 5)
        at = handle.task().created_at
        await trio.sleep(3)
        await runtime.resume()
        waiting_ended = handle.task()
        await trio.sleep(2)
        assert waiting_ended.time_in_queue(at + 5) == pytest.approx(3)
        assert waiting_ended.time_in_progress(at + 5) == pytest.approx(2)
        task = await handle.wait()
        times = (task.started_at, task.completed_at, task.updated_at)
        assert [time - at for time in times if time is not None] == pytest.approx([3, 8, 8])
        assert (task.time_in_queue(at + 99), task.time_in_progress(at + 99), task.age(at + 99)) == pytest.approx(
            (3, 5, 99)
        )
        assert (task.worker_id, task.history[0].worker_id) == ("worker/1", "worker/1")


# When it may run


async def test_a_delayed_task_starts_at_its_time_and_counts_its_waiting_from_then(
    autojump_clock: trio.abc.Clock,
) -> None:
    async with open_runtime(workers=1) as runtime:
        runtime.handler("echo")(echo)
        began = trio.current_time()
        task = await (await runtime.submit("echo", delay_seconds=30)).wait()
        assert trio.current_time() - began == pytest.approx(30)
        assert task.time_in_queue(now=0) == pytest.approx(0, abs=1e-5)


async def test_a_run_after_of_zero_is_a_time_that_is_past(autojump_clock: trio.abc.Clock) -> None:
    async with open_runtime(workers=1) as runtime:
        await runtime.pause()
        task = (await runtime.submit("echo", run_after=0.0)).task()
        assert task.run_after == 0.0 and task.order_at == task.created_at


async def test_a_task_that_is_not_started_in_time_is_a_dead_letter(autojump_clock: trio.abc.Clock) -> None:
    async with open_runtime(workers=1) as runtime:
        handle = await runtime.submit("nobody runs this", user="alice", expires_after_seconds=10)
        began = trio.current_time()
        with pytest.raises(TaskFailed) as failed:
            await handle.result()
        assert trio.current_time() - began == pytest.approx(10)
        task = failed.value.task
        assert (task.cause, task.attempts, failed.value.history) == ("expired", 0, ())
        assert str(failed.value) == "alice#1 failed (expired) after 0 executions: not started within 10 s"


async def test_the_cost_of_a_task_is_the_mean_of_its_kind_unless_it_says_otherwise(
    autojump_clock: trio.abc.Clock,
) -> None:
    async with open_runtime(workers=1) as runtime:
        runtime.handler("sleep")(trio.sleep)
        costs = []
        for seconds in (2, 4):
            handle = await runtime.submit("sleep", seconds)
            costs.append(handle.task().cost)
            await handle.result()
        costs += [
            (await runtime.submit("sleep", 1)).task().cost,
            (await runtime.submit("sleep", 1, cost=9)).task().cost,
        ]
        assert costs == pytest.approx([1.0, 2.0, 3.0, 9.0])


async def test_a_kind_without_a_handler_waits_unharmed_until_it_has_one(autojump_clock: trio.abc.Clock) -> None:
    async with open_runtime(workers=1) as runtime:
        handle = await runtime.submit("crawl", 7, user="alice")
        await trio.sleep(1_000)
        assert (handle.task().status, handle.task().attempts) == (Status.PENDING, 0)
        explained = runtime.explain(handle.id)
        assert explained.sentence == "alice#1 waits: no worker has a handler for 'crawl'."
        assert [block.reason for block in explained.blocks] == ["no_handler"]
        runtime.handler("crawl")(echo)
        assert await handle.result() == 7 and handle.task().attempts == 1


# The same key means the same task


async def test_the_same_key_of_the_same_user_is_the_same_task(autojump_clock: trio.abc.Clock) -> None:
    ran = []
    async with open_runtime(workers=4) as runtime:

        @runtime.handler("crawl")
        async def crawl(payload: int) -> int:
            ran.append(payload)
            return payload

        handles = [await runtime.submit("crawl", number, user="alice", idempotency_key="k") for number in range(3)]
        other = await runtime.submit("crawl", 9, user="bob", idempotency_key="k")
        assert [await handle.result() for handle in [*handles, other]] == [0, 0, 0, 9]
        again = await runtime.submit("crawl", 4, user="alice", idempotency_key="k")
        assert len({handle.id for handle in [*handles, again]}) == 1 and other.id != again.id
        assert sorted(ran) == [0, 9]


@pytest.mark.parametrize("removal", ["deleted", "purged", "swept", "kept long enough"])
async def test_a_key_means_its_task_until_that_is_removed_however_it_is(
    removal: str, autojump_clock: trio.abc.Clock
) -> None:
    async with open_runtime(workers=1) as runtime:

        @runtime.handler("fail", max_retries=0)
        async def fail(payload: int) -> None:
            raise ValueError("boom")

        first = await runtime.submit("fail", 1, idempotency_key="k")
        await first.wait()
        await trio.sleep(7_100)
        assert (await runtime.submit("fail", 2, idempotency_key="k")).id == first.id
        remove: dict[str, Callable[[], Awaitable[Any]]] = {
            "deleted": lambda: runtime.delete(first.id),
            "purged": runtime.purge,
            "swept": lambda: runtime.maintain(everything=True),
            "kept long enough": lambda: trio.sleep(200),
        }
        await remove[removal]()
        second = await runtime.submit("fail", 3, idempotency_key="k")
        assert second.id != first.id and (await second.wait()).payload == 3


@pytest.mark.parametrize("when_full", ["reject", "wait"])
async def test_a_key_stays_with_its_kind_and_gives_back_its_task_whatever_the_payload(
    autojump_clock: trio.abc.Clock, when_full: str
) -> None:
    async with open_runtime(workers=1, admitted_max=1, when_full=when_full) as runtime:
        if when_full == "wait":
            await runtime.submit("fills the place")
        first = runtime.submit_nowait("echo", 1, idempotency_key="k")
        said = "idempotency_key 'k' must stay with kind 'echo', got 'other'"
        with pytest.raises(InvalidTask, match=said):
            await runtime.submit("other", 1, idempotency_key="k")
        second = runtime.submit_nowait("echo", 2, idempotency_key="k")
        await runtime.stop(0)
        if when_full == "reject":
            assert second.id == first.id and second.task().payload == 1


async def test_a_key_stays_with_its_kind_among_those_that_come_together(autojump_clock: trio.abc.Clock) -> None:
    async with open_runtime(workers=1) as runtime:
        with pytest.raises(SomeRefused, match="1 of 2 tasks were refused; the first: idempotency_key 'k' must stay"):
            await runtime.submit_many([NewTask(kind, idempotency_key="k") for kind in ("one", "other")])
        await runtime.stop(0)


async def test_a_handler_of_another_runtime_is_refused(autojump_clock: trio.abc.Clock) -> None:
    async with open_runtime(workers=1) as one, open_runtime(workers=1) as other:
        theirs = one.handler("echo")(echo)
        with pytest.raises(InvalidTask, match="handler of 'echo' must be one of this runtime's, got that of another"):
            await other.submit(theirs, 1)

        @other.handler("echo")
        async def another(payload: Any) -> str:
            return "another"

        with pytest.raises(InvalidTask, match="handler of 'echo' must be one of this runtime's"):
            await other.submit(theirs, 1)
        assert await (await other.submit(another, 1)).result() == "another"


async def test_some_tasks_that_are_none_are_refused(autojump_clock: trio.abc.Clock) -> None:
    async with open_runtime(workers=1) as runtime:
        with pytest.raises(InvalidTask, match="tasks must be some NewTasks, got None"):
            await runtime.submit_many(None)  # type: ignore[arg-type]
        with pytest.raises(InvalidTask, match="kind must be 1 to 128 printable characters, got 'xxx"):
            await runtime.submit("x" * 129)


# Many at once


@given(st.lists(st.sampled_from(["good", "bad field", "bad payload", "no task"]), max_size=12))
@settings(max_examples=40)
def test_of_many_each_is_in_or_refused_for_itself(sorts: list[str]) -> None:
    tasks: list[Any] = [
        {
            "good": NewTask("echo", number),
            "bad field": NewTask("echo", number, delay_seconds=-1),
            "bad payload": NewTask("echo", {number}),
            "no task": {"kind": "echo"},
        }[sort]
        for number, sort in enumerate(sorts)
    ]
    good = [number for number, sort in enumerate(sorts) if sort == "good"]

    async def program() -> None:
        async with open_runtime(workers=1) as runtime:
            runtime.handler("echo")(echo)
            if len(good) == len(sorts):
                handles: list[Any] = list(await runtime.submit_many(iter(tasks)))
            else:
                with pytest.raises(SomeRefused) as refused:
                    await runtime.submit_many(iter(tasks))
                handles = refused.value.handles
                assert set(refused.value.errors) == set(range(len(sorts))) - set(good)
                assert str(refused.value).startswith(f"{len(sorts) - len(good)} of {len(sorts)} tasks were refused")
            assert [place for place, handle in enumerate(handles) if handle is not None] == good
            assert [await handle.result() for handle in handles if handle is not None] == good
            assert len(runtime.tasks()) == len(good)

    on_virtual_time(program)


async def test_what_is_no_task_is_said_in_words(autojump_clock: trio.abc.Clock) -> None:
    async with open_runtime(workers=1) as runtime:
        with pytest.raises(SomeRefused) as refused:
            await runtime.submit_many([NewTask("echo"), "echo", NewTask("echo", user="")])  # type: ignore[list-item]
        assert str(refused.value) == "2 of 3 tasks were refused; the first: task must be a NewTask, got str"
        assert str(refused.value.errors[2]) == "user must be 1 to 128 printable characters, got ''"
        with pytest.raises(InvalidTask, match="task must be a NewTask, got dict"):
            await runtime.submit_task({"kind": "echo"})  # type: ignore[arg-type]


async def test_more_than_are_handed_in_at_once_come_in_their_order(autojump_clock: trio.abc.Clock) -> None:
    count = 2 * SUBMITTED_AT_ONCE + 7
    async with open_runtime(workers=1) as runtime:
        tasks = [NewTask("echo", number) for number in range(count)]
        tasks[-1] = NewTask("echo", delay_seconds=-1)
        with pytest.raises(SomeRefused) as refused:
            await runtime.submit_many(tasks)
        *handles, last = refused.value.handles
        assert last is None and set(refused.value.errors) == {count - 1}
        assert [handle.task().payload for handle in handles] == list(range(count - 1))
        assert [handle.task().sequence for handle in handles] == list(range(1, count))


async def test_many_with_one_key_are_one_task(autojump_clock: trio.abc.Clock) -> None:
    async with open_runtime(workers=1) as runtime:
        handles = await runtime.submit_many([NewTask("echo", number, idempotency_key="k") for number in range(5)])
        assert len(handles) == 5 and len({handle.id for handle in handles}) == 1
        assert [task.payload for task in runtime.tasks()] == [0]


async def test_submitting_none_at_all_is_a_checkpoint(autojump_clock: trio.abc.Clock) -> None:
    async with open_runtime(workers=1) as runtime:
        with trio.testing.assert_checkpoints():
            assert await runtime.submit_many([]) == []


# A submit that is cancelled


async def submit_one(runtime: Runtime) -> None:
    await runtime.submit("echo")


async def submit_some(runtime: Runtime) -> None:
    await runtime.submit_many([NewTask("echo"), NewTask("echo")])


async def run_one_soon(runtime: Runtime) -> None:
    await runtime.run_soon(echo, 1)


@pytest.mark.parametrize("submit", [submit_one, submit_some, run_one_soon])
async def test_a_submit_that_is_cancelled_is_not_in(submit: Callable[[Runtime], Awaitable[None]]) -> None:
    async with open_runtime(workers=1) as runtime:
        with trio.CancelScope() as scope:
            scope.cancel()
            await submit(runtime)
        assert scope.cancelled_caught and runtime.tasks() == []


@pytest.mark.parametrize("submit", [submit_one, submit_some, run_one_soon])
async def test_a_submit_is_a_checkpoint(submit: Callable[[Runtime], Awaitable[None]]) -> None:
    async with open_runtime(workers=1) as runtime:
        with trio.testing.assert_checkpoints():
            await submit(runtime)


@pytest.mark.parametrize("steps", range(5))
@pytest.mark.parametrize("submit", [submit_one, submit_some, run_one_soon])
async def test_a_submit_is_in_or_cancelled_and_never_both(
    submit: Callable[[Runtime], Awaitable[None]], steps: int
) -> None:
    """Whenever the cancel comes: before, on the way, or when the answer is there and was not heard yet."""
    async with open_runtime(workers=1) as runtime:
        await runtime.pause()
        said_to_be_in = False

        async def submit_and_say_so() -> None:
            nonlocal said_to_be_in
            await submit(runtime)
            said_to_be_in = True

        async with trio.open_nursery() as nursery:
            nursery.start_soon(submit_and_say_so)
            for _ in range(steps):
                await trio.lowlevel.checkpoint()
            nursery.cancel_scope.cancel()
        assert said_to_be_in == (len(runtime.tasks()) > 0)


# Without waiting


async def test_what_is_refused_later_is_told_to_all_who_wait(autojump_clock: trio.abc.Clock) -> None:
    """A full door that drops the oldest answers when all is quiet: here all that is inside runs, and nothing can be."""
    async with open_runtime(workers=1, admitted_max=1, when_full="drop_oldest") as runtime:
        runtime.handler("sleep")(trio.sleep)
        first = await runtime.submit("sleep", 5)
        said: list[str] = []
        handle = runtime.submit_nowait("sleep", 1)

        async def wait() -> None:
            with pytest.raises(QueueFull) as refused:
                await handle.result()
            said.append(str(refused.value))

        with trio.fail_after(60):
            async with trio.open_nursery() as nursery:
                for _ in range(3):
                    nursery.start_soon(wait)
            await first.result()
        assert said == ["admitted tasks must be at most 1, got one more"] * 3
        for ask in (handle.task, lambda: runtime.explain(handle.id)):
            with pytest.raises(QueueFull):
                ask()
        with pytest.raises(QueueFull):
            await handle.cancel()


async def test_several_wait_for_a_task_that_is_still_at_the_door(autojump_clock: trio.abc.Clock) -> None:
    async with open_runtime(workers=1, admitted_max=1, when_full="wait") as runtime:

        @runtime.handler("double")
        async def double(number: int) -> int:
            await trio.sleep(1)
            return 2 * number

        first = await runtime.submit("double", 1)
        later = runtime.submit_nowait("double", 2)
        with pytest.raises(UnknownTask, match="no task has id"):
            later.task()
        results: list[int] = []

        async def wait() -> None:
            results.append(await later.result())

        with trio.fail_after(60):
            async with trio.open_nursery() as nursery:
                for _ in range(3):
                    nursery.start_soon(wait)
        assert results == [4, 4, 4] and await first.result() == 2


async def test_a_handle_of_a_submit_that_joined_another_is_of_that_task(autojump_clock: trio.abc.Clock) -> None:
    async with open_runtime(workers=1, admitted_max=1, when_full="wait") as runtime:
        runtime.handler("echo")(echo)
        runtime.handler("sleep")(trio.sleep)
        await runtime.submit("sleep", 5)
        first, joined = (runtime.submit_nowait("echo", number, idempotency_key="k") for number in range(2))
        assert await joined.result() == 0 == await first.result()
        assert joined.task().id == first.id != joined.id
        assert runtime.explain(joined.id).task_id == first.id
        await runtime.delete(joined.id)
        with pytest.raises(UnknownTask):
            first.task()


async def test_a_task_at_the_door_is_cancelled_when_it_has_come_in(autojump_clock: trio.abc.Clock) -> None:
    async with open_runtime(workers=1, admitted_max=1, when_full="wait") as runtime:
        runtime.handler("sleep")(trio.sleep)
        await runtime.submit("sleep", 5)
        later = runtime.submit_nowait("sleep", 1_000_000)
        with trio.fail_after(60):
            await later.cancel()
            assert (await later.wait()).status is Status.CANCELLED


async def test_a_bound_that_is_none_of_the_runtimes_is_refused_when_it_is_opened() -> None:
    with pytest.raises(InvalidConfig, match="admitted_max must be a whole number >= 0, got -1"):
        async with open_runtime(admitted_max=-1):
            pass
