"""What Evenhand is asked to do, in full. Each function gives the seconds that it took, or one number for each thing it saw."""

import tempfile
import time
from pathlib import Path

import trio

from actors import NewTask, open_runtime
from benchmarks.work import DURABLE_WORKERS, LOAD, PER_SECOND, USERS, WORKERS, Countdown
from sim import Exponential, Kind, Poisson, Runtime, Scenario, User, simulate

_WINDOWS = 5
"""So often is measured how fast tasks come and go beside a long queue, which takes long to fill."""


def submit_many(count: int) -> float:
    """All in one call."""
    return trio.run(_submit_many, count, None)


def recorded(count: int) -> float:
    """The same, with every event written to a file."""
    with tempfile.TemporaryDirectory() as folder:
        return trio.run(_submit_many, count, str(Path(folder, "run.jsonl")))


def submit_awaited(count: int) -> float:
    """One after the other, each acknowledged before the next."""
    return trio.run(_submit_awaited, count)


def with_users(count: int, users: int) -> float:
    """Every user has work waiting before the first task is run, and the workers are kept busy."""
    return trio.run(_with_users, count, users)


def with_queued(count: int, queued: int) -> float:
    """So many tasks wait while others come and go beside them."""
    return trio.run(_with_queued, count, queued)


def latency(count: int) -> list[float]:
    """Submit to the first line of the handler, at a load that leaves the workers idle."""
    return trio.run(_latency, count)


def durable_full(count: int) -> float:
    """Everything that was acknowledged survives the loss of power."""
    return _durable(count, "full")


def durable_normal(count: int) -> float:
    """Everything that was acknowledged survives kill -9."""
    return _durable(count, "normal")


def durable_workers_memory(count: int) -> float:
    """As the durable ones, without a store."""
    return trio.run(_to_the_end, count, "memory", "full")


def simulate_mm8(jobs: int) -> float:
    """With the trace and every invariant."""
    rate = WORKERS * LOAD
    kind = Kind(name="work", service=Exponential(mean_seconds=1.0))
    user = User(name="alice", arrivals=(Poisson(kind="work", per_second=rate),))
    scenario = Scenario(
        name="mm8", duration_seconds=jobs / rate, kinds=(kind,), users=(user,), runtime=Runtime(workers=WORKERS)
    )
    began = time.perf_counter()
    result = simulate(scenario)
    took = time.perf_counter() - began
    assert result.passed
    # So many are expected to arrive; how many did is drawn.
    return took * jobs / result.jobs


def _tasks(count: int, users: int = USERS, kind: str = "noop") -> list[NewTask]:
    return [NewTask(kind, None, user=f"user{number % users}") for number in range(count)]


async def _submit_many(count: int, record: str | None) -> float:
    async with open_runtime(workers=WORKERS, record=record) as runtime:
        countdown = Countdown(count)
        runtime.handler("noop")(countdown)
        tasks = _tasks(count)
        began = time.perf_counter()
        await runtime.submit_many(tasks)
        await countdown.done.wait()
        return time.perf_counter() - began


async def _submit_awaited(count: int) -> float:
    async with open_runtime(workers=WORKERS) as runtime:
        countdown = Countdown(count)
        runtime.handler("noop")(countdown)
        began = time.perf_counter()
        for number in range(count):
            await runtime.submit("noop", None, user=f"user{number % USERS}")
        await countdown.done.wait()
        return time.perf_counter() - began


async def _with_users(count: int, users: int) -> float:
    async with open_runtime(workers=WORKERS) as runtime:
        # One for each user, so that all are active, and those that are counted.
        tasks = _tasks(users + count, users)
        countdown = Countdown(len(tasks))
        runtime.handler("noop")(countdown)
        await runtime.pause()
        began = time.perf_counter()
        await runtime.submit_many(tasks)
        await runtime.resume()
        await countdown.done.wait()
        return (time.perf_counter() - began) * count / len(tasks)


async def _with_queued(count: int, queued: int) -> float:
    async with open_runtime(workers=WORKERS, stop_grace_seconds=0) as runtime:
        # Of a kind that nobody runs, so that they stay.
        await runtime.submit_many(_tasks(queued, kind="later"))
        best = float("inf")
        for number in range(_WINDOWS):
            countdown = Countdown(count)
            runtime.handler(f"noop{number}")(countdown)
            tasks = _tasks(count, kind=f"noop{number}")
            began = time.perf_counter()
            await runtime.submit_many(tasks)
            await countdown.done.wait()
            best = min(best, time.perf_counter() - began)
        return best


async def _latency(count: int) -> list[float]:
    waits: list[float] = []
    async with open_runtime(workers=WORKERS) as runtime:

        @runtime.handler("noop")
        async def noop(submitted_at: float) -> None:
            waits.append(time.perf_counter() - submitted_at)

        for number in range(count):
            await trio.sleep(1 / PER_SECOND)
            await runtime.submit("noop", time.perf_counter(), user=f"user{number % USERS}")
    return waits


def _durable(count: int, synchronous: str) -> float:
    with tempfile.TemporaryDirectory() as folder:
        return trio.run(_to_the_end, count, f"sqlite:{Path(folder, 'tasks.db')}", synchronous)


async def _to_the_end(count: int, store: str, synchronous: str) -> float:
    async with open_runtime(store, workers=DURABLE_WORKERS, store_synchronous=synchronous) as runtime:
        countdown = Countdown(count)
        runtime.handler("noop")(countdown)
        tasks = _tasks(count)
        began = time.perf_counter()
        handles = await runtime.submit_many(tasks)
        await countdown.done.wait()
        # The last that began are not the last that are safe.
        for handle in handles[-2 * DURABLE_WORKERS :]:
            await handle.wait()
        return time.perf_counter() - began
