"""litequeue: SQLite with `synchronous=NORMAL`, which it sets itself; a commit each to put, to take and to finish."""

import tempfile
import time
from pathlib import Path

from litequeue import LiteQueue


def put_pop_done(count: int) -> float:
    """Everything is put, then popped and done."""
    with tempfile.TemporaryDirectory() as folder:
        queue = LiteQueue(Path(folder, "queue.db"))
        began = time.perf_counter()
        for _ in range(count):
            queue.put("null")
        for _ in range(count):
            queue.done(queue.pop().message_id)
        took = time.perf_counter() - began
        queue.close()
    return took
