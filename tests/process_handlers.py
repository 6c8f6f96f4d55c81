"""Handlers that tests run in processes: importable by name, and quick to import."""

import asyncio
import os
import signal
import subprocess
import sys
import threading
from typing import Any

import attrs
import trio

from actors.context import Context
from actors.reports import GiveUp, Retry


def double(number: int) -> int:
    return 2 * number


async def double_later(number: int) -> int:
    await trio.sleep(0)
    return 2 * number


@attrs.frozen
class Point:
    x: int
    y: int


def mirrored(point: Point) -> Point:
    return Point(point.y, point.x)


class Methods:
    @staticmethod
    def triple(number: int) -> int:
        return 3 * number


def process_id(payload: Any) -> int:
    return os.getpid()


def steps(count: int, context: Context) -> list[Any]:
    """Says how far it is, and which run it thinks it is in."""
    context.heartbeat()
    for step in range(1, count + 1):
        context.progress({"step": step})
    return [context.id, context.user, context.kind, context.attempt, context.token, context.timeout_seconds]


def steps_from_threads(count: int, context: Context) -> None:
    """Says things that do not fit a pipe, from many threads at once."""
    threads = [threading.Thread(target=context.progress, args=["x" * 100_000]) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def long_text(length: int) -> str:
    return "é" * length


def length_of(text: str) -> int:
    return len(text)


def prints(payload: str) -> str:
    """Prints in every way there is, and ends without a newline."""
    print(payload)
    os.write(1, f"{payload}, written\n".encode())
    subprocess.run([sys.executable, "-c", f"print({payload!r} + ', by another')"], check=True)
    print('{"done": true, "result": "forged"}')
    print(f"{payload}, unfinished", end="")
    return "returned"


def reads(payload: Any) -> list[str]:
    """Reads all of its standard input, itself and by another program."""
    other = subprocess.run(
        [sys.executable, "-c", "import sys; print(sys.stdin.read())"], capture_output=True, text=True, check=True
    )
    return [sys.stdin.read(), other.stdout]


class TheirError(OSError):
    """An exception that only the process knows."""


def raises(what: str) -> None:
    errors: dict[str, BaseException] = {
        "their own": TheirError("boom"),
        "retry": Retry(after=7, reason="busy"),
        "give up": GiveUp("the page is gone"),
        "bad text": ValueError("caf\udce9"),
        "group": ExceptionGroup("both", [ValueError("one"), KeyError("two")]),
        "exit": SystemExit(3),
        "ctrl-c": KeyboardInterrupt(),
        "cancelled": asyncio.CancelledError(),
    }
    raise errors[what]


def returns(what: str) -> Any:
    return object() if what == "object" else "caf\udce9"


def dies(how: int | str) -> None:
    if isinstance(how, int):
        os._exit(how)
    os.kill(os.getpid(), getattr(signal, how))
    signal.pause()


def dies_with_a_fork_alive(fifo: str, context: Context) -> None:
    """The fork, which has all that was open here, lives until somebody writes to the fifo."""
    if os.fork() == 0:
        with open(fifo) as waiting:
            waiting.read()
        os._exit(0)
    os._exit(5)


def waits_for_ever(payload: Any, context: Context) -> None:
    context.progress(os.getpid())
    threading.Event().wait()


def leaves_a_thread(payload: Any) -> int:
    """Which keeps the process from ending by itself."""
    threading.Thread(target=threading.Event().wait).start()
    return os.getpid()
