"""The other end of `process.py`: `python -m actors.child` runs handlers as it is told to over its standard input.

The pipes are its own: they are moved away from standard input and output before any handler runs, so that a handler, or a
program that it starts, finds nothing to read, and prints to standard error. A thread reads ahead, so that the process ends
when the pipe closes: at once if a handler is at work, whatever it is doing, and else as any Python program ends.
"""

import importlib
import inspect
import os
import queue
import runpy
import signal
import sys
import threading
from functools import cache
from types import ModuleType
from typing import Any, BinaryIO

import msgspec

from actors.context import Context
from actors.handlers import Handler
from actors.process import SCRIPT, Call, Said
from actors.reports import failed

__all__ = ["Speaker", "main", "respond"]

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Call).decode


class Speaker:
    """Says things over a pipe, in whole lines, whichever thread they come from.

    >>> import io
    >>> pipe = io.BytesIO()
    >>> Speaker(pipe).say(Said(progress="half way"))
    >>> pipe.getvalue()
    b'{"progress":"half way"}\\n'
    """

    def __init__(self, output: BinaryIO) -> None:
        self._output = output
        self._lock = threading.Lock()

    def say(self, said: Said) -> None:
        """Say this."""
        line = memoryview(_encode(said) + b"\n")
        with self._lock:
            # A signal can interrupt a long line.
            while line:
                line = line[self._output.write(line) :]


class _Calls:
    """The calls that were read and not answered yet."""

    def __init__(self, source: BinaryIO) -> None:
        self._source = source
        self._lines: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._read = 0
        self._answered = 0

    def read(self) -> None:
        """Read until the pipe closes."""
        for line in self._source:
            self._read += 1
            self._lines.put(line)
        if self._read > self._answered:
            # Nobody wants to know what comes of it.
            os._exit(0)
        self._lines.put(None)

    def serve(self, speaker: Speaker) -> None:
        """Answer one after the other until there are no more."""
        while (line := self._lines.get()) is not None:
            said = respond(_decode(line), speaker)
            self._answered += 1
            speaker.say(said)


def main() -> None:
    """Serve calls until the pipe closes."""
    # Ctrl-C is for the program at the other end, which ends this one in its own time.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    source, output = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb", buffering=0)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    if hasattr(os, "register_at_fork"):
        # A fork that outlives this process must not keep the pipe open: that it closes is how its end is noticed.
        os.register_at_fork(after_in_child=output.close)
    calls = _Calls(source)
    threading.Thread(target=calls.read, daemon=True).start()
    calls.serve(Speaker(output))


def respond(call: Call, speaker: Speaker) -> Said:
    """What came of a call; whatever a handler raises, the process goes on."""
    try:
        handler = _handler(call.run.kind, call.function, call.main, tuple(call.path))
        payload = handler.typed_payload(call.run.payload)
        context = Context(call.run, {}, lambda progress: speaker.say(Said(progress=progress)))
        result = handler(payload, context) if call.takes_context else handler(payload)
        return Said(done=True, result=handler.json_result(_awaited(result), call.result_bytes_max))
    except BaseException as error:
        report = failed("", call.run, error)
        return Said(
            done=True,
            crashed=report.outcome == "crashed",
            error=report.error,
            error_types=report.error_types,
            retry_after=report.retry_after_seconds,
            give_up=report.give_up,
            traceback=report.traceback,
        )


def _awaited(result: Any) -> Any:
    if not inspect.isawaitable(result):
        return result
    import trio

    async def wait() -> Any:
        return await result

    return trio.run(wait)


@cache
def _handler(kind: str, function: str, main: str | None, path: tuple[str, ...]) -> Handler[Any, Any]:
    sys.path[:] = path
    module, _, name = function.partition(":")
    found: Any = importlib.import_module(module) if main is None else _script(main)
    for part in name.split("."):
        found = getattr(found, part)
    # A function that was registered where it is defined is found as its handler.
    return Handler.of(kind, found.function if isinstance(found, Handler) else found)


@cache
def _script(path: str) -> ModuleType:
    """A script as a module, the way multiprocessing makes it one."""
    module = ModuleType(SCRIPT)
    module.__dict__.update(runpy.run_path(path, run_name=SCRIPT))
    sys.modules["__main__"] = sys.modules[SCRIPT] = module
    return module


if __name__ == "__main__":
    main()
