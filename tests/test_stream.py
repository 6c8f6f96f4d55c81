"""Streams of events: what they hold, what they say they left out, and how they end."""

import gc
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
import trio
from hypothesis import example, given
from hypothesis import strategies as st

from actors import EventStream, InvalidConfig, Runtime, open_runtime
from actors.trace import Admitted, Cancelled, Completed, Event, Skipped, Started
from tests.test_sharing import finds


def closing_nothing(stream: EventStream) -> None:
    pass


def open_stream(buffer_max: int, closing: Callable[[EventStream], None] = closing_nothing) -> EventStream:
    return EventStream(buffer_max, closing)


def happened(number: int) -> Event:
    return Cancelled(float(number), f"alice#{number}", number)


async def rest_of(stream: EventStream) -> list[Event]:
    return [event async for event in stream]


# Against a list of all events

SCRIPTS: dict[str, Any] = {
    "buffer_max": st.integers(1, 5),
    "script": st.lists(st.one_of(st.just("read"), st.integers(1, 7)), max_size=40),
}


@given(**SCRIPTS)
@example(buffer_max=1, script=[2, "read", 1])
@example(buffer_max=3, script=[5, "read", "read", 1, "read", 1])
def test_what_is_read_is_what_happened_with_every_gap_counted(buffer_max: int, script: list[str | int]) -> None:
    """Numbers in the script are events that happen before anybody reads again."""

    async def main() -> None:
        stream, log, read = open_stream(buffer_max), list[Event](), list[Event]()
        for step in script:
            if isinstance(step, int):
                for _ in range(step):
                    log.append(happened(len(log)))
                    stream.on_event(log[-1])
            elif len(said(read, log)) < len(log):
                read.append(await anext(stream))
            assert len(stream._buffer) <= buffer_max
        stream.close()
        read += await rest_of(stream)
        assert len(said(read, log)) == len(log), "what is left out at the end is said too"

    trio.run(main)


def said(read: list[Event], log: list[Event]) -> list[Event]:
    """What is read, with the events that are said to be skipped in their places; it must be how the log begins."""
    whole: list[Event] = []
    for before, event in pairwise([None, *read]):
        assert event is not None
        if isinstance(event, Skipped):
            assert not isinstance(before, Skipped), "a gap is said once"
            assert event.count > 0
            whole += log[len(whole) : len(whole) + event.count]
            assert event.at == whole[-1].at, "a gap is dated by its last event, so that times never go back"
        else:
            whole.append(event)
    assert whole == log[: len(whole)]
    return whole


class MiscountsTheGap(EventStream):
    def _say_skipped(self) -> None:
        self._skipped = max(1, self._skipped - 1)
        super()._say_skipped()


class SaysTheGapTooLate(EventStream):
    def on_event(self, event: Event) -> None:
        skipped, self._skipped = self._skipped, 0
        super().on_event(event)
        self._skipped += skipped


@pytest.mark.parametrize("broken", [MiscountsTheGap, SaysTheGapTooLate])
def test_the_gaps_are_found_wrong_on_a_planted_bug(broken: type[EventStream], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(globals(), "EventStream", broken)
    finds(test_what_is_read_is_what_happened_with_every_gap_counted, **SCRIPTS)


@given(buffer_max=st.integers(1, 6), count=st.integers(0, 12))
def test_a_full_stream_keeps_the_first_events_and_says_how_many_it_left_out(buffer_max: int, count: int) -> None:
    stream = open_stream(buffer_max)
    for number in range(count):
        stream.on_event(happened(number))
    stream.close()
    read = trio.run(rest_of, stream)
    kept = [happened(number) for number in range(min(count, buffer_max))]
    left_out = count - len(kept)
    assert read == [*kept, *([Skipped(float(count - 1), left_out)] if left_out else [])]


def test_a_stream_that_is_read_again_takes_events_again() -> None:
    async def main() -> None:
        stream = open_stream(2)
        for number in range(4):
            stream.on_event(happened(number))
        assert [await anext(stream), await anext(stream)] == [happened(0), happened(1)]
        stream.on_event(happened(4))
        stream.close()
        assert await rest_of(stream) == [Skipped(3.0, 2), happened(4)]

    trio.run(main)


# Reading


async def test_a_reader_waits_for_the_next_event(autojump_clock: trio.testing.MockClock) -> None:
    stream, read = open_stream(10), list[tuple[float, Event]]()

    async def reader() -> None:
        async for event in stream:
            read.append((trio.current_time(), event))

    began = trio.current_time()
    with trio.fail_after(100):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(reader)
            for number in range(3):
                await trio.sleep(1)
                stream.on_event(happened(number))
            await trio.sleep(1)
            stream.close()
    assert read == [(began + 1, happened(0)), (began + 2, happened(1)), (began + 3, happened(2))]


async def test_a_reader_that_is_cancelled_while_it_waits_loses_no_event(autojump_clock: trio.testing.MockClock) -> None:
    stream = open_stream(10)
    with trio.move_on_after(1) as scope:
        await anext(stream)
    assert scope.cancelled_caught
    stream.on_event(happened(0))
    assert await anext(stream) == happened(0)


async def test_a_reader_that_is_cancelled_as_an_event_arrives_loses_none() -> None:
    """Whichever comes first: either the event is read, or the next reader has it."""
    for event_first in (True, False):
        stream, read = open_stream(10), list[Event]()

        async def reader(stream: EventStream = stream, read: list[Event] = read) -> None:
            read.append(await anext(stream))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(reader)
            await trio.testing.wait_all_tasks_blocked()
            if event_first:
                stream.on_event(happened(0))
                nursery.cancel_scope.cancel()
            else:
                nursery.cancel_scope.cancel()
                stream.on_event(happened(0))
        stream.close()
        assert read + await rest_of(stream) == [happened(0)]


async def test_reading_in_a_cancelled_scope_takes_nothing() -> None:
    stream = open_stream(10)
    stream.on_event(happened(0))
    with trio.CancelScope() as scope:
        scope.cancel()
        await anext(stream)
    assert scope.cancelled_caught
    assert await anext(stream) == happened(0)


async def test_two_readers_of_one_stream_share_its_events() -> None:
    stream, read = open_stream(10), list[Event]()

    async def reader() -> None:
        async for event in stream:
            read.append(event)

    with trio.fail_after(30):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(reader)
            nursery.start_soon(reader)
            for number in range(6):
                stream.on_event(happened(number))
                await trio.lowlevel.checkpoint()
            stream.close()
    assert sorted(read, key=lambda event: event.at) == [happened(number) for number in range(6)]


async def test_reading_lets_others_have_their_turn() -> None:
    stream = open_stream(10)
    stream.on_event(happened(0))
    stream.on_event(happened(1))
    with trio.testing.assert_checkpoints():
        await anext(stream)
    stream.close()
    assert await rest_of(stream) == [happened(1)]
    with trio.testing.assert_checkpoints():
        assert await rest_of(stream) == []


# Closing


async def test_what_is_in_the_buffer_of_a_closed_stream_can_still_be_read() -> None:
    closed = list[EventStream]()
    stream = open_stream(10, closed.append)
    stream.on_event(happened(0))
    stream.close()
    stream.close()
    assert closed == [stream], "it says so once"
    assert await rest_of(stream) == [happened(0)]
    assert await rest_of(stream) == []


# With a runtime


async def submit(runtime: Runtime, count: int = 1) -> None:
    for _ in range(count):
        await (await runtime.submit("echo", 1, user="alice")).result()


def serve(runtime: Runtime) -> None:
    @runtime.handler("echo")
    async def echo(payload: int) -> int:
        return payload


async def test_a_stream_sees_every_event_from_its_opening_on_and_ends_with_the_runtime() -> None:
    async with open_runtime(workers=1) as runtime:
        serve(runtime)
        await submit(runtime)
        stream = runtime.events()
        await submit(runtime)
    seen = await rest_of(stream)
    assert [type(event) for event in seen] == [Admitted, Started, Completed]
    assert [getattr(event, "task", None) for event in seen] == ["alice#2"] * 3


async def test_several_streams_see_the_same_and_one_that_is_closed_sees_no_more() -> None:
    async with open_runtime(workers=1) as runtime:
        serve(runtime)
        first, second = runtime.events(), runtime.events()
        async with runtime.events() as third:
            await submit(runtime)
        await submit(runtime)
    seen = await rest_of(first)
    assert len(seen) == 6
    assert await rest_of(second) == seen
    assert await rest_of(third) == seen[:3]


async def test_a_slow_stream_holds_up_neither_the_runtime_nor_the_others() -> None:
    async with open_runtime(workers=1) as runtime:
        serve(runtime)
        slow, quick = runtime.events(buffer_max=2), runtime.events()
        await submit(runtime, 5)
    everything = await rest_of(quick)
    assert len(everything) == 15
    assert await rest_of(slow) == [*everything[:2], Skipped(everything[-1].at, 13)]


async def test_a_reader_in_the_block_ends_when_the_block_does() -> None:
    seen = list[Event]()

    async def reader(stream: EventStream) -> None:
        async for event in stream:
            seen.append(event)

    with trio.fail_after(30):
        async with trio.open_nursery() as nursery, open_runtime(workers=1) as runtime:
            serve(runtime)
            nursery.start_soon(reader, runtime.events())
            await submit(runtime)
    assert [type(event) for event in seen] == [Admitted, Started, Completed]


@pytest.mark.parametrize("buffer_max", [0, -1, 1.5, "many", None])
async def test_a_buffer_must_hold_something(buffer_max: Any) -> None:
    async with open_runtime(workers=1) as runtime:
        with pytest.raises(InvalidConfig) as refused:
            runtime.events(buffer_max)
    assert str(refused.value) == f"buffer_max must be a whole number >= 1, got {buffer_max!r}"


async def test_a_stream_that_nobody_holds_any_more_is_let_go(autojump_clock: trio.abc.Clock) -> None:
    async with open_runtime(workers=1) as runtime:
        before = runtime._engine._sinks
        for _ in range(3):
            await runtime.submit("nobody runs this")
            events = runtime.events()
            await runtime.submit("nobody runs this")
            async for _ in events:
                break
            del events
        gc.collect()
        assert (runtime._engine._sinks, len(runtime._engine._streams)) == (before, 0)
