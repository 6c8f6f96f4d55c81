"""Recording: every event of a runtime in a file, in the form that the simulator writes and replays.

Events are encoded in batches and written by a thread, so that a slow disk does not hold up the program. What a disk cannot
keep up with is left out, and where it was left out the file says so. A disk that fails ends the recording, not the
runtime: `health()` tells.
"""

import time
from collections import deque
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

import trio

from actors.errors import InvalidConfig
from actors.trace import Event, Header, Skipped, encode_events

__all__ = ["Recorder", "recording_path"]

_BATCH = 512
_BACKLOG_BYTES_MAX = 64 * 1024 * 1024
"""What may wait for the disk."""
_FLUSH_SECONDS = 1.0


def recording_path(record: str, started_at: float) -> Path:
    """The file that is meant, with the time in it if it is asked for.

    >>> recording_path("runs/{time}.jsonl", 0.0).name
    '19700101T000000Z.jsonl'
    """
    return Path(record.replace("{time}", time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(started_at))))


class Recorder:
    """Writes events to a file."""

    def __init__(self, path: Path, header: Header) -> None:
        self.path = path
        self.error: str | None = None
        """Why nothing is recorded any more, if that is so."""
        self._file = _opened(path, header)
        self._batch: list[Event] = []
        self._encoded: deque[bytes] = deque()
        self._bytes = 0
        self._skipped = 0
        self._skipped_at = 0.0
        self._wanted = trio.Event()
        self._finished = False
        # Its own, because the program may keep all threads of the common one busy for as long as it likes.
        self._limiter = trio.CapacityLimiter(1)

    def on_event(self, event: Event) -> None:
        """Something happened."""
        self._batch.append(event)
        if self._finished:
            self._append()
        elif len(self._batch) >= _BATCH:
            self._encode()
            self._wanted.set()

    async def run(self) -> None:
        """Write what there is, every second or when there is much, and the rest when cancelled."""
        try:
            while True:
                self._encode()
                await self._write()
                with trio.move_on_after(_FLUSH_SECONDS):
                    await self._wanted.wait()
                self._wanted = trio.Event()
        finally:
            self._finish()

    def _finish(self) -> None:
        """Write the rest now, whatever is cancelled, and be done."""
        self._finished = True
        self._encode()
        if self._skipped and self.error is None:
            self._encoded.append(encode_events([Skipped(self._skipped_at, self._skipped)]))
        try:
            with self._file:
                if self.error is None:
                    self._write_now(b"".join(self._encoded))
        except OSError as error:
            self.error = self._said(error)

    def _append(self) -> None:
        """Write what happens while others still come to their end: nobody is left to write it later."""
        batch, self._batch = self._batch, []
        try:
            if self.error is None:
                with self.path.open("ab") as file:
                    file.write(encode_events(batch))
        except OSError as error:
            self.error = self._said(error)

    def _encode(self) -> None:
        batch, self._batch = self._batch, []
        if not batch or self.error is not None:
            return
        if self._bytes > _BACKLOG_BYTES_MAX:
            self._skipped += len(batch)
            self._skipped_at = batch[-1].at
            return
        if self._skipped:
            batch.insert(0, Skipped(self._skipped_at, self._skipped))
            self._skipped = 0
        lines = encode_events(batch)
        self._encoded.append(lines)
        self._bytes += len(lines)

    async def _write(self) -> None:
        while self._encoded and self.error is None:
            lines = b"".join(self._encoded)
            self._encoded.clear()
            self._bytes = 0
            try:
                with trio.CancelScope(shield=True):
                    await trio.to_thread.run_sync(self._write_now, lines, limiter=self._limiter)
            except OSError as error:
                self.error = self._said(error)
                self._encoded.clear()

    def _said(self, error: OSError) -> str:
        return f"{self.path} can be written no more: {error}"

    def _write_now(self, lines: bytes) -> None:
        self._file.write(lines)
        self._file.flush()


def _opened(path: Path, header: Header) -> BinaryIO:
    """The file, with the header in it: whether it can be written is known before anything is to be recorded."""
    lines = encode_events([header])
    try:
        file = path.open("wb")
        try:
            file.write(lines)
            file.flush()
        except OSError:
            # To close it is to try the same again.
            with suppress(OSError):
                file.close()
            raise
    except (OSError, ValueError) as error:
        raise InvalidConfig(f"record must be a file that can be written, got {str(path)!r}: {error}") from None
    return file
