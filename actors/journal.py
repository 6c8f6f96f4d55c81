"""The journal: has what was decided written into a store, by a thread of its own, before anybody is told.

A batch is only taken when the host is quiet: whoever drives it drives it until its mailbox is empty, in one go. So what a
store holds is always the state of all actors at one quiet moment, and all that a crash can lose beside it is what was held:
runs that no worker began, and answers that nobody heard.

Writing and deciding go on at the same time, so that work should not wait in one lump: if all workers waited for the same
commit, the thread would rest while they run, and they while it writes. So a batch is taken as soon as it has half of what the
last two had together; and when one is safe, the next is handed over before anybody is told of the first. On a disk that takes
longer than the work it is the other way round: then all that waits goes into one commit, because two take twice as long.

A commit that failed, or of which nobody knows, ends the runtime: to go on would be to acknowledge what may not be there.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from queue import SimpleQueue
from threading import Thread

import trio

from actors.commits import GroupCommit, Release
from actors.errors import StoreFailed
from actors.host import Post
from actors.stores.contract import Batch, Store
from actors.table import Record

__all__ = ["StoreJournal"]

Done = Callable[[Exception | None], None]


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
        self._writer = _Writer(store) if threads else None
        self._sizes = (0, 0)
        """How many tasks the last two batches had."""
        self._in_lumps = False
        """Whether the disk is what everybody waits for, so that all of them wait for one commit."""
        self._begun_at = self._decided_at = self._told_at = 0.0
        """When the last commit was begun, something was last decided while it was written, and it was told of."""
        self._write_seconds = 0.0
        self._ended = False
        self._wake = trio.Event()
        self._quiet = trio.Event()
        self._now: Callable[[], float]
        self._drive: Callable[[], None]
        self._fail: Callable[[Exception], None]

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
        group = self._group
        group.commit(records, held, release)
        if not (group.writing or self._wake.is_set()) and group.waits:
            self._wake.set()

    def take(self, submitted_id: str, refused: str | None) -> None:
        """A submit of the inbox is answered: it means a task that was there already, or it was refused."""
        self._group.answer(submitted_id, refused)
        self._wake.set()

    def hasten(self) -> None:
        """Nothing is under way: begin a batch now, if it is large enough."""
        group = self._group
        if self._writer is None:
            return
        if group.writing:
            self._decided_at = self._now()
        elif group.tasks and group.tasks >= (self._sizes[1] if self._in_lumps else sum(self._sizes) / 2):
            self._begin()

    async def run(self, now: Callable[[], float], drive: Callable[[], None], fail: Callable[[Exception], None]) -> None:
        """Write batches for ever; `drive` handles what was released, `fail` is told if that is no longer possible."""
        self._now, self._drive, self._fail = now, drive, fail
        if self._writer is not None:
            self._writer.start(trio.lowlevel.current_trio_token())
        try:
            while not self.failed:
                await self._wake.wait()
                self._wake = trio.Event()
                if self._in_lumps:
                    # Whoever was just told has something to say first.
                    await trio.lowlevel.checkpoint()
                if not (self._group.writing or self.failed):
                    self._begin()
        finally:
            self._ended = True
            self._quiet.set()
            if self._writer is not None:
                with trio.CancelScope(shield=True):
                    await trio.to_thread.run_sync(self._writer.stop)

    def _begin(self) -> None:
        self._begun_at = self._decided_at = now = self._now()
        if self._in_lumps and now - self._told_at > self._write_seconds:
            self._in_lumps, self._sizes = False, (0, self._sizes[1])
        batch = self._group.take(now)
        if batch.empty:
            self._tell(self._group.safe())
            return
        self._sizes = (self._sizes[1], len(batch.tasks))

        def done(error: Exception | None) -> None:
            self._written(batch, error)

        if self._writer is not None:
            self._writer.write(batch, done)
        else:
            done(_written_here(self.store, batch))

    def _written(self, batch: Batch, error: Exception | None) -> None:
        if self._ended:
            return
        if error is not None:
            self.failed = True
            self._fail(self._failure(error))
            self._wake.set()
            return
        self.commits += 1
        self.rows += len(batch.tasks) + len(batch.notes) + len(batch.removed)
        told = self._group.safe()
        self._told_at = now = self._now()
        self._write_seconds = now - self._begun_at
        if self._group.tasks and now - self._decided_at > self._write_seconds / 2:
            # Everybody had long done what there was to do.
            self._in_lumps, self._sizes = True, (0, self._sizes[1] + self._group.tasks)
        if self._writer is not None and self._group.tasks and not self._in_lumps:
            self._begin()
        elif self._group.waits:
            self._wake.set()
        self._tell(told)

    def _tell(self, posts: Sequence[Post]) -> None:
        if posts:
            self._group.release(posts)
            self._drive()
        if self.idle:
            self._quiet.set()
            self._quiet = trio.Event()

    def _failure(self, error: Exception) -> StoreFailed:
        said = str(error) if isinstance(error, StoreFailed) else f"{self.store.name} could not be written: {error}"
        failure = StoreFailed(f"{said}; what was acknowledged is safe, and nothing more is acknowledged")
        failure.__cause__ = error
        return failure

    async def flush(self) -> None:
        """Wait until everything so far, and what comes of it, is safe; or until nothing will be any more."""
        while not (self.idle or self._ended):
            await self._quiet.wait()


def _written_here(store: Store, batch: Batch) -> Exception | None:
    try:
        store.write(batch)
    except Exception as error:
        return error
    return None


class _Writer:
    """A thread that writes what it is given, one batch after the other."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._orders: SimpleQueue[tuple[Batch, Done] | None] = SimpleQueue()
        # A program that is cut short does not wait for it: what it writes was not acknowledged.
        self._thread = Thread(target=self._serve, name="evenhand journal", daemon=True)
        self._token: trio.lowlevel.TrioToken

    def start(self, token: trio.lowlevel.TrioToken) -> None:
        """Begin; `done` is called in the thread of this token."""
        self._token = token
        self._thread.start()

    def write(self, batch: Batch, done: Done) -> None:
        """Write this, and say what went wrong, if anything did."""
        self._orders.put((batch, done))

    def stop(self) -> None:
        """Wait until nothing is written any more."""
        self._orders.put(None)
        self._thread.join()

    def _serve(self) -> None:
        while (order := self._orders.get()) is not None:
            batch, done = order
            error = _written_here(self._store, batch)
            with suppress(trio.RunFinishedError):
                self._token.run_sync_soon(done, error)
