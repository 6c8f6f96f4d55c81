"""For people's own tests: their handlers in a runtime on virtual time.

With pytest-trio, ask for `virtual_clock` and `evenhand_runtime`:

    async def test_reminders_come_after_an_hour(virtual_clock, evenhand_runtime):
        evenhand_runtime.handler("remind")(remind)
        handle = await evenhand_runtime.submit("remind", {...}, delay_seconds=3600)
        await handle.result()                     # returns at once: nobody waits for virtual time

Everything that waits on trio's clock waits on virtual time: sleeps, timeouts, leases, retries, schedules. Plain functions are
called in trio's own thread, because a thread would take no virtual time at all.
"""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import trio

from actors.configuration import load_options
from actors.errors import EvenhandError
from actors.opening import run_runtime
from actors.runtime import Runtime

__all__ = ["virtual_runtime"]


@asynccontextmanager
async def virtual_runtime(*, resources: Mapping[str, Any] | None = None, **options: Any) -> AsyncIterator[Runtime]:
    """A runtime on virtual time, as `open_runtime` gives one on real time.

    Time begins at 0, the environment is not asked, and unless `seed` is given every run draws the same numbers. The clock must
    be a virtual one: `VirtualClock`, or trio's own `MockClock`.

    >>> from sim.determinism import run_deterministically
    >>> async def main():
    ...     async with virtual_runtime(workers=1) as runtime:
    ...         @runtime.handler("nap", timeout_seconds=None)
    ...         async def nap(seconds: float) -> float:
    ...             await trio.sleep(seconds)
    ...             return trio.current_time()
    ...         return await (await runtime.submit(nap, 3600.0)).result()
    >>> run_deterministically(main)
    3600.0
    """
    # The type of the real clock has no public name.
    if type(trio.lowlevel.current_clock()).__name__ == "SystemClock":
        raise EvenhandError(
            "a runtime on virtual time needs a virtual clock: add `virtual_clock` to the arguments of the test"
        )
    loaded = load_options(environment={}, keywords={"seed": 0} | options)
    began_at = trio.current_time()
    async with run_runtime(
        loaded, resources=resources or {}, wall_clock=lambda: trio.current_time() - began_at, threads=False
    ) as runtime:
        yield runtime
