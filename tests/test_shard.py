"""The shard's core, without an event loop, against a model that is too plain to be wrong.

The model is a dict of tasks and linear scans, its rules taken from SPEC.md. Both get the same messages; after each one
the table, the ready counts, the timer and everything that was sent must be what the model says.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, ClassVar

import attrs
import msgspec
import pytest
from hypothesis import Phase, Verbosity, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule, run_state_machine_as_test

from actors import (
    Accumulating,
    Aging,
    Arrival,
    Cause,
    Fifo,
    InvalidTransition,
    KindSettings,
    Noted,
    Notes,
    Priority,
    RetryPolicy,
    Settings,
    Status,
    Strict,
    Table,
    Task,
    UnknownTask,
    lanes,
    moves,
    shard,
    trace,
)
from actors.actor import NEVER, Effects, keyed_draw
from actors.backlog import Backlog
from actors.messages import (
    QUEUE,
    SCHEDULER,
    SUPERVISOR,
    Accepted,
    Answered,
    Beat,
    Cancel,
    Declined,
    Enqueue,
    ExpireLease,
    Failed,
    Finished,
    Grant,
    Granted,
    Head,
    Leased,
    Readmitted,
    Ready,
    Requeue,
    Resync,
    Run,
    Settled,
    Stop,
    Wake,
    shard_address,
)
from actors.shard import Shard
from actors.table import Record

USER = "alice"
HOME = shard_address(USER)
KINDS = ("crawl", "mail", "index")
EVERY_KIND = frozenset(KINDS)
LEASE_SECONDS = {"crawl": 5.0, "mail": 20.0, "index": 60.0}
CLIENT = "client/1"
DRAW = keyed_draw(7)
AGING_SECONDS = 10.0
POISON_AFTER = 2
DEAD_MAX = 3
"""Dead entries that a lane may keep beside as many as are live; a few dozen tasks would never make up the real 64."""


# The model


@attrs.define(eq=False)
class Expected:
    """What the model knows of one task; `given` is the record as it was submitted."""

    given: Task
    run_after: float | None
    expires_at: float | None
    status: Status = Status.PENDING
    token: int = 0
    attempts: int = 0
    requeues: int = 0
    executions: int = 0
    """Those of this requeue epoch; one that was released does not count."""
    crashes: int = 0
    worker: str | None = None
    started_at: float = 0.0
    lease_until: float | None = None
    cause: Cause | None = None
    cancel_requested: bool = False
    outcomes: list[str] = attrs.Factory(list)

    @property
    def critical(self) -> bool:
        return self.given.priority is Priority.CRITICAL

    @property
    def runs(self) -> bool:
        return self.status is Status.IN_PROGRESS


class Model:
    """One user's tasks, and all that their shard must have said while it handled the latest message."""

    def __init__(self, order: str, critical_burst: int | None) -> None:
        self.order = order
        self.critical_burst = critical_burst
        self.tasks: dict[str, Expected] = {}
        self.grants: list[tuple[str, bool, bool]] = []
        """What was picked, and whether other work waited that the worker, or that anybody, could run."""
        self.forget_said()

    def forget_said(self) -> None:
        self.events: list[tuple[type, str]] = []
        self.settled: list[Settled] = []
        self.to_queue: list[Settled] = []
        self.readmitted: list[str] = []
        self.to_supervisor: list[Leased] = []
        self.stops: list[tuple[str, Stop]] = []

    # What there is

    def in_status(self, *statuses: Status) -> list[Expected]:
        return [task for task in self.tasks.values() if task.status in statuses]

    def ready(self, now: float, kinds: Iterable[str] = KINDS) -> list[Expected]:
        pending = [task for task in self.in_status(Status.PENDING) if task.given.kind in kinds]
        return [task for task in pending if task.run_after is None or task.run_after <= now]

    def counts(self, now: float) -> dict[str, int]:
        return dict(Counter(task.given.kind for task in self.ready(now)))

    def heads(self, now: float) -> dict[str, Head]:
        firsts = {kind: self.first(self.ready(now, [kind]), now) for kind in self.counts(now)}
        given = {kind: first.given for kind, first in firsts.items() if first is not None}
        return {kind: Head(task.priority, task.order_at, task.sequence, task.cost) for kind, task in given.items()}

    def wakes_at(self, now: float) -> float:
        pending = self.in_status(Status.PENDING)
        starts = [task.run_after for task in pending if task.run_after is not None and task.run_after > now]
        ends = [task.expires_at for task in pending if task.expires_at is not None]
        return min([*starts, *ends], default=NEVER)

    def index_entries(self) -> int:
        """A pending task waits in one lane, and in one more if it can expire."""
        return sum(1 + (task.expires_at is not None) for task in self.in_status(Status.PENDING))

    # Which is next

    def rank(self, task: Expected, now: float) -> tuple[float, ...]:
        level, order_at, sequence = task.given.priority, task.given.order_at, task.given.sequence
        if task.critical or self.order == "fifo":
            return (order_at, sequence)
        if self.order == "strict":
            return (-level, order_at, sequence)
        if self.order == "accumulating":
            return (-level / 5 * (now - order_at), order_at, sequence)
        return (order_at - (level - 1) * AGING_SECONDS, order_at, sequence)

    def first(self, tasks: list[Expected], now: float) -> Expected | None:
        """Critical tasks before the rest, as long as no burst is spent."""
        critical = [task for task in tasks if task.critical]
        return min(critical or tasks, key=lambda task: self.rank(task, now), default=None)

    def burst(self) -> int:
        """Critical tasks in a row that went before other work which their worker could have run."""
        count = 0
        for picked, worker_had_other, anybody_had_other in reversed(self.grants):
            if picked == "other" or not anybody_had_other:
                return count
            count += picked == "critical" and worker_had_other
        return count

    def pick(self, kinds: frozenset[str], now: float) -> Expected | None:
        tasks = self.ready(now, kinds)
        other = [task for task in tasks if not task.critical]
        spent = self.critical_burst is not None and self.burst() >= self.critical_burst
        picked = self.first(other if other and spent else tasks, now)
        name = "none" if picked is None else "critical" if picked.critical else "other"
        self.grants.append((name, bool(other), any(not task.critical for task in self.ready(now))))
        return picked

    # What becomes of a task

    def expire(self, now: float) -> None:
        """What no worker started in time is a dead letter, the earliest first."""
        timed = [task for task in self.in_status(Status.PENDING) if task.expires_at is not None]
        for task in sorted(timed, key=lambda task: (task.expires_at, task.given.order_at, task.given.sequence)):
            assert task.expires_at is not None
            if task.expires_at <= now:
                self.end(task, Status.FAILED, "expired", trace.DeadLettered, now)
                task.cause = Cause.EXPIRED

    def claim(self, task: Expected, worker: str, now: float) -> None:
        assert task.status is Status.PENDING, "only a task that waits is started"
        task.status, task.worker, task.started_at = Status.IN_PROGRESS, worker, now
        task.token += 1
        task.attempts += 1
        task.executions += 1
        task.lease_until, task.run_after = now + LEASE_SECONDS[task.given.kind], None
        self.events.append((trace.Started, task.given.identity))
        if not any(
            other.runs and other.given.kind == task.given.kind for other in self.tasks.values() if other is not task
        ):
            self.to_supervisor.append(Leased(task.given.id, task.token, task.lease_until))

    def finish(self, task: Expected, report: Finished, run_after: float | None, now: float) -> None:
        if report.outcome == "completed":
            self.end(task, Status.COMPLETED, "completed", trace.Completed, now)
        elif report.outcome == "cancelled" or task.cancel_requested:
            self.end(task, Status.CANCELLED, report.outcome, trace.Cancelled, now)
        elif report.outcome == "released":
            task.attempts -= 1
            task.executions -= 1
            self.put_back(task, "released", trace.Released, now)
        elif (cause := self.verdict(task, report)) is not None:
            self.end(task, Status.FAILED, report.outcome, trace.DeadLettered, now)
            task.cause = cause
        else:
            low, high = self.delay_band(task, report)
            assert run_after is not None and now + low - 1e-9 <= run_after <= now + high + 1e-9
            task.crashes += report.outcome == "crashed"
            self.put_back(task, report.outcome, trace.Retried, now)
            task.run_after = run_after

    def verdict(self, task: Expected, report: Finished) -> Cause | None:
        """Why the task is a dead letter now, or None if it gets another try."""
        if report.outcome == "crashed" and task.crashes + 1 == POISON_AFTER:
            return Cause.POISONED
        policy = task.given.retry
        unwanted = any(name in policy.give_up_on for name in report.error_types)
        wanted = not policy.retry_on or any(name in policy.retry_on for name in report.error_types)
        asked = report.retry_after_seconds is not None
        may = asked or (not unwanted and (wanted or report.outcome == "crashed"))
        out_of_retries = task.attempts == 1 + policy.max_retries
        return Cause.FAILED if report.give_up or not may or out_of_retries else None

    def delay_band(self, task: Expected, report: Finished) -> tuple[float, float]:
        if report.retry_after_seconds is not None:
            return report.retry_after_seconds, report.retry_after_seconds
        policy = task.given.retry
        delay = min(policy.base_seconds * policy.factor ** (task.attempts - 1), policy.max_seconds)
        return delay * (1 - policy.jitter), delay * (1 + policy.jitter)

    def expire_lease(self, task: Expected, token: int, now: float) -> None:
        if not task.runs or token != task.token:
            return
        assert task.lease_until is not None
        if task.lease_until > now:
            self.to_supervisor.append(Leased(task.given.id, token, task.lease_until))
        elif task.cancel_requested:
            self.end(task, Status.CANCELLED, "recovered", trace.Cancelled, now)
        elif task.attempts == 1 + task.given.retry.max_retries:
            self.end(task, Status.FAILED, "recovered", trace.DeadLettered, now)
            task.cause = Cause.FAILED
        else:
            self.put_back(task, "recovered", trace.Recovered, now)
            task.token += 1

    def cancel(self, task: Expected, now: float) -> bool:
        """At once if it waits; if it runs, its worker is told to stop, every time that somebody asks."""
        if task.runs:
            if not task.cancel_requested:
                self.events.append((trace.CancelRequested, task.given.identity))
            task.cancel_requested = True
            self.stop(task)
        elif task.status is Status.PENDING:
            self.end(task, Status.CANCELLED, "cancelled", trace.Cancelled, now)
        else:
            return False
        return True

    def beat(self, task: Expected, now: float) -> None:
        task.lease_until = now + LEASE_SECONDS[task.given.kind]
        self.events.append((trace.Extended, task.given.identity))
        if task.cancel_requested:
            self.stop(task)

    def stop(self, task: Expected) -> None:
        self.stops.append((str(task.worker), Stop(task.given.id, task.token)))

    def requeue(self, task: Expected, reset_retries: bool, now: float) -> bool:
        """A new requeue epoch: one more execution is promised, or all of them."""
        if task.runs:
            self.put_back(task, "requeued", trace.Requeued, now)
        elif task.status is Status.FAILED:
            task.status, task.run_after, task.cause = Status.PENDING, None, None
            self.events.append((trace.Requeued, task.given.identity))
            self.readmitted.append(task.given.id)
        else:
            return False
        task.attempts = 0 if reset_retries else min(task.attempts, task.given.retry.max_retries)
        task.token += 1
        task.requeues += 1
        task.executions = task.crashes = 0
        task.expires_at = None
        task.cancel_requested = False
        return True

    def put_back(self, task: Expected, outcome: str, event: type, now: float) -> None:
        self.settle(task, outcome, now, ended=False)
        self.events.append((event, task.given.identity))
        task.outcomes.append(outcome)
        task.status, task.lease_until = Status.PENDING, None

    def end(self, task: Expected, status: Status, outcome: str, event: type, now: float) -> None:
        self.settle(task, outcome, now, ended=True)
        self.events.append((event, task.given.identity))
        if task.runs:
            task.outcomes.append(outcome)
        task.status, task.lease_until = status, None

    def settle(self, task: Expected, outcome: str, now: float, ended: bool) -> None:
        """The scheduler hears of every execution that ends, the queue of every task that does."""
        used = now - task.started_at if task.runs else 0.0
        worker = task.worker if task.runs else None
        given = task.given
        settled = Settled(USER, given.kind, given.id, worker, given.cost, used, outcome, ended)
        if task.runs:
            self.settled.append(settled)
        if ended:
            self.to_queue.append(settled)


# The machine


def settings_with(ordering: Any, sharing: Any, critical_burst: int | None) -> Settings:
    return Settings(
        ordering=ordering,
        sharing=sharing,
        critical_burst=critical_burst,
        poison_after=POISON_AFTER,
        # Where there is a bound the queue counts, and must be told of every end.
        admitted_max=10**9,
        kinds={kind: KindSettings(lease_seconds=seconds) for kind, seconds in LEASE_SECONDS.items()},
    )


def replayed(records: list[Record]) -> Table:
    """The table that these records lead to."""
    table = Table()
    for record in records:
        table.apply(record)
    return table


def rebuilt(configured: Settings, table: Table) -> Shard:
    return Shard(USER, configured, table, Notes(HOME, table.notes(HOME)))


def picks(core: Shard, table: Table, now: float) -> list[str]:
    """The order in which one worker after another would be handed all that is ready."""
    order: list[str] = []
    while True:
        effects = core.handle(Grant(0, "worker/9", EVERY_KIND), now, DRAW)
        for record in effects.records:
            table.apply(record)
        if not effects.held:
            return order
        order.append(effects.held[0][1].task_id)


def lanes_of(core: Shard) -> list[lanes.Lane]:
    """Every lane that the shard keeps, alone or among others, whatever they are for."""
    found: list[lanes.Lane] = []
    for value in vars(core).values():
        if isinstance(value, lanes.Lane):
            found.append(value)
        elif isinstance(value, Iterable) and not isinstance(value, Table):
            parts = value.values() if isinstance(value, dict) else value
            found += [part for part in parts if isinstance(part, lanes.Lane)]
    return found


offsets = st.sampled_from([-5.0, 0.0, 0.5, 3.0, 10.0, 40.0])
seconds = st.sampled_from([0.0, 0.5, 1.0, 3.0, 10.0, 40.0])
places = st.integers(0, 30)
error_types = st.sampled_from([(), ("OSError",), ("ValueError",), ("ConnectionError", "OSError"), ("KeyError",)])
retries = st.builds(
    RetryPolicy,
    max_retries=st.integers(0, 3),
    base_seconds=st.sampled_from([0.0, 3.0]),
    max_seconds=st.just(10.0),
    jitter=st.sampled_from([0.0, 0.2]),
    retry_on=st.sampled_from([(), (), ("OSError",)]),
    give_up_on=st.sampled_from([(), ("ValueError",)]),
)
# Half of them critical, so that bursts happen; most of them ready at once, so that grants find something.
orders = st.fixed_dictionaries(
    {
        "kind": st.sampled_from(KINDS),
        "priority": st.one_of(st.just(Priority.CRITICAL), st.sampled_from(Priority)),
        "at": st.sampled_from([None, None, 0.0]),
        "delay": st.one_of(st.none(), st.none(), offsets),
        "lifetime": st.one_of(st.none(), st.none(), offsets),
        "retry": retries,
    }
)
reports = st.fixed_dictionaries(
    {"outcome": st.sampled_from(["completed", "failed", "failed", "crashed", "crashed", "released", "cancelled"])},
    optional={
        "error": st.sampled_from(["boom", "bang"]),
        "error_types": error_types,
        "retry_after_seconds": st.sampled_from([0.0, 7.0]),
        "give_up": st.booleans(),
    },
)


class ShardMachine(RuleBasedStateMachine):
    """Sends the shard what its neighbours may send, and holds it to the model."""

    order: ClassVar[str] = "aging"
    configured: ClassVar[Settings] = settings_with(Aging(aging_seconds=AGING_SECONDS), Fifo(), 2)

    def __init__(self) -> None:
        super().__init__()
        # Before zero, so that a `run_after` of 0.0 lies ahead and is seen to be a time.
        self.now = -20.0
        self.model = Model(self.order, self.configured.critical_burst)
        self.records: list[Record] = []
        self.table = Table()
        self.epoch = 1
        self.number = 0
        self.handed_out: set[tuple[str, int]] = set()
        self.begin()

    # What the host and the scheduler do

    def begin(self) -> None:
        self.timer = NEVER
        self.counts: dict[str, int] = {}
        self.heads: dict[str, Head] = {}
        self.shard = rebuilt(self.configured, self.table)
        self.apply(self.shard.start(self.now))

    def apply(self, effects: Effects) -> None:
        for record in effects.records:
            self.note(record)
        for receiver, message in effects.sends:
            if receiver == SCHEDULER and not isinstance(message, Settled):
                ready = message.left if isinstance(message, (Granted, Declined)) else message
                if ready is not None:
                    self.hear(ready)
        if effects.timer is not None:
            self.timer = effects.timer

    def note(self, record: Record) -> None:
        self.records.append(record)
        self.table.apply(record)

    def hear(self, ready: Ready) -> None:
        assert (ready.user, ready.epoch) == (USER, self.epoch)
        for kind, count in ready.counts.items():
            self.counts.pop(kind, None)
            self.heads.pop(kind, None)
            if count:
                self.counts[kind] = count
        self.heads.update(ready.heads)

    def deliver(self, message: Any, act: Callable[[Effects], Any] = lambda effects: None) -> None:
        """Hand the message to the shard and, through `act`, to the model; then wake the shard if it is due."""
        self.model.forget_said()
        self.model.expire(self.now)
        if isinstance(message, Wake):
            self.timer = NEVER
        effects = self.shard.handle(message, self.now, DRAW)
        self.apply(effects)
        act(effects)
        self.check_said(effects)
        if self.timer <= self.now:
            assert not isinstance(message, Wake), "a wake-up leaves nothing undone"
            self.deliver(Wake())
        else:
            self.check()

    def pass_time(self, until: float) -> None:
        while self.timer <= until:
            self.now = max(self.now, self.timer)
            self.deliver(Wake())
        self.now = max(self.now, until)

    # What must be true

    def check_said(self, effects: Effects) -> None:
        model = self.model
        said: dict[str, list[Any]] = {QUEUE: [], SCHEDULER: [], SUPERVISOR: []}
        for receiver, message in effects.sends:
            said[receiver].append(message)
        readmitted = [message for message in said[QUEUE] if isinstance(message, Readmitted)]
        assert [message for message in said[QUEUE] if message not in readmitted] == model.to_queue
        assert [message.task_id for message in readmitted] == model.readmitted
        assert said[SUPERVISOR] == model.to_supervisor
        assert [held for held in effects.held if isinstance(held[1], Stop)] == model.stops
        assert [message for message in said[SCHEDULER] if isinstance(message, Settled)] == model.settled
        assert [(type(event), getattr(event, "task", None)) for event in effects.events] == model.events

    def check(self) -> None:
        model, now = self.model, self.now
        assert self.counts == model.counts(now), "the scheduler knows what is ready"
        assert self.heads == (model.heads(now) if self.configured.sharing.sees_heads else {})
        assert self.timer == model.wakes_at(now)
        assert self.shard.passive == (not model.in_status(Status.PENDING))
        self.check_tasks()
        self.check_index()

    def check_tasks(self) -> None:
        assert {task.id for task in self.table} == set(self.model.tasks), "no task is lost or made up"
        assert self.table.counts == {status: len(self.model.in_status(status)) for status in Status}
        for task_id, task in self.model.tasks.items():
            record = self.table[task_id]
            assert record.status is task.status and record.cause is task.cause
            assert (record.token, record.attempts, record.requeues) == (task.token, task.attempts, task.requeues)
            assert (record.worker_id, record.lease_until) == (task.worker, task.lease_until)
            assert record.cancel_requested == task.cancel_requested
            assert (record.run_after, record.expires_at) == (task.run_after, task.expires_at)
            assert [attempt.outcome for attempt in record.history] == task.outcomes
            assert 0 <= task.executions <= 1 + task.given.retry.max_retries

    def check_index(self) -> None:
        every = lanes_of(self.shard)
        entries = sum(lane.entries for lane in every)
        assert self.shard.index_health == (self.model.index_entries() / entries if entries else 1.0)
        for lane in every:
            assert lane.entries <= 2 * len(lane) + DEAD_MAX, "the dead are swept"

    # What happens

    @initialize(orders=st.lists(orders, min_size=3, max_size=8))
    def enqueue_some(self, orders: list[dict[str, Any]]) -> None:
        for order in orders:
            self.enqueue(order, 1)

    @rule(order=orders, count=st.sampled_from([1, 2, 3, 6]))
    def enqueue(self, order: dict[str, Any], count: int) -> None:
        at, delay, lifetime = order["at"], order["delay"], order["lifetime"]
        for _ in range(count):
            task = new_task(
                sequence=len(self.model.tasks) + 1,
                now=self.now,
                kind=order["kind"],
                priority=order["priority"],
                run_after=at if delay is None else self.now + delay,
                expires_at=None if lifetime is None else self.now + lifetime,
                retry=order["retry"],
            )
            self.deliver(Enqueue(task, CLIENT), partial(self.took, task))

    def took(self, task: Task, effects: Effects) -> None:
        assert effects.held == [(CLIENT, Accepted(task.id, task.id))]
        self.model.tasks[task.id] = Expected(task, task.run_after, task.expires_at)
        self.model.events.append((trace.Admitted, task.identity))

    @rule(length=seconds, stalled=st.booleans())
    def wait(self, length: float, stalled: bool) -> None:
        """In a stalled loop the next message comes before the wake-up that is overdue."""
        if stalled:
            self.now += length
        else:
            self.pass_time(self.now + length)

    @rule(
        kinds=st.one_of(st.just(EVERY_KIND), st.frozensets(st.sampled_from(KINDS), min_size=1)),
        worker=st.integers(1, 3),
    )
    def grant(self, kinds: frozenset[str], worker: int) -> None:
        self.number += 1
        order = Grant(self.number, f"worker/{worker}", kinds)
        self.deliver(order, lambda effects: self.granted(order, effects))

    def granted(self, order: Grant, effects: Effects) -> None:
        answers = [message for _, message in effects.sends if isinstance(message, (Granted, Declined))]
        assert [answer.number for answer in answers] == [order.number], "a grant is answered once"
        picked = self.model.pick(order.kinds, self.now)
        if picked is None:
            assert not effects.held and isinstance(answers[0], Declined)
            assert order.kinds <= set(answers[0].left.counts), "whoever asked in vain is told what there really is"
            return
        self.model.claim(picked, order.worker_id, self.now)
        given = picked.given
        assert effects.held == [(order.worker_id, run_of(picked, order.number))], "the best of what waits is started"
        assert isinstance(answers[0], Granted)
        assert (answers[0].task_id, answers[0].cost) == (given.id, given.cost)
        assert (given.id, picked.token) not in self.handed_out, "a token is never given out twice"
        self.handed_out.add((given.id, picked.token))
        burst = self.configured.critical_burst
        assert burst is None or self.model.burst() <= burst

    def running(self) -> list[Expected]:
        return self.model.in_status(Status.IN_PROGRESS)

    @precondition(lambda self: self.model.ready(self.now))
    @rule(reports=st.lists(reports, min_size=1, max_size=4))
    def work(self, reports: list[dict[str, Any]]) -> None:
        """A worker takes what there is and says at once how it went, a few times in a row."""
        for place, report in enumerate(reports):
            self.grant(EVERY_KIND, 4)
            if self.running():
                self.finish(-1 - place, report)

    @precondition(lambda self: self.running())
    @rule(place=places, report=reports)
    def finish(self, place: int, report: dict[str, Any]) -> None:
        task = self.running()[place % len(self.running())]
        said = Finished(task_id=task.given.id, token=task.token, worker_id=str(task.worker), **report)
        self.deliver(said, lambda effects: self.judged(task, said))

    @precondition(lambda self: self.running())
    @rule(place=places)
    def fail_on_arrival(self, place: int) -> None:
        """The host says that the worker crashed on the run itself, which is a crash like any other."""
        task = self.running()[place % len(self.running())]
        worker = str(task.worker)
        said = Finished(task_id=task.given.id, token=task.token, worker_id=worker, outcome="crashed", error="gone")
        self.deliver(Failed(worker, run_of(task, 0), "gone"), lambda effects: self.judged(task, said))

    def judged(self, task: Expected, report: Finished) -> None:
        record = self.table[task.given.id]
        self.model.finish(task, report, record.run_after, self.now)
        if report.outcome in ("failed", "crashed") and not task.cancel_requested:
            assert record.error == (report.error or report.outcome)

    @precondition(lambda self: self.model.tasks)
    @rule(place=places, distance=st.sampled_from([-2, -1, 1, 5]), beat=st.booleans(), report=reports)
    def speak_under_another_token(self, place: int, distance: int, beat: bool, report: dict[str, Any]) -> None:
        task = self.any_task(place)
        token = task.token + distance
        said = Finished(task_id=task.given.id, token=token, worker_id="worker/1", **report)
        self.deliver(Beat(task.given.id, token) if beat else said, lambda effects: self.refused(task))

    @precondition(lambda self: len(self.running()) < len(self.model.tasks))
    @rule(place=places, beat=st.booleans(), report=reports)
    def speak_of_a_task_that_does_not_run(self, place: int, beat: bool, report: dict[str, Any]) -> None:
        idle = [task for task in self.model.tasks.values() if not task.runs]
        task = idle[place % len(idle)]
        said = Finished(task_id=task.given.id, token=task.token, worker_id="worker/1", **report)
        self.deliver(Beat(task.given.id, task.token) if beat else said, lambda effects: self.refused(task))

    def refused(self, task: Expected) -> None:
        """Nothing else happened: the model is left as it was."""
        self.model.events.append((trace.ReportRefused, task.given.identity))

    @precondition(lambda self: self.running())
    @rule(place=places, later=st.sampled_from([0.0, 0.5, 3.0]))
    def beat(self, place: int, later: float) -> None:
        task = self.running()[place % len(self.running())]
        self.pass_time(self.now + later)
        self.deliver(Beat(task.given.id, task.token), lambda effects: self.model.beat(task, self.now))

    @precondition(lambda self: self.running())
    @rule(place=places, silent=st.booleans())
    def expire_lease(self, place: int, silent: bool) -> None:
        task = self.running()[place % len(self.running())]
        if silent and task.lease_until is not None:
            self.pass_time(task.lease_until)
        order = ExpireLease(task.given.id, task.token)
        self.deliver(order, lambda effects: self.model.expire_lease(task, order.token, self.now))

    @precondition(lambda self: self.model.tasks)
    @rule(place=places, distance=st.sampled_from([-2, -1, 1]))
    def expire_another_lease(self, place: int, distance: int) -> None:
        task = self.any_task(place)
        self.deliver(ExpireLease(task.given.id, task.token + distance))

    @precondition(lambda self: self.model.tasks)
    @rule(place=places)
    def cancel(self, place: int) -> None:
        task = self.any_task(place)
        order = Cancel(task.given.id, CLIENT)
        self.deliver(order, lambda effects: answered(effects, self.model.cancel(task, self.now)))

    @precondition(lambda self: self.running())
    @rule(place=places, wanted_again=st.booleans())
    def cancel_running(self, place: int, wanted_again: bool) -> None:
        task = self.running()[place % len(self.running())]
        number = list(self.model.tasks).index(task.given.id)
        self.cancel(number)
        if wanted_again:
            self.requeue(number, True)

    @precondition(lambda self: len(self.model.in_status(Status.PENDING)) > 8)
    @rule(spared=st.integers(0, 2))
    def cancel_most(self, spared: int) -> None:
        """Enough dead entries behind a few live ones that sweeping is worth it."""
        ids = list(self.model.tasks)
        for task in self.model.in_status(Status.PENDING)[spared:]:
            self.cancel(ids.index(task.given.id))

    @precondition(lambda self: self.model.tasks)
    @rule(place=places, reset_retries=st.booleans())
    def requeue(self, place: int, reset_retries: bool) -> None:
        task = self.any_task(place)
        order = Requeue(task.given.id, reset_retries, CLIENT)
        self.deliver(order, lambda effects: answered(effects, self.model.requeue(task, reset_retries, self.now)))

    def any_task(self, place: int) -> Expected:
        tasks = list(self.model.tasks.values())
        return tasks[place % len(tasks)]

    @rule()
    def resync(self) -> None:
        """The scheduler has forgotten every count, and is told each anew under its epoch."""
        self.epoch += 1
        self.note(Noted(SCHEDULER, {"epoch": self.epoch}))
        self.counts, self.heads = {}, {}
        self.deliver(Resync(self.epoch), self.resynced)

    def resynced(self, effects: Effects) -> None:
        assert [type(message) for receiver, message in effects.sends if receiver == SCHEDULER].count(Ready) == 1

    @rule()
    def restart(self) -> None:
        """A shard built anew from the table says what the old one said, and would do what it would have done."""
        old, old_table = self.shard, self.table
        before = (self.counts, self.heads, self.timer)
        overdue = self.timer <= self.now
        self.table = replayed(self.records)
        self.begin()
        assert overdue or (self.counts, self.heads, self.timer) == before
        if self.timer <= self.now:
            self.deliver(Wake())
        else:
            self.check()
        twin_table = replayed(self.records)
        twin = rebuilt(self.configured, twin_table)
        twin.start(self.now)
        assert picks(twin, twin_table, self.now) == picks(old, old_table, self.now)


def run_of(task: Expected, number: int) -> Run:
    given = task.given
    lease_seconds = LEASE_SECONDS[given.kind]
    return Run(given.id, USER, given.kind, task.token, task.attempts, given.payload, lease_seconds, number, 300.0)


def answered(effects: Effects, done: bool) -> None:
    *stops, (receiver, answer) = effects.held
    assert all(isinstance(message, Stop) for _, message in stops)
    assert receiver == CLIENT
    assert isinstance(answer, Answered)
    assert answer.error is None if done else isinstance(answer.error, InvalidTransition)


class StrictMachine(ShardMachine):
    order = "strict"
    configured = settings_with(Strict(), Fifo(), 1)


class ArrivalMachine(ShardMachine):
    """Sharing that sees no heads, and critical tasks that always go first."""

    order = "fifo"
    configured = settings_with(Arrival(), Settings().sharing, None)


class MovingMachine(ShardMachine):
    """An order that time changes; nobody sees heads, which are known as of the last message only."""

    order = "accumulating"
    configured = settings_with(Accumulating(), Settings().sharing, 2)


@pytest.fixture(autouse=True)
def swept_early(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lanes, "_COMPACT_MIN", DEAD_MAX)


@pytest.mark.parametrize("machine", [ShardMachine, StrictMachine, ArrivalMachine, MovingMachine])
def test_a_shard_does_what_the_model_does(machine: type[ShardMachine]) -> None:
    # A step costs microseconds, so the profile's number of examples is worth multiplying.
    examples = 3 * settings().max_examples
    run_state_machine_as_test(machine, settings=settings(max_examples=examples, stateful_step_count=50))


# The machine can fail


def ignoring_tokens(patch: pytest.MonkeyPatch) -> None:
    def owned(self: Shard, task_id: str, *others: Any) -> Task | None:
        task = self._current(task_id)
        return task if task is not None and task.status is Status.IN_PROGRESS else None

    patch.setattr(Shard, "_owned", owned)


def changing(move: str, change: Callable[[Task, Task], dict[str, Any]]) -> Callable[[pytest.MonkeyPatch], None]:
    """A move that gets some fields wrong; `change` is given the record before and after it."""
    real: Callable[..., Task] = getattr(moves, move)

    def wrong(task: Task, *others: Any) -> Task:
        moved = real(task, *others)
        return msgspec.structs.replace(moved, **change(task, moved))

    return lambda patch: patch.setattr(moves, move, wrong)


def silent(message: type, unsaid: type) -> Callable[[pytest.MonkeyPatch], None]:
    """A handler that forgets to send one sort of message."""
    real = shard._HANDLERS[message]

    def forgetful(self: Shard, order: Any, now: float, draw: Any, effects: Effects) -> None:
        real(self, order, now, draw, effects)
        effects.sends = [(receiver, sent) for receiver, sent in effects.sends if not isinstance(sent, unsaid)]

    return lambda patch: patch.setitem(shard._HANDLERS, message, forgetful)


def without_expiry(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Backlog, "overdue", lambda self, now: None)


def impatient_with_leases(patch: pytest.MonkeyPatch) -> None:
    real = shard._HANDLERS[ExpireLease]

    def expire_lease(self: Shard, order: ExpireLease, now: float, draw: Any, effects: Effects) -> None:
        real(self, order, math.inf, draw, effects)

    patch.setitem(shard._HANDLERS, ExpireLease, expire_lease)


def forgetting_its_notes(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Effects, "keep", lambda self, notes: self)


def restarting_without_the_delayed(patch: pytest.MonkeyPatch) -> None:
    real = Table.live
    patch.setattr(Table, "live", lambda self, user: [task for task in real(self, user) if task.run_after is None])


def settling_twice(patch: pytest.MonkeyPatch) -> None:
    real = Shard._settle

    def settle(self: Shard, *others: Any, **options: Any) -> float:
        real(self, *others, **options)
        return real(self, *others, **options)

    patch.setattr(Shard, "_settle", settle)


BUGS: dict[str, Callable[[pytest.MonkeyPatch], None]] = {
    "tokens are ignored": ignoring_tokens,
    "a claim keeps the token": changing("claim", lambda before, after: {"token": before.token}),
    "a recovery keeps the token": changing("recover", lambda before, after: {"token": before.token}),
    "a requeue keeps the token": changing("requeue", lambda before, after: {"token": before.token}),
    "a release refunds nothing": changing("release", lambda before, after: {"attempts": before.attempts}),
    "a claim costs no attempt": changing("claim", lambda before, after: {"attempts": before.attempts}),
    "a retry waits too long": changing("retry", lambda before, after: {"run_after": (after.run_after or 0.0) + 30}),
    "a beat extends nothing": changing("extend", lambda before, after: {"lease_until": before.lease_until}),
    "a request to cancel is forgotten": changing("request_cancel", lambda before, after: {"cancel_requested": False}),
    "a requeue is still to be cancelled": changing(
        "requeue", lambda before, after: {"cancel_requested": before.cancel_requested}
    ),
    "nobody is told to stop": lambda patch: patch.setattr(Shard, "_stop", lambda self, task, effects: None),
    "a requeue is not readmitted": silent(Requeue, Readmitted),
    "an outcome is not settled": silent(Finished, Settled),
    "a lease is not announced": silent(Grant, Leased),
    "a burst has no bound": lambda patch: patch.setattr(Backlog, "_set_burst", lambda self, burst: None),
    "nothing expires": without_expiry,
    "leases expire early": impatient_with_leases,
    "a restart forgets the burst": forgetting_its_notes,
    "a restart forgets what is delayed": restarting_without_the_delayed,
    "outcomes are settled twice": settling_twice,
    "the dead are never swept": lambda patch: patch.setattr(lanes, "_COMPACT_MIN", 1_000),
    "crashes are not counted": lambda patch: patch.setattr(shard, "_crashes", lambda task: 0),
    "a crash or a handler's own wish is judged by retry_on": lambda patch: patch.setattr(
        shard, "_may_try_again", lambda task, report: task.retry.retries(report.error_types)
    ),
    "one retry too many": lambda patch: patch.setattr(
        Task, "max_retries", property(lambda task: task.retry.max_retries + 1)
    ),
    "the last goes first": lambda patch: patch.setattr(Aging, "key", lambda self, task: -task.order_at),
    "counts are not announced": lambda patch: patch.setattr(Shard, "_announce", lambda self, now, effects: None),
    "health is made up": lambda patch: patch.setattr(Shard, "index_health", 1.0),
}

QUICK = settings(
    max_examples=200,
    stateful_step_count=50,
    derandomize=True,
    database=None,
    deadline=None,
    phases=[Phase.generate],
    report_multiple_bugs=False,
    verbosity=Verbosity.quiet,
)


@pytest.mark.parametrize("bug", BUGS)
def test_the_machine_finds(bug: str, monkeypatch: pytest.MonkeyPatch) -> None:
    BUGS[bug](monkeypatch)
    with pytest.raises(AssertionError):
        run_state_machine_as_test(ShardMachine, settings=QUICK)


# What reads better without a machine


def new_task(sequence: int = 1, now: float = 0.0, **changes: Any) -> Task:
    """A task as the queue would make it."""
    run_after = changes.get("run_after")
    fields: dict[str, Any] = {
        "id": f"t{sequence}",
        "user": USER,
        "kind": "crawl",
        "sequence": sequence,
        "created_at": now,
        "updated_at": now,
        "order_at": now if run_after is None else max(now, run_after),
        "cost": 0.5 + sequence,
    }
    return Task(**fields | changes)


class Lone:
    """A shard and its table, and every event so far."""

    def __init__(self, **options: Any) -> None:
        self.table = Table()
        self.settings = Settings(**options)
        self.shard = rebuilt(self.settings, self.table)
        self.events: list[Any] = []

    def tell(self, now: float, *messages: Any) -> Effects:
        """The effects of the last message."""
        effects = Effects()
        for message in messages:
            effects = self.shard.handle(message, now, lambda stream, task_id, attempt: 0.5)
            for record in effects.records:
                self.table.apply(record)
            self.events += effects.events
        return effects


def enqueued(*tasks: Task) -> list[Enqueue]:
    return [Enqueue(task, None) for task in tasks]


def granted(number: int, kinds: Iterable[str] = KINDS) -> Grant:
    return Grant(number, f"worker/{number}", frozenset(kinds))


def finished(outcome: Any, token: int, worker: int, **said: Any) -> Finished:
    return Finished(task_id="t1", token=token, worker_id=f"worker/{worker}", outcome=outcome, **said)


def test_a_task_that_fails_then_hangs_then_completes_leaves_this_trace() -> None:
    lone = Lone()
    lone.tell(0.0, *enqueued(new_task()), granted(1))
    lone.tell(2.0, finished("failed", 1, 1, error="boom"))
    lone.tell(12.0, Wake(), granted(2))
    lone.tell(72.0, ExpireLease("t1", 2))
    lone.tell(73.0, granted(3), finished("completed", 2, 2))
    lone.tell(74.0, Beat("t1", 4), finished("completed", 4, 3))
    assert lone.events == [
        trace.Admitted(0.0, "alice#1", "alice", "crawl", 3, 0.0, None, None, 3, 1.5),
        trace.Started(0.0, "alice#1", 1, 1, "worker/1", 0.0),
        trace.Retried(2.0, "alice#1", 1, "worker/1", 2.0, "failed", "boom", 12.0),
        trace.Started(12.0, "alice#1", 2, 2, "worker/2"),
        trace.Recovered(72.0, "alice#1", 3, "worker/2", 60.0),
        trace.Started(73.0, "alice#1", 4, 3, "worker/3"),
        trace.ReportRefused(73.0, "alice#1", 2, 4, "in_progress", "worker/2"),
        trace.Extended(74.0, "alice#1", 4, 134.0),
        trace.Completed(74.0, "alice#1", 4, "worker/3", 1.0),
    ]
    assert [attempt.outcome for attempt in lone.table["t1"].history] == ["failed", "recovered", "completed"]


@pytest.mark.parametrize(
    "comes_back",
    [finished("failed", 1, 1), finished("crashed", 1, 1), finished("released", 1, 1), Requeue("t1")],
    ids=["failed", "crashed", "released", "requeued"],
)
def test_a_task_that_can_expire_comes_back_beside_its_own_dead_entry(comes_back: Any) -> None:
    lone = Lone()
    lone.tell(0.0, *enqueued(new_task(expires_at=100.0)), granted(1), comes_back)
    assert lone.table["t1"].status is Status.PENDING


def test_an_expired_task_is_requeued_beside_its_own_dead_entry() -> None:
    lone = Lone()
    lone.tell(0.0, *enqueued(new_task(), new_task(2, expires_at=5.0)))
    lone.tell(5.0, Wake(), Requeue("t2", reset_retries=True))
    assert picks(lone.shard, lone.table, 5.0) == ["t1", "t2"]


def test_run_after_zero_is_a_time_and_not_unset() -> None:
    lone = Lone()
    asked = lone.tell(-5.0, *enqueued(new_task(now=-5.0, run_after=0.0)))
    assert asked.timer == 0.0
    assert not lone.tell(-1.0, granted(1)).held
    assert [receiver for receiver, _ in lone.tell(0.0, Wake(), granted(2)).held] == ["worker/2"]


def test_never_more_critical_tasks_in_a_row_than_a_burst_while_another_waits() -> None:
    lone = Lone()
    critical = [new_task(sequence, priority=Priority.CRITICAL) for sequence in range(1, 41)]
    lone.tell(0.0, *enqueued(*critical, new_task(41), new_task(42)))
    order = picks(lone.shard, lone.table, 0.0)
    assert [order.index("t41"), order.index("t42")] == [16, 33]
    assert order[:16] == [f"t{sequence}" for sequence in range(1, 17)]


def test_a_kind_that_nobody_runs_hides_no_other() -> None:
    lone = Lone()
    first = new_task(1, kind="mail", priority=Priority.CRITICAL)
    effects = lone.tell(0.0, *enqueued(first, new_task(2, kind="crawl")), granted(1, ["crawl"]))
    assert [run.task_id for _, run in effects.held] == ["t2"]


def test_an_unknown_message_is_an_error() -> None:
    with pytest.raises(TypeError, match=r"^shard cannot handle 'hello'$"):
        Lone().tell(0.0, "hello")


@pytest.mark.parametrize("order", [Cancel("t1", CLIENT), Requeue("t1", True, CLIENT)])
def test_nobody_changes_the_task_of_somebody_else(order: Any) -> None:
    lone = Lone()
    lone.table.apply(theirs := new_task(user="bob"))
    ((receiver, answer),) = lone.tell(1.0, order).held
    assert receiver == CLIENT
    assert isinstance(answer.error, UnknownTask)
    assert str(answer.error) == "alice has no task 't1'"
    assert lone.table["t1"] is theirs


@pytest.mark.parametrize("report", [finished("completed", 1, 1), Beat("t1", 1)])
def test_a_report_of_a_task_that_never_was_is_refused(report: Any) -> None:
    lone = Lone()
    lone.tell(1.0, report)
    worker = getattr(report, "worker_id", None)
    assert lone.events == [trace.ReportRefused(1.0, "t1", 1, 0, "unknown", worker)]


def test_a_fact_that_its_receiver_crashed_on_is_told_again_and_nothing_else_is() -> None:
    lone = Lone()
    effects = lone.tell(0.0, *enqueued(new_task()), granted(1), finished("completed", 1, 1))
    settled = [(receiver, message) for receiver, message in effects.sends if isinstance(message, Settled)]
    assert [receiver for receiver, _ in settled] == [SCHEDULER, QUEUE]
    for receiver, message in settled:
        assert lone.tell(1.0, Failed(receiver, message, "boom")).sends == [(receiver, message)]
    assert lone.tell(1.0, Failed(SCHEDULER, Ready(USER, {}, {}, 1), "boom")).sends == []


def test_a_shard_that_is_built_anew_speaks_under_the_epoch_that_the_scheduler_noted() -> None:
    lone = Lone()
    lone.tell(0.0, *enqueued(new_task()))
    lone.table.apply(Noted(SCHEDULER, {"epoch": 7}))
    assert rebuilt(lone.settings, lone.table).start(0.0).sends == [(SCHEDULER, Ready(USER, {"crawl": 1}, {}, 7))]


def test_a_shard_tells_its_state_in_words() -> None:
    lone = Lone()
    assert (lone.shard.index_health, lone.shard.passive) == (1.0, True)
    lone.tell(0.0, *enqueued(new_task(), new_task(2, run_after=9.0)))
    assert repr(lone.shard) == "<Shard of alice: 1 ready, 1 delayed>"
