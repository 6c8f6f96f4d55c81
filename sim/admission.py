"""I7 and I15: a key stands for one task, and what was let in keeps to the bounds of the door.

The bounds are on tasks that were admitted and have not ended. An operator who puts a failed task back is not asked at the
door, so those tasks do not count here.
"""

from collections.abc import Iterable

from actors.config import Settings
from actors.task import Task
from sim.entries import Entry
from sim.violations import Broken

__all__ = ["KEYS", "MEMORY", "Admission"]

KEYS = "I7 keys"
MEMORY = "I15 memory"


class Admission:
    """Counts who is inside."""

    def __init__(self, settings: Settings, broken: Broken) -> None:
        self._inside_max = settings.admitted_max
        self._each_max = settings.admitted_per_user_max
        self._broken = broken
        self._inside = 0
        self._each: dict[str, int] = {}
        self.bounded = settings.bounded
        """Whether there is anything to count."""

    def entered(self, entry: Entry, at: float) -> None:
        """A task was admitted."""
        self._inside += 1
        of_user = self._each[entry.user] = self._each.get(entry.user, 0) + 1
        if self._inside_max is not None and self._inside > self._inside_max:
            self._broken(MEMORY, at, f"{self._inside} tasks are inside, of {self._inside_max} that may be")
        if self._each_max is not None and of_user > self._each_max:
            self._broken(MEMORY, at, f"{of_user} tasks of {entry.user} are inside, of {self._each_max} that may be")

    def ended(self, entry: Entry) -> None:
        """A task ended."""
        if not entry.readmitted:
            self._inside -= 1
            self._each[entry.user] -= 1

    def check_keys(self, tasks: Iterable[Task], now: float) -> None:
        """No two tasks that are still known have one key."""
        known: dict[tuple[str, str], Task] = {}
        for task in tasks:
            if task.idempotency_key is not None:
                first = known.setdefault((task.user, task.idempotency_key), task)
                if first is not task:
                    said = f"{first.identity} and {task.identity} have the same key, {task.idempotency_key!r}"
                    self._broken(KEYS, now, said)
