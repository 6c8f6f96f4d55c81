"""The worker's core, with a fake executor: runs, beats, timeouts, stops, fences, retirement, restarts."""

import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors import Status, Table, Task, moves
from actors.actor import NEVER, Draw, Effects, keyed_draw
from actors.messages import (
    SCHEDULER,
    Address,
    Beat,
    Busy,
    Failed,
    Finished,
    Gone,
    Idle,
    Resync,
    Retire,
    Run,
    Stop,
    Wake,
    WorkerClass,
)
from actors.trace import StopIgnored
from actors.wiring import notes_of
from actors.worker import Worker

ADDRESS = "worker/1"
CLASS = WorkerClass(frozenset({"crawl"}))
DRAW = keyed_draw(7)
GRACE_SECONDS = 2.5
STOPS = ("at once", "later", "never")
"""What an execution does when it is told to stop; one that never does is a thread, which cannot be told."""

Log = list[tuple[float, Address, Any]]
"""When, to whom, what; events are to `trace`."""


def said(run: Run, outcome: Any, **more: Any) -> Finished:
    return Finished(task_id=run.task_id, token=run.token, worker_id=ADDRESS, outcome=outcome, **more)


class FakeExecutor:
    """Begins what it is given; how it stops, and whether it knows its end beforehand, is set from outside."""

    def __init__(self) -> None:
        self.run: Run | None = None
        self.started: list[Run] = []
        self.stops = "at once"
        self.lasts_seconds: float | None = None

    def start(self, run: Run, now: float, draw: Draw) -> float:
        assert self.run is None, "one at a time"
        self.run = run
        self.started.append(run)
        return NEVER if self.lasts_seconds is None else now + self.lasts_seconds

    def outcome(self, run: Run) -> Finished:
        self.run = None
        return said(run, "completed", result="as foretold")

    def stop(self, run: Run) -> Finished | None:
        assert run == self.run
        if self.stops == "later":
            return None
        if self.stops == "at once":
            self.run = None
        return said(run, "cancelled")

    @property
    def occupied(self) -> bool:
        return self.run is not None


class World:
    """A worker, its executor, and stand-ins for its shard and its host."""

    def __init__(self) -> None:
        self.now = 0.0
        self.table = Table()
        self.log: Log = []
        self.grants = 0
        self.build()

    def build(self) -> None:
        self.timer = NEVER
        self.executor = FakeExecutor()
        notes = notes_of(self.table, ADDRESS)
        self.worker = Worker(ADDRESS, CLASS, self.executor, self.table, notes, GRACE_SECONDS)
        self.take(self.worker.start(self.now))

    def tell(self, message: Any) -> None:
        self.take(self.worker.handle(message, self.now, DRAW))

    def take(self, effects: Effects) -> None:
        assert not effects.held
        for record in effects.records:
            self.table.apply(record)
        if effects.timer is not None:
            self.timer = effects.timer
        self.log += [(self.now, "trace", event) for event in effects.events]
        for receiver, message in effects.sends:
            self.log.append((self.now, receiver, message))
            if isinstance(message, Finished):
                self.settle(message)

    def settle(self, report: Finished) -> None:
        """As a shard does: the first report under the task's token counts."""
        task = self.table[report.task_id]
        if task.status is not Status.IN_PROGRESS or task.token != report.token:
            return
        if report.outcome == "completed":
            self.table.apply(moves.complete(task, report.result, self.now))
        elif report.outcome == "cancelled":
            self.table.apply(moves.cancel(task, self.now))
        else:
            self.table.apply(moves.release(task, self.now))

    def run(
        self,
        *,
        user: str = "alice",
        lease_seconds: float = 6.0,
        timeout_seconds: float | None = None,
        stops: str = "at once",
        lasts_seconds: float | None = None,
    ) -> Run:
        """A new task, claimed and handed to the worker."""
        self.grants += 1
        task_id = f"t{self.grants}"
        task = Task(
            id=task_id, user=user, kind="crawl", sequence=self.grants, created_at=0.0, updated_at=0.0, order_at=0.0
        )
        claimed = moves.claim(task, ADDRESS, lease_seconds, self.now)
        for record in (task, claimed):
            self.table.apply(record)
        self.executor.stops, self.executor.lasts_seconds = stops, lasts_seconds
        run = Run(task_id, user, "crawl", claimed.token, 1, None, lease_seconds, self.grants, timeout_seconds)
        self.tell(run)
        return run

    def finish(self, outcome: str = "completed", **more: Any) -> None:
        """The execution ends by itself."""
        run = self.executor.run
        assert run is not None
        self.executor.run = None
        self.tell(said(run, outcome, **more))

    def wait(self, seconds: float) -> None:
        until = self.now + seconds
        while self.timer <= until:
            self.now, self.timer = max(self.now, self.timer), NEVER
            self.tell(Wake())
        self.now = until

    def sent(self, kind: type) -> list[tuple[float, Address, Any]]:
        return [entry for entry in self.log if isinstance(entry[2], kind)]


# A run


def test_a_new_worker_says_that_it_is_idle() -> None:
    world = World()
    assert world.log == [(0.0, SCHEDULER, Idle(ADDRESS, CLASS, 1, 0))]
    assert repr(world.worker) == "<worker/1: idle>"


def test_a_run_that_ends_by_itself_is_reported_to_its_shard_and_the_worker_is_idle_again() -> None:
    world = World()
    run = world.run(user="tenant/bob")
    assert repr(world.worker) == "<worker/1: runs t1>"
    world.wait(1.0)
    world.finish(result={"found": 3})
    assert world.log[1:] == [
        (1.0, "shard/tenant/bob", said(run, "completed", result={"found": 3})),
        (1.0, SCHEDULER, Idle(ADDRESS, CLASS, 1, 1)),
    ]


@given(st.sampled_from([0.75, 3.0, 6.0, 48.0]), st.lists(st.floats(0.0, 30.0), max_size=10))
def test_a_worker_beats_every_third_of_the_lease_and_never_later(lease_seconds: float, waits: list[float]) -> None:
    world = World()
    world.run(lease_seconds=lease_seconds)
    for seconds in waits:
        world.wait(seconds)
    times = [0.0, *(at for at, _, _ in world.sent(Beat)), world.now]
    assert all(later - earlier <= lease_seconds / 3 for earlier, later in itertools.pairwise(times))
    assert len(times) - 2 == int(world.now / (lease_seconds / 3)), "and never more often"


def test_a_stalled_worker_beats_once_when_it_gets_to_it() -> None:
    world = World()
    world.run(lease_seconds=6.0)
    world.now = 100.0
    world.wait(0.0)
    assert [at for at, _, _ in world.sent(Beat)] == [100.0]
    assert world.timer == 102.0


def test_a_run_heard_of_before_is_not_run_again() -> None:
    world = World()
    run = world.run()
    world.tell(run)
    world.finish()
    world.tell(run)
    assert world.executor.started == [run]
    assert len(world.sent(Finished)) == 1


def test_a_run_under_a_void_grant_is_not_run_when_it_comes_after_all() -> None:
    world = World()
    world.tell(Resync(1, void=1))
    assert world.log[-1:] == [(0.0, SCHEDULER, Idle(ADDRESS, CLASS, 1, 1))]
    world.run()
    assert world.executor.started == []
    world.run()
    assert [run.grant for run in world.executor.started] == [2]


def test_a_worker_that_is_asked_in_mid_run_says_that_it_is_busy() -> None:
    world = World()
    world.run()
    world.tell(Resync(4, void=1))
    assert world.log[-1:] == [(0.0, SCHEDULER, Busy(ADDRESS, CLASS, 4))]
    world.finish()
    assert world.log[-1:] == [(0.0, SCHEDULER, Idle(ADDRESS, CLASS, 4, 1))], "the new epoch is remembered"


def test_a_report_that_the_shard_crashed_on_is_sent_again() -> None:
    world = World()
    run = world.run()
    world.finish()
    world.tell(Failed("shard/alice", said(run, "completed"), "boom"))
    assert world.log[-1:] == [(0.0, "shard/alice", said(run, "completed"))]


def test_an_unknown_message_is_an_error() -> None:
    with pytest.raises(TypeError, match=r"^worker cannot handle 'hello'$"):
        World().tell("hello")


# Stopping it


@pytest.mark.parametrize("outcome", ["completed", "failed", "crashed"])
@pytest.mark.parametrize("why", ["cancelled", "timed out", "released"])
def test_what_a_run_says_for_itself_counts_although_it_was_told_to_stop(outcome: str, why: str) -> None:
    world = World()
    run = world.run(stops="later", timeout_seconds=1.0 if why == "timed out" else None)
    world.wait(1.0)
    if why != "timed out":
        world.tell(Stop("t1", 1) if why == "cancelled" else Retire(at_once=True))
    world.finish(outcome, error="boom")
    assert world.sent(Finished) == [(1.0, "shard/alice", said(run, outcome, error="boom"))]


def test_a_run_that_takes_too_long_is_told_to_stop_and_has_failed_with_a_timeout() -> None:
    world = World()
    run = world.run(timeout_seconds=2.5, stops="later")
    world.wait(2.5)
    assert world.sent(Finished) == [], "it was told, and has the grace time to stop"
    world.finish("cancelled")
    timed_out = said(run, "failed", error="timed out after 2.5 s", error_types=("TimeoutError", "OSError"))
    assert world.sent(Finished) == [(2.5, "shard/alice", timed_out)]


def test_a_thread_is_fenced_at_once_and_keeps_its_worker_until_it_ends() -> None:
    world = World()
    run = world.run(timeout_seconds=2.0, stops="never")
    world.wait(2.0)
    timed_out = said(run, "failed", error="timed out after 2 s", error_types=("TimeoutError", "OSError"))
    fenced = [
        (2.0, "trace", StopIgnored(2.0, "alice#1", 1, ADDRESS, "timed out")),
        (2.0, "shard/alice", timed_out),
    ]
    assert world.log[1:] == fenced
    world.wait(100.0)
    world.tell(Resync(1))
    assert world.log[3:] == [(102.0, SCHEDULER, Busy(ADDRESS, CLASS, 1))], "it beats no more, and is not free"
    world.finish()
    assert world.log[4:] == [(102.0, SCHEDULER, Idle(ADDRESS, CLASS, 1, 1))], "and nobody hears what it says"


def test_a_run_that_does_not_stop_within_the_grace_time_is_fenced_then_and_not_before() -> None:
    world = World()
    run = world.run(stops="later", lease_seconds=6.0)
    world.wait(1.0)
    world.tell(Stop("t1", 1))
    world.wait(GRACE_SECONDS - 0.5)
    assert world.sent(Finished) == []
    assert [at for at, _, _ in world.sent(Beat)] == [2.0], "until then it beats"
    world.wait(0.5)
    assert world.sent(Finished) == [(3.5, "shard/alice", said(run, "cancelled"))]
    assert world.sent(StopIgnored) == [(3.5, "trace", StopIgnored(3.5, "alice#1", 1, ADDRESS, "cancelled"))]


# Retirement and restart


def test_a_worker_that_retires_ends_its_run_and_is_gone() -> None:
    world = World()
    world.run()
    world.tell(Retire())
    assert len(world.log) == 1
    world.finish()
    assert [type(message) for _, _, message in world.log[1:]] == [Finished, Gone]


def test_a_run_that_reaches_a_retired_worker_is_given_back_unexecuted() -> None:
    world = World()
    world.tell(Retire())
    run = world.run()
    assert world.executor.started == []
    assert world.log[-1:] == [(0.0, "shard/alice", said(run, "released"))]
    world.build()
    assert world.log[-1:] == [(0.0, SCHEDULER, Gone(ADDRESS))], "it remembers"


def test_a_worker_that_was_rebuilt_in_mid_run_reports_that_run_as_crashed() -> None:
    world = World()
    run = world.run()
    world.wait(1.0)
    world.build()
    assert world.log[1:] == [
        (1.0, "shard/alice", said(run, "crashed", error="the worker was restarted")),
        (1.0, SCHEDULER, Idle(ADDRESS, CLASS, 1, 1)),
    ]
    world.build()
    assert len(world.sent(Finished)) == 1, "it is said once"
