"""What type checkers know of handlers, payloads and results. Nothing here is run: `test_typing.py` has mypy read it.

Where a line must be refused, it says so with an `ignore`: an ignore that is not needed is an error in itself.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Any, assert_type

import attrs
import msgspec
import trio

from actors import Context, Handler, Runtime, TaskHandle


@dataclass
class Job:
    """What is to be done."""

    url: str


@attrs.frozen
class Page:
    """What came of it."""

    title: str


class Row(msgspec.Struct):
    """Another."""

    count: int


async def registered(runtime: Runtime) -> None:
    """What a decorated function is."""

    @runtime.handler("crawl", concurrency_max=3)
    async def crawl(job: Job) -> Page:
        return Page(job.url)

    @runtime.handler("context")
    async def with_context(job: Job, context: Context) -> Row:
        return Row(context.attempt)

    @runtime.handler("thread")
    def in_a_thread(at: datetime) -> int:
        return at.year

    @runtime.handler("thread with context", timeout_seconds=None)
    def in_a_thread_with_context(at: datetime, context: Context) -> list[Page]:
        return [Page(context.user)]

    assert_type(crawl, Handler[Job, Page])
    assert_type(with_context, Handler[Job, Row])
    assert_type(in_a_thread, Handler[datetime, int])
    assert_type(in_a_thread_with_context, Handler[datetime, list[Page]])


def refused(runtime: Runtime) -> None:
    """What cannot be a handler."""

    @runtime.handler("nothing")  # type: ignore[arg-type]
    async def takes_nothing() -> None: ...

    @runtime.handler("three")  # type: ignore[arg-type]
    async def takes_three(job: Job, context: Context, more: int) -> None: ...

    runtime.handler(takes_nothing)  # type: ignore[arg-type]
    runtime.handler("crawl", concurency_max=3)  # type: ignore[call-arg]


async def submitted(runtime: Runtime, crawl: Handler[Job, Page]) -> None:
    """What a submit takes and gives."""
    handle = await runtime.submit(crawl, Job("x"), user="alice", priority="high", delay_seconds=5)
    assert_type(handle, TaskHandle[Page])
    assert_type(await handle.result(), Page)
    assert_type(runtime.submit_nowait(crawl, Job("x"), cost=2), TaskHandle[Page])
    assert_type(await (await runtime.submit("crawl", {"url": "x"})).result(), Any)

    await runtime.submit(crawl, {"url": "x"})  # type: ignore[misc]
    await runtime.submit(crawl)  # type: ignore[arg-type]
    runtime.submit_nowait(crawl, "x")  # type: ignore[misc]
    await runtime.submit(crawl, Job("x"), usr="alice")  # type: ignore[call-overload]
    await runtime.submit("crawl", None, user=7)  # type: ignore[call-overload]
    title: int = (await handle.result()).title  # type: ignore[assignment]
    print(title)


def from_a_thread(runtime: Runtime, crawl: Handler[Job, Page]) -> None:
    """The same from a thread."""
    handle = runtime.from_thread.submit(crawl, Job("x"), user="alice")
    assert_type(handle, TaskHandle[Page])
    assert_type(runtime.from_thread.result(handle), Page)
    runtime.from_thread.submit(crawl, "x")  # type: ignore[misc]
    runtime.from_thread.submit("crawl", None, usr="alice")  # type: ignore[call-overload]


async def called(runtime: Runtime) -> None:
    """What `run_soon` takes and gives."""

    async def add(left: int, right: str) -> Page:
        return Page(f"{left} {right}")

    assert_type(await runtime.run_soon(add, 1, "x", user="alice"), TaskHandle[Page])
    await runtime.run_soon(trio.sleep, 1)
    await runtime.run_soon(add, "x", 1)  # type: ignore[arg-type]
    await runtime.run_soon(add, 1)  # type: ignore[arg-type]
    await runtime.run_soon(add, 1, "x", usr="alice")  # type: ignore[call-arg]
    await runtime.run_soon(len, "x")  # type: ignore[arg-type]


async def without_a_payload(runtime: Runtime, tick: Handler[None, int]) -> None:
    assert_type(await (await runtime.submit(tick)).result(), int)
    assert_type(runtime.submit_nowait(tick, user="alice"), TaskHandle[int])
    assert_type(runtime.from_thread.submit(tick), TaskHandle[int])
    await runtime.submit(tick, "x")  # type: ignore[misc]
