"""A handle: what a submitter holds of its task."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from actors.errors import SomeRefused, TaskCancelled, TaskFailed
from actors.task import Cause, Status, Task

if TYPE_CHECKING:
    from actors.runtime import Runtime

__all__ = ["TaskHandle", "handles_of"]

R = TypeVar("R")


class TaskHandle(Generic[R]):
    """A submitted task: its id, and the way to its result."""

    __slots__ = ("_runtime", "id")

    def __init__(self, runtime: "Runtime", task_id: str) -> None:
        self._runtime = runtime
        self.id = task_id
        """The task's id: a time-ordered UUID (version 7)."""

    def __repr__(self) -> str:
        return f"<TaskHandle {self.id}>"

    def task(self) -> Task:
        """The task's record as it is now; UnknownTask before it is in, and once it was removed."""
        return self._runtime.get(self.id)

    async def wait(self) -> Task:
        """Wait until the task has ended, however it did, and give its record. Safe to cancel, and to call again."""
        return await self._runtime.wait(self.id)

    async def result(self) -> R:
        """Wait for what the handler returned; TaskFailed if the task failed, TaskCancelled if it was cancelled.

        Cancelling this only stops the waiting: the task goes on, and can be waited for again.
        """
        task = await self.wait()
        if task.status is Status.CANCELLED:
            raise TaskCancelled(f"{task.identity} was cancelled", task)
        if task.status is not Status.COMPLETED:
            raise _failure(task)
        handler = self._runtime.handlers.get(task.kind)
        result: R = task.result if handler is None else handler.typed_result(task.result)
        return result

    async def cancel(self) -> None:
        """Cancel the task: at once if it waits, by asking its worker if it runs. InvalidTransition if it has ended."""
        await self._runtime.cancel(self.id)


def handles_of(runtime: "Runtime", answers: Iterable[str | Exception]) -> list[TaskHandle[Any]]:
    """A handle for each id; SomeRefused, which has them, if there is a reason instead of any."""
    handles: list[TaskHandle[Any] | None] = []
    errors: dict[int, Exception] = {}
    for place, answer in enumerate(answers):
        if isinstance(answer, Exception):
            handles.append(None)
            errors[place] = answer
        else:
            handles.append(TaskHandle(runtime, answer))
    if errors:
        raise SomeRefused(handles, errors)
    return cast("list[TaskHandle[Any]]", handles)


def _failure(task: Task) -> TaskFailed:
    """What is raised in the place of a result, with where the handler raised as a note."""
    cause = "" if task.cause is Cause.FAILED else f" ({task.cause})"
    failure = TaskFailed(f"{task.identity} failed{cause} after {_executions(task)}: {task.error}", task)
    if task.history and (traceback := task.history[-1].traceback) is not None:
        failure.add_note(f"what the handler raised:\n{traceback}")
    return failure


def _executions(task: Task) -> str:
    count = len(task.history)
    return "1 execution" if count == 1 else f"{count} executions"
