"""The command `evenhand db FILE ACTION`: look into a store, and mend it.

`stats`, `list`, `show`, `explain`, `check` and `export` only read, whoever owns the file. `requeue`, `purge`, `vacuum` and
`import` need to own it.
"""

import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, Literal

import attrs
import msgspec

from actors.config import Settings
from actors.errors import InvalidConfig, StoreFailed, UnknownTask
from actors.explain import explain
from actors.standing import Standing
from actors.stores.contract import Listing
from actors.stores.sqlite import SqliteReader, SqliteStore
from actors.stores.upkeep import export_lines, faults, import_lines, purge, requeue
from actors.task import Status, Task

__all__ = ["db"]

PASSED, FAILED = 0, 1

Action = Literal["stats", "list", "show", "explain", "check", "export", "requeue", "purge", "vacuum", "import"]
StatusName = Literal["pending", "in_progress", "completed", "failed", "cancelled"]


@attrs.frozen(kw_only=True)
class _Asked:
    file: Path
    argument: str | None
    listing: Listing
    reset_retries: bool

    def task_id(self) -> str:
        if self.argument is None:
            raise InvalidConfig("this action needs the id of a task")
        return self.argument


def db(
    file: Path,
    action: Action,
    argument: str | None = None,
    /,
    *,
    status: StatusName | None = None,
    kind: str | None = None,
    user: str | None = None,
    limit: int = 100,
    offset: int = 0,
    reset_retries: bool = False,
) -> int:
    """Look into a store of SQLite's, or mend it.

    Parameters
    ----------
    file
        The store.
    action
        stats, list, show ID, explain ID, check, export [OUTPUT], requeue ID, purge, vacuum or import INPUT.
    argument
        The id of a task, or the file that is exported to or imported from.
    status
        Only tasks of this status: for list, and for purge, which removes failed ones unless told otherwise.
    kind
        Only tasks of this kind.
    user
        Only tasks of this user.
    limit
        How many tasks are listed.
    offset
        How many tasks are passed over first.
    reset_retries
        Whether a task that is requeued has all its retries again.
    """
    if limit < 0 or offset < 0:
        raise InvalidConfig(f"--limit and --offset must be whole numbers >= 0, got {limit} and {offset}")
    wanted = None if status is None else Status(status)
    listing = Listing(status=wanted, kind=kind, user=user, limit=limit, offset=offset)
    asked = _Asked(file=file, argument=argument, listing=listing, reset_retries=reset_retries)
    if action in _READING:
        with closing(SqliteReader(file)) as reader:
            return _READING[action](reader, asked)
    if action != "import" and not file.is_file():
        raise StoreFailed(f"{file} must be a file, got none")
    with closing(SqliteStore(file)) as store:
        return _WRITING[action](store, asked)


def _print(said: Any) -> None:
    print(json.dumps(said, indent=2, ensure_ascii=False))


# What only reads


def _stats(reader: SqliteReader, asked: _Asked) -> int:
    waiting, refused = reader.inbox_counts()
    counts = {status.value: count for status, count in reader.counts().items()}
    inbox = {"waiting": waiting, "refused": refused}
    _print({"tasks": counts, "inbox": inbox, "last_at": reader.last_at(), "bytes": asked.file.stat().st_size})
    return PASSED


def _list(reader: SqliteReader, asked: _Asked) -> int:
    for task in reader.listed(asked.listing):
        print(task.id, task.status.value, task.kind, task.user, f"attempts={task.attempts}", task.error or "")
    return PASSED


def _show(reader: SqliteReader, asked: _Asked) -> int:
    _print(msgspec.to_builtins(_task(reader, asked)))
    return PASSED


def _explain(reader: SqliteReader, asked: _Asked) -> int:
    task = _task(reader, asked)
    pending = Listing(status=Status.PENDING, user=task.user, limit=sys.maxsize)
    now = max(time.time(), reader.last_at())
    print(explain(task, reader.listed(pending), Standing(), Settings(), now).sentence)
    return PASSED


def _task(reader: SqliteReader, asked: _Asked) -> Task:
    if (task := reader.get(asked.task_id())) is None:
        raise UnknownTask(f"no task has id {asked.argument!r}")
    return task


def _check(reader: SqliteReader, asked: _Asked) -> int:
    found = list(faults(reader))
    for fault in found:
        print(fault)
    print(f"{len(found)} faults" if found else "no faults")
    return FAILED if found else PASSED


def _export(reader: SqliteReader, asked: _Asked) -> int:
    def write(lines: Iterator[bytes], output: Any) -> None:
        for line in lines:
            output.write(line + b"\n")

    if asked.argument is None:
        write(export_lines(reader), sys.stdout.buffer)
    else:
        try:
            with Path(asked.argument).open("xb") as output:
                write(export_lines(reader), output)
        except OSError as error:
            raise InvalidConfig(f"the output must be a new file that can be written: {error}") from None
    return PASSED


# What changes the file


def _requeue(store: SqliteStore, asked: _Asked) -> int:
    back = requeue(store, asked.task_id(), _now(store), reset_retries=asked.reset_retries)
    print(f"{back.identity} is {back.status.value} again")
    return PASSED


def _purge(store: SqliteStore, asked: _Asked) -> int:
    listing = attrs.evolve(asked.listing, status=asked.listing.status or Status.FAILED)
    print(f"{purge(store, listing, _now(store))} tasks removed")
    return PASSED


def _vacuum(store: SqliteStore, asked: _Asked) -> int:
    before = asked.file.stat().st_size
    store.vacuum()
    print(f"{before} bytes before, {asked.file.stat().st_size} now")
    return PASSED


def _import(store: SqliteStore, asked: _Asked) -> int:
    if asked.argument is None:
        raise InvalidConfig("import needs the file that is imported from")
    try:
        with Path(asked.argument).open("rb") as lines:
            print(f"{import_lines(store, lines)} tasks imported")
    except OSError as error:
        raise InvalidConfig(f"the input must be a file that can be read: {error}") from None
    return PASSED


def _now(store: SqliteStore) -> float:
    return max(time.time(), store.last_at())


_READING: dict[str, Callable[[SqliteReader, _Asked], int]] = {
    "stats": _stats,
    "list": _list,
    "show": _show,
    "explain": _explain,
    "check": _check,
    "export": _export,
}
_WRITING: dict[str, Callable[[SqliteStore, _Asked], int]] = {
    "requeue": _requeue,
    "purge": _purge,
    "vacuum": _vacuum,
    "import": _import,
}
