"""The chained style: a kind of task set up and fed in one breath.

    runtime.tq("crawl").set_worker(crawl).set_worker_count(3).set_rate_limit(10).add({...}).add({...})

The handler is registered with the first task that is added; before that every `set_...` counts, and after it, or where the
kind has a handler already, the worker count and the rate limit can still be changed.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Unpack

import attrs

from actors.errors import InvalidConfig
from actors.handle import TaskHandle
from actors.limits import Limit
from actors.messages import SCHEDULER, SetLimit
from actors.submission import TaskOptions, kind_fault

if TYPE_CHECKING:
    from actors.runtime import Runtime

__all__ = ["TaskQueue"]


class TaskQueue:
    """One kind of task; every method but `results` gives the queue back."""

    def __init__(self, runtime: "Runtime", kind: str) -> None:
        if fault := kind_fault(kind):
            raise InvalidConfig(fault)
        self._runtime = runtime
        self._kind = kind
        self._worker: Callable[..., Any] | None = None
        self._limit = Limit()
        self._settings: dict[str, Any] = {}
        self.handles: list[TaskHandle[Any]] = []
        """A handle for each task that was added."""

    def set_worker(self, worker: Callable[..., Any], *, process: bool = False) -> "TaskQueue":
        """The handler of the kind."""
        if not callable(worker):
            raise InvalidConfig(f"worker of {self._kind!r} must be a function, got {worker!r}")
        handler = self._runtime.handlers.get(self._kind)
        if handler is None or worker not in (handler, handler.function):
            self._check_open("worker")
        self._worker = worker
        self._settings["process"] = process
        if self.handles:
            self._register()
        return self

    def set_worker_count(self, count: int | None) -> "TaskQueue":
        """How many of its tasks run at once: `concurrency_max`."""
        if count is not None and (not isinstance(count, int) or isinstance(count, bool) or count < 1):
            raise InvalidConfig(f"worker_count of {self._kind!r} must be a whole number >= 1, got {count!r}")
        return self._set_limit(concurrency_max=count)

    def set_rate_limit(self, per_second: float | None) -> "TaskQueue":
        """How many of its tasks start a second."""
        return self._set_limit(rate_limit=per_second)

    def set_timeout(self, seconds: float | None) -> "TaskQueue":
        """When an execution is told to stop."""
        self._check_open("timeout")
        self._settings["timeout_seconds"] = seconds
        return self

    def set_max_attempts(self, attempts: int) -> "TaskQueue":
        """How often a task is tried at most: one more than `max_retries`."""
        if not isinstance(attempts, int) or isinstance(attempts, bool) or attempts < 1:
            raise InvalidConfig(f"max_attempts must be a whole number >= 1, got {attempts!r}")
        self._check_open("max_attempts")
        self._settings["max_retries"] = attempts - 1
        return self

    def add(self, payload: Any = None, **options: Unpack[TaskOptions]) -> "TaskQueue":
        """Submit a task, without waiting for the answer unless it is there at once: `handles` has its handle."""
        self._register()
        self.handles.append(self._runtime.submit_nowait(self._kind, payload, **options))
        return self

    async def results(self) -> list[Any]:
        """Wait for the result of every task that was added, in their order."""
        return [await handle.result() for handle in self.handles]

    def _register(self) -> None:
        if self._worker is not None and self._kind not in self._runtime.handlers:
            self._runtime.handler(self._kind, **attrs.asdict(self._limit), **self._settings)(self._worker)

    def _set_limit(self, **limit: Any) -> "TaskQueue":
        if self._kind not in self._runtime.handlers:
            self._limit = attrs.evolve(self._limit, **limit)
            return self
        now = attrs.evolve(self._runtime.limit(kind=self._kind), **limit)
        self._runtime.tell(SCHEDULER, SetLimit(kind=self._kind, **attrs.asdict(now)))
        return self

    def _check_open(self, what: str) -> None:
        if self._kind in self._runtime.handlers:
            raise InvalidConfig(f"{what} of {self._kind!r} must be set before its first task is added")
