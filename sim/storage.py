"""Simulated storage: a disk on which commits lie one after the other, and which may lose the end of what was written.

A commit is a frame: its length, a checksum, and the batch as bytes. What was flushed stays. Of what was not, a process that is
killed leaves what it had written, and a machine without power leaves it up to some byte. Behind that there are zeros, as where
a file had grown and its data had not come. Whoever reads goes from frame to frame as long as the checksums are right: so
of a torn frame nothing is taken, and nothing behind it either.

What holds is read into a plain store in memory, from which the runtime's own restoring goes on.
"""

from collections.abc import Iterator
from struct import Struct
from typing import Any
from zlib import crc32

import attrs
import msgspec

from actors.stores.contract import Batch
from actors.stores.memory import MemoryStore
from actors.task import Task
from actors.validators import finite, one_of, whole

__all__ = ["Disk", "Storage", "frame_of"]

_HEAD = Struct(">II")


@attrs.frozen(kw_only=True)
class Storage:
    """What keeps tasks where a runtime has a store. Without it nothing is stored, and all is acknowledged at once.

    >>> Storage(synchronous="normal").flush_commits
    16
    """

    commit_seconds: float = attrs.field(default=0.005, validator=finite(0))
    """How long a commit takes."""
    synchronous: str = attrs.field(default="full", validator=one_of(("full", "normal")))
    """Whether the disk is flushed with each commit, `full`, or only with some, `normal`: then a loss of power loses commits."""
    flush_commits: int = attrs.field(default=16, validator=whole(1))
    """With `normal`: with each so many."""


class _Frame(msgspec.Struct, array_like=True):
    """A batch, as it lies on the disk."""

    at: float
    tasks: list[Task]
    removed: list[str]
    notes: list[tuple[str, str, Any]]


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(_Frame).decode


def frame_of(batch: Batch) -> bytes:
    """A batch as the disk has it."""
    notes = [(owner, key, value) for (owner, key), value in batch.notes.items()]
    body = _encode(_Frame(batch.at, list(batch.tasks.values()), list(batch.removed), notes))
    return _HEAD.pack(len(body), crc32(body)) + body


class Disk:
    """Commits that were written since the last restart, and the store that holds all before.

    >>> disk = Disk()
    >>> for at in (1.0, 2.0):
    ...     disk.append(frame_of(Batch(at=at)))
    >>> disk.flush(); disk.append(frame_of(Batch(at=3.0)))
    >>> disk.unflushed > 0, disk.recover(), disk.store.last_at()
    (True, 3, 3.0)
    """

    def __init__(self) -> None:
        self.store = MemoryStore()
        """What was recovered, for somebody to restore from."""
        self._written = bytearray()
        self._flushed = 0

    @property
    def unflushed(self) -> int:
        """How many bytes a loss of power puts at risk."""
        return len(self._written) - self._flushed

    def append(self, frame: bytes) -> None:
        """Write a frame, or what there is of it, behind the others."""
        self._written += frame

    def flush(self) -> None:
        """All that was written stays."""
        self._flushed = len(self._written)

    def lose(self, unflushed: int) -> None:
        """Keep so many bytes of what was not flushed; of the rest there is only its length."""
        kept = self._flushed + unflushed
        self._written[kept:] = bytes(len(self._written) - kept)

    def recover(self) -> int:
        """Read what holds into the store, and begin anew behind it; how many frames there were."""
        count = 0
        for batch in self._batches():
            self.store.write(batch)
            count += 1
        self._written.clear()
        self._flushed = 0
        return count

    def _batches(self) -> Iterator[Batch]:
        place, written = 0, bytes(self._written)
        while place + _HEAD.size <= len(written):
            size, checksum = _HEAD.unpack_from(written, place)
            place += _HEAD.size
            body = written[place : place + size]
            # Zeros are a frame of no length with the right checksum.
            if not size or len(body) < size or crc32(body) != checksum:
                return
            place += size
            yield _batch_of(_decode(body))


def _batch_of(frame: _Frame) -> Batch:
    return Batch(
        at=frame.at,
        tasks={task.id: task for task in frame.tasks},
        removed=dict.fromkeys(frame.removed),
        notes={(owner, key): value for owner, key, value in frame.notes},
    )
