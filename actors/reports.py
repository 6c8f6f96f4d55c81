"""What a handler's exception means for its task.

`Retry` and `GiveUp` are a handler's own words. Any other exception is a failure, which the task's retry policy judges by the
names of its class and their bases; one that wanted to end the program, or did end a process, is a crash. A group of
exceptions, which is what a nursery raises, goes by its parts: one alone speaks for the group, and of several every name counts.
"""

import traceback
from collections.abc import Iterator
from types import FrameType, TracebackType
from typing import Any

from actors.errors import EvenhandError, InvalidConfig, InvalidTask
from actors.host import in_words
from actors.messages import Address, Finished, Run
from actors.validators import is_finite

__all__ = ["GiveUp", "ProcessDied", "RaisedElsewhere", "Retry", "completed", "failed", "stopped", "within"]

ERROR_LENGTH_MAX = 10_000
"""Of what an exception says, so much is kept."""

TRACEBACK_LENGTH_MAX = 10_000
"""Of a traceback, so much of its end is kept."""

_AROUND = ("actors", "trio", "outcome")
"""Whose frames come before those of a handler."""


class Retry(EvenhandError):
    """Raised by a handler: try this task again after so many seconds, if it has an execution left.

    >>> Retry(after=30).after
    30
    """

    def __init__(self, after: float, reason: str = "") -> None:
        if not is_finite(after) or after < 0:
            raise InvalidTask(f"after must be a finite number of seconds >= 0, got {after!r}")
        super().__init__(reason or f"retry after {after:g} s")
        self.after = after


class GiveUp(EvenhandError):
    """Raised by a handler: another try is no use.

    >>> str(GiveUp("the page is gone"))
    'the page is gone'
    """


class RaisedElsewhere(EvenhandError):
    """What a handler raised in another process, by what it said and the names of its classes.

    >>> RaisedElsewhere("ValueError: boom", ("ValueError", "Exception")).names
    ('ValueError', 'Exception')
    """

    def __init__(self, said: str, names: tuple[str, ...], crashed: bool = False, traceback: str | None = None) -> None:
        super().__init__(said)
        self.names = names
        self.crashed = crashed
        self.traceback = traceback


class ProcessDied(EvenhandError):
    """The process that ran a task ended before the task did.

    >>> str(ProcessDied("the process ended with status -9"))
    'the process ended with status -9'
    """


def completed(worker: Address, run: Run, result: Any) -> Finished:
    """The handler returned."""
    return Finished(task_id=run.task_id, token=run.token, worker_id=worker, outcome="completed", result=result)


def stopped(worker: Address, run: Run) -> Finished:
    """The handler ended because it was told to."""
    return Finished(task_id=run.task_id, token=run.token, worker_id=worker, outcome="cancelled")


def failed(worker: Address, run: Run, error: BaseException) -> Finished:
    """The handler raised."""
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    errors = list(within(error))
    return Finished(
        task_id=run.task_id,
        token=run.token,
        worker_id=worker,
        outcome="crashed" if any(map(_is_crash, errors)) else "failed",
        error=_together(errors),
        error_types=tuple(dict.fromkeys(name for one in errors for name in _types(one))),
        retry_after_seconds=error.after if isinstance(error, Retry) else None,
        # What is wrong with a payload, a result or a handler is wrong every time.
        give_up=isinstance(error, (GiveUp, InvalidTask, InvalidConfig)),
        traceback=_traceback(error),
    )


def within(error: BaseException) -> Iterator[BaseException]:
    """An exception and, if it is a group, all that are in it, however deep.

    >>> [str(error) for error in within(ExceptionGroup("both", [ValueError("one"), KeyError("two")]))]
    ['both (2 sub-exceptions)', 'one', "'two'"]
    """
    waiting = [error]
    while waiting:
        error = waiting.pop()
        yield error
        if isinstance(error, BaseExceptionGroup):
            waiting += reversed(error.exceptions)


def _is_crash(error: BaseException) -> bool:
    """Whether it ended a process, or wanted to."""
    return isinstance(error, (ProcessDied, SystemExit)) or (isinstance(error, RaisedElsewhere) and error.crashed)


def _together(errors: list[BaseException]) -> str:
    """What the errors say, up to a length; as text that any store can keep, which half a surrogate pair is not."""
    said, length = [], 0
    for error in errors:
        said.append(_said(error)[: ERROR_LENGTH_MAX + 1])
        length += len(said[-1])
        if length > ERROR_LENGTH_MAX:
            break
    text = "; ".join(said).encode(errors="backslashreplace").decode()
    return text if len(text) <= ERROR_LENGTH_MAX else text[:ERROR_LENGTH_MAX] + "..."


def _said(error: BaseException) -> str:
    try:
        return str(error) if isinstance(error, (Retry, GiveUp, RaisedElsewhere)) else in_words(error)
    except Exception:
        # Its own __str__ may raise.
        return type(error).__name__


def _traceback(error: BaseException) -> str | None:
    """Where it was raised, as Python says it, from the handler's own frame on."""
    if isinstance(error, RaisedElsewhere):
        return error.traceback
    if (frames := _own_frames(error.__traceback__)) is None:
        # It is Evenhand that refuses something, and says what.
        return None
    try:
        lines = traceback.format_exception(type(error), error, frames)
    except Exception:
        # Formatting asks the exception this and that, and it may raise.
        return None
    text = "".join(lines).rstrip().encode(errors="backslashreplace").decode()
    return text if len(text) <= TRACEBACK_LENGTH_MAX else "..." + text[-TRACEBACK_LENGTH_MAX:]


def _own_frames(frames: TracebackType | None) -> TracebackType | None:
    """From the first that is the handler's."""
    while frames is not None and _package(frames.tb_frame) in _AROUND:
        frames = frames.tb_next
    return frames


def _package(frame: FrameType) -> str:
    # The module that a process runs is called `__main__`; its spec says what it is.
    spec = frame.f_globals.get("__spec__")
    name: str = frame.f_globals.get("__name__", "") if spec is None else spec.name
    return name.partition(".")[0]


def _types(error: BaseException) -> tuple[str, ...]:
    if isinstance(error, RaisedElsewhere):
        return error.names
    return tuple(cls.__name__ for cls in type(error).__mro__ if cls is not object)
