"""The runtime: what a trio program embeds, and all that people can ask of it.

    async with open_runtime() as runtime:
        @runtime.handler("crawl", concurrency_max=3, rate_limit=10)
        async def crawl(payload: dict) -> dict: ...

        handle = await runtime.submit("crawl", {"url": "..."}, user="alice")
        print(await handle.result())

Every method here checks its arguments, sends a message, and waits for the answer; what is decided is decided by the actors.
What only looks (`get`, `tasks`, `explain`) reads the table and waits for nobody.
"""

from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import suppress
from typing import Any, TypeVar, TypeVarTuple, Unpack, overload

import attrs
import trio
from msgspec.structs import replace

from actors.calls import RUN_SOON, Calls
from actors.chain import TaskQueue
from actors.config import KindSettings
from actors.engine import Engine
from actors.errors import InvalidConfig, InvalidTask, InvalidTransition, RuntimeStopped, UnknownTask
from actors.explain import Explanation, explain_task
from actors.front import FRONT, warn_if_full
from actors.handle import TaskHandle, handles_of
from actors.handlers import Handler, Handlers, Registers
from actors.host import Envelope
from actors.ids import new_id
from actors.limits import Limit
from actors.listing import dead_letters, listed, part
from actors.messages import (
    QUEUE,
    SCHEDULER,
    Address,
    Await,
    Cancel,
    Delete,
    Equip,
    Maintain,
    Pause,
    Requeue,
    Resume,
    Schedule,
    SetLimit,
    SetWeight,
    Submit,
    Unschedule,
    shard_address,
)
from actors.options import Options
from actors.portal import ThreadPortal
from actors.retry import RetryPolicy
from actors.spawned import ROLE, ActorRef
from actors.stats import Health, Stats, health_of, stats_of
from actors.stream import EventStream
from actors.submission import NewTask, TaskOptions, check_scope, kind_fault
from actors.supervision import Group
from actors.task import Cause, Status, Task
from actors.timetable import TIMETABLE, Scheduled, schedule_name
from actors.values import as_json

__all__ = ["Runtime"]

P = TypeVar("P")
R = TypeVar("R")
Arguments = TypeVarTuple("Arguments")

SUBMITTED_AT_ONCE = 256
"""So many tasks of a `submit_many` are handed in before others have their turn."""


class Runtime:
    """A fair task queue in a trio program. Made by `open_runtime`."""

    def __init__(self, options: Options, engine: Engine, handlers: Handlers) -> None:
        self._options = options
        self._engine = engine
        self.handlers = handlers
        """What runs each kind that is run here."""
        self._calls = Calls(engine.table)
        self._token = trio.lowlevel.current_trio_token()
        self.left: tuple[Task, ...] = ()
        """Once stopped: the tasks that had not ended."""

    def __repr__(self) -> str:
        counts = self._engine.table.counts
        stopped = "stopped, " if self._engine.stopping else ""
        return f"<Runtime: {stopped}{counts[Status.PENDING]} pending, {counts[Status.IN_PROGRESS]} in progress>"

    # Handlers

    def handler(
        self,
        kind: str,
        *,
        concurrency_max: int | None = None,
        rate_limit: float | None = None,
        timeout_seconds: float | None = 300.0,
        lease_seconds: float = 60.0,
        max_retries: int | None = None,
        retry: RetryPolicy | None = None,
        process: bool = False,
    ) -> Registers:
        """A decorator that makes a function the handler of a kind.

        An `async def` runs in trio, a plain function in a thread, and with `process` either in a process. It takes the
        payload, and a `Context` beside it if it has a second parameter.
        """
        if fault := kind_fault(kind):
            raise InvalidConfig(fault)
        if kind == RUN_SOON:
            raise InvalidConfig(f"kind must be another than {RUN_SOON!r}, which is what `run_soon` has")
        retry = RetryPolicy() if retry is None else retry
        if not isinstance(retry, RetryPolicy):
            raise InvalidConfig(f"retry must be a RetryPolicy, got {retry!r}")
        settings = KindSettings(
            lease_seconds=lease_seconds,
            timeout_seconds=timeout_seconds,
            retry=retry if max_retries is None else attrs.evolve(retry, max_retries=max_retries),
            limit=Limit(rate_limit, concurrency_max),
        )

        def register(function: Any) -> Any:
            handler: Handler[Any, Any] = Handler.of(kind, function, process)
            self._register(handler, settings)
            return handler

        return register

    def _register(self, handler: Handler[Any, Any], settings: KindSettings) -> None:
        self._engine.check_open()
        self.handlers.add(handler, self._options.kind(handler.kind, settings))
        self._engine.tell(SCHEDULER, Equip())

    # Submitting

    @overload
    async def submit(self, kind: Handler[None, R], **options: Unpack[TaskOptions]) -> TaskHandle[R]: ...
    @overload
    async def submit(self, kind: Handler[P, R], payload: P, **options: Unpack[TaskOptions]) -> TaskHandle[R]: ...
    @overload
    async def submit(self, kind: str, payload: Any = None, **options: Unpack[TaskOptions]) -> TaskHandle[Any]: ...
    async def submit(
        self, kind: str | Handler[Any, Any], payload: Any = None, **options: Unpack[TaskOptions]
    ) -> TaskHandle[Any]:
        """Submit a task, and wait until it is in: admitted, and with a durable store safe.

        `kind` is a name or a handler; with a handler, type checkers know what the payload must be and what the result is.
        The options are those of `NewTask`. InvalidTask or QueueFull if it is not admitted; if this is cancelled, it is
        not in.
        """
        return await self.submit_task(self._new_task(kind, payload, options))

    @overload
    def submit_nowait(self, kind: Handler[None, R], **options: Unpack[TaskOptions]) -> TaskHandle[R]: ...
    @overload
    def submit_nowait(self, kind: Handler[P, R], payload: P, **options: Unpack[TaskOptions]) -> TaskHandle[R]: ...
    @overload
    def submit_nowait(self, kind: str, payload: Any = None, **options: Unpack[TaskOptions]) -> TaskHandle[Any]: ...
    def submit_nowait(
        self, kind: str | Handler[Any, Any], payload: Any = None, **options: Unpack[TaskOptions]
    ) -> TaskHandle[Any]:
        """Submit a task without waiting for the answer, unless it is there at once, as it mostly is in memory.

        What refuses it at once is raised here; what refuses it later, by whatever waits for the task.
        """
        return TaskHandle(self, self._engine.submit_nowait(self._submit(self._new_task(kind, payload, options))))

    async def submit_task(self, task: NewTask) -> TaskHandle[Any]:
        """Submit a task that is all in one piece."""
        return TaskHandle(self, await self._engine.submit(self._submit(task)))

    async def submit_many(self, tasks: Iterable[NewTask]) -> list[TaskHandle[Any]]:
        """Submit many tasks, and wait until all are in; a handle each, in their order.

        Each is admitted or refused for itself. SomeRefused, which has the handles of the others, if any was refused. If
        this is cancelled, those that are not in yet will not be.
        """
        if not isinstance(tasks, Iterable):
            raise InvalidTask(f"tasks must be some NewTasks, got {tasks!r}")
        waiting = list(tasks)
        refused: dict[int, Exception] = {}
        answers = await self._engine.submit_many(self._parts(waiting, refused))
        if refused:
            ids = iter(answers)
            answers = [refused[place] if place in refused else next(ids) for place in range(len(waiting))]
        return handles_of(self, answers)

    def _parts(self, tasks: list[NewTask], refused: dict[int, Exception]) -> Iterator[list[Submit]]:
        """What is handed in together; some are no task even before they come to the door."""
        for first in range(0, len(tasks), SUBMITTED_AT_ONCE):
            submits: list[Submit] = []
            for place, task in enumerate(tasks[first : first + SUBMITTED_AT_ONCE], start=first):
                try:
                    submits.append(self._submit(task))
                except InvalidTask as error:
                    refused[place] = error
            yield submits

    def _new_task(self, kind: str | Handler[Any, Any], payload: Any, options: TaskOptions) -> NewTask:
        if isinstance(kind, Handler):
            if kind.payload_type is not None:
                payload = as_json("payload", payload)
            kind = self.handlers.kind_of(kind)
        return NewTask(kind, payload, **options)

    def _submit(self, task: NewTask, task_id: str | None = None, reply_to: Address | None = FRONT) -> Submit:
        if not isinstance(task, NewTask):
            raise InvalidTask(f"task must be a NewTask, got {type(task).__name__}")
        if fault := kind_fault(task.kind):
            raise InvalidTask(fault)
        retry = self._engine.settings.kind(task.kind).retry
        return task.submit(new_id() if task_id is None else task_id, retry, self._engine.now(), reply_to)

    # One task

    def get(self, task_id: str) -> Task:
        """The record of a task as it is now; UnknownTask if there is none, or none any more."""
        return self._engine.table[self._engine.front.meant(task_id)]

    async def wait(self, task_id: str) -> Task:
        """Wait until a task has ended, however it did, and give its record. Safe to cancel, and to call again."""
        engine = self._engine
        task_id = await engine.answered(task_id)
        task = engine.table[task_id]
        if task.status.terminal and engine.all_safe:
            await trio.lowlevel.checkpoint()
            return task
        if engine.front.concluded:
            lacks = "has an end that was not stored" if task.status.terminal else "had not ended"
            raise RuntimeStopped(f"the runtime has stopped, and {task.identity} {lacks}")
        warn_if_full(engine.executors.values())
        return await engine.front.ended(task_id, lambda: engine.tell(shard_address(task.user), Await(task_id, FRONT)))

    async def cancel(self, task_id: str) -> None:
        """Cancel a task: at once if it waits, by asking its worker if it runs. InvalidTransition if it has ended.

        One that was submitted without waiting, and is still at the door, is cancelled when it has come in.
        """
        task_id = await self._engine.answered(task_id)
        user = self._engine.table[task_id].user
        await self._engine.ask(shard_address(user), lambda reply_to: Cancel(task_id, reply_to))

    async def requeue(self, task_id: str, *, reset_retries: bool = False) -> None:
        """Put a failed or running task back, with all its retries if asked; InvalidTransition if it cannot be."""
        task = self.get(task_id)
        await self._engine.ask(shard_address(task.user), lambda reply_to: Requeue(task.id, reset_retries, reply_to))

    async def delete(self, task_id: str) -> None:
        """Remove an ended task now; InvalidTransition if it has not ended."""
        meant = self._engine.front.meant(task_id)
        await self._engine.ask(QUEUE, lambda reply_to: Delete(meant, reply_to))

    def explain(self, task_id: str) -> Explanation:
        """Why a task is not running yet, in a sentence and as data; UnknownTask if there is none."""
        engine = self._engine
        return explain_task(
            engine.front.meant(task_id),
            engine.table,
            engine.scheduler(),
            engine.settings,
            engine.now(),
            engine.stopping,
        )

    # Many tasks

    def tasks(
        self,
        *,
        status: Status | str | None = None,
        kind: str | None = None,
        user: str | None = None,
        limit: int | None = 100,
        offset: int = 0,
    ) -> list[Task]:
        """Some of the tasks, in the order of admission; those of one status that have ended, in that of their ending."""
        return part(listed(self._engine.table, status, kind, user), limit, offset)

    def dead_letters(
        self,
        *,
        cause: Cause | str | None = None,
        kind: str | None = None,
        user: str | None = None,
        limit: int | None = 100,
    ) -> list[Task]:
        """The tasks that failed for good, the one that failed first at the front."""
        return part(dead_letters(self._engine.table, cause, kind, user), limit)

    async def purge(self, *, cause: Cause | str | None = None, kind: str | None = None, user: str | None = None) -> int:
        """Remove dead letters for good; how many there were."""
        self._engine.check_open()
        await trio.lowlevel.checkpoint()
        removed = 0
        for task in list(dead_letters(self._engine.table, cause, kind, user)):
            # Swept, or put back, since.
            with suppress(UnknownTask, InvalidTransition):
                await self.delete(task.id)
                removed += 1
        return removed

    async def maintain(self, *, everything: bool = False) -> int:
        """Remove the ended tasks that were kept long enough, or all of them, now; how many there were."""
        maintained = await self._engine.ask(QUEUE, lambda reply_to: Maintain(everything, reply_to))
        removed: int = maintained.removed
        return removed

    # Who gets what

    async def pause(self, *, kind: str | None = None, user: str | None = None) -> None:
        """Start nothing of a kind, of a user, or nothing at all, until it is resumed; what runs goes on."""
        await self._restrain(Pause, kind, user)

    async def resume(self, *, kind: str | None = None, user: str | None = None) -> None:
        """End a pause."""
        await self._restrain(Resume, kind, user)

    async def set_weight(self, user: str, weight: float) -> None:
        """Weigh a user, or everybody below a name, anew; what is queued already included."""
        await self._engine.ask(SCHEDULER, lambda reply_to: SetWeight(user, weight, reply_to))
        self._engine.tell(QUEUE, SetWeight(user, weight))

    async def set_limits(
        self,
        *,
        kind: str | None = None,
        user: str | None = None,
        rate_limit: float | None = None,
        concurrency_max: int | None = None,
    ) -> None:
        """Hold a kind, a user, or everything to these limits from now on; None lifts a limit."""
        await self._restrain(SetLimit, kind, user, rate_limit=rate_limit, concurrency_max=concurrency_max)

    async def set_rate_limit(
        self, rate_limit: float | None, *, kind: str | None = None, user: str | None = None
    ) -> None:
        """Hold a kind, a user, or everything to so many starts a second, and leave the other limit; None lifts it."""
        concurrency_max = self.limit(kind=kind, user=user).concurrency_max
        await self.set_limits(kind=kind, user=user, rate_limit=rate_limit, concurrency_max=concurrency_max)

    def limit(self, *, kind: str | None = None, user: str | None = None) -> Limit:
        """What a kind, a user, or everything is held to now."""
        check_scope(kind, user)
        return self._engine.scheduler().limit(kind, user)

    async def _restrain(self, order: Callable[..., Any], kind: str | None, user: str | None, **values: Any) -> None:
        check_scope(kind, user)
        await self._engine.ask(SCHEDULER, lambda reply_to: order(kind=kind, user=user, reply_to=reply_to, **values))

    # Other ways in, and other things to run

    def tq(self, kind: str) -> TaskQueue:
        """The chained style: `runtime.tq("crawl").set_worker(f).set_worker_count(3).add({...})`."""
        return TaskQueue(self, kind)

    async def run_soon(
        self,
        function: Callable[[Unpack[Arguments]], Awaitable[R]],
        *arguments: *Arguments,
        **options: Unpack[TaskOptions],
    ) -> TaskHandle[R]:
        """Run an async function with these arguments on a worker, under the same fairness as any task.

        Arguments and result can be anything; nothing of it is kept in a store. It is tried once, unless `max_retries` says
        otherwise; the options are those of `NewTask`.
        """
        if RUN_SOON not in self.handlers:
            self._register(self._calls.handler(), KindSettings())
        options = {"max_retries": 0, **options, "persist": False}
        submit = self._submit(NewTask(RUN_SOON, None, **options))
        return TaskHandle(self, await self._calls.submit(submit, function, arguments, self._engine.submit))

    @property
    def from_thread(self) -> ThreadPortal:
        """The same for other threads, as calls that block."""
        return ThreadPortal(self, self._token)

    # Actors of people's own

    async def spawn(
        self,
        build: Callable[..., Any],
        *arguments: Any,
        name: str | None = None,
        mailbox_max: int | None = 1_000,
        overflow: str = "wait",
    ) -> ActorRef:
        """Start an actor: whatever `build(*arguments)` gives, or an async function; see `actors.spawned`.

        `overflow` says what becomes of a message to a full mailbox: `wait`, `reject`, `drop_oldest` or `drop_newest`.
        """
        self._engine.check_open()
        return await self._engine.company.spawn(
            build, *arguments, name=name, mailbox_max=mailbox_max, overflow=overflow
        )

    def supervise(
        self,
        name: str,
        members: Iterable[str],
        *,
        strategy: str = "one_for_one",
        restarts_max: int = 3,
        window_seconds: float = 5.0,
    ) -> None:
        """Have the actors of these names watched over as a group; see `actors.supervision`."""
        self._engine.check_open()
        if isinstance(members, str):
            raise InvalidConfig(f"members of a group must be a list of names, got {members!r}")
        addresses = tuple(f"actor/{member}" for member in members)
        self._engine.company.supervise(Group(name, addresses, strategy, restarts_max, window_seconds))

    def actor(self, name: str) -> ActorRef:
        """The actor of people's own that has this name; ActorGone if there is none."""
        return self._engine.company.find(name)

    # Schedules

    async def schedule(
        self,
        cron: str,
        kind: str | Handler[Any, Any],
        payload: Any = None,
        *,
        name: str | None = None,
        timezone: str = "UTC",
        misfire: str = "run_once",
        misfire_grace_seconds: float = 60.0,
        **options: Unpack[TaskOptions],
    ) -> str:
        """Submit such a task whenever a cron expression says so; the schedule's name.

        A time that is later than `misfire_grace_seconds` when the program gets to it was missed. `misfire` says what becomes
        of those: `run_once` submits one task for all of them, `run_all` one for each, `skip` none. No time fires twice. A
        schedule of the same name is replaced, and goes on where that was; without a name, one of the same task at the same
        times. The options are those of `NewTask`.
        """
        task = self._new_task(kind, payload, options)
        submit = self._submit(task, "", None)
        chosen = schedule_name(task, cron, timezone) if name is None else name

        times = {"cron": cron, "timezone": timezone, "misfire": misfire}
        order = Schedule(name=chosen, submit=submit, misfire_grace_seconds=misfire_grace_seconds, **times)
        await self._engine.ask(TIMETABLE, lambda reply_to: replace(order, reply_to=reply_to))
        return chosen

    async def unschedule(self, name: str) -> None:
        """Let a schedule fire no more; UnknownSchedule if there is none."""
        await self._engine.ask(TIMETABLE, lambda reply_to: Unschedule(name, reply_to))

    def schedules(self) -> list[Scheduled]:
        """Every schedule as it stands, by name."""
        return self._engine.timetable().scheduled()

    # Whoever wants to know

    def events(self, buffer_max: int = 1_000) -> EventStream:
        """Every event from now on, as an async iterator; what did not fit its buffer is said to be skipped."""
        if not isinstance(buffer_max, int) or buffer_max < 1:
            raise InvalidConfig(f"buffer_max must be a whole number >= 1, got {buffer_max!r}")
        if self._engine.front.concluded or self._engine.closed.is_set():
            raise RuntimeStopped("the runtime has stopped, and nothing happens any more")
        return self._engine.open_stream(buffer_max)

    def stats(self) -> Stats:
        """How many tasks stand where, how long they wait, and what has happened so far."""
        return stats_of(self._engine)

    def health(self) -> Health:
        """Whether anybody should look after this runtime, and why; the thresholds are `Options.alerts`."""
        return health_of(self._engine, self._options.alerts)

    def undelivered(self) -> list[Envelope]:
        """The latest messages that no actor could handle: sender, receiver, message."""
        return list(self._engine.host.undelivered)

    def tell(self, receiver: Address, message: Any) -> None:
        """Send an actor a message of its own sort (see `actors.messages`); nobody waits for what comes of it."""
        self._engine.check_open()
        tell = self._engine.company.tell if receiver.startswith(f"{ROLE}/") else self._engine.tell
        tell(receiver, message)

    # The end

    async def stop(self, grace_seconds: float | None = None, *, drain: bool | None = None) -> None:
        """Take no more orders, let what runs end within the grace time, and give the rest back.

        Leaving the block does this; here it can be done before, with another grace time.
        """
        grace_seconds = self._options.stop_grace_seconds if grace_seconds is None else grace_seconds
        await self._engine.stop(grace_seconds, self._options.drain if drain is None else drain)
        self._engine.conclude()
        self.left = tuple(self._engine.table.every_live())
