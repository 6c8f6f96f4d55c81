"""Group commit: what was decided and is not safe yet, and who waits for that.

A core without a clock or a disk: the journal writes its batches in a thread, the simulator on virtual time. While one batch is
being written, everything that happens adds to the next one. So a commit costs the same whether one task waits for it or a
thousand: group commit falls out of the waiting. What was held for a batch (answers to people, runs for workers) is
released when the batch is safe, and not before.
"""

from collections.abc import Callable, Iterable, Sequence

from actors.host import Post
from actors.messages import WORKER
from actors.stores.contract import Batch, passing_keys
from actors.table import Noted, Record, Removed
from actors.task import Task

__all__ = ["GroupCommit"]

Release = Callable[[Iterable[Post]], None]

_OF_A_WORKER = WORKER + "/"


class GroupCommit:
    """The batch that is being written, and the one that fills up meanwhile.

    >>> group = GroupCommit()
    >>> told = []
    >>> group.commit([Noted("scheduler", {"weight/alice": 2.0})], ("scheduler", [("ask/1", "done")]), told.extend)
    >>> told, group.take(5.0).notes, group.idle
    ([], {('scheduler', 'weight/alice'): 2.0}, False)
    >>> group.release(group.safe())
    >>> told, group.idle
    ([('scheduler', [('ask/1', 'done')])], True)
    """

    def __init__(self) -> None:
        self.expected: dict[str, int] = {}
        """Submits that were read from the store's inbox and not answered yet: their numbers there by their ids."""
        self.writing = False
        """Whether a batch was taken that is not safe yet."""
        self._batch = Batch()
        self._held: list[Post] = []
        self._going_out: list[Post] = []
        """What waits for the batch that is being written."""
        self._release: Release | None = None

    @property
    def idle(self) -> bool:
        """Whether everything so far is safe, and nobody waits to be told."""
        return not (self.writing or self.waits)

    @property
    def waits(self) -> bool:
        """Whether there is something to be taken."""
        return bool(self._held or not self._batch.empty)

    @property
    def tasks(self) -> int:
        """How many tasks wait to be written."""
        return len(self._batch.tasks)

    def commit(self, records: Sequence[Record], held: Post, release: Release) -> None:
        """Add to the next batch; what is held goes out with it, or at once if it waits for nothing."""
        is_fleeting = self._add(records)
        if held[1]:
            if is_fleeting or self.idle:
                release((held,))
                return
            self._release = release
            self._held.append(held)

    def answer(self, submitted_id: str, refused: str | None) -> None:
        """A submit of the inbox is answered: it means a task that was there already, or it was refused."""
        if (number := self.expected.pop(submitted_id, None)) is not None:
            self._batch.taken[number] = refused

    def take(self, now: float) -> Batch:
        """What is to be written now, which may be nothing; call `safe` when it is."""
        self._going_out, self._held = self._held, []
        batch, self._batch = self._batch, Batch()
        batch.at = now
        self.writing = True
        return batch

    def safe(self) -> list[Post]:
        """What was taken is safe; whoever waited for that, to be released."""
        self.writing = False
        going_out, self._going_out = self._going_out, []
        return going_out

    def release(self, posts: Sequence[Post]) -> None:
        """Tell them."""
        if posts:
            assert self._release is not None, "what is held came with somebody to release it"
            self._release(posts)

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
                if not owner.startswith(_OF_A_WORKER):
                    passing = passing_keys(owner)
                    for key, value in record.values.items():  # type: ignore[union-attr]
                        if not key.startswith(passing):
                            batch.notes[owner, key] = value
            else:
                assert isinstance(record, Removed)
                batch.tasks.pop(record.task_id, None)
                batch.removed[record.task_id] = None
                kept = True
        return fleeting and not kept
