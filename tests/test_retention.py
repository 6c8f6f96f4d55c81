"""Ended tasks: kept so long, then removed with their keys, in small steps and at the exact time."""

from collections import Counter
from typing import Any

import attrs
import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from actors import ActorFailed, Cause, Notes, Settings, Status, Table, Task, UnknownTask, moves
from actors import table as table_module
from actors.actor import NEVER, Effects
from actors.messages import (
    QUEUE,
    Accepted,
    Answered,
    Finished,
    Maintain,
    Maintained,
    Requeue,
    Run,
    Submit,
    Wake,
    shard_address,
)
from actors.queue import Queue
from actors.retention import SWEEP_MAX, Retention
from actors.table import Removed
from actors.trace import Admitted, Event, ReportRefused, Swept
from sim import Burst, Exponential, FixedRate, Kind, Runtime, Scenario, Simulation, User
from sim.invariants import Ledger
from tests.doorway import CLIENT, DRAW, KIND, QUICK, USERS, WORKER, World

KEEP: dict[str, Any] = {"keep_completed_seconds": 60.0, "keep_failed_seconds": 100.0, "keep_cancelled_seconds": 30.0}
KEPT = {Status.COMPLETED: 60.0, Status.FAILED: 100.0, Status.CANCELLED: 30.0}


# The table


def a_task(number: int, user: str) -> Task:
    return Task(
        id=f"t{number}", user=user, kind=KIND, sequence=number, created_at=0.0, updated_at=0.0, order_at=float(number)
    )


def move(task: Task, change: str, now: float) -> Task | Removed | None:
    """The record that this change makes of the task, if it can be made."""
    if task.status is Status.PENDING:
        return {
            "go on": lambda: moves.claim(task, WORKER, 60.0, now),
            "end": lambda: moves.cancel(task, now),
            "fail": lambda: moves.drop(task, now),
        }.get(change, lambda: None)()
    if task.status is Status.IN_PROGRESS:
        return {
            "go on": lambda: moves.extend(task, 60.0, now),
            "back": lambda: moves.release(task, now),
            "end": lambda: moves.complete(task, None, now),
            "fail": lambda: moves.fail(task, Cause.FAILED, "failed", "boom", now),
        }.get(change, lambda: None)()
    if change == "remove":
        return Removed(task.id)
    return moves.requeue(task, True, now) if change == "back" and task.status is Status.FAILED else None


@given(
    st.lists(
        st.tuples(st.integers(0, 9), st.sampled_from(["new", "go on", "go on", "back", "end", "fail", "remove"])),
        max_size=80,
    )
)
def test_the_table_knows_who_waits_who_runs_and_what_ended_in_which_order(
    changes: list[tuple[int, str]],
) -> None:
    table, tasks, ended = Table(), dict[str, Task](), list[str]()
    removed = 0
    for now, (which, change) in enumerate(changes):
        if change == "new":
            record: Any = a_task(now, USERS[which % len(USERS)])
        elif not tasks or (record := move(list(tasks.values())[which % len(tasks)], change, float(now))) is None:
            continue
        table.apply(record)
        if isinstance(record, Removed):
            removed += 1
            del tasks[record.task_id]
            ended.remove(record.task_id)
        else:
            tasks[record.id] = record
            if record.id in ended:
                ended.remove(record.id)
            if record.status.terminal:
                ended.append(record.id)
        check_table(table, tasks, ended)
        assert table.removed == removed


def check_table(table: Table, tasks: dict[str, Task], ended: list[str]) -> None:
    assert {task.id: task for task in table} == tasks
    statuses = Counter(task.status for task in tasks.values())
    assert table.counts == {status: statuses[status] for status in Status}
    for user in USERS:
        mine = Counter(task.status for task in tasks.values() if task.user == user)
        assert (table.pending(user), table.running(user)) == (mine[Status.PENDING], mine[Status.IN_PROGRESS])
        assert len(table.live(user)) == mine[Status.PENDING] + mine[Status.IN_PROGRESS]
    for status in KEPT:
        in_order = [tasks[task_id] for task_id in ended if tasks[task_id].status is status]
        assert list(table.ended(status)) == in_order
        assert table.first_ended(status) == (in_order[0] if in_order else None)
    assert table.dead_letters() == list(table.ended(Status.FAILED))


def test_a_table_that_is_filled_from_a_store_takes_tasks_as_they_stand() -> None:
    table = Table()
    running = moves.claim(a_task(1, "alice"), WORKER, 60.0, 0.0)
    done = moves.complete(moves.claim(a_task(2, "alice"), WORKER, 60.0, 0.0), None, 1.0)
    for record in (running, done):
        table.apply(record)
    check_table(table, {running.id: running, done.id: done}, [done.id])
    table.apply(moves.complete(running, None, 2.0))
    assert table.live_users() == []


def test_only_an_ended_task_is_removed() -> None:
    table = Table()
    table.apply(a_task(1, "alice"))
    with pytest.raises(AssertionError, match="only an ended task is removed"):
        table.apply(Removed("t1"))


# Against a plain model


class RetentionMachine(RuleBasedStateMachine):
    """Tasks end in every way, time passes, and an operator requeues and sweeps."""

    def __init__(self) -> None:
        super().__init__()
        self.world = World(**KEEP)
        self.ended: dict[str, tuple[Status, float]] = {}
        """How and when each task ended that is still to be found."""
        self.keys: dict[str, str] = {}
        self.gone: set[str] = set()
        self.runs: list[Run] = []

    @property
    def now(self) -> float:
        return self.world.host.now

    def sweep(self, until: float, everything: bool = False) -> int:
        """Whatever is due by then is gone."""
        due = [task_id for task_id, (status, at) in self.ended.items() if everything or at + KEPT[status] <= until]
        for task_id in due:
            del self.ended[task_id]
            self.keys = {key: known for key, known in self.keys.items() if known != task_id}
        self.gone.update(due)
        return len(due)

    @rule(key=st.sampled_from([None, "k", "l"]))
    def submit(self, key: str | None) -> None:
        submitted = self.world.submit("alice", idempotency_key=key)
        expected = submitted if key is None else self.keys.setdefault(key, submitted)
        assert self.world.answer(submitted) == Accepted(submitted, expected)

    @rule()
    def start(self) -> None:
        if (run := self.world.start("alice")) is not None:
            self.runs.append(run)

    @precondition(lambda self: self.runs)
    @rule(place=st.integers(0, 9), completes=st.booleans())
    def finish(self, place: int, completes: bool) -> None:
        run = self.runs.pop(place % len(self.runs))
        self.world.finish(run, "completed" if completes else "failed", give_up=True)
        self.ended[run.task_id] = (Status.COMPLETED if completes else Status.FAILED, self.now)

    @rule()
    def cancel(self) -> None:
        for task in self.world.pending("alice")[:1]:
            self.world.end(task.id)
            self.ended[task.id] = (Status.CANCELLED, self.now)

    @precondition(lambda self: any(status is Status.FAILED for status, _ in self.ended.values()))
    @rule(place=st.integers(0, 9))
    def requeue(self, place: int) -> None:
        failed = [task_id for task_id, (status, _) in self.ended.items() if status is Status.FAILED]
        task_id = failed[place % len(failed)]
        del self.ended[task_id]
        self.world.tell(shard_address("alice"), Requeue(task_id))

    @precondition(lambda self: self.gone)
    @rule(place=st.integers(0, 99))
    def requeue_what_is_gone(self, place: int) -> None:
        task_id = sorted(self.gone)[place % len(self.gone)]
        self.world.tell(shard_address("alice"), Requeue(task_id, reply_to=CLIENT))
        answer = self.world.sinks[CLIENT].got[-1]
        assert isinstance(answer, Answered) and isinstance(answer.error, UnknownTask)
        assert str(answer.error) == f"alice has no task {task_id!r}"

    @rule(seconds=st.sampled_from([0.5, 10.0, 29.5, 60.0]))
    def pass_time(self, seconds: float) -> None:
        self.world.pass_time(seconds)
        self.sweep(self.now)

    @rule(everything=st.booleans())
    def maintain(self, everything: bool) -> None:
        self.world.tell(QUEUE, Maintain(everything, CLIENT))
        assert self.world.sinks[CLIENT].got[-1] == Maintained(self.sweep(self.now, everything))

    @rule()
    def restart(self) -> None:
        self.world.host.restart(QUEUE)
        self.world.settle()

    @invariant()
    def what_has_ended_and_is_not_due_is_there(self) -> None:
        table = self.world.table
        assert {task.id: (task.status, task.completed_at) for task in table if task.status.terminal} == self.ended
        assert table.removed == len(self.gone)
        swept = [event for event in self.world.events if isinstance(event, Swept)]
        assert len(swept) == len({event.task for event in swept}) == len(self.gone)

    @invariant()
    def it_wakes_exactly_when_the_next_is_due(self) -> None:
        due = min((at + KEPT[status] for status, at in self.ended.values()), default=NEVER)
        assert self.world.host._timers.get(QUEUE, NEVER) == due

    @invariant()
    def keys_last_as_long_as_their_tasks(self) -> None:
        noted = {key: known[0] for key, known in self.world.notes().items() if key.startswith("key/")}
        assert noted == {f"key/5/alice/{key}": known for key, known in self.keys.items()}
        assert "sweep" not in self.world.notes()


def test_ended_tasks_are_removed_as_the_model_removes_them() -> None:
    run_state_machine_as_test(RetentionMachine, settings=settings(stateful_step_count=40))


def keyless(self: Queue, now: float, effects: Effects) -> None:
    going, self._due_at = self._retention.sweep(now)
    effects.records.extend(Removed(task.id) for task in going)
    effects.events.extend(Swept(now, task.identity) for task in going)
    self._retention.swept(len(going))
    for reply_to, removed in self._retention.finish():
        effects.hold(reply_to, Maintained(removed))


def entered_twice(self: Table, task: Task, tally: dict[Status, int]) -> None:
    self._owners.setdefault(task.user, table_module._Owner()).ids.add(task.id)


PLANTED: dict[str, tuple[Any, str, Any]] = {
    "keys are kept": (Queue, "_sweep", keyless),
    "everything is kept alike": (
        Retention,
        "_due_at",
        lambda self, task: task.completed_at + self._keep_seconds[Status.COMPLETED],
    ),
    "nothing is removed by itself": (Retention, "due_at", lambda self: NEVER),
    "what is requeued keeps its place": (Table, "_enter", entered_twice),
}


@pytest.mark.parametrize("bug", PLANTED)
def test_the_machine_finds_a_planted_bug(bug: str, monkeypatch: pytest.MonkeyPatch) -> None:
    owner, name, replacement = PLANTED[bug]
    monkeypatch.setattr(owner, name, replacement)
    # A table that contradicts itself lets the queue crash, which is as good.
    with pytest.raises((AssertionError, ActorFailed)):
        run_state_machine_as_test(RetentionMachine, settings=QUICK)


# In steps


class Core:
    """A queue without a host, over a table of ended tasks."""

    def __init__(self, ended: int, **options: Any) -> None:
        self.table = Table()
        self.now = 0.0
        for number in range(1, ended + 1):
            self.table.apply(moves.cancel(self.applied(a_task(number, "alice")), 0.0))
        self.queue = Queue(Settings(**options), Notes(QUEUE), self.table)

    def applied(self, task: Task) -> Task:
        self.table.apply(task)
        return task

    def tell(self, message: Any) -> Effects:
        return self.done(self.queue.handle(message, self.now, DRAW))

    def done(self, effects: Effects) -> Effects:
        for record in effects.records:
            self.table.apply(record)
        return effects


def removals(effects: Effects) -> int:
    removed = [record for record in effects.records if isinstance(record, Removed)]
    assert len(removed) == sum(isinstance(event, Swept) for event in effects.events)
    return len(removed)


@given(st.integers(0, 5 * SWEEP_MAX), st.booleans())
def test_a_sweep_takes_small_steps_until_it_is_done(ended: int, asked: bool) -> None:
    core = Core(ended, keep_cancelled_seconds=None if asked else 30.0)
    timer = core.done(core.queue.start(0.0)).timer
    assert timer == (None if asked or not ended else 30.0)
    core.now = 30.0
    effects = core.tell(Maintain(True, CLIENT) if asked else Wake())
    steps = [removals(effects)]
    while effects.timer == core.now:
        assert not effects.held, "who asked is told at the end"
        core.now += 0.25
        effects = core.tell(Wake())
        steps.append(removals(effects))
    assert sum(steps) == ended and core.table.removed == ended
    assert max(steps) <= SWEEP_MAX
    assert len(steps) <= 1 + ended // SWEEP_MAX, "no step is for nothing"
    assert effects.held == ([(CLIENT, Maintained(ended))] if asked else [])
    assert effects.timer in (None, NEVER)


def test_messages_are_handled_between_the_steps_and_what_ends_later_stays() -> None:
    core = Core(2 * SWEEP_MAX, keep_cancelled_seconds=None)
    assert removals(core.tell(Maintain(True, CLIENT))) == SWEEP_MAX
    core.now = 1.0
    ((_, enqueue),) = core.tell(Submit(id="new", user="alice", kind=KIND)).sends
    core.table.apply(moves.cancel(core.applied(enqueue.task), 1.0))
    effects = core.tell(Wake())
    assert removals(effects) == SWEEP_MAX
    assert effects.held == [(CLIENT, Maintained(2 * SWEEP_MAX))]
    assert [task.id for task in core.table] == ["new"]


def test_everybody_who_asks_for_a_sweep_is_told_what_it_removed_since() -> None:
    core = Core(2 * SWEEP_MAX + 5)
    core.tell(Maintain(True, "client/1"))
    saved = core.table.notes(QUEUE)
    core.queue = Queue(Settings(), Notes(QUEUE, saved), core.table)
    assert core.done(core.queue.start(0.0)).timer == 0.0, "a restart goes on where it was"
    assert core.tell(Maintain(False, "client/2")).held == []
    effects = core.tell(Maintain(True, None))
    assert effects.held == [("client/1", Maintained(2 * SWEEP_MAX + 5)), ("client/2", Maintained(SWEEP_MAX + 5))]
    assert "sweep" not in core.table.notes(QUEUE)


def test_a_key_that_means_another_task_by_now_is_left_alone() -> None:
    core = Core(0)
    keyed = msgspec.structs.replace(a_task(1, "alice"), idempotency_key="k")
    core.table.apply(moves.cancel(core.applied(keyed), 0.0))
    core.tell(Submit(id="other", user="alice", kind=KIND, idempotency_key="k"))
    core.tell(Maintain(True))
    assert core.table.removed == 1
    assert core.table.notes(QUEUE)["key/5/alice/k"] == ["other", KIND]


def test_a_million_would_be_swept_in_steps_that_cost_the_same() -> None:
    """From the front of what ended: however much was swept before, a step looks at what it takes and one more."""
    core = Core(20 * SWEEP_MAX)
    looked = []
    retention = core.queue._retention
    due_at = retention._due_at
    retention._due_at = lambda task: looked.append(task.id) or due_at(task)  # type: ignore[method-assign, func-returns-value]
    core.now = 1800.0
    for step in range(1, 21):
        assert removals(core.tell(Wake())) == SWEEP_MAX
        assert len(looked) <= step * (SWEEP_MAX + 1)


# On whole runs


class Recorder:
    def __init__(self) -> None:
        self.events: list[Event] = []

    def on_event(self, event: Event) -> None:
        self.events.append(event)

    def on_quiet(self, now: float) -> None:
        """Only events matter."""


class LateReports:
    """Now and then a worker's report takes a minute, which is longer than its lease."""

    def __init__(self, every: int) -> None:
        self.every, self.seen = every, 0

    def envelopes(self, envelope: Any, now: float) -> list[Any]:
        self.seen += isinstance(envelope[2], Finished)
        late = isinstance(envelope[2], Finished) and self.seen % self.every == 0
        return [(60.0 if late else 0.0, envelope)]

    def timer(self, address: str, at: float, now: float) -> float:
        return at


kind = Kind(name="work", service=Exponential(mean_seconds=2.0), lease_seconds=5.0, timeout_seconds=6.0, max_retries=1)
users = (
    User(name="alice", arrivals=(Burst(kind="work", count=60),)),
    User(name="bob", arrivals=(FixedRate(kind="work", per_second=0.5),)),
)
scenario = Scenario(
    name="sweeping", duration_seconds=60.0, kinds=(kind,), users=users, runtime=Runtime(workers=3), seed=5
)


def run(seconds: float | None, monkeypatch: pytest.MonkeyPatch, gate: Any = None) -> tuple[Simulation, list[Event]]:
    keep = dict.fromkeys(KEEP, seconds)
    plain = Scenario.settings
    monkeypatch.setattr(Scenario, "settings", lambda self: attrs.evolve(plain(self), **keep))
    recorder = Recorder()
    simulation = Simulation(scenario, observers=[recorder], gate=gate)
    simulation.run()
    monkeypatch.undo()
    return simulation, recorder.events


def test_a_scenario_keeps_all_that_ended_so_that_no_sweep_lengthens_a_run() -> None:
    chosen = scenario.settings()
    assert [getattr(chosen, name) for name in KEEP] == [None, None, None]


@pytest.mark.parametrize("seconds", [0.0, 7.5, 500.0])
def test_sweeping_changes_nothing_but_what_can_be_looked_up(seconds: float, monkeypatch: pytest.MonkeyPatch) -> None:
    kept, plain = run(None, monkeypatch)
    swept, events = run(seconds, monkeypatch)
    assert kept.result().passed and swept.result().passed
    assert [event for event in events if not isinstance(event, Swept)] == plain
    assert len(swept.table) == 0
    assert swept.table.removed == len(kept.table) == len(kept.ledger.entries)
    assert swept.ledger.entries == {}
    ended = {task.identity: task.completed_at for task in kept.table}
    assert {event.task: event.at for event in events if isinstance(event, Swept)} == {
        name: pytest.approx(at + seconds) for name, at in ended.items() if at is not None
    }


@pytest.mark.parametrize("seconds", [0.0, 30.0])
def test_a_zombie_of_a_task_that_was_removed_breaks_nothing(seconds: float, monkeypatch: pytest.MonkeyPatch) -> None:
    simulation, events = run(seconds, monkeypatch, LateReports(every=4))
    result = simulation.result()
    assert result.passed, result.violations
    unknown = [event for event in events if isinstance(event, ReportRefused) and event.status == "unknown"]
    assert unknown, "some report came after its task was gone"
    assert len(result.table) == 0


def test_the_ledger_finds_a_task_that_is_removed_in_silence(monkeypatch: pytest.MonkeyPatch) -> None:
    hears = Ledger.on_event
    monkeypatch.setattr(Ledger, "on_event", lambda self, event: isinstance(event, Swept) or hears(self, event))
    simulation, _ = run(7.5, monkeypatch)
    assert simulation.ledger.counts["I1 conservation"] > 0


def test_the_ledger_finds_a_sweep_of_what_has_not_ended() -> None:
    ledger = Simulation(scenario).ledger
    ledger.on_event(Admitted(0.0, "alice#1", "alice", "work", 3, 0.0, None, None, 3, 1.0))
    ledger.on_event(Swept(0.0, "alice#1"))
    assert ledger.counts["I1 conservation"] == 1
    assert "alice#1 was removed while waiting" in ledger.violations[0].said
