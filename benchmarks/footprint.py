"""What Evenhand takes: memory for a task that waits, time and memory to import it."""

import gc
import os
import subprocess
import sys
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import trio

from actors import NewTask, open_runtime
from benchmarks.contestant import BYTES, MEGABYTES, SECONDS, Comparison, Contestant, Subject
from benchmarks.work import USERS

# Interpreters start in about the same time whatever they import, so it is left out.
_IMPORT = "import time; began = time.perf_counter(); import {}; print(time.perf_counter() - began)"
_RESIDENT = "import {}, os; print(int(open('/proc/self/statm').read().split()[1]) * os.sysconf('SC_PAGE_SIZE'))"
_TRIES = 3
_AT_ONCE = 1_000


def _contestant(
    function: str, title: str, amounts: tuple[int, ...] = (1,), quick: tuple[int, ...] = (1,)
) -> Contestant:
    return Contestant(f"benchmarks.footprint:{function}", title, amounts, quick, warm=False)


SUBJECT = Subject(
    name="footprint",
    about="memory for a waiting task besides its payload, and what an import takes",
    limit=(
        "A task is one frozen record of about thirty fields, its id, and its entries in the table and in one lane. "
        "Importing trio is most of the import; the rest is making classes."
    ),
    contestants={
        "bytes_core": Contestant(
            "benchmarks.cores:bytes_a_task", "traced in the cores", (100_000,), (200,), warm=False
        ),
        "bytes_runtime": _contestant("bytes_a_queued_task", "traced in a whole runtime", (100_000,), (200,)),
        "rss_runtime": _contestant("resident_bytes_a_queued_task", "resident in a whole runtime", (200_000,), (200,)),
        "import_actors": _contestant("import_actors", "import actors"),
        "import_trio": _contestant("import_trio", "import trio"),
        "resident_actors": _contestant("resident_actors", "resident after import actors"),
        "resident_trio": _contestant("resident_trio", "resident after import trio"),
    },
    comparisons=(
        Comparison("core_bytes_a_queued_task", "bytes_core", 600.0, BYTES),
        Comparison("runtime_bytes_a_queued_task", "bytes_runtime", 600.0, BYTES),
        Comparison("runtime_resident_bytes_a_queued_task", "rss_runtime", "bytes_runtime", BYTES),
        Comparison("footprint_import_actors", "import_actors", "import_trio", SECONDS),
        Comparison("footprint_resident_actors", "resident_actors", "resident_trio", MEGABYTES),
    ),
)


def import_actors(_: int) -> float:
    """Seconds, in a fresh interpreter that has been started."""
    return _in_fresh_interpreters(_IMPORT.format("actors"))


def import_trio(_: int) -> float:
    """The same for what it stands on."""
    return _in_fresh_interpreters(_IMPORT.format("trio"))


def resident_actors(_: int) -> float:
    """Bytes that are resident then."""
    return _in_fresh_interpreters(_RESIDENT.format("actors"))


def resident_trio(_: int) -> float:
    """The same for what it stands on."""
    return _in_fresh_interpreters(_RESIDENT.format("trio"))


def bytes_a_queued_task(count: int) -> float:
    """As Python counts them, handles and payloads left out."""
    tracemalloc.start()
    return trio.run(_filled, count, lambda: tracemalloc.get_traced_memory()[0])


def resident_bytes_a_queued_task(count: int) -> float:
    """As the system counts them: with what the allocator keeps for itself."""
    return trio.run(_filled, count, resident_bytes)


def resident_bytes() -> int:
    """Of this process, as Linux has it."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


async def _filled(count: int, bytes_now: Callable[[], int]) -> float:
    async with open_runtime(stop_grace_seconds=0) as runtime:
        await runtime.submit("later", None)
        gc.collect()
        before = bytes_now()
        for first in range(0, count, _AT_ONCE):
            numbers = range(first, min(first + _AT_ONCE, count))
            await runtime.submit_many(NewTask("later", None, user=f"user{number % USERS}") for number in numbers)
        gc.collect()
        return (bytes_now() - before) / count


def _in_fresh_interpreters(code: str) -> float:
    """The least of several, of which the first may have to compile."""
    runs = (
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True) for _ in range(_TRIES)
    )
    return min(float(run.stdout) for run in runs)
