"""The journal: writes what was decided into a store, in a thread, before anybody is told.

A batch is only taken when the host is quiet: whoever drives it drives it until its mailbox is empty, in one go. So what a
store holds is always the state of all actors at one quiet moment, and all that a crash can lose beside it is what was held:
runs that no worker began, and answers that nobody heard.

A commit that failed, or of which nobody knows, ends the runtime: to go on would be to acknowledge what may not be there.
"""

from collections.abc import Callable, Sequence

import trio

from actors.commits import GroupCommit, Release
from actors.errors import StoreFailed
from actors.host import Post
from actors.stores.contract import Store
from actors.table import Record

__all__ = ["StoreJournal"]


class StoreJournal:
    """Has what a host decides written into a store, batch by batch."""

    def __init__(self, store: Store, threads: bool = True) -> None:
        self.store = store
        self.failed = False
        """Whether a commit failed: nobody is told anything any more."""
        self.commits = 0
        """How many batches were made safe."""
        self.rows = 0
        """How many tasks and notes they had in all."""
        self._group = GroupCommit()
        self._threads = threads
        self._ended = False
        self._wake = trio.Event()
        self._quiet = trio.Event()

    @property
    def idle(self) -> bool:
        """Whether everything so far is safe, and nobody waits to be told."""
        return not self.failed and self._group.idle

    @property
    def expected(self) -> dict[str, int]:
        """Submits that were read from the store's inbox and not answered yet: their numbers there by their ids."""
        return self._group.expected

    def commit(self, records: Sequence[Record], held: Post, release: Release) -> None:
        """Add to the next batch; what is held goes out with it, or at once if it waits for nothing."""
        self._group.commit(records, held, release)
        if not self._wake.is_set() and self._group.waits:
            self._wake.set()

    def take(self, submitted_id: str, refused: str | None) -> None:
        """A submit of the inbox is answered: it means a task that was there already, or it was refused."""
        self._group.answer(submitted_id, refused)
        self._wake.set()

    async def run(self, now: Callable[[], float], drive: Callable[[], None], fail: Callable[[Exception], None]) -> None:
        """Write batches for ever; `drive` handles what was released, `fail` is told if that is no longer possible."""
        try:
            while True:
                await self._wake.wait()
                self._wake = trio.Event()
                await self._write(now())
                if self._group.safe():
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
        batch = self._group.take(now)
        if batch.empty:
            return
        if self._threads:
            await trio.to_thread.run_sync(self.store.write, batch)
        else:
            self.store.write(batch)
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
