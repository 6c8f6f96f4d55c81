"""What the SQLite file looks like, and how an older one becomes so.

`PRAGMA user_version` is the number of migrations that a file has seen. To change the schema, add a migration; never change
one that was released. A task's record has everything; the columns beside it are what tasks are found by.
"""

import sqlite3

from actors.errors import StoreFailed

__all__ = ["APPLICATION_ID", "MIGRATIONS", "check_schema", "migrate"]

APPLICATION_ID = 0x45564E48
"""What says that a file is one of ours: EVNH."""

MIGRATIONS: tuple[tuple[str, ...], ...] = (
    (
        """CREATE TABLE tasks (
            sequence INTEGER PRIMARY KEY,
            id TEXT NOT NULL,
            user TEXT NOT NULL,
            kind TEXT NOT NULL,
            status TEXT NOT NULL,
            ended_at REAL,
            record BLOB NOT NULL
        )""",
        "CREATE UNIQUE INDEX tasks_by_id ON tasks (id)",
        # Each ends with the row's sequence by itself: live tasks, which have no end, are in the order of admission.
        "CREATE INDEX tasks_by_status ON tasks (status, ended_at)",
        "CREATE INDEX tasks_by_user ON tasks (user, status, ended_at)",
        "CREATE INDEX tasks_by_kind ON tasks (kind, status, ended_at)",
        """CREATE TABLE notes (
            owner TEXT NOT NULL,
            key TEXT NOT NULL,
            value BLOB NOT NULL,
            PRIMARY KEY (owner, key)
        ) WITHOUT ROWID""",
        "CREATE TABLE clock (one INTEGER PRIMARY KEY CHECK (one = 1), at REAL NOT NULL)",
        """CREATE TABLE inbox (
            number INTEGER PRIMARY KEY AUTOINCREMENT,
            id TEXT NOT NULL UNIQUE,
            submit BLOB NOT NULL,
            error TEXT
        )""",
        "CREATE INDEX inbox_waiting ON inbox (number) WHERE error IS NULL",
        "CREATE INDEX inbox_refused ON inbox (number) WHERE error IS NOT NULL",
    ),
)
"""The statements of each version."""


def check_schema(connection: sqlite3.Connection, name: str) -> int:
    """The version of a file, 0 if it is new; StoreFailed if it is none of ours, or newer than this program."""
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (objects,) = connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
    if application != APPLICATION_ID and (application or version or objects):
        raise StoreFailed(f"{name} is a database of something else: its application id must be {APPLICATION_ID}")
    if version > len(MIGRATIONS):
        raise StoreFailed(
            f"{name} must be of version {len(MIGRATIONS)} at most, got {version}: a newer program made it"
        )
    return int(version)


def migrate(connection: sqlite3.Connection, name: str) -> None:
    """Bring a file to the latest version, in one transaction."""
    version = check_schema(connection, name)
    if version == len(MIGRATIONS):
        return
    connection.execute("BEGIN IMMEDIATE")
    for statements in MIGRATIONS[version:]:
        for statement in statements:
            connection.execute(statement)
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    connection.execute(f"PRAGMA user_version = {len(MIGRATIONS)}")
    connection.execute("COMMIT")
