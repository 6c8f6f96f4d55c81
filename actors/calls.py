"""Calls: functions that are run as tasks, for `run_soon`. They live in memory, beside the table, until their task has ended."""

import inspect
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from itertools import islice
from typing import Any

from actors.context import Context
from actors.errors import InvalidTask
from actors.handlers import Handler
from actors.messages import Submit
from actors.reports import GiveUp
from actors.table import Table
from actors.task import Status

__all__ = ["RUN_SOON", "Calls"]

RUN_SOON = "run_soon"
"""The kind of such tasks."""

Call = tuple[Callable[..., Awaitable[Any]], tuple[Any, ...]]

_LOOKS = 2
"""With each call that is added, so many others are looked at: twice as fast as they come, so they cannot pile up."""


class Calls:
    """The functions to be called, by the ids of their tasks."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self._calls: OrderedDict[str, Call] = OrderedDict()
        """The one that was not looked at for longest at the front."""
        self._waiting: set[str] = set()
        """Those whose task is not in the table yet."""

    def __len__(self) -> int:
        return len(self._calls)

    async def submit(
        self,
        submit: Submit,
        function: Callable[..., Awaitable[Any]],
        arguments: tuple[Any, ...],
        send: Callable[[Submit], Awaitable[str]],
    ) -> str:
        """Have a task that calls this submitted, and wait until it is in; its id."""
        if not callable(function) or inspect.isbuiltin(function) or isinstance(function, type):
            if inspect.iscoroutine(function):
                # Else Python would complain of it, too.
                function.close()
            raise InvalidTask(f"function must be an async function, got {function!r}")
        self._tidy()
        self._calls[submit.id] = (function, arguments)
        self._waiting.add(submit.id)
        task_id = None
        try:
            task_id = await send(submit)
        finally:
            self._waiting.remove(submit.id)
            if task_id != submit.id:
                # It was refused, or means another task.
                del self._calls[submit.id]
        return task_id

    def handler(self) -> Handler[None, Any]:
        """What runs such tasks."""
        return Handler(RUN_SOON, self._run, "async", takes_context=True, any_result=True)

    async def _run(self, payload: None, context: Context) -> Any:
        call = self._calls.get(context.id)
        if call is None:
            raise GiveUp("the function lived in the memory of a runtime that has ended")
        function, arguments = call
        coroutine = function(*arguments)
        if not inspect.isawaitable(coroutine):
            raise InvalidTask(f"function must be an async function, got {function!r}")
        return await coroutine

    def _tidy(self) -> None:
        """Let go of some functions that nobody will call."""
        for task_id in list(islice(self._calls, _LOOKS)):
            if self._is_needed(task_id):
                self._calls.move_to_end(task_id)
            else:
                del self._calls[task_id]

    def _is_needed(self, task_id: str) -> bool:
        """One that failed may be put back; one that was completed or cancelled never runs again."""
        task = self._table.get(task_id)
        if task is None:
            return task_id in self._waiting
        return task.status not in (Status.COMPLETED, Status.CANCELLED)
