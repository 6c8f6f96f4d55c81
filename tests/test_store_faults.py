"""A fault at the n-th call to SQLite, for every n of a short program: said clearly, and nobody was told what is not so."""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import trio

from actors import Status, StoreFailed
from actors.stores.sqlite import SqliteStore
from tests.durable import durable
from tests.test_handle import on_virtual_time

FAULTS = {
    "disk full": sqlite3.OperationalError("database or disk is full"),
    "I/O error": sqlite3.OperationalError("disk I/O error"),
    "locked": sqlite3.OperationalError("database is locked"),
    "corrupt page": sqlite3.DatabaseError("database disk image is malformed"),
}

NO_DISK = "off"
"""Nothing is flushed: what a disk does to itself is not what is tried here."""


class Faults:
    """Makes connections of which one call fails, and all after it, before or after it was carried out."""

    def __init__(self, error: Exception | None = None, at_call: int = 0, after: bool = False) -> None:
        self.error = error
        self.at_call = at_call
        self.after = after
        self.calls = 0

    def connect(self, *arguments: Any, **options: Any) -> sqlite3.Connection:
        faults = self

        class Connection(sqlite3.Connection):
            def execute(self, *said: Any) -> sqlite3.Cursor:
                faults.calls += 1
                fails = faults.error is not None and faults.calls >= faults.at_call
                if fails and not (faults.after and faults.calls == faults.at_call):
                    raise faults.error  # type: ignore[misc]
                done = super().execute(*said)
                if fails:
                    done.close()
                    raise faults.error  # type: ignore[misc]
                return done

        return sqlite3.connect(*arguments, factory=Connection, **options)


async def program(store: SqliteStore, accepted: list[str], told: dict[str, Any]) -> None:
    """Two tasks are run, one of them twice, and one is cancelled."""
    async with durable(store, workers=1) as runtime:

        @runtime.handler("work", max_retries=1)
        async def work(payload: int) -> int:
            await trio.sleep(1)
            if payload == 1 and len(told) == 0:
                raise ValueError("not yet")
            return payload

        handles = []
        for number in range(3):
            handles.append(await runtime.submit("work", number, user="alice"))
            accepted.append(handles[-1].id)
        await handles[2].cancel()
        told[handles[2].id] = None
        for handle in handles[:2]:
            told[handle.id] = await handle.result()


def calls_of_the_program(folder: Path) -> int:
    faults = Faults()

    async def run() -> None:
        await program(SqliteStore(folder / "whole.db", NO_DISK, faults.connect), [], {})

    on_virtual_time(run)
    return faults.calls


def fail_at(path: Path, faults: Faults) -> None:
    accepted, told, said = list[str](), dict[str, Any](), ""

    async def run() -> None:
        nonlocal said
        try:
            await program(SqliteStore(path, NO_DISK, faults.connect), accepted, told)
        except StoreFailed as error:
            said = str(error)

    on_virtual_time(run)
    assert said.startswith(f"{path} could not be ") and str(faults.error) in said
    with closing(SqliteStore(path, NO_DISK)) as store:
        kept = {task.id: task for task in store.tasks()}
    assert set(accepted) <= kept.keys()
    for task_id, result in told.items():
        assert (kept[task_id].status.terminal, kept[task_id].result) == (True, result)
    assert all(task.status is not Status.IN_PROGRESS or task.attempts for task in kept.values())


@pytest.mark.parametrize(
    ("fault", "after"), [*((fault, False) for fault in FAULTS), ("I/O error", True)], ids=lambda value: str(value)
)
def test_a_fault_at_any_call_is_told_and_nobody_was_told_what_is_not_stored(
    tmp_path: Path, fault: str, after: bool
) -> None:
    calls = calls_of_the_program(tmp_path)
    assert calls > 30
    for number in range(1, calls + 1):
        fail_at(tmp_path / f"{number}.db", Faults(FAULTS[fault], number, after))
