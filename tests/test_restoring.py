"""Restoring: a runtime goes on where the one before it ended, however that ended."""

from contextlib import suppress
from typing import Any

import msgspec
import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st

from actors import Cause, NewTask, QueueFull, Runtime, Status, StoreFailed
from actors.messages import QUEUE, SCHEDULER
from actors.restoring import restore
from actors.stores.contract import Batch, lasting
from actors.stores.memory import MemoryStore
from actors.table import Table
from actors.timetable import TIMETABLE
from tests.durable import BrokenStore, durable, killed
from tests.test_handle import on_virtual_time


def no_op(runtime: Runtime, ran: list[Any], kind: str = "work", seconds: float = 1.0) -> None:
    @runtime.handler(kind)
    async def work(payload: Any) -> None:
        await trio.sleep(seconds)
        ran.append(payload)


def ids(store: MemoryStore, *statuses: Status) -> list[str]:
    return [task.payload for task in store.tasks() if not statuses or task.status in statuses]


# After a clean stop


async def test_what_waited_waits_again_in_its_order_and_nothing_runs_twice(autojump_clock: trio.abc.Clock) -> None:
    store, ran = MemoryStore(), list[Any]()
    async with durable(store, workers=1) as runtime:
        no_op(runtime, ran)
        await runtime.submit_many([NewTask("work", number, user="alice") for number in range(6)])
        await trio.sleep(2.5)
    assert ran == [0, 1, 2]
    async with durable(store, workers=1, drain=True) as runtime:
        assert [task.payload for task in runtime.tasks(status="pending")] == [3, 4, 5]
        no_op(runtime, ran)
    assert ran == [0, 1, 2, 3, 4, 5]
    assert {task.attempts for task in store.tasks()} == {1}
    async with durable(store, workers=1, drain=True) as runtime:
        no_op(runtime, ran)
    assert len(ran) == 6


async def test_what_is_given_back_at_a_stop_runs_again_as_if_for_the_first_time(autojump_clock: trio.abc.Clock) -> None:
    store, ran = MemoryStore(), list[Any]()
    async with durable(store, stop_grace_seconds=1) as runtime:
        no_op(runtime, ran, seconds=100)
        await runtime.submit("work", "long", user="alice")
        await trio.sleep(1)
    assert ran == [] and [task.attempts for task in store.tasks()] == [0]
    async with durable(store, drain=True, stop_grace_seconds=1_000) as runtime:
        no_op(runtime, ran)
    (task,) = store.tasks()
    assert (task.status, task.attempts, [attempt.outcome for attempt in task.history]) == (
        Status.COMPLETED,
        1,
        ["released", "completed"],
    )


async def test_a_delayed_task_keeps_its_time(autojump_clock: trio.abc.Clock) -> None:
    store, ran = MemoryStore(), list[float]()
    async with durable(store) as runtime:
        handle = await runtime.submit("work", user="alice", delay_seconds=100)
    await trio.sleep(20)
    async with durable(store) as runtime:

        @runtime.handler("work")
        async def work(payload: None) -> None:
            ran.append(trio.current_time())

        began = trio.current_time()
        await runtime.wait(handle.id)
    assert ran == [pytest.approx(began + 80)]


async def test_dead_letters_results_and_keys_are_still_known(autojump_clock: trio.abc.Clock) -> None:
    store, ran = MemoryStore(), list[Any]()
    async with durable(store) as runtime:

        @runtime.handler("bad", max_retries=0)
        async def bad(payload: None) -> None:
            raise ValueError("boom")

        no_op(runtime, ran)
        failed = await runtime.submit("bad", user="alice")
        done = await runtime.submit("work", 7, user="alice", idempotency_key="once")
        fleeting = await runtime.submit("work", 8, user="alice", idempotency_key="mine", persist=False)
        for handle in (failed, done, fleeting):
            await handle.wait()
    async with durable(store) as runtime:
        no_op(runtime, ran)
        (letter,) = runtime.dead_letters()
        assert (letter.id, letter.cause, letter.error) == (failed.id, Cause.FAILED, "ValueError: boom")
        again = await runtime.submit("work", 7, user="alice", idempotency_key="once")
        assert again.id == done.id
        # Nobody remembers what no store keeps.
        other = await runtime.submit("work", 8, user="alice", idempotency_key="mine")
        assert other.id != fleeting.id and other.task().sequence == 4
        await runtime.requeue(failed.id, reset_retries=True)
        assert runtime.get(failed.id).status is Status.PENDING


async def test_weights_limits_pauses_and_schedules_are_as_they_were(autojump_clock: trio.abc.Clock) -> None:
    store = MemoryStore()
    async with durable(store) as runtime:
        await runtime.set_weight("alice", 5.0)
        await runtime.set_limits(kind="work", rate_limit=2.0, concurrency_max=1)
        await runtime.pause(user="bob")
        await runtime.schedule("*/5 * * * *", "work", {"n": 1}, name="often", user="alice")
        before = runtime.schedules()
    async with durable(store) as runtime:
        assert runtime.schedules() == before
        assert (runtime.limit(kind="work").rate_limit, runtime.limit(kind="work").concurrency_max) == (2.0, 1)
        assert runtime._engine.scheduler()._demand.weight("alice") == 5.0
        blocked = await runtime.submit("work", user="bob")
        assert "paused" in [block.reason for block in runtime.explain(blocked.id).blocks]
        await runtime.resume(user="bob")
    async with durable(store) as runtime:
        assert "paused" not in [block.reason for block in runtime.explain(blocked.id).blocks]


async def test_a_time_that_passed_while_nothing_ran_is_seen_to_once(autojump_clock: trio.abc.Clock) -> None:
    store, ran = MemoryStore(), list[Any]()
    async with durable(store) as runtime:
        await runtime.schedule("0 * * * *", "work", "hourly", name="hourly", user="alice")
    await trio.sleep(3.5 * 3600)
    for _ in range(3):
        async with durable(store, drain=True) as runtime:
            no_op(runtime, ran)
            await trio.sleep(10)
    assert ran == ["hourly"]


async def test_the_door_counts_who_is_inside(autojump_clock: trio.abc.Clock) -> None:
    store = MemoryStore()
    async with durable(store) as runtime:
        handles = [await runtime.submit("work", user="alice") for _ in range(2)]
        await runtime.submit("work", user="alice", persist=False)
    async with durable(store, admitted_per_user_max=3) as runtime:
        await runtime.submit("work", user="alice")
        with pytest.raises(QueueFull):
            await runtime.submit("work", user="alice")
        await runtime.cancel(handles[0].id)
        await runtime.submit("work", user="alice")


async def test_a_runtime_without_a_handler_for_it_leaves_a_task_waiting(autojump_clock: trio.abc.Clock) -> None:
    store = MemoryStore()
    async with durable(store) as runtime:
        handle = await runtime.submit("work", user="alice")
    async with durable(store) as runtime:
        await trio.sleep(10)
        assert "no_handler" in [block.reason for block in runtime.explain(handle.id).blocks]


@pytest.mark.parametrize("stop_after", [1, 3, 5])
async def test_whose_turn_it_is_is_not_forgotten(autojump_clock: trio.abc.Clock, stop_after: int) -> None:
    async def run(at_once: int) -> list[Any]:
        store, ran = MemoryStore(), list[Any]()
        async with durable(store, workers=1) as runtime:
            await runtime.set_weight("alice", 3.0)
            for number in range(12):
                for user in ("alice", "bob", "carol"):
                    await runtime.submit("work", f"{user}{number}", user=user, cost=1.0)
        while len(ran) < 36:
            async with durable(store, workers=1, stop_grace_seconds=0.5) as runtime:
                no_op(runtime, ran)
                await trio.sleep(at_once - 0.25)
        return ran

    assert await run(stop_after) == await run(100)


# After a kill


async def sleep_for_ever(payload: Any) -> None:
    await trio.sleep_forever()


async def kill_in_mid_run(store: MemoryStore) -> MemoryStore:
    """What a process leaves behind that is killed while it runs all it has."""
    async with durable(store, stop_grace_seconds=0) as runtime:
        runtime.handler("work", timeout_seconds=None)(sleep_for_ever)
        await trio.sleep(30)
        return killed(store)


async def test_what_ran_counts_an_attempt_and_is_tried_again(autojump_clock: trio.abc.Clock) -> None:
    store, ran = MemoryStore(), list[Any]()
    async with durable(store) as runtime:
        handle = await runtime.submit("work", "interrupted", user="alice", cost=1.0)
    store = await kill_in_mid_run(store)
    last_at = store.last_at()
    assert ids(store, Status.IN_PROGRESS) == ["interrupted"]
    await trio.sleep(1_000)
    async with durable(store) as runtime:
        task = runtime.get(handle.id)
        (attempt,) = task.history
        assert (task.status, task.attempts) == (Status.PENDING, 1)
        assert (attempt.outcome, attempt.error) == ("crashed", "the process ended while it ran")
        # For the time in which nothing ran nobody is charged.
        assert attempt.ended_at == last_at and runtime.stats().pending == 1
        no_op(runtime, ran)
        assert (await runtime.wait(handle.id)).attempts == 2
    assert ran == ["interrupted"]


async def test_a_task_that_ends_its_process_time_and_again_is_poisoned(autojump_clock: trio.abc.Clock) -> None:
    store = MemoryStore()
    async with durable(store) as runtime:
        handle = await runtime.submit("work", "killer", user="alice", max_retries=9)
    for kills in range(1, 4):
        async with durable(store) as runtime:
            await trio.sleep(100)
            assert runtime.get(handle.id).attempts == kills - 1
        store = await kill_in_mid_run(store)
    async with durable(store) as runtime:
        task = runtime.get(handle.id)
    assert (task.status, task.cause, task.attempts) == (Status.FAILED, Cause.POISONED, 3)
    assert [attempt.outcome for attempt in task.history] == ["crashed"] * 3
    assert store.get(handle.id) == task


async def test_a_task_without_retries_that_was_interrupted_is_a_dead_letter(autojump_clock: trio.abc.Clock) -> None:
    store = MemoryStore()
    async with durable(store) as runtime:
        handle = await runtime.submit("work", user="alice", max_retries=0)
    store = await kill_in_mid_run(store)
    async with durable(store) as runtime:
        assert (runtime.get(handle.id).status, runtime.get(handle.id).cause) == (Status.FAILED, Cause.FAILED)


async def test_a_cancel_that_was_asked_for_is_carried_out(autojump_clock: trio.abc.Clock) -> None:
    store = MemoryStore()
    async with durable(store, cancel_grace_seconds=1) as runtime:

        @runtime.handler("work", timeout_seconds=None)
        async def work(payload: None) -> None:
            with trio.CancelScope(shield=True):
                await trio.sleep(50)

        handle = await runtime.submit("work", user="alice")
        await trio.sleep(1)
        await handle.cancel()
        left = killed(store)
    async with durable(left) as runtime:
        assert runtime.get(handle.id).status is Status.CANCELLED


async def test_the_kill_of_a_process_at_any_commit_leaves_what_it_had(autojump_clock: trio.abc.Clock) -> None:
    """I23: what is restored is the state of all actors at a quiet moment."""

    class Watching(MemoryStore):
        table: Table | None = None
        looks = 0

        def write(self, batch: Batch) -> None:
            super().write(batch)
            if self.table is None:
                return
            restored = Table()
            restore(self, restored)
            kept = [task for task in self.table if task.persist]
            assert list(restored) == kept
            for owner in (QUEUE, SCHEDULER, TIMETABLE, "shard/alice", "shard/bob"):
                assert lasting_notes(restored, owner) == lasting_notes(self.table, owner)
            derived = {key: value for key, value in restored.notes(QUEUE).items() if key.startswith("key/")}
            assert derived == {
                f"key/{len(task.user)}/{task.user}/{task.idempotency_key}": [task.id, task.kind]
                for task in kept
                if task.idempotency_key
            }
            self.looks += 1

    store = Watching()
    async with durable(store, critical_burst=2, keep_completed_seconds=20) as runtime:
        store.table = runtime._engine.table
        no_op(runtime, [])
        await runtime.schedule("* * * * *", "work", name="often", user="bob")
        for number in range(40):
            await runtime.submit(
                "work",
                number,
                user=("alice", "bob")[number % 2],
                priority="critical" if number % 3 == 0 else "low",
                idempotency_key=f"k{number}" if number % 5 == 0 else None,
                persist=number % 7 != 0,
            )
            await trio.sleep(number % 4)
        await trio.sleep(200)
    assert store.looks > 50


def lasting_notes(table: Table, owner: str) -> dict[str, Any]:
    notes = {key: value for key, value in table.notes(owner).items() if lasting(owner, key)}
    plain: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(notes))
    return plain


@settings(max_examples=25, deadline=None)
@given(
    lives=st.lists(st.tuples(st.integers(0, 40), st.booleans()), max_size=4),
    services=st.lists(st.sampled_from([0.5, 3.0, 20.0]), min_size=1, max_size=12),
)
def test_whatever_commit_a_process_dies_at_nothing_acknowledged_is_lost_or_undone(
    lives: list[tuple[int, bool]], services: list[float]
) -> None:
    """It dies several times, before or after a commit is applied, and then is left alone: everything ends, once."""

    async def program() -> None:
        left, accepted, told = MemoryStore(), list[str](), dict[str, Any]()

        async def submit_and_wait(runtime: Runtime, seconds: float) -> None:
            handle = await runtime.submit("nap", seconds, user="alice")
            accepted.append(handle.id)
            told[handle.id] = await handle.result()

        async def live(store: MemoryStore) -> None:
            async with durable(store, poison_after=99, keep_completed_seconds=None) as runtime:

                @runtime.handler("nap", max_retries=99, timeout_seconds=None)
                async def nap(seconds: float) -> str:
                    await trio.sleep(seconds)
                    return f"{seconds} s at {trio.current_time()}"

                async with trio.open_nursery() as nursery:
                    for seconds in services:
                        nursery.start_soon(submit_and_wait, runtime, seconds)
                    await trio.sleep(100_000)

        for commits, applied in lives:
            store = killed(left, BrokenStore(OSError("killed"), commits, applied))
            with suppress(StoreFailed):
                await live(store)
            left = killed(store)
        await live(left)
        for task_id in accepted:
            task = left.get(task_id)
            assert task is not None and task.status is Status.COMPLETED and task.attempts <= 1 + len(lives)
            assert [attempt.outcome for attempt in task.history].count("completed") == 1
            assert told.get(task_id, task.result) == task.result
        assert len(accepted) >= len(services)

    on_virtual_time(program)
