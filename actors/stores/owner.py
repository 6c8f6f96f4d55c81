"""One owner: whoever opens a store to run it holds a lock that ends with the process, however that ends.

The lock is the operating system's, on a file beside the store in which the owner has written its process id.
"""

import os
from pathlib import Path

from actors.errors import StoreFailed, StoreInUse

__all__ = ["Owner"]


class Owner:
    """The lock of whoever runs a store; StoreInUse if another has it."""

    def __init__(self, store: Path) -> None:
        try:
            import fcntl
        except ImportError:
            raise StoreFailed(f"{store} cannot be owned: this system has no file locks of the kind needed") from None
        path = store.with_name(store.name + "-owner")
        try:
            self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise StoreFailed(f"{path} could not be opened: {error.strerror}") from None
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            said = os.pread(self._file, 32, 0).decode(errors="replace").strip()
            os.close(self._file)
            raise StoreInUse(
                f"{store} is owned by process {said or 'unknown'}: a store has one owner at a time"
            ) from None
        os.ftruncate(self._file, 0)
        os.pwrite(self._file, f"{os.getpid()}\n".encode(), 0)

    def release(self) -> None:
        """Somebody else may own it. The file stays: to remove it would let two own it at once."""
        os.close(self._file)
