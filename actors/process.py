"""Handlers in processes of their own, spoken to in lines of JSON over a pipe.

Each worker has a process for such work, started with its first task and kept for the next. A run that is told to stop has
its process killed; a process that dies takes nothing down but the task it was at. When the pipe closes, which it does
however the runtime ends, the process ends too.

A line to the process is a call: the function's name, the payload, and what its context needs. Lines from it say that it is at
it, how far it is, and last what came of the call. What a handler prints goes to standard error, and it finds nothing to read
on standard input.
"""

import contextlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import trio

from actors.errors import InvalidConfig
from actors.handlers import Handler
from actors.messages import Run
from actors.reports import GiveUp, ProcessDied, RaisedElsewhere, Retry

__all__ = ["SCRIPT", "Call", "Child", "Said", "name_of"]

SCRIPT = "__evenhand_child__"
"""The name under which a process runs the script that a handler is in, so that it does not start itself again."""

_READ_BYTES = 64 * 1024
_END_SECONDS = 1.0
"""How long a process may take to end by itself when its pipe has closed."""


class Call(msgspec.Struct, frozen=True):
    """Run this function."""

    function: str
    """`module:name`."""
    main: str | None
    """The script it is in, if that was not imported but run."""
    path: list[str]
    """Where modules are looked for."""
    run: Run
    takes_context: bool
    result_bytes_max: int


class Said(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a process says: that it is at it, or what came of the call."""

    done: bool = False
    progress: Any = None
    result: Any = None
    crashed: bool = False
    """Whether the call wanted to end the process."""
    error: str | None = None
    """What the exception said, if the call raised one."""
    error_types: tuple[str, ...] = ()
    retry_after: float | None = None
    give_up: bool = False
    traceback: str | None = None


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Said).decode


def name_of(function: Any) -> tuple[str, str | None]:
    """The name by which another process imports a function, and the script it is in if it is in one.

    >>> import json
    >>> name_of(json.dumps)
    ('json:dumps', None)
    """
    module, name = function.__module__, function.__qualname__
    if module == SCRIPT:
        raise InvalidConfig(
            f"handler {name!r} must be in a script that starts nothing when a process imports it: "
            "put what it starts under `if __name__ == '__main__':`"
        )
    if module != "__main__":
        return f"{module}:{name}", None
    main = sys.modules["__main__"]
    if (spec := getattr(main, "__spec__", None)) is not None:
        return f"{spec.name}:{name}", None
    if (script := getattr(main, "__file__", None)) is None:
        raise InvalidConfig(f"handler {name!r} must be in a module or a script to run in a process")
    return f"__main__:{name}", str(Path(script).resolve())


class Child:
    """A process that runs handlers, one at a time."""

    def __init__(self) -> None:
        self._process: trio.Process | None = None
        self._buffer = bytearray()

    async def call(
        self, handler: Handler[Any, Any], run: Run, beat: Callable[[Any], None], result_bytes_max: int
    ) -> Any:
        """Run a handler there; what it returned, or what it raised. A cancelled call kills the process."""
        function, main = name_of(handler.function)
        call = Call(function, main, sys.path, run, handler.takes_context, result_bytes_max)
        finished = False
        try:
            await self._start()
            await self._send(call)
            while not (said := await self._receive()).done:
                beat(said.progress)
            finished = True
        finally:
            if not finished:
                with trio.CancelScope(shield=True):
                    await self.kill()
        return _outcome(said)

    async def aclose(self) -> None:
        """Let the process end, and see that it does."""
        process = self._process
        if process is None:
            return
        assert process.stdin is not None, "it was started with a pipe"
        await process.stdin.aclose()
        with trio.move_on_after(_END_SECONDS):
            await process.wait()
        await self.kill()

    async def kill(self) -> None:
        """End the process now."""
        process, self._process = self._process, None
        if process is None:
            return
        process.kill()
        await process.wait()
        for stream in (process.stdin, process.stdout):
            assert stream is not None, "it was started with pipes"
            await stream.aclose()

    async def _start(self) -> None:
        if self._process is not None and self._process.poll() is not None:
            # It died between two calls, which is nobody's fault.
            await self.kill()
        if self._process is None:
            self._buffer.clear()
            # Unbuffered, so that nothing that a handler printed is lost when its process is killed.
            command = [sys.executable, "-u", "-m", "actors.child"]
            self._process = await trio.lowlevel.open_process(command, stdin=-1, stdout=-1)

    async def _send(self, call: Call) -> None:
        assert self._process is not None and self._process.stdin is not None, "it was started"
        # A process that died says so when it is read from.
        with contextlib.suppress(trio.BrokenResourceError):
            await self._process.stdin.send_all(_encode(call) + b"\n")

    async def _receive(self) -> Said:
        assert self._process is not None and self._process.stdout is not None, "it was started"
        while (end := self._buffer.find(b"\n")) < 0:
            data = await self._process.stdout.receive_some(_READ_BYTES)
            if not data:
                status = await self._process.wait()
                raise ProcessDied(f"the process ended with status {status}")
            self._buffer += data
        line = bytes(self._buffer[:end])
        del self._buffer[: end + 1]
        return _decode(line)


def _outcome(said: Said) -> Any:
    if said.error is None:
        return said.result
    if said.retry_after is not None:
        raise Retry(said.retry_after, said.error)
    if said.give_up:
        raise GiveUp(said.error)
    raise RaisedElsewhere(said.error, said.error_types, crashed=said.crashed, traceback=said.traceback)
