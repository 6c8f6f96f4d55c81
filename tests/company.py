"""Small actors of people's own, and ways to run them and to cancel them at any point, for the tests of those."""

from collections.abc import Awaitable, Callable
from typing import Any

import attrs
import trio
from trio.testing import MockClock

from actors import ActorContext, Runtime
from actors.engine import Engine


@attrs.define(eq=False)
class Desk:
    """Keeps what it is given, and does what it is told: "boom" crashes, "wait" waits for its door, the rest is counted."""

    log: list[Any] = attrs.Factory(list)
    door: trio.Event = attrs.Factory(trio.Event)
    count: int = 0
    """Messages since it was built."""

    async def receive(self, message: Any, context: ActorContext) -> Any:
        self.count += 1
        self.log.append(message)
        if message == "boom":
            raise ValueError("boom")
        if message == "wait":
            await self.door.wait()
        return (self.count, message)


async def doubles(message: int, context: ActorContext) -> int:
    return 2 * message


def engine_of(runtime: Runtime) -> Engine:
    return runtime._engine


def restarts(runtime: Runtime) -> int:
    return runtime.stats().lifetime.restarts


def run_on_virtual_time(main: Callable[[], Awaitable[Any]]) -> Any:
    """What an async function comes to, with time that jumps; the one exception of nested groups of one is raised alone."""
    try:
        return trio.run(main, clock=MockClock(autojump_threshold=0))
    except BaseExceptionGroup as group:
        error: BaseException = group
        while type(error) in (ExceptionGroup, BaseExceptionGroup) and len(error.exceptions) == 1:  # type: ignore[attr-defined]
            error = error.exceptions[0]  # type: ignore[attr-defined]
    raise error


class CancelAtStep(trio.abc.Instrument):
    """Cancels a scope just before the n-th step of the task that made this, or just after, when it waits for something."""

    def __init__(self, scope: trio.CancelScope, step: int, when: str) -> None:
        self.scope, self.step, self.when = scope, step, when
        self.task = trio.lowlevel.current_task()
        self.steps = 0

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        if task is self.task:
            self.steps += 1
            self.cancel_if("before")

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        if task is self.task:
            self.cancel_if("after")

    def cancel_if(self, when: str) -> None:
        if (self.steps, self.when) == (self.step, when):
            self.scope.cancel()


async def cancelled_at_step(step: int, when: str, program: Callable[[], Awaitable[Any]]) -> bool:
    """Run a program that is cancelled before or after its n-th step; False if it ended earlier."""
    with trio.CancelScope() as scope:
        instrument = CancelAtStep(scope, step, when)
        trio.lowlevel.add_instrument(instrument)
        try:
            await program()
        finally:
            trio.lowlevel.remove_instrument(instrument)
    return scope.cancel_called
