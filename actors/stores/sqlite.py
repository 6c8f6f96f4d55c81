"""The SQLite store: one file, nothing to install.

In WAL mode a commit appends to a log, and readers never wait for the writer. What a commit survives is a choice:
- `full` (the default): the log is flushed to the disk at each commit. It survives kill -9, a crash of the system and a
  loss of power, as far as the disk keeps what it says it has.
- `normal`: the log is flushed only when it is moved into the file. It survives kill -9; a crash of the system may lose the
  last commits, never tear one.

A whole batch is one statement: what it has comes in as JSON, and a trigger puts each thing in its place. So a commit is one step
in C, in which Python's other threads run. Were it several, each would begin with waiting for whoever runs Python then.
"""

import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import chain, islice
from pathlib import Path
from typing import Any

from actors.errors import StoreFailed
from actors.stores.contract import Batch, Listing
from actors.stores.encoding import decode_note, encode_json, task_decoder
from actors.stores.inbox import SqliteInbox
from actors.stores.owner import Owner
from actors.stores.schema import check_schema, migrate
from actors.task import Status, Task

__all__ = ["Connect", "SqliteReader", "SqliteStore"]

BUSY_SECONDS = 30.0
"""How long a commit waits for somebody else who writes to the file."""

REFUSED_MAX = 1_000
"""So many submits that were refused stay in the inbox, to be looked at."""

_CHECKPOINT_PAGES = 4_000
"""The log is moved into the file whenever it has so many pages: 16 MB."""

Connect = Callable[..., sqlite3.Connection]
"""As `sqlite3.connect`."""

_COLUMNS = ("removed", "tasks", "forgotten", "notes", "at")
"""What a batch comes in as: ids, records, owners and keys, owners and keys and values, all of them JSON; and a time."""

WRITES = (
    "DELETE FROM tasks WHERE id IN (SELECT value FROM json_each(NEW.removed))",
    # What a record leaves out is as usual.
    "INSERT INTO tasks (sequence, id, user, kind, status, ended_at, record)"
    " SELECT json_extract(value, '$.sequence'), json_extract(value, '$.id'), json_extract(value, '$.user'),"
    " json_extract(value, '$.kind'), coalesce(json_extract(value, '$.status'), 'pending'),"
    " json_extract(value, '$.completed_at'), value FROM json_each(NEW.tasks) WHERE true ON CONFLICT (sequence)"
    " DO UPDATE SET status = excluded.status, ended_at = excluded.ended_at, record = excluded.record",
    "DELETE FROM notes WHERE (owner, key) IN"
    " (SELECT json_extract(value, '$[0]'), json_extract(value, '$[1]') FROM json_each(NEW.forgotten))",
    "INSERT INTO notes (owner, key, value)"
    " SELECT json_extract(value, '$[0]'), json_extract(value, '$[1]'), json_extract(value, '$[2]')"
    " FROM json_each(NEW.notes) WHERE true ON CONFLICT (owner, key) DO UPDATE SET value = excluded.value",
    "INSERT INTO clock (one, at) VALUES (1, NEW.at) ON CONFLICT (one) DO UPDATE SET at = max(at, excluded.at)",
)
"""What happens to a batch, in this order."""

_BATCH = f"CREATE TEMP VIEW batch AS SELECT {', '.join(f'NULL AS {column}' for column in _COLUMNS)}"
_ON_BATCH = (
    f"CREATE TEMP TRIGGER write_batch INSTEAD OF INSERT ON batch BEGIN {' '.join(f'{one};' for one in WRITES)} END"
)
_WRITE = f"INSERT INTO batch VALUES ({', '.join('?' * len(_COLUMNS))})"

_FORGET_REFUSED = "DELETE FROM inbox WHERE error IS NOT NULL AND number <= ?"


class SqliteReader:
    """Looks into a file, whoever owns it, and changes nothing."""

    def __init__(self, path: str | Path, connect: Connect = sqlite3.connect) -> None:
        self.name = str(path)
        if not Path(path).is_file():
            raise StoreFailed(f"{path} must be a file, got none")
        uri = f"{Path(path).resolve().as_uri()}?mode=ro"
        with self._named("opened"):
            self._connection = connect(uri, uri=True, isolation_level=None, check_same_thread=False)
            try:
                version = check_schema(self._connection, self.name)
            except BaseException:
                self._connection.close()
                raise
        if not version:
            self._connection.close()
            raise StoreFailed(f"{path} must be a store, got an empty file")
        self._decode = task_decoder()

    def last_at(self) -> float:
        with self._named("read"):
            found = self._connection.execute("SELECT at FROM clock").fetchone()
        return 0.0 if found is None else float(found[0])

    def notes(self) -> Iterator[tuple[str, str, Any]]:
        with self._named("read"):
            for owner, key, value in self._connection.execute("SELECT owner, key, value FROM notes"):
                yield owner, key, decode_note(value)

    def tasks(self) -> Iterator[Task]:
        return self._select(Listing())

    def get(self, task_id: str) -> Task | None:
        with self._named("read"):
            found = self._connection.execute("SELECT record FROM tasks WHERE id = ?", (task_id,)).fetchone()
        return None if found is None else self._decode(found[0])

    def listed(self, listing: Listing) -> list[Task]:
        return list(islice(self._select(listing), listing.offset, listing.offset + listing.limit))

    def counts(self) -> dict[Status, int]:
        with self._named("read"):
            counted = self._connection.execute("SELECT status, count(*) FROM tasks GROUP BY status").fetchall()
        return dict.fromkeys(Status, 0) | {Status(status): count for status, count in counted}

    def inbox_counts(self) -> tuple[int, int]:
        """How many submits of other processes wait, and how many were refused."""
        with self._named("read"):
            (waiting,) = self._connection.execute("SELECT count(*) FROM inbox WHERE error IS NULL").fetchone()
            (refused,) = self._connection.execute("SELECT count(*) FROM inbox WHERE error IS NOT NULL").fetchone()
        return waiting, refused

    def integrity_faults(self) -> Iterator[str]:
        """What SQLite itself finds wrong with the file."""
        with self._named("checked"):
            for (said,) in self._connection.execute("PRAGMA integrity_check"):
                if said != "ok":
                    yield said

    def rows(self) -> Iterator[tuple[Any, ...]]:
        """Every row of the tasks as it is: the columns, the record last."""
        with self._named("read"):
            yield from self._connection.execute(
                "SELECT sequence, id, user, kind, status, ended_at, record FROM tasks ORDER BY sequence"
            )

    def close(self) -> None:
        self._connection.close()

    def _select(self, listing: Listing) -> Iterator[Task]:
        """What fits, a row at a time: a status is asked for when those before it have been read."""
        if listing.status is not None:
            return self._of_status(listing.status, listing)
        pending, running = (self._of_status(status, listing) for status in Status if not status.terminal)
        ended = (self._of_status(status, listing) for status in Status if status.terminal)
        return chain(_merged(pending, running), chain.from_iterable(ended))

    def _of_status(self, status: Status, listing: Listing) -> Iterator[Task]:
        wanted: dict[str, str] = {}
        if listing.user is not None:
            wanted["user"] = listing.user
        if listing.kind is not None:
            wanted["kind"] = listing.kind
        wanted["status"] = status.value
        where = " AND ".join(f"{column} = ?" for column in wanted)
        query = f"SELECT record FROM tasks WHERE {where} ORDER BY ended_at, sequence"
        with self._named("read"):
            for (record,) in self._connection.execute(query, tuple(wanted.values())):
                yield self._decode(record)

    def _named(self, done: str) -> "_Named":
        return _Named(self.name, done)


class SqliteStore(SqliteReader):
    """Owns a file: the one that may write tasks into it."""

    def __init__(self, path: str | Path, synchronous: str = "full", connect: Connect = sqlite3.connect) -> None:
        self.name = str(path)
        self._path = whole = Path(path).resolve()
        self._owner = Owner(whole)
        try:
            with self._named("opened"):
                # The log and its index get the rights of the file.
                os.close(os.open(whole, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
                self._connection = connect(whole, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False)
                self._prepare(synchronous)
        except BaseException:
            self._owner.release()
            raise
        self._decode = task_decoder()

    def _prepare(self, synchronous: str) -> None:
        run = self._connection.execute
        try:
            check_schema(self._connection, self.name)
            run("PRAGMA journal_mode = WAL")
            run(f"PRAGMA synchronous = {synchronous}")
            run(f"PRAGMA wal_autocheckpoint = {_CHECKPOINT_PAGES}")
            migrate(self._connection, self.name)
            # Said now if it has none, and not at the first commit.
            run("SELECT json_extract('[1]', '$[0]')")
            # This connection's own: the file has tables and indexes alone.
            run(_BATCH)
            run(_ON_BATCH)
        except BaseException:
            self._connection.close()
            raise

    def write(self, batch: Batch) -> None:
        notes = [(*key, encode_json(value)) for key, value in batch.notes.items() if value is not None]
        forgotten = [key for key, value in batch.notes.items() if value is None]
        parts = (list(batch.removed), list(batch.tasks.values()), forgotten, notes)
        values = (*map(encode_json, parts), batch.at)
        with self._named("written"):
            if not batch.taken:
                # One statement is a transaction of its own.
                self._connection.execute(_WRITE, values)
                return
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                self._connection.execute(_WRITE, values)
                self._take(batch.taken)
                self._connection.execute("COMMIT")
            except BaseException:
                # What went wrong first is what is told.
                with suppress(sqlite3.Error):
                    self._connection.rollback()
                raise

    def _take(self, taken: dict[int, str | None]) -> None:
        """Let go of submits that came in, and say of the others why they did not; of those the latest stay."""
        for number, refused in taken.items():
            if refused is None:
                self._connection.execute("DELETE FROM inbox WHERE number = ?", (number,))
            else:
                self._connection.execute("UPDATE inbox SET error = ? WHERE number = ?", (refused, number))
                self._connection.execute(_FORGET_REFUSED, (number - REFUSED_MAX,))

    def vacuum(self) -> None:
        """Give back to the system what the file no longer needs."""
        with self._named("compacted"):
            self._connection.execute("VACUUM")
            self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def inbox(self) -> SqliteInbox:
        return SqliteInbox(self._path)

    def close(self) -> None:
        try:
            with self._named("closed"):
                self._connection.close()
        finally:
            self._owner.release()


def _merged(many: Iterator[Task], few: Iterator[Task]) -> Iterator[Task]:
    """Both in one order, which each has by itself; a step for each of the many, where a heap would take several."""
    waiting = next(few, None)
    for task in many:
        while waiting is not None and waiting.sequence < task.sequence:
            yield waiting
            waiting = next(few, None)
        yield task
    if waiting is not None:
        yield waiting
        yield from few


class _Named:
    """Says of what SQLite or the system raises in which file it was."""

    def __init__(self, name: str, done: str) -> None:
        self._said = f"{name} could not be {done}"

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if isinstance(error, (sqlite3.Error, OSError)):
            raise StoreFailed(f"{self._said}: {error}") from error
