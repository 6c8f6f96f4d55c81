"""A file of SQLite's with many tasks: what a change costs beside few, and what it takes to come back from it.

Growth is measured on the store alone: many tasks in one commit, so that it is not the disk that is measured, on files that have
few and many pending tasks beside, sizes interleaved. Coming back is measured in a process of its own: `open_runtime` until its
block begins, and the most memory that the process ever had. Run with `python -m benchmarks.stored [--json] [--quick]`.
"""

import argparse
import gc
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import attrs
import trio
from msgspec.structs import replace

from actors import Status, Task, open_runtime
from actors.ids import derived_id
from actors.stores.contract import Batch, Listing
from actors.stores.sqlite import SqliteStore

FEW = 1_000
USERS = 100
AT_ONCE = 256
_FILLED_AT_ONCE = 10_000
_USER = "user7"


@attrs.frozen
class Figure:
    """Something that was measured, and beside what."""

    name: str
    value: float
    unit: str
    against: str
    ratio: float


class _Subject:
    """A store with so many pending tasks, to which more come and go."""

    def __init__(self, path: Path, count: int) -> None:
        self.store = SqliteStore(path, "normal")
        fill(self.store, count)
        self._sequence = count

    def laps(self) -> dict[str, float]:
        """The seconds of each change to as many tasks as go into one commit, and of a page of a listing."""
        tasks = [task_of(self._sequence + number) for number in range(1, AT_ONCE + 1)]
        self._sequence += AT_ONCE
        claimed = [replace(task, status=Status.IN_PROGRESS, token=1, attempts=1) for task in tasks]
        ended = [replace(task, status=Status.COMPLETED, completed_at=float(task.sequence)) for task in claimed]
        return {
            "submit": _seconds(lambda: self._write(tasks)),
            "claim": _seconds(lambda: self._write(claimed)),
            "complete": _seconds(lambda: self._write(ended)),
            "list": _seconds(lambda: self.store.listed(Listing(status=Status.PENDING, user=_USER, limit=10))),
            "sweep": _seconds(lambda: self.store.write(Batch(removed={task.id: None for task in tasks}))),
        }

    def _write(self, tasks: list[Task]) -> None:
        self.store.write(Batch(at=float(self._sequence), tasks={task.id: task for task in tasks}))


def measure(many: int, rounds: int) -> Iterator[Figure]:
    """Growth of each change, and what coming back costs."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "many.db")
        with ExitStack() as stack:
            subjects = {
                count: _Subject(Path(folder, name), count) for count, name in ((FEW, "few.db"), (many, path.name))
            }
            for subject in subjects.values():
                stack.enter_context(closing(subject.store))
            yield from _growth(subjects, many, rounds)
        size = path.stat().st_size / 1e6
        seconds, of_cpu, megabytes = _restored(path)
    yield Figure(f"stored_restore_{many}", seconds, "s", f"{of_cpu:.1f} s of processor time", seconds / of_cpu)
    yield Figure("stored_restore_memory", megabytes, "MB", "its file", megabytes / size)


def _growth(subjects: dict[int, _Subject], many: int, rounds: int) -> Iterator[Figure]:
    best: dict[tuple[int, str], float] = {}
    for _ in range(rounds):
        for count, subject in subjects.items():
            gc.collect()
            for name, seconds in subject.laps().items():
                best[count, name] = min(best.get((count, name), seconds), seconds)
    for count, name in best:
        if count == many:
            micros = best[many, name] / (1 if name == "list" else AT_ONCE) * 1e6
            yield Figure(f"stored_{name}_{many}", micros, "us", f"{FEW:,} stored", best[many, name] / best[FEW, name])


def fill(store: SqliteStore, count: int) -> None:
    """Have so many pending tasks in a store."""
    for first in range(1, count + 1, _FILLED_AT_ONCE):
        tasks = [task_of(number) for number in range(first, min(count + 1, first + _FILLED_AT_ONCE))]
        last = tasks[-1].sequence
        notes = {("queue", "sequence"): last}
        store.write(Batch(at=float(last), tasks={task.id: task for task in tasks}, notes=notes))


def task_of(number: int) -> Task:
    """A small pending task."""
    at = float(number)
    return Task(
        id=derived_id(f"stored/{number}", at),
        user=f"user{number % USERS}",
        kind="noop",
        sequence=number,
        created_at=at,
        updated_at=at,
        order_at=at,
        payload={"n": number},
    )


def _seconds(act: Callable[[], object]) -> float:
    """Of processor time: nothing is flushed here, so nobody waits but for others on the machine."""
    began = time.process_time()
    act()
    return time.process_time() - began


def _restored(path: Path) -> tuple[float, float, float]:
    """Seconds, those of processor time, and megabytes, from a process that does nothing else."""
    command = [sys.executable, "-m", "benchmarks.stored", "--open", str(path)]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    return float(said[0]), float(said[1]), float(said[2])


async def _open(path: str) -> None:
    began, began_cpu = time.perf_counter(), time.process_time()
    async with open_runtime(f"sqlite:{path}", workers=64):
        seconds, of_cpu = time.perf_counter() - began, time.process_time() - began_cpu
        # In kilobytes on Linux, in bytes on macOS.
        unit = 1e6 if sys.platform == "darwin" else 1e3
        print(seconds, of_cpu, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.stored", description="What a large file costs.")
    parser.add_argument("--json", action="store_true", help="one JSON object a line")
    parser.add_argument("--quick", action="store_true", help="smaller and rougher")
    parser.add_argument("--open", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.open is not None:
        trio.run(_open, arguments.open)
        return
    for figure in measure(many=20_000 if arguments.quick else 1_000_000, rounds=3 if arguments.quick else 20):
        if arguments.json:
            print(json.dumps(attrs.asdict(figure)), flush=True)
        else:
            said = f"{figure.value:>12,.2f} {figure.unit:<4} {figure.ratio:>8.3f} of {figure.against}"
            print(f"{figure.name:<28} {said}", flush=True)


if __name__ == "__main__":
    main()
