"""I2 and I23, for runs with a store: what somebody was told stays so, and what comes back is what was stored.

I2 no lost acknowledgement: whatever becomes of the process, a task whose submitter was told that it is safe is there, and one
of which somebody was told how it ended has ended so. Both is looked at each time that a process begins again, and in the end.

I23 rehydration: what a process begins with is the trace, folded up to the last commit that holds, task by task; its virtual
time is at least what it was then; and a shard that was built anew from it has exactly what waits in its lanes.
"""

from collections.abc import Iterable, Mapping

from actors.host import Host
from actors.messages import shard_address
from actors.shard import Shard
from actors.table import Table
from actors.task import Status, Task
from actors.trace import Acknowledged, Told
from sim.entries import Entry
from sim.violations import Broken

__all__ = ["LOST", "REHYDRATION", "Promises", "check_fold", "check_shards"]

LOST = "I2 no lost acknowledgement"
REHYDRATION = "I23 rehydration"

_STATES = {
    Status.PENDING: "waiting",
    Status.IN_PROGRESS: "running",
    Status.COMPLETED: "ended",
    Status.FAILED: "failed",
    Status.CANCELLED: "cancelled",
}


class Promises:
    """What those outside were told."""

    def __init__(self, broken: Broken) -> None:
        self._broken = broken
        self._safe: dict[str, None] = {}
        self._ended: dict[str, str] = {}
        """How tasks are said to have ended."""

    def take_over(self, others: "Promises") -> None:
        """What was told stays told."""
        self._safe, self._ended = others._safe, others._ended

    def acknowledged(self, event: Acknowledged) -> None:
        """A submitter was told that its task is safe."""
        self._safe[event.task] = None

    def told(self, event: Told) -> None:
        """Somebody was told how a task ended."""
        self._ended[event.task] = event.status

    def check(self, tasks: Iterable[Task], now: float) -> None:
        """Hold what there is to what was told; what is broken is broken once."""
        statuses = {task.identity: str(task.status) for task in tasks}
        for task in [task for task in self._safe if task not in statuses]:
            self._broken(LOST, now, f"{task} was acknowledged, and is not there")
            del self._safe[task]
            self._ended.pop(task, None)
        for task in [task for task, status in self._ended.items() if statuses[task] != status]:
            self._broken(LOST, now, f"{task} was said to be {self._ended[task]}, and is {statuses[task]}")
            del self._ended[task]


def check_fold(tasks: Iterable[Task], entries: Mapping[str, Entry], at: float, broken: Broken) -> None:
    """Hold what a store gave back to the trace up to the last commit that holds."""
    restored = {task.identity: task for task in tasks}
    for name in [*(entries.keys() - restored.keys()), *(restored.keys() - entries.keys())]:
        broken(REHYDRATION, at, f"{name} is in the {'trace' if name in entries else 'store'} alone")
    for name, task in restored.items():
        if name in entries and (said := _difference(task, entries[name])):
            broken(REHYDRATION, at, f"{name} {said}")


def _difference(task: Task, entry: Entry) -> str | None:
    stored = (_STATES[task.status], task.token, task.attempts)
    folded = (entry.state, entry.token, entry.executions)
    if stored != folded:
        return f"is {stored} (state, token, attempts) in the store and {folded} by the trace"
    if entry.run_after is not None and task.run_after != entry.run_after:
        return f"may start at {task.run_after} by the store and at {entry.run_after} by the trace"
    return None


def check_shards(host: Host, table: Table, follows_oldest: bool, at: float, broken: Broken) -> None:
    """Hold the lanes of every shard to what waits by the table."""
    for user in table.live_users():
        shard = host.core(shard_address(user))
        waiting = [task for task in table.live(user) if task.status is Status.PENDING]
        if not waiting:
            continue
        # In the lane of its kind or among the delayed; by its deadline, if it has one; by its age, if that is asked for.
        expected = sum(1 + (task.expires_at is not None) + follows_oldest for task in waiting)
        indexed = shard.index_size[0] if isinstance(shard, Shard) else 0
        if indexed != expected:
            broken(REHYDRATION, at, f"the shard of {user} has {indexed} live entries, of {expected}")
