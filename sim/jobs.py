"""A job: one task of a recording, with all that the recording says of it; and the lines of a file of them."""

import gzip
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import msgspec

from actors.errors import InvalidConfig
from actors.task import Priority

__all__ = ["Execution", "Job", "lines_of"]

_GZIP = b"\x1f\x8b"


class Execution(msgspec.Struct, frozen=True, array_like=True, omit_defaults=True):
    """How one execution went: how long it took, and what was wrong with it if anything was."""

    seconds: float
    error: str | None = None
    retry_after_seconds: float | None = None
    """When a failed one was tried again; None if it was not."""


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """One task of a recording."""

    at_seconds: float
    """When it was submitted, from the beginning of the recording."""
    user: str
    kind: str
    priority: Priority = Priority.NORMAL
    cost: float | None = None
    delay_seconds: float | None = None
    expires_after_seconds: float | None = None
    max_retries: int | None = None
    waited_seconds: float | None = None
    """What it waited for its first start, if it had one and that is known."""
    executions: tuple[Execution, ...] = ()
    """Those that came to an end of their own."""


def lines_of(path: str) -> Iterator[tuple[int, bytes]]:
    """The lines of a file with their numbers, unpacked if they are packed; InvalidConfig if it cannot be read."""
    try:
        with Path(path).open("rb") as file:
            packed = file.read(len(_GZIP)) == _GZIP
            file.seek(0)
            lines: BinaryIO | gzip.GzipFile = gzip.GzipFile(fileobj=file) if packed else file
            yield from enumerate(lines, start=1)
    except (OSError, EOFError, ValueError, zlib.error) as error:
        raise InvalidConfig(f"workload {path} must be a file that can be read: {error}") from None
