"""Retention: how long ended tasks are kept, and which of them go now.

Each status has its own time. Tasks of one status are in the order of their ending, so the next one due is the first of a
status, and a sweep takes from the fronts. It takes at most `SWEEP_MAX` at a time: whoever sweeps a million does it in steps,
and messages are handled in between. An operator may ask for a sweep now, of what is due or of all that has ended.
"""

from actors.actor import NEVER
from actors.config import Settings
from actors.messages import Address
from actors.table import Notes, Table
from actors.task import Status, Task

__all__ = ["SWEEP_MAX", "Retention"]

SWEEP_MAX = 100
"""Tasks removed in one step."""


class Retention:
    """What is due to be removed, and who asked for it."""

    def __init__(self, settings: Settings, table: Table, notes: Notes) -> None:
        self._table = table
        self._notes = notes
        self._keep_seconds = {
            Status.COMPLETED: settings.keep_completed_seconds,
            Status.FAILED: settings.keep_failed_seconds,
            Status.CANCELLED: settings.keep_cancelled_seconds,
        }
        self._all_until: float | None
        """What had ended by then goes, however long it would have been kept."""
        self._asked: list[tuple[Address | None, int]]
        """Whoever asked for a sweep that is not over yet, and how many it has removed so far."""
        self._all_until, self._asked = notes.get("sweep", (None, []))

    def due_at(self) -> float:
        """When the next task is due, or NEVER."""
        due_at = NEVER
        for status, keep_seconds in self._keep_seconds.items():
            if keep_seconds is None and self._all_until is None:
                continue
            if (task := self._table.first_ended(status)) is not None:
                due_at = min(due_at, self._due_at(task))
        return due_at

    def sweep(self, now: float) -> tuple[list[Task], float]:
        """The tasks that go in this step, and when the next one is due after them."""
        going: list[Task] = []
        due_at = NEVER
        for status in self._keep_seconds:
            for task in self._table.ended(status):
                at = self._due_at(task)
                if at > now or len(going) == SWEEP_MAX:
                    due_at = min(due_at, at)
                    break
                going.append(task)
        return going, due_at

    def ask(self, reply_to: Address | None, everything: bool, now: float) -> None:
        """Somebody wants a sweep now."""
        self._note(now if everything else self._all_until, [*self._asked, (reply_to, 0)])

    def swept(self, removed: int) -> None:
        """A step has removed so many."""
        if self._asked and removed:
            self._note(self._all_until, [(reply_to, count + removed) for reply_to, count in self._asked])

    def finish(self) -> list[tuple[Address, int]]:
        """Nothing more is due: whoever asked, and how many it came to."""
        asked = [(reply_to, count) for reply_to, count in self._asked if reply_to is not None]
        if self._asked:
            self._note(None, [])
        return asked

    def _due_at(self, task: Task) -> float:
        assert task.completed_at is not None, "an ended task has ended at some time"
        if self._all_until is not None and task.completed_at <= self._all_until:
            return task.completed_at
        keep_seconds = self._keep_seconds[task.status]
        return NEVER if keep_seconds is None else task.completed_at + keep_seconds

    def _note(self, all_until: float | None, asked: list[tuple[Address | None, int]]) -> None:
        self._all_until, self._asked = all_until, asked
        if asked:
            self._notes["sweep"] = (all_until, asked)
        else:
            del self._notes["sweep"]
