"""The front: where people outside meet the actors. It hears the answers, and wakes whoever waits for them.

Actors never wait for each other; people do. A submit is answered to the front by its id, an end by its task's. Any other
question has an address of its own for its answer, which is gone once it was given (`Asked`).
"""

import sys
import warnings
from collections import deque
from collections.abc import Callable, Collection
from typing import Any

import trio

from actors.actor import Draw, Effects
from actors.context import CURRENT_WORKER
from actors.errors import EvenhandError, PoolIsFull
from actors.execution import HandlerExecutor
from actors.messages import Accepted, Address, Answered, Await, Ended, Failed, Refused, Submit
from actors.task import Task

__all__ = ["FRONT", "Asked", "Front", "id_or_error", "warn_if_full"]

FRONT: Address = "front"

LEFT_OPEN_MAX = 10_000
"""Answers kept that nobody may ever ask for."""

_NOTHING = Effects()


class Asked:
    """An actor that waits for one answer, on behalf of somebody who is not an actor."""

    __slots__ = ("__weakref__", "_answered", "answer")

    passive = False

    def __init__(self) -> None:
        self.answer: Any = None
        self._answered: trio.Event | None = None

    def start(self, now: float) -> Effects:
        return _NOTHING

    def handle(self, message: Any, now: float, draw: Draw) -> Effects:
        self.hear(message)
        return _NOTHING

    def hear(self, answer: Any) -> None:
        """The first answer counts."""
        if self.answer is None:
            self.answer = answer
            if self._answered is not None:
                self._answered.set()

    async def wait(self) -> Any:
        """Wait for the answer; raises what it says went wrong."""
        await self.answered()
        return self.result()

    async def answered(self) -> None:
        """Wait until there is an answer."""
        if self.answer is None:
            if self._answered is None:
                self._answered = trio.Event()
            await self._answered.wait()
        else:
            await trio.lowlevel.checkpoint()

    def result(self) -> Any:
        """The answer that is there; raises what it says went wrong."""
        if type(self.answer) is Accepted:
            return self.answer
        match self.answer:
            case Failed(receiver=receiver, error=said):
                raise EvenhandError(f"{receiver} could not do it: {said}")
            case Answered(error=error) | Refused(error=error) if error is not None:
                raise error
        return self.answer


class Front:
    """Who waits for what became of a submit, or for the end of a task."""

    passive = False

    def __init__(self) -> None:
        self.submits: dict[str, Asked] = {}
        """Submits that somebody waits for, by their ids."""
        self.left_open: dict[str, Asked] = {}
        """Submits that nobody waited for, and that were refused since, mean another task, or are not answered yet."""
        self._answered: deque[str] = deque()
        """Those of them that were answered, the first at the front."""
        self._awaiting: dict[str, list[Asked]] = {}
        self.concluded = False
        """Whether no task will end any more."""

    def start(self, now: float) -> Effects:
        return _NOTHING

    def handle(self, message: Any, now: float, draw: Draw) -> Effects:
        if type(message) is Accepted and (asked := self.submits.get(message.submitted_id)) is not None:
            asked.hear(message)
            return _NOTHING
        match message:
            case (
                Accepted(submitted_id=submitted_id)
                | Refused(submitted_id=submitted_id)
                | Failed(message=Submit(id=submitted_id))
            ):
                if (asked := self.submits.get(submitted_id)) is not None:
                    asked.hear(message)
                elif (asked := self.left_open.get(submitted_id)) is not None:
                    self._hear_later(submitted_id, asked, message)
            case Ended(task=Task(id=task_id)) | Answered(task_id=task_id) | Failed(message=Await(task_id=task_id)):
                for asked in self._awaiting.pop(task_id, ()):
                    asked.hear(message)
            case _:
                # Whoever wanted to know has gone.
                pass
        return _NOTHING

    def leave_open(self, submitted_id: str, asked: Asked) -> None:
        """Nobody waits for the answer to this submit, but somebody may ask for it later."""
        self.left_open[submitted_id] = asked

    def _hear_later(self, submitted_id: str, asked: Asked, message: Any) -> None:
        if asked.answer is not None:
            return
        asked.hear(message)
        if isinstance(message, Accepted) and message.task_id == submitted_id:
            del self.left_open[submitted_id]
            return
        self._answered.append(submitted_id)
        if len(self._answered) > LEFT_OPEN_MAX:
            del self.left_open[self._answered.popleft()]

    def meant(self, submitted_id: str) -> str:
        """The id of the task that a submit means, as far as that is known; raises what refused it."""
        asked = self.left_open.get(submitted_id)
        if asked is None or asked.answer is None:
            return submitted_id
        task_id: str = asked.result().task_id
        return task_id

    async def ended(self, task_id: str, ask: Callable[[], None]) -> Task:
        """Wait for the end of a task; `ask` has its shard asked to tell, unless somebody waits for it already."""
        asked = Asked()
        is_first = task_id not in self._awaiting
        self._awaiting.setdefault(task_id, []).append(asked)
        try:
            if is_first:
                # Not before: the task may end on being asked about, because its time is over.
                ask()
            ended: Ended = await asked.wait()
        finally:
            if asked in (waiting := self._awaiting.get(task_id, [])):
                waiting.remove(asked)
                if not waiting:
                    del self._awaiting[task_id]
        return ended.task

    def conclude(self, error: EvenhandError) -> None:
        """No task will end any more: tell whoever waits for one."""
        self.concluded = True
        for task_id in list(self._awaiting):
            for asked in self._awaiting.pop(task_id):
                asked.hear(Answered(task_id, error))

    def close(self, error: EvenhandError) -> None:
        """Tell everybody who waits that there is nothing to wait for; nobody will be told anything any more."""
        self.conclude(error)
        for asked in (*self.submits.values(), *self.left_open.values()):
            asked.hear(Refused("", error))


def id_or_error(asked: Asked) -> str | Exception:
    """The id of a task that was submitted, or why it was refused."""
    try:
        task_id: str = asked.result().task_id
    except Exception as error:
        return error
    return task_id


def warn_if_full(executors: Collection[HandlerExecutor]) -> None:
    """Warn a handler that is about to wait for a task of these workers, its own being one of them, while all are busy."""
    executor = CURRENT_WORKER.get()
    if isinstance(executor, HandlerExecutor) and executor in executors and all(one.occupied for one in executors):
        said = f"a handler waits for a task of its own runtime while all {len(executors)} workers are busy"
        warnings.warn(said, PoolIsFull, stacklevel=_levels_to_the_program())


def _levels_to_the_program() -> int:
    """How far above its caller the code is that is not Evenhand's: a warning is about that."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("actors."):
        level, frame = level + 1, frame.f_back
    return level
