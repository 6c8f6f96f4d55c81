"""A runtime on virtual time in which one actor crashes on its n-th message, with everything watched, for test_crashes.py.

What crashes is the core's own `handle`: before it did anything, or after it did all of it and before anybody was told. So the
message that it crashes on is a real one, and timers count as messages too.
"""

from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from typing import Any, TypeVar
from unittest import mock

import attrs
import msgspec
import trio
from trio.testing import MockClock

import actors.opening as opening
from actors import EvenhandError, Options, RetryPolicy, Runtime, Status, Task, TaskHandle, UserOptions, WorkerOptions
from actors.engine import Engine
from actors.front import FRONT, Front
from actors.host import Envelope, Gate
from actors.messages import QUEUE, SCHEDULER, SUPERVISOR, Address, Beat, shard_address, worker_address
from actors.queue import Queue
from actors.realtime import RealTime
from actors.scheduler import Scheduler
from actors.shard import Shard
from actors.supervisor import Supervisor
from actors.timetable import TIMETABLE, Timetable
from actors.trace import ActorRestarted, Event, Undelivered
from actors.worker import Worker
from sim.determinism import _deterministic_scheduling
from sim.invariants import Ledger, Violation

R = TypeVar("R")

USERS = ("alice", "bob", "tenant/carol", "dave")
"""Dave has nothing but a schedule."""

WALL_CLOCK = 1_000.0
REQUEUE_SECONDS = 35.0
PROGRAM_SECONDS = 75.0
"""When the program is over if nothing holds it up."""
LATE_SECONDS = 300.0
"""When it would be over whatever held it up, if it ever is."""

_ADDRESS_OF: dict[type, Callable[[Any], Address]] = {
    Queue: lambda core: QUEUE,
    Scheduler: lambda core: SCHEDULER,
    Supervisor: lambda core: SUPERVISOR,
    Timetable: lambda core: TIMETABLE,
    Front: lambda core: FRONT,
    Shard: lambda core: shard_address(core._user),
    Worker: lambda core: str(core._address),
}


class Crash(Exception):
    """A crash on purpose."""


@attrs.define
class Plan:
    """Which actor crashes, on which of its messages, and when while it handles them."""

    address: Address = ""
    kind: type = object
    """What sort of message it crashes on first."""
    number: int = 1
    """On how many of that sort it does not crash before, and one."""
    times: float = 1
    """On how many messages it crashes in a row from then on, whatever they are."""
    when: str = "before"
    given: dict[Address, list[Any]] = attrs.Factory(partial(defaultdict, list))
    """The messages that each actor was given."""
    crashed_on: list[Any] = attrs.Factory(list)

    @contextmanager
    def planted(self) -> Iterator[None]:
        """Have the cores crash as planned."""
        with ExitStack() as stack:
            for core, address_of in _ADDRESS_OF.items():
                stack.enter_context(mock.patch.object(core, "handle", self._crashing(core.handle, address_of)))  # type: ignore[attr-defined]
            yield

    def _crashing(self, handle: Callable[..., Any], address_of: Callable[[Any], Address]) -> Callable[..., Any]:
        def crashing(core: Any, message: Any, now: float, draw: Any) -> Any:
            address = address_of(core)
            self.given[address].append(message)
            if address != self.address or not self._is_due(message):
                return handle(core, message, now, draw)
            self.crashed_on.append(message)
            if self.when == "after":
                handle(core, message, now, draw)
            raise Crash(f"{address} on {type(message).__name__}")

        return crashing

    def _is_due(self, message: Any) -> bool:
        if self.crashed_on:
            return len(self.crashed_on) < self.times
        return isinstance(message, self.kind) and self.number == sum(
            isinstance(given, self.kind) for given in self.given[self.address]
        )


class Watched(RealTime):
    """Real time that has a ledger look at every quiet instant, until the runtime is told to stop."""

    engine: Engine
    ledger: Ledger

    def drive(self) -> None:
        super().drive()
        self._look()

    def _ring(self) -> None:
        super()._ring()
        self._look()

    def _look(self) -> None:
        host = self.engine.host
        quiet = not (self._driving or self.failed) and host.next_timer() > host.now
        if quiet and not self.engine.stopping:
            self.ledger.on_quiet(host.now)


@attrs.define
class Outcome:
    """What a run came to."""

    plan: Plan
    events: list[Event]
    violations: list[Violation]
    statuses: dict[str, Status]
    """How each task of the program ended, by its name."""
    left: tuple[Task, ...]
    """Tasks that had not ended."""
    late: bool
    """Whether the program was still waiting for something long after it should have been over."""
    places: int
    """How many places at the door are taken in the end."""

    @property
    def undelivered(self) -> list[str]:
        """What nobody could handle, by its name."""
        return [event.message for event in self.events if isinstance(event, Undelivered)]

    @property
    def restarted(self) -> list[Address]:
        """Who was built anew."""
        return [event.actor for event in self.events if isinstance(event, ActorRestarted)]

    def of(self, user: str | None) -> list[Event]:
        """What happened to a user, or to nobody in particular, by names that do not depend on what others submitted."""
        names: dict[str, str] = {}
        found: list[Event] = []
        for event in self.events:
            if isinstance(event, (ActorRestarted, Undelivered)):
                continue
            task = getattr(event, "task", None)
            whose = getattr(event, "user", None) if task is None else task.rpartition("#")[0]
            if whose == user:
                if task is not None:
                    names.setdefault(task, f"{user}#{len(names) + 1}")
                    event = msgspec.structs.replace(event, task=names[task])
                found.append(event)
        return found


LAYOUTS: Mapping[str, Options] = {
    # Two workers for everybody.
    "pool": Options(workers=2, seed=7),
    # One for each user.
    "apart": Options(worker=tuple(WorkerOptions(users=(user,)) for user in USERS), seed=7),
    # Two tasks at a time, one of alice's, and submitters wait at a full door.
    "tight": Options(
        workers=3,
        concurrency_max=2,
        users={"alice": UserOptions(concurrency_max=1)},
        admitted_max=9,
        when_full="wait",
        seed=7,
    ),
    # Nobody hears the workers beat, the first time that they run a task.
    "silent": Options(workers=3, seed=7),
}


class DeafToFirstBeats:
    """A gate that lets everything through but the beats of a task's first execution."""

    def envelopes(self, envelope: Envelope, now: float) -> Sequence[tuple[float, Envelope]]:
        message = envelope[2]
        return [] if isinstance(message, Beat) and message.token == 1 else [(0.0, envelope)]

    def timer(self, address: Address, at: float, now: float) -> float:
        return at


class Program:
    """What people do with a runtime, each order given again when they are told that it could not be carried out."""

    def __init__(self, runtime: Runtime) -> None:
        self.runtime = runtime
        self.handles: dict[str, TaskHandle[Any]] = {}
        self.statuses: dict[str, Status] = {}
        self._register()

    def _register(self) -> None:
        runtime = self.runtime

        @runtime.handler("work", lease_seconds=4)
        async def work(seconds: float) -> float:
            await trio.sleep(seconds)
            return seconds

        @runtime.handler("flaky", retry=RetryPolicy(base_seconds=2, jitter=0, max_retries=6))
        async def flaky(seconds: float, context: Any) -> float:
            await trio.sleep(seconds)
            if context.attempt == 1:
                raise ValueError("not yet")
            return seconds

        @runtime.handler("stuck", timeout_seconds=1.3)
        async def stuck(payload: None) -> None:
            await trio.sleep_forever()

    async def run(self) -> None:
        """Submit, wait, cancel, put back, delete, pause, weigh and schedule, for `PROGRAM_SECONDS`."""
        for number, user in enumerate(USERS[:3]):
            # Nothing ends at the same time as anything else, so that every run without a crash is the same.
            odd = number * 0.10371
            await self.submit(f"{user} quick", user, "work", 1.0137 + odd)
            await self.submit(f"{user} long", user, "work", 6.1793 + odd, priority="high")
            await self.submit(f"{user} flaky", user, "flaky", 0.7219 + odd)
            await self.submit(f"{user} later", user, "work", 0.5381 + odd, delay_seconds=3.3071 + odd)
            await self.submit(f"{user} unwanted", user, "work", 0.9, delay_seconds=60)
            await self.submit(f"{user} stuck", user, "stuck", None, max_retries=0)
        await self.order(
            lambda: self.runtime.schedule("* * * * *", "work", 0.3, name="minutely", user="dave", cost=1.0)
        )
        await self.change_things()
        async with trio.open_nursery() as nursery:
            for name in self.handles:
                nursery.start_soon(self.wait_for, name)
            # By then everything has ended, if nobody crashed; what one user has to wait for is not what another waits for.
            await trio.sleep_until(REQUEUE_SECONDS)
            await self.wait_for("bob stuck")
            await self.order(lambda: self.runtime.requeue(self.handles["bob stuck"].id))
            await self.wait_for("bob stuck")
            await self.order(self.runtime.maintain)
        await trio.sleep_until(PROGRAM_SECONDS)

    async def change_things(self) -> None:
        """Take back and change what was ordered, before much of it has happened."""
        for user in USERS[:3]:
            await self.order(self.handles[f"{user} unwanted"].cancel)
        await self.submit("alice doomed", "alice", "work", 40.0, priority="critical")
        await self.order(lambda: self.runtime.pause(kind="flaky"))
        await trio.sleep(2.0517)
        await self.order(self.handles["alice doomed"].cancel)
        await self.order(lambda: self.runtime.resume(kind="flaky"))
        await self.order(lambda: self.runtime.set_weight("bob", 2.0))

    async def wait_for(self, name: str) -> None:
        task = await self.order(lambda: self.runtime.wait(self.handles[name].id))
        self.statuses[name] = task.status

    async def submit(self, name: str, user: str, kind: str, seconds: float | None, **options: Any) -> None:
        options = {"max_retries": 6, "cost": 1.0, "idempotency_key": name, **options}
        self.handles[name] = await self.order(lambda: self.runtime.submit(kind, seconds, user=user, **options))

    async def order(self, give: Callable[[], Awaitable[R]]) -> R:
        for _ in range(10):
            try:
                return await give()
            except EvenhandError as error:
                if "Crash: " not in str(error):
                    raise
        raise AssertionError("it was told ten times that somebody crashed")


EXPECTED: Mapping[str, Status] = {
    f"{user} {what}": status
    for user in USERS[:3]
    for what, status in (
        ("quick", Status.COMPLETED),
        ("long", Status.COMPLETED),
        ("flaky", Status.COMPLETED),
        ("later", Status.COMPLETED),
        ("unwanted", Status.CANCELLED),
        ("stuck", Status.FAILED),
    )
} | {"alice doomed": Status.CANCELLED}
"""How every task of the program ends, whoever crashes."""


@contextmanager
def watched_engines(
    plan: Plan, options: Options, gate: Gate | None = None
) -> Iterator[tuple[list[Engine], list[Event]]]:
    """Have runtimes crash as planned, with a ledger that follows them; the engines that are made, and their events."""
    engines: list[Engine] = []
    events: list[Event] = []

    def watched_engine(*arguments: Any, **keywords: Any) -> Engine:
        engine = Engine(*arguments, gate=gate, **keywords)
        workers = {worker_address(n): found for n, found in enumerate(options.worker_classes(), start=1)}
        assert isinstance(engine.time, Watched)
        engine.time.engine, engine.time.ledger = engine, Ledger(engine.settings, engine.table, workers)
        engine.add_sink(engine.time.ledger.on_event)
        engine.add_sink(events.append)
        engines.append(engine)
        return engine

    with (
        mock.patch.object(opening, "Engine", watched_engine),
        mock.patch("actors.engine.RealTime", Watched),
        plan.planted(),
    ):
        yield engines, events


def run_program(layout: str, plan: Plan) -> Outcome:
    """Run the program on virtual time under a plan; raises what ends the runtime."""
    options = LAYOUTS[layout]
    gate = DeafToFirstBeats() if layout == "silent" else None

    async def main() -> tuple[Program, bool]:
        async with opening.run_runtime(options, resources={}, wall_clock=lambda: WALL_CLOCK) as runtime:
            program = Program(runtime)
            with trio.move_on_after(LATE_SECONDS) as scope:
                await program.run()
        return program, scope.cancelled_caught

    # Which of two tasks that are runnable together goes first must not depend on chance.
    with watched_engines(plan, options, gate) as (engines, events), _deterministic_scheduling(seed=0):
        program, late = trio.run(main, clock=MockClock(autojump_threshold=0))
    time, queue = engines[0].time, engines[0].host.core(QUEUE)
    assert isinstance(time, Watched) and isinstance(queue, Queue)
    places = queue._door.admitted
    return Outcome(plan, events, time.ledger.violations, program.statuses, program.runtime.left, late, places)


def run_until_it_fails(plan: Plan) -> None:
    """Go on giving orders, whatever becomes of them, until the runtime ends."""
    options = Options(workers=1, seed=7)

    async def main() -> None:
        async with opening.run_runtime(options, resources={}, wall_clock=lambda: WALL_CLOCK) as runtime:
            Program(runtime)
            for _ in range(1_000):
                with suppress(EvenhandError):
                    await runtime.schedule("* * * * *", "work", 0.3, name="minutely", user="dave")
                with suppress(EvenhandError):
                    runtime.submit_nowait("work", 0.05, user="alice")
                await trio.sleep(0.01)

    with watched_engines(plan, options):
        trio.run(main, clock=MockClock(autojump_threshold=0))
