"""Handlers in processes: real ones, on the real clock, waiting for what they say and never for time."""

import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from actors import Cause, InvalidConfig, RetryPolicy, Runtime, Status, Task, TaskFailed, open_runtime, process
from actors.process import name_of
from actors.trace import Progressed
from tests import process_handlers as handlers
from tests.observing import seeing

HANG_SECONDS = 30
AT_ONCE = RetryPolicy(max_retries=9, base_seconds=0.0)


@asynccontextmanager
async def one_worker(**options: Any) -> AsyncIterator[Runtime]:
    with trio.fail_after(HANG_SECONDS):
        async with open_runtime(workers=1, **options) as runtime:
            yield runtime


async def ended(runtime: Runtime, function: Any, payload: Any = None, **options: Any) -> Task:
    """The task that such a function, run in a process, was."""
    kind = function.__name__
    if kind not in runtime._engine.settings.handled:
        runtime.handler(kind, process=True, **options)(function)
    return await (await runtime.submit(kind, payload)).wait()


def is_alive(process_id: int) -> bool:
    try:
        os.kill(process_id, 0)
    except ProcessLookupError:
        return False
    return True


# What comes of it


async def test_a_process_returns_what_the_function_did() -> None:
    async with one_worker() as runtime:
        assert (await ended(runtime, handlers.double, 21)).result == 42
        assert (await ended(runtime, handlers.double_later, 21)).result == 42
        assert (await ended(runtime, handlers.Methods.triple, 21)).result == 63
        mirrored = runtime.handler("mirrored", process=True)(handlers.mirrored)
        assert await (await runtime.submit(mirrored, handlers.Point(1, 2))).result() == handlers.Point(2, 1)


async def test_a_process_is_kept_for_the_next_task_and_is_not_this_one() -> None:
    async with one_worker() as runtime:
        first, second = [(await ended(runtime, handlers.process_id)).result for _ in range(2)]
        assert first == second != os.getpid()


async def test_payloads_and_results_may_be_larger_than_a_pipe_holds() -> None:
    async with one_worker() as runtime:
        assert (await ended(runtime, handlers.length_of, "é" * 100_000)).result == 100_000
        result = (await ended(runtime, handlers.long_text, 100_000)).result
        assert result == "é" * 100_000


async def test_long_lines_from_many_threads_arrive_whole() -> None:
    async with one_worker() as runtime:
        seen = seeing(runtime)
        task = await ended(runtime, handlers.steps_from_threads, 20)
        assert task.status is Status.COMPLETED
        assert [len(event.progress) for event in seen.of(Progressed)] == [100_000] * 20


@pytest.mark.parametrize(
    ("what", "error"),
    [
        ("their own", "TheirError: boom"),
        ("give up", "the page is gone"),
        ("bad text", r"ValueError: caf\udce9"),
        ("group", "ExceptionGroup: both (2 sub-exceptions); ValueError: one; KeyError: 'two'"),
        ("ctrl-c", "KeyboardInterrupt: "),
        ("cancelled", "CancelledError: "),
    ],
)
async def test_what_a_function_raises_there_fails_its_task_here(what: str, error: str) -> None:
    async with one_worker() as runtime:
        task = await ended(runtime, handlers.raises, what, max_retries=0)
        assert (task.status, task.cause, task.error) == (Status.FAILED, Cause.FAILED, error)
        assert task.history[0].outcome == "failed"
        assert (await ended(runtime, handlers.double, 1)).result == 2, "and nothing else"


async def test_retry_policies_know_exceptions_of_the_process_by_name() -> None:
    async with one_worker() as runtime:
        retry = RetryPolicy(max_retries=2, base_seconds=0.0, give_up_on=("OSError",))
        task = await ended(runtime, handlers.raises, "their own", retry=retry)
        assert len(task.history) == 1, "TheirError is an OSError there"
        assert len((await ended(runtime, handlers.raises, "group")).history) == 3


async def test_a_function_may_ask_for_another_try_and_give_up_there_too() -> None:
    async with one_worker() as runtime:
        runtime.handler("raises", process=True)(handlers.raises)
        handle = await runtime.submit("raises", "retry")
        while not handle.task().history:
            await trio.lowlevel.checkpoint()
        task = handle.task()
        assert (task.status, task.error, (task.run_after or 0.0) - task.updated_at) == (Status.PENDING, "busy", 7.0)
        assert len((await ended(runtime, handlers.raises, "give up")).history) == 1


@pytest.mark.parametrize("what", ["object", "bad text"])
async def test_a_result_that_is_no_json_fails_the_task_for_good(what: str) -> None:
    async with one_worker() as runtime:
        task = await ended(runtime, handlers.returns, what, retry=AT_ONCE)
        assert (task.error or "").startswith("InvalidTask: result of 'returns' must be a JSON value, got ")
        assert len(task.history) == 1


async def test_a_function_that_cannot_be_found_there_fails_its_task(monkeypatch: pytest.MonkeyPatch) -> None:
    async with one_worker() as runtime:
        monkeypatch.setattr(handlers.double, "__qualname__", "triple")
        task = await ended(runtime, handlers.double, 1, max_retries=0)
        assert task.error == "AttributeError: module 'tests.process_handlers' has no attribute 'triple'"


# Standard input and output


async def test_what_a_function_prints_goes_to_standard_error_whole_and_does_not_disturb(
    capfd: pytest.CaptureFixture[str],
) -> None:
    async with one_worker() as runtime:
        assert (await ended(runtime, handlers.prints, "hello")).result == "returned"
        # Not even what had no newline is lost when the process is killed.
        task = await ended(runtime, handlers.dies, 1, max_retries=0)
        assert task.status is Status.FAILED
    output, error = capfd.readouterr()
    assert output == ""
    for line in ("hello\n", "hello, written\n", "hello, by another\n", "hello, unfinished"):
        assert line in error


async def test_a_function_that_reads_its_standard_input_finds_nothing_and_does_not_disturb() -> None:
    async with one_worker() as runtime:
        assert (await ended(runtime, handlers.reads)).result == ["", "\n"]
        assert (await ended(runtime, handlers.double, 1)).result == 2


# Processes that die


@pytest.mark.parametrize(("how", "status"), [(7, 7), (0, 0), ("SIGKILL", -9), ("SIGTERM", -15), ("SIGSEGV", -11)])
async def test_a_process_that_dies_has_crashed_and_takes_nothing_else_down(how: int | str, status: int) -> None:
    async with one_worker() as runtime:
        task = await ended(runtime, handlers.dies, how, max_retries=0)
        assert (task.status, task.error) == (Status.FAILED, f"ProcessDied: the process ended with status {status}")
        assert [attempt.outcome for attempt in task.history] == ["crashed"]
        assert (await ended(runtime, handlers.double, 1)).result == 2


async def test_a_task_that_takes_three_processes_down_is_poisoned() -> None:
    async with one_worker() as runtime:
        task = await ended(runtime, handlers.dies, "SIGKILL", retry=AT_ONCE)
        assert (task.cause, len(task.history)) == (Cause.POISONED, 3)


async def test_a_function_that_wants_to_end_the_process_has_crashed() -> None:
    async with one_worker() as runtime:
        task = await ended(runtime, handlers.raises, "exit", retry=AT_ONCE)
        assert (task.cause, task.error, len(task.history)) == (Cause.POISONED, "SystemExit: 3", 3)


async def test_a_process_that_dies_is_noticed_although_a_fork_of_it_lives(tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    async with one_worker() as runtime:
        task = await ended(runtime, handlers.dies_with_a_fork_alive, str(fifo), max_retries=0)
        assert task.error == "ProcessDied: the process ended with status 5"
        # Opened by the fork, or this would wait: it was alive all the time.
        await trio.to_thread.run_sync(fifo.write_text, "end")


async def test_a_process_that_died_between_two_tasks_is_nobodys_fault() -> None:
    async with one_worker() as runtime:
        first = (await ended(runtime, handlers.process_id)).result
        [executor] = runtime._engine.executors.values()
        running = executor._child._process
        assert running is not None
        running.kill()
        await running.wait()
        task = await ended(runtime, handlers.process_id)
        assert task.status is Status.COMPLETED
        assert task.result != first


# Stopping it


@pytest.mark.parametrize("why", ["timed out", "cancelled", "released"])
async def test_a_process_that_is_told_to_stop_is_killed(why: str, mock_clock: MockClock) -> None:
    # The real clock, which can be made to jump.
    mock_clock.rate = 1.0
    async with one_worker(stop_grace_seconds=0.0) as runtime:
        seen = seeing(runtime)
        timeout_seconds = 10.0 if why == "timed out" else None
        runtime.handler("wait", process=True, timeout_seconds=timeout_seconds, max_retries=0)(handlers.waits_for_ever)
        handle = await runtime.submit("wait")
        while not seen.of(Progressed):
            await trio.lowlevel.checkpoint()
        [progressed] = seen.of(Progressed)
        assert is_alive(progressed.progress)
        if why == "cancelled":
            await handle.cancel()
        elif why == "released":
            await runtime.stop()
        else:
            mock_clock.jump(10.0)
            await handle.wait()
        if why != "released":
            assert (await ended(runtime, handlers.double, 1)).result == 2, "the next task has a new process"
    assert not is_alive(progressed.progress)
    task = handle.task()
    assert (task.status, task.error) == {
        "timed out": (Status.FAILED, "timed out after 10 s"),
        "cancelled": (Status.CANCELLED, None),
        "released": (Status.PENDING, None),
    }[why]
    assert task.attempts == (0 if why == "released" else 1)


async def test_nothing_is_left_after_the_block() -> None:
    with trio.fail_after(HANG_SECONDS):
        async with open_runtime(workers=3) as runtime:
            runtime.handler("id", process=True)(handlers.process_id)
            found = {await (await runtime.submit("id")).result() for _ in range(6)}
    assert found
    assert not any(map(is_alive, found))


async def test_a_process_that_does_not_end_by_itself_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "_END_SECONDS", 0.0)
    async with one_worker() as runtime:
        found = (await ended(runtime, handlers.leaves_a_thread)).result
        assert is_alive(found)
    assert not is_alive(found)


# Names


def test_a_function_goes_by_its_module_and_name() -> None:
    assert name_of(handlers.Methods.triple) == ("tests.process_handlers:Methods.triple", None)


@pytest.fixture
def in_main(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A function that believes to be in the program itself, whatever that is here."""

    def function(payload: Any) -> None:
        """Does nothing."""

    function.__module__, function.__qualname__ = "__main__", "work"
    main = type(sys)("__main__")
    main.__spec__ = None
    monkeypatch.setitem(sys.modules, "__main__", main)
    return function


def test_a_function_of_a_script_goes_by_the_scripts_path(in_main: Any, tmp_path: Path) -> None:
    sys.modules["__main__"].__file__ = str(tmp_path / "script.py")
    assert name_of(in_main) == ("__main__:work", str((tmp_path / "script.py").resolve()))


def test_a_function_that_was_typed_in_cannot_run_in_a_process(in_main: Any) -> None:
    with pytest.raises(InvalidConfig, match=r"^handler 'work' must be in a module or a script to run in a process$"):
        name_of(in_main)


async def test_a_function_that_no_process_can_import_fails_its_task_for_good(in_main: Any) -> None:
    async with one_worker() as runtime:
        runtime.handler("work", process=True)(in_main)
        with pytest.raises(TaskFailed, match=r"after 1 execution: InvalidConfig: handler 'work' must be in a module"):
            await (await runtime.submit("work")).result()
