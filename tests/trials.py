"""Trials: a program that uses a runtime is cancelled at one of its steps, and what is left is looked through."""

import threading
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio

from actors import Runtime, Status, TaskHandle, opening
from actors.engine import Engine
from actors.messages import QUEUE, WorkerClass, worker_address
from actors.queue import Queue
from actors.trace import Admitted, Cancelled, Completed, DeadLettered, Event, Started, StopIgnored
from sim.determinism import run_deterministically
from sim.invariants import Ledger
from sim.testing import virtual_runtime

HANG_SECONDS = 100_000.0
STATES = {
    "waiting": Status.PENDING,
    "ended": Status.COMPLETED,
    "failed": Status.FAILED,
    "cancelled": Status.CANCELLED,
}
"""What the ledger calls a state, and the table."""

ENGINES: list[Engine] = []
"""Every engine of a test."""


@pytest.fixture(autouse=True)
def engines(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    def engine(*arguments: Any, **options: Any) -> Engine:
        ENGINES.append(Engine(*arguments, **options))
        return ENGINES[-1]

    monkeypatch.setattr(opening, "Engine", engine)
    yield
    ENGINES.clear()


class Trial(trio.abc.Instrument):
    """One run of a program, which is cancelled at its n-th step and watched at every one."""

    def __init__(self, program: "Program", whose: str, where: str, step: int) -> None:
        self.program, self.whose, self.where, self.step = program, whose, where, step
        self.name = f"cancelled {where} step {step} of {whose}"
        self.steps = 0
        self.scope = trio.CancelScope()
        self.events: list[Event] = []
        self.handles: list[TaskHandle[Any]] = []
        self.entered: Counter[str] = Counter()
        """What was let in, by name."""
        self.submitted: Counter[str] = Counter()
        """What `submit` was called for."""
        self.acknowledged: Counter[str] = Counter()
        """What it said is in."""
        self.ended = self.hung = False
        self.left_over: list[str] = []
        self._task: trio.lowlevel.Task | None = None
        self._runtime: Runtime | None = None
        self._ledger: Ledger | None = None

    # What programs use

    @asynccontextmanager
    async def runtime(self, **options: Any) -> AsyncIterator[Runtime]:
        """A runtime on virtual time, whose every event is watched."""
        async with virtual_runtime(**options) as runtime:
            engine = runtime._engine
            workers = {worker_address(number): WorkerClass() for number in range(1, options["workers"] + 1)}
            self._ledger = Ledger(engine.settings, engine.table, workers)
            engine.add_sink(self._ledger.on_event)
            engine.add_sink(self._on_event)
            self._runtime = runtime
            yield runtime

    async def submit(self, name: str, kind: str = "sleep") -> TaskHandle[Any]:
        """Submit a task whose payload is its name, and whose user is the first word of it."""
        assert self._runtime is not None
        self.submitted[name] += 1
        handle = await self._runtime.submit(kind, name, user=name.split()[0])
        self.acknowledged[name] += 1
        self.handles.append(handle)
        return handle

    # Cancelling and watching

    async def run(self) -> None:
        before = names_of_tasks()
        trio.lowlevel.add_instrument(self)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._watch_for_a_hang)
            with self.scope:
                self._task = trio.lowlevel.current_task()
                try:
                    await self.program(self)
                    self.ended = not self.hung
                except Exception:
                    if not self.hung:
                        raise
            self._task = None
            nursery.cancel_scope.cancel()
        trio.lowlevel.remove_instrument(self)
        self.left_over = [name for name in names_of_tasks() if name not in before]

    async def _watch_for_a_hang(self) -> None:
        """A runtime that nobody closes cannot be cancelled from outside."""
        await trio.sleep(HANG_SECONDS)
        self.hung = True
        for engine in ENGINES:
            engine.stopping = True
            engine.close()

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        if self.where == "between":
            self._count(task)

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        if self._ledger is not None and not self.engine.stopping:
            host = self.engine.host
            if host.next_timer() > host.now and not self._some_ignored_a_stop():
                self._ledger.on_quiet(host.now)
        if self.where == "in":
            self._count(task)

    def _count(self, task: trio.lowlevel.Task) -> None:
        if self._task is None or (self.whose == "program" and task is not self._task):
            return
        self.steps += 1
        if self.steps == self.step:
            self.scope.cancel()

    def _on_event(self, event: Event) -> None:
        self.events.append(event)
        if isinstance(event, Admitted):
            [entered] = [task for task in self.engine.table if task.identity == event.task]
            self.entered[entered.payload] += 1

    def _some_ignored_a_stop(self) -> bool:
        """Then a worker is not free although its run was reported, which the ledger does not know."""
        return any(isinstance(event, StopIgnored) for event in self.events)

    # What must hold

    @property
    def engine(self) -> Engine:
        assert self._runtime is not None
        return self._runtime._engine

    def check(self) -> None:
        """Everything is where it belongs."""
        assert not self.hung, self.name
        assert self.left_over == [], self.name
        assert not [thread.name for thread in threading.enumerate() if thread.name.startswith("evenhand")], self.name
        if self._ledger is not None:
            self._check_ledger(self._ledger)
            self._check_table()
            self._check_submits()
            self._check_nobody_waits()

    def _check_ledger(self, ledger: Ledger) -> None:
        """The trace keeps to every invariant, and says of each task what the table says."""
        assert ledger.violations == [], self.name
        ledger.on_quiet(self.engine.host.now)
        assert ledger.violations == [], self.name
        by_trace = {name: STATES.get(entry.state, Status.IN_PROGRESS) for name, entry in ledger.entries.items()}
        assert by_trace == {task.identity: task.status for task in self.engine.table}, self.name

    def _check_table(self) -> None:
        """Whatever was let in waits, or has ended once; what was given back had its attempt refunded."""
        ends = Counter(event.task for event in self.events if isinstance(event, (Completed, DeadLettered, Cancelled)))
        starts = Counter(event.task for event in self.events if isinstance(event, Started))
        for task in self.engine.table:
            assert task.status is not Status.IN_PROGRESS, self.name
            assert starts[task.identity] == len(task.history), self.name
            assert task.requeues or ends[task.identity] == task.status.terminal, self.name
            spent = [attempt for attempt in task.history if attempt.outcome != "released"]
            assert task.requeues or task.attempts == len(spent), f"{self.name}: {task.identity} was not refunded"
            # A handler that only sleeps never fails by itself.
            assert task.kind != "sleep" or all(attempt.outcome != "failed" for attempt in spent), self.name
        assert self._runtime is not None
        left = [task for task in self.engine.table if not task.status.terminal]
        assert sorted(self._runtime.left, key=lambda task: task.sequence) == left, self.name

    def _check_submits(self) -> None:
        """A submit that returned is in, and one that was cancelled or refused is not."""
        entered = Counter({name: count for name, count in self.entered.items() if name in self.submitted})
        assert entered == self.acknowledged, self.name

    def _check_nobody_waits(self) -> None:
        engine, queue = self.engine, self.engine.host.core(QUEUE)
        assert isinstance(queue, Queue)
        assert len(queue._room) == 0, f"{self.name}: somebody waits at the door"
        assert queue._door.admitted == len(list(engine.table.every_live())), self.name
        assert engine.scheduler()._demand._everything.running == 0, self.name
        waiting = (engine.front.submits, engine.front._awaiting, engine._asked, engine._awaited)
        assert waiting == ({}, {}, {}, {}), self.name
        assert [address for address in engine.host.addresses() if address.startswith("ask/")] == [], self.name
        assert not any(executor.occupied for executor in engine.executors.values()), self.name


Program = Callable[[Trial], Awaitable[None]]


def run_trial(program: Program, whose: str, where: str, step: int, seed: int) -> Trial:
    """Run a program and cancel it `in` or `between` its steps, or those of `anybody`, as they come with this seed."""
    trial = Trial(program, whose, where, step)
    run_deterministically(trial.run, seed=seed)
    return trial


def names_of_tasks() -> list[str]:
    """Every task of this run of trio."""
    waiting, names = [trio.lowlevel.current_root_task()], []
    while waiting:
        if (task := waiting.pop()) is not None:
            names.append(task.name)
            waiting += [child for nursery in task.child_nurseries for child in nursery.child_tasks]
    return names
