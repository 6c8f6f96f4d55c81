"""taskiq, with its broker in memory; without the casting of arguments and the bound on how many run, which cost time."""

import asyncio
import logging
import time

import taskiq

from benchmarks.work import PER_SECOND


def kiq(count: int) -> float:
    """Each `kiq` awaited."""
    return asyncio.run(_kiq(count))


def latency(count: int) -> list[float]:
    """Seconds from each `kiq` to the first line of the task."""
    return asyncio.run(_latency(count))


def _broker() -> taskiq.InMemoryBroker:
    logging.disable(logging.INFO)
    return taskiq.InMemoryBroker(max_stored_results=1, cast_types=False, max_async_tasks=0)


async def _kiq(count: int) -> float:
    broker = _broker()
    left, done = count, asyncio.Event()

    @broker.task
    async def noop(payload: None) -> None:
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


async def _latency(count: int) -> list[float]:
    broker = _broker()
    waits: list[float] = []

    @broker.task
    async def noop(sent_at: float) -> None:
        waits.append(time.perf_counter() - sent_at)

    await broker.startup()
    for _ in range(count):
        await asyncio.sleep(1 / PER_SECOND)
        await noop.kiq(time.perf_counter())
    await broker.wait_all()
    await broker.shutdown()
    return waits
