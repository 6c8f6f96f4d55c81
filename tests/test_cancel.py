"""Cancel, of waiting and of running tasks: who won is said once, and what was acknowledged holds."""

import io
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actors import InvalidTransition, RetryPolicy, Settings, Status, Table, trace
from actors.actor import Effects, keyed_draw
from actors.messages import (
    QUEUE,
    SCHEDULER,
    Answered,
    Beat,
    Cancel,
    Enqueue,
    ExpireLease,
    Failed,
    Finished,
    Idle,
    Requeue,
    Run,
    Settled,
    Stop,
    Wake,
    WorkerClass,
    shard_address,
    worker_address,
)
from actors.table import Notes
from actors.worker import Worker
from sim import At, Fixed, Kind, Runtime, Scenario, Simulation, User
from sim.invariants import Ledger
from sim.service import ServiceTimes
from sim.tasks import CANCEL, ONE_OUTCOME
from sim.worker import SimulatedExecutor
from tests.test_shard import CLIENT, Lone, enqueued, finished, granted, new_task, rebuilt
from tests.test_simulation import Unreliable, scenarios, trace_of

WORKERS = {worker_address(number): WorkerClass(frozenset({"crawl", "mail", "index"})) for number in range(1, 100)}
OTHER_ENDS = ["failed", "crashed", "released", "cancelled"]


def running(**task: Any) -> Lone:
    """A shard whose one task runs on the first worker since 0 s."""
    lone = Lone()
    lone.tell(0.0, *enqueued(new_task(**task)), granted(1))
    return lone


def sent(effects: Effects, message: type) -> list[Any]:
    return [sent for _, sent in (*effects.sends, *effects.held) if isinstance(sent, message)]


# One shard


def test_the_cancel_of_a_running_task_is_a_request_that_its_worker_is_told_of() -> None:
    lone = running()
    effects = lone.tell(2.0, Cancel("t1", CLIENT))
    # Both held, as the run was: a stop that overtook its run would stop nothing.
    assert effects.held == [("worker/1", Stop("t1", 1)), (CLIENT, Answered("t1", None))]
    assert effects.sends == []
    assert lone.events[-1] == trace.CancelRequested(2.0, "alice#1", 1)
    assert (lone.table["t1"].status, lone.table["t1"].cancel_requested) == (Status.IN_PROGRESS, True)


def test_a_worker_that_stopped_in_time_makes_it_cancelled() -> None:
    lone = running()
    effects = lone.tell(2.0, Cancel("t1"), finished("cancelled", 1, 1))
    settled = Settled("alice", "crawl", "t1", "worker/1", 1.5, 2.0, "cancelled", True)
    assert [(to, said) for to, said in effects.sends if isinstance(said, Settled)] == [
        (SCHEDULER, settled),
        (QUEUE, settled),
    ]
    assert lone.events[-1] == trace.Cancelled(2.0, "alice#1", 1, "worker/1", 2.0)
    task = lone.table["t1"]
    assert (task.status, task.completed_at, task.lease_until) == (Status.CANCELLED, 2.0, None)
    assert [(attempt.outcome, attempt.ended_at) for attempt in task.history] == [("cancelled", 2.0)]


def test_a_result_that_comes_first_counts_and_nothing_after_it() -> None:
    lone = running()
    lone.tell(2.0, Cancel("t1"), finished("completed", 1, 1, result=7), finished("cancelled", 1, 1))
    assert (lone.table["t1"].status, lone.table["t1"].result) == (Status.COMPLETED, 7)
    assert [type(event) for event in lone.events[2:]] == [trace.CancelRequested, trace.Completed, trace.ReportRefused]


@pytest.mark.parametrize("outcome", OTHER_ENDS)
@pytest.mark.parametrize("give_up", [False, True])
def test_whatever_else_an_unwanted_execution_comes_to_the_task_ends_as_cancelled(outcome: Any, give_up: bool) -> None:
    lone = running()
    effects = lone.tell(2.0, Cancel("t1"), finished(outcome, 1, 1, error="boom", give_up=give_up))
    task = lone.table["t1"]
    assert (task.status, task.attempts, task.error, task.cause) == (Status.CANCELLED, 1, "boom", None)
    assert [attempt.outcome for attempt in task.history] == [outcome]
    assert lone.events[-1] == trace.Cancelled(2.0, "alice#1", 1, "worker/1", 2.0, outcome)
    assert [settled.ended for settled in sent(effects, Settled)] == [True, True]


def test_an_unwanted_task_that_poisons_its_workers_ends_as_cancelled() -> None:
    lone = Lone(poison_after=1)
    lone.tell(0.0, *enqueued(new_task()), granted(1))
    lone.tell(1.0, Cancel("t1"), Failed("worker/1", Run("t1", "alice", "crawl", 1, 1, None, 60.0, 1), "gone"))
    assert (lone.table["t1"].status, lone.table["t1"].error) == (Status.CANCELLED, "gone")


@pytest.mark.parametrize("max_retries", [0, 3])
def test_an_unwanted_task_whose_worker_falls_silent_ends_as_cancelled(max_retries: int) -> None:
    lone = running(retry=RetryPolicy(max_retries=max_retries))
    lone.tell(2.0, Cancel("t1"))
    effects = lone.tell(60.0, ExpireLease("t1", 1))
    assert lone.table["t1"].status is Status.CANCELLED
    # The scheduler is told how the execution ended, for it then asks the worker how things stand.
    assert [settled.outcome for settled in sent(effects, Settled)] == ["recovered", "recovered"]
    assert lone.events[-1] == trace.Cancelled(60.0, "alice#1", 1, "worker/1", 60.0, "recovered")


def test_who_asks_again_is_answered_again_and_the_worker_is_told_again() -> None:
    lone = running()
    first, again = lone.tell(2.0, Cancel("t1", CLIENT)), lone.tell(3.0, Cancel("t1", CLIENT))
    assert again.held == first.held
    assert (again.records, again.events) == ([], []), "the request is on record already"


def test_a_worker_that_beats_on_is_told_again() -> None:
    lone = running()
    assert lone.tell(1.0, Beat("t1", 1)).held == []
    lone.tell(2.0, Cancel("t1"))
    assert lone.tell(3.0, Beat("t1", 1)).held == [("worker/1", Stop("t1", 1))]
    assert lone.table["t1"].lease_until == 63.0


def test_a_requeue_takes_the_request_back() -> None:
    lone = running()
    lone.tell(2.0, Cancel("t1"), Requeue("t1"), finished("cancelled", 1, 1))
    assert (lone.table["t1"].status, lone.table["t1"].cancel_requested) == (Status.PENDING, False)
    lone.tell(3.0, granted(2), finished("failed", 3, 2))
    assert lone.table["t1"].status is Status.PENDING, "tried again, as if nobody had ever asked"


def test_a_request_outlives_a_restart_of_the_shard() -> None:
    lone = running()
    lone.tell(2.0, Cancel("t1"))
    lone.shard = rebuilt(lone.settings, lone.table)
    lone.shard.start(2.0)
    lone.tell(3.0, finished("failed", 1, 1))
    assert lone.table["t1"].status is Status.CANCELLED


@pytest.mark.parametrize("end", ["completed", "cancelled"])
def test_what_has_ended_cannot_be_cancelled(end: Any) -> None:
    lone = running()
    ((_, answer),) = lone.tell(1.0, finished(end, 1, 1), Cancel("t1", CLIENT)).held
    assert isinstance(answer.error, InvalidTransition)
    assert str(answer.error) == f"a {end} task cannot be cancelled ({end} -> cancelled)"


def test_a_waiting_task_is_cancelled_at_once_and_never_starts() -> None:
    lone = Lone()
    lone.tell(0.0, *enqueued(new_task()))
    assert lone.tell(1.0, Cancel("t1", CLIENT)).held == [(CLIENT, Answered("t1", None))]
    assert lone.events[-1] == trace.Cancelled(1.0, "alice#1", 0)
    assert not lone.tell(2.0, granted(1)).held


# One worker


def at_work(seconds: float = 5.0) -> Worker:
    kinds = {"work": Kind(name="work", service=Fixed(seconds=seconds))}
    worker = Worker(
        "worker/1",
        WorkerClass(frozenset(kinds)),
        SimulatedExecutor("worker/1", ServiceTimes(kinds)),
        Table(),
        Notes("worker/1"),
    )
    worker.handle(Run("t1", "alice", "work", 3, 1, None, 60.0, 1), 0.0, keyed_draw(7))
    return worker


def test_a_worker_that_is_told_to_stop_does_so_and_is_idle() -> None:
    worker = at_work()
    effects = worker.handle(Stop("t1", 3), 2.0, keyed_draw(7))
    (shard, report), (scheduler, idle) = effects.sends
    assert (shard, scheduler) == ("shard/alice", SCHEDULER)
    assert report == Finished(task_id="t1", token=3, worker_id="worker/1", outcome="cancelled")
    assert isinstance(idle, Idle)
    late = worker.handle(Wake(), 5.0, keyed_draw(7))
    assert (late.sends, late.timer) == ([], None), "the timer that is left finds nothing to do"


@pytest.mark.parametrize("stop", [Stop("t1", 2), Stop("t1", 4), Stop("t2", 3)], ids=str)
def test_a_worker_ignores_a_stop_of_another_execution(stop: Stop) -> None:
    worker = at_work()
    assert worker.handle(stop, 2.0, keyed_draw(7)).sends == []
    (_, report), _ = worker.handle(Wake(), 5.0, keyed_draw(7)).sends
    assert report.outcome == "completed"


def test_a_worker_ignores_a_stop_that_crossed_its_report() -> None:
    worker = at_work()
    worker.handle(Wake(), 5.0, keyed_draw(7))
    assert worker.handle(Stop("t1", 3), 5.0, keyed_draw(7)).sends == []


# Every interleaving of a few steps

# Grants and cancels more often than the rest, so that most stories are about an unwanted task that runs.
STEPS = [
    "grant",
    "grant",
    "grant",
    "cancel",
    "cancel",
    "beat",
    "silence",
    "zombie",
    "requeue",
    "later",
    "completed",
    *OTHER_ENDS,
]


class Story:
    """One task, whatever happens to it; what was acknowledged is held against what comes of it."""

    def __init__(self, max_retries: int) -> None:
        self.lone = Lone()
        self.now = 0.0
        self.number = 0
        self.ledger = Ledger(self.lone.settings, self.lone.table, WORKERS)
        self.told = 0
        self.tell(*enqueued(new_task(retry=RetryPolicy(max_retries=max_retries))))

    @property
    def task(self) -> Any:
        return self.lone.table["t1"]

    def tell(self, *messages: Any) -> Effects:
        effects = self.lone.tell(self.now, *messages)
        for event in self.lone.events[self.told :]:
            self.ledger.on_event(event)
        self.told = len(self.lone.events)
        return effects

    def step(self, name: str) -> None:
        token, worker = self.task.token, self.task.worker_id or "worker/1"
        if name == "grant":
            self.number += 1
            self.tell(granted(self.number))
        elif name == "cancel":
            self.cancel()
        elif name == "beat":
            self.tell(Beat("t1", token))
        elif name == "silence":
            self.now = max(self.now, self.task.lease_until or 0.0)
            self.tell(ExpireLease("t1", token))
        elif name == "zombie":
            self.tell(Finished(task_id="t1", token=token - 1, worker_id=worker, outcome="cancelled"))
        elif name == "requeue":
            self.tell(Requeue("t1"))
        elif name == "later":
            self.now += 30.0
            self.tell(Wake())
        elif name != "cancelled" or self.task.cancel_requested:
            # No worker says that it was stopped unless it was told to.
            outcome: Any = name
            self.tell(Finished(task_id="t1", token=token, worker_id=worker, outcome=outcome))

    def cancel(self) -> None:
        before = self.task
        effects = self.tell(Cancel("t1", CLIENT))
        *stops, (_, answer) = effects.held
        assert (answer.error is not None) == before.status.terminal
        expected = [(before.worker_id, Stop("t1", before.token))] if before.status is Status.IN_PROGRESS else []
        assert stops == expected
        if before.status is Status.PENDING:
            assert self.task.status is Status.CANCELLED

    def check(self) -> None:
        assert not self.ledger.violations
        names = [type(event) for event in self.lone.events]
        ends = names.count(trace.Completed) + names.count(trace.Cancelled)
        assert ends == (self.task.status in (Status.COMPLETED, Status.CANCELLED)), "one end, and only one"
        if self.task.cancel_requested:
            assert self.task.status in (Status.IN_PROGRESS, Status.COMPLETED, Status.CANCELLED)
        if self.task.status is Status.CANCELLED:
            assert names[-1] in (trace.Cancelled, trace.ReportRefused), "nothing but refusals after it"


@settings(max_examples=500)
@given(st.lists(st.sampled_from(STEPS), min_size=3, max_size=15), st.integers(0, 2))
def test_a_cancel_that_was_acknowledged_holds_in_every_interleaving(steps: list[str], max_retries: int) -> None:
    story = Story(max_retries)
    for step in steps:
        story.step(step)
        story.check()


# Whole runs


def two_tasks(**kind: Any) -> Scenario:
    """Two tasks of 6 s, one after the other on one worker, which beats every 2 s."""
    work = Kind(name="work", service=Fixed(seconds=6.0), lease_seconds=6.0, **kind)
    user = User(name="alice", arrivals=(At(kind="work", seconds=(0.0, 0.0)),))
    return Scenario(name="two", duration_seconds=1.0, kinds=(work,), users=(user,), runtime=Runtime(workers=1))


class Client:
    """Cancels a task by its number at given times, and keeps the answers."""

    passive = False

    def __init__(self, table: Table, number: int, times: Iterable[float]) -> None:
        self.table, self.number, self.times = table, number, sorted(times)
        self.errors: list[Exception | None] = []

    def start(self, now: float) -> Effects:
        effects = Effects()
        effects.timer = self.times[0]
        return effects

    def handle(self, message: Any, now: float, draw: Any) -> Effects:
        effects = Effects()
        if isinstance(message, Answered):
            self.errors.append(message.error)
        else:
            (task,) = (task for task in self.table if task.sequence == self.number)
            effects.send(shard_address(task.user), Cancel(task.id, CLIENT))
            effects.timer = next((at for at in self.times if at > now), float("inf"))
        return effects


class Faults:
    """Does to the first messages of some types what it is told, through the host's gate."""

    def __init__(self, **actions: list[float | None]) -> None:
        self.actions = actions

    def envelopes(self, envelope: Any, now: float) -> list[Any]:
        """A number delays the message by so many seconds, None drops it."""
        script = self.actions.get(type(envelope[2]).__name__)
        delay = script.pop(0) if script else 0.0
        return [] if delay is None else [(delay, envelope)]

    def timer(self, address: str, at: float, now: float) -> float:
        return at


def played(times: Iterable[float], gate: Any = None, number: int = 1) -> tuple[list[tuple[str, str, float]], Client]:
    """What happened to each of two tasks and when, if one of them is cancelled at these times; and the client's answers."""
    output = io.BytesIO()
    simulation = Simulation(two_tasks(), gate=gate, trace=output)
    client = Client(simulation.table, number, times)
    simulation.host.spawn(CLIENT, lambda: client)
    events = trace_of(simulation, output)[1:]
    result = simulation.result()
    assert result.passed, result.violations
    assert result.jobs == 2
    quiet = (trace.Admitted, trace.Extended)
    return [(event.task, type(event).__name__, event.at) for event in events if not isinstance(event, quiet)], client


SECOND_AFTER_3 = [("alice#2", "Started", 3.0), ("alice#2", "Completed", 9.0)]


def test_a_running_task_is_stopped_and_its_worker_takes_the_next() -> None:
    events, client = played([3.0])
    first = [("alice#1", "Started", 0.0), ("alice#1", "CancelRequested", 3.0), ("alice#1", "Cancelled", 3.0)]
    assert events == first + SECOND_AFTER_3
    assert client.errors == [None]


def test_a_waiting_task_is_cancelled_and_never_starts() -> None:
    events, client = played([3.0, 4.0], number=2)
    assert events == [("alice#1", "Started", 0.0), ("alice#2", "Cancelled", 3.0), ("alice#1", "Completed", 6.0)]
    refused = "a cancelled task cannot be cancelled (cancelled -> cancelled)"
    assert [str(error) for error in client.errors] == ["None", refused]


def test_a_stop_that_crosses_a_result_does_no_harm() -> None:
    events, client = played([5.0], Faults(Stop=[2.0]))
    assert ("alice#1", "Completed", 6.0) in events
    assert ("alice#2", "Completed", 12.0) in events, "the stop that came at 7 s meant another task"
    assert client.errors == [None]


def test_a_cancel_at_the_very_instant_of_the_result_has_one_outcome() -> None:
    events, _ = played([6.0])
    ends = [name for task, name, _ in events if task == "alice#1" and name in ("Completed", "Cancelled")]
    assert len(ends) == 1


def test_a_lost_stop_is_said_again_at_the_next_beat() -> None:
    # The first beat, at 2 s, was before the cancel; the next is at 4 s.
    events, _ = played([3.0], Faults(Stop=[None]))
    assert ("alice#1", "Cancelled", 4.0) in events


def test_a_lost_stop_is_said_again_to_who_asks_again() -> None:
    events, client = played([2.5, 3.0], Faults(Stop=[None]))
    assert events[2:] == [("alice#1", "Cancelled", 3.0), *SECOND_AFTER_3]
    assert client.errors == [None, None]


def test_a_stop_that_came_before_its_run_is_said_again_at_the_first_beat() -> None:
    events, _ = played([1.0], Faults(Run=[1.5]))
    assert ("alice#1", "Cancelled", 3.5) in events


def test_a_lost_report_of_a_stop_ends_as_cancelled_with_the_lease() -> None:
    events, _ = played([3.0], Faults(Finished=[None]))
    # The worker beat at 2 s for the last time.
    assert ("alice#1", "Cancelled", 8.0) in events
    assert ("alice#2", "Completed", 9.0) in events, "the worker itself was free at 3 s"


def test_the_time_of_a_cancelled_execution_is_service_that_was_given() -> None:
    simulation = Simulation(two_tasks())
    client = Client(simulation.table, 1, [3.0])
    simulation.host.spawn(CLIENT, lambda: client)
    simulation.run()
    metrics = simulation.result().users["alice"]
    assert (metrics.completed, metrics.service_seconds) == (1, 9.0)


class CancelRace(Unreliable):
    """Cancels the task that a message is about, just before or after it, beside the faults of a script."""

    def __init__(self, before: dict[int, bool], script: list[str]) -> None:
        super().__init__(script)
        self.before, self.seen = before, 0
        self.asked: set[str] = set()
        self.table = Table()

    def envelopes(self, envelope: Any, now: float) -> list[Any]:
        found = super().envelopes(envelope, now)
        message = envelope[2]
        if not isinstance(message, Enqueue | Run | Finished | Beat | Stop):
            return found
        self.seen += 1
        before = self.before.get(self.seen)
        task = message.task if isinstance(message, Enqueue) else self.table[message.task_id]
        if before is None or (before and isinstance(message, Enqueue)):
            return found
        self.asked.add(task.id)
        cancel = (0.0, (CLIENT, shard_address(task.user), Cancel(task.id, CLIENT)))
        return [cancel, *found] if before else [*found, cancel]


class Answers:
    """Keeps what was answered."""

    passive = False

    def __init__(self) -> None:
        self.acknowledged: set[str] = set()

    def start(self, now: float) -> Effects:
        return Effects()

    def handle(self, message: Any, now: float, draw: Any) -> Effects:
        assert isinstance(message, Answered)
        if message.error is None:
            self.acknowledged.add(message.task_id)
        return Effects()


places = st.dictionaries(st.integers(1, 80), st.booleans(), min_size=1, max_size=25)
faults = st.lists(st.sampled_from(["deliver", "deliver", "drop", "repeat", "late", "delay"]), max_size=40)


@given(scenarios(), places, faults)
def test_in_any_race_what_was_acknowledged_ends_as_cancelled_or_completed_and_nothing_else_is_cancelled(
    scenario: Scenario, before: dict[int, bool], script: list[str]
) -> None:
    gate, answers = CancelRace(before, script), Answers()
    simulation = Simulation(scenario, gate=gate)
    gate.table = simulation.table
    simulation.host.spawn(CLIENT, lambda: answers)
    simulation.run()
    result = simulation.result()
    assert result.passed, result.violations
    assert all(task.status.terminal for task in result.table)
    for task in result.table:
        if task.id in answers.acknowledged:
            assert task.status in (Status.CANCELLED, Status.COMPLETED)
        else:
            assert task.status is not Status.CANCELLED
    assert answers.acknowledged <= gate.asked


# The ledger can tell

ADMITTED = trace.Admitted(0.0, "alice#1", "alice", "crawl", 3, 0.0, None, None, 3, 1.0)
STARTED = trace.Started(1.0, "alice#1", 1, 1, "worker/1")
REQUESTED = trace.CancelRequested(2.0, "alice#1", 1)
CANCELLED = trace.Cancelled(3.0, "alice#1", 1, "worker/1", 2.0)
COMPLETED = trace.Completed(3.0, "alice#1", 1, "worker/1", 2.0)
BROKEN: dict[str, tuple[list[Any], str]] = {
    "a cancelled task starts": ([trace.Cancelled(0.5, "alice#1", 0), STARTED], CANCEL),
    "cancelled and then completed": ([STARTED, REQUESTED, CANCELLED, COMPLETED], CANCEL),
    "completed and then cancelled": ([STARTED, REQUESTED, COMPLETED, CANCELLED], CANCEL),
    "cancelled twice": ([STARTED, REQUESTED, CANCELLED, CANCELLED], CANCEL),
    "cancelled unasked": ([STARTED, CANCELLED], CANCEL),
    "retried": ([STARTED, REQUESTED, trace.Retried(3.0, "alice#1", 1, "worker/1", 2.0, "failed", "x", 9.0)], CANCEL),
    "released": ([STARTED, REQUESTED, trace.Released(3.0, "alice#1", 1, "worker/1", 2.0)], CANCEL),
    "recovered": ([STARTED, REQUESTED, trace.Recovered(61.0, "alice#1", 2, "worker/1", 60.0)], CANCEL),
    "dead-lettered": (
        [STARTED, REQUESTED, trace.DeadLettered(3.0, "alice#1", 1, "worker/1", 2.0, "failed", "failed", "x")],
        CANCEL,
    ),
    "completed twice": ([STARTED, COMPLETED, COMPLETED], ONE_OUTCOME),
}


def ledger_of(events: list[Any]) -> Ledger:
    ledger = Ledger(Settings(), Table(), WORKERS)
    for event in (ADMITTED, *events):
        ledger.on_event(event)
    return ledger


@pytest.mark.parametrize("bug", BROKEN)
def test_a_broken_promise_is_found(bug: str) -> None:
    events, invariant = BROKEN[bug]
    found = {violation.invariant for violation in ledger_of(events).violations}
    assert invariant in found
    assert found <= {CANCEL, ONE_OUTCOME}


@pytest.mark.parametrize(
    "events",
    [
        [trace.Cancelled(0.5, "alice#1", 0)],
        [STARTED, REQUESTED, CANCELLED],
        [STARTED, REQUESTED, COMPLETED],
        [STARTED, REQUESTED, trace.Cancelled(61.0, "alice#1", 1, "worker/1", 60.0, "recovered")],
        [
            STARTED,
            REQUESTED,
            trace.Requeued(3.0, "alice#1", 2, 1, "worker/1"),
            trace.Started(4.0, "alice#1", 3, 2, "worker/2"),
        ],
    ],
)
def test_a_promise_that_was_kept_is_not_taken_for_broken(events: list[Any]) -> None:
    assert ledger_of(events).violations == []
