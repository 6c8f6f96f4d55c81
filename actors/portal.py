"""The way into a runtime from other threads: the same calls, which block instead of being awaited."""

from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar, Unpack, overload

import trio

from actors.errors import InvalidTask, RuntimeStopped
from actors.handle import TaskHandle
from actors.handlers import Handler
from actors.submission import NewTask, TaskOptions
from actors.task import Task

if TYPE_CHECKING:
    from actors.runtime import Runtime

__all__ = ["ThreadPortal"]

P = TypeVar("P")
R = TypeVar("R")
T = TypeVar("T")


class ThreadPortal:
    """`runtime.from_thread`: what other threads can ask of a runtime, as calls that block until they are answered."""

    def __init__(self, runtime: "Runtime", token: trio.lowlevel.TrioToken) -> None:
        self._runtime = runtime
        self._token = token

    @overload
    def submit(self, kind: Handler[None, R], **options: Unpack[TaskOptions]) -> TaskHandle[R]: ...
    @overload
    def submit(self, kind: Handler[P, R], payload: P, **options: Unpack[TaskOptions]) -> TaskHandle[R]: ...
    @overload
    def submit(self, kind: str, payload: Any = None, **options: Unpack[TaskOptions]) -> TaskHandle[Any]: ...
    def submit(self, kind: Any, payload: Any = None, **options: Unpack[TaskOptions]) -> TaskHandle[Any]:
        """As `Runtime.submit`."""
        return self._run(partial(self._runtime.submit, kind, payload, **options))

    def submit_many(self, tasks: Iterable[NewTask]) -> list[TaskHandle[Any]]:
        """As `Runtime.submit_many`."""
        return self._run(partial(self._runtime.submit_many, tasks))

    def result(self, handle: TaskHandle[R]) -> R:
        """As `TaskHandle.result`."""
        if not isinstance(handle, TaskHandle):
            raise InvalidTask(f"handle must be a TaskHandle, got {handle!r}")
        return self._run(handle.result)

    def wait(self, task_id: str) -> Task:
        """As `Runtime.wait`."""
        return self._run(partial(self._runtime.wait, task_id))

    def cancel(self, task_id: str) -> None:
        """As `Runtime.cancel`."""
        self._run(partial(self._runtime.cancel, task_id))

    def _run(self, call: Callable[[], Awaitable[T]]) -> T:
        try:
            return trio.from_thread.run(call, trio_token=self._token)
        except (trio.RunFinishedError, trio.Cancelled):
            # Cancelled is what it is to a call that was under way when the run finished.
            raise RuntimeStopped("the runtime has stopped, or stops, and takes no more orders") from None
