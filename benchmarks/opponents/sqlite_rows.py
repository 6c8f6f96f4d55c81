"""The limit of everything on SQLite: a row for each task, flushed at every commit, never read nor changed."""

import sqlite3
import tempfile
import time
from pathlib import Path


def insert(count: int, in_a_transaction: int) -> float:
    """So many rows in each transaction."""
    with tempfile.TemporaryDirectory() as folder:
        connection = sqlite3.connect(Path(folder, "rows.db"), isolation_level=None)
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("CREATE TABLE tasks (id INTEGER PRIMARY KEY, record TEXT)")
        began = time.perf_counter()
        for first in range(0, count, in_a_transaction):
            connection.execute("BEGIN")
            for number in range(first, min(first + in_a_transaction, count)):
                connection.execute("INSERT INTO tasks VALUES (?, ?)", (number, "{}"))
            connection.execute("COMMIT")
        took = time.perf_counter() - began
        connection.close()
    return took
