"""A stream of events, for people: bounded, and honest about what it left out."""

from collections import deque
from collections.abc import Callable
from types import TracebackType

import trio

from actors.trace import Event, Skipped

__all__ = ["EventStream"]


class EventStream:
    """Every event from the moment it was made, in order; ends with the runtime.

    It holds at most `buffer_max` events that nobody has read. What happens while it is full is left out, and where it was
    left out there is a `Skipped` that says how many.

        async with runtime.events() as events:
            async for event in events:
                ...
    """

    def __init__(self, buffer_max: int, closing: Callable[["EventStream"], None]) -> None:
        self._buffer: deque[Event] = deque()
        self._buffer_max = buffer_max
        self._skipped = 0
        self._skipped_at = 0.0
        self._closing = closing
        self._closed = False
        self._lot = trio.lowlevel.ParkingLot()

    def on_event(self, event: Event) -> None:
        """Something happened."""
        if self._skipped and len(self._buffer) + 1 < self._buffer_max:
            self._say_skipped()
        if self._skipped or len(self._buffer) >= self._buffer_max:
            self._skipped += 1
            self._skipped_at = event.at
        else:
            self._buffer.append(event)
        self._lot.unpark_all()

    def __aiter__(self) -> "EventStream":
        return self

    async def __anext__(self) -> Event:
        await trio.lowlevel.checkpoint_if_cancelled()
        while not self._buffer:
            if self._skipped:
                self._say_skipped()
            elif self._closed:
                await trio.lowlevel.cancel_shielded_checkpoint()
                raise StopAsyncIteration
            else:
                await self._lot.park()
        event = self._buffer.popleft()
        await trio.lowlevel.cancel_shielded_checkpoint()
        return event

    async def __aenter__(self) -> "EventStream":
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """No more events; those in the buffer can still be read."""
        if not self._closed:
            self._closed = True
            self._closing(self)
            self._lot.unpark_all()

    def _say_skipped(self) -> None:
        self._buffer.append(Skipped(self._skipped_at, self._skipped))
        self._skipped = 0
