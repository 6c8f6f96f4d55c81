"""The journal: nobody is told what is not safe, and what happens meanwhile is made safe together."""

import threading
from typing import Any

import pytest
import trio
import trio.testing
from msgspec.structs import replace

from actors import NewTask, RuntimeStopped, Status, StoreFailed
from actors.host import Post
from actors.journal import StoreJournal
from actors.stores.contract import Batch, lasting
from actors.stores.memory import MemoryStore
from actors.table import Noted, Record, Removed
from actors.task import Task
from tests.durable import BrokenStore, RecordingStore, durable


def task(number: int, **changes: Any) -> Task:
    first = Task(
        id=f"t{number}", user="alice", kind="work", sequence=number, created_at=0.0, updated_at=0.0, order_at=0.0
    )
    return replace(first, **changes)


class Desk:
    """A journal, and what it released."""

    def __init__(self, store: MemoryStore) -> None:
        self.journal = StoreJournal(store, threads=False)
        self.released: list[Post] = []
        self.drives: list[int] = []
        self.failures: list[Exception] = []

    def commit(self, *records: Record, told: str | None = None) -> None:
        held: list[tuple[str, Any]] = [] if told is None else [("b", told)]
        self.journal.commit(records, ("a", held), self.released.extend)

    async def run(self) -> None:
        await self.journal.run(lambda: 7.0, lambda: self.drives.append(len(self.released)), self.failures.append)

    @property
    def told(self) -> list[Any]:
        return [message for _, sends in self.released for _, message in sends]


async def test_what_is_held_goes_out_when_its_records_are_safe(nursery: trio.Nursery) -> None:
    store = RecordingStore()
    desk = Desk(store)
    desk.commit(task(1), told="accepted")
    assert desk.told == [] and not desk.journal.idle
    nursery.start_soon(desk.run)
    await trio.testing.wait_all_tasks_blocked()
    assert desk.told == ["accepted"] and desk.drives == [1] and desk.journal.idle
    assert store.get("t1") == task(1) and store.last_at() == 7.0


async def test_what_waits_together_is_one_commit_with_the_latest_of_everything(nursery: trio.Nursery) -> None:
    store = RecordingStore()
    desk = Desk(store)
    desk.commit(task(1), Noted("scheduler", {"pool/virtual": 1.0, "weight/alice": 2.0}), told="first")
    desk.commit(task(1, token=1), Noted("scheduler", {"pool/virtual": 2.0}), told="second")
    desk.commit(task(2), told="third")
    desk.commit(Removed("t2"))
    nursery.start_soon(desk.run)
    await trio.testing.wait_all_tasks_blocked()
    assert store.batches == [
        Batch(
            at=7.0,
            tasks={"t1": task(1, token=1)},
            removed={"t2": None},
            notes={("scheduler", "pool/virtual"): 2.0, ("scheduler", "weight/alice"): 2.0},
        )
    ]
    assert desk.told == ["first", "second", "third"] and desk.journal.commits == 1 and desk.journal.rows == 4


async def test_what_comes_while_a_commit_is_under_way_is_in_the_next(nursery: trio.Nursery) -> None:
    class Chatty(RecordingStore):
        def write(self, batch: Batch) -> None:
            super().write(batch)
            if len(self.batches) == 1:
                desk.commit(task(2), told="second")
                assert desk.told == []

    store = Chatty()
    desk = Desk(store)
    desk.commit(task(1), told="first")
    nursery.start_soon(desk.run)
    await trio.testing.wait_all_tasks_blocked()
    assert [list(batch.tasks) for batch in store.batches] == [["t1"], ["t2"]]
    assert desk.told == ["first", "second"] and desk.drives == [1, 2]


def test_an_answer_that_waits_for_nothing_is_given_at_once() -> None:
    desk = Desk(MemoryStore())
    desk.commit(told="no such task")
    desk.commit(Noted("worker/1", {"run": (1, "alice", "t1", 1)}), told="of the process")
    assert desk.told == ["no such task", "of the process"] and desk.journal.idle


def test_an_answer_without_records_waits_for_what_was_decided_before_it() -> None:
    desk = Desk(MemoryStore())
    desk.commit(task(1, status=Status.COMPLETED, completed_at=1.0))
    desk.commit(told="it ended")
    assert desk.told == []


def test_tasks_that_no_store_keeps_wait_for_none() -> None:
    store = RecordingStore()
    desk = Desk(store)
    desk.commit(task(1), told="kept")
    desk.commit(task(2, persist=False), Noted("scheduler", {"pool/virtual": 1.0}), told="not kept")
    desk.commit(task(3, persist=False), task(4), told="both")
    assert desk.told == ["not kept"] and "t2" not in desk.journal._group.take(0.0).tasks


@pytest.mark.parametrize(
    ("owner", "key", "lasts"),
    [
        ("queue", "sequence", True),
        ("queue", "weight/alice", True),
        ("queue", "wait/submit/1", False),
        ("queue", "held/alice", False),
        ("queue", "key/5/alice/k", False),
        ("queue", "sweep", False),
        ("queue", "drop", False),
        ("scheduler", "epoch", True),
        ("scheduler", "pool/virtual", True),
        ("scheduler", "used/worker/1", False),
        ("scheduler", "grant", False),
        ("shard/alice", "burst", True),
        ("shard/a/b", "await/t1", False),
        ("timetable", "entry/nightly", True),
        ("worker/1", "retiring", False),
    ],
)
def test_what_belongs_to_the_process_is_not_stored(owner: str, key: str, lasts: bool) -> None:
    assert lasting(owner, key) is lasts


@pytest.mark.parametrize("applied", [False, True])
async def test_after_a_commit_that_failed_nothing_is_released(applied: bool) -> None:
    desk = Desk(BrokenStore(OSError("disk full"), commits=0, applied=applied))
    desk.commit(task(1), told="accepted")
    await desk.run()
    desk.commit(told="ended")
    await desk.journal.flush()
    assert desk.told == [] and desk.drives == [] and not desk.journal.idle
    assert [str(failure) for failure in desk.failures] == [
        "memory could not be written: disk full; what was acknowledged is safe, and nothing more is acknowledged"
    ]
    assert isinstance(desk.failures[0].__cause__, OSError)


class GatedStore(RecordingStore):
    """Writes when it is let, in its journal's own thread."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = threading.Semaphore(0)

    def write(self, batch: Batch) -> None:
        self.gate.acquire()
        super().write(batch)


class GatedDesk(Desk):
    """A journal whose commits take as long as they are made to."""

    def __init__(self) -> None:
        self.store = GatedStore()
        super().__init__(self.store)
        self.journal = StoreJournal(self.store)
        self.time = 0.0
        self.looks: list[int] = []
        """How many batches were taken each time that somebody was told something."""

    async def run(self) -> None:
        await self.journal.run(lambda: self.time, self.look, self.failures.append)

    def look(self) -> None:
        self.looks.append(self.taken)

    @property
    def taken(self) -> int:
        return int(self.journal._begun_at)

    def decide(self, *numbers: int) -> None:
        """At a new time."""
        self.time += 1.0
        for number in numbers:
            self.commit(task(number), told=f"{number}")
        self.journal.hasten()

    async def written(self) -> None:
        before = self.journal.commits
        self.store.gate.release()
        while self.journal.commits == before:
            await trio.lowlevel.checkpoint()


def sizes(desk: GatedDesk) -> list[int]:
    return [len(batch.tasks) for batch in desk.store.batches]


async def test_a_batch_is_taken_at_half_of_what_the_last_two_had_and_the_next_before_anybody_is_told(
    nursery: trio.Nursery,
) -> None:
    desk = GatedDesk()
    nursery.start_soon(desk.run)
    await trio.testing.wait_all_tasks_blocked()
    desk.decide(1, 2, 3, 4)
    desk.decide(5, 6, 7, 8)
    await desk.written()
    assert desk.told == ["1", "2", "3", "4"] and desk.looks == [2], "the second was begun before the first was told of"
    desk.decide(9)
    await desk.written()
    await desk.written()
    desk.decide(10, 11)
    assert desk.journal._group.tasks == 2, "the last two had five together"
    desk.decide(12)
    assert desk.journal._group.tasks == 0
    await desk.written()
    assert sizes(desk) == [4, 4, 1, 3] and desk.told == [str(number) for number in range(1, 13)]
    nursery.cancel_scope.cancel()


async def test_where_everybody_waits_for_the_disk_all_wait_for_one_commit(nursery: trio.Nursery) -> None:
    desk = GatedDesk()
    nursery.start_soon(desk.run)
    await trio.testing.wait_all_tasks_blocked()
    desk.decide(1, 2, 3, 4)
    desk.decide(5, 6, 7, 8)
    desk.time += 100.0
    await desk.written()
    assert desk.told == ["1", "2", "3", "4"] and desk.looks == [1], "those who were told come first"
    desk.decide(9)
    desk.decide(10, 11, 12)
    await desk.written()
    assert sizes(desk) == [4, 8] and len(desk.told) == 12
    nursery.cancel_scope.cancel()


# In a runtime


async def test_a_submit_is_acknowledged_when_it_is_stored(autojump_clock: trio.abc.Clock) -> None:
    store = MemoryStore()
    async with durable(store) as runtime:
        handle = await runtime.submit("work", {"n": 1}, user="alice")
        assert store.get(handle.id) == handle.task()


async def test_a_handler_begins_when_its_claim_is_stored_and_its_result_is_told_when_that_is(
    autojump_clock: trio.abc.Clock,
) -> None:
    store = MemoryStore()
    seen: list[Any] = []
    async with durable(store) as runtime:

        @runtime.handler("work")
        async def work(payload: str) -> str:
            seen.extend((stored.status, stored.attempts) for stored in store.tasks())
            return payload.upper()

        handle = await runtime.submit("work", "done", user="alice")
        assert await handle.result() == "DONE"
        stored = store.get(handle.id)
        assert stored is not None and stored.result == "DONE" and stored == handle.task()
    assert seen == [(Status.IN_PROGRESS, 1)]


async def test_whoever_asks_for_an_end_that_is_not_stored_yet_waits_for_it(autojump_clock: trio.abc.Clock) -> None:
    store = MemoryStore()
    async with durable(store) as runtime:
        handle = await runtime.submit("work", user="alice")
        runtime.tell("shard/alice", _cancel(handle.id))
        assert handle.task().status is Status.CANCELLED
        assert _status(store, handle.id) is Status.PENDING
        await handle.wait()
        assert _status(store, handle.id) is Status.CANCELLED


def _cancel(task_id: str) -> Any:
    from actors.messages import Cancel

    return Cancel(task_id)


def _status(store: MemoryStore, task_id: str) -> Status:
    stored = store.get(task_id)
    assert stored is not None
    return stored.status


@pytest.mark.parametrize("applied", [False, True])
async def test_a_store_that_fails_ends_the_runtime_and_acknowledges_nothing_more(
    autojump_clock: trio.abc.Clock, applied: bool
) -> None:
    store = BrokenStore(OSError("no space left on device"), commits=1, applied=applied)
    acknowledged: list[str] = []
    with pytest.raises(StoreFailed, match=r"^memory could not be written: no space left on device; what was ack"):
        async with durable(store) as runtime:
            for _ in range(5):
                acknowledged.append((await runtime.submit("work", user="alice")).id)
    # The first commit is what the actors note when they begin.
    assert acknowledged == [] or all(store.get(task_id) for task_id in acknowledged)
    assert len(acknowledged) < 2


async def test_an_end_that_was_never_stored_is_not_told_after_the_block(autojump_clock: trio.abc.Clock) -> None:
    store = MemoryStore()
    with pytest.raises(StoreFailed):
        async with durable(store) as runtime:
            handle = await runtime.submit("work", user="alice")

            def write(batch: Batch) -> None:
                raise OSError("gone")

            store.write = write  # type: ignore[method-assign]
            await handle.cancel()
    assert handle.task().status is Status.CANCELLED
    with pytest.raises(RuntimeStopped, match=r"^the runtime has stopped, and alice#1 has an end that was not stored$"):
        await handle.wait()


async def test_the_block_ends_when_the_last_commit_is_done(autojump_clock: trio.abc.Clock) -> None:
    store = RecordingStore()
    async with durable(store, stop_grace_seconds=5, cancel_grace_seconds=1) as runtime:
        runtime.handler("sleep", timeout_seconds=None)(trio.sleep)
        handles = await runtime.submit_many([NewTask("sleep", seconds, user="alice") for seconds in (2, 100, 100)])
        await trio.sleep(1)
    assert [_status(store, handle.id) for handle in handles] == [Status.COMPLETED, Status.PENDING, Status.PENDING]
    assert [handle.task().attempts for handle in handles] == [1, 0, 0]
    assert all(store.get(handle.id) == handle.task() for handle in handles)
    assert (await handles[0].wait()).status is Status.COMPLETED


async def test_what_is_not_to_be_stored_is_run_and_not_stored(autojump_clock: trio.abc.Clock) -> None:
    store = MemoryStore()
    async with durable(store) as runtime:
        runtime.handler("nap")(trio.sleep)
        handle = await runtime.submit("nap", 1, user="alice", persist=False)
        await handle.result()
        await (await runtime.run_soon(trio.sleep, 1)).result()
    assert list(store.tasks()) == []


async def test_a_submit_that_waits_at_the_door_can_be_taken_back(autojump_clock: trio.abc.Clock) -> None:
    store = MemoryStore()
    async with durable(store, admitted_max=1, when_full="wait") as runtime:
        first = await runtime.submit("work", user="alice")
        with trio.move_on_after(5) as scope:
            await runtime.submit("work", user="bob")
        assert scope.cancelled_caught
        await first.cancel()
    assert [task.user for task in store.tasks()] == ["alice"]


async def test_times_in_a_store_never_go_back(autojump_clock: trio.abc.Clock) -> None:
    store = RecordingStore()
    async with durable(store, wall_clock_at=1_000.0) as runtime:
        runtime.handler("nap")(trio.sleep)
        await (await runtime.submit("nap", 10, user="alice")).result()
    last_at = store.last_at()
    assert last_at == pytest.approx(1_010)
    async with durable(store, wall_clock_at=500.0) as runtime:
        handle = await runtime.submit("nap", 10, user="alice")
        assert handle.task().created_at >= last_at
    at = [batch.at for batch in store.batches]
    assert at == sorted(at)
