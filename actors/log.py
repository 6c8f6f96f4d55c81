"""What a runtime says to Python's `logging`, as "evenhand": each record has a stable `action` and the facts as fields.

Nothing is printed unless the program sets up logging. Cores do not log: this reads their events, as anybody can.
"""

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

from actors.messages import Finished
from actors.task import Task
from actors.trace import DeadLettered, Event, Retried

__all__ = ["FAILURES", "FailureLog", "log_left"]

FAILURES = (Retried, DeadLettered)
"""What is logged."""

_LOGGER = logging.getLogger("evenhand")
_LOGGER.addHandler(logging.NullHandler())


class FailureLog:
    """Logs each execution that failed, once, with its traceback where there is one."""

    def __init__(self) -> None:
        self._report: Finished | None = None

    @contextmanager
    def expecting(self, report: Finished) -> Iterator[None]:
        """While this report is handled, it is what there is to know of the failure."""
        self._report = report
        try:
            yield
        finally:
            self._report = None

    def log(self, event: Event) -> None:
        """One of FAILURES happened."""
        # Somebody's own log handler that raises is no reason for a runtime to end.
        with suppress(Exception):
            self._log(event)

    def _log(self, event: Event) -> None:
        assert isinstance(event, FAILURES), "nothing else is a failure"
        report = self._report
        if report is not None and (report.worker_id, report.token) != (event.worker, event.token):
            report = None
        said = f"{event.task} failed: {event.error}"
        if isinstance(event, Retried):
            said += f"; it is tried again in {event.run_after - event.at:.3g} s"
        traceback = None if report is None else report.traceback
        fields = {
            "action": "task_retried" if isinstance(event, Retried) else "task_failed",
            "task": event.task,
            "task_id": None if report is None else report.task_id,
            "worker": event.worker,
            "outcome": event.outcome,
            "error": event.error,
        }
        _LOGGER.warning("%s", said if traceback is None else f"{said}\n{traceback}", extra=fields)


def log_left(left: Sequence[Task]) -> None:
    """These were left when the block ended, and nobody had asked for that."""
    if not left:
        return
    said = "the block of a runtime has ended before %d of its tasks, which are in `runtime.left`"
    _LOGGER.warning(said, len(left), extra={"action": "tasks_left", "count": len(left)})
