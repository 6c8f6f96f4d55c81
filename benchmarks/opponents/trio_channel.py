"""The limit of everything on trio: a memory channel and eight tasks that receive."""

import time
from collections.abc import Awaitable, Callable
from typing import Any

import trio

from benchmarks.work import PER_SECOND, WORKERS

_QUEUED = 100
"""The bound of the channel that is fed with `await send`: with none, nobody would ever wait."""


def send_nowait(count: int) -> float:
    """Everything is put in before anybody receives."""

    async def feed(send: trio.MemorySendChannel[int]) -> None:
        for number in range(count):
            send.send_nowait(number)

    return trio.run(_through, count, feed)


def await_send(count: int) -> float:
    """Whoever sends waits for a place."""

    async def feed(send: trio.MemorySendChannel[int]) -> None:
        for number in range(count):
            await send.send(number)

    return trio.run(_through, _QUEUED, feed)


def latency(count: int) -> list[float]:
    """Seconds from each send to the first line of the handler, at a load that leaves the workers idle."""
    waits: list[float] = []

    async def handler(sent_at: float) -> None:
        waits.append(time.perf_counter() - sent_at)

    async def feed(send: trio.MemorySendChannel[float]) -> None:
        for _ in range(count):
            await trio.sleep(1 / PER_SECOND)
            await send.send(time.perf_counter())

    trio.run(_through, _QUEUED, feed, handler)
    return waits


async def _noop(payload: Any) -> None:
    pass


async def _through(
    bound: int,
    feed: Callable[[trio.MemorySendChannel[Any]], Awaitable[None]],
    handler: Callable[[Any], Awaitable[None]] = _noop,
) -> float:
    send, receive = trio.open_memory_channel[Any](bound)

    async def worker() -> None:
        async for payload in receive.clone():
            await handler(payload)

    began = time.perf_counter()
    async with trio.open_nursery() as nursery:
        for _ in range(WORKERS):
            nursery.start_soon(worker)
        await feed(send)
        send.close()
    return time.perf_counter() - began
