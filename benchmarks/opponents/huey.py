"""huey, put in and executed in one thread, which spares it the contention of its consumer's threads; nothing is logged."""

import logging
import tempfile
import time
from pathlib import Path

import huey


def memory(count: int) -> float:
    """In memory, without results."""
    return _through(huey.MemoryHuey(results=False), count)


def sqlite(count: int) -> float:
    """In a file, at its defaults: flushed at every commit, one to put a task in and one to take it out."""
    with tempfile.TemporaryDirectory() as folder:
        queue = huey.SqliteHuey(filename=str(Path(folder, "huey.db")))
        took = _through(queue, count)
        queue.storage.close()
    return took


def _through(queue: huey.Huey, count: int) -> float:
    logging.disable(logging.INFO)
    noop = queue.task()(lambda payload: None)
    began = time.perf_counter()
    for _ in range(count):
        noop(None)
    for _ in range(count):
        queue.execute(queue.dequeue())
    return time.perf_counter() - began
