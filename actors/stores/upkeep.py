"""What people do to a file of SQLite's without a runtime: look whether it is whole, put back, purge, copy.

What changes the file needs to own it: while a runtime does, it is the runtime that is to be asked.
"""

import math
from collections.abc import Iterable, Iterator
from typing import Any

import attrs
import msgspec

from actors import moves
from actors.errors import InvalidTransition, StoreFailed, UnknownTask
from actors.stores.contract import Batch, Listing, Store
from actors.stores.encoding import encode_task, task_decoder
from actors.stores.sqlite import SqliteReader
from actors.task import Status, Task

__all__ = ["export_lines", "faults", "import_lines", "purge", "requeue"]

_AT_ONCE = 1_000
_VERSION = 1


def requeue(store: Store, task_id: str, now: float, *, reset_retries: bool = False) -> Task:
    """Put a failed task back; UnknownTask if there is none, InvalidTransition if it did not fail."""
    task = store.get(task_id)
    if task is None:
        raise UnknownTask(f"no task has id {task_id!r}")
    if task.status is not Status.FAILED:
        raise InvalidTransition(f"a task must be failed to be requeued without its runtime, got {task.status}")
    back = moves.requeue(task, reset_retries, now)
    store.write(Batch(at=now, tasks={task_id: back}))
    return back


def purge(store: Store, listing: Listing, now: float) -> int:
    """Remove the ended tasks of a status, and of a kind or user if asked, for good; how many there were."""
    if listing.status is None or not listing.status.terminal:
        raise InvalidTransition(f"tasks must have ended to be purged, got status {listing.status}")
    some, removed = attrs.evolve(listing, limit=_AT_ONCE, offset=0), 0
    while going := store.listed(some):
        store.write(Batch(at=now, removed={task.id: None for task in going}))
        removed += len(going)
    return removed


def faults(reader: SqliteReader) -> Iterator[str]:
    """Whatever is wrong with a file: what SQLite finds, and records that cannot be read or are not where they belong."""
    yield from reader.integrity_faults()
    decode = task_decoder()
    for *columns, record in reader.rows():
        try:
            task = decode(record)
        except StoreFailed as error:
            yield f"row {columns[0]}: {error}"
            continue
        meant = [task.sequence, task.id, task.user, task.kind, task.status.value, task.completed_at]
        if meant[:-1] != columns[:-1] or not _is_same_time(task.completed_at, columns[-1]):
            yield f"row {columns[0]}: its columns must be {meant}, got {columns}"


def _is_same_time(recorded: float | None, column: float | None) -> bool:
    """Whether they are the same but for the last bit: SQLite reads numbers in a way of its own."""
    if recorded is None or column is None:
        return recorded is column
    return math.isclose(recorded, column, rel_tol=1e-15)


def export_lines(store: SqliteReader) -> Iterator[bytes]:
    """All of a store as JSON Lines: a header, then tasks and notes, one a line."""
    yield msgspec.json.encode({"evenhand_store": _VERSION, "at": store.last_at()})
    for task in store.tasks():
        yield b'{"task":' + encode_task(task) + b"}"
    for owner, key, value in store.notes():
        yield msgspec.json.encode({"owner": owner, "key": key, "value": value})


def import_lines(store: Store, lines: Iterable[bytes]) -> int:
    """Fill an empty store with what `export_lines` gave; how many tasks there were."""
    if any(store.counts().values()):
        raise StoreFailed(f"{store.name} must be empty to be imported into, got {sum(store.counts().values())} tasks")
    decode, batch, at, imported = task_decoder(), Batch(), 0.0, 0
    for number, line in enumerate(lines, start=1):
        said = _parsed(line, number)
        if number == 1:
            if said.get("evenhand_store") != _VERSION:
                raise StoreFailed(f"line 1: evenhand_store must be {_VERSION}, got {said.get('evenhand_store')!r}")
            at = said["at"]
        elif "task" in said:
            task = decode(msgspec.json.encode(said["task"]))
            batch.tasks[task.id] = task
            imported += 1
        else:
            batch.notes[said["owner"], said["key"]] = said["value"]
        if len(batch.tasks) >= _AT_ONCE:
            store.write(attrs.evolve(batch, at=at))
            batch = Batch()
    store.write(attrs.evolve(batch, at=at))
    return imported


def _parsed(line: bytes, number: int) -> dict[str, Any]:
    try:
        return msgspec.json.decode(line, type=dict[str, Any])
    except msgspec.DecodeError as error:
        raise StoreFailed(f"line {number} must be a JSON object: {error}") from None
