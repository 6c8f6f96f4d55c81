"""What the standard library's event loop has instead of a channel."""

import asyncio
import time

from benchmarks.work import WORKERS


def put_nowait(count: int) -> float:
    """Everything is put in before anybody gets; a None ends a worker."""
    return asyncio.run(_put_nowait(count))


async def _put_nowait(count: int) -> float:
    queue: asyncio.Queue[int | None] = asyncio.Queue()

    async def handler(number: int) -> None:
        pass

    async def worker() -> None:
        while (number := await queue.get()) is not None:
            await handler(number)

    began = time.perf_counter()
    async with asyncio.TaskGroup() as group:
        for _ in range(WORKERS):
            group.create_task(worker())
        for number in [*range(count), *[None] * WORKERS]:
            queue.put_nowait(number)
    return time.perf_counter() - began
