"""The engine: a host with all its actors on real time, the workers' tasks, and the way in and out.

It knows nothing of the API that people see; `runtime.py` is that. What happens here in trio: one task fires the timers, one
for each worker executes handlers, and everything else is done by whoever has something to say (see `realtime.py`).

It runs under a shield: a program that is cancelled is cancelled in its own code, and what its handlers were doing is given
back in order, as at any other stop.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any
from weakref import WeakKeyDictionary, WeakSet, ref

import trio

from actors.actor import Draw
from actors.config import Settings
from actors.errors import InvalidConfig, RuntimeStopped
from actors.execution import HandlerExecutor
from actors.front import FRONT, Asked, Front, id_or_error
from actors.handlers import Handler
from actors.host import Gate, Host
from actors.inbox import INBOX, InboxReader
from actors.journal import StoreJournal
from actors.log import FAILURES, FailureLog
from actors.messages import (
    QUEUE,
    SCHEDULER,
    Address,
    Answered,
    Finished,
    Refused,
    Retire,
    Submit,
    Withdraw,
    WorkerClass,
    worker_address,
)
from actors.meter import Meter
from actors.realtime import RealTime
from actors.recording import Recorder
from actors.restoring import resume
from actors.scheduler import Scheduler
from actors.spawned import Company
from actors.stream import EventStream
from actors.supervision import Group
from actors.table import Table
from actors.task import Status
from actors.timetable import TIMETABLE, Timetable
from actors.trace import Event
from actors.wiring import TREE, notes_of, spawn_cores
from actors.worker import Worker

__all__ = ["Engine"]

Sink = Callable[[Event], None]


class Engine:
    """A host, its actors and its workers, running."""

    def __init__(
        self,
        settings: Settings,
        workers: Sequence[WorkerClass],
        handlers: Mapping[str, Handler[Any, Any]],
        draw: Draw,
        *,
        resources: Mapping[str, Any],
        cancel_grace_seconds: float,
        wall_clock: Callable[[], float],
        threads: bool = True,
        supervision: Group = TREE,
        gate: Gate | None = None,
        recorder: Recorder | None = None,
        journal: StoreJournal | None = None,
        table: Table | None = None,
        stored_at: float = 0.0,
    ) -> None:
        self.settings = settings
        self.table = Table() if table is None else table
        self.journal = journal
        """What makes things safe, if anything does; then `table` and `stored_at` are what its store had."""
        self.host = Host(self.table, draw, observe=self._observe, gate=gate, journal=journal, supervision=supervision)
        self._stored_at = stored_at
        self.time = RealTime(self.host, wall_clock, stored_at)
        self.meter = Meter(self.host.now)
        self.front = Front()
        self.recorder = recorder
        self.company = Company(self.now, self._observe, self._undeliver)
        """Actors of people's own."""
        self.executors: dict[Address, HandlerExecutor] = {}
        """Who executes for each worker now."""
        self.abandoned_threads = 0
        """Threads that were left behind, because they went on."""
        self.stopping = False
        self.closed = trio.Event()
        """Set when nothing goes on any more."""
        self._classes = list(workers)
        self._handlers = handlers
        self._resources = resources
        self._cancel_grace_seconds = cancel_grace_seconds
        self._threads = threads
        self._failures = FailureLog()
        self._sinks: tuple[Sink, ...] = ()
        self._streams: WeakSet[EventStream] = WeakSet()
        self._asks = 0
        self._asked: dict[Address, Asked] = {}
        """Questions that are not answered yet."""
        self._awaited: dict[trio.Event, Callable[[], bool]] = {}
        """What somebody waits for, with what tells them."""
        self._at_the_door: WeakKeyDictionary[Asked, Submit] = WeakKeyDictionary()
        """Submits that were not answered at once, as long as somebody may ask what became of them."""
        self._last_words: WeakKeyDictionary[Asked, trio.CancelScope] = WeakKeyDictionary()
        """Where somebody who was cancelled waits all the same, because what it ordered could no longer be taken back."""
        self._given_back = False
        self._nursery: trio.Nursery | None = None
        self._close = trio.Event()

    # Running

    async def run(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Run until closed, whatever is cancelled around it; raises what made the host fail."""
        try:
            with trio.CancelScope() as scope:
                async with trio.open_nursery() as self._nursery:
                    if self.recorder is not None:
                        self.add_sink(self.recorder.on_event)
                        self._nursery.start_soon(self.recorder.run)
                    self._spawn()
                    self._nursery.start_soon(self.time.run)
                    if self.journal is not None:
                        self._nursery.start_soon(self.journal.run, self.now, self.time.drive, self.time.fail)
                        self._open_inbox(self.journal)
                    await self._nursery.start(self.company.run)
                    # Whoever is cancelled while this starts never hears that it has, and could not close it.
                    await trio.lowlevel.checkpoint_if_cancelled()
                    task_status.started()
                    scope.shield = True
                    await self._close.wait()
                    self._nursery.cancel_scope.cancel()
        finally:
            self.stopping = True
            self._end_streams()
            self.closed.set()
            for event in self._awaited:
                event.set()
            for scope in self._last_words.values():
                scope.cancel()

    def close(self) -> None:
        """End every task of the engine, now, and tell whoever still waits for something that it will not come."""
        for executor in self.executors.values():
            self._abandon(executor)
        self._close.set()
        self._clear_door()
        # Not where a failure ends the engine: whoever is in the block is about to be cancelled by that, and not told.
        stopped = RuntimeStopped("the runtime has stopped")
        self.front.close(stopped)
        for asked in self._asked.values():
            asked.hear(Answered("", stopped))

    def conclude(self) -> None:
        """It has stopped and nothing will run any more: tell whoever waits for an end, an event or a place."""
        if not self.time.failed:
            self._clear_door()
            self.front.conclude(RuntimeStopped("the runtime has stopped"))
            self._end_streams()

    def _clear_door(self) -> None:
        """Whoever waits for a place waits for nothing; one that cannot be taken back is in, and about to be told so."""
        for asked, submit in list(self._at_the_door.items()):
            if asked.answer is None and self._withdraw(submit):
                asked.hear(Refused(submit.id, RuntimeStopped("the runtime has stopped")))

    def _end_streams(self) -> None:
        for stream in list(self._streams):
            stream.close()

    def _spawn(self) -> None:
        self.host.spawn(FRONT, lambda: self.front)
        self._resume()
        self.host.spawn(TIMETABLE, self._build_timetable)
        for number, worker_class in enumerate(self._classes, start=1):
            address = worker_address(number)
            self.host.spawn(address, self._worker_builder(address, worker_class))
        self.time.drive()

    def _resume(self) -> None:
        """Begin where the store ends: what ran when the process before this one ended is settled as if that were now."""
        resume(self.host, self._stored_at, lambda: spawn_cores(self.host, self.settings))

    def _open_inbox(self, journal: StoreJournal) -> None:
        # On virtual time nobody else is there.
        if self._threads and (inbox := journal.store.inbox()) is not None:
            assert self._nursery is not None, "it is read while the engine runs"
            reader = InboxReader(journal)
            self.host.spawn(INBOX, lambda: reader)
            self._nursery.start_soon(reader.run, inbox, self._hand_in)

    def _hand_in(self, submit: Submit) -> bool:
        """Submit what came in through the store; False if no more is taken."""
        if not self.stopping:
            self.time.tell(INBOX, QUEUE, submit)
        return not self.stopping

    @property
    def all_safe(self) -> bool:
        """Whether everything that was decided is safe, as far as anything is to be."""
        return self.journal is None or self.journal.idle

    def _build_timetable(self) -> Timetable:
        notes, bytes_max = notes_of(self.table, TIMETABLE), self.settings.payload_bytes_max
        return Timetable(notes, bytes_max, retired=self.stopping)

    def _worker_builder(self, address: Address, worker_class: WorkerClass) -> Callable[[], Worker]:
        def build() -> Worker:
            assert self._nursery is not None, "workers are built while the engine runs"
            if (before := self.executors.get(address)) is not None:
                self._abandon(before)
            executor = HandlerExecutor(
                address,
                self._handlers,
                self._resources,
                self._executed,
                result_bytes_max=self.settings.payload_bytes_max,
                threads=self._threads,
            )
            self.executors[address] = executor
            self._nursery.start_soon(self._serve, executor, name=address)
            notes = notes_of(self.table, address)
            return Worker(address, worker_class, executor, self.table, notes, self._cancel_grace_seconds)

        return build

    async def _serve(self, executor: HandlerExecutor) -> None:
        try:
            await executor.serve()
        except BaseException:
            # The engine ends, be it by Ctrl-C in this very handler: nobody is given anything any more.
            self._abandon(executor)
            if not self._given_back:
                self._given_back = True
                self._tell_workers(Retire(at_once=True))
            raise
        finally:
            executor.give_back()

    def _abandon(self, executor: HandlerExecutor) -> None:
        self.abandoned_threads += executor.abandon()

    def _executed(self, sender: Address, receiver: Address, message: Any) -> None:
        if type(message) is Finished and message.error is not None:
            with self._failures.expecting(message):
                self.time.tell(sender, receiver, message)
        else:
            self.time.tell(sender, receiver, message)
        if self.journal is not None:
            self.journal.hasten()
        if self._awaited:
            self._look()

    def _undeliver(self, sender: Address, receiver: Address, message: Any) -> None:
        self.host.undelivered.append((sender, receiver, message))
        self.host.undelivered_count += 1

    # What happens

    def _observe(self, event: Event) -> None:
        self.meter.on_event(event)
        if self._sinks:
            for sink in self._sinks:
                sink(event)
        if type(event) in FAILURES:
            self._failures.log(event)
        if self._awaited:
            self._look()

    def add_sink(self, sink: Sink) -> None:
        """Have every event from now on handed over; a sink must neither raise nor wait."""
        self._sinks = (*self._sinks, sink)

    def remove_sink(self, sink: Sink) -> None:
        """No more events for this one."""
        self._sinks = tuple(other for other in self._sinks if other != sink)

    def open_stream(self, buffer_max: int) -> EventStream:
        """A stream of all events from now on, which ends with the engine, or when nobody holds it any more."""

        def hand_over(event: Event) -> None:
            if (stream := held()) is not None:
                stream.on_event(event)

        def let_go(_: object) -> None:
            self.remove_sink(hand_over)

        stream = EventStream(buffer_max, let_go)
        # Weakly: whoever leaves a loop over a stream with `break` has no way to close it.
        held = ref(stream, let_go)
        self.add_sink(hand_over)
        self._streams.add(stream)
        return stream

    # In and out

    def scheduler(self) -> Scheduler:
        """The scheduler's core, to be looked at."""
        core = self.host.core(SCHEDULER)
        assert isinstance(core, Scheduler), "the scheduler is always there"
        return core

    def timetable(self) -> Timetable:
        """The timetable's core, to be looked at."""
        core = self.host.core(TIMETABLE)
        assert isinstance(core, Timetable), "the timetable is always there"
        return core

    def now(self) -> float:
        """The time that tasks go by."""
        return self.time.now()

    def tell(self, receiver: Address, message: Any) -> None:
        """Have a message delivered, and all that it leads to, before this returns."""
        self.time.tell(FRONT, receiver, message)

    async def ask(self, receiver: Address, message: Callable[[Address], Any]) -> Any:
        """Send a message that is made for the address of its answer, and wait for that."""
        self.check_open()
        self._asks += 1
        address = f"ask/{self._asks}"
        asked = self._asked[address] = Asked()
        self.host.spawn(address, lambda: asked)
        try:
            self.time.tell(address, receiver, message(address))
            return await asked.wait()
        finally:
            del self._asked[address]
            self.host.dismiss(address)

    async def submit(self, submit: Submit) -> str:
        """Submit a task and wait until it is in; its id, which is another's if the idempotency key was known.

        If this is cancelled the task is not in, unless that could no longer be helped: then it is not cancelled.
        """
        self.check_open()
        await trio.lowlevel.checkpoint_if_cancelled()
        asked = self.front.submits[submit.id] = Asked()
        try:
            self.tell(QUEUE, submit)
            if asked.answer is None:
                self._at_the_door[asked] = submit
                await self._wait_at_the_door(submit, asked)
            else:
                await trio.lowlevel.cancel_shielded_checkpoint()
        finally:
            del self.front.submits[submit.id]
        task_id: str = asked.result().task_id
        return task_id

    def submit_nowait(self, submit: Submit) -> str:
        """Submit a task and wait for nothing; its id. What refuses it later is told whoever waits for its end."""
        self.check_open()
        asked = self.front.submits[submit.id] = Asked()
        self.tell(QUEUE, submit)
        del self.front.submits[submit.id]
        if asked.answer is None:
            self._at_the_door[asked] = submit
            self.front.leave_open(submit.id, asked)
            return submit.id
        task_id: str = asked.result().task_id
        return task_id

    async def answered(self, submitted_id: str) -> str:
        """The id of a task that was submitted without waiting, once it is in; raises what refused it."""
        if (asked := self.front.left_open.get(submitted_id)) is None:
            return submitted_id
        task_id: str = (await asked.wait()).task_id
        return task_id

    async def submit_many(self, parts: Iterable[Sequence[Submit]]) -> list[str | Exception]:
        """Submit tasks together, a part at a time, and wait until all are answered: the id of each, or why it was refused.

        If this is cancelled, those that still waited at the door are not in, nor are those of parts that were not taken yet.
        """
        self.check_open()
        await trio.lowlevel.checkpoint()
        asked: list[tuple[Submit, Asked]] = []
        # At a door that is full, nobody has more than a part of them wait; a store is given the next while it writes the last.
        one_by_one = self.journal is None or self.settings.bounded
        try:
            for part in parts:
                self.check_open()
                await trio.lowlevel.checkpoint_if_cancelled()
                asked += (some := [(submit, Asked()) for submit in part])
                self._submit_together(some)
                if one_by_one:
                    await self._answers(some)
                await trio.lowlevel.cancel_shielded_checkpoint()
            await self._answers(asked)
        finally:
            for submit, one in asked:
                if one.answer is None:
                    self._withdraw(submit)
                del self.front.submits[submit.id]
        return [id_or_error(one) for _, one in asked]

    def _submit_together(self, some: Sequence[tuple[Submit, Asked]]) -> None:
        self.front.submits.update((submit.id, one) for submit, one in some)
        for submit, _ in some:
            self.host.post(FRONT, QUEUE, submit)
        self.time.drive()
        self._at_the_door.update((one, submit) for submit, one in some if one.answer is None)
        if self.journal is not None:
            self.journal.hasten()

    async def _answers(self, some: Sequence[tuple[Submit, Asked]]) -> None:
        for submit, one in some:
            if one.answer is None:
                await self._wait_at_the_door(submit, one)

    async def _wait_at_the_door(self, submit: Submit, asked: Asked) -> None:
        try:
            await asked.answered()
        except trio.Cancelled:
            if self._withdraw(submit) or self.time.failed:
                raise
            # It had been let in: what is left is to hear so, unless the engine ends first.
            with trio.CancelScope(shield=True) as self._last_words[asked]:
                await asked.answered()
            if asked.answer is None:
                raise

    def _withdraw(self, submit: Submit) -> bool:
        """Whether a submit that waited at the door waits no more."""
        withdrawn, address = Asked(), f"ask/{submit.id}"
        self.host.spawn(address, lambda: withdrawn)
        self.tell(QUEUE, Withdraw(submit.id, submit.user, address))
        self.host.dismiss(address)
        return withdrawn.answer is not None and withdrawn.answer.error is None

    def check_open(self) -> None:
        """RuntimeStopped unless orders are still taken."""
        if self.stopping:
            raise RuntimeStopped("the runtime has stopped, or stops, and takes no more orders")

    # Stopping

    async def stop(self, grace_seconds: float, drain: bool) -> None:
        """Take no more orders; let what runs, or with `drain` what waits too, end within the grace time; then give it back.

        What is still told to stop then has `cancel_grace_seconds` before its worker fences it.
        """
        if not (isinstance(grace_seconds, (int, float)) and grace_seconds >= 0):
            raise InvalidConfig(f"grace_seconds must be a number of seconds >= 0, got {grace_seconds!r}")
        if not isinstance(drain, bool):
            raise InvalidConfig(f"drain must be true or false, got {drain!r}")
        self.stopping = True
        self.tell(TIMETABLE, Retire())
        with trio.move_on_after(grace_seconds):
            if drain:
                await self._until(lambda: not self._live())
            self._tell_workers(Retire())
            await self._until(lambda: not self._owing())
        self._tell_workers(Retire(at_once=True))
        await self._until(lambda: not self._owing())
        if self.journal is not None:
            await self.journal.flush()

    def _tell_workers(self, message: Retire) -> None:
        for address in self.executors:
            self.tell(address, message)

    def _live(self) -> int:
        counts = self.table.counts
        return counts[Status.PENDING] + counts[Status.IN_PROGRESS]

    def _owing(self) -> bool:
        """Whether a worker has not reported yet what came of its run."""
        workers = map(self.host.core, self.executors)
        return any(isinstance(worker, Worker) and worker.owes_report for worker in workers)

    async def _until(self, reached: Callable[[], bool]) -> None:
        """Wait for something to be so when nothing is under way; or until it never will, because the engine has ended."""
        while not (reached() or self.time.failed or self.closed.is_set()):
            event = trio.Event()
            self._awaited[event] = reached
            try:
                await event.wait()
            finally:
                del self._awaited[event]

    def _look(self) -> None:
        for event, reached in self._awaited.items():
            if reached():
                event.set()
