"""The durable runtime against raw SQLite, one transaction a task, and against a peer; from interleaved rounds of one run.

All on one file each, flushed at every commit. What limits the runtime: a worker runs one task a commit, because a task
is only run when its claim is safe, so tasks/s <= workers / seconds of a commit; and with many workers the interpreter.
"""

import gc
import importlib
import sqlite3
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import trio

from actors import NewTask, open_runtime
from benchmarks.report import Figure
from benchmarks.runtime import Countdown

WORKERS = 64
USERS = 10


def measure(tasks: int, rounds: int) -> Iterator[Figure]:
    """Submit to completed, the best of several rounds; the slow ones do a tenth of the tasks."""
    subjects: dict[str, tuple[Callable[[int, Path], float], int]] = {
        "full": (lambda count, folder: trio.run(_evenhand, count, folder, "full"), tasks),
        "normal": (lambda count, folder: trio.run(_evenhand, count, folder, "normal"), tasks),
        "memory": (lambda count, folder: trio.run(_evenhand, count, None, "full"), tasks),
        "raw": (_raw, max(1, tasks // 10)),
    }
    try:
        huey = importlib.import_module("huey")
    except ImportError:
        print("durable_full_peer: skipped, huey is not installed (the bench extra has it)", file=sys.stderr)
    else:
        subjects["huey"] = (lambda count, folder: _huey(huey, count, folder), max(1, tasks // 10))
    best = dict.fromkeys(subjects, 0.0)
    for _ in range(rounds):
        for name, (run, count) in subjects.items():
            gc.collect()
            with tempfile.TemporaryDirectory() as folder:
                best[name] = max(best[name], count / run(count, Path(folder)))
    yield _figure("durable_full", best["full"], "raw SQLite, a transaction a task", best["raw"])
    yield _figure("durable_normal", best["normal"], "synchronous full", best["full"])
    yield _figure("durable_full_of_memory", best["full"], "in memory", best["memory"])
    if "huey" in best:
        yield _figure("durable_full_peer", best["full"], f"huey {huey.__version__} SqliteHuey", best["huey"])


def _figure(name: str, per_second: float, against: str, other: float) -> Figure:
    return Figure(name, per_second, "tasks/s", against, per_second / other)


async def _evenhand(count: int, folder: Path | None, synchronous: str) -> float:
    store = "memory" if folder is None else f"sqlite:{folder / 'tasks.db'}"
    async with open_runtime(store, workers=WORKERS, store_synchronous=synchronous) as runtime:
        countdown = Countdown(count)
        runtime.handler("noop")(countdown)
        tasks = [NewTask("noop", None, user=f"user{number % USERS}") for number in range(count)]
        began = time.perf_counter()
        handles = await runtime.submit_many(tasks)
        await countdown.done.wait()
        # The last that began are not the last that are safe.
        for handle in handles[-2 * WORKERS :]:
            await handle.wait()
        return time.perf_counter() - began


def _raw(count: int, folder: Path) -> float:
    """Nothing but a row for each task, in a transaction of its own."""
    connection = sqlite3.connect(folder / "raw.db", isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("CREATE TABLE tasks (id INTEGER PRIMARY KEY, record TEXT)")
    began = time.perf_counter()
    for number in range(count):
        connection.execute("INSERT INTO tasks VALUES (?, ?)", (number, "{}"))
    took = time.perf_counter() - began
    connection.close()
    return took


def _huey(huey: Any, count: int, folder: Path) -> float:
    """Enqueued and executed in one thread, which spares it the contention of its consumer's."""
    queue = huey.SqliteHuey(filename=str(folder / "huey.db"))
    noop = queue.task()(lambda payload: None)
    began = time.perf_counter()
    for number in range(count):
        noop(number)
    for _ in range(count):
        queue.execute(queue.dequeue())
    return time.perf_counter() - began
