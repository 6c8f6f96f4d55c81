"""Restoring: a table as a store has it, and what became of the tasks that ran when the process ended.

A store has the state of all actors at one quiet moment, so that it need only be read. What follows from the tasks is made
anew: how many each user has inside, and which idempotency keys are taken.

A task that ran when the process ended was interrupted, and may be what ended it. Its execution counts as one that took its
worker down, at the last time that the store has seen: so the attempt is counted, a task that kills its process time and again
ends as poisoned, and nobody is charged for the time in which nothing ran.
"""

from collections.abc import Callable, Iterator
from typing import Any

from actors.host import HOST, Host
from actors.messages import QUEUE, Finished, shard_address
from actors.queue import key_note
from actors.stores.contract import Store
from actors.table import Noted, Table
from actors.task import Status, Task

__all__ = ["interruptions", "restore", "resume"]

INTERRUPTED = "the process ended while it ran"


def restore(store: Store, table: Table) -> float:
    """Fill an empty table with what a store has; the last time that the store has seen.

    >>> from actors.stores.memory import MemoryStore
    >>> restore(MemoryStore(), Table())
    0.0
    """
    for owner, key, value in store.notes():
        table.apply(Noted(owner, {key: value}))
    derived: dict[str, Any] = {}
    apply = table.apply
    for task in store.tasks():
        apply(task)
        if task.idempotency_key is not None:
            derived[key_note(task)] = [task.id, task.kind]
    derived |= {f"held/{user}": table.pending(user) + table.running(user) for user in table.live_users()}
    table.apply(Noted(QUEUE, derived))
    return store.last_at()


def resume(host: Host, stored_at: float, spawn: Callable[[], None]) -> None:
    """Begin where the store ends: `spawn` starts the cores, before any worker, and what ran is settled as if that were then.

    `host` has the restored table, and the time that it is now, which is its time again when this is done.
    """
    now, host.now = host.now, stored_at or host.now
    spawn()
    for task, report in interruptions(host.table):
        host.post(HOST, shard_address(task.user), report)
    host.drain()
    host.now = now


def interruptions(table: Table) -> Iterator[tuple[Task, Finished]]:
    """Every task that a restored table says is running, and the report that its worker can no longer make."""
    for task in list(table.every_live()):
        if task.status is Status.IN_PROGRESS:
            assert task.worker_id is not None, "a running task has an owner"
            yield (
                task,
                Finished(
                    task_id=task.id,
                    token=task.token,
                    worker_id=task.worker_id,
                    outcome="crashed",
                    error=INTERRUPTED,
                ),
            )
