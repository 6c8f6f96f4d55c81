"""The runtime on real time against what it is made of, and against a peer; every ratio from interleaved rounds of one run."""

import asyncio
import gc
import logging
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import taskiq
import trio

from actors import NewTask, Runtime, open_runtime
from benchmarks.report import Figure

WORKERS = 8
USERS = 10
_QUEUED = 100
"""The bound of the channel that is fed with `await send`: with none, nobody would ever wait."""


def measure(tasks: int, many: int, seconds: float, rounds: int) -> Iterator[Figure]:
    """Each figure the best of several rounds, interleaved with what it is compared with."""
    yield from _throughput(tasks, rounds)
    yield from _growth(tasks, many, rounds)
    yield from _latency(seconds)


def _throughput(tasks: int, rounds: int) -> Iterator[Figure]:
    subjects: dict[str, Callable[[int], float]] = {
        "channel_nowait": lambda count: trio.run(_channel_nowait, count),
        "channel_await": lambda count: trio.run(_channel_await, count),
        "submit_many": lambda count: trio.run(_submit_many, count, None),
        "submit_awaited": lambda count: trio.run(_submit_awaited, count),
        "recorded": _recorded,
        "taskiq": lambda count: asyncio.run(_taskiq(count)),
    }
    best = dict.fromkeys(subjects, 0.0)
    for _ in range(rounds):
        for name, run in subjects.items():
            gc.collect()
            best[name] = max(best[name], tasks / run(tasks))
    peer = f"taskiq {taskiq.__version__} InMemoryBroker"
    yield _figure("runtime_channel_send_nowait", best["channel_nowait"], "itself", best["channel_nowait"])
    yield _figure("runtime_submit_many", best["submit_many"], "trio channel, send_nowait", best["channel_nowait"])
    yield _figure("runtime_submit_awaited", best["submit_awaited"], "trio channel, await send", best["channel_await"])
    yield _figure("runtime_submit_awaited_peer", best["submit_awaited"], peer, best["taskiq"])
    yield _figure("runtime_recorded", best["recorded"], "not recorded", best["submit_many"])


def _growth(tasks: int, many: int, rounds: int) -> Iterator[Figure]:
    by_users = dict.fromkeys((10, min(10_000, many)), 0.0)
    by_queue = dict.fromkeys((1_000, many), 0.0)
    for _ in range(max(1, rounds - 2)):
        for users in by_users:
            by_users[users] = max(by_users[users], tasks / trio.run(_with_users, tasks, users))
        for queued in by_queue:
            by_queue[queued] = max(by_queue[queued], 1_000 / trio.run(_with_queued, 1_000, queued))
    (few, slow), (most, fast) = by_users.items()
    yield Figure(f"runtime_growth_{few}_to_{most}_users", 1e6 / fast, "us/task", f"{few} users", slow / fast)
    (few, slow), (most, fast) = by_queue.items()
    yield Figure(f"runtime_growth_{few}_to_{most}_queued", 1e6 / fast, "us/task", f"{few} queued", slow / fast)


def _latency(seconds: float) -> Iterator[Figure]:
    waits = trio.run(_at_a_hundred_a_second, seconds)
    cuts = statistics.quantiles(waits, n=100)
    yield Figure("runtime_latency_p50", cuts[49] * 1e3, "ms", "0.5 ms", cuts[49] / 0.5e-3)
    yield Figure("runtime_latency_p99", cuts[98] * 1e3, "ms", "2 ms", cuts[98] / 2e-3)


def _figure(name: str, per_second: float, against: str, other: float) -> Figure:
    return Figure(name, per_second, "tasks/s", against, per_second / other)


# What is measured: each gives the seconds that it took


async def _channel_nowait(count: int) -> float:
    send, receive = trio.open_memory_channel[int](count)

    async def feed() -> None:
        for number in range(count):
            send.send_nowait(number)

    return await _consume(send, receive, feed)


async def _channel_await(count: int) -> float:
    send, receive = trio.open_memory_channel[int](_QUEUED)

    async def feed() -> None:
        for number in range(count):
            await send.send(number)

    return await _consume(send, receive, feed)


async def _consume(send: Any, receive: Any, feed: Callable[[], Any]) -> float:
    async def handler(number: int) -> None:
        pass

    async def worker() -> None:
        async for number in receive.clone():
            await handler(number)

    began = time.perf_counter()
    async with trio.open_nursery() as nursery:
        for _ in range(WORKERS):
            nursery.start_soon(worker)
        await feed()
        send.close()
    return time.perf_counter() - began


class Countdown:
    """A handler that does nothing but count, and says when all were there."""

    def __init__(self, count: int) -> None:
        self.left = count
        self.done = trio.Event()

    async def __call__(self, payload: Any) -> None:
        self.left -= 1
        if not self.left:
            self.done.set()


async def _submit_many(count: int, record: str | None, users: int = USERS) -> float:
    async with open_runtime(workers=WORKERS, record=record) as runtime:
        countdown = Countdown(count)
        runtime.handler("noop")(countdown)
        tasks = [NewTask("noop", None, user=f"user{number % users}") for number in range(count)]
        began = time.perf_counter()
        await runtime.submit_many(tasks)
        await countdown.done.wait()
        return time.perf_counter() - began


def _recorded(count: int) -> float:
    with tempfile.TemporaryDirectory() as folder:
        return trio.run(_submit_many, count, str(Path(folder, "run.jsonl")))


async def _submit_awaited(count: int) -> float:
    async with open_runtime(workers=WORKERS) as runtime:
        countdown = Countdown(count)
        runtime.handler("noop")(countdown)
        began = time.perf_counter()
        for number in range(count):
            await runtime.submit("noop", None, user=f"user{number % USERS}")
        await countdown.done.wait()
        return time.perf_counter() - began


async def _taskiq(count: int) -> float:
    logging.disable(logging.INFO)
    broker = taskiq.InMemoryBroker(max_stored_results=1)
    left, done = count, asyncio.Event()

    @broker.task
    async def noop(payload: Any) -> None:
        nonlocal left
        left -= 1
        if not left:
            done.set()

    await broker.startup()
    began = time.perf_counter()
    for _ in range(count):
        await noop.kiq(None)
    await done.wait()
    took = time.perf_counter() - began
    await broker.shutdown()
    return took


async def _with_users(count: int, users: int) -> float:
    """Every user has work waiting before the clock starts, and the workers are kept busy."""
    async with open_runtime(workers=WORKERS) as runtime:
        countdown = Countdown(count + users)
        runtime.handler("noop")(countdown)
        await runtime.pause()
        await runtime.submit_many(NewTask("noop", None, user=f"user{number}") for number in range(users))
        began = time.perf_counter()
        await runtime.submit_many(NewTask("noop", None, user=f"user{number % users}") for number in range(count))
        await runtime.resume()
        await countdown.done.wait()
        return (time.perf_counter() - began) * count / (count + users)


async def _with_queued(count: int, queued: int) -> float:
    """So many tasks wait while others come and go beside them."""
    async with open_runtime(workers=WORKERS, stop_grace_seconds=0) as runtime:
        await _fill(runtime, queued)
        countdown = Countdown(count)
        runtime.handler("noop")(countdown)
        began = time.perf_counter()
        await runtime.submit_many(NewTask("noop", None, user=f"user{number % USERS}") for number in range(count))
        await countdown.done.wait()
        return time.perf_counter() - began


async def _fill(runtime: Runtime, queued: int) -> None:
    """With a kind that nobody runs, so that they stay."""
    await runtime.submit_many(NewTask("later", None, user=f"user{number % USERS}") for number in range(queued))


async def _at_a_hundred_a_second(seconds: float) -> list[float]:
    """Submit to the first line of the handler, at a load that leaves the workers idle."""
    waits: list[float] = []
    async with open_runtime(workers=WORKERS) as runtime:

        @runtime.handler("noop")
        async def noop(submitted_at: float) -> None:
            waits.append(time.perf_counter() - submitted_at)

        for number in range(int(seconds * 100)):
            await trio.sleep(0.01)
            await runtime.submit("noop", time.perf_counter(), user=f"user{number % USERS}")
    return waits
