"""The inbox of a SQLite store: how other processes submit into a file that somebody else owns.

Whoever submits writes a row, in a transaction of its own: when that is committed the submit is safe, and the owner will come
to it, at once or when it runs again. The owner takes a row out in the very transaction in which the task comes in, so it
comes in once. A submit that the owner refuses stays in the inbox with the reason, and is not tried again.
"""

import sqlite3
from contextlib import closing
from pathlib import Path

import msgspec

from actors.errors import InvalidTask, StoreFailed
from actors.ids import new_id
from actors.messages import Submit
from actors.retry import RetryPolicy
from actors.stores.schema import check_schema
from actors.submission import NewTask, checked_payload
from actors.waiting import plain_submit, read_submit

__all__ = ["SqliteInbox", "submit_into"]

_BUSY_SECONDS = 30.0
_PAYLOAD_BYTES_MAX = 256 * 1024
_AT_ONCE_MAX = 256


def submit_into(path: str | Path, tasks: list[NewTask], now: float) -> list[str]:
    """Submit tasks into the store in a file that exists, all of them or none; their ids.

    They are safe when this returns. Whether the owner lets them in is its business: how a kind is retried, and what is
    refused, is as its settings say.
    """
    submits = [_checked(task.submit(new_id(), RetryPolicy(), now)) for task in tasks]
    rows = [(submit.id, msgspec.json.encode(plain_submit(submit))) for submit in submits]
    with closing(_connected(path, "rw")) as connection:
        try:
            connection.execute("PRAGMA synchronous = FULL")
            connection.execute("BEGIN IMMEDIATE")
            connection.executemany("INSERT INTO inbox (id, submit) VALUES (?, ?)", rows)
            connection.execute("COMMIT")
        except sqlite3.Error as error:
            raise StoreFailed(f"{path} could not be written: {error}") from error
    return [submit.id for submit in submits]


def _checked(submit: Submit) -> Submit:
    checked_payload(submit, _PAYLOAD_BYTES_MAX)
    if not submit.persist:
        raise InvalidTask("persist must be true for a task that is submitted into a store, got False")
    return submit


class SqliteInbox:
    """What the owner of a file reads of its inbox, on a connection of its own."""

    def __init__(self, path: str | Path) -> None:
        self._name = str(path)
        self._connection = _connected(path, "ro")
        self._read_to = 0

    def read(self) -> list[tuple[int, Submit]]:
        """Submits that were not read before, with their numbers, the first at the front; some of them if there are many."""
        query = "SELECT number, submit FROM inbox WHERE error IS NULL AND number > ? ORDER BY number LIMIT ?"
        try:
            rows = self._connection.execute(query, (self._read_to, _AT_ONCE_MAX)).fetchall()
        except sqlite3.Error as error:
            raise StoreFailed(f"{self._name} could not be read: {error}") from error
        if rows:
            self._read_to = rows[-1][0]
        return [(number, read_submit(msgspec.json.decode(submit))) for number, submit in rows]

    def close(self) -> None:
        """Read no more."""
        self._connection.close()


def _connected(path: str | Path, mode: str) -> sqlite3.Connection:
    uri = f"{Path(path).resolve().as_uri()}?mode={mode}"
    try:
        connection = sqlite3.connect(
            uri, uri=True, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False
        )
        try:
            if not check_schema(connection, str(path)):
                raise StoreFailed(f"{path} must be a store, got an empty file")
        except BaseException:
            connection.close()
            raise
    except sqlite3.Error as error:
        raise StoreFailed(f"{path} could not be opened: {error}") from error
    return connection
