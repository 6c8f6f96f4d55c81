"""Runtimes with a store of the test's own, on virtual time, and stores that misbehave."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import trio

from actors import Options, Runtime
from actors.opening import run_runtime
from actors.stores.contract import Batch, Store
from actors.stores.memory import MemoryStore


@asynccontextmanager
async def durable(store: Store, *, wall_clock_at: float | None = None, **options: Any) -> AsyncIterator[Runtime]:
    """A runtime on this store; trio's clock must be virtual."""

    def wall_clock() -> float:
        return trio.current_time() if wall_clock_at is None else wall_clock_at

    loaded = Options(**{"seed": 0, "workers": 2} | options)
    async with run_runtime(loaded, resources={}, wall_clock=wall_clock, threads=False, store=store) as runtime:
        yield runtime


class RecordingStore(MemoryStore):
    """Remembers what it was given, batch by batch."""

    def __init__(self) -> None:
        super().__init__()
        self.batches: list[Batch] = []

    def write(self, batch: Batch) -> None:
        self.batches.append(batch)
        super().write(batch)


class BrokenStore(MemoryStore):
    """Fails at its n-th commit and after, before or after it was applied."""

    def __init__(self, error: Exception, commits: int, applied: bool = False) -> None:
        super().__init__()
        self.error = error
        self.left = commits
        self.applied = applied

    def write(self, batch: Batch) -> None:
        self.left -= 1
        if self.left >= 0:
            super().write(batch)
            return
        if self.applied:
            super().write(batch)
        raise self.error


def killed(store: MemoryStore, found_by: MemoryStore | None = None) -> MemoryStore:
    """What is left of a store if the process is killed now, as another store, or as this one, has it."""
    left = MemoryStore() if found_by is None else found_by
    left._at, left._tasks, left._notes = store._at, dict(store._tasks), dict(store._notes)
    return left
