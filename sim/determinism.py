"""Trio made deterministic: virtual time, and tasks scheduled in an order that depends on a seed alone.

This is the only file that touches trio's private names. It relies on two of them: the switch that makes the scheduler sort
each batch of runnable tasks before it shuffles them, and the random number generator that it shuffles them with. Both are
checked for when a run begins, and a canary test runs one scenario in two processes with different hash seeds.

Virtual time moves only when no task is runnable, and then to the next thing that is due: a deadline of trio's, or a sleeper
of the clock's own, one at a time, in the order of (time, key). So ties are broken by what they are about. The random order
alone would not do: deadlines that are due together are expired together.
"""

import math
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from heapq import heappop, heappush
from random import Random
from typing import Any, TypeVar

import trio

from actors.errors import EvenhandError

__all__ = ["VirtualClock", "run_deterministically"]

T = TypeVar("T")


class VirtualClock(trio.abc.Clock):
    """A clock for `trio.run` that stands still while anything is runnable, and else jumps to the next thing that is due.

    Threads and real input or output take no virtual time: while a program waits only for those, the clock waits too, but a
    deadline beside them comes at once.
    """

    def __init__(self, on_advance: Callable[[float], None] = lambda now: None) -> None:
        self._now = 0.0
        self._sleepers: list[tuple[float, str, int, trio.lowlevel.Task]] = []
        self._sleeping: set[int] = set()
        """The numbers of those in the heap that were not cancelled."""
        self._count = 0
        self._idle: trio.lowlevel.Task | None = None
        self._on_advance = on_advance
        self.failure: Exception | None = None
        """What `on_advance` raised, if it did: within a clock nothing may be raised."""

    def start_clock(self) -> None:
        """Time begins at 0."""

    def current_time(self) -> float:
        return self._now

    def deadline_to_sleep_time(self, deadline: float) -> float:
        """Nothing is runnable: make something runnable, if only time is lacking."""
        at = self._next_sleeper()
        if deadline <= at:
            if deadline == math.inf:
                return self._nothing_is_due()
            self._advance(deadline)
            return 0.0
        self._advance(at)
        _, _, number, task = heappop(self._sleepers)
        self._sleeping.remove(number)
        trio.lowlevel.reschedule(task)
        return 0.0

    async def sleep_until(self, at: float, key: str = "") -> None:
        """Sleep until that time; of those who are due at the same time the one with the smallest key is woken first."""
        self._count += 1
        number = self._count
        heappush(self._sleepers, (at, key, number, trio.lowlevel.current_task()))
        self._sleeping.add(number)

        def abort(raise_cancel: Any) -> trio.lowlevel.Abort:
            self._sleeping.discard(number)
            return trio.lowlevel.Abort.SUCCEEDED

        await trio.lowlevel.wait_task_rescheduled(abort)

    async def wait_until_idle(self) -> None:
        """Wait until nothing is runnable and nothing is due at any time. For one task at a time."""
        assert self._idle is None, "one task waits"
        self._idle = trio.lowlevel.current_task()

        def abort(raise_cancel: Any) -> trio.lowlevel.Abort:
            self._idle = None
            return trio.lowlevel.Abort.SUCCEEDED

        await trio.lowlevel.wait_task_rescheduled(abort)

    def _next_sleeper(self) -> float:
        while self._sleepers:
            at, _, number, _ = self._sleepers[0]
            if number in self._sleeping:
                return at
            heappop(self._sleepers)
        return math.inf

    def _nothing_is_due(self) -> float:
        if self._idle is None:
            # Threads, input and output may still come back.
            return math.inf
        self._tell(self._now)
        task, self._idle = self._idle, None
        trio.lowlevel.reschedule(task)
        return 0.0

    def _advance(self, at: float) -> None:
        if at > self._now:
            self._tell(self._now)
            self._now = at

    def _tell(self, now: float) -> None:
        try:
            self._on_advance(now)
        except Exception as error:
            self.failure = self.failure or error


def run_deterministically(
    async_fn: Callable[..., Awaitable[T]], *arguments: Any, clock: VirtualClock | None = None, seed: int = 0
) -> T:
    """`trio.run` on virtual time, with tasks scheduled in an order that depends on the seed alone.

    >>> async def main():
    ...     await trio.sleep(3600)
    ...     return trio.current_time()
    >>> run_deterministically(main)
    3600.0
    """
    clock = VirtualClock() if clock is None else clock
    with _deterministic_scheduling(seed):
        result = trio.run(async_fn, *arguments, clock=clock)
    if clock.failure is not None:
        raise clock.failure
    return result


@contextmanager
def _deterministic_scheduling(seed: int) -> Iterator[None]:
    import trio._core._run as scheduler

    if not (
        hasattr(scheduler, "_ALLOW_DETERMINISTIC_SCHEDULING") and isinstance(getattr(scheduler, "_r", None), Random)
    ):
        raise EvenhandError(f"full simulation does not know the scheduler of trio {trio.__version__}")
    random: Random = scheduler._r
    switch, state = scheduler._ALLOW_DETERMINISTIC_SCHEDULING, random.getstate()
    scheduler._ALLOW_DETERMINISTIC_SCHEDULING = True  # type: ignore[misc]
    random.seed(seed)
    try:
        yield
    finally:
        scheduler._ALLOW_DETERMINISTIC_SCHEDULING = switch  # type: ignore[misc]
        random.setstate(state)
