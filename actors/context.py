"""What a handler may know and say about the run it is in."""

from collections.abc import Callable, Mapping
from contextvars import ContextVar
from typing import Any

from actors.messages import Run
from actors.values import as_json

__all__ = ["CURRENT_WORKER", "Context"]

CURRENT_WORKER: "ContextVar[object | None]" = ContextVar("evenhand_worker", default=None)
"""The executor in whose handler this code runs, tasks that the handler started included."""


class Context:
    """The second argument of a handler that has one.

    >>> context = Context(Run("t1", "alice", "crawl", 1, 2, None, 60.0, 7), {"limit": 10}, lambda progress: None)
    >>> context.id, context.user, context.attempt, context.resources["limit"], context.stopping
    ('t1', 'alice', 2, 10, False)
    """

    __slots__ = ("_beat", "_run", "_stopping", "resources")

    def __init__(self, run: Run, resources: Mapping[str, Any], beat: Callable[[Any], None]) -> None:
        self._run = run
        self._beat = beat
        self._stopping = False
        self.resources = resources
        """What `open_runtime(resources=...)` was given."""

    def __repr__(self) -> str:
        return f"<Context of {self.kind} {self.id}, attempt {self.attempt}>"

    @property
    def id(self) -> str:
        """The task's id."""
        return self._run.task_id

    @property
    def user(self) -> str:
        """Whose work it is."""
        return self._run.user

    @property
    def kind(self) -> str:
        """Which kind of task it is."""
        return self._run.kind

    @property
    def attempt(self) -> int:
        """Which execution of the task this is, from 1."""
        return self._run.attempt

    @property
    def token(self) -> int:
        """The fencing token of this execution: higher than that of any before it, for whoever else must tell them apart."""
        return self._run.token

    @property
    def timeout_seconds(self) -> float | None:
        """How long the execution may take."""
        return self._run.timeout_seconds

    @property
    def stopping(self) -> bool:
        """Whether the execution was told to stop: for threads, which cannot be cancelled."""
        return self._stopping

    def heartbeat(self) -> None:
        """Say that you are at it. The worker does so by itself; this is for those who want it said now."""
        self._beat(None)

    def progress(self, progress: Any) -> None:
        """Say how far you are: any JSON value. It is in the task's record and among the events."""
        self._beat(as_json("progress", progress))

    def stop(self) -> None:
        """The execution was told to stop. For its worker alone."""
        self._stopping = True
