"""A host on trio's clock.

Nothing happens in a host unless somebody drives it. Here whoever has something to say drives it: `tell` puts a message
into the mailbox and handles all that follows, in the caller's own task, before it returns. So the way of a task through
queue, shard and scheduler costs no task switch, and an acknowledgement is often there when `tell` returns. What only time
brings about is driven by one task that sleeps until the host's next timer.

`now` is the wall clock when this began, plus what has passed since on trio's clock: it never goes back, and a wall clock
that jumps changes no lease. Nor does it begin before `not_before`, the last time that a store has seen.

A host that fails is not driven again. The failure is raised by the task that runs the timers, whoever drove the host at the
time: an actor's end is the runtime's business and not that of the handler or submitter who happened to be there.
"""

import math
import time
from collections.abc import Callable
from typing import Any

import trio

from actors.errors import Livelock
from actors.host import Host
from actors.messages import Address

__all__ = ["MESSAGES_AT_ONCE_MAX", "RealTime"]

MESSAGES_AT_ONCE_MAX = 1_000_000
"""More than any one message leads to; actors that send each other messages without end must not stop the program."""


class RealTime:
    """Drives a host: when told something, and when a timer is due."""

    def __init__(self, host: Host, wall_clock: Callable[[], float] = time.time, not_before: float = 0.0) -> None:
        self._host = host
        self._current_time = trio.lowlevel.current_clock().current_time
        self._offset = max(wall_clock(), not_before) - self._current_time()
        self._driving = False
        self._alarm = trio.CancelScope()
        self._alarm_at = math.inf
        self._failure: BaseException | None = None
        host.now = self.now()

    def now(self) -> float:
        """The time that actors see."""
        return self._current_time() + self._offset

    @property
    def failed(self) -> bool:
        """Whether the host failed and is driven no more."""
        return self._failure is not None

    @trio.lowlevel.enable_ki_protection
    def tell(self, sender: Address, receiver: Address, message: Any) -> None:
        """Have a message delivered and all that it leads to, before this returns."""
        if self._failure is not None:
            return
        try:
            self._host.post(sender, receiver, message)
        except BaseException as failure:
            self.fail(failure)
        self.drive()

    @trio.lowlevel.enable_ki_protection
    def drive(self) -> None:
        """Handle all that is under way at the time it is now."""
        # Whoever is called from within (an observer of events) only adds to what is under way.
        if self._driving or self._failure is not None:
            return
        self._driving = True
        try:
            self._host.now = self._current_time() + self._offset
            self._drain()
            if (at := self._host.next_timer()) < self._alarm_at:
                self._set_alarm(at)
        except BaseException as failure:
            self.fail(failure)
        finally:
            self._driving = False

    async def run(self) -> None:
        """Fire timers when they are due, for ever; raises what made the host fail."""
        while self._failure is None:
            with trio.CancelScope() as self._alarm:
                self._set_alarm(self._host.next_timer())
                await trio.sleep_forever()
            self._ring()
        raise self._failure

    @trio.lowlevel.enable_ki_protection
    def _ring(self) -> None:
        self._alarm_at = math.inf
        self._driving = True
        try:
            self._host.now = self.now()
            self._fire_timers()
        except BaseException as failure:
            self.fail(failure)
        finally:
            self._driving = False

    def _fire_timers(self) -> None:
        for _ in range(MESSAGES_AT_ONCE_MAX):
            if self._failure is not None or self._host.next_timer() > self._host.now:
                return
            self._host.fire()
            self._drain()
        raise Livelock(f"{MESSAGES_AT_ONCE_MAX} timers at once and no end")

    def _drain(self) -> None:
        if not self._host.drain(MESSAGES_AT_ONCE_MAX):
            raise Livelock(f"{MESSAGES_AT_ONCE_MAX} messages at once and no end")

    def _set_alarm(self, at: float) -> None:
        self._alarm_at = at
        deadline = at - self._offset
        # A deadline that is rounded down would ring before its time: then nothing is due, and it would ring for ever.
        while deadline + self._offset < at:
            deadline = math.nextafter(deadline, math.inf)
        self._alarm.deadline = deadline

    def fail(self, failure: BaseException) -> None:
        """Drive the host no more, and have `run` raise this."""
        if self._failure is None:
            self._failure = failure
            self._alarm.cancel()
