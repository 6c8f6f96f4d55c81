"""The journal of a simulated runtime: the same group commit, with storage and a latency of its own, and with its faults.

The run asks when the next commit is done, as it asks the host for its next timer. A batch is taken only when nothing is under
way, as on real time. A commit that fails ends the process, and so does a kill: what comes after that is `lives.py`.
"""

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from actors.actor import NEVER
from actors.commits import GroupCommit, Release
from actors.host import Post
from actors.stores.contract import Batch
from actors.table import Record
from sim.faults import AmbiguousWrite, Kill, PowerLoss, StoreStall, WriteError
from sim.injection import Injection
from sim.storage import Disk, Storage, frame_of

__all__ = ["SimulatedJournal"]

_COMMIT = "commit"


class SimulatedJournal:
    """Writes batches onto a simulated disk, life after life.

    `mark` is called when a batch is taken, and says what the run came to up to then: of the last batch that holds, this is what
    the next life must begin with. `end` is called when a commit ends the process: with how long it is gone.
    """

    def __init__(
        self,
        storage: Storage,
        injection: Injection,
        mark: Callable[[], Any],
        end: Callable[[float], None],
        tells_early: bool = False,
    ) -> None:
        self.commits = 0
        """How many batches were made safe, in all lives."""
        self.done_at = NEVER
        """When the next commit is done, or its process ends in the midst of it."""
        self.planned: deque[tuple[int, Kill]] = deque()
        """Kills that are to come with the next commits, one with each."""
        self._storage = storage
        self._injection = injection
        self._mark = mark
        self._end = end
        self._tells_early = tells_early
        """The planted mistake: nobody waits for a commit."""
        self._disk = Disk()
        self._group = GroupCommit()
        self._begun = 0
        self._frame = b""
        self._marks: list[Any] = []
        """One for each frame on the disk, and for the one that is being written."""
        self._ended_with: Any = None
        """What the last batch of the store that the disk began with came to."""

    def commit(self, records: Sequence[Record], held: Post, release: Release) -> None:
        """Add to the next batch."""
        if self._tells_early and held[1]:
            release((held,))
            held = (held[0], ())
        self._group.commit(records, held, release)

    def begin(self, now: float) -> bool:
        """Write what there is, unless something is being written; whether somebody was told something without that."""
        if self.done_at != NEVER or not self._group.waits:
            return False
        batch = self._group.take(now)
        if batch.empty:
            return self._tell()
        self._write(batch, now)
        return False

    def act(self, now: float) -> None:
        """The commit is done."""
        self.done_at = NEVER
        if self._is_killed("writing"):
            return
        if self._fails(WriteError):
            return
        self._disk.append(self._frame)
        self._frame = b""
        if self._storage.synchronous == "full" or self._begun % self._storage.flush_commits == 0:
            self._disk.flush()
        if self._is_killed("written"):
            return
        if self._fails(AmbiguousWrite):
            return
        self.commits += 1
        self._tell()

    def kill(self, number: int, fault: Kill | PowerLoss) -> None:
        """The process ends, or the machine."""
        self._injection.fire(number, self._doing() if self._frame else f"after {self._doing()}")
        self._interrupt(number, fault)
        self._end(fault.back_after_seconds)

    def begin_life(self) -> Any:
        """Read what the disk holds: the store is `recovered`. What was taken down for the last batch of it, or None."""
        count = self._disk.recover()
        if count:
            self._ended_with = self._marks[count - 1]
        self._marks.clear()
        self._group = GroupCommit()
        self.done_at, self._frame = NEVER, b""
        return self._ended_with

    @property
    def recovered(self) -> Any:
        """The store that the last life left behind."""
        return self._disk.store

    # One commit

    def _tell(self) -> bool:
        told = self._group.safe()
        self._group.release(told)
        return bool(told)

    def _write(self, batch: Batch, now: float) -> None:
        self._begun += 1
        self._marks.append(self._mark())
        self._frame = frame_of(batch)
        seconds = self._storage.commit_seconds
        for number in self._injection.of(StoreStall):
            if self._injection.strikes(number, _COMMIT, self._begun):
                stall = self._injection.faults[number]
                assert isinstance(stall, StoreStall), "these are"
                self._injection.fire(number, f"{_COMMIT} {self._begun}")
                seconds += stall.seconds
        if self.planned and self.planned[0][1].when == "writing":
            seconds /= 2
        self.done_at = now + seconds

    def _fails(self, kind: type[WriteError] | type[AmbiguousWrite]) -> bool:
        """Whether this commit fails so: then the process ends."""
        for number in self._injection.of(kind):
            if self._injection.strikes(number, _COMMIT, self._begun):
                fault = self._injection.faults[number]
                assert isinstance(fault, WriteError | AmbiguousWrite), "these are"
                self._injection.fire(number, self._doing())
                self._end(fault.back_after_seconds)
                return True
        return False

    def _is_killed(self, when: str) -> bool:
        if not self.planned or self.planned[0][1].when != when:
            return False
        self.kill(*self.planned.popleft())
        return True

    def _interrupt(self, number: int, fault: Kill | PowerLoss) -> None:
        """What becomes of the bytes of a commit that was under way, and of those that were never flushed."""

        def lot(what: str) -> float:
            return self._injection.draw(number, what, _COMMIT, self._begun)

        if self._frame:
            # Not there, torn, or whole.
            there = int(3 * lot("frame"))
            kept = (0, int(lot("torn") * len(self._frame)), len(self._frame))[there]
            self._disk.append(self._frame[:kept] + bytes(len(self._frame) - kept))
        if isinstance(fault, PowerLoss):
            self._disk.lose(int(lot("lost") * (self._disk.unflushed + 1)))

    def _doing(self) -> str:
        return f"{_COMMIT} {self._begun}"
