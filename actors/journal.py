"""The journal: makes records safe before anybody is told.

While one batch is being written, in a thread, everything that happens adds to the next one. So a commit costs the same
whether one task waits for it or a thousand: group commit falls out of the waiting. What was held for a batch (answers to
people, runs for workers) is released when the batch is safe, and not before.

A batch is only taken when the host is quiet: whoever drives it drives it until its mailbox is empty, in one go. So what a
store holds is always the state of all actors at one quiet moment, and all that a crash can lose beside it is what was held:
runs that no worker began, and answers that nobody heard.

A commit that failed, or of which nobody knows, ends the runtime: to go on would be to acknowledge what may not be there.
"""

from collections.abc import Callable, Iterable, Sequence

import trio

from actors.errors import StoreFailed
from actors.host import Envelope
from actors.stores.contract import Batch, Store, lasting
from actors.table import Noted, Record, Removed
from actors.task import Task

__all__ = ["StoreJournal"]

Release = Callable[[Iterable[Envelope]], None]


class StoreJournal:
    """Writes what a host decides into a store."""

    def __init__(self, store: Store, threads: bool = True) -> None:
        self.store = store
        self.failed = False
        """Whether a commit failed: nobody is told anything any more."""
        self.commits = 0
        """How many batches were made safe."""
        self.rows = 0
        """How many tasks and notes they had in all."""
        self.expected: dict[str, int] = {}
        """Submits that were read from the store's inbox and not answered yet: their numbers there by their ids."""
        self._threads = threads
        self._batch = Batch()
        self._held: list[Envelope] = []
        self._release: Release | None = None
        self._writing = False
        self._ended = False
        self._wake = trio.Event()
        self._quiet = trio.Event()

    @property
    def idle(self) -> bool:
        """Whether everything so far is safe, and nobody waits to be told."""
        return not (self.failed or self._writing or self._held or not self._batch.empty)

    def commit(self, records: Sequence[Record], held: Sequence[Envelope], release: Release) -> None:
        """Add to the next batch; what is held goes out with it, or at once if it waits for nothing."""
        is_fleeting = self._add(records)
        if held:
            if is_fleeting or self.idle:
                release(held)
                return
            self._release = release
            self._held += held
        if not self.idle:
            self._wake.set()

    def take(self, submitted_id: str, refused: str | None) -> None:
        """A submit of the inbox is answered: it means a task that was there already, or it was refused."""
        if (number := self.expected.pop(submitted_id, None)) is not None:
            self._batch.taken[number] = refused
            self._wake.set()

    def _add(self, records: Sequence[Record]) -> bool:
        """Take over what is to be stored; True if all of it is about tasks that no store keeps."""
        batch, kept, fleeting = self._batch, False, False
        for record in records:
            kind = type(record)
            if kind is Task:
                if record.persist:  # type: ignore[union-attr]
                    batch.tasks[record.id] = record  # type: ignore[union-attr, assignment]
                    kept = True
                    if self.expected and record.id in self.expected:  # type: ignore[union-attr]
                        # Out of the inbox and into the table in one: it comes in once.
                        batch.taken[self.expected.pop(record.id)] = None  # type: ignore[union-attr]
                else:
                    fleeting = True
            elif kind is Noted:
                owner = record.owner  # type: ignore[union-attr]
                for key, value in record.values.items():  # type: ignore[union-attr]
                    if lasting(owner, key):
                        batch.notes[owner, key] = value
            else:
                assert isinstance(record, Removed)
                batch.tasks.pop(record.task_id, None)
                batch.removed[record.task_id] = None
                kept = True
        return fleeting and not kept

    async def run(self, now: Callable[[], float], drive: Callable[[], None], fail: Callable[[Exception], None]) -> None:
        """Write batches for ever; `drive` handles what was released, `fail` is told if that is no longer possible."""
        try:
            while True:
                await self._wake.wait()
                self._wake = trio.Event()
                held, self._held = self._held, []
                await self._write(now())
                if held:
                    assert self._release is not None, "what is held came with somebody to release it"
                    self._release(held)
                    drive()
                if self.idle:
                    self._quiet.set()
                    self._quiet = trio.Event()
        except Exception as error:
            self.failed = True
            fail(self._failure(error))
        finally:
            self._ended = True
            self._quiet.set()

    async def _write(self, now: float) -> None:
        batch, self._batch = self._batch, Batch()
        if batch.empty:
            return
        batch.at = now
        self._writing = True
        if self._threads:
            await trio.to_thread.run_sync(self.store.write, batch)
        else:
            self.store.write(batch)
        self._writing = False
        self.commits += 1
        self.rows += len(batch.tasks) + len(batch.notes) + len(batch.removed)

    def _failure(self, error: Exception) -> StoreFailed:
        said = str(error) if isinstance(error, StoreFailed) else f"{self.store.name} could not be written: {error}"
        failure = StoreFailed(f"{said}; what was acknowledged is safe, and nothing more is acknowledged")
        failure.__cause__ = error
        return failure

    async def flush(self) -> None:
        """Wait until everything so far, and what comes of it, is safe; or until nothing will be any more."""
        while not (self.idle or self._ended):
            await self._quiet.wait()
