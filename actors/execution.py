"""How a worker of the runtime executes a run: the handler in trio, in a thread, or in a process.

An executor is one trio task, which takes runs from a channel of its own and tells its worker what came of each. All of its
runs share one cancel scope, which is made anew only after it was used: telling a run to stop cancels it. So is the task's
context: what one run leaves in a context variable, no other finds there.

Whatever a handler raises is the end of its run and of nothing else, with two exceptions: Ctrl-C ends the program, and what
trio cancels with is trio's.

Threads cannot be cancelled. A thread that is told to stop is fenced by its worker at once, goes on, and keeps the worker
occupied until it ends. When the runtime ends before it does, the thread is abandoned, and counted.
"""

import math
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from contextvars import Context as ContextVars
from contextvars import copy_context
from functools import partial
from typing import Any

import trio

from actors.actor import NEVER, Draw
from actors.context import CURRENT_WORKER, Context
from actors.handlers import Handler
from actors.messages import Address, Beat, Finished, Run, shard_address
from actors.process import Child
from actors.reports import completed, failed, stopped, within
from actors.values import own_copy

__all__ = ["HandlerExecutor", "Tell"]

Tell = Callable[[Address, Address, Any], None]
"""`tell(sender, receiver, message)`."""

_YIELD_SECONDS = 0.0005
"""Handlers that never wait are run one after the other for so long before others have their turn."""


class HandlerExecutor:
    """Runs the handlers of one worker, one at a time."""

    def __init__(
        self,
        worker: Address,
        handlers: Mapping[str, Handler[Any, Any]],
        resources: Mapping[str, Any],
        tell: Tell,
        *,
        result_bytes_max: int,
        threads: bool = True,
    ) -> None:
        self._worker = worker
        self._handlers = handlers
        self._resources = resources
        self._tell = tell
        self._result_bytes_max = result_bytes_max
        self._threads = threads
        self._send, self._receive = trio.open_memory_channel[Run](1)
        self._scope = trio.CancelScope()
        self._scope_used = False
        """Whether it was cancelled: to ask the scope itself takes a look at the clock."""
        self._current_time = trio.lowlevel.current_clock().current_time
        self._run: Run | None = None
        """The run that was given and has not been reported."""
        self._executing = False
        """Whether its handler was called."""
        self._unwanted = False
        """Whether nobody wanted it any more before that."""
        self._abandoned = False
        self._in_thread = False
        """Whether a thread has it, and has not ended."""
        self._context: Context | None = None
        self._child = Child()
        self._limiter = trio.CapacityLimiter(1)
        self._program = trio.lowlevel.current_trio_token()
        self._thread = threading.get_ident()

    def __repr__(self) -> str:
        return f"<HandlerExecutor of {self._worker}: {self._run.task_id if self._run else 'idle'}>"

    @property
    def worker(self) -> Address:
        """Whose executor this is."""
        return self._worker

    # What the worker asks for

    def start(self, run: Run, now: float, draw: Draw) -> float:
        self._run = run
        self._unwanted = False
        self._send.send_nowait(run)
        return NEVER

    def outcome(self, run: Run) -> Finished:
        raise AssertionError("what comes of a handler is not known beforehand")

    def stop(self, run: Run) -> Finished | None:
        if self._context is not None:
            self._context.stop()
        if not self._executing:
            self._unwanted = True
        elif self._in_thread:
            return stopped(self._worker, run)
        else:
            self._cancel()
        return None

    @property
    def occupied(self) -> bool:
        return self._run is not None

    def abandon(self) -> bool:
        """Nobody waits any more for what is going on, and all of it ends but a thread; whether one is left behind by this."""
        leaves_thread = self._in_thread and not self._abandoned
        self._abandoned = self._unwanted = True
        self._cancel()
        if self._context is not None:
            self._context.stop()
        return leaves_thread

    def _cancel(self) -> None:
        self._scope_used = True
        self._scope.cancel()

    # The task

    async def serve(self) -> None:
        """Execute runs until abandoned."""
        CURRENT_WORKER.set(self)
        clean = copy_context()
        try:
            while not self._abandoned:
                await self._serve_in_a_scope(clean)
        finally:
            with trio.CancelScope(shield=True):
                await self._child.aclose()

    def give_back(self) -> None:
        """Say of a run that nobody will execute any more that it was stopped."""
        if self._run is not None:
            self._over(stopped(self._worker, self._run))

    async def _serve_in_a_scope(self, clean: ContextVars) -> None:
        """Execute runs until one is told to stop."""
        said = None
        try:
            self._scope_used = False
            with trio.CancelScope() as self._scope:
                await self._serve_until_stopped(clean)
        except BaseException as error:
            # What a handler raised while it was being cancelled, or beside it.
            if self._run is None or not _ends_one_run(error):
                raise
            said = failed(self._worker, self._run, error)
        if self._executing:
            assert self._run is not None, "a run is executed"
            self._over(said or stopped(self._worker, self._run))

    async def _serve_until_stopped(self, clean: ContextVars) -> None:
        yields_at = -math.inf
        # Whether or not the last run ended by itself: a scope that was cancelled is used up.
        while not self._scope_used:
            if copy_context() != clean:
                trio.lowlevel.current_task().context = clean.copy()
                await trio.lowlevel.checkpoint()
            try:
                run = self._receive.receive_nowait()
            except trio.WouldBlock:
                run = await self._receive.receive()
                yields_at = self._current_time() + _YIELD_SECONDS
            self._over(await self._execute(run))
            if self._current_time() > yields_at:
                await trio.lowlevel.checkpoint()
                yields_at = self._current_time() + _YIELD_SECONDS

    def _over(self, said: Finished) -> None:
        self._run = self._context = None
        self._executing = self._in_thread = False
        self._tell(self._worker, self._worker, said)

    async def _execute(self, run: Run) -> Finished:
        if self._unwanted:
            return stopped(self._worker, run)
        handler = self._handlers[run.kind]
        self._executing = True
        try:
            result = await self._call(handler, run)
            if result is not None and handler.mode != "process":
                result = handler.json_result(result, self._result_bytes_max)
        except BaseException as error:
            if not _ends_one_run(error):
                raise
            return failed(self._worker, run, error)
        return completed(self._worker, run, result)

    async def _call(self, handler: Handler[Any, Any], run: Run) -> Any:
        if handler.mode == "process":
            return await self._child.call(handler, run, partial(self._beat, run), self._result_bytes_max)
        payload = run.payload
        if payload is not None:
            # Whatever the handler does to it, the next execution finds it as it was submitted.
            payload = handler.typed_payload(own_copy(payload))
        elif handler.payload_type is not None:
            payload = handler.typed_payload(None)
        arguments: tuple[Any, ...] = (payload,)
        if handler.takes_context:
            self._context = Context(run, self._resources, partial(self._beat_from_anywhere, run))
            arguments = (payload, self._context)
        if handler.mode == "async":
            return await handler.function(*arguments)
        if not self._threads:
            return handler.function(*arguments)
        return await self._call_in_thread(handler, run, arguments)

    async def _call_in_thread(self, handler: Handler[Any, Any], run: Run, arguments: tuple[Any, ...]) -> Any:
        def call() -> Any:
            try:
                return handler.function(*arguments)
            finally:
                self._in_thread = False

        self._in_thread = True
        name = f"evenhand {run.kind}"
        return await trio.to_thread.run_sync(call, abandon_on_cancel=True, limiter=self._limiter, thread_name=name)

    # Beats

    def _beat_from_anywhere(self, run: Run, progress: Any) -> None:
        """A handler's context goes where the handler takes it, threads of its own included."""
        if threading.get_ident() == self._thread:
            self._beat(run, progress)
        else:
            # A thread that was abandoned may outlive the program, and then nobody listens.
            with suppress(trio.RunFinishedError):
                trio.from_thread.run_sync(self._beat, run, progress, trio_token=self._program)

    def _beat(self, run: Run, progress: Any) -> None:
        self._tell(self._worker, shard_address(run.user), Beat(run.task_id, run.token, progress))


def _ends_one_run(error: BaseException) -> bool:
    """Whether what a handler raised is its own affair. A Cancelled is, if nothing is cancelled: one that was kept."""
    trios = (trio.Cancelled,) if trio.current_effective_deadline() == -math.inf else ()
    return not any(isinstance(one, (KeyboardInterrupt, GeneratorExit, *trios)) for one in within(error))
