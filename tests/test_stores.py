"""Stores: what every one of them does, and what a file of SQLite's is like."""

import os
import re
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import attrs
import pytest
from hypothesis import given, settings

from actors.errors import StoreFailed, StoreInUse
from actors.stores import schema
from actors.stores.conformance import batches, store_machine
from actors.stores.contract import Batch, Listing, Store
from actors.stores.memory import MemoryStore
from actors.stores.sqlite import WRITES, SqliteReader, SqliteStore
from actors.stores.upkeep import faults
from actors.task import Status
from tests.test_journal import task

FOLDER = TemporaryDirectory()
NUMBERS = count()


def new_memory() -> Callable[[], Store]:
    store = MemoryStore()
    return lambda: store


def new_file() -> Callable[[], Store]:
    path = Path(FOLDER.name, f"{next(NUMBERS)}.db")
    # The disk is not what is tried here.
    return lambda: SqliteStore(path, "normal")


few = settings(max_examples=25, stateful_step_count=8, deadline=None)

TestMemory = store_machine(new_memory).TestCase
TestMemory.settings = few
TestSqlite = store_machine(new_file).TestCase
TestSqlite.settings = few


# A file


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "tasks.db"


@pytest.fixture
def store(path: Path) -> Iterator[SqliteStore]:
    with closing(SqliteStore(path)) as store:
        yield store


def test_a_file_is_its_owner_s_alone_to_read(store: SqliteStore, path: Path) -> None:
    store.write(Batch(tasks={"t1": task(1)}))
    modes = {found.name: stat.S_IMODE(os.stat(found).st_mode) for found in path.parent.iterdir()}
    assert modes == {"tasks.db": 0o600, "tasks.db-wal": 0o600, "tasks.db-shm": 0o600, "tasks.db-owner": 0o600}


@pytest.mark.parametrize(("name", "number"), [("full", 2), ("normal", 1)])
def test_what_a_commit_survives_is_a_choice(path: Path, name: str, number: int) -> None:
    with closing(SqliteStore(path, name)) as store:
        assert store._connection.execute("PRAGMA synchronous").fetchone() == (number,)
        assert store._connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)


def test_a_second_owner_is_told_who_the_first_is(store: SqliteStore, path: Path) -> None:
    with pytest.raises(StoreInUse) as refused:
        SqliteStore(path)
    assert str(refused.value) == f"{path} is owned by process {os.getpid()}: a store has one owner at a time"


def test_a_second_owner_by_another_name_is_refused_too(store: SqliteStore, path: Path) -> None:
    link = path.with_name("link.db")
    link.symlink_to(path)
    with pytest.raises(StoreInUse):
        SqliteStore(link)


def test_another_process_cannot_own_it_until_its_owner_has_gone(store: SqliteStore, path: Path) -> None:
    program = "import sys; from actors.stores.sqlite import SqliteStore; SqliteStore(sys.argv[1]).close()"
    run: Callable[[], Any] = lambda: subprocess.run(  # noqa: E731
        [sys.executable, "-c", program, path], capture_output=True, text=True, check=False
    )
    assert f"StoreInUse: {path} is owned by process {os.getpid()}" in run().stderr
    store.close()
    assert run().returncode == 0
    store.__init__(path)  # type: ignore[misc]


def test_others_may_read_while_it_is_written(store: SqliteStore, path: Path) -> None:
    store.write(Batch(at=1.0, tasks={"t1": task(1)}, notes={("scheduler", "weight/alice"): 2.0}))
    with closing(SqliteReader(path)) as reader:
        assert list(reader.tasks()) == [task(1)] and list(reader.notes()) == [("scheduler", "weight/alice", 2.0)]
        store.write(Batch(at=2.0, tasks={"t2": task(2)}))
        assert [found.id for found in reader.listed(Listing(user="alice"))] == ["t1", "t2"]
        with pytest.raises(sqlite3.OperationalError, match="readonly"):
            reader._connection.execute("DELETE FROM tasks")


def test_what_is_no_store_is_said_to_be_none(tmp_path: Path) -> None:
    other = tmp_path / "other.db"
    with closing(sqlite3.connect(other)) as connection:
        connection.execute("CREATE TABLE cats (name TEXT)")
    text = tmp_path / "text.db"
    text.write_text("no database at all, but long enough to have a header of one\n" * 20)
    empty = tmp_path / "empty.db"
    empty.touch()
    said = {}
    for kind in (SqliteReader, SqliteStore):
        for path in (other, text):
            with pytest.raises(StoreFailed) as refused:
                kind(path)
            said[kind.__name__, path.name] = str(refused.value).removeprefix(f"{path} ")
    of_another = f"is a database of something else: its application id must be {schema.APPLICATION_ID}"
    assert set(said.values()) == {of_another, "could not be opened: file is not a database"}
    assert other.stat().st_size == 8192, "nothing was changed"
    for path, fault in (
        (empty, "must be a store, got an empty file"),
        (tmp_path / "no.db", "must be a file, got none"),
    ):
        with pytest.raises(StoreFailed, match=fault):
            SqliteReader(path)


def test_a_folder_that_does_not_exist_is_named(tmp_path: Path) -> None:
    with pytest.raises(StoreFailed, match=r"no/tasks\.db-owner could not be opened: No such file or directory"):
        SqliteStore(tmp_path / "no" / "tasks.db")


def test_a_file_of_a_newer_program_is_left_alone(path: Path) -> None:
    SqliteStore(path).close()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA user_version = 99")
    with pytest.raises(StoreFailed, match="must be of version 1 at most, got 99: a newer program made it"):
        SqliteStore(path)


def test_an_older_file_is_brought_up_to_date(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with closing(SqliteStore(path)) as store:
        store.write(Batch(tasks={"t1": task(1)}))
    monkeypatch.setattr(schema, "MIGRATIONS", (*schema.MIGRATIONS, ("ALTER TABLE tasks ADD COLUMN colour TEXT",)))
    with closing(SqliteStore(path)) as store:
        assert list(store.tasks()) == [task(1)]
        assert store._connection.execute("PRAGMA user_version").fetchone() == (2,)
        assert store._connection.execute("SELECT colour FROM tasks").fetchall() == [(None,)]


def test_a_migration_that_fails_leaves_the_file_as_it_was(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    SqliteStore(path).close()
    broken = ("ALTER TABLE tasks ADD COLUMN colour TEXT", "CREATE TABLE tasks (again TEXT)")
    with monkeypatch.context() as patch:
        patch.setattr(schema, "MIGRATIONS", (*schema.MIGRATIONS, broken))
        with pytest.raises(StoreFailed, match="could not be opened: table tasks already exists"):
            SqliteStore(path)
    with closing(SqliteStore(path)) as store:
        assert "colour" not in [row[1] for row in store._connection.execute("PRAGMA table_info(tasks)")]


def test_a_record_that_cannot_be_read_is_shown(store: SqliteStore) -> None:
    store.write(Batch(tasks={"t1": task(1)}))
    store._connection.execute("UPDATE tasks SET record = '{\"id\": 1}'")
    with pytest.raises(StoreFailed, match=r"a stored task must be a record of one, got b?'\{\"id\": 1\}'"):
        list(store.tasks())


# What it costs


def plan(store: SqliteStore, listing: Listing) -> list[str]:
    """How SQLite goes about a listing."""
    said: list[str] = []
    store._connection.set_trace_callback(said.append)
    store.listed(listing)
    store._connection.set_trace_callback(None)
    return [row[3] for query in said for row in store._connection.execute(f"EXPLAIN QUERY PLAN {query}")]


@pytest.mark.parametrize("status", [None, *Status])
@pytest.mark.parametrize("kind", [None, "work"])
@pytest.mark.parametrize("user", [None, "alice"])
def test_every_listing_and_every_restore_goes_by_an_index_and_sorts_nothing(
    store: SqliteStore, status: Status | None, kind: str | None, user: str | None
) -> None:
    steps = plan(store, Listing(status=status, kind=kind, user=user))
    assert steps and all(step.startswith("SEARCH tasks USING INDEX tasks_by_") for step in steps), steps


@pytest.mark.parametrize("query", ["SELECT record FROM tasks WHERE id = NEW.id", *WRITES])
def test_no_change_and_no_look_at_one_task_reads_more_than_it_is_about(store: SqliteStore, query: str) -> None:
    steps = [row[3] for row in store._connection.execute("EXPLAIN QUERY PLAN " + re.sub(r"NEW\.\w+", "NULL", query))]
    assert not any(re.match(r"SCAN (?!json_each)", step) for step in steps), steps
    assert steps or "clock" in query


def test_tasks_are_read_one_at_a_time(store: SqliteStore) -> None:
    ended = {f"e{number}": task(number, id=f"e{number}", status=Status.FAILED, completed_at=1.0) for number in (1, 2)}
    store.write(Batch(tasks=ended | {"t3": task(3), "t4": task(4)}))
    steps: list[str] = []
    store._connection.set_trace_callback(steps.append)
    reading = store.tasks()
    assert [next(reading).id, next(reading).id] == ["t3", "t4"]
    assert len(steps) == 2, "ended tasks are asked for when the live ones have been read"
    assert [found.id for found in reading] == ["e1", "e2"]


@settings(max_examples=25, deadline=None)
@given(batches)
def test_the_columns_say_what_the_records_do(batch: Batch) -> None:
    with closing(new_file()()) as store:
        store.write(batch)
        assert isinstance(store, SqliteStore) and list(faults(store)) == []


def test_a_batch_is_one_statement_however_much_it_has(store: SqliteStore) -> None:
    counts = []
    for many in (1, 1_000):
        steps: list[str] = []
        store._connection.set_trace_callback(steps.append)
        store.write(Batch(tasks={f"t{number}": task(number) for number in range(many)}))
        assert "BEGIN" not in steps
        # What the trigger does on the way is shown too.
        counts.append(len(steps))
    assert counts[0] == counts[1]
    assert len(list(store.tasks())) == 1_000


def test_what_fails_in_the_midst_of_a_batch_leaves_nothing_of_it(store: SqliteStore) -> None:
    store.write(Batch(tasks={"t1": task(1)}))
    twice = Batch(tasks={"t2": task(2), "t1 again": task(3, id="t1")}, notes={("scheduler", "epoch"): 2})
    for batch in (twice, attrs.evolve(twice, taken={7: None})):
        with pytest.raises(StoreFailed, match=r"could not be written: UNIQUE constraint failed: tasks\.id"):
            store.write(batch)
        assert list(store.tasks()) == [task(1)] and list(store.notes()) == []
