"""Whole programs: scripts and modules whose handlers run in processes, and what is left when they end."""

import io
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
import trio

from actors.child import Speaker, respond
from actors.messages import Run
from actors.process import Call, Said

HANG_SECONDS = 30
RUN = Run("t1", "alice", "double", 1, 1, 21, 60.0, 1)


def call(function: str = "tests.process_handlers:double", payload: Any = 21, takes_context: bool = False) -> Call:
    run = msgspec.structs.replace(RUN, payload=payload)
    return Call(function, None, sys.path, run, takes_context, result_bytes_max=1_000)


# The other end of the pipe


def test_a_call_is_answered_with_the_result() -> None:
    assert respond(call(), Speaker(io.BytesIO())) == Said(done=True, result=42)


def test_what_a_function_says_goes_over_the_pipe_before_the_answer() -> None:
    pipe = io.BytesIO()
    said = respond(call("tests.process_handlers:steps", 1, takes_context=True), Speaker(pipe))
    assert said.result == ["t1", "alice", "double", 1, 1, None]
    assert pipe.getvalue() == b'{}\n{"progress":{"step":1}}\n'


@pytest.mark.parametrize(
    ("what", "said"),
    [
        ("retry", {"error": "busy", "retry_after": 7}),
        ("give up", {"error": "the page is gone", "give_up": True}),
        ("exit", {"error": "SystemExit: 3", "crashed": True}),
    ],
)
def test_what_a_function_raises_is_the_answer_whatever_it_is(what: str, said: dict[str, Any]) -> None:
    answer = respond(call("tests.process_handlers:raises", what), Speaker(io.BytesIO()))
    assert answer.done
    assert {name: getattr(answer, name) for name in said} == said


class Dribble(io.RawIOBase):
    """Takes a few bytes at a time, as a pipe does when a signal comes."""

    def __init__(self) -> None:
        self.written = b""

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self.written += bytes(data[:3])
        return min(3, len(data))


def test_a_line_is_said_to_its_end() -> None:
    pipe = Dribble()
    Speaker(pipe).say(Said(done=True, result="some text"))  # type: ignore[arg-type]
    assert pipe.written == b'{"done":true,"result":"some text"}\n'


def start_child() -> "subprocess.Popen[bytes]":
    return subprocess.Popen([sys.executable, "-u", "-m", "actors.child"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)


def test_an_idle_process_ends_in_order_when_its_pipe_closes(tmp_path: Path) -> None:
    module = tmp_path / "says_goodbye.py"
    module.write_text(
        "import atexit, pathlib\n"
        f"atexit.register(pathlib.Path({str(tmp_path / 'goodbye')!r}).touch)\n"
        "def work(payload): return payload\n"
    )
    with start_child() as child:
        assert child.stdin is not None and child.stdout is not None
        asked = msgspec.structs.replace(call("says_goodbye:work"), path=[str(tmp_path), *sys.path])
        child.stdin.write(msgspec.json.encode(asked) + b"\n")
        child.stdin.flush()
        assert msgspec.json.decode(child.stdout.readline(), type=Said) == Said(done=True, result=21)
        child.stdin.close()
        assert child.wait(HANG_SECONDS) == 0
    assert (tmp_path / "goodbye").exists()


def test_a_process_at_work_ends_at_once_when_its_pipe_closes() -> None:
    with start_child() as child:
        assert child.stdin is not None and child.stdout is not None
        asked = call("tests.process_handlers:waits_for_ever", None, takes_context=True)
        child.stdin.write(msgspec.json.encode(asked) + b"\n")
        child.stdin.flush()
        assert msgspec.json.decode(child.stdout.readline(), type=Said).progress == child.pid
        child.stdin.close()
        assert child.wait(HANG_SECONDS) == 0


def test_ctrl_c_is_not_for_the_process() -> None:
    with start_child() as child:
        assert child.stdin is not None and child.stdout is not None
        asked = call("tests.process_handlers:steps", 1, takes_context=True)
        for _ in range(2):
            child.stdin.write(msgspec.json.encode(asked) + b"\n")
            child.stdin.flush()
            assert [bool(msgspec.json.decode(child.stdout.readline()).get("done")) for _ in range(3)] == [
                False,
                False,
                True,
            ]
            child.send_signal(signal.SIGINT)
        child.stdin.close()
        assert child.wait(HANG_SECONDS) == 0


# Whole programs


SCRIPT = """
from __future__ import annotations

import dataclasses
import sys

import trio

from actors import open_runtime

print("imported as", __name__, file=sys.stderr)


@dataclasses.dataclass
class Point:
    x: int
    y: int


def mirrored(point: Point) -> Point:
    return Point(point.y, point.x)


async def total(point: Point) -> int:
    return point.x + point.y


async def main() -> None:
    async with open_runtime(workers=1) as runtime:
        mirror = runtime.handler("mirror", process=True, max_retries=0)(mirrored)
        add = runtime.handler("add", process=True, max_retries=0)(total)
        print(await (await runtime.submit(mirror, Point(1, 2))).result())
        print(await (await runtime.submit(add, Point(1, 2))).result())


"""
GUARDED = SCRIPT + 'if __name__ == "__main__":\n    trio.run(main)\n'
UNGUARDED = SCRIPT + "trio.run(main)\n"


async def run(*command: str, cwd: Path) -> "subprocess.CompletedProcess[bytes]":
    with trio.fail_after(HANG_SECONDS):
        return await trio.run_process(
            [sys.executable, *command], cwd=cwd, capture_stdout=True, capture_stderr=True, check=False
        )


async def test_the_handlers_of_a_script_run_in_a_process_which_imports_the_script_once(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(GUARDED)
    ran = await run("program.py", cwd=tmp_path)
    assert ran.stdout.decode().split() == ["Point(x=2,", "y=1)", "3"]
    assert ran.stderr.decode().splitlines() == ["imported as __main__", "imported as __evenhand_child__"]
    assert ran.returncode == 0


async def test_the_handlers_of_a_module_that_is_run_do_too(tmp_path: Path) -> None:
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "__init__.py").touch()
    (tmp_path / "package" / "program.py").write_text(GUARDED)
    ran = await run("-m", "package.program", cwd=tmp_path)
    assert ran.stdout.decode().split() == ["Point(x=2,", "y=1)", "3"]
    assert ran.stderr.decode().splitlines() == ["imported as __main__", "imported as package.program"]


async def test_a_script_that_starts_itself_wherever_it_is_imported_is_told_so_and_ends(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(UNGUARDED)
    ran = await run("program.py", cwd=tmp_path)
    assert ran.returncode == 1
    said = (
        "InvalidConfig: handler 'mirrored' must be in a script that starts nothing when a process imports it: "
        "put what it starts under `if __name__ == '__main__':`"
    )
    assert said in ran.stderr.decode().splitlines()[-1]


FOREVER = """
import sys
import threading

import trio

from actors import Context, open_runtime


def wait_for_ever(payload, context: Context):
    print("at work", file=sys.stderr, flush=True)
    threading.Event().wait()


async def main() -> None:
    async with open_runtime(workers=1) as runtime:
        runtime.handler("wait", process=True)(wait_for_ever)
        await (await runtime.submit("wait")).result()


if __name__ == "__main__":
    trio.run(main)
"""


@pytest.mark.parametrize("signal_name", ["SIGKILL", "SIGTERM", "SIGINT"])
async def test_when_a_program_is_killed_its_processes_end_too(signal_name: str, tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(FOREVER)
    with trio.fail_after(HANG_SECONDS):
        program = await trio.lowlevel.open_process(
            [sys.executable, "program.py"], cwd=tmp_path, stderr=subprocess.PIPE, start_new_session=True
        )
        assert program.stderr is not None
        said = b""
        while b"at work\n" not in said:
            data = await program.stderr.receive_some()
            assert data, said
            said += data
        # As from a terminal, SIGINT goes to all of them.
        number = getattr(signal, signal_name)
        os.killpg(program.pid, number) if signal_name == "SIGINT" else program.send_signal(number)
        await program.wait()
        # The process has this end of the pipe too: it closes when both have ended.
        while data := await program.stderr.receive_some():
            said += data
        await program.stderr.aclose()
    assert (b"KeyboardInterrupt" in said) == (signal_name == "SIGINT")
    assert b"__evenhand_child__" not in said, "the process was not interrupted, but ended"


ABANDONS = """
import threading

import trio

from actors import open_runtime

started = threading.Event()


def wait_for_ever(payload):
    started.set()
    threading.Event().wait()


async def main() -> None:
    async with open_runtime(workers=1) as runtime:
        runtime.handler("wait")(wait_for_ever)
        await runtime.submit("wait")
        await trio.to_thread.run_sync(started.wait)
        await runtime.stop(0)
    print(runtime.stats().lifetime.abandoned_threads)


trio.run(main)
"""


async def test_a_thread_that_was_abandoned_does_not_keep_the_program_from_ending(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(ABANDONS)
    ran = await run("program.py", cwd=tmp_path)
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, b"1\n", b"")
